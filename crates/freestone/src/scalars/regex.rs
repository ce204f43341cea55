//! Regular expressions with DuckDB's functions and options.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, Int64Array, StringViewArray, StringViewBuilder, StructArray,
};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use freestone_binder::patterns::similar;
use regex::Regex;

use super::function::Scalar;
use super::kinds::Kind::{self, Int, Text};
use super::kinds::{BOOL, TEXT, list, list_of};
use super::lists::of_lengths;
use super::patterns::{Pattern, Reading};
use super::results::Results;
use super::rows::{Parts, VIEW_BYTES, any_null, ints, invalid, text_of_text, texts};
use crate::error::Error;
use crate::growth::Meter;
use crate::times::{Call, exact_cast};

const FORMS: &[&[Kind]] = &[&[Text, Text], &[Text, Text, Text]];
const GROUP_FORMS: &[&[Kind]] = &[&[Text, Text], &[Text, Text, Int], &[Text, Text, Int, Text]];
const NTH_FORMS: &[&[Kind]] = &[
    &[Text, Text],
    &[Text, Text, Int],
    &[Text, Text, Int, Int],
    &[Text, Text, Int, Int, Text],
    &[Text, Text, Int, Int, Text, Int],
];

pub(super) fn all() -> Vec<Scalar> {
    vec![
        Scalar::new(&["regexp_matches"], FORMS, BOOL, |call| matches(call, false)).slow(),
        Scalar::new(&["regexp_full_match"], FORMS, BOOL, |call| matches(call, true)).slow(),
        Scalar::new(&["regexp_extract"], GROUP_FORMS, TEXT, extract).slow(),
        Scalar::new(&["regexp_extract_all"], GROUP_FORMS, list_of(TEXT), extract_all).slow(),
        Scalar::with_coercion(
            &["freestone_regexp_groups"],
            "a text, a pattern, options and the names of groups",
            |types| types.iter().map(|kind| Text.accepts(kind)).collect(),
            |_, constants| named_groups(constants.get(3..).unwrap_or_default()),
            groups_of_matches,
        )
        .slow(),
        Scalar::new(&["regexp_replace"], &[&[Text, Text, Text], &[Text, Text, Text, Text]], TEXT, replace).slow(),
        Scalar::new(&["string_split_regex", "regexp_split_to_array", "str_split_regex"], FORMS, list_of(TEXT), split)
            .slow(),
        Scalar::new(&["freestone_part_of_match"], FORMS, TEXT, part_of_match).slow(),
        Scalar::new(&["regexp_substr"], NTH_FORMS, TEXT, nth_match).slow(),
        Scalar::new(&["freestone_regexp_matches"], FORMS, list_of(list_of(TEXT)), lists_of_groups).slow(),
        Scalar::new(&["regexp_escape"], &[&[Text]], TEXT, |call| text_of_text(call, |text| Ok(quoted(text)))),
    ]
}

/// The last regular expression of a thread, because patterns are mostly the same in all rows of all its calls.
#[derive(Default)]
struct LastPattern {
    /// Whether a match must be the whole text.
    is_whole: bool,
    /// On the heap, because a library that is loaded into another process has little room for what each thread has.
    known: Option<Box<Known>>,
}

/// A compiled regular expression.
struct Known {
    written: String,
    options: String,
    pattern: Pattern,
    /// Whether its options request all matches.
    is_global: bool,
    results: Results,
}

thread_local! {
    static LAST: Cell<LastPattern> = Cell::default();
}

impl LastPattern {
    /// That of the thread's last call, if it was for such matches.
    fn take(is_whole: bool) -> LastPattern {
        match LAST.take() {
            last if last.is_whole == is_whole => last,
            _ => LastPattern { is_whole, known: None },
        }
    }

    /// Keeps it for the thread's next call.
    fn keep(self) {
        LAST.set(self);
    }

    /// A pattern with its options.
    fn compiled(&mut self, written: &str, options: &str) -> Result<&mut Known> {
        let is_known = |known: &Known| is_same(&known.written, written) && is_same(&known.options, options);
        if !self.known.as_deref().is_some_and(is_known) {
            let (pattern, is_global) = compiled(written, options, self.is_whole)?;
            let (written, options) = (written.to_owned(), options.to_owned());
            let known = Known { written, options, pattern, is_global, results: Results::default() };
            self.known = Some(Box::new(known));
        }
        match &mut self.known {
            Some(known) => Ok(known),
            None => invalid("a regular expression was not compiled"),
        }
    }
}

