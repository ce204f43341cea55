//! `ORDER BY ALL`: by all columns of the result, from left to right.

use datafusion::sql::sqlparser::ast::{Expr, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr};

use super::stars::{Sources, expand_all};
use crate::error::Result;
use crate::sql::fragments::{ascending, number};
use crate::sql::names::folded;

pub(crate) fn is_by_all(order: Option<&OrderBy>) -> bool {
    matches!(order, Some(OrderBy { kind: OrderByKind::All(_), .. }))
}

/// Replaces ORDER BY ALL by positions, if the number of columns is known.
pub(crate) fn by_all(order: Option<&mut OrderBy>, columns: Option<usize>) {
    let (Some(order), Some(columns)) = (order, columns) else { return };
    let OrderByKind::All(options) = &order.kind else { return };
    let key = |position: usize| {
        let mut key = ascending(number(position));
        key.options = *options;
        key
    };
    order.kind = OrderByKind::Expressions((1..=columns).map(key).collect());
}

/// Replaces the ORDER BY ALL of a SELECT by positions, after expanding wildcards.
pub(super) fn of_select(select: &mut Select, order: Option<&mut OrderBy>, sources: &Sources) -> Result<()> {
    if !is_by_all(order.as_deref()) {
        return Ok(());
    }
    if sources.star.is_some() {
        expand_all(select, sources)?;
    }
    let is_star = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    let known = !select.projection.iter().any(is_star);
    by_all(order, known.then_some(select.projection.len()));
    Ok(())
}

/// Replaces keys of a set operation's ORDER BY that are names or expressions of another SELECT than the first by the
/// positions of their columns, as in DuckDB: `SELECT a FROM t UNION SELECT b FROM u ORDER BY b`.
pub(super) fn of_set_operation(query: &mut Query) {
    let (SetExpr::SetOperation { .. }, Some(OrderBy { kind: OrderByKind::Expressions(keys), .. })) =
        (query.body.as_ref(), query.order_by.as_mut())
    else {
        return;
    };
    let mut selects = vec![];
    leaves(&query.body, &mut selects);
    // The number of columns before a star is not known.
    let is_star = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    let Some((first, others)) = selects.split_first() else { return };
    if first.iter().any(is_star) {
        return;
    }
    for key in keys {
        if matches!(key.expr, Expr::Value(_)) {
            continue;
        }
        let own = first.iter().position(|item| names(item, &key.expr));
        if own.is_some() && matches!(key.expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) {
            continue;
        }
        let places = others.iter().filter_map(|items| {
            let plain = items.iter().take_while(|item| !is_star(item));
            plain.enumerate().find(|(_, item)| names(item, &key.expr)).map(|(at, _)| at)
        });
        let mut places = own.into_iter().chain(places);
        let Some(place) = places.next() else { continue };
        // Of several different columns, it is none.
        if places.all(|other| other == place) {
            key.expr = number(place + 1);
        }
    }
}

/// The items of the SELECTs of a set operation, from left to right.
fn leaves<'a>(body: &'a SetExpr, selects: &mut Vec<&'a [SelectItem]>) {
    match body {
        SetExpr::Select(select) => selects.push(&select.projection),
        SetExpr::SetOperation { left, right, set_quantifier, .. } => {
            use datafusion::sql::sqlparser::ast::SetQuantifier::{AllByName, ByName, DistinctByName};
            // Columns that are matched by name have other positions.
            if !matches!(set_quantifier, AllByName | ByName | DistinctByName) {
                leaves(left, selects);
                leaves(right, selects);
            }
        }
        SetExpr::Query(query) => leaves(&query.body, selects),
        _ => {}
    }
}

/// Whether an item has this name, or is this expression.
fn names(item: &SelectItem, key: &Expr) -> bool {
    match (item, key) {
        (SelectItem::ExprWithAlias { alias, .. }, Expr::Identifier(name)) => folded(alias) == folded(name),
        (SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)), Expr::Identifier(name)) => {
            parts.last().is_some_and(|part| folded(part) == folded(name))
        }
        (SelectItem::UnnamedExpr(Expr::Identifier(own)), Expr::Identifier(name)) => folded(own) == folded(name),
        (SelectItem::UnnamedExpr(expr), key) => expr.to_string() == key.to_string(),
        _ => false,
    }
}
