//! Redundant-join elimination. If a query uses no column of a joined table, as queries of wide views do, the join can
//! be removed if each row has exactly one match.
//!
//! An outer join keeps every row of its preserved side, and keeps it once if the key of the other side is unique. An
//! inner join with a whole table, without a filter, drops only rows without a match. If every reference has its row,
//! those are the rows with a NULL key. If the other table has a filter and is not large, the join is replaced by a test
//! for its keys (see `in_keys`). Unless keys are enforced, the rows are checked: once per state of the
//! tables, and only for declared keys, because the check costs about as much as the join.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, JoinType, NullEquality};
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan, TableScan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use freestone_store::Table;
use freestone_store::cluster::{is_unique, references};

use crate::provider::FreestoneTable;
use crate::provider::semi_join_filter::key_test;

/// Removes joins that neither add wanted columns nor drop or repeat rows.
#[derive(Debug)]
pub struct RedundantJoins;

impl OptimizerRule for RedundantJoins {
    fn name(&self) -> &str {
        "redundant_joins"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        without_unneeded(plan, None)
    }
}

/// The plan without joins that its output does not need. `wanted` are the columns that operators above use, if known.
fn without_unneeded(plan: LogicalPlan, wanted: Option<&HashSet<Column>>) -> Result<Transformed<LogicalPlan>> {
    if let (LogicalPlan::Join(join), Some(wanted)) = (&plan, wanted)
        && let Some(rest) = rest_of(join, wanted)?
    {
        return Ok(Transformed::yes(without_unneeded(rest, Some(wanted))?.data));
    }
    let own = || plan.expressions().iter().flat_map(|e| e.column_refs().into_iter().cloned()).collect::<HashSet<_>>();
    let below = match &plan {
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) => Some(own()),
        LogicalPlan::Filter(_) | LogicalPlan::Sort(_) | LogicalPlan::Join(_) => {
            wanted.map(|wanted| wanted.union(&own()).cloned().collect())
        }
        LogicalPlan::Limit(_) => wanted.cloned(),
        _ => None,
    };
    let changed = plan.map_children(|child| without_unneeded(child, below.as_ref()))?;
    if changed.transformed { changed.map_data(LogicalPlan::recompute_schema) } else { Ok(changed) }
}

/// The replacement of a join without the side of which nothing is used, if the result is the same.
fn rest_of(join: &Join, wanted: &HashSet<Column>) -> Result<Option<LogicalPlan>> {
    if join.filter.is_some() || join.null_equality != NullEquality::NullEqualsNothing {
        return Ok(None);
    }
    let on = |swap: bool| join.on.iter().map(move |(l, r)| if swap { (r, l) } else { (l, r) }).collect::<Vec<_>>();
    let sides = [(&join.left, &join.right, false), (&join.right, &join.left, true)];
    for (kept, gone, swapped) in sides {
        let taken = wanted.iter().any(|column| gone.schema().has_column(column));
        let drops_nothing = match join.join_type {
            JoinType::Left => !swapped,
            JoinType::Right => swapped,
            _ => false,
        };
        let rest = match join.join_type {
            _ if taken => None,
            _ if drops_nothing => finds_one_at_most(gone, &on(swapped)).then(|| kept.as_ref().clone()),
            JoinType::Inner => match with_references(kept, gone, &on(swapped))? {
                None => with_keys(kept, gone, &on(swapped), false)?,
                rest => rest,
            },
            JoinType::LeftSemi if !swapped => with_keys(kept, gone, &on(swapped), true)?,
            JoinType::RightSemi if swapped => with_keys(kept, gone, &on(swapped), true)?,
            _ => None,
        };
        if rest.is_some() {
            return Ok(rest);
        }
    }
    Ok(None)
}

/// Whether a row has at most one match, because one of the join keys is a key of the table.
fn finds_one_at_most(gone: &LogicalPlan, on: &[(&Expr, &Expr)]) -> bool {
    on.iter().filter_map(|(_, key)| Origin::of(gone, key)).any(|key| key.is_key_of_its_table())
}

/// The rows of one side with a key that is not NULL, if each has exactly one match in the other.
fn with_references(kept: &LogicalPlan, gone: &LogicalPlan, on: &[(&Expr, &Expr)]) -> Result<Option<LogicalPlan>> {
    let [(foreign, key)] = on else { return Ok(None) };
    let (Some(from), Some(to)) = (Origin::of(kept, foreign), Origin::of(gone, key)) else { return Ok(None) };
    let follows = to.is_whole && from.declares_reference(&to) && to.is_key_of_its_table();
    // A read error is reported by the query that reads the rows.
    if !follows || !references(&from.table, from.column, &to.table, to.column).unwrap_or(false) {
        return Ok(None);
    }
    let predicate = Expr::IsNotNull(Box::new((*foreign).clone()));
    Ok(Some(LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(kept.clone()))?)))
}

