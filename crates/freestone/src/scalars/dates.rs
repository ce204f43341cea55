//! Functions of dates and timestamps. Timestamps are microseconds; a date is the timestamp of its midnight.

use std::fmt::Write;
use std::sync::Arc;

use chrono::format::{Item, StrftimeItems};
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, Timelike};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, Float64Array, Int64Array, IntervalMonthDayNanoArray, StringViewArray,
    TimestampMicrosecondArray,
};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
    TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::exec_err;
use datafusion::error::Result;

use super::Scalar;

pub(super) const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);
const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const TEXT: DataType = DataType::Utf8View;
const INT: DataType = DataType::Int64;

const DAY_MICROS: i64 = 86_400_000_000;
/// The Julian day number of 1970-01-01.
const JULIAN_EPOCH: f64 = 2_440_588.0;
/// Buckets of fixed width begin at a Monday, those of months at the first of January 2000, as in DuckDB.
const BUCKET_ORIGIN: i64 = 10_959 * DAY_MICROS;
const BUCKET_ORIGIN_MONTH: i64 = 2000 * 12;

pub(super) fn all() -> Vec<Scalar> {
    let mut all = parts();
    all.extend([
        name(&["dayname"], "%A"),
        name(&["monthname"], "%B"),
        Scalar::new(&["last_day"], &[&[TIMESTAMP]], DataType::Date32, last_day),
        number(&["epoch"], |micros| micros as f64 / 1e6),
        number(&["julian"], |micros| micros as f64 / DAY_MICROS as f64 + JULIAN_EPOCH),
        Scalar::new(&["epoch_us"], &[&[TIMESTAMP]], INT, |a| integers(&a[0], Ok)),
        Scalar::new(&["epoch_ns"], &[&[TIMESTAMP]], INT, |a| integers(&a[0], |t| scaled(t, 1000))),
        Scalar::new(&["make_timestamp_ms"], &[&[INT]], TIMESTAMP, |a| from_integers(&a[0], 1000)),
        Scalar::new(&["date_diff", "datediff"], &[&[TEXT, TIMESTAMP, TIMESTAMP]], INT, |a| differences(a, boundaries)),
        Scalar::new(&["date_sub", "datesub"], &[&[TEXT, TIMESTAMP, TIMESTAMP]], INT, |a| differences(a, whole_parts)),
        Scalar::new(&["age"], &[&[TIMESTAMP, TIMESTAMP]], INTERVAL, age),
        Scalar::new(&["strftime"], &[&[TIMESTAMP, TEXT]], TEXT, strftime),
        Scalar::new(&["strptime"], &[&[TEXT, TEXT]], TIMESTAMP, |a| strptime(a, true)),
        Scalar::new(&["try_strptime"], &[&[TEXT, TEXT]], TIMESTAMP, |a| strptime(a, false)),
        Scalar::new(
            &["time_bucket"],
            &[&[INTERVAL, TIMESTAMP], &[INTERVAL, TIMESTAMP, TIMESTAMP]],
            TIMESTAMP,
            time_bucket,
        ),
        Scalar::new(&["make_timestamp"], &[&[INT, INT, INT, INT, INT, DataType::Float64]], TIMESTAMP, make_timestamp),
    ]);
    all
}

/// One field of a timestamp as a number.
type Field = fn(NaiveDateTime) -> i64;

