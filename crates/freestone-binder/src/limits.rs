//! LIMIT, OFFSET and FETCH.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion_expr::{Cast, Expr, ExprSchemable, Limit, LogicalPlan, Operator};
use freestone_sql::Span;
use freestone_sql::tree::{self, BinaryOperator, ExprKind, Literal, Query};

use crate::binder::Binder;
use crate::chains::{conjunction, plain};
use crate::error::{At, Result, invalid, unsupported};
use crate::expressions::integer;
use crate::names::named;
use crate::plans::{self, Rows};
use crate::queries::{scope_of, sorted};
use crate::types::{SqlType, is_text};

impl Binder<'_> {
    /// The rows of a query that LIMIT and OFFSET leave. Their order is that of the plan.
    pub fn limited(&mut self, rows: Rows, query: &Query) -> Result<Rows> {
        let span = query.span;
        match &query.limit {
            Some(limit) if limit.with_ties => return self.with_ties(rows, limit, query),
            Some(limit) if limit.percent => return self.percent(rows, &limit.count, query),
            _ => {}
        }
        let (count, offset) = (query.limit.as_ref().map(|limit| &limit.count), query.offset.as_ref());
        if count.is_none() && offset.is_none() {
            return Ok(rows);
        }
        if count.into_iter().chain(offset).any(has_query) {
            return self.asked(rows, count, offset, span);
        }
        let fetch = count.filter(|count| !is_all(count)).map(|count| self.number(count)).transpose()?;
        let skip = offset.map(|offset| self.number(offset)).transpose()?;
        let Rows { plan, names } = rows;
        let (skip, fetch) = (skip.map(Box::new), fetch.map(Box::new));
        Ok(Rows { plan: LogicalPlan::Limit(Limit { skip, fetch, input: Arc::new(plan) }), names })
    }

    /// A number of rows.
    fn number(&mut self, written: &tree::Expr) -> Result<Expr> {
        let scope = crate::scopes::Scope::empty();
        let (value, _) = self.within(scope, |binder| binder.expression(written))?;
        if let Expr::Placeholder(_) = value {
            return Ok(value);
        }
        let schema = datafusion_common::DFSchema::empty();
        let kind = value.get_type(&schema).at(written.span)?;
        if !kind.is_numeric() && !kind.is_null() && !is_text(&kind) {
            return Err(invalid(written.span, format!("a number of rows is a number, not {kind}")));
        }
        Ok(match kind == DataType::Int64 {
            true => value,
            false => Expr::Cast(Cast::new(Box::new(value), DataType::Int64)),
        })
    }

    /// As many rows as subqueries say.
    fn asked(
        &mut self,
        rows: Rows,
        count: Option<&tree::Expr>,
        offset: Option<&tree::Expr>,
        span: Span,
    ) -> Result<Rows> {
        self.numbered(rows, span, |binder, number| {
            let known = |binder: &mut Self, written: &tree::Expr, none: i64| {
                let value = binder.expression(written)?;
                binder.scalar_call("coalesce", vec![value, integer(none)], span)
            };
            let skipped = offset.map_or(Ok(integer(0)), |offset| known(binder, offset, 0))?;
            let behind = plain(Operator::Gt, number.clone(), skipped.clone());
            let last = count.map(|count| known(binder, count, i64::MAX)).transpose()?;
            let within = last.map(|last| plain(Operator::LtEq, plain(Operator::Minus, number, skipped), last));
            Ok(conjunction(std::iter::once(behind).chain(within)).unwrap_or_default())
        })
    }

    /// A share of all rows.
    fn percent(&mut self, rows: Rows, count: &tree::Expr, query: &Query) -> Result<Rows> {
        let span = query.span;
        if let ExprKind::Literal(Literal::Number(digits)) = &count.kind
            && digits.parse::<f64>().is_ok_and(|percent| percent > 100.0)
        {
            return Err(invalid(count.span, format!("LIMIT {digits} % is more than all rows")));
        }
        let all = self.over_all("count", vec![integer(1)], vec![], span)?;
        self.numbered_with(rows, vec![all], span, |binder, columns| {
            let [number, all] = columns else { return Err(unsupported(span, "a share of rows")) };
            let last = binder.share(all, count, span)?;
            let offset = match &query.offset {
                Some(offset) if has_query(offset) => {
                    let value = binder.expression(offset)?;
                    Some(binder.scalar_call("coalesce", vec![value, integer(0)], span)?)
                }
                Some(offset) => Some(binder.expression(offset)?),
                None => None,
            };
            let behind = offset.clone().map(|offset| plain(Operator::Gt, number.clone(), offset));
            let last = match offset {
                Some(offset) => plain(Operator::Plus, last, offset),
                None => last,
            };
            let within = plain(Operator::LtEq, number.clone(), last);
            Ok(conjunction(std::iter::once(within).chain(behind)).unwrap_or_default())
        })
    }

    /// A percentage of a number of rows. That of a subquery is tested when it is known, and NULL stands for all.
    fn share(&mut self, all: &Expr, count: &tree::Expr, span: Span) -> Result<Expr> {
        let mut percent = self.expression(count)?;
        if has_query(count) {
            percent = self.cast_to(percent, SqlType::Plain(DataType::Float64), false, count.span)?;
        }
        let (functions, schema) = (self.world.functions, self.schema());
        let part = functions.binary(BinaryOperator::Multiply, all.clone(), percent.clone(), &schema).at(span)?;
        let hundred = crate::literals::value(&Literal::Number("100.0".to_owned()), false, span)?;
        let part = functions.binary(BinaryOperator::Divide, part, hundred.clone(), &schema).at(span)?;
        let part = self.scalar_call("floor", vec![part], span)?;
        if !has_query(count) {
            return Ok(part);
        }
        let is_share = plain(
            Operator::And,
            plain(Operator::GtEq, percent.clone(), integer(0)),
            plain(Operator::LtEq, percent.clone(), integer(100)),
        );
        let message = crate::expressions::text("LIMIT of a percentage is between 0 and 100");
        let wrong = self.scalar_call("error", vec![message], span)?;
        let all = Expr::Cast(Cast::new(Box::new(all.clone()), DataType::Float64));
        let cases = datafusion_expr::when(Expr::IsNull(Box::new(percent)), all).when(is_share, part).otherwise(wrong);
        cases.at(span)
    }

    /// The first rows, and those that are equal in order to the last of them.
    fn with_ties(&mut self, rows: Rows, limit: &tree::Limit, query: &Query) -> Result<Rows> {
        let span = query.span;
        if limit.percent {
            return Err(invalid(limit.count.span, "WITH TIES stands behind a number of rows, and no percentage"));
        }
        if std::iter::once(&limit.count).chain(&query.offset).any(has_query) {
            let message = "WITH TIES stands behind a number of rows that no subquery computes";
            return Err(invalid(span, message).with_hint("compute rank() in a subquery, and filter by it"));
        }
        let rows = with_keys(rows);
        let LogicalPlan::Sort(sort) = &rows.plan else {
            return Err(invalid(span, "WITH TIES needs an ORDER BY"));
        };
        let keys = sort.expr.clone();
        let (rank, scope) =
            self.within(scope_of(&rows), |binder| binder.over("rank", vec![], vec![], keys.clone(), span))?;
        drop(scope);
        if let Some(offset) = &query.offset {
            return self.numbered_with(rows, vec![rank], span, |binder, columns| {
                let [number, rank] = columns else { return Err(unsupported(span, "WITH TIES and OFFSET")) };
                let (count, offset) = (binder.number(&limit.count)?, binder.number(offset)?);
                let behind = plain(Operator::Gt, number.clone(), offset.clone());
                let within = plain(Operator::LtEq, rank.clone(), plain(Operator::Plus, count, offset));
                Ok(plain(Operator::And, behind, within))
            });
        }
        let Rows { plan, names } = rows;
        let (width, at) = (names.len(), plan.schema().fields().len());
        let plan = datafusion_expr::LogicalPlanBuilder::window_plan(plan, vec![rank]).at(span)?;
        let place = Expr::Column(plans::column(plan.schema(), at));
        let count = self.number(&limit.count)?;
        let plan = plans::filter(plan, plain(Operator::LtEq, place, count)).at(span)?;
        let plan = sorted(plan, keys).at(span)?;
        first_columns(plan, width).at(span).map(|plan| Rows { plan, names })
    }

    /// The rows whose number fits a condition.
    fn numbered(
        &mut self,
        rows: Rows,
        span: Span,
        condition: impl FnOnce(&mut Self, Expr) -> Result<Expr>,
    ) -> Result<Rows> {
        self.numbered_with(rows, vec![], span, |binder, columns| {
            condition(binder, columns.first().cloned().unwrap_or_default())
        })
    }

    /// The same with further functions of all rows. The order of the rows is kept.
    fn numbered_with(
        &mut self,
        rows: Rows,
        others: Vec<Expr>,
        span: Span,
        condition: impl FnOnce(&mut Self, &[Expr]) -> Result<Expr>,
    ) -> Result<Rows> {
        let rows = with_keys(rows);
        let keys = match &rows.plan {
            LogicalPlan::Sort(sort) => sort.expr.clone(),
            _ => vec![],
        };
        let (number, _) =
            self.within(scope_of(&rows), |binder| binder.over("row_number", vec![], vec![], keys.clone(), span))?;
        let Rows { plan, names } = rows;
        let width = names.len();
        let mut calls = vec![number];
        calls.extend(others);
        let named_calls: Vec<Expr> = calls.clone();
        let plan = datafusion_expr::LogicalPlanBuilder::window_plan(plan, calls).at(span)?;
        let column = |call: &Expr| {
            let name = call.schema_name().to_string();
            Expr::Column(datafusion_common::Column::from_name(name))
        };
        let columns: Vec<Expr> = named_calls.iter().map(column).collect();
        let scope = crate::scopes::Scope::of_schema(plan.schema());
        let (condition, _) = self.within(scope, |binder| condition(binder, &columns))?;
        let plan = plans::filter(plan, condition).at(span)?;
        let plan = sorted(plan, keys).at(span)?;
        first_columns(plan, width).at(span).map(|plan| Rows { plan, names })
    }
}

