//! A partition of a scan as a stream: takes morsels from the queue that all partitions share, until none is left.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::RecordBatchStream;
use datafusion::physical_plan::metrics::BaselineMetrics;
use freestone_store::column::compacted;
use freestone_store::scan::{Cursor, Pieces};
use freestone_store::{Snapshot, StoreError};
use futures::Stream;

/// One partition's stream.
pub struct ScanStream {
    /// Pins the files while rows are read, because the plan can be dropped before its stream.
    pub _snapshot: Option<Arc<Snapshot>>,
    pub pieces: Pieces,
    /// Whether rows can be long, so that the bytes of a piece are counted.
    pub has_texts: bool,
    pub cursor: Cursor,
    pub schema: SchemaRef,
    pub rows_left: Option<usize>,
    /// Whether the strings of batches are copied out of the buffers that they pin. If memory is scarce, the consumer's
    /// accounting must include all memory that a batch keeps alive.
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
            let cursor = &self.cursor;
            match self.pieces.take(|morsel| cursor.zone_rows(morsel)) {
                Some((piece, next)) => {
                    self.cursor.scan(&piece, next.as_ref())?;
                    if self.has_texts {
                        self.pieces.gave(self.cursor.ready_bytes());
                    }
                }
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
