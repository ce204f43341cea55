//! Rules that replace or extend those of DataFusion: one file per rule. Most replace rules that can return wrong
//! results.

mod aggregate_calls;
pub(crate) mod attempts;
pub(crate) mod cancellable_joins;
mod decimal_float_coercion;
mod dependencies;
pub(crate) mod dictionary_evaluation;
mod expansion;
mod filter_positions;
mod filter_pushdown;
mod group_keys;
mod grouping_sets;
mod guards;
mod in_lists;
mod in_order;
mod inherited_order;
mod join_key_forms;
mod join_keys;
pub(crate) mod join_order;
mod large_fetch;
mod limits_stay;
mod long_patterns;
mod nested_comparisons;
mod offsets;
pub(crate) mod physical;
pub(crate) mod redundant_joins;
pub(crate) mod repeatable;
mod requirements;
pub(crate) mod set_operations;
mod unnesting;
pub(crate) mod view_matching;
mod volatile_subqueries;

use std::sync::Arc;

use datafusion::optimizer::{Analyzer, AnalyzerRule, Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;

use aggregate_calls::AggregateCalls;
use attempts::Attempts;
use decimal_float_coercion::DecimalFloatCoercion;
pub(crate) use decimal_float_coercion::{common_of_mixed, in_list_function};
use dependencies::{Dependencies, REPLACE_DISTINCT, ReplaceDistinct};
use expansion::Expansion;
use filter_positions::FilterPositions;
use filter_pushdown::FilterPushdown;
use group_keys::GroupKeys;
use grouping_sets::GroupingSets;
use guards::{GuardedScans, Guards};
use in_lists::InLists;
use inherited_order::{InheritedOrder, OrderOfSubquery};
use join_key_forms::JoinKeyForms;
use join_keys::JoinKeys;
use long_patterns::LongPatterns;
use nested_comparisons::NestedComparisons;
use redundant_joins::RedundantJoins;
use set_operations::SetOperations;
use unnesting::Unnesting;
pub(crate) use unnesting::{SEVERAL_ROWS, SEVERAL_ROWS_ONCE};
use view_matching::ViewMatching;
use volatile_subqueries::VolatileSubqueries;

use crate::exact::ExactNumbers;
use crate::growth::Concatenations;
use crate::planning;
use crate::provider::is_stored;
use crate::recursion::Recursions;
use crate::shared::Resolve;
use crate::text_types::enum_order::EnumOrder;
use crate::times::{TimeCasts, TimeComparisons, TimeOperands};
use crate::untyped::UntypedTexts;
use crate::windows::WindowFrames;

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// DataFusion's analyzer rules with ours: shared queries first, rules for operands around type coercion, and rules that
/// need types after it.
pub(crate) fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules = Analyzer::new().rules;
    let at = rules.iter().position(|rule| rule.name() == "type_coercion").unwrap_or(rules.len());
    rules.insert((at + 1).min(rules.len()), Arc::new(TimeCasts));
    rules.insert(at, Arc::new(DecimalFloatCoercion));
    rules.insert(at, Arc::new(TimeOperands));
    rules.insert(0, Arc::new(SetOperations));
    rules.insert(0, Arc::new(UntypedTexts));
    rules.insert(0, Arc::new(EnumOrder));
    rules.insert(0, Arc::new(VolatileSubqueries));
    rules.push(Arc::new(NestedComparisons));
    rules.push(Arc::new(Unnesting));
    rules.push(Arc::new(ExactNumbers(is_stored)));
    rules.push(Arc::new(Concatenations));
    rules.push(Arc::new(LongPatterns));
    rules.push(Arc::new(InLists));
    rules.push(Arc::new(Guards));
    rules.push(Arc::new(OrderOfSubquery));
    rules.push(Arc::new(InheritedOrder));
    rules.push(Arc::new(AggregateCalls));
    rules.push(Arc::new(GroupKeys));
    rules.push(Arc::new(Expansion));
    // It hides expressions from the rules before it.
    rules.push(Arc::new(Attempts));
    let mut rules = planning::analyzer_rules(rules);
    rules.insert(0, Arc::new(Resolve { rules: rules.clone() }));
    rules
}

/// DataFusion's optimizer rules without those for subqueries, which are joins when these rules run; some are corrected.
/// Times are compared as stored where constants are known and filters are not yet in the scans.
pub(crate) fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>> = vec![];
    for rule in Optimizer::new().rules {
        if dependencies::READERS.contains(&rule.name()) {
            rules.push(Arc::new(Dependencies));
        }
        match rule.name() {
            REPLACE_DISTINCT => rules.push(Arc::new(ReplaceDistinct(rule))),
            "extract_equijoin_predicate" => rules.push(Arc::new(JoinKeys)),
            name if filter_positions::MOVING.contains(&name) => rules.push(Arc::new(FilterPositions(rule))),
            name if unnesting::REPLACED.contains(&name) => {}
            _ => rules.push(rule),
        }
    }
    let simplified = rules.iter().position(|rule| rule.name() == "simplify_expressions");
    rules.insert(simplified.map_or(0, |at| at + 1), Arc::new(TimeComparisons));
    rules.insert(0, Arc::new(ViewMatching));
    rules.push(Arc::new(RedundantJoins));
    rules.push(Arc::new(GuardedScans));
    planning::optimizer_rules(rules)
}

/// DataFusion's physical rules, in which each rule that can return wrong results is replaced by ours. Our rules for
/// nodes whose properties are claimed wrongly come before them.
fn corrected(rules: Vec<Rule>) -> Vec<Rule> {
    let corrected = |rule: Rule| -> Rule {
        match rule.name() {
            "FilterPushdown" => Arc::new(FilterPushdown::first()),
            "FilterPushdown(Post)" => Arc::new(FilterPushdown::last()),
            requirements::CHECK => Arc::new(requirements::Requirements { check: rule }),
            _ => rule,
        }
    };
    let first: [Rule; 4] =
        [Arc::new(Recursions), Arc::new(GroupingSets), Arc::new(WindowFrames), Arc::new(JoinKeyForms)];
    first.into_iter().chain(rules.into_iter().map(corrected)).collect()
}
