//! Forms of DuckDB's and PostgreSQL's queries that DataFusion does not plan, rewritten as queries that it plans.
//!
//! [`rewrite`] needs only the text and runs after a statement has been parsed. Rewrites that need the columns of the
//! tables in FROM run later, when names are resolved; [`Sources`] has the known columns of one SELECT's FROM.

mod aliases;
mod calls;
mod fields;
pub(crate) mod groups;
pub(crate) mod joins;
mod json_forms;
mod limits;
pub(crate) mod orders;
pub(crate) mod pivots;
mod samples;
mod stars;

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, Expr, Ident, JoinOperator, OrderBy, Query, Select, SelectItem, SetExpr, TableAlias, TableAliasColumnDef,
    TableFactor, TableWithJoins, VisitMut, VisitorMut,
};

use crate::error::{Error, Result};
use crate::sql::fragments::{factors, quoted, select_query, star};
use crate::sql::names::{call_text, folded};
use crate::sql::spellings::AT;
use crate::sql::{laterals, visitor, with_writes};

pub(crate) use aliases::functions_of;
pub(crate) use calls::{FILTER_AT, TRANSFORM_AT};
pub(crate) use json_forms::JSON_ENTRIES;
pub(crate) use json_forms::conversion as json_conversion;
pub(crate) use pivots::COLUMNS_MAX as PIVOT_COLUMNS_MAX;
pub(crate) use pivots::{PivotValues, asks as is_pivot};
pub(crate) use stars::{Evaluate, Sources, Starred};

/// Functions in FROM with a single column, which has the name of the function.
const ONE_COLUMN: [&str; 3] = ["range", "generate_series", "unnest"];

/// The former name of the column of a table function.
const VALUE: &str = "value";

/// The aliases of functions among the tables of a write, which are columns where they are used as such.
fn functions_of_write(statement: &mut ast::Statement) {
    let mut used = tables_of_write(statement).map_or_else(Vec::new, |tables| aliases_of_functions(tables));
    used.retain(|name| uses_name(statement, name));
    if let Some(tables) = tables_of_write(statement).filter(|_| !used.is_empty()) {
        columns_of_aliases(tables, &used);
    }
}

/// The same among the tables of a query.
fn functions_of_query(query: &mut Query) {
    if let SetExpr::Select(select) = query.body.as_mut() {
        let mut used = aliases_of_functions(&select.from);
        used.retain(|name| uses_name(select, name) || uses_name(&query.order_by, name));
        columns_of_aliases(&mut select.from, &used);
    }
}

/// Rewrites the forms that do not depend on tables.
///
/// # Errors
/// A form cannot be rewritten. The hint says what to write instead.
pub(crate) fn rewrite(sql: &mut impl VisitMut) -> Result<()> {
    struct Forms {
        done: Result<()>,
        /// The tables of the SELECTs around an expression.
        scopes: Vec<fields::Scope>,
    }
    impl Forms {
        fn note(&mut self, done: Result<()>) -> ControlFlow<()> {
            visitor::noted(&mut self.done, done)
        }
    }
    impl VisitorMut for Forms {
        type Break = ();

        fn pre_visit_statement(&mut self, statement: &mut ast::Statement) -> ControlFlow<()> {
            functions_of_write(statement);
            ControlFlow::Continue(())
        }

        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            functions_of_query(query);
            orders::of_set_operation(query);
            let done = samples::of_query(query).and_then(|()| limits::rewrite(query));
            self.note(done)
        }

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            self.scopes.push(fields::Scope::of(select));
            select.projection.iter_mut().for_each(|item| fields::named(item, &self.scopes));
            select.projection.iter_mut().for_each(named_item);
            stars_of_schemas(select);
            named_tables(select);
            groups::without_empty(select);
            for tables in &mut select.from {
                tables.joins.iter_mut().for_each(|join| join_kind(&mut join.join_operator));
            }
            let done = select.from.iter_mut().try_for_each(laterals::rewrite);
            self.note(done)
        }

        fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<()> {
            self.scopes.pop();
            ControlFlow::Continue(())
        }

        fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
            if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
                table_with_joins.joins.iter_mut().for_each(|join| join_kind(&mut join.join_operator));
                let done = laterals::rewrite(table_with_joins);
                if self.note(done).is_break() {
                    return ControlFlow::Break(());
                }
            }
            lower_case(factor);
            name_of_version(factor);
            column_of_function(factor);
            let done = samples::of_factor(factor)
                .and_then(|()| pivots::factor(factor))
                .and_then(|()| json_forms::table(factor));
            self.note(done)
        }

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            fields::of_column(expr, &self.scopes);
            calls::rewrite(expr);
            let done = json_forms::transformed(expr);
            self.note(done)
        }
    }
    let mut forms = Forms { done: Ok(()), scopes: vec![] };
    let _ = visitor::visit_mut(sql, &mut forms);
    forms.done
}

