//! Dates and times outside of the range of calendar libraries, and infinite ones, which PostgreSQL and DuckDB have.

use std::fmt::Write as _;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};

use crate::times::calendar::{Civil, civil};

const DAY_SECONDS: i64 = 86_400;

/// Whether a value is a date or a timestamp that is infinite, or before the year 1.
pub(super) fn is_own(array: &dyn Array, row: usize) -> bool {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    const FIRST_DAY: i64 = -719_162;
    let (value, per_day, end) = match array.data_type() {
        DataType::Date32 => (array.as_primitive::<Date32Type>().value(row).into(), 1, i64::from(i32::MAX)),
        DataType::Timestamp(unit, _) => {
            let (value, per_second) = match unit {
                Second => (array.as_primitive::<TimestampSecondType>().value(row), 1),
                Millisecond => (array.as_primitive::<TimestampMillisecondType>().value(row), 1000),
                Microsecond => (array.as_primitive::<TimestampMicrosecondType>().value(row), 1_000_000),
                Nanosecond => (array.as_primitive::<TimestampNanosecondType>().value(row), 1_000_000_000),
            };
            (value, DAY_SECONDS * per_second, i64::MAX)
        }
        _ => return false,
    };
    value == end || value <= -end || value.div_euclid(per_day) < FIRST_DAY
}

/// Appends a date, a time or a timestamp; false for values of other types.
pub(super) fn append(array: &dyn Array, row: usize, text: &mut String) -> bool {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    match array.data_type() {
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>().value(row);
            let is_end = [i32::MAX, -i32::MAX, i32::MIN].contains(&days);
            match is_end {
                true => append_infinity(days > 0, text),
                false => _ = append_date(days.into(), text),
            }
        }
        DataType::Date64 => append_timestamp(array.as_primitive::<Date64Type>().value(row), 1000, 3, false, text),
        DataType::Timestamp(unit, zone) => {
            let (value, per_second, digits) = match unit {
                Second => (array.as_primitive::<TimestampSecondType>().value(row), 1, 0),
                Millisecond => (array.as_primitive::<TimestampMillisecondType>().value(row), 1000, 3),
                Microsecond => (array.as_primitive::<TimestampMicrosecondType>().value(row), 1_000_000, 6),
                Nanosecond => (array.as_primitive::<TimestampNanosecondType>().value(row), 1_000_000_000, 9),
            };
            append_timestamp(value, per_second, digits, zone.is_some(), text);
        }
        DataType::Time32(Second) => {
            append_clock(array.as_primitive::<Time32SecondType>().value(row).into(), 1, 0, text)
        }
        DataType::Time32(_) => {
            append_clock(array.as_primitive::<Time32MillisecondType>().value(row).into(), 1000, 3, text);
        }
        DataType::Time64(Nanosecond) => {
            append_clock(array.as_primitive::<Time64NanosecondType>().value(row), 1_000_000_000, 9, text);
        }
        DataType::Time64(_) => {
            append_clock(array.as_primitive::<Time64MicrosecondType>().value(row), 1_000_000, 6, text);
        }
        _ => return false,
    }
    true
}

fn append_infinity(positive: bool, text: &mut String) {
    text.push_str(if positive { "infinity" } else { "-infinity" });
}

/// A timestamp in the given unit. One with a zone is written in UTC. Before year 1, it is written as in DuckDB.
fn append_timestamp(value: i64, per_second: i64, digits: usize, has_zone: bool, text: &mut String) {
    if [i64::MAX, -i64::MAX, i64::MIN].contains(&value) {
        return append_infinity(value > 0, text);
    }
    let day = DAY_SECONDS * per_second;
    let is_before_christ = append_date(value.div_euclid(day), text);
    text.push(if is_before_christ { ' ' } else { 'T' });
    append_clock(value.rem_euclid(day), per_second, digits, text);
    if has_zone {
        text.push('Z');
    }
}

/// A time of day, also from 24:00:00 on.
fn append_clock(value: i64, per_second: i64, digits: usize, text: &mut String) {
    let (value, sign) = (value.unsigned_abs(), if value < 0 { "-" } else { "" });
    let (seconds, fraction) = (value / per_second.unsigned_abs(), value % per_second.unsigned_abs());
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let _ = write!(text, "{sign}{hours:02}:{minutes:02}:{:02}", seconds % 60);
    if fraction > 0 {
        let fraction = format!("{fraction:0digits$}");
        let _ = write!(text, ".{}", fraction.trim_end_matches('0'));
    }
}

/// Appends a day of the Gregorian calendar, and returns whether it is before the year 1.
fn append_date(days: i64, text: &mut String) -> bool {
    let Civil { year, month, day } = civil(days);
    let is_before_christ = year <= 0;
    let (year, era) = if is_before_christ { (1 - year, " (BC)") } else { (year, "") };
    let sign = if year > 9999 && !is_before_christ { "+" } else { "" };
    let _ = write!(text, "{sign}{year:04}-{month:02}-{day:02}{era}");
    is_before_christ
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, Date32Array, Time64MicrosecondArray, TimestampMicrosecondArray, TimestampSecondArray,
    };

    use super::super::ValueTexts;

    fn check(array: ArrayRef, expected: &[&str]) {
        let texts = ValueTexts::new(array.as_ref()).expect("a type that can be written");
        for (row, expected) in expected.iter().enumerate() {
            let mut text = String::new();
            texts.append(row, &mut text);
            assert_eq!(text, *expected);
        }
    }

    #[test]
    fn ends_of_calendars() {
        let days = vec![i32::MAX, -i32::MAX, i32::MIN, 0, 3_789_742, i32::MAX - 1, -735_535, i32::MIN + 2];
        let texts = [
            "infinity",
            "-infinity",
            "-infinity",
            "1970-01-01",
            "+12345-12-18",
            "+5881580-07-10",
            "0045-03-05 (BC)",
            "5877642-06-25 (BC)",
        ];
        check(Arc::new(Date32Array::from(days)), &texts);
        let micros = vec![i64::MAX, i64::MIN, i64::MAX - 1, 0, -62_135_596_800_000_001];
        let texts = [
            "infinity",
            "-infinity",
            "+294247-01-10T04:00:54.775806",
            "1970-01-01T00:00:00",
            "0001-12-31 (BC) 23:59:59.999999",
        ];
        check(Arc::new(TimestampMicrosecondArray::from(micros)), &texts);
        let far = TimestampSecondArray::from(vec![i64::MAX - 1]).with_timezone("+00:00");
        check(Arc::new(far), &["+292277026596-12-04T15:30:06Z"]);
        check(
            Arc::new(Time64MicrosecondArray::from(vec![86_400_000_000, 86_400_500_000])),
            &["24:00:00", "24:00:00.5"],
        );
    }
}
