//! Functions that only PostgreSQL has: single bytes of a BLOB, times rounded to some digits, paths of `#>` as pointers.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, Int64Array, StringViewArray};
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNanoType, Time64NanosecondType, TimeUnit};
use datafusion::error::Result;

use super::function::Scalar;
use super::kinds::Kind::{Bytes, Int, List, Span, Text, Time};
use super::kinds::{BYTES, INT, TEXT};
use super::rows::{any_null, bytes, ints, invalid, lists, texts};
use crate::growth::Growth;
use crate::ingest::{ArrayItem, array_items};
use crate::sql::text_types::{ROUNDED_INTERVAL, ROUNDED_TIME};
use crate::times::{Call, INTERVAL, exact_cast, is_text};

/// A path of keys, as `#>` takes it, in the form of `->`.
pub(super) const POINTER: &str = "freestone_json_pointer";

const CLOCK: DataType = DataType::Time64(TimeUnit::Nanosecond);

pub(super) fn all() -> Vec<Scalar> {
    vec![
        Scalar::new(&["get_byte"], &[&[Bytes, Int], &[Text, Int]], INT, get_byte),
        Scalar::new(&["set_byte"], &[&[Bytes, Int, Int], &[Text, Int, Int]], BYTES, set_byte),
        Scalar::new(&[ROUNDED_TIME], &[&[Time, Int]], CLOCK, rounded_times),
        Scalar::new(&[ROUNDED_INTERVAL], &[&[Span, Int]], INTERVAL, rounded_intervals),
        Scalar::new(&["freestone_chr"], &[&[Int]], TEXT, characters),
        Scalar::new(&["freestone_escaped_bytes"], &[&[Bytes], &[Text]], TEXT, escaped).growing(Growth::Share(5)),
        Scalar::new(&["freestone_unescaped_bytes"], &[&[Text]], BYTES, unescaped),
        pointer(),
    ]
}

pub(super) fn pointer() -> Scalar {
    Scalar::new(&[POINTER], &[&[Text], &[List]], TEXT, pointers)
}

/// The bytes of an argument, which may be a text as a cast to BLOB reads it.
fn blobs(call: &Call) -> Result<Vec<Option<Vec<u8>>>> {
    if !is_text(call.array(0)?.data_type()) {
        return Ok(bytes(call, 0)?.iter().map(|value| value.map(<[u8]>::to_vec)).collect());
    }
    let mut spelled = vec![];
    let texts = texts(call, 0)?;
    let blob = |text: Option<&str>| match text {
        Some(text) if crate::ingest::values::binary(text.as_bytes(), &mut spelled).is_ok() => Ok(Some(spelled.clone())),
        Some(text) => invalid(format!("'{text}' is not a BLOB: after \\x it has hexadecimal digits in pairs")),
        None => Ok(None),
    };
    texts.iter().map(blob).collect()
}

/// The character of a code. PostgreSQL's texts have no character 0.
fn characters(call: &Call) -> Result<ArrayRef> {
    let character = |code: i64| match u32::try_from(code).ok().filter(|code| *code > 0).and_then(char::from_u32) {
        Some(character) => Ok(character.to_string()),
        None => invalid(format!("{code} is no character of a text: write the code of one, from 1 on")),
    };
    let rows = ints(call, 0)?;
    let rows = rows.iter().map(|code| code.map(character).transpose());
    Ok(Arc::new(rows.collect::<Result<StringViewArray>>()?))
}

/// Bytes as text: those that are no ASCII, and 0, have three octal digits behind a backslash, which is doubled itself.
fn escaped(call: &Call) -> Result<ArrayRef> {
    let text = |bytes: Vec<u8>| {
        let push = |mut text: String, byte: &u8| {
            match byte {
                b'\\' => text.push_str("\\\\"),
                0 | 0x80.. => text.push_str(&format!("\\{byte:03o}")),
                byte => text.push(char::from(*byte)),
            }
            text
        };
        bytes.iter().fold(String::new(), push)
    };
    Ok(Arc::new(blobs(call)?.into_iter().map(|bytes| bytes.map(text)).collect::<StringViewArray>()))
}

