//! Functions of Python in SQL: how the engine calls them with batches.
//!
//! A function runs on a thread of its statement, with the GIL. `python/freestone/_functions.py` turns batches into what the function
//! takes, and what it returns into Arrow.

use std::ffi::c_long;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchReader, new_empty_array};
use arrow::compute::concat;
use arrow::datatypes::DataType;
use freestone::{Error, ErrorKind, HostFunction, HostKernel, Result, Strings, check_statement};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::calls::Calls;
use crate::capsule;
use crate::error::Raised;
use crate::rows;

/// The rows that a function is called with.
#[pyclass(frozen, module = "freestone._freestone")]
pub struct Arguments {
    batch: RecordBatch,
}

#[pymethods]
impl Arguments {
    #[getter]
    fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// The Python values of each argument.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Vec<Vec<Bound<'py, PyAny>>>> {
        self.batch.columns().iter().map(|column| rows::objects(py, column)).collect()
    }

    /// A stream with one batch.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let schema = self.batch.schema();
        capsule::export(py, Box::new(RecordBatchIterator::new([Ok(self.batch.clone())], schema)))
    }
}

/// What a connection gives for a function.
pub struct Given {
    pub name: String,
    /// The types of the parameters; `None` for any.
    pub parameters: Vec<Option<DataType>>,
    pub accepts_more: bool,
    pub result: DataType,
    pub is_volatile: bool,
    pub takes_nulls: bool,
    /// An object with the methods `compute(batch)` and `converted(values)`.
    pub body: Py<PyAny>,
}

impl Given {
    /// The function for the engine, whose calls can be interrupted through `calls`.
    pub fn hosted(self, calls: &Arc<Calls>, workers: usize) -> HostFunction {
        let Given { name, parameters, accepts_more, result, is_volatile, takes_nulls, body } = self;
        let (calls, called) = (calls.clone(), name.clone());
        let kernel: Arc<HostKernel> = Arc::new(move |batch| {
            let call = |py: Python<'_>| called_in(py, (&calls, workers), &called, &body, batch);
            // Without an interpreter nobody waits for the result.
            Python::try_attach(call).unwrap_or_else(|| Err(Error::cancelled()))
        });
        HostFunction { name, parameters, accepts_more, result, is_volatile, takes_nulls, kernel }
    }
}

fn called_in(
    py: Python<'_>,
    (calls, workers): (&Calls, usize),
    name: &str,
    body: &Py<PyAny>,
    batch: RecordBatch,
) -> Result<ArrayRef> {
    let unusable = |error: PyErr| Error::new(ErrorKind::Internal, format!("internal error: {error}"));
    let thread = py.import("threading").and_then(|module| module.call_method0("get_ident")?.extract::<c_long>());
    let arguments = Bound::new(py, Arguments { batch: Strings::Plain.batch(batch)? }).map_err(unusable)?;
    // A cancellation from the beginning of the call on finds it.
    let call = || check_statement().map(|()| body.bind(py).call_method1("compute", (arguments,)));
    let values = calls.run(thread.map_err(unusable)?, workers, call)?.map_err(|error| failed(py, name, error))?;
    let converted = body.bind(py).call_method1("converted", (values,));
    let array = converted.and_then(|table| capsule::import(&table)).map_err(|error| unfit(py, name, error))?;
    one_array(array)
}

/// The only column of a stream.
fn one_array(reader: impl RecordBatchReader) -> Result<ArrayRef> {
    let wanted = reader.schema();
    let batches = reader.collect::<std::result::Result<Vec<_>, _>>()?;
    let parts: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(0).as_ref()).collect();
    match parts.as_slice() {
        [] => Ok(new_empty_array(wanted.field(0).data_type())),
        parts => Ok(concat(parts)?),
    }
}

/// The error of a function that raised an exception.
fn failed(py: Python<'_>, name: &str, error: PyErr) -> Error {
    let is_interrupt = error.is_instance_of::<PyKeyboardInterrupt>(py);
    if let (true, Err(cancelled)) = (is_interrupt, check_statement()) {
        return cancelled;
    }
    let class = error.get_type(py).name().map(|name| name.to_string()).unwrap_or_default();
    let message = format!("the function {name} raised {class}: {}", error.value(py));
    Error::new(ErrorKind::Invalid, message).with_cause(Arc::new(Raised(error)))
}

/// The error of a function whose values are not of its type.
fn unfit(py: Python<'_>, name: &str, error: PyErr) -> Error {
    let message = format!("the function {name} returned values that are not of its type: {}", error.value(py));
    Error::new(ErrorKind::Type, message)
        .with_hint("return values of the type that it was created with")
        .with_cause(Arc::new(Raised(error)))
}
