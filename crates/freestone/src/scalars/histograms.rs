//! Histograms with given bins: `histogram(x, bins)` and `histogram_exact(x, bins)` from the frequencies of values, and
//! `is_histogram_other_bin`.
//!
//! Values in no bin are in another one, whose key is the greatest value of the type, or an empty text or list, as in DuckDB. Types
//! without such a value have no other bin.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, DynComparator, Int64Array, ListArray, MapArray, StructArray, UInt32Array,
    UInt64Array, new_null_array,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::{SortOptions, concat, take};
use datafusion::arrow::datatypes::{DataType, Field, TimeUnit, UInt64Type};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;

use super::function::Scalar;
use super::kinds::Kind::Any;
use super::kinds::{BOOL, list, list_of};
use super::list_members::common;
use super::rows::{bools, invalid, lists};
use crate::display::ValueTexts;
use crate::error::Error;
use crate::exact::normal_form::comparator;
use crate::times::{Call, DAY_NS, exact_cast, finished, infinity, is_text};

pub(super) fn all() -> Vec<Scalar> {
    vec![
        Scalar::with_coercion(
            &["freestone_binned"],
            "values, and a list of bins of their type",
            |types| match types {
                [counts, bins, exact] if *exact == BOOL => {
                    let bin = bin_type(&value_type(counts)?, list(bins)?.data_type())?;
                    Some(vec![counts.clone(), list_of(bin), BOOL])
                }
                _ => None,
            },
            |types, _| match list(&types[1]) {
                Some(bin) => Ok(counts_of(bin.data_type())),
                None => invalid("the bins of a histogram are a list"),
            },
            binned,
        ),
        Scalar::new(&["is_histogram_other_bin"], &[&[Any]], BOOL, is_other),
    ]
}

/// The type of the values that a map counts.
fn value_type(counts: &DataType) -> Option<DataType> {
    let DataType::Map(entries, _) = counts else { return None };
    let DataType::Struct(fields) = entries.data_type() else { return None };
    fields.first().map(|key| key.data_type().clone())
}

/// The type in which values are compared with bins. That of decimals is DOUBLE, whose greatest value is infinite.
fn bin_type(value: &DataType, bin: &DataType) -> Option<DataType> {
    match common(value, bin)? {
        kind if kind.is_decimal() => Some(DataType::Float64),
        kind => Some(kind),
    }
}

/// A map from bins to counts.
fn counts_of(bin: &DataType) -> DataType {
    let (key, count) = (Field::new("key", bin.clone(), false), Field::new("value", DataType::UInt64, true));
    let entries = Field::new("entries", DataType::Struct(vec![key, count].into()), false);
    DataType::Map(Arc::new(entries), false)
}

/// The frequencies of values, which are the maps of the first argument, in the bins of the second one. With `true` as the third
/// one a bin has the values that are equal to it; otherwise those up to it that are in no smaller one.
fn binned(call: &Call) -> Result<ArrayRef> {
    let (maps, bins, exact) = (call.array(0)?, lists(call, 1)?, bools(call, 2)?);
    let Some(maps) = maps.as_map_opt() else { return internal_err!("the counts of a histogram are no map") };
    let values = exact_cast(maps.keys(), bins.values().data_type())?;
    let counts = exact_cast(maps.values(), &DataType::UInt64)?;
    let counts = counts.as_primitive::<UInt64Type>();
    let order = Order::new(&values, bins.values())?;
    let other = other_key(values.data_type())?;
    let is_other = match &other {
        Some(other) => Some(comparator(bins.values(), other, SortOptions::default())?),
        None => None,
    };
    let other_at = bins.values().len() as u32;
    let (mut keys, mut found, mut lengths, mut valid) = (vec![], vec![], vec![], vec![]);
    for row in 0..maps.len() {
        let before = keys.len();
        valid.push(maps.is_valid(row));
        if maps.is_valid(row) {
            let own = order.bins(bounds(bins.value_offsets(), row), &bins)?;
            let entries = bounds(maps.value_offsets(), row);
            let (inside, others) = order.counted(&own, entries, counts, exact.is_valid(row) && exact.value(row));
            keys.extend(own.iter().map(|bin| *bin as u32));
            found.extend(inside);
            if let Some(is_other) = is_other.as_ref().filter(|_| others > 0) {
                if let Some(bin) = own.iter().find(|bin| is_other(**bin, 0) == Ordering::Equal) {
                    return collision(bins.values(), *bin);
                }
                keys.push(other_at);
                found.push(others);
            }
        }
        lengths.push(keys.len() - before);
    }
    let all = match &other {
        Some(other) => concat(&[bins.values().as_ref(), other.as_ref()])?,
        None => bins.values().clone(),
    };
    let keys = take(&all, &UInt32Array::from(keys), None)?;
    maps_of(&call.to, keys, UInt64Array::from(found), lengths, valid)
}

fn bounds(offsets: &[i32], row: usize) -> Range<usize> {
    offsets[row] as usize..offsets[row + 1] as usize
}

/// The order of values and bins.
struct Order {
    of_bins: DynComparator,
    of_both: DynComparator,
}

impl Order {
    fn new(values: &ArrayRef, bins: &ArrayRef) -> Result<Order> {
        if bins.data_type().is_null() {
            return Ok(Order {
                of_bins: Box::new(|_, _| Ordering::Equal),
                of_both: Box::new(|_, _| Ordering::Greater),
            });
        }
        let options = SortOptions::default();
        Ok(Order { of_bins: comparator(bins, bins, options)?, of_both: comparator(values, bins, options)? })
    }

