//! The values of pages and dictionaries, in the types in which Parquet stores them, and Arrow arrays of some of them.

use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::types::ArrowPrimitiveType;
use datafusion::arrow::array::{
    Array, ArrayRef, BinaryViewArray, BooleanArray, DictionaryArray, PrimitiveArray, StringArray, StringViewArray,
};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use datafusion::arrow::datatypes::*;
use parquet::basic::Type as Physical;
use parquet::errors::{ParquetError, Result};
use parquet::schema::types::ColumnDescriptor;

/// How a column is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    I32,
    I64,
    F32,
    F64,
    /// Big-endian integers of this many bytes, at most 16.
    Fixed(usize),
    Text,
    /// Texts in a page whose bytes, lengths included, are UTF-8.
    CheckedText,
    Binary,
    Bits,
}

/// Values of a column, one per row. What NULL rows hold has no meaning.
#[derive(Debug, Clone)]
pub(super) enum Values {
    I32(Vec<i32>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    I128(Vec<i128>),
    /// Arrow's views, and the pages that they name.
    Views(Vec<u128>, Vec<Buffer>),
    Bits(Vec<bool>),
}

/// The longest value that a view holds itself.
const INLINE_BYTES: usize = 12;

impl Kind {
    /// The kind of a column that can be read in a type; `None` if it cannot.
    pub fn of(column: &ColumnDescriptor, data_type: &DataType) -> Option<Kind> {
        use DataType::*;
        let is_decimal = matches!(data_type, Decimal64(..) | Decimal128(..));
        let is_text = |kind: &DataType| match kind {
            Dictionary(codes, texts) => **codes == UInt32 && **texts == Utf8,
            kind => *kind == Utf8View,
        };
        match column.physical_type() {
            Physical::INT32 if is_decimal => Some(Kind::I32),
            Physical::INT32 => matches!(
                data_type,
                Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32 | Date32 | Time32(TimeUnit::Millisecond)
            )
            .then_some(Kind::I32),
            Physical::INT64 if is_decimal => Some(Kind::I64),
            Physical::INT64 => matches!(
                data_type,
                Int64
                    | UInt64
                    | Time64(_)
                    | Timestamp(TimeUnit::Millisecond | TimeUnit::Microsecond | TimeUnit::Nanosecond, _)
            )
            .then_some(Kind::I64),
            Physical::FLOAT => (*data_type == Float32).then_some(Kind::F32),
            Physical::DOUBLE => (*data_type == Float64).then_some(Kind::F64),
            Physical::BOOLEAN => (*data_type == Boolean).then_some(Kind::Bits),
            Physical::BYTE_ARRAY if is_text(data_type) => Some(Kind::Text),
            Physical::BYTE_ARRAY => (*data_type == BinaryView).then_some(Kind::Binary),
            Physical::FIXED_LEN_BYTE_ARRAY if is_decimal => {
                usize::try_from(column.type_length()).ok().filter(|bytes| (1..=16).contains(bytes)).map(Kind::Fixed)
            }
            _ => None,
        }
    }

    /// No values yet.
    pub fn empty(self) -> Values {
        match self {
            Kind::I32 => Values::I32(vec![]),
            Kind::I64 => Values::I64(vec![]),
            Kind::F32 => Values::F32(vec![]),
            Kind::F64 => Values::F64(vec![]),
            Kind::Fixed(_) => Values::I128(vec![]),
            Kind::Text | Kind::CheckedText | Kind::Binary => Values::Views(vec![], vec![]),
            Kind::Bits => Values::Bits(vec![]),
        }
    }

    /// The bytes of a value, if all have as many.
    fn width(self) -> Option<usize> {
        match self {
            Kind::I32 | Kind::F32 => Some(4),
            Kind::I64 | Kind::F64 => Some(8),
            Kind::Fixed(bytes) => Some(bytes),
            Kind::Text | Kind::CheckedText | Kind::Binary | Kind::Bits => None,
        }
    }

