//! The calls of Flight SQL.

use std::pin::Pin;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::sql::metadata::{SqlInfoData, XdbcTypeInfoData};
use arrow_flight::sql::server::{FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionBeginSavepointRequest, ActionBeginSavepointResult, ActionBeginTransactionRequest,
    ActionBeginTransactionResult, ActionCancelQueryRequest, ActionCancelQueryResult,
    ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult,
    ActionEndSavepointRequest, ActionEndTransactionRequest, CommandGetCatalogs, CommandGetCrossReference,
    CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys, CommandGetPrimaryKeys, CommandGetSqlInfo,
    CommandGetTableTypes, CommandGetTables, CommandGetXdbcTypeInfo, CommandPreparedStatementQuery,
    CommandPreparedStatementUpdate, CommandStatementIngest, CommandStatementQuery, CommandStatementUpdate,
    DoPutPreparedStatementResult, EndTransaction, ProstMessageExt, SqlInfo, TicketStatementQuery,
};
use arrow_flight::{Action, FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest, HandshakeResponse, Ticket};
use freestone::Relation;
use futures::{Stream, TryStreamExt};
use prost::Message;
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status, Streaming};

use super::ingest;
use super::login::{Login, Logins, Planned};
use super::metadata::{self, CATALOG, SCHEMA};
use super::statements::{self, Messages, internal, status};
use crate::execution;
use crate::shared::Shared;

/// Values of the enumeration `EndSavepoint` of Flight SQL.
const END_SAVEPOINT_RELEASE: i32 = 1;
const END_SAVEPOINT_ROLLBACK: i32 = 2;

/// The maximum bytes of all parameter batches of one statement.
const PARAMETER_BYTES_MAX: usize = 256 << 20;

type Result<T, E = Status> = std::result::Result<T, E>;

pub struct Service {
    shared: Arc<Shared>,
    logins: Logins,
}

impl Service {
    pub fn new(shared: Arc<Shared>) -> Self {
        Service { logins: Logins::new(shared.clone()), shared }
    }

    async fn login<T>(&self, request: &Request<T>) -> Result<Arc<Login>> {
        self.logins.of(request).await
    }

    async fn relations(&self, login: &Login) -> Result<Vec<Relation>> {
        let session = login.session.clone();
        execution::on_workers(&self.shared, self.shared.limits.statement, async move { session.relations().await })
            .await
            .map_err(status)
    }

    /// Executes a statement without rows at once, because a client that expects no rows might never redeem its ticket.
    /// The ticket that it gets returns no rows.
    async fn executed(&self, planned: &Planned, request: Request<FlightDescriptor>) -> Result<Response<FlightInfo>> {
        statements::update(&self.shared, planned).await?;
        info(&TicketStatementQuery { statement_handle: vec![].into() }, &Schema::empty(), request)
    }

    fn sql_info(&self) -> Result<SqlInfoData> {
        metadata::sql_info(self.shared.database.options().read_only).map_err(internal)
    }
}

/// The flight information of a command, whose ticket is the command.
fn info(
    command: &impl ProstMessageExt,
    schema: &Schema,
    request: Request<FlightDescriptor>,
) -> Result<Response<FlightInfo>> {
    info_of(command.as_any().encode_to_vec(), schema, request)
}

fn info_of(ticket: Vec<u8>, schema: &Schema, request: Request<FlightDescriptor>) -> Result<Response<FlightInfo>> {
    let endpoint = FlightEndpoint::new().with_ticket(Ticket::new(ticket));
    let info = FlightInfo::new().try_with_schema(schema).map_err(internal)?;
    Ok(Response::new(info.with_endpoint(endpoint).with_descriptor(request.into_inner())))
}

fn one(schema: SchemaRef, batch: Result<RecordBatch, impl std::fmt::Display>) -> Result<Response<Messages>> {
    let batch = batch.map_err(internal)?;
    Ok(Response::new(statements::messages(schema, futures::stream::iter([Ok(batch)]))))
}

fn types() -> Result<XdbcTypeInfoData> {
    metadata::type_info().map_err(internal)
}

