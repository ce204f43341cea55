//! `hash(value, …)`, with DuckDB's numbers (`src/common/types/hash.cpp` of version 2), so that keys which were computed there
//! are found here.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt64Array, make_array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int64Type,
    IntervalMonthDayNanoType, TimeUnit, UInt64Type,
};
use datafusion::common::not_impl_err;
use datafusion::error::Result;

use crate::ingest::UUID;
use crate::times::{Call, SECOND_NS, exact_cast, integers};

use super::function::Scalar;
use super::kinds::Kind::{Any, Rest};

/// The hash of NULL, and of a list without items.
const OF_NULL: u64 = 0xbf58_476d_1ce4_e5b9;
const OF_EMPTY_STRUCT: u64 = 0x9e37_79b9_7f4a_7c15;
const FACTOR: u64 = 0xd6e8_feb8_6659_fd93;
const TEXT_SEED: u64 = 0xe17a_1465;
const TEXT_FACTOR: u64 = 0xc6a4_a793_5bd1_e995;

pub(super) fn all() -> Vec<Scalar> {
    vec![Scalar::new(&["hash"], &[&[Any, Rest]], DataType::UInt64, hash)]
}

fn hash(call: &Call) -> Result<ArrayRef> {
    let mut hashes = of_values(&call.array(0)?)?;
    for at in 1..call.count() {
        combine(&mut hashes, &call.array(at)?)?;
    }
    Ok(Arc::new(UInt64Array::from(hashes)))
}

/// Wellons' `xmxmx` (nullprogram.com/blog/2018/07/31).
fn mixed(mut value: u64) -> u64 {
    value ^= value >> 32;
    value = value.wrapping_mul(FACTOR);
    value ^= value >> 32;
    value = value.wrapping_mul(FACTOR);
    value ^ (value >> 32)
}

fn combined(hash: u64, other: u64) -> u64 {
    (hash ^ (hash >> 32)).wrapping_mul(FACTOR) ^ other
}

fn of_bytes(bytes: &[u8]) -> u64 {
    let mut hash = TEXT_SEED ^ (bytes.len() as u64).wrapping_mul(TEXT_FACTOR);
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
    }
    mixed(hash)
}

fn of_wide(value: i128) -> u64 {
    mixed(value as u64) ^ mixed((value >> 64) as u64)
}

/// The hashes of all values.
fn of_values(array: &ArrayRef) -> Result<Vec<u64>> {
    match array.data_type() {
        DataType::Struct(fields) if fields.is_empty() => Ok(vec![OF_EMPTY_STRUCT; array.len()]),
        DataType::Struct(_) => {
            let parts = parts_of(array);
            let mut hashes = of_values(&parts[0])?;
            parts[1..].iter().try_for_each(|part| combine(&mut hashes, part))?;
            Ok(hashes)
        }
        kind if is_list(kind) => {
            let lists = as_lists(array)?;
            let items = of_values(lists.values())?;
            let of = |row: usize| items_of(&lists, &items, row).copied().reduce(combined).unwrap_or(OF_NULL);
            Ok((0..lists.len()).map(of).collect())
        }
        _ => of_simple(array),
    }
}

/// Adds the values of one more column to hashes.
fn combine(hashes: &mut [u64], array: &ArrayRef) -> Result<()> {
    match array.data_type() {
        DataType::Struct(_) => parts_of(array).iter().try_for_each(|part| combine(hashes, part)),
        kind if is_list(kind) => {
            // Lists without items, and NULL, have no effect.
            let lists = as_lists(array)?;
            let items = of_values(lists.values())?;
            for (row, hash) in hashes.iter_mut().enumerate() {
                *hash = items_of(&lists, &items, row).fold(*hash, |hash, item| combined(hash, *item));
            }
            Ok(())
        }
        _ => {
            let others = of_simple(array)?;
            hashes.iter_mut().zip(others).for_each(|(hash, other)| *hash = combined(*hash, other));
            Ok(())
        }
    }
}

