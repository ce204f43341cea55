//! `SELECT … FOR UPDATE`: a query of one table that locks the rows which it returns.
//!
//! Only the whole statement can be such a query; in other places the clause is refused.

use datafusion::sql::sqlparser::ast;

use crate::error::{Error, Result};
use crate::sql::names::identifier;

/// A query with FOR UPDATE.
#[derive(Debug, Clone)]
pub(crate) struct LockingQuery {
    pub table: ast::ObjectName,
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
    refuse(&[
        (!more.is_empty(), "several locking clauses"),
        (lock.lock_type != ast::LockType::Update, "FOR SHARE"),
        (query.with.is_some(), "FOR UPDATE with WITH"),
        (query.fetch.is_some(), "FOR UPDATE with FETCH"),
    ])?;
    let limit = limit_of(query)?;
    let ast::SetExpr::Select(select) = query.body.as_ref() else {
        return refuse(&[(true, "FOR UPDATE of a set operation or VALUES")]).map(|()| None);
    };
    let grouped =
        !matches!(&select.group_by, ast::GroupByExpr::Expressions(keys, modes) if keys.is_empty() && modes.is_empty());
    let of_table = match select.from.as_slice() {
        [ast::TableWithJoins { relation, joins }] if joins.is_empty() => Some(relation),
        _ => None,
    };
    let Some(ast::TableFactor::Table { name, args: None, sample: None, alias, .. }) = of_table else {
        return refuse(&[(true, "FOR UPDATE of other queries than of one table")]).map(|()| None);
    };
    refuse(&[
        (select.distinct.is_some(), "FOR UPDATE with DISTINCT"),
        (grouped || select.having.is_some(), "FOR UPDATE with GROUP BY or HAVING"),
        (select.qualify.is_some() || !select.named_window.is_empty(), "FOR UPDATE with QUALIFY or WINDOW"),
        (select.into.is_some(), "FOR UPDATE with INTO"),
    ])?;
    check_of(lock.of.as_ref(), name, alias.as_ref())?;
    Ok(Some(LockingQuery { table: name.clone(), limit }))
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

/// `OF` names the table, or its alias.
fn check_of(of: Option<&ast::ObjectName>, name: &ast::ObjectName, alias: Option<&ast::TableAlias>) -> Result<()> {
    let Some(of) = of else { return Ok(()) };
    let last = |name: &ast::ObjectName| name.0.last().and_then(|part| part.as_ident()).map(identifier);
    let known = alias.map_or_else(|| last(name), |alias| Some(identifier(&alias.name)));
    if last(of) == known {
        return Ok(());
    }
    Err(Error::invalid(format!("FOR UPDATE OF {of}: the query has no such table")))
}
