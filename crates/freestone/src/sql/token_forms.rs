//! Forms that are replaced token by token, before a statement is parsed: integers in other bases (`0x1F`, `0b101`,
//! `0o17`), FILTER without WHERE, UNLOGGED, and the names of columns and WITH [NO] DATA in CREATE TABLE AS.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

/// The type of a generated column that is declared without one.
pub(crate) const COMPUTED: &str = "freestone_computed";

/// The name of the query in CREATE TABLE AS with names of columns.
const NAMED: &str = "__named";

/// Replaces integers in other bases by decimal ones. The tokens include those of whitespace.
pub(crate) fn decimal(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for token in tokens {
        match &token.token {
            Token::HexStringLiteral(digits) if is_number(token.span, digits) => match in_base(digits, 16) {
                Some(number) => out.push(TokenWithSpan::new(number, token.span)),
                None => out.push(token),
            },
            Token::Word(word) if word.quote_style.is_none() => match out.last_mut() {
                Some(zero) if zero.span.end == token.span.start && is_zero(&zero.token) => {
                    match word.value.split_at_checked(1).and_then(|(base, digits)| prefixed(base, digits)) {
                        Some(number) => *zero = TokenWithSpan::new(number, Span::new(zero.span.start, token.span.end)),
                        None => out.push(token),
                    }
                }
                _ => out.push(token),
            },
            _ => out.push(token),
        }
    }
    out
}

/// Whether a token of hexadecimal digits was written as `0x1F` and not as `X'1F'`, by its width.
fn is_number(span: Span, digits: &str) -> bool {
    let width = span.end.column.saturating_sub(span.start.column);
    span.start.line == span.end.line && width == digits.chars().count() as u64 + 2
}

fn is_zero(token: &Token) -> bool {
    matches!(token, Token::Number(digits, false) if digits == "0")
}

/// The number of the digits after `0b`, `0o` and `0X`, which the tokenizer does not read as numbers.
fn prefixed(base: &str, digits: &str) -> Option<Token> {
    match base {
        "x" | "X" => in_base(digits, 16),
        "b" | "B" => in_base(digits, 2),
        "o" | "O" => in_base(digits, 8),
        _ => None,
    }
}

fn in_base(digits: &str, base: u32) -> Option<Token> {
    let plain = digits.strip_prefix('_').unwrap_or(digits).replace('_', "");
    u128::from_str_radix(&plain, base).ok().map(|value| Token::Number(value.to_string(), false))
}

/// Replaces the other forms. The tokens are without those of whitespace.
pub(crate) fn written(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    created_as(with_types(as_methods(with_where(columns_of_table(without_by_position(without_unlogged(tokens)))))))
}

/// An unquoted word in upper case; empty for anything else.
fn word(token: Option<&TokenWithSpan>) -> String {
    match token.map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
        _ => String::new(),
    }
}

fn is(token: Option<&TokenWithSpan>, wanted: &Token) -> bool {
    token.is_some_and(|token| token.token == *wanted)
}

/// Writes `COLUMNS(t.* EXCLUDE (a))` as `t.COLUMNS(* EXCLUDE (a))`.
fn columns_of_table(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for at in 0..tokens.len().saturating_sub(5) {
        let is_star = is(tokens.get(at + 1), &Token::LParen)
            && matches!(tokens[at + 2].token, Token::Word(_))
            && is(tokens.get(at + 3), &Token::Period)
            && is(tokens.get(at + 4), &Token::Mul);
        let has_options = matches!(word(tokens.get(at + 5)).as_str(), "EXCLUDE" | "REPLACE" | "RENAME" | "ILIKE");
        if word(tokens.get(at)) == "COLUMNS" && is_star && has_options {
            tokens[at..at + 4].rotate_left(2);
        }
    }
    tokens
}

