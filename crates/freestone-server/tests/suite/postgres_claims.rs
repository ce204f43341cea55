//! Every clause that a client of PostgreSQL's protocol sends either has its effect or is an error without any effect.
//! Parameters have the types that the client declares.

use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use crate::postgres::{code, connect, connect_as, server, text};
use crate::server::PASSWORD;

async fn count(client: &Client) -> String {
    text(client, "SELECT count(*) FROM t").await
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_and_cursors_are_of_queries_alone() {
    let server = server().await;
    let client = connect(&server).await;
    client.batch_execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)").await.expect("made");
    for sql in [
        "COPY (DELETE FROM t) TO STDOUT",
        "COPY (INSERT INTO t VALUES (3)) TO STDOUT",
        "COPY (UPDATE t SET a = 9) TO STDOUT",
        "COPY (DROP TABLE t) TO STDOUT",
        "COPY (EXPLAIN ANALYZE DELETE FROM t) TO STDOUT",
        "DECLARE c CURSOR WITH HOLD FOR DELETE FROM t",
        "DECLARE c CURSOR WITH HOLD FOR INSERT INTO t VALUES (3)",
        "DECLARE c CURSOR WITH HOLD FOR EXPLAIN ANALYZE DELETE FROM t",
        "TRUNCATE TABLE t PARTITION (p1)",
        "TRUNCATE t CASCADE",
    ] {
        client.batch_execute(sql).await.expect_err(sql);
        client.query(sql, &[]).await.expect_err(sql);
        assert_eq!(count(&client).await, "2", "{sql}");
    }
    assert_eq!(text(&client, "SELECT sum(a) FROM t").await, "3");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_that_may_only_read_write_nothing() {
    let server = server().await;
    let client = connect(&server).await;
    client.batch_execute("CREATE TABLE t (a INT); PREPARE p AS INSERT INTO t VALUES (5)").await.expect("made");
    let writes = [
        "INSERT INTO t VALUES (1)",
        "CREATE TABLE u (a INT)",
        "DROP TABLE t",
        "VACUUM",
        "EXECUTE p",
        "EXPLAIN ANALYZE INSERT INTO t VALUES (1)",
        "COPY t FROM STDIN",
    ];
    for begin in [
        "BEGIN READ ONLY",
        "START TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
        "BEGIN; SET TRANSACTION READ ONLY",
        "BEGIN; SET transaction_read_only = on",
        "SET default_transaction_read_only = on; BEGIN",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY; BEGIN",
    ] {
        for write in writes {
            for statement in begin.split(';') {
                client.batch_execute(statement).await.expect(begin);
            }
            assert_eq!(text(&client, "SHOW transaction_read_only").await, "on", "{begin}");
            let error = client.batch_execute(write).await.expect_err(write);
            assert_eq!(code(&error), "25006", "{begin}; {write}: {error:?}");
            client.batch_execute("ROLLBACK").await.expect("ended");
        }
        client.batch_execute("SET default_transaction_read_only = off").await.expect("set");
        assert_eq!(count(&client).await, "0", "{begin}");
    }
    client.batch_execute("BEGIN; SET LOCAL statement_timeout = '5s'").await.expect("set");
    assert_eq!(text(&client, "SHOW statement_timeout").await, "5s");
    client.batch_execute("COMMIT; SET LOCAL statement_timeout = '7s'").await.expect("ended");
    assert_eq!(text(&client, "SHOW statement_timeout").await, "0");
    client.batch_execute("SET default_transaction_read_only = on").await.expect("set");
    assert_eq!(code(&client.batch_execute(writes[0]).await.expect_err("no transaction")), "25006");
    client.batch_execute("BEGIN READ WRITE; INSERT INTO t VALUES (1); COMMIT").await.expect("it may write");
    assert_eq!(code(&client.batch_execute(writes[0]).await.expect_err("again")), "25006");
    let error = client.batch_execute("RESET ALL; INSERT INTO t VALUES (2)").await.expect_err("one transaction");
    assert_eq!(code(&error), "25006");
    assert_eq!(code(&client.batch_execute(writes[0]).await.expect_err("RESET ALL was undone")), "25006");
    client.batch_execute("RESET ALL").await.expect("reset");
    client.batch_execute("INSERT INTO t VALUES (2)").await.expect("it may write");
    assert_eq!(count(&client).await, "2");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn explaining_a_write_by_running_it_is_a_write() {
    let server = server().await;
    let client = connect(&server).await;
    client.batch_execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2), (3)").await.expect("made");
    let rita = connect_as(&server, "rita", PASSWORD).await.expect("a connection");
    rita.batch_execute("EXPLAIN DELETE FROM t").await.expect("only planned");
    let error = rita.batch_execute("EXPLAIN ANALYZE DELETE FROM t WHERE a = 1").await.expect_err("refused");
    assert_eq!(code(&error), "42501");
    client.batch_execute("EXPLAIN ANALYZE DELETE FROM t WHERE a = 1").await.expect("done");
    assert_eq!(count(&client).await, "2");
    server.stop().await;
}

/// The value of a query with one parameter and one result value, as text.
async fn asked(client: &Client, sql: &str, kind: Type, value: &(dyn ToSql + Sync)) -> String {
    let statement = client.prepare_typed(sql, &[kind]).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let rows = client.query(&statement, &[value]).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    rows.first().map_or("no row".to_owned(), |row| row.get(0))
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_have_their_declared_types() {
    let server = server().await;
    let client = connect(&server).await;
    client.batch_execute("CREATE TABLE t (i INT, d DATE); INSERT INTO t VALUES (1, '2020-01-01')").await.expect("made");
    for (sql, value, expected) in [
        ("SELECT i::text FROM t WHERE i = $1", 1.5, "no row"),
        ("SELECT i::text FROM t WHERE i < $1", 1.5, "1"),
        ("SELECT i::text FROM t WHERE i IN ($1, 7)", 1.5, "no row"),
        ("SELECT (i * $1)::text FROM t", 1.5, "1.5"),
        ("SELECT ($1 + 2)::text", 1.5, "3.5"),
    ] {
        assert_eq!(asked(&client, sql, Type::FLOAT8, &value).await, expected, "{sql}");
    }
    let later = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_577_880_000);
    assert_eq!(asked(&client, "SELECT i::text FROM t WHERE d = $1", Type::TIMESTAMP, &later).await, "no row");
    assert_eq!(asked(&client, "SELECT i::text FROM t WHERE d < $1", Type::TIMESTAMP, &later).await, "1");
    for (sql, expected) in [
        ("SELECT $1::int", vec![Type::INT4]),
        ("SELECT $1::date + 1, $2::bytea", vec![Type::DATE, Type::BYTEA]),
        ("SELECT 1 WHERE 5 = $1::bigint", vec![Type::INT8]),
        ("SELECT $1::timestamp", vec![Type::TIMESTAMP]),
        ("SELECT i FROM t WHERE i = ANY($1)", vec![Type::INT4_ARRAY]),
        ("SELECT i FROM t ORDER BY i LIMIT $1 OFFSET $2", vec![Type::INT8, Type::INT8]),
        ("SELECT d - $1 FROM t", vec![Type::DATE]),
    ] {
        let statement = client.prepare(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        assert_eq!(statement.params(), expected, "{sql}");
    }
    client.batch_execute("BEGIN; DECLARE h CURSOR WITH HOLD FOR SELECT 1; ROLLBACK").await.expect("ended");
    assert_eq!(code(&client.batch_execute("FETCH h").await.expect_err("it ended with its transaction")), "34000");
    client.batch_execute("BEGIN; DECLARE h CURSOR WITH HOLD FOR SELECT 1; COMMIT; FETCH h").await.expect("it is held");
    let rows = client.query("SELECT value FROM generate_series(1, $1) LIMIT $2", &[&5i64, &2i64]).await.expect("rows");
    assert_eq!(rows.len(), 2);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_copied_data_name_no_file_of_the_server() {
    let server = server().await;
    let client = connect(&server).await;
    client.batch_execute("CREATE TABLE t (a INT)").await.expect("made");
    for (options, data) in [("", "no number\n"), (" (FORMAT csv)", "1,2\n"), (" (FORMAT csv)", "\"open\n")] {
        let sink = client.copy_in(&format!("COPY t FROM STDIN{options}")).await.expect("begun");
        futures::pin_mut!(sink);
        futures::SinkExt::send(&mut sink, bytes::Bytes::from_static(data.as_bytes())).await.expect("sent");
        let error = sink.finish().await.expect_err("wrong data");
        let told =
            error.as_db_error().map(|error| format!("{} {:?}", error.message(), error.hint())).unwrap_or_default();
        assert!(told.contains("the data of COPY"), "{told}");
        assert!(!told.contains("freestone-copy-") && !told.contains(".csv"), "{told}");
    }
    assert_eq!(count(&client).await, "0");
    server.stop().await;
}
