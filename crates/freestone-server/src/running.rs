//! The execution of a statement on the workers, for a connection that waits elsewhere: with a time limit, and ended when
//! the connection no longer waits.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::scalar::ScalarValue;
use freestone::{Error, ErrorKind, Outcome, Result, Session, Statement};
use futures::StreamExt;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::metrics::Metrics;
use crate::shared::Shared;

/// Batches that the workers are ahead of a connection.
const BATCHES_AHEAD: usize = 2;

/// What a statement answers.
pub(crate) enum Answer {
    Rows(Rows),
    Affected { verb: &'static str, rows: u64 },
    Done { verb: &'static str },
}

/// Rows of a running statement. Dropping them ends it.
pub(crate) struct Rows {
    pub schema: SchemaRef,
    batches: mpsc::Receiver<Result<RecordBatch>>,
    running: Running,
}

impl Rows {
    pub async fn next(&mut self) -> Option<Result<RecordBatch>> {
        let batch = self.running.within(self.batches.recv()).await;
        let batch = batch.unwrap_or_else(|error| Some(Err(error)));
        match &batch {
            Some(Ok(batch)) => Metrics::add(&self.running.shared.metrics.rows, batch.num_rows() as u64),
            Some(Err(error)) => self.running.failed(error),
            None => {}
        }
        batch
    }
}

/// A statement under way; counted until it is dropped.
struct Running {
    shared: Arc<Shared>,
    session: Arc<Session>,
    task: AbortHandle,
    began: Instant,
    limit: Option<Duration>,
}

impl Running {
    /// Waits, but not past the statement's time.
    async fn within<T>(&self, waiting: impl Future<Output = T>) -> Result<T> {
        let Some(limit) = self.limit else { return Ok(waiting.await) };
        tokio::time::timeout_at(self.began + limit, waiting).await.map_err(|_| {
            self.session.cancel_handle().cancel();
            Error::new(ErrorKind::Cancelled, format!("the statement took longer than {} ms", limit.as_millis()))
                .with_hint("raise statement_timeout, or ask for less")
        })
    }

    fn failed(&self, error: &Error) {
        let metrics = &self.shared.metrics;
        let counter = if error.kind() == ErrorKind::Cancelled { &metrics.cancelled } else { &metrics.failed };
        Metrics::add(counter, 1);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
        let metrics = &self.shared.metrics;
        metrics.running.fetch_sub(1, Ordering::Relaxed);
        Metrics::add(&metrics.busy_micros, self.began.elapsed().as_micros() as u64);
    }
}

/// Executes a statement on the workers.
pub(crate) async fn execute(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    statement: &Statement,
    values: Vec<ScalarValue>,
    limit: Option<Duration>,
) -> Result<Answer> {
    let (begun, begin) = oneshot::channel();
    let (statement, worker) = (statement.clone(), session.clone());
    Metrics::add(&shared.metrics.statements, 1);
    shared.metrics.running.fetch_add(1, Ordering::Relaxed);
    let task = shared.workers.spawn(work(worker, statement, values, begun)).abort_handle();
    let (shared, session) = (shared.clone(), session.clone());
    let running = Running { shared, session, task, began: Instant::now(), limit };
    let lost = || Error::new(ErrorKind::Internal, "internal error: the statement ended without an answer");
    let begun = running.within(begin).await.and_then(|begun| begun.unwrap_or_else(|_| Err(lost())));
    match begun {
        Ok(Begun::Rows { schema, batches }) => Ok(Answer::Rows(Rows { schema, batches, running })),
        Ok(Begun::Affected { verb, rows }) => Ok(Answer::Affected { verb, rows }),
        Ok(Begun::Done { verb }) => Ok(Answer::Done { verb }),
        Err(error) => {
            running.failed(&error);
            Err(error)
        }
    }
}

enum Begun {
    Rows { schema: SchemaRef, batches: mpsc::Receiver<Result<RecordBatch>> },
    Affected { verb: &'static str, rows: u64 },
    Done { verb: &'static str },
}

async fn work(
    session: Arc<Session>,
    statement: Statement,
    values: Vec<ScalarValue>,
    begun: oneshot::Sender<Result<Begun>>,
) {
    let (schema, mut stream) = match session.execute_with(&statement, values).await {
        Ok(Outcome::Rows { schema, stream }) => (schema, stream),
        Ok(Outcome::Affected { verb, rows }) => return drop(begun.send(Ok(Begun::Affected { verb, rows }))),
        Ok(Outcome::Done { verb }) => return drop(begun.send(Ok(Begun::Done { verb }))),
        Err(error) => return drop(begun.send(Err(error))),
    };
    let (sender, batches) = mpsc::channel(BATCHES_AHEAD);
    if begun.send(Ok(Begun::Rows { schema, batches })).is_err() {
        return;
    }
    while let Some(batch) = stream.next().await {
        let ends = batch.is_err();
        if sender.send(batch.map_err(Error::from)).await.is_err() || ends {
            return;
        }
    }
}

/// Runs a future on the workers: planning takes their kind of time.
pub(crate) async fn on_workers<T: Send + 'static>(
    shared: &Shared,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let lost = |_| Error::new(ErrorKind::Internal, "internal error: the worker ended without an answer");
    shared.workers.spawn(work).await.map_err(lost)?
}
