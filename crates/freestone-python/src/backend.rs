//! The interface between a connection and its database, local or remote.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use freestone::{
    Database, Error, ErrorKind, HostFunction, Inputs, Options, Outcome, Result, Session, Statement, TransactionStatus,
};
use freestone_wire::Strings;
use freestone_wire::client::Prepared;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt};
use parking_lot::Mutex;

use crate::calls::Calls;
use crate::remote::Remote;

/// A database as one connection sees it. In this process, statements of several threads run concurrently.
pub trait Backend: Send + Sync {
    /// Another connection to the same database, with its own settings and its own cancellation.
    fn another(&self) -> Result<Arc<dyn Backend>>;

    /// Whether the database belongs to a server.
    fn is_remote(&self) -> bool;

    /// The tables that a statement names and the database does not have.
    fn missing_tables(&self, statement: Statement) -> BoxFuture<'static, Result<Vec<String>>>;

    /// Plans a query. `None` if the statement is no query and has to be executed at once.
    fn plan(&self, statement: Arc<Statement>, inputs: Inputs) -> BoxFuture<'static, Result<Option<Planned>>>;

    /// What [`Backend::missing_tables`] and [`Backend::plan`] would find, if that is known without waiting: no tables, and
    /// the columns of a query, or `None` for another statement.
    fn plan_now(&self, _: &Statement, _: &Inputs) -> Option<Option<Planned>> {
        None
    }

    /// The rows of a query, if it can be executed without waiting.
    fn execute_now(&self, _: &Statement, _: &Inputs, _: Strings) -> Option<Result<(SchemaRef, Vec<RecordBatch>)>> {
        None
    }

    /// Executes one statement, which may have been planned. A query's rows are computed as they are read, in the layout
    /// `strings`.
    fn execute(
        &self,
        statement: Arc<Statement>,
        inputs: Inputs,
        planned: Option<&Planned>,
        strings: Strings,
    ) -> BoxFuture<'static, Result<Answer>>;

    /// Whether a transaction of several statements is open; false if that is not known here.
    fn in_transaction(&self) -> bool {
        false
    }

    /// The functions of Python that its statements call now.
    ///
    /// # Errors
    /// The database is on a server.
    fn calls(&self) -> Result<Arc<Calls>> {
        Err(on_server())
    }

    /// Adds a function or an aggregate of Python to SQL, for this connection.
    fn create_function(&self, _: HostFunction, _: Kind) -> Result<()> {
        Err(on_server())
    }

    /// Removes such a function.
    fn remove_function(&self, _: &str) -> Result<()> {
        Err(on_server())
    }

    /// Cancels what the connection is executing.
    fn cancel(&self);
}

/// A function of each row, or of the rows of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Scalar,
    Aggregate,
}

fn on_server() -> Error {
    Error::new(ErrorKind::Unsupported, "functions of Python run in this process, and the database is on a server")
        .with_hint("fetch the rows and compute with them here, or open the database in this process")
}

/// The properties of a query before it runs.
#[derive(Clone)]
pub struct Planned {
    pub schema: SchemaRef,
    /// The statement prepared on the server.
    pub prepared: Option<Arc<Prepared>>,
}

/// The kind of a statement, in SQL's words.
pub type Verb = Cow<'static, str>;

