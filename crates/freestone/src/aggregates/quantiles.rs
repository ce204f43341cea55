//! Quantiles of all values of a group, for one fraction or a list of fractions, and `median` and `mad`.
//!
//! `quantile_cont` interpolates between two values, for dates, times and timestamps in their unit. `quantile_disc` returns
//! the smallest value such that at least this fraction of all values does not exceed it. A negative fraction counts from
//! the largest value.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, IntervalMonthDayNanoArray, ListArray, UInt32Array,
    new_null_array,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::{cast, take};
use datafusion::arrow::datatypes::{DataType, Field, Float64Type, Int64Type, IntervalMonthDayNano, TimeUnit};
use datafusion::error::Result;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::scalar::ScalarValue;
use freestone_exec::convert::form_of;
use freestone_exec::hash::{float_place, int_place};
use freestone_exec::quantiles::Place;
use freestone_exec::vector::Form;

use super::choices::comparator;
use super::collected::{Collected, Groups};
use crate::error::Error;
use crate::times::{DAY_NS, INTERVAL, infinite, integers, out_of_range, per_second};

pub(super) fn functions() -> Vec<Collected> {
    let takes = "a value and a fraction between 0 and 1, or a list of fractions";
    let within = |name, cont: bool| Collected {
        within_group: true,
        ..match cont {
            true => Collected::new(name, takes, cont_arguments, cont_type, |groups| quantiles(groups, true)),
            false => Collected::new(name, takes, disc_arguments, disc_type, |groups| quantiles(groups, false)),
        }
    };
    vec![
        within("percentile_cont", true),
        within("percentile_disc", false),
        Collected::new("quantile_cont", takes, cont_arguments, cont_type, |groups| quantiles(groups, true)),
        Collected::new("quantile_disc", takes, disc_arguments, disc_type, |groups| quantiles(groups, false)),
        Collected::new("median", "a value", median_arguments, |types| interpolated(&types[0]), median),
        Collected::new("mad", "a number or time", mad_arguments, |types| deviation(&types[0]), mad),
    ]
}

/// The type of interpolated values; the type of the values if there is none between them.
fn interpolated(value: &DataType) -> DataType {
    match value {
        DataType::Date32 | DataType::Date64 => DataType::Timestamp(TimeUnit::Microsecond, None),
        value if value.is_numeric() || *value == DataType::Null => DataType::Float64,
        value => value.clone(),
    }
}

fn is_interpolated(value: &DataType) -> bool {
    value.is_numeric()
        || matches!(value, DataType::Date32 | DataType::Timestamp(..) | DataType::Time64(_) | DataType::Null)
}

/// The type in which values are collected; numbers are collected as DOUBLE.
fn collected(value: &DataType) -> DataType {
    match value {
        DataType::Date64 => DataType::Date32,
        value if value.is_numeric() || *value == DataType::Null => DataType::Float64,
        value => value.clone(),
    }
}

fn fractions(kind: &DataType) -> Option<DataType> {
    match kind {
        kind if kind.is_numeric() => Some(DataType::Float64),
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => Some(list_of(DataType::Float64)),
        _ => None,
    }
}

fn cont_arguments(types: &[DataType]) -> Option<Vec<DataType>> {
    match types {
        [value, at] if is_interpolated(value) || *value == DataType::Date64 => {
            Some(vec![collected(value), fractions(at)?])
        }
        _ => None,
    }
}

fn disc_arguments(types: &[DataType]) -> Option<Vec<DataType>> {
    match types {
        [value, at] => Some(vec![value.clone(), fractions(at)?]),
        _ => None,
    }
}

fn median_arguments(types: &[DataType]) -> Option<Vec<DataType>> {
    match types {
        [value] => Some(vec![collected(value)]),
        _ => None,
    }
}

fn mad_arguments(types: &[DataType]) -> Option<Vec<DataType>> {
    match types {
        [value] if value.is_numeric() || *value == DataType::Null => Some(vec![DataType::Float64]),
        [DataType::Date64] => Some(vec![DataType::Date32]),
        [value] if is_time(value) => Some(vec![value.clone()]),
        _ => None,
    }
}

