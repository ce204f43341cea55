//! A server as a connection's database, over Freestone wire.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{Field, Schema};
use freestone::{ArrowTable, Error, ErrorKind, Inputs, Result, Statement, StatementKind};
use freestone_wire::address::Address;
use freestone_wire::blocking::Client;
use freestone_wire::client::{self, Input, Prepared, ResultStream};
use freestone_wire::{SqlError, Strings, WireError};
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use parking_lot::Mutex;

use crate::backend::{Answer, Backend, Planned};

/// The tables and views of a database.
const NAMES: &str = "SELECT table_name FROM information_schema.tables WHERE table_schema <> 'information_schema'";

/// A session on a server. It runs one statement at a time.
pub struct Remote {
    address: String,
    connected: Arc<Connected>,
}

/// The connection, and the known names of the database.
struct Connected {
    client: Client,
    /// Tables and views that the database is known to have.
    known: Mutex<HashSet<String>>,
}

impl Connected {
    fn client(&self) -> &freestone_wire::client::Client {
        self.client.client()
    }

    /// Asks for the names only if a statement has an unknown one.
    async fn missing(&self, named: Vec<String>) -> Result<Vec<String>> {
        let all_known = |named: &[String]| {
            let known = self.known.lock();
            named.iter().all(|name| known.contains(name))
        };
        if all_known(&named) {
            return Ok(vec![]);
        }
        let mut rows = self.client().query(NAMES, None).await.map_err(error)?;
        let mut names = HashSet::new();
        while let Some(batch) = rows.next().await.map_err(error)? {
            names.extend(batch.column(0).as_string_view().iter().flatten().map(str::to_owned));
        }
        let missing = named.into_iter().filter(|name| !names.contains(name)).collect();
        *self.known.lock() = names;
        Ok(missing)
    }

    /// The error of a statement. The known names may have caused it, so they are dropped.
    fn error(&self, wire: WireError) -> Error {
        let error = error(wire);
        if error.kind() == ErrorKind::NotFound {
            self.known.lock().clear();
        }
        error
    }

    async fn execute(
        self: Arc<Self>,
        statement: Arc<Statement>,
        inputs: client::Inputs,
        prepared: Option<Arc<Prepared>>,
    ) -> Result<Answer> {
        let client = self.client();
        let begun = match &prepared {
            Some(prepared) => client.execute_with_inputs(prepared, inputs).await,
            None => client.query_with_inputs(&statement.text, inputs).await,
        };
        let mut rows = begun.map_err(error)?;
        let schema = rows.schema().await.map_err(|wire| self.error(wire))?;
        if !schema.fields().is_empty() {
            return Ok(Answer::Rows { schema, stream: stream(rows, self.clone()).boxed() });
        }
        while rows.next().await.map_err(|wire| self.error(wire))?.is_some() {}
        let summary = rows.summary().ok_or_else(|| error(WireError::Closed("by the server")))?;
        let (verb, rows) = (summary.tag.clone().into(), summary.rows);
        Ok(if summary.counts_rows() { Answer::Affected { verb, rows } } else { Answer::Done { verb } })
    }
}

impl Remote {
    /// Connects to `freestone://user:password@host:port`.
    ///
    /// # Errors
    /// The server cannot be reached, or it rejects the user.
    pub fn connect(address: &str) -> Result<Remote> {
        let parsed = Address::parse(address).map_err(error)?.with_password_of_environment();
        let client = Client::connect_to(parsed).map_err(error)?;
        let connected = Connected { client, known: Mutex::default() };
        Ok(Remote { address: address.to_owned(), connected: Arc::new(connected) })
    }
}

