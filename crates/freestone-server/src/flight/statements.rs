//! Statements over Flight SQL: planning, binding of values, execution, and rows as messages.

use std::pin::Pin;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::{FlightData, IpcMessage, SchemaAsIpc};
use datafusion::scalar::ScalarValue;
use freestone::{Description, Error, ErrorKind, Inputs, Session, Statement, Strings};
use futures::{Stream, StreamExt, TryStreamExt};
use tonic::Status;

use super::login::Planned;
use crate::execution::{self, Answer, Clock, Rows};
use crate::shared::Shared;

/// The bytes of a message with rows: large enough to be efficient, and below the default limit of every client.
const MESSAGE_BYTES: usize = 2 << 20;

pub type Messages = Pin<Box<dyn Stream<Item = Result<FlightData, Status>> + Send + 'static>>;

/// An error as a gRPC status. It has no field for a SQLSTATE, so the SQLSTATE is at the end of the message.
pub fn status(error: Error) -> Status {
    let state = error.sqlstate();
    let message = match error.hint() {
        Some(hint) => format!("{error} (hint: {hint}) (SQLSTATE {state})"),
        None => format!("{error} (SQLSTATE {state})"),
    };
    match error.kind() {
        ErrorKind::Syntax | ErrorKind::Invalid | ErrorKind::Type | ErrorKind::Constraint => {
            Status::invalid_argument(message)
        }
        ErrorKind::NotFound => Status::not_found(message),
        ErrorKind::Exists => Status::already_exists(message),
        ErrorKind::Unsupported => Status::unimplemented(message),
        ErrorKind::Resource => Status::resource_exhausted(message),
        ErrorKind::Cancelled => Status::cancelled(message),
        ErrorKind::ReadOnly | ErrorKind::Transaction => Status::failed_precondition(message),
        ErrorKind::Conflict | ErrorKind::Deadlock | ErrorKind::LockTimeout => Status::aborted(message),
        ErrorKind::Denied => Status::permission_denied(message),
        ErrorKind::Corrupt => Status::data_loss(message),
        ErrorKind::Cluster => Status::unavailable(message),
        ErrorKind::Io | ErrorKind::Internal => Status::internal(message),
    }
}

/// Plans a text, which must be one statement.
pub async fn plan(shared: &Shared, session: Arc<Session>, sql: &str, is_prepared: bool) -> Result<Planned, Status> {
    let parsed =
        execution::parse(shared, &session, shared.limits.statement, sql.to_owned()).await.map_err(|error| {
            session.fail_transaction();
            status(error)
        })?;
    let statement = match <[Statement; 1]>::try_from(parsed) {
        Ok([statement]) => Arc::new(statement),
        Err(other) if other.is_empty() => return Err(Status::invalid_argument("there is no statement in the text")),
        Err(_) => return Err(Status::invalid_argument("expected one statement; send the others by themselves")),
    };
    let (describes, planned) = (session.clone(), statement.clone());
    let describing = async move { describes.describe_statement(&planned, &[]).await };
    let described = execution::on_workers(shared, shared.limits.statement, describing).await;
    let description = Arc::new(described.map_err(status)?);
    Ok(Planned { statement, session, description, parameters: vec![], is_prepared })
}

/// The statement planned with the values that it was bound to, whose types determine the types of its rows.
pub async fn bound(shared: &Shared, planned: Planned) -> Result<Planned, Status> {
    let Some(values) = values(&planned)?.into_iter().next().filter(|values| !values.is_empty()) else {
        return Ok(planned);
    };
    if planned.gives_no_rows() {
        return Ok(planned);
    }
    let (session, statement) = (planned.session.clone(), planned.statement.clone());
    let inputs = Inputs { values, ..Inputs::default() };
    let planning = async move { session.schema(&statement, inputs).await };
    let planned_schema = execution::on_workers(shared, shared.limits.statement, planning).await;
    let schema = planned_schema.map_err(status)?.or_else(|| planned.description.schema.clone());
    let description = Arc::new(Description { schema, parameters: planned.description.parameters.clone() });
    Ok(Planned { description, ..planned })
}

/// The columns of a statement's rows as they are sent; none if it returns no rows.
pub fn schema(description: &Description) -> SchemaRef {
    description.schema.as_ref().map_or_else(|| Arc::new(Schema::empty()), |schema| Strings::Plain.schema(schema))
}

/// The columns of a statement's parameters.
pub fn parameter_schema(description: &Description) -> Schema {
    let field =
        |(at, kind): (usize, &DataType)| Field::new(format!("${}", at + 1), Strings::Plain.data_type(kind), true);
    Schema::new(description.parameters.iter().enumerate().map(field).collect::<Vec<_>>())
}

/// A schema as bytes, in the form that Flight SQL's results contain.
pub fn schema_bytes(schema: &Schema) -> Result<Vec<u8>, Status> {
    let options = IpcWriteOptions::default();
    let message: IpcMessage = SchemaAsIpc::new(schema, &options).try_into().map_err(internal)?;
    Ok(message.0.to_vec())
}

