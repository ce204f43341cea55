//! One algorithm for every subquery: all become joins (Neumann and Kemper, "Unnesting Arbitrary Queries", BTW 2015).
//!
//! A correlated subquery R is evaluated once for all rows of the outer query L: D is the set of different values of those
//! columns of L that R uses, D is pushed down through R until nothing depends on L any more ([`push`]), and what comes out is
//! joined with L on D's columns ([`attach`]). In `R.x = D.x` the columns of R take the place of D, so that the usual
//! subqueries become plain joins by keys. EXISTS, IN, ANY and ALL give a mark that is true, false or unknown; in a condition
//! that only keeps what is true they are semi and anti joins. A scalar subquery is a left join that raises an error where a
//! second row matches ([`single`]). An uncorrelated scalar subquery stays as it is: DataFusion evaluates it once.
//!
//! The rule runs at the end of the analysis, where all types are known, because DataFusion refuses the plans of most
//! correlated subqueries before the first rule of its optimizer. It replaces DecorrelatePredicateSubquery,
//! ScalarSubqueryToJoin, DecorrelateLateralJoin and RewriteSetComparison, which find nothing to do any more.

mod attach;
mod expressions;
mod joins;
mod push;
mod scope;
mod single;
mod strip;

pub(crate) use single::SEVERAL_ROWS;

use std::cell::Cell;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{AnalyzerRule, Optimizer, OptimizerRule};

/// DataFusion's rules that this one replaces.
const REPLACED: [&str; 4] =
    ["rewrite_set_comparison", "decorrelate_predicate_subquery", "scalar_subquery_to_join", "decorrelate_lateral_join"];

/// DataFusion's optimizer rules without those for subqueries.
pub(crate) fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules = Optimizer::new().rules;
    rules.retain(|rule| !REPLACED.contains(&rule.name()));
    rules
}

/// Turns subqueries into joins.
#[derive(Debug)]
pub(crate) struct Unnesting;

impl AnalyzerRule for Unnesting {
    fn name(&self) -> &str {
        "unnesting"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !scope::has_subquery(&plan) {
            return Ok(plan);
        }
        let plan = Unnester::default().unnest(plan)?;
        match scope::free(&plan).first() {
            None => Ok(plan),
            Some((column, _)) => Err(refused(&format!("a reference to {column} of the outer query at this place"))),
        }
    }
}

/// One run of the algorithm over a plan.
#[derive(Default)]
struct Unnester {
    names: Cell<usize>,
}

impl Unnester {
    /// A number that no other generated column of this plan has.
    fn number(&self) -> usize {
        self.names.set(self.names.get() + 1);
        self.names.get()
    }
}

/// What cannot be unnested is named.
fn refused(what: &str) -> DataFusionError {
    DataFusionError::NotImplemented(format!("a correlated subquery cannot contain {what}; write it as a join"))
}
