//! A window function over the frames of a partition.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, new_empty_array};
use datafusion::arrow::compute::{self, SortOptions};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::{Accumulator, LimitEffect, PartitionEvaluator, WindowFrame};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::window::{StandardWindowExpr, StandardWindowFunctionExpr, WindowExpr};
use datafusion::physical_plan::windows::WindowUDFExpr;
use datafusion::scalar::ScalarValue;

use super::computed::{Bounds, bounds_of_aggregate};
use super::exclusion::Exclusion;
use super::frames::{Computed, Order, frames};
use super::nth::Nth;
use crate::growth::{Meter, weight_of_value};

/// Aggregates from which rows can be removed exactly.
const SHRINKING: [&str; 18] = [
    "avg",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "max",
    "min",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "stddev",
    "stddev_pop",
    "sum",
    "var",
    "var_pop",
];

/// Further aggregates whose result can be read repeatedly while rows are added.
const GROWING: [&str; 6] = ["approx_distinct", "bit_and", "bit_or", "bit_xor", "bool_and", "bool_or"];

/// The function that is computed over frames.
#[derive(Debug, Clone)]
pub(super) enum Function {
    Aggregate(Arc<AggregateFunctionExpr>),
    Standard(Arc<dyn StandardWindowFunctionExpr>),
}

impl Function {
    /// The bounds of its frames that are its last arguments.
    fn bounds(&self) -> Option<Bounds> {
        match self {
            Function::Aggregate(aggregate) => bounds_of_aggregate(aggregate),
            Function::Standard(standard) => {
                let function = standard.as_any().downcast_ref::<WindowUDFExpr>()?;
                let inner: &dyn Any = function.fun().inner().as_ref();
                inner.downcast_ref::<Nth>()?.bounds()
            }
        }
    }
}

/// Whether rows can be added to and removed from an aggregate, so that DataFusion may reverse its window.
pub(super) fn is_moving(aggregate: &AggregateFunctionExpr) -> bool {
    SHRINKING.contains(&aggregate.fun().name()) && !aggregate.is_distinct()
}

/// Whether the result of an aggregate can be read while rows are added.
fn is_growing(aggregate: &AggregateFunctionExpr) -> bool {
    is_moving(aggregate) || GROWING.contains(&aggregate.fun().name()) && !aggregate.is_distinct()
}

/// A window function of a plan that is evaluated per partition, with our frames.
#[derive(Debug, Clone)]
pub(super) struct Framed {
    function: Function,
    name: String,
    field: FieldRef,
    frame: Arc<WindowFrame>,
    exclusion: Option<Exclusion>,
    /// The bounds of the frame that are the last arguments.
    bounds: Option<Bounds>,
    /// The arguments of the function, and the sort keys of its window.
    expressions: Vec<Arc<dyn PhysicalExpr>>,
    arguments: usize,
    options: Vec<SortOptions>,
}

impl Framed {
    /// The function that is computed over frames.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// The bounds of the frames that each row computes.
    pub fn bounds(&self) -> Option<Bounds> {
        self.bounds
    }

    pub fn in_place_of(plain: &dyn WindowExpr, function: Function) -> Result<Arc<dyn WindowExpr>> {
        let (mut expressions, order) = (plain.expressions(), plain.order_by());
        let arguments = expressions.len();
        expressions.extend(order.iter().map(|key| key.expr.clone()));
        let framed = Framed {
            bounds: function.bounds(),
            function,
            name: plain.name().to_owned(),
            field: plain.field()?,
            frame: plain.get_window_frame().clone(),
            exclusion: Exclusion::of(plain),
            expressions,
            arguments,
            options: order.iter().map(|key| key.options).collect(),
        };
        let frame = plain.get_window_frame().clone();
        Ok(Arc::new(StandardWindowExpr::new(Arc::new(framed), plain.partition_by(), order, frame)))
    }
}

impl StandardWindowFunctionExpr for Framed {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn field(&self) -> Result<FieldRef> {
        Ok(self.field.clone())
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn expressions(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.expressions.clone()
    }

