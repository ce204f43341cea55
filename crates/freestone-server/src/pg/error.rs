//! Errors in the form of PostgreSQL's protocol.

use freestone::Error;

use super::frame::{FrameError, Unread};
use crate::sqlstate;
use crate::text_place;

/// An error or a notice, with its SQLSTATE.
#[derive(Debug, Clone)]
pub struct PgError {
    pub severity: &'static str,
    pub code: &'static str,
    pub message: String,
    pub hint: Option<String>,
    /// The position in the text of the query, in characters, counted from 1.
    pub position: Option<usize>,
}

impl PgError {
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        PgError { severity: "ERROR", code, message: message.into(), hint: None, position: None }
    }

    /// An error that ends the connection.
    pub fn fatal(code: &'static str, message: impl Into<String>) -> Self {
        PgError { severity: "FATAL", ..PgError::new(code, message) }
    }

    pub fn notice(message: impl Into<String>) -> Self {
        PgError { severity: "NOTICE", ..PgError::new(sqlstate::SUCCESS, message) }
    }

    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        PgError { severity: "WARNING", ..PgError::new(code, message) }
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A message that is not understood, behind which the connection continues.
    pub fn unread(reason: &Unread) -> Self {
        match reason {
            Unread::Memory(reason) => {
                let message = format!("there is no memory for a message of the client: {reason}");
                let error = PgError::new(sqlstate::OUT_OF_MEMORY, message);
                error.with_hint("send values in smaller messages, or raise --memory-limit")
            }
            Unread::Fields(reason) => PgError::new(sqlstate::PROTOCOL_VIOLATION, *reason),
            Unread::Encoding => PgError::new(sqlstate::CHARACTER_NOT_IN_REPERTOIRE, FrameError::Encoding.to_string()),
        }
    }

    pub fn syntax(message: impl Into<String>) -> Self {
        PgError::new(sqlstate::SYNTAX_ERROR, message)
    }

    pub fn unsupported(message: impl Into<String>) -> Self {
        PgError::new(sqlstate::FEATURE_NOT_SUPPORTED, message)
    }

    /// Adds the position of a syntax error in the text that was parsed.
    pub fn placed_in(mut self, sql: &str) -> Self {
        let place = text_place::of_syntax_error(&self.message);
        self.position = place.and_then(|(line, column)| {
            let before: usize = sql.split_inclusive('\n').take(line.checked_sub(1)?).map(|l| l.chars().count()).sum();
            Some(before + column)
        });
        self
    }
}

impl From<Error> for PgError {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        let hint = error.hint().map(str::to_owned);
        PgError { severity: "ERROR", code: error.sqlstate(), message, hint, position: None }
    }
}

impl From<FrameError> for PgError {
    fn from(error: FrameError) -> Self {
        let code = match &error {
            FrameError::Encoding => sqlstate::CHARACTER_NOT_IN_REPERTOIRE,
            FrameError::TooLarge { .. } => sqlstate::PROGRAM_LIMIT_EXCEEDED,
            FrameError::Io(_) => sqlstate::CONNECTION_FAILURE,
            FrameError::Malformed(_) | FrameError::Kind(_) | FrameError::Slow => sqlstate::PROTOCOL_VIOLATION,
        };
        PgError::fatal(code, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syntax_errors_have_a_place() {
        let error = |message: &str| PgError::syntax(message).placed_in("ä\nSELECT x FROM").position;
        assert_eq!(error("syntax error at line 2, column 8: what"), Some(10));
        assert_eq!(error("syntax error at line 1, column 1: what"), Some(1));
        assert_eq!(error("syntax error: what"), None);
    }
}
