//! Scalar functions that users of DuckDB and PostgreSQL expect and DataFusion lacks. One file per subject; each function is a
//! [`Scalar`]: its names, the types it takes and gives, and a kernel over arrays.

mod dates;
mod intervals;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::scalar::ScalarValue;

/// All functions of this module.
pub(crate) fn all() -> Vec<Arc<ScalarUDF>> {
    let scalars = dates::all().into_iter().chain(intervals::all());
    scalars.map(|scalar| Arc::new(ScalarUDF::new_from_impl(scalar))).collect()
}

/// Computes a function for all rows of its arguments, which have one length and the types of the signature.
type Kernel = Box<dyn Fn(&[ArrayRef]) -> Result<ArrayRef> + Send + Sync>;

/// A function of values of one row.
struct Scalar {
    name: &'static str,
    aliases: Vec<String>,
    signature: Signature,
    result: DataType,
    kernel: Kernel,
}

impl Scalar {
    /// A function of one of several lists of argument types. The first name is shown, the others are aliases.
    fn new(
        names: &[&'static str],
        arguments: &[&[DataType]],
        result: DataType,
        kernel: impl Fn(&[ArrayRef]) -> Result<ArrayRef> + Send + Sync + 'static,
    ) -> Scalar {
        let exact = |types: &&[DataType]| TypeSignature::Exact(types.to_vec());
        Scalar {
            name: names[0],
            aliases: names[1..].iter().map(ToString::to_string).collect(),
            signature: Signature::one_of(arguments.iter().map(exact).collect(), Volatility::Immutable),
            result,
            kernel: Box::new(kernel),
        }
    }
}

impl fmt::Debug for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scalar").field(&self.name).finish()
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Scalar) -> bool {
        self.name == other.name
    }
}

impl Eq for Scalar {}

impl Hash for Scalar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Scalar {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.result.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let result = (self.kernel)(&arrays)?;
        match is_constant && result.len() == 1 {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?)),
            false => Ok(ColumnarValue::Array(result)),
        }
    }
}