/// The rows of one side whose key is among those of the other, if these can be computed now. `once`: even if they occur
/// several times.
fn with_keys(kept: &LogicalPlan, gone: &LogicalPlan, on: &[(&Expr, &Expr)], once: bool) -> Result<Option<LogicalPlan>> {
    let [(foreign, key)] = on else { return Ok(None) };
    let (Some(from), Some(to)) = (Origin::of(kept, foreign), Origin::of(gone, key)) else { return Ok(None) };
    let Some(scan) = scan_of(gone) else { return Ok(None) };
    let provider = source_as_provider(&scan.source)?;
    let Some(table) = provider.downcast_ref::<FreestoneTable>() else { return Ok(None) };
    // If the referencing side is smaller, its keys are the more selective ones.
    let is_smaller = to.table.rows() <= from.table.rows();
    if !is_smaller || !(once || to.is_key_of_its_table()) {
        return Ok(None);
    }
    // A failed evaluation is reported by the join, which runs later.
    let Ok(Some(keys)) = key_test(table, scan, to.column) else { return Ok(None) };
    let predicate = keys.test((*foreign).clone());
    Ok(Some(LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(kept.clone()))?)))
}

/// The scan of which a plan returns all rows.
fn scan_of(plan: &LogicalPlan) -> Option<&TableScan> {
    match plan {
        LogicalPlan::TableScan(scan) => Some(scan),
        LogicalPlan::SubqueryAlias(alias) => scan_of(&alias.input),
        LogicalPlan::Projection(projection) => scan_of(&projection.input),
        _ => None,
    }
}

/// The table and the column from which the values of a plan's column come, if they are stored.
pub(crate) fn stored_column(plan: &LogicalPlan, at: usize) -> Option<(Arc<Table>, usize)> {
    Origin::of_field(plan, at).map(|origin| (origin.table, origin.column))
}

/// Whether a table's column is declared to reference the column of another one.
pub(crate) fn declares_reference((table, column): (&Table, usize), (other, key): (&Table, usize)) -> bool {
    let name = |table: &Table, column: usize| table.schema.columns[column].name.clone();
    table.schema.foreign_keys.iter().any(|declared| {
        let referenced = declared.referenced.first().or(other.schema.primary_key.first());
        declared.columns == [name(table, column)]
            && declared.table == other.name
            && referenced == Some(&name(other, key))
    })
}

/// The stored column from which the values of a plan's column come.
struct Origin {
    table: Arc<Table>,
    column: usize,
    /// Whether all values of the stored column are included.
    is_whole: bool,
    /// Whether some values may be repeated.
    repeats: bool,
}

impl Origin {
    fn of(plan: &LogicalPlan, expression: &Expr) -> Option<Origin> {
        let Expr::Column(column) = expression else { return None };
        Origin::of_field(plan, plan.schema().maybe_index_of_column(column)?)
    }

    fn of_field(plan: &LogicalPlan, at: usize) -> Option<Origin> {
        match plan {
            LogicalPlan::TableScan(scan) => {
                let provider = source_as_provider(&scan.source).ok()?;
                let table = provider.downcast_ref::<FreestoneTable>()?.table().clone();
                let column = scan.projection.as_ref().map_or(Some(at), |columns| columns.get(at).copied())?;
                let is_whole = scan.filters.is_empty() && scan.fetch.is_none();
                let is_stored = column < table.schema.columns.len();
                is_stored.then_some(Origin { table, column, is_whole, repeats: false })
            }
            LogicalPlan::SubqueryAlias(alias) => Origin::of_field(&alias.input, at),
            LogicalPlan::Projection(projection) => {
                let expression = match projection.expr.get(at)? {
                    Expr::Alias(alias) => alias.expr.as_ref(),
                    other => other,
                };
                Origin::of(&projection.input, expression)
            }
            LogicalPlan::Filter(filter) => Some(Origin::of_field(&filter.input, at)?.of_some_rows()),
            LogicalPlan::Join(join) => {
                let left = join.left.schema().fields().len();
                let origin = match join.join_type {
                    JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full if at >= left => {
                        Origin::of_field(&join.right, at - left)
                    }
                    JoinType::RightSemi | JoinType::RightAnti => Origin::of_field(&join.right, at),
                    JoinType::LeftMark | JoinType::RightMark => None,
                    _ => Origin::of_field(&join.left, at),
                };
                let repeats = !matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti);
                origin.map(|o| Origin { repeats: repeats || o.repeats, ..o.of_some_rows() })
            }
            _ => None,
        }
    }

    fn of_some_rows(self) -> Origin {
        Origin { is_whole: false, ..self }
    }

    fn name(&self) -> &String {
        &self.table.schema.columns[self.column].name
    }

    /// Whether the column is a declared key of its table, and is unique.
    fn is_key_of_its_table(&self) -> bool {
        let schema = &self.table.schema;
        let key = std::slice::from_ref(self.name());
        !self.repeats
            && (schema.primary_key == key || schema.enforced_key(key).is_some())
            && is_unique(&self.table, self.column).unwrap_or(false)
    }

    /// Whether the column is declared to reference the other one.
    fn declares_reference(&self, to: &Origin) -> bool {
        declares_reference((&self.table, self.column), (&to.table, to.column))
    }
}
