//! Rewrites calls of aggregates and window functions for which DataFusion's results can be wrong.
//!
//! An ORDER BY inside an aggregate becomes arguments by which the aggregate sorts ([`Ordered`]), so that each aggregate
//! has its own order. DataFusion sorts the input once for all, and refuses queries whose aggregates need different
//! orders. An ORDER BY without an effect is dropped. A FILTER over window frames becomes an argument, too. Equal floats
//! that are compared (DISTINCT, PARTITION BY, ORDER BY) are given equal bits.

use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, plan_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::first_last::{first_value_udaf, last_value_udaf};
use datafusion::functions_aggregate::nth_value::nth_value_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, Cast, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    AggregateUDF, Expr, ExprSchemable, LogicalPlan, SortExpr, WindowFrame, WindowFrameBound, WindowFunctionDefinition,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;

use super::group_keys::wrap;
use crate::aggregates::{Filtered, Ordered, in_descending_order, is_collected, is_hosted, settled};
use crate::windows::{bounds_of, checked_place, filled_in_order, nothing, own_order, with_bounds};

/// Aggregates whose result depends on the order of their rows.
const ORDER_MATTERS: [&str; 8] =
    ["any_value", "array_agg", "first_value", "last_value", "lttb", "mode", "nth_value", "string_agg"];

/// The rule. It runs after type coercion.
#[derive(Debug)]
pub(crate) struct AggregateCalls;

impl AnalyzerRule for AggregateCalls {
    fn name(&self) -> &str {
        "aggregate_calls"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(in_plan)?.data)
    }
}

fn in_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !matches!(plan, LogicalPlan::Aggregate(_) | LogicalPlan::Window(_)) {
        return Ok(Transformed::no(plan));
    }
    let schema = merge_schema(&plan.inputs());
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expression| {
        let name = names.save(&expression);
        let changed = expression.transform_up(|e| match e {
            Expr::AggregateFunction(call) => aggregate(call, &schema),
            Expr::WindowFunction(call) => window(*call, &schema),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(changed.update_data(|e| name.restore(e)))
    })
}

fn aggregate(mut call: AggregateFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let mut changed = false;
    check_place(call.func.name(), &call.params.args)?;
    let types = call.params.args.iter().map(|e| e.get_type(schema)).collect::<Result<Vec<_>>>()?;
    if let Some(sum) = settled(call.func.inner().as_ref(), &types)? {
        call.func = Arc::new(AggregateUDF::new_from_shared_impl(sum));
        changed = true;
    }
    if call.params.order_by.first().is_some_and(|key| !key.asc)
        && let Some(descending) = in_descending_order(&call.func)
    {
        // DataFusion hides the ORDER BY of an aggregate to which the order of rows makes no difference.
        call.func = Arc::new(descending);
        changed = true;
    }
    if call.params.distinct {
        call.params.args.iter_mut().for_each(|argument| changed |= wrap(argument, schema));
    }
    if is_hosted(&call.func) && (call.params.distinct || !call.params.order_by.is_empty()) {
        let mut order = std::mem::take(&mut call.params.order_by);
        order.iter_mut().for_each(|key| {
            wrap(&mut key.expr, schema);
        });
        return Ok(Transformed::yes(Expr::AggregateFunction(ordered(call, order)?)));
    }
    if call.params.distinct && is_collected(&call.func) {
        let within = std::mem::take(&mut call.params.order_by);
        call = ordered(call, vec![])?;
        call.params.order_by = within;
        changed = true;
    }
    if call.params.order_by.is_empty() || call.func.supports_within_group_clause() {
        return Ok(transformed(Expr::AggregateFunction(call), changed));
    }
    let mut order = std::mem::take(&mut call.params.order_by);
    if ORDER_MATTERS.contains(&call.func.name()) {
        order.iter_mut().for_each(|key| {
            wrap(&mut key.expr, schema);
        });
        call = ordered(call, order)?;
    }
    Ok(Transformed::yes(Expr::AggregateFunction(call)))
}

/// Refuses `nth_value` of a place that no row has.
fn check_place(function: &str, args: &[Expr]) -> Result<()> {
    let Some(Expr::Literal(place, _)) = args.get(1).filter(|_| function == "nth_value") else { return Ok(()) };
    match place.cast_to(&DataType::Int64) {
        Ok(ScalarValue::Int64(Some(place))) => checked_place(place),
        _ => Ok(()),
    }
}

/// The call with its sort keys as further arguments.
fn ordered(mut call: AggregateFunction, order: Vec<SortExpr>) -> Result<AggregateFunction> {
    let distinct = std::mem::take(&mut call.params.distinct);
    call.func = with_order(call.func, &mut call.params.args, distinct, order)?;
    Ok(call)
}

