//! Forms of Arrow's arrays that the engine does not compute with: run-end encoded values, list views, booleans of a byte, and
//! dictionaries with NULL among their values. Callers' tables are given in the usual forms instead.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, make_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::error::ArrowError;

/// The metadata of a field with the name of its extension type.
const EXTENSION: &str = "ARROW:extension:name";
/// The extension type of booleans of a byte.
const BOOL8: &str = "arrow.bool8";

/// The type of a field in the usual form.
pub(crate) fn usual_type_of(field: &Field) -> DataType {
    match field.metadata().get(EXTENSION) {
        Some(name) if name == BOOL8 => DataType::Boolean,
        _ => usual_type(field.data_type()),
    }
}

/// The type in the usual form, also inside of nested types.
fn usual_type(data_type: &DataType) -> DataType {
    let usual = |field: &FieldRef| -> FieldRef {
        let inner = usual_type_of(field);
        match inner == *field.data_type() {
            true => field.clone(),
            false => Arc::new(Field::new(field.name(), inner, field.is_nullable())),
        }
    };
    match data_type {
        DataType::RunEndEncoded(_, values) => usual_type_of(values),
        DataType::List(item) | DataType::ListView(item) => DataType::List(usual(item)),
        DataType::LargeList(item) | DataType::LargeListView(item) => DataType::LargeList(usual(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(usual(item), *length),
        DataType::Map(entries, is_sorted) => DataType::Map(usual(entries), *is_sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(usual).collect()),
        other => other.clone(),
    }
}

/// The column of a field in the usual form.
///
/// # Errors
/// The array is damaged.
pub(crate) fn in_usual_form(array: &ArrayRef, field: &Field) -> Result<ArrayRef, ArrowError> {
    let wanted = usual_type_of(field);
    if wanted == *array.data_type() { with_null_codes(array) } else { with_null_codes(&cast(array, &wanted)?) }
}

/// The array with codes that are NULL where their values are, also inside of nested values.
fn with_null_codes(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if !has_codes(array.data_type()) {
        return Ok(Arc::clone(array));
    }
    let data = array.to_data();
    if let Some(codes) = array.as_any_dictionary_opt() {
        return match codes.values().null_count() {
            0 => Ok(Arc::clone(array)),
            _ => Ok(make_array(data.into_builder().nulls(array.logical_nulls()).build()?)),
        };
    }
    let parts = data.child_data().iter().map(|part| Ok(with_null_codes(&make_array(part.clone()))?.to_data()));
    let parts = parts.collect::<Result<Vec<_>, ArrowError>>()?;
    Ok(make_array(data.into_builder().child_data(parts).build()?))
}

fn has_codes(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(..) => true,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => has_codes(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_codes(field.data_type())),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow::array::{
        DictionaryArray, Int8Array, Int32Array, ListArray, ListViewArray, RunArray, StringArray, StructArray,
    };
    use arrow::datatypes::{Int8Type, Int32Type};

    use super::*;

    fn converted(array: ArrayRef) -> ArrayRef {
        let field = Field::new("a", array.data_type().clone(), true);
        let made = in_usual_form(&array, &field).expect("an array");
        assert_eq!(*made.data_type(), usual_type_of(&field));
        made
    }

    fn runs() -> ArrayRef {
        let (ends, values) = (Int32Array::from(vec![2, 5]), StringArray::from(vec![Some("x"), None]));
        Arc::new(RunArray::<Int32Type>::try_new(&ends, &values).expect("runs").slice(1, 3))
    }

    #[test]
    fn runs_and_views_are_plain() {
        let expected = StringArray::from(vec![Some("x"), None, None]);
        assert_eq!(converted(runs()).as_ref(), &expected as &dyn Array);
        let field = Arc::new(Field::new("r", runs().data_type().clone(), true));
        let nested = converted(Arc::new(StructArray::new(vec![field].into(), vec![runs()], None)));
        assert_eq!(nested.as_struct().column(0).as_ref(), &expected as &dyn Array);
        let lists = || vec![Some(vec![Some(1), None]), None, Some(vec![])];
        let views = ListViewArray::from_iter_primitive::<Int32Type, _, _>(lists());
        let expected = ListArray::from_iter_primitive::<Int32Type, _, _>(lists());
        assert_eq!(converted(Arc::new(views)).as_ref(), &expected as &dyn Array);
    }

    #[test]
    fn codes_of_null_are_null() {
        let codes = Int8Array::from(vec![Some(0), Some(1), None, Some(0)]);
        let values = StringArray::from(vec![None, Some("x")]);
        let coded: ArrayRef = Arc::new(DictionaryArray::<Int8Type>::new(codes, Arc::new(values)));
        let field = Arc::new(Field::new("d", coded.data_type().clone(), true));
        let nested = converted(Arc::new(StructArray::new(vec![field].into(), vec![coded.clone()], None)));
        for made in [converted(coded), nested.as_struct().column(0).clone()] {
            assert_eq!((0..4).map(|row| made.is_null(row)).collect::<Vec<_>>(), [true, false, true, true]);
        }
    }

    #[test]
    fn booleans_of_a_byte_are_booleans() {
        let metadata = HashMap::from([(EXTENSION.to_owned(), BOOL8.to_owned())]);
        let field = Field::new("a", DataType::Int8, true).with_metadata(metadata);
        let bytes: ArrayRef = Arc::new(Int8Array::from(vec![Some(1), Some(0), None]));
        let made = in_usual_form(&bytes, &field).expect("booleans");
        assert_eq!(made.as_boolean().iter().collect::<Vec<_>>(), [Some(true), Some(false), None]);
        let plain = Field::new("a", DataType::Int8, true);
        assert!(Arc::ptr_eq(&in_usual_form(&bytes, &plain).expect("the same"), &bytes));
    }
}
