use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int32Array, Int64Array, StringViewArray};
use freestone_store::{Store, StoreOptions};

use super::*;
use crate::model::{ScanModel, Setting};
use crate::{CostModel, Profile};

const ROWS: usize = 300_000;

/// Numbers, runs, floats, words, strings.
fn batch() -> RecordBatch {
    let mixed = |row: usize| (row as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let columns: [(&str, ArrayRef); 6] = [
        ("id", Arc::new(Int64Array::from_iter_values((0..ROWS).map(|r| r as i64)))),
        ("few", Arc::new(Int32Array::from_iter_values((0..ROWS).map(|r| (mixed(r) % 50) as i32)))),
        ("runs", Arc::new(Int64Array::from_iter_values((0..ROWS).map(|r| (mixed(r / 100) % 1000) as i64)))),
        ("price", Arc::new(Float64Array::from_iter_values((0..ROWS).map(|r| (mixed(r) % 100_000) as f64 / 100.0)))),
        ("word", Arc::new(StringViewArray::from_iter_values((0..ROWS).map(|r| format!("word {}", mixed(r) % 200))))),
        (
            "text",
            Arc::new(StringViewArray::from_iter_values((0..ROWS).map(|r| format!("a text of its own, {}", mixed(r))))),
        ),
    ];
    RecordBatch::try_from_iter(columns).expect("columns of the same length")
}

fn stored(options: &[(&str, &str)]) -> (Store, Arc<Table>) {
    let batch = batch();
    let schema = TableSchema::from_arrow(&batch.schema()).expect("types that can be stored");
    let design = Design::default().with_options(options.iter().copied(), &schema).expect("a design");
    let store = Store::in_memory(StoreOptions::default()).expect("a store");
    let mut write = store.write().expect("a writer");
    write.create_table("t", schema, design).expect("a table");
    let mut appender = write.appender("t").expect("an appender");
    appender.push(&batch).expect("rows");
    write.append(appender.finish().expect("segments")).expect("appended");
    write.commit().expect("a commit");
    let table = store.snapshot().expect("a snapshot").table("t").expect("the table").clone();
    (store, table)
}

fn statistics() -> Arc<TableStatistics> {
    let (_store, table) = stored(&[("design", "column")]);
    Arc::new(TableStatistics::of_table(&table).expect("statistics"))
}

#[test]
fn columns_are_what_they_are() {
    let statistics = statistics();
    assert_eq!(statistics.rows, ROWS as u64);
    let check = |at: usize, distinct: (f64, f64), run: (f64, f64)| {
        let column = &statistics.columns[at];
        assert!((distinct.0..=distinct.1).contains(&column.distinct), "{column:?}");
        assert!((run.0..=run.1).contains(&column.run_rows), "{column:?}");
    };
    check(0, (280_000.0, 300_000.0), (1.0, 1.0));
    check(1, (50.0, 50.0), (1.0, 1.1));
    check(2, (450.0, 1100.0), (90.0, 110.0));
    check(4, (200.0, 200.0), (1.0, 1.1));
    assert!((statistics.columns[4].width - 7.4).abs() < 0.2, "{}", statistics.columns[4].width);
    let below = |high| Predicate::Int(IntPredicate::Range { low: 0, high });
    assert!((statistics.selectivity(1, &below(4)) - 0.1).abs() < 0.01);
    // In an ascending column, blocks of the sample qualify as a whole or not at all. Zones are more exact.
    assert!((statistics.selectivity(0, &below(29_999)) - 0.1).abs() < 0.002);
    let between = Predicate::Int(IntPredicate::Range { low: 100_000, high: 102_999 });
    assert!((statistics.selectivity(0, &between) - 0.01).abs() < 0.002);
    let (low, high) = statistics.range(1, 0.2, 0.4).expect("numbers");
    assert!((9..=11).contains(&low) && (29..=31).contains(&high), "{low} {high}");
}

#[test]
fn zones_of_sorted_columns_are_narrow() {
    let statistics = statistics();
    let arrival = Order::default();
    assert!(statistics.zone_span(0, &arrival) < 0.008);
    assert!(statistics.zone_span(1, &arrival) > 0.9);
    let by_few = Order { sort: vec![1], cluster: vec![] };
    assert!(statistics.zone_span(1, &by_few) < 0.02);
    assert!(statistics.zone_span(0, &by_few) > 0.5);
    let runs = statistics.run_rows(1, &by_few);
    assert!((runs / (ROWS as f64 / 50.0) - 1.0).abs() < 0.15, "{runs}");
}

/// The statistics of columns of numbers, made from the number of a row.
fn of_numbers(options: &[(&str, &str)], columns: &[(&str, &dyn Fn(i64) -> i64)]) -> TableStatistics {
    let rows = 0..200_000;
    let values = columns.iter().map(|(name, of)| {
        let column = Arc::new(Int64Array::from_iter_values(rows.clone().map(of))) as ArrayRef;
        (*name, column)
    });
    let batch = RecordBatch::try_from_iter(values).expect("columns of the same length");
    let schema = TableSchema::from_arrow(&batch.schema()).expect("types that can be stored");
    let design = Design::default().with_options(options.iter().copied(), &schema).expect("a design");
    TableStatistics::new(schema, 200_000, design, &[batch]).expect("statistics")
}

#[test]
fn columns_tell_the_order_in_which_rows_arrived() {
    let mixed = |row: i64| (row as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) as i64 >> 40;
    let check = |options: &[(&str, &str)], columns: &[(&str, &dyn Fn(i64) -> i64)], expected: &[usize]| {
        assert_eq!(
            of_numbers(options, columns).arrival(),
            expected,
            "{:?}",
            columns.iter().map(|c| c.0).collect::<Vec<_>>()
        );
    };
    check(&[], &[("key", &mixed), ("id", &|row| row)], &[1]);
    check(&[], &[("falling", &|row| -row)], &[0]);
    // The day follows from the number of the row, which is finer.
    check(&[], &[("day", &|row| row / 1000), ("late", &|row| row / 1000 + row % 30), ("id", &|row| row)], &[2]);
    // Files of places, each in the order of its time.
    check(&[], &[("time", &|row| row % 20_000), ("key", &mixed), ("place", &|row| row / 20_000)], &[2, 0]);
    check(&[], &[("key", &mixed), ("same", &|_| 7), ("two", &|row| row % 2)], &[]);
    check(&[("sort", "key")], &[("key", &|row| row / 10), ("id", &|row| row)], &[]);
}

#[test]
fn neighbours_of_a_thinned_sample_are_far_apart() {
    const STEP: usize = 16;
    let rows = |from: usize| (from..from + 8192).step_by(STEP).map(|row| row as i64);
    let batch = |from| {
        let column = Arc::new(Int64Array::from_iter_values(rows(from))) as ArrayRef;
        RecordBatch::try_from_iter([("id", column)]).expect("a batch")
    };
    let batches: Vec<RecordBatch> = (0..40).map(|at| batch(at * 8192)).collect();
    let schema = TableSchema::from_arrow(&batches[0].schema()).expect("types that can be stored");
    let all = 40 * 8192;
    let thinned = TableStatistics::of_thinned(schema.clone(), all, Design::default(), &batches).expect("statistics");
    let (span, of_zone) = (thinned.zone_span(0, &Order::default()), 2048.0 / all as f64);
    assert!((of_zone * 0.8..of_zone * 1.3).contains(&span), "{span} for {of_zone}");
    let whole = TableStatistics::new(schema, all, Design::default(), &batches).expect("statistics");
    assert!(whole.zone_span(0, &Order::default()) > of_zone * 3.0, "512 rows a batch, taken for neighbours");
}

#[test]
fn sizes_are_what_the_store_writes() {
    let statistics = statistics();
    let model = ScanModel::new(statistics, Arc::new(Profile::assumed()), Setting::hot(1));
    let check = |options: &[(&str, &str)], tolerance: f64| {
        let (_store, table) = stored(options);
        let predicted = model.bytes(&table.design);
        let error = predicted / table.bytes() as f64 - 1.0;
        assert!(error.abs() < tolerance, "{options:?}: {predicted} bytes predicted, {} stored", table.bytes());
    };
    check(&[("design", "column")], 0.06);
    check(&[("design", "pax")], 0.06);
    check(&[("design", "row")], 0.06);
    check(&[("design", "slotted")], 0.04);
    check(&[("groups", "(id, few, runs), (price, word)"), ("page_size", "8KiB")], 0.08);
    check(&[("design", "column"), ("encode", "few: plain, runs: rle")], 0.06);
    check(&[("design", "column"), ("sort", "few, runs")], 0.15);
}

#[test]
fn a_sample_of_other_columns_is_refused() {
    let batch = batch();
    let schema = TableSchema::from_arrow(&batch.schema()).expect("types");
    let design = Design::default();
    let fewer = batch.project(&[0, 1]).expect("columns");
    let error = TableStatistics::new(schema.clone(), 10, design.clone(), &[fewer]).expect_err("other columns");
    assert!(error.to_string().contains("2 columns"));
    assert!(TableStatistics::new(schema.clone(), 10, design.clone(), &[]).is_err());
    assert!(TableStatistics::new(schema, 0, design, &[]).is_ok());
}
