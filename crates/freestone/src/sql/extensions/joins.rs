//! ASOF JOIN and POSITIONAL JOIN as joins with a condition.
//!
//! `a ASOF JOIN b ON a.k = b.k AND a.t >= b.t` joins each row of `a` with the last row of `b` that is not after it. So
//! LEAD computes for each row of `b` the next `t` with the same `k`, and the join's condition is that `a.t` is before
//! this next value. POSITIONAL JOIN numbers the rows of both sides and is a FULL JOIN on these numbers.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, OrderBy,
    OrderByExpr, OrderByOptions, Select, SelectItem, SelectItemQualifiedWildcardKind, TableFactor, TableWithJoins,
    WildcardAdditionalOptions,
};

use super::stars::Starred;
use crate::error::{Error, Result};
use crate::sql::fragments::{alias, and, bare_query, binary, derived, quoted, select_query, star, window};
use crate::sql::names::{Columns, folded};
use crate::sql::using::{constraint_mut, table_name};
use crate::sql::visitor::each_own_expr;

/// The changes by rewritten joins of a FROM that the rest of the SELECT must take into account.
#[derive(Debug, Default, Clone)]
pub(crate) struct Leftovers {
    /// Internal columns, with their tables.
    pub hidden: Vec<(Ident, String)>,
    /// Columns of tables that were renamed.
    pub renamed: Vec<(Ident, String, Ident)>,
}

impl Leftovers {
    /// Whether a column is merged with one of the left side.
    pub fn merges(&self, column: &Starred) -> bool {
        self.renamed.iter().any(|(table, name, _)| *name == column.name && column.is_of(&folded(table)))
    }
}

pub(super) fn is_positional(join: &Join) -> bool {
    matches!(join.join_operator, JoinOperator::StraightJoin(_))
}

/// Whether a SELECT has such a join.
pub(super) fn asks(select: &Select) -> bool {
    fn has(tables: &TableWithJoins) -> bool {
        let nested = |factor: &TableFactor| match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => has(table_with_joins),
            _ => false,
        };
        let own = |join: &Join| join.global || is_positional(join) || nested(&join.relation);
        nested(&tables.relation) || tables.joins.iter().any(own)
    }
    select.from.iter().any(has)
}

/// Rewrites the joins of one item of FROM, whose tables have these columns.
pub(crate) fn rewrite(tables: &mut TableWithJoins, columns: &[Columns], left: &mut Leftovers) -> Result<()> {
    for at in 0..tables.joins.len() {
        if tables.joins[at].global {
            let before: Vec<&Columns> = columns.iter().take(at + 1).collect();
            let (join, own) = (&mut tables.joins[at], columns.get(at + 1).cloned().flatten());
            as_of(join, &before, own, left)?;
        } else if is_positional(&tables.joins[at]) {
            if at > 0 {
                return Err(Error::unsupported("POSITIONAL JOIN behind another join is not available")
                    .with_hint("put the joins before it in a subquery: FROM (SELECT …) a POSITIONAL JOIN b"));
            }
            positional(tables, left)?;
        }
    }
    Ok(())
}

/// A subquery with the columns of a table and further ones, under the table's name.
fn extended(factor: &mut TableFactor, items: Vec<SelectItem>, name: Ident) -> Result<()> {
    if is_lateral(factor) {
        return Err(Error::unsupported("LATERAL behind ASOF JOIN and POSITIONAL JOIN is not available"));
    }
    let inner = std::mem::replace(factor, derived(bare_query()?, None));
    *factor = derived(select_query(items, inner)?, Some(alias(name)));
    Ok(())
}

fn is_lateral(factor: &TableFactor) -> bool {
    matches!(factor, TableFactor::Derived { lateral: true, .. } | TableFactor::Function { lateral: true, .. })
}

