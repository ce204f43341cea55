//! Date parts, the results of `date_part` and EXTRACT.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int32Array, Int64Array, Time64MicrosecondArray,
};
use datafusion::arrow::compute::kernels::zip::zip;
use datafusion::arrow::compute::{not, nullif};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::interval_arithmetic::Interval as Range;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;

use super::arrays::{
    INTERVAL, Intervals, TIMESTAMP, day_of, exact_cast, finite, integers, interval_of, intervals, is_span, is_text,
    is_time_of_day, local_ticks, map, out_of_range, per_second, ticks,
};
use super::calendar::{civil, day_of_year, days_of, iso_week, iso_year_start, run_of_years, weekday};
use super::convert::from_texts;
use super::function::{Call, TimeFunction, wrong_types};
use super::interval::{Interval, SECOND_NS};
use super::zone::Zone;
use crate::error::Error;
use crate::normal_texts::ZonedTime;

const DAY_SECONDS: i64 = 86_400;

/// A date part. Those with a length are ordered, coarsest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Millennium,
    Century,
    Decade,
    Year,
    IsoYear,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    Epoch,
    Julian,
    Era,
    YearWeek,
    TimeZone,
    TimeZoneHour,
    TimeZoneMinute,
}

impl Part {
    pub fn named(name: &str) -> Option<Part> {
        let name = name.trim_matches(['\'', '"']).to_ascii_lowercase();
        Some(match name.as_str() {
            "millennium" | "millenniums" | "millennia" | "millenium" | "mil" | "mils" => Part::Millennium,
            "century" | "centuries" | "cent" | "c" => Part::Century,
            "decade" | "decades" | "dec" | "decs" => Part::Decade,
            "year" | "years" | "yr" | "yrs" | "y" => Part::Year,
            "isoyear" => Part::IsoYear,
            "quarter" | "quarters" | "qtr" => Part::Quarter,
            "month" | "months" | "mon" | "mons" => Part::Month,
            "week" | "weeks" | "w" | "isoweek" | "weekofyear" => Part::Week,
            "day" | "days" | "d" | "dayofmonth" => Part::Day,
            "hour" | "hours" | "hr" | "hrs" | "h" => Part::Hour,
            "minute" | "minutes" | "min" | "mins" | "m" => Part::Minute,
            "second" | "seconds" | "sec" | "secs" | "s" => Part::Second,
            "millisecond" | "milliseconds" | "msec" | "msecs" | "ms" => Part::Millisecond,
            "microsecond" | "microseconds" | "usec" | "usecs" | "us" => Part::Microsecond,
            "nanosecond" | "nanoseconds" | "nsec" | "nsecs" | "ns" => Part::Nanosecond,
            "dow" | "dayofweek" | "weekday" => Part::DayOfWeek,
            "isodow" => Part::IsoDayOfWeek,
            "doy" | "dayofyear" => Part::DayOfYear,
            "epoch" => Part::Epoch,
            "julian" => Part::Julian,
            "era" => Part::Era,
            "yearweek" => Part::YearWeek,
            "timezone" => Part::TimeZone,
            "timezone_hour" => Part::TimeZoneHour,
            "timezone_minute" => Part::TimeZoneMinute,
            _ => return None,
        })
    }

    pub fn is_in_clock(self) -> bool {
        (Part::Hour..=Part::Nanosecond).contains(&self)
    }

    /// The part of a date.
    fn of_days(self, days: i64) -> i64 {
        match self {
            Part::Millennium => run_of_years(civil(days).year, 1_000),
            Part::Century => run_of_years(civil(days).year, 100),
            Part::Decade => civil(days).year.div_euclid(10),
            Part::Year => civil(days).year,
            Part::IsoYear => iso_week(days).0,
            Part::Quarter => (civil(days).month + 2) / 3,
            Part::Month => civil(days).month,
            Part::Week => iso_week(days).1,
            Part::Day => civil(days).day,
            Part::DayOfWeek => (weekday(days) + 1) % 7,
            Part::IsoDayOfWeek => weekday(days) + 1,
            Part::DayOfYear => day_of_year(days),
            Part::Era => i64::from(civil(days).year > 0),
            Part::YearWeek => year_week(days),
            _ => 0,
        }
    }

