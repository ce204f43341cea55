//! Functions of numbers, and random numbers.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Builder, Float64Array, Int64Array, UInt64Array,
};
use datafusion::arrow::compute;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::error::Result;
use datafusion::logical_expr::Volatility;

use super::bits;
use super::function::Scalar;
use super::kinds::Kind::{Bytes, Date, Int, List, Number, Real, Text};
use super::kinds::{BOOL, INT, REAL, TEXT};
use super::postgres_arrays;
use super::rows::{any_null, bytes, ints, invalid, lists, reals, too_large};
use crate::sql::function_macros::BITS_NOT;
use crate::times::{Call, exact_cast, infinite, integers, is_text, map};

pub(super) fn all() -> Vec<Scalar> {
    let random = Random::default();
    let seeded = random.clone();
    vec![
        Scalar::new(&["even"], &[&[Real]], REAL, |call| of_real(call, even)),
        Scalar::new(&["gamma"], &[&[Real]], REAL, |call| checked(call, gamma)),
        Scalar::new(&["lgamma"], &[&[Real]], REAL, |call| checked(call, ln_gamma)),
        Scalar::new(&["nextafter"], &[&[Real, Real]], REAL, next_after),
        Scalar::new(&["signbit"], &[&[Real]], BOOL, |call| test(call, |value| value.is_sign_negative())),
        Scalar::new(&["isinf"], &[&[Real], &[Date]], BOOL, |call| test(call, f64::is_infinite)),
        Scalar::new(&["isfinite"], &[&[Real], &[Date]], BOOL, |call| test(call, f64::is_finite)),
        Scalar::new(&["round_even", "roundbankers"], &[&[Real, Int]], REAL, round_even),
        Scalar::new(&["bit_count"], &[&[Number], &[Bytes], &[Text]], INT, bit_count),
        Scalar::typed(&[BITS_NOT], &[&[Number], &[Text]], |types, _| whole(types), bits_not),
        Scalar::new(&["binom"], &[&[Int, Int]], DataType::Decimal128(38, 0), binom),
        Scalar::new(&["width_bucket"], &[&[Real, Real, Real, Int], &[Real, List]], INT, width_bucket),
        Scalar::new(&["random", "rand"], &[&[]], REAL, move |call| Ok(random.values(call.rows())))
            .of_volatility(Volatility::Volatile),
        Scalar::new(&["setseed"], &[&[Real]], DataType::Null, move |call| seeded.seed(call))
            .of_volatility(Volatility::Volatile),
    ]
}

fn of_real(call: &Call, value: impl Fn(f64) -> f64) -> Result<ArrayRef> {
    Ok(Arc::new(reals(call, 0)?.unary::<_, Float64Type>(value)))
}

fn checked(call: &Call, value: impl Fn(f64) -> Result<f64>) -> Result<ArrayRef> {
    Ok(Arc::new(map::<Float64Type, Float64Type>(&reals(call, 0)?, value)?))
}

/// A test of numbers; dates and timestamps are finite.
fn test(call: &Call, is: fn(f64) -> bool) -> Result<ArrayRef> {
    let values = call.array(0)?;
    if values.data_type().is_temporal() {
        let kind = values.data_type();
        let of = |value: i64| is(if infinite(value, kind).is_some() { f64::INFINITY } else { 0.0 });
        return Ok(Arc::new(integers(&values)?.iter().map(|value| value.map(of)).collect::<BooleanArray>()));
    }
    Ok(Arc::new(reals(call, 0)?.iter().map(|value| value.map(is)).collect::<BooleanArray>()))
}

/// The value rounded away from zero to an even number.
fn even(value: f64) -> f64 {
    let up = value.abs().ceil();
    let size = if up % 2.0 == 1.0 { up + 1.0 } else { up };
    if value < 0.0 { -size } else { size }
}

/// `binom(n, k)`: in how many ways `k` of `n` things can be chosen.
fn binom(call: &Call) -> Result<ArrayRef> {
    let (all, chosen) = (ints(call, 0)?, ints(call, 1)?);
    let mut ways = Decimal128Builder::new().with_precision_and_scale(38, 0)?;
    for row in 0..all.len() {
        if any_null(&[&all, &chosen], row) {
            ways.append_null();
            continue;
        }
        ways.append_value(choices(all.value(row), chosen.value(row))?);
    }
    Ok(Arc::new(ways.finish()))
}

