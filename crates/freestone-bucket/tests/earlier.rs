//! The snapshot of exactly one commit, as workers of a server read it.

mod common;

use common::faults::{Faults, Plan};
use common::*;
use freestone_store::Store;
use object_store::ObjectStoreExt;
use object_store::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The commits of `count` rows, each of which adds its number to the table.
fn commits(store: &Store, count: i64) -> Vec<u64> {
    (0..count).map(|row| change(store, |t| append(t, "t", &[row])).expect("commits")).collect()
}

fn keys_at(store: &Store, sequence: u64) -> Vec<i64> {
    let snapshot = store.snapshot_of(sequence).expect("the log is read").expect("the commit is there");
    assert_eq!(snapshot.sequence(), sequence);
    keys_of(&snapshot, "t").expect("scans")
}

#[test]
fn a_commit_is_read_exactly_whatever_a_process_has_seen() {
    let bucket = Faults::new(Plan::default(), 1);
    let writer = open(bucket.clone());
    create(&writer, "t", false);
    // One that keeps versions from the beginning, and sees several commits at once.
    let early = open(bucket.clone());
    early.set_retention(Duration::from_secs(3600)).expect("keeps versions");
    let made = commits(&writer, 150);
    // One that has seen nothing but the last state, which is behind a fold.
    let late = open(bucket.clone());
    assert_eq!(keys(&late, "t").len(), 150);
    for (row, sequence) in (0..).zip(&made) {
        let expected: Vec<i64> = (0..=row).collect();
        assert_eq!((keys_at(&early, *sequence), keys_at(&late, *sequence)), (expected.clone(), expected));
    }
    // One that is not there yet, and then is, without a look at what is newer.
    let next = made[made.len() - 1] + 1;
    assert!(late.snapshot_of(next).expect("the log is read").is_none());
    change(&writer, |t| delete(t, "t", &[0, 1]).map(drop)).expect("commits");
    change(&writer, |t| append(t, "t", &[777])).expect("commits");
    assert_eq!(keys_at(&late, next), (2..150).collect::<Vec<i64>>());
    assert_eq!(keys_at(&late, made[1]), [0, 1], "rows that a later commit has deleted");
}

#[test]
fn a_commit_that_is_kept_costs_no_request() {
    let bucket = Faults::new(Plan::default(), 1);
    let writer = open(bucket.clone());
    create(&writer, "t", false);
    let reader = open(bucket.clone());
    reader.set_retention(Duration::from_secs(3600)).expect("keeps versions");
    let made = commits(&writer, 3);
    keys_at(&reader, made[2]);
    let before = bucket.requests.load(Ordering::Relaxed);
    for (sequence, rows) in made.iter().zip(1..) {
        assert_eq!(keys_at(&reader, *sequence).len(), rows);
    }
    assert_eq!(bucket.requests.load(Ordering::Relaxed) - before, 0);
    let next = commits(&writer, 1)[0];
    assert_eq!(keys_at(&reader, next).len(), 4, "one that it has not seen");
}

#[test]
fn a_commit_that_is_not_kept_any_more_is_named() {
    let bucket = Faults::new(Plan::default(), 1);
    let writer = open(bucket.clone());
    create(&writer, "t", false);
    let made = commits(&writer, 3);
    // As a vacuum would, after the retention.
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(bucket.delete(&Path::from(format!("db/log/{:020}", made[1])))).expect("is removed");
    let refused = writer.snapshot_of(made[1]).expect_err("it is gone").to_string();
    assert!(refused.contains(&format!("commit {} is gone", made[1])), "{refused}");
    assert_eq!(keys_at(&writer, made[0]), [0]);
}