    fn create_evaluator(&self) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Partition(self.clone())))
    }

    fn limit_effect(&self) -> LimitEffect {
        LimitEffect::Unknown
    }
}

#[derive(Debug)]
struct Partition(Framed);

impl PartitionEvaluator for Partition {
    fn evaluate_all(&mut self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let framed = &self.0;
        let (arguments, order) = columns.split_at(framed.arguments);
        let order = Order { columns: order, options: &framed.options };
        let bounds = framed.bounds.map_or(0, Bounds::arguments);
        let (arguments, bounds) = arguments.split_at(arguments.len() - bounds.min(arguments.len()));
        let computed = framed.bounds.map(|own| Computed::new(own, bounds)).transpose()?;
        let frames = frames(&framed.frame, computed.as_ref(), &order, rows)?;
        let parts = framed.exclusion.map(|exclusion| exclusion.parts(&frames, &order)).transpose()?;
        let values = match (&framed.function, parts) {
            (Function::Standard(function), None) => {
                let mut evaluator = function.create_evaluator()?;
                let mut values = Values::new();
                frames.iter().try_for_each(|frame| values.push(evaluator.evaluate(arguments, frame)?))?;
                values
            }
            (Function::Standard(function), Some(parts)) => over_parts(function.as_ref(), arguments, &parts)?,
            (Function::Aggregate(aggregate), None) => Rows { aggregate, arguments }.over(&frames)?,
            (Function::Aggregate(aggregate), Some(parts)) => Rows { aggregate, arguments }.anew(&parts)?,
        };
        values.array(framed.field.data_type())
    }
}

/// The results of rows, counted while they are made: those over growing frames can be much more than the rows.
struct Values {
    values: Vec<ScalarValue>,
    meter: Meter,
}

impl Values {
    fn new() -> Values {
        Values { values: vec![], meter: Meter::of_rows("the results of a window function") }
    }

    fn push(&mut self, value: ScalarValue) -> Result<()> {
        // Values become an array, which is a copy.
        let bytes = usize::try_from(weight_of_value(&value)).unwrap_or(usize::MAX);
        self.meter.add(size_of::<ScalarValue>().saturating_add(bytes.saturating_mul(2)))?;
        self.values.push(value);
        Ok(())
    }

    fn last(&self) -> Option<&ScalarValue> {
        self.values.last()
    }

    fn array(self, data_type: &DataType) -> Result<ArrayRef> {
        match self.values.is_empty() {
            true => Ok(new_empty_array(data_type)),
            false => ScalarValue::iter_to_array(self.values),
        }
    }
}

/// A function of the values in a frame, whose parts are put together for each row. Its other arguments are those of the row.
fn over_parts(
    function: &dyn StandardWindowFunctionExpr,
    arguments: &[ArrayRef],
    parts: &[Vec<Range<usize>>],
) -> Result<Values> {
    let (value, others) = (&arguments[0], &arguments[1..]);
    let of_row = |(row, parts): (usize, &Vec<Range<usize>>)| {
        let kept: Vec<ArrayRef> = parts.iter().map(|part| value.slice(part.start, part.len())).collect();
        let kept: Vec<&dyn Array> = kept.iter().map(AsRef::as_ref).collect();
        let kept = if kept.is_empty() { new_empty_array(value.data_type()) } else { compute::concat(&kept)? };
        let rows = 0..kept.len();
        let columns: Vec<ArrayRef> =
            std::iter::once(kept).chain(others.iter().map(|other| other.slice(row, 1))).collect();
        function.create_evaluator()?.evaluate(&columns, &rows)
    };
    let mut values = Values::new();
    parts.iter().enumerate().try_for_each(|part| values.push(of_row(part)?))?;
    Ok(values)
}

/// The rows of a partition as arguments of an aggregate.
struct Rows<'a> {
    aggregate: &'a AggregateFunctionExpr,
    arguments: &'a [ArrayRef],
}

