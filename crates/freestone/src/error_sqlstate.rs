//! The SQLSTATEs of errors, as in the SQL standard and PostgreSQL's appendix A: from kinds, for servers; and to kinds,
//! for clients.

use crate::error::{Error, ErrorKind};
use crate::exec::upsert::{CHANGED_TWICE, NO_KEY};
use crate::optimizer::{SEVERAL_ROWS, SEVERAL_ROWS_ONCE};

impl Error {
    /// The SQLSTATE of the error's kind, or a more specific one if the message determines it.
    pub fn sqlstate(&self) -> &'static str {
        sqlstate(self.kind(), &self.to_string())
    }
}

impl ErrorKind {
    /// The kind of an error that a server gave this SQLSTATE. States of other servers have the kind that is closest.
    pub fn of_sqlstate(state: &str) -> ErrorKind {
        match state {
            "42601" => ErrorKind::Syntax,
            "42P01" | "42703" | "42883" | "26000" | "42704" | "3F000" | "58P01" => ErrorKind::NotFound,
            "42P05" | "42P06" | "42P07" | "42710" => ErrorKind::Exists,
            "0A000" => ErrorKind::Unsupported,
            "25006" => ErrorKind::ReadOnly,
            "42501" | "28P01" | "28000" => ErrorKind::Denied,
            "42804" | "42846" => ErrorKind::Type,
            "57014" => ErrorKind::Cancelled,
            "58F01" => ErrorKind::Cluster,
            "58030" | "53100" => ErrorKind::Io,
            "XX001" => ErrorKind::Corrupt,
            "3B001" => ErrorKind::NotFound,
            "40001" => ErrorKind::Conflict,
            "40P01" => ErrorKind::Deadlock,
            "55P03" => ErrorKind::LockTimeout,
            "25001" | "25P01" | "25P02" | "72000" => ErrorKind::Transaction,
            state if state.starts_with("23") => ErrorKind::Constraint,
            "22023" | "2201B" | "2201W" | "2201X" | "22011" | "22025" | "21000" | "2BP01" | "55000" => {
                ErrorKind::Invalid
            }
            state if state.starts_with("22") => ErrorKind::Type,
            state if state.starts_with("42") => ErrorKind::Invalid,
            state if state.starts_with("53") || state.starts_with("54") => ErrorKind::Resource,
            _ => ErrorKind::Internal,
        }
    }
}

/// Parts of messages, and the SQLSTATE of those that have one of them. The first that fits counts.
type States = &'static [(&'static [&'static str], &'static str)];

const OF_NAMES: States = &[
    (&["no column", "No field"], "42703"),
    (&["function"], "42883"),
    (&["prepared statement"], "26000"),
    (&["no setting", "no constraint", "no type ", "no role ", "no window "], "42704"),
    (&["no schema"], "3F000"),
    (&["no file"], "58P01"),
    (&["no savepoint"], "3B001"),
];

/// The beginnings of messages about names that are taken.
const OF_TAKEN: States = &[
    (&["prepared statement "], "42P05"),
    (&["schema "], "42P06"),
    (&["column "], "42701"),
    (&["type ", "constraint ", "macro ", "the function "], "42710"),
];

const OF_MEANINGS: States = &[
    (&["is no label of"], "22P02"),
    // Before the others, because of the names in such a message.
    (&["depends on", "cannot be dropped"], "2BP01"),
    (&["value yet in this session"], "55000"),
    (&["could come from several tables"], "42702"),
    (&["appears twice"], "42701"),
    (&["is GENERATED ALWAYS"], "428C9"),
    (&["has one PRIMARY KEY only"], "42P16"),
    (&["is not empty: it has"], "2BP01"),
    (&["LIMIT must be"], "2201W"),
    (&["OFFSET must be"], "2201X"),
    (&["is no column: the query has", "a query with DISTINCT is ordered"], "42P10"),
    (&["LATERAL reference"], "42P10"),
    (&["is no regular expression"], "2201B"),
    (&["window functions are not allowed", "window frame"], "42P20"),
    (&["aggregates are not allowed", "Aggregate function calls cannot be nested", "GROUP BY"], "42803"),
    (&["is a window function", " is a table", " is a view", "has no fields"], "42809"),
    (&["an escape is one character"], "22025"),
    (&["negative count not allowed"], "22011"),
    (&["there is no date "], "22008"),
    (&["malformed JSON"], "22P02"),
    (&[" parameters and was given "], "42P02"),
    (&[SEVERAL_ROWS, SEVERAL_ROWS_ONCE, CHANGED_TWICE], "21000"),
    (&[NO_KEY], "42P10"),
];

