//! Plans of queries that come again: planning a star join costs as much as running it on a small input, so a session keeps
//! what it planned.
//!
//! A kept plan is one before its dynamic filters: those tie joins to the scans below them and hold for one run. So each run
//! gets its own copy of the plan, and the last rules of the optimizer. A kept plan reads the snapshot it was made for, and
//! is forgotten when there is a newer one; it pins no files.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SessionState, SessionStateBuilder, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use freestone_store::Snapshot;

use crate::context::Cancellation;
use crate::optimizer::cancellable_joins::CancellableJoins;
use crate::optimizer::physical;
use crate::provider::{FreestoneSource, with_sources};
use crate::shared;
use crate::shared::Connect;

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// Plans that a session keeps; they are forgotten together when there are more.
const PLANS: usize = 256;

/// The plans of one session.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    /// The commit whose snapshot they read.
    sequence: u64,
    by_query: HashMap<String, CachedPlan>,
}

/// A plan before its dynamic filters.
#[derive(Debug, Clone)]
pub(crate) struct CachedPlan {
    plan: Arc<dyn ExecutionPlan>,
    last_rules: Vec<Rule>,
    context: Arc<TaskContext>,
    /// What the workload log calls the query; nothing where it is not logged.
    logged: Option<Arc<str>>,
}

impl Plans {
    /// A copy, for one run, of the plan kept for a query, if it was made for this snapshot.
    pub fn find(&mut self, query: &str, snapshot: &Snapshot) -> Result<Option<CachedPlan>> {
        if self.sequence != snapshot.sequence() {
            self.by_query.clear();
            self.sequence = snapshot.sequence();
        }
        let copy = |kept: &CachedPlan| Ok(CachedPlan { plan: reset_plan_states(kept.plan.clone())?, ..kept.clone() });
        self.by_query.get(query).map(copy).transpose()
    }

    /// Keeps a plan, unless a newer snapshot was asked for meanwhile.
    pub fn keep(&mut self, query: String, snapshot: &Snapshot, plan: CachedPlan) {
        if self.sequence == snapshot.sequence() {
            if self.by_query.len() >= PLANS {
                self.by_query.clear();
            }
            self.by_query.insert(query, plan);
        }
    }

    /// Forgets all plans, as after a change of settings.
    pub fn clear(&mut self) {
        self.by_query.clear();
    }
}

impl CachedPlan {
    /// Plans a query up to its dynamic filters, and says whether it gives the same as long as its tables do.
    pub async fn new(
        state: &SessionState,
        logical: &LogicalPlan,
        logged: Option<Arc<str>>,
    ) -> Result<(CachedPlan, bool)> {
        let rules = state.physical_optimizers();
        let last = physical::dynamic_filters_at(rules);
        let first = SessionStateBuilder::new_from_existing(state.clone())
            .with_physical_optimizer_rules(rules[..last].to_vec())
            .build();
        let plan = first.create_physical_plan(logical).await?;
        let lasting = is_repeatable(logical)? && reads_tables_only(&plan)?;
        let plan = with_sources(plan, |source| Some(source.detached()))?;
        Ok((CachedPlan { plan, last_rules: rules[last..].to_vec(), context: state.task_ctx(), logged }, lasting))
    }

    /// The plan as it is kept.
    pub fn plan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.plan
    }

    pub fn logged(&self) -> Option<&Arc<str>> {
        self.logged.as_ref()
    }

    /// The plan for one run, on the snapshot that it was made for.
    pub fn start(
        &self,
        snapshot: &Arc<Snapshot>,
        cancellation: &Cancellation,
    ) -> Result<(Arc<dyn ExecutionPlan>, Arc<TaskContext>)> {
        let plan = with_sources(self.plan.clone(), |source| Some(source.attached(snapshot)))?;
        let options = self.context.session_config().options();
        let plan = Connect.optimize(plan, options)?;
        let mut plan = CancellableJoins(cancellation.clone()).optimize(plan, options)?;
        for rule in &self.last_rules {
            plan = rule.optimize(plan, options)?;
        }
        Ok((plan, self.context.clone()))
    }
}

/// Whether the plan's functions give the same for the same arguments, at any time.
fn is_repeatable(plan: &LogicalPlan) -> Result<bool> {
    let mut repeatable = true;
    shared::apply(plan, &mut |node| {
        repeatable &= !matches!(node, LogicalPlan::RecursiveQuery(_));
        node.apply_expressions(|expression| {
            expression.apply(|e| {
                repeatable &= match e {
                    Expr::ScalarFunction(call) => call.func.signature().volatility == Volatility::Immutable,
                    Expr::ScalarVariable(..) => false,
                    _ => true,
                };
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(repeatable)
}

/// Whether all that a plan reads, shared queries included, is native tables, which a snapshot holds still.
fn reads_tables_only(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut only = true;
    plan.apply(|node| {
        only &= !node.children().is_empty() || FreestoneSource::of(node).is_some() || shared::is_scan(node);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(only)
}
