//! Joins.

use std::sync::Arc;

use datafusion_common::{JoinConstraint as Constraint, JoinType, NullEquality};
use datafusion_expr::{Expr, Join as JoinNode, LogicalPlan};
use freestone_sql::Span;
use freestone_sql::tree::{BinaryOperator, Join, JoinCondition, JoinKind, Name, Table};

use crate::binder::Binder;
use crate::chains::conjunction;
use crate::error::{At, BindError, ErrorKind, Result, invalid, unknown};
use crate::full_joins::has_subquery;
use crate::scopes::{Entry, Relation, Scope, matching};
use crate::select::without_aggregates;
use crate::tables::From;

/// Columns that a join merges, of both sides.
pub(crate) struct Merged {
    pub left: Entry,
    pub right: Entry,
}

impl Binder<'_> {
    /// `a JOIN b … JOIN c …`, from left to right.
    pub fn joins(&mut self, first: &Table, rest: &[Join]) -> Result<From> {
        let mut left = self.table(first)?;
        for join in rest {
            left = self.join(left, join)?;
        }
        Ok(left)
    }

    fn join(&mut self, left: From, join: &Join) -> Result<From> {
        let span = join.span;
        let (right, is_lateral) = self.right_of(&left, &join.table)?;
        let keeps_right =
            matches!(join.kind, JoinKind::Right | JoinKind::Full | JoinKind::RightSemi | JoinKind::RightAnti);
        if is_lateral && (keeps_right || join.asof || join.kind == JoinKind::Positional) {
            let message = "a LATERAL reference needs an INNER or LEFT JOIN";
            return Err(invalid(join.table.span, message).with_hint("write the join as a LEFT JOIN with ON"));
        }
        match join.kind {
            JoinKind::Cross => return self.crossed(left, right, span),
            JoinKind::Positional => return self.positional(left, right, span),
            _ if join.asof => return self.as_of(left, right, join),
            _ => {}
        }
        let merged = self.merged(&left, &right, &join.condition, span)?;
        let condition = match &join.condition {
            JoinCondition::On(condition) => {
                let scope = joined_scope(&left, &right, span)?;
                let (value, _) = self.within(scope, |binder| binder.expression(condition))?;
                without_aggregates(&value, "ON", condition.span)?;
                Some(value)
            }
            _ => self.equalities(&left, &right, &merged, span)?,
        };
        match condition {
            Some(condition) if join.kind == JoinKind::Full && has_subquery(&condition) => {
                self.full_join_by_subquery(left, right, condition, span)
            }
            condition => self.joined(left, right, join.kind, condition, merged, span),
        }
    }

    /// All pairs of rows.
    pub fn crossed(&mut self, left: From, right: From, span: Span) -> Result<From> {
        self.joined(left, right, JoinKind::Inner, None, vec![], span)
    }

    /// The columns that a join merges.
    pub fn merged(&mut self, left: &From, right: &From, condition: &JoinCondition, span: Span) -> Result<Vec<Merged>> {
        match condition {
            JoinCondition::None | JoinCondition::On(_) => Ok(vec![]),
            JoinCondition::Using(names) => names.iter().map(|name| merged_column(left, right, name)).collect(),
            JoinCondition::Natural => {
                let is_common = |entry: &&Entry| right.star.iter().any(|other| other.name == entry.name);
                let common: Vec<Name> = left
                    .star
                    .iter()
                    .filter(is_common)
                    .map(|entry| Name { text: entry.name.clone(), quoted: true, span })
                    .collect();
                common.iter().map(|name| merged_column(left, right, name)).collect()
            }
        }
    }

    /// The condition that the merged columns of both sides are equal.
    fn equalities(&mut self, left: &From, right: &From, merged: &[Merged], span: Span) -> Result<Option<Expr>> {
        let scope = joined_scope(left, right, span)?;
        let mut conditions = vec![];
        for merged in merged {
            let [one, other] = self.compared(merged, &scope, span)?;
            let functions = self.world.functions;
            conditions.push(functions.binary(BinaryOperator::Eq, one, other, &scope.schema).at(span)?);
        }
        Ok(conjunction(conditions))
    }

    /// What the columns of both sides are compared by.
    pub fn compared(&mut self, merged: &Merged, scope: &Scope, span: Span) -> Result<[Expr; 2]> {
        let mut operands = [merged.left.value.clone(), merged.right.value.clone()];
        if self.has_collations {
            self.within(scope.clone(), |binder| binder.collate_operands(&mut operands, span))?;
        }
        Ok(operands)
    }

    /// Two parts of FROM as one.
    pub fn joined(
        &mut self,
        left: From,
        right: From,
        kind: JoinKind,
        condition: Option<Expr>,
        merged: Vec<Merged>,
        span: Span,
    ) -> Result<From> {
        let join_type = match kind {
            JoinKind::Inner | JoinKind::Cross | JoinKind::Positional => JoinType::Inner,
            JoinKind::Left => JoinType::Left,
            JoinKind::Right => JoinType::Right,
            JoinKind::Full => JoinType::Full,
            JoinKind::Semi => JoinType::LeftSemi,
            JoinKind::RightSemi => JoinType::RightSemi,
            JoinKind::Anti => JoinType::LeftAnti,
            JoinKind::RightAnti => JoinType::RightAnti,
        };
        let collations = match (self.has_collations, kind) {
            (true, JoinKind::Full) => Some(joined_scope(&left, &right, span)?),
            _ => None,
        };
        let (left_plan, right_plan) = (Arc::new(left.plan), Arc::new(right.plan));
        let (on, nulls) = (vec![], NullEquality::NullEqualsNothing);
        let join = JoinNode::try_new(left_plan, right_plan, on, condition, join_type, Constraint::On, nulls, false);
        let plan = LogicalPlan::Join(join.at(span)?);
        if matches!(kind, JoinKind::Semi | JoinKind::Anti) {
            return Ok(From { plan, relations: left.relations, star: left.star });
        }
        if matches!(kind, JoinKind::RightSemi | JoinKind::RightAnti) {
            return Ok(From { plan, relations: right.relations, star: right.star });
        }
        let offset = left.relations.len();
        let of_left =
            left.relations.into_iter().map(|one| one.behind(matches!(kind, JoinKind::Right | JoinKind::Full)));
        let of_right =
            right.relations.into_iter().map(|one| one.behind(matches!(kind, JoinKind::Left | JoinKind::Full)));
        let relations: Vec<Relation> = of_left.chain(of_right).collect();
        // The merged columns stand before the others.
        let mut star: Vec<Entry> = vec![];
        for one in &merged {
            let value = match &collations {
                Some(scope) => self.within(scope.clone(), |binder| binder.merged_value(one, kind, span))?.0,
                None => self.merged_value(one, kind, span)?,
            };
            star.push(Entry { name: one.left.name.clone(), value, relation: None });
        }
        let is_other = |name: &str, side: &dyn Fn(&Merged) -> &Entry| merged.iter().all(|one| side(one).name != name);
        star.extend(left.star.into_iter().filter(|entry| is_other(&entry.name, &|one| &one.left)));
        let others = right.star.into_iter().filter(|entry| is_other(&entry.name, &|one| &one.right));
        star.extend(others.map(|entry| Entry { relation: entry.relation.map(|at| at + offset), ..entry }));
        Ok(From { plan, relations, star })
    }

    fn merged_value(&mut self, merged: &Merged, kind: JoinKind, span: Span) -> Result<Expr> {
        let (left, right) = (merged.left.value.clone(), merged.right.value.clone());
        match kind {
            JoinKind::Right => Ok(right),
            JoinKind::Full => self.scalar_call("coalesce", vec![left, right], span),
            _ => Ok(left),
        }
    }
}

