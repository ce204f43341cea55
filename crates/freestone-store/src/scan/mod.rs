//! The scan, which is the same for all layouts. Zones are pruned by their aggregates, conjuncts run on encoded data in
//! the order of their observed cost and selectivity, and projected columns are decoded at the qualifying rows.

mod cursor;
mod distinct_strings;
mod estimate;
mod filters;
mod index;
mod lookup;
mod metrics;
mod morsels;
mod pool;
mod pruning;
mod sink;
mod stored;
mod tuples;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use freestone_codec::Predicate;

pub use crate::persistent::IteratorKind;
pub use cursor::Cursor;
pub use distinct_strings::few_distinct_strings;
pub use estimate::expected_bytes;
pub use index::{IndexMatches, index_asked};
pub use lookup::lookup;
pub use metrics::{ScanMetrics, ScanTotals};
pub use morsels::{Morsel, MorselQueue, Morsels, Pieces, morsels, surviving_morsels, surviving_morsels_of};
pub use pool::{PoolChoice, pool_choice};
pub use sink::Sink;
pub use stored::{StoredColumn, StoredPiece, StoredRows, StoredScan};
pub use tuples::{TupleBlock, TupleLayout};

use crate::error::Result;
use crate::segment::CodeFilter;
use crate::table::Table;

/// A predicate on one column of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnPredicate {
    /// The position of the column.
    pub column: usize,
    /// The predicate.
    pub predicate: Predicate,
}

/// The error of a filter, whose caller knows its type.
pub type FilterError = Box<dyn std::error::Error + Send + Sync>;

/// A filter that only the caller can evaluate, on decoded columns.
pub trait RowFilter: Send + Sync + std::fmt::Debug {
    /// The columns that it needs, in the order in which [`RowFilter::evaluate`] receives them.
    fn columns(&self) -> &[usize];

    /// Which rows pass: bit `i` of word `i / 64` for row `i` of `columns`.
    ///
    /// # Errors
    /// The reason why the filter failed.
    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<Vec<u64>, FilterError>;
}

/// Predicates that become known or narrower during a scan: from the build side of a join, or from a TopK.
pub trait DynamicFilter: Send + Sync + std::fmt::Debug {
    /// A number that changes whenever the filter changes.
    fn generation(&self) -> u64;

    /// Translates the current filter, unless another thread is doing so.
    fn prepare(&self) {}

    /// The current filter. Conjuncts that are no predicates on encoded data become a row filter.
    ///
    /// # Errors
    /// The reason why the filter cannot be translated.
    fn current(&self) -> Result<DynamicState, String>;
}

/// A dynamic filter at one moment.
#[derive(Debug, Clone, Default)]
pub struct DynamicState {
    /// Predicates on encoded values.
    pub predicates: Vec<ColumnPredicate>,
    /// Filters on decoded columns.
    pub row_filters: Vec<Arc<dyn RowFilter>>,
    /// As [`ScanRequest::codes`].
    pub codes: Vec<CodeFilter>,
}

/// The parameters of a scan.
#[derive(Debug, Clone)]
pub struct ScanRequest {
    /// The columns of the output, by position in the table.
    pub projection: Vec<usize>,
    /// Whether to add a last column with each row's id: segment ordinal times 2^32, plus row.
    pub row_ids: bool,
    /// Conjuncts on encoded values.
    pub predicates: Vec<ColumnPredicate>,
    /// Codes of clustered segments' dimensions that qualifying rows may have. They prune zones only, not rows.
    pub codes: Vec<CodeFilter>,
    /// Conjuncts on decoded columns.
    pub row_filters: Vec<Arc<dyn RowFilter>>,
    /// Filters that change while the scan runs.
    pub dynamic: Vec<Arc<dyn DynamicFilter>>,
    /// The minimum number of rows per batch, except for the last batch of a cursor.
    pub batch_rows: usize,
    /// How to find the rows: `None` as costs less. An index is not used where none has the predicates' columns.
    pub iterator: Option<IteratorKind>,
}

/// What an index is asked for: predicates, and whether it must be used or must not.
type Wanted<'a> = (&'a [ColumnPredicate], Option<IteratorKind>);

impl ScanRequest {
    /// A scan of all rows of some columns.
    pub fn columns(projection: Vec<usize>) -> Self {
        ScanRequest {
            projection,
            row_ids: false,
            predicates: vec![],
            codes: vec![],
            row_filters: vec![],
            dynamic: vec![],
            batch_rows: 8192,
            iterator: None,
        }
    }

    /// What an index is asked for.
    fn wanted(&self) -> Wanted<'_> {
        (&self.predicates, self.iterator)
    }

    /// The projected and the tested columns, ascending, without those of dynamic filters.
    pub(crate) fn touched(&self) -> Vec<usize> {
        let mut columns = self.projection.clone();
        columns.extend(self.predicates.iter().map(|p| p.column));
        columns.extend(self.row_filters.iter().flat_map(|f| f.columns().to_vec()));
        columns.sort_unstable();
        columns.dedup();
        columns
    }
}

/// Scans the `wanted` morsels of a table on one thread, and passes each batch to `take`.
pub(crate) fn for_each_batch(
    table: &Arc<Table>,
    request: Arc<ScanRequest>,
    wanted: impl Fn(&Morsel) -> bool,
    mut take: impl FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    let mut cursor = Cursor::new(table.clone(), request, Arc::new(ScanMetrics::default()));
    let morsels: Vec<_> = morsels(table, 1 << 16).into_iter().filter(|morsel| wanted(morsel)).collect();
    for (at, morsel) in morsels.iter().enumerate() {
        cursor.scan(morsel, morsels.get(at + 1))?;
        while let Some(batch) = cursor.next_ready() {
            take(batch)?;
        }
    }
    cursor.finish()?.map_or(Ok(()), take)
}

/// The type of the row id column.
pub const ROW_ID_TYPE: DataType = DataType::UInt64;

/// The row id of row `row` of the segment at position `segment` of the table.
pub fn row_id(segment: usize, row: usize) -> u64 {
    (segment as u64) << 32 | row as u64
}

/// Splits a row id of [`row_id`] into segment and row.
pub fn split_row_id(id: u64) -> (usize, u32) {
    ((id >> 32) as usize, id as u32)
}

/// The bits of a boolean array, with NULL as false.
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
