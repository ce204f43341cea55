//! Strips the shared library: Cargo (1.95) drops the profile's `strip` for packages that override another setting of it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--strip-all");
    }
}
