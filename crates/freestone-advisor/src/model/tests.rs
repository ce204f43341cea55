use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use freestone_store::schema::TableSchema;

use super::*;
use crate::workload::{PathTest, PredicateForm, QueryPredicate};

/// Sixteen columns of 24 bits, of which the first two ascend. A tenth of the rows are the sample.
fn statistics() -> Arc<TableStatistics> {
    let rows = 40_960;
    let value = |column: u64, row: u64| match column {
        0 => row as i64,
        1 => (row / 1000) as i64,
        // Mixed, so that an order by one column says nothing about another.
        _ => {
            let mixed = (row * 16 + column + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            ((mixed ^ mixed >> 31).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 40) as i64
        }
    };
    let columns = (0..16).map(|c| -> (String, ArrayRef) {
        (format!("c{c}"), Arc::new(Int64Array::from_iter_values((0..rows).map(|r| value(c, r)))))
    });
    let batch = RecordBatch::try_from_iter(columns).expect("columns of the same length");
    let schema = TableSchema::from_arrow(&batch.schema()).expect("types");
    let batches: Vec<RecordBatch> = (0..5).map(|b| batch.slice(b * 8192, 8192)).collect();
    Arc::new(TableStatistics::new(schema, rows * 10, Design::default(), &batches).expect("statistics"))
}

fn model(setting: Setting) -> ScanModel {
    ScanModel::new(statistics(), Arc::new(Profile::assumed()), setting)
}

fn design(options: &[(&str, &str)], model: &ScanModel) -> Design {
    Design::default().with_options(options.iter().copied(), &model.statistics.schema).expect("a design")
}

fn query(columns: usize, predicates: &[(usize, f64)]) -> Query {
    let form = PredicateForm::Range;
    let predicates = predicates.iter().map(|(column, selectivity)| QueryPredicate {
        column: *column,
        selectivity: *selectivity,
        form,
    });
    Query {
        name: "q".into(),
        weight: 1.0,
        columns: (0..columns).collect(),
        predicates: predicates.collect(),
        output: Output::Columns,
        order: vec![],
        paths: vec![],
        statement_ms: None,
    }
}

#[test]
fn more_columns_cost_more_and_rows_care_less() {
    for setting in [Setting::hot(1), Setting::cold(1)] {
        let model = model(setting);
        for preset in ["column", "row", "pax", "slotted"] {
            let design = design(&[("design", preset)], &model);
            let costs: Vec<f64> = [1, 2, 4, 8, 16].map(|n| model.query(&design, &query(n, &[])).ms).to_vec();
            assert!(costs.is_sorted(), "{preset}: {costs:?}");
        }
        let growth = |preset: &str| {
            let design = design(&[("design", preset)], &model);
            model.query(&design, &query(16, &[(5, 0.001)])).ms / model.query(&design, &query(1, &[(5, 0.001)])).ms
        };
        assert!(growth("row") < growth("column"), "{} {}", growth("row"), growth("column"));
    }
    let cold = model(Setting::cold(1));
    let bytes = |n| cold.query(&design(&[("design", "row")], &cold), &query(n, &[])).bytes;
    assert_eq!(bytes(1), bytes(16), "a row store reads everything, whatever is asked for");
}

#[test]
fn what_is_pruned_costs_less() {
    let model = model(Setting::cold(1));
    let arrival = design(&[("design", "column")], &model);
    let sorted = design(&[("design", "column"), ("sort", "c7")], &model);
    let narrow = query(4, &[(7, 0.01)]);
    assert!(model.query(&sorted, &narrow).ms < 0.5 * model.query(&arrival, &narrow).ms);
    // The first column ascends in the current order: zones prune by it without a sort.
    let rising = query(4, &[(0, 0.01)]);
    assert!(model.query(&arrival, &rising).ms < 0.5 * model.query(&arrival, &narrow).ms);
    let other = QueryPredicate { column: 7, selectivity: 0.01, form: PredicateForm::Other };
    let unprunable = Query { predicates: vec![other], ..narrow };
    assert!(model.query(&sorted, &unprunable).ms > 0.5 * model.query(&arrival, &unprunable).ms);
}

/// The zones of a column with one value span nothing, and a test that zones cannot answer is evaluated in all of them.
#[test]
fn tests_that_zones_cannot_answer_leave_all_of_a_constant() {
    let constant: ArrayRef = Arc::new(Int64Array::from_iter_values((0..8192).map(|_| 7)));
    let batch = RecordBatch::try_from_iter([("c", constant)]).expect("one column");
    let schema = TableSchema::from_arrow(&batch.schema()).expect("types");
    let statistics = TableStatistics::new(schema, 8192, Design::default(), &[batch]).expect("statistics");
    let model = ScanModel::new(Arc::new(statistics), Arc::new(Profile::assumed()), Setting::hot(1));
    let other = QueryPredicate { column: 0, selectivity: 0.5, form: PredicateForm::Other };
    let asked = Query { predicates: vec![other], ..query(1, &[]) };
    let cost = |query: &Query| model.query(&design(&[("design", "column")], &model), query).ms;
    assert!(cost(&asked) > cost(&query(1, &[])), "{} {}", cost(&asked), cost(&query(1, &[])));
}

#[test]
fn fewer_rows_never_cost_more() {
    let model = model(Setting::hot(1));
    for preset in ["column", "row", "pax", "slotted"] {
        let design = design(&[("design", preset)], &model);
        let costs: Vec<f64> =
            [1e-4, 1e-3, 1e-2, 0.1, 0.5].map(|s| model.query(&design, &query(8, &[(9, s)])).ms).to_vec();
        assert!(costs.windows(2).all(|w| w[0] <= w[1] * 1.05), "{preset}: {costs:?}");
    }
}

#[test]
fn cold_costs_more_than_hot_and_threads_help() {
    let (hot, cold, two) = (model(Setting::hot(1)), model(Setting::cold(1)), model(Setting::hot(2)));
    let all = query(16, &[]);
    let design = design(&[("design", "column")], &hot);
    assert!(cold.query(&design, &all).ms > 2.0 * hot.query(&design, &all).ms);
    assert!(two.query(&design, &all).ms <= hot.query(&design, &all).ms * 1.05);
    let cost = hot.query(&design, &all);
    assert!(cost.low_ms < cost.ms && cost.ms < cost.high_ms);
}

#[test]
fn a_slower_pace_takes_the_processor_longer_and_not_the_disk() {
    let query = query(8, &[(3, 0.5)]);
    for setting in [Setting::hot(2), Setting::cold(2)] {
        let usual = model(setting);
        let (design, slow) =
            (design(&[("design", "row")], &usual), usual.clone().with_slowdown(Slowdown::of(150.0, 100.0)));
        let (before, after) = (usual.query(&design, &query), slow.query(&design, &query));
        let longer = after.cpu_ms / before.cpu_ms;
        assert!((1.1..1.5).contains(&longer) && after.ms > before.ms, "{longer}");
        assert_eq!(before.io_ms, after.io_ms);
    }
}

#[test]
fn columns_that_a_query_does_not_touch_do_not_matter() {
    let model = model(Setting::cold(2));
    let query = query(2, &[(3, 0.1)]);
    let apart = design(&[("groups", "(c0, c1), (c3)")], &model);
    let other = design(&[("groups", "(c0, c1), (c3), (c7, c9, c10), (c12, c15)")], &model);
    assert_eq!(model.query(&apart, &query), model.query(&other, &query));
}

#[test]
fn every_family_has_a_cost_in_every_form() {
    let model = model(Setting::hot(1));
    for encoding in ["plain", "bitpack", "dictionary", "page_dictionary", "delta", "rle"] {
        for preset in ["column", "pax", "row"] {
            let pinned = format!("c1: {encoding}");
            let design = design(&[("design", preset), ("encode", &pinned)], &model);
            let cost = model.query(&design, &query(2, &[(1, 0.1)]));
            assert!(cost.ms.is_finite() && cost.ms > 0.0, "{preset} {encoding}");
        }
    }
}

/// A table of 81,920 rows that references one of 1,000, whose attribute has 50 values.
fn star() -> ScanModel {
    let store = freestone_store::Store::in_memory(freestone_store::StoreOptions::default()).expect("a store");
    let numbers = |rows: i64, value: &dyn Fn(i64) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..rows).map(value)))
    };
    let mixed = |row: i64| (row as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    let shop = RecordBatch::try_from_iter([
        ("id", numbers(1000, &|row| row)),
        ("region", numbers(1000, &|row| mixed(row + 7) as i64 % 50)),
    ]);
    let sale = RecordBatch::try_from_iter([
        ("shop", numbers(327_680, &|row| mixed(row) as i64 % 1000)),
        ("amount", numbers(327_680, &|row| mixed(row + 99) as i64)),
    ]);
    let mut transaction = store.write().expect("a transaction");
    for (name, batch) in [("shop", shop.expect("columns")), ("sale", sale.expect("columns"))] {
        let mut schema = TableSchema::from_arrow(&batch.schema()).expect("types");
        match name {
            "shop" => schema.primary_key = vec!["id".into()],
            _ => schema.foreign_keys.push(freestone_store::schema::ForeignKey {
                name: String::new(),
                columns: vec!["shop".into()],
                table: "shop".into(),
                referenced: vec![],
                enforced: false,
            }),
        }
        transaction.create_table(name, schema, Design::default()).expect("a table");
        let mut appender = transaction.appender(name).expect("an appender");
        appender.push(&batch).expect("rows");
        let appended = appender.finish().expect("rows");
        transaction.append(appended).expect("rows");
    }
    transaction.commit().expect("a commit");
    let snapshot = store.snapshot().expect("a snapshot");
    let sale = snapshot.table("sale").expect("it was made").clone();
    let mut statistics = TableStatistics::of_table(&sale).expect("statistics");
    for path in ["shop.region", "shop.id"] {
        let path = freestone_store::cluster::DimensionPath::parse(path).expect("a path");
        statistics.add_path(&|name| snapshot.table(name).cloned(), &sale, &path).expect("it leads to shop");
    }
    let nowhere = freestone_store::cluster::DimensionPath::parse("amount.region").expect("a path");
    assert!(statistics.add_path(&|name| snapshot.table(name).cloned(), &sale, &nowhere).is_err());
    ScanModel::new(Arc::new(statistics), Arc::new(Profile::assumed()), Setting::hot(1))
}

