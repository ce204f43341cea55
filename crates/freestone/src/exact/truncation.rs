//! `trunc` of integers and decimals, whose results have the type of the number, without the digits that are cut off.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef};
use datafusion::common::{ScalarValue, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::casts::cast;
use super::function::unary;

/// DataFusion's function, for floats and for digits that are no constants; these are DOUBLE.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Truncation {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl Truncation {
    pub fn new(inner: Arc<ScalarUDF>) -> Truncation {
        Truncation { inner, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

/// The digits behind the point that stay, if they are a constant; NULL is none.
fn constant_digits(value: Option<&ScalarValue>) -> Option<i64> {
    match value {
        Some(ScalarValue::Int64(digits)) => *digits,
        _ => None,
    }
}

/// The type of a truncated integer or decimal; `None` for other numbers.
fn truncated_type(number: &DataType, digits: i64) -> Option<DataType> {
    match number {
        DataType::Decimal128(precision, scale) => {
            Some(DataType::Decimal128(*precision, digits.clamp(0, (*scale).max(0).into()) as i8))
        }
        other => other.is_integer().then(|| other.clone()),
    }
}

impl ScalarUDFImpl for Truncation {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let number = |kind: &DataType| match kind {
            DataType::Decimal128(..) | DataType::Float32 => Some(kind.clone()),
            kind if kind.is_integer() => Some(kind.clone()),
            kind if kind.is_numeric() || kind.is_null() => Some(DataType::Float64),
            _ => None,
        };
        let coerced = match types {
            [value] => number(value).map(|value| vec![value]),
            [value, digits] if digits.is_integer() || digits.is_null() => {
                number(value).map(|value| vec![value, DataType::Int64])
            }
            _ => None,
        };
        match coerced {
            Some(coerced) => Ok(coerced),
            None => {
                let given: Vec<String> = types.iter().map(crate::type_names::type_name).collect();
                plan_err!("trunc takes a number, and a number of digits, and was given ({})", given.join(", "))
            }
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(truncated_type(&types[0], 0).unwrap_or_else(|| types[0].clone()))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let number = args.arg_fields[0].data_type();
        let digits = match args.scalar_arguments.get(1) {
            None => Some(0),
            Some(digits) => constant_digits(*digits),
        };
        let result = match digits {
            Some(digits) => truncated_type(number, digits).unwrap_or_else(|| number.clone()),
            None if *number == DataType::Float32 => number.clone(),
            None => DataType::Float64,
        };
        Ok(Arc::new(Field::new(self.name(), result, args.arg_fields.iter().any(|field| field.is_nullable()))))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let digits = match args.args.get(1) {
            None => Some(0),
            Some(ColumnarValue::Scalar(digits)) => constant_digits(Some(digits)),
            Some(ColumnarValue::Array(_)) => None,
        };
        let to = args.return_field.data_type().clone();
        match digits {
            Some(digits) if !to.is_floating() => unary(&args.args[0], |numbers| truncated(numbers, digits, &to)),
            _ => {
                args.args[0] = unary(&args.args[0], |numbers| cast(numbers, &to, false))?;
                self.inner.invoke_with_args(args)
            }
        }
    }
}

/// Integers or decimals without the digits behind so many behind the point.
fn truncated(numbers: &ArrayRef, digits: i64, to: &DataType) -> Result<ArrayRef> {
    let scale = |kind: &DataType| match kind {
        DataType::Decimal128(_, scale) => i64::from(*scale),
        _ => 0,
    };
    let (from, lost) = (scale(numbers.data_type()), scale(numbers.data_type()).saturating_sub(digits));
    if lost <= 0 {
        return cast(numbers, to, false);
    }
    let wide = match numbers.data_type() {
        DataType::Decimal128(..) => numbers.clone(),
        _ => cast(numbers, &DataType::Decimal128(20, 0), false)?,
    };
    // All digits are lost where their power has more than a decimal.
    let power = u32::try_from(lost).ok().and_then(|lost| 10i128.checked_pow(lost));
    let back = u32::try_from(from - scale(to)).ok().and_then(|less| 10i128.checked_pow(less));
    let Some(back) = back else { return internal_err!("{to} has more digits than {}", numbers.data_type()) };
    let cut = |value: i128| power.map_or(0, |power| value / power * (power / back));
    let cut = wide.as_primitive::<Decimal128Type>().unary::<_, Decimal128Type>(cut);
    let cut: ArrayRef = match to {
        DataType::Decimal128(precision, scale) => Arc::new(cut.with_precision_and_scale(*precision, *scale)?),
        _ => Arc::new(cut.with_precision_and_scale(20, 0)?),
    };
    cast(&cut, to, false)
}
