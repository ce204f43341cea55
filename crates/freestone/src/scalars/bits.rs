//! BIT and VARBIT: texts of `0` and `1`, as numbers, and bit by bit.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, BinaryViewBuilder, BooleanArray, Decimal128Array, Decimal256Array, Float32Array, Float64Array,
    Int64Array, StringViewArray, StringViewBuilder, UInt64Array,
};
use datafusion::arrow::datatypes::{DataType, i256};
use datafusion::error::Result;

use super::function::Scalar;
use super::kinds::Kind::{Int, Text};
use super::kinds::{INT, TEXT};
use super::rows::{any_null, ints, invalid, texts};
use crate::error::{Error, ErrorKind};
use crate::growth::Meter;
use crate::times::{Call, exact_cast};
use crate::type_names::type_name;

/// A value of another type; the second argument is NULL of this type.
pub(crate) const AS_VALUE: &str = "freestone_bits_value";
pub(crate) const AS_VALUE_OR_NULL: &str = "freestone_bits_value_or_null";
/// The operators. Their results have no type of bits of their own.
pub(crate) const AND: &str = "freestone_bits_and";
pub(crate) const OR: &str = "freestone_bits_or";
pub(crate) const XOR: &str = "freestone_bits_xor";
pub(crate) const SHIFT_LEFT: &str = "freestone_bits_left";
pub(crate) const SHIFT_RIGHT: &str = "freestone_bits_right";

pub(super) fn all() -> Vec<Scalar> {
    let value = |name: &'static str, or_null: bool| {
        Scalar::with_coercion(
            &[name],
            "bits",
            |types| (types.len() == 2).then(|| vec![TEXT, types[1].clone()]),
            |types, _| Ok(types[1].clone()),
            move |call| values(call, or_null),
        )
    };
    vec![
        value(AS_VALUE, false),
        value(AS_VALUE_OR_NULL, true),
        Scalar::new(&[AND], &[&[Text, Text]], TEXT, |call| pairs(call, "&", |a, b| a & b)),
        Scalar::new(&[OR], &[&[Text, Text]], TEXT, |call| pairs(call, "|", |a, b| a | b)),
        // Of the characters 0 and 1, the last bits differ alone.
        Scalar::new(&[XOR], &[&[Text, Text]], TEXT, |call| pairs(call, "xor", |a, b| (a ^ b) | b'0')),
        Scalar::new(&[SHIFT_LEFT], &[&[Text, Int]], TEXT, |call| shifted(call, true)),
        Scalar::new(&[SHIFT_RIGHT], &[&[Text, Int]], TEXT, |call| shifted(call, false)),
        Scalar::new(&["get_bit"], &[&[Text, Int]], INT, get_bit),
        Scalar::new(&["set_bit"], &[&[Text, Int, Int]], TEXT, set_bit),
        Scalar::new(&["bit_position"], &[&[Text, Text]], INT, |call| {
            let (piece, bits) = (texts(call, 0)?, texts(call, 1)?);
            let place = |(piece, bits): (Option<&str>, Option<&str>)| {
                Some(bits?.find(piece?).map_or(0, |place| place as i64 + 1))
            };
            Ok(Arc::new(piece.iter().zip(&bits).map(place).collect::<Int64Array>()))
        }),
    ]
}

/// The bits of a text.
///
/// # Errors
/// It has other characters than 0 and 1.
fn bits_of(text: &str) -> Result<&[u8]> {
    match text.bytes().all(|byte| matches!(byte, b'0' | b'1')) {
        true => Ok(text.as_bytes()),
        false => invalid(format!("'{text}' has other digits than 0 and 1")),
    }
}

/// The opposite of all bits.
pub(super) fn complement(call: &Call) -> Result<ArrayRef> {
    let bits = texts(call, 0)?;
    let rows = bits.iter().map(|bits| bits.map(|bits| Ok(text(bits_of(bits)?.iter().map(|bit| bit ^ 1)))).transpose());
    Ok(Arc::new(rows.collect::<Result<StringViewArray>>()?))
}

