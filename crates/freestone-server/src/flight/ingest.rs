//! Bulk ingestion: rows that a client sends to an existing or a new table.

use std::sync::Arc;

use arrow::error::ArrowError;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::sql::CommandStatementIngest;
use arrow_flight::sql::server::PeekableFlightDataStream;
use arrow_flight::sql::{TableExistsOption, TableNotExistOption};
use freestone::Session;
use futures::TryStreamExt;
use tonic::Status;

use super::login::Login;
use super::metadata::{CATALOG, SCHEMA};
use super::statements::status;
use crate::execution::{self, Clock};
use crate::insert::{self, Target};
use crate::shared::Shared;

type Result<T, E = Status> = std::result::Result<T, E>;

/// Ingests all rows, or none, and returns their number.
///
/// # Errors
///
/// The command is not supported, the table exists or does not exist contrary to it, or the rows cannot be inserted.
pub async fn ingest(
    shared: &Arc<Shared>,
    login: &Arc<Login>,
    mut command: CommandStatementIngest,
    stream: PeekableFlightDataStream,
) -> Result<i64> {
    check(&command)?;
    if command.temporary {
        command.table = format!("pg_temp.{}", command.table);
    }
    let session = login.session_of(command.transaction_id.as_ref())?;
    let target = target(shared, &session, &command).await?;
    let stream = stream.try_filter(|data| futures::future::ready(!data.data_header.is_empty()));
    let mut batches = FlightRecordBatchStream::new_from_flight_data(stream.map_err(|status| status.into()));
    let invalid = |error: arrow_flight::error::FlightError| Status::invalid_argument(error.to_string());
    let first = batches.try_next().await.map_err(invalid)?;
    let schema = first.as_ref().map(|batch| batch.schema()).or_else(|| batches.schema().cloned());
    let schema = schema.ok_or_else(|| Status::invalid_argument("rows to ingest begin with their schema"))?;
    let (sender, parts) = insert::channel();
    let clock = Clock::start(shared.limits.statement);
    let inserting = insert::insert(shared, &session, target, &schema, parts, clock);
    let bringing = async move {
        let mut next = Ok(first);
        loop {
            let ends = !matches!(next, Ok(Some(_)));
            if sender.send(next).await.is_err() || ends {
                return;
            }
            next = batches.try_next().await.map_err(|error| ArrowError::ExternalError(Box::new(error)));
        }
    };
    let rows = insert::while_brought(inserting, bringing).await.map_err(status)?;
    Ok(i64::try_from(rows).unwrap_or(i64::MAX))
}

/// Checks the command against the features of this server: one catalog with one schema.
fn check(command: &CommandStatementIngest) -> Result<()> {
    let is_other =
        |name: &Option<String>, own: &str| name.as_deref().is_some_and(|name| !name.is_empty() && name != own);
    if is_other(&command.catalog, CATALOG) || is_other(&command.schema, SCHEMA) {
        return Err(Status::not_found(format!("tables are in the schema {SCHEMA} of the catalog {CATALOG}")));
    }
    Ok(())
}

/// What becomes of the table, which may exist.
async fn target<'a>(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    command: &'a CommandStatementIngest,
) -> Result<Target<'a>> {
    let asked = session.clone();
    let relations = execution::on_workers(shared, shared.limits.statement, async move { asked.relations().await })
        .await
        .map_err(status)?;
    let exists = relations.iter().any(|relation| relation.name == command.table);
    let Some(options) = &command.table_definition_options else {
        return Err(Status::invalid_argument("what to do with a table that exists, or does not, is not said"));
    };
    let name = &command.table;
    match (exists, options.if_not_exist(), options.if_exists()) {
        (false, TableNotExistOption::Create, _) => Ok(Target::NewTable(name)),
        (false, TableNotExistOption::Fail, _) => Err(Status::not_found(format!("no table {name}"))),
        (true, _, TableExistsOption::Append) => Ok(Target::Table(name)),
        (true, _, TableExistsOption::Fail) => Err(Status::already_exists(format!("table {name} exists"))),
        (true, _, TableExistsOption::Replace) => Ok(Target::Replaced(name)),
        _ => Err(Status::invalid_argument("what to do with a table that exists, or does not, is not said")),
    }
}
