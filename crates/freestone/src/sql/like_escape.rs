//! `LIKE … ESCAPE '/'`: in SQL, any one character may be the escape character. DataFusion only supports the backslash,
//! so patterns are rewritten before they are planned.

use datafusion::sql::sqlparser::ast::{self, Expr, Value, ValueWithSpan};
use datafusion::sql::sqlparser::parser::Parser;
use freestone_binder::patterns;

use crate::sql::dialect::SqlDialect;
use crate::sql::visitor;

/// Rewrites the patterns of all LIKEs with backslashes as the escape character.
pub(crate) fn rewrite(sql: &mut impl ast::VisitMut) {
    visitor::expressions_mut(sql, &mut |expr| {
        if let Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } = expr
            && let Some(escape) = escape_char.as_ref().and_then(text)
            && let Some(with_backslashes) = with_backslashes(pattern, escape)
        {
            **pattern = with_backslashes;
            *escape_char = None;
        }
    });
}

fn text(value: &ValueWithSpan) -> Option<&str> {
    match &value.value {
        Value::SingleQuotedString(text) => Some(text),
        _ => None,
    }
}

/// The pattern with backslashes in place of the escape character, which is one character, or empty for none.
fn with_backslashes(pattern: &Expr, escape: &str) -> Option<Expr> {
    let mut characters = escape.chars();
    let (escape, None) = (characters.next(), characters.next()) else { return None };
    if let Expr::Value(value) = pattern
        && let Some(known) = text(value)
    {
        return Some(Expr::value(Value::SingleQuotedString(patterns::with_backslashes(known, escape))));
    }
    // A pattern that is not a literal is rewritten when the statement runs.
    let doubled = format!(r"replace({pattern}, '\', '\\')");
    let call = match escape {
        Some('\\') => return Some(pattern.clone()),
        None => doubled,
        // In a character class, every character except ^, which is escaped, represents itself.
        Some(escape) => {
            let escape = escape.to_string().replace('\'', "''").replace('^', r"\^");
            format!(r"regexp_replace({doubled}, '[{escape}](.)', '\\\1', 'gs')")
        }
    };
    Parser::new(&SqlDialect).try_with_sql(&call).ok()?.parse_expr().ok()
}
