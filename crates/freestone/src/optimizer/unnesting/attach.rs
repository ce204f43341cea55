//! Joins a query with the subqueries of its expressions.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_aggregate::expr_fn::{first_value, max, min};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprSchemable, FetchType, JoinType, Limit, LogicalPlan, Operator, SkipType, binary_expr,
    lit, not,
};

use super::expressions::{
    as_plain, column, columns, count_rows, equal, filter, join, only, or_default, project, same, three_valued,
};
use super::push::{Domain, defaults};
use super::scope::{self, contains_subquery, free, subquery_over};
use super::single::single;
use super::strip::{peel, strip, substitute};
use super::{Unnester, refused};

/// The subquery as the right side of a join.
struct Right {
    plan: LogicalPlan,
    /// When a row of it belongs to a row of the left side.
    on: Vec<Expr>,
    /// The subquery's columns.
    output: Vec<Expr>,
}

/// `value operator ANY (subquery)`.
struct Comparison {
    value: Expr,
    operator: Operator,
    subquery: LogicalPlan,
}

impl Comparison {
    fn with(&self, element: &Expr) -> Expr {
        binary_expr(self.value.clone(), self.operator, element.clone())
    }
}

/// Subqueries of one node that became columns.
pub(super) struct Attached<'a> {
    unnester: &'a Unnester,
    pub plan: LogicalPlan,
    known: Vec<(Expr, Expr)>,
}

