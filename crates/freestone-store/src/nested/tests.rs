use std::sync::Arc;

use arrow_array::builder::{
    BinaryViewBuilder, Int32Builder, ListBuilder, MapBuilder, MapFieldNames, StringViewBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, BooleanArray, Decimal256Array, FixedSizeBinaryArray, FixedSizeListArray,
    Float64Array, Int64Array, IntervalMonthDayNanoArray, ListArray, StringViewArray, StructArray,
};
use arrow_buffer::{IntervalMonthDayNano, NullBuffer, OffsetBuffer, i256};
use arrow_schema::{DataType, Field};
use proptest::prelude::*;

use super::{decode, encode};
use crate::column::{ColumnBuffer, ColumnData};
use crate::schema::{normalize, parse_type, type_name};

fn encoded(array: &dyn Array) -> BinaryViewArray {
    let (mut offsets, mut data) = (vec![0], vec![]);
    encode(array, &mut offsets, &mut data);
    let mut builder = BinaryViewBuilder::new();
    for row in 0..array.len() {
        if array.is_null(row) {
            builder.append_null();
        } else {
            builder.append_value(&data[offsets[row] as usize..offsets[row + 1] as usize]);
        }
    }
    builder.finish()
}

fn round_trip(array: &ArrayRef) {
    let data_type = array.data_type();
    assert_eq!(normalize(data_type).as_ref(), Ok(data_type));
    assert_eq!(parse_type(&type_name(data_type)).as_ref(), Some(data_type), "{}", type_name(data_type));
    let bytes = encoded(array.as_ref());
    let back = decode(&bytes, data_type).unwrap();
    assert_eq!(&back, array);
    back.to_data().validate_full().unwrap();
    // Rows of a slice are those of the whole.
    if array.len() > 2 {
        let slice = array.slice(1, array.len() - 2);
        assert_eq!(&decode(&encoded(slice.as_ref()), data_type).unwrap(), &slice);
    }
    // Damage is an error or other values, and never a panic.
    for row in 0..bytes.len().min(8) {
        let value = bytes.value(row);
        for cut in 0..value.len() {
            let _ = decode(&BinaryViewArray::from_iter_values([&value[..cut]]), data_type).map(|array| array.len());
            let mut flipped = value.to_vec();
            flipped[cut] ^= 0xff;
            let _ = decode(&BinaryViewArray::from_iter_values([&flipped[..]]), data_type).map(|array| array.len());
        }
    }
}

