//! Casts that round or can fail.
//!
//! Floats are rounded half to even when they become integers, as in PostgreSQL and DuckDB. Decimals are rounded half
//! away from zero. A value outside of the range of the type is an error, or NULL for TRY_CAST.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Decimal128Array, Decimal256Array, Float64Array,
    PrimitiveArray, make_array,
};
use datafusion::arrow::compute::kernels::zip::zip;
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Date64Type, Decimal128Type, Field, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::error::Result;
use freestone_store::schema::normalize;

use super::decimal_texts;
use super::decimals::{doubles, rounded};
use super::function::overflow;
use crate::display::texts_of;
use crate::error::{Error, ErrorKind};
use crate::ingest::values::{rounded_decimal, rounded_wide_decimal};
use crate::ingest::{UUID, read_texts};
use crate::times::{Zone, texts_in_zone};
use crate::type_names::type_name;

const DAY_MS: i64 = 86_400_000;

/// Whether a cast is computed by this module, because it rounds or can fail.
pub(super) fn is_ours(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Date64, Decimal128, Decimal256, Float16, Float32, Float64};
    match (from, to) {
        _ if from.is_integer() && to.is_integer() => !is_exact(from, to),
        (Float16 | Float32 | Float64, to) if to.is_integer() => true,
        (Decimal128(..), to) if to.is_integer() => true,
        (Decimal128(..), Decimal128(..)) => !is_exact(from, to),
        // Decimals of at most 15 digits are exact as DOUBLE, so their quotients are rounded only once.
        (Decimal128(precision, _), Float64) => *precision > 15,
        (Decimal128(precision, _), Float32) => *precision > 7,
        (Float64, Float32 | Float16) | (Date64, Date32) => true,
        (Decimal128(..), DataType::Boolean) | (DataType::Boolean, Decimal128(..)) => true,
        (text, to) if text.is_string() && is_read(to) => true,
        (uuid, text) if *uuid == UUID => text.is_string(),
        (Decimal128(_, 0..), text) if text.is_string() => true,
        (text, Float64 | Float32 | Decimal128(..) | Decimal256(_, 0..)) if text.is_string() => true,
        (text, to) if text.is_string() && to.is_integer() => true,
        (nested, text) if text.is_string() => nested.is_nested() && !matches!(nested, DataType::Dictionary(..)),
        _ => false,
    }
}

/// Whether values of the type are read from texts by the parser of files.
fn is_read(to: &DataType) -> bool {
    let is_nested = to.is_nested() && !matches!(to, DataType::Dictionary(..) | DataType::RunEndEncoded(..));
    *to == UUID || is_nested
}

/// Whether every integer or decimal of a type can be represented by another type.
pub(super) fn is_exact(from: &DataType, to: &DataType) -> bool {
    let Some(((least, greatest), scale)) = range(from).zip(super::decimals::scale(from)) else { return false };
    let Some(((to_least, to_greatest), to_scale)) = range(to).zip(super::decimals::scale(to)) else { return false };
    let Some(by) = 10i128.checked_pow(u32::try_from(to_scale - scale).unwrap_or(u32::MAX)) else { return false };
    // In units of the target's last digit. If this overflows, the value is too large for the target.
    let scaled = |value: i128| value.checked_mul(by);
    scaled(least).is_some_and(|value| value >= to_least) && scaled(greatest).is_some_and(|value| value <= to_greatest)
}

/// The minimum and maximum of a type, in units of its last digit.
pub(super) fn range(data_type: &DataType) -> Option<(i128, i128)> {
    use DataType::*;
    Some(match data_type {
        Int8 => (i8::MIN.into(), i8::MAX.into()),
        Int16 => (i16::MIN.into(), i16::MAX.into()),
        Int32 => (i32::MIN.into(), i32::MAX.into()),
        Int64 => (i64::MIN.into(), i64::MAX.into()),
        UInt8 => (0, u8::MAX.into()),
        UInt16 => (0, u16::MAX.into()),
        UInt32 => (0, u32::MAX.into()),
        UInt64 => (0, u64::MAX.into()),
        Decimal128(precision, _) => {
            let end = 10i128.checked_pow((*precision).into())?;
            (1 - end, end - 1)
        }
        _ => return None,
    })
}

