//! Keeps filters where they are evaluated for the rows that the query says.
//!
//! In `SELECT count(*) FROM t HAVING (SELECT max(x) FROM u) > 3`, the condition uses no column of the aggregate.
//! DataFusion's rule pushes it below the aggregate. There it empties the input, but the aggregate still returns its
//! row.
//!
//! A volatile condition such as `random() < 0.5` uses no column either. Below a window, an aggregation or a join it would
//! be evaluated for other rows, and change the values of the rows that remain. So it stays, above the conditions that move,
//! and it is no key of a join.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, Join, JoinType, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// DataFusion's rules that move filters.
pub(crate) const MOVING: [&str; 2] = ["push_down_filter", "eliminate_cross_join"];

/// One of these rules, which is not applied to such filters.
#[derive(Debug)]
pub(crate) struct FilterPositions(pub Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for FilterPositions {
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
        match plan {
            LogicalPlan::Filter(filter) if has_row_for_none(&filter.input) => {
                Ok(Transformed::no(LogicalPlan::Filter(filter)))
            }
            LogicalPlan::Filter(filter) if is_partly_volatile(&filter.predicate) => {
                let (volatile, others) = split(filter.predicate);
                match others.is_empty() {
                    true => Ok(Transformed::no(filtered(filter.input, volatile)?)),
                    false => Ok(Transformed::yes(apart(filter.input, volatile, others)?)),
                }
            }
            LogicalPlan::Join(join) if join.filter.as_ref().is_some_and(is_partly_volatile) => {
                self.of_join(join, config)
            }
            LogicalPlan::Filter(filter) => match Arc::unwrap_or_clone(filter.input) {
                // Such a join takes no further conditions from above.
                LogicalPlan::Join(join) if join.filter.as_ref().is_some_and(is_partly_volatile) => {
                    let input = self.of_join(join, config)?;
                    input.map_data(|input| Ok(LogicalPlan::Filter(Filter::try_new(filter.predicate, Arc::new(input))?)))
                }
                // DataFusion would unite both.
                LogicalPlan::Filter(below) if is_partly_volatile(&below.predicate) => {
                    let (volatile, mut others) = split(below.predicate);
                    others.push(filter.predicate);
                    Ok(Transformed::yes(apart(below.input, volatile, others)?))
                }
                input => {
                    let filter = Filter::try_new(filter.predicate, Arc::new(input))?;
                    self.0.rewrite(LogicalPlan::Filter(filter), config)
                }
            },
            other => self.0.rewrite(other, config),
        }
    }
}

impl FilterPositions {
    /// A join without its volatile conditions. Those of an inner join filter its rows; those of others belong to them.
    fn of_join(&self, mut join: Join, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let (volatile, others) = join.filter.take().map_or_else(Default::default, split);
        join.filter = conjunction(others);
        if join.join_type == JoinType::Inner {
            let input = Arc::new(LogicalPlan::Join(join));
            return Ok(Transformed::yes(filtered(input, volatile)?));
        }
        let rewritten = self.0.rewrite(LogicalPlan::Join(join), config)?;
        rewritten.map_data(|plan| match plan {
            LogicalPlan::Join(mut join) => {
                join.filter = conjunction(join.filter.take().into_iter().chain(volatile));
                Ok(LogicalPlan::Join(join))
            }
            other => datafusion::common::internal_err!("{} in the place of a join", other.display()),
        })
    }
}

/// Whether a condition calls a volatile function.
fn is_partly_volatile(predicate: &Expr) -> bool {
    split_conjunction(predicate).into_iter().any(Expr::is_volatile)
}

/// The volatile parts of a condition, and the others.
fn split(predicate: Expr) -> (Vec<Expr>, Vec<Expr>) {
    split_conjunction_owned(predicate).into_iter().partition(Expr::is_volatile)
}

/// The volatile conditions above the others.
fn apart(input: Arc<LogicalPlan>, volatile: Vec<Expr>, others: Vec<Expr>) -> Result<LogicalPlan> {
    filtered(Arc::new(filtered(input, others)?), volatile)
}

fn filtered(input: Arc<LogicalPlan>, conditions: Vec<Expr>) -> Result<LogicalPlan> {
    Ok(match conjunction(conditions) {
        Some(predicate) => LogicalPlan::Filter(Filter::try_new(predicate, input)?),
        None => Arc::unwrap_or_clone(input),
    })
}

/// Whether a plan is an aggregate that returns a row for no input rows, or filters above one, which the rule would merge.
fn has_row_for_none(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Filter(filter) => has_row_for_none(&filter.input),
        LogicalPlan::Aggregate(aggregate) => matches!(aggregate.group_expr.as_slice(), [] | [Expr::GroupingSet(_)]),
        _ => false,
    }
}
