//! `avg`: DOUBLE for integers and floats; for decimals a decimal of larger scale, rounded half away from zero. For
//! exact numbers it is a single division of the exact sum.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Float64Array, UInt64Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type, UInt64Type};
use datafusion::common::{internal_err, plan_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use super::distinct::{self, Distinct};
use super::queue::{Queue, RealSum};
use super::sum::{number_argument, valid_rows};
use super::totals::{self, DIGITS, Exact, Total, Totals, out_of_range, with_number_type};

/// The minimum scale of an average of decimals.
const MEAN_SCALE: i8 = 16;

/// The function `avg`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Average {
    signature: Signature,
    aliases: Vec<String>,
}

impl Average {
    pub fn new() -> Self {
        Average { signature: Signature::user_defined(Volatility::Immutable), aliases: vec!["mean".to_owned()] }
    }
}

/// The type of averages of decimals: with as many integer digits as the argument, as far as 38 digits allow.
fn decimal_mean(precision: u8, scale: i8) -> DataType {
    let before = precision as i8 - scale;
    let scale = scale.max(MEAN_SCALE);
    DataType::Decimal128((before + scale).clamp(1, DIGITS as i8) as u8, scale)
}

impl AggregateUDFImpl for Average {
    fn name(&self) -> &str {
        "avg"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match number_argument("avg", arguments)? {
            DataType::Interval(_) => plan_err!("avg takes numbers, not intervals"),
            argument => Ok(vec![argument]),
        }
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        use DataType::{Decimal32, Decimal64, Decimal128, Decimal256, Duration};
        match arguments {
            [Decimal32(precision, scale) | Decimal64(precision, scale) | Decimal128(precision, scale)] => {
                Ok(decimal_mean(*precision, *scale))
            }
            [Decimal256(..)] => avg_udaf().return_type(arguments),
            [Duration(unit)] => Ok(Duration(*unit)),
            [_] => Ok(DataType::Float64),
            _ => plan_err!("avg takes one argument, not {}", arguments.len()),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let argument = args.input_fields[0].data_type();
        if args.is_distinct {
            return Ok(vec![distinct::state_field(args.name, argument)]);
        }
        let Some(exact) = Exact::of(argument) else { return avg_udaf().state_fields(args) };
        let count = Field::new(format_state_name(args.name, "count"), DataType::UInt64, true);
        Ok(std::iter::once(Arc::new(count)).chain(exact.state_fields(args.name)).collect())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let (argument, is_distinct) = (args.expr_fields[0].data_type().clone(), args.is_distinct);
        let plain: Box<dyn Accumulator> = match Exact::of(&argument) {
            Some(exact) => {
                let divided = Divided { scale: exact.scale(), result: args.return_type().clone() };
                macro_rules! make {
                    ($t:ty) => {
                        Box::new(OneMean::<$t> { exact, divided, total: Total::default(), count: 0, of: PhantomData })
                    };
                }
                with_number_type!(&argument, make, return internal_err!("no averages of {argument}"))
            }
            None => avg_udaf().accumulator(AccumulatorArgs { is_distinct: false, ..args })?,
        };
        Ok(if is_distinct { Box::new(Distinct::new(argument, plain)) } else { plain })
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match args.expr_fields[0].data_type() {
            DataType::Float64 if !args.is_distinct => Ok(Box::<Means>::default()),
            _ => self.accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        let argument = args.expr_fields[0].data_type();
        !args.is_distinct && (Exact::of(argument).is_some() || *argument == DataType::Float64)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let argument = args.expr_fields[0].data_type();
        let Some(exact) = Exact::of(argument) else { return avg_udaf().create_groups_accumulator(args) };
        let divided = Divided { scale: exact.scale(), result: args.return_type().clone() };
        macro_rules! make {
            ($t:ty) => {
                Ok(Box::new(GroupMeans::<$t> {
                    exact,
                    divided,
                    totals: Totals::default(),
                    counts: vec![],
                    of: PhantomData,
                }))
            };
        }
        with_number_type!(argument, make, internal_err!("no averages of {argument}"))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// Converts an exact sum to an average.
#[derive(Debug, Clone)]
struct Divided {
    scale: i8,
    result: DataType,
}

impl Divided {
    /// Averages from sums; NULL for groups without values.
    fn means(&self, totals: &Totals, counts: &[u64]) -> Result<ArrayRef> {
        let nulls = NullBuffer::from_iter(counts.iter().map(|count| *count > 0));
        let each = counts.iter().enumerate().map(|(group, count)| (totals.get(group), (*count).max(1)));
        if self.result == DataType::Float64 {
            let means: Vec<f64> = each.map(|(total, count)| total.mean(count)).collect();
            return Ok(Arc::new(Float64Array::new(means.into(), Some(nulls))));
        }
        let (digits, end) = match &self.result {
            DataType::Decimal128(precision, scale) => {
                ((scale - self.scale).unsigned_abs().into(), 10i128.pow((*precision).into()))
            }
            _ => (0, i128::MAX),
        };
        let mean = |(total, count): (Total, u64)| total.rounded_mean(count, digits).filter(|mean| mean.abs() < end);
        let means: Option<Vec<i128>> = each.map(mean).collect();
        let means = means.ok_or_else(|| out_of_range("avg", &self.result))?;
        totals::array(means, Some(nulls), &self.result)
    }

    fn mean(&self, total: Total, count: u64) -> Result<ScalarValue> {
        let mut totals = Totals::default();
        totals.resize(1);
        totals.add_partial(0, total.low, total.carry);
        ScalarValue::try_from_array(&self.means(&totals, &[count])?, 0)
    }
}

/// The average of numbers that fit in 128 bits.
#[derive(Debug)]
struct OneMean<T> {
    exact: Exact,
    divided: Divided,
    total: Total,
    count: u64,
    of: PhantomData<fn() -> T>,
}

impl<T> Accumulator for OneMean<T>
where
    T: ArrowPrimitiveType + Debug,
    T::Native: Into<i128>,
{
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.count += self.total.add_all(values[0].as_primitive::<T>());
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.count -= self.total.subtract_all(values[0].as_primitive::<T>());
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (counts, partial) = (states[0].as_primitive::<UInt64Type>(), self.exact.partial(&states[1..])?);
        for row in (0..partial.sums.len()).filter(|row| partial.sums.is_valid(*row)) {
            self.total.add(partial.sums.value(row));
            self.total.carry += partial.carry(row);
            self.count += counts.value(row);
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sum = self.exact.state_scalars(self.total, self.count == 0);
        Ok(std::iter::once(ScalarValue::UInt64(Some(self.count))).chain(sum).collect())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.divided.mean(self.total, self.count)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The average of floats in a sliding window frame.
#[derive(Debug, Default)]
struct Means {
    queue: Queue<RealSum>,
}

impl Accumulator for Means {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<Float64Type>();
        values.iter().flatten().for_each(|sum| self.queue.push(RealSum { sum, count: 1 }));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        values[0].as_primitive::<Float64Type>().iter().flatten().for_each(|_| self.queue.pop());
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("window frames are not put together from partial averages")
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("window frames have no partial averages")
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.queue.total().map(|total| total.sum / total.count as f64)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.queue.bytes()
    }
}

/// Averages per group of numbers that fit in 128 bits.
struct GroupMeans<T> {
    exact: Exact,
    divided: Divided,
    totals: Totals,
    counts: Vec<u64>,
    of: PhantomData<T>,
}

impl<T> GroupsAccumulator for GroupMeans<T>
where
    T: ArrowPrimitiveType + Send,
    T::Native: Into<i128>,
{
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.totals.resize(count);
        self.counts.resize(count, 0);
        let values = values[0].as_primitive::<T>();
        let rows = values.values().iter().zip(groups);
        let mut take = |group: usize, value: T::Native| {
            self.totals.add(group, value.into());
            self.counts[group] += 1;
        };
        match valid_rows(values.nulls(), filter) {
            None => rows.for_each(|(value, group)| take(*group, *value)),
            Some(valid) => {
                let rows = rows.enumerate().filter(|(row, _)| valid.is_valid(*row));
                rows.for_each(|(_, (value, group))| take(*group, *value));
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.totals.resize(count);
        self.counts.resize(count, 0);
        let (counts, partial) = (states[0].as_primitive::<UInt64Type>(), self.exact.partial(&states[1..])?);
        for (row, group) in groups.iter().enumerate().filter(|(row, _)| partial.sums.is_valid(*row)) {
            self.totals.add_partial(*group, partial.sums.value(row), partial.carry(row));
            self.counts[*group] += counts.value(row);
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (totals, counts) = (self.totals.take(emit_to), emit_to.take_needed(&mut self.counts));
        self.divided.means(&totals, &counts)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (totals, counts) = (self.totals.take(emit_to), emit_to.take_needed(&mut self.counts));
        let nulls = NullBuffer::from_iter(counts.iter().map(|count| *count > 0));
        let sums = self.exact.state_arrays(totals, Some(nulls))?;
        let counts: ArrayRef = Arc::new(UInt64Array::from(counts));
        Ok(std::iter::once(counts).chain(sums).collect())
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<T>();
        let valid = valid_rows(values.nulls(), filter);
        let is_valid = |row: usize| valid.as_ref().is_none_or(|valid| valid.is_valid(row));
        let mut totals = Totals::default();
        totals.resize(values.len());
        for (row, value) in values.values().iter().enumerate().filter(|(row, _)| is_valid(*row)) {
            totals.add(row, (*value).into());
        }
        let counts = UInt64Array::from_iter_values((0..values.len()).map(|row| u64::from(is_valid(row))));
        let sums = self.exact.state_arrays(totals, valid)?;
        Ok(std::iter::once(Arc::new(counts) as ArrayRef).chain(sums).collect())
    }

    fn size(&self) -> usize {
        self.totals.bytes() + self.counts.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_of_decimals_have_digits_behind_the_point() {
        for ((precision, scale), expected) in
            [((4, 2), (18, 16)), ((18, 4), (30, 16)), ((38, 0), (38, 16)), ((38, 20), (38, 20)), ((20, 20), (20, 20))]
        {
            assert_eq!(decimal_mean(precision, scale), DataType::Decimal128(expected.0, expected.1));
        }
    }
}
