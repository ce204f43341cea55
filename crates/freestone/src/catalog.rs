//! The resolution of names for one statement: the tables and views of one snapshot, and files by name.
//!
//! Each statement is planned with its own session state, whose only schema contains the statement's snapshot. The state
//! does not outlive the statement, so no statement can see two snapshots.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableFunction, TableProvider};
use datafusion::common::ParamValues;
use datafusion::datasource::ViewTable;
use datafusion::datasource::empty::EmptyTable;
use datafusion::error::DataFusionError;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, TableType};
use datafusion::physical_plan::execute_stream;
use datafusion::scalar::ScalarValue;
use freestone_binder::SqlType;
use freestone_bucket::Stores;
use freestone_sql::tree;
use freestone_store::Snapshot;
use freestone_store::schema::TableSchema;
use futures::TryStreamExt;
use parking_lot::Mutex;

use crate::access::{Access, Extension};
use crate::attached::{Attached, AttachedSnapshots};
use crate::binding;
use crate::context::{self, Budget, CancellableStream, Canceller, Progress};
use crate::definitions::GeneratedColumn;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::{Assignment, Stored};
use crate::inputs::ArrowTable;
use crate::internal_names::{PG_TEMP, ROW_ID_COLUMN, is_temporary};
use crate::limits::VIEWS_MAX;
use crate::optimizer::physical;
use crate::optimizer::view_matching::{self, View, Views};
use crate::planning::with_analyzed_types;
use crate::provider::files::{
    CONTENTS, ContentsFunction, FILE_FUNCTIONS, FilesFunction, INSPECTIONS, Inference, InspectionFunction, NamedTypes,
    OpenFiles, RejectTables, SNIFF, SniffFunction, naming,
};
use crate::provider::information::{INFORMATION_SCHEMA, InformationSchema};
use crate::provider::metadata::Lists;
use crate::provider::{FreestoneTable, metadata};
use crate::sequences::SessionSequences;
use crate::shared::Materialized;
use crate::sql::depth::{LONG_TOKENS, OnStack};
use crate::sql::names::{CATALOG, MAIN, SCHEMA};
use crate::sql::parameters::{Described, Parameters, places};
use crate::sql::written::Written;
use crate::sql::{names, parameters, statement};
use crate::temp_schema::TempSchema;
use crate::workload::WorkloadLog;
use crate::{definitions, dependencies, exact, planning, sequences, settings, shared, text_types};

/// The most columns that a PIVOT makes of the values of a query.
const PIVOT_COLUMNS_MAX: usize = 10_000;
/// The name of the target of a write in its plan; see [`Target`].
pub(crate) const TARGET: &str = "freestone$target";
/// The same without its generated columns.
const STORED_TARGET: &str = "freestone$stored_target";
/// The beginning of the name of a table without its generated columns.
pub(crate) const STORED: &str = "freestone$stored:";

/// Plans statements, with the session's settings at the time when the statement began.
#[derive(Clone)]
pub(crate) struct Planner {
    base: Arc<SessionState>,
    access: Access,
    extension: Arc<Extension>,
    lists: Lists,
    log: Arc<WorkloadLog>,
    sequences: Arc<SessionSequences>,
    temp: TempSchema,
    /// The records of files that were left out.
    rejects: RejectTables,
}

/// The table that represents the target of a write in its plan.
#[derive(Clone)]
enum Target {
    /// For DELETE and UPDATE: the rows of a table with their row ids.
    Rows(String),
    /// For INSERT: the table's columns, all nullable, because our own check of NOT NULL names the row.
    Columns(SchemaRef),
    /// For RETURNING: the rows that were written or deleted, and the name of their table.
    Written(ArrowTable, String),
}

