//! Statistics of a table, from contiguous runs of its rows that are encoded in every form that a design needs. Sizes
//! are measured on the sample, not modelled. What the sample cannot show (the length of runs in the whole table after
//! sorting) is extrapolated.

mod arrival;
mod encoded_columns;
mod order;
mod paths;
mod sample;
mod zones;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use freestone_codec::{BytesPredicate, IntPredicate, Kind, Predicate};
use freestone_store::Table;
use freestone_store::design::Design;
use freestone_store::schema::{TableSchema, kind};

use crate::error::{AdvisorError, Result};
pub use encoded_columns::{ChunkForm, DenseForm, SlottedForm};
pub use order::Order;
use order::Ordered;
use paths::PathColumn;
use sample::Sample;
pub use sample::{SAMPLE_BLOCKS, sample_table};
use zones::Zones;

/// The statistics for the model and the search. Forms of columns are computed when they are requested, and cached.
#[derive(Debug)]
pub struct TableStatistics {
    /// The columns and declared keys of the table.
    pub schema: TableSchema,
    /// The number of rows.
    pub rows: u64,
    /// The current design, whose order is the sample's.
    pub current: Design,
    /// The statistics of each column.
    pub columns: Vec<ColumnStatistics>,
    /// The bytes of the table's segments, if this is a stored table.
    pub stored_bytes: Option<u64>,
    sample: Sample,
    /// Whether adjacent rows of the sample are not adjacent in the table.
    is_thinned: bool,
    /// Attributes that foreign keys lead to, numbered after the table's columns.
    paths: Vec<Arc<PathColumn>>,
    zones: Option<Zones>,
    orders: Mutex<HashMap<Order, Arc<Ordered>>>,
    forms: Mutex<encoded_columns::Forms>,
}

/// One column, in the current order of the rows.
#[derive(Debug, Clone)]
pub struct ColumnStatistics {
    /// The name of the column.
    pub name: String,
    /// The type of the column.
    pub data_type: DataType,
    /// The kind of the stored values.
    pub kind: Kind,
    /// The share of NULLs.
    pub nulls: f64,
    /// The estimated number of distinct values in the table.
    pub distinct: f64,
    /// The mean bytes of a string; for numbers, the bytes of the type.
    pub width: f64,
    /// The mean number of rows in a run of equal values.
    pub run_rows: f64,
}

impl ColumnStatistics {
    /// Whether the column is a string column.
    pub fn is_text(&self) -> bool {
        self.kind == Kind::Bytes
    }
}

impl TableStatistics {
    /// The statistics of a table of `rows` rows from some of them. Each batch is a run of adjacent rows, in table
    /// order. 8,192 rows per batch, spread evenly, show zones and encodings correctly. `current`: the current design.
    ///
    /// # Errors
    /// A column's type cannot be stored.
    pub fn new(schema: TableSchema, rows: u64, current: Design, batches: &[RecordBatch]) -> Result<Self> {
        let sample = Sample::new(&schema, batches)?;
        if sample.rows() == 0 && rows > 0 {
            return Err(AdvisorError::Invalid("statistics of a table with rows need some of them".into()));
        }
        let columns = schema.columns.iter().enumerate().map(|(at, column)| ColumnStatistics {
            name: column.name.clone(),
            data_type: column.data_type.clone(),
            kind: kind(&column.data_type),
            nulls: sample.null_share(at),
            distinct: sample.distinct(at, rows),
            width: sample.width(at, &column.data_type),
            run_rows: sample.run_rows(at),
        });
        let columns = columns.collect();
        let (orders, forms) = Default::default();
        let (stored_bytes, zones, paths, is_thinned) = (None, None, vec![], false);
        Ok(TableStatistics {
            schema,
            rows,
            current,
            columns,
            stored_bytes,
            sample,
            is_thinned,
            paths,
            zones,
            orders,
            forms,
        })
    }

