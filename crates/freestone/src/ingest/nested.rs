//! Texts → nested values. A text is JSON or what DuckDB writes: `[1, NULL]`, `{"a": 1}`, `{'a': 1}`, `{a: 1}`, `(1, x)`,
//! and for maps also `{key=1}`. Lists may also be written as PostgreSQL does: `{1,NULL,"a b"}`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, FixedSizeListArray, ListArray, MapArray, NullBufferBuilder, StructArray, new_empty_array,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field as ColumnField, FieldRef, Fields};

use super::cells::{CellProblem, CellRules, ColumnBuilder};
use super::error::{Reason, ValueProblem};
use super::json_tokens::unescape;

const SYNTAX: CellProblem = CellProblem::Value(ValueProblem::Syntax);

/// The part of a text between two separators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item<'a> {
    Null,
    /// A text in quotes.
    Quoted(Cow<'a, str>),
    /// Anything else, as it is written.
    Raw(&'a str),
}

impl Item<'_> {
    fn text(&self) -> Option<&str> {
        match self {
            Item::Null => None,
            Item::Quoted(text) => Some(text),
            Item::Raw(text) => Some(text),
        }
    }
}

/// Reads the items of one list, struct or map.
pub(super) struct Items<'a> {
    text: &'a str,
    at: usize,
    is_first: bool,
    /// Whether they are those of one of PostgreSQL's arrays: only double quotes are quotes, and a backslash stands before
    /// a character that means itself, within quotes or not.
    is_postgres: bool,
}

impl<'a> Items<'a> {
    /// The items of a list, and its closing bracket.
    fn of_list(text: &'a str) -> Result<(Items<'a>, u8), CellProblem> {
        if let Some(items) = Items::of(text, b'[') {
            return Ok((items, b']'));
        }
        let items = Items::of(text, b'{').ok_or(SYNTAX)?;
        Ok((Items { is_postgres: true, ..items }, b'}'))
    }

    /// The items after an opening bracket; `None` if the text does not begin with it.
    pub fn of(text: &'a str, open: u8) -> Option<Items<'a>> {
        let text = text.trim();
        (text.as_bytes().first() == Some(&open)).then_some(Items { text, at: 1, is_first: true, is_postgres: false })
    }

    /// Moves to the next item. False at the closing bracket, with which the text must end.
    pub fn next(&mut self, close: u8) -> Result<bool, CellProblem> {
        self.skip_blanks();
        match self.peek() {
            Some(byte) if byte == close => {
                self.at += 1;
                return if self.at == self.text.len() { Ok(false) } else { Err(SYNTAX) };
            }
            Some(b',') if !self.is_first => self.at += 1,
            Some(_) if self.is_first => {}
            _ => return Err(SYNTAX),
        }
        self.is_first = false;
        Ok(true)
    }

    /// The item up to one of `ends`, which remains.
    pub fn item(&mut self, ends: &[u8]) -> Result<Item<'a>, CellProblem> {
        self.skip_blanks();
        if let Some(quote @ (b'"' | b'\'')) = self.peek()
            && (quote == b'"' || !self.is_postgres)
        {
            let start = self.at + 1;
            self.at = end_of_quoted(self.text.as_bytes(), start, quote).ok_or(SYNTAX)? + 1;
            let inner = &self.text[start..self.at - 1];
            self.skip_blanks();
            return match self.peek() {
                Some(byte) if ends.contains(&byte) && self.is_postgres => Ok(Item::Quoted(unescaped(inner))),
                Some(byte) if ends.contains(&byte) => Ok(Item::Quoted(unquoted(inner, quote))),
                _ => Err(SYNTAX),
            };
        }
        let raw = self.raw(ends)?;
        // In an array, characters beyond ASCII are no blanks.
        let is_blank = |c: char| c.is_ascii_whitespace() || c == '\u{b}';
        let raw = if self.is_postgres { raw.trim_matches(is_blank) } else { raw.trim() };
        match raw {
            "" if self.is_postgres => Err(SYNTAX),
            raw if raw.eq_ignore_ascii_case("NULL") => Ok(Item::Null),
            raw if self.is_postgres && !raw.starts_with('{') => Ok(Item::Quoted(unescaped(raw))),
            raw => Ok(Item::Raw(raw)),
        }
    }

