//! Runs a query: its stages one after the other, each on several threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::error::{ExecError, Result};
use crate::pipeline::{Branch, Chain, Context, Feed, Inputs, Progress, SinkWorker, Source, Stage, check};
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

/// Runs the stages of a query.
///
/// # Errors
/// The first error of a part.
pub fn run(stages: &[Stage], inputs: &dyn Inputs, context: &Arc<dyn Context>, output: &dyn Output) -> Result<()> {
    stages.iter().try_for_each(|stage| Running { stage, inputs, context, output, failed: AtomicBool::new(false) }.run())
}

struct Running<'a> {
    stage: &'a Stage,
    inputs: &'a dyn Inputs,
    context: &'a Arc<dyn Context>,
    output: &'a dyn Output,
    /// Whether a thread failed, so that the others stop.
    failed: AtomicBool,
}

type Sinks = Vec<Option<Box<dyn SinkWorker>>>;

impl Running<'_> {
    fn run(&self) -> Result<()> {
        let mut sinks: Sinks = vec![];
        for branch in &self.stage.branches {
            check(self.context.as_ref())?;
            if self.stage.sink.is_none() {
                self.output.begin();
            }
            self.run_branch(branch, &mut sinks)?;
        }
        match &self.stage.sink {
            None => Ok(()),
            Some(sink) => {
                if sinks.is_empty() {
                    sinks.push(Some(sink.worker()));
                }
                sink.finish(sinks.into_iter().flatten().collect())
            }
        }
    }

    /// Runs a branch on as many threads as it has units for. Each continues with a part of the sink.
    fn run_branch(&self, branch: &Branch, sinks: &mut Sinks) -> Result<()> {
        let units = match &branch.feed {
            Feed::Source(source) => source.units(),
            Feed::Input(_) => usize::MAX,
        };
        let threads = self.context.threads().min(units).max(1);
        if let Some(sink) = &self.stage.sink {
            while sinks.len() < threads {
                sinks.push(Some(sink.worker()));
            }
        } else {
            sinks.resize_with(threads.max(sinks.len()), || None);
        }
        let error = Mutex::new(None);
        let work = |sink: &mut Option<Box<dyn SinkWorker>>| {
            if let Err(failed) = self.work(branch, sink) {
                self.failed.store(true, Ordering::Relaxed);
                self.output.stop();
                error.lock().get_or_insert(failed);
            }
        };
        std::thread::scope(|scope| {
            let (first, rest) = sinks[..threads].split_first_mut().expect("there is one thread");
            for sink in rest {
                scope.spawn(|| self.context.enter(&mut || work(sink)));
            }
            work(first);
        });
        match error.into_inner() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn work(&self, branch: &Branch, sink: &mut Option<Box<dyn SinkWorker>>) -> Result<()> {
        let mut chain = Chain::new(branch);
        match &branch.feed {
            Feed::Source(source) => self.work_on_source(source.as_ref(), &mut chain, sink),
            Feed::Input(input) => {
                while let Some((unit, batch)) = self.inputs.next(*input)? {
                    chain.push(batch, &mut |batch| self.take(unit, batch, sink))?;
                    self.progressed(Progress::whole(unit), sink)?;
                }
                Ok(())
            }
        }
    }

    fn work_on_source(
        &self,
        source: &dyn Source,
        chain: &mut Chain,
        sink: &mut Option<Box<dyn SinkWorker>>,
    ) -> Result<()> {
        let mut worker = source.worker();
        while let Some(progress) = worker.claim() {
            worker.read(&mut |batch| chain.push(batch, &mut |batch| self.take(progress.unit, batch, sink)))?;
            self.progressed(progress, sink)?;
        }
        Ok(())
    }

    fn take(&self, unit: usize, batch: Batch, sink: &mut Option<Box<dyn SinkWorker>>) -> Result<()> {
        match sink {
            Some(sink) => sink.push(batch),
            None => self.output.push(unit, batch),
        }
    }

    fn progressed(&self, progress: Progress, sink: &Option<Box<dyn SinkWorker>>) -> Result<()> {
        check(self.context.as_ref())?;
        if self.failed.load(Ordering::Relaxed) {
            return Err(ExecError::Cancelled);
        }
        if sink.is_none() && progress.is_done { self.output.end(progress.unit) } else { Ok(()) }
    }
}
