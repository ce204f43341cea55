//! Functions of structs and maps.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListArray, MapArray, StructArray, UInt32Array, new_empty_array,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::{SortOptions, cast, concat, interleave, take};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::ScalarValue;
use datafusion::error::Result;

use super::function::Scalar;
use super::kinds::Kind::{Any, Int, List, Map, Rest, Struct};
use super::kinds::{BOOL, INT, TEXT, list, list_of};
use super::list_members::{common, comparator, is_known};
use super::lists::of_lengths;
use super::rows::{invalid, lists};
use crate::error::Error;
use crate::exact::normal_form;
use crate::times::{Call, exact_cast};

/// The function that compares two nested values.
const ORDER: &str = "freestone_order";
/// The function that returns the value of a map's key, not in a list.
const MAP_VALUE: &str = "freestone_map_value";
/// The function that makes a map of a struct whose fields have one type, and of the keys in the place of their names.
const STRUCT_MAP: &str = "freestone_struct_map";

pub(super) fn all() -> Vec<Scalar> {
    vec![
        Scalar::typed(&["struct_insert"], &[&[Struct, Rest]], |types, names| changed(types, names, false), change),
        Scalar::typed(&["struct_update"], &[&[Struct, Rest]], |types, names| changed(types, names, true), change),
        Scalar::typed(&["struct_concat"], &[&[Struct, Struct, Rest]], concatenated, struct_concat),
        order_function(),
        Scalar::new(&["struct_keys"], &[&[Struct]], list_of(TEXT), struct_keys),
        Scalar::typed(
            &["struct_values"],
            &[&[Struct]],
            |types, _| unnamed(&types[0]),
            |call| exact_cast(&call.array(0)?, &call.to),
        ),
        Scalar::typed(&["struct_extract_at"], &[&[Struct, Int]], field_at, |call| {
            let values = call.array(0)?;
            let at = place(call.constant(1), values.as_struct().num_columns())?;
            let inner = values.as_struct().column(at);
            Ok(datafusion::arrow::compute::nullif(inner, &datafusion::arrow::compute::is_null(&values)?)?)
        }),
        Scalar::new(&["struct_position", "struct_indexof"], &[&[Struct, Any]], INT, struct_position),
        Scalar::new(&["struct_contains", "struct_has"], &[&[Struct, Any]], BOOL, |call| {
            let (values, wanted) = (call.array(0)?, call.array(1)?);
            let found = struct_position(call)?;
            let is_known = |row: usize| values.is_valid(row) && is_known(&wanted, row);
            let has = (0..values.len()).map(|row| is_known(row).then(|| found.is_valid(row)));
            Ok(Arc::new(has.collect::<BooleanArray>()))
        }),
        Scalar::new(&["map_contains"], &[&[Map, Any]], BOOL, |call| map_has(call, true)),
        Scalar::new(&["map_contains_value"], &[&[Map, Any]], BOOL, |call| map_has(call, false)),
        map_value_function(),
        of_map(&["map_keys"], |key, _| key.clone(), |maps| maps.keys().clone()),
        of_map(&["map_values"], |_, value| value.clone(), |maps| maps.values().clone()),
        of_map(
            &["map_entries"],
            |key, value| {
                let key = Field::new("key", key.clone(), false);
                DataType::Struct(vec![key, Field::new("value", value.clone(), true)].into())
            },
            |maps| Arc::new(maps.entries().clone()),
        ),
        Scalar::with_coercion(
            &["map_extract", "element_at"],
            "a map and a key",
            |types| match types {
                [DataType::Null, _] => Some(types.to_vec()),
                [map, key] => Some(vec![map.clone(), common(entries(map).ok()?.0.data_type(), key)?]),
                _ => None,
            },
            |types, _| match &types[0] {
                DataType::Null => Ok(list_of(DataType::Null)),
                map => Ok(list_of(entries(map)?.1.data_type().clone())),
            },
            map_extract,
        ),
        Scalar::typed(&["map_from_entries"], &[&[List]], |types, _| map_of_entries(&types[0]), map_from_entries),
        Scalar::typed(&[STRUCT_MAP], &[&[Struct, List]], |types, _| map_of_struct(types), struct_as_map),
        Scalar::typed(&["map_concat"], &[&[Map, Map, Rest]], |types, _| Ok(types[0].clone()), map_concat),
    ]
}

