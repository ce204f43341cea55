//! Keys of hash joins in their normal form. DataFusion's hash joins compare several keys, and keys with parts, by their
//! bits: `-0.0` would find no `0.0`, and `1 month` no `30 days`.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::{PhysicalExprRef, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;

use crate::exact::normal_form::has_normal_form;
use crate::exact::{Canonical, key_function};

/// The rule. It runs before rows are partitioned by these keys.
#[derive(Debug)]
pub(super) struct JoinKeyForms;

impl PhysicalOptimizerRule for JoinKeyForms {
    fn name(&self) -> &str {
        "JoinKeyForms"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, options: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let options = Arc::new(options.clone());
        let in_join = |node: Arc<dyn ExecutionPlan>| {
            let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(node)) };
            let on = join.on().iter().map(|(left, right)| {
                Ok((in_form(left, join.left(), &options)?, in_form(right, join.right(), &options)?))
            });
            let on: Vec<(PhysicalExprRef, PhysicalExprRef)> = on.collect::<Result<_>>()?;
            let changed =
                on.iter().zip(join.on()).any(|(new, old)| !Arc::ptr_eq(&new.0, &old.0) || !Arc::ptr_eq(&new.1, &old.1));
            if !changed {
                return Ok(Transformed::no(node));
            }
            Ok(Transformed::yes(join.builder().with_on(on).build_exec()?))
        };
        plan.transform_up(in_join).map(|transformed| transformed.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The key in its normal form, if its type needs one.
fn in_form(
    key: &PhysicalExprRef,
    side: &Arc<dyn ExecutionPlan>,
    options: &Arc<ConfigOptions>,
) -> Result<PhysicalExprRef> {
    let function = ScalarFunctionExpr::try_downcast_func::<Canonical>(key.as_ref());
    let is_changed =
        function.is_some_and(|call| call.fun().inner().downcast_ref().is_some_and(Canonical::changes_zeros));
    if is_changed || !has_normal_form(&key.data_type(&side.schema())?) {
        return Ok(key.clone());
    }
    let schema = side.schema();
    Ok(Arc::new(ScalarFunctionExpr::try_new(key_function(), vec![key.clone()], &schema, options.clone())?))
}
