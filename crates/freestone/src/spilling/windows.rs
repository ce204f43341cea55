//! Window functions over some partitions at a time, or over some rows, if those near a row are all that its values depend on.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::{concat, partition};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalExprRef, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::limit::LimitStream;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt};

use crate::windows::reach_of;

/// The rows from which on the next partition is computed later.
const CHUNK_ROWS: usize = 1 << 15;

/// A node of window functions that holds the rows of a few partitions at a time, or a part of one. DataFusion's holds all rows.
#[derive(Debug)]
pub(super) struct DividedWindowsExec {
    window: Arc<dyn ExecutionPlan>,
    input: Arc<dyn ExecutionPlan>,
    /// The keys of partitions, as rows are in their order.
    keys: Vec<PhysicalSortExpr>,
    reach: Option<Reach>,
    metrics: ExecutionPlanMetricsSet,
}

/// The rows before and behind a row of which its functions need values.
#[derive(Debug, Clone, Copy, Default)]
struct Reach {
    before: usize,
    behind: usize,
}

impl Reach {
    /// That of all functions of a node; `None` if one needs others.
    fn of(window: &WindowAggExec) -> Option<Reach> {
        window.window_expr().iter().try_fold(Reach::default(), |reach, function| {
            let (before, behind) = reach_of(function.as_ref())?;
            Some(Reach { before: reach.before.max(before), behind: reach.behind.max(behind) })
        })
    }

    fn rows(self) -> usize {
        self.before.saturating_add(self.behind)
    }
}

impl DividedWindowsExec {
    /// Does what a node of DataFusion does.
    ///
    /// # Errors
    /// Its input is not in the order of the partitions.
    pub fn new(window: &WindowAggExec) -> Result<Self> {
        // Constants are among them, of which the order of the input says nothing.
        let keys = window.partition_by_sort_keys()?;
        let reach = Reach::of(window);
        let (window, input) = (Arc::new(window.clone()), window.input().clone());
        Ok(DividedWindowsExec { window, input, keys, reach, metrics: ExecutionPlanMetricsSet::new() })
    }
}

impl DisplayAs for DividedWindowsExec {
    fn fmt_as(&self, form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.window.fmt_as(form, f)
    }
}

impl ExecutionPlan for DividedWindowsExec {
    fn name(&self) -> &str {
        "DividedWindowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.window.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn apply_expressions(
        &self,
        on_expression: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.window.apply_expressions(on_expression)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([input]) = <[Arc<dyn ExecutionPlan>; 1]>::try_from(children) else {
            return internal_err!("window functions have one input");
        };
        let (window, keys, reach) = (self.window.clone(), self.keys.clone(), self.reach);
        Ok(Arc::new(DividedWindowsExec { window, input, keys, reach, metrics: ExecutionPlanMetricsSet::new() }))
    }

    fn execute(&self, number: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let chunks = Chunks {
            rows: Some(self.input.execute(number, context.clone())?),
            keys: self.keys.iter().map(|key| key.expr.clone()).collect(),
            reach: self.reach,
            pending: vec![],
            count: 0,
            done: 0,
            reservation: MemoryConsumer::new("a partition of window functions").register(context.memory_pool()),
        };
        let orders = [LexOrdering::new(self.keys.clone()), self.input.properties().output_ordering().cloned()];
        let (window, orders) = (self.window.clone(), orders.into_iter().flatten().collect::<Vec<_>>());
        let (schema, metrics) = (self.input.schema(), BaselineMetrics::new(&self.metrics, number));
        let time = metrics.elapsed_compute().clone();
        let compute = move |Chunk { rows, skip, fetch }: Chunk| {
            let rows: Arc<dyn PartitionStream> = Arc::new(ChunkRows { schema: schema.clone(), rows });
            let input = StreamingTableExec::try_new(schema.clone(), vec![rows], None, orders.clone(), false, None)?;
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
            let window = window.clone().replace_children(vec![Arc::new(input)], options)?;
            let (rows, time) = (window.execute(0, context.clone())?, time.clone());
            let end = futures::stream::once(async move {
                let took = window.metrics().and_then(|metrics| metrics.elapsed_compute()).unwrap_or(0);
                time.add_duration(Duration::from_nanos(took as u64));
            });
            let rows =
                LimitStream::new(rows, skip, fetch, BaselineMetrics::new(&ExecutionPlanMetricsSet::new(), number));
            Ok::<_, DataFusionError>(rows.chain(end.filter_map(|()| std::future::ready(None))))
        };
        let chunks = futures::stream::try_unfold(chunks, |mut chunks| async move {
            Ok(chunks.next().await?.map(|chunk| (chunk, chunks)))
        });
        let rows = chunks.and_then(move |chunk| std::future::ready(compute(chunk))).try_flatten();
        let rows = rows.inspect_ok(move |batch: &RecordBatch| metrics.record_output(batch.num_rows()));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.window.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Rows of which functions are computed together.
struct Chunk {
    rows: Vec<RecordBatch>,
    /// The first rows, which are there for the values of others.
    skip: usize,
    /// The number of rows after these whose values are right; all without one.
    fetch: Option<usize>,
}

/// The same as an input.
#[derive(Debug)]
struct ChunkRows {
    schema: SchemaRef,
    rows: Vec<RecordBatch>,
}

impl PartitionStream for ChunkRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows = futures::stream::iter(self.rows.clone().into_iter().map(Ok));
        Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), rows))
    }
}