/// The bytes that [`escaped`] writes as a text.
fn unescaped(call: &Call) -> Result<ArrayRef> {
    let texts = texts(call, 0)?;
    let bytes = |text: &str| match unescaped_bytes(text.as_bytes()) {
        Some(bytes) => Ok(bytes),
        None => invalid(format!("'{text}' has a backslash without another one, or three octal digits, behind it")),
    };
    let rows = texts.iter().map(|text| text.map(bytes).transpose());
    Ok(Arc::new(rows.collect::<Result<BinaryViewArray>>()?))
}

/// The bytes of a text in PostgreSQL's escape form: a doubled backslash, or three octal digits behind one. `None` if another
/// backslash stands in it.
pub fn unescaped_bytes(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(rest.len());
    while let [first, behind @ ..] = rest {
        let (byte, behind) = match (first, behind) {
            (b'\\', [b'\\', behind @ ..]) => (b'\\', behind),
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', behind @ ..]) => {
                ((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'), behind)
            }
            (b'\\', _) => return None,
            (other, behind) => (*other, behind),
        };
        bytes.push(byte);
        rest = behind;
    }
    Some(bytes)
}

/// The place of a byte, counted from 0.
fn place(blob: &[u8], at: i64) -> Result<usize> {
    match usize::try_from(at).ok().filter(|at| *at < blob.len()) {
        Some(at) => Ok(at),
        None => invalid(format!("there is no byte {at}: the BLOB has {} bytes, counted from 0", blob.len())),
    }
}

fn get_byte(call: &Call) -> Result<ArrayRef> {
    let (blobs, places) = (blobs(call)?, ints(call, 1)?);
    let byte = |(blob, at): (Option<Vec<u8>>, Option<i64>)| match (blob, at) {
        (Some(blob), Some(at)) => Ok(Some(i64::from(blob[place(&blob, at)?]))),
        _ => Ok(None),
    };
    Ok(Arc::new(blobs.into_iter().zip(&places).map(byte).collect::<Result<Int64Array>>()?))
}

/// The last eight bits of a number become the byte.
fn set_byte(call: &Call) -> Result<ArrayRef> {
    let (blobs, places, values) = (blobs(call)?, ints(call, 1)?, ints(call, 2)?);
    let mut changed = vec![];
    for (row, blob) in blobs.into_iter().enumerate() {
        let Some(mut blob) = blob.filter(|_| !any_null(&[&places, &values], row)) else {
            changed.push(None);
            continue;
        };
        let at = place(&blob, places.value(row))?;
        blob[at] = values.value(row) as u8;
        changed.push(Some(blob));
    }
    Ok(Arc::new(changed.into_iter().collect::<BinaryViewArray>()))
}

/// A number of nanoseconds, rounded half away from zero.
fn rounded(ns: i64, digits: i64) -> i64 {
    let unit = 10i64.pow(9 - u32::try_from(digits.clamp(0, 6)).unwrap_or(6));
    let half = if ns < 0 { -unit / 2 } else { unit / 2 };
    ns.checked_add(half).map_or(ns, |ns| ns / unit * unit)
}

fn rounded_times(call: &Call) -> Result<ArrayRef> {
    let (times, digits) = (exact_cast(&call.array(0)?, &CLOCK)?, ints(call, 1)?);
    let times = times.as_primitive::<Time64NanosecondType>();
    let digits = if digits.is_empty() || digits.is_null(0) { 6 } else { digits.value(0) };
    Ok(Arc::new(times.unary::<_, Time64NanosecondType>(|ns| rounded(ns, digits))))
}

fn rounded_intervals(call: &Call) -> Result<ArrayRef> {
    let (spans, digits) = (exact_cast(&call.array(0)?, &INTERVAL)?, ints(call, 1)?);
    let spans = spans.as_primitive::<IntervalMonthDayNanoType>();
    let digits = if digits.is_empty() || digits.is_null(0) { 6 } else { digits.value(0) };
    Ok(Arc::new(spans.unary::<_, IntervalMonthDayNanoType>(|mut span| {
        span.nanoseconds = rounded(span.nanoseconds, digits);
        span
    })))
}

fn pointers(call: &Call) -> Result<ArrayRef> {
    if is_text(call.array(0)?.data_type()) {
        let pointer = |text: &str| match path_of_text(text) {
            Some(parts) => Ok(pointer_of(&parts)),
            None => invalid(format!("'{text}' is no path: it reads '{{key,0}}'")),
        };
        let pointers = texts(call, 0)?;
        let pointers = pointers.iter().map(|text| text.map_or(Ok(None), pointer));
        return Ok(Arc::new(pointers.collect::<Result<StringViewArray>>()?));
    }
    let pointer = |parts: Option<ArrayRef>| -> Result<Option<String>> {
        let Some(parts) = parts else { return Ok(None) };
        let parts = exact_cast(&parts, &TEXT)?;
        // A key that is NULL leads nowhere.
        let parts: Option<Vec<String>> = parts.as_string_view().iter().map(|part| part.map(str::to_owned)).collect();
        Ok(parts.and_then(|parts| pointer_of(&parts)))
    };
    Ok(Arc::new(lists(call, 0)?.iter().map(pointer).collect::<Result<StringViewArray>>()?))
}

fn path_of_text(text: &str) -> Option<Vec<String>> {
    let part = |item: ArrayItem| match item {
        ArrayItem::Value(text) => Some(text),
        ArrayItem::Null | ArrayItem::Array(_) => None,
    };
    array_items(text)?.into_iter().map(part).collect()
}

/// The parts as a JSON pointer, whose numbers are keys of objects and places in arrays, as in PostgreSQL. Where one counts
/// from the end of an array, which a pointer cannot, they are a path.
fn pointer_of(parts: &[String]) -> Option<String> {
    let is_number = |part: &str| !part.is_empty() && part.len() < 18 && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_from_end = |part: &String| part.strip_prefix('-').is_some_and(is_number);
    if parts.is_empty() {
        return Some("$".to_owned());
    }
    if !parts.iter().any(is_from_end) {
        let part = |part: &String| format!("/{}", part.replace('~', "~0").replace('/', "~1"));
        return Some(parts.iter().map(part).collect());
    }
    let step = |part: &String| match is_number(part) || is_from_end(part) {
        true => format!("[{part}]"),
        false => format!(".\"{}\"", part.replace('\\', "\\\\").replace('"', "\\\"")),
    };
    Some(std::iter::once("$".to_owned()).chain(parts.iter().map(step)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_pointers() {
        for (text, expected) in [
            ("{a,b}", Some("/a/b")),
            ("{a,0}", Some("/a/0")),
            ("{}", Some("$")),
            ("{\"a/b\",\"~\"}", Some("/a~1b/~0")),
            ("{a,-1}", Some("$.\"a\"[-1]")),
            ("a", None),
            ("{a,NULL}", None),
        ] {
            assert_eq!(path_of_text(text).and_then(|parts| pointer_of(&parts)).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn bytes_have_escapes() {
        assert_eq!(unescaped_bytes(b"a\\\\\\101").as_deref(), Some(&b"a\\A"[..]));
        assert_eq!((unescaped_bytes(b"\\8"), unescaped_bytes(b"\\")), (None, None));
    }

    #[test]
    fn times_are_rounded() {
        for (ns, digits, expected) in
            [(1_500_000_000, 0, 2_000_000_000), (-1_500_000_000, 0, -2_000_000_000), (1_249_999_999, 1, 1_200_000_000)]
        {
            assert_eq!(rounded(ns, digits), expected);
        }
        assert_eq!(rounded(i64::MAX, 0), i64::MAX);
    }
}
