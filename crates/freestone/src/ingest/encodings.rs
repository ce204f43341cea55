//! Encodings of text files other than UTF-8, decoded while a file is read.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};

use encoding_rs::{DecoderResult, Encoding, REPLACEMENT, UTF_8, UTF_16BE, UTF_16LE, X_USER_DEFINED};

/// The bytes that are decoded at a time.
const DECODED_BYTES: usize = 64 << 10;

/// The encoding of a text file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextEncoding {
    Utf8,
    /// The byte order is that of the byte order mark, else the least significant byte comes first.
    Utf16,
    /// Each byte is the Unicode character of this number.
    Latin1,
    Other(&'static Encoding),
}

impl TextEncoding {
    /// The encoding of a name, as Python, browsers and DuckDB have them.
    pub fn named(name: &str) -> Option<TextEncoding> {
        let name = name.trim().to_ascii_lowercase().replace('_', "-");
        Some(match name.as_str() {
            "utf-8" | "utf8" | "utf-8-sig" | "ascii" | "us-ascii" => TextEncoding::Utf8,
            "utf-16" | "utf16" | "ucs-2" => TextEncoding::Utf16,
            "latin-1" | "latin1" | "l1" | "iso-8859-1" | "iso8859-1" => TextEncoding::Latin1,
            _ => {
                let known = Encoding::for_label(label(&name).as_bytes());
                let plain = || Encoding::for_label(name.replace('-', "").as_bytes());
                match known.or_else(plain)? {
                    encoding if encoding == REPLACEMENT || encoding == X_USER_DEFINED => return None,
                    encoding if encoding == UTF_8 => TextEncoding::Utf8,
                    encoding => TextEncoding::Other(encoding),
                }
            }
        })
    }

    /// The text of a file in this encoding, as UTF-8.
    pub fn decoded(self, file: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
        let mut file = BufReader::with_capacity(DECODED_BYTES, file);
        let encoding = match self {
            TextEncoding::Utf8 => return Ok(Box::new(file)),
            TextEncoding::Latin1 => return Ok(Box::new(Latin1 { file, text: Ready::default() })),
            TextEncoding::Utf16 if file.fill_buf()?.starts_with(&[0xfe, 0xff]) => UTF_16BE,
            TextEncoding::Utf16 => UTF_16LE,
            TextEncoding::Other(encoding) => encoding,
        };
        let decoder = encoding.new_decoder_with_bom_removal();
        let text = Ready { bytes: vec![0; DECODED_BYTES], ..Ready::default() };
        Ok(Box::new(Decoded { file, encoding, decoder, text, bytes: 0, has_ended: false }))
    }
}

/// Python's names of encodings that browsers call otherwise.
fn label(name: &str) -> &str {
    match name {
        "cp932" => "windows-31j",
        "cp936" => "gbk",
        "cp949" => "windows-949",
        "cp950" => "big5",
        "utf-16-le" => "utf-16le",
        "utf-16-be" => "utf-16be",
        "latin-9" | "latin9" => "iso-8859-15",
        "mac-roman" | "macroman" => "macintosh",
        other => other,
    }
}

/// Bytes that do not belong to the encoding of a file.
#[derive(Debug)]
pub(super) struct NotEncoded {
    /// The number of bytes of the file up to the end of the wrong ones.
    byte: u64,
    encoding: &'static str,
}

impl fmt::Display for NotEncoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the bytes before byte {} are no text in {}", self.byte, self.encoding)
    }
}

impl std::error::Error for NotEncoded {}

/// Decoded text that was not read yet.
#[derive(Default)]
struct Ready {
    bytes: Vec<u8>,
    from: usize,
    to: usize,
}

impl Ready {
    fn take(&mut self, into: &mut [u8]) -> usize {
        let taken = into.len().min(self.to - self.from);
        into[..taken].copy_from_slice(&self.bytes[self.from..self.from + taken]);
        self.from += taken;
        taken
    }
}

