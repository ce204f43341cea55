//! CSV bytes → records and fields (RFC 4180), and the search for the end of the last record of a block.
//!
//! Both functions must agree on quotes: a quote is special only as the first byte of a field. Within quotes, two quotes
//! (or the escape character and any byte) represent one character. Elsewhere a quote is an ordinary character.

use super::error::Reason;
use super::fields::{Field, Fields};

/// The bytes that give a CSV file its structure. All ASCII.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub delimiter: u8,
    pub quote: u8,
    /// Equal to `quote` when quotes are doubled.
    pub escape: u8,
    pub nulls: Vec<String>,
    /// Whether these texts are NULL in quotes, too.
    pub quoted_nulls: bool,
    /// Outside of quotes, this byte and the rest of its line are a comment.
    pub comment: Option<u8>,
    /// Whether missing fields at the end of a record are NULL.
    pub pads: bool,
}

/// A record that is not well formed. Offsets are in the block.
#[derive(Debug)]
pub(crate) struct BadRecord {
    /// The start of the record.
    pub start: usize,
    /// The offset of the line to report: the record's start, or the unclosed quote.
    pub offset: usize,
    pub reason: Reason,
    /// Whether the error is that the text ends here.
    pub at_end: bool,
}

/// The result of [`Tokenizer::record`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RecordEnd {
    /// No record but the end of the text.
    End,
    /// A record; `closed` when a line end follows it rather than the end of the text.
    Record { closed: bool },
}

/// Walks over a block's records.
pub(crate) struct Tokenizer<'a> {
    text: &'a str,
    dialect: &'a Dialect,
    position: usize,
    scan: Scan,
}

impl<'a> Tokenizer<'a> {
    pub fn new(text: &'a str, position: usize, dialect: &'a Dialect) -> Self {
        let scan = Scan::new(dialect.delimiter, b'\n', text.as_bytes(), position);
        Self { text, dialect, position, scan }
    }

    pub fn position(&self) -> usize {
        self.position
    }

    /// Moves to the line after the one at an offset, to go on after a malformed record.
    pub fn recover(&mut self, offset: usize) {
        let bytes = self.text.as_bytes();
        self.position = find_byte(bytes, offset, b'\n').map_or(bytes.len(), |at| at + 1);
        self.scan.seek(bytes, self.position);
    }

    /// Appends the fields of the next record to `fields`. With `expected`, another number of fields is an error, except
    /// for an additional empty field after a last `|`, as dbgen writes, and for missing ones if the dialect pads. Empty
    /// lines are skipped unless records have a single field; then they are records with an empty field.
    pub fn record(&mut self, expected: Option<usize>, fields: &mut Fields) -> Result<RecordEnd, BadRecord> {
        let bytes = self.text.as_bytes();
        self.skip_lines(expected != Some(1));
        let start = self.position;
        if start >= bytes.len() {
            return Ok(RecordEnd::End);
        }
        let first_field = fields.fields.len();
        let closed = loop {
            let quoted = bytes.get(self.position) == Some(&self.dialect.quote);
            let end = if quoted { self.quoted(start, fields)? } else { self.unquoted(fields) };
            match bytes.get(end) {
                Some(b'\n') => {
                    self.position = end + 1;
                    break true;
                }
                Some(_) => self.position = end + 1,
                None => {
                    self.position = end;
                    break false;
                }
            }
        };
        if let Some(expected) = expected {
            let found = fields.fields.len() - first_field;
            if found < expected && self.dialect.pads {
                fields.fields.resize(first_field + expected, Field::NULL);
            } else if found != expected && !self.drop_trailing_field(found, expected, fields) {
                fields.fields.truncate(first_field);
                let reason = Reason::FieldCount { found, expected };
                return Err(BadRecord { start, offset: start, reason, at_end: !closed });
            }
        }
        fields.starts.push(start as u32);
        Ok(RecordEnd::Record { closed })
    }

    /// Skips lines that are comments, and empty ones.
    fn skip_lines(&mut self, skips_empty: bool) {
        let bytes = self.text.as_bytes();
        let before = self.position;
        loop {
            match bytes[self.position..] {
                [b'\n', ..] if skips_empty => self.position += 1,
                [b'\r', b'\n', ..] if skips_empty => self.position += 2,
                [b'\r', b'\r', b'\n', ..] if skips_empty => self.position += 3,
                [byte, ..] if Some(byte) == self.dialect.comment => {
                    self.position = find_byte(bytes, self.position, b'\n').map_or(bytes.len(), |at| at + 1);
                }
                _ => break,
            }
        }
        if self.position != before {
            self.scan.seek(bytes, self.position);
        }
    }

