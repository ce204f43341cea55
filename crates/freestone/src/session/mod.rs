//! A session: settings, prepared statements, and the execution of one statement after the other.

mod advise;
mod copying;
mod cross_joins;
mod current_setting;
pub(crate) mod describe;
mod dump;
mod explain;
mod hosted;
mod memory;
pub(crate) mod plan_cache;
mod plan_tree;
mod points;
mod secrets;
pub(crate) mod tasks;
mod temporary;
pub(crate) mod transaction;
mod variables;

use std::borrow::Cow;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{FunctionRegistry, SessionStateBuilder, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream, execute_stream};
use datafusion::scalar::ScalarValue;
use freestone_advisor::Output;
use freestone_bucket::Stores;
use freestone_sql::tree::{Execute, Parameter, Prepare, Type};
use freestone_store::{LockMode, Snapshot, WriteTransaction};
use futures::FutureExt;
use parking_lot::{Mutex, RwLock};
use tokio::runtime::Handle;

use crate::access::{Access, Extension};
use crate::advise::{AdviseOptions, advice_batch};
use crate::attached::{self, Attached, AttachedSnapshots};
use crate::binding;
use crate::catalog::{Planner, Scope};
use crate::cluster::{Distributed, RemoteRows};
use crate::context::{
    self, Budget, CancelHandle, CancellableStream, Cancellation, Canceller, Failure, Outcome, Progress, Statements,
    panicked,
};
use crate::database::Database;
use crate::error::{Error, ErrorKind, Result};
use crate::exec::stored::{Answer, StoredQuery};
use crate::exec::write::{PlansRun, WriteContext};
use crate::exec::{self, backup, check, copy, ddl};
use crate::inputs::{ArrowTable, Inputs};
use crate::internal_names::PG_TEMP;
use crate::internal_names::{is_temporary, own_name};
use crate::known_workers::KnownWorkers;
use crate::options::Options;
use crate::planning::{BoundedExpressions, analyzed_schema};
use crate::provider::files::Inference;
use crate::provider::information;
use crate::provider::metadata::{self, Lists};
use crate::provider::scan_work;
use crate::sequences::{MayWrite, SessionSequences};
use crate::shared::SharedPlanner;
use crate::sql::command::{AdviseRequest, Command, CopyFrom};
use crate::sql::depth::OnStack;
use crate::sql::parameters::Parameters;
use crate::sql::statement::Statement;
use crate::sql::temp_names::WriteTarget;
use crate::sql::written::Written;
use crate::sql::{depth, names, parameters, statement};
use crate::temp_schema::TempSchema;
use crate::text_types;
use crate::times::{DateOrder, TimePlanner};
use crate::untyped::UntypedPlanner;
use crate::variables::Variables;
use crate::workload::{Watch, Watched};
use crate::{
    aggregates, definitions, exact, growth, optimizer, planning, point, scalars, settings, times, untyped, windows,
    workload,
};
use plan_cache::{CachedPlan, Plans};
use points::Points;
use transaction::Block;

/// Texts below this many bytes are read without asking for memory.
const LONG_TEXT_BYTES: usize = 64 << 10;
/// What a token becomes, several times over, on its way to a plan.
const TOKEN_BYTES: usize = 500;
/// How often the text itself is there: in tokens, in what is parsed, and as the name of a kept plan.
const TEXT_COPIES: usize = 4;
/// What stands before the texts of prepared statements, by which the session knows them.
const PREPARE: &str = "PREPARE ";
/// Statements that a session may have prepared.
const PREPARED_MAX: usize = 10_000;
/// What a prepared statement takes, and as a multiple of its text.
const PREPARED_BYTES: usize = 2 << 10;
const PREPARED_SHARE: usize = 100;
/// Statements of more tokens take so long to read that others should not wait for it.
const LONG_TOKENS: usize = 2000;

/// One user's connection to a database. Statements may run at the same time; each has one snapshot.
pub struct Session {
    database: Arc<Database>,
    planner: RwLock<Planner>,
    prepared: Mutex<HashMap<String, Prepared>>,
    cancel: Canceller,
    progress: RwLock<Option<Arc<dyn Progress>>>,
    plans: Mutex<Plans>,
    points: Mutex<Points>,
    access: Access,
    /// Whether writes are refused for the time being.
    read_only: Arc<AtomicBool>,
    block: Block,
    temp: TempSchema,
    variables: Arc<Variables>,
    /// Those that are being executed.
    statements: Statements,
}

/// How a statement writes.
#[derive(Default)]
pub(crate) struct Writing {
    /// Where the executed plans are kept, if they will be shown.
    pub plans: Option<PlansRun>,
    /// Whether the work cannot be repeated if it conflicts with another transaction.
    pub is_once: bool,
    pub target: WriteTarget,
    /// The rows of a CREATE TABLE AS that workers can write.
    pub remote: Option<Arc<RemoteRows>>,
}

#[derive(Clone)]
struct Prepared {
    /// By which the session knows it, if it is a point statement.
    text: Arc<str>,
    /// Those that PREPARE declares.
    types: Vec<Option<DataType>>,
    /// PREPARE as it was written.
    written: Arc<Written>,
    _memory: Arc<MemoryReservation>,
}

impl Session {
    pub(crate) fn new(database: Arc<Database>, access: Access) -> Session {
        // A pool that cannot be limited is the database's.
        let runtime = memory::capped(database.runtime(), access.memory).unwrap_or_else(|_| database.runtime().clone());
        let budget = Budget::new(runtime.memory_pool.clone(), database.options().memory_limit);
        let variables = Arc::<Variables>::default();
        let state = base_state(&database, runtime, &variables);
        let block = Block::default();
        block.register(database.holders());
        let read_only = Arc::new(AtomicBool::new(false));
        let temp = TempSchema::new();
        let statements = database.statements().of_new_session();
        let sequences = Arc::new(SessionSequences::new(
            database.sequences().clone(),
            may_write(access, read_only.clone(), block.clone(), temp.clone()),
        ));
        Session {
            planner: RwLock::new(Planner::new(
                state,
                access,
                Lists {
                    transactions: database.store().transactions(),
                    pools: database.store().pool_list(),
                    statements: statements.clone(),
                    attached: Attached::default(),
                    stores: Stores::default(),
                    workers: database.workers().map(|workers| workers.clone() as Arc<dyn KnownWorkers>),
                },
                database.workload().clone(),
                sequences,
                temp.clone(),
            )),
            plans: Mutex::new(Plans::new(database.kept_plans().clone())),
            points: Mutex::default(),
            database,
            prepared: Mutex::default(),
            cancel: Canceller::new(budget),
            progress: RwLock::default(),
            access,
            read_only,
            block,
            temp,
            variables,
            statements,
        }
    }

