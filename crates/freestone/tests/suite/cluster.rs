//! Clustered tables return the same results of star joins as unclustered ones, whatever happens to the referenced
//! tables.

use std::fmt::Write;
use std::sync::Arc;

use freestone::{Database, Options, Session};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::rows::{answer, run};

const CLUSTER: &str = "cluster = 'cust.region, day.year, part:4, cust.mgr.grade'";

/// Two hierarchies, a path of two foreign keys, keys with gaps, negative ones, and rows whose key is NULL.
pub async fn star(session: &Session) {
    for sql in [
        "CREATE TABLE boss (id BIGINT PRIMARY KEY NOT ENFORCED, grade VARCHAR)",
        "INSERT INTO boss SELECT v * 1000000000000, 'g' || (v % 4) FROM generate_series(-10, 9) AS t(v)",
        "CREATE TABLE cust (id INT PRIMARY KEY NOT ENFORCED, region VARCHAR, nation VARCHAR, city VARCHAR, mgr BIGINT,
            FOREIGN KEY (mgr) REFERENCES boss (id))",
        "INSERT INTO cust SELECT v, 'r' || (v % 5), 'n' || (v % 25), 'c' || (v % 100), (v % 20 - 10) * 1000000000000
            FROM generate_series(-500, 499) AS t(v)",
        "UPDATE cust SET region = NULL WHERE id = 17",
        "CREATE TABLE day (id DATE PRIMARY KEY NOT ENFORCED, year INT, month INT)",
        "INSERT INTO day SELECT d, CAST(date_part('year', d) AS INT),
            CAST(date_part('year', d) * 100 + date_part('month', d) AS INT)
            FROM (SELECT DATE '2020-01-01' + v AS d FROM generate_series(0, 1400) AS t(v))",
        "CREATE TABLE plain (cust INT, day DATE NOT NULL, part INT, x BIGINT,
            FOREIGN KEY (cust) REFERENCES cust (id), FOREIGN KEY (day) REFERENCES day (id))",
        "INSERT INTO plain SELECT CASE WHEN v % 97 = 0 THEN NULL ELSE v * 7919 % 1000 - 500 END,
            DATE '2020-01-01' + CAST(v * 104729 % 1401 AS INT), v * 31 % 2003, v FROM generate_series(1, 60000) AS t(v)",
    ] {
        run(session, sql).await;
    }
}

fn predicate(rng: &mut StdRng) -> String {
    let n = |rng: &mut StdRng, end: u32| rng.random_range(0..end);
    match rng.random_range(0..11) {
        0 => format!("c.region = 'r{}'", n(rng, 6)),
        1 => format!("c.nation IN ('n{}', 'n{}')", n(rng, 25), n(rng, 25)),
        2 => format!("c.city LIKE 'c{}%'", n(rng, 10)),
        3 => format!("(c.region = 'r{}' OR c.city = 'c{}')", n(rng, 5), n(rng, 100)),
        4 => format!("d.year = {}", 2019 + n(rng, 6)),
        5 => format!("d.month BETWEEN {} AND {}", 202001 + n(rng, 12), 202101 + n(rng, 12)),
        6 => format!("d.id < DATE '2020-01-01' + {}", n(rng, 1400)),
        7 => format!("f.part < {}", n(rng, 2100)),
        8 => format!("b.grade = 'g{}'", n(rng, 5)),
        9 => format!("b.grade >= 'g{}'", n(rng, 4)),
        _ => format!("c.id % {} = 0", 1 + n(rng, 9)),
    }
}

pub fn queries(seed: u64, count: usize) -> Vec<String> {
    let mut rng = StdRng::seed_from_u64(seed);
    let query = |rng: &mut StdRng| {
        let mut sql = String::from(
            "SELECT count(*) AS n, sum(x) AS s, min(c.city) AS c, max(d.id) AS d
             FROM {fact} AS f JOIN cust AS c ON f.cust = c.id JOIN day AS d ON f.day = d.id JOIN boss AS b ON c.mgr = b.id",
        );
        for at in 0..rng.random_range(1..4) {
            let word = if at == 0 { "WHERE" } else { "AND" };
            let _ = write!(sql, " {word} {}", predicate(rng));
        }
        sql
    };
    (0..count).map(|_| query(&mut rng)).collect()
}