fn is_time(value: &DataType) -> bool {
    matches!(value, DataType::Date32 | DataType::Timestamp(..) | DataType::Time64(_))
}

/// The type of a distance between values.
fn deviation(value: &DataType) -> DataType {
    if is_time(value) { INTERVAL } else { DataType::Float64 }
}

fn list_of(value: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(value, true)))
}

fn cont_type(types: &[DataType]) -> DataType {
    let value = interpolated(&types[0]);
    if matches!(types[1], DataType::List(_)) { list_of(value) } else { value }
}

fn disc_type(types: &[DataType]) -> DataType {
    if matches!(types[1], DataType::List(_)) { list_of(types[0].clone()) } else { types[0].clone() }
}

/// Quantiles of numbers at constant places, which can be selected without their rows.
#[derive(Clone)]
pub(crate) struct Selection {
    pub places: Vec<Place>,
    /// Whether WITHIN GROUP sorts in descending order.
    pub descending: bool,
    /// The type of a quantile.
    value: DataType,
    is_list: bool,
}

impl Selection {
    /// What a function selects; `None` if it is another one, or its fractions are no constants.
    pub fn of(function: &AggregateFunctionExpr) -> Option<Selection> {
        let Collected { name, descending, .. } = *function.fun().inner().downcast_ref::<Collected>()?;
        let (result, arguments) = (function.field().data_type().clone(), function.expressions());
        let constant = arguments.get(1).map(|e| Some(e.downcast_ref::<Literal>()?.value().clone()));
        let (fractions, is_list) = match (name, constant) {
            ("median", None) => (vec![0.5], false),
            ("quantile_cont" | "quantile_disc" | "percentile_cont" | "percentile_disc", Some(constant)) => {
                match constant? {
                    ScalarValue::Float64(fraction) => (vec![fraction?], false),
                    ScalarValue::List(list) if list.len() == 1 && list.is_valid(0) => {
                        (list.value(0).as_primitive_opt::<Float64Type>()?.iter().collect::<Option<_>>()?, true)
                    }
                    _ => return None,
                }
            }
            _ => return None,
        };
        let value = match &result {
            DataType::List(field) if is_list => field.data_type().clone(),
            _ => result,
        };
        let are_known = !fractions.is_empty() && fractions.iter().all(|fraction| (-1.0..=1.0).contains(fraction));
        if !are_known || !matches!(form_of(&value), Form::Int | Form::Wide | Form::Float) {
            return None;
        }
        let is_between = matches!(value, DataType::Float64 | DataType::Timestamp(..) | DataType::Time64(_));
        let interpolates = if name == "median" { is_between } else { name.ends_with("cont") };
        let places = fractions.into_iter().map(|fraction| place(fraction, interpolates)).collect();
        Some(Selection { places, descending, value, is_list })
    }

    /// The results of groups from the values between which their places lie, and the distances from the first.
    pub fn results(&self, lows: &ArrayRef, highs: &ArrayRef, shares: &[f64]) -> Result<ArrayRef> {
        let values = interpolation(lows, highs, shares, &self.value)?;
        if !self.is_list {
            return Ok(values);
        }
        let places = self.places.len();
        let has_values: Vec<bool> = (0..values.len()).step_by(places).map(|first| lows.is_valid(first)).collect();
        let lengths = OffsetBuffer::from_repeated_length(places, has_values.len());
        let field = Arc::new(Field::new_list_field(self.value.clone(), true));
        Ok(Arc::new(ListArray::try_new(field, lengths, values, Some(has_values.into()))?))
    }
}

/// The fractions for a group, which must be the same in all its rows.
fn wanted(groups: &Groups, row: usize) -> Result<Vec<f64>> {
    let at = &groups.columns[1];
    let (values, range) = match at.data_type() {
        DataType::List(_) => {
            let lists = at.as_list::<i32>();
            let range = lists.value_offsets()[row] as usize..lists.value_offsets()[row + 1] as usize;
            (lists.values().clone(), if lists.is_valid(row) { range } else { 0..0 })
        }
        _ => (at.clone(), row..row + 1),
    };
    let values = values.as_primitive::<Float64Type>();
    range
        .map(|place| {
            let fraction = if values.is_valid(place) { values.value(place) } else { f64::NAN };
            if !(-1.0..=1.0).contains(&fraction) {
                return Err(Error::invalid("the fraction of a quantile is between -1 and 1").into());
            }
            Ok(fraction)
        })
        .collect()
}

