//! Rewrites files with options in queries as calls: `FROM 'f.csv' (HEADER true)` and `read_csv('f.csv', header =>
//! true)` become `read_files('f.csv', 'HEADER', 'true')` and `read_csv('f.csv', 'header', 'true')`.
//!
//! The parser does not support options after a table name, and the planner drops the names of arguments. So the tokens
//! are changed before they are parsed.

use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

/// The functions that read files.
pub(crate) const FUNCTIONS: [&str; 11] = [
    "read_files",
    "read_csv",
    "read_csv_auto",
    "read_json",
    "read_json_auto",
    "read_ndjson",
    "read_parquet",
    "parquet_scan",
    "read_arrow",
    "scan_arrow",
    "read_xlsx",
];

/// A function that takes the same arguments.
pub(crate) const SNIFF: &str = "sniff_csv";

/// The tokens of a statement, in which files with options are calls.
pub(crate) fn written(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut written: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        let call = if is_file(&tokens, at) {
            named_file(&tokens, at)
        } else if is_function(&tokens, at) {
            function(&tokens, at)
        } else {
            None
        };
        match call {
            Some((call, end)) => {
                written.extend(call);
                at = end;
            }
            None => {
                written.push(tokens[at].clone());
                at += 1;
            }
        }
    }
    written
}

fn word(token: Option<&TokenWithSpan>) -> String {
    match token.map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
        Some(Token::Comma) => ",".to_owned(),
        _ => String::new(),
    }
}

/// Whether the token is a text at the position of a table name, followed by parentheses.
fn is_file(tokens: &[TokenWithSpan], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|at| tokens.get(at));
    matches!(tokens[at].token, Token::SingleQuotedString(_))
        && tokens.get(at + 1).is_some_and(|next| next.token == Token::LParen)
        && matches!(word(before).as_str(), "FROM" | "JOIN" | ",")
}

fn is_function(tokens: &[TokenWithSpan], at: usize) -> bool {
    let name = word(tokens.get(at));
    tokens.get(at + 1).is_some_and(|next| next.token == Token::LParen)
        && FUNCTIONS.iter().chain([&SNIFF]).any(|function| function.eq_ignore_ascii_case(&name))
}

/// Converts `'file' (name value, …)` to a call, and returns its end.
fn named_file(tokens: &[TokenWithSpan], at: usize) -> Option<(Vec<TokenWithSpan>, usize)> {
    let span = tokens[at].span;
    let (parts, end) = parts(tokens, at + 1)?;
    let mut call = vec![TokenWithSpan::new(Token::make_word("read_files", None), span), token(Token::LParen, span)];
    call.push(tokens[at].clone());
    for part in parts {
        let (name, value) = part.split_first()?;
        let value = value.strip_prefix_equals();
        push_pair(&mut call, &option_name(name)?, value, span);
    }
    call.push(token(Token::RParen, span));
    Some((call, end))
}

/// Converts named arguments of a call to pairs, and returns its end.
fn function(tokens: &[TokenWithSpan], at: usize) -> Option<(Vec<TokenWithSpan>, usize)> {
    let span = tokens[at].span;
    let (parts, end) = parts(tokens, at + 1)?;
    let mut call = vec![tokens[at].clone(), token(Token::LParen, span)];
    for (index, part) in parts.iter().enumerate() {
        let name = part.first().and_then(option_name);
        let value = part.get(1..).unwrap_or_default();
        match name {
            Some(name) if value.strip_prefix_equals().len() < value.len() => {
                push_pair(&mut call, &name, value.strip_prefix_equals(), span);
            }
            _ => {
                if index > 0 {
                    call.push(token(Token::Comma, span));
                }
                call.extend(part.iter().cloned());
            }
        }
    }
    call.push(token(Token::RParen, span));
    Some((call, end))
}

