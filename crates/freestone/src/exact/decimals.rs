//! Arithmetic of decimals: sums, products and remainders, which are exact or fail; quotients, which are the nearest
//! DOUBLE; and rounding.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Float64Array, PrimitiveArray};
use datafusion::arrow::compute::try_binary;
use datafusion::arrow::datatypes::{ArrowPrimitiveType, DataType, Decimal128Type, Float64Type, i256};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{ColumnarValue, Operator};

use super::function::{as_decimal, out_of_range};
use super::small::{self, power};

/// The maximum number of digits of a decimal.
const DIGITS: u32 = 38;
/// The smallest magnitude with more digits.
const END: i128 = 10i128.pow(DIGITS);
/// Integers up to this one are exact as DOUBLE.
const DOUBLE_EXACT: u64 = 1 << 53;

/// The number of digits after the point.
pub(super) fn scale(data_type: &DataType) -> Option<i8> {
    match data_type {
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => Some(*scale),
        other => other.is_integer().then_some(0),
    }
}

/// `left op right` with `digits` digits after the decimal point.
pub(super) fn binary(op: Operator, left: &ColumnarValue, right: &ColumnarValue, digits: i8) -> Result<ColumnarValue> {
    let (left, right) = (as_decimal(left)?, as_decimal(right)?);
    let scales = (of_decimal(&left)?, of_decimal(&right)?);
    let result = DataType::Decimal128(DIGITS as u8, digits);
    let shown = result.clone();
    if let Some(value) = small::binary(op, (&left, scales.0), (&right, scales.1), digits) {
        return with_type(value, op, &left, &right, result);
    }
    let fail = move |a: i128, b: i128| {
        let shown_value = |value: i128, scale: i8| ScalarValue::Decimal128(Some(value), 38, scale).to_string();
        ArrowError::ArithmeticOverflow(format!("{} {op} {}", shown_value(a, scales.0), shown_value(b, scales.1)))
    };
    let computed: Result<ColumnarValue> = match op {
        Operator::Plus | Operator::Minus => {
            let (up_a, up_b) = (power(digits - scales.0), power(digits - scales.1));
            let is_plus = op == Operator::Plus;
            let f = move |a: i128, b: i128| {
                let narrow = || {
                    let (a, b) = (a.checked_mul(up_a?)?, b.checked_mul(up_b?)?);
                    if is_plus { a.checked_add(b) } else { a.checked_sub(b) }
                };
                let wide = || {
                    let (a, b) = (i256::from(a) * i256::from(up_a?), i256::from(b) * i256::from(up_b?));
                    (if is_plus { a.checked_add(b) } else { a.checked_sub(b) })?.to_i128()
                };
                narrow().or_else(wide).filter(|value| fits(*value)).ok_or_else(|| fail(a, b))
            };
            each::<Decimal128Type>(&left, &right, f)
        }
        Operator::Multiply => {
            let down = power(scales.0 + scales.1 - digits);
            let f = move |a: i128, b: i128| {
                let product = match down {
                    Some(1) => a.checked_mul(b),
                    Some(down) => rounded_quotient(i256::from(a) * i256::from(b), down),
                    None => Some(0),
                };
                product.filter(|value| fits(*value)).ok_or_else(|| fail(a, b))
            };
            each::<Decimal128Type>(&left, &right, f)
        }
        Operator::Modulo => {
            let (up_a, up_b) = (power(digits - scales.0), power(digits - scales.1));
            let f = move |a: i128, b: i128| {
                if b == 0 {
                    return Err(ArrowError::DivideByZero);
                }
                let rest = || {
                    let (a, b) = (i256::from(a) * i256::from(up_a?), i256::from(b) * i256::from(up_b?));
                    a.checked_rem(b)?.to_i128()
                };
                rest().filter(|value| fits(*value)).ok_or_else(|| fail(a, b))
            };
            each::<Decimal128Type>(&left, &right, f)
        }
        other => return internal_err!("{other} of decimals"),
    };
    match computed {
        Err(DataFusionError::ArrowError(error, _)) => Err(out_of_range(*error, &shown)),
        Err(other) => Err(other),
        Ok(value) => with_type(value, op, &left, &right, result),
    }
}

