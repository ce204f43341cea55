use fastrand::Rng;
use std::collections::BTreeMap;

use arrow_schema::DataType;
use freestone_codec::{BytesPredicate, IntPredicate, Kind, Predicate, f64_key};
use proptest::prelude::*;

use super::super::crashes::words_of;
use super::super::pool::PoolOptions;
use super::*;
use crate::column::{ColumnData, Physical};
use crate::media::region::MemoryRegion;
use crate::scan::ColumnPredicate;
use crate::schema::Column;

pub const CAPACITY: u64 = 16 << 20;

/// A row of the tests' table: key, number, string, float.
pub type Row = (i64, Option<i64>, Option<String>, Option<i64>);

pub fn schema() -> TableSchema {
    let column = |name: &str, data_type: DataType, nullable| Column { name: name.into(), data_type, nullable };
    TableSchema {
        columns: vec![
            column("k", DataType::Int64, false),
            column("n", DataType::Int32, true),
            column("s", DataType::Utf8View, true),
            column("f", DataType::Float64, true),
        ],
        ..TableSchema::default()
    }
}

/// The float of a row: extremes, zero of both signs, NaN, and others.
pub fn float(number: i64) -> f64 {
    match number {
        0 => 0.0,
        1 => -0.0,
        2 => f64::NAN,
        3 => f64::INFINITY,
        4 => f64::NEG_INFINITY,
        5 => f64::MIN,
        other => other as f64 / 4.0,
    }
}

pub fn columns(rows: &[Row]) -> Vec<ColumnData> {
    let mut columns = [Kind::Int, Kind::Int, Kind::Bytes, Kind::F64].map(ColumnData::new).to_vec();
    let valid = |test: &dyn Fn(&Row) -> bool| {
        let mut bits = vec![0; crate::bitmap::words(rows.len())];
        rows.iter().enumerate().filter(|(_, row)| test(row)).for_each(|(at, _)| crate::bitmap::set(&mut bits, at));
        Some(bits)
    };
    columns[0].values = Physical::Int(rows.iter().map(|row| row.0).collect());
    columns[1].values = Physical::Int(rows.iter().map(|row| row.1.unwrap_or(0)).collect());
    let (mut offsets, mut data) = (vec![0], vec![]);
    for row in rows {
        data.extend_from_slice(row.2.as_deref().unwrap_or("").as_bytes());
        offsets.push(data.len() as u32);
    }
    columns[2].values = Physical::Bytes { offsets, data };
    columns[3].values = Physical::F64(rows.iter().map(|row| float(row.3.unwrap_or(0))).collect());
    columns[1].validity = valid(&|row| row.1.is_some());
    columns[2].validity = valid(&|row| row.2.is_some());
    columns[3].validity = valid(&|row| row.3.is_some());
    columns
}

/// A row in a form that can be compared and sorted.
pub type Shown = (i64, Option<i64>, Option<Vec<u8>>, Option<u64>);

pub fn shown(columns: &[ColumnData]) -> Vec<Shown> {
    let show = |row: usize| {
        let int = |column: usize| match &columns[column].values {
            Physical::Int(values) => columns[column].is_valid(row).then_some(values[row]),
            _ => None,
        };
        let text = columns[2].is_valid(row).then(|| columns[2].bytes(row).to_vec());
        let Physical::F64(floats) = &columns[3].values else { panic!("floats") };
        let float = columns[3].is_valid(row).then(|| floats[row].to_bits());
        (int(0).expect("a key"), int(1), text, float)
    };
    let mut rows: Vec<Shown> = (0..columns[0].len()).map(show).collect();
    rows.sort();
    rows
}

pub fn shown_rows<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<Shown> {
    shown(&columns(&rows.into_iter().cloned().collect::<Vec<_>>()))
}

/// A table in units of `unit_bytes`, clustered by number and key, or not at all.
pub fn create(region: Arc<dyn Region>, unit_bytes: u64, bits: Option<u32>) -> PTable {
    let pool = Arc::new(Pool::create(region, PoolOptions { unit_bytes, database: 1 }).expect("a pool"));
    let sample = columns(&(0..64).map(|at| (at * 4, Some(at - 32), None, None)).collect::<Vec<Row>>());
    let dimension = |column: usize, bits| Dimension { column, bins: sampled_bins(&sample[column], bits) };
    let clusters = bits.map_or(vec![], |bits| vec![dimension(1, bits), dimension(0, bits)]);
    let options = PTableOptions {
        schema: schema(),
        key: vec!["k".into()],
        clusters,
        order: BitOrder::RoundRobin,
        node_bytes: 256,
    };
    PTable::create(pool, 9, &options).expect("a table")
}

