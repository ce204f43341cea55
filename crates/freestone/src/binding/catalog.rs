//! The tables, types and macros of a statement, as the binder asks for them.
//!
//! Tables are looked up before the query is bound, because views are planned and files are opened for it.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{TableFunctionArgs, TableProvider};
use datafusion::common::{ScalarValue, plan_err};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, TableSource};
use freestone_binder::{Catalog, FILE_NAME, KeyedRecursion, Macro, MacroBody, Named};
use freestone_sql::tree::{self, ExprKind, Literal, ObjectName, OptionItem, StatementKind, Version};
use freestone_store::ObjectKind as Kind;
use parking_lot::Mutex;

use crate::catalog::{Planner, Scope, TARGET};
use crate::definitions;
use crate::error::Error;
use crate::internal_names::{PG_TEMP, ROW_ID_COLUMN, is_hidden, shown};
use crate::planning;
use crate::provider::FreestoneTable;
use crate::provider::files::naming;
use crate::provider::metadata;
use crate::provider::versions::AT;
use crate::recursion::{KeyedQuery, WorkingTable};
use crate::shared::{Materialized, referenced};
use crate::sql::names::{CATALOG, SCHEMA, is_ours, name_in};
use crate::sql::option_lists;
use crate::sql::statement::quote;
use crate::temp_schema::TempSchema;

/// The function that reads files with options.
const READ_FILES: &str = "read_files";

/// A table, no table of the name, or why it cannot be read.
type Found = Result<Option<Arc<dyn TableSource>>, Error>;

/// The tables that a query names.
pub(super) struct Tables {
    found: Vec<(Named, Found)>,
    /// Those that were asked for and not looked up yet: tables in macros, which the query does not show.
    wanted: Mutex<Vec<Named>>,
    scope: Scope,
    temp: TempSchema,
    sees_files: bool,
    /// Whether the statement may read `rowid`, so that tables have the places of their rows as a further column.
    reads_places: bool,
}

impl Tables {
    /// Looks up the tables of a query of this text.
    pub async fn new(
        planner: &Planner,
        state: &SessionState,
        scope: &Scope,
        (named, text): (Vec<Named>, &str),
    ) -> Tables {
        let has =
            |word: &str| text.as_bytes().windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()));
        // `count(t.*)` counts the places that an outer join has found.
        let reads_places = has(freestone_binder::ROW_ID) || has(".*") && has("count");
        if has(FILE_NAME) {
            scope.name_files();
        }
        let mut tables = Tables { reads_places, ..Tables::none(planner, scope) };
        tables.look_up(planner, state, named).await;
        tables
    }

    /// Looks nothing up.
    pub fn none(planner: &Planner, scope: &Scope) -> Tables {
        Tables {
            found: vec![],
            wanted: Mutex::default(),
            scope: scope.clone(),
            temp: planner.temp().clone(),
            sees_files: planner.access().files,
            reads_places: false,
        }
    }

    async fn look_up(&mut self, planner: &Planner, state: &SessionState, named: Vec<Named>) {
        for named in named {
            let found = provider(planner, state, &self.scope, &named).await;
            let with_places = |provider: Arc<dyn TableProvider>| match self.reads_places {
                true => with_places(provider),
                false => provider,
            };
            let source = found.map(|found| found.map(with_places).map(provider_as_source)).map_err(Error::from);
            self.found.push((named, source));
        }
    }

    /// Notes that the query reads a table or view of the database.
    fn note_use(&self, named: &Named) {
        let (Named::Table(name) | Named::Version(name, _)) = named else { return };
        let known = stored_name(&self.temp, &self.scope, name).ok();
        if let Some(id) = known.and_then(|known| self.scope.snapshot.relation_id(&known)) {
            self.scope.note_use(id);
        }
    }

    /// Looks up what was asked for and is not known. Returns whether there was anything.
    pub async fn look_up_wanted(&mut self, planner: &Planner, state: &SessionState) -> bool {
        let wanted = std::mem::take(&mut *self.wanted.lock());
        let has_any = !wanted.is_empty();
        self.look_up(planner, state, wanted).await;
        has_any
    }
}

impl Catalog for Tables {
    fn table(&self, named: &Named) -> Result<Option<Arc<dyn TableSource>>> {
        planning::check()?;
        match self.found.iter().find(|(own, _)| own == named) {
            Some((_, Ok(source))) => {
                self.note_use(named);
                Ok(source.clone())
            }
            Some((_, Err(error))) => Err(error.clone().into()),
            None => {
                self.wanted.lock().push(named.clone());
                plan_err!("the table {} is not looked up yet", named.text())
            }
        }
    }

