//! Window functions → the executor's, where it knows all functions of a node.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::functions_window::cume_dist::CumeDist;
use datafusion::functions_window::ntile::Ntile;
use datafusion::functions_window::rank::Rank;
use datafusion::functions_window::row_number::RowNumber;
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, WindowExpr,
};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::windows::WindowUDFExpr;
use freestone_exec::direct::KeyDomain;
use freestone_exec::pipeline::{Branch, Feed, Sink};
use freestone_exec::places::has_order;
use freestone_exec::program::Program;
use freestone_exec::vector::Form;
use freestone_exec::whole::Whole;
use freestone_exec::windows::{Bound, Call, Frame, Function, PartitionKey, Plan, Windows};

use super::aggregates::{self, Calls, Native};
use super::compiler::{Compiler, Open, arguments, exchanged, field, place, sort_key};
use super::expressions::{Compiled, Expressions, Known};
use crate::windows::{Place, WindowNode, bounds_of_aggregate, function_of_frames, is_excluding, place_of, shift_of};

/// A node of window functions, all of the same partitions and order.
struct Node<'a> {
    functions: &'a [Arc<dyn WindowExpr>],
    input: &'a Arc<dyn ExecutionPlan>,
    partition_by: Vec<PhysicalSortExpr>,
    /// The order of rows within a partition, of which the first columns are those of the window.
    order_by: Vec<PhysicalSortExpr>,
    equal_by: usize,
    /// Whether rows come in an order that a sort below asked for.
    is_sorted: bool,
}

impl Node<'_> {
    /// The type of the only column by which the rows of a partition are ordered.
    fn order_type(&self) -> Option<DataType> {
        let [by] = self.functions.first()?.order_by() else { return None };
        let first = self.order_by.first().filter(|first| self.equal_by == 1 && first.expr.eq(&by.expr))?;
        first.expr.data_type(&self.input.schema()).ok()
    }
}

/// Whether a plan is a node of window functions of which the executor knows all.
pub(super) fn is_known(plan: &Arc<dyn ExecutionPlan>) -> bool {
    node(plan).is_some_and(|node| node.functions.iter().all(|function| kind(function, &node).is_some()))
}

fn node(plan: &Arc<dyn ExecutionPlan>) -> Option<Node<'_>> {
    let WindowNode { functions, input, .. } = WindowNode::of(plan)?;
    let first = functions.first()?;
    let is_same = |other: &Arc<dyn WindowExpr>| {
        other.partition_by() == first.partition_by() && other.order_by() == first.order_by()
    };
    if !functions.iter().all(is_same) || is_excluding(first.as_ref()) {
        return None;
    }
    let mut keys: Vec<&Arc<dyn PhysicalExpr>> = vec![];
    for key in first.partition_by() {
        if !key.is::<Literal>() && !keys.contains(&key) {
            keys.push(key);
        }
    }
    // A constant or a key of partitions orders nothing within a partition.
    let mut order_by: Vec<PhysicalSortExpr> = vec![];
    for key in first.order_by() {
        let is_known = |other: &PhysicalSortExpr| other.expr.eq(&key.expr);
        if !key.expr.is::<Literal>() && !keys.contains(&&key.expr) && !order_by.iter().any(is_known) {
            order_by.push(key.clone());
        }
    }
    let equal_by = order_by.len();
    let sort = sort_below(input);
    let Some(sort) = sort else {
        let order = |key: &&Arc<dyn PhysicalExpr>| PhysicalSortExpr::new((*key).clone(), SortOptions::default());
        let partition_by = keys.iter().map(order).collect();
        return Some(Node { functions, input, partition_by, order_by, equal_by, is_sorted: false });
    };
    let (partition_by, rest) = sort.expr().split_at_checked(keys.len())?;
    let has_all = partition_by.iter().all(|key| keys.contains(&&key.expr));
    let (own, further) = rest.split_at_checked(equal_by)?;
    if !has_all || own != order_by {
        return None;
    }
    order_by.extend_from_slice(further);
    let partition_by = partition_by.to_vec();
    Some(Node { functions, input: sort.input(), partition_by, order_by, equal_by, is_sorted: true })
}

