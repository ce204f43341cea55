//! Compiles PMDK's example trees as Debian's package has them, with the functions of `src/pmdk/table.c` around them.

fn main() {
    println!("cargo::rerun-if-changed=src/pmdk");
    #[cfg(feature = "pmdk")]
    {
        let trees = std::path::Path::new("/usr/share/doc/libpmemobj-dev/examples/tree_map");
        cc::Build::new()
            .include("src/pmdk")
            .include(trees)
            .file("src/pmdk/table.c")
            .files(["ctree_map.c", "btree_map.c"].map(|file| trees.join(file)))
            .flag_if_supported("-Wno-unused-parameter")
            .compile("pmdk_trees");
        println!("cargo::rustc-link-lib=pmemobj");
    }
}
