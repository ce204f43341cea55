//! Values of parameters, from the text and binary formats of PostgreSQL.

use std::borrow::Cow;

use arrow::datatypes::{DataType, Field, IntervalMonthDayNano, TimeUnit};
use datafusion::scalar::ScalarValue;
use freestone::{DateOrder, Inputs, Zone};

use super::array;
use super::encoding::Encoding;
use super::error::PgError;
use super::normal::{self, fixed};
use super::numeric::{self, DIGITS_MAX};
use super::types::{self, ColumnType, Type};
use super::values::{EPOCH_DAYS, EPOCH_MICROS, JSONB_VERSION};
use crate::sqlstate;

type Result<T, E = PgError> = std::result::Result<T, E>;

/// The values as inputs of a statement. Strings are declared as such, because the engine treats strings without a
/// declared type like literals.
pub fn inputs(values: Vec<ScalarValue>) -> Inputs {
    let declared = |value: &ScalarValue| (value.data_type() == DataType::Utf8View).then_some(DataType::Utf8View);
    let types = values.iter().map(declared).collect();
    Inputs { values, types, ..Inputs::default() }
}

/// The bytes of parameter `number` with its text in UTF-8.
///
/// # Errors
///
/// They are not in the encoding.
pub fn decoded<'a>(
    number: usize,
    bytes: &'a [u8],
    format: i16,
    planned: &DataType,
    encoding: Encoding,
) -> Result<Cow<'a, [u8]>> {
    if encoding.is_plain() || format != 0 && ColumnType::of(planned).element != types::VARCHAR {
        return Ok(Cow::Borrowed(bytes));
    }
    match encoding.decode(bytes) {
        Some(Cow::Borrowed(text)) => Ok(Cow::Borrowed(text.as_bytes())),
        Some(Cow::Owned(text)) => Ok(Cow::Owned(text.into_bytes())),
        None => {
            let message = format!("parameter ${number} is not in encoding {}", encoding.name());
            Err(PgError::new(sqlstate::CHARACTER_NOT_IN_REPERTOIRE, message))
        }
    }
}

/// The value of parameter `number`, counted from 1. `declared` is the OID of the type that the client declared (0:
/// none), and `planned` is the type in the plan.
///
/// # Errors
///
/// The value is malformed, or not of this type.
pub fn parameter(
    number: usize,
    bytes: Option<&[u8]>,
    format: i16,
    declared: u32,
    planned: &DataType,
    zone: &Zone,
    order: Option<DateOrder>,
) -> Result<ScalarValue> {
    let planned_type = ColumnType::of(planned).element;
    let known = Type::by_oid(declared).filter(|known| *known != types::UNKNOWN);
    let kind = known.unwrap_or(planned_type);
    let is_array = Type::by_array(declared).is_some() || known.is_none() && ColumnType::of(planned).is_array;
    let Some(bytes) = bytes else {
        let null = ScalarValue::try_new_null(planned);
        return null.map_err(|error| PgError::unsupported(format!("parameter ${number}: {error}")));
    };
    let is_packed = format != 0 && (is_normal(kind) || kind == types::UUID);
    if bytes.contains(&0) && !is_packed && (format == 0 || planned == &DataType::Utf8View) {
        let message = format!("parameter ${number}: a text has no character 0x00");
        return Err(PgError::new(sqlstate::CHARACTER_NOT_IN_REPERTOIRE, message));
    }
    let element = Type::by_array(declared).unwrap_or(planned_type);
    let value = match format {
        0 if is_array => array::text(bytes, element, zone, order),
        1 if is_array => array::binary(bytes, element),
        0 => text(bytes, kind, zone, order),
        1 => binary(bytes, kind),
        _ => {
            return Err(PgError::new(
                sqlstate::PROTOCOL_VIOLATION,
                format!("parameter ${number}: there is no format {format}"),
            ));
        }
    };
    // What the protocol has as microseconds and bytes, the engine plans in its own form.
    let value = value.and_then(|value| match planned {
        DataType::Time64(_) | DataType::BinaryView => value.cast_to(planned).map_err(|error| error.strip_backtrace()),
        _ => Ok(value),
    });
    let value = value.and_then(|value| match dimensions(&value.data_type()) > dimensions(planned).max(1) {
        true => Err("this array has more dimensions than its type here, which is written with [] for each".into()),
        false => Ok(value),
    });
    value.map_err(|reason| {
        let code = match format {
            0 if is_time(kind) && reason.contains("out of range") => sqlstate::DATETIME_FIELD_OVERFLOW,
            0 if is_time(kind) => sqlstate::INVALID_DATETIME_FORMAT,
            0 => sqlstate::INVALID_TEXT_REPRESENTATION,
            _ => sqlstate::INVALID_BINARY_REPRESENTATION,
        };
        PgError::new(code, format!("parameter ${number} is no value of type {}: {reason}", kind.sql))
    })
}

