//! Rows of which nothing is known: an operator without the properties that its input claims.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::TryStreamExt;

type Plan = Arc<dyn ExecutionPlan>;

/// The rows of a plan, of which nothing is known. Batches of more than `rows_max` rows are cut.
pub(crate) fn unordered(plan: &Plan, rows_max: usize) -> Plan {
    match plan.downcast_ref::<UnorderedExec>() {
        Some(_) => plan.clone(),
        None => Arc::new(UnorderedExec::new(plan.clone(), rows_max)),
    }
}

/// Rows as they come, of which nothing is known.
#[derive(Debug)]
pub(crate) struct UnorderedExec {
    input: Plan,
    /// Larger batches are cut.
    rows_max: usize,
    properties: Arc<PlanProperties>,
}

impl UnorderedExec {
    fn new(input: Plan, rows_max: usize) -> Self {
        let known = input.properties();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            known.emission_type,
            known.boundedness,
        );
        let properties = Arc::new(properties.with_scheduling_type(known.scheduling_type));
        UnorderedExec { input, rows_max, properties }
    }

    pub fn input(&self) -> &Plan {
        &self.input
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
            Some(input) => Ok(Arc::new(UnorderedExec::new(input, self.rows_max))),
            None => internal_err!("rows without an order have no input"),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        let options =
            ReplaceChildrenOptions::new(datafusion::physical_plan::execution_plan::ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        if self.rows_max == usize::MAX {
            return Ok(input);
        }
        let (schema, rows_max) = (input.schema(), self.rows_max);
        let pieces = move |batch: RecordBatch| {
            let rows = batch.num_rows();
            let piece = move |at| Ok(batch.slice(at, rows_max.min(rows - at)));
            futures::stream::iter((0..rows).step_by(rows_max).map(piece))
        };
        let rows = RecordBatchStreamAdapter::new(schema, input.map_ok(pieces).try_flatten());
        Ok(make_cooperative(Box::pin(rows)))
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}
