//! The workers of a cluster as they are shown.

use std::fmt;
use std::time::SystemTime;

/// Who knows the workers of a cluster.
pub trait KnownWorkers: Send + Sync + fmt::Debug {
    /// All that are known, for `freestone_workers()`.
    fn states(&self) -> Vec<WorkerState>;
}

/// A worker as it was when it was last asked.
#[derive(Debug, Clone)]
pub struct WorkerState {
    /// Its address, as `host:port`.
    pub address: String,
    /// `ready`, `draining`, `unreachable`, `refused` or `other version`.
    pub state: &'static str,
    /// The version of its program, once it has answered.
    pub version: Option<String>,
    /// The threads of a statement on it.
    pub threads: Option<u64>,
    /// The tasks that it runs now, for all servers.
    pub tasks: u64,
    /// The tasks that it has run for this server.
    pub tasks_run: u64,
    /// When it last answered.
    pub seen: Option<SystemTime>,
    /// Why it gets no work.
    pub reason: Option<String>,
}
