//! Window functions for which DataFusion's results can be wrong: aggregates and first, last and n-th values over any
//! frame, and LEAD and LAG with IGNORE NULLS or with offsets that are not constants.
//!
//! A rule replaces them by functions that are evaluated per partition, over the frames that [`frames`] computes. If a
//! frame begins with the partition and ends with the current row or the partition, DataFusion's aggregates are correct,
//! and do not need a whole partition in memory.

mod computed;
mod exclusion;
mod fill;
mod frame_functions;
mod frames;
mod nth;
mod ordered;
mod shift;

use std::any::Any;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits, WindowUDF};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, StandardWindowFunctionExpr, WindowExpr,
};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec, WindowUDFExpr};
use datafusion::scalar::ScalarValue;

use crate::growth::is_small;
pub(crate) use computed::{bounds_of, bounds_of_aggregate, function as frame_bounds, with_bounds};
pub(crate) use exclusion::Exclusion;
pub(crate) use fill::in_order_of as filled_in_order;
use frame_functions::{Framed, Function, is_moving};
pub(crate) use frames::nothing;
pub(crate) use nth::checked_place;
pub(crate) use ordered::{function as ordered_by, keys as own_order};

/// The functions, which replace those with the same names.
pub(crate) fn functions() -> Vec<Arc<WindowUDF>> {
    let of_frames = [nth::Nth::first(), nth::Nth::last(), nth::Nth::counted()].map(WindowUDF::from);
    let shifts = [shift::Shift::lead(), shift::Shift::lag()].map(WindowUDF::from);
    let fill = WindowUDF::from(fill::Fill::new());
    of_frames.into_iter().chain(shifts).chain([fill]).map(Arc::new).collect()
}

/// A value of a frame that does not depend on the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    First,
    Last,
}

/// The place of the value that a function takes from a frame; `None` for other functions and with IGNORE NULLS.
pub(crate) fn place_of(function: &WindowUDFExpr) -> Option<Place> {
    let inner: &dyn Any = function.fun().inner().as_ref();
    inner.downcast_ref::<nth::Nth>().filter(|_| !ignores_nulls(function))?.place()
}

/// The rows that the value of LAG or LEAD is before the current one, and its default; `None` for other functions, offsets that
/// are not constant, and IGNORE NULLS.
pub(crate) fn shift_of(function: &WindowUDFExpr) -> Option<(i64, Option<&Arc<dyn PhysicalExpr>>)> {
    let inner: &dyn Any = function.fun().inner().as_ref();
    let shift = inner.downcast_ref::<shift::Shift>().filter(|_| !ignores_nulls(function))?;
    let is_null =
        |e: &&Arc<dyn PhysicalExpr>| e.downcast_ref::<Literal>().is_some_and(|literal| literal.value().is_null());
    Some((shift.constant_offset(function.args())?, function.args().get(2).filter(|default| !is_null(default))))
}

/// The rows before and behind a row of which a window function needs values; `None` where this depends on values, or all rows of
/// the partition count.
pub(crate) fn reach_of(function: &dyn WindowExpr) -> Option<(usize, usize)> {
    let standard =
        function.as_any().downcast_ref::<StandardWindowExpr>().map(StandardWindowExpr::get_standard_func_expr);
    let shifted = standard.and_then(|standard| standard.as_any().downcast_ref::<WindowUDFExpr>()).and_then(shift_of);
    if let Some((back, _)) = shifted {
        let rows = usize::try_from(back.unsigned_abs()).ok()?;
        return Some(if back < 0 { (0, rows) } else { (rows, 0) });
    }
    let frame = function.get_window_frame();
    let framed = standard.map(|standard| standard.as_any().downcast_ref::<Framed>());
    let is_of_frames = framed.is_none_or(|framed| framed.is_some_and(|framed| framed.bounds().is_none()));
    if !is_of_frames || frame.units != WindowFrameUnits::Rows {
        return None;
    }
    let before = match &frame.start_bound {
        WindowFrameBound::Preceding(rows) => number_of(rows)?,
        WindowFrameBound::CurrentRow | WindowFrameBound::Following(_) => 0,
    };
    let behind = match &frame.end_bound {
        WindowFrameBound::Following(rows) => number_of(rows)?,
        WindowFrameBound::CurrentRow | WindowFrameBound::Preceding(_) => 0,
    };
    Some((before, behind))
}

/// The number of rows in a bound of a frame; `None` if there is none.
fn number_of(rows: &ScalarValue) -> Option<usize> {
    match rows {
        ScalarValue::UInt64(Some(rows)) => usize::try_from(*rows).ok(),
        _ => None,
    }
}