/// Converts values to another type.
///
/// # Errors
/// A value outside of the range of the type, unless `or_null` is set.
pub(crate) fn cast(array: &ArrayRef, to: &DataType, or_null: bool) -> Result<ArrayRef> {
    if array.data_type().is_string() && is_read(to) {
        return read(array, to, or_null);
    }
    let converted = converted(array, to)?;
    if !or_null && converted.null_count() > array.null_count() {
        let lost = (0..array.len()).find(|row| converted.is_null(*row) && array.is_valid(*row)).unwrap_or(0);
        if array.data_type().is_string() && !is_out_of_range(array, lost, to)? {
            let (text, to) = (array_value_to_string(array, lost)?, type_name(to));
            let message = format!("Cannot cast string '{text}' to value of {to} type");
            return Err(Error::new(ErrorKind::Type, message).into());
        }
        return Err(overflow(array_value_to_string(array, lost)?, to));
    }
    Ok(converted)
}

/// Whether a text that is no value of a type is one of its larger relatives.
fn is_out_of_range(texts: &ArrayRef, row: usize, to: &DataType) -> Result<bool> {
    match to {
        DataType::Decimal128(..) | DataType::Decimal256(..) => {
            Ok(plain(&texts.slice(row, 1), &DataType::Float64)?.as_primitive::<Float64Type>().is_valid(0))
        }
        _ => Ok(plain(texts, to)?.is_valid(row)),
    }
}

/// The values that texts spell.
fn read(array: &ArrayRef, to: &DataType, or_null: bool) -> Result<ArrayRef> {
    let stored = normalize(to).map_err(|reason| Error::new(ErrorKind::Unsupported, reason))?;
    let values = read_texts(array, &stored, or_null).map_err(|reason| Error::invalid(reason.to_string()))?;
    match values {
        Ok(values) => plain(&values, to),
        Err(row) => {
            let (text, to) = (array_value_to_string(array, row)?, type_name(to));
            Err(Error::new(ErrorKind::Type, format!("Cannot cast string '{text}' to value of {to} type")).into())
        }
    }
}

/// Values with the texts that casts write in place of timestamps, which results write otherwise.
fn with_time_texts(array: &ArrayRef) -> Result<ArrayRef> {
    use DataType::{FixedSizeList, List, Map, Struct, Timestamp};
    if let Timestamp(..) = array.data_type() {
        return texts_in_zone(array, &Zone::Fixed(0));
    }
    let is_nested = matches!(array.data_type(), List(_) | FixedSizeList(..) | Map(..) | Struct(_));
    if !is_nested {
        return Ok(array.clone());
    }
    let data = array.to_data();
    let parts = data.child_data().iter().map(|part| with_time_texts(&make_array(part.clone())));
    let parts = parts.collect::<Result<Vec<_>>>()?;
    let kinds = parts.iter().map(|part| part.data_type().clone());
    let renewed = |field: &Arc<Field>, kind: DataType| Arc::new(field.as_ref().clone().with_data_type(kind));
    let kind = match (array.data_type(), kinds.collect::<Vec<_>>().as_slice()) {
        (List(item), [kind]) => List(renewed(item, kind.clone())),
        (FixedSizeList(item, length), [kind]) => FixedSizeList(renewed(item, kind.clone()), *length),
        (Map(entry, sorted), [kind]) => Map(renewed(entry, kind.clone()), *sorted),
        (Struct(fields), kinds) => Struct(fields.iter().zip(kinds).map(|(f, kind)| renewed(f, kind.clone())).collect()),
        _ => return Ok(array.clone()),
    };
    let parts = parts.iter().map(|part| part.to_data()).collect();
    Ok(make_array(data.into_builder().data_type(kind).child_data(parts).build()?))
}

