//! The engine's values in PostgreSQL's text and binary forms, written row by row from columns.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BinaryViewBuilder, BooleanArray, Decimal128Array, FixedSizeBinaryArray,
    Float32Array, Float64Array, IntervalMonthDayNanoArray, PrimitiveArray, StringViewArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, Date32Type, Int16Type, Int32Type, Int64Type, IntervalUnit, Time64MicrosecondType, TimeUnit,
    TimestampMicrosecondType,
};
use arrow::error::ArrowError;

use datafusion::scalar::ScalarValue;
use freestone::Zone;

use super::calendar::{self, Styles, infinity};
use super::encoding::Encoding;
use super::error::PgError;
use super::types::{self, ColumnType, Type};
use super::{normal, numeric};
use crate::sqlstate;

/// Microseconds and days from 1970-01-01 to 2000-01-01, from where PostgreSQL counts.
pub const EPOCH_MICROS: i64 = 946_684_800_000_000;
pub const EPOCH_DAYS: i32 = 10_957;
/// The first byte of JSONB in binary form.
pub const JSONB_VERSION: u8 = 1;

/// A column of a batch, ready to be written.
pub struct Column {
    values: Values,
    array: ArrayRef,
    form: Form,
}

/// The reason why a column cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum ColumnError {
    #[error("a value cannot be sent: {0}")]
    Arrow(#[from] ArrowError),
    #[error("lists of several lengths in one list are no array of the binary format")]
    Uneven,
    #[error("integer out of range: {0}")]
    OutOfRange(i64),
    #[error("the character {character:?} has no equivalent in encoding {encoding}")]
    NoEquivalent { character: char, encoding: &'static str },
}

/// How values are written.
#[derive(Debug, Clone, Copy, Default)]
pub struct Form {
    pub binary: bool,
    pub styles: Styles,
}

enum Values {
    Bool(BooleanArray),
    Int2(PrimitiveArray<Int16Type>),
    Int4(PrimitiveArray<Int32Type>),
    Int8(PrimitiveArray<Int64Type>),
    Float4(Float32Array),
    Float8(Float64Array),
    Numeric(Decimal128Array, i8),
    /// Those of NUMERIC without precision, which has all digits that a value needs. The engine keeps ten behind the point.
    Shortest(Decimal128Array, i8),
    /// Numerics of more than 38 digits, as text.
    Digits(StringViewArray),
    Date(PrimitiveArray<Date32Type>),
    Time(PrimitiveArray<Time64MicrosecondType>),
    Timestamp(PrimitiveArray<TimestampMicrosecondType>, Option<Zone>),
    Interval(IntervalMonthDayNanoArray),
    Text(StringViewArray),
    /// The binary form begins with a version.
    Jsonb(StringViewArray),
    /// Texts of a length: longer ones are cut, as a cast cuts them, and shorter ones filled with blanks where their type
    /// has one length.
    Fitted {
        texts: StringViewArray,
        length: usize,
        fills: bool,
    },
    /// Texts in a normal form, whose binary form is not the text.
    Normal(StringViewArray, Type),
    /// Texts in the client's encoding, and whether they are JSONB.
    Encoded(BinaryViewArray, bool),
    /// Numbers of objects, which have four bytes.
    Oid(PrimitiveArray<Int64Type>),
    /// Lists of numbers of the catalog, which count from 0 and are written with blanks.
    Vector {
        offsets: OffsetBuffer<i64>,
        numbers: PrimitiveArray<Int64Type>,
        of: Type,
    },
    Bytes(BinaryViewArray),
    /// UUIDs, and their texts.
    Uuid(FixedSizeBinaryArray, StringViewArray),
    List {
        offsets: OffsetBuffer<i64>,
        elements: Box<Column>,
        oid: u32,
    },
    Null,
}

impl Column {
    /// Prepares a column. Types without a PostgreSQL form are written as the engine's text.
    pub fn new(array: &ArrayRef, of: ColumnType, form: Form) -> Result<Column, ColumnError> {
        let values = match (Values::of(array, of, form)?, of.element) {
            (Values::Text(texts), types::JSONB) => Values::Jsonb(texts),
            (Values::Text(texts), types::TIMETZ | types::INET | types::CIDR | types::BIT | types::VARBIT) => {
                Values::Normal(texts, of.element)
            }
            (Values::Text(texts), types::BPCHAR | types::VARCHAR) if of.modifier > 4 && !of.is_array => {
                let length = of.modifier.unsigned_abs() as usize - 4;
                Values::Fitted { texts, length, fills: of.element == types::BPCHAR }
            }
            (Values::Numeric(values, scale), types::NUMERIC) if of.modifier < 0 && is_unlimited(array.data_type()) => {
                Values::Shortest(values, scale)
            }
            (Values::Int8(numbers), types::OID | types::REGCLASS | types::REGTYPE | types::REGPROC) => {
                Values::Oid(numbers)
            }
            (Values::Int8(numbers), types::INT4) => Values::Int4(shortened(&numbers)?),
            (Values::List { offsets, elements, .. }, types::INT2VECTOR | types::OIDVECTOR) if !of.is_array => {
                match &elements.values {
                    Values::Int8(numbers) => Values::Vector { offsets, numbers: numbers.clone(), of: of.element },
                    _ => Values::List { offsets, elements, oid: of.element.oid },
                }
            }
            (values, _) => values,
        };
        let values = values.encoded(form.styles.encoding)?;
        Ok(Column { values, array: array.clone(), form })
    }

    /// Writes the length of a row's value and the value, as in DataRow messages and binary COPY.
    pub fn write_sized(&self, row: usize, out: &mut Vec<u8>) {
        if self.is_null(row) {
            out.extend((-1i32).to_be_bytes());
            return;
        }
        let start = out.len();
        out.extend([0; 4]);
        self.write(row, out);
        let length = i32::try_from(out.len() - start - 4).unwrap_or(i32::MAX);
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    pub fn is_null(&self, row: usize) -> bool {
        matches!(self.values, Values::Null) || self.array.is_null(row)
    }

    /// Writes a value that is not NULL.
    pub fn write(&self, row: usize, out: &mut Vec<u8>) {
        if self.form.binary { self.write_binary(row, out) } else { self.write_text(row, out) }
    }

    fn write_text(&self, row: usize, out: &mut Vec<u8>) {
        match &self.values {
            Values::Bool(values) => out.push(if values.value(row) { b't' } else { b'f' }),
            Values::Int2(values) => show(out, values.value(row)),
            Values::Int4(values) => show(out, values.value(row)),
            Values::Int8(values) | Values::Oid(values) => show(out, values.value(row)),
            Values::Float4(values) => {
                let value = values.value(row);
                self.write_float(out, value.into(), 6, |text| freestone::push_float32(text, value));
            }
            Values::Float8(values) => {
                let value = values.value(row);
                self.write_float(out, value, 15, |text| freestone::push_float(text, value));
            }
            Values::Numeric(values, scale) => numeric::write_text(out, values.value(row), *scale),
            Values::Shortest(values, scale) => {
                let (value, scale) = numeric::shortest(values.value(row), *scale);
                numeric::write_text(out, value, scale);
            }
            Values::Digits(values) | Values::Text(values) | Values::Jsonb(values) | Values::Normal(values, _) => {
                out.extend(values.value(row).as_bytes());
            }
            Values::Fitted { texts, length, fills } => write_fitted(out, texts.value(row), *length, *fills),
            Values::Encoded(values, _) => out.extend(values.value(row)),
            Values::Date(values) => calendar::write_date(out, values.value(row).into(), self.form.styles.date),
            Values::Time(values) => calendar::write_time(out, values.value(row)),
            Values::Timestamp(values, zone) => {
                calendar::write_timestamp(out, values.value(row), *zone, self.form.styles.date);
            }
            Values::Interval(values) => {
                calendar::write_interval(out, values.value(row), self.form.styles.interval);
            }
            Values::Bytes(values) => {
                out.extend(b"\\x");
                values.value(row).iter().for_each(|byte| out.extend(hex(*byte)));
            }
            Values::Uuid(_, texts) => out.extend(texts.value(row).as_bytes()),
            Values::List { offsets, elements, .. } => elements.write_array_text(bounds(offsets, row), out),
            Values::Vector { offsets, numbers, .. } => {
                for (at, place) in bounds(offsets, row).enumerate() {
                    out.extend((at > 0).then_some(b' '));
                    show(out, numbers.value(place));
                }
            }
            Values::Null => {}
        }
    }

    /// Writes a float of a type in which `digits` digits are always exact. `shortest` writes the shortest text that is
    /// read as the same value.
    fn write_float(&self, out: &mut Vec<u8>, value: f64, digits: i32, shortest: impl FnOnce(&mut String)) {
        let extra = self.form.styles.extra_float_digits;
        if extra <= 0 && value.is_finite() {
            return rounded_text(out, value, (digits + extra).max(1));
        }
        let mut text = String::new();
        shortest(&mut text);
        out.extend(text.as_bytes());
    }

    fn write_binary(&self, row: usize, out: &mut Vec<u8>) {
        match &self.values {
            Values::Bool(values) => out.push(u8::from(values.value(row))),
            Values::Int2(values) => out.extend(values.value(row).to_be_bytes()),
            Values::Int4(values) => out.extend(values.value(row).to_be_bytes()),
            Values::Int8(values) => out.extend(values.value(row).to_be_bytes()),
            Values::Float4(values) => out.extend(values.value(row).to_be_bytes()),
            Values::Float8(values) => out.extend(values.value(row).to_be_bytes()),
            Values::Numeric(values, scale) => numeric::write_binary(out, values.value(row), *scale),
            Values::Shortest(values, scale) => {
                let (value, scale) = numeric::shortest(values.value(row), *scale);
                numeric::write_binary(out, value, scale);
            }
            Values::Digits(values) => numeric::write_binary_digits(out, values.value(row)),
            Values::Date(values) => {
                let days = values.value(row);
                let days = infinity(days.into(), i32::MAX.into())
                    .map_or(days.saturating_sub(EPOCH_DAYS), |later| if later { i32::MAX } else { i32::MIN });
                out.extend(days.to_be_bytes());
            }
            Values::Time(values) => out.extend(values.value(row).to_be_bytes()),
            Values::Timestamp(values, _) => {
                let micros = values.value(row);
                let micros = infinity(micros, i64::MAX)
                    .map_or(micros.saturating_sub(EPOCH_MICROS), |later| if later { i64::MAX } else { i64::MIN });
                out.extend(micros.to_be_bytes());
            }
            Values::Interval(values) => {
                let value = values.value(row);
                out.extend(value.nanoseconds.div_euclid(1000).to_be_bytes());
                out.extend(value.days.to_be_bytes());
                out.extend(value.months.to_be_bytes());
            }
            Values::Text(values) => out.extend(values.value(row).as_bytes()),
            Values::Fitted { texts, length, fills } => write_fitted(out, texts.value(row), *length, *fills),
            Values::Normal(values, of) => normal::write_binary(out, values.value(row), *of),
            Values::Jsonb(values) => {
                out.push(JSONB_VERSION);
                out.extend(values.value(row).as_bytes());
            }
            Values::Encoded(values, is_jsonb) => {
                out.extend(is_jsonb.then_some(JSONB_VERSION));
                out.extend(values.value(row));
            }
            // Numbers of objects are below 2³².
            Values::Oid(values) => out.extend((values.value(row) as u32).to_be_bytes()),
            Values::Bytes(values) => out.extend(values.value(row)),
            Values::Uuid(values, _) => out.extend(values.value(row)),
            Values::List { offsets, elements, oid } => elements.write_array_binary(bounds(offsets, row), *oid, out),
            Values::Vector { offsets, numbers, of } => write_vector(out, &numbers.values()[bounds(offsets, row)], *of),
            Values::Null => {}
        }
    }

    /// Writes a list in PostgreSQL's text form, such as `{a,"b c",NULL}`.
    fn write_array_text(&self, rows: std::ops::Range<usize>, out: &mut Vec<u8>) {
        out.push(b'{');
        for (at, row) in rows.enumerate() {
            if at > 0 {
                out.push(b',');
            }
            if self.is_null(row) {
                out.extend(b"NULL");
                continue;
            }
            let mut value = vec![];
            self.write_text(row, &mut value);
            let is_list = matches!(self.values, Values::List { .. });
            let special = |byte: &u8| b"{},\"\\ \t\n\r".contains(byte);
            if !is_list && (value.is_empty() || value.iter().any(special) || value.eq_ignore_ascii_case(b"null")) {
                out.push(b'"');
                value.iter().for_each(|byte| match byte {
                    b'"' | b'\\' => out.extend([b'\\', *byte]),
                    byte => out.push(*byte),
                });
                out.push(b'"');
            } else {
                out.extend(value);
            }
        }
        out.push(b'}');
    }

    /// Writes a list, or lists in lists, which are the dimensions of one array.
    fn write_array_binary(&self, rows: std::ops::Range<usize>, oid: u32, out: &mut Vec<u8>) {
        let (elements, rows, lengths) = self.dimensions(rows);
        let has_nulls = rows.clone().any(|row| elements.is_null(row));
        let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX).to_be_bytes();
        out.extend(number(if rows.is_empty() { 0 } else { lengths.len() }));
        out.extend(i32::from(has_nulls).to_be_bytes());
        out.extend(oid.to_be_bytes());
        if !rows.is_empty() {
            for length in lengths {
                out.extend(number(length));
                out.extend(1i32.to_be_bytes());
            }
        }
        rows.for_each(|row| elements.write_sized(row, out));
    }

    /// The values of the innermost lists, and the length of each dimension.
    fn dimensions(&self, mut rows: std::ops::Range<usize>) -> (&Column, std::ops::Range<usize>, Vec<usize>) {
        let (mut column, mut lengths) = (self, vec![rows.len()]);
        while let Values::List { offsets, elements, .. } = &column.values
            && !rows.is_empty()
        {
            let inner = offsets[rows.start] as usize..offsets[rows.end] as usize;
            lengths.push(inner.len() / rows.len());
            (column, rows) = (elements.as_ref(), inner);
        }
        (column, rows, lengths)
    }

    /// Whether the lists in some lists have one length, as those of an array.
    fn is_even(&self, rows: std::ops::Range<usize>) -> bool {
        let Values::List { offsets, elements, .. } = &self.values else { return true };
        let length = |row: usize| (!self.is_null(row)).then(|| bounds(offsets, row).len());
        let first = rows.clone().next().map(length);
        rows.clone().all(|row| length(row).is_some() && Some(length(row)) == first)
            && elements.is_even(offsets[rows.start] as usize..offsets[rows.end] as usize)
    }
}

/// A value of the type with an OID as PostgreSQL's text, in a time zone.
///
/// # Errors
///
/// It has none.
pub fn as_text(value: &ScalarValue, oid: u32, styles: Styles, zone: &Zone) -> Result<ScalarValue, PgError> {
    if value.is_null() {
        return Ok(ScalarValue::Utf8View(None));
    }
    let wrong = |reason: String| PgError::new(sqlstate::DATA_EXCEPTION, reason);
    let value = match value {
        ScalarValue::TimestampMicrosecond(micros, Some(_)) => {
            ScalarValue::TimestampMicrosecond(*micros, Some(zone.name().into()))
        }
        other => other.clone(),
    };
    let array = value.to_array().map_err(|error| wrong(error.strip_backtrace()))?;
    let of = ColumnType::of_oid(oid).unwrap_or(ColumnType::of(array.data_type()));
    let column =
        Column::new(&array, of, Form { binary: false, styles: Styles { encoding: Encoding::default(), ..styles } });
    let mut text = vec![];
    column.map_err(|error| wrong(error.to_string()))?.write(0, &mut text);
    let text = match of.element {
        // A cast gives whole words, where output has one letter.
        types::BOOL if !of.is_array => {
            if text == b"t" {
                b"true".to_vec()
            } else {
                b"false".to_vec()
            }
        }
        _ => text,
    };
    Ok(ScalarValue::Utf8View(Some(String::from_utf8_lossy(&text).into_owned())))
}

/// Whether a type is that of NUMERIC without precision.
fn is_unlimited(data_type: &DataType) -> bool {
    types::parameter_type(types::NUMERIC.oid).as_ref() == Some(data_type)
}

impl Values {
    /// The same with texts in an encoding.
    fn encoded(self, encoding: Encoding) -> Result<Values, ColumnError> {
        let (texts, is_jsonb) = match self {
            Values::Text(texts) if !encoding.is_plain() => (texts, false),
            Values::Jsonb(texts) if !encoding.is_plain() => (texts, true),
            // Without blanks, which are the same in every encoding and may be many.
            Values::Fitted { texts, length, .. } if !encoding.is_plain() => {
                (texts.iter().map(|text| text.map(|text| cut(text, length).0)).collect(), false)
            }
            other => return Ok(other),
        };
        let mut bytes = BinaryViewBuilder::with_capacity(texts.len());
        for text in &texts {
            let encoded = text.map(|text| encoding.encode(text)).transpose();
            bytes.append_option(
                encoded.map_err(|character| ColumnError::NoEquivalent { character, encoding: encoding.name() })?,
            );
        }
        Ok(Values::Encoded(bytes.finish(), is_jsonb))
    }

    fn of(array: &ArrayRef, of: ColumnType, form: Form) -> Result<Values, ColumnError> {
        use DataType::*;
        Ok(match array.data_type() {
            Boolean => Values::Bool(array.as_boolean().clone()),
            Int8 | Int16 | UInt8 => Values::Int2(cast(array, &Int16)?.as_primitive().clone()),
            Int32 | UInt16 => Values::Int4(cast(array, &Int32)?.as_primitive().clone()),
            Int64 | UInt32 => Values::Int8(cast(array, &Int64)?.as_primitive().clone()),
            UInt64 if of.element == types::INT8 => Values::Int8(cast(array, &Int64)?.as_primitive().clone()),
            UInt64 if of.element == types::INT4 => Values::Int4(cast(array, &Int32)?.as_primitive().clone()),
            UInt64 => Values::Numeric(cast(array, &Decimal128(20, 0))?.as_primitive().clone(), 0),
            Float16 | Float32 => Values::Float4(cast(array, &Float32)?.as_primitive().clone()),
            Float64 => Values::Float8(array.as_primitive().clone()),
            Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) => {
                Values::Numeric(cast(array, &Decimal128(38, *scale))?.as_primitive().clone(), *scale)
            }
            Decimal256(..) => Values::Digits(text(array)?),
            Date32 | Date64 => Values::Date(cast(array, &Date32)?.as_primitive().clone()),
            Time32(_) | Time64(_) => Values::Time(cast(array, &Time64(TimeUnit::Microsecond))?.as_primitive().clone()),
            Timestamp(_, zone) => {
                let zone = zone.as_deref().map(|name| Zone::parse(name).unwrap_or(Zone::Fixed(0)));
                Values::Timestamp(micros(array)?, zone)
            }
            Interval(_) | Duration(_) => {
                Values::Interval(cast(array, &Interval(IntervalUnit::MonthDayNano))?.as_primitive().clone())
            }
            FixedSizeBinary(16) => Values::Uuid(array.as_fixed_size_binary().clone(), text(array)?),
            Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => {
                Values::Bytes(cast(array, &BinaryView)?.as_binary_view().clone())
            }
            List(field) | LargeList(field) | FixedSizeList(field, _) => {
                let lists = cast(array, &LargeList(field.clone()))?;
                let lists = lists.as_list::<i64>();
                let elements = Box::new(Column::new(lists.values(), ColumnType { is_array: false, ..of }, form)?);
                let oid = of.element.oid;
                let is_even = |row: usize| lists.is_null(row) || elements.is_even(bounds(lists.offsets(), row));
                if form.binary && !(0..lists.len()).all(is_even) {
                    return Err(ColumnError::Uneven);
                }
                Values::List { offsets: lists.offsets().clone(), elements, oid }
            }
            Dictionary(_, values) => return Values::of(&cast(array, values)?, of, form),
            DataType::Null => Values::Null,
            _ => Values::Text(text(array)?),
        })
    }
}

