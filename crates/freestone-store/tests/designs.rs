//! The central invariant: the same rows from every design, through every scan, after every conversion.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal128Type, Int32Type, Int64Type, UInt64Type};
use arrow_array::*;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use freestone_codec::{BytesBound, BytesPredicate, IntPredicate, Predicate};
use freestone_store::column::ColumnBuffer;
use freestone_store::design::Design;
use freestone_store::scan::{
    ColumnPredicate, Cursor, ScanMetrics, ScanRequest, ScanTotals, Sink, StoredRows, StoredScan, morsels, row_id,
    surviving_morsels,
};
use freestone_store::schema::TableSchema;
use freestone_store::segment::Segment;
use freestone_store::{Store, StoreError, StoreOptions};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Every column as it is.
const PLAIN: &str = "k: plain, a: plain, b: plain, u: plain, d: plain, w: plain, m: plain, f: plain, g: plain, o: plain, \
                     s: plain, t: plain, y: plain";

const DESIGNS: [&[(&str, &str)]; 19] = [
    &[("design", "auto")],
    &[("design", "column")],
    &[("design", "row")],
    &[("design", "slotted")],
    &[("design", "pax")],
    &[("groups", "(a, s), (b, d, f), (w)")],
    &[("design", "row"), ("sort", "a, b"), ("levels", "1")],
    &[("design", "row"), ("sort", "k, a, d"), ("levels", "2"), ("page_size", "4KiB")],
    &[("design", "column"), ("sort", "k, a"), ("levels", "2")],
    &[("design", "pax"), ("sort", "s, a"), ("page_size", "64KiB")],
    &[("design", "row"), ("sort", "k, d, a")],
    &[("groups", "(a, b), (s, t)"), ("page", "slotted")],
    &[("design", "column"), ("cluster", "k, s, d:3, w, f, u")],
    &[("design", "row"), ("cluster", "b, t, y, g"), ("sort", "a"), ("page_size", "4KiB")],
    &[("design", "column"), ("index", "(a), (b, s), (w), (f), (t), (y, d), (u)")],
    &[("design", "slotted"), ("sort", "k"), ("page_size", "4KiB"), ("index", "d, a")],
    &[("design", "row"), ("encode", PLAIN), ("sort", "k, d")],
    &[("design", "column"), ("encode", PLAIN)],
    &[("design", "row"), ("encode", PLAIN), ("sort", "k, a, d"), ("levels", "1"), ("page_size", "4KiB")],
];

fn schema() -> SchemaRef {
    let field = |name: &str, data_type: DataType, nullable: bool| Field::new(name, data_type, nullable);
    Arc::new(Schema::new(vec![
        field("k", DataType::Int32, false),
        field("a", DataType::Int32, true),
        field("b", DataType::Int64, true),
        field("u", DataType::UInt64, true),
        field("d", DataType::Date32, false),
        field("w", DataType::Decimal128(38, 4), true),
        field("m", DataType::Decimal128(15, 2), true),
        field("f", DataType::Float64, true),
        field("g", DataType::Float32, true),
        field("o", DataType::Boolean, true),
        field("s", DataType::Utf8View, true),
        field("t", DataType::Utf8View, true),
        field("y", DataType::BinaryView, true),
    ]))
}

