//! `+`, `-`, `*` and `/` of dates, timestamps and intervals. Months and days are calendar steps, in the session's time
//! zone for timestamps with a time zone. Results outside of the range are errors.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, Int64Array};
use datafusion::arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{Operator, ScalarUDF};

use super::arrays::{
    INTERVAL, Intervals, TIMESTAMP, all_finite, at_least_us, finished, integers, internal, interval_of, intervals,
    is_integer, is_span, is_time_of_day, map, out_of_range, per_second, reals, stored, ticks, timestamptz, to_instant,
    to_local, zip,
};
use super::calendar::add_months;
use super::function::{Call, Form, TimeFunction, wrong_types};
use super::infinite::{has_infinite, keeping_infinite};
use super::interval::{DAY_NS, Interval, SECOND_NS, rounded_quotient};
use super::zone::Zone;
use crate::error::{Error, ErrorKind};
use crate::type_names::type_name;

const DAY_SECONDS: i64 = 86_400;

/// The function for an operator with these operand types, if it is computed by this module.
pub(crate) fn function(operator: Operator, left: &DataType, right: &DataType) -> Option<Arc<ScalarUDF>> {
    types(operator, left, right)?;
    let at =
        [Operator::Plus, Operator::Minus, Operator::Multiply, Operator::Divide].iter().position(|o| *o == operator)?;
    FUNCTIONS.get(at).cloned()
}

static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 4]> = LazyLock::new(|| {
    let function = |name, sign, takes, gives, run| {
        TimeFunction { form: Form::Operator(sign), ..TimeFunction::new(name, takes, gives, run) }.into_udf()
    };
    [
        function("time_plus", "+", |t| takes(Operator::Plus, t), |t, _| gives(Operator::Plus, t), plus),
        function("time_minus", "-", |t| takes(Operator::Minus, t), |t, _| gives(Operator::Minus, t), minus),
        function("time_times", "*", |t| takes(Operator::Multiply, t), |t, _| gives(Operator::Multiply, t), times),
        function("time_divided", "/", |t| takes(Operator::Divide, t), |t, _| gives(Operator::Divide, t), divided),
    ]
});

fn takes(operator: Operator, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [left, right] => match types(operator, left, right) {
            Some((left, right, _)) => Ok(vec![left, right]),
            None => wrong_types(&operator.to_string(), "dates, timestamps and intervals", given),
        },
        _ => wrong_types(&operator.to_string(), "two operands", given),
    }
}

fn gives(operator: Operator, given: &[DataType]) -> Result<DataType> {
    let found = if let [left, right] = given { types(operator, left, right) } else { None };
    found.map_or_else(
        || wrong_types(&operator.to_string(), "dates, timestamps and intervals", given),
        |types| Ok(types.2),
    )
}

