//! Connections, which run statements.

use std::collections::HashMap;
use std::sync::Arc;

use freestone::{Error, ErrorKind, Options, Statement, Strings, parse_script, parse_size};
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::backend::{self, Kind};
use crate::closed::Closed;
use crate::error::{OrRaise, interface, raise};
use crate::functions::Given;
use crate::inputs;
use crate::query::{Link, Query};
use crate::results::{self, StatementStart};
use crate::workers::Workers;

/// The name of the table with the sets of parameters of one statement.
const SETS: &str = "freestone$sets";

/// A connection to a database. Threads may share it. Each of its statements has a snapshot of its own.
#[pyclass(frozen, module = "freestone._freestone")]
pub struct Connection {
    /// `None` after it was closed.
    link: Mutex<Option<Link>>,
}

#[pymethods]
impl Connection {
    #[new]
    #[pyo3(signature = (address, read_only = false, threads = None, memory_limit = None, pmem = None))]
    fn new(
        py: Python<'_>,
        address: &str,
        read_only: bool,
        threads: Option<usize>,
        memory_limit: Option<&str>,
        pmem: Option<&str>,
    ) -> PyResult<Self> {
        let is_set = read_only || threads.is_some() || memory_limit.is_some() || pmem.is_some();
        if backend::is_address(address) && is_set {
            let message = "read_only, threads, memory_limit and pmem are for a database in this process";
            let hint = "on a server they are options of `freestone serve`; users have roles";
            return Err(raise(py, "ProgrammingError", message, Some(hint)));
        }
        let options = options(read_only, threads, memory_limit, pmem).or_raise(py)?;
        let workers = Workers::start(options.threads, backend::is_address(address)).map_err(|error| {
            let error = Error::new(ErrorKind::Resource, format!("cannot start threads: {error}"));
            crate::error::to_python(py, &error)
        })?;
        let backend = py.detach(|| backend::open(address, options)).or_raise(py)?;
        Ok(Self::over(Link { backend, workers, closed: Closed::default() }))
    }

    /// Another connection to the same database, with its own settings and its own cancellation.
    fn another(&self, py: Python<'_>) -> PyResult<Connection> {
        let link = self.link(py)?;
        let backend = link.backend.another().or_raise(py)?;
        Ok(Self::over(Link { backend, closed: Closed::default(), ..link }))
    }

