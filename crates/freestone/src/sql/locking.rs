//! `SELECT … FOR UPDATE`: a query of one table that locks the rows which it returns.
//!
//! It is executed like a DELETE that returns its rows, but locks them instead. Only the whole statement can be such a
//! query; in other places the clause is refused.

use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::parser::Parser;

use crate::error::{Error, Result};
use crate::sql::dialect::SqlDialect;
use crate::sql::names::identifier;

/// A query with FOR UPDATE.
#[derive(Debug, Clone)]
pub(crate) struct LockingQuery {
    /// The rows and the columns of the result.
    pub rows: ast::Delete,
    pub order: Option<ast::OrderBy>,
    /// Whether a row that another transaction has locked is an error at once.
    pub no_wait: bool,
    /// Whether rows that other transactions have locked are left out.
    pub skips_locked: bool,
    /// How many rows are locked and returned at most.
    pub limit: Option<u64>,
}

/// The query with FOR UPDATE that a statement is; `None` if it is none.
///
/// # Errors
/// The query has another form than one that can lock rows.
pub(crate) fn of(statement: &ast::Statement) -> Result<Option<LockingQuery>> {
    let ast::Statement::Query(query) = statement else { return Ok(None) };
    let [lock, more @ ..] = query.locks.as_slice() else { return Ok(None) };
    let no_wait = matches!(lock.nonblock, Some(ast::NonBlock::Nowait));
    refuse(&[
        (!more.is_empty(), "several locking clauses"),
        (lock.lock_type != ast::LockType::Update, "FOR SHARE"),
        (query.with.is_some(), "FOR UPDATE with WITH"),
        (query.fetch.is_some(), "FOR UPDATE with FETCH"),
    ])?;
    let limit = limit_of(query)?;
    let skips_locked = matches!(lock.nonblock, Some(ast::NonBlock::SkipLocked));
    let ast::SetExpr::Select(select) = query.body.as_ref() else {
        return refuse(&[(true, "FOR UPDATE of a set operation or VALUES")]).map(|()| None);
    };
    let grouped =
        !matches!(&select.group_by, ast::GroupByExpr::Expressions(keys, modes) if keys.is_empty() && modes.is_empty());
    let (from, is_one) = match select.from.as_slice() {
        [from] => (from, from.joins.is_empty() && is_table(&from.relation)),
        _ => return refuse(&[(true, "FOR UPDATE of other queries than of one table")]).map(|()| None),
    };
    refuse(&[
        (!is_one, "FOR UPDATE of other queries than of one table"),
        (select.distinct.is_some(), "FOR UPDATE with DISTINCT"),
        (grouped || select.having.is_some(), "FOR UPDATE with GROUP BY or HAVING"),
        (select.qualify.is_some() || !select.named_window.is_empty(), "FOR UPDATE with QUALIFY or WINDOW"),
        (select.into.is_some(), "FOR UPDATE with INTO"),
    ])?;
    check_of(lock.of.as_ref(), &from.relation)?;
    let mut parser = Parser::new(&SqlDialect).try_with_sql("DELETE FROM t")?;
    let ast::Statement::Delete(mut rows) = parser.parse_statement()? else { return Ok(None) };
    rows.from = ast::FromTable::WithFromKeyword(select.from.clone());
    rows.selection = select.selection.clone();
    rows.returning = Some(select.projection.clone());
    Ok(Some(LockingQuery { rows, order: query.order_by.clone(), no_wait, skips_locked, limit }))
}

/// The number of LIMIT. With it, rows are sorted before they are locked, so by columns of the table.
fn limit_of(query: &ast::Query) -> Result<Option<u64>> {
    const WHAT: &str = "FOR UPDATE with another limit than LIMIT and a number";
    let Some(clause) = &query.limit_clause else { return Ok(None) };
    let ast::LimitClause::LimitOffset { limit: Some(ast::Expr::Value(limit)), offset: None, limit_by } = clause else {
        return refuse(&[(true, WHAT)]).map(|()| None);
    };
    let limit = match &limit.value {
        ast::Value::Number(digits, false) if limit_by.is_empty() => digits.parse::<u64>().ok(),
        _ => None,
    };
    let is_number = |order: &ast::OrderByExpr| matches!(&order.expr, ast::Expr::Value(_));
    let orders = query.order_by.iter().any(|order| match &order.kind {
        ast::OrderByKind::Expressions(all) => all.iter().any(is_number),
        ast::OrderByKind::All(_) => true,
    });
    refuse(&[(limit.is_none(), WHAT), (orders, "FOR UPDATE with LIMIT and ORDER BY of a column's number")])?;
    Ok(limit)
}

fn refuse(clauses: &[(bool, &str)]) -> Result<()> {
    match clauses.iter().find(|(is_there, _)| *is_there) {
        None => Ok(()),
        Some((_, what)) => Err(Error::unsupported(format!("{what} is not available"))
            .with_hint("SELECT … FROM table WHERE … FOR UPDATE locks rows of one table")),
    }
}

fn is_table(relation: &ast::TableFactor) -> bool {
    matches!(relation, ast::TableFactor::Table { args: None, sample: None, .. })
}

/// `OF` names the table, or its alias.
fn check_of(of: Option<&ast::ObjectName>, relation: &ast::TableFactor) -> Result<()> {
    let (Some(of), ast::TableFactor::Table { name, alias, .. }) = (of, relation) else { return Ok(()) };
    let last = |name: &ast::ObjectName| name.0.last().and_then(|part| part.as_ident()).map(identifier);
    let known = alias.as_ref().map_or_else(|| last(name), |alias| Some(identifier(&alias.name)));
    if last(of) == known {
        return Ok(());
    }
    Err(Error::invalid(format!("FOR UPDATE OF {of}: the query has no such table")))
}
