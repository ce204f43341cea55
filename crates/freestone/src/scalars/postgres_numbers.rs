//! Functions of numbers that only PostgreSQL has: digits of decimals, whole quotients, angles in degrees, numbers of NULLs.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Builder, Float64Array, Int64Array};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Float64Type, i256};
use datafusion::error::Result;

use super::function::Scalar;
use super::kinds::Kind::{Any, List, Number, Real, Rest};
use super::kinds::{INT, REAL};
use super::rows::{any_null, invalid, lists, reals, too_large};
use crate::error::{Error, ErrorKind};
use crate::times::{Call, exact_cast, map};

pub(super) fn all() -> Vec<Scalar> {
    let of_angle = |name: &'static str, value: fn(f64) -> f64| {
        Scalar::new(&[name], &[&[Real]], REAL, move |call| of_degrees(call, name, value))
    };
    let of_share = |name: &'static str, value: fn(f64) -> f64| {
        Scalar::new(&[name], &[&[Real]], REAL, move |call| of_ratio(call, name, value))
    };
    vec![
        Scalar::new(&["scale"], &[&[Number]], INT, |call| digits_behind(call, false)),
        Scalar::new(&["min_scale"], &[&[Number]], INT, |call| digits_behind(call, true)),
        Scalar::new(&["div"], &[&[Number, Number]], DataType::Decimal128(38, 0), whole_quotient),
        of_angle("sind", sine),
        of_angle("cosd", cosine),
        of_angle("tand", tangent),
        of_angle("cotd", cotangent),
        of_share("asind", arcsine),
        of_share("acosd", arccosine),
        Scalar::new(&["atand"], &[&[Real]], REAL, |call| {
            Ok(Arc::new(reals(call, 0)?.unary::<_, Float64Type>(|ratio| ratio.atan() / 1f64.atan() * 45.0)))
        }),
        Scalar::new(&["atan2d"], &[&[Real, Real]], REAL, |call| {
            let (y, x) = (reals(call, 0)?, reals(call, 1)?);
            let angles = y.iter().zip(&x).map(|(y, x)| Some(y?.atan2(x?) / 1f64.atan() * 45.0));
            Ok(Arc::new(angles.collect::<Float64Array>()))
        }),
        Scalar::new(&["num_nulls"], &[&[Any, Rest]], INT, |call| nulls_of_arguments(call, true)),
        Scalar::new(&["num_nonnulls"], &[&[Any, Rest]], INT, |call| nulls_of_arguments(call, false)),
        Scalar::new(&["freestone_nulls_of_list"], &[&[List]], INT, |call| nulls_of_lists(call, true)),
        Scalar::new(&["freestone_values_of_list"], &[&[List]], INT, |call| nulls_of_lists(call, false)),
    ]
}

/// Exact numbers as decimals with their digits behind the point.
fn decimals(call: &Call, at: usize, function: &str) -> Result<(ArrayRef, u8)> {
    let values = call.array(at)?;
    let scale = match values.data_type() {
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => *scale,
        kind if kind.is_integer() => 0,
        _ => return invalid(format!("{function} takes integers and decimals of at most 38 digits")),
    };
    let values = exact_cast(&values, &DataType::Decimal128(38, scale))?;
    Ok((values, u8::try_from(scale).unwrap_or(0)))
}

/// The digits behind the point: those of the type, or those that are needed.
fn digits_behind(call: &Call, needed: bool) -> Result<ArrayRef> {
    let (values, scale) = decimals(call, 0, if needed { "min_scale" } else { "scale" })?;
    let count = |value: i128| {
        let (mut value, mut scale) = (value, i64::from(scale));
        while needed && scale > 0 && value % 10 == 0 {
            (value, scale) = (value / 10, scale - 1);
        }
        scale
    };
    let values = values.as_primitive::<Decimal128Type>();
    Ok(Arc::new(values.iter().map(|value| value.map(count)).collect::<Int64Array>()))
}

