//! Random histories of several sessions, and a checker of the isolation that they had.
//!
//! Each key has one row with a version, which each write increments, and the transaction that wrote it last. So the
//! rows that a transaction read determine which writes it saw, and the versions determine the order of all writes of a
//! key.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use freestone::{Database, Error, Options, Session};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const KEYS: i64 = 6;

/// A row as it was read: key, version, writer.
type Row = (i64, i64, i64);

/// The reads and writes of one transaction.
#[derive(Debug, Clone, Default)]
struct Done {
    id: i64,
    is_committed: bool,
    /// The result of each query of all keys. Results of one snapshot must be equal, except for the transaction's own
    /// writes.
    reads: Vec<Vec<Row>>,
    /// Key and version of each write.
    writes: Vec<(i64, i64)>,
    has_snapshot: bool,
}

/// Checks for anomalies that neither level allows, and for those that only snapshots exclude.
fn check(history: &[Done], last: &[Row]) -> Result<(), String> {
    let mut writers: HashMap<(i64, i64), i64> = (0..KEYS).map(|key| ((key, 0), 0)).collect();
    for done in history.iter().filter(|done| done.is_committed) {
        for (key, version) in &done.writes {
            if let Some(other) = writers.insert((*key, *version), done.id) {
                return Err(format!("lost update: {} and {other} both wrote version {version} of key {key}", done.id));
            }
        }
    }
    for (key, version, _) in last {
        if let Some(missing) = (0..=*version).find(|version| !writers.contains_key(&(*key, *version))) {
            return Err(format!("version {missing} of key {key} has no committed writer"));
        }
        if writers.contains_key(&(*key, version + 1)) {
            return Err(format!("version {} of key {key} is lost", version + 1));
        }
    }
    let by_id: BTreeMap<i64, &Done> = history.iter().map(|done| (done.id, done)).collect();
    for done in history {
        for read in &done.reads {
            check_read(done, read, &writers, &by_id)?;
        }
        let others = |read: &Vec<Row>| read.iter().filter(|row| row.2 != done.id).copied().collect::<Vec<_>>();
        if done.has_snapshot
            && let Some(first) = done.reads.first()
            && let Some(read) = done.reads.iter().find(|read| others(read).iter().any(|row| !first.contains(row)))
        {
            return Err(format!("{} read {first:?}, and then {read:?}", done.id));
        }
    }
    Ok(())
}

/// Checks that a query sees committed writes and its own, and of every other transaction all writes or none.
fn check_read(
    done: &Done,
    read: &[Row],
    writers: &HashMap<(i64, i64), i64>,
    by_id: &BTreeMap<i64, &Done>,
) -> Result<(), String> {
    if read.len() != KEYS as usize {
        return Err(format!("{} read {} rows", done.id, read.len()));
    }
    let seen: HashMap<i64, i64> = read.iter().map(|(key, version, _)| (*key, *version)).collect();
    for (key, version, writer) in read.iter().filter(|row| row.2 != done.id) {
        if writers.get(&(*key, *version)) != Some(writer) {
            return Err(format!("{} read version {version} of key {key}, which {writer} did not commit", done.id));
        }
        let Some(other) = by_id.get(writer) else { continue };
        if let Some((missed, _)) = other.writes.iter().find(|(key, version)| seen.get(key) < Some(version)) {
            return Err(format!("{} saw what {writer} wrote to key {key}, but not to key {missed}", done.id));
        }
    }
    Ok(())
}

async fn rows(session: &Session, sql: &str) -> Result<Vec<Row>, Error> {
    let mut rows = vec![];
    for batch in session.sql(sql).await?.collect().await? {
        let column = |at: usize| batch.column(at).as_primitive::<Int64Type>().values().to_vec();
        let (keys, versions, writers) = (column(0), column(1), column(2));
        rows.extend(keys.into_iter().zip(versions).zip(writers).map(|((key, version), writer)| (key, version, writer)));
    }
    rows.sort_unstable();
    Ok(rows)
}

const ALL: &str = "SELECT key, version, writer FROM registers";

async fn transaction(session: &Session, random: &mut StdRng, done: &mut Done) -> Result<(), Error> {
    let level = if done.has_snapshot { "REPEATABLE READ" } else { "READ COMMITTED" };
    session.sql(&format!("BEGIN ISOLATION LEVEL {level}")).await?;
    done.reads.push(rows(session, ALL).await?);
    for _ in 0..random.random_range(1..4) {
        let key = random.random_range(0..KEYS);
        if done.writes.iter().any(|(known, _)| *known == key) {
            continue;
        }
        let update = format!("UPDATE registers SET version = version + 1, writer = {} WHERE key = {key}", done.id);
        session.sql(&update).await?;
        let written = rows(session, &format!("{ALL} WHERE key = {key}")).await?;
        done.writes.push((key, written[0].1));
        if random.random_range(0..3) == 0 {
            // Enough small rows that pending segments are merged while transactions are open.
            session.sql("INSERT INTO others VALUES (1)").await?;
        }
    }
    done.reads.push(rows(session, ALL).await?);
    session.sql("COMMIT").await?;
    Ok(())
}

