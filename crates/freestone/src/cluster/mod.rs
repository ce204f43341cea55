//! Statements over several machines: which parts of a plan workers run, and what is sent to them.
//!
//! A server that coordinates has [`Workers`]. Before a plan runs, and before its parts are fused, its [`stages`] are looked
//! for: partial aggregations and first rows, with the scans, filters and joins below them. Of one scan of a stage each
//! worker reads some parts ([`placement`]); everything else of the stage is the same for all. A [`RemoteExec`] takes the
//! place of the stage, so the plan above it, which unites the states of threads, unites those of workers.
//!
//! A stage is not sent as operators. A worker has the same tables, and the same version of this engine, so it gets the
//! statement, plans it as it plans its own ([`Task`]), and compares: only if the stage that it finds is the same, with the
//! same segments and the same rows, it runs it. So everything that can be planned can be sent, functions and types
//! included, and nothing else: a worker plans queries of native tables and never commits. What differs, what no worker can
//! run, and what takes less time than asking for it, runs here.
//!
//! A worker that has ended its part claims some of what another one has not begun: the server asks that one to give it back,
//! and keeps account of what each task has left ([`ledger`]).
//!
//! Rows of a CREATE TABLE AS that are made one by one of those of a table become segments where they are made ([`written`]).
//! Only the server commits them.

mod decision;
mod ledger;
pub(crate) mod placement;
mod remote;
mod remote_rows;
mod run;
pub(crate) mod stages;
mod task;
mod written;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use futures::stream::BoxStream;

use crate::error::Error;
pub use crate::known_workers::{KnownWorkers, WorkerState};
pub use crate::provider::Piece;

pub(crate) use decision::{Asked, Distributed, RunState, distributed};
pub(crate) use remote::RemoteExec;
pub(crate) use remote_rows::RemoteRows;
pub(crate) use run::{TaskReport, begin};
pub use task::Task;
pub(crate) use task::fingerprint;
pub(crate) use written::written;

/// The workers of a cluster, as a server that coordinates sends them tasks.
#[async_trait]
pub trait Workers: KnownWorkers {
    /// The addresses of those that may get work now.
    fn ready(&self) -> Vec<String>;

    /// Begins a task on a worker. Dropping the rows ends it.
    ///
    /// # Errors
    /// The worker is lost, does not take the task, or the task fails.
    async fn run(&self, address: &str, task: &Task) -> Result<TaskRows, TaskError>;

    /// Has a worker give back parts of a task that it has not begun, for another worker. `turn`: how often the task was
    /// asked before, as far as the worker has answered.
    ///
    /// # Errors
    /// There is no answer, so nobody knows what the task still does.
    async fn release(&self, address: &str, task: u64, turn: usize) -> Result<Vec<Piece>, TaskError>;
}

/// The rows of a task.
pub type TaskRows = BoxStream<'static, Result<RecordBatch, TaskError>>;

/// Why a task gave no rows, or not all of them.
#[derive(Debug, Clone)]
pub enum TaskError {
    /// The worker cannot be reached any more: another one may run the task.
    Lost(String),
    /// The worker ends, or has another version: another one may run the task.
    Declined(String),
    /// The worker does not see what the server sees, such as the same segments of a table: the server runs the task.
    Differs(String),
    /// The statement fails, wherever it runs.
    Failed(Error),
}
