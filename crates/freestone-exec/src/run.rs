//! Runs a query: its stages one after the other, each on several threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{ExecError, Result};
use crate::pipeline::{Chain, Context, Feed, Inputs, Progress, SinkWorker, Source, Stage, check};
use crate::threads::Task;
use crate::vector::Batch;

/// Takes the batches of the last stage, from several threads.
pub trait Output: Send + Sync {
    /// A branch begins, whose units are numbered from 0.
    fn begin(&self);

    /// Takes a batch of a unit.
    ///
    /// # Errors
    /// Nobody wants it any more.
    fn push(&self, unit: usize, batch: Batch) -> Result<()>;

    /// A unit is complete.
    ///
    /// # Errors
    /// As for [`Output::push`].
    fn end(&self, unit: usize) -> Result<()>;

    /// A thread failed: the others do not wait for its units.
    fn stop(&self);
}

/// Runs the stages of a query, each on as many threads as it has units for. The caller's thread is one of them.
///
/// # Errors
/// The first error of a part.
pub fn run(
    stages: &[Stage],
    inputs: &Arc<dyn Inputs>,
    context: &Arc<dyn Context>,
    output: &Arc<dyn Output>,
) -> Result<()> {
    stages.iter().try_for_each(|stage| {
        let (inputs, context, output) = (inputs.clone(), context.clone(), output.clone());
        Arc::new(Running { stage: stage.clone(), inputs, context, output, failed: AtomicBool::new(false) }).run()
    })
}

struct Running {
    stage: Stage,
    inputs: Arc<dyn Inputs>,
    context: Arc<dyn Context>,
    output: Arc<dyn Output>,
    /// Whether a thread failed, so that the others stop.
    failed: AtomicBool,
}

/// The units of a branch are fewer than two to this power.
const BRANCH_SHIFT: u32 = 40;

/// Stops all threads of a stage.
struct StopOnDrop<'a>(&'a Running);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.failed.store(true, Ordering::Relaxed);
        self.0.output.stop();
    }
}

/// The part of a sink that one thread fills.
type Part = Option<Box<dyn SinkWorker>>;

impl Running {
    fn run(self: &Arc<Self>) -> Result<()> {
        let mut parts: Vec<Part> = vec![];
        for branch in 0..self.stage.branches.len() {
            check(self.context.as_ref())?;
            if self.stage.sink.is_none() {
                self.output.begin();
            }
            self.run_branch(branch, &mut parts)?;
        }
        match &self.stage.sink {
            None => Ok(()),
            Some(sink) => {
                if parts.is_empty() {
                    parts.push(Some(sink.worker()));
                }
                sink.finish(parts.into_iter().flatten().collect())
            }
        }
    }

    /// Runs a branch on as many threads as it has units for. Each continues with a part of the sink.
    fn run_branch(self: &Arc<Self>, branch: usize, parts: &mut Vec<Part>) -> Result<()> {
        let units = match &self.stage.branches[branch].feed {
            Feed::Source(source) => source.units(),
            Feed::Input(_) => usize::MAX,
        };
        let threads = self.context.threads().min(units).max(1);
        while parts.len() < threads {
            parts.push(self.stage.sink.as_ref().map(|sink| sink.worker()));
        }
        let mut tasks = vec![];
        for part in parts.drain(1..threads) {
            let running = self.clone();
            let mut part = part;
            let work = move || {
                let mut done = Ok(());
                let context = running.context.clone();
                context.enter(&mut || done = running.work_or_stop(branch, &mut part));
                // What the thread shares is given back before its result is seen.
                drop((running, context));
                done.map(|()| part)
            };
            tasks.push(Task::new(work).map_err(|error| {
                self.failed.store(true, Ordering::Relaxed);
                ExecError::foreign(error)
            })?);
        }
        let mut done = self.work_or_stop(branch, &mut parts[0]);
        for task in tasks {
            match task.wait() {
                Ok(part) => parts.push(part),
                Err(error) => done = Err(first_error(done, error)),
            }
        }
        done
    }

    fn work_or_stop(&self, branch: usize, part: &mut Part) -> Result<()> {
        // A panic stops the other threads, too.
        let stop = StopOnDrop(self);
        let done = self.work(branch, part);
        if done.is_ok() {
            std::mem::forget(stop);
        }
        done
    }

    fn work(&self, number: usize, sink: &mut Part) -> Result<()> {
        let branch = &self.stage.branches[number];
        let mut chain = Chain::new(branch);
        // The units of a branch come after those of the one before.
        let first = if sink.is_some() { number << BRANCH_SHIFT } else { 0 };
        self.work_on(&branch.feed, &mut chain, first, sink)?;
        sink.as_mut().map_or(Ok(()), |sink| sink.end())
    }

    fn work_on(&self, feed: &Feed, chain: &mut Chain, first: usize, sink: &mut Part) -> Result<()> {
        match feed {
            Feed::Source(source) => self.work_on_source(source.as_ref(), chain, first, sink),
            Feed::Input(input) => {
                while let Some((unit, batch)) = self.inputs.next(*input)? {
                    chain.push(batch, &mut |batch| self.take(first + unit, batch, sink))?;
                    self.progressed(Progress::whole(unit), sink)?;
                }
                Ok(())
            }
        }
    }

    fn work_on_source(&self, source: &dyn Source, chain: &mut Chain, first: usize, sink: &mut Part) -> Result<()> {
        let mut worker = source.worker();
        while let Some(progress) = worker.claim() {
            worker.read(&mut |batch| chain.push(batch, &mut |batch| self.take(first + progress.unit, batch, sink)))?;
            self.progressed(progress, sink)?;
        }
        Ok(())
    }

    fn take(&self, unit: usize, batch: Batch, sink: &mut Part) -> Result<()> {
        match sink {
            Some(sink) => sink.push(unit, batch),
            None => self.output.push(unit, batch),
        }
    }

    fn progressed(&self, progress: Progress, sink: &Part) -> Result<()> {
        check(self.context.as_ref())?;
        if self.failed.load(Ordering::Relaxed) {
            return Err(ExecError::Cancelled);
        }
        if sink.is_none() && progress.is_done { self.output.end(progress.unit) } else { Ok(()) }
    }
}

/// The error to report of two. A thread that another one stopped says that it was cancelled.
fn first_error(done: Result<()>, error: ExecError) -> ExecError {
    match done {
        Ok(()) | Err(ExecError::Cancelled) => error,
        Err(first) => first,
    }
}
