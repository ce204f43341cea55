//! The encodings that clients may have: UTF-8, and some in which each character has one byte.

use std::borrow::Cow;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Encoding {
    #[default]
    Utf8,
    /// Bytes that are not converted. They are UTF-8 here, too.
    SqlAscii,
    Latin1,
    Latin9,
    Win1252,
}

/// The bytes that WIN1252 does not have, which browsers take for control characters.
const NOT_IN_WIN1252: [u8; 5] = [0x81, 0x8d, 0x8f, 0x90, 0x9d];

impl Encoding {
    /// The encoding of a name, of which only letters and digits count.
    pub fn by_name(name: &str) -> Option<Encoding> {
        let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        Some(match plain.to_ascii_lowercase().as_str() {
            "utf8" | "unicode" => Encoding::Utf8,
            "sqlascii" => Encoding::SqlAscii,
            "latin1" | "iso88591" => Encoding::Latin1,
            "latin9" | "iso885915" => Encoding::Latin9,
            "win1252" | "windows1252" => Encoding::Win1252,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Encoding::Utf8 => "UTF8",
            Encoding::SqlAscii => "SQL_ASCII",
            Encoding::Latin1 => "LATIN1",
            Encoding::Latin9 => "LATIN9",
            Encoding::Win1252 => "WIN1252",
        }
    }

    /// Whether texts are sent as they are.
    pub fn is_plain(self) -> bool {
        matches!(self, Encoding::Utf8 | Encoding::SqlAscii)
    }

    /// The text of a client's bytes; `None` if they are none.
    pub fn decode(self, bytes: &[u8]) -> Option<Cow<'_, str>> {
        if self.is_plain() || bytes.is_ascii() {
            return std::str::from_utf8(bytes).ok().map(Cow::Borrowed);
        }
        match self.table() {
            None => Some(Cow::Owned(bytes.iter().copied().map(char::from).collect())),
            Some(_) if self == Encoding::Win1252 && bytes.iter().any(|byte| NOT_IN_WIN1252.contains(byte)) => None,
            Some(table) => table.decode_without_bom_handling_and_without_replacement(bytes),
        }
    }

    /// The bytes of a text for a client.
    ///
    /// # Errors
    ///
    /// The first character that the encoding does not have.
    pub fn encode(self, text: &str) -> Result<Cow<'_, [u8]>, char> {
        if self.is_plain() || text.is_ascii() {
            return Ok(Cow::Borrowed(text.as_bytes()));
        }
        let bytes = text.chars().map(|character| self.byte(character).ok_or(character));
        bytes.collect::<Result<Vec<u8>, char>>().map(Cow::Owned)
    }

    /// The same for names and messages, in which a question mark stands for what the encoding does not have.
    pub fn encode_message(self, text: &str) -> Cow<'_, [u8]> {
        self.encode(text).unwrap_or_else(|_| {
            Cow::Owned(text.chars().map(|character| self.byte(character).unwrap_or(b'?')).collect())
        })
    }

    /// Its characters; `None` if they are those whose numbers are its bytes.
    fn table(self) -> Option<&'static encoding_rs::Encoding> {
        match self {
            Encoding::Utf8 | Encoding::SqlAscii | Encoding::Latin1 => None,
            Encoding::Latin9 => Some(encoding_rs::ISO_8859_15),
            Encoding::Win1252 => Some(encoding_rs::WINDOWS_1252),
        }
    }

    fn byte(self, character: char) -> Option<u8> {
        let Some(table) = self.table() else { return u8::try_from(u32::from(character)).ok() };
        let mut text = [0; 4];
        let (bytes, _, is_unknown) = table.encode(character.encode_utf8(&mut text));
        let byte = *bytes.first().filter(|_| !is_unknown)?;
        (self != Encoding::Win1252 || !NOT_IN_WIN1252.contains(&byte)).then_some(byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_characters_belong_together() {
        for encoding in [Encoding::Latin1, Encoding::Latin9, Encoding::Win1252] {
            assert_eq!(Encoding::by_name(encoding.name()), Some(encoding));
            for byte in 0..=255u8 {
                let bytes = [byte];
                let Some(text) = encoding.decode(&bytes) else { continue };
                assert_eq!(encoding.encode(&text).as_deref(), Ok(&bytes[..]), "{byte}");
            }
        }
        assert_eq!(Encoding::Latin9.encode("a€").as_deref(), Ok(&b"a\xa4"[..]));
        assert_eq!(Encoding::Win1252.encode("€").as_deref(), Ok(&b"\x80"[..]));
        assert_eq!((Encoding::Latin1.encode("a€"), Encoding::Latin9.encode("¤")), (Err('€'), Err('¤')));
        assert_eq!(Encoding::Latin1.encode_message("a€ä").as_ref(), b"a?\xe4");
        assert_eq!((Encoding::Utf8.decode(b"\xe4"), Encoding::Win1252.decode(b"\x81")), (None, None));
        assert_eq!(Encoding::by_name("'utf-8'"), Some(Encoding::Utf8));
        assert_eq!(Encoding::by_name("EUC_JP"), None);
    }
}
