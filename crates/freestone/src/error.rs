//! The error type that users of the engine see: what is wrong, where, and a hint about what to do next.

mod in_sql;
mod subject;
mod words;

use std::sync::Arc;

use datafusion::arrow::error::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use freestone_advisor::AdvisorError;
use freestone_sql::SyntaxError;
use freestone_store::StoreError;
use freestone_store::log::LogError;
use parquet::errors::ParquetError;
use std::borrow::Cow;

use crate::internal_names::{MARK, ROW_ID_COLUMN, is_temporary, without_marks};
pub(crate) use in_sql::in_sql;
pub use subject::Subject;
use words::plain;

/// The kind of an error, for callers that react to it (exception classes, SQLSTATEs).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The statement is not SQL that this version reads.
    Syntax,
    /// A table, view, column, function, file or prepared statement that does not exist.
    NotFound,
    /// A name that is already taken.
    Exists,
    /// A statement or option that can be parsed but has no meaning.
    Invalid,
    /// Values that violate the table's constraints.
    Constraint,
    /// A value that does not fit its type, or types that do not fit each other.
    Type,
    /// Something that this version does not have.
    Unsupported,
    /// An error of the operating system.
    Io,
    /// Damaged bytes in the database.
    Corrupt,
    /// A memory or disk limit was reached.
    Resource,
    /// The user cancelled the statement.
    Cancelled,
    /// A write on a database that is open for reading only, or that another process writes.
    ReadOnly,
    /// The session does not have the right to do this.
    Denied,
    /// A transaction that has committed in the meantime changed the same rows or names. Repeating this one may succeed.
    Conflict,
    /// Transactions would wait for each other forever.
    Deadlock,
    /// Another transaction holds a lock for too long.
    LockTimeout,
    /// The statement does not fit the state of the session's transaction.
    Transaction,
    /// Workers of a cluster were lost again and again while they had parts of the statement.
    Cluster,
    /// A bug of Freestone.
    Internal,
}

/// A failed statement: kind, message and, if possible, a hint.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    /// The line of the statement that has the error, and a caret below it.
    excerpt: Option<String>,
    /// What a function of the program around the engine failed with.
    cause: Option<Arc<dyn std::error::Error + Send + Sync>>,
    subject: Option<Box<Subject>>,
}

