//! What a connection asks of the database behind it, wherever that is.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use freestone::{Database, Error, ErrorKind, Inputs, Options, Outcome, Result, Session, Statement};
use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt};

use crate::remote::Remote;

/// Addresses that begin so are servers; all others are folders.
const REMOTE: &str = "freestone://";

/// A database as one connection sees it. Statements of several threads run side by side.
pub trait Backend: Send + Sync {
    /// Another connection to the same database, with settings of its own, cancelled on its own.
    fn another(&self) -> Result<Arc<dyn Backend>>;

    /// The tables that a statement names and the database does not have.
    fn missing_tables(&self, statement: &Statement) -> Result<Vec<String>>;

    /// The columns of a query's rows; nothing where the statement is no query, and is to be executed at once.
    fn schema(&self, statement: Arc<Statement>, inputs: Inputs) -> BoxFuture<'static, Result<Option<SchemaRef>>>;

    /// Executes one statement. A query's rows are computed as they are read.
    fn execute(&self, statement: Arc<Statement>, inputs: Inputs) -> BoxFuture<'static, Result<Answer>>;

    /// Cancels what the connection executes now.
    fn cancel(&self);
}

/// What a statement gives back.
pub enum Answer {
    Rows { schema: SchemaRef, stream: BoxStream<'static, Result<RecordBatch>> },
    Affected { verb: &'static str, rows: u64 },
    Done { verb: &'static str },
}

/// Opens the database at a path or an address.
pub fn open(address: &str, options: Options) -> Result<Arc<dyn Backend>> {
    if address.starts_with(REMOTE) {
        return Ok(Arc::new(Remote::connect(address)?));
    }
    let database = match address {
        ":memory:" if options.read_only => {
            return Err(Error::new(ErrorKind::Invalid, "a database in memory starts empty, so it cannot be read-only")
                .with_hint("name a folder, or leave read_only out"));
        }
        ":memory:" => Database::in_memory(options)?,
        path => Database::open(Path::new(path), options)?,
    };
    Ok(Arc::new(Embedded { session: Arc::new(database.session()) }))
}

/// The engine in this process.
struct Embedded {
    session: Arc<Session>,
}

impl Backend for Embedded {
    fn another(&self) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(Embedded { session: Arc::new(self.session.database().session()) }))
    }

    fn missing_tables(&self, statement: &Statement) -> Result<Vec<String>> {
        self.session.missing_tables(statement)
    }

    fn schema(&self, statement: Arc<Statement>, inputs: Inputs) -> BoxFuture<'static, Result<Option<SchemaRef>>> {
        let session = self.session.clone();
        Box::pin(async move { session.schema(&statement, inputs).await })
    }

    fn execute(&self, statement: Arc<Statement>, inputs: Inputs) -> BoxFuture<'static, Result<Answer>> {
        let session = self.session.clone();
        Box::pin(async move {
            Ok(match session.execute_given(&statement, inputs).await? {
                Outcome::Rows { schema, stream } => {
                    let stream = stream.map(|batch| batch.map_err(Error::from)).boxed();
                    Answer::Rows { schema, stream }
                }
                Outcome::Affected { verb, rows } => Answer::Affected { verb, rows },
                Outcome::Done { verb } => Answer::Done { verb },
            })
        })
    }

    fn cancel(&self) {
        self.session.cancel_handle().cancel();
    }
}
