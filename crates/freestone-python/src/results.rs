//! Result batches between the engine and Python.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use freestone::{Error, Result};
use futures::StreamExt;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::backend::{Answer, Backend, Verb};
use crate::capsule;
use crate::closed::Closed;
use crate::error::{OrRaise, interface};
use crate::workers::{Inlet, Outlet, Workers};

/// The number of batches that the engine computes ahead of the reader.
const BATCHES_AHEAD: usize = 4;

/// A message of a running statement.
enum Message {
    Rows(SchemaRef),
    Batch(RecordBatch),
    Affected { verb: Verb, rows: Option<u64> },
    Failed(Error),
}

/// The start of a statement: with rows, or complete.
pub enum StatementStart {
    Rows(Running),
    Done { verb: Verb, rows: Option<u64> },
}

/// A statement's rows while they are computed.
pub struct Running {
    pub schema: SchemaRef,
    inlet: Inlet<Message>,
    backend: Arc<dyn Backend>,
}

/// Starts a statement and waits for its first message.
pub fn start(
    py: Python<'_>,
    workers: &Arc<Workers>,
    backend: &Arc<dyn Backend>,
    answer: impl Future<Output = Result<Answer>> + Send + 'static,
) -> PyResult<StatementStart> {
    workers.check_process(py)?;
    let inlet = workers.spawn(BATCHES_AHEAD, |outlet| produce(answer, outlet));
    match inlet.receive(py, || backend.cancel())? {
        Some(Message::Rows(schema)) => Ok(StatementStart::Rows(Running { schema, inlet, backend: backend.clone() })),
        Some(Message::Affected { verb, rows }) => Ok(StatementStart::Done { verb, rows }),
        Some(Message::Failed(error)) => Err(error).or_raise(py),
        Some(Message::Batch(_)) | None => Err(ended(py)),
    }
}

/// Runs a future of the engine and waits for its result.
pub fn wait_for<T: Send + 'static>(
    py: Python<'_>,
    workers: &Arc<Workers>,
    backend: &Arc<dyn Backend>,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> PyResult<T> {
    workers.check_process(py)?;
    let inlet = workers.spawn(1, |outlet| async move {
        outlet.send(work.await).await;
    });
    inlet.receive(py, || backend.cancel())?.ok_or_else(|| ended(py))?.or_raise(py)
}

fn ended(py: Python<'_>) -> PyErr {
    let message = "internal error: the statement's task ended without a result";
    crate::error::raise(py, "InternalError", message, Some("this is a bug; please report the statement that shows it"))
}

/// The statement's task. If nobody receives, nobody wants the remaining rows.
async fn produce(answer: impl Future<Output = Result<Answer>>, outlet: Outlet<Message>) {
    let mut stream = match answer.await {
        Ok(Answer::Rows { schema, stream }) => {
            if !outlet.send(Message::Rows(schema)).await {
                return;
            }
            stream
        }
        Ok(Answer::Affected { verb, rows }) => {
            outlet.send(Message::Affected { verb, rows: Some(rows) }).await;
            return;
        }
        Ok(Answer::Done { verb }) => {
            outlet.send(Message::Affected { verb, rows: None }).await;
            return;
        }
        Err(error) => {
            outlet.send(Message::Failed(error)).await;
            return;
        }
    };
    while let Some(batch) = stream.next().await {
        let message = batch.map_or_else(Message::Failed, Message::Batch);
        let is_last = matches!(message, Message::Failed(_));
        if !outlet.send(message).await || is_last {
            return;
        }
    }
}

impl Running {
    /// The next batch that has rows.
    pub fn next(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        loop {
            match self.inlet.receive(py, || self.backend.cancel())? {
                Some(Message::Batch(batch)) if batch.num_rows() == 0 => {}
                Some(Message::Batch(batch)) => return Ok(Some(batch)),
                Some(Message::Failed(error)) => return Err(error).or_raise(py),
                Some(Message::Rows(_) | Message::Affected { .. }) => {}
                None => return Ok(None),
            }
        }
    }

    pub fn collect(&self, py: Python<'_>) -> PyResult<Vec<RecordBatch>> {
        std::iter::from_fn(|| self.next(py).transpose()).collect()
    }
}

/// A statement's rows, complete or still being computed.
pub enum Source {
    Running(Running),
    Batches(SchemaRef, std::vec::IntoIter<RecordBatch>),
}

impl Source {
    pub fn schema(&self) -> &SchemaRef {
        match self {
            Source::Running(running) => &running.schema,
            Source::Batches(schema, _) => schema,
        }
    }

    pub fn next(&mut self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        match self {
            Source::Running(running) => running.next(py),
            Source::Batches(_, batches) => Ok(batches.next()),
        }
    }

    pub fn into_reader(self) -> Box<dyn RecordBatchReader + Send> {
        match self {
            Source::Running(running) => Box::new(Reader { running }),
            Source::Batches(schema, batches) => Box::new(RecordBatchIterator::new(batches.map(Ok), schema)),
        }
    }
}

/// A running statement for readers through the Arrow C stream interface, on any thread.
struct Reader {
    running: Running,
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // The reader may hold the GIL or not, and waiting releases it. Without an interpreter nobody reads on.
        let batch = Python::try_attach(|py| {
            let batch = self.running.next(py);
            batch.map_err(|error| ArrowError::ExternalError(error.value(py).to_string().into()))
        });
        batch.and_then(Result::transpose)
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        self.running.schema.clone()
    }
}

/// One batch, for `pyarrow.record_batch` and similar functions.
#[pyclass(frozen, module = "freestone._freestone")]
pub struct Batch {
    batch: RecordBatch,
}

#[pymethods]
impl Batch {
    #[getter]
    fn num_rows(&self) -> usize {
        self.batch.num_rows()
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

/// A query's batches, one at a time, or all as one stream.
#[pyclass(frozen, module = "freestone._freestone")]
pub struct Batches {
    /// `None` after the remaining rows were passed on.
    source: parking_lot::Mutex<Option<Source>>,
    schema: SchemaRef,
    closed: Closed,
}

impl Batches {
    pub fn new(source: Source, closed: Closed) -> Self {
        let schema = source.schema().clone();
        Batches { source: parking_lot::Mutex::new(Some(source)), schema, closed }
    }

    /// The source, for the duration of a call. Another thread that calls meanwhile is refused, because it might wait
    /// for the thread that holds the GIL.
    fn with<T>(&self, py: Python<'_>, work: impl FnOnce(&mut Option<Source>) -> PyResult<T>) -> PyResult<T> {
        match self.source.try_lock() {
            Some(mut source) => work(&mut source),
            None => Err(interface(py, "another thread reads this result", "give each thread a result of its own")),
        }
    }
}

#[pymethods]
impl Batches {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        self.closed.check(py)?;
        self.with(py, |source| {
            let batch = source.as_mut().map(|source| source.next(py)).transpose()?.flatten();
            Ok(batch.map(|batch| Batch { batch }))
        })
    }

    /// Ends the query.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |source| {
            let dropped = source.take();
            py.detach(|| drop(dropped));
            Ok(())
        })
    }

    /// A stream without batches, for its schema.
    fn no_rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, NoRows>> {
        Bound::new(py, NoRows { schema: self.schema.clone() })
    }
}

/// A stream with columns and no rows.
#[pyclass(frozen, module = "freestone._freestone")]
pub struct NoRows {
    schema: SchemaRef,
}

#[pymethods]
impl NoRows {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        capsule::export(py, Box::new(RecordBatchIterator::new([], self.schema.clone())))
    }
}
