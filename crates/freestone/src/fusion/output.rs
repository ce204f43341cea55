//! The rows of a fused query on their way to its stream.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::DataFusionError;
use freestone_exec::convert::to_arrow;
use freestone_exec::error::{ExecError, Result as ExecResult};
use freestone_exec::pipeline::{Context, check};
use freestone_exec::run::Output;
use freestone_exec::vector::Batch;
use parking_lot::{Condvar, Mutex};
use tokio::sync::mpsc::Sender;

use super::exec::Query;
use super::inputs::RunContext;

/// What the threads of a query tell its stream.
pub(super) enum Message {
    /// The next rows.
    Rows(RecordBatch),
    /// There are no more rows.
    Failed(DataFusionError),
    /// Memory ran out before the first row.
    Spill,
}

/// Where batches go.
pub(super) enum Target {
    /// To the stream of the query.
    Stream(Sender<Message>),
    /// To a list.
    List(Mutex<Vec<RecordBatch>>),
}

/// Passes batches on as they come, or in the order of their units.
pub(super) struct Ordered {
    pub target: Target,
    schema: SchemaRef,
    context: Arc<RunContext>,
    order: Option<(Mutex<Waiting>, Condvar)>,
    limit: Option<Mutex<(usize, usize)>>,
    has_given: AtomicBool,
    is_done: AtomicBool,
    is_stopped: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    /// The unit whose batches are passed on.
    next: usize,
    /// Batches of later units, and whether the unit is complete.
    later: BTreeMap<usize, (Vec<RecordBatch>, bool)>,
}

/// A thread waits when it is so many units per thread ahead.
const AHEAD: usize = 4;
/// How often a waiting thread looks whether its query was cancelled.
const WAIT: Duration = Duration::from_millis(20);

impl Ordered {
    pub fn new(target: Target, query: &Query) -> Ordered {
        Ordered {
            target,
            schema: query.schema.clone(),
            context: query.context.clone(),
            order: query.in_order.then(Default::default),
            limit: query.limit.map(Mutex::new),
            has_given: AtomicBool::new(false),
            is_done: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
        }
    }

    /// Whether no more rows are wanted.
    pub fn is_done(&self) -> bool {
        self.is_done.load(Relaxed)
    }

    /// Whether rows were given.
    pub fn has_given(&self) -> bool {
        self.has_given.load(Relaxed)
    }

    fn arrow(&self, batch: &Batch) -> ExecResult<RecordBatch> {
        let fields = self.schema.fields().iter();
        let columns = batch.columns.iter().zip(fields).map(|(column, field)| to_arrow(column, field.data_type()));
        let columns = columns.collect::<ExecResult<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.rows));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).map_err(ExecError::foreign)
    }

    fn give(&self, batch: RecordBatch) -> ExecResult<()> {
        let Some(limit) = &self.limit else { return self.send(batch) };
        let mut limit = limit.lock();
        let skipped = limit.0.min(batch.num_rows());
        let given = limit.1.min(batch.num_rows() - skipped);
        *limit = (limit.0 - skipped, limit.1 - given);
        if given > 0 {
            self.send(batch.slice(skipped, given))?;
        }
        if limit.1 > 0 {
            return Ok(());
        }
        self.is_done.store(true, Relaxed);
        Err(ExecError::Cancelled)
    }

    fn send(&self, batch: RecordBatch) -> ExecResult<()> {
        self.has_given.store(true, Relaxed);
        match &self.target {
            Target::Stream(sender) => sender.blocking_send(Message::Rows(batch)).map_err(|_| {
                self.is_done.store(true, Relaxed);
                ExecError::Cancelled
            }),
            Target::List(list) => {
                list.lock().push(batch);
                Ok(())
            }
        }
    }
}

impl Output for Ordered {
    fn begin(&self) {
        if let Some((waiting, _)) = &self.order {
            *waiting.lock() = Waiting::default();
        }
    }

    fn push(&self, unit: usize, batch: Batch) -> ExecResult<()> {
        let batch = self.arrow(&batch)?;
        let Some((waiting, changed)) = &self.order else { return self.give(batch) };
        let mut waiting = waiting.lock();
        let ahead = AHEAD * self.context.threads();
        while unit > waiting.next + ahead {
            check(self.context.as_ref())?;
            if self.is_done() || self.is_stopped.load(Relaxed) {
                return Err(ExecError::Cancelled);
            }
            changed.wait_for(&mut waiting, WAIT);
        }
        if unit == waiting.next {
            return self.give(batch);
        }
        waiting.later.entry(unit).or_default().0.push(batch);
        Ok(())
    }

    fn end(&self, unit: usize) -> ExecResult<()> {
        let Some((waiting, changed)) = &self.order else { return Ok(()) };
        let mut waiting = waiting.lock();
        waiting.later.entry(unit).or_default().1 = true;
        while let Some((batches, is_complete)) = take_next(&mut waiting) {
            batches.into_iter().try_for_each(|batch| self.give(batch))?;
            if !is_complete {
                break;
            }
            waiting.next += 1;
        }
        changed.notify_all();
        Ok(())
    }

    fn stop(&self) {
        self.is_stopped.store(true, Relaxed);
        if let Some((_, changed)) = &self.order {
            changed.notify_all();
        }
    }
}

/// What came of the unit whose turn it is, if anything did.
fn take_next(waiting: &mut Waiting) -> Option<(Vec<RecordBatch>, bool)> {
    let next = waiting.next;
    waiting.later.remove(&next)
}
