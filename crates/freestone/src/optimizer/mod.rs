//! Rules of ours in the place of DataFusion's, where those can answer wrong: one file per rule.

mod filter_pushdown;
mod guards;
mod in_lists;

use std::sync::Arc;

use datafusion::physical_optimizer::PhysicalOptimizerRule;

use filter_pushdown::FilterPushdown;
pub(crate) use guards::{GuardedScans, Guards};
pub(crate) use in_lists::InLists;

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// DataFusion's physical rules, each that can answer wrong replaced by ours of the same name, in the same place.
pub(crate) fn corrected(rules: Vec<Rule>) -> Vec<Rule> {
    let corrected = |rule: Rule| -> Rule {
        match rule.name() {
            "FilterPushdown" => Arc::new(FilterPushdown::first()),
            "FilterPushdown(Post)" => Arc::new(FilterPushdown::last()),
            _ => rule,
        }
    };
    rules.into_iter().map(corrected).collect()
}