/// The types to which the operands are cast, and the result type; `None` if the operator is not computed by this
/// module.
fn types(operator: Operator, left: &DataType, right: &DataType) -> Option<(DataType, DataType, DataType)> {
    use DataType::{Date32, Date64, Float64, Int64, Null, Time64, Timestamp};
    let (left, right) = match (left, right) {
        (Date64, right) => (&Date32, right),
        (left, Date64) => (left, &Date32),
        both => both,
    };
    let is_number = |kind: &DataType| kind.is_numeric();
    let time = || Time64(TimeUnit::Nanosecond);
    let swapped = |found: (DataType, DataType, DataType)| (found.1, found.0, found.2);
    Some(match (operator, left, right) {
        (Operator::Plus | Operator::Minus, Date32, days) if is_integer(days) => (Date32, Int64, Date32),
        (Operator::Plus | Operator::Minus, Date32, other) if is_span(other) => (Date32, INTERVAL, TIMESTAMP),
        (Operator::Plus | Operator::Minus, Date32, other) if is_time_of_day(other) => (Date32, time(), TIMESTAMP),
        (Operator::Plus, Date32, Null) => (Date32, INTERVAL, TIMESTAMP),
        // An unknown operand has the type of the other one, as in PostgreSQL.
        (Operator::Minus, Date32, Null) | (Operator::Minus, Null, Date32) => (Date32, Date32, Int64),
        (Operator::Minus, Timestamp(..), Null) => (left.clone(), left.clone(), INTERVAL),
        (Operator::Plus | Operator::Minus, Timestamp(unit, zone), other) if is_span(other) || *other == Null => {
            (left.clone(), INTERVAL, Timestamp(at_least_us(*unit), zone.clone()))
        }
        (Operator::Plus | Operator::Minus, a, b) if is_span(a) && (is_span(b) || *b == Null) => {
            (INTERVAL, INTERVAL, INTERVAL)
        }
        (Operator::Minus, Null, b) if is_span(b) => (INTERVAL, INTERVAL, INTERVAL),
        (Operator::Plus, a, b) if is_span(a) || is_integer(a) || is_time_of_day(a) || *a == Null => {
            let found = matches!(b, Date32 | Timestamp(..)) || is_span(b) && *a == Null;
            return if found { types(operator, b, a).map(swapped) } else { None };
        }
        (Operator::Minus, Date32, Date32) => (Date32, Date32, Int64),
        (Operator::Minus, Date32 | Null, Timestamp(_, None)) => (TIMESTAMP, right.clone(), INTERVAL),
        (Operator::Minus, Timestamp(_, None), Date32) => (left.clone(), TIMESTAMP, INTERVAL),
        (Operator::Minus, Date32 | Null, Timestamp(_, Some(_))) => (timestamptz(), right.clone(), INTERVAL),
        (Operator::Minus, Timestamp(_, Some(_)), Date32) => (left.clone(), timestamptz(), INTERVAL),
        (Operator::Minus, Timestamp(unit, None), Timestamp(_, Some(zone))) => {
            (Timestamp(*unit, Some(zone.clone())), right.clone(), INTERVAL)
        }
        (Operator::Minus, Timestamp(_, Some(zone)), Timestamp(unit, None)) => {
            (left.clone(), Timestamp(*unit, Some(zone.clone())), INTERVAL)
        }
        (Operator::Minus, Timestamp(..), Timestamp(..)) => (left.clone(), right.clone(), INTERVAL),
        (Operator::Multiply, a, by) if is_span(a) && is_integer(by) => (INTERVAL, Int64, INTERVAL),
        (Operator::Multiply | Operator::Divide, a, by) if is_span(a) && (is_number(by) || *by == Null) => {
            (INTERVAL, Float64, INTERVAL)
        }
        (Operator::Multiply, by, b) if is_span(b) && is_integer(by) => (Int64, INTERVAL, INTERVAL),
        (Operator::Multiply, by, b) if is_span(b) && (is_number(by) || *by == Null) => (Float64, INTERVAL, INTERVAL),
        _ => return None,
    })
}

fn plus(call: &Call) -> Result<ArrayRef> {
    keeping_infinite(call, finite_sum)
}

fn finite_sum(call: &Call) -> Result<ArrayRef> {
    let (left, right) = (call.array(0)?, call.array(1)?);
    match (left.data_type(), right.data_type()) {
        (DataType::Date32 | DataType::Timestamp(..), _) => moved(&left, &right, 1, call),
        (_, DataType::Date32 | DataType::Timestamp(..)) => moved(&right, &left, 1, call),
        _ => sum(&intervals(&left)?, &intervals(&right)?, 1),
    }
}

/// An infinite time minus a span is infinite. Two times of which one is infinite have no difference.
fn minus(call: &Call) -> Result<ArrayRef> {
    let is_time = matches!(call.to, DataType::Date32 | DataType::Timestamp(..));
    if !is_time && has_infinite(call)? {
        let kind = call.kind(0).map_or_else(String::new, |kind| type_name(&kind));
        return Err(Error::new(ErrorKind::Type, format!("infinity has no difference from another {kind}"))
            .with_hint("leave infinite values out by WHERE isfinite(x)")
            .into());
    }
    keeping_infinite(call, finite_difference)
}

fn finite_difference(call: &Call) -> Result<ArrayRef> {
    let (left, right) = (call.array(0)?, call.array(1)?);
    match (left.data_type(), right.data_type()) {
        (DataType::Date32, DataType::Date32) => {
            let days = zip::<_, _, Int64Type>(&integers(&left)?, &integers(&right)?, |a, b| Ok(a - b))?;
            Ok(Arc::new(days))
        }
        (DataType::Timestamp(..), DataType::Timestamp(..)) => difference(&left, &right),
        (DataType::Date32 | DataType::Timestamp(..), _) => moved(&left, &right, -1, call),
        _ => sum(&intervals(&left)?, &intervals(&right)?, -1),
    }
}

/// Dates and timestamps plus or minus days, times of day or intervals.
fn moved(times: &ArrayRef, by: &ArrayRef, sign: i64, call: &Call) -> Result<ArrayRef> {
    let is_date = *times.data_type() == DataType::Date32;
    let values = match by.data_type() {
        DataType::Int64 => zip(&integers(times)?, &integers(by)?, |days, count| {
            count.checked_mul(sign).and_then(|count| days.checked_add(count)).ok_or_else(|| out_of_range("date"))
        })?,
        DataType::Time64(_) => {
            let (clock, per_second) = ticks(by)?;
            let us = |tick| rounded_quotient(i128::from(tick) * 1_000_000, i128::from(per_second)) as i64;
            zip(&integers(times)?, &clock, |days, tick| {
                days.checked_mul(DAY_SECONDS * 1_000_000)
                    .and_then(|start| start.checked_add(sign * us(tick)))
                    .ok_or_else(|| out_of_range("timestamp"))
            })?
        }
        _ => by_intervals(times, &intervals(by)?, is_date, sign, call)?,
    };
    finished(all_finite(values, &call.to)?, &call.to)
}

