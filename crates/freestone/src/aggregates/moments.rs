//! Variances, covariances, correlation and regression of floats. All are computed from the number of values, the means,
//! and the sums of squared deviations and of their products. Partial results are merged without subtraction of large
//! sums (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979,
//! equation 2.1). So no variance is negative.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, UInt64Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type, UInt64Type};
use datafusion::common::not_impl_err;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use super::distinct::{self, Distinct};
use super::queue::{Part, Queue};
use super::sum::valid_rows;

/// The results that are computed from moments. `x` is the only argument, or the second of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Variance { sample: bool },
    Deviation { sample: bool },
    Covariance { sample: bool },
    Correlation,
    Slope,
    Intercept,
    Count,
    Determination,
    AverageX,
    AverageY,
    SquaresX,
    SquaresY,
    Products,
}

use Kind::*;

/// Names, aliases, and kinds.
const FUNCTIONS: [(&str, &[&str], Kind); 16] = [
    ("var", &["var_sample", "var_samp", "variance"], Variance { sample: true }),
    ("var_pop", &["var_population"], Variance { sample: false }),
    ("stddev", &["stddev_samp"], Deviation { sample: true }),
    ("stddev_pop", &[], Deviation { sample: false }),
    ("covar_samp", &["covar"], Covariance { sample: true }),
    ("covar_pop", &[], Covariance { sample: false }),
    ("corr", &[], Correlation),
    ("regr_slope", &[], Slope),
    ("regr_intercept", &[], Intercept),
    ("regr_count", &[], Count),
    ("regr_r2", &[], Determination),
    ("regr_avgx", &[], AverageX),
    ("regr_avgy", &[], AverageY),
    ("regr_sxx", &[], SquaresX),
    ("regr_syy", &[], SquaresY),
    ("regr_sxy", &[], Products),
];

impl Kind {
    fn arguments(self) -> usize {
        if matches!(self, Variance { .. } | Deviation { .. }) { 1 } else { 2 }
    }

    /// The result; `None` for NULL.
    fn of(self, moments: &Moments) -> Option<f64> {
        let Moments { count, x, y, xx, yy, xy } = *moments;
        let divisor = |sample: bool| (count > u64::from(sample)).then(|| (count - u64::from(sample)) as f64);
        match self {
            Variance { sample } => Some(xx / divisor(sample)?),
            Deviation { sample } => Some((xx / divisor(sample)?).sqrt()),
            Covariance { sample } => Some(xy / divisor(sample)?),
            _ if count == 0 => None,
            Correlation | Slope | Intercept | Determination if xx == 0.0 => None,
            Correlation if yy == 0.0 => None,
            Correlation => {
                let product = xx * yy;
                let is_in_range = product.is_normal();
                Some(bounded(xy / if is_in_range { product.sqrt() } else { xx.sqrt() * yy.sqrt() }))
            }
            Slope => Some(xy / xx),
            Intercept => Some(y - xy / xx * x),
            Determination if yy == 0.0 => Some(1.0),
            Determination => Some(bounded(xy / xx * (xy / yy))),
            AverageX => Some(x),
            AverageY => Some(y),
            SquaresX => Some(xx),
            SquaresY => Some(yy),
            Products => Some(xy),
            Count => Some(count as f64),
        }
    }

    fn array(self, moments: &[Moments]) -> ArrayRef {
        match self {
            Count => Arc::new(UInt64Array::from_iter_values(moments.iter().map(|moments| moments.count))),
            _ => Arc::new(Float64Array::from_iter(moments.iter().map(|moments| self.of(moments)))),
        }
    }
}

/// A correlation, limited to its range, which rounding may exceed.
fn bounded(value: f64) -> f64 {
    if value.is_nan() { value } else { value.clamp(-1.0, 1.0) }
}

/// The functions of this module.
pub(super) fn functions() -> impl Iterator<Item = Statistic> {
    FUNCTIONS.iter().map(|(name, aliases, kind)| Statistic {
        name,
        aliases: aliases.iter().map(|alias| (*alias).to_owned()).collect(),
        kind: *kind,
        signature: Signature::exact(vec![DataType::Float64; kind.arguments()], Volatility::Immutable),
    })
}

/// A function of moments.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Statistic {
    name: &'static str,
    aliases: Vec<String>,
    kind: Kind,
    signature: Signature,
}

