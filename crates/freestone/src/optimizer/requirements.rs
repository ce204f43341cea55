//! The last check of a plan: each operator gets its rows distributed and in the order that it needs.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_plan::ExecutionPlan;

use super::Rule;

/// The name of the check in DataFusion.
pub(super) const CHECK: &str = "SanityCheckPlan";

/// That check. Rules before it may lose what an exchange or a sort was left out for, such as two equal columns (`WHERE c = k` that has
/// moved below a window): then these are put in, instead of an error.
#[derive(Debug)]
pub(super) struct Requirements {
    pub check: Rule,
}

impl PhysicalOptimizerRule for Requirements {
    fn name(&self) -> &str {
        CHECK
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, options: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        match self.check.optimize(plan.clone(), options) {
            Err(_) => self.check.optimize(EnsureRequirements::new().optimize(plan, options)?, options),
            checked => checked,
        }
    }

    fn schema_check(&self) -> bool {
        true
    }
}
