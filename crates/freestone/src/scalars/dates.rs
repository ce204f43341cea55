//! Parts, names and differences of dates and timestamps.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, Int32Array, Int64Array, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int32Type, Int64Type, TimeUnit};
use datafusion::error::Result;
use datafusion::logical_expr::lit;

use super::function::Scalar;
use super::kinds::Kind::{self, Date, Int, Span, Text, Time};
use super::kinds::{INT, TEXT, in_micros};
use super::rows::{any_null, ints, invalid, reals, texts, too_large};
use crate::times::calendar::{checked_days, civil, day_name, days_in_month, iso_week, month_name, weekday};
use crate::times::{
    Call, Interval, Part, Zone, date_part, day_of, exact_cast, finished, finite, integers, interval_of, intervals,
    keeping_infinite, local_ticks, map, part_of_times, part_type, stepped, taken_by_parts, to_instant,
    without_infinite, year_week, zip,
};

const DAY_SECONDS: i64 = 86_400;
const DAY_US: i64 = DAY_SECONDS * 1_000_000;
/// Buckets of days and times begin at Monday, 2000-01-03, buckets of months at 2000-01-01, as in DuckDB.
const BUCKET_DAY: i64 = 10_959;
const BUCKET_MONTH: i64 = 2000 * 12;

pub(super) fn all() -> Vec<Scalar> {
    let mut all: Vec<Scalar> = PARTS.iter().map(|(names, part)| of_part(names, part)).collect();
    all.extend([
        Scalar::new(&["yearweek"], &[&[Date]], INT, |call| without_infinite(call, |call| of_days(call, year_week))),
        Scalar::new(&["era"], &[&[Date]], INT, |call| {
            without_infinite(call, |call| of_days(call, |days| i64::from(civil(days).year > 0)))
        }),
        Scalar::new(&["dayname"], &[&[Date]], TEXT, |call| {
            without_infinite(call, |call| named(call, |days| day_name(weekday(days))))
        }),
        Scalar::new(&["monthname"], &[&[Date]], TEXT, |call| {
            without_infinite(call, |call| named(call, |days| month_name(civil(days).month)))
        }),
        Scalar::new(&["date"], &[&[Date]], DataType::Date32, |call| Ok(cast(&call.array(0)?, &DataType::Date32)?)),
        Scalar::new(&["last_day"], &[&[Date]], DataType::Date32, |call| without_infinite(call, last_day)),
        Scalar::new(&["make_date"], &[&[Int, Int, Int], &[Int]], DataType::Date32, make_date),
        Scalar::new(&["freestone_pg_year"], &[&[Int]], INT, year_of_postgres),
        Scalar::new(&["make_time"], &[&[Int, Int, Kind::Real]], DataType::Time64(TimeUnit::Microsecond), make_time),
        Scalar::new(&["date_diff", "datediff"], DIFFERENCE, INT, |call| differences(call, boundaries, true)),
        Scalar::new(&["date_sub", "datesub"], DIFFERENCE, INT, |call| differences(call, whole, false)),
        Scalar::typed(
            &["time_bucket"],
            &[&[Span, Time], &[Span, Time, Span], &[Span, Time, Time]],
            |types, _| {
                Ok(match &types[1] {
                    DataType::Date32 => DataType::Date32,
                    DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Microsecond),
                    time => in_micros(time),
                })
            },
            |call| keeping_infinite(call, time_bucket),
        ),
    ]);
    all
}

const DIFFERENCE: &[&[Kind]] = &[&[Text, Time, Time]];

/// The names of functions, and their date parts.
const PARTS: [(&[&str], &str); 23] = [
    (&["year"], "year"),
    (&["isoyear"], "isoyear"),
    (&["quarter"], "quarter"),
    (&["month"], "month"),
    (&["week", "weekofyear"], "week"),
    (&["day", "dayofmonth"], "day"),
    (&["dayofweek", "weekday"], "dow"),
    (&["isodow"], "isodow"),
    (&["dayofyear"], "doy"),
    (&["hour"], "hour"),
    (&["minute"], "minute"),
    (&["second"], "second"),
    (&["millisecond"], "millisecond"),
    (&["microsecond"], "microsecond"),
    (&["nanosecond"], "nanosecond"),
    (&["decade"], "decade"),
    (&["century"], "century"),
    (&["millennium"], "millennium"),
    (&["epoch"], "epoch"),
    (&["julian"], "julian"),
    (&["timezone_hour"], "timezone_hour"),
    (&["timezone_minute"], "timezone_minute"),
    (&["dow"], "dow"),
];

