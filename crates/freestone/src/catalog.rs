//! Names to tables, for one statement: the tables and views of one snapshot, and files by name.
//!
//! Each statement plans against a session state of its own, whose only schema holds the statement's snapshot. Nothing of
//! it outlives the statement, so no statement can see two snapshots.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::catalog::information_schema::{INFORMATION_SCHEMA, InformationSchemaProvider};
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableFunction, TableProvider};
use datafusion::common::ParamValues;
use datafusion::datasource::ViewTable;
use datafusion::datasource::empty::EmptyTable;
use datafusion::error::DataFusionError;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, Statement as PlanStatement, TableType};
use datafusion::scalar::ScalarValue;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast;
use freestone_store::Snapshot;
use freestone_store::schema::TableSchema;

use crate::access::{Access, Extension};
use crate::error::{Error, ErrorKind, Result};
use crate::inputs::{ArrowTable, Inputs};
use crate::provider::FreestoneTable;
use crate::workload::WorkloadLog;
use crate::{ddl, files, functions, names, statement, using};

pub(crate) const CATALOG: &str = "freestone";
pub(crate) const SCHEMA: &str = "public";

/// The name under which the target of a write is planned, as [`Target`] says.
pub(crate) const TARGET: &str = "freestone$target";

/// Plans statements on the session's settings as they were when the statement began.
#[derive(Clone)]
pub(crate) struct Planner {
    base: Arc<SessionState>,
    access: Access,
    extension: Arc<Extension>,
    log: Arc<WorkloadLog>,
}

/// What the target of a write is planned as.
#[derive(Clone)]
enum Target {
    /// DELETE and UPDATE: a table's rows with their row ids.
    Rows(String),
    /// INSERT: columns that all take NULL, so that the check of NOT NULL is ours, which names the row.
    Columns(SchemaRef),
}

/// What names mean in one statement.
#[derive(Clone)]
pub(crate) struct Scope {
    pub snapshot: Arc<Snapshot>,
    /// What [`TARGET`] stands for.
    target: Option<Target>,
    /// Views being expanded, outermost first.
    views: Vec<String>,
    /// What the statement's caller gave it.
    tables: Arc<HashMap<String, ArrowTable>>,
}

impl Scope {
    pub fn new(snapshot: Arc<Snapshot>) -> Self {
        Scope { snapshot, target: None, views: vec![], tables: Arc::default() }
    }

    /// [`TARGET`] is a table with its row ids.
    pub fn with_target_rows(mut self, table: &str) -> Self {
        self.target = Some(Target::Rows(table.to_owned()));
        self
    }

    /// [`TARGET`] has a table's columns.
    pub fn with_target_columns(mut self, table: &TableSchema) -> Self {
        let fields = table.columns.iter().map(|column| Field::new(&column.name, column.data_type.clone(), true));
        self.target = Some(Target::Columns(Arc::new(Schema::new(fields.collect::<Vec<_>>()))));
        self
    }

    pub fn with_view(mut self, view: &str) -> Self {
        self.views.push(view.to_owned());
        self
    }

    /// The statement may name these tables.
    pub fn with_tables(mut self, tables: &Arc<HashMap<String, ArrowTable>>) -> Self {
        self.tables = tables.clone();
        self
    }

    /// Whether a name is one of the database's, or can only be a file's.
    pub fn knows(&self, name: &str) -> bool {
        self.snapshot.table(name).is_some() || self.snapshot.views().contains_key(name) || files::is_path(name)
    }

    /// The columns of a table of the database, by its name as it is written.
    fn columns(&self, name: &ast::ObjectName) -> Option<Vec<String>> {
        let [part] = name.0.as_slice() else { return None };
        let table = self.snapshot.table(&names::folded(part.as_ident()?))?;
        Some(table.schema.columns.iter().map(|column| column.name.clone()).collect())
    }

    /// A table of the caller's. Views do not see them: they mean the same whoever reads them.
    fn given(&self, name: &str) -> Option<&ArrowTable> {
        self.tables.get(name).filter(|_| self.views.is_empty())
    }
}

/// Values of `$1`, `$2`, …, and the types that PREPARE declared for them; and the tables of the statement's caller.
#[derive(Clone, Default)]
pub(crate) struct Parameters {
    pub types: Vec<ast::DataType>,
    pub values: Vec<ScalarValue>,
    pub tables: Arc<HashMap<String, ArrowTable>>,
}

