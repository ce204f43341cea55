//! MERGE for the parser that tells statements apart: what it does is read from the dialect's own tree.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The tokens with every MERGE as the shortest one into the same table.
pub(crate) fn written(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is = |at: usize, word: &str| is_word(tokens.get(at), word);
    let begins = |at: usize| is(at, "MERGE") && is(at + 1, "INTO");
    if !(0..tokens.len()).any(begins) {
        return tokens;
    }
    let (mut written, mut at) = (Vec::with_capacity(tokens.len()), 0);
    while let Some(token) = tokens.get(at) {
        if !begins(at) {
            written.push(token.clone());
            at += 1;
            continue;
        }
        let mut end = at + 3;
        while tokens.get(end).is_some_and(|token| token.token == Token::Period) {
            end += 2;
        }
        let table = tokens.get(at + 2..end).unwrap_or_default();
        written.extend_from_slice(&tokens[at..at + 2]);
        written.extend_from_slice(table);
        written.push(TokenWithSpan::new(Token::make_keyword("USING"), token.span));
        written.extend_from_slice(table);
        let rest = ["ON", "TRUE", "WHEN", "MATCHED", "THEN", "DELETE"];
        written.extend(rest.map(|word| TokenWithSpan::new(Token::make_keyword(word), token.span)));
        at = end_of_part(&tokens, end);
    }
    written
}

/// The place of the parenthesis in which a statement ends, or of the end.
fn end_of_part(tokens: &[TokenWithSpan], start: usize) -> usize {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return at,
            Token::RParen => depth -= 1,
            _ => {}
        }
    }
    tokens.len()
}

/// Whether a token is this word, without quotes.
fn is_word(token: Option<&TokenWithSpan>, word: &str) -> bool {
    match token.map(|token| &token.token) {
        Some(Token::Word(found)) => found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    #[test]
    fn only_the_table_is_kept() {
        let text = |sql: &str| {
            let tokens = Tokenizer::new(&GenericDialect, sql).tokenize_with_location().unwrap();
            let tokens = tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
            written(tokens).iter().map(|token| token.token.to_string()).collect::<Vec<_>>().join(" ")
        };
        let short = |table: &str| format!("MERGE INTO {table} USING {table} ON TRUE WHEN MATCHED THEN DELETE");
        assert_eq!(text("SELECT merge FROM t"), "SELECT merge FROM t");
        assert_eq!(
            text("EXPLAIN MERGE INTO s.\"T\" AS x USING (SELECT 1) q (a) USING (a) WHEN MATCHED THEN UPDATE"),
            format!("EXPLAIN {}", short("s . \"T\""))
        );
        assert_eq!(
            text("WITH a AS (MERGE INTO t USING (SELECT 1) q ON (b) WHEN MATCHED THEN ERROR) SELECT 2"),
            format!("WITH a AS ( {} ) SELECT 2", short("t"))
        );
    }
}
