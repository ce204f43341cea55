//! Strips the shared library, because Cargo (1.95) ignores the profile's `strip` for packages that override another
//! setting of the profile.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--strip-all");
    }
}
