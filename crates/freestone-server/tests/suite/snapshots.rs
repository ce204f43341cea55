//! A query flight (BEGIN READ ONLY … COMMIT) reads one snapshot in every protocol, also while a writer appends rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use arrow_flight::sql::EndTransaction;
use freestone::{Database, Options, Outcome, Session};
use freestone_server::ServerOptions;
use futures::TryStreamExt;
use tokio::task::JoinHandle;

use crate::server::TestServer;
use crate::{flight, postgres, wire};

/// Three drill-downs and a sum over the whole: the first query's count is the sum of the others' counts.
const FLIGHT: [&str; 4] = [
    "SELECT count(*) FROM facts",
    "SELECT count(*) FROM facts, days WHERE day = id AND name = 'odd'",
    "SELECT count(*) FROM facts, days WHERE day = id AND name = 'even'",
    "SELECT cast(sum(one) AS BIGINT) FROM facts",
];
const TABLES: [&str; 4] = [
    "CREATE TABLE days (id INT NOT NULL, name VARCHAR NOT NULL)",
    "INSERT INTO days VALUES (0, 'even'), (1, 'odd')",
    "CREATE TABLE facts (day INT NOT NULL, one BIGINT NOT NULL)",
    "INSERT INTO facts VALUES (0, 1), (1, 1)",
];
/// One commit: three rows, so that two queries of different snapshots never add up.
const APPEND: &str = "INSERT INTO facts VALUES (0, 1), (1, 1), (1, 1)";
const FLIGHTS: usize = 12;

/// A task that appends through the Freestone protocol until it is stopped, and counts its commits.
struct Writer {
    stop: Arc<AtomicBool>,
    task: JoinHandle<i64>,
}

impl Writer {
    async fn start(server: &TestServer) -> Writer {
        let client = wire::connect(server).await;
        for sql in TABLES {
            wire::run(&client, sql).await;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let mut commits = 0;
            while !stopped.load(Ordering::Relaxed) {
                wire::run(&client, APPEND).await;
                commits += 1;
            }
            commits
        });
        Writer { stop, task }
    }

    /// Stops it. Returns the number of rows that there must be.
    async fn stop(self) -> i64 {
        self.stop.store(true, Ordering::Relaxed);
        2 + 3 * self.task.await.expect("the writer ends")
    }
}

/// Checks that every flight is of one snapshot, and that snapshots of later flights are not older.
fn check(flights: &[[i64; 4]], in_all: i64) {
    for counts in flights {
        assert_eq!((counts[0], counts[0]), (counts[1] + counts[2], counts[3]), "two snapshots in {flights:?}");
    }
    assert!(flights.windows(2).all(|pair| pair[0][0] <= pair[1][0]), "{flights:?}");
    let (first, last) = (flights[0][0], flights[flights.len() - 1][0]);
    assert!(first < last && last <= in_all, "the writer appended meanwhile: {first} to {last} of {in_all}");
}

async fn server() -> TestServer {
    let any = || Some("127.0.0.1:0".into());
    TestServer::start(ServerOptions { listen: any(), pg: any(), flight: any(), ..ServerOptions::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn flights_over_freestones_protocol_read_one_snapshot() {
    let server = server().await;
    let writer = Writer::start(&server).await;
    let client = wire::connect(&server).await;
    let mut flights = vec![];
    for _ in 0..FLIGHTS {
        wire::run(&client, "BEGIN READ ONLY").await;
        let mut counts = [0; 4];
        for (count, sql) in counts.iter_mut().zip(FLIGHT) {
            *count = wire::count(&client, sql).await;
        }
        wire::run(&client, "COMMIT").await;
        flights.push(counts);
    }
    check(&flights, writer.stop().await);
    wire::run(&client, "BEGIN READ ONLY").await;
    let refused = match client.query(APPEND, None).await {
        Ok(mut result) => result.next().await.map(|_| ()),
        Err(error) => Err(error),
    };
    assert_eq!(wire::state(refused.expect_err("read only")), "25006");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn flights_over_postgresqls_protocol_read_one_snapshot() {
    let server = server().await;
    let writer = Writer::start(&server).await;
    let client = postgres::connect(&server).await;
    let mut flights = vec![];
    for _ in 0..FLIGHTS {
        client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY").await.expect("begun");
        let mut counts = [0; 4];
        for (count, sql) in counts.iter_mut().zip(FLIGHT) {
            *count = postgres::text(&client, sql).await.parse().expect("a number");
        }
        client.batch_execute("COMMIT").await.expect("ended");
        flights.push(counts);
    }
    check(&flights, writer.stop().await);
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY").await.expect("begun");
    assert_eq!(postgres::code(&client.batch_execute(APPEND).await.expect_err("read only")), "25006");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn flights_over_flight_sql_read_one_snapshot() {
    let server = server().await;
    let writer = Writer::start(&server).await;
    let mut client = flight::logged_in(&server, "ann").await;
    let mut flights = vec![];
    for _ in 0..FLIGHTS {
        let transaction = client.begin_transaction().await.expect("begun");
        let set = "SET TRANSACTION READ ONLY".to_owned();
        client.execute_update(set, Some(transaction.clone())).await.expect("set");
        let mut counts = [0; 4];
        for (count, sql) in counts.iter_mut().zip(FLIGHT) {
            let info = client.execute(sql.into(), Some(transaction.clone())).await.expect("planned");
            let batches = flight::rows(&mut client, info).await;
            *count = flight::cell(&batches, 0, 0).parse().expect("a number");
        }
        client.end_transaction(transaction, EndTransaction::Commit).await.expect("ended");
        flights.push(counts);
    }
    check(&flights, writer.stop().await);
    let transaction = client.begin_transaction().await.expect("begun");
    let set = "SET TRANSACTION READ ONLY".to_owned();
    client.execute_update(set, Some(transaction.clone())).await.expect("set");
    let refused = client.execute_update(APPEND.into(), Some(transaction)).await.expect_err("read only");
    assert!(refused.to_string().contains("25006"), "{refused}");
    drop(client);
    server.stop().await;
}

async fn embedded(session: &Session, sql: &str) -> Option<i64> {
    let Outcome::Rows { stream, .. } = session.sql(sql).await.expect(sql) else { return None };
    let batches: Vec<_> = stream.try_collect().await.expect(sql);
    Some(batches[0].column(0).as_primitive::<Int64Type>().value(0))
}

#[tokio::test(flavor = "multi_thread")]
async fn flights_of_an_embedded_session_read_one_snapshot() {
    let database = Database::in_memory(Options { threads: 2, ..Options::default() }).expect("a database");
    let (session, writing) = (database.session(), database.session());
    for sql in TABLES {
        embedded(&session, sql).await;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let task = tokio::spawn(async move {
        let mut commits = 0;
        while !stopped.load(Ordering::Relaxed) {
            embedded(&writing, APPEND).await;
            commits += 1;
        }
        commits
    });
    let writer = Writer { stop, task };
    let mut flights = vec![];
    for _ in 0..FLIGHTS {
        embedded(&session, "BEGIN READ ONLY").await;
        let mut counts = [0; 4];
        for (count, sql) in counts.iter_mut().zip(FLIGHT) {
            *count = embedded(&session, sql).await.expect("a count");
        }
        embedded(&session, "COMMIT").await;
        flights.push(counts);
    }
    check(&flights, writer.stop().await);
    embedded(&session, "BEGIN READ ONLY").await;
    assert!(session.sql(APPEND).await.is_err(), "read only");
}