    /// Runs a script. Its last statement is the result: a query that has not run yet, or the result of any other one.
    /// `find` supplies tables for names that the database does not have.
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
        let values = inputs::gather(inputs::values(&last, values.as_ref())?, HashMap::new());
        link.workers.check_process(py)?;
        if py.detach(|| link.backend.plan_now(&last, &values)).is_some() {
            return Query::new(py, link, last, values);
        }
        let tables = tables(py, &link, &last, &find)?;
        Query::new(py, link, last, inputs::gather(values.values, tables))
    }

    /// Runs an INSERT of one row of values for all sets of parameters, in one commit, and returns the number of rows.
    /// Returns None, without doing anything, for other statements. `in_transaction`: the caller has begun one.
    fn run_many(
        &self,
        py: Python<'_>,
        text: &str,
        sets: Bound<'_, PyAny>,
        in_transaction: bool,
    ) -> PyResult<Option<u64>> {
        let link = self.link(py)?;
        let Ok([statement]) = <[Statement; 1]>::try_from(parse_script(text)) else { return Ok(None) };
        let Some(insert) = statement.for_each_row_of(SETS) else { return Ok(None) };
        let groups = inputs::sets(&statement, &sets)?;
        let insert = Arc::new(insert);
        let one = |table| {
            let tables = HashMap::from([(SETS.to_owned(), table)]);
            match link.start(py, &insert, &inputs::gather(vec![], tables), None, Strings::Views)? {
                StatementStart::Done { rows, .. } => Ok(rows.unwrap_or(0)),
                StatementStart::Rows(_) => Err(interface(py, "an INSERT gave rows", "call execute() for each set")),
            }
        };
        if groups.len() == 1 || in_transaction {
            return groups.into_iter().map(one).sum::<PyResult<u64>>().map(Some);
        }
        run_plain(py, &link, "BEGIN")?;
        match groups.into_iter().map(one).sum::<PyResult<u64>>() {
            Ok(rows) => run_plain(py, &link, "COMMIT").map(|()| Some(rows)),
            Err(error) => {
                // The first error counts.
                let _ = run_plain(py, &link, "ROLLBACK");
                Err(error)
            }
        }
    }

    /// Adds a function of Python to SQL. `types` is a query with a column per parameter and one for the result; the parameters at
    /// `any` take every type. `body` computes it.
    #[pyo3(signature = (name, body, types, any, accepts_more, takes_nulls, side_effects, aggregate))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn create_function(
        &self,
        py: Python<'_>,
        name: String,
        body: Py<PyAny>,
        types: &Query,
        any: Vec<usize>,
        accepts_more: bool,
        takes_nulls: bool,
        side_effects: bool,
        aggregate: bool,
    ) -> PyResult<()> {
        let link = self.link(py)?;
        let mut parameters: Vec<_> = types.data_types(py)?.into_iter().map(Some).collect();
        let Some(Some(result)) = parameters.pop() else {
            return Err(interface(py, "a function has a type of results", "give return_type"));
        };
        for (at, parameter) in parameters.iter_mut().enumerate() {
            if any.contains(&at) {
                *parameter = None;
            }
        }
        let (is_volatile, kind) = (side_effects, if aggregate { Kind::Aggregate } else { Kind::Scalar });
        let given = Given { name, parameters, accepts_more, result, is_volatile, takes_nulls, body };
        let calls = link.backend.calls().or_raise(py)?;
        link.backend.create_function(given.hosted(&calls, link.workers.address()), kind).or_raise(py)
    }

    /// Removes a function of Python.
    fn remove_function(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.link(py)?.backend.remove_function(name).or_raise(py)
    }

    /// Cancels the running statements.
    fn cancel(&self) {
        if let Some(link) = self.link.lock().as_ref() {
            link.backend.cancel();
        }
    }

    /// Cancels the running statements and closes the database. Closing twice does nothing.
    fn close(&self, py: Python<'_>) {
        let link = self.link.lock().take();
        if let Some(link) = link {
            link.closed.set();
            link.backend.cancel();
            py.detach(|| drop(link));
        }
    }

    /// Whether the database belongs to a server.
    #[getter]
    fn remote(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.link(py)?.backend.is_remote())
    }

    /// Whether a transaction of several statements is open; false if that is not known here.
    #[getter]
    fn in_transaction(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.link(py)?.backend.in_transaction())
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

fn options(
    read_only: bool,
    threads: Option<usize>,
    memory_limit: Option<&str>,
    pmem: Option<&str>,
) -> freestone::Result<Options> {
    let defaults = Options::default();
    if threads == Some(0) {
        return Err(Error::new(ErrorKind::Invalid, "threads = 0: a statement needs at least one"));
    }
    let memory_limit = match memory_limit {
        Some(text) => Some(parse_size(text)?),
        None => defaults.memory_limit,
    };
    let pmem_emulated =
        pmem.map(str::parse).transpose().map_err(|wrong: String| Error::new(ErrorKind::Invalid, wrong))?;
    Ok(Options { threads: threads.unwrap_or(defaults.threads), memory_limit, read_only, pmem_emulated, ..defaults })
}

/// Runs a statement that has neither inputs nor rows.
fn run_plain(py: Python<'_>, link: &Link, text: &str) -> PyResult<()> {
    for statement in parse_script(text) {
        link.start(py, &Arc::new(statement), &inputs::gather(vec![], HashMap::new()), None, Strings::Views)?;
    }
    Ok(())
}

/// Runs a statement to its end and discards its result.
fn run_through(py: Python<'_>, link: &Link, statement: Statement, find: &Bound<'_, PyAny>) -> PyResult<()> {
    let tables = tables(py, link, &statement, find)?;
    match link.start(py, &Arc::new(statement), &inputs::gather(vec![], tables), None, Strings::Views)? {
        StatementStart::Done { .. } => Ok(()),
        StatementStart::Rows(running) => {
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
    let missing = link.backend.missing_tables(statement.clone());
    let names = results::wait_for(py, &link.workers, &link.backend, missing)?;
    if names.is_empty() { Ok(HashMap::new()) } else { inputs::tables(py, names, find) }
}
