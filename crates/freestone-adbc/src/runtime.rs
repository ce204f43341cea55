//! The driver's threads, and how callers run work on them and wait for it.
//!
//! A caller may be on a thread of any asynchronous runtime, so it waits without one. Cancelled work ends at once for
//! its caller, even if the engine takes longer to stop.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use adbc_core::CancelHandle;
use adbc_core::error::{Error, Result};
use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::compute::cast;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use freestone::Strings;
use freestone_wire::Threads;
use parking_lot::Mutex;
use tokio::runtime::EnterGuard;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use crate::error::{cancelled, engine, internal, state};

/// The number of batches that are computed ahead of their reader.
const BATCHES_AHEAD: usize = 4;

/// How often a waiting thread checks whether its work was cancelled, and how long it then waits for the end of the
/// work.
const LOOK: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(2);

/// The work of one connection on the threads.
pub struct Lane {
    threads: Arc<Threads>,
    /// Abandoned work that may not have ended yet.
    leaving: Mutex<Vec<JoinHandle<()>>>,
}

impl Lane {
    /// The work of a new connection.
    pub fn on(threads: Arc<Threads>) -> Arc<Lane> {
        Arc::new(Lane { threads, leaving: Mutex::default() })
    }

    /// Enters the runtime, for values that notify a server when they are dropped.
    pub fn enter(&self) -> EnterGuard<'_> {
        self.threads.enter()
    }

    /// Waits for the end of abandoned work, because a connection to a server does one thing at a time.
    pub async fn settled(&self) {
        let leaving = std::mem::take(&mut *self.leaving.lock());
        for task in leaving {
            // An error means that it was aborted or panicked. In both cases it has ended.
            _ = task.await;
        }
    }

    /// Starts work that sends messages. It waits while `ahead` messages are queued.
    ///
    /// # Errors
    ///
    /// This process was forked from the one that opened the database.
    pub fn spawn<T, F>(
        self: &Arc<Self>,
        ahead: usize,
        signals: Signals,
        work: impl FnOnce(Outlet<T>) -> F,
    ) -> Result<Inlet<T>>
    where
        T: Send + 'static,
        F: Future<Output = Result<()>> + Send + 'static,
    {
        if !self.threads.are_of_this_process() {
            let message =
                "the database belongs to the process that this one was forked from; open it again in this one";
            return Err(state(message));
        }
        let (sender, receiver) = channel();
        let room = Arc::new(Semaphore::new(ahead));
        let work = work(Outlet { sender: sender.clone(), room: room.clone() });
        let mut watched = signals.clone();
        let task = self.threads.spawn(async move {
            let ended = tokio::select! {
                biased;
                () = watched.cancelled() => Err(cancelled()),
                ended = work => ended,
            };
            // If this message is missing, the work has panicked.
            _ = sender.send(ended.map(|()| None));
        });
        Ok(Inlet { receiver, room, task: Some(task), signals, lane: self.clone() })
    }

    /// Runs work to its end and returns its result.
    ///
    /// # Errors
    ///
    /// Those of the work, or it was cancelled.
    pub fn wait<T: Send + 'static>(
        self: &Arc<Self>,
        signals: Signals,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let mut inlet = self.spawn(1, signals, |outlet| async move {
            let value = work.await?;
            outlet.send(value).await;
            Ok(())
        })?;
        inlet.receive()?.ok_or_else(|| internal("the work ended without a result"))
    }
}

/// Cancels all running work that watches it. Work that is started later is not affected.
#[derive(Clone)]
pub struct Cancel(Arc<watch::Sender<u64>>);

impl Default for Cancel {
    fn default() -> Self {
        Cancel(Arc::new(watch::Sender::new(0)))
    }
}

impl CancelHandle for Cancel {
    fn try_cancel(&self) -> Result<()> {
        self.0.send_modify(|generation| *generation += 1);
        Ok(())
    }
}

