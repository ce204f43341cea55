//! Keeps filters above aggregates that return a row for no input rows.
//!
//! In `SELECT count(*) FROM t HAVING (SELECT max(x) FROM u) > 3`, the condition uses no column of the aggregate.
//! DataFusion's rule pushes it below the aggregate. There it empties the input, but the aggregate still returns its
//! row.

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// DataFusion's rule, which is not applied to such filters.
#[derive(Debug, Default)]
pub(crate) struct FiltersAboveAggregates(PushDownFilter);

impl OptimizerRule for FiltersAboveAggregates {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match &plan {
            LogicalPlan::Filter(filter) if has_row_for_none(&filter.input) => Ok(Transformed::no(plan)),
            _ => self.0.rewrite(plan, config),
        }
    }
}

/// Whether a plan is such an aggregate, or filters above one, which the rule would merge.
fn has_row_for_none(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Filter(filter) => has_row_for_none(&filter.input),
        LogicalPlan::Aggregate(aggregate) => matches!(aggregate.group_expr.as_slice(), [] | [Expr::GroupingSet(_)]),
        _ => false,
    }
}
