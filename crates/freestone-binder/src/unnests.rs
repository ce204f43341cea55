//! `unnest` among the items of SELECT: rows of lists.

use datafusion_common::{Column, UnnestOptions};
use datafusion_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use freestone_sql::Span;

use crate::aggregates::{Known, replace};
use crate::binder::Binder;
use crate::error::{At, Result, unsupported};
use crate::plans;
use crate::select::{Block, collect};

/// The depth of calls of unnest within each other.
const LEVELS_MAX: usize = 8;

impl Binder<'_> {
    /// Makes rows of lists, and replaces the calls by columns. Lists of one SELECT stand next to each other.
    pub fn unnested(&mut self, plan: LogicalPlan, block: &mut Block, span: Span) -> Result<LogicalPlan> {
        let mut plan = plan;
        for _ in 0..LEVELS_MAX {
            let mut calls: Vec<Expr> = vec![];
            for value in block.outputs() {
                collect(value, &mut calls, &|part| matches!(part, Expr::Unnest(inner) if !has_unnest(&inner.expr)));
            }
            if calls.is_empty() {
                return Ok(plan);
            }
            let mut values = plans::columns(plan.schema());
            let (mut names, mut known) = (vec![], Known::new());
            for call in calls {
                let Expr::Unnest(inner) = &call else { continue };
                let name = self.qualifiers.next("__unnest");
                values.push(inner.expr.as_ref().clone().alias(&name));
                known.insert(call, Expr::Column(Column::from_name(&name)));
                names.push(Column::from_name(name));
            }
            plan = plans::project(plan, values).at(span)?;
            plan = unnest(plan, names).at(span)?;
            for value in block.outputs() {
                replace(value, &known).at(span)?;
            }
        }
        Err(unsupported(span, "unnest within more than eight others"))
    }
}

fn has_unnest(value: &Expr) -> bool {
    use datafusion_common::tree_node::TreeNode;
    value.exists(|part| Ok(matches!(part, Expr::Unnest(_)))).unwrap_or(false)
}

/// A row per item of the lists in these columns, which stand next to each other. A NULL or empty list is no row.
pub(crate) fn unnest(plan: LogicalPlan, columns: Vec<Column>) -> datafusion_common::Result<LogicalPlan> {
    let options = UnnestOptions::new().with_preserve_nulls(false);
    LogicalPlanBuilder::from(plan).unnest_columns_with_options(columns, options)?.build()
}
