//! Corrects the functional dependencies of aggregates and of lists as rows.
//!
//! DataFusion assumes that columns which determine the input's columns also determine every column of the aggregate:
//! for groups by `a.id, b.y` of a join, `a.id` alone if it is unique in `a`. It also assumes that a column which is unique
//! among the rows with lists is unique among the rows of their items. Other rules then drop group keys, sort keys,
//! DISTINCT and joins that are needed.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Dependency, FunctionalDependence, FunctionalDependencies};
use datafusion::error::Result;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Unnest};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// The rule, which runs before each rule that reads dependencies.
#[derive(Debug)]
pub(crate) struct Dependencies;

/// The rules that read dependencies.
pub(crate) const READERS: [&str; 4] =
    [REPLACE_DISTINCT, "eliminate_join", "eliminate_duplicated_expr", "optimize_projections"];

impl OptimizerRule for Dependencies {
    fn name(&self) -> &str {
        "dependencies"
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        // Reported as no change, so that the optimizer does not run another pass because of it.
        with_corrected(plan).map(Transformed::no)
    }
}

/// The same plan with the right dependencies.
fn with_corrected(plan: LogicalPlan) -> Result<LogicalPlan> {
    let found = plan.transform_up_with_subqueries(corrected)?;
    if !found.transformed {
        return Ok(found.data);
    }
    let recomputed = found.data.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Aggregate(_) | LogicalPlan::Unnest(_) => Ok(Transformed::yes(corrected(node)?.data)),
        node => node.recompute_schema().map(Transformed::yes),
    })?;
    Ok(recomputed.data)
}

/// The rule that replaces DISTINCT by groups. Where it does, the nodes above have DataFusion's dependencies again.
#[derive(Debug)]
pub(crate) struct ReplaceDistinct(pub Arc<dyn OptimizerRule + Send + Sync>);

/// The name of that rule in DataFusion.
pub(crate) const REPLACE_DISTINCT: &str = "replace_distinct_aggregate";

impl OptimizerRule for ReplaceDistinct {
    fn name(&self) -> &str {
        REPLACE_DISTINCT
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Distinct(_) => self.0.rewrite(with_corrected(plan)?, config),
            other => Ok(Transformed::no(other)),
        }
    }
}

fn corrected(mut node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let right = match &node {
        LogicalPlan::Aggregate(aggregate) => dependencies(aggregate),
        LogicalPlan::Unnest(_) => FunctionalDependencies::empty(),
        _ => return Ok(Transformed::no(node)),
    };
    if let LogicalPlan::Aggregate(Aggregate { schema, .. }) | LogicalPlan::Unnest(Unnest { schema, .. }) = &mut node
        && *schema.functional_dependencies() != right
    {
        *schema = Arc::new(schema.as_ref().clone().with_functional_dependencies(right)?);
        return Ok(Transformed::yes(node));
    }
    Ok(Transformed::no(node))
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
