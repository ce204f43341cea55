//! Scripts: the statements of a text, without parsing them.

use crate::error::SyntaxError;
use crate::lexer::{Op, TokenKind, lex};
use crate::span::Span;

/// The places of the statements of a script, without their semicolons. Semicolons in texts, names and comments are none.
///
/// A text or comment without an end makes the rest one statement, so that those before it can be executed.
pub fn split_statements(text: &str) -> Vec<Span> {
    let lexed = lex(text);
    let mut statements = vec![];
    let mut current: Option<Span> = None;
    for token in &lexed.tokens {
        match token.kind {
            TokenKind::Op(Op::Semicolon) | TokenKind::End => statements.extend(current.take()),
            _ => current = Some(current.map_or(token.span, |start| start.to(token.span))),
        }
    }
    let Some(error) = lexed.error else { return statements };
    // The last statement has no semicolon behind it, if there is one, and goes on.
    let end = text.trim_end().len() as u32;
    let ends = lexed.tokens.iter().rev().nth(1).is_none_or(|last| last.kind == TokenKind::Op(Op::Semicolon));
    let start = if ends { error.span } else { statements.pop().unwrap_or(error.span) };
    statements.push(start.to(Span::new(end, end)));
    statements
}

/// Whether a script ends behind a semicolon, so that it can be executed. An interactive shell asks this before it does.
///
/// A text that cannot be read, and not be completed either, is complete: executing it gives the error.
pub fn is_complete(text: &str) -> bool {
    let lexed = lex(text);
    match lexed.error {
        Some(SyntaxError { message, .. }) => !message.starts_with("unterminated"),
        None => lexed.tokens.iter().rev().nth(1).is_none_or(|last| last.kind == TokenKind::Op(Op::Semicolon)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(script: &str, expected: &[&str]) {
        let found: Vec<&str> = split_statements(script).into_iter().map(|span| span.of(script)).collect();
        assert_eq!(found, expected, "{script}");
    }

    #[test]
    fn scripts_are_split_at_semicolons_only() {
        check("", &[]);
        check(" ; ;; -- nothing\n", &[]);
        check(
            "select 1;\n\nselect ';' -- ; no\n, 2 ; /* ; */ select $$;$$",
            &["select 1", "select ';' -- ; no\n, 2", "select $$;$$"],
        );
        check("select 'é;', \"a;b\"; select 'it''s;'", &["select 'é;', \"a;b\"", "select 'it''s;'"]);
    }

    #[test]
    fn an_open_quote_leaves_the_statements_before_it() {
        check("select 1; select\n 'abc ", &["select 1", "select\n 'abc"]);
        check("select 1; 'abc;", &["select 1", "'abc;"]);
        check("'abc", &["'abc"]);
        assert!(!is_complete("select 'abc;") && !is_complete("select 1") && !is_complete("/* a;"));
        assert!(is_complete("select 1; -- done\n") && is_complete("") && is_complete("select ` "));
    }
}