    /// Pushes the unquoted field at the position; returns where it ends: a delimiter, a line end or the text's end.
    #[inline]
    fn unquoted(&mut self, fields: &mut Fields) -> usize {
        let bytes = self.text.as_bytes();
        let start = self.position;
        let mut end = self.scan.next(bytes);
        let mut value_end = end;
        let comment = self.dialect.comment.and_then(|comment| find_byte(&bytes[..end], start, comment));
        if let Some(at) = comment {
            (value_end, end) = (at, self.end_of_comment(at));
        } else if bytes.get(end) != Some(&self.dialect.delimiter) {
            // Programs that write CRLF for a line that already ends with CR produce two carriage returns.
            while value_end > start && bytes[value_end - 1] == b'\r' {
                value_end -= 1;
            }
        }
        let value = &bytes[start..value_end];
        let is_null = self.is_null(value);
        fields.fields.push(Field::plain(start, value_end, is_null));
        end
    }

    /// Pushes the quoted field at the position; returns where it ends, as `unquoted` does.
    #[cold]
    fn quoted(&mut self, record_start: usize, fields: &mut Fields) -> Result<usize, BadRecord> {
        let bytes = self.text.as_bytes();
        let Dialect { delimiter, quote, escape, .. } = *self.dialect;
        let open = self.position;
        let side_start = fields.side.len();
        let mut copied_to = open + 1;
        let mut at = open + 1;
        let close = loop {
            let Some(found) = find_either(bytes, at, quote, escape) else {
                let reason = Reason::UnterminatedQuote;
                return Err(BadRecord { start: record_start, offset: open, reason, at_end: true });
            };
            let escapes = if escape == quote {
                bytes.get(found + 1) == Some(&quote)
            } else {
                bytes[found] == escape && found + 1 < bytes.len()
            };
            if escapes {
                fields.side.push_str(&self.text[copied_to..found]);
                copied_to = found + 1;
                at = found + 2;
            } else if bytes[found] == quote {
                break found;
            } else {
                at = found + 1;
            }
        };
        if copied_to == open + 1 {
            let is_null = self.dialect.quoted_nulls && self.is_null(&bytes[open + 1..close]);
            fields.fields.push(if is_null { Field::NULL } else { Field::quoted(open + 1, close) });
        } else {
            fields.side.push_str(&self.text[copied_to..close]);
            fields.fields.push(Field::on_side(side_start, fields.side.len()));
        }
        let end = match bytes[close + 1..] {
            [b'\r', b'\n', ..] | [b'\r'] => close + 2,
            [b'\r', b'\r', b'\n', ..] | [b'\r', b'\r'] => close + 3,
            _ => close + 1,
        };
        match bytes.get(end) {
            Some(byte) if Some(*byte) == self.dialect.comment => Ok(self.end_of_comment(end)),
            Some(byte) if *byte != delimiter && *byte != b'\n' => {
                let (start, reason) = (record_start, Reason::AfterQuote);
                Err(BadRecord { start, offset: record_start, reason, at_end: false })
            }
            _ => {
                self.scan.seek(bytes, end + 1);
                Ok(end)
            }
        }
    }

    #[inline]
    fn is_null(&self, value: &[u8]) -> bool {
        self.dialect.nulls.iter().any(|null| null.as_bytes() == value)
    }

    /// The end of the line of a comment, from where the search for fields goes on.
    #[cold]
    fn end_of_comment(&mut self, comment: usize) -> usize {
        let bytes = self.text.as_bytes();
        let end = find_byte(bytes, comment, b'\n').unwrap_or(bytes.len());
        self.scan.seek(bytes, end + 1);
        end
    }

    fn drop_trailing_field(&self, found: usize, expected: usize, fields: &mut Fields) -> bool {
        let dropped = self.dialect.delimiter == b'|'
            && found == expected + 1
            && fields.fields.last().is_some_and(|field| field.is_empty() && !field.is_quoted());
        if dropped {
            fields.fields.pop();
        }
        dropped
    }
}

