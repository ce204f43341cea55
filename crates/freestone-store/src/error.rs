//! Errors of the store. Each says what was wrong, where, and what to do next.

use freestone_codec::CodecError;

use crate::log::LogError;
use crate::media::MediumError;

/// The reason why a store operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An error of the medium.
    #[error(transparent)]
    Medium(#[from] MediumError),

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
    MissingReference { table: String, constraint: Box<str>, columns: Box<str>, referenced: Box<str>, key: String },

    /// A row would go to which another one refers.
    #[allow(missing_docs)]
    #[error("FOREIGN KEY ({columns}) of table {table} still refers to the key ({key}) of table {referenced}")]
    StillReferenced {
        table: Box<str>,
        constraint: Box<str>,
        columns: Box<str>,
        referenced: Box<str>,
        to_columns: Box<str>,
        key: String,
    },

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
        self.medium().is_some_and(MediumError::is_full)
    }

    /// Whether the file system can only be read.
    pub fn is_on_read_only_file_system(&self) -> bool {
        self.medium().is_some_and(|error| error.kind() == Some(std::io::ErrorKind::ReadOnlyFilesystem))
    }

    /// The error of the medium that is behind this one.
    fn medium(&self) -> Option<&MediumError> {
        match self {
            StoreError::Medium(error) => Some(error),
            StoreError::Log(LogError::CommitFailed { source, .. } | LogError::Medium(source)) => Some(source),
            StoreError::Shared(error) => error.medium(),
            _ => None,
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

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    #[test]
    fn the_state_of_a_file_system_is_told_through_other_errors() {
        let medium = |kind| MediumError::io("write", "log", Error::from(kind));
        for (kind, is_full, is_read_only) in [
            (ErrorKind::StorageFull, true, false),
            (ErrorKind::ReadOnlyFilesystem, false, true),
            (ErrorKind::PermissionDenied, false, false),
        ] {
            let errors = [
                StoreError::Medium(medium(kind)),
                StoreError::Log(LogError::Medium(medium(kind))),
                StoreError::Shared(std::sync::Arc::new(StoreError::Medium(medium(kind)))),
            ];
            for error in errors {
                assert_eq!(
                    (error.is_full(), error.is_on_read_only_file_system()),
                    (is_full, is_read_only),
                    "{error:?}"
                );
            }
        }
        assert!(!StoreError::Cancelled.is_full());
    }
}
