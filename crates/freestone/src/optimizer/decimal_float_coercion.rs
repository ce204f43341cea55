//! Decimals that are compared with reals become reals. DataFusion makes decimals of the reals, `DECIMAL(30, 15)`: reals of
//! 1e15 and more are an error there, those below 1e-15 are zero, and a column of reals is converted row by row where it can
//! be compared as it is stored.

use datafusion::arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, DecimalType};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use crate::optimizer::expressions;
use crate::optimizer::expressions::of_one_type;

/// Makes decimals that are compared with reals, or that share a result with reals, reals of the same width.
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
        let types = group.operands.iter().map(|e| e.get_type(schema).unwrap_or(DataType::Null)).collect();
        changed |= as_reals(group.operands, types);
    }
    if changed { Transformed::yes(expression) } else { Transformed::no(expression) }
}

/// The digits that `round` keeps, of the type that it takes: below a cast, they are no literal for DataFusion, and the type
/// of a rounded decimal is another before and after constants are computed.
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

/// Literals by their digits: the quotient of a cast may differ from them in its last digit.
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
