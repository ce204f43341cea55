//! The operators of shared queries: one at the top of the plan, which owns the queries, and the scans of their rows.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Statistics, internal_datafusion_err, internal_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, StatisticsArgs,
};

use super::order::queries_in_order;
use super::rows::Rows;

/// A shared query of a plan.
#[derive(Debug, Clone)]
pub(super) struct Body {
    pub id: u64,
    pub name: String,
    pub plan: Arc<dyn ExecutionPlan>,
}

/// A plan with the shared queries that its scans read.
#[derive(Debug)]
pub(crate) struct SharedQueriesExec {
    main: Arc<dyn ExecutionPlan>,
    bodies: Vec<Body>,
    /// The rows of each query, for one run.
    rows: Vec<Arc<Rows>>,
}

impl SharedQueriesExec {
    pub(super) fn new(main: Arc<dyn ExecutionPlan>, bodies: Vec<Body>) -> Self {
        SharedQueriesExec { main, bodies, rows: vec![] }
    }

    /// The plan that reads the queries.
    pub fn main(&self) -> &Arc<dyn ExecutionPlan> {
        &self.main
    }

    /// The places among the children of the queries that others read in order.
    pub fn read_in_order(&self) -> HashSet<usize> {
        let mut wanted = queries_in_order(&self.main);
        // A query reads those before it.
        for body in self.bodies.iter().rev() {
            if wanted.contains(&body.id) {
                wanted.extend(queries_in_order(&body.plan));
            }
        }
        (1..).zip(&self.bodies).filter(|(_, body)| wanted.contains(&body.id)).map(|(at, _)| at).collect()
    }

    /// The same with another plan, and the queries that are read in order changed.
    ///
    /// # Errors
    /// A query cannot be changed so.
    pub fn in_order(
        &self,
        main: Arc<dyn ExecutionPlan>,
        change: impl Fn(&Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let wanted = self.read_in_order();
        let body = |(at, body): (usize, &Body)| match wanted.contains(&at) {
            true => Ok(Body { plan: change(&body.plan)?, ..body.clone() }),
            false => Ok(body.clone()),
        };
        let bodies = (1..).zip(&self.bodies).map(body).collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(SharedQueriesExec { main, bodies, rows: self.rows.clone() }))
    }
}

impl DisplayAs for SharedQueriesExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.bodies.iter().map(|body| body.name.as_str()).collect();
        write!(f, "SharedQueriesExec: [{}]", names.join(", "))
    }
}

