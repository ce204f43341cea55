//! Functions of arrays that only PostgreSQL has. An array of several dimensions is a list of lists, and is counted from 1.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, ListArray, StringViewArray, UInt32Array,
};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;

use super::function::Scalar;
use super::kinds::Kind::{self, Any, Int, List};
use super::kinds::{INT, TEXT, list, list_of};
use super::lists::{of_lengths, taken};
use super::rows::{ints, invalid, lists};
use crate::growth::Meter;
use crate::times::{Call, exact_cast};

/// The values that an array has at most.
const VALUES_MAX: usize = 1 << 27;

/// A value, and the lengths of up to six dimensions.
const FILLED: &[&[Kind]] = &[
    &[Any, Int],
    &[Any, Int, Int],
    &[Any, Int, Int, Int],
    &[Any, Int, Int, Int, Int],
    &[Any, Int, Int, Int, Int, Int],
    &[Any, Int, Int, Int, Int, Int, Int],
];

pub(super) fn all() -> Vec<Scalar> {
    let of_dimension = |name: &'static str, end: fn(usize) -> usize| {
        Scalar::new(&[name], &[&[List, Int]], INT, move |call| bounds(call, end))
    };
    vec![
        Scalar::new(&["array_dims"], &[&[List]], TEXT, |call| {
            let lists = lists(call, 0)?;
            let shown = |row: usize| {
                let lengths = dimensions(&lists, row);
                (!lengths.is_empty()).then(|| lengths.iter().map(|length| format!("[1:{length}]")).collect::<String>())
            };
            Ok(Arc::new((0..lists.len()).map(shown).collect::<StringViewArray>()))
        }),
        Scalar::new(&["array_ndims"], &[&[List]], INT, |call| {
            let lists = lists(call, 0)?;
            let count = |row: usize| Some(dimensions(&lists, row).len() as i64).filter(|count| *count > 0);
            Ok(Arc::new((0..lists.len()).map(count).collect::<Int64Array>()))
        }),
        of_dimension("array_lower", |_| 1),
        of_dimension("array_upper", |length| length),
        Scalar::typed(&["freestone_array_fill"], FILLED, filled_type, filled),
        Scalar::typed(&["trim_array"], &[&[List, Int]], |types, _| Ok(types[0].clone()), trimmed),
    ]
}

/// The lengths of the dimensions of a row's array: none if it is NULL or empty.
fn dimensions(lists: &ListArray, row: usize) -> Vec<usize> {
    let mut lengths = vec![];
    let mut next = lists.is_valid(row).then(|| lists.value(row));
    while let Some(values) = next.filter(|values| !values.is_empty()) {
        lengths.push(values.len());
        next = values.as_list_opt::<i32>().filter(|inner| inner.is_valid(0)).map(|inner| inner.value(0));
    }
    lengths
}

/// The first or last index of a dimension; NULL if there is none.
fn bounds(call: &Call, end: fn(usize) -> usize) -> Result<ArrayRef> {
    let (lists, numbers) = (lists(call, 0)?, ints(call, 1)?);
    let bound = |row: usize| {
        let number = numbers.is_valid(row).then(|| numbers.value(row))?;
        let at = usize::try_from(number).ok()?.checked_sub(1)?;
        dimensions(&lists, row).get(at).map(|length| end(*length) as i64)
    };
    Ok(Arc::new((0..lists.len()).map(bound).collect::<Int64Array>()))
}

/// A list for each length.
fn filled_type(types: &[DataType], _: &[Option<&ScalarValue>]) -> Result<DataType> {
    let Some((value, lengths)) = types.split_first() else { return invalid("array_fill takes a value and lengths") };
    Ok(lengths.iter().fold(value.clone(), |item, _| list_of(item)))
}

