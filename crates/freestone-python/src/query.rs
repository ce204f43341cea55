//! One statement with its inputs: a query that runs when its rows are requested, or the result of another statement.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchIterator};
use arrow::datatypes::{DataType, SchemaRef};
use freestone::{Error, Inputs, Statement, Strings, parse_script, type_name};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::backend::{Backend, Planned, Verb};
use crate::capsule;
use crate::closed::Closed;
use crate::error::{OrRaise, interface};
use crate::frames;
use crate::results::{self, Batches, Source, StatementStart};
use crate::rows::Rows;
use crate::workers::Workers;

/// What a connection and its queries share.
#[derive(Clone)]
pub struct Link {
    pub backend: Arc<dyn Backend>,
    pub workers: Arc<Workers>,
    pub closed: Closed,
}

impl Link {
    pub fn start(
        &self,
        py: Python<'_>,
        statement: &Arc<Statement>,
        inputs: &Inputs,
        planned: Option<&Planned>,
        strings: Strings,
    ) -> PyResult<StatementStart> {
        self.closed.check(py)?;
        let answer = self.backend.execute(statement.clone(), inputs.clone(), planned, strings);
        results::start(py, &self.workers, &self.backend, answer)
    }
}

#[pyclass(frozen, module = "freestone._freestone")]
pub struct Query {
    link: Link,
    statement: Arc<Statement>,
    inputs: Inputs,
    state: State,
}

enum State {
    /// Runs whenever its rows are requested.
    Lazy(Planned),
    /// Has run, with rows.
    Rows(SchemaRef, Vec<RecordBatch>),
    /// Has run, without rows.
    Done { verb: Verb, rows: Option<u64> },
}

impl Query {
    /// Plans a query, or executes any other statement.
    pub fn new(py: Python<'_>, link: Link, statement: Statement, inputs: Inputs) -> PyResult<Query> {
        link.closed.check(py)?;
        let statement = Arc::new(statement);
        let planned = match py.detach(|| link.backend.plan_now(&statement, &inputs)) {
            Some(planned) => planned,
            None => {
                let planned = link.backend.plan(statement.clone(), inputs.clone());
                results::wait_for(py, &link.workers, &link.backend, planned)?
            }
        };
        let state = match planned {
            Some(planned) => State::Lazy(planned),
            None => match link.start(py, &statement, &inputs, None, Strings::Views)? {
                StatementStart::Done { verb, rows } => State::Done { verb, rows },
                StatementStart::Rows(running) => {
                    let schema = running.schema.clone();
                    State::Rows(schema, running.collect(py)?)
                }
            },
        };
        Ok(Query { link, statement, inputs, state })
    }

    fn schema(&self) -> Option<&SchemaRef> {
        match &self.state {
            State::Lazy(Planned { schema, .. }) | State::Rows(schema, _) => Some(schema),
            State::Done { .. } => None,
        }
    }

    /// The types of its columns, if each of them is one of plain values, and not of texts of which only some are allowed.
    pub fn data_types(&self, py: Python<'_>) -> PyResult<Vec<DataType>> {
        let fields = self.schema().map(|schema| schema.fields().clone()).unwrap_or_default();
        if fields.last().is_some_and(|field| !field.metadata().is_empty()) {
            let message = "a function cannot return ENUM and other types of which only some texts are values";
            let hint = "return VARCHAR, and cast it in SQL: CAST(f(x) AS type)";
            return Err(crate::error::raise(py, "NotSupportedError", message, Some(hint)));
        }
        Ok(fields.iter().map(|field| field.data_type().clone()).collect())
    }

    /// The rows, from the first one.
    fn source(&self, py: Python<'_>, strings: Strings) -> PyResult<Source> {
        self.link.closed.check(py)?;
        match &self.state {
            State::Rows(schema, batches) => {
                let batches =
                    batches.iter().map(|batch| strings.batch(batch.clone()).map_err(Error::from).or_raise(py));
                let batches = batches.collect::<PyResult<Vec<_>>>()?;
                Ok(Source::Batches(strings.schema(schema), batches.into_iter()))
            }
            State::Done { verb, .. } => {
                let message = format!("{verb} returns no rows");
                Err(interface(py, &message, "ask for rows with SELECT"))
            }
            State::Lazy(planned) => {
                self.link.workers.check_process(py)?;
                let now = py.detach(|| self.link.backend.execute_now(&self.statement, &self.inputs, strings));
                if let Some(rows) = now {
                    let (schema, batches) = rows.or_raise(py)?;
                    return Ok(Source::Batches(schema, batches.into_iter()));
                }
                self.start_planned(py, planned, strings)
            }
        }
    }

