//! JSON as a part of other JSON. Its Arrow type is that of any text, so it is in a struct of one field, which has a name that no
//! other struct has.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, StructArray};
use arrow::datatypes::{DataType, Field, Fields};

/// The name of the field.
const NAME: &str = "\u{1}freestone.json";

fn fields() -> Fields {
    Fields::from(vec![Field::new(NAME, DataType::Utf8View, true)])
}

/// The type of such JSON.
pub(crate) fn part_type() -> DataType {
    DataType::Struct(fields())
}

/// Texts of JSON as such values.
pub(crate) fn json_part(texts: StringViewArray) -> ArrayRef {
    let (rows, nulls) = (texts.len(), texts.nulls().cloned());
    match StructArray::try_new_with_length(fields(), vec![Arc::new(texts)], nulls, rows) {
        Ok(parts) => Arc::new(parts),
        Err(_) => arrow::array::new_null_array(&part_type(), rows),
    }
}

/// The texts of such values; `None` for others.
pub(crate) fn part_of_json(values: &dyn Array) -> Option<&ArrayRef> {
    match values.data_type() {
        DataType::Struct(fields) if fields.len() == 1 && fields[0].name() == NAME => {
            values.as_struct().columns().first()
        }
        _ => None,
    }
}
