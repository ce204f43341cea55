//! One client after its login: its requests in order, and their answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use freestone::{Description, Error, Inputs, ScalarValue, Session, Statement, StoredColumn, StoredRows};
use freestone_wire::server::{Connection, Input, Reply, Request};
use freestone_wire::{Batch, Column, Preference, SqlError, StoredPiece, StoredShared, WireError};

use super::inputs::{self, ReceivedTables};
use super::upload;
use crate::execution::{self, Answer, Clock, Rows};
use crate::pg::PgError;
use crate::sessions::Ending;
use crate::shared::{FULL, Shared, Visit};
use crate::sqlstate;

/// The state of a client.
struct Client {
    shared: Arc<Shared>,
    session: Arc<Session>,
    prepared: HashMap<u32, Statement>,
}

/// Serves a client until it disconnects, is idle for too long, or the server stops.
pub async fn run(mut connection: Connection, mut visit: Visit, shared: Arc<Shared>) {
    // The user may have been removed since the login.
    let Some(role) = shared.authority.role(connection.user()) else { return };
    if !visit.admit(role) {
        return refuse(connection, &shared).await;
    }
    let session = shared.session(role);
    let registered = shared.register(&visit, &session, (connection.user(), role));
    let (user, program) = (connection.user(), connection.client());
    tracing::info!(connection = visit.number, user, program, %role, "connected over Freestone wire");
    let mut client = Client { shared: shared.clone(), session, prepared: HashMap::new() };
    loop {
        let request = tokio::select! {
            request = connection.next() => request,
            () = idle(&shared) => break,
            () = shared.stopping() => break,
            why = registered.ended() => {
                tracing::info!(connection = visit.number, why = why.message(), "the session ends");
                break;
            }
        };
        let answered = match request {
            // What the session does is cancelled when it has to end; a client that stalls does not delay this.
            Ok(Some(request)) => tokio::select! {
                answered = client.answer(request) => answered,
                () = grace(registered.ended()) => break,
            },
            Ok(None) => break,
            Err(error) => Err(error),
        };
        if let Err(error) = answered {
            tracing::info!(connection = visit.number, %error, "the connection failed");
            break;
        }
    }
    tracing::info!(connection = visit.number, "disconnected");
}

/// Completes some time after a session has to end, in which the client is told.
async fn grace(ended: impl Future<Output = Ending>) {
    ended.await;
    tokio::time::sleep(GRACE).await;
}

/// The time for the error of a statement whose session ends.
const GRACE: Duration = Duration::from_millis(500);

/// Answers a client's first request with the error that all connections are taken.
async fn refuse(mut connection: Connection, shared: &Shared) {
    let refused = async {
        let reply = match connection.next().await {
            Ok(Some(
                Request::Query { reply, .. }
                | Request::Prepare { reply, .. }
                | Request::Execute { reply, .. }
                | Request::Upload { reply, .. },
            )) => reply,
            _ => return,
        };
        let _ = reply.fail(SqlError::new(sqlstate::TOO_MANY_CONNECTIONS, FULL)).await;
    };
    let _ = tokio::time::timeout(shared.limits.startup, refused).await;
}

