//! The sample: runs of adjacent rows, in the form of the codecs.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;
use freestone_codec::{Predicate, f32_key, f64_key};
use freestone_store::Table;
use freestone_store::column::{ColumnData, Physical};
use freestone_store::limits::GRANULE_ROWS;
use freestone_store::scan::{Cursor, Morsel, ScanMetrics, ScanRequest};
use freestone_store::schema::{TableSchema, normalize};

use crate::error::{AdvisorError, Result};

/// The number of blocks of 8,192 rows that the statistics of a stored table read. Every second one is at a position
/// where the store samples when it chooses encodings of a segment with as many rows.
pub const SAMPLE_BLOCKS: usize = 10;

/// Runs of adjacent rows of a table.
#[derive(Debug)]
pub struct Sample {
    pub columns: Vec<ColumnData>,
    /// Ranges of rows that are adjacent in the table.
    pub blocks: Vec<Range<usize>>,
    /// For each column, each row's position among the column's values: the share of smaller rows, plus half the share
    /// of equal ones.
    ranks: Vec<OnceLock<Vec<f32>>>,
    /// For each column: the number of runs of equal values, of distinct values, and of distinct values with only one
    /// run.
    counts: Vec<OnceLock<(usize, usize, usize)>>,
}

/// Reads up to `blocks` runs of 8,192 rows, spread evenly over a table, and passes each to `take`.
///
/// # Errors
/// The table cannot be read.
pub fn sample_table(table: &Arc<Table>, blocks: usize, mut take: impl FnMut(RecordBatch)) -> Result<()> {
    let mut granules = vec![];
    for (segment, entry) in table.segments.iter().enumerate() {
        let rows = entry.rows as usize;
        let starts = (0..rows).step_by(GRANULE_ROWS);
        granules.extend(starts.map(|start| Morsel::new(segment, start as u32..rows.min(start + GRANULE_ROWS) as u32)));
    }
    let count = granules.len().min(blocks.max(1));
    let all = (0..table.schema.columns.len()).collect();
    let request = Arc::new(ScanRequest { batch_rows: 1, ..ScanRequest::columns(all) });
    let mut cursor = Cursor::new(table.clone(), request, Arc::new(ScanMetrics::default()));
    for at in 0..count {
        cursor.scan(&granules[at * granules.len() / count], None)?;
        while let Some(batch) = cursor.next_ready() {
            take(batch);
        }
    }
    cursor.finish()?.into_iter().for_each(take);
    Ok(())
}

impl Sample {
    /// A sample of batches.
    ///
    /// # Errors
    /// A column's type cannot be stored.
    pub fn new(schema: &TableSchema, batches: &[RecordBatch]) -> Result<Self> {
        let mut blocks = vec![];
        let mut rows = 0;
        for batch in batches {
            if batch.num_columns() != schema.columns.len() {
                return Err(AdvisorError::Invalid(format!(
                    "a sample of {} columns for a table of {}",
                    batch.num_columns(),
                    schema.columns.len()
                )));
            }
            blocks.push(rows..rows + batch.num_rows());
            rows += batch.num_rows();
        }
        blocks.retain(|block| !block.is_empty());
        let mut columns = vec![];
        for (at, column) in schema.columns.iter().enumerate() {
            let arrays: Vec<&ArrayRef> = batches.iter().map(|b| b.column(at)).collect();
            if let Some(other) = arrays.iter().find(|a| *a.data_type() != column.data_type) {
                let stored = normalize(other.data_type()).unwrap_or(DataType::Null);
                let (name, found) = (&column.name, other.data_type());
                return Err(AdvisorError::Invalid(format!(
                    "column {name} of the sample is {found} (stored as {stored}); the table has {}: cast it first",
                    column.data_type
                )));
            }
            columns.push(ColumnData::from_arrays(arrays, &column.data_type));
        }
        let ranks = columns.iter().map(|_| OnceLock::new()).collect();
        let counts = columns.iter().map(|_| OnceLock::new()).collect();
        Ok(Sample { columns, blocks, ranks, counts })
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.blocks.last().map_or(0, |block| block.end)
    }

    /// The share of NULLs in a column.
    pub fn null_share(&self, column: usize) -> f64 {
        let nulls = (0..self.rows()).filter(|row| !self.columns[column].is_valid(*row)).count();
        nulls as f64 / self.rows().max(1) as f64
    }

    /// The bytes of a value: those of its type, or the mean of the strings.
    pub fn width(&self, column: usize, data_type: &DataType) -> f64 {
        match &self.columns[column].values {
            Physical::Bytes { data, .. } => data.len() as f64 / self.rows().max(1) as f64,
            _ => data_type.primitive_width().unwrap_or(1) as f64,
        }
    }

    /// The estimated number of distinct values in `rows` rows (estimator D_uj1 of Haas and Stokes 1998, over runs of
    /// equal values, since rows of a run are not independent): those of the sample, and the more, the more of them
    /// occur once.
    pub fn distinct(&self, column: usize, rows: u64) -> f64 {
        let (runs, found, once) = *self.counts[column].get_or_init(|| self.count(column));
        let (runs, rows) = (runs.max(1) as f64, (rows as f64).max(1.0));
        let (found, once) = (found as f64, once as f64);
        let share = (self.rows().max(1) as f64 / rows).min(1.0);
        let unseen = 1.0 - (1.0 - share) * once / runs;
        (found / unseen.max(1e-9)).clamp(found, rows.max(found))
    }

