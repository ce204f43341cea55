//! Forms of SQL that DataFusion reads otherwise or not at all, put in its words before they are planned: `mod(a, b)`, `SIMILAR
//! TO`, whose pattern is SQL's and covers the whole text, and the plural names of `date_trunc`.

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Value,
};

use crate::visitor;

/// Rewrites all such forms.
pub(crate) fn rewrite(sql: &mut impl ast::VisitMut) {
    visitor::expressions_mut(sql, &mut |expr| match expr {
        Expr::SimilarTo { pattern, escape_char, .. } => {
            let escape = match escape_char.as_ref().map(|value| &value.value) {
                None => Some('\\'),
                Some(Value::SingleQuotedString(text)) => text.chars().next(),
                Some(_) => return,
            };
            if let Expr::Value(value) = pattern.as_mut()
                && let Value::SingleQuotedString(text) = &mut value.value
            {
                *text = similar_as_regex(text, escape);
                *escape_char = None;
            }
        }
        Expr::Function(call) => match call.name.to_string().to_ascii_lowercase().as_str() {
            "mod" => {
                if let Some([a, b]) = arguments(call) {
                    let operand = |e: Expr| Box::new(Expr::Nested(Box::new(e)));
                    let (left, right) = (operand(a), operand(b));
                    let remainder = Expr::BinaryOp { left, op: BinaryOperator::Modulo, right };
                    *expr = Expr::Nested(Box::new(remainder));
                }
            }
            "date_trunc" => singular_part(call),
            _ => {}
        },
        _ => {}
    });
}

/// The arguments of a plain call of two.
fn arguments(call: &ast::Function) -> Option<[Expr; 2]> {
    let FunctionArguments::List(list) = &call.args else { return None };
    if call.over.is_some() || call.filter.is_some() {
        return None;
    }
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(a)), FunctionArg::Unnamed(FunctionArgExpr::Expr(b))] => {
            Some([a.clone(), b.clone()])
        }
        _ => None,
    }
}

/// `milliseconds` is `millisecond`, and so on.
fn singular_part(call: &mut ast::Function) {
    let FunctionArguments::List(list) = &mut call.args else { return };
    if let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))) = list.args.first_mut()
        && let Value::SingleQuotedString(text) = &mut value.value
        && let Some(singular) = text.strip_suffix(['s', 'S'])
    {
        *text = singular.to_owned();
    }
}

/// A pattern of SIMILAR TO as a regular expression of the whole text: `%` and `_` are any characters, and `| * + ? { } ( )
/// [ ]` mean what they do there; all else is itself.
fn similar_as_regex(pattern: &str, escape: Option<char>) -> String {
    let mut out = String::from("(?s)^(?:");
    let mut characters = pattern.chars();
    let mut in_class = false;
    while let Some(character) = characters.next() {
        match character {
            _ if Some(character) == escape => {
                if let Some(next) = characters.next() {
                    push_plain(&mut out, next);
                }
            }
            ']' => {
                in_class = false;
                out.push(']');
            }
            '[' if !in_class => {
                in_class = true;
                out.push('[');
            }
            '%' if !in_class => out.push_str(".*"),
            '_' if !in_class => out.push('.'),
            '|' | '*' | '+' | '?' | '{' | '}' | '(' | ')' | '^' | '-' | ':' if in_class => out.push(character),
            '|' | '*' | '+' | '?' | '{' | '}' | '(' | ')' => out.push(character),
            '[' => out.push_str(r"\["),
            other => push_plain(&mut out, other),
        }
    }
    out.push_str(")$");
    out
}

fn push_plain(out: &mut String, character: char) {
    if r".\+*?()|[]{}^$#&-~".contains(character) {
        out.push('\\');
    }
    out.push(character);
}
