//! `sum`: exact for integers, decimals and durations, or an error. The result is BIGINT for integers of up to 32 bits,
//! DECIMAL(38, 0) for those of 64 bits, a decimal with up to 38 digits for decimals, and DOUBLE for floats.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute;
use datafusion::arrow::datatypes::{
    DataType, Decimal256Type, FieldRef, IntervalDayTime, IntervalDayTimeType, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType, i256,
};
use datafusion::common::{internal_err, plan_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::expr_fn::cast;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, Expr, GroupsAccumulator, Operator, ReversedUDAF, Signature, Volatility,
};
use datafusion::physical_expr::NullState;
use datafusion::scalar::ScalarValue;

use super::distinct::{self, Distinct};
use super::queue::Sums;
use super::totals::{self, DIGITS, Exact, Total, Totals, out_of_range, with_number_type};

/// The function `sum`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Sum {
    signature: Signature,
    /// The type of the results, if it is fixed: sums of sums have the same type.
    result: Option<DataType>,
}

impl Sum {
    pub fn new() -> Self {
        Sum { signature: Signature::user_defined(Volatility::Immutable), result: None }
    }
}

/// The type of the sum of a type.
fn sum_type(argument: &DataType) -> Result<DataType> {
    use DataType::*;
    Ok(match argument {
        Int8 | Int16 | Int32 => Int64,
        UInt8 | UInt16 | UInt32 => UInt64,
        Int64 | UInt64 => Decimal128(DIGITS, 0),
        Decimal32(precision, scale) | Decimal64(precision, scale) | Decimal128(precision, scale) => {
            Decimal128(DIGITS.min(precision + 10), *scale)
        }
        Decimal256(precision, scale) => Decimal256(76.min(precision + 10), *scale),
        Float64 | Duration(_) | Interval(_) => argument.clone(),
        other => return plan_err!("sum takes numbers and intervals, not {other}"),
    })
}

/// The type to which an aggregate of numbers converts its argument.
pub(super) fn number_argument(function: &str, arguments: &[DataType]) -> Result<DataType> {
    let [argument] = arguments else {
        return plan_err!("{function} takes one argument, not {}", arguments.len());
    };
    Ok(match argument {
        DataType::Null => DataType::Int64,
        DataType::Float16 | DataType::Float32 => DataType::Float64,
        DataType::Dictionary(_, values) => return number_argument(function, &[values.as_ref().clone()]),
        DataType::RunEndEncoded(_, values) => return number_argument(function, &[values.data_type().clone()]),
        other if other.is_numeric() || matches!(other, DataType::Duration(_) | DataType::Interval(_)) => other.clone(),
        other => return plan_err!("{function} takes numbers, not {other}"),
    })
}

