//! Plans statements with shared queries. Each query is planned once, for all of its scans.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef, Statistics, internal_err};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::{conjunction, disjunction};
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, LogicalPlanBuilder, TableScan, TableType, UserDefinedLogicalNode,
    UserDefinedLogicalNodeCore,
};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::output_requirements::OutputRequirements;
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext};
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};

use super::exec::{Body, SharedQueriesExec, SharedScanExec};
use super::resolve::SharedTable;
use crate::planning;
use crate::recursion::KeyedPlans;

/// The maximum number of scans whose filters are combined by OR and applied in the shared query.
const FILTERS_MAX: usize = 8;

/// DataFusion's query planner, extended by shared queries.
#[derive(Debug)]
pub(crate) struct SharedPlanner;

#[async_trait]
impl QueryPlanner for SharedPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        planning::check()?;
        let planned = match plan {
            LogicalPlan::Explain(explain) => with_shared(&explain.plan, session).await?.map(|main| {
                let mut explain = explain.clone();
                explain.plan = Arc::new(main);
                LogicalPlan::Explain(explain)
            }),
            LogicalPlan::Analyze(analyze) => with_shared(&analyze.input, session).await?.map(|main| {
                let mut analyze = analyze.clone();
                analyze.input = Arc::new(main);
                LogicalPlan::Analyze(analyze)
            }),
            main => with_shared(main, session).await?,
        };
        let planner =
            DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(PlannedQueries), Arc::new(KeyedPlans)]);
        planner.create_physical_plan(planned.as_ref().unwrap_or(plan), session).await
    }
}

/// A node that represents a plan with its shared queries, planned except for the physical rules; `None` if there are no
/// shared queries.
async fn with_shared(main: &LogicalPlan, session: &dyn Session) -> Result<Option<LogicalPlan>> {
    let mut wanted: BTreeMap<u64, Wanted> = BTreeMap::new();
    want_what_scans_do(main, &mut wanted)?;
    if wanted.is_empty() {
        return Ok(None);
    }
    let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
        return internal_err!("shared queries are planned by the engine's own sessions");
    };
    // Queries with larger ids read those with smaller ids. So when a query is planned, all requirements of its scans
    // are known.
    let mut optimized: Vec<(Wanted, LogicalPlan)> = vec![];
    while let Some((_, query)) = wanted.pop_last() {
        planning::check()?;
        let body = state.optimizer().optimize(query.body()?, state, |_, _| {})?;
        want_what_scans_do(&body, &mut wanted)?;
        optimized.push((query, body));
    }
    // The physical rules are applied to the whole plan later.
    let bare = SessionStateBuilder::new_from_existing(state.clone()).with_physical_optimizer_rules(vec![]).build();
    let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(KeyedPlans)]);
    let mut planned: HashMap<u64, Arc<PlannedTable>> = HashMap::new();
    let mut bodies = vec![];
    let mut texts = vec![];
    for (query, body) in optimized.into_iter().rev() {
        texts.push(format!("{}:\n{}", query.name, indented(&body.display_indent().to_string())));
        let plan = planner.create_physical_plan(&with_planned_scans(body, &planned)?, &bare).await?;
        planned.insert(query.id, Arc::new(PlannedTable::new(&query, &plan)?));
        bodies.push(Body { id: query.id, name: query.name, plan });
    }
    texts.push(main.display_indent().to_string());
    texts.reverse();
    let initial = planner.create_physical_plan(&with_planned_scans(main.clone(), &planned)?, &bare).await?;
    // The rule looks for the order of a query from the top of its plan down, and not below the shared queries.
    let initial = OutputRequirements::new_add_mode().optimize(initial, state.config_options())?;
    // As in `texts`, a query comes before those that it reads.
    bodies.reverse();
    let plan: Arc<dyn ExecutionPlan> = Arc::new(SharedQueriesExec::new(initial, bodies));
    let node = Planned { schema: main.schema().clone(), plan, text: texts.join("\n") };
    Ok(Some(LogicalPlan::Extension(Extension { node: Arc::new(node) })))
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// The columns and rows that the scans of one shared query require.
struct Wanted {
    id: u64,
    name: String,
    query: LogicalPlan,
    /// The query's columns with the names that its scans use.
    schema: SchemaRef,
    /// The positions of the required columns.
    columns: BTreeSet<usize>,
    /// The filters of each scan; `None` if a scan has no filter.
    filters: Option<Vec<Expr>>,
}

