//! What a fused query has from the session around it: memory, threads, cancellation, and the rows of other operators.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use freestone_exec::convert::from_arrow;
use freestone_exec::error::{ExecError, Result as ExecResult};
use freestone_exec::pipeline::{Context, Inputs};
use freestone_exec::vector::Batch;
use freestone_store::Snapshot;
use futures::StreamExt;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::context::{Cancellation, within};
use crate::provider::FreestoneSource;

/// The context of one run.
pub(super) struct RunContext {
    threads: usize,
    is_cancelled: AtomicBool,
    reservation: OnceLock<MemoryReservation>,
    statement: OnceLock<Option<Cancellation>>,
    /// Of the scanned tables, whose files stay while rows are read.
    snapshots: Mutex<Vec<Arc<Snapshot>>>,
}

impl RunContext {
    pub fn new(threads: usize) -> RunContext {
        RunContext {
            threads: threads.max(1),
            is_cancelled: AtomicBool::new(false),
            reservation: OnceLock::new(),
            statement: OnceLock::new(),
            snapshots: Mutex::default(),
        }
    }

    /// Pins the files of a scan.
    pub fn pin(&self, source: &FreestoneSource) {
        self.snapshots.lock().extend(source.shared_snapshot());
    }

    /// The run begins, on behalf of the statement of this thread.
    pub fn begin(&self, context: &TaskContext) {
        let _ = self.reservation.set(MemoryConsumer::new("a fused query").register(context.memory_pool()));
        let _ = self.statement.set(crate::context::current());
    }

    /// Nobody wants the rows any more.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Works for the statement of the run.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        within(self.statement.get().cloned().flatten(), work)
    }
}

impl Context for RunContext {
    fn claim(&self, bytes: usize) -> ExecResult<()> {
        match self.reservation.get() {
            Some(reservation) => reservation.try_grow(bytes).map_err(ExecError::foreign),
            None => Ok(()),
        }
    }

    fn release(&self, bytes: usize) {
        if let Some(reservation) = self.reservation.get() {
            reservation.shrink(bytes.min(reservation.size()));
        }
    }

    fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
            || self.statement.get().and_then(Option::as_ref).is_some_and(Cancellation::is_cancelled)
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn enter(&self, work: &mut dyn FnMut()) {
        self.within(work);
    }
}

/// The rows of operators that the executor does not know.
pub(super) struct Streams {
    runtime: Option<Handle>,
    inputs: Vec<Partitions>,
}

/// The partitions of one input. A thread computes the next batch of one of them, so that several are computed at a time.
struct Partitions {
    /// `None`: it has ended.
    streams: Vec<tokio::sync::Mutex<Option<SendableRecordBatchStream>>>,
    /// The partition that is asked next.
    turn: AtomicUsize,
    /// The batches that were given, which are numbered as they come.
    given: AtomicUsize,
}

impl Partitions {
    fn of(plan: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Result<Partitions> {
        let partitions = 0..plan.output_partitioning().partition_count();
        let stream = |partition| Ok(tokio::sync::Mutex::new(Some(plan.execute(partition, context.clone())?)));
        let streams = partitions.map(stream).collect::<Result<Vec<_>>>()?;
        Ok(Partitions { streams, turn: AtomicUsize::new(0), given: AtomicUsize::new(0) })
    }

    /// The next batch of a partition that no other thread is at, if there is one, with its number.
    async fn next(&self) -> Option<(usize, Result<RecordBatch>)> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let in_turn = || (0..self.streams.len()).map(|at| &self.streams[(turn + at) % self.streams.len()]);
        for stream in in_turn() {
            if let Ok(stream) = stream.try_lock()
                && let Some(batch) = self.next_of(stream).await
            {
                return Some(batch);
            }
        }
        for stream in in_turn() {
            if let Some(batch) = self.next_of(stream.lock().await).await {
                return Some(batch);
            }
        }
        None
    }

    /// The next batch of one partition. Those of one partition are numbered in their order, because it is locked.
    async fn next_of(
        &self,
        mut stream: tokio::sync::MutexGuard<'_, Option<SendableRecordBatchStream>>,
    ) -> Option<(usize, Result<RecordBatch>)> {
        let batch = stream.as_mut()?.next().await;
        if batch.is_none() {
            *stream = None;
        }
        batch.map(|batch| (self.given.fetch_add(1, Ordering::Relaxed), batch))
    }
}

impl Streams {
    /// The streams of some plans.
    pub fn of(plans: &[Arc<dyn ExecutionPlan>], context: &Arc<TaskContext>) -> Result<Streams> {
        let inputs = plans.iter().map(|plan| Partitions::of(plan, context)).collect::<Result<Vec<_>>>()?;
        Ok(Streams { runtime: Handle::try_current().ok(), inputs })
    }
}

impl Inputs for Streams {
    fn next(&self, input: usize) -> ExecResult<Option<(usize, Batch)>> {
        let Some(runtime) = &self.runtime else {
            return Err(ExecError::foreign("a query with several operators needs a runtime"));
        };
        match runtime.block_on(self.inputs[input].next()) {
            None => Ok(None),
            Some((number, batch)) => {
                let batch = batch.map_err(ExecError::foreign)?;
                let columns = batch.columns().iter().map(from_arrow).collect();
                Ok(Some((number, Batch { rows: batch.num_rows(), columns })))
            }
        }
    }
}