/// The computed values with the type of the operation's result.
fn with_type(
    value: ColumnarValue,
    op: Operator,
    left: &ColumnarValue,
    right: &ColumnarValue,
    widest: DataType,
) -> Result<ColumnarValue> {
    // A remainder has fewer digits than its operands.
    let precision = match (op, left.data_type(), right.data_type()) {
        (Operator::Modulo, DataType::Decimal128(p1, s1), DataType::Decimal128(p2, s2)) => {
            let integral = (i16::from(p1) - i16::from(s1)).min(i16::from(p2) - i16::from(s2));
            (integral + i16::from(s1.max(s2))).clamp(1, 38) as u8
        }
        _ => DIGITS as u8,
    };
    let DataType::Decimal128(_, scale) = widest else { return Ok(value) };
    Ok(match value {
        ColumnarValue::Array(array) => {
            let array = array.as_primitive::<Decimal128Type>().clone();
            ColumnarValue::Array(Arc::new(array.with_precision_and_scale(precision, scale)?))
        }
        ColumnarValue::Scalar(ScalarValue::Decimal128(value, ..)) => {
            ColumnarValue::Scalar(ScalarValue::Decimal128(value, precision, scale))
        }
        other => other,
    })
}

fn of_decimal(value: &ColumnarValue) -> Result<i8> {
    match value.data_type() {
        DataType::Decimal128(_, scale) => Ok(scale),
        other => internal_err!("a decimal of type {other}"),
    }
}

fn fits(value: i128) -> bool {
    -END < value && value < END
}

/// The quotient, rounded half away from zero.
fn rounded_quotient(value: i256, by: i128) -> Option<i128> {
    let by = i256::from(by);
    let (quotient, rest) = (value.checked_div(by)?, value.checked_rem(by)?);
    let is_half = rest.wrapping_abs().checked_mul(i256::from(2))? >= by;
    let away = if value.is_negative() { i256::MINUS_ONE } else { i256::ONE };
    if is_half { quotient.checked_add(away)?.to_i128() } else { quotient.to_i128() }
}

/// A value divided by `10^by`, rounded half away from zero.
pub(super) fn rounded(value: i128, by: i128) -> i128 {
    let (quotient, rest) = (value / by, value % by);
    // Twice the remainder may overflow.
    let is_half = rest.unsigned_abs() >= by.unsigned_abs() - rest.unsigned_abs();
    if is_half && rest != 0 { quotient + value.signum() } else { quotient }
}

/// Applies a function to the values of two operands, each of which is a scalar or an array.
fn each<R: ArrowPrimitiveType>(
    left: &ColumnarValue,
    right: &ColumnarValue,
    f: impl Fn(i128, i128) -> Result<R::Native, ArrowError>,
) -> Result<ColumnarValue> {
    let decimals = |array: &ArrayRef| array.as_primitive::<Decimal128Type>().clone();
    let one = |value: &ScalarValue| match value {
        ScalarValue::Decimal128(value, ..) => *value,
        _ => None,
    };
    Ok(match (left, right) {
        (ColumnarValue::Array(a), ColumnarValue::Array(b)) => {
            ColumnarValue::Array(Arc::new(try_binary::<_, _, _, R>(&decimals(a), &decimals(b), f)?))
        }
        (ColumnarValue::Array(a), ColumnarValue::Scalar(b)) => ColumnarValue::Array(match one(b) {
            Some(b) => Arc::new(decimals(a).try_unary::<_, R, ArrowError>(|a| f(a, b))?),
            None => Arc::new(PrimitiveArray::<R>::new_null(a.len())),
        }),
        (ColumnarValue::Scalar(a), ColumnarValue::Array(b)) => ColumnarValue::Array(match one(a) {
            Some(a) => Arc::new(decimals(b).try_unary::<_, R, ArrowError>(|b| f(a, b))?),
            None => Arc::new(PrimitiveArray::<R>::new_null(b.len())),
        }),
        (ColumnarValue::Scalar(a), ColumnarValue::Scalar(b)) => {
            let value = one(a).zip(one(b)).map(|(a, b)| f(a, b)).transpose()?;
            let array = PrimitiveArray::<R>::from_iter([value]);
            ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)
        }
    })
}