    /// The database of the session.
    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// Splits a script into statements. What does not read as SQL is an error when it is executed, not here.
    ///
    /// # Errors
    /// Of kind [`ErrorKind::Resource`], where the text is so long that what is made of it does not fit the memory limit.
    pub fn parse(&self, script: &str) -> Result<Vec<Statement>> {
        if script.len() < LONG_TEXT_BYTES {
            return Ok(statement::parse_script(script));
        }
        let tokens = statement::expected_tokens(script);
        let pool = self.planner().settings().runtime_env().memory_pool.clone();
        let memory = MemoryConsumer::new("the text of a statement").register(&pool);
        memory.try_grow(tokens.saturating_mul(TOKEN_BYTES).saturating_add(script.len() * TEXT_COPIES))?;
        let memory = Arc::new(memory);
        let mut statements = statement::parse_script(script);
        statements.iter_mut().for_each(|statement| statement.hold(&memory));
        Ok(statements)
    }

    /// Executes one statement, which commits when it succeeds. A query's rows are computed as they are read.
    ///
    /// # Errors
    /// The error of the statement. Reading its rows may fail later.
    pub async fn execute(&self, statement: &Statement) -> Result<Outcome> {
        self.execute_with(statement, vec![]).await
    }

    /// Executes one statement with values for its `$1`, `$2`, ….
    ///
    /// # Errors
    /// As for [`Session::execute`].
    pub async fn execute_with(&self, statement: &Statement, values: Vec<ScalarValue>) -> Result<Outcome> {
        self.execute_with_inputs(statement, Inputs { values, ..Inputs::default() }).await
    }

    /// Executes one statement with values for its parameters, and tables that it may name.
    ///
    /// # Errors
    /// As for [`Session::execute`].
    pub async fn execute_with_inputs(&self, statement: &Statement, inputs: Inputs) -> Result<Outcome> {
        let failed = self.transaction_failure();
        let running = self.statements.begin(&statement.text);
        let outcome = guarded(statement, self.execute_unguarded(statement, inputs)).await;
        let outcome = outcome.map(|outcome| outcome.of_running(running));
        self.told(outcome, failed, Outcome::telling)
    }

    async fn execute_unguarded(&self, statement: &Statement, inputs: Inputs) -> Result<Outcome> {
        self.check_transaction(statement.ends_transaction())?;
        let parameters = self.with_variables(parameters_of(statement, inputs)?);
        let form = self.form(statement, &parameters);
        if let Some(form) = &form
            && let Some(outcome) = self.execute_known(&form.text, &form.given).await?
        {
            return Ok(outcome);
        }
        if let Some((kept, snapshot)) = self.planned_text(statement, &parameters).await? {
            return self.run_kept(&kept, &snapshot);
        }
        let (command, target) = self.resolved(statement).await?;
        match command {
            Command::Transaction(command) => self.transaction(command).await,
            Command::Query => match Box::pin(self.execute_new_point(form, &parameters)).await? {
                Some(outcome) => Ok(outcome),
                None => {
                    let (kept, snapshot) = Box::pin(self.newly_planned(&statement.text, &parameters)).await?;
                    self.run_kept(&kept, &snapshot)
                }
            },
            Command::Write => match Box::pin(self.execute_new_point(form, &parameters)).await? {
                Some(outcome) => Ok(outcome),
                None => self.change_rows(target, parameters).await,
            },
            Command::Define(definition) => {
                // Tables that are read while they arrive can be read once.
                let is_once = !parameters.tables.values().all(ArrowTable::is_in_memory);
                let remote = Box::pin(self.remote_rows(&definition, target, &parameters)).await;
                let work = move |transaction: &mut WriteTransaction, context: &WriteContext| {
                    exec::define(transaction, context, &definition, &parameters)
                };
                self.write_as(Writing { is_once, target, remote, plans: None }, work).await
            }
            Command::LockRows => {
                let work = move |transaction: &mut WriteTransaction, context: &WriteContext| {
                    exec::lock_rows::lock_rows(transaction, context, &parameters)
                };
                self.write(target, work).await
            }
            Command::WithWrites => {
                let is_once = !parameters.tables.values().all(ArrowTable::is_in_memory);
                let work = move |transaction: &mut WriteTransaction, context: &WriteContext| {
                    exec::with_writes::perform(transaction, context, &parameters)
                };
                self.write_as(Writing { is_once, target, ..Writing::default() }, work).await
            }
            Command::Explain(explanation) => Box::pin(self.explain(explanation, target, &parameters)).await,
            Command::Prepare(prepare) => Box::pin(self.prepare_named(*prepare, parameters)).await,
            Command::Execute(execute) => Box::pin(self.execute_prepared(*execute)).await,
            Command::Deallocate(name) => self.deallocate(name.as_deref()),
            Command::ShowCreate { name } => Ok(Outcome::batch(metadata::show_create(&self.scope()?.snapshot, &name)?)),
            Command::CopyFrom(request) => {
                self.access.check_files()?;
                let progress = self.progress.read().clone();
                // Pipes are read once.
                self.write_once(target, move |transaction, context| {
                    copy::copy_from(transaction, context, &request, progress.as_deref())
                })
                .await
            }
            Command::CopyTo(request) => Box::pin(self.copy_to(request, parameters)).await,
            Command::Vacuum(table) => {
                self.check_write()?;
                self.check_outside("VACUUM")?;
                self.blocking(move |database| ddl::vacuum(database.store(), table.as_deref())).await
            }
            Command::Backup { folder } => {
                self.access.check_files()?;
                self.check_outside("BACKUP")?;
                self.blocking(move |database| backup::backup(database.store(), &folder)).await
            }
            Command::Restore { folder } => {
                self.access.check_files()?;
                self.check_write()?;
                self.check_outside("RESTORE")?;
                let waiting = self.waiting(&self.cancellation());
                self.blocking(move |database| {
                    database.drop_leftovers()?;
                    let restored = backup::restore(database.store(), &folder, waiting)?;
                    database.sequences().forget();
                    database.merge_soon();
                    Ok(restored)
                })
                .await
            }
            Command::Attach { folder, name, if_not_exists } => self.attach(folder, name, if_not_exists).await,
            Command::Detach { name, if_exists } => self.detach(&name, if_exists),
            Command::CreateSecret(request) => self.create_secret(request),
            Command::DropSecret { name, if_exists } => self.drop_secret(&name, if_exists),
            Command::ExportDatabase { folder, options } => Box::pin(self.export_database(&folder, options)).await,
            Command::ImportDatabase { folder } => Box::pin(self.import_database(&folder)).await,
            // Statistics are those of the stored rows, which are always there.
            Command::Analyze(table) => {
                self.blocking(move |database| ddl::require(database.store(), table.as_deref())).await?;
                Ok(Outcome::Done { verb: "ANALYZE" })
            }
            Command::Check(table) => self.check(table).await,
            Command::Set { name, value, local } => {
                self.change_settings(local, |state| settings::set(state, self.settings_context(), &name, &value))?;
                self.keep_versions(&name).await?;
                Ok(Outcome::Done { verb: "SET" })
            }
            Command::SetVariable { name } => Box::pin(self.set_variable(&name, &parameters)).await,
            Command::ResetVariable { name } => Ok(self.reset_variable(&name)),
            Command::Reset { name } => {
                self.change_settings(false, |state| settings::reset(state, self.settings_context(), &name))?;
                self.keep_versions(&name).await?;
                Ok(Outcome::Done { verb: "RESET" })
            }
            Command::Show { name } => {
                let batch = settings::show(
                    self.planner().settings(),
                    self.database.options(),
                    self.database.store().retention(),
                    &name,
                )?;
                Ok(Outcome::batch(batch))
            }
            Command::Use => Ok(Outcome::Done { verb: "USE" }),
            Command::Calibrate => self.calibrate_here().await,
            Command::Advise(request) => {
                let AdviseRequest { table, copies, budget } = request;
                let max_copies = copies.unwrap_or(crate::advise::COPIES);
                let options = AdviseOptions { table, budget, max_copies, ..AdviseOptions::default() };
                Ok(Outcome::batch(advice_batch(&self.advise(options).await?, self.access)?))
            }
            Command::WhatIf(request) => Box::pin(self.what_if(request, &parameters)).await,
        }
    }

