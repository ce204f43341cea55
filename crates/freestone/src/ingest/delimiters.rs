//! Delimiters of several bytes, such as `||` and `§`. Records are split at one byte, so a control character takes the
//! place of the delimiter while a file is read.

use std::fmt;
use std::io::{self, Read};

use super::{IngestOptions, NO_QUOTE};

/// The byte that stands for the delimiter: the unit separator of ASCII.
pub(crate) const UNIT: u8 = 0x1f;

/// The maximum bytes of a delimiter.
pub(crate) const DELIMITER_BYTES_MAX: usize = 4;

/// The bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;

/// The text of a file with [`UNIT`] in the place of the delimiter that the options say.
pub(super) fn with_units(file: Box<dyn Read + Send>, options: &IngestOptions) -> Box<dyn Read + Send> {
    let Some(delimiter) = &options.wide_delimiter else { return file };
    Box::new(Units {
        file,
        delimiter: delimiter.as_bytes().to_vec(),
        quote: options.quote,
        escape: options.escape.unwrap_or(options.quote),
        comment: options.comment,
        place: match options.skip.unwrap_or(0) {
            0 => Place::Start,
            lines => Place::Skipped(lines),
        },
        input: vec![],
        output: vec![],
        taken: 0,
        is_first: true,
        has_ended: false,
    })
}

/// The file has the character that stands for its delimiter.
#[derive(Debug)]
pub(super) struct HasUnit;

impl fmt::Display for HasUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a value without quotes has the control character U+001F, which a DELIMITER of several bytes excludes",
        )
    }
}

impl std::error::Error for HasUnit {}

/// The position within a record.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// Within lines that are skipped.
    Skipped(usize),
    Start,
    Within,
    Quoted,
    Escaped,
    /// Behind a quote, which ends the value unless there is another one.
    QuoteEnd,
    Comment,
}

struct Units {
    file: Box<dyn Read + Send>,
    delimiter: Vec<u8>,
    quote: u8,
    escape: u8,
    comment: Option<u8>,
    place: Place,
    /// Bytes of the file that were not looked at.
    input: Vec<u8>,
    output: Vec<u8>,
    /// The bytes of the output that were read.
    taken: usize,
    is_first: bool,
    has_ended: bool,
}

impl Read for Units {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.output.len() && !self.has_ended {
            self.fill()?;
        }
        let bytes = into.len().min(self.output.len() - self.taken);
        into[..bytes].copy_from_slice(&self.output[self.taken..self.taken + bytes]);
        self.taken += bytes;
        Ok(bytes)
    }
}

impl Units {
    fn fill(&mut self) -> io::Result<()> {
        self.output.clear();
        self.taken = 0;
        let held = self.input.len();
        let read = self.file.by_ref().take(READ_BYTES as u64).read_to_end(&mut self.input)?;
        self.has_ended = read == 0;
        debug_assert_eq!(self.input.len(), held + read);
        // A delimiter may continue behind the end of the input.
        let ahead = if self.has_ended { 0 } else { self.delimiter.len() - 1 };
        let end = self.input.len().saturating_sub(ahead);
        let mut at = 0;
        if std::mem::take(&mut self.is_first) && self.input.starts_with(b"\xef\xbb\xbf") {
            at = 3;
            self.output.extend_from_slice(&self.input[..3]);
        }
        while at < end {
            at += self.step(at)?;
        }
        self.input.drain(..at);
        Ok(())
    }

