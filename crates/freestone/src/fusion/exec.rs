//! The node of a fused part of a plan.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, ReplaceChildrenOptions, SchedulingType,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use freestone_exec::error::ExecError;
use freestone_exec::pipeline::{Context, Feed, Stage};
use freestone_exec::run::run;
use parking_lot::Mutex;

use super::foreign::external;
use super::inputs::{RunContext, Streams};
use super::output::{Ordered, Target};
use crate::context::panicked;

/// A compiled part of a plan.
pub(super) struct Query {
    pub stages: Vec<Stage>,
    /// The plans of its inputs.
    pub inputs: Vec<Arc<dyn ExecutionPlan>>,
    pub context: Arc<RunContext>,
    pub schema: SchemaRef,
    /// Whether rows come in the order of their units.
    pub in_order: bool,
    /// The rows that are left out, and how many are wanted of the others.
    pub limit: Option<(usize, usize)>,
}

/// A part of a plan that the executor runs.
pub(crate) struct PipelineExec {
    /// The part, as DataFusion planned it.
    plan: Arc<dyn ExecutionPlan>,
    query: Mutex<Option<Query>>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
}

/// Batches that wait for the consumer.
const BATCHES: usize = 4;
/// Queries of at most so many units run on the thread that asks for their rows.
const FEW_UNITS: usize = 2;

impl PipelineExec {
    pub(super) fn new(plan: Arc<dyn ExecutionPlan>, query: Query, inputs: Vec<Arc<dyn ExecutionPlan>>) -> PipelineExec {
        let equal = plan.properties().eq_properties.clone();
        let properties = PlanProperties::new(
            equal,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        let properties = Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative));
        PipelineExec { plan, query: Mutex::new(Some(query)), inputs, properties }
    }
}

impl fmt::Debug for PipelineExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipelineExec").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl DisplayAs for PipelineExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PipelineExec")
    }
}

impl ExecutionPlan for PipelineExec {
    fn name(&self) -> &str {
        "PipelineExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.plan]
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

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.as_slice() {
            [plan] if Arc::ptr_eq(plan, &self.plan) => Ok(self),
            _ => internal_err!("a fused plan does not change"),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let options =
            ReplaceChildrenOptions::new(datafusion::physical_plan::execution_plan::ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(query) = self.query.lock().take().filter(|_| partition == 0) else {
            return internal_err!("a fused plan runs once");
        };
        query.context.begin(&context);
        let inputs = Streams::of(&self.inputs, &context)?;
        let schema = query.schema.clone();
        if self.inputs.is_empty() && is_small(&query.stages) {
            let rows = futures::stream::once(async move { at_once(query, inputs) });
            let batches = futures::TryStreamExt::try_flatten(futures::TryStreamExt::map_ok(rows, |batches| {
                futures::stream::iter(batches.into_iter().map(Ok))
            }));
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)));
        }
        Ok(streamed(query, inputs))
    }
}

fn is_small(stages: &[Stage]) -> bool {
    let units = |stage: &Stage| {
        let of_branches = stage.branches.iter().map(|branch| match &branch.feed {
            Feed::Source(source) => source.units(),
            Feed::Input(_) => usize::MAX,
        });
        of_branches.fold(0usize, usize::saturating_add)
    };
    stages.first().is_some_and(|first| units(first) <= FEW_UNITS) && stages.len() <= 2
}

/// All rows, computed now.
fn at_once(query: Query, inputs: Streams) -> Result<Vec<RecordBatch>> {
    let context = query.context.clone();
    let output = Ordered::new(Target::List(Mutex::default()), &query);
    let shared: Arc<dyn Context> = context.clone();
    let ran = context.within(|| run(&query.stages, &inputs, &shared, &output));
    if !(output.is_done() && matches!(ran, Err(ExecError::Cancelled))) {
        ran.map_err(external)?;
    }
    match output.target {
        Target::List(batches) => Ok(batches.into_inner()),
        Target::Stream(_) => internal_err!("rows of a list"),
    }
}

/// Cancels a query when its stream is dropped.
struct CancelGuard(Arc<RunContext>);

impl Drop for CancelGuard {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The rows as threads of their own compute them.
fn streamed(query: Query, inputs: Streams) -> SendableRecordBatchStream {
    let (sender, receiver) = tokio::sync::mpsc::channel(BATCHES);
    let (context, schema) = (query.context.clone(), query.schema.clone());
    let guard = CancelGuard(context.clone());
    let failed = sender.clone();
    let work = move || {
        let output = Ordered::new(Target::Stream(sender), &query);
        let shared: Arc<dyn Context> = context.clone();
        let ran = std::panic::catch_unwind(AssertUnwindSafe(|| {
            context.within(|| run(&query.stages, &inputs, &shared, &output))
        }));
        let error = match ran {
            Ok(Ok(())) => return,
            // All rows that are wanted were given, or nobody wants them any more.
            Ok(Err(ExecError::Cancelled)) if output.is_done() => return,
            Ok(Err(error)) => external(error),
            Err(panic) => panicked(&*panic).into(),
        };
        let _ = failed.blocking_send(Err(error));
    };
    let started = std::thread::Builder::new().name("query".to_owned()).spawn(work);
    let batches = futures::stream::unfold((receiver, guard, started.err()), |(mut receiver, guard, error)| async move {
        if let Some(error) = error {
            return Some((Err(error.into()), (receiver, guard, None)));
        }
        receiver.recv().await.map(|batch| (batch, (receiver, guard, None)))
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, batches))
}
