//! The query in logical plans, and how it becomes an operator.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::{DFSchema, DFSchemaRef, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use freestone_binder::{KeyedColumn, KeyedRecursion};

use super::exec::KeyedRecursionExec;

/// What does not change when inputs are optimized.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Terms {
    /// The name of the table of the step before.
    pub before: String,
    /// The name of the table of all keys.
    pub state: String,
    /// The name of the table of candidates.
    pub candidates: String,
    pub columns: Vec<KeyedColumn>,
    pub is_distinct: bool,
    pub repeats: bool,
    pub schema: SchemaRef,
}

/// The query. Its inputs are the first rows, the step, and the totals if there are any.
#[derive(Debug, Clone)]
pub(crate) struct KeyedQuery {
    inputs: Vec<LogicalPlan>,
    terms: Arc<Terms>,
    schema: DFSchemaRef,
}

impl KeyedQuery {
    /// A plan of the query.
    ///
    /// # Errors
    /// Two columns have the same name.
    pub fn plan(recursion: KeyedRecursion) -> Result<LogicalPlan> {
        let schema = Arc::new(DFSchema::try_from(recursion.schema.clone())?);
        let inputs = [recursion.first, recursion.step].into_iter().chain(recursion.totals).collect();
        let terms = Terms {
            before: recursion.before,
            state: recursion.state,
            candidates: recursion.candidates,
            columns: recursion.columns,
            is_distinct: recursion.is_distinct,
            repeats: recursion.repeats,
            schema: recursion.schema,
        };
        let node = Arc::new(KeyedQuery { inputs, terms: Arc::new(terms), schema });
        Ok(LogicalPlan::Extension(Extension { node }))
    }

    /// The names of the tables that its inputs read.
    pub fn tables(&self) -> [&str; 3] {
        [&self.terms.before, &self.terms.state, &self.terms.candidates]
    }
}

impl PartialEq for KeyedQuery {
    fn eq(&self, other: &Self) -> bool {
        self.terms == other.terms && self.inputs == other.inputs
    }
}

impl Eq for KeyedQuery {}

impl PartialOrd for KeyedQuery {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl Hash for KeyedQuery {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.terms.hash(state);
        self.inputs.hash(state);
    }
}

impl UserDefinedLogicalNodeCore for KeyedQuery {
    fn name(&self) -> &str {
        "KeyedRecursion"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        self.inputs.iter().collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyedRecursion: is_distinct={}", self.terms.is_distinct)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        if inputs.len() != self.inputs.len() {
            return internal_err!("a recursive query with keys has other inputs");
        }
        Ok(KeyedQuery { inputs, ..self.clone() })
    }
}

/// Makes operators of these queries.
pub(crate) struct KeyedPlans;

#[async_trait]
impl ExtensionPlanner for KeyedPlans {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(query) = node.as_any().downcast_ref::<KeyedQuery>() else { return Ok(None) };
        Ok(Some(Arc::new(KeyedRecursionExec::new(query.terms.clone(), inputs)?)))
    }
}
