//! The grammar of JSON: objects and their members as ranges of the text. [`super::json`] decides whether values fit
//! their columns.

use std::borrow::Cow;

use super::blocks::mark_bytes;
use super::error::Reason;
use super::values::hex_digit;

/// The value of a member, as a range of the text.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value {
    Null,
    /// A number, `true` or `false`.
    Literal {
        start: usize,
        end: usize,
    },
    /// The text between a string's quotes.
    Text {
        start: usize,
        end: usize,
        escaped: bool,
    },
    /// An array or an object.
    Nested {
        start: usize,
        end: usize,
    },
}

/// Text that is not JSON, or not an object that is a row.
#[derive(Debug)]
pub(super) struct BadObject {
    pub offset: usize,
    pub reason: Reason,
    /// Whether the error is that the text ends here.
    pub at_end: bool,
    pub column: Option<String>,
}

/// The reason why a member of an object is refused.
pub(super) struct Refused {
    pub reason: Reason,
    pub column: Option<String>,
}

/// Walks over a block's objects.
pub(super) struct Objects<'a> {
    text: &'a str,
    pub position: usize,
    array: bool,
    /// Whether the array's `[` is still expected.
    before_array: bool,
    /// Whether no object was read since the array's `[`.
    before_first: bool,
    after_array: bool,
    last: bool,
}

impl<'a> Objects<'a> {
    /// `first` and `last` say whether the text starts and ends with the file.
    pub fn new(text: &'a str, array: bool, first: bool, last: bool) -> Self {
        let position = if first { mark_bytes(text.as_bytes()) } else { 0 };
        let before = array && first;
        Self { text, position, array, before_array: before, before_first: before, after_array: false, last }
    }

    /// Passes the members of the next object to `member`, and returns the object's start; `None` at the end of the
    /// text.
    pub fn next(
        &mut self,
        mut member: impl FnMut(&str, &str, Value) -> Result<(), Refused>,
    ) -> Result<Option<usize>, BadObject> {
        if !self.find_object()? {
            return Ok(None);
        }
        let start = self.position;
        self.expect(b'{')?;
        self.skip_blanks();
        if self.peek() == Some(b'}') {
            self.position += 1;
            return Ok(Some(start));
        }
        loop {
            self.skip_blanks();
            let key = self.key()?;
            self.skip_blanks();
            self.expect(b':')?;
            self.skip_blanks();
            let value = self.value()?;
            let refused = |Refused { reason, column }| BadObject { offset: start, reason, at_end: false, column };
            member(self.text, &key, value).map_err(refused)?;
            self.skip_blanks();
            match self.peek() {
                Some(b',') => self.position += 1,
                Some(b'}') => {
                    self.position += 1;
                    return Ok(Some(start));
                }
                _ => return Err(self.unexpected("',' or '}'")),
            }
        }
    }

