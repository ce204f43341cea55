//! Lists and structs in order: NULLs in them are greater than other values, as in DuckDB and PostgreSQL, and as ORDER BY
//! sorts them. DataFusion compares them as smaller. `a < b` becomes a comparison of the function's result with 0.
//!
//! Lists and structs that are tested for equality have their normal form, so that `[0.0]` equals `[-0.0]`.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{BinaryExpr, InList};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, binary_expr};
use datafusion::optimizer::AnalyzerRule;

use crate::exact;
use crate::exact::normal_form::has_normal_form;
use crate::expressions;
use crate::scalars::order_of;

#[derive(Debug)]
pub(super) struct NestedComparisons;

impl AnalyzerRule for NestedComparisons {
    fn name(&self) -> &str {
        "nested_comparisons"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(|plan| expressions::try_changed(plan, ours))?.data)
    }
}

fn ours(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_nested = |expression: &Expr| {
        expression.get_type(schema).is_ok_and(|kind| kind.is_nested() && !matches!(kind, DataType::Dictionary(..)))
    };
    let has_form =
        |expression: &Expr| expression.get_type(schema).is_ok_and(|kind| kind.is_nested() && has_normal_form(&kind));
    let zero = || Expr::Literal(ScalarValue::Int64(Some(0)), None);
    let ordered = |a: Expr, op: Operator, b: Expr| binary_expr(order_of(a, b), op, zero());
    Ok(match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
                && is_nested(&left)
                && is_nested(&right) =>
        {
            Transformed::yes(ordered(*left, op, *right))
        }
        Expr::Between(between) if is_nested(&between.expr) && is_nested(&between.low) && is_nested(&between.high) => {
            let low = ordered((*between.expr).clone(), Operator::GtEq, *between.low);
            let within = low.and(ordered(*between.expr, Operator::LtEq, *between.high));
            Transformed::yes(if between.negated { Expr::Not(Box::new(within)) } else { within })
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_equality(op) && has_form(&left) && !(exact::is_key(&left) && exact::is_key(&right)) =>
        {
            Transformed::yes(binary_expr(key(*left), op, key(*right)))
        }
        Expr::InList(InList { expr, list, negated }) if has_form(&expr) && !exact::is_key(&expr) => {
            let list = list.into_iter().map(key).collect();
            Transformed::yes(Expr::InList(InList { expr: Box::new(key(*expr)), list, negated }))
        }
        other => Transformed::no(other),
    })
}

fn is_equality(op: Operator) -> bool {
    matches!(op, Operator::Eq | Operator::NotEq | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom)
}

fn key(operand: Expr) -> Expr {
    if exact::is_key(&operand) { operand } else { exact::key(operand) }
}