fn is_list(kind: &DataType) -> bool {
    use DataType::{FixedSizeList, LargeList, LargeListView, List, ListView, Map};
    matches!(kind, List(_) | LargeList(_) | ListView(_) | LargeListView(_) | FixedSizeList(..) | Map(..))
}

fn as_lists(array: &ArrayRef) -> Result<ListArray> {
    match array.data_type() {
        DataType::Map(entries, _) => {
            let map = array.as_map();
            let values = Arc::new(map.entries().clone());
            Ok(ListArray::try_new(entries.clone(), map.offsets().clone(), values, map.nulls().cloned())?)
        }
        kind => {
            let Some(item) = super::kinds::list(kind) else { return not_impl_err!("hash of {kind}") };
            Ok(exact_cast(array, &DataType::List(item))?.as_list::<i32>().clone())
        }
    }
}

/// The hashes of a list's items.
fn items_of<'h>(lists: &ListArray, items: &'h [u64], row: usize) -> std::slice::Iter<'h, u64> {
    let offsets = lists.value_offsets();
    let range = if lists.is_valid(row) { offsets[row] as usize..offsets[row + 1] as usize } else { 0..0 };
    items.get(range).unwrap_or_default().iter()
}

/// The fields of structs, which are NULL where their struct is.
fn parts_of(array: &ArrayRef) -> Vec<ArrayRef> {
    let structs = array.as_struct();
    let masked = |part: &ArrayRef| match structs.nulls() {
        Some(outer) if outer.null_count() > 0 && *part.data_type() != DataType::Null => {
            let nulls = NullBuffer::union(part.nulls(), Some(outer));
            let data = part.to_data().into_builder().nulls(nulls);
            // The lengths are those of the parts before.
            data.build().map_or_else(|_| part.clone(), make_array)
        }
        _ => part.clone(),
    };
    structs.columns().iter().map(masked).collect()
}

/// The hashes of values without parts.
fn of_simple(array: &ArrayRef) -> Result<Vec<u64>> {
    use DataType::{Binary, BinaryView, Dictionary, LargeBinary, LargeUtf8, Null, Utf8, Utf8View};
    Ok(match array.data_type() {
        Null => vec![OF_NULL; array.len()],
        Dictionary(_, values) => of_simple(&exact_cast(array, values)?)?,
        Utf8 | LargeUtf8 | Utf8View => {
            let texts = exact_cast(array, &Utf8View)?;
            rows(array, |row| of_bytes(texts.as_string_view().value(row).as_bytes()))
        }
        Binary | LargeBinary | BinaryView => {
            let blobs = exact_cast(array, &BinaryView)?;
            rows(array, |row| of_bytes(blobs.as_binary_view().value(row)))
        }
        kind if *kind == UUID => rows(array, |row| {
            let mut bytes = [0; 16];
            bytes.copy_from_slice(array.as_fixed_size_binary().value(row));
            // The first bit is inverted there, so that signed numbers are in the order of the bytes.
            of_wide((u128::from_be_bytes(bytes) ^ (1 << 127)) as i128)
        }),
        DataType::Interval(_) => {
            let spans = exact_cast(array, &crate::times::INTERVAL)?;
            rows(array, |row| of_interval(spans.as_primitive::<IntervalMonthDayNanoType>().value(row)))
        }
        _ => of_numbers(array)?,
    })
}

/// The hashes of all rows of an array.
fn rows(array: &ArrayRef, of: impl Fn(usize) -> u64) -> Vec<u64> {
    (0..array.len()).map(|row| if array.is_null(row) { OF_NULL } else { of(row) }).collect()
}