    /// Skips one of these bytes.
    pub fn expect(&mut self, bytes: &[u8]) -> Result<(), CellProblem> {
        self.skip_blanks();
        match self.peek() {
            Some(byte) if bytes.contains(&byte) => self.at += 1,
            _ => return Err(SYNTAX),
        }
        Ok(())
    }

    fn raw(&mut self, ends: &[u8]) -> Result<&'a str, CellProblem> {
        let (bytes, start, mut depth) = (self.text.as_bytes(), self.at, 0usize);
        while let Some(byte) = self.peek() {
            match byte {
                _ if depth == 0 && ends.contains(&byte) => return Ok(&self.text[start..self.at]),
                b'\\' if self.is_postgres => self.at += 1,
                b'[' | b'(' | b']' | b')' | b'\'' if self.is_postgres => {}
                b'[' | b'{' | b'(' => depth += 1,
                b']' | b'}' | b')' => depth = depth.checked_sub(1).ok_or(SYNTAX)?,
                b'"' | b'\'' if depth > 0 => self.at = end_of_quoted(bytes, self.at + 1, byte).ok_or(SYNTAX)?,
                _ => {}
            }
            self.at += 1;
        }
        Err(SYNTAX)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }
}

/// An item of one of PostgreSQL's arrays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArrayItem {
    /// NULL.
    Null,
    /// The text of a value.
    Value(String),
    /// The text of an array within the array.
    Array(String),
}

/// The items of one of PostgreSQL's arrays: `{1,NULL,"a b"}`, `{{1,2},{3,4}}`, also with bounds, `[0:1]={1,2}`. Nothing for
/// what is none.
pub fn array_items(text: &str) -> Option<Vec<ArrayItem>> {
    let items = Items::of(without_bounds(text.trim()), b'{')?;
    let (mut items, mut found) = (Items { is_postgres: true, ..items }, vec![]);
    while items.next(b'}').ok()? {
        found.push(match items.item(b",}").ok()? {
            Item::Null => ArrayItem::Null,
            Item::Quoted(text) => ArrayItem::Value(text.into_owned()),
            Item::Raw(text) => ArrayItem::Array(text.to_owned()),
        });
    }
    Some(found)
}

/// The array behind the bounds of its indexes. Lists are counted from 1 here.
fn without_bounds(text: &str) -> &str {
    let is_bounds =
        |bounds: &str| bounds.starts_with('[') && bounds.bytes().all(|byte| b"0123456789[]:+-".contains(&byte));
    match text.split_once("]=") {
        Some((bounds, array)) if is_bounds(bounds) => array,
        _ => text,
    }
}

/// The position of the quote at the end.
fn end_of_quoted(bytes: &[u8], mut at: usize, quote: u8) -> Option<usize> {
    loop {
        match *bytes.get(at)? {
            b'\\' => at += 1,
            byte if byte == quote => return Some(at),
            _ => {}
        }
        at += 1;
    }
}

/// Double quotes are those of JSON. After other quotes, a backslash stands before characters that mean themselves.
fn unquoted(inner: &str, quote: u8) -> Cow<'_, str> {
    if !inner.contains('\\') {
        return Cow::Borrowed(inner);
    }
    let mut text = String::with_capacity(inner.len());
    if quote == b'"' && unescape(inner, &mut text).is_ok() {
        return Cow::Owned(text);
    }
    unescaped(inner)
}

/// A text without the backslashes before characters that mean themselves.
fn unescaped(inner: &str) -> Cow<'_, str> {
    if !inner.contains('\\') {
        return Cow::Borrowed(inner);
    }
    let mut text = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        text.extend(if character == '\\' { characters.next() } else { Some(character) });
    }
    Cow::Owned(text)
}

/// A column of nested values.
pub(super) struct Nested {
    field: ColumnField,
    form: Form,
    nulls: NullBufferBuilder,
    rules: CellRules,
}

type Builder = Box<dyn ColumnBuilder>;

enum Form {
    List { item: FieldRef, builder: Builder, offsets: Vec<i32>, items: usize },
    Array { item: FieldRef, builder: Builder, length: usize },
    Struct { fields: Fields, builders: Vec<Builder> },
    Map { entries: FieldRef, pair: Fields, keys: Builder, values: Builder, offsets: Vec<i32>, items: usize },
}