fn fields(of: &DataType) -> Result<&Fields> {
    match of {
        DataType::Struct(fields) => Ok(fields),
        other => invalid(format!("{other} is no struct")),
    }
}

/// The fields of a struct from the arguments `'a', 1, 'b', 2`.
fn given(types: &[DataType], constants: &[Option<&ScalarValue>]) -> Result<Vec<FieldRef>> {
    let pairs = types[1..].chunks(2).zip(constants[1..].chunks(2));
    pairs
        .map(|(types, constants)| match (types, constants.first().copied().flatten()) {
            ([_, kind], Some(name)) => {
                let name = name.try_as_str().flatten().unwrap_or_default().to_owned();
                Ok(Arc::new(Field::new(name, kind.clone(), true)))
            }
            _ => {
                let error = Error::invalid("the fields of a struct have constant names");
                Err(error.with_hint("write struct_insert(s, a := 1)").into())
            }
        })
        .collect()
}

/// The struct with further fields. With `replaces`, fields with existing names are replaced.
fn changed(types: &[DataType], constants: &[Option<&ScalarValue>], replaces: bool) -> Result<DataType> {
    let mut all: Vec<FieldRef> = fields(&types[0])?.iter().cloned().collect();
    let is_name = |own: &DataType| own.is_string() || *own == DataType::Null;
    if !types.iter().skip(1).step_by(2).all(is_name) {
        return invalid("the fields of a struct are given as name := value");
    }
    if types.len() > 1 && constants.iter().all(Option::is_none) {
        // The names are known only after constants were evaluated.
        return Ok(types[0].clone());
    }
    for field in given(types, constants)? {
        match all.iter_mut().find(|known| known.name().eq_ignore_ascii_case(field.name())) {
            Some(known) if replaces => *known = field,
            Some(_) => return invalid(format!("the struct has a field {} already", field.name())),
            None => all.push(field),
        }
    }
    Ok(DataType::Struct(all.into()))
}

fn change(call: &Call) -> Result<ArrayRef> {
    let values = call.array(0)?;
    let known = values.as_struct();
    let fields = fields(&call.to)?.clone();
    let mut columns = vec![];
    for field in &fields {
        let is_named = |at: &usize| {
            let name = call.constant(*at).and_then(|name| name.try_as_str().flatten());
            name.is_some_and(|name| name.eq_ignore_ascii_case(field.name()))
        };
        let column = match (1..call.count()).step_by(2).find(is_named) {
            Some(at) => call.array(at + 1)?,
            None => match known.column_by_name(field.name()) {
                Some(column) => column.clone(),
                None => return invalid(format!("the struct has no field {}", field.name())),
            },
        };
        columns.push(exact_cast(&column, field.data_type())?);
    }
    Ok(Arc::new(StructArray::try_new(fields, columns, known.nulls().cloned())?))
}

fn concatenated(types: &[DataType], _: &[Option<&ScalarValue>]) -> Result<DataType> {
    let mut all: Vec<FieldRef> = vec![];
    for kind in types {
        for field in fields(kind)? {
            if all.iter().any(|known| known.name().eq_ignore_ascii_case(field.name())) {
                return invalid(format!("both structs have a field {}", field.name()));
            }
            all.push(field.clone());
        }
    }
    Ok(DataType::Struct(all.into()))
}

fn struct_concat(call: &Call) -> Result<ArrayRef> {
    let (mut columns, mut nulls) = (vec![], None);
    for at in 0..call.count() {
        let values = call.array(at)?;
        columns.extend(values.as_struct().columns().iter().cloned());
        nulls = NullBuffer::union(nulls.as_ref(), values.nulls());
    }
    Ok(Arc::new(StructArray::try_new(fields(&call.to)?.clone(), columns, nulls)?))
}

fn struct_keys(call: &Call) -> Result<ArrayRef> {
    let values = call.array(0)?;
    let names: Vec<ScalarValue> =
        fields(values.data_type())?.iter().map(|field| ScalarValue::Utf8View(Some(field.name().clone()))).collect();
    let names = ScalarValue::List(ScalarValue::new_list_nullable(&names, &TEXT)).to_array_of_size(values.len())?;
    let is_null = datafusion::arrow::compute::is_null(&values)?;
    Ok(datafusion::arrow::compute::nullif(&names, &is_null)?)
}