/// A function for one date part. A call is converted to one of `date_part`, for which zones can be pruned.
fn of_part(names: &'static [&'static str], name: &'static str) -> Scalar {
    let coercion = |types: &[DataType]| match types {
        [time] => Some(vec![taken_by_parts(time)?]),
        _ => None,
    };
    let takes = "a date, timestamp, time or interval";
    Scalar::with_coercion(
        names,
        takes,
        coercion,
        move |types, _| part_type(name, &types[0]),
        move |call| part_of_times(name, &call.array(0)?, call),
    )
    .simplified(move |args| date_part().into_udf().call(std::iter::once(lit(name)).chain(args).collect()))
}

/// The days since 1970 of dates and timestamps, in the session's time zone.
fn days(times: &ArrayRef, zone: &Zone) -> Result<Int64Array> {
    if *times.data_type() == DataType::Date32 {
        return integers(times);
    }
    let (ticks, per_second) = local_ticks(times, zone)?;
    map(&ticks, |value| Ok(day_of(value, per_second)))
}

fn of_days(call: &Call, value: impl Fn(i64) -> i64) -> Result<ArrayRef> {
    let days = days(&call.array(0)?, &call.zone)?;
    Ok(Arc::new(map::<Int64Type, Int64Type>(&days, |days| Ok(value(days)))?))
}

fn named(call: &Call, name: impl Fn(i64) -> &'static str) -> Result<ArrayRef> {
    let days = days(&call.array(0)?, &call.zone)?;
    Ok(Arc::new(days.iter().map(|days| days.map(&name)).collect::<StringViewArray>()))
}

fn last_day(call: &Call) -> Result<ArrayRef> {
    let days = days(&call.array(0)?, &call.zone)?;
    let last = map::<Int64Type, Int32Type>(&days, |days| {
        let date = civil(days);
        let last = days - date.day + days_in_month(date.year, date.month);
        i32::try_from(last).or_else(|_| too_large("date"))
    })?;
    exact_cast(&(Arc::new(last) as ArrayRef), &DataType::Date32)
}

/// `make_date(year, month, day)`, and `make_date(days)` since 1970.
fn make_date(call: &Call) -> Result<ArrayRef> {
    let fields = (0..call.count()).map(|at| ints(call, at)).collect::<Result<Vec<_>>>()?;
    let row = |row: usize| -> Result<Option<i32>> {
        let arrays: Vec<&dyn Array> = fields.iter().map(|field| field as _).collect();
        if any_null(&arrays, row) {
            return Ok(None);
        }
        let days = match fields.as_slice() {
            [year, month, day] => {
                let (year, month, day) = (year.value(row), month.value(row), day.value(row));
                match checked_days(year, month, day) {
                    Some(days) => days,
                    None => return invalid(format!("there is no date {year}-{month}-{day}")),
                }
            }
            others => others[0].value(row),
        };
        i32::try_from(days).or_else(|_| too_large("date")).map(Some)
    };
    let rows = fields.first().map_or(0, Array::len);
    let days: Int32Array = (0..rows).map(row).collect::<Result<_>>()?;
    exact_cast(&(Arc::new(days) as ArrayRef), &DataType::Date32)
}

/// A year of PostgreSQL's `make_date` and `make_timestamp`, where that before 1 is -1, as one with a year 0.
fn year_of_postgres(call: &Call) -> Result<ArrayRef> {
    let year = |year: i64| match year {
        0 => invalid("date field value out of range: there is no year 0, and that before 1 is -1"),
        ..0 => Ok(year + 1),
        _ => Ok(year),
    };
    Ok(Arc::new(map::<Int64Type, Int64Type>(&ints(call, 0)?, year)?))
}

fn make_time(call: &Call) -> Result<ArrayRef> {
    let (hours, minutes, seconds) = (ints(call, 0)?, ints(call, 1)?, reals(call, 2)?);
    let row = |row: usize| -> Result<Option<i64>> {
        if any_null(&[&hours, &minutes, &seconds], row) {
            return Ok(None);
        }
        let (hour, minute, second) = (hours.value(row), minutes.value(row), seconds.value(row));
        let is_end = (hour, minute, second) == (24, 0, 0.0);
        if !is_end && !(0..24).contains(&hour) || !(0..60).contains(&minute) || !(0.0..60.0).contains(&second) {
            return invalid(format!("there is no time {hour}:{minute}:{second}"));
        }
        Ok(Some((hour * 3_600 + minute * 60) * 1_000_000 + (second * 1e6).round_ties_even() as i64))
    };
    finished((0..hours.len()).map(row).collect::<Result<Int64Array>>()?, &call.to)
}

