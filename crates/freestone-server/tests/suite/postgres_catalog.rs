//! What PostgreSQL's catalog says of a database: keys, rights, comments, cursors and sessions.

use tokio_postgres::Client;

use crate::postgres::{code, connect, connect_as, server, text};
use crate::server::PASSWORD;

#[tokio::test(flavor = "multi_thread")]
async fn constraint_columns_are_those_that_foreign_keys_refer_to() {
    let server = server().await;
    let client = connect(&server).await;
    let tables = "CREATE TABLE p (id INT PRIMARY KEY, code INT UNIQUE); CREATE TABLE f (a INT REFERENCES p (code))";
    client.batch_execute(tables).await.expect("made");
    let used = |constraint: &str| {
        let sql =
            "SELECT string_agg(table_name || '.' || column_name, ',') FROM information_schema.constraint_column_usage";
        format!("{sql} WHERE constraint_name = '{constraint}'")
    };
    for (constraint, expected) in [("p_pkey", "p.id"), ("p_code_key", "p.code"), ("f_a_fkey", "p.code")] {
        assert_eq!(text(&client, &used(constraint)).await, expected, "{constraint}");
    }
    let own = "SELECT table_name || '.' || column_name FROM information_schema.key_column_usage WHERE constraint_name = 'f_a_fkey'";
    assert_eq!(text(&client, own).await, "f.a");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn privileges_are_those_of_the_role() {
    let server = server().await;
    let ann = connect(&server).await;
    ann.batch_execute("CREATE TABLE t (id INT); CREATE SEQUENCE s").await.expect("made");
    let wes = connect_as(&server, "wes", PASSWORD).await.expect("a connection");
    let rita = connect_as(&server, "rita", PASSWORD).await.expect("a connection");
    for (call, writer, reader) in [
        ("has_table_privilege('t', 'SELECT')", "t", "t"),
        ("has_table_privilege('t', 'insert')", "t", "f"),
        ("has_table_privilege('t', 'SELECT, UPDATE')", "t", "t"),
        ("has_table_privilege('t', 'DELETE,TRUNCATE')", "t", "f"),
        ("has_table_privilege('t', 'SELECT WITH GRANT OPTION')", "f", "f"),
        ("has_table_privilege('t'::regclass::oid, 'UPDATE')", "t", "f"),
        ("has_table_privilege('rita', 't', 'UPDATE')", "f", "f"),
        ("has_table_privilege('wes', 't', 'UPDATE')", "t", "t"),
        ("has_column_privilege('t', 'id', 'UPDATE')", "t", "f"),
        ("has_column_privilege('wes', 't', 'id', 'UPDATE')", "t", "t"),
        ("has_any_column_privilege('t', 'INSERT')", "t", "f"),
        ("has_schema_privilege('public', 'USAGE')", "t", "t"),
        ("has_schema_privilege('public', 'CREATE')", "t", "f"),
        ("has_schema_privilege('rita', 'public', 'CREATE')", "f", "f"),
        ("has_database_privilege(current_database(), 'CONNECT')", "t", "t"),
        ("has_sequence_privilege('s', 'USAGE')", "t", "f"),
        ("has_table_privilege('t', NULL)", "NULL", "NULL"),
    ] {
        let sql = format!("SELECT {call} FROM (SELECT count(*) FROM pg_class)");
        assert_eq!(text(&wes, &sql).await, writer, "wes: {call}");
        assert_eq!(text(&rita, &sql).await, reader, "rita: {call}");
    }
    for (call, expected) in [
        ("has_table_privilege('t', 'FLY')", "22023"),
        ("has_table_privilege('nothing', 'SELECT')", "42P01"),
        ("has_table_privilege('nobody', 't', 'SELECT')", "42704"),
    ] {
        assert_eq!(code(&rita.simple_query(&format!("SELECT {call}")).await.expect_err(call)), expected, "{call}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn comments_and_sequences_of_columns_are_found() {
    let server = server().await;
    let client = connect(&server).await;
    let made = "CREATE TABLE t (id INT GENERATED ALWAYS AS IDENTITY, a INT); CREATE VIEW v AS SELECT 1 AS x; \
                COMMENT ON TABLE t IS 'a table'; COMMENT ON COLUMN t.a IS 'its column'; COMMENT ON VIEW v IS 'a view'";
    client.batch_execute(made).await.expect("made");
    for (sql, expected) in [
        ("SELECT obj_description('t'::regclass, 'pg_class')", "a table"),
        ("SELECT obj_description('v'::regclass)", "a view"),
        ("SELECT col_description('t'::regclass, 2)", "its column"),
        ("SELECT col_description('t'::regclass, 1)", "NULL"),
        ("SELECT description FROM pg_description WHERE objoid = 't'::regclass AND objsubid = 2", "its column"),
        ("SELECT count(*) FROM pg_description WHERE classoid = 'pg_class'::regclass", "3"),
        ("SELECT pg_get_serial_sequence('t', 'a')", "NULL"),
        ("SELECT pg_get_serial_sequence('t', 'id') = (SELECT 'public.' || sequencename FROM pg_sequences)", "t"),
    ] {
        assert_eq!(text(&client, sql).await, expected, "{sql}");
    }
    for (call, expected) in [("'nothing', 'id'", "42P01"), ("'t', 'nothing'", "42703")] {
        let sql = format!("SELECT pg_get_serial_sequence({call})");
        assert_eq!(code(&client.simple_query(&sql).await.expect_err(call)), expected, "{call}");
    }
    server.stop().await;
}

/// The only row of `pg_cursors`, without its time.
async fn cursor(client: &Client) -> String {
    let columns = "name || '|' || statement || '|' || is_holdable || '|' || is_binary || '|' || is_scrollable";
    text(client, &format!("SELECT string_agg({columns}, '; ') FROM pg_cursors")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn cursors_and_sessions_are_listed() {
    let server = server().await;
    let client = connect(&server).await;
    client.batch_execute("BEGIN; DECLARE c BINARY SCROLL CURSOR FOR SELECT 1").await.expect("declared");
    assert_eq!(cursor(&client).await, "c|DECLARE c BINARY SCROLL CURSOR FOR SELECT 1|false|true|true");
    let wes = connect_as(&server, "wes", PASSWORD).await.expect("a connection");
    wes.simple_query("SELECT 'what wes does'").await.expect("a row");
    let of = |user: &str| format!("SELECT state || ': ' || query FROM pg_stat_activity WHERE usename = '{user}'");
    assert_eq!(text(&client, &of("wes")).await, "idle: SELECT 'what wes does'");
    assert_eq!(text(&client, &of("ann")).await, format!("active: {}", of("ann")));
    wes.batch_execute("BEGIN").await.expect("begun");
    assert_eq!(text(&client, &of("wes")).await, "idle in transaction: BEGIN");
    wes.batch_execute("SELECT nothing").await.expect_err("no column");
    assert_eq!(text(&client, &of("wes")).await, "idle in transaction (aborted): SELECT nothing");
    // Others see only sessions of their own.
    let other = connect_as(&server, "wes", PASSWORD).await.expect("a connection");
    assert_eq!(text(&other, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'ann'").await, "0");
    client.batch_execute("ROLLBACK").await.expect("ended");
    assert_eq!(cursor(&client).await, "NULL");
    server.stop().await;
}