/// Whether two texts are equal. Bytes of empty ones are not compared: the system's masked loads are slow for the pointer of no
/// bytes, which leads nowhere, and this is asked for each row.
fn is_same(a: &str, b: &str) -> bool {
    a.len() == b.len() && (a.is_empty() || a == b)
}

fn compiled(pattern: &str, options: &str, is_whole: bool) -> Result<(Pattern, bool)> {
    let (mut reading, mut is_literal, mut is_global) = (Reading::default(), false, false);
    for option in options.chars() {
        match option {
            'c' => reading.folds = false,
            'i' => reading.folds = true,
            's' => reading.dot_is_all = true,
            'm' | 'n' | 'p' => reading.dot_is_all = false,
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
    match Pattern::new(&escaped, reading) {
        Ok(compiled) => Ok((compiled, is_global)),
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
    let mut last = LastPattern::take(is_whole);
    let mut row = |row: usize| -> Result<Option<bool>> {
        let Some(options) = options_of(options.as_ref(), row) else { return Ok(None) };
        if any_null(&[&values, &patterns], row) {
            return Ok(None);
        }
        let known = last.compiled(patterns.value(row), options)?;
        Ok(Some(known.pattern.is_match(values.value(row))))
    };
    let matched = (0..values.len()).map(&mut row).collect::<Result<BooleanArray>>()?;
    last.keep();
    Ok(Arc::new(matched))
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

fn extract(call: &Call) -> Result<ArrayRef> {
    let (values, patterns, groups, options) = (texts(call, 0)?, texts(call, 1)?, groups(call, 2)?, optional(call, 3)?);
    let mut last = LastPattern::take(false);
    let mut extracted = StringViewBuilder::with_capacity(values.len());
    let mut buffer = String::new();
    for row in 0..values.len() {
        let options = options_of(options.as_ref(), row).filter(|_| !any_null(&[&values, &patterns], row));
        let Some(options) = options else {
            extracted.append_null();
            continue;
        };
        let Known { pattern, results, .. } = last.compiled(patterns.value(row), options)?;
        let text = values.value(row);
        buffer.clear();
        if let Some(group) = group_of(groups.as_ref(), row, &pattern.whole)? {
            results.of("", group).put(text, &mut buffer, |out| {
                let found = match group {
                    0 => pattern.find(text).map(|range| &text[range]),
                    _ => pattern.captures(text).map(|found| found.group(text, group)),
                };
                out.push_str(found.unwrap_or_default());
                Ok(())
            })?;
        }
        extracted.append_value(&buffer);
    }
    last.keep();
    Ok(Arc::new(extracted.finish()))
}

fn extract_all(call: &Call) -> Result<ArrayRef> {
    let (values, patterns, groups, options) = (texts(call, 0)?, texts(call, 1)?, groups(call, 2)?, optional(call, 3)?);
    let mut last = LastPattern::take(false);
    let mut all = Parts::new("regexp_extract_all");
    for row in 0..values.len() {
        let options = options_of(options.as_ref(), row).filter(|_| !any_null(&[&values, &patterns], row));
        let Some(options) = options else {
            all.append_null();
            continue;
        };
        let regex = &last.compiled(patterns.value(row), options)?.pattern.whole;
        match group_of(groups.as_ref(), row, regex)? {
            Some(0) => {
                let find = |text, at| regex.find_at(text, at);
                all.append(each_match(values.value(row), find, regex::Match::range).map(|found| found.as_str()))?;
            }
            // A group that takes no part in a match is NULL.
            Some(group) => {
                let find = |text, at| regex.captures_at(text, at);
                let found = each_match(values.value(row), find, |captures| captures.get_match().range());
                all.append_options(found.map(|captures| captures.get(group).map(|part| part.as_str())))?;
            }
            None => all.append_null(),
        }
    }
    last.keep();
    Ok(all.finish())
}

/// `substring(text FROM pattern)` of PostgreSQL: the first group of the first match, or all of it if there is none. With an
/// escape character, the pattern is one of SIMILAR TO, in which `#"` surrounds the part.
fn part_of_match(call: &Call) -> Result<ArrayRef> {
    let (values, patterns, escapes) = (texts(call, 0)?, texts(call, 1)?, optional(call, 2)?);
    let mut last = LastPattern::take(false);
    let mut parts = StringViewBuilder::with_capacity(values.len());
    for row in 0..values.len() {
        let escape = options_of(escapes.as_ref(), row).filter(|_| !any_null(&[&values, &patterns], row));
        let Some(escape) = escape else {
            parts.append_null();
            continue;
        };
        let pattern = patterns.value(row);
        let written = match escapes.is_some() {
            true => regex_of_similar(pattern, escape)?,
            false => format!("(?s){pattern}"),
        };
        let regex = &last.compiled(&written, "")?.pattern.whole;
        let part = regex.captures(values.value(row)).and_then(|found| match escapes.is_some() {
            true => found.name(PART),
            false => found.get(usize::from(regex.captures_len() > 1)),
        });
        parts.append_option(part.map(|part| part.as_str()));
    }
    last.keep();
    Ok(Arc::new(parts.finish()))
}

/// The group of the part that is looked for.
const PART: &str = "part";

/// The regular expression of a pattern with up to two `#"`, where `#` is the escape character. What stands before the part is as
/// short as possible.
fn regex_of_similar(pattern: &str, escape: &str) -> Result<String> {
    let mut characters = escape.chars();
    let (escape, None) = (characters.next(), characters.next()) else {
        return invalid(format!("'{escape}' is more than one escape character"));
    };
    let mut parts = vec![String::new()];
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        let next = if Some(character) == escape { rest.next() } else { None };
        if next == Some('"') {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.extend(std::iter::once(character).chain(next));
        }
    }
    let group = |part: &String| {
        let whole = similar(part, escape);
        whole.strip_prefix("(?s)^").and_then(|inner| inner.strip_suffix('$')).unwrap_or_default().to_owned()
    };
    match parts.as_slice() {
        [part] => Ok(format!(r"(?s)\A(?P<{PART}>{})\z", group(part))),
        [before, part] => Ok(format!(r"(?s)\A(?U:{})(?P<{PART}>{})\z", group(before), group(part))),
        [before, part, behind] => {
            Ok(format!(r"(?s)\A(?U:{})(?P<{PART}>{}){}\z", group(before), group(part), group(behind)))
        }
        _ => invalid("a pattern of SUBSTRING has at most two escaped quotation marks"),
    }
}

/// `regexp_substr(text, pattern [, start [, n [, options [, group]]]])` of PostgreSQL: the n-th match from a character on, or a
/// group of it; NULL without one.
fn nth_match(call: &Call) -> Result<ArrayRef> {
    let (values, patterns, options) = (texts(call, 0)?, texts(call, 1)?, optional(call, 4)?);
    let (starts, counts, groups) = (groups(call, 2)?, groups(call, 3)?, groups(call, 5)?);
    let number = |numbers: &Option<Int64Array>, row: usize, usual: i64| match numbers {
        Some(numbers) => numbers.is_valid(row).then(|| numbers.value(row)),
        None => Some(usual),
    };
    let mut last = LastPattern::take(false);
    let mut parts = StringViewBuilder::with_capacity(values.len());
    for row in 0..values.len() {
        let options = options_of(options.as_ref(), row).filter(|_| !any_null(&[&values, &patterns], row));
        let numbers = (number(&starts, row, 1), number(&counts, row, 1), number(&groups, row, 0));
        let (Some(options), (Some(start), Some(count), Some(group))) = (options, numbers) else {
            parts.append_null();
            continue;
        };
        let of_one = |number: i64| usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        let (Some(start), Some(count), Ok(group)) = (of_one(start), of_one(count), usize::try_from(group)) else {
            return invalid("regexp_substr counts characters and matches from 1, and groups from 0");
        };
        let text = values.value(row);
        let regex = &last.compiled(patterns.value(row), options)?.pattern.whole;
        let first = text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(start);
        let found = first.and_then(|first| {
            let find = |text, at: usize| regex.captures_at(text, at.max(first));
            each_match(text, find, |captures| captures.get_match().range()).nth(count)
        });
        parts.append_option(found.and_then(|found| found.get(group)).map(|part| part.as_str()));
    }
    last.keep();
    Ok(Arc::new(parts.finish()))
}

/// `regexp_matches` of PostgreSQL: the groups of each match with the option `g`, or else of the first one; of a pattern without
/// groups, the match.
fn lists_of_groups(call: &Call) -> Result<ArrayRef> {
    let (values, patterns, options) = (texts(call, 0)?, texts(call, 1)?, optional(call, 2)?);
    let (mut last, mut all) = (LastPattern::take(false), Parts::new("regexp_matches"));
    let (mut lengths, mut known) = (vec![], vec![]);
    for row in 0..values.len() {
        let options = options_of(options.as_ref(), row).filter(|_| !any_null(&[&values, &patterns], row));
        known.push(options.is_some());
        let mut count = 0;
        if let Some(options) = options {
            let Known { pattern, is_global, .. } = last.compiled(patterns.value(row), options)?;
            let (regex, is_global) = (&pattern.whole, *is_global);
            let find = |text, at| regex.captures_at(text, at);
            let found = each_match(values.value(row), find, |captures| captures.get_match().range());
            for captures in found.take(if is_global { usize::MAX } else { 1 }) {
                let first = usize::from(regex.captures_len() > 1);
                all.append_options(captures.iter().skip(first).map(|part| part.map(|part| part.as_str())))?;
                count += 1;
            }
        }
        lengths.push(count);
    }
    last.keep();
    let Some(item) = list(&call.to) else { return invalid("the result is no list") };
    let groups = exact_cast(&all.finish(), item.data_type())?;
    Ok(Arc::new(of_lengths(&call.to, groups, lengths, Some(known.into()))?))
}

/// The type of `regexp_extract_all(text, pattern, ['a', 'b'])`.
fn named_groups(names: &[Option<&ScalarValue>]) -> Result<DataType> {
    let mut fields: Vec<Field> = vec![];
    for name in names {
        let Some(name) = name.and_then(|name| name.try_as_str().flatten()) else {
            return invalid("the names of groups are constants");
        };
        if fields.iter().any(|field| field.name() == name) {
            return invalid(format!("two groups have the name {name}"));
        }
        fields.push(Field::new(name, TEXT, true));
    }
    match fields.is_empty() {
        true => invalid("a group has a name"),
        false => Ok(list_of(DataType::Struct(fields.into()))),
    }
}

/// The groups of all matches, as structs. A group that takes no part in a match is NULL.
fn groups_of_matches(call: &Call) -> Result<ArrayRef> {
    let (values, patterns, options) = (texts(call, 0)?, texts(call, 1)?, texts(call, 2)?);
    let item = list(&call.to).map(|item| item.data_type().clone());
    let Some(DataType::Struct(fields)) = item else { return invalid("the result has no groups") };
    let (mut last, mut meter) = (LastPattern::take(false), Meter::new("regexp_extract_all"));
    let mut groups: Vec<StringViewBuilder> = fields.iter().map(|_| StringViewBuilder::new()).collect();
    let (mut lengths, mut known) = (vec![], vec![]);
    for row in 0..values.len() {
        let is_known = !any_null(&[&values, &patterns, &options], row);
        let mut count = 0;
        if is_known {
            let regex = &last.compiled(patterns.value(row), options.value(row))?.pattern.whole;
            if groups.len() >= regex.captures_len() {
                let (pattern, has) = (regex.as_str(), regex.captures_len() - 1);
                return invalid(format!("the regular expression '{pattern}' has {has} groups, not {}", groups.len()));
            }
            let find = |text, at| regex.captures_at(text, at);
            for found in each_match(values.value(row), find, |captures| captures.get_match().range()) {
                for (at, group) in groups.iter_mut().enumerate() {
                    let part = found.get(at + 1).map(|part| part.as_str());
                    meter.add(VIEW_BYTES + part.map_or(0, str::len))?;
                    group.append_option(part);
                }
                count += 1;
            }
        }
        lengths.push(count);
        known.push(is_known);
    }
    last.keep();
    let groups = groups.iter_mut().map(|group| Arc::new(group.finish()) as ArrayRef).collect();
    let matches = Arc::new(StructArray::try_new(fields, groups, None)?);
    Ok(Arc::new(of_lengths(&call.to, matches, lengths, Some(known.into()))?))
}

/// All matches in a text. As in DuckDB, there can be an empty one at the end of another.
fn each_match<'a, M>(
    text: &'a str,
    find: impl Fn(&'a str, usize) -> Option<M>,
    range: impl Fn(&M) -> Range<usize>,
) -> impl Iterator<Item = M> {
    let mut next = Some(0);
    std::iter::from_fn(move || {
        let found = find(text, next?)?;
        let Range { start, end } = range(&found);
        // An empty match is followed by one behind the next character.
        next = if start < end { Some(end) } else { text[end..].chars().next().map(|c| end + c.len_utf8()) };
        Some(found)
    })
}

fn split(call: &Call) -> Result<ArrayRef> {
    let (values, patterns, options) = (texts(call, 0)?, texts(call, 1)?, optional(call, 2)?);
    let mut last = LastPattern::take(false);
    let mut parts = Parts::new("string_split_regex");
    for row in 0..values.len() {
        let options = options_of(options.as_ref(), row).filter(|_| values.is_valid(row));
        match options {
            None => parts.append_null(),
            Some(_) if patterns.is_null(row) => parts.append([values.value(row)])?,
            Some(options) => {
                let known = last.compiled(patterns.value(row), options)?;
                parts.append(pieces(&known.pattern.whole, values.value(row)))?;
            }
        }
    }
    last.keep();
    Ok(parts.finish())
}

/// The parts of a text between matches. An empty match is after a character.
fn pieces<'a>(regex: &'a Regex, text: &'a str) -> impl Iterator<Item = &'a str> {
    let mut start = 0;
    let mut found = regex.find_iter(text).map(Some).chain([None]);
    std::iter::from_fn(move || {
        loop {
            let piece = match found.next()? {
                None => &text[start..],
                Some(found) if found.is_empty() && (found.start() == start || found.start() == text.len()) => continue,
                Some(found) => &text[std::mem::replace(&mut start, found.end())..found.start()],
            };
            return Some(piece);
        }
    })
}

fn replace(call: &Call) -> Result<ArrayRef> {
    let (values, patterns, by, options) = (texts(call, 0)?, texts(call, 1)?, texts(call, 2)?, optional(call, 3)?);
    let (mut last, mut meter) = (LastPattern::take(false), Meter::new("regexp_replace"));
    let mut template = Template::default();
    let mut replaced = StringViewBuilder::with_capacity(values.len());
    let mut buffer = String::new();
    for row in 0..values.len() {
        let options = options_of(options.as_ref(), row).filter(|_| !any_null(&[&values, &patterns, &by], row));
        let Some(options) = options else {
            replaced.append_null();
            continue;
        };
        let Known { pattern, is_global, results, .. } = last.compiled(patterns.value(row), options)?;
        if template.written != by.value(row) {
            template = Template::of(by.value(row));
        }
        buffer.clear();
        let text = values.value(row);
        results.of(by.value(row), REPLACED).put(text, &mut buffer, |out| {
            let out = Replaced { text, out, end: 0, meter: &mut meter };
            match is_global {
                true => out.replace_all(&pattern.whole, &template),
                false => out.replace_first(pattern, &template),
            }
        })?;
        replaced.append_value(&buffer);
    }
    last.keep();
    Ok(Arc::new(replaced.finish()))
}

/// It is the number of no group.
const REPLACED: usize = usize::MAX;

/// What comes in the place of a match.
#[derive(Debug, Default)]
struct Template {
    written: String,
    pieces: Vec<Piece>,
}

#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Group(usize),
}

impl Template {
    /// Reads a template: `\1` is the first group, `\0` and `\&` are the whole match, and `\\` is a backslash.
    fn of(written: &str) -> Template {
        let (mut pieces, mut text) = (vec![], String::new());
        let mut characters = written.chars();
        while let Some(c) = characters.next() {
            let group = match (c, if c == '\\' { characters.next() } else { None }) {
                ('\\', Some(digit @ '0'..='9')) => digit as usize - '0' as usize,
                ('\\', Some('&')) => 0,
                (c, other) => {
                    text.push(other.unwrap_or(c));
                    continue;
                }
            };
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
            }
            pieces.push(Piece::Group(group));
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
        Template { written: written.to_owned(), pieces }
    }

    fn has_groups(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Group(_)))
    }
}

