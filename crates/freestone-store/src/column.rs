//! Columns between Arrow and the codecs: physical values and validity for writing, growing Arrow columns for reading.
//!
//! Dates, times and decimals of up to 18 digits are integers, of the width that the data needs. Strings are views: the
//! bytes of a page stay where they were decompressed.

use std::cmp::Ordering;
use std::hash::Hasher;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BinaryViewArray, BooleanArray, Float32Array, Float64Array,
    GenericByteViewArray, PrimitiveArray, RecordBatch, RecordBatchOptions, StringArray, StringViewArray,
    new_empty_array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, TimeUnit};
use freestone_codec::{BytesSlice, Kind, OffsetStrings, Shared, Values, Views, f32_key, f64_key};

use crate::bitmap;
use crate::memory::populate;
use crate::nested::{self, is_encoded};
use crate::schema::kind;

/// A column's physical values, which [`freestone_codec::Values`] borrows.
#[derive(Debug, Clone)]
pub enum Physical {
    /// Integers of at most 64 bits, and all types that are stored as such: booleans, dates, times, short decimals.
    Int(Vec<i64>),
    /// Decimals of more than 18 digits.
    Wide(Vec<i128>),
    /// Floats of 64 bits.
    F64(Vec<f64>),
    /// Floats of 32 bits.
    F32(Vec<f32>),
    #[allow(missing_docs)]
    /// Strings.
    Bytes { offsets: Vec<u32>, data: Vec<u8> },
}

/// Physical values with validity (`None`: no NULLs).
#[derive(Debug, Clone)]
pub struct ColumnData {
    /// The values. NULL rows have any value.
    pub values: Physical,
    /// A bit per row, which is set if the row is not NULL. `None`: no row is NULL.
    pub validity: Option<Vec<u64>>,
}

/// Added to the bits of an unsigned 64-bit value, so that its order is that of signed integers.
const U64_SHIFT: u64 = 1 << 63;

/// The order prefix of a number (see [`ColumnData::order_prefix`]).
pub fn number_prefix(value: i64) -> u64 {
    value as u64 ^ U64_SHIFT
}

/// The number with this order prefix.
pub fn number_of_prefix(prefix: u64) -> i64 {
    (prefix ^ U64_SHIFT) as i64
}

/// The order prefix of bytes; `fill` stands for those that are missing.
pub fn bytes_prefix(bytes: &[u8], fill: u8) -> u64 {
    let mut prefix = [fill; 8];
    let len = bytes.len().min(8);
    prefix[..len].copy_from_slice(&bytes[..len]);
    u64::from_be_bytes(prefix)
}

impl ColumnData {
    /// An empty column of a kind.
    pub fn new(kind: Kind) -> Self {
        let values = match kind {
            Kind::Int => Physical::Int(vec![]),
            Kind::Wide => Physical::Wide(vec![]),
            Kind::F64 => Physical::F64(vec![]),
            Kind::F32 => Physical::F32(vec![]),
            Kind::Bytes => Physical::Bytes { offsets: vec![0], data: vec![] },
        };
        ColumnData { values, validity: None }
    }

    /// An empty column of a kind, with room for rows, and for the bytes of strings.
    pub(crate) fn with_capacity(kind: Kind, rows: usize, string_bytes: usize) -> Self {
        let values = match kind {
            Kind::Int => Physical::Int(Vec::with_capacity(rows)),
            Kind::Wide => Physical::Wide(Vec::with_capacity(rows)),
            Kind::F64 => Physical::F64(Vec::with_capacity(rows)),
            Kind::F32 => Physical::F32(Vec::with_capacity(rows)),
            Kind::Bytes => {
                let mut offsets = Vec::with_capacity(rows + 1);
                offsets.push(0);
                Physical::Bytes { offsets, data: Vec::with_capacity(string_bytes) }
            }
        };
        ColumnData { values, validity: None }
    }

