//! Intervals compare by their length: a month is 30 days, a day 24 hours, as in PostgreSQL.
//!
//! DataFusion compares months first, then days, then nanoseconds, so that a day was more than 48 hours, and a difference of
//! timestamps, which has no days, was never more than one. This rule compares a length in nanoseconds in their place.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, AsArray, Decimal128Array, PrimitiveArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    Between, BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use crate::expressions;

const DAY_NS: i128 = 86_400_000_000_000;
/// Digits of a length: those of 2^31 months, and more.
const LENGTH: DataType = DataType::Decimal128(38, 0);

/// Compares lengths. It runs before operands get one type, which makes intervals of differences.
#[derive(Debug)]
pub(crate) struct Intervals;

impl AnalyzerRule for Intervals {
    fn name(&self) -> &str {
        "intervals"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(|plan| expressions::changed(plan, by_length))?.data)
    }
}

fn by_length(mut expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let operands: Vec<&mut Expr> = match &mut expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if matches!(op, Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom) => vec![left, right],
        Expr::Between(Between { expr, low, high, .. }) => vec![expr, low, high],
        Expr::InList(list) => std::iter::once(&mut *list.expr).chain(&mut list.list).collect(),
        _ => return Transformed::no(expression),
    };
    let types: Vec<_> = operands.iter().map(|e| e.get_type(schema).unwrap_or(DataType::Null)).collect();
    let are_lengths = types.iter().all(|t| matches!(t, DataType::Interval(_) | DataType::Duration(_)));
    if !are_lengths || !types.iter().any(|t| matches!(t, DataType::Interval(_))) {
        return Transformed::no(expression);
    }
    for operand in operands {
        let whole = std::mem::take(operand);
        *operand = LENGTH_OF.call(vec![whole]);
    }
    Transformed::yes(expression)
}

static LENGTH_OF: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    Arc::new(ScalarUDF::new_from_impl(LengthOf { signature: Signature::any(1, Volatility::Immutable) }))
});

/// The nanoseconds of an interval or a duration.
#[derive(Debug, PartialEq, Eq, Hash)]
struct LengthOf {
    signature: Signature,
}

impl ScalarUDFImpl for LengthOf {
    fn name(&self) -> &str {
        "interval_length"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(LENGTH)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(argument) = arguments.args.into_iter().next() else {
            return plan_err!("interval_length takes an interval");
        };
        let is_scalar = matches!(argument, ColumnarValue::Scalar(_));
        let rows = if is_scalar { 1 } else { arguments.number_rows };
        let lengths = lengths(&argument.into_array(rows)?)?;
        if is_scalar {
            return Ok(ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&lengths, 0)?));
        }
        Ok(ColumnarValue::Array(lengths))
    }
}

fn lengths(values: &ArrayRef) -> Result<ArrayRef> {
    let lengths: Decimal128Array = match values.data_type() {
        DataType::Duration(unit) => {
            let unit_ns: i128 = match unit {
                TimeUnit::Second => 1_000_000_000,
                TimeUnit::Millisecond => 1_000_000,
                TimeUnit::Microsecond => 1_000,
                TimeUnit::Nanosecond => 1,
            };
            let counts = cast(values, &DataType::Int64)?;
            let counts: &PrimitiveArray<Int64Type> = counts.as_primitive();
            counts.unary::<_, Decimal128Type>(|count| i128::from(count) * unit_ns)
        }
        _ => {
            let intervals = cast(values, &DataType::Interval(IntervalUnit::MonthDayNano))?;
            let intervals: &PrimitiveArray<IntervalMonthDayNanoType> = intervals.as_primitive();
            intervals.unary::<_, Decimal128Type>(|interval| {
                let (months, days, ns) = IntervalMonthDayNanoType::to_parts(interval);
                (i128::from(months) * 30 + i128::from(days)) * DAY_NS + i128::from(ns)
            })
        }
    };
    Ok(Arc::new(lengths.with_data_type(LENGTH)))
}