/// Rows, cut where a partition begins, or anywhere if functions need near rows only.
struct Chunks {
    rows: Option<SendableRecordBatchStream>,
    keys: Vec<PhysicalExprRef>,
    reach: Option<Reach>,
    pending: Vec<RecordBatch>,
    /// The number of pending rows.
    count: usize,
    /// How many of them only the values of others depend on.
    done: usize,
    reservation: MemoryReservation,
}

impl Chunks {
    /// The next rows, with those that they need.
    async fn next(&mut self) -> Result<Option<Chunk>> {
        match self.reach {
            Some(reach) => self.next_rows(reach).await,
            None => {
                let rows = self.next_partitions().await?;
                Ok(rows.map(|rows| Chunk { rows, skip: 0, fetch: None }))
            }
        }
    }

    /// The next rows, with those that are near them.
    async fn next_rows(&mut self, reach: Reach) -> Result<Option<Chunk>> {
        let least = self.done.saturating_add(CHUNK_ROWS.max(reach.rows())).saturating_add(reach.behind);
        while let Some(rows) = self.rows.as_mut().filter(|_| self.count < least) {
            match rows.next().await.transpose()? {
                Some(batch) => self.add(batch)?,
                None => self.rows = None,
            }
        }
        let end = if self.rows.is_some() { self.count - reach.behind } else { self.count };
        if end <= self.done {
            return Ok(None);
        }
        let chunk = Chunk { rows: self.pending.clone(), skip: self.done, fetch: Some(end - self.done) };
        self.done = end.min(reach.before);
        self.remove(end - self.done)?;
        Ok(Some(chunk))
    }

    /// Removes the first rows.
    fn remove(&mut self, mut rows: usize) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        self.take();
        for batch in pending {
            let removed = rows.min(batch.num_rows());
            rows -= removed;
            self.add(batch.slice(removed, batch.num_rows() - removed))?;
        }
        Ok(())
    }

    /// The rows of the next partitions.
    async fn next_partitions(&mut self) -> Result<Option<Vec<RecordBatch>>> {
        while let Some(rows) = &mut self.rows {
            let Some(batch) = rows.next().await.transpose()? else {
                self.rows = None;
                break;
            };
            let cut = if self.count >= CHUNK_ROWS { self.cut(&batch)? } else { None };
            let Some(at) = cut else {
                self.add(batch)?;
                continue;
            };
            self.add(batch.slice(0, at))?;
            let chunk = self.take();
            self.add(batch.slice(at, batch.num_rows() - at))?;
            return Ok(Some(chunk));
        }
        Ok(Some(self.take()).filter(|chunk| !chunk.is_empty()))
    }

    fn add(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() > 0 {
            self.reservation.try_grow(bytes_of(&batch))?;
            self.count += batch.num_rows();
            self.pending.push(batch);
        }
        Ok(())
    }

    fn take(&mut self) -> Vec<RecordBatch> {
        self.reservation.free();
        self.count = 0;
        std::mem::take(&mut self.pending)
    }

    /// Where the last partition of a batch begins, if it does not begin before it.
    fn cut(&self, batch: &RecordBatch) -> Result<Option<usize>> {
        let Some(before) = self.pending.last().filter(|_| !self.keys.is_empty()) else { return Ok(None) };
        let keys = self.keys_of(batch)?;
        if let Some(last) = partition(&keys)?.ranges().last().filter(|last| last.start > 0) {
            return Ok(Some(last.start));
        }
        let last = self.keys_of(&before.slice(before.num_rows() - 1, 1))?;
        let both = |(last, key): (&ArrayRef, &ArrayRef)| concat(&[last.as_ref(), key.slice(0, 1).as_ref()]);
        let both = last.iter().zip(&keys).map(both).collect::<Result<Vec<_>, _>>()?;
        Ok((partition(&both)?.ranges().len() > 1).then_some(0))
    }

    fn keys_of(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        self.keys.iter().map(|key| key.evaluate(batch)?.into_array(batch.num_rows())).collect()
    }
}

/// The memory of rows, without that of others in the same buffers.
fn bytes_of(batch: &RecordBatch) -> usize {
    let of_column = |column: &ArrayRef| match column.data_type() {
        DataType::Utf8View => column.as_string_view().lengths().map(|length| 16 + length as usize).sum(),
        DataType::BinaryView => column.as_binary_view().lengths().map(|length| 16 + length as usize).sum(),
        _ => column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size()),
    };
    batch.columns().iter().map(of_column).sum()
}
