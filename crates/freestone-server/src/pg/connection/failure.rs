//! Why a message could not be answered.

use freestone::{Error, Statement};

use super::End;
use crate::pg::error::PgError;

/// The reason why a message failed: an error for the client, or the end of the connection.
#[derive(Debug)]
pub enum Failure {
    End(End),
    Error(PgError),
}

impl From<End> for Failure {
    fn from(end: End) -> Self {
        Failure::End(end)
    }
}

impl From<PgError> for Failure {
    fn from(error: PgError) -> Self {
        Failure::Error(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Error(error.into())
    }
}

impl Failure {
    /// Adds the line of a client's data that has the error.
    pub fn in_data(mut self, table: &str, line: Option<u64>) -> Failure {
        if let (Failure::Error(error), Some(line)) = (&mut self, line) {
            error.fields.push((b'W', format!("COPY {table}, line {line}")));
        }
        self
    }

    pub fn placed_in(self, sql: &str, statement: Option<&Statement>) -> Failure {
        match self {
            Failure::Error(error) => Failure::Error(error.placed_in(sql, statement)),
            end => end,
        }
    }
}