/// Converts values to another type. Those outside of its range become NULL.
fn converted(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    use DataType::{Date32, Date64, Decimal128, Decimal256, Float16, Float32, Float64};
    Ok(match (array.data_type(), to) {
        (nested, text) if (nested.is_nested() || *nested == UUID) && text.is_string() => {
            plain(&(Arc::new(texts_of(&with_time_texts(array)?)?) as ArrayRef), to)?
        }
        (Float64, to) if to.is_integer() => integers(array.as_primitive::<Float64Type>(), to, integral)?,
        (Float32, to) if to.is_integer() => {
            integers(array.as_primitive::<Float32Type>(), to, |value| integral(value.into()))?
        }
        (Float16, to) if to.is_integer() => converted(&plain(array, &Float64)?, to)?,
        (Decimal128(_, scale), to) if to.is_integer() => {
            let by = 10i128.checked_pow(u32::try_from(*scale).unwrap_or(0)).unwrap_or(1);
            integers(array.as_primitive::<Decimal128Type>(), to, |value| Some(rounded(value, by)))?
        }
        (Decimal128(..), Float64) => doubles(array)?,
        (Decimal128(_, scale @ 0..), text) if text.is_string() => {
            plain(&decimal_texts::texts(array, *scale as usize), to)?
        }
        (Decimal128(..), Float32) => converted(&doubles(array)?, to)?,
        (text, Float64) if text.is_string() => {
            let texts = plain(array, &DataType::Utf8View)?;
            let floats = plain(array, to)?;
            let read = texts.as_string_view().iter().zip(floats.as_primitive::<Float64Type>());
            Arc::new(read.map(|(text, float)| finite(text?, float?)).collect::<Float64Array>())
        }
        (text, to) if text.is_string() && to.is_integer() => {
            let plain = plain(array, to)?;
            match plain.null_count() == array.null_count() {
                true => plain,
                false => integers_of_texts(array, &plain, to)?,
            }
        }
        (text, Decimal128(precision, scale)) if text.is_string() => decimals_of_texts(array, *precision, *scale)?,
        (text, Decimal256(precision, scale @ 0..)) if text.is_string() => {
            wide_decimals_of_texts(array, *precision, *scale)?
        }
        (text, Float32) if text.is_string() => converted(&converted(array, &Float64)?, to)?,
        (Float64, Float32) => {
            let narrow = |value: f64| Some(value as f32).filter(|narrow| narrow.is_finite() || !value.is_finite());
            Arc::new(array.as_primitive::<Float64Type>().unary_opt::<_, Float32Type>(narrow))
        }
        (Decimal128(..), DataType::Boolean) => {
            let values = array.as_primitive::<Decimal128Type>();
            Arc::new(BooleanArray::from_unary(values, |value| value != 0))
        }
        (DataType::Boolean, Decimal128(..)) => converted(&plain(array, &DataType::Int8)?, to)?,
        (Date64, Date32) => {
            let day = |value: i64| i32::try_from(value.div_euclid(DAY_MS)).ok();
            Arc::new(array.as_primitive::<Date64Type>().unary_opt::<_, Date32Type>(day))
        }
        _ => plain(array, to)?,
    })
}

/// Decimals of texts, which may have an exponent. Digits beyond the scale are rounded.
fn decimals_of_texts(array: &ArrayRef, precision: u8, scale: i8) -> Result<ArrayRef> {
    let limit = 10i128.checked_pow(precision.into()).unwrap_or(i128::MAX);
    let digits = u32::try_from(scale).unwrap_or(0);
    let texts = self::plain(array, &DataType::Utf8View)?;
    let read = texts.as_string_view().iter().map(|text| rounded_decimal(&without_marks(text?), digits, limit).ok());
    Ok(Arc::new(Decimal128Array::from_iter(read).with_precision_and_scale(precision, scale)?))
}

