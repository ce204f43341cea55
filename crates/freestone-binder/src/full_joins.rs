//! FULL JOIN whose condition has subqueries: the rows of a LEFT JOIN, and those of the right side that meet none of the left.
//! Both read both sides, which therefore have to give the same rows again.

use std::sync::Arc;

use datafusion_common::tree_node::TreeNode;
use datafusion_common::{JoinConstraint, JoinType, NullEquality, ScalarValue};
use datafusion_expr::{Cast, Expr, Join, LogicalPlan, LogicalPlanBuilder};
use freestone_sql::Span;
use freestone_sql::tree::JoinKind;

use crate::binder::{Binder, reads_anew};
use crate::error::{At, Result, unsupported};
use crate::plans;
use crate::tables::From;

impl Binder<'_> {
    /// `a FULL JOIN b ON …`, where the condition has subqueries.
    pub fn full_join_by_subquery(&mut self, left: From, right: From, condition: Expr, span: Span) -> Result<From> {
        if reads_anew(&left.plan).at(span)? || reads_anew(&right.plan).at(span)? || condition.is_volatile() {
            return Err(unsupported(span, "a FULL JOIN of values that differ per call, with a subquery in ON"));
        }
        let (kind, nulls) = (JoinType::RightAnti, NullEquality::NullEqualsNothing);
        let (one, other) = (Arc::new(left.plan.clone()), Arc::new(right.plan.clone()));
        let filter = Some(condition.clone());
        let unmatched = Join::try_new(one, other, vec![], filter, kind, JoinConstraint::On, nulls, false).at(span)?;
        let types = left.plan.schema().fields().iter().map(|field| field.data_type().clone());
        let missing = types.map(|kind| Expr::Cast(Cast::new(Box::new(Expr::Literal(ScalarValue::Null, None)), kind)));
        let values = missing.chain(plans::columns(right.plan.schema())).collect();
        let unmatched = numbered(LogicalPlan::Join(unmatched), values).at(span)?;

        let mut from = self.joined(left, right, JoinKind::Left, Some(condition), vec![], span)?;
        let schema = from.plan.schema().clone();
        let matched = numbered(from.plan, plans::columns(&schema)).at(span)?;
        let plan = LogicalPlanBuilder::from(matched).union(unmatched).at(span)?.build().at(span)?;
        let columns = plans::columns(plan.schema()).into_iter().zip(schema.iter());
        let named =
            columns.map(|(column, (qualifier, field))| column.alias_qualified(qualifier.cloned(), field.name()));
        let named = named.collect();
        from.plan = plans::project(plan, named).at(span)?;
        Ok(from)
    }
}

/// Values under names that are unique.
fn numbered(plan: LogicalPlan, values: Vec<Expr>) -> datafusion_common::Result<LogicalPlan> {
    let values = values.into_iter().enumerate().map(|(at, value)| value.alias(format!("__{at}"))).collect();
    plans::project(plan, values)
}

/// Whether a condition has a subquery.
pub(crate) fn has_subquery(condition: &Expr) -> bool {
    let is_subquery = |part: &Expr| {
        Ok(matches!(part, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_)))
    };
    condition.exists(is_subquery).unwrap_or(true)
}
