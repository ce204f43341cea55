//! Dates, times and intervals in the text format of PostgreSQL. The whole range of the engine is supported, which
//! exceeds that of other calendar libraries.

use std::io::Write;

use arrow::datatypes::IntervalMonthDayNano;
use freestone::calendar::{Civil, civil};

const DAY_MICROS: i64 = 86_400_000_000;

pub fn write_date(out: &mut Vec<u8>, days: i64) {
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

/// Writes a timestamp counted from 1970-01-01. With `zoned`, it is in UTC.
pub fn write_timestamp(out: &mut Vec<u8>, micros: i64, zoned: bool) {
    let before = write_day(out, micros.div_euclid(DAY_MICROS));
    out.push(b' ');
    write_time(out, micros.rem_euclid(DAY_MICROS));
    if zoned {
        out.extend(b"+00");
    }
    if before {
        out.extend(b" BC");
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