async fn idle(shared: &Shared) {
    match shared.limits.idle {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

impl Client {
    /// Answers a request. An error is one of the connection, not of a statement.
    async fn answer(&mut self, request: Request) -> Result<(), WireError> {
        match request {
            Request::Query { sql, parameters, inputs, reply } => {
                match execution::parse(&self.shared, &self.session, self.shared.limits.statement, sql).await {
                    Ok(statements) => self.execute(&statements, parameters, inputs, reply).await,
                    Err(error) => reply.fail(sql_error(error)).await,
                }
            }
            Request::Prepare { sql, parameters, inputs, reply } => self.prepare(&sql, parameters, &inputs, reply).await,
            Request::Execute { statement, parameters, inputs, reply } => match self.prepared.get(&statement).cloned() {
                Some(statement) => self.execute(&[statement], parameters, inputs, reply).await,
                None => {
                    reply
                        .fail(SqlError::new(
                            sqlstate::INVALID_SQL_STATEMENT_NAME,
                            format!("there is no prepared statement {statement}"),
                        ))
                        .await
                }
            },
            Request::Close { statement } => {
                self.prepared.remove(&statement);
                Ok(())
            }
            Request::Upload { target, schema, rows, reply } => {
                match upload::insert(&self.shared, &self.session, &target, schema, rows).await {
                    Ok(rows) => reply.complete(rows, "INSERT").await,
                    Err(error) => reply.fail(sql_error(error)).await,
                }
            }
        }
    }

    async fn prepare(
        &mut self,
        sql: &str,
        parameters: Option<RecordBatch>,
        inputs: &[Input],
        reply: Reply,
    ) -> Result<(), WireError> {
        let statements =
            match execution::parse(&self.shared, &self.session, self.shared.limits.statement, sql.to_owned()).await {
                Ok(statements) => statements,
                Err(error) => return reply.fail(sql_error(error)).await,
            };
        let [statement] = &statements[..] else {
            return reply
                .fail(SqlError::new(sqlstate::SYNTAX_ERROR, "exactly one statement can be prepared at a time"))
                .await;
        };
        match self.describe(statement, parameters, inputs).await {
            Ok(description) => {
                self.prepared.insert(reply.id(), statement.clone());
                let columns = description.schema.map_or_else(Schema::empty, |schema| schema.as_ref().clone());
                reply.prepared(&parameters_schema(&description.parameters), &columns).await
            }
            Err(error) => reply.fail(sql_error(error)).await,
        }
    }

    /// The types of a statement's parameters and result. If the client declares parameters or tables, they determine them.
    async fn describe(
        &self,
        statement: &Statement,
        parameters: Option<RecordBatch>,
        inputs: &[Input],
    ) -> freestone::Result<Description> {
        let (session, statement) = (self.session.clone(), statement.clone());
        if parameters.is_none() && inputs.is_empty() {
            let describing = async move { session.describe_statement(&statement, &[]).await };
            return execution::on_workers(&self.shared, self.shared.limits.statement, describing).await;
        }
        let types = parameters.iter().flat_map(|row| row.columns()).map(|column| column.data_type().clone()).collect();
        let inputs = Inputs { values: values(parameters)?, tables: inputs::columns(inputs)?, ..Inputs::default() };
        let planning = async move { session.schema(&statement, inputs).await };
        let schema = execution::on_workers(&self.shared, self.shared.limits.statement, planning).await?;
        Ok(Description { parameters: types, schema })
    }

    /// Executes statements one by one; only the last one gets the received tables, and its rows are sent.
    async fn execute(
        &self,
        statements: &[Statement],
        parameters: Option<RecordBatch>,
        inputs: Vec<Input>,
        reply: Reply,
    ) -> Result<(), WireError> {
        let values = match values(parameters) {
            Ok(values) => values,
            Err(error) => return reply.fail(sql_error(error)).await,
        };
        let received = tokio::select! {
            received = inputs::receive(&self.session, inputs) => received,
            () = reply.cancelled() => Err(Error::cancelled()),
        };
        // The received tables exist until the last row is sent, because their tasks end with them.
        let received = match received {
            Ok(received) => received,
            Err(error) => return reply.fail(sql_error(error)).await,
        };
        let Some((last, before)) = statements.split_last() else {
            return reply.fail(SqlError::new(sqlstate::SYNTAX_ERROR, "there is no statement in the text")).await;
        };
        let answer = tokio::select! {
            answer = self.run(before, last, values, &received) => answer,
            () = reply.cancelled() => {
                self.session.cancel_handle().cancel();
                Err(Error::cancelled())
            }
        };
        match answer {
            Ok(Answer::Rows(rows)) => send(rows, reply, self.shared.limits.forms, &self.session).await,
            Ok(Answer::Affected { verb, rows }) => reply.complete(rows, verb).await,
            Ok(Answer::Done { verb }) => reply.complete(0, verb).await,
            Err(error) => reply.fail(sql_error(error)).await,
        }
    }

    async fn run(
        &self,
        before: &[Statement],
        last: &Statement,
        values: Vec<ScalarValue>,
        received: &ReceivedTables,
    ) -> freestone::Result<Answer> {
        let limit = self.shared.limits.statement;
        let before_last = Inputs { values: values.clone(), ..Inputs::default() };
        for statement in before {
            let (clock, inputs) = (Clock::start(limit), before_last.clone());
            let answer = execution::execute(&self.shared, &self.session, statement, inputs, clock).await?;
            if let Answer::Rows(mut rows) = answer {
                while rows.next().await.transpose()?.is_some() {}
            }
        }
        let inputs = Inputs { values, tables: received.tables.clone(), ..Inputs::default() };
        let clock = Clock::start(limit);
        if self.shared.limits.forms.takes_arrays() {
            return execution::execute(&self.shared, &self.session, last, inputs, clock).await;
        }
        execution::execute_stored(&self.shared, &self.session, last, inputs, clock).await
    }
}

/// Sends the rows of a statement while the client reads them.
async fn send(mut rows: Rows, reply: Reply, forms: Preference, session: &Session) -> Result<(), WireError> {
    let mut sender = reply.rows_as(&rows.schema, forms)?;
    let cancelled = sender.cancelled();
    tokio::pin!(cancelled);
    loop {
        let part = tokio::select! {
            part = rows.next_part() => part,
            () = &mut cancelled => {
                // Work that does not yield would otherwise not notice that the client has disconnected.
                session.cancel_handle().cancel();
                Some(Err(Error::cancelled()))
            }
        };
        let sent = match part {
            None => return sender.finish("SELECT").await,
            Some(Err(error)) => return sender.fail(sql_error(error)).await,
            Some(Ok(part)) => match batch(part, &rows) {
                Ok(batch) => sender.send(batch).await,
                Err(error) => Err(error),
            },
        };
        if let Err(error) = sent {
            return sender.fail(error.to_sql()).await;
        }
    }
}

/// Rows as a batch of the protocol.
fn batch(part: StoredRows, rows: &Rows) -> Result<Batch, WireError> {
    match part {
        StoredRows::Decoded(batch) => Ok(batch.into()),
        StoredRows::Stored { rows: count, columns } => {
            let types = rows.schema.fields().iter().map(|field| field.data_type());
            Batch::new(count, types.zip(columns).map(|(data_type, column)| stored(data_type, column)).collect())
        }
    }
}

fn stored(data_type: &DataType, column: StoredColumn) -> Column {
    let pieces = column.pieces.into_iter().map(|piece| StoredPiece {
        owner: piece.page,
        range: piece.range,
        skip: piece.skip,
        rows: piece.rows,
    });
    Column::Stored(freestone_wire::StoredColumn {
        data_type: data_type.clone(),
        shared: column.shared.map(|(key, shared)| StoredShared { key, shared }),
        pieces: pieces.collect(),
    })
}

/// The values of parameters, which arrive as one row.
fn values(parameters: Option<RecordBatch>) -> freestone::Result<Vec<ScalarValue>> {
    let Some(row) = parameters else { return Ok(vec![]) };
    let value = |column: &ArrayRef| ScalarValue::try_from_array(column, 0).map_err(Error::from);
    row.columns().iter().map(value).collect()
}

fn parameters_schema(types: &[DataType]) -> Schema {
    let field = |(at, data_type): (usize, &DataType)| Field::new(format!("${}", at + 1), data_type.clone(), true);
    Schema::new(types.iter().enumerate().map(field).collect::<Vec<_>>())
}

pub fn sql_error(error: Error) -> SqlError {
    let error = PgError::from(error);
    SqlError { sqlstate: error.code.into(), message: error.message, hint: error.hint, position: None }
}
