//! Random joins of tables with equal column names return the same results as with different names.
//!
//! `FREESTONE_TEST_ROUNDS` is their number, and `FREESTONE_TEST_SEED` the seed.

use std::fmt::Write;

use freestone::{Database, Options, Session};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::rows::{answer, run};

const COLUMNS: [&str; 3] = ["id", "k", "v"];
const ALIASES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const ROWS: [usize; 5] = [0, 3, 9, 30, 90];

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// Tables `t0`, `t1`, … with the columns `id`, `k`, `v`; and for each alias a copy of each, whose column names begin
/// with the alias.
async fn tables(random: &mut StdRng) -> Session {
    let database = Database::in_memory(Options { threads: 2, ..Options::default() }).expect("memory is there");
    let session = database.session();
    for (at, rows) in ROWS.into_iter().enumerate() {
        run(&session, &format!("CREATE TABLE t{at} (id INT, k INT, v INT)")).await;
        let mut cell = |from: usize| match random.random_range(0..7) {
            0 => "NULL".to_owned(),
            _ => random.random_range(0..from.max(4)).to_string(),
        };
        let values: Vec<_> = (0..rows).map(|id| format!("({id}, {}, {})", cell(rows / 3), cell(rows / 4))).collect();
        if rows > 0 {
            run(&session, &format!("INSERT INTO t{at} VALUES {}", values.join(", "))).await;
        }
        for alias in ALIASES {
            let columns = COLUMNS.map(|column| format!("{column} AS {alias}_{column}")).join(", ");
            run(&session, &format!("CREATE TABLE {alias}_t{at} AS SELECT {columns} FROM t{at}")).await;
        }
    }
    session
}

/// A column of one of the aliases. `@` stands for the start of its name.
fn column(random: &mut StdRng, aliases: &[&str]) -> String {
    let alias = aliases[random.random_range(0..aliases.len())];
    format!("{alias}.@{alias}@{}", COLUMNS[random.random_range(0..3)])
}

fn condition(random: &mut StdRng, aliases: &[&str]) -> String {
    let (left, right) = (column(random, aliases), column(random, aliases));
    let literal = random.random_range(0..8);
    match random.random_range(0..6) {
        0 => format!("{left} IS NULL"),
        1 => format!("({left} = {literal} OR {right} > {literal})"),
        2 => format!("{left} IN ({literal}, 1)"),
        3 => format!("{left} < {right}"),
        4 => format!("{left} <> {literal}"),
        _ => format!("{left} >= {literal}"),
    }
}

fn query(random: &mut StdRng) -> String {
    let count = random.random_range(2..7);
    let table =
        |random: &mut StdRng, alias: &str| format!("@{alias}@t{} AS {alias}", random.random_range(0..ROWS.len()));
    let mut from = table(random, "a");
    for at in 1..count {
        let kind = ["", "", "", "LEFT", "RIGHT", "FULL"][random.random_range(0..6)];
        let (left, right) = (column(random, &ALIASES[..at]), column(random, &ALIASES[at..=at]));
        let joined = table(random, ALIASES[at]);
        write!(from, " {kind} JOIN {joined} ON {left} = {right}").expect("a text takes all");
        if random.random_range(0..2) == 0 {
            let (left, right) = (column(random, &ALIASES[..at]), column(random, &ALIASES[at..=at]));
            write!(from, " AND {left} = {right}").expect("a text takes all");
        }
        if kind != "FULL" && random.random_range(0..4) == 0 {
            write!(from, " AND {}", condition(random, &ALIASES[..=at])).expect("a text takes all");
        }
    }
    let aliases = &ALIASES[..count];
    let mut conditions: Vec<String> = (0..random.random_range(0..3)).map(|_| condition(random, aliases)).collect();
    if random.random_range(0..3) == 0 {
        let (key, inner) = (column(random, aliases), random.random_range(0..ROWS.len()));
        conditions.push(match random.random_range(0..3) {
            0 => format!("{key} IN (SELECT id FROM t{inner} WHERE k > 1)"),
            1 => format!("EXISTS (SELECT 1 FROM t{inner} AS q WHERE q.k = {key} AND q.id > 1)"),
            _ => format!("NOT EXISTS (SELECT 1 FROM t{inner} AS q WHERE q.v = {key})"),
        });
    }
    let filters = if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) };
    let (x, y, z) = (column(random, aliases), column(random, aliases), column(random, aliases));
    let limit = random.random_range(1..9);
    match random.random_range(0..3) {
        0 => format!(
            "SELECT {x} AS x, {y} AS y, count(*), max({z}) AS m FROM {from}{filters} GROUP BY {x}, {y} ORDER BY 1, 2"
        ),
        1 => format!("SELECT {x} AS x, {y} AS y, {z} AS z FROM {from}{filters} ORDER BY 1 DESC, 2, 3 LIMIT {limit}"),
        _ => format!(
            "SELECT count(*), sum(x), sum(y), sum(z) FROM (SELECT {x} AS x, {y} AS y, {z} AS z FROM {from}{filters}) AS w"
        ),
    }
}

/// The query with equal names, and with a different name for each column.
fn named(query: &str) -> (String, String) {
    let (mut equal, mut different) = (String::new(), String::new());
    for (at, part) in query.split('@').enumerate() {
        match at % 2 {
            0 => [&mut equal, &mut different].iter_mut().for_each(|text| text.push_str(part)),
            _ => different.extend([part, "_"]),
        }
    }
    (equal, different)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fuzz_joins_of_equal_names() {
    let seed = number("FREESTONE_TEST_SEED", 7);
    let mut random = StdRng::seed_from_u64(seed as u64);
    let session = tables(&mut random).await;
    for round in 0..number("FREESTONE_TEST_ROUNDS", 300) {
        let query = query(&mut random);
        let (equal, different) = named(&query);
        let (found, right) = (answer(&session, &equal).await, answer(&session, &different).await);
        assert_eq!(found, right, "seed {seed}, round {round}: {equal}");
    }
}
