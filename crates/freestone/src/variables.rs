//! Variables of a session: `SET VARIABLE name = value`, which `getvariable('name')` returns.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use parking_lot::Mutex;

/// The values of a session's variables, by their names in lower case.
#[derive(Debug, Default)]
pub(crate) struct Variables(Mutex<HashMap<String, ScalarValue>>);

impl Variables {
    pub fn set(&self, name: &str, value: ScalarValue) {
        self.0.lock().insert(name.to_lowercase(), value);
    }

    pub fn reset(&self, name: &str) {
        self.0.lock().remove(&name.to_lowercase());
    }

    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// The value of a variable that is set.
    pub fn known(&self, name: &str) -> Option<ScalarValue> {
        self.0.lock().get(&name.to_lowercase()).cloned()
    }

    fn get(&self, name: &str) -> ScalarValue {
        self.0.lock().get(&name.to_lowercase()).cloned().unwrap_or(ScalarValue::Null)
    }
}

/// The function of a session.
pub(crate) fn function(variables: Arc<Variables>) -> ScalarUDF {
    let signature = Signature::any(1, Volatility::Stable);
    ScalarUDF::new_from_impl(GetVariable { variables, signature })
}

/// `getvariable('name')`: the value, or NULL without one.
struct GetVariable {
    variables: Arc<Variables>,
    signature: Signature,
}

impl fmt::Debug for GetVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GetVariable")
    }
}

impl PartialEq for GetVariable {
    fn eq(&self, other: &GetVariable) -> bool {
        Arc::ptr_eq(&self.variables, &other.variables)
    }
}

impl Eq for GetVariable {}

impl Hash for GetVariable {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.variables).hash(state);
    }
}

/// The text of a literal.
fn text(value: Option<&ScalarValue>) -> Option<&str> {
    value?.try_as_str().flatten()
}

impl ScalarUDFImpl for GetVariable {
    fn name(&self) -> &str {
        "getvariable"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("getvariable takes the name of a variable in quotes")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match text(args.scalar_arguments.first().copied().flatten()) {
            Some(name) => Ok(Arc::new(Field::new("getvariable", self.variables.get(name).data_type(), true))),
            None => plan_err!("getvariable takes the name of a variable in quotes"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.first() {
            Some(ColumnarValue::Scalar(name)) if text(Some(name)).is_some() => {
                Ok(ColumnarValue::Scalar(self.variables.get(text(Some(name)).unwrap_or_default())))
            }
            _ => exec_err!("getvariable takes the name of a variable in quotes"),
        }
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(match args.as_slice() {
            [Expr::Literal(name, _)] if text(Some(name)).is_some() => {
                let value = self.variables.get(text(Some(name)).unwrap_or_default());
                ExprSimplifyResult::Simplified(Expr::Literal(value, None))
            }
            _ => ExprSimplifyResult::Original(args),
        })
    }
}
