//! A worker: it has a database open for reading, and runs the tasks of servers.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow_flight::FlightData;
use arrow_flight::encode::{DictionaryHandling, FlightDataEncoderBuilder};
use arrow_flight::error::FlightError;
use async_trait::async_trait;
use freestone::BlockCounters;
use freestone::cluster::{Task, TaskError};
use freestone::{Database, TaskRunner};
use futures::{Stream, StreamExt, TryStreamExt};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tonic::Status;

use crate::address::with_port;
use crate::client::{Peer, Trust, size};
use crate::error::{ClusterError, Result};
use crate::flight::{Answering, Answers};
use crate::listener::Listener;
use crate::messages::{HELLO, Hello, JOIN, Join, PROTOCOL, RELEASE, Release, VERSION, answer, reason, status};
use crate::metrics::{Counted, MetricsText, TaskCounters};
use crate::token::{Token, now_ms};

/// How often a worker tells its server that it is there.
const JOIN_EVERY: Duration = Duration::from_secs(5);
/// While the server is not there, it is tried more often.
const JOIN_SOON: Duration = Duration::from_millis(500);
/// The time for tasks to end after a worker is told to stop, and for connections to end after that.
const GRACE: Duration = Duration::from_secs(60);
const END: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(20);
/// The batches that wait until they are sent.
const WAITING: usize = 4;

/// How a worker is set up.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// Where it listens: an address, or a port of the loopback interface.
    pub listen: String,
    /// The file of the cluster's secret.
    pub token_file: PathBuf,
    /// The certificate of its address and the key, in PEM format.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// The server that it joins.
    pub join: Option<String>,
    /// The certificates of this server to trust, in PEM format.
    pub ca: Option<PathBuf>,
    /// The address by which the server reaches it; that on which it listens if there is none.
    pub advertise: Option<String>,
    /// The version that it has: [`VERSION`], but for tests.
    pub version: String,
}

impl WorkerOptions {
    /// A worker at an address of this machine.
    pub fn new(listen: impl Into<String>, token_file: impl Into<PathBuf>) -> WorkerOptions {
        WorkerOptions {
            listen: listen.into(),
            token_file: token_file.into(),
            tls: None,
            join: None,
            ca: None,
            advertise: None,
            version: VERSION.to_owned(),
        }
    }
}

/// A worker with an open address.
pub struct Worker {
    listener: Listener,
    state: Arc<State>,
    join: Option<(Peer, String)>,
}

/// What the requests of a worker share.
struct State {
    runner: TaskRunner,
    /// The threads that run tasks.
    threads: Handle,
    database: String,
    version: String,
    is_draining: AtomicBool,
    tasks: Arc<TaskCounters>,
    token: Token,
}

impl Worker {
    /// Opens the address of a worker. Tasks run on `threads`, and connections on the calling runtime.
    ///
    /// # Errors
    /// A file cannot be read, an address is not valid, not safe or not free, or the database is in memory.
    pub async fn bind(options: WorkerOptions, database: Arc<Database>, threads: Handle) -> Result<Worker> {
        let identity = database.identity().ok_or_else(|| {
            ClusterError::new("a database in memory cannot be shared with other processes")
                .with_hint("name the store of the database: --store file:///folder")
        })?;
        let token = Token::load(&options.token_file)?;
        let server = options.join.as_deref().map(with_port).transpose()?;
        let trust = options.ca.as_deref().map(Trust::load).transpose()?;
        let peer = server.map(|address| Peer::new(&address, None, &token, trust.as_ref())).transpose()?;
        let runner = TaskRunner::new(database).map_err(|error| ClusterError::new(error.to_string()))?;
        let listener = Listener::bind(&options.listen, options.tls, token.clone()).await?;
        let own = options.advertise.as_deref().map(with_port).transpose()?;
        let own = own.unwrap_or_else(|| listener.address().to_string());
        if peer.is_some() && listener.address().ip().is_unspecified() && options.advertise.is_none() {
            return Err(ClusterError::new(format!("{own} is not an address by which a server can reach this worker"))
                .with_hint("name one: --advertise HOST:PORT"));
        }
        let state = State {
            runner,
            threads,
            database: identity,
            version: options.version,
            is_draining: AtomicBool::new(false),
            tasks: Arc::default(),
            token,
        };
        Ok(Worker { listener, state: Arc::new(state), join: peer.map(|peer| (peer, own)) })
    }

