//! The database that executes statements: the engine in this process, or a server.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use freestone::{Outcome, Session, Statement, TransactionStatus};
use freestone_wire::WireError;
use freestone_wire::blocking::Client;
use freestone_wire::client::ResultStream;
use futures::stream::{self, BoxStream, StreamExt};

use crate::failure::{Failure, note};
use crate::progress::Meter;

/// The query for the names that the shell completes on a server.
const NAMES: &str = "SELECT table_name FROM information_schema.tables WHERE table_schema <> 'information_schema' \
                     UNION SELECT column_name FROM information_schema.columns \
                     WHERE table_schema <> 'information_schema' ORDER BY 1";

/// The SQLSTATE of a name that no table or view has.
const UNDEFINED_TABLE: &str = "42P01";

/// A session of a database.
#[derive(Clone)]
pub enum Backend {
    Embedded(Arc<Session>),
    Remote(Arc<Client>),
}

/// The result of a statement.
pub enum Answer {
    Rows { schema: SchemaRef, stream: BoxStream<'static, Result<RecordBatch, Failure>> },
    Affected { verb: Cow<'static, str>, rows: u64 },
    Done { verb: Cow<'static, str> },
}

impl Backend {
    /// Executes one statement, on the worker threads. Rows are computed or received while they are read.
    pub async fn execute(&self, statement: &Statement) -> Result<Answer, Failure> {
        match self {
            Backend::Embedded(session) => Ok(match session.execute(statement).await? {
                Outcome::Rows { schema, stream } => {
                    let failure = |error| Failure::from(freestone::Error::from(error));
                    Answer::Rows { schema, stream: stream.map(move |batch| batch.map_err(failure)).boxed() }
                }
                Outcome::Affected { verb, rows } => Answer::Affected { verb: verb.into(), rows },
                Outcome::Done { verb } => Answer::Done { verb: verb.into() },
            }),
            Backend::Remote(client) => execute_remote(client, &statement.text).await,
        }
    }

    /// The mark of an open transaction in the prompt: `*`, or `!` if one of its statements failed. Empty for a server,
    /// whose transaction the shell does not know.
    pub fn transaction_mark(&self) -> &'static str {
        match self {
            Backend::Embedded(session) => match session.transaction_status() {
                TransactionStatus::Idle => "",
                TransactionStatus::Open => "*",
                TransactionStatus::Failed => "!",
            },
            Backend::Remote(_) => "",
        }
    }

    /// Cancels the running statements without waiting for their end.
    pub fn cancel(&self) {
        match self {
            Backend::Embedded(session) => session.cancel_handle().cancel(),
            // Uses a connection of its own, in the background. If that fails, the server is not available anyway.
            Backend::Remote(client) => {
                let client = client.clone();
                std::thread::spawn(move || client.cancel());
            }
        }
    }

    /// The names of tables, views and columns. Those that cannot be read are left out.
    pub fn names(&self) -> Vec<String> {
        match self {
            Backend::Embedded(session) => session.names().unwrap_or_default(),
            Backend::Remote(client) => remote_names(client).unwrap_or_default(),
        }
    }

    /// Whether there is a table or view of this name, written as in SQL.
    ///
    /// # Errors
    /// The name is not a name of SQL, or the database cannot be read.
    pub fn has_table(&self, name: &str) -> Result<bool, Failure> {
        let query = format!("SELECT * FROM {name} LIMIT 0");
        match self {
            Backend::Embedded(session) => match session.parse(&query)?.first() {
                Some(statement) => Ok(session.missing_tables(statement)?.is_empty()),
                None => Ok(false),
            },
            Backend::Remote(client) => {
                match client.query(&query, None).and_then(|rows| rows.collect::<Result<Vec<_>, _>>()) {
                    Ok(_) => Ok(true),
                    Err(WireError::Sql(error)) if error.sqlstate == UNDEFINED_TABLE => Ok(false),
                    Err(error) => Err(error.into()),
                }
            }
        }
    }

    /// Sets where long statements report their progress. Notices of a server are printed.
    pub fn report_to(&self, meter: Arc<Meter>) {
        match self {
            Backend::Embedded(session) => session.set_progress(Some(meter)),
            Backend::Remote(client) => {
                let client = client.client();
                client.on_notice(|notice| note(format_args!("notice: {notice}")));
                client.on_progress(move |done, total| meter.show(done, total));
            }
        }
    }

    /// The line of the script, from 0, to which line numbers in messages about a statement are relative. The engine
    /// knows the text around a statement; a server does not.
    pub fn first_line_of(&self, statement: &Statement) -> usize {
        match self {
            Backend::Embedded(_) => 0,
            Backend::Remote(_) => statement.line.saturating_sub(1),
        }
    }
}

async fn execute_remote(client: &Arc<Client>, sql: &str) -> Result<Answer, Failure> {
    answer_of(client.client().query(sql, None).await?, client.clone()).await
}

/// The answer to a statement of a server.
pub async fn answer_of(mut rows: ResultStream, client: Arc<Client>) -> Result<Answer, Failure> {
    let schema = rows.schema().await?;
    if !schema.fields().is_empty() {
        let stream = stream::unfold((rows, client), |(mut rows, client)| async move {
            let next = rows.next().await.map_err(Failure::from).transpose()?;
            Some((next, (rows, client)))
        });
        return Ok(Answer::Rows { schema, stream: stream.boxed() });
    }
    while rows.next().await?.is_some() {}
    let summary = rows.summary().ok_or(WireError::Closed("by the server"))?;
    let (verb, rows) = (summary.tag.clone().into(), summary.rows);
    Ok(if summary.counts_rows() { Answer::Affected { verb, rows } } else { Answer::Done { verb } })
}

fn remote_names(client: &Client) -> Result<Vec<String>, WireError> {
    let mut names = vec![];
    for batch in client.query(NAMES, None)? {
        names.extend(batch?.column(0).as_string_view().iter().flatten().map(str::to_owned));
    }
    Ok(names)
}
