//! Integers divided by a constant, and quotients of integers as floats.

use arrow_buffer::NullBuffer;

use crate::vector::{Values, Vector};

/// Which integer a quotient becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// The next one towards zero.
    TowardsZero,
    /// The next lower one.
    Down,
    /// The next greater one.
    Up,
    /// The nearest one, and of two the one away from zero.
    Nearest,
}

impl Rounding {
    /// The quotient of a value and a positive divisor.
    #[inline]
    pub fn quotient(self, value: i64, divisor: i64) -> i64 {
        let (whole, rest) = (value / divisor, value % divisor);
        match self {
            Rounding::TowardsZero => whole,
            Rounding::Down => whole - i64::from(rest < 0),
            Rounding::Up => whole + i64::from(rest > 0),
            Rounding::Nearest => {
                // Without a branch, which could not be predicted.
                let half = divisor / 2 + divisor % 2;
                whole + i64::from(rest >= half) - i64::from(rest <= -half)
            }
        }
    }
}

/// The quotients of integers and a positive divisor.
pub fn divided(ints: &Vector, divisor: i64, rounding: Rounding) -> Vector {
    let values = ints.as_ints();
    // One loop for each, in which the rounding is known.
    let quotients: Vec<i64> = match rounding {
        Rounding::TowardsZero => each(values, |value| Rounding::TowardsZero.quotient(value, divisor)),
        Rounding::Down => each(values, |value| Rounding::Down.quotient(value, divisor)),
        Rounding::Up => each(values, |value| Rounding::Up.quotient(value, divisor)),
        Rounding::Nearest => each(values, |value| Rounding::Nearest.quotient(value, divisor)),
    };
    Vector::with_nulls(Values::Int(quotients.into()), ints.valid.clone())
}

/// What is left of integers when they are divided by a positive divisor, with the sign of each.
pub fn remainders(ints: &Vector, divisor: i64) -> Vector {
    let values = each(ints.as_ints(), |value| value % divisor);
    Vector::with_nulls(Values::Int(values.into()), ints.valid.clone())
}

fn each(values: &[i64], f: impl Fn(i64) -> i64) -> Vec<i64> {
    values.iter().map(|value| f(*value)).collect()
}

/// Quotients of integers that floats represent exactly, so that each is rounded once. Divisors are zero only where they are NULL. Zero
/// has no sign.
pub fn quotients(ints: &Vector, divisors: &Vector) -> Vector {
    let both = ints.as_ints().iter().zip(divisors.as_ints());
    let values: Vec<f64> = both.map(|(value, divisor)| *value as f64 / *divisor as f64 + 0.0).collect();
    Vector::with_nulls(Values::Float(values.into()), NullBuffer::union(ints.valid.as_ref(), divisors.valid.as_ref()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn halves_are_rounded_away_from_zero() {
        let nearest = |value, divisor| Rounding::Nearest.quotient(value, divisor);
        assert_eq!([-15, -14, -5, -4, 0, 4, 5, 14, 15].map(|value| nearest(value, 10)), [-2, -1, -1, 0, 0, 0, 1, 1, 2]);
        assert_eq!([-5, -4, -3, 3, 4, 5].map(|value| nearest(value, 7)), [-1, -1, 0, 0, 1, 1]);
        assert_eq!((nearest(i64::MIN, 1), nearest(i64::MAX, i64::MAX)), (i64::MIN, 1));
    }

    #[test]
    fn quotients_of_zero_have_no_sign() {
        let found = quotients(&Vector::ints(vec![0, 0, 7, -7]), &Vector::ints(vec![-3, 3, 2, 2]));
        let bits: Vec<u64> = found.as_floats().iter().map(|quotient| quotient.to_bits()).collect();
        assert_eq!(bits, [0.0, 0.0, 3.5, -3.5].map(f64::to_bits));
        let valid = Some(vec![false, true].into());
        let found = quotients(&Vector::ints(vec![1, 1]), &Vector::with_nulls(Values::Int(vec![0, 4].into()), valid));
        assert!(found.is_null(0) && found.as_floats()[1] == 0.25);
        let divided = divided(&Vector::ints(vec![-7, 7]), 2, Rounding::Down);
        assert_eq!(
            (divided.as_ints(), remainders(&Vector::ints(vec![-7, 7]), 2).as_ints()),
            (&[-4, 3][..], &[-1, 1][..])
        );
    }

    proptest! {
        #[test]
        fn quotients_are_those_of_wider_integers(value: i64, divisor in prop_oneof![1i64..9, 1..=i64::MAX]) {
            let (wide, by) = (i128::from(value), i128::from(divisor));
            let down = wide.div_euclid(by);
            let exact = [
                (Rounding::TowardsZero, wide / by),
                (Rounding::Down, down),
                (Rounding::Up, down + i128::from(wide.rem_euclid(by) != 0)),
                (Rounding::Nearest, wide.signum() * ((wide.abs() * 2 + by) / (by * 2))),
            ];
            for (rounding, expected) in exact {
                prop_assert_eq!(i128::from(rounding.quotient(value, divisor)), expected, "{:?}", rounding);
            }
        }
    }
}
