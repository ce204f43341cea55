//! Several sinks that take the same rows: each gets the columns that it needs.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::error::Result;
use crate::pipeline::{Branch, Feed, Finished, Results, Sink, SinkWorker, Source, Take};
use crate::vector::{Batch, Vector};

/// A sink and the columns of a batch that it takes.
pub type Part = (Arc<dyn Sink>, Vec<usize>);

/// Several sinks of the same rows.
pub struct Several {
    parts: Vec<Part>,
}

impl Several {
    /// These sinks, which are finished one after the other.
    pub fn new(parts: Vec<Part>) -> Several {
        Several { parts }
    }
}

struct Worker {
    parts: Vec<(Box<dyn SinkWorker>, Vec<usize>)>,
}

impl Sink for Several {
    fn worker(&self) -> Box<dyn SinkWorker> {
        Box::new(Worker { parts: self.parts.iter().map(|(sink, columns)| (sink.worker(), columns.clone())).collect() })
    }

    fn finish(&self, workers: Vec<Box<dyn SinkWorker>>) -> Result<()> {
        let mut of_parts: Vec<Vec<Box<dyn SinkWorker>>> = self.parts.iter().map(|_| vec![]).collect();
        for worker in workers.into_iter().filter_map(|worker| worker.into_any().downcast::<Worker>().ok()) {
            worker.parts.into_iter().zip(&mut of_parts).for_each(|((worker, _), of_part)| of_part.push(worker));
        }
        self.parts.iter().zip(of_parts).try_for_each(|((sink, _), workers)| sink.finish(workers))
    }
}

impl SinkWorker for Worker {
    fn push(&mut self, unit: usize, batch: Batch) -> Result<()> {
        self.parts.iter_mut().try_for_each(|(part, columns)| {
            let columns = columns.iter().map(|column| batch.columns[*column].clone()).collect();
            part.push(unit, Batch { rows: batch.rows, columns })
        })
    }

    fn end(&mut self) -> Result<()> {
        self.parts.iter_mut().try_for_each(|(part, _)| part.end())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// The columns of several sources of one row each, in one row.
pub struct OneRow {
    sources: Vec<Arc<dyn Source>>,
    next: AtomicUsize,
}

impl OneRow {
    /// The columns of these sources, one after the other, where each has one row by then.
    pub fn of(sources: Vec<Arc<dyn Source>>) -> Branch {
        let row = Arc::new(OneRow { sources, next: AtomicUsize::new(0) });
        Branch { feed: Feed::Source(Results::of(&row)), steps: vec![] }
    }
}

impl Finished for OneRow {
    fn next(&self) -> &AtomicUsize {
        &self.next
    }

    fn units(&self) -> usize {
        1
    }

    fn read(&self, _: usize, take: Take<'_>) -> Result<()> {
        let mut columns: Vec<Vector> = vec![];
        for source in &self.sources {
            let mut worker = source.worker();
            while worker.claim().is_some() {
                worker.read(&mut |batch| {
                    columns.extend(batch.columns);
                    Ok(())
                })?;
            }
        }
        take(Batch { rows: 1, columns })
    }
}
