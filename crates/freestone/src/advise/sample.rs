//! Rows of a table to judge designs by: runs of neighbours from all over it, in the table's order.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::SchemaRef;
use freestone_advisor::statistics::sample_table;
use freestone_store::Table;
use freestone_store::scan::GRANULE_ROWS;

use crate::error::Result;

/// Rows and bytes of a sample, at most.
pub(crate) const ROWS_MAX: usize = 1 << 20;
const BYTES_MAX: usize = 256 << 20;

/// Some of a table's rows.
pub(crate) struct Sample {
    pub schema: SchemaRef,
    /// One batch a granule.
    pub batches: Vec<RecordBatch>,
    pub rows: usize,
}

impl Sample {
    /// At most so many rows of a table, fewer where they are long.
    pub fn of(table: &Arc<Table>, rows_max: usize) -> Result<Sample> {
        let first = sample_table(table, 1)?;
        let bytes: usize = first.iter().map(RecordBatch::get_array_memory_size).sum();
        let granules = (rows_max / GRANULE_ROWS).min(BYTES_MAX / bytes.max(1)).max(1);
        let batches = sample_table(table, granules)?;
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        Ok(Sample { schema: table.schema.to_arrow(), batches, rows })
    }

    /// So many of the batches, from all over the sample.
    pub fn blocks(&self, wanted: usize) -> Vec<RecordBatch> {
        let (all, wanted) = (self.batches.len(), wanted.min(self.batches.len()));
        (0..wanted).map(|at| self.batches[at * all / wanted].clone()).collect()
    }

    /// Few rows from all over the sample, as one batch.
    pub fn few(&self, rows: usize) -> Result<RecordBatch> {
        let each = (rows / self.batches.len().max(1)).max(1);
        let parts: Vec<RecordBatch> =
            self.batches.iter().map(|batch| batch.slice(0, each.min(batch.num_rows()))).collect();
        Ok(concat_batches(&self.schema, &parts)?)
    }
}