/// A struct whose fields are called by their positions.
fn unnamed(of: &DataType) -> Result<DataType> {
    let named = |(at, field): (usize, &FieldRef)| field.as_ref().clone().with_name(format!("c{at}"));
    Ok(DataType::Struct(fields(of)?.iter().enumerate().map(named).collect()))
}

/// The type of the field at a constant position.
fn field_at(types: &[DataType], constants: &[Option<&ScalarValue>]) -> Result<DataType> {
    let fields = fields(&types[0])?;
    Ok(fields[place(constants.get(1).copied().flatten(), fields.len())?].data_type().clone())
}

/// A position from 1 as an index.
fn place(constant: Option<&ScalarValue>, count: usize) -> Result<usize> {
    match constant {
        Some(ScalarValue::Int64(Some(at))) => match usize::try_from(*at).ok().and_then(|at| at.checked_sub(1)) {
            Some(at) if at < count => Ok(at),
            _ => invalid(format!("the struct has {count} fields, and none at position {at}")),
        },
        _ => invalid("the position of a field of a struct has to be a constant"),
    }
}

/// The position, from 1, of the first field with a value; NULL if there is none.
fn struct_position(call: &Call) -> Result<ArrayRef> {
    let (values, wanted) = (call.array(0)?, call.array(1)?);
    let mut found: Vec<Option<i64>> = vec![None; values.len()];
    for (at, column) in values.as_struct().columns().iter().enumerate() {
        let Ok(wanted) = cast(&wanted, column.data_type()) else { continue };
        let compare = normal_form::comparator(column, &wanted, SortOptions::default())?;
        for (row, found) in found.iter_mut().enumerate() {
            if found.is_none() && values.is_valid(row) && wanted.is_valid(row) && compare(row, row) == Ordering::Equal {
                *found = Some(at as i64 + 1);
            }
        }
    }
    Ok(Arc::new(Int64Array::from(found)))
}

/// The fields of a map's keys and values.
fn entries(map: &DataType) -> Result<(&FieldRef, &FieldRef)> {
    match map {
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => Ok((&fields[0], &fields[1])),
            other => invalid(format!("{other} is no entry of a map")),
        },
        other => invalid(format!("{other} is no map")),
    }
}

fn map_has(call: &Call, is_key: bool) -> Result<ArrayRef> {
    let maps = call.array(0)?;
    let maps = maps.as_map();
    let values = if is_key { maps.keys() } else { maps.values() };
    super::list_members::has(values, maps.value_offsets(), maps.nulls(), &call.array(1)?)
}

/// The value of a key; NULL if the map does not contain it.
fn map_value(call: &Call) -> Result<ArrayRef> {
    let maps = call.array(0)?;
    Ok(take(maps.as_map().values(), &places_of_keys(call)?, None)?)
}