/// The number of ones.
pub(super) fn ones(call: &Call) -> Result<ArrayRef> {
    let bits = texts(call, 0)?;
    let count = |bits: &str| Ok(bits_of(bits)?.iter().filter(|bit| **bit == b'1').count() as i64);
    Ok(Arc::new(bits.iter().map(|bits| bits.map(count).transpose()).collect::<Result<Int64Array>>()?))
}

fn text(bits: impl Iterator<Item = u8>) -> String {
    bits.map(char::from).collect()
}

fn pairs(call: &Call, operator: &str, combine: fn(u8, u8) -> u8) -> Result<ArrayRef> {
    let (one, other) = (texts(call, 0)?, texts(call, 1)?);
    let rows = one.iter().zip(&other).map(|pair| {
        let (Some(one), Some(other)) = pair else { return Ok(None) };
        let (one, other) = (bits_of(one)?, bits_of(other)?);
        if one.len() != other.len() {
            let (first, second) = (one.len(), other.len());
            return invalid(format!("{operator} takes as many bits on both sides, not {first} and {second}"));
        }
        Ok(Some(text(one.iter().zip(other).map(|(one, other)| combine(*one, *other)))))
    });
    Ok(Arc::new(rows.collect::<Result<StringViewArray>>()?))
}

fn shifted(call: &Call, left: bool) -> Result<ArrayRef> {
    let (bits, places) = (texts(call, 0)?, ints(call, 1)?);
    let mut all = StringViewBuilder::with_capacity(bits.len());
    for row in 0..bits.len() {
        if any_null(&[&bits, &places], row) {
            all.append_null();
            continue;
        }
        let bits = bits.value(row);
        bits_of(bits)?;
        let Ok(places) = usize::try_from(places.value(row)) else {
            return invalid(format!("bits are shifted by 0 or more places, not {}", places.value(row)));
        };
        let places = places.min(bits.len());
        let zeros = "0".repeat(places);
        all.append_value(match left {
            true => format!("{}{zeros}", &bits[places..]),
            false => format!("{zeros}{}", &bits[..bits.len() - places]),
        });
    }
    Ok(Arc::new(all.finish()))
}

/// The place of a bit, from 0 at the left.
fn place(bits: &[u8], place: i64) -> Result<usize> {
    match usize::try_from(place).ok().filter(|place| *place < bits.len()) {
        Some(place) => Ok(place),
        None => invalid(format!("there is no bit {place} among {} bits, which begin with 0", bits.len())),
    }
}

fn get_bit(call: &Call) -> Result<ArrayRef> {
    let (bits, places) = (texts(call, 0)?, ints(call, 1)?);
    let rows = bits.iter().zip(&places).map(|pair| {
        let (Some(bits), Some(at)) = pair else { return Ok(None) };
        let bits = bits_of(bits)?;
        Ok(Some(i64::from(bits[place(bits, at)?] - b'0')))
    });
    Ok(Arc::new(rows.collect::<Result<Int64Array>>()?))
}

fn set_bit(call: &Call) -> Result<ArrayRef> {
    let (bits, places, values) = (texts(call, 0)?, ints(call, 1)?, ints(call, 2)?);
    let mut meter = Meter::new("set_bit");
    let rows = (0..bits.len()).map(|row| {
        if any_null(&[&bits, &places, &values], row) {
            return Ok(None);
        }
        let mut bits = bits_of(bits.value(row))?.to_vec();
        meter.add(bits.len())?;
        let at = place(&bits, places.value(row))?;
        bits[at] = match values.value(row) {
            0 => b'0',
            1 => b'1',
            other => return invalid(format!("a bit is 0 or 1, not {other}")),
        };
        Ok(Some(text(bits.into_iter())))
    });
    Ok(Arc::new(rows.collect::<Result<StringViewArray>>()?))
}

