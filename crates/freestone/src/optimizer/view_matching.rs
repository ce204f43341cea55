//! Reads materialized views instead of the joins of which they have the rows (Halverson et al. 2006, sections 2.2 and 5: D4).
//!
//! The part of a query that a view can answer is a *block*: inner joins, filters and columns of tables, each of which is there
//! once. In a block, a column is named by the id of its table, so that two blocks can be compared. A view answers a block if
//! - it has the rows of its query in the snapshot that the query reads,
//! - all its conditions are among those of the block, so that it has every row of the block's joins, as often,
//! - it has all columns that the rest of the query needs, or others that are equal by its joins.
//!
//! The view may have further tables, if each row of the others has exactly one match in them: an enforced foreign key of columns
//! without NULL says so. The block may have further tables, which are joined with the view. What is not certain is not matched:
//! conditions of a view are equalities of columns and comparisons with constants, of types whose equal values are the same.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::catalog::TableProvider;
use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType, NullEquality, TableReference};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, LogicalPlanBuilder, Operator, TableScan, TableSource};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use freestone_store::{Snapshot, Table};

use crate::expressions::size;
use crate::provider::FreestoneTable;

/// Fewer tables are no join.
pub(crate) const TABLES_MIN: usize = 2;

/// Columns that are expressions of many parts over many subqueries stand for more and more.
const NODES_MAX: usize = 10_000;

/// The rule. It runs before all others, on joins and filters as they are written.
#[derive(Debug)]
pub(crate) struct ViewMatching;

impl OptimizerRule for ViewMatching {
    fn name(&self) -> &str {
        "view_matching"
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match config.options().extensions.get::<Views>() {
            Some(views) => {
                let outer = outer_columns(&plan)?;
                Matching { views, outer }.with_views(plan, None)
            }
            None => Ok(Transformed::no(plan)),
        }
    }
}

/// The views that may answer parts of a statement. All are current in its snapshot.
#[derive(Debug, Clone, Default)]
pub(crate) struct Views(Arc<[View]>);

impl Views {
    pub fn new(views: Vec<View>) -> Views {
        Views(views.into())
    }
}

impl ConfigExtension for Views {
    const PREFIX: &'static str = "freestone_views";
}

impl ExtensionOptions for Views {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, _: &str) -> Result<()> {
        Err(DataFusionError::Configuration(format!("{key} is no setting")))
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        vec![]
    }
}

/// A column of a table: the id of the table, and the name.
type Of = (u64, String);

/// A materialized view and its query.
#[derive(Debug)]
pub(crate) struct View {
    provider: Arc<FreestoneTable>,
    snapshot: Arc<Snapshot>,
    /// The tables of its query.
    tables: BTreeMap<u64, Arc<Table>>,
    conditions: Vec<Expr>,
    /// The columns of tables that it has, also under the names of others that are equal, and what it calls them.
    columns: HashMap<Of, String>,
}

impl View {
    /// A view of a snapshot, whose query has this analyzed plan. `None` if it is not certain which rows it has.
    pub fn of(table: FreestoneTable, snapshot: &Arc<Snapshot>, plan: &LogicalPlan) -> Option<View> {
        // Its own order has no effect on which rows there are.
        let plan = match plan {
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => sort.input.as_ref(),
            plan => plan,
        };
        let block = Block::of(plan, snapshot)?;
        if block.parts.len() < TABLES_MIN || !block.conditions.iter().all(|condition| block.is_plain(condition)) {
            return None;
        }
        let mut columns = HashMap::new();
        let schema = table.schema();
        for (field, output) in schema.fields().iter().zip(&block.outputs) {
            let Some(of) = column_of(output) else { continue };
            // Values are read with the type and the meaning that the table gives them.
            let is_same = |base: &Field| base.data_type() == field.data_type() && base.metadata() == field.metadata();
            if block.field(&of).is_some_and(|base| is_same(&base)) {
                columns.entry(of).or_insert_with(|| field.name().clone());
            }
        }
        add_equal(&block, &mut columns);
        let tables = block.parts.iter().map(|(id, part)| (*id, part.table.clone())).collect();
        let (provider, snapshot) = (Arc::new(table), snapshot.clone());
        Some(View { provider, snapshot, tables, conditions: block.conditions, columns })
    }
}

