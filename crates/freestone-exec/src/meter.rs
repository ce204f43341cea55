//! The rows and the time of each part of a query, for those who ask.
//!
//! A part's steps, source and sink are wrapped. The time of what it calls and somebody else measures, or nobody does, is
//! not its own.

use std::any::Any;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::pipeline::{Branch, Feed, Progress, Sink, SinkWorker, Source, SourceWorker, Stage, Step, StepWorker, Take};
use crate::vector::Batch;

/// What was measured of a part, over all threads.
#[derive(Debug, Default)]
pub struct Meter {
    rows: AtomicU64,
    nanos: AtomicU64,
}

impl Meter {
    /// The rows that it passed on.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// The time that its threads took, in sum.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }

    /// Does work of this part.
    fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        let (began, outer) = (Instant::now(), OTHERS.replace(Duration::ZERO));
        let done = work();
        let took = began.elapsed();
        let own = took.saturating_sub(OTHERS.get());
        self.nanos.fetch_add(u64::try_from(own.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        OTHERS.set(outer + took);
        done
    }

    /// Passes rows on.
    fn pass(&self, batch: Batch, next: Take<'_>) -> Result<()> {
        self.rows.fetch_add(batch.rows as u64, Ordering::Relaxed);
        outside(|| next(batch))
    }
}

thread_local! {
    /// The time of others within the work that is measured now.
    static OTHERS: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Does work of others.
fn outside<T>(work: impl FnOnce() -> T) -> T {
    let (began, before) = (Instant::now(), OTHERS.get());
    let done = work();
    OTHERS.set(before + began.elapsed());
    done
}

/// Measures what nobody measures yet in some branches and stages as a part. The rows of the part are those of the branches.
pub fn measure(meter: &Arc<Meter>, branches: &mut [Branch], stages: &mut [Stage]) {
    branches.iter_mut().for_each(|branch| measure_branch(meter, branch, true));
    for stage in stages {
        if let Some(sink) = stage.sink.take_if(|sink| !sink.is_measured()) {
            stage.branches.iter_mut().for_each(|branch| measure_branch(meter, branch, false));
            stage.sink = Some(Arc::new(MeteredSink { inner: sink, meter: meter.clone() }));
        }
    }
}

fn measure_branch(meter: &Arc<Meter>, branch: &mut Branch, counts: bool) {
    let own = branch.steps.iter().rposition(|step| step.is_measured()).map_or(0, |last| last + 1);
    let is_first = own == 0;
    let steps = branch.steps.split_off(own);
    if is_first && let Feed::Source(source) = &branch.feed {
        branch.feed = Feed::Source(Arc::new(MeteredSource { inner: source.clone(), meter: meter.clone() }));
    }
    if counts || !steps.is_empty() {
        branch.steps.push(Arc::new(MeteredSteps { steps, meter: meter.clone(), counts }));
    }
}

struct MeteredSteps {
    steps: Vec<Arc<dyn Step>>,
    meter: Arc<Meter>,
    /// Whether the rows behind them are those of the part.
    counts: bool,
}

struct MeteredStepsWorker {
    steps: Vec<Box<dyn StepWorker>>,
    meter: Arc<Meter>,
    counts: bool,
}

impl Step for MeteredSteps {
    fn worker(&self) -> Box<dyn StepWorker> {
        let steps = self.steps.iter().map(|step| step.worker()).collect();
        Box::new(MeteredStepsWorker { steps, meter: self.meter.clone(), counts: self.counts })
    }

    fn is_measured(&self) -> bool {
        true
    }
}

impl StepWorker for MeteredStepsWorker {
    fn push(&mut self, batch: Batch, next: Take<'_>) -> Result<()> {
        let MeteredStepsWorker { steps, meter, counts } = self;
        meter.within(|| {
            crate::pipeline::through(steps, batch, &mut |batch| match counts {
                true => meter.pass(batch, next),
                false => outside(|| next(batch)),
            })
        })
    }
}

struct MeteredSource {
    inner: Arc<dyn Source>,
    meter: Arc<Meter>,
}

struct MeteredSourceWorker {
    inner: Box<dyn SourceWorker>,
    meter: Arc<Meter>,
}

impl Source for MeteredSource {
    fn worker(&self) -> Box<dyn SourceWorker> {
        Box::new(MeteredSourceWorker { inner: self.inner.worker(), meter: self.meter.clone() })
    }

    fn units(&self) -> usize {
        self.inner.units()
    }
}

impl SourceWorker for MeteredSourceWorker {
    fn claim(&mut self) -> Option<Progress> {
        self.meter.within(|| self.inner.claim())
    }

    fn read(&mut self, take: Take<'_>) -> Result<()> {
        self.meter.within(|| self.inner.read(&mut |batch| outside(|| take(batch))))
    }
}

struct MeteredSink {
    inner: Arc<dyn Sink>,
    meter: Arc<Meter>,
}

struct MeteredSinkWorker {
    inner: Box<dyn SinkWorker>,
    meter: Arc<Meter>,
}

impl Sink for MeteredSink {
    fn worker(&self) -> Box<dyn SinkWorker> {
        Box::new(MeteredSinkWorker { inner: self.inner.worker(), meter: self.meter.clone() })
    }

    fn finish(&self, workers: Vec<Box<dyn SinkWorker>>) -> Result<()> {
        let workers = workers.into_iter().filter_map(|worker| worker.into_any().downcast::<MeteredSinkWorker>().ok());
        let workers = workers.map(|worker| worker.inner).collect();
        self.meter.within(|| self.inner.finish(workers))
    }

    fn is_measured(&self) -> bool {
        true
    }
}

impl SinkWorker for MeteredSinkWorker {
    fn push(&mut self, unit: usize, batch: Batch) -> Result<()> {
        self.meter.within(|| self.inner.push(unit, batch))
    }

    fn end(&mut self) -> Result<()> {
        self.meter.within(|| self.inner.end())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spin(time: Duration) {
        let began = Instant::now();
        while began.elapsed() < time {}
    }

    #[test]
    fn the_time_of_others_is_not_counted() {
        let (a, b) = (Meter::default(), Meter::default());
        let step = Duration::from_millis(2);
        a.within(|| {
            spin(step);
            b.within(|| outside(|| spin(step * 20)));
            outside(|| b.within(|| spin(step * 20)));
        });
        assert!(a.time() >= step && a.time() < step * 20, "{a:?}");
        assert!(b.time() >= step * 20 && b.time() < step * 40, "{b:?}");
    }
}
