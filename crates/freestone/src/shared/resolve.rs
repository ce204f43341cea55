//! The first analyzer rule: decides which queries are shared and which are inlined at their references.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, TableReference, internal_err};
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableProviderFilterPushDown, TableType};
use datafusion::optimizer::{Analyzer, AnalyzerRule};
use datafusion::physical_plan::ExecutionPlan;

use super::reference::{Materialized, Reference, SharedQuery};

/// A query with at most this many nodes, including those of the queries to which it refers, may be inlined at each
/// reference.
const NODES_MAX: usize = 12;
/// The maximum number of nodes of all copies of a query that is NOT MATERIALIZED.
const COPIED_NODES_MAX: usize = 1000;
/// The maximum number of references at which a cheap query is inlined.
const COPIES_MAX: usize = 8;

/// Shares queries or inlines them. `rules` are the following analyzer rules, which also analyze the shared queries.
#[derive(Debug)]
pub(crate) struct Resolve {
    pub rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>>,
}

impl AnalyzerRule for Resolve {
    fn name(&self) -> &str {
        "shared_queries"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut queries = Queries::of(&plan)?;
        if queries.0.is_empty() {
            return Ok(plan);
        }
        queries.count_copies();
        let analyzer = Analyzer::with_rules(self.rules.clone());
        // A query comes after those to which it refers.
        let mut answers = Answers::default();
        for (number, (id, known)) in queries.0.iter().enumerate() {
            let body = answers.put_into(known.query.plan.clone())?;
            let answer = if known.is_shared() {
                let body = analyzer.execute_and_check(body, config, |_, _| {})?;
                answers.changed |= body.schema() != known.query.plan.schema();
                let name = format!("{}#{}", known.query.name, number + 1);
                SharedTable::scan_of(name, *id, body)?
            } else {
                body
            };
            answers.plans.insert(*id, answer);
        }
        answers.put_into(plan)
    }
}

/// The replacement of the references to each query, by the query's id.
#[derive(Default)]
struct Answers {
    plans: BTreeMap<u64, LogicalPlan>,
    /// Whether the types of a query differ from those of its references.
    changed: bool,
}

impl Answers {
    fn put_into(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let put = |node: LogicalPlan| match Reference::of(&node) {
            Some(reference) => match self.plans.get(&reference.query.id) {
                Some(answer) => Ok(Transformed::yes(answer.clone())),
                None => internal_err!("a shared query that nobody planned"),
            },
            None if self.changed && !node.inputs().is_empty() => node.recompute_schema().map(Transformed::yes),
            None => Ok(Transformed::no(node)),
        };
        Ok(plan.transform_up_with_subqueries(put)?.data)
    }
}

/// The queries to which a plan refers, by id.
struct Queries(BTreeMap<u64, QueryUses>);

struct QueryUses {
    query: Arc<SharedQuery>,
    /// The number of references in the plan itself.
    uses_in_plan: usize,
    /// The number of references in the query, by the id of the referenced query.
    refers_to: BTreeMap<u64, usize>,
    /// Whether running it once saves nothing: it only scans, filters and projects.
    cheap: bool,
    /// Whether it may return other rows each time.
    volatile: bool,
    /// The number of nodes of its plan, counting those of the referenced queries at each reference.
    nodes: usize,
    /// The number of times that it would run if it were inlined at each reference.
    copies: usize,
}

impl QueryUses {
    fn is_shared(&self) -> bool {
        let may_copy = match self.query.materialized {
            Materialized::Yes => return true,
            Materialized::Open => self.cheap && self.nodes <= NODES_MAX && self.copies <= COPIES_MAX,
            Materialized::No => !self.volatile && self.nodes.saturating_mul(self.copies) <= COPIED_NODES_MAX,
        };
        self.copies > 1 && !may_copy
    }
}

/// The counts of one plan.
#[derive(Default)]
struct Counts {
    references: BTreeMap<u64, usize>,
    queries: Vec<Arc<SharedQuery>>,
    nodes: usize,
    expensive: bool,
    volatile: bool,
}

