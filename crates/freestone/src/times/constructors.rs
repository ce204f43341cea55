//! Functions that construct times from numbers, texts and time zones.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, PrimitiveArray};
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNanoType, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::error::Result;

use super::arrays::{
    INTERVAL, Intervals, TIMESTAMP, exact_cast, finished, infinite, integers, interval_of, intervals, is_span, is_text,
    local_ticks, map, out_of_range, reals, stored, ticks, timestamptz, to_instant, to_local, zip,
};
use super::calendar::{checked_days, civil, days_in_month};
use super::function::{Call, TimeFunction, wrong_types};
use super::infinite::{keeping_infinite, without_infinite};
use super::interval::{Interval, SECOND_NS};
use super::zone::{Zone, missing};
use super::{convert, pattern};
use crate::error::{Error, ErrorKind};

const DAY_SECONDS: i64 = 86_400;
const SECOND_US: i64 = 1_000_000;

pub(crate) fn functions() -> Vec<TimeFunction> {
    vec![
        TimeFunction::new("to_timestamp", takes_seconds, |_, _| Ok(timestamptz()), of_seconds),
        TimeFunction::new("to_date", takes_date, |_, _| Ok(DataType::Date32), to_date),
        TimeFunction::new("make_interval", takes_units, |_, _| Ok(INTERVAL), of_units),
        TimeFunction::new("make_timestamp", takes_fields, |_, _| Ok(TIMESTAMP), of_fields),
        TimeFunction::new("make_timestamptz", takes_fields, |_, _| Ok(timestamptz()), of_fields),
        TimeFunction::new("timezone", takes_zone, gives_zone, |call| keeping_infinite(call, at_zone)),
        TimeFunction::new("age", takes_two, |_, _| Ok(INTERVAL), |call| without_infinite(call, age)),
        TimeFunction::new(
            "justify_interval",
            takes_interval,
            |_, _| Ok(INTERVAL),
            |call| justified(call, Interval::justified),
        ),
        TimeFunction::new(
            "justify_hours",
            takes_interval,
            |_, _| Ok(INTERVAL),
            |call| justified(call, Interval::hours_justified),
        ),
        TimeFunction::new(
            "justify_days",
            takes_interval,
            |_, _| Ok(INTERVAL),
            |call| justified(call, Interval::days_justified),
        ),
        TimeFunction::new(
            "to_char",
            takes_pattern,
            |_, _| Ok(DataType::Utf8View),
            |call| without_infinite(call, to_char),
        ),
    ]
}

fn takes_interval(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [span] if is_span(span) || is_text(span) || *span == DataType::Null => Ok(vec![INTERVAL]),
        _ => wrong_types("the function", "an interval", types),
    }
}

fn justified(call: &Call, change: impl Fn(Interval) -> Option<Interval>) -> Result<ArrayRef> {
    let spans: Intervals = map(&intervals(&call.array(0)?)?, |span| {
        change(interval_of(span)).map(stored).ok_or_else(|| out_of_range("interval"))
    })?;
    Ok(Arc::new(spans))
}

/// `to_timestamp(seconds)`, `to_timestamp(text)` and `to_timestamp(text, pattern)`.
fn takes_seconds(types: &[DataType]) -> Result<Vec<DataType>> {
    let form = "seconds since 1970, or a text and the pattern that it has";
    Ok(match types {
        [number] if number.is_numeric() => vec![if number.is_integer() { DataType::Int64 } else { DataType::Float64 }],
        [DataType::Null] => vec![DataType::Int64],
        [text] if is_text(text) => vec![DataType::Utf8],
        [DataType::Timestamp(..) | DataType::Date32] => vec![timestamptz()],
        [text, pattern] if (is_text(text) || *text == DataType::Null) && is_text(pattern) => {
            vec![DataType::Utf8, DataType::Utf8]
        }
        _ => return wrong_types("to_timestamp", form, types),
    })
}