/// Columns that a condition makes equal are there if one of them is.
fn add_equal(block: &Block, columns: &mut HashMap<Of, String>) {
    let equal: Vec<(Of, Of)> = block.conditions.iter().filter_map(|condition| block.equal_columns(condition)).collect();
    loop {
        let before = columns.len();
        for (left, right) in equal.iter().flat_map(|(a, b)| [(a, b), (b, a)]) {
            if let (Some(name), false) = (columns.get(left).cloned(), columns.contains_key(right)) {
                columns.insert(right.clone(), name);
            }
        }
        if columns.len() == before {
            return;
        }
    }
}

/// A table in a block.
#[derive(Clone)]
struct Part {
    table: Arc<Table>,
    source: Arc<dyn TableSource>,
}

/// Inner joins and filters of tables, each of which is there once.
struct Block {
    parts: BTreeMap<u64, Part>,
    conditions: Vec<Expr>,
    /// What the columns of its rows are.
    outputs: Vec<Expr>,
}

impl Block {
    fn of(plan: &LogicalPlan, snapshot: &Arc<Snapshot>) -> Option<Block> {
        match plan {
            LogicalPlan::TableScan(scan) => Block::of_table(scan, snapshot),
            LogicalPlan::SubqueryAlias(alias) => Block::of(&alias.input, snapshot),
            LogicalPlan::Projection(projection) => {
                let mut block = Block::of(&projection.input, snapshot)?;
                let schema = projection.input.schema();
                let outputs = projection.expr.iter().map(|output| block.resolved(output, schema));
                block.outputs = outputs.collect::<Option<_>>()?;
                let nodes: usize = block.outputs.iter().map(size).sum();
                (nodes <= NODES_MAX).then_some(block)
            }
            LogicalPlan::Filter(filter) => {
                let mut block = Block::of(&filter.input, snapshot)?;
                block.add_condition(&filter.predicate, filter.input.schema())?;
                Some(block)
            }
            LogicalPlan::Join(join)
                if join.join_type == JoinType::Inner && join.null_equality == NullEquality::NullEqualsNothing =>
            {
                let (mut block, right) = (Block::of(&join.left, snapshot)?, Block::of(&join.right, snapshot)?);
                for (id, part) in right.parts {
                    if block.parts.insert(id, part).is_some() {
                        return None;
                    }
                }
                block.conditions.extend(right.conditions);
                block.outputs.extend(right.outputs);
                for (left, right) in &join.on {
                    let equal = Expr::BinaryExpr(BinaryExpr::new(
                        Box::new(left.clone()),
                        Operator::Eq,
                        Box::new(right.clone()),
                    ));
                    block.add_condition(&equal, &join.schema)?;
                }
                if let Some(filter) = &join.filter {
                    block.add_condition(filter, &join.schema)?;
                }
                Some(block)
            }
            _ => None,
        }
    }

    fn of_table(scan: &TableScan, snapshot: &Arc<Snapshot>) -> Option<Block> {
        let provider = source_as_provider(&scan.source).ok()?;
        let provider = provider.downcast_ref::<FreestoneTable>()?;
        let is_whole = scan.filters.is_empty() && scan.fetch.is_none();
        if !is_whole || !provider.is_of(snapshot) {
            return None;
        }
        let table = provider.table().clone();
        let all: Vec<usize> = (0..table.schema.columns.len()).collect();
        let shown = scan.projection.as_ref().unwrap_or(&all);
        let output = |at: &usize| Some(named(table.id, &table.schema.columns.get(*at)?.name));
        let outputs = shown.iter().map(output).collect::<Option<_>>()?;
        let part = Part { table: table.clone(), source: scan.source.clone() };
        Some(Block { parts: BTreeMap::from([(table.id, part)]), conditions: vec![], outputs })
    }

    fn add_condition(&mut self, condition: &Expr, schema: &DFSchema) -> Option<()> {
        let resolved = self.resolved(condition, schema)?;
        self.conditions.extend(split_conjunction(&resolved).into_iter().cloned().map(in_order));
        Some(())
    }

    /// An expression over the columns of tables. `schema` names the block's rows.
    fn resolved(&self, expression: &Expr, schema: &DFSchema) -> Option<Expr> {
        let expression = match expression {
            Expr::Alias(alias) => alias.expr.as_ref(),
            other => other,
        };
        if expression.is_volatile() {
            return None;
        }
        let mut is_known = true;
        let resolved = expression.clone().transform_down(|part| {
            if let Expr::Column(column) = &part {
                let output = schema.maybe_index_of_column(column).and_then(|at| self.outputs.get(at)).cloned();
                is_known &= output.is_some();
                return Ok(Transformed::new(output.unwrap_or(part), true, TreeNodeRecursion::Jump));
            }
            is_known &= is_row_wise(&part);
            let next = if is_known { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop };
            Ok(Transformed::new(part, false, next))
        });
        Some(resolved.ok()?.data).filter(|_| is_known)
    }