/// A table of an earlier version has the name of the table, unless it is given another.
fn name_of_version(factor: &mut TableFactor) {
    let TableFactor::Table { name, alias: alias @ None, args: Some(call), .. } = factor else { return };
    let is_version = name.0.first().and_then(|part| part.as_ident()).is_some_and(|part| part.value == AT);
    let Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(Expr::Value(table)))) = call.args.first() else {
        return;
    };
    if let ast::Value::SingleQuotedString(table) = &table.value
        && is_version
    {
        let last = table.rsplit('.').next().unwrap_or(table);
        let name = Ident::with_quote('"', last);
        *alias = Some(TableAlias { explicit: true, name, columns: vec![], at: None });
    }
}

/// Rewrites a statement whose kind changes: `SELECT … INTO table`, which is CREATE TABLE AS.
///
/// # Errors
/// Of kind [`crate::ErrorKind::Unsupported`], with the statement to write instead.
pub(crate) fn statement(statement: ast::Statement) -> Result<ast::Statement> {
    use ast::Statement as Sql;
    let refused = |what: &str, hint: &str| Err(Error::unsupported(format!("{what} is not available")).with_hint(hint));
    match statement {
        Sql::Query(query) if is_write(&query.body) => with_writes::statement(*query),
        Sql::Query(mut query) => {
            let SetExpr::Select(select) = query.body.as_mut() else { return Ok(Sql::Query(query)) };
            let Some(into) = select.into.take() else { return Ok(Sql::Query(query)) };
            if into.unlogged {
                return refused("SELECT … INTO an UNLOGGED table", "SELECT … INTO TEMP t ends with the session");
            }
            let text = "CREATE TABLE t AS SELECT 1";
            let parsed = datafusion::sql::sqlparser::parser::Parser::parse_sql(&crate::sql::dialect::SqlDialect, text)?;
            match parsed.into_iter().next() {
                Some(Sql::CreateTable(create)) => {
                    let (name, temporary) = (into.name, into.temporary);
                    Ok(Sql::CreateTable(ast::CreateTable { name, temporary, query: Some(query), ..create }))
                }
                _ => Ok(Sql::Query(query)),
            }
        }
        Sql::Install { .. } | Sql::Load { .. } => {
            refused("INSTALL and LOAD of extensions", "nothing has to be installed")
        }
        Sql::Comment { object_type, if_exists, .. }
            if if_exists
                || !matches!(
                    object_type,
                    ast::CommentObject::Table | ast::CommentObject::View | ast::CommentObject::Column
                ) =>
        {
            refused("a comment on anything but a TABLE, VIEW or COLUMN", "keep the description in a table")
        }
        other => Ok(other),
    }
}

/// Whether a query is a statement that writes, with WITH before it.
pub(crate) fn is_write(body: &SetExpr) -> bool {
    matches!(body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_))
}

/// Converts `name: expression` to `expression AS name`.
fn named_item(item: &mut SelectItem) {
    if let SelectItem::UnnamedExpr(Expr::Named { expr, name }) = item {
        *item = SelectItem::ExprWithAlias { expr: (**expr).clone(), alias: name.clone() };
    }
}

/// Writes `t.*` of a table that FROM names with its schema as `s.t.*`.
fn stars_of_schemas(select: &mut Select) {
    let Select { projection, from, .. } = select;
    let named: Vec<&ast::ObjectName> = from
        .iter()
        .flat_map(factors)
        .filter_map(|factor| match factor {
            TableFactor::Table { name, alias: None, args: None, .. } if name.0.len() > 1 => Some(name),
            _ => None,
        })
        .collect();
    for item in projection {
        let SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), _) = item else {
            continue;
        };
        let [ast::ObjectNamePart::Identifier(table)] = name.0.as_slice() else { continue };
        let is_of = |full: &&&ast::ObjectName| {
            full.0.last().and_then(|part| part.as_ident()).is_some_and(|last| folded(last) == folded(table))
        };
        let mut found = named.iter().filter(is_of);
        if let (Some(full), None) = (found.next(), found.next()) {
            *name = (*full).clone();
        }
    }
}

