//! Aggregation inside the scan returns the results of DataFusion's aggregation, under every design, with NULLs, deleted
//! rows and pruned zones.

use freestone::{Database, Options, Session};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::rows::{answer, run};

fn session(threads: usize) -> Session {
    let options = Options { threads, ..Options::default() };
    Database::in_memory(options).expect("a database in memory").session()
}

/// Columns of all types with which aggregates compute: some without NULLs, one with only NULLs.
const TABLE: &str = "SELECT
    CAST(v AS INT) AS id,
    CAST(CASE WHEN v % 7 = 0 THEN NULL ELSE v % 200 - 100 END AS TINYINT) AS tiny,
    CAST(v % 1000 AS SMALLINT) AS small,
    CASE WHEN v % 11 = 3 THEN NULL ELSE v * 1000003 - 5000000000 END AS big,
    CAST(v % 50000 AS INT UNSIGNED) AS natural,
    CAST(v % 997 * 0.01 AS DECIMAL(15, 2)) AS price,
    CAST(CASE WHEN v % 13 = 0 THEN NULL ELSE v % 11 * 0.01 END AS DECIMAL(4, 2)) AS rate,
    CAST(v AS DECIMAL(38, 3)) AS wide,
    DATE '1992-01-01' + CAST(v / 40 AS INT) AS day,
    CASE WHEN v % 17 = 1 THEN NULL ELSE 'flag ' || (v / 3000) END AS flag,
    'unit ' || (v % 5) AS unit,
    CAST(NULL AS BIGINT) AS nothing,
    (v % 1000 - 300) * 5000000000000000 AS huge,
    CAST((v % 1000 - 300) * 1000000000000000 AS DECIMAL(18, 0)) AS large,
    v % 3 = 0 AS odd,
    CAST(v AS DOUBLE) / 3 AS ratio
    FROM generate_series(1, 30000) AS t(v)";

const AGGREGATES: [&str; 28] = [
    "count(*)",
    "count(tiny)",
    "count(id)",
    "count(flag)",
    "count(nothing)",
    "sum(tiny)",
    "sum(id)",
    "sum(big)",
    "sum(natural)",
    "sum(price)",
    "sum(price * (1 - rate))",
    "sum(price * (1 - rate) * (1 + rate))",
    "sum(CAST(small AS INT) * tiny - 2 * id)",
    "sum(nothing)",
    "avg(price)",
    "avg(tiny)",
    "avg(big)",
    "avg(rate)",
    "min(day)",
    "max(day)",
    "min(big)",
    "max(tiny)",
    "min(price * rate)",
    "max(nothing)",
    "sum(wide)",
    "sum(huge)",
    "sum(large)",
    "max(huge)",
];

const KEYS: [&str; 7] = ["flag", "unit", "day", "tiny", "small", "nothing", "odd"];

fn predicate(rng: &mut StdRng) -> String {
    let n = |rng: &mut StdRng, end: u32| rng.random_range(0..end);
    match n(rng, 9) {
        0 => "true".into(),
        1 => format!("id < {}", n(rng, 32_000)),
        2 => format!("id BETWEEN {} AND {}", n(rng, 15_000), 15_000 + n(rng, 16_000)),
        3 => format!("day >= DATE '1992-01-01' + {}", n(rng, 800)),
        4 => format!("flag IN ('flag {}', 'flag {}')", n(rng, 11), n(rng, 11)),
        5 => format!("tiny > {}", n(rng, 200) as i32 - 100),
        6 => format!("id % {} = 0", 1 + n(rng, 50)),
        7 => "flag IS NULL".into(),
        _ => "id < 0".into(),
    }
}

