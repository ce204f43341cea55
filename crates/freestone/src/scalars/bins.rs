//! `equi_width_bins(min, max, bins, nice)`: the upper bounds of bins of equal width, as DuckDB computes them.
//!
//! The last bound is not below the maximum. Nice bounds are multiples of 2 or 5 times a power of ten, or whole minutes, hours,
//! days or months; there may be up to twice the number of bins then.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;

use super::function::Scalar;
use super::kinds::{BOOL, INT, REAL, list, list_of};
use super::lists::of_lengths;
use super::rows::{bools, ints, invalid, reals};
use crate::growth::Meter;
use crate::times::calendar::{add_months, civil, days_of};
use crate::times::{Call, TIMESTAMP, exact_cast, infinite, timestamptz};

const NAME: &str = "equi_width_bins";
const BINS_MAX: i64 = 1_000_000;
/// Integers are divided in thousandths, so that bounds are not all rounded down.
const THOUSANDTHS: i128 = 1_000;

const SECOND_US: i64 = 1_000_000;
const MINUTE_US: i64 = 60 * SECOND_US;
const HOUR_US: i64 = 60 * MINUTE_US;
const DAY_US: i64 = 24 * HOUR_US;
const MONTH_DAYS: f64 = 30.0;

pub(super) fn all() -> Vec<Scalar> {
    let takes = "a least and a greatest number or time, a number of bins, and whether their bounds are nice";
    vec![Scalar::with_coercion(&[NAME], takes, coerced, |types, _| Ok(list_of(types[1].clone())), run)]
}

fn coerced(types: &[DataType]) -> Option<Vec<DataType>> {
    let [min, max, bins, nice] = types else { return None };
    let is_known = |kind: &DataType| (kind.is_integer() || kind.is_null()) as usize;
    let is_time = |kind: &DataType| matches!(kind, DataType::Date32 | DataType::Timestamp(..) | DataType::Null);
    let bound = match (min, max) {
        (min, max) if is_known(min) + is_known(max) == 2 => {
            let kind = if min == max && !max.is_null() { max.clone() } else { INT };
            [kind.clone(), kind]
        }
        (min, max) if (min.is_numeric() || min.is_null()) && (max.is_numeric() || max.is_null()) => {
            let kind = if min == max && *max == DataType::Float32 { DataType::Float32 } else { REAL };
            [kind.clone(), kind]
        }
        (min, max) if is_time(min) && is_time(max) => match (min, max) {
            (DataType::Date32, DataType::Date32) => [max.clone(), max.clone()],
            (_, DataType::Timestamp(_, Some(_))) | (DataType::Timestamp(_, Some(_)), _) => {
                [timestamptz(), timestamptz()]
            }
            _ => [TIMESTAMP, TIMESTAMP],
        },
        _ => return None,
    };
    let is_count = bins.is_integer() || bins.is_null();
    let is_flag = *nice == BOOL || nice.is_null();
    (is_count && is_flag).then(|| bound.into_iter().chain([INT, BOOL]).collect())
}

/// Runs the function for rows without NULL, by a function of the bounds of a row.
fn run(call: &Call) -> Result<ArrayRef> {
    let (bins, nice) = (ints(call, 2)?, bools(call, 3)?);
    let (min, max) = (call.array(0)?, call.array(1)?);
    let is_known = |row: usize| min.is_valid(row) && max.is_valid(row) && bins.is_valid(row) && nice.is_valid(row);
    let known: Vec<bool> = (0..call.rows()).map(is_known).collect();
    let Some(item) = list(&call.to).map(|field| field.data_type().clone()) else {
        return invalid("the result is no list");
    };
    let mut meter = Meter::new(NAME);
    let (mut lengths, mut whole, mut real) = (vec![], vec![], vec![]);
    let is_real = item.is_floating();
    let is_time = matches!(item, DataType::Date32 | DataType::Timestamp(..));
    let reals = if is_real { Some((reals(call, 0)?, reals(call, 1)?)) } else { None };
    let wholes = if is_real { None } else { Some((wholes(&min, is_time)?, wholes(&max, is_time)?)) };
    for (row, is_known) in known.iter().enumerate() {
        let before = whole.len() + real.len();
        if *is_known {
            let count = count_of(bins.value(row))?;
            if let Some((min, max)) = &reals {
                real.extend(of_reals(min.value(row), max.value(row), count, nice.value(row))?);
            }
            if let Some((min, max)) = &wholes {
                whole.extend(of_wholes(min.value(row), max.value(row), count, nice.value(row), is_time)?);
            }
        }
        lengths.push(whole.len() + real.len() - before);
        meter.add(8 * (whole.len() + real.len() - before))?;
    }
    let values: ArrayRef = if is_real { Arc::new(Float64Array::from(real)) } else { Arc::new(Int64Array::from(whole)) };
    let values = match &item {
        DataType::Date32 => exact_cast(&exact_cast(&values, &TIMESTAMP)?, &item)?,
        item => exact_cast(&values, item)?,
    };
    Ok(Arc::new(of_lengths(&call.to, values, lengths, Some(known.into()))?))
}

