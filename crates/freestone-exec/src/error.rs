//! Errors of a running query.

use freestone_store::StoreError;

/// Why a query failed.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A function, a conversion or a plan around the executor failed. The caller knows its type.
    #[error("{0}")]
    Foreign(Box<dyn std::error::Error + Send + Sync>),
    /// The query was cancelled.
    #[error("cancelled")]
    Cancelled,
}

/// The result of executing a part of a query.
pub type Result<T> = std::result::Result<T, ExecError>;

impl ExecError {
    /// An error of code that the executor calls.
    pub fn foreign(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ExecError {
        ExecError::Foreign(error.into())
    }
}
