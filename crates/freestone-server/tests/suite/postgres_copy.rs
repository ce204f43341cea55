//! COPY over PostgreSQL's protocol: its options, escapes, and the places of errors.

use futures::SinkExt;
use tokio_postgres::Client;
use tokio_postgres::error::DbError;

use crate::postgres::{connect, server, text};

/// Copies data into a table, and gives its rows as text or the error.
async fn copied(client: &Client, options: &str, data: &'static [u8]) -> Result<String, DbError> {
    client.batch_execute("DELETE FROM t").await.expect("emptied");
    let failed = |error: tokio_postgres::Error| error.as_db_error().expect("an error of the server").clone();
    let sink = client.copy_in(&format!("COPY t FROM STDIN {options}")).await.map_err(failed)?;
    futures::pin_mut!(sink);
    sink.send(bytes::Bytes::from_static(data)).await.expect("sent");
    sink.finish().await.map_err(failed)?;
    let row = "coalesce(a::text, '-') || ':' || coalesce(b, '-')";
    Ok(text(client, &format!("SELECT string_agg({row}, ' ' ORDER BY a) FROM t")).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn options_mean_what_they_mean_in_postgresql() {
    let server = server().await;
    let client = connect(&server).await;
    client.batch_execute("CREATE TABLE t (a INT, b TEXT)").await.expect("made");
    for (options, data, expected) in [
        ("", &b"1\t\\x42\\x4a\\x4\n2\t\\x\\xg\\101\n"[..], "1:BJ\u{4} 2:xxgA"),
        ("(HEADER)", b"x\ty\n1\tz\n", "1:z"),
        ("(HEADER match)", b"a\tb\n1\tz\n", "1:z"),
        ("(FORMAT csv)", b"1,\n2,\"\"\n", "1:- 2:"),
        ("(FORMAT csv, ESCAPE '\\')", b"1,\"x\\\"y\\\\\"\n", "1:x\"y\\"),
        ("(FORMAT csv, FORCE_NOT_NULL (b))", b"1,\n", "1:"),
        ("(FORMAT csv, FORCE_NULL (b))", b"1,\"\"\n2,\"z\"\n", "1:- 2:z"),
        ("(FORMAT csv, NULL 'x', FORCE_NULL (b))", b"1,\"x\"\n2,x\n3,\n", "1:- 2:- 3:"),
        ("WITH CSV HEADER FORCE NOT NULL b", b"a,b\n1,\n", "1:"),
        ("(FORMAT csv, HEADER match)", b"a,b\n1,z\n", "1:z"),
        ("(FORMAT csv, QUOTE '''', ESCAPE '^')", b"1,'x^'y'\n", "1:x'y"),
    ] {
        let found = copied(&client, options, data).await.unwrap_or_else(|error| panic!("{options}: {error:?}"));
        assert_eq!(found, expected, "{options}");
    }
    for (sql, expected) in [
        ("COPY (SELECT 1, NULL, 'a') TO STDOUT (FORMAT csv, FORCE_QUOTE *)", "\"1\",,\"a\"\n"),
        (
            "COPY (SELECT 1 AS a, 'x\"\\y' AS b) TO STDOUT (FORMAT csv, FORCE_QUOTE (a), ESCAPE '\\')",
            "\"1\",\"x\\\"\\\\y\"\n",
        ),
        ("COPY (SELECT 1 AS a) TO STDOUT (HEADER)", "a\n1\n"),
    ] {
        let mut stream = Box::pin(client.copy_out(sql).await.expect(sql));
        let mut found = vec![];
        while let Some(part) = futures::TryStreamExt::try_next(&mut stream).await.expect(sql) {
            found.extend_from_slice(&part);
        }
        assert_eq!(String::from_utf8_lossy(&found), expected, "{sql}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_say_the_line_and_the_column() {
    let server = server().await;
    let client = connect(&server).await;
    client.batch_execute("CREATE TABLE t (a INT NOT NULL, b TEXT)").await.expect("made");
    let other = client;
    let column = |line: u64| format!("COPY t, line {line}, column a");
    for (options, data, state, place) in [
        ("", &b"1\tx\nbad\ty\n"[..], "22P02", Some(column(2))),
        ("", b"1\tx\\ny\n\\N\ty\n", "23502", Some(column(2))),
        ("(HEADER)", b"a\tb\n1\tx\nbad\ty\n", "22P02", Some(column(3))),
        ("(FORMAT csv)", b"1,x\nbad,y\n", "22P02", Some(column(2))),
        ("(FORMAT csv, HEADER)", b"a,b\n1,x\nbad,y\n", "22P02", Some(column(3))),
        ("(FORMAT csv, HEADER match)", b"a,b\n1,x\nbad,y\n", "22P02", Some(column(3))),
        ("(FORMAT csv, HEADER match)", b"a,c\n1,x\n", "22P04", Some("COPY t, line 1".to_owned())),
        ("(FORMAT csv)", b"1,x\n2\n", "22P04", Some("COPY t, line 2".to_owned())),
        ("", b"1\tx\n2\n", "22P04", Some("COPY t, line 2".to_owned())),
        ("", b"1\tx\n2\ty\tz\n", "22P04", Some("COPY t, line 2".to_owned())),
        ("(FORMAT csv, FORCE_NULL (b))", b"1,\"open\n", "22P04", Some("COPY t, line 1".to_owned())),
        ("(FORMAT csv, FORCE_NULL (nothing))", b"", "42703", None),
        ("(QUOTE 'x')", b"", "0A000", None),
        ("(FORMAT csv, FORCE_QUOTE *)", b"", "0A000", None),
        ("(NOTHING 1)", b"", "42601", None),
    ] {
        // After a COPY that does not begin, this client sends more than the server expects, as if it had.
        let client = connect(&server).await;
        let error = copied(&client, options, data).await.expect_err(options);
        assert_eq!((error.code().code(), error.where_()), (state, place.as_deref()), "{options}: {error:?}");
        assert_eq!(text(&other, "SELECT count(*) FROM t").await, "0", "{options}");
    }
    server.stop().await;
}
