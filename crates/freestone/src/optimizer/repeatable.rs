//! Whether a query gives the same rows as long as its tables do not change.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};

use crate::provider::FreestoneTable;
use crate::recursion::KeyedQuery;
use crate::shared;
use crate::times::is_relative;

/// Whether a plan scans only native tables, and all its functions always return the same result for the same arguments.
pub(crate) fn is_repeatable(plan: &LogicalPlan) -> Result<bool> {
    let mut repeatable = true;
    shared::apply(plan, &mut |node| {
        repeatable &= match node {
            LogicalPlan::RecursiveQuery(_) => false,
            LogicalPlan::Extension(node) => !node.node.as_any().is::<KeyedQuery>(),
            // What was known of other tables may have become a constant.
            LogicalPlan::TableScan(scan) => FreestoneTable::is_present(scan),
            _ => true,
        };
        node.apply_expressions(|expression| {
            expression.apply(|e| {
                repeatable &= match e {
                    Expr::ScalarFunction(call) => call.func.signature().volatility == Volatility::Immutable,
                    Expr::ScalarVariable(..) => false,
                    _ => true,
                };
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(repeatable)
}

/// Whether a plan has texts such as `today`, which may be read as dates when it runs.
pub(crate) fn has_relative_texts(plan: &LogicalPlan) -> Result<bool> {
    let mut any = false;
    shared::apply(plan, &mut |node| {
        node.apply_expressions(|expression| {
            expression.apply(|e| {
                if let Expr::Literal(value, _) = e {
                    any |= value.try_as_str().flatten().is_some_and(is_relative);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(any)
}
