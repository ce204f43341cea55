//! Functions of lists.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, Float64Array, Int64Array, ListArray, UInt32Array,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::{SortOptions, take};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::error::Result;

use super::function::Scalar;
use super::kinds::Kind::{Int, List, Text};
use super::kinds::{INT, REAL, TEXT, list, list_of};
use super::rows::{any_null, constant, ints, invalid, lists};
use super::text::character;
use crate::error::Error;
use crate::exact::normal_form::comparator;
use crate::times::{Call, exact_cast, is_text};

pub(super) fn all() -> Vec<Scalar> {
    vec![
        Scalar::typed(
            &["list_sort", "array_sort"],
            &[&[List], &[List, Text], &[List, Text, Text]],
            |types, _| Ok(types[0].clone()),
            |call| sorted(call, false),
        ),
        Scalar::typed(
            &["list_reverse_sort"],
            &[&[List], &[List, Text]],
            |types, _| Ok(types[0].clone()),
            |call| sorted(call, true),
        ),
        Scalar::new(
            &["list_grade_up", "array_grade_up", "grade_up"],
            &[&[List], &[List, Text], &[List, Text, Text]],
            list_of(INT),
            grades,
        ),
        list_extract(),
        Scalar::new(&["list_unique", "array_unique"], &[&[List]], INT, unique),
        Scalar::typed(&["list_distinct", "array_distinct"], &[&[List]], |types, _| Ok(types[0].clone()), distinct),
        Scalar::typed(&["list_where"], &[&[List, List]], |types, _| Ok(types[0].clone()), list_where),
        Scalar::typed(&["list_select"], &[&[List, List]], |types, _| Ok(types[0].clone()), list_select),
        Scalar::new(&["list_inner_product"], &[&[List, List]], REAL, |call| products(call, |a| a.inner)),
        Scalar::new(&["list_negative_inner_product"], &[&[List, List]], REAL, |call| products(call, |a| -a.inner)),
        Scalar::new(&["list_cosine_similarity"], &[&[List, List]], REAL, |call| products(call, Products::cosine)),
        cross_product(),
    ]
}

/// The cross product of arrays of three numbers: of FLOAT if both are, and otherwise of DOUBLE.
fn cross_product() -> Scalar {
    Scalar::with_coercion(
        &["array_cross_product"],
        "two arrays of three numbers",
        |types| {
            let [a, b] = types else { return None };
            let (a, b) = (list(a)?, list(b)?);
            let is_number = |kind: &DataType| kind.is_numeric() || kind.is_null();
            let are_single = *a.data_type() == DataType::Float32 && *b.data_type() == DataType::Float32;
            let of = list_of(if are_single { DataType::Float32 } else { REAL });
            (is_number(a.data_type()) && is_number(b.data_type())).then(|| vec![of.clone(), of])
        },
        |types, _| match list(&types[0]) {
            Some(item) => Ok(DataType::FixedSizeList(item, 3)),
            None => invalid("array_cross_product takes two arrays of three numbers"),
        },
        crossed,
    )
}

fn crossed(call: &Call) -> Result<ArrayRef> {
    let all = [lists(call, 0)?, lists(call, 1)?];
    let DataType::FixedSizeList(item, size) = &call.to else { return invalid("the result is no array") };
    let numbers = |lists: &ListArray| -> Result<Float64Array> {
        Ok(exact_cast(lists.values(), &REAL)?.as_primitive::<Float64Type>().clone())
    };
    let items = [numbers(&all[0])?, numbers(&all[1])?];
    let vector = |of: usize, row: usize| -> Result<[f64; 3]> {
        let (start, length) = (all[of].value_offsets()[row] as usize, all[of].value_length(row));
        if length != 3 || (start..start + 3).any(|at| items[of].is_null(at)) {
            return invalid("array_cross_product takes arrays of three numbers, none of which is NULL");
        }
        Ok([0, 1, 2].map(|at| items[of].value(start + at)))
    };
    let (mut values, mut valid) = (vec![], vec![]);
    for row in 0..call.rows() {
        let is_null = any_null(&[&all[0], &all[1]], row);
        valid.push(!is_null);
        if is_null {
            values.extend([0.0; 3]);
            continue;
        }
        let ([a, b, c], [x, y, z]) = (vector(0, row)?, vector(1, row)?);
        values.extend([b * z - c * y, c * x - a * z, a * y - b * x]);
    }
    let values = exact_cast(&(Arc::new(Float64Array::from(values)) as ArrayRef), item.data_type())?;
    let arrays = FixedSizeListArray::try_new(item.clone(), *size, values, Some(NullBuffer::from(valid)))?;
    Ok(Arc::new(arrays))
}

