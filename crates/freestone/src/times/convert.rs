//! Casts from, to and between times for which Arrow's casts read other texts, ignore the session's time zone, or wrap
//! around.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, PrimitiveArray, StringArray, StringViewArray, StringViewBuilder,
};
use datafusion::arrow::datatypes::{ArrowPrimitiveType, DataType, Int64Type, IntervalMonthDayNanoType};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::interval_arithmetic::Interval as Range;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::arrays::{
    exact_cast, finished, infinite, infinity, integers, internal, interval_of, intervals, is_span, is_text,
    is_time_of_day, map, out_of_range, per_second, stored, ticks, to_instant, to_local,
};
use super::function::{Call, evaluate};
use super::interval::{DAY_NS, SECOND_NS, push_clock, rounded_quotient};
use super::interval_text;
use super::postgres_texts::{DateOrder, TextOf, plain_text};
use super::text::{self, Written};
use super::zone::Zone;
use crate::error::{Error, ErrorKind};

const DAY_SECONDS: i64 = 86_400;

/// Whether a cast is computed by this module.
pub(crate) fn is_ours(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Date64, Timestamp};
    match (from, to) {
        (from, Date32 | Date64 | Timestamp(..) | DataType::Interval(_)) if is_text(from) => true,
        (from, to) if is_text(from) => is_time_of_day(to),
        (Timestamp(a, from), Timestamp(b, to)) => from.is_some() != to.is_some() || a != b,
        (Date32 | Date64, Timestamp(..)) => true,
        (Timestamp(..), Date32 | Date64) => true,
        (Timestamp(..), to) if is_time_of_day(to) => true,
        (Timestamp(..), to) => is_text(to),
        (from, to) => is_text(to) && (is_time_of_day(from) || is_span(from) || *from == Date32),
    }
}

/// A cast as a function call.
pub(crate) fn call(argument: Expr, to: DataType, or_null: bool) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::new_from_impl(TimeCast { to, or_null, signature }).call(vec![argument])
}

/// The argument of such a call.
pub(crate) fn argument(expression: &Expr) -> Option<&Expr> {
    let Expr::ScalarFunction(call) = expression else { return None };
    let function: &dyn std::any::Any = call.func.inner().as_ref();
    if function.is::<TimeCast>() { call.args.first() } else { None }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TimeCast {
    to: DataType,
    /// Whether values outside of the range become NULL instead of an error.
    or_null: bool,
    signature: Signature,
}

impl ScalarUDFImpl for TimeCast {
    fn name(&self) -> &str {
        "time_cast"
    }

    /// The name contains the type, so that casts of one argument to two types are different columns.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let cast = if self.or_null { "TRY_CAST" } else { "CAST" };
        Ok(args.first().map_or_else(String::new, |argument| format!("{cast}({argument} AS {})", self.to)))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        evaluate(args, |call| converted(&call.array(0)?, self.or_null, call))
    }

    /// The times of a day, so that a comparison of the date becomes a comparison of times, which can prune zones.
    fn preimage(&self, args: &[Expr], literal: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        let ([time], Expr::Literal(ScalarValue::Date32(Some(day)), _)) = (args, literal) else {
            return Ok(PreimageResult::None);
        };
        let kind = info.get_data_type(time)?;
        let (DataType::Timestamp(unit, None), DataType::Date32) = (&kind, &self.to) else {
            return Ok(PreimageResult::None);
        };
        let start = |day: i64| {
            let ticks = day.checked_mul(DAY_SECONDS * per_second(*unit))?;
            let is_finite = infinite(ticks, &kind).is_none();
            ScalarValue::Int64(Some(ticks)).cast_to(&kind).ok().filter(|_| is_finite)
        };
        let day = i64::from(*day);
        Ok(match (start(day), start(day + 1)) {
            (Some(low), Some(high)) => {
                PreimageResult::Range { expr: time.clone(), interval: Box::new(Range::try_new(low, high)?) }
            }
            _ => PreimageResult::None,
        })
    }

    /// Days are in the order of the times of the same zone.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(match inputs {
            [input]
                if matches!(input.range.data_type(), DataType::Timestamp(_, None)) && self.to == DataType::Date32 =>
            {
                input.sort_properties
            }
            _ => SortProperties::Unordered,
        })
    }
}

