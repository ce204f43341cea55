//! Concurrent transactions: conflicts, waiting, savepoints, compaction during transactions, and power losses during
//! commits.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use common::*;
use freestone_store::media::{FaultPlan, Faulty, Memory, Operation};
use freestone_store::scan::ScanRequest;
use freestone_store::{LockMode, Store, StoreError, Table, Waiting, WriteTransaction};

fn filled(rows: i64, options: Options) -> Store {
    let store = open(Memory::new()).expect("opens");
    change(&store, |transaction| {
        transaction.create_table("t", table_schema(), design(options))?;
        append(transaction, "t", &batch(0..rows))
    });
    store
}

fn change(store: &Store, work: impl FnOnce(&mut WriteTransaction) -> Result<(), StoreError>) {
    let mut transaction = store.write().expect("writes");
    work(&mut transaction).expect("changes");
    transaction.commit().expect("commits");
}

fn keys_of(table: &Arc<Table>) -> Vec<i64> {
    let batches = scan(table, ScanRequest::columns(vec![0])).expect("scans");
    let mut keys: Vec<i64> =
        batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
    keys.sort_unstable();
    keys
}

fn keys(store: &Store) -> Vec<i64> {
    keys_of(store.snapshot().expect("a snapshot").table("t").expect("the table"))
}

fn own_keys(transaction: &mut WriteTransaction) -> Vec<i64> {
    keys_of(transaction.snapshot().table("t").expect("the table"))
}

fn remove(transaction: &mut WriteTransaction, low: i64, high: i64) -> Result<u64, StoreError> {
    delete(transaction, "t", keys_between(low, high))
}

fn briefly() -> Waiting {
    Waiting { timeout: Some(Duration::from_millis(5)), goes_on: None }
}

#[test]
fn changes_of_different_rows_both_stay() {
    for options in DESIGNS {
        let store = filled(100, options);
        let (mut a, mut b) = (store.write().expect("writes"), store.write().expect("writes"));
        assert_eq!(remove(&mut a, 0, 9).expect("deletes"), 10);
        assert_eq!(remove(&mut b, 90, 99).expect("deletes"), 10);
        append(&mut a, "t", &batch(200..205)).expect("appends");
        append(&mut b, "t", &batch(300..305)).expect("appends");
        assert_eq!(own_keys(&mut a), (10..100).chain(200..205).collect::<Vec<_>>(), "a sees its own changes only");
        assert_eq!(keys(&store), (0..100).collect::<Vec<_>>(), "others see nothing yet");
        a.commit().expect("commits");
        assert_eq!(own_keys(&mut b), (0..90).chain(300..305).collect::<Vec<_>>(), "b keeps its snapshot");
        b.commit().expect("commits");
        assert_eq!(keys(&store), (10..90).chain(200..205).chain(300..305).collect::<Vec<_>>());
    }
}

#[test]
fn the_second_change_of_a_row_waits_and_fails_if_the_first_commits() {
    let store = filled(100, DESIGNS[0]);
    let (mut a, mut b) = (store.write().expect("writes"), store.write().expect("writes"));
    remove(&mut a, 5, 9).expect("deletes");
    b.set_waiting(briefly());
    assert!(matches!(remove(&mut b, 9, 12), Err(StoreError::LockTimeout(_))));
    b.set_waiting(Waiting::default());
    thread::scope(|scope| {
        let waits = scope.spawn(move || remove(&mut b, 9, 12));
        thread::sleep(Duration::from_millis(30));
        assert!(!waits.is_finished());
        a.commit().expect("commits");
        assert!(matches!(waits.join().expect("no panic"), Err(StoreError::Conflict(_))));
    });
    let (mut a, mut b) = (store.write().expect("writes"), store.write().expect("writes"));
    remove(&mut a, 20, 21).expect("deletes");
    thread::scope(|scope| {
        let waits = scope.spawn(move || {
            remove(&mut b, 21, 22)?;
            b.commit()
        });
        thread::sleep(Duration::from_millis(30));
        drop(a);
        waits.join().expect("no panic").expect("the first rolled back");
    });
    assert_eq!(keys(&store), (0..5).chain(10..21).chain(23..100).collect::<Vec<_>>());
}