/// DataFusion shows it only in this form. A constant that looks like it is taken for it, which does no harm.
fn ignores_nulls(function: &WindowUDFExpr) -> bool {
    format!("{function:?}").contains("ignore_nulls: true")
}

/// The function that one of ours computes over frames: an aggregate, or another one.
pub(crate) fn function_of_frames(
    function: &Arc<dyn StandardWindowFunctionExpr>,
) -> (Option<&AggregateFunctionExpr>, &Arc<dyn StandardWindowFunctionExpr>) {
    match function.as_any().downcast_ref::<Framed>().map(Framed::function) {
        None => (None, function),
        Some(Function::Aggregate(aggregate)) => (Some(aggregate), function),
        Some(Function::Standard(standard)) => (None, standard),
    }
}

/// Whether the frames of a window leave out rows around the current one.
pub(crate) fn is_excluding(window: &dyn WindowExpr) -> bool {
    Exclusion::of(window).is_some()
}

/// The rule that replaces window functions. It runs before rules that use orders.
#[derive(Debug)]
pub(crate) struct WindowFrames;

impl PhysicalOptimizerRule for WindowFrames {
    fn name(&self) -> &str {
        "WindowFrames"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| match in_our_form(&node)? {
            Some(changed) => Ok(Transformed::yes(changed)),
            None => Ok(Transformed::no(node)),
        })?;
        Ok(changed.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A node of window functions.
pub(crate) struct WindowNode<'a> {
    pub functions: &'a [Arc<dyn WindowExpr>],
    /// By which its rows may be divided among threads.
    keys: Vec<Arc<dyn PhysicalExpr>>,
    pub input: &'a Arc<dyn ExecutionPlan>,
}

impl WindowNode<'_> {
    /// A node as one of window functions; `None` if it is none.
    pub fn of(node: &Arc<dyn ExecutionPlan>) -> Option<WindowNode<'_>> {
        let (functions, keys, input) = if let Some(window) = node.downcast_ref::<BoundedWindowAggExec>() {
            (window.window_expr(), window.partition_keys(), window.input())
        } else {
            let window = node.downcast_ref::<WindowAggExec>()?;
            (window.window_expr(), window.partition_keys(), window.input())
        };
        Some(WindowNode { functions, keys, input })
    }
}

/// The node with our functions; `None` if it remains unchanged.
fn in_our_form(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(WindowNode { functions, keys, input }) = WindowNode::of(node) else { return Ok(None) };
    let changed = functions.iter().map(framed).collect::<Result<Vec<_>>>()?;
    if changed.iter().all(Option::is_none) {
        return Ok(None);
    }
    let all = functions.iter().zip(changed).map(|(plain, changed)| changed.unwrap_or_else(|| plain.clone()));
    Ok(Some(Arc::new(WindowAggExec::try_new(all.collect(), input.clone(), !keys.is_empty())?)))
}

/// Our function; `None` if the function remains unchanged.
fn framed(plain: &Arc<dyn WindowExpr>) -> Result<Option<Arc<dyn WindowExpr>>> {
    let any = plain.as_any();
    let aggregate = if let Some(growing) = any.downcast_ref::<PlainAggregateWindowExpr>() {
        Some(growing.get_aggregate_expr())
    } else {
        any.downcast_ref::<SlidingAggregateWindowExpr>().map(SlidingAggregateWindowExpr::get_aggregate_expr)
    };
    let function = if let Some(aggregate) = aggregate {
        let is_plain = bounds_of_aggregate(aggregate).is_none() && Exclusion::of(plain.as_ref()).is_none();
        if is_plain && stays(aggregate, plain.get_window_frame()) {
            return Ok(None);
        }
        Function::Aggregate(Arc::new(aggregate.clone()))
    } else if let Some(standard) = any.downcast_ref::<StandardWindowExpr>() {
        let function = standard.get_standard_func_expr();
        if !function.create_evaluator()?.uses_window_frame() {
            return Ok(None);
        }
        Function::Standard(function.clone())
    } else {
        return Ok(None);
    };
    Framed::in_place_of(plain.as_ref(), function).map(Some)
}

/// Whether DataFusion's aggregate over a frame is correct: rows are only added, up to the current one or to the end. It does not
/// count what it makes of texts, each of which can be long.
fn stays(aggregate: &AggregateFunctionExpr, frame: &WindowFrame) -> bool {
    let ends_here = frame.end_bound == WindowFrameBound::CurrentRow && frame.units != WindowFrameUnits::Groups;
    let begins = frame.start_bound.is_unbounded();
    is_small(aggregate.field().data_type())
        && begins
        && (ends_here || frame.end_bound.is_unbounded())
        && is_moving(aggregate)
}