    /// Copies one byte, or replaces one delimiter. Returns the number of bytes.
    fn step(&mut self, at: usize) -> io::Result<usize> {
        let byte = self.input[at];
        let is_unquoted = matches!(self.place, Place::Start | Place::Within | Place::QuoteEnd);
        if is_unquoted && self.input[at..].starts_with(&self.delimiter) {
            self.output.push(UNIT);
            self.place = Place::Start;
            return Ok(self.delimiter.len());
        }
        if is_unquoted && byte == UNIT {
            return Err(io::Error::new(io::ErrorKind::InvalidData, HasUnit));
        }
        let is_quote = byte == self.quote && self.quote != NO_QUOTE;
        let is_line_end = matches!(byte, b'\n' | b'\r');
        self.place = match self.place {
            Place::Skipped(1) if byte == b'\n' => Place::Start,
            Place::Skipped(lines) => Place::Skipped(lines - usize::from(byte == b'\n')),
            Place::Comment if byte == b'\n' => Place::Start,
            Place::Comment => Place::Comment,
            Place::Quoted if byte == self.escape && self.escape != self.quote => Place::Escaped,
            Place::Quoted if is_quote => Place::QuoteEnd,
            Place::Quoted | Place::Escaped => Place::Quoted,
            Place::QuoteEnd if is_quote && self.escape == self.quote => Place::Quoted,
            _ if is_line_end => Place::Start,
            _ if Some(byte) == self.comment => Place::Comment,
            Place::Start if is_quote => Place::Quoted,
            _ => Place::Within,
        };
        self.output.push(byte);
        Ok(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time.
    struct Slow(io::Cursor<Vec<u8>>);

    impl Read for Slow {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let bytes = into.len().min(1);
            self.0.read(&mut into[..bytes])
        }
    }

    fn check(delimiter: &str, text: &str, expected: Option<&str>) {
        let options = IngestOptions { wide_delimiter: Some(delimiter.into()), ..IngestOptions::default() };
        check_with(&options, text, expected);
    }

    fn check_with(options: &IngestOptions, text: &str, expected: Option<&str>) {
        let file = || io::Cursor::new(text.as_bytes().to_vec());
        for file in [Box::new(file()) as Box<dyn Read + Send>, Box::new(Slow(file()))] {
            let mut read = String::new();
            let found = with_units(file, options).read_to_string(&mut read).map(|_| read.as_str());
            assert_eq!(found.ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn delimiters_are_replaced() {
        check("||", "a||b|c||\n||d", Some("a\u{1f}b|c\u{1f}\n\u{1f}d"));
        check("||", "a|", Some("a|"));
        check("||", "", Some(""));
        check("||", "a|||b", Some("a\u{1f}|b"));
        check("§", "a§b\n", Some("a\u{1f}b\n"));
        check("~|~", "\u{feff}\"a~|~\"~|~b", Some("\u{feff}\"a~|~\"\u{1f}b"));
        // Of quotes, those that begin a value count.
        check("||", "\"a||\"\"||\"||a\"b||c\n\"d\"||e", Some("\"a||\"\"||\"\u{1f}a\"b\u{1f}c\n\"d\"\u{1f}e"));
        check("||", "\"a\r\n||b\"\r\n\"c\"||d", Some("\"a\r\n||b\"\r\n\"c\"\u{1f}d"));
        check("||", "a\u{1f}b||c", None);
        check("||", "\"a\u{1f}\"||c", Some("\"a\u{1f}\"\u{1f}c"));
        let wide = || IngestOptions { wide_delimiter: Some("||".into()), ..IngestOptions::default() };
        let escaping = IngestOptions { escape: Some(b'\\'), ..wide() };
        check_with(&escaping, "\"a\\\"||\"||b", Some("\"a\\\"||\"\u{1f}b"));
        let commented = IngestOptions { comment: Some(b'#'), ..wide() };
        check_with(&commented, "# it's \" ||\na||b # \"\nc||d", Some("# it's \" ||\na\u{1f}b # \"\nc\u{1f}d"));
        let skipping = IngestOptions { skip: Some(2), ..wide() };
        check_with(&skipping, "\"title\nmore||\na||b", Some("\"title\nmore||\na\u{1f}b"));
        let unquoted = IngestOptions { quote: NO_QUOTE, ..wide() };
        check_with(&unquoted, "\"a||b\"", Some("\"a\u{1f}b\""));
    }

    #[test]
    fn delimiters_continue_behind_what_was_read() {
        let text = "abc||".repeat(3 * READ_BYTES / 5);
        let options = IngestOptions { wide_delimiter: Some("||".into()), ..IngestOptions::default() };
        check_with(&options, &text, Some(&text.replace("||", "\u{1f}")));
    }
}
