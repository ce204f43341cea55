//! The result columns of a statement: repeated names are changed while the query is planned.
//!
//! Wildcards remain here, because columns of several tables are distinguished by their tables.

use std::collections::HashMap;

use datafusion::sql::sqlparser::ast::{Expr, Ident, SelectItem, SelectItemQualifiedWildcardKind};

use super::folded;
use crate::internal_names::MARK;

/// The name of a column that is not a wildcard, if it is known from the text.
pub(crate) fn output_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        SelectItem::UnnamedExpr(Expr::Nested(inner)) => output_name(&SelectItem::UnnamedExpr((**inner).clone())),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(folded(name)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => names.last().map(folded),
        _ => None,
    }
}

pub(crate) fn apart_items(items: &mut [SelectItem]) {
    let names: Vec<Option<Name>> = items.iter().map(Name::of).collect();
    let wildcards: Vec<Option<String>> = items.iter().filter_map(wildcard).collect();
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    let first_wildcard = names.iter().position(Option::is_none).unwrap_or(names.len());
    for at in 0..items.len() {
        let Some(name) = &names[at] else { continue };
        let of_text = places.entry(name.text()).or_default();
        let before = of_text.iter().copied().find(|other| names[*other].as_ref().is_some_and(|other| other.is(name)));
        of_text.push(at);
        let is_in_wildcard = wildcards.iter().any(|table| is_column_of(&items[at], table.as_deref()));
        if before.is_none() && !is_in_wildcard {
            continue;
        }
        // Positions after a wildcard are not known.
        let same = before.filter(|before| *before < first_wildcard);
        let alias = match same {
            Some(same) => format!("{MARK}{at}{MARK}{same}"),
            None => format!("{}{MARK}{at}", name.text()),
        };
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = &items[at] {
            let (expr, alias) = (expr.clone(), Ident::with_quote('"', alias.replace('"', "")));
            items[at] = SelectItem::ExprWithAlias { expr, alias };
        }
    }
}

/// The table of `t.*`; an inner `None` for `*`, which is all tables.
fn wildcard(item: &SelectItem) -> Option<Option<String>> {
    match item {
        SelectItem::Wildcard(_) => Some(None),
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
            Some(Some(folded(name.0.last()?.as_ident()?)))
        }
        _ => None,
    }
}

/// Whether an item is certainly a column of a table, or of any table if `table` is `None`. An alias is not such a
/// column.
fn is_column_of(item: &SelectItem, table: Option<&str>) -> bool {
    match (item, table) {
        (SelectItem::UnnamedExpr(Expr::Identifier(_) | Expr::CompoundIdentifier(_)), None) => true,
        (SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)), Some(table)) => {
            matches!(names.as_slice(), [.., owner, _] if folded(owner) == table)
        }
        _ => false,
    }
}

/// The name of a SELECT's column.
enum Name {
    Column {
        name: String,
        table: Option<String>,
    },
    /// The expression of the column.
    Other(String),
}

impl Name {
    /// `None` for a wildcard.
    fn of(item: &SelectItem) -> Option<Name> {
        let column = |name: &Ident| Name::Column { name: folded(name), table: None };
        match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(column(alias)),
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(column(name)),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => {
                let [.., table, name] = names.as_slice() else { return Some(Name::Other(item.to_string())) };
                Some(Name::Column { name: folded(name), table: Some(folded(table)) })
            }
            SelectItem::UnnamedExpr(Expr::Nested(inner)) => Name::of(&SelectItem::UnnamedExpr((**inner).clone())),
            SelectItem::UnnamedExpr(expr) => Some(Name::Other(expr.to_string())),
            _ => None,
        }
    }

    fn is(&self, other: &Name) -> bool {
        match (self, other) {
            (Name::Column { name: a, table: of }, Name::Column { name: b, table: of_b }) => {
                a == b && (of == of_b || of.is_none() || of_b.is_none())
            }
            (Name::Other(a), Name::Other(b)) => a == b,
            _ => false,
        }
    }

    fn text(&self) -> &str {
        match self {
            Name::Column { name, .. } | Name::Other(name) => name,
        }
    }
}
