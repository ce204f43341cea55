//! Unnesting: one algorithm that converts every subquery to joins (Neumann and Kemper, "Unnesting Arbitrary Queries",
//! BTW 2015; Neumann, Leis and Kemper, "The Complete Story of Joins (in HyPer)", BTW 2017).
//!
//! A subquery is [`Lifted`](lifted::Lifted): its plan is evaluated for all rows of the outer query at once, together
//! with the conditions under which a row of it belongs to a row of the outer query. Filters only add conditions.
//! Operators that process all rows of one outer row together (aggregates, windows, LIMIT, DISTINCT, set operations)
//! first need a key per outer column. In `R.x = outer.x`, `R.x` is that key. If there is no such equality, the plan is
//! joined with the distinct values of the outer columns (the *domain*), which are then the keys ([`domain`]). The
//! result is joined with the outer query ([`attach`]). EXISTS, IN, ANY and ALL give a mark that is true, false or
//! unknown; in a filter, they are semi and anti joins. A scalar subquery is a left join, which fails if a second row
//! matches ([`single`]).
//!
//! An uncorrelated scalar subquery remains, and is evaluated once, before the query. The rule runs in the analysis,
//! after all types are known, because DataFusion refuses plans with most correlated subqueries before its optimizer
//! begins.

mod attach;
mod domain;
mod expressions;
mod grouping;
mod joins;
mod lifted;
mod nodes;
mod scopes;
mod sets;
mod single;

pub(crate) use single::{SEVERAL_ROWS, SEVERAL_ROWS_ONCE};

use std::cell::Cell;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;

use crate::error::Error;

/// DataFusion's optimizer rules that this rule replaces.
pub(crate) const REPLACED: [&str; 4] =
    ["rewrite_set_comparison", "decorrelate_predicate_subquery", "scalar_subquery_to_join", "decorrelate_lateral_join"];

/// The rule, which converts subqueries to joins.
#[derive(Debug)]
pub(crate) struct Unnesting;

impl AnalyzerRule for Unnesting {
    fn name(&self) -> &str {
        "unnesting"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        if !scopes::depends(&plan) {
            return Ok(plan);
        }
        check_aggregates(&plan)?;
        let unnester = Unnester::default();
        let plan = unnester.closed(plan, &scopes::Scopes::default())?;
        // A reference has the type that its column had when it was planned. If the column's type has changed since,
        // types are coerced again.
        if unnester.retyped.get() { TypeCoercion::new().analyze(plan, config) } else { Ok(plan) }
    }
}

/// Refuses aggregates that only use columns of an outer query. In SQL they belong to that query, whose rows they
/// aggregate.
fn check_aggregates(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        let LogicalPlan::Aggregate(aggregate) = node else { return Ok(TreeNodeRecursion::Continue) };
        for call in &aggregate.aggr_expr {
            let (mut is_outer, mut is_own) = (false, false);
            call.apply(|part| {
                is_outer |= matches!(part, Expr::OuterReferenceColumn(..));
                is_own |= matches!(part, Expr::Column(_));
                Ok(TreeNodeRecursion::Continue)
            })?;
            if is_outer && !is_own {
                return Err(Error::unsupported(format!("{call} within a subquery, which uses only columns of an outer query,"))
                    .with_hint("it aggregates the rows of the outer query: compute it there, in a subquery of FROM, and name its result")
                    .into());
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// The state of one run of the algorithm.
#[derive(Default)]
struct Unnester {
    names: Cell<usize>,
    /// A column of an outer query has another type than when the subquery was planned.
    retyped: Cell<bool>,
}

impl Unnester {
    /// A name that is unique in the plan.
    fn name(&self, of: &str) -> String {
        self.names.set(self.names.get() + 1);
        format!("__{of}_{}", self.names.get())
    }
}

/// The error for a subquery that cannot be unnested; `what` is the reason.
fn refused(what: &str) -> DataFusionError {
    DataFusionError::NotImplemented(format!("a correlated subquery cannot contain {what}; write it as a join"))
}

fn volatile() -> DataFusionError {
    refused("a volatile function such as random()")
}
