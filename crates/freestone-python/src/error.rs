//! Conversion of the engine's errors to the exceptions of `freestone.exceptions`.

use std::fmt;

use freestone::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::PyType;

/// The exception for an error: its class follows from the kind, and its `message` and `hint` are those of the command
/// line.
pub fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    let made = made(py, class_of(error.kind()), &text_of(error), error.hint(), Some(error.sqlstate()));
    if let Some(Raised(cause)) = error.cause().and_then(|cause| cause.downcast_ref()) {
        made.set_cause(py, Some(cause.clone_ref(py)));
    }
    made
}

/// The message, and the line of the statement that has the error.
fn text_of(error: &Error) -> String {
    error.excerpt().map_or_else(|| error.to_string(), |excerpt| format!("{error}\n{excerpt}"))
}

/// An exception of one of the package's classes.
pub fn raise(py: Python<'_>, class: &str, message: &str, hint: Option<&str>) -> PyErr {
    made(py, class, message, hint, None)
}

fn made(py: Python<'_>, class: &str, message: &str, hint: Option<&str>, sqlstate: Option<&str>) -> PyErr {
    let make = || -> PyResult<Bound<'_, PyAny>> {
        let class = py.import("freestone.exceptions")?.getattr(class)?.cast_into::<PyType>()?;
        class.call1((message, hint, sqlstate))
    };
    make().map_or_else(|error| error, PyErr::from_value)
}

/// The connection was closed, or belongs to another process.
pub fn interface(py: Python<'_>, message: &str, hint: &str) -> PyErr {
    raise(py, "InterfaceError", message, Some(hint))
}

fn class_of(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Syntax | ErrorKind::NotFound | ErrorKind::Exists | ErrorKind::Invalid => "ProgrammingError",
        ErrorKind::Constraint => "IntegrityError",
        ErrorKind::Type => "DataError",
        ErrorKind::Unsupported => "NotSupportedError",
        ErrorKind::Io | ErrorKind::Corrupt | ErrorKind::Resource | ErrorKind::ReadOnly | ErrorKind::Denied => {
            "OperationalError"
        }
        ErrorKind::Conflict | ErrorKind::Deadlock | ErrorKind::LockTimeout | ErrorKind::Transaction => {
            "OperationalError"
        }
        ErrorKind::Cluster => "OperationalError",
        ErrorKind::Cancelled => "CancelledError",
        ErrorKind::Internal => "InternalError",
    }
}

/// Lets `?` turn an engine's error into an exception.
pub trait OrRaise<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T, Error> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| to_python(py, &error))
    }
}

/// The exception of a function, as the cause of an error.
pub struct Raised(pub PyErr);

impl fmt::Debug for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Raised")
    }
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an exception of Python")
    }
}

impl std::error::Error for Raised {}