    /// Executes SQL text that holds exactly one statement.
    ///
    /// # Errors
    /// The text does not contain exactly one statement, or the statement fails.
    pub async fn sql(&self, text: &str) -> Result<Outcome> {
        self.execute(&self.one_statement(text)?).await
    }

    /// Parses one statement, and plans it, so that what cannot work fails now. [`Session::execute_with`] executes it, any
    /// number of times.
    ///
    /// # Errors
    /// The text does not contain exactly one statement, or the statement cannot be planned.
    pub async fn prepare(&self, text: &str) -> Result<Statement> {
        let statement = self.one_statement(text)?;
        self.describe_statement(&statement, &[]).await?;
        Ok(statement)
    }

    fn one_statement(&self, text: &str) -> Result<Statement> {
        let mut statements = self.parse(text)?;
        match (statements.pop(), statements.len()) {
            (Some(statement), 0) => Ok(statement),
            (None, _) => Err(Error::syntax("there is no statement in the text")),
            (Some(_), more) => Err(Error::syntax(format!("expected one statement, found {}", more + 1))
                .with_hint("parse the script and execute its statements one by one")),
        }
    }

    /// The columns of a query's rows, as it is planned now; nothing where the statement is no query.
    ///
    /// # Errors
    /// The statement cannot be parsed or planned.
    pub async fn schema(&self, statement: &Statement, inputs: Inputs) -> Result<Option<SchemaRef>> {
        let planned = guarded(statement, self.planned_schema(statement, inputs)).await;
        self.fail_transaction_of(planned)
    }

    async fn planned_schema(&self, statement: &Statement, inputs: Inputs) -> Result<Option<SchemaRef>> {
        let parameters = self.with_variables(parameters_of(statement, inputs)?);
        if let Some(form) = self.form(statement, &parameters)
            && let Some(schema) = self.known_schema(&form)?
        {
            return Ok(Some(schema));
        }
        if !statement.is_whole_query() {
            return Ok(None);
        }
        let scope = self.scope()?.with_tables(&parameters.tables);
        self.plan_apart(move |planner, _| async move {
            let (state, plan) = planner.plan_query(&scope, &parameters).await?;
            let shown = names::shown(analyzed_schema(&state, plan)?);
            Ok(Some(times::shown_schema(shown, state.config_options())))
        })
        .await
    }

    /// What a statement asks for; a long one is read on a thread of its own.
    pub(crate) async fn command(&self, statement: &Statement) -> Result<Command> {
        Ok(self.resolved(statement).await?.0)
    }

    /// The same, with what the statement changes.
    async fn resolved(&self, statement: &Statement) -> Result<(Command, WriteTarget)> {
        let temporary = self.temporary_names(statement)?;
        if statement.tokens() <= LONG_TOKENS {
            return temporary::resolved(statement, temporary.as_ref());
        }
        let statement = statement.clone();
        self.plan_apart(move |_, _| async move { temporary::resolved(&statement, temporary.as_ref()) }).await
    }

    /// The tables that a statement names and the database does not have, for callers that have tables of their own.
    ///
    /// # Errors
    /// The statement cannot be parsed, or the database cannot be read.
    pub fn missing_tables(&self, statement: &Statement) -> Result<Vec<String>> {
        if self.knows(statement) {
            return Ok(vec![]);
        }
        let named = statement.named_tables()?;
        if named.is_empty() {
            return Ok(named);
        }
        let scope = self.scope()?;
        let is_temporary = |name: &str| self.temp.find(&scope.snapshot, name).is_some();
        Ok(named.into_iter().filter(|name| !scope.knows(name) && !is_temporary(name)).collect())
    }