/// Writes `FILTER (condition)` behind a call as `FILTER (WHERE condition)`.
fn with_where(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let asks = |at: usize| {
        at > 0
            && word(tokens.get(at)) == "FILTER"
            && is(tokens.get(at - 1), &Token::RParen)
            && is(tokens.get(at + 1), &Token::LParen)
            && word(tokens.get(at + 2)) != "WHERE"
    };
    let at: Vec<usize> = (0..tokens.len()).filter(|at| asks(*at)).collect();
    if at.is_empty() {
        return tokens;
    }
    let mut out = Vec::with_capacity(tokens.len() + at.len());
    for (index, token) in tokens.into_iter().enumerate() {
        let span = token.span;
        out.push(token);
        if index > 0 && at.contains(&(index - 1)) {
            out.push(TokenWithSpan::new(Token::make_keyword("WHERE"), span));
        }
    }
    out
}

/// Makes words behind a point and before a parenthesis names of functions: `text.substr(2)`.
fn as_methods(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for at in 1..tokens.len() {
        if is(tokens.get(at - 1), &Token::Period)
            && is(tokens.get(at + 1), &Token::LParen)
            && let Token::Word(word) = &mut tokens[at].token
        {
            word.keyword = Keyword::NoKeyword;
        }
    }
    tokens
}

/// Removes UNLOGGED of a table, which allows that a crash loses its rows. None is lost here.
fn without_unlogged(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if word(tokens.first()) == "CREATE" && word(tokens.get(1)) == "UNLOGGED" && word(tokens.get(2)) == "TABLE" {
        tokens.remove(1);
    }
    tokens
}

/// Removes BY POSITION of an INSERT, which is what INSERT does.
fn without_by_position(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if word(tokens.first()) == "INSERT"
        && let Some(at) =
            (2..tokens.len().min(8)).find(|at| word(tokens.get(*at)) == "BY" && word(tokens.get(*at + 1)) == "POSITION")
    {
        tokens.drain(at..at + 2);
    }
    tokens
}

/// Gives columns `name AS (expression)` of CREATE TABLE a type, as the parser reads them.
fn with_types(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let Some(open) = name_of_table(&tokens).filter(|open| is(tokens.get(*open), &Token::LParen)) else { return tokens };
    let close = closing(&tokens, open);
    let mut depth = 0usize;
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 4);
    for (at, token) in tokens.iter().enumerate() {
        out.push(token.clone());
        if at < open || at > close {
            continue;
        }
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        let begins = at > open
            && depth == 1
            && matches!(tokens[at - 1].token, Token::LParen | Token::Comma)
            && matches!(token.token, Token::Word(_));
        let is_generated = word(tokens.get(at + 1)) == "GENERATED"
            || word(tokens.get(at + 1)) == "AS" && is(tokens.get(at + 2), &Token::LParen);
        if begins && is_generated {
            out.push(TokenWithSpan::new(Token::make_word(COMPUTED, None), token.span));
        }
    }
    out
}

/// Writes `CREATE TABLE t (a, b) AS query WITH NO DATA` as `CREATE TABLE t AS SELECT * FROM (query) AS q (a, b) LIMIT 0`.
fn created_as(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let Some(mut at) = name_of_table(&tokens) else { return tokens };
    let list = names(&tokens, at);
    let start = at;
    if let Some(end) = list {
        at = end;
    }
    let options = at;
    if word(tokens.get(at)) == "WITH" && is(tokens.get(at + 1), &Token::LParen) {
        at = closing(&tokens, at + 1) + 1;
    }
    if word(tokens.get(at)) != "AS" {
        return tokens;
    }
    let ends = |words: &[&str]| {
        let from = tokens.len().checked_sub(words.len());
        from.is_some_and(|from| from > at && words.iter().zip(from..).all(|(known, at)| word(tokens.get(at)) == *known))
    };
    let without_rows = ends(&["WITH", "NO", "DATA"]);
    let end = tokens.len() - if without_rows { 3 } else { usize::from(ends(&["WITH", "DATA"])) * 2 };
    tokens.truncate(end);
    if list.is_none() && !without_rows {
        return tokens;
    }
    let span = tokens[at].span;
    let mut out: Vec<TokenWithSpan> = tokens[..start].to_vec();
    let push = |out: &mut Vec<TokenWithSpan>, token| out.push(TokenWithSpan::new(token, span));
    out.extend_from_slice(&tokens[options..=at]);
    for token in [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM"), Token::LParen] {
        push(&mut out, token);
    }
    out.extend_from_slice(&tokens[at + 1..]);
    for token in [Token::RParen, Token::make_keyword("AS"), Token::make_word(NAMED, Some('"'))] {
        push(&mut out, token);
    }
    if list.is_some() {
        out.extend_from_slice(&tokens[start..options]);
    }
    if without_rows {
        push(&mut out, Token::make_keyword("LIMIT"));
        push(&mut out, Token::Number("0".into(), false));
    }
    out
}

