//! ATTACH and DETACH: tables, views and schemas of another database, read next to the session's own.

use std::path::Path;
use std::sync::Arc;

use freestone::{Access, Database, ErrorKind, Options, Session};
use tempfile::TempDir;

use crate::temporary::rows;

fn open(path: &Path) -> Arc<Database> {
    Database::open(path, Options { threads: 2, memory_limit: Some(256 << 20), ..Options::default() }).expect("opens")
}

async fn run(session: &Session, sql: &str) {
    rows(session, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

async fn check(session: &Session, sql: &str, expected: &str) {
    assert_eq!(rows(session, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")), expected, "{sql}");
}

/// A database with a table `t`, and another one, which is open and has a table `t`, too.
async fn two() -> (TempDir, Session, Session) {
    let folder = tempfile::tempdir().expect("a folder");
    let own = open(&folder.path().join("own")).session();
    run(&own, "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR)").await;
    run(&own, "INSERT INTO t SELECT value, 'own ' || value FROM generate_series(1, 5) AS s(value)").await;
    let other = open(&folder.path().join("other")).session();
    for sql in [
        "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR, twice INT GENERATED ALWAYS AS (id * 2))",
        "INSERT INTO t SELECT value, CASE WHEN value % 3 > 0 THEN 'other ' || value END FROM generate_series(3, 5000) AS s(value)",
        "CREATE SCHEMA s",
        "CREATE TABLE s.d (id INT, \"Day\" DATE, PRIMARY KEY (id)) WITH (preset = 'row')",
        "INSERT INTO s.d VALUES (3, '2024-01-31'), (4, NULL)",
        "CREATE MACRO plus(x) AS x + 1",
        "CREATE VIEW v AS SELECT t.id, d.\"Day\" FROM t JOIN s.d ON t.id = d.id",
        "CREATE VIEW w AS SELECT count(*) AS n FROM v",
    ] {
        run(&other, sql).await;
    }
    run(&own, &format!("ATTACH '{}' AS other (READ_ONLY)", folder.path().join("other").display())).await;
    (folder, own, other)
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_and_views_of_another_database() {
    let (_folder, own, _other) = two().await;
    for (sql, expected) in [
        ("SELECT count(*), min(id), max(name) FROM other.t", "4998,3,other 998"),
        ("SELECT count(*), min(id), max(name) FROM t", "5,1,own 5"),
        ("FROM other.public.t ORDER BY id LIMIT 2", "3,NULL,6;4,other 4,8"),
        (
            "SELECT a.name, b.name FROM t a JOIN other.t b ON a.id = b.id ORDER BY 1",
            "own 3,NULL;own 4,other 4;own 5,other 5",
        ),
        ("SELECT t.name FROM other.t WHERE t.id = 4999", "other 4999"),
        ("SELECT * FROM other.s.d ORDER BY id", "3,2024-01-31;4,NULL"),
        ("SELECT * FROM other.v ORDER BY id", "3,2024-01-31;4,NULL"),
        ("SELECT n FROM other.w", "2"),
        ("SELECT * EXCLUDE (name) FROM other.t WHERE id < 5 ORDER BY ALL", "3,6;4,8"),
        ("WITH t AS (SELECT 1 AS id) SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM other.t)", "1,4998"),
        ("SELECT count(*) FROM (SELECT id FROM t UNION ALL SELECT id FROM other.t)", "5003"),
        ("SELECT id FROM t WHERE id NOT IN (SELECT id FROM other.t) ORDER BY id", "1;2"),
        ("SELECT sum(twice) FROM other.t WHERE id <= 4", "14"),
        ("SELECT database_name, readonly FROM duckdb_databases() ORDER BY ALL", "freestone,false;other,true"),
    ] {
        check(&own, sql, expected).await;
    }
    let error = rows(&own, "CREATE VIEW x AS SELECT * FROM other.t").await.expect_err("a view of others");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    run(&own, "CREATE TEMP VIEW x AS SELECT name FROM other.t WHERE id = 7").await;
    check(&own, "SELECT name FROM x", "other 7").await;
    // Rows come over by statements that write to the own database.
    run(&own, "CREATE TABLE c AS SELECT * FROM other.t WHERE id < 10").await;
    run(&own, "INSERT INTO c (id, name, twice) SELECT id, name, twice FROM other.t WHERE id = 10").await;
    run(&own, "UPDATE t SET name = o.name FROM other.t AS o WHERE o.id = t.id AND o.name IS NOT NULL").await;
    check(&own, "SELECT count(*) FROM c", "8").await;
    check(&own, "SELECT name FROM t ORDER BY id", "own 1;own 2;own 3;other 4;other 5").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_of_the_other_database_are_seen() {
    let (_folder, own, other) = two().await;
    for query in ["SELECT count(*) FROM other.t", "SELECT count(name), max(id) FROM other.t WHERE id > 4998"] {
        let before = rows(&own, query).await.expect("read");
        check(&own, query, &before).await;
    }
    run(&other, "INSERT INTO t (id, name) VALUES (9000, 'new')").await;
    run(&other, "DELETE FROM t WHERE id = 4999").await;
    check(&own, "SELECT count(*) FROM other.t", "4998").await;
    check(&own, "SELECT count(name), max(id) FROM other.t WHERE id > 4998", "2,9000").await;
    run(&other, "ALTER TABLE t SET DESIGN (preset = 'row')").await;
    run(&other, "VACUUM").await;
    check(&own, "SELECT count(*), max(name) FROM other.t", "4998,other 998").await;
    run(&other, "ALTER TABLE t ADD COLUMN x INT DEFAULT 7").await;
    check(&own, "SELECT x FROM other.t WHERE id = 3", "7").await;
    run(&other, "DROP VIEW w").await;
    assert_eq!(rows(&own, "SELECT * FROM other.w").await.expect_err("dropped").kind(), ErrorKind::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_only_read_and_only_while_it_is_attached() {
    let (folder, own, _other) = two().await;
    for sql in [
        "INSERT INTO other.t (id) VALUES (1)",
        "DELETE FROM other.t",
        "UPDATE other.t SET name = 'x'",
        "DROP TABLE other.t",
        "CREATE TABLE other.x (a INT)",
        "ALTER TABLE other.t ADD COLUMN y INT",
    ] {
        let error = rows(&own, sql).await.expect_err(sql);
        assert!(matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Denied | ErrorKind::Invalid), "{sql}: {error}");
    }
    check(&own, "SELECT count(*) FROM other.t", "4998").await;
    let place = folder.path().join("other");
    let place = place.display();
    for (sql, kind, part) in [
        (format!("ATTACH '{place}' AS other (READ_ONLY)"), ErrorKind::Exists, "a database other is attached"),
        (format!("ATTACH '{place}' AS public (READ_ONLY)"), ErrorKind::Invalid, "public is the name of a schema"),
        (format!("ATTACH '{place}' AS x"), ErrorKind::Unsupported, "for reading only"),
        (format!("ATTACH '{place}' AS x (TYPE sqlite, READ_ONLY)"), ErrorKind::Unsupported, "type sqlite"),
        (format!("ATTACH '{place}' AS x (READ_ONLY, SPEED 3)"), ErrorKind::Invalid, "unknown option speed"),
        ("ATTACH 'no such folder' AS x (READ_ONLY)".into(), ErrorKind::Io, "no such folder"),
        ("DETACH x".into(), ErrorKind::NotFound, "no attached database x"),
    ] {
        let error = rows(&own, &sql).await.expect_err(&sql);
        assert_eq!(error.kind(), kind, "{sql}: {error}");
        assert!(error.to_string().contains(part), "{sql}: {error}");
    }
    run(&own, &format!("ATTACH IF NOT EXISTS '{place}' AS other (READ_ONLY)")).await;
    run(&own, "DETACH other").await;
    run(&own, "DETACH DATABASE IF EXISTS other").await;
    for sql in ["SELECT count(*) FROM other.t", "SELECT * FROM other.v"] {
        assert_eq!(rows(&own, sql).await.expect_err(sql).kind(), ErrorKind::NotFound, "{sql}");
    }
    let limited = own.database().session_with(Access { files: false, ..Access::default() });
    let error = rows(&limited, &format!("ATTACH '{place}' AS x (READ_ONLY)")).await.expect_err("no files");
    assert_eq!(error.kind(), ErrorKind::Denied);
}

#[tokio::test(flavor = "multi_thread")]
async fn running_statements_are_listed() {
    let database = Database::in_memory(Options { threads: 2, ..Options::default() }).expect("opens");
    let (own, other) = (database.session(), database.session_with(Access { admin: false, ..Access::default() }));
    check(&own, "SELECT count(*), max(statement) LIKE 'SELECT count%' FROM freestone_statements()", "1,true").await;
    let waiting = own.sql("SELECT value FROM generate_series(1, 1000000) AS s(value)").await.expect("begins");
    check(
        &other,
        "SELECT count(*), count(statement), count(DISTINCT session), min(rows) FROM freestone_statements()",
        "2,1,2,0",
    )
    .await;
    drop(waiting);
    check(&other, "SELECT count(*) FROM freestone_statements()", "1").await;
}