    /// A handle that cancels what this session executes, from any thread.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.handle()
    }

    /// Who is told how far long statements have come.
    pub fn set_progress(&self, progress: Option<Arc<dyn Progress>>) {
        *self.progress.write() = progress;
    }

    /// The share of their tables that the scans of a running statement have read or pruned, from 0 to 1: of the statement that was the
    /// last to begin scans. `None` if it is over, or reads no tables.
    pub fn share_read(&self) -> Option<f64> {
        self.cancel.share_read()
    }

    /// Names that a shell may complete: tables and views, and their columns.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn names(&self) -> Result<Vec<String>> {
        let snapshot = self.snapshot()?;
        let own = |name: &str| own_name(name).to_owned();
        let tables = self.temp.tables(&snapshot).map(|table| own(&table.name));
        let columns = self.temp.tables(&snapshot).flat_map(|table| table.schema.columns.iter().map(|c| c.name.clone()));
        let views = self.temp.views(&snapshot).map(|(name, _)| own(name));
        let mut names: Vec<String> = tables.chain(views).chain(columns).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    pub(crate) fn progress(&self) -> Option<Arc<dyn Progress>> {
        self.progress.read().clone()
    }

    pub(crate) fn planner(&self) -> Planner {
        self.planner.read().clone()
    }

    pub(crate) fn scope(&self) -> Result<Scope> {
        Ok(self.scope_of(self.snapshot()?))
    }

    fn scope_of(&self, snapshot: Arc<Snapshot>) -> Scope {
        Scope::new(snapshot).with_progress(self.progress())
    }

    /// Adds schemas and functions to those of the database, for this session. Replaces those of an earlier call.
    pub fn extend(&self, extension: Extension) {
        let mut planner = self.planner.write();
        *planner = planner.with_extension(extension);
        self.forget_plans();
    }

    /// `ATTACH 'folder' AS name (READ_ONLY)`.
    async fn attach(&self, folder: String, name: Option<String>, if_not_exists: bool) -> Result<Outcome> {
        self.access.check_files()?;
        let name = name.map_or_else(|| attached::name_of(&folder), Ok)?;
        let known = self.planner().attached().clone();
        if !(if_not_exists && known.has(&name)) {
            known.check_free(&name)?;
            let reserved = [names::CATALOG, names::SCHEMA, names::MAIN, information::INFORMATION_SCHEMA, PG_TEMP];
            let snapshot = self.snapshot()?;
            if reserved.contains(&name.as_str()) || definitions::has_schema(&snapshot, &name) {
                return Err(Error::invalid(format!("{name} is the name of a schema of this database"))
                    .with_hint("ATTACH 'folder' AS another_name (READ_ONLY)"));
            }
            let store = self.blocking(move |database| attached::open(&folder, database.options())).await?;
            let mut planner = self.planner.write();
            *planner = planner.with_attached(planner.attached().with(&name, store)?);
            self.forget_plans();
        }
        Ok(Outcome::Done { verb: "ATTACH" })
    }

    /// `DETACH name`. Statements that run keep reading it.
    fn detach(&self, name: &str, if_exists: bool) -> Result<Outcome> {
        let mut planner = self.planner.write();
        if !if_exists || planner.attached().has(name) {
            *planner = planner.with_attached(planner.attached().without(name)?);
            self.forget_plans();
        }
        Ok(Outcome::Done { verb: "DETACH" })
    }

    /// Forgets how statements are executed, because names may mean something else.
    fn forget_plans(&self) {
        self.plans.lock().clear();
        self.points.lock().clear();
    }

    /// The permissions of the session.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Refuses writes, or lets them through again, as a read-only transaction of a protocol asks for.
    pub fn set_read_only(&self, read_only: bool) {
        self.read_only.store(read_only, Ordering::Relaxed);
    }

    /// Whether statements store values as PostgreSQL does: columns that they declare with a length refuse longer texts, and
    /// numbers and times are rounded to the types of their columns.
    ///
    /// # Errors
    /// The session may not change settings.
    pub fn set_stores_as_postgres(&self, stores: bool) -> Result<()> {
        self.change_settings(false, |state| {
            let mut set = |name| settings::set(state, self.settings_context(), name, &stores.to_string());
            set("check_lengths")?;
            set("round_values")
        })
    }

    /// Makes texts of dates and times read as in PostgreSQL, in this order of day, month and year; `None`: as in DuckDB.
    ///
    /// # Errors
    /// The session may not change settings.
    pub fn set_date_order(&self, order: Option<DateOrder>) -> Result<()> {
        let name = order.map_or("iso", DateOrder::name);
        self.change_settings(false, |state| settings::set(state, self.settings_context(), "date_order", name))
    }

    /// Notes the failure of a statement for its transaction; `telling` makes the rows of one that began note theirs.
    fn told<T>(&self, done: Result<T>, failed: Option<Failure>, telling: impl FnOnce(T, Failure) -> T) -> Result<T> {
        match (done, failed) {
            (Ok(outcome), Some(failed)) => Ok(telling(outcome, failed)),
            (Err(error), Some(_)) => {
                self.fail_transaction();
                Err(self.temp.in_words_of_sql(error))
            }
            (done, None) => done.map_err(|error| self.temp.in_words_of_sql(error)),
        }
    }

    fn check_write(&self) -> Result<()> {
        check_write(self.access, &self.read_only)
    }

    fn check_write_to(&self, target: WriteTarget) -> Result<()> {
        match target {
            WriteTarget::Database => self.check_write(),
            WriteTarget::TemporaryRows => Ok(()),
            WriteTarget::TemporaryObjects if self.read_only.load(Ordering::Relaxed) => Err(transaction::reads_only()),
            WriteTarget::TemporaryObjects => Ok(()),
        }
    }

    /// Loads a file into a table, as `COPY table (columns) FROM 'path' (options)` does, on behalf of a client whose data
    /// it holds: whether the session may read files does not matter.
    ///
    /// # Errors
    /// The table does not exist, or the file cannot be read or does not fit the table.
    pub async fn load_file(
        &self,
        table: &str,
        columns: Vec<String>,
        path: &str,
        options: Vec<(String, String)>,
    ) -> Result<Outcome> {
        let table = self.temp.resolved(&*self.snapshot()?, table);
        let target = WriteTarget::of_rows(is_temporary(&table));
        let request = CopyFrom { table, columns, path: path.to_owned(), options };
        self.write_once(target, move |transaction, context| copy::copy_from(transaction, context, &request, None)).await
    }

    /// The statement that PREPARE has made.
    ///
    /// # Errors
    /// There is none of this name.
    pub(crate) fn prepared_statement(&self, name: &str) -> Result<Arc<Written>> {
        let prepared = self.prepared.lock().get(name).map(|prepared| prepared.written.clone());
        prepared.ok_or_else(|| self.not_prepared(name))
    }

    /// Changes settings, or only those until the end of the transaction; outside of one, the latter has no effect.
    fn change_settings(&self, local: bool, change: impl Fn(&mut SessionState) -> Result<()>) -> Result<()> {
        let before = self.planner().base().clone();
        let mut state = (*before).clone();
        change(&mut state)?;
        if self.note_settings(&before, local, &change)? || !local {
            self.use_settings(Arc::new(state));
        }
        Ok(())
    }

    /// Settings for the statements that follow.
    fn use_settings(&self, base: Arc<SessionState>) {
        let mut planner = self.planner.write();
        if !Arc::ptr_eq(planner.base(), &base) {
            *planner = planner.with_settings(base);
            self.forget_plans();
        }
    }

    /// On what the values of settings depend, and the right to change them.
    fn settings_context(&self) -> (&Options, Access) {
        (self.database.options(), self.access)
    }

    /// After a change of a setting: the database keeps earlier versions for as long as the session says, if it said so.
    async fn keep_versions(&self, setting: &str) -> Result<()> {
        let Some(retention) = settings::new_retention(self.planner().settings(), setting) else { return Ok(()) };
        self.blocking(move |database| Ok(database.store().set_retention(retention)?)).await
    }

    /// INSERT, UPDATE, DELETE or MERGE.
    async fn change_rows(&self, target: WriteTarget, parameters: Parameters) -> Result<Outcome> {
        // Tables that are read while they arrive can be read once.
        let is_once = !parameters.tables.values().all(ArrowTable::is_in_memory);
        let work = move |transaction: &mut WriteTransaction, context: &WriteContext| {
            exec::perform_write(transaction, context, &parameters)
        };
        self.write_as(Writing { is_once, target, ..Writing::default() }, work).await
    }

    /// Executes one statement; a query that takes whole columns of a native table gives them as they are stored.
    ///
    /// # Errors
    /// As for [`Session::execute`].
    pub async fn execute_stored(&self, statement: &Statement, inputs: Inputs) -> Result<Answer> {
        let failed = self.transaction_failure();
        let running = self.statements.begin(&statement.text);
        let answer = guarded(statement, self.execute_stored_command(statement, inputs)).await;
        let answer = answer.map(|answer| match answer {
            Answer::Outcome(outcome) => Answer::Outcome(outcome.of_running(running)),
            Answer::Stored(stored) => Answer::Stored(Box::new(stored.of_running(running))),
        });
        self.told(answer, failed, |answer, failed| match answer {
            Answer::Outcome(outcome) => Answer::Outcome(outcome.telling(failed)),
            stored => stored,
        })
    }

    async fn execute_stored_command(&self, statement: &Statement, inputs: Inputs) -> Result<Answer> {
        self.check_transaction(statement.ends_transaction())?;
        if self.knows(statement) {
            return Ok(Answer::Outcome(self.execute_unguarded(statement, inputs).await?));
        }
        let parameters = self.with_variables(parameters_of(statement, inputs.clone())?);
        if let Some((kept, snapshot)) = self.planned_text(statement, &parameters).await? {
            return self.stored_answer(&kept, &snapshot);
        }
        if statement.is_whole_query() {
            let form = self.form(statement, &parameters);
            if let Some(outcome) = Box::pin(self.execute_new_point(form, &parameters)).await? {
                return Ok(Answer::Outcome(outcome));
            }
            let (kept, snapshot) = self.newly_planned(&statement.text, &parameters).await?;
            return self.stored_answer(&kept, &snapshot);
        }
        Ok(Answer::Outcome(self.execute_unguarded(statement, inputs).await?))
    }

    /// The rows of a plan, as they are stored where it takes whole columns of a table.
    fn stored_answer(&self, kept: &CachedPlan, snapshot: &Arc<Snapshot>) -> Result<Answer> {
        let shown_as_stored =
            times::is_shown_as_stored(&kept.plan().schema(), self.planner().settings().config_options());
        Ok(match StoredQuery::of(kept.plan(), snapshot, self.cancellation()) {
            Some(stored) if shown_as_stored => {
                let watch = self.watch(kept, kept.plan(), Some(Output::Shipped));
                Answer::Stored(Box::new(stored.watched(watch)))
            }
            _ => Answer::Outcome(self.run_kept(kept, snapshot)?),
        })
    }

    /// The plan that was kept of a query with this text, and the snapshot that it reads, if it can be used now.
    fn kept_plan(&self, text: &str, parameters: &Parameters) -> Result<Option<(CachedPlan, Arc<Snapshot>)>> {
        let key = plan_cache::key(text, parameters);
        if !self.plans.lock().may_have(&key) {
            return Ok(None);
        }
        let snapshot = self.snapshot()?;
        // Changes that are not committed belong to no state that comes again.
        if snapshot.has_own_changes() {
            return Ok(None);
        }
        let known = self.plans.lock().find(&key, &snapshot)?;
        Ok(known.map(|kept| (kept, snapshot)))
    }

    /// A query's plan, the one that was kept of its text if that comes again, and the snapshot that it reads.
    pub(crate) async fn planned(&self, text: &str, parameters: &Parameters) -> Result<(CachedPlan, Arc<Snapshot>)> {
        match self.kept_plan(text, parameters)? {
            Some(kept) => Ok(kept),
            None => self.newly_planned(text, parameters).await,
        }
    }

    /// The plan of a query on a snapshot that the caller has chosen.
    pub(crate) async fn planned_on(
        &self,
        snapshot: &Arc<Snapshot>,
        text: &str,
        parameters: &Parameters,
    ) -> Result<CachedPlan> {
        let known = self.plans.lock().find(&plan_cache::key(text, parameters), snapshot)?;
        match known {
            Some(kept) => Ok(kept),
            None => Ok(self.planned_in(self.scope_of(snapshot.clone()), text, parameters).await?.0),
        }
    }

    /// The plan of a query of which none was kept.
    async fn newly_planned(&self, text: &str, parameters: &Parameters) -> Result<(CachedPlan, Arc<Snapshot>)> {
        self.planned_in(self.scope()?, text, parameters).await
    }

    async fn planned_in(
        &self,
        scope: Scope,
        text: &str,
        parameters: &Parameters,
    ) -> Result<(CachedPlan, Arc<Snapshot>)> {
        let scope = scope.with_tables(&parameters.tables);
        let (snapshot, attached) = (scope.snapshot.clone(), scope.attached().clone());
        let given = parameters.clone();
        let planned = self.plan_apart(move |planner, _| async move {
            let (state, plan) = planner.plan_query(&scope, &given).await?;
            let logged = settings::logged_query(&state, given.written()?.query()?.0);
            Ok(CachedPlan::new(&state, &plan, logged, &scope).await?)
        });
        let (planned, lasting) = planned.await?;
        if let Some(progress) = self.progress()
            && let Some(text) = cross_joins::notice(planned.plan())
        {
            progress.notice(&text);
        }
        Ok((self.kept(text, parameters, planned, (lasting, &attached, &snapshot)), snapshot))
    }

    /// The plan of a statement's text. `None` if it is no query, or if none was kept and it may read the row of a key: such
    /// statements need no plan when they come again.
    pub(crate) async fn planned_text(
        &self,
        statement: &Statement,
        parameters: &Parameters,
    ) -> Result<Option<(CachedPlan, Arc<Snapshot>)>> {
        if let Some(kept) = self.kept_plan(&statement.text, parameters)? {
            return Ok(Some(kept));
        }
        match statement.whole_query() {
            Some(query) if !point::may_read_row(query) => {
                self.newly_planned(&statement.text, parameters).await.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// A plan, which is kept if the same text can use it again.
    fn kept(
        &self,
        text: &str,
        parameters: &Parameters,
        planned: CachedPlan,
        (lasting, attached, snapshot): (bool, &AttachedSnapshots, &Arc<Snapshot>),
    ) -> CachedPlan {
        if !lasting || snapshot.has_own_changes() || attached.is_used() {
            return planned;
        }
        let planned = planned.of_query(text, parameters);
        self.plans.lock().keep(plan_cache::key(text, parameters), snapshot, planned.clone());
        planned
    }

    fn run_kept(&self, kept: &CachedPlan, snapshot: &Arc<Snapshot>) -> Result<Outcome> {
        let cancellation = self.cancellation();
        let plan = kept.start(snapshot, &cancellation, self.database.workers(), false)?.plan;
        let context = kept.context().clone();
        let watch = self.watch(kept, &plan, None);
        cancellation.begin_scans(scan_work(&plan));
        let rows = context::within(Some(cancellation.clone()), || execute_stream(plan, context))?;
        let stream = CancellableStream::of_query(rows, cancellation);
        let stream = Watched { inner: Box::pin(stream), watch };
        Ok(shown_rows(Box::pin(stream), self.planner().settings().config_options()))
    }

    /// Watches a query for the workload log, if it is logged; `output` is what becomes of its scans' rows, where the plan
    /// does not say.
    fn watch(&self, kept: &CachedPlan, plan: &Arc<dyn ExecutionPlan>, output: Option<Output>) -> Option<Watch> {
        let text = kept.logged()?;
        let mut asked = workload::asked(plan);
        for asked in &mut asked {
            asked.output = output.unwrap_or(asked.output);
        }
        Watch::begin(self.database.workload(), text, asked)
    }

    /// Runs the query of a statement in a scope.
    pub(crate) async fn query_in(&self, scope: Scope, parameters: &Parameters) -> Result<Outcome> {
        let parameters = parameters.clone();
        let run = self.plan_apart(move |planner, cancellation| async move {
            let (state, plan) = planner.plan_query(&scope, &parameters).await?;
            OneRun::plan(&state, &plan, &cancellation).await
        });
        let rows = run.await?.stream()?;
        Ok(shown_rows(rows, self.planner().settings().config_options()))
    }

    /// Plans a query for a run whose operators are measured.
    async fn measured(&self, scope: Scope, parameters: &Parameters) -> Result<OneRun> {
        let (parameters, workers) = (parameters.clone(), self.database.workers().cloned());
        let (snapshot, attached) = (scope.snapshot.clone(), scope.attached().clone());
        let run = self.plan_apart(move |planner, cancellation| async move {
            // Workers plan the query from its text as this server does.
            let text = parameters.written()?.query()?.0.to_string();
            let (state, plan) = planner.plan_query(&scope, &parameters).await?;
            let (mut planned, lasting) = CachedPlan::new(&state, &plan, None, &scope).await?;
            if lasting && !snapshot.has_own_changes() && !attached.is_used() {
                planned = planned.of_query(&text, &parameters);
            }
            let Distributed { plan, note } = planned.start(&snapshot, &cancellation, workers.as_ref(), true)?;
            Ok(OneRun { plan, context: state.task_ctx(), cancellation, note })
        });
        run.await
    }

    /// CHECK: what is damaged, and where nothing is, which declared keys the rows do not keep. No row: all is well.
    async fn check(&self, table: Option<String>) -> Result<Outcome> {
        let (only, temp) = (table.clone(), self.temp.clone());
        let damage = self.blocking(move |database| check::damage(database.store(), &temp, only.as_deref()));
        let mut problems = damage.await?;
        if problems.is_empty() {
            let scope = self.scope()?;
            for question in check::key_questions(&scope.snapshot, &self.temp, table.as_deref()) {
                let rows = self.query_in(scope.clone(), &Parameters::of_text(&question.sql)).await?.collect().await?;
                problems.extend(question.answer(&rows)?);
            }
        }
        Ok(Outcome::batch(check::rows(&problems)?))
    }

    /// Plans a statement on a thread of its own, within its limits: whatever it takes, other statements go on. When the
    /// statement is cancelled, or nobody waits for it any more, the thread ends at the next check.
    pub(crate) async fn plan_apart<T, F>(
        &self,
        plan: impl FnOnce(Planner, Cancellation) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>>,
    {
        let cancellation = self.cancellation();
        let unwatched = cancellation.unwatched();
        let _guard = cancellation.guard();
        let (planner, runtime, tokens) = (self.planner(), Handle::current(), depth::tokens_here());
        let pool = planner.settings().runtime_env().memory_pool.clone();
        let cancelled = cancellation.cancelled();
        let planned = tokio::task::spawn_blocking(move || {
            let planned = || runtime.block_on(plan(planner, unwatched));
            depth::with_stack(tokens, || planning::within(cancellation, &pool, planned))
        });
        tokio::select! {
            planned = planned => match planned {
                Ok(planned) => planned,
                Err(error) => Err(match error.try_into_panic() {
                    Ok(panic) => panicked(&*panic),
                    Err(_) => Error::cancelled(),
                }),
            },
            () = cancelled => Err(Error::cancelled()),
        }
    }

    async fn prepare_named(&self, prepare: Prepare, parameters: Parameters) -> Result<Outcome> {
        let (name, written) = (prepare.name.text, parameters.written()?.clone());
        let scope = self.scope()?;
        let declared = prepare.types.clone();
        // Planned now, so that what cannot work fails here and not later.
        let (statement, planned) = (written.clone(), scope);
        let types = self.plan_apart(move |planner, _| async move {
            let declared: Vec<&Type> = declared.iter().collect();
            let types = planner.types(&planned, &declared, statement.text())?;
            let types: Vec<_> = types.iter().map(|known| Some(known.data_type())).collect();
            if statement.write().is_err() {
                let (query, _) = statement.query()?;
                let state = planner.state(&planned);
                match planner.describe_made(&state, &planned, query, &statement, &types).await {
                    // The values of EXECUTE can have types that fit, where nothing determines those of parameters.
                    Err(error) if error.kind() == ErrorKind::Type && types.len() < statement.numbers().count() => {}
                    described => drop(described?),
                }
            }
            Ok(types)
        });
        let types = types.await?;
        let text = format!("{PREPARE}{}", prepare.statement);
        let memory = MemoryConsumer::new("a prepared statement");
        let memory = memory.register(&self.planner().settings().runtime_env().memory_pool);
        memory.try_grow(text.len().saturating_mul(PREPARED_SHARE).saturating_add(PREPARED_BYTES))?;
        let memory = Arc::new(memory);
        let mut prepared = self.prepared.lock();
        if prepared.len() >= PREPARED_MAX {
            let error = Error::new(ErrorKind::Resource, format!("the session has {PREPARED_MAX} prepared statements"));
            return Err(error.with_hint("DEALLOCATE some of them"));
        }
        if prepared.contains_key(&name) {
            return Err(Error::new(ErrorKind::Exists, format!("prepared statement {name} exists"))
                .with_hint(format!("DEALLOCATE {name} first")));
        }
        prepared.insert(name, Prepared { text: text.into(), types, written, _memory: memory });
        Ok(Outcome::Done { verb: "PREPARE" })
    }

    async fn execute_prepared(&self, execute: Execute) -> Result<Outcome> {
        let name = &execute.name.text;
        let prepared = self.prepared.lock().get(name).cloned();
        let Some(Prepared { text, types, written, .. }) = prepared else { return Err(self.not_prepared(name)) };
        let values = self.values_of_execute(&execute, &written)?;
        if !types.is_empty() && types.len() != values.len() {
            let (expected, actual) = (types.len(), values.len());
            return Err(Error::invalid(format!("{name} takes {expected} parameters and was given {actual}")));
        }
        let parameters = Parameters { types, values, written: Some(written.clone()), ..Parameters::default() };
        if let Some(outcome) = self.execute_known(&text, &parameters).await? {
            return Ok(outcome);
        }
        let given = Cow::Borrowed(&parameters);
        let form = points::Form { text: Cow::Borrowed(&*text), given, is_lifted: false };
        if let Some(outcome) = Box::pin(self.execute_new_point(Some(form), &parameters)).await? {
            return Ok(outcome);
        }
        if written.write().is_ok() {
            let target = self.target_of(&written)?;
            return self.change_rows(target, parameters).await;
        }
        // Workers plan the query alone.
        let query = text.strip_prefix(PREPARE).unwrap_or(&text);
        let (kept, snapshot) = Box::pin(self.planned(query, &parameters)).await?;
        self.run_kept(&kept, &snapshot)
    }

    /// The values of EXECUTE, in the order of the numbers of the parameters.
    fn values_of_execute(&self, execute: &Execute, written: &Written) -> Result<Vec<ScalarValue>> {
        let mut values: Vec<Option<ScalarValue>> = vec![None; execute.arguments.len()];
        values.resize(values.len().max(self.known_by_name(written)), None);
        for (at, argument) in execute.arguments.iter().enumerate() {
            let place = match &argument.name {
                None => at,
                Some(name) => {
                    let number = written.numbers().number(&Parameter::Name(name.text.clone()), 0);
                    let unknown = || Error::invalid(format!("the statement has no parameter ${name}"));
                    number.and_then(|number| number.checked_sub(1)).ok_or_else(unknown)?
                }
            };
            let count = execute.arguments.len();
            let value = values.get_mut(place).ok_or_else(|| parameters::count(place + 1, count))?;
            *value = Some(match parameters::literal(&argument.value) {
                Some(value) => value,
                None => binding::constant_value(&self.planner(), &self.scope()?, &argument.value)?,
            });
        }
        self.or_variables(values, written)
    }

    /// Forgets one prepared statement, or all.
    fn deallocate(&self, name: Option<&str>) -> Result<Outcome> {
        let mut prepared = self.prepared.lock();
        match name {
            None => prepared.clear(),
            Some(name) => {
                if prepared.remove(name).is_none() {
                    drop(prepared);
                    return Err(self.not_prepared(name));
                }
            }
        }
        Ok(Outcome::Done { verb: "DEALLOCATE" })
    }

    /// Whether PREPARE has made a statement of this name.
    pub fn has_prepared(&self, name: &str) -> bool {
        self.prepared.lock().contains_key(name)
    }

    /// Forgets a statement of PREPARE. Returns whether there was one.
    pub fn forget_prepared(&self, name: &str) -> bool {
        self.prepared.lock().remove(name).is_some()
    }

    fn not_prepared(&self, name: &str) -> Error {
        Error::not_found("prepared statement", name, self.prepared.lock().keys().map(String::as_str))
    }

    /// Runs `work` in the session's transaction, or in one that commits when it succeeds, on a thread that may block. It
    /// may run again if it conflicts with another transaction.
    async fn write<F>(&self, target: WriteTarget, work: F) -> Result<Outcome>
    where
        F: Fn(&mut WriteTransaction, &WriteContext) -> Result<Outcome> + Send + 'static,
    {
        self.write_as(Writing { target, ..Writing::default() }, work).await
    }

    /// The same for work that cannot be repeated.
    async fn write_once<F>(&self, target: WriteTarget, work: F) -> Result<Outcome>
    where
        F: Fn(&mut WriteTransaction, &WriteContext) -> Result<Outcome> + Send + 'static,
    {
        self.write_as(Writing { target, is_once: true, ..Writing::default() }, work).await
    }

    pub(crate) async fn write_as<F>(&self, writing: Writing, work: F) -> Result<Outcome>
    where
        F: Fn(&mut WriteTransaction, &WriteContext) -> Result<Outcome> + Send + 'static,
    {
        let Writing { plans, is_once, target, remote } = writing;
        self.check_write_to(target)?;
        let cancellation = self.cancellation();
        // Dropping this future, as a caller does that gives up, stops the work.
        let _guard = cancellation.guard();
        let context = WriteContext { plans, target, remote, ..self.write_context(cancellation) };
        let outcome = self.run_write(context, !is_once, work).await;
        if target == WriteTarget::TemporaryObjects {
            self.forget_plans();
        }
        outcome
    }

    /// The context of a write to the database.
    fn write_context(&self, cancellation: Cancellation) -> WriteContext {
        WriteContext {
            planner: self.planner(),
            runtime: Handle::current(),
            waiting: self.waiting(&cancellation),
            cancellation,
            division: *self.database.division(),
            memory: Mutex::default(),
            plans: None,
            progress: self.progress(),
            inference: Inference::default(),
            row_lock: LockMode::Shared,
            target: WriteTarget::default(),
            remote: None,
        }
    }

    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Database) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let database = self.database.clone();
        let tokens = depth::tokens_here();
        match tokio::task::spawn_blocking(move || depth::with_stack(tokens, || work(&database))).await {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => Err(panicked(&*panic)),
                Err(_) => Err(Error::cancelled()),
            },
        }
    }

    fn cancellation(&self) -> Cancellation {
        self.cancel.statement()
    }
}