/// Finds the end of the last record that `bytes` hold completely: the offset after its line end. `bytes` start at a
/// record's start. `None` when no record is complete.
pub(crate) fn last_record_end(bytes: &[u8], dialect: &Dialect) -> Option<usize> {
    if let Some(comment) = dialect.comment {
        return last_end_beside_comments(bytes, dialect, comment);
    }
    let mut complete = None;
    // Everything before `outside` has been passed, and `outside` is not within quotes.
    let mut outside = 0;
    let mut from = 0;
    while let Some(quote) = find_byte(bytes, from, dialect.quote) {
        let opens = quote == 0 || bytes[quote - 1] == dialect.delimiter || bytes[quote - 1] == b'\n';
        if !opens {
            from = quote + 1;
            continue;
        }
        complete = find_last_newline(&bytes[outside..quote]).map(|at| outside + at + 1).or(complete);
        let Some(close) = closing_quote(bytes, quote + 1, dialect) else {
            return complete;
        };
        outside = close + 1;
        from = outside;
    }
    find_last_newline(&bytes[outside..]).map(|at| outside + at + 1).or(complete)
}

/// As [`last_record_end`], for files with comments, in which quotes mean nothing.
fn last_end_beside_comments(bytes: &[u8], dialect: &Dialect, comment: u8) -> Option<usize> {
    let (mut complete, mut at, mut begins_field) = (None, 0, true);
    while let Some(byte) = bytes.get(at) {
        if *byte == comment {
            let Some(end) = find_byte(bytes, at, b'\n') else { return complete };
            (complete, at, begins_field) = (Some(end + 1), end + 1, true);
        } else if begins_field && *byte == dialect.quote {
            let Some(close) = closing_quote(bytes, at + 1, dialect) else { return complete };
            (at, begins_field) = (close + 1, false);
        } else {
            at += 1;
            begins_field = *byte == dialect.delimiter || *byte == b'\n';
            complete = if *byte == b'\n' { Some(at) } else { complete };
        }
    }
    complete
}

fn closing_quote(bytes: &[u8], mut from: usize, dialect: &Dialect) -> Option<usize> {
    let Dialect { quote, escape, .. } = *dialect;
    loop {
        let found = find_either(bytes, from, quote, escape)?;
        if escape == quote {
            if bytes.get(found + 1) != Some(&quote) {
                return Some(found);
            }
            from = found + 2;
        } else if bytes[found] == quote {
            return Some(found);
        } else {
            from = found + 2;
        }
    }
}

/// Whether there is a carriage return before anything but a line feed or another.
pub(crate) fn has_lone_return(bytes: &[u8]) -> bool {
    const RUN: usize = 1 << 10;
    let Some((_, next)) = bytes.split_first() else { return false };
    // Without branches in it, a run of pairs is compared many at a time.
    bytes.chunks(RUN).zip(next.chunks(RUN)).any(|(bytes, next)| {
        let is_lone = |(byte, next): (&u8, &u8)| (*byte == b'\r') & (*next != b'\n') & (*next != b'\r');
        bytes.iter().zip(next).fold(false, |found, pair| found | is_lone(pair))
    })
}

/// The number of line ends in the bytes.
pub(crate) fn count_lines(bytes: &[u8]) -> u64 {
    // Byte-wide counters over short runs let the compiler keep 16 or 32 of them in a register.
    bytes.chunks(255).map(|chunk| u64::from(chunk.iter().map(|byte| u8::from(*byte == b'\n')).sum::<u8>())).sum()
}

const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;

/// The high bit of each byte of `word` that equals the byte repeated in `pattern`. Exact: no carry crosses bytes.
#[inline]
fn equal_bytes(word: u64, pattern: u64) -> u64 {
    let different = word ^ pattern;
    !(((different & LOW) + LOW) | different | LOW)
}

#[inline]
fn repeat(byte: u8) -> u64 {
    u64::from(byte) * 0x0101_0101_0101_0101
}

/// The eight bytes at `at`, zero past the end.
#[inline]
fn load(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => {
            let mut chunk = [0u8; 8];
            let rest = bytes.get(at..).unwrap_or_default();
            chunk[..rest.len()].copy_from_slice(rest);
            u64::from_le_bytes(chunk)
        }
    }
}

