//! `date_trunc` and `date_bin`: the start of the part, or of the multiple of an interval, that contains a time.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array};
use datafusion::arrow::compute::kernels::zip::zip;
use datafusion::arrow::compute::{not, nullif};
use datafusion::arrow::datatypes::{DataType, Int64Type, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;

use super::arrays::{
    INTERVAL, Intervals, TIMESTAMP, day_of, exact_cast, finished, interval_of, intervals, is_span, is_text,
    is_time_of_day, map, out_of_range, stored, ticks, to_instant, to_local,
};
use super::function::{Call, Order, TimeFunction, wrong_types};
use super::infinite::keeping_infinite;
use super::interval::{Interval, SECOND_NS};
use super::parts::Part;
use super::zone::Zone;
use crate::error::Error;

const DAY_SECONDS: i64 = 86_400;

/// `date_trunc('month', time [, zone])`.
pub(crate) fn date_trunc() -> TimeFunction {
    let function = TimeFunction::new("date_trunc", takes_trunc, gives_trunc, |call| keeping_infinite(call, run_trunc))
        .with_alias("datetrunc");
    TimeFunction { order: Order::ByArgument(1), ..function }
}

pub(super) fn takes_trunc(types: &[DataType]) -> Result<Vec<DataType>> {
    let form = "a part's name and a date, timestamp or interval";
    let ([part, time] | [part, time, _]) = types else { return wrong_types("date_trunc", form, types) };
    let time = match time {
        DataType::Timestamp(..) => time.clone(),
        time if is_time_of_day(time) => time.clone(),
        time if is_span(time) => INTERVAL,
        DataType::Date32 | DataType::Date64 | DataType::Null => TIMESTAMP,
        time if is_text(time) => TIMESTAMP,
        _ => return wrong_types("date_trunc", form, types),
    };
    let part = if is_text(part) { part.clone() } else { DataType::Utf8 };
    let zone = types.get(2).map(|zone| if is_text(zone) { zone.clone() } else { DataType::Utf8 });
    if zone.is_some() && !matches!(time, DataType::Timestamp(_, Some(_))) {
        return wrong_types("date_trunc with a time zone", "a TIMESTAMP WITH TIME ZONE", types);
    }
    Ok([part, time].into_iter().chain(zone).collect())
}

fn gives_trunc(types: &[DataType], _: &[Option<&ScalarValue>]) -> Result<DataType> {
    types.get(1).cloned().map_or_else(|| wrong_types("date_trunc", "a part's name and a time", types), Ok)
}

fn run_trunc(call: &Call) -> Result<ArrayRef> {
    if call.constant(0).is_none() {
        return run_by_row(call);
    }
    let times = call.array(1)?;
    let Some(name) = call.text(0, "the part of date_trunc")? else { return Ok(call.nulls()) };
    let part = part_to_cut(&name)?;
    let mut zone = call.zone;
    if call.count() == 3 {
        let Some(name) = call.text(2, "the time zone of date_trunc")? else { return Ok(call.nulls()) };
        zone = Zone::parse(&name).ok_or_else(|| super::zone::missing(&name))?;
    }
    match times.data_type() {
        time if is_span(time) => Ok(Arc::new(cut_intervals(part, &intervals(&times)?)?)),
        DataType::Timestamp(_, Some(_)) if !zone.is_utc() => {
            let (values, per_second) = ticks(&times)?;
            finished(map(&values, |value| cut_zoned(part, value, per_second, &zone))?, &call.to)
        }
        _ => {
            let (values, per_second) = ticks(&times)?;
            finished(map(&values, |value| cut(part, value, per_second))?, &call.to)
        }
    }
}

/// The same for a part of each row: for each part, the times of its rows are cut.
fn run_by_row(call: &Call) -> Result<ArrayRef> {
    let names = exact_cast(&call.array(0)?, &DataType::Utf8)?;
    let names = names.as_string::<i32>();
    let distinct: BTreeSet<&str> = names.iter().flatten().collect();
    let times = call.array(1)?;
    let mut result = call.nulls();
    for name in distinct {
        let is_own: BooleanArray = names.iter().map(|other| Some(other == Some(name))).collect();
        let mut own = call.clone();
        own.set(0, ColumnarValue::Scalar(ScalarValue::from(name)));
        own.set(1, ColumnarValue::Array(nullif(&times, &not(&is_own)?)?));
        result = zip(&is_own, &run_trunc(&own)?, &result)?;
    }
    Ok(result)
}

/// The part of a name. Days of weeks and years are cut like days, and seconds since 1970 like seconds, as in DuckDB.
fn part_to_cut(name: &str) -> Result<Part> {
    match Part::named(name) {
        Some(part) if part <= Part::Nanosecond => Ok(part),
        Some(Part::DayOfWeek | Part::IsoDayOfWeek | Part::DayOfYear | Part::Julian) => Ok(Part::Day),
        Some(Part::Epoch) => Ok(Part::Second),
        _ if name.eq_ignore_ascii_case("yearweek") => Ok(Part::Week),
        _ => {
            let hint = "it cuts to microsecond, millisecond, second, minute, hour, day, week, month, quarter, year, \
                        decade, century or millennium";
            Err(Error::invalid(format!("date_trunc has no part {name}")).with_hint(hint).into())
        }
    }
}

fn cut(part: Part, value: i64, per_second: i64) -> Result<i64> {
    if let Some(length) = part.ticks(per_second) {
        // The timestamp has no finer units.
        return if length > 1 {
            value.checked_sub(value.rem_euclid(length)).ok_or_else(|| out_of_range("timestamp"))
        } else {
            Ok(value)
        };
    }
    let day = DAY_SECONDS * per_second;
    part.start_of(day_of(value, per_second)).checked_mul(day).ok_or_else(|| out_of_range("timestamp"))
}

/// Days and longer parts begin at midnight of the zone. Within a day, the offset does not change.
fn cut_zoned(part: Part, value: i64, per_second: i64, zone: &Zone) -> Result<i64> {
    let local = to_local(value, per_second, zone)?;
    let start = cut(part, local, per_second)?;
    if part.is_in_clock() { Ok(start - (local - value)) } else { to_instant(start, per_second, zone) }
}

fn cut_intervals(part: Part, spans: &Intervals) -> Result<Intervals> {
    let months = |length: i32, span: Interval| Interval { months: span.months - span.months % length, days: 0, ns: 0 };
    let cut = |span: Interval| match part {
        Part::Millennium => months(12_000, span),
        Part::Century => months(1_200, span),
        Part::Decade => months(120, span),
        Part::Year | Part::IsoYear => months(12, span),
        Part::Quarter => months(3, span),
        Part::Month => months(1, span),
        // The weeks behind the months.
        Part::Week => Interval { days: span.days - span.days % 7, ns: 0, ..span },
        Part::Day => Interval { ns: 0, ..span },
        _ => Interval { ns: span.ns - span.ns % part.ticks(SECOND_NS).unwrap_or(1), ..span },
    };
    map(spans, |span| Ok(stored(cut(interval_of(span)))))
}

/// `date_bin(stride, time [, origin])`: the start of the interval that contains a time, counted from the origin.
pub(crate) fn date_bin() -> TimeFunction {
    let function = TimeFunction::new("date_bin", takes_bin, gives_bin, |call| keeping_infinite(call, run_bin));
    TimeFunction { order: Order::ByArgument(1), ..function }
}

fn takes_bin(types: &[DataType]) -> Result<Vec<DataType>> {
    let form = "an interval, a timestamp and the timestamp to count from";
    let ([stride, time] | [stride, time, _]) = types else { return wrong_types("date_bin", form, types) };
    let time = match time {
        DataType::Timestamp(..) => time.clone(),
        time if is_time_of_day(time) => DataType::Time64(TimeUnit::Nanosecond),
        DataType::Date32 | DataType::Date64 | DataType::Null => TIMESTAMP,
        time if is_text(time) => TIMESTAMP,
        _ => return wrong_types("date_bin", form, types),
    };
    if !is_span(stride) && !is_text(stride) && *stride != DataType::Null {
        return wrong_types("date_bin", form, types);
    }
    Ok([INTERVAL, time.clone()].into_iter().chain(types.get(2).map(|_| time)).collect())
}

fn gives_bin(types: &[DataType], _: &[Option<&ScalarValue>]) -> Result<DataType> {
    types.get(1).cloned().map_or_else(|| wrong_types("date_bin", "an interval and a timestamp", types), Ok)
}

fn run_bin(call: &Call) -> Result<ArrayRef> {
    let strides = intervals(&call.array(0)?)?;
    let (values, per_second) = ticks(&call.array(1)?)?;
    let origins = if call.count() == 3 { ticks(&call.array(2)?)?.0 } else { map::<_, Int64Type>(&values, |_| Ok(0))? };
    let has_all = |row: usize| !(strides.is_null(row) || values.is_null(row) || origins.is_null(row));
    let of_row = |row: usize| {
        let bin = || bin(interval_of(strides.value(row)), values.value(row), origins.value(row), per_second);
        has_all(row).then(bin).transpose()
    };
    finished((0..values.len()).map(of_row).collect::<Result<Int64Array>>()?, &call.to)
}

fn bin(stride: Interval, value: i64, origin: i64, per_second: i64) -> Result<i64> {
    if stride.months != 0 {
        let message = "timestamps cannot be binned into intervals containing months or years";
        let hint = "date_trunc cuts to months and years, and time_bucket takes a width of months";
        return Err(Error::unsupported(message).with_hint(hint).into());
    }
    let tick = i128::from(SECOND_NS / per_second);
    let length = stride.length_ns();
    if length <= 0 || length % tick != 0 {
        let message = "the stride of date_bin has to be greater than zero, and a multiple of the timestamp's unit";
        return Err(Error::invalid(message).into());
    }
    let passed = i128::from(value) - i128::from(origin);
    let start = i128::from(value) - passed.rem_euclid(length / tick);
    i64::try_from(start).map_err(|_| out_of_range("timestamp"))
}
