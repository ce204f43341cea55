//! Completes `FROM t` without SELECT and `TABLE t`, which mean `SELECT * FROM t`, wherever a query may begin, as in
//! DuckDB.
//!
//! The parser reads such a query without columns, and supports no WHERE after it. So the tokens are completed before
//! they are parsed.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The position within one level of parentheses.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    /// Where a query may begin.
    Start,
    /// Between WITH and the query, or between INSERT and its rows.
    Before,
    /// In CREATE or PREPARE, whose query begins after AS.
    Definition,
    Inside,
}

/// The tokens of a statement, with the omitted `SELECT *`.
pub(crate) fn completed(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut complete = Vec::with_capacity(tokens.len());
    let mut places = vec![Place::Start];
    for (at, token) in tokens.iter().enumerate() {
        if matches!(token.token, Token::Whitespace(_)) {
            continue;
        }
        let place = places.last().copied().unwrap_or(Place::Inside);
        let word = word(token);
        let next = match (&token.token, place, word.as_str()) {
            (Token::LParen, ..) => {
                if let (Place::Start, Some(last)) = (place, places.last_mut()) {
                    *last = Place::Inside;
                }
                let is_trim = complete.last().is_some_and(|before| self::word(before) == "TRIM");
                places.push(if is_trim { Place::Inside } else { Place::Start });
                complete.push(token.clone());
                continue;
            }
            (Token::RParen, ..) => {
                places.pop();
                complete.push(token.clone());
                continue;
            }
            (_, Place::Start | Place::Before, "FROM") => {
                if !selects(&tokens[at + 1..]) {
                    let added = [Token::make_keyword("SELECT"), Token::Mul];
                    complete.extend(added.map(|added| TokenWithSpan::new(added, token.span)));
                }
                Place::Inside
            }
            // A macro for tables.
            (_, Place::Start, "TABLE") if is_macro(tokens) && word_before(&complete) == "AS" => Place::Start,
            (_, Place::Start, "TABLE") | (_, Place::Before, "TABLE")
                if place == Place::Start
                    || !matches!(word_before(&complete).as_str(), "INTO" | "OVERWRITE" | "WITH" | "RECURSIVE") =>
            {
                let written = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
                complete.extend(written.map(|part| TokenWithSpan::new(part, token.span)));
                places.pop();
                places.push(Place::Inside);
                continue;
            }
            (_, Place::Start, "EXPLAIN" | "ANALYZE" | "VERBOSE" | "ALL" | "DISTINCT" | "BY" | "NAME") => Place::Start,
            (_, Place::Start | Place::Before, "WITH" | "INSERT") => Place::Before,
            (_, Place::Start, "CREATE" | "PREPARE") => Place::Definition,
            (_, Place::Definition, "AS") => Place::Start,
            (_, Place::Definition, _) => Place::Definition,
            (_, Place::Before, "SELECT" | "VALUES" | "DELETE" | "UPDATE") => Place::Inside,
            (_, Place::Before, _) => Place::Before,
            (_, Place::Inside, "UNION" | "INTERSECT" | "EXCEPT") => Place::Start,
            _ => Place::Inside,
        };
        if let Some(last) = places.last_mut() {
            *last = next;
        }
        complete.push(token.clone());
    }
    complete
}

fn is_macro(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().take(5).any(|token| word(token) == "MACRO")
}

fn word_before(tokens: &[TokenWithSpan]) -> String {
    tokens.last().map(word).unwrap_or_default()
}

/// Whether a SELECT belongs to the FROM before these tokens.
fn selects(tokens: &[TokenWithSpan]) -> bool {
    let mut depth = 0usize;
    for token in tokens {
        match (&token.token, depth, word(token).as_str()) {
            (Token::LParen, ..) => depth += 1,
            (Token::RParen, 0, _) | (_, 0, "UNION" | "INTERSECT" | "EXCEPT") => return false,
            (Token::RParen, ..) => depth -= 1,
            (_, 0, "SELECT") => return true,
            _ => {}
        }
    }
    false
}

/// An unquoted word in upper case; empty for anything else.
fn word(token: &TokenWithSpan) -> String {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn check(sql: &str, expected: &str) {
        let tokens = |sql: &str| -> Vec<TokenWithSpan> {
            let tokens = Tokenizer::new(&crate::sql::dialect::SqlDialect, sql).tokenize_with_location().expect("SQL");
            tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect()
        };
        let text = |tokens: Vec<TokenWithSpan>| -> Vec<String> { tokens.iter().map(|t| t.token.to_string()).collect() };
        assert_eq!(text(completed(&tokens(sql))), text(tokens(expected)), "{sql}");
    }

    #[test]
    fn a_query_without_select_gets_one() {
        check("FROM t", "SELECT * FROM t");
        check("FROM t WHERE a > 1 ORDER BY b", "SELECT * FROM t WHERE a > 1 ORDER BY b");
        check(
            "SELECT a FROM (FROM t) WHERE a IN (FROM u)",
            "SELECT a FROM (SELECT * FROM t) WHERE a IN (SELECT * FROM u)",
        );
        check("WITH c AS (FROM t) FROM c", "WITH c AS (SELECT * FROM t) SELECT * FROM c");
        check("FROM t UNION ALL FROM u", "SELECT * FROM t UNION ALL SELECT * FROM u");
        check("EXPLAIN ANALYZE FROM t", "EXPLAIN ANALYZE SELECT * FROM t");
        check(
            "CREATE TABLE x WITH (design = 'row') AS FROM t",
            "CREATE TABLE x WITH (design = 'row') AS SELECT * FROM t",
        );
        check("INSERT INTO x (a) FROM t", "INSERT INTO x (a) SELECT * FROM t");
        check("INSERT INTO x TABLE t", "INSERT INTO x SELECT * FROM t");
        check(
            "INSERT INTO x (a) TABLE t ON CONFLICT DO NOTHING",
            "INSERT INTO x (a) SELECT * FROM t ON CONFLICT DO NOTHING",
        );
        check("WITH c AS (TABLE t) TABLE c", "WITH c AS (SELECT * FROM t) SELECT * FROM c");
    }

    #[test]
    fn everything_else_stays() {
        for sql in [
            "FROM t SELECT a",
            "SELECT * EXCEPT (a) FROM t",
            "SELECT trim(FROM ' x '), extract(year FROM d), a IS DISTINCT FROM b FROM t",
            "WITH c AS (SELECT 1 AS a) SELECT count(*) FROM c",
            "WITH c AS (SELECT 1) DELETE FROM t",
            "DELETE FROM t WHERE a IN (SELECT b FROM u)",
            "UPDATE t SET a = u.a FROM u",
            "INSERT INTO x (a) SELECT a FROM t",
            "INSERT INTO TABLE x SELECT a FROM t",
            "SELECT \"from\" FROM t EXCEPT (SELECT 1)",
        ] {
            check(sql, sql);
        }
    }
}
