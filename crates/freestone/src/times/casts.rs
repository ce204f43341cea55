//! Replaces casts of times by ours. Runs after type coercion, so that casts added by DataFusion are included.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use super::{convert, is_span};
use crate::error::{Error, ErrorKind};
use crate::expressions;
use crate::type_names::type_name;

#[derive(Debug)]
pub(crate) struct TimeCasts;

impl AnalyzerRule for TimeCasts {
    fn name(&self) -> &str {
        "time_casts"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(|plan| expressions::try_changed(plan, ours))?.data)
    }
}

/// The expression with all casts of times replaced.
pub(crate) fn with_ours(expression: Expr, schema: &DFSchema) -> Result<Expr> {
    Ok(expression.transform_up(|e| ours(e, schema))?.data)
}

fn ours(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (inner, to, or_null) = match &expression {
        Expr::Cast(cast) => (&cast.expr, cast.field.data_type(), false),
        Expr::TryCast(cast) => (&cast.expr, cast.field.data_type(), true),
        _ => return Ok(Transformed::no(expression)),
    };
    let Ok(from) = inner.get_type(schema) else { return Ok(Transformed::no(expression)) };
    // As in DuckDB, what no value can be cast to is NULL for all of them.
    if or_null && is_never(&from, to) {
        return Ok(Transformed::yes(Expr::Literal(ScalarValue::try_new_null(to)?, None)));
    }
    if let DataType::Timestamp(..) = to
        && (from.is_numeric() || from == DataType::Boolean)
    {
        return Err(no_timestamp(&from));
    }
    let is_number = |kind: &DataType| kind.is_numeric() || *kind == DataType::Boolean;
    if is_time(to) && is_number(&from) || is_time(&from) && is_number(to) {
        return Err(no_number(&from, to));
    }
    if !convert::is_ours(&from, to) {
        return Ok(Transformed::no(expression));
    }
    Ok(Transformed::yes(convert::call(inner.as_ref().clone(), to.clone(), or_null)))
}

/// Whether there is no cast from a type to another.
fn is_never(from: &DataType, to: &DataType) -> bool {
    let is_number = |kind: &DataType| kind.is_numeric() || *kind == DataType::Boolean;
    let is_of_times = |kind: &DataType| is_time(kind) || is_span(kind);
    let mixes = is_of_times(from) && is_number(to) || is_number(from) && is_of_times(to);
    let is_scalar = |kind: &DataType| !kind.is_nested() || matches!(kind, DataType::Dictionary(..));
    mixes || !is_scalar(from) && (is_number(to) || is_of_times(to))
}

fn is_time(kind: &DataType) -> bool {
    use DataType::{Date32, Date64, Time32, Time64, Timestamp};
    matches!(kind, Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..))
}

fn no_number(from: &DataType, to: &DataType) -> datafusion::error::DataFusionError {
    let hint = match if is_time(from) { from } else { to } {
        DataType::Timestamp(..) => "epoch(t) has the seconds since 1970, epoch_us(t) the microseconds",
        DataType::Time32(_) | DataType::Time64(_) => "epoch(t) has the seconds since midnight",
        _ => "DATE '1970-01-01' + n is the date n days after it, and d - DATE '1970-01-01' the days until a date",
    };
    let (from, to) = (type_name(from), type_name(to));
    Error::new(ErrorKind::Type, format!("{from} cannot be cast to {to}")).with_hint(hint).into()
}

fn no_timestamp(from: &DataType) -> datafusion::error::DataFusionError {
    let from = type_name(from);
    let hint =
        "to_timestamp(n) takes seconds since 1970, to_timestamp_millis(n) and to_timestamp_micros(n) finer units";
    Error::new(ErrorKind::Type, format!("{from} is not cast to TIMESTAMP: the unit is not known"))
        .with_hint(hint)
        .into()
}
