//! Tasks of a cluster: a worker plans the statement that it is sent, and runs the part that it is asked for.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use freestone_sql::tree::StatementKind;
use freestone_store::Snapshot;
use freestone_store::column::compacted;
use futures::StreamExt;
use parking_lot::Mutex;

use super::{Session, parameters_of};
use crate::access::{Access, Extension};
use crate::cluster::stages::{stages, whole};
use crate::cluster::{RemoteRows, RunState, Task, TaskError, TaskRows, begin, fingerprint, written};
use crate::context::CancellableStream;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::inputs::Inputs;
use crate::memory::take_for_write;
use crate::provider::{Claims, Piece, sources, with_sources};
use crate::session::plan_cache::CachedPlan;
use crate::settings;
use crate::sql::parameters::Parameters;
use crate::sql::statement::{Statement, parse_script};
use crate::sql::temp_names::WriteTarget;

/// How long a worker waits for a commit that the server has seen.
const COMMIT_WAIT: Duration = Duration::from_secs(2);
const COMMIT_STEP: Duration = Duration::from_millis(50);
/// How long a worker keeps versions in memory after they were replaced, since servers still ask for them. Older ones are
/// made again from the log.
const VERSIONS_KEPT: Duration = Duration::from_secs(60);

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
    pub(crate) async fn run_task(
        &self,
        task: &Task,
        claims: &Arc<Claims>,
    ) -> Result<SendableRecordBatchStream, TaskError> {
        let mut statements = parse_script(&task.text);
        let (Some(statement), true) = (statements.pop(), statements.is_empty()) else {
            return Err(TaskError::Failed(Error::invalid("a task has one statement")));
        };
        let planned = super::guarded(&statement, self.planned_task(task, &statement)).await;
        // The server has planned it, so what fails here is of this process: the server goes on by itself.
        let (kept, snapshot) = planned.map_err(|error| TaskError::Differs(error.to_string()))??;
        self.begun(task, &kept, &snapshot, claims)
    }

    /// The plan of a task's statement, and the snapshot that it reads.
    async fn planned_task(
        &self,
        task: &Task,
        statement: &Statement,
    ) -> Result<Result<(CachedPlan, Arc<Snapshot>), TaskError>> {
        let Some(snapshot) = self.snapshot_of(task.sequence).await? else {
            let reason = format!("it has not seen commit {} within {} s", task.sequence, COMMIT_WAIT.as_secs());
            return Ok(Err(TaskError::Differs(reason)));
        };
        let parameters = parameters_of(statement, Inputs { values: task.values()?, ..Inputs::default() })?;
        if !statement.is_whole_query() {
            return Ok(Err(TaskError::Failed(Error::invalid("a task is a query"))));
        }
        let kept = Box::pin(self.planned_on(&snapshot, &task.text, &parameters)).await?;
        Ok(Ok((kept, snapshot)))
    }

    /// The snapshot of exactly this commit. Commits that another process has acknowledged are there; readers of a local
    /// folder may be told a little later, so `None` means that this took too long.
    async fn snapshot_of(&self, sequence: u64) -> Result<Option<Arc<Snapshot>>> {
        let began = Instant::now();
        loop {
            let found = self.database().store().snapshot_of(sequence)?;
            if found.is_some() || began.elapsed() >= COMMIT_WAIT {
                return Ok(found);
            }
            tokio::time::sleep(COMMIT_STEP).await;
        }
    }

    fn begun(
        &self,
        task: &Task,
        kept: &CachedPlan,
        snapshot: &Arc<Snapshot>,
        claims: &Arc<Claims>,
    ) -> Result<SendableRecordBatchStream, TaskError> {
        let failed = |error: DataFusionError| TaskError::Failed(error.into());
        let differs = |what: &str| TaskError::Differs(what.to_owned());
        if !kept.is_of_database() {
            return Err(differs("its plan depends on more than the tables of the database"));
        }
        let plan = with_sources(kept.plan().clone(), |source| Some(source.attached(snapshot))).map_err(failed)?;
        let found = match &task.target {
            Some(_) => whole(&plan).map_err(failed)?,
            None => stages(&plan).map_err(failed)?.into_iter().find(|stage| stage.number == task.stage),
        };
        let Some(stage) = found.filter(|stage| stage.divisible.contains(&task.scan)) else {
            return Err(differs("it has another plan there"));
        };
        if fingerprint(&stage.plan).map_err(TaskError::Failed)? != task.fingerprint {
            return Err(differs("its plan or its rows are others there"));
        }
        let sources = sources(&stage.plan).map_err(failed)?;
        let Some(source) = sources.get(task.scan) else { return Err(differs("it has other scans there")) };
        let (source, cancellation) = (source.of_pieces(task.pieces.clone(), Some(claims.clone())), self.cancellation());
        let rows = begin(&stage, (task.scan, source), kept.context(), &cancellation).map_err(failed)?;
        let rows: SendableRecordBatchStream = Box::pin(CancellableStream::of_query(rows, cancellation));
        let Some(target) = &task.target else { return Ok(rows) };
        let (database, pool) = (self.database(), &kept.context().runtime_env().memory_pool);
        let taken = take_for_write(pool, database.division(), None).map_err(TaskError::Failed)?;
        Ok(written(database.store().as_ref().clone(), target.clone(), (database.division().write, taken), rows))
    }

    /// How workers write the rows of a CREATE TABLE AS; `None` if this process does. What fails here fails again when this
    /// process plans the statement, which reports it.
    pub(super) async fn remote_rows(
        &self,
        definition: &StatementKind,
        target: WriteTarget,
        parameters: &Parameters,
    ) -> Option<Arc<RemoteRows>> {
        let workers = self.database().workers()?;
        let StatementKind::CreateTable(create) = definition else { return None };
        let query = create.query.as_ref().filter(|_| !create.with_no_data)?;
        let is_plain = parameters.values.is_empty() && parameters.types.is_empty() && parameters.tables.is_empty();
        if target != WriteTarget::Database || !is_plain || !self.database().store().is_shared() {
            return None;
        }
        let snapshot = self.snapshot().ok().filter(|snapshot| !snapshot.has_own_changes())?;
        let text = query.to_string();
        let kept = Box::pin(self.planned_on(&snapshot, &text, &Parameters::of_text(&text))).await.ok()?;
        let plan = with_sources(kept.plan().clone(), |source| Some(source.attached(&snapshot))).ok()?;
        let cancellation = self.cancellation();
        let of = RunState { context: kept.context(), snapshot: &snapshot, cancellation: &cancellation };
        RemoteRows::of(&plan, kept.asked()?, workers, &of).ok()?.map(Arc::new)
    }
}

