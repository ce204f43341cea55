//! `min` and `max`. They are DataFusion's except for floats and nested values. All NaNs are equal and greater than any other value, and
//! -0.0 equals 0.0. Infinities and NaN are ordinary values, with and without groups and window frames.

use std::cmp::Ordering;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, UInt32Array,
};
use datafusion::arrow::compute::{SortOptions, concat, take};
use datafusion::arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, SetMonotonicity, Signature,
    StatisticsArgs,
};
use datafusion::physical_expr::NullState;
use datafusion::scalar::ScalarValue;

use super::queue::{Part, Queue};
use super::sum::valid_rows;
use crate::exact::normal_form;

/// The function `min` or `max`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Extreme {
    plain: Arc<AggregateUDF>,
    is_max: bool,
}

impl Extreme {
    pub fn least() -> Self {
        Extreme { plain: min_udaf(), is_max: false }
    }

    pub fn greatest() -> Self {
        Extreme { plain: max_udaf(), is_max: true }
    }
}

/// Floats, with the operations for comparing them.
pub(super) trait Real: Copy + Debug + PartialOrd + Send + Sync + 'static {
    const NAN: Self;
    const LEAST: Self;
    fn is_nan(self) -> bool;
    /// Converts -0.0 to 0.0.
    fn with_plus(self) -> Self;

    /// The representative of all values that are equal to this one.
    fn one(self) -> Self {
        if self.is_nan() { Self::NAN } else { self.with_plus() }
    }

    /// The maximum or minimum of two values.
    fn beyond(self, other: Self, is_max: bool) -> Self {
        match (self.is_nan(), other.is_nan()) {
            (true, _) if is_max => self,
            (true, _) => other,
            (_, true) if is_max => other,
            (_, true) => self,
            _ if (other > self) == is_max => other,
            _ => self,
        }
    }
}

macro_rules! real {
    ($native:ty) => {
        impl Real for $native {
            const NAN: Self = <$native>::NAN;
            const LEAST: Self = <$native>::NEG_INFINITY;

            fn is_nan(self) -> bool {
                <$native>::is_nan(self)
            }

            fn with_plus(self) -> Self {
                self + 0.0
            }
        }
    };
}

real!(f32);
real!(f64);

