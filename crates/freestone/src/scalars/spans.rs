//! Intervals from a number of units, and times from a number of ticks: `to_days(3)`, `epoch_ms(0)`.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array};
use datafusion::arrow::datatypes::{DataType, Int64Type, TimeUnit};
use datafusion::error::Result;

use super::function::Scalar;
use super::kinds::INT;
use super::kinds::Kind::{Int, Real, Span, Time};
use super::rows::{ints, reals, too_large};
use crate::times::arrays::{Intervals, finite, infinite, ticks};
use crate::times::{
    Call, INTERVAL, Interval, SECOND_NS, TIMESTAMP, finished, integers, interval_of, intervals, is_span, map, stored,
};

const DAY_SECONDS: i64 = 86_400;

pub(super) fn all() -> Vec<Scalar> {
    let months = |name, count| units(name, Interval { months: count, days: 0, ns: 0 });
    let days = |name, count| units(name, Interval { months: 0, days: count, ns: 0 });
    let time = |name, ns| units(name, Interval { months: 0, days: 0, ns });
    vec![
        months("to_millennia", 12_000),
        months("to_centuries", 1_200),
        months("to_decades", 120),
        months("to_years", 12),
        months("to_quarters", 3),
        months("to_months", 1),
        days("to_weeks", 7),
        days("to_days", 1),
        time("to_hours", 3_600 * SECOND_NS),
        time("to_minutes", 60 * SECOND_NS),
        time("to_microseconds", 1_000),
        fractional("to_seconds", 1e6),
        fractional("to_milliseconds", 1e3),
        epoch("epoch_ms", 1_000),
        epoch("epoch_us", 1_000_000),
        epoch("epoch_ns", SECOND_NS),
        made("make_timestamp_ms", TimeUnit::Millisecond),
        made("make_timestamp_ns", TimeUnit::Nanosecond),
    ]
}

/// A function of an integral number of units.
fn units(name: &'static str, unit: Interval) -> Scalar {
    Scalar::new(&[name], &[&[Int]], INTERVAL, move |call| {
        let of = |count| unit.checked_times(count).map(stored).map_or_else(|| too_large("interval"), Ok);
        let spans: Intervals = map::<Int64Type, _>(&ints(call, 0)?, of)?;
        Ok(Arc::new(spans))
    })
}

/// A function of a number of units, with fractions up to microseconds.
fn fractional(name: &'static str, micros: f64) -> Scalar {
    Scalar::new(&[name], &[&[Real]], INTERVAL, move |call| {
        let counts: Float64Array = reals(call, 0)?;
        let spans: Intervals = map(&counts, |count| {
            let us = (count * micros).round_ties_even();
            match us.abs() < (i64::MAX / 1_000) as f64 {
                true => Ok(stored(Interval { months: 0, days: 0, ns: us as i64 * 1_000 })),
                false => too_large("interval"),
            }
        })?;
        Ok(Arc::new(spans))
    })
}

/// Ticks since 1970 or midnight, or of an interval. `epoch_ms` of a number is the timestamp that many milliseconds
/// after 1970.
fn epoch(name: &'static str, per_second: i64) -> Scalar {
    let forms: &'static [&'static [super::kinds::Kind]] =
        if name == "epoch_ms" { &[&[Int], &[Span], &[Time]] } else { &[&[Span], &[Time]] };
    Scalar::typed(
        &[name],
        forms,
        |types, _| Ok(if types[0] == INT { TIMESTAMP } else { INT }),
        move |call| {
            let values = finite(&call.array(0)?)?;
            match values.data_type() {
                DataType::Int64 => from_ticks(call, TimeUnit::Millisecond),
                span if is_span(span) => {
                    let of = |span| in_ticks(interval_of(span).epoch_ns(), SECOND_NS, per_second);
                    Ok(Arc::new(map::<_, Int64Type>(&intervals(&values)?, of)?))
                }
                DataType::Date32 => {
                    let of = |days: i64| in_ticks(i128::from(days * DAY_SECONDS), 1, per_second);
                    Ok(Arc::new(map::<_, Int64Type>(&integers(&values)?, of)?))
                }
                _ => {
                    let (values, own) = ticks(&values)?;
                    // To the nearest tick, with halves rounded up.
                    let half = i128::from(own / per_second / 2);
                    let of = |value: i64| in_ticks(i128::from(value) + half, own, per_second);
                    Ok(Arc::new(map::<_, Int64Type>(&values, of)?))
                }
            }
        },
    )
}

/// Converts ticks to ticks of another length, rounded down.
fn in_ticks(value: i128, from: i64, to: i64) -> Result<i64> {
    let scaled = (value * i128::from(to)).div_euclid(i128::from(from));
    i64::try_from(scaled).or_else(|_| too_large("BIGINT"))
}

/// A function that converts ticks since 1970 to a timestamp.
fn made(name: &'static str, unit: TimeUnit) -> Scalar {
    let to = if unit == TimeUnit::Nanosecond { DataType::Timestamp(unit, None) } else { TIMESTAMP };
    Scalar::new(&[name], &[&[Int]], to, move |call| from_ticks(call, unit))
}

fn from_ticks(call: &Call, unit: TimeUnit) -> Result<ArrayRef> {
    let factor = if unit == TimeUnit::Millisecond { 1_000 } else { 1 };
    let of = |ticks: i64| {
        let ticks = ticks.checked_mul(factor).filter(|ticks| infinite(*ticks, &call.to).is_none());
        ticks.map_or_else(|| too_large("timestamp"), Ok)
    };
    finished(map(&ints(call, 0)?, of)?, &call.to)
}