/// Rows with few and many distinct values, extremes and NULLs.
fn batch(rows: usize, seed: u64) -> RecordBatch {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut null = StdRng::seed_from_u64(seed + 1);
    let mut some = move || null.random_range(0..10) > 0;
    let extremes = seed.is_multiple_of(3);
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values((0..rows).map(|_| rng.random_range(0..4)))),
        Arc::new(Int32Array::from_iter((0..rows).map(|_| some().then(|| rng.random_range(-50..50))))),
        Arc::new(Int64Array::from_iter((0..rows).map(|i| {
            let extreme = if i % 2 == 0 { i64::MIN } else { i64::MAX };
            some().then(|| if extremes && i % 50 < 2 { extreme } else { rng.random_range(0..1 << 40) })
        }))),
        Arc::new(UInt64Array::from_iter(
            (0..rows)
                .map(|i| some().then(|| if extremes && i % 70 == 0 { u64::MAX } else { rng.random_range(0..100_000) })),
        )),
        Arc::new(Date32Array::from_iter_values((0..rows).map(|_| rng.random_range(8000..10_500)))),
        Arc::new(
            Decimal128Array::from_iter((0..rows).map(|i| {
                let huge = 10i128.pow(37) * if i % 2 == 0 { 1 } else { -1 };
                some().then(|| if extremes && i % 90 < 2 { huge } else { rng.random_range(-1_000_000..1_000_000) })
            }))
            .with_precision_and_scale(38, 4)
            .unwrap(),
        ),
        Arc::new(
            Decimal128Array::from_iter((0..rows).map(|_| some().then(|| rng.random_range(100i128..9_999_999))))
                .with_precision_and_scale(15, 2)
                .unwrap(),
        ),
        Arc::new(Float64Array::from_iter((0..rows).map(|i| {
            let odd = [f64::NAN, -0.0, f64::NEG_INFINITY, f64::MIN_POSITIVE];
            some().then(|| {
                if extremes && i % 40 < 4 { odd[i % 4] } else { f64::from(rng.random_range(0..10_000)) / 100.0 }
            })
        }))),
        Arc::new(Float32Array::from_iter((0..rows).map(|_| some().then(|| rng.random::<f32>())))),
        Arc::new(BooleanArray::from_iter((0..rows).map(|_| some().then(|| rng.random::<bool>())))),
        Arc::new(StringViewArray::from_iter((0..rows).map(|_| {
            some().then(|| ["AIR", "RAIL", "", "TRUCK, a long one that is not inline", "ship"][rng.random_range(0..5)])
        }))),
        Arc::new(StringViewArray::from_iter((0..rows).map(|_| {
            let words = ["quick", "brown", "foxes", "sleep", "furiously", "über"];
            let n = rng.random_range(0..9);
            some().then(|| (0..n).map(|_| words[rng.random_range(0..6)]).collect::<Vec<_>>().join(" "))
        }))),
        Arc::new(BinaryViewArray::from_iter((0..rows).map(|_| {
            let n = rng.random_range(0..20);
            some().then(|| (0..n).map(|_| rng.random::<u8>()).collect::<Vec<u8>>())
        }))),
    ];
    RecordBatch::try_new(schema(), arrays).unwrap()
}

fn design(options: &[(&str, &str)]) -> Design {
    let table = TableSchema::from_arrow(&schema()).unwrap();
    Design::default().with_options(options.iter().copied(), &table).unwrap()
}

/// Every row as text, sorted.
fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows = vec![];
    for batch in batches {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| match column.data_type() {
                _ if column.is_null(row) => "NULL".to_owned(),
                DataType::Float64 => format!("{:x}", column.as_primitive::<types::Float64Type>().value(row).to_bits()),
                DataType::Float32 => format!("{:x}", column.as_primitive::<types::Float32Type>().value(row).to_bits()),
                DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
                DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
                DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row).to_string(),
                DataType::Date32 => column.as_primitive::<Date32Type>().value(row).to_string(),
                DataType::Decimal128(_, _) => column.as_primitive::<Decimal128Type>().value(row).to_string(),
                DataType::Boolean => column.as_boolean().value(row).to_string(),
                DataType::Utf8View => column.as_string_view().value(row).to_owned(),
                _ => format!("{:?}", column.as_binary_view().value(row)),
            });
            rows.push(values.collect::<Vec<_>>().join("|"));
        }
    }
    rows.sort();
    rows
}

fn scan(store: &Store, request: ScanRequest) -> Vec<RecordBatch> {
    scan_units(store, request, 1 << 14).0
}

/// The rows and the counters of a scan with morsels of `morsel_rows` rows.
fn scan_units(store: &Store, request: ScanRequest, morsel_rows: usize) -> (Vec<RecordBatch>, ScanTotals) {
    let table = store.snapshot().unwrap().table("t").unwrap().clone();
    let metrics = Arc::new(ScanMetrics::default());
    let morsels = surviving_morsels(&table, &request, morsel_rows, &metrics).unwrap();
    let mut cursor = Cursor::new(table, Arc::new(request), metrics.clone());
    let mut batches = vec![];
    for (at, morsel) in morsels.iter().enumerate() {
        cursor.scan(morsel, morsels.get(at + 1)).unwrap();
        batches.extend(std::iter::from_fn(|| cursor.next_ready()));
    }
    batches.extend(cursor.finish().unwrap());
    (batches, metrics.totals())
}