/// A function that returns a part of each entry of a map as a list; NULL for NULL.
fn of_map(
    names: &[&'static str],
    item: impl Fn(&DataType, &DataType) -> DataType + Send + Sync + 'static,
    values: impl Fn(&MapArray) -> ArrayRef + Send + Sync + 'static,
) -> Scalar {
    let takes = |types: &[DataType]| match types {
        [DataType::Null | DataType::Map(..)] => Some(types.to_vec()),
        _ => None,
    };
    let result = move |types: &[DataType], _: &[Option<&ScalarValue>]| match &types[0] {
        DataType::Null => Ok(list_of(DataType::Null)),
        map => entries(map).map(|(key, value)| list_of(item(key.data_type(), value.data_type()))),
    };
    Scalar::with_coercion(names, "a map", takes, result, move |call| {
        let maps = call.array(0)?;
        let (Some(maps), Some(item)) = (maps.as_map_opt(), list(&call.to)) else { return Ok(call.nulls()) };
        let values = exact_cast(&values(maps), item.data_type())?;
        Ok(Arc::new(ListArray::try_new(item, maps.offsets().clone(), values, maps.nulls().cloned())?))
    })
}

/// A list of the value of a key, which is empty if the map does not contain it.
fn map_extract(call: &Call) -> Result<ArrayRef> {
    let maps = call.array(0)?;
    if *maps.data_type() == DataType::Null {
        return Ok(call.nulls());
    }
    let places = places_of_keys(call)?;
    let found: UInt32Array = places.iter().flatten().map(Some).collect();
    let lengths = (0..places.len()).map(|row| usize::from(places.is_valid(row))).collect();
    let values = take(maps.as_map().values(), &found, None)?;
    Ok(Arc::new(of_lengths(&call.to, values, lengths, maps.nulls().cloned())?))
}

/// The places of keys among those of all maps; NULL for those that a map does not contain.
fn places_of_keys(call: &Call) -> Result<UInt32Array> {
    let (maps, wanted) = (call.array(0)?, call.array(1)?);
    let maps = maps.as_map();
    let Some(compare) = comparator(maps.keys(), &wanted)? else { return Ok(UInt32Array::new_null(maps.len())) };
    let offsets = maps.value_offsets();
    let place = |row: usize| {
        let mut places = offsets[row] as usize..offsets[row + 1] as usize;
        let found = places.find(|at| wanted.is_valid(row) && compare(*at, row) == Ordering::Equal);
        found.filter(|_| maps.is_valid(row)).map(|at| at as u32)
    };
    Ok((0..maps.len()).map(place).collect())
}

/// The value of a key, as in `m['key']`; NULL if the map does not have it.
pub(super) fn map_value_function() -> Scalar {
    Scalar::typed(&[MAP_VALUE], &[&[Map, Any]], |types, _| Ok(entries(&types[0])?.1.data_type().clone()), map_value)
}

/// The order of two nested values.
pub(super) fn order_function() -> Scalar {
    Scalar::new(&[ORDER], &[&[Any, Any]], INT, order)
}

/// -1, 0 or 1: the order of two values of one nested type, in which NULLs are the greatest.
fn order(call: &Call) -> Result<ArrayRef> {
    let (left, right) = (call.array(0)?, call.array(1)?);
    let right = if left.data_type() == right.data_type() { right } else { cast(&right, left.data_type())? };
    let compare = normal_form::comparator(&left, &right, SortOptions { descending: false, nulls_first: false })?;
    let order = |row: usize| (left.is_valid(row) && right.is_valid(row)).then(|| compare(row, row) as i64);
    Ok(Arc::new((0..left.len()).map(order).collect::<Int64Array>()))
}

/// The map type for a list of pairs.
fn map_of_entries(pairs: &DataType) -> Result<DataType> {
    let field = list(pairs);
    let fields = match field.as_ref().map(|field| field.data_type()) {
        Some(DataType::Struct(fields)) if fields.len() == 2 => fields.clone(),
        _ => return invalid("map_from_entries takes a list of pairs: [(key, value), …]"),
    };
    let key = Field::new("key", fields[0].data_type().clone(), false);
    let value = Field::new("value", fields[1].data_type().clone(), true);
    let entries = Field::new("entries", DataType::Struct(vec![key, value].into()), false);
    Ok(DataType::Map(Arc::new(entries), false))
}

/// Maps with these entries. Keys must be distinct and not NULL.
fn maps(to: &DataType, columns: [ArrayRef; 2], lengths: Vec<usize>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let DataType::Map(field, is_sorted) = to else { return invalid(format!("{to} is no map")) };
    let [keys, values] = columns;
    if keys.null_count() > 0 {
        return invalid("a key of a map is NULL");
    }
    let offsets = OffsetBuffer::<i32>::from_lengths(lengths);
    if *keys.data_type() != DataType::Null {
        let compare = normal_form::comparator(&keys, &keys, SortOptions::default())?;
        for pair in offsets.windows(2) {
            let mut places: Vec<usize> = (pair[0] as usize..pair[1] as usize).collect();
            places.sort_by(|a, b| compare(*a, *b));
            if places.windows(2).any(|pair| compare(pair[0], pair[1]) == Ordering::Equal) {
                return invalid("a map has a key twice");
            }
        }
    }
    let entries = StructArray::try_new(fields(field.data_type())?.clone(), vec![keys, values], None)?;
    Ok(Arc::new(MapArray::try_new(field.clone(), offsets, entries, nulls, *is_sorted)?))
}

fn lengths(offsets: &[i32]) -> Vec<usize> {
    offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize).collect()
}

/// The map of keys in a list and of the values of a struct.
fn map_of_struct(types: &[DataType]) -> Result<DataType> {
    let [of, keys] = types else { return invalid("a map is made of a struct and keys") };
    let (Some(value), Some(key)) = (fields(of)?.first(), list(keys)) else { return invalid("a map is made of fields") };
    let key = Field::new("key", key.data_type().clone(), false);
    let value = Field::new("value", value.data_type().clone(), true);
    let entries = Field::new("entries", DataType::Struct(vec![key, value].into()), false);
    Ok(DataType::Map(Arc::new(entries), false))
}

