//! Shared by the tests of faults, corruption and concurrent readers: small tables of every page format, and a digest of
//! everything in a database.
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::*;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use freestone_codec::{IntPredicate, Predicate};
use freestone_store::design::Design;
use freestone_store::media::Medium;
use freestone_store::scan::{ColumnPredicate, Cursor, ScanMetrics, ScanRequest, morsels};
use freestone_store::schema::TableSchema;
use freestone_store::{Definition, Snapshot, Store, StoreError, StoreOptions, Table, WriteTransaction};

pub type Options = &'static [(&'static str, &'static str)];

/// One design of every page format, and designs with abstraction, prefixes and mixed groups.
pub const DESIGNS: [Options; 7] = [
    &[("design", "column"), ("page_size", "4KiB")],
    &[("design", "row"), ("page_size", "4KiB"), ("sort", "g, k"), ("levels", "1")],
    &[("design", "slotted"), ("page_size", "4KiB")],
    &[("design", "pax"), ("page_size", "4KiB"), ("encode", "s: fsst, k: delta")],
    &[("groups", "(k, s), (g, f)"), ("page_size", "4KiB")],
    &[("design", "row"), ("page_size", "4KiB"), ("sort", "k")],
    &[("design", "auto"), ("page_size", "4KiB")],
];

pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("g", DataType::Int32, true),
        Field::new("f", DataType::Float64, true),
        Field::new("w", DataType::Decimal128(38, 2), true),
        Field::new("s", DataType::Utf8View, true),
    ]))
}

pub fn table_schema() -> TableSchema {
    TableSchema::from_arrow(&schema()).expect("the types can be stored")
}

pub fn design(options: Options) -> Design {
    Design::default().with_options(options.iter().copied(), &table_schema()).expect("a valid design")
}

/// The rows with these keys. All other values follow from the key.
pub fn batch(keys: std::ops::Range<i64>) -> RecordBatch {
    let some = |k: i64, n: i64| k % n != 0;
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(keys.clone())),
        Arc::new(Int32Array::from_iter(keys.clone().map(|k| some(k, 11).then_some((k % 7) as i32)))),
        Arc::new(Float64Array::from_iter(keys.clone().map(|k| some(k, 13).then_some(k as f64 / 8.0)))),
        Arc::new(
            Decimal128Array::from_iter(keys.clone().map(|k| some(k, 5).then_some(i128::from(k) << (k % 70))))
                .with_precision_and_scale(38, 2)
                .expect("a valid type"),
        ),
        Arc::new(StringViewArray::from_iter(
            keys.map(|k| some(k, 17).then(|| format!("row number {} of {}", k % 19, ["some", "many"][k as usize % 2]))),
        )),
    ];
    RecordBatch::try_new(schema(), arrays).expect("columns of the schema")
}

/// Options that make a store deterministic and small.
pub fn options() -> StoreOptions {
    StoreOptions { threads: 1, cache_bytes: 4 << 20, ..StoreOptions::default() }
}

pub fn open(medium: impl Medium + 'static) -> Result<Store, StoreError> {
    Store::on_medium(Arc::new(medium), options())
}

pub fn append(transaction: &mut WriteTransaction, table: &str, batch: &RecordBatch) -> Result<(), StoreError> {
    let mut appender = transaction.appender(table)?;
    appender.push(batch)?;
    transaction.append(appender.finish()?).map(|_| ())
}

/// Removes the rows with `k` in one of the ranges, as SQL's DELETE does: a scan for row ids, then their deletion.
/// Creates a view that reads nothing.
pub fn create_view(transaction: &mut WriteTransaction, name: &str) {
    let definition = Definition::View { query: "SELECT 1".into() };
    transaction.create_object(name, BTreeSet::new(), definition).expect("creates");
}

pub fn delete(transaction: &mut WriteTransaction, table: &str, predicate: Predicate) -> Result<u64, StoreError> {
    let scanned = transaction.snapshot().table(table).cloned().ok_or_else(|| StoreError::Invalid("no table".into()))?;
    let mut request = ScanRequest::columns(vec![]);
    request.row_ids = true;
    request.predicates = vec![ColumnPredicate { column: 0, predicate }];
    let mut ids = vec![];
    for batch in scan(&scanned, request)? {
        ids.extend(batch.column(0).as_primitive::<types::UInt64Type>().values().iter().copied());
    }
    transaction.delete(table, ids)
}

