//! The operator: each partition takes morsels of the scan from one queue, and returns its states when the queue is
//! empty.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions, SchedulingType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use freestone_advisor::Output;
use freestone_store::Snapshot;
use freestone_store::scan::{Cursor, MorselQueue, Morsels};
use futures::Stream;

use super::Aggregation;
use super::states::{States, external, state_bytes};
use crate::provider::FreestoneSource;

/// A partial aggregation within a scan.
#[derive(Debug)]
pub struct ScanAggregateExec {
    aggregation: Arc<Aggregation>,
    scan: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    /// The queue of all partitions, which the first one creates.
    queue: OnceLock<Arc<MorselQueue>>,
    metrics: ExecutionPlanMetricsSet,
}

impl ScanAggregateExec {
    /// `equal` contains the equal and constant columns of the replaced aggregation, because sorts above were dropped
    /// for them.
    pub(super) fn new(
        aggregation: Arc<Aggregation>,
        scan: Arc<dyn ExecutionPlan>,
        mut equal: EquivalenceProperties,
    ) -> Self {
        let partitions = scan.output_partitioning().partition_count();
        equal.clear_orderings();
        let properties = PlanProperties::new(
            equal,
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        ScanAggregateExec {
            aggregation,
            scan,
            // A partition yields after each morsel.
            properties: Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative)),
            queue: OnceLock::new(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// How the rows of the scan are used, for the workload log.
    pub fn output(&self) -> Output {
        if self.aggregation.is_of_zones() { Output::ZoneAggregate } else { Output::Aggregate }
    }

    /// The grouping columns, as positions in the scan. They are the first columns of the output.
    pub fn group_places(&self) -> impl Iterator<Item = usize> {
        self.aggregation.groups.places()
    }

    fn queue(&self) -> Result<Arc<MorselQueue>> {
        let Some(source) = FreestoneSource::of(&self.scan) else {
            return internal_err!("an aggregation without its scan");
        };
        if let Some(queue) = self.queue.get() {
            return Ok(queue.clone());
        }
        let queue = source.queue(self.scan.output_partitioning().partition_count())?;
        Ok(self.queue.get_or_init(|| queue).clone())
    }
}

impl DisplayAs for ScanAggregateExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.schema().fields().iter().map(|field| field.name().clone()).collect();
        write!(f, "ScanAggregateExec: groups={}, states=[{}]", self.aggregation.groups.count(), names.join(", "))
    }
}

impl ExecutionPlan for ScanAggregateExec {
    fn name(&self) -> &str {
        "ScanAggregateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.scan]
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
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(scan) if FreestoneSource::of(&scan).is_some() => {
                let equal = self.properties.eq_properties.clone();
                Ok(Arc::new(ScanAggregateExec::new(self.aggregation.clone(), scan, equal)))
            }
            _ => internal_err!("an aggregation inside a scan needs its scan"),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let options =
            ReplaceChildrenOptions::new(datafusion::physical_plan::execution_plan::ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(source) = FreestoneSource::of(&self.scan) else {
            return internal_err!("an aggregation without its scan");
        };
        let reservation = MemoryConsumer::new("ScanAggregateExec").register(context.memory_pool());
        reservation.try_grow(state_bytes(&self.aggregation))?;
        Ok(Box::pin(StateStream {
            _snapshot: source.shared_snapshot(),
            _reservation: reservation,
            morsels: Morsels::new(self.queue()?),
            cursor: source.cursor(0),
            states: States::new(self.aggregation.clone()),
            groups: None,
            batch_rows: context.session_config().batch_size(),
            schema: self.schema(),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

struct StateStream {
    /// Pins the files while rows are read.
    _snapshot: Option<Arc<Snapshot>>,
    _reservation: MemoryReservation,
    morsels: Morsels,
    cursor: Cursor,
    states: States,
    /// The groups to return after all morsels.
    groups: Option<std::vec::IntoIter<usize>>,
    batch_rows: usize,
    schema: SchemaRef,
    metrics: BaselineMetrics,
}

impl StateStream {
    /// Aggregates one morsel; `false` if none was left.
    fn advance(&mut self) -> Result<bool> {
        let Some((morsel, next)) = self.morsels.take() else { return Ok(false) };
        self.cursor.scan_into(&morsel, next.as_ref(), &mut self.states).map_err(external)?;
        Ok(true)
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let states = &self.states;
        let groups = self.groups.get_or_insert_with(|| states.groups().into_iter());
        let some: Vec<usize> = groups.take(self.batch_rows).collect();
        if some.is_empty() {
            return Ok(None);
        }
        let columns = self.states.columns(&some, &self.schema)?;
        let options = RecordBatchOptions::new().with_row_count(Some(some.len()));
        Ok(Some(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?))
    }
}

impl Stream for StateStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let metrics = self.metrics.clone();
        let timer = metrics.elapsed_compute().timer();
        if self.groups.is_none() {
            match self.advance() {
                Ok(true) => {
                    // Other tasks may run, and a cancelled query ends here.
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Ok(false) => {}
                Err(error) => {
                    self.groups = Some(vec![].into_iter());
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        let batch = self.next_batch().transpose();
        timer.done();
        self.metrics.record_poll(Poll::Ready(batch))
    }
}

impl RecordBatchStream for StateStream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
