//! Errors of measuring, predicting and advising.

use std::path::PathBuf;

pub type Result<T, E = AdvisorError> = std::result::Result<T, E>;

/// The reason why measuring, predicting or advising failed.
#[derive(Debug, thiserror::Error)]
pub enum AdvisorError {
    /// A request that is not valid. The text says what is wrong and what to do.
    #[error("{0}")]
    Invalid(String),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    /// A profile or workload that cannot be read.
    #[error("{}: not a {what}: {source}", path.display())]
    Format { path: PathBuf, what: &'static str, source: serde_json::Error },
    /// A profile of another version, which does not have the current measurements.
    #[error("{} is a profile of another version than {}; calibrate again", path.display(), crate::profile::VERSION)]
    Outdated { path: PathBuf },
    #[error(transparent)]
    Store(#[from] freestone_store::StoreError),
}