/// A field in the binary format of COPY, for a column of a type.
///
/// # Errors
///
/// The reason why it is not of this type.
pub fn field(bytes: Option<&[u8]>, column: &Field) -> Result<ScalarValue, String> {
    let to = column.data_type();
    let Some(bytes) = bytes else {
        return ScalarValue::try_new_null(to).map_err(|error| error.strip_backtrace());
    };
    let kind = ColumnType::of_field(column);
    // A column of JSONB is one of JSON here, and clients send the version that JSONB begins with.
    let bytes = match bytes {
        [JSONB_VERSION, json @ ..] if kind.element == types::JSON && !kind.is_array => json,
        bytes => bytes,
    };
    let value = if kind.is_array { array::binary(bytes, kind.element)? } else { binary(bytes, kind.element)? };
    value.cast_to(to).map_err(|error| error.strip_backtrace())
}

/// The number of lists in one another.
fn dimensions(data_type: &DataType) -> usize {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            1 + dimensions(item.data_type())
        }
        _ => 0,
    }
}

/// Whether values of a type are texts in a normal form.
fn is_normal(kind: Type) -> bool {
    [types::TIMETZ, types::INET, types::CIDR, types::BIT, types::VARBIT].contains(&kind)
}

fn is_time(kind: Type) -> bool {
    [types::DATE, types::TIME, types::TIMESTAMP, types::TIMESTAMPTZ, types::INTERVAL].contains(&kind)
}

/// The value of a text. `zone` is that of times without one, and `order` that of dates in texts.
pub(super) fn text(bytes: &[u8], kind: Type, zone: &Zone, order: Option<DateOrder>) -> Result<ScalarValue, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8")?;
    let trimmed = text.trim();
    match kind {
        types::BOOL => match trimmed.to_ascii_lowercase().as_str() {
            "t" | "true" | "1" | "on" | "y" | "yes" => Ok(ScalarValue::Boolean(Some(true))),
            "f" | "false" | "0" | "off" | "n" | "no" => Ok(ScalarValue::Boolean(Some(false))),
            _ => Err("write it as true or false".into()),
        },
        types::BYTEA => bytes_of_text(text.as_bytes()).map(|bytes| ScalarValue::Binary(Some(bytes))),
        types::NUMERIC => decimal(trimmed),
        kind if is_normal(kind) => normal::of_text(text, kind, zone, order),
        kind if is_time(kind) => {
            let to = types::parameter_type(kind.oid).ok_or("there is no such type")?;
            freestone::value_of_text(trimmed, &to, zone, order).map_err(|error| error.to_string())
        }
        types::FLOAT4 | types::FLOAT8 if trimmed.parse::<f64>().is_ok() => {
            let value = trimmed.parse::<f64>().ok();
            Ok(if kind == types::FLOAT4 {
                ScalarValue::Float32(trimmed.parse().ok())
            } else {
                ScalarValue::Float64(value)
            })
        }
        _ => match types::parameter_type(kind.oid) {
            Some(DataType::Utf8View) | None => Ok(ScalarValue::Utf8View(Some(text.to_owned()))),
            Some(_) => typed(trimmed, kind),
        },
    }
}

/// Parses text with the engine's parser of a type.
fn typed(text: &str, kind: Type) -> Result<ScalarValue, String> {
    let to = types::parameter_type(kind.oid).ok_or("there is no such type")?;
    ScalarValue::Utf8(Some(text.to_owned())).cast_to(&to).map_err(|error| error.strip_backtrace())
}

/// Parses `\x00ff`, or the older format with backslashes.
pub(super) fn bytes_of_text(text: &[u8]) -> Result<Vec<u8>, String> {
    if let Some(digits) = text.strip_prefix(b"\\x") {
        let digit = |byte: &u8| (*byte as char).to_digit(16).map(|digit| digit as u8);
        let digits: Option<Vec<u8>> = digits.iter().map(digit).collect();
        let digits = digits.filter(|digits| digits.len() % 2 == 0).ok_or("write it as \\x and pairs of hex digits")?;
        return Ok(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect());
    }
    let wrong = "a backslash must be followed by another backslash or by three octal digits";
    freestone::unescaped_bytes(text).ok_or_else(|| wrong.into())
}