    fn count(&self, column: usize) -> (usize, usize, usize) {
        let data = &self.columns[column];
        let mut starts = vec![];
        for block in &self.blocks {
            let valid = block.clone().filter(|row| data.is_valid(*row));
            let begins =
                |row: &usize| *row == block.start || !data.is_valid(row - 1) || key(data, *row) != key(data, row - 1);
            starts.extend(valid.filter(begins));
        }
        let (found, once) = count_keys(&mut starts.iter().map(|row| key(data, *row)));
        (starts.len(), found, once)
    }

    /// The mean number of rows in a run of equal values.
    pub fn run_rows(&self, column: usize) -> f64 {
        let runs: usize = self.blocks.iter().map(|block| runs(&self.columns[column], block.clone(), |row| row)).sum();
        self.rows().max(1) as f64 / runs.max(1) as f64
    }

    fn with_keys<R>(&self, column: usize, f: impl FnOnce(&mut dyn Iterator<Item = Key<'_>>) -> R) -> R {
        let data = &self.columns[column];
        let mut keys = (0..self.rows()).filter(|row| data.is_valid(*row)).map(|row| key(data, row));
        f(&mut keys)
    }

    /// Each row's position among the column's values, 0 to 1. NULLs have 0.
    pub fn ranks(&self, column: usize) -> &[f32] {
        self.ranks[column].get_or_init(|| {
            let data = &self.columns[column];
            let mut order: Vec<u32> = (0..self.rows() as u32).filter(|row| data.is_valid(*row as usize)).collect();
            order.sort_unstable_by(|a, b| key(data, *a as usize).cmp(&key(data, *b as usize)));
            ranks_of(&order, self.rows(), |row| key(data, row))
        })
    }

    /// The share of rows that satisfy a predicate.
    pub fn selectivity(&self, column: usize, predicate: &Predicate) -> f64 {
        let data = &self.columns[column];
        let passes = |row: &usize| match (predicate, data.is_valid(*row)) {
            (Predicate::IsNull, valid) => !valid,
            (Predicate::IsNotNull, valid) => valid,
            (_, false) => false,
            (Predicate::Int(test), true) => matches!(key(data, *row), Key::Number(value) if test.test(value)),
            (Predicate::Bytes(test), true) => matches!(key(data, *row), Key::Text(value) if test.test(value)),
        };
        let passed = (0..self.rows()).filter(passes).count() as f64;
        passed.max(0.5) / self.rows().max(1) as f64
    }

    /// The range of values between two quantiles.
    pub fn range(&self, column: usize, from: f64, share: f64) -> Option<(i128, i128)> {
        let mut values: Vec<i128> = self.with_keys(column, |keys| {
            keys.filter_map(|key| if let Key::Number(value) = key { Some(value) } else { None }).collect()
        });
        values.sort_unstable();
        let last = values.len().checked_sub(1)?;
        let at = |share: f64| values[((last as f64 * share).round() as usize).min(last)];
        Some((at(from.clamp(0.0, 1.0)), at((from + share).clamp(0.0, 1.0))))
    }
}

/// For each of `rows` rows, the share of the rows in `order` that are smaller, plus half the share of equal ones.
/// `order` must ascend by the key. Rows that are not in it have 0.
pub fn ranks_of<K: PartialEq>(order: &[u32], rows: usize, key: impl Fn(usize) -> K) -> Vec<f32> {
    let (mut ranks, mut start) = (vec![0.0; rows], 0);
    for run in order.chunk_by(|a, b| key(*a as usize) == key(*b as usize)) {
        let middle = (start as f32 + run.len() as f32 / 2.0) / order.len() as f32;
        run.iter().for_each(|row| ranks[*row as usize] = middle);
        start += run.len();
    }
    ranks
}

/// A value as predicates and orders compare it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key<'a> {
    Number(i128),
    Text(&'a [u8]),
}

/// A value, in comparable form.
pub fn key(data: &ColumnData, row: usize) -> Key<'_> {
    match &data.values {
        Physical::Int(v) => Key::Number(v[row].into()),
        Physical::Wide(v) => Key::Number(v[row]),
        Physical::F64(v) => Key::Number(f64_key(v[row]).into()),
        Physical::F32(v) => Key::Number(f32_key(v[row]).into()),
        Physical::Bytes { offsets, data } => Key::Text(&data[offsets[row] as usize..offsets[row + 1] as usize]),
    }
}

/// The number of runs of equal values among the rows that `row` gives for `places`.
pub fn runs(data: &ColumnData, places: Range<usize>, row: impl Fn(usize) -> usize) -> usize {
    let value = |place: usize| {
        let row = row(place);
        data.is_valid(row).then(|| key(data, row))
    };
    let changes = places.clone().skip(1).filter(|place| value(*place) != value(*place - 1)).count();
    changes + usize::from(!places.is_empty())
}

/// The number of distinct keys, and of those that occur once.
fn count_keys(keys: &mut dyn Iterator<Item = Key<'_>>) -> (usize, usize) {
    fn count<K: Hash + Eq>(keys: impl Iterator<Item = K>) -> (usize, usize) {
        let mut counts: HashMap<K, u32> = HashMap::new();
        keys.for_each(|key| *counts.entry(key).or_default() += 1);
        (counts.len(), counts.values().filter(|n| **n == 1).count())
    }
    count(keys)
}
