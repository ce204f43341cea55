//! Enforced keys of many rows: indexes where zones do not find them, and checks in several parts.

mod common;

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow_schema::{DataType, Field, Schema};
use common::open;
use freestone_store::design::Design;
use freestone_store::media::Memory;
use freestone_store::schema::{ForeignKey, TableSchema, UniqueKey};
use freestone_store::{Store, StoreError, Waiting, WriteTransaction};

const ROWS: i64 = 50_000;

fn rows(keys: &[i64]) -> RecordBatch {
    let schema = Schema::new(vec![Field::new("k", DataType::Int64, true), Field::new("s", DataType::Utf8View, true)]);
    let texts = keys.iter().map(|key| Some(format!("text {key}")));
    let columns: [ArrayRef; 2] =
        [Arc::new(Int64Array::from(keys.to_vec())), Arc::new(StringViewArray::from_iter(texts))];
    RecordBatch::try_new(Arc::new(schema), columns.to_vec()).unwrap()
}

fn unique(name: &str, columns: &[&str]) -> UniqueKey {
    UniqueKey { name: name.into(), columns: columns.iter().map(ToString::to_string).collect() }
}

fn store() -> Store {
    let store = open(Memory::new()).unwrap();
    let mut transaction = store.write().unwrap();
    let mut schema = TableSchema::from_arrow(&rows(&[]).schema()).unwrap();
    schema.unique_keys = vec![unique("k", &["k"]), unique("both", &["s", "k"])];
    transaction.create_table("t", schema.clone(), Design::default()).unwrap();
    (schema.unique_keys, schema.foreign_keys) = (vec![], vec![]);
    schema.foreign_keys.push(ForeignKey {
        name: "f".into(),
        columns: vec!["k".into()],
        table: "t".into(),
        referenced: vec!["k".into()],
        enforced: true,
    });
    transaction.create_table("f", schema, Design::default()).unwrap();
    transaction.commit().unwrap();
    store
}

fn add(transaction: &mut WriteTransaction, table: &str, keys: &[i64]) -> Result<(), StoreError> {
    let mut appender = transaction.appender(table)?;
    appender.push(&rows(keys))?;
    transaction.append(appender.finish()?)?;
    transaction.check_keys()
}

fn commit(store: &Store, keys: &[i64], write_bytes: Option<usize>) -> Result<(), StoreError> {
    let mut transaction = store.write()?;
    write_bytes.into_iter().for_each(|bytes| transaction.set_write_bytes(bytes));
    add(&mut transaction, "t", keys)?;
    transaction.commit().map(|_| ())
}

fn indexes(store: &Store, table: &str) -> Vec<usize> {
    let snapshot = store.snapshot().unwrap();
    let table = snapshot.table(table).unwrap();
    let segment = |at: usize| table.open_segment(at).unwrap().indexes().len();
    (0..table.segments.len()).map(segment).collect()
}

fn scattered(from: i64) -> Vec<i64> {
    (0..ROWS).map(|row| from + row * 7919 % ROWS).collect()
}

fn is_duplicate(result: Result<(), StoreError>, key: &str) -> bool {
    matches!(&result, Err(StoreError::DuplicateKey { key: found, .. }) if found == key)
}

#[test]
fn scattered_keys_have_an_index_and_ascending_ones_do_not() {
    let store = store();
    commit(&store, &scattered(0), None).unwrap();
    // The key of both columns is found by the index of one.
    assert_eq!(indexes(&store, "t"), [1]);
    commit(&store, &(ROWS..2 * ROWS).collect::<Vec<_>>(), None).unwrap();
    assert_eq!(indexes(&store, "t"), [1, 0]);
    for key in [0, 1, ROWS / 2, ROWS - 1, ROWS, 2 * ROWS - 1] {
        assert!(is_duplicate(commit(&store, &[-5, key], None), &key.to_string()), "{key}");
    }
    commit(&store, &[-5, 2 * ROWS], None).unwrap();
    assert!(is_duplicate(commit(&store, &scattered(2 * ROWS), None), &(2 * ROWS).to_string()));
    commit(&store, &scattered(3 * ROWS), None).unwrap();
    assert_eq!(store.check(None).unwrap().problems, [""; 0]);
}

#[test]
fn keys_beyond_the_memory_are_checked_in_parts() {
    let store = store();
    let little = Some(1);
    commit(&store, &scattered(0), little).unwrap();
    assert!(is_duplicate(commit(&store, &scattered(ROWS - 1), little), &(ROWS - 1).to_string()));
    let mut twice = scattered(ROWS);
    twice[40_000] = twice[7];
    assert!(is_duplicate(commit(&store, &twice, little), &twice[7].to_string()));
    // They lock the whole key.
    let mut large = store.write().unwrap();
    large.set_write_bytes(1);
    add(&mut large, "t", &scattered(ROWS)).unwrap();
    let mut small = store.write().unwrap();
    small.set_waiting(Waiting { timeout: Some(Duration::from_millis(5)), goes_on: None });
    assert!(matches!(add(&mut small, "t", &[-7]), Err(StoreError::LockTimeout(_))));
    drop(small);
    large.commit().unwrap();
    commit(&store, &[-7], None).unwrap();
}

#[test]
fn references_beyond_the_memory_are_checked_in_parts() {
    let store = store();
    commit(&store, &scattered(0), None).unwrap();
    for little in [None, Some(1)] {
        let mut transaction = store.write().unwrap();
        little.into_iter().for_each(|bytes| transaction.set_write_bytes(bytes));
        add(&mut transaction, "f", &scattered(0)[..20_000]).unwrap();
        let mut wrong = scattered(0);
        wrong[30_000] = ROWS + 3;
        let missing = add(&mut transaction, "f", &wrong);
        let expected = (ROWS + 3).to_string();
        assert!(matches!(&missing, Err(StoreError::MissingReference { key, .. }) if *key == expected), "{missing:?}");
    }
    let mut transaction = store.write().unwrap();
    add(&mut transaction, "f", &[5, 6, 7]).unwrap();
    transaction.commit().unwrap();
    let mut transaction = store.write().unwrap();
    transaction.delete_all("t").unwrap();
    let refused = transaction.check_keys();
    assert!(matches!(&refused, Err(StoreError::StillReferenced { key, .. }) if key == "5"), "{refused:?}");
    drop(transaction);
    let mut transaction = store.write().unwrap();
    transaction.delete_all("f").unwrap();
    transaction.delete_all("t").unwrap();
    transaction.commit().unwrap();
}

#[test]
fn an_index_is_written_again_by_vacuum_and_conversion() {
    let store = store();
    commit(&store, &scattered(0), None).unwrap();
    let mut transaction = store.write().unwrap();
    let design = Design::default().with_options([("preset", "row")], &transaction.table("t").unwrap().schema).unwrap();
    transaction.convert("t", design).unwrap();
    transaction.commit().unwrap();
    assert_eq!(indexes(&store, "t"), [1]);
    assert!(is_duplicate(commit(&store, &[17], None), "17"));
    store.vacuum(None).unwrap();
    assert!(is_duplicate(commit(&store, &[17], None), "17"));
    assert_eq!(store.check(None).unwrap().problems, [""; 0]);
}
