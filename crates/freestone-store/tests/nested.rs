//! Lists, structs and maps come back from every design, whole and by their fields, from hot rows and from segments.

use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder, StringViewBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::*;
use arrow_buffer::NullBuffer;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use freestone_codec::{IntPredicate, Predicate};
use freestone_store::design::Design;
use freestone_store::scan::{ColumnPredicate, ScanRequest, lookup};
use freestone_store::schema::{Column, StoredValue, TableSchema};
use freestone_store::{Emulation, PmemOptions, Store, StoreOptions, Table};
use proptest::prelude::*;

mod common;

const DESIGNS: [&[(&str, &str)]; 9] = [
    &[("design", "auto")],
    &[("design", "row")],
    &[("design", "slotted")],
    &[("design", "pax"), ("page_size", "4KiB")],
    &[("groups", "(k, s.a), (s.t.b, l)")],
    &[("design", "column"), ("sort", "k"), ("encoding", "s.a: rle")],
    &[("design", "row"), ("cluster", "k")],
    &[("medium", "pmem")],
    &[("medium", "pmem"), ("cluster", "k")],
];

fn with_pool() -> StoreOptions {
    let pmem = PmemOptions { emulated: Some(Emulation::default()), bytes: 32 << 20, region: None };
    StoreOptions { pmem, ..StoreOptions::default() }
}

type Struct = Option<(Option<i32>, Option<(Option<String>, Option<Vec<Option<i32>>>)>)>;
type Row = (i32, Struct, Option<Vec<Option<i32>>>);

fn list_of(rows: impl Iterator<Item = Option<Vec<Option<i32>>>>) -> ArrayRef {
    let mut lists = ListBuilder::new(Int32Builder::new());
    rows.for_each(|row| lists.append_option(row));
    Arc::new(lists.finish())
}

fn structs(columns: Vec<(&str, ArrayRef)>, valid: Vec<bool>) -> ArrayRef {
    let field = |(name, column): &(&str, ArrayRef)| Field::new(*name, column.data_type().clone(), true);
    let fields: Fields = columns.iter().map(field).collect::<Vec<_>>().into();
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    Arc::new(StructArray::new(fields, columns, Some(NullBuffer::from(valid))))
}

/// Rows of k, s STRUCT(a, t STRUCT(b, l)), l. Fields of structs that are NULL have values nevertheless.
fn batch(rows: &[Row]) -> RecordBatch {
    let inner = |row: &Row| row.1.clone().and_then(|s| s.1);
    let mut texts = StringViewBuilder::new();
    rows.iter().for_each(|row| texts.append_option(inner(row).map_or(Some("hidden".to_owned()), |t| t.0)));
    let lists = list_of(rows.iter().map(|row| inner(row).map_or(Some(vec![Some(9)]), |t| t.1)));
    let t = structs(
        vec![("b", Arc::new(texts.finish())), ("l", lists)],
        rows.iter().map(|row| row.1.is_none() || inner(row).is_some()).collect(),
    );
    let a: Int32Array = rows.iter().map(|row| row.1.as_ref().map_or(Some(7), |s| s.0)).collect();
    let s = structs(vec![("a", Arc::new(a)), ("t", t)], rows.iter().map(|row| row.1.is_some()).collect());
    let k: Int32Array = rows.iter().map(|row| Some(row.0)).collect();
    let l = list_of(rows.iter().map(|row| row.2.clone()));
    RecordBatch::try_new(schema(s.data_type(), l.data_type()), vec![Arc::new(k), s, l]).unwrap()
}

fn schema(s: &DataType, l: &DataType) -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int32, false),
        Field::new("s", s.clone(), true),
        Field::new("l", l.clone(), true),
    ]))
}

fn list() -> impl Strategy<Value = Option<Vec<Option<i32>>>> {
    prop::option::weighted(0.8, prop::collection::vec(prop::option::weighted(0.8, -3..3), 0..4))
}

fn row() -> impl Strategy<Value = Row> {
    let t = prop::option::weighted(0.8, (prop::option::of("[ab]{0,15}"), list()));
    (0..50, prop::option::weighted(0.8, (prop::option::weighted(0.8, -3..3), t)), list())
}

fn read(table: &Arc<Table>, request: ScanRequest) -> Vec<RecordBatch> {
    lookup(table, &Arc::new(request), &Arc::default()).unwrap()
}

/// The rows of batches as texts, in an order of their own.
fn shown(batches: &[RecordBatch], column: usize) -> Vec<String> {
    let of_batch = |batch: &RecordBatch| {
        let array = batch.column(column).clone();
        let options = FormatOptions::new().with_null("NULL");
        let formatter = ArrayFormatter::try_new(array.as_ref(), &options).unwrap();
        (0..array.len()).map(|row| formatter.value(row).to_string()).collect::<Vec<_>>()
    };
    let mut rows: Vec<String> = batches.iter().flat_map(of_batch).collect();
    rows.sort();
    rows
}

