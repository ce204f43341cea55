//! A parser of JSON texts. Numbers and strings of the tree are slices of the text.

pub(crate) mod canonical;
pub(crate) mod structure;

use std::borrow::Cow;
use std::fmt::Write;

use crate::error::{Error, Result};
use crate::growth::Meter;

/// The maximum depth. Text with deeper nesting is rejected, so that no text exhausts the stack.
const DEPTH_MAX: usize = 1000;

/// The bytes of a value in a tree, whose lists grow by copying.
const NODE_BYTES: usize = 2 * size_of::<Node>();

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node<'a> {
    Null,
    Bool(bool),
    /// The text of the number, unchanged.
    Number(&'a str),
    /// Without quotes, and with its escapes.
    Text(&'a str),
    Array(Vec<Node<'a>>),
    /// Keys like texts, in the order of the text; one may be there several times.
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
}

/// Parses a text; `None` if it is not JSON.
///
/// # Errors
/// The statement has no memory for the tree, or was cancelled.
pub(crate) fn parse(text: &str) -> Result<Option<Node<'_>>> {
    let mut reader = Reader { text, at: 0, meter: Meter::new("the tree of a JSON text"), refused: None };
    let node = reader.value(0);
    reader.skip_space();
    match reader.refused {
        Some(error) => Err(error),
        None => Ok(node.filter(|_| reader.at == text.len())),
    }
}

/// Parses a text.
///
/// # Errors
/// It is not JSON.
pub(crate) fn known(text: &str) -> Result<Node<'_>> {
    parse(text)?.ok_or_else(|| Error::invalid(format!("malformed JSON: {}", start_of(text))))
}

/// A text for messages, truncated if it is long.
pub(crate) fn start_of(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    meter: Meter,
    /// Why no more values are read.
    refused: Option<Error>,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek() == Some(byte)).then(|| self.at += 1)
    }

    fn word(&mut self, word: &str, node: Node<'a>) -> Option<Node<'a>> {
        self.text[self.at..].starts_with(word).then(|| {
            self.at += word.len();
            node
        })
    }

    fn value(&mut self, depth: usize) -> Option<Node<'a>> {
        if depth > DEPTH_MAX {
            return None;
        }
        if let Err(error) = self.meter.add(NODE_BYTES) {
            self.refused = Some(error.into());
            return None;
        }
        self.skip_space();
        match self.peek()? {
            b'n' => self.word("null", Node::Null).or_else(|| self.no_finite_number()),
            b't' => self.word("true", Node::Bool(true)),
            b'f' => self.word("false", Node::Bool(false)),
            b'"' => self.string().map(Node::Text),
            b'[' => self.array(depth),
            b'{' => self.object(depth),
            _ => self.no_finite_number().or_else(|| self.number()),
        }
    }

    /// `NaN`, `Infinity` and `inf`, which DuckDB reads and writes as numbers.
    fn no_finite_number(&mut self) -> Option<Node<'a>> {
        let start = self.at;
        let rest = self.text[start..].strip_prefix('-').unwrap_or(&self.text[start..]);
        let is_word = |word: &&str| rest.get(..word.len()).is_some_and(|own| own.eq_ignore_ascii_case(word));
        let word = ["infinity", "inf", "nan"].into_iter().find(is_word)?;
        self.at = self.text.len() - rest.len() + word.len();
        Some(Node::Number(&self.text[start..self.at]))
    }

    fn array(&mut self, depth: usize) -> Option<Node<'a>> {
        self.take(b'[')?;
        let mut items = vec![];
        self.skip_space();
        if self.take(b']').is_some() {
            return Some(Node::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.skip_space();
            if self.take(b']').is_some() {
                return Some(Node::Array(items));
            }
            self.take(b',')?;
        }
    }

    fn object(&mut self, depth: usize) -> Option<Node<'a>> {
        self.take(b'{')?;
        let mut entries = vec![];
        self.skip_space();
        if self.take(b'}').is_some() {
            return Some(Node::Object(entries));
        }
        loop {
            self.skip_space();
            let key = self.string()?;
            self.skip_space();
            self.take(b':')?;
            entries.push((Cow::Borrowed(key), self.value(depth + 1)?));
            self.skip_space();
            if self.take(b'}').is_some() {
                return Some(Node::Object(entries));
            }
            self.take(b',')?;
        }
    }

    /// The text between quotes.
    fn string(&mut self) -> Option<&'a str> {
        self.take(b'"')?;
        let start = self.at;
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' => {
                    self.at += 1;
                    match self.peek()? {
                        b'u' => {
                            let digits = self.text.as_bytes().get(self.at + 1..self.at + 5)?;
                            digits.iter().all(u8::is_ascii_hexdigit).then_some(())?;
                            self.at += 5;
                        }
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 1,
                        _ => return None,
                    }
                }
                0..0x20 => return None,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        self.text.get(start..self.at - 1)
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Option<Node<'a>> {
        let start = self.at;
        let _ = self.take(b'-');
        let is_zero = self.peek() == Some(b'0');
        let digits = self.digits();
        if digits == 0 || is_zero && digits > 1 {
            return None;
        }
        if self.take(b'.').is_some() && self.digits() == 0 {
            return None;
        }
        if self.take(b'e').or_else(|| self.take(b'E')).is_some() {
            let _ = self.take(b'+').or_else(|| self.take(b'-'));
            if self.digits() == 0 {
                return None;
            }
        }
        Some(Node::Number(&self.text[start..self.at]))
    }
}