/// `div(a, b)`: the quotient without what is behind its point.
fn whole_quotient(call: &Call) -> Result<ArrayRef> {
    let ((a, scale_a), (b, scale_b)) = (decimals(call, 0, "div")?, decimals(call, 1, "div")?);
    let (a, b) = (a.as_primitive::<Decimal128Type>(), b.as_primitive::<Decimal128Type>());
    let power = |digits: u8| i256::from_i128(10i128.pow(u32::from(digits.min(38))));
    let (up_a, up_b) = (power(scale_b), power(scale_a));
    let mut quotients = Decimal128Builder::with_capacity(a.len()).with_precision_and_scale(38, 0)?;
    for row in 0..a.len() {
        if any_null(&[a, b], row) {
            quotients.append_null();
            continue;
        }
        if b.value(row) == 0 {
            return Err(Error::new(ErrorKind::Type, "division by zero").into());
        }
        let (a, b) = (i256::from_i128(a.value(row)) * up_a, i256::from_i128(b.value(row)) * up_b);
        match a
            .checked_div(b)
            .and_then(|quotient| quotient.to_i128())
            .filter(|value| value.unsigned_abs() < 10u128.pow(38))
        {
            Some(quotient) => quotients.append_value(quotient),
            None => return too_large("div"),
        }
    }
    Ok(Arc::new(quotients.finish()))
}

/// A function of an angle, which is finite or NaN.
fn of_degrees(call: &Call, name: &str, value: fn(f64) -> f64) -> Result<ArrayRef> {
    let of_angle = |angle: f64| match angle.is_infinite() {
        true => invalid(format!("{name} of an infinite angle is not defined")),
        false => Ok(value(angle)),
    };
    Ok(Arc::new(map::<Float64Type, Float64Type>(&reals(call, 0)?, of_angle)?))
}

/// A function of a number from -1 to 1, or of NaN.
fn of_ratio(call: &Call, name: &str, value: fn(f64) -> f64) -> Result<ArrayRef> {
    let of_ratio = |ratio: f64| match ratio.abs() > 1.0 {
        true => invalid(format!("{name} takes a number from -1 to 1, and was given {ratio}")),
        false => Ok(value(ratio)),
    };
    Ok(Arc::new(map::<Float64Type, Float64Type>(&reals(call, 0)?, of_ratio)?))
}

/// An angle in the first two quadrants, and the signs that sine, cosine and tangent have for it. As in PostgreSQL's `float.c`, the
/// functions of multiples of 30 and 45 degrees are exact.
struct Angle {
    /// From 0 to 90 degrees.
    degrees: f64,
    sine: f64,
    cosine: f64,
}

impl Angle {
    fn of(degrees: f64) -> Angle {
        let (mut degrees, mut sine, mut cosine) = (degrees % 360.0, 1.0, 1.0);
        if degrees < 0.0 {
            (degrees, sine) = (-degrees, -sine);
        }
        if degrees > 180.0 {
            (degrees, sine) = (360.0 - degrees, -sine);
        }
        if degrees > 90.0 {
            (degrees, cosine) = (180.0 - degrees, -cosine);
        }
        Angle { degrees, sine, cosine }
    }
}

/// The sine of 0 to 30 degrees.
fn sine_of_small(degrees: f64) -> f64 {
    degrees.to_radians().sin() / 30f64.to_radians().sin() / 2.0
}

/// The cosine of 0 to 60 degrees.
fn cosine_of_small(degrees: f64) -> f64 {
    1.0 - (1.0 - degrees.to_radians().cos()) / (1.0 - 60f64.to_radians().cos()) / 2.0
}

/// The sine of 0 to 90 degrees.
fn sine_of_acute(degrees: f64) -> f64 {
    if degrees <= 30.0 { sine_of_small(degrees) } else { cosine_of_small(90.0 - degrees) }
}

/// The cosine of 0 to 90 degrees.
fn cosine_of_acute(degrees: f64) -> f64 {
    if degrees <= 60.0 { cosine_of_small(degrees) } else { sine_of_small(90.0 - degrees) }
}

fn sine(degrees: f64) -> f64 {
    let angle = Angle::of(degrees);
    angle.sine * sine_of_acute(angle.degrees)
}

