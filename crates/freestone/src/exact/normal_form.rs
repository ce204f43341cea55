//! The normal form of keys: values that are equal in SQL become identical, so that hashing and comparing by bits finds
//! them equal.
//!
//! `-0.0` equals `0.0`, every NaN equals every other, and `1 month` equals `30 days`. Libraries hash and compare what is
//! stored. So keys of joins, groups and DISTINCT, operands of comparisons of lists, structs and maps, and functions that
//! look for a value use this form.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, DynComparator, PrimitiveArray, make_array, make_comparator,
};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{
    DataType, Float16Type, Float32Type, Float64Type, IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::error::Result;

use crate::times::normal_interval;

/// Whether equal values of a type may have different bits: floats, intervals, and what contains them.
pub(crate) fn has_normal_form(data_type: &DataType) -> bool {
    match data_type {
        DataType::Float64 | DataType::Float32 | DataType::Float16 => true,
        DataType::Interval(IntervalUnit::MonthDayNano) => true,
        DataType::Struct(fields) => fields.iter().any(|field| has_normal_form(field.data_type())),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| has_normal_form(field.data_type())),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_normal_form(field.data_type()),
        DataType::Dictionary(_, values) => has_normal_form(values),
        _ => false,
    }
}

/// The values such that equal ones have equal bits: a single NaN, no `-0.0`, intervals in days and time, also within
/// lists, structs and maps. The array itself if nothing differs, as usual.
pub(crate) fn normal_form(array: &ArrayRef) -> Result<ArrayRef> {
    if !has_normal_form(array.data_type()) {
        return Ok(array.clone());
    }
    Ok(match array.data_type() {
        DataType::Float64 => {
            let differs = |v: f64| v.is_nan() && v.to_bits() != f64::NAN.to_bits() || v.to_bits() == MINUS_ZERO;
            replaced::<Float64Type>(array, differs, |v| if v.is_nan() { f64::NAN } else { 0.0 })
        }
        DataType::Float32 => {
            let differs = |v: f32| v.is_nan() && v.to_bits() != f32::NAN.to_bits() || v == 0.0 && v.is_sign_negative();
            replaced::<Float32Type>(array, differs, |v| if v.is_nan() { f32::NAN } else { 0.0 })
        }
        DataType::Float16 => {
            type Half = <Float16Type as ArrowPrimitiveType>::Native;
            let differs = |v: Half| v.is_nan() || v == Half::ZERO;
            replaced::<Float16Type>(array, differs, |v| if v.is_nan() { Half::NAN } else { Half::ZERO })
        }
        DataType::Interval(_) => normal_intervals(array),
        _ => {
            let data = array.to_data();
            let own: Vec<ArrayRef> = data.child_data().iter().map(|child| make_array(child.clone())).collect();
            let normal = own.iter().map(normal_form).collect::<Result<Vec<_>>>()?;
            if own.iter().zip(&normal).all(|(own, normal)| Arc::ptr_eq(own, normal)) {
                return Ok(array.clone());
            }
            make_array(data.into_builder().child_data(normal.iter().map(|child| child.to_data()).collect()).build()?)
        }
    })
}

/// The comparator of two arrays in which values that are equal in SQL are equal.
///
/// # Errors
/// Their types are not comparable.
pub(crate) fn comparator(left: &ArrayRef, right: &ArrayRef, options: SortOptions) -> Result<DynComparator> {
    Ok(make_comparator(&normal_form(left)?, &normal_form(right)?, options)?)
}

const MINUS_ZERO: u64 = (-0.0f64).to_bits();

fn normal_intervals(array: &ArrayRef) -> ArrayRef {
    replaced::<IntervalMonthDayNanoType>(array, |span| normal_interval(span) != span, normal_interval)
}

/// The array with some values replaced; the array itself if there are none, as usual.
pub(crate) fn replaced<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    differs: impl Fn(T::Native) -> bool,
    with: impl Fn(T::Native) -> T::Native,
) -> ArrayRef {
    let values = array.as_primitive::<T>();
    if !values.values().iter().fold(false, |any, value| any | differs(*value)) {
        return array.clone();
    }
    let replaced: PrimitiveArray<T> = values.unary(|value| if differs(value) { with(value) } else { value });
    Arc::new(replaced)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Float64Array, IntervalMonthDayNanoArray, ListArray, StructArray};
    use datafusion::arrow::buffer::OffsetBuffer;
    use datafusion::arrow::datatypes::{Field, IntervalMonthDayNano};

    fn floats() -> ArrayRef {
        Arc::new(Float64Array::from(vec![Some(-0.0), Some(-f64::NAN), None, Some(0.0), Some(1.5), Some(f64::INFINITY)]))
    }

    fn are_normal(array: &ArrayRef) {
        let values: Vec<Option<u64>> =
            array.as_primitive::<Float64Type>().iter().map(|value| value.map(f64::to_bits)).collect();
        let expected = [Some(0.0), Some(f64::NAN), None, Some(0.0), Some(1.5), Some(f64::INFINITY)];
        assert_eq!(values, expected.map(|value| value.map(f64::to_bits)));
    }

    #[test]
    fn floats_within_lists_and_structs_are_normal() {
        are_normal(&normal_form(&floats()).expect("floats"));
        let field = Arc::new(Field::new("f", DataType::Float64, true));
        let records: ArrayRef = Arc::new(StructArray::from(vec![(field, floats())]));
        let item = Arc::new(Field::new_list_field(records.data_type().clone(), true));
        let lists: ArrayRef = Arc::new(ListArray::new(item, OffsetBuffer::from_lengths([2, 0, 4]), records, None));
        let normal = normal_form(&lists).expect("lists");
        are_normal(normal.as_list::<i32>().values().as_struct().column(0));
        // What is normal stays the same array.
        assert!(Arc::ptr_eq(&normal_form(&normal).expect("lists"), &normal));
        // A part of a list has its own values.
        let part = normal_form(&lists.slice(2, 1)).expect("lists");
        assert_eq!(&part.as_list::<i32>().value(0), &normal.as_list::<i32>().value(2));
    }

    #[test]
    fn intervals_of_one_length_are_one() {
        let spans = [(1, 0, 0), (0, 30, 0), (0, 29, 86_400_000_000_000), (i32::MAX, 0, 0), (i32::MAX, 1, -1)];
        let spans = spans.map(|(months, days, ns)| IntervalMonthDayNano::new(months, days, ns));
        let array: ArrayRef = Arc::new(IntervalMonthDayNanoArray::from(spans.to_vec()));
        let normal = normal_form(&array).expect("intervals");
        let normal = normal.as_primitive::<IntervalMonthDayNanoType>();
        assert_eq!(normal.value(0), normal.value(1));
        assert_eq!(normal.value(0), normal.value(2));
        assert_ne!(normal.value(3), normal.value(4));
    }
}
