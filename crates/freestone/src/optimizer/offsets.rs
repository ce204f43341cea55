//! `ORDER BY … OFFSET n` without LIMIT, and numbers of rows that a subquery sorts: values depend on the order.
//!
//! DataFusion takes a sort for superfluous if nothing above it needs an order and the sort itself has no limit, as in
//! `SELECT sum(a) FROM (SELECT a FROM t ORDER BY b OFFSET 5)`, or with `row_number() OVER ()` in place of the offset. So such a sort
//! gets a limit that no rows reach, also in a shared query such as `WITH t AS MATERIALIZED (SELECT … ORDER BY b)`, until [`LargeFetch`](super::large_fetch::LargeFetch) takes it away.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::window::{StandardWindowExpr, WindowExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use super::in_order::leads_to_parts;
use crate::shared::SharedQueriesExec;
use crate::windows::WindowNode;

/// The limit of a sort that has none.
pub(super) const NO_LIMIT: usize = usize::MAX;

#[derive(Debug)]
pub(crate) struct Offsets;

impl PhysicalOptimizerRule for Offsets {
    fn name(&self) -> &str {
        "Offsets"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| {
            if node.is::<SharedQueriesExec>() {
                return shared_in_order(node);
            }
            match needed_order(&node).map(kept).transpose()?.flatten() {
                Some(input) => Ok(Transformed::yes(replace_children_if_necessary(node, vec![input])?)),
                None => Ok(Transformed::no(node)),
            }
        })?;
        Ok(changed.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The input of a node whose rows or values depend on the order of its input, though it does not say so.
fn needed_order(node: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    if let Some(limit) = node.downcast_ref::<GlobalLimitExec>() {
        return Some(limit.input()).filter(|_| limit.skip() > 0 && limit.fetch().is_none());
    }
    let WindowNode { functions, input, .. } = WindowNode::of(node)?;
    functions.iter().any(counts_rows).then_some(input)
}

/// Shared queries whose sorts stay if the result, or a LIMIT, has their rows as they come. The first child reads them.
fn shared_in_order(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let children = node.children();
    let is_read_in_order =
        |plan: &Arc<dyn ExecutionPlan>| plan.exists(|part| Ok(part.is::<GlobalLimitExec>() && leads_to_parts(part)));
    let mut is_needed = children.first().is_some_and(|main| leads_to_parts(main));
    for child in &children {
        is_needed |= is_read_in_order(child)?;
    }
    if !is_needed {
        return Ok(Transformed::no(node));
    }
    let mut inputs = vec![];
    for (at, child) in children.into_iter().enumerate() {
        let sorted = if at > 0 { kept(child)? } else { None };
        inputs.push(sorted.unwrap_or_else(|| child.clone()));
    }
    Ok(Transformed::yes(replace_children_if_necessary(node, inputs)?))
}

/// Whether a window function depends on the order of all rows, and does not say which that is.
fn counts_rows(function: &Arc<dyn WindowExpr>) -> bool {
    let frame = function.get_window_frame();
    let is_whole = frame.start_bound.is_unbounded() && frame.end_bound.is_unbounded();
    let is_function = function.as_any().is::<StandardWindowExpr>();
    function.partition_by().is_empty() && function.order_by().is_empty() && (is_function || !is_whole)
}

/// The plan with a sort that is not taken for superfluous.
fn kept(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(sort) = plan.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_none()) {
        return Ok(Some(Arc::new(sort.with_fetch(Some(NO_LIMIT)))));
    }
    let Some(projection) = plan.downcast_ref::<ProjectionExec>() else { return Ok(None) };
    let Some(input) = kept(projection.input())? else { return Ok(None) };
    Ok(Some(replace_children_if_necessary(plan.clone(), vec![input])?))
}
