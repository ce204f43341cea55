//! The rule by which scans read fields of structs instead of structs.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use super::FreestoneSource;

/// Lets the projections above scans read fields of structs instead of structs.
#[derive(Debug)]
pub struct ReadFields;

impl PhysicalOptimizerRule for ReadFields {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| {
            let Some(projection) = node.downcast_ref::<ProjectionExec>() else { return Ok(Transformed::no(node)) };
            let Some(source) = FreestoneSource::of(projection.input()) else { return Ok(Transformed::no(node)) };
            let given = projection.expr();
            let expressions: Vec<_> = given.iter().map(|named| named.expr.clone()).collect();
            let Some((source, expressions)) = source.reading_fields(&expressions)? else {
                return Ok(Transformed::no(node));
            };
            let named = expressions.into_iter().zip(given);
            let named = named.map(|(expr, named)| ProjectionExpr { expr, alias: named.alias.clone() });
            let input = DataSourceExec::from_data_source(source);
            Ok(Transformed::yes(Arc::new(ProjectionExec::try_new(named, input)?) as Arc<dyn ExecutionPlan>))
        })?;
        Ok(changed.data)
    }

    fn name(&self) -> &str {
        "ReadFields"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
