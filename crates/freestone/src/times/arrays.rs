//! Times in Arrow arrays as numbers: days of dates, ticks of timestamps, fields of intervals.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, PrimitiveArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::{CastOptions, cast_with_options, nullif};
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    IntervalUnit, TimeUnit,
};
use datafusion::error::{DataFusionError, Result};

use super::interval::Interval;
use super::zone::{UTC, Zone};
use crate::error::{Error, ErrorKind};

pub(crate) type Intervals = PrimitiveArray<IntervalMonthDayNanoType>;

/// The type of INTERVAL expressions.
pub(crate) const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// TIMESTAMP, in microseconds.
pub(crate) const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// TIMESTAMP WITH TIME ZONE, in microseconds.
pub(crate) fn timestamptz() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()))
}

pub(crate) fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8)
}

pub(crate) fn is_time_of_day(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Time32(_) | DataType::Time64(_))
}

/// Whether a type is INTERVAL or an Arrow duration.
pub(crate) fn is_span(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_) | DataType::Duration(_))
}

pub(crate) fn is_integer(data_type: &DataType) -> bool {
    data_type.is_integer()
}

pub(crate) fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// The unit, or microseconds if it is coarser.
pub(crate) fn at_least_us(unit: TimeUnit) -> TimeUnit {
    if unit == TimeUnit::Nanosecond { unit } else { TimeUnit::Microsecond }
}

/// The finer of two units.
pub(crate) fn finer(a: TimeUnit, b: TimeUnit) -> TimeUnit {
    if per_second(a) >= per_second(b) { a } else { b }
}

/// Arrow's cast, with an error for values that cannot be converted.
pub(crate) fn exact_cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if array.data_type() == to {
        return Ok(array.clone());
    }
    Ok(cast_with_options(array, to, &CastOptions { safe: false, ..CastOptions::default() })?)
}