/// The name of a table. A table without one gets a name.
fn named(factor: &mut TableFactor, left: &Leftovers) -> Ident {
    table_name(factor).unwrap_or_else(|| {
        let name = quoted(&format!("__table{}", left.hidden.len()));
        if let TableFactor::Derived { alias: own, .. } | TableFactor::NestedJoin { alias: own, .. } = factor {
            *own = Some(alias(name.clone()));
        }
        name
    })
}

fn positional(tables: &mut TableWithJoins, left: &mut Leftovers) -> Result<()> {
    let mut numbered = |factor: &mut TableFactor| -> Result<Expr> {
        let name = named(factor, left);
        let column = quoted(&format!("freestone$position{}", left.hidden.len()));
        left.hidden.push((name.clone(), column.value.clone()));
        let expr = window("row_number", vec![], vec![], vec![]);
        let item = SelectItem::ExprWithAlias { expr, alias: column.clone() };
        extended(factor, vec![star(), item], name.clone())?;
        Ok(Expr::CompoundIdentifier(vec![name, column]))
    };
    let a = numbered(&mut tables.relation)?;
    let Some(join) = tables.joins.first_mut() else { return Ok(()) };
    let b = numbered(&mut join.relation)?;
    join.join_operator = JoinOperator::FullOuter(JoinConstraint::On(binary(a, BinaryOperator::Eq, b)));
    Ok(())
}

/// The parts of an ASOF JOIN's condition.
struct Condition {
    /// Equal expressions of the left and the right side.
    equal: Vec<(Expr, Expr)>,
    /// Conditions on the right side only, which a matching row must also satisfy.
    left: Expr,
    op: BinaryOperator,
    right: Expr,
}

fn as_of(join: &mut Join, before: &[&Columns], own: Columns, left: &mut Leftovers) -> Result<()> {
    join.global = false;
    let name = named(&mut join.relation, left);
    let (mut items, next) = (vec![star()], quoted(&format!("freestone$next{}", left.hidden.len())));
    let is_outer_right =
        matches!(join.join_operator, JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_));
    let Some(constraint) = constraint_mut(&mut join.join_operator) else {
        return Err(Error::unsupported("ASOF stands before JOIN, LEFT JOIN, RIGHT JOIN and FULL JOIN only"));
    };
    let condition = match constraint {
        JoinConstraint::On(condition) => parts(condition, &name, before, &own)?,
        JoinConstraint::Using(names) if !is_outer_right => {
            let names: Option<Vec<Ident>> =
                names.iter().map(|name| name.0.last().and_then(|part| part.as_ident()).cloned()).collect();
            let (condition, written) = using(names.unwrap_or_default(), &name, left)?;
            items = written;
            condition
        }
        _ => {
            return Err(Error::invalid("an ASOF JOIN needs ON with equalities and one inequality, or USING")
                .with_hint("a ASOF JOIN b ON a.k = b.k AND a.t >= b.t"));
        }
    };
    let is_descending = matches!(condition.op, BinaryOperator::Lt | BinaryOperator::LtEq);
    let options = OrderByOptions { asc: Some(!is_descending), nulls_first: Some(false) };
    let inner = |expr: &Expr| inner_name(expr.clone(), &name, left);
    let order = OrderByExpr { expr: inner(&condition.right), options, with_fill: None };
    let partition = condition.equal.iter().map(|(_, right)| inner(right)).collect();
    let lead = window("lead", vec![inner(&condition.right)], partition, vec![order]);
    left.hidden.push((name.clone(), next.value.clone()));
    let next_column = Expr::CompoundIdentifier(vec![name.clone(), next.clone()]);
    items.push(SelectItem::ExprWithAlias { expr: lead, alias: next });
    *constraint = JoinConstraint::On(matching(&condition, next_column));
    extended(&mut join.relation, items, name)
}

/// An expression of the right side in terms of the subquery's input, where no column is renamed.
fn inner_name(mut expr: Expr, table: &Ident, left: &Leftovers) -> Expr {
    each_own_expr(&mut expr, &mut |part| {
        let Expr::CompoundIdentifier(names) = part else { return };
        let [own, name] = names.as_mut_slice() else { return };
        if folded(own) == folded(table)
            && let Some((_, before, _)) = left.renamed.iter().find(|(_, _, now)| now.value == name.value)
        {
            *name = quoted(before);
        }
    });
    expr
}

