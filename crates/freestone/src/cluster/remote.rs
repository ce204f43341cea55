//! The operator that takes the place of a stage: it has its rows from workers.

use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::internal_err;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, StreamExt, TryStreamExt};

use super::run::{Run, TaskReport};

/// The rows of all tasks, which the first thread that wants some waits for.
type Finished = Shared<BoxFuture<'static, Result<Arc<Vec<RecordBatch>>, Arc<DataFusionError>>>>;

/// A stage whose tasks run on workers. It runs once.
#[derive(Debug)]
pub(crate) struct RemoteExec {
    run: Arc<Run>,
    properties: Arc<PlanProperties>,
    finished: OnceLock<Finished>,
    reports: Arc<OnceLock<Vec<TaskReport>>>,
    metrics: ExecutionPlanMetricsSet,
}

impl RemoteExec {
    pub fn new(run: Run) -> RemoteExec {
        let stage = &run.stage.plan;
        let properties = PlanProperties::new(
            // The columns that are equal or constant, without the order that threads have.
            without_order(stage.equivalence_properties().clone()),
            Partitioning::UnknownPartitioning(stage.output_partitioning().partition_count()),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        RemoteExec {
            run: Arc::new(run),
            properties: Arc::new(properties),
            finished: OnceLock::new(),
            reports: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// What workers run.
    pub fn stage(&self) -> &Arc<dyn ExecutionPlan> {
        &self.run.stage.plan
    }

    /// The tasks, once they have run.
    pub fn reports(&self) -> &[TaskReport] {
        self.reports.get().map_or(&[], Vec::as_slice)
    }

    fn finished(&self) -> Finished {
        let begin = || {
            let (run, reports) = (self.run.clone(), self.reports.clone());
            let task = SpawnedTask::spawn(async move { run.all().await });
            let finished = async move {
                let finished = match task.await {
                    Ok(finished) => finished,
                    Err(error) => internal_err!("the tasks of a stage have ended: {error}"),
                };
                let (rows, told) = finished.map_err(Arc::new)?;
                let _ = reports.set(told);
                Ok::<_, Arc<DataFusionError>>(Arc::new(rows))
            };
            finished.boxed().shared()
        };
        self.finished.get_or_init(begin).clone()
    }
}

fn without_order(mut equal: EquivalenceProperties) -> EquivalenceProperties {
    equal.clear_orderings();
    equal
}

impl DisplayAs for RemoteExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tasks = self.run.shares.iter().filter(|(_, share)| !share.is_empty()).count();
        let pieces: usize = self.run.shares.iter().map(|(_, share)| share.len()).sum();
        let table = &self.run.source.table().name;
        write!(f, "RemoteExec: stage {}, tasks={tasks}, divided={table}, parts={pieces}", self.run.task.stage)
    }
}

impl ExecutionPlan for RemoteExec {
    fn name(&self) -> &str {
        "RemoteExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
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
        if children.is_empty() { Ok(self) } else { internal_err!("a remote stage has no inputs here") }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (finished, schema) = (self.finished(), self.schema());
        let partitions = self.properties.partitioning.partition_count();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let rows = async move {
            let batches = finished.await.map_err(DataFusionError::Shared)?;
            let own = batches.iter().skip(partition).step_by(partitions.max(1));
            let own: Vec<Result<RecordBatch>> = own.map(|batch| Ok(batch.clone())).collect();
            Ok::<_, DataFusionError>(futures::stream::iter(own))
        };
        let rows = rows.into_stream().try_flatten().inspect(move |batch| {
            if let Ok(batch) = batch {
                metrics.record_output(batch.num_rows());
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
