//! A partition of a scan as a stream: morsels from the queue that all partitions share, or for an ordered scan all morsels
//! in order, read ahead by several threads.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use datafusion::physical_plan::metrics::BaselineMetrics;
use datafusion::physical_plan::stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter};
use futures::{Stream, StreamExt};
use parking_lot::Mutex;

use super::morsels::{Cut, Morsel, Queue};
use super::reader::Reader;
use super::scan::Scan;
use crate::error::{Error, Result};
use crate::ingest::{IngestError, MorselEnd, MorselError, Ordered, Reason, Worker};

/// The number of morsels without passing rows after which the stream yields.
const BARREN_UNITS: usize = 16;

/// A partition that takes morsels from the queue.
pub(super) struct FilesStream {
    pub queue: Arc<Queue>,
    pub reader: Reader,
    pub schema: SchemaRef,
    pub rows_left: Option<usize>,
    pub metrics: BaselineMetrics,
    pub done: bool,
}

impl FilesStream {
    /// The next rows; `None` after several morsels without any.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        for _ in 0..BARREN_UNITS {
            if let Some(batch) = self.reader.next()? {
                return Ok(Some(batch));
            }
            match self.queue.next() {
                Some(morsel) => self.reader.begin(morsel?)?,
                None => {
                    self.done = true;
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }
}

impl Stream for FilesStream {
    type Item = DfResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.done || self.rows_left == Some(0) {
            return Poll::Ready(None);
        }
        let metrics = self.metrics.clone();
        let timer = metrics.elapsed_compute().timer();
        let next = self.next_batch();
        timer.done();
        let item = match next {
            Ok(Some(batch)) => Some(Ok(limited(batch, &mut self.rows_left))),
            Ok(None) if self.done => None,
            Ok(None) => {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Err(error) => {
                self.done = true;
                Some(Err(error.into()))
            }
        };
        self.metrics.record_poll(Poll::Ready(item))
    }
}

impl Drop for FilesStream {
    fn drop(&mut self) {
        self.reader.count_traffic();
    }
}

impl RecordBatchStream for FilesStream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

fn limited(batch: RecordBatch, rows_left: &mut Option<usize>) -> RecordBatch {
    let Some(left) = rows_left else { return batch };
    let taken = batch.num_rows().min(*left);
    *left -= taken;
    batch.slice(0, taken)
}

/// All rows in the order of the files, read ahead by `threads` threads.
pub(super) fn ordered(
    scan: &Arc<Scan>,
    threads: usize,
    mut rows_left: Option<usize>,
    metrics: BaselineMetrics,
) -> DfResult<SendableRecordBatchStream> {
    let cut = Cut::new(scan, (0, 1));
    let failed = Failure::default();
    let workers = (0..threads.max(1))
        .map(|_| Ok(OrderedWorker { reader: Reader::new(scan.clone(), cut.pool())?, failed: failed.clone() }))
        .collect::<Result<Vec<_>>>()?;
    let schema = scan.schema.clone();
    let mut builder = RecordBatchReceiverStream::builder(schema.clone(), 2);
    let (sender, name) = (builder.tx(), scan.set.name.clone());
    let counted = Counted(scan.clone());
    builder.spawn_blocking(move || {
        let _counted = counted;
        let batches = Ordered::start(name, cut, workers).map_err(Error::from)?;
        for batch in batches {
            let batch = batch.map_err(|error| failed.lock().take().unwrap_or_else(|| Error::from(error)))?;
            let batch = limited(batch, &mut rows_left);
            if sender.blocking_send(Ok(batch)).is_err() || rows_left == Some(0) {
                // The receiver was dropped: a LIMIT was reached, or the statement was cancelled.
                return Ok(());
            }
        }
        Ok(())
    });
    let counted = builder.build().map(move |batch| {
        if let Poll::Ready(Some(batch)) = metrics.record_poll(Poll::Ready(Some(batch))) {
            return batch;
        }
        Err(DataFusionError::Internal("metrics keep what they count".into()))
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, counted)))
}

/// Counts requests when all rows were read, or nobody wants more.
struct Counted(Arc<Scan>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.ahead.count();
    }
}

/// The error of a worker. The queue in between knows only its text.
type Failure = Arc<Mutex<Option<Error>>>;

struct OrderedWorker {
    reader: Reader,
    failed: Failure,
}

impl Worker<Result<Morsel>> for OrderedWorker {
    fn run(
        &mut self,
        morsel: Result<Morsel>,
        emit: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> std::result::Result<MorselEnd, MorselError> {
        let read = || -> Result<()> {
            self.reader.begin(morsel?)?;
            while let Some(batch) = self.reader.next()? {
                if !emit(batch) {
                    return Ok(());
                }
            }
            Ok(())
        };
        read().map(|()| MorselEnd::default()).map_err(|error| {
            let reason = Reason::Internal(error.to_string());
            // The first error in the order of the files is reported, because it is taken with its morsel.
            self.failed.lock().get_or_insert(error);
            MorselError { error: IngestError::new("", reason), line: None, row: None }
        })
    }
}