pub fn keys_between(low: i64, high: i64) -> Predicate {
    Predicate::Int(IntPredicate::Range { low: low.into(), high: high.into() })
}

pub fn scan(table: &Arc<Table>, request: ScanRequest) -> Result<Vec<RecordBatch>, StoreError> {
    let morsels = morsels(table, 1 << 16);
    let mut cursor = Cursor::new(table.clone(), Arc::new(request), Arc::new(ScanMetrics::default()));
    let mut batches = vec![];
    for (at, morsel) in morsels.iter().enumerate() {
        cursor.scan(morsel, morsels.get(at + 1))?;
        while let Some(batch) = cursor.next_ready() {
            batches.push(batch);
        }
    }
    batches.extend(cursor.finish()?);
    Ok(batches)
}

/// The number of rows and the sum of their hashes, which do not depend on the order of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Digest {
    pub rows: u64,
    pub hash: u64,
}

impl Digest {
    pub fn add(&mut self, batch: &RecordBatch) {
        for row in 0..batch.num_rows() {
            let mut hasher = DefaultHasher::new();
            for column in batch.columns() {
                hash_value(column, row, &mut hasher);
            }
            self.rows += 1;
            self.hash = self.hash.wrapping_add(hasher.finish());
        }
    }
}

fn hash_value(column: &ArrayRef, row: usize, hasher: &mut DefaultHasher) {
    column.is_null(row).hash(hasher);
    if column.is_null(row) {
        return;
    }
    match column.data_type() {
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).hash(hasher),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).hash(hasher),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).to_bits().hash(hasher),
        DataType::Decimal128(_, _) => column.as_primitive::<types::Decimal128Type>().value(row).hash(hasher),
        DataType::Utf8View => column.as_string_view().value(row).hash(hasher),
        other => panic!("{other} is not in the tests' tables"),
    }
}

/// The digest of every table, from a full scan. Copies are listed by name only, but current ones must have their
/// tables' rows.
pub fn digests(snapshot: &Snapshot) -> Result<BTreeMap<String, Digest>, StoreError> {
    let mut all = BTreeMap::new();
    for table in snapshot.tables() {
        all.insert(table.name.clone(), digest(table, (0..table.schema.columns.len()).collect())?);
        for copy in snapshot.copies(table) {
            all.insert(format!("{}, copy {}", table.name, copy.name), Digest::default());
            if !copy.is_current() {
                continue;
            }
            let columns = copy.copy_of.as_ref().expect("it is a copy").columns.clone();
            let found = digest(copy, (0..columns.len()).collect())?;
            assert_eq!(found, digest(table, columns)?, "copy {} of {}", copy.name, table.name);
        }
    }
    Ok(all)
}

fn digest(table: &Arc<Table>, columns: Vec<usize>) -> Result<Digest, StoreError> {
    let mut digest = Digest::default();
    scan(table, ScanRequest::columns(columns))?.iter().for_each(|b| digest.add(b));
    Ok(digest)
}

/// The options of a design for some columns of the tables.
pub fn design_of(columns: &[usize], options: Options) -> Design {
    let schema = table_schema().of_columns(columns);
    Design::default().with_options(options.iter().copied(), &schema).expect("a valid design")
}

/// The duration of a test that can run for any time: `FREESTONE_TEST_SECONDS`, or its default.
pub fn seconds(default: u64) -> std::time::Duration {
    let wanted = std::env::var("FREESTONE_TEST_SECONDS").ok().and_then(|s| s.parse().ok());
    std::time::Duration::from_secs(wanted.unwrap_or(default))
}

/// Every `sample`-th case, or all of them if `FREESTONE_TEST_ALL` is set.
pub fn stride(sample: usize) -> usize {
    if std::env::var_os("FREESTONE_TEST_ALL").is_some() { 1 } else { sample }
}
