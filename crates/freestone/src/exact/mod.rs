//! Exact numbers: arithmetic and casts return the correct value or an error.
//!
//! In DataFusion, integers wrap around, decimals exceed their digits, and casts truncate. Its simplifier also moves a
//! cast from a column to a literal, even if several values of the column are cast to that literal. So after types are
//! known, each operation that can fail or lose digits is replaced by a function, [`Exact`], which no rule of DataFusion
//! changes. Operations whose bounds rule this out ([`bounds`]) remain as they are. These are nearly all: sums of INT
//! columns, products of decimals with enough digits.
//!
//! There is a single NaN: expressions that compute floats return [`floats::Canonical`] ones.

mod bounds;
mod casts;
mod decimal_texts;
mod decimals;
mod float_texts;
mod floats;
mod function;
mod functions;
pub(crate) mod normal_form;
mod planner;
mod postgres_texts;
mod rounding;
mod small;
mod truncation;

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, TableScan, TryCast};
use datafusion::optimizer::AnalyzerRule;

use crate::expressions;
pub(crate) use bounds::{integer, integer_digits, result_range};
pub(crate) use casts::cast;
pub(crate) use float_texts::FloatTexts;
pub use float_texts::{push_float, push_float32};
pub(crate) use floats::{Canonical, is_key, key, key_function};
use function::Operation;
pub(crate) use function::{Exact, arithmetic, unary};

/// Registers the operators and functions of numbers in a session.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    state.register_expr_planner(Arc::new(planner::Numbers))?;
    for function in functions::all(state)? {
        state.register_udf(function)?;
    }
    Ok(())
}

/// Whether a scan is of a table of the database, whose values were checked when they were stored.
pub(crate) type IsStored = fn(&TableScan) -> bool;

/// Replaces operations that can fail or lose digits by functions.
#[derive(Debug)]
pub(crate) struct ExactNumbers(pub IsStored);

impl AnalyzerRule for ExactNumbers {
    fn name(&self) -> &str {
        "exact_numbers"
    }

    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        let has_postgres_texts = options.extensions.get::<FloatTexts>().is_some_and(|own| own.are_postgres);
        Ok(plan.transform_up_with_subqueries(|plan| in_plan(plan, self.0, has_postgres_texts))?.data)
    }
}

fn in_plan(plan: LogicalPlan, is_stored: IsStored, has_postgres_texts: bool) -> Result<Transformed<LogicalPlan>> {
    let plan = match plan {
        LogicalPlan::Sort(sort) => return floats::in_sort(sort).map(Transformed::yes),
        LogicalPlan::TableScan(scan) => return floats::in_scan(scan, is_stored),
        other => other,
    };
    if has_postgres_texts {
        return expressions::changed(plan, |expression, schema| match postgres_text(&expression, schema) {
            Some((operand, to)) => Transformed::yes(Exact::new(Operation::PostgresText(to)).call(vec![operand])),
            None => in_expression(expression, schema),
        });
    }
    expressions::changed(plan, in_expression)
}

/// The operand and the type of a cast to a text that PostgreSQL writes in another way.
fn postgres_text(expression: &Expr, schema: &DFSchema) -> Option<(Expr, DataType)> {
    let (Expr::Cast(Cast { expr, field, .. }) | Expr::TryCast(TryCast { expr, field, .. })) = expression else {
        return None;
    };
    let differs = postgres_texts::differ(&expr.get_type(schema).ok()?);
    (differs && field.data_type().is_string()).then(|| (expr.as_ref().clone(), field.data_type().clone()))
}

/// Makes an expression exact, including its sub-expressions. Its types must be known.
pub(crate) fn exact(expression: Expr, schema: &DFSchema) -> Result<Expr> {
    Ok(expression.transform_up(|e| Ok(in_expression(e, schema)))?.data)
}

fn in_expression(expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match operation(&expression, schema) {
        Some(operation) => {
            let operands = match expression {
                Expr::BinaryExpr(BinaryExpr { left, right, .. }) => vec![*left, *right],
                Expr::Negative(operand) => vec![*operand],
                Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => vec![*expr],
                other => return Transformed::no(other),
            };
            Transformed::yes(Exact::new(operation).call(operands))
        }
        None => floats::canonical(expression, schema),
    }
}

/// The operation that replaces an expression; `None` if the expression can neither fail nor lose digits.
fn operation(expression: &Expr, schema: &DFSchema) -> Option<Operation> {
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let types = (left.get_type(schema).ok()?, right.get_type(schema).ok()?);
            let computed = match (op, &types) {
                (Operator::BitwiseShiftLeft | Operator::BitwiseShiftRight, (left, _)) => left.is_integer(),
                (Operator::Plus | Operator::Minus | Operator::Multiply, (left, right)) => {
                    (left.is_integer() && left == right || is_wide(expression, left, right, schema))
                        && !bounds::rule_out_overflow(expression, schema)
                }
                (Operator::Modulo, (left, right)) => is_wide(expression, left, right, schema),
                _ => false,
            };
            computed.then_some(Operation::Binary(*op))
        }
        Expr::Negative(operand) => {
            let is_integer = operand.get_type(schema).is_ok_and(|data_type| data_type.is_integer());
            (is_integer && !bounds::rule_out_overflow(expression, schema)).then_some(Operation::Negative)
        }
        Expr::Cast(cast) => {
            let from = cast.expr.get_type(schema).ok()?;
            let to = cast.field.data_type();
            // A text in quotes that is no such value is an error only where a row needs it; DataFusion's cast is one in planning.
            let is_text = matches!(&*cast.expr, Expr::Literal(..)) && from.is_string();
            let reads_number = is_text && (to.is_numeric() || *to == DataType::Boolean);
            (reads_number || casts::is_ours(&from, to)).then(|| Operation::Cast { to: to.clone(), or_null: false })
        }
        Expr::TryCast(cast) => {
            let from = cast.expr.get_type(schema).ok()?;
            let to = cast.field.data_type();
            casts::is_ours(&from, to).then(|| Operation::Cast { to: to.clone(), or_null: true })
        }
        _ => None,
    }
}

/// Whether the result of an operation on decimals may need more digits than a decimal has.
fn is_wide(expression: &Expr, left: &DataType, right: &DataType, schema: &DFSchema) -> bool {
    let is_decimal = |data_type: &DataType| matches!(data_type, DataType::Decimal128(..));
    let (DataType::Decimal128(_, left_scale), DataType::Decimal128(_, right_scale)) = (left, right) else {
        return false;
    };
    let rescales = matches!(expression, Expr::BinaryExpr(BinaryExpr { op: Operator::Modulo, .. }));
    match expression.get_type(schema) {
        Ok(DataType::Decimal128(38, _)) => true,
        Ok(result) => rescales && left_scale != right_scale && is_decimal(&result),
        Err(_) => false,
    }
}