async fn compare(session: &Session, seed: u64, count: usize) {
    for sql in queries(seed, count) {
        let (expected, found) = (sql.replace("{fact}", "plain"), sql.replace("{fact}", "clustered"));
        assert_eq!(answer(session, &expected).await, answer(session, &found).await, "{found}");
    }
}

/// An empty table with the columns of `plain`, clustered.
async fn create_clustered(session: &Session) {
    let columns = "cust INT, day DATE NOT NULL, part INT, x BIGINT,
        FOREIGN KEY (cust) REFERENCES cust (id), FOREIGN KEY (day) REFERENCES day (id)";
    run(session, &format!("CREATE TABLE clustered ({columns}) WITH ({CLUSTER})")).await;
}

fn database() -> Arc<Database> {
    Database::in_memory(Options { threads: 2, ..Options::default() }).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_star_joins_answer_alike() {
    let database = database();
    let session = database.session();
    star(&session).await;
    create_clustered(&session).await;
    run(&session, "INSERT INTO clustered SELECT * FROM plain").await;
    compare(&session, 1, 150).await;
    let pruned = answer(
        &session,
        "EXPLAIN (ANALYZE, FORMAT traditional) SELECT sum(x) FROM clustered AS f JOIN cust AS c ON f.cust = c.id WHERE c.nation = 'n3'",
    )
    .await;
    assert!(zones_pruned(&pruned) > 10, "{pruned}");
    run(&session, "ALTER TABLE clustered SET DESIGN (design = 'row', sort = 'x')").await;
    // Only the rows within the groups of a key are sorted.
    let first = "SELECT x FROM {fact} WHERE x > 7 ORDER BY x LIMIT 3";
    let (expected, found) = (first.replace("{fact}", "plain"), first.replace("{fact}", "clustered"));
    assert_eq!(answer(&session, &expected).await, answer(&session, &found).await);
    compare(&session, 2, 30).await;
}

/// The zones that a predicate on each of two dimensions prunes.
async fn pruned_by_dimension(session: &Session, interleave: &str) -> (usize, usize) {
    run(session, &format!("ALTER TABLE clustered SET DESIGN (interleave = '{interleave}')")).await;
    let by = async |predicate: &str| {
        let query = "EXPLAIN (ANALYZE, FORMAT traditional) SELECT sum(x) FROM clustered AS f JOIN cust AS c ON f.cust = c.id JOIN day AS d";
        zones_pruned(&answer(session, &format!("{query} ON f.day = d.id WHERE {predicate}")).await)
    };
    (by("c.region = 'r3'").await, by("d.year = 2021").await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bits_of_dimensions_go_in_the_order_of_the_design() {
    let database = database();
    let session = database.session();
    star(&session).await;
    run(
        &session,
        "CREATE TABLE clustered (cust INT, day DATE NOT NULL, part INT, x BIGINT,
            FOREIGN KEY (cust) REFERENCES cust (id), FOREIGN KEY (day) REFERENCES day (id))
            WITH (cluster = 'cust.region, day.year')",
    )
    .await;
    run(&session, "INSERT INTO clustered SELECT * FROM plain").await;
    let major = pruned_by_dimension(&session, "major_minor").await;
    compare(&session, 4, 40).await;
    let minor = pruned_by_dimension(&session, "2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2").await;
    compare(&session, 5, 40).await;
    let round = pruned_by_dimension(&session, "round_robin").await;
    assert!(major.0 > minor.0 && minor.1 > major.1 && round.0 > 0 && round.1 > 0, "{major:?} {minor:?} {round:?}");
    run(&session, "ALTER TABLE clustered SET DESIGN (interleave = '2, 1')").await;
    // Later loads and merges follow it, too.
    run(&session, "INSERT INTO clustered SELECT * FROM plain WHERE x < 5000").await;
    run(&session, "INSERT INTO plain SELECT * FROM plain WHERE x < 5000").await;
    run(&session, "VACUUM clustered").await;
    compare(&session, 6, 40).await;
    let shown = answer(&session, "SHOW CREATE TABLE clustered").await;
    assert!(shown.contains("interleave = '2, 1'"), "{shown}");
    for (options, part) in [
        ("interleave = '1, 3'", "there is no dimension 3, cluster has 2"),
        ("interleave = 'both'", "the values are round_robin, major_minor"),
        ("cluster = '', interleave = 'major_minor'", "the table has none"),
    ] {
        let error = session.sql(&format!("ALTER TABLE clustered SET DESIGN ({options})")).await.err().expect(options);
        assert!(error.to_string().contains(part), "{options}: {error}");
    }
}

/// The largest number of pruned zones among the scans of a plan.
fn zones_pruned(plan: &str) -> usize {
    let counts = plan.split("zones_pruned=").skip(1);
    let digits = counts.map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
    digits.filter_map(|n| n.parse().ok()).max().unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_referenced_rows_lose_nothing() {
    let database = database();
    let session = database.session();
    star(&session).await;
    run(
        &session,
        "CREATE TABLE clustered (cust INT, day DATE NOT NULL, part INT, x BIGINT,
            FOREIGN KEY (cust) REFERENCES cust (id), FOREIGN KEY (day) REFERENCES day (id))
            WITH (cluster = 'cust.region, day.year, cust.mgr.grade', cluster_missing = 'null')",
    )
    .await;
    run(&session, "INSERT INTO clustered SELECT * FROM plain").await;
    let mut changes = [
        // Rows move to other bins, in a dimension and in a table that it refers to.
        "UPDATE cust SET region = 'r' || ((id + 501) % 5), nation = 'n1' WHERE id % 3 = 0",
        "UPDATE boss SET grade = 'g0' WHERE id > 0",
        "DELETE FROM day WHERE month = 202006",
        "INSERT INTO day SELECT DATE '2020-06-01' + v, 2099, 209901 FROM generate_series(0, 29) AS t(v)",
        // Keys without a referenced row when the rows were inserted, which is inserted later. Both tables get the same
        // rows before they are compared.
        "INSERT INTO plain SELECT 5000 + v % 20, DATE '2020-01-01', v, v + 0 FROM generate_series(1, 20000) AS t(v)",
        "AND INSERT INTO clustered SELECT 5000 + v % 20, DATE '2020-01-01', v, v + 0 FROM generate_series(1, 20000) AS t(v)",
        "INSERT INTO cust SELECT v, 'r1', 'n1', 'c1', 0 FROM generate_series(5000, 5010) AS t(v)",
        "UPDATE clustered SET cust = 3 WHERE x % 50 = 0",
        "AND UPDATE plain SET cust = 3 WHERE x % 50 = 0",
        "VACUUM clustered",
        "DELETE FROM cust WHERE id % 7 = 0",
        "VACUUM",
        "TRUNCATE boss",
        "AND INSERT INTO boss VALUES (0, 'g1')",
        "DROP TABLE boss",
        "AND CREATE TABLE boss (id BIGINT, grade VARCHAR)",
        "AND INSERT INTO boss VALUES (0, 'g3'), (1000000000000, 'g1')",
    ]
    .into_iter()
    .peekable();
    while let Some(change) = changes.next() {
        // A text that begins with AND belongs to the change before it.
        run(&session, change.trim_start_matches("AND ")).await;
        if !changes.peek().is_some_and(|next| next.starts_with("AND ")) {
            compare(&session, 3, 25).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_leads_nowhere_is_named() {
    let database = database();
    let session = database.session();
    star(&session).await;
    run(
        &session,
        "CREATE TABLE strict (cust INT, x BIGINT, FOREIGN KEY (cust) REFERENCES cust (id)) WITH (cluster = 'cust.city')",
    )
    .await;
    let insert = "INSERT INTO strict SELECT v, v + 0 FROM generate_series(0, 40000) AS t(v)";
    let error = session.sql(insert).await.err().expect("500 is not a customer").to_string();
    assert!(error.contains("cust = 500 has no row") && error.contains("cluster_missing"), "{error}");
    assert!(answer(&session, "SELECT count(*) FROM strict").await.contains("| 0 "));
    for (cluster, part) in [
        ("x.city", "no foreign key"),
        ("cust.town", "no column town"),
        ("cust.city:40", "from 1 to 24"),
        ("nobody", "the columns are cust, x"),
    ] {
        let sql = format!("ALTER TABLE strict SET DESIGN (cluster = '{cluster}')");
        let error = session.sql(&sql).await.err().expect("the path leads nowhere").to_string();
        assert!(error.contains(part), "{error}");
    }
}

/// Orders with keys of such a range that no filter is tested with all of them; customers, likewise; and items that
/// refer to two orders each, by keys that may be NULL or without a referenced row. `clustered` has the rows of `plain`.
async fn orders(session: &Session) {
    let items = "(ord BIGINT, other BIGINT, n INT, x BIGINT,
        FOREIGN KEY (ord) REFERENCES ord (id), FOREIGN KEY (other) REFERENCES ord (id))";
    let cluster = "cluster = 'ord.day, ord.cust.segment, other.price', cluster_missing = 'null'";
    for sql in [
        "CREATE TABLE cust (id BIGINT PRIMARY KEY NOT ENFORCED, segment VARCHAR)",
        "INSERT INTO cust SELECT v * 1000000007, 's' || (v % 5) FROM generate_series(1, 5000) AS t(v)",
        "CREATE TABLE ord (id BIGINT PRIMARY KEY NOT ENFORCED, cust BIGINT, day DATE, price DOUBLE,
            FOREIGN KEY (cust) REFERENCES cust (id))",
        "INSERT INTO ord SELECT v * 1000003, CASE WHEN v % 101 = 0 THEN NULL ELSE (v % 5100) * 1000000007 END,
            CASE WHEN v % 103 = 0 THEN NULL ELSE DATE '1994-01-01' + CAST(v * 7919 % 1500 AS INT) END,
            (v * 31 % 2003 - 1000) / 4.0 FROM generate_series(1, 300000) AS t(v)",
        &format!("CREATE TABLE plain {items}"),
        "INSERT INTO plain SELECT CASE WHEN v % 97 = 0 THEN NULL ELSE v * 7919 % 300500 * 1000003 END,
            v * 104729 % 300500 * 1000003, v * 17 % 1009, v FROM generate_series(1, 150000) AS t(v)",
        &format!("CREATE TABLE clustered {items} WITH ({cluster})"),
        "INSERT INTO clustered SELECT * FROM plain",
        "CREATE VIEW plain_view AS SELECT f.*, o.day, o.price FROM plain AS f JOIN ord AS o ON f.ord = o.id",
        "CREATE VIEW clustered_view AS SELECT f.*, o.day, o.price FROM clustered AS f JOIN ord AS o ON f.ord = o.id",
    ] {
        run(session, sql).await;
    }
}

/// Queries over `{fact}`. `{p}` is a predicate on an order `o`, and `{q}` is one on an order `b`.
const ORDER_QUERIES: [&str; 35] = [
    // Both orders, further tables, the same table twice, self-joins.
    "SELECT {all} FROM {fact} AS f JOIN ord AS o ON f.ord = o.id WHERE {p}",
    "SELECT {all} FROM ord AS o JOIN {fact} AS f ON o.id = f.ord WHERE {p} AND {p}",
    "SELECT {all} FROM {fact} AS f, ord AS o, cust AS c
        WHERE f.ord = o.id AND o.cust = c.id AND {p} AND c.segment > 's2'",
    "SELECT {all} FROM {fact} AS f, ord AS o, cust AS c WHERE f.ord = o.id AND o.cust = c.id AND c.segment LIKE 's3%'",
    "SELECT {all} FROM {fact} AS f JOIN ord AS o ON f.ord = o.id JOIN ord AS b ON f.other = b.id WHERE {p} AND {q}",
    "SELECT {all} FROM {fact} AS f JOIN ord AS o ON f.ord = o.id JOIN ord AS b ON f.ord = b.id WHERE {p} AND {q}",
    "SELECT {all} FROM {fact} AS f JOIN ord AS o ON f.other = o.id JOIN ord AS b ON f.ord = b.id WHERE {p}",
    "SELECT {all} FROM {fact} AS f JOIN {fact} AS g ON f.ord = g.ord JOIN ord AS o ON g.ord = o.id
        WHERE {p} AND g.n < 50",
    "SELECT {all} FROM {fact} AS f JOIN {fact} AS g ON f.n = g.n JOIN ord AS o ON g.ord = o.id
        WHERE {p} AND g.x < 5000",
    "SELECT {all} FROM {fact}_view AS o, (SELECT x, ord AS id FROM {fact} WHERE n < 20) AS f
        WHERE {p} AND f.id = o.ord",
    "WITH o AS (SELECT * FROM ord AS o WHERE {p}), f AS (SELECT * FROM {fact} WHERE n < 900)
        SELECT {all} FROM f JOIN o ON f.ord = o.id JOIN o AS b ON f.other = b.id",
    // Outer joins.
    "SELECT {all} FROM {fact} AS f LEFT JOIN ord AS o ON f.ord = o.id AND {p}",
    "SELECT {all} FROM ord AS o LEFT JOIN {fact} AS f ON f.ord = o.id WHERE {p}",
    "SELECT {all} FROM ord AS o LEFT JOIN {fact} AS f ON f.ord = o.id AND {p}",
    "SELECT {all} FROM {fact} AS f RIGHT JOIN (SELECT * FROM ord AS o WHERE {p}) AS o ON f.ord = o.id",
    "SELECT {all} FROM (SELECT * FROM ord AS o WHERE {p}) AS o RIGHT JOIN {fact} AS f ON f.ord = o.id",
    "SELECT {all} FROM (SELECT * FROM ord AS o WHERE {p}) AS o FULL JOIN {fact} AS f ON f.ord = o.id",
    "SELECT {all} FROM ({fact} AS f FULL JOIN (SELECT n % 40 AS m FROM plain WHERE x < 30) AS s ON f.n = s.m)
        JOIN ord AS o ON f.ord = o.id WHERE {p}",
    "SELECT {all} FROM cust AS c LEFT JOIN (SELECT * FROM ord AS o WHERE {p}) AS o ON o.cust = c.id
        LEFT JOIN {fact} AS f ON f.ord = o.id WHERE c.segment = 's4'",
    "SELECT {all} FROM {fact} AS f LEFT JOIN (ord AS o LEFT JOIN cust AS c ON o.cust = c.id AND c.segment = 's1')
        ON f.ord = o.id AND {p}",
    "SELECT {all} FROM {fact} AS f JOIN (ord AS o LEFT JOIN cust AS c ON o.cust = c.id AND c.segment = 's1')
        ON f.ord = o.id",
    "SELECT {all} FROM {fact} AS f JOIN ord AS o ON f.ord IS NOT DISTINCT FROM o.id WHERE {p}",
    "SELECT {all} FROM (cust AS c LEFT JOIN ord AS o ON o.cust = c.id AND {p}) JOIN
        (SELECT f.* FROM (SELECT x AS m FROM plain WHERE x < 30) AS s
        LEFT JOIN {fact} AS f ON f.n = s.m AND f.x < 2000) AS f
        ON f.ord IS NOT DISTINCT FROM o.id",
    // Semi joins and anti joins.
    "SELECT count(*), min(o.id) FROM ord AS o WHERE {p} AND EXISTS (SELECT 1 FROM {fact} AS f
        WHERE f.ord = o.id AND n < 300)",
    "SELECT count(*), min(o.id) FROM ord AS o WHERE {p} AND NOT EXISTS (SELECT 1 FROM {fact} AS f WHERE f.ord = o.id)",
    "SELECT count(*), min(o.id) FROM ord AS o WHERE {p} AND (o.price > 400 OR o.id IN (SELECT ord FROM {fact}
        WHERE n < 300))",
    "SELECT count(*), min(o.id) FROM ord AS o WHERE {p} AND o.id NOT IN (SELECT ord FROM {fact} WHERE n < {k})",
    "SELECT count(*), min(o.id) FROM ord AS o WHERE {p} AND o.id NOT IN (SELECT ord FROM {fact} WHERE ord > 0)",
    "SELECT count(*), sum(x) AS s FROM {fact} AS f WHERE ord IN (SELECT id FROM ord AS o WHERE {p}) AND
        NOT EXISTS (SELECT 1 FROM {fact} AS g WHERE g.ord = f.ord AND g.n < f.n)",
    "SELECT count(*), sum(x) AS s FROM {fact} WHERE ord NOT IN (SELECT id FROM ord AS o WHERE {p})",
    "SELECT count(*), sum(x) AS s FROM {fact} AS f WHERE NOT EXISTS (SELECT 1 FROM ord AS o
        WHERE o.id = f.ord AND {p})",
    // Groups, windows, limits.
    "SELECT count(*), sum(f.s), sum(f.c) AS c, max(f.x), max(o.day) FROM ord AS o JOIN
        (SELECT ord, sum(x) AS s, count(*) AS c, max(x) AS x FROM {fact} GROUP BY ord HAVING count(*) > 0)
        AS f ON f.ord = o.id
        WHERE {p}",
    "SELECT count(*), min(o.id) FROM ord AS o WHERE {p} AND o.price * 100 < (SELECT avg(x) FROM {fact} AS f
        WHERE f.ord = o.id)",
    "SELECT count(*), sum(f.x) AS s, sum(r) FROM (SELECT ord, x, row_number() OVER (ORDER BY x) AS r FROM {fact}) AS f
        JOIN ord AS o ON f.ord = o.id WHERE {p}",
    "SELECT {all} FROM (SELECT * FROM {fact} ORDER BY n, x LIMIT {k}) AS f JOIN ord AS o ON f.ord = o.id WHERE {p}",
];