pub fn memory(len: u64) -> Arc<dyn Region> {
    Arc::new(MemoryRegion::new(len, CAPACITY))
}

pub fn open(region: Arc<dyn Region>) -> Result<PTable> {
    PTable::open(Arc::new(Pool::open(region, None)?), 9)
}

fn reopened(table: &PTable) -> PTable {
    open(Arc::new(MemoryRegion::of_words(&words_of(table.region()), CAPACITY))).expect("sound")
}

fn check(table: &PTable, model: &BTreeMap<i64, Row>) {
    table.check().expect("sound");
    assert_eq!(shown(&table.rows().expect("sound").0), shown_rows(model.values()));
    assert_eq!(table.len(), model.len() as u64);
}

fn key(value: i64) -> Vec<ColumnData> {
    vec![ColumnData { values: Physical::Int(vec![value]), validity: None }]
}

pub fn place_of(table: &PTable, value: i64) -> Place {
    let places = table.places(&key(value), 0).expect("sound");
    assert_eq!(places.len(), 1, "the key {value}");
    places[0]
}

fn row() -> impl Strategy<Value = Row> {
    let text = prop::option::weighted(0.9, "[ab\u{e9}]{0,12}");
    (0i64..300, prop::option::weighted(0.9, -40i64..40), text, prop::option::weighted(0.9, -20i64..20))
}

/// Inserts the rows whose keys are new, and updates or deletes the others, in transactions of some rows.
fn apply(table: &PTable, model: &mut BTreeMap<i64, Row>, changes: &[(Row, u8)]) {
    let mut transaction = table.begin();
    for (row, kind) in changes {
        let columns = columns(std::slice::from_ref(row));
        let there = model.contains_key(&row.0);
        match (there, kind % 3) {
            (false, _) => {
                transaction.insert(&columns, 0).expect("room");
                model.insert(row.0, row.clone());
            }
            (true, 0) => {
                transaction.commit().expect("room");
                transaction = table.begin();
                transaction.delete(place_of(table, row.0)).expect("there");
                model.remove(&row.0);
            }
            (true, _) => {
                transaction.commit().expect("room");
                transaction = table.begin();
                transaction.update(place_of(table, row.0), &columns, 0).expect("there");
                model.insert(row.0, row.clone());
            }
        }
        if *kind > 40 {
            transaction.commit().expect("room");
            transaction = table.begin();
        }
    }
    transaction.commit().expect("room");
}

fn scanned(table: &PTable, request: &Request) -> (Vec<Shown>, ScanReport) {
    let mut rows = vec![];
    let report = table.scan(request, &Costs::default(), |columns, _| {
        rows.extend(shown(columns));
        Ok(())
    });
    rows.sort();
    (rows, report.expect("sound"))
}

