//! Functions that put lists together, or take a part of them.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BinaryViewArray, Int64Array, ListArray, UInt32Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::{concat, take};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;

use super::function::Scalar;
use super::kinds::Kind::Int;
use super::kinds::{BYTES, TEXT, list, list_of};
use super::list_members::common;
use super::lists::{of_lengths, taken};
use super::rows::{bytes, ints, invalid, lists};
use super::text::cut;
use crate::growth::Growth;
use crate::times::{Call, exact_cast, is_text};

pub(super) fn all() -> Vec<Scalar> {
    vec![
        list_concat(),
        Scalar::with_coercion(
            &["list_append", "array_append", "list_push_back", "array_push_back"],
            "a list, and a value like those in it",
            |types| with_value(types, 1),
            |types, _| Ok(types[0].clone()),
            |call| joined(call, &[lists(call, 0)?, alone(call, 1)?]),
        ),
        Scalar::with_coercion(
            &["list_prepend", "array_prepend", "list_push_front"],
            "a value, and a list of such values",
            |types| with_value(types, 0),
            |types, _| Ok(types[1].clone()),
            |call| joined(call, &[alone(call, 0)?, lists(call, 1)?]),
        ),
        list_slice(),
    ]
}

/// A part of a list, a text or a BLOB. Also `a[1:2]` of a BLOB.
pub(super) fn list_slice() -> Scalar {
    Scalar::with_coercion(
        &["list_slice", "array_slice"],
        "a list, a text or a BLOB, the first and the last position, and possibly a step",
        |types| {
            let values = match types.first()? {
                values if is_text(values) => values.clone(),
                values if values.is_binary() => BYTES,
                values => DataType::List(list(values)?),
            };
            let places = types[1..].iter().map(|place| Int.accepts(place));
            let all: Vec<DataType> = std::iter::once(Some(values)).chain(places).collect::<Option<_>>()?;
            (3..=4).contains(&all.len()).then_some(all)
        },
        |types, _| Ok(if is_text(&types[0]) { TEXT } else { types[0].clone() }),
        slice,
    )
}

/// The values of several lists. Also `a || b`.
pub(super) fn list_concat() -> Scalar {
    Scalar::with_coercion(
        &["list_concat", "array_concat", "list_cat", "array_cat"],
        "lists of the same type",
        |types| {
            let mut item = DataType::Null;
            for own in types {
                item = common(&item, list(own)?.data_type())?;
            }
            (!types.is_empty()).then(|| vec![list_of(item); types.len()])
        },
        |types, _| Ok(types[0].clone()),
        |call| joined(call, &(0..call.count()).map(|at| lists(call, at)).collect::<Result<Vec<_>>>()?),
    )
    .growing(Growth::Joined)
}

/// The types of a list and the value at a position of the arguments.
fn with_value(types: &[DataType], value: usize) -> Option<Vec<DataType>> {
    let [first, second] = types else { return None };
    let (values, own) = if value == 1 { (first, second) } else { (second, first) };
    let common = common(list(values)?.data_type(), own)?;
    let both = [list_of(common.clone()), common];
    Some(if value == 1 { both.to_vec() } else { both.into_iter().rev().collect() })
}

/// A list of one value per row.
fn alone(call: &Call, at: usize) -> Result<ListArray> {
    let values = call.array(at)?;
    let Some(item) = list(&call.to) else { return invalid("the result is no list") };
    let values = exact_cast(&values, item.data_type())?;
    let lengths = vec![1; values.len()];
    of_lengths(&call.to, values, lengths, None)
}

