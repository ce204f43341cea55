//! Functions that compare the values of lists: whether and where a list contains a value, and what two lists share. NULL
//! is no value that a list could share with another, as in DuckDB.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, DynComparator, Int64Array, ListArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::{SortOptions, interleave};
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;

use super::function::Scalar;
use super::kinds::{BOOL, INT, list, list_of};
use super::lists::{of_lengths, taken};
use super::rows::{invalid, lists};
use crate::exact::normal_form;
use crate::optimizer::common_of_mixed;
use crate::times::{Call, exact_cast, is_text};
use crate::type_names::type_name;

pub(super) fn all() -> Vec<Scalar> {
    let of_value = |names, result: DataType, kernel: fn(&Call) -> Result<ArrayRef>| {
        Scalar::with_coercion(
            names,
            "a list, and a value like those in it",
            with_value,
            move |_, _| Ok(DataType::clone(&result)),
            kernel,
        )
    };
    let of_lists = |names, kernel: fn(&Call) -> Result<ArrayRef>| {
        Scalar::with_coercion(names, "two lists of the same type", with_list, |_, _| Ok(BOOL), kernel)
    };
    vec![
        of_value(&["list_contains", "list_has", "array_contains"], BOOL, |call| {
            let all = lists(call, 0)?;
            has(all.values(), all.value_offsets(), all.nulls(), &call.array(1)?)
        }),
        of_value(&["list_position", "list_indexof", "array_position", "array_indexof"], INT, position),
        list_has_any(),
        list_has_all(),
        of_lists(&["arrays_overlap"], |call| shared(call, true)),
        Scalar::with_coercion(
            &["freestone_array_remove"],
            "a list, and a value like those in it",
            |types| match types {
                [values, value] => {
                    let item = list(values)?;
                    common(item.data_type(), value)?;
                    Some(vec![DataType::List(item), value.clone()])
                }
                _ => None,
            },
            |types, _| Ok(types[0].clone()),
            removed,
        ),
        Scalar::with_coercion(
            &["freestone_array_replace"],
            "a list, and two values like those in it",
            with_two_values,
            |types, _| Ok(types[0].clone()),
            replaced,
        ),
        Scalar::with_coercion(
            &["list_intersect", "array_intersect"],
            "two lists of the same type",
            with_list,
            |types, _| Ok(types[0].clone()),
            intersection,
        ),
    ]
}

/// Whether two lists share a value. Also `a && b`.
pub(super) fn list_has_any() -> Scalar {
    Scalar::with_coercion(
        &["list_has_any", "array_has_any"],
        "two lists of the same type",
        with_list,
        |_, _| Ok(BOOL),
        |call| shared(call, true),
    )
}

/// Whether the first list has all values of the second. Also `a @> b`.
pub(super) fn list_has_all() -> Scalar {
    Scalar::with_coercion(
        &["list_has_all", "array_has_all"],
        "two lists of the same type",
        with_list,
        |_, _| Ok(BOOL),
        |call| shared(call, false),
    )
}

/// The type in which an item of a list and another value are compared; `None` if they are not comparable.
pub(super) fn common(item: &DataType, value: &DataType) -> Option<DataType> {
    match (item, value) {
        (item, value) if item == value => Some(item.clone()),
        (DataType::Null, other) | (other, DataType::Null) => Some(other.clone()),
        (item, value) if is_text(item) && is_text(value) => Some(item.clone()),
        (DataType::Boolean, number) | (number, DataType::Boolean) if number.is_numeric() => Some(number.clone()),
        // A text in quotes is what the list has.
        (item, text) if is_text(text) => Some(item.clone()),
        (text, _) if is_text(text) => None,
        (item, value) => {
            let types = [item.clone(), value.clone()];
            let is_one_kind = item.is_numeric() && value.is_numeric()
                || item.is_temporal() && value.is_temporal()
                || item.is_nested() && value.is_nested();
            let found = common_of_mixed(&types).or_else(|| type_union_resolution(&types));
            found.filter(|_| is_one_kind)
        }
    }
}

fn with_value(types: &[DataType]) -> Option<Vec<DataType>> {
    let [values, value] = types else { return None };
    let common = common(list(values)?.data_type(), value)?;
    Some(vec![list_of(common.clone()), common])
}

