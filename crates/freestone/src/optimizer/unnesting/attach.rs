//! Joins a plan with the subqueries in the expressions that are evaluated over it.

use std::sync::Arc;

use datafusion::common::DFSchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_aggregate::expr_fn::first_value;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, FetchType, JoinType, Limit, LogicalPlan, Operator, SkipType, Subquery, lit, not, when,
};

use super::domain::Key;
use super::expressions::{column, count_rows, join, null_of, project};
use super::lifted::Lifted;
use super::scopes::{Scope, Scopes, filled, has_subquery, is_bound, is_open, is_volatile, subquery_of};
use super::sets::Comparison;
use super::single::{nullable, single};
use super::{Unnester, volatile};
use crate::recursion::reads_outer_step;

/// The lifted input of a node, which converts the node's expressions to expressions over the lifted plan.
pub(super) struct Over<'a> {
    pub unnester: &'a Unnester,
    pub lifted: Lifted,
    /// The original schema of the input, whose columns the expressions name.
    pub schema: DFSchemaRef,
    pub scopes: &'a Scopes,
    /// Only the distinct rows of the input matter, so rows may be repeated.
    is_set: bool,
    /// The input as the outer query of its subqueries, once one of them needs it.
    scope: Option<Arc<Scope>>,
    known: Vec<(Expr, Expr)>,
}