/// The rows of each group, sorted by value.
fn ordered(groups: &Groups) -> Result<Vec<Vec<usize>>> {
    let column = &groups.columns[0];
    if let Some(keys) = sort_keys(column)? {
        let key = |row: usize| if groups.descending { !keys[row] } else { keys[row] };
        let sorted = |places: Vec<usize>| {
            let mut keyed: Vec<(u64, usize)> = places.into_iter().map(|row| (key(row), row)).collect();
            keyed.sort_unstable();
            keyed.into_iter().map(|(_, row)| row).collect()
        };
        return Ok(groups.places(1).map(sorted).collect());
    }
    let compare = comparator(column, groups.descending)?;
    let sorted = |mut places: Vec<usize>| {
        places.sort_unstable_by(|a, b| compare(*a, *b).then(a.cmp(b)));
        places
    };
    Ok(groups.places(1).map(sorted).collect())
}

/// Numbers in the order of a column's values; `None` for types that have none. What the row of a NULL has means nothing.
fn sort_keys(column: &ArrayRef) -> Result<Option<Vec<u64>>> {
    use DataType::{Date32, Float64, Int8, Int16, Int32, Int64, Timestamp, UInt8, UInt16, UInt32};
    Ok(match column.data_type() {
        Float64 => {
            Some(column.as_primitive::<Float64Type>().values().iter().map(|value| float_place(*value)).collect())
        }
        Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | Date32 | Timestamp(..) => {
            let values = match column.data_type() {
                Date32 => cast(&cast(column, &Int32)?, &Int64)?,
                _ => cast(column, &Int64)?,
            };
            Some(values.as_primitive::<Int64Type>().values().iter().map(|value| int_place(*value)).collect())
        }
        _ => None,
    })
}

fn place(fraction: f64, interpolates: bool) -> Place {
    if interpolates { Place::Continuous(fraction) } else { Place::Discrete(fraction) }
}

fn quantiles(groups: &Groups, interpolates: bool) -> Result<ArrayRef> {
    let mut wanted_by_group = vec![];
    let ordered = ordered(groups)?;
    for places in &ordered {
        wanted_by_group.push(match places.first() {
            Some(first) => wanted(groups, *first)?,
            None => vec![],
        });
    }
    let is_list = matches!(groups.to, DataType::List(_)) && matches!(groups.columns[1].data_type(), DataType::List(_));
    let value = match groups.to {
        DataType::List(field) if is_list => field.data_type().clone(),
        other => other.clone(),
    };
    // The position of each fraction. `None` for a group without values, unless the result is a list.
    let mut marks: Vec<Option<(usize, usize, f64)>> = vec![];
    for (places, fractions) in ordered.iter().zip(&wanted_by_group) {
        let mark = |fraction: &f64| {
            let (low, high, share) = place(*fraction, interpolates).among(places.len());
            (places[low], places[high], share)
        };
        marks.extend(fractions.iter().map(mark).map(Some));
        if !is_list && fractions.is_empty() {
            marks.push(None);
        }
    }
    let values = between(&groups.columns[0], &marks, &value)?;
    if !is_list {
        return Ok(values);
    }
    let lengths: Vec<usize> = wanted_by_group.iter().map(Vec::len).collect();
    let nulls = NullBuffer::from(ordered.iter().map(|places| !places.is_empty()).collect::<Vec<_>>());
    let field = Arc::new(Field::new_list_field(value, true));
    Ok(Arc::new(ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), values, Some(nulls))?))
}

/// The interpolated values between pairs of rows.
fn between(column: &ArrayRef, marks: &[Option<(usize, usize, f64)>], to: &DataType) -> Result<ArrayRef> {
    let lows: UInt32Array = marks.iter().map(|mark| mark.map(|(low, ..)| low as u32)).collect();
    let highs: UInt32Array = marks.iter().map(|mark| mark.map(|(_, high, _)| high as u32)).collect();
    let shares: Vec<f64> = marks.iter().map(|mark| mark.map_or(0.0, |(.., share)| share)).collect();
    interpolation(&take(column, &lows, None)?, &take(column, &highs, None)?, &shares, to)
}

