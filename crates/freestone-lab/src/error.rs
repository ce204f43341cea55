//! Errors of the laboratory: the engine fails, a file cannot be written, or answers differ.

use std::path::{Path, PathBuf};

/// The reason why an experiment ended early.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The engine's own message.
    #[error("{0}")]
    Engine(#[from] freestone::Error),
    /// Generated data could not be written.
    #[error("{0}")]
    Data(#[from] freestone_data::WriteError),
    /// A query of an experiment failed.
    #[error("{0}")]
    Query(#[from] freestone_demo::DemoError),
    /// A folder, a result or a report could not be read or written.
    #[error("cannot use {}: {source}; check that it exists, is writable and has room, and that no file is where a folder should be", path.display())]
    File { path: PathBuf, source: std::io::Error },
    /// A file in the results' folder is not a result.
    #[error("{} is no result of this version: {source}; run the experiment again", path.display())]
    Result { path: PathBuf, source: serde_json::Error },
    /// A result is of another version, whose measurements say nothing about this one.
    #[error(
        "{} is a result of {versions}, and this is {here}; measure again with `{command}`, move the file away, or use \
         `freestone-lab report --run`, which does both",
        path.display()
    )]
    OtherVersion { path: PathBuf, versions: String, here: String, command: String },
    /// A codec cannot store the values of an experiment.
    #[error("{case}: {source}")]
    Codec { case: &'static str, source: freestone_codec::CodecError },
    /// Two layouts of the same rows gave different answers: a defect of the engine.
    #[error("{0}; this is a defect: please report it with the command that you ran")]
    Answers(String),
    /// No experiment has this name.
    #[error("there is no experiment {name}; there are {known}")]
    Unknown { name: String, known: String },
    /// The machine has less than an experiment needs.
    #[error("{0}")]
    Lacks(String),
    /// `report` found no results.
    #[error("{} holds no results; run `freestone-lab run` first", path.display())]
    NoResults { path: PathBuf },
    /// A join cannot write or read what its memory does not hold.
    #[error(
        "{source}; a join writes there what its memory does not hold: make room, or name another folder with --output"
    )]
    Spill { source: freestone_store::media::MediumError },
    /// A network, or a program on it, does not meet an experiment's requirements.
    #[error("{0}")]
    Network(String),
    /// A process of a measurement failed. The measurement does not count; the run goes on.
    #[error("{0}")]
    Broken(String),
    /// Ctrl-C or SIGTERM.
    #[error("interrupted; what was measured is kept, and the same command continues")]
    Interrupted,
    /// Two results cannot be compared.
    #[error("{0}")]
    Compare(String),
    /// The value of an option is not valid.
    #[error("{0}")]
    Usage(String),
}

/// A result of the laboratory.
pub type Result<T, E = LabError> = std::result::Result<T, E>;

impl LabError {
    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> LabError {
        let path = path.to_owned();
        move |source| LabError::File { path, source }
    }
}
