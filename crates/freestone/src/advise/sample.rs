//! The rows of a table on which designs are evaluated: runs of adjacent rows from the whole table, in the table's
//! order.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{concat_batches, take_record_batch};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use freestone_advisor::TableStatistics;
use freestone_advisor::statistics::{SAMPLE_BLOCKS, sample_table};
use freestone_store::cluster::{DimensionPath, codes_of_path};
use freestone_store::column::{ColumnData, compacted};
use freestone_store::limits::GRANULE_ROWS;
use freestone_store::schema::Column;
use freestone_store::{Snapshot, Table};

use crate::error::Result;

/// The maximum rows and bytes of a sample.
pub(crate) const ROWS_MAX: usize = 1 << 20;
const BYTES_MAX: usize = 256 << 20;

/// The maximum number of rows that are read per sampled row.
const THINNED_MAX: usize = 8;

fn is_thinned(table: &Table) -> bool {
    !table.design.cluster.is_empty()
}

/// Every `step`-th row.
fn thinned(batch: &RecordBatch, step: usize) -> Result<RecordBatch> {
    let rows: UInt32Array = (0..batch.num_rows() as u32).step_by(step).collect::<Vec<_>>().into();
    Ok(compacted(&take_record_batch(batch, &rows)?))
}

/// Some of a table's rows.
pub(crate) struct Sample {
    pub schema: SchemaRef,
    /// One batch per granule.
    pub batches: Vec<RecordBatch>,
    pub rows: usize,
}

impl Sample {
    /// A sample of at most `rows_max` rows, or fewer if rows are long. From clustered tables, every n-th row is taken,
    /// from the whole table. Runs of adjacent rows would contain only a few clusters, and would make other orders seem
    /// better than they are.
    ///
    /// # Errors
    ///
    /// The table cannot be read.
    pub fn of(table: &Arc<Table>, rows_max: usize) -> Result<Sample> {
        let mut bytes = 0;
        sample_table(table, 1, |batch| bytes += batch.get_array_memory_size())?;
        let granules = (rows_max / GRANULE_ROWS).min(BYTES_MAX / bytes.max(1)).max(1);
        let all = table.segments.iter().map(|entry| (entry.rows as usize).div_ceil(GRANULE_ROWS)).sum::<usize>();
        let step = if is_thinned(table) { all.min(granules * THINNED_MAX).div_ceil(granules).max(1) } else { 1 };
        let mut batches = vec![];
        sample_table(table, granules * step, |batch| batches.push(thinned(&batch, step)))?;
        let batches = batches.into_iter().collect::<Result<Vec<_>>>()?;
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        Ok(Sample { schema: table.schema.to_arrow(), batches, rows })
    }

    /// Statistics from a part of the sample. `rows` is the number of rows of the table.
    ///
    /// # Errors
    ///
    /// A column cannot be encoded.
    pub fn statistics(&self, table: &Table, rows: u64) -> Result<TableStatistics> {
        let (schema, design) = (table.schema.clone(), table.design.clone());
        if is_thinned(table) {
            let step = self.rows.div_ceil(SAMPLE_BLOCKS * GRANULE_ROWS).max(1);
            let some = self.batches.iter().map(|batch| thinned(batch, step)).collect::<Result<Vec<_>>>()?;
            return Ok(TableStatistics::of_thinned(schema, rows, design, &some)?);
        }
        // They are encoded in many ways, so they are only a part of the rows that trials store.
        Ok(TableStatistics::new(schema, rows, design, &self.blocks(SAMPLE_BLOCKS))?)
    }

    /// The sample with further columns: the codes of attributes to which the table's foreign keys lead. The name of
    /// each is its path.
    ///
    /// # Errors
    ///
    /// A path does not exist, or a table cannot be read.
    pub fn with_paths(&self, table: &Table, snapshot: &Snapshot, paths: &[DimensionPath]) -> Result<Sample> {
        let mut fields: Vec<FieldRef> = self.schema.fields().iter().cloned().collect();
        fields.extend(paths.iter().map(|path| Arc::new(Field::new(path.to_string(), DataType::Int64, false))));
        let schema = Arc::new(Schema::new(fields));
        let data = |(at, column): (usize, &Column)| {
            let arrays: Vec<&ArrayRef> = self.batches.iter().map(|batch| batch.column(at)).collect();
            ColumnData::from_arrays(arrays, &column.data_type)
        };
        let columns: Vec<ColumnData> = table.schema.columns.iter().enumerate().map(data).collect();
        let mut codes = vec![];
        for path in paths {
            let (of_path, _) = codes_of_path(&|name| snapshot.table(name).cloned(), table, path, &columns)?;
            codes.push(Int64Array::from_iter_values(of_path.into_iter().map(i64::from)));
        }
        let mut end = 0;
        let widened = self.batches.iter().map(|batch| {
            let start = end;
            end += batch.num_rows();
            let own = codes.iter().map(|codes| Arc::new(codes.slice(start, batch.num_rows())) as ArrayRef);
            RecordBatch::try_new(schema.clone(), batch.columns().iter().cloned().chain(own).collect())
        });
        let batches = widened.collect::<Result<_, _>>()?;
        Ok(Sample { schema, batches, rows: self.rows })
    }

    /// `wanted` of the batches, from the whole sample.
    fn blocks(&self, wanted: usize) -> Vec<RecordBatch> {
        let (all, wanted) = (self.batches.len(), wanted.min(self.batches.len()));
        (0..wanted).map(|at| self.batches[at * all / wanted].clone()).collect()
    }

    /// About `rows` rows from the whole sample, as one batch.
    ///
    /// # Errors
    ///
    /// The batches cannot be concatenated.
    pub fn few(&self, rows: usize) -> Result<RecordBatch> {
        let each = (rows / self.batches.len().max(1)).max(1);
        let parts: Vec<RecordBatch> =
            self.batches.iter().map(|batch| batch.slice(0, each.min(batch.num_rows()))).collect();
        Ok(concat_batches(&self.schema, &parts)?)
    }
}
