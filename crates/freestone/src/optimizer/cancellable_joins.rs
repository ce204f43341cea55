//! Plans that stop when their statement is cancelled, even within a join that finds nothing.
//!
//! DataFusion's operators yield after a number of batches of their inputs. A join returns many batches for one of its
//! input. A nested-loop join with a condition compares all rows of one side with a batch of the other before it yields.
//! With millions of rows this takes minutes, during which a statement could not be cancelled. So joins yield by their
//! output, and their conditions, which are evaluated for a few thousand pairs at a time, fail after the statement was
//! cancelled.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{FieldRef, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder};

use crate::context::Cancellation;

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
                let filter = join.filter().map(|filter| self.watched(filter));
                Arc::new(NestedLoopJoinExecBuilder::from(join).with_filter(filter).build()?)
            } else if let Some(join) = node.downcast_ref::<HashJoinExec>() {
                let filter = join.filter().map(|filter| self.watched(filter));
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

impl CancellableJoins {
    fn watched(&self, filter: &JoinFilter) -> JoinFilter {
        let watched = Watched { condition: filter.expression().clone(), cancellation: self.0.clone() };
        JoinFilter::new(Arc::new(watched), filter.column_indices().to_vec(), filter.schema().clone())
    }
}

/// A condition that fails after its statement was cancelled.
#[derive(Debug)]
struct Watched {
    condition: Arc<dyn PhysicalExpr>,
    cancellation: Cancellation,
}

impl PartialEq for Watched {
    fn eq(&self, other: &Self) -> bool {
        self.condition.eq(&other.condition)
    }
}

impl Eq for Watched {}

impl Hash for Watched {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt(f)
    }
}

impl PhysicalExpr for Watched {
    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.condition.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.cancellation.check()?;
        self.condition.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.condition]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let condition = children.into_iter().next().unwrap_or_else(|| self.condition.clone());
        Ok(Arc::new(Watched { condition, cancellation: self.cancellation.clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt_sql(f)
    }
}
