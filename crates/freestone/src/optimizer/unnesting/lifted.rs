//! A part of a plan, converted so that it is evaluated once for all rows of its outer queries.

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
    /// A plan without outer references.
    pub plan: LogicalPlan,
    /// The columns of the original part, as expressions over columns of `plan` and outer references.
    pub output: Vec<Expr>,
    /// Conditions over columns of `plan` and outer references; each has at least one outer reference. A row belongs to
    /// an outer row if all conditions are true.
    pub conditions: Vec<Expr>,
    /// If present, the original part returns exactly one row per outer row: without a row in `plan`, its columns are
    /// these expressions over outer references. An example is an aggregate without GROUP BY.
    pub empty: Option<Vec<Expr>>,
    /// At most one row belongs to an outer row.
    pub is_single: bool,
}

impl Lifted {
    /// A plan without outer references.
    pub fn of(plan: LogicalPlan) -> Lifted {
        let output = columns(plan.schema());
        let is_single = matches!(&plan, LogicalPlan::EmptyRelation(_));
        Lifted { plan, output, conditions: vec![], empty: None, is_single }
    }

    /// Whether nothing in it uses outer references.
    pub fn is_closed(&self) -> bool {
        self.conditions.is_empty() && self.empty.is_none() && !self.output.iter().any(is_open)
    }

    pub fn references(&self) -> Vec<Expr> {
        references(self.conditions.iter().chain(&self.output).chain(self.empty.iter().flatten()))
    }

    /// Whether the plan is one row without columns, as in a SELECT without FROM.
    pub fn is_one_row(&self) -> bool {
        matches!(&self.plan, LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, .. }))
    }

    /// Whether an output or condition calls a volatile function. (The plan itself may do so, too.)
    pub fn has_volatile(&self) -> bool {
        self.conditions.iter().chain(&self.output).any(is_volatile_expression)
    }

    /// The plan with the names of a schema. It must be closed.
    pub fn under(self, schema: &DFSchema) -> Result<LogicalPlan> {
        let unchanged = self.plan.schema().fields().len() == schema.fields().len()
            && self.output == columns(schema)
            && self.output == columns(self.plan.schema());
        if unchanged { Ok(self.plan) } else { project_as(self.plan, self.output, schema) }
    }

    /// Keeps the rows for which all conditions are true.
    pub fn keep(&mut self, conditions: Vec<Expr>) -> Result<()> {
        let (open, closed): (Vec<_>, Vec<_>) = conditions.into_iter().partition(is_open);
        self.plan = filter(self.plan.clone(), closed)?;
        self.conditions.extend(open);
        Ok(())
    }

    /// Changes all outputs, conditions and `empty` expressions.
    pub fn map(&mut self, change: impl Fn(Expr) -> Result<Expr>) -> Result<()> {
        for e in self.output.iter_mut().chain(&mut self.conditions).chain(self.empty.iter_mut().flatten()) {
            *e = change(std::mem::take(e))?;
        }
        Ok(())
    }

    /// Renames the columns of the plan, so that it can be joined with a plan of the schema `other`.
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

    /// Sets the output to expressions over the plan. Those without outer references become columns of the plan.
    pub fn projected(mut self, unnester: &Unnester, output: Vec<Expr>) -> Result<Lifted> {
        self.output = output;
        let computed = |e: &Expr| !is_open(e) && !matches!(e, Expr::Column(_) | Expr::Literal(..));
        if self.output.iter().any(computed) { self.computed(unnester, computed) } else { Ok(self) }
    }

    /// Makes each output without outer references a column of the plan. Above an outer join, it is then NULL where the
    /// row is missing.
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

    /// Adds a column that is true in every row, and so is NULL above an outer join where the row is missing.
    pub fn with_presence(mut self, unnester: &Unnester) -> Result<(Lifted, Expr)> {
        let name = unnester.name("here");
        self.plan = with_column(self.plan, lit(true), &name)?;
        Ok((self, super::expressions::plain(name)))
    }

    /// The output above an outer join. Its outer references must be replaced before. `presence` is the column of
    /// [`Self::with_presence`], if [`Self::needs_presence`].
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

    /// Whether the value has the required result above an outer join where the row is missing: the result is NULL, and
    /// the value is a column.
    fn is_null_where_missing(&self, value: &Expr, empty: Option<&Expr>) -> bool {
        let is_own = |column: &Column| self.plan.schema().maybe_index_of_column(column).is_some();
        matches!(value, Expr::Column(column) if is_own(column)) && empty.is_none_or(is_null)
    }

    /// Replaces expressions by others, as in [`exchanged`].
    pub fn exchange(&mut self, pairs: &[(Expr, Expr)]) -> Result<()> {
        self.map(|e| exchanged(e, pairs))
    }
}

/// The expression with each occurrence of the first of a pair replaced by the second.
pub(super) fn exchanged(expression: Expr, pairs: &[(Expr, Expr)]) -> Result<Expr> {
    replace(expression, |e| pairs.iter().find(|(old, _)| old == e).map(|(_, new)| new.clone()))
}