/// The meaning of names in one statement.
#[derive(Clone)]
pub(crate) struct Scope {
    pub snapshot: Arc<Snapshot>,
    /// The table to which [`TARGET`] refers.
    target: Option<Target>,
    /// The views that are being expanded, outermost first.
    views: Vec<String>,
    /// Whether the last of them is in the catalog with what it uses, and not only about to be made.
    is_kept: bool,
    /// The tables that the caller supplied.
    tables: Arc<HashMap<String, ArrowTable>>,
    /// The files that the statement has opened.
    files: OpenFiles,
    /// Whether views read each other over too many levels. Then no further one is planned: a query that fails is tried again.
    too_deep: Arc<AtomicBool>,
    /// The views that were planned, so that each is planned only once.
    planned_views: Arc<Mutex<HashMap<String, Arc<dyn TableProvider>>>>,
    /// The names of tables and views that planning has looked up, whether they exist or not.
    asked: Arc<Mutex<BTreeSet<String>>>,
    /// The ids of the tables and other objects that the query itself uses, without those that views within it use.
    uses: Arc<Mutex<BTreeSet<u64>>>,
    /// The attached databases that the statement has looked into.
    attached: AttachedSnapshots,
    /// Whether the snapshot is that of an attached database.
    is_attached: bool,
}

impl Scope {
    pub fn new(snapshot: Arc<Snapshot>) -> Self {
        Scope {
            snapshot,
            target: None,
            views: vec![],
            is_kept: false,
            tables: Arc::default(),
            files: OpenFiles::default(),
            too_deep: Arc::default(),
            planned_views: Arc::default(),
            asked: Arc::default(),
            uses: Arc::default(),
            attached: AttachedSnapshots::default(),
            is_attached: false,
        }
    }

    /// The meaning of names in an attached database, of which the statement sees this snapshot.
    fn of_attached(&self, snapshot: Arc<Snapshot>) -> Self {
        Scope { is_attached: true, attached: self.attached.clone(), files: self.files.clone(), ..Scope::new(snapshot) }
    }

    /// The attached databases that the statement looks into.
    pub fn attached(&self) -> &AttachedSnapshots {
        &self.attached
    }

    /// The names of tables and views that planning has looked up so far.
    pub fn asked_names(&self) -> BTreeSet<String> {
        self.asked.lock().clone()
    }

    /// Notes that the query uses a table or another object.
    pub fn note_use(&self, id: u64) {
        self.uses.lock().insert(id);
    }

    /// The ids of the tables and other objects that the query has used so far.
    pub fn uses(&self) -> BTreeSet<u64> {
        self.uses.lock().clone()
    }

    /// Makes [`TARGET`] a table with its row ids.
    pub fn with_target_rows(mut self, table: &str) -> Self {
        self.target = Some(Target::Rows(table.to_owned()));
        self
    }

    /// Makes [`TARGET`] a relation with a table's columns.
    pub fn with_target_columns(mut self, table: &TableSchema) -> Self {
        let columns = table.columns.iter().enumerate();
        let fields = columns.map(|(at, column)| {
            let field = Field::new(&column.name, column.data_type.clone(), true);
            if text_types::declared::keeps_digits(table, at) { Assignment::keeping_digits(field) } else { field }
        });
        self.target = Some(Target::Columns(Arc::new(Schema::new(fields.collect::<Vec<_>>()))));
        self
    }

    /// Makes [`TARGET`] rows of a table that were written or deleted, with the columns that it generates.
    pub fn with_target_written(mut self, rows: ArrowTable, table: &str) -> Self {
        self.target = Some(Target::Written(rows, table.to_owned()));
        self
    }

    pub fn with_view(mut self, view: &str) -> Self {
        self.views.push(view.to_owned());
        self.uses = Arc::default();
        self.is_kept = false;
        self
    }

    /// The same for a view that is in the catalog with what it uses.
    pub fn with_kept_view(self, view: &str) -> Self {
        Scope { is_kept: true, ..self.with_view(view) }
    }

    /// Whether a name alone in a temporary view means something permanent, although something temporary has it, too.
    pub fn means_permanent(&self, name: &str, temporary: &str) -> bool {
        let view = self.views.last().filter(|_| self.is_kept).and_then(|view| self.snapshot.view(view));
        view.is_some_and(|view| dependencies::means_permanent(&self.snapshot, &view.uses, name, temporary))
    }

    /// Scans of files report their progress.
    pub fn with_progress(mut self, progress: Option<Arc<dyn Progress>>) -> Self {
        self.files = self.files.with_progress(progress);
        self
    }

