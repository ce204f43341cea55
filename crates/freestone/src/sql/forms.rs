//! Rewrites forms of SQL that DataFusion plans differently or not at all: `SIMILAR TO`, whose pattern is that of SQL
//! and must match the whole text; the operand of `IS DISTINCT FROM`; fields of structs; and rows before IN (SELECT …).

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Value};
use freestone_binder::patterns::similar;

/// The function that converts a pattern of SIMILAR TO to a regular expression.
pub(crate) const SIMILAR: &str = "freestone_similar";
use super::fragments::{call, parsed_query, quoted};
use crate::sql::visitor;

/// Rewrites all such forms.
pub(crate) fn rewrite(sql: &mut impl ast::VisitMut) {
    visitor::expressions_mut(sql, &mut |expr| match expr {
        Expr::SimilarTo { pattern, escape_char, .. } => {
            let escape = match escape_char.as_ref().map(|value| &value.value) {
                None => Some('\\'),
                Some(Value::SingleQuotedString(text)) => text.chars().next(),
                Some(_) => return,
            };
            match pattern.as_mut() {
                Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)) => {
                    if let Value::SingleQuotedString(text) = &mut value.value {
                        *text = similar(text, escape);
                    }
                }
                other => {
                    let known = std::mem::replace(other, Expr::value(Value::Null));
                    let escape = escape.map(String::from).unwrap_or_default();
                    let escape = Expr::value(Value::SingleQuotedString(escape));
                    *other = call(SIMILAR, vec![known, escape]);
                }
            }
            *escape_char = None;
        }
        Expr::InSubquery { expr: row, subquery, .. } => one_row_value(row, subquery),
        Expr::BinaryOp { left, op: ast::BinaryOperator::PGStartsWith, right } => {
            *expr = call("starts_with", vec![(**left).clone(), (**right).clone()]);
        }
        Expr::Function(function) => match function.name.to_string().to_ascii_lowercase().as_str() {
            "regexp_like" | "regexp_match" => filled_flags(function, 2),
            "grouping_id" => function.name = ast::ObjectName::from(vec![ast::Ident::new("grouping")]),
            _ => named_values(function),
        },
        Expr::UnaryOp { op: ast::UnaryOperator::Not, expr: inner } => {
            if let Some(all) = not_any(inner) {
                *expr = all;
            }
        }
        Expr::AnyOp { left, compare_op, right, .. } => {
            if let Some(written) = any_of_list(left, compare_op, right) {
                *expr = written;
            }
        }
        Expr::CompoundFieldAccess { root, access_chain } => {
            access_chain.iter_mut().for_each(closed_slice);
            quoted_fields(root, access_chain);
        }
        _ => {}
    });
}

/// `x = ANY (list)` so that it is NULL, not false, if the list has a NULL and no equal item: as IN, or as NOT (x <> ALL (list)).
/// Lists in parameters stay as they are, because their items are tested on encoded data.
fn any_of_list(left: &Expr, operator: &ast::BinaryOperator, right: &Expr) -> Option<Expr> {
    let opposite = opposite(operator)?;
    match without_parentheses(right) {
        Expr::Subquery(_) => None,
        Expr::Value(value) if matches!(value.value, Value::Placeholder(_)) => None,
        Expr::Array(items) if *operator == ast::BinaryOperator::Eq && !items.elem.is_empty() => {
            Some(Expr::InList { expr: Box::new(left.clone()), list: items.elem.clone(), negated: false })
        }
        _ => {
            let (left, right) = (Box::new(left.clone()), Box::new(right.clone()));
            let all = Expr::AllOp { left, compare_op: opposite, right };
            Some(Expr::UnaryOp { op: ast::UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(all))) })
        }
    }
}

/// `NOT (x = ANY (list))` as `x <> ALL (list)`, which tells NULL from false.
fn not_any(inner: &Expr) -> Option<Expr> {
    let Expr::AnyOp { left, compare_op, right, .. } = without_parentheses(inner) else { return None };
    let is_query = matches!(without_parentheses(right), Expr::Subquery(_));
    let compare_op = opposite(compare_op).filter(|_| !is_query)?;
    Some(Expr::AllOp { left: left.clone(), compare_op, right: right.clone() })
}