impl Counts {
    fn of(plan: &LogicalPlan) -> Result<Counts> {
        let mut counts = Counts::default();
        plan.apply_with_subqueries(|node| {
            counts.nodes += 1;
            if let Some(Reference { query }) = Reference::of(node) {
                *counts.references.entry(query.id).or_default() += 1;
                counts.queries.push(query.clone());
                return Ok(TreeNodeRecursion::Continue);
            }
            counts.expensive |= !passes_rows_on(node);
            node.apply_expressions(|expression| {
                counts.volatile |= expression.is_volatile();
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        counts.expensive |= counts.volatile;
        Ok(counts)
    }
}

/// Whether a node only passes on its input's rows, or some of them, and their columns.
fn passes_rows_on(node: &LogicalPlan) -> bool {
    matches!(
        node,
        LogicalPlan::TableScan(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Projection(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::EmptyRelation(_)
            | LogicalPlan::Values(_)
            | LogicalPlan::Union(_)
    )
}

impl Queries {
    fn of(plan: &LogicalPlan) -> Result<Queries> {
        let counts = Counts::of(plan)?;
        let mut all: BTreeMap<u64, QueryUses> = BTreeMap::new();
        let mut waiting = counts.queries;
        while let Some(query) = waiting.pop() {
            if all.contains_key(&query.id) {
                continue;
            }
            let counts = Counts::of(&query.plan)?;
            waiting.extend(counts.queries);
            let id = query.id;
            let known = QueryUses {
                query,
                uses_in_plan: 0,
                refers_to: counts.references,
                cheap: !counts.expensive,
                volatile: counts.volatile,
                nodes: counts.nodes,
                copies: 0,
            };
            all.insert(id, known);
        }
        for (id, uses) in counts.references {
            if let Some(known) = all.get_mut(&id) {
                known.uses_in_plan = uses;
            }
        }
        Ok(Queries(all))
    }

    /// Computes the size of each query including its references, and then how often each would run; a shared query runs
    /// once.
    fn count_copies(&mut self) {
        let mut costs: BTreeMap<u64, (bool, bool, usize)> = BTreeMap::new();
        for (id, known) in &mut self.0 {
            for (other, uses) in &known.refers_to {
                let (cheap, volatile, nodes) = costs.get(other).copied().unwrap_or((false, true, usize::MAX));
                known.cheap &= cheap;
                known.volatile |= volatile;
                known.nodes = known.nodes.saturating_add(nodes.saturating_mul(*uses));
            }
            costs.insert(*id, (known.cheap, known.volatile, known.nodes));
        }
        let mut copies: BTreeMap<u64, usize> = self.0.iter().map(|(id, known)| (*id, known.uses_in_plan)).collect();
        // A query comes before those to which it refers.
        for (id, known) in self.0.iter_mut().rev() {
            known.copies = copies.get(id).copied().unwrap_or(0);
            let runs = if known.is_shared() { 1 } else { known.copies };
            for (other, uses) in &known.refers_to {
                let sum = copies.entry(*other).or_default();
                *sum = sum.saturating_add(uses.saturating_mul(runs));
            }
        }
    }
}

/// The rows of a shared query, as a table into which the optimizer pushes projections and filters.
#[derive(Debug)]
pub(super) struct SharedTable {
    pub id: u64,
    pub name: String,
    /// The analyzed query.
    pub body: LogicalPlan,
    /// Its columns, with distinct names.
    schema: SchemaRef,
}

impl SharedTable {
    /// A scan that returns a query's columns under the names that its reference uses.
    fn scan_of(name: String, id: u64, body: LogicalPlan) -> Result<LogicalPlan> {
        let mut fields: Vec<Field> = vec![];
        let mut taken = HashSet::new();
        for (at, (_, field)) in body.schema().iter().enumerate() {
            let name = if taken.insert(field.name()) { field.name().clone() } else { format!("{}:{at}", field.name()) };
            fields.push(field.as_ref().clone().with_name(name));
        }
        let schema = Arc::new(Schema::new(fields));
        let relation = TableReference::bare(name.as_str());
        let named = body.schema().iter().zip(schema.fields()).map(|((qualifier, field), column)| {
            let column = Expr::Column(Column::new(Some(relation.clone()), column.name()));
            column.alias_qualified(qualifier.cloned(), field.name())
        });
        let named: Vec<Expr> = named.collect();
        let table = Arc::new(SharedTable { id, name, body, schema });
        LogicalPlanBuilder::scan(relation, provider_as_source(table), None)?.project(named)?.build()
    }
}

#[async_trait]
impl TableProvider for SharedTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    /// A filter in every scan reduces the rows of the query. Each scan's own filter remains above it.
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let pushdown = |filter: &&Expr| {
            if filter.is_volatile() || reads_elsewhere(filter) {
                TableProviderFilterPushDown::Unsupported
            } else {
                TableProviderFilterPushDown::Inexact
            }
        };
        Ok(filters.iter().map(pushdown).collect())
    }

    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        internal_err!("the shared query {} was not planned", self.name)
    }
}

/// Whether an expression reads more than the columns of its input.
fn reads_elsewhere(filter: &Expr) -> bool {
    let elsewhere = |e: &Expr| {
        use Expr::{Exists, InSubquery, OuterReferenceColumn, ScalarSubquery, SetComparison};
        Ok(matches!(e, Exists(_) | InSubquery(_) | OuterReferenceColumn(..) | ScalarSubquery(_) | SetComparison(_)))
    };
    filter.exists(elsewhere).unwrap_or(true)
}