const OF_CONSTRAINTS: States = &[
    (&["is no label of"], "22P02"),
    (&["duplicate key ("], "23505"),
    (&["FOREIGN KEY ("], "23503"),
    (&["violates CHECK"], "23514"),
    (&["NOT NULL"], "23502"),
];

const OF_VALUES: States = &[
    (&["' is too long, it takes "], "22001"),
    (&["has no more numbers"], "2200H"),
    (&["division by zero", "Divide by zero"], "22012"),
    (&["timestamp out of range", "date out of range", "interval out of range", "field out of range"], "22008"),
    (&["invalid TIMESTAMP", "invalid DATE", "invalid TIME", "invalid INTERVAL"], "22007"),
    (&["logarithm"], "2201E"),
    (&["square root of a negative", "raised to a negative power"], "2201F"),
    (&["is not a DATE", "is not a TIME", "is not an INTERVAL"], "22007"),
    (&["is no regular expression"], "2201B"),
    (&[" cannot be cast to "], "42846"),
];

const OF_TEXTS: States = &[
    (&["verflow", "out of range", "too large", "without loss"], "22003"),
    (&["Cannot cast string", "parsing", "Can't cast value", "Cannot parse", "is not a"], "22P02"),
];

const OF_TRANSACTIONS: States = &[
    (&["of this transaction failed"], "25P02"),
    (&["no transaction is open"], "25P01"),
    (&["snapshot_max_age"], "72000"),
];

fn sqlstate(kind: ErrorKind, message: &str) -> &'static str {
    let says = |parts: &[&str]| parts.iter().any(|part| message.contains(part));
    let begins = |states: States| {
        let fits = |parts: &[&str]| parts.iter().any(|part| message.starts_with(part));
        states.iter().find(|(parts, _)| fits(parts)).map(|(_, state)| *state)
    };
    let first = |states: States| states.iter().find(|(parts, _)| says(parts)).map(|(_, state)| *state);
    match kind {
        ErrorKind::Syntax => "42601",
        ErrorKind::NotFound => first(OF_NAMES).unwrap_or("42P01"),
        ErrorKind::Exists => begins(OF_TAKEN).unwrap_or("42P07"),
        ErrorKind::Invalid if says(&["is declared twice"]) => begins(OF_TAKEN).unwrap_or("42710"),
        ErrorKind::Invalid => first(OF_MEANINGS).unwrap_or("22023"),
        ErrorKind::Constraint => first(OF_CONSTRAINTS).unwrap_or("23000"),
        ErrorKind::Type if is_malformed_record(message) => "22P04",
        ErrorKind::Type => {
            let of_number = || is_number_out_of_range(message).then_some("22003");
            first(OF_VALUES).or_else(of_number).or_else(|| first(OF_TEXTS)).unwrap_or("42804")
        }
        ErrorKind::Unsupported => "0A000",
        ErrorKind::Io if says(&["No space left", "quota exceeded", "File too large"]) => "53100",
        ErrorKind::Io => "58030",
        ErrorKind::Corrupt => "XX001",
        ErrorKind::Resource if says(&["too complex"]) => "54001",
        ErrorKind::Resource => "53200",
        ErrorKind::Cancelled => "57014",
        ErrorKind::ReadOnly => "25006",
        ErrorKind::Denied => "42501",
        ErrorKind::Conflict => "40001",
        ErrorKind::Deadlock => "40P01",
        ErrorKind::LockTimeout => "55P03",
        ErrorKind::Transaction => first(OF_TRANSACTIONS).unwrap_or("25001"),
        ErrorKind::Cluster => "58F01",
        ErrorKind::Internal => "XX000",
    }
}

