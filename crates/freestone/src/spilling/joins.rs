//! The operator of a join whose sides are divided.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinSide, NullEquality, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::JoinType;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalExprRef, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::joins::utils::{JoinFilter, JoinOn};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode, SortMergeJoinExec};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, SpillMetrics};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::future::{BoxFuture, Shared};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryFutureExt, TryStreamExt};
use parking_lot::Mutex;

use super::parts::{Divider, PARTS, Part};
use super::{in_one, is_out_of_memory};

/// How often the rows of a part are divided again at most.
const LEVELS_MAX: u32 = 4;

/// A join whose sides are divided into parts before they are joined part by part.
#[derive(Debug)]
pub(super) struct DividedJoinExec {
    join: Arc<Join>,
    left: Arc<dyn ExecutionPlan>,
    right: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// The parts of both sides, for all partitions.
    parts: Mutex<Option<Shared<BoxFuture<'static, Divided>>>>,
}

/// The pairs of parts, or the error of all partitions.
type Divided = std::result::Result<Arc<Vec<Pair>>, Arc<DataFusionError>>;

/// What a join is, without its sides.
#[derive(Debug)]
struct Join {
    on: JoinOn,
    filter: Option<JoinFilter>,
    join_type: JoinType,
    projection: Option<Vec<usize>>,
    null_equality: NullEquality,
    schema: SchemaRef,
    metrics: ExecutionPlanMetricsSet,
}

/// The rows of both sides whose keys may be equal.
#[derive(Debug, Clone)]
struct Pair {
    left: Part,
    right: Part,
    /// How often they have been divided.
    level: u32,
}

impl DividedJoinExec {
    /// The join of a hash join, whose rows come in this many partitions.
    ///
    /// # Errors
    /// It has no valid properties.
    pub fn new(join: &HashJoinExec, partitions: usize) -> Result<Self> {
        let metrics = ExecutionPlanMetricsSet::new();
        let divided = Join {
            on: join.on().to_vec(),
            filter: join.filter().cloned(),
            join_type: *join.join_type(),
            projection: join.projection.as_ref().map(|columns| columns.to_vec()),
            null_equality: join.null_equality(),
            schema: join.schema(),
            metrics: metrics.clone(),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(join.schema()),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        let (left, right) = (join.left().clone(), join.right().clone());
        let properties = Arc::new(properties);
        Ok(DividedJoinExec { join: Arc::new(divided), left, right, properties, metrics, parts: Mutex::default() })
    }

    /// The parts of both sides, which are divided once.
    fn parts(&self, context: &Arc<TaskContext>) -> Shared<BoxFuture<'static, Divided>> {
        let mut parts = self.parts.lock();
        let divide = || {
            let (join, context) = (self.join.clone(), context.clone());
            let (left, right) = (in_one(self.left.clone()), in_one(self.right.clone()));
            async move { join.pairs_of_plans(&left, &right, &context).await.map(Arc::new).map_err(Arc::new) }
                .boxed()
                .shared()
        };
        parts.get_or_insert_with(divide).clone()
    }
}

impl DisplayAs for DividedJoinExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DividedJoinExec: join_type={:?}", self.join.join_type)
    }
}

impl ExecutionPlan for DividedJoinExec {
    fn name(&self) -> &str {
        "DividedJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.left, &self.right]
    }