    /// The column of a table as its scans have it.
    fn field(&self, (id, name): &Of) -> Option<Field> {
        self.parts.get(id)?.source.schema().field_with_name(name).ok().cloned()
    }

    /// Two columns that a condition makes equal, so that the value of one is that of the other.
    fn equal_columns(&self, condition: &Expr) -> Option<(Of, Of)> {
        let (left, right) = equality(condition)?;
        let is_same = |left: &Field, right: &Field| {
            let (a, b) = (left.data_type(), right.data_type());
            a == b && left.metadata() == right.metadata() && (a.is_integer() || is_date_or_decimal(a) || is_text(a))
        };
        let (a, b) = (self.field(&left)?, self.field(&right)?);
        is_same(&a, &b).then_some((left, right))
    }

    /// Whether a condition of a view means the same in all sessions, and is found by comparing it.
    fn is_plain(&self, condition: &Expr) -> bool {
        let mut is_plain = true;
        let visited = condition.apply(|part| {
            is_plain &= match part {
                Expr::Column(_) => {
                    column_of(part).and_then(|of| self.field(&of)).is_some_and(|field| is_plain_type(field.data_type()))
                }
                Expr::Literal(value, _) => is_plain_type(&value.data_type()),
                Expr::BinaryExpr(binary) => {
                    use Operator::*;
                    matches!(binary.op, Eq | NotEq | Lt | LtEq | Gt | GtEq | And | Or)
                }
                Expr::Not(_) | Expr::IsNull(_) | Expr::IsNotNull(_) | Expr::Between(_) | Expr::InList(_) => true,
                _ => false,
            };
            Ok(TreeNodeRecursion::Continue)
        });
        is_plain && visited.is_ok()
    }
}

/// Whether an expression makes a value of one row, from its parts and nothing else.
fn is_row_wise(part: &Expr) -> bool {
    use Expr::*;
    matches!(
        part,
        Alias(_)
            | Literal(..)
            | BinaryExpr(_)
            | Like(_)
            | SimilarTo(_)
            | Not(_)
            | IsNotNull(_)
            | IsNull(_)
            | IsTrue(_)
            | IsFalse(_)
            | IsUnknown(_)
            | IsNotTrue(_)
            | IsNotFalse(_)
            | IsNotUnknown(_)
            | Negative(_)
            | Between(_)
            | Case(_)
            | Cast(_)
            | TryCast(_)
            | ScalarFunction(_)
            | InList(_)
    )
}

fn is_date_or_decimal(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Date32 | DataType::Decimal128(..))
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::Utf8View)
}

/// Whether comparisons of a type depend on no setting.
fn is_plain_type(data_type: &DataType) -> bool {
    data_type.is_integer()
        || is_date_or_decimal(data_type)
        || is_text(data_type)
        || matches!(data_type, DataType::Boolean | DataType::Float32 | DataType::Float64)
}

/// The relation by which a table is named in blocks.
fn relation(table: u64) -> TableReference {
    TableReference::bare(format!("t{table}"))
}

fn named(table: u64, column: &str) -> Expr {
    Expr::Column(Column::new(Some(relation(table)), column))
}

/// The column of a table that an expression of a block is.
fn column_of(expression: &Expr) -> Option<Of> {
    let Expr::Column(column) = expression else { return None };
    let table = column.relation.as_ref()?.table().strip_prefix('t')?.parse().ok()?;
    Some((table, column.name.clone()))
}

/// The columns that an equality compares.
fn equality(condition: &Expr) -> Option<(Of, Of)> {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => Some((column_of(left)?, column_of(right)?)),
        _ => None,
    }
}

/// An equality of columns with the sides in one order.
fn in_order(condition: Expr) -> Expr {
    match (equality(&condition), condition) {
        (Some((left, right)), Expr::BinaryExpr(binary)) if left > right => {
            Expr::BinaryExpr(BinaryExpr::new(binary.right, Operator::Eq, binary.left))
        }
        (_, condition) => condition,
    }
}