fn of_seconds(call: &Call) -> Result<ArrayRef> {
    let values = call.array(0)?;
    let us: Int64Array = match values.data_type() {
        DataType::Int64 => {
            map(&integers(&values)?, |seconds| seconds.checked_mul(SECOND_US).ok_or_else(|| out_of_range("timestamp")))?
        }
        DataType::Float64 => map(&reals(&values)?, |seconds| {
            let us = (seconds * 1e6).round_ties_even();
            if us.abs() < i64::MAX as f64 { Ok(us as i64) } else { Err(out_of_range("timestamp")) }
        })?,
        DataType::Utf8 if call.count() == 1 => return convert::from_texts(&values, false, call),
        DataType::Utf8 => {
            let Some(pattern) = call.text(1, "the pattern of to_timestamp")? else { return Ok(call.nulls()) };
            let pattern = pattern::parse(&pattern)?;
            let read = |text: &str| -> Result<i64> {
                let local = pattern::read(&pattern, text)?;
                to_instant(local, SECOND_US, &call.zone)
            };
            values.as_string::<i32>().iter().map(|text| text.map(read).transpose()).collect::<Result<_>>()?
        }
        _ => return Ok(values),
    };
    finished(us, &call.to)
}

/// `to_date(text)` and `to_date(text, pattern)`.
fn takes_date(types: &[DataType]) -> Result<Vec<DataType>> {
    Ok(match types {
        [DataType::Timestamp(..) | DataType::Date32 | DataType::Date64] => vec![DataType::Date32],
        [text] if is_text(text) || *text == DataType::Null => vec![DataType::Utf8],
        [text, pattern] if (is_text(text) || *text == DataType::Null) && is_text(pattern) => {
            vec![DataType::Utf8, DataType::Utf8]
        }
        _ => return wrong_types("to_date", "a text and the pattern that it has, such as 'YYYY-MM-DD'", types),
    })
}

fn to_date(call: &Call) -> Result<ArrayRef> {
    let values = call.array(0)?;
    if *values.data_type() == DataType::Date32 {
        return Ok(values);
    }
    if call.count() == 1 {
        return convert::from_texts(&values, false, call);
    }
    let Some(pattern) = call.text(1, "the pattern of to_date")? else { return Ok(call.nulls()) };
    let pattern = pattern::parse(&pattern)?;
    let day = |text: &str| Ok(pattern::read(&pattern, text)?.div_euclid(DAY_SECONDS * SECOND_US));
    let texts = exact_cast(&values, &DataType::Utf8)?;
    let days = texts.as_string::<i32>().iter().map(|text| text.map(day).transpose());
    finished(days.collect::<Result<Int64Array>>()?, &call.to)
}

/// Years, months, weeks, days, hours and minutes, which are whole, and seconds. Those at the end can be left out.
fn takes_units(types: &[DataType]) -> Result<Vec<DataType>> {
    let is_number = |kind: &DataType| kind.is_numeric() || *kind == DataType::Null;
    if types.len() > 7 || !types.iter().all(is_number) {
        return wrong_types("make_interval", "years, months, weeks, days, hours, minutes and seconds", types);
    }
    let unit = |at: usize| if at == 6 { DataType::Float64 } else { DataType::Int64 };
    Ok((0..types.len()).map(unit).collect())
}

fn of_units(call: &Call) -> Result<ArrayRef> {
    let whole: Vec<Int64Array> =
        (0..call.count().min(6)).map(|at| integers(&call.array(at)?)).collect::<Result<_>>()?;
    let seconds = if call.count() == 7 { Some(reals(&call.array(6)?)?) } else { None };
    let row = |row: usize| {
        if whole.iter().any(|unit| unit.is_null(row)) || seconds.as_ref().is_some_and(|unit| unit.is_null(row)) {
            return Ok(None);
        }
        let unit = |at: usize| whole.get(at).map_or(0, |unit| unit.value(row));
        let us = seconds.as_ref().map_or(0.0, |seconds| (seconds.value(row) * 1e6).round_ties_even());
        let sum = |a: i64, by: i64, b: i64| a.checked_mul(by)?.checked_add(b);
        let span = || {
            let months = i32::try_from(sum(unit(0), 12, unit(1))?).ok()?;
            let days = i32::try_from(sum(unit(2), 7, unit(3))?).ok()?;
            let minutes = sum(unit(4), 60, unit(5))?;
            let us = (us.abs() < i64::MAX as f64).then_some(us as i64)?;
            let ns = sum(minutes.checked_mul(60)?, SECOND_US, us)?.checked_mul(SECOND_NS / SECOND_US)?;
            Some(stored(Interval { months, days, ns }))
        };
        span().map(Some).ok_or_else(|| out_of_range("interval"))
    };
    let rows = whole.first().map_or_else(|| seconds.as_ref().map_or(call.rows(), Array::len), Array::len);
    Ok(Arc::new((0..rows).map(row).collect::<Result<Intervals>>()?))
}