/// The aggregate that takes its sort keys as further arguments.
fn with_order(
    plain: Arc<AggregateUDF>,
    args: &mut Vec<Expr>,
    distinct: bool,
    order: Vec<SortExpr>,
) -> Result<Arc<AggregateUDF>> {
    let arguments = args.len();
    let is_argument = |key: &SortExpr| args.iter().any(|argument| bare(argument) == bare(&key.expr));
    if let Some(other) = order.iter().find(|key| distinct && !is_argument(key)) {
        return plan_err!(
            "ORDER BY {} in {}(DISTINCT …) is not among its arguments, so different rows may be equal",
            other.expr.human_display(),
            plain.name()
        );
    }
    let options = order.iter().map(|key| SortOptions { descending: !key.asc, nulls_first: key.nulls_first }).collect();
    args.extend(order.into_iter().map(|key| key.expr));
    Ok(Arc::new(AggregateUDF::from(Ordered::new(plain, arguments, options, distinct))))
}

/// The expression without surrounding casts.
fn bare(e: &Expr) -> &Expr {
    match e {
        Expr::Cast(Cast { expr, .. }) => bare(expr),
        other => other,
    }
}

/// An aggregate over a window whose own ORDER BY matters takes its sort keys as further arguments, and `fill` always does.
fn in_own_order(call: &mut WindowFunction, schema: &DFSchema) -> Result<bool> {
    let mut order = own_order(&mut call.params.partition_by);
    if order.is_empty() || call.fun.name() == "fill" {
        return filled_in_order(call, order);
    }
    order.iter_mut().for_each(|key| {
        wrap(&mut key.expr, schema);
    });
    check_place(call.fun.name(), &call.params.args)?;
    let plain = match &call.fun {
        WindowFunctionDefinition::AggregateUDF(plain) => plain.clone(),
        WindowFunctionDefinition::WindowUDF(function) => match function.name() {
            "first_value" => first_value_udaf(),
            "last_value" => last_value_udaf(),
            "nth_value" => nth_value_udaf(),
            other => return plan_err!("ORDER BY within {other}(…) OVER (…) is not available: it is no aggregate"),
        },
    };
    if ORDER_MATTERS.contains(&plain.name()) {
        let distinct = std::mem::take(&mut call.params.distinct);
        call.fun = WindowFunctionDefinition::AggregateUDF(with_order(plain, &mut call.params.args, distinct, order)?);
    }
    Ok(true)
}

fn window(mut call: WindowFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let bounds = bounds_of(&mut call.params.partition_by);
    let mut changed = in_own_order(&mut call, schema)? | bounds.is_some();
    let params = &mut call.params;
    let keys = params.partition_by.iter_mut().chain(params.order_by.iter_mut().map(|key| &mut key.expr));
    keys.for_each(|key| changed |= wrap(key, schema));
    if params.distinct {
        params.args.iter_mut().for_each(|argument| changed |= wrap(argument, schema));
        if let WindowFunctionDefinition::AggregateUDF(plain) = &call.fun
            && is_collected(plain)
        {
            // Its accumulators take all rows for different ones.
            let function = with_order(plain.clone(), &mut params.args, true, vec![])?;
            call.fun = WindowFunctionDefinition::AggregateUDF(function);
            params.distinct = false;
            changed = true;
        }
    }
    if holds_nothing(&params.window_frame) {
        params.window_frame = nothing(params.window_frame.units);
        changed = true;
    }
    if let WindowFunctionDefinition::AggregateUDF(plain) = &call.fun
        && let Some(filter) = params.filter.take()
    {
        params.args.push(*filter);
        call.fun = WindowFunctionDefinition::AggregateUDF(Arc::new(AggregateUDF::from(Filtered::new(plain.clone()))));
        changed = true;
    }
    if let Some((bounds, values)) = bounds {
        with_bounds(&mut call, bounds, values)?;
    }
    Ok(transformed(Expr::WindowFunction(Box::new(call)), changed))
}

/// Whether a frame ends before it begins, so that it has no rows.
fn holds_nothing(frame: &WindowFrame) -> bool {
    match (&frame.start_bound, &frame.end_bound) {
        (WindowFrameBound::Preceding(start), WindowFrameBound::Preceding(end)) => !start.is_null() && start < end,
        (WindowFrameBound::Following(start), WindowFrameBound::Following(end)) => !end.is_null() && start > end,
        _ => false,
    }
}

fn transformed(e: Expr, changed: bool) -> Transformed<Expr> {
    if changed { Transformed::yes(e) } else { Transformed::no(e) }
}
