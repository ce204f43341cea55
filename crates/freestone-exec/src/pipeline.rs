//! Pipelines: how a query is divided, and what each of its parts does.
//!
//! A query is a list of stages. A stage runs each of its branches in turn: all threads take units of the branch's
//! source, push their batches through the branch's steps, and into the stage's sink. The last stage has no sink: its
//! batches are the result. A stage begins when the one before has ended, so a sink's result is complete when a later
//! stage reads it.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{ExecError, Result};
use crate::vector::Batch;

/// What takes batches.
pub type Take<'a> = &'a mut dyn FnMut(Batch) -> Result<()>;

/// Rows, in units that threads take one by one.
pub trait Source: Send + Sync {
    /// The part of one thread.
    fn worker(&self) -> Box<dyn SourceWorker>;

    /// About how many units there are, at most.
    fn units(&self) -> usize;
}

/// One thread's part of a source.
pub trait SourceWorker: Send {
    /// Takes the next unit, or the next piece of a large one. `None` if none is left.
    fn claim(&mut self) -> Option<Progress>;

    /// Passes on the rows of what was taken last.
    ///
    /// # Errors
    /// The rows cannot be read, or `take` failed.
    fn read(&mut self, take: Take<'_>) -> Result<()>;
}

/// What a thread has taken of a source. Results are ordered by the numbers of units, of which each occurs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The number of the unit.
    pub unit: usize,
    /// Whether this is the last piece of it.
    pub is_done: bool,
}

impl Progress {
    /// A whole unit.
    pub fn whole(unit: usize) -> Progress {
        Progress { unit, is_done: true }
    }
}

/// What is done with each batch.
pub trait Step: Send + Sync {
    /// The part of one thread.
    fn worker(&self) -> Box<dyn StepWorker>;

    /// Whether its rows and time are counted, see [`crate::meter`].
    fn is_measured(&self) -> bool {
        false
    }
}

/// One thread's part of a step.
pub trait StepWorker: Send {
    /// Takes a batch, and passes what becomes of it on.
    ///
    /// # Errors
    /// A function failed, or `next` did.
    fn push(&mut self, batch: Batch, next: Take<'_>) -> Result<()>;
}

/// What needs all rows of a stage.
pub trait Sink: Send + Sync {
    /// The part of one thread.
    fn worker(&self) -> Box<dyn SinkWorker>;

    /// Takes the parts of all threads when no rows are left.
    ///
    /// # Errors
    /// As for [`SinkWorker::push`].
    fn finish(&self, workers: Vec<Box<dyn SinkWorker>>) -> Result<()>;

    /// Whether its time is counted, see [`crate::meter`].
    fn is_measured(&self) -> bool {
        false
    }
}

/// One thread's part of a sink.
pub trait SinkWorker: Send {
    /// Takes a batch of a unit of the stage. The numbers of units are in the order of rows where the sources have one.
    ///
    /// # Errors
    /// A function failed, or memory ran out.
    fn push(&mut self, unit: usize, batch: Batch) -> Result<()>;

    /// No rows are left of a branch. What can be done by each thread for itself is done now, before [`Sink::finish`].
    ///
    /// # Errors
    /// As for [`SinkWorker::push`].
    fn end(&mut self) -> Result<()> {
        Ok(())
    }

    /// The part itself, for [`Sink::finish`].
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// What a sink has when all rows were seen: batches of rows, in units that threads take one by one.
pub trait Finished: Send + Sync + 'static {
    /// The number of the next unit that nobody took.
    fn next(&self) -> &AtomicUsize;

    /// The number of units.
    fn units(&self) -> usize;

    /// Passes on the rows of a unit.
    ///
    /// # Errors
    /// A function failed, memory ran out, or `take` failed.
    fn read(&self, unit: usize, take: Take<'_>) -> Result<()>;
}

/// What a sink has as a source.
pub struct Results<T> {
    of: Arc<T>,
    unit: usize,
}

impl<T: Finished> Results<T> {
    /// The results of a sink, which are read when it is finished.
    pub fn of(sink: &Arc<T>) -> Arc<dyn Source> {
        Arc::new(Results { of: sink.clone(), unit: 0 })
    }
}

impl<T: Finished> Source for Results<T> {
    fn worker(&self) -> Box<dyn SourceWorker> {
        Box::new(Results { of: self.of.clone(), unit: 0 })
    }

    fn units(&self) -> usize {
        self.of.units()
    }
}

impl<T: Finished> SourceWorker for Results<T> {
    fn claim(&mut self) -> Option<Progress> {
        self.unit = self.of.next().fetch_add(1, Ordering::Relaxed);
        (self.unit < self.of.units()).then_some(Progress::whole(self.unit))
    }

