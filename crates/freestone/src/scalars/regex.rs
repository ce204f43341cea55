//! Regular expressions with DuckDB's functions and options.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, Int64Array, ListBuilder, StringViewArray, StringViewBuilder,
};
use datafusion::error::Result;
use regex::{Captures, Regex, RegexBuilder};

use super::function::Scalar;
use super::kinds::Kind::{self, Int, Text};
use super::kinds::{BOOL, TEXT, list_of};
use super::rows::{any_null, ints, invalid, text_of_text, texts};
use crate::error::Error;
use crate::times::Call;

const FORMS: &[&[Kind]] = &[&[Text, Text], &[Text, Text, Text]];
const GROUP_FORMS: &[&[Kind]] = &[&[Text, Text], &[Text, Text, Int], &[Text, Text, Int, Text]];
pub(super) fn all() -> Vec<Scalar> {
    vec![
        Scalar::new(&["regexp_matches"], FORMS, BOOL, |call| matches(call, false)).slow(),
        Scalar::new(&["regexp_full_match"], FORMS, BOOL, |call| matches(call, true)).slow(),
        Scalar::new(&["regexp_extract"], GROUP_FORMS, TEXT, extract).slow(),
        Scalar::new(&["regexp_extract_all"], GROUP_FORMS, list_of(TEXT), extract_all).slow(),
        Scalar::new(&["regexp_replace"], &[&[Text, Text, Text], &[Text, Text, Text, Text]], TEXT, replace).slow(),
        Scalar::new(&["string_split_regex", "regexp_split_to_array", "str_split_regex"], FORMS, list_of(TEXT), split)
            .slow(),
        Scalar::new(&["regexp_escape"], &[&[Text]], TEXT, |call| text_of_text(call, |text| Ok(quoted(text)))),
    ]
}

/// The last compiled regular expression, because patterns are mostly the same in all rows.
#[derive(Default)]
struct LastRegex {
    /// Whether a match must be the whole text.
    is_whole: bool,
    known: Option<(String, String, Regex, bool)>,
}

impl LastRegex {
    /// A pattern with its options, and whether these request all matches.
    fn compiled(&mut self, pattern: &str, options: &str) -> Result<(&Regex, bool)> {
        if self.known.as_ref().is_none_or(|(known, with, ..)| known != pattern || with != options) {
            let (regex, is_global) = compiled(pattern, options, self.is_whole)?;
            self.known = Some((pattern.to_owned(), options.to_owned(), regex, is_global));
        }
        match &self.known {
            Some((_, _, regex, is_global)) => Ok((regex, *is_global)),
            None => invalid("a regular expression was not compiled"),
        }
    }
}

fn compiled(pattern: &str, options: &str, is_whole: bool) -> Result<(Regex, bool)> {
    let (mut folds, mut dot_is_all, mut is_literal, mut is_global) = (false, false, false, false);
    for option in options.chars() {
        match option {
            'c' => folds = false,
            'i' => folds = true,
            's' => dot_is_all = true,
            'm' | 'n' | 'p' => dot_is_all = false,
            'l' => is_literal = true,
            'g' => is_global = true,
            // The other options of PostgreSQL are the default here.
            'u' | ' ' | '\t' | '\n' => {}
            other => {
                let error = Error::invalid(format!("'{other}' is no option of a regular expression"));
                return Err(error.with_hint("options are c, i, l, m, s and g").into());
            }
        }
    }
    let escaped = if is_literal { regex::escape(pattern) } else { pattern.to_owned() };
    let escaped = if is_whole { format!(r"\A(?:{escaped})\z") } else { escaped };
    match RegexBuilder::new(&escaped).case_insensitive(folds).dot_matches_new_line(dot_is_all).build() {
        Ok(regex) => Ok((regex, is_global)),
        Err(error) => {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
            invalid(format!("'{pattern}' is no regular expression: {reason}"))
        }
    }
}

/// The options of a row, empty if the argument is missing; `None` if they are NULL.
fn options_of(options: Option<&StringViewArray>, row: usize) -> Option<&str> {
    match options {
        Some(options) if options.is_null(row) => None,
        Some(options) => Some(options.value(row)),
        None => Some(""),
    }
}

