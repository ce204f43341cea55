//! The names of the result's columns.

use freestone_sql::tree::{Expr, ExprKind, SelectItem};

/// The name of an item: its alias, the last part of a column's name, or the text of the expression: one space between words,
/// names and calls in lower case unless quoted, types and keywords in upper case, and the parentheses that were written.
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
        _ => value.bare_text(),
    }
}
