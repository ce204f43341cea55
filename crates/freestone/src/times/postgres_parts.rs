//! Parts of times as PostgreSQL gives them, where DuckDB gives others: seconds with their fraction, years before 1 without a
//! year 0, the infinite parts of infinite times, and DATE_TRUNC of a DATE. The server of PostgreSQL's protocol writes these
//! functions in the place of EXTRACT, `date_part` and `date_trunc`.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, Decimal128Array, Float64Array, Int32Array, Int64Array};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int32Type, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;

use super::arrays::{
    exact_cast, finite, infinite, integers, interval_of, intervals, is_span, is_text, is_time_of_day, local_ticks, map,
    may_be_infinite, reals, timestamptz, zip,
};
use super::function::{Call, TimeFunction, wrong_types};
use super::interval::SECOND_NS;
use super::parts::{
    Part, epoch, julian, of_intervals, of_times, offsets, part_of, read_times, takes_part, years_preimage,
};
use super::truncation;
use crate::error::Error;

/// EXTRACT of PostgreSQL.
const EXTRACT: &str = "freestone_pg_extract";
/// `date_part` of PostgreSQL, which gives a DOUBLE.
const PART: &str = "freestone_pg_part";
/// `date_trunc` of PostgreSQL.
const TRUNC: &str = "freestone_pg_trunc";

const MICROS_OF_MINUTE: i64 = 60_000_000;
/// The digits of a second with its fraction, more than it has.
const DIGITS: u8 = 18;

/// The functions of this module.
pub(crate) fn functions() -> [TimeFunction; 3] {
    let extract = TimeFunction::new(EXTRACT, takes_part, gives_extract, run);
    let part = TimeFunction::new(PART, takes_part, gives_part, run);
    [
        TimeFunction { preimage: Some(years_preimage), ..extract },
        TimeFunction { preimage: Some(whole_years_preimage), ..part },
        truncation::date_trunc().renamed(TRUNC, takes_trunc),
    ]
}

/// A DATE is cut as a TIMESTAMP WITH TIME ZONE.
fn takes_trunc(types: &[DataType]) -> Result<Vec<DataType>> {
    let of_day = |kind: &DataType| matches!(kind, DataType::Date32 | DataType::Date64);
    let given = |kind: &DataType| if of_day(kind) { timestamptz() } else { kind.clone() };
    truncation::takes_trunc(&types.iter().map(given).collect::<Vec<_>>())
}

/// The part with this name, if PostgreSQL has it of the type.
fn known_part(name: &str, time: &DataType) -> Result<Part> {
    let part = part_of(name, time)?;
    let is_of_zone = matches!(part, Part::TimeZone | Part::TimeZoneHour | Part::TimeZoneMinute);
    if is_of_zone && is_time_of_day(time) {
        let message = format!("unit \"{}\" not supported for type time without time zone", name.to_lowercase());
        return Err(Error::unsupported(message).into());
    }
    Ok(part)
}

fn gives_extract(types: &[DataType], constants: &[Option<&ScalarValue>]) -> Result<DataType> {
    let [_, time] = types else { return wrong_types("extract", "a part's name and a time", types) };
    let name = constants.first().copied().flatten().and_then(|value| value.try_as_str().flatten());
    let Some(name) = name else { return Ok(DataType::Int32) };
    let part = known_part(name, time)?;
    if part.is_in_clock() && matches!(time, DataType::Date32 | DataType::Date64) {
        let message = format!("unit \"{}\" not supported for type date", name.to_lowercase());
        return Err(Error::unsupported(message).into());
    }
    Ok(match part {
        Part::Second => DataType::Decimal128(DIGITS, 6),
        Part::Millisecond => DataType::Decimal128(DIGITS, 3),
        Part::Epoch | Part::Julian => DataType::Float64,
        Part::Nanosecond => DataType::Int64,
        _ => DataType::Int32,
    })
}

fn gives_part(types: &[DataType], constants: &[Option<&ScalarValue>]) -> Result<DataType> {
    let [_, time] = types else { return wrong_types("date_part", "a part's name and a time", types) };
    if let Some(name) = constants.first().copied().flatten().and_then(|value| value.try_as_str().flatten()) {
        known_part(name, time)?;
    }
    Ok(DataType::Float64)
}