pub fn int_range(column: usize, low: i64, high: i64) -> ColumnPredicate {
    let range = IntPredicate::Range { low: low.into(), high: high.into() };
    ColumnPredicate { column, predicate: Predicate::Int(range) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_table_is_its_rows(
        changes in prop::collection::vec((row(), any::<u8>()), 1..900), bits in prop::option::of(1u32..6),
        unit in 12u32..16, (low, len) in (-50i64..50, 0i64..60),
    ) {
        let table = create(memory(8 << unit), 1 << unit, bits);
        let mut model = BTreeMap::new();
        apply(&table, &mut model, &changes);
        check(&table, &model);
        check(&reopened(&table), &model);
        let (low, high) = (low, low + len);
        let float_range = IntPredicate::Range { low: f64_key(-2.0).into(), high: f64_key(f64::INFINITY).into() };
        let predicates: Vec<Vec<ColumnPredicate>> = vec![
            vec![],
            vec![int_range(0, low, high)],
            vec![int_range(1, low, high), int_range(0, 0, 200)],
            vec![int_range(1, 5, 4)],
            vec![ColumnPredicate { column: 1, predicate: Predicate::IsNull }],
            vec![ColumnPredicate { column: 3, predicate: Predicate::Int(float_range) }],
            vec![ColumnPredicate { column: 2, predicate: Predicate::Bytes(BytesPredicate::Prefix(b"ab".to_vec())) }],
            vec![ColumnPredicate { column: 1, predicate: Predicate::Int(IntPredicate::NotEqual(3)) }],
        ];
        let passes = |row: &Row, p: &ColumnPredicate| match (&p.predicate, p.column) {
            (Predicate::IsNull, _) => row.1.is_none(),
            (Predicate::Int(test), 0) => test.test(row.0.into()),
            (Predicate::Int(test), 1) => row.1.is_some_and(|n| test.test(n.into())),
            (Predicate::Int(test), _) => row.3.is_some_and(|f| test.test(f64_key(float(f)).into())),
            (Predicate::Bytes(test), _) => row.2.as_ref().is_some_and(|s| test.test(s.as_bytes())),
            _ => unreachable!("not in the list"),
        };
        for predicates in predicates {
            let expected = model.values().filter(|row| predicates.iter().all(|p| passes(row, p)));
            let expected = shown_rows(expected);
            for iterator in [None, Some(IteratorKind::Block), Some(IteratorKind::Index)] {
                let request = Request { columns: vec![0, 1, 2, 3], predicates: predicates.clone(), iterator };
                let (found, report) = scanned(&table, &request);
                prop_assert_eq!(&found, &expected, "{:?}", request);
                prop_assert_eq!(report.rows, expected.len() as u64);
            }
        }
    }
}

#[test]
fn equal_keys_fill_block_after_block() {
    for bits in [None, Some(2)] {
        let table = create(memory(16 * 4096), 4096, bits);
        let rows: Vec<Row> = (0..600).map(|at| (at % 7, Some(1), Some(format!("{at}")), None)).collect();
        let data = columns(&rows);
        (0..rows.len()).for_each(|row| table.insert(&data, row).expect("room"));
        table.check().expect("sound");
        assert_eq!(table.places(&key(3), 0).expect("sound").len(), 86);
        let (blocks, slots) = table.block_counts();
        assert!(blocks <= 3 * 600usize.div_ceil(slots), "{blocks} blocks of {slots} slots");
    }
}

#[test]
fn ascending_keys_fill_their_blocks() {
    const ROWS: i64 = 1500;
    let table = create(memory(64 * 4096), 4096, Some(6));
    let rows: Vec<Row> = (0..ROWS).map(|at| (at * 256 / ROWS, Some(0), None, None)).collect();
    let data = columns(&rows);
    (0..rows.len()).for_each(|row| table.insert(&data, row).expect("room"));
    table.check().expect("sound");
    assert_eq!(table.len(), ROWS as u64);
    let (blocks, slots) = table.block_counts();
    let full = (ROWS as usize).div_ceil(slots);
    assert!(blocks * 4 <= full * 5 + 4, "{blocks} blocks, where {full} have room for all rows");
}

#[test]
fn blocks_that_are_empty_are_used_again() {
    let table = create(memory(16 * 4096), 4096, Some(4));
    let rows: Vec<Row> =
        (0..400).map(|at| (at, Some(at % 60 - 30), Some("abc".repeat(at as usize % 5)), Some(at))).collect();
    let data = columns(&rows);
    let used = |table: &PTable| table.pool.usage().0 - table.pool.usage().1;
    let mut most = 0;
    for round in 0..4 {
        (0..rows.len()).for_each(|row| table.insert(&data, row).expect("room"));
        most = if round == 0 { used(&table) } else { most };
        assert!(used(&table) <= most + 2, "{} of {most}", used(&table));
        (0..rows.len()).for_each(|row| {
            let mut transaction = table.begin();
            transaction.delete(place_of(&table, rows[row].0)).expect("there");
            transaction.commit().expect("sound");
        });
        check(&table, &BTreeMap::new());
        assert_eq!(table.block_counts().0, 1);
    }
}

#[test]
fn strings_of_removed_rows_make_room() {
    let table = create(memory(16 * 4096), 4096, None);
    let row = |at: i64| columns(&[(1, None, Some(format!("{at:0300}")), None)]);
    table.insert(&row(0), 0).expect("room");
    for at in 1..100 {
        let mut transaction = table.begin();
        transaction.update(place_of(&table, 1), &row(at), 0).expect("room");
        transaction.commit().expect("room");
    }
    table.check().expect("sound");
    assert_eq!(table.block_counts().0, 1);
    let (found, _) = table.rows().expect("sound");
    assert_eq!(found[2].bytes(0), format!("{:0300}", 99).as_bytes());
}

#[test]
fn what_is_not_committed_is_not_there() {
    let table = create(memory(16 * 4096), 4096, None);
    let rows: Vec<Row> = (0..200).map(|at| (at, Some(1), Some("text".into()), None)).collect();
    let data = columns(&rows);
    (0..10).for_each(|row| table.insert(&data, row).expect("room"));
    {
        let mut transaction = table.begin();
        (10..200).for_each(|row| transaction.insert(&data, row).expect("room"));
        transaction.delete(place_of(&table, 4)).expect("there");
    }
    let model: BTreeMap<i64, Row> = rows[..10].iter().map(|row| (row.0, row.clone())).collect();
    check(&table, &model);
    let mut transaction = table.begin();
    let at = place_of(&table, 4);
    transaction.delete(at).expect("there");
    assert!(transaction.delete(at).is_err(), "it is removed already");
    assert!(transaction.delete(0x70_0000).is_err() && transaction.delete(at | 0xffff).is_err());
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let table = create(memory(16 * 4096), 4096, None);
    let refused = |columns: &[ColumnData]| table.insert(columns, 0).expect_err("refused").to_string();
    assert!(refused(&columns(&[(1, None, Some("x".repeat(4000)), None)])).contains("page_size"));
    assert!(refused(&columns(&[(1, None, None, None)])[..3]).contains("types"));
    let mut swapped = columns(&[(1, None, None, None)]);
    swapped.swap(2, 3);
    assert!(refused(&swapped).contains("types"));
    assert!(refused(&columns(&[(1, Some(1 << 31), None, None)])).contains("range of column n"));
    let mut without_key = columns(&[(1, None, None, None)]);
    without_key[0].validity = Some(vec![0]);
    assert!(refused(&without_key).contains("column k"));
    let small = create(Arc::new(MemoryRegion::new(8 * 4096, 8 * 4096)), 4096, None);
    let data = columns(&(0..1000).map(|at| (at, None, None, None)).collect::<Vec<Row>>());
    let fitted = (0..1000).take_while(|row| small.insert(&data, *row).is_ok()).count();
    assert!((50..1000).contains(&fitted), "{fitted} rows");
    small.check().expect("a full pool is sound");
    assert_eq!(small.len(), fitted as u64);
}

#[test]
fn a_large_transaction_takes_more_room_for_its_redo_slot() {
    let table = create(memory(16 * 4096), 4096, Some(5));
    let rows: Vec<Row> = (0..1500).map(|at| (at, Some(at % 64 - 32), Some(format!("row {at}")), Some(at))).collect();
    let mut model = BTreeMap::new();
    let inserts: Vec<(Row, u8)> = rows.iter().map(|row| (row.clone(), 1)).collect();
    apply(&table, &mut model, &inserts);
    check(&table, &model);
    let mut transaction = table.begin();
    for row in rows.iter().step_by(2) {
        transaction.delete(place_of(&table, row.0)).expect("there");
        model.remove(&row.0);
    }
    transaction.commit().expect("room");
    check(&table, &model);
    check(&reopened(&table), &model);
}

/// Changes each bit of a small pool, in turn over many runs: opening and checking name the damage or find the rows, and
/// never panic.
#[test]
fn damage_is_named_and_never_followed() {
    let table = create(memory(10 * 4096), 4096, Some(3));
    let rows: Vec<Row> = (0..60).map(|at| (at, Some(at % 9), Some(format!("text {at}")), Some(at))).collect();
    let data = columns(&rows);
    (0..rows.len()).for_each(|row| table.insert(&data, row).expect("room"));
    let sound = words_of(table.region());
    let mut named = 0;
    for bit in (0..sound.len() * 64).step_by(37) {
        let mut words = sound.clone();
        words[bit / 64] ^= 1 << (bit % 64);
        let result = open(Arc::new(MemoryRegion::of_words(&words, CAPACITY))).and_then(|table| {
            table.check()?;
            table.plan(&Request::default(), &Costs::default())?;
            table.rows()
        });
        match result {
            Ok((found, _)) => assert_eq!(found.len(), 4),
            Err(error) => {
                named += 1;
                assert!(error.to_string().contains(":memory:"), "{error}");
            }
        }
    }
    assert!(named > 60, "{named}");
    for len in (0..10).map(|units| units * 512) {
        let cut = MemoryRegion::of_words(&sound[..len], 0);
        assert!(open(Arc::new(cut)).expect_err("cut short").to_string().contains(":memory:"));
    }
}

#[test]
fn readers_beside_the_writer_see_each_row_once() {
    let table = create(memory(64 * 4096), 4096, Some(4));
    let row =
        |key: i64, version: i64| -> Row { (key, Some(key % 30), Some(format!("{key}/{version}")), Some(version)) };
    let rows: Vec<Row> = (0..300).map(|key| row(key * 2, 0)).collect();
    let data = columns(&rows);
    (0..rows.len()).for_each(|row| table.insert(&data, row).expect("room"));
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut numbers = Rng::with_seed(8);
            for version in 1..4000 {
                // Rows with even keys are updated, others come and go.
                let even = numbers.u64(..300) as i64 * 2;
                let mut transaction = table.begin();
                transaction.update(place_of(&table, even), &columns(&[row(even, version)]), 0).expect("room");
                transaction.commit().expect("room");
                let odd = numbers.u64(..300) as i64 * 2 + 1;
                let mut transaction = table.begin();
                match table.places(&key(odd), 0).expect("sound").first() {
                    Some(at) => transaction.delete(*at).expect("there"),
                    None => transaction.insert(&columns(&[row(odd, version)]), 0).expect("room"),
                }
                transaction.commit().expect("room");
            }
            is_done.store(true, Ordering::Relaxed);
        });
        for iterator in [IteratorKind::Block, IteratorKind::Index] {
            let (table, is_done) = (&table, &is_done);
            scope.spawn(move || {
                while !is_done.load(Ordering::Relaxed) {
                    let request = Request { columns: vec![0, 1, 2, 3], predicates: vec![], iterator: Some(iterator) };
                    let (found, _) = scanned(table, &request);
                    let even = found.iter().filter(|row| row.0 % 2 == 0).count();
                    assert_eq!(even, 300, "by {iterator:?}");
                    for (key, _, text, version) in &found {
                        let version = f64::from_bits(version.expect("a version"));
                        let numbers = (0..4000).filter(|number| float(*number).to_bits() == version.to_bits());
                        let texts: Vec<String> = numbers.map(|number| format!("{key}/{number}")).collect();
                        let text = String::from_utf8(text.clone().expect("a text")).expect("text");
                        assert!(texts.contains(&text), "{text} of {texts:?}");
                    }
                }
            });
        }
    });
    table.check().expect("sound");
}