fn optional(call: &Call, at: usize) -> Result<Option<StringViewArray>> {
    if at < call.count() { texts(call, at).map(Some) } else { Ok(None) }
}

fn matches(call: &Call, is_whole: bool) -> Result<ArrayRef> {
    let (values, patterns, options) = (texts(call, 0)?, texts(call, 1)?, optional(call, 2)?);
    let mut last = LastRegex { is_whole, ..LastRegex::default() };
    let mut row = |row: usize| -> Result<Option<bool>> {
        let Some(options) = options_of(options.as_ref(), row) else { return Ok(None) };
        if any_null(&[&values, &patterns], row) {
            return Ok(None);
        }
        let (regex, _) = last.compiled(patterns.value(row), options)?;
        Ok(Some(regex.is_match(values.value(row))))
    };
    Ok(Arc::new((0..values.len()).map(&mut row).collect::<Result<BooleanArray>>()?))
}

fn groups(call: &Call, at: usize) -> Result<Option<Int64Array>> {
    if at < call.count() { ints(call, at).map(Some) } else { Ok(None) }
}

/// The number of a group; the whole match by default.
fn group_of(groups: Option<&Int64Array>, row: usize, regex: &Regex) -> Result<Option<usize>> {
    let group = match groups {
        Some(groups) if groups.is_null(row) => return Ok(None),
        Some(groups) => groups.value(row),
        None => 0,
    };
    match usize::try_from(group).ok().filter(|group| *group < regex.captures_len()) {
        Some(group) => Ok(Some(group)),
        None => invalid(format!("the regular expression '{}' has no group {group}", regex.as_str())),
    }
}

/// The text of a group; empty if it was not part of the match.
fn text_of<'a>(captures: &Captures<'a>, group: usize) -> &'a str {
    captures.get(group).map_or("", |found| found.as_str())
}

fn extract(call: &Call) -> Result<ArrayRef> {
    let (values, patterns, groups, options) = (texts(call, 0)?, texts(call, 1)?, groups(call, 2)?, optional(call, 3)?);
    let mut last = LastRegex::default();
    let mut row = |row: usize| -> Result<Option<String>> {
        let Some(options) = options_of(options.as_ref(), row) else { return Ok(None) };
        if any_null(&[&values, &patterns], row) {
            return Ok(None);
        }
        let (regex, _) = last.compiled(patterns.value(row), options)?;
        let Some(group) = group_of(groups.as_ref(), row, regex)? else { return Ok(Some(String::new())) };
        let found = match group {
            0 => regex.find(values.value(row)).map(|found| found.as_str()),
            _ => regex.captures(values.value(row)).map(|captures| text_of(&captures, group)),
        };
        Ok(Some(found.unwrap_or_default().to_owned()))
    };
    Ok(Arc::new((0..values.len()).map(&mut row).collect::<Result<StringViewArray>>()?))
}

fn extract_all(call: &Call) -> Result<ArrayRef> {
    let (values, patterns, groups, options) = (texts(call, 0)?, texts(call, 1)?, groups(call, 2)?, optional(call, 3)?);
    let mut last = LastRegex::default();
    let mut found = ListBuilder::new(StringViewBuilder::new());
    for row in 0..values.len() {
        let options = options_of(options.as_ref(), row).filter(|_| !any_null(&[&values, &patterns], row));
        let Some(options) = options else {
            found.append_null();
            continue;
        };
        let (regex, _) = last.compiled(patterns.value(row), options)?;
        match group_of(groups.as_ref(), row, regex)? {
            Some(0) => found.append_value(regex.find_iter(values.value(row)).map(|found| Some(found.as_str()))),
            Some(group) => {
                // A group that takes no part in a match is NULL.
                for captures in regex.captures_iter(values.value(row)) {
                    found.values().append_option(captures.get(group).map(|part| part.as_str()));
                }
                found.append(true);
            }
            None => found.append_null(),
        }
    }
    Ok(Arc::new(found.finish()))
}

