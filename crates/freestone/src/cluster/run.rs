//! One run of a stage: its tasks, those of them that are repeated, and those that run here.
//!
//! The rows of a task count when all of them have come, so nothing of a task that fails is ever used, and no row has left
//! the stage while one may fail. A lost worker ends the attempt; its parts are tried again by the others, up to
//! [`RERUNS_MAX`] times a stage, however many workers each attempt loses.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::{ExecutionPlanProperties, execute_stream};
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt, TryStreamExt};
use parking_lot::Mutex;

use super::ledger::{self, Idle, Ledger, Next};
use super::stages::Stage;
use super::task::Task;
use super::written::{Written, answer_schema};
use super::{TaskError, Workers, placement};
use crate::context::{Cancellation, within};
use crate::error::{Error, ErrorKind};
use crate::optimizer::physical;
use crate::provider::{FreestoneSource, Piece, with_source};
use crate::settings;

/// How often the parts of lost workers are tried again.
const RERUNS_MAX: usize = 3;
/// A stage is not divided again if its workers gave more rows than this, and more than one of so many that they read.
const GIVEN_LEAST: u64 = 50_000;
const GIVEN_SHARE: u64 = 5;

/// What is needed to run a stage.
#[derive(Debug, Clone)]
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
    /// Stages that are not worth another time.
    pub unfit: Arc<Mutex<BTreeSet<usize>>>,
    /// Where the rows are written. The answers are segments then.
    pub written: Option<Arc<Written>>,
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

/// A task that its worker has not been asked for yet. It is in the ledger.
struct Started {
    worker: String,
    open: Open,
    task: Task,
    began: Instant,
}

/// What came of a task, or of a claim.
enum Outcome {
    /// The rows, and who is idle now.
    Done(Done, Idle),
    Failed(Failed),
    /// There was nothing to claim.
    Nothing,
}

impl Run {
    /// The rows of all tasks.
    ///
    /// # Errors
    /// The statement fails, is cancelled, or lost too many workers.
    pub async fn all(&self) -> Result<(Vec<RecordBatch>, Vec<TaskReport>)> {
        let memory = MemoryConsumer::new("the rows of workers").register(self.context.memory_pool());
        let (mut all, mut reruns): (Vec<Done>, usize) = (vec![], 0);
        let mut excluded: Vec<String> = vec![];
        let first = self.shares.iter().cloned().map(|(worker, pieces)| (worker, Open { pieces, note: None }));
        let mut shares: Vec<(String, Open)> = first.collect();
        loop {
            let (done, failed) = self.attempt(std::mem::take(&mut shares), &memory).await?;
            all.extend(done);
            let (mut again, mut lost) = (vec![], None);
            for (worker, pieces, error) in failed {
                match error {
                    TaskError::Differs(reason) => {
                        all.push(self.here(pieces, format!("{worker}: {reason}"), &memory).await?);
                        continue;
                    }
                    TaskError::Lost(reason) => {
                        let note = format!("{worker} was lost: {reason}");
                        again.push((pieces, note.clone()));
                        lost = Some(note);
                    }
                    TaskError::Declined(reason) => again.push((pieces, format!("{worker}: {reason}"))),
                    TaskError::Failed(error) => return Err(error.into()),
                }
                excluded.push(worker);
            }
            if let Some(note) = lost {
                if reruns == RERUNS_MAX {
                    return Err(lost_too_often(&note).into());
                }
                reruns += 1;
            }
            if again.is_empty() {
                let (batches, reports): (Vec<_>, Vec<_>) = all.into_iter().unzip();
                self.judge(&reports);
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

    /// Whether workers are asked again when the statement comes again.
    fn judge(&self, reports: &[TaskReport]) {
        let given: u64 = reports.iter().map(|report| report.rows as u64).sum();
        let read: u64 = self.shares.iter().flat_map(|(_, pieces)| pieces).map(|piece| piece.rows.len() as u64).sum();
        if given > GIVEN_LEAST && given > read / GIVEN_SHARE {
            self.unfit.lock().insert(self.task.stage);
        }
    }

    /// Runs tasks on their workers, all at the same time. A worker that has ended its task claims some of what others have
    /// not begun.
    async fn attempt(
        &self,
        shares: Vec<(String, Open)>,
        memory: &MemoryReservation,
    ) -> Result<(Vec<Done>, Vec<Failed>)> {
        let ledger = &Ledger::default();
        let has_claims = settings::distribution_claims(self.context.session_config().options());
        let asked = shares.into_iter().filter(|(_, open)| !open.pieces.is_empty());
        let started: Vec<Started> = asked.map(|(worker, open)| self.started(worker, open, ledger)).collect();
        let mut running: FuturesUnordered<BoxFuture<'_, Result<Outcome>>> =
            started.into_iter().map(|started| self.one(started, ledger, memory).boxed()).collect();
        let (mut done, mut failed) = (vec![], vec![]);
        while let Some(outcome) = running.next().await {
            match outcome? {
                Outcome::Done(of_task, idle) => {
                    done.push(of_task);
                    if has_claims {
                        running.push(self.claimed(idle, ledger, memory).boxed());
                    }
                }
                Outcome::Failed(error) => failed.push(error),
                Outcome::Nothing => {}
            }
            if ledger.is_empty() {
                // Idle workers that wait have nothing to wait for.
                break;
            }
        }
        Ok((done, failed))
    }

    /// Runs on a worker what another one gives back.
    async fn claimed(&self, idle: Idle, ledger: &Ledger, memory: &MemoryReservation) -> Result<Outcome> {
        loop {
            let (id, worker, turn) = match ledger.next(&idle, Instant::now()) {
                Next::Ask { id, worker, turn } => (id, worker, turn),
                Next::Wait => {
                    tokio::time::sleep(ledger::STEP).await;
                    continue;
                }
                Next::Nothing => return Ok(Outcome::Nothing),
            };
            let mut given = self.workers.release(&worker, id, turn).await;
            if given.is_err() {
                given = self.workers.release(&worker, id, turn).await;
            }
            ledger.answered(id, given.as_deref().ok());
            if let Ok(pieces) = given
                && !pieces.is_empty()
            {
                let note = Some(format!("claimed from {worker}"));
                let started = self.started(idle.worker, Open { pieces, note }, ledger);
                return self.one(started, ledger, memory).await;
            }
        }
    }

    fn started(&self, worker: String, open: Open, ledger: &Ledger) -> Started {
        let target = self.written.as_ref().map(|written| written.target());
        let task = Task { target, ..self.task.of_pieces(open.pieces.clone()) };
        ledger.begin(task.id, &worker, &task.pieces);
        Started { worker, open, task, began: Instant::now() }
    }

    async fn one(&self, started: Started, ledger: &Ledger, memory: &MemoryReservation) -> Result<Outcome> {
        let Started { worker, open, task, began } = started;
        let (batches, claimed) = match self.rows_of(&worker, &task, ledger, memory).await? {
            Ok(rows) => rows,
            Err(error) => {
                let pieces = ledger::without(open.pieces, &ledger.end(task.id).await.given);
                return Ok(Outcome::Failed((worker, pieces, error)));
            }
        };
        let ended = ledger.end(task.id).await;
        let pieces = ledger::without(open.pieces, &ended.given);
        if ended.is_lost {
            memory.shrink(claimed);
            let error = TaskError::Lost("it did not say which parts it gave back".to_owned());
            return Ok(Outcome::Failed((worker, pieces, error)));
        }
        let (parts, rows) = (pieces.len(), batches.iter().map(RecordBatch::num_rows).sum());
        let (read, time) = (pieces.iter().map(|piece| piece.rows.len()).sum::<usize>(), began.elapsed());
        let idle = Idle { worker: worker.clone(), seconds_per_row: time.as_secs_f64() / read.max(1) as f64 };
        let report = TaskReport { worker: Some(worker), parts, rows, time, note: open.note };
        Ok(Outcome::Done((batches, report), idle))
    }

    /// The rows of a task, if all of them come, and the memory that they take.
    async fn rows_of(
        &self,
        worker: &str,
        task: &Task,
        ledger: &Ledger,
        memory: &MemoryReservation,
    ) -> Result<Result<(Vec<RecordBatch>, usize), TaskError>> {
        let mut rows = match self.workers.run(worker, task).await {
            Ok(rows) => rows,
            Err(error) => return Ok(Err(error)),
        };
        ledger.arrived(task.id);
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
                    return Ok(Err(error));
                }
            }
        }
        Ok(Ok((batches, claimed)))
    }