fn by_intervals(times: &ArrayRef, by: &Intervals, is_date: bool, sign: i64, call: &Call) -> Result<Int64Array> {
    let DataType::Timestamp(unit, zone) = &call.to else { return Err(internal("a time moved is a timestamp")) };
    let target = per_second(*unit);
    let (values, source) = if is_date { (integers(times)?, 0) } else { ticks(times)? };
    let scale = if is_date { target * DAY_SECONDS } else { target / source };
    let zone = zone.as_ref().filter(|_| !call.zone.is_utc()).map(|_| &call.zone);
    zip(&values, by, |value, interval| {
        let interval = interval_of(interval);
        let start = value.checked_mul(scale);
        let end = start.and_then(|start| step(start, interval, sign, target, zone).transpose());
        end.unwrap_or_else(|| Err(out_of_range("timestamp")))
    })
}

/// A local time in microseconds plus or minus an interval.
pub(crate) fn stepped(micros: i64, by: Interval, sign: i64) -> Result<i64> {
    step(micros, by, sign, 1_000_000, None)?.ok_or_else(|| out_of_range("timestamp"))
}

/// Ticks plus an interval: first its months, then its days, then its time. `None` if the result is outside of the
/// range.
pub(super) fn step(start: i64, by: Interval, sign: i64, per_second: i64, zone: Option<&Zone>) -> Result<Option<i64>> {
    let mut ticks = start;
    if by.months != 0 || by.days != 0 {
        let local = zone.map_or(Ok(start), |zone| to_local(start, per_second, zone))?;
        let day = per_second * DAY_SECONDS;
        let days = add_months(local.div_euclid(day), sign * i64::from(by.months)) + sign * i64::from(by.days);
        let Some(moved) = days.checked_mul(day).and_then(|start| start.checked_add(local.rem_euclid(day))) else {
            return Ok(None);
        };
        ticks = zone.map_or(Ok(moved), |zone| to_instant(moved, per_second, zone))?;
    }
    let time = rounded_quotient(i128::from(by.ns), i128::from(SECOND_NS / per_second)) as i64;
    Ok(sign.checked_mul(time).and_then(|time| ticks.checked_add(time)))
}

/// The difference of two timestamps: days of 24 hours, and a time.
fn difference(left: &ArrayRef, right: &ArrayRef) -> Result<ArrayRef> {
    let ((left, a), (right, b)) = (ticks(left)?, ticks(right)?);
    let (a, b) = (i128::from(SECOND_NS / a), i128::from(SECOND_NS / b));
    let between = zip::<_, _, IntervalMonthDayNanoType>(&left, &right, |left, right| {
        let ns = i128::from(left) * a - i128::from(right) * b;
        Interval::of_length(ns).map(stored).ok_or_else(|| out_of_range("interval"))
    })?;
    Ok(Arc::new(between))
}

fn sum(left: &Intervals, right: &Intervals, sign: i64) -> Result<ArrayRef> {
    let sum = zip::<_, _, IntervalMonthDayNanoType>(left, right, |left, right| {
        let (left, right) = (interval_of(left), interval_of(right));
        let right = if sign < 0 { right.checked_neg() } else { Some(right) };
        right.and_then(|right| left.checked_add(right)).map(stored).ok_or_else(|| out_of_range("interval"))
    })?;
    Ok(Arc::new(sum))
}

fn times(call: &Call) -> Result<ArrayRef> {
    let (left, right) = (call.array(0)?, call.array(1)?);
    let (spans, by) = if is_span(left.data_type()) { (left, right) } else { (right, left) };
    let spans = intervals(&spans)?;
    let product: Intervals = if is_integer(by.data_type()) {
        zip(&spans, &integers(&by)?, |span, by| {
            interval_of(span).checked_times(by).map(stored).ok_or_else(|| out_of_range("interval"))
        })?
    } else {
        zip(&spans, &reals(&by)?, |span, by| {
            interval_of(span).multiplied(by).map(stored).ok_or_else(|| out_of_range("interval"))
        })?
    };
    Ok(Arc::new(product))
}

fn divided(call: &Call) -> Result<ArrayRef> {
    let quotient: Intervals = zip(&intervals(&call.array(0)?)?, &reals(&call.array(1)?)?, |span, by| {
        if by == 0.0 {
            return Err(Error::new(ErrorKind::Type, "division by zero").into());
        }
        interval_of(span).divided(by).map(stored).ok_or_else(|| out_of_range("interval"))
    })?;
    Ok(Arc::new(quotient))
}