struct Decoded<R> {
    file: BufReader<R>,
    encoding: &'static Encoding,
    decoder: encoding_rs::Decoder,
    text: Ready,
    /// Bytes of the file that were decoded.
    bytes: u64,
    has_ended: bool,
}

impl<R: Read> Read for Decoded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.text.take(into) {
                0 if !self.has_ended && !into.is_empty() => {}
                taken => return Ok(taken),
            }
            let bytes = self.file.fill_buf()?;
            let is_last = bytes.is_empty();
            let (result, read, written) =
                self.decoder.decode_to_utf8_without_replacement(bytes, &mut self.text.bytes, is_last);
            self.file.consume(read);
            self.bytes += read as u64;
            (self.text.from, self.text.to) = (0, written);
            match result {
                DecoderResult::InputEmpty => self.has_ended = is_last,
                DecoderResult::OutputFull => {}
                DecoderResult::Malformed(..) => {
                    let wrong = NotEncoded { byte: self.bytes, encoding: self.encoding.name() };
                    return Err(io::Error::new(io::ErrorKind::InvalidData, wrong));
                }
            }
        }
    }
}

struct Latin1<R> {
    file: BufReader<R>,
    text: Ready,
}

impl<R: Read> Read for Latin1<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.text.take(into) {
            0 if !into.is_empty() => {}
            taken => return Ok(taken),
        }
        let bytes = self.file.fill_buf()?;
        let read = bytes.len();
        self.text.bytes.resize(2 * read, 0);
        let written = encoding_rs::mem::convert_latin1_to_utf8(bytes, &mut self.text.bytes);
        self.file.consume(read);
        (self.text.from, self.text.to) = (0, written);
        Ok(self.text.take(into))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, bytes: &[u8], expected: Option<&str>) {
        let encoding = TextEncoding::named(name).expect(name);
        let mut text = String::new();
        let read = encoding.decoded(Box::new(io::Cursor::new(bytes.to_vec())));
        let read = read.and_then(|mut read| read.read_to_string(&mut text));
        assert_eq!(read.ok().map(|_| text.as_str()), expected, "{name}");
    }

    #[test]
    fn texts_are_decoded() {
        check("latin-1", b"caf\xe9\x80", Some("café\u{80}"));
        check("windows-1252", b"caf\xe9\x80", Some("café€"));
        check("CP1252", b"\x80", Some("€"));
        check("utf-16", b"\xff\xfea\0\xac\x20", Some("a€"));
        check("utf-16", b"\xfe\xff\0a\x20\xac", Some("a€"));
        check("UTF_16", b"a\0\xac\x20", Some("a€"));
        check("utf-16-be", b"\0a", Some("a"));
        check("utf-16-le", b"\xff\xfea\0", Some("a"));
        check("shift_jis", b"\x83\x65", Some("テ"));
        check("koi8-r", b"\xc1", Some("а"));
        check("latin2", b"\xb1", Some("ą"));
        check("latin-2", b"\xb1", Some("ą"));
        check("utf-16", b"a", None);
        check("utf-16", b"\x00\xd8a\0", None);
        check("euc-jp", b"\xff\xff", None);
        let long: Vec<u8> = std::iter::repeat_n(0xe9, 1_000_000).collect();
        check("latin-1", &long, Some(&"é".repeat(1_000_000)));
        let long: Vec<u8> = "é\n".repeat(100_000).encode_utf16().flat_map(u16::to_le_bytes).collect();
        check("utf-16", &long, Some(&"é\n".repeat(100_000)));
    }

    #[test]
    fn names_of_encodings() {
        assert_eq!(TextEncoding::named("UTF8"), Some(TextEncoding::Utf8));
        assert_eq!(TextEncoding::named(" Latin_1 "), Some(TextEncoding::Latin1));
        for unknown in ["", "nope", "utf-32", "cp437", "replacement", "x-user-defined"] {
            assert_eq!(TextEncoding::named(unknown), None, "{unknown}");
        }
    }
}