/// The ids of the tables that an expression reads.
fn tables_of(expression: &Expr) -> HashSet<u64> {
    expression
        .column_refs()
        .into_iter()
        .filter_map(|column| column_of(&Expr::Column(column.clone())))
        .map(|of| of.0)
        .collect()
}

/// The columns that subqueries anywhere in a plan take from the queries around them.
fn outer_columns(plan: &LogicalPlan) -> Result<HashSet<Column>> {
    let mut found = HashSet::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                if let Expr::OuterReferenceColumn(_, column) = part {
                    found.insert(column.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

/// Views, and the plan in which they may be read.
struct Matching<'v> {
    views: &'v Views,
    outer: HashSet<Column>,
}

impl Matching<'_> {
    /// The plan in which views are read. `wanted` are the columns that operators above use, if known.
    fn with_views(&self, plan: LogicalPlan, wanted: Option<&HashSet<Column>>) -> Result<Transformed<LogicalPlan>> {
        if let Some(view) = self.views.0.first()
            && let Some(block) = Block::of(&plan, &view.snapshot)
        {
            return match self.best(&block, &plan, wanted)? {
                Some(plan) => Ok(Transformed::yes(plan)),
                None => Ok(Transformed::no(plan)),
            };
        }
        let own = || {
            let columns = plan.expressions().iter().flat_map(|e| e.column_refs().into_iter().cloned()).collect();
            self.outer.union(&columns).cloned().collect::<HashSet<_>>()
        };
        let below = match &plan {
            // The first rows of a view are others than those of its tables.
            LogicalPlan::Limit(limit) if !matches!(*limit.input, LogicalPlan::Sort(_)) => {
                return Ok(Transformed::no(plan));
            }
            LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) => Some(own()),
            LogicalPlan::Filter(_) | LogicalPlan::Sort(_) | LogicalPlan::Join(_) => {
                wanted.map(|wanted| wanted.union(&own()).cloned().collect())
            }
            LogicalPlan::Limit(_) => wanted.cloned(),
            _ => None,
        };
        let changed = plan.map_children(|child| self.with_views(child, below.as_ref()))?;
        if changed.transformed { changed.map_data(LogicalPlan::recompute_schema) } else { Ok(changed) }
    }

    /// A plan that reads the smallest view that answers a block.
    fn best(&self, block: &Block, plan: &LogicalPlan, wanted: Option<&HashSet<Column>>) -> Result<Option<LogicalPlan>> {
        if block.parts.len() < TABLES_MIN {
            return Ok(None);
        }
        let schema = plan.schema();
        let is_wanted = |at: &usize| {
            let (relation, field) = schema.qualified_field(*at);
            let is_of = |of: &TableReference| relation.is_none_or(|relation| relation.resolved_eq(of));
            let is_this = |column: &Column| column.name == *field.name() && column.relation.as_ref().is_none_or(is_of);
            wanted.is_none_or(|wanted| wanted.iter().any(is_this))
        };
        let outputs: Vec<usize> = (0..block.outputs.len()).filter(is_wanted).collect();
        let answers = self.views.0.iter().filter_map(|view| Answer::of(view, block, &outputs));
        // The one that leaves the fewest joins, and of those the one with the fewest bytes.
        let best =
            answers.min_by_key(|answer| (answer.others.len(), answer.view.table().bytes(), answer.view.table().id));
        best.map(|answer| answer.plan(schema, &outputs)).transpose()
    }
}

/// How a view answers a block.
struct Answer<'v> {
    view: &'v View,
    /// The tables that are joined with the view.
    others: Vec<(u64, Part)>,
    /// The conditions that the view does not have.
    conditions: Vec<Expr>,
    /// The columns of the block's rows that are wanted.
    outputs: Vec<Expr>,
}

