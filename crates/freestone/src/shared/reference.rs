//! References to shared queries in plans that are not analyzed yet.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use datafusion::catalog::cte_worktable::CteWorkTable;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef, ParamValues, internal_err};
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    Cte, Ident, ObjectName, Query, SetExpr, TableFactor, TableWithJoins, Visit, VisitMut, Visitor, VisitorMut,
};
use parking_lot::Mutex;

use crate::error::{Error, ErrorKind};
use crate::planning;
use crate::sql::materialized::{MATERIALIZED_MARK, NOT_MATERIALIZED_MARK};
use crate::sql::{names, statement, visitor};

/// The prefix of the alias that marks a derived table as the query of a common table expression.
const MARK: &str = "freestone$shared$";
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
    let mut worked_on: HashSet<String> = HashSet::new();
    let mut recursive: HashSet<String> = HashSet::new();
    each_expression(plan, &mut |expression| {
        if let Expr::OuterReferenceColumn(_, column) = expression {
            outer.insert(column.clone());
        }
    })?;
    plan.apply_with_subqueries(|node| {
        // A subquery's outer columns belong to this query if it has them.
        outer.retain(|column| !node.schema().has_column(column));
        if let LogicalPlan::RecursiveQuery(query) = node {
            recursive.insert(query.name.clone());
        }
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
            && let Some(table) = provider.downcast_ref::<CteWorkTable>()
        {
            worked_on.insert(table.name().to_owned());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(!outer.is_empty() || !worked_on.is_subset(&recursive))
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

/// Marks the common table expressions that a statement names more than once or declares as MATERIALIZED. Their queries
/// become references when they are planned.
pub(crate) fn mark(statement: &mut (impl Visit + VisitMut)) {
    let mut uses = Uses::default();
    let _ = visitor::visit(statement, &mut uses);
    if uses.has_with {
        let _ = visitor::visit_mut(statement, &mut Marks(uses.by_name));
    }
}

/// Counts how often each name is used as a table.
#[derive(Default)]
struct Uses {
    by_name: HashMap<String, usize>,
    has_with: bool,
}

impl Visitor for Uses {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.has_with |= query.with.is_some();
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        if let [part] = relation.0.as_slice()
            && let Some(name) = part.as_ident()
        {
            *self.by_name.entry(names::folded(name)).or_default() += 1;
        }
        ControlFlow::Continue(())
    }
}

struct Marks(HashMap<String, usize>);

impl VisitorMut for Marks {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(with) = &mut query.with {
            for cte in &mut with.cte_tables {
                let name = names::folded(&cte.alias.name);
                let mark = match unwrap(&mut cte.query) {
                    Some(mark) => mark,
                    None if self.0.get(&name).is_some_and(|uses| *uses > 1) => MARK,
                    None => continue,
                };
                if with.recursive && names_itself(cte, &name) {
                    enclose(cte);
                }
                wrap(&mut cte.query, format!("{mark}{name}"));
            }
        }
        ControlFlow::Continue(())
    }
}

fn names_itself(cte: &Cte, name: &str) -> bool {
    let mut uses = Uses::default();
    let _ = visitor::visit(&*cte.query, &mut uses);
    uses.by_name.contains_key(name)
}

/// Replaces the query of a recursive `r` by `WITH RECURSIVE r AS (query) SELECT * FROM r`.
fn enclose(cte: &mut Cte) {
    let Ok(mut around) = statement::parse_query("WITH RECURSIVE r AS (SELECT 1) SELECT * FROM r") else { return };
    if let (Some(with), SetExpr::Select(select)) = (&mut around.with, around.body.as_mut())
        && let Some(TableFactor::Table { name, .. }) = select.from.first_mut().map(|from| &mut from.relation)
    {
        *name = ObjectName::from(vec![cte.alias.name.clone()]);
        with.cte_tables = vec![cte.clone()];
        cte.query = around;
    }
}

/// Unwraps the query of `SELECT * FROM (query) AS mark`, and returns the mark.
fn unwrap(query: &mut Box<Query>) -> Option<&'static str> {
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let [TableWithJoins { relation: TableFactor::Derived { subquery, alias: Some(alias), .. }, joins }] =
        select.from.as_mut_slice()
    else {
        return None;
    };
    let marks = [MATERIALIZED_MARK, NOT_MATERIALIZED_MARK];
    let mark = marks.into_iter().find(|mark| alias.name.value == *mark).filter(|_| joins.is_empty())?;
    let inner = std::mem::replace(subquery.as_mut(), statement::parse_query("SELECT 1").ok().map(|query| *query)?);
    **query = inner;
    Some(mark)
}

/// Wraps a query as `SELECT * FROM (query) AS mark`.
fn wrap(query: &mut Box<Query>, mark: String) {
    let Ok(mut around) = statement::parse_query("SELECT * FROM (SELECT 1) AS mark") else { return };
    if let SetExpr::Select(select) = around.body.as_mut()
        && let Some(TableFactor::Derived { subquery, alias: Some(alias), .. }) =
            select.from.first_mut().map(|from| &mut from.relation)
    {
        alias.name = Ident::with_quote('"', mark);
        std::mem::swap(subquery, query);
        *query = around;
    }
}

/// Plans marked queries as references, and checks at each table of a statement whether planning may continue.
#[derive(Debug)]
pub(crate) struct SharedRelations;

impl RelationPlanner for SharedRelations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        planning::check()?;
        let (subquery, mark) = match relation {
            TableFactor::Derived { lateral: false, subquery, alias: Some(alias), .. }
                if alias.name.value.starts_with("freestone$") =>
            {
                (subquery, alias.name.value)
            }
            other => return Ok(RelationPlanning::Original(Box::new(other))),
        };
        let marks = [
            (MARK, Materialized::Open),
            (MATERIALIZED_MARK, Materialized::Yes),
            (NOT_MATERIALIZED_MARK, Materialized::No),
        ];
        let found = marks.iter().find_map(|(prefix, kind)| Some((mark.strip_prefix(prefix)?, *kind)));
        let Some((name, materialized)) = found else {
            return Err(Error::invalid(format!("the name {mark} is reserved")).into());
        };
        let plan = context.plan(TableFactor::Derived { lateral: false, subquery, alias: None, sample: None })?;
        let plan = referenced(name, plan, materialized)?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}
