//! Dates, times and intervals in the text format of PostgreSQL. The whole range of the engine is supported, which
//! exceeds that of other calendar libraries.

use std::io::Write;

use arrow::datatypes::IntervalMonthDayNano;
use freestone::Zone;
use freestone::calendar::{Civil, civil};

const DAY_MICROS: i64 = 86_400_000_000;
const SECOND_MICROS: i64 = 1_000_000;

/// Whether a date or time is the infinite one after all others, `Some(true)`, or before, `Some(false)`. These are the
/// ends of its range, of which `max` is the upper one.
pub fn infinity(value: i64, max: i64) -> Option<bool> {
    (value == max || value <= -max).then_some(value > 0)
}

fn write_infinity(out: &mut Vec<u8>, later: bool) {
    out.extend(if later { &b"infinity"[..] } else { b"-infinity" });
}

pub fn write_date(out: &mut Vec<u8>, days: i64) {
    if let Some(later) = infinity(days, i32::MAX.into()) {
        return write_infinity(out, later);
    }
    if write_day(out, days) {
        out.extend(b" BC");
    }
}

/// Writes a day. Returns whether its year is before year 1.
fn write_day(out: &mut Vec<u8>, days: i64) -> bool {
    let Civil { year, month, day } = civil(days);
    // There is no year 0 in the text. Year 0 of the calculation is 1 BC.
    let (year, before) = if year > 0 { (year, false) } else { (1 - year, true) };
    let _ = write!(out, "{year:04}-{month:02}-{day:02}");
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
pub fn write_timestamp(out: &mut Vec<u8>, micros: i64, zone: Option<Zone>) {
    if let Some(later) = infinity(micros, i64::MAX) {
        return write_infinity(out, later);
    }
    let offset = zone.map(|zone| zone.offset_at(micros.div_euclid(SECOND_MICROS)).unwrap_or(0));
    let local = micros.saturating_add(offset.unwrap_or(0) * SECOND_MICROS);
    let before = write_day(out, local.div_euclid(DAY_MICROS));
    out.push(b' ');
    write_time(out, local.rem_euclid(DAY_MICROS));
    if let Some(seconds) = offset {
        write_offset(out, seconds);
    }
    if before {
        out.extend(b" BC");
    }
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

/// Writes an interval, such as `1 year 2 mons 3 days 04:05:06.7`.
pub fn write_interval(out: &mut Vec<u8>, value: IntervalMonthDayNano) {
    let start = out.len();
    let mut part = |count: i32, unit: &str| {
        if count != 0 {
            let plural = if count == 1 { "" } else { "s" };
            let space = if out.len() > start { " " } else { "" };
            let _ = write!(out, "{space}{count} {unit}{plural}");
        }
    };
    part(value.months / 12, "year");
    part(value.months % 12, "mon");
    part(value.days, "day");
    let micros = value.nanoseconds.div_euclid(1000);
    if micros != 0 || out.len() == start {
        if out.len() > start {
            out.push(b' ');
        }
        if micros < 0 {
            out.push(b'-');
        }
        let micros = micros.unsigned_abs();
        let seconds = micros / 1_000_000;
        let _ = write!(out, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
        write_fraction(out, (micros % 1_000_000) as i64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_read_as_postgresqls() {
        for (months, days, nanoseconds, expected) in [
            (0, 0, 0, "00:00:00"),
            (14, 3, 14_706_700_000_000, "1 year 2 mons 3 days 04:05:06.7"),
            (-1, 1, -1_000, "-1 mons 1 day -00:00:00.000001"),
            (0, 0, i64::MIN, "-2562047:47:16.854776"),
        ] {
            let mut out = vec![];
            write_interval(&mut out, IntervalMonthDayNano { months, days, nanoseconds });
            assert_eq!(String::from_utf8(out).expect("text"), expected);
        }
    }
}
