//! Errors of measuring, predicting and advising.

use std::path::PathBuf;

/// The result of the advisor's functions.
pub type Result<T, E = AdvisorError> = std::result::Result<T, E>;

/// The reason why measuring, predicting or advising failed.
#[derive(Debug, thiserror::Error)]
pub enum AdvisorError {
    /// A request that is not valid. The text says what is wrong and what to do.
    #[error("{0}")]
    Invalid(String),
    #[allow(missing_docs)]
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    /// A profile or workload that cannot be read.
    #[allow(missing_docs)]
    #[error("{}: not a {what}: {source}", path.display())]
    Format { path: PathBuf, what: &'static str, source: serde_json::Error },
    /// A profile of another version, which does not have the current measurements.
    #[allow(missing_docs)]
    #[error("{} is a profile of another version than {}; calibrate again", path.display(), crate::profile::VERSION)]
    Outdated { path: PathBuf },
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] freestone_store::StoreError),
}
