//! Fusion: the parts of a physical plan that the executor knows become one node each, which runs them as pipelines.
//!
//! It is the last rule of a run. The plan before it is what is cached and explained; a fused node has it as its child.
//! What the executor does not know stays DataFusion's, below a fused node as one of its inputs, or above it.

mod aggregates;
mod compiler;
mod exec;
mod expressions;
mod foreign;
mod inputs;
mod joins;
mod output;

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::settings::preserves_insertion_order;
use compiler::Compiler;
pub(crate) use exec::PipelineExec;

/// The rule.
#[derive(Debug)]
pub(crate) struct Fusion;

impl PhysicalOptimizerRule for Fusion {
    fn name(&self) -> &str {
        "Fusion"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, options: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        fused(&plan, options, preserves_insertion_order(options))
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan with its largest known parts fused. `in_order`: whether the order of its rows matters.
fn fused(plan: &Arc<dyn ExecutionPlan>, options: &ConfigOptions, in_order: bool) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(query) = Compiler::new(options).compile(plan, in_order)? {
        let inputs = query.inputs.iter().map(|input| fused(input, options, false)).collect::<Result<Vec<_>>>()?;
        return with_partitioning(Arc::new(PipelineExec::new(plan.clone(), query, inputs)), plan);
    }
    let children = plan.children();
    if children.is_empty() {
        return Ok(plan.clone());
    }
    let keeps = plan.maintains_input_order();
    let children = children
        .into_iter()
        .enumerate()
        .map(|(at, child)| {
            let matters = in_order && (keeps.get(at) == Some(&true) || plan.is::<CoalescePartitionsExec>());
            fused(child, options, matters)
        })
        .collect::<Result<Vec<_>>>()?;
    if children.iter().zip(plan.children()).all(|(new, old)| Arc::ptr_eq(new, old)) {
        return Ok(plan.clone());
    }
    plan.clone().replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// A node above may rely on rows with equal keys being in one partition.
fn with_partitioning(fused: Arc<PipelineExec>, replaced: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    match replaced.output_partitioning() {
        Partitioning::Hash(keys, partitions) if *partitions > 1 => {
            let by = Partitioning::Hash(keys.clone(), *partitions);
            Ok(Arc::new(RepartitionExec::try_new(fused, by)?))
        }
        _ => Ok(fused),
    }
}