/// A decimal with the number of fraction digits of the text.
fn decimal(text: &str) -> Result<ScalarValue, String> {
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (digits, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    let exponent: i32 = exponent.parse().map_err(|_| "it is not a number")?;
    if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("it is not a number".into());
    }
    let too_long = || format!("it has more than {DIGITS_MAX} digits");
    let scale =
        i32::try_from(fraction.len()).ok().and_then(|count| count.checked_sub(exponent)).ok_or_else(too_long)?;
    let zeros = usize::try_from(-scale.min(0)).map_err(|_| too_long())?;
    let significant = all.trim_start_matches('0');
    if significant.len() + zeros > DIGITS_MAX || scale > DIGITS_MAX as i32 {
        return Err(too_long());
    }
    let padded = format!("{significant}{}", "0".repeat(zeros));
    let value: i128 = if padded.is_empty() { 0 } else { padded.parse().map_err(|_| too_long())? };
    let value = if negative { -value } else { value };
    // With the precision of a literal with these digits, so that results of computations have room.
    let scale = scale.max(0) as usize;
    let precision = padded.len().max(scale).max(1);
    Ok(ScalarValue::Decimal128(Some(value), precision as u8, scale as i8))
}

/// A UUID as its bytes, from its text with or without hyphens.
pub(super) fn uuid(text: &str) -> Result<ScalarValue, String> {
    let wrong = || format!("'{text}' is no UUID");
    let digits = text.trim().trim_start_matches('{').trim_end_matches('}').replace('-', "");
    let number = (digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .then(|| u128::from_str_radix(&digits, 16).ok())
        .flatten()
        .ok_or_else(wrong)?;
    Ok(ScalarValue::FixedSizeBinary(types::UUID_BYTES, Some(number.to_be_bytes().to_vec())))
}

pub(super) fn binary(bytes: &[u8], kind: Type) -> Result<ScalarValue, String> {
    match kind {
        types::BOOL => Ok(ScalarValue::Boolean(Some(u8::from_be_bytes(fixed(bytes)?) != 0))),
        types::INT2 => Ok(ScalarValue::Int16(Some(i16::from_be_bytes(fixed(bytes)?)))),
        types::INT4 => Ok(ScalarValue::Int32(Some(i32::from_be_bytes(fixed(bytes)?)))),
        types::INT8 => Ok(ScalarValue::Int64(Some(i64::from_be_bytes(fixed(bytes)?)))),
        types::OID | types::REGCLASS | types::REGTYPE | types::REGPROC => {
            Ok(ScalarValue::Int64(Some(u32::from_be_bytes(fixed(bytes)?).into())))
        }
        types::FLOAT4 => Ok(ScalarValue::Float32(Some(f32::from_be_bytes(fixed(bytes)?)))),
        types::FLOAT8 => Ok(ScalarValue::Float64(Some(f64::from_be_bytes(fixed(bytes)?)))),
        types::NUMERIC => decimal(&numeric::read_binary(bytes)?),
        types::DATE => {
            // The ends of the range are infinite, there and here.
            let days = match i32::from_be_bytes(fixed(bytes)?) {
                i32::MAX => i32::MAX,
                i32::MIN => -i32::MAX,
                days => days.checked_add(EPOCH_DAYS).ok_or("the date is out of range")?,
            };
            Ok(ScalarValue::Date32(Some(days)))
        }
        types::TIME => Ok(ScalarValue::Time64Microsecond(Some(i64::from_be_bytes(fixed(bytes)?)))),
        types::TIMESTAMP | types::TIMESTAMPTZ => {
            let micros = match i64::from_be_bytes(fixed(bytes)?) {
                i64::MAX => i64::MAX,
                i64::MIN => -i64::MAX,
                micros => micros.checked_add(EPOCH_MICROS).ok_or("the timestamp is out of range")?,
            };
            let zone = (kind == types::TIMESTAMPTZ).then(|| "+00:00".into());
            let value = ScalarValue::TimestampMicrosecond(Some(micros), zone);
            debug_assert!(matches!(value.data_type(), DataType::Timestamp(TimeUnit::Microsecond, _)));
            Ok(value)
        }
        types::INTERVAL => {
            let bytes: [u8; 16] = fixed(bytes)?;
            let (micros, rest) = bytes.split_at(8);
            let (days, months) = rest.split_at(4);
            let nanoseconds = i64::from_be_bytes(fixed(micros)?).checked_mul(1000).ok_or("it is too long")?;
            let (days, months) = (i32::from_be_bytes(fixed(days)?), i32::from_be_bytes(fixed(months)?));
            Ok(ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano { months, days, nanoseconds })))
        }
        types::BYTEA => Ok(ScalarValue::Binary(Some(bytes.to_vec()))),
        kind if is_normal(kind) => normal::of_binary(bytes, kind),
        // The binary form is the text after one byte with a version.
        types::JSONB => match bytes {
            [JSONB_VERSION, json @ ..] => binary(json, types::TEXT),
            _ => Err("it has another version than 1".into()),
        },
        types::UUID => {
            let bytes: [u8; 16] = fixed(bytes)?;
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
            Ok(ScalarValue::Utf8View(Some(parts.join("-"))))
        }
        _ => {
            let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8")?;
            Ok(ScalarValue::Utf8View(Some(text.to_owned())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_values() {
        let check = |text: &str, kind: Type, expected: ScalarValue| {
            let value = parameter(1, Some(text.as_bytes()), 0, kind.oid, &DataType::Null, &Zone::Fixed(7200), None);
            assert_eq!(value.expect(text), expected, "{text}");
        };
        check("t", types::BOOL, ScalarValue::Boolean(Some(true)));
        check(" 7 ", types::INT4, ScalarValue::Int32(Some(7)));
        check("Infinity", types::FLOAT8, ScalarValue::Float64(Some(f64::INFINITY)));
        check("-12.30", types::NUMERIC, ScalarValue::Decimal128(Some(-1230), 4, 2));
        check("1.5e3", types::NUMERIC, ScalarValue::Decimal128(Some(1500), 4, 0));
        check("25e-2", types::NUMERIC, ScalarValue::Decimal128(Some(25), 2, 2));
        check("\\x00ff", types::BYTEA, ScalarValue::Binary(Some(vec![0, 255])));
        check("a\\\\\\001", types::BYTEA, ScalarValue::Binary(Some(vec![b'a', b'\\', 1])));
        check("2024-02-29", types::DATE, ScalarValue::Date32(Some(19_782)));
        check("2024-02-29 +01", types::DATE, ScalarValue::Date32(Some(19_782)));
        check("0044-03-15 BC", types::DATE, ScalarValue::Date32(Some(-735_160)));
        check("-infinity", types::DATE, ScalarValue::Date32(Some(-i32::MAX)));
        // In the zone of the session, two hours east.
        let micros = |micros| ScalarValue::TimestampMicrosecond(Some(micros), Some("+00:00".into()));
        check("1970-1-1 3:00", types::TIMESTAMPTZ, micros(3_600_000_000));
        check("1970-01-01 03:00:00-01", types::TIMESTAMPTZ, micros(4 * 3_600_000_000));
        // A zone behind a type without one says nothing.
        let local = |micros| ScalarValue::TimestampMicrosecond(Some(micros), None);
        check("1970-01-01T03:00:00.000-01:00", types::TIMESTAMP, local(3 * 3_600_000_000));
        check("1970-01-01 03:00:00 Europe/Rome", types::TIMESTAMP, local(3 * 3_600_000_000));
        check("00:00:01-05", types::TIME, ScalarValue::Time64Nanosecond(Some(1_000_000_000)));
        check("00:00:01+00", types::TIME, ScalarValue::Time64Nanosecond(Some(1_000_000_000)));
    }

    #[test]
    fn arrays_have_the_dimensions_of_their_type() {
        let list = |item: DataType| DataType::new_list(item, true);
        let of = |planned: &DataType| parameter(1, Some(b"{{1},{2}}"), 0, 0, planned, &Zone::Fixed(0), None);
        assert!(of(&list(DataType::Int32)).is_err());
        assert_eq!(of(&list(list(DataType::Int32))).expect("an array").data_type(), list(list(DataType::Int32)));
    }

    #[test]
    fn what_is_no_value_is_an_error() {
        for (bytes, format, kind) in [
            (&b"x"[..], 0, types::INT4),
            (b"99999999999", 0, types::INT4),
            (b"maybe", 0, types::BOOL),
            (b"2023-02-29", 0, types::DATE),
            (b"2024-02-29 25:00", 0, types::TIMESTAMP),
            (b"1e999999999", 0, types::NUMERIC),
            (b"1e-2147483648", 0, types::NUMERIC),
            (b"\xff", 0, types::TEXT),
            (b"\\x0", 0, types::BYTEA),
            (b"abc", 1, types::INT4),
            (b"\x7f\xff\xff\xfe", 1, types::DATE),
            (b"", 1, types::NUMERIC),
            (b"1", 2, types::INT4),
        ] {
            let value = parameter(1, Some(bytes), format, kind.oid, &DataType::Null, &Zone::Fixed(0), None);
            assert!(value.is_err(), "{bytes:?}");
        }
    }
}