    /// Appends `count` plain values from byte `at` of a page on (from bit `at` for booleans), and returns the place after
    /// them.
    ///
    /// # Errors
    /// There are fewer, or texts are no UTF-8.
    pub fn read_plain(self, page: &Bytes, at: usize, count: usize, out: &mut Values) -> Result<usize> {
        if let Kind::Bits = self {
            let Values::Bits(out) = out else { return Err(mixed()) };
            let end = at + count;
            if end.div_ceil(8) > page.len() {
                return Err(missing());
            }
            out.extend((at..end).map(|bit| page[bit / 8] >> (bit % 8) & 1 == 1));
            return Ok(end);
        }
        let Some(width) = self.width() else { return self.read_views(page, at, count, out) };
        let end = count.checked_mul(width).and_then(|bytes| at.checked_add(bytes)).ok_or_else(missing)?;
        let bytes = page.get(at..end).ok_or_else(missing)?;
        match out {
            Values::I32(out) => out.extend(bytes.as_chunks().0.iter().map(|v| i32::from_le_bytes(*v))),
            Values::I64(out) => out.extend(bytes.as_chunks().0.iter().map(|v| i64::from_le_bytes(*v))),
            Values::F32(out) => out.extend(bytes.as_chunks().0.iter().map(|v| f32::from_le_bytes(*v))),
            Values::F64(out) => out.extend(bytes.as_chunks().0.iter().map(|v| f64::from_le_bytes(*v))),
            Values::I128(out) => out.extend(bytes.chunks_exact(width).map(big_endian)),
            Values::Views(..) | Values::Bits(_) => return Err(mixed()),
        }
        Ok(end)
    }

    fn read_views(self, page: &Bytes, at: usize, count: usize, out: &mut Values) -> Result<usize> {
        let Values::Views(views, pages) = out else { return Err(mixed()) };
        let is_same = |last: &Buffer| last.as_ptr() == page.as_ptr() && last.len() == page.len();
        let buffer = match pages.last().is_some_and(is_same) {
            true => pages.len() - 1,
            false => pages.len(),
        };
        // Each value has at least its length.
        if count > page.len() / 4 {
            return Err(missing());
        }
        let (mut at, mut is_named) = (at, false);
        views.reserve(count);
        for _ in 0..count {
            let (value, end) = long_value(page, at)?;
            let is_checked = match self {
                Kind::Text => false,
                Kind::CheckedText => page.get(end).is_none_or(u8::is_ascii),
                _ => true,
            };
            if !is_checked && std::str::from_utf8(value).is_err() {
                return Err(ParquetError::General("a text is not UTF-8".into()));
            }
            is_named |= value.len() > INLINE_BYTES;
            views.push(view(value, buffer, end - value.len())?);
            at = end;
        }
        if is_named && buffer == pages.len() {
            pages.push(Buffer::from(page.clone()));
        }
        Ok(at)
    }

    /// The place after `count` plain values.
    ///
    /// # Errors
    /// There are fewer.
    pub fn skip_plain(self, page: &Bytes, at: usize, count: usize) -> Result<usize> {
        match self.width() {
            Some(width) => count.checked_mul(width).and_then(|bytes| at.checked_add(bytes)).ok_or_else(missing),
            None if self == Kind::Bits => at.checked_add(count).ok_or_else(missing),
            None => (0..count).try_fold(at, |at, _| Ok(long_value(page, at)?.1)),
        }
    }
}

/// The error of a page that has fewer values than it claims.
pub(super) fn missing() -> ParquetError {
    ParquetError::EOF("a page has fewer values than it claims".into())
}

/// Values of several kinds are never in one column.
fn mixed() -> ParquetError {
    ParquetError::General("values of several types in one column".into())
}

/// The bytes of a value that its length precedes, and the place after it.
fn long_value(page: &[u8], at: usize) -> Result<(&[u8], usize)> {
    let length = page.get(at..).and_then(|rest| rest.first_chunk()).ok_or_else(missing)?;
    let length = u32::from_le_bytes(*length) as usize;
    let value = page[at + 4..].get(..length).ok_or_else(missing)?;
    Ok((value, at + 4 + length))
}

/// Arrow's view of a value at a place of a buffer.
fn view(value: &[u8], buffer: usize, at: usize) -> Result<u128> {
    let mut view = [0; 16];
    view[..4].copy_from_slice(&(value.len() as u32).to_le_bytes());
    if value.len() <= INLINE_BYTES {
        view[4..4 + value.len()].copy_from_slice(value);
        return Ok(u128::from_le_bytes(view));
    }
    let too_large = |_| ParquetError::General("a page of more than 4 GB".into());
    view[4..8].copy_from_slice(&value[..4]);
    view[8..12].copy_from_slice(&u32::try_from(buffer).map_err(too_large)?.to_le_bytes());
    view[12..].copy_from_slice(&u32::try_from(at).map_err(too_large)?.to_le_bytes());
    Ok(u128::from_le_bytes(view))
}

/// A big-endian integer of at most 16 bytes.
fn big_endian(bytes: &[u8]) -> i128 {
    let fill = if bytes.first().is_some_and(|first| *first >= 0x80) { 0xff } else { 0 };
    let mut wide = [fill; 16];
    wide[16 - bytes.len()..].copy_from_slice(bytes);
    i128::from_be_bytes(wide)
}

/// Runs an expression with the vector of any values.
macro_rules! each {
    ($values:expr, $v:ident => $body:expr) => {
        match $values {
            Values::I32($v) => $body,
            Values::I64($v) => $body,
            Values::F32($v) => $body,
            Values::F64($v) => $body,
            Values::I128($v) => $body,
            Values::Views($v, _) => $body,
            Values::Bits($v) => $body,
        }
    };
}

impl Values {
    /// The number of values.
    pub fn len(&self) -> usize {
        each!(self, v => v.len())
    }

