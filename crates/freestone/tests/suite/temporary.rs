//! Temporary tables: seen by their session only, gone with it, and allowed where only reading is.

use std::sync::Arc;

use arrow::util::display::{ArrayFormatter, FormatOptions};
use freestone::{Access, Database, ErrorKind, Inputs, Options, Outcome, Result, ScalarValue, Session};

/// The rows of a statement, as texts.
pub async fn rows(session: &Session, sql: &str) -> Result<String> {
    texts(session.sql(sql).await?).await
}

async fn texts(outcome: Outcome) -> Result<String> {
    let batches = outcome.collect().await?;
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = vec![];
    for batch in &batches {
        let columns: Vec<_> =
            batch.columns().iter().map(|c| ArrayFormatter::try_new(c, &options).expect("formats")).collect();
        for row in 0..batch.num_rows() {
            rows.push(columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join(","));
        }
    }
    Ok(rows.join(";"))
}

async fn run(session: &Session, sql: &str) {
    session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn options() -> Options {
    Options { threads: 2, ..Options::default() }
}

/// The names of all tables and other objects.
fn names(database: &Database) -> Vec<String> {
    let snapshot = database.store().snapshot().expect("a snapshot");
    let objects = snapshot.all_objects().map(|object| object.name.clone());
    snapshot.tables().map(|table| table.name.clone()).chain(objects).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_session_has_its_own() {
    let database = Database::in_memory(options()).expect("a database");
    let (a, b) = (database.session(), database.session());
    run(&a, "CREATE TABLE t AS SELECT 0 AS x").await;
    run(&a, "CREATE TEMP TABLE t AS SELECT 1 AS x").await;
    run(&b, "CREATE TEMP TABLE t AS SELECT 2 AS x").await;
    run(&a, "CREATE TEMP VIEW v AS SELECT x + 10 AS y FROM t").await;
    run(&a, "CREATE TEMP SEQUENCE s").await;
    let other = database.session();
    assert_eq!(rows(&a, "SELECT x, y FROM t, v").await.expect("a"), "1,11");
    assert_eq!(rows(&b, "SELECT x FROM t").await.expect("b"), "2");
    assert_eq!(rows(&other, "SELECT x FROM t").await.expect("other"), "0");
    for session in [&b, &other] {
        for sql in ["SELECT * FROM v", "SELECT nextval('s')", "SELECT * FROM pg_temp.v", "DROP VIEW v"] {
            assert_eq!(rows(session, sql).await.expect_err(sql).kind(), ErrorKind::NotFound, "{sql}");
        }
    }
    for sql in [
        "SELECT name FROM freestone_tables()",
        "SELECT name FROM freestone_views()",
        "SHOW TABLES",
        "SELECT name FROM (SHOW ALL TABLES)",
        "SELECT table_schema || table_name FROM information_schema.tables WHERE table_schema <> 'information_schema'",
        "SELECT table_name FROM information_schema.views",
        "SELECT \"table\" FROM freestone_keys()",
        "SELECT tables FROM freestone_transactions()",
    ] {
        let listed = rows(&other, sql).await.unwrap_or_default();
        assert!(!listed.contains("temp") && !listed.contains('v'), "{sql}: {listed}");
    }
    let error = rows(&other, "SELECT * FROM nothing_here").await.expect_err("missing");
    assert!(!error.hint().unwrap_or_default().contains("temp"), "{:?}", error.hint());
    assert!(other.relations().await.expect("relations").iter().all(|relation| !relation.is_temporary));
    assert_eq!(a.relations().await.expect("relations").iter().filter(|relation| relation.is_temporary).count(), 2);
    assert!(a.names().expect("names").contains(&"y".to_owned()) || a.names().expect("names").contains(&"v".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn they_end_with_the_session() {
    let database = Database::in_memory(options()).expect("a database");
    let session = database.session();
    for sql in [
        "CREATE TEMP TABLE t (id SERIAL PRIMARY KEY, x INT) ON COMMIT DELETE ROWS",
        "CREATE TEMP TABLE u AS SELECT 1 AS a",
        "CREATE TEMP VIEW v AS SELECT * FROM u",
        "INSERT INTO u VALUES (3)",
        "BEGIN",
        "INSERT INTO u VALUES (4)",
    ] {
        run(&session, sql).await;
    }
    assert!(!names(&database).is_empty());
    let gone = database.clone();
    tokio::task::spawn_blocking(move || drop(session)).await.expect("dropped");
    for _ in 0..200 {
        if names(&gone).is_empty() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{:?}", names(&gone));
}

#[tokio::test(flavor = "multi_thread")]
async fn discarded_tables_are_gone() {
    let database = Database::in_memory(options()).expect("a database");
    let session = database.session();
    run(&session, "CREATE TEMP TABLE t AS SELECT 1 AS a").await;
    session.drop_temporary().await.expect("dropped");
    assert!(rows(&session, "SELECT * FROM t").await.is_err());
    run(&session, "CREATE TEMP TABLE t AS SELECT 2 AS a").await;
    assert_eq!(rows(&session, "SELECT * FROM t").await.expect("there"), "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_process_leaves_is_dropped() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    {
        let database = Database::open(&path, options()).expect("opens");
        let session = database.session();
        run(&session, "CREATE TABLE t AS SELECT 1 AS a").await;
        run(&session, "CREATE TEMP TABLE u (id SERIAL, a INT) ON COMMIT DELETE ROWS").await;
        run(&session, "CREATE TEMP VIEW v AS SELECT * FROM u").await;
        // As when the process is killed: the end of the session does not run.
        std::mem::forget(session);
        assert!(names(&database).len() > 1);
        let copy = folder.path().join("copy");
        std::fs::create_dir(&copy).expect("made");
        for file in std::fs::read_dir(&path).expect("lists").flatten().filter(|file| file.path().is_file()) {
            std::fs::copy(file.path(), copy.join(file.file_name())).expect("copied");
        }
        let database = Database::open(&copy, options()).expect("opens");
        let session = database.session();
        assert_eq!(rows(&session, "SELECT name FROM freestone_tables()").await.expect("lists"), "t");
        assert_eq!(rows(&session, "SELECT * FROM u").await.expect_err("gone").kind(), ErrorKind::NotFound);
        run(&session, "INSERT INTO t VALUES (2)").await;
        assert_eq!(names(&database), ["t"]);
        run(&session, "CREATE TEMP TABLE u AS SELECT 5 AS a").await;
        assert_eq!(rows(&session, "SELECT * FROM u").await.expect("there"), "5");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_who_may_only_read_have_them() {
    let database = Database::in_memory(options()).expect("a database");
    run(&database.session(), "CREATE TABLE t AS SELECT 1 AS a").await;
    let reader = database.session_with(Access { write: false, ..Access::default() });
    for sql in [
        "CREATE TEMP TABLE u (id SERIAL PRIMARY KEY, a INT)",
        "INSERT INTO u (a) SELECT a FROM t",
        "UPDATE u SET a = a + 1",
        "PREPARE p AS INSERT INTO u (a) VALUES ($1)",
        "EXECUTE p(7)",
        "DELETE FROM u WHERE a = 7",
        "ALTER TABLE u ADD COLUMN b INT",
        "CREATE TEMP VIEW v AS SELECT * FROM u",
        "BEGIN",
        "TRUNCATE u",
        "ROLLBACK",
    ] {
        run(&reader, sql).await;
    }
    assert_eq!(rows(&reader, "SELECT id, a FROM v").await.expect("there"), "1,2");
    for sql in ["INSERT INTO t VALUES (1)", "CREATE TABLE x (a INT)", "DROP TABLE t", "DROP TABLE u, t"] {
        assert_eq!(rows(&reader, sql).await.expect_err(sql).kind(), ErrorKind::Denied, "{sql}");
    }
}

/// What a session keeps of statements is of the table that their names mean now.
#[tokio::test(flavor = "multi_thread")]
async fn kept_statements_follow_the_names() {
    let database = Database::in_memory(options()).expect("a database");
    let session = database.session();
    run(&session, "CREATE TABLE t (id INT PRIMARY KEY, x INT)").await;
    run(&session, "INSERT INTO t VALUES (1, 0)").await;
    run(&session, "PREPARE get AS SELECT x FROM t WHERE id = $1").await;
    let statement = session.parse("SELECT x FROM t WHERE id = $1").expect("parses").remove(0);
    let inputs = || Inputs { values: vec![ScalarValue::Int32(Some(1))], ..Inputs::default() };
    let all = async |expected: &str| {
        for _ in 0..2 {
            let found = session.execute_with_inputs(&statement, inputs()).await.expect("works");
            assert_eq!(texts(found).await.expect("rows"), expected);
            assert_eq!(rows(&session, "EXECUTE get(1)").await.expect("works"), expected);
            assert_eq!(rows(&session, "SELECT x FROM t").await.expect("works"), expected);
        }
    };
    all("0").await;
    run(&session, "CREATE TEMP TABLE t (id INT PRIMARY KEY, x INT)").await;
    run(&session, "INSERT INTO t VALUES (1, 1)").await;
    all("1").await;
    run(&session, "BEGIN").await;
    run(&session, "DROP TABLE t").await;
    all("0").await;
    run(&session, "ROLLBACK").await;
    all("1").await;
    run(&session, "BEGIN").await;
    run(&session, "SAVEPOINT s").await;
    run(&session, "ALTER TABLE t RENAME TO u").await;
    all("0").await;
    run(&session, "ROLLBACK TO s").await;
    all("1").await;
    run(&session, "COMMIT").await;
    assert_eq!(session.lookup("t", &[ScalarValue::Int32(Some(1))]).expect("works").expect("a row").num_rows(), 1);
    run(&session, "DROP TABLE t").await;
    all("0").await;
}

/// Sessions with temporary tables of the same names, at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn many_sessions_at_once() {
    let database = Database::in_memory(options()).expect("a database");
    run(&database.session(), "CREATE TABLE total (n INT)").await;
    let work = |number: i64, database: Arc<Database>| async move {
        let session = database.session();
        for round in 0..5 {
            run(&session, "BEGIN").await;
            run(&session, "CREATE TEMP TABLE t (n BIGINT) ON COMMIT DROP").await;
            run(&session, &format!("INSERT INTO t SELECT {number} FROM generate_series(1, 10)")).await;
            assert_eq!(rows(&session, "SELECT sum(n) FROM t").await.expect("works"), (number * 10).to_string());
            run(&session, "INSERT INTO total SELECT count(*) FROM t").await;
            run(&session, if round == 4 { "ROLLBACK" } else { "COMMIT" }).await;
        }
    };
    let tasks: Vec<_> = (0..6).map(|number| tokio::spawn(work(number, database.clone()))).collect();
    for task in tasks {
        task.await.expect("ends");
    }
    assert_eq!(rows(&database.session(), "SELECT count(*), sum(n) FROM total").await.expect("works"), "24,240");
}
