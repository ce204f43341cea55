//! Small changes, without SQL: the time of a commit that inserts, updates or deletes one row, and of a lookup by key.
//!
//! cargo run --release -p freestone-store --example points -- FOLDER [ROWS] [STATEMENTS]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Int64Array, RecordBatch, StringViewArray};
use freestone_codec::{IntPredicate, Predicate};
use freestone_store::design::{Design, Preset};
use freestone_store::scan::{ColumnPredicate, ScanMetrics, ScanRequest, lookup};
use freestone_store::schema::{TableSchema, UniqueKey};
use freestone_store::{Store, StoreOptions, WriteTransaction};

/// Multiples of row numbers modulo this prime are distinct and in random order.
const PRIME: i64 = 2_000_000_011;

fn rows(numbers: impl Iterator<Item = i64> + Clone) -> RecordBatch {
    let keys = Int64Array::from_iter_values(numbers.clone().map(key));
    let names = StringViewArray::from_iter_values(numbers.clone().map(|number| format!("name {number}")));
    let amounts = Int64Array::from_iter_values(numbers.map(|number| number % 1000));
    RecordBatch::try_from_iter([
        ("id", Arc::new(keys) as _),
        ("name", Arc::new(names) as _),
        ("amount", Arc::new(amounts) as _),
    ])
    .expect("columns of the same length")
}

fn key(number: i64) -> i64 {
    (i128::from(number) * 2_654_435_761 % i128::from(PRIME)) as i64
}

fn insert(transaction: &mut WriteTransaction, batch: &RecordBatch) -> Result<(), Box<dyn Error>> {
    let mut appender = transaction.appender("t")?;
    appender.push(batch)?;
    transaction.append(appender.finish()?)?;
    Ok(())
}

fn find(store: &Store, number: i64, row_ids: bool) -> Result<Vec<RecordBatch>, Box<dyn Error>> {
    let snapshot = store.snapshot()?;
    let table = snapshot.table("t").ok_or("no table")?;
    let (low, high) = (i128::from(key(number)), i128::from(key(number)));
    let predicate = ColumnPredicate { column: 0, predicate: Predicate::Int(IntPredicate::Range { low, high }) };
    let request =
        ScanRequest { predicates: vec![predicate], row_ids, batch_rows: 1024, ..ScanRequest::columns(vec![0, 1, 2]) };
    Ok(lookup(table, &Arc::new(request), &Arc::new(ScanMetrics::default()))?)
}

fn delete(store: &Store, transaction: &mut WriteTransaction, number: i64) -> Result<(), Box<dyn Error>> {
    let found = find(store, number, true)?;
    let batch = found.first().ok_or("no such row")?;
    let ids = batch.column(batch.num_columns() - 1).as_primitive::<UInt64Type>().values().to_vec();
    transaction.delete("t", ids)?;
    Ok(())
}

fn timed(
    what: &str,
    numbers: impl Iterator<Item = i64>,
    mut run: impl FnMut(i64) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let mut times = vec![];
    for number in numbers {
        let begin = Instant::now();
        run(number)?;
        times.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    println!("{what}: median {:.1} us, mean {mean:.1} us", times[times.len() / 2]);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("points FOLDER [ROWS] [STATEMENTS]")?;
    let count = arguments.next().map_or(Ok(100_000), |rows| rows.parse::<i64>())?;
    let statements = arguments.next().map_or(Ok(10_000), |count| count.parse::<i64>())?;
    let store = Store::open(Path::new(&folder), StoreOptions::default())?;
    let mut transaction = store.write()?;
    let mut schema = TableSchema::from_arrow(&rows(0..1).schema())?;
    schema.primary_key = vec!["id".into()];
    schema.unique_keys = vec![UniqueKey { name: "t_pkey".into(), columns: vec!["id".into()] }];
    transaction.create_table("t", schema, Design::preset(Preset::Auto))?;
    insert(&mut transaction, &rows(0..count))?;
    transaction.commit()?;
    let begin = || -> Result<WriteTransaction, Box<dyn Error>> {
        let mut transaction = store.write()?;
        transaction.set_syncs(false);
        Ok(transaction)
    };
    let old = |number: i64| (number * 7919) % count;
    timed("lookup of segments", 0..statements, |number| find(&store, old(number), false).map(drop))?;
    timed("insert", count..count + statements, |number| {
        let mut transaction = begin()?;
        insert(&mut transaction, &rows(number..number + 1))?;
        transaction.check_keys()?;
        transaction.commit()?;
        Ok(())
    })?;
    timed("lookup of hot rows", 0..statements, |number| find(&store, count + number, false).map(drop))?;
    timed("update", 0..statements, |number| {
        let mut transaction = begin()?;
        delete(&store, &mut transaction, old(number))?;
        insert(&mut transaction, &rows(old(number)..old(number) + 1))?;
        transaction.check_keys()?;
        transaction.commit()?;
        Ok(())
    })?;
    timed("delete", 0..statements, |number| {
        let mut transaction = begin()?;
        delete(&store, &mut transaction, count + number)?;
        transaction.commit()?;
        Ok(())
    })
}