/// The function that is also `list[2]`.
pub(super) fn list_extract() -> Scalar {
    Scalar::with_coercion(
        &["list_extract", "list_element", "array_extract"],
        "a list or a text, and a position",
        |types| match types {
            [text, place] if is_text(text) => Some(vec![text.clone(), Int.accepts(place)?]),
            [values, place] => Some(vec![List.accepts(values)?, Int.accepts(place)?]),
            _ => None,
        },
        |types, _| {
            let item = list(&types[0]).map(|field| field.data_type().clone());
            Ok(item.filter(|_| !is_text(&types[0])).unwrap_or(TEXT))
        },
        extract,
    )
}

/// The value at a position of each list, or the character of each text. Positions count from 1, or from the end if they
/// are negative.
fn extract(call: &Call) -> Result<ArrayRef> {
    if is_text(call.array(0)?.data_type()) {
        return character(call);
    }
    let (all, places) = (lists(call, 0)?, ints(call, 1)?);
    let offsets = all.value_offsets();
    let place = |row: usize| {
        if any_null(&[&all, &places], row) {
            return None;
        }
        let (start, end) = (i64::from(offsets[row]), i64::from(offsets[row + 1]));
        let at = match places.value(row) {
            0 => return None,
            place if place > 0 => start.checked_add(place - 1)?,
            place => end.checked_add(place)?,
        };
        (start..end).contains(&at).then_some(at as u32)
    };
    Ok(take(all.values(), &(0..all.len()).map(place).collect::<UInt32Array>(), None)?)
}

/// Lists of the values at given positions of a list array's values.
pub(super) fn taken(lists: &ListArray, places: Vec<u32>, lengths: Vec<usize>, valid: Vec<bool>) -> Result<ListArray> {
    let values = take(lists.values(), &UInt32Array::from(places), None)?;
    of_lengths(lists.data_type(), values, lengths, Some(NullBuffer::from(valid)))
}

/// Lists with these lengths.
pub(super) fn of_lengths(
    to: &DataType,
    values: ArrayRef,
    lengths: Vec<usize>,
    nulls: Option<NullBuffer>,
) -> Result<ListArray> {
    if lengths.iter().sum::<usize>() > i32::MAX as usize {
        return invalid("the lists of a batch have too many values");
    }
    let Some(field) = list(to) else { return invalid("the result is no list") };
    Ok(ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), values, nulls)?)
}

/// The direction of a sort, and the position of NULLs.
fn options(call: &Call, reverses: bool) -> Result<Option<SortOptions>> {
    let mut sort = SortOptions { descending: reverses, nulls_first: false };
    for (at, is_direction) in [(1, !reverses), (2, false)] {
        if at == 2 && reverses || at >= call.count() {
            continue;
        }
        let Some(word) = constant(call, at, "the direction of a sort")? else { return Ok(None) };
        let word = word.to_uppercase();
        match (word.split_whitespace().collect::<Vec<_>>().join(" ").as_str(), is_direction) {
            ("ASC", true) => sort.descending = false,
            ("DESC", true) => sort.descending = true,
            ("NULLS FIRST", false) => sort.nulls_first = true,
            ("NULLS LAST", false) => sort.nulls_first = false,
            _ => {
                let error = Error::invalid(format!("'{word}' is no direction of a sort"));
                return Err(error.with_hint("write 'ASC' or 'DESC', and then 'NULLS FIRST' or 'NULLS LAST'").into());
            }
        }
    }
    Ok(Some(sort))
}

