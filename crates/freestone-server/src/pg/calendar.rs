//! Dates, times and intervals in the text format of PostgreSQL. The whole range of the engine is supported, which
//! exceeds that of other calendar libraries.

use std::io::Write;

use arrow::datatypes::IntervalMonthDayNano;
use freestone::Zone;
use freestone::calendar::{Civil, civil};

use super::encoding::Encoding;

const DAY_MICROS: i64 = 86_400_000_000;
const SECOND_MICROS: i64 = 1_000_000;

/// How values are written, from `DateStyle`, `IntervalStyle`, `extra_float_digits` and `client_encoding`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Styles {
    pub date: DateStyle,
    pub interval: IntervalStyle,
    /// Positive for as many digits as tell a float from others; otherwise how many more than those that are always exact.
    pub extra_float_digits: i32,
    /// Of texts.
    pub encoding: Encoding,
}

impl Default for Styles {
    fn default() -> Self {
        let (date, interval) = (DateStyle::Iso, IntervalStyle::Postgres);
        Styles { date, interval, extra_float_digits: 1, encoding: Encoding::Utf8 }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DateStyle {
    #[default]
    Iso,
    German,
    /// The order of `SQL` and of `Postgres` is that of day and month.
    Sql {
        day_first: bool,
    },
    Postgres {
        day_first: bool,
    },
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IntervalStyle {
    #[default]
    Postgres,
    Verbose,
    SqlStandard,
    Iso8601,
}

/// Whether a date or time is the infinite one after all others, `Some(true)`, or before, `Some(false)`. These are the
/// ends of its range, of which `max` is the upper one.
pub fn infinity(value: i64, max: i64) -> Option<bool> {
    (value == max || value <= -max).then_some(value > 0)
}

fn write_infinity(out: &mut Vec<u8>, later: bool) {
    out.extend(if later { &b"infinity"[..] } else { b"-infinity" });
}

pub fn write_date(out: &mut Vec<u8>, days: i64, style: DateStyle) {
    if let Some(later) = infinity(days, i32::MAX.into()) {
        return write_infinity(out, later);
    }
    if write_day(out, days, style) {
        out.extend(b" BC");
    }
}

/// The year of a text, and whether it is before year 1. There is no year 0: that of the calculation is 1 BC.
fn shown_year(year: i64) -> (i64, bool) {
    if year > 0 { (year, false) } else { (1 - year, true) }
}

/// Writes a day. Returns whether its year is before year 1.
fn write_day(out: &mut Vec<u8>, days: i64, style: DateStyle) -> bool {
    let Civil { year, month, day } = civil(days);
    let (year, before) = shown_year(year);
    let _ = match style {
        DateStyle::Iso => write!(out, "{year:04}-{month:02}-{day:02}"),
        DateStyle::German => write!(out, "{day:02}.{month:02}.{year:04}"),
        DateStyle::Sql { day_first: true } => write!(out, "{day:02}/{month:02}/{year:04}"),
        DateStyle::Sql { day_first: false } => write!(out, "{month:02}/{day:02}/{year:04}"),
        DateStyle::Postgres { day_first: true } => write!(out, "{day:02}-{month:02}-{year:04}"),
        DateStyle::Postgres { day_first: false } => write!(out, "{month:02}-{day:02}-{year:04}"),
    };
    before
}

/// Writes a day and a time as `Mon Feb 29 12:00:00 2024`. Returns whether its year is before year 1.
fn write_day_of_week(out: &mut Vec<u8>, local: i64, day_first: bool) -> bool {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let days = local.div_euclid(DAY_MICROS);
    let Civil { year, month, day } = civil(days);
    let (year, before) = shown_year(year);
    // 1970-01-01 was a Thursday.
    let (weekday, month) = (DAYS[days.rem_euclid(7) as usize], MONTHS[month as usize - 1]);
    let _ = match day_first {
        true => write!(out, "{weekday} {day:02} {month} "),
        false => write!(out, "{weekday} {month} {day:02} "),
    };
    write_time(out, local.rem_euclid(DAY_MICROS));
    let _ = write!(out, " {year:04}");
    before
}

pub fn write_time(out: &mut Vec<u8>, micros: i64) {
    let seconds = micros.div_euclid(1_000_000);
    let _ = write!(out, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    write_fraction(out, micros.rem_euclid(1_000_000));
}

fn write_fraction(out: &mut Vec<u8>, micros: i64) {
    if micros > 0 {
        let _ = write!(out, ".{micros:06}");
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
}

/// Writes a timestamp counted from 1970-01-01. One with a zone is written as the zone's local time with its offset.
pub fn write_timestamp(out: &mut Vec<u8>, micros: i64, zone: Option<Zone>, style: DateStyle) {
    if let Some(later) = infinity(micros, i64::MAX) {
        return write_infinity(out, later);
    }
    let offset = zone.map(|zone| zone.offset_at(micros.div_euclid(SECOND_MICROS)).unwrap_or(0));
    let local = micros.saturating_add(offset.unwrap_or(0) * SECOND_MICROS);
    let before = match style {
        DateStyle::Postgres { day_first } => write_day_of_week(out, local, day_first),
        style => {
            let before = write_day(out, local.div_euclid(DAY_MICROS), style);
            out.push(b' ');
            write_time(out, local.rem_euclid(DAY_MICROS));
            before
        }
    };
    if let Some(seconds) = offset {
        let name = || zone.and_then(|zone| abbreviation(zone, micros.div_euclid(SECOND_MICROS), seconds));
        if style == DateStyle::Iso {
            write_offset(out, seconds);
        } else if let Some(name) = name() {
            out.push(b' ');
            out.extend(name.as_bytes());
        } else if seconds == 0 {
            out.extend(b" UTC");
        } else {
            out.push(b' ');
            write_offset(out, seconds);
        }
    }
    if before {
        out.extend(b" BC");
    }
}

/// Zones whose offsets have had the same abbreviations since 1970: the names, and hours east of UTC with the abbreviation.
type Abbreviated = (&'static [&'static str], [(i64, &'static str); 2]);

const ABBREVIATED: [Abbreviated; 9] = [
    (&["America/Los_Angeles", "PST8PDT", "US/Pacific"], [(-8, "PST"), (-7, "PDT")]),
    (&["America/Denver", "MST7MDT", "US/Mountain"], [(-7, "MST"), (-6, "MDT")]),
    (&["America/Chicago", "CST6CDT", "US/Central"], [(-6, "CST"), (-5, "CDT")]),
    (&["America/New_York", "EST5EDT", "US/Eastern"], [(-5, "EST"), (-4, "EDT")]),
    (&["Europe/London"], [(0, "GMT"), (1, "BST")]),
    (
        &[
            "Europe/Amsterdam",
            "Europe/Berlin",
            "Europe/Brussels",
            "Europe/Budapest",
            "Europe/Copenhagen",
            "Europe/Madrid",
            "Europe/Oslo",
            "Europe/Paris",
            "Europe/Prague",
            "Europe/Rome",
            "Europe/Stockholm",
            "Europe/Vienna",
            "Europe/Warsaw",
            "Europe/Zurich",
        ],
        [(1, "CET"), (2, "CEST")],
    ),
    (&["Europe/Athens", "Europe/Helsinki"], [(2, "EET"), (3, "EEST")]),
    (&["Asia/Tokyo"], [(9, "JST"), (9, "JST")]),
    (&["Australia/Sydney"], [(10, "AEST"), (11, "AEDT")]),
];

/// The abbreviation of a zone's offset at an instant, in seconds since 1970; `None` where it is not known.
fn abbreviation(zone: Zone, at: i64, offset: i64) -> Option<&'static str> {
    let Zone::Named(named) = zone else { return None };
    if at < 0 {
        return None;
    }
    let name = named.to_string();
    let (_, known) = ABBREVIATED.iter().find(|(names, _)| names.contains(&name.as_str()))?;
    known.iter().find(|(hours, _)| hours * 3_600 == offset).map(|(_, abbreviation)| *abbreviation)
}

/// Writes an offset from UTC: `+01`, `-03:30` or, in early years, `+00:53:28`.
fn write_offset(out: &mut Vec<u8>, seconds: i64) {
    let sign = if seconds < 0 { '-' } else { '+' };
    let seconds = seconds.abs();
    let _ = write!(out, "{sign}{:02}", seconds / 3600);
    if seconds % 3600 != 0 {
        let _ = write!(out, ":{:02}", seconds / 60 % 60);
    }
    if seconds % 60 != 0 {
        let _ = write!(out, ":{:02}", seconds % 60);
    }
}

/// The parts of an interval. All have the sign of what they are counted from: months, days or the time.
struct Parts {
    years: i32,
    months: i32,
    days: i32,
    hours: i64,
    minutes: i64,
    seconds: i64,
    micros: i64,
}

impl Parts {
    fn of(value: IntervalMonthDayNano) -> Parts {
        let all = value.nanoseconds.div_euclid(1000);
        let seconds = all / SECOND_MICROS;
        Parts {
            years: value.months / 12,
            months: value.months % 12,
            days: value.days,
            hours: seconds / 3600,
            minutes: seconds / 60 % 60,
            seconds: seconds % 60,
            micros: all % SECOND_MICROS,
        }
    }

    /// The parts from the largest to the smallest.
    fn all(&self) -> [i64; 7] {
        let Parts { years, months, days, hours, minutes, seconds, micros } = *self;
        [years.into(), months.into(), days.into(), hours, minutes, seconds, micros]
    }

    fn has_time(&self) -> bool {
        self.all()[3..].iter().any(|part| *part != 0)
    }

    fn is_time_negative(&self) -> bool {
        self.all()[3..].iter().any(|part| *part < 0)
    }

    /// Writes the seconds without their sign, with at least `width` digits before the point.
    fn write_seconds(&self, out: &mut Vec<u8>, width: usize) {
        let _ = write!(out, "{:0width$}", self.seconds.abs());
        write_fraction(out, self.micros.abs());
    }

    fn write_clock(&self, out: &mut Vec<u8>, hours_width: usize) {
        let _ = write!(out, "{:0hours_width$}:{:02}:", self.hours.abs(), self.minutes.abs());
        self.write_seconds(out, 2);
    }
}

/// Writes an interval in one of PostgreSQL's four forms.
pub fn write_interval(out: &mut Vec<u8>, value: IntervalMonthDayNano, style: IntervalStyle) {
    let parts = Parts::of(value);
    match style {
        IntervalStyle::Postgres => write_postgres(out, &parts),
        IntervalStyle::Verbose => write_verbose(out, &parts),
        IntervalStyle::SqlStandard => write_sql_standard(out, &parts),
        IntervalStyle::Iso8601 => write_iso_8601(out, &parts),
    }
}

/// `1 year 2 mons 3 days 04:05:06.7`
fn write_postgres(out: &mut Vec<u8>, parts: &Parts) {
    let start = out.len();
    let mut was_negative = false;
    for (count, unit) in [(parts.years, "year"), (parts.months, "mon"), (parts.days, "day")] {
        if count != 0 {
            let (plural, plus) = (if count == 1 { "" } else { "s" }, if was_negative && count > 0 { "+" } else { "" });
            let space = if out.len() > start { " " } else { "" };
            let _ = write!(out, "{space}{plus}{count} {unit}{plural}");
            was_negative = count < 0;
        }
    }
    if parts.has_time() || out.len() == start {
        if out.len() > start {
            out.push(b' ');
        }
        match (parts.is_time_negative(), was_negative) {
            (true, _) => out.push(b'-'),
            (false, true) => out.push(b'+'),
            (false, false) => {}
        }
        parts.write_clock(out, 2);
    }
}

/// `@ 1 year 2 mons 3 days 4 hours 5 mins 6.7 secs ago`
fn write_verbose(out: &mut Vec<u8>, parts: &Parts) {
    out.push(b'@');
    let (mut is_zero, mut is_before) = (true, false);
    let units = ["year", "mon", "day", "hour", "min"];
    for (value, unit) in parts.all().into_iter().zip(units).filter(|(value, _)| *value != 0) {
        if is_zero {
            is_before = value < 0;
        }
        let value = if is_before { -value } else { value };
        let plural = if value == 1 { "" } else { "s" };
        let _ = write!(out, " {value} {unit}{plural}");
        is_zero = false;
    }
    let Parts { seconds, micros, .. } = *parts;
    if seconds != 0 || micros != 0 {
        let is_negative = seconds < 0 || micros < 0;
        out.push(b' ');
        if is_zero {
            is_before = is_negative;
        } else if is_before != is_negative {
            out.push(b'-');
        }
        parts.write_seconds(out, 1);
        let plural = if seconds.abs() != 1 || micros != 0 { "s" } else { "" };
        let _ = write!(out, " sec{plural}");
        is_zero = false;
    }
    if is_zero {
        out.extend(b" 0");
    }
    if is_before {
        out.extend(b" ago");
    }
}

/// `1-2`, `3 4:05:06.7` or, where there are both or signs differ, `+1-2 +3 +4:05:06.7`
fn write_sql_standard(out: &mut Vec<u8>, parts: &Parts) {
    let all = parts.all();
    let (has_negative, has_positive) = (all.iter().any(|part| *part < 0), all.iter().any(|part| *part > 0));
    let (has_months, has_rest) = (all[..2].iter().any(|part| *part != 0), all[2..].iter().any(|part| *part != 0));
    let sign = |is_negative: bool| if is_negative { '-' } else { '+' };
    let [years, months, days] = [parts.years, parts.months, parts.days].map(i32::unsigned_abs);
    if !has_negative && !has_positive {
        return out.push(b'0');
    }
    if has_negative && has_positive || has_months && has_rest {
        let of_months = sign(parts.years < 0 || parts.months < 0);
        let _ = write!(out, "{of_months}{years}-{months} {}{days} ", sign(parts.days < 0));
        let _ = write!(out, "{}", sign(parts.is_time_negative()));
        return parts.write_clock(out, 1);
    }
    if has_negative {
        out.push(b'-');
    }
    if has_months {
        let _ = write!(out, "{years}-{months}");
        return;
    }
    if days != 0 {
        let _ = write!(out, "{days} ");
    }
    parts.write_clock(out, 1);
}

/// `P1Y2M3DT4H5M6.7S`
fn write_iso_8601(out: &mut Vec<u8>, parts: &Parts) {
    out.push(b'P');
    let [years, months, days, hours, minutes, ..] = parts.all();
    let mut write = |value: i64, unit: char| {
        if value != 0 {
            let _ = write!(out, "{value}{unit}");
        }
    };
    write(years, 'Y');
    write(months, 'M');
    write(days, 'D');
    if parts.all().iter().all(|part| *part == 0) {
        return out.extend(b"T0S");
    }
    if !parts.has_time() {
        return;
    }
    out.push(b'T');
    let mut write = |value: i64, unit: char| {
        if value != 0 {
            let _ = write!(out, "{value}{unit}");
        }
    };
    write(hours, 'H');
    write(minutes, 'M');
    if parts.seconds != 0 || parts.micros != 0 {
        if parts.seconds < 0 || parts.micros < 0 {
            out.push(b'-');
        }
        parts.write_seconds(out, 1);
        out.push(b'S');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = vec![];
        write(&mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn intervals_read_as_postgresqls() {
        use IntervalStyle::{Iso8601, Postgres, SqlStandard, Verbose};
        // As PostgreSQL 15 writes them.
        for (months, days, nanoseconds, postgres, verbose, standard, iso) in [
            (0, 0, 0, "00:00:00", "@ 0", "0", "PT0S"),
            (
                14,
                3,
                14_706_700_000_000,
                "1 year 2 mons 3 days 04:05:06.7",
                "@ 1 year 2 mons 3 days 4 hours 5 mins 6.7 secs",
                "+1-2 +3 +4:05:06.7",
                "P1Y2M3DT4H5M6.7S",
            ),
            (
                -1,
                1,
                -1_000,
                "-1 mons +1 day -00:00:00.000001",
                "@ 1 mon -1 days 0.000001 secs ago",
                "-0-1 +1 -0:00:00.000001",
                "P-1M1DT-0.000001S",
            ),
            (14, 0, 0, "1 year 2 mons", "@ 1 year 2 mons", "1-2", "P1Y2M"),
            (-14, 0, 0, "-1 years -2 mons", "@ 1 year 2 mons ago", "-1-2", "P-1Y-2M"),
            (0, -1, -3_600_000_000_000, "-1 days -01:00:00", "@ 1 day 1 hour ago", "-1 1:00:00", "P-1DT-1H"),
            (0, -1, 1_000_000_000, "-1 days +00:00:01", "@ 1 day -1 sec ago", "+0-0 -1 +0:00:01", "P-1DT1S"),
            (0, 0, 1_000_000_000, "00:00:01", "@ 1 sec", "0:00:01", "PT1S"),
        ] {
            let value = IntervalMonthDayNano { months, days, nanoseconds };
            for (style, expected) in [(Postgres, postgres), (Verbose, verbose), (SqlStandard, standard), (Iso8601, iso)]
            {
                assert_eq!(written(|out| write_interval(out, value, style)), expected, "{style:?}");
            }
        }
        let longest = IntervalMonthDayNano { months: 0, days: 0, nanoseconds: i64::MIN };
        assert_eq!(written(|out| write_interval(out, longest, Postgres)), "-2562047:47:16.854776");
    }

    #[test]
    fn dates_follow_their_style() {
        let micros = 1_709_208_000_500_000;
        for (style, date, time) in [
            (DateStyle::Iso, "2024-02-29", "2024-02-29 12:00:00.5+00"),
            (DateStyle::German, "29.02.2024", "29.02.2024 12:00:00.5 UTC"),
            (DateStyle::Sql { day_first: true }, "29/02/2024", "29/02/2024 12:00:00.5 UTC"),
            (DateStyle::Sql { day_first: false }, "02/29/2024", "02/29/2024 12:00:00.5 UTC"),
            (DateStyle::Postgres { day_first: true }, "29-02-2024", "Thu 29 Feb 12:00:00.5 2024 UTC"),
            (DateStyle::Postgres { day_first: false }, "02-29-2024", "Thu Feb 29 12:00:00.5 2024 UTC"),
        ] {
            assert_eq!(written(|out| write_date(out, 19_782, style)), date);
            assert_eq!(written(|out| write_timestamp(out, micros, Some(Zone::Fixed(0)), style)), time);
        }
        for (zone, micros, expected) in [
            ("America/Los_Angeles", 855_621_121_000_000, "Mon Feb 10 16:32:01 1997 PST"),
            ("America/Los_Angeles", 868_555_921_000_000, "Thu Jul 10 10:32:01 1997 PDT"),
            ("Europe/London", 855_621_121_000_000, "Tue Feb 11 00:32:01 1997 GMT"),
            // Without a known abbreviation, as PostgreSQL shows zones that have none.
            ("America/Sao_Paulo", 855_621_121_000_000, "Mon Feb 10 22:32:01 1997 -02"),
        ] {
            let style = DateStyle::Postgres { day_first: false };
            assert_eq!(written(|out| write_timestamp(out, micros, Zone::parse(zone), style)), expected);
        }
        let before = DateStyle::Postgres { day_first: false };
        assert_eq!(
            written(|out| write_timestamp(out, -62_167_219_200_000_000, None, before)),
            "Sat Jan 01 00:00:00 0001 BC"
        );
    }
}
