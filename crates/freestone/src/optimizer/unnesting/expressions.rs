//! Small pieces of plans and expressions.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, JoinConstraint, NullEquality, ScalarValue};
use datafusion::error::Result;
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Expr, Filter, Join, JoinType, LogicalPlan, Operator, Projection, binary_expr, lit, when,
};

/// The column at a position.
pub(super) fn column(schema: &DFSchema, at: usize) -> Expr {
    Expr::Column(Column::from(schema.qualified_field(at)))
}

pub(super) fn columns(schema: &DFSchema) -> Vec<Expr> {
    (0..schema.fields().len()).map(|at| column(schema, at)).collect()
}

/// The expression under the name that a schema has at a position.
pub(super) fn named(expression: Expr, schema: &DFSchema, at: usize) -> Expr {
    let (qualifier, field) = schema.qualified_field(at);
    let same = matches!(&expression, Expr::Column(c) if c.relation.as_ref() == qualifier && c.name == *field.name());
    if same { expression } else { expression.alias_qualified(qualifier.cloned(), field.name()) }
}

/// The expressions under the names of a schema.
pub(super) fn project_as(input: LogicalPlan, expressions: Vec<Expr>, schema: &DFSchema) -> Result<LogicalPlan> {
    project(input, expressions.into_iter().enumerate().map(|(at, e)| named(e, schema, at)).collect())
}

/// Only the columns of a schema, which the input has among others.
pub(super) fn only(input: LogicalPlan, schema: &DFSchema) -> Result<LogicalPlan> {
    if input.schema().fields().len() == schema.fields().len() {
        return Ok(input);
    }
    project(input, columns(schema))
}

pub(super) fn project(input: LogicalPlan, expressions: Vec<Expr>) -> Result<LogicalPlan> {
    Ok(LogicalPlan::Projection(Projection::try_new(expressions, Arc::new(input))?))
}

pub(super) fn filter(input: LogicalPlan, conjuncts: Vec<Expr>) -> Result<LogicalPlan> {
    match conjunction(conjuncts) {
        Some(predicate) => Ok(LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(input))?)),
        None => Ok(input),
    }
}

pub(super) fn join(left: LogicalPlan, right: LogicalPlan, on: Vec<Expr>, join_type: JoinType) -> Result<LogicalPlan> {
    Ok(LogicalPlan::Join(Join::try_new(
        Arc::new(left),
        Arc::new(right),
        vec![],
        conjunction(on),
        join_type,
        JoinConstraint::On,
        NullEquality::NullEqualsNothing,
        false,
    )?))
}

pub(super) fn conjuncts(expression: Option<Expr>) -> Vec<Expr> {
    expression.map(split_conjunction_owned).unwrap_or_default()
}

pub(super) fn equal(left: Expr, right: Expr) -> Expr {
    binary_expr(left, Operator::Eq, right)
}

/// Equality under which NULL is a value.
pub(super) fn same(left: Expr, right: Expr) -> Expr {
    binary_expr(left, Operator::IsNotDistinctFrom, right)
}

/// True, else unknown, else false.
pub(super) fn three_valued(is_true: Expr, is_unknown: Option<Expr>) -> Result<Expr> {
    let Some(is_unknown) = is_unknown else { return Ok(is_true) };
    when(is_true, lit(true)).when(is_unknown, lit(ScalarValue::Boolean(None))).otherwise(lit(false))
}

/// The value, or what it is for no rows.
pub(super) fn or_default(value: Expr, default: ScalarValue) -> Expr {
    if default.is_null() { value } else { coalesce(vec![value, lit(default)]) }
}

pub(super) fn count_rows() -> Expr {
    count(lit(1i64))
}

/// The expression with its columns replaced.
pub(super) fn replace_columns(expression: Expr, replacement: impl Fn(&Column) -> Option<Expr>) -> Result<Expr> {
    let replaced = expression.transform_up(|e| match &e {
        Expr::Column(column) => Ok(match replacement(column) {
            Some(other) => Transformed::yes(other),
            None => Transformed::no(e),
        }),
        _ => Ok(Transformed::no(e)),
    })?;
    Ok(replaced.data)
}

/// The expression with references to the outer query as plain columns.
pub(super) fn as_plain(expression: Expr) -> Result<Expr> {
    let replaced = expression.transform_up(|e| match e {
        Expr::OuterReferenceColumn(_, column) => Ok(Transformed::yes(Expr::Column(column))),
        e => Ok(Transformed::no(e)),
    })?;
    Ok(replaced.data)
}
