//! PostgreSQL's protocol, with the client library tokio-postgres.

use std::time::{Duration, SystemTime};

use crate::server::{PASSWORD, TestServer};
use bytes::Bytes;
use freestone_server::ServerOptions;
use futures::{SinkExt, TryStreamExt};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, Error, NoTls, SimpleQueryMessage};

pub async fn server() -> TestServer {
    TestServer::start(ServerOptions { pg: Some("127.0.0.1:0".into()), ..ServerOptions::default() }).await
}

pub async fn connect_as(server: &TestServer, user: &str, password: &str) -> Result<Client, Error> {
    let (host, port) = server.address("postgres").rsplit_once(':').expect("host and port");
    let mut config = Config::new();
    config.host(host).port(port.parse().expect("a port")).user(user).password(password).dbname("freestone");
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

pub async fn connect(server: &TestServer) -> Client {
    connect_as(server, "ann", PASSWORD).await.expect("a connection")
}

/// The rows of a simple query, as text.
async fn texts(client: &Client, sql: &str) -> Vec<Vec<Option<String>>> {
    let messages = client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect()),
        _ => None,
    };
    messages.into_iter().filter_map(row).collect()
}

pub async fn text(client: &Client, sql: &str) -> String {
    texts(client, sql).await[0][0].clone().unwrap_or("NULL".into())
}