/// The keys are the same for all rows.
fn struct_as_map(call: &Call) -> Result<ArrayRef> {
    let (structs, keys) = (call.array(0)?, lists(call, 1)?);
    let structs = structs.as_struct();
    let (rows, width) = (structs.len(), structs.num_columns());
    if rows == 0 {
        return Ok(new_empty_array(&call.to));
    }
    let keys = keys.value(0);
    let valid: Vec<bool> = (0..rows).map(|row| structs.is_valid(row)).collect();
    let known: Vec<u32> = (0..rows).filter(|row| valid[*row]).map(|row| row as u32).collect();
    let columns: Vec<&dyn Array> = structs.columns().iter().map(AsRef::as_ref).collect();
    let places = known.iter().flat_map(|row| (0..width).map(move |at| (at, *row as usize)));
    let values = interleave(&columns, &places.collect::<Vec<_>>())?;
    let key_places: UInt32Array = known.iter().flat_map(|_| 0..width as u32).collect();
    let lengths = valid.iter().map(|is_valid| if *is_valid { width } else { 0 }).collect();
    maps(&call.to, [take(&keys, &key_places, None)?, values], lengths, Some(NullBuffer::from(valid)))
}

fn map_from_entries(call: &Call) -> Result<ArrayRef> {
    let pairs: ListArray = lists(call, 0)?;
    let offsets = pairs.value_offsets();
    let (start, end) = (offsets[0] as usize, offsets[pairs.len()] as usize);
    let rows = pairs.values().slice(start, end - start);
    let rows = rows.as_struct();
    let (key, value) = entries(&call.to)?;
    let columns = [exact_cast(rows.column(0), key.data_type())?, exact_cast(rows.column(1), value.data_type())?];
    maps(&call.to, columns, lengths(offsets), pairs.nulls().cloned())
}

/// The entries of several maps. If several contain a key, the last value is used.
fn map_concat(call: &Call) -> Result<ArrayRef> {
    let (key, value) = entries(&call.to)?;
    let all = (0..call.count()).map(|at| call.array(at)).collect::<Result<Vec<_>>>()?;
    let all: Vec<&MapArray> = all.iter().map(|array| array.as_map()).collect();
    let joined = |column: fn(&MapArray) -> &ArrayRef, to: &DataType| -> Result<ArrayRef> {
        let parts = all.iter().map(|map| exact_cast(column(map), to)).collect::<Result<Vec<_>>>()?;
        Ok(concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>())?)
    };
    let (keys, values) = (joined(MapArray::keys, key.data_type())?, joined(MapArray::values, value.data_type())?);
    let starts: Vec<usize> =
        all.iter().scan(0, |start, map| Some(std::mem::replace(start, *start + map.keys().len()))).collect();
    let compare = normal_form::comparator(&keys, &keys, SortOptions::default())?;
    let rows = all.first().map_or(0, |map| map.len());
    let (mut from_keys, mut from_values, mut lengths) = (vec![], vec![], Vec::with_capacity(rows));
    for row in 0..rows {
        let before = from_keys.len();
        for (map, start) in all.iter().zip(&starts).filter(|(map, _)| map.is_valid(row)) {
            let range = map.value_offsets()[row] as usize..map.value_offsets()[row + 1] as usize;
            for place in range.map(|at| at + start) {
                let known =
                    from_keys[before..].iter().position(|known| compare(*known as usize, place) == Ordering::Equal);
                match known {
                    Some(at) => from_values[before + at] = place as u32,
                    None => {
                        from_keys.push(place as u32);
                        from_values.push(place as u32);
                    }
                }
            }
        }
        lengths.push(from_keys.len() - before);
    }
    let columns =
        [take(&keys, &UInt32Array::from(from_keys), None)?, take(&values, &UInt32Array::from(from_values), None)?];
    // The result is NULL only if all maps are NULL.
    let valid: Vec<bool> = (0..rows).map(|row| all.iter().any(|map| map.is_valid(row))).collect();
    maps(&call.to, columns, lengths, Some(NullBuffer::from(valid)))
}
