//! Redundant joins are removed, and only those: every query returns the same result on tables without declared keys.

use std::sync::Arc;

use freestone::{Database, Options, Session};

use crate::rows::answer;

/// Facts, some without a customer; customers, some without a nation; and the same tables without keys.
async fn star() -> Session {
    let database: Arc<Database> =
        Database::in_memory(Options { threads: 2, ..Options::default() }).expect("memory is there");
    let session = database.session();
    for sql in [
        "CREATE TABLE nation (code VARCHAR PRIMARY KEY NOT ENFORCED, name VARCHAR)",
        "INSERT INTO nation SELECT 'n' || v, 'nation ' || v FROM generate_series(0, 6) AS t(v)",
        "CREATE TABLE cust (id INT PRIMARY KEY NOT ENFORCED, nation VARCHAR, age INT, FOREIGN KEY (nation) REFERENCES nation (code))",
        "INSERT INTO cust SELECT v, CASE WHEN v % 5 = 0 THEN NULL ELSE 'n' || ((v + 70) % 7) END, v % 90
            FROM generate_series(-50, 49) AS t(v)",
        "CREATE TABLE fact (cust INT, other INT NOT NULL, x BIGINT,
            FOREIGN KEY (cust) REFERENCES cust (id), FOREIGN KEY (other) REFERENCES cust (id))",
        "INSERT INTO fact SELECT CASE WHEN v % 11 = 0 THEN NULL ELSE v % 100 - 50 END, v * 7 % 100 - 50, v
            FROM generate_series(1, 3000) AS t(v)",
        "CREATE TABLE nation_ AS SELECT * FROM nation",
        "CREATE TABLE cust_ AS SELECT * FROM cust",
        "CREATE TABLE fact_ AS SELECT * FROM fact",
    ] {
        session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    session
}

