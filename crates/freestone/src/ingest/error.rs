//! Errors of files, with their place: file, line, row, column, value, expected type.
//!
//! Lines are physical lines from 1; a record's line is the one on which it begins. Rows are records from 1, without
//! header and empty lines. The first bad row in file order is reported, regardless of the number of threads.

use std::fmt::Write as _;
use std::path::Path;

use arrow::error::ArrowError;

use super::FileFormat;
use crate::error::{Error, ErrorKind};

/// An error of reading or converting data. `Display` is the message for the user, and [`IngestError::hint`] the hint.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", self.message())]
pub struct IngestError(Box<Details>);

impl From<IngestError> for Error {
    fn from(error: IngestError) -> Self {
        let kind = match &error.details().reason {
            Reason::NoFile | Reason::NoneFound(_) => ErrorKind::NotFound,
            Reason::Io(_) => ErrorKind::Io,
            Reason::Internal(_) => ErrorKind::Internal,
            Reason::UnknownFormat | Reason::Unsupported(_) => ErrorKind::Unsupported,
            Reason::Null => ErrorKind::Constraint,
            _ => ErrorKind::Type,
        };
        let Details { line, row, column, .. } = error.details();
        Error::new(kind, error.to_string()).with_hint(error.hint()).concerning(|subject| {
            (subject.line, subject.record) = (*line, *row);
            subject.column.clone_from(column);
        })
    }
}

/// The columns of a file, at most.
pub(crate) const COLUMNS_MAX: usize = 100_000;

/// The place and the reason of an error. Fields that do not apply to the format are `None`.
#[derive(Debug, Clone)]
pub struct Details {
    /// The name of the file, or of the statement (such as `INSERT`). May be empty.
    pub source: String,
    /// Physical line (from 1) on which the record starts: CSV and JSON only.
    pub line: Option<u64>,
    /// Record (from 1).
    pub row: Option<u64>,
    /// The name of the column.
    pub column: Option<String>,
    /// The reason.
    pub reason: Reason,
}

/// The reason why a file, a record or a value is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The file cannot be opened or read.
    Io(String),
    /// There is no file of the name.
    NoFile,
    /// No file matches a pattern, or is in a folder.
    NoneFound(String),
    /// The format cannot be determined from the extension.
    UnknownFormat,
    /// An invalid option, with the valid ones.
    BadOption(String),
    /// The bytes are not of the format, truncated or damaged.
    Malformed(String),
    /// The columns of the file do not match those of the table.
    ColumnMismatch(String),
    /// A type that cannot be read or converted.
    Unsupported(String),
    /// A record with another number of fields than the first one.
    #[allow(missing_docs)]
    FieldCount { found: usize, expected: usize },
    /// More columns than [`COLUMNS_MAX`].
    #[allow(missing_docs)]
    TooManyColumns { found: usize },
    /// A record whose quote is never closed.
    UnterminatedQuote,
    /// Bytes between a closing quote and the next delimiter.
    AfterQuote,
    /// A record that exceeds the limit `max_record_bytes`.
    #[allow(missing_docs)]
    RecordTooLong { limit_bytes: usize },
    /// Bytes that are no text in the encoding that an option says.
    NotEncoded(String),
    /// Not UTF-8, at this byte of the file (from 0).
    #[allow(missing_docs)]
    InvalidUtf8 { byte: u64 },
    /// NULL for a NOT NULL column.
    Null,
    /// A value that is refused by the column's type.
    #[allow(missing_docs)]
    Value { value: String, expected: String, problem: ValueProblem },
    /// The decoder stopped without a result: a bug, or a damaged file that the decoder did not foresee.
    Internal(String),
}

/// The problem of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueProblem {
    /// It cannot be parsed as the type.
    Syntax,
    /// It is outside of the range of the type.
    Range,
    /// It has digits (or a time of day) that the type cannot represent.
    Precision,
    /// It has a zone offset and the type has no zone.
    UnexpectedZone,
    /// It has no zone offset, and the type's zone has no fixed offset to assume.
    MissingZone,
    /// It is an array or an object.
    Nested,
}

