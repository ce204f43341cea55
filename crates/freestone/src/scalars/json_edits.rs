//! Functions that change JSON: values set and removed by path, documents merged, in one form, or without NULLs.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, StringViewArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;

use super::function::Scalar;
use super::json::{Paths, json_texts};
use super::json_path::{Step, position_of};
use super::kinds::Kind::{self, Any, Rest, Text};
use super::kinds::TEXT;
use super::rows::{invalid, text_of_text, texts};
use crate::json_text::{Node, append_json_string, is_key, known, position, unescaped};
use crate::times::{Call, is_text};

/// A document, a path, and the value that comes there.
const EDIT: &[&[Kind]] = &[&[Any, Text, Any]];

pub(super) fn all() -> Vec<Scalar> {
    vec![
        Scalar::new(&["json_set"], EDIT, TEXT, |call| edited(call, Edit { adds: true, replaces: true })),
        Scalar::new(&["json_insert"], EDIT, TEXT, |call| edited(call, Edit { adds: true, replaces: false })),
        Scalar::new(&["json_replace"], EDIT, TEXT, |call| edited(call, Edit { adds: false, replaces: true })),
        Scalar::new(&["json_remove"], &[&[Any, Text]], TEXT, remove),
        Scalar::new(&["json_merge_patch"], &[&[Any, Any, Rest]], TEXT, |call| merged(call, patched)),
        Scalar::new(&["json_deep_merge"], &[&[Any, Any, Rest]], TEXT, |call| merged(call, completed)),
        Scalar::new(&["json_merge_patch_diff"], &[&[Any, Any]], TEXT, |call| merged(call, difference)),
        of_document("json_strip_nulls", |node| without_nulls(node).text()),
        of_document("json_normalize", |node| normal(node).text()),
        of_document("json_pretty", |node| {
            let mut text = String::new();
            write_lines(&node, 0, &mut text);
            text
        }),
    ]
}

/// A function of one document.
fn of_document(name: &'static str, of: fn(Node) -> String) -> Scalar {
    Scalar::new(&[name], &[&[Text]], TEXT, move |call| text_of_text(call, |text| Ok(of(known(text)?))))
}

/// The values of an argument as JSON: texts are JSON already.
fn documents(call: &Call, at: usize) -> Result<StringViewArray> {
    let values = call.array(at)?;
    match values.data_type() {
        DataType::Null => texts(call, at),
        given if is_text(given) => texts(call, at),
        _ => json_texts(&values),
    }
}

/// What an edit does with places of which one exists and one does not.
#[derive(Clone, Copy)]
struct Edit {
    adds: bool,
    replaces: bool,
}

fn edited(call: &Call, edit: Edit) -> Result<ArrayRef> {
    let (documents, at, values) = (documents(call, 0)?, texts(call, 1)?, documents(call, 2)?);
    let mut paths = Paths::default();
    let row = |row: usize| -> Result<Option<String>> {
        if documents.is_null(row) || at.is_null(row) || values.is_null(row) {
            return Ok(None);
        }
        let (mut node, value) = (known(documents.value(row))?, known(values.value(row))?);
        set(&mut node, single(paths.steps(at.value(row))?)?, value, edit);
        Ok(Some(node.text()))
    };
    Ok(Arc::new((0..call.rows()).map(row).collect::<Result<StringViewArray>>()?))
}

/// A path to at most one value.
fn single(steps: &[Step]) -> Result<&[Step]> {
    match super::json_path::is_many(steps) {
        true => invalid("a path to several values is not supported by functions that change JSON"),
        false => Ok(steps),
    }
}

/// Sets the value at a path. Nothing changes where a step does not fit, such as a key into an array.
fn set<'a>(node: &mut Node<'a>, steps: &[Step], value: Node<'a>, edit: Edit) {
    let Some((step, rest)) = steps.split_first() else {
        if edit.replaces {
            *node = value;
        }
        return;
    };
    match (node, step) {
        (Node::Object(entries), Step::Key(name) | Step::Part(name)) => {
            match entries.iter_mut().find(|(key, _)| is_key(key, name)) {
                Some((_, inner)) => {
                    set(inner, rest, value, edit);
                    if rest.is_empty() && edit.replaces {
                        without_repeats(entries, name);
                    }
                }
                None if edit.adds => entries.extend(new(rest, value).map(|value| (escaped(name), value))),
                None => {}
            }
        }
        (Node::Array(items), step) => match place(items, step) {
            Some(at) if at < items.len() => set(&mut items[at], rest, value, edit),
            Some(at) if at == items.len() && edit.adds => items.extend(new(rest, value)),
            _ => {}
        },
        _ => {}
    }
}

