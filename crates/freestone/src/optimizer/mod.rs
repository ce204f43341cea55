//! Rules of ours in the place of DataFusion's, where those can answer wrong: one file per rule.

mod aggregate_calls;
mod aggregate_filters;
mod dependencies;
mod expansion;
mod filter_pushdown;
mod grouping_sets;
mod guards;
mod in_lists;
mod join_keys;
mod real_keys;
mod set_operations;
mod unnesting;

use std::sync::Arc;

use datafusion::optimizer::{Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;

pub(crate) use aggregate_calls::AggregateCalls;
use aggregate_filters::FiltersAboveAggregates;
use dependencies::Dependencies;
pub(crate) use expansion::Expansion;
use filter_pushdown::FilterPushdown;
use grouping_sets::GroupingSets;
pub(crate) use guards::{GuardedScans, Guards};
pub(crate) use in_lists::InLists;
use join_keys::JoinKeys;
pub(crate) use real_keys::GroupKeys;
pub(crate) use set_operations::SetOperations;

pub(crate) use unnesting::{SEVERAL_ROWS, SEVERAL_ROWS_ONCE, Unnesting};

use crate::windows::WindowFrames;

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// DataFusion's logical rules without those for subqueries, which are joins when these rules run; some are corrected.
pub(crate) fn logical_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>> = vec![];
    for rule in Optimizer::new().rules {
        if dependencies::READERS.contains(&rule.name()) {
            rules.push(Arc::new(Dependencies));
        }
        match rule.name() {
            "extract_equijoin_predicate" => rules.push(Arc::new(JoinKeys)),
            "push_down_filter" => rules.push(Arc::new(FiltersAboveAggregates::default())),
            name if unnesting::REPLACED.contains(&name) => {}
            _ => rules.push(rule),
        }
    }
    rules
}

/// DataFusion's physical rules, each that can answer wrong replaced by ours of the same name, in the same place; and before
/// them, ours for nodes of which they would believe what is not so.
pub(crate) fn corrected(rules: Vec<Rule>) -> Vec<Rule> {
    let corrected = |rule: Rule| -> Rule {
        match rule.name() {
            "FilterPushdown" => Arc::new(FilterPushdown::first()),
            "FilterPushdown(Post)" => Arc::new(FilterPushdown::last()),
            _ => rule,
        }
    };
    let first: [Rule; 2] = [Arc::new(GroupingSets), Arc::new(WindowFrames)];
    first.into_iter().chain(rules.into_iter().map(corrected)).collect()
}
