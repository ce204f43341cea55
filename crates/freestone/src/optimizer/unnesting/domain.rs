//! Keys of a plan, which represent columns of outer queries.

use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::{Distinct, Expr, ExprSchemable, JoinType, LogicalPlan, Operator, binary_expr};

use super::expressions::{filter, join, plain, project};
use super::lifted::{Lifted, exchanged};
use super::scopes::{Scopes, is_open, is_volatile, is_volatile_expression, place, references};
use super::{Unnester, refused};

/// An expression over outer references, and an expression over a plan that is equal to it in the rows that belong to
/// the outer row.
#[derive(Clone)]
pub(super) struct Key {
    pub outer: Expr,
    pub inner: Expr,
    /// The equality is `=`, so rows with NULL belong to no outer row. Otherwise it is IS NOT DISTINCT FROM.
    pub is_strict: bool,
}

impl Key {
    /// The condition under which a row belongs to an outer row.
    pub fn condition(&self) -> Expr {
        let operator = if self.is_strict { Operator::Eq } else { Operator::IsNotDistinctFrom };
        binary_expr(self.outer.clone(), operator, self.inner.clone())
    }
}

impl Unnester {
    /// Changes a plan so that equalities with keys are its only conditions. Neither the rest of the plan nor `others`,
    /// expressions over it, use outer queries afterwards.
    pub fn settle(&self, lifted: &mut Lifted, others: &mut [Expr], scopes: &Scopes) -> Result<Vec<Key>> {
        let wanted = references(others.iter().chain(&lifted.output).chain(&lifted.conditions));
        if wanted.is_empty() {
            return Ok(vec![]);
        }
        let (keys, used) = self.keys_of_equalities(lifted);
        let pairs: Vec<_> = keys.iter().map(|key| (key.outer.clone(), key.inner.clone())).collect();
        let mut trial = lifted.clone();
        let mut at = 0;
        trial.conditions.retain(|_| {
            at += 1;
            !used.contains(&(at - 1))
        });
        trial.exchange(&pairs)?;
        let mut changed = vec![];
        for e in others.iter() {
            changed.push(exchanged(e.clone(), &pairs)?);
        }
        if references(changed.iter().chain(&trial.output).chain(&trial.conditions)).is_empty() {
            let closed = std::mem::take(&mut trial.conditions);
            trial.keep(closed)?;
            *lifted = trial;
            others.clone_from_slice(&changed);
            lifted.conditions = keys.iter().map(Key::condition).collect();
            return Ok(keys);
        }
        self.settle_by_domain(lifted, others, &wanted, scopes)
    }

    /// Like [`Unnester::settle`], with exactly one key per reference of `wanted`, in this order.
    pub fn settle_for(&self, lifted: &mut Lifted, wanted: &[Expr], scopes: &Scopes) -> Result<Vec<Key>> {
        let mut others = wanted.to_vec();
        let keys = self.settle(lifted, &mut others, scopes)?;
        let of = |reference: &Expr| keys.iter().find(|key| key.outer == *reference).cloned();
        if let Some(found) = wanted.iter().map(of).collect::<Option<Vec<_>>>()
            && found.len() == keys.len()
        {
            return Ok(found);
        }
        self.settle_by_domain(lifted, &mut [], wanted, scopes)
    }

    /// Replaces outer references in expressions over a plan by equal columns of the plan.
    pub fn bind(&self, lifted: &mut Lifted, others: &mut [Expr], scopes: &Scopes) -> Result<()> {
        let wanted = references(others.iter());
        if wanted.is_empty() {
            return Ok(());
        }
        let (keys, _) = self.keys_of_equalities(lifted);
        if wanted.iter().all(|reference| keys.iter().any(|key| key.outer == *reference)) {
            let pairs: Vec<_> = keys.into_iter().map(|key| (key.outer, key.inner)).collect();
            for e in others {
                *e = exchanged(std::mem::take(e), &pairs)?;
            }
            return Ok(());
        }
        self.complete(lifted, scopes)?;
        self.settle(lifted, others, scopes).map(|_| ())
    }

    /// Changes a plan with `empty` so that it has an actual row for every outer row.
    pub fn complete(&self, lifted: &mut Lifted, scopes: &Scopes) -> Result<()> {
        if lifted.empty.is_none() {
            return Ok(());
        }
        let wanted = lifted.references();
        let (domain, keys) = self.domain(&wanted, scopes)?;
        let pairs: Vec<_> = keys.iter().map(|key| (key.outer.clone(), key.inner.clone())).collect();
        let mut right = lifted.clone();
        right.exchange(&pairs)?;
        let presence = if right.needs_presence() {
            let (with, presence) = right.with_presence(self)?;
            right = with;
            Some(presence)
        } else {
            None
        };
        let on = std::mem::take(&mut right.conditions);
        let plan = join(domain, right.plan.clone(), on, JoinType::Left)?;
        let output = right.output_or_empty(presence.as_ref(), plan.schema())?;
        let conditions = keys.iter().map(Key::condition).collect();
        *lifted = Lifted { plan, output, conditions, empty: None, is_single: true };
        Ok(())
    }