    /// The part of a time of day in ticks, with the given number of ticks per second.
    fn of_clock(self, ticks: i64, per_second: i64) -> i64 {
        let (second, fraction) = (ticks / per_second, ticks % per_second);
        let in_minute = |scale: i64| {
            (second % 60) * scale + (i128::from(fraction) * i128::from(scale) / i128::from(per_second)) as i64
        };
        match self {
            Part::Hour => second / 3_600,
            Part::Minute => second / 60 % 60,
            Part::Second => second % 60,
            Part::Millisecond => in_minute(1_000),
            Part::Microsecond => in_minute(1_000_000),
            Part::Nanosecond => in_minute(1_000_000_000),
            _ => 0,
        }
    }

    /// The part of an offset from UTC, in seconds.
    pub(super) fn of_offset(self, offset: i64) -> i64 {
        match self {
            Part::TimeZoneHour => offset / 3_600,
            Part::TimeZoneMinute => offset / 60 % 60,
            _ => offset,
        }
    }

    /// The first day of the part that contains a day.
    pub fn start_of(self, days: i64) -> i64 {
        let year = || civil(days).year;
        match self {
            Part::Millennium => days_of((year() - 1).div_euclid(1_000) * 1_000 + 1, 1, 1),
            Part::Century => days_of((year() - 1).div_euclid(100) * 100 + 1, 1, 1),
            Part::Decade => days_of(year().div_euclid(10) * 10, 1, 1),
            Part::Year => days_of(year(), 1, 1),
            Part::IsoYear => iso_year_start(iso_week(days).0),
            Part::Quarter => {
                let date = civil(days);
                days_of(date.year, (date.month - 1) / 3 * 3 + 1, 1)
            }
            Part::Month => days - civil(days).day + 1,
            Part::Week => days - weekday(days),
            _ => days,
        }
    }

    /// The length of the part in ticks; `None` for calendar parts.
    pub fn ticks(self, per_second: i64) -> Option<i64> {
        Some(match self {
            Part::Hour => 3_600 * per_second,
            Part::Minute => 60 * per_second,
            Part::Second => per_second,
            Part::Millisecond => per_second / 1_000,
            Part::Microsecond => per_second / 1_000_000,
            Part::Nanosecond => per_second / 1_000_000_000,
            _ => return None,
        })
    }
}

/// The ISO year and week of a day as one number: 202401.
pub(crate) fn year_week(days: i64) -> i64 {
    let (year, week) = iso_week(days);
    year * 100 + if year > 0 { week } else { -week }
}

/// `date_part('year', time)`, which implements EXTRACT.
pub(crate) fn date_part() -> TimeFunction {
    let function = TimeFunction::new("date_part", takes_part, gives_part, run_part).with_alias("datepart");
    TimeFunction { preimage: Some(years_preimage), ..function }
}

pub(super) fn takes_part(types: &[DataType]) -> Result<Vec<DataType>> {
    let [part, time] = types else { return wrong_types("date_part", "a part's name and a time", types) };
    let Some(time) = taken_by_parts(time) else {
        return wrong_types("date_part", "a part's name and a date, timestamp, time or interval", types);
    };
    Ok(vec![if is_text(part) { part.clone() } else { DataType::Utf8 }, time])
}

/// The type from which the parts of a value are computed, if it has parts.
pub(crate) fn taken_by_parts(time: &DataType) -> Option<DataType> {
    Some(match time {
        DataType::Date64 => DataType::Date32,
        DataType::Date32 | DataType::Timestamp(..) => time.clone(),
        time if is_time_of_day(time) => time.clone(),
        time if is_span(time) => INTERVAL,
        time if is_text(time) => DataType::Utf8View,
        DataType::Null => TIMESTAMP,
        _ => return None,
    })
}

