//! A database in a bucket, with one process that writes it.

mod common;

use std::sync::atomic::Ordering;

use common::faults::{Faults, Plan};
use common::*;
use freestone_bucket::Location;
use freestone_store::design::{Design, MediumKind};
use freestone_store::{Store, StoreError, StoreOptions};

fn many(from: i64, count: i64) -> Vec<i64> {
    (from..from + count).collect()
}

#[test]
fn what_is_committed_is_there_for_others() {
    let bucket = Faults::new(Plan::default(), 1);
    let store = open(bucket.clone());
    create(&store, "t", false);
    // Hot rows, and a segment.
    change(&store, |t| append(t, "t", &[3, 1, 2])).expect("commits");
    change(&store, |t| append(t, "t", &many(100, 40_000))).expect("commits");
    change(&store, |t| delete(t, "t", &[1, 100]).map(drop)).expect("commits");
    let expected: Vec<i64> = [2, 3].into_iter().chain(101..40_100).collect();
    assert_eq!(keys(&store, "t"), expected);
    let other = open(bucket.clone());
    assert_eq!(keys(&other, "t"), expected);
    check_sound(&other);
    // It follows.
    change(&store, |t| append(t, "t", &[-5])).expect("commits");
    assert_eq!(keys(&other, "t")[0], -5);
    drop(store);
    let read_only = StoreOptions { read_only: true, ..options() };
    let reader = Store::in_bucket(objects(bucket), read_only, RETENTION).expect("opens");
    assert_eq!(keys(&reader, "t").len(), expected.len() + 1);
    assert!(matches!(reader.write(), Err(StoreError::ReadOnly(_))));
}

#[test]
fn a_snapshot_costs_one_request_and_a_commit_another() {
    let bucket = Faults::new(Plan::default(), 1);
    let store = open(bucket.clone());
    create(&store, "t", false);
    change(&store, |t| append(t, "t", &[1])).expect("commits");
    let requests = |work: &dyn Fn()| {
        let before = bucket.requests.load(Ordering::Relaxed);
        work();
        bucket.requests.load(Ordering::Relaxed) - before
    };
    assert_eq!(requests(&|| assert_eq!(keys(&store, "t"), [1])), 1);
    let mut transaction = store.write().expect("writes");
    append(&mut transaction, "t", &[2]).expect("appends");
    let before = bucket.requests.load(Ordering::Relaxed);
    transaction.commit().expect("commits");
    assert_eq!(bucket.requests.load(Ordering::Relaxed) - before, 1);
}

#[test]
fn a_footer_is_read_by_one_request_and_pages_together() {
    let bucket = Faults::new(Plan::default(), 1);
    let store = open(bucket.clone());
    create(&store, "t", false);
    change(&store, |t| append(t, "t", &many(0, 200_000))).expect("commits");
    let other = open(bucket.clone());
    let snapshot = other.snapshot().expect("a snapshot");
    let before = bucket.requests.load(Ordering::Relaxed);
    assert_eq!(keys_of(&snapshot, "t").expect("scans").len(), 200_000);
    let requests = bucket.requests.load(Ordering::Relaxed) - before;
    assert!(requests <= 4, "{requests} requests for a segment");
}

#[test]
fn the_log_is_folded_and_later_processes_begin_there() {
    let bucket = Faults::new(Plan::default(), 1);
    let store = open(bucket.clone());
    create(&store, "t", false);
    for key in 0..150 {
        change(&store, |t| append(t, "t", &[key])).expect("commits");
    }
    let folds = objects(bucket.clone()).list("folds", None, usize::MAX).expect("lists");
    assert!(folds.len() >= 2, "{folds:?}");
    assert_eq!(keys(&open(bucket), "t"), many(0, 150));
}

#[test]
fn persistent_memory_is_refused_by_name() {
    let store = open(Faults::new(Plan::default(), 1));
    let design = Design { medium: MediumKind::Pmem, ..Design::default() };
    let refused = change(&store, |t| t.create_table("t", schema(false), design)).expect_err("refused").to_string();
    assert!(refused.contains("medium = 'pmem' works in a folder of this machine only"), "{refused}");
}