fn converted(values: &ArrayRef, or_null: bool, call: &Call) -> Result<ArrayRef> {
    let (from, to) = (values.data_type(), &call.to);
    if is_text(from) {
        return from_texts(values, or_null, call);
    }
    if is_text(to) {
        return exact_cast(&texts(values, &call.zone)?, to);
    }
    let converted = moved(values, to, &call.zone);
    match converted {
        Err(_) if or_null => {
            // Row by row, so that only the rows outside of the range are NULL.
            let rows = (0..values.len()).map(|row| moved(&values.slice(row, 1), to, &call.zone));
            let rows: Vec<ArrayRef> =
                rows.map(|row| row.unwrap_or_else(|_| datafusion::arrow::array::new_null_array(to, 1))).collect();
            let rows: Vec<&dyn Array> = rows.iter().map(AsRef::as_ref).collect();
            Ok(datafusion::arrow::compute::concat(&rows)?)
        }
        converted => converted,
    }
}

/// Dates and timestamps as values of another type of times, in a time zone.
///
/// # Errors
/// A value is outside of the range of the type.
pub(crate) fn moved(values: &ArrayRef, to: &DataType, session: &Zone) -> Result<ArrayRef> {
    let from = values.data_type();
    match (from, to) {
        (DataType::Date64, _) => moved(&exact_cast(values, &DataType::Date32)?, to, session),
        (DataType::Date32, DataType::Timestamp(unit, zone)) => {
            let day = DAY_SECONDS * per_second(*unit);
            let start = |days: i64| days.checked_mul(day).ok_or_else(|| out_of_range("timestamp"));
            let instant = |local| match zone {
                Some(_) => to_instant(local, per_second(*unit), session),
                None => Ok(local),
            };
            let start_of = |days| match infinite(days, from) {
                Some(is_positive) => Ok(infinity(is_positive, to)),
                None => instant(start(days)?),
            };
            finished(map(&integers(values)?, start_of)?, to)
        }
        (DataType::Timestamp(_, of), DataType::Timestamp(unit, zone)) => {
            let (ticks, source) = ticks(values)?;
            let target = per_second(*unit);
            let instant = |value: i64| match (of, zone) {
                (None, Some(_)) => to_instant(value, source, session),
                (Some(_), None) => to_local(value, source, session),
                _ => Ok(value),
            };
            let changed = |value| match infinite(value, from) {
                Some(is_positive) => Ok(infinity(is_positive, to)),
                None => rescaled(instant(value)?, source, target),
            };
            finished(map(&ticks, changed)?, to)
        }
        (DataType::Timestamp(_, of), DataType::Date32 | DataType::Date64) => {
            let (ticks, source) = ticks(values)?;
            let day = source * DAY_SECONDS;
            let local = |value| if of.is_some() { to_local(value, source, session) } else { Ok(value) };
            let local_day = |value| match infinite(value, from) {
                Some(is_positive) => Ok(infinity(is_positive, &DataType::Date32)),
                None => Ok(local(value)?.div_euclid(day)),
            };
            let days = map::<_, Int64Type>(&ticks, local_day)?;
            exact_cast(&finished(days, &DataType::Date32)?, to)
        }
        (DataType::Timestamp(_, of), DataType::Time32(unit) | DataType::Time64(unit)) => {
            let (ticks, source) = ticks(values)?;
            let day = source * DAY_SECONDS;
            let local = |value| if of.is_some() { to_local(value, source, session) } else { Ok(value) };
            let clock = |value| match infinite(value, from) {
                Some(_) => Err(out_of_range("time of day")),
                None => Ok(local(value)?.rem_euclid(day)),
            };
            finished(map(&ticks, |value| rescaled(clock(value)?, source, per_second(*unit)))?, to)
        }
        _ => exact_cast(values, to),
    }
}

/// Ticks in another unit, rounded if it is coarser.
fn rescaled(value: i64, from: i64, to: i64) -> Result<i64> {
    match from > to {
        true => Ok(rounded_quotient(i128::from(value), i128::from(from / to)) as i64),
        false => value.checked_mul(to / from).ok_or_else(|| out_of_range("timestamp")),
    }
}

/// The value of a text of a client as a date, a time, a timestamp or an interval. `session` is the zone of times without
/// one, and texts read as in PostgreSQL if there is an order of dates. A zone behind a TIMESTAMP, which has none, says
/// nothing, as in PostgreSQL.
///
/// # Errors
/// The text is no value of this type.
pub fn value_of_text(
    text: &str,
    to: &DataType,
    session: &Zone,
    order: Option<DateOrder>,
) -> Result<ScalarValue, Error> {
    if let DataType::Interval(_) = to {
        let span = interval_text::parse(text, None).map(stored).ok_or_else(|| not_read(text, to))?;
        return Ok(ScalarValue::IntervalMonthDayNano(Some(span)));
    }
    let numbers = Int64Array::from(vec![time_of(text, to, session, true, order)?]);
    Ok(ScalarValue::try_from_array(&finished(numbers, to)?, 0)?)
}

