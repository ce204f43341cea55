//! The driver as a C library: the functions that driver managers load, and additions to the exporter of adbc_ffi.
//!
//! The exporter writes the driver's table of functions. It does not return the number of changed rows of a statement if
//! the caller requests a result, as Python's DB-API does, nor the status and SQLSTATE of an error in the middle of a
//! result. Both are added here: the stream of a result is wrapped in one that stores its error, and
//! `ErrorFromArrayStream` returns that error.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;

use adbc_core::constants::{ADBC_ERROR_VENDOR_CODE_PRIVATE_DATA, ADBC_STATUS_OK, ADBC_VERSION_1_1_0};
use adbc_core::error::AdbcStatusCode;
use adbc_ffi::{FFI_AdbcDriver, FFI_AdbcError, FFI_AdbcStatement, FFIDriver, export_error};
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow::ffi_stream::FFI_ArrowArrayStream;

use crate::FreestoneDriver;
use crate::error::{invalid, not_implemented};
use crate::runtime::Failure;

thread_local! {
    /// What the last execution on this thread started. Passes it from the statement to the function that exports it.
    static BEGAN: RefCell<Option<(Failure, Option<i64>)>> = const { RefCell::new(None) };
}

/// Passes the failure of a result and the number of rows that its statement changed to the exporting function.
pub fn began(failure: Failure, changed: Option<i64>) {
    BEGAN.with_borrow_mut(|began| *began = Some((failure, changed)));
}

/// The function that driver managers call first.
///
/// # Safety
///
/// `driver` points to memory for an `AdbcDriver` of version 1.1. `error` points to an initialized `AdbcError` or is
/// null.
#[allow(non_snake_case)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AdbcDriverFreestoneInit(
    version: c_int,
    driver: *mut c_void,
    error: *mut FFI_AdbcError,
) -> AdbcStatusCode {
    let refused = match version {
        ADBC_VERSION_1_1_0 if driver.is_null() => invalid("AdbcDriverInit: the driver is a null pointer"),
        ADBC_VERSION_1_1_0 => {
            let mut table = FreestoneDriver::ffi_driver();
            table.StatementExecuteQuery = Some(execute_query);
            table.ErrorFromArrayStream = Some(error_from_stream);
            // SAFETY: the caller provides memory for a driver of this version, which contains nothing to be dropped.
            unsafe { ptr::write_unaligned(driver.cast::<FFI_AdbcDriver>(), table) };
            return ADBC_STATUS_OK;
        }
        other => not_implemented(
            format!("ADBC version {other} is not what the driver speaks"),
            "it speaks 1.1.0, which is 1001000",
        ),
    };
    let status = refused.status.into();
    // SAFETY: `error` is null or an error of the caller.
    unsafe { export_error(error, refused) };
    status
}

/// The same function, with the name that driver managers try last.
///
/// # Safety
///
/// As for [`AdbcDriverFreestoneInit`].
#[allow(non_snake_case)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AdbcDriverInit(
    version: c_int,
    driver: *mut c_void,
    error: *mut FFI_AdbcError,
) -> AdbcStatusCode {
    // SAFETY: the requirements are the same.
    unsafe { AdbcDriverFreestoneInit(version, driver, error) }
}

unsafe extern "C" fn execute_query(
    statement: *mut FFI_AdbcStatement,
    out: *mut FFI_ArrowArrayStream,
    rows_affected: *mut i64,
    error: *mut FFI_AdbcError,
) -> AdbcStatusCode {
    BEGAN.take();
    let Some(execute) = FreestoneDriver::ffi_driver().StatementExecuteQuery else {
        return adbc_core::error::Status::NotImplemented.into();
    };
    // SAFETY: the requirements are the same, and the caller satisfies them.
    let status = unsafe { execute(statement, out, rows_affected, error) };
    let Some((failure, changed)) = BEGAN.take() else { return status };
    if status != ADBC_STATUS_OK || out.is_null() {
        return status;
    }
    if let Some(changed) = changed.filter(|_| !rows_affected.is_null()) {
        // SAFETY: the pointer is not null, so it points to memory for a number.
        unsafe { ptr::write_unaligned(rows_affected, changed) };
    }
    // SAFETY: the exporter has just written a stream there. It is moved, and its replacement owns it.
    unsafe {
        let stream = ptr::read_unaligned(out);
        ptr::write_unaligned(out, Watched::export(stream, failure));
    }
    status
}