/// The columns of both sides.
pub(crate) fn joined_scope(left: &From, right: &From, span: Span) -> Result<Scope> {
    let offset = left.relations.len();
    let relations = left.relations.iter().chain(&right.relations).cloned().collect();
    let others = right.star.iter().cloned();
    let others = others.map(|entry| Entry { relation: entry.relation.map(|at| at + offset), ..entry });
    let star = left.star.iter().cloned().chain(others).collect();
    let schema = left.plan.schema().join(right.plan.schema()).at(span)?;
    Ok(Scope::new(relations, star, Arc::new(schema)))
}

fn merged_column(left: &From, right: &From, name: &Name) -> Result<Merged> {
    let side = |from: &From, side: &str| {
        let places = matching(from.star.iter().map(|entry| entry.name.as_str()), (&name.text, name.quoted));
        match places.as_slice() {
            [] => {
                if let Some(column) = from.of_function(&name.text) {
                    return Ok(column.clone());
                }
                let known = from.star.iter().map(|entry| entry.name.as_str());
                Err(unknown(name.span, &format!("column on the {side} of the join:"), &name.text, known))
            }
            [one] => from.star.get(*one).cloned().ok_or_else(|| invalid(name.span, "this is no column")),
            _ => {
                let message = format!("column {} of USING could come from several tables of one side", name.text);
                Err(BindError::new(ErrorKind::Ambiguous, name.span, message))
            }
        }
    };
    let (left, right) = (side(left, "left")?, side(right, "right")?);
    Ok(Merged { left, right })
}