pub(crate) fn from_texts(values: &ArrayRef, or_null: bool, call: &Call) -> Result<ArrayRef> {
    let texts = exact_cast(values, &DataType::Utf8View)?;
    let texts = texts.as_string_view();
    let to = &call.to;
    if let DataType::Interval(_) = to {
        let read = |text: &str| interval_text::parse(text, None).map(stored).ok_or_else(|| not_read(text, to));
        let spans: PrimitiveArray<IntervalMonthDayNanoType> = parsed(texts, or_null, read)?;
        return exact_cast(&(Arc::new(spans) as ArrayRef), to);
    }
    let numbers: Int64Array = parsed(texts, or_null, |text| time_of(text, to, &call.zone, false, call.order))?;
    match to {
        DataType::Date64 => exact_cast(&finished(numbers, &DataType::Date32)?, to),
        _ => finished(numbers, to),
    }
}

fn parsed<O: ArrowPrimitiveType>(
    texts: &StringViewArray,
    or_null: bool,
    read: impl Fn(&str) -> Result<O::Native, Error>,
) -> Result<PrimitiveArray<O>> {
    let row = |text: Option<&str>| match text.map(&read) {
        Some(Err(_)) if or_null => Ok(None),
        Some(Err(error)) => Err(error.into()),
        Some(Ok(value)) => Ok(Some(value)),
        None => Ok(None),
    };
    texts.iter().map(row).collect()
}

fn not_read(text: &str, to: &DataType) -> Error {
    let kind = crate::type_names::type_name(to);
    let hint = match to {
        DataType::Interval(_) => "an interval reads '1 year 2 months 3 days 04:05:06'",
        DataType::Date32 | DataType::Date64 => "a date reads '2024-01-31'",
        DataType::Timestamp(..) => "a timestamp reads '2024-01-31 10:00:00', with '+02:00' or a zone's name behind it",
        _ => "a time reads '10:00:00'",
    };
    Error::new(ErrorKind::Type, format!("invalid {kind}: '{text}'")).with_hint(hint)
}

/// Parses a text to days or ticks.
///
/// PostgreSQL's texts are put in the engine's form first. In a TIMESTAMP, they have no zone, nor have those of parameters
/// (`drops_zone`).
fn time_of(
    text: &str,
    to: &DataType,
    session: &Zone,
    drops_zone: bool,
    order: Option<DateOrder>,
) -> Result<i64, Error> {
    let drops_zone = matches!(to, DataType::Timestamp(_, None)) && (drops_zone || order.is_some());
    let plain = order.and_then(|order| plain_text(text, TextOf::of_type(to)?, order, session));
    let text = plain.as_deref().unwrap_or(text);
    if matches!(to, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..)) {
        let is_one_of = |names: &[&str]| names.iter().any(|name| name.eq_ignore_ascii_case(text.trim()));
        if is_one_of(&["infinity", "inf"]) {
            return Ok(infinity(true, to));
        }
        if is_one_of(&["-infinity", "-inf"]) {
            return Ok(infinity(false, to));
        }
        if is_one_of(&["epoch"]) {
            return Ok(0);
        }
    }
    let mut written = text::parse(text).ok_or_else(|| not_read(text, to))?;
    if drops_zone && written.zone.as_deref().is_some_and(|zone| Zone::parse(zone).is_some()) {
        written.zone = None;
    }
    let found = match to {
        DataType::Date32 | DataType::Date64 => {
            let days = written.days.ok_or_else(|| not_read(text, to))?;
            return match infinite(days, to) {
                None => Ok(days),
                Some(_) => Err(Error::new(ErrorKind::Type, format!("date out of range: '{text}'"))),
            };
        }
        DataType::Timestamp(unit, zone) => instant(&written, per_second(*unit), zone.is_some(), session),
        DataType::Time32(unit) | DataType::Time64(unit) => {
            let ns = i128::from(written.ns.ok_or_else(|| not_read(text, to))?);
            Some(rounded_quotient(ns, i128::from(SECOND_NS / per_second(*unit))) as i64)
        }
        _ => None,
    };
    let is_read = written.days.is_some() || !matches!(to, DataType::Timestamp(..));
    let has_zone = written.zone.as_deref().is_none_or(|zone| Zone::parse(zone).is_some());
    match found {
        Some(found) if infinite(found, to).is_none() => Ok(found),
        _ if is_read && has_zone => Err(Error::new(ErrorKind::Type, format!("timestamp out of range: '{text}'"))),
        _ => Err(not_read(text, to)),
    }
}

