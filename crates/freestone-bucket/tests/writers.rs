//! Several processes, here as several stores over the same objects, that write at the same time.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::faults::{Faults, Plan};
use common::*;
use freestone_store::design::Design;
use freestone_store::{Store, StoreError};
use parking_lot::Mutex;

#[test]
fn appends_of_several_writers_never_conflict() {
    let bucket = Faults::new(Plan { slow: 30, ..Plan::default() }, 1);
    create(&open(bucket.clone()), "t", false);
    let stores: Vec<Store> = (0..4).map(|_| open(bucket.clone())).collect();
    thread::scope(|scope| {
        for (writer, store) in (0..).zip(&stores) {
            scope.spawn(move || {
                for at in 0..25 {
                    change(store, |t| append(t, "t", &[writer * 1000 + at])).expect("appends never conflict");
                }
            });
        }
    });
    let expected: Vec<i64> = (0..4).flat_map(|writer| (0..25).map(move |at| writer * 1000 + at)).collect();
    assert_eq!(keys(&stores[0], "t"), expected);
    assert_eq!(keys(&open(bucket), "t"), expected);
}

#[test]
fn of_two_changes_of_the_same_row_one_is_refused() {
    let bucket = Faults::new(Plan::default(), 1);
    let (a, b) = (open(bucket.clone()), open(bucket));
    create(&a, "t", false);
    change(&a, |t| append(t, "t", &[1, 2, 3])).expect("commits");
    let (mut first, mut second) = (a.write().expect("writes"), b.write().expect("writes"));
    delete(&mut first, "t", &[1, 2]).expect("deletes");
    append(&mut second, "t", &[7]).expect("appends");
    delete(&mut second, "t", &[2]).expect("deletes");
    first.commit().expect("commits");
    let refused = second.commit().expect_err("a conflict");
    assert!(is_conflict(&refused), "{refused}");
    assert_eq!(keys(&b, "t"), [3]);
    // Others go on.
    change(&b, |t| delete(t, "t", &[3]).map(drop)).expect("commits");
    assert_eq!(keys(&a, "t"), [] as [i64; 0]);
}

#[test]
fn a_table_that_was_dropped_or_altered_takes_no_rows() {
    let bucket = Faults::new(Plan::default(), 1);
    let (a, b) = (open(bucket.clone()), open(bucket));
    create(&a, "t", false);
    create(&a, "u", false);
    let begun = |table: &str| {
        let mut transaction = b.write().expect("writes");
        append(&mut transaction, table, &[1]).expect("appends");
        transaction
    };
    let (to_dropped, to_altered) = (begun("t"), begun("u"));
    change(&a, |t| t.drop_table("t")).expect("drops");
    let design = Design::default().with_options([("design", "row")], &schema(false)).expect("a design");
    change(&a, |t| t.set_design("u", design)).expect("alters");
    let refused = to_dropped.commit().expect_err("a conflict").to_string();
    assert!(refused.contains("table t was dropped"), "{refused}");
    let refused = to_altered.commit().expect_err("a conflict").to_string();
    assert!(refused.contains("table u was altered"), "{refused}");
    // Both create the same table.
    let mut mine = b.write().expect("writes");
    mine.create_table("v", schema(false), Design::default()).expect("creates");
    create(&a, "v", false);
    assert!(is_conflict(&mine.commit().expect_err("a conflict")));
}

#[test]
fn a_key_is_committed_once() {
    let bucket = Faults::new(Plan::default(), 1);
    let (a, b) = (open(bucket.clone()), open(bucket));
    create(&a, "t", true);
    let (mut first, mut second) = (a.write().expect("writes"), b.write().expect("writes"));
    append(&mut first, "t", &[1, 2]).expect("appends");
    append(&mut second, "t", &[2, 3]).expect("appends");
    // Both keys are free when they are checked.
    first.check_keys().expect("free");
    second.check_keys().expect("free");
    first.commit().expect("commits");
    let refused = second.commit().expect_err("the key is taken");
    assert!(matches!(refused, StoreError::DuplicateKey { .. }), "{refused}");
    // Another key is free after others have committed, too.
    let mut third = b.write().expect("writes");
    append(&mut third, "t", &[9]).expect("appends");
    third.check_keys().expect("free");
    change(&a, |t| append(t, "t", &[8])).expect("commits");
    third.commit().expect("commits");
    assert_eq!(keys(&b, "t"), [1, 2, 8, 9]);
    // A key that was replaced in the same transaction.
    let mut replaces = b.write().expect("writes");
    delete(&mut replaces, "t", &[9]).expect("deletes");
    append(&mut replaces, "t", &[9]).expect("appends");
    replaces.check_keys().expect("free");
    change(&a, |t| append(t, "t", &[10])).expect("commits");
    replaces.commit().expect("commits");
    assert_eq!(keys(&a, "t"), [1, 2, 8, 9, 10]);
}

#[test]
fn a_lost_answer_is_no_second_commit() {
    let bucket = Faults::new(Plan::default(), 1);
    let (a, b) = (open(bucket.clone()), open(bucket.clone()));
    create(&a, "t", false);
    for key in 0..10 {
        *bucket.lose_next.lock() = Some("/log/".to_owned());
        change(if key % 2 == 0 { &a } else { &b }, |t| append(t, "t", &[key])).expect("commits");
    }
    assert_eq!(keys(&a, "t"), (0..10).collect::<Vec<i64>>());
    assert_eq!(keys(&b, "t"), (0..10).collect::<Vec<i64>>());
}

