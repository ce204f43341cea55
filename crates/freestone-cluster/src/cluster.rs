//! A server's side: it knows its workers, looks after them, and sends them tasks.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow_flight::FlightData;
use async_trait::async_trait;
use freestone::Database;
use freestone::cluster::{KnownWorkers, Piece, Task, TaskError, TaskRows, WorkerState, Workers};
use futures::StreamExt;
use tokio::net::lookup_host;
use tonic::Status;

use crate::address::{Hosts, host, with_port};
use crate::client::Trust;
use crate::error::{ClusterError, Result};
use crate::flight::{Answering, Answers};
use crate::listener::Listener;
use crate::members::{Members, READY};
use crate::messages::{JOIN, Join, RELEASE, Release, reason};
use crate::metrics::{Counted, MetricsText, TaskCounters};
use crate::token::Token;

/// How often workers are asked who they are, and how often a name is looked up.
const ASK_EVERY: Duration = Duration::from_secs(1);
const LOOK_UP_EVERY: Duration = Duration::from_secs(5);

/// What a server needs to know of its cluster.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// Who the workers are.
    pub hosts: Hosts,
    /// The file of the cluster's secret.
    pub token_file: PathBuf,
    /// The certificates of workers to trust, in PEM format. Without them there is no TLS.
    pub ca: Option<PathBuf>,
    /// Where workers join: an address, or a port of the loopback interface.
    pub listen: Option<String>,
    /// The certificate of this address and its key, in PEM format.
    pub tls: Option<(PathBuf, PathBuf)>,
}

/// The workers of a server.
pub struct Cluster {
    members: Arc<Members>,
    tasks: Arc<TaskCounters>,
    hosts: Hosts,
    identity: String,
    /// Where workers join.
    listener: parking_lot::Mutex<Option<Listener>>,
    address: Option<String>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Makes the workers known. Nothing is sent before [`Cluster::watch`].
    ///
    /// # Errors
    /// A file cannot be read, an address is not valid or not safe, or the database is in memory.
    pub async fn new(options: ClusterOptions, database: &Database) -> Result<Arc<Cluster>> {
        let identity = database.identity().ok_or_else(|| {
            ClusterError::new("a database in memory cannot be shared with workers")
                .with_hint("name a database in a store, such as file:///folder")
        })?;
        let token = Token::load(&options.token_file)?;
        let trust = options.ca.as_deref().map(Trust::load).transpose()?;
        let members = Arc::new(Members::new(token.clone(), trust));
        if let Hosts::Named(hosts) = &options.hosts {
            hosts.iter().try_for_each(|host| members.add(host, None))?;
        }
        let listener = match options.hosts {
            Hosts::Join => {
                let listen = options.listen.as_deref().unwrap_or(JOIN_ADDRESS);
                Some(Listener::bind(listen, options.tls, token).await?)
            }
            _ => None,
        };
        let address = listener.as_ref().map(|listener| format!("cluster://{}", listener.address()));
        let listener = parking_lot::Mutex::new(listener);
        let tasks = Arc::default();
        Ok(Arc::new(Cluster { members, tasks, hosts: options.hosts, identity, listener, address }))
    }

    /// Where workers join, such as `cluster://127.0.0.1:5579`.
    pub fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    /// The counters of its tasks and workers, in the format of Prometheus.
    pub fn metrics(&self) -> String {
        let mut text = MetricsText::default();
        let states = self.members.by_state().into_iter().map(|(state, count)| (state, count as f64));
        text.labelled("freestone_cluster_workers", "gauge", "Workers that are known", "state", states);
        let lost = self.members.losses() as f64;
        text.one("freestone_cluster_workers_lost_total", "counter", "Ready workers that were lost", lost);
        self.tasks.write(&mut text, "freestone_cluster", "received");
        text.into_string()
    }

    /// Asks all workers once who they are, and from then on every second, on the calling runtime.
    pub async fn watch(self: &Arc<Self>) {
        self.look_up().await;
        self.members.ask(&self.identity).await;
        tokio::spawn(self.clone().keep_asking());
        if matches!(self.hosts, Hosts::Dns(_)) {
            tokio::spawn(self.clone().keep_looking_up());
        }
        let listener = self.listener.lock().take();
        if let Some(listener) = listener {
            tokio::spawn(listener.serve(Joining(self.members.clone()), std::future::pending()));
        }
    }

