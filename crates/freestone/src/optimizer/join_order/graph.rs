//! A tree of inner joins as relations and conditions.
//!
//! The columns of all relations are numbered one after the other, and expressions refer to these numbers.

use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;

use super::search::Tree;
use crate::expressions::physical::remap;

/// Two expressions that are equal.
pub type Pair = (Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>);

/// A set of relations, as bits.
pub type Set = u64;

/// The most relations of a tree.
const RELATIONS_MAX: usize = 60;

/// Relations with the conditions on which they are joined.
#[derive(Debug, Default)]
pub struct Graph {
    pub relations: Vec<Arc<dyn ExecutionPlan>>,
    /// The number of the first column of each relation, and of none.
    pub starts: Vec<usize>,
    /// The keys: expressions over the columns of one relation each.
    pub keys: Vec<Key>,
    /// Other conditions, with the relations that they need.
    pub filters: Vec<(Arc<dyn PhysicalExpr>, Set)>,
    /// The columns of the result.
    pub output: Vec<usize>,
    /// The tree as it is written.
    pub written: Tree,
}

/// An expression that is equal to all others of its class.
#[derive(Debug)]
pub struct Key {
    pub e: Arc<dyn PhysicalExpr>,
    pub relation: usize,
    pub class: usize,
}

/// Whether a node joins rows so that their order does not matter for the result.
pub fn is_join(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let is_plain = join.null_equality() == NullEquality::NullEqualsNothing && !join.null_aware;
        return *join.join_type() == JoinType::Inner && is_plain;
    }
    plan.is::<CrossJoinExec>()
        || plan.downcast_ref::<NestedLoopJoinExec>().is_some_and(|join| *join.join_type() == JoinType::Inner)
}

/// The columns of a projection of nothing but columns.
pub fn columns_of(plan: &Arc<dyn ExecutionPlan>) -> Option<Vec<usize>> {
    let projection = plan.downcast_ref::<ProjectionExec>()?;
    projection.expr().iter().map(|e| e.expr.downcast_ref::<Column>().map(Column::index)).collect()
}

