//! Errors in the form of PostgreSQL's protocol.

use freestone::{Error, Statement};

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
    pub position: Position,
    /// Further fields, by their letters: what the error concerns.
    pub fields: Vec<(u8, String)>,
}

/// Where an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    Unknown,
    /// In the text of its statement, in bytes.
    InStatement(u32),
    /// In the text of the query, in characters, counted from 1.
    InQuery(u32),
}

impl PgError {
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        PgError {
            severity: "ERROR",
            code,
            message: message.into(),
            hint: None,
            position: Position::Unknown,
            fields: vec![],
        }
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

    /// The error of a statement of the engine, with its place in it.
    pub fn of(error: Error, statement: &Statement) -> Self {
        let offset = error.offset_in(&statement.text).and_then(|offset| u32::try_from(offset).ok());
        PgError { position: offset.map_or(Position::Unknown, Position::InStatement), ..error.into() }
    }

    /// Adds the position in the text that was parsed: of a syntax error, or of an error of one of its statements.
    pub fn placed_in(mut self, sql: &str, statement: Option<&Statement>) -> Self {
        let characters = |bytes: usize| sql.get(..bytes).map_or(0, |before| before.chars().count());
        let place = match (text_place::of_syntax_error(&self.message), self.position, statement) {
            (Some((line, column)), ..) => line
                .checked_sub(1)
                .map(|lines| characters(sql.split_inclusive('\n').take(lines).map(str::len).sum()) + column),
            (None, Position::InStatement(offset), Some(statement)) => {
                let start = text_place::of_part(sql, &statement.text, (statement.line, statement.column()));
                start.map(|start| characters(start + offset as usize) + 1)
            }
            _ => None,
        };
        let place = place.and_then(|place| u32::try_from(place).ok());
        self.position = place.map_or(Position::Unknown, Position::InQuery);
        self
    }
}

impl From<Error> for PgError {
    fn from(error: Error) -> Self {
        let error_fields = fields(&error);
        let hint = error.hint().map(str::to_owned);
        let message = error.to_string();
        PgError { hint, fields: error_fields, ..PgError::new(state(error.sqlstate(), &message), message) }
    }
}

/// Parts of messages about statements that PostgreSQL counts as wrong in form.
const WRONG_WIDTHS: [&str; 5] = [
    " values, expected ",
    " columns, expected ",
    " is assigned twice",
    "a subquery here has one column, not ",
    "the queries of a set operation have ",
];

/// The state that PostgreSQL gives to an error of the engine.
fn state(state: &'static str, message: &str) -> &'static str {
    let says = |parts: &[&str]| parts.iter().any(|part| message.contains(part));
    match state {
        sqlstate::INVALID_DATETIME_FORMAT if has_fields_out_of_range(message) => sqlstate::DATETIME_FIELD_OVERFLOW,
        sqlstate::INVALID_PARAMETER_VALUE if says(&WRONG_WIDTHS) => sqlstate::SYNTAX_ERROR,
        other => other,
    }
}

/// Whether a text that is no date or time, which a message quotes, has the form of one: such as `2023-02-29` or `25:00`.
fn has_fields_out_of_range(message: &str) -> bool {
    let Some(text) = message.split('\'').nth(1) else { return false };
    let is_sign = |c: char| c.is_ascii_digit() || "-:./+ TZ".contains(c);
    let fields = text.trim().split(|c: char| !c.is_ascii_digit()).filter(|field| !field.is_empty()).count();
    fields >= 2 && text.starts_with(|c: char| c.is_ascii_digit()) && text.trim().chars().all(is_sign)
}

/// The fields that say what an error concerns. As in PostgreSQL, those of violated constraints have names.
fn fields(error: &Error) -> Vec<(u8, String)> {
    let subject = error.subject();
    let is_violation = error.sqlstate().starts_with("23");
    let table = subject.table.as_deref().filter(|_| is_violation);
    let (schema, own) = table.map(|table| table.rsplit_once('.').unwrap_or(("public", table))).unzip();
    let column = subject.column.as_deref().filter(|_| is_violation);
    [
        (b'D', subject.detail.as_deref()),
        (b's', schema.map(|schema| if schema == "main" { "public" } else { schema })),
        (b't', own),
        (b'c', column),
        (b'n', subject.constraint.as_deref()),
    ]
    .into_iter()
    .filter_map(|(letter, value)| Some((letter, value?.to_owned())))
    .collect()
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
    fn fields_out_of_range_are_no_wrong_format() {
        for (message, expected) in [
            ("invalid DATE: '2023-02-29'", "22008"),
            ("invalid TIME: '25:00:00'", "22008"),
            ("invalid TIMESTAMP: '2023-13-01 00:00:00+02'", "22008"),
            ("invalid DATE: 'xx'", "22007"),
            ("invalid DATE: '7'", "22007"),
            ("invalid DATE: ''", "22007"),
            ("invalid DATE: '2023-02-xx'", "22007"),
        ] {
            assert_eq!(state("22007", message), expected, "{message}");
        }
        assert_eq!(state("22023", "row 1 has 2 values, expected 1"), "42601");
        assert_eq!(state("22023", "something else"), "22023");
    }

    #[test]
    fn syntax_errors_have_a_place() {
        let error = |message: &str| PgError::syntax(message).placed_in("ä\nSELECT x FROM", None).position;
        assert_eq!(error("syntax error at line 2, column 8: what"), Position::InQuery(10));
        assert_eq!(error("syntax error at line 1, column 1: what"), Position::InQuery(1));
        assert_eq!(error("syntax error: what"), Position::Unknown);
    }
}