/// The result of the engine's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error without a hint.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), hint: None, excerpt: None, cause: None, subject: None }
    }

    /// Adds the place before the message.
    pub(crate) fn at(mut self, place: &str) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// Adds what the user can do about it.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds what the program around the engine knows of it.
    pub fn with_cause(mut self, cause: Arc<dyn std::error::Error + Send + Sync>) -> Self {
        self.cause = Some(cause);
        self
    }

    /// What a function of the program around the engine failed with.
    pub fn cause(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        self.cause.as_deref()
    }

    /// The same error with other words in the message and the hint.
    pub(crate) fn replacing(mut self, from: &str, to: &str) -> Self {
        self.message = self.message.replace(from, to);
        self.hint = self.hint.map(|hint| hint.replace(from, to));
        if let Some(subject) = &mut self.subject {
            subject.replacing(from, to);
        }
        self
    }

    /// The error of a text that is no statement. `line` and `column` are those of its first word in the script.
    pub(crate) fn of_syntax(error: &SyntaxError, text: &str, line: u64, column: u64) -> Error {
        let place = error.location(text);
        let (own_line, own_column) = (place.line as u64, place.column as u64);
        let column = if own_line == 1 { own_column + column.saturating_sub(1) } else { own_column };
        let line = own_line + line.saturating_sub(1);
        if let Cow::Owned(_) = freestone_sql::without_secrets(text) {
            // What was found there may be secret.
            return Error::syntax(format!("syntax error at line {line}, column {column} of CREATE SECRET")).with_hint(
                "the form is CREATE SECRET name (TYPE s3, KEY_ID '…', SECRET '…', REGION '…', SCOPE 's3://…')",
            );
        }
        let found = Error::syntax(format!("syntax error at line {line}, column {column}: {error}"));
        Error { hint: error.hint.clone(), excerpt: Some(error.excerpt(text)), ..found }
    }

    /// Adds the line of the statement that has the error, with a caret below it.
    pub(crate) fn with_excerpt(mut self, excerpt: String) -> Error {
        self.excerpt.get_or_insert(excerpt);
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The line of the statement that has the error, with a caret in the line below, where that is known.
    pub fn excerpt(&self) -> Option<&str> {
        self.excerpt.as_deref()
    }

    /// What to do next, if that is known.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    pub(crate) fn syntax(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Syntax, message)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Invalid, message)
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Unsupported, message)
    }

    /// The error of a statement that was cancelled.
    pub fn cancelled() -> Self {
        Error::new(ErrorKind::Cancelled, "the statement was cancelled")
    }

    /// The error that `what` does not exist. The hint names the most similar candidate, or lists the candidates if they
    /// are few.
    pub(crate) fn not_found<'a>(what: &str, name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Self {
        // What belongs to sessions is not for others to know.
        let candidates: Vec<&str> = candidates.into_iter().filter(|name| !is_temporary(name)).collect();
        let error = Error::new(ErrorKind::NotFound, format!("no {what} {name}"));
        match closest(name, &candidates) {
            Some(similar) => error.with_hint(format!("did you mean {similar}?")),
            None if !candidates.is_empty() && candidates.len() <= 20 => {
                error.with_hint(format!("there are: {}", candidates.join(", ")))
            }
            None => error,
        }
    }

    /// The error of a reference to a name that several columns have.
    pub(crate) fn ambiguous(name: &str) -> Error {
        Error::invalid(format!("column {name} is ambiguous: several columns have this name"))
            .with_hint("give each a name of its own with AS")
    }
}

impl Error {
    /// An error of DataFusion, which the caller keeps.
    pub(crate) fn of(error: &DataFusionError) -> Error {
        translate(error)
    }
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        translate(&error)
    }
}

impl From<ArrowError> for Error {
    fn from(error: ArrowError) -> Self {
        translate_arrow(&error)
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        translate_store(&error)
    }
}

impl From<AdvisorError> for Error {
    fn from(error: AdvisorError) -> Self {
        match error {
            AdvisorError::Store(error) => error.into(),
            AdvisorError::File { .. } => Error::new(ErrorKind::Io, error.to_string()),
            AdvisorError::Format { .. } => Error::new(ErrorKind::Io, error.to_string())
                .with_hint("nothing else depends on this file: remove it and run CALIBRATE again"),
            AdvisorError::Outdated { .. } => Error::invalid(error.to_string()),
            AdvisorError::Invalid(text) => Error::invalid(text),
        }
    }
}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

/// The innermost error, without the wrappers that only add context.
fn root(error: &DataFusionError) -> &DataFusionError {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => root(inner),
        DataFusionError::Shared(inner) => root(inner),
        DataFusionError::Collection(errors) => errors.first().map_or(error, root),
        other => other,
    }
}