fn query(rng: &mut StdRng) -> impl Fn(&str) -> String + use<> {
    let aggregates: Vec<&str> = AGGREGATES.sample(rng, 4).copied().collect();
    let count = [0, 0, 1, 1, 1, 2].choose(rng).copied().unwrap_or(0);
    let keys: Vec<&str> = KEYS.sample(rng, count).copied().collect();
    let (predicate, keys) = (predicate(rng), keys.join(", "));
    move |table| {
        let aggregates = aggregates.join(", ");
        if keys.is_empty() {
            return format!("SELECT {aggregates} FROM {table} WHERE {predicate}");
        }
        format!("SELECT {keys}, {aggregates} FROM {table} WHERE {predicate} GROUP BY {keys} ORDER BY {keys}")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_aggregations_agree_with_datafusion() {
    let designs = [
        "design = 'column'",
        "design = 'row'",
        "design = 'pax', sort = 'day'",
        "design = 'slotted'",
        "groups = '(id, tiny, day), (flag, unit), (price, rate)'",
        "design = 'row', sort = 'flag, unit', levels = 2",
        "cluster = 'flag, day'",
        "medium = 'memory'",
    ];
    for (seed, design) in designs.into_iter().enumerate() {
        let session = session(1 + seed % 3);
        let mut rng = StdRng::seed_from_u64(seed as u64);
        run(&session, &format!("CREATE TABLE t WITH ({design}) AS {TABLE}")).await;
        // One more segment, and deleted rows.
        run(&session, "INSERT INTO t SELECT * FROM t WHERE id % 5 = 2").await;
        run(&session, "DELETE FROM t WHERE id BETWEEN 9000 AND 9100 OR id % 4001 = 0").await;
        for _ in 0..60 {
            let query = query(&mut rng);
            // The rule does not apply above a LIMIT.
            let expected = answer(&session, &query("(SELECT * FROM t LIMIT 1000000000) AS t")).await;
            assert_eq!(answer(&session, &query("t")).await, expected, "{design}: {}", query("t"));
        }
    }
}

/// The text of EXPLAIN ANALYZE for a query.
async fn analyzed(session: &Session, sql: &str) -> String {
    answer(session, &format!("EXPLAIN ANALYZE {sql}")).await
}

/// A counter of the scan.
fn counter(plan: &str, name: &str) -> u64 {
    let at = plan.find(&format!(" {name}=")).unwrap_or_else(|| panic!("no {name} in {plan}"));
    let digits: String = plan[at + name.len() + 2..].chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    digits.parse::<f64>().unwrap_or_else(|_| panic!("{name} is no number in {plan}")) as u64
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_zones_are_not_read() {
    let session = session(2);
    run(&session, &format!("CREATE TABLE t WITH (design = 'column', sort = 'id') AS {TABLE}")).await;
    // All zones qualify as a whole, so nothing is decoded.
    let all = analyzed(&session, "SELECT count(*), sum(big), min(day), avg(price) FROM t").await;
    assert!(all.contains("Scan aggregate"), "{all}");
    assert_eq!((counter(&all, "zones_aggregated"), counter(&all, "values_decoded")), (15, 0), "{all}");
    // Rows are decoded only in zones of which a part qualifies.
    let cut = analyzed(&session, "SELECT count(*), sum(big) FROM t WHERE id > 5000").await;
    assert_eq!((counter(&cut, "zones_aggregated"), counter(&cut, "zones_pruned")), (12, 2), "{cut}");
    // The group key is constant in each zone. The argument is an expression, for which zones have no aggregates.
    run(
        &session,
        &format!("CREATE TABLE s WITH (design = 'column') AS SELECT (id - 1) / 2048 AS g, * FROM ({TABLE}) AS x"),
    )
    .await;
    let grouped = analyzed(&session, "SELECT g, count(*), max(id) FROM s GROUP BY g").await;
    assert_eq!(counter(&grouped, "zones_aggregated"), 15, "{grouped}");
    let computed = analyzed(&session, "SELECT sum(price * rate) FROM t").await;
    assert_eq!(counter(&computed, "zones_aggregated"), 0, "{computed}");
    // A zone with a deleted row is not answered as a whole.
    run(&session, "DELETE FROM t WHERE id = 77").await;
    let deleted = analyzed(&session, "SELECT count(*) FROM t").await;
    assert!(answer(&session, "SELECT count(*) AS n FROM t").await.contains("| 29999 |"), "{deleted}");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_without_a_dictionary_are_found_too() {
    let session = session(2);
    run(&session, &format!("CREATE TABLE t WITH (sort = 'unit') AS {TABLE}")).await;
    for _ in 0..3 {
        run(&session, "INSERT INTO t SELECT * FROM t WHERE unit = 'unit 3' AND id < 3000").await;
    }
    run(&session, "CREATE TABLE one AS SELECT * FROM t LIMIT 1").await;
    run(&session, "UPDATE one SET unit = 'a unit of more than twelve letters', flag = NULL").await;
    run(&session, "INSERT INTO t SELECT * FROM one").await;
    let query =
        |table: &str| format!("SELECT unit, flag, count(*), sum(id) FROM {table} GROUP BY unit, flag ORDER BY 1, 2");
    let plan = answer(&session, &format!("EXPLAIN {}", query("t"))).await;
    assert!(plan.contains("Scan aggregate"), "{plan}");
    let expected = answer(&session, &query("(SELECT * FROM t LIMIT 1000000000) AS t")).await;
    assert_eq!(answer(&session, &query("t")).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_is_kept_runs_again() {
    let session = session(2);
    run(&session, &format!("CREATE TABLE t AS {TABLE}")).await;
    let sql = "SELECT unit, sum(price * (1 - rate)) FROM t WHERE day < DATE '1993-06-01' GROUP BY unit ORDER BY unit";
    let first = answer(&session, sql).await;
    for _ in 0..3 {
        assert_eq!(answer(&session, sql).await, first);
    }
    run(&session, "UPDATE t SET price = price + 1").await;
    assert_ne!(answer(&session, sql).await, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_cannot_say_is_left_to_datafusion() {
    let session = session(2);
    run(&session, &format!("CREATE TABLE t AS {TABLE}")).await;
    for sql in [
        "SELECT sum(wide) FROM t",
        "SELECT sum(ratio) FROM t",
        "SELECT sum(price) FILTER (WHERE odd) FROM t",
        "SELECT min(flag) FROM t",
        "SELECT unit, sum(id) FROM t GROUP BY ROLLUP (unit)",
        "SELECT sum(big * big * big) FROM t",
        "SELECT sum(id / 3) FROM t",
    ] {
        let plan = answer(&session, &format!("EXPLAIN {sql}")).await;
        assert!(!plan.contains("Scan aggregate"), "{plan}");
    }
    for sql in
        ["SELECT sum(price) FROM t", "SELECT unit, avg(id) FROM t GROUP BY unit", "SELECT max(day) FROM t WHERE id > 3"]
    {
        let plan = answer(&session, &format!("EXPLAIN {sql}")).await;
        assert!(plan.contains("Scan aggregate"), "{plan}");
    }
}