/// The sort below a node, under nodes that only move rows between threads.
fn sort_below(plan: &Arc<dyn ExecutionPlan>) -> Option<&SortExec> {
    let mut below = plan;
    loop {
        if let Some(sort) = below.downcast_ref::<SortExec>() {
            return sort.fetch().is_none().then_some(sort);
        }
        let merge = below.downcast_ref::<SortPreservingMergeExec>().filter(|merge| merge.fetch().is_none());
        below = merge.map(SortPreservingMergeExec::input).or_else(|| exchanged(below))?;
    }
}

/// A function of a plan that may be known.
enum Kind<'a> {
    Aggregate(&'a AggregateFunctionExpr, Frame),
    Place(Place, &'a Arc<dyn PhysicalExpr>, Frame),
    /// The value, the rows that it is before, and the default.
    Shift(&'a Arc<dyn PhysicalExpr>, i64, Option<&'a Arc<dyn PhysicalExpr>>),
    Ranking(Function),
}

/// The frame of all rows of the partition.
const WHOLE: Frame = Frame { start: Bound::Partition, end: Bound::Partition };

fn kind<'a>(function: &'a Arc<dyn WindowExpr>, node: &Node<'_>) -> Option<Kind<'a>> {
    let any = function.as_any();
    let frame = || frame(function.get_window_frame(), node.order_type().as_ref());
    if let Some(growing) = any.downcast_ref::<PlainAggregateWindowExpr>() {
        return known_aggregate(growing.get_aggregate_expr(), frame()?);
    }
    if let Some(sliding) = any.downcast_ref::<SlidingAggregateWindowExpr>() {
        return known_aggregate(sliding.get_aggregate_expr(), frame()?);
    }
    let standard = any.downcast_ref::<StandardWindowExpr>()?.get_standard_func_expr();
    let (aggregate, standard) = function_of_frames(standard);
    if let Some(aggregate) = aggregate {
        return known_aggregate(aggregate, frame()?);
    }
    let function = standard.as_any().downcast_ref::<WindowUDFExpr>()?;
    let inner: &dyn std::any::Any = function.fun().inner().as_ref();
    if let Some(place) = place_of(function) {
        return Some(Kind::Place(place, function.args().first()?, frame()?));
    }
    if let Some((back, default)) = shift_of(function) {
        return Some(Kind::Shift(function.args().first()?, back, default));
    }
    let ranking = match inner.is::<Rank>() {
        true => match function.fun().name() {
            "rank" => Function::Rank,
            "dense_rank" => Function::DenseRank,
            "percent_rank" => Function::PercentRank,
            _ => return None,
        },
        false if inner.is::<RowNumber>() => Function::RowNumber,
        false if inner.is::<CumeDist>() => Function::CumulativeShare,
        false if inner.is::<Ntile>() => Function::Tile(parts(function.args().first()?)?),
        false => return None,
    };
    Some(Kind::Ranking(ranking))
}

/// The number of parts into which rows are divided, if it is a constant that is valid.
fn parts(e: &Arc<dyn PhysicalExpr>) -> Option<u64> {
    match e.downcast_ref::<Literal>()?.value().cast_to(&DataType::UInt64).ok()? {
        ScalarValue::UInt64(parts) => parts.filter(|parts| *parts > 0),
        _ => None,
    }
}

fn known_aggregate(function: &AggregateFunctionExpr, frame: Frame) -> Option<Kind<'_>> {
    if bounds_of_aggregate(function).is_some() {
        return None;
    }
    let is_known = matches!(function.fun().name(), "sum" | "avg" | "count" | "min" | "max")
        && function.expressions().len() <= 1
        && !function.is_distinct()
        && function.order_bys().is_empty();
    // Any aggregate is known of whole partitions.
    let is_whole = || aggregates::is_fusable(&Arc::new(function.clone())) && aggregates::by_place(function).is_none();
    let is_known = is_known || frame == WHOLE && is_whole();
    is_known.then_some(Kind::Aggregate(function, frame))
}