    fn has_places(&self, named: &Named) -> bool {
        // The target of a statement that writes always has them, as a column of its queries.
        let is_target =
            matches!(named, Named::Table(name) if name.parts.iter().any(|part| part.text.starts_with(TARGET)));
        self.reads_places && !is_target
    }

    fn primary_key(&self, named: &Named) -> Vec<String> {
        let Named::Table(name) = named else { return vec![] };
        let Ok(known) = stored_name(&self.temp, &self.scope, name) else { return vec![] };
        self.scope.snapshot.table(&known).map(|table| table.schema.primary_key.clone()).unwrap_or_default()
    }

    fn described(&self, named: &Named) -> Result<Option<Arc<dyn TableSource>>> {
        let Named::Table(name) = named else { return Ok(None) };
        let known = stored_name(&self.temp, &self.scope, name)?;
        let snapshot = &self.scope.snapshot;
        let has_generated = definitions::generated_object(snapshot, &known).is_some();
        let table = snapshot.table(&known).filter(|_| !has_generated);
        table.map(|table| source_of(metadata::describe_table(table)?)).transpose()
    }

    fn shown_tables(&self, all: bool) -> Result<Arc<dyn TableSource>> {
        let shown = if all { metadata::show_all_tables } else { metadata::show_tables };
        source_of(shown(&self.scope.snapshot, &self.temp)?)
    }

    fn hint_for(&self, name: &str) -> Option<String> {
        match name.split_once('.') {
            Some((_, extension)) if naming::is_format(extension) => {
                Some(format!("put a file's name in quotes: FROM '{name}'"))
            }
            _ if self.sees_files && naming::is_folder(name) => Some(format!("the folder {name} holds no data file")),
            _ => None,
        }
    }

    fn table_names(&self) -> Vec<String> {
        let snapshot = &self.scope.snapshot;
        let tables = snapshot.tables().map(|table| &table.name);
        let views = definitions::views(snapshot).map(|(name, _)| name);
        tables.chain(views).filter(|name| self.temp.sees(name)).map(|name| shown(name)).collect()
    }

    fn is_hidden(&self, column: &str) -> bool {
        is_hidden(column)
    }

    fn type_text(&self, name: &str) -> Option<String> {
        let object = self.scope.snapshot.object(Kind::Type, name)?;
        self.scope.note_use(object.id);
        definitions::text_of_type(object).map(str::to_owned)
    }

    fn has_macro(&self, name: &str) -> bool {
        self.scope.snapshot.object(Kind::Macro, name).is_some()
    }

    fn macro_of(&self, name: &str) -> Option<Macro> {
        let object = self.scope.snapshot.object(Kind::Macro, name)?;
        self.scope.note_use(object.id);
        let text = definitions::create_statement_of_macro(&quote(name), object)?;
        let StatementKind::CreateMacro(created) = freestone_sql::parse_statement(&text).ok()?.kind else { return None };
        let parameters = created.parameters.into_iter().map(|one| (one.name.text, one.default)).collect();
        let body = match created.body {
            tree::MacroBody::Value(value) => MacroBody::Value(*value),
            tree::MacroBody::Table(query) => MacroBody::Rows(query),
        };
        Some(Macro { parameters, body })
    }

    fn shared(&self, name: &str, plan: LogicalPlan, materialized: Option<bool>) -> Result<LogicalPlan> {
        let materialized = match materialized {
            None => Materialized::Open,
            Some(true) => Materialized::Yes,
            Some(false) => Materialized::No,
        };
        referenced(name, plan, materialized)
    }

    fn work_table(&self, name: &str, schema: SchemaRef) -> Result<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(WorkingTable::new(name, schema))))
    }

    fn keyed_recursion(&self, recursion: KeyedRecursion) -> Result<LogicalPlan> {
        KeyedQuery::plan(recursion)
    }
}

/// A table with the places of its rows, if it is one of the database without a column of that name.
fn with_places(provider: Arc<dyn TableProvider>) -> Arc<dyn TableProvider> {
    let is_named = |name: &str| provider.schema().fields().iter().any(|field| field.name().eq_ignore_ascii_case(name));
    match provider.downcast_ref::<FreestoneTable>() {
        Some(table) if !is_named(freestone_binder::ROW_ID) && !is_named(ROW_ID_COLUMN) => {
            Arc::new(table.clone().with_row_ids())
        }
        _ => provider,
    }
}