impl From<Inputs> for Parameters {
    fn from(inputs: Inputs) -> Self {
        Parameters { types: vec![], values: inputs.values, tables: inputs.tables }
    }
}

impl Planner {
    pub fn new(base: SessionState, access: Access, log: Arc<WorkloadLog>) -> Self {
        Planner { base: Arc::new(base), access, extension: Arc::default(), log }
    }

    pub fn with_settings(&self, base: SessionState) -> Self {
        Planner { base: Arc::new(base), ..self.clone() }
    }

    pub fn with_extension(&self, extension: Extension) -> Self {
        Planner { extension: Arc::new(extension), ..self.clone() }
    }

    pub fn settings(&self) -> &SessionState {
        &self.base
    }

    /// A session state for one statement.
    pub fn state(&self, scope: &Scope) -> SessionState {
        let mut state = (*self.base).clone();
        functions::register(&mut state, &scope.snapshot, &self.log);
        let schema = StatementSchema { planner: self.clone(), scope: scope.clone(), lists_broken_views: false };
        let functions = Arc::new(state.table_functions().clone());
        state.register_catalog_list(Arc::new(StatementCatalog { schema: Arc::new(schema), functions }));
        for function in &self.extension.functions {
            // Only functions of a state that takes none are refused.
            let _ = state.register_udf(function.clone());
        }
        state.mark_start_execution();
        state
    }

    /// Plans SQL, parameters filled in.
    pub async fn plan(
        &self,
        state: &SessionState,
        scope: &Scope,
        statement: ast::Statement,
        parameters: &Parameters,
    ) -> Result<LogicalPlan> {
        let mut statement = statement;
        using::rewrite(&mut statement, &|name| scope.columns(name));
        if parameters.values.is_empty() && parameters.types.is_empty() {
            let plan = Box::pin(self.plan_prepared(state, scope, statement)).await?;
            return match plan.get_parameter_names()?.len() {
                0 => Ok(plan),
                expected => Err(parameter_count(expected, 0)),
            };
        }
        let keeps_types = parameters.types.is_empty() && !inserts_values(&statement);
        let (plan, fields) = if keeps_types {
            Box::pin(self.plan_typed(state, scope, statement, &parameters.values)).await?
        } else {
            Box::pin(self.plan_prepare(state, scope, statement, parameters.types.clone())).await?
        };
        let values = if keeps_types { parameters.values.clone() } else { converted(&parameters.values, &fields)? };
        let values = if keeps_types { untyped_converted(values, &plan)? } else { values };
        let expected = plan.get_parameter_names()?.len();
        if values.len() < expected {
            return Err(parameter_count(expected, values.len()));
        }
        Ok(plan.with_param_values(ParamValues::from(values))?)
    }

    async fn plan_prepared(&self, state: &SessionState, scope: &Scope, sql: ast::Statement) -> Result<LogicalPlan> {
        let plan = state.statement_to_plan(DfStatement::Statement(Box::new(sql))).await;
        plan.map_err(|error| explain(error, scope, self.access))
    }

    /// Plans a statement whose parameters have these types, or those that their places suggest where there are none.
    async fn plan_prepare(
        &self,
        state: &SessionState,
        scope: &Scope,
        statement: ast::Statement,
        data_types: Vec<ast::DataType>,
    ) -> Result<(LogicalPlan, Vec<FieldRef>)> {
        let (name, statement) = (ast::Ident::new("statement"), Box::new(statement));
        match self.plan_prepared(state, scope, ast::Statement::Prepare { name, data_types, statement }).await? {
            LogicalPlan::Statement(PlanStatement::Prepare(prepare)) => {
                Ok((Arc::unwrap_or_clone(prepare.input), prepare.fields))
            }
            plan => Ok((plan, vec![])),
        }
    }

