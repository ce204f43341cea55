//! The connection to a database: the engine in this process, or a server.

use std::collections::HashMap;
use std::sync::Arc;

use adbc_core::error::Result;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchReader, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use freestone::{ArrowTable, Inputs, Outcome, ScalarValue, Session, Statement, Strings, quote};
use freestone_wire::WireError;
use freestone_wire::client::{self, Client, Prepared as RemotePrepared, ResultStream, Upload};
use futures::StreamExt;
use futures::stream::BoxStream;
use parking_lot::Mutex;

use crate::error::{engine, internal, invalid, not_implemented, wire};
use crate::runtime::{Cancel, Lane, Message, Outlet, Signals};

/// The name of the rows in the statement that ingests them.
const ROWS: &str = "ingested rows";

/// The verbs of statements that always have a count of changed rows, even if it is 0.
const COUNTED: [&str; 5] = ["INSERT", "UPDATE", "DELETE", "COPY", "TRUNCATE"];

/// A stream of batches from the caller.
pub type Reader = Box<dyn RecordBatchReader + Send>;

/// The state that a connection shares with its statements and their results.
pub struct Link {
    pub backend: Backend,
    pub lane: Arc<Lane>,
    /// Cancels all work of the connection.
    pub cancel: Cancel,
    /// Whether strings are returned as views or with offsets.
    pub strings: Strings,
}

pub enum Backend {
    Embedded(Box<Session>),
    Remote(Client),
}

/// The parameters and columns of a statement.
pub struct Description {
    pub parameters: Schema,
    /// `None` if it returns no rows.
    pub columns: Option<SchemaRef>,
}

/// A statement that can be executed several times.
pub struct Prepared {
    pub statements: Vec<Statement>,
    pub description: Option<Description>,
    text: String,
    remote: Option<RemotePrepared>,
    lane: Arc<Lane>,
}

impl Prepared {
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // Dropping it notifies the server, on the threads of the connection.
        let _entered = self.lane.enter();
        self.remote = None;
    }
}

/// The result of a statement.
enum Answer {
    Rows { schema: SchemaRef, stream: BoxStream<'static, Result<RecordBatch>> },
    Changed { verb: String, rows: u64 },
}

impl Link {
    /// Runs work that only the connection's own signal can cancel.
    ///
    /// # Errors
    ///
    /// Those of the work, or it was cancelled.
    pub fn wait<T: Send + 'static, F>(self: &Arc<Self>, work: impl FnOnce(Arc<Link>) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.lane.wait(Signals::of(&[&self.cancel]), work(self.clone()))
    }

    /// Parses a statement without the database.
    ///
    /// # Errors
    ///
    /// The text has no statement.
    pub fn parse(&self, text: &str) -> Result<Prepared> {
        let statements = freestone::parse_script(text);
        if statements.is_empty() {
            return Err(invalid("there is no statement in the text"));
        }
        let (text, lane) = (text.to_owned(), self.lane.clone());
        Ok(Prepared { statements, description: None, text, remote: None, lane })
    }

    /// Plans a statement without executing it.
    ///
    /// # Errors
    ///
    /// The text has several statements, or a statement is wrong.
    pub async fn prepare(&self, mut parsed: Prepared) -> Result<Prepared> {
        let [statement] = &parsed.statements[..] else {
            // Callers that prepare every text before they execute it continue without preparing.
            return Err(not_implemented(
                "a script cannot be prepared",
                "execute it, or prepare its statements one by one",
            ));
        };
        match &self.backend {
            Backend::Embedded(session) => {
                let described = session.describe_statement(statement, &[]).await.map_err(engine)?;
                let field = |(at, kind): (usize, &DataType)| Field::new(format!("${}", at + 1), kind.clone(), true);
                let parameters = described.parameters.iter().enumerate().map(field).collect::<Vec<_>>();
                let parameters = Schema::new(parameters);
                parsed.description = Some(Description { parameters, columns: described.schema });
            }
            Backend::Remote(client) => {
                self.lane.settled().await;
                let prepared = client.prepare(&parsed.text).await.map_err(wire)?;
                let (parameters, columns) = (prepared.parameters().as_ref().clone(), prepared.columns().clone());
                let columns = (!columns.fields().is_empty()).then_some(columns);
                parsed.description = Some(Description { parameters, columns });
                parsed.remote = Some(prepared);
            }
        }
        Ok(parsed)
    }

