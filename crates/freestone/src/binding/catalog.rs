//! The tables, types and macros of a statement, as the binder asks for them.
//!
//! Tables are looked up before the query is bound, because views are planned and files are opened for it.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{TableFunctionArgs, TableProvider};
use datafusion::common::{ScalarValue, not_impl_err};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, TableSource};
use freestone_binder::{Catalog, Macro, MacroBody, Named};
use freestone_sql::tree::{self, ExprKind, Literal, ObjectName, OptionItem, StatementKind, Version};

use crate::catalog::{Planner, Scope};
use crate::definitions;
use crate::error::Error;
use crate::internal_names::PG_TEMP;
use crate::shared::{Materialized, referenced};
use crate::sql::names::{CATALOG, SCHEMA};
use crate::sql::spellings::AT;

/// The function that reads files with options.
const READ_FILES: &str = "read_files";

/// A table, no table of the name, or why it cannot be read.
type Found = Result<Option<Arc<dyn TableSource>>, Error>;

/// The tables that a query names.
pub(super) struct Tables {
    found: Vec<(Named, Found)>,
    scope: Scope,
    names: Vec<String>,
}

impl Tables {
    /// Looks the tables up.
    pub async fn new(planner: &Planner, state: &SessionState, scope: &Scope, named: &[Named]) -> Tables {
        let mut found = Vec::with_capacity(named.len());
        for named in named {
            let provider = provider(planner, state, scope, named).await;
            let source = provider.map(|provider| provider.map(provider_as_source)).map_err(Error::from);
            found.push((named.clone(), source));
        }
        let snapshot = &scope.snapshot;
        let tables = snapshot.tables().map(|table| table.name.clone());
        let views = definitions::views(snapshot).map(|(name, _)| name.clone());
        let names = tables.chain(views).filter(|name| planner.temp().sees(name)).collect();
        Tables { found, scope: scope.clone(), names }
    }
}

impl Catalog for Tables {
    fn table(&self, named: &Named) -> Result<Option<Arc<dyn TableSource>>> {
        match self.found.iter().find(|(own, _)| own == named) {
            Some((_, Ok(source))) => Ok(source.clone()),
            Some((_, Err(error))) => Err(error.clone().into()),
            // In a macro, which the query does not show.
            None => not_impl_err!("the table {} of a macro is not looked up", named.text()),
        }
    }

    fn table_names(&self) -> Vec<String> {
        self.names.clone()
    }

    fn type_text(&self, name: &str) -> Option<String> {
        definitions::type_text(&self.scope.snapshot, name)
    }

    fn macro_of(&self, name: &str) -> Option<Macro> {
        let text = definitions::macro_text(&self.scope.snapshot, name)?;
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
        Ok(provider_as_source(Arc::new(CteWorkTable::new(name, schema))))
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
            let (schema, table) = match parts.as_slice() {
                [only] if planner.temp().find(&scope.snapshot, only).is_some() => (PG_TEMP, *only),
                [only] => (SCHEMA, *only),
                [schema, table] => (*schema, *table),
                [catalog, schema, table] if *catalog == CATALOG => (*schema, *table),
                _ => return Ok(None),
            };
            in_schema(state, schema, table).await
        }
        Named::File(path, options) if options.is_empty() => in_schema(state, SCHEMA, path).await,
        Named::File(path, options) => {
            let mut arguments = vec![text(path)];
            for OptionItem { name, value, .. } in options {
                arguments.push(text(&name.text));
                arguments.push(text(&value.as_ref().map_or_else(|| "true".to_owned(), option_text)));
            }
            of_function(state, READ_FILES, &arguments).map(Some)
        }
        Named::Version(name, version) => {
            let (unit, value) = match version {
                Version::Number(value) => ("version", value),
                Version::Time(value) => ("timestamp", value),
            };
            let arguments = [text(&table_of(name)), text(unit), version_value(value)?];
            of_function(state, AT, &arguments).map(Some)
        }
    }
}

async fn in_schema(state: &SessionState, schema: &str, table: &str) -> Result<Option<Arc<dyn TableProvider>>> {
    let catalog = state.catalog_list().catalog(CATALOG);
    match catalog.and_then(|catalog| catalog.schema(schema)) {
        Some(schema) => schema.table(table).await,
        None => Ok(None),
    }
}

/// The table that a function returns.
pub(super) fn of_function(state: &SessionState, name: &str, arguments: &[Expr]) -> Result<Arc<dyn TableProvider>> {
    match state.table_functions().get(name) {
        Some(function) => function.create_table_provider_with_args(TableFunctionArgs::new(arguments, state)),
        None => not_impl_err!("there is no function {name}"),
    }
}

/// The name of a table without the schema that every database has.
fn table_of(name: &ObjectName) -> String {
    let parts: Vec<&str> = name.parts.iter().map(|part| part.text.as_str()).collect();
    match parts.as_slice() {
        [schema, table] if crate::sql::names::is_ours(schema) => (*table).to_owned(),
        parts => parts.join("."),
    }
}

/// The constant of AT.
fn version_value(written: &tree::Expr) -> Result<Expr> {
    let value = match &written.kind {
        ExprKind::Literal(Literal::Number(digits)) => match digits.parse::<i64>() {
            Ok(number) => ScalarValue::Int64(Some(number)),
            Err(_) => return not_impl_err!("the version {digits}"),
        },
        ExprKind::Literal(Literal::Text(time)) => ScalarValue::Utf8(Some(time.clone())),
        _ => return not_impl_err!("a version that is computed"),
    };
    Ok(Expr::Literal(value, None))
}

/// The text of an option's value: a text without its quotes.
pub(super) fn option_text(written: &tree::Expr) -> String {
    match &written.kind {
        ExprKind::Literal(Literal::Text(text)) => text.clone(),
        ExprKind::Column(name) => name.parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join("."),
        _ => written.to_string(),
    }
}

/// A text as a value.
pub(super) fn text(text: &str) -> Expr {
    Expr::Literal(ScalarValue::Utf8(Some(text.to_owned())), None)
}
