//! Aggregates of all rows, which each row has: `sum(x) OVER ()`.
//!
//! Each thread aggregates its rows and keeps them as they are. When all were seen, the results are the same for all of them.

use std::any::Any;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::aggregate::Aggregation;
use crate::error::{ExecError, Result};
use crate::kept::{Gathered, Kept};
use crate::pipeline::{Context, Finished, Results, Sink, SinkWorker, Source, Take, check};
use crate::states::Call;
use crate::vector::{Batch, Vector};

/// Aggregates of all rows.
pub struct Whole {
    aggregation: Arc<Aggregation>,
    /// The number of columns that are returned: the first ones.
    returned: usize,
    /// The places of the results among those of the calls.
    places: Vec<usize>,
    context: Arc<dyn Context>,
    done: OnceLock<Done>,
    next: AtomicUsize,
}

struct Done {
    kept: Gathered,
    /// A row of results as often as the longest batch has rows.
    results: Mutex<Option<Arc<Vec<Vector>>>>,
}

impl Whole {
    /// Aggregates of batches, of which the first columns are returned. The results of calls follow them in the order of `places`.
    pub fn new(returned: usize, calls: Vec<Call>, places: Vec<usize>, context: Arc<dyn Context>) -> Arc<Whole> {
        let aggregation = Aggregation::new(vec![], calls, context.clone());
        let (done, next) = (OnceLock::new(), AtomicUsize::new(0));
        Arc::new(Whole { aggregation, returned, places, context, done, next })
    }

    /// The rows with the results of all, when all were seen.
    pub fn results(self: &Arc<Self>) -> Arc<dyn Source> {
        Results::of(self)
    }

    /// The results of `done`, which are computed once.
    fn results_of(&self, done: &Done) -> Result<Arc<Vec<Vector>>> {
        let mut results = done.results.lock();
        if let Some(known) = &*results {
            return Ok(known.clone());
        }
        let rows = done.kept.batches.iter().map(|batch| batch.rows).max().unwrap_or(0);
        let (mut reader, mut found) = (self.aggregation.results().worker(), None);
        while reader.claim().is_some() {
            reader.read(&mut |batch| {
                found = Some(batch);
                Ok(())
            })?;
        }
        let row = found.ok_or_else(|| ExecError::foreign("an aggregation of all rows has no result"))?;
        let repeated = self.places.iter().map(|place| row.columns[*place].take(&vec![0; rows])).collect();
        Ok(results.insert(Arc::new(repeated)).clone())
    }
}

struct Worker {
    of: Arc<Whole>,
    aggregating: Box<dyn SinkWorker>,
    kept: Kept,
}

impl Sink for Arc<Whole> {
    fn worker(&self) -> Box<dyn SinkWorker> {
        Box::new(Worker {
            of: self.clone(),
            aggregating: self.aggregation.worker(),
            kept: Kept::new(self.context.clone()),
        })
    }

    fn finish(&self, workers: Vec<Box<dyn SinkWorker>>) -> Result<()> {
        let workers = workers.into_iter().filter_map(|worker| worker.into_any().downcast::<Worker>().ok());
        let (aggregating, kept): (_, Vec<Kept>) = workers.map(|worker| (worker.aggregating, worker.kept)).unzip();
        self.aggregation.finish(aggregating)?;
        // A stage ends once.
        let _ = self.done.set(Done { kept: Kept::gather(kept), results: Mutex::default() });
        Ok(())
    }
}

impl SinkWorker for Worker {
    fn push(&mut self, unit: usize, batch: Batch) -> Result<()> {
        let kept = Batch { rows: batch.rows, columns: batch.columns[..self.of.returned].to_vec() };
        self.kept.add(unit, kept)?;
        self.aggregating.push(unit, batch)
    }

    fn end(&mut self) -> Result<()> {
        self.aggregating.end()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl Finished for Whole {
    fn next(&self) -> &AtomicUsize {
        &self.next
    }

    fn units(&self) -> usize {
        self.done.get().map_or(usize::MAX, |done| done.kept.batches.len())
    }

    fn read(&self, unit: usize, take: Take<'_>) -> Result<()> {
        check(self.context.as_ref())?;
        let Some(done) = self.done.get() else { return Ok(()) };
        let results = self.results_of(done)?;
        let batch = &done.kept.batches[unit];
        let results = results.iter().map(|result| result.slice(0, batch.rows));
        take(Batch { rows: batch.rows, columns: batch.columns.iter().cloned().chain(results).collect() })
    }
}
