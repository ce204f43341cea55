//! Corrects the functional dependencies of aggregates.
//!
//! DataFusion assumes that columns which determine the input's columns also determine every column of the aggregate:
//! for groups by `a.id, b.y` of a join, `a.id` alone if it is unique in `a`. Other rules then drop group keys, sort
//! keys and joins that are needed.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Dependency, FunctionalDependence, FunctionalDependencies};
use datafusion::error::Result;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// The rule, which runs before each rule that reads dependencies.
#[derive(Debug)]
pub(crate) struct Dependencies;

/// The rules that read dependencies.
pub(crate) const READERS: [&str; 4] =
    ["replace_distinct_aggregate", "eliminate_join", "eliminate_duplicated_expr", "optimize_projections"];

impl OptimizerRule for Dependencies {
    fn name(&self) -> &str {
        "dependencies"
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let corrected = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Aggregate(aggregate) => corrected(aggregate),
            node => Ok(Transformed::no(node)),
        })?;
        if !corrected.transformed {
            return Ok(corrected);
        }
        let recomputed = corrected.data.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Aggregate(aggregate) => Ok(Transformed::yes(self::corrected(aggregate)?.data)),
            node => node.recompute_schema().map(Transformed::yes),
        })?;
        // Reported as no change, so that the optimizer does not run another pass because of it.
        Ok(Transformed::no(recomputed.data))
    }
}

fn corrected(mut aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let found = aggregate.schema.functional_dependencies();
    let right = dependencies(&aggregate);
    if *found == right {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    aggregate.schema = Arc::new(aggregate.schema.as_ref().clone().with_functional_dependencies(right)?);
    Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
}

/// The dependencies of an aggregate: all keys together determine all columns, and so do those keys that determine the
/// other keys in the input.
fn dependencies(aggregate: &Aggregate) -> FunctionalDependencies {
    let group = &aggregate.group_expr;
    if group.is_empty() || matches!(group.as_slice(), [Expr::GroupingSet(_)]) {
        return FunctionalDependencies::empty();
    }
    let fields = aggregate.schema.fields();
    let input = aggregate.input.schema();
    let place = |e: &Expr| match e {
        Expr::Column(column) => input.maybe_index_of_column(column),
        _ => None,
    };
    let places: Vec<Option<usize>> = group.iter().map(place).collect();
    let dependence = |sources: Vec<usize>| {
        let nullable = sources.iter().any(|at| fields[*at].is_nullable());
        FunctionalDependence::new(sources, (0..fields.len()).collect(), nullable).with_mode(Dependency::Single)
    };
    let mut found = vec![];
    for known in input.functional_dependencies().iter() {
        let of = |source: &usize| places.iter().position(|place| *place == Some(*source));
        let Some(sources) = known.source_indices.iter().map(of).collect::<Option<Vec<usize>>>() else { continue };
        let determined = |(at, place): (usize, &Option<usize>)| {
            sources.contains(&at) || place.is_some_and(|place| known.target_indices.contains(&place))
        };
        if !known.nullable && places.iter().enumerate().all(determined) {
            found.push(dependence(sources));
        }
    }
    if found.is_empty() {
        found.push(dependence((0..group.len()).collect()));
    }
    FunctionalDependencies::new(found)
}