/// The executor's form of a frame; `None` for those with offsets of groups, or of values that are not integers of `order`.
fn frame(frame: &WindowFrame, order: Option<&DataType>) -> Option<Frame> {
    let bound = |bound: &WindowFrameBound| {
        if bound.is_unbounded() {
            return Some(Bound::Partition);
        }
        let rows = |value: &ScalarValue| match value {
            ScalarValue::UInt64(Some(rows)) if frame.units == WindowFrameUnits::Rows => {
                Some(i64::try_from(*rows).unwrap_or(i64::MAX))
            }
            _ => None,
        };
        let values = |value: &ScalarValue| match frame.units {
            WindowFrameUnits::Range => units_of(value, order?).filter(|units| *units >= 0),
            _ => None,
        };
        match bound {
            WindowFrameBound::CurrentRow if frame.units == WindowFrameUnits::Rows => Some(Bound::Row(0)),
            WindowFrameBound::CurrentRow => Some(Bound::Peers),
            WindowFrameBound::Preceding(value) => {
                rows(value).map(|rows| Bound::Row(-rows)).or_else(|| values(value).map(|units| Bound::Value(-units)))
            }
            WindowFrameBound::Following(value) => {
                rows(value).map(Bound::Row).or_else(|| values(value).map(Bound::Value))
            }
        }
    };
    Some(Frame { start: bound(&frame.start_bound)?, end: bound(&frame.end_bound)? })
}

/// An offset of values of a type in the units of its integers; `None` if it is none: a month has no number of days.
fn units_of(offset: &ScalarValue, order: &DataType) -> Option<i64> {
    match (offset, order) {
        (ScalarValue::IntervalMonthDayNano(Some(span)), DataType::Date32) => {
            (span.months == 0 && span.nanoseconds == 0).then_some(span.days.into())
        }
        (ScalarValue::IntervalMonthDayNano(Some(span)), DataType::Timestamp(TimeUnit::Microsecond, None)) => {
            let in_days = i64::from(span.days) * 86_400_000_000;
            (span.months == 0 && span.days >= 0 && span.nanoseconds >= 0 && span.nanoseconds % 1_000 == 0)
                .then_some(in_days + span.nanoseconds / 1_000)
        }
        (value, order) if order.is_integer() && *order != DataType::UInt64 && value.data_type() == *order => {
            match value.cast_to(&DataType::Int64).ok()? {
                ScalarValue::Int64(units) => units,
                _ => None,
            }
        }
        _ => None,
    }
}

/// The columns of a window's rows: those of its input, and what keys, orders and functions need besides.
struct Columns<'a> {
    compiler: Expressions<'a>,
    outputs: Vec<Compiled>,
}

impl Columns<'_> {
    /// The column of an expression, if the executor knows values of its form.
    fn of(&mut self, e: &Arc<dyn PhysicalExpr>, knows: impl Fn(Form) -> bool) -> Result<Option<usize>> {
        let compiled = self.compiler.compile(e)?.filter(|compiled| knows(compiled.known.form));
        Ok(compiled.map(|compiled| place(&mut self.compiler, &mut self.outputs, compiled)))
    }

    fn known(&self, column: usize) -> &Known {
        &self.outputs[column].known
    }
}

