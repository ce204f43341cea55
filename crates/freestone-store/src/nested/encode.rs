//! Arrow arrays → encoded values.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, BinaryViewArray, BooleanArray, StringViewArray};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_schema::DataType;

use super::null_bytes;

/// Appends the encoded values of an array of a stored type; nothing for those that are NULL.
pub(crate) fn encode(array: &dyn Array, offsets: &mut Vec<u32>, data: &mut Vec<u8>) {
    let encoder = Encoder::new(array);
    offsets.reserve(array.len());
    for row in 0..array.len() {
        if encoder.is_valid(row) {
            encoder.value(row, data);
        }
        offsets.push(data.len() as u32);
    }
}

/// The values of an array.
struct Encoder<'a> {
    nulls: Option<&'a NullBuffer>,
    values: Values<'a>,
}

enum Values<'a> {
    Boolean(&'a BooleanArray),
    /// All NaNs are equal: they are stored with the bits that sort last.
    F32(&'a [f32]),
    F64(&'a [f64]),
    Fixed {
        bytes: Buffer,
        width: usize,
    },
    Text(&'a StringViewArray),
    Binary(&'a BinaryViewArray),
    List {
        offsets: &'a [i32],
        items: Box<Encoder<'a>>,
    },
    FixedList {
        length: usize,
        items: Box<Encoder<'a>>,
    },
    Struct(Vec<Encoder<'a>>),
}

impl<'a> Encoder<'a> {
    fn new(array: &'a dyn Array) -> Self {
        let values = match array.data_type() {
            DataType::Boolean => Values::Boolean(array.as_boolean()),
            DataType::Float32 => Values::F32(array.as_primitive::<Float32Type>().values()),
            DataType::Float64 => Values::F64(array.as_primitive::<Float64Type>().values()),
            DataType::Utf8View => Values::Text(array.as_string_view()),
            DataType::BinaryView => Values::Binary(array.as_binary_view()),
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                Values::List { offsets: list.value_offsets(), items: Box::new(Encoder::new(list.values().as_ref())) }
            }
            DataType::Map(_, _) => {
                let map = array.as_map();
                Values::List { offsets: map.value_offsets(), items: Box::new(Encoder::new(map.entries())) }
            }
            DataType::FixedSizeList(_, length) => {
                let list = array.as_fixed_size_list();
                let items = Box::new(Encoder::new(list.values().as_ref()));
                Values::FixedList { length: *length as usize, items }
            }
            DataType::Struct(_) => {
                Values::Struct(array.as_struct().columns().iter().map(|column| Encoder::new(column.as_ref())).collect())
            }
            other => {
                let width = match other {
                    DataType::FixedSizeBinary(width) => *width as usize,
                    other => other.primitive_width().unwrap_or(0),
                };
                // One buffer of values with this width, which starts at the array's offset.
                let data = array.to_data();
                let bytes = data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width);
                Values::Fixed { bytes, width }
            }
        };
        Encoder { nulls: array.nulls().filter(|nulls| nulls.null_count() > 0), values }
    }

    fn is_valid(&self, row: usize) -> bool {
        self.nulls.is_none_or(|nulls| nulls.is_valid(row))
    }

    /// Appends a value that is not NULL.
    fn value(&self, row: usize, out: &mut Vec<u8>) {
        match &self.values {
            Values::Boolean(array) => out.push(array.value(row).into()),
            Values::F32(values) => {
                let value = if values[row].is_nan() { f32::NAN } else { values[row] };
                out.extend_from_slice(&value.to_le_bytes());
            }
            Values::F64(values) => {
                let value = if values[row].is_nan() { f64::NAN } else { values[row] };
                out.extend_from_slice(&value.to_le_bytes());
            }
            Values::Fixed { bytes, width } => out.extend_from_slice(&bytes[row * width..(row + 1) * width]),
            Values::Text(array) => put_bytes(array.value(row).as_bytes(), out),
            Values::Binary(array) => put_bytes(array.value(row), out),
            Values::List { offsets, items } => {
                let range = offsets[row] as usize..offsets[row + 1] as usize;
                let has_nulls = items.has_nulls(&range);
                put_varint((range.len() as u64) << 1 | u64::from(has_nulls), out);
                items.run(range, has_nulls, out);
            }
            Values::FixedList { length, items } => {
                let range = row * length..(row + 1) * length;
                let has_nulls = items.has_nulls(&range);
                out.push(has_nulls.into());
                items.run(range, has_nulls, out);
            }
            Values::Struct(fields) => {
                put_nulls(fields.iter().map(|field| field.is_valid(row)), fields.len(), out);
                fields.iter().filter(|field| field.is_valid(row)).for_each(|field| field.value(row, out));
            }
        }
    }

    fn has_nulls(&self, range: &Range<usize>) -> bool {
        self.nulls.is_some_and(|nulls| range.clone().any(|row| nulls.is_null(row)))
    }

    /// Appends the items of a list.
    fn run(&self, range: Range<usize>, has_nulls: bool, out: &mut Vec<u8>) {
        if has_nulls {
            put_nulls(range.clone().map(|row| self.is_valid(row)), range.len(), out);
        } else if let Values::Fixed { bytes, width } = &self.values {
            out.extend_from_slice(&bytes[range.start * width..range.end * width]);
            return;
        }
        range.filter(|row| !has_nulls || self.is_valid(*row)).for_each(|row| self.value(row, out));
    }
}

fn put_nulls(valid: impl Iterator<Item = bool>, count: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + null_bytes(count), 0);
    for (at, _) in valid.enumerate().filter(|(_, is_valid)| *is_valid) {
        out[start + at / 8] |= 1 << (at % 8);
    }
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Seven bits per byte, least significant first, with the top bit set in all bytes but the last.
fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