    /// The concatenation of `arrays`, which have the stored type `data_type`.
    pub fn from_arrays<'a>(arrays: impl IntoIterator<Item = &'a ArrayRef>, data_type: &DataType) -> Self {
        let mut column = ColumnData::new(kind(data_type));
        for array in arrays {
            column.append(array.as_ref());
        }
        column
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        match &self.values {
            Physical::Int(v) => v.len(),
            Physical::Wide(v) => v.len(),
            Physical::F64(v) => v.len(),
            Physical::F32(v) => v.len(),
            Physical::Bytes { offsets, .. } => offsets.len() - 1,
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values, borrowed for a codec.
    pub fn values(&self) -> Values<'_> {
        match &self.values {
            Physical::Int(v) => Values::Int(v),
            Physical::Wide(v) => Values::Wide(v),
            Physical::F64(v) => Values::F64(v),
            Physical::F32(v) => Values::F32(v),
            Physical::Bytes { offsets, data } => Values::Bytes(BytesSlice { offsets, data }),
        }
    }

    /// Whether a row is not NULL.
    pub fn is_valid(&self, row: usize) -> bool {
        self.validity.as_ref().is_none_or(|v| bitmap::get(v, row))
    }

    /// The approximate bytes in memory.
    pub fn byte_size(&self) -> usize {
        match &self.values {
            Physical::Int(v) => v.len() * 8,
            Physical::Wide(v) => v.len() * 16,
            Physical::F64(v) => v.len() * 8,
            Physical::F32(v) => v.len() * 4,
            Physical::Bytes { offsets, data } => offsets.len() * 4 + data.len(),
        }
    }

    /// Appends an array of the column's stored type.
    pub fn append(&mut self, array: &dyn Array) {
        self.append_within(array, None);
    }

    /// Appends an array of the column's stored type. Rows are NULL also where `outer` is not valid.
    pub(crate) fn append_within(&mut self, array: &dyn Array, outer: Option<&NullBuffer>) {
        let start = self.len();
        match (&mut self.values, array.data_type()) {
            (Physical::Int(out), data_type) => append_ints(out, array, data_type),
            (Physical::Wide(out), _) => out.extend_from_slice(array.as_primitive::<Decimal128Type>().values()),
            // All NaNs are equal: they are stored with the bits that sort last.
            (Physical::F64(out), _) => {
                let one_nan = |v: &f64| if v.is_nan() { f64::NAN } else { *v };
                out.extend(array.as_primitive::<Float64Type>().values().iter().map(one_nan));
            }
            (Physical::F32(out), _) => {
                let one_nan = |v: &f32| if v.is_nan() { f32::NAN } else { *v };
                out.extend(array.as_primitive::<Float32Type>().values().iter().map(one_nan));
            }
            (Physical::Bytes { offsets, data }, DataType::BinaryView) => {
                append_bytes(offsets, data, array.as_binary_view().iter())
            }
            (Physical::Bytes { offsets, data }, data_type) if is_encoded(data_type) => {
                nested::encode(array, offsets, data);
            }
            (Physical::Bytes { offsets, data }, _) => {
                append_bytes(offsets, data, array.as_string_view().iter().map(|s| s.map(str::as_bytes)))
            }
        }
        let nulls = NullBuffer::union(array.nulls(), outer);
        self.append_validity(nulls.as_ref(), start, array.len());
    }

    /// Appends the validity of `len` rows to that of the `start` rows before them.
    pub(crate) fn append_validity(&mut self, nulls: Option<&NullBuffer>, start: usize, len: usize) {
        let nulls = nulls.filter(|n| n.null_count() > 0);
        if nulls.is_none() && self.validity.is_none() {
            return;
        }
        let validity = self.validity.get_or_insert_with(|| bitmap::ones(start));
        validity.resize(bitmap::words(start + len), 0);
        for row in 0..len {
            if nulls.is_none_or(|n| n.is_valid(row)) {
                bitmap::set(validity, start + row);
            }
        }
    }

    /// Feeds each row's value to that row's hasher.
    pub fn hash_rows(&self, hashers: &mut [impl Hasher]) {
        for (row, hasher) in hashers.iter_mut().enumerate() {
            let is_null = self.validity.as_ref().is_some_and(|words| !bitmap::get(words, row));
            hasher.write_u8(is_null.into());
            match &self.values {
                _ if is_null => {}
                Physical::Int(v) => hasher.write_i64(v[row]),
                Physical::Wide(v) => hasher.write_i128(v[row]),
                Physical::F64(v) => hasher.write_u64(v[row].to_bits()),
                Physical::F32(v) => hasher.write_u32(v[row].to_bits()),
                Physical::Bytes { offsets, data } => {
                    let value = &data[offsets[row] as usize..offsets[row + 1] as usize];
                    hasher.write_usize(value.len());
                    hasher.write(value);
                }
            }
        }
    }

    /// The rows, in the given order.
    pub fn permute(&self, order: &[u32]) -> ColumnData {
        let take = |at: &u32| *at as usize;
        let values = match &self.values {
            Physical::Int(v) => Physical::Int(order.iter().map(|i| v[take(i)]).collect()),
            Physical::Wide(v) => Physical::Wide(order.iter().map(|i| v[take(i)]).collect()),
            Physical::F64(v) => Physical::F64(order.iter().map(|i| v[take(i)]).collect()),
            Physical::F32(v) => Physical::F32(order.iter().map(|i| v[take(i)]).collect()),
            Physical::Bytes { offsets, data } => {
                let (mut new_offsets, mut new_data) = (vec![0], Vec::with_capacity(data.len()));
                for i in order {
                    new_data.extend_from_slice(&data[offsets[take(i)] as usize..offsets[take(i) + 1] as usize]);
                    new_offsets.push(new_data.len() as u32);
                }
                Physical::Bytes { offsets: new_offsets, data: new_data }
            }
        };
        let validity = self.validity.as_ref().map(|old| {
            let mut new = vec![0; bitmap::words(order.len())];
            for (to, from) in order.iter().enumerate() {
                if bitmap::get(old, take(from)) {
                    bitmap::set(&mut new, to);
                }
            }
            new
        });
        ColumnData { values, validity }
    }

    /// The order of two rows: NULLs last, floats in IEEE 754 total order.
    pub fn compare(&self, a: usize, b: usize) -> Ordering {
        self.compare_with(a, self, b)
    }

    /// The order of a row here and a row of another column of the same kind: NULLs last, floats in IEEE 754 total
    /// order.
    pub fn compare_with(&self, a: usize, other: &ColumnData, b: usize) -> Ordering {
        match (self.is_valid(a), other.is_valid(b)) {
            (true, true) => match (&self.values, &other.values) {
                (Physical::Int(v), Physical::Int(w)) => v[a].cmp(&w[b]),
                (Physical::Wide(v), Physical::Wide(w)) => v[a].cmp(&w[b]),
                (Physical::F64(v), Physical::F64(w)) => v[a].total_cmp(&w[b]),
                (Physical::F32(v), Physical::F32(w)) => v[a].total_cmp(&w[b]),
                (Physical::Bytes { .. }, Physical::Bytes { .. }) => self.bytes(a).cmp(other.bytes(b)),
                _ => unreachable!("a column's kind never changes"),
            },
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => Ordering::Equal,
        }
    }

    /// The bytes of a row; empty for kinds other than [`Physical::Bytes`].
    pub fn bytes(&self, row: usize) -> &[u8] {
        match &self.values {
            Physical::Bytes { offsets, data } => &data[offsets[row] as usize..offsets[row + 1] as usize],
            _ => &[],
        }
    }

    /// A number that preserves the order of rows partially: a smaller number means a smaller row, but equal numbers may
    /// mean different rows.
    pub fn order_prefix(&self, row: usize) -> u64 {
        if !self.is_valid(row) {
            return u64::MAX;
        }
        match &self.values {
            Physical::Int(v) => number_prefix(v[row]),
            Physical::Wide(v) => number_prefix((v[row] >> 64) as i64),
            Physical::F64(v) => number_prefix(f64_key(v[row])),
            Physical::F32(v) => number_prefix(f32_key(v[row])),
            Physical::Bytes { .. } => bytes_prefix(self.bytes(row), 0),
        }
    }

    /// Appends rows of `sources`, which are columns of the same kind, as pairs (source, row).
    pub fn gather(&mut self, sources: &[&ColumnData], rows: &[(u32, u32)]) {
        let start = self.len();
        macro_rules! take {
            ($out:expr, $kind:path) => {
                $out.extend(rows.iter().map(|(source, row)| match &sources[*source as usize].values {
                    $kind(v) => v[*row as usize],
                    _ => unreachable!("a column's kind never changes"),
                }))
            };
        }
        match &mut self.values {
            Physical::Int(out) => take!(out, Physical::Int),
            Physical::Wide(out) => take!(out, Physical::Wide),
            Physical::F64(out) => take!(out, Physical::F64),
            Physical::F32(out) => take!(out, Physical::F32),
            Physical::Bytes { offsets, data } => {
                for (source, row) in rows {
                    data.extend_from_slice(sources[*source as usize].bytes(*row as usize));
                    offsets.push(data.len() as u32);
                }
            }
        }
        if self.validity.is_none() && sources.iter().all(|source| source.validity.is_none()) {
            return;
        }
        let validity = self.validity.get_or_insert_with(|| bitmap::ones(start));
        validity.resize(bitmap::words(start + rows.len()), 0);
        for (at, (source, row)) in rows.iter().enumerate() {
            if sources[*source as usize].is_valid(*row as usize) {
                bitmap::set(validity, start + at);
            }
        }
    }

    /// A number by which values are ordered like the value of a row. `None` for strings.
    pub fn int_at(&self, row: usize) -> Option<i128> {
        match &self.values {
            Physical::Int(v) => Some(v[row].into()),
            Physical::Wide(v) => Some(v[row]),
            Physical::F64(v) => Some(f64_key(v[row]).into()),
            Physical::F32(v) => Some(f32_key(v[row]).into()),
            Physical::Bytes { .. } => None,
        }
    }
}

