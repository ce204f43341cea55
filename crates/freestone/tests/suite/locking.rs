//! SELECT … FOR UPDATE: the rows that it returns are locked until the end of the transaction.

use std::sync::Arc;

use arrow::util::pretty::pretty_format_batches;
use freestone::{Database, ErrorKind, Options, Result, Session};

async fn rows(session: &Session, sql: &str) -> Result<String> {
    let batches = session.sql(sql).await?.collect().await?;
    let table = pretty_format_batches(&batches).expect("formats").to_string();
    let cells =
        |line: &str| line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join(",");
    Ok(table.lines().filter(|line| line.starts_with('|')).skip(1).map(cells).collect::<Vec<_>>().join(";"))
}

async fn run(session: &Session, sql: &str) {
    session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

async fn database() -> Arc<Database> {
    let database = Database::in_memory(Options::default()).expect("a database");
    let session = database.session();
    run(&session, "CREATE TABLE t (id INT PRIMARY KEY, a INT)").await;
    run(&session, "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)").await;
    database
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_rows_wait_for_the_transaction() {
    let database = database().await;
    let (a, b) = (database.session(), database.session());
    run(&b, "SET lock_timeout = 20").await;
    run(&a, "BEGIN").await;
    let locked = rows(&a, "SELECT a + 1 AS b, id FROM t AS x WHERE x.id < 3 ORDER BY x.a DESC FOR UPDATE OF x").await;
    assert_eq!(locked.expect("locks"), "21,2;11,1");
    for sql in ["UPDATE t SET a = 0 WHERE id = 1", "DELETE FROM t WHERE id = 2", "SELECT * FROM t FOR UPDATE NOWAIT"] {
        let error = rows(&b, sql).await.expect_err(sql);
        assert_eq!(error.kind(), ErrorKind::LockTimeout, "{sql}: {error}");
    }
    assert_eq!(rows(&b, "SELECT id FROM t WHERE id = 3 FOR UPDATE NOWAIT").await.expect("free"), "3");
    assert_eq!(rows(&b, "SELECT count(*) FROM t").await.expect("queries never wait"), "3");
    run(&a, "UPDATE t SET a = a + 1 WHERE id = 1").await;
    run(&a, "COMMIT").await;
    run(&b, "UPDATE t SET a = a + 1 WHERE id IN (1, 2)").await;
    assert_eq!(rows(&b, "SELECT id, a FROM t ORDER BY id FOR UPDATE").await.expect("works"), "1,12;2,21;3,30");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_row_is_a_conflict_or_read_again() {
    let database = database().await;
    let (a, b) = (database.session(), database.session());
    run(&a, "BEGIN").await;
    assert_eq!(rows(&a, "SELECT a FROM t WHERE id = 1").await.expect("works"), "10");
    run(&b, "UPDATE t SET a = 11 WHERE id = 1").await;
    let error = rows(&a, "SELECT a FROM t WHERE id = 1 FOR UPDATE").await.expect_err("a snapshot before the change");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    run(&a, "ROLLBACK").await;
    run(&a, "BEGIN ISOLATION LEVEL READ COMMITTED").await;
    assert_eq!(rows(&a, "SELECT a FROM t WHERE id = 1").await.expect("works"), "11");
    run(&b, "UPDATE t SET a = 12 WHERE id = 1").await;
    assert_eq!(rows(&a, "SELECT a FROM t WHERE id = 1 FOR UPDATE").await.expect("reads again"), "12");
    run(&a, "ROLLBACK").await;
    run(&a, "BEGIN READ ONLY").await;
    let error = rows(&a, "SELECT a FROM t FOR UPDATE").await.expect_err("may only read");
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_rows_are_left_out() {
    let database = database().await;
    let (a, b, c) = (database.session(), database.session(), database.session());
    let take = "SELECT id FROM t ORDER BY a DESC LIMIT 1 FOR UPDATE SKIP LOCKED";
    for session in [&a, &b, &c] {
        run(session, "BEGIN").await;
    }
    assert_eq!(rows(&a, take).await.expect("takes"), "3");
    assert_eq!(rows(&b, take).await.expect("takes"), "2");
    assert_eq!(rows(&c, "SELECT id FROM t FOR UPDATE SKIP LOCKED").await.expect("takes the rest"), "1");
    assert_eq!(rows(&c, take).await.expect("takes its own again"), "1");
    run(&b, "DELETE FROM t WHERE id = 2").await;
    run(&b, "COMMIT").await;
    run(&a, "ROLLBACK").await;
    let free = database.session();
    assert_eq!(rows(&free, "SELECT id FROM t ORDER BY id FOR UPDATE SKIP LOCKED").await.expect("takes"), "3");
    assert_eq!(rows(&free, "SELECT id FROM t ORDER BY id LIMIT 0 FOR UPDATE").await.expect("takes nothing"), "");
    for sql in ["SELECT id FROM t LIMIT 1 OFFSET 1 FOR UPDATE", "SELECT id FROM t ORDER BY 1 LIMIT 1 FOR UPDATE"] {
        assert_eq!(rows(&free, sql).await.expect_err(sql).kind(), ErrorKind::Unsupported, "{sql}");
    }
}
