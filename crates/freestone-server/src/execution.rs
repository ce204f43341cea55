//! Execution of statements on the worker threads, while their connection waits on its own. A statement has a time
//! limit, and ends when its connection no longer waits. Statements that are answered at once, from memory, are executed by
//! the connection itself: changing threads would take longer.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use freestone::{
    Error, ErrorKind, Inputs, Outcome, ReservedMemory, Result, Session, Statement, StoredQuery, StoredRows,
};
use futures::StreamExt;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::metrics::Metrics;
use crate::shared::Shared;
use crate::traces::Trace;

/// Longer texts are parsed on the workers, because parsing them would delay other connections.
pub(crate) const LONG_TEXT_BYTES: usize = 64 << 10;
/// Batches of more bytes are large: a client that does not read them holds much memory.
const LARGE_BYTES: usize = 1 << 20;
/// The number of batches that the workers compute ahead of a connection.
const BATCHES_AHEAD: usize = 2;

fn too_late(limit: Duration) -> Error {
    Error::new(ErrorKind::Cancelled, format!("the statement took longer than {} ms", limit.as_millis()))
        .with_hint("raise statement_timeout, or ask for less")
}

/// The time of a statement, which begins with its text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    began: Instant,
    limit: Option<Duration>,
}

impl Clock {
    /// The time of a statement that begins now.
    pub fn start(limit: Option<Duration>) -> Self {
        Clock { began: Instant::now(), limit }
    }

    /// Waits for a part of the statement, such as its next rows from a client, which may stall.
    ///
    /// # Errors
    /// The statement's time has passed.
    pub async fn within<T>(&self, waiting: impl Future<Output = T>) -> Result<T> {
        match self.limit {
            Some(limit) => tokio::time::timeout_at(self.began + limit, waiting).await.map_err(|_| too_late(limit)),
            None => Ok(waiting.await),
        }
    }
}

/// Waits for work that begins a statement, up to the statement's time limit.
pub(crate) async fn at_most<T>(limit: Option<Duration>, work: impl Future<Output = T>) -> Result<T> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, work).await.map_err(|_| too_late(limit)),
        None => Ok(work.await),
    }
}

/// The result of a statement.
pub(crate) enum Answer {
    Rows(Rows),
    Affected { verb: &'static str, rows: u64 },
    Done { verb: &'static str },
}

/// The rows of a running statement. Dropping them ends the statement.
pub(crate) struct Rows {
    pub schema: SchemaRef,
    parts: Parts,
    /// The memory of the batch that was returned last, which is being sent.
    sending: Option<CountedMemory>,
    running: Running,
}

enum Parts {
    /// All are there.
    Ready(std::vec::IntoIter<RecordBatch>),
    /// The workers compute them.
    Coming(mpsc::Receiver<Result<PendingRows>>),
}

/// Rows that were not sent yet, with their memory.
type PendingRows = (StoredRows, Option<CountedMemory>);

/// Memory of what waits for its client or for the server, counted as its session's until this is dropped.
pub(crate) struct CountedMemory {
    memory: Arc<ReservedMemory>,
    bytes: usize,
}

impl CountedMemory {
    pub fn nothing(memory: Arc<ReservedMemory>) -> Self {
        CountedMemory { memory, bytes: 0 }
    }

    /// Counts more.
    ///
    /// # Errors
    /// There is no more memory.
    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        self.memory.grow(bytes)?;
        self.bytes += bytes;
        Ok(())
    }
}

impl std::fmt::Debug for CountedMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CountedMemory({} bytes)", self.bytes)
    }
}

impl Drop for CountedMemory {
    fn drop(&mut self) {
        self.memory.release(self.bytes);
    }
}

impl Rows {
    /// The next rows of a statement that returns only decoded rows.
    pub async fn next(&mut self) -> Option<Result<RecordBatch>> {
        Some(self.next_part().await?.and_then(|part| match part {
            StoredRows::Decoded(batch) => Ok(batch),
            StoredRows::Stored { .. } => {
                Err(Error::new(ErrorKind::Internal, "internal error: rows came as they are stored"))
            }
        }))
    }

