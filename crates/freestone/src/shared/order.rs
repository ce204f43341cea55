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
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::union::UnionExec;

use super::exec::SharedScanExec;

type Plan = Arc<dyn ExecutionPlan>;

/// The shared queries whose rows a plan gives in the order in which they come, or among which a LIMIT within it chooses.
pub(super) fn queries_in_order(plan: &Plan) -> HashSet<u64> {
    let mut found = HashSet::new();
    let mut open = vec![(plan, true)];
    while let Some((plan, is_ordered)) = open.pop() {
        if let Some(scan) = plan.downcast_ref::<SharedScanExec>().filter(|_| is_ordered) {
            found.insert(scan.id());
        }
        let passes = is_ordered && (passes_rows(plan) || dealt(plan).is_some());
        let is_ordered = passes || plan.is::<GlobalLimitExec>();
        open.extend(plan.children().into_iter().map(|child| (child, is_ordered)));
    }
    found
}

/// Whether rows leave an operator in the order of its input, or of its inputs one behind the other. Of scalar subqueries, too: which
/// row a LIMIT leaves is their value.
pub(crate) fn passes_rows(plan: &Plan) -> bool {
    plan.is::<ProjectionExec>()
        || plan.is::<FilterExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<LocalLimitExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<UnionExec>()
        || plan.is::<ScalarSubqueryExec>()
}

/// The input of an operator that distributes rows to threads in turn.
pub(crate) fn dealt(plan: &Plan) -> Option<&Plan> {
    let repartition = plan.downcast_ref::<RepartitionExec>()?;
    matches!(repartition.partitioning(), Partitioning::RoundRobinBatch(_)).then(|| repartition.input())
}
