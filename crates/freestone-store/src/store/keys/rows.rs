//! Reading the keys of rows: their hashes, and of suspicious ones their values.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::DataType;
use freestone_codec::{BytesBound, BytesPredicate, IntPredicate, Kind, Predicate};

use crate::cluster::{Value, value_at};
use crate::column::ColumnData;
use crate::error::{Result, StoreError};
use crate::limits::MORSEL_ROWS;
use crate::scan::{
    ColumnPredicate, Cursor, Morsel, MorselQueue, Morsels, ScanMetrics, ScanRequest, morsels, surviving_morsels,
};
use crate::schema::kind;
use crate::store::key_locks::hashes::{Collected, KeyHashes, Share, normalized, of_rows};
use crate::table::Table;

/// Up to this number of keys, a scan looks for each of them. With more, it looks for all keys between the smallest and
/// the largest.
const LISTED_KEYS: usize = 128;

/// Columns of a table that are a key, or refer to one.
#[derive(Debug, Clone)]
pub struct KeyColumns {
    /// Positions in the table, in the order of the key.
    pub columns: Vec<usize>,
    types: Vec<DataType>,
}

impl KeyColumns {
    pub fn new(table: &Table, columns: Vec<usize>) -> Self {
        let types = columns.iter().map(|column| table.schema.columns[*column].data_type.clone()).collect();
        KeyColumns { columns, types }
    }

    /// A scan of these columns. Batches have them in the order of the table.
    fn request(&self, predicates: Vec<ColumnPredicate>) -> ScanRequest {
        let mut projection = self.columns.clone();
        projection.sort_unstable();
        ScanRequest { predicates, ..ScanRequest::columns(projection) }
    }

    /// The columns of a batch of [`KeyColumns::request`], in the order of the key.
    fn of_batch(&self, batch: &RecordBatch) -> Vec<ColumnData> {
        let data = |(column, data_type): (&usize, &DataType)| {
            let place = self.columns.iter().filter(|other| *other < column).count();
            normalized(ColumnData::from_arrays([batch.column(place)], data_type))
        };
        self.columns.iter().zip(&self.types).map(data).collect()
    }
}

/// The keys of some rows.
#[derive(Debug)]
pub struct ReadKeys {
    pub hashes: Arc<KeyHashes>,
    /// The hashes of several rows.
    pub repeated: Vec<u64>,
    bounds: Vec<Option<ColumnBounds>>,
}

/// The values of one column.
#[derive(Debug)]
struct ColumnBounds {
    low: Value,
    high: Value,
    /// All values, while they are few.
    listed: Option<Vec<Value>>,
}

/// The keys of a thread's rows.
struct Reading {
    collected: Collected,
    bounds: Vec<Option<ColumnBounds>>,
}

impl ReadKeys {
    /// Reads the keys of the rows in some segments of a table, except those with a NULL.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub fn read(
        table: &Arc<Table>,
        key: &KeyColumns,
        wanted: impl Fn(&Morsel) -> bool,
        share: Share,
        threads: usize,
    ) -> Result<ReadKeys> {
        let morsels = morsels(table, MORSEL_ROWS).into_iter().filter(wanted).collect();
        let begin = || Reading { collected: Collected::new(), bounds: key.columns.iter().map(|_| None).collect() };
        let readings = scan(table, key.request(vec![]), morsels, threads, begin, |reading, batch| {
            let columns = key.of_batch(batch);
            let hashes = of_rows(&columns);
            let mut rows = vec![];
            for (row, hash) in hashes.into_iter().enumerate() {
                if let Some(hash) = hash.filter(|hash| share.contains(*hash)) {
                    reading.collected.push(hash);
                    rows.push(row);
                }
            }
            for (bounds, column) in reading.bounds.iter_mut().zip(&columns) {
                ColumnBounds::widen(bounds, column, &rows);
            }
            Ok(())
        })?;
        let mut bounds: Vec<Option<ColumnBounds>> = key.columns.iter().map(|_| None).collect();
        let mut collections = vec![];
        for reading in readings {
            collections.push(reading.collected);
            for (bounds, other) in bounds.iter_mut().zip(reading.bounds) {
                *bounds = match (bounds.take(), other) {
                    (Some(bounds), Some(other)) => Some(bounds.joined(other)),
                    (bounds, other) => bounds.or(other),
                };
            }
        }
        let (hashes, repeated) = Collected::sorted(&collections, threads)?;
        Ok(ReadKeys { hashes: Arc::new(hashes), repeated, bounds })
    }

    /// The keys without those that have one of these hashes.
    pub fn without(self, others: &HashSet<u64>) -> ReadKeys {
        ReadKeys { hashes: self.hashes_without(others), ..self }
    }

    /// The hashes that are not among these.
    pub fn hashes_without(&self, others: &HashSet<u64>) -> Arc<KeyHashes> {
        if others.is_empty() {
            return self.hashes.clone();
        }
        Arc::new(KeyHashes::of_sorted(self.hashes.iter().filter(|hash| !others.contains(hash)).collect()))
    }

    /// Conditions that the values of a row with one of these keys satisfy, for a table with these columns as the key.
    fn predicates(&self, key: &KeyColumns) -> Vec<ColumnPredicate> {
        let of_column = |((bounds, column), data_type): ((&Option<ColumnBounds>, &usize), &DataType)| {
            let predicate = bounds.as_ref()?.predicate(kind(data_type));
            Some(ColumnPredicate { column: *column, predicate })
        };
        self.bounds.iter().zip(&key.columns).zip(&key.types).filter_map(of_column).collect()
    }
}

