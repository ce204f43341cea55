//! JSONB that PostgreSQL makes of other JSONB: joined documents, values set, inserted and deleted by path, and JSONB of other
//! values.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringViewArray};
use datafusion::error::Result;

use super::function::Scalar;
use super::json::{json_array, json_object};
use super::json_edits::escaped;
use super::jsonb::{Path, document, form, paths};
use super::kinds::Kind::{self, Bool, Int, List, Rest, Text};
use super::kinds::{INT, TEXT};
use super::rows::{any_null, bools, ints, invalid, texts};
use crate::json_text::canonical::append_string;
use crate::json_text::{Node, is_key, known, position};
use crate::times::{Call, is_text};

/// A document, a path, a value, and a flag.
const CHANGES: &[&[Kind]] =
    &[&[Text, Text, Text], &[Text, List, Text], &[Text, Text, Text, Bool], &[Text, List, Text, Bool]];
/// Keys and values in turn, or keys and values.
const OF_TEXTS: &[&[Kind]] = &[&[Text], &[List], &[Text, Text], &[List, List]];
const LAX: &[&[Kind]] = &[
    &[Text, Text, Text],
    &[Text, List, Text],
    &[Text, Text, Text, Bool],
    &[Text, List, Text, Bool],
    &[Text, Text, Text, Bool, Text],
    &[Text, List, Text, Bool, Text],
];

pub(super) fn all() -> Vec<Scalar> {
    vec![
        Scalar::new(&["jsonb_concat"], &[&[Text, Text]], TEXT, joined),
        Scalar::new(&["jsonb_delete"], &[&[Text, Int], &[Text, Text], &[Text, List]], TEXT, deleted),
        Scalar::new(&["jsonb_delete_path"], &[&[Text, Text], &[Text, List]], TEXT, path_deleted),
        Scalar::new(&["jsonb_set"], CHANGES, TEXT, |call| changed(call, true, [Change::Replace, Change::Create])),
        Scalar::new(&["jsonb_insert"], CHANGES, TEXT, |call| changed(call, false, [Change::Before, Change::After])),
        Scalar::new(&["jsonb_set_lax"], LAX, TEXT, set_lax),
        Scalar::new(&["jsonb_build_array"], &[&[Rest]], TEXT, |call| in_form(&json_array(call)?)),
        Scalar::new(&["jsonb_build_object"], &[&[Rest]], TEXT, |call| in_form(&json_object(call)?)),
        Scalar::new(&["jsonb_object"], OF_TEXTS, TEXT, |call| object_of_texts(call, true)),
        Scalar::new(&["freestone_json_object"], OF_TEXTS, TEXT, |call| object_of_texts(call, false)),
    ]
}

/// JSON as JSONB.
fn in_form(values: &ArrayRef) -> Result<ArrayRef> {
    let rows = values.as_string_view().iter().map(|text| text.map(|text| form(&known(text)?)).transpose());
    Ok(Arc::new(rows.collect::<Result<StringViewArray>>()?))
}

/// Objects are merged; other values are joined as arrays.
fn joined(call: &Call) -> Result<ArrayRef> {
    let (first, second) = (texts(call, 0)?, texts(call, 1)?);
    let row = |(a, b): (Option<&str>, Option<&str>)| -> Result<Option<String>> {
        let (Some(a), Some(b)) = (a, b) else { return Ok(None) };
        let all = match (known(a)?, known(b)?) {
            // Of equal keys, the last remains.
            (Node::Object(mut entries), Node::Object(others)) => {
                entries.extend(others);
                Node::Object(entries)
            }
            (a, b) => Node::Array(items(a).into_iter().chain(items(b)).collect()),
        };
        form(&all).map(Some)
    };
    Ok(Arc::new(first.iter().zip(second.iter()).map(row).collect::<Result<StringViewArray>>()?))
}

fn items(node: Node) -> Vec<Node> {
    match node {
        Node::Array(items) => items,
        other => vec![other],
    }
}

fn is_scalar(node: &Node) -> bool {
    !matches!(node, Node::Array(_) | Node::Object(_))
}

