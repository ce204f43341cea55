//! Pipes and devices as files. Their content is written to a temporary file first, because readers sample the beginning
//! of a file, and some formats begin at the end. Files that are converted before they are read go there, too.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::IngestError;

/// The content of a pipe, or of a converted file, in a file without a name.
#[derive(Debug, Clone)]
pub(crate) struct SpooledFile {
    path: PathBuf,
    /// The path is valid while this is open.
    file: Arc<File>,
}

impl SpooledFile {
    /// An empty file.
    pub fn new() -> io::Result<Self> {
        let file = unnamed_file()?;
        Ok(SpooledFile { path: PathBuf::from(format!("/dev/fd/{}", file.as_raw_fd())), file: Arc::new(file) })
    }

    /// The file, for writing.
    pub fn file(&self) -> &File {
        &self.file
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The complete content of a pipe or device; `None` if the path is a file, which can be read directly.
///
/// # Errors
/// The pipe cannot be read, or the disk is full.
pub(crate) fn spooled(path: &Path) -> Result<Option<SpooledFile>, IngestError> {
    let failed = |error: io::Error| IngestError::io(path, &error);
    let metadata = std::fs::metadata(path).map_err(failed)?;
    if metadata.is_file() || metadata.is_dir() {
        return Ok(None);
    }
    let mut from = File::open(path).map_err(failed)?;
    let kept = SpooledFile::new().map_err(failed)?;
    io::copy(&mut from, &mut kept.file()).map_err(failed)?;
    Ok(Some(kept))
}

/// A temporary file that is removed when it is closed.
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