#[test]
fn damage_is_named_and_a_newer_format_is_refused() {
    let bucket = Faults::new(Plan::default(), 1);
    let store = open(bucket.clone());
    create(&store, "t", false);
    change(&store, |t| append(t, "t", &many(0, 50_000))).expect("commits");
    let objects = objects(bucket.clone());
    let flip = |name: &str, at: usize| {
        let mut bytes = objects.get(name).expect("reads").expect("is there");
        bytes[at] ^= 4;
        objects.put(name, &bytes).expect("writes");
    };
    let segment = objects.list("segments", None, 9).expect("lists").remove(0).name;
    flip(&segment, 5000);
    let error = keys_of(&open(bucket.clone()).snapshot().expect("opens"), "t").expect_err("damage").to_string();
    assert!(error.contains(&segment) && error.contains("page 0"), "{error}");
    flip(&segment, 5000);
    let second = "log/00000000000000000002";
    flip(second, 120);
    let error = Store::in_bucket(objects.clone(), options(), RETENTION).expect_err("damage").to_string();
    assert!(error.contains(&format!("{second} is damaged at byte 96")), "{error}");
    flip(second, 120);
    let text = objects.get("FREESTONE").expect("reads").expect("is there");
    let newer = String::from_utf8(text).expect("text").replace("\"format\":3", "\"format\":7");
    objects.put("FREESTONE", newer.as_bytes()).expect("writes");
    let error = Store::in_bucket(objects, options(), RETENTION).expect_err("newer").to_string();
    assert!(error.contains("format version 7") && error.contains("use a newer program"), "{error}");
}

#[test]
fn others_objects_are_not_taken_for_a_database() {
    let bucket = Faults::new(Plan::default(), 1);
    objects(bucket.clone()).put("report.csv", b"a,b").expect("writes");
    let error = Store::in_bucket(objects(bucket), options(), RETENTION).expect_err("not empty").to_string();
    assert!(error.contains("is no database, and not empty: it has report.csv"), "{error}");
}

#[test]
fn a_folder_has_the_same_layout() {
    let folder = tempfile::tempdir().expect("a folder");
    let location = Location::parse(&format!("file://{}/db", folder.path().display())).expect("a URL");
    let connect = || std::sync::Arc::new(location.connect(true).expect("connects"));
    let store = Store::in_bucket(connect(), options(), RETENTION).expect("opens");
    create(&store, "t", false);
    change(&store, |t| append(t, "t", &many(0, 30_000))).expect("commits");
    let other = Store::in_bucket(connect(), options(), RETENTION).expect("opens");
    assert_eq!(keys(&other, "t"), many(0, 30_000));
    assert!(folder.path().join("db/log/00000000000000000002").is_file());
    let read_only = Store::in_bucket(connect(), StoreOptions { read_only: true, ..options() }, RETENTION);
    assert_eq!(keys(&read_only.expect("opens"), "t").len(), 30_000);
}

#[test]
fn sorting_with_little_memory_uses_files_of_this_machine() {
    let bucket = Faults::new(Plan::default(), 1);
    let options = StoreOptions { write_bytes: 1 << 20, ..options() };
    let store = Store::in_bucket(objects(bucket.clone()), options, RETENTION).expect("opens");
    let design = Design::default().with_options([("sort", "k")], &schema(false)).expect("a design");
    change(&store, |t| t.create_table("t", schema(false), design)).expect("creates");
    let mut random = fastrand::Rng::with_seed(3);
    let mut shuffled = many(0, 400_000);
    random.shuffle(&mut shuffled);
    change(&store, |t| append(t, "t", &shuffled)).expect("commits");
    assert_eq!(keys(&store, "t"), many(0, 400_000));
    assert!(objects(bucket).list("runs", None, 9).expect("lists").is_empty());
}

#[test]
fn denied_access_is_one_line() {
    let bucket = Faults::new(Plan { denied: true, ..Plan::default() }, 1);
    let error = Store::in_bucket(objects(bucket), options(), RETENTION).expect_err("denied").to_string();
    assert!(error.contains("the store denies it; check the rights") && !error.contains('\n'), "{error}");
}
