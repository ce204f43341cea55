//! What is known of a table: from contiguous runs of its rows that are really encoded, in whatever form a design asks for.
//! Sizes are measured on the sample, not modelled; what the sample cannot show (runs as long as the whole table has when it is
//! sorted) is scaled up from it.

mod encoded;
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
pub use encoded::{ChunkForm, DenseForm, SlottedForm};
pub use order::Order;
use order::Ordered;
use paths::PathColumn;
use sample::Sample;
pub use sample::{SAMPLE_BLOCKS, sample_table};
use zones::Zones;

/// What the model and the search know of a table. Forms of columns are found when they are asked for, and kept.
#[derive(Debug)]
pub struct TableStatistics {
    pub schema: TableSchema,
    pub rows: u64,
    /// How the rows lie now; their order is the sample's.
    pub current: Design,
    pub columns: Vec<ColumnStatistics>,
    /// Bytes of the table's segments now, where a stored table was looked at.
    pub stored_bytes: Option<u64>,
    sample: Sample,
    /// Whether rows of the sample that are neighbours there lie apart in the table.
    is_thinned: bool,
    /// Attributes that foreign keys lead to, numbered behind the table's columns.
    paths: Vec<Arc<PathColumn>>,
    zones: Option<Zones>,
    orders: Mutex<HashMap<Order, Arc<Ordered>>>,
    forms: Mutex<encoded::Forms>,
}

/// One column, in the order that the rows have now.
#[derive(Debug, Clone)]
pub struct ColumnStatistics {
    pub name: String,
    pub data_type: DataType,
    pub kind: Kind,
    /// Share of the rows that are NULL.
    pub nulls: f64,
    /// Different values in the table, estimated.
    pub distinct: f64,
    /// Bytes of a text on average; of a number, those of its type.
    pub width: f64,
    /// Rows of a run of equal values, on average.
    pub run_rows: f64,
}

impl ColumnStatistics {
    pub fn is_text(&self) -> bool {
        self.kind == Kind::Bytes
    }
}

impl TableStatistics {
    /// Statistics of a table of `rows` rows from some of them: each batch a run of neighbouring rows, in table order; 8,192
    /// rows a batch, spread evenly, show zones and encodings as they are. `current`: how the rows lie now.
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

    /// The same, where each batch is not a run of neighbours, but every so manieth row of a longer one. Rows that lie in
    /// clusters need that: few runs of them know few clusters.
    pub fn of_thinned(schema: TableSchema, rows: u64, current: Design, batches: &[RecordBatch]) -> Result<Self> {
        let statistics = TableStatistics::new(schema, rows, current, batches)?;
        Ok(TableStatistics { is_thinned: true, ..statistics })
    }

    /// Statistics of a stored table, from blocks of its rows that this reads.
    pub fn of_table(table: &Arc<Table>) -> Result<Self> {
        let mut batches = vec![];
        sample_table(table, SAMPLE_BLOCKS, |batch| batches.push(batch))?;
        let rows = table.rows();
        let mut statistics = TableStatistics::new(table.schema.clone(), rows, table.design.clone(), &batches)?;
        statistics.look_at(table)?;
        Ok(statistics)
    }

    /// Takes from the stored table what its metadata tell: bytes, and the bounds of its zones.
    pub fn look_at(&mut self, table: &Arc<Table>) -> Result<()> {
        self.stored_bytes = Some(table.bytes());
        self.zones = Some(Zones::of(table)?);
        Ok(())
    }

    /// Share of the rows that pass a predicate on a column, counted on the sample: at least half a row of it. One value that
    /// only one run of the sample has is taken to be as frequent as values are on average. Zones bound what the sample says.
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

    pub fn sample_rows(&self) -> usize {
        self.sample.rows()
    }

    /// The range of a predicate `low <= c <= high` in a numeric column (floats as their order keys) that passes about
    /// `share` of the rows, beginning at quantile `from`; `None` for texts and columns without values.
    pub fn range(&self, column: usize, from: f64, share: f64) -> Option<(i128, i128)> {
        self.sample.range(column, from, share)
    }

    /// Rows of a full segment, or of the only one.
    pub fn segment_rows(&self) -> f64 {
        (self.rows as f64).min(freestone_store::SEGMENT_ROWS as f64).max(1.0)
    }

    fn ordered(&self, order: &Order) -> Arc<Ordered> {
        let known = lock(&self.orders).get(order).cloned();
        known.unwrap_or_else(|| {
            let made = Arc::new(Ordered::new(order, self));
            lock(&self.orders).entry(order.clone()).or_insert(made).clone()
        })
    }

    /// The share of a column's values, in their order, that a zone of 2,048 rows spans when the rows lie in `order`: 0 where
    /// each has one value, near 1 where each has all.
    pub fn zone_span(&self, column: usize, order: &Order) -> f64 {
        if let Some(zones) = self.zones.as_ref().filter(|_| order.is_current() && column < self.columns.len()) {
            return zones.span(column);
        }
        self.ordered(order).zone_span(column, self)
    }

    /// Rows of a run of equal values of a column, on average, when the rows lie in `order`.
    pub fn run_rows(&self, column: usize, order: &Order) -> f64 {
        self.ordered(order).run_rows(column, self)
    }
}

/// A lock whose holder cannot leave it half done: a panic elsewhere does not make what it guards wrong.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
