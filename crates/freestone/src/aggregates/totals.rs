//! Exact sums of integers and decimals: 128 bits and a carry. Whether a sum fits its type is checked when its value is
//! read, so it does not depend on the order of the values.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Decimal128Array, Int64Array, PrimitiveArray, UInt64Array,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
    DurationSecondType, Field, FieldRef, Int64Type, TimeUnit, i256,
};
use datafusion::common::internal_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::EmitTo;
use datafusion::logical_expr::utils::format_state_name;
use datafusion::scalar::ScalarValue;

use crate::error::{Error, ErrorKind};

/// The digits of the widest decimal of 128 bits.
pub(super) const DIGITS: u8 = 38;

/// The representation of the sums of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exact {
    /// The digits of the fraction.
    scale: i8,
    /// Whether intermediate sums may need more than 128 bits.
    carries: bool,
}

impl Exact {
    /// The representation for integers, decimals of up to 128 bits, and durations; `None` for other types.
    pub fn of(argument: &DataType) -> Option<Exact> {
        use DataType::{Decimal32, Decimal64, Decimal128, Duration};
        match argument {
            Decimal32(_, scale) | Decimal64(_, scale) => Some(Exact { scale: *scale, carries: false }),
            // With 18 digits, the sum of 2^64 values fits in 128 bits.
            Decimal128(precision, scale) => Some(Exact { scale: *scale, carries: *precision > 18 }),
            Duration(_) => Some(Exact { scale: 0, carries: false }),
            other => other.is_integer().then_some(Exact { scale: 0, carries: false }),
        }
    }

    pub fn scale(self) -> i8 {
        self.scale
    }

    /// The columns of a partial sum.
    pub fn state_fields(self, name: &str) -> Vec<FieldRef> {
        let sum = Field::new(format_state_name(name, "sum"), DataType::Decimal128(DIGITS, self.scale), true);
        let carry = self.carries.then(|| Field::new(format_state_name(name, "carry"), DataType::Int64, true));
        std::iter::once(sum).chain(carry).map(Arc::new).collect()
    }

    /// Partial sums as columns. NULL if no value was added.
    pub fn state_arrays(self, totals: Totals, nulls: Option<NullBuffer>) -> Result<Vec<ArrayRef>> {
        let Totals { low, mut carry } = totals;
        carry.resize(low.len(), 0);
        let sums = Decimal128Array::new(low.into(), nulls).with_precision_and_scale(DIGITS, self.scale)?;
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(sums)];
        if self.carries {
            arrays.push(Arc::new(Int64Array::from(carry)));
        }
        Ok(arrays)
    }

    pub fn state_scalars(self, total: Total, is_empty: bool) -> Vec<ScalarValue> {
        let sum = ScalarValue::Decimal128((!is_empty).then_some(total.low), DIGITS, self.scale);
        let carry = self.carries.then_some(ScalarValue::Int64(Some(total.carry)));
        std::iter::once(sum).chain(carry).collect()
    }

    /// Partial sums from their columns.
    pub fn partial(self, columns: &[ArrayRef]) -> Result<Partial<'_>> {
        let sums = columns.first().and_then(|column| column.as_primitive_opt::<Decimal128Type>());
        let carries = columns.get(1).and_then(|column| column.as_primitive_opt::<Int64Type>());
        match (sums, self.carries, carries) {
            (Some(sums), false, _) => Ok(Partial { sums, carries: None }),
            (Some(sums), true, Some(carries)) => Ok(Partial { sums, carries: Some(carries) }),
            _ => internal_err!("a partial sum is not what its fields say"),
        }
    }
}

/// Partial sums in columns.
pub(super) struct Partial<'a> {
    pub sums: &'a PrimitiveArray<Decimal128Type>,
    carries: Option<&'a Int64Array>,
}

impl Partial<'_> {
    pub fn carry(&self, row: usize) -> i64 {
        self.carries.map_or(0, |carries| carries.value(row))
    }
}

/// One sum: `low` + `carry` · 2^128.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Total {
    pub low: i128,
    pub carry: i64,
}