/// Below this size, strings in memory are not worth copying.
const SPARSE_BYTES_MIN: usize = 64 << 10;

/// The bytes of the strings of views that are in buffers, and whether these buffers have much more bytes.
fn used_by_views<T: ByteViewType>(views: &GenericByteViewArray<T>) -> (usize, bool) {
    let pinned: usize = views.data_buffers().iter().map(|buffer| buffer.len()).sum();
    let used = views.total_buffer_bytes_used();
    (used, pinned > SPARSE_BYTES_MIN && pinned / 2 > used)
}

/// The batch without unused string data. Views of a few rows, or of sorted or filtered rows, otherwise keep the data of
/// all former rows in memory.
pub fn compacted(batch: &RecordBatch) -> RecordBatch {
    fn column<T: ByteViewType>(array: &ArrayRef, views: &GenericByteViewArray<T>) -> ArrayRef {
        if used_by_views(views).1 { Arc::new(views.gc()) } else { array.clone() }
    }
    let columns = batch.columns().iter().map(|array| match array.data_type() {
        DataType::Utf8View => column(array, array.as_string_view()),
        DataType::BinaryView => column(array, array.as_binary_view()),
        _ => array.clone(),
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns.collect(), &options)
        .expect("the columns have the types and lengths of the batch's")
}

/// The bytes of the values of an array, without those of a buffer that it shares with other rows. What an array takes
/// without a value is left out: of one row with thousands of columns, it would be most of them.
pub(crate) fn value_bytes(array: &ArrayRef) -> usize {
    let sparse = match array.data_type() {
        DataType::Utf8View => Some(used_by_views(array.as_string_view())).filter(|(_, is_sparse)| *is_sparse),
        DataType::BinaryView => Some(used_by_views(array.as_binary_view())).filter(|(_, is_sparse)| *is_sparse),
        _ => None,
    };
    if let Some((used, _)) = sparse {
        return used + array.len() * size_of::<u128>();
    }
    let without = new_empty_array(array.data_type()).get_array_memory_size();
    array.get_array_memory_size().saturating_sub(without)
}

/// The bytes of a batch. For strings these are the bytes of its rows, not of the buffers to which the views refer.
pub fn shown_bytes(batch: &RecordBatch) -> usize {
    let bytes = |array: &ArrayRef| match array.data_type() {
        DataType::Utf8View => array.len() * 16 + array.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => array.len() * 16 + array.as_binary_view().total_buffer_bytes_used(),
        _ => array.get_array_memory_size(),
    };
    batch.columns().iter().map(bytes).sum()
}

fn append_bytes<'a>(offsets: &mut Vec<u32>, data: &mut Vec<u8>, items: impl Iterator<Item = Option<&'a [u8]>>) {
    for item in items {
        data.extend_from_slice(item.unwrap_or_default());
        offsets.push(data.len() as u32);
    }
}