/// Compares the result with that of the tables without keys, and returns the number of joins in the plan.
async fn joins(session: &Session, sql: &str) -> usize {
    let (keyed, keyless) = (sql.replace('@', ""), sql.replace('@', "_"));
    assert_eq!(answer(session, &keyed).await, answer(session, &keyless).await, "{keyed}");
    let plan = answer(session, &format!("EXPLAIN (FORMAT traditional) {keyed}")).await;
    let physical = plan.split("physical_plan").nth(1).expect("EXPLAIN shows the physical plan");
    physical.matches("JoinExec").count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_that_change_nothing_are_left_out() {
    let session = star().await;
    let wide = "fact@ AS f JOIN cust@ AS c ON f.cust = c.id JOIN nation@ AS n ON c.nation = n.code";
    for (left, sql) in [
        // No column of the nation is used. The nation of a customer may be missing, which is a filter on customers.
        (0, format!("SELECT count(*), sum(x) FROM {wide}")),
        // String keys cannot be tested as key sets.
        (2, format!("SELECT count(*), sum(x) FROM {wide} WHERE c.age > 30 AND n.name LIKE '%1'")),
        (1, format!("SELECT c.age, sum(x) FROM {wide} GROUP BY c.age ORDER BY 1")),
        (0, "SELECT count(*), sum(x) FROM fact@ AS f JOIN cust@ AS c ON f.cust = c.id".into()),
        (0, "SELECT sum(x) FROM cust@ AS c JOIN fact@ AS f ON c.id = f.other".into()),
        (0, "SELECT sum(x) FROM (SELECT * FROM fact@ AS f JOIN cust@ AS c ON f.other = c.id) WHERE x > 7".into()),
        (
            0,
            "WITH w AS (SELECT f.x, c.age FROM fact@ AS f LEFT JOIN cust@ AS c ON f.cust = c.id)
             SELECT x FROM w ORDER BY x LIMIT 3"
                .into(),
        ),
        (
            0,
            "SELECT sum(x) FROM fact@ AS f LEFT JOIN (SELECT * FROM cust@ WHERE age > 30) AS c ON f.cust = c.id".into(),
        ),
        (0, "SELECT sum(x) FROM cust@ AS c RIGHT JOIN fact@ AS f ON f.cust = c.id".into()),
        (0, "SELECT f.cust, max(x) FROM fact@ AS f JOIN cust@ AS c ON f.cust = c.id GROUP BY f.cust ORDER BY 1".into()),
        (
            0,
            "SELECT sum(f.x) FROM fact@ AS f JOIN cust@ AS c ON f.cust = c.id JOIN cust@ AS d ON f.other = d.id".into(),
        ),
        // Used columns, including those used only in a condition.
        (1, "SELECT sum(x + age) FROM fact@ AS f JOIN cust@ AS c ON f.cust = c.id".into()),
        (1, "SELECT sum(x) FROM fact@ AS f LEFT JOIN cust@ AS c ON f.cust = c.id WHERE age > 3 OR age IS NULL".into()),
        // Several customers per row, another key, or no key.
        (0, "SELECT sum(x) FROM fact@ AS f JOIN cust@ AS c ON f.cust = c.id WHERE c.age > 1000".into()),
        (0, "SELECT sum(x) FROM fact@ AS f JOIN cust@ AS c ON f.cust = c.id WHERE c.age % 3 = 1".into()),
        (0, "SELECT sum(x) FROM fact@ AS f WHERE cust IN (SELECT id FROM cust@ WHERE age > 30)".into()),
        (0, "SELECT sum(x) FROM fact@ AS f WHERE cust IN (SELECT age FROM cust@ WHERE age > 30)".into()),
        (
            0,
            "SELECT sum(x) FROM fact@ AS f WHERE EXISTS (SELECT 1 FROM cust@ AS c WHERE c.id = f.cust AND age < 9)"
                .into(),
        ),
        (0, "SELECT x FROM fact@ AS f WHERE cust IN (SELECT id FROM cust@ WHERE age = 7) ORDER BY x LIMIT 5".into()),
        (1, "SELECT sum(x) FROM fact@ AS f WHERE cust NOT IN (SELECT id FROM cust@ WHERE age > 30)".into()),
        (1, "SELECT sum(age) FROM cust@ AS c WHERE id IN (SELECT cust FROM fact@ WHERE x > 30)".into()),
        (
            1,
            "SELECT c.age, sum(x) FROM fact@ AS f JOIN cust@ AS c ON f.cust = c.id JOIN cust@ AS d ON f.other = d.id
             WHERE d.age < 20 GROUP BY c.age ORDER BY 1"
                .into(),
        ),
        (
            1,
            "SELECT count(*), sum(f.x) FROM cust@ AS c LEFT JOIN fact@ AS f ON c.id = f.cust
             JOIN cust@ AS d ON f.other = d.id WHERE d.age < 20"
                .into(),
        ),
        (
            1,
            "SELECT sum(x) FROM fact@ AS f JOIN (SELECT * FROM cust@ LIMIT 20) AS c ON f.cust = c.id WHERE x < 0"
                .into(),
        ),
        (1, "SELECT sum(x) FROM fact@ AS f JOIN cust@ AS c ON f.cust = c.age".into()),
        (1, "SELECT sum(x) FROM fact@ AS f LEFT JOIN cust@ AS c ON f.cust = c.age".into()),
        (1, "SELECT sum(x) FROM fact@ AS f JOIN cust@ AS c ON f.x = c.id".into()),
        (1, "SELECT sum(x) FROM fact@ AS f JOIN cust@ AS c ON f.cust = c.id AND f.x > c.age".into()),
        (1, "SELECT sum(age) FROM cust@ AS c LEFT JOIN fact@ AS f ON f.cust = c.id".into()),
        (1, "SELECT sum(x) FROM fact@ AS f RIGHT JOIN cust@ AS c ON f.cust = c.id".into()),
        (1, "SELECT sum(x) FROM fact@ AS f FULL JOIN cust@ AS c ON f.cust = c.id".into()),
        // Customers that occur several times.
        (
            2,
            "SELECT sum(f.x) FROM fact@ AS f LEFT JOIN (SELECT c.id FROM cust@ AS c JOIN fact@ AS g
             ON c.id = g.cust AND g.x > c.age) AS d ON f.cust = d.id"
                .into(),
        ),
    ] {
        assert_eq!(joins(&session, &sql).await, left, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_do_not_hold_keep_their_joins() {
    let session = star().await;
    let inner = "SELECT count(*), sum(x) FROM fact@ AS f JOIN cust@ AS c ON f.cust = c.id";
    let outer = "SELECT count(*), sum(x) FROM fact@ AS f LEFT JOIN cust@ AS c ON f.cust = c.id";
    assert_eq!((joins(&session, inner).await, joins(&session, outer).await), (0, 0));
    let change = async |sql: &str| {
        for sql in [sql.replace('@', ""), sql.replace('@', "_")] {
            session.sql(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    };
    change("INSERT INTO fact@ VALUES (4711, 1, 1)").await;
    assert_eq!((joins(&session, inner).await, joins(&session, outer).await), (0, 0), "a reference without its row");
    change("DELETE FROM fact@ WHERE cust = 4711").await;
    assert_eq!((joins(&session, inner).await, joins(&session, outer).await), (0, 0));
    change("DELETE FROM cust@ WHERE id = 3").await;
    assert_eq!((joins(&session, inner).await, joins(&session, outer).await), (0, 0), "a row that is gone");
    change("INSERT INTO cust@ VALUES (3, 'n1', 5), (4, 'n1', 5)").await;
    assert_eq!((joins(&session, inner).await, joins(&session, outer).await), (1, 1), "a key of two rows");
}

/// Of several keys, the relation that has most of them says how many combinations there are; and the keys of a table are counted
/// although its sample has adjacent rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_keys_are_expected_together() {
    let database: Arc<Database> =
        Database::in_memory(Options { threads: 2, ..Options::default() }).expect("memory is there");
    let session = database.session();
    for sql in [
        "CREATE TABLE part AS SELECT v AS id, v % 7 AS kind FROM range(50000) AS t(v)",
        "CREATE TABLE offer AS SELECT v // 4 AS part, (v * 7 + v // 4) % 1000 AS seller, v AS cost FROM range(200000) AS t(v)",
        "CREATE TABLE seller AS SELECT v AS id FROM range(1000) AS t(v)",
        "CREATE TABLE sale AS SELECT v % 200000 // 4 AS part, (v % 200000 * 7 + v % 200000 // 4) % 1000 AS seller, v AS n \
         FROM range(400000) AS t(v)",
    ] {
        session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    let from = "FROM part, offer, seller, sale WHERE part.id = offer.part AND offer.part = sale.part AND \
         seller.id = sale.seller AND offer.seller = sale.seller";
    let rows = answer(&session, &format!("SELECT count(*), sum(n), sum(cost) {from}")).await;
    assert!(rows.contains("400000"), "{rows}");
    let plan = answer(&session, &format!("EXPLAIN SELECT n, cost, kind {from}")).await;
    let expected = plan.split("Hash join").nth(1).and_then(|join| join.split("rows: ").nth(1));
    let expected = expected.and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok());
    assert!(expected.is_some_and(|rows| (100_000..1_600_000).contains(&rows)), "{plan}");
}

/// The order of a FROM clause does not decide how relations are joined.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_are_ordered_by_their_rows() {
    let database: Arc<Database> =
        Database::in_memory(Options { threads: 2, ..Options::default() }).expect("memory is there");
    let session = database.session();
    for sql in [
        "CREATE TABLE region AS SELECT v AS id, 'region ' || v AS name FROM range(5) AS t(v)",
        "CREATE TABLE nation AS SELECT v AS id, v % 5 AS region, 'nation ' || v AS name FROM range(25) AS t(v)",
        "CREATE TABLE buyer AS SELECT v AS id, v % 25 AS nation FROM range(3000) AS t(v)",
        "CREATE TABLE seller AS SELECT v AS id, v % 25 AS nation FROM range(200) AS t(v)",
        "CREATE TABLE sale AS SELECT v AS id, v * 7 % 3000 AS buyer, v * 13 % 200 AS seller, v % 50 AS amount \
         FROM range(30000) AS t(v)",
    ] {
        session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    let conditions = "WHERE sale.buyer = buyer.id AND sale.seller = seller.id AND buyer.nation = seller.nation AND \
         seller.nation = nation.id AND nation.region = region.id AND region.name = 'region 0'";
    let mut answers = vec![];
    for from in [
        "sale, buyer, seller, nation, region",
        "region, seller, sale, buyer, nation",
        "buyer, region, seller, nation, sale",
        "seller CROSS JOIN buyer CROSS JOIN region CROSS JOIN nation CROSS JOIN sale",
    ] {
        let sql =
            format!("SELECT region.name, count(*), sum(amount), min(buyer.id) FROM {from} {conditions} GROUP BY 1");
        answers.push(answer(&session, &sql).await);
        let plan = answer(&session, &format!("EXPLAIN (FORMAT traditional) {sql}")).await;
        let physical = plan.split("physical_plan").nth(1).expect("EXPLAIN shows the physical plan");
        assert!(!physical.contains("CrossJoinExec"), "{from}: {plan}");
        // Buyers are not joined with all sellers of their nation, which are more pairs than there are sales.
        let pairs = physical.matches("JoinExec").count();
        assert!(pairs <= 4, "{from}: {plan}");
        let by_nation = physical.lines().filter(|line| line.contains("JoinExec") && line.contains("nation@"));
        let is_alone = |line: &&str| !line.contains("id@") && !line.contains("buyer@") && !line.contains("seller@");
        assert_eq!(by_nation.filter(is_alone).count(), 0, "{from}: {plan}");
    }
    assert!(answers[0].contains("region 0"), "{}", answers[0]);
    assert!(answers.iter().all(|rows| *rows == answers[0]), "{answers:?}");
}