/// An offset or a zone after a timestamp is applied even if the type has no zone, as in DuckDB.
fn instant(written: &Written, per_second: i64, has_zone: bool, session: &Zone) -> Option<i64> {
    let ticks = written.ticks(per_second)?;
    let zone = match &written.zone {
        Some(name) => Zone::parse(name)?,
        None if has_zone => *session,
        None => return Some(ticks),
    };
    let offset = zone.offset_of_local(ticks.div_euclid(per_second))?;
    ticks.checked_sub(offset * per_second)
}

/// Times as text.
///
/// # Errors
/// A time is out of the range of texts.
pub(crate) fn texts(values: &ArrayRef, zone: &Zone) -> Result<ArrayRef> {
    if is_span(values.data_type()) {
        let spans = intervals(values)?;
        let texts: StringArray = spans.iter().map(|span| span.map(|span| interval_of(span).text())).collect();
        return Ok(Arc::new(texts));
    }
    if *values.data_type() == DataType::Date32 {
        return written(&integers(values)?, values.data_type(), |text, days| {
            text::push_date(text, days);
            Ok(())
        });
    }
    let (ticks, per_second) = ticks(values)?;
    let day = DAY_SECONDS * per_second;
    let tick = (SECOND_NS / per_second) as u64;
    let ns = |value: i64| value.rem_euclid(day) as u64 * tick;
    written(&ticks, values.data_type(), |text, value| {
        match values.data_type() {
            DataType::Timestamp(_, Some(_)) => {
                let offset = zone.offset_at(value.div_euclid(per_second)).ok_or_else(|| out_of_range("timestamp"))?;
                let local = value.checked_add(offset * per_second).ok_or_else(|| out_of_range("timestamp"))?;
                text::push_timestamp(text, local.div_euclid(day), ns(local), Some(offset));
            }
            DataType::Timestamp(_, None) => text::push_timestamp(text, value.div_euclid(day), ns(value), None),
            DataType::Time32(_) | DataType::Time64(_) => push_clock(text, value.max(0) as u64 * tick),
            other => return Err(internal(&format!("{other} is no time"))),
        }
        Ok(())
    })
}

/// The texts that `push` writes of values, and those of infinite ones of a type.
fn written(values: &Int64Array, of: &DataType, push: impl Fn(&mut String, i64) -> Result<()>) -> Result<ArrayRef> {
    let mut texts = StringViewBuilder::with_capacity(values.len());
    let mut text = String::new();
    for value in values {
        text.clear();
        match value.map(|value| (value, infinite(value, of))) {
            None => {
                texts.append_null();
                continue;
            }
            Some((_, Some(is_positive))) => text.push_str(infinity_text(is_positive)),
            Some((value, None)) => push(&mut text, value)?,
        }
        texts.append_value(&text);
    }
    Ok(Arc::new(texts.finish()))
}

pub(super) fn infinity_text(is_positive: bool) -> &'static str {
    if is_positive { "infinity" } else { "-infinity" }
}

/// Whether a text is a timestamp whose instant depends on the session's time zone or on a zone's name.
pub(crate) fn is_zoned_by_name(text: &str) -> bool {
    let written = text::parse(text).filter(|written| written.days.is_some());
    written
        .is_some_and(|written| !matches!(written.zone.as_deref().map(Zone::parse), Some(Some(Zone::Fixed(_)) | None)))
}

/// The text of a literal in a form that Arrow also reads, for the places where Arrow parses it. `None` if it is not of
/// that type, or depends on the session's time zone.
pub(crate) fn plain_literal(text: &str, to: &DataType) -> Option<String> {
    let written = text::parse(text)?;
    let zone = written.zone.as_deref().map(Zone::parse);
    // Arrow reads no seconds of an offset.
    let is_read = match zone {
        None => true,
        Some(Some(Zone::Fixed(seconds))) => seconds % 60 == 0,
        Some(_) => false,
    };
    if !is_read {
        return None;
    }
    let days = written.days?;
    let year = super::calendar::civil(days).year;
    let ns = match to {
        DataType::Timestamp(..) => written.ns.unwrap_or(0),
        _ => return None,
    };
    if !(0..=9_999).contains(&year) || ns == DAY_NS {
        return None;
    }
    let offset = match zone {
        Some(Some(zone)) => zone.name(),
        _ => String::new(),
    };
    if year == 0 {
        return None;
    }
    let mut plain = String::new();
    text::push_timestamp(&mut plain, days, ns as u64, None);
    plain.push_str(&offset);
    Some(plain)
}