#[test]
fn an_insertion_flushes_few_lines() {
    let start = create(memory(64 * 32_768), 32_768, Some(8));
    let tracked = Arc::new(crate::media::region::TrackedRegion::of_words(words_of(start.region()), CAPACITY));
    let table = open(tracked.clone()).expect("sound");
    let rows: Vec<Row> =
        (0..1500).map(|at| (at * 7 % 1500, Some(at % 64 - 32), Some("a text".into()), Some(at))).collect();
    let data = columns(&rows);
    let mut counts: Vec<(u64, u64)> = (0..rows.len())
        .map(|row| {
            let before = tracked.counts();
            table.insert(&data, row).expect("room");
            let after = tracked.counts();
            (after.0 - before.0, after.1 - before.1)
        })
        .collect();
    println!("{:?}", counts);
    counts.sort_unstable();
    let (lines, fences) = counts[counts.len() / 2];
    assert!(lines <= 10 && fences <= 3, "{lines} lines and {fences} fences in the median");
}

#[test]
fn the_cheaper_iterator_is_chosen() {
    let table = create(memory(64 * 4096), 4096, Some(6));
    let rows: Vec<Row> = (0..4000).map(|at| (at * 37 % 4000, Some(at % 64 - 32), None, Some(at))).collect();
    let data = columns(&rows);
    (0..rows.len()).for_each(|row| table.insert(&data, row).expect("room"));
    let chosen = |predicates: Vec<ColumnPredicate>| {
        let request = Request { columns: vec![0], predicates, iterator: None };
        table.plan(&request, &Costs::default()).expect("valid").chosen
    };
    assert_eq!(chosen(vec![int_range(0, 700, 702)]), IteratorKind::Index);
    assert_eq!(chosen(vec![int_range(1, 3, 4)]), IteratorKind::Block);
    assert_eq!(chosen(vec![]), IteratorKind::Block);
    let plan = table.plan(&Request { predicates: vec![int_range(1, 3, 3)], ..Request::default() }, &Costs::default());
    let blocks = table.block_counts().0 as f64;
    assert!(plan.expect("valid").blocks < blocks / 4.0, "keys and bounds rule out most of {blocks} blocks");
}