/// `array_fill(value, [lengths])` of PostgreSQL, with each length as an argument of its own: an array of a value.
fn filled(call: &Call) -> Result<ArrayRef> {
    let values = call.array(0)?;
    let lengths = (1..call.count()).map(|at| ints(call, at)).collect::<Result<Vec<_>>>()?;
    let mut levels: Vec<Vec<usize>> = lengths.iter().map(|_| vec![]).collect();
    let (mut places, mut meter) = (vec![], Meter::new("array_fill"));
    let width = values.get_array_memory_size() / values.len().max(1) + size_of::<usize>();
    for row in 0..values.len() {
        let length = |of: &Int64Array| usize::try_from(of.is_valid(row).then(|| of.value(row))?).ok();
        let Some(row_lengths) = lengths.iter().map(length).collect::<Option<Vec<usize>>>() else {
            return invalid("the length of a dimension is a number that is not negative");
        };
        let count = row_lengths.iter().try_fold(1usize, |count, length| count.checked_mul(*length));
        let Some(count) = count.filter(|count| *count <= VALUES_MAX) else {
            return invalid(format!("an array has at most {VALUES_MAX} values"));
        };
        meter.add(count.saturating_mul(width))?;
        places.extend(std::iter::repeat_n(row as u32, count));
        let mut lists = 1;
        for (level, length) in levels.iter_mut().zip(row_lengths) {
            // An empty dimension makes the array empty.
            let length = if count == 0 { 0 } else { length };
            level.extend(std::iter::repeat_n(length, lists));
            lists *= length;
        }
    }
    let mut items = take(&values, &UInt32Array::from(places), None)?;
    for level in levels.into_iter().rev() {
        let to = list_of(items.data_type().clone());
        items = Arc::new(of_lengths(&to, items, level, None)?);
    }
    Ok(items)
}

/// `trim_array(list, n)`: the list without its last values.
fn trimmed(call: &Call) -> Result<ArrayRef> {
    let (lists, counts) = (lists(call, 0)?, ints(call, 1)?);
    let (mut places, mut lengths, mut known) = (vec![], vec![], vec![]);
    for row in 0..lists.len() {
        let is_known = lists.is_valid(row) && counts.is_valid(row);
        let mut kept = 0;
        if is_known {
            let (start, length) = (lists.value_offsets()[row] as usize, lists.value_length(row) as usize);
            let removed = usize::try_from(counts.value(row)).ok();
            kept = match removed.and_then(|removed| length.checked_sub(removed)) {
                Some(kept) => kept,
                None => return invalid(format!("trim_array removes from 0 to {length} values here")),
            };
            places.extend((start..start + kept).map(|at| at as u32));
        }
        lengths.push(kept);
        known.push(is_known);
    }
    Ok(Arc::new(taken(&lists, places, lengths, known)?))
}

/// `width_bucket(x, list)`: how many of the sorted bounds of buckets are not above a value.
pub(super) fn width_bucket(values: &Float64Array, bounds: &ListArray) -> Result<ArrayRef> {
    let Some(item) = list(bounds.data_type()) else { return invalid("the bounds of buckets are a list") };
    if !item.data_type().is_numeric() && !item.data_type().is_null() {
        return invalid("the bounds of buckets are numbers");
    }
    let numbers = exact_cast(bounds.values(), &DataType::Float64)?;
    let numbers = numbers.as_primitive::<Float64Type>();
    let row = |row: usize| -> Result<Option<i64>> {
        if values.is_null(row) || bounds.is_null(row) {
            return Ok(None);
        }
        let start = bounds.value_offsets()[row] as usize;
        let bounds = numbers.slice(start, bounds.value_length(row) as usize);
        if bounds.null_count() > 0 {
            return invalid("the bounds of buckets are not NULL");
        }
        // NaN is greater than all other values.
        let is_below = |bound: &f64| values.value(row).is_nan() || *bound <= values.value(row);
        Ok(Some(bounds.values().partition_point(is_below) as i64))
    };
    Ok(Arc::new((0..values.len()).map(row).collect::<Result<Int64Array>>()?))
}