/// The batches that a client sends.
async fn received(stream: PeekableFlightDataStream) -> Result<Vec<RecordBatch>> {
    // A message without a header has only the command.
    let stream = stream.try_filter(|data| futures::future::ready(!data.data_header.is_empty()));
    let mut batches = FlightRecordBatchStream::new_from_flight_data(stream.map_err(|status| status.into()));
    let (mut all, mut bytes) = (vec![], 0);
    while let Some(batch) = batches.try_next().await.map_err(|error| Status::invalid_argument(error.to_string()))? {
        bytes += batch.get_array_memory_size();
        if bytes > PARAMETER_BYTES_MAX {
            return Err(Status::resource_exhausted("the parameters are too large; send them in several calls"));
        }
        all.push(batch);
    }
    Ok(all)
}

fn unsaid() -> Status {
    Status::invalid_argument("what to do with the transaction or savepoint is not said")
}

#[tonic::async_trait]
impl FlightSqlService for Service {
    type FlightService = Service;

    async fn do_handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Pin<Box<dyn Stream<Item = Result<HandshakeResponse>> + Send>>>> {
        let header = request.metadata().get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let token = if header.is_empty() && self.shared.authority.admits_anybody() {
            String::new()
        } else {
            self.logins.token(&request, header).await?
        };
        let answer = HandshakeResponse { protocol_version: 0, payload: token.clone().into_bytes().into() };
        let mut response: Response<Pin<Box<dyn Stream<Item = Result<HandshakeResponse>> + Send>>> =
            Response::new(Box::pin(futures::stream::iter([Ok(answer)])));
        if !token.is_empty() {
            let value = MetadataValue::try_from(format!("Bearer {token}")).map_err(internal)?;
            response.metadata_mut().insert("authorization", value);
        }
        Ok(response)
    }

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>> {
        let login = self.login(&request).await?;
        let planned =
            statements::plan(&self.shared, login.session_of(query.transaction_id.as_ref())?, &query.query, false)
                .await?;
        if planned.gives_no_rows() {
            return self.executed(&planned, request).await;
        }
        let schema = statements::schema(&planned.description);
        let ticket = TicketStatementQuery { statement_handle: login.keep(planned)?.into() };
        info(&ticket, &schema, request)
    }

    async fn do_get_statement(
        &self,
        ticket: TicketStatementQuery,
        request: Request<Ticket>,
    ) -> Result<Response<Messages>> {
        let login = self.login(&request).await?;
        if ticket.statement_handle.is_empty() {
            return Ok(Response::new(statements::nothing()));
        }
        let planned = login.take(&ticket.statement_handle)?;
        Ok(Response::new(statements::query(&self.shared, &planned).await?))
    }

