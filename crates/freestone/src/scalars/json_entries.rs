//! The entries of JSON as rows: what `json_each` and `json_tree` give in FROM. A query calls the function here, which
//! gives them as a list of structs, and unnests it.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, ListArray, StringViewBuilder, StructArray, UInt64Builder};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::error::Result;

use super::function::Scalar;
use super::json::Paths;
use super::json_path::{found, is_many};
use super::kinds::Kind::{Bool, Text};
use super::kinds::{TEXT, list_of};
use super::rows::{bools, invalid, texts};
use crate::growth::Meter;
use crate::json_text::{Node, append_json_string, known, unescaped};
use crate::times::Call;

/// The function of the entries of JSON as a list.
const JSON_ENTRIES: &str = "freestone_json_entries";

/// One value of a document.
struct Entry<'n, 'a> {
    node: &'n Node<'a>,
    /// The key, or the position in an array; none at the start.
    key: Option<String>,
    /// Numbers all keys and values of the document in their order.
    id: u64,
    parent: Option<u64>,
    path: String,
    /// The path of the object or array around it.
    around: String,
}

pub(super) fn all() -> Vec<Scalar> {
    vec![Scalar::new(&[JSON_ENTRIES], &[&[Text, Text, Bool]], list_of(DataType::Struct(fields())), entries)]
}

fn fields() -> Fields {
    let text = ["key", "value", "type", "atom"].map(|name| Field::new(name, TEXT, true));
    let ids = ["id", "parent"].map(|name| Field::new(name, DataType::UInt64, true));
    let paths = ["fullkey", "path"].map(|name| Field::new(name, TEXT, true));
    text.into_iter().chain(ids).chain(paths).collect()
}

fn entries(call: &Call) -> Result<ArrayRef> {
    let (documents, paths, deep) = (texts(call, 0)?, texts(call, 1)?, bools(call, 2)?);
    let mut known_paths = Paths::default();
    let mut rows = Rows::new();
    let mut ends = vec![0i32];
    for row in 0..call.rows() {
        if documents.is_valid(row) && paths.is_valid(row) && deep.is_valid(row) {
            let (node, steps) = (known(documents.value(row))?, known_paths.steps(paths.value(row))?);
            if is_many(steps) {
                return invalid("json_each and json_tree take a path to one value");
            }
            if let Some(start) = found(&node, steps)?.first() {
                let mut all = Walked { entries: vec![], meter: Meter::new("json_tree") };
                let (path, around) = ("$".to_owned(), "$".to_owned());
                walk(Entry { node: &node, key: None, id: 0, parent: None, path, around }, &mut all)?;
                rows.add(&all.entries, start, deep.value(row))?;
            }
        }
        match i32::try_from(rows.count) {
            Ok(end) => ends.push(end),
            Err(_) => return invalid("json_each and json_tree gave more than 2,147,483,647 rows in one step"),
        }
    }
    let item = Arc::new(Field::new_list_field(DataType::Struct(fields()), true));
    Ok(Arc::new(ListArray::try_new(item, OffsetBuffer::new(ends.into()), Arc::new(rows.finish()?), None)?))
}

/// The entries of a value, counted while they are found: the path of each is as long as it is deep.
struct Walked<'n, 'a> {
    entries: Vec<Entry<'n, 'a>>,
    meter: Meter,
}

/// Adds an entry and all within it. Returns the number after the last of theirs.
fn walk<'n, 'a>(entry: Entry<'n, 'a>, all: &mut Walked<'n, 'a>) -> Result<u64> {
    let (node, id, path) = (entry.node, entry.id, entry.path.clone());
    all.meter.add(size_of::<Entry>() + 2 * path.len())?;
    all.entries.push(entry);
    let mut next = id + 1;
    match node {
        Node::Array(items) => {
            for (at, node) in items.iter().enumerate() {
                let inner = Entry {
                    node,
                    key: Some(at.to_string()),
                    id: next,
                    parent: Some(id),
                    path: format!("{path}[{at}]"),
                    around: path.clone(),
                };
                next = walk(inner, all)?;
            }
        }
        Node::Object(entries) => {
            for (key, node) in entries {
                let key = unescaped(key);
                let path_of = format!("{path}.{}", in_path(&key));
                let inner =
                    Entry { node, key: Some(key), id: next + 1, parent: Some(id), path: path_of, around: path.clone() };
                next = walk(inner, all)?;
            }
        }
        _ => {}
    }
    Ok(next)
}

