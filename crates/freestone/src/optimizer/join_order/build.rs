//! A tree of joins as a plan.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use super::graph::{Graph, Pair, Set};
use super::search::Tree;
use crate::expressions::physical::remap;

/// Rows with the numbers of their columns.
struct Numbered {
    plan: Arc<dyn ExecutionPlan>,
    numbers: Vec<usize>,
    set: Set,
}

impl Numbered {
    fn place(&self, number: usize) -> usize {
        self.numbers.iter().position(|own| *own == number).unwrap_or(usize::MAX)
    }
}

/// The plan of a tree, in place of `written`.
///
/// # Errors
/// A node cannot be built.
pub fn plan(graph: &Graph, tree: &Tree, written: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let built = Builder { graph }.node(tree)?;
    let (from, to) = (built.plan.schema(), written.schema());
    let places = graph.output.iter().map(|number| built.place(*number));
    let named = places.zip(to.fields());
    let columns: Vec<_> = named.map(|(place, field)| column(&from, place, field.name())).collect();
    Ok(Arc::new(ProjectionExec::try_new(columns, built.plan)?))
}

/// A column by its place, under another name.
fn column(schema: &Schema, place: usize, alias: &str) -> ProjectionExpr {
    ProjectionExpr { expr: Arc::new(Column::new(schema.field(place).name(), place)), alias: alias.to_owned() }
}

struct Builder<'a> {
    graph: &'a Graph,
}

impl Builder<'_> {
    fn node(&self, tree: &Tree) -> Result<Numbered> {
        let sides = match tree {
            Tree::Relation(at) => {
                let numbers = (self.graph.starts[*at]..self.graph.starts[*at + 1]).collect();
                return Ok(Numbered { plan: self.relation(*at)?, numbers, set: 1 << at });
            }
            Tree::Join(sides) => sides,
        };
        // The first side, which is smaller, becomes the hash table.
        let (left, right) = (self.node(&sides.0)?, self.node(&sides.1)?);
        let filter = self.filter(&left, &right)?;
        let on = self.on(&left, &right)?;
        let (a, b) = (left.plan.clone(), right.plan.clone());
        let plan: Arc<dyn ExecutionPlan> = match (on.is_empty(), filter) {
            (false, filter) => {
                let (inner, equality) = (JoinType::Inner, NullEquality::NullEqualsNothing);
                Arc::new(HashJoinExec::try_new(a, b, on, filter, &inner, None, PartitionMode::Auto, equality, false)?)
            }
            (true, Some(filter)) => Arc::new(NestedLoopJoinExec::try_new(a, b, Some(filter), &JoinType::Inner, None)?),
            (true, None) => Arc::new(CrossJoinExec::new(a, b)),
        };
        let numbers = left.numbers.iter().chain(&right.numbers).copied().collect();
        self.without_unneeded(Numbered { plan, numbers, set: left.set | right.set })
    }

    /// A relation whose keys of one class are equal.
    fn relation(&self, at: usize) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.graph.relations[at].clone();
        let equal = |(a, b)| Arc::new(BinaryExpr::new(a, Operator::Eq, b)) as Arc<dyn PhysicalExpr>;
        let conditions: Vec<_> = self.graph.equal_keys(at)?.into_iter().map(equal).collect();
        match conditions.is_empty() {
            true => Ok(plan),
            false => Ok(Arc::new(FilterExec::try_new(conjunction(conditions), plan)?)),
        }
    }

    fn on(&self, left: &Numbered, right: &Numbered) -> Result<Vec<Pair>> {
        let mut on = vec![];
        for class in self.graph.classes_between(left.set, right.set) {
            let keys = (self.graph.key_of(class, left.set), self.graph.key_of(class, right.set));
            if let (Some(a), Some(b)) = keys {
                on.push((remap(&a.e, |number| left.place(number))?, remap(&b.e, |number| right.place(number))?));
            }
        }
        Ok(on)
    }

    /// The other conditions of a join.
    fn filter(&self, left: &Numbered, right: &Numbered) -> Result<Option<JoinFilter>> {
        let new: Vec<_> = self.graph.filters_between(left.set, right.set).cloned().collect();
        if new.is_empty() {
            return Ok(None);
        }
        let e = conjunction(new);
        let numbers: BTreeSet<usize> = collect_columns(&e).iter().map(Column::index).collect();
        let (mut columns, mut fields) = (vec![], vec![]);
        for number in &numbers {
            let is_left = left.numbers.contains(number);
            let (of, side) = if is_left { (left, JoinSide::Left) } else { (right, JoinSide::Right) };
            let index = of.place(*number);
            fields.push(of.plan.schema().fields()[index].clone());
            columns.push(ColumnIndex { index, side });
        }
        let place = |number| numbers.iter().position(|own| *own == number).unwrap_or(usize::MAX);
        Ok(Some(JoinFilter::new(remap(&e, place)?, columns, Arc::new(Schema::new(fields)))))
    }

    /// The same rows without the columns that nothing above needs.
    fn without_unneeded(&self, rows: Numbered) -> Result<Numbered> {
        let mut needed: BTreeSet<usize> = self.graph.output.iter().copied().collect();
        // A later join needs one key of each class that goes on outside of these relations: any of them.
        let goes_on = |class| self.graph.key_of(class, !rows.set).is_some();
        for class in (0..self.graph.keys.len()).filter(|class| goes_on(*class)) {
            if let Some(key) = self.graph.key_of(class, rows.set) {
                needed.extend(collect_columns(&key.e).iter().map(Column::index));
            }
        }
        for (e, _) in self.graph.filters.iter().filter(|(_, of)| of & !rows.set != 0) {
            needed.extend(collect_columns(e).iter().map(Column::index));
        }
        let kept: Vec<usize> = (0..rows.numbers.len()).filter(|at| needed.contains(&rows.numbers[*at])).collect();
        if kept.len() == rows.numbers.len() {
            return Ok(rows);
        }
        let schema = rows.plan.schema();
        let columns: Vec<_> = kept.iter().map(|at| column(&schema, *at, schema.field(*at).name())).collect();
        let numbers = kept.iter().map(|at| rows.numbers[*at]).collect();
        Ok(Numbered { plan: Arc::new(ProjectionExec::try_new(columns, rows.plan)?), numbers, set: rows.set })
    }
}