    /// The values at these places, of which only those at `left` are taken, if it is given. All are below [`Values::len`].
    pub fn at(&self, places: &[u32], left: Option<&[u32]>) -> Values {
        fn taken<T: Copy>(values: &[T], places: &[u32], left: Option<&[u32]>) -> Vec<T> {
            match left {
                None => places.iter().map(|at| values[*at as usize]).collect(),
                Some(left) => left.iter().map(|row| values[places[*row as usize] as usize]).collect(),
            }
        }
        match self {
            Values::I32(v) => Values::I32(taken(v, places, left)),
            Values::I64(v) => Values::I64(taken(v, places, left)),
            Values::F32(v) => Values::F32(taken(v, places, left)),
            Values::F64(v) => Values::F64(taken(v, places, left)),
            Values::I128(v) => Values::I128(taken(v, places, left)),
            Values::Views(v, pages) => Values::Views(taken(v, places, left), pages.clone()),
            Values::Bits(v) => Values::Bits(taken(v, places, left)),
        }
    }

    /// Appends other values of the same kind.
    ///
    /// # Errors
    /// They are of another kind.
    pub fn append(&mut self, other: Values) -> Result<()> {
        match (self, other) {
            (Values::I32(a), Values::I32(b)) => a.extend(b),
            (Values::I64(a), Values::I64(b)) => a.extend(b),
            (Values::F32(a), Values::F32(b)) => a.extend(b),
            (Values::F64(a), Values::F64(b)) => a.extend(b),
            (Values::I128(a), Values::I128(b)) => a.extend(b),
            (Values::Bits(a), Values::Bits(b)) => a.extend(b),
            (Values::Views(a, pages), Values::Views(b, more)) => {
                let moved = (pages.len() as u128) << 64;
                a.extend(b.iter().map(|view| if *view as u32 as usize > INLINE_BYTES { view + moved } else { *view }));
                pages.extend(more);
            }
            _ => return Err(mixed()),
        }
        Ok(())
    }

    /// Moves the values to the rows that are not NULL.
    pub fn spread(&mut self, valid: &[bool]) {
        each!(self, v => spread(v, valid));
    }