/// Without a key, several keys, or the item at a position. Of arrays, keys are strings among the items.
fn deleted(call: &Call) -> Result<ArrayRef> {
    let given = call.array(1)?;
    let documents = texts(call, 0)?;
    if *given.data_type() == INT {
        let places = ints(call, 1)?;
        let row = |(text, at): (Option<&str>, Option<i64>)| -> Result<Option<String>> {
            let (Some(text), Some(at)) = (text, at) else { return Ok(None) };
            let mut node = document(text)?;
            delete_item(&mut node, at)?;
            form(&node).map(Some)
        };
        return Ok(Arc::new(documents.iter().zip(&places).map(row).collect::<Result<StringViewArray>>()?));
    }
    let keys: Vec<Option<Path>> = match is_text(given.data_type()) {
        true => texts(call, 1)?.iter().map(|key| key.map(|key| vec![Some(key.to_owned())])).collect(),
        false => paths(call, 1)?,
    };
    let row = |(text, keys): (Option<&str>, &Option<Path>)| -> Result<Option<String>> {
        let (Some(text), Some(keys)) = (text, keys) else { return Ok(None) };
        let mut node = document(text)?;
        delete_keys(&mut node, keys)?;
        form(&node).map(Some)
    };
    Ok(Arc::new(documents.iter().zip(&keys).map(row).collect::<Result<StringViewArray>>()?))
}

fn delete_item(node: &mut Node, at: i64) -> Result<()> {
    match node {
        Node::Array(items) => {
            if let Some(at) = position(items, at).filter(|at| *at < items.len()) {
                items.remove(at);
            }
            Ok(())
        }
        Node::Object(_) => invalid("cannot delete from object using integer index"),
        _ => invalid("cannot delete from scalar"),
    }
}

fn delete_keys(node: &mut Node, keys: &Path) -> Result<()> {
    let is_one = |raw: &str| keys.iter().flatten().any(|key| is_key(raw, key));
    match node {
        Node::Object(entries) => entries.retain(|(key, _)| !is_one(key)),
        Node::Array(items) => items.retain(|item| !matches!(item, Node::Text(raw) if is_one(raw))),
        _ => return invalid("cannot delete from scalar"),
    }
    Ok(())
}

/// What becomes of the place to which a path leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// Its value is replaced, or added to its object or array.
    Create,
    /// Its value is replaced.
    Replace,
    /// A value is inserted before it, or behind it.
    Before,
    After,
    /// It is deleted, and no value comes there.
    Delete,
}

impl Change {
    fn adds(self) -> bool {
        matches!(self, Change::Create | Change::Before | Change::After)
    }
}

fn path_deleted(call: &Call) -> Result<ArrayRef> {
    let (documents, paths) = (texts(call, 0)?, paths(call, 1)?);
    let row = |(text, path): (Option<&str>, &Option<Path>)| match (text, path) {
        (Some(text), Some(path)) => with_change(text, path, "null", Change::Delete).map(Some),
        _ => Ok(None),
    };
    Ok(Arc::new(documents.iter().zip(&paths).map(row).collect::<Result<StringViewArray>>()?))
}

/// Documents with values at paths. The flag, which is `usual` where it is missing, chooses one of two changes.
fn changed(call: &Call, usual: bool, changes: [Change; 2]) -> Result<ArrayRef> {
    let (documents, paths, values) = (texts(call, 0)?, paths(call, 1)?, texts(call, 2)?);
    let flags = flags(call, usual)?;
    let row = |row: usize| -> Result<Option<String>> {
        let Some(path) = paths.get(row).and_then(Option::as_ref) else { return Ok(None) };
        if any_null(&[&documents, &values, &flags], row) {
            return Ok(None);
        }
        let change = changes[usize::from(flags.value(row))];
        with_change(documents.value(row), path, values.value(row), change).map(Some)
    };
    Ok(Arc::new((0..call.rows()).map(row).collect::<Result<StringViewArray>>()?))
}

