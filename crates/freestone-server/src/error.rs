//! The reasons why the server does not start, and what to do about them.

use std::fmt::Display;
use std::path::Path;

/// A configuration that cannot be served, with a hint.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ServerError {
    message: String,
    hint: Option<String>,
}

/// A result of the server's configuration and start.
pub type Result<T, E = ServerError> = std::result::Result<T, E>;

impl ServerError {
    /// An error without a hint.
    pub fn new(message: impl Into<String>) -> Self {
        ServerError { message: message.into(), hint: None }
    }

    /// The same error with a hint.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What the user can do about the error, if that is known.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    pub(crate) fn file(what: &str, path: &Path, reason: impl Display) -> Self {
        ServerError::new(format!("{what} {}: {reason}", path.display()))
    }
}