/// What a history of transactions has left.
#[derive(Default)]
struct Outcome {
    committed: BTreeSet<i64>,
    /// Nobody knows whether these are stored.
    unknown: BTreeSet<i64>,
}

/// Writers that commit pairs of rows, one in each of two tables, and delete some again, for some time; and readers that
/// see both rows of a pair or none.
fn history(plan: Plan, seed: u64, time: Duration) -> usize {
    let bucket = Faults::new(Plan::default(), seed);
    let first = open(bucket.clone());
    ["t", "u"].into_iter().for_each(|table| create(&first, table, table == "t"));
    let stores: Vec<Store> = (0..3).map(|_| open(bucket.clone())).collect();
    bucket.set(plan);
    let (outcome, ends) = (Mutex::new(Outcome::default()), AtomicBool::new(false));
    thread::scope(|scope| {
        for (writer, store) in (0..).zip(&stores) {
            let outcome = &outcome;
            scope.spawn(move || write_pairs(store, writer, seed, time, outcome));
        }
        let (reader, ends) = (open_patiently(&bucket), &ends);
        let reading = scope.spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                if let Ok(snapshot) = reader.snapshot()
                    && let (Ok(t), Ok(u)) = (keys_of(&snapshot, "t"), keys_of(&snapshot, "u"))
                {
                    assert_eq!(t, u, "half a transaction");
                    assert_eq!(set(&t).len(), t.len(), "a row is there twice");
                }
            }
        });
        thread::sleep(time);
        ends.store(true, Ordering::Relaxed);
        reading.join().expect("the reader sees whole transactions");
    });
    bucket.set(Plan::default());
    // Attempts whose answers were lost may still be under way.
    thread::sleep(Duration::from_millis(30));
    let outcome = outcome.into_inner();
    for store in stores.iter().chain([&open(bucket.clone())]) {
        let (t, u) = (keys(store, "t"), keys(store, "u"));
        assert_eq!(t, u);
        let found = set(&t);
        assert_eq!(found.len(), t.len(), "a commit is there twice");
        let lost: Vec<&i64> = outcome.committed.difference(&found).collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
        let more: Vec<&i64> =
            found.difference(&outcome.committed).filter(|key| !outcome.unknown.contains(key)).collect();
        assert!(more.is_empty(), "never committed: {more:?}");
    }
    check_sound(&stores[0]);
    outcome.committed.len()
}

fn open_patiently(bucket: &Arc<Faults>) -> Store {
    for _ in 0..100 {
        if let Ok(store) = Store::in_bucket(objects(bucket.clone()), options(), RETENTION) {
            return store;
        }
    }
    panic!("the store cannot be opened");
}

fn write_pairs(store: &Store, writer: i64, seed: u64, time: Duration, outcome: &Mutex<Outcome>) {
    let mut random = fastrand::Rng::with_seed(seed * 31 + writer as u64);
    let (begun, mut next, mut own) = (Instant::now(), writer * 1_000_000, BTreeSet::new());
    while begun.elapsed() < time {
        let (mut added, mut gone): (Vec<i64>, Vec<i64>) = (vec![], vec![]);
        for _ in 0..random.usize(1..4) {
            next += 1;
            added.push(next);
        }
        if random.u8(..) < 80 {
            gone.extend(own.iter().take(2));
        }
        // Some write files, others rows in the log.
        let extra: Vec<i64> = if random.u8(..) < 20 { (0..20_000).map(|at| next + at + 1).collect() } else { vec![] };
        next += extra.len() as i64;
        added.extend(&extra);
        let done = change(store, |t| {
            for table in ["t", "u"] {
                append(t, table, &added)?;
                if !gone.is_empty() {
                    delete(t, table, &gone)?;
                }
            }
            Ok(())
        });
        let mut outcome = outcome.lock();
        match done {
            Ok(_) => {
                outcome.committed.extend(&added);
                gone.iter().for_each(|key| {
                    outcome.committed.remove(key);
                    own.remove(key);
                });
                own.extend(added.iter().take(3));
            }
            Err(error) if is_unknown(&error) => {
                outcome.unknown.extend(&added);
                gone.iter().for_each(|key| {
                    outcome.committed.remove(key);
                    outcome.unknown.insert(*key);
                    own.remove(key);
                });
            }
            // It changed nothing.
            Err(_) => {}
        }
    }
}

#[test]
fn histories_without_faults_are_right() {
    let committed = history(Plan { slow: 50, ..Plan::default() }, 1, Duration::from_secs(2));
    assert!(committed > 20, "{committed}");
}

#[test]
fn histories_with_faults_are_right() {
    let plan =
        Plan { lost: 10, late: 4, conflict: 10, precondition: 5, unavailable: 8, cut: 8, slow: 20, ..Plan::default() };
    for seed in 1..4 {
        let committed = history(plan, seed, Duration::from_millis(1500));
        assert!(committed > 5, "{committed}");
    }
}