/// The comma-separated parts in the parentheses that open at a token, and the end of the parentheses.
fn parts(tokens: &[TokenWithSpan], open: usize) -> Option<(Vec<&[TokenWithSpan]>, usize)> {
    let (mut depth, mut start) = (0usize, open + 1);
    let mut parts = vec![];
    for (at, found) in tokens.iter().enumerate().skip(open) {
        match found.token {
            Token::LParen | Token::LBrace | Token::LBracket => depth += 1,
            Token::RParen | Token::RBrace | Token::RBracket => depth = depth.checked_sub(1)?,
            Token::Comma if depth == 1 => {
                parts.push(&tokens[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        if depth == 0 {
            if start < at {
                parts.push(&tokens[start..at]);
            }
            return Some((parts, at + 1));
        }
    }
    None
}

fn option_name(token: &TokenWithSpan) -> Option<String> {
    match &token.token {
        Token::Word(word) => Some(word.value.clone()),
        _ => None,
    }
}

trait Value {
    /// The tokens after `=`, `=>` or `:=`.
    fn strip_prefix_equals(&self) -> &[TokenWithSpan];
}

impl Value for [TokenWithSpan] {
    fn strip_prefix_equals(&self) -> &[TokenWithSpan] {
        match self {
            [TokenWithSpan { token: Token::Eq | Token::RArrow | Token::Assignment, .. }, rest @ ..] => rest,
            all => all,
        }
    }
}

fn push_pair(call: &mut Vec<TokenWithSpan>, name: &str, value: &[TokenWithSpan], span: Span) {
    let text = |text: String| token(Token::SingleQuotedString(text), span);
    call.push(token(Token::Comma, span));
    call.push(text(name.to_owned()));
    call.push(token(Token::Comma, span));
    call.push(text(value_text(value)));
}

/// The text of a value: a string without its quotes, and `true` for an option without a value.
fn value_text(value: &[TokenWithSpan]) -> String {
    match value {
        [] => "true".to_owned(),
        [TokenWithSpan { token: Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text), .. }] => {
            text.clone()
        }
        [TokenWithSpan { token: Token::Word(word), .. }] => word.value.clone(),
        [TokenWithSpan { token: Token::Minus, .. }, rest] => format!("-{}", rest.token),
        tokens => tokens.iter().map(|part| part.token.to_string()).collect::<Vec<_>>().join(" "),
    }
}

fn token(token: Token, span: Span) -> TokenWithSpan {
    TokenWithSpan::new(token, span)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn check(sql: &str, expected: &str) {
        let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location().expect("tokens");
        let tokens = tokens.into_iter().filter(|t| !matches!(t.token, Token::Whitespace(_) | Token::EOF)).collect();
        let shown: Vec<String> = written(tokens).iter().map(|t| t.token.to_string()).collect();
        assert_eq!(shown.join(" "), expected);
    }

    #[test]
    fn options_become_arguments() {
        check(
            "SELECT * FROM 'a.csv' (HEADER, DELIM ';', skip = 2) x",
            "SELECT * FROM read_files ( 'a.csv' , 'HEADER' , 'true' , 'DELIM' , ';' , 'skip' , '2' ) x",
        );
        check(
            "FROM read_csv(['a', 'b'], header => false, types = {'a': 'INT'})",
            "FROM read_csv ( [ 'a' , 'b' ] , 'header' , 'false' , 'types' , '{ 'a' : 'INT' }' )",
        );
        check(
            "FROM 'a.csv' (TYPES (a INT, b DECIMAL(4, 2)))",
            "FROM read_files ( 'a.csv' , 'TYPES' , '( a INT , b DECIMAL ( 4 , 2 ) )' )",
        );
        check("FROM Read_Parquet('f') WHERE a IN ('x')", "FROM Read_Parquet ( 'f' ) WHERE a IN ( 'x' )");
        check("SELECT 'a' FROM t, 'b.csv'", "SELECT 'a' FROM t , 'b.csv'");
        check("FROM 'a.csv' (HEADER", "FROM 'a.csv' ( HEADER");
    }
}
