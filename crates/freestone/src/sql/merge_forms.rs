//! `DO NOTHING` in MERGE, which the parser does not read: written as a change of a column that no table has.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The column of such a change.
pub(crate) const NOTHING: &str = "freestone$nothing";

/// The tokens with every `THEN DO NOTHING` in words that the parser reads.
pub(crate) fn written(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is = |at: usize, word: &str| match tokens.get(at).map(|token| &token.token) {
        Some(Token::Word(found)) => found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word),
        _ => false,
    };
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
        let update = "THEN UPDATE SET \"freestone$nothing\" = NULL";
        let insert = "THEN INSERT ( \"freestone$nothing\" ) VALUES ( NULL )";
        assert_eq!(text("WHEN MATCHED AND a THEN do nothing"), format!("WHEN MATCHED AND a {update}"));
        assert_eq!(text("WHEN NOT MATCHED BY SOURCE THEN DO NOTHING"), format!("WHEN NOT MATCHED BY SOURCE {update}"));
        let both = "WHEN NOT MATCHED THEN DO NOTHING WHEN MATCHED THEN DO NOTHING";
        assert_eq!(text(both), format!("WHEN NOT MATCHED {insert} WHEN MATCHED {update}"));
    }
}
