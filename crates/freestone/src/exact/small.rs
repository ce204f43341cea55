//! Sums and products of decimals so small that no result can exceed its type. Whether they are is asked once per batch, so
//! that the loop over the values has no checks.

use datafusion::arrow::array::{AsArray, PrimitiveArray};
use datafusion::arrow::compute::binary as each_pair;
use datafusion::arrow::datatypes::Decimal128Type;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{ColumnarValue, Operator};

/// The bits of the magnitudes of products that are less than 10^38.
const PRODUCT_BITS: u32 = 126;
/// The bits of the operands and results of arithmetic in 64 bits.
const NARROW_BITS: u32 = 62;

/// `left op right` with `digits` digits after the decimal point, from operands and their scales; `None` if the operation is
/// another one, if none of the operands is an array, or if a result might not fit.
pub(super) fn binary(
    op: Operator,
    (left, left_scale): (&ColumnarValue, i8),
    (right, right_scale): (&ColumnarValue, i8),
    digits: i8,
) -> Option<ColumnarValue> {
    let (left_bits, right_bits) = (bits(left)?, bits(right)?);
    match op {
        Operator::Multiply if left_scale + right_scale == digits => match left_bits + right_bits {
            ..=NARROW_BITS => each(left, right, |a, b| i128::from((a as i64).wrapping_mul(b as i64))),
            ..=PRODUCT_BITS if left_bits.max(right_bits) <= NARROW_BITS => {
                each(left, right, |a, b| i128::from(a as i64).wrapping_mul(i128::from(b as i64)))
            }
            _ => None,
        },
        Operator::Plus | Operator::Minus => {
            let (up_a, up_b) = (power(digits - left_scale)?, power(digits - right_scale)?);
            let is_narrow = |bits: u32, up: i128| bits + magnitude_bits(up) < NARROW_BITS;
            if !is_narrow(left_bits, up_a) || !is_narrow(right_bits, up_b) {
                return None;
            }
            let (up_a, up_b) = (up_a as i64, if op == Operator::Plus { up_b as i64 } else { -(up_b as i64) });
            each(left, right, move |a, b| {
                i128::from((a as i64).wrapping_mul(up_a).wrapping_add((b as i64).wrapping_mul(up_b)))
            })
        }
        _ => None,
    }
}

/// A power of 10; `None` if it exceeds 38 digits, in which case no digit of a value remains.
pub(super) fn power(exponent: i8) -> Option<i128> {
    10i128.checked_pow(u32::try_from(exponent).ok()?)
}

/// The smallest number of bits such that the magnitude of a value is at most two to its power.
fn magnitude_bits(value: i128) -> u32 {
    i128::BITS - (value ^ (value >> 127)).leading_zeros()
}

/// The bits of the largest magnitude of an operand; `None` for NULL and other types.
fn bits(value: &ColumnarValue) -> Option<u32> {
    match value {
        ColumnarValue::Array(array) => {
            let values = array.as_primitive_opt::<Decimal128Type>()?.values();
            Some(magnitude_bits(values.iter().fold(0, |bits, value| bits | (value ^ (value >> 127)))))
        }
        ColumnarValue::Scalar(ScalarValue::Decimal128(value, ..)) => value.map(magnitude_bits),
        ColumnarValue::Scalar(_) => None,
    }
}

/// Applies a function to all pairs of values, also below NULLs, where any result is fine.
fn each(left: &ColumnarValue, right: &ColumnarValue, f: impl Fn(i128, i128) -> i128) -> Option<ColumnarValue> {
    let computed: PrimitiveArray<Decimal128Type> = match (left, right) {
        (ColumnarValue::Array(a), ColumnarValue::Array(b)) => {
            each_pair(a.as_primitive_opt::<Decimal128Type>()?, b.as_primitive_opt::<Decimal128Type>()?, f).ok()?
        }
        (ColumnarValue::Array(a), ColumnarValue::Scalar(ScalarValue::Decimal128(Some(b), ..))) => {
            a.as_primitive_opt::<Decimal128Type>()?.unary(|a| f(a, *b))
        }
        (ColumnarValue::Scalar(ScalarValue::Decimal128(Some(a), ..)), ColumnarValue::Array(b)) => {
            b.as_primitive_opt::<Decimal128Type>()?.unary(|b| f(*a, b))
        }
        _ => return None,
    };
    Some(ColumnarValue::Array(std::sync::Arc::new(computed)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, Decimal128Array};

    use super::*;

    fn column(values: &[Option<i128>]) -> ColumnarValue {
        let array = Decimal128Array::from(values.to_vec()).with_precision_and_scale(38, 2).expect("decimals");
        ColumnarValue::Array(Arc::new(array) as ArrayRef)
    }

    fn values(value: &ColumnarValue) -> Vec<Option<i128>> {
        let ColumnarValue::Array(array) = value else { return vec![] };
        array.as_primitive::<Decimal128Type>().iter().collect()
    }

    /// The result, compared with arithmetic of 128 bits; `None` if the operands are too large.
    fn check(op: Operator, a: i128, b: i128) -> Option<i128> {
        let left = column(&[Some(a), None, Some(0)]);
        let right = column(&[Some(b), Some(b), Some(b)]);
        let digits = if op == Operator::Multiply { 4 } else { 2 };
        let pairs = binary(op, (&left, 2), (&right, 2), digits)?;
        let scalar = ColumnarValue::Scalar(ScalarValue::Decimal128(Some(b), 38, 2));
        let single = binary(op, (&left, 2), (&scalar, 2), digits)?;
        let exact = match op {
            Operator::Multiply => a.checked_mul(b),
            Operator::Plus => a.checked_add(b),
            _ => a.checked_sub(b),
        };
        let exact = exact.expect("the result fits");
        assert!(exact.unsigned_abs() < 10u128.pow(38), "{a} {op} {b}");
        assert_eq!([values(&pairs)[0], values(&single)[0]], [Some(exact); 2], "{a} {op} {b}");
        assert_eq!([values(&pairs)[1], values(&single)[1]], [None; 2]);
        Some(exact)
    }

    #[test]
    fn small_operands_agree_with_128_bits() {
        let powers = (0..127).flat_map(|bit| [-1, 0, 1].map(|step| (1i128 << bit) + step));
        let edges: Vec<i128> = powers.flat_map(|value| [value, -value]).chain([i128::MAX, i128::MIN]).collect();
        let mut small = 0;
        for (at, a) in edges.iter().enumerate() {
            for b in edges.iter().skip(at % 7).step_by(7) {
                for op in [Operator::Plus, Operator::Minus, Operator::Multiply] {
                    small += usize::from(check(op, *a, *b).is_some());
                }
            }
        }
        assert!(small > 10_000, "{small}");
    }

    #[test]
    fn scales_are_aligned() {
        let (left, right) = (column(&[Some(150), Some(-5)]), column(&[Some(7), Some(3)]));
        let sum = binary(Operator::Plus, (&left, 2), (&right, 0), 2).expect("small operands");
        assert_eq!(values(&sum), [Some(850), Some(295)]);
        let difference = binary(Operator::Minus, (&left, 0), (&right, 2), 3).expect("small operands");
        assert_eq!(values(&difference), [Some(149_930), Some(-5_030)]);
        // A product with fewer digits is rounded, and a quotient is not exact.
        assert!(binary(Operator::Multiply, (&left, 2), (&right, 2), 3).is_none());
        assert!(binary(Operator::Divide, (&left, 2), (&right, 2), 4).is_none());
    }
}