/// Adds the requirements of the scans of a plan.
fn want_what_scans_do(plan: &LogicalPlan, wanted: &mut BTreeMap<u64, Wanted>) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        let LogicalPlan::TableScan(scan) = node else { return Ok(TreeNodeRecursion::Continue) };
        let Ok(provider) = source_as_provider(&scan.source) else { return Ok(TreeNodeRecursion::Continue) };
        let Some(table) = provider.downcast_ref::<SharedTable>() else { return Ok(TreeNodeRecursion::Continue) };
        let query = wanted.entry(table.id).or_insert_with(|| Wanted {
            id: table.id,
            name: table.name.clone(),
            query: table.body.clone(),
            schema: table.schema(),
            columns: BTreeSet::new(),
            filters: Some(vec![]),
        });
        match &scan.projection {
            Some(projection) => query.columns.extend(projection),
            None => query.columns.extend(0..query.schema.fields().len()),
        }
        query.filters = match (query.filters.take(), conjunction(scan.filters.iter().cloned())) {
            (Some(mut all), Some(filter)) if all.len() < FILTERS_MAX => {
                if !all.contains(&filter) {
                    all.push(filter);
                }
                Some(all)
            }
            _ => None,
        };
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

impl Wanted {
    /// The positions of the columns to be computed, at least one.
    fn places(&self) -> Vec<usize> {
        if self.columns.is_empty() { vec![0] } else { self.columns.iter().copied().collect() }
    }

    /// The query, restricted to the required columns and rows.
    fn body(&self) -> Result<LogicalPlan> {
        let column = |at: usize| Expr::Column(Column::from(self.query.schema().qualified_field(at)));
        let mut builder = LogicalPlanBuilder::from(self.query.clone());
        if let Some(filter) = self.filters.clone().and_then(disjunction) {
            let filter = filter.transform(|e| match &e {
                Expr::Column(named) => Ok(Transformed::yes(column(self.schema.index_of(&named.name)?))),
                _ => Ok(Transformed::no(e)),
            })?;
            builder = builder.filter(filter.data)?;
        }
        builder.project(self.places().into_iter().map(column))?.build()
    }
}

/// Replaces the scans of shared queries in a plan by tables that can be planned.
fn with_planned_scans(plan: LogicalPlan, planned: &HashMap<u64, Arc<PlannedTable>>) -> Result<LogicalPlan> {
    let ready = |node: LogicalPlan| {
        let LogicalPlan::TableScan(scan) = &node else { return Ok(Transformed::no(node)) };
        let Ok(provider) = source_as_provider(&scan.source) else { return Ok(Transformed::no(node)) };
        let Some(shared) = provider.downcast_ref::<SharedTable>() else { return Ok(Transformed::no(node)) };
        let Some(table) = planned.get(&shared.id) else { return internal_err!("{} was not planned", shared.name) };
        let source = provider_as_source(table.clone());
        Ok(Transformed::yes(LogicalPlan::TableScan(TableScan { source, ..scan.clone() })))
    };
    Ok(plan.transform_up_with_subqueries(ready)?.data)
}

/// A planned shared query as a table.
#[derive(Debug)]
struct PlannedTable {
    id: u64,
    name: String,
    schema: SchemaRef,
    /// The position of each column of the table among the computed columns.
    places: HashMap<usize, usize>,
    statistics: Arc<Statistics>,
}

impl PlannedTable {
    fn new(query: &Wanted, plan: &Arc<dyn ExecutionPlan>) -> Result<Self> {
        let places = query.places().into_iter().enumerate().map(|(at, place)| (place, at)).collect();
        let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new())?;
        let (name, schema) = (query.name.clone(), query.schema.clone());
        Ok(PlannedTable { id: query.id, name, schema, places, statistics })
    }
}

#[async_trait]
impl TableProvider for PlannedTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let place = |column: &usize| match self.places.get(column) {
            Some(place) => Ok(*place),
            None => internal_err!("column {column} of the shared query {} is not computed", self.name),
        };
        let places = columns.iter().map(place).collect::<Result<Vec<usize>>>()?;
        let schema = Arc::new(self.schema.project(&columns)?);
        let statistics = Arc::new(self.statistics.as_ref().clone().project(Some(&places)));
        let partitions = session.config().target_partitions();
        let (id, name) = (self.id, self.name.clone());
        Ok(Arc::new(SharedScanExec::new(id, name, places, schema, statistics, partitions)))
    }
}

/// A statement's plan with its shared queries, as a leaf that is already planned.
#[derive(Debug, Clone)]
struct Planned {
    schema: DFSchemaRef,
    plan: Arc<dyn ExecutionPlan>,
    text: String,
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.plan, &other.plan)
    }
}

impl Eq for Planned {}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl Hash for Planned {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl UserDefinedLogicalNodeCore for Planned {
    fn name(&self) -> &str {
        "SharedQueries"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedQueries\n{}", indented(&self.text))
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, _: Vec<LogicalPlan>) -> Result<Self> {
        Ok(self.clone())
    }
}

struct PlannedQueries;

#[async_trait]
impl ExtensionPlanner for PlannedQueries {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        _: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        Ok(node.as_any().downcast_ref::<Planned>().map(|planned| planned.plan.clone()))
    }
}
