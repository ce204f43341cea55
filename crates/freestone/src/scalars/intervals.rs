//! Intervals of a number of days, hours and the like: `to_days(3)`.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, IntervalMonthDayNanoArray};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, IntervalMonthDayNano, IntervalUnit};
use datafusion::common::exec_err;
use datafusion::error::Result;

use super::Scalar;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

pub(super) fn all() -> Vec<Scalar> {
    let months = |name, factor| whole(name, factor, |count| Some(IntervalMonthDayNano::new(small(count)?, 0, 0)));
    let days = |name, factor| whole(name, factor, |count| Some(IntervalMonthDayNano::new(0, small(count)?, 0)));
    let nanos = |name, factor| whole(name, factor, |count| Some(IntervalMonthDayNano::new(0, 0, count)));
    vec![
        months("to_millennia", 12_000),
        months("to_centuries", 1200),
        months("to_decades", 120),
        months("to_years", 12),
        months("to_quarters", 3),
        months("to_months", 1),
        days("to_weeks", 7),
        days("to_days", 1),
        nanos("to_hours", 3_600_000_000_000),
        nanos("to_minutes", 60_000_000_000),
        nanos("to_microseconds", 1000),
        fraction("to_seconds", 1e9),
        fraction("to_milliseconds", 1e6),
    ]
}

fn small(count: i64) -> Option<i32> {
    i32::try_from(count).ok()
}

/// A function of a whole number of `factor` units, of which `interval` makes an interval.
fn whole(name: &'static str, factor: i64, interval: fn(i64) -> Option<IntervalMonthDayNano>) -> Scalar {
    Scalar::new(&[name], &[&[DataType::Int64]], INTERVAL, move |a: &[ArrayRef]| {
        let counts = a[0].as_primitive::<Int64Type>().iter();
        let intervals = counts.map(|count| {
            let Some(count) = count else { return Ok(None) };
            match count.checked_mul(factor).and_then(interval) {
                Some(interval) => Ok(Some(interval)),
                None => exec_err!("{name}({count}) is out of range for INTERVAL"),
            }
        });
        Ok(Arc::new(intervals.collect::<Result<IntervalMonthDayNanoArray>>()?))
    })
}

/// A function of a number of units of `nanos` nanoseconds, whose fractions count down to microseconds.
fn fraction(name: &'static str, nanos: f64) -> Scalar {
    Scalar::new(&[name], &[&[DataType::Float64]], INTERVAL, move |a: &[ArrayRef]| {
        let counts = a[0].as_primitive::<Float64Type>().iter();
        let intervals = counts.map(|count| {
            let Some(count) = count else { return Ok(None) };
            let micros = (count * nanos / 1000.0).round();
            match micros.abs() < 9e15 {
                true => Ok(Some(IntervalMonthDayNano::new(0, 0, micros as i64 * 1000))),
                false => exec_err!("{name}({count}) is out of range for INTERVAL"),
            }
        });
        Ok(Arc::new(intervals.collect::<Result<IntervalMonthDayNanoArray>>()?))
    })
}
