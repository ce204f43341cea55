//! Strings with offsets, which every Arrow library supports, instead of the views that the engine uses.
//!
//! Views are new: libraries that can import them often can neither compare, sort nor select them. So results have
//! offsets unless views are requested. Offsets also need less memory: 4 bytes per string in addition to its text, where
//! views need 16.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteViewType;
use arrow_array::{Array, ArrayRef, BinaryArray, GenericByteViewArray, RecordBatch, RecordBatchOptions, StringArray};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};

use crate::memory::room;

/// The layout of strings and binaries in a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strings {
    /// `Utf8View` and `BinaryView`, as in the engine.
    #[default]
    Views,
    /// `Utf8` and `Binary`.
    Plain,
}

impl Strings {
    /// Views if `wanted` is true, otherwise offsets.
    pub fn views(wanted: bool) -> Self {
        if wanted { Strings::Views } else { Strings::Plain }
    }

    /// Whether strings are views.
    pub fn are_views(self) -> bool {
        self == Strings::Views
    }

    /// The type that a result has for values of `data_type`.
    pub fn data_type(self, data_type: &DataType) -> DataType {
        let nested = |field: &FieldRef| Arc::new(self.field(field));
        match (self, data_type) {
            (Strings::Views, other) => other.clone(),
            (_, DataType::Utf8View) => DataType::Utf8,
            (_, DataType::BinaryView) => DataType::Binary,
            (_, DataType::List(field)) => DataType::List(nested(field)),
            (_, DataType::LargeList(field)) => DataType::LargeList(nested(field)),
            (_, DataType::FixedSizeList(field, len)) => DataType::FixedSizeList(nested(field), *len),
            (_, DataType::Struct(fields)) => DataType::Struct(fields.iter().map(nested).collect()),
            (_, DataType::Map(entries, sorted)) => DataType::Map(nested(entries), *sorted),
            (_, DataType::Dictionary(key, value)) => DataType::Dictionary(key.clone(), self.data_type(value).into()),
            (_, other) => other.clone(),
        }
    }

    fn field(self, field: &Field) -> Field {
        field.clone().with_data_type(self.data_type(field.data_type()))
    }

    /// The schema that a result has for rows of `schema`.
    pub fn schema(self, schema: &SchemaRef) -> SchemaRef {
        if self == Strings::Views {
            return schema.clone();
        }
        let fields: Vec<_> = schema.fields().iter().map(|field| self.field(field)).collect();
        Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
    }

    /// Converts an array to this layout.
    ///
    /// # Errors
    /// The strings of the array have more than 2 GiB, which offsets cannot represent.
    pub fn array(self, array: ArrayRef) -> Result<ArrayRef, ArrowError> {
        match (self, array.data_type()) {
            (Strings::Views, _) => Ok(array),
            (_, DataType::Utf8View) => {
                let array = array.as_string_view();
                let (offsets, values) = with_offsets(array)?;
                // SAFETY: the offsets are those of the strings of a `StringViewArray`, which are UTF-8, concatenated.
                Ok(Arc::new(unsafe { StringArray::new_unchecked(offsets, values, array.nulls().cloned()) }))
            }
            (_, DataType::BinaryView) => {
                let array = array.as_binary_view();
                let (offsets, values) = with_offsets(array)?;
                Ok(Arc::new(BinaryArray::try_new(offsets, values, array.nulls().cloned())?))
            }
            (_, other) => match self.data_type(other) {
                same if same == *other => Ok(array),
                plain => cast(&array, &plain),
            },
        }
    }

    /// Converts a batch to this layout.
    ///
    /// # Errors
    /// As for [`Strings::array`].
    pub fn batch(self, batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
        if self == Strings::Views {
            return Ok(batch);
        }
        let (schema, columns, rows) = batch.into_parts();
        let columns = columns.into_iter().map(|column| self.array(column)).collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema(&schema), columns, &options)
    }
}

/// The size of the fixed copy for short strings, which are inlined in their views, and for the first bytes of long
/// ones.
const INLINE: usize = 12;
const BLOCK: usize = 32;