/// Appends the stored form of an array whose type is stored as integers of at most 64 bits.
pub(crate) fn append_ints(out: &mut Vec<i64>, array: &dyn Array, data_type: &DataType) {
    fn widen<T: ArrowPrimitiveType>(out: &mut Vec<i64>, array: &dyn Array, f: impl Fn(T::Native) -> i64) {
        out.extend(array.as_primitive::<T>().values().iter().map(|v| f(*v)));
    }
    use TimeUnit::*;
    match data_type {
        DataType::Boolean => {
            let array = array.as_boolean();
            out.extend((0..array.len()).map(|row| i64::from(array.value(row))));
        }
        DataType::Int8 => widen::<Int8Type>(out, array, i64::from),
        DataType::Int16 => widen::<Int16Type>(out, array, i64::from),
        DataType::Int32 => widen::<Int32Type>(out, array, i64::from),
        DataType::Int64 => widen::<Int64Type>(out, array, |v| v),
        DataType::UInt8 => widen::<UInt8Type>(out, array, i64::from),
        DataType::UInt16 => widen::<UInt16Type>(out, array, i64::from),
        DataType::UInt32 => widen::<UInt32Type>(out, array, i64::from),
        DataType::UInt64 => widen::<UInt64Type>(out, array, |v| (v ^ U64_SHIFT) as i64),
        DataType::Date32 => widen::<Date32Type>(out, array, i64::from),
        DataType::Decimal128(_, _) => widen::<Decimal128Type>(out, array, |v| v as i64),
        DataType::Time32(Second) => widen::<Time32SecondType>(out, array, i64::from),
        DataType::Time32(_) => widen::<Time32MillisecondType>(out, array, i64::from),
        DataType::Time64(Microsecond) => widen::<Time64MicrosecondType>(out, array, |v| v),
        DataType::Time64(_) => widen::<Time64NanosecondType>(out, array, |v| v),
        DataType::Timestamp(Second, _) => widen::<TimestampSecondType>(out, array, |v| v),
        DataType::Timestamp(Millisecond, _) => widen::<TimestampMillisecondType>(out, array, |v| v),
        DataType::Timestamp(Microsecond, _) => widen::<TimestampMicrosecondType>(out, array, |v| v),
        DataType::Timestamp(Nanosecond, _) => widen::<TimestampNanosecondType>(out, array, |v| v),
        // Which structs are not NULL; their fields are columns of their own.
        DataType::Struct(_) => out.extend(std::iter::repeat_n(1, array.len())),
        other => unreachable!("{other} is not a stored type of kind Int"),
    }
}