/// The result of a statement.
pub enum Answer {
    Rows { schema: SchemaRef, stream: BoxStream<'static, Result<RecordBatch>> },
    Affected { verb: Verb, rows: u64 },
    Done { verb: Verb },
}

/// Whether a text is the address of a server. All others are folders, or places in object storage.
pub fn is_address(text: &str) -> bool {
    text.contains("://") && !freestone::is_bucket(text)
}

/// Opens the database at a path or an address.
///
/// # Errors
/// The database cannot be opened, or the server cannot be reached.
pub fn open(address: &str, options: Options) -> Result<Arc<dyn Backend>> {
    if is_address(address) {
        return Ok(Arc::new(Remote::connect(address)?));
    }
    let database = match address {
        ":memory:" if options.read_only => {
            return Err(Error::new(ErrorKind::Invalid, "a database in memory starts empty, so it cannot be read-only")
                .with_hint("name a folder, or leave read_only out"));
        }
        ":memory:" => Database::in_memory(options)?,
        path => shared(Path::new(path), options)?,
    };
    Ok(Arc::new(Embedded { session: Arc::new(database.session()), calls: Arc::default() }))
}

/// A database of this process that connections have open, by its folder, its options and the process.
struct Opened {
    folder: PathBuf,
    options: String,
    process: u32,
    database: Weak<Database>,
}

static OPENED: Mutex<Vec<Opened>> = Mutex::new(vec![]);

/// The database of a folder, which all connections of this process with the same options share. So two of them can write.
fn shared(path: &Path, options: Options) -> Result<Arc<Database>> {
    let (text, process) = (format!("{options:?}"), std::process::id());
    let mut opened = OPENED.lock();
    opened.retain(|known| known.database.strong_count() > 0);
    if let Ok(folder) = path.canonicalize() {
        let is_it = |known: &&Opened| known.folder == folder && known.options == text && known.process == process;
        if let Some(database) = opened.iter().find(is_it).and_then(|known| known.database.upgrade()) {
            return Ok(database);
        }
    }
    let database = Database::open(path, options)?;
    if let Ok(folder) = path.canonicalize() {
        opened.push(Opened { folder, options: text, process, database: Arc::downgrade(&database) });
    }
    Ok(database)
}

/// The engine in this process.
struct Embedded {
    session: Arc<Session>,
    /// Its functions of Python that run now.
    calls: Arc<Calls>,
}

impl Backend for Embedded {
    fn another(&self) -> Result<Arc<dyn Backend>> {
        let session = self.session.database().session();
        session.use_functions_of(&self.session);
        Ok(Arc::new(Embedded { session: Arc::new(session), calls: self.calls.clone() }))
    }

    fn is_remote(&self) -> bool {
        false
    }

    fn missing_tables(&self, statement: Statement) -> BoxFuture<'static, Result<Vec<String>>> {
        let session = self.session.clone();
        Box::pin(async move { session.missing_tables(&statement) })
    }

    fn plan(&self, statement: Arc<Statement>, inputs: Inputs) -> BoxFuture<'static, Result<Option<Planned>>> {
        let session = self.session.clone();
        Box::pin(async move {
            let schema = session.schema(&statement, inputs).await?;
            Ok(schema.map(|schema| Planned { schema, prepared: None }))
        })
    }

    fn plan_now(&self, statement: &Statement, inputs: &Inputs) -> Option<Option<Planned>> {
        let schema = self.session.schema_now(statement, inputs)?;
        Some(schema.map(|schema| Planned { schema, prepared: None }))
    }

    fn execute_now(
        &self,
        statement: &Statement,
        inputs: &Inputs,
        strings: Strings,
    ) -> Option<Result<(SchemaRef, Vec<RecordBatch>)>> {
        let outcome = match self.session.execute_now(statement, inputs)? {
            Ok(outcome) => outcome,
            Err(error) => return Some(Err(error)),
        };
        let Outcome::Rows { schema, .. } = &outcome else { return None };
        let schema = strings.schema(schema);
        // Its rows are there already.
        let batches = outcome.collect().now_or_never()?;
        let batches = batches
            .and_then(|batches| batches.into_iter().map(|batch| Ok(strings.batch(batch)?)).collect::<Result<Vec<_>>>());
        Some(batches.map(|batches| (schema, batches)))
    }

    fn execute(
        &self,
        statement: Arc<Statement>,
        inputs: Inputs,
        _: Option<&Planned>,
        strings: Strings,
    ) -> BoxFuture<'static, Result<Answer>> {
        let session = self.session.clone();
        Box::pin(async move {
            Ok(match session.execute_with_inputs(&statement, inputs).await? {
                Outcome::Rows { schema, stream } => {
                    let plain = move |batch| strings.batch(batch).map_err(Error::from);
                    let stream = stream.map(move |batch| batch.map_err(Error::from).and_then(plain)).boxed();
                    Answer::Rows { schema: strings.schema(&schema), stream }
                }
                Outcome::Affected { verb, rows } => Answer::Affected { verb: verb.into(), rows },
                Outcome::Done { verb } => Answer::Done { verb: verb.into() },
            })
        })
    }

    fn in_transaction(&self) -> bool {
        self.session.transaction_status() != TransactionStatus::Idle
    }

    fn calls(&self) -> Result<Arc<Calls>> {
        Ok(self.calls.clone())
    }

    fn create_function(&self, function: HostFunction, kind: Kind) -> Result<()> {
        match kind {
            Kind::Scalar => self.session.create_function(function),
            Kind::Aggregate => self.session.create_aggregate(function),
        }
    }

    fn remove_function(&self, name: &str) -> Result<()> {
        self.session.remove_function(name)
    }

    fn cancel(&self) {
        self.session.cancel_handle().cancel();
        self.calls.interrupt();
    }
}
