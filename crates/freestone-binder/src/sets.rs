//! UNION, EXCEPT and INTERSECT.

use std::sync::Arc;

use datafusion_common::ScalarValue;
use datafusion_expr::{Distinct, Expr, LogicalPlan, LogicalPlanBuilder};
use freestone_sql::Span;
use freestone_sql::tree::{QueryBody, SetLink, SetOperator};

use crate::binder::Binder;
use crate::error::{At, Result, invalid};
use crate::names::named;
use crate::origins::{Known, Origin};
use crate::plans::{self, Rows};

impl Binder<'_> {
    /// `a UNION b EXCEPT c`, from left to right.
    pub fn set_operations(&mut self, first: &QueryBody, rest: &[SetLink], span: Span) -> Result<Rows> {
        self.linked(rest.len(), span, |binder| binder.chained(first, rest, span))
    }

    fn chained(&mut self, first: &QueryBody, rest: &[SetLink], span: Span) -> Result<Rows> {
        let is_noted = self.origins.is_some();
        let mut left = self.body(first, span)?;
        let mut origins = self.origins.take().unwrap_or_default();
        for link in rest {
            self.origins = is_noted.then(Vec::new);
            let right = self.body(&link.operand, link.span)?;
            let (own, names) = (self.origins.take().unwrap_or_default(), right.names.clone());
            left = self.set_operation(left, right, link)?;
            let named = |(at, name): (usize, &String)| Origin { at, known: Known::Name(name.clone()) };
            for origin in names.iter().enumerate().map(named).chain(own) {
                let at = match link.by_name {
                    true => names.get(origin.at).and_then(|name| left.names.iter().position(|own| own == name)),
                    false => Some(origin.at),
                };
                origins.extend(at.filter(|_| is_noted).map(|at| Origin { at, ..origin }));
            }
        }
        self.origins = is_noted.then_some(origins);
        Ok(left)
    }

    /// One operation.
    pub fn set_operation(&mut self, left: Rows, right: Rows, link: &SetLink) -> Result<Rows> {
        let span = link.span;
        let (left, right) = match link.by_name {
            true => by_names(left, right).at(span)?,
            false => (left, right),
        };
        let (width, other) = (left.names.len(), right.names.len());
        if width != other {
            let message = format!("the queries of a set operation have {width} and {other} columns");
            return Err(invalid(span, message).with_hint("write NULL for a column that one does not have, or BY NAME"));
        }
        let collations = self.common_collations(&left, &right, span)?;
        let is_collated = collations.iter().any(Option::is_some);
        let names = left.names;
        let plan = match link.operator {
            SetOperator::Union => {
                let builder = LogicalPlanBuilder::from(left.plan).union(right.plan).at(span)?;
                let plan = builder.build().at(span)?;
                let plan = if is_collated { self.with_collations(plan, &collations, span)? } else { plan };
                match (link.all, is_collated) {
                    (true, _) => plan,
                    (false, true) => self.distinct_by_collation(plan, span)?,
                    (false, false) => LogicalPlan::Distinct(Distinct::All(Arc::new(plan))),
                }
            }
            SetOperator::Except | SetOperator::Intersect if is_collated => {
                let message = "EXCEPT and INTERSECT of texts with a collation are not available";
                return Err(
                    invalid(span, message).with_hint("write WHERE … IN or NOT IN, or select the texts COLLATE C")
                );
            }
            SetOperator::Except => LogicalPlanBuilder::except(left.plan, right.plan, link.all).at(span)?,
            SetOperator::Intersect => LogicalPlanBuilder::intersect(left.plan, right.plan, link.all).at(span)?,
        };
        Ok(Rows { plan, names })
    }
}

/// Both sides with the columns of both, matched by their names: those of the left side, and then the others.
fn by_names(left: Rows, right: Rows) -> datafusion_common::Result<(Rows, Rows)> {
    let new = right.names.iter().filter(|name| !left.names.contains(name));
    let names: Vec<String> = left.names.iter().chain(new).cloned().collect();
    let all = |rows: Rows| {
        let schema = rows.plan.schema().clone();
        let value = |name: &String| match rows.names.iter().position(|own| own == name) {
            Some(at) => Expr::Column(plans::column(&schema, at)),
            None => Expr::Literal(ScalarValue::Null, None),
        };
        let values = names.iter().map(|name| (value(name), name.as_str())).collect();
        plans::project(rows.plan.clone(), named(values)).map(|plan| Rows { plan, names: names.clone() })
    };
    Ok((all(left)?, all(right)?))
}
