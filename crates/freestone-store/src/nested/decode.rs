//! Encoded values → Arrow arrays. The bytes come from outside: every length is checked.

use std::sync::Arc;

use arrow_array::builder::{BinaryViewBuilder, StringViewBuilder};
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, FixedSizeListArray, ListArray, MapArray,
    PrimitiveArray, StructArray, downcast_primitive,
};
use arrow_buffer::{BooleanBufferBuilder, MutableBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, FieldRef};

use super::null_bytes;

/// The array of a stored type with these encoded values.
///
/// # Errors
/// The bytes are not those of values of the type.
pub(crate) fn decode(values: &BinaryViewArray, data_type: &DataType) -> Result<ArrayRef, String> {
    let mut decoder = Decoder::new(data_type)?;
    for row in 0..values.len() {
        if values.is_null(row) {
            decoder.null()?;
            continue;
        }
        let mut input = Input { rest: values.value(row) };
        decoder.value(&mut input)?;
        if !input.rest.is_empty() {
            return Err(format!("{} bytes follow a value of type {data_type}", input.rest.len()));
        }
    }
    decoder.finish()
}

struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], String> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or("a nested value ends early")?;
        self.rest = rest;
        Ok(head)
    }

    fn u8(&mut self) -> Result<u8, String> {
        Ok(self.take(1)?[0])
    }

    fn varint(&mut self) -> Result<u64, String> {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let byte = self.u8()?;
            if shift > 56 {
                return Err("a length in a nested value is too long".into());
            }
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return Ok(value);
            }
        }
    }

    fn bytes(&mut self) -> Result<&'a [u8], String> {
        let len = usize::try_from(self.varint()?).map_err(|e| e.to_string())?;
        self.take(len)
    }
}

fn is_set(bits: &[u8], at: usize) -> bool {
    bits[at / 8] & 1 << (at % 8) != 0
}

/// A growing array.
struct Decoder {
    data_type: DataType,
    /// One bit per value; as yet none of them 0 if there are none.
    valid: BooleanBufferBuilder,
    values: Values,
}

enum Values {
    Boolean(BooleanBufferBuilder),
    Fixed { bytes: MutableBuffer, width: usize },
    Text(StringViewBuilder),
    Binary(BinaryViewBuilder),
    List { offsets: Vec<i32>, items: Box<Decoder> },
    FixedList { length: usize, items: Box<Decoder> },
    Struct(Vec<Decoder>),
}

impl Decoder {
    fn new(data_type: &DataType) -> Result<Decoder, String> {
        let items = |field: &FieldRef| Ok::<_, String>(Box::new(Decoder::new(field.data_type())?));
        let values = match data_type {
            DataType::Boolean => Values::Boolean(BooleanBufferBuilder::new(0)),
            DataType::Utf8View => Values::Text(StringViewBuilder::new()),
            DataType::BinaryView => Values::Binary(BinaryViewBuilder::new()),
            DataType::List(field) | DataType::Map(field, _) => Values::List { offsets: vec![0], items: items(field)? },
            DataType::FixedSizeList(field, length) => {
                Values::FixedList { length: usize::try_from(*length).map_err(|e| e.to_string())?, items: items(field)? }
            }
            DataType::Struct(fields) => Values::Struct(
                fields.iter().map(|field| Decoder::new(field.data_type())).collect::<Result<_, String>>()?,
            ),
            other => {
                let width = match other {
                    DataType::FixedSizeBinary(width) => usize::try_from(*width).ok(),
                    other => other.primitive_width(),
                };
                let width = width.ok_or_else(|| format!("no stored values have type {other}"))?;
                Values::Fixed { bytes: MutableBuffer::new(0), width }
            }
        };
        Ok(Decoder { data_type: data_type.clone(), valid: BooleanBufferBuilder::new(0), values })
    }

    fn len(&self) -> usize {
        self.valid.len()
    }

    fn null(&mut self) -> Result<(), String> {
        self.valid.append(false);
        match &mut self.values {
            Values::Boolean(values) => values.append(false),
            Values::Fixed { bytes, width } => bytes.extend_zeros(*width),
            Values::Text(values) => values.append_null(),
            Values::Binary(values) => values.append_null(),
            Values::List { offsets, items } => offsets.push(end_of(items)?),
            Values::FixedList { length, items } => (0..*length).try_for_each(|_| items.null())?,
            Values::Struct(fields) => fields.iter_mut().try_for_each(Decoder::null)?,
        }
        Ok(())
    }