    fn start_planned(&self, py: Python<'_>, planned: &Planned, strings: Strings) -> PyResult<Source> {
        match self.link.start(py, &self.statement, &self.inputs, Some(planned), strings)? {
            StatementStart::Rows(running) => Ok(Source::Running(running)),
            StatementStart::Done { verb, .. } => Err(interface(py, &format!("{verb} returns no rows"), "use SELECT")),
        }
    }
}

#[pymethods]
impl Query {
    #[getter]
    fn text(&self) -> &str {
        &self.statement.text
    }

    /// The names of the columns; empty if the statement has no rows.
    #[getter]
    fn columns(&self) -> Vec<String> {
        let fields = self.schema().map(|schema| schema.fields().iter());
        fields.into_iter().flatten().map(|field| field.name().clone()).collect()
    }

    #[getter]
    fn types(&self) -> Vec<String> {
        let fields = self.schema().map(|schema| schema.fields().iter());
        fields.into_iter().flatten().map(|field| type_name(field.data_type())).collect()
    }

    /// Whether each column may be NULL.
    #[getter]
    fn nullable(&self) -> Vec<bool> {
        let fields = self.schema().map(|schema| schema.fields().iter());
        fields.into_iter().flatten().map(|field| field.is_nullable()).collect()
    }

    /// Whether the database belongs to a server.
    #[getter]
    fn remote(&self) -> bool {
        self.link.backend.is_remote()
    }

    #[getter]
    fn gives_rows(&self) -> bool {
        self.schema().is_some()
    }

    /// What a statement without rows did: its verb, and the number of rows that it wrote, if it counts them.
    #[getter]
    fn done(&self) -> Option<(&str, Option<u64>)> {
        match &self.state {
            State::Done { verb, rows } => Some((verb, *rows)),
            _ => None,
        }
    }

    #[pyo3(signature = (string_views = false))]
    fn batches(&self, py: Python<'_>, string_views: bool) -> PyResult<Batches> {
        self.source(py, Strings::views(string_views)).map(|source| Batches::new(source, self.link.closed.clone()))
    }

    /// Raises an error if the connection was closed.
    fn check_open(&self, py: Python<'_>) -> PyResult<()> {
        self.link.closed.check(py)
    }

    fn rows(&self, py: Python<'_>) -> PyResult<Rows> {
        self.source(py, Strings::Views).map(|source| Rows::new(source, self.link.closed.clone()))
    }

    /// Runs the query to its end.
    #[pyo3(signature = (string_views = false))]
    fn collect(&self, py: Python<'_>, string_views: bool) -> PyResult<Collected> {
        Ok(match self.source(py, Strings::views(string_views))? {
            Source::Running(running) => Collected { schema: running.schema.clone(), batches: running.collect(py)? },
            Source::Batches(schema, batches) => Collected { schema, batches: batches.collect() },
        })
    }

    /// Runs the query to its end, for a data frame: columns have distinct names, and types to compute with.
    /// `interval_texts`: intervals with months are texts.
    #[pyo3(signature = (string_views = false, interval_texts = false))]
    fn frame(&self, py: Python<'_>, string_views: bool, interval_texts: bool) -> PyResult<Collected> {
        let Collected { schema, batches } = self.collect(py, string_views)?;
        let made = py.detach(|| frames::computable(&schema, batches, interval_texts));
        let (schema, batches) = made.or_raise(py)?;
        Ok(Collected { schema, batches })
    }

    /// Another statement around this one's text, with the same inputs.
    fn wrapped(&self, py: Python<'_>, before: &str, after: &str) -> PyResult<Query> {
        let text = format!("{before}{}{after}", self.statement.text);
        match <[Statement; 1]>::try_from(parse_script(&text)) {
            Ok([statement]) => Query::new(py, self.link.clone(), statement, self.inputs.clone()),
            Err(_) => Err(interface(py, "the statement cannot be part of another", "give it as one statement")),
        }
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface allows a producer to leave casting to the consumer.
        let _ = requested_schema;
        capsule::export(py, self.source(py, Strings::Plain)?.into_reader())
    }
}

/// All of a query's rows.
#[pyclass(frozen, module = "freestone._freestone")]
pub struct Collected {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

#[pymethods]
impl Collected {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = self.batches.clone().into_iter().map(Ok);
        capsule::export(py, Box::new(RecordBatchIterator::new(batches, self.schema.clone())))
    }
}
