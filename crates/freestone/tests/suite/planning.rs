//! Planning within limits, and queries that are read more than once.

use std::fmt::Write;
use std::time::{Duration, Instant};

use arrow::array::AsArray;
use freestone::{Database, Error, ErrorKind, Options, Session};

fn options() -> Options {
    Options { threads: 2, memory_limit: Some(256 << 20), ..Options::default() }
}

/// Runs a statement as the server does: asynchronously, with a timeout.
fn run(options: Options, set_up: &[String], sql: &str, time: Duration) -> Result<Vec<Vec<String>>, Error> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).thread_stack_size(freestone::THREAD_STACK_BYTES).enable_all().build();
    runtime.expect("threads start").block_on(async {
        let database = Database::in_memory(options)?;
        let session = database.session();
        for statement in set_up {
            session.sql(statement).await?.collect().await?;
        }
        let cancel = session.cancel_handle();
        let clock = tokio::spawn(async move {
            tokio::time::sleep(time).await;
            cancel.cancel();
        });
        let found = rows(&session, sql).await;
        clock.abort();
        found
    })
}

async fn rows(session: &Session, sql: &str) -> Result<Vec<Vec<String>>, Error> {
    let batches = session.sql(sql).await?.collect().await?;
    let mut all = vec![];
    for batch in batches {
        for row in 0..batch.num_rows() {
            let value = |column: &arrow::array::ArrayRef| {
                arrow::util::display::array_value_to_string(column, row).expect("a value that can be shown")
            };
            all.push(batch.columns().iter().map(value).collect());
        }
    }
    Ok(all)
}

/// Expressions that use each other twice, on `levels` levels.
fn levels(levels: usize, first: &str, next: impl Fn(usize) -> String) -> String {
    let mut sql = format!("WITH c0 AS ({first})");
    for level in 1..=levels {
        write!(sql, ", c{level} AS ({})", next(level - 1)).expect("text");
    }
    sql
}