    /// From now on, tables of files have the names of the files as a hidden column.
    pub fn name_files(&self) {
        self.files.name_files();
    }

    /// Infers the types of text files like this.
    pub fn with_inference(mut self, inference: Inference) -> Self {
        self.files = self.files.with_inference(inference);
        self
    }

    /// Adds tables of the caller that the statement may name.
    pub fn with_tables(mut self, tables: &Arc<HashMap<String, ArrowTable>>) -> Self {
        self.tables = tables.clone();
        self
    }

    /// Whether a name is one of the database, or can only be that of a file.
    pub fn knows(&self, name: &str) -> bool {
        self.snapshot.relation_id(name).is_some() || naming::is_path(name)
    }

    /// Whether names mean what they mean in the session's statements. In views of the database, and in attached databases,
    /// a name alone is not that of a temporary table.
    pub fn is_of_session(&self, temp: &TempSchema) -> bool {
        !self.is_attached && self.views.last().is_none_or(|view| temp.has(view))
    }

    /// A table of the caller. Views do not see these tables, so their meaning does not depend on the caller.
    fn input_table(&self, name: &str) -> Option<&ArrowTable> {
        self.tables.get(name).filter(|_| self.views.is_empty())
    }
}

impl Planner {
    pub fn new(
        base: SessionState,
        access: Access,
        lists: Lists,
        log: Arc<WorkloadLog>,
        sequences: Arc<SessionSequences>,
        temp: TempSchema,
    ) -> Self {
        let (base, extension, rejects) = (Arc::new(base), Arc::default(), RejectTables::default());
        Planner { base, access, extension, lists, log, sequences, temp, rejects }
    }

    /// The tables of records of files that were left out.
    pub fn rejects(&self) -> &RejectTables {
        &self.rejects
    }

    /// The stores of files elsewhere, as the session reaches them.
    pub fn stores(&self) -> &Stores {
        &self.lists.stores
    }

    /// The permissions of the session.
    pub fn access(&self) -> Access {
        self.access
    }

    /// The session's temporary tables.
    pub fn temp(&self) -> &TempSchema {
        &self.temp
    }

    /// The sequences as the session sees them.
    pub fn sequences(&self) -> &SessionSequences {
        &self.sequences
    }

    pub fn with_settings(&self, base: Arc<SessionState>) -> Self {
        Planner { base, ..self.clone() }
    }

    /// The session's settings and functions.
    pub fn base(&self) -> &Arc<SessionState> {
        &self.base
    }

    /// What the session has in addition to the database.
    pub fn extension(&self) -> &Extension {
        &self.extension
    }

    pub fn with_extension(&self, extension: Extension) -> Self {
        Planner { extension: Arc::new(extension), ..self.clone() }
    }

    pub fn with_attached(&self, attached: Attached) -> Self {
        Planner { lists: Lists { attached, ..self.lists.clone() }, ..self.clone() }
    }

    /// The other databases that the session reads.
    pub fn attached(&self) -> &Attached {
        &self.lists.attached
    }

    pub fn settings(&self) -> &SessionState {
        &self.base
    }