/// Finds the next of two bytes, eight bytes at a time, keeping the matches of the current word between calls.
struct Scan {
    patterns: (u64, u64),
    word: usize,
    matches: u64,
}

impl Scan {
    fn new(first: u8, second: u8, bytes: &[u8], from: usize) -> Self {
        let mut this = Self { patterns: (repeat(first), repeat(second)), word: 0, matches: 0 };
        this.seek(bytes, from);
        this
    }

    #[inline]
    fn seek(&mut self, bytes: &[u8], from: usize) {
        self.word = from;
        let word = load(bytes, from);
        self.matches = equal_bytes(word, self.patterns.0) | equal_bytes(word, self.patterns.1);
    }

    /// The next match, or the length of `bytes`. Neither pattern is zero, so the padding of the last word is no match.
    #[inline]
    fn next(&mut self, bytes: &[u8]) -> usize {
        while self.matches == 0 {
            if self.word + 8 >= bytes.len() {
                return bytes.len();
            }
            self.seek(bytes, self.word + 8);
        }
        let at = self.word + (self.matches.trailing_zeros() / 8) as usize;
        self.matches &= self.matches - 1;
        at
    }
}

fn find_either(bytes: &[u8], from: usize, first: u8, second: u8) -> Option<usize> {
    let (first, second) = (repeat(first), repeat(second));
    let mut at = from;
    while at < bytes.len() {
        let word = load(bytes, at);
        let matches = equal_bytes(word, first) | equal_bytes(word, second);
        if matches != 0 {
            return Some(at + (matches.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    None
}

/// The first `byte` (not zero) at or after `from`.
pub(crate) fn find_byte(bytes: &[u8], from: usize, byte: u8) -> Option<usize> {
    let pattern = repeat(byte);
    let mut at = from;
    // Four words per step while nothing matches, because this pass over the file is not parallel.
    while let Some(chunk) = bytes.get(at..at + 32) {
        if chunk.iter().fold(false, |any, candidate| any | (*candidate == byte)) {
            break;
        }
        at += 32;
    }
    while at < bytes.len() {
        let matches = equal_bytes(load(bytes, at), pattern);
        if matches != 0 {
            return Some(at + (matches.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    None
}

pub(crate) fn find_last_newline(bytes: &[u8]) -> Option<usize> {
    bytes.iter().rposition(|byte| *byte == b'\n')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ingest::fields::Cells;

    fn dialect(delimiter: u8, escape: u8) -> Dialect {
        let nulls = vec![String::new()];
        Dialect { delimiter, quote: b'"', escape, nulls, quoted_nulls: false, comment: None, pads: false }
    }

    fn commented() -> Dialect {
        Dialect { comment: Some(b'#'), ..dialect(b',', b'"') }
    }

    /// Records as lists of fields, NULL shown as `~`; the first error instead, as `offset: reason`.
    fn records(text: &str, dialect: &Dialect) -> Result<Vec<Vec<String>>, String> {
        let mut tokenizer = Tokenizer::new(text, 0, dialect);
        let mut records = Vec::new();
        loop {
            let mut fields = Fields::default();
            match tokenizer.record(None, &mut fields) {
                Ok(RecordEnd::End) => return Ok(records),
                Ok(RecordEnd::Record { .. }) => {
                    let cells = Cells { text, fields: &fields, column: 0, columns: 1, rows: usize::MAX };
                    records.push(cells.iter().map(|text| text.unwrap_or("~").to_string()).collect());
                }
                Err(bad) => return Err(format!("{}: {}", bad.offset, bad.reason)),
            }
        }
    }

    fn check(text: &str, expected: Result<&[&[&str]], &str>) {
        let expected = expected
            .map(|rows| rows.iter().map(|row| row.iter().map(|field| field.to_string()).collect()).collect())
            .map_err(str::to_string);
        assert_eq!(records(text, &dialect(b',', b'"')), expected, "{text:?}");
    }

    #[test]
    fn rfc_4180() {
        check("", Ok(&[]));
        check("\n\r\n\n", Ok(&[]));
        check("a,b\nc,d", Ok(&[&["a", "b"], &["c", "d"]]));
        check("a,b\r\n\r\nc,\r\n", Ok(&[&["a", "b"], &["c", "~"]]));
        check("\"a\nb\",\"c\"\"d\"\r\n\"\"", Ok(&[&["a\nb", "c\"d"], &[""]]));
        check("a\"b,c\"\n", Ok(&[&["a\"b", "c\""]]));
        check("\"a,b\",\"\"\"\"", Ok(&[&["a,b", "\""]]));
        check("x,\"abc\ndef", Err("2: a quote opened here is never closed"));
        check("x\ny,\"a\"b\n", Err("2: text after a closing quote"));
        check(
            "a long field here,another long field\nü,€\n",
            Ok(&[&["a long field here", "another long field"], &["ü", "€"]]),
        );
    }

    #[test]
    fn other_escape() {
        let found = records("\"a\\\"b\\\\\",c\\d\n", &dialect(b',', b'\\'));
        assert_eq!(found, Ok(vec![vec!["a\"b\\".to_string(), "c\\d".to_string()]]));
    }

    #[test]
    fn comments_end_their_lines() {
        let check = |text: &str, expected: &[&[&str]]| {
            let expected = expected.iter().map(|row| row.iter().map(|field| field.to_string()).collect()).collect();
            assert_eq!(records(text, &commented()), Ok::<Vec<Vec<String>>, String>(expected), "{text:?}");
        };
        check("# a\n#b\r\n\nx,y\n# \"\n1,2#c,d\n", &[&["x", "y"], &["1", "2"]]);
        check("1,b #\r\n\"#\",\"x\"# y\n#", &[&["1", "b "], &["#", "x"]]);
        check("a,#\n", &[&["a", "~"]]);
        check("#", &[]);
    }

    #[test]
    fn missing_fields_are_null_where_the_dialect_pads() {
        let dialect = Dialect { pads: true, ..dialect(b',', b'"') };
        let mut tokenizer = Tokenizer::new("a\nb,c\nd,e,f\n\"g\"", 0, &dialect);
        let mut next = || {
            let mut fields = Fields::default();
            let found = tokenizer.record(Some(2), &mut fields).map_err(|bad| bad.reason);
            found.map(|_| fields.fields.iter().map(|field| field.is_null()).collect::<Vec<_>>())
        };
        assert_eq!(next(), Ok(vec![false, true]));
        assert_eq!(next(), Ok(vec![false, false]));
        assert_eq!(next(), Err(Reason::FieldCount { found: 3, expected: 2 }));
        assert_eq!(next(), Ok(vec![false, true]));
    }

    #[test]
    fn texts_in_quotes_may_be_null() {
        let found = records("\"\",\"x\",\n", &Dialect { quoted_nulls: true, ..dialect(b',', b'"') });
        assert_eq!(found, Ok(vec![vec!["~".to_string(), "x".to_string(), "~".to_string()]]));
    }

    proptest! {
        /// Cut where `last_record_end` says, the parts hold the records of the whole.
        #[test]
        fn cutting_keeps_records(text in "[a,#\"\n\r\\\\]{0,60}", cut in 0usize..60, backslash: bool, comments: bool) {
            let dialect = Dialect {
                comment: comments.then_some(b'#'),
                ..dialect(b',', if backslash { b'\\' } else { b'"' })
            };
            let prefix = &text.as_bytes()[..cut.min(text.len())];
            if let (Some(end), Ok(whole)) = (last_record_end(prefix, &dialect), records(&text, &dialect)) {
                let mut parts = records(&text[..end], &dialect).map_err(TestCaseError::fail)?;
                parts.extend(records(&text[end..], &dialect).map_err(TestCaseError::fail)?);
                prop_assert_eq!(parts, whole);
            }
        }

        #[test]
        fn searches_agree_with_loops(bytes in proptest::collection::vec(0u8..4, 0..100), from in 0usize..100) {
            let byte = 3;
            let expected = (from..bytes.len()).find(|at| bytes[*at] == byte);
            prop_assert_eq!(find_byte(&bytes, from, byte), expected);
            let either = (from..bytes.len()).find(|at| bytes[*at] == byte || bytes[*at] == 1);
            prop_assert_eq!(find_either(&bytes, from, byte, 1), either);
            let text: Vec<u8> = bytes.iter().map(|byte| byte + 8).collect();
            prop_assert_eq!(count_lines(&text), text.iter().filter(|byte| **byte == b'\n').count() as u64);
        }
    }
}
