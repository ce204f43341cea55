//! A LIMIT takes the first rows of its input as they come.
//!
//! DataFusion moves a sort below a LIMIT whose input is not sorted, because any rows would do: `SELECT * FROM (SELECT * FROM t LIMIT 3)
//! ORDER BY a` had the three first rows by `a` of the whole table, and did not end if `t` is a recursive query without an end. So such a
//! limit is a node of ours while sorts are moved.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, InputDistributionRequirements, PlanProperties,
};

use super::Rule;

type Plan = Arc<dyn ExecutionPlan>;

/// DataFusion's rule that moves sorts.
const MOVES_SORTS: &str = "EnsureRequirements";

/// Lets limits stay where they are while that rule runs.
pub(super) fn around_moved_sorts(rules: &mut Vec<Rule>) {
    if let Some(at) = rules.iter().position(|rule| rule.name() == MOVES_SORTS) {
        rules.insert(at + 1, Arc::new(LimitsFreed));
        rules.insert(at, Arc::new(LimitsHeld));
    }
}

#[derive(Debug)]
struct LimitsHeld;

#[derive(Debug)]
struct LimitsFreed;

impl PhysicalOptimizerRule for LimitsHeld {
    fn name(&self) -> &str {
        "LimitsHeld"
    }

    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        let held = plan.transform_up(|node| match node.downcast_ref::<GlobalLimitExec>() {
            Some(limit) if !is_sorted(limit.input()) => {
                Ok(Transformed::yes(
                    Arc::new(HeldLimitExec::new(limit.input().clone(), limit.skip(), limit.fetch())) as _
                ))
            }
            _ => Ok(Transformed::no(node)),
        })?;
        Ok(held.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl PhysicalOptimizerRule for LimitsFreed {
    fn name(&self) -> &str {
        "LimitsFreed"
    }

    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        let freed = plan.transform_up(|node| match node.downcast_ref::<HeldLimitExec>() {
            Some(held) => Ok(Transformed::yes(Arc::new(held.limit()) as _)),
            None => Ok(Transformed::no(node)),
        })?;
        Ok(freed.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether a sort gives the rows of a plan, so that a limit takes those that it asks for.
fn is_sorted(plan: &Plan) -> bool {
    match plan.children().as_slice() {
        [input] => plan.is::<SortExec>() || is_sorted(input),
        _ => false,
    }
}

/// A limit that no sort passes.
#[derive(Debug)]
struct HeldLimitExec {
    input: Plan,
    skip: usize,
    fetch: Option<usize>,
    properties: Arc<PlanProperties>,
}

impl HeldLimitExec {
    fn new(input: Plan, skip: usize, fetch: Option<usize>) -> Self {
        let known = input.properties();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            known.emission_type,
            known.boundedness,
        );
        let properties = Arc::new(properties.with_scheduling_type(known.scheduling_type));
        HeldLimitExec { input, skip, fetch, properties }
    }

    /// The limit as DataFusion has it.
    fn limit(&self) -> GlobalLimitExec {
        GlobalLimitExec::new(self.input.clone(), self.skip, self.fetch)
    }
}

impl DisplayAs for HeldLimitExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeldLimitExec: skip={}, fetch={:?}", self.skip, self.fetch)
    }
}

impl ExecutionPlan for HeldLimitExec {
    fn name(&self) -> &str {
        "HeldLimitExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input_distribution_requirements().into_per_child()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
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
            Some(input) => Ok(Arc::new(HeldLimitExec::new(input, self.skip, self.fetch))),
            None => internal_err!("a limit has no input"),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.limit().execute(partition, context)
    }
}
