//! Passes the target and the versions in the lock file to `freestone --version`, and makes the binary smaller.

use std::path::Path;
use std::process::{Command, Stdio};

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
    link_small_binary();
}

/// Links without symbols, because Cargo ignores `strip` where a profile has another `opt-level` for the package, and with identical
/// functions only once, which most linkers can do. Functions of generic types are often identical.
/// With the variable `FREESTONE_SYMBOLS`, symbols stay, for profilers.
fn link_small_binary() {
    println!("cargo:rerun-if-env-changed=FREESTONE_SYMBOLS");
    if std::env::var_os("FREESTONE_SYMBOLS").is_some() {
        return;
    }
    let is_linux = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    let is_native = std::env::var("HOST").ok() == std::env::var("TARGET").ok();
    if !is_linux || std::env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    for argument in ["-Wl,--strip-all", "-Wl,--icf=all"] {
        if is_native && can_link_with(argument) {
            println!("cargo:rustc-link-arg-bins={argument}");
        }
    }
}

/// Links an empty program to find out whether the linker knows an argument.
fn can_link_with(argument: &str) -> bool {
    let folder = std::env::var("OUT_DIR").expect("Cargo sets OUT_DIR");
    let source = Path::new(&folder).join("empty.rs");
    if std::fs::write(&source, "fn main() {}").is_err() {
        return false;
    }
    let compiler = std::env::var("RUSTC").expect("Cargo sets RUSTC");
    let mut link = Command::new(compiler);
    link.arg(&source).arg("-o").arg(Path::new(&folder).join("empty")).arg("-C").arg(format!("link-arg={argument}"));
    link.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// The version of a package in the text of a lock file, which is on the line after the name.
fn version_of<'a>(package: &str, lock: &'a str) -> &'a str {
    let name = format!("name = \"{package}\"");
    let version = lock.lines().skip_while(|line| *line != name).nth(1);
    version.and_then(|line| line.split('"').nth(1)).unwrap_or("unknown")
}