impl AggregateUDFImpl for Statistic {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(if self.kind == Count { DataType::UInt64 } else { DataType::Float64 })
    }

    fn is_nullable(&self) -> bool {
        self.kind != Count
    }

    /// The result for no rows.
    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        if self.kind == Count { Ok(ScalarValue::UInt64(Some(0))) } else { ScalarValue::try_from(data_type) }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if args.is_distinct {
            return Ok(vec![distinct::state_field(args.name, &DataType::Float64)]);
        }
        let field = |name: &str, data_type: DataType| {
            Arc::new(Field::new(format_state_name(args.name, name), data_type, false))
        };
        let reals = ["x", "xx", "y", "yy", "xy"];
        let reals = if self.kind.arguments() == 1 { &reals[..2] } else { &reals[..] };
        let count = field("count", DataType::UInt64);
        Ok(std::iter::once(count).chain(reals.iter().map(|name| field(name, DataType::Float64))).collect())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let plain = Box::new(OneStatistic { kind: self.kind, moments: Moments::default() });
        match (args.is_distinct, self.kind.arguments()) {
            (false, _) => Ok(plain),
            (true, 1) => Ok(Box::new(Distinct::new(DataType::Float64, plain))),
            _ => not_impl_err!("DISTINCT in {}, which has two arguments", self.name),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match args.is_distinct {
            true => self.accumulator(args),
            false => Ok(Box::new(MovingStatistic { kind: self.kind, queue: Queue::default() })),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(GroupStatistics { kind: self.kind, moments: vec![] }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// Moments of pairs. Single values are pairs with 0.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Moments {
    count: u64,
    /// The means.
    x: f64,
    y: f64,
    /// The sums of squared deviations from the means, and of their products.
    xx: f64,
    yy: f64,
    xy: f64,
}

impl Moments {
    fn one(x: f64, y: f64) -> Self {
        Moments { count: 1, x, y, ..Moments::default() }
    }
}

impl Part for Moments {
    fn with(self, other: Self) -> Self {
        if self.count == 0 || other.count == 0 {
            return if self.count == 0 { other } else { self };
        }
        let count = self.count + other.count;
        let share = other.count as f64 / count as f64;
        let weight = self.count as f64 * share;
        let (dx, dy) = (other.x - self.x, other.y - self.y);
        Moments {
            count,
            x: self.x + dx * share,
            y: self.y + dy * share,
            xx: self.xx + other.xx + between([self.x, other.x], dx * dx * weight),
            yy: self.yy + other.yy + between([self.y, other.y], dy * dy * weight),
            xy: self.xy + other.xy + between([self.x, other.x, self.y, other.y], dx * dy * weight),
        }
    }
}

/// The product of distances between means. From an infinite value there is no distance, as in PostgreSQL and DuckDB: that of
/// finite ones may exceed the range.
fn between<const N: usize>(means: [f64; N], product: f64) -> f64 {
    if means.iter().all(|mean| mean.is_finite()) { product } else { f64::NAN }
}

/// The rows in which no argument is NULL, with their moments. `y` is the first argument, and `x` the second.
fn rows(values: &[ArrayRef]) -> impl Iterator<Item = (usize, Moments)> {
    let arrays: Vec<&Float64Array> = values.iter().map(|array| array.as_primitive::<Float64Type>()).collect();
    let row_count = values.first().map_or(0, |array| array.len());
    (0..row_count).filter_map(move |row| {
        let is_valid = arrays.iter().all(|array| array.is_valid(row));
        is_valid.then(|| match arrays.as_slice() {
            [y, x] => (row, Moments::one(x.value(row), y.value(row))),
            others => (row, Moments::one(others.first().map_or(0.0, |x| x.value(row)), 0.0)),
        })
    })
}

/// Moments as columns.
fn state(kind: Kind, moments: &[Moments]) -> Vec<ArrayRef> {
    let count = UInt64Array::from_iter_values(moments.iter().map(|moments| moments.count));
    let real = |of: fn(&Moments) -> f64| Arc::new(Float64Array::from_iter_values(moments.iter().map(of))) as ArrayRef;
    let mut columns: Vec<ArrayRef> = vec![Arc::new(count), real(|m| m.x), real(|m| m.xx)];
    if kind.arguments() == 2 {
        columns.extend([real(|m| m.y), real(|m| m.yy), real(|m| m.xy)]);
    }
    columns
}

/// Moments from their columns.
fn from_state(states: &[ArrayRef]) -> impl Iterator<Item = Moments> {
    let counts = states[0].as_primitive::<UInt64Type>();
    let reals: Vec<&Float64Array> = states[1..].iter().map(|array| array.as_primitive::<Float64Type>()).collect();
    (0..counts.len()).map(move |row| {
        let real = |at: usize| reals.get(at).map_or(0.0, |array| array.value(row));
        Moments { count: counts.value(row), x: real(0), xx: real(1), y: real(2), yy: real(3), xy: real(4) }
    })
}

#[derive(Debug)]
struct OneStatistic {
    kind: Kind,
    moments: Moments,
}

impl Accumulator for OneStatistic {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        rows(values).for_each(|(_, one)| self.moments = self.moments.with(one));
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        from_state(states).for_each(|part| self.moments = self.moments.with(part));
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let columns = state(self.kind, &[self.moments]);
        columns.iter().map(|column| ScalarValue::try_from_array(column, 0)).collect()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.kind.array(&[self.moments]), 0)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// A statistic of a sliding window frame.
#[derive(Debug)]
struct MovingStatistic {
    kind: Kind,
    queue: Queue<Moments>,
}

impl Accumulator for MovingStatistic {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        rows(values).for_each(|(_, one)| self.queue.push(one));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        rows(values).for_each(|_| self.queue.pop());
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        from_state(states).for_each(|part| self.queue.push(part));
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let columns = state(self.kind, &[self.queue.total().unwrap_or_default()]);
        columns.iter().map(|column| ScalarValue::try_from_array(column, 0)).collect()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.kind.array(&[self.queue.total().unwrap_or_default()]), 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.queue.bytes()
    }
}

struct GroupStatistics {
    kind: Kind,
    moments: Vec<Moments>,
}

impl GroupsAccumulator for GroupStatistics {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.moments.resize(count, Moments::default());
        let passed = valid_rows(None, filter);
        for (row, one) in rows(values).filter(|(row, _)| passes(passed.as_ref(), *row)) {
            let moments = &mut self.moments[groups[row]];
            *moments = moments.with(one);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.moments.resize(count, Moments::default());
        for (part, group) in from_state(states).zip(groups) {
            let moments = &mut self.moments[*group];
            *moments = moments.with(part);
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(self.kind.array(&emit_to.take_needed(&mut self.moments)))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(state(self.kind, &emit_to.take_needed(&mut self.moments)))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let passed = valid_rows(None, filter);
        let mut moments = vec![Moments::default(); values.first().map_or(0, |array| array.len())];
        for (row, one) in rows(values).filter(|(row, _)| passes(passed.as_ref(), *row)) {
            moments[row] = one;
        }
        Ok(state(self.kind, &moments))
    }

    fn size(&self) -> usize {
        self.moments.capacity() * size_of::<Moments>()
    }
}

fn passes(passed: Option<&NullBuffer>, row: usize) -> bool {
    passed.is_none_or(|passed| passed.is_valid(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(pairs: &[(f64, f64)]) -> Moments {
        pairs.iter().fold(Moments::default(), |moments, (x, y)| moments.with(Moments::one(*x, *y)))
    }

    #[test]
    fn parts_make_the_whole() {
        let pairs: Vec<(f64, f64)> = (0..40).map(|n| (1e8 + f64::from(n % 7), f64::from(n * n % 11))).collect();
        let whole = moments(&pairs);
        for at in 0..=pairs.len() {
            let joined = moments(&pairs[..at]).with(moments(&pairs[at..]));
            for kind in FUNCTIONS.map(|(_, _, kind)| kind) {
                let (a, b) = (kind.of(&whole), kind.of(&joined));
                let (a, b) = (a.expect("a value"), b.expect("a value"));
                assert!((a - b).abs() <= 1e-6 * a.abs().max(1.0), "{kind:?} at {at}: {a} and {b}");
            }
        }
    }

    #[test]
    fn few_and_equal_values() {
        let of = |kind: Kind, pairs: &[(f64, f64)]| kind.of(&moments(pairs));
        let (one, flat): (&[_], &[_]) = (&[(2.0, 3.0)], &[(1.0, 5.0), (2.0, 5.0)]);
        assert_eq!(of(Variance { sample: true }, one), None);
        assert_eq!(of(Variance { sample: false }, one), Some(0.0));
        assert_eq!(of(Correlation, one), None);
        assert_eq!(of(Correlation, flat), None);
        assert_eq!(of(Determination, flat), Some(1.0));
        assert_eq!(of(Slope, flat), Some(0.0));
        assert_eq!(of(Intercept, flat), Some(5.0));
        assert_eq!(of(Products, &[]), None);
    }

    #[test]
    fn infinite_values_have_no_variance() {
        let pairs = [(1.0, 2.0), (f64::INFINITY, 3.0), (2.0, 4.0)];
        for kind in [Variance { sample: true }, Deviation { sample: false }, Covariance { sample: false }, Correlation]
        {
            assert!(kind.of(&moments(&pairs)).is_some_and(f64::is_nan), "{kind:?}");
        }
        let finite = [(f64::MAX, 2.0), (-f64::MAX, 3.0)];
        assert_eq!(Variance { sample: true }.of(&moments(&finite)), Some(f64::INFINITY));
    }
}