/// The same for decimals of more than 38 digits.
fn wide_decimals_of_texts(array: &ArrayRef, precision: u8, scale: i8) -> Result<ArrayRef> {
    let (digits, fraction) = (usize::from(precision), usize::try_from(scale).unwrap_or(0));
    let texts = self::plain(array, &DataType::Utf8View)?;
    let read = |text: Option<&str>| rounded_wide_decimal(&without_marks(text?), digits, fraction).ok();
    let read = texts.as_string_view().iter().map(read);
    Ok(Arc::new(Decimal256Array::from_iter(read).with_precision_and_scale(precision, scale)?))
}

/// The bytes of a number without the marks between its digits, as in `1_000`.
fn without_marks(text: &str) -> Cow<'_, [u8]> {
    let bytes = text.as_bytes();
    if !bytes.contains(&b'_') {
        return Cow::Borrowed(bytes);
    }
    let is_digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let is_mark = |at: usize| bytes[at] == b'_' && is_digit(at.checked_sub(1)) && is_digit(Some(at + 1));
    if !(0..bytes.len()).any(is_mark) {
        return Cow::Borrowed(bytes);
    }
    Cow::Owned((0..bytes.len()).filter(|at| !is_mark(*at)).map(|at| bytes[at]).collect())
}

/// Integers of texts that are not only digits: in another base, as `0x1F` and `0b101`, with an exponent, as `1e3`, or
/// with a fraction, which is rounded half away from zero.
fn integers_of_texts(array: &ArrayRef, plain: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let texts = self::plain(array, &DataType::Utf8View)?;
    let missing = texts.as_string_view().iter().enumerate().map(|(row, text)| match text {
        Some(text) if plain.is_null(row) => {
            in_base(text.trim()).or_else(|| rounded_decimal(&without_marks(text), 0, 10i128.pow(38)).ok())
        }
        _ => None,
    });
    let others = Decimal128Array::from_iter(missing).with_precision_and_scale(38, 0)?;
    let others = converted(&(Arc::new(others) as ArrayRef), to)?;
    let is_plain = BooleanArray::from_iter((0..plain.len()).map(|row| Some(plain.is_valid(row))));
    Ok(zip(&is_plain, plain, &others)?)
}

/// The integer of a text with the prefix of a base.
fn in_base(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let base = |digits: &str, prefix: [&str; 2], base: u32| {
        let digits = prefix.iter().find_map(|prefix| digits.strip_prefix(prefix))?;
        let is_digits = digits.starts_with(|c: char| c.is_digit(base)) && digits.ends_with(|c: char| c.is_digit(base));
        if !is_digits || digits.contains("__") {
            return None;
        }
        i128::from_str_radix(&digits.replace('_', ""), base).ok()
    };
    let value = base(digits, ["0x", "0X"], 16).or_else(|| base(digits, ["0b", "0B"], 2))?;
    Some(if negative { -value } else { value })
}

/// A float that was parsed from a text. A finite number that is too large is not infinity, and NaN has no sign.
fn finite(text: &str, float: f64) -> Option<f64> {
    let says_infinity = || text.contains(['i', 'I']);
    match float {
        float if float.is_nan() => Some(f64::NAN),
        float if float.is_infinite() && !says_infinity() => None,
        float => Some(float),
    }
}

fn plain(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    Ok(cast_with_options(array, to, &CastOptions { safe: true, ..CastOptions::default() })?)
}

/// The value rounded half to even.
fn integral(value: f64) -> Option<i128> {
    let rounded = value.round_ties_even();
    // No integer type contains larger values.
    (rounded.abs() < 1e20).then_some(rounded as i128)
}