fn choices(all: i64, chosen: i64) -> Result<i128> {
    if all < 0 || chosen < 0 {
        return invalid("binom of negative numbers is not defined");
    }
    let (all, chosen) = (i128::from(all), i128::from(chosen));
    if chosen > all {
        return Ok(0);
    }
    let mut ways = 1i128;
    for step in 0..chosen.min(all - chosen) {
        // Of consecutive numbers, one is a multiple of each smaller number: no division has a rest.
        let common = common_divisor(ways, step + 1);
        let more = (ways / common).checked_mul((all - step) / ((step + 1) / common));
        ways = match more.filter(|ways| *ways < 10i128.pow(38)) {
            Some(ways) => ways,
            None => return too_large("binom"),
        };
    }
    Ok(ways)
}

fn common_divisor(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The gamma function: from its logarithm, or as a product where that is exact.
fn gamma(value: f64) -> Result<f64> {
    if value == 0.0 {
        return Ok(f64::INFINITY);
    }
    if value < 0.0 && (value.fract() == 0.0 || value.is_infinite()) {
        return Ok(f64::NAN);
    }
    if value.fract() == 0.0 && value <= 23.0 {
        return Ok((1..value as i64).map(|n| n as f64).product());
    }
    let size = lanczos(value.abs()).exp();
    // The reflection formula for negative numbers.
    let pi = std::f64::consts::PI;
    Ok(if value > 0.0 { size } else { -pi / (value.abs() * (pi * value.abs()).sin() * size) })
}

fn ln_gamma(value: f64) -> Result<f64> {
    if value == 0.0 {
        return Ok(f64::INFINITY);
    }
    if value == 1.0 || value == 2.0 {
        return Ok(0.0);
    }
    let pi = std::f64::consts::PI;
    Ok(match value {
        value if value > 0.0 => lanczos(value),
        value if value.fract() == 0.0 => f64::INFINITY,
        value => (pi / (value * (pi * value).sin()).abs()).ln() - lanczos(-value),
    })
}

/// The logarithm of gamma for positive numbers (Lanczos, with g = 7 and the nine coefficients of Godfrey).
fn lanczos(value: f64) -> f64 {
    const COEFFICIENTS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if value.is_infinite() {
        return value;
    }
    let x = value - 1.0;
    let t = x + 7.5;
    let terms = COEFFICIENTS[1..].iter().enumerate().map(|(at, coefficient)| coefficient / (x + at as f64 + 1.0));
    let sum = COEFFICIENTS[0] + terms.sum::<f64>();
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

fn next_after(call: &Call) -> Result<ArrayRef> {
    let next = |from: f64, to: f64| match from.partial_cmp(&to) {
        None => f64::NAN,
        Some(std::cmp::Ordering::Less) => from.next_up(),
        Some(std::cmp::Ordering::Greater) => from.next_down(),
        Some(std::cmp::Ordering::Equal) => to,
    };
    let next: Float64Array = compute::binary(&reals(call, 0)?, &reals(call, 1)?, next)?;
    Ok(Arc::new(next))
}

/// Rounds to a number of digits, halves to the even neighbour.
fn round_even(call: &Call) -> Result<ArrayRef> {
    let (values, digits) = (reals(call, 0)?, ints(call, 1)?);
    let rounded = |value: f64, digits: i64| {
        let scale = 10f64.powi(digits.clamp(-400, 400) as i32);
        let rounded = (value * scale).round_ties_even() / scale;
        if rounded.is_finite() || !value.is_finite() { rounded } else { value }
    };
    let rows = values.iter().zip(digits.iter()).map(|(value, digits)| Some(rounded(value?, digits?)));
    Ok(Arc::new(rows.collect::<Float64Array>()))
}

/// The number of bits that are set. Negative integers have the width of their type.
fn bit_count(call: &Call) -> Result<ArrayRef> {
    let values = call.array(0)?;
    if is_text(values.data_type()) {
        return bits::ones(call);
    }
    let counts: Int64Array = match values.data_type() {
        DataType::BinaryView => {
            let ones = |bytes: &[u8]| bytes.iter().map(|byte| i64::from(byte.count_ones())).sum::<i64>();
            bytes(call, 0)?.iter().map(|bytes| bytes.map(ones)).collect()
        }
        DataType::UInt64 => {
            values.as_primitive::<datafusion::arrow::datatypes::UInt64Type>().unary(|v: u64| i64::from(v.count_ones()))
        }
        kind if kind.is_integer() => {
            let bits = kind.primitive_width().unwrap_or(8) * 8;
            let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
            ints(call, 0)?.unary::<_, Int64Type>(|value| i64::from((value as u64 & mask).count_ones()))
        }
        _ => return invalid("bit_count is for integers and BLOB"),
    };
    Ok(Arc::new(counts))
}

fn whole(types: &[DataType]) -> Result<DataType> {
    match types {
        [kind] if kind.is_integer() => Ok(kind.clone()),
        [kind] if is_text(kind) => Ok(TEXT),
        _ => invalid("~ is for integers and bits"),
    }
}

fn bits_not(call: &Call) -> Result<ArrayRef> {
    if is_text(&call.to) {
        return bits::complement(call);
    }
    if call.to.is_unsigned_integer() {
        let max = exact_cast(&(Arc::new(UInt64Array::from(vec![max_of(&call.to)])) as ArrayRef), &call.to)?;
        let scalar = datafusion::arrow::array::Scalar::new(max);
        return Ok(datafusion::arrow::compute::kernels::numeric::sub(&scalar, &call.array(0)?)?);
    }
    exact_cast(&(Arc::new(ints(call, 0)?.unary::<_, Int64Type>(|value| !value)) as ArrayRef), &call.to)
}

fn max_of(kind: &DataType) -> u64 {
    match kind {
        DataType::UInt8 => u64::from(u8::MAX),
        DataType::UInt16 => u64::from(u16::MAX),
        DataType::UInt32 => u64::from(u32::MAX),
        _ => u64::MAX,
    }
}

/// The number of the bucket that contains a value. The buckets have equal widths between two bounds, as in PostgreSQL.
fn width_bucket(call: &Call) -> Result<ArrayRef> {
    if call.count() == 2 {
        return postgres_arrays::width_bucket(&reals(call, 0)?, &lists(call, 1)?);
    }
    let (values, lows, highs, counts) = (reals(call, 0)?, reals(call, 1)?, reals(call, 2)?, ints(call, 3)?);
    let row = |row: usize| -> Result<Option<i64>> {
        if any_null(&[&values, &lows, &highs, &counts], row) {
            return Ok(None);
        }
        let (value, low, high, count) = (values.value(row), lows.value(row), highs.value(row), counts.value(row));
        if count < 1 || low == high || !low.is_finite() || !high.is_finite() || value.is_nan() {
            return invalid("width_bucket takes at least one bucket, different finite bounds, and no NaN");
        }
        let (is_below, is_above) = if low < high { (value < low, value >= high) } else { (value > low, value <= high) };
        Ok(Some(match (is_below, is_above) {
            (true, _) => 0,
            (_, true) => match count.checked_add(1) {
                Some(last) => last,
                None => return too_large("BIGINT"),
            },
            _ => (((value - low) / (high - low) * count as f64) as i64 + 1).min(count),
        }))
    };
    Ok(Arc::new((0..values.len()).map(row).collect::<Result<Int64Array>>()?))
}

/// A session's random number generator: SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014).
#[derive(Clone)]
struct Random(Arc<AtomicU64>);

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Default for Random {
    fn default() -> Self {
        Random(Arc::new(AtomicU64::new(RandomState::new().hash_one(STEP))))
    }
}

impl Random {
    /// Random numbers in [0, 1).
    fn values(&self, count: usize) -> ArrayRef {
        let first = self.0.fetch_add(STEP.wrapping_mul(count as u64), Ordering::Relaxed);
        let value = |at: u64| (mixed(first.wrapping_add(STEP.wrapping_mul(at + 1))) >> 11) as f64 / (1u64 << 53) as f64;
        Arc::new(Float64Array::from_iter_values((0..count as u64).map(value)))
    }

    /// `setseed(x)`: the following random numbers depend on x only, if one thread computes them.
    fn seed(&self, call: &Call) -> Result<ArrayRef> {
        for seed in reals(call, 0)?.iter().flatten() {
            if !(-1.0..=1.0).contains(&seed) {
                return invalid("the seed of random numbers is between -1 and 1");
            }
            self.0.store(mixed(seed.to_bits()), Ordering::Relaxed);
        }
        Ok(datafusion::arrow::array::new_null_array(&DataType::Null, call.rows()))
    }
}

fn mixed(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!([2.1, -2.1, 3.0, 4.0, 0.0].map(even), [4.0, -4.0, 4.0, 4.0, 0.0]);
        assert!(even(f64::NAN).is_nan());
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-13 * b.abs();
        assert_eq!(gamma(5.0).ok(), Some(24.0));
        assert!(gamma(0.5).is_ok_and(|value| near(value, std::f64::consts::PI.sqrt())));
        assert!(gamma(-0.5).is_ok_and(|value| near(value, -2.0 * std::f64::consts::PI.sqrt())));
        assert!(ln_gamma(10.0).is_ok_and(|value| near(value, 362_880f64.ln())));
        assert!(gamma(-1.0).is_ok_and(f64::is_nan));
        assert_eq!(lanczos(f64::INFINITY), f64::INFINITY);
    }

    #[test]
    fn random_numbers_are_in_range() {
        let random = Random::default();
        let values = random.values(10_000);
        let values = values.as_primitive::<Float64Type>();
        assert!(values.iter().flatten().all(|value| (0.0..1.0).contains(&value)));
        let mean = values.iter().flatten().sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
    }
}