/// Unary minus of intervals.
pub(crate) static NEGATIVE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let gives = |_: &[DataType], _: &[Option<&ScalarValue>]| Ok(INTERVAL);
    let function = TimeFunction::new("interval_negative", |_| Ok(vec![INTERVAL]), gives, negative);
    TimeFunction { form: Form::Negative, ..function }.into_udf()
});

fn negative(call: &Call) -> Result<ArrayRef> {
    let negated: Intervals = map(&intervals(&call.array(0)?)?, |span| {
        interval_of(span).checked_neg().map(stored).ok_or_else(|| out_of_range("interval"))
    })?;
    Ok(Arc::new(negated))
}

/// The value by which instants and intervals are compared if their native form is not suitable: nanoseconds as a
/// decimal, which can represent all of them.
pub(crate) static KEY: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let gives = |_: &[DataType], _: &[Option<&ScalarValue>]| Ok(LENGTH);
    TimeFunction::new("time_key", |types| Ok(types.to_vec()), gives, key).into_udf()
});

/// Enough digits for 2^31 months in nanoseconds.
const LENGTH: DataType = DataType::Decimal128(38, 0);

fn key(call: &Call) -> Result<ArrayRef> {
    use datafusion::arrow::datatypes::Decimal128Type;
    let values = call.array(0)?;
    let keys = match values.data_type() {
        DataType::Interval(_) => {
            map::<_, Decimal128Type>(&intervals(&values)?, |span| Ok(interval_of(span).length_ns()))?
        }
        DataType::Duration(unit) => {
            let tick = i128::from(SECOND_NS / per_second(*unit));
            map::<_, Decimal128Type>(&integers(&values)?, |value| Ok(i128::from(value) * tick))?
        }
        DataType::Date32 => {
            map::<_, Decimal128Type>(&integers(&values)?, |days| Ok(i128::from(days) * i128::from(DAY_NS)))?
        }
        _ => {
            let (values, per_second) = ticks(&values)?;
            let tick = i128::from(SECOND_NS / per_second);
            map::<_, Decimal128Type>(&values, |value| Ok(i128::from(value) * tick))?
        }
    };
    Ok(Arc::new(keys.with_data_type(LENGTH)))
}

/// The interval of the same length in days and time, so that equal intervals become identical.
pub(crate) static CANONICAL: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let gives = |_: &[DataType], _: &[Option<&ScalarValue>]| Ok(INTERVAL);
    TimeFunction::new("interval_canonical", |_| Ok(vec![INTERVAL]), gives, canonical).into_udf()
});

fn canonical(call: &Call) -> Result<ArrayRef> {
    let spans: Intervals = map(&intervals(&call.array(0)?)?, |span| Ok(normal_interval(span)))?;
    Ok(Arc::new(spans))
}

/// The interval that all intervals of the same length have in common: in days and time, with months if the days are too
/// many.
pub(crate) fn normal_interval(span: IntervalMonthDayNano) -> IntervalMonthDayNano {
    let length = interval_of(span).length_ns();
    stored(Interval::of_length(length).unwrap_or_else(|| Interval::of_long(length)))
}

/// `greatest` and `least` of intervals.
pub(crate) fn extreme(name: &str) -> Option<Arc<ScalarUDF>> {
    let at = ["greatest", "least"].iter().position(|known| *known == name)?;
    EXTREMES.get(at).cloned()
}

static EXTREMES: LazyLock<[Arc<ScalarUDF>; 2]> = LazyLock::new(|| {
    let takes = |types: &[DataType]| Ok(vec![INTERVAL; types.len()]);
    let gives = |_: &[DataType], _: &[Option<&ScalarValue>]| Ok(INTERVAL);
    [
        TimeFunction::new("interval_greatest", takes, gives, |call| furthest(call, true)).into_udf(),
        TimeFunction::new("interval_least", takes, gives, |call| furthest(call, false)).into_udf(),
    ]
});

/// The longest or shortest interval of each row, ignoring NULLs.
fn furthest(call: &Call, longest: bool) -> Result<ArrayRef> {
    let spans = (0..call.count()).map(|at| intervals(&call.array(at)?)).collect::<Result<Vec<_>>>()?;
    let rows = spans.first().map_or(0, Intervals::len);
    let row = |row: usize| {
        let present = spans.iter().filter(|spans| !spans.is_null(row)).map(|spans| interval_of(spans.value(row)));
        let by_length = |span: &Interval| span.length_ns();
        if longest { present.max_by_key(by_length) } else { present.min_by_key(by_length) }.map(stored)
    };
    Ok(Arc::new((0..rows).map(row).collect::<Intervals>()))
}
