//! From a text to tokens.
//!
//! A token is a kind and a [`Span`]; its text stays where it is. Comments and spaces are between tokens. The text of an
//! operator is the longest one that is known, so `a<-1` is `a < -1`.

use crate::error::{ErrorCode, SyntaxError};
use crate::keyword::Keyword;
use crate::span::Span;

/// A word, a literal or a sign of a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    pub kind: TokenKind,
    pub span: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A name or keyword without quotes.
    Word(Option<Keyword>),
    /// `"name"`
    QuotedName,
    /// `U&"name"`
    UnicodeName,
    Text(TextForm),
    /// Digits, with a point, an exponent or a base.
    Number,
    /// `$1`, `$name` or `?`
    Parameter,
    Op(Op),
    /// The end of the text.
    End,
}

/// How a text in quotes is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextForm {
    /// `'text'`
    Plain,
    /// `E'text\n'`
    Escaped,
    /// `$tag$text$tag$`
    Dollars,
    /// `U&'text\0041'`
    Unicode,
    /// `X'1F'`
    Hexadecimal,
    /// `B'101'`
    Bits,
}

macro_rules! operators {
    ($($name:ident $text:literal)*) => {
        /// Operators and other signs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Op {
            $($name,)*
        }

        impl Op {
            pub(crate) fn text(self) -> &'static str {
                match self {
                    $(Op::$name => $text,)*
                }
            }

            /// The operator that is written like this.
            fn of(text: &str) -> Option<Op> {
                match text {
                    $($text => Some(Op::$name),)*
                    _ => None,
                }
            }
        }
    };
}

operators! {
    LeftParen "(" RightParen ")" LeftBracket "[" RightBracket "]" LeftBrace "{" RightBrace "}"
    Comma "," Semicolon ";" Dot "." Colon ":" Casts "::" Assigns ":=" Names "=>"
    Plus "+" Minus "-" Star "*" Slash "/" DoubleSlash "//" Percent "%" Caret "^" DoubleStar "**"
    Eq "=" DoubleEq "==" NotEq "<>" BangEq "!=" Lt "<" Le "<=" Gt ">" Ge ">="
    Concat "||" Pipe "|" Ampersand "&" Hash "#" ShiftLeft "<<" ShiftRight ">>" Tilde "~"
    TildeStar "~*" NotTilde "!~" NotTildeStar "!~*" Like "~~" ILike "~~*" NotLike "!~~" NotILike "!~~*"
    Arrow "->" LongArrow "->>" HashArrow "#>" HashLongArrow "#>>" HashMinus "#-" Contains "@>" ContainedBy "<@" Overlaps "&&"
    Distance "<->" CosineDistance "<=>" StartsWith "^@" TripleTilde "~~~" At "@" SquareRoot "|/" CubeRoot "||/"
}

/// The longest operator, in bytes.
const OPERATOR_BYTES_MAX: usize = 4;

/// The tokens of a text, of which the last is the end, and the error that ends them early.
pub(crate) struct Lexed {
    pub tokens: Vec<Token>,
    pub error: Option<SyntaxError>,
}

pub(crate) fn lex(text: &str) -> Lexed {
    let end = u32::try_from(text.len()).unwrap_or(u32::MAX);
    let mut lexer = Lexer::new(text);
    let mut tokens = Vec::with_capacity(text.len() / 6 + 1);
    let error = if text.len() > i32::MAX as usize {
        Some(SyntaxError::new(ErrorCode::TooComplex, Span::new(0, 0), "the text is longer than 2 GiB"))
    } else {
        loop {
            match lexer.next() {
                Some(Ok(token)) => tokens.push(token),
                None => break None,
                Some(Err(error)) => break Some(error),
            }
        }
    };
    // What was not read because of an error is behind the end.
    let stop = error.as_ref().map_or(end, |error| error.span.start);
    tokens.push(Token { kind: TokenKind::End, span: Span::new(stop, stop) });
    Lexed { tokens, error }
}

/// Reads one token after the other.
pub(crate) struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl Iterator for Lexer<'_> {
    type Item = Result<Token, SyntaxError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Err(error) = self.skip_space() {
            return Some(Err(error));
        }
        let start = self.at;
        if start >= self.bytes.len() {
            return None;
        }
        Some(self.kind().map(|kind| Token { kind, span: self.span(start) }))
    }
}

