//! Statements with literals as statements with parameters: `… WHERE id = 5` as `… WHERE id = $1` with the value 5. So what is
//! known of one statement is known of all that differ only in such values.

use crate::keyword::Keyword as K;
use crate::lexer::{Lexer, Op, TextForm, Token, TokenKind, lex};
use crate::parser::unquoted;

/// Longer statements are left as they are.
const TOKENS_MAX: usize = 200;

/// A literal that became a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lifted {
    /// An integer, with its sign.
    Integer(i64),
    /// A text.
    Text(String),
}

/// The statement with parameters instead of its integers and texts, and these. `None` if it has none, has parameters
/// itself, or has a literal in another place than behind an operator, a comma or a parenthesis, where its meaning
/// is not that of a value.
pub fn lift_literals(text: &str) -> Option<(String, Vec<Lifted>)> {
    // A long statement is not read to its end.
    let tokens: Vec<Token> = Lexer::new(text).take(TOKENS_MAX + 1).collect::<Result<_, _>>().ok()?;
    let begins = matches!(tokens.first()?.kind, TokenKind::Word(Some(K::SELECT | K::INSERT | K::UPDATE | K::DELETE)));
    if tokens.len() > TOKENS_MAX || !begins {
        return None;
    }
    let (mut lifted, mut values) = (String::with_capacity(text.len()), vec![]);
    for (at, token) in tokens.iter().enumerate() {
        if is_sign(&tokens, at) && tokens.get(at + 1).is_some_and(|next| next.kind == TokenKind::Number) {
            continue;
        }
        let value = match token.kind {
            TokenKind::Number => {
                let sign = if at.checked_sub(1).is_some_and(|at| is_sign(&tokens, at)) { "-" } else { "" };
                Some(Lifted::Integer(format!("{sign}{}", token.span.of(text)).parse().ok()?))
            }
            TokenKind::Text(TextForm::Plain) => Some(Lifted::Text(unquoted(token.span.of(text), '\''))),
            TokenKind::Word(_) | TokenKind::QuotedName => None,
            TokenKind::Op(
                Op::Comma | Op::Dot | Op::LeftParen | Op::RightParen | Op::Eq | Op::Plus | Op::Minus | Op::Star,
            ) => None,
            _ => return None,
        };
        if !lifted.is_empty() {
            lifted.push(' ');
        }
        let before = at.checked_sub(1).and_then(|at| tokens.get(at));
        match value {
            Some(_) if !before.is_some_and(|before| opens(before) || is_operator(before)) => return None,
            Some(value) => {
                values.push(value);
                lifted.push_str(&format!("${}", values.len()));
            }
            None => lifted.push_str(token.span.of(text)),
        }
    }
    (!values.is_empty()).then_some((lifted, values))
}

/// The text with `?` in place of each literal. Empty for text that is not SQL, because it may contain literals.
pub fn without_literals(text: &str) -> String {
    let lexed = lex(text);
    if lexed.error.is_some() {
        return String::new();
    }
    let (mut shown, mut end) = (String::with_capacity(text.len()), 0);
    for token in &lexed.tokens {
        shown.push_str(text.get(end..token.span.start as usize).unwrap_or_default());
        let is_literal = matches!(token.kind, TokenKind::Text(_) | TokenKind::Number);
        shown.push_str(if is_literal { "?" } else { token.span.of(text) });
        end = token.span.end as usize;
    }
    shown
}

/// Whether a minus is the sign of what follows.
fn is_sign(tokens: &[Token], at: usize) -> bool {
    let is_minus = tokens.get(at).is_some_and(|token| token.kind == TokenKind::Op(Op::Minus));
    is_minus && at.checked_sub(1).and_then(|at| tokens.get(at)).is_some_and(opens)
}

/// Whether a value can follow, with a sign.
fn opens(token: &Token) -> bool {
    matches!(token.kind, TokenKind::Op(Op::Eq | Op::Comma | Op::LeftParen))
}

fn is_operator(token: &Token) -> bool {
    matches!(token.kind, TokenKind::Op(Op::Plus | Op::Minus | Op::Star))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sql: &str, expected: Option<(&str, &str)>) {
        let found = lift_literals(sql).map(|(text, values)| {
            let shown = |value: &Lifted| match value {
                Lifted::Integer(number) => number.to_string(),
                Lifted::Text(text) => text.clone(),
            };
            (text, values.iter().map(shown).collect::<Vec<_>>().join("|"))
        });
        assert_eq!(found.as_ref().map(|(text, values)| (text.as_str(), values.as_str())), expected, "{sql}");
    }

    #[test]
    fn values_become_parameters() {
        check("SELECT * FROM t WHERE id = 5", Some(("SELECT * FROM t WHERE id = $1", "5")));
        check(
            "insert into \"T\" values (1, -2, 'it''s', NULL, true)",
            Some(("insert into \"T\" values ( $1 , $2 , $3 , NULL , true )", "1|-2|it's")),
        );
        check("UPDATE t SET a = a - 5 WHERE id = 7", Some(("UPDATE t SET a = a - $1 WHERE id = $2", "5|7")));
        check("UPDATE t SET a = a - -5 WHERE id = 7", Some(("UPDATE t SET a = a - - $1 WHERE id = $2", "5|7")));
        check("SELECT 1 FROM t WHERE id = 2", None);
        check("SELECT a FROM t WHERE id = 2 LIMIT 1", None);
        check("SELECT a FROM t WHERE id = 1.5", None);
        check("SELECT a FROM t WHERE id = 99999999999999999999", None);
        check("SELECT a FROM t WHERE d = DATE '2020-01-01'", None);
        check("SELECT a FROM t WHERE id = $1 AND a = 5", None);
        check("SELECT a FROM t WHERE id = '5'::int", None);
        check("SELECT a FROM t WHERE id > 5", None);
        check("SELECT a FROM t", None);
        check("VALUES (1)", None);
        check("SELECT a FROM t WHERE s = E'x'", None);
        check("SELECT a FROM t WHERE s = 'x", None);
        check(
            "SELECT a FROM t WHERE id = -9223372036854775808",
            Some(("SELECT a FROM t WHERE id = $1", "-9223372036854775808")),
        );
    }

    #[test]
    fn literals_are_hidden_and_nothing_else() {
        for (text, hidden) in [
            ("SELECT a, 'it''s' FROM \"t 1\" WHERE b = 1.5e3", "SELECT a, ? FROM \"t 1\" WHERE b = ?"),
            ("SELECT $$x$$ || E'a\\'b' || X'1F', $1", "SELECT ? || ? || ?, $1"),
            ("SELECT 'open", ""),
        ] {
            assert_eq!(without_literals(text), hidden, "{text}");
        }
    }
}
