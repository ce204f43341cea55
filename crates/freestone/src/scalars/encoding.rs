//! Encoding and decoding of bytes and numbers as text: hexadecimal, binary, Base64, percent-encoding, SHA-1.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BinaryViewArray, StringViewArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;

use super::function::Scalar;
use super::kinds::Kind::{Bytes, Int, Text};
use super::kinds::{BYTES, TEXT};
use super::rows::{any_null, bytes, ints, invalid, text_of_text, texts};
use crate::growth::{Growth, Meter};
use crate::ingest::values;
use crate::normal_texts::BITS_MAX;
use crate::sql::function_macros::{AS_BLOB, AS_BLOB_OR_NULL};
use crate::times::{Call, is_text};

pub(super) fn all() -> Vec<Scalar> {
    vec![
        Scalar::new(&[AS_BLOB], &[&[Bytes], &[Text]], BYTES, |call| as_blob(call, true)),
        Scalar::new(&[AS_BLOB_OR_NULL], &[&[Bytes], &[Text]], BYTES, |call| as_blob(call, false)),
        Scalar::new(&["to_base64", "base64"], &[&[Bytes], &[Text]], TEXT, |call| written(call, base64)),
        Scalar::new(&["from_base64"], &[&[Text]], BYTES, |call| read(call, "Base64", from_base64)),
        Scalar::new(&["hex"], &[&[Int], &[Bytes], &[Text]], TEXT, |call| digits(call, 16)).growing(Growth::Share(3)),
        Scalar::new(&["bin", "to_binary"], &[&[Int], &[Bytes], &[Text]], TEXT, |call| digits(call, 2))
            .growing(Growth::Share(9)),
        Scalar::new(&["unhex", "from_hex"], &[&[Text]], BYTES, |call| {
            read(call, "hexadecimal", |text| packed(text, 4))
        }),
        Scalar::new(&["unbin", "from_binary"], &[&[Text]], BYTES, |call| read(call, "binary", |text| packed(text, 1))),
        Scalar::new(&["to_base"], &[&[Int, Int], &[Int, Int, Int]], TEXT, to_base),
        Scalar::new(&["bitstring"], &[&[Text, Int]], TEXT, bitstring),
        Scalar::new(&["url_encode"], &[&[Text]], TEXT, |call| text_of_text(call, |text| Ok(url_encoded(text))))
            .growing(Growth::Share(4)),
        Scalar::new(&["url_decode"], &[&[Text]], TEXT, |call| text_of_text(call, url_decoded)),
        Scalar::new(&["sha1"], &[&[Text], &[Bytes]], TEXT, |call| {
            written(call, |bytes| sha1(bytes).iter().fold(String::new(), |text, word| text + &format!("{word:08x}")))
        }),
    ]
}

/// Bits with zeros before them, so that they have a length. A cast tests that they are bits.
fn bitstring(call: &Call) -> Result<ArrayRef> {
    let (values, lengths) = (texts(call, 0)?, ints(call, 1)?);
    let mut meter = Meter::new("bitstring");
    let rows = values.iter().zip(&lengths).map(|pair| {
        let (Some(bits), Some(length)) = pair else { return Ok(None) };
        if bits.is_empty() {
            return invalid("bitstring takes at least one bit");
        }
        match usize::try_from(length).ok().filter(|length| *length >= bits.len()) {
            None => invalid(format!("{} bits do not have a length of {length}", bits.len())),
            Some(length) if length > BITS_MAX as usize => invalid(format!("bitstring makes at most {BITS_MAX} bits")),
            Some(length) => {
                meter.add(length)?;
                Ok(Some(format!("{bits:0>length$}")))
            }
        }
    });
    Ok(Arc::new(rows.collect::<Result<StringViewArray>>()?))
}