    /// Where it listens, such as `worker://127.0.0.1:5578`.
    pub fn address(&self) -> String {
        format!("worker://{}", self.listener.address())
    }

    /// What gives the counters of its tasks, in the format of Prometheus, also while it runs.
    pub fn metrics(&self) -> impl Fn() -> String + Send + Sync + use<> {
        let state = self.state.clone();
        move || {
            let mut text = MetricsText::default();
            let draining = f64::from(u8::from(state.is_draining.load(Ordering::Relaxed)));
            text.one("freestone_worker_draining", "gauge", "1 if it takes no new tasks", draining);
            state.tasks.write(&mut text, "freestone_worker", "sent");
            if let Some(cache) = state.runner.database().store().block_cache() {
                write_cache(&mut text, &cache.counters());
            }
            text.into_string()
        }
    }

    /// Runs tasks until `stop` completes. Then it takes no new ones, and those that have begun have some time to end.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) {
        let Worker { listener, state, join } = self;
        let joining = join.map(|(peer, own)| tokio::spawn(joining(peer, own, state.clone())));
        let (draining, drained) = (state.clone(), Arc::new(tokio::sync::Notify::new()));
        let told = drained.clone();
        let ended = async move {
            stop.await;
            tracing::info!("stopping: tasks that have begun may end");
            draining.is_draining.store(true, Ordering::SeqCst);
            let none_runs = async {
                while draining.tasks.running() > 0 {
                    sleep(POLL).await;
                }
            };
            let _ = tokio::time::timeout(GRACE, none_runs).await;
            told.notify_one();
        };
        let forced = async {
            drained.notified().await;
            sleep(END).await;
        };
        // Servers keep their connections, so these are ended, and not waited for.
        tokio::select! {
            () = listener.serve(Tasks(state), ended) => {}
            () = forced => {}
        }
        if let Some(joining) = joining {
            joining.abort();
        }
        tracing::info!("stopped");
    }
}

/// The counters of pages on a disk of this machine.
fn write_cache(text: &mut MetricsText, of: &BlockCounters) {
    let counters = [
        ("hits", "Pages that were found in the disk cache", of.hits),
        ("misses", "Pages that were not", of.misses),
        ("written", "Pages that the disk cache took", of.written),
        ("reread", "Pages that were read again from the store, because they were damaged or are checked", of.reread),
        ("refused", "Pages that the disk refused", of.refused),
    ];
    for (name, help, value) in counters {
        text.one(&format!("freestone_disk_cache_{name}_total"), "counter", help, value as f64);
    }
    text.one("freestone_disk_cache_bytes", "gauge", "Bytes in the disk cache", of.bytes as f64);
}

/// Tells a server again and again that a worker is there.
async fn joining(server: Peer, own: String, state: Arc<State>) {
    let body = serde_json::to_vec(&Join { address: own }).unwrap_or_default();
    let mut was_there = true;
    while !state.is_draining.load(Ordering::Relaxed) {
        let joined = server.action(JOIN, body.clone()).await;
        match &joined {
            Ok(_) if !was_there => tracing::info!("the server is there again"),
            Err(status) if was_there => tracing::warn!(reason = reason(status), "the server cannot be joined"),
            _ => {}
        }
        was_there = joined.is_ok();
        sleep(if was_there { JOIN_EVERY } else { JOIN_SOON }).await;
    }
}

/// The answers of a worker.
struct Tasks(Arc<State>);

#[async_trait]
impl Answering for Tasks {
    fn database(&self) -> Option<&str> {
        Some(&self.0.database)
    }