/// Leaves only the first of the entries with a key.
fn without_repeats(entries: &mut Entries, name: &str) {
    let mut is_first = true;
    entries.retain(|(key, _)| !is_key(key, name) || std::mem::take(&mut is_first));
}

/// The place in an array to which a step leads; that behind its last item to append.
fn place(items: &[Node], step: &Step) -> Option<usize> {
    match step {
        Step::Item(at) => position(items, *at),
        Step::Part(part) if part == "-" => Some(items.len()),
        Step::Part(part) => position(items, position_of(part)?),
        Step::End => Some(items.len()),
        _ => None,
    }
}

/// A value within the objects and arrays that a path needs; none if it needs an array with several items.
fn new<'a>(steps: &[Step], value: Node<'a>) -> Option<Node<'a>> {
    let Some((step, rest)) = steps.split_first() else { return Some(value) };
    let inner = new(rest, value)?;
    match step {
        Step::Key(name) | Step::Part(name) => Some(Node::Object(vec![(escaped(name), inner)])),
        Step::Item(0) | Step::End => Some(Node::Array(vec![inner])),
        _ => None,
    }
}

/// A key as a JSON text has it between quotes.
pub(super) fn escaped<'a>(name: &str) -> Cow<'a, str> {
    let mut text = String::new();
    append_json_string(name, &mut text);
    Cow::Owned(text[1..text.len() - 1].to_owned())
}

fn remove(call: &Call) -> Result<ArrayRef> {
    let (documents, at) = (documents(call, 0)?, texts(call, 1)?);
    let mut paths = Paths::default();
    let mut row = |(text, at): (Option<&str>, Option<&str>)| -> Result<Option<String>> {
        let (Some(text), Some(at)) = (text, at) else { return Ok(None) };
        let Some((last, steps)) = single(paths.steps(at)?)?.split_last() else { return Ok(None) };
        let mut node = known(text)?;
        if let Some(parent) = steps.iter().try_fold(&mut node, inner) {
            take(parent, last);
        }
        Ok(Some(node.text()))
    };
    Ok(Arc::new(documents.iter().zip(at.iter()).map(&mut row).collect::<Result<StringViewArray>>()?))
}

fn inner<'n, 'a>(node: &'n mut Node<'a>, step: &Step) -> Option<&'n mut Node<'a>> {
    match (node, step) {
        (Node::Object(entries), Step::Key(name) | Step::Part(name)) => {
            entries.iter_mut().find(|(key, _)| is_key(key, name)).map(|(_, value)| value)
        }
        (Node::Array(items), step) => {
            let at = place(items, step)?;
            items.get_mut(at)
        }
        _ => None,
    }
}

/// Removes what a step leads to.
fn take(node: &mut Node, step: &Step) {
    match (node, step) {
        (Node::Object(entries), Step::Key(name) | Step::Part(name)) => entries.retain(|(key, _)| !is_key(key, name)),
        (Node::Array(items), step) => {
            if let Some(at) = place(items, step).filter(|at| *at < items.len()) {
                items.remove(at);
            }
        }
        _ => {}
    }
}

/// Merges the documents of each row from left to right. A NULL leaves nothing of those before it.
fn merged(call: &Call, merge: for<'a> fn(Node<'a>, Node<'a>) -> Node<'a>) -> Result<ArrayRef> {
    let all = (0..call.count()).map(|at| documents(call, at)).collect::<Result<Vec<_>>>()?;
    let row = |row: usize| -> Result<Option<String>> {
        let mut result: Option<Node> = None;
        for column in &all {
            result = match (column.is_valid(row), result) {
                (false, _) => None,
                (true, None) => Some(known(column.value(row))?),
                (true, Some(node)) => Some(merge(node, known(column.value(row))?)),
            };
        }
        Ok(result.map(|node| node.text()))
    };
    Ok(Arc::new((0..call.rows()).map(row).collect::<Result<StringViewArray>>()?))
}

type Entries<'a> = Vec<(Cow<'a, str>, Node<'a>)>;

/// A document after a merge patch (RFC 7396). Unlike there, NULLs remain in what replaces a whole document.
fn patched<'a>(base: Node<'a>, patch: Node<'a>) -> Node<'a> {
    match (base, patch) {
        (Node::Object(base), Node::Object(patch)) => Node::Object(patched_entries(base, patch)),
        (_, patch) => patch,
    }
}