impl<'a> Lexer<'a> {
    /// The tokens of a text.
    pub(crate) fn new(text: &'a str) -> Lexer<'a> {
        Lexer { text, bytes: text.as_bytes(), at: 0 }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// The offset as that of a span. The text is shorter than 4 GiB.
    fn span(&self, start: usize) -> Span {
        Span::new(start as u32, self.at as u32)
    }

    fn error(&self, start: usize, message: impl Into<String>) -> SyntaxError {
        SyntaxError::new(ErrorCode::Syntax, self.span(start), message)
    }

    /// An error at an opening mark of `bytes` bytes, whose end is missing.
    fn unclosed(&mut self, start: usize, bytes: usize, what: &str, end: &str) -> SyntaxError {
        self.at = start + bytes;
        self.error(start, format!("unterminated {what}: its end, {end}, is missing"))
    }

    fn kind(&mut self) -> Result<TokenKind, SyntaxError> {
        let (first, second) = (self.peek(0), self.peek(1));
        match (first, second) {
            (b'\'', _) => self.quoted(0, TokenKind::Text(TextForm::Plain)),
            (b'"', _) => self.quoted(0, TokenKind::QuotedName),
            (b'e' | b'E', b'\'') => self.quoted(1, TokenKind::Text(TextForm::Escaped)),
            (b'x' | b'X', b'\'') => self.quoted(1, TokenKind::Text(TextForm::Hexadecimal)),
            (b'b' | b'B', b'\'') => self.quoted(1, TokenKind::Text(TextForm::Bits)),
            (b'u' | b'U', b'&') if self.peek(2) == b'\'' => self.quoted(2, TokenKind::Text(TextForm::Unicode)),
            (b'u' | b'U', b'&') if self.peek(2) == b'"' => self.quoted(2, TokenKind::UnicodeName),
            (b'0'..=b'9', _) | (b'.', b'0'..=b'9') => self.number(),
            (b'$', _) => self.dollar(),
            (b'?', _) => {
                self.at += 1;
                Ok(TokenKind::Parameter)
            }
            (b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.., _) => self.word(),
            (b'(', _) => self.sign(Op::LeftParen),
            (b')', _) => self.sign(Op::RightParen),
            (b',', _) => self.sign(Op::Comma),
            _ => self.operator(),
        }
    }

    /// Skips spaces and comments.
    fn skip_space(&mut self) -> Result<(), SyntaxError> {
        loop {
            match (self.peek(0), self.peek(1)) {
                (b' ' | b'\t'..=b'\r', _) => self.at += 1,
                (b'-', b'-') => {
                    let rest = self.bytes.get(self.at..).unwrap_or_default();
                    self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                }
                (b'/', b'*') => self.skip_comment()?,
                (0x80.., _) => match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
                    Some(c) if is_space(c) => self.at += c.len_utf8(),
                    _ => return Ok(()),
                },
                _ => return Ok(()),
            }
        }
    }

    /// Skips `/* … */`, within which there may be others.
    fn skip_comment(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        let mut depth = 0u32;
        while self.at < self.bytes.len() {
            match (self.peek(0), self.peek(1)) {
                (b'/', b'*') => {
                    depth += 1;
                    self.at += 2;
                }
                (b'*', b'/') => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ => self.at += 1,
            }
        }
        Err(self.unclosed(start, 2, "comment", "*/"))
    }

    /// A text or name in quotes, behind a prefix.
    fn quoted(&mut self, prefix: usize, kind: TokenKind) -> Result<TokenKind, SyntaxError> {
        let start = self.at;
        let quote = self.peek(prefix);
        let escapes = kind == TokenKind::Text(TextForm::Escaped);
        self.at += prefix + 1;
        while self.at < self.bytes.len() {
            let byte = self.peek(0);
            if escapes && byte == b'\\' {
                self.at += 2;
            } else if byte != quote {
                self.at += 1;
            } else if self.peek(1) == quote {
                self.at += 2;
            } else {
                self.at += 1;
                return Ok(kind);
            }
        }
        let (what, end) = if quote == b'"' { ("name", "\"") } else { ("string literal", "'") };
        Err(self.unclosed(start, prefix + 1, what, end))
    }

    /// `$1`, `$name`, or a text between `$tag$` and `$tag$`.
    fn dollar(&mut self) -> Result<TokenKind, SyntaxError> {
        let start = self.at;
        self.at += 1;
        if self.peek(0).is_ascii_digit() {
            self.skip_while(|byte| byte.is_ascii_digit());
            return Ok(TokenKind::Parameter);
        }
        self.skip_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80);
        if self.peek(0) != b'$' {
            return match self.at - start {
                1 => Err(self.error(start, "expected a parameter behind \"$\", such as $1 or $name")),
                _ => Ok(TokenKind::Parameter),
            };
        }
        self.at += 1;
        let tag = self.text.get(start..self.at).unwrap_or_default();
        match self.text.get(self.at..).and_then(|rest| rest.find(tag)) {
            Some(length) => {
                self.at += length + tag.len();
                Ok(TokenKind::Text(TextForm::Dollars))
            }
            None => {
                let end = tag.to_owned();
                Err(self.unclosed(start, end.len(), "string literal", &end))
            }
        }
    }

