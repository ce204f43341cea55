//! Whether a database may be created in a folder: not among the files of others.

use std::fs;
use std::path::Path;

use crate::error::StoreError;

/// The number of names that an error shows.
const SHOWN: usize = 5;

/// Refuses a folder that has files or folders, other than those that an interrupted creation leaves and hidden ones.
///
/// # Errors
/// There are such files, or the folder cannot be read.
pub(super) fn check_vacant(folder: &Path) -> Result<(), StoreError> {
    let failed = |error: std::io::Error| {
        StoreError::from(crate::media::MediumError::io("list", folder.display().to_string(), error))
    };
    let mut names = vec![];
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !is_of_database(&name) && !name.starts_with('.') && name != "lost+found" {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            names.push(if is_folder { format!("{name}/") } else { name });
        }
    }
    if names.is_empty() {
        return Ok(());
    }
    names.sort_unstable();
    let more = match names.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names.truncate(SHOWN);
    Err(StoreError::Invalid(format!(
        "{} is no database, and not empty: it has {}{more}; name a database, or a folder that is empty or does not exist \
         yet",
        folder.display(),
        names.join(", ")
    )))
}

/// Whether a file may be there before the first commit.
fn is_of_database(name: &str) -> bool {
    let beginnings = ["LOCK", "PINS", "RESERVE", "CURRENT", "manifest-", "pool.", "workload.json"];
    beginnings.iter().any(|beginning| name.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let check = || check_vacant(folder.path()).map_err(|error| error.to_string());
        for name in ["LOCK", "CURRENT.tmp", "manifest-1.log", "PINS", ".hidden", "pool.pmem"] {
            fs::write(folder.path().join(name), "").expect("a file");
        }
        assert_eq!(check(), Ok(()));
        for name in ["b.csv", "c.csv", "d.csv", "e.csv", "f.csv"] {
            fs::write(folder.path().join(name), "").expect("a file");
        }
        fs::create_dir(folder.path().join("a")).expect("a folder");
        let error = check().expect_err("other files");
        assert!(error.contains("it has a/, b.csv, c.csv, d.csv, e.csv and 1 more; "), "{error}");
    }
}