fn patched_entries<'a>(base: Entries<'a>, patch: Entries<'a>) -> Entries<'a> {
    let (mut kept, mut replaced) = parted(base, &patch);
    for (key, value) in patch {
        let old = taken(&mut replaced, &key);
        match value {
            Node::Null => {}
            Node::Object(inner) => {
                let old = if let Some(Node::Object(old)) = old { old } else { vec![] };
                kept.push((key, Node::Object(patched_entries(old, inner))));
            }
            value => kept.push((key, value)),
        }
    }
    kept
}

/// A document with the values of another, of which NULLs change nothing.
fn completed<'a>(base: Node<'a>, other: Node<'a>) -> Node<'a> {
    match (base, other) {
        (base, Node::Null) => base,
        (Node::Object(base), Node::Object(mut other)) => {
            other.retain(|(_, value)| !matches!(value, Node::Null));
            let (mut kept, mut replaced) = parted(base, &other);
            for (key, value) in other {
                let value = match taken(&mut replaced, &key) {
                    Some(old) => completed(old, value),
                    None => value,
                };
                kept.push((key, value));
            }
            Node::Object(kept)
        }
        (_, other) => other,
    }
}

/// The entries whose keys `other` does not have, and those whose keys it has.
fn parted<'a>(entries: Entries<'a>, other: &Entries) -> (Entries<'a>, Entries<'a>) {
    entries.into_iter().partition(|(key, _)| place_of(other, key).is_none())
}

/// The place of a key in any spelling.
fn place_of(entries: &Entries, key: &str) -> Option<usize> {
    let key = unescaped(key);
    entries.iter().position(|(other, _)| is_key(other, &key))
}

fn taken<'a>(entries: &mut Entries<'a>, key: &str) -> Option<Node<'a>> {
    place_of(entries, key).map(|at| entries.swap_remove(at).1)
}

/// The merge patch that makes the second document of the first.
fn difference<'a>(from: Node<'a>, to: Node<'a>) -> Node<'a> {
    match (from, to) {
        (Node::Object(from), Node::Object(to)) => {
            let gone = from.iter().filter(|(key, _)| place_of(&to, key).is_none());
            let mut patch: Entries = gone.map(|(key, _)| (key.clone(), Node::Null)).collect();
            for (key, value) in to {
                let old = place_of(&from, &key).map(|at| &from[at].1);
                if old == Some(&value) {
                    continue;
                }
                let changed = match old {
                    Some(old) => difference(old.clone(), value),
                    None => value,
                };
                // Objects that only have another order do not differ.
                if !matches!((old, &changed), (Some(Node::Object(_)), Node::Object(inner)) if inner.is_empty()) {
                    patch.push((key, changed));
                }
            }
            Node::Object(patch)
        }
        (_, to) => to,
    }
}

/// A document without the entries that are NULL; items of arrays remain.
pub(super) fn without_nulls(node: Node) -> Node {
    match node {
        Node::Object(entries) => {
            let kept = entries.into_iter().filter(|(_, value)| !matches!(value, Node::Null));
            Node::Object(kept.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        Node::Array(items) => Node::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// A document with the keys of each object in the order of their bytes.
fn normal(node: Node) -> Node {
    match node {
        Node::Object(mut entries) => {
            entries.sort_by_cached_key(|(key, _)| unescaped(key));
            Node::Object(entries.into_iter().map(|(key, value)| (key, normal(value))).collect())
        }
        Node::Array(items) => Node::Array(items.into_iter().map(normal).collect()),
        other => other,
    }
}

/// Writes a document in lines, with four spaces per level.
fn write_lines(node: &Node, level: usize, out: &mut String) {
    let line = |level: usize, out: &mut String| {
        out.push('\n');
        out.extend(std::iter::repeat_n("    ", level));
    };
    let mut each = |count: usize, brackets: [char; 2], write: &mut dyn FnMut(usize, &mut String)| {
        out.push(brackets[0]);
        for at in 0..count {
            if at > 0 {
                out.push(',');
            }
            line(level + 1, out);
            write(at, out);
        }
        if count > 0 {
            line(level, out);
        }
        out.push(brackets[1]);
    };
    match node {
        Node::Array(items) => each(items.len(), ['[', ']'], &mut |at, out| write_lines(&items[at], level + 1, out)),
        Node::Object(entries) => each(entries.len(), ['{', '}'], &mut |at, out| {
            let (key, value) = &entries[at];
            append_json_string(&unescaped(key), out);
            out.push_str(": ");
            write_lines(value, level + 1, out);
        }),
        other => other.write(out),
    }
}