/// A string with its escapes replaced. Unpaired surrogates become replacement characters.
pub(crate) fn unescaped(raw: &str) -> String {
    if !raw.contains('\\') {
        return raw.to_owned();
    }
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let mut used = 1;
        match rest.as_bytes().first() {
            Some(b'n') => text.push('\n'),
            Some(b't') => text.push('\t'),
            Some(b'r') => text.push('\r'),
            Some(b'b') => text.push('\u{8}'),
            Some(b'f') => text.push('\u{c}'),
            Some(b'u') => {
                let unit = |at: usize| rest.get(at..at + 4).and_then(|digits| u16::from_str_radix(digits, 16).ok());
                let second = if rest.get(5..7) == Some("\\u") { unit(7) } else { None };
                let first = unit(1).unwrap_or(0xfffd);
                let is_pair =
                    (0xd800..0xdc00).contains(&first) && second.is_some_and(|s| (0xdc00..0xe000).contains(&s));
                used = if is_pair { 11 } else { 5 };
                let units = [first, second.unwrap_or_default()];
                text.extend(
                    char::decode_utf16(units[..1 + usize::from(is_pair)].iter().copied())
                        .map(|c| c.unwrap_or('\u{fffd}')),
                );
            }
            Some(other) => text.push(char::from(*other)),
            None => used = 0,
        }
        rest = rest.get(used..).unwrap_or_default();
    }
    text.push_str(rest);
    text
}

/// Appends a text as a JSON string.
pub fn append_json_string(text: &str, line: &mut String) {
    line.push('"');
    if text.bytes().any(|byte| byte < 0x20 || matches!(byte, b'"' | b'\\')) {
        append_escaped(text, line);
    } else {
        line.push_str(text);
    }
    line.push('"');
}

fn append_escaped(text: &str, line: &mut String) {
    text.chars().for_each(|character| append_character(character, line));
}

fn append_character(character: char, line: &mut String) {
    match character {
        '"' => line.push_str("\\\""),
        '\\' => line.push_str("\\\\"),
        '\n' => line.push_str("\\n"),
        '\r' => line.push_str("\\r"),
        '\t' => line.push_str("\\t"),
        character if character < ' ' => {
            let _ = write!(line, "\\u{:04x}", character as u32);
        }
        character => line.push(character),
    }
}