/// Those of a list, of which a value is replaced by another. A list of integers remains one.
fn with_two_values(types: &[DataType]) -> Option<Vec<DataType>> {
    let [values, before, after] = types else { return None };
    let item = list(values)?.data_type().clone();
    common(&item, before)?;
    let wide = common(&item, after)?;
    let item = if item.is_integer() && wide.is_integer() { item } else { wide };
    Some(vec![list_of(item.clone()), before.clone(), item])
}

fn with_list(types: &[DataType]) -> Option<Vec<DataType>> {
    let [left, right] = types else { return None };
    let common = list_of(common(list(left)?.data_type(), list(right)?.data_type())?);
    Some(vec![common.clone(), common])
}

/// Whether each row's list contains a value; NULL if the list is NULL, or has values and the wanted one is NULL.
pub(super) fn has(
    values: &ArrayRef,
    offsets: &[i32],
    nulls: Option<&NullBuffer>,
    wanted: &ArrayRef,
) -> Result<ArrayRef> {
    let compare = comparator(values, wanted)?;
    let row = |row: usize| {
        let mut places = offsets[row] as usize..offsets[row + 1] as usize;
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        if places.is_empty() {
            return Some(false);
        }
        let compare = compare.as_ref().filter(|_| wanted.is_valid(row))?;
        Some(places.any(|at| values.is_valid(at) && compare(at, row) == Ordering::Equal))
    };
    Ok(Arc::new((0..offsets.len() - 1).map(row).collect::<BooleanArray>()))
}

/// Whether a value is not NULL, even in an array of nothing else.
pub(super) fn is_known(array: &ArrayRef, at: usize) -> bool {
    *array.data_type() != DataType::Null && array.is_valid(at)
}

/// The order of values of two arrays, in a type that has the values of both; nothing if all values of one are NULL.
///
/// # Errors
/// Their types are not comparable.
pub(super) fn comparator(values: &ArrayRef, wanted: &ArrayRef) -> Result<Option<DynComparator>> {
    let (own, other) = (values.data_type(), wanted.data_type());
    if *own == DataType::Null || *other == DataType::Null {
        return Ok(None);
    }
    let Some(kind) = common(own, other) else {
        return invalid(format!("values of type {} cannot be compared with {}", type_name(own), type_name(other)));
    };
    let (values, wanted) = (exact_cast(values, &kind)?, exact_cast(wanted, &kind)?);
    Ok(Some(normal_form::comparator(&values, &wanted, SortOptions::default())?))
}

/// Lists, and a value per list that is looked for in it.
struct Sought {
    all: ListArray,
    wanted: ArrayRef,
    compare: Option<DynComparator>,
}

impl Sought {
    fn of(call: &Call) -> Result<Sought> {
        let (all, wanted) = (lists(call, 0)?, call.array(1)?);
        let compare = comparator(all.values(), &wanted)?;
        Ok(Sought { all, wanted, compare })
    }

    /// The places of a row's values.
    fn places(&self, row: usize) -> Range<usize> {
        self.all.value_offsets()[row] as usize..self.all.value_offsets()[row + 1] as usize
    }

    /// Whether the value at a place is not distinct from the one that is looked for.
    fn is_it(&self, at: usize, row: usize) -> bool {
        match (is_known(self.all.values(), at), is_known(&self.wanted, row)) {
            (true, true) => self.compare.as_ref().is_some_and(|compare| compare(at, row) == Ordering::Equal),
            (false, false) => true,
            _ => false,
        }
    }
}

/// The position, from 1, of the first value in each list that is not distinct from the wanted one.
fn position(call: &Call) -> Result<ArrayRef> {
    let sought = Sought::of(call)?;
    let row = |row: usize| {
        let places = sought.places(row);
        let start = places.start;
        let found = places.filter(|_| sought.all.is_valid(row)).find(|at| sought.is_it(*at, row));
        found.map(|at| (at - start) as i64 + 1)
    };
    Ok(Arc::new((0..sought.all.len()).map(row).collect::<Int64Array>()))
}

