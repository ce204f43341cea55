//! What PostgreSQL reads from JSONB: parts by keys and positions, what a document contains, its type, items and keys. A key is
//! a key here, and no path of DuckDB.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, StringViewArray};
use datafusion::error::Result;

use super::function::Scalar;
use super::json_edits::without_nulls;
use super::kinds::Kind::{self, Int, List, Rest, Text};
use super::kinds::{BOOL, INT, TEXT, list_of};
use super::rows::{Parts, bool_of_pairs, ints, invalid, lists, text_of_text, texts};
use crate::growth::Meter;
use crate::ingest::{ArrayItem, array_items};
use crate::json_text::canonical::{append_string, canonical_of, number_key};
use crate::json_text::{Node, known, unescaped};
use crate::text_types::made::{AT_PATH, PART};
use crate::times::{Call, exact_cast};

pub(crate) const PART_TEXT: &str = "freestone_jsonb_part_text";
pub(crate) const TEXT_AT_PATH: &str = "freestone_jsonb_text_at_path";
/// A part of JSON, by several keys and positions.
const JSON_AT: &str = "freestone_json_at";
const JSON_TEXT_AT: &str = "freestone_json_text_at";

/// A document, and a path as a text or a list.
const PATH: &[&[Kind]] = &[&[Text, Text], &[Text, List]];

/// A document, and a key or a position, or any number of them.
const BY_KEY: &[&[Kind]] = &[&[Text, Text], &[Text, Int]];
const BY_KEYS: &[&[Kind]] = &[&[Text, Rest]];

/// The keys and positions of a path; `None` is NULL.
pub(super) type Path = Vec<Option<String>>;

/// How a value becomes the result of a function.
type Shown = fn(&Node) -> Result<Option<String>>;

pub(super) fn all() -> Vec<Scalar> {
    vec![
        Scalar::new(&[PART], BY_KEY, TEXT, |call| parts(call, as_document)),
        Scalar::new(&[PART_TEXT], BY_KEY, TEXT, |call| parts(call, as_text)),
        Scalar::new(&[AT_PATH], PATH, TEXT, |call| at_paths(call, &paths(call, 1)?, as_document)),
        Scalar::new(&[TEXT_AT_PATH], PATH, TEXT, |call| at_paths(call, &paths(call, 1)?, as_text)),
        Scalar::new(&["jsonb_extract_path"], BY_KEYS, TEXT, |call| at_paths(call, &rest_of(call)?, as_document)),
        Scalar::new(&["jsonb_extract_path_text"], BY_KEYS, TEXT, |call| at_paths(call, &rest_of(call)?, as_text)),
        Scalar::new(&[JSON_AT], BY_KEYS, TEXT, |call| at_paths(call, &rest_of(call)?, |node| Ok(Some(node.text())))),
        Scalar::new(&[JSON_TEXT_AT], BY_KEYS, TEXT, |call| at_paths(call, &rest_of(call)?, |node| Ok(node.plain()))),
        Scalar::new(&["jsonb_contains"], &[&[Text, Text]], BOOL, |call| {
            bool_of_pairs(call, |all, part| contains(&document(all)?, &document(part)?))
        }),
        Scalar::new(&["jsonb_contained"], &[&[Text, Text]], BOOL, |call| {
            bool_of_pairs(call, |part, all| contains(&document(all)?, &document(part)?))
        }),
        Scalar::new(&["jsonb_exists"], &[&[Text, Text]], BOOL, |call| {
            bool_of_pairs(call, |text, key| Ok(has_key(&known(text)?, key)))
        }),
        Scalar::new(&["jsonb_exists_any"], PATH, BOOL, |call| {
            of_keys(call, |node, keys| keys.iter().flatten().any(|key| has_key(node, key)))
        }),
        Scalar::new(&["jsonb_exists_all"], PATH, BOOL, |call| {
            of_keys(call, |node, keys| keys.iter().flatten().all(|key| has_key(node, key)))
        }),
        Scalar::new(&["jsonb_typeof", "json_typeof"], &[&[Text]], TEXT, |call| {
            text_of_text(call, |text| Ok(kind(&known(text)?).to_owned()))
        }),
        Scalar::new(&["jsonb_strip_nulls"], &[&[Text]], TEXT, |call| {
            text_of_text(call, |text| form(&without_nulls(document(text)?)))
        }),
        Scalar::new(&["jsonb_pretty"], &[&[Text]], TEXT, |call| text_of_text(call, pretty)),
        Scalar::new(&["jsonb_array_length"], &[&[Text]], INT, array_length),
        Scalar::new(&["freestone_jsonb_items"], &[&[Text]], list_of(TEXT), |call| items(call, as_document)),
        Scalar::new(&["freestone_jsonb_item_texts"], &[&[Text]], list_of(TEXT), |call| items(call, as_text)),
        Scalar::new(&["freestone_json_items"], &[&[Text]], list_of(TEXT), |call| {
            items(call, |node| Ok(Some(node.text())))
        }),
        Scalar::new(&["freestone_json_item_texts"], &[&[Text]], list_of(TEXT), |call| {
            items(call, |node| Ok(node.plain()))
        }),
        Scalar::new(&["freestone_jsonb_values"], &[&[Text]], list_of(TEXT), |call| values(call, true, as_document)),
        Scalar::new(&["freestone_jsonb_value_texts"], &[&[Text]], list_of(TEXT), |call| values(call, true, as_text)),
        Scalar::new(&["freestone_json_values"], &[&[Text]], list_of(TEXT), |call| {
            values(call, false, |node| Ok(Some(node.text())))
        }),
        Scalar::new(&["freestone_json_value_texts"], &[&[Text]], list_of(TEXT), |call| {
            values(call, false, |node| Ok(node.plain()))
        }),
        Scalar::new(&["freestone_jsonb_keys"], &[&[Text]], list_of(TEXT), |call| keys(call, true)),
        Scalar::new(&["freestone_json_keys"], &[&[Text]], list_of(TEXT), |call| keys(call, false)),
    ]
}

