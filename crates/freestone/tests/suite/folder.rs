//! The folder of a database: backups and their restoration, the space of replaced data, and what a read-only session needs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use freestone::{Access, Database, ErrorKind, Options, Session};

use crate::temporary::rows;

fn open(path: &Path) -> Arc<Database> {
    Database::open(path, Options { threads: 2, memory_limit: Some(256 << 20), ..Options::default() }).expect("opens")
}

async fn run(session: &Session, sql: &str) {
    let rows = async { session.sql(sql).await?.collect().await };
    rows.await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn places() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let (db, backup) = (folder.path().join("db"), folder.path().join("backup"));
    (folder, db, backup)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_brings_everything_back() {
    let (_folder, db, backup) = places();
    let database = open(&db);
    let session = database.session();
    for sql in [
        "CREATE SCHEMA s",
        "CREATE TYPE mood AS ENUM ('good', 'bad')",
        "CREATE TABLE s.t (id SERIAL PRIMARY KEY, m mood, b BIGINT)",
        "CREATE INDEX by_b ON s.t (b)",
        "INSERT INTO s.t (m, b) SELECT 'good', value FROM generate_series(1, 20000)",
        "CREATE VIEW v AS SELECT count(*) AS n FROM s.t",
        "CREATE MACRO twice(x) AS x * 2",
        "COMMENT ON TABLE s.t IS 'a table'",
        "CREATE TEMP TABLE own AS SELECT 7 AS x",
    ] {
        run(&session, sql).await;
    }
    let declared = rows(&session, "SHOW CREATE TABLE s.t").await.expect("shown");
    let statement = format!("BACKUP TO '{}'", backup.display());
    assert!(rows(&session, &statement).await.expect("backed up").starts_with("1,"));
    run(&session, "INSERT INTO s.t (m, b) VALUES ('bad', 1)").await;
    run(&session, "DROP VIEW v").await;
    run(&session, "DROP MACRO twice").await;
    run(&session, "DELETE FROM s.t WHERE id % 2 = 0").await;
    let other = database.session();
    run(&other, "BEGIN").await;
    let before = rows(&other, "SELECT count(*), max(id) FROM s.t").await.expect("reads");
    run(&session, &format!("RESTORE FROM '{}'", backup.display())).await;
    for (sql, expected) in [
        ("SELECT n, twice(n) FROM v", "20000,40000"),
        ("SELECT count(*), max(id), min(m) FROM s.t", "20000,20000,good"),
        ("SELECT x FROM own", "7"),
        ("INSERT INTO s.t (m, b) VALUES ('bad', 5) RETURNING id", "20001"),
        ("SELECT count(*) FROM s.t WHERE b = 5", "2"),
    ] {
        assert_eq!(rows(&session, sql).await.expect(sql), expected, "{sql}");
    }
    assert_eq!(rows(&session, "SHOW CREATE TABLE s.t").await.expect("shown"), declared);
    assert_eq!(rows(&other, "SELECT count(*), max(id) FROM s.t").await.expect("reads"), before, "its own snapshot");
    assert_eq!(rows(&session, "CHECK").await.expect("checks"), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn backups_need_rights_and_no_transaction() {
    let (_folder, db, backup) = places();
    let database = open(&db);
    let (to, from) = (format!("BACKUP TO '{}'", backup.display()), format!("RESTORE FROM '{}'", backup.display()));
    let session = database.session();
    run(&session, "CREATE TABLE t AS SELECT 1 AS a").await;
    run(&session, &to).await;
    for access in [Access { files: false, ..Access::default() }, Access { write: false, ..Access::default() }] {
        let denied = database.session_with(access);
        assert_eq!(rows(&denied, &from).await.expect_err("denied").kind(), ErrorKind::Denied);
    }
    run(&session, "BEGIN").await;
    for sql in [&to, &from] {
        assert_eq!(rows(&session, sql).await.expect_err("in a transaction").kind(), ErrorKind::Transaction);
        run(&session, "ROLLBACK").await;
        run(&session, "BEGIN").await;
    }
    run(&session, "ROLLBACK").await;
    for sql in ["BACKUP", "BACKUP TO x", "BACKUP FROM 'x'", "RESTORE TO 'x'", "RESTORE FROM 'x' y"] {
        assert_eq!(rows(&session, sql).await.expect_err(sql).kind(), ErrorKind::Syntax, "{sql}");
    }
    assert!(rows(&session, "RESTORE FROM '/nowhere/at/all'").await.is_err());
}

fn size(path: &Path) -> u64 {
    let entries = std::fs::read_dir(path).expect("listed").map(|entry| entry.expect("an entry"));
    entries
        .map(|entry| if entry.path().is_dir() { size(&entry.path()) } else { entry.metadata().map_or(0, |m| m.len()) })
        .sum()
}

/// 30 times: the space of replaced data comes back by itself, also if each change has a process of its own.
#[tokio::test(flavor = "multi_thread")]
async fn replaced_data_takes_no_more_space_than_live_data() {
    const ROWS: &str =
        "SELECT value AS a, (value * 7919) % 1000003 AS b, md5(value::VARCHAR) AS c FROM generate_series(1, 60000)";
    let changes: [&[&str]; 4] = [
        &["CREATE OR REPLACE TABLE t AS"],
        &["UPDATE t SET b = b + 1"],
        &["UPDATE t SET b = b + 1 WHERE a % 3 = 1"],
        &["DROP TABLE t", "CREATE TABLE t AS"],
    ];
    for statements in changes {
        let (_folder, db, _) = places();
        run(&open(&db).session(), &format!("CREATE TABLE t AS {ROWS}")).await;
        let live = size(&db.join("segments"));
        for round in 0..10 {
            let database = open(&db);
            let session = database.session();
            for _ in 0..3 {
                for sql in statements {
                    let sql = if sql.ends_with("AS") { format!("{sql} {ROWS}") } else { (*sql).to_owned() };
                    run(&session, &sql).await;
                }
                let segments = size(&db.join("segments"));
                assert!(segments <= 3 * live + (1 << 20), "{statements:?}: {segments} bytes, {live} live");
            }
            drop(session);
            drop(database);
            let segments = size(&db.join("segments"));
            assert!(segments <= 2 * live + (1 << 20), "{statements:?}, {round}: {segments} bytes, {live} live");
        }
        assert_eq!(rows(&open(&db).session(), "SELECT count(*) FROM t").await.expect("reads"), "60000");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_leaves_no_traces() {
    let (_folder, db, _) = places();
    run(&open(&db).session(), "CREATE TABLE t AS SELECT value AS a FROM generate_series(1, 20000)").await;
    let names = || {
        let mut names: Vec<_> = std::fs::read_dir(&db).expect("listed").map(|e| e.expect("one").file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    let options = Options { read_only: true, threads: 2, ..Options::default() };
    let reader = Database::open(&db, options).expect("opens");
    let session = reader.session();
    assert_eq!(rows(&session, "SELECT count(*) FROM t").await.expect("reads"), "20000");
    assert_eq!(rows(&session, "CHECK").await.expect("checks"), "");
    assert_eq!(names(), before);
    drop((session, reader));
    assert_eq!(names(), before);
}
