//! The context of statements that write, in addition to their transaction.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use freestone_sql::tree;
use freestone_store::schema::TableSchema;
use freestone_store::{LockMode, Waiting, WriteTransaction};
use futures::StreamExt;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::catalog::{Planner, Scope};
use crate::cluster::RemoteRows;
use crate::context::{self, CancellableStream, Cancellation, Progress};
use crate::error::{Error, Result};
use crate::ingest::Assignment;
use crate::memory::{self, Division};
use crate::optimizer::physical;
use crate::planning::{self, analyzed_schema};
use crate::provider::files::Inference;
use crate::provider::scan_work;
use crate::sql::names;
use crate::sql::parameters::Parameters;
use crate::sql::temp_names::WriteTarget;
use crate::text_types;

/// The plans that a write executed, in order.
pub(crate) type PlansRun = Arc<Mutex<Vec<Arc<dyn ExecutionPlan>>>>;

/// The context of a write, in addition to its transaction. Used on a thread that may block.
pub(crate) struct WriteContext {
    pub(crate) planner: Planner,
    pub(crate) runtime: Handle,
    pub(crate) cancellation: Cancellation,
    pub(crate) division: Division,
    /// The memory that the write has reserved from the pool that all statements share, until it ends.
    pub(crate) memory: Mutex<Vec<MemoryReservation>>,
    /// The executed plans, if they will be shown.
    pub(crate) plans: Option<PlansRun>,
    /// Who is told how much of files is read.
    pub(crate) progress: Option<Arc<dyn Progress>>,
    /// The rows from which the types of text files are inferred.
    pub(crate) inference: Inference,
    /// The conditions under which the write waits for other transactions.
    pub(crate) waiting: Waiting,
    /// The mode in which it locks a table whose rows it changes.
    pub(crate) row_lock: LockMode,
    pub(crate) target: WriteTarget,
    /// The rows of a CREATE TABLE AS that workers can write.
    pub(crate) remote: Option<Arc<RemoteRows>>,
}

impl WriteContext {
    pub fn planner(&self) -> &Planner {
        &self.planner
    }

    /// The schema by which rows are brought into the form in which a table stores them, with what the session says about it.
    pub fn written_schema(&self, table: &TableSchema) -> SchemaRef {
        self.assignment().noted(text_types::written_schema(table), Some(table))
    }

    /// What the session says about values that are stored.
    pub fn assignment(&self) -> Assignment {
        Assignment::of_session(self.planner.settings().config_options())
    }

    pub fn threads(&self) -> usize {
        self.planner.settings().config().target_partitions()
    }

    /// Gives back what the write has taken and kept so far.
    pub fn begin_again(&self) {
        self.memory.lock().clear();
        if let Some(plans) = &self.plans {
            plans.lock().clear();
        }
    }

    pub fn check_cancelled(&self) -> Result<()> {
        self.cancellation.check()
    }

    /// Reserves memory for appending at most `rows_max` rows, before the query that makes them runs. The query has the rest.
    pub fn prepare_append(&self, transaction: &mut WriteTransaction, rows_max: Option<usize>) -> Result<()> {
        let pool = &self.planner.settings().runtime_env().memory_pool;
        if let Some(taken) = memory::take_for_write(pool, &self.division, rows_max)? {
            transaction.set_write_bytes(taken.size());
            self.memory.lock().push(taken);
        }
        Ok(())
    }

    /// Takes memory for parsing files: how many bytes, where that is limited.
    pub fn prepare_parse(&self) -> Result<Option<usize>> {
        let Some(wanted) = self.division.parse else { return Ok(None) };
        let pool = &self.planner.settings().runtime_env().memory_pool;
        let taken = memory::take(pool, "files being parsed", wanted, memory::PARSE_BYTES_MIN)?;
        let bytes = taken.size();
        self.memory.lock().push(taken);
        Ok(Some(bytes))
    }

    /// Takes memory for rows that the write keeps until its end.
    ///
    /// # Errors
    /// The memory limit is reached.
    pub fn hold(&self, bytes: usize) -> Result<()> {
        let pool = &self.planner.settings().runtime_env().memory_pool;
        let taken = MemoryConsumer::new("rows of a statement").register(pool);
        taken.try_grow(bytes)?;
        self.memory.lock().push(taken);
        Ok(())
    }

    fn within_limits<T>(&self, plan: impl FnOnce() -> T) -> T {
        planning::within(self.cancellation.clone(), &self.planner.settings().runtime_env().memory_pool, plan)
    }

    /// Plans a query of the engine's own, from its text.
    pub fn plan_text(&self, scope: &Scope, text: &str) -> Result<(SessionState, LogicalPlan)> {
        let scope = scope.clone().with_progress(self.progress.clone()).with_inference(self.inference.clone());
        self.within_limits(|| self.runtime.block_on(self.planner.plan_text(&scope, text)))
    }

    /// Plans a query that is made of the statement.
    pub fn plan_made(
        &self,
        scope: &Scope,
        query: &tree::Query,
        parameters: &Parameters,
    ) -> Result<(SessionState, LogicalPlan)> {
        let scope = scope.clone().with_tables(&parameters.tables).with_progress(self.progress.clone());
        let scope = scope.with_inference(self.inference.clone());
        self.within_limits(|| self.runtime.block_on(self.planner.plan_made(&scope, query, parameters)))
    }

    /// The names of the columns of a query that is made of the statement.
    pub fn names_of_columns(&self, scope: &Scope, query: &tree::Query, parameters: &Parameters) -> Result<Vec<String>> {
        let (_, plan) = self.plan_made(scope, query, parameters)?;
        let shown = names::shown(Arc::new(plan.schema().as_arrow().clone()));
        Ok(shown.fields().iter().map(|field| field.name().clone()).collect())
    }

    /// The columns of a plan's rows.
    ///
    /// # Errors
    /// The plan is not valid.
    pub fn schema_of(&self, state: &SessionState, plan: &LogicalPlan) -> Result<SchemaRef> {
        self.within_limits(|| analyzed_schema(state, plan.clone()))
    }

    /// Runs a plan in the background; the iterator waits for its batches.
    pub fn run(&self, state: &SessionState, plan: &LogicalPlan) -> Result<Batches> {
        let _entered = self.runtime.enter();
        let planned = physical::plan_once(state, plan, &self.cancellation);
        let physical = self.within_limits(|| self.runtime.block_on(planned))?;
        if let Some(plans) = &self.plans {
            plans.lock().push(physical.clone());
        }
        self.cancellation.begin_scans(scan_work(&physical));
        let start = || {
            let rows = execute_stream(physical, state.task_ctx())?;
            // Scan and encoding overlap: the plan runs in a task of its own, a few batches ahead.
            Ok::<_, DataFusionError>(datafusion::physical_plan::common::spawn_buffered(rows, 4))
        };
        let stream = context::within(Some(self.cancellation.clone()), start)?;
        let stream = CancellableStream::new(stream, self.cancellation.clone());
        Ok(Batches { stream, runtime: self.runtime.clone() })
    }
}

/// The batches of a running plan, for a thread that may block.
pub(crate) struct Batches {
    stream: CancellableStream,
    runtime: Handle,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.runtime.block_on(self.stream.next())?;
        Some(batch.map_err(Error::from))
    }
}