pub fn code(error: &Error) -> &str {
    error.code().map_or("none", |code| code.code())
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_right_password_lets_in() {
    let server = server().await;
    for (user, password) in [("ann", "wrong"), ("nobody", PASSWORD), ("ann", "")] {
        let error = connect_as(&server, user, password).await.expect_err("refused");
        assert!(user == "ann" && password.is_empty() || code(&error) == "28P01", "{user}: {error:?}");
    }
    assert_eq!(text(&connect(&server).await, "SELECT 42").await, "42");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_type_has_its_text() {
    let server = server().await;
    let client = connect(&server).await;
    for (sql, expected) in [
        ("true", "t"),
        ("CAST(-128 AS TINYINT)", "-128"),
        ("CAST(65535 AS SMALLINT UNSIGNED)", "65535"),
        ("CAST(4294967295 AS INT UNSIGNED)", "4294967295"),
        ("CAST('18446744073709551615' AS BIGINT UNSIGNED)", "18446744073709551615"),
        ("CAST('-9223372036854775808' AS BIGINT)", "-9223372036854775808"),
        ("CAST(1.5 AS REAL)", "1.5"),
        ("CAST('NaN' AS DOUBLE)", "NaN"),
        ("CAST('-inf' AS DOUBLE)", "-Infinity"),
        ("CAST(1e300 AS DOUBLE)", "1e+300"),
        ("CAST('-12.30' AS DECIMAL(38, 2))", "-12.30"),
        ("CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0))", "99999999999999999999999999999999999999"),
        ("DATE '0001-01-01'", "0001-01-01"),
        ("DATE '9999-12-31'", "9999-12-31"),
        ("TIME '23:59:59.999999'", "23:59:59.999999"),
        ("TIMESTAMP '2024-02-29 12:00:00.5'", "2024-02-29 12:00:00.5"),
        ("CAST(TIMESTAMP '2024-02-29 12:00:00' AS TIMESTAMP WITH TIME ZONE)", "2024-02-29 12:00:00+00"),
        ("INTERVAL '1 month 2 days 3 hours'", "1 mon 2 days 03:00:00"),
        ("'a''b'", "a'b"),
        ("''", ""),
        ("X'00ff'", "\\x00ff"),
        ("NULL", "NULL"),
    ] {
        assert_eq!(text(&client, &format!("SELECT {sql} AS v")).await, expected, "{sql}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn values_survive_binary_parameters_and_results() {
    let server = server().await;
    let client = connect(&server).await;
    macro_rules! check {
        ($kind:expr, $rust:ty, $($value:expr),*) => {$(
            let value: $rust = $value;
            let statement = client.prepare_typed("SELECT $1 AS v", &[$kind]).await.expect("prepared");
            let row = client.query_one(&statement, &[&Some(value.clone())]).await.expect("a row");
            assert_eq!(row.get::<_, Option<$rust>>(0), Some(value));
            let row = client.query_one(&statement, &[&None::<$rust>]).await.expect("a row");
            assert_eq!(row.get::<_, Option<$rust>>(0), None);
        )*};
    }
    check!(Type::BOOL, bool, true, false);
    check!(Type::INT2, i16, i16::MIN, i16::MAX);
    check!(Type::INT4, i32, i32::MIN, i32::MAX);
    check!(Type::INT8, i64, i64::MIN, i64::MAX);
    check!(Type::FLOAT4, f32, f32::MAX, f32::INFINITY, -0.0);
    check!(Type::FLOAT8, f64, f64::MIN_POSITIVE, f64::NEG_INFINITY);
    check!(Type::TEXT, String, String::new(), "ä 'quoted' \\".into(), "x".repeat(3_000_000));
    check!(Type::BYTEA, Vec<u8>, vec![], vec![0, 255, 92], vec![7; 1_000_000]);
    let time = SystemTime::UNIX_EPOCH + Duration::from_micros(1_709_208_000_500_001);
    check!(Type::TIMESTAMPTZ, SystemTime, time, SystemTime::UNIX_EPOCH - Duration::from_secs(86_400 * 365 * 200));
    check!(Type::TIMESTAMP, SystemTime, time);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_are_described_with_the_types_of_their_columns() {
    let server = server().await;
    let client = connect(&server).await;
    client
        .batch_execute("CREATE TABLE t (a INT NOT NULL, b VARCHAR, c DECIMAL(10, 2), d DATE, PRIMARY KEY (a))")
        .await
        .expect("made");
    let insert = client.prepare("INSERT INTO t (a, b) VALUES ($1, $2)").await.expect("prepared");
    assert_eq!(insert.params(), [Type::INT4, Type::VARCHAR]);
    for at in 0..100i32 {
        assert_eq!(client.execute(&insert, &[&at, &format!("row {at}")]).await.expect("inserted"), 1);
    }
    let select = client.prepare("SELECT a, b, c, d FROM t WHERE a < $1 ORDER BY a").await.expect("prepared");
    assert_eq!(select.params(), [Type::INT4]);
    let types: Vec<&Type> = select.columns().iter().map(|column| column.type_()).collect();
    assert_eq!(types, [&Type::INT4, &Type::VARCHAR, &Type::NUMERIC, &Type::DATE]);
    let rows = client.query(&select, &[&3i32]).await.expect("rows");
    assert_eq!(rows.iter().map(|row| row.get::<_, &str>(1)).collect::<Vec<_>>(), ["row 0", "row 1", "row 2"]);
    assert!(client.query(&select, &[&-1i32]).await.expect("no rows").is_empty());
    assert_eq!(client.execute("UPDATE t SET b = $1 WHERE a >= $2", &[&"new", &90i32]).await.expect("updated"), 10);
    assert_eq!(client.execute("DELETE FROM t WHERE a = $1", &[&0i32]).await.expect("deleted"), 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn returning_gives_rows() {
    let server = server().await;
    let client = connect(&server).await;
    client.batch_execute("CREATE TABLE t (a INT, b VARCHAR)").await.expect("made");
    let row = client.query_one("INSERT INTO t VALUES ($1, 'x') RETURNING a + 1, b", &[&1i32]).await.expect("a row");
    assert_eq!((row.get::<_, i32>(0), row.get::<_, String>(1)), (2, "x".into()));
    assert_eq!(texts(&client, "UPDATE t SET a = 5 RETURNING a").await, [[Some("5".to_owned())]]);
    assert_eq!(client.query("DELETE FROM t WHERE a = 7 RETURNING *", &[]).await.expect("no row").len(), 0);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn portals_give_rows_piece_by_piece() {
    let server = server().await;
    let mut client = connect(&server).await;
    let transaction = client.transaction().await.expect("begun");
    let portal = transaction.bind("SELECT * FROM generate_series(1, 10)", &[]).await.expect("bound");
    let mut counts = vec![];
    loop {
        let rows = transaction.query_portal(&portal, 4).await.expect("rows");
        counts.push(rows.len());
        if rows.is_empty() || rows.len() < 4 {
            break;
        }
    }
    assert_eq!(counts, [4, 4, 2]);
    transaction.commit().await.expect("committed");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_have_sqlstates_and_connections_go_on() {
    let server = server().await;
    let client = connect(&server).await;
    client.batch_execute("CREATE TABLE t (a INT NOT NULL)").await.expect("made");
    for (sql, expected) in [
        ("SELEC 1", "42601"),
        ("SELECT * FROM missing", "42P01"),
        ("SELECT missing FROM t", "42703"),
        ("SELECT missing(1)", "42883"),
        ("CREATE TABLE t (a INT)", "42P07"),
        ("INSERT INTO t VALUES (NULL)", "23502"),
        ("SELECT 1 / 0", "22012"),
        ("SAVEPOINT a", "25P01"),
        ("FETCH ALL FROM nowhere", "34000"),
        ("DECLARE c CURSOR FOR SELECT 1", "25P01"),
        ("SET client_encoding = 'EUC_JP'", "0A000"),
        ("SET no_such_setting_at_all = 1", "42704"),
    ] {
        let error = client.batch_execute(sql).await.expect_err(sql);
        assert_eq!(code(&error), expected, "{sql}: {error:?}");
        let error = client.query(sql, &[]).await.expect_err(sql);
        assert_eq!(code(&error), expected, "{sql}, prepared: {error:?}");
    }
    let error = client.batch_execute("SELECT 1;\nSELECT x FROM\n )").await.expect_err("a syntax error");
    assert!(error.as_db_error().and_then(|error| error.position()).is_some(), "{error:?}");
    assert_eq!(text(&client, "SELECT 1").await, "1");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_are_undone_or_stored_as_a_whole() {
    let server = server().await;
    let (client, other) = (connect(&server).await, connect(&server).await);
    client.batch_execute("BEGIN; CREATE TABLE t (a INT); INSERT INTO t VALUES (1)").await.expect("done");
    assert_eq!(text(&client, "SELECT count(*) FROM t").await, "1");
    assert_eq!(code(&other.batch_execute("SELECT * FROM t").await.expect_err("not committed")), "42P01");
    client.batch_execute("SELECT * FROM missing").await.expect_err("no table");
    let error = client.batch_execute("SELECT 1").await.expect_err("a failed transaction");
    assert_eq!(code(&error), "25P02");
    // As in PostgreSQL, COMMIT of a failed transaction is a ROLLBACK.
    client.batch_execute("COMMIT").await.expect("ended");
    assert_eq!(code(&client.batch_execute("SELECT * FROM t").await.expect_err("undone")), "42P01");
    client.batch_execute("BEGIN; CREATE TABLE t (a INT); INSERT INTO t VALUES (1); COMMIT").await.expect("done");
    assert_eq!(text(&other, "SELECT count(*) FROM t").await, "1");
    client.batch_execute("BEGIN; DELETE FROM t; ROLLBACK").await.expect("ended");
    client.batch_execute("COMMIT; ROLLBACK; BEGIN; BEGIN; COMMIT").await.expect("warnings only");
    assert_eq!(text(&other, "SELECT count(*) FROM t").await, "1");
    // Rows of a client that is gone without COMMIT.
    let gone = connect(&server).await;
    gone.batch_execute("BEGIN; UPDATE t SET a = 5").await.expect("done");
    drop(gone);
    other.batch_execute("UPDATE t SET a = a + 1").await.expect("the row is free again");
    assert_eq!(text(&client, "SELECT a FROM t").await, "2");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn savepoints_undo_what_came_after_them() {
    let server = server().await;
    let client = connect(&server).await;
    client
        .batch_execute("BEGIN; SAVEPOINT a; CREATE TABLE t (a INT); RELEASE SAVEPOINT a; SAVEPOINT b")
        .await
        .expect("done");
    client.batch_execute("SELECT * FROM missing").await.expect_err("no table");
    assert_eq!(code(&client.batch_execute("SELECT 1").await.expect_err("a failed transaction")), "25P02");
    client.batch_execute("ROLLBACK TO SAVEPOINT b").await.expect("back");
    client.batch_execute("INSERT INTO t VALUES (1)").await.expect("inserted");
    client.batch_execute("ROLLBACK TO b").await.expect("back again");
    client.batch_execute("INSERT INTO t VALUES (2); COMMIT").await.expect("stored");
    assert_eq!(code(&client.batch_execute("ROLLBACK TO nowhere").await.expect_err("no transaction")), "25P01");
    assert_eq!(texts(&client, "SELECT a FROM t").await, [[Some("2".to_owned())]]);
    client.batch_execute("BEGIN").await.expect("begun");
    assert_eq!(code(&client.batch_execute("ROLLBACK TO nowhere").await.expect_err("no savepoint")), "3B001");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conflicts_levels_and_limits_are_as_said() {
    let server = server().await;
    let (client, other) = (connect(&server).await, connect(&server).await);
    client.batch_execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)").await.expect("made");
    assert_eq!(text(&client, "SHOW transaction_isolation").await, "read committed");
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.expect("begun");
    assert_eq!(text(&client, "SHOW transaction_isolation").await, "repeatable read");
    assert_eq!(text(&client, "SELECT a FROM t").await, "1");
    other.batch_execute("UPDATE t SET a = 2").await.expect("changed");
    assert_eq!(text(&client, "SELECT a FROM t").await, "1");
    assert_eq!(code(&client.batch_execute("UPDATE t SET a = 3").await.expect_err("changed")), "40001");
    client.batch_execute("ROLLBACK; BEGIN").await.expect("begun");
    assert_eq!(text(&client, "SHOW transaction_isolation").await, "read committed");
    assert_eq!(text(&client, "SELECT a FROM t").await, "2");
    other.batch_execute("UPDATE t SET a = 4").await.expect("changed");
    client.batch_execute("UPDATE t SET a = a + 1").await.expect("changed");
    other.batch_execute("SET lock_timeout = '20ms'").await.expect("set");
    assert_eq!(code(&other.batch_execute("UPDATE t SET a = 0").await.expect_err("locked")), "55P03");
    client.batch_execute("COMMIT").await.expect("stored");
    assert_eq!(text(&other, "SELECT a FROM t").await, "5");
    for refused in ["BEGIN ISOLATION LEVEL SERIALIZABLE", "SET default_transaction_isolation = 'serializable'"] {
        assert_eq!(code(&client.batch_execute(refused).await.expect_err(refused)), "0A000", "{refused}");
    }
    client.batch_execute("SET default_transaction_isolation = 'repeatable read'").await.expect("set");
    client.batch_execute("BEGIN").await.expect("begun");
    assert_eq!(text(&client, "SHOW transaction_isolation").await, "repeatable read");
    assert_eq!(code(&client.batch_execute("VACUUM").await.expect_err("inside")), "25001");
    client.batch_execute("ROLLBACK; SET idle_in_transaction_session_timeout = '50ms'").await.expect("set");
    client.batch_execute("BEGIN; UPDATE t SET a = 100").await.expect("changed");
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    client.batch_execute("SELECT 1").await.expect_err("its connection is closed");
    assert_eq!(text(&other, "SELECT a FROM t").await, "5");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn times_are_shown_in_the_zone_of_the_connection() {
    let server = server().await;
    let client = connect(&server).await;
    let noon = "SELECT TIMESTAMPTZ '2024-01-01 12:00:00+00'::text";
    for (statement, shown, expected) in [
        ("SET TIME ZONE 'Europe/Berlin'", "Europe/Berlin", "2024-01-01 13:00:00+01"),
        ("SET TIME ZONE = '+07:00'", "+07:00", "2024-01-01 05:00:00-07"),
        ("SET TIME ZONE -3.5", "<-03:30>+03:30", "2024-01-01 08:30:00-03:30"),
        ("SET TIME ZONE 'UTC-2'", "UTC-2", "2024-01-01 14:00:00+02"),
        ("SET timezone TO 'asia/tokyo'", "Asia/Tokyo", "2024-01-01 21:00:00+09"),
        ("SET time_zone = '+02:00'", "<+02>-02", "2024-01-01 14:00:00+02"),
        ("RESET TimeZone", "UTC", "2024-01-01 12:00:00+00"),
    ] {
        client.batch_execute(statement).await.expect(statement);
        assert_eq!(text(&client, "SHOW TimeZone").await, shown, "{statement}");
        assert_eq!(text(&client, noon).await, expected, "{statement}");
    }
    assert_eq!(code(&client.batch_execute("SET TIME ZONE 'Mars/Olympus'").await.expect_err("no zone")), "22023");
    assert_eq!(text(&client, "SHOW TimeZone").await, "UTC");
    client.batch_execute("BEGIN; SET LOCAL TIME ZONE 'Europe/Berlin'").await.expect("set");
    assert_eq!(text(&client, noon).await, "2024-01-01 13:00:00+01");
    client.batch_execute("COMMIT").await.expect("ended");
    assert_eq!(text(&client, noon).await, "2024-01-01 12:00:00+00");
    client.batch_execute("SET TIME ZONE 'Europe/Berlin'").await.expect("set");
    client.batch_execute("DISCARD ALL").await.expect("discarded");
    assert_eq!(text(&client, noon).await, "2024-01-01 12:00:00+00");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cursors_give_rows_piece_by_piece() {
    let server = server().await;
    let client = connect(&server).await;
    client
        .batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT value FROM generate_series(1, 10)")
        .await
        .expect("declared");
    let fetched = |sql: &'static str| {
        let client = &client;
        async move { texts(client, sql).await.into_iter().flatten().flatten().collect::<Vec<_>>().join(" ") }
    };
    assert_eq!(fetched("FETCH 3 FROM c").await, "1 2 3");
    assert_eq!(fetched("FETCH c").await, "4");
    // In binary format, from the middle of a batch.
    let rows = client.query("FETCH FORWARD 2 FROM c", &[]).await.expect("rows");
    assert_eq!(rows.iter().map(|row| row.get::<_, i64>(0)).collect::<Vec<_>>(), [5, 6]);
    client.batch_execute("MOVE 2 FROM c").await.expect("moved");
    assert_eq!(fetched("FETCH ALL FROM c").await, "9 10");
    assert_eq!(fetched("FETCH ALL FROM c").await, "");
    client
        .execute("DECLARE d NO SCROLL CURSOR FOR SELECT value FROM generate_series(1, 10) WHERE value > $1", &[&7i64])
        .await
        .expect("declared");
    assert_eq!(fetched("FETCH ALL FROM d").await, "8 9 10");
    client.batch_execute("DECLARE h CURSOR WITH HOLD FOR SELECT 1 AS a; CLOSE d; COMMIT").await.expect("ended");
    assert_eq!(fetched("FETCH ALL FROM h").await, "1");
    for sql in ["FETCH ALL FROM c", "CLOSE d"] {
        assert_eq!(code(&client.batch_execute(sql).await.expect_err(sql)), "34000", "{sql}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_parameters() {
    let server = server().await;
    let client = connect(&server).await;
    client
        .batch_execute("CREATE TABLE t (a INT, b VARCHAR); INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, NULL)")
        .await
        .expect("made");
    let statement = client.prepare_typed("SELECT a FROM t WHERE a = ANY($1) ORDER BY a", &[Type::INT4_ARRAY]);
    let rows = client.query(&statement.await.expect("prepared"), &[&vec![Some(1), None, Some(3)]]).await.expect("rows");
    assert_eq!(rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [1, 3]);
    let statement = client.prepare_typed("SELECT a FROM t WHERE b = ANY($1)", &[Type::TEXT_ARRAY]);
    let rows = client.query(&statement.await.expect("prepared"), &[&vec!["y", "z"]]).await.expect("rows");
    assert_eq!(rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [2]);
    // The client declares no type.
    let rows = client.query("SELECT a FROM t WHERE b = ANY($1)", &[&vec!["y", "z"]]).await.expect("rows");
    assert_eq!(rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [2]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_are_set_shown_and_forgotten() {
    let server = server().await;
    let client = connect(&server).await;
    client
        .batch_execute("SET application_name = 'x'; SET search_path TO public; SET extra_float_digits = 3")
        .await
        .expect("set");
    assert_eq!(text(&client, "SHOW application_name").await, "x");
    assert_eq!(text(&client, "SHOW TRANSACTION ISOLATION LEVEL").await, "read committed");
    assert!(text(&client, "SHOW server_version").await.contains("Freestone"));
    client.batch_execute("SET freestone.design = 'row'").await.expect("set");
    assert_eq!(text(&client, "SHOW freestone.design").await, "row");
    client.batch_execute("DISCARD ALL").await.expect("discarded");
    assert_eq!(text(&client, "SHOW application_name").await, "");
    assert_eq!(text(&client, "SHOW freestone.design").await, "auto");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_are_cancelled_and_time_out() {
    let server = server().await;
    let client = connect(&server).await;
    let endless = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b WHERE a.value % 7 = b.value % 11";
    let token = client.cancel_token();
    let cancel = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(500)).await;
        token.cancel_query(NoTls).await.expect("sent");
    });
    let error = client.batch_execute(endless).await.expect_err("cancelled");
    assert_eq!(code(&error), "57014", "{error:?}");
    cancel.await.expect("cancelled");
    client.batch_execute("SET statement_timeout = '300ms'").await.expect("set");
    let error = client.batch_execute(endless).await.expect_err("too long");
    assert_eq!(code(&error), "57014", "{error:?}");
    assert_eq!(text(&client, "SELECT 1").await, "1");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_are_enforced() {
    let server = server().await;
    let admin = connect(&server).await;
    admin.batch_execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)").await.expect("made");
    let reader = connect_as(&server, "rita", PASSWORD).await.expect("a connection");
    let writer = connect_as(&server, "wes", PASSWORD).await.expect("a connection");
    assert_eq!(text(&reader, "SELECT a FROM t").await, "1");
    for sql in
        ["INSERT INTO t VALUES (2)", "DROP TABLE t", "CREATE TABLE u (a INT)", "VACUUM", "TRUNCATE t", "DELETE FROM t"]
    {
        assert_eq!(code(&reader.batch_execute(sql).await.expect_err(sql)), "42501", "{sql}");
    }
    let prepared = "PREPARE p AS INSERT INTO t VALUES (3); EXECUTE p";
    assert_eq!(code(&reader.batch_execute(prepared).await.expect_err("denied")), "42501");
    writer.batch_execute("INSERT INTO t VALUES (2)").await.expect("inserted");
    for sql in [
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM 'x.csv'",
        "DESCRIBE 'x.csv'",
        "EXPLAIN SELECT * FROM '/etc/*.csv'",
        "COPY t FROM '/etc/passwd' (FORMAT csv)",
        "COPY t TO '/tmp/freestone-server-test.csv'",
    ] {
        for client in [&reader, &writer] {
            let error = client.batch_execute(sql).await.expect_err(sql);
            assert_eq!(code(&error), "42501", "{sql}: {error:?}");
        }
    }
    let error = admin.batch_execute("SELECT * FROM 'no-such.csv'").await.expect_err("no file");
    assert_ne!(code(&error), "42501");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_goes_both_ways() {
    let server = server().await;
    let client = connect(&server).await;
    client.batch_execute("CREATE TABLE t (a INT, b VARCHAR)").await.expect("made");
    for (options, data) in [("", "1\ta\\tb\n2\t\\N\n"), (" (FORMAT csv)", "3,\"x,y\"\n4,\n")] {
        let sink = client.copy_in(&format!("COPY t FROM STDIN{options}")).await.expect("begun");
        futures::pin_mut!(sink);
        for piece in data.as_bytes().chunks(3) {
            sink.send(Bytes::copy_from_slice(piece)).await.expect("sent");
        }
        assert_eq!(sink.finish().await.expect("loaded"), 2);
    }
    let out = |sql: &'static str| {
        let client = &client;
        async move {
            let stream = client.copy_out(sql).await.expect("begun");
            let pieces: Vec<Bytes> = stream.try_collect().await.expect("data");
            pieces.concat()
        }
    };
    let copied = out("COPY (SELECT * FROM t ORDER BY a) TO STDOUT").await;
    assert_eq!(String::from_utf8_lossy(&copied), "1\ta\\tb\n2\t\\N\n3\tx,y\n4\t\\N\n");
    let csv = out("COPY (SELECT * FROM t ORDER BY a) TO STDOUT (FORMAT csv, HEADER)").await;
    assert_eq!(String::from_utf8_lossy(&csv), "a,b\n1,a\tb\n2,\n3,\"x,y\"\n4,\n");
    let binary = out("COPY (SELECT a FROM t WHERE a = 1) TO STDOUT (FORMAT binary)").await;
    assert_eq!(binary, b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\x04\0\0\0\x01\xff\xff");
    // The binary output of COPY can be read by COPY.
    let all = out("COPY (SELECT * FROM t ORDER BY a) TO STDOUT (FORMAT binary)").await;
    let sink = client.copy_in("COPY t FROM STDIN (FORMAT binary)").await.expect("begun");
    futures::pin_mut!(sink);
    for piece in all.chunks(7) {
        sink.send(Bytes::copy_from_slice(piece)).await.expect("sent");
    }
    assert_eq!(sink.finish().await.expect("loaded"), 4);
    let rows = texts(&client, "SELECT a, count(*), min(b) FROM t GROUP BY a ORDER BY a").await;
    assert_eq!(rows[0], ["1", "2", "a\tb"].map(|text| Some(text.to_owned())));
    assert_eq!(rows[1], [Some("2".to_owned()), Some("2".to_owned()), None]);
    // Truncated, wrong or abandoned data: nothing is stored.
    for wrong in [&all[..30], b"nonsense", &[&all[..all.len() - 2], b"\0\x07"].concat()] {
        let sink = client.copy_in("COPY t FROM STDIN (FORMAT binary)").await.expect("begun");
        futures::pin_mut!(sink);
        sink.send(Bytes::copy_from_slice(wrong)).await.expect("sent");
        assert_eq!(code(&sink.finish().await.expect_err("malformed")), "22P04");
    }
    assert_eq!(text(&client, "SELECT count(*) FROM t").await, "8");
    let error = client.batch_execute("COPY missing TO STDOUT").await.expect_err("no table");
    assert_eq!(code(&error), "42P01");
    // The columns of the statement decide, not the names of a header.
    client.batch_execute("CREATE TABLE h (a VARCHAR, b VARCHAR)").await.expect("made");
    for columns in ["(b, a)", ""] {
        let sink = client.copy_in(&format!("COPY h {columns} FROM STDIN (FORMAT csv, HEADER)")).await.expect("begun");
        futures::pin_mut!(sink);
        sink.send(Bytes::from_static(b"a,b\nX,Y\n")).await.expect("sent");
        assert_eq!(sink.finish().await.expect("loaded"), 1);
    }
    let rows = texts(&client, "SELECT a, b FROM h ORDER BY a").await;
    assert_eq!(rows, [["X", "Y"], ["Y", "X"]].map(|row| row.map(|text| Some(text.to_owned())).to_vec()));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_catalog_answers_what_clients_ask() {
    let server = server().await;
    let client = connect(&server).await;
    client
        .batch_execute(
            "CREATE TABLE d (k INT NOT NULL, PRIMARY KEY (k)); \
             CREATE TABLE t (a INT NOT NULL, b VARCHAR, k INT, PRIMARY KEY (a), FOREIGN KEY (k) REFERENCES d (k)); \
             CREATE VIEW v AS SELECT a FROM t",
        )
        .await
        .expect("made");
    assert!(text(&client, "SELECT version()").await.contains("Freestone"));
    assert_eq!(text(&client, "SELECT current_schema()").await, "public");
    assert_eq!(text(&client, "SELECT current_user").await, "ann");
    let names =
        "SELECT relname FROM pg_class WHERE relkind IN ('r', 'v') AND relnamespace = 'public'::regnamespace ORDER BY 1";
    let names = texts(&client, names).await;
    assert_eq!(names.into_iter().flatten().flatten().collect::<Vec<_>>(), ["d", "t", "v"]);
    let columns = "SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull FROM pg_catalog.pg_attribute a \
                   WHERE a.attrelid = 't'::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";
    let columns: Vec<String> = texts(&client, columns)
        .await
        .into_iter()
        .map(|row| row.into_iter().flatten().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(columns, ["a integer t", "b character varying f", "k integer f"]);
    let keys = "SELECT conname, pg_catalog.pg_get_constraintdef(oid, true) FROM pg_catalog.pg_constraint \
                WHERE conrelid = 't'::pg_catalog.regclass ORDER BY contype DESC";
    let keys: Vec<String> =
        texts(&client, keys).await.into_iter().map(|row| row[1].clone().unwrap_or_default()).collect();
    assert_eq!(keys, ["PRIMARY KEY (a)", "FOREIGN KEY (k) REFERENCES d(k)"]);
    // psql queries foreign keys of tables with triggers, which PostgreSQL uses to enforce them.
    let triggers = "SELECT relname FROM pg_class WHERE relhastriggers ORDER BY 1";
    assert_eq!(texts(&client, triggers).await.into_iter().flatten().flatten().collect::<Vec<_>>(), ["d", "t"]);
    let references = "SELECT conname, conrelid::pg_catalog.regclass AS ontable, \
                      pg_catalog.pg_get_constraintdef(oid, true) AS condef FROM pg_catalog.pg_constraint c \
                      WHERE confrelid IN (SELECT pg_catalog.pg_partition_ancestors('d'::regclass) \
                      UNION ALL VALUES ('d'::pg_catalog.regclass)) AND contype = 'f' AND conparentid = 0 ORDER BY conname";
    let references: Vec<String> = texts(&client, references).await.into_iter().flatten().flatten().collect();
    assert_eq!(references, ["t_k_fkey", "t", "FOREIGN KEY (k) REFERENCES d(k)"]);
    for statement in PSQL {
        client.batch_execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_have_the_names_that_postgresql_gives_them() {
    let server = server().await;
    let client = connect(&server).await;
    let sql = "SELECT 1, 1, count(*), max(v) AS m, 'x'::text FROM generate_series(1, 3) AS t(v)";
    let names = ["?column?", "?column?", "count", "m", "text"];
    let statement = client.prepare(sql).await.expect("prepared");
    assert_eq!(statement.columns().iter().map(|column| column.name()).collect::<Vec<_>>(), names);
    let messages = client.simple_query(sql).await.expect("rows");
    let told = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row.columns().iter().map(|column| column.name()).collect::<Vec<_>>()),
        _ => None,
    });
    assert_eq!(told.expect("a row"), names);
    assert_eq!(text(&client, "SELECT 'a_b' LIKE 'a/_b' ESCAPE '/'").await, "t");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_of_postgresql_are_answered() {
    let server = server().await;
    let client = connect(&server).await;
    let made = "CREATE TABLE f (a INT NOT NULL, b VARCHAR, PRIMARY KEY (a)); INSERT INTO f VALUES (1, 'x'), (2, 'Y'), (3, 'z')";
    client.batch_execute(made).await.expect("made");
    for (sql, expected) in [
        (
            "SELECT pg_catalog.string_agg(b, ',') FROM f WHERE b OPERATOR(pg_catalog.~) '^[xz]' COLLATE pg_catalog.default",
            "x,z",
        ),
        ("SELECT string_agg(b, ',' ORDER BY b COLLATE NOCASE) FROM f", "x,Y,z"),
        ("SELECT sum(a) FROM f WHERE a = ANY('{1,3}') AND b <> ALL('{q,\"r s\"}')", "4"),
        ("SELECT count(*) FROM pg_catalog.generate_series(1, array_upper(current_schemas(true), 1))", "2"),
        ("SELECT max(n) FROM (SELECT pg_catalog.generate_series(1, 4) AS n) s", "4"),
        ("SELECT tables.table_name FROM information_schema.tables WHERE tables.table_schema = 'public'", "f"),
        ("SELECT relname FROM pg_class WHERE oid = 'f'::regclass FOR UPDATE", "f"),
        (
            "SELECT (SELECT nspname FROM pg_namespace n WHERE n.oid = c.relnamespace) FROM pg_class c WHERE relname = 'f'",
            "public",
        ),
        (
            "SELECT array_to_string(relacl, ',') IS NULL AND 'a' = ANY(reloptions) IS NULL FROM pg_class WHERE relname = 'f'",
            "t",
        ),
        ("SELECT (k.e).n FROM (SELECT information_schema._pg_expandarray(indkey) AS e FROM pg_index) k", "1"),
        ("SELECT format('%I', 'a b') || current_schema", "\"a b\"public"),
        ("SELECT a FROM f WHERE current_user = 'ann' AND a = 2 FOR UPDATE", "2"),
    ] {
        assert_eq!(text(&client, sql).await, expected, "{sql}");
    }
    let names = client.prepare("SELECT trim(b), b COLLATE \"C\", f.a, a, current_user FROM f").await.expect("prepared");
    let names: Vec<_> = names.columns().iter().map(|column| column.name()).collect();
    assert_eq!(names, ["btrim", "b", "a", "a", "current_user"]);
    server.stop().await;
}

/// The queries of psql's commands and of drivers.
const PSQL: &[&str] = &[
    // \dt
    "SELECT n.nspname as \"Schema\", c.relname as \"Name\", CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' END as \
     \"Type\", pg_catalog.pg_get_userbyid(c.relowner) as \"Owner\" FROM pg_catalog.pg_class c LEFT JOIN \
     pg_catalog.pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_catalog.pg_am am ON am.oid = c.relam WHERE c.relkind \
     IN ('r','p','') AND n.nspname <> 'pg_catalog' AND n.nspname !~ '^pg_toast' AND n.nspname <> 'information_schema' AND \
     pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1,2",
    // \d t
    "SELECT c.oid, n.nspname, c.relname FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = \
     c.relnamespace WHERE c.relname OPERATOR(pg_catalog.~) '^(t)$' COLLATE pg_catalog.default AND \
     pg_catalog.pg_table_is_visible(c.oid) ORDER BY 2, 3",
    "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid, \
     true) FROM pg_catalog.pg_attrdef d WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef), a.attnotnull, \
     (SELECT c.collname FROM pg_catalog.pg_collation c, pg_catalog.pg_type t WHERE c.oid = a.attcollation AND t.oid = \
     a.atttypid AND a.attcollation <> t.typcollation) AS attcollation, a.attidentity, a.attgenerated FROM \
     pg_catalog.pg_attribute a WHERE a.attrelid = '20001' AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
    // \l and \dn
    "SELECT d.datname as \"Name\", pg_catalog.pg_get_userbyid(d.datdba) as \"Owner\", \
     pg_catalog.pg_encoding_to_char(d.encoding) as \"Encoding\", pg_catalog.array_to_string(d.datacl, E'\\n') AS \"Access \
     privileges\" FROM pg_catalog.pg_database d ORDER BY 1",
    "SELECT n.nspname AS \"Name\", pg_catalog.pg_get_userbyid(n.nspowner) AS \"Owner\" FROM pg_catalog.pg_namespace n WHERE \
     n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' ORDER BY 1",
    // JDBC: getPrimaryKeys
    "SELECT result.TABLE_NAME, result.COLUMN_NAME, result.KEY_SEQ, result.PK_NAME FROM (SELECT n.nspname AS TABLE_SCHEM, \
     ct.relname AS TABLE_NAME, a.attname AS COLUMN_NAME, (information_schema._pg_expandarray(i.indkey)).n AS KEY_SEQ, \
     ci.relname AS PK_NAME, information_schema._pg_expandarray(i.indkey) AS KEYS, a.attnum AS A_ATTNUM FROM \
     pg_catalog.pg_class ct JOIN pg_catalog.pg_attribute a ON (ct.oid = a.attrelid) JOIN pg_catalog.pg_namespace n ON \
     (ct.relnamespace = n.oid) JOIN pg_catalog.pg_index i ON (a.attrelid = i.indrelid) JOIN pg_catalog.pg_class ci ON \
     (ci.oid = i.indexrelid) WHERE true AND ct.relname = 't' AND i.indisprimary) result WHERE result.A_ATTNUM = \
     (result.KEYS).x ORDER BY result.table_name, result.pk_name, result.key_seq",
    "SELECT table_name, constraint_name FROM information_schema.table_constraints",
    "SELECT column_name FROM information_schema.key_column_usage WHERE table_name = 't'",
    "SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE table_schema = 'public'",
    // JDBC: getImportedKeys, getTypeInfo, getProcedures
    "SELECT NULL::text AS PKTABLE_CAT, pkn.nspname AS PKTABLE_SCHEM, pkc.relname AS PKTABLE_NAME, pka.attname AS \
     PKCOLUMN_NAME, pos.n AS KEY_SEQ, con.conname AS FK_NAME FROM pg_catalog.pg_namespace pkn, pg_catalog.pg_class pkc, \
     pg_catalog.pg_attribute pka, pg_catalog.pg_constraint con, pg_catalog.generate_series(1, 32) pos(n), \
     pg_catalog.pg_class pkic WHERE pkn.oid = pkc.relnamespace AND pkc.oid = pka.attrelid AND pka.attnum = \
     con.confkey[pos.n] AND con.confrelid = pkc.oid AND con.contype = 'f' AND (pkic.relkind = 'i' OR pkic.relkind = 'I') \
     AND pkic.oid = con.conindid ORDER BY 2, 3, 5",
    "SELECT typinput='pg_catalog.array_in'::regproc as is_array, typtype, typname, pg_type.oid FROM pg_catalog.pg_type LEFT \
     JOIN (select ns.oid as nspoid, ns.nspname, r.r from pg_namespace as ns join ( select s.r, (current_schemas(false))[s.r] \
     as nspname from generate_series(1, array_upper(current_schemas(false), 1)) as s(r) ) as r using ( nspname )) as sp ON \
     sp.nspoid = typnamespace WHERE pg_type.oid = 23 ORDER BY sp.r, pg_type.oid DESC",
    "SELECT NULL AS PROCEDURE_CAT, n.nspname AS PROCEDURE_SCHEM, p.proname, NULL, NULL, NULL FROM pg_catalog.pg_namespace n, \
     pg_catalog.pg_proc p WHERE p.pronamespace = n.oid",
    // Queries of DBeaver, when it connects and when a table is opened.
    "SELECT db.oid,db.* FROM pg_catalog.pg_database db WHERE datallowconn AND NOT datistemplate OR db.datname = 'freestone' \
     ORDER BY db.datname",
    "select string_agg(word, ',') from pg_catalog.pg_get_keywords() where word <> ALL ('{a,abs,absolute}'::text[])",
    "SELECT n.oid,n.*,d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = \
     n.oid AND d.objsubid = 0 AND d.classoid = 'pg_namespace'::regclass ORDER BY nspname",
    "SELECT t.oid,t.*,c.relkind,format_type(nullif(t.typbasetype, 0), t.typtypmod) as base_type_name, d.description FROM \
     pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid=t.typelem LEFT OUTER JOIN pg_catalog.pg_class c ON \
     c.oid=t.typrelid LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid=d.objoid WHERE t.typname IS NOT NULL AND \
     (c.relkind IS NULL OR c.relkind = 'c') AND (et.typcategory IS NULL OR et.typcategory <> 'C')",
    "SELECT c.oid,c.*,d.description,pg_catalog.pg_get_expr(c.relpartbound, c.oid) as partition_expr, \
     pg_catalog.pg_get_partkeydef(c.oid) as partition_key FROM pg_catalog.pg_class c LEFT OUTER JOIN \
     pg_catalog.pg_description d ON d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_class'::regclass WHERE \
     c.relnamespace = 2200 AND c.relkind not in ('i','I','c')",
    "SELECT c.relname,a.*,pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) as def_value,dsc.description,dep.objid FROM \
     pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON (a.attrelid=c.oid) LEFT OUTER JOIN \
     pg_catalog.pg_attrdef ad ON (a.attrelid=ad.adrelid AND a.attnum = ad.adnum) LEFT OUTER JOIN pg_catalog.pg_description \
     dsc ON (c.oid=dsc.objoid AND a.attnum = dsc.objsubid) LEFT OUTER JOIN pg_depend dep on dep.refobjid = a.attrelid AND \
     dep.deptype = 'i' and dep.refobjsubid = a.attnum and dep.classid = dep.refclassid WHERE NOT a.attisdropped AND \
     c.relkind not in ('i','I','c') AND c.relname = 't' ORDER BY a.attnum",
    "SELECT c.oid,c.*,t.relname as tabrelname,rt.relnamespace as refnamespace,d.description FROM pg_catalog.pg_constraint c \
     INNER JOIN pg_catalog.pg_class t ON t.oid=c.conrelid LEFT OUTER JOIN pg_catalog.pg_class rt ON rt.oid=c.confrelid LEFT \
     OUTER JOIN pg_catalog.pg_description d ON d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_constraint'::regclass \
     ORDER BY c.oid",
    "SELECT i.*,i.indkey as keys,c.relname,c.relnamespace,c.relam,c.reltablespace,tc.relname as tabrelname,dsc.description, \
     pg_catalog.pg_get_expr(i.indpred, i.indrelid) as pred_expr,pg_catalog.pg_get_expr(i.indexprs, i.indrelid, true) as \
     expr,pg_catalog.pg_relation_size(i.indexrelid) as index_rel_size,pg_catalog.pg_stat_get_numscans(i.indexrelid) as \
     index_num_scans FROM pg_catalog.pg_index i INNER JOIN pg_catalog.pg_class c ON c.oid=i.indexrelid INNER JOIN \
     pg_catalog.pg_class tc ON tc.oid=i.indrelid LEFT OUTER JOIN pg_catalog.pg_description dsc ON i.indexrelid=dsc.objoid \
     ORDER BY tabrelname, c.relname",
    // A query of the ADBC driver, which recognizes types by their functions.
    "SELECT oid, typname, typreceive, typbasetype, typrelid, typarray FROM pg_catalog.pg_type WHERE (typreceive != 0 OR \
     typsend != 0) AND typtype != 'r' AND typreceive::TEXT != 'array_recv'",
    // A query of SQLAlchemy for indexes.
    "SELECT opc.opcname FROM pg_catalog.pg_opclass opc WHERE opc.opcdefault AND opc.opcintype = 23",
    // A query of Metabase for its synchronization.
    "SELECT c.column_name AS name, c.udt_name AS \"database-type\", c.ordinal_position - 1 AS \"database-position\", \
     c.table_schema AS \"table-schema\", c.table_name AS \"table-name\", pk.column_name IS NOT NULL AS \"pk?\", ((c.column_default \
     IS NULL) AND (c.is_identity = 'NO') AND (c.is_nullable = 'NO')) AS \"database-required\" FROM information_schema.columns \
     AS c LEFT JOIN (SELECT tc.table_schema, tc.table_name, kc.column_name FROM information_schema.table_constraints AS tc \
     INNER JOIN information_schema.key_column_usage AS kc ON (tc.constraint_name = kc.constraint_name) AND \
     (tc.table_schema = kc.table_schema) AND (tc.table_name = kc.table_name) WHERE tc.constraint_type = 'PRIMARY KEY') AS \
     pk ON (c.table_schema = pk.table_schema) AND (c.table_name = pk.table_name) AND (c.column_name = pk.column_name) WHERE \
     c.table_schema !~ '^information_schema|catalog_history|pg_' ORDER BY 4, 5, 3",
    "SELECT fk_ns.nspname AS \"fk-table-schema\", fk_table.relname AS \"fk-table-name\", fk_column.attname AS \"fk-column-name\", \
     pk_table.relname AS \"pk-table-name\", pk_column.attname AS \"pk-column-name\" FROM pg_constraint AS c INNER JOIN pg_class \
     AS fk_table ON c.conrelid = fk_table.oid INNER JOIN pg_namespace AS fk_ns ON c.connamespace = fk_ns.oid INNER JOIN \
     pg_attribute AS fk_column ON c.conrelid = fk_column.attrelid INNER JOIN pg_class AS pk_table ON c.confrelid = \
     pk_table.oid INNER JOIN pg_attribute AS pk_column ON c.confrelid = pk_column.attrelid WHERE fk_ns.nspname !~ \
     '^information_schema|catalog_history|pg_' AND c.contype = 'f' AND fk_column.attnum = ANY(c.conkey) AND \
     pk_column.attnum = ANY(c.confkey)",
    // What Grafana asks when a data source is tested, and lists in its query builder.
    "SELECT current_setting('server_version_num')::int/100 AS version",
    "SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'",
    "SELECT quote_ident(column_name) AS \"column\", data_type AS \"type\" FROM information_schema.columns WHERE \
     quote_ident(table_name) = 't'",
    // Databases and schemas as Superset lists them.
    "SELECT datname FROM pg_database WHERE datistemplate = false",
    "SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg_%' ORDER BY nspname",
    // Power BI: the encoding, columns, and references to a table.
    "SELECT character_set_name FROM INFORMATION_SCHEMA.character_sets",
    "SELECT COLUMN_NAME, ORDINAL_POSITION, IS_NULLABLE, CASE WHEN data_type LIKE '%unsigned%' THEN DATA_TYPE || ' unsigned' \
     ELSE DATA_TYPE END AS DATA_TYPE FROM INFORMATION_SCHEMA.columns WHERE TABLE_NAME = 't' ORDER BY ORDINAL_POSITION",
    "SELECT pk.COLUMN_NAME, fk.TABLE_NAME, fk.COLUMN_NAME, fk.ORDINAL_POSITION FROM (SELECT DISTINCT constraint_schema, \
     unique_constraint_schema, constraint_name, unique_constraint_name FROM INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS) c \
     INNER JOIN INFORMATION_SCHEMA.KEY_COLUMN_USAGE fk ON c.CONSTRAINT_SCHEMA = fk.CONSTRAINT_SCHEMA AND \
     c.CONSTRAINT_NAME = fk.CONSTRAINT_NAME INNER JOIN INFORMATION_SCHEMA.KEY_COLUMN_USAGE pk ON \
     c.UNIQUE_CONSTRAINT_SCHEMA = pk.CONSTRAINT_SCHEMA AND c.UNIQUE_CONSTRAINT_NAME = pk.CONSTRAINT_NAME WHERE \
     pk.TABLE_NAME = 't' AND pk.ORDINAL_POSITION = fk.ORDINAL_POSITION ORDER BY 2, 4",
    // Types with their elements, as Npgsql reads them.
    "SELECT n.nspname, t.oid, t.typname, t.kind, t.typnotnull, t.element FROM (SELECT t.oid, t.typnamespace, t.typname, \
     t.typnotnull, CASE WHEN p.proname = 'array_recv' THEN 'a' ELSE t.typtype END AS kind, CASE WHEN p.proname = \
     'array_recv' THEN t.typelem WHEN t.typtype = 'r' THEN rngsubtype WHEN t.typtype = 'm' THEN (SELECT rngtypid FROM \
     pg_range WHERE rngmultitypid = t.oid) WHEN t.typtype = 'd' THEN t.typbasetype END AS element FROM pg_type AS t LEFT JOIN \
     pg_class AS c ON c.oid = t.typrelid LEFT JOIN pg_proc AS p ON p.oid = t.typreceive LEFT JOIN pg_range ON \
     pg_range.rngtypid = t.oid) AS t JOIN pg_namespace AS n ON n.oid = t.typnamespace WHERE kind IN ('b', 'r', 'm', 'e', 'd', 'a')",
    "SELECT pg_type.oid, enumlabel FROM pg_enum JOIN pg_type ON pg_type.oid = enumtypid ORDER BY oid, enumsortorder",
];