impl Nested {
    pub fn new(
        field: &ColumnField,
        rules: CellRules,
        inner: impl Fn(&FieldRef) -> Result<Builder, Reason>,
    ) -> Result<Nested, Reason> {
        let form = match field.data_type() {
            DataType::List(item) => {
                Form::List { item: item.clone(), builder: inner(item)?, offsets: vec![0], items: 0 }
            }
            DataType::FixedSizeList(item, length) => {
                Form::Array { item: item.clone(), builder: inner(item)?, length: *length as usize }
            }
            DataType::Struct(fields) => {
                Form::Struct { fields: fields.clone(), builders: fields.iter().map(&inner).collect::<Result<_, _>>()? }
            }
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(pair) if pair.len() == 2 => {
                    let (keys, values) = (inner(&pair[0])?, inner(&pair[1])?);
                    let (entries, pair) = (entries.clone(), pair.clone());
                    Form::Map { entries, pair, keys, values, offsets: vec![0], items: 0 }
                }
                other => return Err(Reason::Internal(format!("a map of {other}"))),
            },
            other => return Err(Reason::Internal(format!("{other} is not nested"))),
        };
        let nulls = NullBufferBuilder::new(0);
        Ok(Nested { field: field.clone(), form, nulls, rules })
    }
}

impl ColumnBuilder for Nested {
    fn append(&mut self, text: Option<&str>) -> Result<(), CellProblem> {
        match text.filter(|text| !self.rules.empty_is_null || !text.is_empty()) {
            Some(text) => {
                self.form.value(text, self.rules.last_member_counts)?;
                self.nulls.append_non_null();
            }
            None if self.field.is_nullable() => {
                self.form.null()?;
                self.nulls.append_null();
            }
            None => return Err(CellProblem::Null),
        }
        Ok(())
    }

    fn finish(&mut self) -> ArrayRef {
        let (rows, nulls) = (self.nulls.len(), self.nulls.finish());
        let ends = |offsets: &mut Vec<i32>| OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(offsets, vec![0])));
        match &mut self.form {
            Form::List { item, builder, offsets, items } => {
                *items = 0;
                Arc::new(ListArray::new(item.clone(), ends(offsets), builder.finish(), nulls))
            }
            Form::Array { item, builder, length } if rows > 0 => {
                Arc::new(FixedSizeListArray::new(item.clone(), *length as i32, builder.finish(), nulls))
            }
            Form::Array { .. } => new_empty_array(self.field.data_type()),
            Form::Struct { fields, builders } => {
                let columns = builders.iter_mut().map(|builder| builder.finish()).collect();
                Arc::new(StructArray::new(fields.clone(), columns, nulls))
            }
            Form::Map { entries, pair, keys, values, offsets, items } => {
                *items = 0;
                let columns = StructArray::new(pair.clone(), vec![keys.finish(), values.finish()], None);
                Arc::new(MapArray::new(entries.clone(), ends(offsets), columns, nulls, false))
            }
        }
    }
}

/// The offset of the end of all items so far.
fn end(items: usize) -> Result<i32, CellProblem> {
    i32::try_from(items).map_err(|_| CellProblem::Value(ValueProblem::Range))
}

impl Form {
    fn null(&mut self) -> Result<(), CellProblem> {
        match self {
            Form::List { offsets, items, .. } | Form::Map { offsets, items, .. } => offsets.push(end(*items)?),
            Form::Array { builder, length, .. } => (0..*length).try_for_each(|_| builder.append(None))?,
            Form::Struct { builders, .. } => builders.iter_mut().try_for_each(|builder| builder.append(None))?,
        }
        Ok(())
    }

