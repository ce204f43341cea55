//! Which operators keep the order in which rows come, down to the scans of shared queries.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::union::UnionExec;

use super::exec::SharedScanExec;

type Plan = Arc<dyn ExecutionPlan>;

/// The shared queries whose rows a plan gives in the order in which they come.
pub(super) fn queries_in_order(plan: &Plan) -> HashSet<u64> {
    let mut found = HashSet::new();
    let mut open = vec![plan];
    while let Some(plan) = open.pop() {
        if let Some(scan) = plan.downcast_ref::<SharedScanExec>() {
            found.insert(scan.id());
        } else if passes_rows(plan) || dealt(plan).is_some() {
            open.extend(plan.children());
        }
    }
    found
}

/// Whether rows leave an operator in the order of its input, or of its inputs one behind the other.
pub(crate) fn passes_rows(plan: &Plan) -> bool {
    plan.is::<ProjectionExec>()
        || plan.is::<FilterExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<LocalLimitExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<UnionExec>()
}

/// The input of an operator that distributes rows to threads in turn.
pub(crate) fn dealt(plan: &Plan) -> Option<&Plan> {
    let repartition = plan.downcast_ref::<RepartitionExec>()?;
    matches!(repartition.partitioning(), Partitioning::RoundRobinBatch(_)).then(|| repartition.input())
}