impl<'a> Attached<'a> {
    pub fn new(unnester: &'a Unnester, plan: LogicalPlan) -> Attached<'a> {
        Attached { unnester, plan, known: vec![] }
    }

    /// The expression with columns of the plan in place of its subqueries.
    pub fn replace(&mut self, expression: Expr) -> Result<Expr> {
        if !contains_subquery(&expression) {
            return Ok(expression);
        }
        let replaced = expression.transform_up(|e| match scope::subquery_of(&e) {
            Some(_) => Ok(Transformed::yes(self.value(e)?)),
            None => Ok(Transformed::no(e)),
        })?;
        Ok(replaced.data)
    }

    fn value(&mut self, subquery: Expr) -> Result<Expr> {
        if let Some((_, value)) = self.known.iter().find(|(known, _)| *known == subquery) {
            return Ok(value.clone());
        }
        let value = match subquery.clone() {
            Expr::Exists(Exists { subquery, negated }) => {
                let mark = self.exists(Arc::unwrap_or_clone(subquery.subquery))?;
                if negated { not(mark) } else { mark }
            }
            Expr::InSubquery(node) => {
                let (comparison, negated) = of_in(node);
                let mark = self.any(comparison)?;
                if negated { not(mark) } else { mark }
            }
            Expr::SetComparison(node) => {
                let (comparison, negated) = of_quantified(node)?;
                let mark = self.any(comparison)?;
                if negated { not(mark) } else { mark }
            }
            Expr::ScalarSubquery(subquery) => self.scalar(Arc::unwrap_or_clone(subquery.subquery))?,
            other => other,
        };
        self.known.push((subquery, value.clone()));
        Ok(value)
    }

    /// Keeps the rows for which the conditions are true. Conditions without subqueries come first.
    pub fn filter(mut self, conditions: Vec<Expr>) -> Result<LogicalPlan> {
        let (with, without): (Vec<_>, Vec<_>) = conditions.into_iter().partition(contains_subquery);
        self.plan = filter(self.plan, without)?;
        let mut values = vec![];
        for condition in with {
            values.extend(self.condition(condition)?);
        }
        filter(self.plan, values)
    }

    /// A condition of a filter: a semi or anti join, or else what is left of it.
    fn condition(&mut self, condition: Expr) -> Result<Option<Expr>> {
        let (condition, negated) = match condition {
            Expr::Not(inner) => (*inner, true),
            other => (other, false),
        };
        let correlated = |plan: &LogicalPlan| !free(plan).is_empty();
        match condition {
            Expr::Exists(node) if correlated(&node.subquery.subquery) => {
                let plan = without_limit(Arc::unwrap_or_clone(node.subquery.subquery))?;
                let right = self.right(plan)?;
                self.semi(right.plan, right.on, negated != node.negated)?;
                Ok(None)
            }
            Expr::InSubquery(node) => {
                let (comparison, inner) = of_in(node);
                self.compared(comparison, negated != inner)
            }
            Expr::SetComparison(node) => {
                let (comparison, inner) = of_quantified(node)?;
                self.compared(comparison, negated != inner)
            }
            other => {
                let value = self.replace(other)?;
                Ok(Some(if negated { not(value) } else { value }))
            }
        }
    }

    /// Keeps the rows for which a comparison with a subquery is true, or is false.
    fn compared(&mut self, mut comparison: Comparison, negated: bool) -> Result<Option<Expr>> {
        comparison.value = self.replace(comparison.value)?;
        let uncorrelated = free(&comparison.subquery).is_empty();
        let by_value = comparison.operator != Operator::Eq || comparison.value.column_refs().is_empty();
        if uncorrelated && by_value {
            let value = self.any(comparison)?;
            return Ok(Some(if negated { not(value) } else { value }));
        }
        let value = comparison.value.clone();
        let right = self.right(comparison.subquery.clone())?;
        let element = right.output[0].clone();
        if negated {
            let unknown = self.may_be_unknown(&value, &right, &element)?;
            match unknown {
                Some(_) if uncorrelated => {
                    let (rows, nulls) = self.counts(&right, &element)?;
                    let some = value.is_not_null().and(equal(nulls, lit(0i64)));
                    self.plan = filter(self.plan.clone(), vec![equal(rows, lit(0i64)).or(some)])?;
                }
                Some(unknown) => {
                    let mut on = right.on.clone();
                    on.push(unknown);
                    self.semi(right.plan.clone(), on, true)?;
                }
                None => {}
            }
        }
        let mut on = right.on;
        on.push(comparison.with(&element));
        let plan = if negated { self.unnester.again(right.plan, &mut on)? } else { right.plan };
        self.semi(plan, on, negated)?;
        Ok(None)
    }

    fn semi(&mut self, right: LogicalPlan, on: Vec<Expr>, negated: bool) -> Result<()> {
        let kind = if negated { JoinType::LeftAnti } else { JoinType::LeftSemi };
        self.plan = join(self.plan.clone(), right, on, kind)?;
        Ok(())
    }

    /// The condition under which a row of the subquery makes a comparison unknown. None: never.
    fn may_be_unknown(&self, value: &Expr, right: &Right, element: &Expr) -> Result<Option<Expr>> {
        let schema = self.plan.schema().join(right.plan.schema())?;
        let sides = [value, element].into_iter().filter(|e| e.nullable(&schema).unwrap_or(true));
        Ok(sides.map(|e| e.clone().is_null()).reduce(Expr::or))
    }

    /// Whether the subquery has a row.
    fn exists(&mut self, plan: LogicalPlan) -> Result<Expr> {
        let plan = without_limit(plan)?;
        if free(&plan).is_empty() {
            let fetch = Some(Box::new(lit(1i64)));
            let one = LogicalPlan::Limit(Limit { skip: None, fetch, input: Arc::new(self.unnester.unnest(plan)?) });
            return Ok(aggregated(one, count_rows())?.gt(lit(0i64)));
        }
        let right = self.right(plan)?;
        self.mark(right.plan, right.on)
    }

    /// A column that says whether a row of the right side matches.
    fn mark(&mut self, right: LogicalPlan, on: Vec<Expr>) -> Result<Expr> {
        let name = format!("__mark_{}", self.unnester.number());
        let mut expressions = columns(self.plan.schema());
        let marked = join(self.plan.clone(), right, on, JoinType::LeftMark)?;
        let mark = column(marked.schema(), expressions.len());
        expressions.push(mark.alias(name.clone()));
        self.plan = project(marked, expressions)?;
        Ok(Expr::Column(Column::new_unqualified(name)))
    }

    /// `value operator ANY (subquery)`: true, false or unknown.
    fn any(&mut self, mut comparison: Comparison) -> Result<Expr> {
        comparison.value = self.replace(comparison.value)?;
        let uncorrelated = free(&comparison.subquery).is_empty();
        let right = self.right(comparison.subquery.clone())?;
        let element = right.output[0].clone();
        let unknown = self.may_be_unknown(&comparison.value, &right, &element)?;
        if uncorrelated {
            let is_true = self.any_uncorrelated(&comparison, &right, &element)?;
            let unknown = match unknown {
                Some(_) => {
                    let (rows, nulls) = self.counts(&right, &element)?;
                    let of_value = comparison.value.is_null().and(rows.gt(lit(0i64)));
                    Some(nulls.gt(lit(0i64)).or(of_value))
                }
                None => None,
            };
            return three_valued(is_true, unknown);
        }
        let mut on = right.on.clone();
        on.push(comparison.with(&element));
        let is_true = self.mark(right.plan.clone(), on)?;
        let unknown = match unknown {
            Some(unknown) => {
                let mut on = right.on;
                on.push(unknown);
                let plan = self.unnester.again(right.plan, &mut on)?;
                Some(self.mark(plan, on)?)
            }
            None => None,
        };
        three_valued(is_true, unknown)
    }

    /// Whether a comparison is true for an element of a subquery that is the same for every row.
    fn any_uncorrelated(&mut self, comparison: &Comparison, right: &Right, element: &Expr) -> Result<Expr> {
        let of = |value: Expr| aggregated(right.plan.clone(), value);
        if comparison.value.column_refs().is_empty() {
            let matches = filter(right.plan.clone(), vec![comparison.with(element)])?;
            return Ok(aggregated(matches, count_rows())?.gt(lit(0i64)));
        }
        let float = element.get_type(right.plan.schema())?.is_floating();
        let compare = |extreme: Expr| binary_expr(comparison.value.clone(), comparison.operator, extreme);
        match comparison.operator {
            Operator::Lt | Operator::LtEq if !float => Ok(compare(of(max(element.clone()))?).is_true()),
            Operator::Gt | Operator::GtEq if !float => Ok(compare(of(min(element.clone()))?).is_true()),
            Operator::NotEq if !float => {
                let low = compare(of(min(element.clone()))?).is_true();
                Ok(low.or(compare(of(max(element.clone()))?).is_true()))
            }
            _ => self.mark(right.plan.clone(), vec![comparison.with(element)]),
        }
    }

    /// How many rows an uncorrelated subquery has, and how many elements are NULL.
    fn counts(&self, right: &Right, element: &Expr) -> Result<(Expr, Expr)> {
        let rows = aggregated(right.plan.clone(), count_rows())?;
        let nulls = filter(right.plan.clone(), vec![element.clone().is_null()])?;
        Ok((rows, aggregated(nulls, count_rows())?))
    }

    /// The one value of a subquery.
    fn scalar(&mut self, plan: LogicalPlan) -> Result<Expr> {
        if free(&plan).is_empty() {
            return Ok(Expr::ScalarSubquery(subquery_over(self.unnester.unnest(plan)?)));
        }
        let data_type = plan.schema().field(0).data_type().clone();
        if let Some(value) = self.outer_value(&plan)? {
            return Ok(value);
        }
        if scope::is_volatile(&plan) {
            return Err(volatile());
        }
        if let Some(peeled) = peel(&plan)? {
            return self.aggregate(peeled.aggregate, peeled.value, &data_type);
        }
        let pushed = self.unnester.push(plan.clone(), &self.domain(&plan)?)?;
        let keys: Vec<Expr> = pushed.keys.iter().map(|key| Expr::Column(key.column.clone())).collect();
        let element = column(plan.schema(), 0);
        let values = vec![first_value(element, vec![]), count_rows()];
        let grouped = Aggregate::try_new(Arc::new(self.unnester.unnest(pushed.plan)?), keys, values)?;
        let at = grouped.schema.fields().len() - 2;
        let right = self.unnester.right_of(LogicalPlan::Aggregate(grouped), at)?;
        let on = self.on_keys(pushed.keys.iter().map(|key| key.strict), &right.1, &plan)?;
        self.plan = join(self.plan.clone(), right.0, on, JoinType::Left)?;
        Ok(single(right.2[0].clone(), right.2[1].clone()))
    }

    /// A subquery that reads no table: its expression over the outer query.
    fn outer_value(&mut self, plan: &LogicalPlan) -> Result<Option<Expr>> {
        let LogicalPlan::Projection(node) = plan else { return Ok(None) };
        let one_row = matches!(node.input.as_ref(), LogicalPlan::EmptyRelation(input) if input.produce_one_row);
        match node.expr.as_slice() {
            [value] if one_row && !contains_subquery(value) => Ok(Some(as_plain(value.clone().unalias())?)),
            _ => Ok(None),
        }
    }

    /// A value over the columns of an aggregate without GROUP BY.
    fn aggregate(&mut self, aggregate: Aggregate, value: Expr, data_type: &DataType) -> Result<Expr> {
        let defaults = defaults(&aggregate)?;
        let schema = aggregate.schema.clone();
        let plan = LogicalPlan::Aggregate(aggregate.clone());
        let (right, on, output) = if free(&plan).is_empty() {
            let (right, _, output) = self.unnester.right_of(self.unnester.unnest(plan)?, 0)?;
            (right, vec![], output)
        } else {
            let pushed = self.unnester.push_grouped(aggregate, &self.domain(&plan)?)?;
            let strict: Vec<bool> = pushed.keys.iter().map(|key| key.strict).collect();
            let keys = schema.fields().len();
            let (right, mut all, _) = self.unnester.right_of(self.unnester.unnest(pushed.plan)?, usize::MAX)?;
            let on = self.on_keys(strict.into_iter(), &all[keys..], &plan)?;
            all.truncate(keys);
            (right, on, all)
        };
        self.plan = join(self.plan.clone(), right, on, JoinType::Left)?;
        let output: Vec<Expr> = output.into_iter().zip(defaults).map(|(e, default)| or_default(e, default)).collect();
        as_plain(substitute(value.unalias(), &schema, &output)?)?.cast_to(data_type, self.plan.schema())
    }

    fn domain(&self, plan: &LogicalPlan) -> Result<Domain> {
        let columns = free(plan);
        for (column, _) in &columns {
            if !self.plan.schema().has_column(column) {
                return Err(refused(&format!("a reference to {column} of the outer query at this place")));
            }
        }
        Ok(Domain { outer: self.plan.clone(), columns })
    }

    /// Rows of the left side and of bindings that belong together.
    fn on_keys(&self, strict: impl Iterator<Item = bool>, keys: &[Expr], plan: &LogicalPlan) -> Result<Vec<Expr>> {
        let mut on = vec![];
        for (((outer, _), key), strict) in free(plan).into_iter().zip(keys).zip(strict) {
            let outer = Expr::Column(outer);
            let plain = strict || !outer.nullable(self.plan.schema())?;
            on.push(if plain { equal(outer, key.clone()) } else { same(outer, key.clone()) });
        }
        Ok(on)
    }

    /// The subquery as the right side of a join to which its equal rows are one.
    fn right(&self, plan: LogicalPlan) -> Result<Right> {
        if free(&plan).is_empty() {
            let (plan, output, _) = self.unnester.right_of(self.unnester.unnest(plan)?, usize::MAX)?;
            return Ok(Right { plan, on: vec![], output });
        }
        if scope::is_volatile(&plan) {
            return Err(volatile());
        }
        if let Some(stripped) = strip(&plan)? {
            let schema = stripped.plan.schema().clone();
            let (plan, all, _) = self.unnester.right_of(self.unnester.unnest(stripped.plan)?, usize::MAX)?;
            let translate = |e: Expr| as_plain(substitute(e, &schema, &all)?);
            let on = stripped.conditions.into_iter().map(translate).collect::<Result<_>>()?;
            let output = stripped.output.into_iter().map(translate).collect::<Result<_>>()?;
            return Ok(Right { plan, on, output });
        }
        let pushed = self.unnester.push(plan.clone(), &self.domain(&plan)?)?;
        let width = plan.schema().fields().len();
        let (right, mut all, _) = self.unnester.right_of(self.unnester.unnest(pushed.plan)?, usize::MAX)?;
        let on = self.on_keys(pushed.keys.iter().map(|key| key.strict), &all[width..], &plan)?;
        all.truncate(width);
        Ok(Right { plan: right, on, output: all })
    }
}

impl Unnester {
    /// The plan with columns of names that are nowhere else; those before `at`, and those from there on.
    fn right_of(&self, plan: LogicalPlan, at: usize) -> Result<(LogicalPlan, Vec<Expr>, Vec<Expr>)> {
        let relation = format!("__sq_{}", self.number());
        let width = plan.schema().fields().len();
        let names: Vec<String> = (0..width).map(|at| format!("{relation}_{at}")).collect();
        let renamed = names.iter().zip(columns(plan.schema()));
        let renamed = renamed.map(|(name, e)| e.alias_qualified(Some(relation.clone()), name)).collect();
        let plan = project(plan, renamed)?;
        let mut first = columns(plan.schema());
        let rest = first.split_off(at.min(width));
        Ok((plan, first, rest))
    }