fn order_predicate(rng: &mut StdRng, alias: &str) -> String {
    let day = |rng: &mut StdRng| format!("DATE '1994-01-01' + {}", rng.random_range(-20..1520));
    let price = |rng: &mut StdRng| f64::from(rng.random_range(-1000..1000)) / 4.0;
    let is = match rng.random_range(0..10) {
        0 => format!("day = {}", day(rng)),
        1 => format!("day IN ({}, {}, {})", day(rng), day(rng), day(rng)),
        2 => format!("day < {}", day(rng)),
        3 => "day IS NULL".to_owned(),
        4 => format!("price BETWEEN {} AND {}", price(rng), price(rng)),
        5 => format!("price > {}", price(rng)),
        6 => format!("price IN ({}, 0.0)", price(rng)),
        _ => {
            let first = rng.random_range(0..1500);
            let last = first + rng.random_range(0..200);
            return format!("{alias}.day >= DATE '1994-01-01' + {first} AND {alias}.day < DATE '1994-01-01' + {last}");
        }
    };
    format!("{alias}.{is}")
}

/// Runs every query several times. Returns how many of them pruned by codes that were known in planning.
async fn compare_orders(session: &Session, seed: u64, rounds: usize) -> usize {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut planned = 0;
    for query in ORDER_QUERIES.iter().cycle().take(ORDER_QUERIES.len() * rounds) {
        let mut sql = query.replace("{all}", "count(*) AS n, sum(f.x) AS s, min(f.x) AS x, count(o.day) AS d");
        while sql.contains("{p}") {
            sql = sql.replacen("{p}", &order_predicate(&mut rng, "o"), 1);
        }
        sql =
            sql.replace("{q}", &order_predicate(&mut rng, "b")).replace("{k}", &rng.random_range(0..2000).to_string());
        let (expected, found) = (sql.replace("{fact}", "plain"), sql.replace("{fact}", "clustered"));
        assert_eq!(answer(session, &expected).await, answer(session, &found).await, "{found}");
        planned += usize::from(answer(session, &format!("EXPLAIN {found}")).await.contains("clustered="));
    }
    planned
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn predicates_on_large_referenced_tables_answer_alike() {
    let database = database();
    let session = database.session();
    orders(&session).await;
    let planned = compare_orders(&session, 4, 4).await;
    assert!(planned > 50, "{planned}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn predicates_on_large_referenced_tables_prune() {
    let database = database();
    let session = database.session();
    orders(&session).await;
    let year = "o.day >= DATE '1995-01-01' AND o.day < DATE '1995-02-01'";
    let segment = "c.id = o.cust AND c.segment = 's2'";
    let (by_day, by_segment) = ("ord.day", "ord.cust.segment");
    let groups = "(SELECT ord, sum(x) AS x FROM clustered GROUP BY ord)";
    // The dimension, the query, the text in EXPLAIN, and the minimum percentage of pruned zones.
    for (cluster, query, words, percent) in [
        (by_day, format!("clustered AS f, ord AS o WHERE f.ord = o.id AND {year}"), "ord.day: 31 of 1500 codes", 90),
        (by_day, format!("ord AS o LEFT JOIN clustered AS f ON f.ord = o.id WHERE {year}"), "31 of 1500 codes", 90),
        (by_day, format!("{groups} AS f, ord AS o WHERE f.ord = o.id AND {year}"), "31 of 1500 codes", 90),
        (
            by_segment,
            format!("clustered AS f, ord AS o, cust AS c WHERE f.ord = o.id AND {segment}"),
            "1 of 5 codes",
            70,
        ),
    ] {
        run(&session, &format!("ALTER TABLE clustered SET DESIGN (cluster = '{cluster}', cluster_missing = 'null')"))
            .await;
        let plan =
            answer(&session, &format!("EXPLAIN (ANALYZE, FORMAT traditional) SELECT sum(f.x) FROM {query}")).await;
        let scan = plan.lines().find(|line| line.contains("clustered=")).unwrap_or_default();
        let count = |name: &str| scan.split(name).nth(1)?.split([',', ']']).next()?.parse::<usize>().ok();
        let (zones, pruned) = (count(" zones=").unwrap_or(0), count(" zones_pruned=").unwrap_or(0));
        assert!(scan.contains(words) && zones > 20 && pruned * 100 >= zones * percent, "{query}: {plan}");
    }
    for query in [
        "FROM clustered AS f, ord AS o WHERE f.ord = o.id",
        "FROM clustered AS f LEFT JOIN ord AS o ON f.ord = o.id AND o.day = '1995-01-07'",
        "FROM clustered AS f, ord AS o WHERE f.n = o.id AND o.day = '1995-01-07'",
    ] {
        let plan = answer(&session, &format!("EXPLAIN SELECT sum(f.x) {query}")).await;
        assert!(!plan.contains("clustered="), "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codes_are_planned_while_referenced_rows_hold() {
    let database = database();
    let session = database.session();
    orders(&session).await;
    let explain = "EXPLAIN SELECT sum(x) FROM clustered AS f, ord AS o WHERE f.ord = o.id AND o.day < '1994-02-01'";
    for (change, planned) in [
        ("SELECT 1", true),
        // Keys without a referenced row, which is inserted now.
        (
            "INSERT INTO ord SELECT v * 1000003, 1000000007, DATE '1994-01-05', 0.5
                FROM generate_series(300001, 300400) AS t(v)",
            true,
        ),
        ("UPDATE ord SET day = day + 700, price = 0 WHERE price < 100", false),
        ("VACUUM clustered", true),
        // Two rows have the same key now, which is allowed.
        ("INSERT INTO ord SELECT id, cust, day - 300, price + 500 FROM ord WHERE price BETWEEN 110 AND 130", false),
        ("DELETE FROM ord WHERE price > 500", false),
        ("VACUUM", true),
    ] {
        run(&session, change).await;
        assert_eq!(answer(&session, explain).await.contains("clustered="), planned, "{change}");
        compare_orders(&session, 5, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loads_are_merged_in_the_background() {
    let database = database();
    let session = database.session();
    star(&session).await;
    create_clustered(&session).await;
    run(&session, "DELETE FROM plain WHERE cust = 5").await;
    // Rows that lose their referenced row remain: a merge does not require it again.
    run(&session, "INSERT INTO clustered SELECT * FROM plain WHERE x % 3 = 0").await;
    run(&session, "DELETE FROM cust WHERE id = 11").await;
    for rest in [1, 2] {
        let rows = format!("SELECT * FROM plain WHERE x % 3 = {rest} AND cust <> 11");
        run(&session, &format!("INSERT INTO clustered {rows}")).await;
        run(&session, &format!("INSERT INTO clustered {rows}")).await;
        run(&session, &format!("INSERT INTO plain {rows}")).await;
    }
    run(&session, "DELETE FROM clustered WHERE cust IS NULL").await;
    run(&session, "DELETE FROM plain WHERE (cust IS NULL OR cust = 11) AND x % 3 <> 0 OR cust IS NULL").await;
    let segments = async || database.store().snapshot().unwrap().table("clustered").unwrap().segments.len();
    for _ in 0..600 {
        if segments().await <= 2 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(segments().await <= 2, "{} segments", segments().await);
    let all = "SELECT count(*) AS n, sum(x) AS x, sum(x * part) AS y, count(cust) AS c, min(day) AS d, max(day) AS e FROM {fact}";
    assert_eq!(
        answer(&session, &all.replace("{fact}", "plain")).await,
        answer(&session, &all.replace("{fact}", "clustered")).await
    );
    compare(&session, 3, 30).await;
}
