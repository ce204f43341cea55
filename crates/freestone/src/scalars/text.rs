//! Functions of strings without regular expressions.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, StringViewArray, UInt64Array};
use datafusion::arrow::compute;
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;

use super::function::Scalar;
use super::kinds::Kind::{Any, Bool, Bytes, Int, List, Map, Real, Text};
use super::kinds::{BOOL, INT, TEXT, list_of};
use super::rows::{
    Parts, any_null, bool_of_pairs, bools, int_of_text, ints, invalid, lists, reals, text_of_text, texts,
};
use crate::context;
use crate::growth::{Growth, Meter, weight};
use crate::times::{Call, exact_cast};

pub(super) fn all() -> Vec<Scalar> {
    vec![
        Scalar::new(
            &["length", "len", "char_length", "character_length"],
            &[&[Text], &[List], &[Map], &[Bytes]],
            INT,
            length,
        ),
        Scalar::typed(
            &["octet_length"],
            &[&[Text], &[Bytes]],
            |types, _| Ok(if types[0].is_binary() { INT } else { DataType::Int32 }),
            octet_length,
        ),
        Scalar::new(&["strlen"], &[&[Text]], INT, |call| int_of_text(call, |text| text.len() as i64)),
        Scalar::new(&["unicode", "ord"], &[&[Text]], INT, |call| {
            int_of_text(call, |text| text.chars().next().map_or(-1, |c| i64::from(u32::from(c))))
        }),
        Scalar::new(&["contains"], &[&[Text, Text], &[List, Any], &[Map, Any]], BOOL, contains),
        Scalar::new(&["string_split"], &[&[Text, Text]], list_of(TEXT), string_split),
        Scalar::typed(
            &["repeat"],
            &[&[Text, Int], &[List, Int]],
            |types, _| Ok(if types[0].is_string() { TEXT } else { types[0].clone() }),
            repeat,
        )
        .growing(Growth::Repeated),
        Scalar::new(
            &["parse_filename"],
            &[&[Text], &[Text, Bool], &[Text, Text], &[Text, Bool, Text]],
            TEXT,
            file_name,
        ),
        Scalar::new(&["parse_dirname"], &[&[Text], &[Text, Text]], TEXT, |call| {
            of_path(call, 1, |path, is| first_folder(path, is).to_owned())
        }),
        Scalar::new(&["parse_dirpath"], &[&[Text], &[Text, Text]], TEXT, |call| {
            of_path(call, 1, |path, is| folder(path, is).to_owned())
        }),
        Scalar::new(&["parse_path"], &[&[Text], &[Text, Text]], list_of(TEXT), parse_path),
        Scalar::new(&["bar"], &[&[Real, Real, Real], &[Real, Real, Real, Real]], TEXT, bar),
        Scalar::new(&["like_escape"], &[&[Text, Text, Text]], BOOL, |call| like_escape(call, false, false)).slow(),
        Scalar::new(&["ilike_escape"], &[&[Text, Text, Text]], BOOL, |call| like_escape(call, true, false)).slow(),
        Scalar::new(&["not_like_escape"], &[&[Text, Text, Text]], BOOL, |call| like_escape(call, false, true)).slow(),
        Scalar::new(&["not_ilike_escape"], &[&[Text, Text, Text]], BOOL, |call| like_escape(call, true, true)).slow(),
        Scalar::new(&["quote_ident"], &[&[Text]], TEXT, |call| text_of_text(call, |text| Ok(quoted_name(text)))),
        Scalar::new(&["quote_literal"], &[&[Text]], TEXT, |call| text_of_text(call, |text| Ok(quoted_text(text)))),
        Scalar::new(&["format_bytes", "formatreadablesize", "pg_size_pretty"], &[&[Int]], TEXT, |call| {
            sizes(call, 1024, &["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
        }),
        Scalar::new(&["formatreadabledecimalsize"], &[&[Int]], TEXT, |call| {
            sizes(call, 1000, &["kB", "MB", "GB", "TB", "PB", "EB"])
        }),
        Scalar::new(&["parse_formatted_bytes"], &[&[Text]], DataType::UInt64, |call| {
            let sizes = texts(call, 0)?;
            let sizes = sizes.iter().map(|size| size.map(size_of).transpose());
            Ok(Arc::new(sizes.collect::<Result<UInt64Array>>()?))
        }),
        Scalar::new(&["strip_accents"], &[&[Text]], TEXT, |call| text_of_text(call, |text| Ok(without_accents(text)))),
        Scalar::new(&["nfc_normalize"], &[&[Text]], TEXT, |call| {
            use unicode_normalization::UnicodeNormalization;
            text_of_text(call, |text| Ok(text.nfc().collect()))
        }),
        cut_function(),
    ]
}

/// The number of bytes that a size says: `1.5 KiB`.
fn size_of(written: &str) -> Result<u64> {
    let size = written.trim().to_lowercase();
    let end = size.char_indices().find(|(at, c)| {
        let is_exponent = *c == 'e' && size[at + 1..].starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+');
        let is_sign = matches!(c, '-' | '+') && (*at == 0 || size[..*at].ends_with('e'));
        !(c.is_ascii_digit() || *c == '.' || is_exponent || is_sign)
    });
    let (number, unit) = size.split_at(end.map_or(size.len(), |(at, _)| at));
    let Ok(number) = number.parse::<f64>() else { return invalid(format!("'{written}' has no number: write 1 GB")) };
    let power = |unit: &str| (1..).zip(["kb", "mb", "gb", "tb"]).find(|(_, own)| *own == unit).map(|(power, _)| power);
    let bytes = match unit.trim() {
        "b" | "byte" | "bytes" => number,
        unit if unit.ends_with("ib") => match power(&unit.replace("ib", "b")) {
            Some(power) => number * 1024f64.powi(power),
            None => return unknown_unit(unit),
        },
        unit => match power(unit) {
            Some(power) => number * 1000f64.powi(power),
            None => return unknown_unit(unit),
        },
    };
    if number < 0.0 {
        return invalid(format!("'{written}' is a negative size"));
    }
    if bytes >= u64::MAX as f64 { invalid(format!("'{written}' is too large a size")) } else { Ok(bytes as u64) }
}

fn unknown_unit<T>(unit: &str) -> Result<T> {
    invalid(format!("'{unit}' is no unit of sizes: write B, KB, MB, GB and TB, or KiB, MiB, GiB and TiB"))
}

/// The function that implements `'text'[2:3]`.
pub(super) fn cut_function() -> Scalar {
    Scalar::new(&["freestone_cut"], &[&[Text, Int, Int]], TEXT, cut)
}

/// The number of bytes of a text or BLOB.
fn octet_length(call: &Call) -> Result<ArrayRef> {
    let bytes = match call.array(0)?.data_type().is_binary() {
        true => bytes_of(call)?,
        false => int_of_text(call, |text| text.len() as i64)?,
    };
    exact_cast(&bytes, &call.to)
}

fn bytes_of(call: &Call) -> Result<ArrayRef> {
    let values = exact_cast(&call.array(0)?, &DataType::BinaryView)?;
    let lengths = values.as_binary_view().iter().map(|value| value.map(|value| value.len() as i64));
    Ok(Arc::new(lengths.collect::<Int64Array>()))
}

fn length(call: &Call) -> Result<ArrayRef> {
    let values = call.array(0)?;
    let counts = |offsets: &[i32], nulls: Option<&datafusion::arrow::buffer::NullBuffer>| {
        let lengths = offsets.windows(2).map(|pair| i64::from(pair[1] - pair[0]));
        Int64Array::new(lengths.collect(), nulls.cloned())
    };
    Ok(Arc::new(match values.data_type() {
        DataType::List(_) => counts(values.as_list::<i32>().value_offsets(), values.nulls()),
        DataType::Map(..) => counts(values.as_map().value_offsets(), values.nulls()),
        kind if kind.is_binary() => return bytes_of(call),
        _ => characters(&texts(call, 0)?),
    }))
}

/// The numbers of characters. If all bytes are ASCII, they are those of bytes, which the views have.
fn characters(texts: &StringViewArray) -> Int64Array {
    let count = |row: usize| {
        let text = texts.value(row);
        if text.is_ascii() { text.len() as i64 } else { text.chars().count() as i64 }
    };
    let counts: Vec<i64> = match is_ascii(texts) {
        true => texts.views().iter().map(|view| i64::from(*view as u32)).collect(),
        false => (0..texts.len()).map(count).collect(),
    };
    Int64Array::new(counts.into(), texts.nulls().cloned())
}

/// Whether all texts are known to be ASCII. Buffers are looked at as a whole, unless most of their bytes are not of these
/// texts.
fn is_ascii(texts: &StringViewArray) -> bool {
    const INLINE: u32 = 12;
    const HIGH: u128 = 0x8080_8080_8080_8080_8080_8080 << 32;
    let (mut long, mut short) = (0, 0);
    for view in texts.views() {
        let is_long = *view as u32 > INLINE;
        long += if is_long { *view as u32 as usize } else { 0 };
        short |= if is_long { 0 } else { view & HIGH };
    }
    let buffers = texts.data_buffers();
    let bytes: usize = buffers.iter().map(|buffer| buffer.len()).sum();
    short == 0 && bytes <= long * 2 && buffers.iter().all(|buffer| buffer.is_ascii())
}

/// Whether a text contains another, a list a value, or a map a key.
fn contains(call: &Call) -> Result<ArrayRef> {
    let (all, part) = (call.array(0)?, call.array(1)?);
    match all.data_type() {
        DataType::List(_) => {
            let lists = all.as_list::<i32>();
            super::list_members::has(lists.values(), lists.value_offsets(), lists.nulls(), &part)
        }
        DataType::Map(..) => {
            let maps = all.as_map();
            super::list_members::has(maps.keys(), maps.value_offsets(), maps.nulls(), &part)
        }
        _ => Ok(Arc::new(compute::contains(&texts(call, 0)?, &texts(call, 1)?)?)),
    }
}

/// The parts of a text between separators. An empty separator splits it into characters.
fn string_split(call: &Call) -> Result<ArrayRef> {
    let (values, separators) = (texts(call, 0)?, texts(call, 1)?);
    let mut parts = Parts::new("string_split");
    for (value, separator) in values.iter().zip(separators.iter()) {
        match (value, separator) {
            (None, _) => parts.append_null(),
            // A NULL separator does not split the text.
            (Some(value), None) => parts.append([value])?,
            (Some(""), _) => parts.append([""])?,
            (Some(value), Some("")) => {
                parts.append(value.char_indices().map(|(at, c)| &value[at..at + c.len_utf8()]))?;
            }
            (Some(value), Some(separator)) => parts.append(value.split(separator))?,
        }
    }
    Ok(parts.finish())
}

/// The bytes of a place in a list, from which a value is taken.
const PLACE_BYTES: usize = 4;

fn repeat(call: &Call) -> Result<ArrayRef> {
    let values = call.array(0)?;
    let counts = ints(call, 1)?;
    let mut meter = Meter::new("repeat");
    let mut grown = |bytes: usize, count: i64| {
        let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
        meter.add(bytes.saturating_mul(count)).map(|()| count)
    };
    if matches!(values.data_type(), DataType::List(_)) {
        let lists = lists(call, 0)?;
        let (mut places, mut lengths, mut nulls) = (vec![], vec![], vec![]);
        for row in 0..lists.len() {
            let is_null = any_null(&[&lists, &counts], row);
            let (start, length) = (lists.value_offsets()[row] as u32, lists.value_length(row).max(0) as usize);
            let bytes = weight(&lists.values().slice(start as usize, length)) as usize + length * PLACE_BYTES;
            let count = if is_null { 0 } else { grown(bytes, counts.value(row))? };
            (0..count).for_each(|_| places.extend(start..start + length as u32));
            lengths.push(length * count);
            nulls.push(!is_null);
        }
        return Ok(Arc::new(super::lists::taken(&lists, places, lengths, nulls)?));
    }
    let values = texts(call, 0)?;
    let rows = values.iter().zip(counts.iter()).map(|(value, count)| match (value, count) {
        (Some(value), Some(count)) => grown(value.len(), count).map(|count| Some(value.repeat(count))),
        _ => Ok(None),
    });
    Ok(Arc::new(rows.collect::<Result<StringViewArray>>()?))
}

/// Whether a character separates folders: `/`, `\` or both, depending on the last argument.
type IsSeparator = fn(char) -> bool;

fn separator(name: Option<&str>) -> Result<IsSeparator> {
    Ok(match name {
        Some("system" | "forward_slash") => |c| c == '/',
        None | Some("both_slash") => |c| c == '/' || c == '\\',
        Some("backslash") => |c| c == '\\',
        Some(other) => {
            return invalid(format!(
                "a path has no separator '{other}': it is system, both_slash, forward_slash or backslash"
            ));
        }
    })
}

fn of_path(call: &Call, at: usize, value: impl Fn(&str, IsSeparator) -> String) -> Result<ArrayRef> {
    let separators = if call.count() > at { Some(texts(call, at)?) } else { None };
    let paths = texts(call, 0)?;
    let rows = paths.iter().enumerate().map(|(row, path)| {
        let name = separators.as_ref().filter(|separators| separators.is_valid(row)).map(|s| s.value(row));
        path.map(|path| Ok(value(path, separator(name)?))).transpose()
    });
    Ok(Arc::new(rows.collect::<Result<StringViewArray>>()?))
}

fn file_name(call: &Call) -> Result<ArrayRef> {
    let has_flag = call.count() > 1 && *call.array(1)?.data_type() == BOOL;
    let cuts = if has_flag { Some(bools(call, 1)?) } else { None };
    // Whether the extension is removed is mostly the same for all rows.
    let cut = cuts.as_ref().is_some_and(|cuts| !cuts.is_empty() && cuts.is_valid(0) && cuts.value(0));
    of_path(call, if has_flag { 2 } else { 1 }, |path, is| {
        let name = path.rsplit(is).next().unwrap_or_default();
        match name.rfind('.').filter(|_| cut) {
            Some(dot) => name[..dot].to_owned(),
            None => name.to_owned(),
        }
    })
}

/// The first folder of a path; `/` if the path is absolute.
fn first_folder(path: &str, is: IsSeparator) -> &str {
    match path.find(is) {
        Some(0) => &path[..1],
        Some(end) => &path[..end],
        None => "",
    }
}

/// A path without its last part.
fn folder(path: &str, is: IsSeparator) -> &str {
    match path.rfind(is) {
        Some(0) => &path[..1],
        Some(end) => &path[..end],
        None => "",
    }
}

fn parse_path(call: &Call) -> Result<ArrayRef> {
    let separators = if call.count() > 1 { Some(texts(call, 1)?) } else { None };
    let paths = texts(call, 0)?;
    let mut parts = Parts::new("parse_path");
    for (row, path) in paths.iter().enumerate() {
        let name = separators.as_ref().filter(|separators| separators.is_valid(row)).map(|s| s.value(row));
        let is = separator(name)?;
        match path {
            None => parts.append_null(),
            Some(path) => {
                let root = path.starts_with(is).then(|| &path[..1]);
                parts.append(root.into_iter().chain(path.split(is).filter(|part| !part.is_empty())))?;
            }
        }
    }
    Ok(parts.finish())
}

/// A bar that shows the position of a value between two bounds, in eighths of a character. The default width is 80.
fn bar(call: &Call) -> Result<ArrayRef> {
    let numbers = (0..call.count()).map(|at| reals(call, at)).collect::<Result<Vec<_>>>()?;
    let row = |row: usize| -> Result<Option<String>> {
        if numbers.iter().any(|array| array.is_null(row)) {
            return Ok(None);
        }
        let value = |at: usize| numbers[at].value(row);
        let width = numbers.get(3).map_or(80.0, |array| array.value(row));
        if !(1.0..=1000.0).contains(&width) {
            return invalid(format!("the width of a bar is between 1 and 1000, not {width}"));
        }
        if numbers.iter().any(|array| array.value(row).is_nan()) {
            return invalid("a bar has no NaN as value or bound");
        }
        // Also where the bounds are in the other order, as in DuckDB.
        let share = match value(0) {
            number if number <= value(1) => 0.0,
            number if number >= value(2) => 1.0,
            number => (number - value(1)) / (value(2) - value(1)),
        };
        let eighths = (share * width * 8.0) as usize;
        let mut text = "█".repeat(eighths / 8);
        text.extend(["▏", "▎", "▍", "▌", "▋", "▊", "▉"].get((eighths % 8).wrapping_sub(1)).copied());
        text.extend(std::iter::repeat_n(' ', (width as usize).saturating_sub(eighths.div_ceil(8))));
        Ok(Some(text))
    };
    Ok(Arc::new((0..numbers[0].len()).map(row).collect::<Result<StringViewArray>>()?))
}

/// LIKE and ILIKE for patterns that are long, or differ from row to row. A backslash escapes, unless it is the last character.
pub(super) fn like(folds: bool, negated: bool) -> Scalar {
    let name = match (folds, negated) {
        (false, false) => "like",
        (true, false) => "ilike",
        (false, true) => "not_like",
        (true, true) => "not_ilike",
    };
    Scalar::new(&[name], &[&[Text, Text]], BOOL, move |call| {
        let folded = |text: &str| if folds { text.to_lowercase() } else { text.to_owned() };
        let mut last: Option<(String, Vec<Wild>)> = None;
        bool_of_pairs(call, |text, pattern| {
            if last.as_ref().is_none_or(|(known, _)| known != pattern) {
                let escapes = pattern.len() - pattern.trim_end_matches('\\').len();
                let complete = if escapes % 2 == 1 { format!("{pattern}\\") } else { pattern.to_owned() };
                last = Some((pattern.to_owned(), wilds(&folded(&complete), Some('\\'))?));
            }
            let wild = last.as_ref().map_or(&[][..], |(_, wild)| wild);
            Ok(matches_wild(&folded(text), wild)? != negated)
        })
    })
    .slow()
}

/// `like_escape(text, pattern, escape)`.
fn like_escape(call: &Call, folds: bool, negated: bool) -> Result<ArrayRef> {
    let (values, patterns, escapes) = (texts(call, 0)?, texts(call, 1)?, texts(call, 2)?);
    let row = |row: usize| -> Result<Option<bool>> {
        if any_null(&[&values, &patterns, &escapes], row) {
            return Ok(None);
        }
        let mut escape = escapes.value(row).chars();
        let (first, second) = (escape.next(), escape.next());
        if second.is_some() {
            return invalid("the escape of LIKE is one character, or empty");
        }
        let folded = |text: &str| if folds { text.to_lowercase() } else { text.to_owned() };
        let (value, pattern) = (folded(values.value(row)), folded(patterns.value(row)));
        Ok(Some(is_like(&value, &pattern, first)? != negated))
    };
    Ok(Arc::new((0..values.len()).map(row).collect::<Result<BooleanArray>>()?))
}

/// The characters that are compared with a pattern before the statement is asked whether it goes on.
const STEPS_UNCHECKED: usize = 1 << 20;

/// A part of a pattern.
#[derive(Clone, Copy, PartialEq)]
enum Wild {
    Any,
    One,
    Exactly(char),
}

fn is_like(text: &str, pattern: &str, escape: Option<char>) -> Result<bool> {
    matches_wild(text, &wilds(pattern, escape)?)
}

fn wilds(pattern: &str, escape: Option<char>) -> Result<Vec<Wild>> {
    let mut wild = vec![];
    let mut characters = pattern.chars();
    while let Some(c) = characters.next() {
        wild.push(match c {
            c if Some(c) == escape => match characters.next() {
                Some(next) => Wild::Exactly(next),
                None => return invalid("the pattern of LIKE ends in its escape character"),
            },
            '%' => Wild::Any,
            '_' => Wild::One,
            c => Wild::Exactly(c),
        });
    }
    Ok(wild)
}

fn matches_wild(text: &str, wild: &[Wild]) -> Result<bool> {
    let text: Vec<char> = text.chars().collect();
    // After a mismatch, the last `%` is extended by one character.
    let (mut at, mut place, mut last, mut steps) = (0, 0, None, 0usize);
    while at < text.len() {
        steps += 1;
        if steps.is_multiple_of(STEPS_UNCHECKED) {
            context::check()?;
        }
        match wild.get(place) {
            Some(Wild::Any) => {
                last = Some((place, at));
                place += 1;
            }
            Some(Wild::One) => (at, place) = (at + 1, place + 1),
            Some(Wild::Exactly(c)) if *c == text[at] => (at, place) = (at + 1, place + 1),
            _ => {
                let Some((any, start)) = last else { return Ok(false) };
                last = Some((any, start + 1));
                (at, place) = (start + 1, any + 1);
            }
        }
    }
    Ok(wild[place..].iter().all(|wild| *wild == Wild::Any))
}

/// A name as an SQL identifier, quoted unless it is a word in lower case.
fn quoted_name(name: &str) -> String {
    let is_word = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if is_word { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

fn quoted_text(text: &str) -> String {
    let start = if text.contains('\\') { "E'" } else { "'" };
    format!("{start}{}'", text.replace('\'', "''").replace('\\', "\\\\"))
}

/// A number of bytes in the largest unit that is not larger than it, with one decimal digit.
fn sizes(call: &Call, base: u64, units: &[&str; 6]) -> Result<ArrayRef> {
    let text = |bytes: i64| {
        let sign = if bytes < 0 { "-" } else { "" };
        let size = bytes.unsigned_abs();
        if size < base {
            return format!("{bytes} byte{}", if size == 1 { "" } else { "s" });
        }
        let (mut tenths, mut unit) = (u128::from(size) * 10 / u128::from(base), 0);
        let base = u128::from(base);
        while tenths >= base * 10 && unit + 1 < units.len() {
            tenths /= base;
            unit += 1;
        }
        format!("{sign}{}.{} {}", tenths / 10, tenths % 10, units[unit])
    };
    Ok(Arc::new(ints(call, 0)?.iter().map(|bytes| bytes.map(text)).collect::<StringViewArray>()))
}

fn without_accents(text: &str) -> String {
    use unicode_normalization::UnicodeNormalization;
    use unicode_normalization::char::is_combining_mark;
    if text.is_ascii() { text.to_owned() } else { text.nfd().filter(|c| !is_combining_mark(*c)).nfc().collect() }
}

/// The character at a position of each text, or the empty text if it has none there.
pub(super) fn character(call: &Call) -> Result<ArrayRef> {
    let (values, places) = (texts(call, 0)?, ints(call, 1)?);
    let row = |row: usize| {
        if any_null(&[&values, &places], row) {
            return None;
        }
        let text = values.value(row);
        let at = match places.value(row) {
            0 => None,
            place if place > 0 => usize::try_from(place - 1).ok(),
            place => usize::try_from(text.chars().count() as i64 + place).ok(),
        };
        Some(at.and_then(|at| text.chars().nth(at)).map(String::from).unwrap_or_default())
    };
    Ok(Arc::new((0..values.len()).map(row).collect::<StringViewArray>()))
}

/// The characters from one position to another. Both count from 1, or from the end if they are negative.
pub(super) fn cut(call: &Call) -> Result<ArrayRef> {
    let (values, starts, ends) = (texts(call, 0)?, ints(call, 1)?, ints(call, 2)?);
    let row = |row: usize| {
        if any_null(&[&values, &starts, &ends], row) {
            return None;
        }
        let text = values.value(row);
        let count = text.chars().count() as i64;
        let place = |at: i64| if at < 0 { count.saturating_add(at) + 1 } else { at };
        let (start, end) = (place(starts.value(row)).max(1), place(ends.value(row)).min(count));
        let wanted = usize::try_from(end.saturating_sub(start).saturating_add(1)).unwrap_or(0);
        Some(text.chars().skip((start - 1) as usize).take(wanted).collect::<String>())
    };
    Ok(Arc::new((0..values.len()).map(row).collect::<StringViewArray>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_with_escapes() {
        for (text, pattern, expected) in [
            ("a%c", "a$%c", true),
            ("abc", "a$%c", false),
            ("abc", "a_c", true),
            ("abcbc", "a%bc", true),
            ("", "%", true),
            ("é", "_", true),
            ("ab", "a", false),
        ] {
            assert_eq!(is_like(text, pattern, Some('$')).ok(), Some(expected), "{text} {pattern}");
        }
        assert!(is_like("a", "a$", Some('$')).is_err());
    }

    #[test]
    fn names_and_texts_are_quoted() {
        assert_eq!(quoted_name("plain_1"), "plain_1");
        assert_eq!(quoted_name("Odd \"name\""), "\"Odd \"\"name\"\"\"");
        assert_eq!(quoted_text("it's"), "'it''s'");
        assert_eq!(quoted_text("a\\b"), "E'a\\\\b'");
        assert_eq!(folder("/a/b/c", |c| c == '/'), "/a/b");
    }
}