impl ColumnBounds {
    fn widen(bounds: &mut Option<ColumnBounds>, column: &ColumnData, rows: &[usize]) {
        let Some(first) = rows.first() else { return };
        let (mut low, mut high) = (*first, *first);
        for row in rows {
            if column.compare(*row, low).is_lt() {
                low = *row;
            }
            if column.compare(*row, high).is_gt() {
                high = *row;
            }
        }
        let (Some(low), Some(high)) = (value_at(column, low), value_at(column, high)) else { return };
        let listed =
            (rows.len() <= LISTED_KEYS).then(|| rows.iter().filter_map(|row| value_at(column, *row)).collect());
        let more = ColumnBounds { low, high, listed };
        *bounds = Some(match bounds.take() {
            Some(bounds) => bounds.joined(more),
            None => more,
        });
    }

    fn joined(self, other: ColumnBounds) -> ColumnBounds {
        let listed = match (self.listed, other.listed) {
            (Some(a), Some(b)) if a.len() + b.len() <= LISTED_KEYS => Some([a, b].concat()),
            _ => None,
        };
        ColumnBounds { low: self.low.min(other.low), high: self.high.max(other.high), listed }
    }

    /// A condition that all of the values satisfy.
    fn predicate(&self, kind: Kind) -> Predicate {
        let is_float = matches!(kind, Kind::F64 | Kind::F32);
        match (&self.low, &self.high) {
            (Value::Int(low), Value::Int(high)) => {
                let number = |value: &Value| match value {
                    Value::Int(number) => Some(*number),
                    Value::Bytes(_) => None,
                };
                // Stored floats have two zeros, whose keys are -1 and 0.
                let low = if is_float && *low == 0 { -1 } else { *low };
                let mut listed: Option<Vec<i128>> =
                    self.listed.as_ref().map(|values| values.iter().filter_map(number).collect());
                if let Some(listed) = &mut listed {
                    if is_float && listed.contains(&0) {
                        listed.push(-1);
                    }
                    listed.sort_unstable();
                    listed.dedup();
                }
                let range = IntPredicate::Range { low, high: *high };
                Predicate::Int(match listed {
                    Some(listed) if listed.len() as i128 <= high.saturating_sub(low) => IntPredicate::In(listed),
                    _ => range,
                })
            }
            (Value::Bytes(low), Value::Bytes(high)) => {
                let bound = |value: &[u8]| Some(BytesBound { value: value.to_vec(), inclusive: true });
                let bytes = |value: &Value| match value {
                    Value::Bytes(bytes) => Some(bytes.clone()),
                    Value::Int(_) => None,
                };
                let mut listed: Option<Vec<Vec<u8>>> =
                    self.listed.as_ref().map(|values| values.iter().filter_map(bytes).collect());
                listed.iter_mut().for_each(|listed| {
                    listed.sort_unstable();
                    listed.dedup();
                });
                Predicate::Bytes(match listed {
                    Some(listed) => BytesPredicate::In(listed),
                    None => BytesPredicate::Range { low: bound(low), high: bound(high) },
                })
            }
            _ => Predicate::IsNotNull,
        }
    }
}