    /// A session state for one statement.
    pub fn state(&self, scope: &Scope) -> SessionState {
        let mut state = (*self.base).clone();
        metadata::register(&mut state, &scope.snapshot, &self.lists, &self.log, (&self.temp, self.access));
        sequences::register(&mut state, &scope.snapshot, &self.sequences);
        let files = scope.files.clone().with_rejects(&self.rejects).with_stores(self.stores());
        let (planner, of_statement) = (self.clone(), scope.clone());
        let types: NamedTypes = Arc::new(move |name| planner.data_type(&of_statement, name));
        let reader = |name| FilesFunction::new(name, self.access, self.base.clone(), files.clone(), types.clone());
        for name in FILE_FUNCTIONS {
            state.register_udtf(name, Arc::new(reader(name)));
        }
        state.register_udtf(SNIFF, Arc::new(SniffFunction(reader(SNIFF))));
        for (name, rows) in INSPECTIONS {
            state
                .register_udtf(name, Arc::new(InspectionFunction::new(name, rows, self.access, self.stores().clone())));
        }
        for (name, contents) in CONTENTS {
            let (access, base, stores) = (self.access, self.base.clone(), self.stores().clone());
            let function = ContentsFunction { name, contents, access, state: base, stores };
            state.register_udtf(name, Arc::new(function));
        }
        let schema =
            StatementSchema { planner: self.clone(), scope: scope.clone(), name: None, lists_broken_views: false };
        let functions = Arc::new(state.table_functions().clone());
        state.register_catalog_list(Arc::new(StatementCatalog { schema: Arc::new(schema), functions }));
        let stored = match &scope.target {
            Some(Target::Columns(schema)) => {
                let assignment = Assignment::of_session(state.config_options());
                Some(Arc::new(Stored::function(&assignment.noted(schema.clone(), None))))
            }
            _ => None,
        };
        for function in self.extension.functions.iter().chain(&stored) {
            // Registering a function fails only in states that accept no functions.
            let _ = state.register_udf(function.clone());
        }
        for aggregate in &self.extension.aggregates {
            let _ = state.register_udaf(aggregate.clone());
        }
        // Options that are changed are copied.
        let are_postgres = self.extension.postgres_texts;
        let texts = state.config_options().extensions.get::<exact::FloatTexts>();
        if texts.is_some_and(|texts| texts.are_postgres != are_postgres)
            && let Some(texts) = state.config_mut().options_mut().extensions.get_mut::<exact::FloatTexts>()
        {
            texts.are_postgres = are_postgres;
        }
        state.mark_start_execution();
        state
    }

    /// Plans a query of the engine's own from its text, and returns the state in which the plan runs.
    pub async fn plan_text(&self, scope: &Scope, text: &str) -> Result<(SessionState, LogicalPlan)> {
        self.plan_query(scope, &Parameters::of_text(text)).await
    }

    /// Plans the query of a statement as it was written, and returns the state in which the plan runs.
    pub async fn plan_query(&self, scope: &Scope, parameters: &Parameters) -> Result<(SessionState, LogicalPlan)> {
        let mut state = self.state(scope);
        let bound = Box::pin(binding::plan(self, &state, scope, parameters.written()?, parameters)).await?;
        match bound.depends_on_order {
            true => planning::keep_order_of_rows(&mut state),
            false => Box::pin(self.offer_views(&mut state, scope)).await,
        }
        Ok((state, bound.plan))
    }

    /// Lets a query read materialized views that have the rows of what it reads. Within a view, and in what is computed for one,
    /// tables are read as they are named.
    async fn offer_views(&self, state: &mut SessionState, scope: &Scope) {
        let (snapshot, mut views) = (&scope.snapshot, vec![]);
        let is_query = scope.views.is_empty() && scope.target.is_none() && !scope.is_attached;
        if !is_query || snapshot.materialized_views().is_empty() || !settings::matches_views(state.config_options()) {
            return;
        }
        let read = snapshot.all_read(&scope.uses());
        for (table, object, view) in definitions::materialized_views(snapshot) {
            let tables = table.computed_from.iter().flat_map(|of| of.keys()).filter(|id| read.contains(id)).count();
            if tables < view_matching::TABLES_MIN || !snapshot.has_rows_of_its_query(table) {
                continue;
            }
            // A query that cannot be planned is one that answers nothing.
            let within = scope.clone().with_kept_view(dependencies::name_of_view(snapshot, object));
            let (own, written) = (self.state(&within), Written::new(&view.query));
            let planned = Box::pin(binding::plan(self, &own, &within, &written, &Parameters::default())).await;
            let Ok(bound) = planned else { continue };
            let analyzed = own.analyzer().execute_and_check(bound.plan, own.config_options(), |_, _| {});
            let provider = FreestoneTable::new(snapshot.clone(), &table.name);
            views.extend(provider.zip(analyzed.ok()).and_then(|(table, plan)| View::of(table, snapshot, &plan)));
        }
        if !views.is_empty() {
            state.config_mut().options_mut().extensions.insert(Views::new(views));
        }
    }

