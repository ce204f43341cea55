//! Arrow Flight SQL, with its own client.

use std::sync::Arc;
use std::time::Duration;

use crate::server::{PASSWORD, TestServer};
use arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::util::display::array_value_to_string;
use arrow_flight::FlightInfo;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::sql::{CommandGetDbSchemas, CommandGetTables, CommandGetXdbcTypeInfo, EndTransaction, SqlInfo};
use freestone_server::ServerOptions;
use futures::{StreamExt, TryStreamExt};
use tonic::transport::{Channel, Endpoint};

pub type Client = FlightSqlServiceClient<Channel>;

async fn server() -> TestServer {
    TestServer::start(ServerOptions { flight: Some("127.0.0.1:0".into()), ..ServerOptions::default() }).await
}

async fn client(server: &TestServer) -> Client {
    let endpoint = Endpoint::new(format!("http://{}", server.address("flight"))).expect("an endpoint");
    FlightSqlServiceClient::new(endpoint.connect().await.expect("a connection"))
}

pub async fn logged_in(server: &TestServer, user: &str) -> Client {
    let mut client = client(server).await;
    client.handshake(user, PASSWORD).await.expect("logged in");
    client
}

pub async fn rows(client: &mut Client, info: FlightInfo) -> Vec<RecordBatch> {
    let ticket = info.endpoint[0].ticket.clone().expect("a ticket");
    client.do_get(ticket).await.expect("a stream").try_collect().await.expect("batches")
}