fn cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == to {
        return Ok(array.clone());
    }
    cast_with_options(array, to, &CastOptions { safe: false, ..CastOptions::default() })
}

fn text(array: &ArrayRef) -> Result<StringViewArray, ArrowError> {
    if let Ok(cast) = cast(array, &DataType::Utf8View) {
        return Ok(cast.as_string_view().clone());
    }
    let shown = freestone::display::ValueTexts::new(array.as_ref())?;
    let value = |row| {
        let mut text = String::new();
        shown.append(row, &mut text);
        text
    };
    Ok((0..array.len()).map(|row| (!shown.is_null(row)).then(|| value(row))).collect())
}

/// The beginning of a text, and the number of characters that are missing at its length.
fn cut(text: &str, length: usize) -> (&str, usize) {
    match text.char_indices().nth(length) {
        Some((end, _)) => (&text[..end], 0),
        None => (text, length - text.chars().count()),
    }
}

fn write_fitted(out: &mut Vec<u8>, text: &str, length: usize, fills: bool) {
    let (text, missing) = cut(text, length);
    out.extend(text.as_bytes());
    out.extend(std::iter::repeat_n(b' ', if fills { missing } else { 0 }));
}

/// Microseconds, rounded down. The ends of each unit's range are infinite, and seconds that exceed the range of
/// microseconds in 64 bits become so.
fn micros(array: &ArrayRef) -> Result<PrimitiveArray<TimestampMicrosecondType>, ArrowError> {
    let DataType::Timestamp(unit, _) = array.data_type() else {
        return Err(ArrowError::CastError("a timestamp was expected".into()));
    };
    let counts = cast(array, &DataType::Int64)?;
    let counts: &PrimitiveArray<Int64Type> = counts.as_primitive();
    Ok(counts.unary(|count| match unit {
        _ if count == i64::MAX || count <= -i64::MAX => count,
        TimeUnit::Second => count.saturating_mul(1_000_000),
        TimeUnit::Millisecond => count.saturating_mul(1000),
        TimeUnit::Microsecond => count,
        TimeUnit::Nanosecond => count.div_euclid(1000),
    }))
}