/// What a query names in FROM.
async fn provider(
    planner: &Planner,
    state: &SessionState,
    scope: &Scope,
    named: &Named,
) -> Result<Option<Arc<dyn TableProvider>>> {
    match named {
        Named::Table(name) => {
            let parts: Vec<&str> = name.parts.iter().map(|part| part.text.as_str()).collect();
            if let Some(own) = temporary(planner.temp(), scope, &parts)? {
                return in_schema(state, PG_TEMP, own).await;
            }
            match parts.as_slice() {
                [only] => match in_schema(state, SCHEMA, only).await? {
                    None if metadata::is_view(only) => of_function(state, only, &[text(metadata::VIEW)]).map(Some),
                    found => Ok(found),
                },
                [schema, table] => in_schema(state, schema, table).await,
                [catalog, schema, table] => in_catalog(state, catalog, schema, table).await,
                _ => Ok(None),
            }
        }
        Named::File(path, options) if options.is_empty() => in_schema(state, SCHEMA, path).await,
        Named::File(path, options) => {
            let mut arguments = vec![text(path)];
            for OptionItem { name, value, .. } in options {
                arguments.push(text(&name.text));
                arguments.push(text(&value.as_ref().map_or_else(|| "true".to_owned(), option_lists::text_of)));
            }
            of_function(state, READ_FILES, &arguments).map(Some)
        }
        Named::Version(name, version) => {
            let (unit, value) = match version {
                Version::Number(value) => ("version", value),
                Version::Time(value) => ("timestamp", value),
            };
            let table = stored_name(planner.temp(), scope, name)?;
            let arguments = [text(&table), text(unit), version_value(planner, state, scope, value)?];
            of_function(state, AT, &arguments).map(Some)
        }
    }
}

/// The temporary table that a name means. Views of the database, and attached databases, see those by a schema only.
fn temporary<'n>(temp: &TempSchema, scope: &Scope, parts: &[&'n str]) -> Result<Option<&'n str>> {
    if !scope.is_of_session(temp) {
        return Ok(None);
    }
    let is_own = |schema: &str| temp.with_names(&scope.snapshot, false, |names| names.own_schema(schema));
    match *parts {
        [only] => {
            let found = temp.find(&scope.snapshot, only);
            Ok(found.filter(|found| !scope.means_permanent(only, found)).map(|_| only))
        }
        [schema, table] => Ok(is_own(schema)?.then_some(table)),
        [CATALOG, schema, table] => Ok(is_own(schema)?.then_some(table)),
        _ => Ok(None),
    }
}

async fn in_schema(state: &SessionState, schema: &str, table: &str) -> Result<Option<Arc<dyn TableProvider>>> {
    in_catalog(state, CATALOG, schema, table).await
}

async fn in_catalog(
    state: &SessionState,
    catalog: &str,
    schema: &str,
    table: &str,
) -> Result<Option<Arc<dyn TableProvider>>> {
    let catalog = state.catalog_list().catalog(catalog);
    match catalog.and_then(|catalog| catalog.schema(schema)) {
        Some(schema) => schema.table(table).await,
        None => Ok(None),
    }
}

/// Rows in memory as a table.
pub(super) fn source_of(rows: RecordBatch) -> Result<Arc<dyn TableSource>> {
    let table = MemTable::try_new(rows.schema(), vec![vec![rows]])?;
    Ok(provider_as_source(Arc::new(table)))
}

/// The table that a function returns.
pub(super) fn of_function(state: &SessionState, name: &str, arguments: &[Expr]) -> Result<Arc<dyn TableProvider>> {
    match state.table_functions().get(name) {
        Some(function) => function.create_table_provider_with_args(TableFunctionArgs::new(arguments, state)),
        None => plan_err!("there is no function {name}"),
    }
}

/// The name by which the catalog keeps a table.
///
/// # Errors
/// It is in the schema of another session.
pub(crate) fn stored_name(temp: &TempSchema, scope: &Scope, name: &ObjectName) -> Result<String> {
    let parts: Vec<&str> = name.parts.iter().map(|part| part.text.as_str()).collect();
    if let Some(own) = temporary(temp, scope, &parts)? {
        return Ok(name_in(temp.name(), own));
    }
    Ok(match parts.as_slice() {
        [schema, table] | [CATALOG, schema, table] if is_ours(schema) => (*table).to_owned(),
        [CATALOG, schema, table] => name_in(schema, table),
        parts => parts.join("."),
    })
}

/// The constant of AT.
fn version_value(planner: &Planner, state: &SessionState, scope: &Scope, written: &tree::Expr) -> Result<Expr> {
    let value = match &written.kind {
        ExprKind::Literal(Literal::Number(digits)) => match digits.parse::<i64>() {
            Ok(number) => ScalarValue::Int64(Some(number)),
            Err(_) => return plan_err!("{digits} is no version"),
        },
        ExprKind::Literal(Literal::Text(time)) => ScalarValue::Utf8(Some(time.clone())),
        _ => return super::constant(planner, state, scope, written),
    };
    Ok(Expr::Literal(value, None))
}

/// A text as a value.
pub(super) fn text(text: &str) -> Expr {
    Expr::Literal(ScalarValue::Utf8(Some(text.to_owned())), None)
}