    fn skip_while(&mut self, is: impl Fn(u8) -> bool) {
        while self.at < self.bytes.len() && is(self.peek(0)) {
            self.at += 1;
        }
    }

    fn number(&mut self) -> Result<TokenKind, SyntaxError> {
        let start = self.at;
        let base: Option<fn(u8) -> bool> = match (self.peek(0), self.peek(1)) {
            (b'0', b'x' | b'X') => Some(|byte| byte.is_ascii_hexdigit() || byte == b'_'),
            (b'0', b'b' | b'B') => Some(|byte| matches!(byte, b'0' | b'1' | b'_')),
            (b'0', b'o' | b'O') => Some(|byte| matches!(byte, b'0'..=b'7' | b'_')),
            _ => None,
        };
        let is_digit = |byte: u8| byte.is_ascii_digit() || byte == b'_';
        if let Some(is_digit) = base {
            self.at += 2;
            self.skip_while(is_digit);
            if self.at == start + 2 {
                return Err(self.junk(start));
            }
        } else {
            self.skip_while(is_digit);
            if self.peek(0) == b'.' {
                self.at += 1;
                self.skip_while(is_digit);
            }
            let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
            if matches!(self.peek(0), b'e' | b'E') && self.peek(1 + sign).is_ascii_digit() {
                self.at += 2 + sign;
                self.skip_while(is_digit);
            }
        }
        match self.peek(0) {
            byte if byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80 && !self.is_at_space() => {
                Err(self.junk(start))
            }
            _ if self.bytes.get(self.at - 1) == Some(&b'_') => Err(self.junk(start)),
            _ => Ok(TokenKind::Number),
        }
    }

    fn is_at_space(&self) -> bool {
        self.text.get(self.at..).and_then(|rest| rest.chars().next()).is_some_and(is_space)
    }