    /// The same for batches that are not runs of adjacent rows but contain every n-th row of a longer run. Clustered
    /// rows need this, because a few runs of them contain few clusters.
    ///
    /// # Errors
    /// A column's type cannot be stored.
    pub fn of_thinned(schema: TableSchema, rows: u64, current: Design, batches: &[RecordBatch]) -> Result<Self> {
        let statistics = TableStatistics::new(schema, rows, current, batches)?;
        Ok(TableStatistics { is_thinned: true, ..statistics })
    }

    /// The statistics of a stored table, from blocks of its rows, which this reads.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn of_table(table: &Arc<Table>) -> Result<Self> {
        let mut batches = vec![];
        sample_table(table, SAMPLE_BLOCKS, |batch| batches.push(batch))?;
        let rows = table.rows();
        let mut statistics = TableStatistics::new(table.schema.clone(), rows, table.design.clone(), &batches)?;
        statistics.look_at(table)?;
        Ok(statistics)
    }

    /// Adds what the metadata of the stored table show: its bytes, and the bounds of its zones.
    ///
    /// # Errors
    /// A footer cannot be read.
    pub fn look_at(&mut self, table: &Arc<Table>) -> Result<()> {
        self.stored_bytes = Some(table.bytes());
        self.zones = Some(Zones::of(table)?);
        Ok(())
    }

    /// The share of rows that satisfy a predicate on a column, counted on the sample: at least half a row of it. A
    /// single value that only one run of the sample has is assumed to have the mean frequency. Zones bound the result.
    pub fn selectivity(&self, column: usize, predicate: &Predicate) -> f64 {
        let sampled = self.sampled_selectivity(column, predicate);
        self.zones.as_ref().map_or(sampled, |zones| zones.selectivity(column, predicate, sampled))
    }

    fn sampled_selectivity(&self, column: usize, predicate: &Predicate) -> f64 {
        let found = self.sample.selectivity(column, predicate);
        let one = match predicate {
            Predicate::Int(IntPredicate::Range { low, high }) => low == high,
            Predicate::Int(IntPredicate::In(list)) => list.len() == 1,
            Predicate::Bytes(BytesPredicate::In(list)) => list.len() == 1,
            _ => false,
        };
        let statistics = &self.columns[column];
        let a_run = 1.5 * statistics.run_rows.max(1.0) / self.sample.rows().max(1) as f64;
        if one && found <= a_run { found.min((1.0 - statistics.nulls) / statistics.distinct.max(1.0)) } else { found }
    }

    /// The number of rows of the sample.
    pub fn sample_rows(&self) -> usize {
        self.sample.rows()
    }

    /// The range of a predicate `low <= c <= high` on a numeric column (floats as their order keys) that about `share`
    /// of the rows satisfy, beginning at quantile `from`. `None` for strings and columns without values.
    pub fn range(&self, column: usize, from: f64, share: f64) -> Option<(i128, i128)> {
        self.sample.range(column, from, share)
    }

    /// The rows of a full segment, or of the only one.
    pub fn segment_rows(&self) -> f64 {
        (self.rows as f64).min(freestone_store::limits::SEGMENT_ROWS as f64).max(1.0)
    }

    fn ordered(&self, order: &Order) -> Arc<Ordered> {
        let known = lock(&self.orders).get(order).cloned();
        known.unwrap_or_else(|| {
            let made = Arc::new(Ordered::new(order, self));
            lock(&self.orders).entry(order.clone()).or_insert(made).clone()
        })
    }

    /// The share of a column's values, in their order, that a zone of 2,048 rows spans if the rows are in `order`: 0 if
    /// each zone has one value, nearly 1 if each has all.
    pub fn zone_span(&self, column: usize, order: &Order) -> f64 {
        if let Some(zones) = self.zones.as_ref().filter(|_| order.is_current() && column < self.columns.len()) {
            return zones.span(column);
        }
        self.ordered(order).zone_span(column, self)
    }

    /// The mean number of rows in a run of equal values of a column if the rows are in `order`.
    pub fn run_rows(&self, column: usize, order: &Order) -> f64 {
        self.ordered(order).run_rows(column, self)
    }
}

/// Locks a mutex. Its data cannot be inconsistent, so a panic of another holder is ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