/// The flag that is the fourth argument.
fn flags(call: &Call, usual: bool) -> Result<BooleanArray> {
    if call.count() > 3 { bools(call, 3) } else { Ok(BooleanArray::from(vec![usual; call.rows()])) }
}

/// `jsonb_set`, and for a NULL as value what the last argument says.
fn set_lax(call: &Call) -> Result<ArrayRef> {
    let (documents, paths, values) = (texts(call, 0)?, paths(call, 1)?, texts(call, 2)?);
    let flags = flags(call, true)?;
    let treatments = if call.count() > 4 { Some(texts(call, 4)?) } else { None };
    let row = |row: usize| -> Result<Option<String>> {
        let Some(path) = paths.get(row).and_then(Option::as_ref) else { return Ok(None) };
        if any_null(&[&documents, &flags], row) {
            return Ok(None);
        }
        let text = documents.value(row);
        let change = if flags.value(row) { Change::Create } else { Change::Replace };
        let treatment = match &treatments {
            Some(treatments) if treatments.is_null(row) => return invalid("null_value_treatment is NULL"),
            Some(treatments) => treatments.value(row),
            None => "use_json_null",
        };
        match treatment {
            "use_json_null" | "return_target" | "delete_key" | "raise_exception" if values.is_valid(row) => {
                with_change(text, path, values.value(row), change).map(Some)
            }
            "use_json_null" => with_change(text, path, "null", change).map(Some),
            "delete_key" => with_change(text, path, "null", Change::Delete).map(Some),
            "return_target" => form(&document(text)?).map(Some),
            "raise_exception" => invalid("the value of jsonb_set_lax is NULL"),
            _ => invalid(
                "null_value_treatment is \"delete_key\", \"return_target\", \"use_json_null\" or \"raise_exception\"",
            ),
        }
    };
    Ok(Arc::new((0..call.rows()).map(row).collect::<Result<StringViewArray>>()?))
}

fn with_change(text: &str, path: &Path, value: &str, change: Change) -> Result<String> {
    let mut node = document(text)?;
    if is_scalar(&node) {
        return invalid(match change {
            Change::Delete => "cannot delete path in scalar",
            _ => "cannot set path in scalar",
        });
    }
    make(&mut node, path, 0, &known(value)?, change)?;
    form(&node)
}

