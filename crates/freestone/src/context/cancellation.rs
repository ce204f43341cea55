//! Cancellation of statements: by a handle, or because nobody waits for them any more.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::resources_datafusion_err;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::{RecordBatchStream, SendableRecordBatchStream};
use futures::{Stream, StreamExt};
use tokio::sync::watch;

use super::reads::{LatestReads, Reads};
use super::{Budget, ScanWork, current, panicked};
use crate::error::{Error, Result};
use crate::heap;

/// The number of polls below which a query counts as small. Small queries continue when the process has too little
/// memory.
const POLLS_MIN: usize = 16;
/// Queries end when the process exceeds its limit by 1 / `EXCESS_SHARE`, because their own memory is not fully
/// accounted for.
const EXCESS_SHARE: usize = 20;

/// Cancels the statements that a session is executing when it is called. Later statements are not affected.
#[derive(Clone)]
pub struct CancelHandle {
    sender: Arc<watch::Sender<u64>>,
}

impl CancelHandle {
    /// Cancels the running statement of the session.
    pub fn cancel(&self) {
        self.sender.send_modify(|generation| *generation = generation.saturating_add(1));
    }

    /// Cancels the running statement of the session and all that follow: the session has ended.
    pub fn end(&self) {
        self.sender.send_replace(ENDED);
    }
}

/// The number of cancellations of a session that has ended.
const ENDED: u64 = u64::MAX;

/// Cancels the statements of one session.
pub(crate) struct Canceller {
    sender: Arc<watch::Sender<u64>>,
    budget: Budget,
    latest: LatestReads,
}

impl Canceller {
    /// For a session whose statements have a budget.
    pub fn new(budget: Budget) -> Self {
        Canceller { sender: Arc::new(watch::Sender::new(0)), budget, latest: LatestReads::default() }
    }

    pub fn handle(&self) -> CancelHandle {
        CancelHandle { sender: self.sender.clone() }
    }

    /// The cancellation of a statement that begins now.
    pub fn statement(&self) -> Cancellation {
        let receiver = self.sender.subscribe();
        let began = *receiver.borrow();
        let (budget, latest) = (self.budget.clone(), self.latest.clone());
        Cancellation { receiver, began, abandoned: Arc::default(), budget, reads: Arc::default(), latest }
    }

    /// The share of the work of its scans that the statement has done that was the last to begin some, from 0 to 1. `None` if it is
    /// over.
    pub fn share_read(&self) -> Option<f64> {
        self.latest.share()
    }
}

/// Whether one statement was cancelled, by the handle, or because nobody waits for it any more; the memory that it may claim, and
/// how far its scans have come.
#[derive(Clone, Debug)]
pub(crate) struct Cancellation {
    receiver: watch::Receiver<u64>,
    began: u64,
    abandoned: Arc<AtomicBool>,
    budget: Budget,
    reads: Arc<Reads>,
    latest: LatestReads,
}

impl Cancellation {
    /// For a statement that cannot be cancelled.
    #[cfg(test)]
    pub fn of_nobody() -> Self {
        Canceller::new(Budget::default()).statement()
    }

    /// The same statement, which continues even if nobody waits for it.
    pub fn unwatched(&self) -> Self {
        Cancellation { abandoned: Arc::default(), ..self.clone() }
    }

    /// A guard for the future that waits for the statement. Dropping it means that nobody waits any more.
    pub fn guard(&self) -> AbandonGuard {
        AbandonGuard(self.abandoned.clone())
    }

    /// Scans of the statement begin.
    pub fn begin_scans(&self, scans: Vec<ScanWork>) {
        self.latest.begin(&self.reads, scans);
    }

    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::cancelled()) } else { Ok(()) }
    }

    /// The memory that the statement may claim.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    pub fn is_cancelled(&self) -> bool {
        let now = *self.receiver.borrow();
        now != self.began || now == ENDED || self.abandoned.load(Ordering::Relaxed)
    }

    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + 'static {
        let (mut receiver, began) = (self.receiver.clone(), self.began);
        async move {
            // The session no longer exists, so nobody can cancel the statement.
            if receiver.wait_for(|generation| *generation != began || *generation == ENDED).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Marks a write as abandoned when the future that waits for it is dropped. Has no effect after the end of the write.
pub(crate) struct AbandonGuard(Arc<AtomicBool>);

impl Drop for AbandonGuard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A stream that ends with an error when its statement is cancelled.
pub(crate) struct CancellableStream {
    inner: Option<SendableRecordBatchStream>,
    schema: SchemaRef,
    cancelled: Pin<Box<dyn Future<Output = ()> + Send>>,
    cancellation: Cancellation,
    polls: usize,
    /// For a stream that is the whole statement: dropping it also ends the work behind it.
    _guard: Option<AbandonGuard>,
}

impl CancellableStream {
    /// The rows of a query.
    pub fn of_query(inner: SendableRecordBatchStream, cancellation: Cancellation) -> Self {
        let guard = cancellation.guard();
        CancellableStream { _guard: Some(guard), ..Self::new(inner, cancellation) }
    }

    /// Rows within a statement that continues after them.
    pub fn new(inner: SendableRecordBatchStream, cancellation: Cancellation) -> Self {
        let schema = inner.schema();
        let cancelled = Box::pin(cancellation.cancelled());
        CancellableStream { inner: Some(inner), schema, cancelled, cancellation, polls: 0, _guard: None }
    }
}

impl Stream for CancellableStream {
    type Item = Result<RecordBatch, DataFusionError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let statement = self.cancellation.clone();
        let Some(inner) = self.inner.as_mut() else { return Poll::Ready(None) };
        let poll = || current::within(Some(statement), || inner.poll_next_unpin(context));
        let polled = std::panic::catch_unwind(AssertUnwindSafe(poll));
        let polled = polled.unwrap_or_else(|panic| Poll::Ready(Some(Err(panicked(&*panic).into()))));
        let cancelled = self.cancellation.is_cancelled() || self.cancelled.as_mut().poll(context).is_ready();
        if cancelled && !matches!(polled, Poll::Ready(None)) {
            self.inner = None;
            return Poll::Ready(Some(Err(Error::cancelled().into())));
        }
        self.polls += 1;
        let polled = match polled {
            Poll::Pending | Poll::Ready(Some(Ok(_))) if self.polls > POLLS_MIN => match check_heap() {
                Ok(()) => polled,
                Err(error) => Poll::Ready(Some(Err(error))),
            },
            polled => polled,
        };
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.inner = None;
        }
        polled
    }
}

/// Fails if the process has no memory for queries to continue.
///
/// # Errors
/// It is beyond its limit.
pub(crate) fn check_heap() -> Result<(), DataFusionError> {
    let (excess, limit) = (heap::excess(), heap::limit());
    if excess <= limit / EXCESS_SHARE {
        return Ok(());
    }
    Err(resources_datafusion_err!("statements took {} bytes, of which there are {limit}", limit.saturating_add(excess)))
}

impl RecordBatchStream for CancellableStream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
