//! Random histories on a table with keys, against a model: the database is closed and opened again, vacuumed and
//! converted in between. And sessions that add the same keys at the same time.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Int32Type, Int64Type};
use freestone::{Database, Error, Options, Outcome, Session};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// By `id`: `u`, which is unique unless it is NULL, and `v`.
type Model = BTreeMap<i32, (Option<i32>, i64)>;

type Row = (i32, Option<i32>, i64);

fn open(path: &Path) -> Arc<Database> {
    let options = Options { threads: 2, memory_limit: Some(1 << 30), ..Options::default() };
    Database::open(path, options).expect("opens")
}

/// Adds a row to a model. False if one of its keys is there.
fn add(model: &mut Model, (id, u, v): Row) -> bool {
    let is_free = !model.contains_key(&id) && (u.is_none() || model.values().all(|(other, _)| *other != u));
    if is_free {
        model.insert(id, (u, v));
    }
    is_free
}

/// All rows with the changes of a statement, or nothing if two have the same key.
fn rebuilt(rows: impl Iterator<Item = Row>) -> Option<Model> {
    let mut model = Model::new();
    for row in rows {
        if !add(&mut model, row) {
            return None;
        }
    }
    Some(model)
}

fn inserted(model: &Model, rows: &[Row]) -> Option<Model> {
    rebuilt(model.iter().map(|(id, (u, v))| (*id, *u, *v)).chain(rows.iter().copied()))
}

fn upserted(model: &Model, rows: &[Row]) -> Option<Model> {
    let is_twice = |at: usize| rows[..at].iter().any(|other| other.0 == rows[at].0);
    if (0..rows.len()).any(is_twice) {
        return None;
    }
    let mut all: Vec<Row> = model.iter().map(|(id, (u, v))| (*id, *u, *v)).collect();
    for (id, u, v) in rows {
        match all.iter_mut().find(|row| row.0 == *id) {
            Some(row) => (row.1, row.2) = (*u, row.2 + v),
            None => all.push((*id, *u, *v)),
        }
    }
    rebuilt(all.into_iter())
}

fn random_rows(random: &mut StdRng) -> Vec<Row> {
    let row = |random: &mut StdRng| {
        let u = (random.random_range(0..3) > 0).then(|| random.random_range(0..40));
        (random.random_range(0..40), u, random.random_range(-5..100))
    };
    (0..random.random_range(1..4)).map(|_| row(random)).collect()
}

/// A statement, and what becomes of the rows: `None` if it fails.
fn statement(random: &mut StdRng, model: &Model) -> (String, Option<Model>) {
    let rows = random_rows(random);
    let value = |(id, u, v): &Row| format!("({id}, {}, {v})", u.map_or("NULL".into(), |u| u.to_string()));
    let values = rows.iter().map(value).collect::<Vec<_>>().join(", ");
    let low = random.random_range(0..40);
    let is_low = |id: i32| (low..low + 4).contains(&id);
    let all = || model.iter().map(|(id, (u, v))| (*id, *u, *v));
    match random.random_range(0..8) {
        0 | 1 => (format!("INSERT INTO k VALUES {values}"), inserted(model, &rows)),
        2 => {
            let sql = format!(
                "INSERT INTO k VALUES {values} ON CONFLICT (id) DO UPDATE SET u = excluded.u, v = k.v + excluded.v"
            );
            (sql, upserted(model, &rows))
        }
        3 => {
            let mut after = model.clone();
            rows.iter().for_each(|row| {
                add(&mut after, *row);
            });
            (format!("INSERT INTO k VALUES {values} ON CONFLICT DO NOTHING"), Some(after))
        }
        4 => {
            let by = random.random_range(-2..3);
            let moved = all().map(|(id, u, v)| if is_low(id) { (id + by, u, v) } else { (id, u, v) });
            (format!("UPDATE k SET id = id + {by} WHERE id BETWEEN {low} AND {low} + 3"), rebuilt(moved))
        }
        5 => {
            let moved = all().map(|(id, u, v)| if is_low(id) { (id, u.map(|u| u + 1), v + 1) } else { (id, u, v) });
            (format!("UPDATE k SET u = u + 1, v = v + 1 WHERE id BETWEEN {low} AND {low} + 3"), rebuilt(moved))
        }
        6 => {
            let kept = all().filter(|(id, ..)| !is_low(*id));
            (format!("DELETE FROM k WHERE id BETWEEN {low} AND {low} + 3"), rebuilt(kept))
        }
        _ => {
            let after = all().map(|(id, u, v)| if is_low(id) { (id, u, -v) } else { (id, u, v) });
            (format!("UPDATE k SET v = -v WHERE id BETWEEN {low} AND {low} + 3"), rebuilt(after))
        }
    }
}

