//! Fixed-width values as in memory.
//!
//! ```text
//! nulls absent    the values, little-endian; truth values as bits
//! nulls bitmask   bitmask, ceil(rows / 8) bytes: bit i % 8 of byte i / 8 is set where row i has a value
//!                 | zeros up to a multiple of 16 | the values
//! nulls packed    the same bitmask and zeros | the values of the rows that have one
//! nulls sentinel  16 bytes, of which the first (as many as a value has) are the sentinel | the values
//! ```

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, BooleanArray, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::DataType;

use super::{ALIGNMENT, Nulls, pad};

/// Appends an array. Its NULLs become a sentinel if that is requested and there is a value that no row has.
pub fn encode(array: &ArrayRef, sentinel: bool, out: &mut Vec<u8>) -> Nulls {
    if let DataType::Boolean = array.data_type() {
        let nulls = put_mask(array.nulls(), out);
        put_bits(array.as_boolean().values(), out);
        return nulls;
    }
    let data = array.to_data();
    let width = array.data_type().primitive_width().unwrap_or(1);
    let values = values(&data);
    let free = array.nulls().filter(|nulls| sentinel && nulls.null_count() > 0);
    if let Some((nulls, pattern)) = free.and_then(|nulls| Some((nulls, free_value(values, width, nulls)?))) {
        out.extend_from_slice(&pattern);
        let start = out.len();
        out.extend_from_slice(values);
        for (row, value) in out[start..].chunks_exact_mut(width).enumerate() {
            if nulls.is_null(row) {
                value.copy_from_slice(&pattern[..width]);
            }
        }
        return Nulls::Sentinel;
    }
    let nulls = put_mask(array.nulls(), out);
    out.extend_from_slice(values);
    nulls
}

/// The bytes of numbers.
pub fn values(data: &ArrayData) -> &[u8] {
    let width = data.data_type().primitive_width().unwrap_or(1);
    &data.buffers()[0].as_slice()[data.offset() * width..(data.offset() + data.len()) * width]
}

/// A value that no row has: the type's minimum (as in Raasveldt and Mühleisen 2017, section 4.1), its maximum, or zero.
fn free_value(values: &[u8], width: usize, nulls: &NullBuffer) -> Option<[u8; 16]> {
    let mut least = [0; 16];
    least[width - 1] = 0x80;
    let mut greatest = [0xFF; 16];
    greatest[width - 1] = 0x7F;
    [least, greatest, [0; 16], [0xFF; 16]].into_iter().find(|pattern| {
        let mut rows = values.chunks_exact(width).enumerate();
        rows.all(|(row, value)| value != &pattern[..width] || nulls.is_null(row))
    })
}

/// Appends the bitmask of NULLs, if there are any.
pub fn put_mask(nulls: Option<&NullBuffer>, out: &mut Vec<u8>) -> Nulls {
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else { return Nulls::Absent };
    put_bits(nulls.inner(), out);
    pad(out);
    Nulls::Bitmask
}

/// Appends bits, beginning with the least significant bit of a byte.
pub fn put_bits(bits: &BooleanBuffer, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&bits.sliced().as_slice()[..bits.len().div_ceil(8)]);
    if !bits.len().is_multiple_of(8) && out.len() > start {
        let end = out.len() - 1;
        out[end] &= (1 << (bits.len() % 8)) - 1;
    }
}

/// The bitmask before `body`, and the remaining bytes.
pub fn take_mask(body: &Buffer, nulls: Nulls, rows: usize) -> Result<(Option<NullBuffer>, Buffer), String> {
    if nulls != Nulls::Bitmask {
        return Ok((None, body.clone()));
    }
    let (bytes, padded) = (rows.div_ceil(8), rows.div_ceil(8).next_multiple_of(ALIGNMENT));
    if body.len() < padded {
        return Err(format!("a bitmask of {padded} bytes expected, {} left", body.len()));
    }
    let bits = BooleanBuffer::new(body.slice_with_length(0, bytes), 0, rows);
    Ok((Some(NullBuffer::new(bits)), body.slice(padded)))
}

/// Decodes an array, whose values are not copied.
pub fn decode(body: &Buffer, data_type: &DataType, nulls: Nulls, rows: usize) -> Result<ArrayRef, String> {
    let (mask, values) = take_mask(body, nulls, rows)?;
    if let DataType::Boolean = data_type {
        let values = exactly(values, rows.div_ceil(8))?;
        return Ok(std::sync::Arc::new(BooleanArray::new(BooleanBuffer::new(values, 0, rows), mask)));
    }
    let width = data_type.primitive_width().ok_or_else(|| format!("{data_type} has no fixed width"))?;
    let (mask, values) = match nulls {
        Nulls::Sentinel if body.len() < 16 => return Err("a sentinel of 16 bytes expected".into()),
        Nulls::Sentinel => {
            let values = exactly(body.slice(16), rows * width)?;
            (Some(compare(&values, &body[..width])), values)
        }
        _ => (mask, exactly(values, rows * width)?),
    };
    let builder = ArrayData::builder(data_type.clone()).len(rows).add_buffer(values).nulls(mask).align_buffers(true);
    Ok(make_array(builder.build().map_err(|e| e.to_string())?))
}

fn exactly(values: Buffer, bytes: usize) -> Result<Buffer, String> {
    if values.len() == bytes { Ok(values) } else { Err(format!("{} bytes of values, not {bytes}", values.len())) }
}

/// A buffer in which numbers of `width` bytes can be read: the same one, unless the sender did not align it.
pub fn aligned(values: Buffer, width: usize) -> Buffer {
    if values.as_ptr().align_offset(width) == 0 { values } else { Buffer::from(values.as_slice()) }
}

/// Which values differ from the sentinel.
fn compare(values: &[u8], sentinel: &[u8]) -> NullBuffer {
    macro_rules! compare {
        ($t:ty) => {{
            const WIDTH: usize = size_of::<$t>();
            let number = |bytes: &[u8]| <$t>::from_le_bytes(bytes.try_into().expect("a value's width"));
            let (values, null) = (values.as_chunks::<WIDTH>().0, number(sentinel));
            BooleanBuffer::collect_bool(values.len(), |row| <$t>::from_le_bytes(values[row]) != null)
        }};
    }
    NullBuffer::new(match sentinel.len() {
        1 => compare!(u8),
        2 => compare!(u16),
        4 => compare!(u32),
        8 => compare!(u64),
        _ => compare!(u128),
    })
}