fn translate(error: &DataFusionError) -> Error {
    match root(error) {
        DataFusionError::ArrowError(inner, _) => translate_arrow(inner),
        DataFusionError::External(inner) => translate_external(inner.as_ref()),
        DataFusionError::SchemaError(inner, _) => translate_schema(inner),
        DataFusionError::Plan(message) => translate_plan(message),
        DataFusionError::NotImplemented(message) => Error::unsupported(clean(message)),
        DataFusionError::ResourcesExhausted(message) => Error::new(ErrorKind::Resource, clean(shortage(message)))
            .with_hint("raise --memory-limit, or use fewer --threads so that each has more"),
        // A task of the query that panicked.
        DataFusionError::Execution(message) if message.contains(" panicked with message ") => internal(clean(message)),
        DataFusionError::Execution(message) | DataFusionError::Configuration(message) => Error::invalid(clean(message)),
        DataFusionError::IoError(inner) => Error::new(ErrorKind::Io, inner.to_string()),
        DataFusionError::ObjectStore(inner) => Error::new(ErrorKind::Io, inner.to_string()),
        DataFusionError::ExecutionJoin(inner) if inner.is_cancelled() => Error::cancelled(),
        DataFusionError::Internal(message) if OF_USERS.iter().any(|part| message.contains(part)) => {
            Error::new(ErrorKind::Type, clean(message))
        }
        other => internal(clean(&other.strip_backtrace())),
    }
}

/// What memory was missing. A pool that tracks its consumers writes a list of the largest before it.
fn shortage(message: &str) -> &str {
    message.rsplit_once("\nError: ").map_or(message, |(_, reason)| reason)
}

/// Parts of internal errors of DataFusion that are what a user has written, and no defect: functions and operators that do
/// not take such types, or lists not such lengths and steps.
const OF_USERS: [&str; 6] = [
    "failed to match any signature",
    "Failed to coerce types",
    "Cannot run range queries on datatype",
    "could not cast array of type",
    "failed to convert size to usize",
    "got invalid stride",
];