fn without_parentheses(mut expr: &Expr) -> &Expr {
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    expr
}

/// The comparison that is true where the other is false.
fn opposite(operator: &ast::BinaryOperator) -> Option<ast::BinaryOperator> {
    use ast::BinaryOperator::*;
    Some(match operator {
        Eq => NotEq,
        NotEq => Eq,
        Lt => GtEq,
        LtEq => Gt,
        Gt => LtEq,
        GtEq => Lt,
        _ => return None,
    })
}

/// `[:2]` and `[2:]` with both bounds, as DataFusion takes them: from the first value and to the last.
fn closed_slice(access: &mut ast::AccessExpr) {
    let ast::AccessExpr::Subscript(ast::Subscript::Slice { lower_bound, upper_bound, .. }) = access else { return };
    let number = |text: &str| Expr::value(Value::Number(text.to_owned(), false));
    lower_bound.get_or_insert_with(|| number("1"));
    upper_bound.get_or_insert_with(|| Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr: Box::new(number("1")) });
}

/// `.name` after an expression, with the name as a text, as DataFusion takes it. After a name it may be that of a column.
fn quoted_fields(root: &Expr, accesses: &mut [ast::AccessExpr]) {
    let mut is_value = !matches!(root, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    for access in accesses {
        match access {
            ast::AccessExpr::Dot(Expr::Identifier(name)) if is_value => {
                let text = if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() };
                *access = ast::AccessExpr::Dot(Expr::value(Value::SingleQuotedString(text)));
            }
            ast::AccessExpr::Dot(_) => {}
            ast::AccessExpr::Subscript(_) => is_value = true,
        }
    }
}

/// Gives the columns of subqueries among the arguments of a call names of their own, because DataFusion distinguishes
/// aggregates by name: `sum((SELECT max(x) FROM a)), sum((SELECT max(x) FROM b))`.
fn named_values(function: &mut ast::Function) {
    visitor::each_own_expr(&mut function.args, &mut |expr| {
        let Expr::Subquery(query) = expr else { return };
        let text = query.to_string();
        let ast::SetExpr::Select(select) = query.body.as_mut() else { return };
        if let [item @ (ast::SelectItem::UnnamedExpr(_) | ast::SelectItem::ExprWithAlias { .. })] =
            select.projection.as_mut_slice()
            && let ast::SelectItem::UnnamedExpr(value) | ast::SelectItem::ExprWithAlias { expr: value, .. } = item
        {
            *item = ast::SelectItem::ExprWithAlias { expr: value.clone(), alias: quoted(&text) };
        }
    });
}

/// Converts `(a, b) IN (SELECT …)` to the comparison of a single value that contains both.
fn one_row_value(row: &mut Expr, subquery: &mut Box<ast::Query>) {
    let Expr::Tuple(values) = row else { return };
    let names: Vec<String> = (0..values.len()).map(|at| format!("__row_{at}")).collect();
    let names = names.join(", ");
    let Ok(mut wrapped) = parsed_query(&format!("SELECT struct({names}) FROM (SELECT 1) AS __row ({names})")) else {
        return;
    };
    let ast::SetExpr::Select(select) = wrapped.body.as_mut() else { return };
    let relation = select.from.first_mut().map(|from| &mut from.relation);
    let Some(ast::TableFactor::Derived { subquery: inner, .. }) = relation else { return };
    std::mem::swap(inner, subquery);
    *subquery = wrapped;
    *row = Expr::Struct { values: std::mem::take(values), fields: vec![] };
}

/// Replaces empty flags of a regular expression by `u`, which is the default, because DataFusion does not accept empty
/// text.
fn filled_flags(function: &mut ast::Function, at: usize) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(flags))) = list.args.get_mut(at) else { return };
    if let Expr::Value(value) = flags
        && matches!(&value.value, Value::SingleQuotedString(text) if !text.is_empty())
    {
        return;
    }
    let text = |text: &str| Expr::value(Value::SingleQuotedString(text.to_owned()));
    let given = std::mem::replace(flags, Expr::value(Value::Null));
    *flags = match &given {
        Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)) => text("u"),
        _ => Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: Some(Box::new(given.clone())),
            conditions: vec![ast::CaseWhen { condition: text(""), result: text("u") }],
            else_result: Some(Box::new(given)),
        },
    };
}