fn all() -> ScanRequest {
    ScanRequest::columns((0..schema().fields().len()).collect())
}

fn store_with(batches: &[RecordBatch], options: &[(&str, &str)]) -> Store {
    store_in(Store::in_memory(StoreOptions::default()).unwrap(), batches, options)
}

fn store_in(store: Store, batches: &[RecordBatch], options: &[(&str, &str)]) -> Store {
    let mut transaction = store.write().unwrap();
    transaction.create_table("t", TableSchema::from_arrow(&schema()).unwrap(), design(options)).unwrap();
    let mut appender = transaction.appender("t").unwrap();
    batches.iter().for_each(|b| appender.push(b).unwrap());
    transaction.append(appender.finish().unwrap()).unwrap();
    transaction.commit().unwrap();
    store
}

fn predicates() -> Vec<(usize, Predicate)> {
    let bytes = |v: &str| v.as_bytes().to_vec();
    let bound = |v: &str, inclusive| Some(BytesBound { value: bytes(v), inclusive });
    vec![
        (0, Predicate::Int(IntPredicate::Range { low: 1, high: 2 })),
        (1, Predicate::Int(IntPredicate::In(vec![-3, 5, 17, 99]))),
        (1, Predicate::Int(IntPredicate::NotIn(vec![-3, 5, 17]))),
        (2, Predicate::Int(IntPredicate::Range { low: 0, high: 1 << 39 })),
        (3, Predicate::Int(IntPredicate::Range { low: i128::from(i64::MIN), high: i128::from(i64::MIN) + 5000 })),
        (4, Predicate::Int(IntPredicate::Range { low: 8100, high: 8200 })),
        (5, Predicate::Int(IntPredicate::Range { low: 10i128.pow(30), high: i128::MAX })),
        (5, Predicate::Int(IntPredicate::NotEqual(4))),
        (6, Predicate::Int(IntPredicate::NotEqual(4))),
        (
            7,
            Predicate::Int(IntPredicate::Range {
                low: freestone_codec::f64_key(10.0).into(),
                high: freestone_codec::f64_key(50.0).into(),
            }),
        ),
        (8, Predicate::Int(IntPredicate::Range { low: freestone_codec::f32_key(0.25).into(), high: i128::MAX })),
        (9, Predicate::Int(IntPredicate::Range { low: 1, high: 1 })),
        (10, Predicate::Bytes(BytesPredicate::In(vec![bytes("AIR"), bytes("ship")]))),
        (10, Predicate::Bytes(BytesPredicate::NotEqual(bytes("")))),
        (11, Predicate::Bytes(BytesPredicate::Prefix(bytes("quick b")))),
        (11, Predicate::Bytes(BytesPredicate::NotPrefix(bytes("quick")))),
        (11, Predicate::Bytes(BytesPredicate::Range { low: bound("brown", false), high: bound("sleep", true) })),
        (12, Predicate::Bytes(BytesPredicate::Range { low: bound("a", true), high: None })),
        (1, Predicate::IsNull),
        (10, Predicate::IsNotNull),
    ]
}

/// Whether a value satisfies the predicate, without any codec.
fn passes(batch: &RecordBatch, row: usize, column: usize, predicate: &Predicate) -> bool {
    let array = batch.column(column);
    let key: i128 = match (predicate, array.is_null(row), array.data_type()) {
        (Predicate::IsNull, null, _) => return null,
        (_, true, _) => return false,
        (Predicate::IsNotNull, ..) => return true,
        (Predicate::Bytes(p), _, DataType::Utf8View) => return p.test(array.as_string_view().value(row).as_bytes()),
        (Predicate::Bytes(p), ..) => return p.test(array.as_binary_view().value(row)),
        (_, _, DataType::Int32) => array.as_primitive::<Int32Type>().value(row).into(),
        (_, _, DataType::Int64) => array.as_primitive::<Int64Type>().value(row).into(),
        (_, _, DataType::UInt64) => i128::from(array.as_primitive::<UInt64Type>().value(row)) - (1 << 63),
        (_, _, DataType::Date32) => array.as_primitive::<Date32Type>().value(row).into(),
        (_, _, DataType::Decimal128(_, _)) => array.as_primitive::<Decimal128Type>().value(row),
        (_, _, DataType::Float64) => {
            freestone_codec::f64_key(array.as_primitive::<types::Float64Type>().value(row)).into()
        }
        (_, _, DataType::Float32) => {
            freestone_codec::f32_key(array.as_primitive::<types::Float32Type>().value(row)).into()
        }
        _ => array.as_boolean().value(row).into(),
    };
    matches!(predicate, Predicate::Int(p) if p.test(key))
}

