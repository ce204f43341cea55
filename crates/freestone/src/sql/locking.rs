//! `SELECT … FOR UPDATE`: a query of one table that locks the rows which it returns.
//!
//! Only the whole statement can be such a query; in other places the clause is a syntax error.

use freestone_sql::tree::{Expr, ExprKind, GroupBy, Literal, LockRows, OrderBy, Query, QueryBody, Select, TableKind};

use crate::error::{Error, Result};

/// How many rows a query with FOR UPDATE locks and returns at most; `None` for all.
///
/// # Errors
/// The query has another form than one that can lock rows.
pub(crate) fn limit_of(lock: &LockRows) -> Result<Option<u64>> {
    let query = &lock.query;
    refuse(&[(query.with.is_some(), "FOR UPDATE with WITH")])?;
    let limit = number_of_limit(query)?;
    let QueryBody::Select(select) = &query.body else {
        return refused("FOR UPDATE of a set operation or VALUES");
    };
    check_table(lock, select)?;
    refuse(&[
        (select.distinct.is_some(), "FOR UPDATE with DISTINCT"),
        (select.group_by != GroupBy::None || select.having.is_some(), "FOR UPDATE with GROUP BY or HAVING"),
        (select.qualify.is_some() || !select.windows.is_empty(), "FOR UPDATE with QUALIFY or WINDOW"),
        (select.sample.is_some(), "FOR UPDATE of a sample"),
    ])?;
    Ok(limit)
}

/// The number of LIMIT. With it, rows are sorted before they are locked, so by columns of the table.
fn number_of_limit(query: &Query) -> Result<Option<u64>> {
    const WHAT: &str = "FOR UPDATE with another limit than LIMIT and a number";
    refuse(&[(query.offset.is_some(), WHAT)])?;
    let Some(limit) = &query.limit else { return Ok(None) };
    let number = match &limit.count.kind {
        ExprKind::Literal(Literal::Number(digits)) if !limit.percent && !limit.with_ties => digits.parse::<u64>().ok(),
        _ => None,
    };
    let is_number = |value: &Expr| matches!(value.kind, ExprKind::Literal(_));
    let orders = query.order_by.as_ref().is_some_and(|order| match order {
        OrderBy::Keys(keys) => keys.iter().any(|key| is_number(&key.value)),
        OrderBy::All(_) => true,
    });
    refuse(&[(number.is_none(), WHAT), (orders, "FOR UPDATE with LIMIT and ORDER BY of a column's number")])?;
    Ok(number)
}

/// It reads one table, and OF names that, or its alias.
fn check_table(lock: &LockRows, select: &Select) -> Result<()> {
    let [table] = select.from.as_slice() else {
        return refused("FOR UPDATE of other queries than of one table");
    };
    let TableKind::Named { name, version: None } = &table.kind else {
        return refused("FOR UPDATE of other queries than of one table");
    };
    refuse(&[(table.sample.is_some(), "FOR UPDATE of a sample")])?;
    let known = table.alias.as_ref().map(|alias| &alias.name).or(name.parts.last());
    let is_known = |of: &&freestone_sql::tree::Name| known.is_none_or(|known| known.text != of.text);
    match lock.of.iter().find(is_known) {
        None => Ok(()),
        Some(other) => Err(Error::invalid(format!("FOR UPDATE OF {other}: the query has no such table"))),
    }
}

fn refuse(clauses: &[(bool, &str)]) -> Result<()> {
    match clauses.iter().find(|(is_there, _)| *is_there) {
        None => Ok(()),
        Some((_, what)) => refused(what),
    }
}

fn refused<T>(what: &str) -> Result<T> {
    Err(Error::unsupported(format!("{what} is not available"))
        .with_hint("SELECT … FROM table WHERE … FOR UPDATE locks rows of one table"))
}