/// The values between those of two columns, at these distances from the first.
fn interpolation(lows: &ArrayRef, highs: &ArrayRef, shares: &[f64], to: &DataType) -> Result<ArrayRef> {
    if lows.data_type() == to && !matches!(to, DataType::Float64 | DataType::Timestamp(..) | DataType::Time64(_)) {
        return Ok(lows.clone());
    }
    if *lows.data_type() == DataType::Null {
        return Ok(new_null_array(to, lows.len()));
    }
    let rows = (0..lows.len()).map(|row| lows.is_valid(row).then_some(row));
    if let DataType::Timestamp(..) | DataType::Time64(_) = to {
        let ticks = |column| cast(&cast(column, to)?, &DataType::Int64);
        let (lows, highs) = (ticks(lows)?, ticks(highs)?);
        let (lows, highs) = (lows.as_primitive::<Int64Type>(), highs.as_primitive::<Int64Type>());
        let value = |row: usize| {
            let (low, high) = (i128::from(lows.value(row)), i128::from(highs.value(row)));
            let between = low + ((high - low) as f64 * shares[row]).round() as i128;
            // Times of day have nanoseconds only if they were written.
            let is_rounded = matches!(to, DataType::Time64(_)) && low % 1_000 == 0 && high % 1_000 == 0;
            (if is_rounded { (between + 500).div_euclid(1_000) * 1_000 } else { between }) as i64
        };
        let values: Int64Array = rows.map(|row| row.map(value)).collect();
        return Ok(cast(&values, to)?);
    }
    let (lows, highs) = (lows.as_primitive::<Float64Type>(), highs.as_primitive::<Float64Type>());
    let value = |row: usize| midway(lows.value(row), highs.value(row), shares[row]);
    Ok(Arc::new(rows.map(|row| row.map(value)).collect::<Float64Array>()))
}

/// A value between two floats, without overflow of their difference.
fn midway(low: f64, high: f64, share: f64) -> f64 {
    if low == high || share == 0.0 { low } else { low * (1.0 - share) + high * share }
}

fn median(groups: &Groups) -> Result<ArrayRef> {
    let column = &groups.columns[0];
    let interpolates = is_interpolated(column.data_type());
    let middle = |rows: usize| place(0.5, interpolates).among(rows);
    let marks: Vec<_> = match sort_keys(column)? {
        Some(keys) => {
            let mark = |places: Vec<usize>| {
                let (low, high, share) = (!places.is_empty()).then(|| middle(places.len()))?;
                let mut keyed: Vec<(u64, usize)> = places.into_iter().map(|row| (keys[row], row)).collect();
                // Only the middle is put in its place.
                let (_, first, above) = keyed.select_nth_unstable(low);
                let first = first.1;
                let second = if high > low { above.iter().min().map_or(first, |(_, row)| *row) } else { first };
                Some((first, second, share))
            };
            groups.places(1).map(mark).collect()
        }
        None => {
            let mark = |places: &Vec<usize>| {
                let (low, high, share) = (!places.is_empty()).then(|| middle(places.len()))?;
                Some((places[low], places[high], share))
            };
            ordered(groups)?.iter().map(mark).collect()
        }
    };
    between(column, &marks, groups.to)
}

/// The median of the absolute deviations from the median.
fn mad(groups: &Groups) -> Result<ArrayRef> {
    if *groups.to == INTERVAL {
        return mad_of_times(groups);
    }
    let values = groups.columns[0].as_primitive::<Float64Type>();
    let median = |sorted: &[f64]| {
        let (low, high, share) = Place::Continuous(0.5).among(sorted.len());
        midway(sorted[low], sorted[high], share)
    };
    let of_group = |places: Vec<usize>| {
        if places.is_empty() {
            return None;
        }
        let mut all: Vec<f64> = places.into_iter().map(|place| values.value(place)).collect();
        all.sort_by(order);
        let middle = median(&all);
        all.iter_mut().for_each(|value| *value = (*value - middle).abs());
        all.sort_by(order);
        Some(median(&all))
    };
    Ok(Arc::new(groups.places(1).map(of_group).collect::<Float64Array>()))
}

