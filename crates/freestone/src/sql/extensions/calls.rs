//! Function calls: `x.f(y)`, which means `f(x, y)`, function names with a schema, and lambdas written with an arrow.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
    ObjectNamePart, OrderBy, OrderByKind, Query, SelectItem, SetExpr, TableFactor,
};

use crate::sql::expressions::lambda_of;
use crate::sql::fragments::{parsed_query, window};
use crate::sql::names::folded;

/// Schemas whose functions are ours. The names of functions of `pg_catalog` include the schema.
const SCHEMAS: [&str; 6] = ["main", "public", "freestone", "system", "pg_catalog", "information_schema"];

/// `list_transform` and `list_filter` with a lambda, which may also take the position.
pub(crate) const TRANSFORM_AT: &str = "freestone_transform_at";
pub(crate) const FILTER_AT: &str = "freestone_filter_at";

/// Functions that take a lambda.
const WITH_LAMBDAS: [&str; 14] = [
    "list_transform",
    "array_transform",
    "list_apply",
    "array_apply",
    "apply",
    "list_filter",
    "array_filter",
    "filter",
    "list_reduce",
    "array_reduce",
    "reduce",
    "array_any_match",
    "any_match",
    "list_any_match",
];

pub(super) fn rewrite(expr: &mut Expr) {
    if let Expr::Function(call) = expr
        && let Some(list) = list_of_rows(call)
    {
        *expr = list;
        return;
    }
    match expr {
        Expr::Function(call) => {
            method(call);
            lambdas(call);
        }
        Expr::CompoundFieldAccess { root, access_chain } => {
            if let Some(called) = chained(root, access_chain) {
                *expr = called;
            }
        }
        _ => {}
    }
}

/// `ARRAY(query)`: the values of the query's only column as a list, in the order of its ORDER BY.
fn list_of_rows(call: &Function) -> Option<Expr> {
    let FunctionArguments::Subquery(query) = &call.args else { return None };
    if !call.name.to_string().eq_ignore_ascii_case("array") {
        return None;
    }
    let mut inner = query.clone();
    let order = ordered(&mut inner)?;
    let (columns, order) = if order { ("__c, __n", " ORDER BY __n") } else { ("__c", "") };
    let text = format!("SELECT coalesce(list(__c{order}), []) FROM (SELECT 1) AS __list ({columns})");
    let mut written = parsed_query(&text).ok()?;
    let SetExpr::Select(select) = written.body.as_mut() else { return None };
    let Some(TableFactor::Derived { subquery, .. }) = select.from.first_mut().map(|from| &mut from.relation) else {
        return None;
    };
    *subquery = inner;
    Some(Expr::Subquery(written))
}

/// Adds the number of each row in the query's order as a second column. Returns whether the query has an order; `None` if
/// it cannot be kept.
fn ordered(query: &mut Query) -> Option<bool> {
    let keys = match &query.order_by {
        None => return Some(false),
        Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) => keys,
        Some(_) => return None,
    };
    let mut keys = keys.clone();
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] = select.projection.as_slice()
    else {
        return None;
    };
    let alias = match &select.projection[0] {
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        _ => None,
    };
    for key in &mut keys {
        let is_item = match &key.expr {
            Expr::Value(_) => true,
            Expr::Identifier(name) => alias.as_ref().is_some_and(|alias| *alias == folded(name)),
            _ => false,
        };
        if is_item {
            key.expr = item.clone();
        }
    }
    if select.distinct.is_some() {
        return None;
    }
    let number = window("row_number", vec![], vec![], keys);
    select.projection.push(SelectItem::ExprWithAlias { expr: number, alias: Ident::new("__n") });
    Some(true)
}

/// `column.f(x)`.
fn method(call: &mut Function) {
    let [before @ .., last] = call.name.0.as_slice() else { return };
    let idents: Option<Vec<Ident>> = before.iter().map(|part| part.as_ident().cloned()).collect();
    let Some(mut idents) = idents.filter(|idents| !idents.is_empty()) else { return };
    let last = last.clone();
    if SCHEMAS.contains(&folded(&idents[0]).as_str()) {
        if idents.len() == 1 && !matches!(folded(&idents[0]).as_str(), "pg_catalog" | "information_schema") {
            call.name = ObjectName(vec![last]);
        }
        return;
    }
    let is_columns = matches!(&last, ObjectNamePart::Identifier(name) if folded(name) == "columns");
    if is_columns {
        return;
    }
    let FunctionArguments::List(list) = &mut call.args else { return };
    let first = match idents.len() {
        1 => Expr::Identifier(idents.remove(0)),
        _ => Expr::CompoundIdentifier(idents),
    };
    list.args.insert(0, FunctionArg::Unnamed(FunctionArgExpr::Expr(first)));
    call.name = ObjectName(vec![last]);
}