impl AggregateUDFImpl for Sum {
    fn name(&self) -> &str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        // As in DuckDB, the sum of truth values is the number of those that are true.
        if *arguments == [DataType::Boolean] {
            return Ok(vec![DataType::Int32]);
        }
        Ok(vec![number_argument("sum", arguments)?])
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match (&self.result, arguments) {
            (Some(result), _) => Ok(result.clone()),
            (None, [argument]) => sum_type(argument),
            _ => plan_err!("sum takes one argument, not {}", arguments.len()),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let argument = args.input_fields[0].data_type();
        match Exact::of(argument) {
            _ if args.is_distinct => Ok(vec![distinct::state_field(args.name, argument)]),
            Some(exact) => Ok(exact.state_fields(args.name)),
            None => sum_udaf().state_fields(args),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let (argument, is_distinct) = (args.expr_fields[0].data_type().clone(), args.is_distinct);
        let plain = match &argument {
            DataType::Float64 => sum_udaf().accumulator(AccumulatorArgs { is_distinct: false, ..args })?,
            argument => accumulator(argument, args.return_type())?,
        };
        Ok(if is_distinct { Box::new(Distinct::new(argument, plain)) } else { plain })
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match args.expr_fields[0].data_type() {
            DataType::Float64 if !args.is_distinct => Ok(Box::<Sums>::default()),
            _ => self.accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        let argument = args.expr_fields[0].data_type();
        !args.is_distinct && (Exact::of(argument).is_some() || *argument == DataType::Float64)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let argument = args.expr_fields[0].data_type();
        let Some(exact) = Exact::of(argument) else { return sum_udaf().create_groups_accumulator(args) };
        let result = args.return_type().clone();
        macro_rules! make {
            ($t:ty) => {
                Ok(Box::new(GroupSums::<$t>::new(exact, result)))
            };
        }
        with_number_type!(argument, make, internal_err!("no sums of {argument}"))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    /// `sum(x + 1)` is replaced by `sum(x) + 1 * count(x)` if there are other sums of `x`.
    fn simplify_expr_op_literal(
        &self,
        call: &AggregateFunction,
        argument: &Expr,
        op: Operator,
        literal: &Expr,
        _: bool,
    ) -> Result<Option<Expr>> {
        let Expr::Literal(value, _) = literal else { return Ok(None) };
        let exact = DataType::Decimal128(DIGITS, 0);
        if op != Operator::Plus || !value.data_type().is_integer() || self.result.as_ref() != Some(&exact) {
            return Ok(None);
        }
        let mut sum = call.clone();
        sum.params.args = vec![argument.clone()];
        let count = datafusion::functions_aggregate::count::count(argument.clone());
        let added = cast(literal.clone(), DataType::Decimal128(20, 0)) * cast(count, DataType::Decimal128(20, 0));
        Ok(Some(cast(Expr::AggregateFunction(sum) + added, exact)))
    }
}

/// An accumulator of sums that can also remove values.
fn accumulator(argument: &DataType, result: &DataType) -> Result<Box<dyn Accumulator>> {
    if let Some(exact) = Exact::of(argument) {
        let result = result.clone();
        macro_rules! make {
            ($t:ty) => {
                Ok(Box::new(OneSum::<$t> { exact, result, total: Total::default(), count: 0, of: PhantomData }))
            };
        }
        return with_number_type!(argument, make, internal_err!("no sums of {argument}"));
    }
    macro_rules! checked {
        ($t:ty, $add:expr, $negate:expr) => {
            Ok(Box::new(CheckedSum::<$t> {
                result: result.clone(),
                sum: Default::default(),
                count: 0,
                add: $add,
                negate: $negate,
            }))
        };
    }
    match argument {
        DataType::Decimal256(_, _) => checked!(Decimal256Type, i256::checked_add, i256::checked_neg),
        DataType::Interval(IntervalUnit::YearMonth) => {
            checked!(IntervalYearMonthType, i32::checked_add, i32::checked_neg)
        }
        DataType::Interval(IntervalUnit::DayTime) => checked!(IntervalDayTimeType, add_day_time, negate_day_time),
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            checked!(IntervalMonthDayNanoType, add_month_day_nano, negate_month_day_nano)
        }
        other => internal_err!("no sums of {other}"),
    }
}

fn add_day_time(a: IntervalDayTime, b: IntervalDayTime) -> Option<IntervalDayTime> {
    Some(IntervalDayTime::new(a.days.checked_add(b.days)?, a.milliseconds.checked_add(b.milliseconds)?))
}

fn negate_day_time(a: IntervalDayTime) -> Option<IntervalDayTime> {
    Some(IntervalDayTime::new(a.days.checked_neg()?, a.milliseconds.checked_neg()?))
}

fn add_month_day_nano(a: IntervalMonthDayNano, b: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let (months, days) = (a.months.checked_add(b.months)?, a.days.checked_add(b.days)?);
    Some(IntervalMonthDayNano::new(months, days, a.nanoseconds.checked_add(b.nanoseconds)?))
}

fn negate_month_day_nano(a: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    Some(IntervalMonthDayNano::new(a.months.checked_neg()?, a.days.checked_neg()?, a.nanoseconds.checked_neg()?))
}

/// The sum of numbers that fit in 128 bits.
#[derive(Debug)]
struct OneSum<T> {
    exact: Exact,
    result: DataType,
    total: Total,
    /// The number of values that are not NULL.
    count: u64,
    of: PhantomData<fn() -> T>,
}

impl<T> Accumulator for OneSum<T>
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
        let partial = self.exact.partial(states)?;
        for row in (0..partial.sums.len()).filter(|row| partial.sums.is_valid(*row)) {
            self.total.add(partial.sums.value(row));
            self.total.carry += partial.carry(row);
            self.count += 1;
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(self.exact.state_scalars(self.total, self.count == 0))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        totals::scalar(self.total, self.count == 0, &self.result)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The sum of values of a type with its own checked addition.
#[derive(Debug)]
struct CheckedSum<T: ArrowPrimitiveType> {
    result: DataType,
    sum: T::Native,
    count: u64,
    add: fn(T::Native, T::Native) -> Option<T::Native>,
    negate: fn(T::Native) -> Option<T::Native>,
}

impl<T: ArrowPrimitiveType> CheckedSum<T> {
    fn take(&mut self, value: Option<T::Native>) -> Result<()> {
        let sum = value.and_then(|value| (self.add)(self.sum, value));
        self.sum = sum.ok_or_else(|| out_of_range("sum", &self.result))?;
        Ok(())
    }
}

impl<T: ArrowPrimitiveType + Debug> Accumulator for CheckedSum<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<T>().iter().flatten() {
            self.take(Some(value))?;
            self.count += 1;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<T>().iter().flatten() {
            self.take((self.negate)(value))?;
            self.count -= 1;
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = (self.count > 0).then_some(self.sum);
        let array = PrimitiveArray::<T>::from_iter([sum]).with_data_type(self.result.clone());
        ScalarValue::try_from_array(&array, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// Sums per group of numbers that fit in 128 bits.
struct GroupSums<T> {
    exact: Exact,
    result: DataType,
    totals: Totals,
    nulls: NullState,
    of: PhantomData<T>,
}

impl<T> GroupSums<T> {
    fn new(exact: Exact, result: DataType) -> Self {
        GroupSums { exact, result, totals: Totals::default(), nulls: NullState::new(), of: PhantomData }
    }
}

impl<T> GroupsAccumulator for GroupSums<T>
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
        let totals = &mut self.totals;
        let values = values[0].as_primitive::<T>();
        self.nulls.accumulate(groups, values, filter, count, |group, value| totals.add(group, value.into()));
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.totals.resize(count);
        let totals = &mut self.totals;
        let partial = self.exact.partial(states)?;
        self.nulls.accumulate(groups, partial.sums, None, count, |group, sum| totals.add(group, sum));
        for (row, group) in groups.iter().enumerate().filter(|(row, _)| partial.carry(*row) != 0) {
            totals.add_partial(*group, 0, partial.carry(row));
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let nulls = self.nulls.build(emit_to);
        self.totals.take(emit_to).values(nulls, &self.result)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let nulls = self.nulls.build(emit_to);
        self.exact.state_arrays(self.totals.take(emit_to), nulls)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<T>();
        let mut totals = Totals::default();
        totals.resize(values.len());
        let valid = valid_rows(values.nulls(), filter);
        for (row, value) in values.values().iter().enumerate() {
            if valid.as_ref().is_none_or(|valid| valid.is_valid(row)) {
                totals.add(row, (*value).into());
            }
        }
        self.exact.state_arrays(totals, valid)
    }

    fn size(&self) -> usize {
        self.totals.bytes() + self.nulls.size()
    }
}

/// The rows that are not NULL and satisfy a filter.
pub(super) fn valid_rows(nulls: Option<&NullBuffer>, filter: Option<&BooleanArray>) -> Option<NullBuffer> {
    let passed = filter.map(|filter| NullBuffer::new(passing(filter).values().clone()));
    NullBuffer::union(nulls, passed.as_ref())
}

/// A filter in which NULL is false.
pub(super) fn passing(filter: &BooleanArray) -> BooleanArray {
    match filter.null_count() {
        0 => filter.clone(),
        _ => compute::prep_null_mask_filter(filter),
    }
}

/// The function with the result type for these arguments fixed.
pub(crate) fn settled(function: &dyn AggregateUDFImpl, arguments: &[DataType]) -> Result<Option<Arc<Sum>>> {
    let Some(sum) = function.downcast_ref::<Sum>().filter(|sum| sum.result.is_none()) else { return Ok(None) };
    Ok(Some(Arc::new(Sum { result: Some(sum.return_type(arguments)?), ..sum.clone() })))
}
