//! Recursive queries whose step is filters, computations and joins with rows that stay the same from step to step.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use freestone_exec::pipeline::{Branch, Feed, Step};
use freestone_exec::recursion::Recursion;
use freestone_exec::steps::Columns;
use freestone_exec::vector::Form;

use super::compiler::{Compiler, Open, field};
use crate::recursion::{RecursionExec, WorkingRows, WorkingScanExec};

type Plan = Arc<dyn ExecutionPlan>;

impl Compiler<'_> {
    /// `None` if what needs all rows of a step, as an aggregation does, is a part of it.
    pub(super) fn recursion(&mut self, query: &RecursionExec) -> Result<Option<Open>> {
        let (schema, rows) = (query.schema(), query.rows());
        let mut first = self.open_or_input(query.first())?;
        let inputs = self.planned.len();
        let step = with_kept_tables(query.step().clone(), rows)?;
        let (mut step, stages) = self.side_stages(|compiler| compiler.open_or_input(&step))?;
        let before = |branch: &Branch| match branch.feed {
            Feed::Input(input) => self.planned[input].downcast_ref::<WorkingScanExec>().filter(|scan| scan.reads(rows)),
            Feed::Source(_) => None,
        };
        let mut others = self.planned[inputs..].iter().filter(|plan| !plan.is::<WorkingScanExec>());
        let stays = stages.iter().flat_map(|stage| &stage.branches).all(|branch| before(branch).is_none());
        if !stays || others.any(|plan| reads(plan, rows)) || step.limit.is_some() {
            return Ok(None);
        }
        let take_columns = |branch: &Branch| {
            let columns = before(branch).filter(|scan| has_types_of(scan, &schema))?.columns();
            Some(Arc::new(Columns(columns.to_vec())) as Arc<dyn Step>)
        };
        let Some(columns) = step.branches.iter().map(take_columns).collect::<Option<Vec<_>>>() else { return Ok(None) };
        if !self.take_forms(&mut first, &schema) || !self.take_forms(&mut step, &schema) {
            return Ok(None);
        }
        let all = Open::of_types(vec![], schema);
        if query.is_distinct() && all.columns.iter().any(|known| known.form == Form::Arrow) {
            return Ok(None);
        }
        let parts = columns.into_iter().zip(step.branches);
        let parts = parts.map(|(columns, branch)| [columns].into_iter().chain(branch.steps).collect()).collect();
        let distinct = query.is_distinct().then(|| all.columns.iter().map(|known| field(known, true)).collect());
        let recursion = Recursion::new(parts, distinct, self.context.clone());
        self.close(first, Arc::new(recursion.clone()));
        self.stages.extend(stages);
        self.add_sought();
        Ok(Some(Open { branches: vec![Branch { feed: Feed::Source(recursion.results()), steps: vec![] }], ..all }))
    }
}

/// Whether the columns that a scan reads have the types of the query's.
fn has_types_of(scan: &WorkingScanExec, schema: &SchemaRef) -> bool {
    let of_scan = scan.schema();
    let mut pairs = scan.columns().iter().zip(of_scan.fields());
    pairs.all(|(column, field)| schema.field(*column).data_type() == field.data_type())
}

/// Whether a plan reads the rows of the step before.
fn reads(plan: &Plan, rows: &Arc<WorkingRows>) -> bool {
    plan.exists(|node| Ok(node.downcast_ref::<WorkingScanExec>().is_some_and(|scan| scan.reads(rows)))).unwrap_or(true)
}

/// A step whose joins look up the rows of the step before in those that stay the same, which are hashed once.
fn with_kept_tables(step: Plan, rows: &Arc<WorkingRows>) -> Result<Plan> {
    let changed = step.transform_up(|node| {
        let is_turned = |left: &Plan, right: &Plan| reads(left, rows) && !reads(right, rows);
        if let Some(join) = node.downcast_ref::<HashJoinExec>() {
            let turns = is_turned(join.left(), join.right()) && join.join_type().supports_swap() && !join.null_aware;
            return if turns {
                join.swap_inputs(*join.partition_mode()).map(Transformed::yes)
            } else {
                Ok(Transformed::no(node))
            };
        }
        match node.downcast_ref::<NestedLoopJoinExec>() {
            Some(join) if is_turned(join.left(), join.right()) && join.join_type().supports_swap() => {
                join.swap_inputs().map(Transformed::yes)
            }
            _ => Ok(Transformed::no(node)),
        }
    })?;
    Ok(changed.data)
}
