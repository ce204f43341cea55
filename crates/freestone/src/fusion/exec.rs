//! The node of a fused part of a plan.
//!
//! A run whose claim of memory fails before it gave rows ends, and DataFusion's operators, which spill to disk, run the
//! part as it was planned. So does one that finds values outside of the bounds that a file states.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, lit};
use datafusion::physical_expr::{LexOrdering, Partitioning, PhysicalExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions, SchedulingType, reset_plan_states,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use freestone_exec::error::ExecError;
use freestone_exec::pipeline::{Context, Feed, Inputs, Stage};
use freestone_exec::run::{Output, run};
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use tokio::sync::mpsc::Receiver;

use super::foreign::external;
use super::inputs::{Broken, Promised, RunContext, Streams};
use super::meters::Meters;
use super::output::{Message, Ordered, Target};
use crate::context::panicked;
use crate::spilling::{divided, is_out_of_memory};

/// A compiled part of a plan.
pub(super) struct Query {
    pub stages: Vec<Stage>,
    /// The plans of its inputs.
    pub inputs: Vec<Arc<dyn ExecutionPlan>>,
    /// What was assumed of their columns because files say so.
    pub promised: Vec<Vec<Promised>>,
    pub context: Arc<RunContext>,
    pub schema: SchemaRef,
    /// Whether rows come in the order of their units.
    pub in_order: bool,
    /// The rows that are left out, and how many are wanted of the others.
    pub limit: Option<(usize, usize)>,
    /// An order that the part had as it was planned, and its rows do not have.
    pub order: Option<LexOrdering>,
    pub meters: Option<Meters>,
    /// Whether rows may come without end.
    pub is_recursive: bool,
    /// The inputs as they were planned.
    pub planned: Vec<Arc<dyn ExecutionPlan>>,
}

/// A part of a plan that the executor runs.
pub(crate) struct PipelineExec {
    /// The part, as DataFusion planned it.
    plan: Arc<dyn ExecutionPlan>,
    query: Mutex<Option<Query>>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    /// What the planned inputs became, by their positions.
    planned_inputs: Vec<Arc<dyn ExecutionPlan>>,
    meters: Option<Meters>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// Batches that wait for the consumer.
const BATCHES: usize = 4;
/// Queries of at most so many units run on the thread that asks for their rows.
const FEW_UNITS: usize = 2;

impl PipelineExec {
    pub(super) fn new(plan: Arc<dyn ExecutionPlan>, query: Query, inputs: Vec<Arc<dyn ExecutionPlan>>) -> PipelineExec {
        let mut equal = plan.properties().eq_properties.clone();
        if query.order.is_some() {
            equal.clear_orderings();
        }
        let properties =
            PlanProperties::new(equal, Partitioning::UnknownPartitioning(1), EmissionType::Final, Boundedness::Bounded);
        let properties = Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative));
        let metrics = ExecutionPlanMetricsSet::new();
        let (meters, planned_inputs) = (query.meters.clone(), query.planned.clone());
        PipelineExec { plan, query: Mutex::new(Some(query)), inputs, planned_inputs, meters, properties, metrics }
    }

    /// The part, as it was planned.
    pub fn planned(&self) -> &Arc<dyn ExecutionPlan> {
        &self.plan
    }

    /// What was measured of the nodes of the part.
    pub fn meters(&self) -> Option<&Meters> {
        self.meters.as_ref()
    }

    /// What runs in place of an input as it was planned.
    pub fn input_for(&self, planned: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
        let at = self.planned_inputs.iter().position(|input| Arc::ptr_eq(input, planned));
        at.map(|at| &self.inputs[at])
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
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(mut query) = self.query.lock().take().filter(|_| partition == 0) else {
            return internal_err!("a fused plan runs once");
        };
        query.context.begin(&context);
        let inputs = Streams::of(&self.inputs, std::mem::take(&mut query.promised), &context)?;
        let spilling = Spilling { plan: self.plan.clone(), context };
        let schema = query.schema.clone();
        let rows = if self.inputs.is_empty() && is_small(&query.stages) && !query.is_recursive {
            futures::stream::once(async move { at_once(query, inputs, &spilling) }).try_flatten().boxed()
        } else {
            streamed(query, inputs, spilling)
        };
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let rows = rows.inspect_ok(move |batch| metrics.record_output(batch.num_rows()));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// A part of a plan as DataFusion planned it, for a run without enough memory.
struct Spilling {
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
}

impl Spilling {
    fn run(&self) -> Result<SendableRecordBatchStream> {
        forget_bounds(&self.plan)?;
        let plan = divided(reset_plan_states(self.plan.clone())?)?;
        CoalescePartitionsExec::new(plan).execute(0, self.context.clone())
    }
}

/// Lets scans pass all rows again that the bounds of the given up run kept out, such as the last row of a top-N: the operators of
/// the next run have filters of their own, which the scans do not know.
fn forget_bounds(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    // Those of joins are the keys of the same rows.
    if plan.is::<SortExec>() || plan.is::<AggregateExec>() {
        for bounds in plan.dynamic_expressions_produced() {
            let Some(bounds) = bounds.downcast_ref::<DynamicFilterPhysicalExpr>() else { continue };
            bounds.update(lit(true))?;
        }
    }
    plan.children().into_iter().try_for_each(forget_bounds)
}

/// Whether DataFusion's operators may do what failed: there was too little memory, or a file says what is not so.
fn may_run_otherwise(error: &DataFusionError) -> bool {
    let is_broken = matches!(error.find_root(), DataFusionError::External(error) if error.is::<Broken>());
    is_broken || is_out_of_memory(error)
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

/// Runs a query on behalf of its statement.
fn ran(query: &Query, inputs: Streams, output: &Arc<Ordered>) -> freestone_exec::error::Result<()> {
    let context: Arc<dyn Context> = query.context.clone();
    let (inputs, output): (Arc<dyn Inputs>, Arc<dyn Output>) = (Arc::new(inputs), output.clone());
    query.context.within(|| run(&query.stages, &inputs, &context, &output))
}

/// All rows, computed now.
fn at_once(query: Query, inputs: Streams, spilling: &Spilling) -> Result<SendableRecordBatchStream> {
    let schema = query.schema.clone();
    let output = Arc::new(Ordered::new(Target::List(Mutex::default()), &query));
    let ran = ran(&query, inputs, &output);
    drop(query);
    match ran.map_err(external) {
        Err(_) if output.is_done() => {}
        Err(error) if may_run_otherwise(&error) => return spilling.run(),
        ran => ran?,
    }
    match &output.target {
        Target::List(batches) => {
            let batches = futures::stream::iter(std::mem::take(&mut *batches.lock()).into_iter().map(Ok));
            Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
        }
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
fn streamed(query: Query, inputs: Streams, spilling: Spilling) -> SendableRecordBatchStream {
    let (sender, receiver) = tokio::sync::mpsc::channel(BATCHES);
    let (context, schema) = (query.context.clone(), query.schema.clone());
    let guard = CancelGuard(context);
    let failed = sender.clone();
    let work = move || {
        let output = Arc::new(Ordered::new(Target::Stream(sender), &query));
        let ran = std::panic::catch_unwind(AssertUnwindSafe(|| ran(&query, inputs, &output)));
        // What it holds is given back before other operators begin.
        drop(query);
        let error = match ran {
            Ok(Ok(())) => return,
            // All rows that are wanted were given, or nobody wants them any more.
            Ok(Err(ExecError::Cancelled)) if output.is_done() => return,
            Ok(Err(error)) => external(error),
            Err(panic) => panicked(&*panic).into(),
        };
        let message =
            if may_run_otherwise(&error) && !output.has_given() { Message::Spill } else { Message::Failed(error) };
        let _ = failed.blocking_send(message);
    };
    let rows = match freestone_exec::threads::spawn(work) {
        Ok(()) => Rows::Own { receiver, _guard: guard },
        Err(error) => {
            return Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::iter([Err(error.into())])));
        }
    };
    let batches = futures::stream::try_unfold((rows, spilling), |(mut rows, spilling)| async move {
        loop {
            let message = match &mut rows {
                Rows::Spilling(stream) => return Ok(stream.try_next().await?.map(|batch| (batch, (rows, spilling)))),
                Rows::Own { receiver, .. } => receiver.recv().await,
            };
            match message {
                None => return Ok(None),
                Some(Message::Rows(batch)) => return Ok(Some((batch, (rows, spilling)))),
                Some(Message::Failed(error)) => return Err(error),
                Some(Message::Spill) => rows = Rows::Spilling(spilling.run()?),
            }
        }
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, batches))
}

/// Where the rows of a stream come from.
enum Rows {
    /// The threads of the executor, as long as somebody wants their rows.
    Own { receiver: Receiver<Message>, _guard: CancelGuard },
    /// DataFusion's operators.
    Spilling(SendableRecordBatchStream),
}