impl Total {
    #[inline]
    pub fn add(&mut self, value: i128) {
        let (low, is_over) = self.low.overflowing_add(value);
        self.low = low;
        if is_over {
            self.carry += if value < 0 { -1 } else { 1 };
        }
    }

    #[inline]
    pub fn subtract(&mut self, value: i128) {
        let (low, is_over) = self.low.overflowing_sub(value);
        self.low = low;
        if is_over {
            self.carry += if value < 0 { 1 } else { -1 };
        }
    }

    /// Adds the values of an array that are not NULL, and returns their number.
    pub fn add_all<T>(&mut self, values: &PrimitiveArray<T>) -> u64
    where
        T: ArrowPrimitiveType,
        T::Native: Into<i128>,
    {
        if values.null_count() == 0 {
            values.values().iter().for_each(|value| self.add((*value).into()));
        } else {
            values.iter().flatten().for_each(|value| self.add(value.into()));
        }
        (values.len() - values.null_count()) as u64
    }

    /// Subtracts the values of an array that are not NULL, and returns their number.
    pub fn subtract_all<T>(&mut self, values: &PrimitiveArray<T>) -> u64
    where
        T: ArrowPrimitiveType,
        T::Native: Into<i128>,
    {
        values.iter().flatten().for_each(|value| self.subtract(value.into()));
        (values.len() - values.null_count()) as u64
    }

    /// The sum, if it fits in 128 bits.
    fn narrow(self) -> Option<i128> {
        (self.carry == 0).then_some(self.low)
    }

    /// The sum divided by a count, as a float.
    pub fn mean(self, count: u64) -> f64 {
        let divisor = i128::from(count);
        match self.narrow().map(|sum| (sum, sum / divisor, sum % divisor)) {
            // The whole part and the fraction are almost exact, so there is essentially only the rounding of their sum.
            Some((_, whole, rest)) if whole != 0 => whole as f64 + rest as f64 / divisor as f64,
            Some((sum, ..)) => sum as f64 / divisor as f64,
            None => (self.low as f64 + self.carry as f64 * 2f64.powi(128)) / count as f64,
        }
    }

    /// The sum divided by a count, with `digits` more digits, rounded half away from zero; `None` if the result does
    /// not fit in 128 bits.
    pub fn rounded_mean(self, count: u64, digits: u32) -> Option<i128> {
        let divisor = i128::from(count);
        let factor = 10i128.checked_pow(digits)?;
        let parts = self.narrow().and_then(|sum| Some((sum / divisor, (sum % divisor).checked_mul(factor)?)));
        let Some((whole, scaled)) = parts else { return self.wide_mean(divisor, factor) };
        let (part, rest) = (scaled / divisor, scaled % divisor);
        let is_half = rest.unsigned_abs() >= divisor.unsigned_abs() - rest.unsigned_abs();
        whole.checked_mul(factor)?.checked_add(part)?.checked_add(if is_half { rest.signum() } else { 0 })
    }

    #[cold]
    fn wide_mean(self, divisor: i128, factor: i128) -> Option<i128> {
        // `low` is signed.
        let sum = i256::from_parts(self.low as u128, i128::from(self.carry) - i128::from(self.low < 0));
        let divisor = i256::from_i128(divisor);
        let scaled = sum.checked_mul(i256::from_i128(factor))?;
        let (whole, rest) = (scaled.checked_div(divisor)?, scaled.checked_rem(divisor)?);
        let is_half = rest.wrapping_abs() >= divisor.wrapping_sub(rest.wrapping_abs());
        let step = i128::from(is_half) * if rest.is_negative() { -1 } else { 1 };
        whole.checked_add(i256::from_i128(step))?.to_i128()
    }

    /// The sum as a value of a type; `None` if it is outside its range.
    fn value(self, result: &DataType) -> Option<i128> {
        let sum = self.narrow()?;
        let fits = match result {
            DataType::Decimal128(precision, _) => {
                10u128.checked_pow((*precision).into()).is_none_or(|end| sum.unsigned_abs() < end)
            }
            DataType::UInt64 => u64::try_from(sum).is_ok(),
            _ => i64::try_from(sum).is_ok(),
        };
        fits.then_some(sum)
    }
}

