//! Panics as errors: a panic ends its statement and nothing else.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use crate::error::{Error, ErrorKind, Result};

/// Work that does not wait. A panic in it becomes an error.
pub(crate) fn guarded_now<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(&*panic)))
}

/// The error of a statement that panicked, which is a defect of ours.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let reason = text.unwrap_or("no reason given");
    Error::new(ErrorKind::Internal, format!("internal error: {reason}"))
        .with_hint("the statement ended and nothing of it is kept; please report it with its text")
}