#[test]
fn a_row_that_was_removed_since_the_snapshot_is_a_conflict() {
    let store = filled(10, DESIGNS[0]);
    let mut late = store.write().expect("writes");
    change(&store, |transaction| remove(transaction, 3, 3).map(|_| ()));
    assert!(matches!(remove(&mut late, 2, 4), Err(StoreError::Conflict(_))));
    drop(late);
    // This transaction deletes all rows of the segment.
    let mut late = store.write().expect("writes");
    change(&store, |transaction| transaction.delete_all("t").map(|_| ()));
    assert!(matches!(remove(&mut late, 2, 4), Err(StoreError::Conflict(_))));
}

#[test]
fn circles_are_found() {
    let store = filled(10, DESIGNS[0]);
    let (mut a, mut b) = (store.write().expect("writes"), store.write().expect("writes"));
    remove(&mut a, 1, 1).expect("deletes");
    remove(&mut b, 2, 2).expect("deletes");
    thread::scope(|scope| {
        let waits = scope.spawn(move || {
            remove(&mut a, 2, 2)?;
            a.commit()
        });
        thread::sleep(Duration::from_millis(30));
        assert!(matches!(remove(&mut b, 1, 1), Err(StoreError::Deadlock(_))));
        drop(b);
        waits.join().expect("no panic").expect("the other one has ended");
    });
    assert_eq!(keys(&store), [0, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn what_changes_as_a_whole_is_a_conflict() {
    type Change = fn(&mut WriteTransaction) -> Result<(), StoreError>;
    let changes: [(&str, Change); 4] = [
        ("drop", |t| t.drop_table("t")),
        ("convert", |t| t.convert("t", design(DESIGNS[2]))),
        ("copy", |t| t.create_copy("t", "c", vec![0, 4], design_of(&[0, 4], &[("sort", "s")]))),
        ("truncate", |t| t.truncate("t")),
    ];
    for (name, whole) in changes {
        let store = filled(50, DESIGNS[0]);
        let (mut early, mut adds) = (store.write().expect("writes"), store.write().expect("writes"));
        change(&store, whole);
        let removed = remove(&mut early, 0, 3);
        if name != "copy" {
            assert!(matches!(removed, Err(StoreError::Conflict(_))), "{name}: {removed:?}");
        }
        let added = append(&mut adds, "t", &batch(60..70)).and_then(|()| adds.commit().map(|_| ()));
        match name {
            "truncate" => assert_eq!(keys(&store), (60..70).collect::<Vec<_>>()),
            _ => assert!(matches!(added, Err(StoreError::Conflict(_))), "{name}: {added:?}"),
        }
        digests(&store.snapshot().expect("a snapshot")).expect("copies have their table's rows");
        // The other order: the lock of the table waits for transactions that change rows.
        let store = filled(50, DESIGNS[0]);
        let (mut rows, mut all) = (store.write().expect("writes"), store.write().expect("writes"));
        remove(&mut rows, 0, 3).expect("deletes");
        all.set_waiting(briefly());
        assert!(matches!(whole(&mut all), Err(StoreError::LockTimeout(_))), "{name}");
        rows.commit().expect("commits");
        all.set_waiting(Waiting::default());
        let late = whole(&mut all).and_then(|()| all.commit().map(|_| ()));
        match name {
            "drop" => late.expect("whatever rows it has"),
            _ => assert!(matches!(late, Err(StoreError::Conflict(_))), "{name}: {late:?}"),
        }
        // A transaction that has read nothing continues when the other one ends.
        if name != "drop" {
            let mut fresh = store.write().expect("writes");
            change(&store, |transaction| append(transaction, "t", &batch(80..81)));
            fresh.lock("t", LockMode::Exclusive).expect("locks");
            whole(&mut fresh).and_then(|()| fresh.commit().map(|_| ())).expect("nobody is in its way");
        }
    }
}

#[test]
fn names_are_given_once() {
    let store = filled(1, DESIGNS[0]);
    let (mut a, mut b) = (store.write().expect("writes"), store.write().expect("writes"));
    a.create_table("new", table_schema(), design(DESIGNS[0])).expect("creates");
    create_view(&mut b, "new");
    a.commit().expect("commits");
    assert!(matches!(b.commit(), Err(StoreError::Conflict(_))));
    let (mut a, mut b) = (store.write().expect("writes"), store.write().expect("writes"));
    a.lock_name("other").expect("locks");
    b.set_waiting(briefly());
    assert!(matches!(b.lock_name("other"), Err(StoreError::LockTimeout(_))));
    // A table that is dropped and created again in one transaction.
    let mut again = store.write().expect("writes");
    again.drop_table("new").expect("drops");
    again.create_table("new", table_schema(), design(DESIGNS[1])).expect("creates");
    append(&mut again, "new", &batch(0..3)).expect("appends");
    again.commit().expect("commits");
    assert_eq!(store.snapshot().expect("a snapshot").table("new").expect("the table").rows(), 3);
}

#[test]
fn savepoints_undo_rows_files_and_tables() {
    let memory = Memory::new();
    let store = open(memory.clone()).expect("opens");
    change(&store, |transaction| transaction.create_table("t", table_schema(), design(DESIGNS[0])));
    let files = || memory.files().keys().filter(|name| name.starts_with("segments/")).count();
    let mut transaction = store.write().expect("writes");
    append(&mut transaction, "t", &batch(0..20_000)).expect("appends");
    let savepoint = transaction.savepoint();
    remove(&mut transaction, 0, 10_000).expect("deletes");
    append(&mut transaction, "t", &batch(30_000..50_000)).expect("appends");
    transaction.create_table("u", table_schema(), design(DESIGNS[0])).expect("creates");
    assert_eq!(files(), 2);
    transaction.roll_back_to(&savepoint).expect("rolls back");
    assert_eq!(files(), 1);
    assert_eq!(own_keys(&mut transaction), (0..20_000).collect::<Vec<_>>());
    assert!(transaction.table("u").is_err());
    append(&mut transaction, "t", &batch(60_000..60_003)).expect("appends");
    transaction.roll_back_to(&savepoint).expect("rolls back again");
    transaction.commit().expect("commits");
    assert_eq!(keys(&store), (0..20_000).collect::<Vec<_>>());
    let mut dropped = store.write().expect("writes");
    append(&mut dropped, "t", &batch(0..20_000)).expect("appends");
    drop(dropped);
    assert_eq!(files(), 1, "nothing is left of a transaction that was rolled back");
}

#[test]
fn a_newer_base_keeps_own_changes() {
    let store = filled(100, DESIGNS[5]);
    let mut transaction = store.write().expect("writes");
    remove(&mut transaction, 10, 19).expect("deletes");
    append(&mut transaction, "t", &batch(500..510)).expect("appends");
    change(&store, |other| {
        remove(other, 50, 59)?;
        append(other, "t", &batch(700..710))
    });
    let savepoint = transaction.savepoint();
    transaction.refresh().expect("no conflict");
    let expected: Vec<i64> = (0..10).chain(20..50).chain(60..100).chain(500..510).chain(700..710).collect();
    assert_eq!(own_keys(&mut transaction), expected);
    remove(&mut transaction, 700, 705).expect("deletes rows that it sees now");
    transaction.roll_back_to(&savepoint).expect("rolls back");
    assert_eq!(own_keys(&mut transaction), expected, "it does not go back in time");
    transaction.commit().expect("commits");
    assert_eq!(keys(&store), expected);
}

/// Compaction replaces the segments that open transactions have read. Their rows are still found.
#[test]
fn compaction_is_in_nobodys_way() {
    for options in DESIGNS {
        let store = filled(100, options);
        // Enough small inserts for several merges.
        for key in 100..170 {
            change(&store, |transaction| append(transaction, "t", &batch(key..key + 1)));
        }
        let segments =
            |store: &Store| store.snapshot().expect("a snapshot").table("t").expect("the table").segments.len();
        assert!(segments(&store) < 40, "{}", segments(&store));
        let mut early = store.write().expect("writes");
        let mut marked = store.write().expect("writes");
        remove(&mut marked, 120, 125).expect("deletes");
        change(&store, |transaction| remove(transaction, 130, 133).map(|_| ()));
        store.vacuum(None).expect("vacuums");
        assert_eq!(segments(&store), 1);
        let mut late = store.write().expect("writes");
        late.set_waiting(briefly());
        let waits = remove(&mut late, 121, 121);
        assert!(matches!(waits, Err(StoreError::LockTimeout(_))), "marks move with their rows: {waits:?}");
        drop(late);
        change(&store, |transaction| remove(transaction, 140, 141).map(|_| ()));
        // Compaction has moved these rows since its snapshot. Then other rows were deleted, before and after them.
        assert_eq!(remove(&mut early, 150, 155).expect("deletes"), 6);
        assert_eq!(remove(&mut early, 0, 5).expect("deletes"), 6);
        marked.commit().expect("commits");
        store.vacuum(None).expect("vacuums again");
        early.commit().expect("commits");
        let expected = (6..120).chain(126..130).chain(134..140).chain(142..150).chain(156..170);
        assert_eq!(keys(&store), expected.collect::<Vec<_>>());
        // A deleted row is a conflict, in whichever segment it was.
        let mut early = store.write().expect("writes");
        change(&store, |transaction| remove(transaction, 160, 160).map(|_| ()));
        store.vacuum(None).expect("vacuums");
        assert!(matches!(remove(&mut early, 160, 160), Err(StoreError::Conflict(_))));
    }
}

#[test]
fn files_of_open_transactions_are_no_orphans() {
    let store = filled(10, DESIGNS[0]);
    let mut transaction = store.write().expect("writes");
    append(&mut transaction, "t", &batch(100..20_100)).expect("appends");
    store.vacuum(None).expect("vacuums");
    transaction.commit().expect("commits");
    assert_eq!(keys(&store).len(), 20_010);
    assert_eq!(store.check(None).expect("checks").problems, Vec::<String>::new());
}

/// Commits of several threads share records and syncs.
#[test]
fn commits_share_syncs() {
    let faulty = Faulty::on_memory(Memory::new(), FaultPlan::default());
    let store = open(faulty.clone()).expect("opens");
    change(&store, |transaction| transaction.create_table("t", table_schema(), design(DESIGNS[0])));
    let before = faulty.operations_of(Operation::Sync);
    thread::scope(|scope| {
        for thread in 0..8 {
            let store = &store;
            scope.spawn(move || {
                for at in 0..20 {
                    let key = thread * 1_000 + at;
                    change(store, |transaction| append(transaction, "t", &batch(key..key + 1)));
                }
            });
        }
    });
    assert_eq!(keys(&store).len(), 160);
    let (syncs, commits) =
        (faulty.operations_of(Operation::Sync) - before, store.snapshot().expect("reads").sequence());
    println!("160 transactions, {commits} records, {syncs} syncs");
    assert!(store.transactions().open().is_empty());
}

/// The work of one thread of the model: it changes the key of its own row, and the row that all threads share.
const TOKEN: i64 = 10_000_000;

struct Progress {
    /// The key that this thread's row certainly has, and the key that it may have.
    certain: i64,
    possible: i64,
    /// The number of acknowledged changes of the shared row.
    acknowledged: u64,
    unknown: u64,
}

fn work(store: &Store, thread: i64, stop: &AtomicBool, commits: &AtomicU64) -> Progress {
    let first = thread * 100_000;
    let mut progress = Progress { certain: first, possible: first, acknowledged: 0, unknown: 0 };
    while !stop.load(Ordering::Relaxed) && commits.load(Ordering::Relaxed) < 150 {
        let (from, to) = (progress.certain, progress.certain + 10);
        let moves_token = (to / 10) % 3 == 0;
        let step = || -> Result<u64, StoreError> {
            let mut transaction = store.write()?;
            assert_eq!(remove(&mut transaction, from, from + 9)?, 10, "exactly its own rows");
            append(&mut transaction, "t", &batch(to..to + 10))?;
            if moves_token {
                let token = *own_keys_of(&mut transaction)?.iter().find(|key| **key >= TOKEN).expect("there is one");
                assert_eq!(remove(&mut transaction, TOKEN, i64::MAX)?, 1);
                append(&mut transaction, "t", &batch(token + 1..token + 2))?;
            }
            transaction.commit()
        };
        match step() {
            Ok(_) => {
                (progress.certain, progress.possible) = (to, to);
                progress.acknowledged += u64::from(moves_token);
                commits.fetch_add(1, Ordering::Relaxed);
            }
            Err(StoreError::Conflict(_) | StoreError::Deadlock(_)) => {}
            Err(_) => {
                // The machine stopped, so the outcome is unknown.
                progress.possible = to;
                progress.unknown += u64::from(moves_token);
                stop.store(true, Ordering::Relaxed);
            }
        }
    }
    progress
}

fn own_keys_of(transaction: &mut WriteTransaction) -> Result<Vec<i64>, StoreError> {
    let table = transaction.snapshot().table("t").cloned().ok_or_else(|| StoreError::Invalid("no table".into()))?;
    let batches = scan(&table, ScanRequest::columns(vec![0]))?;
    Ok(batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect())
}

/// Several threads change rows, their own and one that all share, until the machine stops. Every acknowledged commit is
/// found afterwards, and others completely or not at all.
#[test]
fn power_may_fail_while_several_commit() {
    const THREADS: i64 = 4;
    let (mut conflicts_are_possible, mut unknown) = (0, 0);
    for seed in 0..u64::from(stride(3) == 1) * 60 + 12 {
        let options = DESIGNS[seed as usize % DESIGNS.len()];
        let faulty = Faulty::on_memory(Memory::new(), FaultPlan::default());
        let store = open(faulty.clone()).expect("opens");
        change(&store, |transaction| {
            transaction.create_table("t", table_schema(), design(options))?;
            (0..THREADS)
                .try_for_each(|thread| append(transaction, "t", &batch(thread * 100_000..thread * 100_000 + 10)))?;
            append(transaction, "t", &batch(TOKEN..TOKEN + 1))
        });
        let fail_operation = Some(faulty.operations() + 40 + seed * 97 % 1_500);
        faulty.set_plan(FaultPlan { seed, fail_operation, stay_dead: true, ..FaultPlan::default() });
        let (stop, commits) = (AtomicBool::new(false), AtomicU64::new(0));
        let progress: Vec<Progress> = thread::scope(|scope| {
            let (store, stop, commits) = (&store, &stop, &commits);
            let threads: Vec<_> =
                (0..THREADS).map(|thread| scope.spawn(move || work(store, thread, stop, commits))).collect();
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) && commits.load(Ordering::Relaxed) < 150 {
                    let _ = store.vacuum(None);
                    thread::sleep(Duration::from_millis(3));
                }
            });
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let context = format!("seed {seed}, {} commits", commits.load(Ordering::Relaxed));
        let survivor = open(faulty.crash(seed)).unwrap_or_else(|e| panic!("{context}: cannot open: {e}"));
        let found = keys(&survivor);
        assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len(), "{context}: a row is there twice");
        for (thread, progress) in progress.iter().enumerate() {
            let first = thread as i64 * 100_000;
            let own: Vec<i64> = found.iter().copied().filter(|key| (first..first + 100_000).contains(key)).collect();
            let rows = |key: i64| (key..key + 10).collect::<Vec<_>>();
            let expected = [rows(progress.certain), rows(progress.possible)];
            assert!(expected.contains(&own), "{context}: thread {thread} has {own:?}, expected one of {expected:?}");
        }
        let tokens: Vec<i64> = found.iter().copied().filter(|key| *key >= TOKEN).collect();
        let moves = (tokens[0] - TOKEN) as u64;
        let certain: u64 = progress.iter().map(|progress| progress.acknowledged).sum();
        let possible: u64 = progress.iter().map(|progress| progress.unknown).sum();
        assert!(tokens.len() == 1 && (certain..=certain + possible).contains(&moves), "{context}: {tokens:?}");
        assert_eq!(survivor.check(None).expect("checks").problems, Vec::<String>::new(), "{context}");
        change(&survivor, |transaction| append(transaction, "t", &batch(TOKEN * 2..TOKEN * 2 + 5)));
        conflicts_are_possible += certain;
        unknown += possible;
    }
    println!("{conflicts_are_possible} moves of the shared row, {unknown} of unknown outcome");
}

/// Commits per second on this machine's disk, by the number of threads. Not a test: `--ignored --nocapture` prints
/// them.
#[test]
#[ignore = "a measurement"]
fn commits_a_second() {
    for threads in [1, 8, 64] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = Store::open(folder.path(), options()).expect("opens");
        change(&store, |transaction| transaction.create_table("t", table_schema(), design(DESIGNS[0])));
        let before = store.snapshot().expect("a snapshot").sequence();
        let (commits, until) = (AtomicU64::new(0), std::time::Instant::now() + seconds(3));
        thread::scope(|scope| {
            for thread in 0..threads {
                let (store, commits) = (&store, &commits);
                scope.spawn(move || {
                    for key in thread * 1_000_000.. {
                        if std::time::Instant::now() >= until {
                            return;
                        }
                        change(store, |transaction| append(transaction, "t", &batch(key..key + 1)));
                        commits.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let records = store.snapshot().expect("a snapshot").sequence() - before;
        println!("{threads} threads: {} commits in {records} records in 3 s", commits.load(Ordering::Relaxed));
    }
}
