//! The names of the result's columns.

use freestone_sql::tree::{Expr, ExprKind, SelectItem};

/// The name of an item: its alias, the last part of a column's name, or the text of the expression.
pub(crate) fn name(item: &SelectItem) -> String {
    match &item.alias {
        Some(alias) => alias.text.clone(),
        None => last_name(&item.value),
    }
}

/// The name of a column or field, or the text of another expression.
pub(crate) fn last_name(value: &Expr) -> String {
    match &value.kind {
        ExprKind::Column(name) => name.parts.last().map(|part| part.text.clone()).unwrap_or_default(),
        // Quotes within a name are left out, because they are not allowed everywhere.
        _ => value.to_string(),
    }
}