/// Sums per group.
#[derive(Debug, Default)]
pub(super) struct Totals {
    low: Vec<i128>,
    /// Empty until there is a carry.
    carry: Vec<i64>,
}

impl Totals {
    pub fn resize(&mut self, groups: usize) {
        self.low.resize(groups, 0);
    }

    #[inline]
    pub fn add(&mut self, group: usize, value: i128) {
        let (low, is_over) = self.low[group].overflowing_add(value);
        self.low[group] = low;
        if is_over {
            self.carry(group, if value < 0 { -1 } else { 1 });
        }
    }

    #[cold]
    fn carry(&mut self, group: usize, by: i64) {
        self.carry.resize(self.low.len(), 0);
        self.carry[group] += by;
    }

    pub fn add_partial(&mut self, group: usize, sum: i128, carry: i64) {
        self.add(group, sum);
        if carry != 0 {
            self.carry(group, carry);
        }
    }

    /// Removes and returns the first groups, or all.
    pub fn take(&mut self, emit_to: EmitTo) -> Totals {
        if !self.carry.is_empty() {
            self.carry.resize(self.low.len(), 0);
        }
        let carry = if self.carry.is_empty() { vec![] } else { emit_to.take_needed(&mut self.carry) };
        Totals { low: emit_to.take_needed(&mut self.low), carry }
    }

    pub fn get(&self, group: usize) -> Total {
        Total { low: self.low[group], carry: self.carry.get(group).copied().unwrap_or(0) }
    }

    pub fn len(&self) -> usize {
        self.low.len()
    }

    pub fn bytes(&self) -> usize {
        self.low.capacity() * size_of::<i128>() + self.carry.capacity() * size_of::<i64>()
    }

    /// The sums as an array of a type.
    pub fn values(self, nulls: Option<NullBuffer>, result: &DataType) -> Result<ArrayRef> {
        let fits = |group: usize| {
            let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(group));
            is_null || self.get(group).value(result).is_some()
        };
        if !(0..self.len()).all(fits) {
            return Err(out_of_range("sum", result));
        }
        array(self.low, nulls, result)
    }
}

/// An array of a type, from values within its range.
pub(super) fn array(values: Vec<i128>, nulls: Option<NullBuffer>, result: &DataType) -> Result<ArrayRef> {
    fn of_64<T: ArrowPrimitiveType<Native = i64>>(values: &[i128], nulls: Option<NullBuffer>) -> ArrayRef {
        let values: Vec<i64> = values.iter().map(|value| *value as i64).collect();
        Arc::new(PrimitiveArray::<T>::new(values.into(), nulls))
    }
    Ok(match result {
        DataType::Decimal128(precision, scale) => {
            Arc::new(Decimal128Array::new(values.into(), nulls).with_precision_and_scale(*precision, *scale)?)
        }
        DataType::Int64 => of_64::<Int64Type>(&values, nulls),
        DataType::UInt64 => {
            let values: Vec<u64> = values.iter().map(|value| *value as u64).collect();
            Arc::new(UInt64Array::new(values.into(), nulls))
        }
        DataType::Duration(TimeUnit::Second) => of_64::<DurationSecondType>(&values, nulls),
        DataType::Duration(TimeUnit::Millisecond) => of_64::<DurationMillisecondType>(&values, nulls),
        DataType::Duration(TimeUnit::Microsecond) => of_64::<DurationMicrosecondType>(&values, nulls),
        DataType::Duration(TimeUnit::Nanosecond) => of_64::<DurationNanosecondType>(&values, nulls),
        other => return internal_err!("sums of integers are not of type {other}"),
    })
}