    /// The next rows, decoded or in stored form.
    pub async fn next_part(&mut self) -> Option<Result<StoredRows>> {
        self.sending = None;
        let part = match &mut self.parts {
            Parts::Ready(rows) => Ok(rows.next().map(|batch| Ok((StoredRows::Decoded(batch), None)))),
            Parts::Coming(parts) => self.running.within(parts.recv()).await,
        };
        let part = match part {
            // The workers ended the statement at its time limit.
            Ok(None) if self.running.is_late() => Some(Err(self.running.too_late())),
            part => part.unwrap_or_else(|error| Some(Err(error))),
        };
        let part = part.map(|part| {
            let (rows, counted) = part?;
            self.sending = counted;
            Ok::<_, Error>(rows)
        });
        match &part {
            Some(Ok(part)) => self.running.sent(part.rows()),
            Some(Err(error)) => self.running.failed(error),
            None => {}
        }
        part
    }

    /// Waits for rows to be sent, up to the statement's time limit.
    ///
    /// # Errors
    ///
    /// The time limit has passed.
    pub async fn within<T>(&self, sending: impl Future<Output = T>) -> Result<T> {
        self.running.within(sending).await
    }
}

/// A running statement. The metrics count it until this is dropped.
struct Running {
    shared: Arc<Shared>,
    session: Arc<Session>,
    /// Of a statement that runs on the workers.
    task: Option<AbortHandle>,
    began: Instant,
    limit: Option<Duration>,
    /// Of a statement that is traced.
    trace: Option<Box<Trace>>,
}

impl Running {
    fn begin(shared: &Arc<Shared>, session: &Arc<Session>, statement: &Statement, clock: Clock) -> Running {
        Metrics::add(&shared.metrics.statements, 1);
        shared.metrics.running.fetch_add(1, Ordering::Relaxed);
        let Clock { began, limit } = clock;
        let trace = shared.traces.as_ref().and_then(|traces| traces.begin(&statement.text, began));
        Running { shared: shared.clone(), session: session.clone(), task: None, began, limit, trace }
    }

    /// The statement was planned, and returns rows.
    fn planned(&mut self) {
        if let Some(trace) = &mut self.trace {
            trace.planned();
        }
    }

    /// Rows are given to the connection.
    fn sent(&mut self, rows: usize) {
        Metrics::add(&self.shared.metrics.rows, rows as u64);
        if let Some(trace) = &mut self.trace {
            trace.sent(rows);
        }
    }

    /// Waits for work, up to the statement's time limit. Work that is already complete does not extend the limit.
    async fn within<T>(&self, waiting: impl Future<Output = T>) -> Result<T> {
        let Some(limit) = self.limit else { return Ok(waiting.await) };
        if self.is_late() {
            return Err(self.too_late());
        }
        tokio::time::timeout_at(self.began + limit, waiting).await.map_err(|_| self.too_late())
    }

    fn is_late(&self) -> bool {
        self.limit.is_some_and(|limit| self.began.elapsed() >= limit)
    }

    /// Cancels the statement, whose time limit has passed, and returns the error for its client.
    fn too_late(&self) -> Error {
        self.session.cancel_handle().cancel();
        too_late(self.limit.unwrap_or_default())
    }

    fn failed(&mut self, error: &Error) {
        if let Some(trace) = &mut self.trace {
            trace.failed(error.sqlstate());
        }
        let metrics = &self.shared.metrics;
        let counter = if error.kind() == ErrorKind::Cancelled { &metrics.cancelled } else { &metrics.failed };
        Metrics::add(counter, 1);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
        let metrics = &self.shared.metrics;
        metrics.running.fetch_sub(1, Ordering::Relaxed);
        Metrics::add(&metrics.busy_micros, self.began.elapsed().as_micros() as u64);
        if let (Some(traces), Some(trace)) = (&self.shared.traces, self.trace.take()) {
            traces.end(*trace);
        }
    }
}

/// Executes a statement.
pub(crate) async fn execute(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    statement: &Statement,
    inputs: Inputs,
    clock: Clock,
) -> Result<Answer> {
    if let Some(answer) = Box::pin(here(shared, session, statement, &inputs, clock)).await {
        return answer;
    }
    let (worker, given) = (session.clone(), statement.clone());
    start(shared, session, statement, clock, |begun| async move {
        match worker.execute_with_inputs(&given, inputs).await {
            Ok(outcome) => give(&worker, outcome, begun).await,
            Err(error) => drop(begun.send(Err(error))),
        }
    })
    .await
}

