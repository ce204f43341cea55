//! The stages of a plan: the parts whose rows are the union of those that several processes have, if each reads some parts
//! of one table.
//!
//! A stage begins with a partial aggregation, or with the first rows of an order. Below it are only operators that a worker
//! may run, over native tables. One scan is divided: one whose rows reach the top of the stage through operators that treat
//! each row by itself, such as filters, and through joins that keep its rows. The other scans are read by every worker.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::fusion::ignores_order;
use crate::internal_names::is_temporary;
use crate::provider::{FreestoneSource, ScanAggregateExec};

/// A part of a plan that several processes can run together.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    /// The number of its first operator, counted from the root of the plan, inputs after their operators.
    pub number: usize,
    pub plan: Arc<dyn ExecutionPlan>,
    /// The scans that may be divided, by their numbers from left to right.
    pub divisible: Vec<usize>,
}

/// The stages of a plan.
///
/// # Errors
/// The operators of the plan cannot be visited.
pub(crate) fn stages(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<Stage>> {
    let (mut next, mut found) = (0, vec![]);
    visit(plan, None, &mut next, &mut found)?;
    Ok(found)
}

/// All of a plan as a stage, if its rows are made one by one of those of a scan that may be divided.
///
/// # Errors
/// The operators of the plan cannot be visited.
pub(crate) fn whole(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Stage>> {
    if !may_be_sent(plan)? {
        return Ok(None);
    }
    let (mut next, mut divisible) = (0, vec![]);
    reaching(plan, true, &mut next, &mut divisible);
    Ok((!divisible.is_empty()).then(|| Stage { number: 0, plan: plan.clone(), divisible }))
}

fn visit(
    plan: &Arc<dyn ExecutionPlan>,
    parent: Option<&Arc<dyn ExecutionPlan>>,
    next: &mut usize,
    found: &mut Vec<Stage>,
) -> Result<()> {
    let number = *next;
    if let Some(divisible) = divisible(plan, parent)? {
        found.push(Stage { number, plan: plan.clone(), divisible });
        *next += nodes(plan);
        return Ok(());
    }
    *next += 1;
    plan.children().into_iter().try_for_each(|child| visit(child, Some(plan), next, found))
}

fn nodes(plan: &Arc<dyn ExecutionPlan>) -> usize {
    1 + plan.children().into_iter().map(nodes).sum::<usize>()
}

/// The plan with stages replaced, by the numbers of their first operators.
///
/// # Errors
/// An operator does not take its new input.
pub(crate) fn with_stages(
    plan: &Arc<dyn ExecutionPlan>,
    replaced: &[(usize, Arc<dyn ExecutionPlan>)],
) -> Result<Arc<dyn ExecutionPlan>> {
    fn rebuilt(
        plan: &Arc<dyn ExecutionPlan>,
        replaced: &[(usize, Arc<dyn ExecutionPlan>)],
        next: &mut usize,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some((_, new)) = replaced.iter().find(|(number, _)| number == next) {
            *next += nodes(plan);
            return Ok(new.clone());
        }
        *next += 1;
        let children = plan.children().into_iter().map(|child| rebuilt(child, replaced, next));
        let children = children.collect::<Result<Vec<_>>>()?;
        if children.iter().zip(plan.children()).all(|(new, old)| Arc::ptr_eq(new, old)) {
            return Ok(plan.clone());
        }
        plan.clone().replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }
    rebuilt(plan, replaced, &mut 0)
}

/// The scans that may be divided if a stage begins with this operator; `None` if none does.
fn divisible(plan: &Arc<dyn ExecutionPlan>, parent: Option<&Arc<dyn ExecutionPlan>>) -> Result<Option<Vec<usize>>> {
    if !(unites(plan) && takes_any_order(plan, parent) && may_be_sent(plan)?) {
        return Ok(None);
    }
    let [input] = plan.children()[..] else { return Ok(None) };
    let (mut next, mut found) = (0, vec![]);
    reaching(input, true, &mut next, &mut found);
    Ok((!found.is_empty()).then_some(found))
}

/// Whether what this operator gives for all rows can be made of what it gives for parts of them.
fn unites(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return *aggregate.mode() == AggregateMode::Partial && aggregate.aggr_expr().iter().all(ignores_order);
    }
    plan.is::<ScanAggregateExec>() || plan.downcast_ref::<SortExec>().is_some_and(|sort| sort.fetch().is_some())
}

/// Whether the operator above takes the rows of any thread in any order.
fn takes_any_order(plan: &Arc<dyn ExecutionPlan>, parent: Option<&Arc<dyn ExecutionPlan>>) -> bool {
    if plan.is::<SortExec>() {
        // It is repeated above the rows of all workers.
        return true;
    }
    let is_one = plan.output_partitioning().partition_count() == 1;
    let is_exchange = parent.is_some_and(|parent| {
        let repartition = parent.downcast_ref::<RepartitionExec>();
        parent.is::<CoalescePartitionsExec>() || repartition.is_some_and(|by| !by.preserve_order())
    });
    let is_whole = parent
        .and_then(|parent| parent.downcast_ref::<AggregateExec>())
        .is_some_and(|above| is_one && *above.mode() == AggregateMode::Final);
    plan.output_ordering().is_none() && (is_exchange || is_whole)
}

/// Whether a worker may run all operators of a plan.
fn may_be_sent(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut may = true;
    plan.apply(|node| {
        may &= match FreestoneSource::of(node) {
            Some(source) => !source.is_past() && !is_temporary(&source.table().name),
            None => is_allowed(node),
        };
        // Their values are computed by an operator above.
        node.apply_expressions(&mut |expression| {
            may &= !expression.exists(|part| Ok(part.is::<ScalarSubqueryExpr>()))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if may { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(may)
}

/// The operators that a worker runs, apart from scans of native tables.
fn is_allowed(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.is::<AggregateExec>()
        || node.is::<BoundedWindowAggExec>()
        || node.is::<CoalescePartitionsExec>()
        || node.is::<CooperativeExec>()
        || node.is::<CrossJoinExec>()
        || node.is::<EmptyExec>()
        || node.is::<FilterExec>()
        || node.is::<GlobalLimitExec>()
        || node.is::<HashJoinExec>()
        || node.is::<LocalLimitExec>()
        || node.is::<NestedLoopJoinExec>()
        || node.is::<PlaceholderRowExec>()
        || node.is::<ProjectionExec>()
        || node.is::<RepartitionExec>()
        || node.is::<ScanAggregateExec>()
        || node.is::<SortExec>()
        || node.is::<SortPreservingMergeExec>()
        || node.is::<UnionExec>()
        || node.is::<WindowAggExec>()
}

/// Finds the scans whose rows `plan` passes on one by one. `reaches`: whether its own rows reach the top like that.
fn reaching(plan: &Arc<dyn ExecutionPlan>, reaches: bool, next: &mut usize, found: &mut Vec<usize>) {
    if let Some(source) = FreestoneSource::of(plan) {
        if reaches && source.is_divisible() {
            found.push(*next);
        }
        *next += 1;
        return;
    }
    let passes = passes_on(plan);
    for (at, child) in plan.children().into_iter().enumerate() {
        reaching(child, reaches && passes.contains(&at), next, found);
    }
}

/// The inputs whose rows an operator treats one by one: for parts of such an input it gives parts of its rows.
fn passes_on(plan: &Arc<dyn ExecutionPlan>) -> &'static [usize] {
    if plan.fetch().is_some() {
        return &[];
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return kept_sides(*join.join_type());
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        return kept_sides(*join.join_type());
    }
    if plan.is::<CrossJoinExec>() {
        return kept_sides(JoinType::Inner);
    }
    let repartition = plan.downcast_ref::<RepartitionExec>();
    let is_exchange = repartition
        .is_some_and(|by| matches!(by.partitioning(), Partitioning::Hash(..) | Partitioning::RoundRobinBatch(_)));
    let is_row_by_row = is_exchange
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<FilterExec>()
        || plan.is::<ProjectionExec>()
        || plan.is::<SortExec>()
        || plan.is::<SortPreservingMergeExec>();
    if is_row_by_row { &[0] } else { &[] }
}

/// The sides of a join of which each row gives its own rows, whatever the other rows of the side are.
fn kept_sides(join: JoinType) -> &'static [usize] {
    match join {
        JoinType::Inner => &[0, 1],
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => &[0],
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => &[1],
        _ => &[],
    }
}
