//! Crashes of a table: every content that one can leave opens to what was acknowledged.

use fastrand::Rng;
use std::collections::BTreeMap;

use super::super::crashes::{Explorer, Outcome, Uses, words_of};
use super::super::pool::PoolOptions;
use super::tests::{CAPACITY, Row, Shown, columns, create, float, memory, open, place_of, schema, shown, shown_rows};
use super::*;
use crate::media::region::Site;

const USES: Uses<Vec<Shown>> = Uses { open: opened, change: changed };

fn content(table: &PTable) -> Result<Vec<Shown>> {
    table.check()?;
    Ok(shown(&table.rows()?.0))
}

fn opened(region: Arc<dyn Region>) -> Result<Vec<Shown>, String> {
    open(region).and_then(|table| content(&table)).map_err(|error| error.to_string())
}

fn changed(region: Arc<dyn Region>) -> Result<(), String> {
    let row: Row = (5000, Some(3), Some("after the crash".into()), None);
    let change = || -> Result<bool> {
        let table = open(region)?;
        let mut expected = content(&table)?;
        table.insert(&columns(std::slice::from_ref(&row)), 0)?;
        expected.extend(shown_rows([&row]));
        expected.sort();
        Ok(content(&table)? == expected)
    };
    match change() {
        Ok(true) => Ok(()),
        Ok(false) => Err("other rows changed".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// Rows of about 40 bytes of strings, so that blocks of 4 KiB are split after some 30.
fn crash_row(numbers: &mut Rng, key: i64) -> Row {
    let number = numbers.u64(..60) as i64 - 30;
    let text = "abcdefgh".repeat(numbers.u64(..9) as usize);
    let some = |numbers: &mut Rng| numbers.u64(..8) > 0;
    (key, some(numbers).then_some(number), some(numbers).then_some(text), some(numbers).then_some(number / 2))
}

/// One step of the workload: an insertion, a removal, an update, or a transaction of several of them.
fn crash_step(
    table: &PTable,
    model: &mut BTreeMap<i64, Row>,
    numbers: &mut Rng,
    explorer: &Explorer<Vec<Shown>>,
    grows: bool,
) {
    let changes = if numbers.u64(..5) == 0 { 2 + numbers.u64(..5) } else { 1 };
    let (mut rows, mut removed) = (vec![], vec![]);
    for _ in 0..changes {
        let key = numbers.u64(..200) as i64;
        let is_new = !model.contains_key(&key) && rows.iter().all(|row: &Row| row.0 != key);
        let other = model.keys().nth(numbers.u64(..model.len().max(1) as u64) as usize).copied();
        match other.filter(|other| !removed.contains(other)) {
            Some(other) if !grows || numbers.u64(..4) == 0 => {
                removed.push(other);
                if numbers.u64(..2) == 0 {
                    rows.push(crash_row(numbers, other));
                }
            }
            _ if is_new => rows.push(crash_row(numbers, key)),
            _ => {}
        }
    }
    removed.iter().for_each(|key| drop(model.remove(key)));
    rows.iter().for_each(|row| drop(model.insert(row.0, row.clone())));
    explorer.step(shown_rows(model.values()), || {
        let data = columns(&rows);
        let places: Vec<Place> = removed.iter().map(|key| place_of(table, *key)).collect();
        let mut transaction = table.begin();
        places.iter().for_each(|at| transaction.delete(*at).expect("there"));
        (0..rows.len()).for_each(|row| transaction.insert(&data, row).expect("room"));
        transaction.commit().expect("room");
    });
}

/// Transactions on a table of a few blocks, which are split, rewritten and removed.
pub fn workload(omitted: Option<Site>) -> Explorer<Vec<Shown>> {
    let start = create(memory(12 * 4096), 4096, Some(5));
    let explorer = Explorer::new(words_of(start.region()), 32 * 4096, vec![], USES, omitted);
    let table = open(explorer.region.clone()).expect("sound");
    let (mut model, mut numbers) = (BTreeMap::new(), Rng::with_seed(5));
    for step in 0..220 {
        crash_step(&table, &mut model, &mut numbers, &explorer, step % 110 < 70);
    }
    explorer
}

/// From a content that a crash left and that opening repairs: crashes of opening, and of the changes that follow.
pub fn after_crash((image, content): &(Vec<u64>, Vec<Shown>), number: usize, omitted: Option<Site>) -> Outcome {
    let explorer = Explorer::new(image.clone(), 32 * 4096, content.clone(), USES, omitted);
    let mut table = None;
    explorer.step(content.clone(), || table = open(explorer.region.clone()).ok());
    if let Some(table) = table {
        let mut model = model_of(&table);
        let mut numbers = Rng::with_seed(number as u64 + 3);
        (0..5).for_each(|_| crash_step(&table, &mut model, &mut numbers, &explorer, true));
    }
    explorer.outcome()
}

/// The rows of a table as the model of the workload has them.
fn model_of(table: &PTable) -> BTreeMap<i64, Row> {
    let (rows, _) = table.rows().expect("sound");
    let mut model = BTreeMap::new();
    for (key, number, text, float_bits) in shown(&rows) {
        let text = text.map(|text| String::from_utf8(text).expect("text"));
        let float =
            float_bits.map(|bits| (-40..40).find(|f| float(*f).to_bits() == bits).expect("a float of the workload"));
        model.insert(key, (key, number, text, float));
    }
    model
}

/// A table in a pool whose free units have any content but for their first word.
pub fn creation(omitted: Option<Site>) -> Outcome {
    let pool = Pool::create(memory(24 * 4096), PoolOptions { unit_bytes: 4096, database: 1 }).expect("a pool");
    let mut start = words_of(pool.region().as_ref());
    start.iter_mut().enumerate().skip(512).filter(|(at, _)| at % 512 != 0).for_each(|(at, word)| *word = !(at as u64));
    let uses = Uses { open: exists, change: |_| Ok(()) };
    let explorer = Explorer::new(start, CAPACITY, 0, uses, omitted);
    explorer.step(1, || {
        let pool = Arc::new(Pool::open(explorer.region.clone(), None).expect("a pool"));
        let options = PTableOptions {
            schema: schema(),
            key: vec!["k".into()],
            clusters: vec![],
            order: BitOrder::MajorMinor,
            node_bytes: 256,
        };
        PTable::create(pool, 9, &options).expect("room");
    });
    explorer.outcome()
}

/// The number of tables, if all is sound.
fn exists(region: Arc<dyn Region>) -> Result<u64, String> {
    let pool = Arc::new(Pool::open(region, None).map_err(|error| error.to_string())?);
    if let Some((_, reason)) = pool.damaged().first() {
        return Err(reason.clone());
    }
    let tables = pool.tables();
    for table in &tables {
        let table = PTable::open(pool.clone(), *table).map_err(|error| error.to_string())?;
        table.check().map_err(|error| error.to_string())?;
    }
    let (units, free) = pool.usage();
    if tables.is_empty() && units - free != 1 { Err("units without a table".into()) } else { Ok(tables.len() as u64) }
}
