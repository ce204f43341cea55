//! The physical rules of every plan, and of a plan for one run.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;

use super::cancellable_joins::CancellableJoins;
use super::dictionary_evaluation::DictionaryEvaluation;
use super::small_batches::SmallBatches;
use super::{Rule, corrected};
use crate::context::Cancellation;
use crate::fusion::Fusion;
use crate::planning;
use crate::provider::files::KeepFileOrder;
use crate::provider::{AggregateInScan, ChooseCopies, PathPredicates, ReadFields};
use crate::shared::Connect;

/// Plans a query for one run, which ends when its statement is cancelled.
pub(crate) async fn plan_once(
    state: &SessionState,
    logical: &LogicalPlan,
    cancellation: &Cancellation,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut rules = state.physical_optimizers().to_vec();
    let for_this_run: [Rule; 2] = [Arc::new(Connect), Arc::new(CancellableJoins(cancellation.clone()))];
    let at = dynamic_filters_at(&rules);
    rules.splice(at..at, for_this_run);
    let state = SessionStateBuilder::new_from_existing(state.clone()).with_physical_optimizer_rules(rules).build();
    state.create_physical_plan(logical).await
}

/// DataFusion's rules, with ours before those that are applied for each run, so that their results are cached with the
/// plan.
pub(crate) fn rules(memory_limit: Option<usize>) -> Vec<Rule> {
    let mut rules = corrected(PhysicalOptimizer::default().rules);
    // Scans are not wrapped before that rule. An aggregation inside a scan hides the scan's columns from the rules
    // after it.
    let wraps_scans = rules.iter().position(|rule| rule.name() == "EnsureCooperative");
    let at = wraps_scans.unwrap_or_else(|| dynamic_filters_at(&rules));
    let ours: [Rule; 2] = [Arc::new(PathPredicates), Arc::new(AggregateInScan { memory_limit })];
    rules.splice(at..at, ours);
    // A copy may have the requested order.
    let pushes_sorts = rules.iter().position(|rule| rule.name() == "PushdownSort");
    rules.insert(pushes_sorts.unwrap_or(at), Arc::new(ChooseCopies));
    // Before anything comes between scans and the projections above them.
    rules.insert(0, Arc::new(ReadFields));
    rules.push(Arc::new(KeepFileOrder));
    rules.push(Arc::new(SmallBatches));
    rules.push(Arc::new(DictionaryEvaluation));
    rules.push(Arc::new(Fusion));
    planning::physical_rules(rules)
}

/// The position of the rule that creates dynamic filters. It and all rules after it are applied for each run.
pub(crate) fn dynamic_filters_at(rules: &[Rule]) -> usize {
    rules.iter().rposition(|rule| rule.name().starts_with("FilterPushdown")).unwrap_or(rules.len())
}
