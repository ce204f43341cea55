//! Connections: where statements begin.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use freestone::{Error, ErrorKind, Options, Statement, parse_script, parse_size};
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::backend;
use crate::error::{OrRaise, interface, raise};
use crate::inputs;
use crate::query::{Link, Query};
use crate::results::{self, Started};
use crate::workers::Workers;

/// A connection to a database. Threads may share it; each of its statements has a snapshot of its own.
#[pyclass(frozen, module = "freestone._freestone")]
pub struct Connection {
    /// Nothing once it is closed.
    link: Mutex<Option<Link>>,
}

#[pymethods]
impl Connection {
    #[new]
    #[pyo3(signature = (address, read_only = false, threads = None, memory_limit = None))]
    fn new(
        py: Python<'_>,
        address: &str,
        read_only: bool,
        threads: Option<usize>,
        memory_limit: Option<&str>,
    ) -> PyResult<Self> {
        let options = options(read_only, threads, memory_limit).or_raise(py)?;
        let workers = Workers::start(options.threads).map_err(|error| {
            let error = Error::new(ErrorKind::Resource, format!("cannot start threads: {error}"));
            crate::error::to_python(py, &error)
        })?;
        let backend = py.detach(|| backend::open(address, options)).or_raise(py)?;
        Ok(Self::over(Link { backend, workers, closed: Arc::default() }))
    }

    /// Another connection to the same database, with settings of its own, cancelled on its own.
    fn another(&self, py: Python<'_>) -> PyResult<Connection> {
        let link = self.link(py)?;
        let backend = link.backend.another().or_raise(py)?;
        Ok(Self::over(Link { backend, closed: Arc::new(AtomicBool::new(false)), ..link }))
    }

    /// Runs a script. Its last statement is the result: a query that has not run yet, or what any other one gave.
    /// `find` gives tables for names that the database does not have.
    fn run(
        &self,
        py: Python<'_>,
        text: &str,
        values: Option<Bound<'_, PyAny>>,
        find: Bound<'_, PyAny>,
    ) -> PyResult<Query> {
        let link = self.link(py)?;
        let mut statements = parse_script(text);
        let Some(last) = statements.pop() else {
            let hint = Some("write one, such as SELECT 1");
            return Err(raise(py, "ProgrammingError", "there is no statement in the text", hint));
        };
        for statement in statements {
            run_through(py, &link, statement, &find)?;
        }
        let values = inputs::values(&last, values.as_ref())?;
        let tables = tables(py, &link, &last, &find)?;
        Query::new(py, link, last, inputs::gather(values, tables))
    }

    /// Cancels the statements that run now.
    fn cancel(&self) {
        if let Some(link) = self.link.lock().as_ref() {
            link.backend.cancel();
        }
    }

    /// Cancels what runs and lets go of the database. Closing twice does nothing.
    fn close(&self, py: Python<'_>) {
        let link = self.link.lock().take();
        if let Some(link) = link {
            link.closed.store(true, Ordering::Release);
            link.backend.cancel();
            py.detach(|| drop(link));
        }
    }

    #[getter]
    fn closed(&self) -> bool {
        self.link.lock().is_none()
    }
}

impl Connection {
    fn over(link: Link) -> Self {
        Connection { link: Mutex::new(Some(link)) }
    }

    fn link(&self, py: Python<'_>) -> PyResult<Link> {
        let link = self.link.lock().clone();
        link.ok_or_else(|| interface(py, "the connection is closed", "open another one with freestone.connect()"))
    }
}

fn options(read_only: bool, threads: Option<usize>, memory_limit: Option<&str>) -> freestone::Result<Options> {
    let defaults = Options::default();
    if threads == Some(0) {
        return Err(Error::new(ErrorKind::Invalid, "threads = 0: a statement needs at least one"));
    }
    let memory_limit = match memory_limit {
        Some(text) => Some(parse_size(text)?),
        None => defaults.memory_limit,
    };
    Ok(Options { threads: threads.unwrap_or(defaults.threads), memory_limit, read_only, ..defaults })
}

/// Runs a statement whose result nobody sees, to its end.
fn run_through(py: Python<'_>, link: &Link, statement: Statement, find: &Bound<'_, PyAny>) -> PyResult<()> {
    let tables = tables(py, link, &statement, find)?;
    match link.start(py, &Arc::new(statement), &inputs::gather(vec![], tables))? {
        Started::Done { .. } => Ok(()),
        Started::Rows(running) => {
            while running.next(py)?.is_some() {}
            Ok(())
        }
    }
}

/// The tables that a statement names and the database does not have.
fn tables(
    py: Python<'_>,
    link: &Link,
    statement: &Statement,
    find: &Bound<'_, PyAny>,
) -> PyResult<HashMap<String, freestone::ArrowTable>> {
    let (backend, statement) = (link.backend.clone(), statement.clone());
    let missing = async move { backend.missing_tables(&statement) };
    let names = results::wait_for(py, &link.workers, &link.backend, missing)?;
    if names.is_empty() { Ok(HashMap::new()) } else { inputs::tables(py, names, find) }
}
