//! A part of a plan that is evaluated for all rows of its outer queries at once.

use std::sync::Arc;

use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::{EmptyRelation, Expr, LogicalPlan, SubqueryAlias, lit, when};

use super::Unnester;
use super::expressions::{columns, filter, is_null, null_of, project, project_as, substitute, with_column};
use super::scopes::{is_open, is_volatile_expression, references, replace};

/// A plan, and the conditions under which its rows belong to a row of the outer query.
#[derive(Clone)]
pub(super) struct Lifted {
    /// Depends on nothing.
    pub plan: LogicalPlan,
    /// The columns of the represented part, over the plan's columns and outer references.
    pub output: Vec<Expr>,
    /// Conditions over the plan's columns and outer references, each with at least one of the latter. A row belongs to
    /// an outer row for which all are true.
    pub conditions: Vec<Expr>,
    /// If present, there is exactly one row for each outer row: if the plan has none, these are its columns, over outer
    /// references.
    pub empty: Option<Vec<Expr>>,
    /// There is at most one row for each outer row.
    pub is_single: bool,
}

impl Lifted {
    /// What depends on nothing.
    pub fn of(plan: LogicalPlan) -> Lifted {
        let output = columns(plan.schema());
        let is_single = matches!(&plan, LogicalPlan::EmptyRelation(_));
        Lifted { plan, output, conditions: vec![], empty: None, is_single }
    }

    /// Whether the plan with its output is all.
    pub fn is_closed(&self) -> bool {
        self.conditions.is_empty() && self.empty.is_none() && !self.output.iter().any(is_open)
    }

    pub fn references(&self) -> Vec<Expr> {
        references(self.conditions.iter().chain(&self.output).chain(self.empty.iter().flatten()))
    }