    fn read(&mut self, take: Take<'_>) -> Result<()> {
        self.of.read(self.unit, take)
    }
}

/// Rows that the caller computes.
pub trait Inputs: Send + Sync {
    /// The next batch of an input with its number; waits for it. `None` if none is left.
    ///
    /// # Errors
    /// The error of the input.
    fn next(&self, input: usize) -> Result<Option<(usize, Batch)>>;
}

/// Where the rows of a branch come from.
#[derive(Clone)]
pub enum Feed {
    /// A source.
    Source(Arc<dyn Source>),
    /// The input with this number, see [`Inputs`].
    Input(usize),
}

/// A source, and what happens to its rows before they reach the sink.
#[derive(Clone)]
pub struct Branch {
    /// The source.
    pub feed: Feed,
    /// The steps, in order.
    pub steps: Vec<Arc<dyn Step>>,
}

/// A part of a query that ends where all rows are needed.
#[derive(Clone)]
pub struct Stage {
    /// The branches, which run one after the other.
    pub branches: Vec<Branch>,
    /// `None` for the last stage.
    pub sink: Option<Arc<dyn Sink>>,
}

/// The steps of one thread.
pub struct Chain {
    steps: Vec<Box<dyn StepWorker>>,
}

impl Chain {
    /// The steps of a branch.
    pub fn new(branch: &Branch) -> Chain {
        Chain::of(&branch.steps)
    }

    /// These steps.
    pub fn of(steps: &[Arc<dyn Step>]) -> Chain {
        Chain { steps: steps.iter().map(|step| step.worker()).collect() }
    }

    /// Passes a batch through the steps.
    ///
    /// # Errors
    /// The error of a step or of `take`.
    pub fn push(&mut self, batch: Batch, take: Take<'_>) -> Result<()> {
        through(&mut self.steps, batch, take)
    }
}

/// Passes a batch through steps.
pub(crate) fn through(steps: &mut [Box<dyn StepWorker>], batch: Batch, take: Take<'_>) -> Result<()> {
    if batch.rows == 0 {
        return Ok(());
    }
    match steps.split_first_mut() {
        None => take(batch),
        Some((first, rest)) => first.push(batch, &mut |batch| through(rest, batch, take)),
    }
}

/// What a running query shares with its caller.
pub trait Context: Send + Sync {
    /// Claims memory.
    ///
    /// # Errors
    /// There is not enough.
    fn claim(&self, bytes: usize) -> Result<()>;

    /// Gives memory back.
    fn release(&self, bytes: usize);

    /// Whether the query was cancelled.
    fn is_cancelled(&self) -> bool;

    /// The number of threads.
    fn threads(&self) -> usize;

    /// Runs the work of one more thread with what the caller keeps for each of its threads.
    fn enter(&self, work: &mut dyn FnMut()) {
        work();
    }
}

/// Fails if the query was cancelled. Called in loops that can take long.
///
/// # Errors
/// It was cancelled.
pub fn check(context: &dyn Context) -> Result<()> {
    if context.is_cancelled() { Err(ExecError::Cancelled) } else { Ok(()) }
}

/// Memory that is claimed as long as this exists.
pub struct Claim {
    context: Arc<dyn Context>,
    bytes: usize,
}

impl Claim {
    /// Nothing yet.
    pub fn new(context: Arc<dyn Context>) -> Claim {
        Claim { context, bytes: 0 }
    }

    /// What it claims from.
    pub fn context(&self) -> Arc<dyn Context> {
        self.context.clone()
    }

    /// Claims this number of bytes more.
    ///
    /// # Errors
    /// There is not enough.
    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        self.resize(self.bytes + bytes)
    }

    /// Claims as much as is needed for `bytes` in all, or gives back what is more.
    ///
    /// # Errors
    /// There is not enough.
    pub fn resize(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.bytes {
            self.context.claim(bytes - self.bytes)?;
        } else {
            self.context.release(self.bytes - bytes);
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.context.release(self.bytes);
    }
}

/// A context without limits and with this number of threads, for tests and measurements.
#[derive(Debug)]
pub struct Unlimited(pub usize);

impl Context for Unlimited {
    fn claim(&self, _: usize) -> Result<()> {
        Ok(())
    }

    fn release(&self, _: usize) {}

    fn is_cancelled(&self) -> bool {
        false
    }

    fn threads(&self) -> usize {
        self.0
    }
}