fn translate_external(error: &(dyn std::error::Error + Send + Sync + 'static)) -> Error {
    if let Some(inner) = error.downcast_ref::<Error>() {
        inner.clone()
    } else if let Some(inner) = error.downcast_ref::<StoreError>() {
        translate_store(inner)
    } else if let Some(inner) = error.downcast_ref::<DataFusionError>() {
        translate(inner)
    } else if let Some(inner) = error.downcast_ref::<ArrowError>() {
        translate_arrow(inner)
    } else if let Some(inner) = error.downcast_ref::<ParquetError>() {
        Error::new(ErrorKind::Io, format!("cannot read Parquet: {inner}"))
    } else {
        let message = error.to_string();
        let kind = if message.starts_with("regex parse error") { ErrorKind::Invalid } else { ErrorKind::Io };
        Error::new(kind, plain(&message))
    }
}

fn translate_arrow(error: &ArrowError) -> Error {
    match error {
        ArrowError::ExternalError(inner) => translate_external(inner.as_ref()),
        ArrowError::DivideByZero => Error::new(ErrorKind::Type, "division by zero"),
        ArrowError::CastError(message)
        | ArrowError::ParseError(message)
        | ArrowError::ComputeError(message)
        | ArrowError::InvalidArgumentError(message)
        | ArrowError::ArithmeticOverflow(message) => Error::new(ErrorKind::Type, clean(message)),
        ArrowError::IoError(message, _) => Error::new(ErrorKind::Io, clean(message)),
        ArrowError::MemoryError(message) => Error::new(ErrorKind::Resource, clean(message)),
        ArrowError::CsvError(message) => Error::new(ErrorKind::Io, format!("cannot read CSV: {message}")),
        ArrowError::JsonError(message) => Error::new(ErrorKind::Io, format!("cannot read JSON: {message}")),
        ArrowError::ParquetError(message) => Error::new(ErrorKind::Io, format!("cannot read Parquet: {message}")),
        ArrowError::IpcError(message) => Error::new(ErrorKind::Io, format!("cannot read Arrow: {message}")),
        ArrowError::NotYetImplemented(message) => Error::unsupported(clean(message)),
        other => Error::invalid(clean(&other.to_string())),
    }
}

fn translate_store(error: &StoreError) -> Error {
    match error {
        StoreError::Filter(inner) => return translate_external(inner.as_ref()),
        StoreError::Shared(inner) => return translate_store(inner),
        StoreError::Cancelled => return Error::cancelled(),
        _ => {}
    }
    let kind = match error {
        error if error.is_on_read_only_file_system() => ErrorKind::ReadOnly,
        StoreError::Conflict(_) => ErrorKind::Conflict,
        StoreError::Deadlock(_) => ErrorKind::Deadlock,
        StoreError::LockTimeout(_) => ErrorKind::LockTimeout,
        StoreError::Cancelled | StoreError::Shared(_) => ErrorKind::Internal,
        StoreError::Medium(_) => ErrorKind::Io,
        StoreError::Log(LogError::Damaged { .. } | LogError::CurrentMissing { .. }) => ErrorKind::Corrupt,
        StoreError::Log(LogError::GenerationMissing { .. } | LogError::NothingToRepair { .. }) => ErrorKind::Corrupt,
        StoreError::Log(LogError::NoDatabase { .. }) => ErrorKind::NotFound,
        StoreError::Log(LogError::Busy { .. }) => ErrorKind::ReadOnly,
        StoreError::Log(LogError::Version { .. } | LogError::Unfit { .. }) => ErrorKind::Unsupported,
        StoreError::Log(LogError::NotEmpty { .. }) => ErrorKind::Invalid,
        StoreError::Log(LogError::Lapsed { .. }) => ErrorKind::Conflict,
        StoreError::Log(_) => ErrorKind::Io,
        StoreError::CorruptPage { .. } | StoreError::Corrupt { .. } => ErrorKind::Corrupt,
        StoreError::Invalid(_) | StoreError::Filter(_) => ErrorKind::Invalid,
        StoreError::Constraint(_) | StoreError::DuplicateKey { .. } => ErrorKind::Constraint,
        StoreError::MissingReference { .. } | StoreError::StillReferenced { .. } => ErrorKind::Constraint,
        StoreError::ReadOnly(_) => ErrorKind::ReadOnly,
        StoreError::Encode { .. } => ErrorKind::Internal,
    };
    let subject = subject::of_store(error).map(Box::new);
    let translated = Error { subject, ..Error::new(kind, error.to_string()) };
    match kind {
        _ if error.is_full() => translated.with_hint(
            "DROP TABLE, DELETE, TRUNCATE and VACUUM make space: they work on a full disk; or remove other files",
        ),
        ErrorKind::Corrupt if !matches!(error, StoreError::Log(_)) => {
            translated.with_hint("CHECK lists all that is damaged; restore the named file from a copy")
        }
        ErrorKind::Conflict | ErrorKind::Deadlock => translated.with_hint("roll the transaction back and repeat it"),
        ErrorKind::LockTimeout => translated.with_hint("wait for the other transaction to end, or raise lock_timeout"),
        _ => translated,
    }
}

fn translate_schema(error: &SchemaError) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let wanted = plain_name(field);
            let qualified = field.relation.is_some();
            let mut candidates: Vec<String> = vec![];
            let shared = |valid: &datafusion::common::Column| {
                valid.name.split_once(MARK).is_some_and(|(name, _)| name == field.name)
            };
            if valid_fields.iter().any(shared) {
                return Error::ambiguous(&wanted);
            }
            // The rows of a write's target have an internal column.
            for valid in valid_fields.iter().filter(|valid| valid.name != ROW_ID_COLUMN) {
                let name = if qualified { plain_name(valid) } else { valid.name().to_owned() };
                let name = in_sql(&without_marks(&name));
                if !candidates.contains(&name) {
                    candidates.push(name);
                }
            }
            Error::not_found("column", &wanted, candidates.iter().map(String::as_str))
        }
        SchemaError::AmbiguousReference { field } => {
            Error::invalid(format!("column {} could come from several tables", plain_name(field)))
                .with_hint("write the table's name before it")
        }
        SchemaError::DuplicateQualifiedField { name, .. } | SchemaError::DuplicateUnqualifiedField { name } => {
            Error::invalid(format!("column {name} appears twice")).with_hint("name one of them differently with AS")
        }
    }
}