/// Numbers of 32 bits.
fn shortened(numbers: &PrimitiveArray<Int64Type>) -> Result<PrimitiveArray<Int32Type>, ColumnError> {
    numbers.try_unary(|number| i32::try_from(number).map_err(|_| ColumnError::OutOfRange(number)))
}

/// The binary form of a vector: an array of one dimension, whose first element has the number 0.
fn write_vector(out: &mut Vec<u8>, numbers: &[i64], of: Type) {
    let element = if of == types::INT2VECTOR { types::INT2 } else { types::OID };
    let count = i32::try_from(numbers.len()).unwrap_or(i32::MAX);
    out.extend(1i32.to_be_bytes());
    out.extend(0i32.to_be_bytes());
    out.extend(element.oid.to_be_bytes());
    out.extend(count.to_be_bytes());
    out.extend(0i32.to_be_bytes());
    for number in numbers {
        out.extend(i32::from(element.width).to_be_bytes());
        match element {
            types::INT2 => out.extend((*number as i16).to_be_bytes()),
            _ => out.extend((*number as u32).to_be_bytes()),
        }
    }
}

fn bounds(offsets: &OffsetBuffer<i64>, row: usize) -> std::ops::Range<usize> {
    offsets[row] as usize..offsets[row + 1] as usize
}

