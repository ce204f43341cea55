//! Changes to the expressions of a logical plan.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// The node with its expressions changed from their leaves up; they keep their names. `change` is given what the expressions read.
pub(crate) fn changed(
    plan: LogicalPlan,
    change: impl Fn(Expr, &DFSchema) -> Transformed<Expr>,
) -> Result<Transformed<LogicalPlan>> {
    let schema = merge_schema(&plan.inputs());
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expression| {
        let name = names.save(&expression);
        let changed = expression.transform_up(|e| Ok(change(e, &schema)))?;
        Ok(changed.update_data(|e| name.restore(e)))
    })
}
