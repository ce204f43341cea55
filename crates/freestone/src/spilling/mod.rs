//! Operators for more rows than memory holds.
//!
//! DataFusion's window functions keep all rows of their input, and do not count them: a [`DividedWindowsExec`] holds a few
//! partitions at a time, or near rows of one where frames need no others.
//!
//! A hash join of DataFusion keeps all rows of one side in memory, and fails where there is too little. For a run after the
//! executor's own operators had too little memory, it is replaced: a [`DividedJoinExec`] writes the rows of both sides to files
//! by the hashes of their keys and joins file by file: the GRACE hash join of Kitsuregawa et al. as Shapiro describes it ("Join
//! processing in database systems with large main memories", 1986).

pub(crate) mod files;
mod joins;
mod parts;
mod windows;

#[cfg(test)]
mod join_tests;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::WindowAggExec;

use crate::fusion::is_by_hash;
use joins::DividedJoinExec;
use windows::DividedWindowsExec;

/// A plan whose joins and window functions do not have to fit in memory. It returns the same rows, and those of nodes that were in an
/// order are in that order.
///
/// # Errors
/// The plan is not valid.
pub(crate) fn divided(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        if let Some(join) = node.downcast_ref::<HashJoinExec>().filter(|join| is_divisible(join)) {
            return in_its_place(join).map(Transformed::yes);
        }
        let is_window = node.is::<WindowAggExec>();
        Ok(Transformed::new_transformed(with_few_partitions(node)?, is_window))
    })
    .data()
}

/// A node that holds a few partitions at a time, if it computes window functions.
///
/// # Errors
/// The node is not valid.
pub(crate) fn with_few_partitions(node: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    match node.downcast_ref::<WindowAggExec>() {
        Some(window) => Ok(Arc::new(DividedWindowsExec::new(window)?)),
        None => Ok(node),
    }
}

/// Whether rows with other keys have no say in what becomes of a row: with NOT IN, a NULL has.
fn is_divisible(join: &HashJoinExec) -> bool {
    !join.null_aware && join.fetch().is_none() && !join.on().is_empty()
}

/// A join whose rows have the order and the partitions that those of the hash join have.
fn in_its_place(join: &HashJoinExec) -> Result<Arc<dyn ExecutionPlan>> {
    let properties = join.properties();
    let partitions = properties.output_partitioning().partition_count();
    let mut plan: Arc<dyn ExecutionPlan> = Arc::new(DividedJoinExec::new(join, partitions)?);
    if is_by_hash(properties.output_partitioning()) {
        plan = Arc::new(RepartitionExec::try_new(plan, properties.output_partitioning().clone())?);
    }
    if let Some(order) = properties.output_ordering() {
        plan = Arc::new(SortExec::new(order.clone(), plan).with_preserve_partitioning(partitions > 1));
    }
    Ok(plan)
}

/// Whether a run failed because there was too little memory.
pub(crate) fn is_out_of_memory(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}

/// The rows of all partitions of a plan, in one.
fn in_one(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match plan.properties().output_partitioning().partition_count() {
        1 => plan,
        _ => Arc::new(CoalescePartitionsExec::new(plan)),
    }
}
