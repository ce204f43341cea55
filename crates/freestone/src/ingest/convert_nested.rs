//! Converts nested values to other nested types, part by part, without loss or with an error.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, ListArray, MapArray, StructArray, new_null_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field as ColumnField, FieldRef, Fields};

use super::columns::CellProblem;
use super::convert::{BadValue, Converted, convert_column, no_conversion, plain_cast};
use super::error::{Reason, ValueProblem};
use super::nested::field_index;

/// The outer error: there is no conversion between the types. The inner error: a value cannot be converted exactly.
pub(super) fn convert_nested(array: &ArrayRef, to: &DataType) -> Result<Converted, Reason> {
    use DataType::{FixedSizeList, LargeList, LargeListView, List, ListView, Map, Struct};
    let from = array.data_type();
    match (from, to) {
        (LargeList(item) | ListView(item) | LargeListView(item), _) => {
            convert_nested(&plain_cast(array, &List(item.clone()))?, to)
        }
        (List(_), List(item)) => {
            let list = array.as_list::<i32>();
            let (first, ends) = range(list.value_offsets());
            let values = list.values().slice(first, ends[ends.len() - 1] as usize);
            let offsets = OffsetBuffer::new(ends.into());
            let nulls = list.nulls().cloned();
            Ok(match convert_column(&values, &without_name(item))? {
                Ok(values) => Ok(Arc::new(ListArray::new(item.clone(), offsets, values, nulls))),
                Err(bad) => Err(in_row(bad, |at| offsets.partition_point(|end| *end as usize <= at) - 1)),
            })
        }
        (FixedSizeList(item, _), List(_)) => convert_nested(&plain_cast(array, &List(item.clone()))?, to),
        (List(_), FixedSizeList(item, length)) => {
            let list = array.as_list::<i32>();
            let wrong = (0..list.len()).find(|row| list.is_valid(*row) && list.value_length(*row) != *length);
            if let Some(row) = wrong {
                return Ok(Err(BadValue { row, problem: CellProblem::Value(ValueProblem::Syntax) }));
            }
            let same = FixedSizeList(list_item(from, item), *length);
            convert_nested(&plain_cast(array, &same)?, to)
        }
        (FixedSizeList(_, own), FixedSizeList(item, length)) if own == length => {
            let list = array.as_fixed_size_list();
            let width = *length as usize;
            Ok(match convert_column(list.values(), &without_name(item))? {
                Ok(values) => {
                    let nulls = list.nulls().cloned();
                    let same =
                        FixedSizeListArray::try_new_with_length(item.clone(), *length, values, nulls, list.len());
                    Ok(Arc::new(same.map_err(|error| Reason::Internal(error.to_string()))?))
                }
                Err(bad) => Err(in_row(bad, |at| at / width.max(1))),
            })
        }
        (Struct(own), Struct(fields)) => convert_struct(array.as_struct(), own, fields),
        (Map(_, _), Map(entries, ordered)) => {
            let map = array.as_map();
            let (first, ends) = range(map.value_offsets());
            let pairs: ArrayRef = Arc::new(map.entries().slice(first, ends[ends.len() - 1] as usize));
            let (Struct(own), Struct(pair)) = (pairs.data_type(), entries.data_type()) else {
                return Err(no_conversion(from, to));
            };
            let renamed =
                Fields::from_iter(own.iter().zip(pair).map(|(own, new)| {
                    Arc::new(ColumnField::new(new.name(), own.data_type().clone(), new.is_nullable()))
                }));
            let pairs = StructArray::new(renamed.clone(), pairs.as_struct().columns().to_vec(), None);
            let offsets = OffsetBuffer::new(ends.into());
            Ok(match convert_struct(&pairs, &renamed, pair)? {
                Ok(pairs) => {
                    let pairs = pairs.as_struct().clone();
                    Ok(Arc::new(MapArray::new(entries.clone(), offsets, pairs, map.nulls().cloned(), *ordered)))
                }
                Err(bad) => Err(in_row(bad, |at| offsets.partition_point(|end| *end as usize <= at) - 1)),
            })
        }
        _ => Err(no_conversion(from, to)),
    }
}

/// The first item of all lists, and the offsets from there.
fn range(offsets: &[i32]) -> (usize, Vec<i32>) {
    let first = offsets.first().copied().unwrap_or(0);
    (first as usize, offsets.iter().map(|end| end - first).collect())
}

fn in_row(bad: BadValue, row: impl Fn(usize) -> usize) -> BadValue {
    BadValue { row: row(bad.row), ..bad }
}

/// A part of a value: NULL is always allowed there.
fn without_name(field: &FieldRef) -> ColumnField {
    ColumnField::new(field.name(), field.data_type().clone(), true)
}

fn list_item(list: &DataType, otherwise: &FieldRef) -> FieldRef {
    match list {
        DataType::List(item) => item.clone(),
        _ => otherwise.clone(),
    }
}

/// Fields by name, or by position if no name is known. Fields that are not given are NULL.
fn convert_struct(array: &StructArray, own: &Fields, fields: &Fields) -> Result<Converted, Reason> {
    let found: Vec<Option<usize>> = fields.iter().map(|field| field_index(own, field.name())).collect();
    let places: Vec<Option<usize>> = match found.iter().all(Option::is_none) {
        true if own.len() == fields.len() => (0..own.len()).map(Some).collect(),
        true => return Err(no_conversion(array.data_type(), &DataType::Struct(fields.clone()))),
        false => found,
    };
    if let Some(unknown) = (0..own.len()).find(|at| !places.contains(&Some(*at))) {
        let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
        let text = format!("the struct has no field '{}', its fields are: {}", own[unknown].name(), names.join(", "));
        return Err(Reason::ColumnMismatch(text));
    }
    let (mut columns, mut first_bad): (Vec<ArrayRef>, Option<BadValue>) = (vec![], None);
    for (field, place) in fields.iter().zip(&places) {
        let Some(place) = place else {
            columns.push(new_null_array(field.data_type(), array.len()));
            continue;
        };
        match convert_column(&hidden(array.column(*place), array.nulls())?, &without_name(field))? {
            Ok(column) => columns.push(column),
            Err(bad) if first_bad.as_ref().is_none_or(|first| bad.row < first.row) => first_bad = Some(bad),
            Err(_) => {}
        }
    }
    if let Some(bad) = first_bad {
        return Ok(Err(bad));
    }
    let whole = StructArray::try_new_with_length(fields.clone(), columns, array.nulls().cloned(), array.len());
    whole.map(|whole| Ok(Arc::new(whole) as ArrayRef)).map_err(|error| Reason::Internal(error.to_string()))
}

/// The values of a field, with NULL where the struct is NULL.
fn hidden(column: &ArrayRef, outer: Option<&NullBuffer>) -> Result<ArrayRef, Reason> {
    let Some(outer) = outer.filter(|outer| outer.null_count() > 0) else { return Ok(column.clone()) };
    let is_null = arrow::array::BooleanArray::new(!outer.inner(), None);
    arrow::compute::nullif(column, &is_null).map_err(|error| Reason::Internal(error.to_string()))
}