    /// Plans a query that is made of a statement, and returns the state in which the plan runs.
    pub async fn plan_made(
        &self,
        scope: &Scope,
        query: &tree::Query,
        parameters: &Parameters,
    ) -> Result<(SessionState, LogicalPlan)> {
        let (mut state, written) = (self.state(scope), parameters.written()?);
        let bound = Box::pin(binding::plan_made(self, &state, scope, (query, written), parameters)).await?;
        if bound.depends_on_order {
            planning::keep_order_of_rows(&mut state);
        }
        Ok((state, bound.plan))
    }

    /// The types that names in the text of a statement stand for.
    ///
    /// # Errors
    /// There is no such type.
    pub fn types(&self, scope: &Scope, written: &[&tree::Type], text: &str) -> Result<Vec<SqlType>> {
        binding::types(self, &self.state(scope), scope, (written, text))
    }

    /// The type of a name, such as the one that a call gives a column of a file.
    ///
    /// # Errors
    /// There is no such type.
    pub fn data_type(&self, scope: &Scope, name: &str) -> Result<DataType> {
        let written = freestone_sql::parse_type(name).map_err(|error| Error::of_syntax(&error, name, 1, 1))?;
        let known = self.types(scope, &[&written], name)?;
        known.first().map(SqlType::data_type).ok_or_else(|| Error::invalid(format!("there is no type {name}")))
    }

    /// The name in the catalog of a table that a statement names.
    pub fn table_name(&self, snapshot: &Arc<Snapshot>, name: &tree::ObjectName) -> Result<String> {
        Ok(binding::stored_name(&self.temp, &Scope::new(snapshot.clone()), name)?)
    }

    /// Plans a query without values, and returns the types of its parameters. `known` are the types that the caller has
    /// declared.
    pub async fn describe_made(
        &self,
        state: &SessionState,
        scope: &Scope,
        query: &tree::Query,
        written: &Written,
        known: &[Option<DataType>],
    ) -> Result<(Vec<DataType>, LogicalPlan)> {
        let numbers = written.numbers();
        let Described { mut types, complete } = places::of_query(query, numbers, known)?;
        let made = (query, written);
        let mut plan = match binding::described_made(self, state, scope, made, &types).await {
            Err(error) if !complete => {
                types = places::with_intervals(query, numbers, &types);
                binding::described_made(self, state, scope, made, &types).await.map_err(|_| error)?
            }
            planned => planned?,
        };
        if !complete {
            types = parameters::inferred(&plan, &types)?;
            plan = binding::described_made(self, state, scope, made, &types).await?;
        }
        let nulls = types.iter().map(ScalarValue::try_new_null).collect::<Result<Vec<_>, _>>()?;
        Ok((types, plan.with_param_values(ParamValues::from(nulls))?))
    }
}

/// The texts that a query returns in its first column, each once, for the columns of a PIVOT.
pub(crate) async fn texts_of(state: &SessionState, plan: &LogicalPlan) -> Result<Vec<String>> {
    let cancellation = context::current().unwrap_or_else(|| Canceller::new(Budget::default()).statement());
    let plan = physical::plan_once(state, plan, &cancellation).await?;
    let rows = execute_stream(plan, state.task_ctx())?;
    let mut rows = CancellableStream::new(rows, cancellation);
    let (mut values, mut seen) = (vec![], HashSet::new());
    // More are refused, whatever they are.
    while let Some(batch) = rows.try_next().await?
        && values.len() <= PIVOT_COLUMNS_MAX
    {
        let Some(column) = batch.columns().first() else { continue };
        let texts = datafusion::arrow::compute::cast(column, &DataType::Utf8)?;
        for text in texts.as_string::<i32>().iter().flatten() {
            if seen.insert(text.to_owned()) {
                values.push(text.to_owned());
            }
        }
    }
    Ok(values)
}

#[derive(Debug)]
struct StatementCatalog {
    schema: Arc<StatementSchema>,
    functions: Arc<HashMap<String, Arc<TableFunction>>>,
}