/// The position after the name of a CREATE TABLE.
fn name_of_table(tokens: &[TokenWithSpan]) -> Option<usize> {
    if word(tokens.first()) != "CREATE" {
        return None;
    }
    let table = (1..tokens.len().min(5)).find(|at| word(tokens.get(*at)) == "TABLE")?;
    let mut at = table + 1;
    if word(tokens.get(at)) == "IF" {
        at += 3;
    }
    while matches!(tokens.get(at).map(|token| &token.token), Some(Token::Word(_))) {
        at += 1;
        if !is(tokens.get(at), &Token::Period) {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// The position after a list in parentheses that has nothing but names, if there is one.
fn names(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    if !is(tokens.get(open), &Token::LParen) {
        return None;
    }
    let mut at = open + 1;
    loop {
        if !matches!(tokens.get(at).map(|token| &token.token), Some(Token::Word(_))) {
            return None;
        }
        match tokens.get(at + 1).map(|token| &token.token) {
            Some(Token::Comma) => at += 2,
            Some(Token::RParen) => return Some(at + 2),
            _ => return None,
        }
    }
}

/// The position of the parenthesis that closes one.
fn closing(tokens: &[TokenWithSpan], open: usize) -> usize {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;
    use crate::sql::dialect::SqlDialect;

    fn check(sql: &str, expected: &str) {
        let tokens = |sql: &str| -> Vec<TokenWithSpan> {
            let tokens = Tokenizer::new(&SqlDialect, sql).tokenize_with_location().expect("SQL");
            let tokens = decimal(tokens).into_iter();
            tokens.filter(|t| !matches!(t.token, Token::Whitespace(_) | Token::EOF)).collect()
        };
        let text =
            |tokens: Vec<TokenWithSpan>| tokens.iter().map(|t| t.token.to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(text(written(tokens(sql))), text(tokens(expected)), "{sql}");
    }

    #[test]
    fn forms_are_replaced() {
        for (sql, expected) in [
            ("SELECT 0x1F, 0XfF, 0b101, 0o17, 0B1_1", "SELECT 31, 255, 5, 15, 3"),
            ("SELECT 0 b101, X'1F', 0b2", "SELECT 0 b101, X'1F', 0 b2"),
            ("SELECT sum(a) FILTER (a > 1), list.filter(x)", "SELECT sum(a) FILTER (WHERE a > 1), list.filter(x)"),
            ("SELECT sum(a) FILTER (WHERE a > 1)", "SELECT sum(a) FILTER (WHERE a > 1)"),
            (
                "CREATE TABLE t (a, \"B\") AS SELECT 1, 2",
                "CREATE TABLE t AS SELECT * FROM (SELECT 1, 2) AS \"__named\" (a, \"B\")",
            ),
            ("CREATE TABLE t (a INT, b INT)", "CREATE TABLE t (a INT, b INT)"),
            ("CREATE TABLE t AS SELECT 1 WITH DATA", "CREATE TABLE t AS SELECT 1"),
            (
                "CREATE TABLE s.t WITH (preset = 'row') AS SELECT 1 WITH NO DATA",
                "CREATE TABLE s.t WITH (preset = 'row') AS SELECT * FROM (SELECT 1) AS \"__named\" LIMIT 0",
            ),
        ] {
            check(sql, expected);
        }
    }
}