    fn junk(&mut self, start: usize) -> SyntaxError {
        self.skip_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80);
        let text = self.text.get(start..self.at).unwrap_or_default();
        self.error(start, format!("{} is no number", shown(text)))
    }

    fn word(&mut self) -> Result<TokenKind, SyntaxError> {
        let start = self.at;
        loop {
            self.skip_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$'));
            if self.peek(0) < 0x80 {
                break;
            }
            // Other letters, and all other characters beyond ASCII but spaces.
            match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
                Some(c) if !c.is_ascii() && !is_space(c) => {
                    if matches!(c, '‘' | '’' | '“' | '”' | '„' | '‚' | '«' | '»') {
                        self.at += c.len_utf8();
                        let message = format!("\"{c}\" is a typographic quotation mark");
                        let hint = "write 'text' and \"name\" with the straight ones";
                        return Err(self.error(self.at - c.len_utf8(), message).with_hint(hint));
                    }
                    self.at += c.len_utf8();
                }
                _ => break,
            }
        }
        Ok(TokenKind::Word(self.text.get(start..self.at).and_then(Keyword::of)))
    }

    /// A sign of one byte.
    fn sign(&mut self, op: Op) -> Result<TokenKind, SyntaxError> {
        self.at += 1;
        Ok(TokenKind::Op(op))
    }

    fn operator(&mut self) -> Result<TokenKind, SyntaxError> {
        let start = self.at;
        // Brackets and commas are no part of longer ones.
        let is_long = |byte: &u8| b"+-*/<>=~!@#%^&|:".contains(byte);
        let rest = self.bytes.get(start..).unwrap_or_default();
        let longest = rest.iter().take(OPERATOR_BYTES_MAX).take_while(|byte| is_long(byte)).count().max(1);
        // A comment behind an operator is no part of it.
        let comment = rest.windows(2).take(longest).skip(1).position(|two| matches!(two, b"/*" | b"--"));
        let longest = comment.map_or(longest, |at| at + 1);
        for length in (1..=longest).rev() {
            if let Some(op) = self.text.get(start..start + length).and_then(Op::of) {
                self.at += length;
                return Ok(TokenKind::Op(op));
            }
        }
        self.at += 1;
        let found = self.text.get(start..self.at).unwrap_or_default();
        Err(self.error(start, format!("unexpected character {}", shown(found))))
    }
}

fn is_space(c: char) -> bool {
    // Spaces of all kinds, the byte order mark, and the spaces without width that pages put into copied text.
    c.is_whitespace() || matches!(c, '\u{feff}' | '\u{200b}' | '\u{2060}')
}

/// The longest part of a token that a message shows, in characters.
const SHOWN_MAX: usize = 40;

/// A token in a message: in quotes, without line ends, and cut if it is long.
pub(crate) fn shown(token: &str) -> String {
    let mut shown: String = token.chars().take(SHOWN_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if token.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    if shown.contains('"') { shown } else { format!("\"{shown}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tokens of a text, with bars between them.
    fn check(text: &str, expected: &str) {
        let lexed = lex(text);
        let tokens = lexed.tokens.iter().map(|token| token.span.of(text)).filter(|token| !token.is_empty());
        assert_eq!(tokens.collect::<Vec<_>>().join(" | "), expected, "{text}");
        assert_eq!(lexed.error, None, "{text}");
    }

    fn check_error(text: &str, expected: &str) {
        let error = lex(text).error.expect("an error").to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }

    #[test]
    fn tokens() {
        check(
            "a<-1 b->>'x' c::int d:=2 e=>3",
            "a | < | - | 1 | b | ->> | 'x' | c | :: | int | d | := | 2 | e | => | 3",
        );
        check("1_000.5_0e-3 .5 1. 0x1F 0b10 0o17 1..2", "1_000.5_0e-3 | .5 | 1. | 0x1F | 0b10 | 0o17 | 1. | .2");
        check(
            "'it''s' E'a\\'b' X'1F' b'01' U&'\\0041' \"a\"\"b\"",
            "'it''s' | E'a\\'b' | X'1F' | b'01' | U&'\\0041' | \"a\"\"b\"",
        );
        check("$1 $name $$a;b$$ $t$ $$ $t$ ?", "$1 | $name | $$a;b$$ | $t$ $$ $t$ | ?");
        check("a--b\nc/*d/*e*/f*/g - - h", "a | c | g | - | - | h");
        check("\u{feff}a\u{a0}b Ünï", "a | b | Ünï");
        check("a !~~* b <@ c && d <-> e ^@ f", "a | !~~* | b | <@ | c | && | d | <-> | e | ^@ | f");
        check("@ a |/b ||/ c||/*d*/e |/**/f @> g", "@ | a | |/ | b | ||/ | c | || | e | | | f | @> | g");
    }

    #[test]
    fn errors() {
        check_error("'a", "unterminated string literal");
        check_error("E'a\\", "unterminated string literal");
        check_error("\"a", "unterminated name");
        check_error("a /* b /* c */", "unterminated comment");
        check_error("$x$ $y$", "$x$");
        check_error("12ab", "\"12ab\" is no number");
        check_error("1e", "\"1e\" is no number");
        check_error("1_", "is no number");
        check_error("a ` b", "unexpected character \"`\"");
        check_error("‘a’", "typographic");
        check_error("$", "a parameter");
    }
}