    /// Moves to the next object's brace; false at the end of the text.
    fn find_object(&mut self) -> Result<bool, BadObject> {
        self.skip_blanks();
        if std::mem::take(&mut self.before_array) {
            if self.peek().is_none() && !self.last {
                return Ok(false);
            }
            self.expect(b'[')?;
            self.skip_blanks();
        }
        if self.after_array {
            return if self.peek().is_none() { Ok(false) } else { Err(self.unexpected("nothing after the array")) };
        }
        match self.peek() {
            None if self.array && self.last => Err(self.unexpected("',' or ']'")),
            None => Ok(false),
            Some(b']') if self.array => {
                self.position += 1;
                self.after_array = true;
                self.find_object()
            }
            Some(_) if self.array && !std::mem::take(&mut self.before_first) => {
                self.expect(b',')?;
                self.skip_blanks();
                if self.peek() == Some(b'{') { Ok(true) } else { Err(self.unexpected("an object")) }
            }
            Some(b'{') => Ok(true),
            Some(_) => Err(self.unexpected("an object")),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.position += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), BadObject> {
        if self.peek() == Some(byte) {
            self.position += 1;
            return Ok(());
        }
        Err(self.unexpected(&format!("'{}'", byte as char)))
    }

    fn unexpected(&self, expected: &str) -> BadObject {
        let found = match self.text.get(self.position..).and_then(|rest| rest.chars().next()) {
            Some(c) => format!("'{}'", c.escape_debug()),
            None => "the end".to_string(),
        };
        BadObject {
            offset: self.position,
            reason: Reason::Malformed(format!("not valid JSON: expected {expected}, found {found}")),
            at_end: self.position >= self.text.len(),
            column: None,
        }
    }

    fn key(&mut self) -> Result<Cow<'a, str>, BadObject> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("a member's name in quotes"));
        }
        let offset = self.position;
        let (start, end, escaped) = self.string()?;
        let raw = &self.text[start..end];
        if !escaped {
            return Ok(Cow::Borrowed(raw));
        }
        let mut key = String::new();
        unescape(raw, &mut key).map_err(|reason| BadObject { offset, reason, at_end: false, column: None })?;
        Ok(Cow::Owned(key))
    }

    fn value(&mut self) -> Result<Value, BadObject> {
        let start = self.position;
        match self.peek() {
            Some(b'"') => {
                let (start, end, escaped) = self.string()?;
                Ok(Value::Text { start, end, escaped })
            }
            Some(b'{' | b'[') => {
                self.nested()?;
                Ok(Value::Nested { start, end: self.position })
            }
            _ => {
                let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
                let length = self.text.as_bytes()[start..].iter().take_while(|byte| is_part(byte)).count();
                let end = start + length;
                match &self.text.as_bytes()[start..end] {
                    b"null" => self.position = end,
                    literal if matches!(literal, b"true" | b"false") || is_number(literal) || is_special(literal) => {
                        self.position = end;
                        return Ok(Value::Literal { start, end });
                    }
                    _ => {
                        let mut bad = self.unexpected("a value");
                        bad.at_end = end >= self.text.len();
                        return Err(bad);
                    }
                }
                Ok(Value::Null)
            }
        }
    }

    /// Skips a string. Returns the range between its quotes, and whether it has escapes.
    fn string(&mut self) -> Result<(usize, usize, bool), BadObject> {
        let bytes = self.text.as_bytes();
        let start = self.position + 1;
        match string_end(bytes, start) {
            Some((end, escaped)) if bytes[end] == b'"' => {
                self.position = end + 1;
                Ok((start, end, escaped))
            }
            Some(_) => {
                let reason = Reason::Malformed("not valid JSON: a line end or control character in a string".into());
                Err(BadObject { offset: self.position, reason, at_end: false, column: None })
            }
            None => {
                let reason = Reason::Malformed("not valid JSON: a string is never closed".into());
                Err(BadObject { offset: self.position, reason, at_end: true, column: None })
            }
        }
    }

    /// Skips an array or object of any depth.
    fn nested(&mut self) -> Result<(), BadObject> {
        // The open brackets: whether each is that of an object.
        let mut open: Vec<bool> = vec![];
        loop {
            self.skip_blanks();
            let (is_object, close) = match self.peek() {
                Some(b'{') => (true, b'}'),
                Some(b'[') => (false, b']'),
                _ => {
                    self.checked_value()?;
                    if self.close(&mut open)? { return Ok(()) } else { continue }
                }
            };
            self.position += 1;
            self.skip_blanks();
            if self.peek() == Some(close) {
                self.position += 1;
                if self.close(&mut open)? {
                    return Ok(());
                }
                continue;
            }
            open.push(is_object);
            if is_object {
                self.nested_key()?;
            }
        }
    }

    /// Skips the closing brackets after a value, the comma, and the next key. True at the end of the outermost bracket.
    fn close(&mut self, open: &mut Vec<bool>) -> Result<bool, BadObject> {
        while let Some(is_object) = open.last().copied() {
            self.skip_blanks();
            match (self.peek(), is_object) {
                (Some(b','), _) => {
                    self.position += 1;
                    if is_object {
                        self.skip_blanks();
                        self.nested_key()?;
                    }
                    return Ok(false);
                }
                (Some(b'}'), true) | (Some(b']'), false) => {
                    self.position += 1;
                    open.pop();
                }
                (_, true) => return Err(self.unexpected("',' or '}'")),
                (_, false) => return Err(self.unexpected("',' or ']'")),
            }
        }
        Ok(true)
    }

    /// Skips a key and its colon.
    fn nested_key(&mut self) -> Result<(), BadObject> {
        self.key()?;
        self.skip_blanks();
        self.expect(b':')
    }

    /// Skips a value other than an array or object.
    fn checked_value(&mut self) -> Result<(), BadObject> {
        let offset = self.position;
        if let Value::Text { start, end, escaped: true } = self.value()? {
            unescape(&self.text[start..end], &mut String::new()).map_err(|reason| BadObject {
                offset,
                reason,
                at_end: false,
                column: None,
            })?;
        }
        Ok(())
    }
}