/// Bits as values of a type, which has at least as many bits: the last bit is the last of the value.
fn values(call: &Call, or_null: bool) -> Result<ArrayRef> {
    let bits = texts(call, 0)?;
    if call.to.is_binary() {
        return blobs(&bits);
    }
    let width = width(&call.to)?;
    let number = |text: &str| -> Result<Option<u128>> {
        let bits = bits_of(text)?;
        if bits.len() > width {
            let message = format!("{} bits do not fit into {}, which has {width}", bits.len(), type_name(&call.to));
            return if or_null { Ok(None) } else { Err(Error::new(ErrorKind::Type, message).into()) };
        }
        Ok(Some(bits.iter().fold(0, |number, bit| number << 1 | u128::from(bit - b'0'))))
    };
    let numbers = bits.iter().map(|text| text.map_or(Ok(None), number)).collect::<Result<Vec<Option<u128>>>>()?;
    let numbers = numbers.into_iter();
    // The first bit of a number with a sign is its sign.
    let signed = |number: u128| (number << (128 - width)).cast_signed() >> (128 - width);
    let array: ArrayRef = match &call.to {
        DataType::Boolean => Arc::new(numbers.map(|number| number.map(|number| number != 0)).collect::<BooleanArray>()),
        DataType::Float32 => {
            Arc::new(numbers.map(|number| number.map(|bits| f32::from_bits(bits as u32))).collect::<Float32Array>())
        }
        DataType::Float64 => {
            Arc::new(numbers.map(|number| number.map(|bits| f64::from_bits(bits as u64))).collect::<Float64Array>())
        }
        kind if kind.is_unsigned_integer() => {
            Arc::new(numbers.map(|number| number.map(|bits| bits as u64)).collect::<UInt64Array>())
        }
        kind if kind.is_integer() => {
            Arc::new(numbers.map(|number| number.map(|bits| signed(bits) as i64)).collect::<Int64Array>())
        }
        DataType::Decimal256(precision, scale) => {
            let wide = |number: u128| i256::from_parts(number, 0);
            let numbers: Decimal256Array = numbers.map(|number| number.map(wide)).collect();
            Arc::new(numbers.with_precision_and_scale(*precision, *scale)?)
        }
        _ => {
            let numbers: Decimal128Array = numbers.map(|number| number.map(signed)).collect();
            let numbers = numbers.with_precision_and_scale(38, 0)?;
            numbers.validate_decimal_precision(38)?;
            Arc::new(numbers)
        }
    };
    exact_cast(&array, &call.to)
}

/// The number of bits of a type.
fn width(to: &DataType) -> Result<usize> {
    match to {
        DataType::Boolean => Ok(8),
        DataType::Float32 | DataType::Float64 => Ok(to.primitive_width().unwrap_or(8) * 8),
        kind if kind.is_integer() => Ok(kind.primitive_width().unwrap_or(8) * 8),
        DataType::Decimal128(38, 0) | DataType::Decimal256(39, 0) => Ok(128),
        other => invalid(format!("bits cannot be cast to {}", type_name(other))),
    }
}

/// Bits as bytes. The first byte has those that are left over.
fn blobs(bits: &StringViewArray) -> Result<ArrayRef> {
    let mut blobs = BinaryViewBuilder::with_capacity(bits.len());
    let mut bytes = vec![];
    for text in bits {
        let Some(text) = text else {
            blobs.append_null();
            continue;
        };
        bytes.clear();
        let byte = |bits: &[u8]| bits.iter().fold(0, |byte, bit| byte << 1 | (bit - b'0'));
        let (first, rest) = bits_of(text)?.split_at(text.len() % 8);
        if !first.is_empty() {
            bytes.push(byte(first));
        }
        bytes.extend(rest.chunks(8).map(byte));
        blobs.append_value(&bytes);
    }
    Ok(Arc::new(blobs.finish()))
}