impl Compiler<'_> {
    /// Window functions; `None` if one is not known. Of the columns of the input, only those that are `wanted` are passed on.
    pub(super) fn windows(&mut self, plan: &Arc<dyn ExecutionPlan>, wanted: &[usize]) -> Result<Option<Open>> {
        let Some(node) = node(plan).filter(|_| is_known(plan)) else { return Ok(None) };
        let mut open = self.open_or_input(node.input)?;
        let mut compiler = Expressions::new(&open.schema, &open.columns);
        let wanted: Vec<usize> = wanted.iter().copied().filter(|column| *column < open.columns.len()).collect();
        let outputs: Vec<_> = wanted.iter().map(|column| compiler.column(*column)).collect();
        let mut columns: Vec<Known> = outputs.iter().map(|column| compiler.output(column)).collect();
        let returned = columns.len();
        let of_rows = Columns { compiler, outputs };
        let known = match is_of_all_rows(&node) {
            true => of_all_rows(&node, of_rows)?.map(|(calls, program)| {
                let (calls, places) = calls.finish();
                let whole = Whole::new(returned, calls, places, self.context.clone());
                (whole.results(), Arc::new(whole) as Arc<dyn Sink>, program)
            }),
            false => compiled(&node, of_rows, returned)?.map(|(plan_of_rows, program)| {
                let windows = Windows::new(plan_of_rows, self.context.clone());
                (windows.results(), Arc::new(windows) as Arc<dyn Sink>, program)
            }),
        };
        let Some((results, sink, program)) = known else { return Ok(None) };
        self.program_step(&mut open, program);
        let schema = plan.schema();
        let inputs = open.columns.len();
        columns.extend(schema.fields().iter().skip(inputs).map(|f| Known::of(f.data_type(), f.is_nullable())));
        let passed: Vec<usize> = wanted.into_iter().chain(inputs..schema.fields().len()).collect();
        let schema = Arc::new(schema.project(&passed)?);
        let results = Branch { feed: Feed::Source(results), steps: vec![] };
        self.close(open, sink);
        self.add_sought();
        Ok(Some(Open { branches: vec![results], schema, columns, is_sorted: node.is_sorted, limit: None }))
    }

    /// A projection of window functions, which passes on only the columns that it needs.
    pub(super) fn projected_windows(&mut self, projection: &ProjectionExec) -> Result<Option<Open>> {
        let expressions: Vec<_> = projection.expr().iter().map(|e| e.expr.clone()).collect();
        let used = expressions.iter().flat_map(collect_columns).map(|column| column.index());
        let wanted: Vec<usize> = used.collect::<BTreeSet<usize>>().into_iter().collect();
        let Some(mut open) = self.windows(projection.input(), &wanted)? else { return Ok(None) };
        let moved = expressions.into_iter().map(|e| moved(e, &wanted)).collect::<Result<Vec<_>>>()?;
        let Some(columns) = self.project(&mut open, moved.iter())? else { return Ok(None) };
        Ok(Some(Open { columns, schema: projection.schema(), ..open }))
    }
}

/// An expression of columns of which only those that are `wanted` are left.
fn moved(e: Arc<dyn PhysicalExpr>, wanted: &[usize]) -> Result<Arc<dyn PhysicalExpr>> {
    let moved = e.transform(|part| {
        let Some(column) = part.downcast_ref::<Column>() else { return Ok(Transformed::no(part)) };
        let Ok(place) = wanted.binary_search(&column.index()) else { return internal_err!("{column} is not wanted") };
        Ok(Transformed::yes(Arc::new(Column::new(column.name(), place))))
    });
    Ok(moved?.data)
}

/// Whether a node only aggregates all rows.
fn is_of_all_rows(node: &Node<'_>) -> bool {
    let is_whole = |function| matches!(kind(function, node), Some(Kind::Aggregate(_, frame)) if frame == WHOLE);
    node.partition_by.is_empty() && node.order_by.is_empty() && node.functions.iter().all(is_whole)
}

/// The aggregates of such a node, and the program that computes the columns.
fn of_all_rows(node: &Node<'_>, mut columns: Columns<'_>) -> Result<Option<(Calls, Program)>> {
    let mut calls = Calls::default();
    for function in node.functions {
        let Some(Kind::Aggregate(function, _)) = kind(function, node) else { return Ok(None) };
        let arguments = arguments(&mut columns.compiler, &mut columns.outputs, function)?;
        let Some((inputs, known)) = arguments else { return Ok(None) };
        if !calls.add(&Arc::new(function.clone()), inputs, &known, None)? {
            return Ok(None);
        }
    }
    Ok(Some((calls, columns.compiler.program)))
}

