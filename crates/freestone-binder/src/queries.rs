//! Queries: WITH, a body, an order, and a number of rows.

use std::sync::Arc;

use datafusion_expr::{Expr, LogicalPlan, Sort, SortExpr};
use freestone_sql::Span;
use freestone_sql::tree::{ExprKind, Literal, OrderBy, Query, QueryBody, SortKey};

use crate::binder::Binder;
use crate::error::{At, Result, invalid};
use crate::origins::{self, Known, Origin};
use crate::plans::{self, Rows};
use crate::scopes::{Entry, Relation, Scope};

impl Binder<'_> {
    /// The rows of a query.
    pub fn query(&mut self, query: &Query) -> Result<Rows> {
        self.deeper(query.span, |binder| {
            let in_sight = binder.ctes.len();
            let rows = binder.with_parts(query).and_then(|()| binder.ordered(query));
            binder.ctes.truncate(in_sight);
            rows
        })
    }

    fn ordered(&mut self, query: &Query) -> Result<Rows> {
        match &query.body {
            // The keys of its order may be values that it does not return.
            QueryBody::Select(select) => {
                let rows = self.select(select, query.order_by.as_ref(), query.span)?;
                self.limited(rows, query)
            }
            QueryBody::Nested(inner) if is_plain(query) => self.query(inner),
            body => {
                let is_noted = self.origins.is_some();
                self.origins = (is_noted || query.order_by.is_some()).then(Vec::new);
                let rows = self.body(body, query.span)?;
                let origins = self.origins.take().unwrap_or_default();
                let rows = match &query.order_by {
                    None => rows,
                    Some(order) => self.order_of_columns(rows, order, &origins, query.span)?,
                };
                let rows = self.limited(rows, query);
                self.origins = is_noted.then_some(origins);
                rows
            }
        }
    }

    /// The rows of a body.
    pub fn body(&mut self, body: &QueryBody, span: Span) -> Result<Rows> {
        match body {
            QueryBody::Select(select) => self.select(select, None, span),
            QueryBody::Values(rows) => self.without_origins(|binder| binder.values(rows, span)),
            QueryBody::Table(name) => self.without_origins(|binder| binder.table_of_name(name)),
            QueryBody::Nested(query) => self.query(query),
            QueryBody::Chain { first, rest } => self.set_operations(first, rest, span),
            QueryBody::Pivot(pivot) => self.without_origins(|binder| binder.pivot(pivot, span)),
            QueryBody::Unpivot(unpivot) => self.without_origins(|binder| binder.unpivot(unpivot, span)),
        }
    }

    /// Binds a body whose columns have no origins.
    pub fn without_origins<T>(&mut self, rule: impl FnOnce(&mut Self) -> T) -> T {
        let is_noted = self.origins.take().is_some();
        let bound = rule(self);
        self.origins = is_noted.then(Vec::new);
        bound
    }

    /// Rows in an order by columns of the result. The queries of a set operation may give them other names.
    fn order_of_columns(&mut self, rows: Rows, order: &OrderBy, origins: &[Origin], span: Span) -> Result<Rows> {
        let mut scope = scope_of(&rows);
        for Origin { at, known } in origins {
            let Known::Name(name) = known else { continue };
            if !scope.aliases.iter().any(|(known, _)| known == name) && *at < rows.names.len() {
                scope.aliases.push((name.clone(), Expr::Column(plans::column(rows.plan.schema(), *at))));
            }
        }
        let (keys, _) = self.within(scope, |binder| match order {
            OrderBy::All(order) => binder.sorts_of_values(plans::columns(rows.plan.schema()), *order, span),
            OrderBy::Keys(keys) => {
                let mut sorts = vec![];
                for key in keys.iter().filter(|key| !is_constant(&key.value)) {
                    sorts.extend(binder.keys_of_columns(key, &rows, origins)?);
                }
                Ok(sorts)
            }
        })?;
        let names = rows.names;
        Ok(Rows { plan: sorted(rows.plan, keys).at(span)?, names })
    }

    /// The keys of a key, of which COLUMNS has several.
    fn keys_of_columns(&mut self, key: &SortKey, rows: &Rows, origins: &[Origin]) -> Result<Vec<SortExpr>> {
        match self.copies(&key.value, None)? {
            None => Ok(vec![self.key_of_columns(key, rows, origins)?]),
            Some(copies) => {
                let mut sorts = vec![];
                for copy in copies {
                    let value = self.collated(&key.value, copy.value)?;
                    sorts.push(self.sort(value, key.order));
                }
                Ok(sorts)
            }
        }
    }

    fn key_of_columns(&mut self, key: &SortKey, rows: &Rows, origins: &[Origin]) -> Result<SortExpr> {
        if let Some(at) = position(&key.value)? {
            let width = rows.names.len();
            let Some(at) = at.checked_sub(1).filter(|at| *at < width) else {
                let message = format!("ORDER BY {at} is no column: the query has {width}");
                return Err(invalid(key.value.span, message));
            };
            let column = Expr::Column(plans::column(rows.plan.schema(), at));
            let value = self.own_key(column, key.value.span)?;
            return Ok(self.sort(value, key.order));
        }
        let by_origin =
            || origins::place(&key.value, &rows.names, origins).map(|at| plans::column(rows.plan.schema(), at));
        let value = match self.key_by_text(key, rows).or_else(|| by_origin().map(Expr::Column)) {
            Some(value) => value,
            None => self.expression(&key.value)?,
        };
        let value = self.collated(&key.value, value)?;
        Ok(self.sort(value, key.order))
    }

    /// A key that is written like a column of the result whose name is its text.
    fn key_by_text(&self, key: &SortKey, rows: &Rows) -> Option<Expr> {
        if matches!(key.value.kind, ExprKind::Column(_)) {
            return None;
        }
        let text = crate::headings::last_name(&key.value);
        let at = rows.names.iter().position(|name| *name == text)?;
        Some(Expr::Column(plans::column(rows.plan.schema(), at)))
    }
}

