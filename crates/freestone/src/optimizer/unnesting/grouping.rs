//! Aggregates per outer row.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::GroupingSet;
use datafusion::logical_expr::utils::{enumerate_grouping_sets, grouping_set_to_exprlist};
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan, Operator, Union, binary_expr, lit};

use super::domain::Key;
use super::expressions::{as_was, column, columns, count_rows, plain, project, project_as};
use super::lifted::Lifted;
use super::scopes::{Scopes, has_subquery};
use super::{Unnester, refused};

/// An aggregate whose group keys include the keys of outer columns.
pub(super) struct Grouped {
    pub plan: LogicalPlan,
    /// The keys, over the columns of this plan.
    pub keys: Vec<Key>,
    /// The columns of the original aggregate: its group keys, then its aggregates.
    pub output: Vec<Expr>,
    /// The keys are the only group keys.
    pub by_keys_only: bool,
}

impl Unnester {
    pub fn lift_aggregate(&self, node: Aggregate, scopes: &Scopes) -> Result<Lifted> {
        let here = node.group_expr.iter().chain(&node.aggr_expr).any(has_subquery);
        let mut over = self.over(node.input.clone(), scopes, false)?;
        let mut all = over.expressions(node.group_expr.iter().chain(&node.aggr_expr).cloned().collect())?;
        let mut lifted = over.lifted;
        self.complete(&mut lifted, scopes)?;
        let keys = self.settle(&mut lifted, &mut all, scopes)?;
        if keys.is_empty() && !here {
            let input = Arc::new(lifted.under(node.input.schema())?);
            let aggregate = Aggregate::try_new(input, node.group_expr, node.aggr_expr)?;
            return Ok(Lifted::of(LogicalPlan::Aggregate(aggregate)));
        }
        let aggregates = all.split_off(node.group_expr.len());
        if keys.is_empty() {
            let group = match all.as_slice() {
                [Expr::GroupingSet(_)] => all,
                _ => all.into_iter().zip(&node.group_expr).map(|(e, was)| as_was(e, was)).collect(),
            };
            let aggregates = aggregates.into_iter().zip(&node.aggr_expr).map(|(e, was)| as_was(e, was)).collect();
            let aggregate = Aggregate::try_new(Arc::new(lifted.plan), group, aggregates)?;
            return Ok(Lifted::of(LogicalPlan::Aggregate(aggregate)));
        }
        if let [Expr::GroupingSet(set)] = all.as_slice() {
            if explicit_sets(set).iter().any(Vec::is_empty) {
                return self.lift(without_empty_sets(&node)?, scopes, false);
            }
            return self.grouped_by_sets(lifted.plan, keys, &explicit_sets(set), aggregates, &node.schema);
        }
        let is_whole = node.group_expr.is_empty();
        let grouped = self.grouped(lifted.plan, keys, all, aggregates)?;
        let empty = if is_whole { Some(defaults(&node)?) } else { None };
        Ok(Lifted {
            plan: grouped.plan,
            output: grouped.output,
            conditions: grouped.keys.iter().map(Key::condition).collect(),
            empty,
            is_single: grouped.by_keys_only,
        })
    }

    /// Groups by the keys in addition to the original group keys.
    pub fn grouped(
        &self,
        plan: LogicalPlan,
        keys: Vec<Key>,
        group: Vec<Expr>,
        aggregates: Vec<Expr>,
    ) -> Result<Grouped> {
        let mut by: Vec<Expr> = vec![];
        let mut place = |e: &Expr| {
            by.iter().position(|known| known == e).unwrap_or_else(|| {
                by.push(e.clone());
                by.len() - 1
            })
        };
        let of_keys: Vec<usize> = keys.iter().map(|key| place(&key.inner)).collect();
        let of_group: Vec<usize> = group.into_iter().map(|e| place(&e.unalias())).collect();
        let width = by.len();
        let fresh = |e: Expr| match e {
            Expr::Column(_) => e,
            e => e.unalias().alias(self.name("k")),
        };
        let by: Vec<Expr> = by.into_iter().map(fresh).collect();
        let aggregates = self.apart(aggregates, &by);
        let aggregate = Aggregate::try_new(Arc::new(plan), by, aggregates)?;
        let all = columns(&aggregate.schema);
        let by_keys_only = of_group.iter().all(|at| of_keys.contains(at));
        let output = of_group.into_iter().chain(width..all.len()).map(|at| all[at].clone()).collect();
        let keys = keys.into_iter().zip(of_keys).map(|(key, at)| Key { inner: all[at].clone(), ..key }).collect();
        Ok(Grouped { plan: LogicalPlan::Aggregate(aggregate), keys, output, by_keys_only })
    }

    /// The aggregates with names that are distinct, and differ from those of the columns.
    fn apart(&self, aggregates: Vec<Expr>, columns: &[Expr]) -> Vec<Expr> {
        let aggregates: Vec<Expr> = aggregates.into_iter().map(Expr::unalias).collect();
        let all = aggregates.iter().chain(columns);
        let names: HashSet<String> = all.map(|e| e.qualified_name().1).collect();
        if names.len() == aggregates.len() + columns.len() {
            return aggregates;
        }
        aggregates.into_iter().map(|e| e.alias(self.name("v"))).collect()
    }