/// The signals that cancel a piece of work, from its start: those of its connection and its statement.
#[derive(Clone)]
pub struct Signals {
    cancels: Vec<(Cancel, u64)>,
}

impl Signals {
    /// The signals of these sources, from now on.
    pub fn of(cancels: &[&Cancel]) -> Self {
        let now = |cancel: &Cancel| *cancel.0.borrow();
        Signals { cancels: cancels.iter().map(|cancel| ((*cancel).clone(), now(cancel))).collect() }
    }

    fn is_cancelled(&self) -> bool {
        self.cancels.iter().any(|(cancel, began)| *cancel.0.borrow() != *began)
    }

    async fn cancelled(&mut self) {
        let waits = self.cancels.iter().map(|(cancel, began)| {
            let (mut receiver, began) = (cancel.0.subscribe(), *began);
            Box::pin(async move {
                // The sender lives as long as these signals.
                _ = receiver.wait_for(|generation| *generation != began).await;
            })
        });
        futures::future::select_all(waits).await;
    }
}

/// The sending end of the messages of running work.
pub struct Outlet<T> {
    sender: Sender<Result<Option<T>>>,
    room: Arc<Semaphore>,
}

impl<T> Outlet<T> {
    /// Sends a message when there is room for it. False if the receiver was dropped.
    pub async fn send(&self, message: T) -> bool {
        match self.room.acquire().await {
            Ok(permit) => permit.forget(),
            Err(_) => return false,
        }
        self.sender.send(Ok(Some(message))).is_ok()
    }
}

/// The receiving end, with the work. Dropping it ends the work.
pub struct Inlet<T> {
    receiver: Receiver<Result<Option<T>>>,
    room: Arc<Semaphore>,
    task: Option<JoinHandle<()>>,
    signals: Signals,
    lane: Arc<Lane>,
}

