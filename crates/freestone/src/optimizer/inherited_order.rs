//! The order of subqueries in FROM. Aggregates whose result depends on the order of their rows take it from the subquery
//! that they read: `SELECT string_agg(name, ', ') FROM (SELECT name FROM people ORDER BY name)`. A query over one subquery
//! is in its order, whatever it computes from the rows: the sort moves to the end of the query, because operators
//! between that compute on several threads would mix the rows.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Aggregate, Expr, Filter, LogicalPlan, LogicalPlanBuilder, Projection, SortExpr, SubqueryAlias,
};
use datafusion::optimizer::AnalyzerRule;

/// `any_value` may return any value.
const IN_ORDER: [&str; 5] = ["array_agg", "first_value", "last_value", "nth_value", "string_agg"];

/// The name of a column that carries a sort key which its query does not return.
const KEY: &str = "__order_";

/// The rule. It runs before aggregates with an ORDER BY are rewritten.
#[derive(Debug)]
pub(super) struct InheritedOrder;

impl AnalyzerRule for InheritedOrder {
    fn name(&self) -> &str {
        "inherited_order"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(in_plan)?.data)
    }
}

/// The rule that sorts a query at its end if it reads one subquery that has an order. It runs before aggregates with an
/// ORDER BY are rewritten.
#[derive(Debug)]
pub(super) struct OrderOfSubquery;

impl AnalyzerRule for OrderOfSubquery {
    fn name(&self) -> &str {
        "order_of_subquery"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        match plan {
            LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => Ok(plan.map_children(sorted_at_end)?.data),
            plan => Ok(sorted_at_end(plan)?.data),
        }
    }
}

fn sorted_at_end(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !computes_above_sort(&plan) {
        return Ok(Transformed::no(plan));
    }
    let Some((input, order)) = ordered(&plan, false)? else { return Ok(Transformed::no(plan)) };
    let columns = plan.schema().fields().len();
    let column = |at: usize| Expr::Column(Column::from(input.schema().qualified_field(at)));
    let columns: Vec<Expr> = (0..columns).map(column).collect();
    Ok(Transformed::yes(LogicalPlanBuilder::from(input).sort(order)?.project(columns)?.build()?))
}

/// Whether a sort is below an operator that computes on several threads, with nothing between that changes the order.
fn computes_above_sort(plan: &LogicalPlan) -> bool {
    let is_plain = |e: &Expr| matches!(e.clone().unalias(), Expr::Column(_));
    match plan {
        LogicalPlan::Projection(projection) if projection.expr.iter().all(is_plain) => {
            computes_above_sort(&projection.input)
        }
        LogicalPlan::Limit(limit) => computes_above_sort(&limit.input),
        LogicalPlan::SubqueryAlias(alias) => computes_above_sort(&alias.input),
        LogicalPlan::Projection(projection) => is_over_sort(&projection.input),
        LogicalPlan::Filter(filter) => is_over_sort(&filter.input),
        _ => false,
    }
}

/// Whether a plan is a sort, or only operators that keep the order are above one.
fn is_over_sort(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_over_sort(&projection.input),
        LogicalPlan::Filter(filter) => is_over_sort(&filter.input),
        LogicalPlan::Limit(limit) => is_over_sort(&limit.input),
        LogicalPlan::SubqueryAlias(alias) => is_over_sort(&alias.input),
        other => matches!(other, LogicalPlan::Sort(_)),
    }
}