/// Whether a text is NaN or an infinity, which JSON does not have, but programs write.
fn is_special(text: &[u8]) -> bool {
    matches!(text, b"NaN" | b"Infinity" | b"-Infinity")
}

/// A number as JSON writes it: no leading `+`, zeros or point.
fn is_number(text: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(rest);
    if whole == 0 || (whole > 1 && rest[0] == b'0') {
        return false;
    }
    let mut rest = &rest[whole..];
    if let [b'.', after @ ..] = rest {
        let fraction = digits(after);
        if fraction == 0 {
            return false;
        }
        rest = &after[fraction..];
    }
    if let [b'e' | b'E', b'+' | b'-', after @ ..] | [b'e' | b'E', after @ ..] = rest {
        return !after.is_empty() && digits(after) == after.len();
    }
    rest.is_empty()
}

/// Appends a string with its escapes replaced.
pub(super) fn unescape(raw: &str, into: &mut String) -> Result<(), Reason> {
    let bad = |escape: &str| Reason::Malformed(format!("not valid JSON: escape '\\{escape}' in a string"));
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        into.push_str(&rest[..at]);
        let escape = &rest[at + 1..];
        let Some(kind) = escape.chars().next() else { return Err(bad("")) };
        let mut used = kind.len_utf8();
        match kind {
            '"' | '\\' | '/' => into.push(kind),
            'b' => into.push('\u{8}'),
            'f' => into.push('\u{c}'),
            'n' => into.push('\n'),
            'r' => into.push('\r'),
            't' => into.push('\t'),
            'u' => {
                let shown = || escape.chars().take(5).collect::<String>();
                let high = hex_unit(&escape.as_bytes()[1..]).ok_or_else(|| bad(&shown()))?;
                used = 5;
                // Characters above U+FFFF are written as two surrogates. An unpaired surrogate is an error.
                let code = match (high, escape.as_bytes().get(5..7)) {
                    (0xd800..=0xdbff, Some(b"\\u")) => {
                        used = 11;
                        let low = hex_unit(&escape.as_bytes()[7..]).filter(|low| (0xdc00..=0xdfff).contains(low));
                        low.map(|low| 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
                    }
                    _ => Some(high),
                };
                into.push(code.and_then(char::from_u32).ok_or_else(|| bad(&shown()))?);
            }
            other => return Err(bad(&other.to_string())),
        }
        rest = &escape[used..];
    }
    into.push_str(rest);
    Ok(())
}

fn hex_unit(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.first_chunk::<4>()?;
    digits.iter().try_fold(0, |value, digit| Some(value << 4 | u32::from(hex_digit(*digit)?)))
}

/// The quote that closes a string, or the control character that breaks it, and whether there are escapes before it.
pub(super) fn string_end(bytes: &[u8], mut at: usize) -> Option<(usize, bool)> {
    let mut escaped = false;
    loop {
        at += plain_bytes(bytes.get(at..)?);
        match bytes.get(at)? {
            b'\\' => {
                escaped = true;
                at += 2;
            }
            _ => return Some((at, escaped)),
        }
    }
}

/// The number of bytes before a quote, a backslash or a control character.
fn plain_bytes(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    const QUOTES: u64 = ONES * b'"' as u64;
    const BACKSLASHES: u64 = ONES * b'\\' as u64;
    // The lowest bit that is set is that of the first byte that is zero, or below a limit. Higher ones may be wrong.
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & HIGH;
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = zero(word ^ QUOTES) | zero(word ^ BACKSLASHES) | below(word, 0x20);
        if found != 0 {
            return index * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let is_plain = |byte: &&u8| **byte >= 0x20 && !matches!(**byte, b'"' | b'\\');
    words.len() * 8 + rest.iter().take_while(is_plain).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_end_at_quotes_and_control_characters() {
        let check = |text: &str, expected| assert_eq!(string_end(text.as_bytes(), 0), expected, "{text:?}");
        for length in 0..20 {
            let text = "é".repeat(length);
            let bytes = text.len();
            check(&text, None);
            check(&format!("{text}\""), Some((bytes, false)));
            check(&format!("{text}\\\"{text}\"x"), Some((2 * bytes + 2, true)));
            check(&format!("{text}\n\""), Some((bytes, false)));
            check(&format!("{text}\u{1f}"), Some((bytes, false)));
            check(&format!("{text} \u{7f}"), None);
            check(&format!("{text}\\"), None);
        }
    }
}