/// Bytes from texts as files and INSERT read them: `\xHEX` is the bytes that it spells, other text its own bytes.
fn as_blob(call: &Call, fails: bool) -> Result<ArrayRef> {
    if !is_text(call.array(0)?.data_type()) {
        return Ok(call.array(0)?.clone());
    }
    let mut spelled = vec![];
    let values = texts(call, 0)?;
    let rows = values.iter().map(|text| {
        let Some(text) = text else { return Ok(None) };
        match values::binary(text.as_bytes(), &mut spelled) {
            Ok(()) => Ok(Some(spelled.clone())),
            Err(_) if !fails => Ok(None),
            Err(_) => invalid(format!("'{text}' is not a BLOB: after \\x it has hexadecimal digits in pairs")),
        }
    });
    Ok(Arc::new(rows.collect::<Result<BinaryViewArray>>()?))
}

/// The encoded text of each row's bytes.
fn written(call: &Call, text: impl Fn(&[u8]) -> String) -> Result<ArrayRef> {
    let rows: StringViewArray = match call.array(0)?.data_type() {
        DataType::BinaryView => bytes(call, 0)?.iter().map(|bytes| bytes.map(&text)).collect(),
        _ => texts(call, 0)?.iter().map(|value| value.map(|value| text(value.as_bytes()))).collect(),
    };
    Ok(Arc::new(rows))
}

fn read(call: &Call, form: &str, bytes: fn(&str) -> Option<Vec<u8>>) -> Result<ArrayRef> {
    let values = texts(call, 0)?;
    let rows = values.iter().map(|text| {
        let Some(text) = text else { return Ok(None) };
        bytes(text).map_or_else(|| invalid(format!("'{text}' is not {form}")), |bytes| Ok(Some(bytes)))
    });
    Ok(Arc::new(rows.collect::<Result<BinaryViewArray>>()?))
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = BASE64[(word >> (18 - 6 * place) & 63) as usize];
            text.push(if place > group.len() { '=' } else { char::from(digit) });
        }
    }
    text
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.as_bytes().chunks(4) {
        let mut word = 0u32;
        for digit in group {
            word = word << 6 | BASE64.iter().position(|known| known == digit)? as u32;
        }
        word <<= 6 * (4 - group.len());
        bytes.extend_from_slice(&word.to_be_bytes()[1..group.len()]);
    }
    Some(bytes)
}

/// The digits of integers, without leading zeros, and of bytes, with them. Negative integers have 64 bits.
fn digits(call: &Call, base: u32) -> Result<ArrayRef> {
    if *call.array(0)?.data_type() == DataType::Int64 {
        let text = |value: i64| if base == 16 { format!("{value:X}") } else { format!("{value:b}") };
        return Ok(Arc::new(ints(call, 0)?.iter().map(|value| value.map(text)).collect::<StringViewArray>()));
    }
    written(call, |bytes| {
        bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = if base == 16 { write!(text, "{byte:02X}") } else { write!(text, "{byte:08b}") };
            text
        })
    })
}

/// The bytes that digits of a fixed number of bits represent. The first byte may have fewer digits.
fn packed(text: &str, bits: usize) -> Option<Vec<u8>> {
    let per_byte = 8 / bits;
    let digits = text.chars().map(|c| c.to_digit(1 << bits)).collect::<Option<Vec<u32>>>()?;
    let (first, rest) = digits.split_at(digits.len() % per_byte);
    let byte = |digits: &[u32]| digits.iter().fold(0u32, |byte, digit| byte << bits | digit) as u8;
    let first = (!first.is_empty()).then(|| byte(first));
    Some(first.into_iter().chain(rest.chunks(per_byte).map(byte)).collect())
}