/// The microseconds by which two times are compared: in local time, since 1970 or since midnight.
fn micros(times: &ArrayRef, zone: &Zone) -> Result<Int64Array> {
    if *times.data_type() == DataType::Date32 {
        return map(&integers(times)?, |days| days.checked_mul(DAY_US).map_or_else(|| too_large("timestamp"), Ok));
    }
    let (ticks, per_second) = local_ticks(times, zone)?;
    let in_us = |value: i64| match per_second {
        1_000_000_000 => Ok(value.div_euclid(1_000)),
        _ => value.checked_mul(1_000_000 / per_second).map_or_else(|| too_large("timestamp"), Ok),
    };
    map(&ticks, in_us)
}

/// Two times of each row in microseconds.
struct Moments {
    local: [Int64Array; 2],
    /// The same as instants, if one of both has a zone.
    instants: Option<[Int64Array; 2]>,
}

impl Moments {
    fn new(from: &ArrayRef, to: &ArrayRef, zone: &Zone) -> Result<Moments> {
        let has_zone = |times: &ArrayRef| matches!(times.data_type(), DataType::Timestamp(_, Some(_)));
        let local = [micros(from, zone)?, micros(to, zone)?];
        if !has_zone(from) && !has_zone(to) {
            return Ok(Moments { local, instants: None });
        }
        let instants = |times: &ArrayRef, local: &Int64Array| match has_zone(times) {
            true => micros(times, &Zone::Fixed(0)),
            false => map(local, |value| to_instant(value, 1_000_000, zone)),
        };
        let instants = [instants(from, &local[0])?, instants(to, &local[1])?];
        Ok(Moments { local, instants: Some(instants) })
    }

    /// Whether a part is counted in instants: an hour and what is shorter last as long where clocks are changed.
    fn are_instants(&self, part: Part) -> bool {
        (Part::Hour..=Part::Nanosecond).contains(&part) && self.instants.is_some()
    }

    /// The times of a row, which begin the parts in which they are if boundaries are counted.
    fn at(&self, row: usize, part: Part, counts_boundaries: bool) -> [i64; 2] {
        let local = [self.local[0].value(row), self.local[1].value(row)];
        let Some(instants) = self.instants.as_ref().filter(|_| self.are_instants(part)) else { return local };
        let is_begun = counts_boundaries && part != Part::Nanosecond;
        let within = |at: usize| if is_begun { local[at].rem_euclid(micros_of(part)) } else { 0 };
        [instants[0].value(row).saturating_sub(within(0)), instants[1].value(row).saturating_sub(within(1))]
    }
}

fn differences(
    call: &Call,
    difference: fn(Part, i64, i64) -> Option<i64>,
    counts_boundaries: bool,
) -> Result<ArrayRef> {
    let (from, to) = (call.array(1)?, call.array(2)?);
    let is_clock = |times: &ArrayRef| matches!(times.data_type(), DataType::Time32(_) | DataType::Time64(_));
    if is_clock(&from) != is_clock(&to) {
        return invalid("a time of day and a date have no difference");
    }
    // Infinite times have no differences.
    let (from, to) = (finite(&from)?, finite(&to)?);
    let between = |part, from, to| match difference(part, from, to) {
        Some(count) => Ok(count),
        None if part == Part::Era => invalid("an era has no length: write date_diff, which counts their boundaries"),
        None => too_large("BIGINT"),
    };
    if call.constant(0).is_some() {
        let Some(name) = call.text(0, "the part of a difference")? else { return Ok(call.nulls()) };
        let are_dates = [&from, &to].iter().all(|times| *times.data_type() == DataType::Date32);
        // The same in microseconds is the same in days, and needs no division.
        let differences = match counted_part(&name)? {
            Part::Day if are_dates => zip::<_, _, Int64Type>(&integers(&from)?, &integers(&to)?, |a, b| Ok(b - a))?,
            part => {
                let moments = Moments::new(&from, &to, &call.zone)?;
                if moments.are_instants(part) {
                    let row = |row: usize| -> Result<Option<i64>> {
                        let [a, b] = moments.at(row, part, counts_boundaries);
                        if any_null(&[&from, &to], row) { Ok(None) } else { between(part, a, b).map(Some) }
                    };
                    (0..from.len()).map(row).collect::<Result<Int64Array>>()?
                } else {
                    zip::<_, _, Int64Type>(&moments.local[0], &moments.local[1], |a, b| between(part, a, b))?
                }
            }
        };
        return Ok(Arc::new(differences));
    }
    let (names, moments) = (texts(call, 0)?, Moments::new(&from, &to, &call.zone)?);
    let row = |row: usize| -> Result<Option<i64>> {
        if any_null(&[&names, &from, &to], row) {
            return Ok(None);
        }
        let part = counted_part(names.value(row))?;
        let [a, b] = moments.at(row, part, counts_boundaries);
        between(part, a, b).map(Some)
    };
    Ok(Arc::new((0..names.len()).map(row).collect::<Result<Int64Array>>()?))
}

