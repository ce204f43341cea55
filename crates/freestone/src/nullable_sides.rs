//! Keeps what holds for the rows of one side of an outer join from the rows that the join fills with NULL.
//!
//! DataFusion (55) takes a column that is constant on the side which may be missing, as `found` of
//! `a LEFT JOIN (SELECT id, true AS found FROM b) b USING (id)`, for constant in the join, too, and values that are equal there for
//! equal. So it would take sorts away, and group rows by a column as if they were in its order.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Statistics, internal_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, StatisticsArgs,
};

/// The name of the rule of DataFusion that takes sorts away.
pub(crate) const TAKES_SORTS_AWAY: &str = "EnsureRequirements";

/// The rule, which runs before that one.
#[derive(Debug)]
pub(crate) struct NullableSides;

impl PhysicalOptimizerRule for NullableSides {
    fn name(&self) -> &str {
        "nullable_sides"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(may_be_missing) = sides(&node) else { return Ok(Transformed::no(node)) };
            let children: Vec<_> = node.children().into_iter().cloned().collect();
            let says_nothing = |side: &Arc<dyn ExecutionPlan>| side.equivalence_properties().eq_group().is_empty();
            let wraps = |(side, missing): (&Arc<dyn ExecutionPlan>, bool)| missing && !says_nothing(side);
            if !children.iter().zip(may_be_missing).any(wraps) {
                return Ok(Transformed::no(node));
            }
            let children = children.into_iter().zip(may_be_missing).map(|(side, missing)| {
                if wraps((&side, missing)) { Arc::new(NullableSideExec::new(side)) as _ } else { side }
            });
            let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            node.replace_children(children.collect(), recompute).map(Transformed::yes)
        })
        .data()
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether each side of a join may be missing for rows of the other one; `None` for other nodes.
fn sides(node: &Arc<dyn ExecutionPlan>) -> Option<[bool; 2]> {
    let of_hash = node.downcast_ref::<HashJoinExec>().map(|join| *join.join_type());
    let of_loop = || node.downcast_ref::<NestedLoopJoinExec>().map(|join| *join.join_type());
    let of_merge = || node.downcast_ref::<SortMergeJoinExec>().map(SortMergeJoinExec::join_type);
    match of_hash.or_else(of_loop).or_else(of_merge)? {
        JoinType::Left => Some([false, true]),
        JoinType::Right => Some([true, false]),
        JoinType::Full => Some([true, true]),
        _ => None,
    }
}

/// The rows of its input, of which only the orders are known.
#[derive(Debug, Clone)]
pub(crate) struct NullableSideExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl NullableSideExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> NullableSideExec {
        let known = input.equivalence_properties();
        let orders = known.oeq_class().iter().cloned();
        let orders = EquivalenceProperties::new_with_orderings(input.schema(), orders);
        let properties = PlanProperties::clone(input.properties()).with_eq_properties(orders);
        NullableSideExec { input, properties: Arc::new(properties) }
    }

    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }
}

impl DisplayAs for NullableSideExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NullableSideExec")
    }
}

impl ExecutionPlan for NullableSideExec {
    fn name(&self) -> &str {
        "NullableSideExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match <[_; 1]>::try_from(children) {
            Ok([input]) => Ok(Arc::new(NullableSideExec::new(input))),
            Err(children) => internal_err!("{} inputs of an operator that has one", children.len()),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        match inputs {
            [input] => Ok(input.clone()),
            _ => internal_err!("{} statistics of one input", inputs.len()),
        }
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(filters, &self.children())
    }

    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(FilterPushdownPropagation::if_all(result))
    }
}
