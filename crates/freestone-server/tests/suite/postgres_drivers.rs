//! Faults that the suites of drivers in conformance/drivers have found. Expected values are those of PostgreSQL 15.

use std::sync::{Arc, Mutex};

use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Config, NoTls};

use crate::postgres::{code, connect, server, text};
use crate::postgres_types::Raw;
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
        ("INSERT INTO t VALUES ($1, $2, NULL, NULL, NULL, $3)", vec![Type::INT4, Type::JSON, Type::VARCHAR]),
        ("UPDATE t SET j = $1, l = $2 WHERE s = $3", vec![Type::JSON, Type::INT4_ARRAY, Type::TEXT]),
        ("UPDATE t SET s = $1", vec![Type::VARCHAR]),
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

/// The columns of a statement's rows: name, table, number in the table, type.
async fn described(client: &tokio_postgres::Client, sql: &str) -> Vec<String> {
    let statement = client.prepare(sql).await.expect(sql);
    let mut all = vec![];
    for column in statement.columns() {
        let table = match column.table_oid() {
            Some(oid) => text(client, &format!("SELECT relname FROM pg_class WHERE oid = {oid}")).await,
            None => "-".to_owned(),
        };
        let (name, number) = (column.name(), column.column_id().unwrap_or(0));
        all.push(format!("{name} {table}.{number} {} {}", column.type_(), column.type_modifier()));
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn results_name_their_tables_and_the_types_that_were_declared() {
    let server = server().await;
    let client = connect(&server).await;
    let made = "CREATE SCHEMA own; CREATE TABLE own.z (s VARCHAR(5)); \
                CREATE TABLE t (a INT, s TEXT, v VARCHAR(10), c CHAR(3), j JSONB, n NUMERIC, x VARCHAR, l TEXT[], d DATE); \
                CREATE TABLE u (a INT, k INT, s TEXT); \
                CREATE VIEW w AS SELECT s AS q, a + 1 AS b, v FROM t";
    client.batch_execute(made).await.expect("made");
    for (sql, expected) in [
        (
            "SELECT * FROM t",
            "a t.1 int4 -1, s t.2 text -1, v t.3 varchar 14, c t.4 bpchar 7, j t.5 jsonb -1, n t.6 numeric -1, \
             x t.7 varchar -1, l t.8 _text -1, d t.9 date -1",
        ),
        ("SELECT a AS b, t.s, \"v\" FROM t", "b t.1 int4 -1, s t.2 text -1, v t.3 varchar 14"),
        ("SELECT u.*, v FROM t, u", "a u.1 int4 -1, k u.2 int4 -1, s u.3 text -1, v t.3 varchar 14"),
        ("SELECT a, u.a FROM t RIGHT JOIN u USING (a)", "a u.1 int4 -1, a u.1 int4 -1"),
        ("SELECT a FROM t LEFT JOIN u USING (a)", "a t.1 int4 -1"),
        ("SELECT y, k FROM u AS q (y)", "y u.1 int4 -1, k u.2 int4 -1"),
        ("SELECT * FROM (SELECT s, v || 'x' AS z FROM t) AS q", "s t.2 text -1, z -.0 text -1"),
        ("WITH p (m) AS (SELECT s, a FROM t) SELECT m, a FROM p", "m t.2 text -1, a t.1 int4 -1"),
        ("SELECT * FROM w", "q w.1 text -1, b w.2 int4 -1, v w.3 varchar 14"),
        ("TABLE own.z", "s z.1 varchar 9"),
        ("SELECT own.z.s FROM own.z", "s z.1 varchar 9"),
        ("SELECT s FROM t UNION SELECT v FROM t", "s -.0 text -1"),
        (
            "SELECT min(c), array_agg(v), first_value(v) OVER () FROM t GROUP BY v",
            "min -.0 bpchar -1, array_agg -.0 _varchar -1, first_value -.0 varchar -1",
        ),
        (
            "SELECT coalesce(s, 'x'), coalesce(v, s), coalesce(v, x) FROM t",
            "coalesce -.0 text -1, coalesce -.0 varchar -1, coalesce -.0 varchar -1",
        ),
        ("SELECT CASE WHEN a = 1 THEN v END, nullif(s, 'x') FROM t", "case -.0 varchar -1, nullif -.0 text -1"),
        ("SELECT max(v) FROM t", "max -.0 text -1"),
        ("SELECT (SELECT v FROM t), lag(s) OVER (), l[1] FROM t", "v -.0 varchar 14, lag -.0 text -1, l -.0 text -1"),
        (
            "SELECT -a, a + 1, d - d, n + 1 FROM t",
            "?column? -.0 int4 -1, ?column? -.0 int4 -1, ?column? -.0 int4 -1, ?column? -.0 numeric -1",
        ),
        ("INSERT INTO u VALUES (1) RETURNING *", "a u.1 int4 -1, k u.2 int4 -1, s u.3 text -1"),
        ("UPDATE u SET k = 7 RETURNING s AS q, a + 1", "q u.3 text -1, ?column? -.0 int4 -1"),
        ("DELETE FROM u RETURNING u.s", "s u.3 text -1"),
    ] {
        assert_eq!(described(&client, sql).await.join(", "), expected, "{sql}");
    }
    client
        .batch_execute(
            "DROP VIEW w; ALTER TABLE t ALTER COLUMN x TYPE TEXT; ALTER TABLE t RENAME COLUMN s TO r; CREATE TABLE k (LIKE t)",
        )
        .await
        .expect("altered");
    client.batch_execute("ALTER TABLE t DROP COLUMN a; ALTER TABLE t ADD COLUMN y VARCHAR(2)").await.expect("altered");
    assert_eq!(
        described(&client, "SELECT x, r, y FROM t").await.join(", "),
        "x t.6 text -1, r t.1 text -1, y t.9 varchar 6"
    );
    assert_eq!(described(&client, "SELECT v, r FROM k").await.join(", "), "v k.3 varchar 14, r k.2 text -1");
    let of = "SELECT string_agg(format_type(atttypid, atttypmod), ', ' ORDER BY attnum) FROM pg_attribute \
              WHERE attrelid = 't'::regclass AND attnum > 0";
    let types = "text, character varying(10), character(3), jsonb, numeric, text, text[], date, character varying(2)";
    assert_eq!(text(&client, of).await, types);
    let of = "SELECT string_agg(concat(character_maximum_length, ':', character_octet_length), ' ' ORDER BY table_name, ordinal_position) \
              FROM information_schema.columns WHERE table_name = 'u' OR table_name = 'z'";
    assert_eq!(text(&client, of).await, ": : :1073741824 5:20");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_that_are_too_long_for_their_columns_are_errors() {
    let server = server().await;
    let client = connect(&server).await;
    let made = "CREATE TABLE t (v VARCHAR(3), c CHAR(2), w CHAR, n VARCHAR); CREATE TABLE k (id INT PRIMARY KEY, v VARCHAR(3))";
    client.batch_execute(made).await.expect("made");
    client
        .batch_execute("INSERT INTO t VALUES ('abc', 'a', 'x', 'any length'), ('äöü', NULL, '', NULL)")
        .await
        .expect("fit");
    // Spaces behind the length are cut.
    client.batch_execute("INSERT INTO t (v) VALUES ('ab   '); INSERT INTO k VALUES (1, 'abc')").await.expect("fit");
    assert_eq!(text(&client, "SELECT string_agg(v, '|') FROM t").await, "abc|äöü|ab ");
    for sql in [
        "INSERT INTO t (v) VALUES ('abcd')",
        "INSERT INTO t (c) VALUES ('abc')",
        "INSERT INTO t (w) SELECT 'xy'",
        "UPDATE t SET v = v || 'd'",
        "INSERT INTO k VALUES (2, 'abcd')",
        "INSERT INTO k VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET v = 'abcd'",
        "UPDATE k SET v = 'abcd' WHERE id = 1",
        "MERGE INTO k USING (SELECT 1 AS id) AS s ON k.id = s.id WHEN MATCHED THEN UPDATE SET v = 'abcd'",
        "ALTER TABLE k ALTER COLUMN v TYPE VARCHAR(2)",
    ] {
        let error = client.batch_execute(sql).await.expect_err(sql);
        assert_eq!(code(&error), "22001", "{sql}");
    }
    for value in ["abcd", "äöüß"] {
        let error = client.execute("INSERT INTO k VALUES (3, $1)", &[&value]).await.expect_err(value);
        assert_eq!(code(&error), "22001", "{value}");
    }
    let copied = client.copy_in::<_, bytes::Bytes>("COPY k FROM STDIN").await.expect("begun");
    let mut copied = std::pin::pin!(copied);
    futures::SinkExt::send(&mut copied, bytes::Bytes::from_static(b"5\tabcd\n")).await.expect("sent");
    assert_eq!(code(&copied.finish().await.expect_err("too long")), "22001");
    assert_eq!(text(&client, "SELECT string_agg(v, '|') FROM k").await, "abc");
    client
        .batch_execute("ALTER TABLE k ALTER COLUMN v TYPE VARCHAR(4); UPDATE k SET v = 'abcd'")
        .await
        .expect("longer");
    client.batch_execute("ALTER TABLE k ALTER COLUMN v TYPE TEXT; UPDATE k SET v = 'abcdefgh'").await.expect("any");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_without_precision_are_sent_without_zeros_behind_them() {
    let server = server().await;
    let client = connect(&server).await;
    client
        .batch_execute("CREATE TABLE t (n NUMERIC, d NUMERIC(10, 2)); INSERT INTO t VALUES (1.5, 2.5), (5, 5)")
        .await
        .expect("made");
    for (sql, expected) in [
        ("SELECT n FROM t WHERE n = 1.5", "1.5"),
        ("SELECT n FROM t WHERE n = 5", "5"),
        ("SELECT n + 1 FROM t WHERE n = 5", "6"),
        ("SELECT d FROM t WHERE n = 5", "5.00"),
        ("SELECT d * 2 FROM t WHERE n = 5", "10.00"),
    ] {
        assert_eq!(text(&client, sql).await, expected, "{sql}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn coalesce_takes_null_and_parameters_of_any_type() {
    let server = server().await;
    let client = connect(&server).await;
    let made = "CREATE TABLE t (c TIME, u UUID, b BYTEA); INSERT INTO t VALUES ('10:20:30', '00000000-0000-0000-0000-000000000001', '\\x6162')";
    client.batch_execute(made).await.expect("made");
    for (sql, of_type) in [
        ("SELECT coalesce(c, $1) FROM t", Type::TIME),
        ("SELECT coalesce(u, $1) FROM t", Type::UUID),
        ("SELECT coalesce(b, $1) FROM t", Type::BYTEA),
        ("SELECT coalesce($1, u) FROM t", Type::UUID),
    ] {
        for declared in [vec![], vec![of_type.clone()]] {
            let statement = client.prepare_typed(sql, &declared).await.expect(sql);
            assert_eq!(
                (statement.params(), statement.columns()[0].type_()),
                (&[of_type.clone()][..], &of_type),
                "{sql}"
            );
        }
    }
    assert_eq!(text(&client, "SELECT coalesce(c, NULL) FROM t").await, "10:20:30");
    assert_eq!(text(&client, "SELECT coalesce(NULL, u, NULL) FROM t").await, "00000000-0000-0000-0000-000000000001");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_without_a_schema_are_looked_for_in_the_search_path() {
    let server = server().await;
    let client = connect(&server).await;
    let made = "CREATE SCHEMA s; CREATE TABLE t (a INT); INSERT INTO t VALUES (1); CREATE TABLE p (a INT); \
                CREATE TABLE s.t (a INT PRIMARY KEY); INSERT INTO s.t VALUES (2)";
    client.batch_execute(made).await.expect("made");
    assert_eq!(text(&client, "SELECT a FROM t").await, "1");
    assert_eq!(text(&client, "SELECT current_schema()").await, "public");
    client.batch_execute("SET search_path TO s, public").await.expect("set");
    for (sql, expected) in [
        ("SELECT a FROM t", "2"),
        ("SELECT t.a FROM t JOIN public.t AS o ON o.a < t.a", "2"),
        ("SELECT a FROM public.t", "1"),
        ("SELECT count(*) FROM p", "0"),
        ("WITH t AS (SELECT 7 AS a) SELECT a FROM t", "7"),
        ("SELECT current_schema()", "s"),
        ("SELECT current_schemas(true)", "{pg_catalog,s,public}"),
        ("SELECT 't'::regclass::oid = 's.t'::regclass::oid", "t"),
        ("SELECT pg_table_is_visible('s.t'::regclass::oid)", "t"),
    ] {
        assert_eq!(text(&client, sql).await, expected, "{sql}");
    }
    assert_eq!(client.query_one("SELECT a FROM t WHERE a = $1", &[&2i32]).await.expect("found").get::<_, i32>(0), 2);
    client
        .batch_execute("CREATE TABLE n (b INT REFERENCES t (a)); INSERT INTO n VALUES (2); UPDATE t SET a = a")
        .await
        .expect("written");
    client.batch_execute("INSERT INTO n VALUES (1)").await.expect_err("no such key in s.t");
    let copied = client.copy_in::<_, bytes::Bytes>("COPY n FROM STDIN").await.expect("begun");
    let mut copied = std::pin::pin!(copied);
    futures::SinkExt::send(&mut copied, bytes::Bytes::from_static(b"2\n")).await.expect("sent");
    copied.finish().await.expect("copied");
    assert_eq!(text(&client, "SELECT count(*) FROM s.n").await, "2");
    client.batch_execute("ALTER TABLE n ADD COLUMN c TEXT; TRUNCATE n; DROP TABLE n").await.expect("dropped");
    client.batch_execute("CREATE TEMP TABLE t (a INT)").await.expect("made");
    assert_eq!(text(&client, "SELECT count(*) FROM t").await, "0", "temporary tables come first");
    client.batch_execute("DROP TABLE t").await.expect("dropped");
    // A setting counts for the next statement of the same text, and until the end of its transaction.
    client
        .batch_execute("BEGIN; SET LOCAL search_path = public; INSERT INTO t VALUES (5); COMMIT")
        .await
        .expect("inserted");
    assert_eq!(text(&client, "SELECT count(*) FROM public.t").await, "2");
    assert_eq!(text(&client, "SELECT count(*) FROM t").await, "1");
    client.batch_execute("SET search_path = s").await.expect("set");
    assert_eq!(code(&client.batch_execute("SELECT * FROM p").await.expect_err("is elsewhere")), "42P01");
    assert_eq!(text(&client, "SELECT pg_table_is_visible('public.p'::regclass::oid)").await, "f");
    client.batch_execute("RESET search_path").await.expect("reset");
    assert_eq!(text(&client, "SELECT max(a) FROM t").await, "5");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_that_are_stored_as_texts_have_the_texts_of_postgresql() {
    let server = server().await;
    let client = connect(&server).await;
    client.batch_execute("CREATE TABLE t (s TEXT); SET TIME ZONE 'Europe/Berlin'").await.expect("made");
    for (of_type, binary, expected) in [
        (Type::TIMESTAMP, "0002b58160a11780", "2024-02-29 10:20:30"),
        (Type::TIMESTAMPTZ, "0002b58160a11780", "2024-02-29 11:20:30+01"),
        (Type::BYTEA, "6162", "\\x6162"),
        (Type::BOOL, "01", "true"),
        (Type::INT4_ARRAY, "000000010000000000000017000000020000000100000004000000010000000400000002", "{1,2}"),
        (Type::FLOAT8, "4415af1d78b58c40", "1e+20"),
        (Type::INT8, "0000000000000007", "7"),
    ] {
        for sql in ["INSERT INTO t VALUES ($1) RETURNING s", "UPDATE t SET s = $1 RETURNING s"] {
            let statement = client.prepare_typed(sql, std::slice::from_ref(&of_type)).await.expect(sql);
            let row = client.query_one(&statement, &[&Raw::of_hex(binary)]).await.expect(sql);
            assert_eq!(row.get::<_, String>(0), expected, "{sql} {of_type}");
        }
        client.batch_execute("TRUNCATE t").await.expect("emptied");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_that_are_cast_to_numeric_keep_their_digits() {
    let server = server().await;
    let client = connect(&server).await;
    let statement = client.prepare("SELECT $1::numeric, $1::numeric::text").await.expect("prepared");
    assert_eq!((statement.params(), statement.columns()[0].name()), (&[Type::NUMERIC][..], "numeric"));
    // 0.0000000000001
    let row = client.query_one(&statement, &[&Raw::of_hex("0001fffc0000000d03e8")]).await.expect("a row");
    assert_eq!(row.get::<_, String>(1), "0.0000000000001");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn uuids_are_items_of_arrays() {
    let server = server().await;
    let client = connect(&server).await;
    let id = "00000000-0000-0000-0000-0000000000ff";
    client
        .batch_execute(&format!("CREATE TABLE t (id UUID, ids UUID[]); INSERT INTO t VALUES ('{id}')"))
        .await
        .expect("made");
    let array = Raw::of_hex(
        "00000001000000000000 0b8600000001000000010000001000000000000000000000000000000 0ff".replace(' ', "").as_str(),
    );
    for sql in [
        "SELECT id = ANY($1::uuid[]) FROM t",
        "SELECT id = ANY($1) FROM t",
        "SELECT $1::uuid[] @> ARRAY[id] FROM t",
        "SELECT id IN (SELECT unnest($1::uuid[])) FROM t",
        "UPDATE t SET ids = $1 RETURNING ids = ARRAY[id]",
    ] {
        let statement = client.prepare(sql).await.expect(sql);
        assert_eq!(statement.params(), [Type::UUID_ARRAY], "{sql}");
        assert!(client.query_one(&statement, &[&array]).await.expect(sql).get::<_, bool>(0), "{sql}");
    }
    let statement =
        client.prepare("SELECT b = ANY($1) FROM (SELECT '\\x61'::bytea AS b) AS q").await.expect("prepared");
    assert_eq!(statement.params(), [Type::BYTEA_ARRAY]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fewer_values_than_columns_are_for_the_first_ones() {
    let server = server().await;
    let client = connect(&server).await;
    client
        .batch_execute(
            "CREATE TABLE t (a INT, b INT DEFAULT 5, c INT); INSERT INTO t VALUES (1), (2); INSERT INTO t SELECT 3, 4",
        )
        .await
        .expect("inserted");
    client.execute("INSERT INTO t VALUES ($1, $2)", &[&6i32, &7i32]).await.expect("inserted");
    assert_eq!(text(&client, "SELECT string_agg(a || ':' || b, ' ' ORDER BY a) FROM t").await, "1:5 2:5 3:4 6:7");
    assert_eq!(code(&client.batch_execute("INSERT INTO t VALUES (1, 2, 3, 4)").await.expect_err("too many")), "42601");
    server.stop().await;
}
