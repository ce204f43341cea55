//! Two subqueries that call `random()` or `nextval()` are two, even if their texts are equal. DataFusion evaluates equal
//! subqueries once. So the first rule gives the plan of each such subquery a name of its own.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery, SubqueryAlias};
use datafusion::optimizer::AnalyzerRule;

/// The rule.
#[derive(Debug)]
pub(crate) struct VolatileSubqueries;

impl AnalyzerRule for VolatileSubqueries {
    fn name(&self) -> &str {
        "volatile_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut count = 0;
        let named = plan.transform_up_with_subqueries(|node| {
            node.map_expressions(|expression| expression.transform_up(|e| named(e, &mut count)))
        })?;
        Ok(named.data)
    }
}

fn named(mut expression: Expr, count: &mut usize) -> Result<Transformed<Expr>> {
    let subquery: &mut Subquery = match &mut expression {
        Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) => subquery,
        _ => return Ok(Transformed::no(expression)),
    };
    // A name is for columns with different names.
    if subquery.subquery.schema().fields().len() != 1 || !is_volatile(&subquery.subquery)? {
        return Ok(Transformed::no(expression));
    }
    *count += 1;
    let alias = SubqueryAlias::try_new(subquery.subquery.clone(), format!("__volatile_{count}"))?;
    subquery.subquery = Arc::new(LogicalPlan::SubqueryAlias(alias));
    Ok(Transformed::yes(expression))
}

fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|e| {
            found |= e.is_volatile();
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(found)
}
