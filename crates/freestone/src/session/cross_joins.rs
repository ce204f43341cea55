//! A notice for queries that join all rows with all rows, which is a mistake more often than not.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{CrossJoinExec, NestedLoopJoinExec};

use super::plan_tree::expected_rows;

/// The expected rows from which a join without a condition is worth a notice: about a second of work.
const MANY_ROWS: f64 = 1e9;

/// The notice for a plan; `None` if no join without a condition is expected to make many rows.
pub(super) fn notice(plan: &Arc<dyn ExecutionPlan>) -> Option<String> {
    let of_node = match sides(plan) {
        Some([left, right]) => {
            let rows = |side| expected_rows(side).ok().flatten();
            rows(left).zip(rows(right)).filter(|(left, right)| *left as f64 * *right as f64 >= MANY_ROWS)
        }
        None => None,
    };
    match of_node {
        Some((left, right)) => Some(format!(
            "a join without a condition pairs about {left} rows with {right} rows: if a condition is missing, cancel the query"
        )),
        None => plan.children().into_iter().find_map(notice),
    }
}

/// Both sides of a join that has no condition.
fn sides(plan: &Arc<dyn ExecutionPlan>) -> Option<[&Arc<dyn ExecutionPlan>; 2]> {
    let is_loop = |join: &NestedLoopJoinExec| join.filter().is_none() && *join.join_type() == JoinType::Inner;
    let is_cross = plan.is::<CrossJoinExec>() || plan.downcast_ref::<NestedLoopJoinExec>().is_some_and(is_loop);
    match plan.children().as_slice() {
        [left, right] if is_cross => Some([left, right]),
        _ => None,
    }
}
