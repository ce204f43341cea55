//! Pipes and devices as files: what comes from them is kept until it is read, since readers look at a file's start first, and
//! formats have an end to begin with.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::IngestError;

/// What came from a pipe, in a file without a name.
#[derive(Debug, Clone)]
pub(crate) struct SpooledFile {
    path: PathBuf,
    /// The path above is good as long as this is open.
    _file: Arc<File>,
}

impl SpooledFile {
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// What comes from a path to its end, where it is no file; `None` where it is one, which is read in its place.
///
/// # Errors
/// A pipe that cannot be read, and a disk that is full.
pub(crate) fn spooled(path: &Path) -> Result<Option<SpooledFile>, IngestError> {
    let failed = |error: io::Error| IngestError::io(path, &error);
    let metadata = std::fs::metadata(path).map_err(failed)?;
    if metadata.is_file() || metadata.is_dir() {
        return Ok(None);
    }
    let mut from = File::open(path).map_err(failed)?;
    let mut kept = unnamed_file().map_err(failed)?;
    io::copy(&mut from, &mut kept).map_err(failed)?;
    let path = PathBuf::from(format!("/dev/fd/{}", kept.as_raw_fd()));
    Ok(Some(SpooledFile { path, _file: Arc::new(kept) }))
}

/// A file in the folder for temporary files, which is gone when nothing has it open.
fn unnamed_file() -> io::Result<File> {
    let folder = std::env::temp_dir();
    let mut number = 0;
    loop {
        let path = folder.join(format!("freestone-{}-{number}.pipe", std::process::id()));
        match File::options().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}
