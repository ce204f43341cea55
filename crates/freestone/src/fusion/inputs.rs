//! What a fused query has from the session around it: memory, threads, cancellation, and the rows of other operators.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

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
use futures::stream::SelectAll;
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
    streams: Vec<tokio::sync::Mutex<Numbered>>,
}

struct Numbered {
    next: usize,
    stream: SelectAll<SendableRecordBatchStream>,
}

impl Streams {
    /// The streams of some plans.
    pub fn of(plans: &[Arc<dyn ExecutionPlan>], context: &Arc<TaskContext>) -> Result<Streams> {
        let stream = |plan: &Arc<dyn ExecutionPlan>| {
            let partitions = 0..plan.output_partitioning().partition_count();
            let streams = partitions.map(|partition| plan.execute(partition, context.clone()));
            let stream = futures::stream::select_all(streams.collect::<Result<Vec<_>>>()?);
            Ok(tokio::sync::Mutex::new(Numbered { next: 0, stream }))
        };
        let streams = plans.iter().map(stream).collect::<Result<Vec<_>>>()?;
        Ok(Streams { runtime: Handle::try_current().ok(), streams })
    }
}

impl Inputs for Streams {
    fn next(&self, input: usize) -> ExecResult<Option<(usize, Batch)>> {
        let Some(runtime) = &self.runtime else {
            return Err(ExecError::foreign("a query with several operators needs a runtime"));
        };
        let next = runtime.block_on(async {
            let mut numbered = self.streams[input].lock().await;
            let next = numbered.stream.next().await;
            numbered.next += 1;
            next.map(|batch| (numbered.next - 1, batch))
        });
        match next {
            None => Ok(None),
            Some((number, batch)) => {
                let batch = batch.map_err(ExecError::foreign)?;
                let columns = batch.columns().iter().map(from_arrow).collect();
                Ok(Some((number, Batch { rows: batch.num_rows(), columns })))
            }
        }
    }
}
