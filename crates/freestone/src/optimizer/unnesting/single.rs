//! Scalar subqueries, which may return at most one row.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::Int64Array;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};

use super::expressions::{columns, project};
use crate::error::{Error, ErrorKind};

/// The message of the error; its SQLSTATE is 21000.
pub(crate) const SEVERAL_ROWS: &str = "more than one row returned by a subquery used as an expression";

/// DataFusion's message for a subquery that is evaluated once.
pub(crate) const SEVERAL_ROWS_ONCE: &str = "Scalar subquery returned more than one row";

/// The function's name.
pub(super) const NAME: &str = "__single_row";

/// A call that returns `value`, or an error if `rows` is greater than 1.
pub(super) fn single(value: Expr, rows: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(Single::default())));
    FUNCTION.call(vec![value, rows])
}

/// The plan of a scalar subquery with a nullable column. Without a row its value is NULL, which DataFusion's types
/// ignore.
pub(super) fn nullable(plan: LogicalPlan) -> Result<LogicalPlan> {
    if plan.schema().field(0).is_nullable() || is_whole(&plan) {
        return Ok(plan);
    }
    let name = plan.schema().field(0).name().clone();
    let value = single(columns(plan.schema()).swap_remove(0), lit(1i64)).alias(name);
    project(plan, vec![value])
}

/// Whether the plan always returns a row.
fn is_whole(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(node) => is_whole(&node.input),
        LogicalPlan::SubqueryAlias(node) => is_whole(&node.input),
        LogicalPlan::Aggregate(node) => node.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(node) => node.produce_one_row,
        _ => false,
    }
}

/// The function. It is volatile, so that no rule moves it below the join, where it would fail for rows of the subquery
/// that match no outer row.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Single {
    signature: Signature,
}

impl Default for Single {
    fn default() -> Self {
        Single { signature: Signature::any(2, Volatility::Volatile) }
    }
}

impl ScalarUDFImpl for Single {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.first().cloned().ok_or_else(|| DataFusionError::Plan("__single_row takes two arguments".into()))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let field = arguments.arg_fields.first();
        let data_type = field.map(|field| field.data_type().clone());
        let data_type = data_type.ok_or_else(|| DataFusionError::Plan("__single_row takes two arguments".into()))?;
        Ok(Arc::new(Field::new(self.name(), data_type, true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value, rows]: [ColumnarValue; 2] =
            arguments.args.try_into().map_err(|_| DataFusionError::Plan("__single_row takes two arguments".into()))?;
        let several = match &rows {
            ColumnarValue::Scalar(ScalarValue::Int64(rows)) => rows.is_some_and(|rows| rows > 1),
            ColumnarValue::Scalar(_) => false,
            ColumnarValue::Array(rows) => rows
                .as_any()
                .downcast_ref::<Int64Array>()
                .is_some_and(|rows| rows.iter().flatten().any(|rows| rows > 1)),
        };
        if several {
            let error = Error::new(ErrorKind::Invalid, SEVERAL_ROWS);
            return Err(DataFusionError::External(Box::new(error)));
        }
        Ok(value)
    }
}
