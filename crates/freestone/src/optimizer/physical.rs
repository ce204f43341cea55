//! The physical rules of every plan, and of a plan for one run.

use std::sync::{Arc, LazyLock};

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;

use super::cancellable_joins::CancellableJoins;
use super::dictionary_evaluation::DictionaryEvaluation;
use super::in_order::{InOrder, LimitsInOrder};
use super::join_order::JoinOrder;
use super::large_fetch::LargeFetch;
use super::offsets::Offsets;
use super::{Rule, corrected, limits_stay};
use crate::context::Cancellation;
use crate::fusion::Fusion;
use crate::nullable_sides::{self, NullableSides};
use crate::planning;
use crate::provider::files::KeepFileOrder;
use crate::provider::{AggregateInScan, ChooseCopies, PathPredicates, ReadFields};
use crate::recursion::WorkingTables;
use crate::shared::Connect;
use crate::small_batches::SmallBatches;

/// The rules that are applied for each run: the one that creates dynamic filters, and those after it.
pub(crate) static OF_A_RUN: LazyLock<Vec<Rule>> = LazyLock::new(|| divided(None).1);

/// The rules whose results are cached with a plan. A session's state has only these.
pub(crate) fn of_a_plan(memory_limit: Option<usize>) -> Vec<Rule> {
    divided(memory_limit).0
}

fn divided(memory_limit: Option<usize>) -> (Vec<Rule>, Vec<Rule>) {
    let mut rules = rules(memory_limit);
    let at = dynamic_filters_at(&rules);
    let of_a_run = planning::physical_rules(rules.split_off(at));
    (planning::physical_rules(rules), of_a_run)
}

/// Plans a query for one run, which ends when its statement is cancelled.
pub(crate) async fn plan_once(
    state: &SessionState,
    logical: &LogicalPlan,
    cancellation: &Cancellation,
) -> Result<Arc<dyn ExecutionPlan>> {
    if matches!(logical, LogicalPlan::Explain(_)) {
        // Its plan is made, with all rules, while this one is.
        let for_this_run = of_this_run(cancellation);
        let rules = state.physical_optimizers().iter().chain(&for_this_run).chain(&*OF_A_RUN).cloned().collect();
        let state = SessionStateBuilder::new_from_existing(state.clone()).with_physical_optimizer_rules(rules).build();
        return state.create_physical_plan(logical).await;
    }
    let plan = state.create_physical_plan(logical).await?;
    for_run(plan, state.config_options(), cancellation, false)
}

/// A plan that [`of_a_plan`]'s rules have made, for one run, which ends when its statement is cancelled. `measures`: whether its
/// nodes count their rows and their time.
pub(crate) fn for_run(
    plan: Arc<dyn ExecutionPlan>,
    options: &ConfigOptions,
    cancellation: &Cancellation,
    measures: bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    let measured = measures.then(|| -> Rule { Arc::new(Fusion { measures }) });
    of_this_run(cancellation).iter().chain(&*OF_A_RUN).try_fold(plan, |plan, rule| {
        let rule = measured.as_ref().filter(|measured| measured.name() == rule.name()).unwrap_or(rule);
        rule.optimize(plan, options)
    })
}

fn of_this_run(cancellation: &Cancellation) -> [Rule; 2] {
    [Arc::new(Connect), Arc::new(CancellableJoins(cancellation.clone()))]
}

/// DataFusion's rules, with ours before those that are applied for each run, so that their results are cached with the
/// plan.
fn rules(memory_limit: Option<usize>) -> Vec<Rule> {
    let mut rules = corrected(PhysicalOptimizer::default().rules);
    // Scans are not wrapped before that rule. An aggregation inside a scan hides the scan's columns from the rules
    // after it.
    let wraps_scans = rules.iter().position(|rule| rule.name() == "EnsureCooperative");
    let at = wraps_scans.unwrap_or_else(|| dynamic_filters_at(&rules));
    let ours: [Rule; 4] = [
        Arc::new(WorkingTables),
        Arc::new(LargeFetch),
        Arc::new(PathPredicates),
        Arc::new(AggregateInScan { memory_limit }),
    ];
    rules.splice(at..at, ours);
    // A copy may have the requested order.
    let pushes_sorts = rules.iter().position(|rule| rule.name() == "PushdownSort");
    rules.insert(pushes_sorts.unwrap_or(at), Arc::new(ChooseCopies));
    // Before anything comes between scans and the projections above them.
    rules.insert(0, Arc::new(ReadFields));
    rules.insert(1, Arc::new(JoinOrder));
    // Before sorts are taken away.
    rules.insert(2, Arc::new(Offsets));
    let takes_sorts = rules.iter().position(|rule| rule.name() == nullable_sides::TAKES_SORTS_AWAY);
    rules.insert(takes_sorts.unwrap_or(rules.len()), Arc::new(NullableSides));
    limits_stay::around_moved_sorts(&mut rules);
    rules.push(Arc::new(KeepFileOrder));
    rules.push(Arc::new(SmallBatches));
    rules.push(Arc::new(DictionaryEvaluation));
    rules.push(Arc::new(LimitsInOrder));
    rules.push(Arc::new(Fusion::default()));
    rules.push(Arc::new(InOrder));
    rules
}

/// The position of the rule that creates dynamic filters. It and all rules after it are applied for each run.
fn dynamic_filters_at(rules: &[Rule]) -> usize {
    rules.iter().rposition(|rule| rule.name().starts_with("FilterPushdown")).unwrap_or(rules.len())
}