impl CatalogProviderList for StatementCatalog {
    fn register_catalog(&self, _: String, _: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![CATALOG.to_owned()]
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        let schema = match name {
            CATALOG => self.schema.clone(),
            database => Arc::new(self.schema.attached(database).ok()??),
        };
        Some(Arc::new(StatementCatalog { schema, functions: self.functions.clone() }))
    }
}

impl CatalogProvider for StatementCatalog {
    fn schema_names(&self) -> Vec<String> {
        let extension = &self.schema.planner.extension;
        let created = definitions::schemas(&self.schema.scope.snapshot).map(str::to_owned);
        let own = self.schema.planner.temp.is_used().then(|| PG_TEMP.to_owned());
        let others = extension.schemas.iter().map(|(name, _)| name.clone());
        [SCHEMA.to_owned()].into_iter().chain(created).chain(own).chain(others).collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        match name {
            SCHEMA | MAIN => Some(self.schema.clone() as _),
            PG_TEMP => Some(self.of_name(self.schema.planner.temp.name())),
            created if definitions::has_schema(&self.schema.scope.snapshot, created) => Some(self.of_name(created)),
            INFORMATION_SCHEMA => Some(self.information()),
            other => match self.schema.attached(other) {
                Ok(Some(attached)) => Some(Arc::new(attached)),
                _ => self.schema.planner.extension.schema(other),
            },
        }
    }
}

impl StatementCatalog {
    /// A schema that was created, or that of the session.
    fn of_name(&self, name: &str) -> Arc<dyn SchemaProvider> {
        let StatementSchema { planner, scope, lists_broken_views, .. } = self.schema.as_ref();
        let (planner, scope, name) = (planner.clone(), scope.clone(), Some(name.to_owned()));
        Arc::new(StatementSchema { planner, scope, name, lists_broken_views: *lists_broken_views })
    }

    fn information(&self) -> Arc<dyn SchemaProvider> {
        let StatementSchema { planner, scope, .. } = self.schema.as_ref();
        let (planner, scope) = (planner.clone(), scope.clone());
        let schema = StatementSchema { planner, scope: scope.clone(), name: None, lists_broken_views: true };
        let listed = StatementCatalog { schema: Arc::new(schema), functions: self.functions.clone() };
        let snapshot = scope.snapshot.clone();
        let (state, table_functions) = (self.schema.planner.base.clone(), self.functions.clone());
        let temp = self.schema.planner.temp.clone();
        Arc::new(InformationSchema { catalog: Arc::new(listed), snapshot, state, table_functions, temp })
    }
}

struct StatementSchema {
    planner: Planner,
    scope: Scope,
    /// The name of a schema that was created; `None` for `public`.
    name: Option<String>,
    /// Whether a view whose query fails is shown without columns instead of causing an error, as in lists of all
    /// tables.
    lists_broken_views: bool,
}

impl fmt::Debug for StatementSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatementSchema").field("snapshot", &self.scope.snapshot.sequence()).finish()
    }
}

