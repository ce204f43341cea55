//! Hostile clients: strangers that send nothing or too much, clients that disconnect or never read, and many of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow::array::{Int32Array, RecordBatch};
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::sql::{CommandStatementIngest, TableDefinitionOptions};
use freestone_server::{Limits, Role, ServerOptions, Users};
use freestone_wire::client::Client;
use futures::{SinkExt, TryStreamExt};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tonic::transport::Endpoint;

use crate::postgres::{connect_as, text};
use crate::server::{PASSWORD, TestServer};

/// A result larger than any memory.
const HUGE: &str = "SELECT value, repeat('freestone ', 20) || value AS s FROM generate_series(1, 1000000000)";
/// A lock that is held by tests that measure memory or need much of it.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
/// The maximum growth of the process while no client reads these results.
const GROWTH_BYTES_MAX: u64 = 300 << 20;

async fn server(limits: Limits, no_auth: bool) -> TestServer {
    let any = || Some("127.0.0.1:0".to_owned());
    let options = ServerOptions {
        listen: any(),
        pg: any(),
        flight: any(),
        metrics: any(),
        no_auth,
        limits,
        ..Default::default()
    };
    TestServer::start(options).await
}

async fn wire(server: &TestServer) -> Client {
    let address = server.address("freestone");
    let address = format!("freestone://ann:a%20secret@{address}?shared_memory=false&connect_timeout=60");
    Client::connect(&address).await.expect("a connection")
}

/// A client of PostgreSQL's protocol that does not read, after the greeting of a server that admits anybody.
pub async fn raw(server: &TestServer) -> TcpStream {
    let mut stream = TcpStream::connect(server.address("postgres")).await.expect("a connection");
    let body = [&3i32.rotate_left(16).to_be_bytes()[..], b"user\0ann\0\0"].concat();
    stream.write_all(&(body.len() as i32 + 4).to_be_bytes()).await.expect("sent");
    stream.write_all(&body).await.expect("sent");
    let mut said = vec![];
    while !said.ends_with(b"Z\0\0\0\x05I") {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await.expect("a greeting");
        assert!(count > 0, "the server has hung up");
        said.extend_from_slice(&buffer[..count]);
    }
    stream
}

async fn ask(stream: &mut TcpStream, sql: &str) {
    let message = [b"Q", &(sql.len() as i32 + 5).to_be_bytes()[..], sql.as_bytes(), b"\0"].concat();
    stream.write_all(&message).await.expect("sent");
}

