//! `t.s.a`: the field `a` of the column `s` of a table `t` in FROM. DataFusion would take `t` for a schema if FROM also has
//! a table `s`.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Select, SelectItem, TableFactor};

use crate::sql::fragments::{call, factors, text};
use crate::sql::names::folded;
use crate::sql::using::table_name;

/// The tables of one FROM.
#[derive(Debug, Default)]
pub(super) struct Scope {
    names: HashSet<String>,
    /// The schemas before their names.
    schemas: HashSet<String>,
}

impl Scope {
    pub fn of(select: &Select) -> Scope {
        let mut scope = Scope::default();
        for factor in select.from.iter().flat_map(factors) {
            scope.names.extend(table_name(factor).as_ref().map(folded));
            if let TableFactor::Table { name: ObjectName(parts), args: None, .. } = factor {
                let before = &parts[..parts.len().saturating_sub(1)];
                scope.schemas.extend(before.iter().filter_map(|part| part.as_ident()).map(folded));
            }
        }
        scope
    }
}

/// Gives an item of SELECT that is such a field the field's name.
pub(super) fn named(item: &mut SelectItem, scopes: &[Scope]) {
    if let SelectItem::UnnamedExpr(expr) = item
        && let Expr::CompoundIdentifier(parts) = &*expr
        && let Some(alias) = parts.last().cloned()
    {
        let mut value = expr.clone();
        of_column(&mut value, scopes);
        if value != *expr {
            *item = SelectItem::ExprWithAlias { expr: value, alias };
        }
    }
}

/// Writes a name of three or more parts that begins with a table as an access to fields of a column.
pub(super) fn of_column(expr: &mut Expr, scopes: &[Scope]) {
    let Expr::CompoundIdentifier(parts) = expr else { return };
    let [table, column, fields @ ..] = parts.as_slice() else { return };
    // Without a table of the second name, DataFusion reads it so.
    let (table_is, column_is) = (folded(table), folded(column));
    let has = |name: &str| scopes.iter().any(|scope| scope.names.contains(name));
    let is_schema = scopes.iter().any(|scope| scope.schemas.contains(&table_is));
    if fields.is_empty() || is_schema || !has(&table_is) || !has(&column_is) {
        return;
    }
    let mut value = Expr::CompoundIdentifier(vec![table.clone(), column.clone()]);
    for field in fields {
        value = call("get_field", vec![value, text(&folded(field))]);
    }
    *expr = value;
}
