//! The scan: one core for all layouts. Zones are pruned by their aggregates, conjuncts run on encoded data in the order of
//! their observed selectivity, and what is projected is decoded at the rows that are left.

mod cursor;
mod estimate;
mod filters;
mod index;
mod judge;
mod metrics;
mod sink;
mod stored;
mod texts;
mod tuples;
mod units;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use freestone_codec::Predicate;

pub use cursor::Cursor;
pub use estimate::expected_bytes;
pub use index::{NamedRows, index_asked};
pub use metrics::{ScanMetrics, ScanTotals};
pub use sink::Sink;
pub use stored::{StoredColumn, StoredPiece, StoredRows, StoredScan};
pub use texts::few_texts;
pub use tuples::{TupleBlock, TupleLayout};
pub use units::{GRANULE_ROWS, Unit, UnitQueue, Units, surviving_units, units};

use crate::cluster::CodeFilter;
use crate::error::Result;
use crate::store::Table;

/// A predicate on one column of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnPredicate {
    pub column: usize,
    pub predicate: Predicate,
}

/// A filter that only the caller can evaluate, on decoded columns.
pub trait RowFilter: Send + Sync + std::fmt::Debug {
    /// The columns it needs, in the order that [`RowFilter::evaluate`] gets them.
    fn columns(&self) -> &[usize];

    /// Which of the rows pass: bit `i` of the answer for row `i` of `columns`.
    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<Vec<u64>, String>;
}

/// Predicates that become known or sharper while a scan runs: of a join's other side, of a TopK.
pub trait DynamicFilter: Send + Sync + std::fmt::Debug {
    /// A number that changes when the filter does.
    fn generation(&self) -> u64;

    /// Finds out what the filter is now, unless another thread is about it.
    fn prepare(&self) {}

    /// The filter now; conjuncts that cannot be said by predicates come as a row filter.
    fn current(&self) -> Result<DynamicState, String>;
}

/// What a dynamic filter is at one moment.
#[derive(Debug, Clone, Default)]
pub struct DynamicState {
    pub predicates: Vec<ColumnPredicate>,
    pub row_filters: Vec<Arc<dyn RowFilter>>,
    /// As [`ScanRequest::codes`].
    pub codes: Vec<CodeFilter>,
}

/// What a scan is asked for.
#[derive(Debug, Clone)]
pub struct ScanRequest {
    /// Columns of the output, by their position in the table.
    pub projection: Vec<usize>,
    /// Whether a last column gives each row's id: segment ordinal times 2^32 plus row.
    pub row_ids: bool,
    pub predicates: Vec<ColumnPredicate>,
    /// Which codes of clustered segments' dimensions are asked for: prunes zones, and no row of those that stay.
    pub codes: Vec<CodeFilter>,
    pub row_filters: Vec<Arc<dyn RowFilter>>,
    pub dynamic: Vec<Arc<dyn DynamicFilter>>,
    /// Rows a batch should have, at least, but for the last one of a cursor.
    pub batch_rows: usize,
}

impl ScanRequest {
    pub fn columns(projection: Vec<usize>) -> Self {
        ScanRequest {
            projection,
            row_ids: false,
            predicates: vec![],
            codes: vec![],
            row_filters: vec![],
            dynamic: vec![],
            batch_rows: 8192,
        }
    }

    /// The columns that it puts out, and those that it tests, ascending; without what becomes known while it runs.
    pub(crate) fn touched(&self) -> Vec<usize> {
        let mut columns = self.projection.clone();
        columns.extend(self.predicates.iter().map(|p| p.column));
        columns.extend(self.row_filters.iter().flat_map(|f| f.columns().to_vec()));
        columns.sort_unstable();
        columns.dedup();
        columns
    }
}

/// Scans the units of a table that are `wanted`, in one thread, and gives `take` each batch.
pub(crate) fn for_each_batch(
    table: &Arc<Table>,
    request: Arc<ScanRequest>,
    wanted: impl Fn(&Unit) -> bool,
    mut take: impl FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    let mut cursor = Cursor::new(table.clone(), request, Arc::new(ScanMetrics::default()));
    let units: Vec<_> = units(table, 1 << 16).into_iter().filter(|unit| wanted(unit)).collect();
    for (at, unit) in units.iter().enumerate() {
        cursor.scan(unit, units.get(at + 1))?;
        while let Some(batch) = cursor.next_ready() {
            take(batch)?;
        }
    }
    cursor.finish()?.map_or(Ok(()), take)
}

/// The type of the row id column.
pub const ROW_ID_TYPE: DataType = DataType::UInt64;

/// Row ids of a scan: which segment of the table, which row of it.
pub fn row_id(segment: usize, row: usize) -> u64 {
    (segment as u64) << 32 | row as u64
}

/// Splits what [`row_id`] joined.
pub fn split_row_id(id: u64) -> (usize, u32) {
    ((id >> 32) as usize, id as u32)
}

/// Bits of a boolean array, NULL as false.
pub fn boolean_bits(array: &arrow_array::BooleanArray) -> Vec<u64> {
    let len = array.len();
    let mut bits = vec![0u64; crate::bitmap::words(len)];
    for (at, word) in array.values().bit_chunks().iter_padded().take(bits.len()).enumerate() {
        bits[at] = word;
    }
    if let Some(nulls) = array.nulls() {
        for (at, word) in nulls.inner().bit_chunks().iter_padded().take(bits.len()).enumerate() {
            bits[at] &= word;
        }
    }
    crate::bitmap::trim(&mut bits, len);
    bits
}
