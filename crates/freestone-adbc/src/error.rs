//! Conversion of errors of the engine and of connections to servers to ADBC errors.

use std::ffi::c_char;

use adbc_core::error::{Error, Status};
use freestone_wire::{SqlError, WireError};

/// The detail of an error with the hint, which the message contains as well.
const HINT_DETAIL: &str = "freestone.hint";

/// An ADBC error with a SQLSTATE. NUL is replaced in the texts, because C strings cannot contain it.
fn make(sqlstate: &str, message: &str, hint: Option<&str>) -> Error {
    let text = match hint {
        Some(hint) => format!("{message} (hint: {hint})"),
        None => message.to_owned(),
    };
    let mut state = [b'0' as c_char; 5];
    state.iter_mut().zip(sqlstate.bytes()).for_each(|(to, byte)| *to = byte as c_char);
    let details = hint.map(|hint| vec![(HINT_DETAIL.to_owned(), hint.as_bytes().to_vec())]);
    Error { message: text.replace('\0', "\\0"), status: status(sqlstate), vendor_code: 0, sqlstate: state, details }
}

/// The status for a SQLSTATE. Driver managers choose the class of an exception by it.
fn status(sqlstate: &str) -> Status {
    match sqlstate {
        "0A000" => Status::NotImplemented,
        "42P01" | "42703" | "42883" | "26000" | "42704" | "3F000" | "58P01" => Status::NotFound,
        "42P05" | "42P07" => Status::AlreadyExists,
        "42501" | "25006" => Status::Unauthorized,
        "42804" => Status::InvalidData,
        "57014" => Status::Cancelled,
        "57P05" => Status::Timeout,
        "22023" => Status::InvalidArguments,
        other => match other.get(..2).unwrap_or_default() {
            "08" | "53" | "54" | "58" => Status::IO,
            "22" => Status::InvalidData,
            "23" => Status::Integrity,
            "28" => Status::Unauthenticated,
            "42" => Status::InvalidArguments,
            "55" => Status::InvalidState,
            _ if other == "XX001" => Status::IO,
            _ => Status::Internal,
        },
    }
}

/// An error of the engine in this process.
pub fn engine(error: impl Into<freestone::Error>) -> Error {
    let error = error.into();
    make(error.sqlstate(), &error.to_string(), error.hint())
}

/// An error of a server or of the connection to it.
pub fn wire(error: WireError) -> Error {
    let state = match &error {
        WireError::Sql(sql) => {
            let SqlError { sqlstate, message, hint, .. } = &**sql;
            return make(sqlstate, message, hint.as_deref());
        }
        WireError::Io { .. } | WireError::Closed(_) => "08006",
        WireError::Malformed { .. } => "08P01",
        WireError::RowTooLarge { .. } | WireError::RowAboveLimit { .. } => "54000",
        WireError::Authentication(_) => "28P01",
        WireError::Timeout(_) => "57P05",
        WireError::Busy => "55006",
        WireError::Cancelled => "57014",
        WireError::Config(_) => "22023",
        WireError::Encode { .. } | WireError::Source(_) => "22000",
    };
    make(state, &error.to_string(), None)
}

/// The error of an invalid call or option.
pub fn invalid(message: impl AsRef<str>) -> Error {
    make("22023", message.as_ref(), None)
}

/// The error of a call in the wrong state, such as execution before a query is set.
pub fn state(message: impl AsRef<str>) -> Error {
    make("55000", message.as_ref(), None)
}

/// The error of an ADBC feature that this driver does not have.
pub fn not_implemented(message: impl AsRef<str>, hint: &str) -> Error {
    make("0A000", message.as_ref(), Some(hint))
}

/// The error of a name that does not exist.
pub fn not_found(message: impl AsRef<str>) -> Error {
    make("42704", message.as_ref(), None)
}

/// The error of cancelled work.
pub fn cancelled() -> Error {
    engine(freestone::Error::cancelled())
}

/// The error of a bug in Freestone.
pub fn internal(what: impl std::fmt::Display) -> Error {
    make("XX000", &format!("internal error: {what}"), Some("please report what you did"))
}