fn cosine(degrees: f64) -> f64 {
    let angle = Angle::of(degrees);
    angle.cosine * cosine_of_acute(angle.degrees)
}

fn tangent(degrees: f64) -> f64 {
    let angle = Angle::of(degrees);
    let ratio = |degrees: f64| sine_of_acute(degrees) / cosine_of_acute(degrees);
    // Zero has no sign.
    angle.sine * angle.cosine * (ratio(angle.degrees) / ratio(45.0)) + 0.0
}

fn cotangent(degrees: f64) -> f64 {
    let angle = Angle::of(degrees);
    let ratio = |degrees: f64| cosine_of_acute(degrees) / sine_of_acute(degrees);
    angle.sine * angle.cosine * (ratio(angle.degrees) / ratio(45.0)) + 0.0
}

/// The arcsine of 0 to 1.
fn arcsine_of_positive(ratio: f64) -> f64 {
    match ratio <= 0.5 {
        true => ratio.asin() / 0.5f64.asin() * 30.0,
        false => 90.0 - ratio.acos() / 0.5f64.acos() * 60.0,
    }
}

fn arcsine(ratio: f64) -> f64 {
    if ratio < 0.0 { -arcsine_of_positive(-ratio) } else { arcsine_of_positive(ratio) }
}

fn arccosine(ratio: f64) -> f64 {
    match ratio {
        ratio if ratio < 0.0 => 90.0 + arcsine_of_positive(-ratio),
        ratio if ratio <= 0.5 => 90.0 - ratio.asin() / 0.5f64.asin() * 30.0,
        ratio => ratio.acos() / 0.5f64.acos() * 60.0,
    }
}

/// How many arguments of a row are NULL, or are not.
fn nulls_of_arguments(call: &Call, are_null: bool) -> Result<ArrayRef> {
    let nulls: Vec<_> = (0..call.count()).map(|at| Ok(call.array(at)?.logical_nulls())).collect::<Result<_>>()?;
    let is_null = |row: usize| {
        let counted = nulls.iter().filter(|nulls| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) == are_null);
        counted.count() as i64
    };
    Ok(Arc::new(Int64Array::from_iter_values((0..call.rows()).map(is_null))))
}

/// How many values of each list are NULL, or are not.
fn nulls_of_lists(call: &Call, are_null: bool) -> Result<ArrayRef> {
    let lists = lists(call, 0)?;
    let count = |list: Option<ArrayRef>| {
        let list = list?;
        let nulls = list.logical_nulls().map_or(0, |nulls| nulls.null_count());
        Some(if are_null { nulls } else { list.len() - nulls } as i64)
    };
    Ok(Arc::new(lists.iter().map(count).collect::<Int64Array>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiples_of_thirty_degrees_are_exact() {
        for (degrees, sin, cos) in [
            (0.0, 0.0, 1.0),
            (30.0, 0.5, 3f64.sqrt() / 2.0),
            (60.0, 3f64.sqrt() / 2.0, 0.5),
            (90.0, 1.0, 0.0),
            (150.0, 0.5, -(3f64.sqrt()) / 2.0),
            (180.0, 0.0, -1.0),
            (210.0, -0.5, -(3f64.sqrt()) / 2.0),
            (270.0, -1.0, 0.0),
            (-330.0, 0.5, 3f64.sqrt() / 2.0),
            (720.0, 0.0, 1.0),
        ] {
            let is = |a: f64, b: f64| if (2.0 * b).fract() == 0.0 { a == b } else { (a - b).abs() < 1e-15 };
            assert!(
                is(sine(degrees), sin) && is(cosine(degrees), cos),
                "{degrees}: {} {}",
                sine(degrees),
                cosine(degrees)
            );
        }
        assert_eq!((tangent(45.0), tangent(135.0), cotangent(45.0), cotangent(225.0)), (1.0, -1.0, 1.0, 1.0));
        assert_eq!((arcsine(0.5), arcsine(-1.0), arccosine(0.5), arccosine(-0.5)), (30.0, -90.0, 60.0, 120.0));
        assert!(sine(f64::NAN).is_nan() && arccosine(f64::NAN).is_nan());
    }
}
