//! Functions of the values of one row that the program around the engine computes.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array, new_null_array};
use datafusion::arrow::compute::{filter, take};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use super::HostFunction;
use crate::context;
use crate::error::Error;

/// The function of SQL.
pub(crate) fn hosted(function: HostFunction) -> ScalarUDF {
    let volatility = if function.is_volatile { Volatility::Volatile } else { Volatility::Immutable };
    ScalarUDF::new_from_impl(Hosted { function, signature: Signature::user_defined(volatility) })
}

/// Whether a function is one of these.
pub(crate) fn is_hosted(function: &ScalarUDF) -> bool {
    function.inner().is::<Hosted>()
}

/// Whether an expression calls one of these, which are called for values of rows alone, and not for possible ones.
pub(crate) fn calls_hosted(expression: &Arc<dyn PhysicalExpr>) -> bool {
    let is_one = |e: &Arc<dyn PhysicalExpr>| {
        Ok(e.downcast_ref::<ScalarFunctionExpr>().is_some_and(|call| is_hosted(call.fun())))
    };
    expression.exists(is_one).unwrap_or(true)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Hosted {
    function: HostFunction,
    signature: Signature,
}

impl Hosted {
    /// The value of each row.
    fn values(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<ArrayRef> {
        if self.function.takes_nulls || !columns.iter().any(|column| column.logical_null_count() > 0) {
            return self.called(columns, rows);
        }
        let nulls: Vec<_> = columns.iter().filter_map(|column| column.logical_nulls()).collect();
        let is_null = (0..rows).map(|row| nulls.iter().any(|nulls| nulls.is_null(row))).collect::<Vec<_>>();
        let given: BooleanArray = is_null.iter().map(|is_null| Some(!is_null)).collect();
        let passed = columns.iter().map(|column| filter(column, &given)).collect::<Result<Vec<_>, _>>()?;
        let values = self.called(passed, given.true_count())?;
        let mut next = 0;
        let place = |is_null: &bool| {
            next += u32::from(!is_null);
            (!is_null).then(|| next - 1)
        };
        let places: UInt32Array = is_null.iter().map(place).collect();
        Ok(take(&values, &places, None)?)
    }

    fn called(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<ArrayRef> {
        match rows {
            0 => Ok(new_null_array(&self.function.result, 0)),
            rows => Ok(self.function.call(columns, rows, rows)?),
        }
    }
}

impl ScalarUDFImpl for Hosted {
    fn name(&self) -> &str {
        &self.function.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        // Wrong arguments are reported when the result's type is computed, because an error here would be wrapped.
        Ok(self.function.coerced(types).unwrap_or_else(|| types.to_vec()))
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match self.function.coerced(types) {
            Some(_) => Ok(self.function.result.clone()),
            None => self.function.wrong(types),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if context::is_folding() {
            // The rule leaves the call to when the statement runs, when it can be cancelled.
            return Err(
                Error::invalid(format!("{} is not computed while its statement is planned", self.name())).into()
            );
        }
        let is_constant = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
        let is_once = !self.function.is_volatile && args.args.iter().all(is_constant) && args.number_rows > 0;
        let rows = if is_once { 1 } else { args.number_rows };
        let columns = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let values = self.values(columns, rows)?;
        match is_once {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?)),
            false => Ok(ColumnarValue::Array(values)),
        }
    }
}