/// A text whose matches are replaced.
struct Replaced<'a> {
    text: &'a str,
    out: &'a mut String,
    /// The end of the last match.
    end: usize,
    meter: &'a mut Meter,
}

impl<'a> Replaced<'a> {
    fn replace_first(mut self, pattern: &mut Pattern, by: &Template) -> Result<()> {
        let text = self.text;
        if by.has_groups() {
            if let Some(found) = pattern.captures(text) {
                self.add(found.range.clone(), by, |group| found.group(text, group))?;
            }
        } else if let Some(range) = pattern.find(text) {
            self.add(range, by, |_| "")?;
        }
        self.push(&text[self.end..])
    }

    fn replace_all(mut self, regex: &Regex, by: &Template) -> Result<()> {
        let text = self.text;
        if by.has_groups() {
            for captures in regex.captures_iter(text) {
                let group = |group| captures.get(group).map_or("", |found| found.as_str());
                self.add(captures.get_match().range(), by, group)?;
            }
        } else {
            for found in regex.find_iter(text) {
                self.add(found.range(), by, |_| "")?;
            }
        }
        self.push(&text[self.end..])
    }

    /// The text up to a match, and what comes in its place.
    fn add(&mut self, found: Range<usize>, by: &Template, group: impl Fn(usize) -> &'a str) -> Result<()> {
        self.push(&self.text[self.end..found.start])?;
        self.end = found.end;
        by.pieces.iter().try_for_each(|piece| match piece {
            Piece::Text(text) => self.push(text),
            Piece::Group(number) => self.push(group(*number)),
        })
    }

