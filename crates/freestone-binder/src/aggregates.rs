//! Groups and aggregates.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, DFSchema};
use datafusion_expr::expr::AggregateFunction;
use datafusion_expr::utils::{COUNT_STAR_EXPANSION, grouping_set_to_exprlist};
use datafusion_expr::{Aggregate, Expr, GroupingSet, LogicalPlan, LogicalPlanBuilder};
use freestone_sql::Span;
use freestone_sql::tree::{self, ExprKind, GroupBy, GroupKey};

use crate::binder::Binder;
use crate::error::{At, Result, invalid, too_complex};
use crate::names::Distinct;
use crate::plans;
use crate::queries::position;
use crate::scopes::Relation;
use crate::select::{Block, Item, collect, has_aggregate, has_window, item_at, without_aggregates};

/// What rows are grouped by: sets of keys, of which a plain GROUP BY has one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Groups {
    pub sets: Vec<Vec<Expr>>,
    /// Values that have a collation, and the keys by which they are grouped.
    pub collated: Vec<(Expr, Expr)>,
}

/// The sets of keys that a GROUP BY may have at most.
const SETS_MAX: u64 = 4096;

impl Binder<'_> {
    /// The groups of a GROUP BY.
    pub fn groups(&mut self, written: &GroupBy, items: &[Item]) -> Result<Option<Groups>> {
        let around = std::mem::take(&mut self.collated_keys);
        let sets = self.sets(written, items)?;
        let collated = std::mem::replace(&mut self.collated_keys, around);
        Ok(sets.map(|sets| Groups { sets, collated }))
    }

    fn sets(&mut self, written: &GroupBy, items: &[Item]) -> Result<Option<Vec<Vec<Expr>>>> {
        match written {
            GroupBy::None => Ok(None),
            GroupBy::All => {
                let is_key = |item: &&Item| !has_aggregate(&item.value) && !has_window(&item.value);
                let mut keys: Vec<Expr> = vec![];
                for item in items.iter().filter(is_key) {
                    let key = self.group_key(item.value.clone(), Span::default())?;
                    if !keys.contains(&key) {
                        keys.push(key);
                    }
                }
                // Without keys, all rows are one group only if there is an aggregate.
                let is_any = !keys.is_empty() || items.iter().any(|item| has_aggregate(&item.value));
                Ok(is_any.then(|| vec![keys]))
            }
            GroupBy::Keys(keys) => {
                check_sets(keys)?;
                let mut sets: Vec<Vec<Expr>> = vec![vec![]];
                for key in keys {
                    let own = self.sets_of(key, items)?;
                    let pairs = sets.iter().flat_map(|set| own.iter().map(move |own| [set.as_slice(), own].concat()));
                    sets = pairs.collect();
                }
                Ok(Some(sets))
            }
        }
    }

    /// The sets of keys of an element of GROUP BY.
    fn sets_of(&mut self, key: &GroupKey, items: &[Item]) -> Result<Vec<Vec<Expr>>> {
        Ok(match key {
            GroupKey::Empty => vec![vec![]],
            GroupKey::Value(value) => vec![self.group_values(value, items)?],
            GroupKey::Rollup(values) => {
                let parts = values.iter().map(|value| self.group_values(value, items)).collect::<Result<Vec<_>>>()?;
                (0..=parts.len()).rev().map(|width| parts.iter().take(width).flatten().cloned().collect()).collect()
            }
            GroupKey::Cube(values) => {
                let parts = values.iter().map(|value| self.group_values(value, items)).collect::<Result<Vec<_>>>()?;
                let of_mask = |mask: usize| {
                    let chosen = parts.iter().enumerate().filter(|(at, _)| mask & (1 << (parts.len() - 1 - at)) != 0);
                    chosen.flat_map(|(_, part)| part.iter().cloned()).collect()
                };
                (0..1usize << parts.len()).rev().map(of_mask).collect()
            }
            GroupKey::Sets(keys) => {
                let mut sets = vec![];
                for key in keys {
                    sets.extend(self.sets_of(key, items)?);
                }
                sets
            }
        })
    }

    /// The values of a key: of an item by its position or alias, of a row, or of an expression.
    fn group_values(&mut self, key: &tree::Expr, items: &[Item]) -> Result<Vec<Expr>> {
        let values = match &key.kind {
            ExprKind::Row(values) => {
                let mut all = vec![];
                for value in values {
                    all.extend(self.group_values(value, items)?);
                }
                return Ok(all);
            }
            ExprKind::Literal(tree::Literal::Number(_)) => match position(key)? {
                Some(at) => vec![item_at(at, items, key.span, "GROUP BY")?.value.clone()],
                None => vec![],
            },
            _ => match self.copies(key, None)? {
                Some(copies) => copies.into_iter().map(|copy| copy.value).collect(),
                None => vec![self.expression(key)?],
            },
        };
        for value in &values {
            without_aggregates(value, "GROUP BY", key.span)?;
        }
        values.into_iter().map(|value| self.group_key(value.unalias(), key.span)).collect()
    }

    /// What a value is grouped by. One with a collation is noted, because groups have texts that differ.
    fn group_key(&mut self, value: Expr, span: Span) -> Result<Expr> {
        self.without_collated_parts(&value, span)?;
        let key = self.own_key(value.clone(), span)?;
        if self.collation_of(&value).is_some() && !self.collated_keys.iter().any(|(known, _)| *known == value) {
            self.collated_keys.push((value, key.clone()));
        }
        Ok(key)
    }

    /// Puts one text of each group in place of the texts that are grouped by a collation.
    fn with_texts_of_groups(&mut self, block: &mut Block, span: Span) -> Result<()> {
        let Some(groups) = block.groups.as_ref().filter(|groups| !groups.collated.is_empty()) else { return Ok(()) };
        if groups.sets.len() > 1 {
            let message = "grouping sets of texts with a collation are not available";
            return Err(invalid(span, message).with_hint("group by lower(…) or strip_accents(…)"));
        }
        let mut texts = Known::new();
        for (value, key) in groups.collated.clone() {
            let Some(function) = self.world.functions.aggregate("any_value") else {
                return Err(self.no_function("any_value", span));
            };
            let one = function.call(vec![value.clone()]);
            let one = self.of_collated(one, std::slice::from_ref(&value), span)?;
            texts.insert(key.clone(), key);
            texts.insert(value, one);
        }
        for value in block.outputs() {
            replace_outside_aggregates(value, &texts).at(span)?;
        }
        Ok(())
    }

    /// Groups the rows, and replaces keys and aggregates in a block by columns.
    pub fn aggregated(&mut self, plan: LogicalPlan, block: &mut Block, span: Span) -> Result<LogicalPlan> {
        self.with_texts_of_groups(block, span)?;
        let mut calls: Vec<Expr> = vec![];
        for value in block.outputs() {
            collect(value, &mut calls, &|part| matches!(part, Expr::AggregateFunction(_)));
        }
        let groups = block.groups.take();
        if calls.is_empty() && groups.is_none() && block.having.is_none() {
            return Ok(plan);
        }
        let mut sets = groups.unwrap_or_default().sets;
        if sets.is_empty() {
            sets.push(vec![]);
        }
        if calls.is_empty() && sets.iter().all(Vec::is_empty) {
            calls.push(self.count_of_rows(span)?);
        }
        let is_plain = sets.len() == 1;
        let (plan, columns) =
            if is_plain { (plan, Known::new()) } else { with_key_columns(plan, &mut sets, &mut calls).at(span)? };
        let mut keys = match <[Vec<Expr>; 1]>::try_from(sets) {
            Ok([keys]) => distinct(keys),
            Err(sets) => vec![Expr::GroupingSet(GroupingSet::GroupingSets(sets.into_iter().map(distinct).collect()))],
        };
        if is_plain {
            let missing = missing_columns(&keys, &calls, block, plan.schema());
            keys.extend(determined(&keys, missing, &block.keyed));
        }
        let (plan, mut known) = grouped(plan, keys, calls, span)?;
        for (key, column) in columns {
            known.extend(known.get(&column).cloned().map(|grouped| (key, grouped)));
        }
        for value in block.outputs() {
            replace(value, &known).at(span)?;
            check_columns(value, plan.schema(), span)?;
        }
        Ok(plan)
    }

    fn count_of_rows(&mut self, span: Span) -> Result<Expr> {
        let Some(function) = self.world.functions.aggregate("count") else {
            return Err(self.no_function("count", span));
        };
        let all = Expr::Literal(COUNT_STAR_EXPANSION, None);
        Ok(Expr::AggregateFunction(AggregateFunction::new_udf(function, vec![all], false, None, vec![], None)))
    }
}

