//! Merges IN lists that are connected by AND and OR, with three-valued logic.
//!
//! DataFusion's simplifier merges them, too, but ignores that `x` may be NULL if no value is left (`x NOT IN (1) OR x
//! NOT IN (2)` became true), treats a NULL in a list as a value, and treats two columns with different names as two
//! values. This rule runs before the simplifier and merges all lists of one expression below an AND or OR, so that
//! nothing is left for it.

use std::collections::{HashMap, HashSet};

use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::split_binary_owned;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;

use crate::exact::Canonical;
use crate::expressions::balanced;

/// The rule.
#[derive(Debug)]
pub(crate) struct InLists;

impl AnalyzerRule for InLists {
    fn name(&self) -> &str {
        "in_lists"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(in_plan)?.data)
    }
}

fn in_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expression| {
        // The simplifier converts `x = 1 OR x = 2` to a list, too.
        if !expression.exists(|e| Ok(matches!(e, Expr::InList(_)) || is_binary(e, Operator::Or)))? {
            return Ok(Transformed::no(expression));
        }
        let name = names.save(&expression);
        Ok(Transformed::yes(name.restore(joined(expression)?)))
    })
}

fn is_binary(expression: &Expr, wanted: Operator) -> bool {
    matches!(expression, Expr::BinaryExpr(BinaryExpr { op, .. }) if *op == wanted)
}

/// Merges the lists of an expression, in which NOT has been moved to the leaves.
fn joined(expression: Expr) -> Result<Expr> {
    match expression {
        Expr::Not(inner) => not(*inner),
        Expr::InList(list) if !list.expr.is_volatile() => Ok(as_values(list)),
        Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) => {
            let mut parts = vec![];
            for part in split_binary_owned(expression, op) {
                parts.extend(split_binary_owned(joined(part)?, op));
            }
            Ok(all(join_lists(parts, op), op))
        }
        other => Ok(other.map_children(|child| joined(child).map(Transformed::yes))?.data),
    }
}

fn not(inner: Expr) -> Result<Expr> {
    match inner {
        Expr::InList(list) => joined(Expr::InList(InList { negated: !list.negated, ..list })),
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let other = if op == Operator::And { Operator::Or } else { Operator::And };
            let (left, right) = (Box::new(Expr::Not(left)), Box::new(Expr::Not(right)));
            joined(Expr::BinaryExpr(BinaryExpr::new(left, other, right)))
        }
        Expr::Not(twice) => joined(*twice),
        other => Ok(Expr::Not(Box::new(joined(other)?))),
    }
}

fn all(parts: Vec<Expr>, op: Operator) -> Expr {
    balanced(parts, op).unwrap_or_else(unknown)
}

fn unknown() -> Expr {
    Expr::Literal(ScalarValue::Boolean(None), None)
}

/// A list that contains only values. A NULL in it becomes a separate condition, and columns are compared one by one.
fn as_values(list: InList) -> Expr {
    let InList { expr, list, negated } = list;
    let list: Vec<Expr> = list.into_iter().map(folded).collect();
    let op = if negated { Operator::And } else { Operator::Or };
    if list.iter().any(|e| e.any_column_refs() || is_float_zero(e)) {
        let compared = |e: Expr| if negated { (*expr).clone().not_eq(e) } else { (*expr).clone().eq(e) };
        return all(list.into_iter().map(compared).collect(), op);
    }
    let before = list.len();
    let values: Vec<Expr> = list.into_iter().filter(|e| !is_null(e)).collect();
    let nulls = values.len() < before;
    match (values.is_empty(), nulls) {
        (true, true) => unknown(),
        (_, false) => Expr::InList(InList::new(expr, values, negated)),
        (false, true) => all(vec![Expr::InList(InList::new(expr, values, negated)), unknown()], op),
    }
}

fn is_null(expression: &Expr) -> bool {
    matches!(expression, Expr::Literal(value, _) if value.is_null())
}

/// A literal zero, or an expression that could be one. The two float zeros are equal, but differ as literals.
fn is_float_zero(expression: &Expr) -> bool {
    match expression {
        Expr::ScalarFunction(call) => call.func.inner().is::<Canonical>(),
        Expr::Literal(ScalarValue::Float64(Some(v)), _) => *v == 0.0,
        Expr::Literal(ScalarValue::Float32(Some(v)), _) => *v == 0.0,
        _ => false,
    }
}

