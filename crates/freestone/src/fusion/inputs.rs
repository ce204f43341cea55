//! What a fused query has from the session around it: memory, threads, cancellation, and the rows of other operators.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, UInt32Type};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use freestone_exec::convert::{from_arrow, from_codes};
use freestone_exec::error::{ExecError, Result as ExecResult};
use freestone_exec::pipeline::{Context, Inputs};
use freestone_exec::vector::{Batch, Dictionary, Values, Vector};
use freestone_store::Snapshot;
use futures::StreamExt;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::expressions::Known;
use crate::context::{Cancellation, within};
use crate::memory::FUSED;
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
        let _ = self.reservation.set(MemoryConsumer::new(FUSED).register(context.memory_pool()));
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
    promised: Vec<Vec<Promised>>,
    dictionaries: Dictionaries,
}

/// The dictionaries of the last columns of codes. The batches of a row group share one.
#[derive(Default)]
struct Dictionaries(Mutex<VecDeque<(ArrayRef, Arc<Dictionary>)>>);

/// What a file says of a column, and a compiled query relies on.
#[derive(Debug, Clone)]
pub(super) struct Promised {
    nullable: bool,
    bounds: Option<(i64, i64)>,
}

/// The error of a file that says of its values what is not so.
#[derive(Debug, thiserror::Error)]
#[error("a column has values outside of the bounds that its file states, or NULL although the file denies it")]
pub(super) struct Broken;

impl Dictionaries {
    /// More than there are columns of codes in a few row groups, usually.
    const MOST: usize = 64;

    fn vector(&self, column: &ArrayRef) -> Vector {
        match column.as_dictionary_opt::<UInt32Type>().filter(|codes| *codes.values().data_type() == DataType::Utf8) {
            Some(codes) => from_codes(codes, |texts| self.dictionary(texts)),
            None => from_arrow(column),
        }
    }

    fn dictionary(&self, texts: &ArrayRef) -> Arc<Dictionary> {
        let is_same = |known: &ArrayRef| {
            let (a, b) = (known.as_string::<i32>(), texts.as_string::<i32>());
            a.offsets().inner().ptr_eq(b.offsets().inner()) && a.values().ptr_eq(b.values())
        };
        let mut known = self.0.lock();
        if let Some((_, dictionary)) = known.iter().rev().find(|(of, _)| is_same(of)) {
            return dictionary.clone();
        }
        let dictionary = Arc::new(Dictionary::new(texts.as_string::<i32>().into()));
        known.push_back((texts.clone(), dictionary.clone()));
        if known.len() > Self::MOST {
            known.pop_front();
        }
        dictionary
    }
}

impl Promised {
    pub fn of(known: &Known) -> Promised {
        Promised { nullable: known.nullable, bounds: known.int_bounds() }
    }

    fn holds(&self, vector: &Vector) -> bool {
        let has_nulls = vector.valid.as_ref().is_some_and(|valid| valid.null_count() > 0);
        let (Some((low, high)), Values::Int(values)) = (self.bounds, &vector.values) else {
            return self.nullable || !has_nulls;
        };
        let is_inside = |value: i64| value >= low && value <= high;
        let are_all = values.iter().fold(true, |all, value| all & is_inside(*value));
        match has_nulls {
            false => are_all,
            true => {
                self.nullable && (are_all || (0..values.len()).all(|row| vector.is_null(row) || is_inside(values[row])))
            }
        }
    }
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
    pub fn of(
        plans: &[Arc<dyn ExecutionPlan>],
        promised: Vec<Vec<Promised>>,
        context: &Arc<TaskContext>,
    ) -> Result<Streams> {
        let inputs = plans.iter().map(|plan| Partitions::of(plan, context)).collect::<Result<Vec<_>>>()?;
        Ok(Streams { runtime: Handle::try_current().ok(), inputs, promised, dictionaries: Dictionaries::default() })
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
                let columns: Vec<Vector> =
                    batch.columns().iter().map(|column| self.dictionaries.vector(column)).collect();
                if !self.promised[input].iter().zip(&columns).all(|(promised, column)| promised.holds(column)) {
                    return Err(ExecError::foreign(DataFusionError::External(Box::new(Broken))));
                }
                Ok(Some((number, Batch { rows: batch.num_rows(), columns })))
            }
        }
    }
}
