//! Database folders that this process creates: they stay only if something is stored in them, so that a mistyped name
//! leaves nothing behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use freestone::Database;

use crate::failure::{Failure, note};

/// A database that did not exist before this process.
pub struct NewDatabase {
    folder: PathBuf,
    database: Arc<Database>,
    /// The commit with which it was created.
    created: u64,
}

/// A folder in which nothing was stored.
pub struct Unused(PathBuf);

/// Whether this folder is a database to be created. Only the last part of its path may be missing.
///
/// # Errors
/// The folder above does not exist.
pub fn is_new(folder: &Path) -> Result<bool, Failure> {
    if folder.exists() {
        return Ok(false);
    }
    match folder.parent().filter(|above| !above.as_os_str().is_empty() && !above.is_dir()) {
        None => Ok(true),
        Some(above) => Err(Failure::with_hint(
            format!(
                "there is no database {}, and no folder {} in which to create it",
                folder.display(),
                above.display()
            ),
            format!("correct the path, or create the folder: mkdir -p {}", above.display()),
        )),
    }
}

impl NewDatabase {
    /// Remembers the state in which a database was created.
    pub fn new(folder: &Path, database: &Arc<Database>) -> Option<NewDatabase> {
        let created = last_commit(database)?;
        Some(NewDatabase { folder: folder.to_owned(), database: database.clone(), created })
    }

    /// The folder, if nothing was committed.
    pub fn unused(self) -> Option<Unused> {
        (last_commit(&self.database) == Some(self.created)).then_some(Unused(self.folder))
    }
}

impl Unused {
    /// Removes the folder. The database must be closed.
    pub fn remove(self) {
        if fs::remove_dir_all(&self.0).is_ok() {
            note(format_args!("note: nothing was stored, so no database {} was created", self.0.display()));
        }
    }
}

fn last_commit(database: &Database) -> Option<u64> {
    database.store().snapshot().ok().map(|snapshot| snapshot.sequence())
}