fn show(out: &mut Vec<u8>, value: impl std::fmt::Display) {
    let _ = std::io::Write::write_fmt(out, format_args!("{value}"));
}

pub fn hex(byte: u8) -> [u8; 2] {
    let digit = |value: u8| if value < 10 { b'0' + value } else { b'a' + value - 10 };
    [digit(byte >> 4), digit(byte & 15)]
}

/// A number rounded to a number of digits, as `%g` writes it in C.
fn rounded_text(out: &mut Vec<u8>, value: f64, digits: i32) {
    let scientific = format!("{value:.*e}", digits as usize - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let without_zeros = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..digits).contains(&exponent) {
        let decimals = (digits - 1 - exponent) as usize;
        out.extend(without_zeros(&format!("{value:.decimals$}")).as_bytes());
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        show(out, format_args!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use arrow::array::*;

    fn check(array: impl Array + 'static, expected: &[&str]) {
        let of = ColumnType::of(array.data_type());
        let column = Column::new(&(Arc::new(array) as ArrayRef), of, Form::default()).expect("a column");
        for (row, expected) in expected.iter().enumerate() {
            let mut out = vec![];
            if column.is_null(row) {
                out.extend(b"<null>");
            } else {
                column.write(row, &mut out);
            }
            assert_eq!(String::from_utf8(out).expect("text"), *expected, "row {row}");
        }
    }

    #[test]
    fn values_have_postgresqls_text() {
        check(BooleanArray::from(vec![Some(true), Some(false), None]), &["t", "f", "<null>"]);
        check(UInt64Array::from(vec![u64::MAX]), &["18446744073709551615"]);
        check(Int8Array::from(vec![i8::MIN]), &["-128"]);
        check(
            Float64Array::from(vec![
                0.1,
                1e300,
                1e15,
                1e14,
                1e-5,
                -0.0,
                f64::NAN,
                f64::NEG_INFINITY,
                f64::MIN_POSITIVE,
            ]),
            &[
                "0.1",
                "1e+300",
                "1e+15",
                "100000000000000",
                "1e-05",
                "-0",
                "NaN",
                "-Infinity",
                "2.2250738585072014e-308",
            ],
        );
        check(Float32Array::from(vec![1.5, 1e6, f32::MAX]), &["1.5", "1e+06", "3.4028235e+38"]);
        check(BinaryArray::from(vec![&b"\x00\xff"[..], b""]), &["\\x00ff", "\\x"]);
        check(Date32Array::from(vec![0, -719_528, i32::MAX]), &["1970-01-01", "0001-01-01 BC", "infinity"]);
        check(TimestampSecondArray::from(vec![0, i64::MIN]), &["1970-01-01 00:00:00", "-infinity"]);
        check(
            TimestampNanosecondArray::from(vec![-1, 1_500]).with_timezone("+00:00"),
            &["1969-12-31 23:59:59.999999+00", "1970-01-01 00:00:00.000001+00"],
        );
        for (zone, expected) in [
            ("Europe/Berlin", ["1970-01-01 01:00:00+01", "1969-06-30 23:00:00+01", "infinity"]),
            ("-03:30", ["1969-12-31 20:30:00-03:30", "1969-06-30 18:30:00-03:30", "infinity"]),
            ("Asia/Kathmandu", ["1970-01-01 05:30:00+05:30", "1969-07-01 03:30:00+05:30", "infinity"]),
        ] {
            check(TimestampSecondArray::from(vec![0, -15_904_800, i64::MAX]).with_timezone(zone), &expected);
        }
        check(Time64MicrosecondArray::from(vec![0, 86_399_999_999]), &["00:00:00", "23:59:59.999999"]);
        check(NullArray::new(1), &["<null>"]);
    }

    #[test]
    fn floats_are_rounded_as_in_c() {
        for (value, digits, expected) in [
            (0.1 + 0.2, 15, "0.3"),
            (1e15, 15, "1e+15"),
            (123_456.0, 15, "123456"),
            (1.0 / 3.0, 1, "0.3"),
            (0.000_012_5, 15, "1.25e-05"),
            (-0.0, 15, "-0"),
            (99.6, 2, "1e+02"),
        ] {
            let mut out = vec![];
            rounded_text(&mut out, value, digits);
            assert_eq!(String::from_utf8(out).expect("text"), expected);
        }
    }

    #[test]
    fn lists_in_lists_are_dimensions() {
        let lists = |rows: &[&[Option<i32>]]| {
            let mut lists = ListBuilder::new(ListBuilder::new(Int32Builder::new()));
            rows.iter().for_each(|row| lists.values().append_value(row.iter().copied()));
            lists.append(true);
            Arc::new(lists.finish()) as ArrayRef
        };
        let column = |rows: &[&[Option<i32>]]| {
            let array = lists(rows);
            Column::new(&array, ColumnType::of(array.data_type()), Form { binary: true, ..Form::default() })
        };
        let mut out = vec![];
        column(&[&[Some(1), None], &[Some(3), Some(4)]]).expect("a column").write(0, &mut out);
        let expected: Vec<u8> =
            [2, 1, 23, 2, 1, 2, 1, 4, 1, -1, 4, 3, 4, 4].into_iter().flat_map(i32::to_be_bytes).collect();
        assert_eq!(out, expected);
        assert!(matches!(column(&[&[Some(1)], &[]]), Err(ColumnError::Uneven)));
        out.clear();
        column(&[&[]]).expect("a column").write(0, &mut out);
        assert_eq!(out, [0, 0, 23].into_iter().flat_map(i32::to_be_bytes).collect::<Vec<u8>>());
    }

    #[test]
    fn lists_are_arrays() {
        let mut lists = ListBuilder::new(StringBuilder::new());
        lists.append_value([Some("a"), None, Some("b \"c\""), Some("")]);
        lists.append_value([] as [Option<&str>; 0]);
        check(lists.finish(), &["{a,NULL,\"b \\\"c\\\"\",\"\"}", "{}"]);
    }
}
