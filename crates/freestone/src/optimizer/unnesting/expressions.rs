//! Helpers that build plans and expressions.

use std::sync::Arc;

use datafusion::common::{Column, DFSchema, ExprSchema, JoinConstraint, NullEquality, ScalarValue};
use datafusion::error::Result;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Expr, ExprSchemable, Filter, Join, JoinType, LogicalPlan, Operator, Projection, binary_expr, lit, when,
};

use super::scopes::replace;

/// The column at a position.
pub(super) fn column(schema: &DFSchema, at: usize) -> Expr {
    Expr::Column(Column::from(schema.qualified_field(at)))
}

pub(super) fn columns(schema: &DFSchema) -> Vec<Expr> {
    (0..schema.fields().len()).map(|at| column(schema, at)).collect()
}

/// A column without a qualifier.
pub(super) fn plain(name: impl Into<String>) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}

/// The expression with the name of the column at a position of a schema.
pub(super) fn named(expression: Expr, schema: &DFSchema, at: usize) -> Expr {
    let (qualifier, field) = schema.qualified_field(at);
    let is_named = match &expression {
        Expr::Column(c) => c.relation.as_ref() == qualifier && c.name == *field.name(),
        Expr::Alias(alias) => alias.relation.as_ref() == qualifier && alias.name == *field.name(),
        _ => false,
    };
    if is_named { expression } else { expression.unalias().alias_qualified(qualifier.cloned(), field.name()) }
}

/// The changed expression with the name of the original one.
pub(super) fn as_was(expression: Expr, was: &Expr) -> Expr {
    if expression == *was {
        return expression;
    }
    let (qualifier, name) = was.qualified_name();
    expression.unalias().alias_qualified(qualifier, name)
}

/// A projection whose columns have the names of a schema.
pub(super) fn project_as(input: LogicalPlan, expressions: Vec<Expr>, schema: &DFSchema) -> Result<LogicalPlan> {
    project(input, expressions.into_iter().enumerate().map(|(at, e)| named(e, schema, at)).collect())
}

pub(super) fn project(input: LogicalPlan, expressions: Vec<Expr>) -> Result<LogicalPlan> {
    Ok(LogicalPlan::Projection(Projection::try_new(expressions, Arc::new(input))?))
}

/// The plan with one more column.
pub(super) fn with_column(input: LogicalPlan, expression: Expr, name: &str) -> Result<LogicalPlan> {
    let mut expressions = columns(input.schema());
    expressions.push(expression.alias(name));
    project(input, expressions)
}

pub(super) fn filter(input: LogicalPlan, conjuncts: Vec<Expr>) -> Result<LogicalPlan> {
    match conjunction(conjuncts) {
        Some(predicate) => Ok(LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(input))?)),
        None => Ok(input),
    }
}

/// A join with these conditions.
pub(super) fn join(left: LogicalPlan, right: LogicalPlan, on: Vec<Expr>, join_type: JoinType) -> Result<LogicalPlan> {
    Ok(LogicalPlan::Join(Join::try_new(
        Arc::new(left),
        Arc::new(right),
        vec![],
        conjunction(on).or_else(|| (join_type != JoinType::Inner).then(|| lit(true))),
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

/// `CASE WHEN is_true THEN TRUE WHEN is_unknown THEN NULL ELSE FALSE END`.
pub(super) fn three_valued(is_true: Expr, is_unknown: Option<Expr>) -> Result<Expr> {
    let Some(is_unknown) = is_unknown else { return Ok(is_true) };
    when(is_true, lit(true)).when(is_unknown, lit(ScalarValue::Boolean(None))).otherwise(lit(false))
}

pub(super) fn count_rows() -> Expr {
    count(lit(1i64))
}

/// The expression with each column of a schema replaced by the expression at its position in `output`.
pub(super) fn substitute(expression: Expr, schema: &DFSchema, output: &[Expr]) -> Result<Expr> {
    replace(expression, |e| match e {
        Expr::Column(column) => schema.maybe_index_of_column(column).and_then(|at| output.get(at)).cloned(),
        _ => None,
    })
}

/// Whether the expression is certainly NULL, because a literal NULL in it makes it NULL.
pub(super) fn is_null(expression: &Expr) -> bool {
    match expression {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Alias(alias) => is_null(&alias.expr),
        Expr::Cast(cast) => is_null(&cast.expr),
        Expr::Negative(inner) | Expr::Not(inner) => is_null(inner),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let strict =
                !matches!(op, Operator::And | Operator::Or | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom);
            strict && (is_null(left) || is_null(right))
        }
        _ => false,
    }
}

pub(super) fn null_of(expression: &Expr, schema: &dyn ExprSchema) -> Result<Expr> {
    Ok(lit(ScalarValue::try_from(&expression.get_type(schema)?)?))
}