#[test]
fn clustering_over_a_foreign_key_prunes_what_joins_ask_for() {
    let model = star();
    let asks = |attribute: &str| {
        let path = vec!["shop".into(), attribute.into()];
        let test = PathTest { path, selectivity: 0.02, form: PredicateForm::Equal };
        Query { paths: vec![test], ..query(2, &[]) }
    };
    let (as_it_is, clustered) = (design(&[], &model), design(&[("cluster", "shop.region")], &model));
    let by_amount = design(&[("cluster", "amount")], &model);
    let ms = |design: &Design, query: &Query| model.query(design, query).ms;
    let all = ms(&as_it_is, &query(2, &[]));
    assert_eq!(ms(&as_it_is, &asks("region")), all, "nothing is pruned by what no order knows");
    assert!(ms(&clustered, &asks("region")) < all / 3.0, "{} of {all}", ms(&clustered, &asks("region")));
    assert!(ms(&by_amount, &asks("region")) > all / 2.0);
    // Joins process the remaining rows.
    assert_eq!(model.joined(&as_it_is, &asks("region")), 1.0);
    assert!(model.joined(&clustered, &asks("region")) < 0.3, "{}", model.joined(&clustered, &asks("region")));
    assert_eq!(model.joined(&clustered, &query(2, &[(0, 0.01)])), 1.0, "nothing is joined");
    // The number of a shop says nothing about its region.
    assert!(ms(&clustered, &asks("id")) > all / 2.0);
}

