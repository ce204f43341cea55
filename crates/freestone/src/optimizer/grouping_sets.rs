//! Grouping sets, ROLLUP and CUBE return rows in which keys are NULL. DataFusion's aggregation still claims the
//! properties of its input for its output: constant keys, the order and partitioning of rows, unique keys. So sorts are
//! dropped, and with one thread groups are returned twice. Here, an operator without known properties is inserted on
//! both sides of such an aggregation.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use crate::unordered::unordered;

type Plan = Arc<dyn ExecutionPlan>;

/// Puts an [`UnorderedExec`](crate::unordered::UnorderedExec) below and above each aggregation with grouping sets. Applied before
/// rules that look at orders.
#[derive(Debug)]
pub(crate) struct GroupingSets;

impl PhysicalOptimizerRule for GroupingSets {
    fn name(&self) -> &str {
        "GroupingSets"
    }

    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        let changed = plan.transform_up(|node| {
            // The second of two aggregations groups by the columns of the first, one of which tells the sets apart.
            let has_sets = |plan: &Plan| {
                let aggregate = plan.downcast_ref::<AggregateExec>();
                aggregate.is_some_and(|aggregate| aggregate.group_expr().has_grouping_set())
            };
            if !has_sets(&node) {
                return Ok(Transformed::no(node));
            }
            let sets =
                node.downcast_ref::<AggregateExec>().map_or(1, |aggregate| aggregate.group_expr().groups().len());
            let rows = (ROWS_TIMES_SETS / sets.max(1)).max(ROWS_MIN);
            let children: Vec<Plan> = node.children().into_iter().map(|child| unordered(child, rows)).collect();
            let node = replace_children_if_necessary(node, children)?;
            Ok(Transformed::yes(unordered(&node, usize::MAX)))
        })?;
        Ok(changed.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// An aggregation groups each row once per set before it lets others run: rows times sets are at most this many at a time.
const ROWS_TIMES_SETS: usize = 1 << 18;
/// Batches are not cut into fewer rows.
const ROWS_MIN: usize = 64;