/// Every predicate with the rows that satisfy it.
fn expectations(batches: &[RecordBatch]) -> Vec<(usize, Predicate, Vec<String>)> {
    let expected = |column: usize, predicate: &Predicate| {
        let mut passing = vec![];
        for batch in batches {
            let selected = (0..batch.num_rows()).filter(|row| passes(batch, *row, column, predicate));
            passing.extend(selected.map(|row| batch.slice(row, 1)));
        }
        rows(&passing)
    };
    predicates()
        .into_iter()
        .map(|(column, predicate)| (column, predicate.clone(), expected(column, &predicate)))
        .collect()
}

#[test]
fn every_design_gives_the_same_rows() {
    for seed in [1, 3] {
        // More rows than stay in the log, whatever the design.
        let batches = [batch(9_000, seed), batch(7_500, seed + 10)];
        let (expected, by_predicate) = (rows(&batches), expectations(&batches));
        for options in DESIGNS {
            let store = store_with(&batches, options);
            assert!(rows(&scan(&store, all())) == expected, "{options:?}");
            for (column, predicate, expected) in &by_predicate {
                let mut request = all();
                request.predicates = vec![ColumnPredicate { column: *column, predicate: predicate.clone() }];
                assert!(rows(&scan(&store, request)) == *expected, "{options:?}: column {column} {predicate:?}");
            }
            let report = store.check(None).unwrap();
            assert_eq!((report.problems, report.rows), (vec![], 16_500), "{options:?}");
        }
    }
}

#[test]
fn units_of_a_segment_are_of_one_length() {
    for (rows, count, longest) in [(20_000, 1, 24_576), (90_000, 2, 49_152), (140_000, 3, 49_152)] {
        let store = store_with(&[batch(rows, 1)], &[]);
        let found = morsels(store.snapshot().unwrap().table("t").unwrap(), 1 << 16);
        let lengths: Vec<usize> = found.iter().map(|morsel| morsel.rows.len()).collect();
        assert_eq!((lengths.len(), lengths.iter().sum::<usize>()), (count, rows));
        assert!(lengths.iter().all(|length| *length <= longest), "{rows}: {lengths:?}");
    }
}

#[test]
fn counters_count_each_page_and_zone_once() {
    for options in DESIGNS {
        let store = store_with(&[batch(30_000, 7)], options);
        let table = store.snapshot().unwrap().table("t").unwrap().clone();
        let metrics = Arc::new(ScanMetrics::default());
        let mut request = ScanRequest::columns(vec![0, 4, 10]);
        let ones = Predicate::Int(IntPredicate::In(vec![1, 2]));
        request.predicates = vec![ColumnPredicate { column: 0, predicate: ones }];
        let morsels = surviving_morsels(&table, &request, 8192, &metrics).unwrap();
        // Two threads that alternate, so that both read pages that extend over morsels.
        let request = Arc::new(request);
        let mut cursors = [0, 1].map(|_| Cursor::new(table.clone(), request.clone(), metrics.clone()));
        for (at, morsel) in morsels.iter().enumerate() {
            cursors[at % 2].scan(morsel, None).unwrap();
        }
        let totals = metrics.totals();
        assert!(totals.pages_used <= totals.pages_total, "{options:?}: {totals:?}");
        assert!(totals.bytes_used <= totals.bytes_total, "{options:?}: {totals:?}");
        assert!(totals.zones_pruned + totals.zones_whole <= totals.zones, "{options:?}: {totals:?}");
        assert_eq!(totals.zones, 30_000u64.div_ceil(2048), "{options:?}: {totals:?}");
        if options == DESIGNS[1] {
            assert_eq!((totals.pages_used, totals.bytes_used), (totals.pages_total, totals.bytes_total), "{totals:?}");
        }
    }
}

