//! The operator, and its steps.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, InputDistributionRequirements, PlanProperties,
};
use futures::{StreamExt, TryStreamExt};

use super::node::Terms;
use super::state::State;
use crate::recursion::table::{WorkingRows, WorkingScanExec};
use crate::recursion::{one_partition, run_again};

/// The tables that the terms read.
#[derive(Debug, Default)]
struct Tables {
    before: Arc<WorkingRows>,
    state: Arc<WorkingRows>,
    candidates: Arc<WorkingRows>,
}

/// A recursive query with keys. Its children are the first rows, the step, and the totals if there are any.
#[derive(Debug)]
pub(crate) struct KeyedRecursionExec {
    terms: Arc<Terms>,
    children: Vec<Arc<dyn ExecutionPlan>>,
    tables: Arc<Tables>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl KeyedRecursionExec {
    /// The operator of terms whose scans are nobody's yet.
    ///
    /// # Errors
    /// A term is not valid.
    pub(super) fn new(terms: Arc<Terms>, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<KeyedRecursionExec> {
        let tables = Tables::default();
        let own =
            [(&terms.before, &tables.before), (&terms.state, &tables.state), (&terms.candidates, &tables.candidates)];
        let of_own = |node: Arc<dyn ExecutionPlan>| {
            let scan = node.downcast_ref::<WorkingScanExec>();
            let scan = scan.and_then(|scan| own.iter().find_map(|(name, rows)| scan.of(name, rows)));
            Ok(scan.map_or_else(|| Transformed::no(node), |scan| Transformed::yes(Arc::new(scan) as _)))
        };
        let children = inputs.iter().map(|input| Ok(input.clone().transform_up(of_own)?.data));
        let children = children.collect::<Result<Vec<_>>>()?;
        let properties = Arc::new(one_partition(terms.schema.clone()));
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(KeyedRecursionExec { terms, children, tables: Arc::new(tables), properties, metrics })
    }
}

impl DisplayAs for KeyedRecursionExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyedRecursionExec: name={}, is_distinct={}", self.terms.before, self.terms.is_distinct)
    }
}

impl ExecutionPlan for KeyedRecursionExec {
    fn name(&self) -> &str {
        "KeyedRecursionExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.children.iter().collect()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false; self.children.len()]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.children.len()]
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input_distribution_requirements().into_per_child()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition; self.children.len()])
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.len() != self.children.len() {
            return internal_err!("a recursive query with keys has other terms");
        }
        Ok(Arc::new(KeyedRecursionExec {
            terms: self.terms.clone(),
            children,
            tables: self.tables.clone(),
            properties: self.properties.clone(),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let [first, step, totals @ ..] = self.children.as_slice() else {
            return internal_err!("a recursive query with keys has two terms");
        };
        if partition != 0 {
            return internal_err!("a recursive query has one partition");
        }
        let state = State::new(&self.terms.columns, &first.schema(), self.terms.schema.clone(), !totals.is_empty())?;
        let reads_state = step.exists(|node| {
            Ok(node.downcast_ref::<WorkingScanExec>().is_some_and(|scan| scan.reads(&self.tables.state)))
        })?;
        let steps = Steps {
            terms: self.terms.clone(),
            tables: self.tables.clone(),
            first: first.clone(),
            step: step.clone(),
            totals: totals.first().cloned(),
            reads_state,
            state,
            reservation: MemoryConsumer::new("a recursive query with keys").register(context.memory_pool()),
            context,
        };
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let rows = futures::stream::once(steps.run()).map_ok(move |(batches, reservation)| {
            let metrics = metrics.clone();
            futures::stream::iter(batches.into_iter().map(Ok)).inspect(move |batch: &Result<RecordBatch>| {
                let _kept = &reservation;
                metrics.record_output(batch.as_ref().map_or(0, RecordBatch::num_rows));
            })
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.terms.schema.clone(), rows.try_flatten())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// A run.
struct Steps {
    terms: Arc<Terms>,
    tables: Arc<Tables>,
    first: Arc<dyn ExecutionPlan>,
    step: Arc<dyn ExecutionPlan>,
    totals: Option<Arc<dyn ExecutionPlan>>,
    /// Whether the step reads the row of each key.
    reads_state: bool,
    state: State,
    reservation: MemoryReservation,
    context: Arc<TaskContext>,
}

impl Steps {
    /// The row of each key after all steps.
    async fn run(mut self) -> Result<(Vec<RecordBatch>, MemoryReservation)> {
        let mut coming = self.first.execute(0, self.context.clone())?;
        let mut is_first = true;
        loop {
            let before = self.taken(coming).await?;
            if before.is_empty() || !(self.terms.repeats || is_first) {
                let rows = self.state.all()?;
                return Ok((rows, self.reservation));
            }
            is_first = false;
            if self.reads_state {
                *self.tables.state.0.lock() = self.state.all()?;
            }
            *self.tables.before.0.lock() = before;
            coming = run_again(&self.step, &self.context)?;
        }
    }

    /// Takes the rows of a step. Returns those that the next one reads as the step before.
    async fn taken(&mut self, mut coming: SendableRecordBatchStream) -> Result<Vec<RecordBatch>> {
        let mut made = vec![];
        let mut bytes = 0;
        while let Some(batch) = coming.try_next().await? {
            if batch.num_rows() > 0 {
                self.state.take(&batch)?;
                bytes += if self.terms.is_distinct { 0 } else { batch.get_array_memory_size() };
                self.reservation.try_resize(self.state.bytes() + bytes)?;
                made.extend((!self.terms.is_distinct).then_some(batch));
            }
        }
        if let Some(totals) = &self.totals
            && self.state.is_touched()
        {
            *self.tables.candidates.0.lock() = self.state.candidates()?;
            let mut rows = run_again(totals, &self.context)?;
            while let Some(batch) = rows.try_next().await? {
                self.state.take_totals(batch)?;
                self.reservation.try_resize(self.state.bytes() + bytes)?;
            }
            self.tables.candidates.0.lock().clear();
        }
        let changed = self.state.settle(self.terms.is_distinct)?;
        Ok(if self.terms.is_distinct { changed } else { made })
    }
}
