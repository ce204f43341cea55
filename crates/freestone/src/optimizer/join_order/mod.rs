//! The order of inner joins, by the rows that they are expected to give.
//!
//! DataFusion joins relations in the order of the FROM clause. This rule takes each tree of inner and cross joins apart
//! ([`graph`]), estimates the rows of its relations and of their joins ([`estimates`]), and looks for the cheapest tree
//! ([`search`]). It is applied before all other physical rules, so these choose sides, filters and partitions for the
//! tree that it leaves. The written order stays unless another one is much cheaper: estimates are not exact.

mod build;
mod estimates;
mod graph;
mod search;

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use crate::fusion::{PipelineExec, exchanged};
use estimates::Estimates;
use graph::Graph;

/// The rule.
#[derive(Debug)]
pub(super) struct JoinOrder;

/// Another order must cost at most this share of the written one.
const GAIN: f64 = 0.85;

impl PhysicalOptimizerRule for JoinOrder {
    fn name(&self) -> &str {
        "JoinOrder"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        ordered(plan, false)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The rows that an inner join is expected to give; `None` for other nodes.
///
/// # Errors
/// Statistics cannot be read.
pub(crate) fn expected_rows(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<f64>> {
    if !graph::is_join(plan) {
        return Ok(None);
    }
    let bare = plan.clone().transform_down(|node| {
        let mut bare = &node;
        while let Some(within) =
            exchanged(bare).or_else(|| bare.downcast_ref::<PipelineExec>().map(PipelineExec::planned))
        {
            bare = within;
        }
        let changed = if Arc::ptr_eq(bare, &node) { None } else { Some(bare.clone()) };
        Ok(changed.map_or_else(|| Transformed::no(node), Transformed::yes))
    })?;
    let Some(graph) = Graph::of(&bare.data)? else { return Ok(None) };
    let estimates = Estimates::of(&graph)?;
    Ok(Some(search::rows(&graph, &estimates, &graph.written)))
}

/// The plan with its joins in a better order. `is_part`: it is a part of a tree of joins that stays as it is.
fn ordered(plan: Arc<dyn ExecutionPlan>, is_part: bool) -> Result<Arc<dyn ExecutionPlan>> {
    let is_tree = graph::is_join(&plan);
    if is_tree
        && !is_part
        && let Some(mut graph) = Graph::of(&plan)?
        && let Some(better) = better(&graph)?
    {
        let relations = std::mem::take(&mut graph.relations).into_iter();
        graph.relations = relations.map(|relation| ordered(relation, false)).collect::<Result<_>>()?;
        return build::plan(&graph, &better, &plan);
    }
    let stays = is_tree || is_part && graph::columns_of(&plan).is_some();
    let children = plan.children().into_iter().cloned().map(|child| ordered(child, stays));
    let children = children.collect::<Result<Vec<_>>>()?;
    replace_children_if_necessary(plan, children)
}

/// A tree that costs much less than the written one.
fn better(graph: &Graph) -> Result<Option<search::Tree>> {
    if graph.relations.len() < 3 {
        return Ok(None);
    }
    let estimates = Estimates::of(graph)?;
    let cost = |tree: &search::Tree| search::cost(graph, &estimates, tree);
    let found = search::cheapest(graph, &estimates);
    Ok(found.filter(|found| cost(found) < cost(&graph.written) * GAIN))
}