/// A column's name as the user would write it: without our only catalog and schema.
fn plain_name(column: &datafusion::common::Column) -> String {
    match &column.relation {
        Some(relation) => format!("{}.{}", relation.table(), column.name),
        None => column.name.clone(),
    }
}

fn translate_plan(message: &str) -> Error {
    if let Some((what, suggestion)) = message.split_once("\nDid you mean ") {
        let hint = format!("did you mean {}", suggestion.trim_end_matches('.').replace('\'', ""));
        return Error::new(ErrorKind::NotFound, lower_first(what.trim_end_matches('.'))).with_hint(hint);
    }
    if let Some((given, row, expected)) = value_count(message) {
        return Error::invalid(format!("row {row} has {given} values, expected {expected}"));
    }
    if let Some(function) = file_function(message) {
        let way = ["xls", "excel", "ods"].iter().any(|kind| function.contains(kind));
        let way = way.then_some("name the file: FROM 'file.xlsx', or read_xlsx('file.xlsx', sheet => 'name')");
        return Error::new(ErrorKind::NotFound, format!("no table function {function}"))
            .with_hint(way.unwrap_or("name the file itself: FROM 'file.csv', 'file.parquet', 'folder/*.json'"));
    }
    const OF_TYPES: [&str; 10] = [
        "coerce",
        "coercion failed",
        "No function matches",
        "Cannot infer common",
        "type mismatch",
        "types are not compatible",
        "Unsupported CAST",
        "non-boolean predicate",
        "Inconsistent data type",
        "Incompatible inputs for Union",
    ];
    let kind = if OF_TYPES.iter().any(|part| message.contains(part)) { ErrorKind::Type } else { ErrorKind::Invalid };
    let error = Error::new(kind, clean(message));
    match kind {
        ErrorKind::Type if message.starts_with("Cannot infer common") => {
            error.with_hint("cast one of the operands: CAST(x AS type)")
        }
        _ => error,
    }
}

/// For a VALUES list with rows of different lengths: the number of values, the row from 1, and the expected number.
fn value_count(message: &str) -> Option<(usize, usize, usize)> {
    let rest = message.strip_prefix("Inconsistent data length across values list: got ")?;
    let (given, rest) = rest.split_once(" values in row ")?;
    let (row, expected) = rest.split_once(" but expected ")?;
    Some((given.parse().ok()?, row.parse::<usize>().ok()? + 1, expected.trim_end().parse().ok()?))
}

/// The function by which other systems read a file, if a message reports it as missing.
fn file_function(message: &str) -> Option<&str> {
    let name = message.strip_prefix("table function '")?.split_once("' not found")?.0;
    ["read_", "parquet_", "scan_"].iter().any(|prefix| name.starts_with(prefix)).then_some(name)
}

fn internal(message: String) -> Error {
    Error::new(ErrorKind::Internal, format!("internal error: {message}"))
        .with_hint("this is a bug; please report the statement that shows it")
}

/// Removes back traces, and what libraries add to messages.
fn clean(message: &str) -> String {
    let message = message.split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or(message);
    let message = plain(message);
    without_marks(&out_of_range(&message).unwrap_or_else(|| without_structs(&message)))
}

/// The message `Int64Array overflow on abs(x)` in the words of the other operations.
fn out_of_range(message: &str) -> Option<String> {
    let (array, call) = message.split_once("Array overflow on ")?;
    let name = match array {
        "Int8" => "TINYINT",
        "Int16" => "SMALLINT",
        "Int32" => "INTEGER",
        "Int64" => "BIGINT",
        _ => return None,
    };
    Some(format!("{call} is out of range for {name}"))
}

