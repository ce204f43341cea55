//! Grouping sets, ROLLUP and CUBE return rows in which keys are NULL. DataFusion's aggregation still claims the
//! properties of its input for its output: constant keys, the order and partitioning of rows, unique keys. So sorts are
//! dropped, and with one thread groups are returned twice. Here, an operator without known properties is inserted on
//! both sides of such an aggregation.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, ReplaceChildrenOptions};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, replace_children_if_necessary,
};

type Plan = Arc<dyn ExecutionPlan>;

/// Puts an [`UnorderedExec`] below and above each aggregation with grouping sets. Applied before rules that look at orders.
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
            let children: Vec<Plan> = node.children().into_iter().map(unordered).collect();
            let node = replace_children_if_necessary(node, children)?;
            Ok(Transformed::yes(unordered(&node)))
        })?;
        Ok(changed.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn unordered(plan: &Plan) -> Plan {
    match plan.downcast_ref::<UnorderedExec>() {
        Some(_) => plan.clone(),
        None => Arc::new(UnorderedExec::new(plan.clone())),
    }
}

/// Rows as they come, of which nothing is known.
#[derive(Debug)]
pub(crate) struct UnorderedExec {
    input: Plan,
    properties: Arc<PlanProperties>,
}

impl UnorderedExec {
    fn new(input: Plan) -> Self {
        let known = input.properties();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            known.emission_type,
            known.boundedness,
        );
        let properties = Arc::new(properties.with_scheduling_type(known.scheduling_type));
        UnorderedExec { input, properties }
    }
}

impl DisplayAs for UnorderedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UnorderedExec")
    }
}

impl ExecutionPlan for UnorderedExec {
    fn name(&self) -> &str {
        "UnorderedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(self: Arc<Self>, mut children: Vec<Plan>, _: ReplaceChildrenOptions) -> Result<Plan> {
        match children.pop() {
            Some(input) => Ok(Arc::new(UnorderedExec::new(input))),
            None => internal_err!("rows without an order have no input"),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        let options =
            ReplaceChildrenOptions::new(datafusion::physical_plan::execution_plan::ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}