/// The quotients of decimals and integers, each the nearest DOUBLE.
pub(super) fn quotients(left: &ColumnarValue, right: &ColumnarValue) -> Result<ColumnarValue> {
    let (left, right) = (as_decimal(left)?, as_decimal(right)?);
    let shift = i32::from(of_decimal(&right)?) - i32::from(of_decimal(&left)?);
    let (up, down) = (power_256(shift), power_256(-shift));
    each::<Float64Type>(&left, &right, move |a, b| match (b, up, down) {
        (0, ..) => Err(ArrowError::DivideByZero),
        (_, Some(up), Some(down)) => Ok(quotient(a, b, up, down)),
        _ => Err(ArrowError::ArithmeticOverflow("a quotient".to_owned())),
    })
}

/// The quotients of whole numbers, without fractions.
pub(super) fn whole_quotients(left: &ColumnarValue, right: &ColumnarValue) -> Result<ColumnarValue> {
    let (left, right) = (as_decimal(left)?, as_decimal(right)?);
    let value = each::<Decimal128Type>(&left, &right, |a, b| match b {
        0 => Err(ArrowError::DivideByZero),
        b => Ok(a / b),
    })?;
    with_type(value, Operator::IntegerDivide, &left, &right, DataType::Decimal128(DIGITS as u8, 0))
}

/// A power of 10; 1 for negative exponents.
fn power_256(exponent: i32) -> Option<i256> {
    i256::from(10).checked_pow(u32::try_from(exponent).unwrap_or(0))
}

/// `a * up / (b * down)`, rounded to the nearest DOUBLE.
#[inline]
fn quotient(a: i128, b: i128, up: i256, down: i256) -> f64 {
    if let (Some(a), Some(b)) = (exact_double(a, up), exact_double(b, down)) {
        // Their quotient is rounded once. Zero has no sign.
        return a / b + 0.0;
    }
    let negative = (a < 0) != (b < 0);
    let magnitude = |value: i128, by: i256| i256::from_parts(value.unsigned_abs(), 0).wrapping_mul(by);
    let magnitude = nearest(magnitude(a, up), magnitude(b, down));
    if negative && a != 0 { -magnitude } else { magnitude }
}

/// A product of small numbers, if it is exact as DOUBLE. Numbers of 64 bits take less time than those of 128.
#[inline]
fn exact_double(value: i128, by: i256) -> Option<f64> {
    let (by, high) = by.to_parts();
    if high != 0 {
        return None;
    }
    let product = i64::try_from(value).ok()?.checked_mul(i64::try_from(by).ok()?)?;
    (product.unsigned_abs() <= DOUBLE_EXACT).then_some(product as f64)
}

/// The DOUBLE nearest to a quotient of positive integers below 2^254.
fn nearest(a: i256, b: i256) -> f64 {
    if a == i256::ZERO {
        return 0.0;
    }
    // Computes 64 bits of the quotient by long division, and whether there is a remainder. So the only rounding is that
    // of the conversion.
    let (whole, mut rest) = (a.wrapping_div(b), a.wrapping_rem(b));
    let width = 256 - whole.leading_zeros() as i32;
    let (mut bits, mut exponent, mut inexact) = (0u64, 0, false);
    if width > 64 {
        exponent = width - 64;
        let top = whole >> exponent as u8;
        bits = top.to_parts().0 as u64;
        inexact = top << exponent as u8 != whole;
    } else {
        bits |= whole.to_parts().0 as u64;
        while bits >> 63 == 0 && rest != i256::ZERO {
            rest = rest.wrapping_add(rest);
            bits <<= 1;
            exponent -= 1;
            if rest >= b {
                rest = rest.wrapping_sub(b);
                bits |= 1;
            }
        }
    }
    inexact |= rest != i256::ZERO;
    ((bits | u64::from(inexact)) as f64) * 2f64.powi(exponent)
}

