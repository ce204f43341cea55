//! Functions of strings that need no regular expression.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, Float64Array, Int64Array, StringViewArray,
};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::exec_err;
use datafusion::error::Result;

use super::Scalar;

const TEXT: DataType = DataType::Utf8View;
const BYTES: DataType = DataType::BinaryView;
const INT: DataType = DataType::Int64;

pub(super) fn all() -> Vec<Scalar> {
    vec![
        Scalar::new(&["unicode"], &[&[TEXT]], INT, |a| numbers(a, |text| text.chars().next().map_or(-1, |c| c as i64))),
        Scalar::new(&["ord"], &[&[TEXT]], INT, |a| numbers(a, |text| text.chars().next().map_or(0, |c| c as i64))),
        Scalar::new(&["hamming", "mismatches"], &[&[TEXT, TEXT]], INT, hamming),
        Scalar::new(&["damerau_levenshtein"], &[&[TEXT, TEXT]], INT, |a| {
            pairs(a, |x, y| Ok(damerau_levenshtein(x, y)))
        }),
        Scalar::new(&["jaccard"], &[&[TEXT, TEXT]], DataType::Float64, jaccard),
        Scalar::new(&["to_base64", "base64"], &[&[BYTES]], TEXT, |a| {
            Ok(Arc::new(bytes(a).map(|bytes| bytes.map(base64)).collect::<StringViewArray>()))
        }),
        Scalar::new(&["from_base64"], &[&[TEXT]], BYTES, |a| from_text(a, "base64", from_base64)),
        Scalar::new(&["hex", "to_hex"], &[&[BYTES], &[TEXT]], TEXT, hex_of_text),
        Scalar::new(&["unhex", "from_hex"], &[&[TEXT]], BYTES, |a| from_text(a, "hexadecimal", from_hex)),
        Scalar::new(&["url_encode"], &[&[TEXT]], TEXT, |a| texts(a, |text| Ok(url_encode(text)))),
        Scalar::new(&["url_decode"], &[&[TEXT]], TEXT, |a| texts(a, url_decode)),
        Scalar::new(&["bar"], &[&[DataType::Float64; 3], &[DataType::Float64; 4]], TEXT, bar),
    ]
}

fn strings(array: &ArrayRef) -> &StringViewArray {
    array.as_string_view()
}

fn bytes(a: &[ArrayRef]) -> impl Iterator<Item = Option<&[u8]>> {
    a[0].as_binary_view().iter()
}

fn numbers(a: &[ArrayRef], value: fn(&str) -> i64) -> Result<ArrayRef> {
    Ok(Arc::new(strings(&a[0]).iter().map(|text| text.map(value)).collect::<Int64Array>()))
}

fn texts(a: &[ArrayRef], value: impl Fn(&str) -> Result<String>) -> Result<ArrayRef> {
    let texts = strings(&a[0]).iter().map(|text| text.map(&value).transpose());
    Ok(Arc::new(texts.collect::<Result<StringViewArray>>()?))
}

fn pairs(a: &[ArrayRef], value: impl Fn(&str, &str) -> Result<i64>) -> Result<ArrayRef> {
    let rows = strings(&a[0]).iter().zip(strings(&a[1]).iter());
    let values = rows.map(|(x, y)| match (x, y) {
        (Some(x), Some(y)) => value(x, y).map(Some),
        _ => Ok(None),
    });
    Ok(Arc::new(values.collect::<Result<Int64Array>>()?))
}

fn hamming(a: &[ArrayRef]) -> Result<ArrayRef> {
    pairs(a, |x, y| match x.chars().count() == y.chars().count() {
        true => Ok(x.chars().zip(y.chars()).filter(|(x, y)| x != y).count() as i64),
        false => exec_err!("hamming compares strings of one length, and '{x}' and '{y}' differ in length"),
    })
}