    /// Plans a statement whose parameters have the types of their values. Texts and NULLs take those that their places
    /// suggest, as in PostgreSQL, where a literal in quotes has no type of its own.
    async fn plan_typed(
        &self,
        state: &SessionState,
        scope: &Scope,
        statement: ast::Statement,
        values: &[ScalarValue],
    ) -> Result<(LogicalPlan, Vec<FieldRef>)> {
        let Some(types) = values.iter().map(typed).collect::<Option<Vec<_>>>() else {
            return self.plan_prepare(state, scope, statement, vec![]).await;
        };
        if !values.iter().any(is_untyped) {
            return self.plan_prepare(state, scope, statement, types).await;
        }
        let suggested = self.plan_prepare(state, scope, statement.clone(), vec![]).await?;
        if values.iter().all(is_untyped) {
            return Ok(suggested);
        }
        let fields = suggested.0.get_parameter_fields()?;
        let place = |at: usize| fields.get(&format!("${}", at + 1)).and_then(|field| field.as_ref());
        let all = values.iter().zip(types).enumerate().map(|(at, (value, own))| match place(at) {
            Some(field) if is_untyped(value) => ddl::arrow_type(field.data_type()),
            _ => Some(own),
        });
        match all.collect::<Option<Vec<_>>>() {
            Some(types) => self.plan_prepare(state, scope, statement, types).await,
            None => Ok(suggested),
        }
    }

    /// Plans anything that DataFusion's parser has beyond SQL proper, such as `COPY … TO`.
    pub async fn plan_extension(
        &self,
        state: &SessionState,
        scope: &Scope,
        statement: DfStatement,
    ) -> Result<LogicalPlan> {
        state.statement_to_plan(statement).await.map_err(|error| explain(error, scope, self.access))
    }
}

/// A plan beyond SQL proper with its parameters filled in.
pub(crate) fn with_values(plan: LogicalPlan, values: &[ScalarValue]) -> Result<LogicalPlan> {
    let expected = plan.get_parameter_names()?.len();
    match expected {
        0 => Ok(plan),
        _ if values.len() < expected => Err(parameter_count(expected, values.len())),
        _ => Ok(plan.with_param_values(ParamValues::from(values.to_vec()))?),
    }
}

pub(crate) fn parameter_count(expected: usize, given: usize) -> Error {
    Error::invalid(format!("the statement has {expected} parameters and was given {given}"))
}

/// Whether a value takes the type that its place suggests.
fn is_untyped(value: &ScalarValue) -> bool {
    let is_text = matches!(value, ScalarValue::Utf8(_) | ScalarValue::Utf8View(_) | ScalarValue::LargeUtf8(_));
    is_text || value.is_null()
}

fn typed(value: &ScalarValue) -> Option<ast::DataType> {
    ddl::arrow_type(&value.data_type())
}

/// Whether a statement stores values as they are: they take the types of the columns.
fn inserts_values(statement: &ast::Statement) -> bool {
    let ast::Statement::Insert(insert) = statement else { return false };
    insert.source.as_ref().is_some_and(|query| matches!(*query.body, ast::SetExpr::Values(_)))
}

/// Values with texts and NULLs in the types that their places suggest.
fn untyped_converted(values: Vec<ScalarValue>, plan: &LogicalPlan) -> Result<Vec<ScalarValue>> {
    let fields = plan.get_parameter_fields()?;
    let convert = |(at, value): (usize, ScalarValue)| match fields.get(&format!("${}", at + 1)) {
        Some(Some(field)) if is_untyped(&value) && *field.data_type() != DataType::Null => {
            Ok(value.cast_to(field.data_type())?)
        }
        _ => Ok(value),
    };
    values.into_iter().enumerate().map(convert).collect()
}

fn converted(values: &[ScalarValue], fields: &[FieldRef]) -> Result<Vec<ScalarValue>> {
    if fields.len() != values.len() {
        return Ok(values.to_vec());
    }
    // Where the statement does not say what type a parameter has, the value does.
    let convert = |(value, field): (&ScalarValue, &FieldRef)| match field.data_type() {
        DataType::Null => Ok(value.clone()),
        data_type => Ok(value.cast_to(data_type)?),
    };
    values.iter().zip(fields).map(convert).collect()
}

/// A planning error, with the tables and views that a missing one might have meant.
fn explain(error: DataFusionError, scope: &Scope, access: Access) -> Error {
    let Some(name) = Error::missing_table(&error) else { return error.into() };
    let tables = scope.snapshot.tables().map(|table| table.name.as_str());
    let names = tables.chain(scope.snapshot.views().keys().map(String::as_str));
    let missing = Error::not_found("table or view", &name, names);
    match name.split_once('.') {
        Some((_, extension)) if files::is_format(extension) => {
            missing.with_hint(format!("put a file's name in quotes: FROM '{name}'"))
        }
        _ if access.files && files::is_folder(&name) => {
            missing.with_hint(format!("the folder {name} holds no data file"))
        }
        _ => missing,
    }
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
        let StatementCatalog { schema, functions } = self;
        let catalog = || StatementCatalog { schema: schema.clone(), functions: functions.clone() };
        (name == CATALOG).then(|| Arc::new(catalog()) as _)
    }
}

