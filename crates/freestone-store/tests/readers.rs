//! Readers concurrent with a writer that converts, deletes, inserts and vacuums: each sees one commit at a time,
//! completely, and the files of its snapshot remain.

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use freestone_store::{Store, StoreError, StoreOptions};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const READERS: usize = 4;

/// The state after each commit, by sequence.
type Commits = BTreeMap<u64, Digest>;

fn digest(store: &Store) -> Result<(u64, Digest), StoreError> {
    let snapshot = store.snapshot()?;
    Ok((snapshot.sequence(), digests(&snapshot)?.get("t").copied().unwrap_or_default()))
}

/// Changes the table at random until the time is over. Returns the state after each commit.
fn write(folder: &Path, until: Instant) -> Commits {
    let store = Store::open(folder, options()).expect("opens for writing");
    let mut random = StdRng::seed_from_u64(3);
    let mut commits = Commits::new();
    let (sequence, mut last) = digest(&store).expect("reads");
    commits.insert(sequence, last);
    let (mut sequence, mut next_key) = (sequence, 3_000);
    while Instant::now() < until {
        let action = random.random_range(0..10);
        if action == 0 {
            store.vacuum(None).expect("vacuums");
        } else {
            let mut transaction = store.write().expect("writes");
            match action {
                1 | 2 => {
                    let options = DESIGNS[random.random_range(0..DESIGNS.len())];
                    transaction.convert("t", design(options)).expect("converts");
                }
                3 | 4 => {
                    let low = random.random_range(0..next_key);
                    delete(&mut transaction, "t", keys_between(low, low + 300)).expect("deletes");
                }
                5 => {
                    append(&mut transaction, "t", &batch(next_key..next_key + 17_000)).expect("appends");
                    delete(&mut transaction, "t", keys_between(0, next_key - 500)).expect("deletes");
                    next_key += 17_000;
                }
                _ => {
                    append(&mut transaction, "t", &batch(next_key..next_key + 40)).expect("appends");
                    next_key += 40;
                }
            }
            transaction.commit().expect("commits");
        }
        let (now, digest) = digest(&store).expect("reads");
        if action <= 2 {
            assert_eq!(digest, last, "a conversion or vacuum changed the rows");
        }
        // A vacuum commits twice, and the rows in between are the same.
        commits.extend((sequence + 1..=now).map(|sequence| (sequence, digest)));
        (sequence, last) = (now, digest);
    }
    commits
}

/// Reads repeatedly. Returns every sequence that it saw, with the state.
fn read(folder: &Path, stop: &AtomicBool, seed: u64) -> Vec<(u64, Digest)> {
    let options = StoreOptions { read_only: true, ..options() };
    let mut random = StdRng::seed_from_u64(seed);
    let mut store = Store::open(folder, options.clone()).expect("opens for reading");
    let mut seen: Vec<(u64, Digest)> = vec![];
    while !stop.load(Ordering::Relaxed) {
        if random.random_range(0..10) == 0 {
            store = Store::open(folder, options.clone()).expect("opens for reading again");
        }
        let snapshot = store.snapshot().expect("a snapshot");
        if random.random_range(0..3) == 0 {
            // Keeps the snapshot while the writer continues: none of its files may be removed.
            thread::sleep(Duration::from_millis(random.random_range(1..60)));
        }
        let found = digests(&snapshot).expect("every file of a live snapshot is there").get("t").copied();
        let found = (snapshot.sequence(), found.unwrap_or_default());
        assert!(seen.last().is_none_or(|(before, _)| *before <= found.0), "went back in time");
        seen.push(found);
    }
    seen
}

#[test]
fn every_reader_sees_one_commit_at_a_time() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = Store::open(folder.path(), options()).expect("opens");
    let mut transaction = store.write().expect("writes");
    transaction.create_table("t", table_schema(), design(DESIGNS[0])).expect("creates");
    append(&mut transaction, "t", &batch(0..3_000)).expect("appends");
    transaction.commit().expect("commits");
    drop(store);
    let stop = AtomicBool::new(false);
    let until = Instant::now() + seconds(3);
    let (commits, seen) = thread::scope(|scope| {
        let stop = &stop;
        let path = folder.path();
        let readers: Vec<_> = (0..READERS as u64).map(|seed| scope.spawn(move || read(path, stop, seed))).collect();
        let commits = scope.spawn(move || write(path, until)).join();
        stop.store(true, Ordering::Relaxed);
        let seen: Vec<_> = readers.into_iter().map(|r| r.join().expect("a reader failed")).collect();
        (commits.expect("the writer failed"), seen)
    });
    for (sequence, digest) in seen.iter().flatten() {
        assert_eq!(commits.get(sequence), Some(digest), "commit {sequence}");
    }
    println!("{} commits, {} reads", commits.len(), seen.iter().map(Vec::len).sum::<usize>());
    assert!(seen.iter().all(|s| s.len() > 2) && commits.len() > 5, "too little happened to prove anything");
    let store = Store::open(folder.path(), options()).expect("opens");
    assert_eq!(store.check(None).expect("checks").problems, Vec::<String>::new());
    // Without readers, a vacuum leaves exactly the files of the current snapshot.
    store.vacuum(None).expect("vacuums");
    let table = store.snapshot().expect("a snapshot").table("t").expect("the table").clone();
    let files = std::fs::read_dir(folder.path().join("segments")).expect("the folder").count();
    assert_eq!(files, table.segments.iter().filter(|s| !s.is_hot()).count());
}

/// A snapshot from before the commit that replaced all of its segments reads the same rows afterwards.
#[test]
fn a_snapshot_outlives_conversion_and_vacuum() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let writer = Store::open(folder.path(), options()).expect("opens");
    let mut transaction = writer.write().expect("writes");
    transaction.create_table("t", table_schema(), design(DESIGNS[0])).expect("creates");
    append(&mut transaction, "t", &batch(0..20_000)).expect("appends");
    transaction.commit().expect("commits");
    let reader = Store::open(folder.path(), StoreOptions { read_only: true, ..options() }).expect("opens");
    // None of its files is open yet, so only the pin protects them.
    let (old, own) = (reader.snapshot().expect("a snapshot"), writer.snapshot().expect("a snapshot"));
    let mut transaction = writer.write().expect("writes");
    transaction.convert("t", design(DESIGNS[2])).expect("converts");
    transaction.commit().expect("commits");
    let report = writer.vacuum(None).expect("vacuums");
    assert_eq!((report.files_removed, report.files_kept_for_readers), (0, 1));
    let mut expected = Digest::default();
    expected.add(&batch(0..20_000));
    assert_eq!(digests(&old).expect("its files are there")["t"], expected);
    drop(old);
    assert_eq!(writer.vacuum(None).expect("vacuums").files_removed, 0, "the writer's own snapshot is one too");
    assert_eq!(digests(&own).expect("its files are there")["t"], expected);
    drop(own);
    assert_eq!(writer.vacuum(None).expect("vacuums").files_removed, 1);
}
