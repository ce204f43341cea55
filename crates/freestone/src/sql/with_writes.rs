//! WITH before INSERT, UPDATE, DELETE and MERGE: the rows of INSERT become a query with this WITH, and in the other
//! statements each name of a WITH query becomes a query with it.
//!
//! A statement that writes within WITH (`WITH gone AS (DELETE … RETURNING *) SELECT …`) is executed before the statement
//! behind the WITH, whose names for it then mean its rows.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, Ident, Query, SetExpr, Statement, TableFactor, VisitMut, VisitorMut, With,
};

use crate::error::{Error, Result};
use crate::sql::fragments::{alias, derived, select_query, star};
use crate::sql::names::folded;
use crate::sql::visitor;

/// The statement behind the WITH of such a query.
///
/// # Errors
/// The statement has parts of a query behind it.
pub(crate) fn statement(query: Query) -> Result<Statement> {
    let Query { with, body, order_by, limit_clause, fetch, .. } = query;
    if order_by.is_some() || limit_clause.is_some() || fetch.is_some() {
        return Err(Error::syntax("ORDER BY and LIMIT do not go with a statement that writes"));
    }
    let written = match *body {
        SetExpr::Insert(written) | SetExpr::Update(written) | SetExpr::Delete(written) | SetExpr::Merge(written) => {
            written
        }
        other => return Err(Error::syntax(format!("syntax error: {other} is not a statement"))),
    };
    match with {
        Some(with) => attached(written, with),
        None => Ok(written),
    }
}

fn attached(written: Statement, with: With) -> Result<Statement> {
    match written {
        Statement::Insert(mut insert) => {
            if let Some(source) = insert.source.take() {
                let mut wrapped = ast::Query { with: Some(with), ..*crate::sql::fragments::bare_query()? };
                *wrapped.body = SetExpr::Query(source);
                insert.source = Some(Box::new(wrapped));
            }
            Ok(Statement::Insert(insert))
        }
        Statement::Update(_) | Statement::Delete(_) | Statement::Merge(_) => {
            let mut replaced = replaced(written.clone(), with)?;
            // The table that is changed is none of WITH.
            match (&mut replaced, written) {
                (Statement::Update(new), Statement::Update(old)) => new.table = old.table,
                (Statement::Delete(new), Statement::Delete(old)) => new.from = old.from,
                (Statement::Merge(new), Statement::Merge(old)) => new.table = old.table,
                _ => {}
            }
            Ok(replaced)
        }
        other => Err(Error::unsupported(format!("WITH before {other} is not available"))),
    }
}

/// The statement with queries instead of the names of WITH.
fn replaced(mut written: Statement, with: With) -> Result<Statement> {
    let names: Vec<String> = with.cte_tables.iter().map(|cte| folded(&cte.alias.name)).collect();
    each_reference(&mut written, &names, |ident, factor| {
        if let TableFactor::Table { alias: given, .. } = factor {
            let mut query = select_query(vec![star()], table(ident.clone()))?;
            query.with = Some(with.clone());
            let given = given.take().unwrap_or_else(|| alias(ident.clone()));
            *factor = derived(query, Some(given));
        }
        Ok(())
    })?;
    Ok(written)
}

/// Changes each table of a statement that is one of the names of WITH.
fn each_reference(
    node: &mut impl VisitMut,
    names: &[String],
    change: impl FnMut(&Ident, &mut TableFactor) -> Result<()>,
) -> Result<()> {
    let mut references = References { names, shadows: vec![], change, outcome: Ok(()) };
    let _ = visitor::visit_mut(node, &mut references);
    references.outcome
}

struct References<'a, F> {
    names: &'a [String],
    /// The names that the enclosing queries define anew.
    shadows: Vec<Vec<String>>,
    change: F,
    outcome: Result<()>,
}