    async fn do_put_statement_update(
        &self,
        command: CommandStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64> {
        let login = self.login(&request).await?;
        let planned =
            statements::plan(&self.shared, login.session_of(command.transaction_id.as_ref())?, &command.query, false)
                .await?;
        statements::update(&self.shared, &planned).await
    }

    async fn do_put_statement_ingest(
        &self,
        command: CommandStatementIngest,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64> {
        let login = self.login(&request).await?;
        ingest::ingest(&self.shared, &login, command, request.into_inner()).await
    }

    async fn do_action_create_prepared_statement(
        &self,
        command: ActionCreatePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult> {
        let login = self.login(&request).await?;
        let planned =
            statements::plan(&self.shared, login.session_of(command.transaction_id.as_ref())?, &command.query, true)
                .await?;
        let schema = statements::schema(&planned.description);
        let dataset = if planned.description.schema.is_some() { statements::schema_bytes(&schema)? } else { vec![] };
        let parameters = statements::parameter_schema(&planned.description);
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle: login.keep(planned)?.into(),
            dataset_schema: dataset.into(),
            parameter_schema: statements::schema_bytes(&parameters)?.into(),
        })
    }

    async fn do_action_close_prepared_statement(
        &self,
        command: ActionClosePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<()> {
        self.login(&request).await?.close(&command.prepared_statement_handle);
        Ok(())
    }

    async fn do_put_prepared_statement_query(
        &self,
        command: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<DoPutPreparedStatementResult> {
        let login = self.login(&request).await?;
        let parameters = received(request.into_inner()).await?;
        login.set_parameters(&command.prepared_statement_handle, parameters)?;
        Ok(DoPutPreparedStatementResult { prepared_statement_handle: Some(command.prepared_statement_handle) })
    }

    async fn do_put_prepared_statement_update(
        &self,
        command: CommandPreparedStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64> {
        let login = self.login(&request).await?;
        let mut planned = login.take(&command.prepared_statement_handle)?;
        if !planned.description.parameters.is_empty() {
            // Values are in this call, or were in an earlier one.
            let given = received(request.into_inner()).await?;
            if !given.is_empty() {
                planned.parameters = given;
            }
        }
        statements::update(&self.shared, &planned).await
    }

    async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>> {
        let login = self.login(&request).await?;
        let planned = login.take(&query.prepared_statement_handle)?;
        if planned.gives_no_rows() {
            return self.executed(&planned, request).await;
        }
        let planned = statements::bound(&self.shared, planned).await?;
        info(&query, &statements::schema(&planned.description), request)
    }

    async fn do_get_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<Ticket>,
    ) -> Result<Response<Messages>> {
        let login = self.login(&request).await?;
        let planned = login.take(&query.prepared_statement_handle)?;
        let planned = statements::bound(&self.shared, planned).await?;
        Ok(Response::new(statements::query(&self.shared, &planned).await?))
    }

    async fn do_action_begin_transaction(
        &self,
        _: ActionBeginTransactionRequest,
        request: Request<Action>,
    ) -> Result<ActionBeginTransactionResult> {
        let login = self.login(&request).await?;
        let transaction_id = login.transactions.begin(&self.shared, login.new_session(&self.shared)).await?.into();
        Ok(ActionBeginTransactionResult { transaction_id })
    }

    async fn do_action_end_transaction(
        &self,
        command: ActionEndTransactionRequest,
        request: Request<Action>,
    ) -> Result<()> {
        let login = self.login(&request).await?;
        let commits = match command.action() {
            EndTransaction::Commit => true,
            EndTransaction::Rollback => false,
            EndTransaction::Unspecified => return Err(unsaid()),
        };
        login.transactions.end(&self.shared, &command.transaction_id, commits).await
    }

    async fn do_action_begin_savepoint(
        &self,
        command: ActionBeginSavepointRequest,
        request: Request<Action>,
    ) -> Result<ActionBeginSavepointResult> {
        let login = self.login(&request).await?;
        let savepoint_id = login.transactions.begin_savepoint(&self.shared, &command.transaction_id).await?.into();
        Ok(ActionBeginSavepointResult { savepoint_id })
    }

    async fn do_action_end_savepoint(
        &self,
        command: ActionEndSavepointRequest,
        request: Request<Action>,
    ) -> Result<()> {
        let login = self.login(&request).await?;
        let releases = match command.action {
            END_SAVEPOINT_RELEASE => true,
            END_SAVEPOINT_ROLLBACK => false,
            _ => return Err(unsaid()),
        };
        login.transactions.end_savepoint(&self.shared, &command.savepoint_id, releases).await
    }

    /// Cancels the running statements of the session and of its transactions.
    async fn do_action_cancel_query(
        &self,
        _: ActionCancelQueryRequest,
        request: Request<Action>,
    ) -> Result<ActionCancelQueryResult> {
        let login = self.login(&request).await?;
        login.session.cancel_handle().cancel();
        login.transactions.cancel();
        // CANCEL_RESULT_CANCELLED
        Ok(ActionCancelQueryResult { result: 1 })
    }

    async fn get_flight_info_catalogs(
        &self,
        query: CommandGetCatalogs,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>> {
        self.login(&request).await?;
        info(&query, &query.into_builder().schema(), request)
    }

    async fn do_get_catalogs(&self, query: CommandGetCatalogs, request: Request<Ticket>) -> Result<Response<Messages>> {
        self.login(&request).await?;
        let mut builder = query.into_builder();
        builder.append(CATALOG);
        one(builder.schema(), builder.build())
    }

    async fn get_flight_info_schemas(
        &self,
        query: CommandGetDbSchemas,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>> {
        self.login(&request).await?;
        info(&query, &query.clone().into_builder().schema(), request)
    }

    async fn do_get_schemas(&self, query: CommandGetDbSchemas, request: Request<Ticket>) -> Result<Response<Messages>> {
        self.login(&request).await?;
        let mut builder = query.into_builder();
        builder.append(CATALOG, SCHEMA);
        one(builder.schema(), builder.build())
    }

    async fn get_flight_info_tables(
        &self,
        query: CommandGetTables,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>> {
        self.login(&request).await?;
        info(&query, &query.clone().into_builder().schema(), request)
    }

    async fn do_get_tables(&self, query: CommandGetTables, request: Request<Ticket>) -> Result<Response<Messages>> {
        let login = self.login(&request).await?;
        let relations = self.relations(&login).await?;
        let mut builder = query.into_builder();
        for relation in &relations {
            let kind = if relation.view.is_some() { "VIEW" } else { "TABLE" };
            let description = freestone::Description { parameters: vec![], schema: relation.schema.clone() };
            let schema = statements::schema(&description);
            builder.append(CATALOG, SCHEMA, &relation.name, kind, &schema).map_err(internal)?;
        }
        one(builder.schema(), builder.build())
    }

    async fn get_flight_info_table_types(
        &self,
        query: CommandGetTableTypes,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>> {
        self.login(&request).await?;
        info(&query, &query.into_builder().schema(), request)
    }

    async fn do_get_table_types(
        &self,
        query: CommandGetTableTypes,
        request: Request<Ticket>,
    ) -> Result<Response<Messages>> {
        self.login(&request).await?;
        let mut builder = query.into_builder();
        builder.append("TABLE");
        builder.append("VIEW");
        one(builder.schema(), builder.build())
    }

    async fn get_flight_info_sql_info(
        &self,
        query: CommandGetSqlInfo,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>> {
        self.login(&request).await?;
        let schema = query.clone().into_builder(&self.sql_info()?).schema();
        info(&query, &schema, request)
    }

    async fn do_get_sql_info(&self, query: CommandGetSqlInfo, request: Request<Ticket>) -> Result<Response<Messages>> {
        self.login(&request).await?;
        let all = self.sql_info()?;
        let builder = query.into_builder(&all);
        one(builder.schema(), builder.build())
    }

    async fn get_flight_info_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>> {
        self.login(&request).await?;
        let schema = query.into_builder(&types()?).schema();
        info(&query, &schema, request)
    }

    async fn do_get_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        request: Request<Ticket>,
    ) -> Result<Response<Messages>> {
        self.login(&request).await?;
        let all = types()?;
        let builder = query.into_builder(&all);
        one(builder.schema(), builder.build())
    }

    async fn get_flight_info_primary_keys(
        &self,
        query: CommandGetPrimaryKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>> {
        self.login(&request).await?;
        info(&query, &metadata::PRIMARY_KEYS, request)
    }

    async fn do_get_primary_keys(
        &self,
        query: CommandGetPrimaryKeys,
        request: Request<Ticket>,
    ) -> Result<Response<Messages>> {
        let login = self.login(&request).await?;
        let batch = metadata::primary_keys(&self.relations(&login).await?, &query.table);
        one(metadata::PRIMARY_KEYS.clone(), batch)
    }

    async fn get_flight_info_exported_keys(
        &self,
        query: CommandGetExportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>> {
        self.login(&request).await?;
        info(&query, &metadata::FOREIGN_KEYS, request)
    }

    async fn do_get_exported_keys(
        &self,
        query: CommandGetExportedKeys,
        request: Request<Ticket>,
    ) -> Result<Response<Messages>> {
        let login = self.login(&request).await?;
        let batch = metadata::foreign_keys(&self.relations(&login).await?, None, Some(&query.table));
        one(metadata::FOREIGN_KEYS.clone(), batch)
    }

    async fn get_flight_info_imported_keys(
        &self,
        query: CommandGetImportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>> {
        self.login(&request).await?;
        info(&query, &metadata::FOREIGN_KEYS, request)
    }

    async fn do_get_imported_keys(
        &self,
        query: CommandGetImportedKeys,
        request: Request<Ticket>,
    ) -> Result<Response<Messages>> {
        let login = self.login(&request).await?;
        let batch = metadata::foreign_keys(&self.relations(&login).await?, Some(&query.table), None);
        one(metadata::FOREIGN_KEYS.clone(), batch)
    }

    async fn get_flight_info_cross_reference(
        &self,
        query: CommandGetCrossReference,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>> {
        self.login(&request).await?;
        info(&query, &metadata::FOREIGN_KEYS, request)
    }

    async fn do_get_cross_reference(
        &self,
        query: CommandGetCrossReference,
        request: Request<Ticket>,
    ) -> Result<Response<Messages>> {
        let login = self.login(&request).await?;
        let relations = self.relations(&login).await?;
        let batch = metadata::foreign_keys(&relations, Some(&query.fk_table), Some(&query.pk_table));
        one(metadata::FOREIGN_KEYS.clone(), batch)
    }

    async fn register_sql_info(&self, _: i32, _: &SqlInfo) {}
}
