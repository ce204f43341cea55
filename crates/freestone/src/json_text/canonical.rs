//! The canonical form of JSONB, as PostgreSQL writes it: keys by length and bytes, the last of equal keys, numbers without
//! exponents, and a space behind commas and colons. So equal documents are equal texts. [`order_key`] has their order.

use std::borrow::Cow;

use super::{Node, append_character, parse, unescaped};
use crate::error::Result;
use crate::growth::Meter;

/// The most digits before and behind the point of a number, as in PostgreSQL.
const WHOLE_DIGITS_MAX: i64 = 131_072;
const FRACTION_DIGITS_MAX: i64 = 16_383;

/// The canonical form of a text; `None` if it is not JSON, or has numbers or strings that JSONB does not have.
///
/// # Errors
/// The statement has no memory for it, or was cancelled.
pub(crate) fn canonical(text: &str) -> Result<Option<String>> {
    match parse(text)? {
        Some(node) => canonical_of(&node),
        None => Ok(None),
    }
}

/// The canonical form of a value; `None` if it has numbers or strings that JSONB does not have.
///
/// # Errors
/// As for [`canonical`].
pub(crate) fn canonical_of(node: &Node) -> Result<Option<String>> {
    let mut out = String::new();
    let is_possible = write_canonical(node, &mut out, &mut Meter::new("a JSONB text"))?;
    Ok(is_possible.then_some(out))
}

/// Appends the canonical form. False if there is none.
fn write_canonical(node: &Node, out: &mut String, meter: &mut Meter) -> Result<bool> {
    match node {
        Node::Null | Node::Bool(_) => node.write(out),
        Node::Number(digits) => {
            let Some(number) = plain_number(digits) else { return Ok(false) };
            meter.add(number.len())?;
            out.push_str(&number);
        }
        Node::Text(raw) => {
            let Some(text) = possible(raw) else { return Ok(false) };
            append_string(&text, out);
        }
        Node::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                if !write_canonical(item, out, meter)? {
                    return Ok(false);
                }
            }
            out.push(']');
        }
        Node::Object(entries) => {
            let Some(entries) = sorted(entries) else { return Ok(false) };
            out.push('{');
            for (at, (key, value)) in entries.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                append_string(key, out);
                out.push_str(": ");
                if !write_canonical(value, out, meter)? {
                    return Ok(false);
                }
            }
            out.push('}');
        }
    }
    Ok(true)
}

/// The entries in the order of their keys, the last of those with equal ones.
fn sorted<'n, 'a>(entries: &'n [(Cow<'a, str>, Node<'a>)]) -> Option<Vec<(String, &'n Node<'a>)>> {
    let entry = |(key, value): &'n (Cow<'a, str>, Node<'a>)| Some((possible(key)?, value));
    let mut all = entries.iter().map(entry).collect::<Option<Vec<_>>>()?;
    all.sort_by(|(a, _), (b, _)| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
    all.reverse();
    all.dedup_by(|(a, _), (b, _)| a == b);
    all.reverse();
    Some(all)
}

/// A string without its escapes; `None` for characters that texts of PostgreSQL do not have.
fn possible(raw: &str) -> Option<String> {
    const LOST: char = '\u{fffd}';
    let text = unescaped(raw);
    let is_written = || raw.contains(LOST) || raw.to_ascii_lowercase().contains("\\ufffd");
    let is_lost = text.contains(LOST) && !is_written();
    (!text.contains('\0') && !is_lost).then_some(text)
}

/// Appends a string with the escapes of PostgreSQL.
pub(crate) fn append_string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            character => append_character(character, out),
        }
    }
    out.push('"');
}

/// A number without an exponent, with the digits behind the point that it was written with; `None` if it is none of
/// PostgreSQL's NUMERIC.
fn plain_number(written: &str) -> Option<String> {
    let (sign, digits) = match written.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", written),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (digits, 0),
    };
    if !(-2 * WHOLE_DIGITS_MAX..=2 * WHOLE_DIGITS_MAX).contains(&exponent) {
        return None;
    }
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let point = i64::try_from(whole.len()).ok()? + exponent;
    let scale = i64::try_from(all.len()).ok()? - point;
    if point > WHOLE_DIGITS_MAX || scale > FRACTION_DIGITS_MAX {
        return None;
    }
    let before = usize::try_from(point).unwrap_or(0);
    let zeros = usize::try_from(point.saturating_neg()).unwrap_or(0);
    // Widths of formats are shorter than numbers can be.
    let filled = "0".repeat(before.saturating_sub(all.len()));
    let whole = format!("{}{filled}", all.get(..before).unwrap_or(&all));
    let behind = all.get(before..).filter(|behind| !behind.is_empty());
    let behind = behind.map(|behind| format!(".{}{behind}", "0".repeat(zeros))).unwrap_or_default();
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    let is_zero = all.bytes().all(|digit| digit == b'0');
    Some(format!("{}{whole}{behind}", if is_zero { "" } else { sign }))
}

