//! Materialized views: whether queries that read them instead of tables have the same rows, while commits change the tables; and
//! whether a view that says that it is current is.

use std::sync::Arc;

use freestone::{Database, Options, Session};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::rows::{answer, run};

fn database() -> Arc<Database> {
    Database::in_memory(Options::default()).expect("a database")
}

/// A star: orders of customers on days, and customers of nations. Keys are enforced but that of days.
const STAR: [&str; 8] = [
    "CREATE TABLE nations (n_id INT PRIMARY KEY, n_name VARCHAR, n_region VARCHAR)",
    "CREATE TABLE customers (c_id INT PRIMARY KEY, c_name VARCHAR, c_nation INT NOT NULL REFERENCES nations, c_score DOUBLE)",
    "CREATE TABLE days (d_id INT, d_month INT, d_name VARCHAR)",
    "CREATE TABLE orders (o_id INT, o_customer INT NOT NULL REFERENCES customers, o_day INT, o_price DECIMAL(9, 2), o_note VARCHAR)",
    "INSERT INTO nations SELECT i, 'n' || i, CASE WHEN i % 3 = 0 THEN NULL ELSE 'r' || i % 2 END FROM range(6) t(i)",
    "INSERT INTO customers SELECT i, 'c' || i % 7, i % 6, CASE WHEN i % 5 = 0 THEN 'nan'::DOUBLE ELSE i / 4 END FROM range(40) t(i)",
    "INSERT INTO days SELECT i % 25, i % 12, 'd' || i FROM range(30) t(i)",
    "INSERT INTO orders SELECT i, i * 7 % 40, CASE WHEN i % 9 = 0 THEN NULL ELSE i % 28 END, i * 1.25, CASE WHEN i % 4 = 0 THEN NULL ELSE 'o' || i % 3 END FROM range(300) t(i)",
];

/// Views: of two, three and four tables, with conditions, with other names, with few columns, and over others.
const VIEWS: [&str; 7] = [
    "two AS SELECT o_id, o_customer, o_day, o_price, o_note, c_id, c_name, c_nation, c_score FROM orders JOIN customers ON o_customer = c_id",
    "three WITH (sort = 'n_id, c_id') AS SELECT * FROM orders JOIN customers ON o_customer = c_id JOIN nations ON c_nation = n_id ORDER BY o_id",
    "filtered AS SELECT o_id, o_price, o_day, c_name, c_nation FROM orders, customers WHERE o_customer = c_id AND c_nation < 3 AND o_note IS NOT NULL",
    "few (price, region) AS SELECT o_price, n_region FROM orders JOIN customers ON o_customer = c_id JOIN nations ON c_nation = n_id",
    "with_days AS SELECT o_id, o_day, d_month, d_name, o_price, o_customer FROM orders JOIN days ON o_day = d_id",
    "inlined AS SELECT s.o_id, s.c_name, n.n_name FROM (SELECT * FROM orders JOIN customers ON o_customer = c_id WHERE o_id > 20) s JOIN nations n ON n.n_id = s.c_nation",
    "computed AS SELECT o_id + 1 AS o_id, o_price, c_id, upper(c_name) AS c_name FROM orders JOIN customers ON c_id = o_customer WHERE lower(c_name) = c_name",
];

const COLUMNS: [(&str, &[&str]); 4] = [
    ("orders", &["o_id", "o_customer", "o_day", "o_price", "o_note"]),
    ("customers", &["c_id", "c_name", "c_nation", "c_score"]),
    ("nations", &["n_id", "n_name", "n_region"]),
    ("days", &["d_id", "d_month", "d_name"]),
];

const JOINS: [(usize, &str); 4] = [(0, ""), (1, "o_customer = c_id"), (2, "c_nation = n_id"), (3, "o_day = d_id")];

