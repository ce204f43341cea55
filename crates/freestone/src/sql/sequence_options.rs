//! The options of sequences, which users write in any order. The parser reads them in one order only.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The first words of options, in the parser's order.
const ORDER: [&str; 6] = ["INCREMENT", "MINVALUE", "MAXVALUE", "START", "CACHE", "CYCLE"];

fn word(token: Option<&TokenWithSpan>) -> String {
    match token.map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
        _ => String::new(),
    }
}

/// The tokens of a statement with the options of its sequences in the parser's order.
pub(super) fn in_order(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !matches!(word(tokens.first()).as_str(), "CREATE" | "ALTER") {
        return tokens;
    }
    let is_sequence = (1..4).any(|at| word(tokens.get(at)) == "SEQUENCE");
    let mut at = 0;
    while at < tokens.len() {
        let of_identity =
            word(tokens.get(at)) == "IDENTITY" && tokens.get(at + 1).is_some_and(|token| token.token == Token::LParen);
        at += 1;
        if of_identity {
            sort(&mut tokens, at + 1);
        } else if is_sequence && rank(&tokens, at).is_some() {
            sort(&mut tokens, at);
            break;
        }
    }
    tokens
}

/// Which option begins at a token.
fn rank(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    let first = word(tokens.get(at));
    let name = if first == "NO" { word(tokens.get(at + 1)) } else { first };
    ORDER.iter().position(|known| *known == name)
}

/// Sorts the options from a token on.
fn sort(tokens: &mut Vec<TokenWithSpan>, start: usize) {
    let mut options: Vec<(usize, Vec<TokenWithSpan>)> = vec![];
    let mut at = start;
    while let Some(rank) = rank(tokens, at) {
        let begin = at;
        at += if word(tokens.get(at)) == "NO" { 2 } else { 1 };
        let ends = |at: usize| {
            let token = tokens.get(at).map(|token| &token.token);
            matches!(token, None | Some(Token::RParen))
                || self::rank(tokens, at).is_some()
                || word(tokens.get(at)) == "OWNED"
        };
        while !ends(at) {
            at += 1;
        }
        options.push((rank, tokens[begin..at].to_vec()));
    }
    options.sort_by_key(|(rank, _)| *rank);
    tokens.splice(start..at, options.into_iter().flat_map(|(_, tokens)| tokens));
}