/// Names the subqueries of a FROM with several tables that have no alias, so that their columns have different names.
fn named_tables(select: &mut Select) {
    let mut unnamed = vec![];
    let count = select.from.iter_mut().map(|tables| unnamed_tables(tables, &mut unnamed)).sum::<usize>();
    for (number, alias) in unnamed.into_iter().enumerate().filter(|_| count > 1) {
        *alias = Some(crate::sql::fragments::alias(quoted(&format!("__table_{number}"))));
    }
}

/// The number of tables, of which it collects the places for names of those that have none.
fn unnamed_tables<'a>(tables: &'a mut TableWithJoins, unnamed: &mut Vec<&'a mut Option<TableAlias>>) -> usize {
    let joined = tables.joins.iter_mut().map(|join| &mut join.relation);
    let factors = std::iter::once(&mut tables.relation).chain(joined);
    factors
        .map(|factor| match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None, .. } => unnamed_tables(table_with_joins, unnamed),
            TableFactor::Derived { alias: alias @ None, .. } => {
                unnamed.push(alias);
                1
            }
            _ => 1,
        })
        .sum()
}

/// Converts SEMI JOIN and ANTI JOIN to their LEFT forms.
fn join_kind(operator: &mut JoinOperator) {
    *operator = match std::mem::replace(operator, JoinOperator::CrossApply) {
        JoinOperator::Semi(constraint) => JoinOperator::LeftSemi(constraint),
        JoinOperator::Anti(constraint) => JoinOperator::LeftAnti(constraint),
        other => other,
    };
}

/// Folds the names of table functions to lower case, which DataFusion does not do.
fn lower_case(factor: &mut TableFactor) {
    let (TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. }) = factor else { return };
    if let Some(ast::ObjectNamePart::Identifier(name)) = name.0.last_mut() {
        name.value = folded(name);
    }
}

/// Names the column of `range(3)` after the function, unless the statement names it.
fn column_of_function(factor: &mut TableFactor) {
    let Some((function, has_ordinality, alias)) = one_column_of(factor) else { return };
    match alias {
        Some(alias) if alias.columns.is_empty() => alias.columns = columns(Ident::new(&function), has_ordinality),
        Some(_) => {}
        None => {
            let (name, columns) = (Ident::new(&function), columns(Ident::new(&function), has_ordinality));
            *alias = Some(TableAlias { explicit: true, name, columns, at: None });
        }
    }
}

/// Names the columns of functions in FROM after their aliases, as in PostgreSQL, where a part of the statement uses such
/// a name: `SELECT g FROM generate_series(1, 3) g`.
fn columns_of_aliases(tables: &mut [TableWithJoins], used: &[String]) {
    for tables in tables {
        let joined = tables.joins.iter_mut().map(|join| &mut join.relation);
        for factor in std::iter::once(&mut tables.relation).chain(joined) {
            if let Some((_, has_ordinality, Some(alias))) = one_column_of(factor)
                && alias.columns.is_empty()
                && used.contains(&folded(&alias.name))
            {
                alias.columns = columns(alias.name.clone(), has_ordinality);
            }
        }
    }
}

/// The aliases of functions in FROM whose columns are not named.
fn aliases_of_functions(tables: &[TableWithJoins]) -> Vec<String> {
    let alias = |factor: &TableFactor| match factor {
        TableFactor::Table { args: Some(_), alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. } => alias.columns.is_empty().then(|| folded(&alias.name)),
        _ => None,
    };
    tables.iter().flat_map(factors).filter_map(alias).collect()
}

/// The tables beside the target of UPDATE or DELETE.
fn tables_of_write(statement: &mut ast::Statement) -> Option<&mut Vec<TableWithJoins>> {
    match statement {
        ast::Statement::Update(update) => match &mut update.from {
            Some(ast::UpdateTableFromKind::BeforeSet(tables) | ast::UpdateTableFromKind::AfterSet(tables)) => {
                Some(tables)
            }
            None => None,
        },
        ast::Statement::Delete(delete) => delete.using.as_mut(),
        _ => None,
    }
}

/// Whether an expression of a part of a statement is a name, alone or twice.
fn uses_name(part: &impl ast::Visit, name: &str) -> bool {
    let is_it = |expr: &Expr| match expr {
        Expr::Identifier(ident) => folded(ident) == name,
        Expr::CompoundIdentifier(parts) => parts.len() == 2 && parts.iter().all(|part| folded(part) == name),
        _ => false,
    };
    let mut look = |expr: &Expr| if is_it(expr) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    visitor::expressions(part, &mut look).is_break()
}