async fn work(database: Arc<Database>, thread: i64, count: i64, seed: u64) -> Vec<Done> {
    let session = database.session();
    let mut random = StdRng::seed_from_u64(seed * 100 + thread as u64);
    let mut history = vec![];
    for at in 0..count {
        let mut done =
            Done { id: thread * 10_000 + at + 1, has_snapshot: random.random_range(0..3) > 0, ..Done::default() };
        match transaction(&session, &mut random, &mut done).await {
            Ok(()) => done.is_committed = true,
            Err(error) => {
                assert!(["40001", "40P01"].contains(&error.sqlstate()), "{}: {error}", error.sqlstate());
                // After a failed COMMIT there is no transaction to roll back.
                let _ = session.sql("ROLLBACK").await;
            }
        }
        history.push(done);
        if random.random_range(0..20) == 0 {
            session.sql("VACUUM").await.expect("vacuums");
        }
    }
    history
}

async fn history(seed: u64) -> (Vec<Done>, Vec<Row>) {
    let options = Options { threads: 2, memory_limit: Some(1 << 30), ..Options::default() };
    let database = Database::in_memory(options).expect("opens");
    let session = database.session();
    let values = (0..KEYS).map(|key| format!("({key}, 0, 0)")).collect::<Vec<_>>().join(", ");
    for sql in [
        "CREATE TABLE registers (key BIGINT, version BIGINT, writer BIGINT)",
        "CREATE TABLE others (a INT)",
        &format!("INSERT INTO registers VALUES {values}"),
    ] {
        session.sql(sql).await.expect("sets up");
    }
    let tasks: Vec<_> = (1..=4).map(|thread| tokio::spawn(work(database.clone(), thread, 25, seed))).collect();
    let mut all = vec![];
    for task in tasks {
        all.extend(task.await.expect("no panic"));
    }
    (all, rows(&session, ALL).await.expect("reads"))
}

#[test]
fn random_transactions_see_what_their_levels_allow() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for seed in 0..3 {
        let (history, last) = runtime.block_on(history(seed));
        let committed = history.iter().filter(|done| done.is_committed).count();
        println!("seed {seed}: {committed} of {} committed", history.len());
        assert!(committed > 20, "too little happened to prove anything");
        if let Err(problem) = check(&history, &last) {
            panic!("seed {seed}: {problem}");
        }
    }
}

#[test]
fn the_checker_finds_what_must_not_be() {
    let start = || (0..KEYS).map(|key| (key, 0, 0)).collect::<Vec<Row>>();
    let with = |rows: &[Row]| {
        let mut all = start();
        rows.iter().for_each(|row| all[row.0 as usize] = *row);
        all
    };
    let writes =
        |id: i64, writes: &[(i64, i64)]| Done { id, is_committed: true, writes: writes.to_vec(), ..Done::default() };
    let reads = |id: i64, reads: &[Vec<Row>]| Done { id, reads: reads.to_vec(), has_snapshot: true, ..Done::default() };
    let sound = [writes(1, &[(0, 1), (1, 1)]), reads(2, &[start()]), reads(3, &[with(&[(0, 1, 1), (1, 1, 1)])])];
    let last = with(&[(0, 1, 1), (1, 1, 1)]);
    check(&sound, &last).expect("nothing is wrong");
    let problem = |history: &[Done], last: &[Row]| check(history, last).expect_err("something is wrong");
    let lost = [writes(1, &[(0, 1)]), writes(2, &[(0, 1)])];
    assert!(problem(&lost, &with(&[(0, 1, 2)])).contains("lost update"));
    assert!(problem(&[writes(1, &[(0, 1), (1, 1)])], &with(&[(0, 1, 1)])).contains("is lost"));
    let skewed = [writes(1, &[(0, 1), (1, 1)]), reads(2, &[with(&[(0, 1, 1)])])];
    assert!(problem(&skewed, &last).contains("but not to key 1"));
    let dirty = [reads(2, &[with(&[(0, 1, 9)])])];
    assert!(problem(&dirty, &start()).contains("did not commit"));
    let moving = [writes(1, &[(0, 1)]), reads(2, &[start(), with(&[(0, 1, 1)])])];
    assert!(problem(&moving, &with(&[(0, 1, 1)])).contains("and then"));
}
