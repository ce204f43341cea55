//! One run of a stage: its tasks, those of them that are repeated, and those that run here.
//!
//! The rows of a task count when all of them have come, so nothing of a task that fails is ever used. The parts of a worker
//! that is lost go to the others, up to [`LOST_MAX`] times a run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::{ExecutionPlanProperties, execute_stream};
use futures::stream::FuturesUnordered;
use futures::{StreamExt, TryStreamExt};

use super::stages::Stage;
use super::task::Task;
use super::{TaskError, Workers, placement};
use crate::context::{Cancellation, within};
use crate::error::{Error, ErrorKind};
use crate::optimizer::physical;
use crate::provider::{FreestoneSource, Piece, with_source};

/// How often the parts of lost workers are given to others.
const LOST_MAX: usize = 3;

/// What is needed to run a stage.
#[derive(Debug)]
pub(crate) struct Run {
    pub task: Task,
    pub stage: Stage,
    /// The scan that is divided.
    pub source: FreestoneSource,
    /// The parts of each worker.
    pub shares: Vec<(String, Vec<Piece>)>,
    pub workers: Arc<dyn Workers>,
    pub context: Arc<TaskContext>,
    pub cancellation: Cancellation,
}

/// A task that has run.
#[derive(Debug, Clone)]
pub(crate) struct TaskReport {
    /// The worker; `None` for this process.
    pub worker: Option<String>,
    pub parts: usize,
    pub rows: usize,
    pub time: Duration,
    /// Why another worker, or this process, ran it.
    pub note: Option<String>,
}

/// What is still to do: parts, and why they were not done.
struct Open {
    pieces: Vec<Piece>,
    note: Option<String>,
}

type Done = (Vec<RecordBatch>, TaskReport);

/// A task without rows: its worker, its parts, and the reason.
type Failed = (String, Vec<Piece>, TaskError);

impl Run {
    /// The rows of all tasks.
    ///
    /// # Errors
    /// The statement fails, is cancelled, or lost too many workers.
    pub async fn all(&self) -> Result<(Vec<RecordBatch>, Vec<TaskReport>)> {
        let memory = MemoryConsumer::new("the rows of workers").register(self.context.memory_pool());
        let (mut all, mut lost): (Vec<Done>, usize) = (vec![], 0);
        let mut excluded: Vec<String> = vec![];
        let first = self.shares.iter().cloned().map(|(worker, pieces)| (worker, Open { pieces, note: None }));
        let mut shares: Vec<(String, Open)> = first.collect();
        loop {
            let (done, failed) = self.attempt(std::mem::take(&mut shares), &memory).await?;
            all.extend(done);
            let mut again = vec![];
            for (worker, pieces, error) in failed {
                match error {
                    TaskError::Differs(reason) => {
                        all.push(self.here(pieces, format!("{worker}: {reason}"), &memory).await?);
                        continue;
                    }
                    TaskError::Lost(reason) => {
                        lost += 1;
                        if lost > LOST_MAX {
                            return Err(lost_too_often(&worker, &reason).into());
                        }
                        again.push((pieces, format!("{worker} was lost: {reason}")));
                    }
                    TaskError::Declined(reason) => again.push((pieces, format!("{worker}: {reason}"))),
                    TaskError::Failed(error) => return Err(error.into()),
                }
                excluded.push(worker);
            }
            if again.is_empty() {
                let (batches, reports): (Vec<_>, Vec<_>) = all.into_iter().unzip();
                return Ok((batches.into_iter().flatten().collect(), reports));
            }
            let ready: Vec<String> =
                self.workers.ready().into_iter().filter(|worker| !excluded.contains(worker)).collect();
            for (pieces, note) in again {
                if ready.is_empty() {
                    all.push(self.here(pieces, note, &memory).await?);
                    continue;
                }
                let again = placement::assigned(self.source.table(), &pieces, &ready);
                let noted = |(worker, pieces)| (worker, Open { pieces, note: Some(note.clone()) });
                shares.extend(again.into_iter().map(noted));
            }
        }
    }