/// A text as a document, whose objects have each key once and in order.
pub(super) fn document(text: &str) -> Result<Node<'_>> {
    let mut node = known(text)?;
    arrange(&mut node);
    Ok(node)
}

fn arrange(node: &mut Node) {
    match node {
        Node::Array(items) => items.iter_mut().for_each(arrange),
        Node::Object(entries) => {
            entries.iter_mut().for_each(|(_, value)| arrange(value));
            let is_plain = |key: &str| !key.contains('\\');
            let is_less = |a: &str, b: &str| is_plain(a) && is_plain(b) && (a.len(), a) < (b.len(), b);
            if entries.windows(2).all(|pair| matches!(pair, [(a, _), (b, _)] if is_less(a, b))) {
                return;
            }
            entries.sort_by_cached_key(|(key, _)| {
                let key = unescaped(key);
                (key.len(), key)
            });
            // The last of equal keys remains.
            entries.reverse();
            entries.dedup_by(|(a, _), (b, _)| unescaped(a) == unescaped(b));
            entries.reverse();
        }
        _ => {}
    }
}

/// A value as JSONB.
pub(super) fn form(node: &Node) -> Result<String> {
    match canonical_of(node)? {
        Some(text) => Ok(text),
        None => invalid("a number or a string of the document is no JSONB"),
    }
}

fn as_document(node: &Node) -> Result<Option<String>> {
    form(node).map(Some)
}

/// Strings without quotes, and NULL for `null`.
fn as_text(node: &Node) -> Result<Option<String>> {
    match node {
        Node::Null => Ok(None),
        Node::Text(raw) => Ok(Some(unescaped(raw))),
        other => form(other).map(Some),
    }
}

/// The paths of an argument, which is a text such as `{a,0}` or a list.
pub(super) fn paths(call: &Call, at: usize) -> Result<Vec<Option<Path>>> {
    let given = call.array(at)?;
    if crate::times::is_text(given.data_type()) {
        return texts(call, at)?.iter().map(|text| text.map(path_of_text).transpose()).collect();
    }
    let path = |items: Option<ArrayRef>| -> Result<Option<Path>> {
        let Some(items) = items else { return Ok(None) };
        let items = exact_cast(&items, &TEXT)?;
        Ok(Some(items.as_string_view().iter().map(|item| item.map(str::to_owned)).collect()))
    };
    lists(call, at)?.iter().map(path).collect()
}

fn path_of_text(text: &str) -> Result<Path> {
    let part = |item: ArrayItem| match item {
        ArrayItem::Value(text) => Ok(Some(text)),
        ArrayItem::Null => Ok(None),
        ArrayItem::Array(_) => invalid("a path has no arrays in it"),
    };
    match array_items(text) {
        Some(items) => items.into_iter().map(part).collect(),
        None => invalid(format!("'{text}' is no path: it reads '{{key,0}}'")),
    }
}

/// The paths that the arguments behind the first are.
fn rest_of(call: &Call) -> Result<Vec<Option<Path>>> {
    let columns = (1..call.count()).map(|at| texts(call, at)).collect::<Result<Vec<StringViewArray>>>()?;
    let part = |column: &StringViewArray, row: usize| column.is_valid(row).then(|| column.value(row).to_owned());
    Ok((0..call.rows()).map(|row| Some(columns.iter().map(|column| part(column, row)).collect())).collect())
}

