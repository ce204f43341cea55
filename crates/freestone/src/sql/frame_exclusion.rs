//! EXCLUDE of window frames, for which the parser has no words: `(PARTITION BY a ORDER BY b ROWS 2 PRECEDING EXCLUDE TIES)`
//! is written as `(PARTITION BY lower('mark'), a ORDER BY b ROWS 2 PRECEDING)`. The constant changes no partition, and is what
//! [`crate::windows::Exclusion`] looks for in the plan. A mere literal would be dropped when the window is planned.

use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::windows::Exclusion;

/// The tokens of a statement without EXCLUDE in window frames.
pub(crate) fn written(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is(Some(token), "EXCLUDE")) {
        return tokens;
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 8);
    // Where the open parentheses are.
    let mut open: Vec<usize> = vec![];
    let mut at = 0;
    while at < tokens.len() {
        if let Some(start) = open.last().copied()
            && let Some((exclusion, words)) = read(&tokens[at..])
            && has_frame(&out[start..])
        {
            if let Some(exclusion) = exclusion {
                mark(&mut out, start, exclusion);
            }
            at += words;
            continue;
        }
        match tokens[at].token {
            Token::LParen => open.push(out.len()),
            Token::RParen => drop(open.pop()),
            _ => {}
        }
        out.push(tokens[at].clone());
        at += 1;
    }
    out
}

/// Whether an expression in PARTITION BY stands for EXCLUDE.
pub(crate) fn is_mark(expr: &Expr) -> bool {
    let Expr::Function(_) = expr else { return false };
    let text = expr.to_string();
    Exclusion::ALL.into_iter().any(|exclusion| text == written_mark(exclusion))
}

/// The text of an expression with EXCLUDE in the place of the constants.
pub(crate) fn shown(mut text: String) -> String {
    for exclusion in Exclusion::ALL {
        let mark = written_mark(exclusion);
        while let Some(at) = text.find(&mark) {
            let mut depth = 0i32;
            let end = text[at..].char_indices().find(|(_, c)| {
                depth += i32::from(*c == '(') - i32::from(*c == ')');
                depth < 0
            });
            let end = end.map_or(text.len(), |(end, _)| at + end);
            text.insert_str(end, &format!(" EXCLUDE {}", exclusion.words()));
            let alone = format!("PARTITION BY {mark} ");
            match text.find(&alone) {
                Some(at) => text.replace_range(at..at + alone.len(), ""),
                None => text = text.replacen(&format!("{mark}, "), "", 1).replacen(&mark, "", 1),
            }
        }
    }
    text
}

fn written_mark(exclusion: Exclusion) -> String {
    format!("lower('{}')", exclusion.mark())
}

fn is(token: Option<&TokenWithSpan>, known: &str) -> bool {
    match token.map(|token| &token.token) {
        Some(Token::Word(word)) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(known),
        _ => false,
    }
}

/// The clause that begins here and ends a window, with the number of its words. NO OTHERS leaves out nothing.
fn read(tokens: &[TokenWithSpan]) -> Option<(Option<Exclusion>, usize)> {
    let word = |at: usize, known: &str| is(tokens.get(at), known);
    if !word(0, "EXCLUDE") {
        return None;
    }
    let (exclusion, words) = match () {
        () if word(1, "CURRENT") && word(2, "ROW") => (Some(Exclusion::CurrentRow), 3),
        () if word(1, "NO") && word(2, "OTHERS") => (None, 3),
        () if word(1, "GROUP") => (Some(Exclusion::Group), 2),
        () if word(1, "TIES") => (Some(Exclusion::Ties), 2),
        () => return None,
    };
    let ends = tokens.get(words).is_some_and(|token| token.token == Token::RParen);
    ends.then_some((exclusion, words))
}

/// The places of the tokens of a parenthesis that stand in no other, without the first one, which opens it.
fn own(tokens: &[TokenWithSpan]) -> impl Iterator<Item = usize> {
    let mut depth = 0usize;
    let own = tokens.iter().enumerate().filter(move |(_, token)| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 1
    });
    own.map(|(at, _)| at).skip(1)
}

