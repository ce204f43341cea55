//! A connection's way to its database: the engine in this process, or a server.

use std::collections::HashMap;
use std::sync::Arc;

use adbc_core::error::Result;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchReader, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use freestone::{ArrowTable, Inputs, Outcome, ScalarValue, Session, Statement, Strings};
use freestone_wire::client::{Client, Given, Prepared as RemotePrepared, ResultStream, Upload};
use freestone_wire::wire_type;
use futures::StreamExt;
use futures::stream::BoxStream;
use parking_lot::Mutex;

use crate::error::{engine, internal, invalid, not_implemented, wire};
use crate::running::{Cancel, Lane, Message, Outlet, Signals};

/// The name of the rows in the statement that ingests them.
const ROWS: &str = "ingested rows";

/// Verbs whose count is of rows that were changed, also where it is 0.
const COUNTED: [&str; 5] = ["INSERT", "UPDATE", "DELETE", "COPY", "TRUNCATE"];

/// A stream of batches that the caller gave.
pub type Reader = Box<dyn RecordBatchReader + Send>;

/// What a connection, its statements and their results share.
pub struct Link {
    pub backend: Backend,
    pub lane: Arc<Lane>,
    /// Cancels all that the connection does.
    pub cancel: Cancel,
    /// Whether strings are handed out with offsets instead of as views.
    pub strings: Strings,
}

pub enum Backend {
    Embedded(Box<Session>),
    Remote(Client),
}

/// What a statement takes and gives.
pub struct Description {
    pub parameters: Schema,
    /// Nothing where it gives no rows.
    pub columns: Option<SchemaRef>,
}

/// A statement that can be executed many times.
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
        // The server forgets it when it is told so, on the threads of its connection.
        let _entered = self.lane.enter();
        self.remote = None;
    }
}

/// What a statement gives back.
enum Answer {
    Rows { schema: SchemaRef, stream: BoxStream<'static, Result<RecordBatch>> },
    Changed { verb: String, rows: u64 },
}

impl Link {
    /// Does something that nothing but the connection's own signal cancels.
    pub fn wait<T: Send + 'static, F>(self: &Arc<Self>, work: impl FnOnce(Arc<Link>) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.lane.wait(Signals::of(&[&self.cancel]), work(self.clone()))
    }

    /// Reads a statement without asking the database.
    pub fn parse(&self, text: &str) -> Result<Prepared> {
        let statements = freestone::parse_script(text);
        if statements.is_empty() {
            return Err(invalid("there is no statement in the text"));
        }
        let (text, lane) = (text.to_owned(), self.lane.clone());
        Ok(Prepared { statements, description: None, text, remote: None, lane })
    }