/// Whether a query is nothing but its body.
fn is_plain(query: &Query) -> bool {
    query.order_by.is_none() && query.limit.is_none() && query.offset.is_none() && query.with.is_none()
}

/// The columns of rows as a scope, by the names that users see.
pub(crate) fn scope_of(rows: &Rows) -> Scope {
    let schema = rows.plan.schema();
    let columns: Vec<_> =
        rows.names.iter().enumerate().map(|(at, name)| (name.clone(), plans::column(schema, at))).collect();
    let star = columns
        .iter()
        .map(|(name, column)| Entry { name: name.clone(), value: Expr::Column(column.clone()), relation: Some(0) })
        .collect();
    Scope::new(vec![Relation { columns, ..Relation::default() }], star, schema.clone())
}

/// A position in the result that stands in place of a key.
pub(crate) fn position(key: &freestone_sql::tree::Expr) -> Result<Option<usize>> {
    match &key.kind {
        ExprKind::Literal(Literal::Number(digits)) => match digits.parse::<usize>() {
            Ok(at) => Ok(Some(at)),
            Err(_) => Err(invalid(key.span, format!("{digits} is no position of a column"))),
        },
        _ => Ok(None),
    }
}

/// Whether a key is a constant that is no position: it orders nothing.
pub(crate) fn is_constant(key: &freestone_sql::tree::Expr) -> bool {
    matches!(&key.kind, ExprKind::Literal(literal) if !matches!(literal, Literal::Number(_)))
}

/// Rows in an order.
pub(crate) fn sorted(plan: LogicalPlan, expr: Vec<SortExpr>) -> datafusion_common::Result<LogicalPlan> {
    if expr.is_empty() {
        return Ok(plan);
    }
    Ok(LogicalPlan::Sort(Sort { expr, input: Arc::new(plan), fetch: None }))
}
