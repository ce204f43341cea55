//! The rows of a shared query while a plan runs: computed once, and read by every scan as often as necessary.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::runtime::JoinSet;
use datafusion::common::{DataFusionError, internal_err};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, SpillFile, TaskContext};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::spill::{SpillManager, get_record_batch_memory_size};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::{FutureExt, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::context::panicked;

/// The bytes of rows in a spill file. A scan reads whole files.
const FILE_BYTES: usize = 16 << 20;

/// The rows of one shared query in one run of its plan.
#[derive(Default)]
pub(super) struct Rows {
    source: Mutex<Source>,
    made: Arc<RowsSoFar>,
}

/// The source of the rows and the tasks that compute them. The tasks end when nobody can read the rows any more.
#[derive(Default)]
struct Source {
    plan: Option<(Arc<dyn ExecutionPlan>, Arc<TaskContext>)>,
    makers: Option<JoinSet<()>>,
}

/// The rows that were computed so far.
#[derive(Default)]
struct RowsSoFar {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    parts: Vec<Part>,
    /// The number of the query's partitions that are still running.
    running: usize,
    failed: Option<Arc<DataFusionError>>,
    /// The memory reserved for the parts in memory.
    memory: Option<Arc<MemoryReservation>>,
    spills: Option<SpillManager>,
}

/// Some rows, in the order of their arrival.
#[derive(Clone)]
enum Part {
    Memory(RecordBatch),
    File(Arc<dyn SpillFile>),
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("parts", &self.made.state.lock().parts.len()).finish_non_exhaustive()
    }
}

impl Rows {
    /// Sets the plan that computes the rows. It runs when the first scan requests rows.
    pub fn come_from(&self, plan: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) {
        self.source.lock().plan.get_or_insert_with(|| (plan.clone(), context.clone()));
    }

    /// Reads columns of every `of`-th part, starting with part `share`.
    pub fn read(
        self: Arc<Self>,
        schema: SchemaRef,
        places: Vec<usize>,
        (share, of): (usize, usize),
        metrics: BaselineMetrics,
    ) -> SendableRecordBatchStream {
        let parts = futures::stream::try_unfold((self, share), move |(rows, at)| async move {
            rows.begin()?;
            let part = rows.made.part(at).await?;
            Ok::<_, DataFusionError>(part.map(|part| (part, (rows, at + of))))
        });
        let project = move |batch: RecordBatch| {
            let batch = batch.project(&places)?;
            metrics.record_output(batch.num_rows());
            Ok(batch)
        };
        let batches = parts.try_flatten().map(move |batch| batch.and_then(&project));
        Box::pin(RecordBatchStreamAdapter::new(schema, batches))
    }

    /// Starts the query if it has not been started.
    fn begin(&self) -> Result<()> {
        let mut source = self.source.lock();
        if source.makers.is_some() {
            return Ok(());
        }
        let Some((plan, context)) = source.plan.clone() else {
            return internal_err!("the rows of a shared query come from nowhere");
        };
        let partitions = plan.output_partitioning().partition_count();
        let spills = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
        let spills = SpillManager::new(context.runtime_env(), spills, plan.schema());
        let memory = MemoryConsumer::new("SharedQueriesExec").with_can_spill(true).register(context.memory_pool());
        let memory = Arc::new(memory);
        {
            let mut state = self.made.state.lock();
            state.running = partitions;
            state.memory = Some(memory.clone());
            state.spills = Some(spills.clone());
        }
        let mut makers = JoinSet::new();
        for partition in 0..partitions {
            let rows = plan.execute(partition, context.clone())?;
            let maker = Maker { made: self.made.clone(), memory: memory.clone(), spills: spills.clone() };
            makers.spawn(maker.run(rows));
        }
        source.makers = Some(makers);
        Ok(())
    }
}

impl RowsSoFar {
    /// The rows of a part, when they are available; `None` after the last part.
    async fn part(&self, at: usize) -> Result<Option<SendableRecordBatchStream>> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let part = {
                let state = self.state.lock();
                if let Some(error) = &state.failed {
                    return Err(DataFusionError::Shared(error.clone()));
                }
                match state.parts.get(at) {
                    Some(part) => Some((part.clone(), state.spills.clone())),
                    None if state.running == 0 => return Ok(None),
                    None => None,
                }
            };
            match part {
                Some((Part::Memory(batch), _)) => {
                    let schema = batch.schema();
                    let rows = futures::stream::iter([Ok(batch)]);
                    return Ok(Some(Box::pin(RecordBatchStreamAdapter::new(schema, rows))));
                }
                Some((Part::File(file), Some(spills))) => return spills.read_spill_as_stream(file, None).map(Some),
                Some((Part::File(_), None)) => return internal_err!("a spill file without its reader"),
                None => changed.await,
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        self.changed.notify_waiters();
    }
}

/// Computes the rows of one partition.
struct Maker {
    made: Arc<RowsSoFar>,
    memory: Arc<MemoryReservation>,
    spills: SpillManager,
}

impl Maker {
    async fn run(self, rows: SendableRecordBatchStream) {
        let kept = AssertUnwindSafe(self.keep(rows)).catch_unwind().await;
        let kept = kept.unwrap_or_else(|panic| Err(panicked(&*panic).into()));
        self.made.change(|state| {
            state.running -= 1;
            if let Err(error) = kept {
                state.failed.get_or_insert_with(|| Arc::new(error));
            }
        });
    }

    /// Stores rows in memory while the pool has some, and otherwise in files.
    async fn keep(&self, mut rows: SendableRecordBatchStream) -> Result<()> {
        while let Some(batch) = rows.try_next().await? {
            if batch.num_rows() == 0 {
                continue;
            }
            if self.memory.try_grow(get_record_batch_memory_size(&batch)).is_ok() {
                self.made.change(|state| state.parts.push(Part::Memory(batch)));
                continue;
            }
            let mut file = self.spills.create_in_progress_file("rows of a shared query")?;
            let mut bytes = file.append_batch(&batch)?;
            while bytes < FILE_BYTES
                && let Some(batch) = rows.try_next().await?
            {
                bytes += file.append_batch(&batch)?;
            }
            if let Some(file) = file.finish()? {
                self.made.change(|state| state.parts.push(Part::File(file)));
            }
        }
        Ok(())
    }
}