/// A part by its name, by which differences are counted.
fn counted_part(name: &str) -> Result<Part> {
    // Two that are no lengths, but begin with days and weeks.
    let counted = match name.to_ascii_lowercase().as_str() {
        "julian" => Some(Part::Day),
        "yearweek" => Some(Part::Week),
        "era" => Some(Part::Era),
        _ => Part::named(name).filter(|part| *part < Part::Epoch),
    };
    match counted {
        Some(part) => Ok(part),
        None => invalid(format!("{name} is no part of a time by which differences are counted")),
    }
}

/// Months since the year 0.
fn months(micros: i64) -> i64 {
    let date = civil(micros.div_euclid(DAY_US));
    date.year * 12 + date.month - 1
}

/// The length of a part in months.
fn months_of(part: Part) -> Option<i64> {
    Some(match part {
        Part::Millennium => 12_000,
        Part::Century => 1_200,
        Part::Decade => 120,
        Part::Year => 12,
        Part::Quarter => 3,
        Part::Month => 1,
        _ => return None,
    })
}

/// The length of a part in microseconds.
fn micros_of(part: Part) -> i64 {
    match part {
        Part::Week => 7 * DAY_US,
        part => part.ticks(1_000_000).filter(|ticks| *ticks > 0).unwrap_or(DAY_US),
    }
}

/// The number of boundaries of a part between two times. Weeks are seven days each, wherever they begin.
fn boundaries(part: Part, from: i64, to: i64) -> Option<i64> {
    if let Some(length) = months_of(part) {
        return Some(months(to).div_euclid(length) - months(from).div_euclid(length));
    }
    let day = |micros: i64| micros.div_euclid(DAY_US);
    Some(match part {
        Part::IsoYear => iso_week(day(to)).0 - iso_week(day(from)).0,
        Part::Era => era(day(to)) - era(day(from)),
        Part::Week => (day(to) - day(from)) / 7,
        Part::Nanosecond => to.checked_sub(from)?.checked_mul(1_000)?,
        part => to.div_euclid(micros_of(part)).checked_sub(from.div_euclid(micros_of(part)))?,
    })
}

/// The era of a day: 0 before Christ, and then 1.
fn era(day: i64) -> i64 {
    i64::from(civil(day).year > 0)
}

/// The number of whole parts between two times.
fn whole(part: Part, from: i64, to: i64) -> Option<i64> {
    let length = match part {
        Part::IsoYear => Some(12),
        part => months_of(part),
    };
    match (part, length) {
        (_, Some(length)) if from <= to => Some(whole_months(from, to) / length),
        (_, Some(length)) => Some(-(whole_months(to, from) / length)),
        (Part::Era, _) => None,
        (Part::Nanosecond, _) => to.checked_sub(from)?.checked_mul(1_000),
        _ => Some(to.checked_sub(from)? / micros_of(part)),
    }
}

/// Whole months from an earlier to a later time. The last day of a month completes a month that began on any later day.
fn whole_months(from: i64, to: i64) -> i64 {
    let (start, end) = (civil(from.div_euclid(DAY_US)), civil(to.div_euclid(DAY_US)));
    let is_last = end.day == days_in_month(end.year, end.month);
    let day = if is_last { start.day.min(end.day) } else { start.day };
    let is_short = (day, from.rem_euclid(DAY_US)) > (end.day, to.rem_euclid(DAY_US));
    months(to) - months(from) - i64::from(is_short)
}