    fn value(&mut self, text: &str, last_member_counts: bool) -> Result<(), CellProblem> {
        match self {
            Form::List { builder, offsets, items, .. } => {
                let (mut list, close) = Items::of_list(text)?;
                while list.next(close)? {
                    builder.append(list.item(&[b',', close])?.text())?;
                    *items += 1;
                }
                offsets.push(end(*items)?);
            }
            Form::Array { builder, length, .. } => {
                let ((mut list, close), mut count) = (Items::of_list(text)?, 0);
                while list.next(close)? {
                    builder.append(list.item(&[b',', close])?.text())?;
                    count += 1;
                }
                if count != *length {
                    return Err(SYNTAX);
                }
            }
            Form::Struct { fields, builders } => match Items::of(text, b'{') {
                Some(items) => members(items, fields, builders, last_member_counts)?,
                None => {
                    let mut items = Items::of(text, b'(').ok_or(SYNTAX)?;
                    for builder in builders {
                        if !items.next(b')')? {
                            return Err(SYNTAX);
                        }
                        builder.append(items.item(b",)")?.text())?;
                    }
                    if items.next(b')')? {
                        return Err(SYNTAX);
                    }
                }
            },
            Form::Map { keys, values, offsets, items, .. } => {
                for (key, value) in pairs(text, last_member_counts)? {
                    keys.append(Some(&key))?;
                    values.append(value.text())?;
                    *items += 1;
                }
                offsets.push(end(*items)?);
            }
        }
        Ok(())
    }
}