/// The lists without the values that are not distinct from one, as in PostgreSQL.
fn removed(call: &Call) -> Result<ArrayRef> {
    let sought = Sought::of(call)?;
    let (mut places, mut lengths) = (vec![], vec![]);
    for row in 0..sought.all.len() {
        let before = places.len();
        if sought.all.is_valid(row) {
            places.extend(sought.places(row).filter(|at| !sought.is_it(*at, row)).map(|at| at as u32));
        }
        lengths.push(places.len() - before);
    }
    let valid = (0..sought.all.len()).map(|row| sought.all.is_valid(row)).collect();
    Ok(Arc::new(taken(&sought.all, places, lengths, valid)?))
}

/// The lists with another value in place of all that are not distinct from one, as in PostgreSQL.
fn replaced(call: &Call) -> Result<ArrayRef> {
    let (sought, after) = (Sought::of(call)?, call.array(2)?);
    let (mut places, mut lengths) = (vec![], vec![]);
    for row in 0..sought.all.len() {
        let before = places.len();
        if sought.all.is_valid(row) {
            let place = |at: usize| if sought.is_it(at, row) { (1, row) } else { (0, at) };
            places.extend(sought.places(row).map(place));
        }
        lengths.push(places.len() - before);
    }
    let after = exact_cast(&after, sought.all.values().data_type())?;
    let values = interleave(&[sought.all.values().as_ref(), after.as_ref()], &places)?;
    Ok(Arc::new(of_lengths(sought.all.data_type(), values, lengths, sought.all.nulls().cloned())?))
}

/// Two lists per row, whose values are compared.
struct Pairs {
    left: ListArray,
    right: ListArray,
    compare: Option<DynComparator>,
}

impl Pairs {
    fn of(call: &Call) -> Result<Pairs> {
        let (left, right) = (lists(call, 0)?, lists(call, 1)?);
        let compare = comparator(left.values(), right.values())?;
        Ok(Pairs { left, right, compare })
    }

    /// The places of a row's values that are not NULL.
    fn places(of: &ListArray, row: usize) -> impl Iterator<Item = usize> + '_ {
        let offsets = of.value_offsets();
        (offsets[row] as usize..offsets[row + 1] as usize).filter(|at| is_known(of.values(), *at))
    }

    fn are_equal(&self, left: usize, right: usize) -> bool {
        self.compare.as_ref().is_some_and(|compare| compare(left, right) == Ordering::Equal)
    }

    fn is_on_left(&self, row: usize, wanted: usize) -> bool {
        Pairs::places(&self.left, row).any(|at| self.are_equal(at, wanted))
    }

    fn is_on_right(&self, row: usize, wanted: usize) -> bool {
        Pairs::places(&self.right, row).any(|at| self.are_equal(wanted, at))
    }
}

/// Whether one value of the second list is in the first, or all are.
fn shared(call: &Call, any: bool) -> Result<ArrayRef> {
    let pairs = Pairs::of(call)?;
    let row = |row: usize| {
        let mut wanted = Pairs::places(&pairs.right, row);
        let found = match any {
            true => wanted.any(|at| pairs.is_on_left(row, at)),
            false => wanted.all(|at| pairs.is_on_left(row, at)),
        };
        (pairs.left.is_valid(row) && pairs.right.is_valid(row)).then_some(found)
    };
    Ok(Arc::new((0..pairs.left.len()).map(row).collect::<BooleanArray>()))
}

/// The distinct values that both lists have, in the order of the first one. A second list that is NULL has none.
fn intersection(call: &Call) -> Result<ArrayRef> {
    let pairs = Pairs::of(call)?;
    let own = comparator(pairs.left.values(), pairs.left.values())?;
    let is_known = |kept: &[u32], at: usize| {
        own.as_ref().is_some_and(|own| kept.iter().any(|known| own(*known as usize, at) == Ordering::Equal))
    };
    let (mut places, mut lengths) = (vec![], vec![]);
    for row in 0..pairs.left.len() {
        let before = places.len();
        if pairs.left.is_valid(row) && pairs.right.is_valid(row) {
            for at in Pairs::places(&pairs.left, row) {
                if pairs.is_on_right(row, at) && !is_known(&places[before..], at) {
                    places.push(at as u32);
                }
            }
        }
        lengths.push(places.len() - before);
    }
    let valid = (0..pairs.left.len()).map(|row| pairs.left.is_valid(row)).collect();
    Ok(Arc::new(taken(&pairs.left, places, lengths, valid)?))
}