async fn rows(session: &Session) -> Model {
    let batches = session.sql("SELECT id, u, v FROM k").await.expect("reads").collect().await.expect("reads");
    let mut model = Model::new();
    for batch in batches {
        let (id, u) = (batch.column(0).as_primitive::<Int32Type>(), batch.column(1).as_primitive::<Int32Type>());
        let v = batch.column(2).as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            let u = u.is_valid(row).then(|| u.value(row));
            assert!(model.insert(id.value(row), (u, v.value(row))).is_none(), "{} comes twice", id.value(row));
        }
    }
    model
}

/// Changes nothing that a query shows.
async fn maintain(random: &mut StdRng, session: &Session) {
    let sql = match random.random_range(0..4) {
        0 => "VACUUM",
        1 => "ALTER TABLE k SET DESIGN (preset = 'row', page_size = '4KiB')",
        2 => "ALTER TABLE k SET DESIGN (preset = 'column', sort = 'v')",
        _ => "ALTER TABLE k SET DESIGN (preset = 'auto')",
    };
    session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

async fn history(seed: u64, steps: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    let mut database = open(&path);
    let mut sessions = [database.session(), database.session()];
    let create = "CREATE TABLE k (id INT PRIMARY KEY, u INT UNIQUE, v BIGINT)";
    sessions[0].sql(create).await.expect("creates");
    let mut random = StdRng::seed_from_u64(seed);
    let mut model = Model::new();
    for step in 0..steps {
        let session = &sessions[random.random_range(0..2)];
        let place = format!("seed {seed}, step {step}");
        if random.random_range(0..5) > 0 {
            let (sql, after) = statement(&mut random, &model);
            check(session.sql(&sql).await, after, &mut model, &format!("{place}: {sql}"));
        } else {
            in_transaction(session, &mut random, &mut model, &place).await;
        }
        assert_eq!(rows(&sessions[step % 2]).await, model, "{place}");
        if random.random_range(0..10) == 0 {
            maintain(&mut random, session).await;
        }
        if random.random_range(0..25) == 0 {
            drop((sessions, database));
            database = open(&path);
            sessions = [database.session(), database.session()];
        }
    }
    let problems = sessions[0].sql("CHECK").await.expect("checks").collect().await.expect("checks");
    assert_eq!(problems.iter().map(|batch| batch.num_rows()).sum::<usize>(), 0);
}

/// Several statements, of which the last ones may be taken back, or all.
async fn in_transaction(session: &Session, random: &mut StdRng, model: &mut Model, place: &str) {
    session.sql("BEGIN").await.expect("begins");
    let before = model.clone();
    for _ in 0..random.random_range(1..4) {
        session.sql("SAVEPOINT s").await.expect("saves");
        let (saved, (sql, after)) = (model.clone(), statement(random, model));
        let fails = after.is_none();
        check(session.sql(&sql).await, after, model, &format!("{place}: {sql}"));
        if fails || random.random_range(0..4) == 0 {
            session.sql("ROLLBACK TO s").await.expect("takes back");
            *model = saved;
        }
        assert_eq!(rows(session).await, *model, "{place}: {sql}");
    }
    if random.random_range(0..3) == 0 {
        session.sql("ROLLBACK").await.expect("rolls back");
        *model = before;
    } else {
        session.sql("COMMIT").await.expect("commits");
    }
}

fn check(outcome: Result<Outcome, Error>, after: Option<Model>, model: &mut Model, place: &str) {
    match (outcome, after) {
        (Ok(_), Some(after)) => *model = after,
        // If hot rows were merged since the transaction began, an upsert cannot tell a key that was there from one that
        // was added since: it is to be repeated (40001).
        (Err(error), None) => assert!(["23505", "21000", "40001"].contains(&error.sqlstate()), "{place}: {error}"),
        (Ok(_), None) => panic!("{place}: it succeeds, with {model:?}"),
        (Err(error), Some(_)) => panic!("{place}: {error}, with {model:?}"),
    }
}

#[test]
fn random_histories_are_those_of_the_model() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for seed in 0..4 {
        runtime.block_on(history(seed, 120));
    }
}