#[test]
fn cold_scans_read_each_page_once_and_keep_the_order() {
    let batch = batch(100_000, 7);
    for options in DESIGNS {
        let folder = tempfile::tempdir().unwrap();
        let store = store_in(
            Store::open(folder.path(), StoreOptions::default()).unwrap(),
            std::slice::from_ref(&batch),
            options,
        );
        for predicates in [
            vec![],
            vec![(1, IntPredicate::In(vec![3, 4]))],
            vec![(0, IntPredicate::In(vec![1])), (1, IntPredicate::In(vec![3]))],
        ] {
            let request = || {
                let predicate = |(column, p): &(usize, IntPredicate)| ColumnPredicate {
                    column: *column,
                    predicate: Predicate::Int(p.clone()),
                };
                ScanRequest {
                    predicates: predicates.iter().map(predicate).collect(),
                    ..ScanRequest::columns(vec![4, 0, 10, 6])
                }
            };
            let opened = Store::open(folder.path(), StoreOptions::default()).unwrap();
            let (cold, totals) = scan_units(&opened, request(), 1 << 16);
            // Adjacent morsels share some pages. A predicate's pages may be read that another's rows do not need.
            assert!(totals.pages_read <= totals.pages_total, "{options:?} {predicates:?}: {totals:?}");
            assert_eq!(cold, scan_units(&store, request(), 1 << 16).0, "{options:?} {predicates:?}");
        }
    }
}

#[test]
fn units_may_be_others_than_those_that_were_named() {
    let store = store_with(&[batch(150_000, 7)], &[("design", "column"), ("sort", "b")]);
    let table = store.snapshot().unwrap().table("t").unwrap().clone();
    let half = Predicate::Int(IntPredicate::Range { low: 1 << 38, high: 3 << 38 });
    let request = || {
        let predicates = vec![ColumnPredicate { column: 2, predicate: half.clone() }];
        ScanRequest { predicates, ..ScanRequest::columns(vec![2, 6]) }
    };
    let metrics = Arc::new(ScanMetrics::default());
    let morsels = surviving_morsels(&table, &request(), 1 << 14, &metrics).unwrap();
    assert!(morsels.len() > 2);
    let mut cursor = Cursor::new(table, Arc::new(request()), metrics);
    let mut batches = vec![];
    for morsel in &morsels {
        cursor.scan(morsel, morsels.first()).unwrap();
        batches.extend(std::iter::from_fn(|| cursor.next_ready()));
    }
    batches.extend(cursor.finish().unwrap());
    assert_eq!(batches, scan(&store, request()));
}

#[test]
fn stored_scans_mix_what_ships_and_what_does_not() {
    let store = store_with(&[batch(40_000, 1)], &[("design", "column")]);
    for rows in [10_000, 70_000] {
        let mut transaction = store.write().unwrap();
        let mut appender = transaction.appender("t").unwrap();
        appender.push(&batch(rows, 2)).unwrap();
        transaction.append(appender.finish().unwrap()).unwrap();
        transaction.commit().unwrap();
    }
    // Segments that lost a row are decoded. The one between them is returned in stored form.
    let mut transaction = store.write().unwrap();
    assert_eq!(transaction.delete("t", vec![row_id(0, 5), row_id(2, 7)]).unwrap(), 2);
    transaction.commit().unwrap();
    let mut stored = StoredScan::new(store.snapshot().unwrap().table("t").unwrap().clone(), vec![0, 4]);
    let (mut shipped, mut decoded) = (0, 0);
    while let Some(rows) = stored.next_rows().unwrap() {
        match rows {
            StoredRows::Stored { rows, .. } => shipped += rows,
            StoredRows::Decoded(batch) => decoded += batch.num_rows(),
        }
    }
    assert_eq!((shipped, decoded), (10_000, 110_000 - 2));
}

/// Takes every zone that it is offered.
struct Zones(usize);

impl Sink for Zones {
    fn take_zone(&mut self, _: &Segment, _: usize, rows: usize) -> bool {
        self.0 += rows;
        true
    }

    fn would_take(&self, _: &Segment, _: usize, _: usize) -> bool {
        true
    }

    fn take_rows(
        &mut self,
        _: usize,
        _: &mut [ColumnBuffer],
        rows: usize,
        _: Option<&[u64]>,
    ) -> Result<(), StoreError> {
        self.0 += rows;
        Ok(())
    }
}