/// The state from which those of statements are made: rules, planners and functions, which all statements share.
fn base_state(database: &Database, runtime: Arc<RuntimeEnv>, variables: &Arc<Variables>) -> SessionState {
    let mut state = SessionStateBuilder::new()
        .with_config(settings::initial(database.options()))
        .with_runtime_env(runtime)
        .with_expr_planners(vec![
            Arc::new(BoundedExpressions),
            Arc::new(UntypedPlanner),
            Arc::new(TimePlanner),
            scalars::planner(),
        ])
        .with_default_features()
        .with_query_planner(Arc::new(SharedPlanner))
        .with_analyzer_rules(optimizer::analyzer_rules())
        .with_optimizer_rules(optimizer::optimizer_rules())
        .with_physical_optimizer_rules(optimizer::physical::of_a_plan(database.options().memory_limit))
        .build();
    // A state that takes functions takes these.
    let _ = aggregates::register(&mut state);
    for function in windows::functions() {
        let _ = state.register_udwf(function);
    }
    // Only functions of a state that takes none are refused.
    let _ = times::register(&mut state);
    let _ = exact::register(&mut state);
    let _ = scalars::register(&mut state);
    let _ = text_types::register(&mut state);
    let others =
        [optimizer::attempts::function(), windows::ordered_by(), windows::frame_bounds(), current_setting::function()];
    others.into_iter().for_each(|function| drop(state.register_udf(Arc::new(function))));
    let _ = state.register_udf(Arc::new(crate::variables::function(variables.clone())));
    let _ = growth::register(&mut state);
    // Behind all others, as it takes the functions that it plans from them.
    let _ = untyped::register(&mut state);
    state
}

