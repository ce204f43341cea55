//! `generate_series` and `range` as lists: of integers, decimals and timestamps.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Int64Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Decimal128Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;

use super::function::Scalar;
use super::kinds::{INT, list_of};
use super::lists::of_lengths;
use super::rows::{ints, invalid};
use crate::context::claim;
use crate::exact::integer_digits;
use crate::times::{Call, exact_cast, finished, series};

pub(super) fn all() -> Vec<Scalar> {
    vec![of_name("generate_series", true), of_name("range", false)]
}

fn of_name(name: &'static str, has_end: bool) -> Scalar {
    Scalar::with_coercion(
        &[name],
        "an end; a start and an end; or a start, an end and a step, which are numbers, or times and an interval",
        coerced,
        |types, _| Ok(list_of(types[0].clone())),
        move |call| match call.kind(0) {
            Some(DataType::Int64) => of_integers(call, name, has_end),
            Some(DataType::Decimal128(..)) => of_decimals(call, name, has_end),
            _ => of_times(call, name, has_end),
        },
    )
}

/// The types of the arguments: all integers, all decimals of one type, or two times of the type of the result and an interval.
fn coerced(types: &[DataType]) -> Option<Vec<DataType>> {
    let is_integer = |kind: &DataType| kind.is_integer() || *kind == DataType::Null;
    match types {
        types if types.is_empty() || types.len() > 3 => None,
        types if types.iter().all(is_integer) => Some(vec![INT; types.len()]),
        types if types.iter().all(|kind| is_integer(kind) || kind.is_decimal()) => {
            let (mut whole, mut scale) = (1, 0);
            for kind in types {
                let (own_whole, own_scale) = match kind {
                    DataType::Decimal128(precision, scale) => (i16::from(*precision) - i16::from(*scale), *scale),
                    kind => (integer_digits(kind).unwrap_or(1), 0),
                };
                (whole, scale) = (whole.max(own_whole), scale.max(own_scale));
            }
            let precision = u8::try_from(whole + i16::from(scale)).ok()?.min(38);
            Some(vec![DataType::Decimal128(precision, scale); types.len()])
        }
        [start, end, by] => series::types(start, end, by).map(Vec::from),
        _ => None,
    }
}

/// The numbers from a start to an end, in units of the last digit.
struct Numbers {
    next: Option<i128>,
    end: i128,
    step: i128,
    has_end: bool,
}

impl Iterator for Numbers {
    type Item = i128;

    fn next(&mut self) -> Option<i128> {
        let value = self.next?;
        let is_within = if self.step > 0 { value < self.end } else { value > self.end };
        let is_last = self.has_end && value == self.end;
        if !is_within && !is_last {
            self.next = None;
            return None;
        }
        self.next = value.checked_add(self.step);
        Some(value)
    }
}

impl Numbers {
    /// At least as many as there are.
    fn at_most(&self) -> u64 {
        let Some(start) = self.next else { return 0 };
        let is_empty = if self.step > 0 { start > self.end } else { start < self.end };
        let steps = self.end.abs_diff(start) / self.step.unsigned_abs().max(1);
        if is_empty { 0 } else { u64::try_from(steps).unwrap_or(u64::MAX).saturating_add(1) }
    }
}

/// The series of each row; nothing for a row with NULL. `one` is a step of 1.
fn numbers(
    call: &Call,
    has_end: bool,
    one: i128,
    value: impl Fn(usize, usize) -> Option<i128>,
) -> Vec<Option<Numbers>> {
    let row = |row: usize| {
        let given = (0..call.count()).map(|at| value(at, row)).collect::<Option<Vec<i128>>>();
        let (start, end, step) = match given.as_deref() {
            Some([end]) => (0, *end, one),
            Some([start, end]) => (*start, *end, one),
            Some([start, end, step]) => (*start, *end, *step),
            _ => return None,
        };
        // A step of zero leads nowhere.
        Some(Numbers { next: (step != 0).then_some(start), end, step, has_end })
    };
    (0..call.rows()).map(row).collect()
}

