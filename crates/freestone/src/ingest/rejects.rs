//! The records of CSV files that are left out (`ignore_errors`), kept with the reason where that is wanted
//! (`store_rejects`).

use std::sync::Arc;

use parking_lot::Mutex;

use super::error::Reason;

/// The kinds of errors, with DuckDB's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RejectKind {
    Cast,
    MissingColumns,
    TooManyColumns,
    UnquotedValue,
    InvalidEncoding,
}

impl RejectKind {
    pub fn name(self) -> &'static str {
        match self {
            RejectKind::Cast => "CAST",
            RejectKind::MissingColumns => "MISSING COLUMNS",
            RejectKind::TooManyColumns => "TOO MANY COLUMNS",
            RejectKind::UnquotedValue => "UNQUOTED VALUE",
            RejectKind::InvalidEncoding => "INVALID ENCODING",
        }
    }

    /// The kind of a malformed record.
    pub fn of_record(reason: &Reason) -> RejectKind {
        match reason {
            Reason::FieldCount { found, expected } if found < expected => RejectKind::MissingColumns,
            Reason::FieldCount { .. } => RejectKind::TooManyColumns,
            Reason::InvalidUtf8 { .. } => RejectKind::InvalidEncoding,
            _ => RejectKind::UnquotedValue,
        }
    }
}

/// A record that was left out.
#[derive(Debug, Clone)]
pub(crate) struct Reject {
    /// The physical line, from 1, and its first byte in the file, from 1.
    pub line: u64,
    pub line_byte: u64,
    /// The column, from 1, and its name, as far as there is one.
    pub column: Option<u64>,
    pub name: Option<String>,
    pub kind: RejectKind,
    /// The record as it is in the file.
    pub text: String,
    pub message: String,
}

/// Receives the rejected records of one file.
#[derive(Debug, Clone)]
pub(crate) struct RejectSink {
    /// The maximum number of records; `None`: all of them.
    limit: Option<usize>,
    kept: Arc<Mutex<Vec<Reject>>>,
}

impl RejectSink {
    pub fn new(limit: Option<usize>) -> RejectSink {
        RejectSink { limit, kept: Arc::default() }
    }

    /// Keeps some records. Threads parse the parts of a file in any order, so with a limit the first ones are found at
    /// the end.
    pub fn add(&self, mut rejects: Vec<Reject>) {
        if rejects.is_empty() {
            return;
        }
        let mut kept = self.kept.lock();
        kept.append(&mut rejects);
        if let Some(limit) = self.limit.filter(|limit| kept.len() > 2 * limit + 1024) {
            kept.sort_by_key(|reject| reject.line);
            kept.truncate(limit);
        }
    }

    /// The records in the order of the file.
    pub fn rejects(&self) -> Vec<Reject> {
        let mut rejects = self.kept.lock().clone();
        rejects.sort_by_key(|reject| (reject.line, reject.column));
        rejects.truncate(self.limit.unwrap_or(usize::MAX));
        rejects
    }
}
