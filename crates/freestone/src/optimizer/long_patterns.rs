//! LIKE with patterns that take long to match.
//!
//! Arrow matches a pattern with several wildcards by a regular expression, which takes time in proportion to the product of
//! the lengths of text and pattern, in one call that nothing can stop; and it compiles the expression again for each row
//! where patterns come from a column. Long patterns, and those that are not constant, are matched by a function of ours.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, Like, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use crate::expressions;
use crate::scalars;

/// Constant patterns of more bytes are long.
const SHORT_BYTES: usize = 256;

#[derive(Debug)]
pub(crate) struct LongPatterns;

impl AnalyzerRule for LongPatterns {
    fn name(&self) -> &str {
        "long_patterns"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut found = false;
        plan.apply_with_subqueries(|node| {
            node.apply_expressions(|expression| {
                found |= expression.exists(|e| Ok(is_long(e)))?;
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })?;
        if !found {
            return Ok(plan);
        }
        Ok(plan.transform_up_with_subqueries(|node| expressions::changed(node, matched))?.data)
    }
}

fn is_long(expression: &Expr) -> bool {
    let Expr::Like(Like { expr, pattern, escape_char: None, .. }) = expression else { return false };
    match &**pattern {
        Expr::Literal(value, _) => value.try_as_str().flatten().is_some_and(|text| text.len() > SHORT_BYTES),
        // Constant ones are computed later, and may end in the scan.
        other => other.any_column_refs() || !expr.any_column_refs(),
    }
}

fn matched(expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
    if !is_long(&expression) {
        return Transformed::no(expression);
    }
    let Expr::Like(Like { negated, expr, pattern, case_insensitive, .. }) = &expression else {
        return Transformed::no(expression);
    };
    let text = |operand: &Expr| match operand.get_type(schema).ok()? {
        DataType::Utf8View => Some(operand.clone()),
        DataType::Utf8 | DataType::LargeUtf8 => {
            Some(Expr::Cast(Cast::new(Box::new(operand.clone()), DataType::Utf8View)))
        }
        _ => None,
    };
    match (text(expr), text(pattern)) {
        (Some(text), Some(pattern)) => {
            Transformed::yes(scalars::like(*case_insensitive, *negated).call(vec![text, pattern]))
        }
        _ => Transformed::no(expression),
    }
}