#[test]
fn indexes_serve_narrow_tests_and_no_others() {
    for setting in [Setting::hot(1), Setting::cold(1)] {
        let model = model(setting);
        let plain = design(&[("design", "column")], &model);
        let indexed = design(&[("design", "column"), ("index", "(c7), (c9, c8)")], &model);
        let gain = |query: &Query| model.query(&plain, query).ms / model.query(&indexed, query).ms;
        assert!(gain(&query(4, &[(7, 1e-5)])) > 1.3, "{}", gain(&query(4, &[(7, 1e-5)])));
        assert!(gain(&query(4, &[(9, 1e-5), (8, 0.5)])) > 1.3);
        for other in [query(4, &[(7, 0.2)]), query(4, &[(8, 1e-5)]), query(4, &[])] {
            // The offset of an index is on a page at its end, which a cold scan reads in vain.
            assert!((0.97..1.02).contains(&gain(&other)), "{}: {other:?}", gain(&other));
        }
        let unordered = QueryPredicate { column: 7, selectivity: 1e-5, form: PredicateForm::Other };
        assert!(gain(&Query { predicates: vec![unordered], ..query(4, &[]) }) < 1.02);
        // Keys of 24 bits, and row numbers of at most 20.
        let bytes = (model.bytes(&indexed) - model.bytes(&plain)) / model.statistics.rows as f64;
        assert!((6.0..16.0).contains(&bytes), "{bytes} bytes a row");
    }
}