    fn push(&mut self, text: &str) -> Result<()> {
        self.meter.add(text.len())?;
        self.out.push_str(text);
        Ok(())
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_errors() {
        let is_match = |pattern: &str, options: &str, text: &str| {
            compiled(pattern, options, false).map(|(pattern, _)| pattern.whole.is_match(text)).ok()
        };
        assert_eq!(is_match("A", "i", "a"), Some(true));
        assert_eq!(is_match("a.b", "", "a\nb"), Some(false));
        assert_eq!(is_match("a.b", "s", "a\nb"), Some(true));
        assert_eq!(is_match("a.b", "l", "axb"), Some(false));
        assert_eq!(is_match("(", "", ""), None);
        assert_eq!(is_match("a", "z", ""), None);
        let whole = |text: &str| compiled("a|ab", "", true).is_ok_and(|(pattern, _)| pattern.whole.is_match(text));
        assert!(whole("ab") && whole("a") && !whole("abc"));
        let (digits, _) = compiled("[0-9]", "", false).expect("a regular expression");
        assert_eq!(pieces(&digits.whole, "a1b2").collect::<Vec<_>>(), ["a", "b", ""]);
    }

    #[test]
    fn patterns_of_parts() {
        for (pattern, escape, expected) in [
            ("a#\"(b_d)#\"%", "#", Some("bcd")),
            ("#\"(b_d)#\"%", "#", None),
            ("a*#\"%#\"g*", "#", Some("abcdefg")),
            ("a|b#\"%#\"g", "#", Some("bcdef")),
            ("a#\"%#\"x|g", "#", Some("bcdef")),
            ("a#\"%|ab#\"g", "#", Some("bcdef")),
            ("a#\"%g", "#", Some("bcdefg")),
            ("a%g", "", Some("abcdefg")),
        ] {
            let written = regex_of_similar(pattern, escape).expect(pattern);
            let (compiled, _) = compiled(&written, "", false).expect(pattern);
            let found = compiled.whole.captures("abcdefg").and_then(|found| found.name(PART));
            assert_eq!(found.map(|part| part.as_str()), expected, "{pattern}");
        }
        assert!(regex_of_similar("#\"#\"#\"", "#").is_err() && regex_of_similar("a", "##").is_err());
    }
}
