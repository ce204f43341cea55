//! Processes that sleep, or cannot reach the store, for longer than the retention; what VACUUM removes, and what not.

mod common;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use common::faults::{Faults, Plan};
use common::gate::{At, Gate, Watched};
use common::*;
use freestone_store::{Store, StoreError, WriteTransaction};

/// So long that processes can renew their leases on a machine that is busy.
const SHORT: Duration = Duration::from_millis(1600);

fn many(from: i64) -> Vec<i64> {
    (from..from + 30_000).collect()
}

/// A store whose requests can be held.
fn gated(bucket: &Arc<Faults>) -> (Store, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let watched = Watched { inner: objects(bucket.clone()), at: At::Gate(gate.clone()) };
    (Store::in_bucket(Arc::new(watched), options(), SHORT).expect("opens"), gate)
}

fn names(bucket: &Arc<Faults>, folder: &str) -> Vec<String> {
    let listed = objects(bucket.clone()).list(folder, None, usize::MAX).expect("lists");
    listed.into_iter().map(|object| object.name).collect()
}

fn commit_often(store: &Store, table: &str, from: i64) {
    for key in from..from + 70 {
        change_patiently(store, |t| append(t, table, &[key]));
    }
}

/// A transaction, repeated if the machine is so busy that the process could not renew its lease in time.
fn change_patiently(store: &Store, work: impl Fn(&mut WriteTransaction) -> Result<(), StoreError>) {
    for _ in 0..50 {
        match change(store, &work) {
            Err(error) if is_conflict(&error) => {}
            done => {
                done.expect("commits");
                return;
            }
        }
    }
    panic!("it conflicts again and again");
}

/// Vacuums until what is older than the retention is gone.
fn vacuum_all(store: &Store) {
    for _ in 0..2 {
        thread::sleep(SHORT + Duration::from_millis(50));
        let vacuumed = (0..20).find_map(|_| store.vacuum(None).ok());
        vacuumed.expect("vacuums");
    }
}

#[test]
fn a_transaction_that_slept_is_given_up() {
    let bucket = Faults::new(Plan::default(), 1);
    let (sleeper, gate) = gated(&bucket);
    create(&sleeper, "t", false);
    let mut transaction = sleeper.write().expect("writes");
    append(&mut transaction, "t", &many(0)).expect("appends");
    assert_eq!(names(&bucket, "segments").len(), 1);
    gate.close("");
    let other = open(bucket.clone());
    change_patiently(&other, |t| append(t, "t", &[-1]));
    vacuum_all(&other);
    assert!(names(&bucket, "segments").len() < 2, "its file is gone");
    gate.open();
    let refused = transaction.commit().expect_err("it may not commit");
    assert!(is_conflict(&refused), "{refused}");
    // It goes on as a new process would.
    change_patiently(&sleeper, |t| append(t, "t", &many(100)));
    let expected: Vec<i64> = [-1].into_iter().chain(many(100)).collect();
    assert_eq!(keys(&other, "t"), expected);
    assert_eq!(keys(&sleeper, "t"), expected);
    check_sound(&open(bucket));
}

#[test]
fn a_commit_into_a_gap_that_was_collected_is_none() {
    let bucket = Faults::new(Plan::default(), 1);
    let (sleeper, gate) = gated(&bucket);
    create(&sleeper, "t", false);
    let next = "log/00000000000000000002";
    let mut transaction = sleeper.write().expect("writes");
    append(&mut transaction, "t", &[1_000_000]).expect("appends");
    gate.close("log/");
    thread::scope(|scope| {
        // It has checked everything, and falls asleep before the request.
        let commit = scope.spawn(move || transaction.commit());
        gate.wait_for_one();
        let other = open(bucket.clone());
        commit_often(&other, "t", 0);
        vacuum_all(&other);
        commit_often(&other, "t", 70);
        vacuum_all(&other);
        assert!(!names(&bucket, "log").contains(&next.to_owned()), "the commit at its sequence was collected");
        gate.open();
        let done = commit.join().expect("ends");
        let found = keys(&other, "t").contains(&1_000_000);
        assert_eq!(done.is_ok(), found, "{done:?}");
        assert!(!names(&bucket, "log").contains(&next.to_owned()), "nothing remains in the gap");
        assert_eq!(keys(&sleeper, "t"), keys(&other, "t"));
        assert_eq!(keys(&other, "t"), keys(&open(bucket.clone()), "t"));
    });
}

