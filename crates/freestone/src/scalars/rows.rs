//! Arguments as arrays of a known type, and the construction of results.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Float64Array, Int64Array, ListArray, ListBuilder,
    PrimitiveArray, StringViewArray, StringViewBuilder,
};
use datafusion::arrow::datatypes::{ArrowPrimitiveType, DataType};
use datafusion::common::internal_err;
use datafusion::error::Result;

use super::kinds::{BOOL, BYTES, INT, REAL, TEXT, list};
use crate::error::Error;
use crate::growth::Meter;
use crate::times::{Call, exact_cast};

pub(super) fn texts(call: &Call, at: usize) -> Result<StringViewArray> {
    Ok(exact_cast(&call.array(at)?, &TEXT)?.as_string_view().clone())
}

pub(super) fn bytes(call: &Call, at: usize) -> Result<BinaryViewArray> {
    Ok(exact_cast(&call.array(at)?, &BYTES)?.as_binary_view().clone())
}

pub(super) fn ints(call: &Call, at: usize) -> Result<Int64Array> {
    Ok(exact_cast(&call.array(at)?, &INT)?.as_primitive().clone())
}

pub(super) fn reals(call: &Call, at: usize) -> Result<Float64Array> {
    Ok(exact_cast(&call.array(at)?, &REAL)?.as_primitive().clone())
}

pub(super) fn bools(call: &Call, at: usize) -> Result<BooleanArray> {
    Ok(exact_cast(&call.array(at)?, &BOOL)?.as_boolean().clone())
}

pub(super) fn lists(call: &Call, at: usize) -> Result<ListArray> {
    let array = call.array(at)?;
    let Some(field) = list(array.data_type()) else { return internal_err!("{} is no list", array.data_type()) };
    match array.as_list_opt::<i32>() {
        Some(lists) => Ok(lists.clone()),
        None => Ok(exact_cast(&array, &DataType::List(field))?.as_list().clone()),
    }
}

/// The bytes of a view of a text.
pub(super) const VIEW_BYTES: usize = 16;

/// Lists of parts of texts, counted while they are made.
pub(super) struct Parts {
    lists: ListBuilder<StringViewBuilder>,
    meter: Meter,
}

impl Parts {
    pub fn new(function: &'static str) -> Parts {
        Parts { lists: ListBuilder::new(StringViewBuilder::new()), meter: Meter::new(function) }
    }

    pub fn append_null(&mut self) {
        self.lists.append_null();
    }

    /// A list of parts.
    pub fn append<'t>(&mut self, parts: impl IntoIterator<Item = &'t str>) -> Result<()> {
        self.append_options(parts.into_iter().map(Some))
    }

    /// A list of parts, some of which may be NULL.
    pub fn append_options<'t>(&mut self, parts: impl IntoIterator<Item = Option<&'t str>>) -> Result<()> {
        parts.into_iter().try_for_each(|part| self.add(part))?;
        self.end();
        Ok(())
    }

    /// One more part of the list that [`Parts::end`] ends.
    pub fn add(&mut self, part: Option<&str>) -> Result<()> {
        self.meter.add(VIEW_BYTES + part.map_or(0, str::len))?;
        self.lists.values().append_option(part);
        Ok(())
    }

    pub fn end(&mut self) {
        self.lists.append(true);
    }

    pub fn finish(mut self) -> ArrayRef {
        Arc::new(self.lists.finish())
    }
}

/// Applies `value` to each text that is not NULL; the result is text.
pub(super) fn text_of_text(call: &Call, value: impl Fn(&str) -> Result<String>) -> Result<ArrayRef> {
    let texts = texts(call, 0)?;
    Ok(Arc::new(texts.iter().map(|text| text.map(&value).transpose()).collect::<Result<StringViewArray>>()?))
}

/// Applies `value` to each text that is not NULL; the result is an integer.
pub(super) fn int_of_text(call: &Call, value: impl Fn(&str) -> i64) -> Result<ArrayRef> {
    Ok(Arc::new(texts(call, 0)?.iter().map(|text| text.map(&value)).collect::<Int64Array>()))
}

/// Applies `value` to each pair of texts without NULL.
pub(super) fn of_pairs<P: ArrowPrimitiveType>(
    call: &Call,
    value: impl Fn(&str, &str) -> Result<P::Native>,
) -> Result<ArrayRef> {
    let (a, b) = (texts(call, 0)?, texts(call, 1)?);
    let rows = a.iter().zip(b.iter()).map(|(a, b)| a.zip(b).map(|(a, b)| value(a, b)).transpose());
    Ok(Arc::new(rows.collect::<Result<PrimitiveArray<P>>>()?))
}

/// Applies `value` to each pair of texts without NULL.
pub(super) fn bool_of_pairs(call: &Call, mut value: impl FnMut(&str, &str) -> Result<bool>) -> Result<ArrayRef> {
    let (a, b) = (texts(call, 0)?, texts(call, 1)?);
    let rows = a.iter().zip(b.iter()).map(|(a, b)| a.zip(b).map(|(a, b)| value(a, b)).transpose());
    Ok(Arc::new(rows.collect::<Result<BooleanArray>>()?))
}

/// The value of an argument that must be constant; `None` if it is NULL or missing.
pub(super) fn constant(call: &Call, at: usize, what: &str) -> Result<Option<String>> {
    if at >= call.count() { Ok(None) } else { call.text(at, what) }
}

/// Whether a value is NULL in one of the arrays.
pub(super) fn any_null(arrays: &[&dyn Array], row: usize) -> bool {
    arrays.iter().any(|array| array.is_null(row))
}

pub(super) fn invalid<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::invalid(message).into())
}

/// The error of a result outside of the range of its type.
pub(super) fn too_large<T>(what: &str) -> Result<T> {
    Err(crate::times::out_of_range(what))
}
