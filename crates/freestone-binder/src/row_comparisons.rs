//! Rows that are compared with the rows of a query: `(a, b) < ANY (SELECT x, y …)`.
//!
//! The comparison of both rows is a column of the query, and the result is whether it is true for any or all of its rows. Rows are
//! equal or not as their fields are: NULL is unknown, unless another field decides. They are ordered as structs are, of which NULL
//! is the largest field.

use datafusion_common::tree_node::TreeNode;
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::expr::{SetComparison, SetQuantifier};
use datafusion_expr::{Expr, Operator};
use freestone_sql::Span;
use freestone_sql::tree::{self, BinaryOperator, Query};

use crate::binder::Binder;
use crate::chains::plain;
use crate::error::{At, Result, invalid, unsupported};
use crate::full_joins::has_subquery;
use crate::plans;
use crate::subqueries::subquery;

impl Binder<'_> {
    /// `(a, b) < ANY (…)`, `(a, b) = ALL (…)`.
    pub fn rows_quantified(
        &mut self,
        operands: &[tree::Expr],
        operator: BinaryOperator,
        all: bool,
        query: &Query,
        span: Span,
    ) -> Result<Expr> {
        let mut values = vec![];
        for operand in operands {
            let value = self.expression(operand)?;
            if has_subquery(&value) || has_call_over_rows(&value) {
                return Err(unsupported(
                    operand.span,
                    "a subquery, an aggregate or a window in a row before ANY and ALL",
                )
                .with_hint("compute it in a subquery of FROM"));
            }
            values.push(value);
        }
        let rows = self.query(query)?;
        let (found, wanted) = (rows.plan.schema().fields().len(), values.len());
        if found != wanted {
            return Err(invalid(span, format!("the subquery has {found} columns, and the row before it {wanted}")));
        }
        let rows = self.collate_columns(&mut values, rows.plan, span)?;
        let schema = rows.schema().clone();
        let values = values.into_iter().map(|value| self.scope().outer(value).at(span)).collect::<Result<Vec<_>>>()?;
        let pairs = values.into_iter().zip(plans::columns(&schema)).collect();
        let compared = self.rows_compared(operator, pairs, &schema, span)?;
        let plan = plans::project(rows, vec![compared.alias("compared")]).at(span)?;
        let quantifier = if all { SetQuantifier::All } else { SetQuantifier::Any };
        let expr = Box::new(Expr::Literal(ScalarValue::Boolean(Some(true)), None));
        Ok(Expr::SetComparison(SetComparison { expr, subquery: subquery(plan), op: Operator::Eq, quantifier }))
    }

    /// A comparison of two rows, given by their fields.
    fn rows_compared(
        &mut self,
        operator: BinaryOperator,
        pairs: Vec<(Expr, Expr)>,
        schema: &DFSchema,
        span: Span,
    ) -> Result<Expr> {
        let link = match operator {
            BinaryOperator::Eq => Operator::And,
            BinaryOperator::NotEq => Operator::Or,
            _ => {
                let (one, other) = pairs.into_iter().unzip();
                let (one, other) = (self.scalar_call("struct", one, span)?, self.scalar_call("struct", other, span)?);
                return self.world.functions.binary(operator, one, other, schema).at(span);
            }
        };
        let mut compared: Option<Expr> = None;
        for (one, other) in pairs {
            let field = self.world.functions.binary(operator, one, other, schema).at(span)?;
            compared = Some(match compared {
                Some(compared) => plain(link, compared, field),
                None => field,
            });
        }
        compared.ok_or_else(|| invalid(span, "a row that is compared has a field"))
    }
}

/// Whether a value calls an aggregate or a function of a window.
fn has_call_over_rows(value: &Expr) -> bool {
    value.exists(|part| Ok(matches!(part, Expr::AggregateFunction(_) | Expr::WindowFunction(_)))).unwrap_or(true)
}