/// Year, month, day, hour, minute, seconds.
fn takes_fields(types: &[DataType]) -> Result<Vec<DataType>> {
    let is_number = |kind: &DataType| kind.is_numeric() || *kind == DataType::Null;
    // Microseconds since 1970.
    if let [us] = types
        && (us.is_integer() || *us == DataType::Null)
    {
        return Ok(vec![DataType::Int64]);
    }
    let (fields, zone) = if types.len() == 7 { (&types[..6], types.get(6)) } else { (types, None) };
    if fields.len() != 6 || !fields.iter().all(is_number) || zone.is_some_and(|zone| !is_text(zone)) {
        return wrong_types("make_timestamp", "year, month, day, hour, minute and seconds", types);
    }
    let whole = std::iter::repeat_n(DataType::Int64, 5);
    Ok(whole.chain([DataType::Float64]).chain(zone.map(|_| DataType::Utf8)).collect())
}

fn of_fields(call: &Call) -> Result<ArrayRef> {
    if call.count() == 1 {
        let is_end = |us: i64| if infinite(us, &call.to).is_some() { Err(out_of_range("timestamp")) } else { Ok(us) };
        return finished(map(&integers(&call.array(0)?)?, is_end)?, &call.to);
    }
    let whole: Vec<Int64Array> = (0..5).map(|at| integers(&call.array(at)?)).collect::<Result<_>>()?;
    let seconds = reals(&call.array(5)?)?;
    let mut zone = matches!(call.to, DataType::Timestamp(_, Some(_))).then_some(call.zone);
    if call.count() == 7 {
        let Some(name) = call.text(6, "the time zone of make_timestamptz")? else { return Ok(call.nulls()) };
        if zone.is_none() {
            return Err(Error::invalid("make_timestamp takes no time zone").with_hint("make_timestamptz does").into());
        }
        zone = Some(Zone::parse(&name).ok_or_else(|| missing(&name))?);
    }
    let row = |row: usize| -> Result<Option<i64>> {
        if whole.iter().any(|field| field.is_null(row)) || seconds.is_null(row) {
            return Ok(None);
        }
        let [year, month, day, hour, minute] = [0, 1, 2, 3, 4].map(|at: usize| whole[at].value(row));
        let us = (seconds.value(row) * 1e6).round_ties_even();
        let days = checked_days(year, month, day);
        let in_range = (0..24).contains(&hour) && (0..60).contains(&minute) && (0.0..=6e7).contains(&us);
        let Some(days) = days.filter(|_| in_range) else {
            let message =
                format!("date or time field out of range: {year}-{month}-{day} {hour}:{minute}:{}", seconds.value(row));
            return Err(Error::new(ErrorKind::Type, message).into());
        };
        let local = days
            .checked_mul(DAY_SECONDS * SECOND_US)
            .and_then(|start| start.checked_add((hour * 3_600 + minute * 60) * SECOND_US + us as i64));
        let local = local.ok_or_else(|| out_of_range("timestamp"))?;
        zone.as_ref().map_or(Ok(local), |zone| to_instant(local, SECOND_US, zone)).map(Some)
    };
    finished((0..seconds.len()).map(row).collect::<Result<Int64Array>>()?, &call.to)
}