impl<'v> Answer<'v> {
    fn of(view: &'v View, block: &Block, outputs: &[usize]) -> Option<Answer<'v>> {
        let common = view.tables.keys().filter(|id| block.parts.contains_key(id)).count();
        let is_same =
            |(id, table): (&u64, &Arc<Table>)| block.parts.get(id).is_none_or(|part| Arc::ptr_eq(&part.table, table));
        if common < TABLES_MIN || !view.tables.iter().all(is_same) {
            return None;
        }
        let needed = without_references(view, block)?;
        if !needed.iter().all(|condition| block.conditions.contains(condition)) {
            return None;
        }
        let rest = block.conditions.iter().filter(|condition| !needed.contains(condition));
        let conditions = rest.map(|condition| view.rewritten(condition)).collect::<Option<_>>()?;
        let outputs = outputs.iter().map(|at| view.rewritten(&block.outputs[*at])).collect::<Option<_>>()?;
        let others = block.parts.iter().filter(|(id, _)| !view.tables.contains_key(id));
        let others = others.map(|(id, part)| (*id, part.clone())).collect();
        Some(Answer { view, others, conditions, outputs })
    }

    fn plan(self, schema: &DFSchema, outputs: &[usize]) -> Result<LogicalPlan> {
        let scan = |name: &str, id: u64, source: Arc<dyn TableSource>| {
            LogicalPlanBuilder::scan(TableReference::bare(name), source, None)?.alias(relation(id))
        };
        let view = self.view.table();
        let mut plan = scan(&view.name, view.id, provider_as_source(self.view.provider.clone()))?;
        for (id, part) in self.others {
            plan = plan.cross_join(scan(&part.table.name, id, part.source)?.build()?)?;
        }
        if let Some(condition) = conjunction(self.conditions) {
            plan = plan.filter(condition)?;
        }
        let shown = outputs.iter().zip(self.outputs).map(|(at, output)| {
            let (relation, field) = schema.qualified_field(*at);
            output.alias_qualified(relation.cloned(), field.name())
        });
        let mut shown: Vec<Expr> = shown.collect();
        if shown.is_empty() {
            // The rows are counted.
            let first = view.schema.columns.first().map(|column| named(view.id, &column.name));
            shown.extend(first);
        }
        plan.project(shown)?.build()
    }
}

/// The conditions of a view that a block must have. Those by which tables are joined that the block does not have drop and repeat
/// no row, or there is no answer.
fn without_references(view: &View, block: &Block) -> Option<Vec<Expr>> {
    let mut extra: Vec<&Arc<Table>> =
        view.tables.iter().filter(|(id, _)| !block.parts.contains_key(id)).map(|(_, table)| table).collect();
    let mut conditions = view.conditions.clone();
    while !extra.is_empty() {
        let at = extra.iter().position(|table| is_reference_alone(view, table, &conditions))?;
        let table = extra.swap_remove(at);
        conditions.retain(|condition| !tables_of(condition).contains(&table.id));
    }
    Some(conditions)
}

/// Whether a table is joined by one foreign key, and is in no other condition.
fn is_reference_alone(view: &View, to: &Table, conditions: &[Expr]) -> bool {
    let own: Vec<&Expr> = conditions.iter().filter(|condition| tables_of(condition).contains(&to.id)).collect();
    let mut pairs: HashSet<(Of, Of)> = HashSet::new();
    for condition in &own {
        let Some((left, right)) = equality(condition) else { return false };
        pairs.insert(if left.0 == to.id { (right, left) } else { (left, right) });
    }
    let Some(from) = pairs.iter().next().and_then(|((id, _), _)| view.tables.get(id)).filter(|from| from.id != to.id)
    else {
        return false;
    };
    let has_null = |name: &String| from.schema.columns.iter().any(|column| column.name == *name && column.nullable);
    from.schema.foreign_keys.iter().any(|key| {
        let referenced = if key.referenced.is_empty() { &to.schema.primary_key } else { &key.referenced };
        let of_key = key.columns.iter().zip(referenced).map(|(a, b)| ((from.id, a.clone()), (to.id, b.clone())));
        key.enforced
            && key.table == to.name
            && key.columns.len() == referenced.len()
            && to.schema.enforced_key(referenced).is_some()
            && !key.columns.iter().any(has_null)
            && of_key.collect::<HashSet<_>>() == pairs
    })
}

impl View {
    fn table(&self) -> &Arc<Table> {
        self.provider.table()
    }

    /// An expression of a block over the columns of the view. Those of tables that it does not have stay.
    fn rewritten(&self, expression: &Expr) -> Option<Expr> {
        let mut is_known = true;
        let rewritten = expression.clone().transform(|part| {
            let Some(of) = column_of(&part).filter(|(table, _)| self.tables.contains_key(table)) else {
                return Ok(Transformed::no(part));
            };
            match self.columns.get(&of) {
                Some(name) => Ok(Transformed::yes(named(self.table().id, name))),
                None => {
                    is_known = false;
                    Ok(Transformed::no(part))
                }
            }
        });
        Some(rewritten.ok()?.data).filter(|_| is_known)
    }
}