/// Integers, or times as microseconds.
fn wholes(values: &ArrayRef, is_time: bool) -> Result<Int64Array> {
    let values = if *values.data_type() == DataType::Date32 { exact_cast(values, &TIMESTAMP)? } else { values.clone() };
    let numbers = exact_cast(&values, &INT)?.as_primitive().clone();
    if is_time && Int64Array::iter(&numbers).flatten().any(|value| infinite(value, &TIMESTAMP).is_some()) {
        return invalid(format!("{NAME} takes finite times"));
    }
    Ok(numbers)
}

fn count_of(bins: i64) -> Result<i64> {
    match bins {
        1..=BINS_MAX => Ok(bins),
        _ => invalid(format!("the number of bins is between 1 and {BINS_MAX}, not {bins}")),
    }
}

fn of_wholes(min: i64, max: i64, bins: i64, is_nice: bool, is_time: bool) -> Result<Vec<i64>> {
    if max < min {
        return invalid(format!("{NAME} takes the least value first"));
    }
    if min == max {
        return Ok(vec![max]);
    }
    let mut bounds = if is_time && is_nice { nice_times(min, max, bins) } else { of_integers(min, max, bins, is_nice) };
    bounds.reverse();
    Ok(bounds)
}

/// From the greatest bound to the least one.
fn of_integers(least: i64, greatest: i64, bins: i64, is_nice: bool) -> Vec<i64> {
    let (min, mut max) = (i128::from(least) * THOUSANDTHS, i128::from(greatest) * THOUSANDTHS);
    let mut step = (max - min) / i128::from(bins);
    let mut most = bins as usize;
    if is_nice {
        let nice = nice_step(step);
        let end = if nice == 0 { min } else { (max + nice - 1) / nice * nice };
        if end != min {
            (max, step) = (end, nice);
        }
        most *= 2;
    }
    // Of equal bounds there is only one, so steps below 1 are not needed.
    let step = step.max(1);
    let mut bounds: Vec<i64> = vec![];
    let mut next = max;
    while next > min {
        let bound = (next / THOUSANDTHS).clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
        if !bounds.is_empty() && (bound < least || bounds.len() >= most) {
            break;
        }
        if bounds.last() != Some(&bound) {
            bounds.push(bound);
        }
        next -= step;
    }
    bounds
}

/// The multiple of 2 or 5 times a power of ten that is nearest to a step.
fn nice_step(step: i128) -> i128 {
    let mut power = 1;
    while power < step {
        power *= 10;
    }
    power /= 10;
    let two = if power * 3 <= step { power * 10 } else { power * 2 };
    let five = if power * 2 <= step { power * 5 } else { power };
    let rounded = |unit: i128| if unit == 0 { 0 } else { (step + unit / 2) / unit * unit };
    if (step - rounded(two)).abs() < (step - rounded(five)).abs() { rounded(two) } else { rounded(five) }
}

fn of_reals(min: f64, max: f64, bins: i64, is_nice: bool) -> Result<Vec<f64>> {
    if !min.is_finite() || !max.is_finite() {
        return invalid(format!("{NAME} takes finite numbers"));
    }
    if max < min {
        return invalid(format!("{NAME} takes the least value first"));
    }
    if min == max {
        return Ok(vec![max]);
    }
    let (span, count) = (max - min, bins as f64);
    let mut step = if span.is_finite() { span / count } else { max / count - min / count };
    let (mut end, mut most) = (max, bins as usize);
    let power = power_below(step);
    if is_nice {
        step = nice_real_step(step, power);
        end = rounded_to(max, step, f64::ceil);
        most *= 2;
    }
    let digits = 10.0 / power;
    let mut bounds: Vec<f64> = vec![];
    let mut next = end;
    while next > min {
        let bound = if is_nice { (next * digits).round() / digits } else { next };
        if bounds.last() != Some(&bound) {
            if bound <= min || bounds.len() >= most {
                break;
            }
            bounds.push(bound);
        }
        // A step can be too small to change the bound.
        if next - step == next {
            break;
        }
        next -= step;
    }
    bounds.reverse();
    Ok(bounds)
}

/// A power of ten below a number, or the greatest one that is not above a fraction.
fn power_below(number: f64) -> f64 {
    let mut power = 1.0;
    if number < 1.0 {
        while power > number && power > 0.0 {
            power /= 10.0;
        }
        return power;
    }
    while power < number {
        power *= 10.0;
    }
    power / 10.0
}

fn nice_real_step(step: f64, power: f64) -> f64 {
    let two = if power * 3.0 <= step { power * 2.0 * 5.0 } else { power * 2.0 };
    let five = if power * 2.0 <= step { power * 5.0 } else { power };
    let (by_two, by_five) = (rounded_to(step, two, f64::round), rounded_to(step, five, f64::round));
    if (step - by_two).abs() < (step - by_five).abs() { by_two } else { by_five }
}

fn rounded_to(number: f64, unit: f64, round: fn(f64) -> f64) -> f64 {
    let rounded = round(number / unit) * unit;
    if rounded.is_finite() { rounded } else { number }
}