    /// A second copy of a right side under other names, also in the conditions over it.
    fn again(&self, plan: LogicalPlan, on: &mut [Expr]) -> Result<LogicalPlan> {
        let schema = plan.schema().clone();
        let (copy, output, _) = self.right_of(plan, usize::MAX)?;
        for condition in on {
            *condition = rename_columns(condition.clone(), &schema, &output)?;
        }
        Ok(copy)
    }
}

fn rename_columns(expression: Expr, schema: &DFSchema, output: &[Expr]) -> Result<Expr> {
    substitute(expression, schema, output)
}

fn of_in(node: InSubquery) -> (Comparison, bool) {
    let subquery = Arc::unwrap_or_clone(node.subquery.subquery);
    (Comparison { value: *node.expr, operator: Operator::Eq, subquery }, node.negated)
}

/// `x < ALL (S)` is `NOT (x >= ANY (S))`.
fn of_quantified(node: SetComparison) -> Result<(Comparison, bool)> {
    let subquery = Arc::unwrap_or_clone(node.subquery.subquery);
    let negated = node.quantifier == SetQuantifier::All;
    let operator = if negated { node.op.negate() } else { Some(node.op) };
    let operator = operator.ok_or_else(|| DataFusionError::NotImplemented(format!("{} ALL (subquery)", node.op)))?;
    Ok((Comparison { value: *node.expr, operator, subquery }, negated))
}

/// An uncorrelated aggregate as a value.
fn aggregated(plan: LogicalPlan, value: Expr) -> Result<Expr> {
    let aggregate = Aggregate::try_new(Arc::new(plan), vec![], vec![value])?;
    Ok(Expr::ScalarSubquery(subquery_over(LogicalPlan::Aggregate(aggregate))))
}

/// To EXISTS it matters neither how many rows there are nor in which order.
fn without_limit(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Limit(limit) => {
            let none = matches!(limit.get_skip_type()?, SkipType::Literal(0));
            let some = matches!(limit.get_fetch_type()?, FetchType::Literal(n) if n != Some(0));
            if none && some { without_limit(Arc::unwrap_or_clone(limit.input)) } else { Ok(LogicalPlan::Limit(limit)) }
        }
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => without_limit(Arc::unwrap_or_clone(sort.input)),
        LogicalPlan::Distinct(Distinct::All(input)) => without_limit(Arc::unwrap_or_clone(input)),
        other => Ok(other),
    }
}

fn volatile() -> DataFusionError {
    refused("a volatile function such as random()")
}

/// Lateral joins, which the caller knows to be inner or left joins.
impl Attached<'_> {
    /// The lateral subquery with its own columns and keys, and when its rows belong to those of the left side.
    pub fn lateral(&self, plan: LogicalPlan) -> Result<(LogicalPlan, Vec<Expr>)> {
        if scope::is_volatile(&plan) {
            return Err(volatile());
        }
        let pushed = self.unnester.push(plan.clone(), &self.domain(&plan)?)?;
        let keys: Vec<Expr> = pushed.keys.iter().map(|key| Expr::Column(key.column.clone())).collect();
        let on = self.on_keys(pushed.keys.iter().map(|key| key.strict), &keys, &plan)?;
        Ok((self.unnester.unnest(pushed.plan)?, on))
    }

    /// The plan with the columns of a schema only.
    pub fn only(self, schema: &DFSchema) -> Result<LogicalPlan> {
        only(self.plan, schema)
    }
}