/// Values as integers of a type.
fn integers<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    to: &DataType,
    f: impl Fn(T::Native) -> Option<i128>,
) -> Result<ArrayRef> {
    macro_rules! of {
        ($kind:ty) => {
            Arc::new(array.unary_opt::<_, $kind>(|value| f(value).and_then(|value| value.try_into().ok())))
        };
    }
    Ok(match to {
        DataType::Int8 => of!(Int8Type),
        DataType::Int16 => of!(Int16Type),
        DataType::Int32 => of!(Int32Type),
        DataType::Int64 => of!(Int64Type),
        DataType::UInt8 => of!(UInt8Type),
        DataType::UInt16 => of!(UInt16Type),
        DataType::UInt32 => of!(UInt32Type),
        DataType::UInt64 => of!(UInt64Type),
        other => return datafusion::common::internal_err!("integers of type {other}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Date64Array, Decimal128Array, Float64Array, Int64Array};

    fn check(array: ArrayRef, to: &DataType, expected: &[Option<&str>]) {
        let converted = cast(&array, to, true).expect("a cast");
        let shown: Vec<Option<String>> = (0..converted.len())
            .map(|row| converted.is_valid(row).then(|| array_value_to_string(&converted, row).expect("a text")))
            .collect();
        assert_eq!(shown.iter().map(Option::as_deref).collect::<Vec<_>>(), expected, "{to}");
        let all = expected.iter().filter(|value| value.is_none()).count() == array.null_count();
        assert_eq!(cast(&array, to, false).is_ok(), all, "{to}");
    }

    #[test]
    fn floats_become_the_nearest_integer() {
        let floats = [2.5, 3.5, -2.5, -0.4, 127.4, 127.5, f64::NAN, f64::INFINITY, -128.5];
        let expected = [Some("2"), Some("4"), Some("-2"), Some("0"), Some("127"), None, None, None, Some("-128")];
        check(Arc::new(Float64Array::from(floats.to_vec())), &DataType::Int8, &expected);
        let ends = vec![9.223372036854775e18, 2f64.powi(63), -2f64.powi(63), 1e300];
        let expected = [Some("9223372036854774784"), None, Some("-9223372036854775808"), None];
        check(Arc::new(Float64Array::from(ends)), &DataType::Int64, &expected);
        check(Arc::new(Float64Array::from(vec![1e300, -1e300, 1.5])), &DataType::Float32, &[None, None, Some("1.5")]);
    }

    #[test]
    fn decimals_are_rounded_away_from_zero() {
        let decimals = |values: &[i128], precision, scale| -> ArrayRef {
            let array = Decimal128Array::from_iter_values(values.iter().copied());
            Arc::new(array.with_precision_and_scale(precision, scale).expect("a type"))
        };
        let expected = [Some("3"), Some("-3"), Some("2"), Some("-128"), None];
        check(decimals(&[25, -25, 24, -1275, -1285], 10, 1), &DataType::Int8, &expected);
        let expected = [Some("1.24"), Some("-1.24"), None];
        check(decimals(&[1235, -1235, 99_995], 10, 3), &DataType::Decimal128(4, 2), &expected);
    }

    #[test]
    fn days_before_1970_are_rounded_down() {
        check(
            Arc::new(Date64Array::from(vec![-1, 0, DAY_MS])),
            &DataType::Date32,
            &[Some("1969-12-31"), Some("1970-01-01"), Some("1970-01-02")],
        );
        check(Arc::new(Int64Array::from(vec![300, -1])), &DataType::UInt8, &[None, None]);
    }

    #[test]
    fn exact_casts_are_those_of_all_values() {
        use DataType::*;
        for (from, to, expected) in [
            (Int32, Int64, true),
            (Int64, Int32, false),
            (UInt32, Int64, true),
            (UInt64, Int64, false),
            (Int64, UInt64, false),
            (Int64, Decimal128(20, 0), true),
            (Int64, Decimal128(18, 0), false),
            (Decimal128(10, 2), Decimal128(12, 4), true),
            (Decimal128(10, 2), Decimal128(11, 4), false),
            (Decimal128(10, 2), Decimal128(10, 1), false),
            (Decimal128(38, 0), Decimal128(38, 37), false),
            (Float64, Int64, false),
        ] {
            assert_eq!(is_exact(&from, &to), expected, "{from} {to}");
        }
    }
}