    /// Runs tasks on their workers, all at the same time.
    async fn attempt(
        &self,
        shares: Vec<(String, Open)>,
        memory: &MemoryReservation,
    ) -> Result<(Vec<Done>, Vec<Failed>)> {
        let asked = shares.into_iter().filter(|(_, open)| !open.pieces.is_empty());
        let mut running: FuturesUnordered<_> = asked.map(|(worker, open)| self.one(worker, open, memory)).collect();
        let (mut done, mut failed) = (vec![], vec![]);
        while let Some(outcome) = running.next().await {
            match outcome? {
                Ok(rows) => done.push(rows),
                Err(error) => failed.push(error),
            }
        }
        Ok((done, failed))
    }

    async fn one(&self, worker: String, open: Open, memory: &MemoryReservation) -> Result<Result<Done, Failed>> {
        let began = Instant::now();
        let task = Task { pieces: open.pieces.clone(), ..self.task.clone() };
        let mut rows = match self.workers.run(&worker, &task).await {
            Ok(rows) => rows,
            Err(error) => return Ok(Err((worker, open.pieces, error))),
        };
        let (mut batches, mut claimed) = (vec![], 0);
        while let Some(batch) = rows.next().await {
            match batch {
                Ok(batch) => {
                    let batch = self.fitting(batch)?;
                    claimed += batch.get_array_memory_size();
                    memory.try_grow(batch.get_array_memory_size())?;
                    batches.push(batch);
                }
                Err(error) => {
                    memory.shrink(claimed);
                    return Ok(Err((worker, open.pieces, error)));
                }
            }
        }
        let (parts, rows) = (open.pieces.len(), batches.iter().map(RecordBatch::num_rows).sum());
        Ok(Ok((batches, TaskReport { worker: Some(worker), parts, rows, time: began.elapsed(), note: open.note })))
    }

    /// A batch with the schema of the stage, whose types it must have.
    fn fitting(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let schema = self.stage.plan.schema();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = batch.columns().to_vec();
        Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }

    /// Runs a task in this process.
    async fn here(&self, pieces: Vec<Piece>, note: String, memory: &MemoryReservation) -> Result<Done> {
        let (began, parts) = (Instant::now(), pieces.len());
        let rows = begin(&self.stage, (self.task.scan, &self.source), pieces, &self.context, &self.cancellation)?;
        let batches: Vec<RecordBatch> = rows.try_collect().await?;
        memory.try_grow(batches.iter().map(RecordBatch::get_array_memory_size).sum())?;
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        Ok((batches, TaskReport { worker: None, parts, rows, time: began.elapsed(), note: Some(note) }))
    }
}

/// The rows of a stage of which some parts of the divided scan are read.
///
/// # Errors
/// The stage does not take the scan, or cannot begin.
pub(crate) fn begin(
    stage: &Stage,
    (scan, source): (usize, &FreestoneSource),
    pieces: Vec<Piece>,
    context: &Arc<TaskContext>,
    cancellation: &Cancellation,
) -> Result<SendableRecordBatchStream> {
    let plan = with_source(stage.plan.clone(), scan, source.of_pieces(pieces))?;
    let plan = match plan.output_partitioning().partition_count() {
        1 => plan,
        _ => Arc::new(CoalescePartitionsExec::new(plan)),
    };
    let plan = physical::for_run(plan, context.session_config().options(), cancellation, false)?;
    within(Some(cancellation.clone()), || execute_stream(plan, context.clone()))
}

fn lost_too_often(worker: &str, reason: &str) -> Error {
    let message = format!("the statement lost {} workers, the last one was {worker}: {reason}", LOST_MAX + 1);
    Error::new(ErrorKind::Cluster, message)
        .with_hint("repeat the statement; freestone_workers() shows which workers are there, and why others are not")
}