    /// One row without a table.
    pub fn is_one_row(&self) -> bool {
        matches!(&self.plan, LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, .. }))
    }

    /// Whether an expression over it may give another value each time. (Its plan may be volatile, too.)
    pub fn has_volatile(&self) -> bool {
        self.conditions.iter().chain(&self.output).any(is_volatile_expression)
    }

    /// The plan under the names of a schema; it must be closed.
    pub fn under(self, schema: &DFSchema) -> Result<LogicalPlan> {
        let unchanged = self.plan.schema().fields().len() == schema.fields().len()
            && self.output == columns(schema)
            && self.output == columns(self.plan.schema());
        if unchanged { Ok(self.plan) } else { project_as(self.plan, self.output, schema) }
    }

    /// Keeps the rows for which all of these are true.
    pub fn keep(&mut self, conditions: Vec<Expr>) -> Result<()> {
        let (open, closed): (Vec<_>, Vec<_>) = conditions.into_iter().partition(is_open);
        self.plan = filter(self.plan.clone(), closed)?;
        self.conditions.extend(open);
        Ok(())
    }

    /// All expressions over the plan changed.
    pub fn map(&mut self, change: impl Fn(Expr) -> Result<Expr>) -> Result<()> {
        for e in self.output.iter_mut().chain(&mut self.conditions).chain(self.empty.iter_mut().flatten()) {
            *e = change(std::mem::take(e))?;
        }
        Ok(())
    }

    /// The plan with names of columns that a plan with this schema, which it is joined with, does not have.
    pub fn renamed(mut self, unnester: &Unnester, other: &DFSchema) -> Result<Lifted> {
        let old = self.plan.schema().clone();
        let alias = unnester.name("sq");
        let is_bare = |name: &String| other.iter().any(|(q, field)| q.is_none() && field.name() == name);
        self.plan = if old.fields().iter().any(|field| is_bare(field.name())) {
            let names = columns(&old)
                .into_iter()
                .enumerate()
                .map(|(at, e)| e.alias_qualified(Some(alias.clone()), format!("{alias}_{at}")));
            project(self.plan, names.collect())?
        } else {
            LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(self.plan), alias)?)
        };
        let new = columns(self.plan.schema());
        self.map(|e| substitute(e, &old, &new))?;
        Ok(self)
    }

    /// Its output as these expressions over its plan. What can be computed without an outer row becomes a column.
    pub fn projected(mut self, unnester: &Unnester, output: Vec<Expr>) -> Result<Lifted> {
        self.output = output;
        let computed = |e: &Expr| !is_open(e) && !matches!(e, Expr::Column(_) | Expr::Literal(..));
        if self.output.iter().any(computed) { self.computed(unnester, computed) } else { Ok(self) }
    }

    /// Every output that is open by nothing is a column: above an outer join it is NULL where its row is missing.
    pub fn with_columns(self, unnester: &Unnester) -> Result<Lifted> {
        let computed = |e: &Expr| !is_open(e) && !matches!(e, Expr::Column(_));
        if self.output.iter().any(computed) { self.computed(unnester, computed) } else { Ok(self) }
    }

    fn computed(mut self, unnester: &Unnester, which: impl Fn(&Expr) -> bool) -> Result<Lifted> {
        let mut kept: Vec<Column> = vec![];
        let others = self.output.iter().filter(|e| !which(e)).chain(&self.conditions);
        for column in others.flat_map(|e| e.column_refs()) {
            if !kept.contains(column) {
                kept.push(column.clone());
            }
        }
        let mut expressions: Vec<Expr> = kept.into_iter().map(Expr::Column).collect();
        for e in &mut self.output {
            if which(e) {
                let name = unnester.name("v");
                let value = std::mem::replace(e, super::expressions::plain(name.clone()));
                expressions.push(value.unalias().alias(name));
            }
        }
        self.plan = project(self.plan, expressions)?;
        Ok(self)
    }

    /// A column that is true in every row: it is NULL where an outer join finds none.
    pub fn with_presence(mut self, unnester: &Unnester) -> Result<(Lifted, Expr)> {
        let name = unnester.name("here");
        self.plan = with_column(self.plan, lit(true), &name)?;
        Ok((self, super::expressions::plain(name)))
    }

    /// Its output above an outer join that has NULLs where it has no row. References must be filled; `presence` is needed where
    /// [`Self::needs_presence`] says so.
    pub fn output_or_empty(&self, presence: Option<&Expr>, schema: &DFSchema) -> Result<Vec<Expr>> {
        let mut all = vec![];
        for (at, value) in self.output.iter().enumerate() {
            let empty = self.empty.as_ref().map(|empty| empty[at].clone());
            all.push(match presence {
                Some(presence) if !self.is_null_where_missing(value, empty.as_ref()) => {
                    let empty = match empty {
                        Some(empty) if !is_null(&empty) => empty,
                        _ => null_of(value, schema)?,
                    };
                    when(presence.clone().is_null(), empty).otherwise(value.clone())?
                }
                _ => value.clone(),
            });
        }
        Ok(all)
    }

    pub fn needs_presence(&self) -> bool {
        let empty = |at: usize| self.empty.as_ref().map(|empty| &empty[at]);
        self.output.iter().enumerate().any(|(at, value)| !self.is_null_where_missing(value, empty(at)))
    }

    /// Whether an outer join makes the value what it has to be.
    fn is_null_where_missing(&self, value: &Expr, empty: Option<&Expr>) -> bool {
        let is_own = |column: &Column| self.plan.schema().maybe_index_of_column(column).is_some();
        matches!(value, Expr::Column(column) if is_own(column)) && empty.is_none_or(is_null)
    }

    /// Substitutes expressions over the plan for others, in all but the conditions given.
    pub fn exchange(&mut self, pairs: &[(Expr, Expr)]) -> Result<()> {
        self.map(|e| exchanged(e, pairs))
    }
}

/// Expressions with parts of them exchanged.
pub(super) fn exchanged(expression: Expr, pairs: &[(Expr, Expr)]) -> Result<Expr> {
    replace(expression, |e| pairs.iter().find(|(old, _)| old == e).map(|(_, new)| new.clone()))
}