const CONDITIONS: [(usize, &str); 10] = [
    (0, "o_id > 20"),
    (0, "o_note IS NOT NULL"),
    (0, "o_price BETWEEN 10 AND 200"),
    (1, "c_nation < 3"),
    (1, "c_score > 2"),
    (1, "c_name IN ('c1', 'c2', 'c3')"),
    (1, "lower(c_name) = c_name"),
    (2, "n_region = 'r1'"),
    (2, "n_id <> 4"),
    (3, "d_month = 5"),
];

fn some<'a, T>(random: &mut StdRng, all: &'a [T]) -> &'a T {
    &all[random.random_range(0..all.len())]
}

/// A query of joined tables, whose rows have an order or are counted and added.
fn query(random: &mut StdRng) -> String {
    let mut tables = vec![0, 1];
    if random.random_range(0..4) == 0 {
        tables.pop();
    }
    if tables.len() == 2 && random.random() {
        tables.push(2);
    }
    if random.random_range(0..3) == 0 {
        tables.push(3);
    }
    let columns: Vec<&str> = tables.iter().flat_map(|at| COLUMNS[*at].1.iter().copied()).collect();
    let mut conditions: Vec<&str> = vec![];
    for _ in 0..random.random_range(0..4) {
        let (table, condition) = some(random, &CONDITIONS);
        if tables.contains(table) && !conditions.contains(condition) {
            conditions.push(condition);
        }
    }
    let joins = tables.iter().filter_map(|at| JOINS[*at].1.split_once(" = ").map(|(left, right)| (*at, left, right)));
    let joins: Vec<(usize, String)> = joins
        .map(|(at, left, right)| match random.random() {
            true => (at, format!("{left} = {right}")),
            false => (at, format!("{right} = {left}")),
        })
        .collect();
    let from = match random.random() {
        true => {
            let mut from = String::from("orders");
            for (at, join) in &joins {
                from.push_str(&format!(" JOIN {} ON {join}", COLUMNS[*at].0));
            }
            from
        }
        false => {
            conditions.extend(joins.iter().map(|(_, join)| join.as_str()));
            tables.iter().map(|at| COLUMNS[*at].0).collect::<Vec<_>>().join(", ")
        }
    };
    let filter = if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) };
    let (a, b) = (*some(random, &columns), *some(random, &columns));
    match random.random_range(0..5) {
        0 => format!("SELECT {a}, count(*), count({b}) FROM {from}{filter} GROUP BY {a} ORDER BY ALL"),
        1 => format!("SELECT count(*), min({a}), max({b}) FROM {from}{filter}"),
        2 => format!("SELECT x.{a}, x.{b} AS other FROM (SELECT * FROM {from}{filter}) AS x ORDER BY ALL"),
        3 => format!(
            "SELECT o_id, sum(o_price), {a} FROM {from}{filter} GROUP BY o_id, {a} HAVING count(*) > 1 ORDER BY ALL"
        ),
        _ => format!("SELECT {a}, {b} FROM {from}{filter} ORDER BY ALL"),
    }
}

const CHANGES: [&str; 9] = [
    "INSERT INTO orders SELECT 1000 + i, i % 40, i % 20, i, 'o' || i FROM range(5) t(i)",
    "DELETE FROM orders WHERE o_id % 17 = 3",
    "UPDATE orders SET o_price = o_price + 1 WHERE o_id % 11 = 2",
    "UPDATE customers SET c_nation = (c_nation + 1) % 6 WHERE c_id % 8 = 1",
    "UPDATE nations SET n_region = 'r1' WHERE n_id = 3",
    "INSERT INTO days VALUES (3, 5, 'again')",
    "DELETE FROM days WHERE d_month = 5",
    "ALTER TABLE orders SET DESIGN (design = 'row')",
    "VACUUM",
];