    /// Executes a statement, and sends its result. With `values`, it is executed once per row of values.
    ///
    /// # Errors
    ///
    /// The statement or the caller's stream fails.
    pub async fn run(
        self: Arc<Self>,
        prepared: Arc<Prepared>,
        values: Option<Reader>,
        outlet: Outlet<Message>,
    ) -> Result<()> {
        let Some(mut reader) = values else {
            let answer = self.execute(&prepared, None).await?;
            return match answer {
                Answer::Rows { schema, stream } => {
                    outlet.send(Message::Schema(schema)).await;
                    pass(stream, &outlet).await.map(drop)
                }
                Answer::Changed { verb, rows } => {
                    outlet.send(Message::Changed(counted(&verb, rows))).await;
                    Ok(())
                }
            };
        };
        let (mut has_schema, mut changed) = (false, 0);
        while let (Some(batch), rest) = read(reader).await? {
            reader = rest;
            for at in 0..batch.num_rows() {
                match self.execute(&prepared, Some(batch.slice(at, 1))).await? {
                    Answer::Changed { rows, .. } => changed += rows,
                    Answer::Rows { schema, stream } => {
                        if !std::mem::replace(&mut has_schema, true) && !outlet.send(Message::Schema(schema)).await {
                            return Ok(());
                        }
                        if !pass(stream, &outlet).await? {
                            return Ok(());
                        }
                    }
                }
            }
        }
        if !has_schema {
            let columns = prepared.description.as_ref().and_then(|description| description.columns.clone());
            let message = columns.map_or(Message::Changed(Some(changed)), Message::Schema);
            outlet.send(message).await;
        }
        Ok(())
    }

    async fn execute(self: &Arc<Self>, prepared: &Prepared, values: Option<RecordBatch>) -> Result<Answer> {
        let Some((last, before)) = prepared.statements.split_last() else {
            return Err(internal("a statement without text"));
        };
        if values.is_some() && !before.is_empty() {
            return Err(invalid("parameters can be given to one statement at a time, not to a script"));
        }
        match &self.backend {
            Backend::Embedded(session) => {
                for statement in before {
                    if let Outcome::Rows { mut stream, .. } = session.execute(statement).await.map_err(engine)? {
                        while let Some(batch) = stream.next().await {
                            batch.map_err(engine)?;
                        }
                    }
                }
                let values = values.as_ref().map(scalars).transpose()?.unwrap_or_default();
                let inputs = Inputs { values, ..Inputs::default() };
                answer(session.execute_with_inputs(last, inputs).await.map_err(engine)?)
            }
            Backend::Remote(client) => {
                self.lane.settled().await;
                let inputs = client::Inputs { strings: self.strings, ..client::Inputs::parameters(values.as_ref()) };
                let rows = match &prepared.remote {
                    Some(remote) => client.execute_with_inputs(remote, inputs).await,
                    None => client.query_with_inputs(&prepared.text, inputs).await,
                };
                self.remote_answer(rows.map_err(wire)?).await
            }
        }
    }

    async fn remote_answer(self: &Arc<Self>, mut rows: ResultStream) -> Result<Answer> {
        let schema = rows.schema().await.map_err(wire)?;
        if schema.fields().is_empty() {
            while rows.next().await.map_err(wire)?.is_some() {}
            let (verb, rows) = rows.summary().map(|summary| (summary.tag.clone(), summary.rows)).unwrap_or_default();
            return Ok(Answer::Changed { verb, rows });
        }
        // The rows own the connection.
        let stream = futures::stream::unfold((rows, self.clone()), |(mut rows, link)| async move {
            let next = rows.next().await.map_err(wire).transpose()?;
            Some((next, (rows, link)))
        });
        Ok(Answer::Rows { schema, stream: stream.boxed() })
    }

    /// All rows of one of the driver's own queries, as text.
    ///
    /// # Errors
    ///
    /// The query fails.
    pub async fn records(self: &Arc<Self>, text: &str) -> Result<Vec<Vec<Option<String>>>> {
        match self.execute(&self.parse(text)?, None).await? {
            Answer::Rows { stream, .. } => {
                let batches = stream.collect::<Vec<_>>().await;
                records(&batches.into_iter().collect::<Result<Vec<_>>>()?)
            }
            Answer::Changed { .. } => Ok(vec![]),
        }
    }

    /// Executes one of the driver's own statements without rows, and returns the number of changed rows.
    ///
    /// # Errors
    ///
    /// The statement fails, or returns rows.
    pub async fn command(self: &Arc<Self>, text: &str) -> Result<u64> {
        match self.execute(&self.parse(text)?, None).await? {
            Answer::Changed { rows, .. } => Ok(rows),
            Answer::Rows { .. } => Err(internal("a command gave rows")),
        }
    }

    /// Executes a statement that reads the caller's rows, and returns the number of rows that it wrote. `text` gets the name of
    /// the rows.
    ///
    /// # Errors
    ///
    /// The statement or the caller's stream fails.
    pub async fn command_on(&self, reader: Reader, text: impl FnOnce(&str) -> String) -> Result<u64> {
        let text = text(&quote(ROWS));
        match &self.backend {
            Backend::Embedded(session) => write_here(session, reader, &text).await,
            Backend::Remote(client) => {
                self.lane.settled().await;
                let schema = reader.schema();
                let failed = |error| WireError::Source(format!("cannot read the rows that were bound: {error}"));
                let batches = Box::new(reader.map(move |batch| batch.map_err(failed)));
                let input = client::Input { name: ROWS.to_owned(), schema, whole: false, batches };
                let inputs = client::Inputs { tables: vec![input], ..client::Inputs::default() };
                let mut written = client.query_with_inputs(&text, inputs).await.map_err(wire)?;
                while written.next().await.map_err(wire)?.is_some() {}
                Ok(written.summary().map_or(0, |summary| summary.rows))
            }
        }
    }

