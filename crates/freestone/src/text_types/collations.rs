//! The functions of collations: the one that gives a text a collation, which the binder reads from its field, and the one that keeps
//! the collation of a column in a CHECK.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use freestone_binder::{COLLATED, collation_metadata};

use crate::sql::text_types::CHECK_COLLATION;
use crate::times::wrong_types;

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfCollation {
    is_check: bool,
    signature: Signature,
}

pub(super) fn all() -> Vec<ScalarUDF> {
    let function = |is_check| {
        ScalarUDF::new_from_impl(OfCollation { is_check, signature: Signature::any(2, Volatility::Immutable) })
    };
    vec![function(false), function(true)]
}

impl ScalarUDFImpl for OfCollation {
    fn name(&self) -> &str {
        if self.is_check { CHECK_COLLATION } else { COLLATED }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match (self.is_check, types) {
            (true, _) => Ok(DataType::Boolean),
            (false, [text, _]) => Ok(text.clone()),
            _ => wrong_types(self.name(), "a text and the name of its collation", types),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let field = Field::new(self.name(), self.return_type(&types)?, true);
        let collation = args.scalar_arguments.get(1).copied().flatten().and_then(|name| name.try_as_str().flatten());
        Ok(Arc::new(match collation.filter(|name| !self.is_check && !name.is_empty()) {
            Some(collation) => field.with_metadata(collation_metadata(collation)),
            None => field,
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.into_iter().next() {
            Some(text) if !self.is_check => Ok(text),
            _ => Ok(ColumnarValue::Scalar(ScalarValue::Boolean(Some(true)))),
        }
    }
}