/// The part that a key or a position names. A value that is no object or array is the only item of an array.
fn parts(call: &Call, shown: Shown) -> Result<ArrayRef> {
    let documents = texts(call, 0)?;
    if *call.array(1)?.data_type() == INT {
        let places = ints(call, 1)?;
        let item = |(text, at): (Option<&str>, Option<i64>)| -> Result<Option<String>> {
            let (Some(text), Some(at)) = (text, at) else { return Ok(None) };
            let node = document(text)?;
            let item = match &node {
                Node::Object(_) => None,
                Node::Array(_) => node.item(at),
                scalar => matches!(at, 0 | -1).then_some(scalar),
            };
            item.map_or(Ok(None), shown)
        };
        let rows = documents.iter().zip(&places).map(item);
        return Ok(Arc::new(rows.collect::<Result<StringViewArray>>()?));
    }
    let names = texts(call, 1)?;
    let value = |(text, name): (Option<&str>, Option<&str>)| -> Result<Option<String>> {
        let (Some(text), Some(name)) = (text, name) else { return Ok(None) };
        document(text)?.key(name).map_or(Ok(None), shown)
    };
    Ok(Arc::new(documents.iter().zip(names.iter()).map(value).collect::<Result<StringViewArray>>()?))
}

/// The part at the path of each row.
fn at_paths(call: &Call, paths: &[Option<Path>], shown: Shown) -> Result<ArrayRef> {
    let row = |(text, path): (Option<&str>, &Option<Path>)| -> Result<Option<String>> {
        let (Some(text), Some(path)) = (text, path) else { return Ok(None) };
        let node = document(text)?;
        let found = path.iter().try_fold(&node, |node, part| inner(node, part.as_deref()?));
        found.map_or(Ok(None), shown)
    };
    Ok(Arc::new(texts(call, 0)?.iter().zip(paths).map(row).collect::<Result<StringViewArray>>()?))
}

fn inner<'n, 'a>(node: &'n Node<'a>, part: &str) -> Option<&'n Node<'a>> {
    match node {
        Node::Object(_) => node.key(part),
        Node::Array(_) => node.item(part.parse::<i32>().ok()?.into()),
        _ => None,
    }
}

/// Whether a document contains another one, as `@>` has it: only a whole array contains a value that is neither an array nor an
/// object.
fn contains(all: &Node, part: &Node) -> Result<bool> {
    let mut meter = Meter::new("jsonb_contains");
    match (all, part) {
        (Node::Array(items), part) if !matches!(part, Node::Array(_) | Node::Object(_)) => {
            any_holds(items, part, &mut meter)
        }
        _ => holds(all, part, &mut meter),
    }
}