/// The condition of the join that replaces an ASOF JOIN.
fn matching(condition: &Condition, next: Expr) -> Expr {
    let mut all = None;
    for (left, right) in &condition.equal {
        all = Some(and(all, binary(left.clone(), BinaryOperator::Eq, right.clone())));
    }
    let after = binary(condition.left.clone(), condition.op.clone(), condition.right.clone());
    let negated = match condition.op {
        BinaryOperator::GtEq => BinaryOperator::Lt,
        BinaryOperator::Gt => BinaryOperator::LtEq,
        BinaryOperator::LtEq => BinaryOperator::Gt,
        _ => BinaryOperator::GtEq,
    };
    let is_last = Expr::IsNull(Box::new(next.clone()));
    let before_next = binary(condition.left.clone(), negated, next);
    let bounds = Expr::Nested(Box::new(binary(is_last, BinaryOperator::Or, before_next)));
    and(Some(and(all, after)), bounds)
}

/// Converts `USING (k, t)`. The columns of the right table are renamed, so that an unqualified name is the left column.
fn using(names: Vec<Ident>, table: &Ident, left: &mut Leftovers) -> Result<(Condition, Vec<SelectItem>)> {
    let excluded = names.iter().map(|name| ObjectName::from(vec![name.clone()])).collect();
    let opt_exclude = Some(ExcludeSelectItem::Multiple(excluded));
    let options = WildcardAdditionalOptions { opt_exclude, ..Default::default() };
    let mut items = vec![SelectItem::Wildcard(options)];
    let mut equal = vec![];
    for name in names {
        let hidden = quoted(&format!("freestone$key{}", left.hidden.len()));
        left.hidden.push((table.clone(), hidden.value.clone()));
        left.renamed.push((table.clone(), folded(&name), hidden.clone()));
        let own = Expr::CompoundIdentifier(vec![table.clone(), name.clone()]);
        items.push(SelectItem::ExprWithAlias { expr: own, alias: hidden.clone() });
        equal.push((Expr::Identifier(name), Expr::CompoundIdentifier(vec![table.clone(), hidden])));
    }
    let Some((left_time, right_time)) = equal.pop() else {
        return Err(Error::invalid(
            "USING of an ASOF JOIN names the columns that are equal, and last the one that orders",
        ));
    };
    Ok((Condition { equal, left: left_time, op: BinaryOperator::GtEq, right: right_time }, items))
}

/// Divides the condition into equalities and the one inequality.
fn parts(condition: &Expr, table: &Ident, before: &[&Columns], own: &Columns) -> Result<Condition> {
    let mut conjuncts = vec![];
    split(condition, &mut conjuncts);
    let side = |expr: &Expr| is_right(expr, table, before, own);
    let (mut equal, mut inequality) = (vec![], None);
    for conjunct in conjuncts {
        let wrong = || {
            Error::invalid(format!(
                "an ASOF JOIN is ON equalities and one inequality of both tables: {conjunct} is neither"
            ))
            .with_hint("put other conditions in WHERE, or in a subquery")
        };
        let Expr::BinaryOp { left: a, op, right: b } = conjunct else { return Err(wrong()) };
        let (a, b) = ((**a).clone(), (**b).clone());
        let (left, right, is_swapped) = match (side(&a), side(&b)) {
            (Some(false), Some(true)) => (a, b, false),
            (Some(true), Some(false)) => (b, a, true),
            _ => return Err(wrong()),
        };
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq};
        let op = match (op, is_swapped) {
            (Eq, _) => {
                equal.push((left, right));
                continue;
            }
            (Gt, false) | (Lt, true) => Gt,
            (GtEq, false) | (LtEq, true) => GtEq,
            (Lt, false) | (Gt, true) => Lt,
            (LtEq, false) | (GtEq, true) => LtEq,
            _ => return Err(wrong()),
        };
        if inequality.replace((left, op, right)).is_some() {
            return Err(Error::invalid("an ASOF JOIN has one inequality"));
        }
    }
    let Some((left, op, right)) = inequality else {
        return Err(Error::invalid("an ASOF JOIN needs an inequality, such as a.t >= b.t"));
    };
    Ok(Condition { equal, left, op, right })
}