/// The settings of servers for which a worker keeps a session.
const SESSIONS_MAX: usize = 16;

type Settings = Vec<(String, String)>;

/// Runs the tasks of servers on a database. Tasks with the same settings share a session, and so its plans.
pub struct TaskRunner {
    database: Arc<Database>,
    sessions: Mutex<Vec<(Settings, Arc<Session>)>>,
    running: Running,
}

/// The tasks that run, and what may be claimed of them.
type Running = Arc<Mutex<HashMap<u64, Arc<Claims>>>>;

/// A task as long as it runs.
struct Registered {
    running: Running,
    id: u64,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.running.lock().remove(&self.id);
    }
}

impl TaskRunner {
    /// For the tasks on a database, which is best open for reading only. Its versions are kept for a minute, because a task
    /// reads the commit that its server reads.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn new(database: Arc<Database>) -> Result<TaskRunner> {
        let store = database.store();
        store.set_retention(store.retention().max(VERSIONS_KEPT))?;
        Ok(TaskRunner { database, sessions: Mutex::default(), running: Arc::default() })
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
        let claims = Arc::new(Claims::new(&task.pieces));
        self.running.lock().insert(task.id, claims.clone());
        let registered = Registered { running: self.running.clone(), id: task.id };
        let rows = session.run_task(task, &claims).await?;
        let schema = rows.schema();
        // The session lives as long as its rows.
        let rows = rows.map(move |batch| {
            let _kept = (&session, &registered);
            // Texts without the buffers that they share with rows that are not sent.
            batch.map(|batch| compacted(&batch)).map_err(|error| TaskError::Failed(error.into()))
        });
        Ok((schema, rows.boxed()))
    }

    /// Gives back parts of a task that were not begun, for another worker. `turn`: how often the server has had an answer
    /// before. A task that has ended gives nothing.
    pub fn release(&self, task: u64, turn: usize) -> Vec<Piece> {
        let claims = self.running.lock().get(&task).cloned();
        claims.map_or(vec![], |claims| claims.give_back(turn))
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