impl Rows<'_> {
    /// The aggregate over each frame.
    fn over(&self, frames: &[Range<usize>]) -> Result<Values> {
        let starts_move_on = frames.is_sorted_by_key(|frame| frame.start);
        let ends_move_on = frames.is_sorted_by_key(|frame| frame.end);
        let mut starts = frames.iter().filter(|frame| !frame.is_empty()).map(|frame| frame.start);
        let first = starts.next();
        let starts_stay = starts.all(|start| Some(start) == first);
        match () {
            () if starts_stay && ends_move_on && is_growing(self.aggregate) => self.growing(frames),
            () if starts_move_on && ends_move_on && is_moving(self.aggregate) => self.moving(frames),
            () => {
                let part = |frame: &Range<usize>| if frame.is_empty() { vec![] } else { vec![frame.clone()] };
                self.anew(&frames.iter().map(part).collect::<Vec<_>>())
            }
        }
    }

    /// Frames with the same first row and increasing ends.
    fn growing(&self, frames: &[Range<usize>]) -> Result<Values> {
        let mut accumulator = self.aggregate.create_accumulator()?;
        let mut end = frames.iter().find(|frame| !frame.is_empty()).map_or(0, |frame| frame.start);
        let mut value = None;
        let mut values = Values::new();
        for frame in frames {
            if frame.is_empty() {
                values.push(self.of_nothing()?)?;
                continue;
            }
            if frame.end > end {
                self.update(accumulator.as_mut(), end..frame.end)?;
                (end, value) = (frame.end, None);
            }
            values.push(match &value {
                Some(value) => ScalarValue::clone(value),
                None => value.insert(accumulator.evaluate()?).clone(),
            })?;
        }
        Ok(values)
    }

    /// Frames of which both ends move forward.
    fn moving(&self, frames: &[Range<usize>]) -> Result<Values> {
        let mut accumulator = self.aggregate.create_sliding_accumulator()?;
        let mut held = 0..0;
        let mut values = Values::new();
        for frame in frames {
            if frame.is_empty() {
                values.push(self.of_nothing()?)?;
                continue;
            }
            if frame.start >= held.end {
                self.retract(accumulator.as_mut(), held)?;
                held = frame.start..frame.start;
            }
            self.update(accumulator.as_mut(), held.end..frame.end)?;
            self.retract(accumulator.as_mut(), held.start..frame.start)?;
            held = frame.clone();
            values.push(accumulator.evaluate()?)?;
        }
        Ok(values)
    }

    /// Any frames, each of several parts. Each is evaluated separately, unless it is equal to that of the previous row.
    fn anew(&self, frames: &[Vec<Range<usize>>]) -> Result<Values> {
        let mut values = Values::new();
        for (row, parts) in frames.iter().enumerate() {
            let value = match values.last() {
                Some(value) if frames[row - 1] == *parts => value.clone(),
                _ if parts.is_empty() => self.of_nothing()?,
                _ => {
                    let mut accumulator = self.aggregate.create_accumulator()?;
                    for part in parts {
                        self.update(accumulator.as_mut(), part.clone())?;
                    }
                    accumulator.evaluate()?
                }
            };
            values.push(value)?;
        }
        Ok(values)
    }

    fn of_nothing(&self) -> Result<ScalarValue> {
        self.aggregate.default_value(self.aggregate.field().data_type())
    }

    fn update(&self, accumulator: &mut dyn Accumulator, rows: Range<usize>) -> Result<()> {
        match rows.is_empty() {
            true => Ok(()),
            false => accumulator.update_batch(&self.slice(rows)),
        }
    }

    fn retract(&self, accumulator: &mut dyn Accumulator, rows: Range<usize>) -> Result<()> {
        match rows.is_empty() {
            true => Ok(()),
            false => accumulator.retract_batch(&self.slice(rows)),
        }
    }

    fn slice(&self, rows: Range<usize>) -> Vec<ArrayRef> {
        self.arguments.iter().map(|column| column.slice(rows.start, rows.len())).collect()
    }
}
