//! Rows of a table to judge designs by: runs of neighbours from all over it, in the table's order.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::SchemaRef;
use freestone_store::Table;
use freestone_store::scan::{Cursor, GRANULE_ROWS, ScanMetrics, ScanRequest, Unit, units};

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
    /// At most so many rows of a table.
    pub fn of(table: &Arc<Table>, rows_max: usize) -> Result<Sample> {
        let all = units(table, GRANULE_ROWS);
        let mut sample = Sample { schema: table.schema.to_arrow(), batches: vec![], rows: 0 };
        let mut wanted = (rows_max / GRANULE_ROWS).max(1).min(all.len());
        if wanted == 0 {
            return Ok(sample);
        }
        let mut bytes = 0;
        let mut at = 0;
        while at < wanted {
            let batch = granule(table, &all[spread(at, wanted, all.len())])?;
            if at == 0 {
                // What the first takes says how many fit.
                let fit = BYTES_MAX / batch.get_array_memory_size().max(1);
                wanted = wanted.min(fit.max(1));
            }
            bytes += batch.get_array_memory_size();
            sample.rows += batch.num_rows();
            sample.batches.push(batch);
            at += 1;
            if bytes > 2 * BYTES_MAX {
                break;
            }
        }
        Ok(sample)
    }

    /// So many of the batches, from all over the sample.
    pub fn blocks(&self, wanted: usize) -> Vec<RecordBatch> {
        let wanted = wanted.min(self.batches.len());
        (0..wanted).map(|at| self.batches[spread(at, wanted, self.batches.len())].clone()).collect()
    }

    /// Few rows from all over the sample, as one batch.
    pub fn few(&self, rows: usize) -> Result<RecordBatch> {
        let each = (rows / self.batches.len().max(1)).max(1);
        let parts: Vec<RecordBatch> =
            self.batches.iter().map(|batch| batch.slice(0, each.min(batch.num_rows()))).collect();
        Ok(concat_batches(&self.schema, &parts)?)
    }
}

/// The `at`-th of `wanted` places among `all`, evenly spread: the middle of its share.
fn spread(at: usize, wanted: usize, all: usize) -> usize {
    (2 * at + 1) * all / (2 * wanted)
}

fn granule(table: &Arc<Table>, unit: &Unit) -> Result<RecordBatch> {
    let request = ScanRequest::columns((0..table.schema.columns.len()).collect());
    let metrics = Arc::new(ScanMetrics::default());
    let mut cursor = Cursor::new(table.clone(), Arc::new(request), metrics);
    cursor.scan(unit, None)?;
    let mut parts = vec![];
    while let Some(batch) = cursor.next_ready() {
        parts.push(batch);
    }
    parts.extend(cursor.finish()?);
    Ok(concat_batches(cursor.schema(), &parts)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_spread_and_different() {
        for (wanted, all) in [(1, 1), (1, 10), (3, 10), (10, 10), (128, 1000)] {
            let places: Vec<usize> = (0..wanted).map(|at| spread(at, wanted, all)).collect();
            assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{places:?}");
            assert!(places.iter().all(|place| *place < all));
        }
    }
}
