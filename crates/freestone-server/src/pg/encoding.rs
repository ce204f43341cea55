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

/// The characters of LATIN9 that are others than those of LATIN1.
const LATIN9: [(u8, char); 8] =
    [(0xa4, '€'), (0xa6, 'Š'), (0xa8, 'š'), (0xb4, 'Ž'), (0xb8, 'ž'), (0xbc, 'Œ'), (0xbd, 'œ'), (0xbe, 'Ÿ')];

/// The characters of WIN1252 from 0x80 on, where LATIN1 has control characters. Five bytes have none.
const WIN1252: [Option<char>; 32] = [
    Some('€'),
    None,
    Some('‚'),
    Some('ƒ'),
    Some('„'),
    Some('…'),
    Some('†'),
    Some('‡'),
    Some('ˆ'),
    Some('‰'),
    Some('Š'),
    Some('‹'),
    Some('Œ'),
    None,
    Some('Ž'),
    None,
    None,
    Some('‘'),
    Some('’'),
    Some('“'),
    Some('”'),
    Some('•'),
    Some('–'),
    Some('—'),
    Some('˜'),
    Some('™'),
    Some('š'),
    Some('›'),
    Some('œ'),
    None,
    Some('ž'),
    Some('Ÿ'),
];

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
        bytes.iter().map(|byte| self.character(*byte)).collect::<Option<String>>().map(Cow::Owned)
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

    fn character(self, byte: u8) -> Option<char> {
        let latin9 = || LATIN9.iter().find(|(known, _)| *known == byte).map(|(_, character)| *character);
        match (self, byte) {
            (Encoding::Win1252, 0x80..=0x9f) => WIN1252[usize::from(byte - 0x80)],
            (Encoding::Latin9, _) => latin9().or(Some(char::from(byte))),
            _ => Some(char::from(byte)),
        }
    }

    fn byte(self, character: char) -> Option<u8> {
        let plain = u8::try_from(u32::from(character)).ok();
        let plain = plain.filter(|byte| self.character(*byte) == Some(character));
        let own = || match self {
            Encoding::Latin9 => LATIN9.iter().find(|(_, known)| *known == character).map(|(byte, _)| *byte),
            Encoding::Win1252 => {
                let at = WIN1252.iter().position(|known| *known == Some(character))?;
                Some(0x80 + at as u8)
            }
            _ => None,
        };
        plain.or_else(own)
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
