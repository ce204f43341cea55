//! The node of a recursive query, and its steps as DataFusion's operators run them.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{BooleanArray, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, InputDistributionRequirements, PlanProperties,
};
use futures::TryStreamExt;

use super::table::{WorkingRows, WorkingScanExec};
use super::{one_partition, run_again};

/// A recursive query.
#[derive(Debug)]
pub(crate) struct RecursionExec {
    name: String,
    first: Arc<dyn ExecutionPlan>,
    step: Arc<dyn ExecutionPlan>,
    /// The rows that `step` reads.
    rows: Arc<WorkingRows>,
    is_distinct: bool,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl RecursionExec {
    /// The query of a node of DataFusion.
    ///
    /// # Errors
    /// The node is not valid.
    pub fn of(query: &RecursiveQueryExec) -> Result<RecursionExec> {
        let rows = Arc::new(WorkingRows::default());
        let step = query.recursive_term().clone().transform_up(|node| {
            let scan = node.downcast_ref::<WorkingScanExec>().and_then(|scan| scan.of(query.name(), &rows));
            Ok(scan.map_or_else(|| Transformed::no(node), |scan| Transformed::yes(Arc::new(scan) as _)))
        })?;
        let schema = query.schema();
        let properties = one_partition(schema.clone());
        Ok(RecursionExec {
            name: query.name().to_owned(),
            first: query.static_term().clone(),
            step: step.data,
            rows,
            is_distinct: query.is_distinct(),
            schema,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The term whose rows are those of the first step.
    pub fn first(&self) -> &Arc<dyn ExecutionPlan> {
        &self.first
    }

    /// The term that makes the rows of a step.
    pub fn step(&self) -> &Arc<dyn ExecutionPlan> {
        &self.step
    }

    /// What scans of the step before read.
    pub fn rows(&self) -> &Arc<WorkingRows> {
        &self.rows
    }

    /// Whether each row is wanted once.
    pub fn is_distinct(&self) -> bool {
        self.is_distinct
    }
}

impl DisplayAs for RecursionExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecursionExec: name={}, is_distinct={}", self.name, self.is_distinct)
    }
}

impl ExecutionPlan for RecursionExec {
    fn name(&self) -> &str {
        "RecursionExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.first, &self.step]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input_distribution_requirements().into_per_child()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition, Distribution::SinglePartition])
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([first, step]) = <[Arc<dyn ExecutionPlan>; 2]>::try_from(children) else {
            return internal_err!("a recursive query has two terms");
        };
        Ok(Arc::new(RecursionExec {
            name: self.name.clone(),
            first,
            step,
            rows: self.rows.clone(),
            is_distinct: self.is_distinct,
            schema: self.schema.clone(),
            properties: self.properties.clone(),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("a recursive query has one partition");
        }
        let steps = Steps {
            coming: self.first.execute(0, context.clone())?,
            distinct: self.is_distinct.then(|| Distinct::new(&self.schema)).transpose()?,
            made: vec![],
            bytes: 0,
            bytes_before: 0,
            reservation: MemoryConsumer::new("a recursive query").register(context.memory_pool()),
            step: self.step.clone(),
            rows: self.rows.clone(),
            metrics: BaselineMetrics::new(&self.metrics, partition),
            context,
        };
        let rows = futures::stream::try_unfold(steps, |mut steps| async move {
            Ok(steps.next().await?.map(|batch| (batch, steps)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// A run.
struct Steps {
    /// The rows of this step.
    coming: SendableRecordBatchStream,
    distinct: Option<Distinct>,
    /// Those that came.
    made: Vec<RecordBatch>,
    bytes: usize,
    /// The bytes of the rows of the step before.
    bytes_before: usize,
    reservation: MemoryReservation,
    step: Arc<dyn ExecutionPlan>,
    rows: Arc<WorkingRows>,
    metrics: BaselineMetrics,
    context: Arc<TaskContext>,
}

impl Steps {
    /// The next rows. A step without rows is the last one.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            match self.coming.try_next().await? {
                Some(batch) => {
                    let batch = self.new_rows(batch)?;
                    if batch.num_rows() > 0 {
                        return Ok(Some(batch));
                    }
                }
                None if self.made.is_empty() => return Ok(None),
                None => {
                    *self.rows.0.lock() = std::mem::take(&mut self.made);
                    self.bytes_before = std::mem::take(&mut self.bytes);
                    self.coming = run_again(&self.step, &self.context)?;
                }
            }
        }
    }

    /// The rows of a batch that are wanted, which are kept for the next step.
    fn new_rows(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let batch = match &mut self.distinct {
            Some(distinct) => distinct.new_rows(&batch)?,
            None => batch,
        };
        if batch.num_rows() > 0 {
            self.bytes += batch.get_array_memory_size();
            let seen = self.distinct.as_ref().map_or(0, |distinct| distinct.seen.size());
            self.reservation.try_resize(self.bytes_before + self.bytes + seen)?;
            self.made.push(batch.clone());
            self.metrics.record_output(batch.num_rows());
        }
        Ok(batch)
    }
}

/// The rows that were seen.
struct Distinct {
    seen: Box<dyn GroupValues>,
    groups: Vec<usize>,
}

impl Distinct {
    fn new(schema: &SchemaRef) -> Result<Distinct> {
        Ok(Distinct { seen: new_group_values(schema.clone(), &GroupOrdering::None)?, groups: vec![] })
    }

    fn new_rows(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut known = self.seen.len();
        self.groups.clear();
        self.seen.intern(batch.columns(), &mut self.groups)?;
        let is_new = |group: &usize| {
            let is_new = *group == known;
            known += usize::from(is_new);
            Some(is_new)
        };
        Ok(filter_record_batch(batch, &self.groups.iter().map(is_new).collect::<BooleanArray>())?)
    }
}
