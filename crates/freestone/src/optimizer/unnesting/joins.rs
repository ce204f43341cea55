//! Walks through a plan from its leaves and unnests the subqueries of each node.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Aggregate, Expr, Filter, Join, JoinType, LogicalPlan, Projection, Sort, SortExpr, Window,
};

use super::attach::Attached;
use super::expressions::{column, columns, conjuncts, named, only, project, project_as};
use super::push::values_as_union;
use super::scope::{contains_subquery, free, free_in, has_subquery};
use super::{Unnester, refused};

impl Unnester {
    /// The plan without subqueries, but for uncorrelated scalar ones. Nothing in it may depend on another query.
    pub(super) fn unnest(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        if !has_subquery(&plan) {
            return Ok(plan);
        }
        let here = plan.expressions().iter().any(contains_subquery);
        match plan {
            LogicalPlan::Subquery(node) => self.unnest(Arc::unwrap_or_clone(node.subquery)),
            LogicalPlan::Join(node) => self.unnest_join(node),
            LogicalPlan::Values(node) => self.unnest(values_as_union(node)?),
            LogicalPlan::Projection(node) if here => self.unnest_projection(node),
            LogicalPlan::Filter(node) if here => self.unnest_filter(node),
            LogicalPlan::Aggregate(node) if here => self.unnest_aggregate(node),
            LogicalPlan::Window(node) if here => self.unnest_window(node),
            LogicalPlan::Sort(node) if here => self.unnest_sort(node),
            other => {
                let plan = other.map_children(|child| Ok(Transformed::yes(self.unnest(child)?)))?.data;
                plan.recompute_schema()
            }
        }
    }

    fn attached(&self, input: Arc<LogicalPlan>) -> Result<Attached<'_>> {
        Ok(Attached::new(self, self.unnest(Arc::unwrap_or_clone(input))?))
    }

    fn unnest_projection(&self, node: Projection) -> Result<LogicalPlan> {
        let mut attached = self.attached(node.input)?;
        let mut expressions = vec![];
        for (at, e) in node.expr.into_iter().enumerate() {
            expressions.push(if contains_subquery(&e) {
                named(attached.replace(e)?.unalias(), &node.schema, at)
            } else {
                e
            });
        }
        project(attached.plan, expressions)
    }

    fn unnest_filter(&self, node: Filter) -> Result<LogicalPlan> {
        let schema = node.input.schema().clone();
        let attached = self.attached(node.input)?;
        only(attached.filter(conjuncts(Some(node.predicate)))?, &schema)
    }

    fn unnest_aggregate(&self, node: Aggregate) -> Result<LogicalPlan> {
        let mut attached = self.attached(node.input)?;
        let mut replace_all = |expressions: Vec<Expr>| -> Result<Vec<Expr>> {
            expressions.into_iter().map(|e| attached.replace(e)).collect()
        };
        let (group, aggregates) = (replace_all(node.group_expr)?, replace_all(node.aggr_expr)?);
        let aggregate = Aggregate::try_new(Arc::new(attached.plan), group, aggregates)?;
        let output = columns(&aggregate.schema);
        project_as(LogicalPlan::Aggregate(aggregate), output, &node.schema)
    }

    fn unnest_window(&self, node: Window) -> Result<LogicalPlan> {
        let mut output = columns(node.input.schema());
        let mut attached = self.attached(node.input)?;
        let mut expressions = vec![];
        for e in node.window_expr {
            expressions.push(attached.replace(e)?);
        }
        let width = attached.plan.schema().fields().len();
        let window = Window::try_new(expressions, Arc::new(attached.plan))?;
        output.extend((width..window.schema.fields().len()).map(|at| column(&window.schema, at)));
        project_as(LogicalPlan::Window(window), output, &node.schema)
    }

    fn unnest_sort(&self, node: Sort) -> Result<LogicalPlan> {
        let schema = node.input.schema().clone();
        let mut attached = self.attached(node.input)?;
        let mut expr = vec![];
        for by in node.expr {
            expr.push(SortExpr { expr: attached.replace(by.expr)?, ..by });
        }
        only(LogicalPlan::Sort(Sort { expr, input: Arc::new(attached.plan), fetch: node.fetch }), &schema)
    }

    fn unnest_join(&self, node: Join) -> Result<LogicalPlan> {
        if !free(&node.right).is_empty() {
            return self.unnest_lateral(node);
        }
        let schema = node.schema.clone();
        let (with, without): (Vec<_>, Vec<_>) = conjuncts(node.filter).into_iter().partition(contains_subquery);
        let mut left = self.attached(node.left)?;
        let mut right = self.attached(node.right)?;
        let (mut on, mut above) = (without, vec![]);
        for condition in with {
            if node.join_type == JoinType::Inner {
                above.push(condition);
            } else {
                on.push(one_sided(condition, &mut left, &mut right)?);
            }
        }
        let (left, right) = (Arc::new(left.plan), Arc::new(right.plan));
        let (kind, how, nulls) = (node.join_type, node.join_constraint, node.null_equality);
        let join = Join::try_new(left, right, node.on, conjunction(on), kind, how, nulls, node.null_aware)?;
        only(Attached::new(self, LogicalPlan::Join(join)).filter(above)?, &schema)
    }

    /// A join whose right side uses columns of its left side.
    fn unnest_lateral(&self, node: Join) -> Result<LogicalPlan> {
        if !matches!(node.join_type, JoinType::Inner | JoinType::Left) {
            let what = format!("a {} JOIN whose right side uses columns of its left side", node.join_type);
            return Err(DataFusionError::NotImplemented(format!("{what}; write it as a LEFT JOIN")));
        }
        let schema = node.schema.clone();
        let (with, mut on): (Vec<_>, Vec<_>) = conjuncts(node.filter).into_iter().partition(contains_subquery);
        if node.join_type == JoinType::Left && !with.is_empty() {
            return Err(refused("a subquery in ON of a LEFT JOIN LATERAL"));
        }
        let left = self.attached(node.left)?;
        let (right, keys) = left.lateral(Arc::unwrap_or_clone(node.right))?;
        on.extend(keys);
        let (left, right, kind) = (Arc::new(left.plan), Arc::new(right), node.join_type);
        let join = Join::try_new(
            left,
            right,
            node.on,
            conjunction(on),
            kind,
            node.join_constraint,
            node.null_equality,
            false,
        )?;
        let joined = project_as(LogicalPlan::Join(join), columns(&schema), &schema)?;
        only(Attached::new(self, joined).filter(with)?, &schema)
    }
}

/// A condition of an outer join with a subquery, which must read one side only.
fn one_sided(condition: Expr, left: &mut Attached<'_>, right: &mut Attached<'_>) -> Result<Expr> {
    let inputs = [left.plan.schema().clone(), right.plan.schema().clone()];
    let mut used: Vec<_> = condition.column_refs().into_iter().cloned().collect();
    used.extend(outer_columns(&condition));
    debug_assert!(free_in(&condition, &inputs).is_empty());
    if used.iter().all(|column| inputs[0].has_column(column)) {
        left.replace(condition)
    } else if used.iter().all(|column| inputs[1].has_column(column)) {
        right.replace(condition)
    } else {
        let what = "a subquery in ON of an outer join that depends on both sides of the join";
        Err(DataFusionError::NotImplemented(format!("{what}; compute it in a subquery of FROM")))
    }
}

/// What the subqueries of an expression use of the node around them.
fn outer_columns(condition: &Expr) -> Vec<datafusion::common::Column> {
    free_in(condition, &[]).into_iter().map(|(column, _)| column).collect()
}