    fn apply_expressions(
        &self,
        on_expression: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for (left, right) in &self.join.on {
            on_expression(left)?;
            on_expression(right)?;
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([left, right]) = <[Arc<dyn ExecutionPlan>; 2]>::try_from(children) else {
            return internal_err!("a join has two sides");
        };
        let (join, metrics) = (self.join.clone(), self.metrics.clone());
        let properties = self.properties.clone();
        Ok(Arc::new(DividedJoinExec { join, left, right, properties, metrics, parts: Mutex::default() }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let partitions = self.properties.output_partitioning().partition_count();
        let (join, parts, schema) = (self.join.clone(), self.parts(&context), self.join.schema.clone());
        let rows = async move {
            let pairs = parts.await.map_err(DataFusionError::Shared)?;
            let own: Vec<Pair> = pairs.iter().skip(partition).step_by(partitions).cloned().collect();
            drop(pairs);
            Ok::<_, DataFusionError>(join.rows(own, context))
        };
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let rows = rows.try_flatten_stream().inspect_ok(move |batch| metrics.record_output(batch.num_rows()));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

impl Join {
    /// The rows of both plans as pairs of parts.
    async fn pairs_of_plans(
        &self,
        left: &Arc<dyn ExecutionPlan>,
        right: &Arc<dyn ExecutionPlan>,
        context: &Arc<TaskContext>,
    ) -> Result<Vec<Pair>> {
        let left = self.divided(left, JoinSide::Left, 0, context).await?;
        let right = self.divided(right, JoinSide::Right, 0, context).await?;
        Ok(pairs(left, right, 0))
    }

    /// The parts of one side.
    async fn divided(
        &self,
        side: &Arc<dyn ExecutionPlan>,
        which: JoinSide,
        level: u32,
        context: &Arc<TaskContext>,
    ) -> Result<Vec<Part>> {
        let key = |(left, right): &(PhysicalExprRef, PhysicalExprRef)| match which {
            JoinSide::Left => left.clone(),
            _ => right.clone(),
        };
        let keys = self.on.iter().map(key).collect();
        let divider = Divider { keys, null_equality: self.null_equality, level };
        let rows = side.execute(0, context.clone())?;
        divider.divide(rows, context, SpillMetrics::new(&self.metrics, 0)).await
    }

    /// The rows of pairs, which are joined one after the other.
    fn rows(self: &Arc<Self>, pairs: Vec<Pair>, context: Arc<TaskContext>) -> BoxStream<'static, Result<RecordBatch>> {
        let join = self.clone();
        futures::stream::iter(pairs).then(move |pair| join.clone().joined(pair, context.clone())).try_flatten().boxed()
    }

    /// The rows of one pair: joined in memory if there is enough, and otherwise divided again, or sorted if that is of no use.
    fn joined(
        self: Arc<Self>,
        pair: Pair,
        context: Arc<TaskContext>,
    ) -> BoxFuture<'static, Result<SendableRecordBatchStream>> {
        let work = async move {
            let mut rows = self.hashed(&pair)?.execute(0, context.clone())?;
            // All rows of one side are read before the first one is returned.
            match rows.next().await {
                None => return Ok(rows),
                Some(Ok(first)) => return Ok(self.stream(futures::stream::iter([Ok(first)]).chain(rows))),
                Some(Err(error)) if !is_out_of_memory(&error) => return Err(error),
                Some(Err(_)) => drop(rows),
            }
            match self.divided_again(&pair, &context).await? {
                Some(pairs) => Ok(self.stream(self.rows(pairs, context))),
                None => self.sorted(&pair)?.execute(0, context),
            }
        };
        work.boxed()
    }

    fn stream(
        &self,
        rows: impl futures::Stream<Item = Result<RecordBatch>> + Send + 'static,
    ) -> SendableRecordBatchStream {
        Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), rows))
    }

    /// A pair as smaller ones; `None` if they are not smaller, because most rows have one key.
    async fn divided_again(&self, pair: &Pair, context: &Arc<TaskContext>) -> Result<Option<Vec<Pair>>> {
        let level = pair.level + 1;
        if level > LEVELS_MAX {
            return Ok(None);
        }
        let left = self.divided(&pair.left.plan()?, JoinSide::Left, level, context).await?;
        let largest = left.iter().map(|part| part.rows).max().unwrap_or(0);
        if largest > pair.left.rows / 2 {
            return Ok(None);
        }
        let right = self.divided(&pair.right.plan()?, JoinSide::Right, level, context).await?;
        Ok(Some(pairs(left, right, level)))
    }

    /// The hash join of a pair.
    fn hashed(&self, pair: &Pair) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(HashJoinExec::try_new(
            pair.left.plan()?,
            pair.right.plan()?,
            self.on.clone(),
            self.filter.clone(),
            &self.join_type,
            self.projection.clone(),
            PartitionMode::CollectLeft,
            self.null_equality,
            false,
        )?))
    }

    /// The join of a pair by sorting, which needs memory for few rows.
    fn sorted(&self, pair: &Pair) -> Result<Arc<dyn ExecutionPlan>> {
        let sorted = |part: &Part, keys: Vec<PhysicalExprRef>| -> Result<Arc<dyn ExecutionPlan>> {
            let order = LexOrdering::new(keys.into_iter().map(PhysicalSortExpr::new_default));
            match order {
                Some(order) => Ok(Arc::new(SortExec::new(order, part.plan()?))),
                None => internal_err!("a join without keys is not divided"),
            }
        };
        let (left, right) = self.on.iter().cloned().unzip();
        let (left, right) = (sorted(&pair.left, left)?, sorted(&pair.right, right)?);
        let options = vec![SortOptions::default(); self.on.len()];
        let (on, filter) = (self.on.clone(), self.filter.clone());
        let join = SortMergeJoinExec::try_new(left, right, on, filter, self.join_type, options, self.null_equality)?;
        let Some(columns) = &self.projection else { return Ok(Arc::new(join)) };
        let schema: Arc<Schema> = join.schema();
        let column = |at: &usize| {
            let name = schema.field(*at).name();
            ProjectionExpr { expr: Arc::new(Column::new(name, *at)), alias: name.clone() }
        };
        let columns: Vec<ProjectionExpr> = columns.iter().map(column).collect();
        Ok(Arc::new(ProjectionExec::try_new(columns, Arc::new(join))?))
    }
}

/// The parts of both sides that belong together, if they may have results.
fn pairs(left: Vec<Part>, right: Vec<Part>, level: u32) -> Vec<Pair> {
    debug_assert_eq!((left.len(), right.len()), (PARTS, PARTS));
    let pairs = left.into_iter().zip(right).map(|(left, right)| Pair { left, right, level });
    pairs.filter(|pair| pair.left.rows + pair.right.rows > 0).collect()
}