/// Makes a change at a path, of which `level` steps were taken.
fn make<'a>(node: &mut Node<'a>, path: &Path, level: usize, value: &Node<'a>, change: Change) -> Result<()> {
    let Some(part) = path.get(level) else { return Ok(()) };
    if is_scalar(node) {
        return Ok(());
    }
    let Some(part) = part else { return invalid(format!("path element at position {} is null", level + 1)) };
    let is_last = level + 1 == path.len();
    match node {
        Node::Object(entries) => {
            match entries.iter().position(|(key, _)| is_key(key, part)) {
                Some(at) if !is_last => make(&mut entries[at].1, path, level + 1, value, change)?,
                Some(at) => match change {
                    Change::Before | Change::After => return invalid("cannot replace existing key"),
                    Change::Create | Change::Replace => entries[at].1 = value.clone(),
                    Change::Delete => {
                        entries.remove(at);
                    }
                },
                None if is_last && change.adds() => entries.push((escaped(part), value.clone())),
                None => {}
            }
            Ok(())
        }
        Node::Array(items) => {
            let Ok(at) = part.parse::<i32>() else {
                let place = level + 1;
                return invalid(format!("path element at position {place} is not an integer: \"{part}\""));
            };
            match position(items, at.into()) {
                Some(at) if at < items.len() => match is_last {
                    true => make_item(items, at, value, change),
                    false => make(&mut items[at], path, level + 1, value, change)?,
                },
                // Behind the last item, or before the first.
                place if is_last && change.adds() => {
                    let end = if place.is_some() { items.len() } else { 0 };
                    items.insert(end, value.clone());
                }
                _ => {}
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Makes a change at an item.
fn make_item<'a>(items: &mut Vec<Node<'a>>, at: usize, value: &Node<'a>, change: Change) {
    match change {
        Change::Create | Change::Replace => items[at] = value.clone(),
        Change::Before => items.insert(at, value.clone()),
        Change::After => items.insert(at + 1, value.clone()),
        Change::Delete => {
            items.remove(at);
        }
    }
}

/// An object of keys and values in turn, or of keys and of values. All values are strings.
fn object_of_texts(call: &Call, is_jsonb: bool) -> Result<ArrayRef> {
    let keys = paths(call, 0)?;
    let values = if call.count() > 1 { Some(paths(call, 1)?) } else { None };
    let row = |row: usize| -> Result<Option<String>> {
        let Some(keys) = keys.get(row).and_then(Option::as_ref) else { return Ok(None) };
        let pairs: Vec<(&Option<String>, &Option<String>)> = match &values {
            None if !keys.len().is_multiple_of(2) => return invalid("array must have even number of elements"),
            None => keys.iter().step_by(2).zip(keys.iter().skip(1).step_by(2)).collect(),
            Some(values) => match values.get(row).and_then(Option::as_ref) {
                None => return Ok(None),
                Some(values) if values.len() != keys.len() => return invalid("mismatched array dimensions"),
                Some(values) => keys.iter().zip(values).collect(),
            },
        };
        let mut text = String::from("{");
        for (key, value) in pairs {
            let Some(key) = key else { return invalid("null value not allowed for object key") };
            text.push_str(if text.len() > 1 { ", " } else { "" });
            append_string(key, &mut text);
            text.push_str(" : ");
            match value {
                Some(value) => append_string(value, &mut text),
                None => text.push_str("null"),
            }
        }
        text.push('}');
        if is_jsonb { form(&known(&text)?).map(Some) } else { Ok(Some(text)) }
    };
    Ok(Arc::new((0..call.rows()).map(row).collect::<Result<StringViewArray>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_changed_at_paths() {
        // As PostgreSQL 15 has it.
        for (text, path, value, change, expected) in [
            (r#"{"a":[0,1,2]}"#, &["a", "1"][..], "9", Change::Create, Some(r#"{"a": [0, 9, 2]}"#)),
            (r#"{"a":[0,1,2]}"#, &["a", "9"], "9", Change::Create, Some(r#"{"a": [0, 1, 2, 9]}"#)),
            (r#"{"a":[0,1,2]}"#, &["a", "-9"], "9", Change::Create, Some(r#"{"a": [9, 0, 1, 2]}"#)),
            (r#"{"a":[0,1,2]}"#, &["a", "9"], "9", Change::Replace, Some(r#"{"a": [0, 1, 2]}"#)),
            (r#"{"a":[0,1,2]}"#, &["a", "1"], "9", Change::Before, Some(r#"{"a": [0, 9, 1, 2]}"#)),
            (r#"{"a":[0,1,2]}"#, &["a", "-1"], "9", Change::After, Some(r#"{"a": [0, 1, 2, 9]}"#)),
            (r#"{"a":[0,1,2]}"#, &["a", "-1"], "9", Change::Delete, Some(r#"{"a": [0, 1]}"#)),
            (r#"{"a":1}"#, &["b"], "9", Change::Create, Some(r#"{"a": 1, "b": 9}"#)),
            (r#"{"a":1}"#, &["b", "c"], "9", Change::Create, Some(r#"{"a": 1}"#)),
            (r#"{"a":1}"#, &["a", "c"], "9", Change::Create, Some(r#"{"a": 1}"#)),
            (r#"{"a":1}"#, &["a"], "9", Change::Before, None),
            (r#"{"a":1}"#, &["a"], "9", Change::Delete, Some("{}")),
            (r#"{"a":1}"#, &[], "9", Change::Create, Some(r#"{"a": 1}"#)),
            ("[1]", &["x"], "9", Change::Create, None),
            ("1", &["x"], "9", Change::Create, None),
        ] {
            let path: Path = path.iter().map(|part| Some((*part).to_owned())).collect();
            assert_eq!(with_change(text, &path, value, change).ok().as_deref(), expected, "{text} {path:?} {change:?}");
        }
    }
}
