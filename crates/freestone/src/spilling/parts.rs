//! The rows of one side of a join, divided by the hashes of their keys into parts in files.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{BatchCoalescer, take_record_batch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::NullEquality;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, SpillFile, TaskContext};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::metrics::SpillMetrics;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, SpillManager};
use futures::{StreamExt, TryStreamExt};

/// How many parts there are. Their files are open at the same time, for each side and each level of dividing.
pub(super) const PARTS: usize = 16;
/// The rows of which each part gets its rows at once.
const DIVIDED_ROWS: usize = 8192;

/// Rows in files.
#[derive(Clone)]
pub(super) struct Part {
    manager: SpillManager,
    file: Option<Arc<dyn SpillFile>>,
    pub rows: usize,
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows", self.rows)
    }
}

impl Part {
    /// A plan that reads the rows.
    pub fn plan(&self) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = self.manager.schema().clone();
        Ok(Arc::new(StreamingTableExec::try_new(schema, vec![Arc::new(self.clone())], None, [], false, None)?))
    }
}

impl PartitionStream for Part {
    fn schema(&self) -> &SchemaRef {
        self.manager.schema()
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let read = |file: &Arc<dyn SpillFile>| self.manager.read_spill_as_stream(file.clone(), None);
        match self.file.as_ref().map(read).transpose() {
            Ok(Some(rows)) => rows,
            Ok(None) => rows_of(self.schema(), vec![]),
            Err(error) => rows_of(self.schema(), vec![Err(error)]),
        }
    }
}

fn rows_of(schema: &SchemaRef, batches: Vec<Result<RecordBatch>>) -> SendableRecordBatchStream {
    Box::pin(RecordBatchStreamAdapter::new(schema.clone(), futures::stream::iter(batches)))
}

/// Divides rows.
pub(super) struct Divider {
    /// The keys of the rows.
    pub keys: Vec<PhysicalExprRef>,
    pub null_equality: NullEquality,
    /// How often the rows have been divided before: each time, other hashes divide them.
    pub level: u32,
}

impl Divider {
    /// Divides the rows of a stream.
    ///
    /// # Errors
    /// The stream fails, or a file cannot be written.
    pub async fn divide(
        &self,
        rows: SendableRecordBatchStream,
        context: &TaskContext,
        metrics: SpillMetrics,
    ) -> Result<Vec<Part>> {
        let compression = context.session_config().spill_compression();
        let manager =
            SpillManager::new(context.runtime_env(), metrics, rows.schema()).with_compression_type(compression);
        let files = (0..PARTS).map(|_| manager.create_in_progress_file("a join of more rows than memory holds"));
        let mut files = files.collect::<Result<Vec<_>>>()?;
        let mut counts = vec![0; PARTS];
        let mut batches = coalesced(rows);
        while let Some(batch) = batches.try_next().await? {
            for (part, chosen) in self.parts_of(&batch)?.into_iter().enumerate() {
                if !chosen.is_empty() {
                    counts[part] += chosen.len();
                    files[part].append_batch(&take_record_batch(&batch, &UInt32Array::from(chosen))?)?;
                }
            }
        }
        let parts = files.into_iter().zip(counts).map(|(mut file, rows)| {
            let file = file.finish()?;
            Ok(Part { manager: manager.clone(), file, rows })
        });
        parts.collect()
    }

    /// The rows of a batch that belong to each part.
    fn parts_of(&self, batch: &RecordBatch) -> Result<Vec<Vec<u32>>> {
        let value = |key: &PhysicalExprRef| key.evaluate(batch)?.into_array(batch.num_rows());
        let keys = self.keys.iter().map(value).collect::<Result<Vec<ArrayRef>>>()?;
        let mut hashes = vec![0; batch.num_rows()];
        create_hashes(&keys, &RandomState::default(), &mut hashes)?;
        let mut parts = vec![vec![]; PARTS];
        for (row, hash) in hashes.iter().enumerate() {
            // Rows with a NULL have no partner, so any part can have them, and no part gets all of them.
            let is_alone =
                self.null_equality == NullEquality::NullEqualsNothing && keys.iter().any(|key| key.is_null(row));
            let part = if is_alone { row } else { mixed(*hash, self.level) as usize };
            parts[part % PARTS].push(row as u32);
        }
        Ok(parts)
    }
}

/// The hash for a level: rows of one part at one level are in different parts at the next. (Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators", 2014.)
fn mixed(hash: u64, level: u32) -> u64 {
    let z = hash.wrapping_add(u64::from(level + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The same rows in larger batches.
fn coalesced(rows: SendableRecordBatchStream) -> impl futures::Stream<Item = Result<RecordBatch>> + Unpin + Send {
    let coalescer = BatchCoalescer::new(rows.schema(), DIVIDED_ROWS);
    let batches = futures::stream::try_unfold((Some(rows), coalescer), |(mut rows, mut coalescer)| async move {
        loop {
            if let Some(batch) = coalescer.next_completed_batch() {
                return Ok(Some((batch, (rows, coalescer))));
            }
            let Some(stream) = &mut rows else { return Ok(None) };
            match stream.next().await.transpose()? {
                Some(batch) => coalescer.push_batch(batch)?,
                None => {
                    rows = None;
                    coalescer.finish_buffered_batch()?;
                }
            }
        }
    });
    Box::pin(batches)
}