    /// The array of a type for which [`Kind::of`] was some.
    ///
    /// # Errors
    /// A value does not fit the type.
    pub fn into_array(self, nulls: Option<NullBuffer>, data_type: &DataType) -> Result<ArrayRef> {
        use DataType::*;
        Ok(match (self, data_type) {
            (Values::I32(v), Int8) => narrowed::<Int8Type, _>(&v, nulls, data_type, |v| v as i8),
            (Values::I32(v), Int16) => narrowed::<Int16Type, _>(&v, nulls, data_type, |v| v as i16),
            (Values::I32(v), UInt8) => narrowed::<UInt8Type, _>(&v, nulls, data_type, |v| v as u8),
            (Values::I32(v), UInt16) => narrowed::<UInt16Type, _>(&v, nulls, data_type, |v| v as u16),
            (Values::I32(v), UInt32) => narrowed::<UInt32Type, _>(&v, nulls, data_type, |v| v as u32),
            (Values::I32(v), Int32) => same::<Int32Type>(v, nulls, data_type),
            (Values::I32(v), Date32) => same::<Date32Type>(v, nulls, data_type),
            (Values::I32(v), Time32(_)) => same::<Time32MillisecondType>(v, nulls, data_type),
            (Values::I32(v), Decimal64(..)) => narrowed::<Decimal64Type, _>(&v, nulls, data_type, i64::from),
            (Values::I32(v), Decimal128(..)) => narrowed::<Decimal128Type, _>(&v, nulls, data_type, i128::from),
            (Values::I64(v), Int64) => same::<Int64Type>(v, nulls, data_type),
            (Values::I64(v), UInt64) => narrowed::<UInt64Type, _>(&v, nulls, data_type, |v| v as u64),
            (Values::I64(v), Time64(TimeUnit::Microsecond)) => same::<Time64MicrosecondType>(v, nulls, data_type),
            (Values::I64(v), Time64(_)) => same::<Time64NanosecondType>(v, nulls, data_type),
            (Values::I64(v), Timestamp(TimeUnit::Millisecond, _)) => {
                same::<TimestampMillisecondType>(v, nulls, data_type)
            }
            (Values::I64(v), Timestamp(TimeUnit::Microsecond, _)) => {
                same::<TimestampMicrosecondType>(v, nulls, data_type)
            }
            (Values::I64(v), Timestamp(_, _)) => same::<TimestampNanosecondType>(v, nulls, data_type),
            (Values::I64(v), Decimal64(..)) => same::<Decimal64Type>(v, nulls, data_type),
            (Values::I64(v), Decimal128(..)) => narrowed::<Decimal128Type, _>(&v, nulls, data_type, i128::from),
            (Values::I128(v), Decimal128(..)) => same::<Decimal128Type>(v, nulls, data_type),
            (Values::I128(v), Decimal64(..)) => {
                let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
                if let Some(row) = (0..v.len()).find(|row| is_valid(*row) && i64::try_from(v[*row]).is_err()) {
                    return Err(ParquetError::General(format!("{} is outside of {data_type}", v[row])));
                }
                narrowed::<Decimal64Type, _>(&v, nulls, data_type, |v| v as i64)
            }
            (Values::F32(v), Float32) => same::<Float32Type>(v, nulls, data_type),
            (Values::F64(v), Float64) => same::<Float64Type>(v, nulls, data_type),
            (Values::Bits(v), Boolean) => Arc::new(BooleanArray::new(BooleanBuffer::from(v), nulls)),
            (Values::Views(views, pages), BinaryView) => {
                Arc::new(BinaryViewArray::try_new(views.into(), pages, nulls)?)
            }
            (Values::Views(views, pages), Utf8View) => Arc::new(texts(views, pages, nulls)),
            (Values::Views(views, pages), Dictionary(..)) => {
                let texts = dictionary_texts(views, pages);
                let codes: ScalarBuffer<u32> = (0..texts.len() as u32).collect();
                Arc::new(DictionaryArray::<UInt32Type>::try_new(PrimitiveArray::new(codes, nulls), Arc::new(texts))?)
            }
            _ => return Err(mixed()),
        })
    }
}

/// Moves values to the rows that are not NULL; there is one for each of these.
pub(super) fn spread<T: Copy + Default>(values: &mut Vec<T>, valid: &[bool]) {
    let mut next = values.len();
    values.resize(valid.len(), T::default());
    for (row, valid) in valid.iter().enumerate().rev() {
        next -= usize::from(*valid);
        values[row] = if *valid { values[next] } else { T::default() };
    }
}

/// An array of texts that were checked when they were read.
fn texts(views: Vec<u128>, pages: Vec<Buffer>, nulls: Option<NullBuffer>) -> StringViewArray {
    // SAFETY: `Kind::read_views` makes a view only of UTF-8 bytes at its place of its page, `Values::append` moves the
    // number of the page with the pages, and a NULL row has zero, which is the empty text.
    unsafe { StringViewArray::new_unchecked(views.into(), pages, nulls) }
}

/// The texts of a dictionary, of which none is NULL.
pub(super) fn dictionary_texts(views: Vec<u128>, pages: Vec<Buffer>) -> StringArray {
    texts(views, pages, None).iter().map(Option::unwrap_or_default).map(Some).collect()
}

fn same<T: ArrowPrimitiveType>(values: Vec<T::Native>, nulls: Option<NullBuffer>, data_type: &DataType) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values.into(), nulls).with_data_type(data_type.clone()))
}

fn narrowed<T: ArrowPrimitiveType, V: Copy>(
    values: &[V],
    nulls: Option<NullBuffer>,
    data_type: &DataType,
    f: impl Fn(V) -> T::Native,
) -> ArrayRef {
    same::<T>(values.iter().map(|v| f(*v)).collect(), nulls, data_type)
}
