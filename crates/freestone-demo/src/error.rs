//! Errors of the demo: the engine fails, a file cannot be written, or answers differ.

use std::path::{Path, PathBuf};

/// The reason why the demo, or an experiment's query, ended early.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The engine's own message.
    #[error("{0}")]
    Engine(#[from] freestone::Error),
    /// Generated data could not be written.
    #[error("{0}")]
    Data(#[from] freestone_data::WriteError),
    /// A folder or a report could not be read or written.
    #[error("cannot use {}: {source}; check that the folder exists, is writable and has room", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// Two layouts of the same rows gave different answers: a defect of the engine.
    #[error("{0}; this is a defect: please report it with the command that you ran")]
    Answers(String),
    /// The value of an option is not valid.
    #[error("{0}")]
    Usage(String),
}

/// A result of the demo.
pub type Result<T, E = DemoError> = std::result::Result<T, E>;

impl DemoError {
    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> DemoError {
        let path = path.to_owned();
        move |source| DemoError::File { path, source }
    }
}