impl IngestError {
    /// An error of a whole file.
    pub fn new(source: impl Into<String>, reason: Reason) -> Self {
        Self(Box::new(Details { source: source.into(), line: None, row: None, column: None, reason }))
    }

    pub(crate) fn io(path: &Path, error: &std::io::Error) -> Self {
        Self::new(path.display().to_string(), Reason::Io(error.to_string()))
    }

    pub(crate) fn at_line(mut self, line: u64) -> Self {
        self.0.line = Some(line);
        self
    }

    pub(crate) fn at_row(mut self, row: u64) -> Self {
        self.0.row = Some(row);
        self
    }

    pub(crate) fn without_row(mut self) -> Self {
        self.0.row = None;
        self
    }

    pub(crate) fn in_column(mut self, column: impl Into<String>) -> Self {
        self.0.column = Some(column.into());
        self
    }

    pub(crate) fn in_source(mut self, source: impl Into<String>) -> Self {
        self.0.source = source.into();
        self
    }

    pub(crate) fn with_reason(mut self, reason: Reason) -> Self {
        self.0.reason = reason;
        self
    }

    /// The parts of the message.
    pub fn details(&self) -> &Details {
        &self.0
    }

    /// What the user can do about the error.
    pub fn hint(&self) -> String {
        match &self.0.reason {
            Reason::Io(_) if self.0.source.contains("://") => {
                "check the URL, and the credentials, which come from CREATE SECRET or the environment".into()
            }
            Reason::Io(_) => "check that the file exists and may be read".into(),
            Reason::NoFile | Reason::NoneFound(_) if self.0.source.contains("://") => {
                "give the URL of a file, or for s3://, gs:// and az:// a pattern such as 's3://bucket/dir/*.parquet'".into()
            }
            Reason::NoFile | Reason::NoneFound(_) => {
                "give a file, a folder with data files in it, or a pattern such as 'dir/*.csv'".into()
            }
            Reason::UnknownFormat => match FileFormat::way_to_read(Path::new(&self.0.source)) {
                Some(way) => way.into(),
                None => "name the format: FORMAT csv, json, parquet or arrow (known extensions: .csv .tsv .tbl .json .ndjson \
                 .jsonl .parquet .pq .arrow .arrows .ipc .feather)"
                    .into(),
            },
            Reason::BadOption(_) => "see the options of COPY".into(),
            Reason::Malformed(_) => "check the file's format and that it was written completely".into(),
            Reason::ColumnMismatch(_) => "name the columns as the table does, or read the file with SELECT".into(),
            Reason::Unsupported(_) => "convert the column with a CAST in a SELECT over the file".into(),
            Reason::FieldCount { .. } => {
                "check the options DELIMITER, QUOTE, SKIP and COMMENT, and quote values that hold a delimiter; NULL_PADDING \
                 fills short lines, IGNORE_ERRORS leaves such lines out"
                    .into()
            }
            Reason::TooManyColumns { .. } => "check the options DELIMITER, QUOTE and SKIP".into(),
            Reason::UnterminatedQuote => "close the quote, or set another QUOTE if the character is plain text".into(),
            Reason::AfterQuote => "double a quote that is part of the value, or set ESCAPE".into(),
            Reason::RecordTooLong { .. } => "a quote that is never closed swallows the lines after it: check it".into(),
            Reason::InvalidUtf8 { .. } => {
                "say the encoding of a CSV file, such as ENCODING 'latin-1', 'windows-1252' or 'utf-16'; convert other \
                 files: iconv -f LATIN1 -t UTF-8"
                    .into()
            }
            Reason::NotEncoded(_) => "say another ENCODING, or convert the file with iconv".into(),
            Reason::Null => "declare the column without NOT NULL, or set NULL to the text that stands for it".into(),
            Reason::Value { problem, expected, .. } => problem.hint(expected),
            Reason::Internal(_) => "please report this with the file".into(),
        }
    }