pub fn internal(error: impl std::fmt::Display) -> Status {
    Status::internal(error.to_string())
}

/// Executes a statement once per row of its parameters, and returns its rows.
pub async fn query(shared: &Arc<Shared>, planned: &Planned) -> Result<Messages, Status> {
    let schema = schema(&planned.description);
    let mut all = values(planned)?.into_iter();
    let first = all.next().unwrap_or_default();
    let started = start(shared, planned, first).await?;
    let (shared, planned) = (shared.clone(), planned.clone());
    // The next execution starts when the previous one has ended.
    let later = futures::stream::iter(all).then(move |row| {
        let (shared, planned) = (shared.clone(), planned.clone());
        async move { start(&shared, &planned, row).await.map(batches) }
    });
    let later = later.try_flatten();
    let target = schema.clone();
    let rows = batches(started).chain(later).map(move |batch| batch.and_then(|batch| conform(&batch, &target)));
    Ok(messages(schema, rows))
}

/// The messages of a statement without rows.
pub fn nothing() -> Messages {
    messages(Arc::new(Schema::empty()), futures::stream::empty())
}

/// Executes a statement and returns the number of rows that it changed.
pub async fn update(shared: &Arc<Shared>, planned: &Planned) -> Result<i64, Status> {
    let mut changed = 0;
    for row in values(planned)? {
        match start(shared, planned, row).await? {
            Answer::Affected { rows, .. } => changed += i64::try_from(rows).unwrap_or(i64::MAX),
            Answer::Done { .. } => {}
            Answer::Rows(mut rows) => {
                while let Some(batch) = rows.next().await {
                    batch.map_err(status)?;
                }
            }
        }
    }
    Ok(changed)
}

async fn start(shared: &Arc<Shared>, planned: &Planned, row: Vec<ScalarValue>) -> Result<Answer, Status> {
    let limit = shared.limits.statement;
    let inputs = Inputs { values: row, ..Inputs::default() };
    execution::execute(shared, &planned.session, &planned.statement, inputs, Clock::start(limit)).await.map_err(status)
}

/// The values of the parameters, row by row; one row without values if there are no parameters.
fn values(planned: &Planned) -> Result<Vec<Vec<ScalarValue>>, Status> {
    let expected = planned.description.parameters.len();
    let given: usize = planned.parameters.iter().map(RecordBatch::num_rows).sum();
    if expected == 0 || given == 0 {
        return Ok(vec![vec![]]);
    }
    let mut all = Vec::with_capacity(given);
    for batch in &planned.parameters {
        if batch.num_columns() != expected {
            let columns = batch.num_columns();
            return Err(Status::invalid_argument(format!(
                "the statement has {expected} parameters and was given {columns}"
            )));
        }
        for row in 0..batch.num_rows() {
            let value =
                |array: &ArrayRef| ScalarValue::try_from_array(array, row).map_err(|error| status(error.into()));
            all.push(batch.columns().iter().map(value).collect::<Result<Vec<_>, _>>()?);
        }
    }
    Ok(all)
}

/// The rows of an answer; none if the statement returns no rows.
fn batches(answer: Answer) -> Pin<Box<dyn Stream<Item = Result<RecordBatch, Status>> + Send>> {
    let Answer::Rows(rows) = answer else { return Box::pin(futures::stream::empty()) };
    Box::pin(futures::stream::unfold(Some(rows), |rows: Option<Rows>| async move {
        let mut rows = rows?;
        let batch = rows.next().await?;
        let rest = batch.is_ok().then_some(rows);
        Some((batch.map_err(status), rest))
    }))
}

/// Rows as messages of limited size.
pub fn messages(schema: SchemaRef, rows: impl Stream<Item = Result<RecordBatch, Status>> + Send + 'static) -> Messages {
    let rows = rows.map_err(|status| FlightError::Tonic(Box::new(status)));
    let encoded =
        FlightDataEncoderBuilder::new().with_schema(schema).with_max_flight_data_size(MESSAGE_BYTES).build(rows);
    Box::pin(encoded.map_err(|error| match error {
        FlightError::Tonic(status) => *status,
        other => internal(other),
    }))
}

fn conform(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, Status> {
    if batch.num_columns() != schema.fields().len() {
        return Err(Status::aborted("the statement's columns have changed since it was planned; plan it again"));
    }
    let column = |(array, field): (&ArrayRef, &Arc<Field>)| {
        let array = Strings::Plain.array(array.clone())?;
        if array.data_type() == field.data_type() { Ok(array) } else { cast(&array, field.data_type()) }
    };
    let columns = batch.columns().iter().zip(schema.fields()).map(column).collect::<Result<Vec<_>, _>>();
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let nullable = schema.fields().iter().map(|field| Arc::new(field.as_ref().clone().with_nullable(true)));
    let target = if batch.columns().iter().zip(schema.fields()).all(|(a, f)| f.is_nullable() || a.null_count() == 0) {
        schema.clone()
    } else {
        Arc::new(Schema::new(nullable.collect::<Vec<_>>()))
    };
    RecordBatch::try_new_with_options(target, columns.map_err(internal)?, &options).map_err(internal)
}
