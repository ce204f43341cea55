//! Shared by the tests: small tables, and stores over objects.
#![allow(dead_code)]

pub mod faults;
pub mod gate;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use freestone_bucket::Remote;
use freestone_store::design::Design;
use freestone_store::media::objects::Objects;
use freestone_store::scan::{ScanRequest, lookup};
use freestone_store::schema::TableSchema;
use freestone_store::{Snapshot, Store, StoreError, StoreOptions, WriteTransaction};
use object_store::ObjectStore;
use object_store::path::Path;

/// Long enough for every test that does not wait for it.
pub const RETENTION: Duration = Duration::from_secs(3600);

pub fn options() -> StoreOptions {
    StoreOptions { threads: 1, cache_bytes: 4 << 20, ..StoreOptions::default() }
}

pub fn objects(store: Arc<dyn ObjectStore>) -> Arc<dyn Objects> {
    Arc::new(Remote::new(store, Path::from("db"), "memory://test/db".to_owned()))
}

pub fn open(store: Arc<dyn ObjectStore>) -> Store {
    open_for(store, RETENTION)
}

pub fn open_for(store: Arc<dyn ObjectStore>, retention: Duration) -> Store {
    Store::in_bucket(objects(store), options(), retention).expect("opens")
}

/// A table with one column, `k`, which is its key if wanted.
pub fn schema(is_key: bool) -> TableSchema {
    let schema = Schema::new(vec![Field::new("k", DataType::Int64, false)]);
    let mut schema = TableSchema::from_arrow(&Arc::new(schema)).expect("the type can be stored");
    if is_key {
        schema.unique_keys.push(freestone_store::schema::UniqueKey { name: "u".into(), columns: vec!["k".into()] });
    }
    schema
}

pub fn create(store: &Store, name: &str, is_key: bool) {
    change(store, |transaction| transaction.create_table(name, schema(is_key), Design::default())).expect("creates");
}

/// One transaction.
pub fn change(
    store: &Store,
    work: impl FnOnce(&mut WriteTransaction) -> Result<(), StoreError>,
) -> Result<u64, StoreError> {
    let mut transaction = store.write()?;
    work(&mut transaction)?;
    transaction.commit()
}

pub fn append(transaction: &mut WriteTransaction, table: &str, keys: &[i64]) -> Result<(), StoreError> {
    let column: ArrayRef = Arc::new(Int64Array::from(keys.to_vec()));
    let batch = RecordBatch::try_from_iter([("k", column)]).expect("one column");
    let mut appender = transaction.appender(table)?;
    appender.push(&batch)?;
    transaction.append(appender.finish()?).map(drop)
}

/// Deletes the rows with these keys.
pub fn delete(transaction: &mut WriteTransaction, table: &str, keys: &[i64]) -> Result<u64, StoreError> {
    let snapshot = transaction.snapshot();
    let mut request = ScanRequest::columns(vec![0]);
    request.row_ids = true;
    let mut ids = vec![];
    for batch in scan(&snapshot, table, request)? {
        let found = batch.column(0).as_primitive::<Int64Type>().values().iter();
        let rows = batch.column(1).as_primitive::<UInt64Type>().values().iter();
        ids.extend(found.zip(rows).filter(|(key, _)| keys.contains(key)).map(|(_, row)| *row));
    }
    transaction.delete(table, ids)
}

pub fn scan(snapshot: &Snapshot, table: &str, request: ScanRequest) -> Result<Vec<RecordBatch>, StoreError> {
    let table = snapshot.table(table).cloned().ok_or_else(|| StoreError::Invalid(format!("no table {table}")))?;
    lookup(&table, &Arc::new(request), &Arc::default())
}

/// The keys of a table in order, also those that are there twice.
pub fn keys_of(snapshot: &Snapshot, table: &str) -> Result<Vec<i64>, StoreError> {
    let batches = scan(snapshot, table, ScanRequest::columns(vec![0]))?;
    let mut keys: Vec<i64> =
        batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
    keys.sort_unstable();
    Ok(keys)
}

pub fn keys(store: &Store, table: &str) -> Vec<i64> {
    keys_of(&store.snapshot().expect("a snapshot"), table).expect("scans")
}

/// Whether an error says that another attempt may succeed.
pub fn is_conflict(error: &StoreError) -> bool {
    match error {
        StoreError::Conflict(_) | StoreError::Deadlock(_) | StoreError::LockTimeout(_) => true,
        StoreError::Shared(error) => is_conflict(error),
        _ => false,
    }
}

/// Whether an error says that nobody knows whether a commit is stored.
pub fn is_unknown(error: &StoreError) -> bool {
    error.to_string().contains("may or may not be stored")
}

/// Checks every byte.
pub fn check_sound(store: &Store) {
    let report = store.check(None).expect("checks");
    assert_eq!(report.problems, Vec::<String>::new());
}

pub fn set(keys: &[i64]) -> BTreeSet<i64> {
    keys.iter().copied().collect()
}