    /// The keys that follow from conditions of equality, and the positions of these conditions.
    fn keys_of_equalities(&self, lifted: &Lifted) -> (Vec<Key>, Vec<usize>) {
        let (mut keys, mut used): (Vec<Key>, _) = (vec![], vec![]);
        for (at, condition) in lifted.conditions.iter().enumerate() {
            if let Some(key) = equality(condition, lifted.plan.schema())
                && !keys.iter().any(|known| known.outer == key.outer)
            {
                keys.push(key);
                used.push(at);
            }
        }
        (keys, used)
    }

    /// Joins the plan with the domain, the distinct values of outer columns, whose columns become the keys.
    fn settle_by_domain(
        &self,
        lifted: &mut Lifted,
        others: &mut [Expr],
        wanted: &[Expr],
        scopes: &Scopes,
    ) -> Result<Vec<Key>> {
        let (domain, mut keys) = self.domain(wanted, scopes)?;
        let strict: Vec<bool> =
            keys.iter().map(|key| lifted.conditions.iter().any(|e| rejects_null(e, &key.outer))).collect();
        keys.iter_mut().zip(strict).for_each(|(key, strict)| key.is_strict |= strict);
        let pairs: Vec<_> = keys.iter().map(|key| (key.outer.clone(), key.inner.clone())).collect();
        lifted.exchange(&pairs)?;
        for e in others {
            *e = exchanged(std::mem::take(e), &pairs)?;
        }
        let on = std::mem::take(&mut lifted.conditions);
        lifted.plan = if lifted.is_one_row() && lifted.plan.schema().fields().is_empty() {
            filter(domain, on)?
        } else {
            join(lifted.plan.clone(), domain, on, JoinType::Inner)?
        };
        lifted.conditions = keys.iter().map(Key::condition).collect();
        Ok(keys)
    }

    /// The domain: the distinct values of outer columns.
    fn domain(&self, wanted: &[Expr], scopes: &Scopes) -> Result<(LogicalPlan, Vec<Key>)> {
        let mut ids: Vec<&str> = vec![];
        for reference in wanted {
            let (id, _) = place(reference)?;
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        let mut plan = None;
        let mut keys = vec![None; wanted.len()];
        for id in ids {
            let scope = scopes.of(id)?;
            let mut values = vec![];
            for (key, reference) in keys.iter_mut().zip(wanted) {
                let (of, at) = place(reference)?;
                if of == id {
                    let name = self.name("outer");
                    let value = scope.output[at].clone();
                    let is_strict = !value.nullable(scope.plan.schema())?;
                    values.push(value.unalias().alias(name.clone()));
                    *key = Some(Key { outer: reference.clone(), inner: plain(name), is_strict });
                }
            }
            if is_volatile(&scope.plan) || values.iter().any(is_volatile_expression) {
                return Err(refused("columns of an outer query that calls a volatile function such as random()"));
            }
            let values = LogicalPlan::Distinct(Distinct::All(Arc::new(project(scope.plan.clone(), values)?)));
            plan = Some(match plan {
                None => values,
                Some(others) => join(others, values, vec![], JoinType::Inner)?,
            });
        }
        let none = || refused("nothing of an outer query");
        Ok((plan.ok_or_else(none)?, keys.into_iter().flatten().collect()))
    }
}

/// The key that follows from a condition, if it is an equality of an outer and an inner expression of the same type.
fn equality(condition: &Expr, schema: &DFSchema) -> Option<Key> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return None };
    let is_strict = match op {
        Operator::Eq => true,
        Operator::IsNotDistinctFrom => false,
        _ => return None,
    };
    let is_outer = |e: &Expr| is_open(e) && !e.any_column_refs();
    let is_inner = |e: &Expr| !is_open(e) && e.any_column_refs();
    let (outer, inner) = match (is_outer(left), is_outer(right)) {
        (true, false) if is_inner(right) => (left, right),
        (false, true) if is_inner(left) => (right, left),
        _ => return None,
    };
    let is_volatile = is_volatile_expression(outer) || is_volatile_expression(inner);
    let same_type = outer.get_type(schema).ok()? == inner.get_type(schema).ok()?;
    (same_type && !is_volatile).then(|| Key { outer: outer.as_ref().clone(), inner: inner.as_ref().clone(), is_strict })
}

/// Whether a condition is never true if the reference is NULL.
fn rejects_null(condition: &Expr, reference: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return false };
    let is_comparison =
        matches!(op, Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq);
    is_comparison && (**left == *reference || **right == *reference)
}
