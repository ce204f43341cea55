//! ASOF JOIN and POSITIONAL JOIN.
//!
//! `a ASOF JOIN b ON a.k = b.k AND a.t >= b.t` joins each row of `a` with the last row of `b` that is not after it. LEAD
//! gives for each row of `b` the next `t` with the same `k`, and the condition says that `a.t` is before this next value.
//! Further conditions on `b` alone choose the rows among which the last one is found. With conditions on both, which
//! rows these are depends on the row of `a`: then all pairs that match are numbered for each row of `a`, from the last.
//! POSITIONAL JOIN numbers the rows of both sides and is a FULL JOIN by these numbers.

use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::utils::split_conjunction;
use datafusion_expr::{Expr, LogicalPlanBuilder, Operator};
use freestone_sql::Span;
use freestone_sql::tree::{Join, JoinCondition, JoinKind, SortOrder};

use crate::binder::Binder;
use crate::chains::{conjunction, plain};
use crate::error::{At, Result, invalid};
use crate::expressions::integer;
use crate::joins::{Merged, joined_scope};
use crate::plans;
use crate::tables::From;

/// The parts of an ASOF JOIN's condition: equalities, and the inequality of the left and the right side.
struct Condition {
    equal: Vec<(Expr, Operator, Expr)>,
    left: Expr,
    operator: Operator,
    right: Expr,
    /// Conditions on the right side alone.
    of_right: Vec<Expr>,
    /// All other conditions.
    rest: Vec<Expr>,
}

impl Condition {
    /// All conditions.
    fn whole(self) -> Expr {
        let Condition { equal, left, operator, right, of_right, rest } = self;
        let equal = equal.into_iter().map(|(left, equal, right)| plain(equal, left, right));
        conjunction(equal.chain([plain(operator, left, right)]).chain(of_right).chain(rest)).unwrap_or_default()
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
        let mut condition = match &join.condition {
            JoinCondition::On(condition) => {
                let scope = joined_scope(&left, &right, span)?;
                let (value, _) = self.within(scope, |binder| binder.expression(condition))?;
                parts(&value, &left, span)?
            }
            JoinCondition::Using(_) => {
                let scope = joined_scope(&left, &right, span)?;
                let mut equal = vec![];
                for one in &merged {
                    let [one, other] = self.compared(one, &scope, span)?;
                    equal.push((one, Operator::Eq, other));
                }
                let Some((left, _, right)) = equal.pop() else { return Err(no_inequality(span)) };
                Condition { equal, left, operator: Operator::GtEq, right, of_right: vec![], rest: vec![] }
            }
            _ => return Err(no_inequality(span)),
        };
        if is_existence {
            // Where there is a nearest row, there is one.
            return self.joined(left, right, join.kind, Some(condition.whole()), merged, span);
        }
        let depends = condition.rest.iter().any(|one| sides(one, &left) == [true, true]);
        let mut right = right;
        if let Some(chosen) = conjunction(std::mem::take(&mut condition.of_right)) {
            if matches!(join.kind, JoinKind::Right | JoinKind::Full) {
                return Err(invalid(span, "an ASOF RIGHT or FULL JOIN has no conditions on the right table alone")
                    .with_hint("put them in a subquery"));
            }
            right.plan = plans::filter(right.plan, chosen).at(span)?;
        }
        if depends {
            return self.nearest_of_pairs(left, right, join, condition, merged);
        }
        let descending = matches!(condition.operator, Operator::Lt | Operator::LtEq);
        let order = SortOrder { descending: Some(descending), nulls_first: Some(false) };
        let order = self.sort(condition.right.clone(), order);
        let partition = condition.equal.iter().map(|(.., right)| right.clone()).collect();
        let (lead, _) = self.within(right.scope(), |binder| {
            binder.over("lead", vec![condition.right.clone()], partition, vec![order], span)
        })?;
        let (right, next) = self.with_column(right, lead, span)?;
        self.joined(left, right, join.kind, Some(matching(condition, next)), merged, span)
    }