#[test]
fn a_reader_that_slept_begins_again() {
    let bucket = Faults::new(Plan::default(), 1);
    let other = open_for(bucket.clone(), SHORT);
    create(&other, "t", false);
    let (reader, gate) = gated(&bucket);
    assert_eq!(keys(&reader, "t"), [] as [i64; 0]);
    gate.close("");
    commit_often(&other, "t", 0);
    vacuum_all(&other);
    commit_often(&other, "t", 70);
    vacuum_all(&other);
    gate.open();
    assert_eq!(keys(&reader, "t"), (0..140).collect::<Vec<i64>>());
}

#[test]
fn a_statement_keeps_its_files_for_longer_than_the_retention() {
    let bucket = Faults::new(Plan::default(), 1);
    let (writer, reader) = (open_for(bucket.clone(), SHORT), open_for(bucket.clone(), SHORT));
    create(&writer, "t", false);
    change(&writer, |t| append(t, "t", &many(0))).expect("commits");
    let snapshot = reader.snapshot().expect("a snapshot");
    change(&writer, |t| t.truncate("t")).expect("commits");
    vacuum_all(&writer);
    assert_eq!(names(&bucket, "segments").len(), 1, "a lease names the snapshot");
    assert_eq!(keys_of(&snapshot, "t").expect("its files are there"), many(0));
    drop(snapshot);
    vacuum_all(&writer);
    assert_eq!(names(&bucket, "segments"), Vec::<String>::new());
}

#[test]
fn what_is_young_or_in_use_is_kept() {
    let bucket = Faults::new(Plan::default(), 1);
    let store = open_for(bucket.clone(), SHORT);
    create(&store, "t", false);
    change(&store, |t| append(t, "t", &many(0))).expect("commits");
    let mut open = store.write().expect("writes");
    append(&mut open, "t", &many(100_000)).expect("appends");
    let other = open_for(bucket.clone(), SHORT);
    vacuum_all(&other);
    assert_eq!(names(&bucket, "segments").len(), 2, "its process is there");
    open.commit().expect("commits");
    change(&other, |t| t.truncate("t")).expect("commits");
    other.vacuum(None).expect("vacuums");
    assert_eq!(names(&bucket, "segments").len(), 2, "they are young");
    vacuum_all(&other);
    assert_eq!(names(&bucket, "segments"), Vec::<String>::new());
    check_sound(&store);
}

#[test]
fn leases_end_with_their_processes() {
    let bucket = Faults::new(Plan::default(), 1);
    let store = open_for(bucket.clone(), SHORT);
    create(&store, "t", false);
    assert_eq!(names(&bucket, "leases"), ["leases/00000001"]);
    drop(store);
    assert_eq!(names(&bucket, "leases"), Vec::<String>::new());
    let (killed, gate) = gated(&bucket);
    change_patiently(&killed, |t| append(t, "t", &many(0)));
    assert_eq!(names(&bucket, "leases"), ["leases/00000002"], "no number is given twice");
    let mut left = killed.write().expect("writes");
    append(&mut left, "t", &many(100_000)).expect("appends");
    gate.close("");
    let other = open(bucket.clone());
    vacuum_all(&other);
    assert_eq!(names(&bucket, "leases"), ["leases/00000003"]);
    assert_eq!(names(&bucket, "segments").len(), 1, "what it left is gone");
    drop(other);
    create(&open(bucket.clone()), "u", false);
    assert!(names(&bucket, "leases").len() <= 1);
    gate.open();
    drop(left);
    assert_eq!(keys(&open(bucket), "t"), many(0));
}