/// The positions of each list's values in sorted order.
fn order(lists: &ListArray, options: SortOptions) -> Result<Vec<u32>> {
    let values = lists.values();
    let offsets = lists.value_offsets();
    let mut places: Vec<u32> = (offsets[0] as u32..offsets[lists.len()] as u32).collect();
    if *values.data_type() == DataType::Null {
        return Ok(places);
    }
    let compare = comparator(values, values, options)?;
    let base = offsets[0] as usize;
    for pair in offsets.windows(2) {
        let part = &mut places[pair[0] as usize - base..pair[1] as usize - base];
        part.sort_by(|a, b| compare(*a as usize, *b as usize));
    }
    Ok(places)
}

fn lengths(lists: &ListArray) -> Vec<usize> {
    lists.value_offsets().windows(2).map(|pair| (pair[1] - pair[0]) as usize).collect()
}

fn sorted(call: &Call, reverses: bool) -> Result<ArrayRef> {
    let lists = lists(call, 0)?;
    let Some(options) = options(call, reverses)? else { return Ok(call.nulls()) };
    let values = take(lists.values(), &UInt32Array::from(order(&lists, options)?), None)?;
    Ok(Arc::new(of_lengths(&call.to, values, lengths(&lists), lists.nulls().cloned())?))
}

/// The positions, from 1, of each list's values in sorted order.
fn grades(call: &Call) -> Result<ArrayRef> {
    let lists = lists(call, 0)?;
    let Some(options) = options(call, false)? else { return Ok(call.nulls()) };
    let places = order(&lists, options)?;
    let offsets = lists.value_offsets();
    let mut values = Vec::with_capacity(places.len());
    for pair in offsets.windows(2) {
        let (start, end) = (pair[0] - offsets[0], pair[1] - offsets[0]);
        let part = &places[start as usize..end as usize];
        values.extend(part.iter().map(|place| i64::from(*place) - i64::from(pair[0]) + 1));
    }
    let values: ArrayRef = Arc::new(Int64Array::from(values));
    Ok(Arc::new(of_lengths(&call.to, values, lengths(&lists), lists.nulls().cloned())?))
}

/// The number of distinct values, excluding NULL.
fn unique(call: &Call) -> Result<ArrayRef> {
    let lists = lists(call, 0)?;
    let parts = distinct_places(&lists)?;
    let count = |(row, places): (usize, &Vec<u32>)| lists.is_valid(row).then_some(places.len() as i64);
    Ok(Arc::new(parts.iter().enumerate().map(count).collect::<Int64Array>()))
}

/// The distinct values of each list, without NULL, in the order in which they come first.
fn distinct(call: &Call) -> Result<ArrayRef> {
    let lists = lists(call, 0)?;
    let mut parts = distinct_places(&lists)?;
    parts.iter_mut().for_each(|places| places.sort_unstable());
    let offsets = OffsetBuffer::from_lengths(parts.iter().map(Vec::len));
    let values = take(lists.values(), &UInt32Array::from(parts.concat()), None)?;
    let Some(item) = list(&call.to) else { return Ok(call.nulls()) };
    Ok(Arc::new(ListArray::try_new(item, offsets, values, lists.nulls().cloned())?))
}

/// The places of the distinct values of each list, in their order. Of equal values, the first counts.
fn distinct_places(lists: &ListArray) -> Result<Vec<Vec<u32>>> {
    let values = lists.values();
    if *values.data_type() == DataType::Null {
        return Ok(vec![vec![]; lists.len()]);
    }
    let options = SortOptions { descending: false, nulls_first: false };
    let places = order(lists, options)?;
    let compare = comparator(values, values, options)?;
    let offsets = lists.value_offsets();
    let row = |row: usize| {
        if lists.is_null(row) {
            return vec![];
        }
        let (start, end) = (offsets[row] - offsets[0], offsets[row + 1] - offsets[0]);
        let mut part = places[start as usize..end as usize].to_vec();
        part.retain(|place| values.is_valid(*place as usize));
        part.sort_by(|a, b| compare(*a as usize, *b as usize).then(a.cmp(b)));
        part.dedup_by(|a, b| compare(*a as usize, *b as usize) == Ordering::Equal);
        part
    };
    Ok((0..lists.len()).map(row).collect())
}