impl<'a> Over<'a> {
    pub fn new(unnester: &'a Unnester, lifted: Lifted, schema: DFSchemaRef, scopes: &'a Scopes) -> Over<'a> {
        Over { unnester, lifted, schema, scopes, is_set: false, scope: None, known: vec![] }
    }

    pub fn for_set(self, is_set: bool) -> Over<'a> {
        Over { is_set, ..self }
    }

    /// Converts an expression over the input to one over the lifted plan. Its references are bound, and its subqueries
    /// are replaced by columns or values.
    pub fn expression(&mut self, expression: Expr) -> Result<Expr> {
        let replaced = expression.transform_up(|e| match e {
            Expr::Column(column) => {
                let at = self.schema.index_of_column(&column)?;
                let value = self.lifted.output.get(at).cloned();
                value.map(Transformed::yes).ok_or_else(|| DataFusionError::Internal(format!("no column {column}")))
            }
            Expr::OuterReferenceColumn(field, column) if !is_bound(&column) => {
                let reference = self.scopes.bound(field.data_type(), column, &self.unnester.retyped)?;
                Ok(Transformed::yes(reference))
            }
            e if subquery_of(&e).is_some() => Ok(Transformed::yes(self.value(e)?)),
            e => Ok(Transformed::no(e)),
        })?;
        Ok(replaced.data)
    }

    pub fn expressions(&mut self, expressions: Vec<Expr>) -> Result<Vec<Expr>> {
        expressions.into_iter().map(|e| self.expression(e)).collect()
    }

    /// Keeps the rows for which the conditions are true. Conditions without subqueries come first.
    pub fn filter(&mut self, conditions: Vec<Expr>) -> Result<()> {
        let (with, without): (Vec<_>, Vec<_>) = conditions.into_iter().partition(has_subquery);
        let without = self.expressions(without)?;
        self.lifted.keep(without)?;
        let mut values = vec![];
        for condition in with {
            values.extend(self.condition(condition)?);
        }
        self.lifted.keep(values)
    }

    /// Applies a condition of a filter: as a semi or anti join, or by returning the condition that is left to apply.
    fn condition(&mut self, condition: Expr) -> Result<Option<Expr>> {
        let (condition, negated) = match condition {
            Expr::Not(inner) => (*inner, true),
            other => (other, false),
        };
        match condition {
            Expr::Exists(node) => {
                let sub = self.existing(node.subquery)?;
                self.keep_existing(sub, negated != node.negated)
            }
            Expr::InSubquery(node) => {
                let (comparison, inner) = Comparison::of_in(self, node)?;
                self.keep_compared(comparison, negated != inner)
            }
            Expr::SetComparison(node) => {
                let (comparison, inner) = Comparison::of_quantified(self, node)?;
                self.keep_compared(comparison, negated != inner)
            }
            other => {
                let value = self.expression(other)?;
                Ok(Some(if negated { not(value) } else { value }))
            }
        }
    }

    /// The column or expression that replaces a subquery.
    fn value(&mut self, subquery: Expr) -> Result<Expr> {
        if let Some((_, value)) = self.known.iter().find(|(known, _)| *known == subquery) {
            return Ok(value.clone());
        }
        let value = match subquery.clone() {
            Expr::Exists(Exists { subquery, negated }) => {
                let sub = self.existing(subquery)?;
                let mark = self.exists(sub)?;
                if negated { not(mark) } else { mark }
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let subquery = self.sub(subquery, true)?;
                let mark = self.any(Comparison { value: *expr, operator: Operator::Eq, subquery })?;
                if negated { not(mark) } else { mark }
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
                let negated = quantifier == SetQuantifier::All;
                let operator = Comparison::operator(op, negated)?;
                let subquery = self.sub(subquery, true)?;
                let mark = self.any(Comparison { value: *expr, operator, subquery })?;
                if negated { not(mark) } else { mark }
            }
            Expr::ScalarSubquery(subquery) => {
                let sub = self.sub(subquery, false)?;
                self.scalar(sub)?
            }
            other => other,
        };
        self.known.push((subquery, value.clone()));
        Ok(value)
    }

    /// Lifts a subquery, which may use columns of the input and of outer queries. With `is_set`, only its distinct rows
    /// matter.
    pub fn sub(&mut self, subquery: Subquery, is_set: bool) -> Result<Lifted> {
        self.sub_of(Arc::unwrap_or_clone(subquery.subquery), is_set)
    }

    /// Lifts a subquery of which only matters whether it returns a row.
    fn existing(&mut self, subquery: Subquery) -> Result<Lifted> {
        let mut sub = self.sub_of(without_limit(Arc::unwrap_or_clone(subquery.subquery))?, true)?;
        sub.output.clear();
        sub.empty = sub.empty.map(|_| vec![]);
        Ok(sub)
    }

    fn sub_of(&mut self, plan: LogicalPlan, is_set: bool) -> Result<Lifted> {
        let scope = self.scope()?;
        let plan = if is_set { without_order(plan) } else { plan };
        let sub = self.unnester.lift(plan, &self.scopes.with(scope.clone()), is_set)?;
        let depends = !sub.references().is_empty();
        if depends && (is_volatile(&sub.plan) || sub.has_volatile() && !sub.is_one_row()) {
            return Err(volatile());
        }
        // An uncorrelated subquery with a volatile function is evaluated once, not per row.
        let sub = if depends || !sub.has_volatile() { sub } else { sub.with_columns(self.unnester)? };
        if sub.is_one_row() { Ok(sub) } else { sub.renamed(self.unnester, self.lifted.plan.schema()) }
    }

    /// The input as an outer query of its subqueries. Its columns are first made independent of the queries around it.
    pub fn scope(&mut self) -> Result<Arc<Scope>> {
        if let Some(scope) = &self.scope {
            return Ok(scope.clone());
        }
        self.unnester.complete(&mut self.lifted, self.scopes)?;
        if self.lifted.output.iter().any(is_open) {
            let mut output = std::mem::take(&mut self.lifted.output);
            self.unnester.bind(&mut self.lifted, &mut output, self.scopes)?;
            self.lifted.output = output;
        }
        let scope = Arc::new(Scope {
            id: self.unnester.name("outer"),
            schema: self.schema.clone(),
            plan: self.lifted.plan.clone(),
            output: self.lifted.output.clone(),
        });
        self.scope = Some(scope.clone());
        Ok(scope)
    }

    /// Replaces outer references in expressions by columns of the plan.
    pub fn place(&mut self, expressions: &mut [Expr]) -> Result<()> {
        self.fill(expressions)?;
        self.unnester.bind(&mut self.lifted, expressions, self.scopes)
    }

    /// Replaces references to this input by columns of the plan.
    fn fill(&self, expressions: &mut [Expr]) -> Result<()> {
        let Some(scope) = &self.scope else { return Ok(()) };
        for e in expressions {
            *e = filled(std::mem::take(e), &scope.id, &scope.output)?;
        }
        Ok(())
    }

    pub fn join(&mut self, right: LogicalPlan, mut on: Vec<Expr>, join_type: JoinType) -> Result<()> {
        self.place(&mut on)?;
        self.lifted.plan = join(self.lifted.plan.clone(), right, on, join_type)?;
        Ok(())
    }

    /// Adds a column that says whether a row of the subquery matches (a mark join).
    pub fn mark(&mut self, right: LogicalPlan, on: Vec<Expr>) -> Result<Expr> {
        self.join(right, on, JoinType::LeftMark)?;
        let schema = self.lifted.plan.schema();
        Ok(column(schema, schema.fields().len() - 1))
    }

    /// Keeps the rows for which a subquery returns rows, or with `negated`, those for which it returns none.
    fn keep_existing(&mut self, sub: Lifted, negated: bool) -> Result<Option<Expr>> {
        if sub.empty.is_some() || sub.is_one_row() || sub.conditions.is_empty() {
            let mark = self.exists(sub)?;
            return Ok(Some(if negated { not(mark) } else { mark }));
        }
        self.semi(sub.plan, sub.conditions, negated)?;
        Ok(None)
    }

    /// Keeps the rows that have a match, or with `negated`, those that have none.
    pub fn semi(&mut self, right: LogicalPlan, mut on: Vec<Expr>, negated: bool) -> Result<()> {
        self.fill(&mut on)?;
        if self.is_set && !negated && on.iter().any(is_open) {
            // Rows may be repeated here, so an inner join can be used. Conditions on queries further out are left to
            // those queries.
            let (open, closed) = on.into_iter().partition(is_open);
            self.lifted.plan = join(self.lifted.plan.clone(), right, closed, JoinType::Inner)?;
            return self.lifted.keep(open);
        }
        self.join(right, on, if negated { JoinType::LeftAnti } else { JoinType::LeftSemi })
    }

    /// Whether a subquery returns a row.
    fn exists(&mut self, sub: Lifted) -> Result<Expr> {
        if sub.empty.is_some() {
            return Ok(lit(true));
        }
        if sub.is_one_row() {
            return Ok(self.condition_of(sub.conditions)?.map_or(lit(true), Expr::is_true));
        }
        if sub.conditions.is_empty() {
            let fetch = Some(Box::new(lit(1i64)));
            let one = LogicalPlan::Limit(Limit { skip: None, fetch, input: Arc::new(sub.plan) });
            return Ok(self.aggregated(one, count_rows())?.gt(lit(0i64)));
        }
        self.mark(sub.plan, sub.conditions)
    }

    /// The value of an aggregate over a plan without outer references.
    pub fn aggregated(&mut self, plan: LogicalPlan, value: Expr) -> Result<Expr> {
        self.once(LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(plan), vec![], vec![value])?))
    }

    /// The value of a plan with one row and without outer references.
    pub fn once(&mut self, plan: LogicalPlan) -> Result<Expr> {
        if stays_alone(&plan) {
            return Ok(alone(plan));
        }
        let sub = Lifted::of(plan).renamed(self.unnester, self.lifted.plan.schema())?;
        self.join(sub.plan, vec![], JoinType::Left)?;
        first(&sub.output)
    }

    /// A conjunction of conditions that use only outer references.
    fn condition_of(&mut self, mut conditions: Vec<Expr>) -> Result<Option<Expr>> {
        self.place(&mut conditions)?;
        Ok(conjunction(conditions))
    }

    /// The value of a scalar subquery.
    fn scalar(&mut self, mut sub: Lifted) -> Result<Expr> {
        sub.output.truncate(1);
        if sub.is_one_row() && sub.empty.is_none() {
            self.place(&mut sub.output)?;
            let value = first(&sub.output)?;
            return match self.condition_of(sub.conditions)? {
                Some(condition) => {
                    when(condition, value.clone()).otherwise(null_of(&value, self.lifted.plan.schema())?)
                }
                None => Ok(value),
            };
        }
        if sub.is_closed() && stays_alone(&sub.plan) {
            let plan = project(sub.plan, sub.output)?;
            return nullable(plan).map(alone);
        }
        if sub.is_single || sub.empty.is_some() {
            return self.joined_value(sub);
        }
        let scopes = self.scopes.with(self.scope()?);
        let keys = self.unnester.settle(&mut sub, &mut [], &scopes)?;
        let values = vec![first_value(first(&sub.output)?, vec![]), count_rows()];
        let grouped = self.unnester.grouped(sub.plan, keys, vec![], values)?;
        let conditions = grouped.keys.iter().map(Key::condition).collect();
        let sub = Lifted { plan: grouped.plan, output: grouped.output, conditions, empty: None, is_single: true };
        let sub = sub.renamed(self.unnester, self.lifted.plan.schema())?;
        let [value, rows] = sub.output.as_slice() else { return Err(no_column()) };
        let value = single(value.clone(), rows.clone());
        self.join(sub.plan, sub.conditions, JoinType::Left)?;
        Ok(value)
    }

    /// The value of a subquery that returns at most one row per outer row.
    pub fn joined_value(&mut self, mut sub: Lifted) -> Result<Expr> {
        sub.output.truncate(1);
        sub.empty.iter_mut().for_each(|empty| empty.truncate(1));
        first(&self.joined_values(sub)?)
    }

    /// Joins a subquery that returns at most one row per outer row, and returns its columns. Without a match they are
    /// NULL, or the values of `empty`.
    pub fn joined_values(&mut self, mut sub: Lifted) -> Result<Vec<Expr>> {
        let mut presence = None;
        if sub.needs_presence() {
            let (with, here) = sub.with_presence(self.unnester)?;
            (sub, presence) = (with, Some(here));
        }
        let mut all = std::mem::take(&mut sub.conditions);
        let (conditions, width) = (all.len(), sub.output.len());
        all.append(&mut sub.output);
        all.extend(sub.empty.iter().flatten().cloned());
        self.place(&mut all)?;
        sub.output = all.split_off(conditions);
        let empty = sub.output.split_off(width);
        sub.empty = sub.empty.map(|_| empty);
        self.join(sub.plan.clone(), all, JoinType::Left)?;
        sub.output_or_empty(presence.as_ref(), self.lifted.plan.schema())
    }
}