/// Decoded values, in the width of their Arrow type.
#[derive(Debug)]
pub enum Decoded {
    /// Booleans, a byte per row.
    Boolean(Vec<u8>),
    /// Integers of 8 bits.
    I8(Vec<i8>),
    /// Integers of 16 bits.
    I16(Vec<i16>),
    /// Integers of 32 bits.
    I32(Vec<i32>),
    /// Integers of 64 bits.
    I64(Vec<i64>),
    /// Unsigned integers of 8 bits.
    U8(Vec<u8>),
    /// Unsigned integers of 16 bits.
    U16(Vec<u16>),
    /// Unsigned integers of 32 bits.
    U32(Vec<u32>),
    /// Shifted by 2^63 until [`ColumnBuffer::finish`].
    U64(Vec<u64>),
    /// Decimals of more than 18 digits.
    I128(Vec<i128>),
    /// Floats of 64 bits.
    F64(Vec<f64>),
    /// Floats of 32 bits.
    F32(Vec<f32>),
    /// Codes of the segment's dictionary, instead of strings.
    Codes(Vec<u32>),
    /// Strings as views.
    Views(Views),
    /// Strings with offsets.
    Strings(OffsetStrings),
}

/// A column that is decoded, row by row or page by page, and becomes an Arrow array at the end.
#[derive(Debug)]
pub struct ColumnBuffer {
    data_type: DataType,
    /// The decoded values.
    pub decoded: Decoded,
    /// Empty before the first NULL.
    validity: Vec<u64>,
}

impl ColumnBuffer {
    /// An empty buffer for a type.
    pub fn new(data_type: &DataType) -> Self {
        Self::with_capacity(data_type, 0)
    }

    /// A buffer with capacity for `rows` rows.
    pub fn with_capacity(data_type: &DataType, rows: usize) -> Self {
        use DataType::*;
        let decoded = match data_type {
            Boolean | Struct(_) => Decoded::Boolean(Vec::with_capacity(rows)),
            Int8 => Decoded::I8(Vec::with_capacity(rows)),
            Int16 => Decoded::I16(Vec::with_capacity(rows)),
            Int32 | Date32 | Time32(_) => Decoded::I32(Vec::with_capacity(rows)),
            UInt8 => Decoded::U8(Vec::with_capacity(rows)),
            UInt16 => Decoded::U16(Vec::with_capacity(rows)),
            UInt32 => Decoded::U32(Vec::with_capacity(rows)),
            UInt64 => Decoded::U64(Vec::with_capacity(rows)),
            Decimal128(_, _) => Decoded::I128(Vec::with_capacity(rows)),
            Float64 => Decoded::F64(Vec::with_capacity(rows)),
            Float32 => Decoded::F32(Vec::with_capacity(rows)),
            Utf8 | Binary => Decoded::Strings(OffsetStrings::with_capacity(rows)),
            other if is_encoded(other) => Decoded::Views(Views { views: Vec::with_capacity(rows), ..Views::default() }),
            Utf8View | BinaryView => Decoded::Views(Views { views: Vec::with_capacity(rows), ..Views::default() }),
            _ => Decoded::I64(Vec::with_capacity(rows)),
        };
        ColumnBuffer { data_type: data_type.clone(), decoded, validity: vec![] }
    }

    /// Lets the system allocate the pages of the reserved capacity, if they are many; see [`populate`].
    pub fn populate(&mut self) {
        macro_rules! each {
            ($($kind:ident),*) => {
                match &mut self.decoded {
                    $(Decoded::$kind(values) => populate(values),)*
                    Decoded::Views(values) => populate(&mut values.views),
                    Decoded::Strings(values) => populate(&mut values.offsets),
                }
            };
        }
        each!(Boolean, I8, I16, I32, I64, U8, U16, U32, U64, I128, F64, F32, Codes);
    }

    /// A buffer of stored values: 64-bit integers for all types that are stored as such, codes for strings of a segment
    /// with a dictionary of them, and otherwise the buffer of [`ColumnBuffer::new`].
    pub fn stored(data_type: &DataType, has_dictionary: bool) -> Self {
        let decoded = match kind(data_type) {
            Kind::Int => Decoded::I64(vec![]),
            Kind::Bytes if has_dictionary => Decoded::Codes(vec![]),
            _ => return Self::new(data_type),
        };
        ColumnBuffer { data_type: data_type.clone(), decoded, validity: vec![] }
    }

    /// Clears the buffer but not its memory, if [`ColumnBuffer::stored`] would give the same kind of buffer for these
    /// arguments. Returns whether it did.
    pub fn recycle(&mut self, data_type: &DataType, has_dictionary: bool) -> bool {
        let is_same = &self.data_type == data_type && matches!(self.decoded, Decoded::Codes(_)) == has_dictionary;
        self.validity.clear();
        match &mut self.decoded {
            Decoded::I64(v) if is_same => v.clear(),
            Decoded::Codes(v) if is_same => v.clear(),
            _ => return false,
        }
        true
    }

    /// The validity of rows: bit `i` of word `i / 64` is set if row `i` is not NULL. `None` if no row is NULL.
    pub fn valid_rows(&self) -> Option<&[u64]> {
        (!self.validity.is_empty()).then_some(&self.validity[..])
    }

