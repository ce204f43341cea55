//! How much values are: the bytes that a copy of them would take. Texts of views that share one buffer count each.

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, GenericByteArray, GenericListArray, OffsetSizeTrait, UInt64Array,
};
use datafusion::arrow::compute::take_arrays;
use datafusion::arrow::datatypes::{ArrowNativeType, ByteArrayType, DataType};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;

use crate::context::claim;

/// The bytes of a value of a type that is not looked into.
const OTHER_BYTES: u64 = 16;

/// The bytes of all values.
pub(crate) fn weight(array: &dyn Array) -> u64 {
    let rows = array.len() as u64;
    match array.data_type() {
        DataType::Utf8 => of_bytes(array.as_string::<i32>()),
        DataType::LargeUtf8 => of_bytes(array.as_string::<i64>()),
        DataType::Binary => of_bytes(array.as_binary::<i32>()),
        DataType::LargeBinary => of_bytes(array.as_binary::<i64>()),
        DataType::Utf8View => of_views(array.as_string_view().views()),
        DataType::BinaryView => of_views(array.as_binary_view().views()),
        DataType::List(_) => of_lists(array.as_list::<i32>()),
        DataType::LargeList(_) => of_lists(array.as_list::<i64>()),
        DataType::Map(..) => {
            let maps = array.as_map();
            let (start, end) = (maps.value_offsets()[0] as usize, maps.value_offsets()[maps.len()] as usize);
            weight(&maps.entries().slice(start, end - start)).saturating_add(rows * 4)
        }
        DataType::FixedSizeList(_, length) => {
            let lists = array.as_fixed_size_list();
            let length = usize::try_from(*length).unwrap_or(0);
            let start = lists.value_offset(0).max(0) as usize;
            if rows == 0 { 0 } else { weight(&lists.values().slice(start, lists.len() * length)) }
        }
        DataType::Struct(_) => array.as_struct().columns().iter().map(|column| weight(column)).sum(),
        // At most: each row could have the longest value.
        DataType::Dictionary(..) => rows.saturating_mul(longest(array.as_any_dictionary().values())),
        other => rows * other.primitive_width().map_or(OTHER_BYTES, |width| width as u64),
    }
}

/// The bytes of the longest text; of other values together.
fn longest(values: &ArrayRef) -> u64 {
    fn of<T: ByteArrayType>(array: &GenericByteArray<T>) -> u64 {
        let lengths = array.value_offsets().windows(2).map(|pair| pair[1].as_usize() - pair[0].as_usize());
        lengths.max().unwrap_or(0) as u64
    }
    match values.data_type() {
        DataType::Utf8 => of(values.as_string::<i32>()),
        DataType::LargeUtf8 => of(values.as_string::<i64>()),
        DataType::Utf8View => {
            values.as_string_view().views().iter().map(|view| u64::from(*view as u32)).max().unwrap_or(0)
        }
        other => other.primitive_width().map_or_else(|| weight(values), |width| width as u64),
    }
}

fn of_views(views: &[u128]) -> u64 {
    // The first four bytes of a view are the length. Lists of empty texts take the memory of their views.
    views.iter().map(|view| u64::from(*view as u32) + 16).sum()
}

fn of_bytes<T: ByteArrayType>(array: &GenericByteArray<T>) -> u64 {
    let offsets = array.value_offsets();
    (offsets[array.len()].as_usize() - offsets[0].as_usize()) as u64
}

fn of_lists<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> u64 {
    let (start, end) = (lists.value_offsets()[0].as_usize(), lists.value_offsets()[lists.len()].as_usize());
    weight(&lists.values().slice(start, end - start)).saturating_add(lists.len() as u64 * 4)
}

/// Columns with their rows at these places, which may be there many times: the texts of views are shared, and all other values
/// are copied.
///
/// # Errors
/// The statement has no memory for the copies.
pub(crate) fn spread(what: &str, columns: &[ArrayRef], places: &UInt64Array) -> Result<Vec<ArrayRef>> {
    let mut bytes = 0u64;
    for column in columns.iter().filter(|column| column.data_type().is_nested()) {
        let rows: Vec<u64> = (0..column.len()).map(|row| weight(&column.slice(row, 1))).collect();
        let of_places = places.values().iter().filter_map(|place| rows.get(*place as usize));
        bytes = of_places.fold(bytes, |sum, row| sum.saturating_add(*row));
    }
    let _claimed = claim(what, bytes)?;
    Ok(take_arrays(columns, places, None)?)
}

/// The bytes of an argument in this many rows.
pub(super) fn weight_of(argument: &ColumnarValue, rows: usize) -> u64 {
    match argument {
        ColumnarValue::Array(array) => weight(array),
        ColumnarValue::Scalar(value) => weight_of_value(value).saturating_mul(rows as u64),
    }
}

/// The bytes of a value.
pub(crate) fn weight_of_value(value: &ScalarValue) -> u64 {
    use ScalarValue as V;
    match value {
        V::Utf8(text) | V::Utf8View(text) | V::LargeUtf8(text) => text.as_ref().map_or(0, String::len) as u64,
        V::Binary(bytes) | V::BinaryView(bytes) | V::LargeBinary(bytes) => bytes.as_ref().map_or(0, Vec::len) as u64,
        V::List(list) => weight(list.as_ref()),
        V::LargeList(list) => weight(list.as_ref()),
        V::FixedSizeList(list) => weight(list.as_ref()),
        V::Struct(fields) => weight(fields.as_ref()),
        V::Map(map) => weight(map.as_ref()),
        V::Dictionary(_, value) => weight_of_value(value),
        _ => OTHER_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Int64Array, ListArray, StringArray, StringViewArray, StringViewBuilder};
    use datafusion::arrow::datatypes::Int64Type;

    use super::*;

    #[test]
    fn values_weigh_what_a_copy_of_them_takes() {
        let long = "x".repeat(1000);
        let mut shared = StringViewBuilder::new();
        shared.try_append_value_n(&long, 50).expect("views");
        let texts: [ArrayRef; 3] = [
            Arc::new(shared.finish()),
            Arc::new(StringViewArray::from(vec![long.as_str(); 50])),
            Arc::new(StringArray::from(vec![long.as_str(); 50])),
        ];
        for array in texts {
            let of_view = if *array.data_type() == DataType::Utf8View { 16 } else { 0 };
            let expected = (50 * (1000 + of_view), 2 * (1000 + of_view));
            assert_eq!((weight(&array), weight(&array.slice(3, 2))), expected, "{}", array.data_type());
        }
        assert_eq!(weight(&Int64Array::from(vec![1, 2])), 16);
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1); 100]), None, Some(vec![])]);
        assert_eq!((weight(&lists), weight(&lists.slice(1, 2))), (812, 8));
        let constant = ColumnarValue::Scalar(ScalarValue::from("four"));
        assert_eq!(weight_of(&constant, 10), 40);
    }
}