/// A cast of a literal as a literal.
fn folded(expression: Expr) -> Expr {
    if let Expr::Cast(Cast { expr, field }) = &expression
        && let Expr::Literal(value, _) = expr.as_ref()
        && let Ok(value) = value.cast_to(field.data_type())
    {
        return Expr::Literal(value, None);
    }
    expression
}

/// The lists over one expression in an AND or OR.
struct Lists {
    of: Expr,
    /// The position of the first list.
    at: usize,
    within: Option<Values>,
    without: Option<Values>,
}

/// Distinct values, in their original order.
#[derive(Default)]
struct Values {
    list: Vec<Expr>,
    known: HashSet<Expr>,
}

impl Values {
    fn unite(&mut self, values: Vec<Expr>) {
        for value in values {
            if self.known.insert(value.clone()) {
                self.list.push(value);
            }
        }
    }

    fn intersect(&mut self, values: Vec<Expr>) {
        let other: HashSet<Expr> = values.into_iter().collect();
        self.list.retain(|value| other.contains(value));
        self.known.retain(|value| other.contains(value));
    }
}

/// The parts of an AND or OR in which all lists over one expression are merged into one list, or one IN and one NOT IN.
fn join_lists(parts: Vec<Expr>, op: Operator) -> Vec<Expr> {
    let mut found: Vec<Lists> = vec![];
    let mut places: HashMap<Expr, usize> = HashMap::new();
    let mut kept: Vec<(usize, Expr)> = vec![];
    for (at, part) in parts.into_iter().enumerate() {
        let list = match as_list(part, op) {
            Ok(list) => list,
            Err(part) => {
                kept.push((at, part));
                continue;
            }
        };
        let place = *places.entry((*list.expr).clone()).or_insert_with(|| {
            found.push(Lists { of: (*list.expr).clone(), at, within: None, without: None });
            found.len() - 1
        });
        let lists = &mut found[place];
        let side = if list.negated { &mut lists.without } else { &mut lists.within };
        // AND intersects IN lists, and OR intersects NOT IN lists; otherwise they are united.
        let intersects = (op == Operator::And) != list.negated;
        match side {
            Some(values) if intersects => values.intersect(list.list),
            side => side.get_or_insert_default().unite(list.list),
        }
    }
    kept.extend(found.into_iter().map(|lists| (lists.at, one(lists, op))));
    kept.sort_by_key(|(at, _)| *at);
    kept.into_iter().map(|(_, part)| part).collect()
}

/// A part as a list. Below an OR, `column = value` is a list of one value.
fn as_list(part: Expr, op: Operator) -> std::result::Result<InList, Expr> {
    match part {
        Expr::InList(list) if !list.expr.is_volatile() && list.list.iter().all(|e| matches!(e, Expr::Literal(..))) => {
            Ok(list)
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right })
            if op == Operator::Or
                && matches!(*left, Expr::Column(_))
                && matches!(*right, Expr::Literal(..))
                && !is_null(&right)
                && !is_float_zero(&right) =>
        {
            Ok(InList::new(left, vec![*right], false))
        }
        other => Err(other),
    }
}

/// The condition that is equivalent to the merged lists over one expression.
fn one(lists: Lists, op: Operator) -> Expr {
    let Lists { of, within, without, .. } = lists;
    let list = |values: Vec<Expr>, negated: bool| match (values.len(), negated) {
        // Without values, IN is false and NOT IN is true, but unknown if the expression is NULL.
        (0, false) => of.clone().is_null().and(unknown()),
        (0, true) => of.clone().is_not_null().or(unknown()),
        (1, false) => of.clone().eq(values.into_iter().next().unwrap_or_else(unknown)),
        (1, true) => of.clone().not_eq(values.into_iter().next().unwrap_or_else(unknown)),
        _ => Expr::InList(InList::new(Box::new(of.clone()), values, negated)),
    };
    match (within, without) {
        (Some(within), Some(without)) if op == Operator::And => {
            list(within.list.into_iter().filter(|e| !without.known.contains(e)).collect(), false)
        }
        (within, without) => {
            let within = within.map(|values| list(values.list, false));
            let parts = within.into_iter().chain(without.map(|values| list(values.list, true)));
            all(parts.collect(), op)
        }
    }
}