/// A stream with the error that ended it.
struct Watched {
    stream: FFI_ArrowArrayStream,
    failure: Failure,
    /// The message that callers received. It lives as long as the stream.
    message: Option<CString>,
    error: Option<Box<FFI_AdbcError>>,
}

impl Watched {
    fn export(stream: FFI_ArrowArrayStream, failure: Failure) -> FFI_ArrowArrayStream {
        let watched = Box::new(Watched { stream, failure, message: None, error: None });
        FFI_ArrowArrayStream {
            get_schema: Some(get_schema),
            get_next: Some(get_next),
            get_last_error: Some(get_last_error),
            release: Some(release),
            private_data: Box::into_raw(watched).cast(),
        }
    }

    /// # Safety
    ///
    /// `stream` is a stream of [`Watched::export`] that was not released, and no other reference to it is in use.
    unsafe fn of<'a>(stream: *mut FFI_ArrowArrayStream) -> &'a mut Watched {
        // SAFETY: `export` stored a `Watched` there, which lives until the release.
        unsafe { &mut *(*stream).private_data.cast::<Watched>() }
    }
}

unsafe extern "C" fn get_schema(stream: *mut FFI_ArrowArrayStream, out: *mut FFI_ArrowSchema) -> c_int {
    // SAFETY: by the C stream interface, this is a stream of ours, not released, and used by one thread at a time.
    let inner = unsafe { &mut Watched::of(stream).stream };
    match inner.get_schema {
        // SAFETY: the requirements are the same.
        Some(get) => unsafe { get(inner, out) },
        None => libc_invalid(),
    }
}

unsafe extern "C" fn get_next(stream: *mut FFI_ArrowArrayStream, out: *mut FFI_ArrowArray) -> c_int {
    // SAFETY: as for `get_schema`.
    let inner = unsafe { &mut Watched::of(stream).stream };
    match inner.get_next {
        // SAFETY: the requirements are the same.
        Some(get) => unsafe { get(inner, out) },
        None => libc_invalid(),
    }
}

unsafe extern "C" fn get_last_error(stream: *mut FFI_ArrowArrayStream) -> *const c_char {
    // SAFETY: as for `get_schema`.
    let watched = unsafe { Watched::of(stream) };
    let known = watched.failure.lock().as_ref().and_then(|error| CString::new(error.message.as_str()).ok());
    match (known, watched.stream.get_last_error) {
        (Some(message), _) => watched.message.insert(message).as_ptr(),
        // SAFETY: the requirements are the same.
        (None, Some(get)) => unsafe { get(&mut watched.stream) },
        (None, None) => ptr::null(),
    }
}

unsafe extern "C" fn release(stream: *mut FFI_ArrowArrayStream) {
    // SAFETY: C calls this once, with a stream of ours. The pointer from `export` is converted back to its box.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<Watched>()));
        (*stream).private_data = ptr::null_mut();
        (*stream).release = None;
    }
}

/// The error of a stream of this driver. Null if the stream has not failed, or is not of this driver.
unsafe extern "C" fn error_from_stream(
    stream: *mut FFI_ArrowArrayStream,
    status: *mut AdbcStatusCode,
) -> *const FFI_AdbcError {
    // SAFETY: ADBC requires a stream or null.
    let ours = unsafe { stream.as_ref() }
        .and_then(|stream| stream.release)
        .is_some_and(|function| ptr::fn_addr_eq(function, release as unsafe extern "C" fn(*mut FFI_ArrowArrayStream)));
    if !ours {
        return ptr::null();
    }
    // SAFETY: the stream has our release function, so it is ours.
    let watched = unsafe { Watched::of(stream) };
    let Some(error) = watched.failure.lock().clone() else { return ptr::null() };
    let code = error.status.into();
    let Ok(mut exported) = FFI_AdbcError::try_from(error) else { return ptr::null() };
    exported.vendor_code = ADBC_ERROR_VENDOR_CODE_PRIVATE_DATA;
    if !status.is_null() {
        // SAFETY: the pointer is not null, so it points to memory for a status.
        unsafe { ptr::write_unaligned(status, code) };
    }
    &raw const **watched.error.insert(Box::new(exported))
}

/// EINVAL, the result of a stream without the required function.
fn libc_invalid() -> c_int {
    22
}