/// The values of lists in their order. A list that is NULL has none; the result is NULL if all are.
fn joined(call: &Call, all: &[ListArray]) -> Result<ArrayRef> {
    let values: Vec<&dyn Array> = all.iter().map(|list| list.values().as_ref()).collect();
    let values = concat(&values)?;
    let starts: Vec<u32> =
        all.iter().scan(0, |start, list| Some(std::mem::replace(start, *start + list.values().len() as u32))).collect();
    let (mut places, mut lengths, mut valid) = (vec![], vec![], vec![]);
    for row in 0..call.rows() {
        let before = places.len();
        let mut is_known = false;
        for (list, start) in all.iter().zip(&starts).filter(|(list, _)| list.is_valid(row)) {
            let offsets = list.value_offsets();
            places.extend((offsets[row]..offsets[row + 1]).map(|at| start + at as u32));
            is_known = true;
        }
        lengths.push(places.len() - before);
        valid.push(is_known);
    }
    let values = take(&values, &UInt32Array::from(places), None)?;
    Ok(Arc::new(of_lengths(&call.to, values, lengths, Some(NullBuffer::from(valid)))?))
}

/// The values, or the characters, from one position to another. Positions count from 1, or from the end if they are
/// negative. The result is NULL if a position is.
fn slice(call: &Call) -> Result<ArrayRef> {
    let all = call.array(0)?;
    if is_text(all.data_type()) {
        return match call.count() {
            3 => cut(call),
            _ => invalid("a part of a text has no step: write text[from:to]"),
        };
    }
    if all.data_type().is_binary() {
        return cut_bytes(call);
    }
    let (all, from, to) = (lists(call, 0)?, ints(call, 1)?, ints(call, 2)?);
    let steps = if call.count() > 3 { ints(call, 3)? } else { Int64Array::from(vec![1; all.len()]) };
    let (mut places, mut lengths, mut valid) = (vec![], vec![], vec![]);
    for row in 0..all.len() {
        let is_valid = all.is_valid(row) && from.is_valid(row) && to.is_valid(row) && steps.is_valid(row);
        let before = places.len();
        if is_valid {
            let start = all.value_offsets()[row];
            let inside = part(from.value(row), to.value(row), steps.value(row), i64::from(all.value_length(row)))?;
            places.extend(inside.map(|at| (start as i64 + at) as u32));
        }
        lengths.push(places.len() - before);
        valid.push(is_valid);
    }
    Ok(Arc::new(taken(&all, places, lengths, valid)?))
}

/// The bytes from one position to another, which count like those of characters.
fn cut_bytes(call: &Call) -> Result<ArrayRef> {
    if call.count() > 3 && call.constant(3) != Some(&ScalarValue::Int64(Some(1))) {
        return invalid("a part of a BLOB has no step: write blob[from:to]");
    }
    let (values, starts, ends) = (bytes(call, 0)?, ints(call, 1)?, ints(call, 2)?);
    let row = |row: usize| {
        let bytes = values.is_valid(row).then(|| values.value(row))?;
        let (start, end) =
            (starts.is_valid(row).then(|| starts.value(row))?, ends.is_valid(row).then(|| ends.value(row))?);
        let count = bytes.len() as i64;
        let place = |at: i64| if at < 0 { count.saturating_add(at) + 1 } else { at };
        let (start, end) = (place(start).max(1), place(end).min(count));
        Some(if start > end { &[][..] } else { &bytes[(start - 1) as usize..end as usize] })
    };
    Ok(Arc::new((0..values.len()).map(row).collect::<BinaryViewArray>()))
}

/// The indexes, from 0, of a part of a list. With a negative step, the first position is the later one.
fn part(from: i64, to: i64, step: i64, length: i64) -> Result<impl Iterator<Item = i64>> {
    let Some(stride) = usize::try_from(step.unsigned_abs()).ok().filter(|stride| *stride > 0) else {
        return invalid("the step of a part of a list is 0");
    };
    let from_start = |place: i64| if place < 0 { length.saturating_add(place).saturating_add(1) } else { place };
    let (low, high) = if step > 0 { (from, to) } else { (to, from) };
    let (low, high) = (from_start(low).max(1), from_start(high).min(length));
    let forth = (low..=high).step_by(stride);
    let back = (0..=high.saturating_sub(low)).step_by(stride).map(move |down| high - down);
    let (forth, back) = if step > 0 { (Some(forth), None) } else { (None, Some(back)) };
    Ok(forth.into_iter().flatten().chain(back.into_iter().flatten()).map(|place| place - 1))
}