/// A single sum as a value of a type.
pub(super) fn scalar(total: Total, is_empty: bool, result: &DataType) -> Result<ScalarValue> {
    let mut totals = Totals::default();
    totals.resize(1);
    totals.add_partial(0, total.low, total.carry);
    let nulls = is_empty.then(|| NullBuffer::new_null(1));
    ScalarValue::try_from_array(&totals.values(nulls, result)?, 0)
}

/// The error of a result outside the range of its type.
pub(super) fn out_of_range(function: &str, result: &DataType) -> DataFusionError {
    let of = freestone_store::schema::type_name(result);
    Error::new(ErrorKind::Type, format!("the result of {function} is out of range for {of}"))
        .with_hint(format!("for an approximate result, cast the argument: {function}(CAST(x AS DOUBLE))"))
        .into()
}

/// Runs a macro with the Arrow type of numbers that fit in 128 bits.
macro_rules! with_number_type {
    ($data_type:expr, $make:ident, $otherwise:expr) => {{
        use datafusion::arrow::datatypes::*;
        match $data_type {
            DataType::Int8 => $make!(Int8Type),
            DataType::Int16 => $make!(Int16Type),
            DataType::Int32 => $make!(Int32Type),
            DataType::Int64 => $make!(Int64Type),
            DataType::UInt8 => $make!(UInt8Type),
            DataType::UInt16 => $make!(UInt16Type),
            DataType::UInt32 => $make!(UInt32Type),
            DataType::UInt64 => $make!(UInt64Type),
            DataType::Decimal32(_, _) => $make!(Decimal32Type),
            DataType::Decimal64(_, _) => $make!(Decimal64Type),
            DataType::Decimal128(_, _) => $make!(Decimal128Type),
            DataType::Duration(TimeUnit::Second) => $make!(DurationSecondType),
            DataType::Duration(TimeUnit::Millisecond) => $make!(DurationMillisecondType),
            DataType::Duration(TimeUnit::Microsecond) => $make!(DurationMicrosecondType),
            DataType::Duration(TimeUnit::Nanosecond) => $make!(DurationNanosecondType),
            _ => $otherwise,
        }
    }};
}
pub(super) use with_number_type;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_carried_comes_back() {
        let mut total = Total::default();
        let large = i128::MAX - 5;
        (0..3).for_each(|_| total.add(large));
        assert_eq!(total.value(&DataType::Decimal128(38, 0)), None);
        (0..3).for_each(|_| total.add(-large));
        assert_eq!(total, Total::default());
        (0..3).for_each(|_| total.add(-large));
        (0..3).for_each(|_| total.subtract(-large));
        assert_eq!(total, Total::default());
    }

    #[test]
    fn means_are_rounded_once() {
        let mean = |low: i128, count: u64| Total { low, carry: 0 }.mean(count);
        assert_eq!([mean(10, 4), mean(-2, 3), mean(1, 3)], [2.5, -2.0 / 3.0, 1.0 / 3.0]);
        assert_eq!(mean(9_007_199_254_740_993 * 3, 3), 9_007_199_254_740_992.0);
        let rounded = |low: i128, count: u64, digits: u32| Total { low, carry: 0 }.rounded_mean(count, digits);
        assert_eq!([rounded(10, 4, 0), rounded(-10, 4, 0), rounded(9, 4, 0)], [Some(3), Some(-3), Some(2)]);
        assert_eq!([rounded(2, 3, 4), rounded(-2, 3, 4), rounded(-1, 3, 4)], [Some(6667), Some(-6667), Some(-3333)]);
        assert_eq!(rounded(i128::MAX, 1, 1), None);
        let large = 10i128.pow(38) - 1;
        let mut total = Total::default();
        (0..4).for_each(|_| total.add(large));
        assert_eq!(total.rounded_mean(4, 0), Some(large));
        assert!((total.mean(4) / 1e38 - 1.0).abs() < 1e-15);
        total.add(large - 3);
        assert_eq!(total.rounded_mean(5, 0), Some(large - 1));
        (0..10).for_each(|_| total.add(-large));
        assert_eq!(total.rounded_mean(15, 0), Some(-(large / 3)));
    }
}
