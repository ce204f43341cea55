//! Clustered tables answer every star join as unclustered ones do, whatever happens to the tables that they reference.

use std::fmt::Write;
use std::sync::Arc;

use arrow::util::pretty::pretty_format_batches;
use freestone::{Database, Options, Session};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const CLUSTER: &str = "cluster = 'cust.region, day.year, part:4, cust.mgr.grade'";

async fn run(session: &Session, sql: &str) {
    session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

async fn answer(session: &Session, sql: &str) -> String {
    let rows = session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let rows = rows.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    pretty_format_batches(&rows).unwrap().to_string()
}

/// Two hierarchies, a path of two foreign keys, keys with gaps, negative ones, and rows whose key is NULL.
async fn star(session: &Session) {
    for sql in [
        "CREATE TABLE boss (id BIGINT PRIMARY KEY, grade VARCHAR)",
        "INSERT INTO boss SELECT v * 1000000000000, 'g' || (v % 4) FROM generate_series(-10, 9) AS t(v)",
        "CREATE TABLE cust (id INT PRIMARY KEY, region VARCHAR, nation VARCHAR, city VARCHAR, mgr BIGINT,
            FOREIGN KEY (mgr) REFERENCES boss (id))",
        "INSERT INTO cust SELECT v, 'r' || (v % 5), 'n' || (v % 25), 'c' || (v % 100), (v % 20 - 10) * 1000000000000
            FROM generate_series(-500, 499) AS t(v)",
        "UPDATE cust SET region = NULL WHERE id = 17",
        "CREATE TABLE day (id DATE PRIMARY KEY, year INT, month INT)",
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

fn queries(seed: u64, count: usize) -> Vec<String> {
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

fn database() -> Arc<Database> {
    Database::in_memory(Options { threads: 2, ..Options::default() }).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_star_joins_answer_alike() {
    let database = database();
    let session = database.session();
    star(&session).await;
    run(
        &session,
        &format!(
            "CREATE TABLE clustered (cust INT, day DATE NOT NULL, part INT, x BIGINT,
                FOREIGN KEY (cust) REFERENCES cust (id), FOREIGN KEY (day) REFERENCES day (id)) WITH ({CLUSTER})"
        ),
    )
    .await;
    run(&session, "INSERT INTO clustered SELECT * FROM plain").await;
    compare(&session, 1, 150).await;
    let pruned = answer(
        &session,
        "EXPLAIN ANALYZE SELECT sum(x) FROM clustered AS f JOIN cust AS c ON f.cust = c.id WHERE c.nation = 'n3'",
    )
    .await;
    assert!(zones_pruned(&pruned) > 10, "{pruned}");
    run(&session, "ALTER TABLE clustered SET DESIGN (design = 'row', sort = 'x')").await;
    // Rows are sorted within the groups of a key only.
    let first = "SELECT x FROM {fact} WHERE x > 7 ORDER BY x LIMIT 3";
    let (expected, found) = (first.replace("{fact}", "plain"), first.replace("{fact}", "clustered"));
    assert_eq!(answer(&session, &expected).await, answer(&session, &found).await);
    compare(&session, 2, 30).await;
}

/// The most that any scan of a plan pruned.
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
        // Rows move to other bins, in a dimension and behind it.
        "UPDATE cust SET region = 'r' || ((id + 501) % 5), nation = 'n1' WHERE id % 3 = 0",
        "UPDATE boss SET grade = 'g0' WHERE id > 0",
        "DELETE FROM day WHERE month = 202006",
        "INSERT INTO day SELECT DATE '2020-06-01' + v, 2099, 209901 FROM generate_series(0, 29) AS t(v)",
        // Keys that led nowhere when the rows came, and then do.
        // Both tables get the same rows before they are compared.
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
        // What begins with AND belongs to the change before it.
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
