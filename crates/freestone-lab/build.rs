//! Gives the program the identity of its build, by which it tells the results of other builds from its own. It is made of sources
//! alone, so that the same sources give the same bytes.

use std::path::Path;

#[path = "src/identity.rs"]
mod identity;

fn main() {
    let root = Path::new("../..");
    let places = identity::places(root, "freestone-lab");
    println!("cargo:rerun-if-changed=build.rs");
    for place in &places {
        println!("cargo:rerun-if-changed={}", place.display());
    }
    let build = identity::of(root, &places).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=FREESTONE_LAB_BUILD={build}");
}
