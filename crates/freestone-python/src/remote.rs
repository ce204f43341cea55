//! A server as a connection's database, over Freestone wire.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use freestone::{Error, ErrorKind, Inputs, Result, Statement, StatementKind};
use freestone_wire::blocking::Client;
use freestone_wire::client::{CancelHandle, ResultStream};
use freestone_wire::{SqlError, WireError};
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};

use crate::backend::{Answer, Backend};

/// A session on a server. It runs one statement at a time.
pub struct Remote {
    address: String,
    client: Arc<Connected>,
}

/// The client, with the threads that read from the server. Those must not be waited for on a thread of another runtime.
struct Connected(Option<Client>);

impl Drop for Connected {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            std::thread::spawn(move || drop(client));
        }
    }
}

impl Connected {
    fn client(&self) -> &freestone_wire::client::Client {
        self.0.as_ref().expect("the client is there until the drop").client()
    }
}

impl Remote {
    /// Connects to `freestone://user:password@host:port`.
    pub fn connect(address: &str) -> Result<Remote> {
        let client = Client::connect(address).map_err(error)?;
        Ok(Remote { address: address.to_owned(), client: Arc::new(Connected(Some(client))) })
    }

    fn cancel_handle(&self) -> CancelHandle {
        self.client.client().cancel_handle()
    }
}

impl Backend for Remote {
    fn another(&self) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(Remote::connect(&self.address)?))
    }

    /// Names mean what they mean on the server: what is missing there is its error.
    fn missing_tables(&self, _: &Statement) -> Result<Vec<String>> {
        Ok(vec![])
    }

    fn schema(&self, statement: Arc<Statement>, _: Inputs) -> BoxFuture<'static, Result<Option<SchemaRef>>> {
        let client = self.client.clone();
        Box::pin(async move {
            if statement.kind != StatementKind::Query {
                return Ok(None);
            }
            let prepared = client.client().prepare(&statement.text).await.map_err(error)?;
            Ok(Some(prepared.columns().clone()))
        })
    }

    fn execute(&self, statement: Arc<Statement>, inputs: Inputs) -> BoxFuture<'static, Result<Answer>> {
        let client = self.client.clone();
        Box::pin(async move {
            let parameters = parameters(&inputs)?;
            let mut rows = client.client().query(&statement.text, parameters.as_ref()).await.map_err(error)?;
            let schema = rows.schema().await.map_err(error)?;
            if !schema.fields().is_empty() {
                return Ok(Answer::Rows { schema, stream: stream(rows, client).boxed() });
            }
            while rows.next().await.map_err(error)?.is_some() {}
            let (tag, count) = rows.summary().map_or(("", 0), |summary| (summary.tag.as_str(), summary.rows));
            let verb = verb(tag);
            Ok(match verb {
                "INSERT" | "UPDATE" | "DELETE" | "COPY" => Answer::Affected { verb, rows: count },
                _ => Answer::Done { verb },
            })
        })
    }

    fn cancel(&self) {
        let handle = self.cancel_handle();
        // A connection of its own, made where nobody waits for it. If it fails, so has the server.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| runtime.block_on(handle.cancel()))
        });
    }
}

/// The rows of a result; it keeps the connection.
fn stream(rows: ResultStream, client: Arc<Connected>) -> impl futures::Stream<Item = Result<RecordBatch>> {
    stream::unfold((rows, client), |(mut rows, client)| async move {
        let next = rows.next().await.map_err(error).transpose()?;
        Some((next, (rows, client)))
    })
}

/// Values of parameters as one row; tables of this process cannot be named on a server.
fn parameters(inputs: &Inputs) -> Result<Option<RecordBatch>> {
    if !inputs.tables.is_empty() {
        return Err(Error::new(ErrorKind::Unsupported, "statements of a server cannot name tables of this process"));
    }
    if inputs.values.is_empty() {
        return Ok(None);
    }
    let arrays = inputs.values.iter().map(|value| value.to_array().map_err(Error::from)).collect::<Result<Vec<_>>>()?;
    let field = |(at, array): (usize, &arrow::array::ArrayRef)| {
        Field::new(format!("${}", at + 1), array.data_type().clone(), true)
    };
    let schema = Schema::new(arrays.iter().enumerate().map(field).collect::<Vec<_>>());
    let row = RecordBatch::try_new(Arc::new(schema), arrays);
    row.map(Some).map_err(|error| Error::new(ErrorKind::Type, error.to_string()))
}

/// What was done, by the server's word for it.
fn verb(tag: &str) -> &'static str {
    const VERBS: [&str; 17] = [
        "INSERT",
        "UPDATE",
        "DELETE",
        "COPY",
        "CREATE TABLE",
        "CREATE VIEW",
        "DROP TABLE",
        "DROP VIEW",
        "DROP",
        "TRUNCATE",
        "ALTER TABLE",
        "VACUUM",
        "SET",
        "RESET",
        "PREPARE",
        "DEALLOCATE",
        "CREATE",
    ];
    VERBS.into_iter().find(|verb| *verb == tag).unwrap_or("STATEMENT")
}

/// An error of the server or of the way to it, as the engine would give it.
fn error(error: WireError) -> Error {
    match error {
        WireError::Sql(sql) => of_server(*sql),
        WireError::Authentication(reason) => Error::new(ErrorKind::Denied, reason),
        WireError::Cancelled => Error::cancelled(),
        other => Error::new(ErrorKind::Io, other.to_string()),
    }
}

fn of_server(error: SqlError) -> Error {
    let given = Error::new(ErrorKind::of_sqlstate(&error.sqlstate), error.message);
    match error.hint {
        Some(hint) => given.with_hint(hint),
        None => given,
    }
}