/// Converts `(expression).f(x)` and `'text'.f(x)`, also chains of such calls. `None` if the chain does not call a
/// function.
fn chained(root: &Expr, accesses: &[AccessExpr]) -> Option<Expr> {
    let is_call = |access: &AccessExpr| matches!(access, AccessExpr::Dot(Expr::Function(_)));
    if !accesses.iter().any(is_call) {
        return None;
    }
    let mut value = root.clone();
    for access in accesses {
        value = match access {
            AccessExpr::Dot(Expr::Function(call)) => {
                let mut call = call.clone();
                if let FunctionArguments::List(list) = &mut call.args {
                    list.args.insert(0, FunctionArg::Unnamed(FunctionArgExpr::Expr(value)));
                }
                lambdas(&mut call);
                Expr::Function(call)
            }
            other => match value {
                Expr::CompoundFieldAccess { root, mut access_chain } => {
                    access_chain.push(other.clone());
                    Expr::CompoundFieldAccess { root, access_chain }
                }
                value => Expr::CompoundFieldAccess { root: Box::new(value), access_chain: vec![other.clone()] },
            },
        };
    }
    Some(value)
}

/// Converts arguments `x -> …` of functions that take lambdas.
pub(super) fn lambdas(call: &mut Function) {
    let Some(name) = call.name.0.last().and_then(|part| part.as_ident()).map(folded) else { return };
    if !WITH_LAMBDAS.contains(&name.as_str()) {
        return;
    }
    let FunctionArguments::List(list) = &mut call.args else { return };
    let mut has_lambda = false;
    for argument in list.args.iter_mut().skip(1) {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument else { continue };
        if let Some((names, body)) = arrow(expr) {
            *expr = lambda_of(names, body);
        }
        has_lambda |= matches!(expr, Expr::Lambda(_));
    }
    let name = match name.as_str() {
        // Ours claims what it makes.
        "apply" | "list_apply" | "array_apply" | "list_transform" | "array_transform" => TRANSFORM_AT,
        // Ours drops the items for which the condition is NULL, whatever its type.
        "filter" | "list_filter" | "array_filter" => FILTER_AT,
        _ => return,
    };
    if has_lambda {
        call.name = ObjectName::from(vec![Ident::new(name)]);
    }
}

/// The parameters and the body of `x -> body`. The arrow has a higher precedence than most operators, so it may be deep
/// in the left part of the body.
fn arrow(expr: &Expr) -> Option<(Vec<Ident>, Expr)> {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::Arrow, right } => {
            let names = match left.as_ref() {
                Expr::Identifier(name) => Some(vec![name.clone()]),
                Expr::Nested(inner) => match inner.as_ref() {
                    Expr::Identifier(name) => Some(vec![name.clone()]),
                    _ => None,
                },
                Expr::Tuple(names) => names
                    .iter()
                    .map(|name| match name {
                        Expr::Identifier(name) => Some(name.clone()),
                        _ => None,
                    })
                    .collect(),
                _ => None,
            };
            if let Some(names) = names {
                return Some((names, (**right).clone()));
            }
            deeper(left, |left| Expr::BinaryOp { left, op: BinaryOperator::Arrow, right: right.clone() })
        }
        Expr::BinaryOp { left, op, right } => {
            deeper(left, |left| Expr::BinaryOp { left, op: op.clone(), right: right.clone() })
        }
        Expr::IsNull(inner) => deeper(inner, Expr::IsNull),
        Expr::IsNotNull(inner) => deeper(inner, Expr::IsNotNull),
        Expr::IsDistinctFrom(left, right) => deeper(left, |left| Expr::IsDistinctFrom(left, right.clone())),
        Expr::IsNotDistinctFrom(left, right) => deeper(left, |left| Expr::IsNotDistinctFrom(left, right.clone())),
        Expr::InList { expr, list, negated } => {
            deeper(expr, |expr| Expr::InList { expr, list: list.clone(), negated: *negated })
        }
        Expr::Between { expr, negated, low, high } => {
            deeper(expr, |expr| Expr::Between { expr, negated: *negated, low: low.clone(), high: high.clone() })
        }
        Expr::Like { negated, any, expr, pattern, escape_char } => deeper(expr, |expr| Expr::Like {
            negated: *negated,
            any: *any,
            expr,
            pattern: pattern.clone(),
            escape_char: escape_char.clone(),
        }),
        _ => None,
    }
}

fn deeper(left: &Expr, with: impl FnOnce(Box<Expr>) -> Expr) -> Option<(Vec<Ident>, Expr)> {
    let (names, body) = arrow(left)?;
    Some((names, with(Box::new(body))))
}
