//! Dictionary evaluation in projections: expressions over one string column are evaluated once per distinct string.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;

use crate::expressions::dictionary::PerString;

/// Finds these expressions. It is the last rule, because other rules cannot analyze its result.
#[derive(Debug)]
pub(crate) struct DictionaryEvaluation;

impl PhysicalOptimizerRule for DictionaryEvaluation {
    fn name(&self) -> &str {
        "DictionaryEvaluation"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(projection) = node.downcast_ref::<ProjectionExec>() else { return Ok(Transformed::no(node)) };
            let schema = projection.input().schema();
            let mut found = false;
            let expressions = projection.expr().iter().map(|old| {
                let new = old.expr.clone().transform_down(|expr| PerString::wrap(expr, &schema))?;
                found |= new.transformed;
                Ok(ProjectionExpr { expr: new.data, alias: old.alias.clone() })
            });
            let expressions = expressions.collect::<Result<Vec<_>>>()?;
            if !found {
                return Ok(Transformed::no(node));
            }
            Ok(Transformed::yes(Arc::new(ProjectionExec::try_new(expressions, projection.input().clone())?) as _))
        })
        .map(|transformed| transformed.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}
