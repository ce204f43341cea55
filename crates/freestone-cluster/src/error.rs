//! What keeps a worker or a coordinator from starting: one line, and what to do about it.

use std::fmt::Display;
use std::path::Path;

/// A failed set-up.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ClusterError {
    message: String,
    hint: Option<String>,
}

/// The result of setting something up.
pub type Result<T, E = ClusterError> = std::result::Result<T, E>;

impl ClusterError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        ClusterError { message: message.into(), hint: None }
    }

    /// The error of a file that cannot be used.
    pub(crate) fn file(what: &str, path: &Path, reason: impl Display) -> Self {
        ClusterError::new(format!("{what} {}: {reason}", path.display()))
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What to do next, if that is known.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}