/// Computes the keys of grouping sets before rows are grouped: they are named in several sets, of which rules know nothing that change
/// expressions. Returns the column of each, and aggregates over these columns.
fn with_key_columns(
    plan: LogicalPlan,
    sets: &mut [Vec<Expr>],
    calls: &mut [Expr],
) -> datafusion_common::Result<(LogicalPlan, Known)> {
    let computed = distinct(sets.iter().flatten().filter(|key| !matches!(key, Expr::Column(_))).cloned().collect());
    if computed.is_empty() {
        return Ok((plan, Known::new()));
    }
    let (mut values, mut columns) = (plans::columns(plan.schema()), Known::new());
    for (at, key) in computed.into_iter().enumerate() {
        let name = format!("__key_{at}");
        values.push(key.clone().alias(&name));
        columns.insert(key, Expr::Column(Column::from_name(name)));
    }
    for key in sets.iter_mut().flatten() {
        replace(key, &columns)?;
    }
    let mut replaced = columns.clone();
    for call in calls {
        let written = call.clone();
        replace(call, &columns)?;
        replaced.insert(written, call.clone());
    }
    Ok((plans::project(plan, values)?, replaced))
}

/// Expressions in a plan, with the columns that have their values.
pub(crate) type Known = HashMap<Expr, Expr>;

