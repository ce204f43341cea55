//! ASOF JOIN and POSITIONAL JOIN.
//!
//! `a ASOF JOIN b ON a.k = b.k AND a.t >= b.t` joins each row of `a` with the last row of `b` that is not after it. LEAD
//! gives for each row of `b` the next `t` with the same `k`, and the condition says that `a.t` is before this next value.
//! POSITIONAL JOIN numbers the rows of both sides and is a FULL JOIN by these numbers.

use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::utils::split_conjunction;
use datafusion_expr::{Expr, LogicalPlanBuilder, Operator};
use freestone_sql::Span;
use freestone_sql::tree::{Join, JoinCondition, JoinKind, SortOrder};

use crate::binder::Binder;
use crate::chains::{conjunction, plain};
use crate::error::{At, Result, invalid};
use crate::joins::joined_scope;
use crate::plans;
use crate::tables::From;

/// The parts of an ASOF JOIN's condition: equalities, and the inequality of the left and the right side.
struct Condition {
    equal: Vec<(Expr, Expr)>,
    left: Expr,
    operator: Operator,
    right: Expr,
}

impl Condition {
    /// The equalities and the inequality.
    fn whole(self) -> Expr {
        let Condition { equal, left, operator, right } = self;
        let equal = equal.into_iter().map(|(left, right)| plain(Operator::Eq, left, right));
        conjunction(equal.chain([plain(operator, left, right)])).unwrap_or_default()
    }
}

impl Binder<'_> {
    /// `a POSITIONAL JOIN b`.
    pub fn positional(&mut self, left: From, right: From, span: Span) -> Result<From> {
        let (left, one) = self.numbered_rows(left, span)?;
        let (right, other) = self.numbered_rows(right, span)?;
        let condition = plain(Operator::Eq, one, other);
        self.joined(left, right, JoinKind::Full, Some(condition), vec![], span)
    }

    /// A part of FROM with a column that numbers its rows.
    fn numbered_rows(&mut self, from: From, span: Span) -> Result<(From, Expr)> {
        let (number, _) =
            self.within(from.scope(), |binder| binder.over("row_number", vec![], vec![], vec![], span))?;
        self.with_column(from, number, span)
    }

    /// A part of FROM with a further column, which has no name that a query could use.
    fn with_column(&mut self, from: From, call: Expr, span: Span) -> Result<(From, Expr)> {
        let From { plan, relations, star } = from;
        let mut values = plans::columns(plan.schema());
        let plan = LogicalPlanBuilder::window_plan(plan, vec![call]).at(span)?;
        let own = Expr::Column(plans::column(plan.schema(), values.len()));
        let name = self.qualifiers.next("__place");
        values.push(own.alias(&name));
        let plan = plans::project(plan, values).at(span)?;
        let column = Expr::Column(datafusion_common::Column::from_name(name));
        Ok((From { plan, relations, star }, column))
    }

    /// `a ASOF JOIN b ON …` and `USING (…)`.
    pub fn as_of(&mut self, left: From, right: From, join: &Join) -> Result<From> {
        let span = join.span;
        let is_existence = matches!(join.kind, JoinKind::Semi | JoinKind::Anti);
        if !is_existence && !matches!(join.kind, JoinKind::Inner | JoinKind::Left | JoinKind::Right | JoinKind::Full) {
            return Err(invalid(span, "ASOF stands before JOIN, LEFT, RIGHT, FULL, SEMI and ANTI JOIN only"));
        }
        let merged = self.merged(&left, &right, &join.condition, span)?;
        let condition = match &join.condition {
            JoinCondition::On(condition) => {
                let scope = joined_scope(&left, &right, span)?;
                let (value, _) = self.within(scope, |binder| binder.expression(condition))?;
                parts(&value, &left, span)?
            }
            JoinCondition::Using(_) => {
                let mut equal: Vec<(Expr, Expr)> =
                    merged.iter().map(|one| (one.left.value.clone(), one.right.value.clone())).collect();
                let Some((left, right)) = equal.pop() else { return Err(no_inequality(span)) };
                Condition { equal, left, operator: Operator::GtEq, right }
            }
            _ => return Err(no_inequality(span)),
        };
        if is_existence {
            // Where there is a nearest row, there is one.
            return self.joined(left, right, join.kind, Some(condition.whole()), merged, span);
        }
        let descending = matches!(condition.operator, Operator::Lt | Operator::LtEq);
        let order = SortOrder { descending: Some(descending), nulls_first: Some(false) };
        let order = self.sort(condition.right.clone(), order);
        let partition = condition.equal.iter().map(|(_, right)| right.clone()).collect();
        let (lead, _) = self.within(right.scope(), |binder| {
            binder.over("lead", vec![condition.right.clone()], partition, vec![order], span)
        })?;
        let (right, next) = self.with_column(right, lead, span)?;
        self.joined(left, right, join.kind, Some(matching(condition, next)), merged, span)
    }
}