/// The concatenated strings of an array, empty for NULLs, and the offset of each.
fn with_offsets<T: ByteViewType>(array: &GenericByteViewArray<T>) -> Result<(OffsetBuffer<i32>, Buffer), ArrowError> {
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let bytes_of = |(row, view): (usize, &u128)| match nulls {
        Some(nulls) if nulls.is_null(row) => 0,
        _ => *view as u32 as usize,
    };
    let total: usize = array.views().iter().enumerate().map(bytes_of).sum();
    if i32::try_from(total).is_err() {
        return Err(ArrowError::OffsetOverflowError(total));
    }
    let (mut offsets, mut values): (Vec<i32>, Vec<u8>) = (room(array.len() + 1), room(total + BLOCK));
    offsets.push(0);
    for (row, view) in array.views().iter().enumerate() {
        let len = bytes_of((row, view));
        let end = values.len() + len;
        if len <= INLINE {
            values.extend_from_slice(&(view >> 32).to_le_bytes());
        } else {
            let (buffer, at) = ((view >> 64) as u32 as usize, (view >> 96) as usize);
            let text = &array.data_buffers()[buffer][at..];
            match text.first_chunk::<BLOCK>() {
                Some(block) if len <= BLOCK => values.extend_from_slice(block),
                _ => values.extend_from_slice(&text[..len]),
            }
        }
        // The next string overwrites bytes that were copied beyond the end of one.
        values.truncate(end);
        offsets.push(end as i32);
    }
    Ok((OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from_vec(values)))
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int32Type;
    use arrow_array::{BinaryViewArray, Int32Array, ListArray, StringViewArray, StructArray};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn strings_are_those_of_arrows_own_cast(texts in prop::collection::vec(prop::option::of(".{0,70}"), 0..300), skip in 0usize..20) {
            let views: StringViewArray = texts.iter().collect();
            let skip = skip.min(views.len());
            let views: ArrayRef = Arc::new(views.slice(skip, views.len() - skip));
            let plain = Strings::Plain.array(views.clone()).unwrap();
            plain.to_data().validate_full().unwrap();
            prop_assert_eq!(&plain, &cast(&views, &DataType::Utf8).unwrap());
            let binary = cast(&views, &DataType::BinaryView).unwrap();
            let plain = Strings::Plain.array(binary.clone()).unwrap();
            plain.to_data().validate_full().unwrap();
            prop_assert_eq!(&plain, &cast(&binary, &DataType::Binary).unwrap());
        }
    }

    #[test]
    fn nulls_hide_what_their_views_hold() {
        let views: BinaryViewArray =
            [&b"a text of more than twelve"[..], b"short", b"third"].into_iter().map(Some).collect();
        let (views, buffers, _) = views.into_parts();
        let hidden = BinaryViewArray::new(views, buffers, Some(vec![false, true, false].into()));
        let plain = Strings::Plain.array(Arc::new(hidden)).unwrap();
        assert_eq!(plain.as_binary::<i32>().value_data(), b"short");
        assert_eq!(plain.null_count(), 2);
    }

    #[test]
    fn nested_strings_are_plain_too_and_other_types_stay() {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "b", "a string beyond twelve bytes"]));
        let field = Arc::new(Field::new("item", DataType::Utf8View, true));
        let list: ArrayRef =
            Arc::new(ListArray::new(field, OffsetBuffer::from_lengths([2, 0, 1]), texts.clone(), None));
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
        let nested: ArrayRef =
            Arc::new(StructArray::from(vec![(Arc::new(Field::new("t", DataType::Utf8View, true)), texts)]));
        let batch = RecordBatch::try_from_iter([("l", list), ("n", numbers.clone()), ("s", nested)]).unwrap();
        assert_eq!(Strings::Views.batch(batch.clone()).unwrap(), batch);
        let plain = Strings::Plain.batch(batch.clone()).unwrap();
        assert_eq!(plain.schema(), Strings::Plain.schema(&batch.schema()));
        assert_eq!(
            plain.column(0).as_list::<i32>().values().as_string::<i32>().value(2),
            "a string beyond twelve bytes"
        );
        assert_eq!(plain.column(1).as_primitive::<Int32Type>(), numbers.as_primitive());
        assert_eq!(plain.column(2).as_struct().column(0).data_type(), &DataType::Utf8);
        let none = RecordBatch::new_empty(batch.schema());
        assert_eq!(Strings::Plain.batch(none).unwrap().num_rows(), 0);
    }
}
