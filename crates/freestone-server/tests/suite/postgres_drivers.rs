//! Faults that the suites of drivers in conformance/drivers have found. Expected values are those of PostgreSQL 15.

use std::sync::{Arc, Mutex};

use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Config, NoTls};

use crate::postgres::{code, connect, server, text};
use crate::server::PASSWORD;

#[tokio::test(flavor = "multi_thread")]
async fn a_savepoint_may_have_any_name() {
    let server = server().await;
    let client = connect(&server).await;
    client.batch_execute("BEGIN; SAVEPOINT __asyncpg_savepoint_1__").await.expect("begun");
    client.batch_execute("SELECT 1 / 0").await.expect_err("no number");
    client.batch_execute("ROLLBACK TO __asyncpg_savepoint_1__").await.expect("back");
    assert_eq!(text(&client, "SELECT 5").await, "5");
    client.batch_execute("ROLLBACK").await.expect("ended");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_have_the_types_of_casts_and_columns() {
    let server = server().await;
    let client = connect(&server).await;
    let made = "CREATE TYPE mood AS ENUM ('sad', 'ok'); \
                CREATE TABLE t (a INT, j JSON, i INET, z TIMETZ, m mood, s VARCHAR, l INT[])";
    client.batch_execute(made).await.expect("made");
    for (sql, expected) in [
        ("SELECT $1::jsonb, $2::inet, $3::timetz", vec![Type::JSONB, Type::INET, Type::TIMETZ]),
        ("SELECT * FROM generate_series(1, 3) AS s(n) WHERE n = ANY($1::integer[])", vec![Type::INT4_ARRAY]),
        ("SELECT $1::json, $1::text", vec![Type::JSON]),
        ("INSERT INTO t (i, a, z) VALUES ($1, $2, $3)", vec![Type::INET, Type::INT4, Type::TIMETZ]),
        ("INSERT INTO t VALUES ($1, $2, NULL, NULL, NULL, $3)", vec![Type::INT4, Type::JSON, Type::TEXT]),
        ("UPDATE t SET j = $1, l = $2 WHERE s = $3", vec![Type::JSON, Type::INT4_ARRAY, Type::TEXT]),
        ("SELECT count(*) FROM pg_type WHERE oid = ANY($1::oid[])", vec![Type::OID_ARRAY]),
    ] {
        let statement = client.prepare(sql).await.expect(sql);
        assert_eq!(statement.params(), expected, "{sql}");
    }
    for sql in ["SELECT $1::mood", "INSERT INTO t (m) VALUES ($1)", "UPDATE t SET m = $1"] {
        let statement = client.prepare(sql).await.expect(sql);
        assert_eq!(statement.params()[0].name(), "mood", "{sql}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn integers_are_as_wide_as_in_postgresql() {
    let server = server().await;
    let client = connect(&server).await;
    client.batch_execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (7)").await.expect("made");
    for (sql, of_type, value) in [
        ("SELECT 1", Type::INT4, "1"),
        ("SELECT -5 + 2 * 3", Type::INT4, "1"),
        ("SELECT 2147483647", Type::INT4, "2147483647"),
        ("SELECT 2147483648", Type::INT8, "2147483648"),
        ("SELECT 1::bigint + 1", Type::INT8, "2"),
        ("SELECT '7'::int + 1", Type::INT4, "8"),
        ("SELECT count(*) FROM t", Type::INT8, "1"),
        ("VALUES (1), (2)", Type::INT4, "1"),
        ("VALUES (1), (3000000000)", Type::INT8, "1"),
        ("SELECT 1 UNION ALL SELECT 3000000000", Type::INT8, "1"),
        ("SELECT 1.5", Type::NUMERIC, "1.5"),
        ("SELECT '12.30'::numeric", Type::NUMERIC, "12.30"),
        ("SELECT 2::numeric", Type::NUMERIC, "2"),
        ("SELECT ARRAY[NULL, '10.0.0.1'::inet]", Type::INET_ARRAY, "{NULL,10.0.0.1}"),
    ] {
        let statement = client.prepare(sql).await.expect(sql);
        assert_eq!(*statement.columns()[0].type_(), of_type, "{sql}");
        assert_eq!(text(&client, sql).await, value, "{sql}");
    }
    let row = client.query_one("SELECT 5, -7", &[]).await.expect("a row in binary format");
    assert_eq!((row.get::<_, i32>(0), row.get::<_, i32>(1)), (5, -7));
    let error = client.simple_query("SELECT 2147483647 + 1").await.expect_err("too large");
    assert_eq!(code(&error), "22003");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn schemas_of_ones_own_are_in_the_catalog() {
    let server = server().await;
    let client = connect(&server).await;
    let made = "CREATE SCHEMA own; CREATE TABLE own.t (a INT PRIMARY KEY, b INT REFERENCES own.t (a)); CREATE INDEX i ON own.t (b); \
                CREATE TABLE t (c INT); CREATE SEQUENCE own.s; CREATE VIEW own.v AS SELECT 1 AS x";
    client.batch_execute(made).await.expect("made");
    for (sql, expected) in [
        ("SELECT count(*) FROM pg_namespace WHERE nspname = 'own'", "1"),
        (
            "SELECT string_agg(relname, ',' ORDER BY relname) FROM pg_class WHERE relnamespace = 'own'::regnamespace",
            "i,s,t,t_pkey,v",
        ),
        (
            "SELECT string_agg(relname, ',') FROM pg_class WHERE relkind = 'r' AND pg_table_is_visible(oid) AND relname = 't'",
            "t",
        ),
        ("SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'own.t'::regclass", "a,b"),
        (
            "SELECT string_agg(attname, ',') FROM pg_attribute WHERE attrelid = '\"own\".\"t\"'::regclass AND attnum = 1",
            "a",
        ),
        ("SELECT string_agg(attname, ',') FROM pg_attribute WHERE attrelid = 't'::regclass", "c"),
        ("SELECT 'own.t'::regclass::text", "own.t"),
        ("SELECT 'own.i'::regclass::oid = (SELECT oid FROM pg_class WHERE relname = 'i')", "t"),
        ("SELECT tablename FROM pg_tables WHERE schemaname = 'own'", "t"),
        ("SELECT table_name FROM information_schema.tables WHERE table_schema = 'own' AND table_type = 'VIEW'", "v"),
        ("SELECT count(*) FROM information_schema.schemata WHERE schema_name = 'own'", "1"),
        ("SELECT sequencename FROM pg_sequences WHERE schemaname = 'own'", "s"),
        (
            "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'own.t'::regclass AND NOT indisprimary",
            "CREATE INDEX i ON own.t USING btree (b)",
        ),
        (
            "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'f'",
            "FOREIGN KEY (b) REFERENCES own.t(a)",
        ),
        ("SELECT indkey FROM pg_index WHERE indrelid = 'own.t'::regclass AND indisprimary", "1"),
    ] {
        assert_eq!(text(&client, sql).await, expected, "{sql}");
    }
    // Types of columns are no constraints of them, and those of labels have names.
    client
        .batch_execute("CREATE TYPE mood AS ENUM ('sad'); CREATE TABLE own.u (j JSON, m mood, n INT CHECK (n > 0))")
        .await
        .expect("made");
    let of = "SELECT string_agg(conname, ',') FROM pg_constraint WHERE conrelid = 'own.u'::regclass";
    assert_eq!(text(&client, of).await, "u_n_check");
    let of = "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'own.u'::regclass AND attname = 'm'";
    assert_eq!(text(&client, of).await, "mood");
    let statement = client.prepare("SELECT indkey, indclass FROM pg_index").await.expect("prepared");
    let types: Vec<_> = statement.columns().iter().map(|column| column.type_().clone()).collect();
    assert_eq!(types, [Type::INT2_VECTOR, Type::OID_VECTOR]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_do_nothing_say_so() {
    let server = server().await;
    let (host, port) = server.address("postgres").rsplit_once(':').expect("host and port");
    let mut config = Config::new();
    config.host(host).port(port.parse().expect("a port")).user("ann").password(PASSWORD).dbname("freestone");
    let (client, mut connection) = config.connect(NoTls).await.expect("a connection");
    let heard = Arc::new(Mutex::new(vec![]));
    let hearing = heard.clone();
    let reading = tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notice(notice) = message {
                let said = format!("{} {}", notice.code().code(), notice.message());
                hearing.lock().expect("no panic").push(said);
            }
        }
    });
    let statements = [
        ("CREATE TABLE t (a INT)", None),
        ("CREATE TABLE IF NOT EXISTS t (a INT)", Some("42P07 relation \"t\" already exists, skipping")),
        ("DROP TABLE IF EXISTS nothing", Some("00000 table \"nothing\" does not exist, skipping")),
        ("DROP TABLE IF EXISTS t", None),
        ("DROP VIEW IF EXISTS nothing", Some("00000 view \"nothing\" does not exist, skipping")),
        ("CREATE SCHEMA IF NOT EXISTS own", None),
        ("CREATE SCHEMA IF NOT EXISTS own", Some("42P06 schema \"own\" already exists, skipping")),
        ("DROP SEQUENCE IF EXISTS nothing", Some("00000 sequence \"nothing\" does not exist, skipping")),
        ("DROP TYPE IF EXISTS nothing", Some("00000 type \"nothing\" does not exist, skipping")),
    ];
    for (sql, _) in statements {
        client.batch_execute(sql).await.expect(sql);
    }
    client.execute("DROP TABLE IF EXISTS by_parse", &[]).await.expect("by Parse and Execute");
    drop(client);
    reading.await.expect("no panic");
    let mut expected: Vec<_> = statements.iter().filter_map(|(_, notice)| notice.map(str::to_owned)).collect();
    expected.push("00000 table \"by_parse\" does not exist, skipping".to_owned());
    assert_eq!(*heard.lock().expect("no panic"), expected);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn casts_to_text_write_lists_and_bytes() {
    let server = server().await;
    let client = connect(&server).await;
    client
        .batch_execute("CREATE TABLE t (l INT[], b BYTEA); INSERT INTO t VALUES ([1, NULL], X'00ff')")
        .await
        .expect("made");
    for (sql, expected) in [
        ("SELECT l::text FROM t", "{1,NULL}"),
        ("SELECT b::text FROM t", "\\x00ff"),
        ("SELECT ARRAY['a', 'b,c', '', NULL]::text", "{a,\"b,c\",\"\",NULL}"),
        ("SELECT '{{1,2},{3,4}}'::int[][]::text", "{{1,2},{3,4}}"),
        ("SELECT ARRAY[true, false]::text", "{t,f}"),
        ("SELECT ARRAY[1e20::float8]::text", "{1e+20}"),
        ("SELECT count(*) FROM t WHERE l::text = '{1,NULL}'", "1"),
    ] {
        assert_eq!(text(&client, sql).await, expected, "{sql}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn drivers_find_the_types_of_arrays() {
    let server = server().await;
    let client = connect(&server).await;
    // asyncpg looks up types by a query whose columns it must know without a look-up.
    let lookup = "SELECT t.oid, t.typelem AS elemtype, \
                  CASE WHEN t.typtype = 'c' THEN (SELECT array_agg(a.atttypid) FROM pg_attribute a) ELSE NULL END AS attrtypoids \
                  FROM pg_type t WHERE t.oid = ANY($1::oid[])";
    let statement = client.prepare(lookup).await.expect("prepared");
    assert_eq!(*statement.columns()[2].type_(), Type::TEXT_ARRAY);
    let rows = client.query(&statement, &[&vec![1007u32]]).await.expect("rows");
    assert_eq!((rows.len(), rows[0].get::<_, u32>(1)), (1, 23));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cursors_of_queries_that_lock_and_names_of_series() {
    let server = server().await;
    let client = connect(&server).await;
    client.batch_execute("CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (7)").await.expect("made");
    client.batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT a FROM t FOR UPDATE").await.expect("declared");
    assert_eq!(text(&client, "FETCH 1 FROM c").await, "7");
    client.batch_execute("COMMIT").await.expect("ended");
    let statement = client.prepare("SELECT * FROM generate_series(1, 3) foo").await.expect("prepared");
    assert_eq!(statement.columns()[0].name(), "foo");
    for (sql, state) in [
        ("SELECT '2023-02-29'::date", "22008"),
        ("SELECT 'x'::date", "22007"),
        ("INSERT INTO t VALUES (1, 2)", "42601"),
        ("INSERT INTO t SELECT 1, 2", "42601"),
    ] {
        assert_eq!(code(&client.simple_query(sql).await.expect_err(sql)), state, "{sql}");
    }
    server.stop().await;
}
