//! `DO NOTHING` in MERGE, which the parser does not read: written as a change of a column that no table has; and USING
//! with columns instead of ON.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The column of such a change.
pub(crate) const NOTHING: &str = "freestone$nothing";

/// The tokens with every `THEN DO NOTHING` and `USING (columns)` in words that the parser reads.
pub(crate) fn written(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let tokens = with_condition(tokens);
    let is = |at: usize, word: &str| is_word(tokens.get(at), word);
    let begins = |at: usize| is(at, "THEN") && is(at + 1, "DO") && is(at + 2, "NOTHING");
    if !(0..tokens.len()).any(begins) {
        return tokens;
    }
    let mut written = Vec::with_capacity(tokens.len() + 8);
    let (mut at, mut inserts) = (0, false);
    while let Some(token) = tokens.get(at) {
        if is(at, "WHEN") {
            inserts = is(at + 1, "NOT") && is(at + 2, "MATCHED") && !(is(at + 3, "BY") && is(at + 4, "SOURCE"));
        }
        written.push(token.clone());
        if begins(at) {
            let change = if inserts { insert() } else { update() };
            written.extend(change.into_iter().map(|part| TokenWithSpan::new(part, token.span)));
            at += 2;
        }
        at += 1;
    }
    written
}

/// Whether a token is this word, without quotes.
fn is_word(token: Option<&TokenWithSpan>, word: &str) -> bool {
    match token.map(|token| &token.token) {
        Some(Token::Word(found)) => found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word),
        _ => false,
    }
}

/// Writes `MERGE INTO t USING s USING (a, b)` as `MERGE INTO t USING s ON (t.a = s.a AND t.b = s.b)`.
fn with_condition(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is = |at: usize, word: &str| is_word(tokens.get(at), word);
    let Some(merge) = (0..tokens.len()).find(|at| is(*at, "MERGE") && is(*at + 1, "INTO")) else { return tokens };
    let (mut depth, mut places) = (0usize, vec![]);
    for (at, token) in tokens.iter().enumerate().skip(merge) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ if depth == 0 && (is(at, "WHEN") || is(at, "ON")) => break,
            _ if depth == 0 && is(at, "USING") => places.push(at),
            _ => {}
        }
    }
    let [first, second] = places[..] else { return tokens };
    let (Some(target), Some(source)) = (name_before(&tokens, first), name_before(&tokens, second)) else {
        return tokens;
    };
    let mut at = second + 1;
    if tokens.get(at).is_none_or(|token| token.token != Token::LParen) {
        return tokens;
    }
    let span = tokens[second].span;
    let mut condition = vec![keyword("ON"), Token::LParen];
    loop {
        let Some(column @ Token::Word(_)) = tokens.get(at + 1).map(|token| token.token.clone()) else { return tokens };
        let sides = [target.clone(), Token::Period, column.clone(), Token::Eq, source.clone(), Token::Period, column];
        condition.extend(sides);
        match tokens.get(at + 2).map(|token| &token.token) {
            Some(Token::Comma) => condition.push(keyword("AND")),
            Some(Token::RParen) => break,
            _ => return tokens,
        }
        at += 2;
    }
    condition.push(Token::RParen);
    let mut written = tokens[..second].to_vec();
    written.extend(condition.into_iter().map(|part| TokenWithSpan::new(part, span)));
    written.extend_from_slice(&tokens[at + 3..]);
    written
}

/// The name of the table before a position: its last word, which names of columns in parentheses may follow.
fn name_before(tokens: &[TokenWithSpan], end: usize) -> Option<Token> {
    let mut at = end.checked_sub(1)?;
    if tokens[at].token == Token::RParen {
        let mut depth = 0usize;
        loop {
            match tokens[at].token {
                Token::RParen => depth += 1,
                Token::LParen => depth -= 1,
                _ => {}
            }
            at = at.checked_sub(1)?;
            if depth == 0 {
                break;
            }
        }
    }
    matches!(tokens[at].token, Token::Word(_)).then(|| tokens[at].token.clone())
}

fn nothing() -> Token {
    Token::make_word(NOTHING, Some('"'))
}

/// `UPDATE SET nothing = NULL`
fn update() -> Vec<Token> {
    vec![keyword("UPDATE"), keyword("SET"), nothing(), Token::Eq, keyword("NULL")]
}

/// `INSERT (nothing) VALUES (NULL)`
fn insert() -> Vec<Token> {
    let null = [Token::LParen, keyword("NULL"), Token::RParen];
    let names = [keyword("INSERT"), Token::LParen, nothing(), Token::RParen, keyword("VALUES")];
    names.into_iter().chain(null).collect()
}

fn keyword(word: &str) -> Token {
    Token::make_keyword(word)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    #[test]
    fn nothing_is_written_as_a_change_of_nothing() {
        let text = |sql: &str| {
            let tokens = Tokenizer::new(&GenericDialect, sql).tokenize_with_location().unwrap();
            let tokens = tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
            written(tokens).iter().map(|token| token.token.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(text("WHEN MATCHED THEN DELETE"), "WHEN MATCHED THEN DELETE");
        assert_eq!(
            text("MERGE INTO s.t AS x USING (SELECT 1) q (a) USING (a, \"B\") WHEN MATCHED THEN DELETE"),
            "MERGE INTO s . t AS x USING ( SELECT 1 ) q ( a ) ON ( x . a = q . a AND x . \"B\" = q . \"B\" ) \
             WHEN MATCHED THEN DELETE"
        );
        let update = "THEN UPDATE SET \"freestone$nothing\" = NULL";
        let insert = "THEN INSERT ( \"freestone$nothing\" ) VALUES ( NULL )";
        assert_eq!(text("WHEN MATCHED AND a THEN do nothing"), format!("WHEN MATCHED AND a {update}"));
        assert_eq!(text("WHEN NOT MATCHED BY SOURCE THEN DO NOTHING"), format!("WHEN NOT MATCHED BY SOURCE {update}"));
        let both = "WHEN NOT MATCHED THEN DO NOTHING WHEN MATCHED THEN DO NOTHING";
        assert_eq!(text(both), format!("WHEN NOT MATCHED {insert} WHEN MATCHED {update}"));
    }
}