fn list(values: ArrayRef, lengths: &[usize], valid: Vec<bool>) -> ArrayRef {
    let field = Arc::new(Field::new("item", values.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
    Arc::new(ListArray::new(field, offsets, values, Some(NullBuffer::from(valid))))
}

fn structs(columns: Vec<ArrayRef>, valid: Vec<bool>) -> ArrayRef {
    let field = |(at, column): (usize, &ArrayRef)| Field::new(format!("f\"{at}, "), column.data_type().clone(), true);
    let fields = columns.iter().enumerate().map(field).collect::<Vec<_>>().into();
    Arc::new(StructArray::new(fields, columns, Some(NullBuffer::from(valid))))
}

#[test]
fn other_types_keep_their_values() {
    let intervals = [IntervalMonthDayNano::new(-1, 2, i64::MIN), IntervalMonthDayNano::new(i32::MAX, i32::MIN, 5)];
    round_trip(&(Arc::new(IntervalMonthDayNanoArray::from(vec![Some(intervals[0]), None, Some(intervals[1])])) as _));
    let wide = Decimal256Array::from(vec![Some(i256::MAX), None, Some(i256::from(-7))]);
    round_trip(&(Arc::new(wide.with_precision_and_scale(76, 3).unwrap()) as _));
    let uuids =
        FixedSizeBinaryArray::try_from_sparse_iter_with_size([Some([1u8; 16]), None, Some([255; 16])].into_iter(), 16);
    round_trip(&(Arc::new(uuids.unwrap()) as _));
    let names = MapFieldNames { entry: "entries".into(), key: "key".into(), value: "value".into() };
    let mut maps = MapBuilder::new(Some(names), StringViewBuilder::new(), ListBuilder::new(Int32Builder::new()));
    maps.keys().append_value("a key that is longer than a view");
    maps.values().append_value([Some(1), None]);
    maps.keys().append_value("");
    maps.values().append_null();
    maps.append(true).unwrap();
    maps.append(false).unwrap();
    maps.append(true).unwrap();
    round_trip(&(Arc::new(maps.finish()) as _));
}

#[test]
fn nans_are_one() {
    let values = Float64Array::from(vec![f64::from_bits(0xfff8_0000_0000_0001), -0.0, f64::INFINITY]);
    let array = list(Arc::new(values), &[3], vec![true]);
    let back = decode(&encoded(array.as_ref()), array.data_type()).unwrap();
    let back = back.as_list::<i32>().value(0);
    let back = back.as_primitive::<Float64Type>().values();
    assert_eq!(back[0].to_bits(), f64::NAN.to_bits());
    assert_eq!((back[1].to_bits(), back[2]), ((-0.0f64).to_bits(), f64::INFINITY));
}

#[test]
fn types_that_cannot_be_stored_are_refused() {
    let mut deep = DataType::Int32;
    for _ in 0..1000 {
        deep = DataType::List(Arc::new(Field::new("item", deep, true)));
    }
    assert!(normalize(&deep).unwrap_err().contains("deep"));
    assert!(normalize(&DataType::Struct(vec![Field::new("a", DataType::Int8, true); 2].into())).is_err());
    assert!(normalize(&DataType::Struct(Vec::<Field>::new().into())).is_err());
    let item = Arc::new(Field::new("item", DataType::Int8, true));
    assert!(normalize(&DataType::FixedSizeList(item, 1 << 30)).is_err());
    for text in ["list(", "list(int32", "struct()", "struct(\"a\" int8", "array(int8,x)", "map(int8)", "uuid(3)"] {
        assert_eq!(parse_type(text), None, "{text}");
    }
    let deep = format!("{}int8{}", "list(".repeat(100_000), ")".repeat(100_000));
    assert_eq!(parse_type(&deep), None);
}

#[test]
fn lists_of_nothing_are_not_believed() {
    let list = DataType::List(Arc::new(Field::new("item", DataType::Boolean, true)));
    let long = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1];
    assert!(decode(&BinaryViewArray::from_iter_values([&long[..]]), &list).is_err());
    assert!(decode(&BinaryViewArray::from_iter_values([&[0, 0][..]]), &list).unwrap_err().contains("follow"));
}

type Item = Option<(Option<i64>, Option<String>, Option<Vec<Option<bool>>>)>;

fn item() -> impl Strategy<Value = Item> {
    prop::option::weighted(
        0.8,
        (
            prop::option::of(any::<i64>()),
            prop::option::of("[a-cß]{0,20}"),
            prop::option::of(prop::collection::vec(prop::option::of(any::<bool>()), 0..5)),
        ),
    )
}

/// Structs of a number, a text and a list of booleans.
fn items(rows: &[Item]) -> ArrayRef {
    let of = |row: &Item| row.clone().unwrap_or((None, None, None));
    let numbers: Int64Array = rows.iter().map(|row| of(row).0).collect();
    let texts: StringViewArray = rows.iter().map(|row| of(row).1).collect();
    let inner: Vec<Option<Vec<Option<bool>>>> = rows.iter().map(|row| of(row).2).collect();
    let booleans: BooleanArray = inner.iter().flatten().flatten().copied().collect();
    let lengths: Vec<usize> = inner.iter().map(|list| list.as_ref().map_or(0, Vec::len)).collect();
    let lists = list(Arc::new(booleans), &lengths, inner.iter().map(Option::is_some).collect());
    structs(vec![Arc::new(numbers), Arc::new(texts), lists], rows.iter().map(Option::is_some).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn nested_values_come_back(rows in prop::collection::vec(prop::option::of(prop::collection::vec(item(), 0..6)), 0..20)) {
        let flat: Vec<Item> = rows.iter().flatten().flatten().cloned().collect();
        let lengths: Vec<usize> = rows.iter().map(|row| row.as_ref().map_or(0, Vec::len)).collect();
        let array = list(items(&flat), &lengths, rows.iter().map(Option::is_some).collect());
        round_trip(&array);
        // Through the form of a column.
        let column = ColumnData::from_arrays([&array], array.data_type());
        prop_assert_eq!(column.len(), array.len());
        prop_assert_eq!(ColumnBuffer::new(array.data_type()).finish().unwrap().len(), 0);
    }

    #[test]
    fn lists_of_a_fixed_size_come_back(rows in prop::collection::vec(prop::option::of([any::<Option<i64>>(), any::<Option<i64>>(), any::<Option<i64>>()]), 0..20)) {
        let values: Int64Array = rows.iter().flat_map(|row| row.unwrap_or_default()).collect();
        let field = Arc::new(Field::new("item", DataType::Int64, true));
        let valid = NullBuffer::from(rows.iter().map(Option::is_some).collect::<Vec<_>>());
        let array: ArrayRef = Arc::new(FixedSizeListArray::new(field, 3, Arc::new(values), Some(valid)));
        let back = decode(&encoded(array.as_ref()), array.data_type()).unwrap();
        for (row, expected) in rows.iter().enumerate() {
            prop_assert_eq!(back.is_null(row), expected.is_none());
            if let Some(values) = expected {
                let list = back.as_fixed_size_list().value(row);
                prop_assert_eq!(list.as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), values.to_vec());
            }
        }
    }
}
