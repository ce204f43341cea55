//! Dates, times and intervals in the text format of PostgreSQL. The whole range of the engine is supported, which
//! exceeds that of other calendar libraries.

use std::io::Write;

use arrow::datatypes::IntervalMonthDayNano;

const DAY_MICROS: i64 = 86_400_000_000;

/// The year, month and day of a day counted from 1970-01-01, in the proleptic Gregorian calendar. The algorithm is
/// `civil_from_days` of Howard Hinnant.
pub fn civil(days: i64) -> (i64, u32, u32) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month as u32, day as u32)
}

/// The days since 1970-01-01; the inverse of [`civil`].
#[cfg(test)]
fn days_of(year: i64, month: u32, day: u32) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted = i64::from(if month > 2 { month - 3 } else { month + 9 });
    let day_of_year = (153 * shifted + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

pub fn write_date(out: &mut Vec<u8>, days: i64) {
    if write_day(out, days) {
        out.extend(b" BC");
    }
}

/// Writes a day. Returns whether its year is before year 1.
fn write_day(out: &mut Vec<u8>, days: i64) -> bool {
    let (year, month, day) = civil(days);
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
    fn days_and_dates_are_inverse() {
        for days in [0, -1, 10_957, -719_468, -719_469, i64::from(i32::MAX), i64::from(i32::MIN), 19_782] {
            let (year, month, day) = civil(days);
            assert_eq!(days_of(year, month, day), days, "{year}-{month}-{day}");
        }
        assert_eq!(civil(19_782), (2024, 2, 29));
    }

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