impl ExecutionPlan for SharedQueriesExec {
    fn name(&self) -> &str {
        "SharedQueriesExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.main.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        std::iter::once(&self.main).chain(self.bodies.iter().map(|body| &body.plan)).collect()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        std::iter::once(true).chain(self.bodies.iter().map(|_| false)).collect()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; 1 + self.bodies.len()]
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
        let mut children = children.into_iter();
        let main = children.next().ok_or_else(|| internal_datafusion_err!("shared queries without a plan"))?;
        if children.len() != self.bodies.len() {
            return internal_err!("{} shared queries for {}", children.len(), self.bodies.len());
        }
        let bodies = self.bodies.iter().zip(children).map(|(body, plan)| Body { plan, ..body.clone() });
        Ok(Arc::new(SharedQueriesExec { main, bodies: bodies.collect(), rows: self.rows.clone() }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if self.rows.len() != self.bodies.len() {
            return internal_err!("shared queries that are not connected to their scans");
        }
        for (rows, body) in self.rows.iter().zip(&self.bodies) {
            rows.come_from(&body.plan, &context);
        }
        self.main.execute(partition, context)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        std::iter::once(ChildStats::At(partition)).chain(self.bodies.iter().map(|_| ChildStats::Skip)).collect()
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        inputs.first().cloned().ok_or_else(|| internal_datafusion_err!("shared queries without a plan"))
    }
}

/// A scan of the rows of a shared query.
#[derive(Debug)]
pub(crate) struct SharedScanExec {
    id: u64,
    query: String,
    /// The positions of its columns in the query's rows.
    places: Vec<usize>,
    statistics: Arc<Statistics>,
    properties: Arc<PlanProperties>,
    rows: Option<Arc<Rows>>,
    metrics: ExecutionPlanMetricsSet,
}

impl SharedScanExec {
    pub(super) fn new(
        id: u64,
        query: String,
        places: Vec<usize>,
        schema: SchemaRef,
        statistics: Arc<Statistics>,
        partitions: usize,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions.max(1)),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let (properties, metrics) = (Arc::new(properties), ExecutionPlanMetricsSet::new());
        SharedScanExec { id, query, places, statistics, properties, rows: None, metrics }
    }

    /// The query that it reads.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The same scan in one partition, which has the rows in the order in which the query gives them.
    pub fn in_one_partition(&self) -> Arc<dyn ExecutionPlan> {
        let properties =
            PlanProperties::clone(&self.properties).with_partitioning(Partitioning::UnknownPartitioning(1));
        let (query, places, statistics) = (self.query.clone(), self.places.clone(), self.statistics.clone());
        let (properties, rows, metrics) = (Arc::new(properties), self.rows.clone(), self.metrics.clone());
        Arc::new(SharedScanExec { id: self.id, query, places, statistics, properties, rows, metrics })
    }

    fn connected(&self, rows: Option<Arc<Rows>>) -> Arc<dyn ExecutionPlan> {
        Arc::new(SharedScanExec {
            id: self.id,
            query: self.query.clone(),
            places: self.places.clone(),
            statistics: self.statistics.clone(),
            properties: self.properties.clone(),
            rows,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

impl DisplayAs for SharedScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.schema().fields().iter().map(|field| field.name().clone()).collect();
        write!(f, "SharedScanExec: {}, columns=[{}]", self.query, names.join(", "))
    }
}

impl ExecutionPlan for SharedScanExec {
    fn name(&self) -> &str {
        "SharedScanExec"
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
        if children.is_empty() { Ok(self) } else { internal_err!("a scan has no inputs") }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(rows) = &self.rows else {
            return internal_err!("a scan of {} that is not connected to its query", self.query);
        };
        let partitions = self.properties.partitioning.partition_count();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        Ok(rows.clone().read(self.schema(), self.places.clone(), (partition, partitions), metrics))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        match args.partition() {
            None => Ok(self.statistics.clone()),
            Some(_) => Ok(Arc::new(Statistics::new_unknown(&self.schema()))),
        }
    }
}

/// Whether an operator is the scan of a shared query.
pub(crate) fn is_scan(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.downcast_ref::<SharedScanExec>().is_some()
}

/// Connects the scans of shared queries to their rows, for one run of a plan.
#[derive(Debug)]
pub(crate) struct Connect;

impl PhysicalOptimizerRule for Connect {
    fn name(&self) -> &str {
        "ConnectSharedQueries"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if !plan.exists(|node| Ok(node.downcast_ref::<SharedQueriesExec>().is_some()))? {
            return Ok(plan);
        }
        let mut by_id: HashMap<u64, Arc<Rows>> = HashMap::new();
        let connect = |node: Arc<dyn ExecutionPlan>| {
            let mut rows_of = |id: u64| by_id.entry(id).or_default().clone();
            if let Some(scan) = node.downcast_ref::<SharedScanExec>() {
                let rows = rows_of(scan.id);
                return Ok(Transformed::yes(scan.connected(Some(rows))));
            }
            let Some(queries) = node.downcast_ref::<SharedQueriesExec>() else { return Ok(Transformed::no(node)) };
            let rows = queries.bodies.iter().map(|body| rows_of(body.id)).collect();
            let (main, bodies) = (queries.main.clone(), queries.bodies.clone());
            Ok(Transformed::yes(Arc::new(SharedQueriesExec { main, bodies, rows }) as _))
        };
        plan.transform_up(connect).map(|transformed| transformed.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}
