//! Passes the target and the versions in the lock file to `freestone --version`.

use std::path::Path;

fn main() {
    let lock_file = Path::new("../../Cargo.lock");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={}", lock_file.display());
    let lock = std::fs::read_to_string(lock_file).unwrap_or_default();
    println!("cargo:rustc-env=FREESTONE_DATAFUSION_VERSION={}", version_of("datafusion", &lock));
    println!("cargo:rustc-env=FREESTONE_ARROW_VERSION={}", version_of("arrow", &lock));
    for (name, variable) in [("FREESTONE_TARGET", "TARGET"), ("FREESTONE_PROFILE", "PROFILE")] {
        println!("cargo:rustc-env={name}={}", std::env::var(variable).unwrap_or_else(|_| "unknown".into()));
    }
}

/// The version of a package in the text of a lock file, which is on the line after the name.
fn version_of<'a>(package: &str, lock: &'a str) -> &'a str {
    let name = format!("name = \"{package}\"");
    let version = lock.lines().skip_while(|line| *line != name).nth(1);
    version.and_then(|line| line.split('"').nth(1)).unwrap_or("unknown")
}