/// `time_bucket(width, time [, origin or offset])`.
fn time_bucket(call: &Call) -> Result<ArrayRef> {
    let is_clock =
        |at: usize| call.kind(at).is_some_and(|kind| matches!(kind, DataType::Time32(_) | DataType::Time64(_)));
    if call.kind(2).is_some_and(|kind| !matches!(kind, DataType::Interval(_))) && is_clock(1) != is_clock(2) {
        return invalid("time_bucket takes a time of day with an origin that is one, and dates with a date");
    }
    let widths = intervals(&call.array(0)?)?;
    let times = call.array(1)?;
    let values = micros(&times, &Zone::Fixed(0))?;
    let third = if call.count() == 3 { Some(call.array(2)?) } else { None };
    let (offsets, origins) = match &third {
        Some(third) if matches!(third.data_type(), DataType::Interval(_)) => (Some(intervals(third)?), None),
        Some(third) => (None, Some(micros(third, &Zone::Fixed(0))?)),
        None => (None, None),
    };
    let row = |row: usize| -> Result<Option<i64>> {
        let is_null = |array: Option<&dyn Array>| array.is_some_and(|array| array.is_null(row));
        let extra = [offsets.as_ref().map(|a| a as &dyn Array), origins.as_ref().map(|a| a as &dyn Array)];
        if any_null(&[&widths, &values], row) || extra.into_iter().any(is_null) {
            return Ok(None);
        }
        let width = interval_of(widths.value(row));
        let offset = offsets.as_ref().map(|offsets| interval_of(offsets.value(row)));
        let origin = origins.as_ref().map(|origins| origins.value(row));
        bucket(width, values.value(row), offset, origin).map(Some)
    };
    let starts = (0..values.len()).map(row).collect::<Result<Int64Array>>()?;
    match &call.to {
        DataType::Date32 => finished(map(&starts, |start| Ok(start.div_euclid(DAY_US)))?, &call.to),
        // A time of day is one of the first day: what its bucket begins with may be in another.
        DataType::Time64(_) => finished(map(&starts, |start| Ok(start.rem_euclid(DAY_US)))?, &call.to),
        to => finished(starts, to),
    }
}

/// The start of the bucket that contains a time.
fn bucket(width: Interval, value: i64, offset: Option<Interval>, origin: Option<i64>) -> Result<i64> {
    let shift = |value: i64, sign: i64| match offset {
        Some(offset) => stepped(value, offset, sign),
        None => Ok(value),
    };
    let value = shift(value, -1)?;
    let fixed = i64::from(width.days) * DAY_US + width.ns / 1_000;
    let start = match (i64::from(width.months), fixed) {
        (0, 1..) => {
            let origin = origin.unwrap_or(BUCKET_DAY * DAY_US);
            value.checked_sub(origin).and_then(|passed| value.checked_sub(passed.rem_euclid(fixed)))
        }
        (length @ 1.., 0) => {
            let origin = origin.map_or(BUCKET_MONTH, months);
            let month = (months(value) - origin).div_euclid(length) * length + origin;
            checked_days(month.div_euclid(12), month.rem_euclid(12) + 1, 1).and_then(|days| days.checked_mul(DAY_US))
        }
        _ => return invalid("the width of time_bucket must be greater than zero, and months alone or days and time"),
    };
    match start {
        Some(start) => shift(start, 1),
        None => too_large("timestamp"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::times::calendar::days_of;

    fn at(year: i64, month: i64, day: i64, hour: i64) -> i64 {
        days_of(year, month, day) * DAY_US + hour * 3_600_000_000
    }

    #[test]
    fn boundaries_and_whole_parts() {
        for (part, from, to, crossed, complete) in [
            (Part::Month, at(2024, 1, 31, 0), at(2024, 2, 29, 0), 1, 1),
            (Part::Month, at(2024, 1, 31, 1), at(2024, 2, 29, 0), 1, 0),
            (Part::Month, at(2024, 2, 29, 0), at(2024, 1, 31, 0), -1, -1),
            (Part::Year, at(2023, 12, 31, 0), at(2024, 1, 1, 0), 1, 0),
            (Part::Week, at(2024, 3, 3, 0), at(2024, 3, 4, 0), 0, 0),
            (Part::Week, at(2024, 3, 3, 9), at(2024, 3, 10, 0), 1, 0),
            (Part::Hour, at(1969, 12, 31, 23), at(1970, 1, 1, 1), 2, 2),
            (Part::Quarter, at(2024, 3, 31, 23), at(2024, 4, 1, 0), 1, 0),
        ] {
            assert_eq!(
                (boundaries(part, from, to), whole(part, from, to)),
                (Some(crossed), Some(complete)),
                "{part:?}"
            );
        }
    }

    #[test]
    fn buckets_begin_where_their_origin_says() {
        let width = |months, days, hours: i64| Interval { months, days, ns: hours * 3_600_000_000_000 };
        let start = |width, value| bucket(width, value, None, None).ok();
        assert_eq!(start(width(0, 0, 1), at(2024, 1, 1, 5) + 17), Some(at(2024, 1, 1, 5)));
        assert_eq!(start(width(0, 7, 0), at(2024, 3, 3, 5)), Some(at(2024, 2, 26, 0)));
        assert_eq!(start(width(5, 0, 0), at(1999, 12, 31, 0)), Some(at(1999, 8, 1, 0)));
        assert_eq!(start(width(0, 0, 0), 0), None);
        assert_eq!(start(width(1, 1, 0), 0), None);
    }
}
