//! No statement, however long or deep, ends the process: it is executed, or refused with the limit.

use freestone::{Database, Error, Options};

/// The number of rows that a statement returns.
async fn rows(sql: String) -> Result<usize, Error> {
    let database = Database::in_memory(Options::default())?;
    let session = database.session();
    session.sql("CREATE TABLE t (a INT, s VARCHAR)").await?.collect().await?;
    session.sql("INSERT INTO t VALUES (1, 'x'), (2, NULL), (NULL, 'z')").await?.collect().await?;
    Ok(session.sql(&sql).await?.collect().await?.iter().map(|batch| batch.num_rows()).sum())
}

/// Runs on threads like those of the command line and the server.
fn check(sql: String, expected: Result<usize, &str>) {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).thread_stack_size(freestone::THREAD_STACK_BYTES).enable_all().build();
    let runtime = runtime.expect("threads start");
    let start: String = sql.chars().take(60).collect();
    let found = runtime.block_on(async { tokio::spawn(rows(sql)).await.expect("no panic") });
    match (found, expected) {
        (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{start}"),
        (Err(error), Err(expected)) => {
            assert!(error.to_string().contains(expected), "{start}: {error}");
            assert_eq!(error.sqlstate(), "54001", "{start}: {error}");
        }
        (found, expected) => panic!("{start}: {found:?}, not {expected:?}"),
    }
}

fn joined(count: usize, separator: &str, term: impl Fn(usize) -> String) -> String {
    (0..count).map(term).collect::<Vec<_>>().join(separator)
}

#[test]
fn chains_of_and_and_or_are_answered() {
    check(format!("SELECT 1 WHERE {}", joined(2_000, " AND ", |_| "1 = 1".into())), Ok(1));
    check(format!("SELECT a FROM t WHERE {}", joined(500, " AND ", |i| format!("a <> {}", i + 2))), Ok(1));
    check(format!("SELECT a FROM t WHERE {}", joined(500, " OR ", |i| format!("a = {} AND a < 6", i + 2))), Ok(1));
    check(format!("SELECT a FROM t WHERE {}", joined(500, " OR ", |i| format!("a = {}", i + 1))), Ok(2));
    check(format!("DELETE FROM t WHERE {}", joined(500, " OR ", |i| format!("a = {} AND s = 'y'", i))), Ok(0));
}

#[test]
fn lists_are_answered() {
    check(format!("SELECT a FROM t WHERE a IN ({})", joined(2_000, ", ", |i| i.to_string())), Ok(2));
    check(format!("SELECT CASE {} END FROM t", joined(300, " ", |i| format!("WHEN a = {i} THEN {i}"))), Ok(3));
    check(format!("VALUES {}", joined(2_000, ", ", |i| format!("({i})"))), Ok(2_000));
}

#[test]
fn wide_statements_are_answered_or_refused_with_the_limit() {
    let columns = |count| format!("SELECT {} FROM t", joined(count, ", ", |i| format!("a + {i} AS c{i}")));
    check(columns(1_600), Ok(3));
    check(columns(20_000), Err("a SELECT has 20000 expressions (at most 10000)"));
    check(format!("SELECT {} FROM t", joined(2_000, ", ", |_| "a".into())), Ok(3));
    let sets = |keys: usize| format!("SELECT count(*) FROM t GROUP BY CUBE ({})", joined(keys, ", ", |_| "a".into()));
    check(sets(13), Err("8192 grouping sets (at most 4096)"));
    check(
        format!("SELECT count(*) FROM t GROUP BY ROLLUP (a), {}", "CUBE (a, s), ".repeat(6) + "a"),
        Err("grouping sets"),
    );
}

#[test]
fn deep_expressions_are_answered_or_refused_with_the_limit() {
    for (count, expected) in [(150, Ok(3)), (3_000, Err("nests too deeply"))] {
        check(format!("SELECT {} FROM t", joined(count, " + ", |_| "a".into())), expected);
        check(format!("SELECT {} FROM t", joined(count, " || ", |_| "s".into())), expected);
    }
    check(format!("SELECT {}a{} FROM t", "-(".repeat(40), ")".repeat(40)), Ok(3));
    check(format!("SELECT {}a = 1{} FROM t", "NOT (".repeat(40), ")".repeat(40)), Ok(3));
    check(format!("SELECT {}a FROM t", "- ".repeat(3_000)), Err("nests too deeply"));
    for (open, close) in [("(", ")"), ("NOT (", ")"), ("abs(", ")"), ("CASE WHEN ", " THEN 1 END")] {
        check(format!("SELECT {}a{} FROM t", open.repeat(3_000), close.repeat(3_000)), Err("nests too deeply"));
    }
    check(format!("SELECT 1 {}", joined(2_000, " ", |_| "UNION ALL SELECT 1".into())), Err("nests too deeply"));
    check(format!("{}SELECT 1{}", "SELECT * FROM (".repeat(3_000), ")".repeat(3_000)), Err("nests too deeply"));
}