/// `to_base(number, base [, minimum length])`.
fn to_base(call: &Call) -> Result<ArrayRef> {
    let (values, bases) = (ints(call, 0)?, ints(call, 1)?);
    let lengths = if call.count() == 3 { Some(ints(call, 2)?) } else { None };
    let row = |row: usize| -> Result<Option<String>> {
        if any_null(&[&values, &bases], row) || lengths.as_ref().is_some_and(|lengths| lengths.is_null(row)) {
            return Ok(None);
        }
        let (mut value, base) = (values.value(row), bases.value(row));
        let length = lengths.as_ref().map_or(0, |lengths| lengths.value(row));
        if value < 0 || !(2..=36).contains(&base) || !(0..=64).contains(&length) {
            return invalid("to_base takes a number that is not negative, a base from 2 to 36, and a length up to 64");
        }
        let mut digits = vec![];
        while value > 0 || digits.is_empty() {
            digits.push(char::from_digit((value % base) as u32, base as u32).unwrap_or('0').to_ascii_uppercase());
            value /= base;
        }
        digits.resize(digits.len().max(length as usize), '0');
        Ok(Some(digits.into_iter().rev().collect()))
    };
    Ok(Arc::new((0..values.len()).map(row).collect::<Result<StringViewArray>>()?))
}

fn url_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

fn url_decoded(text: &str) -> Result<String> {
    let source = text.as_bytes();
    let (mut bytes, mut at) = (Vec::with_capacity(source.len()), 0);
    while let Some(byte) = source.get(at) {
        let digits =
            source.get(at + 1..at + 3).filter(|digits| *byte == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        match digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()) {
            Some(decoded) => {
                bytes.push(decoded);
                at += 3;
            }
            None => {
                bytes.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8(bytes).or_else(|_| invalid(format!("'{text}' decodes to bytes that are not UTF-8")))
}

/// The five words of a digest (FIPS 180-4, 6.1).
fn sha1(bytes: &[u8]) -> [u32; 5] {
    let mut state = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    let mut message = bytes.to_vec();
    message.push(0x80);
    message.resize((message.len() + 8).next_multiple_of(64), 0);
    let end = message.len();
    message[end - 8..].copy_from_slice(&(bytes.len() as u64 * 8).to_be_bytes());
    for block in message.chunks_exact(64) {
        let mut words = [0u32; 80];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        for at in 16..80 {
            words[at] = (words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16]).rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (at, word) in words.iter().enumerate() {
            let (mixed, constant) = match at {
                0..20 => (b & c | !b & d, 0x5a82_7999),
                20..40 => (b ^ c ^ d, 0x6ed9_eba1),
                40..60 => (b & c | b & d | c & d, 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6u32),
            };
            let next = a.rotate_left(5).wrapping_add(mixed).wrapping_add(e).wrapping_add(constant).wrapping_add(*word);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
        }
        for (word, add) in state.iter_mut().zip([a, b, c, d, e]) {
            *word = word.wrapping_add(add);
        }
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_texts() {
        for length in 0..70usize {
            let bytes: Vec<u8> = (0..length).map(|n| (n * 37 % 256) as u8).collect();
            assert_eq!(from_base64(&base64(&bytes)).as_deref(), Some(bytes.as_slice()));
        }
        assert_eq!(base64(b"ab"), "YWI=");
        assert_eq!(from_base64("YQ="), None);
        assert_eq!(from_base64("Y==="), None);
        assert_eq!(packed("abc", 4), Some(vec![0x0a, 0xbc]));
        assert_eq!(packed("xy", 4), None);
        assert_eq!(packed("101", 1), Some(vec![5]));
        assert_eq!(url_decoded("a%20%zz%").ok().as_deref(), Some("a %zz%"));
        assert!(url_decoded("%ff").is_err());
    }

    #[test]
    fn digests() {
        let hex = |bytes: &[u8]| sha1(bytes).iter().map(|word| format!("{word:08x}")).collect::<String>();
        assert_eq!(hex(b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(hex(b""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(hex(&[b'a'; 56]), "c2db330f6083854c99d4b5bfb6e8f29f201be699");
        assert_eq!(hex(&[b'a'; 64]), "0098ba824b5c16427bd7a1122a5a442a25ec644d");
    }
}