/// The pairs of a map, with distinct keys.
fn pairs(text: &str, last_member_counts: bool) -> Result<Vec<(String, Item<'_>)>, CellProblem> {
    let mut map = Items::of(text, b'{').ok_or(SYNTAX)?;
    let (mut pairs, mut places): (Vec<(String, Item<'_>)>, HashMap<String, usize>) = (vec![], HashMap::new());
    while map.next(b'}')? {
        let key = map.item(b"=:")?.text().ok_or(CellProblem::Null)?.to_owned();
        map.expect(b"=:")?;
        let value = map.item(b",}")?;
        match places.get(&key) {
            Some(place) if last_member_counts => pairs[*place].1 = value,
            Some(_) => return Err(SYNTAX),
            None => {
                places.insert(key.clone(), pairs.len());
                pairs.push((key, value));
            }
        }
    }
    Ok(pairs)
}

/// The fields of a struct by name. Those that are not there are NULL.
fn members(
    mut items: Items<'_>,
    fields: &Fields,
    builders: &mut [Builder],
    last_counts: bool,
) -> Result<(), CellProblem> {
    let mut given: Vec<Option<Item<'_>>> = vec![None; builders.len()];
    let mut next = 0;
    while items.next(b'}')? {
        let key = items.item(b":")?;
        let name = key.text().unwrap_or("NULL");
        // Members mostly are in the order of the fields.
        let place = match fields.get(next).filter(|field| field.name() == name) {
            Some(_) => next,
            None => field_index(fields, name).ok_or(SYNTAX)?,
        };
        items.expect(b":")?;
        let before = given[place].replace(items.item(b",}")?);
        if before.is_some() && !last_counts {
            return Err(SYNTAX);
        }
        next = place + 1;
    }
    for (builder, item) in builders.iter_mut().zip(&given) {
        builder.append(item.as_ref().and_then(Item::text))?;
    }
    Ok(())
}

/// The field of a name, or the only one that differs from it in case.
pub(super) fn field_index(fields: &Fields, name: &str) -> Option<usize> {
    fields.iter().position(|field| field.name() == name).or_else(|| {
        let mut alike = (0..fields.len()).filter(|at| fields[*at].name().eq_ignore_ascii_case(name));
        alike.next().filter(|_| alike.next().is_none())
    })
}

#[cfg(test)]
mod tests {
    use super::super::columns::parse_text;
    use super::*;
    use crate::display::texts_of;

    fn list(item: DataType) -> DataType {
        DataType::List(Arc::new(ColumnField::new("item", item, true)))
    }

    fn structure() -> DataType {
        let fields =
            vec![ColumnField::new("a", DataType::Int32, true), ColumnField::new("b c", list(DataType::Utf8View), true)];
        DataType::Struct(fields.into())
    }

    fn map() -> DataType {
        let pair = vec![
            ColumnField::new("key", DataType::Utf8View, false),
            ColumnField::new("value", DataType::Float64, true),
        ];
        DataType::Map(Arc::new(ColumnField::new("entries", DataType::Struct(pair.into()), false)), false)
    }

    fn check(data_type: &DataType, text: &str, expected: Option<&str>) {
        let shown = parse_text(text, data_type).ok().map(|array| {
            let texts = texts_of(&array).expect("a text");
            texts.value(0).to_owned()
        });
        assert_eq!(shown.as_deref(), expected, "{text}");
        // What is written is read.
        if let Some(shown) = shown {
            let again = parse_text(&shown, data_type).expect("its own text");
            assert_eq!(again.as_ref(), parse_text(text, data_type).expect("the text").as_ref(), "{text}");
        }
    }

    #[test]
    fn texts_are_read() {
        check(&list(DataType::Int32), " [1, NULL ,-3] ", Some("[1, NULL, -3]"));
        check(&list(DataType::Int32), "[ ]", Some("[]"));
        check(&list(list(DataType::Int32)), "[[1],[],null]", Some("[[1], [], NULL]"));
        check(&list(DataType::Utf8View), r#"[a b, 'c,d', "e\n\u00df", 'it\'s', "NULL", "", [x, {y]]"#, None);
        check(
            &list(DataType::Utf8View),
            r#"[a b, 'c,d', "\u00df", 'it\'s', "NULL", "", [x], it's]"#,
            Some(r"[a b, 'c,d', ß, 'it\'s', 'NULL', '', '[x]', 'it\'s']"),
        );
        check(&list(DataType::Int32), " {1, NULL,3} ", Some("[1, NULL, 3]"));
        check(
            &list(DataType::Utf8View),
            r#"{a b,"c,d","NULL",it's,\\x,"",[x}"#,
            Some(r#"[a b, 'c,d', 'NULL', 'it\'s', '\\x', '', '[x']"#),
        );
        check(&structure(), r#"{"a": 1, "b c": ["x", null]}"#, Some("{'a': 1, 'b c': [x, NULL]}"));
        check(&structure(), "{b c: [q], A: 2}", Some("{'a': 2, 'b c': [q]}"));
        check(&structure(), "{}", Some("{'a': NULL, 'b c': NULL}"));
        check(&structure(), "(1, [z])", Some("{'a': 1, 'b c': [z]}"));
        check(&map(), "{k=1, 'l m'=NULL}", Some("{k=1.0, l m=NULL}"));
        check(&map(), r#"{"k": 1.5}"#, Some("{k=1.5}"));
        check(&map(), "{}", Some("{}"));
        for wrong in [
            "",
            "[1",
            "[1,,2]",
            "[1] x",
            "[x]",
            "{1",
            "{1,,2}",
            "{1]",
            "{1} x",
            "1",
            "[1,2",
            "]",
            "[1]]",
            "[99999999999]",
        ] {
            check(&list(DataType::Int32), wrong, None);
        }
        for wrong in ["{a: 1, a: 2}", "{d: 1}", "{a 1}", "(1)", "(1, [], 2)", "{a: x}", "[1]"] {
            check(&structure(), wrong, None);
        }
        for wrong in ["{k=1, k=2}", "{NULL=1}", "{k}", "[k=1]"] {
            check(&map(), wrong, None);
        }
        let deep = "[".repeat(100_000);
        check(&list(DataType::Utf8View), &deep, None);
        let deep = format!("{deep}{}", "]".repeat(100_000));
        assert!(parse_text(&deep, &list(DataType::Utf8View)).is_ok());
    }

    #[test]
    fn items_of_arrays_are_told_apart() {
        use ArrayItem::{Array, Null, Value};
        let value = |text: &str| Value(text.to_owned());
        let items = array_items(" {a b,\"c,\\\"d\", NULL,\"NULL\",{1,{2}}, e\\,f} ").expect("an array");
        let inner = Array("{1,{2}}".to_owned());
        assert_eq!(items, [value("a b"), value("c,\"d"), Null, value("NULL"), inner, value("e,f")]);
        assert_eq!(array_items("[0:1]={a,b}"), Some(vec![value("a"), value("b")]));
        assert_eq!(array_items("{}"), Some(vec![]));
        assert_eq!(array_items("{\u{85}, \u{a0} }"), Some(vec![value("\u{85}"), value("\u{a0}")]));
        for wrong in ["", "1", "{1", "{1,}", "{,1}", "{1}}", "{\"a}", "{\"a\"b}", "{a\\}", "[1]", "[x]={1}"] {
            assert_eq!(array_items(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn arrays_have_their_length() {
        let array = DataType::FixedSizeList(Arc::new(ColumnField::new("item", DataType::Float32, true)), 2);
        check(&array, "[1, 2]", Some("[1.0, 2.0]"));
        check(&array, "[NULL, 2]", Some("[NULL, 2.0]"));
        check(&array, "[1]", None);
        check(&array, "[1, 2, 3]", None);
    }
}