impl<T> Inlet<T> {
    /// Waits for the next message. `None` at the end.
    ///
    /// # Errors
    ///
    /// The work failed, panicked or was cancelled.
    pub fn receive(&mut self) -> Result<Option<T>> {
        let mut noticed = None;
        loop {
            match self.receiver.recv_timeout(LOOK) {
                Ok(message) => {
                    self.room.add_permits(1);
                    return message;
                }
                Err(RecvTimeoutError::Disconnected) => return Err(internal("a panic of the work")),
                Err(RecvTimeoutError::Timeout) if self.signals.is_cancelled() => {
                    if noticed.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                        return Err(cancelled());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

impl<T> Drop for Inlet<T> {
    fn drop(&mut self) {
        self.room.close();
        let Some(task) = self.task.take() else { return };
        task.abort();
        let mut leaving = self.lane.leaving.lock();
        leaving.retain(|task| !task.is_finished());
        leaving.push(task);
    }
}

/// The messages of a running statement. The first is the columns of its rows, or the number of changed rows, if known.
pub enum Message {
    /// The columns of the rows.
    Schema(SchemaRef),
    /// The next rows.
    Batch(RecordBatch),
    /// The end of a statement without rows, with the number of rows that it changed, if known.
    Changed(Option<u64>),
}

/// The first message of a statement.
pub enum FirstMessage {
    /// The statement returns rows.
    Rows(Rows),
    /// The statement returns no rows; the number of rows that it changed, if known.
    Changed(Option<u64>),
}

/// The source of the rows of a result.
pub enum Source {
    /// The statement runs.
    Running(Inlet<Message>),
    /// All rows were read, or the statement failed.
    Ended,
    /// The statement was executed again.
    Superseded,
}

/// The source of a statement's last result, which ends if the statement is executed again.
pub type CurrentSource = Arc<Mutex<Source>>;

/// Ends the result of a statement that is executed again.
pub fn supersede(current: &CurrentSource) {
    let mut source = current.lock();
    if matches!(*source, Source::Running(_)) {
        *source = Source::Superseded;
    }
}

/// Starts a statement and waits for its first rows, so that its errors are returned at once.
///
/// # Errors
///
/// The statement failed or was cancelled.
pub fn start<F>(
    lane: &Arc<Lane>,
    signals: Signals,
    strings: Strings,
    work: impl FnOnce(Outlet<Message>) -> F,
) -> Result<FirstMessage>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let mut inlet = lane.spawn(BATCHES_AHEAD, signals, work)?;
    let schema = match inlet.receive()? {
        Some(Message::Schema(schema)) => schema,
        Some(Message::Changed(rows)) => return Ok(FirstMessage::Changed(rows)),
        Some(Message::Batch(_)) | None => return Err(internal("the statement ended without a result")),
    };
    let schema = strings.schema(&schema);
    let current = Arc::new(Mutex::new(Source::Running(inlet)));
    let mut rows = Rows { schema, strings, ready: VecDeque::new(), current, failure: Failure::default() };
    if let Some(batch) = rows.receive()? {
        rows.ready.push_back(batch);
    }
    Ok(FirstMessage::Rows(rows))
}

/// The error that ended a result, for the holder of its stream.
pub type Failure = Arc<Mutex<Option<Error>>>;

/// The rows of a statement, which are computed while they are read, a few batches ahead. Dropping them ends the
/// statement.
pub struct Rows {
    schema: SchemaRef,
    strings: Strings,
    ready: VecDeque<RecordBatch>,
    current: CurrentSource,
    failure: Failure,
}

impl Drop for Rows {
    fn drop(&mut self) {
        // The statement shares the source in order to end it, and must not keep it alive.
        *self.current.lock() = Source::Ended;
    }
}

impl Rows {
    /// A result without columns and rows.
    pub fn none() -> Rows {
        Rows {
            schema: Arc::new(Schema::empty()),
            strings: Strings::Plain,
            ready: VecDeque::new(),
            current: Arc::new(Mutex::new(Source::Ended)),
            failure: Failure::default(),
        }
    }

    /// The source of these rows, with which they can be ended.
    pub fn current(&self) -> CurrentSource {
        self.current.clone()
    }

    /// The error that ended these rows, if one did.
    pub fn failure(&self) -> Failure {
        self.failure.clone()
    }

    /// The next batch with rows.
    fn receive(&mut self) -> Result<Option<RecordBatch>> {
        let current = self.current.clone();
        let mut source = current.lock();
        let ended = loop {
            let inlet = match &mut *source {
                Source::Running(inlet) => inlet,
                Source::Ended => return Ok(None),
                Source::Superseded => {
                    return Err(state("the rows ended when their statement was executed again; use two statements"));
                }
            };
            match inlet.receive() {
                Ok(Some(Message::Batch(batch))) if batch.num_rows() > 0 => return self.conform(batch).map(Some),
                Ok(Some(_)) => {}
                Ok(None) => break Ok(None),
                Err(error) => break Err(error),
            }
        };
        *source = Source::Ended;
        ended
    }

    fn conform(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let batch = self.strings.batch(batch).map_err(engine)?;
        if *batch.schema() == *self.schema {
            return Ok(batch);
        }
        if batch.num_columns() != self.schema.fields().len() {
            return Err(state("the statement's columns have changed since it began"));
        }
        let columns = batch.columns().iter().zip(self.schema.fields());
        let columns = columns.map(|(array, field)| cast(array, field.data_type()).map_err(engine));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        RecordBatch::try_new(self.schema.clone(), columns).map_err(engine)
    }
}

impl Iterator for Rows {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(batch) = self.ready.pop_front() {
            return Some(Ok(batch));
        }
        // The caller may be C code, through which a panic must not unwind.
        let next = catch_unwind(AssertUnwindSafe(|| self.receive()));
        let next = next.unwrap_or_else(|_| Err(internal("a panic while rows were read")));
        next.transpose().map(|next| {
            next.map_err(|error| {
                *self.failure.lock() = Some(error.clone());
                ArrowError::ExternalError(Box::new(error))
            })
        })
    }
}

impl RecordBatchReader for Rows {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