/// Executes a statement. If it returns whole columns of a table, they are in stored form.
pub(crate) async fn execute_stored(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    statement: &Statement,
    inputs: Inputs,
    clock: Clock,
) -> Result<Answer> {
    if let Some(answer) = Box::pin(here(shared, session, statement, &inputs, clock)).await {
        return answer;
    }
    let (worker, given) = (session.clone(), statement.clone());
    start(shared, session, statement, clock, |begun| async move {
        match worker.execute_stored(&given, inputs).await {
            Ok(freestone::Answer::Outcome(outcome)) => give(&worker, outcome, begun).await,
            Ok(freestone::Answer::Stored(query)) => give_stored(query, begun).await,
            Err(error) => drop(begun.send(Err(error))),
        }
    })
    .await
}

/// Executes a statement without the workers, if the session knows it as a point statement, or it is one about a
/// transaction that takes no time. A change of rows runs on a thread that may block, while the connection waits as for the
/// workers.
async fn here(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    statement: &Statement,
    inputs: &Inputs,
    clock: Clock,
) -> Option<Result<Answer>> {
    let outcome = session.execute_from_memory(statement, inputs);
    if outcome.is_none() && !session.knows_change(statement, inputs) {
        return None;
    }
    let mut running = Running::begin(shared, session, statement, clock);
    let outcome = match outcome {
        Some(outcome) => outcome,
        None => {
            let change = session.execute_with_inputs(statement, inputs.clone());
            let on_workers = WithRuntime { runtime: shared.workers.clone(), work: Box::pin(change) };
            running.within(on_workers).await.flatten()
        }
    };
    let error = match outcome {
        Ok(Outcome::Affected { verb, rows }) => return Some(Ok(Answer::Affected { verb, rows })),
        Ok(Outcome::Done { verb }) => return Some(Ok(Answer::Done { verb })),
        Ok(Outcome::Rows { schema, stream }) => {
            running.planned();
            match (Outcome::Rows { schema: schema.clone(), stream }).collect().await {
                Ok(rows) => {
                    let parts = Parts::Ready(rows.into_iter());
                    return Some(Ok(Answer::Rows(Rows { schema, parts, sending: None, running })));
                }
                Err(error) => error,
            }
        }
        Err(error) => error,
    };
    running.failed(&error);
    Some(Err(error))
}

/// Work that is polled here, and starts other work in another runtime.
struct WithRuntime<F> {
    runtime: Handle,
    work: Pin<Box<F>>,
}

impl<F: Future> Future for WithRuntime<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> task::Poll<F::Output> {
        let runtime = self.runtime.clone();
        let _entered = runtime.enter();
        self.work.as_mut().poll(context)
    }
}

async fn start<F>(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    statement: &Statement,
    clock: Clock,
    work: impl FnOnce(oneshot::Sender<Result<Start>>) -> F,
) -> Result<Answer>
where
    F: Future<Output = ()> + Send + 'static,
{
    let (begun, begin) = oneshot::channel();
    let mut running = Running::begin(shared, session, statement, clock);
    let (work, Clock { began, limit }) = (work(begun), clock);
    let in_time = async move {
        match limit {
            // After the limit, the memory of the statement is free, even if the client reads nothing.
            Some(limit) => drop(tokio::time::timeout_at(began + limit, work).await),
            None => work.await,
        }
    };
    running.task = Some(shared.workers.spawn(in_time).abort_handle());
    let lost = || Error::new(ErrorKind::Internal, "internal error: the statement ended without an answer");
    let begun = running.within(begin).await.and_then(|begun| match begun {
        Ok(begun) => begun,
        Err(_) if running.is_late() => Err(running.too_late()),
        Err(_) => Err(lost()),
    });
    match begun {
        Ok(Start::Rows { schema, parts }) => {
            running.planned();
            let parts = Parts::Coming(parts);
            Ok(Answer::Rows(Rows { schema, parts, sending: None, running }))
        }
        Ok(Start::Affected { verb, rows }) => Ok(Answer::Affected { verb, rows }),
        Ok(Start::Done { verb }) => Ok(Answer::Done { verb }),
        Err(error) => {
            running.failed(&error);
            Err(error)
        }
    }
}