/// The values where a list of conditions is true.
fn list_where(call: &Call) -> Result<ArrayRef> {
    let (values, masks) = (lists(call, 0)?, lists(call, 1)?);
    let flags = exact_cast(masks.values(), &DataType::Boolean)?;
    let flags = flags.as_boolean();
    let (mut places, mut lengths, mut valid) = (vec![], vec![], vec![]);
    for row in 0..values.len() {
        let is_valid = !any_null(&[&values, &masks], row);
        let before = places.len();
        if is_valid {
            let (start, length) = (values.value_offsets()[row], values.value_length(row));
            let mask = masks.value_offsets()[row];
            if masks.value_length(row) > length {
                return invalid("list_where has more conditions than values");
            }
            for at in 0..masks.value_length(row) {
                let flag = (mask + at) as usize;
                if flags.is_null(flag) {
                    return invalid("a condition of list_where is NULL");
                }
                places.extend(flags.value(flag).then_some((start + at) as u32));
            }
        }
        lengths.push(places.len() - before);
        valid.push(is_valid);
    }
    Ok(Arc::new(taken(&values, places, lengths, valid)?))
}

/// The values at positions from 1; NULL for positions outside of the list.
fn list_select(call: &Call) -> Result<ArrayRef> {
    let (values, positions) = (lists(call, 0)?, lists(call, 1)?);
    let wanted = exact_cast(positions.values(), &INT)?;
    let wanted = wanted.as_primitive::<Int64Type>();
    let (mut places, mut lengths, mut valid) = (vec![], vec![], vec![]);
    for row in 0..values.len() {
        let is_valid = !any_null(&[&values, &positions], row);
        let (start, length) = (values.value_offsets()[row], i64::from(values.value_length(row)));
        let range = positions.value_offsets()[row] as usize..positions.value_offsets()[row + 1] as usize;
        let range = if is_valid { range } else { 0..0 };
        lengths.push(range.len());
        for at in range {
            let place = wanted.is_valid(at).then(|| wanted.value(at)).filter(|at| (1..=length).contains(at));
            places.push(place.map(|place| start as u32 + (place - 1) as u32));
        }
        valid.push(is_valid);
    }
    let chosen = take(values.values(), &UInt32Array::from(places), None)?;
    Ok(Arc::new(of_lengths(&call.to, chosen, lengths, Some(NullBuffer::from(valid)))?))
}

/// The sums of products of two lists of numbers with equal lengths.
struct Products {
    inner: f64,
    left: f64,
    right: f64,
}

impl Products {
    fn cosine(self) -> f64 {
        (self.inner / (self.left.sqrt() * self.right.sqrt())).clamp(-1.0, 1.0)
    }
}

fn products(call: &Call, value: fn(Products) -> f64) -> Result<ArrayRef> {
    let (a, b) = (lists(call, 0)?, lists(call, 1)?);
    let numbers = |lists: &ListArray| -> Result<Float64Array> {
        Ok(exact_cast(lists.values(), &REAL)?.as_primitive::<Float64Type>().clone())
    };
    let (x, y) = (numbers(&a)?, numbers(&b)?);
    let row = |row: usize| -> Result<Option<f64>> {
        if any_null(&[&a, &b], row) {
            return Ok(None);
        }
        let range = |lists: &ListArray| lists.value_offsets()[row] as usize..lists.value_offsets()[row + 1] as usize;
        let (left, right) = (range(&a), range(&b));
        if left.len() != right.len() {
            return invalid("the lists of a product have different lengths");
        }
        let mut sums = Products { inner: 0.0, left: 0.0, right: 0.0 };
        for (i, j) in left.zip(right) {
            if x.is_null(i) || y.is_null(j) {
                return invalid("a list of a product has NULL in it");
            }
            let (x, y) = (x.value(i), y.value(j));
            sums = Products { inner: sums.inner + x * y, left: sums.left + x * x, right: sums.right + y * y };
        }
        Ok(Some(value(sums)))
    };
    Ok(Arc::new((0..a.len()).map(row).collect::<Result<Float64Array>>()?))
}