macro_rules! with_real_type {
    ($data_type:expr, $make:ident, $otherwise:expr) => {
        match $data_type {
            DataType::Float32 => $make!(Float32Type),
            DataType::Float64 => $make!(Float64Type),
            _ => $otherwise,
        }
    };
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        self.plain.name()
    }

    fn signature(&self) -> &Signature {
        self.plain.signature()
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        // Every 16-bit float can be represented with 32 bits.
        if let [DataType::Float16] = arguments {
            return Ok(vec![DataType::Float32]);
        }
        self.plain.coerce_types(arguments)
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.plain.return_type(arguments)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.plain.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        macro_rules! make {
            ($t:ty) => {
                Ok(Box::new(OneExtreme::<$t> { is_max: self.is_max, value: None }))
            };
        }
        if args.return_type().is_nested() {
            return Ok(Box::new(NestedExtreme { is_max: self.is_max, of: args.return_type().clone(), value: None }));
        }
        with_real_type!(args.return_type(), make, self.plain.accumulator(args))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        macro_rules! make {
            ($t:ty) => {
                Ok(Box::new(MovingExtreme::<$t> { is_max: self.is_max, queue: Queue::default(), of: PhantomData }))
            };
        }
        with_real_type!(args.return_type(), make, self.plain.create_sliding_accumulator(args))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.return_type().is_nested() && self.plain.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        macro_rules! make {
            ($t:ty) => {
                Ok(Box::new(GroupExtremes::<$t> { is_max: self.is_max, values: vec![], nulls: NullState::new() }))
            };
        }
        with_real_type!(args.return_type(), make, self.plain.create_groups_accumulator(args))
    }

    fn is_descending(&self) -> Option<bool> {
        self.plain.is_descending()
    }

    fn value_from_stats(&self, args: &StatisticsArgs) -> Option<ScalarValue> {
        self.plain.value_from_stats(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn set_monotonicity(&self, _: &DataType) -> SetMonotonicity {
        if self.is_max { SetMonotonicity::Increasing } else { SetMonotonicity::Decreasing }
    }
}

fn scalar<T: ArrowPrimitiveType>(value: Option<T::Native>) -> Result<ScalarValue> {
    ScalarValue::try_from_array(&PrimitiveArray::<T>::from_iter([value]), 0)
}

/// The extreme of lists, structs and maps, in the order of ORDER BY: NULLs within them are the greatest.
#[derive(Debug)]
struct NestedExtreme {
    is_max: bool,
    of: DataType,
    /// One value.
    value: Option<ArrayRef>,
}

impl Accumulator for NestedExtreme {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let all = match &self.value {
            Some(value) => concat(&[value.as_ref(), values[0].as_ref()])?,
            None => values[0].clone(),
        };
        let compare = normal_form::comparator(&all, &all, SortOptions { descending: false, nulls_first: false })?;
        let is_beyond = |row: usize, best: usize| (compare(row, best) == Ordering::Greater) == self.is_max;
        let rows = (0..all.len()).filter(|row| all.is_valid(*row));
        let best = rows.reduce(|best, row| if compare(row, best).is_ne() && is_beyond(row, best) { row } else { best });
        if let Some(best) = best {
            self.value = Some(take(&all, &UInt32Array::from(vec![best as u32]), None)?);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match &self.value {
            Some(value) => ScalarValue::try_from_array(value, 0),
            None => ScalarValue::try_new_null(&self.of),
        }
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.as_ref().map_or(0, |value| value.get_array_memory_size())
    }
}

/// The extreme of floats.
#[derive(Debug)]
struct OneExtreme<T: ArrowPrimitiveType> {
    is_max: bool,
    value: Option<T::Native>,
}

impl<T> Accumulator for OneExtreme<T>
where
    T: ArrowPrimitiveType + Debug,
    T::Native: Real,
{
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let is_max = self.is_max;
        let extreme = values[0].as_primitive::<T>().iter().flatten().reduce(|a, b| a.beyond(b, is_max));
        if let Some(new) = extreme {
            self.value = Some(self.value.map_or(new, |value| value.beyond(new, is_max)));
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        scalar::<T>(self.value.map(Real::one))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// A float as a candidate for the extreme.
#[derive(Debug, Clone, Copy)]
struct Candidate<N> {
    value: N,
    is_max: bool,
}

impl<N: Real> Part for Candidate<N> {
    fn with(self, later: Self) -> Self {
        Candidate { value: self.value.beyond(later.value, self.is_max), ..self }
    }
}

/// The extreme of floats in a sliding window frame.
#[derive(Debug)]
struct MovingExtreme<T: ArrowPrimitiveType> {
    is_max: bool,
    queue: Queue<Candidate<T::Native>>,
    of: PhantomData<fn() -> T>,
}

impl<T> Accumulator for MovingExtreme<T>
where
    T: ArrowPrimitiveType + Debug,
    T::Native: Real,
{
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let is_max = self.is_max;
        let values = values[0].as_primitive::<T>().iter().flatten();
        values.for_each(|value| self.queue.push(Candidate { value, is_max }));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        (0..values[0].len() - values[0].null_count()).for_each(|_| self.queue.pop());
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("window frames are not put together from partial extremes")
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("window frames have no partial extremes")
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        scalar::<T>(self.queue.total().map(|candidate| candidate.value.one()))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.queue.bytes()
    }
}

/// Extremes of floats per group.
struct GroupExtremes<T: ArrowPrimitiveType> {
    is_max: bool,
    values: Vec<T::Native>,
    nulls: NullState,
}

impl<T> GroupExtremes<T>
where
    T: ArrowPrimitiveType,
    T::Native: Real,
{
    /// The start value, which any value replaces.
    fn start(&self) -> T::Native {
        if self.is_max { T::Native::LEAST } else { T::Native::NAN }
    }
}

impl<T> GroupsAccumulator for GroupExtremes<T>
where
    T: ArrowPrimitiveType + Send,
    T::Native: Real,
{
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.values.resize(count, self.start());
        let (extremes, is_max) = (&mut self.values, self.is_max);
        self.nulls.accumulate(groups, values[0].as_primitive::<T>(), filter, count, |group, value| {
            extremes[group] = extremes[group].beyond(value, is_max);
        });
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.update_batch(states, groups, None, count)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let nulls = self.nulls.build(emit_to);
        let values: Vec<T::Native> = emit_to.take_needed(&mut self.values).into_iter().map(Real::one).collect();
        Ok(Arc::new(PrimitiveArray::<T>::new(values.into(), nulls)))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<T>();
        let valid = valid_rows(values.nulls(), filter);
        Ok(vec![Arc::new(PrimitiveArray::<T>::new(values.values().clone(), valid))])
    }

    fn size(&self) -> usize {
        self.values.capacity() * size_of::<T::Native>() + self.nulls.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_the_greatest_and_zero_has_no_sign() {
        let greatest = |values: &[f64]| values.iter().copied().reduce(|a, b| a.beyond(b, true)).map(Real::one);
        let least = |values: &[f64]| values.iter().copied().reduce(|a, b| a.beyond(b, false)).map(Real::one);
        let bits = |value: Option<f64>| value.map(f64::to_bits);
        let infinity = f64::INFINITY;
        assert_eq!(bits(greatest(&[1.0, -f64::NAN, infinity])), bits(Some(f64::NAN)));
        assert_eq!(bits(least(&[-f64::NAN, f64::NAN])), bits(Some(f64::NAN)));
        assert_eq!(least(&[f64::NAN, infinity, -infinity]), Some(-infinity));
        assert_eq!(greatest(&[-infinity, -infinity]), Some(-infinity));
        assert_eq!(bits(least(&[-0.0, 0.0])), bits(Some(0.0)));
        assert_eq!(bits(greatest(&[-0.0])), bits(Some(0.0)));
    }
}