    /// Adds the keys to the front of each grouping set, so that the bits of the other keys in the grouping id do not
    /// change.
    fn grouped_by_sets(
        &self,
        plan: LogicalPlan,
        keys: Vec<Key>,
        sets: &[Vec<Expr>],
        aggregates: Vec<Expr>,
        schema: &DFSchema,
    ) -> Result<Lifted> {
        let mut below = columns(plan.schema());
        let mut in_front = vec![];
        for key in &keys {
            let name = self.name("k");
            below.push(key.inner.clone().alias(name.clone()));
            in_front.push(plain(name));
        }
        let plan = project(plan, below.clone())?;
        let sets = sets.iter().map(|set| in_front.iter().chain(set).cloned().collect()).collect();
        let group = vec![Expr::GroupingSet(GroupingSet::GroupingSets(sets))];
        let aggregate = Aggregate::try_new(Arc::new(plan), group, self.apart(aggregates, &below))?;
        if aggregate.schema.fields().len() != keys.len() + schema.fields().len() {
            return Err(refused("GROUPING SETS over one column under two names"));
        }
        let mut output = vec![];
        for (at, field) in schema.fields().iter().enumerate() {
            let value = column(&aggregate.schema, keys.len() + at);
            output.push(if field.name() == Aggregate::INTERNAL_GROUPING_ID {
                grouping_number(value, &aggregate.schema, schema, at)?
            } else {
                value
            });
        }
        let conditions = keys.into_iter().zip(in_front).map(|(key, inner)| Key { inner, ..key }.condition()).collect();
        let plan = LogicalPlan::Aggregate(aggregate);
        let lifted = Lifted { conditions, ..Lifted::of(plan) };
        lifted.projected(self, output)
    }
}

/// The values of an aggregate without GROUP BY over no rows.
fn defaults(node: &Aggregate) -> Result<Vec<Expr>> {
    let fields = node.schema.fields().iter();
    let defaults = node.aggr_expr.iter().zip(fields).map(|(e, field)| {
        let mut e = e;
        while let Expr::Alias(alias) = e {
            e = &alias.expr;
        }
        let value = match e {
            Expr::AggregateFunction(call) => call.func.default_value(field.data_type()),
            _ => ScalarValue::try_from(field.data_type()),
        };
        value.map(lit)
    });
    defaults.collect()
}

/// ROLLUP, CUBE and GROUPING SETS as lists of keys.
fn explicit_sets(set: &GroupingSet) -> Vec<Vec<Expr>> {
    match set {
        GroupingSet::GroupingSets(sets) => sets.clone(),
        GroupingSet::Rollup(keys) => (0..=keys.len()).rev().map(|n| keys[..n].to_vec()).collect(),
        GroupingSet::Cube(keys) => {
            let subsets = (0..1u64.checked_shl(keys.len() as u32).unwrap_or(0)).rev();
            let subset = |bits: u64| keys.iter().enumerate().filter(move |(at, _)| bits >> at & 1 == 1);
            subsets.map(|bits| subset(bits).map(|(_, key)| key.clone()).collect()).collect()
        }
    }
}

/// The grouping id in its original type, without the bits of the added keys.
fn grouping_number(value: Expr, from: &DFSchema, to: &DFSchema, at: usize) -> Result<Expr> {
    let mask = lit(ScalarValue::UInt64(Some((1u64 << at.min(63)) - 1)));
    let wide = value.cast_to(&DataType::UInt64, from)?;
    binary_expr(wide, Operator::BitwiseAnd, mask).cast_to(to.field(at).data_type(), from)
}

/// Replaces empty grouping sets, which return a row even if there are no input rows, by aggregates without GROUP BY.
fn without_empty_sets(node: &Aggregate) -> Result<LogicalPlan> {
    let [Expr::GroupingSet(set)] = node.group_expr.as_slice() else { return Ok(LogicalPlan::Aggregate(node.clone())) };
    let keys: Vec<Expr> = grouping_set_to_exprlist(&node.group_expr)?.into_iter().cloned().collect();
    let (empty, others): (Vec<_>, Vec<_>) = explicit_sets(set).into_iter().partition(Vec::is_empty);
    let named = |plan: LogicalPlan, output: Vec<Expr>| {
        project(plan, output.into_iter().enumerate().map(|(at, e)| e.alias(format!("__grouped_{at}"))).collect())
    };
    let mut inputs = vec![];
    if !others.is_empty() {
        let group = enumerate_grouping_sets(vec![Expr::GroupingSet(GroupingSet::GroupingSets(others))])?;
        let rest = Aggregate::try_new(node.input.clone(), group, node.aggr_expr.clone())?;
        let mut output = columns(&rest.schema);
        output[keys.len()] = grouping_number(output[keys.len()].clone(), &rest.schema, &node.schema, keys.len())?;
        inputs.push(Arc::new(named(LogicalPlan::Aggregate(rest), output)?));
    }
    let mut aggregates = node.aggr_expr.clone();
    if aggregates.is_empty() {
        aggregates.push(count_rows());
    }
    let whole = Aggregate::try_new(node.input.clone(), vec![], aggregates)?;
    let mut output = vec![];
    for at in 0..keys.len() {
        output.push(lit(ScalarValue::try_from(node.schema.field(at).data_type())?));
    }
    let number = lit(ScalarValue::UInt64(Some((1u64 << keys.len().min(63)) - 1)));
    output.push(number.cast_to(node.schema.field(keys.len()).data_type(), &node.schema)?);
    output.extend((0..node.aggr_expr.len()).map(|at| column(&whole.schema, at)));
    inputs.extend(std::iter::repeat_n(Arc::new(named(LogicalPlan::Aggregate(whole), output)?), empty.len()));
    if inputs.len() == 1 {
        let only = inputs.pop().map(Arc::unwrap_or_clone).unwrap_or_default();
        let output = columns(only.schema());
        return project_as(only, output, &node.schema);
    }
    // The columns of a union have no qualifiers.
    let union = LogicalPlan::Union(Union::try_new(inputs)?);
    let output = columns(union.schema());
    project_as(union, output, &node.schema)
}
