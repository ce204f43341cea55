//! The Freestone protocol, with its own client.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use freestone_server::ServerOptions;
use freestone_wire::WireError;
use freestone_wire::client::Client;

use crate::server::TestServer;

async fn server() -> TestServer {
    TestServer::start(ServerOptions { listen: Some("127.0.0.1:0".into()), ..ServerOptions::default() }).await
}

pub async fn connect(server: &TestServer) -> Client {
    let address = server.address("freestone");
    Client::connect(&format!("freestone://ann:a%20secret@{address}")).await.expect("a connection")
}

pub async fn count(client: &Client, sql: &str) -> i64 {
    let batches = client.query(sql, None).await.expect(sql).collect().await.expect(sql);
    batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

/// The SQLSTATE of the error of a statement.
pub fn state(error: WireError) -> String {
    match error {
        WireError::Sql(error) => error.sqlstate,
        other => panic!("{other}"),
    }
}

pub async fn run(client: &Client, sql: &str) {
    let mut result = client.query(sql, None).await.expect(sql);
    while result.next().await.expect(sql).is_some() {}
}

fn rows(ids: impl IntoIterator<Item = Option<i32>>) -> RecordBatch {
    let ids = Int32Array::from_iter(ids);
    let names: StringArray = (0..ids.len()).map(|at| (at % 3 != 0).then(|| format!("name {at}"))).collect();
    let columns: [(&str, ArrayRef); 2] = [("name", Arc::new(names)), ("id", Arc::new(ids))];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_are_kept_whole_or_not_at_all() {
    let server = server().await;
    let client = connect(&server).await;
    run(&client, "CREATE TABLE t (id INT NOT NULL, name VARCHAR)").await;
    let batch = rows((0..1000).map(Some));
    let mut upload = client.upload("t", &batch.schema()).await.expect("begun");
    for _ in 0..20 {
        upload.send(batch.clone()).await.expect("sent");
    }
    assert_eq!(upload.finish().await.expect("kept").rows, 20_000);
    assert_eq!(count(&client, "SELECT count(*) FROM t WHERE name IS NULL").await, 20 * 334);
    // A NULL in a NOT NULL column, at the end.
    let nullable = rows([Some(1), None]);
    let mut upload = client.upload("t", &nullable.schema()).await.expect("begun");
    upload.send(nullable.slice(0, 1)).await.expect("sent");
    let sent = upload.send(nullable).await;
    let error = match sent {
        Ok(()) => upload.finish().await.expect_err("a NULL"),
        Err(error) => error,
    };
    assert_eq!(state(error), "23502");
    // Columns and tables that do not exist.
    let other = RecordBatch::try_from_iter([("nobody", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).expect("one");
    for (target, batch, expected) in [("t", other, "42703"), ("nowhere", rows([Some(1)]), "42P01")] {
        let mut upload = client.upload(target, &batch.schema()).await.expect("begun");
        let error = match upload.send(batch).await {
            Ok(()) => upload.finish().await.expect_err(target),
            Err(error) => error,
        };
        assert_eq!(state(error), expected);
    }
    assert_eq!(count(&client, "SELECT count(*) FROM t").await, 20_000);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_of_clients_that_leave_are_not_kept() {
    let server = server().await;
    let client = connect(&server).await;
    run(&client, "CREATE TABLE t (id INT, name VARCHAR)").await;
    let batch = rows((0..1000).map(Some));
    // One upload is abandoned, and one is cut off.
    let mut upload = client.upload("t", &batch.schema()).await.expect("begun");
    upload.send(batch.clone()).await.expect("sent");
    drop(upload);
    let leaving = connect(&server).await;
    let mut upload = leaving.upload("t", &batch.schema()).await.expect("begun");
    upload.send(batch.clone()).await.expect("sent");
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop((upload, leaving));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(count(&client, "SELECT count(*) FROM t").await, 0);
    let mut upload = client.upload("t", &batch.schema()).await.expect("begun");
    upload.send(batch).await.expect("sent");
    assert_eq!(upload.finish().await.expect("kept").rows, 1000);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_larger_than_a_chunk_arrives_up_to_the_clients_limit() {
    let server = server().await;
    let client = connect(&server).await;
    let sql = "SELECT repeat('abc', 1000000) AS a";
    for _ in 0..2 {
        let batches = client.query(sql, None).await.expect(sql).collect().await.expect(sql);
        assert_eq!(batches[0].column(0).as_string_view().value(0), "abc".repeat(1_000_000));
    }
    let address = format!("freestone://ann:a%20secret@{}?row_size=2000000", server.address("freestone"));
    let client = Client::connect(&address).await.expect("a connection");
    let mut result = client.query(sql, None).await.expect(sql);
    let WireError::Sql(error) = result.collect().await.expect_err("a row of 3 MB") else { panic!("another error") };
    assert_eq!(error.sqlstate, "54000");
    let (_, needed) = error.message.rsplit_once("connect with row_size=").expect("what to ask for");
    let address = format!("freestone://ann:a%20secret@{}?row_size={needed}", server.address("freestone"));
    let larger = Client::connect(&address).await.expect("a connection");
    let batches = larger.query(sql, None).await.expect(sql).collect().await.expect(sql);
    assert_eq!(batches[0].num_rows(), 1);
    // The connection is still usable.
    assert_eq!(count(&client, "SELECT count(*) FROM generate_series(1, 10)").await, 10);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_in_the_file_system_is_its_users_own() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a socket");
    let options = || ServerOptions { listen: Some(format!("unix:{}", path.display())), ..ServerOptions::default() };
    // The file of a server that was killed.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
    let server = TestServer::start(options()).await;
    assert_eq!(std::fs::metadata(&path).expect("a socket").permissions().mode() & 0o777, 0o600);
    let place = server.address("freestone+unix");
    let client = Client::connect(&format!("freestone+unix://ann:a%20secret@{place}")).await.expect("a connection");
    assert_eq!(count(&client, "SELECT count(*) FROM generate_series(1, 1000)").await, 1000);
    let second = freestone_server::Plan::of(ServerOptions { no_auth: true, ..options() }).expect("a plan");
    let database = freestone::Database::in_memory(freestone::Options::default()).expect("a database");
    let refused = second.bind(database, tokio::runtime::Handle::current()).await.err().expect("refused");
    assert!(refused.to_string().contains("another server listens"), "{refused}");
    client.close().await;
    server.stop().await;
    assert!(!path.exists());
    // Other files are not replaced.
    std::fs::write(&path, "text").expect("written");
    let plan = freestone_server::Plan::of(ServerOptions { no_auth: true, ..options() }).expect("a plan");
    let database = freestone::Database::in_memory(freestone::Options::default()).expect("a database");
    assert!(plan.bind(database, tokio::runtime::Handle::current()).await.is_err());
    assert_eq!(std::fs::read_to_string(&path).expect("still there"), "text");
    let relative = ServerOptions { listen: Some("unix:socket".into()), ..ServerOptions::default() };
    assert!(freestone_server::Plan::of(relative).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_spoken_under_the_protocols_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
    std::fs::write(&certificate, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let options = ServerOptions {
        listen: Some("127.0.0.1:0".into()),
        tls_cert: Some(certificate.clone()),
        tls_key: Some(key),
        ..ServerOptions::default()
    };
    let server = TestServer::start(options).await;
    let port = server.address("freestone").rsplit_once(':').expect("a port").1.to_owned();
    let ca = certificate.display();
    let secure = format!("freestone://ann:a%20secret@localhost:{port}?tls=require&tls_ca={ca}");
    let client = Client::connect(&secure).await.expect("a connection over TLS");
    assert_eq!(count(&client, "SELECT count(*) FROM generate_series(1, 1000)").await, 1000);
    // Clients on this machine may connect without TLS.
    assert_eq!(count(&connect(&server).await, "SELECT count(*) FROM generate_series(1, 10)").await, 10);
    server.stop().await;
}
