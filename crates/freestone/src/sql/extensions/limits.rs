//! `FETCH FIRST n ROWS WITH TIES`, `LIMIT n %` and `LIMIT (SELECT …)`: conditions on the rank or number of a row, in QUALIFY.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Fetch, FunctionArguments, Ident, LimitClause, Offset, OrderByExpr, OrderByKind, Query,
    Select, SelectItem, SetExpr, Value,
};

use crate::error::{Error, Result};
use crate::sql::fragments::{
    alias, and, bare_query, binary, call, derived, number, quoted, select_query, star, window,
};
use crate::sql::names::folded;
use crate::sql::spellings::PERCENT;
use crate::sql::visitor::has_query;

/// The rows of a query that remain.
enum Kept {
    /// The first rows, and those that are equal in ORDER BY to the last of them.
    WithTies(Expr),
    /// This share of all rows, in percent.
    Percent(Expr),
    /// As many rows after as many others as subqueries say. NULL is no limit.
    Asked { rows: Option<Box<Expr>>, skipped: Option<Box<Expr>> },
}

pub(super) fn rewrite(query: &mut Query) -> Result<()> {
    let Some(kept) = take(query)? else { return Ok(()) };
    let keys = match &query.order_by {
        Some(order) => match &order.kind {
            OrderByKind::Expressions(keys) => keys.clone(),
            OrderByKind::All(_) => return Err(together_with("ORDER BY ALL")),
        },
        None if matches!(kept, Kept::WithTies(_)) => {
            return Err(Error::invalid("FETCH … WITH TIES needs an ORDER BY, which says what ties are"));
        }
        None => vec![],
    };
    let is_plain = matches!(query.body.as_ref(), SetExpr::Select(select) if select.distinct.is_none());
    if !is_plain {
        within(query, &keys)?;
    }
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    let keys = keys.into_iter().map(|key| of_item(key, select)).collect::<Result<Vec<_>>>()?;
    let condition = condition(kept, keys, query.limit_clause.as_ref())?;
    select.qualify = Some(and(select.qualify.take(), condition));
    Ok(())
}

/// Removes the clause from the query and returns it.
fn take(query: &mut Query) -> Result<Option<Kept>> {
    if let Some(Fetch { with_ties: true, percent: false, quantity }) = &query.fetch {
        let rows = quantity.clone().unwrap_or_else(|| number(1));
        query.fetch = None;
        return Ok(Some(Kept::WithTies(rows)));
    }
    if let Some(Fetch { with_ties: false, percent: true, quantity }) = &query.fetch {
        let percent = quantity.clone().unwrap_or_else(|| number(1));
        query.fetch = None;
        return Ok(Some(Kept::Percent(percent)));
    }
    let Some(LimitClause::LimitOffset { limit, offset, .. }) = &mut query.limit_clause else { return Ok(None) };
    if limit.as_ref().is_some_and(has_query) || offset.as_ref().is_some_and(|offset| has_query(&offset.value)) {
        let skipped = offset.take().map(|offset| Box::new(offset.value));
        return Ok(Some(Kept::Asked { rows: limit.take().map(Box::new), skipped }));
    }
    let Some(Expr::Function(function)) = limit.as_ref() else { return Ok(None) };
    if function.name.0.last().and_then(|part| part.as_ident()).is_none_or(|name| name.value != PERCENT) {
        return Ok(None);
    }
    let FunctionArguments::List(list) = &function.args else { return Ok(None) };
    let percent = list.args.first().map(ToString::to_string).unwrap_or_default();
    *limit = None;
    if percent.parse::<f64>().is_ok_and(|percent| percent > 100.0) {
        return Err(Error::invalid(format!("LIMIT {percent} % is more than all rows")));
    }
    Ok(Some(Kept::Percent(number(percent))))
}

fn together_with(clause: &str) -> Error {
    Error::unsupported(format!(
        "WITH TIES or a LIMIT in percent or by a subquery together with {clause} is not available"
    ))
    .with_hint("put the query in a subquery, and order its rows by names")
}

