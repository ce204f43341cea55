//! The values of literals.

use super::{Parsed, Parser};
use crate::error::{ErrorCode, SyntaxError};
use crate::lexer::TextForm;

impl Parser<'_> {
    /// An error at the next token.
    pub(super) fn error(&self, message: impl Into<String>) -> Box<SyntaxError> {
        Box::new(SyntaxError::new(ErrorCode::Syntax, self.span(), message))
    }

    /// The value of a text in quotes. For `X'…'` and `B'…'`, the digits.
    pub(super) fn decoded(&self, token: &str, form: TextForm) -> Parsed<String> {
        decoded(token, form).map_err(|wrong| self.error(wrong))
    }
}

/// The value of a text or name in quotes, or what is wrong with it.
pub(crate) fn decoded(token: &str, form: TextForm) -> Result<String, &'static str> {
    let behind = |prefix: usize| token.get(prefix..).unwrap_or_default();
    match form {
        TextForm::Plain => Ok(unquoted(token, '\'')),
        TextForm::Dollars => {
            let tag = token.get(1..).and_then(|rest| rest.find('$')).map_or(0, |at| at + 2);
            Ok(token.get(tag..token.len().saturating_sub(tag)).unwrap_or_default().to_owned())
        }
        TextForm::Escaped => unescaped(&unquoted(behind(1), '\'')).ok_or("an escape that is no character in a text"),
        TextForm::Unicode => {
            let quote = if token.ends_with('"') { '"' } else { '\'' };
            with_code_points(&unquoted(behind(2), quote)).ok_or("a code that is no character in a text")
        }
        TextForm::Hexadecimal => digits(token, |byte| byte.is_ascii_hexdigit()).ok_or("X'…' has hexadecimal digits"),
        TextForm::Bits => digits(token, |byte| matches!(byte, b'0' | b'1')).ok_or("B'…' has the digits 0 and 1"),
    }
}

/// What is between quotes, in which the quote is doubled.
pub(crate) fn unquoted(token: &str, quote: char) -> String {
    let inner = token.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)).unwrap_or_default();
    match inner.contains(quote) {
        false => inner.to_owned(),
        true => {
            let two: String = [quote, quote].iter().collect();
            inner.replace(&two, quote.encode_utf8(&mut [0; 4]))
        }
    }
}

/// The digits of `X'…'` and `B'…'`.
fn digits(token: &str, is: impl Fn(u8) -> bool) -> Option<String> {
    let digits = unquoted(token.get(1..)?, '\'');
    digits.bytes().all(is).then_some(digits)
}

/// The text of `E'…'`. `None` if an escape is no character.
///
/// A doubled quote is already one. That is also right behind a backslash: `E'\''` has an escaped quote alone, because the
/// lexer skips what follows a backslash.
fn unescaped(text: &str) -> Option<String> {
    if !text.contains('\\') {
        return Some(text.to_owned());
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match rest.next()? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'x' => code(&mut rest, 16, 2, false)?,
            'u' => code(&mut rest, 16, 4, true)?,
            'U' => code(&mut rest, 16, 8, true)?,
            first @ '0'..='7' => {
                let mut number = first.to_digit(8)?;
                for _ in 0..2 {
                    let Some(digit) = rest.clone().next().and_then(|c| c.to_digit(8)) else { break };
                    number = number * 8 + digit;
                    rest.next();
                }
                char::from_u32(number)?
            }
            other => other,
        });
    }
    Some(out)
}

/// The text of `U&'…'`, in which `\0041` and `\+000041` are characters.
fn with_code_points(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match rest.clone().next()? {
            '\\' => {
                rest.next();
                out.push('\\');
            }
            '+' => {
                rest.next();
                out.push(code(&mut rest, 16, 6, true)?);
            }
            _ => out.push(code(&mut rest, 16, 4, true)?),
        }
    }
    Some(out)
}

/// A character by its code of so many digits, or at most so many.
fn code(rest: &mut std::str::Chars, radix: u32, digits: usize, exactly: bool) -> Option<char> {
    let (mut number, mut count) = (0, 0);
    while count < digits
        && let Some(digit) = rest.clone().next().and_then(|c| c.to_digit(radix))
    {
        number = number * radix + digit;
        count += 1;
        rest.next();
    }
    if count == digits || count > 0 && !exactly { char::from_u32(number) } else { None }
}

#[cfg(test)]
mod tests {
    use crate::parse_expression;
    use crate::tree::{ExprKind, Literal};

    fn check(sql: &str, expected: Option<&str>) {
        let found = match parse_expression(sql).map(|expr| expr.kind) {
            Ok(ExprKind::Literal(Literal::Text(text))) => Some(text),
            _ => None,
        };
        assert_eq!(found.as_deref(), expected, "{sql}");
    }

    #[test]
    fn texts() {
        check("'it''s'", Some("it's"));
        check("'\\n'", Some("\\n"));
        check("E'a\\n\\t\\x41\\101\\u00e9\\U0001F600\\'\\\\'", Some("a\n\tAAé😀'\\"));
        check("E'\\uD800'", None);
        check("E'\\xg'", None);
        check("U&'d\\0061t\\+000061\\\\'", Some("data\\"));
        check("U&'\\00'", None);
        check("$$a'b$$", Some("a'b"));
        check("$q$a$$b$q$", Some("a$$b"));
        check("E''''", Some("'"));
        check("E'\\''''", Some("''"));
    }
}
