//! Series in the columns of a SELECT. In PostgreSQL, `SELECT generate_series(1, 3)` has a row per value; in the engine, as in
//! DuckDB, it has one row with a list. So for clients of PostgreSQL, the list is unnested.

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

pub const SERIES: &str = "generate_series";

/// The words behind which there are no columns of a SELECT.
const ENDS: [&str; 13] = [
    "FROM",
    "WHERE",
    "GROUP",
    "HAVING",
    "WINDOW",
    "QUALIFY",
    "ORDER",
    "LIMIT",
    "OFFSET",
    "FETCH",
    "UNION",
    "INTERSECT",
    "EXCEPT",
];

/// Where a token stands.
#[derive(Clone, Copy, Default)]
struct Place {
    /// Whether it is within a column of a SELECT.
    in_columns: bool,
    /// Whether it is within the arguments of a function, whose result is not a column.
    in_call: bool,
}

/// A text whose series are unnested; `None` if it has none of them.
pub fn unnested(sql: &str) -> Option<String> {
    if !sql.to_ascii_lowercase().contains(SERIES) {
        return None;
    }
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().ok()?;
    let tokens: Vec<TokenWithSpan> =
        tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    let starts = line_starts(sql);
    let offset = |location: Location| offset_of(sql, &starts, location);
    let (mut place, mut outer) = (Place::default(), vec![]);
    let mut insertions: Vec<(usize, &str)> = vec![];
    for (at, TokenWithSpan { token, span }) in tokens.iter().enumerate() {
        match token {
            Token::LParen | Token::LBracket => {
                outer.push(place);
                place.in_call |= *token == Token::LBracket || calls(&tokens, at);
            }
            Token::RParen | Token::RBracket => place = outer.pop().unwrap_or_default(),
            Token::Word(word) if word.quote_style.is_none() => {
                let upper = word.value.to_ascii_uppercase();
                if upper == "SELECT" {
                    place = Place { in_columns: true, in_call: false };
                } else if ENDS.contains(&upper.as_str()) {
                    place.in_columns = false;
                } else if word.value.eq_ignore_ascii_case(SERIES) && place.in_columns && !place.in_call {
                    let Some(end) = end_of_call(&tokens, at) else { continue };
                    insertions.push((offset(span.start)?, "unnest("));
                    let is_column = begins_column(&tokens, at) && ends_column(&tokens, end);
                    insertions
                        .push((offset(tokens[end].span.end)?, if is_column { ") AS generate_series" } else { ")" }));
                }
            }
            _ => {}
        }
    }
    let mut text = sql.to_owned();
    insertions.sort_by_key(|(at, _)| *at);
    for (at, inserted) in insertions.iter().rev() {
        text.insert_str(*at, inserted);
    }
    (!insertions.is_empty()).then_some(text)
}

/// Whether a parenthesis begins the arguments of a function.
fn calls(tokens: &[TokenWithSpan], at: usize) -> bool {
    const OTHERS: [&str; 16] = [
        "SELECT", "DISTINCT", "ALL", "AND", "OR", "NOT", "WHEN", "THEN", "ELSE", "CASE", "IN", "BETWEEN", "LIKE", "IS",
        "ON", "AS",
    ];
    match at.checked_sub(1).and_then(|before| tokens.get(before)).map(|token| &token.token) {
        Some(Token::Word(word)) => !OTHERS.contains(&word.value.to_ascii_uppercase().as_str()),
        _ => false,
    }
}

/// The place of the parenthesis that ends the call of a name.
fn end_of_call(tokens: &[TokenWithSpan], name: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(name + 1) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 1 => return Some(at),
            Token::RParen => depth = depth.checked_sub(1)?,
            _ if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

fn begins_column(tokens: &[TokenWithSpan], at: usize) -> bool {
    match at.checked_sub(1).and_then(|before| tokens.get(before)).map(|token| &token.token) {
        Some(Token::Comma) => true,
        Some(Token::Word(word)) => ["SELECT", "ALL", "DISTINCT"].contains(&word.value.to_ascii_uppercase().as_str()),
        _ => false,
    }
}

fn ends_column(tokens: &[TokenWithSpan], end: usize) -> bool {
    match tokens.get(end + 1).map(|token| &token.token) {
        None | Some(Token::EOF | Token::SemiColon | Token::Comma | Token::RParen) => true,
        Some(Token::Word(word)) => ENDS.contains(&word.value.to_ascii_uppercase().as_str()),
        _ => false,
    }
}

/// Where each line begins.
fn line_starts(sql: &str) -> Vec<usize> {
    std::iter::once(0).chain(sql.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

/// The byte at a line and a column, which are counted from 1.
fn offset_of(sql: &str, starts: &[usize], location: Location) -> Option<usize> {
    let start = *starts.get(usize::try_from(location.line).ok()?.checked_sub(1)?)?;
    let column = usize::try_from(location.column).ok()?.checked_sub(1)?;
    let line = sql.get(start..)?;
    Some(start + line.char_indices().nth(column).map_or(line.len(), |(at, _)| at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_columns_are_rows() {
        for (sql, expected) in [
            ("SELECT generate_series(1, 3)", "SELECT unnest(generate_series(1, 3)) AS generate_series"),
            ("select generate_series(1,2)::int4 as bar", "select unnest(generate_series(1,2))::int4 as bar"),
            ("SELECT 'é', generate_series(1, (2)) x, 1", "SELECT 'é', unnest(generate_series(1, (2))) x, 1"),
            (
                "INSERT INTO t\nSELECT -generate_series(1, 42) FROM u",
                "INSERT INTO t\nSELECT -unnest(generate_series(1, 42)) FROM u",
            ),
            (
                "SELECT * FROM (SELECT Generate_Series(1, 2)) s",
                "SELECT * FROM (SELECT unnest(Generate_Series(1, 2)) AS generate_series) s",
            ),
            (
                "SELECT extract(year FROM d), generate_series(1, 2) + 1 FROM t",
                "SELECT extract(year FROM d), unnest(generate_series(1, 2)) + 1 FROM t",
            ),
            ("SELECT (generate_series(1, 2))", "SELECT (unnest(generate_series(1, 2)))"),
        ] {
            assert_eq!(unnested(sql).as_deref(), Some(expected), "{sql}");
        }
        for sql in [
            "SELECT * FROM generate_series(1, 3)",
            "SELECT a FROM t, generate_series(1, 3) s",
            "SELECT list_sum(generate_series(1, 3)), [generate_series(1, 2)]",
            "SELECT 'generate_series(1, 3)', \"generate_series\" FROM t",
            "SELECT generate_series",
            "SELECT generate_series(1, 3",
            "SELECT 1 WHERE 1 IN (generate_series(1, 3))",
        ] {
            assert_eq!(unnested(sql), None, "{sql}");
        }
    }
}