    fn value(&mut self, input: &mut Input<'_>) -> Result<(), String> {
        self.valid.append(true);
        match &mut self.values {
            Values::Boolean(values) => values.append(input.u8()? != 0),
            Values::Fixed { bytes, width } => bytes.extend_from_slice(input.take(*width)?),
            Values::Text(values) => {
                let text = std::str::from_utf8(input.bytes()?).map_err(|e| format!("text that is not UTF-8: {e}"))?;
                values.try_append_value(text).map_err(|e| e.to_string())?;
            }
            Values::Binary(values) => values.try_append_value(input.bytes()?).map_err(|e| e.to_string())?,
            Values::List { offsets, items } => {
                let header = input.varint()?;
                let count = usize::try_from(header >> 1).map_err(|e| e.to_string())?;
                items.run(count, header & 1 != 0, input)?;
                offsets.push(end_of(items)?);
            }
            Values::FixedList { length, items } => {
                let has_nulls = input.u8()? != 0;
                items.run(*length, has_nulls, input)?;
            }
            Values::Struct(fields) => {
                let valid = input.take(null_bytes(fields.len()))?;
                for (at, field) in fields.iter_mut().enumerate() {
                    if is_set(valid, at) { field.value(input)? } else { field.null()? }
                }
            }
        }
        Ok(())
    }

    /// The items of a list.
    fn run(&mut self, count: usize, has_nulls: bool, input: &mut Input<'_>) -> Result<(), String> {
        if let (Values::Fixed { bytes, width }, false) = (&mut self.values, has_nulls) {
            let len = count.checked_mul(*width).ok_or("a list is too long")?;
            bytes.extend_from_slice(input.take(len)?);
            self.valid.append_n(count, true);
            return Ok(());
        }
        let valid = if has_nulls { Some(input.take(null_bytes(count))?) } else { None };
        for at in 0..count {
            if valid.is_none_or(|bits| is_set(bits, at)) { self.value(input)? } else { self.null()? }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<ArrayRef, String> {
        let len = self.len();
        let nulls = Some(NullBuffer::new(self.valid.finish())).filter(|nulls| nulls.null_count() > 0);
        let failed = |e: arrow_schema::ArrowError| e.to_string();
        Ok(match (self.values, &self.data_type) {
            (Values::Boolean(mut values), _) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            (Values::Text(mut values), _) => Arc::new(values.finish()),
            (Values::Binary(mut values), _) => Arc::new(values.finish()),
            (Values::List { offsets, items }, DataType::List(field)) => {
                let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
                Arc::new(ListArray::try_new(field.clone(), offsets, items.finish()?, nulls).map_err(failed)?)
            }
            (Values::List { offsets, items }, DataType::Map(field, ordered)) => {
                let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
                let entries = items.finish()?;
                let entries = entries.as_any().downcast_ref::<StructArray>().ok_or("a map without entries")?;
                let map = MapArray::try_new(field.clone(), offsets, entries.clone(), nulls, *ordered);
                Arc::new(map.map_err(failed)?)
            }
            (Values::FixedList { length, items }, DataType::FixedSizeList(field, _)) => {
                let items = items.finish()?;
                let list = FixedSizeListArray::try_new_with_length(field.clone(), length as i32, items, nulls, len);
                Arc::new(list.map_err(failed)?)
            }
            (Values::Struct(decoders), DataType::Struct(fields)) => {
                let columns = decoders.into_iter().map(Decoder::finish).collect::<Result<Vec<_>, _>>()?;
                Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, len).map_err(failed)?)
            }
            (Values::Fixed { bytes, width }, DataType::FixedSizeBinary(_)) => {
                let array = FixedSizeBinaryArray::try_new(width as i32, bytes.into(), nulls);
                Arc::new(array.map_err(failed)?)
            }
            (Values::Fixed { bytes, .. }, data_type) => return primitive(bytes, len, nulls, data_type),
            (_, other) => return Err(format!("no nested values have type {other}")),
        })
    }
}

/// The end of the items so far.
fn end_of(items: &Decoder) -> Result<i32, String> {
    i32::try_from(items.len()).map_err(|_| "lists of more than 2147483647 items in one batch of rows".to_owned())
}

fn primitive(
    bytes: MutableBuffer,
    len: usize,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> Result<ArrayRef, String> {
    macro_rules! array {
        ($t:ty) => {{
            let values = ScalarBuffer::new(bytes.into(), 0, len);
            let array = PrimitiveArray::<$t>::try_new(values, nulls).map_err(|e| e.to_string())?;
            Ok(Arc::new(array.with_data_type(data_type.clone())))
        }};
    }
    downcast_primitive! {
        data_type => (array),
        other => Err(format!("no nested values have type {other}")),
    }
}
