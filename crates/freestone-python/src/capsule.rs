//! Arrow tables in and out of Python through the Arrow PyCapsule interface, which passes pointers and copies no values.

use std::ffi::CStr;
use std::ptr::NonNull;

use arrow::array::RecordBatchReader;
use arrow::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use freestone::Error;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

const STREAM: &CStr = c"arrow_array_stream";
const METHOD: &str = "__arrow_c_stream__";

/// A capsule with a stream of batches.
pub fn export<'py>(py: Python<'py>, reader: Box<dyn RecordBatchReader + Send>) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), STREAM)
}

/// Whether an object can supply its rows as Arrow.
pub fn is_arrow(object: &Bound<'_, PyAny>) -> bool {
    object.hasattr(METHOD).unwrap_or(false)
}

/// Gets a stream of rows from an object.
pub fn import(object: &Bound<'_, PyAny>) -> PyResult<ArrowArrayStreamReader> {
    let capsule = object.call_method0(METHOD)?.cast_into::<PyCapsule>()?;
    let pointer: NonNull<FFI_ArrowArrayStream> = capsule.pointer_checked(Some(STREAM))?.cast();
    // SAFETY: the interface guarantees that a capsule of this name points to an ArrowArrayStream, which nobody else
    // reads while `capsule` is held here. `from_raw` moves it out and leaves a released stream, so that the capsule's
    // destructor has nothing to release.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr()) };
    ArrowArrayStreamReader::try_new(stream).map_err(|error| crate::error::to_python(object.py(), &Error::from(error)))
}