fn first(output: &[Expr]) -> Result<Expr> {
    output.first().cloned().ok_or_else(no_column)
}

pub(super) fn no_column() -> DataFusionError {
    DataFusionError::Plan("a subquery used as an expression needs a column".into())
}

/// The maximum nesting of scalar subqueries that remain in the plan, because DataFusion's rules take twice as long per
/// level. Those further inside are joined.
const HEIGHT_MAX: usize = 3;

/// Whether a scalar subquery is evaluated once, before the query. One that reads the rows of a recursive query's step is not:
/// its value is another one in each step.
fn stays_alone(plan: &LogicalPlan) -> bool {
    height(plan) < HEIGHT_MAX && !reads_outer_step(plan)
}

/// The nesting depth of scalar subqueries in a plan.
fn height(plan: &LogicalPlan) -> usize {
    let mut most = 0;
    let seen = plan.apply(|node| {
        node.apply_expressions(|e| {
            e.apply(|e| {
                if let Expr::ScalarSubquery(subquery) = e {
                    most = most.max(1 + height(&subquery.subquery));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    debug_assert!(seen.is_ok());
    most
}

/// A scalar subquery without outer references.
fn alone(plan: LogicalPlan) -> Expr {
    Expr::ScalarSubquery(Subquery { subquery: Arc::new(plan), outer_ref_columns: vec![], spans: Default::default() })
}

/// A subquery of which only the distinct rows matter, without ORDER BY and DISTINCT.
fn without_order(plan: LogicalPlan) -> LogicalPlan {
    match plan {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => without_order(Arc::unwrap_or_clone(sort.input)),
        LogicalPlan::Distinct(Distinct::All(input)) => without_order(Arc::unwrap_or_clone(input)),
        other => other,
    }
}

/// A subquery of which only matters whether it returns a row, without a LIMIT that does not change this.
fn without_limit(plan: LogicalPlan) -> Result<LogicalPlan> {
    match without_order(plan) {
        LogicalPlan::Limit(limit) => {
            let none = matches!(limit.get_skip_type()?, SkipType::Literal(0));
            let some = match limit.get_fetch_type()? {
                FetchType::Literal(n) => n != Some(0),
                FetchType::UnsupportedExpr => false,
            };
            if none && some { without_limit(Arc::unwrap_or_clone(limit.input)) } else { Ok(LogicalPlan::Limit(limit)) }
        }
        other => Ok(other),
    }
}
