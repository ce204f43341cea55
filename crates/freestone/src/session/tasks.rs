//! Tasks of a cluster: a worker plans the statement that it is sent, and runs the part that it is asked for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use freestone_store::Snapshot;
use freestone_store::column::compacted;
use futures::StreamExt;
use parking_lot::Mutex;

use super::{Session, parameters_of};
use crate::access::{Access, Extension};
use crate::cluster::stages::stages;
use crate::cluster::{Task, TaskError, TaskRows, begin, fingerprint};
use crate::context::CancellableStream;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::inputs::Inputs;
use crate::provider::{sources, with_sources};
use crate::session::plan_cache::CachedPlan;
use crate::settings;
use crate::sql::statement::{Statement, parse_script};

/// How long a worker waits for a commit that the server has seen.
const COMMIT_WAIT: Duration = Duration::from_secs(2);
const COMMIT_STEP: Duration = Duration::from_millis(50);

impl Session {
    /// Takes the settings of another process, for its tasks.
    ///
    /// # Errors
    /// A setting does not exist here.
    pub(crate) fn adopt_settings(&self, given: &[(String, String)]) -> Result<()> {
        self.change_settings(false, |state| settings::adopt(state, given))?;
        // The texts of floats are not a setting of SQL: the protocol of the server's client decides about them.
        self.extend(Extension { postgres_texts: settings::has_postgres_texts(given), ..Extension::default() });
        Ok(())
    }

    /// Begins a task. Only queries of native tables are planned, and only stages as this process would distribute them are
    /// run, whatever the task asks for.
    ///
    /// # Errors
    /// This process does not see what the server sees; or the statement fails.
    pub(crate) async fn run_task(&self, task: &Task) -> Result<SendableRecordBatchStream, TaskError> {
        let mut statements = parse_script(&task.text);
        let (Some(statement), true) = (statements.pop(), statements.is_empty()) else {
            return Err(TaskError::Failed(Error::invalid("a task has one statement")));
        };
        let planned = super::guarded(&statement, self.planned_task(task, &statement)).await;
        // The server has planned it, so what fails here is of this process: the server goes on by itself.
        let (kept, snapshot) = planned.map_err(|error| TaskError::Differs(error.to_string()))??;
        self.begun(task, &kept, &snapshot)
    }

    /// The plan of a task's statement, and the snapshot that it reads.
    async fn planned_task(
        &self,
        task: &Task,
        statement: &Statement,
    ) -> Result<Result<(CachedPlan, Arc<Snapshot>), TaskError>> {
        self.wait_for_commit(task.sequence).await?;
        let parameters = parameters_of(statement, Inputs { values: task.values()?, ..Inputs::default() })?;
        if !statement.is_whole_query() {
            return Ok(Err(TaskError::Failed(Error::invalid("a task is a query"))));
        }
        Ok(Ok(Box::pin(self.planned(&task.text, &parameters)).await?))
    }

    /// Commits that another process has acknowledged are there; readers of a local folder may be told a little later.
    async fn wait_for_commit(&self, sequence: u64) -> Result<()> {
        let began = Instant::now();
        while self.snapshot()?.sequence() < sequence && began.elapsed() < COMMIT_WAIT {
            tokio::time::sleep(COMMIT_STEP).await;
        }
        Ok(())
    }

    fn begun(
        &self,
        task: &Task,
        kept: &CachedPlan,
        snapshot: &Arc<Snapshot>,
    ) -> Result<SendableRecordBatchStream, TaskError> {
        let failed = |error: DataFusionError| TaskError::Failed(error.into());
        let differs = |what: &str| TaskError::Differs(what.to_owned());
        if !kept.is_of_database() {
            return Err(differs("its plan depends on more than the tables of the database"));
        }
        let plan = with_sources(kept.plan().clone(), |source| Some(source.attached(snapshot))).map_err(failed)?;
        let found = stages(&plan).map_err(failed)?.into_iter().find(|stage| stage.number == task.stage);
        let Some(stage) = found.filter(|stage| stage.divisible.contains(&task.scan)) else {
            return Err(differs("it has another plan there"));
        };
        if fingerprint(&stage.plan).map_err(TaskError::Failed)? != task.fingerprint {
            return Err(differs("its plan or its rows are others there"));
        }
        let sources = sources(&stage.plan).map_err(failed)?;
        let Some(source) = sources.get(task.scan) else { return Err(differs("it has other scans there")) };
        let (pieces, cancellation) = (task.pieces.clone(), self.cancellation());
        let rows = begin(&stage, (task.scan, source), pieces, kept.context(), &cancellation).map_err(failed)?;
        Ok(Box::pin(CancellableStream::of_query(rows, cancellation)))
    }
}

/// The settings of servers for which a worker keeps a session.
const SESSIONS_MAX: usize = 16;

type Settings = Vec<(String, String)>;

/// Runs the tasks of servers on a database. Tasks with the same settings share a session, and so its plans.
pub struct TaskRunner {
    database: Arc<Database>,
    sessions: Mutex<Vec<(Settings, Arc<Session>)>>,
}

impl TaskRunner {
    /// For the tasks on a database, which is best open for reading only.
    pub fn new(database: Arc<Database>) -> TaskRunner {
        TaskRunner { database, sessions: Mutex::default() }
    }

    /// The database.
    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// Begins a task. Dropping the rows ends it.
    ///
    /// # Errors
    /// This process does not see what the server sees; or the statement fails.
    pub async fn run(&self, task: &Task) -> Result<(SchemaRef, TaskRows), TaskError> {
        let session = self.session(&task.settings).map_err(TaskError::Failed)?;
        let rows = session.run_task(task).await?;
        let schema = rows.schema();
        // The session lives as long as its rows.
        let rows = rows.map(move |batch| {
            let _session = &session;
            // Texts without the buffers that they share with rows that are not sent.
            batch.map(|batch| compacted(&batch)).map_err(|error| TaskError::Failed(error.into()))
        });
        Ok((schema, rows.boxed()))
    }

    fn session(&self, settings: &Settings) -> Result<Arc<Session>> {
        let mut sessions = self.sessions.lock();
        if let Some((_, session)) = sessions.iter().find(|(known, _)| known == settings) {
            return Ok(session.clone());
        }
        let access = Access { write: false, files: false, admin: false, memory: None };
        let session = Arc::new(self.database.session_with(access));
        session.adopt_settings(settings)?;
        if sessions.len() >= SESSIONS_MAX {
            sessions.remove(0);
        }
        sessions.push((settings.clone(), session.clone()));
        Ok(session)
    }
}