impl CatalogProvider for StatementCatalog {
    fn schema_names(&self) -> Vec<String> {
        let extension = &self.schema.planner.extension;
        [SCHEMA.to_owned()].into_iter().chain(extension.schemas.iter().map(|(name, _)| name.clone())).collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        match name {
            SCHEMA => Some(self.schema.clone() as _),
            INFORMATION_SCHEMA => Some(self.information()),
            other => self.schema.planner.extension.schema(other),
        }
    }
}

impl StatementCatalog {
    fn information(&self) -> Arc<dyn SchemaProvider> {
        let StatementSchema { planner, scope, .. } = self.schema.as_ref();
        let schema = StatementSchema { planner: planner.clone(), scope: scope.clone(), lists_broken_views: true };
        let listed = StatementCatalog { schema: Arc::new(schema), functions: self.functions.clone() };
        let functions = self.functions.as_ref().clone();
        Arc::new(InformationSchemaProvider::new(Arc::new(listed)).with_table_functions(functions))
    }
}

struct StatementSchema {
    planner: Planner,
    scope: Scope,
    /// Whether a broken view is one without columns, and no error: where all tables are listed, one says nothing of others.
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
        let tables = self.scope.snapshot.tables().map(|table| table.name.clone());
        tables.chain(self.scope.snapshot.views().keys().cloned()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        let snapshot = &self.scope.snapshot;
        match self.scope.target.as_ref().filter(|_| name == TARGET) {
            Some(Target::Rows(table)) => {
                let table = FreestoneTable::new(snapshot.clone(), table);
                return Ok(table.map(|table| Arc::new(table.with_row_ids()) as _));
            }
            Some(Target::Columns(schema)) => return Ok(Some(Arc::new(EmptyTable::new(schema.clone())))),
            None => {}
        }
        if let Some(table) = FreestoneTable::new(snapshot.clone(), name) {
            return Ok(Some(Arc::new(table)));
        }
        if let Some(sql) = snapshot.views().get(name) {
            return match self.view(name, sql).await {
                Err(_) if self.lists_broken_views => {
                    let nothing = LogicalPlanBuilder::empty(false).build()?;
                    Ok(Some(Arc::new(ViewTable::new(nothing, Some(sql.to_owned())))))
                }
                planned => planned.map(Some),
            };
        }
        if let Some(given) = self.scope.given(name) {
            return Ok(Some(given.provider()?));
        }
        if let Some((_, first)) = self.planner.extension.schemas.first()
            && first.table_exist(name)
        {
            return first.table(name).await;
        }
        if !self.planner.access.files {
            // Whether there is such a file is nobody's business here.
            if files::is_path(name) {
                self.planner.access.check_files()?;
            }
            return Ok(None);
        }
        if files::is_file_name(name) {
            return Ok(Some(files::table(self.planner.settings(), name).await?));
        }
        Ok(None)
    }

    /// Known without planning: a view that is broken is listed all the same.
    async fn table_type(&self, name: &str) -> Result<Option<TableType>, DataFusionError> {
        let snapshot = &self.scope.snapshot;
        let view = snapshot.views().contains_key(name).then_some(TableType::View);
        Ok(snapshot.table(name).map(|_| TableType::Base).or(view))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.scope.snapshot.table(name).is_some() || self.scope.snapshot.views().contains_key(name)
    }
}

impl StatementSchema {
    async fn view(&self, name: &str, sql: &str) -> Result<Arc<dyn TableProvider>, DataFusionError> {
        if self.scope.views.iter().any(|view| view == name) {
            return Err(Error::invalid(format!("view {name} refers to itself")).into());
        }
        let in_view = |error: Error| {
            let kind = if error.kind() == ErrorKind::Syntax { ErrorKind::Invalid } else { error.kind() };
            let translated = Error::new(kind, format!("in view {name}: {error}"));
            match error.hint() {
                Some(hint) => translated.with_hint(hint),
                None => translated,
            }
        };
        let query = statement::parse_query(sql).map_err(in_view)?;
        let scope = self.scope.clone().with_view(name);
        let state = self.planner.state(&scope);
        let plan = self.planner.plan(&state, &scope, ast::Statement::Query(query), &Parameters::default()).await;
        Ok(Arc::new(ViewTable::new(plan.map_err(in_view)?, Some(sql.to_owned()))))
    }
}
