//! `round` of floats to a number of digits: the nearest decimal of the exact value, halves away from zero, as in DuckDB 2.
//!
//! `25.65` is a little less than it reads, so it is rounded to `25.6`, though `25.65 * 10` is rounded to `256.5`.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Float64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};

/// Powers of ten up to this one are exact as DOUBLE.
const EXACT_POWER_MAX: i64 = 22;
/// From here on, every DOUBLE is an integer.
const INTEGERS_MIN: f64 = 4_503_599_627_370_496.0;

/// DataFusion's function, with other results for floats and digits.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Round {
    pub inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Round {
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

    fn return_field_from_args(
        &self,
        args: datafusion::logical_expr::ReturnFieldArgs,
    ) -> Result<datafusion::arrow::datatypes::FieldRef> {
        self.inner.inner().return_field_from_args(args)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_float = matches!(args.return_field.data_type(), DataType::Float64 | DataType::Float32);
        let [value, digits] = args.args.as_slice() else { return self.inner.invoke_with_args(args) };
        let types = (value.data_type(), digits.data_type());
        if !is_float || !matches!(types.0, DataType::Float64 | DataType::Float32) || !types.1.is_integer() {
            return self.inner.invoke_with_args(args);
        }
        let is_constant = args.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let rounded = rounded(&value.to_array(rows)?, &digits.to_array(rows)?, args.return_field.data_type())?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&rounded, 0)?),
            false => ColumnarValue::Array(rounded),
        })
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.inner().output_ordering(inputs)
    }
}

fn rounded(values: &ArrayRef, digits: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let (values, digits) = (cast(values, &DataType::Float64)?, cast(digits, &DataType::Int64)?);
    let rows = values.as_primitive::<Float64Type>().iter().zip(digits.as_primitive::<Int64Type>());
    let rounded: Float64Array = rows.map(|(value, digits)| Some(round(value?, digits?))).collect();
    Ok(cast(&(Arc::new(rounded) as ArrayRef), to)?)
}

/// The value with this number of digits behind the point, or with this number of zeros before it.
fn round(value: f64, digits: i64) -> f64 {
    if !value.is_finite() {
        return value;
    }
    match digits {
        0 => value.round(),
        1..=EXACT_POWER_MAX => {
            let power = 10f64.powi(digits as i32);
            let scaled = value * power;
            if scaled.abs() >= INTEGERS_MIN {
                return value;
            }
            nearest(scaled, value.mul_add(power, -scaled)) / power
        }
        ..0 => {
            let Some(power) = i32::try_from(digits.unsigned_abs()).ok().map(|zeros| 10f64.powi(zeros)) else {
                return 0.0;
            };
            let scaled = value / power;
            let rounded = nearest(scaled, (-scaled).mul_add(power, value)) * power;
            if rounded.is_finite() { rounded } else { 0.0 }
        }
        // No DOUBLE of a size that matters has that many digits.
        _ => format!("{value:.*}", digits.min(1_100) as usize).parse().unwrap_or(value),
    }
}

/// The integer next to a number of which `rest` was lost by rounding.
fn nearest(scaled: f64, rest: f64) -> f64 {
    let is_half = (scaled - scaled.trunc()).abs() == 0.5;
    // The exact number is nearer to zero than the half.
    if is_half && rest != 0.0 && (rest > 0.0) != (scaled > 0.0) { scaled.trunc() } else { scaled.round() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_rounded_as_in_duckdb() {
        // As DuckDB 2.0.1 answers.
        for (value, digits, expected) in [
            (25.65, 1, 25.6),
            (-25.65, 1, -25.6),
            (2.675, 2, 2.67),
            (1.15, 1, 1.1),
            (1.25, 1, 1.3),
            (1.35, 1, 1.4),
            (0.285, 2, 0.28),
            (1.005, 2, 1.0),
            (5.055, 2, 5.05),
            (4.35, 1, 4.3),
            (0.45, 1, 0.5),
            (1.65, 1, 1.6),
            (0.1 + 0.2, 1, 0.3),
            (123_456_789.125, 2, 123_456_789.13),
            (2.5, 0, 3.0),
            (-2.5, 0, -3.0),
            (150.0, -2, 200.0),
            (-15.0, -1, -20.0),
            (12_345.67, -1, 12_350.0),
            (1.5, 400, 1.5),
            (1.5, -400, 0.0),
            (1e300, 10, 1e300),
            (9_007_199_254_740_993.5, 1, 9_007_199_254_740_994.0),
            (f64::INFINITY, 1, f64::INFINITY),
            (1.5, i64::MIN, 0.0),
            (1.5, i64::MAX, 1.5),
        ] {
            assert_eq!(round(value, digits), expected, "round({value}, {digits})");
        }
        assert!(round(f64::NAN, 1).is_nan() && round(-1e-320, 3).is_sign_negative());
    }
}