/// A plan of groups, and where keys and aggregates are in it.
fn grouped(plan: LogicalPlan, keys: Vec<Expr>, calls: Vec<Expr>, span: Span) -> Result<(LogicalPlan, Known)> {
    // DataFusion names columns by expressions, in which it leaves out casts.
    let mut names = Distinct::default();
    let mut own_name = |value: Expr| {
        let name = match &value {
            Expr::Column(column) => column.flat_name(),
            Expr::GroupingSet(_) => return value,
            other => other.schema_name().to_string(),
        };
        let own = names.next(&name);
        if own == name { value } else { value.alias(own) }
    };
    let group_expr: Vec<Expr> = keys.into_iter().map(&mut own_name).collect();
    let aggr_expr: Vec<Expr> = calls.into_iter().map(&mut own_name).collect();
    let aggregate = Aggregate::try_new(Arc::new(plan), group_expr, aggr_expr).at(span)?;
    let schema = aggregate.schema.clone();
    let key_values: Vec<Expr> =
        grouping_set_to_exprlist(&aggregate.group_expr).at(span)?.into_iter().cloned().collect();
    let mut known = Known::new();
    let first_call = schema.fields().len() - aggregate.aggr_expr.len();
    for (at, value) in key_values.iter().enumerate() {
        known.insert(value.clone().unalias(), Expr::Column(plans::column(&schema, at)));
    }
    for (at, value) in aggregate.aggr_expr.iter().enumerate() {
        known.insert(value.clone().unalias(), Expr::Column(plans::column(&schema, first_call + at)));
    }
    Ok((LogicalPlan::Aggregate(aggregate), known))
}

/// Computes window functions whose names are taken, each under a name of its own.
pub(crate) fn windows_with_names(
    plan: LogicalPlan,
    block: &mut Block,
    calls: Vec<Expr>,
    span: Span,
) -> Result<LogicalPlan> {
    let mut known = Known::new();
    let mut plan = plan;
    for (at, call) in calls.into_iter().enumerate() {
        let before = plans::columns(plan.schema());
        let over = LogicalPlanBuilder::window_plan(plan, vec![call.clone()]).at(span)?;
        let own = plans::column(over.schema(), over.schema().fields().len() - 1);
        let name = format!("__window_{at}");
        let values = before.into_iter().chain([Expr::Column(own).alias(&name)]).collect();
        plan = plans::project(over, values).at(span)?;
        known.insert(call, Expr::Column(Column::from_name(name)));
    }
    for value in block.outputs() {
        replace(value, &known).at(span)?;
    }
    Ok(plan)
}

/// Replaces known expressions by columns.
pub(crate) fn replace(value: &mut Expr, known: &Known) -> datafusion_common::Result<()> {
    let taken = std::mem::take(value);
    let replaced = taken.transform_down(|part| match known.get(&part) {
        Some(column) => Ok(Transformed::new(column.clone(), true, TreeNodeRecursion::Jump)),
        None => Ok(Transformed::no(part)),
    })?;
    *value = replaced.data;
    Ok(())
}

/// The same for parts that stand in no aggregate.
fn replace_outside_aggregates(value: &mut Expr, known: &Known) -> datafusion_common::Result<()> {
    let taken = std::mem::take(value);
    let replaced = taken.transform_down(|part| match (known.get(&part), &part) {
        (Some(other), _) => Ok(Transformed::new(other.clone(), true, TreeNodeRecursion::Jump)),
        (None, Expr::AggregateFunction(_)) => Ok(Transformed::new(part, false, TreeNodeRecursion::Jump)),
        (None, _) => Ok(Transformed::no(part)),
    })?;
    *value = replaced.data;
    Ok(())
}