#[test]
fn lookups_by_many_columns_are_advised_indexes() {
    use crate::search::{Evaluator, Names, SearchOptions, search};
    let model = model(Setting::hot(1));
    let scan = Query { weight: 5.0, ..query(3, &[(2, 0.2)]) };
    let lookups = [5, 7, 9].map(|column| Query { weight: 20.0, ..query(12, &[(column, 1e-5)]) });
    let workload = crate::Workload { queries: lookups.into_iter().chain([scan]).collect() };
    let mut evaluator = Evaluator::new(&model, &workload, Names::new(&model, Default::default()), None);
    let found = search(&mut evaluator, &Design::default(), &SearchOptions::default());
    let best = evaluator.names.design(&found[0].layout);
    let serves = |name: &str| best.sort.first().is_some_and(|c| c == name) || best.index.iter().any(|k| k[0] == name);
    assert!(["c5", "c7", "c9"].into_iter().all(serves) && !best.index.is_empty(), "{best}");
    // Reports need no index.
    let reports = crate::Workload { queries: vec![query(3, &[(2, 0.2)]), query(6, &[])] };
    let mut evaluator = Evaluator::new(&model, &reports, Names::new(&model, Default::default()), None);
    let found = search(&mut evaluator, &Design::default(), &SearchOptions::default());
    assert!(found[0].layout.base.index.is_empty(), "{}", evaluator.names.design(&found[0].layout));
}

#[test]
fn zones_answer_aggregates_of_rows_that_all_qualify() {
    let model = model(Setting::hot(1));
    let design = design(&[("design", "column")], &model);
    let of = |predicates: &[(usize, f64)], output| model.query(&design, &Query { output, ..query(4, predicates) }).ms;
    let (scanned, by_zones) = (Output::Aggregate, Output::ZoneAggregate);
    let times = |predicates: &[(usize, f64)]| of(predicates, by_zones) / of(predicates, scanned);
    // All rows; the first half in order; half of them at random; both.
    assert!(times(&[]) < 0.1, "{}", times(&[]));
    assert!(times(&[(0, 0.5)]) < 0.4, "{}", times(&[(0, 0.5)]));
    assert_eq!(times(&[(5, 0.5)]), 1.0);
    assert!((0.9..=1.0).contains(&times(&[(0, 0.5), (5, 0.5)])), "{}", times(&[(0, 0.5), (5, 0.5)]));
}