#[async_trait]
impl SchemaProvider for StatementSchema {
    fn table_names(&self) -> Vec<String> {
        let snapshot = &self.scope.snapshot;
        let tables = snapshot.tables().map(|table| &table.name);
        let all = tables
            .chain(definitions::views(snapshot).map(|(name, _)| name))
            .filter(|name| self.planner.temp.sees(name));
        let own = |name: &String| match (definitions::schema_of(snapshot, name), &self.name) {
            (Some((schema, table)), Some(own)) => (schema == own).then(|| table.to_owned()),
            (None, None) => Some(name.clone()),
            _ => None,
        };
        all.filter_map(own).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        planning::check()?;
        if let Some(schema) = &self.name {
            let name = names::name_in(schema, name);
            self.scope.asked.lock().insert(name.clone());
            return self.table_in(&name).await;
        }
        self.scope.asked.lock().insert(name.to_owned());
        let snapshot = &self.scope.snapshot;
        match self.scope.target.as_ref().filter(|_| name == TARGET) {
            Some(Target::Rows(table)) if definitions::generated_object(snapshot, table).is_some() => {
                let Some(query) = self.with_generated(table, STORED_TARGET, true) else { return Ok(None) };
                return self.view(TARGET, &query).await.map(Some);
            }
            Some(Target::Rows(table)) => {
                let table = FreestoneTable::new(snapshot.clone(), table);
                return Ok(table.map(|table| Arc::new(table.with_row_ids()) as _));
            }
            Some(Target::Columns(schema)) => return Ok(Some(Arc::new(EmptyTable::new(schema.clone())))),
            Some(Target::Written(rows, table)) => {
                return match self.with_generated(table, STORED_TARGET, false) {
                    Some(query) => self.view(TARGET, &query).await.map(Some),
                    None => Ok(Some(rows.provider()?)),
                };
            }
            None => {}
        }
        match self.scope.target.as_ref().filter(|_| name == STORED_TARGET) {
            Some(Target::Rows(table)) => {
                let table = FreestoneTable::new(snapshot.clone(), table);
                return Ok(table.map(|table| Arc::new(table.with_row_ids()) as _));
            }
            Some(Target::Written(rows, _)) => return Ok(Some(rows.provider()?)),
            Some(Target::Columns(_)) | None => {}
        }
        if let Some(stored) = name.strip_prefix(STORED).filter(|stored| self.planner.temp.sees(stored)) {
            return Ok(self.native(stored).map(|table| Arc::new(table) as _));
        }
        if let Some(table) = self.table_in(name).await? {
            return Ok(Some(table));
        }
        if let Some(table) = self.scope.input_table(name) {
            return Ok(Some(table.provider()?));
        }
        if self.scope.is_attached && self.scope.views.is_empty() {
            return Ok(None);
        }
        if let Some(table) = self.planner.rejects.table(name)? {
            return Ok(Some(table));
        }
        if let Some((_, first)) = self.planner.extension.schemas.first()
            && first.table_exist(name)
        {
            return first.table(name).await;
        }
        if !self.planner.access.files {
            // Whether the file exists must not be revealed here.
            if naming::is_path(name) {
                self.planner.access.check_files()?;
            }
            return Ok(None);
        }
        if naming::is_file_name(name) {
            let files = self.scope.files.clone().with_stores(self.planner.stores());
            return Ok(Some(naming::table(self.planner.settings(), &files, name)?));
        }
        Ok(None)
    }

    /// The type is known without planning, so views whose queries fail are listed, too.
    async fn table_type(&self, name: &str) -> Result<Option<TableType>, DataFusionError> {
        let (snapshot, name) = (&self.scope.snapshot, self.full_name(name));
        let view = snapshot.view(&name).map(|_| TableType::View);
        let table = if is_temporary(&name) { TableType::Temporary } else { TableType::Base };
        Ok(snapshot.table(&name).map(|_| table).or(view))
    }

    fn table_exist(&self, name: &str) -> bool {
        let (name, snapshot) = (self.full_name(name), &self.scope.snapshot);
        self.planner.temp.sees(&name) && snapshot.relation_id(&name).is_some()
    }
}

impl StatementSchema {
    /// The first schema of an attached database; `None` if no database has the name.
    fn attached(&self, name: &str) -> Result<Option<StatementSchema>> {
        // Views of an attached database do not see those of the session.
        if self.scope.is_attached {
            return Ok(None);
        }
        let snapshot = self.scope.attached.of(self.planner.attached(), name)?;
        Ok(snapshot.map(|snapshot| StatementSchema {
            planner: self.planner.clone(),
            scope: self.scope.of_attached(snapshot),
            name: None,
            lists_broken_views: false,
        }))
    }

    /// A native table. Those of attached databases are of a snapshot of their own, as earlier versions are.
    fn native(&self, name: &str) -> Option<FreestoneTable> {
        let table = FreestoneTable::new(self.scope.snapshot.clone(), name)?;
        Some(if self.scope.is_attached { table.of_the_past() } else { table })
    }

    /// The full name of a table in the catalog.
    fn full_name(&self, name: &str) -> String {
        match &self.name {
            Some(schema) => names::name_in(schema, name),
            None => name.to_owned(),
        }
    }

