//! `numpy.datetime64` and `numpy.timedelta64` as SQL values. numpy counts a unit in 64 bits, and wraps when it converts
//! one unit to another, so the counts are converted here.

use freestone::ScalarValue;
use pyo3::prelude::*;

const NANOSECONDS_A_DAY: i128 = 86_400_000_000_000;

/// The value; `None` if SQL's types cannot represent it. `NaT` is NULL.
pub fn scalar(value: &Bound<'_, PyAny>) -> PyResult<Option<ScalarValue>> {
    let numpy = value.py().import("numpy")?;
    let (unit, multiple): (String, i64) = numpy.call_method1("datetime_data", (value.getattr("dtype")?,))?.extract()?;
    let count: i64 = value.call_method1("astype", ("int64",))?.extract()?;
    if count == i64::MIN {
        return Ok(Some(ScalarValue::Null));
    }
    let is_duration = value.get_type().name()?.to_cow()?.starts_with("timedelta");
    let count = i128::from(count) * i128::from(multiple);
    let months = match unit.as_str() {
        "Y" => Some(count * 12),
        "M" => Some(count),
        _ => None,
    };
    Ok(match (is_duration, months) {
        (true, Some(months)) => i32::try_from(months).ok().map(|months| ScalarValue::new_interval_mdn(months, 0, 0)),
        (true, None) => nanoseconds(count, &unit).and_then(interval),
        (false, Some(months)) => days_of_months(months).and_then(|days| instant(days * NANOSECONDS_A_DAY)),
        (false, None) => nanoseconds(count, &unit).and_then(instant),
    })
}

/// A number of units in nanoseconds; `None` if it is not a whole number of them.
fn nanoseconds(count: i128, unit: &str) -> Option<i128> {
    let per_unit = match unit {
        "W" => 7 * NANOSECONDS_A_DAY,
        "D" => NANOSECONDS_A_DAY,
        "h" => 3_600_000_000_000,
        "m" => 60_000_000_000,
        "s" => 1_000_000_000,
        "ms" => 1_000_000,
        "us" => 1000,
        "ns" => 1,
        _ => {
            let divisor = match unit {
                "ps" => 1000,
                "fs" => 1_000_000,
                "as" => 1_000_000_000,
                _ => return None,
            };
            return (count % divisor == 0).then_some(count / divisor);
        }
    };
    count.checked_mul(per_unit)
}

/// The days from 1970-01-01 to the first day of a month, counted from January 1970.
fn days_of_months(months: i128) -> Option<i128> {
    let months = i64::try_from(months).ok().filter(|months| months.abs() < 12_000_000)?;
    let (year, month) = (1970 + months.div_euclid(12), months.rem_euclid(12));
    // Years begin in March, so that the leap day is their last.
    let (shifted, month) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let (era, of_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
    let days = of_era * 365 + of_era / 4 - of_era / 100 + (153 * month + 2) / 5;
    Some(i128::from(era * 146_097 + days - 719_468))
}

/// A time since 1970-01-01, in microseconds if it is a whole number of them.
fn instant(nanoseconds: i128) -> Option<ScalarValue> {
    if nanoseconds % 1000 == 0 {
        let microseconds = i64::try_from(nanoseconds / 1000).ok()?;
        return Some(ScalarValue::TimestampMicrosecond(Some(microseconds), None));
    }
    Some(ScalarValue::TimestampNanosecond(Some(i64::try_from(nanoseconds).ok()?), None))
}

fn interval(nanoseconds: i128) -> Option<ScalarValue> {
    let days = i32::try_from(nanoseconds.div_euclid(NANOSECONDS_A_DAY)).ok()?;
    Some(ScalarValue::new_interval_mdn(0, days, nanoseconds.rem_euclid(NANOSECONDS_A_DAY) as i64))
}