fn split<'a>(expr: &'a Expr, conjuncts: &mut Vec<&'a Expr>) {
    match expr {
        Expr::Nested(inner) => split(inner, conjuncts),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            split(left, conjuncts);
            split(right, conjuncts);
        }
        other => conjuncts.push(other),
    }
}

/// Whether an expression belongs to the right side; `None` if it belongs to both or neither.
fn is_right(expr: &Expr, table: &Ident, before: &[&Columns], own: &Columns) -> Option<bool> {
    let mut sides = vec![];
    let has =
        |columns: &Columns, name: &str| columns.as_ref().map(|columns| columns.iter().any(|column| column == name));
    each_own_expr(&mut expr.clone(), &mut |part| match part {
        Expr::Identifier(name) => {
            let name = folded(name);
            let in_left: Vec<Option<bool>> = before.iter().copied().map(|columns| has(columns, &name)).collect();
            sides.push(match has(own, &name) {
                Some(is_own) => is_own,
                None => !in_left.contains(&Some(true)),
            });
        }
        Expr::CompoundIdentifier(names) => {
            sides.push(names.iter().rev().nth(1).is_some_and(|own| folded(own) == folded(table)));
        }
        _ => {}
    });
    let first = *sides.first()?;
    sides.iter().all(|side| *side == first).then_some(first)
}

/// Removes internal columns from wildcards, and uses the new names of renamed columns.
pub(crate) fn finish(select: &mut Select, order: Option<&mut OrderBy>, left: &Leftovers) {
    if left.hidden.is_empty() {
        return;
    }
    for item in &mut select.projection {
        match item {
            SelectItem::Wildcard(options) => hide(options, left.hidden.iter()),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                let table = name.0.last().and_then(|part| part.as_ident()).map(folded);
                let is_own = |(own, _): &&(Ident, String)| table.as_ref().is_some_and(|table| folded(own) == *table);
                hide(options, left.hidden.iter().filter(is_own));
            }
            _ => {}
        }
    }
    let mut rename = |expr: &mut Expr| rename(expr, &left.renamed);
    each_own_expr(&mut select.projection, &mut rename);
    each_own_expr(&mut select.selection, &mut rename);
    each_own_expr(&mut select.group_by, &mut rename);
    each_own_expr(&mut select.having, &mut rename);
    each_own_expr(&mut select.qualify, &mut rename);
    each_own_expr(&mut select.distinct, &mut rename);
    if let Some(order) = order {
        each_own_expr(order, &mut rename);
    }
}

/// Uses the new name of a column.
fn rename(expr: &mut Expr, renamed: &[(Ident, String, Ident)]) {
    let Expr::CompoundIdentifier(names) = expr else { return };
    let [table, name] = names.as_mut_slice() else { return };
    let found = renamed.iter().find(|(own, before, _)| folded(own) == folded(table) && *before == folded(name));
    if let Some((_, _, now)) = found {
        *name = now.clone();
    }
}

fn hide<'a>(options: &mut WildcardAdditionalOptions, hidden: impl Iterator<Item = &'a (Ident, String)>) {
    let mut names: Vec<ObjectName> = match options.opt_exclude.take() {
        Some(ExcludeSelectItem::Single(name)) => vec![name],
        Some(ExcludeSelectItem::Multiple(names)) => names,
        None => vec![],
    };
    names.extend(hidden.map(|(_, name)| ObjectName::from(vec![quoted(name)])));
    options.opt_exclude = (!names.is_empty()).then_some(ExcludeSelectItem::Multiple(names));
}
