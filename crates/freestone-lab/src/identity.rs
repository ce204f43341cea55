//! The identity of a build: a number of the sources of the crates that the laboratory links, of the versions of its dependencies, and
//! of the scripts that its experiments run. It needs no version control, and the same sources have the same number in every folder
//! and at every time. The build script includes this file, which therefore uses the standard library only.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What begins so in the folder `bench` is run by experiments.
const SCRIPTS: [&str; 2] = ["protocol", "export"];

/// The files and folders of which a build of the crate `name` is made, as far as they are there.
pub fn places(root: &Path, name: &str) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = ["Cargo.toml", "Cargo.lock"].map(|file| root.join(file)).into();
    for of in linked(root, name) {
        let folder = root.join("crates").join(of);
        places.extend(["Cargo.toml", "build.rs", "src"].map(|part| folder.join(part)));
    }
    let bench = root.join("bench");
    places.extend(["pmem/Cargo.toml", "pmem/build.rs", "pmem/src"].map(|part| bench.join(part)));
    places.extend(inside(&bench).into_iter().filter(|path| is_script(path)));
    places.retain(|path| path.exists());
    places
}

fn is_script(path: &Path) -> bool {
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    name.ends_with(".py") && SCRIPTS.iter().any(|begin| name.starts_with(begin))
}

/// A number of the content of some files, and of those in some folders, with their names. `None` if no file can be read.
pub fn of(root: &Path, places: &[PathBuf]) -> Option<String> {
    let mut all = vec![];
    places.iter().for_each(|place| files(place, &mut all));
    let (mut hash, mut is_empty) = (Hash::new(), true);
    for path in all {
        let Ok(content) = std::fs::read(&path) else { continue };
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        is_empty = false;
        hash.add(name.as_bytes());
        hash.add(&content);
    }
    (!is_empty).then(|| format!("{:016x}", hash.0))
}

/// A crate of the workspace, and all that it links, by the dependencies in their manifests.
fn linked(root: &Path, name: &str) -> BTreeSet<String> {
    let (mut found, mut open) = (BTreeSet::new(), vec![name.to_owned()]);
    while let Some(next) = open.pop() {
        let manifest = root.join("crates").join(&next).join("Cargo.toml");
        if found.insert(next) {
            open.extend(dependencies(&std::fs::read_to_string(manifest).unwrap_or_default()));
        }
    }
    found
}

/// The crates of this workspace that a manifest names as dependencies, without those for tests.
fn dependencies(manifest: &str) -> Vec<String> {
    let (mut is_wanted, mut names) = (false, vec![]);
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_wanted = line == "[dependencies]" || (line.starts_with("[target.") && line.ends_with(".dependencies]"));
        } else if is_wanted && line.starts_with("freestone") {
            names.extend(line.split(['.', ' ', '=']).next().map(str::to_owned));
        }
    }
    names
}

/// The file, or the files of the folder and of those within, in the order of their names.
fn files(path: &Path, found: &mut Vec<PathBuf>) {
    match path.is_dir() {
        true => inside(path).iter().for_each(|path| files(path, found)),
        false => found.push(path.to_owned()),
    }
}

/// The entries of a folder, in the order of their names.
fn inside(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    entries.sort();
    entries
}

/// FNV-1a of 64 bits, which is the same in every version of the compiler.
struct Hash(u64);

impl Hash {
    fn new() -> Hash {
        Hash(0xcbf2_9ce4_8422_2325)
    }

    /// Adds bytes, and their number, so that no two sequences of parts are alike.
    fn add(&mut self, bytes: &[u8]) {
        let length = (bytes.len() as u64).to_le_bytes();
        for byte in bytes.iter().chain(&length) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace of three crates, of which the laboratory links two, and a script.
    fn workspace(folder: &Path) {
        let write = |path: &str, text: &str| {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        write("Cargo.lock", "");
        let manifest = "[dependencies]\nfreestone-store = { workspace = true }\nserde = \"1\"\n\n[dev-dependencies]\nfreestone-cli.workspace = true\n";
        write("crates/freestone-lab/Cargo.toml", manifest);
        write("crates/freestone-lab/src/main.rs", "fn main() {}");
        write("crates/freestone-store/Cargo.toml", "");
        write("crates/freestone-store/src/scan/mod.rs", "mod cursor;");
        write("crates/freestone-cli/src/main.rs", "");
        write("bench/protocol.py", "1");
        write("bench/other.py", "1");
    }

    fn identity(folder: &Path) -> Option<String> {
        of(folder, &places(folder, "freestone-lab"))
    }

    #[test]
    fn the_same_sources_have_the_same_identity_in_every_folder() {
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a temporary folder"));
        folders.iter().for_each(|folder| workspace(folder.path()));
        let [one, other] = folders.each_ref().map(|folder| identity(folder.path()));
        assert!(one.as_ref().is_some_and(|identity| identity.len() == 16), "{one:?}");
        assert_eq!(one, other);
        assert_eq!(identity(Path::new("/no/such/folder")), None);
    }

    #[test]
    fn what_is_linked_or_run_changes_the_identity_and_nothing_else_does() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        workspace(folder.path());
        let before = identity(folder.path());
        let change = |path: &str| {
            std::fs::write(folder.path().join(path), "changed").expect("written");
            identity(folder.path())
        };
        assert_eq!(change("crates/freestone-cli/src/main.rs"), before);
        assert_eq!(change("bench/other.py"), before);
        let mut seen = vec![before];
        for path in ["crates/freestone-store/src/scan/mod.rs", "Cargo.lock", "bench/protocol.py"] {
            let after = change(path);
            assert!(!seen.contains(&after), "{path}");
            seen.push(after);
        }
        std::fs::rename(folder.path().join("bench/protocol.py"), folder.path().join("bench/protocol_b.py"))
            .expect("renamed");
        assert!(!seen.contains(&identity(folder.path())), "names count");
    }

    #[test]
    fn this_build_has_the_crates_that_it_links() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let linked = linked(&root, "freestone-lab");
        for name in ["freestone-lab", "freestone", "freestone-store", "freestone-codec", "freestone-wire"] {
            assert!(linked.contains(name), "{name} is not in {linked:?}");
        }
        assert!(!linked.contains("freestone-cli"), "{linked:?}");
        assert!(places(&root, "freestone-lab").iter().any(|path| path.ends_with("bench/protocol_verdicts.py")));
    }
}
