//! GROUP BY: the empty group `()`, and columns that are determined by a primary key and therefore need not be in GROUP
//! BY, as in PostgreSQL.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, GroupByExpr, Ident, OrderBy, Query, Select, TableFactor, Value, VisitorMut,
};

use crate::sql::fragments::{factors, quoted};
use crate::sql::names::folded;
use crate::sql::using::table_name;
use crate::sql::visitor;

/// A table in FROM with a primary key.
pub(crate) struct Keyed {
    pub table: Ident,
    pub key: Vec<String>,
    pub columns: Vec<String>,
}

/// Converts `GROUP BY ()`, which makes one group of all rows.
pub(super) fn without_empty(select: &mut Select) {
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else { return };
    let is_empty = |key: &Expr| matches!(key, Expr::Tuple(parts) if parts.is_empty());
    if !keys.iter().any(is_empty) {
        return;
    }
    keys.retain(|key| !is_empty(key));
    if keys.is_empty() && select.having.is_none() {
        // HAVING without GROUP BY also makes one group.
        select.having = Some(Expr::value(Value::Boolean(true)));
    }
}

/// Whether a SELECT is grouped by columns, which may be a primary key.
pub(crate) fn asks(select: &Select) -> bool {
    matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if !keys.is_empty() && keys.iter().all(is_column))
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

/// The names of the tables of a FROM that may have a primary key, with their aliases.
pub(crate) fn tables(select: &Select) -> Vec<(datafusion::sql::sqlparser::ast::ObjectName, Ident)> {
    let table = |factor: &TableFactor| match factor {
        TableFactor::Table { name, args: None, alias, .. }
            if alias.as_ref().is_none_or(|own| own.columns.is_empty()) =>
        {
            Some((name.clone(), table_name(factor)?))
        }
        _ => None,
    };
    select.from.iter().flat_map(factors).filter_map(table).collect()
}

/// Adds columns to GROUP BY that are used outside of aggregates and determined by a primary key in GROUP BY.
pub(crate) fn by_keys(
    select: &mut Select,
    mut order: Option<&mut OrderBy>,
    keyed: &[Keyed],
    is_aggregate: &dyn Fn(&str) -> bool,
) {
    let GroupByExpr::Expressions(keys, _) = &select.group_by else { return };
    let only = |name: &str| keyed.iter().filter(|own| own.columns.iter().any(|column| column == name)).count() == 1;
    let is = |expr: &Expr, table: &Ident, column: &str| match expr {
        Expr::Identifier(name) => folded(name) == column && only(column),
        Expr::CompoundIdentifier(names) => match names.as_slice() {
            [own, name] => folded(own) == folded(table) && folded(name) == column,
            _ => false,
        },
        _ => false,
    };
    let mut added: Vec<Expr> = vec![];
    for Keyed { table, key, columns } in keyed {
        if key.is_empty() || !key.iter().all(|column| keys.iter().any(|expr| is(expr, table, column))) {
            continue;
        }
        let mut used = Used { found: vec![], aggregates: 0, depth: 0, is_aggregate };
        let mut projection = select.projection.clone();
        let _ = visitor::visit_mut(&mut projection, &mut used);
        let _ = visitor::visit_mut(&mut select.having.clone(), &mut used);
        if let Some(order) = order.as_deref_mut() {
            let _ = visitor::visit_mut(&mut order.clone(), &mut used);
        }
        for column in columns {
            let is_used = used.found.iter().any(|expr| is(expr, table, column));
            if is_used && !keys.iter().any(|expr| is(expr, table, column)) {
                added.push(Expr::CompoundIdentifier(vec![table.clone(), quoted(column)]));
            }
        }
    }
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        keys.extend(added);
    }
}

/// Collects the columns outside of aggregates and subqueries.
struct Used<'a> {
    found: Vec<Expr>,
    aggregates: usize,
    depth: usize,
    is_aggregate: &'a dyn Fn(&str) -> bool,
}

impl Used<'_> {
    fn is_aggregate(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Function(Function { name, over: None, .. }) => (self.is_aggregate)(&name.to_string().to_lowercase()),
            _ => false,
        }
    }
}

impl VisitorMut for Used<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.aggregates += usize::from(self.is_aggregate(expr));
        if self.depth == 0 && self.aggregates == 0 && is_column(expr) {
            self.found.push(expr.clone());
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.aggregates -= usize::from(self.is_aggregate(expr));
        ControlFlow::Continue(())
    }
}