/// Bytes in the order of JSONB: objects are the greatest, then arrays, booleans, numbers, strings and NULL; longer arrays and
/// objects are greater than shorter ones. Only an empty array that is a whole document is less than all else.
pub(crate) fn order_key(text: &str) -> Option<Vec<u8>> {
    let node = parse(text).ok()??;
    let mut key = vec![];
    match &node {
        Node::Array(items) if items.is_empty() => key.push(0),
        node => push_key(node, &mut key)?,
    }
    Some(key)
}

fn push_key(node: &Node, key: &mut Vec<u8>) -> Option<()> {
    let count = |all: usize| u32::try_from(all).unwrap_or(u32::MAX).to_be_bytes();
    match node {
        Node::Null => key.push(1),
        Node::Text(raw) => {
            key.push(2);
            push_text(&unescaped(raw), key);
        }
        Node::Number(digits) => {
            key.push(3);
            key.extend(number_key(digits)?);
        }
        Node::Bool(value) => key.extend([4, u8::from(*value)]),
        Node::Array(items) => {
            key.push(5);
            key.extend(count(items.len()));
            items.iter().try_for_each(|item| push_key(item, key))?;
        }
        Node::Object(entries) => {
            let entries = sorted(entries)?;
            key.push(6);
            key.extend(count(entries.len()));
            for (name, value) in entries {
                push_text(&name, key);
                push_key(value, key)?;
            }
        }
    }
    Some(())
}

/// A text ends with a byte that is in none.
fn push_text(text: &str, key: &mut Vec<u8>) {
    key.extend(text.bytes());
    key.push(0);
}

/// Bytes in the order of numbers; equal ones have the same.
pub(crate) fn number_key(written: &str) -> Option<Vec<u8>> {
    let plain = plain_number(written)?;
    let (is_negative, digits) = match plain.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, plain.as_str()),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    let significant = all.trim_start_matches('0');
    if significant.is_empty() {
        return Some(vec![1]);
    }
    let zeros = all.len() - significant.len();
    // The place of the point behind the first digit that counts.
    let exponent = i64::try_from(whole.len()).ok()? - i64::try_from(zeros).ok()?;
    let mut body = exponent.wrapping_sub(i64::MIN).cast_unsigned().to_be_bytes().to_vec();
    push_text(significant.trim_end_matches('0'), &mut body);
    if is_negative {
        body.iter_mut().for_each(|byte| *byte = !*byte);
    }
    body.insert(0, if is_negative { 0 } else { 2 });
    Some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_one_form() {
        // As PostgreSQL 15 writes them.
        for (text, expected) in [
            (r#" {"bb":1,"a":[1,2.50,{}],"a":null} "#, Some(r#"{"a": null, "bb": 1}"#)),
            (r#"{"b":1,"aa":2,"a":3,"B":4,"":5}"#, Some(r#"{"": 5, "B": 4, "a": 3, "b": 1, "aa": 2}"#)),
            (r#"{"\u0061":1,"a":2}"#, Some(r#"{"a": 2}"#)),
            ("[1,[ ],\"\\u00e4\\b\\f\\/\\u001f\"]", Some("[1, [], \"ä\\b\\f/\\u001f\"]")),
            ("[1e3,1.50,-0,-0.0,1E-2,1.0e1,15e-1,-1.5e-3]", Some("[1000, 1.50, 0, 0.0, 0.01, 10, 1.5, -0.0015]")),
            ("12345678901234567890.10", Some("12345678901234567890.10")),
            ("1e131071000", None),
            ("NaN", None),
            ("-inf", None),
            (r#""\u0000""#, None),
            (r#""\ud83d""#, None),
            ("\"\\ud83d\\ude00\u{fffd}\"", Some("\"😀\u{fffd}\"")),
            ("{", None),
        ] {
            let form = canonical(text).expect(text);
            assert_eq!(form.as_deref(), expected, "{text}");
            if let Some(form) = form {
                assert_eq!(canonical(&form).expect("JSON"), Some(form.clone()), "{form}");
            }
        }
        assert!(canonical("1e131071").is_ok_and(|form| form.is_some_and(|form| form.len() == 131_072)));
    }

    #[test]
    fn documents_are_in_postgresqls_order() {
        let sorted = [
            "[]",
            "null",
            r#""""#,
            r#""a""#,
            r#""ab""#,
            r#""b""#,
            "-10",
            "-9.5",
            "-0.1",
            "0",
            "0.001",
            "0.01",
            "1",
            "1.5",
            "2",
            "10",
            "10.5",
            "100",
            "false",
            "true",
            "[null]",
            "[1]",
            "[[]]",
            "[1, 1]",
            "[1, 2]",
            "[0, 0, 0]",
            "{}",
            r#"{"a": 1}"#,
            r#"{"a": 2}"#,
            r#"{"b": 1}"#,
            r#"{"a": 1, "b": 1}"#,
        ];
        let keys: Vec<_> = sorted.iter().map(|text| order_key(text)).collect();
        assert!(keys.iter().all(Option::is_some) && keys.is_sorted());
        assert_eq!(order_key("1.50"), order_key("1.5"));
    }
}
