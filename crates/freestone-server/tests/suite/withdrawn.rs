//! Sessions end when their user loses the access with which they began, and when an administrator ends them.

use std::time::Duration;

use freestone_server::{Role, ServerOptions, Users};
use freestone_wire::client::Client;

use crate::flight;
use crate::postgres::connect_as;
use crate::server::{PASSWORD, TestServer};

/// More than a session may live on, and less than a test should wait.
const SOON: Duration = Duration::from_secs(10);
const LONG: &str = "SELECT count(*) FROM generate_series(1, 100000000000) a";

async fn server() -> TestServer {
    let address = || Some("127.0.0.1:0".to_owned());
    let options = ServerOptions { listen: address(), pg: address(), flight: address(), ..ServerOptions::default() };
    TestServer::start(options).await
}

fn change(server: &TestServer, change: impl FnOnce(&mut Users)) {
    let mut users = Users::load(&server.users).expect("users");
    change(&mut users);
    users.save(&server.users).expect("saved");
}

async fn number(client: &tokio_postgres::Client, sql: &str) -> i64 {
    let rows = client.simple_query(sql).await.expect(sql);
    let value = rows.iter().find_map(|row| match row {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    });
    value.expect(sql)
}

#[tokio::test(flavor = "multi_thread")]
async fn access_that_is_withdrawn_ends_open_sessions() {
    let changes: [fn(&mut Users); 3] = [
        |users| assert!(users.remove("wes")),
        |users| users.add("wes", Role::Read, PASSWORD).expect("a lower role"),
        |users| users.add("wes", Role::Write, "another password").expect("another password"),
    ];
    for change_of_users in changes {
        let server = server().await;
        let other = connect_as(&server, "rita", PASSWORD).await.expect("a connection");
        let idle = connect_as(&server, "wes", PASSWORD).await.expect("a connection");
        let busy = connect_as(&server, "wes", PASSWORD).await.expect("a connection");
        let address = server.address("freestone");
        let wire = Client::connect(&format!("freestone://wes:a%20secret@{address}")).await.expect("a connection");
        let mut over_flight = flight::logged_in(&server, "wes").await;
        assert!(over_flight.execute("SELECT 1".into(), None).await.is_ok());
        let running = tokio::spawn(async move { busy.simple_query(LONG).await });
        let mut result = wire.query(LONG, None).await.expect("begun");
        let over_wire = tokio::spawn(async move { result.next().await.map(|_| ()) });
        tokio::time::sleep(Duration::from_millis(200)).await;
        change(&server, change_of_users);
        let ended = tokio::time::timeout(SOON, running).await.expect("in time").expect("no panic");
        assert!(ended.is_err(), "a running statement");
        let ended = tokio::time::timeout(SOON, over_wire).await.expect("in time").expect("no panic");
        assert!(ended.is_err(), "a running statement of the Freestone protocol");
        let gone = async {
            while idle.simple_query("SELECT 1").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(SOON, gone).await.expect("an idle session");
        let gone = async {
            while let Ok(mut result) = wire.query("SELECT 1", None).await
                && result.next().await.is_ok()
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(SOON, gone).await.expect("the session of the Freestone protocol");
        assert!(over_flight.execute("SELECT 1".into(), None).await.is_err());
        // Others stay.
        assert_eq!(number(&other, "SELECT 1").await, 1);
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn administrators_cancel_and_end_sessions_and_others_do_not() {
    let server = server().await;
    let admin = connect_as(&server, "ann", PASSWORD).await.expect("a connection");
    let reader = connect_as(&server, "rita", PASSWORD).await.expect("a connection");
    let writer = connect_as(&server, "wes", PASSWORD).await.expect("a connection");
    let of_writer = number(&writer, "SELECT pg_backend_pid()").await;
    let stop = |what: &str| format!("SELECT CASE WHEN pg_{what}_backend({of_writer}) THEN 1 ELSE 0 END");
    assert_eq!(number(&reader, &stop("terminate")).await, 0);
    assert_eq!(number(&reader, "SELECT count(*) FROM pg_stat_activity").await, 1);
    assert_eq!(number(&admin, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'wes'").await, 1);
    // A statement is cancelled, and the session goes on.
    let running = tokio::spawn(async move {
        let error = writer.simple_query(LONG).await.expect_err("cancelled");
        (error.code().map(|code| code.code().to_owned()), writer)
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(number(&admin, &stop("cancel")).await, 1);
    let (state, writer) = tokio::time::timeout(SOON, running).await.expect("in time").expect("no panic");
    assert_eq!(state.as_deref(), Some("57014"));
    assert_eq!(number(&writer, "SELECT 1").await, 1);
    assert_eq!(number(&admin, &stop("terminate")).await, 1);
    let gone = async {
        while writer.simple_query("SELECT 1").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, gone).await.expect("the session");
    // The client sees the end of its session a moment before the list of sessions has it.
    let unlisted = async {
        while number(&admin, &stop("terminate")).await != 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, unlisted).await.expect("no session is left");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_stall_end_with_the_time_of_their_statement() {
    use bytes::Bytes;
    use futures::SinkExt;
    let server = server().await;
    let client = connect_as(&server, "wes", PASSWORD).await.expect("a connection");
    client.batch_execute("CREATE TABLE t (a INT)").await.expect("made");
    client.batch_execute("SET statement_timeout = 500").await.expect("set");
    for options in ["", " (FORMAT binary)"] {
        let sink = client.copy_in(&format!("COPY t FROM STDIN{options}")).await.expect("begun");
        futures::pin_mut!(sink);
        let piece: &[u8] = if options.is_empty() { b"1\n" } else { b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0" };
        sink.send(Bytes::from_static(piece)).await.expect("sent");
        sink.flush().await.expect("sent");
        // Nothing more comes, until the server has given up.
        tokio::time::sleep(Duration::from_millis(1000)).await;
        let error = sink.finish().await.expect_err("too late");
        assert_eq!(error.code().map(|code| code.code()), Some("57014"), "{error}");
    }
    client.batch_execute("SET statement_timeout = 0").await.expect("set");
    assert_eq!(number(&client, "SELECT count(*) FROM t").await, 0);
    server.stop().await;
}