fn gives_part(types: &[DataType], constants: &[Option<&ScalarValue>]) -> Result<DataType> {
    let [_, time] = types else { return wrong_types("date_part", "a part's name and a time", types) };
    let name = constants.first().copied().flatten().and_then(|value| value.try_as_str().flatten());
    // If the part becomes constant only in the optimizer, or each row has its own, the type is INT.
    let Some(name) = name else { return Ok(DataType::Int32) };
    part_type(name, time)
}

/// The result type of a part.
pub(crate) fn part_type(name: &str, time: &DataType) -> Result<DataType> {
    Ok(match part_of(name, time)? {
        Part::Epoch | Part::Julian => DataType::Float64,
        Part::Nanosecond => DataType::Int64,
        _ => DataType::Int32,
    })
}

/// The part with this name, if the type has it.
pub(super) fn part_of(name: &str, time: &DataType) -> Result<Part> {
    let Some(part) = Part::named(name) else {
        let message = format!("{name} is no part of a time");
        let hint = "parts are year, month, day, hour, minute, second, quarter, week, dow, doy, epoch and others";
        return Err(Error::invalid(message).with_hint(hint).into());
    };
    let is_zone = matches!(part, Part::TimeZone | Part::TimeZoneHour | Part::TimeZoneMinute);
    let has = match time {
        DataType::Timestamp(..) => true,
        DataType::Date32 => !is_zone,
        // A timestamp, or a time of day with a zone.
        time if is_text(time) => true,
        time if is_time_of_day(time) => part.is_in_clock() || is_zone || part == Part::Epoch,
        _ => part == Part::Epoch || part <= Part::Nanosecond && part != Part::IsoYear,
    };
    match has {
        true => Ok(part),
        false => {
            let kind = crate::type_names::type_name(time);
            Err(Error::invalid(format!("{kind} has no part {}", name.to_lowercase())).into())
        }
    }
}

fn run_part(call: &Call) -> Result<ArrayRef> {
    let times = call.array(1)?;
    if call.constant(0).is_some() {
        let Some(name) = call.text(0, "the part of date_part")? else { return Ok(call.nulls()) };
        return part_of_times(&name, &times, call);
    }
    // Each part that occurs, for the times of its rows.
    let names = exact_cast(&call.array(0)?, &DataType::Utf8)?;
    let names = names.as_string::<i32>();
    let distinct: BTreeSet<&str> = names.iter().flatten().collect();
    let mut result = call.nulls();
    for name in distinct {
        let is_own: BooleanArray = names.iter().map(|other| Some(other == Some(name))).collect();
        let own = nullif(&times, &not(&is_own)?)?;
        if matches!(Part::named(name), Some(Part::Epoch | Part::Julian)) {
            let message = format!("{name} is a DOUBLE, and the parts of other rows are INT");
            return Err(Error::invalid(message).with_hint("write it as a constant").into());
        }
        let part = exact_cast(&part_of_times(name, &own, call)?, &call.to)?;
        result = zip(&is_own, &part, &result)?;
    }
    Ok(result)
}

/// Texts as times: as timestamps, or all of them as times of day with a zone, whose offsets are the second.
pub(super) fn read_times(texts: &ArrayRef, call: &Call) -> Result<(ArrayRef, Option<Int32Array>)> {
    let written: Vec<Option<ZonedTime>> = texts.as_string_view().iter().map(|text| ZonedTime::of(text?)).collect();
    if written.iter().filter(|time| time.is_some()).count() == 0 {
        let mut reading = call.clone();
        reading.to = TIMESTAMP;
        return Ok((from_texts(texts, false, &reading)?, None));
    }
    if let Some(row) = (0..texts.len()).find(|row| written[*row].is_none() && texts.is_valid(*row)) {
        let text = texts.as_string_view().value(row);
        return Err(Error::invalid(format!("'{text}' is no time of day with a zone, as other rows are")).into());
    }
    let micros: Time64MicrosecondArray = written.iter().map(|time| time.map(|time| time.micros)).collect();
    Ok((Arc::new(micros), Some(written.iter().map(|time| time.map(|time| time.offset)).collect())))
}

