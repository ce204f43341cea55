//! The arguments of table functions, which are evaluated when a statement is planned.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

use crate::exact;
use crate::times;

/// The value of an argument that reads no column, and the argument otherwise. `now`: the time of the statement, where its result is
/// not kept.
pub(crate) fn evaluated(argument: Expr, options: &Arc<ConfigOptions>, now: Option<DateTime<Utc>>) -> Result<Expr> {
    let reads = |e: &Expr| {
        use Expr::{Column, Exists, InSubquery, OuterReferenceColumn, Placeholder, ScalarSubquery, SetComparison};
        let is_open = matches!(
            e,
            Column(_)
                | OuterReferenceColumn(..)
                | Placeholder(_)
                | ScalarSubquery(_)
                | Exists(_)
                | InSubquery(_)
                | SetComparison(_)
        );
        Ok(is_open)
    };
    if matches!(argument, Expr::Literal(..)) || argument.is_volatile() || argument.exists(reads)? {
        return Ok(argument);
    }
    let schema = Arc::new(DFSchema::empty());
    let context = SimplifyContext::builder().with_schema(schema.clone()).with_config_options(options.clone());
    let simplifier = ExprSimplifier::new(context.with_query_execution_start_time(now).build());
    let coerced = simplifier.coerce(argument, &schema)?;
    simplifier.simplify(exact::exact(times::with_own_casts(coerced, &schema)?, &schema)?)
}
