//! Planning within limits: planning counts as memory of its statement, and ends when the statement ends.
//!
//! A short text can take minutes and gigabytes to plan. So planning runs on its own thread, never on one that runs
//! other statements, and checks at every node of every rule whether it may continue ([`check`]). It stops when its
//! statement was cancelled or has timed out, and when its memory exceeds what the pool has. This memory is the number
//! of bytes that the planning thread has allocated and not freed, as counted by [`Counting`](heap::Counting). In a
//! program without this allocator, planning has no memory limit.

use std::cell::RefCell;
use std::sync::Arc;

use datafusion::arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, TableReference, resources_datafusion_err};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Cast, Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::{AnalyzerRule, ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::{PhysicalOptimizerContext, PhysicalOptimizerRule};
use datafusion::physical_plan::ExecutionPlan;

use crate::context::{self, Cancellation};
use crate::heap;

/// Memory is requested from the pool in steps of this size.
const STEP_BYTES: usize = 1 << 20;

thread_local! {
    static CURRENT: RefCell<Option<Planning>> = const { RefCell::new(None) };
}

/// The limits of one statement's planning.
struct Planning {
    cancellation: Cancellation,
    memory: MemoryReservation,
    /// The bytes that the thread held when planning began.
    began: isize,
}

/// Plans by `work`, on this thread, within the limits of a statement.
pub(crate) fn within<T>(cancellation: Cancellation, pool: &Arc<dyn MemoryPool>, work: impl FnOnce() -> T) -> T {
    /// Ends the planning also when `work` panics.
    struct EndGuard(Option<Planning>);
    impl Drop for EndGuard {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }
    let memory = MemoryConsumer::new("planning the statement").register(pool);
    let statement = cancellation.clone();
    let planning = Planning { cancellation, memory, began: heap::held() };
    let _ended = EndGuard(CURRENT.replace(Some(planning)));
    context::within(Some(statement), work)
}

/// Checks whether planning may continue. This is cheap, and always successful outside of limited planning.
///
/// # Errors
/// The statement was cancelled, or its planning needs more memory than is available.
pub(crate) fn check() -> Result<()> {
    CURRENT.with_borrow(|planning| planning.as_ref().map_or(Ok(()), Planning::check))
}

/// The bytes that planning on this thread took and did not give back so far: those of the plan, at its end.
pub(crate) fn taken() -> usize {
    CURRENT.with_borrow(|planning| planning.as_ref().map_or(0, Planning::taken))
}

impl Planning {
    fn taken(&self) -> usize {
        usize::try_from(heap::held().wrapping_sub(self.began)).unwrap_or(0)
    }

    fn check(&self) -> Result<()> {
        self.cancellation.check()?;
        let held = self.taken();
        let reserved = self.memory.size();
        if held <= reserved + STEP_BYTES {
            return Ok(());
        }
        self.memory.try_grow(held - reserved).map_err(|_| {
            resources_datafusion_err!(
                "planning the statement took {held} bytes so far, and statements have no more memory"
            )
        })
    }
}

/// Rules of the analyzer that [`check`] before they begin.
pub(crate) fn analyzer_rules(
    rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>>,
) -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    rules.into_iter().map(|rule| Arc::new(Bounded(rule)) as _).collect()
}

/// Rules of the optimizer that [`check`] at every node.
pub(crate) fn optimizer_rules(
    rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>,
) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    rules.into_iter().map(|rule| Arc::new(Bounded(rule)) as _).collect()
}

/// Physical rules that [`check`] before they begin.
pub(crate) fn physical_rules(
    rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    rules.into_iter().map(|rule| Arc::new(Bounded(rule)) as _).collect()
}

#[derive(Debug)]
struct Bounded<R>(R);

impl AnalyzerRule for Bounded<Arc<dyn AnalyzerRule + Send + Sync>> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        check()?;
        context::folding(|| self.0.analyze(plan, config))
    }
}

impl OptimizerRule for Bounded<Arc<dyn OptimizerRule + Send + Sync>> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        check()?;
        context::folding(|| self.0.rewrite(plan, config))
    }
}

impl PhysicalOptimizerRule for Bounded<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        check()?;
        self.0.optimize(plan, config)
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        check()?;
        self.0.optimize_with_context(plan, context)
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Checks at every operator of an expression while SQL becomes a plan.
#[derive(Debug)]
pub(crate) struct BoundedExpressions;

impl ExprPlanner for BoundedExpressions {
    fn plan_binary_op(&self, expr: RawBinaryExpr, _: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        check()?;
        Ok(PlannerResult::Original(expr))
    }
}

/// Makes plans of a state deliver rows in the order of what they read: one partition preserves it.
pub(crate) fn keep_order_of_rows(state: &mut SessionState) {
    state.config_mut().options_mut().execution.target_partitions = 1;
}

/// A plan whose columns have the types that they will have after analysis.
///
/// # Errors
/// The plan is not valid.
pub(crate) fn with_analyzed_types(state: &SessionState, plan: LogicalPlan) -> crate::error::Result<LogicalPlan> {
    let mut is_certain = true;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|e| {
            is_certain &= !e.exists(|part| Ok(matches!(part, Expr::Case(_))))?;
            Ok(if is_certain { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
        })
    })?;
    if is_certain {
        return Ok(plan);
    }
    let analyzed = analyzed_schema(state, plan.clone())?;
    let types = || plan.schema().iter().zip(analyzed.fields());
    if types().all(|((_, before), after)| before.data_type() == after.data_type()) {
        return Ok(plan);
    }
    let column = |((table, before), after): ((Option<&TableReference>, &FieldRef), &FieldRef)| {
        let column = Expr::Column(Column::new(table.cloned(), before.name()));
        match before.data_type() == after.data_type() {
            true => column,
            false => {
                let cast = Expr::Cast(Cast::new(Box::new(column), after.data_type().clone()));
                cast.alias_qualified(table.cloned(), before.name())
            }
        }
    };
    let columns: Vec<Expr> = types().map(column).collect();
    Ok(LogicalPlanBuilder::from(plan).project(columns)?.build()?)
}

/// The columns of a plan's rows, with the types that analysis gives to operands of several types: before it, a CASE has the type
/// of its first value.
///
/// # Errors
/// The plan is not valid.
pub(crate) fn analyzed_schema(state: &SessionState, plan: LogicalPlan) -> crate::error::Result<SchemaRef> {
    let plan = state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?;
    Ok(Arc::new(plan.schema().as_arrow().clone()))
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;
    use crate::error::{Error, ErrorKind};

    #[test]
    fn what_planning_holds_counts_until_it_ends() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(32 << 20));
        assert!(check().is_ok());
        within(Cancellation::of_nobody(), &pool, || {
            let mut held = vec![0_u8; 8 << 20];
            assert!(check().is_ok() && pool.reserved() >= 8 << 20, "{}", pool.reserved());
            held.reserve_exact(64 << 20);
            let error = Error::from(check().expect_err("there is no more"));
            assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Resource, "53200"), "{error}");
            drop(held);
            assert!(check().is_ok());
        });
        assert_eq!(pool.reserved(), 0);
        // Memory of other threads does not count.
        within(Cancellation::of_nobody(), &pool, || {
            let held = std::thread::spawn(|| vec![0_u8; 64 << 20]).join().expect("no panic");
            assert!(check().is_ok());
            drop(held);
            assert!(check().is_ok());
        });
    }
}