/// The hashes of rows of a table that are among those of `keys`. `key` are the columns that have these keys.
///
/// # Errors
/// A segment cannot be read.
pub fn common_hashes(
    table: &Arc<Table>,
    key: &KeyColumns,
    wanted: impl Fn(&Morsel) -> bool,
    keys: &ReadKeys,
    threads: usize,
) -> Result<HashSet<u64>> {
    if keys.hashes.is_empty() {
        return Ok(HashSet::new());
    }
    let request = key.request(keys.predicates(key));
    let morsels = surviving_morsels(table, &request, MORSEL_ROWS, &ScanMetrics::default())?;
    let morsels = morsels.into_iter().filter(wanted).collect();
    let found = scan(table, request, morsels, threads, HashSet::new, |found, batch| {
        let hashes = of_rows(&key.of_batch(batch));
        found.extend(hashes.into_iter().flatten().filter(|hash| keys.hashes.contains(*hash)));
        Ok(())
    })?;
    Ok(found.into_iter().flatten().collect())
}

/// A row with one of some hashes.
#[derive(Debug)]
pub struct KeyedRow {
    pub values: Vec<Value>,
    /// The values, for users.
    pub shown: String,
    /// The id of the segment, and the row in it.
    pub place: (u64, u32),
}

/// The rows of a table whose keys have one of these hashes, by hash.
///
/// # Errors
/// A segment cannot be read.
pub fn rows_with(
    table: &Arc<Table>,
    key: &KeyColumns,
    wanted: impl Fn(&Morsel) -> bool,
    hashes: &HashSet<u64>,
    threads: usize,
) -> Result<HashMap<u64, Vec<KeyedRow>>> {
    let request = ScanRequest { row_ids: true, ..key.request(vec![]) };
    let morsels = morsels(table, MORSEL_ROWS).into_iter().filter(wanted).collect();
    let parts = scan(table, request, morsels, threads, Vec::new, |found: &mut Vec<(u64, KeyedRow)>, batch| {
        let columns = key.of_batch(batch);
        let ids = batch.column(batch.num_columns() - 1).as_primitive::<UInt64Type>();
        for (row, hash) in of_rows(&columns).into_iter().enumerate() {
            let Some(hash) = hash.filter(|hash| hashes.contains(hash)) else { continue };
            let (segment, place) = crate::scan::split_row_id(ids.value(row));
            let values = columns.iter().filter_map(|column| value_at(column, row)).collect();
            let shown = shown(key, batch, row)?;
            found.push((hash, KeyedRow { values, shown, place: (table.segments[segment].id, place) }));
        }
        Ok(())
    })?;
    let mut by_hash: HashMap<u64, Vec<KeyedRow>> = HashMap::new();
    for (hash, row) in parts.into_iter().flatten() {
        by_hash.entry(hash).or_default().push(row);
    }
    Ok(by_hash)
}

/// The key of a row: `1, abc`.
fn shown(key: &KeyColumns, batch: &RecordBatch, row: usize) -> Result<String> {
    let options = FormatOptions::default();
    let value = |column: &usize| {
        let place = key.columns.iter().filter(|other| *other < column).count();
        let formatter = ArrayFormatter::try_new(batch.column(place).as_ref(), &options);
        formatter.and_then(|formatter| formatter.value(row).try_to_string())
    };
    let values = key.columns.iter().map(value).collect::<Result<Vec<_>, _>>();
    values.map(|values| values.join(", ")).map_err(|error| StoreError::invalid(error.to_string()))
}

/// Scans morsels on several threads. Each thread has a state, which `take` changes for each batch.
fn scan<S: Send>(
    table: &Arc<Table>,
    request: ScanRequest,
    morsels: Vec<Morsel>,
    threads: usize,
    begin: impl Fn() -> S + Sync,
    take: impl Fn(&mut S, &RecordBatch) -> Result<()> + Sync,
) -> Result<Vec<S>> {
    let threads = threads.clamp(1, morsels.len().max(1));
    let queue = Arc::new(MorselQueue::new(morsels, threads));
    let request = Arc::new(request);
    let run = || {
        let mut state = begin();
        let mut cursor = Cursor::new(table.clone(), request.clone(), Arc::new(ScanMetrics::default()));
        let mut morsels = Morsels::new(queue.clone());
        while let Some((morsel, next)) = morsels.take() {
            cursor.scan(&morsel, next.as_ref())?;
            while let Some(batch) = cursor.next_ready() {
                take(&mut state, &batch)?;
            }
        }
        if let Some(batch) = cursor.finish()? {
            take(&mut state, &batch)?;
        }
        Ok(state)
    };
    if threads == 1 {
        return Ok(vec![run()?]);
    }
    std::thread::scope(|scope| {
        // Without more threads, this one reads everything.
        let start = |_| std::thread::Builder::new().spawn_scoped(scope, run).ok();
        let started: Vec<_> = (1..threads).map_while(start).collect();
        let own = run();
        let ended = started.into_iter().map(|thread| match thread.join() {
            Ok(state) => state,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.chain([own]).collect()
    })
}