/// Each key once.
fn distinct(keys: Vec<Expr>) -> Vec<Expr> {
    let mut all: Vec<Expr> = vec![];
    for key in keys {
        if !all.contains(&key) {
            all.push(key);
        }
    }
    all
}

/// The columns outside of keys and aggregates, also those that subqueries read.
fn missing_columns(keys: &[Expr], calls: &[Expr], block: &mut Block, input: &DFSchema) -> Vec<Column> {
    let mut missing: Vec<Column> = vec![];
    for value in block.outputs() {
        // The closure does not fail.
        let _ = value.apply(|part| {
            if keys.contains(part) || calls.contains(part) {
                return Ok(TreeNodeRecursion::Jump);
            }
            let mut note = |column: &Column| {
                if !missing.contains(column) && input.has_column(column) {
                    missing.push(column.clone());
                }
            };
            match part {
                Expr::Column(column) => note(column),
                Expr::ScalarSubquery(subquery) => outer_columns(&subquery.outer_ref_columns, &mut note),
                Expr::Exists(exists) => outer_columns(&exists.subquery.outer_ref_columns, &mut note),
                Expr::InSubquery(within) => outer_columns(&within.subquery.outer_ref_columns, &mut note),
                Expr::SetComparison(set) => outer_columns(&set.subquery.outer_ref_columns, &mut note),
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        });
    }
    missing
}

fn outer_columns(references: &[Expr], note: &mut dyn FnMut(&Column)) {
    for reference in references {
        if let Expr::OuterReferenceColumn(_, column) = reference {
            note(column);
        }
    }
}

/// Refuses more grouping sets than a statement may have.
fn check_sets(keys: &[GroupKey]) -> Result<()> {
    let sets = keys.iter().map(number_of_sets).fold(1, u64::saturating_mul);
    if sets <= SETS_MAX {
        return Ok(());
    }
    let message = format!("the statement is too complex: GROUP BY has {sets} grouping sets (at most {SETS_MAX})");
    Err(too_complex(span_of(keys), message).with_hint("name the sets that are needed in GROUPING SETS (…)"))
}

/// The number of grouping sets of an element of GROUP BY.
fn number_of_sets(key: &GroupKey) -> u64 {
    match key {
        GroupKey::Cube(values) => {
            u32::try_from(values.len()).ok().and_then(|values| 2u64.checked_pow(values)).unwrap_or(u64::MAX)
        }
        GroupKey::Rollup(values) => values.len() as u64 + 1,
        GroupKey::Sets(keys) => keys.iter().map(number_of_sets).fold(0, u64::saturating_add),
        GroupKey::Value(_) | GroupKey::Empty => 1,
    }
}

/// The place of the first value among keys.
fn span_of(keys: &[GroupKey]) -> Span {
    let of_key = |key: &GroupKey| match key {
        GroupKey::Value(value) => Some(value.span),
        GroupKey::Rollup(values) | GroupKey::Cube(values) => values.first().map(|value| value.span),
        GroupKey::Sets(keys) => Some(span_of(keys)),
        GroupKey::Empty => None,
    };
    keys.iter().find_map(of_key).unwrap_or_default()
}

/// Those of the missing columns that a primary key among the keys determines.
fn determined(keys: &[Expr], missing: Vec<Column>, keyed: &[Relation]) -> Vec<Expr> {
    let is_key = |column: &Column| keys.iter().any(|key| matches!(key, Expr::Column(own) if own == column));
    let is_of_group = |relation: &&Relation| !relation.key.is_empty() && relation.key.iter().all(is_key);
    let whole: Vec<&Relation> = keyed.iter().filter(is_of_group).collect();
    let is_known = |column: &Column| whole.iter().any(|one| one.columns.iter().any(|(_, own)| own == column));
    missing.into_iter().filter(is_known).map(Expr::Column).collect()
}

/// Refuses columns that are neither keys nor within aggregates.
fn check_columns(value: &Expr, groups: &DFSchema, span: Span) -> Result<()> {
    let mut wrong = None;
    // The closure does not fail.
    let _ = value.apply(|part| {
        if let Expr::Column(column) = part
            && !groups.has_column(column)
        {
            wrong = Some(column.name.clone());
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    match wrong {
        None => Ok(()),
        Some(name) => Err(invalid(span, format!("column {name} is neither in GROUP BY nor within an aggregate"))
            .with_hint(format!("add it to GROUP BY, or write any_value({name})"))),
    }
}
