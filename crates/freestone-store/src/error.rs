//! Errors of the store. Each says what was wrong, where, and what to do next.

use freestone_codec::CodecError;

use crate::log::LogError;

/// The reason why a store operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An error of the medium.
    #[error(transparent)]
    Medium(#[from] crate::media::MediumError),

    /// Bytes that this version cannot have written, or that no longer match their checksum.
    #[allow(missing_docs)]
    #[error("corrupt {file}, page {page}: {reason}")]
    CorruptPage { file: String, page: u64, reason: String },

    /// Damage outside pages: the commit log, a file's length.
    #[allow(missing_docs)]
    #[error("corrupt {file}: {reason}")]
    Corrupt { file: String, reason: String },

    /// An option, name or combination that is not valid. The message lists the valid ones.
    #[error("{0}")]
    Invalid(String),

    /// A filter of the caller failed.
    #[error("{0}")]
    Filter(Box<dyn std::error::Error + Send + Sync>),

    /// The values do not fit the table.
    #[error("{0}")]
    Constraint(String),

    /// Two rows with the same key, where a table allows one.
    #[allow(missing_docs)]
    #[error("duplicate key ({key}) in table {table}: {constraint} ({columns}) allows each key once")]
    DuplicateKey { table: String, constraint: String, columns: String, key: String },

    /// A row refers to a row that is not there.
    #[allow(missing_docs)]
    #[error("FOREIGN KEY ({columns}) of table {table}: the key ({key}) is not in table {referenced}")]
    MissingReference { table: String, columns: String, referenced: String, key: String },

    /// A row would go to which another one refers.
    #[allow(missing_docs)]
    #[error("FOREIGN KEY ({columns}) of table {table} still refers to the key ({key}) of table {referenced}")]
    StillReferenced { table: String, columns: String, referenced: String, key: String },

    /// The database is open read-only, or another process writes.
    #[error("{0}")]
    ReadOnly(String),

    /// An error of the commit log.
    #[error(transparent)]
    Log(#[from] LogError),

    /// A transaction that has committed in the meantime changed the same rows or names. Repeating this one may succeed.
    #[error("{0}")]
    Conflict(String),

    /// Transactions wait for each other: a deadlock.
    #[error("{0}")]
    Deadlock(String),

    /// A lock was not free within the time limit.
    #[error("{0}")]
    LockTimeout(String),

    /// The caller cancelled the wait.
    #[error("cancelled while waiting for another transaction")]
    Cancelled,

    /// The error of a group commit, which all its transactions get.
    #[error(transparent)]
    Shared(std::sync::Arc<StoreError>),

    #[allow(missing_docs)]
    #[error("cannot encode column {column}: {source}")]
    Encode { column: String, source: CodecError },
}

impl StoreError {
    /// Whether the medium is full, or what this user may write.
    pub fn is_full(&self) -> bool {
        match self {
            StoreError::Medium(error) => error.is_full(),
            StoreError::Log(LogError::CommitFailed { source, .. } | LogError::Medium(source)) => source.is_full(),
            StoreError::Shared(error) => error.is_full(),
            _ => false,
        }
    }

    pub(crate) fn page(file: &str, page: u64, reason: impl std::fmt::Display) -> Self {
        StoreError::CorruptPage { file: file.into(), page, reason: reason.to_string() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        StoreError::Invalid(message.into())
    }
}

/// A result of the store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;
