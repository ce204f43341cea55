//! The statements of the repository's tests.

use std::path::{Path, PathBuf};

/// A statement of a test.
pub struct Case {
    /// The file and the line.
    #[allow(dead_code)]
    pub place: String,
    pub sql: String,
    /// Whether the test expects an error, which may be one of the engine.
    #[allow(dead_code)]
    pub fails: bool,
}

/// The statements of all `.slt` files of the workspace.
pub fn cases() -> Vec<Case> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of the crates");
    let mut files = vec![];
    collect(crates, &mut files);
    files.sort();
    assert!(files.len() > 50, "only {} files in {}", files.len(), crates.display());
    files.iter().flat_map(|file| cases_of(file)).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "slt") {
            files.push(path);
        }
    }
}

fn cases_of(file: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(file).expect("a file of tests");
    let mut lines = text.lines().enumerate();
    let mut cases = vec![];
    while let Some((at, line)) = lines.next() {
        if !line.starts_with("statement ") && !line.starts_with("query") {
            continue;
        }
        let body = lines.by_ref().map(|(_, line)| line).take_while(|line| !line.is_empty() && *line != "----");
        let sql = body.collect::<Vec<_>>().join("\n");
        let fails = line.split_whitespace().nth(1) == Some("error");
        cases.push(Case { place: format!("{}:{}", file.display(), at + 2), sql, fails });
    }
    cases
}
