//! Decimal-float coercion: decimals that are compared with floats become floats. DataFusion converts the floats to
//! `DECIMAL(30, 15)` instead: floats from 1e15 on are an error, those below 1e-15 become zero, and a float column that
//! could be compared as stored is converted row by row.
//!
//! Decimals and integers whose common type needs more than 38 digits (`DECIMAL(38, 3)` and `DECIMAL(4, 4)`) are
//! compared with up to 76 digits. DataFusion compares them with 38, which is an error for the largest values.

use datafusion::arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, DecimalType};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use crate::expressions;
use crate::expressions::of_one_type;

/// Converts decimals to floats if they are compared with floats, or are branches of one result with floats.
#[derive(Debug)]
pub(crate) struct DecimalFloatCoercion;

impl AnalyzerRule for DecimalFloatCoercion {
    fn name(&self) -> &str {
        "decimal_float_coercion"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(in_plan)?.data)
    }
}

fn in_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let changed = expressions::changed(plan, in_expression)?;
    if changed.transformed { changed.map_data(LogicalPlan::recompute_schema) } else { Ok(changed) }
}

fn in_expression(mut expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let mut changed = with_plain_digits(&mut expression);
    for group in of_one_type(&mut expression) {
        let types: Vec<_> = group.operands.iter().map(|e| e.get_type(schema).unwrap_or(DataType::Null)).collect();
        match widest(&types).filter(|_| group.compared) {
            Some(wide) => {
                group.operands.into_iter().zip(types).for_each(|(operand, from)| as_wide(operand, &from, &wide));
                changed = true;
            }
            None => changed |= as_reals(group.operands, types),
        }
    }
    if changed { Transformed::yes(expression) } else { Transformed::no(expression) }
}

/// Makes the digits argument of `round` a literal of its final type. DataFusion does not see a literal below a cast, so
/// the type of a rounded decimal would change when constants are computed.
fn with_plain_digits(expression: &mut Expr) -> bool {
    if let Expr::ScalarFunction(call) = expression
        && call.func.name() == "round"
        && let [_, Expr::Literal(digits, _)] = call.args.as_mut_slice()
        && let ScalarValue::Int64(Some(value)) = digits
        && let Ok(value) = i32::try_from(*value)
    {
        *digits = ScalarValue::Int32(Some(value));
        return true;
    }
    false
}

/// The decimal type that holds all values of some integer and decimal types, if it has more than 38 digits. NULL has
/// every type.
fn widest(types: &[DataType]) -> Option<DataType> {
    if !types.iter().any(|kind| matches!(kind, DataType::Decimal128(..))) {
        return None;
    }
    let (mut whole, mut scale) = (0u8, 0i8);
    for kind in types.iter().filter(|kind| **kind != DataType::Null) {
        let (own_whole, own_scale) = match kind {
            DataType::Decimal128(precision, scale @ 0..) => (precision.checked_sub(scale.unsigned_abs())?, *scale),
            DataType::UInt64 => (20, 0),
            kind if kind.is_integer() => (19, 0),
            _ => return None,
        };
        (whole, scale) = (whole.max(own_whole), scale.max(own_scale));
    }
    let digits = whole + scale.unsigned_abs();
    (digits > 38).then_some(DataType::Decimal256(digits, scale))
}

fn as_wide(operand: &mut Expr, from: &DataType, wide: &DataType) {
    if *from != DataType::Null {
        *operand = Expr::Cast(Cast::new(Box::new(std::mem::take(operand)), wide.clone()));
    }
}

fn as_reals(operands: Vec<&mut Expr>, types: Vec<DataType>) -> bool {
    let Some(real) = [DataType::Float64, DataType::Float32].into_iter().find(|real| types.contains(real)) else {
        return false;
    };
    let mut changed = false;
    for (operand, kind) in operands.into_iter().zip(types) {
        if kind.is_decimal() {
            *operand = as_real(std::mem::take(operand), &real);
            changed = true;
        }
    }
    changed
}

/// Converts a decimal to a float. Literals are converted from their text, because dividing by a power of ten can differ
/// in the last digit.
fn as_real(decimal: Expr, real: &DataType) -> Expr {
    let digits = match &decimal {
        Expr::Literal(ScalarValue::Decimal128(Some(v), precision, scale), _) => {
            Decimal128Type::format_decimal(*v, *precision, *scale)
        }
        Expr::Literal(ScalarValue::Decimal256(Some(v), precision, scale), _) => {
            Decimal256Type::format_decimal(*v, *precision, *scale)
        }
        _ => String::new(),
    };
    let literal = match real {
        DataType::Float32 => digits.parse::<f32>().ok().map(ScalarValue::from),
        _ => digits.parse::<f64>().ok().map(ScalarValue::from),
    };
    literal.map_or_else(|| Expr::Cast(Cast::new(Box::new(decimal), real.clone())), |value| Expr::Literal(value, None))
}
