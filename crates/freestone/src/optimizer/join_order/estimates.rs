//! The estimated rows of relations and of their joins.
//!
//! A join by equal keys gives |A| · |B| / max(d(A), d(B)) rows, where d is the number of distinct keys (Selinger et al.,
//! "Access Path Selection in a Relational Database Management System", SIGMOD 1979). Several keys between the same two
//! relations have at most as many combinations as the smaller relation has rows.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::stats::Precision;
use datafusion::common::{ScalarValue, Statistics};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext};

use super::graph::{Graph, Key, Set, columns_of};
use crate::provider::FreestoneSource;
use crate::provider::files::FilesSource;

/// The estimates for the relations of a graph.
#[derive(Debug)]
pub struct Estimates {
    relations: Vec<Relation>,
    /// The distinct values of each key.
    distinct: Vec<f64>,
}

#[derive(Debug)]
struct Relation {
    /// The rows that its filters leave.
    rows: f64,
    /// The rows without filters.
    all_rows: f64,
}

/// The rows of a relation of which nothing is known.
const UNKNOWN_ROWS: f64 = 1000.0;
/// The share of rows that a condition other than an equality of keys leaves.
const FILTER_SHARE: f64 = 0.3;
/// The share of the rows of a relation in which two of its keys are equal.
const EQUAL_SHARE: f64 = 0.1;

impl Estimates {
    /// # Errors
    /// Statistics cannot be read.
    pub fn of(graph: &Graph) -> Result<Estimates> {
        let statistics = graph.relations.iter().map(statistics).collect::<Result<Vec<_>>>()?;
        let known = graph.relations.iter().zip(&statistics);
        let mut relations: Vec<Relation> = known.map(|(plan, statistics)| Relation::of(plan, statistics)).collect();
        let distinct = |key: &Key| {
            let (at, all_rows) = (key.relation, relations[key.relation].all_rows);
            let column = key.e.downcast_ref::<Column>().map(|column| column.index() - graph.starts[at]);
            let known = column.and_then(|column| distinct(&graph.relations[at], &statistics[at], column));
            known.unwrap_or(all_rows).clamp(1.0, all_rows)
        };
        let distinct = graph.keys.iter().map(distinct).collect();
        for (at, relation) in relations.iter_mut().enumerate() {
            let equal = graph.equal_keys(at)?.len();
            relation.rows = (relation.rows * EQUAL_SHARE.powi(equal as i32)).max(1.0);
        }
        Ok(Estimates { relations, distinct })
    }

    /// The rows of a relation.
    pub fn rows(&self, relation: usize) -> f64 {
        self.relations[relation].rows
    }

    /// The share of all pairs of rows of two sets of relations that a join of them gives.
    pub fn share(&self, graph: &Graph, a: Set, b: Set) -> f64 {
        // The combinations of keys, by the relations of the keys.
        let mut pairs: Vec<((usize, usize), f64)> = vec![];
        let classes: Vec<usize> = graph.classes_between(a, b).collect();
        for class in &classes {
            let (left, right) = (self.fewest(graph, *class, &classes, a), self.fewest(graph, *class, &classes, b));
            let (Some((of_left, left)), Some((of_right, right))) = (left, right) else { continue };
            match pairs.iter_mut().find(|(pair, _)| *pair == (of_left, of_right)) {
                Some((_, combinations)) => {
                    let most = self.relations[of_left].all_rows.min(self.relations[of_right].all_rows).max(1.0);
                    *combinations = (*combinations * left.max(right)).min(most.max(*combinations));
                }
                None => pairs.push(((of_left, of_right), left.max(right))),
            }
        }
        let by_keys: f64 = pairs.iter().map(|(_, combinations)| 1.0 / combinations).product();
        by_keys * FILTER_SHARE.powi(graph.filters_between(a, b).count() as i32)
    }

    /// The key of a class among some relations: its relation, and the number of its values. A relation with keys of most of these
    /// classes comes first, because it has the combinations of their values, and then the one with the fewest values.
    fn fewest(&self, graph: &Graph, class: usize, classes: &[usize], set: Set) -> Option<(usize, f64)> {
        let has =
            |relation: usize, class: usize| graph.keys.iter().any(|key| key.relation == relation && key.class == class);
        let combined = |relation: usize| classes.iter().filter(|class| has(relation, **class)).count();
        let keys = graph.keys.iter().zip(&self.distinct);
        let own = keys.filter(|(key, _)| key.class == class && set >> key.relation & 1 == 1);
        let own = own.map(|(key, distinct)| (key.relation, *distinct));
        own.min_by(|(a, of_a), (b, of_b)| combined(*b).cmp(&combined(*a)).then(of_a.total_cmp(of_b)))
    }
}

impl Relation {
    fn of(plan: &Arc<dyn ExecutionPlan>, statistics: &Statistics) -> Relation {
        let rows = statistics.num_rows.get_value().map_or(UNKNOWN_ROWS, |rows| *rows as f64);
        let all_rows = scanned(plan, 0).map_or(rows, |(scan, _)| match FreestoneSource::of(&scan) {
            Some(source) => source.table().rows() as f64,
            None => FilesSource::of(&scan).and_then(FilesSource::all_rows).map_or(rows, |rows| rows as f64),
        });
        Relation { rows: rows.max(1.0), all_rows: all_rows.max(rows).max(1.0) }
    }
}

/// The scan below nodes that only drop rows or columns, and the place of a column in it.
fn scanned(plan: &Arc<dyn ExecutionPlan>, column: usize) -> Option<(Arc<dyn ExecutionPlan>, usize)> {
    if FreestoneSource::of(plan).is_some() || FilesSource::of(plan).is_some() {
        return Some((plan.clone(), column));
    }
    let children = plan.children();
    let [input] = children.as_slice() else { return None };
    if let Some(columns) = columns_of(plan) {
        return scanned(input, *columns.get(column)?);
    }
    let keeps_columns = plan.schema().fields().len() == input.schema().fields().len();
    (plan.is::<FilterExec>() && keeps_columns).then(|| scanned(input, column))?
}

/// The distinct values of a column without filters, if they are known.
fn distinct(plan: &Arc<dyn ExecutionPlan>, statistics: &Statistics, column: usize) -> Option<f64> {
    if let Some((scan, column)) = scanned(plan, column)
        && let Some(source) = FreestoneSource::of(&scan)
    {
        return source.distinct(column).map(|count| count as f64);
    }
    let known = statistics.column_statistics.get(column)?;
    if let Some(count) = known.distinct_count.get_value() {
        return Some(*count as f64);
    }
    let end = |value: &Precision<ScalarValue>| value.get_value().and_then(|value| value.cast_to(&DataType::Int64).ok());
    match (end(&known.min_value), end(&known.max_value)) {
        (Some(ScalarValue::Int64(Some(low))), Some(ScalarValue::Int64(Some(high)))) => {
            Some(high as f64 - low as f64 + 1.0)
        }
        _ => None,
    }
}

fn statistics(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<Statistics>> {
    StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new())
}