    /// The first pair of each row of the left side, in the order of the right side's inequality.
    fn nearest_of_pairs(
        &mut self,
        left: From,
        right: From,
        join: &Join,
        condition: Condition,
        merged: Vec<Merged>,
    ) -> Result<From> {
        let span = join.span;
        if !matches!(join.kind, JoinKind::Inner | JoinKind::Left) {
            return Err(invalid(span, "an ASOF RIGHT or FULL JOIN has no other conditions on both tables"));
        }
        let descending = matches!(condition.operator, Operator::Gt | Operator::GtEq);
        let order = SortOrder { descending: Some(descending), nulls_first: Some(false) };
        let order = self.sort(condition.right.clone(), order);
        let (left, row) = self.numbered_rows(left, span)?;
        let pairs = self.joined(left, right, join.kind, Some(condition.whole()), merged, span)?;
        let (number, _) =
            self.within(pairs.scope(), |binder| binder.over("row_number", vec![], vec![row], vec![order], span))?;
        let (mut pairs, number) = self.with_column(pairs, number, span)?;
        pairs.plan = plans::filter(pairs.plan, plain(Operator::Eq, number, integer(1))).at(span)?;
        Ok(pairs)
    }
}

/// The condition of the join in place of an ASOF JOIN.
fn matching(condition: Condition, next: Expr) -> Expr {
    let Condition { equal, left, operator, right, rest, .. } = condition;
    let equal = equal.into_iter().map(|(left, equal, right)| plain(equal, left, right));
    let negated = match operator {
        Operator::GtEq => Operator::Lt,
        Operator::Gt => Operator::LtEq,
        Operator::LtEq => Operator::Gt,
        _ => Operator::GtEq,
    };
    let after = plain(operator, left.clone(), right);
    let is_last = Expr::IsNull(Box::new(next.clone()));
    let bounds = plain(Operator::Or, is_last, plain(negated, left, next));
    conjunction(equal.chain([after, bounds]).chain(rest)).unwrap_or_default()
}

/// Divides a condition into equalities, the one inequality, and others.
fn parts(condition: &Expr, left: &From, span: Span) -> Result<Condition> {
    let (mut equal, mut inequality) = (vec![], None);
    let (mut of_right, mut rest) = (vec![], vec![]);
    for conjunct in split_conjunction(condition) {
        let mut other_condition = || match sides(conjunct, left) {
            [false, true] => of_right.push(conjunct.clone()),
            _ => rest.push(conjunct.clone()),
        };
        let Expr::BinaryExpr(binary) = conjunct else {
            other_condition();
            continue;
        };
        let (one, other) = (binary.left.as_ref().clone(), binary.right.as_ref().clone());
        let (one, other, is_swapped) = match (sides(&one, left), sides(&other, left)) {
            ([true, false], [false, true]) => (one, other, false),
            ([false, true], [true, false]) => (other, one, true),
            _ => {
                other_condition();
                continue;
            }
        };
        let operator = match (binary.op, is_swapped) {
            (operator @ (Operator::Eq | Operator::IsNotDistinctFrom), _) => {
                equal.push((one, operator, other));
                continue;
            }
            (operator @ (Operator::Gt | Operator::GtEq | Operator::Lt | Operator::LtEq), false) => operator,
            (Operator::Gt, true) => Operator::Lt,
            (Operator::GtEq, true) => Operator::LtEq,
            (Operator::Lt, true) => Operator::Gt,
            (Operator::LtEq, true) => Operator::GtEq,
            _ => {
                other_condition();
                continue;
            }
        };
        if inequality.replace((one, operator, other)).is_some() {
            return Err(invalid(span, "an ASOF JOIN has one inequality"));
        }
    }
    let Some((left, operator, right)) = inequality else { return Err(no_inequality(span)) };
    Ok(Condition { equal, left, operator, right, of_right, rest })
}

fn no_inequality(span: Span) -> Box<crate::BindError> {
    invalid(span, "an ASOF JOIN needs an inequality in its condition, or USING")
        .with_hint("a ASOF JOIN b ON a.k = b.k AND a.t >= b.t")
}

/// Whether a value reads the left side, and whether it reads the right side.
fn sides(value: &Expr, left: &From) -> [bool; 2] {
    let schema = left.plan.schema();
    let mut found = [false, false];
    // The closure does not fail.
    let _ = value.apply(|part| {
        if let Expr::Column(column) = part {
            let is_own = schema.has_column(column);
            found = [found[0] || is_own, found[1] || !is_own];
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found
}
