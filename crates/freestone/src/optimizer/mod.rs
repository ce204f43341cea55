//! Rules of ours in the place of DataFusion's, where those can answer wrong: one file per rule.

mod aggregate_calls;
mod filter_pushdown;
mod grouping_sets;
mod guards;
mod in_lists;
mod real_keys;
mod set_operations;

use std::sync::Arc;

use datafusion::physical_optimizer::PhysicalOptimizerRule;

pub(crate) use aggregate_calls::AggregateCalls;
use filter_pushdown::FilterPushdown;
use grouping_sets::GroupingSets;
pub(crate) use guards::{GuardedScans, Guards};
pub(crate) use in_lists::InLists;
pub(crate) use real_keys::GroupKeys;
pub(crate) use set_operations::SetOperations;

use crate::windows::WindowFrames;

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

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
