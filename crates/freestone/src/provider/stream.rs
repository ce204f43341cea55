//! A partition of a scan as a stream: takes units from the queue that all partitions share, until none is left.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::RecordBatchStream;
use datafusion::physical_plan::metrics::BaselineMetrics;
use freestone_store::column::compacted;
use freestone_store::scan::{Cursor, Unit};
use freestone_store::{Snapshot, StoreError};
use futures::Stream;

/// Units that partitions take from: one queue for all, or a range for each where order matters.
#[derive(Debug)]
pub struct UnitQueue {
    units: Vec<Unit>,
    next: AtomicUsize,
    partitions: usize,
}

impl UnitQueue {
    /// A queue that so many partitions share.
    pub fn new(units: Vec<Unit>, partitions: usize) -> Self {
        UnitQueue { units, next: AtomicUsize::new(0), partitions }
    }

    /// A unit for this caller alone, if at least `least` are left.
    fn take(&self, least: usize) -> Option<&Unit> {
        let claim = |at: usize| (at + least <= self.units.len()).then_some(at + 1);
        let at = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim).ok()?;
        self.units.get(at)
    }
}

/// One partition's way through a queue. It holds the unit that it does next, and reads it ahead, as long as there is one
/// for each of the others too.
#[derive(Debug)]
pub struct Units {
    queue: Arc<UnitQueue>,
    next: Option<Unit>,
}

impl Units {
    pub fn new(queue: Arc<UnitQueue>) -> Self {
        Units { queue, next: None }
    }

    /// A unit, and the one after it if that is known already.
    pub fn take(&mut self) -> Option<(Unit, Option<Unit>)> {
        let unit = self.next.take().or_else(|| self.queue.take(1).cloned())?;
        self.next = self.queue.take(self.queue.partitions).cloned();
        Some((unit, self.next.clone()))
    }
}

/// One partition's stream.
pub struct ScanStream {
    /// Pins the files while rows are read: the plan may be gone before its stream.
    pub _snapshot: Option<Arc<Snapshot>>,
    pub units: Units,
    pub cursor: Cursor,
    pub schema: SchemaRef,
    pub rows_left: Option<usize>,
    /// Copy what batches show of strings that they pin: where memory is little, whoever keeps batches accounts for all.
    pub compacts: bool,
    pub metrics: BaselineMetrics,
    pub done: bool,
}

impl ScanStream {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, StoreError> {
        loop {
            if let Some(batch) = self.cursor.next_ready() {
                return Ok(Some(batch));
            }
            match self.units.take() {
                Some((unit, next)) => self.cursor.scan(&unit, next.as_ref())?,
                None => {
                    self.done = true;
                    return self.cursor.finish();
                }
            }
            if self.rows_left.is_some_and(|left| self.cursor.buffered_rows() >= left) {
                self.done = true;
                let batch = self.cursor.next_ready();
                return if batch.is_some() { Ok(batch) } else { self.cursor.finish() };
            }
        }
    }

    fn limited(&mut self, batch: RecordBatch) -> RecordBatch {
        let Some(left) = &mut self.rows_left else { return batch };
        let taken = batch.num_rows().min(*left);
        *left -= taken;
        if *left == 0 {
            self.done = true;
            while self.cursor.next_ready().is_some() {}
        }
        batch.slice(0, taken)
    }
}

impl Stream for ScanStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.rows_left == Some(0) {
            return Poll::Ready(None);
        }
        if self.done {
            let batch = self.cursor.next_ready();
            let batch = batch.map(|b| self.limited(b));
            let batch = batch.map(|batch| Ok(if self.compacts { compacted(&batch) } else { batch }));
            return self.metrics.record_poll(Poll::Ready(batch));
        }
        let metrics = self.metrics.clone();
        let timer = metrics.elapsed_compute().timer();
        let next = self.next_batch();
        timer.done();
        let item = match next {
            Ok(Some(batch)) => Some(Ok(self.limited(batch))),
            Ok(None) => None,
            Err(error) => {
                self.done = true;
                Some(Err(DataFusionError::External(Box::new(error))))
            }
        };
        let item = match item {
            Some(Ok(batch)) if self.compacts => Some(Ok(compacted(&batch))),
            item => item,
        };
        self.metrics.record_poll(Poll::Ready(item))
    }
}

impl RecordBatchStream for ScanStream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_taken_once_and_nobody_takes_the_last_ones_alone() {
        let units: Vec<Unit> = (0..7).map(|segment| Unit { segment, rows: 0..1 }).collect();
        let queue = Arc::new(UnitQueue::new(units, 3));
        let mut partitions: Vec<Units> = (0..3).map(|_| Units::new(queue.clone())).collect();
        let mut taken = vec![];
        while let Some((unit, next)) = partitions[taken.len() % 3].take() {
            taken.push((unit.segment, next.map(|next| next.segment)));
        }
        let expected = [(0, Some(1)), (2, Some(3)), (4, None), (1, None), (3, None), (5, None), (6, None)];
        assert_eq!(taken, expected);
        assert!(partitions.iter_mut().all(|partition| partition.take().is_none()));
    }
}
