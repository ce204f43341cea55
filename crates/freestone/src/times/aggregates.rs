//! SUM, AVG, MIN and MAX of intervals: by length, and with fields that do not wrap. With DISTINCT, the smallest of intervals of
//! one length is counted.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use super::arrays::{INTERVAL, interval_of, intervals, is_span, out_of_range, stored};
use super::interval::Interval;

/// The function of a name over intervals, if it is one of those. The function for DISTINCT is called without it: other rules
/// would find equal intervals by their fields.
pub(crate) fn over_intervals(name: &str, distinct: bool) -> Option<Arc<AggregateUDF>> {
    let at = ["sum", "avg", "min", "max"].iter().position(|known| *known == name)?;
    FUNCTIONS.get(if distinct && at < 2 { at + 4 } else { at }).cloned()
}

/// The smallest of several intervals of equal length, which represents them.
pub(crate) fn any_interval() -> Arc<AggregateUDF> {
    FUNCTIONS[2].clone()
}

static FUNCTIONS: LazyLock<[Arc<AggregateUDF>; 6]> = LazyLock::new(|| {
    let signature = || Signature::user_defined(Volatility::Immutable);
    let function =
        |name, kind| Arc::new(AggregateUDF::new_from_impl(OverIntervals { name, kind, signature: signature() }));
    [
        function("sum", Kind::Sum),
        function("avg", Kind::Average),
        function("min", Kind::Least),
        function("max", Kind::Greatest),
        function("sum_distinct", Kind::DistinctSum),
        function("avg_distinct", Kind::DistinctAverage),
    ]
});

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Sum,
    Average,
    Least,
    Greatest,
    DistinctSum,
    DistinctAverage,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OverIntervals {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

impl AggregateUDFImpl for OverIntervals {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, _: &[DataType]) -> Result<Vec<DataType>> {
        Ok(vec![INTERVAL])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if matches!(self.kind, Kind::DistinctSum | Kind::DistinctAverage) {
            let values = Field::new_list_field(INTERVAL, true);
            return Ok(vec![Arc::new(Field::new_list(format_state_name(args.name, "distinct"), values, false))]);
        }
        let value = Field::new(format_state_name(args.name, "value"), INTERVAL, true);
        let count = Field::new(format_state_name(args.name, "count"), DataType::Int64, true);
        Ok(vec![Arc::new(value), Arc::new(count)])
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match self.kind {
            Kind::Sum => Ok(Box::new(Sum { total: Interval::default(), count: 0, averages: false })),
            Kind::Average => Ok(Box::new(Sum { total: Interval::default(), count: 0, averages: true })),
            Kind::Least => Ok(Box::new(Extreme { found: None, greatest: false })),
            Kind::Greatest => Ok(Box::new(Extreme { found: None, greatest: true })),
            Kind::DistinctSum => Ok(Box::new(Distinct { values: BTreeMap::new(), averages: false })),
            Kind::DistinctAverage => Ok(Box::new(Distinct { values: BTreeMap::new(), averages: true })),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match self.kind {
            Kind::Least | Kind::Greatest => {
                Ok(Box::new(Window { values: BTreeMap::new(), greatest: self.kind == Kind::Greatest }))
            }
            _ => self.accumulator(args),
        }
    }
}

/// The values of a batch that are not NULL.
fn values(batch: &ArrayRef) -> Result<impl Iterator<Item = Interval>> {
    let spans = intervals(batch)?;
    let present = (0..spans.len()).filter(|row| !spans.is_null(*row)).map(|row| interval_of(spans.value(row)));
    Ok(present.collect::<Vec<_>>().into_iter())
}

fn scalar(value: Option<Interval>) -> ScalarValue {
    ScalarValue::IntervalMonthDayNano(value.map(stored))
}

fn state(value: Option<Interval>, count: i64) -> Vec<ScalarValue> {
    vec![scalar(value), ScalarValue::Int64(Some(count))]
}

#[derive(Debug)]
struct Sum {
    total: Interval,
    count: i64,
    averages: bool,
}

impl Sum {
    fn add(&mut self, value: Interval) -> Result<()> {
        self.total = self.total.checked_add(value).ok_or_else(|| out_of_range("interval"))?;
        Ok(())
    }
}

impl Accumulator for Sum {
    fn update_batch(&mut self, batches: &[ArrayRef]) -> Result<()> {
        for value in values(&batches[0])? {
            self.add(value)?;
            self.count += 1;
        }
        Ok(())
    }

    fn retract_batch(&mut self, batches: &[ArrayRef]) -> Result<()> {
        for value in values(&batches[0])? {
            self.add(value.checked_neg().ok_or_else(|| out_of_range("interval"))?)?;
            self.count -= 1;
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for value in values(&states[0])? {
            self.add(value)?;
        }
        self.count += states[1].as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(state(Some(self.total), self.count))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(match (self.count, self.averages) {
            (0, _) => scalar(None),
            (_, false) => scalar(Some(self.total)),
            (count, true) => scalar(Some(self.total.divided(count as f64).ok_or_else(|| out_of_range("interval"))?)),
        })
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The intervals of different lengths, of which the smallest stands for each.
#[derive(Debug)]
struct Distinct {
    values: BTreeMap<i128, Interval>,
    averages: bool,
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, batches: &[ArrayRef]) -> Result<()> {
        for value in values(&batches[0])? {
            let known = self.values.entry(value.length_ns()).or_insert(value);
            if order(value) < order(*known) {
                *known = value;
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        states[0].as_list::<i32>().iter().flatten().try_for_each(|values| self.update_batch(&[values]))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values: Vec<ScalarValue> = self.values.values().map(|value| scalar(Some(*value))).collect();
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &INTERVAL))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut sum = Sum { total: Interval::default(), count: 0, averages: self.averages };
        for value in self.values.values() {
            sum.add(*value)?;
            sum.count += 1;
        }
        sum.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.len() * size_of::<(i128, Interval)>()
    }
}

/// The order of intervals: by length, and for equal lengths by fields, so that results do not depend on the order of
/// rows.
fn order(span: Interval) -> (i128, i32, i32) {
    (span.length_ns(), span.months, span.days)
}

#[derive(Debug)]
struct Extreme {
    found: Option<Interval>,
    greatest: bool,
}

impl Accumulator for Extreme {
    fn update_batch(&mut self, batches: &[ArrayRef]) -> Result<()> {
        let all = self.found.into_iter().chain(values(&batches[0])?);
        self.found =
            if self.greatest { all.max_by_key(|span| order(*span)) } else { all.min_by_key(|span| order(*span)) };
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(state(self.found, i64::from(self.found.is_some())))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(scalar(self.found))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The minimum and maximum in a sliding window frame.
#[derive(Debug)]
struct Window {
    values: BTreeMap<(i128, i32, i32), (Interval, u64)>,
    greatest: bool,
}

impl Window {
    fn found(&self) -> Option<Interval> {
        let entry = if self.greatest { self.values.last_key_value() } else { self.values.first_key_value() };
        entry.map(|(_, (value, _))| *value)
    }
}

impl Accumulator for Window {
    fn update_batch(&mut self, batches: &[ArrayRef]) -> Result<()> {
        for value in values(&batches[0])? {
            self.values.entry(order(value)).or_insert((value, 0)).1 += 1;
        }
        Ok(())
    }

    fn retract_batch(&mut self, batches: &[ArrayRef]) -> Result<()> {
        for value in values(&batches[0])? {
            if let Some((_, count)) = self.values.get_mut(&order(value)) {
                *count -= 1;
                if *count == 0 {
                    self.values.remove(&order(value));
                }
            }
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
        Ok(state(self.found(), self.values.len() as i64))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(scalar(self.found()))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.len() * size_of::<((i128, i32, i32), (Interval, u64))>()
    }
}

/// AVG during planning: that of the session, extended by intervals. When the types are known, a rule replaces it by the
/// right function, so it is never executed.
pub(crate) fn planned_average(inner: Arc<AggregateUDF>) -> AggregateUDF {
    AggregateUDF::new_from_impl(Average { inner, signature: Signature::user_defined(Volatility::Immutable) })
}

/// The function behind a placeholder that is used during planning.
pub(crate) fn behind(function: &AggregateUDF) -> Option<Arc<AggregateUDF>> {
    let inner: &dyn std::any::Any = function.inner().as_ref();
    inner.downcast_ref::<Average>().map(|average| average.inner.clone())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Average {
    inner: Arc<AggregateUDF>,
    signature: Signature,
}

impl AggregateUDFImpl for Average {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if types.iter().any(is_span) {
            return Ok(vec![INTERVAL]);
        }
        let field = |data_type: &DataType| Arc::new(Field::new("argument", data_type.clone(), true));
        let fields: Vec<FieldRef> = types.iter().map(field).collect();
        let coerced = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(coerced.iter().map(|field| field.data_type().clone()).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if types.iter().any(is_span) { Ok(INTERVAL) } else { self.inner.return_type(types) }
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }
}