#[test]
fn expressions_that_use_each_other_twice_are_planned_once() {
    let began = Instant::now();
    let joined = |below| format!("SELECT a.v + b.v AS v FROM c{below} AS a JOIN c{below} AS b ON a.v = b.v");
    let sql = levels(40, "SELECT 1 AS v", joined) + " SELECT v FROM c40";
    let found = run(options(), &[], &sql, Duration::from_secs(60)).expect("rows");
    assert_eq!(found, [["1099511627776"]]);
    let united = |below| format!("SELECT v FROM c{below} UNION SELECT v + 1 FROM c{below}");
    let sql = levels(24, "SELECT 1 AS v", united) + " SELECT count(*) FROM c24";
    assert_eq!(run(options(), &[], &sql, Duration::from_secs(60)).expect("rows"), [["25"]]);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn views_that_use_each_other_twice_are_planned_once() {
    let mut set_up = vec!["CREATE VIEW v0 AS SELECT 1 AS v".to_owned()];
    for level in 1..=24 {
        let below = level - 1;
        // Each reads two views, which read the same two.
        set_up.push(format!("CREATE VIEW w{level} AS SELECT max(v) AS v FROM v{below}"));
        set_up.push(format!(
            "CREATE VIEW v{level} AS SELECT a.v + b.v AS v FROM v{below} AS a JOIN w{level} AS b ON a.v = b.v"
        ));
    }
    let found = run(options(), &set_up, "SELECT v FROM v24", Duration::from_secs(60)).expect("rows");
    assert_eq!(found, [["16777216"]]);
}

#[test]
fn rows_of_a_shared_query_go_to_disk_where_memory_ends() {
    let small = Options { threads: 2, memory_limit: Some(96 << 20), ..Options::default() };
    let sql = "WITH c AS MATERIALIZED (SELECT value AS a, repeat('x', 100) || value AS b FROM generate_series(1, 1000000)) \
               SELECT (SELECT count(*) FROM c), (SELECT sum(length(b)) FROM c), (SELECT max(a) FROM c)";
    let found = run(small, &[], sql, Duration::from_secs(120)).expect("rows");
    assert_eq!(found, [["1000000", "105888896", "1000000"]]);
}

#[test]
fn an_error_of_a_shared_query_is_that_of_the_statement() {
    let sql = "WITH c AS (SELECT 1 / (value - 5) AS v, max(value) FROM generate_series(1, 10) GROUP BY value) \
               SELECT count(*) FROM c AS a JOIN c AS b ON a.v = b.v";
    let error = run(options(), &[], sql, Duration::from_secs(60)).expect_err("a division by zero");
    assert!(error.to_string().contains("division by zero"), "{error}");
}

/// A statement that takes long to plan, because each of its queries has many columns.
fn wide(columns: usize) -> String {
    let columns: Vec<String> = (0..columns).map(|column| format!("value + {column} AS c{column}")).collect();
    let mut sql = format!("SELECT {} FROM generate_series(1, 2)", columns.join(", "));
    for _ in 0..30 {
        sql = format!("SELECT DISTINCT * FROM ({sql})");
    }
    sql
}

/// A statement with a long text.
fn long_list(values: usize) -> String {
    let list: Vec<String> = (0..values).map(|value| (value * 7).to_string()).collect();
    format!("SELECT count(*) FROM generate_series(1, 10) WHERE value + 1 IN ({})", list.join(", "))
}

#[test]
fn conditions_that_double_in_every_step_are_refused() {
    let mut sql = "SELECT value AS a, value AS b FROM generate_series(1, 10)".to_owned();
    for _ in 0..60 {
        sql = format!("SELECT a + b AS a, a - b AS b FROM ({sql})");
    }
    let sql = format!("SELECT * FROM ({sql}) WHERE a > 0");
    let error = run(options(), &[], &sql, Duration::from_secs(120)).expect_err("too complex");
    assert_eq!(error.sqlstate(), "54001", "{error}");
}

#[test]
fn what_depends_on_its_place_is_not_copied_without_end() {
    let joined = |below| format!("SELECT a.v + b.v AS v FROM c{below} AS a, c{below} AS b");
    let sql = levels(30, "SELECT t.value AS v", joined);
    let sql = format!("SELECT ({sql} SELECT max(v) FROM c30) FROM generate_series(1, 3) AS t (value)");
    let error = run(options(), &[], &sql, Duration::from_secs(120)).expect_err("too complex");
    assert_eq!(error.sqlstate(), "54001", "{error}");
    // NOT MATERIALIZED is only a preference.
    let joined = |below| format!("SELECT a.v + b.v AS v FROM c{below} AS a JOIN c{below} AS b ON a.v = b.v");
    let sql = levels(30, "SELECT 1 AS v", joined).replace("AS (", "AS NOT MATERIALIZED (") + " SELECT v FROM c30";
    let found = run(options(), &[], &sql, Duration::from_secs(60)).expect("rows");
    assert_eq!(found, [["1073741824"]]);
}

#[test]
fn planning_ends_with_its_statement() {
    let began = Instant::now();
    let error = run(Options { memory_limit: None, ..options() }, &[], &wide(500), Duration::from_millis(100));
    let error = error.expect_err("a statement that was cancelled");
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    // All threads have ended then.
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn texts_count_as_memory() {
    let small = Options { threads: 2, memory_limit: Some(64 << 20), ..Options::default() };
    let error = run(small, &[], &long_list(400_000), Duration::from_secs(120)).map(drop).expect_err("too much");
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Resource, "53200"), "{error}");
    assert!(error.to_string().contains("the text of a statement"), "{error}");
}

#[test]
fn plans_say_what_is_shared() {
    let sql = "EXPLAIN (FORMAT traditional) WITH c AS (SELECT count(*) AS n FROM generate_series(1, 10)) SELECT a.n, b.n FROM c AS a, c AS b";
    let found = run(options(), &[], sql, Duration::from_secs(60)).expect("a plan");
    let text: String = found.into_iter().flatten().collect::<Vec<_>>().join("\n");
    assert_eq!(text.matches("SharedQueriesExec: [c#1]").count(), 1, "{text}");
    assert_eq!(text.matches("SharedScanExec: c#1").count(), 2, "{text}");
    assert_eq!(text.matches("LazyMemoryExec").count(), 1, "{text}");
}

#[test]
fn others_go_on_while_a_statement_is_planned() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).thread_stack_size(freestone::THREAD_STACK_BYTES).enable_all().build();
    runtime.expect("threads start").block_on(async {
        let plenty = Options { memory_limit: None, ..options() };
        let database = Database::in_memory(plenty).expect("a database");
        let busy = database.session();
        let cancel = busy.cancel_handle();
        let planning = tokio::spawn(async move { busy.sql(&wide(500)).await.map(drop) });
        tokio::time::sleep(Duration::from_millis(50)).await;
        let session = database.session();
        let began = Instant::now();
        let batches = session.sql("SELECT 7").await.expect("a query").collect().await.expect("rows");
        assert_eq!(batches[0].column(0).as_primitive::<arrow::datatypes::Int64Type>().value(0), 7);
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        cancel.cancel();
        assert!(planning.await.expect("no panic").is_err());
    });
}