    /// Which rows are not NULL, if any is NULL. The buffer forgets it.
    pub fn take_nulls(&mut self) -> Option<NullBuffer> {
        let len = self.len();
        nulls_of(std::mem::take(&mut self.validity), len)
    }

    /// The number of decoded rows.
    pub fn len(&self) -> usize {
        match &self.decoded {
            Decoded::Boolean(v) | Decoded::U8(v) => v.len(),
            Decoded::I8(v) => v.len(),
            Decoded::I16(v) => v.len(),
            Decoded::I32(v) => v.len(),
            Decoded::I64(v) => v.len(),
            Decoded::U16(v) => v.len(),
            Decoded::U32(v) => v.len(),
            Decoded::U64(v) => v.len(),
            Decoded::I128(v) => v.len(),
            Decoded::F64(v) => v.len(),
            Decoded::F32(v) => v.len(),
            Decoded::Codes(v) => v.len(),
            Decoded::Views(v) => v.len(),
            Decoded::Strings(v) => v.len(),
        }
    }

    /// Whether nothing was decoded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the validity of `len` rows, starting at row `at`. `fill` sets bits of zeroed words.
    pub fn validity(&mut self, at: usize, len: usize, fill: impl FnOnce(&mut [u64], usize)) {
        self.valid_up_to(at);
        self.validity.resize(bitmap::words(at + len), 0);
        fill(&mut self.validity, at);
    }

    /// Marks rows as not NULL, if there were NULLs before.
    pub fn valid(&mut self, at: usize, len: usize) {
        if !self.validity.is_empty() {
            self.validity.resize(bitmap::words(at + len), 0);
            (at..at + len).for_each(|row| bitmap::set(&mut self.validity, row));
        }
    }

    fn valid_up_to(&mut self, rows: usize) {
        if self.validity.is_empty() {
            self.validity = bitmap::ones(rows);
        }
    }

    /// The decoded `Utf8` or `Binary` strings, and which of them are NULL.
    ///
    /// # Errors
    /// The bytes of a text column are not UTF-8, or the column has another type.
    pub fn finish_strings(self) -> Result<(OffsetStrings, Option<NullBuffer>), String> {
        let Decoded::Strings(texts) = self.decoded else { return Err(format!("no strings, but {}", self.data_type)) };
        if self.data_type == DataType::Utf8 {
            check_utf8(&texts)?;
        }
        let nulls = nulls_of(self.validity, texts.len());
        Ok((texts, nulls))
    }

    /// The Arrow array of the decoded values.
    ///
    /// # Errors
    /// The bytes of a text column are not UTF-8.
    pub fn finish(self) -> Result<ArrayRef, String> {
        let len = self.len();
        let nulls = nulls_of(self.validity, len);
        fn primitive<T: ArrowPrimitiveType>(v: Vec<T::Native>, nulls: Option<NullBuffer>, t: &DataType) -> ArrayRef {
            Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(v), nulls).with_data_type(t.clone()))
        }
        let t = &self.data_type;
        use TimeUnit::*;
        Ok(match (self.decoded, t) {
            (Decoded::Boolean(v), _) => {
                Arc::new(BooleanArray::new(BooleanBuffer::collect_bool(len, |i| v[i] != 0), nulls))
            }
            (Decoded::I8(v), _) => primitive::<Int8Type>(v, nulls, t),
            (Decoded::I16(v), _) => primitive::<Int16Type>(v, nulls, t),
            (Decoded::I32(v), DataType::Int32) => primitive::<Int32Type>(v, nulls, t),
            (Decoded::I32(v), DataType::Date32) => primitive::<Date32Type>(v, nulls, t),
            (Decoded::I32(v), DataType::Time32(Second)) => primitive::<Time32SecondType>(v, nulls, t),
            (Decoded::I32(v), _) => primitive::<Time32MillisecondType>(v, nulls, t),
            (Decoded::U8(v), _) => primitive::<UInt8Type>(v, nulls, t),
            (Decoded::U16(v), _) => primitive::<UInt16Type>(v, nulls, t),
            (Decoded::U32(v), _) => primitive::<UInt32Type>(v, nulls, t),
            (Decoded::U64(mut v), _) => {
                v.iter_mut().for_each(|x| *x ^= U64_SHIFT);
                primitive::<UInt64Type>(v, nulls, t)
            }
            (Decoded::I128(v), _) => primitive::<Decimal128Type>(v, nulls, t),
            (Decoded::F64(v), _) => Arc::new(Float64Array::new(v.into(), nulls)),
            (Decoded::F32(v), _) => Arc::new(Float32Array::new(v.into(), nulls)),
            (Decoded::I64(v), DataType::Time64(Microsecond)) => primitive::<Time64MicrosecondType>(v, nulls, t),
            (Decoded::I64(v), DataType::Time64(_)) => primitive::<Time64NanosecondType>(v, nulls, t),
            (Decoded::I64(v), DataType::Timestamp(Second, _)) => primitive::<TimestampSecondType>(v, nulls, t),
            (Decoded::I64(v), DataType::Timestamp(Millisecond, _)) => {
                primitive::<TimestampMillisecondType>(v, nulls, t)
            }
            (Decoded::I64(v), DataType::Timestamp(Microsecond, _)) => {
                primitive::<TimestampMicrosecondType>(v, nulls, t)
            }
            (Decoded::I64(v), DataType::Timestamp(Nanosecond, _)) => primitive::<TimestampNanosecondType>(v, nulls, t),
            (Decoded::I64(v), _) => primitive::<Int64Type>(v, nulls, t),
            (Decoded::Codes(_), _) => return Err("codes stay with their segment's dictionary".into()),
            (Decoded::Strings(v), DataType::Utf8) => return strings(v, nulls),
            (Decoded::Strings(v), _) => {
                let offsets = OffsetBuffer::new(ScalarBuffer::from(v.offsets));
                Arc::new(BinaryArray::try_new(offsets, Buffer::from_vec(v.data), nulls).map_err(|e| e.to_string())?)
            }
            (Decoded::Views(v), DataType::Utf8View) => return string_views(v, nulls),
            (Decoded::Views(v), data_type) => {
                let (views, buffers) = view_parts(v);
                let bytes = BinaryViewArray::try_new(views, buffers, nulls).map_err(|e| e.to_string())?;
                if is_encoded(data_type) { nested::decode(&bytes, data_type)? } else { Arc::new(bytes) }
            }
        })
    }
}