/// The same of times, as intervals of days and a time of day. Means of two times are not rounded before the last one.
fn mad_of_times(groups: &Groups) -> Result<ArrayRef> {
    let column = &groups.columns[0];
    let ns_per_unit = match column.data_type() {
        DataType::Date32 => i128::from(DAY_NS),
        DataType::Timestamp(unit, _) | DataType::Time64(unit) => 1_000_000_000 / i128::from(per_second(*unit)),
        _ => 1,
    };
    let values = integers(column)?;
    // Twice the median, and so twice the deviations, of whose median this is four times.
    let twice_the_median = |sorted: &[i128]| sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2];
    let of_group = |places: Vec<usize>| {
        if places.is_empty() {
            return Ok(None);
        }
        if places.iter().any(|place| infinite(values.value(*place), column.data_type()).is_some()) {
            return Err(Error::invalid("mad of infinite times").into());
        }
        let mut all: Vec<i128> = places.into_iter().map(|place| i128::from(values.value(place)) * 2).collect();
        all.sort_unstable();
        let middle = twice_the_median(&all) / 2;
        all.iter_mut().for_each(|value| *value = (*value - middle).abs());
        all.sort_unstable();
        let us = (twice_the_median(&all) * ns_per_unit + 2_000) / 4_000;
        let day_us = i128::from(DAY_NS / 1_000);
        let days = i32::try_from(us / day_us).map_err(|_| out_of_range("interval"))?;
        Ok(Some(IntervalMonthDayNano::new(0, days, (us % day_us * 1_000) as i64)))
    };
    let intervals = groups.places(1).map(of_group).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(IntervalMonthDayNanoArray::from(intervals)))
}

/// NaN is greater than all other values.
fn order(a: &f64, b: &f64) -> Ordering {
    a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn midway_is_between() {
        assert_eq!(midway(f64::MAX, f64::MAX, 0.5), f64::MAX);
        assert_eq!(midway(-f64::MAX, f64::MAX, 0.5), 0.0);
    }

    #[test]
    fn keys_of_floats_are_in_their_order() {
        let values = [f64::NEG_INFINITY, -f64::MAX, -1.5, -5e-324, 0.0, 5e-324, 1.5, f64::MAX, f64::INFINITY, f64::NAN];
        assert!(values.map(float_place).is_sorted_by(|a, b| a < b));
        assert_eq!((float_place(-0.0), float_place(-f64::NAN)), (float_place(0.0), float_place(f64::NAN)));
    }

    #[test]
    fn the_middle_is_that_of_sorted_rows() {
        let mut state = 7u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for rows in 0..60usize {
            let values: Vec<Option<f64>> = (0..rows)
                .map(|_| match next(8) {
                    0 => None,
                    1 => Some(f64::NAN),
                    2 => Some(-0.0),
                    _ => Some(next(9) as f64 - 4.0),
                })
                .collect();
            let column: ArrayRef = Arc::new(Float64Array::from(values.clone()));
            let (columns, offsets) = ([column], [0, rows / 3, rows]);
            let groups = Groups { columns: &columns, offsets: &offsets, to: &DataType::Float64, descending: false };
            let medians = median(&groups).expect("medians");
            for (at, range) in [0..rows / 3, rows / 3..rows].into_iter().enumerate() {
                let mut sorted: Vec<f64> = values[range].iter().flatten().copied().collect();
                sorted.sort_by(order);
                let expected = (!sorted.is_empty()).then(|| {
                    let (low, high, share) = Place::Continuous(0.5).among(sorted.len());
                    midway(sorted[low], sorted[high], share)
                });
                let found = medians.as_primitive::<Float64Type>();
                let found = found.is_valid(at).then(|| found.value(at));
                assert!(found == expected || found.zip(expected).is_some_and(|(a, b)| a.is_nan() && b.is_nan()));
            }
        }
    }
}
