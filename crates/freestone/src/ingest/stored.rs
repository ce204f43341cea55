//! The conversion of one value to the type of a table's column, as a function in queries.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::{ColumnMatch, Location, conform};
use crate::error::Error;

/// The name of [`Stored`].
pub(crate) const STORED: &str = "freestone_stored";

/// `freestone_stored(value, column, row)`: the value in the type of a table's column.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stored {
    schema: SchemaRef,
    signature: Signature,
}

impl Stored {
    /// The function for a table, whose fields say how its values are stored.
    pub fn function(schema: &SchemaRef) -> ScalarUDF {
        let signature = Signature::any(3, Volatility::Immutable);
        ScalarUDF::new_from_impl(Stored { schema: schema.clone(), signature })
    }

    fn field(&self, column: Option<&ScalarValue>) -> Result<FieldRef> {
        let at = match column {
            Some(ScalarValue::Int64(Some(at))) => usize::try_from(*at).ok(),
            _ => None,
        };
        match at.and_then(|at| self.schema.fields().get(at)) {
            Some(field) => Ok(Arc::new(field.as_ref().clone().with_nullable(true))),
            None => internal_err!("{STORED} of no column"),
        }
    }
}

impl ScalarUDFImpl for Stored {
    fn name(&self) -> &str {
        STORED
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("{STORED} has the type of a column")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let field = self.field(args.scalar_arguments.get(1).copied().flatten())?;
        Ok(Arc::new(field.as_ref().clone().with_metadata(HashMap::new())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value, ColumnarValue::Scalar(column), ColumnarValue::Scalar(ScalarValue::Int64(Some(row)))] =
            args.args.as_slice()
        else {
            return internal_err!("{STORED} takes a value, a column and a row");
        };
        let field = self.field(Some(column))?;
        crate::exact::unary(value, |array| Ok(stored_cell(array, &field, (*row).max(1) as u64)?))
    }
}

/// Values, such as that of a cell of `VALUES`, in the type of a column. Errors name the row, counted from `row`.
///
/// # Errors
/// The type cannot hold the value.
pub(crate) fn stored_cell(value: &ArrayRef, field: &FieldRef, row: u64) -> Result<ArrayRef, Error> {
    let given = Schema::new(vec![Field::new(field.name(), value.data_type().clone(), true)]);
    let batch = RecordBatch::try_new(Arc::new(given), vec![value.clone()])?;
    let at = Location { source: String::new(), first_row: row };
    let wanted = Arc::new(Schema::new(vec![field.as_ref().clone().with_nullable(true)]));
    let converted = conform(&batch, &wanted, ColumnMatch::Position, &at)?;
    Ok(converted.column(0).clone())
}