/// The message with the names and values that the user wrote in place of the debug text of the parser's structs.
fn without_structs(message: &str) -> String {
    const STRUCTS: [&str; 4] = ["Ident {", "ValueWithSpan {", "span: Span(", "Span {"];
    let Some(inner) = STRUCTS.iter().filter_map(|name| message.find(name)).min() else { return message.to_owned() };
    // The outermost of nested structs begins after the last space before its name and bracket.
    let before = &message[..inner];
    let bracket = before.find(['{', '(', '[']);
    let start = bracket.map_or(inner, |at| before[..at].trim_end().rfind(' ').map_or(0, |space| space + 1));
    let mut words = vec![];
    for part in message[start..].split("value: ").skip(1) {
        let quoted = part.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == '(');
        if let Some((word, _)) = quoted.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
            words.push(word);
        }
    }
    let what = message[..start].trim_end().trim_end_matches(':');
    let what = if what.starts_with("Unsupported ast node") { "this form of SQL is not available" } else { what };
    if words.is_empty() { what.to_owned() } else { format!("{what}: {}", words.join(", ")) }
}

fn lower_first(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) if !text.chars().nth(1).is_some_and(char::is_uppercase) => {
            first.to_lowercase().chain(characters).collect()
        }
        _ => text.to_owned(),
    }
}

/// The most similar candidate, regardless of case, if its edit distance is at most a third of the name's length.
pub fn closest<'a>(name: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let limit = (lower.chars().count() / 3).max(1);
    let distances = candidates.iter().map(|candidate| (edit_distance(&lower, &candidate.to_lowercase()), *candidate));
    distances.filter(|(distance, _)| *distance <= limit).min().map(|(_, candidate)| candidate)
}

/// Levenshtein's distance over characters.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflows_name_the_type_in_sql() {
        assert_eq!(clean("Compute error: Int64Array overflow on abs(-5)"), "abs(-5) is out of range for BIGINT");
    }

    fn check(error: DataFusionError, kind: ErrorKind, message: &str, hint: Option<&str>) {
        let error = Error::from(error);
        assert_eq!((error.kind(), error.to_string().as_str(), error.hint()), (kind, message, hint));
    }

    #[test]
    fn wrappers_and_prefixes_are_dropped() {
        let cast = DataFusionError::ArrowError(Box::new(ArrowError::CastError("no 'x' as Int32".into())), None);
        check(cast.context("type_coercion"), ErrorKind::Type, "no 'x' as INTEGER", None);
        let ours = DataFusionError::External(Box::new(Error::cancelled()));
        check(ours, ErrorKind::Cancelled, "the statement was cancelled", None);
    }

    #[test]
    fn missing_memory_says_what_was_missing() {
        let tracked = "Additional allocation failed for Sort[0] with top memory consumers (across reservations) as:\n  Sort[0]#1 \
                       consumed 9 B.\nError: Sort[0] holds 9 bytes and needs 5 more, of which 2 are left of 10";
        let hint = "raise --memory-limit, or use fewer --threads so that each has more";
        let message = "Sort[0] holds 9 bytes and needs 5 more, of which 2 are left of 10";
        check(DataFusionError::ResourcesExhausted(tracked.into()), ErrorKind::Resource, message, Some(hint));
    }

    #[test]
    fn structs_of_the_parser_are_not_shown() {
        let message =
            "Unsupported value Identifier(Ident { value: \"a\", quote_style: None, span: Span(Location(1,8)) })";
        check(DataFusionError::NotImplemented(message.into()), ErrorKind::Unsupported, "Unsupported value: a", None);
        let message = "Unsupported ast node in sqltorel: Identifier(Ident { value: \"a\", quote_style: None })";
        let expected = "this form of SQL is not available: a";
        check(DataFusionError::NotImplemented(message.into()), ErrorKind::Unsupported, expected, None);
    }

    #[test]
    fn similar_names_are_suggested() {
        assert_eq!(closest("lineitm", &["orders", "lineitem"]), Some("lineitem"));
        assert_eq!(closest("x", &["orders", "lineitem"]), None);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "ab"), 2);
    }
}