/// The condition of the join in place of an ASOF JOIN.
fn matching(condition: Condition, next: Expr) -> Expr {
    let Condition { equal, left, operator, right } = condition;
    let equal = equal.into_iter().map(|(left, right)| plain(Operator::Eq, left, right));
    let negated = match operator {
        Operator::GtEq => Operator::Lt,
        Operator::Gt => Operator::LtEq,
        Operator::LtEq => Operator::Gt,
        _ => Operator::GtEq,
    };
    let after = plain(operator, left.clone(), right);
    let is_last = Expr::IsNull(Box::new(next.clone()));
    let bounds = plain(Operator::Or, is_last, plain(negated, left, next));
    conjunction(equal.chain([after, bounds])).unwrap_or_default()
}

/// Divides a condition into equalities and the one inequality.
fn parts(condition: &Expr, left: &From, span: Span) -> Result<Condition> {
    let (mut equal, mut inequality) = (vec![], None);
    for conjunct in split_conjunction(condition) {
        let wrong = || {
            invalid(
                span,
                "an ASOF JOIN is ON equalities and one inequality of both tables, and this condition is neither",
            )
            .with_hint("put other conditions in WHERE, or in a subquery")
        };
        let Expr::BinaryExpr(binary) = conjunct else { return Err(wrong()) };
        let (one, other) = (binary.left.as_ref().clone(), binary.right.as_ref().clone());
        let (one, other, is_swapped) = match (is_left(&one, left), is_left(&other, left)) {
            (Some(true), Some(false)) => (one, other, false),
            (Some(false), Some(true)) => (other, one, true),
            _ => return Err(wrong()),
        };
        let operator = match (binary.op, is_swapped) {
            (Operator::Eq, _) => {
                equal.push((one, other));
                continue;
            }
            (operator @ (Operator::Gt | Operator::GtEq | Operator::Lt | Operator::LtEq), false) => operator,
            (Operator::Gt, true) => Operator::Lt,
            (Operator::GtEq, true) => Operator::LtEq,
            (Operator::Lt, true) => Operator::Gt,
            (Operator::LtEq, true) => Operator::GtEq,
            _ => return Err(wrong()),
        };
        if inequality.replace((one, operator, other)).is_some() {
            return Err(invalid(span, "an ASOF JOIN has one inequality"));
        }
    }
    let Some((left, operator, right)) = inequality else { return Err(no_inequality(span)) };
    Ok(Condition { equal, left, operator, right })
}

fn no_inequality(span: Span) -> Box<crate::BindError> {
    invalid(span, "an ASOF JOIN needs an inequality in its condition, or USING")
        .with_hint("a ASOF JOIN b ON a.k = b.k AND a.t >= b.t")
}

/// Whether a value reads the left side only (true) or the right side only (false).
fn is_left(value: &Expr, left: &From) -> Option<bool> {
    let schema = left.plan.schema();
    let (mut in_left, mut in_right) = (false, false);
    value
        .apply(|part| {
            if let Expr::Column(column) = part {
                let is_own = schema.has_column(column);
                in_left |= is_own;
                in_right |= !is_own;
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .ok()?;
    (in_left != in_right).then_some(in_left)
}