#[test]
fn zones_that_a_sink_takes_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    store_in(Store::open(folder.path(), StoreOptions::default()).unwrap(), &[batch(100_000, 7)], &[]);
    let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
    let table = store.snapshot().unwrap().table("t").unwrap().clone();
    let (metrics, request) = (Arc::new(ScanMetrics::default()), Arc::new(ScanRequest::columns(vec![2, 6])));
    let found = morsels(&table, 1 << 16);
    let mut cursor = Cursor::new(table, request, metrics.clone());
    let mut zones = Zones(0);
    for (at, morsel) in found.iter().enumerate() {
        cursor.scan_into(morsel, found.get(at + 1), &mut zones).unwrap();
    }
    assert_eq!((zones.0, metrics.totals().pages_read), (100_000, 0));
}

#[test]
fn predicates_that_zones_answer_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
    store_in(store, &[batch(200_000, 7)], &[("design", "column"), ("sort", "b"), ("page_size", "4KiB")]);
    let half = Predicate::Int(IntPredicate::Range { low: 1 << 38, high: 3 << 38 });
    let predicates = vec![ColumnPredicate { column: 2, predicate: half }];
    let opened = Store::open(folder.path(), StoreOptions::default()).unwrap();
    let request = ScanRequest { predicates, ..ScanRequest::columns(vec![6]) };
    let (batches, totals) = scan_units(&opened, request, 1 << 16);
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    assert!((80_000..100_000).contains(&rows), "{rows}");
    // The zones at both ends: one granule each, of pages with some hundred rows.
    assert!(totals.pages_read < totals.pages_total / 2, "{totals:?}");
    assert_eq!(totals.pages_read, totals.pages_used, "{totals:?}");
}

#[test]
fn indexes_name_the_rows_of_narrow_predicates() {
    let batch = batch(60_000, 3);
    let store = store_with(std::slice::from_ref(&batch), DESIGNS[14]);
    let table = store.snapshot().unwrap().table("t").unwrap().clone();
    let bytes = |v: &str| v.as_bytes().to_vec();
    let range = |low, high| Predicate::Int(IntPredicate::Range { low, high });
    let odd = i128::from(freestone_codec::f64_key(f64::NAN));
    let narrow = [
        (1, range(17, 17)),
        (2, range(i64::MAX.into(), i64::MAX.into())),
        (3, range(i128::from(i64::MIN) + 70, i128::from(i64::MIN) + 90)),
        (5, range(10i128.pow(37), i128::MAX)),
        (7, range(odd, odd)),
        (11, Predicate::Bytes(BytesPredicate::Prefix(bytes("quick brown foxes sleep")))),
        (12, Predicate::Bytes(BytesPredicate::In(vec![bytes("\u{1}"), vec![7, 7]]))),
    ];
    for (column, predicate) in narrow {
        // A second test, which the index of (y, d) answers and the others do not.
        for second in [None, Some((4, range(8100, 9000)))] {
            let tests: Vec<_> = [(column, predicate.clone())].into_iter().chain(second).collect();
            let qualifies = |row: &usize| tests.iter().all(|(column, p)| passes(&batch, *row, *column, p));
            let expected: Vec<_> = (0..batch.num_rows()).filter(qualifies).map(|row| batch.slice(row, 1)).collect();
            let mut request = all();
            request.predicates =
                tests.iter().map(|(column, p)| ColumnPredicate { column: *column, predicate: p.clone() }).collect();
            assert!(rows(&scan(&store, request.clone())) == rows(&expected), "{tests:?}");
            let metrics = ScanMetrics::default();
            surviving_morsels(&table, &request, 1 << 14, &metrics).unwrap();
            let named = metrics.totals();
            assert_eq!(named.index_segments, 1, "{tests:?}: {named:?}");
            let most = (0..batch.num_rows()).filter(|row| passes(&batch, *row, column, &predicate)).count();
            assert!((expected.len()..=most).contains(&(named.index_rows as usize)), "{tests:?}: {named:?}");
        }
    }
    let mut wide = all();
    wide.predicates = vec![ColumnPredicate { column: 1, predicate: range(-20, 20) }];
    let metrics = ScanMetrics::default();
    surviving_morsels(&table, &wide, 1 << 14, &metrics).unwrap();
    assert_eq!(metrics.totals().index_segments, 0, "a scan is cheaper");
}