/// The lengths of lists, and which are not NULL. Their values are claimed before they are made.
fn listed(
    name: &str,
    all: Vec<Option<Numbers>>,
    bytes: u64,
    mut push: impl FnMut(i128) -> Result<()>,
) -> Result<(Vec<usize>, NullBuffer)> {
    let count = all.iter().flatten().fold(0u64, |sum, numbers| sum.saturating_add(numbers.at_most()));
    let _claim = claim(name, count.saturating_mul(bytes))?;
    let (mut lengths, mut valid) = (vec![], vec![]);
    for numbers in all {
        valid.push(numbers.is_some());
        let mut length = 0;
        for value in numbers.into_iter().flatten() {
            push(value)?;
            length += 1;
        }
        lengths.push(length);
    }
    Ok((lengths, NullBuffer::from(valid)))
}

fn of_integers(call: &Call, name: &str, has_end: bool) -> Result<ArrayRef> {
    let args = (0..call.count()).map(|at| ints(call, at)).collect::<Result<Vec<_>>>()?;
    let value = |at: usize, row: usize| args[at].is_valid(row).then(|| i128::from(args[at].value(row)));
    let all = numbers(call, has_end, 1, value);
    let mut values: Vec<i64> = vec![];
    let push = |value| {
        // Between the ends, which are integers.
        values.extend(i64::try_from(value));
        Ok(())
    };
    let (lengths, valid) = listed(name, all, 8, push)?;
    let values: ArrayRef = Arc::new(Int64Array::from(values));
    Ok(Arc::new(of_lengths(&call.to, values, lengths, Some(valid))?))
}

fn of_decimals(call: &Call, name: &str, has_end: bool) -> Result<ArrayRef> {
    let Some(DataType::Decimal128(precision, scale)) = call.kind(0) else { return invalid("no decimals") };
    let args = (0..call.count()).map(|at| Ok(call.array(at)?.as_primitive::<Decimal128Type>().clone()));
    let args = args.collect::<Result<Vec<Decimal128Array>>>()?;
    let value = |at: usize, row: usize| args[at].is_valid(row).then(|| args[at].value(row));
    let one = 10i128.pow(u32::try_from(scale).unwrap_or(0));
    let all = numbers(call, has_end, one, value);
    let mut values: Vec<i128> = vec![];
    let push = |value| {
        values.push(value);
        Ok(())
    };
    let (lengths, valid) = listed(name, all, 16, push)?;
    let values: ArrayRef = Arc::new(Decimal128Array::from(values).with_precision_and_scale(precision, scale)?);
    Ok(Arc::new(of_lengths(&call.to, values, lengths, Some(valid))?))
}

fn of_times(call: &Call, name: &'static str, has_end: bool) -> Result<ArrayRef> {
    let args = (0..call.count()).map(|at| call.array(at)).collect::<Result<Vec<_>>>()?;
    let (mut values, mut lengths, mut valid) = (vec![], vec![], vec![]);
    for row in 0..call.rows() {
        let given = args.iter().map(|array| ScalarValue::try_from_array(array, row)).collect::<Result<Vec<_>>>()?;
        let before = values.len();
        let is_known = given.iter().all(|value| !value.is_null());
        if is_known {
            let all = series::Rows::of(name, &given, call.zone, has_end)?;
            let _claim = claim(name, all.count().saturating_mul(8))?;
            all.read(usize::MAX, &mut values)?;
        }
        lengths.push(values.len() - before);
        valid.push(is_known);
    }
    let item = call.kind(0).unwrap_or(DataType::Null);
    let values = exact_cast(&finished(Int64Array::from(values), &item)?, &item)?;
    Ok(Arc::new(of_lengths(&call.to, values, lengths, Some(NullBuffer::from(valid)))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_end_before_they_overflow() {
        let all = |start: i128, end: i128, step: i128, has_end: bool| {
            let numbers = Numbers { next: Some(start), end, step, has_end };
            let count = numbers.at_most();
            let values: Vec<i128> = numbers.collect();
            assert!(count >= values.len() as u64, "{start} {end} {step}");
            values
        };
        assert_eq!(all(1, 5, 2, true), [1, 3, 5]);
        assert_eq!(all(1, 5, 2, false), [1, 3]);
        assert_eq!(all(5, 1, -2, true), [5, 3, 1]);
        assert_eq!(all(5, 1, -2, false), [5, 3]);
        assert!(all(1, 5, -1, true).is_empty());
        assert!(all(5, 1, 1, true).is_empty());
        assert_eq!(all(i128::MAX - 1, i128::MAX, 5, true), [i128::MAX - 1]);
        assert_eq!(all(i128::MIN, i128::MIN, -1, true), [i128::MIN]);
    }
}