fn has_frame(window: &[TokenWithSpan]) -> bool {
    own(window).any(|at| ["ROWS", "RANGE", "GROUPS"].iter().any(|units| is(window.get(at), units)))
}

/// Adds the constant to the PARTITION BY of the window that begins at `start`.
fn mark(out: &mut Vec<TokenWithSpan>, start: usize, exclusion: Exclusion) {
    let window = &out[start..];
    let by = own(window).find(|at| is(window.get(*at), "PARTITION") && is(window.get(at + 1), "BY"));
    let text = Token::SingleQuotedString(exclusion.mark().to_owned());
    let mark = [Token::make_word("lower", None), Token::LParen, text, Token::RParen];
    let (at, added) = match by {
        Some(by) => (start + by + 2, mark.into_iter().chain([Token::Comma]).collect::<Vec<_>>()),
        None => {
            let begins = ["ORDER", "ROWS", "RANGE", "GROUPS"].iter().any(|word| is(window.get(1), word));
            // Behind the name of a window that this one extends.
            let at = start + if begins { 1 } else { 2 };
            let by = [Token::make_keyword("PARTITION"), Token::make_keyword("BY")];
            (at, by.into_iter().chain(mark).collect())
        }
    };
    let span = out[start].span;
    out.splice(at..at, added.into_iter().map(|token| TokenWithSpan::new(token, span)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn check(sql: &str, expected: &str) {
        let tokens = Tokenizer::new(&crate::sql::dialect::SqlDialect, sql).tokenize_with_location().expect(sql);
        let words = tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
        let found: Vec<String> = written(words.collect()).iter().map(|token| token.token.to_string()).collect();
        assert_eq!(found.join(" "), expected, "{sql}");
    }

    #[test]
    fn columns_are_called_by_what_was_written() {
        let check = |text: &str, expected: &str| assert_eq!(shown(text.to_owned()), expected);
        check("sum(a) OVER (ORDER BY b)", "sum(a) OVER (ORDER BY b)");
        check(
            "sum(a) OVER (PARTITION BY lower('freestone$exclude ties') ORDER BY f(b) ROWS 2 PRECEDING) + 1",
            "sum(a) OVER (ORDER BY f(b) ROWS 2 PRECEDING EXCLUDE TIES) + 1",
        );
        check(
            "sum(a) OVER (PARTITION BY lower('freestone$exclude group'), c ROWS 2 PRECEDING)",
            "sum(a) OVER (PARTITION BY c ROWS 2 PRECEDING EXCLUDE GROUP)",
        );
    }

    #[test]
    fn exclusions_become_constants() {
        check(
            "sum(a) OVER (ORDER BY f(b) ROWS 2 PRECEDING EXCLUDE TIES)",
            "sum ( a ) OVER ( PARTITION BY lower ( 'freestone$exclude ties' ) ORDER BY f ( b ) ROWS 2 PRECEDING )",
        );
        check(
            "sum(a) OVER (PARTITION BY c RANGE 2 PRECEDING exclude current row)",
            "sum ( a ) OVER ( PARTITION BY lower ( 'freestone$exclude current row' ) , c RANGE 2 PRECEDING )",
        );
        check(
            "sum(a) OVER (w ROWS 2 PRECEDING EXCLUDE GROUP)",
            "sum ( a ) OVER ( w PARTITION BY lower ( 'freestone$exclude group' ) ROWS 2 PRECEDING )",
        );
        check("sum(a) OVER (ROWS 2 PRECEDING EXCLUDE NO OTHERS)", "sum ( a ) OVER ( ROWS 2 PRECEDING )");
        check("(SELECT * EXCLUDE group)", "( SELECT * EXCLUDE group )");
        check("sum(a) OVER (ORDER BY b EXCLUDE TIES)", "sum ( a ) OVER ( ORDER BY b EXCLUDE TIES )");
        check("(SELECT * EXCLUDE (a) FROM b)", "( SELECT * EXCLUDE ( a ) FROM b )");
    }
}