/// Integers of any width, days of dates, ticks of timestamps and times of day, as 64-bit integers.
pub(crate) fn integers(array: &ArrayRef) -> Result<Int64Array> {
    let array = match array.data_type() {
        DataType::Date32 => return Ok(array.as_primitive::<Date32Type>().unary(i64::from)),
        DataType::Time32(_) => exact_cast(array, &DataType::Int32)?,
        _ => array.clone(),
    };
    Ok(exact_cast(&array, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

/// The ticks of timestamps or times of day, and the number of ticks per second.
pub(crate) fn ticks(array: &ArrayRef) -> Result<(Int64Array, i64)> {
    let unit = match array.data_type() {
        DataType::Timestamp(unit, _) | DataType::Time32(unit) | DataType::Time64(unit) => *unit,
        other => return Err(internal(&format!("{other} has no ticks"))),
    };
    Ok((integers(array)?, per_second(unit)))
}

/// The day of ticks since 1970. The usual units are constants: a division by one of them is a multiplication.
#[inline]
pub(crate) fn day_of(ticks: i64, per_second: i64) -> i64 {
    const DAY_SECONDS: i64 = 86_400;
    match per_second {
        1_000_000 => ticks.div_euclid(DAY_SECONDS * 1_000_000),
        1_000_000_000 => ticks.div_euclid(DAY_SECONDS * 1_000_000_000),
        _ => ticks.div_euclid(DAY_SECONDS * per_second),
    }
}

/// The ticks of timestamps in local time. Timestamps with a time zone are converted to that of the session.
pub(crate) fn local_ticks(array: &ArrayRef, zone: &Zone) -> Result<(Int64Array, i64)> {
    let (values, per_second) = ticks(array)?;
    match array.data_type() {
        DataType::Timestamp(_, Some(_)) if !zone.is_utc() => {
            Ok((map(&values, |value| to_local(value, per_second, zone))?, per_second))
        }
        _ => Ok((values, per_second)),
    }
}

/// Local ticks of an instant.
pub(crate) fn to_local(value: i64, per_second: i64, zone: &Zone) -> Result<i64> {
    let offset = zone.offset_at(value.div_euclid(per_second));
    let local = offset.and_then(|offset| value.checked_add(offset * per_second));
    local.ok_or_else(|| out_of_range("timestamp"))
}

/// The instant of local ticks.
pub(crate) fn to_instant(value: i64, per_second: i64, zone: &Zone) -> Result<i64> {
    let offset = zone.offset_of_local(value.div_euclid(per_second));
    let instant = offset.and_then(|offset| value.checked_sub(offset * per_second));
    instant.ok_or_else(|| out_of_range("timestamp"))
}

pub(crate) fn reals(array: &ArrayRef) -> Result<Float64Array> {
    Ok(exact_cast(array, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
}

pub(crate) fn intervals(array: &ArrayRef) -> Result<Intervals> {
    Ok(exact_cast(array, &INTERVAL)?.as_primitive::<IntervalMonthDayNanoType>().clone())
}

pub(crate) fn interval_of(value: IntervalMonthDayNano) -> Interval {
    Interval { months: value.months, days: value.days, ns: value.nanoseconds }
}

pub(crate) fn stored(interval: Interval) -> IntervalMonthDayNano {
    IntervalMonthDayNano::new(interval.months, interval.days, interval.ns)
}

/// The stored value of infinity in the types that have it.
fn infinite_end(data_type: &DataType) -> Option<i64> {
    match data_type {
        DataType::Date32 => Some(i32::MAX.into()),
        DataType::Timestamp(..) => Some(i64::MAX),
        _ => None,
    }
}

/// Whether a value of a type is infinite, and then whether it is positive. Dates and timestamps are, times of day are not.
pub(crate) fn infinite(value: i64, data_type: &DataType) -> Option<bool> {
    let end = infinite_end(data_type)?;
    // The least integer stands for -infinity, too.
    match value {
        value if value == end => Some(true),
        value if value <= -end => Some(false),
        _ => None,
    }
}

/// The stored value of an infinite date or timestamp.
pub(crate) fn infinity(is_positive: bool, data_type: &DataType) -> i64 {
    let end = match data_type {
        DataType::Date32 | DataType::Date64 => i64::from(i32::MAX),
        _ => i64::MAX,
    };
    if is_positive { end } else { -end }
}

/// Values of a type that were computed from finite ones.
///
/// # Errors
/// One of them is as large as an infinite one, and so out of range.
pub(crate) fn all_finite(values: Int64Array, data_type: &DataType) -> Result<Int64Array> {
    let Some(end) = infinite_end(data_type) else { return Ok(values) };
    let is_finite = |value: Option<i64>| value.is_none_or(|value| value < end && value > -end);
    match values.iter().all(is_finite) {
        true => Ok(values),
        false if *data_type == DataType::Date32 => Err(out_of_range("date")),
        false => Err(out_of_range("timestamp")),
    }
}

/// Dates or timestamps with NULL in the place of infinite ones, which have no parts.
pub(crate) fn finite(times: &ArrayRef) -> Result<ArrayRef> {
    if !may_be_infinite(times)? {
        return Ok(times.clone());
    }
    let values = integers(times)?;
    let is_infinite = |value: Option<i64>| value.map(|value| infinite(value, times.data_type()).is_some());
    let infinite: BooleanArray = values.iter().map(is_infinite).collect();
    match infinite.true_count() > 0 {
        true => Ok(nullif(times, &infinite)?),
        false => Ok(times.clone()),
    }
}

/// Whether some values may be infinite. What a NULL row holds counts, too.
pub(crate) fn may_be_infinite(times: &ArrayRef) -> Result<bool> {
    let Some(end) = infinite_end(times.data_type()) else { return Ok(false) };
    let values = integers(times)?;
    Ok(values.values().iter().fold(false, |any, value| any | (*value == end) | (*value <= -end)))
}

/// Integers as dates, times of day or timestamps.
pub(crate) fn finished(values: Int64Array, to: &DataType) -> Result<ArrayRef> {
    let values: ArrayRef = Arc::new(values);
    match to {
        DataType::Date32 | DataType::Time32(_) => {
            let narrow = exact_cast(&values, &DataType::Int32).map_err(|_| out_of_range("date"))?;
            exact_cast(&narrow, to)
        }
        _ => exact_cast(&values, to),
    }
}

/// Applies `change` to each value that is not NULL.
pub(crate) fn map<A: ArrowPrimitiveType, O: ArrowPrimitiveType>(
    values: &PrimitiveArray<A>,
    change: impl Fn(A::Native) -> Result<O::Native>,
) -> Result<PrimitiveArray<O>> {
    values.try_unary::<_, O, DataFusionError>(change)
}

/// Applies `combine` to each pair without NULL.
pub(crate) fn zip<A: ArrowPrimitiveType, B: ArrowPrimitiveType, O: ArrowPrimitiveType>(
    a: &PrimitiveArray<A>,
    b: &PrimitiveArray<B>,
    combine: impl Fn(A::Native, B::Native) -> Result<O::Native>,
) -> Result<PrimitiveArray<O>> {
    let nulls = NullBuffer::union(a.nulls(), b.nulls());
    if nulls.is_none() {
        let values = a.values().iter().zip(b.values()).map(|(a, b)| combine(*a, *b)).collect::<Result<Vec<_>>>()?;
        return Ok(PrimitiveArray::new(values.into(), None));
    }
    let mut values = Vec::with_capacity(a.len());
    for row in 0..a.len() {
        let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        values.push(if is_null { O::Native::default() } else { combine(a.value(row), b.value(row))? });
    }
    Ok(PrimitiveArray::new(values.into(), nulls))
}

pub(crate) fn out_of_range(what: &str) -> DataFusionError {
    Error::new(ErrorKind::Type, format!("{what} out of range")).into()
}

pub(crate) fn internal(what: &str) -> DataFusionError {
    Error::new(ErrorKind::Internal, format!("internal error: {what}")).into()
}
