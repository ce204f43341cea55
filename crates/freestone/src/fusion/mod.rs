//! Fusion: the parts of a physical plan that the executor knows become one node each, which runs them as pipelines.
//!
//! It is the last rule of a run. The plan before it is what is cached and explained; a fused node has it as its child.
//! What the executor does not know stays DataFusion's, below a fused node as one of its inputs, or above it.

mod aggregates;
mod compiler;
mod distinct_counts;
mod exec;
mod expressions;
mod first_rows;
mod foreign;
mod functions;
mod inputs;
mod joins;
mod meters;
mod output;
mod recursion;
mod sorts;
mod tabulated;
mod unnest;
mod windows;

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::UnKnownColumn;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::recursion::{KeyedRecursionExec, RecursionExec};
use crate::settings::preserves_insertion_order;
use crate::shared::SharedQueriesExec;
use crate::spilling::with_few_partitions;
pub(crate) use aggregates::is_known as ignores_order;
use compiler::Compiler;
pub(crate) use compiler::exchanged;
pub(crate) use exec::PipelineExec;

/// The rule.
#[derive(Debug, Default)]
pub(crate) struct Fusion {
    /// Whether the rows and the time of each node are counted.
    pub measures: bool,
}

impl PhysicalOptimizerRule for Fusion {
    fn name(&self) -> &str {
        "Fusion"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, options: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let in_order = preserves_insertion_order(options);
        fused(&plan, options, self.measures, Expected { in_order, sorted: false })
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What a node above expects of the rows of a plan.
#[derive(Debug, Clone, Copy)]
struct Expected {
    /// The order in which they come, where no order is asked for.
    in_order: bool,
    /// An order that was asked for.
    sorted: bool,
}

/// The plan with its largest known parts fused.
fn fused(
    plan: &Arc<dyn ExecutionPlan>,
    options: &ConfigOptions,
    measures: bool,
    expected: Expected,
) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(query) = Compiler::new(options, measures).compile(plan, expected.in_order, expected.sorted)? {
        let of_input = Expected { in_order: false, sorted: false };
        let inputs =
            query.inputs.iter().map(|input| fused(input, options, measures, of_input)).collect::<Result<Vec<_>>>()?;
        let order = query.order.clone();
        let fused = with_partitioning(Arc::new(PipelineExec::new(plan.clone(), query, inputs)), plan)?;
        return Ok(match order {
            Some(order) => Arc::new(SortExec::new(order, fused).with_preserve_partitioning(true)),
            None => fused,
        });
    }
    let children = plan.children();
    // A recursive query runs its step again and again, and a fused node runs once.
    if children.is_empty() || plan.is::<RecursionExec>() || plan.is::<KeyedRecursionExec>() {
        return Ok(plan.clone());
    }
    let (keeps, required) = (plan.maintains_input_order(), plan.required_input_ordering());
    let shared = plan.downcast_ref::<SharedQueriesExec>().map(SharedQueriesExec::read_in_order).unwrap_or_default();
    // Rows pass these in the order in which they come.
    let passes = plan.is::<CoalescePartitionsExec>() || plan.is::<UnionExec>();
    let children = children
        .into_iter()
        .enumerate()
        .map(|(at, child)| {
            let is_kept = keeps.get(at) == Some(&true);
            let in_order = expected.in_order && (is_kept || passes || shared.contains(&at));
            let is_required = required.get(at).is_some_and(Option::is_some);
            // A union does not say that it keeps an order of values that its partitions have.
            let sorted = is_required || expected.sorted && (is_kept || plan.is::<UnionExec>());
            fused(child, options, measures, Expected { in_order, sorted })
        })
        .collect::<Result<Vec<_>>>()?;
    if children.iter().zip(plan.children()).all(|(new, old)| Arc::ptr_eq(new, old)) {
        return with_few_partitions(plan.clone());
    }
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    with_few_partitions(plan.clone().replace_children(children, options)?)
}

/// Whether a node above may rely on rows with equal keys being in one partition of several: on none of a key that is no column any
/// more.
pub(crate) fn is_by_hash(partitioning: &Partitioning) -> bool {
    matches!(partitioning, Partitioning::Hash(keys, partitions) if *partitions > 1 && !keys.iter().any(is_unknown))
}

fn is_unknown(key: &Arc<dyn PhysicalExpr>) -> bool {
    key.exists(|part| Ok(part.is::<UnKnownColumn>())).unwrap_or(true)
}

/// A fused part with the partitions of the one that it replaces.
fn with_partitioning(fused: Arc<PipelineExec>, replaced: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    match replaced.output_partitioning() {
        by if is_by_hash(by) => Ok(Arc::new(RepartitionExec::try_new(fused, by.clone())?)),
        _ => Ok(fused),
    }
}