fn filtered(table: &Arc<Table>, predicate: ColumnPredicate) -> usize {
    let request = ScanRequest { predicates: vec![predicate], ..ScanRequest::columns(vec![0]) };
    read(table, request).iter().map(RecordBatch::num_rows).sum()
}

/// Compares a table with the rows that were appended to it.
fn check(table: &Arc<Table>, expected: &[RecordBatch], rows: &[Row]) {
    for column in [1, 2] {
        let all = read(table, ScanRequest::columns(vec![0, column]));
        assert_eq!(shown(&all, 1), shown(expected, column), "{}", table.design);
        all.iter().for_each(|batch| batch.column(1).to_data().validate_full().unwrap());
    }
    let schema = &table.schema;
    let a = schema.field_at(1, &["a"]).unwrap();
    let b = schema.field_at(1, &["t", "b"]).unwrap();
    let field = read(table, ScanRequest::columns(vec![a]));
    let numbers = |batch: &RecordBatch| batch.column(0).as_primitive::<Int32Type>().iter().collect::<Vec<_>>();
    let mut found: Vec<Option<i32>> = field.iter().flat_map(numbers).collect();
    let mut wanted: Vec<Option<i32>> = rows.iter().map(|row| row.1.as_ref().and_then(|s| s.0)).collect();
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);
    for value in -3..8 {
        let range = Predicate::Int(IntPredicate::Range { low: value, high: value });
        let wanted = wanted.iter().filter(|a| a.map(i128::from) == Some(value)).count();
        assert_eq!(filtered(table, ColumnPredicate { column: a, predicate: range }), wanted);
    }
    let nulls = rows.iter().filter(|row| row.1.as_ref().and_then(|s| s.1.as_ref()?.0.as_ref()).is_none()).count();
    assert_eq!(filtered(table, ColumnPredicate { column: b, predicate: Predicate::IsNull }), nulls);
    let nulls = rows.iter().filter(|row| row.1.is_none()).count();
    assert_eq!(filtered(table, ColumnPredicate { column: 1, predicate: Predicate::IsNull }), nulls);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn every_design_returns_the_rows(
        parts in prop::collection::vec(prop::collection::vec(row(), 1..30), 1..4),
        repeat in prop_oneof![Just(1usize), Just(400)],
    ) {
        let parts: Vec<Vec<Row>> = parts.into_iter().map(|part| part.iter().cycle().take(part.len() * repeat).cloned().collect()).collect();
        let expected: Vec<RecordBatch> = parts.iter().map(|part| batch(part)).collect();
        let rows: Vec<Row> = parts.concat();
        for options in DESIGNS {
            let table_schema = TableSchema::from_arrow(&expected[0].schema()).unwrap();
            let design = Design::default().with_options(options.iter().copied(), &table_schema).unwrap();
            let store = Store::in_memory(with_pool()).unwrap();
            let mut transaction = store.write().unwrap();
            transaction.create_table("t", table_schema, design).unwrap();
            transaction.commit().unwrap();
            for batch in &expected {
                let mut transaction = store.write().unwrap();
                common::append(&mut transaction, "t", batch).unwrap();
                transaction.commit().unwrap();
            }
            let snapshot = store.snapshot().unwrap();
            check(snapshot.table("t").unwrap(), &expected, &rows);
            prop_assert_eq!(store.check(None).unwrap().problems, Vec::<String>::new());
            drop(snapshot);
            store.vacuum(Some("t")).unwrap();
            let snapshot = store.snapshot().unwrap();
            let table = snapshot.table("t").unwrap();
            prop_assert!(table.segments.iter().all(|segment| !segment.is_hot()));
            check(table, &expected, &rows);
            prop_assert_eq!(store.check(None).unwrap().problems, Vec::<String>::new());
        }
    }
}

#[test]
fn structs_that_were_added_are_null() {
    let rows: Vec<Row> = (0..5000).map(|k| (k, Some((Some(k % 7), None)), None)).collect();
    let first = batch(&rows);
    let store = Store::in_memory(StoreOptions::default()).unwrap();
    let table_schema = TableSchema::from_arrow(&first.schema()).unwrap();
    let mut transaction = store.write().unwrap();
    transaction.create_table("t", table_schema, Design::default()).unwrap();
    common::append(&mut transaction, "t", &first).unwrap();
    let added = Column { name: "r".into(), data_type: first.column(1).data_type().clone(), nullable: true };
    transaction.add_column("t", added, StoredValue::Null, None).unwrap();
    transaction.drop_column("t", "l").unwrap();
    transaction.commit().unwrap();
    let snapshot = store.snapshot().unwrap();
    let table = snapshot.table("t").unwrap();
    let batches = read(table, ScanRequest::columns(vec![1, 2]));
    assert_eq!(shown(&batches, 0), shown(&[first], 1));
    assert!(batches.iter().all(|batch| batch.column(1).null_count() == batch.num_rows()));
    let field = table.schema.field_at(2, &["t", "b"]).unwrap();
    assert_eq!(filtered(table, ColumnPredicate { column: field, predicate: Predicate::IsNotNull }), 0);
}