/// A key as paths have it: between quotes unless it consists of letters, digits and _.
fn in_path(key: &str) -> String {
    let mut rest = key.bytes();
    let is_plain = rest.next().is_some_and(|first| first.is_ascii_alphabetic())
        && rest.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_plain {
        return key.to_owned();
    }
    let mut text = String::new();
    append_json_string(key, &mut text);
    text
}

/// The columns of the result.
struct Rows {
    /// The text of each value contains those of all within it.
    meter: Meter,
    count: usize,
    key: StringViewBuilder,
    value: StringViewBuilder,
    kind: StringViewBuilder,
    atom: StringViewBuilder,
    id: UInt64Builder,
    parent: UInt64Builder,
    fullkey: StringViewBuilder,
    path: StringViewBuilder,
}

impl Rows {
    fn new() -> Rows {
        Rows {
            meter: Meter::new("json_tree"),
            count: 0,
            key: StringViewBuilder::new(),
            value: StringViewBuilder::new(),
            kind: StringViewBuilder::new(),
            atom: StringViewBuilder::new(),
            id: UInt64Builder::new(),
            parent: UInt64Builder::new(),
            fullkey: StringViewBuilder::new(),
            path: StringViewBuilder::new(),
        }
    }

    /// Adds what is within a value: its entries, or itself if it has none; with `deep`, itself and all within it.
    fn add(&mut self, all: &[Entry], start: &Node, deep: bool) -> Result<()> {
        let Some(at) = all.iter().position(|entry| std::ptr::eq(entry.node, start)) else { return Ok(()) };
        let (start, rest) = (&all[at], &all[at + 1..]);
        let within = rest.iter().take_while(|entry| entry.parent.is_some_and(|parent| parent >= start.id));
        let has_entries = matches!(start.node, Node::Array(_) | Node::Object(_));
        if deep || !has_entries {
            self.row(&Entry {
                key: None,
                parent: None,
                path: start.path.clone(),
                around: start.path.clone(),
                ..*start
            })?;
        }
        for entry in within {
            if deep {
                self.row(entry)?;
            } else if entry.parent == Some(start.id) {
                let (key, path, around) = (entry.key.clone(), entry.path.clone(), entry.around.clone());
                self.row(&Entry { parent: None, key, path, around, ..*entry })?;
            }
        }
        Ok(())
    }

    fn row(&mut self, entry: &Entry) -> Result<()> {
        let text = entry.node.text();
        self.meter.add(size_of::<Entry>() + text.len() + entry.path.len() + entry.around.len())?;
        let is_atom = !matches!(entry.node, Node::Null | Node::Array(_) | Node::Object(_));
        self.key.append_option(entry.key.as_deref());
        self.atom.append_option(is_atom.then_some(text.as_str()));
        self.value.append_value(text);
        self.kind.append_value(entry.node.kind());
        self.id.append_value(entry.id);
        self.parent.append_option(entry.parent);
        self.fullkey.append_value(&entry.path);
        self.path.append_value(&entry.around);
        self.count += 1;
        Ok(())
    }

    fn finish(mut self) -> Result<StructArray> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.key.finish()),
            Arc::new(self.value.finish()),
            Arc::new(self.kind.finish()),
            Arc::new(self.atom.finish()),
            Arc::new(self.id.finish()),
            Arc::new(self.parent.finish()),
            Arc::new(self.fullkey.finish()),
            Arc::new(self.path.finish()),
        ];
        Ok(StructArray::try_new(fields(), columns, None)?)
    }
}