/// Makes the body a subquery, so that rows are counted after DISTINCT and set operations.
fn within(query: &mut Query, keys: &[OrderByExpr]) -> Result<()> {
    let by_name = |key: &OrderByExpr| matches!(key.expr, Expr::Identifier(_));
    if !keys.iter().all(by_name) {
        return Err(together_with("DISTINCT, UNION, INTERSECT or EXCEPT, unless ORDER BY has names of columns,"));
    }
    let mut inner = bare_query()?;
    std::mem::swap(&mut inner.body, &mut query.body);
    let outer = select_query(vec![star()], derived(inner, Some(alias(quoted("__rows")))))?;
    query.body = outer.body;
    Ok(())
}

/// A key of ORDER BY as an expression over FROM: aliases and positions are replaced by their expressions.
fn of_item(mut key: OrderByExpr, select: &Select) -> Result<OrderByExpr> {
    let expr_of = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr.clone()),
        _ => None,
    };
    match &key.expr {
        Expr::Identifier(name) => {
            let is_named =
                |item: &&SelectItem| matches!(item, SelectItem::ExprWithAlias { alias, .. } if same(alias, name));
            if let Some(expr) = select.projection.iter().find(is_named).and_then(expr_of) {
                key.expr = expr;
            }
        }
        Expr::Value(value) if matches!(value.value, Value::Number(..)) => {
            let position: Option<usize> = value.value.to_string().parse().ok();
            let at = position.and_then(|position| position.checked_sub(1));
            let known = at.filter(|at| select.projection.iter().take(*at).all(|item| expr_of(item).is_some()));
            let expr = known.and_then(|at| select.projection.get(at)).and_then(expr_of);
            key.expr = expr.ok_or_else(|| together_with("a position in ORDER BY"))?;
        }
        _ => {}
    }
    Ok(key)
}

fn same(a: &Ident, b: &Ident) -> bool {
    folded(a) == folded(b)
}

/// The condition in QUALIFY. Rows that OFFSET skips are included in the count.
fn condition(kept: Kept, keys: Vec<OrderByExpr>, limit: Option<&LimitClause>) -> Result<Expr> {
    let offset = match limit {
        Some(LimitClause::LimitOffset { offset: Some(Offset { value, .. }), .. }) => Some(value.clone()),
        _ => None,
    };
    let (place, rows) = match kept {
        Kept::Asked { rows, skipped } => {
            let place = window("row_number", vec![], vec![], keys);
            return Ok(between(place, rows.map(|rows| *rows), skipped.map(|skipped| *skipped)));
        }
        Kept::WithTies(rows) => (window("rank", vec![], vec![], keys), rows),
        Kept::Percent(percent) => {
            let all = window("count", vec![number(1)], vec![], vec![]);
            let part = binary(binary(all, BinaryOperator::Multiply, percent), BinaryOperator::Divide, number("100.0"));
            (window("row_number", vec![], vec![], keys), call("floor", vec![part]))
        }
    };
    let last = match offset {
        None => rows,
        Some(offset) => binary(rows, BinaryOperator::Plus, Expr::Nested(Box::new(offset))),
    };
    Ok(binary(place, BinaryOperator::LtEq, last))
}

/// Whether the number of a row is among those that are wanted.
fn between(place: Expr, rows: Option<Expr>, skipped: Option<Expr>) -> Expr {
    let known = |rows: Expr, none: i64| call("coalesce", vec![rows, number(none)]);
    let skipped = skipped.map_or_else(|| number(0), |skipped| known(skipped, 0));
    let is_after = binary(place.clone(), BinaryOperator::Gt, skipped.clone());
    match rows {
        None => is_after,
        Some(rows) => {
            let after_skipped = binary(place, BinaryOperator::Minus, skipped);
            and(Some(is_after), binary(after_skipped, BinaryOperator::LtEq, known(rows, i64::MAX)))
        }
    }
}
