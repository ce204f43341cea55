//! Subqueries that depend on the outer query by conditions alone: those become conditions of the join, whatever they
//! compare, and no set of bindings is needed.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Aggregate, Distinct, Expr, Join, JoinType, LogicalPlan, lit, when};

use super::expressions::{columns, conjuncts, filter, replace_columns};
use super::scope::{contains_subquery, free, free_in};

/// A plan that depends on nothing, conditions over it and the outer query, and what the subquery's columns are.
pub(super) struct Stripped {
    pub plan: LogicalPlan,
    pub conditions: Vec<Expr>,
    pub output: Vec<Expr>,
}

/// The subquery without its correlated conditions, for a caller to whom equal rows are one. None: they are not on top.
pub(super) fn strip(plan: &LogicalPlan) -> Result<Option<Stripped>> {
    if free(plan).is_empty() {
        let output = columns(plan.schema());
        return Ok(Some(Stripped { plan: plan.clone(), conditions: vec![], output }));
    }
    match plan {
        LogicalPlan::Distinct(Distinct::All(input)) => strip(input),
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => strip(&sort.input),
        LogicalPlan::Subquery(subquery) => strip(&subquery.subquery),
        LogicalPlan::SubqueryAlias(alias) => strip(&alias.input),
        LogicalPlan::Projection(projection) => {
            let Some(inner) = strip(&projection.input)? else { return Ok(None) };
            let output = over(&projection.expr, projection.input.schema(), &inner.output)?;
            Ok(output.map(|output| Stripped { output, ..inner }))
        }
        LogicalPlan::Filter(node) => strip_filter(conjuncts(Some(node.predicate.clone())), &node.input),
        LogicalPlan::Join(node) if node.join_type == JoinType::Inner => strip_join(node),
        _ => Ok(None),
    }
}

fn strip_join(node: &Join) -> Result<Option<Stripped>> {
    if !free(&node.left).is_empty() || !free(&node.right).is_empty() {
        return Ok(None);
    }
    let inputs = [node.left.schema().clone(), node.right.schema().clone()];
    let (above, below): (Vec<_>, Vec<_>) =
        conjuncts(node.filter.clone()).into_iter().partition(|e| !free_in(e, &inputs).is_empty());
    let join = LogicalPlan::Join(Join { filter: conjunction(below), ..node.clone() });
    if !free(&join).is_empty() {
        return Ok(None);
    }
    strip_filter(above, &Arc::new(join))
}

fn strip_filter(conditions: Vec<Expr>, input: &Arc<LogicalPlan>) -> Result<Option<Stripped>> {
    let inputs = [input.schema().clone()];
    if free(input).is_empty() {
        let (above, below): (Vec<_>, Vec<_>) = conditions.into_iter().partition(|e| !free_in(e, &inputs).is_empty());
        if above.iter().any(contains_subquery) {
            return Ok(None);
        }
        let plan = filter(input.as_ref().clone(), below)?;
        return Ok(Some(Stripped { plan, conditions: above, output: columns(input.schema()) }));
    }
    let Some(mut inner) = strip(input)? else { return Ok(None) };
    let Some(conditions) = over(&conditions, input.schema(), &inner.output)? else { return Ok(None) };
    inner.conditions.extend(conditions);
    Ok(Some(inner))
}

/// Expressions over a node's output as expressions over what its columns are. None: one contains a subquery.
fn over(expressions: &[Expr], schema: &DFSchema, output: &[Expr]) -> Result<Option<Vec<Expr>>> {
    if expressions.iter().any(contains_subquery) {
        return Ok(None);
    }
    let replaced: Result<_> = expressions.iter().map(|e| substitute(e.clone(), schema, output)).collect();
    replaced.map(Some)
}

/// The expression with the columns of a schema replaced by what they are.
pub(super) fn substitute(expression: Expr, schema: &DFSchema, output: &[Expr]) -> Result<Expr> {
    let of = |column: &Column| schema.index_of_column(column).ok().and_then(|at| output.get(at)).cloned();
    Ok(replace_columns(expression, of)?.unalias_nested().data)
}

/// An aggregate without GROUP BY, and the one value that a scalar subquery makes of its columns.
pub(super) struct Peeled {
    pub aggregate: Aggregate,
    pub value: Expr,
}

/// A scalar subquery that has one row because it aggregates all. None: it is another one.
pub(super) fn peel(plan: &LogicalPlan) -> Result<Option<Peeled>> {
    let Some((aggregate, mut output, condition)) = peel_all(plan)? else { return Ok(None) };
    let value = output.swap_remove(0);
    let value = match condition {
        Some(condition) => when(condition, value).otherwise(lit(ScalarValue::Null))?,
        None => value,
    };
    Ok(Some(Peeled { aggregate, value }))
}

fn peel_all(plan: &LogicalPlan) -> Result<Option<(Aggregate, Vec<Expr>, Option<Expr>)>> {
    match plan {
        LogicalPlan::Aggregate(node) if node.group_expr.is_empty() => {
            Ok(Some((node.clone(), columns(&node.schema), None)))
        }
        LogicalPlan::Subquery(subquery) => peel_all(&subquery.subquery),
        LogicalPlan::SubqueryAlias(alias) => peel_all(&alias.input),
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => peel_all(&sort.input),
        LogicalPlan::Projection(node) => {
            let Some((aggregate, output, condition)) = peel_all(&node.input)? else { return Ok(None) };
            let output = over(&node.expr, node.input.schema(), &output)?;
            Ok(output.map(|output| (aggregate, output, condition)))
        }
        LogicalPlan::Filter(node) => {
            let Some((aggregate, output, condition)) = peel_all(&node.input)? else { return Ok(None) };
            let Some(mut own) = over(std::slice::from_ref(&node.predicate), node.input.schema(), &output)? else {
                return Ok(None);
            };
            let condition = conjunction(condition.into_iter().chain(own.pop()));
            Ok(Some((aggregate, output, condition)))
        }
        _ => Ok(None),
    }
}