impl Backend for Remote {
    fn another(&self) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(Remote::connect(&self.address)?))
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn missing_tables(&self, statement: Statement) -> BoxFuture<'static, Result<Vec<String>>> {
        let connected = self.connected.clone();
        Box::pin(async move { connected.missing(statement.named_tables()?).await })
    }

    fn plan(&self, statement: Arc<Statement>, inputs: Inputs) -> BoxFuture<'static, Result<Option<Planned>>> {
        let connected = self.connected.clone();
        Box::pin(async move {
            if statement.kind != StatementKind::Query {
                return Ok(None);
            }
            let expected = statement.parameter_names()?.count();
            if inputs.values.is_empty() && expected > 0 {
                // The server would take it for a statement whose values are sent later.
                let message = format!("the statement has {expected} parameters and was given 0");
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            let inputs = client::Inputs {
                parameters: parameters(&inputs)?,
                tables: inputs_of(&inputs, false),
                ..client::Inputs::default()
            };
            let prepared = connected.client().prepare_with_inputs(&statement.text, inputs).await;
            let prepared = prepared.map_err(|wire| connected.error(wire))?;
            let schema = prepared.columns().clone();
            let gives_rows = !schema.fields().is_empty();
            Ok(gives_rows.then(|| Planned { schema, prepared: Some(Arc::new(prepared)) }))
        })
    }

    fn execute(
        &self,
        statement: Arc<Statement>,
        inputs: Inputs,
        planned: Option<&Planned>,
        strings: Strings,
    ) -> BoxFuture<'static, Result<Answer>> {
        let (connected, prepared) = (self.connected.clone(), planned.and_then(|planned| planned.prepared.clone()));
        Box::pin(async move {
            let inputs = client::Inputs { parameters: parameters(&inputs)?, tables: inputs_of(&inputs, true), strings };
            connected.execute(statement, inputs, prepared).await
        })
    }

    fn cancel(&self) {
        let handle = self.connected.client().cancel_handle();
        // Uses a connection of its own, on a thread for which nobody waits. If it fails, the server has failed, too.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| runtime.block_on(handle.cancel()))
        });
    }
}

/// The rows of a result, with a reference to the connection.
fn stream(rows: ResultStream, connected: Arc<Connected>) -> impl futures::Stream<Item = Result<RecordBatch>> {
    stream::unfold((rows, connected), |(mut rows, connected)| async move {
        let next = rows.next().await.map_err(error).transpose()?;
        Some((next, (rows, connected)))
    })
}

/// Parameter values as one row.
fn parameters(inputs: &Inputs) -> Result<Option<RecordBatch>> {
    if inputs.values.is_empty() {
        return Ok(None);
    }
    let arrays = inputs.values.iter().map(|value| value.to_array().map_err(Error::from)).collect::<Result<Vec<_>>>()?;
    let field = |(at, array): (usize, &ArrayRef)| Field::new(format!("${}", at + 1), array.data_type().clone(), true);
    let schema = Schema::new(arrays.iter().enumerate().map(field).collect::<Vec<_>>());
    let row = RecordBatch::try_new(Arc::new(schema), arrays);
    row.map(Some).map_err(|error| Error::new(ErrorKind::Type, error.to_string()))
}

/// Tables of this process as inputs of a statement. For planning, their columns suffice.
fn inputs_of(inputs: &Inputs, with_rows: bool) -> Vec<Input> {
    let input = |(name, table): (&String, &ArrowTable)| Input {
        name: name.clone(),
        schema: table.schema().clone(),
        whole: table.is_in_memory(),
        batches: if with_rows { batches(table.clone()) } else { Box::new(std::iter::empty()) },
    };
    inputs.tables.iter().map(input).collect()
}

/// The rows of a table, which is not read before the first of them is requested.
fn batches(table: ArrowTable) -> Box<dyn Iterator<Item = std::result::Result<RecordBatch, WireError>> + Send> {
    let failed = |error: Error| WireError::Source(error.to_string());
    let opened = std::iter::once_with(move || table.read());
    Box::new(opened.flat_map(move |reader| -> Box<dyn Iterator<Item = _> + Send> {
        match reader {
            Ok(reader) => Box::new(reader.map(move |batch| batch.map_err(|error| failed(Error::from(error))))),
            Err(error) => Box::new(std::iter::once(Err(failed(error)))),
        }
    }))
}

/// An error of the server or of the connection, in the engine's form.
fn error(error: WireError) -> Error {
    match error {
        WireError::Sql(sql) => of_server(*sql),
        WireError::Authentication(reason) => Error::new(ErrorKind::Denied, reason),
        WireError::Cancelled => Error::cancelled(),
        WireError::Source(reason) => Error::new(ErrorKind::Invalid, reason),
        WireError::Config(reason) => Error::new(ErrorKind::Invalid, reason),
        WireError::Busy => Error::new(ErrorKind::Invalid, "the connection is busy with another result")
            .with_hint("read or drop that first, or use another connection: db.cursor()"),
        other => Error::new(ErrorKind::Io, other.to_string()),
    }
}

fn of_server(error: SqlError) -> Error {
    let converted = Error::new(ErrorKind::of_sqlstate(&error.sqlstate), error.message);
    match error.hint {
        Some(hint) => converted.with_hint(hint),
        None => converted,
    }
}