fn columns(name: Ident, has_ordinality: bool) -> Vec<TableAliasColumnDef> {
    let ordinality = has_ordinality.then(|| Ident::new("ordinality"));
    std::iter::once(name).chain(ordinality).map(|name| TableAliasColumnDef { name, data_type: None }).collect()
}

/// A function in FROM with one column, whether it has WITH ORDINALITY, and its alias.
fn one_column_of(factor: &mut TableFactor) -> Option<(String, bool, &mut Option<TableAlias>)> {
    let (function, has_ordinality, alias) = match factor {
        TableFactor::Table { name, alias, args: Some(_), with_ordinality, .. }
        | TableFactor::Function { name, alias, with_ordinality, .. } => {
            (name.0.last().and_then(|part| part.as_ident()).map(folded)?, *with_ordinality, alias)
        }
        TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } if array_exprs.len() == 1 => {
            ("unnest".to_owned(), *with_ordinality, alias)
        }
        _ => return None,
    };
    ONE_COLUMN.contains(&function.as_str()).then_some((function, has_ordinality, alias))
}

/// Whether a SELECT has a form whose rewrite needs the columns of its tables.
pub(crate) fn asks_for_columns(select: &Select) -> bool {
    stars::asks(select) || aliases::asks(select) || joins::asks(select) || pivots::asks(select)
}

/// Rewrites the forms of one SELECT and its ORDER BY that need the columns of its tables.
///
/// # Errors
/// A form needs columns that are not known, or cannot be rewritten.
pub(crate) fn with_columns(
    select: &mut Select,
    mut order: Option<&mut OrderBy>,
    sources: &Sources,
    is_volatile: &dyn Fn(&str) -> bool,
) -> Result<()> {
    stars::expand(select, sources)?;
    aliases::replace(select, sources, is_volatile)?;
    aliases::replace_values(select, sources);
    if let Some(order) = order.as_deref_mut() {
        stars::expand_order(order, sources)?;
        aliases::replace_values(order, sources);
    }
    orders::of_select(select, order, sources)
}

/// The error of a form that needs the unknown columns of a table.
fn unknown_columns(what: &str) -> Error {
    Error::unsupported(format!("{what} needs the columns of all tables in FROM, and those of one are not known"))
        .with_hint("give a table function a list of columns: f(…) AS t (a, b)")
}

/// Whether an expression numbers rows in the order in which they are read: `row_number() OVER ()`.
fn numbers_rows(expr: &Expr) -> bool {
    const FUNCTIONS: [&str; 6] = ["row_number", "lag", "lead", "first_value", "last_value", "nth_value"];
    let Expr::Function(call) = expr else { return false };
    let Some(ast::WindowType::WindowSpec(window)) = &call.over else { return false };
    window.window_name.is_none()
        && window.partition_by.is_empty()
        && window.order_by.is_empty()
        && FUNCTIONS.iter().any(|name| call.name.to_string().eq_ignore_ascii_case(name))
}

/// Whether a query's rows depend on the order in which tables are read: POSITIONAL JOIN pairs rows by it, window functions
/// number them, and a seeded sample should be reproducible.
pub(crate) fn depends_on_order(statement: &ast::Statement) -> bool {
    struct Ordered;
    impl ast::Visitor for Ordered {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            let is_ordered = match factor {
                TableFactor::NestedJoin { table_with_joins, .. } => {
                    table_with_joins.joins.iter().any(joins::is_positional)
                }
                _ => false,
            };
            if is_ordered { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
        fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
            let is_ordered = select.from.iter().flat_map(|tables| &tables.joins).any(joins::is_positional);
            if is_ordered { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let is_ordered = samples::is_seeded(expr) || numbers_rows(expr);
            if is_ordered { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    visitor::visit(statement, &mut Ordered).is_break()
}

/// The calls of table functions in a statement: their texts, and a query that selects from each.
pub(crate) fn calls_in_from(statement: &ast::Statement) -> Vec<(String, Box<Query>)> {
    struct Calls(Vec<(String, Box<Query>)>);
    impl ast::Visitor for Calls {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            let TableFactor::Table { name, args: Some(args), .. } = factor else { return ControlFlow::Continue(()) };
            let text = call_text(name, args);
            let mut call = factor.clone();
            if let TableFactor::Table { alias, .. } = &mut call {
                *alias = None;
            }
            if !self.0.iter().any(|(known, _)| *known == text)
                && let Ok(query) = select_query(vec![star()], call)
            {
                self.0.push((text, query));
            }
            ControlFlow::Continue(())
        }
    }
    let mut calls = Calls(vec![]);
    let _ = visitor::visit(statement, &mut calls);
    calls.0
}
