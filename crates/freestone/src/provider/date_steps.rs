//! Days added to dates without a calendar: a date is a number of days, and DataFusion goes through year, month and day for
//! each row, which takes some thirty times as long.

use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNanoType};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::expressions;

/// Steps of more days may lead out of the calendar, which is an error of the calendar's.
const DAYS_MAX: i64 = 100_000;
const DAY_NS: i64 = 86_400_000_000_000;

/// Makes `date ± n days` of a column of dates an addition of integers.
#[derive(Debug)]
pub struct DateSteps;

impl OptimizerRule for DateSteps {
    fn name(&self) -> &str {
        "date_steps"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        expressions::changed(plan, as_integers)
    }
}

fn as_integers(expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &expression else { return Transformed::no(expression) };
    let is_date = |e: &Expr| matches!(e, Expr::Column(_)) && e.get_type(schema).is_ok_and(|t| t == DataType::Date32);
    let (date, days, op) = match (days(left), op, days(right)) {
        (None, Operator::Plus | Operator::Minus, Some(days)) if is_date(left) => (left, days, *op),
        (Some(days), Operator::Plus, None) if is_date(right) => (right, days, *op),
        _ => return Transformed::no(expression),
    };
    let cast = |e: Expr, to: DataType| Expr::Cast(Cast::new(Box::new(e), to));
    let number = Box::new(cast(date.as_ref().clone(), DataType::Int32));
    let days = Box::new(Expr::Literal(ScalarValue::Int32(Some(days)), None));
    Transformed::yes(cast(Expr::BinaryExpr(BinaryExpr::new(number, op, days)), DataType::Date32))
}

/// The days of an interval that is a whole number of them, and not large.
fn days(expression: &Expr) -> Option<i32> {
    let Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(interval)), _) = expression else { return None };
    let (months, days, ns) = IntervalMonthDayNanoType::to_parts(*interval);
    let days = i64::from(days) + ns / DAY_NS;
    (months == 0 && ns % DAY_NS == 0 && days.abs() <= DAYS_MAX).then_some(days as i32)
}
