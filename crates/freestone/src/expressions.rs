//! Changes to the expressions of a logical plan, and their making.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, binary_expr};

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

/// The parts joined by AND or OR in a tree that is as deep as the logarithm of their number: whatever walks a chain of
/// thousands of them otherwise needs as many frames, and rules that look for one operand within the other square their number.
pub(crate) fn balanced(mut parts: Vec<Expr>, op: Operator) -> Option<Expr> {
    while parts.len() > 1 {
        let mut pairs = Vec::with_capacity(parts.len().div_ceil(2));
        let mut rest = parts.into_iter();
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => binary_expr(left, op, right),
                None => left,
            });
        }
        parts = pairs;
    }
    parts.pop()
}
