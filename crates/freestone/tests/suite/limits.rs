//! Statements that would take all memory or time: each ends with an error of its own, before it has taken either.

use std::time::{Duration, Instant};

use freestone::{Access, Database, Error, ErrorKind, Options, Session};

fn session() -> Session {
    let options = Options { threads: 2, memory_limit: Some(400 << 20), ..Options::default() };
    Database::in_memory(options).expect("a database").session()
}

async fn run(session: &Session, sql: &str) -> Result<usize, Error> {
    let batches = session.sql(sql).await?.collect().await?;
    Ok(batches.iter().map(|batch| batch.num_rows()).sum())
}

/// A value of the first row.
async fn value(session: &Session, sql: &str, column: usize) -> String {
    let batches = session.sql(sql).await.expect(sql).collect().await.expect(sql);
    arrow::util::display::array_value_to_string(batches[0].column(column), 0).expect(sql)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_functions_make_is_claimed_before_it_is_made() {
    let session = session();
    for sql in [
        "SELECT max(len(l)) FROM (SELECT list(value) OVER (ORDER BY value) l FROM generate_series(1,100000))",
        "SELECT count(m) FROM (SELECT max(repeat('x',1000000) || value) OVER (ORDER BY value) m FROM generate_series(1,10000))",
        "SELECT string_agg('a', repeat('x',1000000)) FROM generate_series(1,20000)",
        "SELECT string_agg('a', repeat('x',1000000)) FROM generate_series(1,20000) GROUP BY value % 3",
        "SELECT string_agg('a', repeat('x',1000000) ORDER BY value) FROM generate_series(1,20000)",
        "SELECT regexp_replace(repeat('a',1000000),'',repeat('b',10000),'g')",
        "SELECT regexp_replace(repeat('a',1000000),'(a*)',repeat('\\1',10000),'g')",
        "SELECT json_extract(repeat('{\"a\":',900) || '1' || repeat('}',900),'$..a..a..a..a')",
        "SELECT json_valid('[' || repeat('1,',20000000) || '1]')",
        "SELECT array_to_string(range(100000), repeat('x',100000))",
        "SELECT string_split(repeat('x',20000000), '')",
        "SELECT regexp_extract_all(repeat('x',20000000), '.')",
        "SELECT flatten([range(4000000), range(4000000)])",
        "SELECT url_encode(repeat('é',20000000)), hex(repeat('x',20000000)), bin(repeat('x',8000000))",
        "SELECT count(l) FROM (SELECT range(1000000) l) a, generate_series(1,100000) b WHERE len(l) > value",
    ] {
        let error = run(&session, sql).await.expect_err(sql);
        assert_eq!(error.kind(), ErrorKind::Resource, "{sql}: {error}");
    }
    // The memory is free again.
    assert_eq!(run(&session, "SELECT list(value) FROM generate_series(1,1000000)").await.expect("a list"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fits_is_answered_a_few_rows_at_a_time() {
    let session = session();
    for (sql, expected) in [
        ("SELECT sum(len(url_encode(t))) FROM (SELECT repeat('é',100000) t FROM generate_series(1,30))", "18000000"),
        ("SELECT sum(len(l)) FROM (SELECT range(100000) l FROM generate_series(1,300))", "30000000"),
        (
            "SELECT sum(len(string_split(t, ','))) FROM (SELECT repeat('a,',100000) || value t FROM generate_series(1,20))",
            "2000020",
        ),
        (
            "SELECT count(*) FROM (SELECT [value, value] l FROM generate_series(1,1000)) JOIN generate_series(1,1000) s ON l[1] = s.value",
            "1000",
        ),
        ("SELECT sum(len(l)) FROM (SELECT range(1000000) l FROM generate_series(1,100))", "100000000"),
        ("SELECT count(*) FROM (SELECT range(100000 + value) l FROM generate_series(1,100)) WHERE len(l) > 5", "100"),
        ("SELECT count(*) FROM (SELECT unnest([1, 2]) u, range(value) l FROM generate_series(1,1000))", "2000"),
        ("SELECT len(regexp_replace('banana', '(a)(n?)', '<\\2\\1>', 'g'))", "12"),
        (
            "SELECT max(n) FROM (SELECT count(repeat('x', 1000) || value) OVER (ORDER BY value ROWS BETWEEN 1 PRECEDING AND \
             1 FOLLOWING EXCLUDE CURRENT ROW) n FROM generate_series(1,1000000))",
            "2",
        ),
        ("SELECT max(m) FROM (SELECT max('x' || value) OVER (ORDER BY value) m FROM generate_series(1,1000))", "x999"),
    ] {
        assert_eq!(value(&session, sql, 0).await, expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn depth_is_bounded() {
    let session = session();
    let nested = |of: &str, end: &str, count: usize| format!("{}INT{}", of.repeat(count), end.repeat(count));
    let chain = |first: &str, next: &dyn Fn(usize) -> String| {
        (0..60).fold(first.to_owned(), |made, level| format!("{made}, {}", next(level)))
    };
    for sql in [
        format!("SELECT CAST(NULL AS {})", nested("", "[]", 20_000)),
        format!("SELECT NULL::{}", nested("", "[3]", 20_000)),
        format!("CREATE TABLE deep (a {})", nested("", "[]", 20_000)),
        format!("SELECT CAST(NULL AS {})", nested("STRUCT(a ", ")", 5_000)),
        format!("SELECT a{} FROM (SELECT [1] a)", "[1]".repeat(20_000)),
        format!("SELECT {}", chain("1 a0", &|level| format!("a{level} + a{level} a{}", level + 1))),
        format!(
            "CREATE TABLE g (a0 INT, {})",
            chain("b INT", &|level| { format!("a{} INT GENERATED ALWAYS AS (a{level} + a{level})", level + 1) })
        ),
    ] {
        let began = Instant::now();
        let error = run(&session, &sql).await.expect_err(&sql[..60]);
        assert_eq!(error.kind(), ErrorKind::Resource, "{}: {error}", &sql[..60]);
        assert!(began.elapsed() < Duration::from_secs(5), "{}", &sql[..60]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_that_use_each_other_are_bounded() {
    let session = session();
    run(&session, "CREATE MACRO m0(x) AS x + x").await.expect("made");
    for level in 1..30 {
        let before = level - 1;
        run(&session, &format!("CREATE MACRO m{level}(x) AS m{before}(x) + m{before}(x)")).await.expect("made");
    }
    run(&session, "CREATE VIEW v0 AS SELECT 1 a").await.expect("made");
    let mut deepest = 0;
    for level in 1..=120 {
        let sql = format!("CREATE VIEW v{level} AS SELECT a + 1 a FROM v{}", level - 1);
        match run(&session, &sql).await {
            Ok(_) => deepest = level,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Resource, "{error}");
                break;
            }
        }
    }
    assert!((45..=51).contains(&deepest), "{deepest} views");
    assert_eq!(run(&session, "SELECT * FROM v40").await.expect("a row"), 1);
    for sql in ["SELECT m29(1)".to_owned(), format!("SELECT {}'a'{}", "m0(".repeat(29), ")".repeat(29))] {
        let error = run(&session, &sql).await.expect_err(&sql);
        assert_eq!(error.kind(), ErrorKind::Resource, "{sql}: {error}");
    }
}

#[tokio::test]
async fn settings_of_the_database_are_for_administrators() {
    let database = Database::in_memory(Options { threads: 2, ..Options::default() }).expect("a database");
    let owner = database.session();
    let reader = database.session_with(Access { write: false, files: false, admin: false, ..Access::default() });
    for sql in ["SET retention = 1000", "SET freestone.retention = 1000", "RESET retention"] {
        let error = run(&reader, sql).await.expect_err(sql);
        assert_eq!(error.kind(), ErrorKind::Denied, "{sql}: {error}");
    }
    run(&owner, "SET retention = 1000").await.expect("set");
    for session in [&owner, &reader] {
        assert_eq!(value(session, "SHOW retention", 1).await, "1000");
    }
    for sql in ["SET batch_size = 1000000000", "SET threads = 100000", "SET datafusion.execution.batch_size = 5"] {
        assert!(run(&reader, sql).await.is_err(), "{sql}");
    }
    // Others see scans, and not the statements that made them.
    run(&owner, "CREATE TABLE t AS SELECT 1 AS a").await.expect("made");
    run(&owner, "SELECT a FROM t WHERE a > 0").await.expect("rows");
    let seen = "SELECT count(statement) FROM freestone_workload()";
    for (session, expected) in [(&owner, "1"), (&reader, "0")] {
        assert_eq!(value(session, seen, 0).await, expected);
    }
}