fn parts() -> Vec<Scalar> {
    let fields: [(&[&'static str], Field); 19] = [
        (&["year"], |t| t.year().into()),
        (&["month"], |t| t.month().into()),
        (&["day", "dayofmonth"], |t| t.day().into()),
        (&["quarter"], |t| (t.month0() / 3 + 1).into()),
        (&["week", "weekofyear"], |t| t.iso_week().week().into()),
        (&["isoyear"], |t| t.iso_week().year().into()),
        (&["yearweek"], |t| i64::from(t.iso_week().year()) * 100 + i64::from(t.iso_week().week())),
        (&["dayofweek", "weekday"], |t| t.weekday().num_days_from_sunday().into()),
        (&["isodow"], |t| t.weekday().number_from_monday().into()),
        (&["dayofyear"], |t| t.ordinal().into()),
        (&["hour"], |t| t.hour().into()),
        (&["minute"], |t| t.minute().into()),
        (&["second"], |t| t.second().into()),
        (&["millisecond"], |t| micros_of_minute(t) / 1000),
        (&["microsecond"], micros_of_minute),
        (&["decade"], |t| i64::from(t.year()).div_euclid(10)),
        (&["century"], |t| period(t, 100)),
        (&["millennium"], |t| period(t, 1000)),
        (&["era"], |t| (t.year() > 0).into()),
    ];
    fields
        .into_iter()
        .map(|(names, field)| {
            Scalar::new(names, &[&[TIMESTAMP]], INT, move |a| integers(&a[0], |micros| Ok(field(time(micros)?))))
        })
        .collect()
}

fn micros_of_minute(t: NaiveDateTime) -> i64 {
    i64::from(t.second()) * 1_000_000 + i64::from(t.nanosecond() / 1000)
}

/// The number of a century or millennium: the year 1 begins the first, the year 0 (1 BC) ends the one before, which is -1.
fn period(t: NaiveDateTime, years: i64) -> i64 {
    match i64::from(t.year()) {
        year @ 1.. => (year - 1) / years + 1,
        year => -(-year / years + 1),
    }
}

/// The moment of a timestamp; an error beyond the calendar's ends, which infinite timestamps are.
fn time(micros: i64) -> Result<NaiveDateTime> {
    match DateTime::from_timestamp_micros(micros) {
        Some(time) => Ok(time.naive_utc()),
        None => exec_err!("timestamp {micros} microseconds from 1970 is out of the calendar's range"),
    }
}

fn scaled(value: i64, factor: i64) -> Result<i64> {
    value.checked_mul(factor).map_or_else(|| exec_err!("{value} * {factor} is out of range for BIGINT"), Ok)
}

fn integers(times: &ArrayRef, value: impl Fn(i64) -> Result<i64>) -> Result<ArrayRef> {
    let times = times.as_primitive::<TimestampMicrosecondType>();
    let values = times.iter().map(|micros| micros.map(&value).transpose());
    Ok(Arc::new(values.collect::<Result<Int64Array>>()?))
}

fn from_integers(values: &ArrayRef, factor: i64) -> Result<ArrayRef> {
    let values = values.as_primitive::<Int64Type>().iter().map(|v| v.map(|v| scaled(v, factor)).transpose());
    Ok(Arc::new(values.collect::<Result<TimestampMicrosecondArray>>()?))
}

fn number(names: &[&'static str], value: fn(i64) -> f64) -> Scalar {
    Scalar::new(names, &[&[TIMESTAMP]], DataType::Float64, move |a| {
        let times = a[0].as_primitive::<TimestampMicrosecondType>();
        Ok(Arc::new(times.iter().map(|micros| micros.map(value)).collect::<Float64Array>()))
    })
}

/// A function that gives a name in English.
fn name(names: &[&'static str], format: &'static str) -> Scalar {
    Scalar::new(names, &[&[TIMESTAMP]], TEXT, move |a| {
        let times = a[0].as_primitive::<TimestampMicrosecondType>();
        let names = times.iter().map(|micros| micros.map(|t| Ok(time(t)?.format(format).to_string())).transpose());
        Ok(Arc::new(names.collect::<Result<StringViewArray>>()?))
    })
}

fn last_day(a: &[ArrayRef]) -> Result<ArrayRef> {
    let times = a[0].as_primitive::<TimestampMicrosecondType>();
    let last = |micros| {
        let date = time(micros)?.date();
        let days = date.num_days_in_month();
        Ok(Date32Type::from_naive_date(date.with_day(days.into()).unwrap_or(date)))
    };
    Ok(Arc::new(times.iter().map(|micros| micros.map(last).transpose()).collect::<Result<Date32Array>>()?))
}

/// A part of a timestamp by which differences are counted.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Months(i64),
    Micros(i64),
    /// ISO weeks begin on Mondays.
    Week,
}

fn part(name: &str) -> Result<Part> {
    let lower = name.trim().to_ascii_lowercase();
    match lower.as_str() {
        "ms" => return Ok(Part::Micros(1000)),
        "us" => return Ok(Part::Micros(1)),
        _ => {}
    }
    Ok(match lower.strip_suffix('s').filter(|name| !name.is_empty()).unwrap_or(&lower) {
        "millennium" | "millennia" | "mil" => Part::Months(12_000),
        "century" | "centurie" | "cent" => Part::Months(1200),
        "decade" | "dec" => Part::Months(120),
        "year" | "yr" | "y" => Part::Months(12),
        "quarter" => Part::Months(3),
        "month" | "mon" => Part::Months(1),
        "week" | "w" => Part::Week,
        "day" | "d" | "dayofmonth" => Part::Micros(DAY_MICROS),
        "hour" | "hr" | "h" => Part::Micros(3_600_000_000),
        "minute" | "min" | "m" => Part::Micros(60_000_000),
        "second" | "sec" | "s" => Part::Micros(1_000_000),
        "millisecond" | "msec" => Part::Micros(1000),
        "microsecond" | "usec" => Part::Micros(1),
        _ => {
            return exec_err!(
                "'{name}' is not a part of a timestamp; parts are year, quarter, month, week, day, hour, minute, second, …"
            );
        }
    })
}

fn differences(a: &[ArrayRef], count: fn(Part, i64, i64) -> Result<i64>) -> Result<ArrayRef> {
    let (parts, from, to) = (
        a[0].as_string_view(),
        a[1].as_primitive::<TimestampMicrosecondType>(),
        a[2].as_primitive::<TimestampMicrosecondType>(),
    );
    let rows = parts.iter().zip(from).zip(to);
    let counted = rows.map(|((name, from), to)| match (name, from, to) {
        (Some(name), Some(from), Some(to)) => count(part(name)?, from, to).map(Some),
        _ => Ok(None),
    });
    Ok(Arc::new(counted.collect::<Result<Int64Array>>()?))
}

/// Months since the year 0.
fn months(t: NaiveDateTime) -> i64 {
    i64::from(t.year()) * 12 + i64::from(t.month0())
}

/// How many boundaries of a part lie between two timestamps.
fn boundaries(part: Part, from: i64, to: i64) -> Result<i64> {
    Ok(match part {
        Part::Months(n) => months(time(to)?).div_euclid(n) - months(time(from)?).div_euclid(n),
        Part::Micros(n) => to.div_euclid(n) - from.div_euclid(n),
        Part::Week => week(to) - week(from),
    })
}

/// Weeks since the Monday before 1970, a Thursday.
fn week(micros: i64) -> i64 {
    (micros.div_euclid(DAY_MICROS) + 3).div_euclid(7)
}

/// How many whole parts lie between two timestamps.
fn whole_parts(part: Part, from: i64, to: i64) -> Result<i64> {
    Ok(match part {
        Part::Micros(n) => difference(from, to)? / n,
        Part::Week => difference(from, to)? / (7 * DAY_MICROS),
        Part::Months(n) if from <= to => whole_months(time(from)?, time(to)?) / n,
        Part::Months(n) => -(whole_months(time(to)?, time(from)?) / n),
    })
}

fn difference(from: i64, to: i64) -> Result<i64> {
    to.checked_sub(from).map_or_else(|| exec_err!("the difference of the timestamps is out of range"), Ok)
}

/// Whole months from an earlier to a later timestamp: the last day of a month is at least any day of another.
fn whole_months(from: NaiveDateTime, to: NaiveDateTime) -> i64 {
    let count = months(to) - months(from);
    let is_last = to.day() == u32::from(to.date().num_days_in_month());
    let day = if is_last { from.day().min(to.day()) } else { from.day() };
    count - i64::from((day, from.time()) > (to.day(), to.time()))
}

/// Years, months, days and time from the second to the first argument, as PostgreSQL counts them.
fn age(a: &[ArrayRef]) -> Result<ArrayRef> {
    let (to, from) = (a[0].as_primitive::<TimestampMicrosecondType>(), a[1].as_primitive::<TimestampMicrosecondType>());
    let ages = to.iter().zip(from).map(|(to, from)| match (to, from) {
        (Some(to), Some(from)) => age_of(from, to).map(Some),
        _ => Ok(None),
    });
    Ok(Arc::new(ages.collect::<Result<IntervalMonthDayNanoArray>>()?))
}

fn age_of(from: i64, to: i64) -> Result<IntervalMonthDayNano> {
    if from > to {
        let IntervalMonthDayNano { months, days, nanoseconds } = age_of(to, from)?;
        return Ok(IntervalMonthDayNano::new(-months, -days, -nanoseconds));
    }
    let (earlier, later) = (time(from)?, time(to)?);
    let mut count = months(later) - months(earlier);
    let mut days = i64::from(later.day()) - i64::from(earlier.day());
    let mut micros = to.rem_euclid(DAY_MICROS) - from.rem_euclid(DAY_MICROS);
    if micros < 0 {
        micros += DAY_MICROS;
        days -= 1;
    }
    if days < 0 {
        // A month is as long as the earlier date's.
        days += i64::from(earlier.date().num_days_in_month());
        count -= 1;
    }
    match (i32::try_from(count), i32::try_from(days)) {
        (Ok(count), Ok(days)) => Ok(IntervalMonthDayNano::new(count, days, scaled(micros, 1000)?)),
        _ => exec_err!("the difference of the timestamps is out of range for INTERVAL"),
    }
}

fn strftime(a: &[ArrayRef]) -> Result<ArrayRef> {
    let (times, formats) = (a[0].as_primitive::<TimestampMicrosecondType>(), a[1].as_string_view());
    let texts = times.iter().zip(formats).map(|(micros, format)| match (micros, format) {
        (Some(micros), Some(format)) => formatted(time(micros)?, format).map(Some),
        _ => Ok(None),
    });
    Ok(Arc::new(texts.collect::<Result<StringViewArray>>()?))
}

fn formatted(time: NaiveDateTime, format: &str) -> Result<String> {
    let format = as_chrono(format);
    let mut text = String::new();
    let known = StrftimeItems::new(&format).all(|item| !matches!(item, Item::Error));
    match known && write!(text, "{}", time.format(&format)).is_ok() {
        true => Ok(text),
        false => exec_err!("'{format}' is not a format of strftime: a specifier is unknown, or needs a time zone"),
    }
}

/// DuckDB's specifiers in chrono's spelling: `%f` are microseconds in six digits, `%g` milliseconds in three.
fn as_chrono(format: &str) -> String {
    let mut out = String::with_capacity(format.len());
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        out.push(c);
        if c == '%' {
            match rest.next() {
                Some('f') => out.push_str("6f"),
                Some('g') => out.push_str("3f"),
                Some('n') => out.push_str("9f"),
                Some(next) => out.push(next),
                None => {}
            }
        }
    }
    out
}

fn strptime(a: &[ArrayRef], strict: bool) -> Result<ArrayRef> {
    let (texts, formats) = (a[0].as_string_view(), a[1].as_string_view());
    let times = texts.iter().zip(formats).map(|(text, format)| match (text, format) {
        (Some(text), Some(format)) => match parsed(text, format) {
            Some(micros) => Ok(Some(micros)),
            None if strict => {
                exec_err!("'{text}' is not a time in the format '{format}'; try_strptime gives NULL there")
            }
            None => Ok(None),
        },
        _ => Ok(None),
    });
    Ok(Arc::new(times.collect::<Result<TimestampMicrosecondArray>>()?))
}

/// The moment that a text in a format names; without a time it is midnight.
fn parsed(text: &str, format: &str) -> Option<i64> {
    let format = as_chrono(format);
    let time = NaiveDateTime::parse_from_str(text, &format)
        .or_else(|_| NaiveDate::parse_from_str(text, &format).map(|date| date.and_time(Default::default())));
    match time {
        Ok(time) => Some(time.and_utc().timestamp_micros()),
        Err(_) => Some(DateTime::parse_from_str(text, &format).ok()?.timestamp_micros()),
    }
}

fn time_bucket(a: &[ArrayRef]) -> Result<ArrayRef> {
    let (widths, times) =
        (a[0].as_primitive::<IntervalMonthDayNanoType>(), a[1].as_primitive::<TimestampMicrosecondType>());
    let origins = a.get(2).map(|origins| origins.as_primitive::<TimestampMicrosecondType>());
    let buckets = (0..times.len()).map(|row| {
        let origin = match origins {
            Some(origins) if origins.is_null(row) => return Ok(None),
            Some(origins) => Some(origins.value(row)),
            None => None,
        };
        match widths.is_null(row) || times.is_null(row) {
            true => Ok(None),
            false => bucket(widths.value(row), times.value(row), origin).map(Some),
        }
    });
    Ok(Arc::new(buckets.collect::<Result<TimestampMicrosecondArray>>()?))
}

/// The start of the bucket that a timestamp lies in.
fn bucket(width: IntervalMonthDayNano, micros: i64, origin: Option<i64>) -> Result<i64> {
    let IntervalMonthDayNano { months: width_months, days, nanoseconds } = width;
    let fixed = i64::from(days) * DAY_MICROS + nanoseconds / 1000;
    let start = match (width_months, fixed) {
        (0, 1..) => {
            let origin = origin.unwrap_or(BUCKET_ORIGIN);
            difference(origin, micros)?.div_euclid(fixed).checked_mul(fixed).and_then(|past| past.checked_add(origin))
        }
        (1.., 0) => {
            let origin = origin.map_or(Ok(BUCKET_ORIGIN_MONTH), |origin| time(origin).map(months))?;
            let width = i64::from(width_months);
            let month = (months(time(micros)?) - origin).div_euclid(width) * width + origin;
            let year = i32::try_from(month.div_euclid(12)).ok();
            let date = year.and_then(|year| NaiveDate::from_ymd_opt(year, month.rem_euclid(12) as u32 + 1, 1));
            date.map(|date| date.and_time(Default::default()).and_utc().timestamp_micros())
        }
        _ => return exec_err!("the width of time_bucket must be positive, and of months alone or without months"),
    };
    start.map_or_else(|| exec_err!("the start of the bucket is out of the calendar's range"), Ok)
}

fn make_timestamp(a: &[ArrayRef]) -> Result<ArrayRef> {
    let fields: Vec<&Int64Array> = a[..5].iter().map(|field| field.as_primitive::<Int64Type>()).collect();
    let seconds = a[5].as_primitive::<Float64Type>();
    let times = (0..seconds.len()).map(|row| {
        if seconds.is_null(row) || fields.iter().any(|field| field.is_null(row)) {
            return Ok(None);
        }
        let [year, month, day, hour, minute] = [0, 1, 2, 3, 4].map(|field: usize| fields[field].value(row));
        let second = seconds.value(row);
        match moment([year, month, day, hour, minute], second) {
            Some(micros) => Ok(Some(micros)),
            None => exec_err!("{year}-{month}-{day} {hour}:{minute}:{second} is not a timestamp"),
        }
    });
    Ok(Arc::new(times.collect::<Result<TimestampMicrosecondArray>>()?))
}

fn moment([year, month, day, hour, minute]: [i64; 5], second: f64) -> Option<i64> {
    let small = |value: i64| u32::try_from(value).ok();
    let date = NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, small(month)?, small(day)?)?;
    let start = date.and_hms_opt(small(hour)?, small(minute)?, 0)?.and_utc().timestamp_micros();
    (0.0..60.0).contains(&second).then(|| start + (second * 1e6).round() as i64)
}
