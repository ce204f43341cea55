//! Operators whose result types differ from DataFusion's, when SQL is planned.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, cast, lit};

use super::decimals;
use super::function::{Exact, Operation};

/// Plans `/` of decimals, `*` of decimals whose scales add up to more than 38, and `//`.
#[derive(Debug)]
pub(super) struct Numbers;

impl ExprPlanner for Numbers {
    fn plan_binary_op(&self, binary: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, mut left, mut right } = binary;
        let types = (left.get_type(schema), right.get_type(schema));
        let (Ok(mut left_type), Ok(mut right_type)) = types else {
            return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
        };
        let is_division = matches!(op, Operator::Divide | Operator::IntegerDivide | Operator::Modulo);
        if is_division && are_of_two_signs(&left_type, &right_type) {
            for (operand, data_type) in [(&mut left, &mut left_type), (&mut right, &mut right_type)] {
                if let Some(value) = not_negative(operand) {
                    (*operand, *data_type) = (lit(value), DataType::UInt64);
                }
            }
        }
        let scales = decimals::scale(&left_type).zip(decimals::scale(&right_type));
        let is_wide = |data_type: &DataType| matches!(data_type, DataType::Decimal256(..));
        let numbers = |data_type: &DataType| data_type.is_decimal() || data_type.is_integer();
        let decimals =
            numbers(&left_type) && numbers(&right_type) && (left_type.is_decimal() || right_type.is_decimal());
        match (op, scales) {
            (Operator::Divide, _) if decimals && (is_wide(&left_type) || is_wide(&right_type)) => {
                let (left, right) = (cast(left, DataType::Float64), cast(right, DataType::Float64));
                Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
            }
            (Operator::Divide, Some(_)) if decimals => {
                Ok(PlannerResult::Planned(Exact::new(Operation::Quotient).of(vec![left, right])))
            }
            (Operator::Multiply, Some((a, b))) if decimals && a + b > 38 => {
                Ok(PlannerResult::Planned(Exact::new(Operation::RoundedProduct).of(vec![left, right])))
            }
            // Their common type is a decimal, whose quotients have fractions.
            (Operator::Divide | Operator::IntegerDivide, _) if are_of_two_signs(&left_type, &right_type) => {
                Ok(PlannerResult::Planned(Exact::new(Operation::WholeQuotient).of(vec![left, right])))
            }
            (Operator::IntegerDivide, _) if are_huge(&left_type, &right_type) => {
                Ok(PlannerResult::Planned(Exact::new(Operation::WholeQuotient).of(vec![left, right])))
            }
            (Operator::IntegerDivide, _) => {
                if !left_type.is_integer() || !right_type.is_integer() {
                    return plan_err!("// divides integers, not {left_type} and {right_type}: write trunc(a / b)");
                }
                Ok(PlannerResult::Original(RawBinaryExpr { op: Operator::Divide, left, right }))
            }
            _ => Ok(PlannerResult::Original(RawBinaryExpr { op, left, right })),
        }
    }
}

/// Whether one is a UBIGINT and the other an integer with a sign: no type of integers has the values of both.
fn are_of_two_signs(left: &DataType, right: &DataType) -> bool {
    let pair = |a: &DataType, b: &DataType| *a == DataType::UInt64 && b.is_signed_integer();
    pair(left, right) || pair(right, left)
}

/// The value of a constant integer with a sign that is not negative.
fn not_negative(operand: &Expr) -> Option<u64> {
    let Expr::Literal(value, _) = operand else { return None };
    match value.cast_to(&DataType::Int64).ok()? {
        ScalarValue::Int64(Some(number)) if value.data_type().is_signed_integer() => u64::try_from(number).ok(),
        _ => None,
    }
}

/// Whether both are whole numbers, and one is a decimal, as HUGEINT is.
fn are_huge(left: &DataType, right: &DataType) -> bool {
    let is_decimal = |kind: &DataType| matches!(kind, DataType::Decimal128(_, 0));
    let is_whole = |kind: &DataType| kind.is_integer() || is_decimal(kind);
    is_whole(left) && is_whole(right) && (is_decimal(left) || is_decimal(right))
}