fn split(call: &Call) -> Result<ArrayRef> {
    let (values, patterns, options) = (texts(call, 0)?, texts(call, 1)?, optional(call, 2)?);
    let mut last = LastRegex::default();
    let mut parts = ListBuilder::new(StringViewBuilder::new());
    for row in 0..values.len() {
        let options = options_of(options.as_ref(), row).filter(|_| values.is_valid(row));
        match options {
            None => parts.append_null(),
            Some(_) if patterns.is_null(row) => parts.append_value([Some(values.value(row))]),
            Some(options) => {
                let (regex, _) = last.compiled(patterns.value(row), options)?;
                parts.append_value(pieces(regex, values.value(row)).into_iter().map(Some));
            }
        }
    }
    Ok(Arc::new(parts.finish()))
}

/// The parts of a text between matches. An empty match is after a character.
fn pieces<'a>(regex: &Regex, text: &'a str) -> Vec<&'a str> {
    let mut pieces = vec![];
    let mut start = 0;
    for found in regex.find_iter(text) {
        if found.is_empty() && (found.start() == start || found.start() == text.len()) {
            continue;
        }
        pieces.push(&text[start..found.start()]);
        start = found.end();
    }
    pieces.push(&text[start..]);
    pieces
}

fn replace(call: &Call) -> Result<ArrayRef> {
    let (values, patterns, by, options) = (texts(call, 0)?, texts(call, 1)?, texts(call, 2)?, optional(call, 3)?);
    let mut last = LastRegex::default();
    let mut row = |row: usize| -> Result<Option<String>> {
        let Some(options) = options_of(options.as_ref(), row) else { return Ok(None) };
        if any_null(&[&values, &patterns, &by], row) {
            return Ok(None);
        }
        let (regex, is_global) = last.compiled(patterns.value(row), options)?;
        let by = by.value(row);
        let write = |captures: &Captures| substituted(captures, by);
        let limit = usize::from(!is_global);
        Ok(Some(match by.contains('\\') {
            true => regex.replacen(values.value(row), limit, write).into_owned(),
            false => regex.replacen(values.value(row), limit, regex::NoExpand(by)).into_owned(),
        }))
    };
    Ok(Arc::new((0..values.len()).map(&mut row).collect::<Result<StringViewArray>>()?))
}

/// A text as a pattern that matches it: with a backslash before all ASCII characters except letters, digits and `_`.
fn quoted(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() && !c.is_ascii_alphanumeric() && c != '_' {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

/// Expands a replacement: `\1` is the first group, `\0` and `\&` are the whole match, and `\\` is a backslash.
fn substituted(captures: &Captures, by: &str) -> String {
    let mut text = String::new();
    let mut characters = by.chars();
    while let Some(c) = characters.next() {
        match (c, if c == '\\' { characters.next() } else { None }) {
            ('\\', Some(digit @ '0'..='9')) => text.push_str(text_of(captures, digit as usize - '0' as usize)),
            ('\\', Some('&')) => text.push_str(text_of(captures, 0)),
            ('\\', Some(other)) => text.push(other),
            (c, _) => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_errors() {
        let is_match = |pattern: &str, options: &str, text: &str| {
            compiled(pattern, options, false).map(|(regex, _)| regex.is_match(text)).ok()
        };
        assert_eq!(is_match("A", "i", "a"), Some(true));
        assert_eq!(is_match("a.b", "", "a\nb"), Some(false));
        assert_eq!(is_match("a.b", "s", "a\nb"), Some(true));
        assert_eq!(is_match("a.b", "l", "axb"), Some(false));
        assert_eq!(is_match("(", "", ""), None);
        assert_eq!(is_match("a", "z", ""), None);
        let whole = |text: &str| compiled("a|ab", "", true).is_ok_and(|(regex, _)| regex.is_match(text));
        assert!(whole("ab") && whole("a") && !whole("abc"));
        let (regex, _) = compiled("[0-9]", "", false).expect("a regular expression");
        assert_eq!(pieces(&regex, "a1b2"), ["a", "b", ""]);
    }
}
