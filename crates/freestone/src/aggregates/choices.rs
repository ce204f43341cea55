//! Values from the rows with extreme values: `arg_max(name, score)`, `arg_min`, and the n largest or smallest.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, DynComparator, ListArray, Scalar, UInt32Array};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::kernels::cmp;
use datafusion::arrow::compute::{SortOptions, take};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::error::Result;

use super::collected::{Collected, Groups};
use crate::error::Error;
use crate::exact::normal_form;

/// The functions that implement `max(x, n)` and `min(x, n)`.
pub(crate) const GREATEST: &str = "freestone_greatest";
pub(crate) const LEAST: &str = "freestone_least";

/// The maximum n.
const COUNT_MAX: i64 = 1_000_000;

pub(super) fn functions() -> Vec<Collected> {
    let choice = |name, finish: fn(&Groups) -> Result<ArrayRef>| {
        Collected::new(name, "a value, a value to compare, and how many are wanted", arguments, chosen_type, finish)
    };
    let several = |name, finish: fn(&Groups) -> Result<ArrayRef>| {
        Collected::new(name, "a value and how many are wanted", value_and_count, |types| list_of(&types[0]), finish)
    };
    vec![
        of_best::<true>(choice("arg_max", |groups| choose(groups, true))),
        of_best::<false>(choice("arg_min", |groups| choose(groups, false))),
        of_best::<true>(several(GREATEST, |groups| several_of(groups, true))),
        of_best::<false>(several(LEAST, |groups| several_of(groups, false))),
    ]
}

/// A function on which only the rows with the largest or smallest values have an effect.
fn of_best<const GREATEST: bool>(function: Collected) -> Collected {
    Collected {
        reduce: Some(|groups| Ok(best(groups, GREATEST)?.concat())),
        beats: Some(|rows, left, to| beats(rows, left, to, GREATEST)),
        ..function
    }
}

fn arguments(types: &[DataType]) -> Option<Vec<DataType>> {
    match types {
        [value, by] => Some(vec![value.clone(), by.clone()]),
        [value, by, count] if count.is_integer() => Some(vec![value.clone(), by.clone(), DataType::Int64]),
        _ => None,
    }
}

fn value_and_count(types: &[DataType]) -> Option<Vec<DataType>> {
    match types {
        [value, count] if count.is_integer() => Some(vec![value.clone(), DataType::Int64]),
        _ => None,
    }
}

fn chosen_type(types: &[DataType]) -> DataType {
    if types.len() == 3 { list_of(&types[0]) } else { types[0].clone() }
}

fn list_of(value: &DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(value.clone(), true)))
}

/// A comparator of two rows of a column. For floats, NaN is greater than all other values.
pub(super) fn comparator(column: &ArrayRef, descending: bool) -> Result<DynComparator> {
    if *column.data_type() == DataType::Null {
        return Ok(Box::new(|_, _| Ordering::Equal));
    }
    normal_form::comparator(column, column, SortOptions { descending, nulls_first: false })
}

/// The rows with the largest or smallest values of each group, best first. Equal values remain in the order of arrival.
fn best(groups: &Groups, greatest: bool) -> Result<Vec<Vec<u32>>> {
    let by = compared(groups.columns, groups.to);
    let compare = comparator(&groups.columns[by], greatest)?;
    groups
        .places(by + 1)
        .map(|mut places| {
            let Some(first) = places.first() else { return Ok(vec![]) };
            let count = if has_count(groups.columns, groups.to) { wanted(groups.columns, *first)? } else { 1 };
            if count == 1 {
                let least = places.into_iter().reduce(|a, b| if compare(b, a) == Ordering::Less { b } else { a });
                return Ok(least.into_iter().map(|place| place as u32).collect());
            }
            // Equal values stay in the order of arrival.
            let in_order = |a: &usize, b: &usize| compare(*a, *b).then(a.cmp(b));
            if count < places.len() / 4 {
                places.select_nth_unstable_by(count, in_order);
                places.truncate(count);
            }
            places.sort_unstable_by(in_order);
            Ok(places.into_iter().take(count).map(|place| place as u32).collect())
        })
        .collect()
}

/// Whether the last argument is the number of rows.
fn has_count(columns: &[ArrayRef], to: &DataType) -> bool {
    matches!(to, DataType::List(_)) && columns.len() != 1 && *to == list_of(columns[0].data_type())
}

/// The column that is compared.
fn compared(columns: &[ArrayRef], to: &DataType) -> usize {
    columns.len() - if has_count(columns, to) { 2 } else { 1 }
}

/// Which rows come before the last of those that are left, if these are as many as are wanted. Floats have zeros and NaNs that are
/// equal to others.
fn beats(rows: &[ArrayRef], left: &[ArrayRef], to: &DataType, greatest: bool) -> Result<Option<BooleanArray>> {
    let by = compared(rows, to);
    let of = rows[by].data_type();
    let is_time = of.is_temporal() && !matches!(of, DataType::Interval(_));
    let is_plain = of.is_integer() || is_time || of.is_decimal() || *of == DataType::Utf8View;
    let count = left[by].len();
    if !is_plain || count == 0 || has_count(left, to) && wanted(left, 0)? > count {
        return Ok(None);
    }
    let last = Scalar::new(left[by].slice(count - 1, 1));
    Ok(Some(if greatest { cmp::gt(&rows[by], &last) } else { cmp::lt(&rows[by], &last) }?))
}

fn wanted(columns: &[ArrayRef], row: usize) -> Result<usize> {
    let counts = columns[columns.len() - 1].as_primitive::<Int64Type>();
    let count = if counts.is_valid(row) { counts.value(row) } else { 0 };
    if (1..=COUNT_MAX).contains(&count) {
        return Ok(count as usize);
    }
    Err(Error::invalid(format!("the number of wanted values is between 1 and {COUNT_MAX}, not {count}")).into())
}

fn choose(groups: &Groups, greatest: bool) -> Result<ArrayRef> {
    if has_count(groups.columns, groups.to) {
        return several_of(groups, greatest);
    }
    let places: UInt32Array = best(groups, greatest)?.into_iter().map(|places| places.first().copied()).collect();
    Ok(take(&groups.columns[0], &places, None)?)
}

fn several_of(groups: &Groups, greatest: bool) -> Result<ArrayRef> {
    let places = best(groups, greatest)?;
    lists(groups, &groups.columns[0], places)
}

/// Lists of the values of rows; NULL for groups without any.
pub(super) fn lists(groups: &Groups, values: &ArrayRef, places: Vec<Vec<u32>>) -> Result<ArrayRef> {
    let lengths: Vec<usize> = places.iter().map(Vec::len).collect();
    let nulls = NullBuffer::from(lengths.iter().map(|length| *length > 0).collect::<Vec<_>>());
    let values = take(values, &UInt32Array::from(places.concat()), None)?;
    let DataType::List(field) = groups.to else {
        return Err(Error::invalid("the result of the aggregate is no list").into());
    };
    Ok(Arc::new(ListArray::try_new(field.clone(), OffsetBuffer::from_lengths(lengths), values, Some(nulls))?))
}
