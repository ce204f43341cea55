//! The rows of a step of a recursive query are not divided among threads. They are mostly few, there are many steps, and each exchange
//! of each step starts tasks: half of the time of a step went there.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::work_table::WorkTableExec;

#[derive(Debug)]
pub(crate) struct WorkTables;

impl PhysicalOptimizerRule for WorkTables {
    fn name(&self) -> &str {
        "WorkTables"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| {
            let exchange = node.downcast_ref::<RepartitionExec>();
            let divides =
                exchange.filter(|exchange| matches!(exchange.partitioning(), Partitioning::RoundRobinBatch(_)));
            Ok(match divides.map(RepartitionExec::input).filter(|input| input.is::<WorkTableExec>()) {
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
