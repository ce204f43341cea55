//! The order of rows through UNION ALL and shared queries, if no operator above changes it. DataFusion and the scans of
//! shared queries give rows as threads find them, so that `… UNION ALL … LIMIT 5` had any five rows. Here the rows of a
//! branch follow those of the branch before it, which ends first; the operators within a branch run on all threads.
//!
//! What the executor has fused is in order anyway. So the rule comes last, for what is left.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, replace_children_if_necessary,
};
use futures::{StreamExt, TryStreamExt};

use crate::settings::preserves_insertion_order;
use crate::shared::{SharedQueriesExec, SharedScanExec, dealt, passes_rows};

type Plan = Arc<dyn ExecutionPlan>;

/// The rule.
#[derive(Debug)]
pub(crate) struct InOrder;

impl PhysicalOptimizerRule for InOrder {
    fn name(&self) -> &str {
        "InOrder"
    }

    fn optimize(&self, plan: Plan, options: &ConfigOptions) -> Result<Plan> {
        if preserves_insertion_order(options) { in_order(&plan) } else { Ok(plan) }
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A plan whose rows are in order.
fn in_order(plan: &Plan) -> Result<Plan> {
    let plan = if leads_to_parts(plan) { in_one_partition(plan)? } else { plan.clone() };
    let changed = plan.transform_down(|node| match node.downcast_ref::<SharedQueriesExec>() {
        Some(queries) => {
            let queries = queries.in_order(in_order(queries.main())?, in_one_partition)?;
            Ok(Transformed::new(queries, true, TreeNodeRecursion::Jump))
        }
        None if passes_rows(&node) || dealt(&node).is_some() => Ok(Transformed::no(node)),
        None => Ok(Transformed::new(node, false, TreeNodeRecursion::Jump)),
    })?;
    Ok(changed.data)
}

/// The same for the rows among which a LIMIT within a plan chooses. It comes before plans are fused, which do not change any more.
#[derive(Debug)]
pub(crate) struct LimitsInOrder;

impl PhysicalOptimizerRule for LimitsInOrder {
    fn name(&self) -> &str {
        "LimitsInOrder"
    }

    fn optimize(&self, plan: Plan, options: &ConfigOptions) -> Result<Plan> {
        if !preserves_insertion_order(options) {
            return Ok(plan);
        }
        let is_limit = |node: &Plan| {
            let coalesce = node.downcast_ref::<CoalescePartitionsExec>();
            node.is::<GlobalLimitExec>() || coalesce.is_some_and(|coalesce| coalesce.fetch().is_some())
        };
        let changed = plan.transform_down(|node| match is_limit(&node) && leads_to_parts(&node) {
            true => Ok(Transformed::new(in_one_partition(&node)?, true, TreeNodeRecursion::Jump)),
            false => Ok(Transformed::no(node)),
        })?;
        Ok(changed.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether a union or the scan of a shared query gives the rows of a plan.
pub(super) fn leads_to_parts(plan: &Plan) -> bool {
    let is_part = plan.is::<UnionExec>() || plan.is::<SharedScanExec>();
    let passes = passes_rows(plan) || dealt(plan).is_some();
    is_part || passes && plan.children().into_iter().any(leads_to_parts)
}

/// A plan whose partitions, one behind the other, have its rows in order.
fn in_partitions(plan: &Plan) -> Result<Plan> {
    if !leads_to_parts(plan) {
        return Ok(plan.clone());
    }
    if let Some(scan) = plan.downcast_ref::<SharedScanExec>() {
        return Ok(scan.in_one_partition());
    }
    if let Some(input) = dealt(plan) {
        return in_partitions(input);
    }
    if let Some(coalesce) = plan.downcast_ref::<CoalescePartitionsExec>() {
        let rows = in_one_partition(coalesce.input())?;
        return Ok(match coalesce.fetch() {
            Some(rows_max) => Arc::new(GlobalLimitExec::new(rows, 0, Some(rows_max))),
            None => rows,
        });
    }
    let (is_union, has_subqueries) = (plan.is::<UnionExec>(), plan.is::<ScalarSubqueryExec>());
    let input = |(at, input): (usize, &Plan)| match is_union || has_subqueries && at > 0 {
        true => in_one_partition(input),
        false => in_partitions(input),
    };
    let children = plan.children().into_iter().enumerate().map(input).collect::<Result<Vec<_>>>()?;
    replace_children_if_necessary(plan.clone(), children)
}

/// A plan with its rows in order in one partition.
fn in_one_partition(plan: &Plan) -> Result<Plan> {
    let has_parts = leads_to_parts(plan);
    let plan = in_partitions(dealt(plan).unwrap_or(plan))?;
    Ok(match plan.output_partitioning().partition_count() {
        0 | 1 => plan,
        _ if has_parts => Arc::new(ConcatenateExec::new(plan)),
        // The result is read so.
        _ => Arc::new(CoalescePartitionsExec::new(plan)),
    })
}

/// The rows of the partitions of a plan, one behind the other.
#[derive(Debug)]
struct ConcatenateExec {
    input: Plan,
    properties: Arc<PlanProperties>,
}

impl ConcatenateExec {
    fn new(input: Plan) -> Self {
        let known = input.properties();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            known.emission_type,
            known.boundedness,
        );
        let properties = Arc::new(properties.with_scheduling_type(known.scheduling_type));
        ConcatenateExec { input, properties }
    }
}

impl DisplayAs for ConcatenateExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConcatenateExec")
    }
}

impl ExecutionPlan for ConcatenateExec {
    fn name(&self) -> &str {
        "ConcatenateExec"
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
            Some(input) => Ok(Arc::new(ConcatenateExec::new(input))),
            None => internal_err!("rows of partitions have no input"),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.clone();
        let partitions = 0..input.output_partitioning().partition_count();
        let rows = futures::stream::iter(partitions).map(move |at| input.execute(at, context.clone())).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}