/// The texts of a segment's dictionary, by their codes.
///
/// # Errors
/// The bytes are not UTF-8.
pub fn dictionary_texts(dictionary: &Shared) -> Result<ArrayRef, String> {
    let buffers = dictionary.dictionary_buffer().into_iter().cloned().collect();
    string_views(Views { views: dictionary.views().to_vec(), buffers, open: vec![] }, None)
}

/// The NULLs of `len` rows, if there are any, from their validity. No words mean that no row is NULL.
fn nulls_of(validity: Vec<u64>, len: usize) -> Option<NullBuffer> {
    let nulls = (!validity.is_empty()).then(|| NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(validity), 0, len)));
    nulls.filter(|nulls| nulls.null_count() > 0)
}

fn view_parts(mut views: Views) -> (ScalarBuffer<u128>, Vec<Buffer>) {
    views.seal();
    let buffers = views.buffers.into_iter().map(shared_buffer).collect();
    (ScalarBuffer::from(views.views), buffers)
}

/// An Arrow buffer that references the shared bytes without a copy.
fn shared_buffer(bytes: Arc<Vec<u8>>) -> Buffer {
    struct Owner(#[allow(dead_code)] Arc<Vec<u8>>);
    let pointer = std::ptr::NonNull::from(&bytes[..]).cast::<u8>();
    let len = bytes.len();
    // SAFETY: the pointer and length are those of `bytes`. `Owner` keeps them alive, and nobody can change them behind
    // its `Arc`. A `Vec`'s buffer does not move with the `Arc`.
    unsafe { Buffer::from_custom_allocation(pointer, len, Arc::new(Owner(bytes))) }
}

fn strings(texts: OffsetStrings, nulls: Option<NullBuffer>) -> Result<ArrayRef, String> {
    check_utf8(&texts)?;
    if nulls.as_ref().is_some_and(|nulls| nulls.len() != texts.len()) {
        return Err(format!("validity of other rows than {} strings", texts.len()));
    }
    let (offsets, data) = (OffsetBuffer::new(ScalarBuffer::from(texts.offsets)), Buffer::from_vec(texts.data));
    // SAFETY: the offsets ascend up to at most the end of the data, as their buffer has just checked. Each string
    // between them was checked to be UTF-8. `nulls` has one bit per string.
    Ok(Arc::new(unsafe { StringArray::new_unchecked(offsets, data, nulls) }))
}

/// Checks that the strings end within the data and that each is UTF-8. Arrow's own check visits every string even if
/// all are ASCII.
fn check_utf8(texts: &OffsetStrings) -> Result<(), String> {
    let (end, bytes) = (texts.offsets.last().map_or(0, |end| *end as usize), texts.data.len());
    if end > bytes {
        return Err(format!("strings that end at {end} of {bytes} bytes"));
    }
    if texts.data.is_ascii() {
        return Ok(());
    }
    let text = std::str::from_utf8(&texts.data).map_err(|e| format!("strings that are not UTF-8: {e}"))?;
    match texts.offsets.iter().find(|at| !text.is_char_boundary(**at as usize)) {
        None => Ok(()),
        Some(at) => Err(format!("strings that are not UTF-8: one is cut within a character, at byte {at}")),
    }
}

fn string_views(views: Views, nulls: Option<NullBuffer>) -> Result<ArrayRef, String> {
    let (views, buffers) = view_parts(views);
    if is_ascii(&views, &buffers) {
        // SAFETY: every view was found to be inline or within the buffer that it names, and all their bytes to be
        // ASCII, which is UTF-8 however it is sliced. `nulls` has one bit per view, since both were decoded together.
        return Ok(Arc::new(unsafe { StringViewArray::new_unchecked(views, buffers, nulls) }));
    }
    Ok(Arc::new(StringViewArray::try_new(views, buffers, nulls).map_err(|e| e.to_string())?))
}

/// Whether all strings are within their buffers and ASCII. Arrow's own check visits every string. This one visits every
/// buffer, and returns false if the buffers contain much more than the strings.
fn is_ascii(views: &[u128], buffers: &[Buffer]) -> bool {
    const HIGH_BITS: u128 = 0x8080_8080_8080_8080_8080_8080 << 32;
    let bytes: usize = buffers.iter().map(|buffer| buffer.len()).sum();
    let is_inside = |view: &u128| match *view as u32 as usize {
        0..=12 => view & HIGH_BITS == 0,
        len => {
            let (buffer, at) = ((*view >> 64) as u32 as usize, (*view >> 96) as usize);
            buffers.get(buffer).is_some_and(|buffer| at + len <= buffer.len())
        }
    };
    bytes <= 64 * views.len() && buffers.iter().all(|buffer| buffer.is_ascii()) && views.iter().all(is_inside)
}

/// The decoded value of a stored integer, as text, for tests and table functions.
pub fn display_int(value: i128, data_type: &DataType) -> String {
    use arrow_array::temporal_conversions as convert;
    use arrow_array::types::DecimalType;
    match data_type {
        DataType::Boolean => (value != 0).to_string(),
        DataType::UInt64 => ((value as i64 as u64) ^ U64_SHIFT).to_string(),
        DataType::Decimal128(_, scale) => Decimal128Type::format_decimal(value, 38, *scale),
        DataType::Date32 => {
            convert::date32_to_datetime(value as i32).map_or_else(|| value.to_string(), |d| d.date().to_string())
        }
        DataType::Timestamp(unit, _) => {
            let v = value as i64;
            let time = match unit {
                TimeUnit::Second => convert::timestamp_s_to_datetime(v),
                TimeUnit::Millisecond => convert::timestamp_ms_to_datetime(v),
                TimeUnit::Microsecond => convert::timestamp_us_to_datetime(v),
                TimeUnit::Nanosecond => convert::timestamp_ns_to_datetime(v),
            };
            time.map_or_else(|| value.to_string(), |t| t.to_string())
        }
        DataType::Time32(unit) | DataType::Time64(unit) => {
            let time = match unit {
                TimeUnit::Second => convert::time32s_to_time(value as i32),
                TimeUnit::Millisecond => convert::time32ms_to_time(value as i32),
                TimeUnit::Microsecond => convert::time64us_to_time(value as i64),
                TimeUnit::Nanosecond => convert::time64ns_to_time(value as i64),
            };
            time.map_or_else(|| value.to_string(), |t| t.to_string())
        }
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(data_type: &DataType, offsets: &[i32], data: &[u8]) -> ColumnBuffer {
        let mut column = ColumnBuffer::new(data_type);
        column.decoded = Decoded::Strings(OffsetStrings { offsets: offsets.to_vec(), data: data.to_vec() });
        column
    }

    #[test]
    fn strings_are_text_each_by_itself() {
        let whole = "aßc".as_bytes();
        for (offsets, data, is_text) in [
            (&[0, 1, 3][..], &b"abc"[..], true),
            (&[0, 1, 3, 4], whole, true),
            (&[0, 1, 2, 4], whole, false),
            (&[0, 1, 3], b"a\xFFc", false),
            (&[0], b"", true),
        ] {
            let array = column(&DataType::Utf8, offsets, data).finish();
            let texts = column(&DataType::Utf8, offsets, data).finish_strings();
            assert_eq!((array.is_ok(), texts.is_ok()), (is_text, is_text), "{offsets:?} of {data:?}");
            assert!(column(&DataType::Binary, offsets, data).finish_strings().is_ok());
            if let (Ok(array), Ok((texts, nulls))) = (array, texts) {
                array.to_data().validate_full().expect("a valid array");
                assert_eq!((array.len(), nulls), (texts.len(), None));
            }
        }
        assert!(column(&DataType::Utf8, &[0, 5], b"abcd").finish().is_err(), "beyond the end");
        assert!(ColumnBuffer::new(&DataType::Int64).finish_strings().is_err());
    }

    #[test]
    fn nulls_of_strings_come_with_them() {
        let mut texts = column(&DataType::Utf8, &[0, 1, 1, 2], b"ab");
        texts.validity(0, 3, |words, _| words[0] = 0b101);
        let (_, nulls) = texts.finish_strings().expect("text");
        let nulls = nulls.expect("a NULL");
        assert_eq!((nulls.null_count(), nulls.is_null(1)), (1, true));
    }
}