/// Whether a record of data has no fields, or others than it should.
fn is_malformed_record(message: &str) -> bool {
    let has_other_fields = [" field, expected ", " fields, expected "].iter().any(|part| message.contains(part));
    has_other_fields
        || message.ends_with(": a quote opened here is never closed")
        || message.ends_with(": text after a closing quote")
}

/// Whether a text could not be cast to a number because that is too large.
fn is_number_out_of_range(message: &str) -> bool {
    let text = message.strip_prefix("Cannot cast string '").and_then(|rest| rest.split_once('\''));
    text.is_some_and(|(text, rest)| {
        text.trim().parse::<i128>().is_ok() && (rest.contains("INT") || rest.contains("BIGINT"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kinds with typical parts of their messages.
    const KINDS: [(ErrorKind, &[&str]); 19] = [
        (ErrorKind::Syntax, &[]),
        (
            ErrorKind::NotFound,
            &[
                "no column x",
                "No field x",
                "no function x",
                "no prepared statement x",
                "no setting x",
                "no schema x",
                "no file x",
                "no savepoint x",
                "no constraint x",
            ],
        ),
        (ErrorKind::Exists, &["prepared statement x exists", "schema x exists", "type x exists"]),
        (
            ErrorKind::Invalid,
            &[
                "x could come from several tables",
                "x appears twice",
                "a LATERAL reference",
                "window functions are not allowed in WHERE",
                "must be in GROUP BY",
                SEVERAL_ROWS,
                CHANGED_TWICE,
                NO_KEY,
                "view v depends on column x",
                "table t cannot be dropped",
                "sequence s has no value yet in this session",
                "LIMIT must be >= 0",
                "OFFSET must be >=0",
                "an escape is one character",
                "'(' is no regular expression",
                "v is a table",
                "column id is GENERATED ALWAYS",
            ],
        ),
        (ErrorKind::Constraint, &["x is NOT NULL", "duplicate key (x)", "FOREIGN KEY (x)", "violates CHECK"]),
        (
            ErrorKind::Type,
            &[
                "division by zero",
                "sequence s has no more numbers",
                "Overflow",
                "Cannot cast string 'x'",
                "timestamp out of range",
                "invalid DATE: 'x'",
                "x, line 1 has 2 fields, expected 3",
                "x, line 1: a quote opened here is never closed",
            ],
        ),
        (ErrorKind::Unsupported, &[]),
        (ErrorKind::Io, &["cannot write x: No space left on device (os error 28)"]),
        (ErrorKind::Corrupt, &[]),
        (ErrorKind::Resource, &[]),
        (ErrorKind::Cancelled, &[]),
        (ErrorKind::ReadOnly, &[]),
        (ErrorKind::Denied, &[]),
        (ErrorKind::Conflict, &[]),
        (ErrorKind::Deadlock, &[]),
        (ErrorKind::LockTimeout, &[]),
        (
            ErrorKind::Transaction,
            &["a statement of this transaction failed", "no transaction is open", "ended by snapshot_max_age"],
        ),
        (ErrorKind::Cluster, &[]),
        (ErrorKind::Internal, &[]),
    ];

    #[test]
    fn a_kind_survives_its_sqlstate() {
        for (kind, messages) in KINDS {
            for message in messages.iter().chain([&"something else"]) {
                let state = Error::new(kind, *message).sqlstate();
                assert_eq!(ErrorKind::of_sqlstate(state), kind, "{message}: {state}");
            }
        }
        assert_eq!(ErrorKind::of_sqlstate("08000"), ErrorKind::Internal);
    }
}