fn count(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

pub fn cell(batches: &[RecordBatch], column: usize, row: usize) -> String {
    array_value_to_string(batches[0].column(column), row).expect("a value")
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_without_a_login_are_refused() {
    let server = server().await;
    let mut client = client(&server).await;
    assert!(client.execute("SELECT 1".into(), None).await.is_err());
    assert!(client.handshake("ann", "wrong").await.is_err());
    assert!(client.handshake("nobody", PASSWORD).await.is_err());
    client.set_token("made up".into());
    assert!(client.execute("SELECT 1".into(), None).await.is_err());
    drop(client);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_and_updates_run_with_the_users_rights() {
    let server = server().await;
    let mut admin = logged_in(&server, "ann").await;
    assert_eq!(admin.execute_update("CREATE TABLE t (a INT, b VARCHAR)".into(), None).await.expect("made"), 0);
    assert_eq!(
        admin.execute_update("INSERT INTO t VALUES (1, 'x'), (2, NULL)".into(), None).await.expect("inserted"),
        2
    );
    let info = admin.execute("SELECT a, b FROM t ORDER BY a".into(), None).await.expect("planned");
    let ticket = info.endpoint[0].ticket.clone().expect("a ticket");
    let mut other = logged_in(&server, "rita").await;
    assert!(other.do_get(ticket).await.is_err(), "a ticket belongs to its session");
    let batches = rows(&mut admin, info).await;
    assert_eq!((count(&batches), cell(&batches, 1, 0)), (2, "x".into()));
    assert!(other.execute_update("INSERT INTO t VALUES (3, 'y')".into(), None).await.is_err());
    let info = other.execute("SELECT count(*) FROM t".into(), None).await.expect("planned");
    assert_eq!(cell(&rows(&mut other, info).await, 0, 0), "2");
    let info = admin.execute("SELECT * FROM t WHERE a > 9".into(), None).await.expect("planned");
    assert_eq!(count(&rows(&mut admin, info).await), 0);
    let large = admin.execute("SELECT * FROM generate_series(1, 1000000)".into(), None).await.expect("planned");
    assert_eq!(count(&rows(&mut admin, large).await), 1_000_000);
    assert!(admin.execute("SELEC".into(), None).await.is_err());
    drop((admin, other));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_of_one_login_are_apart() {
    let server = server().await;
    let mut client = logged_in(&server, "ann").await;
    client.execute_update("CREATE TABLE t (a INT)".into(), None).await.expect("made");
    let first = client.begin_transaction().await.expect("begun");
    let second = client.begin_transaction().await.expect("begun");
    client.execute_update("INSERT INTO t VALUES (1)".into(), Some(first.clone())).await.expect("inserted");
    client.execute_update("INSERT INTO t VALUES (2), (3)".into(), Some(second.clone())).await.expect("inserted");
    for (transaction, expected) in [(None, "0"), (Some(first.clone()), "1"), (Some(second.clone()), "2")] {
        let info = client.execute("SELECT count(*) FROM t".into(), transaction).await.expect("planned");
        assert_eq!(cell(&rows(&mut client, info).await, 0, 0), expected);
    }
    client.end_transaction(first.clone(), EndTransaction::Commit).await.expect("committed");
    client.end_transaction(second, EndTransaction::Rollback).await.expect("rolled back");
    assert!(client.execute("SELECT 1".into(), Some(first.clone())).await.is_err(), "it has ended");
    assert!(client.end_transaction(first, EndTransaction::Commit).await.is_err(), "it has ended");
    let info = client.execute("SELECT count(*) FROM t".into(), None).await.expect("planned");
    assert_eq!(cell(&rows(&mut client, info).await, 0, 0), "1");
    let failing = client.begin_transaction().await.expect("begun");
    client.execute_update("INSERT INTO t VALUES (9)".into(), Some(failing.clone())).await.expect("inserted");
    assert!(client.execute_update("INSERT INTO missing VALUES (9)".into(), Some(failing.clone())).await.is_err());
    let error = client.end_transaction(failing, EndTransaction::Commit).await.expect_err("a statement failed");
    assert!(error.to_string().contains("25P02"), "{error}");
    drop(client);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_take_rows_of_parameters() {
    let server = server().await;
    let mut client = logged_in(&server, "ann").await;
    client.execute_update("CREATE TABLE t (a INT, b VARCHAR)".into(), None).await.expect("made");
    let mut insert = client.prepare("INSERT INTO t VALUES ($1, $2)".into(), None).await.expect("prepared");
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("$1", Arc::new(Int32Array::from(vec![Some(1), Some(2), None]))),
        ("$2", Arc::new(StringArray::from(vec![Some("x"), None, Some("z")]))),
    ];
    insert.set_parameters(RecordBatch::try_from_iter(columns).expect("a batch")).expect("set");
    assert_eq!(insert.execute_update().await.expect("inserted"), 3);
    insert.close().await.expect("closed");
    let mut select = client.prepare("SELECT b FROM t WHERE a = $1".into(), None).await.expect("prepared");
    assert_eq!(select.dataset_schema().expect("a schema").fields().len(), 1);
    let value: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    select.set_parameters(RecordBatch::try_from_iter([("$1", value)]).expect("a batch")).expect("set");
    let info = select.execute().await.expect("executed");
    let batches = rows(&mut client, info).await;
    assert_eq!((count(&batches), cell(&batches, 0, 0)), (1, "x".into()));
    // The rows are of the types that follow from the values, not of those that were expected before.
    let mut product = client.prepare("SELECT a * $1 AS p FROM t WHERE a > $1".into(), None).await.expect("prepared");
    let value: ArrayRef = Arc::new(Float64Array::from(vec![1.5]));
    product.set_parameters(RecordBatch::try_from_iter([("$1", value)]).expect("a batch")).expect("set");
    let info = product.execute().await.expect("executed");
    let batches = rows(&mut client, info).await;
    assert_eq!((count(&batches), cell(&batches, 0, 0)), (1, "3.0".into()));
    drop((select, product, client));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_without_rows_run_when_they_are_executed() {
    let server = server().await;
    let mut client = logged_in(&server, "ann").await;
    let made = client.execute("CREATE TABLE t (a INT)".into(), None).await.expect("executed");
    let mut insert = client.prepare("INSERT INTO t VALUES ($1)".into(), None).await.expect("prepared");
    let values: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    insert.set_parameters(RecordBatch::try_from_iter([("$1", values)]).expect("a batch")).expect("set");
    let inserted = insert.execute().await.expect("executed");
    let query = "SELECT a FROM t".to_owned();
    let info = client.execute(query.clone(), None).await.expect("planned");
    assert_eq!(count(&rows(&mut client, info).await), 2);
    // A client that requests rows nevertheless gets none, and the statement is not executed again.
    for info in [made, inserted] {
        assert_eq!(count(&rows(&mut client, info).await), 0);
    }
    let info = client.execute(query, None).await.expect("planned");
    assert_eq!(count(&rows(&mut client, info).await), 2);
    let error = client.execute("INSERT INTO t VALUES ('x')".into(), None).await.expect_err("no number");
    assert!(error.to_string().contains("SQLSTATE"), "{error}");
    drop((insert, client));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_is_complete() {
    let server = server().await;
    let mut client = logged_in(&server, "ann").await;
    for sql in [
        "CREATE TABLE d (k INT NOT NULL, PRIMARY KEY (k))",
        "CREATE TABLE t (a INT NOT NULL, k INT, PRIMARY KEY (a), FOREIGN KEY (k) REFERENCES d (k))",
        "CREATE VIEW v AS SELECT a FROM t",
    ] {
        client.execute_update(sql.into(), None).await.expect("made");
    }
    let info = client.get_catalogs().await.expect("info");
    assert_eq!(cell(&rows(&mut client, info).await, 0, 0), "freestone");
    let schemas = CommandGetDbSchemas { catalog: None, db_schema_filter_pattern: None };
    let info = client.get_db_schemas(schemas).await.expect("info");
    assert_eq!(cell(&rows(&mut client, info).await, 1, 0), "public");
    let tables = CommandGetTables { include_schema: true, ..CommandGetTables::default() };
    let info = client.get_tables(tables).await.expect("info");
    let batches = rows(&mut client, info).await;
    assert_eq!((count(&batches), batches[0].num_columns()), (3, 5));
    let info = client.get_table_types().await.expect("info");
    assert_eq!(count(&rows(&mut client, info).await), 2);
    let info = client.get_sql_info(vec![]).await.expect("info");
    assert!(count(&rows(&mut client, info).await) > 70);
    let info = client.get_sql_info(vec![SqlInfo::FlightSqlServerName]).await.expect("info");
    assert_eq!(count(&rows(&mut client, info).await), 1);
    let info = client.get_xdbc_type_info(CommandGetXdbcTypeInfo { data_type: None }).await.expect("info");
    assert!(count(&rows(&mut client, info).await) > 10);
    let query = arrow_flight::sql::CommandGetPrimaryKeys { catalog: None, db_schema: None, table: "t".into() };
    let info = client.get_primary_keys(query).await.expect("info");
    assert_eq!(cell(&rows(&mut client, info).await, 3, 0), "a");
    let query = arrow_flight::sql::CommandGetImportedKeys { catalog: None, db_schema: None, table: "t".into() };
    let info = client.get_imported_keys(query).await.expect("info");
    assert_eq!(cell(&rows(&mut client, info).await, 2, 0), "d");
    let query = arrow_flight::sql::CommandGetExportedKeys { catalog: None, db_schema: None, table: "d".into() };
    let info = client.get_exported_keys(query).await.expect("info");
    assert_eq!(cell(&rows(&mut client, info).await, 6, 0), "t");
    drop(client);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_ingested_whole_or_not_at_all() {
    use arrow_flight::sql::CommandStatementIngest;
    use arrow_flight::sql::TableDefinitionOptions;
    let server = server().await;
    let mut client = logged_in(&server, "ann").await;
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("a", Arc::new(Int32Array::from(vec![Some(1), Some(2), None]))),
        ("b", Arc::new(StringArray::from(vec![Some("x"), None, Some("z")]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    // The action if the table does not exist (1 create, 2 fail) or exists (1 fail, 2 append, 3 replace).
    let command = |if_not_exist, if_exists, temporary| CommandStatementIngest {
        table_definition_options: Some(TableDefinitionOptions { if_not_exist, if_exists }),
        table: "T".into(),
        temporary,
        ..CommandStatementIngest::default()
    };
    let batches = || futures::stream::iter([Ok(batch.clone()), Ok(batch.clone())]);
    assert!(client.execute_ingest(command(2, 2, false), batches()).await.is_err(), "there is no table");
    assert_eq!(client.execute_ingest(command(1, 1, true), batches()).await.expect("a temporary table"), 6);
    assert!(client.execute_ingest(command(1, 1, true), batches()).await.is_err(), "there is a temporary table");
    let info = client.execute("SELECT count(*) FROM pg_temp.\"T\"".into(), None).await.expect("planned");
    assert_eq!(cell(&rows(&mut client, info).await, 0, 0), "6");
    client.execute_update("DROP TABLE \"T\"".into(), None).await.expect("dropped");
    assert_eq!(client.execute_ingest(command(1, 1, false), batches()).await.expect("made"), 6);
    assert!(client.execute_ingest(command(1, 1, false), batches()).await.is_err(), "there is a table");
    assert_eq!(client.execute_ingest(command(2, 2, false), batches()).await.expect("appended"), 6);
    // If a client disconnects before the end, nothing is stored.
    let broken = batches().chain(futures::stream::pending());
    let leaving = client.execute_ingest(command(2, 2, false), broken);
    assert!(tokio::time::timeout(Duration::from_millis(300), leaving).await.is_err(), "the rows never end");
    let info = client.execute("SELECT count(*), count(b) FROM \"T\"".into(), None).await.expect("planned");
    let counts = rows(&mut client, info).await;
    assert_eq!((cell(&counts, 0, 0), cell(&counts, 1, 0)), ("12".into(), "8".into()));
    assert_eq!(client.execute_ingest(command(1, 3, false), batches()).await.expect("replaced"), 6);
    let mut reader = logged_in(&server, "rita").await;
    assert!(reader.execute_ingest(command(2, 2, false), batches()).await.is_err(), "a reader must not write");
    let error = client.execute("SELECT * FROM missing".into(), None).await.expect_err("no table");
    assert!(error.to_string().contains("(SQLSTATE 42P01)"), "{error}");
    drop((client, reader));
    server.stop().await;
}