/// What the executor is asked for, and the program that computes its columns.
fn compiled(node: &Node<'_>, mut columns: Columns<'_>, returned: usize) -> Result<Option<(Plan, Program)>> {
    let (mut keys, mut order, mut calls) = (vec![], vec![], vec![]);
    for key in &node.order_by {
        let Some(column) = columns.of(&key.expr, has_order)? else { return Ok(None) };
        order.push(sort_key(column, key));
    }
    for function in node.functions {
        let Some(call) = call(function, node, &mut columns)? else { return Ok(None) };
        calls.push(call);
    }
    // Keys that nothing else needs are not stored.
    let fields = columns.outputs.iter().map(|compiled| field(&compiled.known, false)).collect();
    for key in &node.partition_by {
        let Some(column) = columns.of(&key.expr, has_order)? else { return Ok(None) };
        let known = columns.known(column);
        let domain = KeyDomain { field: field(known, true), bounds: known.int_bounds() };
        keys.push(PartitionKey { column, domain, order: sort_key(column, key) });
    }
    let plan = Plan { keys, order, equal_by: node.equal_by, fields, returned, calls };
    Ok(Some((plan, columns.compiler.program)))
}

fn call(function: &Arc<dyn WindowExpr>, node: &Node<'_>, columns: &mut Columns<'_>) -> Result<Option<Call>> {
    let (function, frame) = match kind(function, node) {
        None => return Ok(None),
        Some(Kind::Ranking(function)) => (function, WHOLE),
        Some(Kind::Shift(value, back, default)) => {
            let Some(column) = columns.of(value, |_| true)? else { return Ok(None) };
            let default = match default {
                None => None,
                Some(default) => match columns.of(default, |_| true)? {
                    Some(place) if columns.known(place).data_type == columns.known(column).data_type => Some(place),
                    _ => return Ok(None),
                },
            };
            (Function::Shift { column, back, default }, WHOLE)
        }
        Some(Kind::Place(place, value, frame)) => {
            let Some(column) = columns.of(value, |_| true)? else { return Ok(None) };
            match place {
                Place::First => (Function::First(column), frame),
                Place::Last => (Function::Last(column), frame),
            }
        }
        Some(Kind::Aggregate(function, frame)) => {
            let arguments = arguments(&mut columns.compiler, &mut columns.outputs, function)?;
            let Some((inputs, known)) = arguments else { return Ok(None) };
            match aggregate(function, inputs.first().copied(), &known)? {
                Some(function) => (function, frame),
                None if frame == WHOLE => match whole_aggregate(function, inputs, &known)? {
                    Some(function) => (function, frame),
                    None => return Ok(None),
                },
                None => return Ok(None),
            }
        }
    };
    Ok(Some(Call { function, frame }))
}

/// An aggregate of partitions, with its arguments in these columns.
fn whole_aggregate(function: &AggregateFunctionExpr, inputs: Vec<usize>, known: &[Known]) -> Result<Option<Function>> {
    let mut calls = Calls::default();
    if !calls.add(&Arc::new(function.clone()), inputs, known, None)? {
        return Ok(None);
    }
    let call = calls.finish().0.pop();
    Ok(call.map(|call| Function::Whole { columns: call.inputs, accumulator: call.accumulator }))
}

fn aggregate(function: &AggregateFunctionExpr, column: Option<usize>, known: &[Known]) -> Result<Option<Function>> {
    if let (Some(column), Some(result)) = (column, aggregates::sum(function, known)?) {
        return Ok(Some(Function::Sum { column, result }));
    }
    Ok(match (Native::of(function, known), column) {
        (Some(Native::Count), column) => Some(Function::Count(column)),
        (Some(Native::FloatSum { averages }), Some(column)) => Some(Function::FloatSum { column, averages }),
        (Some(Native::Extreme { greatest, .. }), Some(column)) => Some(Function::Extreme { column, greatest }),
        _ => None,
    })
}
