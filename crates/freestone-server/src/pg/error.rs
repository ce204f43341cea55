//! Errors as PostgreSQL's clients know them.

use freestone::{Error, ErrorKind};

use super::frame::FrameError;

/// An error or a notice, with its SQLSTATE.
#[derive(Debug, Clone)]
pub struct PgError {
    pub severity: &'static str,
    pub code: &'static str,
    pub message: String,
    pub hint: Option<String>,
    /// Where in the query's text, in characters from 1.
    pub position: Option<usize>,
}

impl PgError {
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        PgError { severity: "ERROR", code, message: message.into(), hint: None, position: None }
    }

    /// Ends the connection.
    pub fn fatal(code: &'static str, message: impl Into<String>) -> Self {
        PgError { severity: "FATAL", ..PgError::new(code, message) }
    }

    pub fn notice(message: impl Into<String>) -> Self {
        PgError { severity: "NOTICE", ..PgError::new("00000", message) }
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn syntax(message: impl Into<String>) -> Self {
        PgError::new("42601", message)
    }

    pub fn unsupported(message: impl Into<String>) -> Self {
        PgError::new("0A000", message)
    }

    /// Finds the place of a syntax error in the text that was parsed.
    pub fn placed_in(mut self, sql: &str) -> Self {
        let place = self.message.strip_prefix("syntax error at line ").and_then(|rest| {
            let (line, rest) = rest.split_once(", column ")?;
            let column = rest.split_once(':')?.0;
            Some((line.parse::<usize>().ok()?, column.parse::<usize>().ok()?))
        });
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
        PgError { severity: "ERROR", code: sqlstate(error.kind(), &message), message, hint, position: None }
    }
}

impl From<FrameError> for PgError {
    fn from(error: FrameError) -> Self {
        let code = match &error {
            FrameError::Encoding => "22021",
            FrameError::TooLarge { .. } => "54000",
            FrameError::Io(_) => "08006",
            FrameError::Malformed(_) | FrameError::Slow => "08P01",
        };
        PgError::fatal(code, error.to_string())
    }
}

/// The SQLSTATE of an error: of its kind, finer where its message tells.
pub fn sqlstate(kind: ErrorKind, message: &str) -> &'static str {
    let says = |parts: &[&str]| parts.iter().any(|part| message.contains(part));
    match kind {
        ErrorKind::Syntax => "42601",
        ErrorKind::NotFound if says(&["no column", "No field"]) => "42703",
        ErrorKind::NotFound if says(&["function"]) => "42883",
        ErrorKind::NotFound if says(&["prepared statement"]) => "26000",
        ErrorKind::NotFound if says(&["no setting"]) => "42704",
        ErrorKind::NotFound if says(&["no schema"]) => "3F000",
        ErrorKind::NotFound if says(&["no file"]) => "58P01",
        ErrorKind::NotFound => "42P01",
        ErrorKind::Exists if says(&["prepared statement"]) => "42P05",
        ErrorKind::Exists => "42P07",
        ErrorKind::Invalid if says(&["could come from several tables"]) => "42702",
        ErrorKind::Invalid if says(&["appears twice"]) => "42701",
        ErrorKind::Invalid if says(&["GROUP BY"]) => "42803",
        ErrorKind::Invalid => "22023",
        ErrorKind::Constraint if says(&["NOT NULL"]) => "23502",
        ErrorKind::Constraint => "23000",
        ErrorKind::Type if says(&["division by zero", "Divide by zero"]) => "22012",
        ErrorKind::Type if says(&["verflow", "out of range", "too large"]) => "22003",
        ErrorKind::Type if says(&["Cannot cast string", "parsing", "Can't cast value", "Cannot parse"]) => "22P02",
        ErrorKind::Type => "42804",
        ErrorKind::Unsupported => "0A000",
        ErrorKind::Io => "58030",
        ErrorKind::Corrupt => "XX001",
        ErrorKind::Resource => "53200",
        ErrorKind::Cancelled => "57014",
        ErrorKind::ReadOnly => "25006",
        ErrorKind::Denied => "42501",
        ErrorKind::Internal => "XX000",
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