/// Work for a statement, on a stack that is large enough for it. A panic ends its statement and nothing else; what it leaves
/// behind is dropped with the future.
pub(crate) async fn guarded<T>(statement: &Statement, work: impl Future<Output = Result<T>> + Send) -> Result<T> {
    let caught = AssertUnwindSafe(work).catch_unwind();
    OnStack::new(statement.tokens(), caught).await.unwrap_or_else(|panic| Err(panicked(&*panic)))
}

/// The rows of a plan, under the names that users know their columns by, and in their time zone.
fn shown_rows(stream: SendableRecordBatchStream, options: &ConfigOptions) -> Outcome {
    let stream = times::in_zone_of_session(names::shown_rows(stream), options);
    Outcome::Rows { schema: stream.schema(), stream }
}

/// What a statement is given; more values than it has parameters are a mistake.
fn parameters_of(statement: &Statement, inputs: Inputs) -> Result<Parameters> {
    if !inputs.values.is_empty() {
        let expected = statement.parameter_names()?.count();
        if inputs.values.len() > expected {
            return Err(parameters::count(expected, inputs.values.len()));
        }
    }
    Ok(Parameters { written: Some(statement.written()), ..Parameters::from(inputs) })
}

/// A plan that is ready to run once.
struct OneRun {
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    cancellation: Cancellation,
    /// Why no worker has a part of it, if there are workers.
    note: Option<String>,
}

impl OneRun {
    async fn plan(state: &SessionState, plan: &LogicalPlan, cancellation: &Cancellation) -> Result<OneRun> {
        let plan = optimizer::physical::plan_once(state, plan, cancellation).await?;
        Ok(OneRun { plan, context: state.task_ctx(), cancellation: cancellation.clone(), note: None })
    }

    fn stream(self) -> Result<SendableRecordBatchStream> {
        self.cancellation.begin_scans(scan_work(&self.plan));
        let rows = context::within(Some(self.cancellation.clone()), || execute_stream(self.plan, self.context))?;
        Ok(Box::pin(CancellableStream::of_query(rows, self.cancellation)))
    }
}

fn check_write(access: Access, read_only: &AtomicBool) -> Result<()> {
    access.check_write()?;
    match read_only.load(Ordering::Relaxed) {
        true => Err(transaction::reads_only()),
        false => Ok(()),
    }
}

/// Whether functions of the session may change a sequence.
fn may_write(access: Access, read_only: Arc<AtomicBool>, block: Block, temp: TempSchema) -> MayWrite {
    Box::new(move |sequence| {
        if temp.has(sequence) {
            return Ok(());
        }
        check_write(access, &read_only)?;
        block.check_write()
    })
}