impl<'a> Node<'a> {
    /// Appends the value without spaces.
    pub fn write(&self, out: &mut String) {
        match self {
            Node::Null => out.push_str("null"),
            Node::Bool(value) => {
                let _ = write!(out, "{value}");
            }
            Node::Number(digits) => out.push_str(digits),
            Node::Text(raw) => append_json_string(&unescaped(raw), out),
            Node::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Node::Object(entries) => {
                out.push('{');
                for (at, (key, value)) in entries.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    append_json_string(&unescaped(key), out);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    /// A string without quotes, and other values as JSON; `None` for `null`.
    pub fn plain(&self) -> Option<String> {
        match self {
            Node::Null => None,
            Node::Text(raw) => Some(unescaped(raw)),
            other => Some(other.text()),
        }
    }

    /// The name of the value's type in DuckDB.
    pub fn kind(&self) -> &'static str {
        match self {
            Node::Null => "NULL",
            Node::Bool(_) => "BOOLEAN",
            Node::Number(digits) if digits.parse::<u64>().is_ok() => "UBIGINT",
            Node::Number(digits) if digits.parse::<i64>().is_ok() => "BIGINT",
            Node::Number(digits) if digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') => "HUGEINT",
            Node::Number(_) => "DOUBLE",
            Node::Text(_) => "VARCHAR",
            Node::Array(_) => "ARRAY",
            Node::Object(_) => "OBJECT",
        }
    }

    pub fn key(&self, name: &str) -> Option<&Node<'a>> {
        match self {
            Node::Object(entries) => entries.iter().find(|(key, _)| is_key(key, name)).map(|(_, node)| node),
            _ => None,
        }
    }

    pub fn item(&self, at: i64) -> Option<&Node<'a>> {
        match self {
            Node::Array(items) => items.get(position(items, at)?),
            _ => None,
        }
    }

    /// Whether the value contains another: it is equal to it, has an equal item, or has all entries of an object.
    ///
    /// # Errors
    /// The statement was cancelled: with deep values on both sides this can last.
    pub fn contains(&self, part: &Node) -> Result<bool> {
        self.has(part, &mut Meter::new("json_contains"))
    }

    fn has(&self, part: &Node, meter: &mut Meter) -> Result<bool> {
        meter.step()?;
        match self {
            _ if self.covers(part, meter)? => Ok(true),
            Node::Array(items) => any(items, |item| item.has(part, meter)),
            Node::Object(entries) => any(entries, |(_, value)| value.has(part, meter)),
            _ => Ok(false),
        }
    }

    /// Whether a value is equal to another one, or has all its entries or items at the same depth.
    fn covers(&self, part: &Node, meter: &mut Meter) -> Result<bool> {
        meter.step()?;
        Ok(match (self, part) {
            (Node::Text(a), Node::Text(b)) => unescaped(a) == unescaped(b),
            (Node::Object(_), Node::Object(wanted)) => !any(wanted, |(key, value)| match self.key(&unescaped(key)) {
                Some(own) => own.covers(value, meter).map(|covers| !covers),
                None => Ok(true),
            })?,
            (Node::Array(own), Node::Array(wanted)) => {
                !any(wanted, |wanted| any(own, |own| own.covers(wanted, meter)).map(|covers| !covers))?
            }
            (Node::Number(a), Node::Number(b)) => a == b || a.parse::<f64>() == b.parse::<f64>(),
            (a, b) => a == b,
        })
    }
}

/// Whether something holds for one of several.
fn any<T>(all: impl IntoIterator<Item = T>, is: impl FnMut(T) -> Result<bool>) -> Result<bool> {
    all.into_iter().map(is).find(|is| !matches!(is, Ok(false))).unwrap_or(Ok(false))
}

/// Whether a key in a text is this name.
pub(crate) fn is_key(key: &str, name: &str) -> bool {
    key == name || key.contains('\\') && unescaped(key) == name
}

/// The place of an item; negative places count from the end. It may lie behind the end.
pub(crate) fn position(items: &[Node], at: i64) -> Option<usize> {
    usize::try_from(if at < 0 { i64::try_from(items.len()).ok()?.checked_add(at)? } else { at }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let text = r#" {"a": [1, -2.5e3, "x\n\u00e4\ud83d\ude00"], "b": {"c": null, "d": true}} "#;
        let node = known(text).expect("JSON");
        assert_eq!(node.text(), "{\"a\":[1,-2.5e3,\"x\\nä😀\"],\"b\":{\"c\":null,\"d\":true}}");
        for wrong in ["", "{", "[1,]", "{\"a\"}", "01", "1.", "tru", "\"\\x\"", "\"a\nb\"", "1 2", "na", "-in", "infin"]
        {
            assert!(parse(wrong).is_ok_and(|node| node.is_none()), "{wrong}");
        }
        assert!(parse(&"[".repeat(100_000)).is_ok_and(|node| node.is_none()));
        let has = |all: &str, part: &str| known(all).expect(all).contains(&known(part).expect(part)).expect(all);
        assert!(has("{\"a\":{\"b\":1}}", "{\"b\":1}") && has("[1,[2]]", "2") && !has("{\"a\":1}", "{\"a\":2}"));
    }
}