enum Start {
    Rows { schema: SchemaRef, parts: mpsc::Receiver<Result<PendingRows>> },
    Affected { verb: &'static str, rows: u64 },
    Done { verb: &'static str },
}

/// Gives an outcome's rows to the connection. Those that wait for it count as memory; where there is none for them, the
/// workers wait until the connection has taken what they gave. Where the process has no memory for large rows, the statement
/// fails: its client may never read them.
async fn give(session: &Session, outcome: Outcome, begun: oneshot::Sender<Result<Start>>) {
    let (schema, mut stream) = match outcome {
        Outcome::Rows { schema, stream } => (schema, stream),
        Outcome::Affected { verb, rows } => return drop(begun.send(Ok(Start::Affected { verb, rows }))),
        Outcome::Done { verb } => return drop(begun.send(Ok(Start::Done { verb }))),
    };
    let (sender, parts) = mpsc::channel(BATCHES_AHEAD);
    if begun.send(Ok(Start::Rows { schema, parts })).is_err() {
        return;
    }
    let memory = Arc::new(session.reserve_memory_for("rows that wait for their client"));
    while let Some(batch) = stream.next().await {
        let part = match batch {
            Ok(batch) => {
                let bytes = batch.get_array_memory_size();
                if bytes > LARGE_BYTES
                    && let Err(error) = session.check_memory()
                {
                    drop((batch, stream));
                    let _ = sender.send(Err(error)).await;
                    return;
                }
                if memory.grow(bytes).is_err() {
                    // This waits until the connection has taken all rows.
                    if sender.reserve_many(BATCHES_AHEAD).await.is_err() {
                        return;
                    }
                    memory.grow_unchecked(bytes);
                }
                Ok((StoredRows::Decoded(batch), Some(CountedMemory { memory: memory.clone(), bytes })))
            }
            Err(error) => Err(Error::from(error)),
        };
        let ends = part.is_err();
        if sender.send(part).await.is_err() || ends {
            return;
        }
    }
}

async fn give_stored(mut query: Box<StoredQuery>, begun: oneshot::Sender<Result<Start>>) {
    let (sender, parts) = mpsc::channel(BATCHES_AHEAD);
    if begun.send(Ok(Start::Rows { schema: query.schema().clone(), parts })).is_err() {
        return;
    }
    let read = move || {
        while let Some(part) = query.next_rows().transpose() {
            let ends = part.is_err();
            if sender.blocking_send(part.map(|part| (part, None))).is_err() || ends {
                return;
            }
        }
    };
    // The task ends when the receiver of its rows is dropped.
    let _ = tokio::task::spawn_blocking(read).await;
}

/// The statements of a text. A long one is read on the workers, within the time of one statement.
pub(crate) async fn parse(
    shared: &Shared,
    session: &Arc<Session>,
    limit: Option<Duration>,
    text: String,
) -> Result<Vec<Statement>> {
    if text.len() <= LONG_TEXT_BYTES {
        return session.parse(&text);
    }
    let session = session.clone();
    at_most(limit, on_blocking(shared, move || session.parse(&text))).await??
}

/// Runs blocking work on a thread for such work.
pub(crate) async fn on_blocking<T: Send + 'static>(
    shared: &Shared,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let lost = |_| Error::new(ErrorKind::Internal, "internal error: the worker ended without an answer");
    shared.workers.spawn_blocking(work).await.map_err(lost)
}

/// Runs a future on the workers, for at most the time of a statement: planning takes their kind of time. It ends when
/// nobody waits for it any more.
pub(crate) async fn on_workers<T: Send + 'static>(
    shared: &Shared,
    limit: Option<Duration>,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let lost = |_| Error::new(ErrorKind::Internal, "internal error: the worker ended without an answer");
    /// Ends the work when nobody waits for it.
    struct AbortGuard(AbortHandle);
    impl Drop for AbortGuard {
        fn drop(&mut self) {
            self.0.abort();
        }
    }
    let task = shared.workers.spawn(work);
    let _ends = AbortGuard(task.abort_handle());
    at_most(limit, task).await?.map_err(lost)?
}