/// Rows with the values of their order, which the query may not return, behind their own.
pub(crate) fn with_keys(rows: Rows) -> Rows {
    match &rows.plan {
        LogicalPlan::Projection(inner) if is_first_columns(inner) => match inner.input.as_ref() {
            LogicalPlan::Sort(_) => Rows { plan: inner.input.as_ref().clone(), names: rows.names },
            _ => rows,
        },
        _ => rows,
    }
}

/// Whether a projection takes nothing but the first columns, as they are.
fn is_first_columns(projection: &datafusion_expr::Projection) -> bool {
    let columns = projection.input.schema().columns();
    projection.expr.iter().zip(&columns).all(|(value, column)| matches!(value, Expr::Column(own) if own == column))
}

/// The first columns of a plan.
fn first_columns(plan: LogicalPlan, width: usize) -> datafusion_common::Result<LogicalPlan> {
    let schema = plan.schema().clone();
    let columns: Vec<Expr> = (0..width).map(|at| Expr::Column(plans::column(&schema, at))).collect();
    let names: Vec<String> = schema.fields().iter().take(width).map(|field| field.name().clone()).collect();
    plans::project(plan, named(columns.into_iter().zip(names.iter().map(String::as_str)).collect()))
}

/// Whether a number of rows is computed by a query.
fn has_query(written: &tree::Expr) -> bool {
    let mut found = false;
    tree::each_part(written, &mut |part| {
        found |= matches!(part.kind, ExprKind::Subquery(_) | ExprKind::Exists(_) | ExprKind::ListOfQuery(_));
    });
    found
}

/// Whether a number of rows is that of all: `LIMIT NULL`.
fn is_all(written: &tree::Expr) -> bool {
    matches!(written.kind, ExprKind::Literal(Literal::Null))
}
