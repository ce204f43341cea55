//! Functions of numbers that DataFusion does not have, or not for all decimals.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int8Array, StringArray};
use datafusion::arrow::compute::{cast, min};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, Float64Type, i256};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

use freestone_binder::patterns::similar;

use super::function::unary;
use super::rounding::Round;
use super::truncation::Truncation;
use crate::error::{Error, ErrorKind};

/// The function that makes a regular expression of a pattern of SIMILAR TO.
const SIMILAR: &str = "freestone_similar";

/// All functions of this module. Those with names of DataFusion's functions replace these.
pub(super) fn all(state: &SessionState) -> Result<Vec<Arc<ScalarUDF>>> {
    let rounding = |name: &str, up: bool| -> Result<ScalarUDF> {
        Ok(ScalarUDF::new_from_impl(Rounding { inner: state.udf(name)?, up }))
    };
    let logarithm =
        |name: &str| -> Result<ScalarUDF> { Ok(ScalarUDF::new_from_impl(Logarithm { inner: state.udf(name)? })) };
    let any_number = Signature::one_of(vec![TypeSignature::Numeric(1)], Volatility::Immutable);
    let sign = ScalarUDF::new_from_impl(Sign { signature: any_number });
    let texts = Signature::exact(vec![DataType::Utf8, DataType::Utf8], Volatility::Immutable);
    let similar = ScalarUDF::new_from_impl(Similar { signature: texts });
    let logarithms = [logarithm("ln")?, logarithm("log")?, logarithm("log2")?, logarithm("log10")?];
    let round = ScalarUDF::new_from_impl(Round { inner: state.udf("round")? });
    let truncation = ScalarUDF::new_from_impl(Truncation::new(state.udf("trunc")?));
    let all = [rounding("ceil", true)?, rounding("floor", false)?, round, truncation, sign, similar];
    let all = all.into_iter().chain(logarithms);
    Ok(all.map(Arc::new).collect())
}

/// `ceil` and `floor`. For decimals, the result is a decimal of scale 0 with as many digits.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Rounding {
    inner: Arc<ScalarUDF>,
    up: bool,
}

impl ScalarUDFImpl for Rounding {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [DataType::Decimal128(precision, _)] => Ok(DataType::Decimal128(*precision, 0)),
            _ => self.inner.return_type(types),
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let DataType::Decimal128(precision, 0) = *args.return_field.data_type() else {
            return self.inner.invoke_with_args(args);
        };
        let [operand] = args.args.as_slice() else { return internal_err!("{} takes one number", self.name()) };
        unary(operand, |array| {
            let DataType::Decimal128(_, scale) = *array.data_type() else {
                return internal_err!("{} of {}", self.name(), array.data_type());
            };
            let by = 10i128.checked_pow(u32::try_from(scale).unwrap_or(0)).unwrap_or(1);
            let round = |value: i128| {
                let down = value.div_euclid(by);
                if self.up && value.rem_euclid(by) != 0 { down + 1 } else { down }
            };
            let rounded = array.as_primitive::<Decimal128Type>().unary::<_, Decimal128Type>(round);
            Ok(Arc::new(rounded.with_precision_and_scale(precision, 0)?))
        })
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(inputs.first().map_or(SortProperties::Unordered, |operand| operand.sort_properties))
    }
}

/// Logarithms, which fail for zero and negative numbers.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Logarithm {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Logarithm {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        for operand in &args.args {
            let numbers = cast(&operand.to_array(1)?, &DataType::Float64)?;
            let lowest = min(numbers.as_primitive::<Float64Type>()).unwrap_or(1.0);
            if lowest <= 0.0 {
                let of = if lowest == 0.0 { "zero" } else { "a negative number" };
                let error = Error::new(ErrorKind::Type, format!("cannot take the logarithm of {of}"));
                return Err(error.with_hint("nullif(x, 0) leaves zeros out, CASE WHEN x > 0 all others too").into());
            }
        }
        self.inner.invoke_with_args(args)
    }
}

/// `sign`: -1, 0 or 1; NaN for NaN.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Sign {
    signature: Signature,
}

impl ScalarUDFImpl for Sign {
    fn name(&self) -> &str {
        "sign"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match types.first() {
            Some(data_type) if data_type.is_integer() || data_type.is_decimal() => DataType::Int8,
            _ => DataType::Float64,
        })
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [operand] = args.args.as_slice() else { return internal_err!("sign takes one number") };
        unary(operand, |array| {
            let sign = |value: i128| value.signum() as i8;
            let numbers = match array.data_type() {
                data_type if data_type.is_integer() => cast(array, &DataType::Decimal128(20, 0))?,
                DataType::Decimal128(..) => array.clone(),
                DataType::Decimal256(..) => {
                    let sign = |value: i256| value.signum().as_i128() as i8;
                    let signs: Int8Array = array.as_primitive::<Decimal256Type>().unary(sign);
                    return Ok(Arc::new(signs) as ArrayRef);
                }
                _ => {
                    let values = cast(array, &DataType::Float64)?;
                    let sign = |v: f64| if v.is_nan() || v == 0.0 { v + 0.0 } else { v.signum() };
                    let signs: Float64Array = values.as_primitive::<Float64Type>().unary(sign);
                    return Ok(Arc::new(signs) as ArrayRef);
                }
            };
            let signs: Int8Array = numbers.as_primitive::<Decimal128Type>().unary(sign);
            Ok(Arc::new(signs) as ArrayRef)
        })
    }
}

/// Converts a pattern of SIMILAR TO that is not a literal to a regular expression.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Similar {
    signature: Signature,
}

impl ScalarUDFImpl for Similar {
    fn name(&self) -> &str {
        SIMILAR
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [pattern, escape] = args.args.as_slice() else { return internal_err!("{SIMILAR} takes two texts") };
        let escape = escape.to_array(1)?;
        let escape = escape.as_string::<i32>();
        let escape = (escape.is_valid(0)).then(|| escape.value(0).chars().next()).flatten();
        unary(pattern, |array| {
            let patterns = array.as_string::<i32>().iter();
            let expressions: StringArray = patterns.map(|text| text.map(|text| similar(text, escape))).collect();
            Ok(Arc::new(expressions) as ArrayRef)
        })
    }
}
