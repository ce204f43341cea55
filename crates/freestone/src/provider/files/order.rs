//! Preserves the order of the rows of files if no operator between the scan and the result changes it. So `SELECT *
//! FROM 'f.csv'` and its `LIMIT` return rows in the order of the file.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning, replace_children_if_necessary};

use super::source::FilesSource;

/// Makes scans of files ordered if the order is visible in the result.
#[derive(Debug)]
pub(crate) struct KeepFileOrder;

impl PhysicalOptimizerRule for KeepFileOrder {
    fn name(&self) -> &str {
        "KeepFileOrder"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        in_order(plan)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn in_order(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(source) = FilesSource::of(&plan) {
        return Ok(match source.ordered() {
            Some(source) => DataSourceExec::from_data_source(source),
            None => plan,
        });
    }
    if let Some(dealt) = plan.downcast_ref::<RepartitionExec>() {
        // Rows are distributed to threads in any order.
        let is_dealt = matches!(dealt.partitioning(), Partitioning::RoundRobinBatch(_));
        if !is_dealt || !leads_to_files(dealt.input()) {
            return Ok(plan);
        }
        return in_order(dealt.input().clone());
    }
    if !passes_in_order(&plan) || !leads_to_files(&plan) {
        return Ok(plan);
    }
    let children = plan.children().into_iter().cloned().map(in_order).collect::<Result<Vec<_>>>()?;
    replace_children_if_necessary(plan, children)
}

/// Whether an operator preserves the order of the rows of one partition.
fn passes_in_order(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<ProjectionExec>()
        || plan.is::<FilterExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<LocalLimitExec>()
        || plan.is::<CooperativeExec>()
}

/// Whether only such operators are above a scan of files.
fn leads_to_files(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if FilesSource::of(plan).is_some() {
        return true;
    }
    let is_dealt = plan
        .downcast_ref::<RepartitionExec>()
        .is_some_and(|dealt| matches!(dealt.partitioning(), Partitioning::RoundRobinBatch(_)));
    match plan.children().as_slice() {
        [child] if is_dealt || passes_in_order(plan) => leads_to_files(child),
        _ => false,
    }
}
