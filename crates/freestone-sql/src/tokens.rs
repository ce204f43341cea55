//! Tokens for readers of statements that the grammar does not have.

use crate::error::{ErrorCode, SyntaxError};
use crate::lexer::{Lexer, TextForm, Token, TokenKind};
use crate::parser::{decoded, unquoted};
use crate::span::Span;

/// A word, a literal or a sign of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lexeme {
    /// What it is.
    pub kind: LexemeKind,
    /// Where it stands.
    pub span: Span,
}

/// The kinds of words, literals and signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LexemeKind {
    /// A name or keyword without quotes.
    Word,
    /// A name in quotes, without these.
    Name(String),
    /// A text in quotes, without these and without escapes. For `X'…'` and `B'…'`, the digits.
    Text(String),
    /// A number without a sign.
    Number,
    /// `$1`, `$name` or `?`
    Parameter,
    /// An operator, a bracket or another sign.
    Sign(&'static str),
}

/// The tokens of a text, read one after the other. An error is the last one.
///
/// ```
/// use freestone_sql::{LexemeKind, tokens};
///
/// let text = "LISTEN \"A b\"";
/// let read: Vec<_> = tokens(text).collect::<Result<_, _>>().unwrap();
/// assert_eq!(read[0].span.of(text), "LISTEN");
/// assert_eq!(read[1].kind, LexemeKind::Name("A b".to_owned()));
/// ```
pub fn tokens(text: &str) -> impl Iterator<Item = Result<Lexeme, SyntaxError>> {
    let mut lexer = Some(Lexer::new(text));
    std::iter::from_fn(move || {
        let read = lexer.as_mut()?.next()?.and_then(|token| lexeme(token, text));
        if read.is_err() {
            lexer = None;
        }
        Some(read)
    })
}

fn lexeme(Token { kind, span }: Token, text: &str) -> Result<Lexeme, SyntaxError> {
    let written = span.of(text);
    let value = |form| decoded(written, form).map_err(|wrong| SyntaxError::new(ErrorCode::Syntax, span, wrong));
    let kind = match kind {
        TokenKind::Word(_) | TokenKind::End => LexemeKind::Word,
        TokenKind::QuotedName => LexemeKind::Name(unquoted(written, '"')),
        TokenKind::UnicodeName => LexemeKind::Name(value(TextForm::Unicode)?),
        TokenKind::Text(form) => LexemeKind::Text(value(form)?),
        TokenKind::Number => LexemeKind::Number,
        TokenKind::Parameter => LexemeKind::Parameter,
        TokenKind::Op(op) => LexemeKind::Sign(op.text()),
    };
    Ok(Lexeme { kind, span })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_their_values() {
        let text = "copy \"A\"\"b\" ('it''s', E'\\t', $$x$$, U&\"\\0041\", -1.5) /* c */ <= $1";
        let read: Vec<String> = tokens(text)
            .map(|token| {
                let Lexeme { kind, span } = token.expect("a token");
                match kind {
                    LexemeKind::Word => format!("word {}", span.of(text)),
                    LexemeKind::Name(name) => format!("name {name}"),
                    LexemeKind::Text(value) => format!("text {value}"),
                    LexemeKind::Number => format!("number {}", span.of(text)),
                    LexemeKind::Parameter => format!("parameter {}", span.of(text)),
                    LexemeKind::Sign(sign) => sign.to_owned(),
                }
            })
            .collect();
        let expected = "word copy|name A\"b|(|text it's|,|text \t|,|text x|,|name A|,|-|number 1.5|)|<=|parameter $1";
        assert_eq!(read.join("|"), expected);
    }

    #[test]
    fn an_error_is_the_last_token() {
        for text in ["a 'b", "a E'\\uD800' b", "a X'g' b"] {
            let read: Vec<_> = tokens(text).collect();
            assert!(matches!(read.as_slice(), [Ok(_), Err(_)]), "{text}: {read:?}");
        }
    }
}