/// `timezone(zone, time)`, which implements AT TIME ZONE: the zone is a name, an offset or an interval.
fn takes_zone(types: &[DataType]) -> Result<Vec<DataType>> {
    let [zone, time] = types else { return wrong_types("timezone", "a time zone and a timestamp", types) };
    let zone = if is_span(zone) { INTERVAL } else { DataType::Utf8 };
    let time = match time {
        DataType::Timestamp(..) => time.clone(),
        DataType::Date32 | DataType::Date64 => timestamptz(),
        time if is_text(time) || *time == DataType::Null => timestamptz(),
        _ => return wrong_types("timezone", "a time zone and a timestamp", types),
    };
    Ok(vec![zone, time])
}

fn gives_zone(types: &[DataType], _: &[Option<&ScalarValue>]) -> Result<DataType> {
    match types {
        [_, DataType::Timestamp(unit, None)] => Ok(DataType::Timestamp(*unit, Some(super::zone::UTC.into()))),
        [_, DataType::Timestamp(unit, Some(_))] => Ok(DataType::Timestamp(*unit, None)),
        _ => wrong_types("timezone", "a time zone and a timestamp", types),
    }
}

fn at_zone(call: &Call) -> Result<ArrayRef> {
    let (zones, times) = (call.array(0)?, call.array(1)?);
    let (values, per_second) = ticks(&times)?;
    let to_local_time = matches!(times.data_type(), DataType::Timestamp(_, Some(_)));
    let zones: Vec<Option<Zone>> = match zones.data_type() {
        DataType::Interval(_) => intervals(&zones)?
            .iter()
            .map(|span| span.map(|s| of_interval(interval_of(s))).transpose())
            .collect::<Result<_>>()?,
        _ => named(&zones)?,
    };
    let row = |row: usize| -> Result<Option<i64>> {
        let Some(zone) = zones[row].as_ref().filter(|_| !values.is_null(row)) else { return Ok(None) };
        let value = values.value(row);
        if to_local_time { to_local(value, per_second, zone) } else { to_instant(value, per_second, zone) }.map(Some)
    };
    finished((0..values.len()).map(row).collect::<Result<Int64Array>>()?, &call.to)
}

/// The zones with given names. Each distinct name is parsed once.
fn named(names: &ArrayRef) -> Result<Vec<Option<Zone>>> {
    let names = exact_cast(names, &DataType::Utf8)?;
    let mut last: Option<(String, Zone)> = None;
    let zone = |name: Option<&str>| -> Result<Option<Zone>> {
        let Some(name) = name else { return Ok(None) };
        if let Some((known, zone)) = &last
            && known == name
        {
            return Ok(Some(*zone));
        }
        let zone = Zone::parse(name).ok_or_else(|| missing(name))?;
        last = Some((name.to_owned(), zone));
        Ok(Some(zone))
    };
    names.as_string::<i32>().iter().map(zone).collect()
}

fn of_interval(span: Interval) -> Result<Zone> {
    let seconds = span.ns / SECOND_NS;
    if span.months != 0 || span.days != 0 || span.ns % SECOND_NS != 0 || seconds.abs() >= 16 * 3_600 {
        return Err(Error::invalid(format!("the interval {} is no offset of a time zone", span.text())).into());
    }
    Ok(Zone::Fixed(seconds))
}

fn takes_two(types: &[DataType]) -> Result<Vec<DataType>> {
    let is_time = |kind: &DataType| {
        matches!(kind, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 | DataType::Null) || is_text(kind)
    };
    if types.len() != 2 || !types.iter().all(is_time) {
        return wrong_types("age", "two timestamps", types);
    }
    let zoned = types.iter().any(|kind| matches!(kind, DataType::Timestamp(_, Some(_))));
    Ok(vec![if zoned { timestamptz() } else { TIMESTAMP }; 2])
}

/// The difference of two timestamps in calendar years, months, days and time.
fn age(call: &Call) -> Result<ArrayRef> {
    let (later, per_second) = local_ticks(&call.array(0)?, &call.zone)?;
    let (earlier, _) = local_ticks(&call.array(1)?, &call.zone)?;
    let spans: PrimitiveArray<IntervalMonthDayNanoType> = zip(&later, &earlier, |later, earlier| {
        let span = if later >= earlier {
            between(later, earlier, per_second)
        } else {
            between(earlier, later, per_second).and_then(Interval::checked_neg)
        };
        span.map(stored).ok_or_else(|| out_of_range("interval"))
    })?;
    Ok(Arc::new(spans))
}