/// The resident memory of this process in bytes: from `/proc`, in pages of 4 KiB.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_clients_at_once() {
    let _alone = ALONE.lock().await;
    let server = server(Limits::default(), false).await;
    let (mut ours, mut others) = (vec![], vec![]);
    for _ in 0..10 {
        let some = (0..50).map(|_| async { (wire(&server).await, connect_as(&server, "ann", PASSWORD).await) });
        for (our, other) in futures::future::join_all(some).await {
            ours.push(our);
            others.push(other.expect("a connection"));
        }
    }
    assert_eq!(server.metric("connections").await, 1000.0);
    let error = connect_as(&server, "ann", PASSWORD).await.map(drop).expect_err("one too many");
    assert_eq!(error.code().map(|code| code.code()), Some("53300"), "{error:?}");
    let answers = others.iter().map(|client| async { client.simple_query("SELECT 42").await.expect("rows").len() });
    assert!(futures::future::join_all(answers).await.into_iter().all(|count| count > 1));
    let answers = ours.iter().map(|client| async {
        client.query("SELECT 42 AS a", None).await.expect("begun").collect().await.expect("rows").len()
    });
    assert!(futures::future::join_all(answers).await.into_iter().all(|count| count == 1));
    drop((ours, others));
    server.until("connections", 0.0).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_keep_nobody_out() {
    let limits = Limits { logins: 20, connections: 10, ..Limits::default() };
    let server = server(limits, false).await;
    let mut strangers = vec![];
    for _ in 0..60 {
        for scheme in ["freestone", "postgres", "flight"] {
            let mut stream = TcpStream::connect(server.address(scheme)).await.expect("a connection");
            let said: &[u8] = if scheme == "flight" { b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" } else { b"" };
            stream.write_all(said).await.expect("sent");
            strangers.push(stream);
        }
    }
    let began = Instant::now();
    for _ in 0..3 {
        let client = connect_as(&server, "ann", PASSWORD).await.expect("a connection");
        assert!(client.simple_query("SELECT 42").await.expect("rows").len() > 1);
        let client = wire(&server).await;
        client.query("SELECT 42 AS a", None).await.expect("begun").collect().await.expect("rows");
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    // Connections that were just closed, by the test or by the server, may still be counted. Each of the two kinds has
    // a limit.
    let open = server.metric("connections").await;
    assert!(open <= 30.0, "{open} connections");
    server.until_between("connections", 0.0, 20.0).await;
    drop(strangers);
    server.until("connections", 0.0).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_silent_strangers_keep_nobody_out() {
    let _alone = ALONE.lock().await;
    let server = server(Limits::default(), false).await;
    let mut strangers = vec![];
    for _ in 0..1000 {
        strangers.push(TcpStream::connect(server.address("postgres")).await.expect("a connection"));
    }
    let began = Instant::now();
    for user in ["ann", "rita"] {
        let client = connect_as(&server, user, PASSWORD).await.expect("a connection");
        assert!(client.simple_query("SELECT 42").await.expect("rows").len() > 1);
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    // Those that did not log in have places of their own, and not for long.
    server.until_between("connections", 0.0, 202.0).await;
    server.until_between("connections", 0.0, 2.0).await;
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    drop(strangers);
    server.stop().await;
}

/// The SQLSTATE of the answer to what was sent, up to the next ReadyForQuery; nothing where it is no error.
async fn state(stream: &mut TcpStream) -> Option<String> {
    let (mut said, mut buffer) = (vec![], vec![0; 1 << 16]);
    while !said.ends_with(b"Z\0\0\0\x05I") {
        let count = stream.read(&mut buffer).await.expect("an answer");
        assert!(count > 0, "the server has hung up");
        said.extend_from_slice(&buffer[..count]);
    }
    let at =
        said.windows(7).position(|bytes| bytes.starts_with(b"\0C") && bytes[2..].iter().all(u8::is_ascii_alphanumeric));
    at.map(|at| String::from_utf8_lossy(&said[at + 2..at + 7]).into_owned())
}

/// A message of PostgreSQL's protocol.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as i32 + 4).to_be_bytes(), body].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_clients_send_and_keep_counts_as_memory() {
    let options = ServerOptions { pg: Some("127.0.0.1:0".to_owned()), no_auth: true, ..Default::default() };
    let small = freestone::Options { threads: 2, memory_limit: Some(64 << 20), ..freestone::Options::default() };
    let server = TestServer::start_over(options, small).await;
    let mut stream = raw(&server).await;
    let long = vec![b'x'; 60 << 20];
    // A query, and a statement to prepare: the connection goes on behind each.
    stream.write_all(&message(b'Q', &[b"SELECT length('", &long[..], b"')\0"].concat())).await.expect("sent");
    assert_eq!(state(&mut stream).await.as_deref(), Some("53200"));
    let parse = message(b'P', &[b"\0SELECT length('", &long[..], b"')\0\0\0"].concat());
    stream.write_all(&[parse, message(b'S', b"")].concat()).await.expect("sent");
    assert_eq!(state(&mut stream).await.as_deref(), Some("53200"));
    ask(&mut stream, "SELECT 42").await;
    assert_eq!(state(&mut stream).await, None);
    // Statements that are kept.
    let text = format!("SELECT length('{}')", "x".repeat(60_000));
    let mut failed = None;
    for at in 0..1000 {
        let parse = message(b'P', format!("s{at}\0{text}\0\0\0").as_bytes());
        stream.write_all(&[parse, message(b'S', b"")].concat()).await.expect("sent");
        failed = state(&mut stream).await;
        if failed.is_some() {
            break;
        }
    }
    assert_eq!(failed.as_deref(), Some("53200"));
    ask(&mut stream, "DEALLOCATE ALL").await;
    assert_eq!(state(&mut stream).await, None);
    let parse = message(b'P', format!("s\0{text}\0\0\0").as_bytes());
    stream.write_all(&[parse, message(b'S', b"")].concat()).await.expect("sent");
    assert_eq!(state(&mut stream).await, None);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_of_the_extended_protocol_is_planned_within_its_time() {
    let _alone = ALONE.lock().await;
    let limits = Limits { statement: Some(Duration::from_millis(200)), ..Limits::default() };
    let server = server(limits, true).await;
    let mut sql =
        format!("SELECT {} FROM generate_series(1, 2)", joined(500, ", ", |i| format!("value + {i} AS c{i}")));
    for _ in 0..30 {
        sql = format!("SELECT DISTINCT * FROM ({sql})");
    }
    let mut stream = raw(&server).await;
    let began = Instant::now();
    let parse = message(b'P', format!("\0{sql}\0\0\0").as_bytes());
    stream.write_all(&[parse, message(b'S', b"")].concat()).await.expect("sent");
    assert_eq!(state(&mut stream).await.as_deref(), Some("57014"));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_calls_nothing_over_flight_loses_the_connection() {
    let limits = Limits { startup: Duration::from_millis(500), ..Limits::default() };
    let server = server(limits, false).await;
    let mut stream = TcpStream::connect(server.address("flight")).await.expect("a connection");
    // The preface of HTTP/2 and empty settings: a client that begins a connection and never logs in.
    let said = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
    stream.write_all(&said).await.expect("sent");
    server.until("connections", 1.0).await;
    server.until("connections", 0.0).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_says_nothing_or_little_loses_its_place() {
    let limits = Limits { startup: Duration::from_millis(500), ..Limits::default() };
    let server = server(limits, false).await;
    let began = Instant::now();
    let mut strangers = vec![];
    for scheme in ["freestone", "postgres", "flight"] {
        for said in [&b""[..], b"P", b"\0\0\0\x10\0\x03", b"PRI * HTTP/2.0\r\n", b"\x01\0\0\0\0"] {
            let mut stream = TcpStream::connect(server.address(scheme)).await.expect("a connection");
            stream.write_all(said).await.expect("sent");
            strangers.push(stream);
        }
    }
    server.until("connections", 0.0).await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lengths_that_are_lies_end_the_connection() {
    let server = server(Limits::default(), false).await;
    for (scheme, said) in [
        ("postgres", &b"\x7f\xff\xff\xff\0\x03\0\0"[..]),
        ("postgres", b"\0\0\0\x03"),
        ("freestone", b"\x01\0\0\0\0\0\0\0\xff\xff\xff\xff\0\0\0\0"),
        ("flight", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("flight", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\x04\0\0\0\0\0"),
    ] {
        let mut stream = TcpStream::connect(server.address(scheme)).await.expect("a connection");
        stream.write_all(said).await.expect("sent");
        let mut answer = vec![];
        let ended = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await;
        assert!(ended.is_ok(), "{scheme} {said:?}: the connection is open still");
    }
    assert!(connect_as(&server, "ann", PASSWORD).await.is_ok());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_passwords_cost_more_and_more_and_nobody_else_waits() {
    let server = server(Limits::default(), false).await;
    let began = Instant::now();
    for attempt in 0..3 {
        assert!(connect_as(&server, "ann", &format!("wrong {attempt}")).await.is_err());
    }
    assert!(began.elapsed() >= Duration::from_millis(1750), "{:?}", began.elapsed());
    let wrong = format!("freestone://ann:wrong@{}", server.address("freestone"));
    let began = Instant::now();
    assert!(Client::connect(&wrong).await.is_err());
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
    let began = Instant::now();
    assert!(connect_as(&server, "ann", PASSWORD).await.is_ok() && connect_as(&server, "rita", PASSWORD).await.is_ok());
    // Shorter than the current delay of any of them.
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(server.metric("logins_failed_total").await, 4.0);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn users_are_read_again_when_their_file_changes() {
    let server = server(Limits::default(), false).await;
    assert!(connect_as(&server, "new", "a new one").await.is_err());
    let mut users = Users::load(&server.users).expect("users");
    users.add("new", Role::Read, "a new one").expect("a user");
    users.remove("rita");
    users.save(&server.users).expect("saved");
    let client = connect_as(&server, "new", "a new one").await.expect("a connection");
    assert!(client.batch_execute("CREATE TABLE t (a INT)").await.is_err(), "a reader must not write");
    assert!(connect_as(&server, "rita", PASSWORD).await.is_err());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_of_clients_that_leave_end() {
    let _alone = ALONE.lock().await;
    let server = server(Limits::default(), true).await;
    {
        let _all = busy(&server).await;
        assert_eq!(server.metric("statements_running").await, 3.0);
    }
    server.until("statements_running", 0.0).await;
    server.stop().await;
}

/// An address that leads to another, and passes on so many bytes of its only client before it cuts the connection. Also counts
/// them.
async fn cut(target: &str, bytes: u64) -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address").to_string();
    let (target, passed) = (target.to_owned(), Arc::<AtomicU64>::default());
    let counted = passed.clone();
    tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.expect("a client");
        let mut server = TcpStream::connect(target).await.expect("the server");
        let ((mut from_client, mut to_client), (mut from_server, mut to_server)) = (client.split(), server.split());
        let forth = async {
            let mut buffer = vec![0; 1 << 16];
            loop {
                let left = bytes - counted.load(Ordering::Relaxed);
                let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
                match from_client.read(&mut buffer[..most]).await {
                    Ok(count) if count > 0 && to_server.write_all(&buffer[..count]).await.is_ok() => {
                        counted.fetch_add(count as u64, Ordering::Relaxed);
                    }
                    _ => return,
                }
            }
        };
        let back = async {
            let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
        };
        tokio::select! {
            () = forth => {}
            () = back => {}
        }
    });
    (address, passed)
}

/// How a client sends rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Upload {
    Wire,
    Flight,
    Copy(&'static str),
}

const UPLOADED: usize = 6;

/// Sends the rows of a table over a connection that may break.
async fn upload(how: Upload, address: &str) -> Result<(), Box<dyn std::error::Error>> {
    let part = |from: i32| {
        let ids = Arc::new(Int32Array::from_iter_values(from..from + UPLOADED as i32 / 2)) as _;
        RecordBatch::try_from_iter([("id", ids)]).expect("a batch")
    };
    match how {
        Upload::Wire => {
            let client = Client::connect(&format!("freestone://ann:@{address}?shared_memory=false&threads=1")).await?;
            let mut upload = client.upload("t", &part(0).schema()).await?;
            upload.send(part(0)).await?;
            upload.send(part(3)).await?;
            upload.finish().await?;
        }
        Upload::Flight => {
            let endpoint = Endpoint::new(format!("http://{address}"))?.connect_timeout(Duration::from_secs(20));
            let mut client = FlightSqlServiceClient::new(endpoint.connect().await?);
            let command = CommandStatementIngest {
                table_definition_options: Some(TableDefinitionOptions { if_not_exist: 2, if_exists: 2 }),
                table: "t".into(),
                ..CommandStatementIngest::default()
            };
            client.execute_ingest(command, futures::stream::iter([Ok(part(0)), Ok(part(3))])).await?;
        }
        Upload::Copy(format) => {
            let (host, port) = address.rsplit_once(':').ok_or("no port")?;
            let options = format!("host={host} port={port} user=ann dbname=freestone sslmode=disable");
            let (client, connection) = tokio_postgres::connect(&options, tokio_postgres::NoTls).await?;
            let connection = tokio::spawn(connection);
            let sink = client.copy_in(&format!("COPY t FROM STDIN (FORMAT {format})")).await?;
            futures::pin_mut!(sink);
            if format == "binary" {
                sink.send(bytes::Bytes::from_static(b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0")).await?;
                for id in 0..UPLOADED as i32 {
                    let row = [&[0, 1, 0, 0, 0, 4][..], &id.to_be_bytes()].concat();
                    sink.send(row.into()).await?;
                }
                sink.send(bytes::Bytes::from_static(b"\xff\xff")).await?;
            } else {
                sink.send(bytes::Bytes::from_static(b"0\n1\n2\n")).await?;
                sink.send(bytes::Bytes::from_static(b"3\n4\n5\n")).await?;
            }
            sink.finish().await?;
            connection.abort();
        }
    }
    Ok(())
}

/// Rows whose client leaves before it has sent all of them, at any byte: nothing of them is kept, in every protocol.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_clients_that_leave_before_their_end_are_not_kept() {
    let server = server(Limits::default(), true).await;
    let client = connect_as(&server, "ann", "").await.expect("a connection");
    for (how, scheme) in [
        (Upload::Wire, "freestone"),
        (Upload::Flight, "flight"),
        (Upload::Copy("text"), "postgres"),
        (Upload::Copy("csv"), "postgres"),
        (Upload::Copy("binary"), "postgres"),
    ] {
        client.batch_execute("CREATE OR REPLACE TABLE t (id INT)").await.expect("made");
        let (address, passed) = cut(server.address(scheme), u64::MAX).await;
        upload(how, &address).await.unwrap_or_else(|error| panic!("{how:?}: {error}"));
        let total = passed.load(Ordering::Relaxed);
        assert_eq!(text(&client, "SELECT count(*) FROM t").await, UPLOADED.to_string(), "{how:?}");
        client.batch_execute("DELETE FROM t").await.expect("removed");
        // Over HTTP/2, many bytes are headers.
        let step = if how == Upload::Flight { 7 } else { 1 };
        for bytes in (0..total).step_by(step) {
            let (address, _) = cut(server.address(scheme), bytes).await;
            let sent = tokio::time::timeout(Duration::from_secs(20), upload(how, &address)).await;
            // The last bytes may come after the end of the rows.
            assert!(!matches!(sent, Ok(Ok(()))) || bytes + 40 > total, "{how:?}: all was sent with {bytes} of {total}");
        }
        server.until("connections", 1.0).await;
        let kept: u64 = text(&client, "SELECT count(*) FROM t").await.parse().expect("a number");
        assert!(kept.is_multiple_of(UPLOADED as u64) && kept <= 40 * UPLOADED as u64, "{how:?}: {kept} rows are kept");
    }
    server.stop().await;
}

/// A client of each protocol in the middle of a huge result.
async fn busy(server: &TestServer) -> Box<dyn std::any::Any> {
    let address = format!("freestone://ann:@{}?shared_memory=false", server.address("freestone"));
    let client = Client::connect(&address).await.expect("a connection");
    let mut ours = client.query(HUGE, None).await.expect("begun");
    ours.next().await.expect("rows");
    let mut flight = flight(server).await;
    let info = flight.execute(HUGE.into(), None).await.expect("planned");
    let mut stream = flight.do_get(info.endpoint[0].ticket.clone().expect("a ticket")).await.expect("a stream");
    stream.try_next().await.expect("rows");
    let mut raw = raw(server).await;
    ask(&mut raw, HUGE).await;
    raw.read_exact(&mut [0; 1000]).await.expect("rows");
    Box::new((ours, client, stream, flight, raw))
}

async fn flight(server: &TestServer) -> FlightSqlServiceClient<tonic::transport::Channel> {
    let endpoint = Endpoint::new(format!("http://{}", server.address("flight"))).expect("an endpoint");
    FlightSqlServiceClient::new(endpoint.connect().await.expect("a connection"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_does_not_read_costs_little() {
    let _alone = ALONE.lock().await;
    let server = server(Limits::default(), true).await;
    let all = busy(&server).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = resident();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let growth = resident().saturating_sub(before);
    assert_eq!(server.metric("statements_running").await, 3.0);
    assert!(growth < GROWTH_BYTES_MAX, "the process grew by {growth} bytes");
    drop(all);
    server.until("statements_running", 0.0).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_is_given_up() {
    let _alone = ALONE.lock().await;
    let limits = Limits { write: Some(Duration::from_millis(500)), ..Limits::default() };
    let server = server(limits, true).await;
    let mut stream = raw(&server).await;
    ask(&mut stream, HUGE).await;
    server.until("statements_running", 0.0).await;
    server.until("connections", 0.0).await;
    server.stop().await;
}

/// The statement timeout of the hostile statements.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Views on `levels` levels; each reads the one below twice. `first` is the lowest.
fn chain(levels: usize, first: &str, step: impl Fn(&str) -> String) -> String {
    let steps = (1..=levels).map(|at| format!(", c{at} AS ({})", step(&format!("c{}", at - 1))));
    format!("WITH c0 AS ({first}){} SELECT * FROM c{levels}", steps.collect::<String>())
}

fn joined(count: usize, separator: &str, term: impl Fn(usize) -> String) -> String {
    (0..count).map(term).collect::<Vec<_>>().join(separator)
}

/// One statement of each kind: deep, wide, long, exponential, endless, or with values that are too large.
fn hostile_statements(chance: &mut StdRng) -> Vec<String> {
    let mut n = |low: usize, high: usize| chance.random_range(low..=high);
    let numbers = "generate_series(1, 1000)";
    let twice = |c: &str| format!("SELECT x.v FROM {c} x JOIN {c} y ON x.v = y.v");
    vec![
        format!("SELECT * FROM {numbers} WHERE {}", joined(n(100, 20_000), " AND ", |i| format!("value <> {i}"))),
        format!(
            "SELECT * FROM {numbers} WHERE {}",
            joined(n(100, 9_000), " OR ", |i| format!("value = {i} AND value < 9"))
        ),
        format!("SELECT {} FROM {numbers}", joined(n(10, 5_000), " + ", |_| "value".into())),
        format!(
            "SELECT CASE {} END FROM {numbers}",
            joined(n(10, 5_000), " ", |i| format!("WHEN value = {i} THEN {i}"))
        ),
        format!(
            "SELECT count(*) FROM {numbers} WHERE value + 1 IN ({})",
            joined(n(1_000, 200_000), ",", |i| i.to_string())
        ),
        format!("SELECT count(*) FROM (VALUES {})", joined(n(1_000, 50_000), ",", |i| format!("({i})"))),
        format!("SELECT {0}1{1}", "(".repeat(n(10, 3_000)), ")".repeat(n(10, 3_000))),
        format!("SELECT {} true", "NOT ".repeat(n(10, 5_000))),
        joined(n(2, 2_000), " UNION ", |i| format!("SELECT {i} AS a")),
        format!("SELECT {} FROM {numbers}", joined(n(100, 10_000), ", ", |i| format!("value + {i} AS c{i}"))),
        chain(n(2, 40), "SELECT value AS v FROM generate_series(1, 100)", twice),
        chain(n(2, 60), "SELECT 1 AS v", |c| format!("SELECT x.v + y.v AS v FROM {c} x, {c} y")),
        chain(n(2, 40), "SELECT 1 AS v", |c| format!("SELECT v FROM {c} UNION ALL SELECT v FROM {c}")),
        chain(n(2, 20), "SELECT value AS v FROM generate_series(1, 100)", twice)
            .replace(" AS (", " AS NOT MATERIALIZED ("),
        chain(n(5, 90), "SELECT 1 AS v, 2 AS w", |c| format!("SELECT v + w AS v, v - w AS w FROM {c}"))
            + " WHERE v > 0",
        format!(
            "SELECT count(*) FROM (SELECT {}) GROUP BY CUBE ({})",
            joined(20, ", ", |i| format!("{i} AS c{i}")),
            joined(n(2, 20), ", ", |i| format!("c{i}"))
        ),
        format!("SELECT count(*) FROM {}", joined(n(2, 12), ", ", |i| format!("{numbers} AS s{i}"))),
        "SELECT x.value, y.value FROM generate_series(1, 100000) AS x, generate_series(1, 100000) AS y".into(),
        format!("SELECT length(repeat('x', 1{}))", "0".repeat(n(3, 18))),
        format!("SELECT length(lpad('x', 1{}, 'y'))", "0".repeat(n(3, 9))),
        format!("SELECT repeat('x', 1{}) FROM {numbers}", "0".repeat(n(3, 8))),
        format!("SELECT range(1, 1{})", "0".repeat(n(3, 18))),
        format!("SELECT replace(repeat('a', 1000000), 'a', repeat('b', {}))", n(1, 100_000)),
        format!("SELECT count(*) FROM generate_series(1, 1{})", "0".repeat(n(6, 18))),
        "WITH RECURSIVE r AS (SELECT 1 AS v UNION ALL SELECT v + 1 FROM r) SELECT count(*) FROM r".into(),
        "WITH RECURSIVE r AS (SELECT 1 AS v UNION ALL SELECT v + 1 FROM r) SELECT * FROM r".into(),
        format!("SELECT regexp_like('a', '{0}a{1}')", "(".repeat(n(1, 6)), "{1,100}){1,100}".repeat(n(1, 6))),
        format!("SELECT repeat('a', 100000) LIKE '{}b'", "%a".repeat(n(10, 3_000))),
        format!("SELECT length('{}')", "x".repeat(n(10_000, 1_000_000))),
        format!("SELECT 1 AS \"{}\"", "x".repeat(n(1_000, 100_000))),
        format!("SELECT {}", "9".repeat(n(10, 50_000))),
        joined(n(10, 500), "; ", |i| format!("SELECT {i}")),
        "SELECT * FROM '/etc/passwd'".into(),
        "DROP TABLE t".into(),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn hostile_statements_end_in_time_and_hold_nobody_up() {
    let _alone = ALONE.lock().await;
    let limits = Limits { statement: Some(TIMEOUT), ..Limits::default() };
    let server = server(limits, false).await;
    let seed = 1;
    let statements = hostile_statements(&mut StdRng::seed_from_u64(seed));
    let attack = |share: usize| {
        let (server, statements) = (&server, &statements);
        async move {
            for sql in statements.iter().skip(share).step_by(3) {
                let client = connect_as(server, "rita", PASSWORD).await.expect("a connection");
                let begun = Instant::now();
                let answered = async { client.simple_query_raw(sql).await?.try_for_each(|_| async { Ok(()) }).await };
                let answer = tokio::time::timeout(Duration::from_secs(60), answered).await;
                let start = &sql[..sql.len().min(60)];
                let answer = answer.unwrap_or_else(|_| panic!("no answer to {start} (seed {seed})"));
                if let Err(error) = answer {
                    let code = error.code().unwrap_or_else(|| panic!("{start} (seed {seed}): {error:?}"));
                    assert_ne!(code.code(), "XX000", "{start} (seed {seed}): {error:?}");
                }
                // The limit is much higher than necessary, because the machine may be busy.
                let took = begun.elapsed();
                assert!(took < TIMEOUT + Duration::from_secs(20), "{start} (seed {seed}) took {took:?}");
            }
        }
    };
    let others = async {
        let client = connect_as(&server, "ann", PASSWORD).await.expect("a connection");
        let mut slowest = Duration::ZERO;
        loop {
            let begun = Instant::now();
            client.simple_query("SELECT 42").await.expect("an answer");
            slowest = slowest.max(begun.elapsed());
            assert!(slowest < Duration::from_secs(20), "another client waited for {slowest:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        _ = futures::future::join3(attack(0), attack(1), attack(2)) => {}
        () = others => {}
    }
    server.until("statements_running", 0.0).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_loses_its_statement_in_time() {
    let _alone = ALONE.lock().await;
    let limits = Limits { statement: Some(Duration::from_millis(500)), ..Limits::default() };
    let server = server(limits, true).await;
    let mut stream = raw(&server).await;
    ask(&mut stream, HUGE).await;
    server.until("statements_running", 0.0).await;
    // The data that was sent before the error can still be read.
    let (mut said, mut buffer) = (vec![], vec![0; 1 << 20]);
    while !said.ends_with(b"Z\0\0\0\x05I") {
        let count = stream.read(&mut buffer).await.expect("rows");
        assert!(count > 0, "the server has hung up");
        said = [&said[said.len().saturating_sub(4096)..], &buffer[..count]].concat();
    }
    assert!(said.windows(5).any(|bytes| bytes == b"57014"), "no error");
    server.stop().await;
}

/// A message of PostgreSQL's protocol.
fn put_together(kind: u8, body: &[&[u8]]) -> Vec<u8> {
    let body = body.concat();
    [&[kind][..], &(body.len() as i32 + 4).to_be_bytes(), &body].concat()
}

/// The SQLSTATEs of the errors up to the next ReadyForQuery.
async fn errors(stream: &mut TcpStream) -> Vec<String> {
    let mut states = vec![];
    loop {
        let kind = stream.read_u8().await.expect("a message");
        let length = stream.read_i32().await.expect("its length") as usize - 4;
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.expect("its body");
        match kind {
            b'E' => {
                let code = body.split(|byte| *byte == 0).find(|field| field.first() == Some(&b'C')).expect("a code");
                states.push(String::from_utf8_lossy(&code[1..]).into_owned());
            }
            b'Z' => return states,
            _ => {}
        }
    }
}

/// Counts and values that do not fit are errors of their statement, and the connection goes on.
#[tokio::test(flavor = "multi_thread")]
async fn messages_that_do_not_fit_their_statement_are_refused() {
    let server = server(Limits::default(), true).await;
    let mut stream = raw(&server).await;
    let parse = |sql: &str| put_together(b'P', &[b"\0", sql.as_bytes(), b"\0\0\0"]);
    let bind = |portal: &str, formats: &[i16], values: &[&[u8]], results: &[i16]| {
        let codes = |codes: &[i16]| {
            let count = (codes.len() as i16).to_be_bytes().to_vec();
            codes.iter().fold(count, |all, code| [all, code.to_be_bytes().to_vec()].concat())
        };
        let count = (values.len() as i16).to_be_bytes().to_vec();
        let given =
            values.iter().fold(count, |all, value| [&all[..], &(value.len() as i32).to_be_bytes(), value].concat());
        put_together(b'B', &[portal.as_bytes(), b"\0\0", &codes(formats), &given, &codes(results)])
    };
    let (execute, sync) = (put_together(b'E', &[b"\0\0\0\0\0"]), put_together(b'S', &[]));
    let one = parse("SELECT $1::VARCHAR");
    let three = parse("SELECT 1, 2, 3");
    for (messages, expected) in [
        (vec![one.clone(), bind("", &[0, 0], &[b"1"], &[]), execute.clone()], vec!["08P01"]),
        (vec![three.clone(), bind("", &[], &[], &[1, 0]), execute.clone()], vec!["08P01"]),
        (vec![three.clone(), bind("", &[], &[], &[1, 0, 1]), execute.clone()], vec![]),
        (vec![three.clone(), bind("p", &[], &[], &[]), bind("p", &[], &[], &[])], vec!["42P03"]),
        (vec![three, bind("", &[], &[], &[]), bind("", &[], &[], &[]), execute.clone()], vec![]),
        (vec![one.clone(), bind("", &[], &[b"a\0b"], &[]), execute.clone()], vec!["22021"]),
        (vec![one, bind("", &[0], &[b"ab"], &[0]), execute], vec![]),
    ] {
        stream.write_all(&messages.concat()).await.expect("sent");
        stream.write_all(&sync).await.expect("sent");
        assert_eq!(errors(&mut stream).await, expected);
    }
    server.stop().await;
}

/// A parameter of a type that is not here is refused: what its bytes mean could only be guessed.
#[tokio::test(flavor = "multi_thread")]
async fn parameters_of_unknown_types_are_refused() {
    let server = server(Limits::default(), true).await;
    let client = connect_as(&server, "ann", "").await.expect("a connection");
    client.batch_execute("CREATE TYPE mood AS ENUM ('sad', 'glad')").await.expect("made");
    let of_mood = |column: &str| format!("SELECT {column}::BIGINT FROM pg_type WHERE typname = 'mood'");
    let (mood, moods) = (text(&client, &of_mood("oid")).await, text(&client, &of_mood("typarray")).await);
    let (mood, moods): (u32, u32) = (mood.parse().expect("an OID"), moods.parse().expect("an OID"));
    assert_eq!(moods, mood + 1);
    let mut stream = raw(&server).await;
    for (oid, is_known) in [
        (0, true),
        (705, true),
        (25, true),
        (23, true),
        (1007, true),
        (mood, true),
        (moods, true),
        (600, false),
        (3904, false),
        (999_999, false),
        (mood + 2, false),
        (u32::MAX, false),
    ] {
        let parse = put_together(b'P', &[b"\0SELECT $1\0\0\x01", &oid.to_be_bytes()]);
        stream.write_all(&[parse, put_together(b'S', &[])].concat()).await.expect("sent");
        let expected: &[&str] = if is_known { &[] } else { &["42704"] };
        assert_eq!(errors(&mut stream).await, expected, "OID {oid}");
    }
    server.stop().await;
}

/// A client that asks for a newer minor version is told of 3.0 and goes on.
#[tokio::test(flavor = "multi_thread")]
async fn newer_minor_versions_are_negotiated() {
    let server = server(Limits::default(), true).await;
    let mut stream = TcpStream::connect(server.address("postgres")).await.expect("a connection");
    let body = [&(3i32 << 16 | 9999).to_be_bytes()[..], b"user\0ann\0_pq_.grease\0\0\0"].concat();
    stream.write_all(&(body.len() as i32 + 4).to_be_bytes()).await.expect("sent");
    stream.write_all(&body).await.expect("sent");
    assert_eq!(stream.read_u8().await.expect("a message"), b'v');
    let length = stream.read_i32().await.expect("its length") as usize - 4;
    let mut said = vec![0; length];
    stream.read_exact(&mut said).await.expect("its body");
    assert_eq!(said, [&(3i32 << 16).to_be_bytes()[..], &1i32.to_be_bytes(), b"_pq_.grease\0"].concat());
    assert_eq!(errors(&mut stream).await, Vec::<String>::new());
    server.stop().await;
}