/// The hashes of numbers and times.
fn of_numbers(array: &ArrayRef) -> Result<Vec<u64>> {
    use DataType::{
        Boolean, Date32, Decimal128, Decimal256, Float16, Float32, Float64, Int8, Int16, Int32, Int64, Time64,
        Timestamp, UInt8, UInt16, UInt32, UInt64,
    };
    Ok(match array.data_type() {
        Boolean => rows(array, |row| mixed(array.as_boolean().value(row).into())),
        Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32 => {
            let values = exact_cast(array, &Int64)?;
            rows(array, |row| mixed((values.as_primitive::<Int64Type>().value(row) as u32).into()))
        }
        UInt64 => rows(array, |row| mixed(array.as_primitive::<UInt64Type>().value(row))),
        Date32 => rows(array, |row| mixed((array.as_primitive::<Date32Type>().value(row) as u32).into())),
        Int64 | Timestamp(..) | Time64(_) => {
            let values = integers(array)?;
            // Times of day are microseconds there.
            let unit = if *array.data_type() == Time64(TimeUnit::Nanosecond) { 1_000 } else { 1 };
            rows(array, |row| mixed((values.value(row) / unit) as u64))
        }
        Decimal128(precision, _) => {
            let values = array.as_primitive::<Decimal128Type>();
            match precision {
                // Of 16 and 32 bits in DuckDB.
                ..=9 => rows(array, |row| mixed((values.value(row) as u32).into())),
                10..=18 => rows(array, |row| mixed(values.value(row) as u64)),
                _ => rows(array, |row| of_wide(values.value(row))),
            }
        }
        Decimal256(..) => rows(array, |row| {
            let (low, high) = array.as_primitive::<Decimal256Type>().value(row).to_parts();
            let rest = if high == 0 || high == -1 { 0 } else { of_wide(high) };
            of_wide(low as i128) ^ rest
        }),
        Float16 => of_numbers(&exact_cast(array, &Float32)?)?,
        Float32 => rows(array, |row| match array.as_primitive::<Float32Type>().value(row) {
            0.0 => mixed(0),
            value if value.is_nan() => mixed(f32::NAN.to_bits().into()),
            value => mixed(value.to_bits().into()),
        }),
        Float64 => rows(array, |row| match array.as_primitive::<Float64Type>().value(row) {
            0.0 => mixed(0),
            value if value.is_nan() => mixed(f64::NAN.to_bits()),
            value => mixed(value.to_bits()),
        }),
        kind => return not_impl_err!("hash of {kind}"),
    })
}

/// Of months of 30 days and days of 24 hours: equal intervals have equal hashes.
fn of_interval(span: datafusion::arrow::datatypes::IntervalMonthDayNano) -> u64 {
    const DAY: i64 = 86_400 * 1_000_000;
    let micros = span.nanoseconds / (SECOND_NS / 1_000_000);
    let (days, month) = (i64::from(span.days), DAY * 30);
    let months = i64::from(span.months) + days / 30 + micros / month;
    let days = days % 30 + micros % month / DAY;
    mixed(days as u64) ^ mixed(months as u64) ^ mixed((micros % DAY) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{BinaryViewArray, Decimal128Array, Float64Array, Int32Array, StringViewArray};

    /// The expected numbers are those of DuckDB 2.0.1.
    #[test]
    fn hashes_are_those_of_duckdb() {
        let check = |array: ArrayRef, expected: &[u64]| {
            assert_eq!(of_values(&array).expect("hashes"), expected, "{}", array.data_type());
        };
        check(
            Arc::new(Int32Array::from(vec![None, Some(1)])),
            &[13_787_848_793_156_543_929, 4_717_996_019_076_358_352],
        );
        check(Arc::new(StringViewArray::from(vec!["a"])), &[12_561_829_011_207_016_135]);
        check(Arc::new(BinaryViewArray::from(vec![b"a".as_slice()])), &[12_561_829_011_207_016_135]);
        check(Arc::new(Float64Array::from(vec![0.0, f64::NAN])), &[mixed(0), mixed(f64::NAN.to_bits())]);
        let decimals = Decimal128Array::from(vec![15]).with_precision_and_scale(2, 1).expect("a decimal");
        check(Arc::new(decimals), &[920_453_014_978_087_379]);
        let lists =
            ListArray::from_iter_primitive::<Int64Type, _, _>(vec![Some(vec![Some(1), Some(2)]), Some(vec![]), None]);
        check(Arc::new(lists), &[6_530_802_887_144_669_425, OF_NULL, OF_NULL]);
    }
}