/// Insertions, deletions, substitutions and swaps of neighbours that make one string of the other, each part changed once
/// (optimal string alignment).
fn damerau_levenshtein(x: &str, y: &str) -> i64 {
    let (x, y): (Vec<char>, Vec<char>) = (x.chars().collect(), y.chars().collect());
    let mut before: Vec<i64> = vec![];
    let mut last: Vec<i64> = (0..=y.len() as i64).collect();
    for (i, a) in x.iter().enumerate() {
        let mut row = vec![i as i64 + 1];
        for (j, b) in y.iter().enumerate() {
            let mut least = (last[j + 1] + 1).min(row[j] + 1).min(last[j] + i64::from(a != b));
            if i > 0 && j > 0 && *a == y[j - 1] && x[i - 1] == *b {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[y.len()]
}

/// The share of different characters that two strings have in common.
fn jaccard(a: &[ArrayRef]) -> Result<ArrayRef> {
    let rows = strings(&a[0]).iter().zip(strings(&a[1]).iter());
    let shares = rows.map(|(x, y)| match (x, y) {
        (Some(x), Some(y)) if x.is_empty() || y.is_empty() => {
            exec_err!("jaccard compares strings of at least one character, and got '{x}' and '{y}'")
        }
        (Some(x), Some(y)) => {
            let (x, y): (HashSet<char>, HashSet<char>) = (x.chars().collect(), y.chars().collect());
            let common = x.intersection(&y).count();
            Ok(Some(common as f64 / (x.len() + y.len() - common) as f64))
        }
        _ => Ok(None),
    });
    Ok(Arc::new(shares.collect::<Result<Float64Array>>()?))
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
    if text.len() % 4 != 0 {
        return None;
    }
    let digits = text.trim_end_matches('=');
    if text.len() - digits.len() > 2 {
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

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits?;
    let (first, pairs) = digits.split_at(digits.len() % 2);
    Some(first.iter().copied().chain(pairs.chunks(2).map(|pair| pair[0] << 4 | pair[1])).collect())
}

fn from_text(a: &[ArrayRef], form: &str, value: fn(&str) -> Option<Vec<u8>>) -> Result<ArrayRef> {
    let decoded = strings(&a[0]).iter().map(|text| match text {
        None => Ok(None),
        Some(text) => match value(text) {
            Some(bytes) => Ok(Some(bytes)),
            None => exec_err!("'{text}' is not {form} text"),
        },
    });
    Ok(Arc::new(decoded.collect::<Result<BinaryViewArray>>()?))
}

fn hex_of_text(a: &[ArrayRef]) -> Result<ArrayRef> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    Ok(Arc::new(match a[0].data_type() {
        DataType::BinaryView => bytes(a).map(|bytes| bytes.map(hex)).collect::<StringViewArray>(),
        _ => strings(&a[0]).iter().map(|text| text.map(|text| hex(text.as_bytes()))).collect(),
    }))
}

fn url_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn url_decode(text: &str) -> Result<String> {
    let source = text.as_bytes();
    let (mut bytes, mut at) = (Vec::with_capacity(source.len()), 0);
    while at < source.len() {
        let digits = source.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if source[at] == b'%' => {
                bytes.push(byte);
                at += 3;
            }
            _ => {
                bytes.push(source[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(bytes).or_else(|_| exec_err!("'{text}' decodes to bytes that are not UTF-8"))
}

/// A bar whose width shows a value between two bounds, in eighths of a character. The width is 80 unless it is given.
fn bar(a: &[ArrayRef]) -> Result<ArrayRef> {
    use datafusion::arrow::datatypes::Float64Type;
    let arrays: Vec<_> = a.iter().map(|array| array.as_primitive::<Float64Type>()).collect();
    let bars = (0..a[0].len()).map(|row| {
        if arrays.iter().any(|array| array.is_null(row)) {
            return Ok(None);
        }
        let value = |at: usize| arrays[at].value(row);
        let width = arrays.get(3).map_or(80.0, |array| array.value(row));
        if !(1.0..=1000.0).contains(&width) {
            return exec_err!("the width of a bar is 1 to 1000, not {width}");
        }
        let share = ((value(0) - value(1)) / (value(2) - value(1))).clamp(0.0, 1.0);
        let eighths = (share * width * 8.0) as usize;
        let mut text = "█".repeat(eighths / 8);
        text.extend(["▏", "▎", "▍", "▌", "▋", "▊", "▉"].get((eighths % 8).wrapping_sub(1)));
        text.extend(std::iter::repeat_n(' ', (width as usize).saturating_sub(eighths.div_ceil(8))));
        Ok(Some(text))
    });
    Ok(Arc::new(bars.collect::<Result<StringViewArray>>()?))
}