    /// Sends the caller's rows to a table of a server, and returns the number of rows that it received.
    ///
    /// # Errors
    ///
    /// The server or the caller's stream fails.
    pub async fn upload(&self, table: &str, mut reader: Reader) -> Result<u64> {
        let Backend::Remote(client) = &self.backend else {
            return Err(internal("an upload needs a server"));
        };
        self.lane.settled().await;
        let mut upload: Upload = client.upload(table, &reader.schema()).await.map_err(wire)?;
        while let (Some(batch), rest) = read(reader).await? {
            reader = rest;
            upload.send(batch).await.map_err(wire)?;
        }
        Ok(upload.finish().await.map_err(wire)?.rows)
    }

    /// The server's description of itself; `None` for a database in this process.
    pub fn server(&self) -> Option<String> {
        match &self.backend {
            Backend::Embedded(_) => None,
            Backend::Remote(client) => Some(client.server().to_owned()),
        }
    }
}

/// Executes a statement in this process that reads the caller's rows.
async fn write_here(session: &Session, reader: Reader, text: &str) -> Result<u64> {
    let schema = reader.schema();
    let left = Mutex::new(Some(reader));
    let table = ArrowTable::of_reader(&schema, move || {
        let reader = left.lock().take();
        reader.map(|reader| reader as _).ok_or_else(|| {
            freestone::Error::new(freestone::ErrorKind::Internal, "internal error: rows are read a second time")
        })
    });
    let tables = Arc::new(HashMap::from([(ROWS.to_owned(), table)]));
    let inputs = Inputs { tables, ..Inputs::default() };
    let statements = freestone::parse_script(text);
    let [statement] = &statements[..] else { return Err(internal("an ingestion is not one statement")) };
    match session.execute_with_inputs(statement, inputs).await.map_err(engine)? {
        Outcome::Affected { rows, .. } => Ok(rows),
        _ => Err(internal("an ingestion gave no count")),
    }
}

fn answer(outcome: Outcome) -> Result<Answer> {
    Ok(match outcome {
        Outcome::Rows { schema, stream } => {
            let stream = stream.map(|batch| batch.map_err(engine)).boxed();
            Answer::Rows { schema, stream }
        }
        Outcome::Affected { verb, rows } => Answer::Changed { verb: verb.to_owned(), rows },
        Outcome::Done { verb } => Answer::Changed { verb: verb.to_owned(), rows: 0 },
    })
}

/// The number of rows that a statement changed, or `None` if it changes no rows. A server sends a number in both cases.
fn counted(verb: &str, rows: u64) -> Option<u64> {
    (rows > 0 || COUNTED.contains(&verb)).then_some(rows)
}

/// Sends all batches on. False if the receiver was dropped.
async fn pass(mut stream: BoxStream<'static, Result<RecordBatch>>, outlet: &Outlet<Message>) -> Result<bool> {
    while let Some(batch) = stream.next().await {
        if !outlet.send(Message::Batch(batch?)).await {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The next batch of the caller. The caller may block, so this runs on a thread for blocking calls.
async fn read(mut reader: Reader) -> Result<(Option<RecordBatch>, Reader)> {
    let reading = tokio::task::spawn_blocking(move || (reader.next().transpose(), reader)).await;
    let (batch, reader) = reading.map_err(|_| internal("the caller's stream panicked"))?;
    let batch = batch.map_err(|error| invalid(format!("cannot read the rows that were bound: {error}")))?;
    Ok((batch, reader))
}

/// The values of a row, as parameters.
fn scalars(row: &RecordBatch) -> Result<Vec<ScalarValue>> {
    let value = |column: &ArrayRef| ScalarValue::try_from_array(column, 0).map_err(engine);
    row.columns().iter().map(value).collect()
}

/// A text as a string literal of SQL.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The rows as text.
fn records(batches: &[RecordBatch]) -> Result<Vec<Vec<Option<String>>>> {
    let mut records = vec![];
    for batch in batches {
        let columns = batch.columns().iter().map(|array| cast(array, &DataType::Utf8).map_err(engine));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let columns: Vec<_> = columns.iter().map(|array| array.as_string::<i32>()).collect();
        let cell = |array: &StringArray, row: usize| (!array.is_null(row)).then(|| array.value(row).to_owned());
        records.extend((0..batch.num_rows()).map(|row| columns.iter().map(|array| cell(array, row)).collect()));
    }
    Ok(records)
}