    /// A batch with the schema of the stage, whose types it must have.
    fn fitting(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let schema = if self.written.is_some() { answer_schema() } else { self.stage.plan.schema() };
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = batch.columns().to_vec();
        Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }

    /// Runs a task in this process.
    async fn here(&self, pieces: Vec<Piece>, note: String, memory: &MemoryReservation) -> Result<Done> {
        let (began, parts) = (Instant::now(), pieces.len());
        let rows = begin(
            &self.stage,
            (self.task.scan, self.source.of_pieces(pieces, None)),
            &self.context,
            &self.cancellation,
        )?;
        let rows = match &self.written {
            Some(written) => written.here(rows),
            None => rows,
        };
        let batches: Vec<RecordBatch> = rows.try_collect().await?;
        memory.try_grow(batches.iter().map(RecordBatch::get_array_memory_size).sum())?;
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        Ok((batches, TaskReport { worker: None, parts, rows, time: began.elapsed(), note: Some(note) }))
    }
}

/// The rows of a stage whose divided scan is this one, which reads some parts of its table.
///
/// # Errors
/// The stage does not take the scan, or cannot begin.
pub(crate) fn begin(
    stage: &Stage,
    (scan, source): (usize, FreestoneSource),
    context: &Arc<TaskContext>,
    cancellation: &Cancellation,
) -> Result<SendableRecordBatchStream> {
    let plan = with_source(stage.plan.clone(), scan, source)?;
    let plan = match plan.output_partitioning().partition_count() {
        1 => plan,
        _ => Arc::new(CoalescePartitionsExec::new(plan)),
    };
    let plan = physical::for_run(plan, context.session_config().options(), cancellation, false)?;
    within(Some(cancellation.clone()), || execute_stream(plan, context.clone()))
}

fn lost_too_often(note: &str) -> Error {
    let message =
        format!("the statement was tried again {RERUNS_MAX} times, and lost a worker each time; at last, {note}");
    Error::new(ErrorKind::Cluster, message)
        .with_hint("repeat the statement; freestone_workers() shows which workers are there, and why others are not")
}
