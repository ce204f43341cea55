//! Chains of operators between two operands.

use datafusion_expr::{BinaryExpr, Expr, Like, Operator};
use freestone_sql::tree::{self, BinaryOperator, Link};

use crate::binder::Binder;
use crate::error::{At, Result};

/// Longer chains of AND and OR become balanced trees, because plans are visited recursively.
const FLAT_MAX: usize = 64;

impl Binder<'_> {
    /// `a + b - c`: operators from left to right.
    pub fn chain(&mut self, first: &tree::Expr, rest: &[Link]) -> Result<Expr> {
        let operator = rest.first().map(|link| link.operator);
        let is_logic = matches!(operator, Some(BinaryOperator::And | BinaryOperator::Or));
        if is_logic && rest.len() > FLAT_MAX {
            return self.balanced(first, rest, operator == Some(BinaryOperator::And));
        }
        self.linked(rest.len(), first.span, |binder| {
            let mut left = binder.expression(first)?;
            for link in rest {
                let mut operands = [left, binder.expression(&link.operand)?];
                if is_comparison(link.operator) {
                    binder.collate_operands(&mut operands, link.span)?;
                    binder.with_numbers_for_booleans(&mut operands);
                }
                if is_match(link.operator) {
                    binder.collate_operands(&mut operands, link.span)?;
                }
                let given = if binder.has_collations { operands.to_vec() } else { vec![] };
                let [one, other] = operands;
                left = binder.operator(link.operator, one, other, link)?;
                if link.operator == BinaryOperator::Concat {
                    left = binder.of_collated(left, &given, link.span)?;
                }
            }
            Ok(left)
        })
    }

    fn balanced(&mut self, first: &tree::Expr, rest: &[Link], is_and: bool) -> Result<Expr> {
        let mut terms = Vec::with_capacity(rest.len() + 1);
        terms.push(self.expression(first)?);
        for link in rest {
            terms.push(self.expression(&link.operand)?);
        }
        let operator = if is_and { Operator::And } else { Operator::Or };
        while terms.len() > 1 {
            let mut pairs = Vec::with_capacity(terms.len().div_ceil(2));
            let mut all = terms.into_iter();
            while let Some(left) = all.next() {
                pairs.push(match all.next() {
                    Some(right) => plain(operator, left, right),
                    None => left,
                });
            }
            terms = pairs;
        }
        Ok(terms.pop().unwrap_or_default())
    }

    fn operator(&mut self, operator: BinaryOperator, left: Expr, right: Expr, link: &Link) -> Result<Expr> {
        let like = |negated, no_case| {
            let (expr, pattern) = (Box::new(left.clone()), Box::new(right.clone()));
            Expr::Like(Like { negated, expr, pattern, escape_char: None, case_insensitive: no_case })
        };
        match operator {
            BinaryOperator::And => Ok(plain(Operator::And, left, right)),
            BinaryOperator::Or => Ok(plain(Operator::Or, left, right)),
            BinaryOperator::IsDistinctFrom => Ok(plain(Operator::IsDistinctFrom, left, right)),
            BinaryOperator::IsNotDistinctFrom => Ok(plain(Operator::IsNotDistinctFrom, left, right)),
            BinaryOperator::Like => Ok(like(false, false)),
            BinaryOperator::ILike => Ok(like(false, true)),
            BinaryOperator::NotLike => Ok(like(true, false)),
            BinaryOperator::NotILike => Ok(like(true, true)),
            BinaryOperator::Power => self.scalar_call("power", vec![left, right], link.span),
            BinaryOperator::StartsWith => self.scalar_call("starts_with", vec![left, right], link.span),
            BinaryOperator::Distance => self.scalar_call("list_distance", vec![left, right], link.span),
            BinaryOperator::CosineDistance => self.scalar_call("cosine_distance", vec![left, right], link.span),
            other => {
                let schema = self.schema();
                self.world.functions.binary(other, left, right, &schema).at(link.span)
            }
        }
    }
}

/// Whether an operator compares its operands.
pub(crate) fn is_comparison(operator: BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// Whether an operator compares a text with a pattern or a part.
fn is_match(operator: BinaryOperator) -> bool {
    use BinaryOperator::{ILike, Like, NotILike, NotLike, StartsWith};
    matches!(operator, Like | ILike | NotLike | NotILike | StartsWith)
}

/// DataFusion's operator between two values.
pub(crate) fn plain(operator: Operator, left: Expr, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), operator, Box::new(right)))
}

/// All conditions together; `None` of none.
pub(crate) fn conjunction(conditions: impl IntoIterator<Item = Expr>) -> Option<Expr> {
    conditions.into_iter().reduce(|left, right| plain(Operator::And, left, right))
}