    fn message(&self) -> String {
        let Details { source, line, row, column, reason } = self.details();
        let mut place: Vec<String> = Vec::new();
        if !source.is_empty() {
            place.push(source.clone());
        }
        // A wrong number of fields reads as a sentence about the line.
        if let (Reason::FieldCount { found, expected }, Some(line)) = (reason, line) {
            let plural = if *found == 1 { "" } else { "s" };
            place.push(format!("line {line} has {found} field{plural}, expected {expected}"));
            return place.join(", ");
        }
        match (line, row) {
            (Some(line), _) => place.push(format!("line {line}")),
            (None, Some(row)) => place.push(format!("row {row}")),
            (None, None) => {}
        }
        if let Some(column) = column {
            place.push(format!("column {column}"));
        }
        let mut text = place.join(", ");
        if !text.is_empty() {
            text.push_str(": ");
        }
        let _ = write!(text, "{reason}");
        text
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reason::Io(text)
            | Reason::NoneFound(text)
            | Reason::BadOption(text)
            | Reason::Malformed(text)
            | Reason::ColumnMismatch(text)
            | Reason::Unsupported(text)
            | Reason::NotEncoded(text)
            | Reason::Internal(text) => f.write_str(text),
            Reason::NoFile => f.write_str("no such file"),
            Reason::UnknownFormat => f.write_str("cannot tell the format from the file's name"),
            Reason::FieldCount { found, expected } => write!(f, "{found} fields, expected {expected}"),
            Reason::TooManyColumns { found } => {
                write!(f, "the first record has {found} fields, and a file may have {COLUMNS_MAX} columns")
            }
            Reason::UnterminatedQuote => f.write_str("a quote opened here is never closed"),
            Reason::AfterQuote => f.write_str("text after a closing quote"),
            Reason::RecordTooLong { limit_bytes } => {
                write!(f, "a record longer than {} MiB", limit_bytes.div_ceil(1 << 20))
            }
            Reason::InvalidUtf8 { byte } => write!(f, "invalid UTF-8 at byte {byte} of the file"),
            Reason::Null => f.write_str("NULL in a NOT NULL column"),
            Reason::Value { value, expected, problem } => {
                let value = shorten(value);
                let article = if expected.starts_with(['A', 'E', 'I', 'O']) { "an" } else { "a" };
                match problem {
                    ValueProblem::Syntax => write!(f, "'{value}' is not {article} {expected}"),
                    ValueProblem::Range => write!(f, "'{value}' is out of range for {article} {expected}"),
                    ValueProblem::Precision => write!(f, "'{value}' does not fit {article} {expected} without loss"),
                    ValueProblem::UnexpectedZone => write!(f, "'{value}' has a time zone, a {expected} has none"),
                    ValueProblem::MissingZone => write!(f, "'{value}' has no offset, needed for a {expected}"),
                    ValueProblem::Nested => write!(f, "nested value {value} is not {article} {expected}"),
                }
            }
        }
    }
}

impl ValueProblem {
    fn hint(self, expected: &str) -> String {
        match self {
            ValueProblem::Syntax if expected == "VARCHAR" => "declare the column as BLOB, which holds any bytes".into(),
            ValueProblem::Syntax => {
                format!("correct the value, declare the column as VARCHAR instead of {expected}, or set NULL")
            }
            ValueProblem::Range => "declare the column with a wider type".into(),
            ValueProblem::Precision => {
                "declare the column with more digits (or as TIMESTAMP), or round the value with CAST in a SELECT".into()
            }
            ValueProblem::UnexpectedZone => "declare the column as TIMESTAMP WITH TIME ZONE".into(),
            ValueProblem::MissingZone => "write the values with an offset such as +02:00".into(),
            ValueProblem::Nested => "read it as a text: declare the column as VARCHAR, which holds the JSON".into(),
        }
    }
}

/// The text of an Arrow error without its class.
pub(crate) fn arrow_text(error: &ArrowError) -> String {
    let text = error.to_string();
    match text.split_once(": ") {
        Some((class, rest)) if class.ends_with("error") && !rest.is_empty() => rest.to_string(),
        _ => text,
    }
}

const SHOWN_CHARS_MAX: usize = 60;

/// Cuts a value to about 60 characters and makes control characters visible, for one-line messages.
fn shorten(value: &str) -> String {
    let mut shown = String::new();
    for (index, c) in value.chars().enumerate() {
        if index == SHOWN_CHARS_MAX {
            shown.push('…');
            break;
        }
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}
