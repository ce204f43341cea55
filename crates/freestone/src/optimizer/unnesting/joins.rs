//! Lifts joins, also those whose right side uses columns of the left one (LATERAL).

use std::sync::Arc;

use datafusion::common::{DFSchema, NullEquality};
use datafusion::error::{DataFusionError, Result};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan, Operator, binary_expr};

use super::attach::Over;
use super::domain::Key;
use super::expressions::{conjuncts, filter, join};
use super::lifted::Lifted;
use super::scopes::{Scope, Scopes, filled, has_subquery, is_open, is_volatile, may_use, place, references, replace};
use super::{Unnester, refused, volatile};

impl Unnester {
    pub fn lift_join(&self, node: Join, scopes: &Scopes, is_set: bool) -> Result<Lifted> {
        use JoinType::{Inner, Left, LeftAnti, LeftSemi, Right, RightAnti, RightSemi};
        let schema = node.left.schema().clone();
        let lifted = self.lift(Arc::unwrap_or_clone(node.left.clone()), scopes, is_set)?;
        let mut left = Over::new(self, lifted, schema.clone(), scopes);
        let over_both = node.filter.as_ref().is_some_and(has_subquery) && node.join_type != Inner;
        let right = Arc::unwrap_or_clone(node.right.clone());
        if matches!(node.join_type, Inner | Left | LeftSemi | LeftAnti) && (over_both || may_use(&right, &schema)) {
            let scope = left.scope()?;
            let right = self.lift(right, &scopes.with_sibling(scope.clone()), is_set)?;
            let uses_left = right.references().iter().any(|e| place(e).is_ok_and(|(id, _)| id == scope.id));
            if over_both || uses_left {
                return self.join_beside(node, left, right, scopes);
            }
            return self.join_apart(node, left.lifted, right, scopes, is_set);
        }
        if over_both && !matches!(node.join_type, Right | RightSemi | RightAnti) {
            return Err(DataFusionError::NotImplemented(
                "a subquery in ON of a FULL JOIN is not available; compute it in a subquery of FROM".into(),
            ));
        }
        let right = self.lift(right, scopes, is_set)?;
        self.join_apart(node, left.lifted, right, scopes, is_set)
    }

    /// A join whose sides do not use each other's columns.
    fn join_apart(
        &self,
        node: Join,
        mut left: Lifted,
        mut right: Lifted,
        scopes: &Scopes,
        is_set: bool,
    ) -> Result<Lifted> {
        self.complete(&mut left, scopes)?;
        self.complete(&mut right, scopes)?;
        let is_plain = left.is_closed() && right.is_closed() && !node.filter.as_ref().is_some_and(is_open);
        let is_plain = is_plain && node.on.iter().all(|(l, r)| !is_open(l) && !is_open(r));
        if is_plain && !node.filter.as_ref().is_some_and(has_subquery) {
            let left = Arc::new(left.under(node.left.schema())?);
            let right = Arc::new(right.under(node.right.schema())?);
            let (kind, how, nulls) = (node.join_type, node.join_constraint, node.null_equality);
            let join = Join::try_new(left, right, node.on, node.filter, kind, how, nulls, node.null_aware)?;
            return Ok(Lifted::of(LogicalPlan::Join(join)));
        }
        match node.join_type {
            JoinType::Inner => self.join_inner(node, left, right, scopes, is_set),
            JoinType::Full => self.join_full(node, left, right, scopes),
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => {
                let width = left.output.len();
                let node = swapped(node)?;
                let right = Over::new(self, right, node.left.schema().clone(), scopes);
                let is_outer = node.join_type == JoinType::Left;
                let mut lifted = self.join_beside(node, right, left, scopes)?;
                if is_outer {
                    lifted.output.rotate_right(width);
                }
                Ok(lifted)
            }
            _ => {
                let left = Over::new(self, left, node.left.schema().clone(), scopes);
                self.join_beside(node, left, right, scopes)
            }
        }
    }

    fn join_inner(&self, node: Join, left: Lifted, right: Lifted, scopes: &Scopes, is_set: bool) -> Result<Lifted> {
        let schema = node.schema.clone();
        let on = conditions(&node);
        let mut right = right.renamed(self, left.plan.schema())?;
        let mut lifted = left;
        lifted.plan = join(lifted.plan, right.plan, vec![], JoinType::Inner)?;
        lifted.output.append(&mut right.output);
        lifted.conditions.append(&mut right.conditions);
        lifted.is_single &= right.is_single;
        let mut over = Over::new(self, lifted, schema, scopes).for_set(is_set);
        over.filter(on)?;
        Ok(over.lifted)
    }