fn run(call: &Call) -> Result<ArrayRef> {
    let Some(name) = call.text(0, "the part of date_part")? else { return Ok(call.nulls()) };
    let given = call.array(1)?;
    let (times, zones) = if is_text(given.data_type()) { read_times(&given, call)? } else { (given, None) };
    let part = part_of(&name, times.data_type())?;
    match part {
        Part::Second | Part::Millisecond => seconds(part, &micros_of_minute(&times, call)?, &call.to),
        Part::TimeZone | Part::TimeZoneHour | Part::TimeZoneMinute => {
            let parts: ArrayRef = match zones {
                Some(zones) => Arc::new(zones.unary::<_, Int32Type>(|zone| part.of_offset(zone.into()) as i32)),
                None => offsets(part, &finite(&times)?, &call.zone)?,
            };
            exact_cast(&parts, &call.to)
        }
        Part::Epoch if !is_span(times.data_type()) => {
            let seconds = reals(&epoch(&finite(&times)?)?)?;
            match zones {
                Some(zones) => Ok(Arc::new(in_utc(&seconds, &zones)?)),
                None => with_infinite(seconds, &times),
            }
        }
        Part::Julian => with_infinite(reals(&julian(&finite(&times)?, &call.zone)?)?, &times),
        _ if is_span(times.data_type()) => of_intervals(part, &intervals(&times)?, &call.to),
        Part::Year | Part::IsoYear | Part::Decade | Part::Century | Part::Millennium => years(part, &times, call),
        _ => of_times(part, &finite(&times)?, &call.zone, &call.to),
    }
}

/// The microseconds since the last full minute, of intervals with their sign.
fn micros_of_minute(times: &ArrayRef, call: &Call) -> Result<Int64Array> {
    let kind = times.data_type();
    if is_span(kind) {
        let micros = |span| Ok(interval_of(span).ns % (60 * SECOND_NS) / 1_000);
        return map(&intervals(times)?, micros);
    }
    let times = finite(times)?;
    if *kind == DataType::Date32 {
        return map(&integers(&times)?, |_| Ok(0));
    }
    let (ticks, per_second) = local_ticks(&times, &call.zone)?;
    let minute = 60 * per_second;
    let micros = |value: i64| i128::from(value.rem_euclid(minute)) * i128::from(MICROS_OF_MINUTE) / i128::from(minute);
    map::<_, Int64Type>(&ticks, |value| Ok(micros(value) as i64))
}

/// Microseconds as seconds or milliseconds with a fraction.
fn seconds(part: Part, micros: &Int64Array, to: &DataType) -> Result<ArrayRef> {
    if let DataType::Decimal128(precision, scale) = to {
        let units: Decimal128Array = map::<_, Decimal128Type>(micros, |micros| Ok(i128::from(micros)))?;
        return Ok(Arc::new(units.with_precision_and_scale(*precision, *scale)?));
    }
    let unit = if part == Part::Second { 1e6 } else { 1e3 };
    exact_cast(&(Arc::new(map::<_, Float64Type>(micros, |micros| Ok(micros as f64 / unit))?) as ArrayRef), to)
}

/// The seconds of times of day of UTC, from those of their own zones.
fn in_utc(seconds: &Float64Array, zones: &Int32Array) -> Result<Float64Array> {
    zip(seconds, zones, |seconds, zone| Ok(seconds - f64::from(zone)))
}

/// Years, and what is counted in years. The year before 1 is -1.
fn years(part: Part, times: &ArrayRef, call: &Call) -> Result<ArrayRef> {
    let years = of_times(part, &finite(times)?, &call.zone, &DataType::Int32)?;
    let counted = |year: i64| if year <= 0 && matches!(part, Part::Year | Part::IsoYear) { year - 1 } else { year };
    let years = map::<_, Int64Type>(&integers(&years)?, |year| Ok(counted(year)))?;
    match &call.to {
        DataType::Float64 => with_infinite(reals(&(Arc::new(years) as ArrayRef))?, times),
        to => exact_cast(&(Arc::new(years) as ArrayRef), to),
    }
}

/// Parts that grow with the time are infinite if it is.
fn with_infinite(parts: Float64Array, times: &ArrayRef) -> Result<ArrayRef> {
    if !may_be_infinite(times)? {
        return Ok(Arc::new(parts));
    }
    let kind = times.data_type();
    let part = |(part, time): (Option<f64>, Option<i64>)| match infinite(time?, kind) {
        Some(true) => Some(f64::INFINITY),
        Some(false) => Some(f64::NEG_INFINITY),
        None => part,
    };
    Ok(Arc::new(parts.iter().zip(&integers(times)?).map(part).collect::<Float64Array>()))
}

/// The times of a year, which is compared as a DOUBLE.
fn whole_years_preimage(args: &[Expr], literal: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
    let Expr::Literal(ScalarValue::Float64(Some(year)), _) = literal else { return Ok(PreimageResult::None) };
    if year.fract() != 0.0 || !(1.0..9_999.0).contains(year) {
        return Ok(PreimageResult::None);
    }
    let year = Expr::Literal(ScalarValue::Int32(Some(*year as i32)), None);
    years_preimage(args, &year, info)
}