#[test]
fn sorted_designs_give_sorted_rows() {
    let store = store_with(&[batch(20_000, 5)], &[("design", "row"), ("sort", "k, d, a"), ("levels", "1")]);
    let batches = scan(&store, ScanRequest::columns(vec![0, 4]));
    let keys: Vec<(i32, i32)> = batches
        .iter()
        .flat_map(|b| {
            let (k, d) = (b.column(0).as_primitive::<Int32Type>(), b.column(1).as_primitive::<Date32Type>());
            (0..b.num_rows()).map(|r| (k.value(r), d.value(r))).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(keys.len(), 20_000);
    assert!(keys.is_sorted());
}

#[test]
fn conversions_deletions_and_small_inserts_keep_the_rows() {
    let mut rng = StdRng::seed_from_u64(9);
    let mut expected = vec![batch(12_000, 4)];
    let store = store_with(&expected, DESIGNS[0]);
    for step in 0..20 {
        let options = DESIGNS[rng.random_range(0..DESIGNS.len())];
        let mut transaction = store.write().unwrap();
        match step % 4 {
            0 => transaction.convert("t", design(options)).unwrap(),
            1 => {
                let more = batch(rng.random_range(1..300), 100 + step);
                let mut appender = transaction.appender("t").unwrap();
                appender.push(&more).unwrap();
                transaction.append(appender.finish().unwrap()).unwrap();
                expected.push(more);
            }
            2 => {
                let predicate = Predicate::Int(IntPredicate::In(vec![i128::from(step) - 10]));
                let mut request = ScanRequest::columns(vec![]);
                request.row_ids = true;
                request.predicates = vec![ColumnPredicate { column: 1, predicate: predicate.clone() }];
                let ids: Vec<u64> = scan(&store, request)
                    .iter()
                    .flat_map(|b| b.column(0).as_primitive::<UInt64Type>().values().to_vec())
                    .collect();
                let mut kept = vec![];
                for batch in &expected {
                    let left = (0..batch.num_rows()).filter(|row| !passes(batch, *row, 1, &predicate));
                    kept.extend(left.map(|row| batch.slice(row, 1)));
                }
                let before: usize = expected.iter().map(RecordBatch::num_rows).sum();
                assert_eq!(transaction.delete("t", ids).unwrap() as usize, before - kept.len());
                expected = kept;
            }
            _ => {
                drop(transaction);
                store.vacuum(Some("t")).unwrap();
                transaction = store.write().unwrap();
            }
        }
        transaction.commit().unwrap();
        assert!(rows(&scan(&store, all())) == rows(&expected), "after step {step} with {options:?}");
    }
    assert_eq!(store.check(None).unwrap().problems, Vec::<String>::new());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn small_tables_of_any_size(count in 1usize..2500, seed in 0u64..50, which in 0..DESIGNS.len()) {
        let batches = [batch(count, seed)];
        let store = store_with(&batches, DESIGNS[which]);
        let mut transaction = store.write().unwrap();
        // From the log into the design.
        transaction.convert("t", design(DESIGNS[which])).unwrap();
        transaction.commit().unwrap();
        prop_assert!(rows(&scan(&store, all())) == rows(&batches));
    }
}

#[test]
fn a_transaction_without_commit_leaves_nothing() {
    let store = store_with(&[batch(5, 1)], DESIGNS[1]);
    let mut transaction = store.write().unwrap();
    let mut appender = transaction.appender("t").unwrap();
    appender.push(&batch(30_000, 2)).unwrap();
    transaction.append(appender.finish().unwrap()).unwrap();
    drop(transaction);
    assert_eq!(store.snapshot().unwrap().table("t").unwrap().rows(), 5);
    assert_eq!(store.vacuum(None).unwrap().files_removed, 0);
}

#[test]
fn a_column_of_nulls_has_an_empty_dictionary() {
    let mut columns = batch(20_000, 2).columns().to_vec();
    for at in [1, 10] {
        columns[at] = new_null_array(columns[at].data_type(), 20_000);
    }
    let batches = [RecordBatch::try_new(schema(), columns).unwrap()];
    for options in DESIGNS {
        let store = store_with(&batches, options);
        assert!(rows(&scan(&store, all())) == rows(&batches), "{options:?}");
    }
}
