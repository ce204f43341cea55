//! The first rows of an order, if they are many: all rows are sorted. DataFusion keeps them in a heap, which takes more
//! memory, cannot spill, and was ten times slower for half of six million rows.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::sorts::sort::SortExec;

use super::offsets::NO_LIMIT;

/// The least number of rows that is not kept in a heap.
const MANY_ROWS: usize = 1 << 16;

#[derive(Debug)]
pub(crate) struct LargeFetch;

impl PhysicalOptimizerRule for LargeFetch {
    fn name(&self) -> &str {
        "LargeFetch"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| {
            let Some((sort, rows)) = node.downcast_ref::<SortExec>().and_then(|sort| Some((sort, sort.fetch()?)))
            else {
                return Ok(Transformed::no(node));
            };
            if rows < MANY_ROWS {
                return Ok(Transformed::no(node));
            }
            let by_partition = sort.preserve_partitioning();
            let all = SortExec::new(sort.expr().clone(), sort.input().clone()).with_preserve_partitioning(by_partition);
            let all: Arc<dyn ExecutionPlan> = Arc::new(all);
            Ok(Transformed::yes(match by_partition {
                _ if rows == NO_LIMIT => all,
                true => Arc::new(LocalLimitExec::new(all, rows)) as _,
                false => Arc::new(GlobalLimitExec::new(all, 0, Some(rows))) as _,
            }))
        })?;
        Ok(changed.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}