    /// Plans a statement without executing it.
    pub async fn prepare(&self, mut parsed: Prepared) -> Result<Prepared> {
        let [statement] = &parsed.statements[..] else {
            // Callers that prepare whatever they execute go on without.
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

    /// Executes a statement, once for each row of values if there are any, and sends what it gives.
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
                answer(session.execute_given(last, inputs).await.map_err(engine)?)
            }
            Backend::Remote(client) => {
                self.lane.settled().await;
                let given = Given { strings: self.strings, ..Given::parameters(values.as_ref()) };
                let rows = match &prepared.remote {
                    Some(remote) => client.execute_given(remote, given).await,
                    None => client.query_given(&prepared.text, given).await,
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
        // The rows keep the connection.
        let stream = futures::stream::unfold((rows, self.clone()), |(mut rows, link)| async move {
            let next = rows.next().await.map_err(wire).transpose()?;
            Some((next, (rows, link)))
        });
        Ok(Answer::Rows { schema, stream: stream.boxed() })
    }

    /// All rows of a query of the driver's own, as texts.
    pub async fn records(self: &Arc<Self>, text: &str) -> Result<Vec<Vec<Option<String>>>> {
        match self.execute(&self.parse(text)?, None).await? {
            Answer::Rows { stream, .. } => {
                let batches = stream.collect::<Vec<_>>().await;
                records(&batches.into_iter().collect::<Result<Vec<_>>>()?)
            }
            Answer::Changed { .. } => Ok(vec![]),
        }
    }

    /// Executes a statement of the driver's own that gives no rows.
    pub async fn command(self: &Arc<Self>, text: &str) -> Result<u64> {
        match self.execute(&self.parse(text)?, None).await? {
            Answer::Changed { rows, .. } => Ok(rows),
            Answer::Rows { .. } => Err(internal("a command gave rows")),
        }
    }

    /// Executes a command on a server although other work of the connection is being left.
    pub async fn undo(&self, text: &str) {
        let Backend::Remote(client) = &self.backend else { return };
        if let Ok(mut rows) = client.query(text, None).await {
            while let Ok(Some(_)) = rows.next().await {}
        }
    }

    /// Executes a statement that names the caller's rows, in this process; how many it wrote. `text` gets their name.
    pub async fn command_on(&self, reader: Reader, text: impl FnOnce(&str) -> String) -> Result<u64> {
        let Backend::Embedded(session) = &self.backend else {
            return Err(internal("a server cannot name rows of this process"));
        };
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
        let statements = freestone::parse_script(&text(&quote(ROWS)));
        let [statement] = &statements[..] else { return Err(internal("an ingestion is not one statement")) };
        match session.execute_given(statement, inputs).await.map_err(engine)? {
            Outcome::Affected { rows, .. } => Ok(rows),
            _ => Err(internal("an ingestion gave no count")),
        }
    }

    /// Sends the caller's rows to a table of a server; how many it took.
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

    /// What the server says that it is.
    pub fn server(&self) -> Option<String> {
        match &self.backend {
            Backend::Embedded(_) => None,
            Backend::Remote(client) => Some(client.server().to_owned()),
        }
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

/// Whether and how many rows a statement changed. A server sends a number also where there is none.
fn counted(verb: &str, rows: u64) -> Option<u64> {
    (rows > 0 || COUNTED.contains(&verb)).then_some(rows)
}

/// Sends all batches on. False if nobody wants more.
async fn pass(mut stream: BoxStream<'static, Result<RecordBatch>>, outlet: &Outlet<Message>) -> Result<bool> {
    while let Some(batch) = stream.next().await {
        if !outlet.send(Message::Batch(batch?)).await {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The next batch of the caller's. It may take its time, so it does not take a thread that others wait for.
async fn read(mut reader: Reader) -> Result<(Option<RecordBatch>, Reader)> {
    let reading = tokio::task::spawn_blocking(move || (reader.next().transpose(), reader)).await;
    let (batch, reader) = reading.map_err(|_| internal("the caller's stream panicked"))?;
    let batch = batch.map_err(|error| invalid(format!("cannot read the rows that were bound: {error}")))?;
    Ok((batch, reader))
}

/// A row as values of parameters.
fn scalars(row: &RecordBatch) -> Result<Vec<ScalarValue>> {
    let value = |column: &ArrayRef| ScalarValue::try_from_array(column, 0).map_err(engine);
    row.columns().iter().map(value).collect()
}

/// A name as SQL reads it back.
pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as SQL reads it back.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The columns as a query of no rows gives them, for a table that a server is to have.
pub fn empty_query(schema: &Schema) -> Result<String> {
    if schema.fields().is_empty() {
        return Err(invalid("a table needs at least one column, and the rows have none"));
    }
    let column = |field: &Arc<Field>| -> Result<String> {
        let data_type = wire_type(field.data_type());
        if data_type.is_nested() {
            let message = format!("column {}: nested type {data_type} cannot be stored", field.name());
            return Err(not_implemented(message, "flatten it, or store it as JSON text"));
        }
        let data_type = if data_type == DataType::Null { DataType::Utf8View } else { data_type };
        Ok(format!("arrow_cast(NULL, {}) AS {}", literal(&data_type.to_string()), quote(field.name())))
    };
    let columns = schema.fields().iter().map(column).collect::<Result<Vec<_>>>()?;
    Ok(format!("SELECT {} LIMIT 0", columns.join(", ")))
}

/// Rows as texts.
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
