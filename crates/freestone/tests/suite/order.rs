//! Rows come in the order in which they were inserted where nothing asks for another, whatever the number of threads.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use freestone::{Database, Options, Session};

use crate::rows::run;

/// The first column of a query.
async fn numbers(session: &Session, sql: &str) -> Vec<i64> {
    let rows = session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let rows = rows.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

/// Rows of which some are in segments and some are hot, loaded by a query that computes.
const ROWS: i64 = 150_000;
/// Queries of the table, whose first column ascends, and how many rows each has.
const QUERIES: [(&str, i64); 9] = [
    ("SELECT id FROM t", ROWS + 100),
    ("SELECT id + 0, v FROM t", ROWS + 100),
    ("SELECT id FROM t WHERE v % 3 = 0", ROWS / 3 + 34),
    ("SELECT id FROM t WHERE s LIKE 'text 1%' AND v < 100000", -1),
    ("SELECT id, upper(s) FROM t LIMIT 70000", 70_000),
    ("SELECT id FROM t LIMIT 10 OFFSET 120000", 10),
    ("SELECT id FROM (SELECT id, l FROM t WHERE id % 2 = 0)", ROWS / 2 + 50),
    ("SELECT t.id FROM t JOIN small ON t.v % 100 = small.k", -1),
    ("SELECT id FROM t UNION ALL SELECT id + 1000000 FROM t", 2 * (ROWS + 100)),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_come_in_the_order_in_which_they_came() {
    for threads in [1, 2, 8] {
        let database = Database::in_memory(Options { threads, ..Options::default() }).expect("memory is there");
        let session = database.session();
        run(&session, "CREATE TABLE small AS SELECT k FROM generate_series(0, 70) AS g(k)").await;
        for design in ["column", "row", "pax", "slotted"] {
            let columns = "id BIGINT, v BIGINT, s VARCHAR, l BIGINT[]";
            run(&session, &format!("CREATE OR REPLACE TABLE t ({columns}) WITH (design = '{design}')")).await;
            let computed = "v, v * 7 % 100003, 'text ' || v % 1000, CASE WHEN v % 10 = 0 THEN [v] END";
            run(&session, &format!("INSERT INTO t SELECT {computed} FROM generate_series(1, {ROWS}) AS g(v)")).await;
            run(
                &session,
                &format!("INSERT INTO t SELECT {ROWS} + v, v, 'hot', NULL FROM generate_series(1, 100) AS g(v)"),
            )
            .await;
            for (sql, count) in QUERIES {
                let found = numbers(&session, sql).await;
                assert!(found.is_sorted(), "{design}, {threads} threads: {sql}");
                assert!(!found.is_empty(), "{sql}");
                if count >= 0 && !sql.contains('%') {
                    assert_eq!(found.len() as i64, count, "{design}, {threads} threads: {sql}");
                }
            }
            for sql in [
                "CREATE OR REPLACE TABLE c AS SELECT id, v + 1 AS w FROM t",
                "INSERT INTO c SELECT id + 1000000, v FROM t",
            ] {
                run(&session, sql).await;
            }
            let copied = numbers(&session, "SELECT id FROM c").await;
            assert_eq!(copied.len() as i64, 2 * (ROWS + 100));
            assert!(copied.is_sorted(), "{design}, {threads} threads: the copy");
        }
    }
}

#[tokio::test]
async fn the_order_may_be_given_up() {
    let database = Database::in_memory(Options { threads: 2, ..Options::default() }).expect("memory is there");
    let session = database.session();
    run(&session, "SET preserve_insertion_order = false").await;
    run(&session, "CREATE TABLE t AS SELECT v AS id FROM generate_series(1, 1000) AS g(v)").await;
    let mut found = numbers(&session, "SELECT id FROM t").await;
    found.sort_unstable();
    assert_eq!(found, (1..=1000).collect::<Vec<_>>());
    assert!(session.sql("SET preserve_insertion_order = 'perhaps'").await.is_err());
}

/// Few rows are hot, and many go to a file.
#[tokio::test]
async fn few_and_many_rows_stay_in_their_order_also_when_they_are_merged() {
    let database = Database::in_memory(Options { threads: 2, ..Options::default() }).expect("memory is there");
    let session = database.session();
    for design in ["column", "row", "sort = 'v'"] {
        let with = if design.contains('=') { design.to_owned() } else { format!("design = '{design}'") };
        run(&session, &format!("CREATE OR REPLACE TABLE t (id BIGINT, v BIGINT) WITH ({with})")).await;
        let mut end = 0;
        for (at, rows) in [5, 20_000, 3, 700, 20_000, 1, 30_000, 9_000, 2].into_iter().enumerate() {
            if at == 4 {
                run(&session, "BEGIN").await;
            }
            let rows = format!("SELECT {end} + v, v % 7 FROM generate_series(1, {rows}) AS g(v)");
            run(&session, &format!("INSERT INTO t {rows}")).await;
            end += numbers(&session, &format!("SELECT count(*) FROM ({rows}) q")).await[0];
        }
        run(&session, "COMMIT").await;
        let found = numbers(&session, "SELECT id FROM t").await;
        assert_eq!(found.len() as i64, end);
        assert!(design.contains('=') || found.is_sorted(), "{design}");
        run(&session, "DELETE FROM t WHERE id % 10 < 7").await;
        run(&session, "VACUUM").await;
        let found = numbers(&session, "SELECT id FROM t").await;
        assert!(design.contains('=') || found.is_sorted(), "{design}, after VACUUM");
    }
}