    async fn keep_asking(self: Arc<Self>) {
        loop {
            tokio::time::sleep(ASK_EVERY).await;
            self.members.ask(&self.identity).await;
            if self.hosts == Hosts::Join {
                self.members.forget_lost();
            }
        }
    }

    async fn keep_looking_up(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK_UP_EVERY).await;
            self.look_up().await;
        }
    }

    /// The addresses of the name, if the workers are those of one.
    async fn look_up(&self) {
        let Hosts::Dns(name) = &self.hosts else { return };
        match lookup_host(name).await {
            Ok(found) => {
                let found: Vec<String> = found.map(|address| address.to_string()).collect();
                // Their certificates have the name that was looked up: addresses change.
                for address in &found {
                    if let Err(error) = self.members.add(address, Some(host(name))) {
                        tracing::warn!(%error, "a worker is left out");
                    }
                }
                self.members.keep(&found);
            }
            // Who was there stays.
            Err(error) => tracing::warn!(%name, %error, "the workers' name cannot be looked up"),
        }
    }
}

/// Where workers join, unless the server's options say otherwise.
const JOIN_ADDRESS: &str = "127.0.0.1:5579";

impl KnownWorkers for Cluster {
    fn states(&self) -> Vec<WorkerState> {
        self.members.all().iter().map(|member| member.state()).collect()
    }
}

#[async_trait]
impl Workers for Cluster {
    fn ready(&self) -> Vec<String> {
        self.states().into_iter().filter(|worker| worker.state == READY).map(|worker| worker.address).collect()
    }

    async fn run(&self, address: &str, task: &Task) -> Result<TaskRows, TaskError> {
        let member = self.members.find(address).ok_or_else(|| TaskError::Declined("it has left".to_owned()))?;
        let message = task.encode().map_err(TaskError::Failed)?;
        member.count_task();
        let counted = Counted::new(&self.tasks);
        match member.peer.task(message, &self.identity, &self.tasks).await {
            Ok(rows) => {
                let counting = move |rows: &Result<RecordBatch, TaskError>| match rows {
                    Ok(batch) => counted.counters().add_rows(batch.num_rows()),
                    Err(error) => {
                        counted.counters().add_failure(error);
                        member.note(error);
                    }
                };
                Ok(rows.inspect(counting).boxed())
            }
            Err(error) => {
                self.tasks.add_failure(&error);
                member.note(&error);
                Err(error)
            }
        }
    }

    async fn release(&self, address: &str, task: u64, turn: usize) -> Result<Vec<Piece>, TaskError> {
        let lost = TaskError::Lost;
        let member = self.members.find(address).ok_or_else(|| lost("it has left".to_owned()))?;
        let body = serde_json::to_vec(&Release { task, turn }).map_err(|error| lost(error.to_string()))?;
        let answer = member.peer.action(RELEASE, body).await.map_err(|status| lost(reason(&status)))?;
        serde_json::from_slice(&answer).map_err(|error| lost(error.to_string()))
    }
}

/// Takes workers that join.
struct Joining(Arc<Members>);

#[async_trait]
impl Answering for Joining {
    fn database(&self) -> Option<&str> {
        None
    }

    async fn task(&self, _: &[u8]) -> Result<Answers<FlightData>, Status> {
        Err(Status::unimplemented("this is a server, which runs no tasks"))
    }

    async fn action(&self, kind: &str, body: &[u8]) -> Result<Vec<u8>, Status> {
        if kind != JOIN {
            return Err(Status::unimplemented(format!("a server does not know `{kind}`")));
        }
        let wrong = |error: String| Status::invalid_argument(error);
        let join: Join = serde_json::from_slice(body).map_err(|error| wrong(error.to_string()))?;
        let address = with_port(&join.address).map_err(|error| wrong(error.to_string()))?;
        self.0.add(&address, None).map_err(|error| wrong(error.to_string()))?;
        Ok(vec![])
    }
}