    /// A table or view of the database.
    async fn table_in(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        let snapshot = &self.scope.snapshot;
        if !self.planner.temp.sees(name) {
            return Ok(None);
        }
        if let Some(query) = self.with_generated(name, &format!("{STORED}{name}"), false) {
            return self.view(name, &query).await.map(Some);
        }
        if let Some(table) = self.native(name) {
            return Ok(Some(Arc::new(table)));
        }
        let Some(sql) = definitions::view_text(snapshot, name) else { return Ok(None) };
        match self.view(name, sql).await {
            Err(_) if self.lists_broken_views => {
                let nothing = LogicalPlanBuilder::empty(false).build()?;
                Ok(Some(Arc::new(ViewTable::new(nothing, Some(sql.to_owned())))))
            }
            planned => planned.map(Some),
        }
    }

    /// The query for all columns of a table that has generated ones, over a source with the stored ones.
    fn with_generated(&self, table: &str, source: &str, row_ids: bool) -> Option<String> {
        let generated = definitions::generated(&self.scope.snapshot, table);
        if generated.is_empty() {
            return None;
        }
        let columns = &self.scope.snapshot.table(table)?.schema.columns;
        let item = |column: std::result::Result<usize, &GeneratedColumn>| match column {
            Ok(at) => statement::quote(&columns[at].name),
            Err(column) => format!("{} AS {}", definitions::value_of(column), statement::quote(&column.name)),
        };
        let mut items: Vec<String> = definitions::all_columns(columns.len(), generated).map(item).collect();
        if row_ids {
            items.push(statement::quote(ROW_ID_COLUMN));
        }
        Some(format!("SELECT {} FROM {}", items.join(", "), statement::quote(source)))
    }

    /// Plans the query of a view in a scope within it.
    async fn plan_of_view(&self, state: &SessionState, scope: &Scope, sql: &str) -> Result<LogicalPlan> {
        let written = Written::new(sql);
        Ok(Box::pin(binding::plan(&self.planner, state, scope, &written, &Parameters::default())).await?.plan)
    }

    async fn view(&self, name: &str, sql: &str) -> Result<Arc<dyn TableProvider>, DataFusionError> {
        if self.scope.views.iter().any(|view| view == name) {
            return Err(Error::invalid(format!("view {name} refers to itself")).into());
        }
        if self.scope.views.len() >= VIEWS_MAX || self.scope.too_deep.load(Ordering::Relaxed) {
            self.scope.too_deep.store(true, Ordering::Relaxed);
            let message = format!("views read each other over more than {VIEWS_MAX} levels");
            let hint = "make a table of one of them: CREATE TABLE … AS SELECT * FROM …";
            return Err(Error::new(ErrorKind::Resource, message).with_hint(hint).into());
        }
        if let Some(planned) = self.scope.planned_views.lock().get(name) {
            return Ok(planned.clone());
        }
        let in_view = |error: Error| {
            if error.kind() == ErrorKind::Resource {
                return error;
            }
            let kind = if error.kind() == ErrorKind::Syntax { ErrorKind::Invalid } else { error.kind() };
            let what =
                if self.scope.snapshot.table(name).is_some() { "the generated columns of table" } else { "view" };
            let translated = Error::new(kind, format!("in {what} {name}: {error}"));
            match error.hint() {
                Some(hint) => translated.with_hint(hint),
                None => translated,
            }
        };
        let scope = self.scope.clone().with_kept_view(name);
        let state = self.planner.state(&scope);
        let planned = self.plan_of_view(&state, &scope, sql);
        // Views within views are planned within each other.
        let plan = OnStack::new(if scope.views.len() > 2 { LONG_TOKENS } else { 0 }, planned).await;
        let plan = with_analyzed_types(&state, plan.map_err(in_view)?).map_err(in_view)?;
        let plan = shared::referenced(name, plan, Materialized::Open)?;
        let view: Arc<dyn TableProvider> = Arc::new(ViewTable::new(plan, Some(sql.to_owned())));
        self.scope.planned_views.lock().insert(name.to_owned(), view.clone());
        Ok(view)
    }
}
