//! `AS [NOT] MATERIALIZED` of common table expressions, which the parser does not read.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The alias that marks the query of a common table expression as declared MATERIALIZED, and NOT MATERIALIZED.
pub(crate) const MATERIALIZED_MARK: &str = "freestone$materialized$";
pub(crate) const NOT_MATERIALIZED_MARK: &str = "freestone$inline$";

/// Replaces `AS [NOT] MATERIALIZED (query)`, by `AS (SELECT * FROM (query) AS mark)` in
/// the tokens of a statement.
pub(crate) fn written(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is = |at: usize, keyword: Keyword| {
        tokens.get(at).is_some_and(|token| matches!(&token.token, Token::Word(word) if word.keyword == keyword))
    };
    if !(0..tokens.len()).any(|at| is(at, Keyword::MATERIALIZED)) {
        return tokens;
    }
    let mut marked = Vec::with_capacity(tokens.len() + 16);
    // For each open parenthesis, the mark to be written at its end.
    let mut open: Vec<Option<&str>> = vec![];
    let mut at = 0;
    while at < tokens.len() {
        let span = tokens[at].span;
        let mut push = |added: Token| marked.push(TokenWithSpan::new(added, span));
        let negated = usize::from(is(at + 1, Keyword::NOT));
        let opens = at + 2 + negated;
        let is_open = tokens.get(opens).is_some_and(|token| token.token == Token::LParen);
        if is(at, Keyword::AS) && is(at + 1 + negated, Keyword::MATERIALIZED) && is_open {
            push(tokens[at].token.clone());
            [Token::LParen, Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM"), Token::LParen]
                .into_iter()
                .for_each(&mut push);
            open.push(Some(if negated == 1 { NOT_MATERIALIZED_MARK } else { MATERIALIZED_MARK }));
            at = opens + 1;
            continue;
        }
        push(tokens[at].token.clone());
        match tokens[at].token {
            Token::LParen => open.push(None),
            Token::RParen => {
                if let Some(mark) = open.pop().flatten() {
                    push(Token::make_keyword("AS"));
                    push(Token::make_word(mark, Some('"')));
                    push(Token::RParen);
                }
            }
            _ => {}
        }
        at += 1;
    }
    marked
}