/// The calendar difference of two times. Days that are borrowed from a month have the length of the earlier one's.
fn between(later: i64, earlier: i64, per_second: i64) -> Option<Interval> {
    let day = per_second * DAY_SECONDS;
    let (a, b) = (civil(later.div_euclid(day)), civil(earlier.div_euclid(day)));
    let mut months = (a.year - b.year) * 12 + a.month - b.month;
    let mut days = a.day - b.day;
    let mut ticks = later.rem_euclid(day) - earlier.rem_euclid(day);
    if ticks < 0 {
        ticks += day;
        days -= 1;
    }
    if days < 0 {
        days += days_in_month(b.year, b.month);
        months -= 1;
        if days < 0 {
            days += days_in_month(b.year, b.month);
            months -= 1;
        }
    }
    Some(Interval {
        months: i32::try_from(months).ok()?,
        days: i32::try_from(days).ok()?,
        ns: ticks * (SECOND_NS / per_second),
    })
}

fn takes_pattern(types: &[DataType]) -> Result<Vec<DataType>> {
    let form = "a date or a timestamp and a pattern such as 'YYYY-MM-DD'";
    let [time, pattern] = types else { return wrong_types("to_char", form, types) };
    let time = match time {
        DataType::Date32 | DataType::Timestamp(..) => time.clone(),
        DataType::Date64 => DataType::Date32,
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Nanosecond),
        DataType::Null => TIMESTAMP,
        time if is_text(time) => TIMESTAMP,
        _ => return wrong_types("to_char", form, types),
    };
    if !is_text(pattern) && *pattern != DataType::Null {
        return wrong_types("to_char", form, types);
    }
    Ok(vec![time, DataType::Utf8])
}

fn to_char(call: &Call) -> Result<ArrayRef> {
    use datafusion::arrow::array::StringArray;
    let (times, patterns) = (call.array(0)?, exact_cast(&call.array(1)?, &DataType::Utf8)?);
    let patterns = patterns.as_string::<i32>();
    let is_clock = matches!(times.data_type(), DataType::Time64(_));
    let is_date = *times.data_type() == DataType::Date32;
    let (values, per_second) = if is_date { (integers(&times)?, 1) } else { ticks(&times)? };
    let has_zone = matches!(times.data_type(), DataType::Timestamp(_, Some(_)));
    let mut last: Option<(String, Vec<pattern::Piece>)> = None;
    let mut row = |row: usize| -> Result<Option<String>> {
        if values.is_null(row) || patterns.is_null(row) {
            return Ok(None);
        }
        let text = patterns.value(row);
        if last.as_ref().is_none_or(|(known, _)| known != text) {
            last = Some((text.to_owned(), pattern::parse(text)?));
        }
        let Some((_, pieces)) = &last else { return Ok(None) };
        let value = values.value(row);
        let shown = if is_date {
            pattern::Shown { days: value, ns: 0, offset: None, is_clock: false }
        } else {
            let seconds = value.div_euclid(per_second);
            let offset =
                if has_zone { call.zone.offset_at(seconds).ok_or_else(|| out_of_range("timestamp"))? } else { 0 };
            let local = value.checked_add(offset * per_second).ok_or_else(|| out_of_range("timestamp"))?;
            let day = DAY_SECONDS * per_second;
            let ns = local.rem_euclid(day) * (SECOND_NS / per_second);
            let offset = has_zone.then(|| (offset, call.zone.name()));
            pattern::Shown { days: local.div_euclid(day), ns, offset, is_clock }
        };
        pattern::write(pieces, &shown).map(Some)
    };
    let texts: StringArray = (0..values.len()).map(&mut row).collect::<Result<_>>()?;
    exact_cast(&(Arc::new(texts) as ArrayRef), &call.to)
}
