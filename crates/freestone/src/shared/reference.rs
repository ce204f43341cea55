//! References to shared queries in plans that are not analyzed yet.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef, ParamValues, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::scalar::ScalarValue;
use parking_lot::Mutex;

use crate::error::{Error, ErrorKind};
use crate::recursion::reads_outer_step;

/// The prefix of the alias that marks a derived table as the query of a common table expression.
/// The maximum number of nodes of a plan that cannot be shared, because it depends on its context.
const NODES_MAX: usize = 20_000;

/// Whether the query's author requires that it runs once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Materialized {
    /// Not specified.
    Open,
    Yes,
    /// NOT MATERIALIZED: planned at each reference, if it returns the same rows each time and the plan stays small.
    No,
}

/// A query that may be read several times.
#[derive(Debug)]
pub(crate) struct SharedQuery {
    /// Larger than the ids of all queries that its plan refers to.
    pub id: u64,
    pub name: String,
    pub plan: LogicalPlan,
    pub materialized: Materialized,
    /// The parameters in the plan, without duplicates.
    placeholders: Vec<Expr>,
    /// The query with values for its parameters, by these values.
    bound: Mutex<Vec<(Vec<Expr>, Arc<SharedQuery>)>>,
}

impl SharedQuery {
    fn new(name: String, plan: LogicalPlan, materialized: Materialized) -> Result<Arc<Self>> {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let placeholders = placeholders(&plan)?;
        let bound = Mutex::default();
        Ok(Arc::new(SharedQuery { id: IDS.fetch_add(1, Relaxed), name, plan, materialized, placeholders, bound }))
    }

    /// The query with values for its parameters. Equal values give the same query.
    fn with_values(&self, values: Vec<Expr>) -> Result<Arc<SharedQuery>> {
        let mut bound = self.bound.lock();
        if let Some((_, known)) = bound.iter().find(|(known, _)| *known == values) {
            return Ok(known.clone());
        }
        let mut by_name: Vec<(String, ScalarValue)> = vec![];
        for (placeholder, value) in self.placeholders.iter().zip(&values) {
            match (placeholder, value.clone().unalias()) {
                (Expr::Placeholder(placeholder), Expr::Literal(value, _)) => {
                    by_name.push((placeholder.id.trim_start_matches('$').to_owned(), value));
                }
                _ => return internal_err!("the parameter of a shared query is no value"),
            }
        }
        let plan = self.plan.clone().with_param_values(ParamValues::from(by_name))?;
        let query = SharedQuery::new(self.name.clone(), plan, self.materialized)?;
        bound.push((values, query.clone()));
        Ok(query)
    }
}

/// The parameters of a plan, without duplicates.
fn placeholders(plan: &LogicalPlan) -> Result<Vec<Expr>> {
    let mut all: Vec<Expr> = vec![];
    each_expression(plan, &mut |expression| {
        if matches!(expression, Expr::Placeholder(_)) && !all.contains(expression) {
            all.push(expression.clone());
        }
    })?;
    Ok(all)
}

fn each_expression(plan: &LogicalPlan, visit: &mut impl FnMut(&Expr)) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|e| {
                visit(e);
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(())
}

/// A leaf of a plan that represents the rows of a shared query.
#[derive(Debug, Clone)]
pub(crate) struct Reference {
    pub query: Arc<SharedQuery>,
}

impl Reference {
    /// The reference in a node, if it is one.
    pub fn of(node: &LogicalPlan) -> Option<&Reference> {
        let LogicalPlan::Extension(extension) = node else { return None };
        extension.node.as_any().downcast_ref()
    }
}

impl PartialEq for Reference {
    fn eq(&self, other: &Self) -> bool {
        self.query.id == other.query.id
    }
}

impl Eq for Reference {}

impl PartialOrd for Reference {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.query.id.partial_cmp(&other.query.id)
    }
}

impl Hash for Reference {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.query.id.hash(state);
    }
}

impl UserDefinedLogicalNodeCore for Reference {
    fn name(&self) -> &str {
        "SharedQuery"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.query.plan.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        self.query.placeholders.clone()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedQuery: {}", self.query.name)
    }

    fn with_exprs_and_inputs(&self, values: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        if !inputs.is_empty() {
            return internal_err!("a shared query has no inputs");
        }
        if values == self.query.placeholders {
            return Ok(self.clone());
        }
        Ok(Reference { query: self.query.with_values(values)? })
    }
}

/// A reference to a new query, or its plan if the query depends on its context.
pub(crate) fn referenced(name: &str, plan: LogicalPlan, materialized: Materialized) -> Result<LogicalPlan> {
    if depends_on_context(&plan)? {
        return Ok(plan);
    }
    let query = SharedQuery::new(name.to_owned(), plan, materialized)?;
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(Reference { query }) }))
}

/// Whether a query's rows depend on its context: on columns of an outer query, or on the step of a recursive query.
///
/// # Errors
/// The plan is too large, because it contains such queries many times.
fn depends_on_context(plan: &LogicalPlan) -> Result<bool> {
    let mut nodes = 0;
    plan.apply_with_subqueries(|_| {
        nodes += 1;
        if nodes <= NODES_MAX { Ok(TreeNodeRecursion::Continue) } else { Err(too_large().into()) }
    })?;
    let mut outer: HashSet<Column> = HashSet::new();
    each_expression(plan, &mut |expression| {
        if let Expr::OuterReferenceColumn(_, column) = expression {
            outer.insert(column.clone());
        }
    })?;
    plan.apply_with_subqueries(|node| {
        // A subquery's outer columns belong to this query if it has them.
        outer.retain(|column| !node.schema().has_column(column));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(!outer.is_empty() || reads_outer_step(plan))
}

fn too_large() -> Error {
    let message = format!(
        "the statement is too complex: its common table expressions depend on the query around them, and together have more \
         than {NODES_MAX} parts"
    );
    Error::new(ErrorKind::Resource, message).with_hint("read each of them once, or move them out of the subquery")
}

/// Calls `visit` with every node of a plan, and of the queries to which it refers. Each query is visited once.
pub(crate) fn apply(
    plan: &LogicalPlan,
    visit: &mut impl FnMut(&LogicalPlan) -> Result<TreeNodeRecursion>,
) -> Result<()> {
    let mut seen = HashSet::new();
    let mut waiting = vec![];
    let mut visit = |node: &LogicalPlan, waiting: &mut Vec<Arc<SharedQuery>>| {
        if let Some(reference) = Reference::of(node)
            && seen.insert(reference.query.id)
        {
            waiting.push(reference.query.clone());
        }
        visit(node)
    };
    plan.apply_with_subqueries(|node| visit(node, &mut waiting))?;
    while let Some(query) = waiting.pop() {
        query.plan.apply_with_subqueries(|node| visit(node, &mut waiting))?;
    }
    Ok(())
}