/// Decimals as their nearest DOUBLEs.
pub(super) fn doubles(array: &ArrayRef) -> Result<ArrayRef> {
    let DataType::Decimal128(_, scale) = array.data_type() else {
        return internal_err!("a decimal of type {}", array.data_type());
    };
    let Some(down) = power_256((*scale).into()) else { return internal_err!("a scale of {scale}") };
    let doubles: Float64Array =
        array.as_primitive::<Decimal128Type>().unary(|value| quotient(value, 1, i256::ONE, down));
    Ok(Arc::new(doubles))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(a: i128, a_scale: i8, b: i128, b_scale: i8) -> f64 {
        let value = |v, scale| ColumnarValue::Scalar(ScalarValue::Decimal128(Some(v), 38, scale));
        match quotients(&value(a, a_scale), &value(b, b_scale)).expect("a quotient") {
            ColumnarValue::Scalar(ScalarValue::Float64(Some(quotient))) => quotient,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn quotients_are_rounded_once() {
        assert_eq!(divided(10, 1, 3, 0), 1.0 / 3.0);
        assert_eq!(divided(-20, 1, 3, 0), -2.0 / 3.0);
        assert_eq!(divided(0, 0, -3, 0).to_bits(), 0, "zero has no sign");
        assert_eq!(divided(END - 1, 0, 1, 38), 1e76);
        assert_eq!(divided(1, 38, END - 1, 0), 1e-76);
        assert_eq!(divided(1234567890123456789012345678901234567, 20, 1, 0), 12_345_678_901_234_568.0);
        assert_eq!(divided(64053151420411946063694043751862251568, 37, 1, 0), 6.405_315_142_041_195);
        // 2^53 + 1 is between two DOUBLEs; a slightly larger number is rounded up.
        assert_eq!(divided(9_007_199_254_740_993, 0, 1, 0), 9_007_199_254_740_992.0);
        assert_eq!(divided(90_071_992_547_409_930_001, 4, 1, 0), 9_007_199_254_740_994.0);
    }

    #[test]
    fn halves_are_rounded_away_from_zero() {
        for (value, by, expected) in
            [(25, 10, 3), (-25, 10, -3), (24, 10, 2), (-24, 10, -2), (0, 10, 0), (7, 1, 7), (END - 1, END / 10, 10)]
        {
            assert_eq!(rounded(value, by), expected, "{value} / {by}");
            assert_eq!(rounded_quotient(i256::from(value), by), Some(expected), "{value} / {by}");
        }
    }

    #[test]
    fn products_past_all_digits_fail() {
        let value = |v, scale| ColumnarValue::Scalar(ScalarValue::Decimal128(Some(v), 38, scale));
        let product = |a, b, digits| match binary(Operator::Multiply, &a, &b, digits) {
            Ok(ColumnarValue::Scalar(ScalarValue::Decimal128(value, ..))) => value,
            _ => None,
        };
        assert_eq!(product(value(END / 10, 0), value(9, 0), 0), Some(END / 10 * 9));
        assert_eq!(product(value(END / 10, 0), value(10, 0), 0), None);
        assert_eq!(product(value(i128::MAX, 0), value(2, 0), 0), None);
        // 1.5 × 0.5, with scale 30 each, is rounded to scale 30.
        let (a, b) = (15 * 10i128.pow(29), 5 * 10i128.pow(29));
        assert_eq!(product(value(a, 30), value(b, 30), 30), Some(75 * 10i128.pow(28)));
    }
}