async fn check(session: &Session, random: &mut StdRng, count: usize) -> usize {
    let mut matched = 0;
    for _ in 0..count {
        let sql = query(random);
        run(session, "SET materialized_view_matching = on").await;
        let plan = answer(session, &format!("EXPLAIN {sql}")).await;
        matched += usize::from(VIEWS.iter().any(|view| plan.contains(view.split_once(' ').expect("a name").0)));
        let with = answer(session, &sql).await;
        run(session, "SET materialized_view_matching = off").await;
        assert_eq!(with, answer(session, &sql).await, "{sql}\n{plan}");
    }
    matched
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_that_read_views_have_the_rows_of_their_tables() {
    let session = database().session();
    let mut matched = 0;
    for seed in 0..4 {
        let mut random = StdRng::seed_from_u64(seed);
        for sql in STAR {
            run(&session, sql).await;
        }
        for (at, view) in VIEWS.iter().enumerate() {
            let view = match (at + seed as usize) % 3 {
                0 if !view.contains("WITH (") => view.replacen(" AS ", " WITH (refresh = 'on commit') AS ", 1),
                _ => (*view).to_owned(),
            };
            run(&session, &format!("CREATE MATERIALIZED VIEW {view}")).await;
        }
        for step in 0..14 {
            matched += check(&session, &mut random, 6).await;
            let transaction = random.random_range(0..3);
            if transaction > 0 {
                run(&session, "BEGIN").await;
            }
            for _ in 0..random.random_range(1..3) {
                run(&session, some::<&str>(&mut random, &CHANGES[..if transaction > 0 { 7 } else { 9 }])).await;
                if step % 2 == 0 {
                    let view = some(&mut random, &VIEWS).split_once(' ').expect("a name").0;
                    run(&session, &format!("REFRESH MATERIALIZED VIEW {view}")).await;
                }
            }
            matched += check(&session, &mut random, 3).await;
            match transaction {
                0 => {}
                1 => run(&session, "COMMIT").await,
                _ => run(&session, "ROLLBACK").await,
            }
            if step % 3 == 2 {
                for view in VIEWS {
                    let name = view.split_once(' ').expect("a name").0;
                    run(&session, &format!("REFRESH MATERIALIZED VIEW {name}")).await;
                }
            }
        }
        for table in ["orders", "days", "customers", "nations"] {
            run(&session, &format!("DROP TABLE {table} CASCADE")).await;
        }
    }
    assert!(matched > 100, "only {matched} queries read a view");
}

/// What EXPLAIN says of a query of orders and customers.
async fn plan(session: &Session, sql: &str) -> String {
    answer(session, &format!("EXPLAIN {sql}")).await
}

const JOINED: &str = "SELECT c_name, sum(o_price) FROM orders JOIN customers ON o_customer = c_id GROUP BY c_name";

#[tokio::test(flavor = "multi_thread")]
async fn a_view_is_read_as_long_as_it_is_current() {
    let database = database();
    let session = database.session();
    for sql in STAR {
        run(&session, sql).await;
    }
    // A plan that is kept from before.
    answer(&session, JOINED).await;
    run(&session, &format!("CREATE MATERIALIZED VIEW {}", VIEWS[0])).await;
    let is_read = async |session: &Session| plan(session, JOINED).await.contains("two");
    assert!(is_read(&session).await);
    let other = database.session();
    run(&other, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
    assert!(is_read(&other).await);
    // Neither other tables nor designs matter.
    for sql in ["DELETE FROM days", "ALTER TABLE customers SET DESIGN (design = 'row')", "VACUUM", "ANALYZE"] {
        run(&session, sql).await;
        assert!(is_read(&session).await, "{sql}");
    }
    for sql in [
        "INSERT INTO orders VALUES (1, 1, 1, 1, NULL)",
        "DELETE FROM orders WHERE o_id = 1",
        "UPDATE customers SET c_name = c_name WHERE c_id = 1",
        "ALTER TABLE orders ALTER COLUMN o_note TYPE VARCHAR USING upper(o_note)",
        "TRUNCATE orders",
        "CREATE OR REPLACE TABLE orders AS SELECT * FROM orders",
    ] {
        run(&session, sql).await;
        assert!(!is_read(&session).await, "{sql}");
        assert!(is_read(&other).await, "the snapshot from before {sql}");
        run(&session, "REFRESH MATERIALIZED VIEW two").await;
        assert!(is_read(&session).await, "{sql}, and REFRESH");
    }
    run(&other, "ROLLBACK").await;
    // In a transaction, and after its end.
    run(&session, "BEGIN").await;
    run(&session, "INSERT INTO orders VALUES (7, 7, 7, 7, NULL)").await;
    assert!(!is_read(&session).await && is_read(&other).await);
    run(&session, "REFRESH MATERIALIZED VIEW two").await;
    assert!(is_read(&session).await && is_read(&other).await);
    run(&session, "ROLLBACK").await;
    assert!(is_read(&session).await);
    run(&session, "SET materialized_view_matching = off").await;
    assert!(!is_read(&session).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_commit_during_a_refresh_is_not_in_it() {
    let database = database();
    let (session, other) = (database.session(), database.session());
    for sql in STAR {
        run(&session, sql).await;
    }
    run(&session, &format!("CREATE MATERIALIZED VIEW {}", VIEWS[0])).await;
    for (change, own) in [
        ("INSERT INTO orders VALUES (2000, 1, 1, 1, NULL)", ""),
        ("DELETE FROM orders WHERE o_id = 2000", ""),
        ("INSERT INTO orders VALUES (2001, 1, 1, 1, NULL)", "INSERT INTO orders VALUES (2002, 1, 1, 1, NULL)"),
        ("UPDATE customers SET c_name = 'x' WHERE c_id = 3", "DELETE FROM orders WHERE o_id = 5"),
    ] {
        run(&session, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
        if !own.is_empty() {
            run(&session, own).await;
        }
        run(&session, "REFRESH MATERIALIZED VIEW two").await;
        run(&other, change).await;
        run(&session, "COMMIT").await;
        assert!(!plan(&session, JOINED).await.contains("two"), "{change}");
        run(&session, "REFRESH MATERIALIZED VIEW two").await;
        assert!(plan(&session, JOINED).await.contains("two"), "{change}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_at_the_same_time_compute_views_one_after_the_other() {
    let database = database();
    let session = database.session();
    for sql in STAR {
        run(&session, sql).await;
    }
    let view = VIEWS[0].replacen(" AS ", " WITH (refresh = 'on commit') AS ", 1);
    run(&session, &format!("CREATE MATERIALIZED VIEW {view}")).await;
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let session = database.session();
            tokio::spawn(async move {
                for step in 0..10 {
                    let id = 5000 + 100 * writer + step;
                    run(&session, &format!("INSERT INTO orders VALUES ({id}, {writer}, 1, {step}, NULL)")).await;
                    if step % 3 == 2 {
                        run(&session, &format!("DELETE FROM orders WHERE o_id = {id} - 1")).await;
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("writes");
    }
    let direct = "FROM orders JOIN customers ON o_customer = c_id";
    run(&session, "SET materialized_view_matching = off").await;
    let expected = answer(&session, &format!("SELECT count(*), sum(o_price) {direct}")).await;
    assert_eq!(answer(&session, "SELECT count(*), sum(o_price) FROM two").await, expected);
    let current = "SELECT current FROM freestone_materialized_views()";
    assert!(answer(&session, current).await.contains("true"));
}

#[tokio::test(flavor = "multi_thread")]
async fn views_are_as_they_were_when_the_database_is_opened_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = || Database::open(folder.path(), Options::default()).expect("opens");
    let state = "SELECT name, refresh, populated, current, rows FROM freestone_materialized_views() ORDER BY name";
    let before = {
        let database = open();
        let session = database.session();
        for sql in STAR {
            run(&session, sql).await;
        }
        for view in [VIEWS[0], VIEWS[1], VIEWS[4]] {
            run(&session, &format!("CREATE MATERIALIZED VIEW {view}")).await;
        }
        run(&session, "INSERT INTO days VALUES (1, 1, 'new')").await;
        answer(&session, state).await
    };
    assert!(before.contains("true") && before.contains("false"));
    for _ in 0..2 {
        let session = open().session();
        assert_eq!(answer(&session, state).await, before);
        assert!(plan(&session, JOINED).await.contains("two"));
        // A base record.
        run(&session, "VACUUM").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn views_are_exported_after_the_rows_that_they_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = database().session();
    for sql in STAR {
        run(&session, sql).await;
    }
    for view in [
        VIEWS[1],
        VIEWS[2],
        "above WITH (refresh = 'on commit') AS SELECT n_region, sum(o_price) FROM three GROUP BY 1",
    ] {
        run(&session, &format!("CREATE MATERIALIZED VIEW {view}")).await;
    }
    for sql in [
        "CREATE MATERIALIZED VIEW later AS SELECT * FROM days WITH NO DATA",
        "CREATE VIEW a_view AS SELECT n_region FROM above",
        "CREATE INDEX by_price ON filtered (o_price)",
        "COMMENT ON MATERIALIZED VIEW above IS 'it''s above'",
        "COMMENT ON VIEW a_view IS 'a view'",
    ] {
        run(&session, sql).await;
    }
    run(&session, &format!("EXPORT DATABASE '{}'", folder.path().display())).await;
    let other = database().session();
    run(&other, &format!("IMPORT DATABASE '{}'", folder.path().display())).await;
    for sql in [
        "SELECT * FROM freestone_materialized_views() ORDER BY name",
        "SELECT * FROM three ORDER BY o_id",
        "SELECT * FROM a_view ORDER BY 1",
        "SELECT name, design FROM freestone_tables() ORDER BY name",
        "SELECT view_name, comment FROM duckdb_views() ORDER BY 1",
        "SELECT table_name, comment FROM duckdb_tables() ORDER BY 1",
        "SHOW CREATE TABLE above",
    ] {
        assert_eq!(answer(&other, sql).await, answer(&session, sql).await, "{sql}");
    }
}

/// Forms of queries around joins that a view answers, or that look like them.
const FORMS: [&str; 40] = [
    "SELECT o_id FROM orders JOIN customers ON o_customer = c_id WHERE EXISTS (SELECT 1 FROM days WHERE d_id = o_day AND d_month > c_nation)",
    "SELECT o_id FROM orders JOIN customers ON o_customer = c_id WHERE NOT EXISTS (SELECT 1 FROM days WHERE d_name = c_name)",
    "SELECT o_id FROM orders JOIN customers ON o_customer = c_id WHERE o_day IN (SELECT d_id FROM days WHERE d_month < c_nation)",
    "SELECT o_id, (SELECT max(d_month) FROM days WHERE d_id < c_nation) AS m FROM orders JOIN customers ON o_customer = c_id",
    "SELECT o_id FROM orders JOIN customers ON o_customer = c_id WHERE o_price > (SELECT avg(o_price) FROM orders JOIN customers ON o_customer = c_id)",
    "SELECT o_id, l.m FROM orders JOIN customers ON o_customer = c_id, LATERAL (SELECT d_month + c_nation AS m FROM days WHERE d_id = o_day) AS l",
    "SELECT o_id, l.m FROM orders JOIN customers ON o_customer = c_id CROSS JOIN LATERAL (SELECT c_name || o_note AS m) AS l",
    "SELECT c_name, n_name, (SELECT count(*) FROM orders JOIN customers AS k ON o_customer = k.c_id WHERE k.c_nation = n_id) AS n FROM customers JOIN nations ON c_nation = n_id",
    "SELECT o_id, c_name FROM orders LEFT JOIN customers ON o_customer = c_id",
    "SELECT o_id, c_name FROM orders RIGHT JOIN customers ON o_customer = c_id",
    "SELECT o_id, c_name FROM orders FULL JOIN customers ON o_customer = c_id",
    "SELECT o_id, c_name, d_name FROM orders JOIN customers ON o_customer = c_id LEFT JOIN days ON o_day = d_id AND d_month = c_nation",
    "SELECT o_id, d_name FROM days RIGHT JOIN (orders JOIN customers ON o_customer = c_id) ON o_day = d_id",
    "SELECT o_id FROM orders SEMI JOIN customers ON o_customer = c_id",
    "SELECT o_id, c_name FROM orders JOIN customers ON o_customer = c_id ANTI JOIN days ON o_day = d_id",
    "SELECT DISTINCT c_name, n_region FROM orders JOIN customers ON o_customer = c_id JOIN nations ON c_nation = n_id",
    "SELECT DISTINCT ON (c_name) c_name, o_id FROM orders JOIN customers ON o_customer = c_id ORDER BY c_name, o_id",
    "SELECT c_score, count(*), sum(o_price) FROM orders JOIN customers ON o_customer = c_id GROUP BY c_score",
    "SELECT n_region, c_score, count(o_note) FROM orders JOIN customers ON o_customer = c_id JOIN nations ON c_nation = n_id GROUP BY ROLLUP (n_region, c_score)",
    "SELECT n_region FROM orders JOIN customers ON o_customer = c_id JOIN nations ON c_nation = n_id GROUP BY n_region HAVING count(*) > 50",
    "SELECT o_id, rank() OVER (PARTITION BY c_name ORDER BY o_price DESC) FROM orders JOIN customers ON o_customer = c_id",
    "SELECT o_id, c_name FROM orders JOIN customers ON o_customer = c_id ORDER BY o_id DESC LIMIT 7 OFFSET 3",
    "SELECT o_id FROM orders JOIN customers ON o_customer = c_id UNION ALL SELECT c_id FROM customers JOIN nations ON c_nation = n_id",
    "SELECT c_name FROM orders JOIN customers ON o_customer = c_id EXCEPT SELECT c_name FROM customers WHERE c_nation = 2",
    "WITH j AS (SELECT * FROM orders JOIN customers ON o_customer = c_id) SELECT a.o_id, b.c_name FROM j a JOIN j b ON a.o_id = b.o_id + 1",
    "WITH j AS MATERIALIZED (SELECT * FROM orders JOIN customers ON o_customer = c_id) SELECT o_id, (SELECT count(*) FROM j) AS n FROM j",
    "SELECT a.o_id, b.o_id AS other FROM orders a JOIN orders b ON a.o_id = b.o_id + 1 JOIN customers ON a.o_customer = c_id",
    "SELECT * FROM orders JOIN customers ON o_customer = c_id",
    "SELECT o.*, c.c_name FROM orders AS o (o_id, x, y, z, w) JOIN customers AS c ON o.x = c.c_id",
    "SELECT count(*) FROM orders, customers WHERE o_customer = c_id",
    "SELECT count(*) FILTER (WHERE n_region IS NULL), count(DISTINCT c_name) FROM orders, customers, nations WHERE o_customer = c_id AND n_id = c_nation",
    "SELECT 1 AS one FROM orders JOIN customers ON o_customer = c_id",
    "SELECT o_id, random() < 2 AS b FROM orders JOIN customers ON o_customer = c_id WHERE random() < 2",
    "SELECT o_id FROM orders JOIN customers ON o_customer <> c_id AND o_id < 3",
    "SELECT o_id FROM orders JOIN customers ON o_customer = c_id AND c_score = 'nan'::DOUBLE",
    "SELECT o_id FROM orders JOIN customers ON o_customer = c_id AND o_customer IS NOT DISTINCT FROM c_nation",
    "SELECT public.orders.o_id, main.customers.c_name FROM public.orders JOIN main.customers ON public.orders.o_customer = main.customers.c_id",
    "SELECT v.o_id, v.upper FROM (SELECT o_id, upper(c_name) AS upper, c_nation FROM orders JOIN customers ON o_customer = c_id) AS v JOIN nations ON v.c_nation = n_id",
    "SELECT o_id, unnest([c_id, c_nation]) AS u FROM orders JOIN customers ON o_customer = c_id",
    "SELECT o_id FROM (SELECT * FROM orders WHERE o_id > 30) JOIN (SELECT * FROM customers WHERE c_nation < 3) ON c_id = o_customer",
];

async fn star() -> (Arc<Database>, Session) {
    let database = database();
    let session = database.session();
    for sql in STAR {
        run(&session, sql).await;
    }
    (database, session)
}

async fn set_matching(session: &Session, is_on: bool) {
    run(session, &format!("SET materialized_view_matching = {is_on}")).await;
}

/// Compares the answers to a query with and without views, and says whether a view was read.
async fn is_answered_alike(session: &Session, sql: &str) -> bool {
    set_matching(session, true).await;
    let plan = plan(session, sql).await;
    let with = answer(session, sql).await;
    set_matching(session, false).await;
    assert_eq!(with, answer(session, sql).await, "{sql}\n{plan}");
    set_matching(session, true).await;
    VIEWS.iter().any(|view| plan.contains(view.split_once(' ').expect("a name").0))
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_of_all_forms_have_the_rows_of_their_tables() {
    let (_database, session) = star().await;
    for view in VIEWS {
        run(&session, &format!("CREATE MATERIALIZED VIEW {view}")).await;
    }
    for form in FORMS {
        let sql = if form.contains("LIMIT") { form.to_owned() } else { format!("SELECT * FROM ({form}) ORDER BY ALL") };
        is_answered_alike(&session, &sql).await;
        is_answered_alike(&session, &format!("SELECT count(*) FROM ({form})")).await;
    }
    // Any rows may be the first ones, so that they come from the tables.
    set_matching(&session, true).await;
    let first = plan(&session, "SELECT o_id FROM orders JOIN customers ON o_customer = c_id LIMIT 5").await;
    assert!(first.contains("table=orders"), "{first}");
}

#[tokio::test(flavor = "multi_thread")]
async fn temporary_tables_and_earlier_versions_are_not_those_of_a_view() {
    let (database, session) = star().await;
    run(&session, "SET retention = 3600").await;
    run(&session, &format!("CREATE MATERIALIZED VIEW {}", VIEWS[0])).await;
    assert!(plan(&session, JOINED).await.contains("two"));
    let version = answer(&session, "SELECT max(version) FROM freestone_versions()").await;
    let version: u64 = version.chars().filter(char::is_ascii_digit).collect::<String>().parse().expect("a number");
    run(&session, "DELETE FROM orders WHERE o_id > 10").await;
    run(&session, "REFRESH MATERIALIZED VIEW two").await;
    let past =
        format!("SELECT count(*) FROM orders AT (VERSION => {version}) AS o JOIN customers ON o.o_customer = c_id");
    is_answered_alike(&session, &past).await;
    assert!(answer(&session, &past).await.contains("300"));
    run(&session, "CREATE TEMP TABLE customers AS SELECT * FROM main.customers LIMIT 0").await;
    is_answered_alike(&session, "SELECT count(*) FROM orders JOIN customers ON o_customer = c_id").await;
    let count = answer(&session, &format!("SELECT count(*) = 0 AS is_empty FROM ({JOINED})")).await;
    assert!(count.contains("true"), "{count}");
    // The view still reads the other one.
    run(&session, "REFRESH MATERIALIZED VIEW two").await;
    assert!(answer(&session, "SELECT count(*) FROM two").await.contains("11"));
    assert!(plan(&database.session(), JOINED).await.contains("two"));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_definitions_make_a_view_stale() {
    let (database, session) = star().await;
    let current = "SELECT string_agg(name, ',' ORDER BY name) FROM freestone_materialized_views() WHERE current";
    for sql in [
        "CREATE VIEW below AS SELECT * FROM orders WHERE o_id < 50",
        "CREATE MACRO lowest() AS 20",
        "CREATE MATERIALIZED VIEW over_view AS SELECT o_id, c_name FROM below JOIN customers ON o_customer = c_id",
        "CREATE MATERIALIZED VIEW over_macro AS SELECT o_id, c_name FROM orders JOIN customers ON o_customer = c_id AND o_id > lowest()",
        "CREATE MATERIALIZED VIEW always WITH (refresh = 'on commit') AS SELECT o_id FROM below JOIN customers ON o_customer = c_id WHERE o_id > lowest()",
        "CREATE MATERIALIZED VIEW above AS SELECT * FROM over_view",
    ] {
        run(&session, sql).await;
    }
    assert!(answer(&session, current).await.contains("above,always,over_macro,over_view"));
    let queries = [
        "SELECT o_id, c_name FROM below JOIN customers ON o_customer = c_id ORDER BY ALL",
        "SELECT o_id, c_name FROM orders JOIN customers ON o_customer = c_id WHERE o_id < 50 ORDER BY ALL",
        "SELECT o_id, c_name FROM orders JOIN customers ON o_customer = c_id AND o_id > lowest() ORDER BY ALL",
        "SELECT o_id, c_name FROM orders JOIN customers ON o_customer = c_id AND o_id > 40 ORDER BY ALL",
    ];
    for (sql, stale) in [
        ("CREATE OR REPLACE VIEW below AS SELECT * FROM orders WHERE o_id < 30", "over_view"),
        ("CREATE OR REPLACE MACRO lowest() AS 40", "over_macro"),
        // It takes the place of a function.
        ("CREATE MACRO lower(x) AS upper(x)", "over_macro"),
        ("CREATE TYPE mood AS ENUM ('good', 'bad')", "over_macro"),
    ] {
        // As another session that has computed the views meanwhile.
        let other = database.session();
        run(&other, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
        run(&other, &format!("REFRESH MATERIALIZED VIEW {stale}")).await;
        run(&session, sql).await;
        run(&other, "COMMIT").await;
        assert!(!answer(&session, current).await.contains(stale), "{sql}");
        assert!(answer(&session, current).await.contains("always"), "{sql}");
        for query in queries {
            is_answered_alike(&session, query).await;
        }
        let always = "SELECT count(*), sum(o_id) FROM";
        set_matching(&session, false).await;
        let expected =
            answer(&session, &format!("{always} below JOIN customers ON o_customer = c_id WHERE o_id > lowest()"))
                .await;
        assert_eq!(answer(&session, &format!("{always} always")).await, expected, "{sql}");
        for view in ["over_view", "over_macro", "above"] {
            run(&session, &format!("REFRESH MATERIALIZED VIEW {view}")).await;
        }
        assert!(answer(&session, current).await.contains("above,always,over_macro,over_view"), "{sql}");
        for query in queries {
            is_answered_alike(&session, query).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn references_hold_in_a_transaction_that_changes_both_sides() {
    let (_database, session) = star().await;
    run(&session, &format!("CREATE MATERIALIZED VIEW {}", VIEWS[1])).await;
    let sql = "SELECT count(*), sum(o_id) FROM orders JOIN customers ON o_customer = c_id";
    assert!(is_answered_alike(&session, sql).await);
    run(&session, "BEGIN").await;
    // Either the deletion is refused, or a view without rows of the reference is read for no query that does not name it.
    if session.sql("DELETE FROM nations WHERE n_id = 1").await.is_ok() {
        run(&session, "REFRESH MATERIALIZED VIEW three").await;
        is_answered_alike(&session, sql).await;
    }
    run(&session, "ROLLBACK").await;
    assert!(is_answered_alike(&session, sql).await);
}
