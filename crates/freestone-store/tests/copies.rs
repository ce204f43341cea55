//! Copies of a table in designs of their own: which writes keep them current, and what happens to those that are not.

mod common;

use std::sync::Arc;

use common::*;
use freestone_store::media::Memory;
use freestone_store::scan::{ColumnPredicate, ScanRequest, expected_bytes};
use freestone_store::{Store, StoreError, Table, WriteTransaction};

const KEY_AND_TEXT: [usize; 2] = [0, 4];

/// A table of 30,000 rows, with a copy of all columns in rows, and a clustered copy of two columns.
fn store(memory: &Memory) -> Store {
    let store = open(memory.clone()).unwrap();
    change(&store, |t| {
        t.create_table("t", table_schema(), design(DESIGNS[0]))?;
        append(t, "t", &batch(0..30_000))?;
        t.create_copy("t", "rows", (0..5).collect(), design(DESIGNS[2]))?;
        let clustered = design_of(&KEY_AND_TEXT, &[("cluster", "s, k"), ("page_size", "4KiB")]);
        t.create_copy("t", "clustered", KEY_AND_TEXT.to_vec(), clustered)
    });
    store
}

fn change(store: &Store, f: impl FnOnce(&mut WriteTransaction) -> Result<(), StoreError>) {
    let mut transaction = store.write().unwrap();
    f(&mut transaction).unwrap();
    transaction.commit().unwrap();
}

/// The number of current copies, each of which has its table's rows, and of the others.
fn copies(store: &Store) -> (usize, usize) {
    let snapshot = store.snapshot().unwrap();
    digests(&snapshot).unwrap();
    let report = store.check(None).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let copies: Vec<Arc<Table>> = snapshot.copies(snapshot.table("t").unwrap()).cloned().collect();
    let current = copies.iter().filter(|copy| copy.is_current()).count();
    (current, copies.len() - current)
}

#[test]
fn additions_come_to_copies_and_removals_make_them_wait_for_vacuum() {
    let memory = Memory::new();
    let store = store(&memory);
    assert_eq!(copies(&store), (2, 0));
    change(&store, |t| append(t, "t", &batch(30_000..30_010)));
    change(&store, |t| append(t, "t", &batch(40_000..60_000)));
    assert_eq!(copies(&store), (2, 0));
    change(&store, |t| t.convert("t", design(DESIGNS[1])));
    assert_eq!(copies(&store), (2, 0));
    change(&store, |t| delete(t, "t", keys_between(100, 4_000)).map(|_| ()));
    assert_eq!(copies(&store), (0, 2));
    // Rows that were appended only to the table are in the copies after these are rewritten.
    change(&store, |t| append(t, "t", &batch(60_000..61_000)));
    drop(store);
    let store = open(memory.clone()).unwrap();
    assert_eq!(copies(&store), (0, 2));
    store.vacuum(Some("t")).unwrap();
    assert_eq!(copies(&store), (2, 0));
    let rows = |store: &Store| store.snapshot().unwrap().table("t").unwrap().rows();
    assert_eq!(rows(&store), 30_010 + 20_000 + 1_000 - 3_901);
    change(&store, |t| t.truncate("t"));
    assert_eq!((copies(&store), rows(&store)), ((2, 0), 0));
    change(&store, |t| append(t, "t", &batch(0..20_000)));
    assert_eq!((copies(&store), rows(&store)), ((2, 0), 20_000));
}

#[test]
fn loads_into_a_clustered_copy_are_merged() {
    let store = store(&Memory::new());
    (0..8).for_each(|at| change(&store, |t| append(t, "t", &batch(40_000 + at * 20_000..60_000 + at * 20_000))));
    assert!(store.merge_is_due());
    while store.merge_runs(64 << 20, || true).unwrap() {}
    assert!(!store.merge_is_due());
    assert_eq!(copies(&store), (2, 0));
}

#[test]
fn a_dropped_copy_leaves_no_files() {
    let memory = Memory::new();
    let store = store(&memory);
    let files = |memory: &Memory| memory.files().keys().filter(|name| name.ends_with(".seg")).count();
    assert_eq!(files(&memory), 3);
    change(&store, |t| t.drop_copy("t", "rows"));
    store.vacuum(None).unwrap();
    assert_eq!((copies(&store), files(&memory)), ((1, 0), 2));
    change(&store, |t| t.drop_table("t"));
    store.vacuum(None).unwrap();
    assert_eq!(files(&memory), 0);
}

#[test]
fn names_and_columns_are_checked() {
    let store = store(&Memory::new());
    let mut transaction = store.write().unwrap();
    let error = |result: Result<(), StoreError>| result.unwrap_err().to_string();
    let mut create = |name: &str, columns: &[usize]| {
        transaction.create_copy("t", name, columns.to_vec(), design_of(&[0], DESIGNS[0]))
    };
    assert!(error(create("rows", &[0])).contains("table t has a copy rows already"));
    for columns in [&[] as &[usize], &[1, 0], &[0, 0], &[5]] {
        assert!(error(create("other", columns)).contains("cannot be one of table t"), "{columns:?}");
    }
    assert!(error(transaction.drop_copy("t", "other")).contains("table t has no copy other"));
}

#[test]
fn pages_that_a_scan_will_touch_are_guessed() {
    let store = store(&Memory::new());
    let snapshot = store.snapshot().unwrap();
    let table = snapshot.table("t").unwrap();
    let copy = |name: &str| snapshot.copies(table).find(|copy| copy.name == name).unwrap();
    let bytes = |of: &Arc<Table>, request: &ScanRequest, selected| expected_bytes(of, request, selected).unwrap();
    // One column of all rows, and all columns of a few rows: each copy has its use.
    let narrow = ScanRequest::columns(vec![1]);
    assert!(bytes(table, &narrow, 3e4) * 3.0 < bytes(copy("rows"), &narrow, 3e4));
    let mut wide = ScanRequest::columns((0..5).collect());
    let (in_rows, in_columns) = (bytes(copy("rows"), &wide, 3e4), bytes(table, &wide, 3e4));
    assert!(in_rows < in_columns * 8.0, "{in_rows} of {in_columns} bytes");
    // A key. The table's rows are in its order, and zone pruning leaves one zone.
    wide.predicates = vec![ColumnPredicate { column: 0, predicate: keys_between(5, 5) }];
    let (all, few) = (bytes(table, &ScanRequest::columns((0..5).collect()), 3e4), bytes(table, &wide, 1.0));
    assert!(few * 3.0 < all, "{few} of {all}");
}