    /// A join whose right side may use columns of the left one, and whose condition may contain subqueries over both.
    fn join_beside(&self, node: Join, mut left: Over<'_>, right: Lifted, scopes: &Scopes) -> Result<Lifted> {
        if matches!(node.join_type, JoinType::LeftMark | JoinType::RightMark) {
            return Err(refused("a mark join"));
        }
        let scope = left.scope()?;
        let on = conditions(&node);
        let is_inner = node.join_type == JoinType::Inner;
        let inside = scopes.with(scope.clone());
        let mut right = right;
        if is_volatile(&right.plan) && right.references().iter().any(|r| place(r).is_ok_and(|(id, _)| id == scope.id)) {
            return Err(volatile());
        }
        let mut above = vec![];
        if is_inner {
            above = on;
        } else if !on.is_empty() {
            // The condition is treated like a filter of the right side, which may use columns of the left one.
            let on = on.into_iter().map(|e| seen_from_right(e, &scope, node.right.schema())).collect::<Result<_>>()?;
            self.complete(&mut right, &inside)?;
            let mut over = Over::new(self, right, node.right.schema().clone(), &inside);
            over.filter(on)?;
            right = over.lifted;
        }
        if matches!(node.join_type, JoinType::LeftSemi | JoinType::LeftAnti) {
            self.complete(&mut right, &inside)?;
        }
        let mut right = right.with_columns(self)?.renamed(self, left.lifted.plan.schema())?;
        if matches!(node.join_type, JoinType::LeftSemi | JoinType::LeftAnti) {
            left.semi(right.plan, right.conditions, node.join_type == JoinType::LeftAnti)?;
            return Ok(left.lifted);
        }
        let mut lifted = if is_inner && right.empty.is_none() {
            let mut lifted = left.lifted;
            right.map(|e| filled(e, &scope.id, &scope.output))?;
            lifted.plan = join(lifted.plan, right.plan, vec![], JoinType::Inner)?;
            lifted.output.append(&mut right.output);
            lifted.keep(right.conditions)?;
            lifted.is_single &= right.is_single;
            lifted
        } else {
            let mut values = left.joined_values(right)?;
            left.lifted.output.append(&mut values);
            left.lifted
        };
        if is_inner {
            lifted.is_single = false;
            let mut over = Over::new(self, lifted, node.schema.clone(), scopes);
            over.filter(above)?;
            lifted = over.lifted;
        }
        Ok(lifted)
    }

    /// A full join. Both sides get keys, which are merged, because a row may be missing on either side.
    fn join_full(&self, node: Join, mut left: Lifted, mut right: Lifted, scopes: &Scopes) -> Result<Lifted> {
        let on = conditions(&node);
        let joined = Lifted { output: [left.output.clone(), right.output.clone()].concat(), ..left.clone() };
        let probe = Over::new(self, joined, node.schema.clone(), scopes).expressions(on.clone())?;
        let mut wanted = left.references();
        for reference in right.references().into_iter().chain(references(&probe)) {
            if !wanted.contains(&reference) {
                wanted.push(reference);
            }
        }
        let left_keys = self.settle_for(&mut left, &wanted, scopes)?;
        let right_keys = self.settle_for(&mut right, &wanted, scopes)?;
        let (left, left_keys) = keyed_columns(self, left, left_keys, &DFSchema::empty())?;
        let (right, right_keys) = keyed_columns(self, right, right_keys, left.plan.schema())?;
        let joined =
            Lifted { output: [left.output.clone(), right.output.clone()].concat(), ..Lifted::of(left.plan.clone()) };
        let mut conditions = Over::new(self, joined, node.schema.clone(), scopes).expressions(on)?;
        let pairs: Vec<_> = left_keys.iter().map(|key| (key.outer.clone(), key.inner.clone())).collect();
        for e in &mut conditions {
            *e = super::lifted::exchanged(std::mem::take(e), &pairs)?;
        }
        conditions.extend(left_keys.iter().zip(&right_keys).map(|(left, right)| {
            Key { outer: left.inner.clone(), inner: right.inner.clone(), is_strict: left.is_strict && right.is_strict }
                .condition()
        }));
        let plan = join(left.plan, right.plan, conditions, JoinType::Full)?;
        let merged = left_keys.into_iter().zip(right_keys).map(|(left, right)| Key {
            outer: left.outer,
            inner: coalesce(vec![left.inner, right.inner]),
            is_strict: left.is_strict && right.is_strict,
        });
        let output = [left.output, right.output].concat();
        Ok(Lifted {
            plan,
            output,
            conditions: merged.map(|key| key.condition()).collect(),
            empty: None,
            is_single: false,
        })
    }
}

/// One side of a full join, with its output and keys as columns, and without rows that belong to no outer row.
fn keyed_columns(
    unnester: &Unnester,
    mut lifted: Lifted,
    keys: Vec<Key>,
    other: &DFSchema,
) -> Result<(Lifted, Vec<Key>)> {
    let strict = keys.iter().filter(|key| key.is_strict).map(|key| key.inner.clone().is_not_null()).collect();
    lifted.plan = filter(lifted.plan, strict)?;
    let width = lifted.output.len();
    lifted.output.extend(keys.iter().map(|key| key.inner.clone()));
    lifted.conditions = vec![];
    let mut lifted = lifted.with_columns(unnester)?.renamed(unnester, other)?;
    let inner = lifted.output.split_off(width);
    let keys = keys.into_iter().zip(inner).map(|(key, inner)| Key { inner, ..key }).collect();
    Ok((lifted, keys))
}

/// All conditions of a join, including equalities of its keys.
fn conditions(node: &Join) -> Vec<Expr> {
    let operator = match node.null_equality {
        NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
        NullEquality::NullEqualsNothing => Operator::Eq,
    };
    let keys = node.on.iter().map(|(left, right)| binary_expr(left.clone(), operator, right.clone()));
    keys.chain(conjuncts(node.filter.clone())).collect()
}

/// A right join as a left join.
fn swapped(node: Join) -> Result<Join> {
    let join_type = match node.join_type {
        JoinType::Right => JoinType::Left,
        JoinType::RightSemi => JoinType::LeftSemi,
        _ => JoinType::LeftAnti,
    };
    let on = node.on.into_iter().map(|(left, right)| (right, left)).collect();
    let (how, nulls) = (node.join_constraint, node.null_equality);
    Join::try_new(node.right, node.left, on, node.filter, join_type, how, nulls, false)
}

/// A condition of a join in which columns of the left side are references to an outer query.
fn seen_from_right(condition: Expr, scope: &Scope, right: &DFSchema) -> Result<Expr> {
    replace(condition, |e| match e {
        Expr::Column(column) if right.maybe_index_of_column(column).is_none() => {
            scope.schema.maybe_index_of_column(column).map(|at| scope.reference(at))
        }
        _ => None,
    })
}