    /// The places of a row's bins in ascending order, each once.
    fn bins(&self, range: Range<usize>, bins: &ListArray) -> Result<Vec<usize>> {
        let mut places: Vec<usize> = range.collect();
        if places.iter().any(|place| bins.values().is_null(*place)) {
            return invalid("a bin of a histogram is NULL");
        }
        places.sort_by(|a, b| (self.of_bins)(*a, *b));
        places.dedup_by(|a, b| (self.of_bins)(*a, *b) == Ordering::Equal);
        Ok(places)
    }

    /// The counts of bins, and that of all other values.
    fn counted(&self, bins: &[usize], values: Range<usize>, counts: &UInt64Array, exact: bool) -> (Vec<u64>, u64) {
        let (mut inside, mut others) = (vec![0u64; bins.len()], 0u64);
        for value in values {
            let at = bins.partition_point(|bin| (self.of_both)(value, *bin) == Ordering::Greater);
            let bin = bins.get(at).filter(|bin| !exact || (self.of_both)(value, **bin) == Ordering::Equal);
            match inside.get_mut(at).filter(|_| bin.is_some()) {
                Some(count) => *count += counts.value(value),
                None => others += counts.value(value),
            }
        }
        (inside, others)
    }
}

fn collision<T>(bins: &ArrayRef, bin: usize) -> Result<T> {
    let mut text = String::new();
    ValueTexts::new(bins.as_ref())?.append(bin, &mut text);
    let error = Error::invalid(format!("the bin '{text}' is also that of values in no bin, and there are some"));
    Err(error.with_hint("write another bin").into())
}

fn maps_of(
    to: &DataType,
    keys: ArrayRef,
    counts: UInt64Array,
    lengths: Vec<usize>,
    valid: Vec<bool>,
) -> Result<ArrayRef> {
    let DataType::Map(entries, _) = to else { return internal_err!("the result of a histogram is no map") };
    let DataType::Struct(fields) = entries.data_type() else { return internal_err!("entries of a map are no structs") };
    let rows = keys.len();
    let columns = StructArray::try_new_with_length(fields.clone(), vec![keys, Arc::new(counts)], None, rows)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(MapArray::try_new(entries.clone(), offsets, columns, Some(NullBuffer::from(valid)), false)?))
}

/// The key of values in no bin; `None` for types without one.
fn other_key(kind: &DataType) -> Result<Option<ArrayRef>> {
    use DataType::{Date32, Float32, Float64, Int8, Int16, Int32, Int64, List, Struct, Time64, Timestamp};
    use DataType::{UInt8, UInt16, UInt32, UInt64};
    let key = match kind {
        Int8 => ScalarValue::from(i8::MAX),
        Int16 => ScalarValue::from(i16::MAX),
        Int32 => ScalarValue::from(i32::MAX),
        Int64 => ScalarValue::from(i64::MAX),
        UInt8 => ScalarValue::from(u8::MAX),
        UInt16 => ScalarValue::from(u16::MAX),
        UInt32 => ScalarValue::from(u32::MAX),
        UInt64 => ScalarValue::from(u64::MAX),
        Float32 => ScalarValue::from(f32::INFINITY),
        Float64 => ScalarValue::from(f64::INFINITY),
        text if is_text(text) => ScalarValue::from(""),
        bytes if bytes.is_binary() => ScalarValue::BinaryView(Some(vec![])),
        Date32 | Timestamp(..) => {
            return finished(Int64Array::from(vec![infinity(true, kind)]), kind).map(Some);
        }
        Time64(TimeUnit::Nanosecond) => ScalarValue::Time64Nanosecond(Some(DAY_NS)),
        List(item) => ScalarValue::List(ScalarValue::new_list_nullable(&[], item.data_type())),
        Struct(fields) => {
            let columns = fields.iter().map(|field| new_null_array(field.data_type(), 1)).collect();
            return Ok(Some(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, None, 1)?)));
        }
        _ => return Ok(None),
    };
    Ok(Some(exact_cast(&key.to_array()?, kind)?))
}

/// Whether a value is the key of the bin of values in no bin.
fn is_other(call: &Call) -> Result<ArrayRef> {
    let values = call.array(0)?;
    let nulls = values.logical_nulls();
    let known = |row: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row));
    if values.data_type().is_null() {
        return Ok(call.nulls());
    }
    // As in DuckDB, a BLOB is none.
    let is_bytes = values.data_type().is_binary();
    let greatest = match values.data_type() {
        DataType::Decimal128(precision, scale) => {
            let most = 10i128.pow(u32::from(*precision)) - 1;
            Some(ScalarValue::Decimal128(Some(most), *precision, *scale).to_array()?)
        }
        kind => other_key(kind)?.filter(|_| !is_bytes),
    };
    let is_key: Box<dyn Fn(usize) -> bool> = match &greatest {
        Some(key) => {
            let compare = comparator(&values, key, SortOptions::default())?;
            Box::new(move |row| compare(row, 0) == Ordering::Equal)
        }
        None => Box::new(|_| false),
    };
    let rows = (0..values.len()).map(|row| Some(row).filter(&known).map(&is_key));
    Ok(Arc::new(rows.collect::<BooleanArray>()))
}