/// A distance between times.
#[derive(Debug, Clone, Copy)]
struct Step {
    months: i64,
    days: i64,
    micros: i64,
}

/// From the greatest bound to the least one.
fn nice_times(min: i64, max: i64, bins: i64) -> Vec<i64> {
    let step = step_between(min, max, bins as f64).nice();
    let mut next = step.not_before(max);
    let step = match step {
        Step { months: ..=0, days: ..=0, micros: ..=0 } => Step { months: 0, days: 0, micros: 1 },
        step => step,
    };
    let mut bounds = vec![];
    while next >= min && bounds.len() < bins as usize {
        bounds.push(next);
        let days = add_months(next.div_euclid(DAY_US), -step.months) - step.days;
        let in_day = next.rem_euclid(DAY_US) - step.micros;
        let Some(before) = days.checked_mul(DAY_US).and_then(|start| start.checked_add(in_day)) else { break };
        next = before;
    }
    bounds
}

/// The part of a distance, by its parts. Fractions of months and days are days and microseconds.
fn step_between(min: i64, max: i64, bins: f64) -> Step {
    let (from, to) = (civil(min.div_euclid(DAY_US)), civil(max.div_euclid(DAY_US)));
    let months = ((to.year - from.year) * 12 + to.month - from.month) as f64 / bins;
    let mut days = (to.day - from.day) as f64 / bins;
    let mut micros = (max.rem_euclid(DAY_US) - min.rem_euclid(DAY_US)) as f64 / bins;
    if months > 0.0 {
        days += months.fract() * MONTH_DAYS;
    }
    if days > 0.0 {
        micros += days.fract() * DAY_US as f64;
    }
    Step { months: months as i64, days: days as i64, micros: micros as i64 }
}

impl Step {
    /// The step without parts that are small for it.
    fn nice(self) -> Step {
        let to = |unit: i64| Step { micros: (self.micros + unit / 2) / unit * unit, ..self };
        match self {
            Step { months: 6.., .. } => Step { days: 0, micros: 0, ..self },
            Step { months: 1.., .. } | Step { days: 5.., .. } => Step { micros: 0, ..self },
            Step { days: 1.., .. } => to(HOUR_US),
            Step { micros, .. } if micros >= 6 * HOUR_US => to(HOUR_US),
            Step { micros, .. } if micros >= HOUR_US => to(15 * MINUTE_US),
            Step { micros, .. } if micros >= 10 * MINUTE_US => to(MINUTE_US),
            Step { micros, .. } if micros >= MINUTE_US => to(15 * SECOND_US),
            Step { micros, .. } if micros >= 10 * SECOND_US => to(SECOND_US),
            step => step,
        }
    }

    /// The first time, not before another, that is whole in the unit of the step.
    fn not_before(self, time: i64) -> i64 {
        let unit = match self {
            Step { months: 12.., .. } => {
                let date = civil(time.div_euclid(DAY_US));
                let start = days_of(date.year, date.month, 1);
                let is_start = start == time.div_euclid(DAY_US) && time.rem_euclid(DAY_US) == 0;
                let next = if is_start { start } else { add_months(start, 1) };
                // The last months and days of time have no end.
                return next.checked_mul(DAY_US).filter(|next| *next >= time).unwrap_or(time);
            }
            Step { months: 1.., .. } | Step { days: 1.., .. } => DAY_US,
            Step { micros, .. } if micros >= HOUR_US => HOUR_US,
            Step { micros, .. } if micros >= MINUTE_US => MINUTE_US,
            Step { micros, .. } if micros >= SECOND_US => SECOND_US,
            _ => 1,
        };
        let past = time.rem_euclid(unit);
        if past == 0 { time } else { (time - past).checked_add(unit).unwrap_or(time) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_nice_bounds() {
        let check = |min, max, bins, is_nice, expected: &[i64]| {
            assert_eq!(of_wholes(min, max, bins, is_nice, false).expect("bounds"), expected);
        };
        check(0, 10, 2, true, &[5, 10]);
        check(0, 1724, 10, true, &[200, 400, 600, 800, 1000, 1200, 1400, 1600, 1800]);
        check(0, 1734, 10, false, &[173, 346, 520, 693, 867, 1040, 1213, 1387, 1560, 1734]);
        check(-101, -7, 4, true, &[-100, -80, -60, -40, -20, 0]);
        check(i64::MIN, i64::MAX, 5, true, &[-5 * 10i64.pow(18), 0, 5 * 10i64.pow(18), i64::MAX]);
        check(0, 1, 5000, false, &[0, 1]);
        check(7, 7, 3, true, &[7]);
    }

    #[test]
    fn reals_have_nice_bounds() {
        let check = |min, max, bins, expected: &[f64]| {
            assert_eq!(of_reals(min, max, bins, true).expect("bounds"), expected);
        };
        check(0.0, 9.0, 5, &[2.0, 4.0, 6.0, 8.0, 10.0]);
        check(0.0, 3.974, 7, &[0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]);
        check(-0.37, 0.91, 4, &[0.0, 0.5, 1.0]);
        check(1e300, 1.0000000000000002e300, 3, &[1.0000000000000002e300]);
    }
}
