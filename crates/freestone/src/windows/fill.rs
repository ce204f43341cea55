//! `fill`: missing values of a partition, interpolated linearly along its only sort key.
//!
//! The value is on the line through the nearest values before and after it. At an end of the partition it is on the line
//! through the two nearest ones. Rows whose key is NULL or infinite get no value, and neither these rows nor infinite values
//! are points of a line. The analyzer adds the key as the second argument ([`in_order_of`]), so it is known to the evaluator.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, FieldRef, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time64MicrosecondType, Time64NanosecondType, TimeUnit, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{
    PartitionEvaluator, Signature, SortExpr, Volatility, WindowFunctionDefinition, WindowUDF, WindowUDFImpl,
};

use crate::error::{Error, ErrorKind};

const DAY_US: i128 = 86_400_000_000;

/// The function as it is written, with one argument, or with the sort key as the second one.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Fill {
    has_key: bool,
    signature: Signature,
}

impl Fill {
    pub fn new() -> Self {
        Fill { has_key: false, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

/// Gives a call of `fill` its sort key as an argument: that of its own ORDER BY, or that of its window. Nothing else is changed.
///
/// # Errors
/// There is not exactly one key, or the call has a clause that does not go with the function.
pub(crate) fn in_order_of(call: &mut WindowFunction, own: Vec<SortExpr>) -> Result<bool> {
    if call.fun.name() != "fill" || call.params.args.len() != 1 {
        return Ok(false);
    }
    let params = &mut call.params;
    if params.distinct || params.filter.is_some() || params.null_treatment.is_some() {
        return plan_err!("fill takes neither DISTINCT nor FILTER nor IGNORE NULLS");
    }
    // The result does not depend on the frame, so the function's own order can be that of the window.
    let keys = if own.is_empty() { params.order_by.clone() } else { own };
    let [key] = keys.as_slice() else {
        return plan_err!("fill has one ORDER BY expression, by which it interpolates, and was given {}", keys.len());
    };
    params.args.push(key.expr.clone());
    params.order_by = keys;
    let fill = Fill { has_key: true, ..Fill::new() };
    call.fun = WindowFunctionDefinition::WindowUDF(Arc::new(WindowUDF::from(fill)));
    Ok(true)
}

impl WindowUDFImpl for Fill {
    fn name(&self) -> &str {
        "fill"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        if arguments.len() != 1 + usize::from(self.has_key) {
            return plan_err!("fill takes one value");
        }
        for (kind, what) in arguments.iter().zip(["value", "ORDER BY expression"]) {
            if !is_measure(kind) {
                return plan_err!("the {what} of fill is a number, date or time, not {kind}");
            }
        }
        Ok(arguments.to_vec())
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        match args.input_fields().first() {
            Some(value) => Ok(Arc::new(value.as_ref().clone().with_name(args.name()).with_nullable(true))),
            None => plan_err!("fill takes one value"),
        }
    }

    fn partition_evaluator(&self, _: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Evaluator))
    }
}

/// Whether values of a type can be subtracted.
fn is_measure(kind: &DataType) -> bool {
    match kind {
        DataType::Decimal128(..) | DataType::Date32 | DataType::Timestamp(..) => true,
        DataType::Time64(_) => true,
        DataType::Float32 | DataType::Float64 => true,
        kind => kind.is_integer(),
    }
}

/// Evaluates the function over whole partitions.
#[derive(Debug)]
struct Evaluator;

impl PartitionEvaluator for Evaluator {
    fn evaluate_all(&mut self, values: &[ArrayRef], _: usize) -> Result<ArrayRef> {
        let [column, keys] = values else {
            return Err(Error::new(ErrorKind::Internal, "internal error: fill without a sort key").into());
        };
        if column.null_count() == 0 {
            return Ok(column.clone());
        }
        let keys = places(keys)?;
        if column.data_type().is_floating() {
            let values = cast(column, &DataType::Float64)?;
            let values: Vec<Option<f64>> = values.as_primitive::<Float64Type>().iter().collect();
            let filled = filled(&values, &keys, |value| value.is_finite(), |line| Some(line.of_reals()));
            let filled: PrimitiveArray<Float64Type> = filled.into_iter().collect();
            return Ok(cast(&filled, column.data_type())?);
        }
        filled_integers(column, &keys)
    }
}

/// The sort keys as places on a line. Those that are infinite, or no number, are none.
fn places(keys: &ArrayRef) -> Result<Vec<Option<f64>>> {
    if keys.data_type().is_floating() {
        let keys = cast(keys, &DataType::Float64)?;
        return Ok(keys.as_primitive::<Float64Type>().iter().map(|key| key.filter(|key| key.is_finite())).collect());
    }
    Ok(stored(keys)?.into_iter().map(|key| key.map(|key| key as f64)).collect())
}

/// Numbers and times as the integers in which they are stored. Infinite times are NULL.
fn stored(column: &ArrayRef) -> Result<Vec<Option<i128>>> {
    let kind = column.data_type();
    let all: Vec<Option<i128>> = match kind {
        DataType::Decimal128(..) => column.as_primitive::<Decimal128Type>().iter().collect(),
        DataType::UInt64 => column.as_primitive::<UInt64Type>().iter().map(|value| value.map(i128::from)).collect(),
        DataType::Date32 => column.as_primitive::<Date32Type>().iter().map(|value| value.map(i128::from)).collect(),
        _ => {
            let wide = cast(column, &DataType::Int64)?;
            wide.as_primitive::<Int64Type>().iter().map(|value| value.map(i128::from)).collect()
        }
    };
    Ok(all.into_iter().map(|value| value.filter(|value| !is_infinite(*value, kind))).collect())
}

/// Whether an integer stands for an infinite date or timestamp: the greatest one, and those at the other end.
fn is_infinite(value: i128, kind: &DataType) -> bool {
    let end = match kind {
        DataType::Date32 => i128::from(i32::MAX),
        DataType::Timestamp(..) => i128::from(i64::MAX),
        _ => return false,
    };
    value.abs() >= end
}

/// A column of integers in which the missing ones are filled.
fn filled_integers(column: &ArrayRef, keys: &[Option<f64>]) -> Result<ArrayRef> {
    fn built<T: ArrowPrimitiveType>(column: &ArrayRef, values: &[Option<i128>]) -> ArrayRef
    where
        T::Native: TryFrom<i128>,
    {
        let known = column.as_primitive::<T>();
        let of_row = |(row, value): (usize, &Option<i128>)| {
            if known.is_valid(row) { Some(known.value(row)) } else { value.and_then(|value| value.try_into().ok()) }
        };
        let array: PrimitiveArray<T> = values.iter().enumerate().map(of_row).collect();
        Arc::new(array.with_data_type(column.data_type().clone()))
    }
    let kind = column.data_type();
    let is_huge = matches!(kind, DataType::Decimal128(precision, _) if *precision > 18);
    let values = filled(&stored(column)?, keys, |_| true, |line| line.of_integers(is_huge, kind));
    Ok(match kind {
        DataType::Int8 => built::<Int8Type>(column, &values),
        DataType::Int16 => built::<Int16Type>(column, &values),
        DataType::Int32 => built::<Int32Type>(column, &values),
        DataType::UInt8 => built::<UInt8Type>(column, &values),
        DataType::UInt16 => built::<UInt16Type>(column, &values),
        DataType::UInt32 => built::<UInt32Type>(column, &values),
        DataType::UInt64 => built::<UInt64Type>(column, &values),
        DataType::Date32 => built::<Date32Type>(column, &values),
        DataType::Time64(TimeUnit::Nanosecond) => built::<Time64NanosecondType>(column, &values),
        DataType::Time64(_) => built::<Time64MicrosecondType>(column, &values),
        DataType::Decimal128(..) => built::<Decimal128Type>(column, &values),
        DataType::Int64 => built::<Int64Type>(column, &values),
        kind => {
            let ticks = built::<Int64Type>(&cast(column, &DataType::Int64)?, &values);
            cast(&ticks, kind)?
        }
    })
}

/// The place of a row on the line through two values: 0 at the first, 1 at the second.
struct Line<T> {
    first: T,
    second: T,
    place: f64,
}

/// The values of a partition with those on lines through others. `is_point` tells which values belong to a line.
fn filled<T: Copy>(
    values: &[Option<T>],
    keys: &[Option<f64>],
    is_point: impl Fn(T) -> bool,
    on: impl Fn(Line<T>) -> Option<T>,
) -> Vec<Option<T>> {
    let point = |row: usize| Some((values[row].filter(|value| is_point(*value))?, keys[row]?));
    // The rows of points, and for each row the number of those before it.
    let points: Vec<(usize, T, f64)> =
        (0..values.len()).filter_map(|row| point(row).map(|(value, key)| (row, value, key))).collect();
    let mut before = 0;
    let mut result = Vec::with_capacity(values.len());
    for row in 0..values.len() {
        while points.get(before).is_some_and(|(place, ..)| *place < row) {
            before += 1;
        }
        let missing = keys[row].filter(|_| values[row].is_none());
        let (Some(key), false) = (missing, points.is_empty()) else {
            result.push(values[row]);
            continue;
        };
        // At an end, the two nearest points are on the same side.
        let first = before.saturating_sub(1).min(points.len().saturating_sub(2));
        let (_, low, low_key) = points[first];
        let Some((_, high, high_key)) = points.get(first + 1).copied() else {
            result.push(Some(low));
            continue;
        };
        result.push(on(Line { first: low, second: high, place: place_between(key, low_key, high_key) }));
    }
    result
}

/// The place of a key: 0 at the first of two others, 1 at the second. Between equal keys, the first.
fn place_between(key: f64, first: f64, second: f64) -> f64 {
    let span = second - first;
    if span == 0.0 {
        return 0.0;
    }
    // Halves do not overflow.
    if span.is_finite() { (key - first) / span } else { (key / 2.0 - first / 2.0) / (second / 2.0 - first / 2.0) }
}

impl Line<f64> {
    fn of_reals(&self) -> f64 {
        let value = self.first * (1.0 - self.place) + self.second * self.place;
        // There is a single NaN.
        if value.is_nan() { f64::NAN } else { value }
    }
}

impl Line<i128> {
    /// The integer at the place, as DuckDB rounds it: towards zero between the two values, to the nearest from the lower one
    /// outside of them. Nothing if the type does not have it.
    fn of_integers(self, is_huge: bool, kind: &DataType) -> Option<i128> {
        let is_between = (0.0..=1.0).contains(&self.place);
        let (low, high, place) = if self.first <= self.second || is_between {
            (self.first, self.second, self.place)
        } else {
            (self.second, self.first, 1.0 - self.place)
        };
        let span = high.checked_sub(low)? as f64;
        let value = if is_huge && is_between {
            low.checked_add(whole(span * place)?)?
        } else if is_huge || is_between {
            whole(low as f64 + span * place)?
        } else {
            let offset = whole((span * place.abs()).round_ties_even())?;
            if place < 0.0 { low.checked_sub(offset)? } else { low.checked_add(offset)? }
        };
        is_of(value, kind).then_some(value)
    }
}

/// A number without its fraction, if it is not too large.
fn whole(value: f64) -> Option<i128> {
    (value.abs() < 2f64.powi(127)).then_some(value as i128)
}

/// Whether a type has a value. Its own conversion tests the range of integers.
fn is_of(value: i128, kind: &DataType) -> bool {
    match kind {
        DataType::Decimal128(precision, _) => value.unsigned_abs() < 10u128.pow(u32::from(*precision)),
        DataType::Time64(TimeUnit::Nanosecond) => (0..=DAY_US * 1_000).contains(&value),
        DataType::Time64(_) => (0..=DAY_US).contains(&value),
        DataType::Date32 | DataType::Timestamp(..) => !is_infinite(value, kind),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integers(values: &[Option<i128>], keys: &[i32]) -> Vec<Option<i128>> {
        let keys: Vec<Option<f64>> = keys.iter().map(|key| Some(f64::from(*key))).collect();
        filled(values, &keys, |_| true, |line| line.of_integers(false, &DataType::Int32))
    }

    #[test]
    fn integers_are_rounded_as_by_duckdb() {
        let keys = [-3, -1, 0, 2, 3, 5, 7, 9];
        let ends = |low, high| [None, None, Some(low), Some(high), None, None, None, None];
        let rising = [Some(-2), Some(0), Some(0), Some(1), Some(2), Some(2), Some(4), Some(4)];
        assert_eq!(integers(&ends(0, 1), &keys), rising);
        let falling = [Some(2), Some(2), Some(1), Some(0), Some(0), Some(-2), Some(-2), Some(-4)];
        assert_eq!(integers(&ends(1, 0), &keys), falling);
        assert_eq!(integers(&[Some(-10), None, Some(0), None], &[0, 1, 3, 4]), [Some(-10), Some(-6), Some(0), Some(3)]);
    }

    #[test]
    fn one_value_fills_all_and_none_fills_nothing() {
        assert_eq!(integers(&[None, Some(7), None], &[0, 1, 2]), [Some(7); 3]);
        assert_eq!(integers(&[None, None], &[0, 1]), [None, None]);
        assert_eq!(integers(&[None, Some(1), Some(5), None], &[1, 1, 1, 1]), [Some(1), Some(1), Some(5), Some(1)]);
    }

    #[test]
    fn wide_spans_do_not_overflow() {
        assert_eq!(place_between(0.0, -1e308, 1e308), 0.5);
        assert_eq!(place_between(1.0, 1.0, 1.0), 0.0);
    }
}