fn any_holds(items: &[Node], part: &Node, meter: &mut Meter) -> Result<bool> {
    for item in items {
        if holds(item, part, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a value is equal to another one, or has all its entries or items.
fn holds(all: &Node, part: &Node, meter: &mut Meter) -> Result<bool> {
    meter.step()?;
    match (all, part) {
        (Node::Object(_), Node::Object(wanted)) => {
            for (key, value) in wanted {
                match all.key(&unescaped(key)) {
                    Some(own) if holds(own, value, meter)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        (Node::Array(own), Node::Array(wanted)) => {
            for wanted in wanted {
                if !any_holds(own, wanted, meter)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Node::Text(a), Node::Text(b)) => Ok(unescaped(a) == unescaped(b)),
        (Node::Number(a), Node::Number(b)) => Ok(a == b || number_key(a).is_some_and(|key| Some(key) == number_key(b))),
        (a, b) => Ok(a == b),
    }
}

/// Whether an object has a key, an array a string, or a string is the text.
fn has_key(node: &Node, name: &str) -> bool {
    match node {
        Node::Object(_) => node.key(name).is_some(),
        Node::Array(items) => items.iter().any(|item| matches!(item, Node::Text(raw) if unescaped(raw) == name)),
        Node::Text(raw) => unescaped(raw) == name,
        _ => false,
    }
}

fn of_keys(call: &Call, test: fn(&Node, &Path) -> bool) -> Result<ArrayRef> {
    let keys = paths(call, 1)?;
    let row = |(text, keys): (Option<&str>, &Option<Path>)| -> Result<Option<bool>> {
        let (Some(text), Some(keys)) = (text, keys) else { return Ok(None) };
        Ok(Some(test(&known(text)?, keys)))
    };
    Ok(Arc::new(texts(call, 0)?.iter().zip(&keys).map(row).collect::<Result<BooleanArray>>()?))
}

/// The name of a value's type in PostgreSQL.
pub(super) fn kind(node: &Node) -> &'static str {
    match node {
        Node::Null => "null",
        Node::Bool(_) => "boolean",
        Node::Number(_) => "number",
        Node::Text(_) => "string",
        Node::Array(_) => "array",
        Node::Object(_) => "object",
    }
}

/// The items of an array.
///
/// # Errors
/// It is no array. `what` is what needs one.
fn items_of<'n, 'a>(node: &'n Node<'a>, what: &str) -> Result<&'n [Node<'a>]> {
    match node {
        Node::Array(items) => Ok(items),
        other => invalid(format!("{what} takes an array, and was given JSON of type {}", kind(other))),
    }
}

fn array_length(call: &Call) -> Result<ArrayRef> {
    let length = |text: &str| -> Result<i64> { Ok(items_of(&known(text)?, "jsonb_array_length")?.len() as i64) };
    let rows = texts(call, 0)?;
    let rows = rows.iter().map(|text| text.map(length).transpose());
    Ok(Arc::new(rows.collect::<Result<Int64Array>>()?))
}

fn items(call: &Call, shown: Shown) -> Result<ArrayRef> {
    let mut lists = Parts::new("jsonb_array_elements");
    for text in &texts(call, 0)? {
        let Some(text) = text else {
            lists.append_null();
            continue;
        };
        for item in items_of(&known(text)?, "jsonb_array_elements")? {
            lists.add(shown(item)?.as_deref())?;
        }
        lists.end();
    }
    Ok(lists.finish())
}

/// The keys of objects, each once and in order if `is_jsonb`.
fn keys(call: &Call, is_jsonb: bool) -> Result<ArrayRef> {
    of_entries(call, is_jsonb, "json_object_keys", &|key, _| Ok(Some(unescaped(key))))
}

/// The values of objects, in the order of the keys.
fn values(call: &Call, is_jsonb: bool, shown: Shown) -> Result<ArrayRef> {
    of_entries(call, is_jsonb, "json_each", &|_, value| shown(value))
}

/// A list with a text of each entry of an object. `what` is what takes the object.
fn of_entries(
    call: &Call,
    is_jsonb: bool,
    what: &'static str,
    shown: &dyn Fn(&str, &Node) -> Result<Option<String>>,
) -> Result<ArrayRef> {
    let mut lists = Parts::new(what);
    for text in &texts(call, 0)? {
        let Some(text) = text else {
            lists.append_null();
            continue;
        };
        let node = if is_jsonb { document(text)? } else { known(text)? };
        match node {
            Node::Object(entries) => {
                for (key, value) in &entries {
                    lists.add(shown(key, value)?.as_deref())?;
                }
            }
            other => return invalid(format!("{what} takes an object, and was given JSON of type {}", kind(&other))),
        }
        lists.end();
    }
    Ok(lists.finish())
}

/// A document in lines, with four spaces per level.
fn pretty(text: &str) -> Result<String> {
    let mut lines = String::new();
    write_lines(&document(text)?, 0, &mut lines, &mut Meter::new("jsonb_pretty"))?;
    Ok(lines)
}

fn write_lines(node: &Node, level: usize, out: &mut String, meter: &mut Meter) -> Result<()> {
    match node {
        Node::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                new_line(at > 0, level + 1, out, meter)?;
                write_lines(item, level + 1, out, meter)?;
            }
            new_line(false, level, out, meter)?;
            out.push(']');
        }
        Node::Object(entries) => {
            out.push('{');
            for (at, (key, value)) in entries.iter().enumerate() {
                new_line(at > 0, level + 1, out, meter)?;
                append_string(&unescaped(key), out);
                out.push_str(": ");
                write_lines(value, level + 1, out, meter)?;
            }
            new_line(false, level, out, meter)?;
            out.push('}');
        }
        scalar => out.push_str(&form(scalar)?),
    }
    Ok(())
}

fn new_line(follows: bool, level: usize, out: &mut String, meter: &mut Meter) -> Result<()> {
    meter.add(4 * level + 2)?;
    out.push_str(if follows { ",\n" } else { "\n" });
    out.extend(std::iter::repeat_n("    ", level));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_contain_others() {
        // As PostgreSQL 15 has it.
        for (all, part, expected) in [
            (r#"{"a":1,"b":[1,2]}"#, r#"{"b":[2]}"#, true),
            (r#"{"a":{"b":1}}"#, r#"{"b":1}"#, false),
            ("[1,[2]]", "2", false),
            ("[1,[2]]", "1.0", true),
            ("[1,[2]]", "[[2],1,1]", true),
            ("1", "[1]", false),
            ("1", "1", true),
            ("{\"a\":[1]}", "{\"a\":1}", false),
            ("[]", "{}", false),
            ("{\"a\":1}", "{}", true),
        ] {
            let contains = contains(&known(all).expect(all), &known(part).expect(part));
            assert_eq!(contains.expect(all), expected, "{all} @> {part}");
        }
    }

    #[test]
    fn documents_have_lines() {
        let lines = pretty(r#"{"b":[],"a":[1,{}]}"#).expect("a document");
        assert_eq!(lines, "{\n    \"a\": [\n        1,\n        {\n        }\n    ],\n    \"b\": [\n    ]\n}");
    }
}