fn in_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = plan else { return Ok(Transformed::no(plan)) };
    if !aggregate.aggr_expr.iter().any(|call| {
        call.exists(|e| Ok(matches!(e, Expr::AggregateFunction(call) if is_unordered(call)))).unwrap_or(false)
    }) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let Some((input, order)) = ordered(&aggregate.input, false)? else {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    };
    let names = NamePreserver::new_for_projection();
    let with_order = |call: &Expr| {
        let name = names.save(call);
        let changed = call.clone().transform_up(|e| match e {
            Expr::AggregateFunction(mut call) if is_unordered(&call) => {
                call.params.order_by = order.clone();
                Ok(Transformed::yes(Expr::AggregateFunction(call)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(name.restore(changed.data))
    };
    let calls = aggregate.aggr_expr.iter().map(with_order).collect::<Result<Vec<_>>>()?;
    let groups = aggregate.group_expr.clone();
    Ok(Transformed::yes(LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(input), groups, calls)?)))
}

/// Whether an aggregate takes its rows in the order in which they come.
fn is_unordered(call: &AggregateFunction) -> bool {
    call.params.order_by.is_empty() && !call.params.distinct && IN_ORDER.contains(&call.func.name())
}

/// The plan without its sort, and its order in terms of its columns, if it has one. Keys that it does not return become
/// columns. A sort stays where it is if a limit depends on it.
fn ordered(plan: &LogicalPlan, is_limited: bool) -> Result<Option<(LogicalPlan, Vec<SortExpr>)>> {
    match plan {
        LogicalPlan::Sort(sort) => {
            let is_needed = is_limited || sort.fetch.is_some();
            let input = if is_needed { plan.clone() } else { sort.input.as_ref().clone() };
            Ok(Some((input, sort.expr.clone())))
        }
        LogicalPlan::Limit(limit) => {
            let Some((input, order)) = ordered(&limit.input, true)? else { return Ok(None) };
            let mut limit = limit.clone();
            limit.input = Arc::new(input);
            Ok(Some((LogicalPlan::Limit(limit), order)))
        }
        LogicalPlan::Filter(filter) => {
            let Some((input, order)) = ordered(&filter.input, is_limited)? else { return Ok(None) };
            Ok(Some((LogicalPlan::Filter(Filter::try_new(filter.predicate.clone(), Arc::new(input))?), order)))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let Some((input, order)) = ordered(&alias.input, is_limited)? else { return Ok(None) };
            let inner = input.schema().clone();
            let plan = LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(input), alias.alias.clone())?);
            let outer = plan.schema().clone();
            let order = order.into_iter().map(|key| renamed(key, &inner, &outer)).collect::<Result<_>>()?;
            Ok(Some((plan, order)))
        }
        LogicalPlan::Projection(projection) => match ordered(&projection.input, is_limited)? {
            Some((input, order)) => Ok(Some(projected(projection, input, order)?)),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}

/// A sort key with the columns of `outer` in place of those of `inner`, which have the same positions.
fn renamed(key: SortExpr, inner: &DFSchema, outer: &DFSchema) -> Result<SortExpr> {
    let changed = key.expr.transform_up(|e| match e {
        Expr::Column(column) => {
            let at = inner.index_of_column(&column)?;
            Ok(Transformed::yes(Expr::Column(Column::from(outer.qualified_field(at)))))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(SortExpr { expr: changed.data, ..key })
}

/// The projection over another input, with the keys of its order among its columns.
fn projected(
    projection: &Projection,
    input: LogicalPlan,
    order: Vec<SortExpr>,
) -> Result<(LogicalPlan, Vec<SortExpr>)> {
    let mut expressions = projection.expr.clone();
    let mut positions = vec![];
    for key in &order {
        let known = expressions.iter().position(|e| e.clone().unalias() == key.expr);
        positions.push(known.unwrap_or(expressions.len()));
        if known.is_none() {
            expressions.push(key.expr.clone().alias(format!("{KEY}{}", expressions.len())));
        }
    }
    let plan = LogicalPlan::Projection(Projection::try_new(expressions, Arc::new(input))?);
    let column = |at: usize| Expr::Column(Column::from(plan.schema().qualified_field(at)));
    let order = order.into_iter().zip(positions).map(|(key, at)| SortExpr { expr: column(at), ..key }).collect();
    Ok((plan, order))
}
