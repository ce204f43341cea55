//! Scripts: the statements of a text, without parsing them.

use std::borrow::Cow;

use crate::error::SyntaxError;
use crate::lexer::{Lexer, Op, Token, TokenKind, lex};
use crate::parser::unquoted;
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

/// The first words of a text, in upper case: as many as stand there without quotes and signs between them, at most `count`.
pub fn first_words(text: &str, count: usize) -> Vec<String> {
    let words = Lexer::new(text).map_while(|token| match token {
        Ok(Token { kind: TokenKind::Word(_), span }) => Some(span.of(text).to_ascii_uppercase()),
        _ => None,
    });
    words.take(count).collect()
}

/// Words that may stand between CREATE and SECRET.
const BEFORE_SECRET: [&str; 6] = ["OR", "REPLACE", "TEMP", "TEMPORARY", "PERSISTENT", "LOCAL"];
/// Words at the beginning of a statement that are searched for CREATE SECRET, which may stand behind EXPLAIN.
const SEARCHED_WORDS: usize = 12;

/// A statement without what it keeps secret: of CREATE SECRET, which need not read as SQL, what stands before its options.
pub fn without_secrets(text: &str) -> Cow<'_, str> {
    // Most statements begin with another letter than CREATE, EXPLAIN, PREPARE and comments.
    if !matches!(text.trim_start().as_bytes().first(), Some(b'c' | b'C' | b'e' | b'E' | b'p' | b'P' | b'-' | b'/')) {
        return Cow::Borrowed(text);
    }
    let words = first_words(text, SEARCHED_WORDS);
    let mut behind_create = words.iter().skip_while(|word| *word != "CREATE").skip(1);
    let word = behind_create.find(|word| !BEFORE_SECRET.contains(&word.as_str()));
    match word.is_some_and(|word| word == "SECRET") {
        true => Cow::Owned(format!("{}(…)", text.split(['(', '\'']).next().unwrap_or_default())),
        false => Cow::Borrowed(text),
    }
}

/// The names and other words of a text, as they are folded, each with whether it stands before a point.
pub fn names_in(text: &str) -> impl Iterator<Item = (String, bool)> {
    let mut tokens = Lexer::new(text).map_while(Result::ok).peekable();
    let next = move || {
        let token = tokens.next()?;
        let is_qualifier = tokens.peek().is_some_and(|next| next.kind == TokenKind::Op(Op::Dot));
        Some(name_of(token, text).map(|name| (name, is_qualifier)))
    };
    std::iter::from_fn(next).flatten()
}

/// The name or other word that a token is.
fn name_of(token: Token, text: &str) -> Option<String> {
    match token.kind {
        TokenKind::Word(_) => Some(token.span.of(text).to_lowercase()),
        TokenKind::QuotedName => Some(unquoted(token.span.of(text), '"')),
        _ => None,
    }
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
    fn the_first_words_are_read_alone() {
        assert_eq!(first_words("select  /* c */ Distinct on (a)", 4), ["SELECT", "DISTINCT", "ON"]);
        assert_eq!(first_words("\"select\" a", 2), [""; 0]);
        assert_eq!(first_words("commit 'x", 1), ["COMMIT"]);
    }

    #[test]
    fn secrets_are_left_out() {
        for (text, shown) in [
            ("create secret s (type s3, secret 'X')", "create secret s (…)"),
            ("  -- c\n CREATE OR REPLACE TEMP SECRET(KEY_ID 'X'", "  -- c\n CREATE OR REPLACE TEMP SECRET(…)"),
            ("EXPLAIN CREATE PERSISTENT SECRET 'X'", "EXPLAIN CREATE PERSISTENT SECRET (…)"),
            ("CREATE TABLE secret (a INT)", "CREATE TABLE secret (a INT)"),
            ("DROP SECRET s", "DROP SECRET s"),
            ("SELECT 'create secret'", "SELECT 'create secret'"),
        ] {
            assert_eq!(without_secrets(text), shown);
        }
    }

    #[test]
    fn names_are_found_in_front_of_points() {
        let found: Vec<(String, bool)> = names_in("SELECT \"A\".b, 'c.d' FROM Public . t").collect();
        let found: Vec<(&str, bool)> =
            found.iter().map(|(name, is_qualifier)| (name.as_str(), *is_qualifier)).collect();
        assert_eq!(
            found,
            [("select", false), ("A", true), ("b", false), ("from", false), ("public", true), ("t", false)]
        );
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
