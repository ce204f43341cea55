//! Types that only PostgreSQL has, as its clients see them: TIME WITH TIME ZONE, INET, CIDR, BIT, arrays of several
//! dimensions, texts of a length; and what its functions do beyond SELECT. Expected values are those of PostgreSQL 15.

use std::error::Error;
use std::time::Duration;

use bytes::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::postgres::{code, connect, server, text};

/// A value in binary format, as it is sent.
#[derive(Debug, PartialEq)]
pub struct Raw(Vec<u8>);

impl Raw {
    pub fn of_hex(hex: &str) -> Raw {
        Raw(bytes(hex))
    }
}

impl<'a> FromSql<'a> for Raw {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Raw(raw.to_vec()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl ToSql for Raw {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_in_a_normal_form_have_their_types_and_both_formats() {
    let server = server().await;
    let client = connect(&server).await;
    for (value, of_type, shown, binary) in [
        ("'12:00:00.5+02:00'::timetz", Type::TIMETZ, "12:00:00.5+02", "0000000a0ef35120ffffe3e0"),
        ("'24:00-15:59'::timetz", Type::TIMETZ, "24:00:00-15:59", "000000141dd760000000e0c4"),
        ("'10.0.0.1/32'::inet", Type::INET, "10.0.0.1", "022000040a000001"),
        ("'10.0.0.1/8'::inet", Type::INET, "10.0.0.1/8", "020800040a000001"),
        ("'::1'::inet", Type::INET, "::1", "0380001000000000000000000000000000000001"),
        ("'10'::cidr", Type::CIDR, "10.0.0.0/8", "020801040a000000"),
        ("'1010000011'::varbit", Type::VARBIT, "1010000011", "0000000aa0c0"),
        ("'101'::bit(3)", Type::BIT, "101", "00000003a0"),
        ("''::varbit", Type::VARBIT, "", "00000000"),
    ] {
        assert_eq!(text(&client, &format!("SELECT {value}")).await, shown, "{value}");
        let row = client.query_one(&format!("SELECT {value}"), &[]).await.expect(value);
        assert_eq!(*row.columns()[0].type_(), of_type, "{value}");
        assert_eq!(row.get::<_, Raw>(0), Raw(bytes(binary)), "{value}");
        // Back as a parameter, which has the type that the client declares.
        let sql = format!("SELECT $1 = {value}, $1");
        let statement = client.prepare_typed(&sql, std::slice::from_ref(&of_type)).await.expect(value);
        let row = client.query_one(&statement, &[&Raw(bytes(binary))]).await.expect(value);
        assert!(row.get::<_, bool>(0), "{value}");
        assert_eq!((row.columns()[1].type_(), row.get::<_, Raw>(1)), (&of_type, Raw(bytes(binary))), "{value}");
    }
    for (of_type, wrong) in [(Type::TIMETZ, "00"), (Type::INET, "0221000400000000"), (Type::CIDR, "020801040a000001")] {
        let statement = client.prepare_typed("SELECT $1", std::slice::from_ref(&of_type)).await.expect("prepared");
        let error = client.query(&statement, &[&Raw(bytes(wrong))]).await.expect_err(wrong);
        assert_eq!(code(&error), "22P03", "{wrong}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_have_the_types_of_their_tables() {
    let server = server().await;
    let client = connect(&server).await;
    client
        .batch_execute(
            "CREATE TYPE mood AS ENUM ('sad', 'ok');
             CREATE TABLE t (a inet, b timetz, c json, d mood, e varchar[], f bit(3), g mood[]);
             INSERT INTO t VALUES ('::1', '10:00+00', '{}', 'ok', '{a}', '101', '{sad}'), (NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        )
        .await
        .expect("made");
    let statement = client.prepare("SELECT * FROM t").await.expect("prepared");
    let names: Vec<&str> = statement.columns().iter().map(|column| column.type_().name()).collect();
    assert_eq!(names, ["inet", "timetz", "json", "mood", "_varchar", "bit", "_text"]);
    let rows = client.query(&statement, &[]).await.expect("rows");
    assert_eq!(rows.len(), 2);
    let of_catalog = "SELECT string_agg(format_type(atttypid, atttypmod), ' ' ORDER BY attnum) FROM pg_attribute \
                      WHERE attrelid = 't'::regclass AND attnum BETWEEN 1 AND 3";
    assert_eq!(text(&client, of_catalog).await, "inet time with time zone json");
    for (sql, oid) in [
        ("pg_typeof(1::smallint)::oid", "21"),
        ("'timetz'::regtype::oid", "1266"),
        ("(SELECT typarray FROM pg_type WHERE typname = 'inet')", "1041"),
    ] {
        assert_eq!(text(&client, &format!("SELECT {sql}")).await, oid, "{sql}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_and_floats_are_written_as_postgresql_writes_them() {
    let server = server().await;
    let client = connect(&server).await;
    for (sql, expected) in [
        ("CAST(CAST('1e20' AS DOUBLE PRECISION) AS VARCHAR)", "1e+20"),
        ("CAST(CAST('1e-5' AS DOUBLE PRECISION) AS VARCHAR)", "1e-05"),
        ("CAST(CAST('Infinity' AS DOUBLE PRECISION) AS VARCHAR)", "Infinity"),
        ("CAST(CAST('1e15' AS DOUBLE PRECISION) AS VARCHAR)", "1e+15"),
        ("CAST(CAST('-0' AS DOUBLE PRECISION) AS VARCHAR)", "-0"),
        ("CAST(1.5::real AS TEXT)", "1.5"),
        ("'x' || 1e20::float8", "x1e+20"),
        ("'ab'::char(4)", "ab  "),
        ("'abc'::char(2)", "ab"),
        ("'äöü'::varchar(2)", "äö"),
        ("ARRAY[['a', 'b'], ['c', NULL]]", "{{a,b},{c,NULL}}"),
        ("'12:34:56.789'::time(1)", "12:34:56.8"),
    ] {
        assert_eq!(text(&client, &format!("SELECT {sql}")).await, expected, "{sql}");
    }
    let row = client.query_one("SELECT ARRAY[[1, 2], [3, NULL]]::int[][]", &[]).await.expect("a row");
    let words = [2, 1, 23, 2, 1, 2, 1, 4, 1, 4, 2, 4, 3, -1];
    assert_eq!(row.get::<_, Raw>(0), Raw(words.into_iter().flat_map(i32::to_be_bytes).collect()));
    let error = client.query_one("SELECT ARRAY[[1], [2, 3]]::int[][]", &[]).await.expect_err("uneven");
    assert_eq!(code(&error), "22000");
    let statement = client.prepare_typed("SELECT $1::varchar[]", &[Type::TEXT_ARRAY]).await.expect("prepared");
    let row = client.query_one(&statement, &[&vec!["a", "b"]]).await.expect("a row");
    assert_eq!(
        (row.columns()[0].type_(), row.get::<_, Vec<String>>(0)),
        (&Type::VARCHAR_ARRAY, vec!["a".into(), "b".into()])
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn series_have_a_row_per_value() {
    let server = server().await;
    let client = connect(&server).await;
    let numbers = async |sql: &str| -> Vec<i64> {
        client
            .query(sql, &[])
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error:?}"))
            .iter()
            .map(|row| row.get(0))
            .collect()
    };
    assert_eq!(numbers("SELECT generate_series(1, 3)").await, [1, 2, 3]);
    assert_eq!(numbers("SELECT generate_series(1, 3) * 2 AS a ORDER BY a DESC").await, [6, 4, 2]);
    assert_eq!(numbers("SELECT generate_series(1, 0)").await, [0i64; 0]);
    assert_eq!(numbers("SELECT count(*) FROM generate_series(1, 5)").await, [5]);
    assert_eq!(numbers("SELECT max(generate_series) FROM (SELECT generate_series(1, 3)) s").await, [3]);
    let statement =
        client.prepare("SELECT generate_series(1, 3), generate_series(1, 2)::int AS b").await.expect("prepared");
    assert_eq!(statement.columns().iter().map(|column| column.name()).collect::<Vec<_>>(), ["generate_series", "b"]);
    client
        .batch_execute("CREATE TABLE s (a INT); INSERT INTO s SELECT generate_series(1, 42)")
        .await
        .expect("inserted");
    assert_eq!(numbers("SELECT count(*) FROM s").await, [42]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn advisory_locks_keep_others_waiting() {
    let server = server().await;
    let (first, second) = (connect(&server).await, connect(&server).await);
    assert_eq!(text(&first, "SELECT pg_advisory_lock(7)").await, "");
    assert_eq!(text(&second, "SELECT pg_try_advisory_lock(7)").await, "f");
    assert_eq!(text(&second, "SELECT pg_try_advisory_lock(0, 7)").await, "t");
    // It waits, and is cancelled.
    second.batch_execute("SET statement_timeout = '200ms'").await.expect("set");
    let error = second.simple_query("SELECT pg_advisory_lock(7)").await.expect_err("cancelled");
    assert_eq!(code(&error), "57014");
    second.batch_execute("RESET statement_timeout").await.expect("reset");
    let waiting = tokio::spawn(async move {
        second.simple_query("SELECT pg_advisory_lock(7)").await.expect("locked");
        second
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished());
    assert_eq!(text(&first, "SELECT pg_advisory_unlock(7)").await, "t");
    let second = waiting.await.expect("no panic");
    assert_eq!(text(&first, "SELECT pg_advisory_unlock(7)").await, "f");
    // One of a transaction ends with it.
    first.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(8)").await.expect("locked");
    assert_eq!(text(&second, "SELECT pg_try_advisory_xact_lock(8)").await, "f");
    first.batch_execute("ROLLBACK").await.expect("ended");
    assert_eq!(text(&second, "SELECT pg_try_advisory_xact_lock(8)").await, "t");
    // Those of a session that has ended are free.
    drop(second);
    for _ in 0..100 {
        if text(&first, "SELECT pg_try_advisory_lock(7)").await == "t" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(text(&first, "SELECT pg_advisory_unlock(7), pg_sleep(0)").await, "t");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_can_end_itself() {
    let server = server().await;
    let client = connect(&server).await;
    let error =
        client.simple_query("SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(5)").await.expect_err("ended");
    assert_eq!(code(&error), "57P01");
    let other = connect(&server).await;
    assert_eq!(text(&other, "SHOW max_prepared_transactions").await, "0");
    assert_eq!(code(&other.batch_execute("SET CONSTRAINTS ALL DEFERRED").await.expect_err("refused")), "0A000");
    other.batch_execute("SET CONSTRAINTS ALL IMMEDIATE").await.expect("accepted");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_stored_as_postgresql_stores_them() {
    let server = server().await;
    let client = connect(&server).await;
    let made = "SET TIME ZONE 'America/New_York'; \
                CREATE TABLE t (id INT PRIMARY KEY, n NUMERIC(10, 2), i INT, d DATE, l TIMESTAMP, z TIMESTAMPTZ)";
    client.batch_execute(made).await.expect("made");
    for insert in [
        "INSERT INTO t VALUES (1, 1.005, 2.5, '2024-06-01 12:00:00', '2024-06-01 12:00:00+02', '2024-06-01 00:00:00')",
        "INSERT INTO t VALUES (2, '-1.005', 2.5::float8, '2024-06-01 00:00+00'::timestamptz,
                               '2024-06-01 00:00+00'::timestamptz, '2024-06-01 00:00'::timestamp)",
        "INSERT INTO t SELECT 3, 1.005::float8, 3.5, NULL, NULL, NULL",
        "UPDATE t SET n = n * 1.19, i = i * 1.5 WHERE id = 3",
    ] {
        client.batch_execute(insert).await.expect(insert);
    }
    // The first execution is planned; the others find their row by its key.
    let update = client.prepare_typed("UPDATE t SET i = $2 WHERE id = $1", &[Type::INT4, Type::FLOAT8]).await;
    let update = update.expect("prepared");
    for (number, expected) in [(4.5, "4"), (5.5, "6"), (6.5, "6"), (7.5, "8")] {
        assert_eq!(client.execute(&update, &[&3, &number]).await.expect("updated"), 1);
        assert_eq!(text(&client, "SELECT i::text FROM t WHERE id = 3").await, expected, "{number}");
    }
    for (id, expected) in [
        (1, "1.01 3 2024-06-01 2024-06-01 12:00:00 1717214400"),
        (2, "-1.01 2 2024-05-31 2024-05-31 20:00:00 1717214400"),
        (3, "1.20 8"),
    ] {
        let columns = "concat_ws(' ', n, i, d::text, l::text, extract(epoch FROM z)::bigint)";
        assert_eq!(text(&client, &format!("SELECT {columns} FROM t WHERE id = {id}")).await, expected);
    }
    for wrong in ["INSERT INTO t (id, i) VALUES (9, 3e9)", "INSERT INTO t (id, n) VALUES (9, 1e8)"] {
        assert_eq!(code(&client.batch_execute(wrong).await.expect_err(wrong)), "22003", "{wrong}");
    }
    client.batch_execute("DISCARD ALL").await.expect("discarded");
    client.batch_execute("INSERT INTO t (id, i) VALUES (4, 1.5)").await.expect("still rounded");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_times_are_those_of_postgresql() {
    let server = server().await;
    let client = connect(&server).await;
    // As PostgreSQL 15 answers.
    for (value, expected) in [
        ("extract(second FROM time '13:30:25.575401')", "25.575401"),
        ("extract(millisecond FROM timestamp '2020-05-26 13:30:25.575401')", "25575.401"),
        ("date_part('second', interval '1.5 seconds')", "1.5"),
        ("extract(epoch FROM timetz '13:30:25.575401-04')", "63025.575401"),
        ("extract(year FROM date 'infinity')", "Infinity"),
        ("extract(month FROM date 'infinity') IS NULL", "true"),
        ("date_part('year', date '-infinity')", "-Infinity"),
        ("extract(year FROM date '2020-08-11 BC')", "-2020"),
        ("make_date(-44, 3, 15) = date '0044-03-15 BC'", "true"),
        ("pg_typeof(date_trunc('month', date '2020-08-11'))", "timestamp with time zone"),
    ] {
        assert_eq!(text(&client, &format!("SELECT ({value})::text")).await, expected, "{value}");
    }
    let wrong = "SELECT extract(hour FROM date '2020-08-11')";
    assert_eq!(code(&client.batch_execute(wrong).await.expect_err(wrong)), "0A000");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_times_read_as_in_postgresql() {
    let server = server().await;
    let client = connect(&server).await;
    // As PostgreSQL 15 answers.
    for (value, expected) in [
        ("date 'January 8, 1999'", "1999-01-08"),
        ("'1/8/1999'::date", "1999-01-08"),
        ("'10:11 PM'::time", "22:11:00"),
        ("'23:59:59.9999999'::time", "24:00:00"),
        ("timestamp 'Feb 10 17:32:01 1997 PST'", "1997-02-10 17:32:01"),
        ("timestamptz 'Feb 10 17:32:01 1997 PST' = '1997-02-11 01:32:01+00'", "true"),
        ("'00:01 PDT'::timetz", "00:01:00-07"),
        ("date 'today' = current_date", "true"),
    ] {
        assert_eq!(text(&client, &format!("SELECT ({value})::text")).await, expected, "{value}");
    }
    client.batch_execute("SET datestyle = 'ISO, DMY'").await.expect("set");
    assert_eq!(text(&client, "SELECT '1/8/1999'::date::text").await, "1999-08-01");
    let wrong = "SELECT '1/18/1999'::date";
    assert!(client.batch_execute(wrong).await.is_err());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_have_the_types_of_postgresql() {
    let server = server().await;
    let client = connect(&server).await;
    let sql = "SELECT row_number() OVER (), rank() OVER (ORDER BY a), array_length(ARRAY[a, a], 1), md5('x'), current_schema(), \
               '{}'::\"jsonb\" FROM (VALUES (7)) AS t(a)";
    let row = client.query_one(sql, &[]).await.expect("a row");
    let types: Vec<&Type> = row.columns().iter().map(|column| column.type_()).collect();
    assert_eq!(types, [&Type::INT8, &Type::INT8, &Type::INT4, &Type::TEXT, &Type::NAME, &Type::JSONB]);
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1), row.get::<_, i32>(2)), (1, 1, 2));
    // A parameter that is declared counts.
    let statement = client.prepare_typed("SELECT pg_typeof($1)::text", &[Type::INT2]).await.expect("prepared");
    assert_eq!(statement.params(), [Type::INT2]);
    let name: String = client.query_one(&statement, &[&7_i16]).await.expect("a name").get(0);
    assert_eq!(name, "smallint");
    let statement = client.prepare_typed("SELECT 1", &[Type::INT2]).await.expect("prepared");
    assert_eq!(client.query_one(&statement, &[&7_i16]).await.expect("a row").get::<_, i32>(0), 1);
    // Without a declared type, a number of these functions is a text.
    for sql in ["SELECT pg_sleep($1)", "SELECT pg_try_advisory_lock($1)"] {
        client.query_one(sql, &[&"0"]).await.expect(sql);
        assert_eq!(code(&client.query_one(sql, &[&"x"]).await.expect_err(sql)), "22023", "{sql}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_mean_what_they_mean_in_postgresql() {
    let server = server().await;
    let client = connect(&server).await;
    for (sql, expected) in [
        ("SELECT array_remove(ARRAY[1, 2, 1, NULL], 1)", "{2,NULL}"),
        ("SELECT array_remove(ARRAY[1, NULL, NULL, 3], NULL)", "{1,3}"),
        ("SELECT array_replace(ARRAY[1, 2, NULL, 4, NULL], NULL, 5)", "{1,2,5,4,5}"),
        ("SELECT array_replace(ARRAY['A', 'B', 'DD', 'B'], 'B', 'CC')", "{A,CC,DD,CC}"),
        ("SELECT regexp_matches('foobarbequebaz', '(bar)(beque)')", "{bar,beque}"),
        ("SELECT regexp_matches('foobarbequebaz', 'barbeque')", "{barbeque}"),
        ("SELECT regexp_matches('foobarbequebaz', '(bar)(.+)?(beque)')", "{bar,NULL,beque}"),
        ("SELECT count(*) FROM regexp_matches('foobarbequebazilbarfbonk', '(b[^b]+)(b[^b]+)', 'g')", "2"),
        ("SELECT m[2] FROM regexp_matches('a1b2', '(b)(2)') AS m", "2"),
        ("SELECT count(*) FROM (SELECT regexp_matches('a', 'x')) s", "0"),
        ("SELECT E'De\\\\123dBeEf'::bytea", "\\x4465536442654566"),
        ("SELECT '\\xDe AD'::bytea", "\\xdead"),
        ("SELECT '\\x'::bytea", "\\x"),
        ("SELECT encode('\\x1234567890abcdef00', 'hex')", "1234567890abcdef00"),
        ("SELECT encode('\\x1234567890abcdef00', 'escape')", "\u{12}4Vx\\220\\253\\315\\357\\000"),
        ("SELECT decode('De\\123dBeEf\\\\', 'escape')", "\\x44655364426545665c"),
        ("SELECT sha256('')", "\\xe3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ("SELECT '{{a,b},{c,d}}'::text[]", "{{a,b},{c,d}}"),
        ("SELECT ('{{1,2},{3,4}}'::int[])[2][1]", "3"),
        ("SELECT ARRAY[['a','bc'],['def','hijk']]::text[]::varchar[]", "{{a,bc},{def,hijk}}"),
        ("SELECT chr(65)", "A"),
        ("SELECT array_fill(7, ARRAY[2, 2])", "{{7,7},{7,7}}"),
        ("SELECT array_upper(ARRAY[[1, 2, 3]], 2)", "3"),
        ("SELECT quote_literal(42.5)", "'42.5'"),
        ("SELECT quote_literal(E'a\\\\b')", "E'a\\\\b'"),
        ("SELECT quote_nullable(NULL)", "NULL"),
    ] {
        assert_eq!(text(&client, sql).await, expected, "{sql}");
    }
    for wrong in [
        "SELECT chr(0)",
        "SELECT E'De\\\\678dBeEf'::bytea",
        "SELECT '\\xDeAdBeEx'::bytea",
        "SELECT '{{1},{2,3}}'::int[]",
        "SELECT '{{},{}}'::text[]",
    ] {
        client.simple_query(wrong).await.expect_err(wrong);
    }
    let row = client.query_one("SELECT array_remove('{1,2}'::int[], 1), chr(65)", &[]).await.expect("a row");
    let columns: Vec<_> = row.columns().iter().map(|column| (column.name(), column.type_())).collect();
    assert_eq!(columns, [("array_remove", &Type::INT4_ARRAY), ("chr", &Type::TEXT)]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn json_has_the_results_of_postgresql() {
    let server = server().await;
    let client = connect(&server).await;
    // As PostgreSQL 15 gives them.
    for (sql, expected) in [
        ("SELECT string_agg(key || value::text, ' ' ORDER BY key) FROM json_each('{\"b\":1,\"a\":[2]}')", "a[2] b1"),
        ("SELECT string_agg(e.key || e.value::text, ' ' ORDER BY e.key) FROM json_each('{\"b\":1}') AS e", "b1"),
        ("SELECT json_object('{a,b}', '{1,2}')", "{\"a\" : \"1\", \"b\" : \"2\"}"),
        ("SELECT json_object('{a,1,b,NULL}')", "{\"a\" : \"1\", \"b\" : null}"),
        ("SELECT '{\"b\":1,\"a\":2}'::jsonb || '{\"c\":[1,2]}'", "{\"a\": 2, \"b\": 1, \"c\": [1, 2]}"),
        ("SELECT pg_typeof('{}'::jsonb || '{}'::jsonb)", "jsonb"),
    ] {
        assert_eq!(text(&client, sql).await, expected, "{sql}");
    }
    client.batch_execute("CREATE TABLE documents (d JSONB)").await.expect("a table");
    let statement = client.prepare("INSERT INTO documents VALUES ($1)").await.expect("prepared");
    assert_eq!(statement.params(), [Type::JSONB]);
    client.batch_execute("INSERT INTO documents VALUES ('{\"b\":1,\"a\":2}')").await.expect("a row");
    let statement = client.prepare("SELECT d, d -> 'a', d ->> 'a', d @> '{}' FROM documents").await.expect("prepared");
    let types: Vec<&Type> = statement.columns().iter().map(|column| column.type_()).collect();
    assert_eq!(types, [&Type::JSONB, &Type::JSONB, &Type::TEXT, &Type::BOOL]);
    assert_eq!(text(&client, "SELECT d FROM documents").await, "{\"a\": 2, \"b\": 1}");
    server.stop().await;
}