/// What a session has done: the keys that it has claimed, and how often it has counted each key.
#[derive(Default)]
struct Done {
    claimed: Vec<i64>,
    counted: i64,
}

async fn work(database: Arc<Database>, writer: u64) -> Done {
    let session = database.session();
    let mut random = StdRng::seed_from_u64(writer);
    let mut done = Done::default();
    for _ in 0..60 {
        let key = random.random_range(0..40i64);
        if random.random_range(0..2) == 0 {
            match session.sql(&format!("INSERT INTO claims VALUES ({key}, {writer})")).await {
                Ok(_) => done.claimed.push(key),
                Err(error) => assert_eq!(error.sqlstate(), "23505", "{error}"),
            }
            continue;
        }
        let key = key % 5;
        let sql = format!("INSERT INTO counts VALUES ({key}, 1) ON CONFLICT (key) DO UPDATE SET n = counts.n + 1");
        if random.random_range(0..3) > 0 {
            session.sql(&sql).await.unwrap_or_else(|error| panic!("{}: {error}", error.sqlstate()));
            done.counted += 1;
            continue;
        }
        let sql = ["BEGIN", &sql, if random.random_range(0..2) == 0 { "COMMIT" } else { "ROLLBACK" }];
        match run(&session, &sql).await {
            Ok(()) => done.counted += i64::from(sql[2] == "COMMIT"),
            Err(error) => {
                assert!(["40001", "40P01"].contains(&error.sqlstate()), "{}: {error}", error.sqlstate());
                // After a failed COMMIT there is none.
                let _ = session.sql("ROLLBACK").await;
            }
        }
    }
    done
}

async fn run(session: &Session, statements: &[&str]) -> Result<(), Error> {
    for sql in statements {
        session.sql(sql).await?;
    }
    Ok(())
}

#[test]
fn sessions_that_add_the_same_keys_agree_on_one() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let options = Options { threads: 2, memory_limit: Some(1 << 30), ..Options::default() };
        let database = Database::in_memory(options).expect("opens");
        let session = database.session();
        let create = ["claims (key BIGINT PRIMARY KEY, writer BIGINT)", "counts (key BIGINT PRIMARY KEY, n BIGINT)"];
        for table in create {
            session.sql(&format!("CREATE TABLE {table}")).await.expect("creates");
        }
        let tasks: Vec<_> = (1..=4).map(|writer| tokio::spawn(work(database.clone(), writer))).collect();
        let (mut claimed, mut counted) = (vec![], 0);
        for task in tasks {
            let done = task.await.expect("no panic");
            claimed.extend(done.claimed);
            counted += done.counted;
        }
        claimed.sort_unstable();
        let numbers = async |sql: &str| {
            let batches = session.sql(sql).await.expect("reads").collect().await.expect("reads");
            let values = batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
            values.collect::<Vec<i64>>()
        };
        assert_eq!(numbers("SELECT key FROM claims ORDER BY key").await, claimed);
        assert_eq!(numbers("SELECT CAST(sum(n) AS BIGINT) FROM counts").await, [counted]);
        assert_eq!(numbers("SELECT count(DISTINCT key) - count(*) FROM counts").await, [0]);
    });
}
