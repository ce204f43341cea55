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
            "42P05" | "42P07" => ErrorKind::Exists,
            "0A000" => ErrorKind::Unsupported,
            "25006" => ErrorKind::ReadOnly,
            "42501" | "28P01" | "28000" => ErrorKind::Denied,
            "42804" => ErrorKind::Type,
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
            "22023" | "21000" | "2BP01" | "55000" => ErrorKind::Invalid,
            state if state.starts_with("22") => ErrorKind::Type,
            state if state.starts_with("42") => ErrorKind::Invalid,
            state if state.starts_with("53") || state.starts_with("54") => ErrorKind::Resource,
            _ => ErrorKind::Internal,
        }
    }
}

fn sqlstate(kind: ErrorKind, message: &str) -> &'static str {
    let says = |parts: &[&str]| parts.iter().any(|part| message.contains(part));
    match kind {
        ErrorKind::Syntax => "42601",
        ErrorKind::NotFound if says(&["no column", "No field"]) => "42703",
        ErrorKind::NotFound if says(&["function"]) => "42883",
        ErrorKind::NotFound if says(&["prepared statement"]) => "26000",
        ErrorKind::NotFound if says(&["no setting"]) => "42704",
        ErrorKind::NotFound if says(&["no schema"]) => "3F000",
        ErrorKind::NotFound if says(&["no file"]) => "58P01",
        ErrorKind::NotFound if says(&["no savepoint"]) => "3B001",
        ErrorKind::NotFound if says(&["no constraint"]) || message.starts_with("no type ") => "42704",
        ErrorKind::NotFound => "42P01",
        ErrorKind::Exists if says(&["prepared statement"]) => "42P05",
        ErrorKind::Exists => "42P07",
        ErrorKind::Invalid | ErrorKind::Constraint if says(&["is no label of"]) => "22P02",
        // Before the others, because of the names in such a message.
        ErrorKind::Invalid if says(&["depends on", "cannot be dropped"]) => "2BP01",
        ErrorKind::Invalid if says(&["value yet in this session"]) => "55000",
        ErrorKind::Invalid if says(&["could come from several tables"]) => "42702",
        ErrorKind::Invalid if says(&["appears twice"]) => "42701",
        ErrorKind::Invalid if says(&["LATERAL reference"]) => "42P10",
        ErrorKind::Invalid if says(&["window functions are not allowed", "window frame"]) => "42P20",
        ErrorKind::Invalid if says(&["GROUP BY"]) => "42803",
        ErrorKind::Invalid if says(&[SEVERAL_ROWS, SEVERAL_ROWS_ONCE, CHANGED_TWICE]) => "21000",
        ErrorKind::Invalid if says(&[NO_KEY]) => "42P10",
        ErrorKind::Invalid => "22023",
        ErrorKind::Constraint if says(&["duplicate key ("]) => "23505",
        ErrorKind::Constraint if says(&["FOREIGN KEY ("]) => "23503",
        ErrorKind::Constraint if says(&["violates CHECK"]) => "23514",
        ErrorKind::Constraint if says(&["NOT NULL"]) => "23502",
        ErrorKind::Constraint => "23000",
        ErrorKind::Type if says(&["has no more numbers"]) => "2200H",
        ErrorKind::Type if says(&["division by zero", "Divide by zero"]) => "22012",
        ErrorKind::Type
            if says(&[
                "timestamp out of range",
                "date out of range",
                "interval out of range",
                "field out of range",
            ]) =>
        {
            "22008"
        }
        ErrorKind::Type if says(&["invalid TIMESTAMP", "invalid DATE", "invalid TIME", "invalid INTERVAL"]) => "22007",
        ErrorKind::Type if says(&["logarithm"]) => "2201E",
        ErrorKind::Type if is_number_out_of_range(message) => "22003",
        ErrorKind::Type if says(&["verflow", "out of range", "too large", "without loss"]) => "22003",
        ErrorKind::Type if says(&["Cannot cast string", "parsing", "Can't cast value", "Cannot parse", "is not a"]) => {
            "22P02"
        }
        ErrorKind::Type => "42804",
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
        ErrorKind::Transaction if says(&["of this transaction failed"]) => "25P02",
        ErrorKind::Transaction if says(&["no transaction is open"]) => "25P01",
        ErrorKind::Transaction if says(&["snapshot_max_age"]) => "72000",
        ErrorKind::Transaction => "25001",
        ErrorKind::Cluster => "58F01",
        ErrorKind::Internal => "XX000",
    }
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
        (ErrorKind::Exists, &["prepared statement x exists"]),
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