impl Graph {
    /// The joins below a node; `None` if a condition cannot be moved.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Graph>> {
        let mut graph = Graph { starts: vec![0], ..Graph::default() };
        let Some((written, output)) = graph.add(plan)? else { return Ok(None) };
        (graph.written, graph.output) = (written, output);
        let is_known = graph.relations.len() <= RELATIONS_MAX && graph.has_comparable_keys()?;
        Ok(is_known.then_some(graph))
    }

    /// Adds a part of the tree, and returns its shape and the numbers of its columns.
    fn add(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Option<(Tree, Vec<usize>)>> {
        if let (Some(columns), Some(input)) = (columns_of(plan), plan.children().first())
            && (is_join(input) || columns_of(input).is_some())
        {
            let Some((tree, numbers)) = self.add(input)? else { return Ok(None) };
            return Ok(Some((tree, columns.iter().map(|column| numbers[*column]).collect())));
        }
        if !is_join(plan) {
            let (at, start) = (self.relations.len(), self.starts[self.relations.len()]);
            let end = start + plan.schema().fields().len();
            self.relations.push(plan.clone());
            self.starts.push(end);
            return Ok(Some((Tree::Relation(at), (start..end).collect())));
        }
        let children = plan.children();
        let [left, right] = children.as_slice() else { return Ok(None) };
        let Some((left_tree, left)) = self.add(left)? else { return Ok(None) };
        let Some((right_tree, right)) = self.add(right)? else { return Ok(None) };
        let (filter, projection) =
            match (plan.downcast_ref::<HashJoinExec>(), plan.downcast_ref::<NestedLoopJoinExec>()) {
                (Some(join), _) => {
                    for (a, b) in join.on() {
                        let (a, b) = (remap(a, |column| left[column])?, remap(b, |column| right[column])?);
                        if !self.add_keys(a, b) {
                            return Ok(None);
                        }
                    }
                    (join.filter(), join.projection.clone())
                }
                (_, Some(join)) => (join.filter(), join.projection().clone()),
                _ => (None, None),
            };
        if let Some(filter) = filter
            && !self.add_filter(filter, &left, &right)?
        {
            return Ok(None);
        }
        let all: Vec<usize> = left.into_iter().chain(right).collect();
        let numbers = match projection {
            Some(columns) => columns.iter().map(|column| all[*column]).collect(),
            None => all,
        };
        Ok(Some((Tree::join(left_tree, right_tree), numbers)))
    }

    /// Adds two keys that are equal; `false` if one is not of one relation.
    fn add_keys(&mut self, a: Arc<dyn PhysicalExpr>, b: Arc<dyn PhysicalExpr>) -> bool {
        let (Some(a), Some(b)) = (self.key(a), self.key(b)) else { return false };
        let (kept, joined) = (self.keys[a].class, self.keys[b].class);
        self.keys.iter_mut().filter(|key| key.class == joined).for_each(|key| key.class = kept);
        true
    }

    fn key(&mut self, e: Arc<dyn PhysicalExpr>) -> Option<usize> {
        let relations = self.relations_of(&e);
        if relations.count_ones() != 1 {
            return None;
        }
        if let Some(known) = self.keys.iter().position(|key| key.e.as_ref() == e.as_ref()) {
            return Some(known);
        }
        let (relation, class) = (relations.trailing_zeros() as usize, self.keys.len());
        self.keys.push(Key { e, relation, class });
        Some(class)
    }

    fn add_filter(&mut self, filter: &JoinFilter, left: &[usize], right: &[usize]) -> Result<bool> {
        let places: Option<Vec<usize>> = filter
            .column_indices()
            .iter()
            .map(|column| match column.side {
                JoinSide::Left => left.get(column.index).copied(),
                JoinSide::Right => right.get(column.index).copied(),
                JoinSide::None => None,
            })
            .collect();
        let Some(places) = places else { return Ok(false) };
        let e = remap(filter.expression(), |column| places[column])?;
        let relations = self.relations_of(&e);
        self.filters.push((e, relations));
        Ok(relations.count_ones() > 1)
    }

    /// The relations whose columns an expression reads.
    fn relations_of(&self, e: &Arc<dyn PhysicalExpr>) -> Set {
        collect_columns(e).iter().fold(0, |set, column| set | 1 << self.relation_of(column.index()))
    }

    /// The pairs of keys of one relation that are equal, because both are equal to a key of another one. Their columns
    /// are numbered within the relation.
    pub fn equal_keys(&self, relation: usize) -> Result<Vec<Pair>> {
        let own: Vec<&Key> = self.keys.iter().filter(|key| key.relation == relation).collect();
        let first_of = |class| own.iter().find(|key| key.class == class).copied();
        let within = |key: &Key| remap(&key.e, |column| column - self.starts[relation]);
        let others = own.iter().filter_map(|key| Some((first_of(key.class)?, *key)));
        others.filter(|(first, key)| !std::ptr::eq(*first, *key)).map(|(a, b)| Ok((within(a)?, within(b)?))).collect()
    }

    /// Whether equal keys of one relation have types that an operator compares.
    fn has_comparable_keys(&self) -> Result<bool> {
        for (at, relation) in self.relations.iter().enumerate() {
            for (a, b) in self.equal_keys(at)? {
                let (a, b) = (a.data_type(&relation.schema())?, b.data_type(&relation.schema())?);
                if a != b || a.is_nested() || a.is_floating() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The relation of a column.
    pub fn relation_of(&self, column: usize) -> usize {
        self.starts.partition_point(|start| *start <= column) - 1
    }

    /// A key of a class among some relations, if there is one.
    pub fn key_of(&self, class: usize, set: Set) -> Option<&Key> {
        self.keys.iter().find(|key| key.class == class && set >> key.relation & 1 == 1)
    }

    /// The other conditions that can be tested when two sets of relations are joined, and not before.
    pub fn filters_between(&self, a: Set, b: Set) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        let covers = |set: Set, needed: Set| needed & !set == 0;
        let is_new = move |needed: Set| covers(a | b, needed) && !covers(a, needed) && !covers(b, needed);
        self.filters.iter().filter(move |(_, needed)| is_new(*needed)).map(|(e, _)| e)
    }

    /// The classes by which two sets of relations are joined.
    pub fn classes_between(&self, a: Set, b: Set) -> impl Iterator<Item = usize> {
        let is_between = move |class: &usize| self.key_of(*class, a).is_some() && self.key_of(*class, b).is_some();
        (0..self.keys.len()).filter(is_between)
    }
}
