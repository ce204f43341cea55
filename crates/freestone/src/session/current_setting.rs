//! `current_setting('name')`: the value of a setting, as text.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringViewArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::cast::as_string_view_array;
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

use crate::settings;

pub(super) fn function() -> ScalarUDF {
    let one = TypeSignature::Exact(vec![DataType::Utf8View]);
    // With true as the second argument, an unknown setting is NULL, as in PostgreSQL.
    let two = TypeSignature::Exact(vec![DataType::Utf8View, DataType::Boolean]);
    ScalarUDF::new_from_impl(CurrentSetting { signature: Signature::one_of(vec![one, two], Volatility::Stable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CurrentSetting {
    signature: Signature,
}

impl ScalarUDFImpl for CurrentSetting {
    fn name(&self) -> &str {
        "current_setting"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let (Some(names), may_miss) = (arrays.first(), arrays.len() > 1) else {
            return exec_err!("current_setting takes the name of a setting");
        };
        let value = |name: Option<&str>| match name {
            None => Ok(None),
            Some(name) => match settings::current(&args.config_options, name) {
                Some(value) => Ok(Some(value)),
                None if may_miss => Ok(None),
                None => exec_err!("no setting {name}: SHOW ALL lists the settings"),
            },
        };
        let values = as_string_view_array(names)?.iter().map(value).collect::<Result<StringViewArray>>()?;
        Ok(ColumnarValue::Array(Arc::new(values) as ArrayRef))
    }
}
