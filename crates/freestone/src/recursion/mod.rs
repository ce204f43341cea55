//! Recursive queries: `WITH RECURSIVE`.
//!
//! Rows of the first term are those of the first step; the recursive term makes the rows of each step of those of the step before,
//! which it reads as a table. The executor runs steps that it knows, see `fusion`; [`RecursionExec`] runs the others.

mod exec;
mod keyed;
mod table;

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, reset_plan_states};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};

pub(crate) use exec::RecursionExec;
pub(crate) use keyed::{KeyedPlans, KeyedQuery, KeyedRecursionExec};
pub(crate) use table::{WorkingRows, WorkingScanExec, WorkingTable};

/// Whether a plan reads the rows of a step of a recursive query around it, so that it has other rows in each step.
pub(crate) fn reads_outer_step(plan: &LogicalPlan) -> bool {
    let (mut read, mut own): (HashSet<String>, HashSet<String>) = Default::default();
    let seen = plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::RecursiveQuery(query) => _ = own.insert(query.name.clone()),
            LogicalPlan::Extension(extension) => {
                let query = extension.node.as_any().downcast_ref::<KeyedQuery>();
                own.extend(query.into_iter().flat_map(KeyedQuery::tables).map(str::to_owned));
            }
            LogicalPlan::TableScan(scan) => {
                if let Ok(provider) = source_as_provider(&scan.source)
                    && let Some(table) = provider.downcast_ref::<WorkingTable>()
                {
                    read.insert(table.name.clone());
                }
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    });
    seen.is_err() || !read.is_subset(&own)
}

/// DataFusion's recursive queries, whose terms may read the rows of the step before only once, become ours.
#[derive(Debug)]
pub(crate) struct Recursions;

impl PhysicalOptimizerRule for Recursions {
    fn name(&self) -> &str {
        "Recursions"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| match node.downcast_ref::<RecursiveQueryExec>() {
            Some(query) => Ok(Transformed::yes(Arc::new(RecursionExec::of(query)?) as _)),
            None => Ok(Transformed::no(node)),
        })?;
        Ok(changed.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The rows of a plan that runs again and again.
fn run_again(plan: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
    reset_plan_states(plan.clone())?.execute(0, context.clone())
}

/// The properties of rows of this schema that come one by one, in no order.
fn one_partition(schema: SchemaRef) -> PlanProperties {
    PlanProperties::new(
        EquivalenceProperties::new(schema),
        Partitioning::UnknownPartitioning(1),
        EmissionType::Incremental,
        Boundedness::Bounded,
    )
}

/// The rows of a step are not divided among threads. They are mostly few, there are many steps, and each exchange of each step starts
/// tasks: half of the time of a step went there.
#[derive(Debug)]
pub(crate) struct WorkingTables;

impl PhysicalOptimizerRule for WorkingTables {
    fn name(&self) -> &str {
        "WorkingTables"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| {
            let exchange = node.downcast_ref::<RepartitionExec>();
            let divides =
                exchange.filter(|exchange| matches!(exchange.partitioning(), Partitioning::RoundRobinBatch(_)));
            Ok(match divides.map(RepartitionExec::input).filter(|input| input.is::<WorkingScanExec>()) {
                Some(rows) => Transformed::yes(rows.clone()),
                None => Transformed::no(node),
            })
        })?;
        Ok(changed.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}