    async fn task(&self, ticket: &[u8]) -> Result<Answers<FlightData>, Status> {
        // It is counted until its rows are sent, or nobody wants them.
        let counted = Counted::new(&self.0.tasks);
        let failed = |error: TaskError| {
            self.0.tasks.add_failure(&error);
            status(error)
        };
        if self.0.is_draining.load(Ordering::SeqCst) {
            return Err(failed(TaskError::Declined("it ends, and takes no new tasks".to_owned())));
        }
        let task = Task::decode(ticket).map_err(|error| failed(TaskError::Failed(error)))?;
        let state = self.0.clone();
        // A task whose server does not wait any more ends with the channels.
        let (begun, begins) = tokio::sync::oneshot::channel();
        let (sender, batches) = mpsc::channel(WAITING);
        let running = self.0.threads.spawn(async move {
            match state.runner.run(&task).await {
                Err(error) => drop(begun.send(Err(error))),
                Ok((schema, mut rows)) => {
                    let _ = begun.send(Ok(schema));
                    while let Some(batch) = rows.next().await {
                        if sender.send(batch.map(Some)).await.is_err() {
                            return;
                        }
                    }
                    let _ = sender.send(Ok(None)).await;
                }
            }
        });
        let running = Aborting(running);
        let schema = match begins.await {
            Ok(schema) => schema.map_err(failed)?,
            Err(_) => return Err(Status::internal("the task has ended without an answer")),
        };
        let batches = Batches { batches, is_whole: false, counted, _running: running };
        let counters = self.0.tasks.clone();
        let batches = batches.map_err(|error| FlightError::Tonic(Box::new(status(error))));
        let encoded = FlightDataEncoderBuilder::new()
            .with_schema(schema)
            .with_dictionary_handling(DictionaryHandling::Resend)
            .build(batches)
            .map_err(|error| match error {
                FlightError::Tonic(status) => *status,
                other => Status::internal(other.to_string()),
            })
            .inspect_ok(move |message| counters.add_bytes(size(message)));
        Ok(Box::pin(encoded))
    }

    async fn action(&self, kind: &str, question: &[u8]) -> Result<Vec<u8>, Status> {
        let state = &self.0;
        if kind == RELEASE {
            let wrong = |error: serde_json::Error| Status::invalid_argument(error.to_string());
            let Release { task, turn } = serde_json::from_slice(question).map_err(wrong)?;
            return serde_json::to_vec(&state.runner.release(task, turn)).map_err(wrong);
        }
        if kind != HELLO {
            return Err(Status::unimplemented(format!("a worker does not know `{kind}`")));
        }
        let hello = Hello {
            version: state.version.clone(),
            protocol: PROTOCOL,
            database: state.database.clone(),
            is_draining: state.is_draining.load(Ordering::Relaxed),
            threads: state.runner.database().options().threads as u64,
            tasks: state.tasks.running(),
            now_ms: now_ms(),
        };
        answer(&state.token, question, &hello).map_err(|error| Status::internal(error.to_string()))
    }
}

/// A task on its threads, which ends when nobody wants its rows.
struct Aborting(tokio::task::JoinHandle<()>);

impl Drop for Aborting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The batches of a task, as they come from its threads.
struct Batches {
    /// `None` follows the last one: without it, some may be missing.
    batches: mpsc::Receiver<Result<Option<RecordBatch>, TaskError>>,
    is_whole: bool,
    counted: Counted,
    _running: Aborting,
}

impl Stream for Batches {
    type Item = Result<RecordBatch, TaskError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_whole {
            return Poll::Ready(None);
        }
        let error = match ready!(self.batches.poll_recv(context)) {
            Some(Ok(batch)) => {
                self.is_whole = batch.is_none();
                let rows = batch.as_ref().map_or(0, RecordBatch::num_rows);
                self.counted.counters().add_rows(rows);
                return Poll::Ready(batch.map(Ok));
            }
            Some(Err(error)) => error,
            None => {
                self.is_whole = true;
                TaskError::Declined("the task ended before its last row".to_owned())
            }
        };
        self.counted.counters().add_failure(&error);
        Poll::Ready(Some(Err(error)))
    }
}
