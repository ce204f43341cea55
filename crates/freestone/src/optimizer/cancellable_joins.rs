//! Plans that stop when their statement is cancelled, even within a join that finds nothing.
//!
//! DataFusion's operators yield after a number of batches of their inputs. A join returns many batches for one of its
//! input. A nested-loop join with a condition compares all rows of one side with a batch of the other before it yields.
//! With millions of rows this takes minutes, during which a statement could not be cancelled. So joins yield by their
//! output, and their conditions, which are evaluated for a few thousand pairs at a time, fail after the statement was
//! cancelled.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder};

use crate::context::Cancellation;
use crate::expressions::watched::Watched;

/// Makes the joins of a plan stop with one statement. It is applied per run, before the rule for dynamic filters.
#[derive(Debug)]
pub(crate) struct CancellableJoins(pub Cancellation);

impl PhysicalOptimizerRule for CancellableJoins {
    fn name(&self) -> &str {
        "CancellableJoins"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let stop = |node: Arc<dyn ExecutionPlan>| {
            let join = if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
                let filter = join.filter().map(|filter| Watched::filter(filter, &self.0));
                Arc::new(NestedLoopJoinExecBuilder::from(join).with_filter(filter).build()?)
            } else if let Some(join) = node.downcast_ref::<HashJoinExec>() {
                let filter = join.filter().map(|filter| Watched::filter(filter, &self.0));
                join.builder().with_filter(filter).build_exec()?
            } else if node.downcast_ref::<CrossJoinExec>().is_some() {
                node
            } else {
                return Ok(Transformed::no(node));
            };
            Ok(Transformed::yes(Arc::new(CooperativeExec::new(join)) as _))
        };
        plan.transform_up(stop).map(|transformed| transformed.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}
