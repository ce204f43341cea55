//! The execution of a statement on the workers, for a connection that waits elsewhere: with a time limit, and ended when
//! the connection no longer waits.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use freestone::{Error, ErrorKind, Inputs, Outcome, Result, Session, Statement, StoredQuery, StoredRows};
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
    parts: mpsc::Receiver<Result<StoredRows>>,
    running: Running,
}

impl Rows {
    /// The next rows of a statement that was not executed to give them as they are stored.
    pub async fn next(&mut self) -> Option<Result<RecordBatch>> {
        Some(self.next_part().await?.and_then(|part| match part {
            StoredRows::Decoded(batch) => Ok(batch),
            StoredRows::Stored { .. } => {
                Err(Error::new(ErrorKind::Internal, "internal error: rows came as they are stored"))
            }
        }))
    }

    /// The next rows, decoded or as they are stored.
    pub async fn next_part(&mut self) -> Option<Result<StoredRows>> {
        let part = self.running.within(self.parts.recv()).await;
        let part = part.unwrap_or_else(|error| Some(Err(error)));
        match &part {
            Some(Ok(part)) => Metrics::add(&self.running.shared.metrics.rows, part.rows() as u64),
            Some(Err(error)) => self.running.failed(error),
            None => {}
        }
        part
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
    inputs: Inputs,
    limit: Option<Duration>,
) -> Result<Answer> {
    let (worker, statement) = (session.clone(), statement.clone());
    start(shared, session, limit, |begun| async move {
        match worker.execute_given(&statement, inputs).await {
            Ok(outcome) => give(outcome, begun).await,
            Err(error) => drop(begun.send(Err(error))),
        }
    })
    .await
}

/// Executes a statement on the workers; whole columns of a table come as they are stored.
pub(crate) async fn execute_stored(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    statement: &Statement,
    inputs: Inputs,
    limit: Option<Duration>,
) -> Result<Answer> {
    let (worker, statement) = (session.clone(), statement.clone());
    start(shared, session, limit, |begun| async move {
        match worker.execute_stored(&statement, inputs).await {
            Ok(freestone::Answer::Outcome(outcome)) => give(outcome, begun).await,
            Ok(freestone::Answer::Stored(query)) => give_stored(query, begun).await,
            Err(error) => drop(begun.send(Err(error))),
        }
    })
    .await
}

async fn start<F>(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    limit: Option<Duration>,
    work: impl FnOnce(oneshot::Sender<Result<Begun>>) -> F,
) -> Result<Answer>
where
    F: Future<Output = ()> + Send + 'static,
{
    let (begun, begin) = oneshot::channel();
    Metrics::add(&shared.metrics.statements, 1);
    shared.metrics.running.fetch_add(1, Ordering::Relaxed);
    let task = shared.workers.spawn(work(begun)).abort_handle();
    let (shared, session) = (shared.clone(), session.clone());
    let running = Running { shared, session, task, began: Instant::now(), limit };
    let lost = || Error::new(ErrorKind::Internal, "internal error: the statement ended without an answer");
    let begun = running.within(begin).await.and_then(|begun| begun.unwrap_or_else(|_| Err(lost())));
    match begun {
        Ok(Begun::Rows { schema, parts }) => Ok(Answer::Rows(Rows { schema, parts, running })),
        Ok(Begun::Affected { verb, rows }) => Ok(Answer::Affected { verb, rows }),
        Ok(Begun::Done { verb }) => Ok(Answer::Done { verb }),
        Err(error) => {
            running.failed(&error);
            Err(error)
        }
    }
}

enum Begun {
    Rows { schema: SchemaRef, parts: mpsc::Receiver<Result<StoredRows>> },
    Affected { verb: &'static str, rows: u64 },
    Done { verb: &'static str },
}

async fn give(outcome: Outcome, begun: oneshot::Sender<Result<Begun>>) {
    let (schema, mut stream) = match outcome {
        Outcome::Rows { schema, stream } => (schema, stream),
        Outcome::Affected { verb, rows } => return drop(begun.send(Ok(Begun::Affected { verb, rows }))),
        Outcome::Done { verb } => return drop(begun.send(Ok(Begun::Done { verb }))),
    };
    let (sender, parts) = mpsc::channel(BATCHES_AHEAD);
    if begun.send(Ok(Begun::Rows { schema, parts })).is_err() {
        return;
    }
    while let Some(batch) = stream.next().await {
        let ends = batch.is_err();
        if sender.send(batch.map(StoredRows::Decoded).map_err(Error::from)).await.is_err() || ends {
            return;
        }
    }
}

async fn give_stored(mut query: Box<StoredQuery>, begun: oneshot::Sender<Result<Begun>>) {
    let (sender, parts) = mpsc::channel(BATCHES_AHEAD);
    if begun.send(Ok(Begun::Rows { schema: query.schema().clone(), parts })).is_err() {
        return;
    }
    let read = move || {
        while let Some(part) = query.next_rows().transpose() {
            let ends = part.is_err();
            if sender.blocking_send(part).is_err() || ends {
                return;
            }
        }
    };
    // It ends when nobody takes its rows any more.
    let _ = tokio::task::spawn_blocking(read).await;
}

/// Runs a future on the workers: planning takes their kind of time.
pub(crate) async fn on_workers<T: Send + 'static>(
    shared: &Shared,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let lost = |_| Error::new(ErrorKind::Internal, "internal error: the worker ended without an answer");
    shared.workers.spawn(work).await.map_err(lost)?
}