/// The part of each time.
pub(crate) fn part_of_times(name: &str, times: &ArrayRef, call: &Call) -> Result<ArrayRef> {
    if is_text(times.data_type()) {
        return match (read_times(times, call)?, part_of(name, times.data_type())?) {
            ((_, Some(offsets)), part @ (Part::TimeZone | Part::TimeZoneHour | Part::TimeZoneMinute)) => {
                Ok(Arc::new(offsets.unary::<_, Int32Type>(|offset| part.of_offset(offset.into()) as i32)))
            }
            ((times, _), _) => part_of_times(name, &times, call),
        };
    }
    let part = part_of(name, times.data_type())?;
    let times = &finite(times)?;
    if is_span(times.data_type()) {
        return of_intervals(part, &intervals(times)?, &call.to);
    }
    match part {
        Part::Epoch => epoch(times),
        Part::Julian => julian(times, &call.zone),
        Part::TimeZone | Part::TimeZoneHour | Part::TimeZoneMinute => offsets(part, times, &call.zone),
        _ => of_times(part, times, &call.zone, &call.to),
    }
}

pub(super) fn of_times(part: Part, times: &ArrayRef, zone: &Zone, to: &DataType) -> Result<ArrayRef> {
    if *times.data_type() == DataType::Date32 {
        let days = integers(times)?;
        return typed(map::<_, Int64Type>(&days, |days| Ok(part.of_days(days)))?, to);
    }
    let (values, per_second) = local_ticks(times, zone)?;
    let day = DAY_SECONDS * per_second;
    let is_clock = is_time_of_day(times.data_type());
    let of = |value: i64| match part.is_in_clock() {
        // A time of day may be 24:00:00.
        true => part.of_clock(if is_clock { value } else { value.rem_euclid(day) }, per_second),
        false => part.of_days(day_of(value, per_second)),
    };
    typed(map::<_, Int64Type>(&values, |value| Ok(of(value)))?, to)
}

/// Integers in the declared result type.
fn typed(values: Int64Array, to: &DataType) -> Result<ArrayRef> {
    match to {
        DataType::Int32 => {
            let narrow = |value| i32::try_from(value).map_err(|_| out_of_range("the part of the timestamp is"));
            Ok(Arc::new(map::<_, Int32Type>(&values, narrow)?))
        }
        DataType::Float64 => Ok(Arc::new(map::<_, Float64Type>(&values, |value| Ok(value as f64))?)),
        _ => Ok(Arc::new(values)),
    }
}

/// Seconds since 1970, or since midnight.
pub(super) fn epoch(times: &ArrayRef) -> Result<ArrayRef> {
    if *times.data_type() == DataType::Date32 {
        let seconds = map::<_, Float64Type>(&integers(times)?, |days| Ok((days * DAY_SECONDS) as f64))?;
        return Ok(Arc::new(seconds));
    }
    let (values, per_second) = ticks(times)?;
    Ok(Arc::new(map::<_, Float64Type>(&values, |value| Ok(value as f64 / per_second as f64))?))
}

