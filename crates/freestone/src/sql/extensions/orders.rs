//! `ORDER BY ALL`: by all columns of the result, from left to right.

use datafusion::sql::sqlparser::ast::{OrderBy, OrderByKind, Select, SelectItem};

use super::stars::{Sources, expand_all};
use crate::error::Result;
use crate::sql::fragments::{ascending, number};

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
