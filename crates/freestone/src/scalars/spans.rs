//! Intervals from a number of units, and times from a number of ticks: `to_days(3)`, `epoch_ms(0)`.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, Float64Array, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Int64Type, TimeUnit};
use datafusion::error::Result;

use super::function::Scalar;
use super::kinds::Kind::{Int, Real, Span, Text, Time};
use super::kinds::{INT, TEXT};
use super::rows::{any_null, ints, invalid, reals, texts, too_large};
use crate::times::arrays::{Intervals, finite, infinite, ticks};
use crate::times::{
    Call, INTERVAL, Interval, SECOND_NS, TIMESTAMP, clock, finished, integers, interval_of, intervals, is_span, map,
    stored, time_text,
};

const DAY_SECONDS: i64 = 86_400;

/// A TIMETZ and the hours and smaller parts of an interval.
pub(crate) const ZONED_PLUS: &str = "freestone_zoned_plus";
pub(crate) const ZONED_MINUS: &str = "freestone_zoned_minus";

pub(super) fn all() -> Vec<Scalar> {
    let months = |name, count| units(name, Interval { months: count, days: 0, ns: 0 });
    let days = |name, count| units(name, Interval { months: 0, days: count, ns: 0 });
    let time = |name, ns| units(name, Interval { months: 0, days: 0, ns });
    vec![
        Scalar::new(&[ZONED_PLUS], &[&[Text, Span]], TEXT, |call| zoned_moved(call, 1)),
        Scalar::new(&[ZONED_MINUS], &[&[Text, Span]], TEXT, |call| zoned_moved(call, -1)),
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
        Scalar::new(&["normalized_interval"], &[&[Span]], INTERVAL, normalized),
    ]
}

/// Intervals of the same length in months of 30 days, and days and hours that are not negative.
fn normalized(call: &Call) -> Result<ArrayRef> {
    let (day, month) = (i128::from(DAY_SECONDS * SECOND_NS), i128::from(30 * DAY_SECONDS * SECOND_NS));
    let spans: Intervals = map(&intervals(&call.array(0)?)?, |span| {
        let length = interval_of(span).length_ns();
        let (months, rest) = (length.div_euclid(month), length.rem_euclid(month));
        match i32::try_from(months) {
            Ok(months) => Ok(stored(Interval { months, days: (rest / day) as i32, ns: (rest % day) as i64 })),
            Err(_) => too_large("interval"),
        }
    })?;
    Ok(Arc::new(spans))
}

/// Times of day with a zone, in their normal form, that much later or earlier. Days and months do not change them.
fn zoned_moved(call: &Call, sign: i64) -> Result<ArrayRef> {
    let (times, spans) = (texts(call, 0)?, intervals(&call.array(1)?)?);
    let moved = (0..times.len()).map(|row| {
        if any_null(&[&times, &spans], row) {
            return Ok(None);
        }
        let text = times.value(row);
        let is_zone = |(_, zone): &(i64, &str)| zone.is_empty() || zone.starts_with(['+', '-']);
        let Some((ns, zone)) = clock(text).filter(is_zone) else {
            return invalid(format!("'{text}' is no time with a zone"));
        };
        let by = interval_of(spans.value(row)).ns % (DAY_SECONDS * SECOND_NS) * sign;
        let ns = (ns + by).rem_euclid(DAY_SECONDS * SECOND_NS);
        Ok(Some(time_text(ns as u64) + zone))
    });
    Ok(Arc::new(moved.collect::<Result<StringViewArray>>()?))
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