/// The Julian day, including the fraction of the day since midnight.
pub(super) fn julian(times: &ArrayRef, zone: &Zone) -> Result<ArrayRef> {
    const OF_1970: i64 = 2_440_588;
    if *times.data_type() == DataType::Date32 {
        return Ok(Arc::new(map::<_, Float64Type>(&integers(times)?, |days| Ok((days + OF_1970) as f64))?));
    }
    let (values, per_second) = local_ticks(times, zone)?;
    let day = DAY_SECONDS * per_second;
    let of = |value: i64| (value.div_euclid(day) + OF_1970) as f64 + value.rem_euclid(day) as f64 / day as f64;
    Ok(Arc::new(map::<_, Float64Type>(&values, |value| Ok(of(value)))?))
}

/// The parts of the offsets from UTC, which are 0 where the type has no zone.
pub(super) fn offsets(part: Part, times: &ArrayRef, zone: &Zone) -> Result<ArrayRef> {
    let (values, per_second) = ticks(times)?;
    if !matches!(times.data_type(), DataType::Timestamp(_, Some(_))) {
        return Ok(Arc::new(map::<_, Int32Type>(&values, |_| Ok(0))?));
    }
    let offsets = map::<_, Int32Type>(&values, |value| {
        let offset = zone.offset_at(value.div_euclid(per_second)).ok_or_else(|| out_of_range("timestamp"))?;
        Ok(part.of_offset(offset) as i32)
    })?;
    Ok(Arc::new(offsets))
}

/// Parts of intervals: years and months from the months, days, and hours, which may exceed 24.
pub(super) fn of_intervals(part: Part, spans: &Intervals, to: &DataType) -> Result<ArrayRef> {
    if part == Part::Epoch {
        // A year has 365.25 days here, as in PostgreSQL and DuckDB.
        let seconds = |span: Interval| {
            let (years, months) = (i64::from(span.months / 12), i64::from(span.months % 12));
            let whole = years * 31_557_600 + (months * 30 + i64::from(span.days)) * DAY_SECONDS + span.ns / SECOND_NS;
            whole as f64 + (span.ns % SECOND_NS) as f64 / 1e9
        };
        return Ok(Arc::new(map::<_, Float64Type>(spans, |span| Ok(seconds(interval_of(span))))?));
    }
    let of = |span: Interval| {
        let months = i64::from(span.months);
        match part {
            Part::Millennium => months / 12_000,
            Part::Century => months / 1_200,
            Part::Decade => months / 120,
            Part::Year => months / 12,
            Part::Quarter => months % 12 / 3 + 1,
            Part::Month => months % 12,
            Part::Week => i64::from(span.days) / 7,
            Part::Day => i64::from(span.days),
            _ => part.of_clock(span.ns, SECOND_NS),
        }
    };
    typed(map::<_, Int64Type>(spans, |span| Ok(of(interval_of(span))))?, to)
}

/// The times of a year, so that a comparison of the year becomes a comparison of times, which can prune zones.
pub(super) fn years_preimage(args: &[Expr], literal: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
    let [Expr::Literal(name, _), time] = args else { return Ok(PreimageResult::None) };
    let Expr::Literal(ScalarValue::Int32(Some(year)), _) = literal else { return Ok(PreimageResult::None) };
    let is_year = name.try_as_str().flatten().and_then(Part::named) == Some(Part::Year);
    if !is_year || !(1..9_999).contains(year) {
        return Ok(PreimageResult::None);
    }
    let year = i64::from(*year);
    let kind = info.get_data_type(time)?;
    let start = |year: i64| {
        let days = days_of(year, 1, 1);
        match &kind {
            DataType::Date32 => i32::try_from(days).ok().map(|days| ScalarValue::Date32(Some(days))),
            DataType::Timestamp(unit, None) => {
                let ticks = days.checked_mul(DAY_SECONDS * per_second(*unit))?;
                ScalarValue::Int64(Some(ticks)).cast_to(&kind).ok()
            }
            _ => None,
        }
    };
    Ok(match (start(year), start(year + 1)) {
        (Some(low), Some(high)) => {
            PreimageResult::Range { expr: time.clone(), interval: Box::new(Range::try_new(low, high)?) }
        }
        _ => PreimageResult::None,
    })
}