impl<F: FnMut(&Ident, &mut TableFactor) -> Result<()>> VisitorMut for References<'_, F> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let own = query.with.iter().flat_map(|with| &with.cte_tables).map(|cte| folded(&cte.alias.name));
        self.shadows.push(own.collect());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.shadows.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, args: None, .. } = factor else { return ControlFlow::Continue(()) };
        let [part] = name.0.as_slice() else { return ControlFlow::Continue(()) };
        let Some(ident) = part.as_ident().cloned() else { return ControlFlow::Continue(()) };
        let text = folded(&ident);
        if !self.names.contains(&text) || self.shadows.iter().flatten().any(|shadow| *shadow == text) {
            return ControlFlow::Continue(());
        }
        let done = (self.change)(&ident, factor);
        visitor::noted(&mut self.outcome, done)
    }
}

/// A table by its name.
fn table(name: Ident) -> TableFactor {
    TableFactor::Table {
        name: ast::ObjectName::from(vec![name]),
        alias: None,
        args: None,
        with_hints: vec![],
        version: None,
        with_ordinality: false,
        partitions: vec![],
        json_path: None,
        sample: None,
        index_hints: vec![],
    }
}

/// The beginning of the names of rows that statements within WITH return.
pub(crate) const ROWS: &str = "freestone$with:";

/// A statement with others within its WITH.
#[derive(Debug, Clone)]
pub(crate) struct WithWrites {
    /// Those within WITH, in order.
    pub parts: Vec<Part>,
    pub main: Statement,
}

/// A statement within WITH.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    /// The name of its rows in the statements that follow.
    pub rows: String,
    /// The names of its columns, as far as WITH gives them.
    pub columns: Vec<String>,
    /// The queries before it.
    pub before: Vec<ast::Cte>,
    pub statement: Statement,
}

/// The parts of a query that has statements which write within its WITH; `None` for any other.
///
/// # Errors
/// Such a statement is called RECURSIVE, or has a name that another one has.
pub(crate) fn parts(query: &Query) -> Result<Option<WithWrites>> {
    let Some(with) = &query.with else { return Ok(None) };
    if !with.cte_tables.iter().any(|cte| super::extensions::is_write(&cte.query.body)) {
        return Ok(None);
    }
    let With { with_token, recursive, cte_tables } = with.clone();
    let plain = |cte_tables| With { with_token: with_token.clone(), recursive, cte_tables };
    let (mut queries, mut parts, mut names) = (vec![], vec![], vec![]);
    for cte in cte_tables {
        let mut cte = cte;
        rename(&mut cte.query, &names)?;
        if !super::extensions::is_write(&cte.query.body) {
            queries.push(cte);
            continue;
        }
        let name = folded(&cte.alias.name);
        let statement = statement(*cte.query)?;
        let statement = match queries.is_empty() {
            true => statement,
            false => attached(statement, plain(queries.clone()))?,
        };
        let columns = cte.alias.columns.iter().map(|column| folded(&column.name)).collect();
        let before = queries.clone();
        parts.push(Part { rows: format!("{ROWS}{name}"), columns, before, statement });
        names.push(name);
    }
    let mut rest = Query { with: None, ..query.clone() };
    rename(&mut rest, &names)?;
    rest.with = (!queries.is_empty()).then(|| plain(queries));
    let main = match super::extensions::is_write(&rest.body) {
        true => statement(rest)?,
        false => Statement::Query(Box::new(rest)),
    };
    Ok(Some(WithWrites { parts, main }))
}

/// Replaces the names of statements within WITH by those of their rows.
fn rename(query: &mut Query, names: &[String]) -> Result<()> {
    each_reference(query, names, |ident, factor| {
        if let TableFactor::Table { name, alias: given, .. } = factor {
            *name = ast::ObjectName::from(vec![Ident::with_quote('"', format!("{ROWS}{}", folded(ident)))]);
            given.get_or_insert_with(|| alias(ident.clone()));
        }
        Ok(())
    })
}
