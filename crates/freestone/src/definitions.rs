//! Schemas, macros, the names of indexes, generated columns, and comments. The database stores them among its views,
//! under names that users cannot use. The text of an entry is the statement that created it, or JSON for generated
//! columns and comments.
//!
//! A table of a schema has the name `schema.table` in the catalog.

use std::collections::BTreeMap;

use freestone_store::{Snapshot, WriteTransaction};
use serde::{Deserialize, Serialize};

use crate::context::Outcome;
use crate::error::{Error, ErrorKind, Result};
use crate::internal_names::{PG_TEMP, is_temp_schema};
use crate::sql::statement::quote;

/// The prefix of the names of entries that are not views.
const INTERNAL: &str = "freestone$";
const MACRO: &str = "freestone$macro:";
const SCHEMA: &str = "freestone$schema:";
const INDEX: &str = "freestone$index:";
const GENERATED: &str = "freestone$generated:";
const COMMENT: &str = "freestone$comment:";
const TYPE: &str = "freestone$type:";

/// What COMMENT ON has said of a table or view.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Comments {
    pub own: Option<String>,
    /// By the names of columns.
    pub columns: BTreeMap<String, String>,
}

/// A column that is computed from others of its row whenever it is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GeneratedColumn {
    pub name: String,
    /// Its position among all columns of the table.
    pub at: usize,
    /// `None` for that of the expression.
    pub data_type: Option<String>,
    /// As it was declared; it may name other such columns.
    pub declared: String,
    /// The same over stored columns alone.
    pub expression: String,
}

impl GeneratedColumn {
    /// The value in a query over the stored columns.
    pub fn value(&self) -> String {
        match &self.data_type {
            Some(data_type) => format!("CAST(({}) AS {data_type})", self.expression),
            None => format!("({})", self.expression),
        }
    }
}

/// The table and the columns of an index with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    pub table: String,
    pub columns: Vec<String>,
}

/// The views that users have created, by name.
pub(crate) fn views(snapshot: &Snapshot) -> impl Iterator<Item = (&String, &str)> {
    let views = snapshot.views().iter().filter(|(name, _)| !name.starts_with(INTERNAL));
    views.map(|(name, text)| (name, text.as_str()))
}

/// The schemas that were created.
pub(crate) fn schemas(snapshot: &Snapshot) -> impl Iterator<Item = &str> {
    snapshot.views().keys().filter_map(|name| name.strip_prefix(SCHEMA))
}

/// Whether a schema was created, or belongs to a session.
pub(crate) fn has_schema(snapshot: &Snapshot, schema: &str) -> bool {
    is_temp_schema(schema) || snapshot.views().contains_key(&format!("{SCHEMA}{schema}"))
}

/// The schema of a name and the name within it, if the schema was created.
pub(crate) fn schema_of<'a>(snapshot: &Snapshot, name: &'a str) -> Option<(&'a str, &'a str)> {
    name.split_once('.').filter(|(schema, _)| has_schema(snapshot, schema))
}

/// The macros and types with their texts, by name.
pub(crate) fn texts(snapshot: &Snapshot) -> impl Iterator<Item = (&String, &String)> {
    snapshot.views().iter().filter(|(name, _)| name.starts_with(MACRO) || name.starts_with(TYPE))
}

/// The macros with their texts, each a CREATE MACRO, by name.
pub(crate) fn macros(snapshot: &Snapshot) -> impl Iterator<Item = (&str, &str)> {
    texts(snapshot).filter_map(|(name, text)| Some((name.strip_prefix(MACRO)?, text.as_str())))
}

/// The types that CREATE TYPE has named, with what they stand for.
pub(crate) fn types(snapshot: &Snapshot) -> impl Iterator<Item = (&str, &str)> {
    texts(snapshot).filter_map(|(name, text)| Some((name.strip_prefix(TYPE)?, text.as_str())))
}

/// The text of a macro.
pub(crate) fn macro_text(snapshot: &Snapshot, name: &str) -> Option<String> {
    snapshot.views().get(&format!("{MACRO}{name}")).cloned()
}

fn missing(what: &str, name: &str, snapshot: &Snapshot, prefix: &str) -> Error {
    let names = snapshot.views().keys().filter_map(|name| name.strip_prefix(prefix));
    Error::not_found(what, name, names)
}

/// `CREATE SCHEMA [IF NOT EXISTS] schema`.
pub(crate) fn create_schema(transaction: &mut WriteTransaction, schema: &str, if_not_exists: bool) -> Result<Outcome> {
    if is_reserved(schema) {
        return Err(Error::invalid(format!("the name of schema {schema} is reserved for temporary tables"))
            .with_hint("choose a name that does not begin with pg_temp"));
    }
    let is_ours = matches!(schema, "public" | "main" | "information_schema" | "pg_catalog");
    if is_ours || has_schema(&transaction.snapshot(), schema) {
        return match if_not_exists {
            true => Ok(Outcome::Done { verb: "CREATE SCHEMA" }),
            false => Err(Error::new(ErrorKind::Exists, format!("schema {schema} exists"))
                .with_hint("choose another name, or say IF NOT EXISTS")),
        };
    }
    if schema.contains('.') {
        return Err(Error::invalid(format!("the name of schema {schema} has a point"))
            .with_hint("choose a name without a point"));
    }
    transaction.create_view(&format!("{SCHEMA}{schema}"), &format!("CREATE SCHEMA \"{schema}\""))?;
    Ok(Outcome::Done { verb: "CREATE SCHEMA" })
}

fn is_reserved(schema: &str) -> bool {
    schema.starts_with(PG_TEMP)
}

/// `DROP SCHEMA [IF EXISTS] schema [CASCADE]`: with CASCADE also the tables, views, sequences and types within.
pub(crate) fn drop_schema(
    transaction: &mut WriteTransaction,
    schema: &str,
    if_exists: bool,
    cascade: bool,
) -> Result<()> {
    let base = transaction.snapshot();
    if is_reserved(schema) || !has_schema(&base, schema) {
        return if if_exists { Ok(()) } else { Err(missing("schema", schema, &base, SCHEMA)) };
    }
    let within = |name: &str| name.split_once('.').is_some_and(|(own, _)| own == schema);
    let tables: Vec<String> = base.tables().map(|table| table.name.clone()).filter(|name| within(name)).collect();
    let views: Vec<String> = views(&base).map(|(name, _)| name.clone()).filter(|name| within(name)).collect();
    let sequences = crate::sequences::names(&base).filter(|name| within(name));
    let sequences: Vec<String> = sequences.map(str::to_owned).collect();
    let types: Vec<String> = types(&base).map(|(name, _)| name.to_owned()).filter(|name| within(name)).collect();
    let first = tables.first().or(views.first()).or(sequences.first()).or(types.first());
    if let Some(first) = first.filter(|_| !cascade) {
        return Err(Error::invalid(format!("schema {schema} is not empty: it has {first}"))
            .with_hint(format!("DROP SCHEMA {schema} CASCADE drops what is in it")));
    }
    forget_all(transaction, &within)?;
    tables.iter().try_for_each(|table| transaction.drop_table(table))?;
    views.iter().try_for_each(|view| transaction.drop_view(view))?;
    sequences.iter().try_for_each(|name| crate::sequences::drop(transaction, name))?;
    types.iter().try_for_each(|name| drop_type(transaction, name, false))?;
    transaction.drop_view(&format!("{SCHEMA}{schema}"))?;
    Ok(())
}

/// Refuses a new table or view in a schema that does not exist.
pub(crate) fn check_schema(snapshot: &Snapshot, schema: Option<&str>) -> Result<()> {
    match schema.filter(|schema| !has_schema(snapshot, schema)) {
        Some(schema) => {
            Err(missing("schema", schema, snapshot, SCHEMA).with_hint(format!("CREATE SCHEMA {schema} first")))
        }
        None => Ok(()),
    }
}

/// `CREATE [OR REPLACE] MACRO name(parameters) AS text`.
pub(crate) fn create_macro(
    transaction: &mut WriteTransaction,
    name: &str,
    parameters: &str,
    text: &str,
    or_replace: bool,
) -> Result<Outcome> {
    let entry = format!("{MACRO}{name}");
    let text = format!("CREATE MACRO {}({parameters}) AS {text}", quote(name));
    if !or_replace && transaction.snapshot().views().contains_key(&entry) {
        return Err(Error::new(ErrorKind::Exists, format!("macro {name} exists"))
            .with_hint("choose another name, or say OR REPLACE"));
    }
    set_entry(transaction, &entry, Some(&text))?;
    Ok(Outcome::Done { verb: "CREATE MACRO" })
}

/// `DROP MACRO [IF EXISTS] name`.
pub(crate) fn drop_macro(transaction: &mut WriteTransaction, name: &str, if_exists: bool) -> Result<Outcome> {
    let entry = format!("{MACRO}{name}");
    match transaction.snapshot().views().contains_key(&entry) {
        true => transaction.drop_view(&entry)?,
        false if if_exists => {}
        false => return Err(missing("macro", name, &transaction.snapshot(), MACRO)),
    }
    Ok(Outcome::Done { verb: "DROP MACRO" })
}

/// Whether CREATE TYPE has named a type.
pub(crate) fn has_types(snapshot: &Snapshot) -> bool {
    snapshot.views().keys().any(|name| name.starts_with(TYPE))
}

/// What the type of a name is.
pub(crate) fn type_text(snapshot: &Snapshot, name: &str) -> Option<String> {
    snapshot.views().get(&format!("{TYPE}{name}")).cloned()
}

/// `CREATE [OR REPLACE] TYPE [IF NOT EXISTS] name AS text`.
pub(crate) fn create_type(
    transaction: &mut WriteTransaction,
    name: &str,
    text: &str,
    (or_replace, if_not_exists): (bool, bool),
) -> Result<Outcome> {
    let entry = format!("{TYPE}{name}");
    if !or_replace && transaction.snapshot().views().contains_key(&entry) {
        return match if_not_exists {
            true => Ok(Outcome::Done { verb: "CREATE TYPE" }),
            false => Err(Error::new(ErrorKind::Exists, format!("type {name} exists"))
                .with_hint("choose another name, or say OR REPLACE")),
        };
    }
    set_entry(transaction, &entry, Some(text))?;
    Ok(Outcome::Done { verb: "CREATE TYPE" })
}

/// `DROP TYPE [IF EXISTS] name`. Columns of the type keep it.
pub(crate) fn drop_type(transaction: &mut WriteTransaction, name: &str, if_exists: bool) -> Result<()> {
    let entry = format!("{TYPE}{name}");
    match transaction.snapshot().views().contains_key(&entry) {
        true => Ok(transaction.drop_view(&entry)?),
        false if if_exists => Ok(()),
        false => Err(missing("type", name, &transaction.snapshot(), TYPE)),
    }
}

/// The indexes that CREATE INDEX has named, and whose tables still have them.
pub(crate) fn indexes(snapshot: &Snapshot) -> impl Iterator<Item = (String, IndexEntry)> {
    snapshot.views().iter().filter_map(|(name, text)| {
        let (name, entry) = (name.strip_prefix(INDEX)?, index_entry(text)?);
        let table = snapshot.table(&entry.table)?;
        table.design.index.contains(&entry.columns).then(|| (name.to_owned(), entry))
    })
}

/// The index of this name.
pub(crate) fn index(snapshot: &Snapshot, name: &str) -> Option<IndexEntry> {
    indexes(snapshot).find(|(known, _)| known == name).map(|(_, entry)| entry)
}

/// The table and columns in the text of an entry.
fn index_entry(text: &str) -> Option<IndexEntry> {
    let names = quoted_names(text);
    let (_, rest) = names.split_first()?;
    let (table, columns) = rest.split_first()?;
    Some(IndexEntry { table: table.clone(), columns: columns.to_vec() })
}

/// The names in quotes.
fn quoted_names(text: &str) -> Vec<String> {
    let (mut names, mut current) = (vec![], None::<String>);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match (&mut current, character) {
            (None, '"') => current = Some(String::new()),
            (Some(name), '"') if characters.next_if_eq(&'"').is_some() => name.push('"'),
            (Some(_), '"') => names.extend(current.take()),
            (Some(name), other) => name.push(other),
            (None, _) => {}
        }
    }
    names
}

/// Keeps the name of an index.
pub(crate) fn create_index(transaction: &mut WriteTransaction, name: &str, entry: &IndexEntry) -> Result<()> {
    let columns: Vec<String> = entry.columns.iter().map(|column| quote(column)).collect();
    let text = format!("CREATE INDEX {} ON {} ({})", quote(name), quote(&entry.table), columns.join(", "));
    // An index that went with its table or its design may have left this name.
    set_entry(transaction, &format!("{INDEX}{name}"), Some(&text))
}

/// Removes the name of an index, if it is kept.
pub(crate) fn drop_index(transaction: &mut WriteTransaction, name: &str) -> Result<()> {
    set_entry(transaction, &format!("{INDEX}{name}"), None)
}

/// Changes the names of indexes of a table, before the table or one of its columns gets a new name.
pub(crate) fn rename_in_indexes(
    transaction: &mut WriteTransaction,
    table: &str,
    rename: impl Fn(&mut IndexEntry),
) -> Result<()> {
    let snapshot = transaction.snapshot();
    for (name, mut entry) in indexes(&snapshot).filter(|(_, entry)| entry.table == table) {
        rename(&mut entry);
        create_index(transaction, &name, &entry)?;
    }
    Ok(())
}

/// Removes what is kept of a table or view, before it is dropped: the names of its indexes, its generated columns, and its
/// comments.
pub(crate) fn forget(transaction: &mut WriteTransaction, object: &str) -> Result<()> {
    forget_all(transaction, &|name| name == object)
}

/// The same of all tables and views whose names are such.
pub(crate) fn forget_all(transaction: &mut WriteTransaction, is_one: &dyn Fn(&str) -> bool) -> Result<()> {
    let is_of = |(entry, text): (&String, &String)| match entry.strip_prefix(INDEX) {
        Some(_) => index_entry(text).is_some_and(|index| is_one(&index.table)),
        None => [GENERATED, COMMENT].iter().any(|kind| entry.strip_prefix(kind).is_some_and(is_one)),
    };
    let snapshot = transaction.snapshot();
    let entries: Vec<&String> = snapshot.views().iter().filter(|entry| is_of(*entry)).map(|(name, _)| name).collect();
    entries.into_iter().try_for_each(|entry| Ok(transaction.drop_view(entry)?))
}

/// The generated columns of a table, if it has any.
pub(crate) fn generated(snapshot: &Snapshot, table: &str) -> Option<Vec<GeneratedColumn>> {
    let text = generated_text(snapshot, table)?;
    serde_json::from_str(text).ok()
}

/// The same as text, which changes with them.
pub(crate) fn generated_text<'s>(snapshot: &'s Snapshot, table: &str) -> Option<&'s String> {
    snapshot.views().get(&format!("{GENERATED}{table}"))
}

/// Keeps the generated columns of a table instead of those that it had.
pub(crate) fn set_generated(
    transaction: &mut WriteTransaction,
    table: &str,
    columns: &[GeneratedColumn],
) -> Result<()> {
    let text = (!columns.is_empty()).then(|| json("generated columns", &columns)).transpose()?;
    set_entry(transaction, &format!("{GENERATED}{table}"), text.as_deref())
}

/// The names of all columns of a table in order: with the positions of stored columns, and with generated ones.
pub(crate) fn all_columns(
    stored: usize,
    generated: &[GeneratedColumn],
) -> impl Iterator<Item = std::result::Result<usize, &GeneratedColumn>> {
    let mut next = 0;
    (0..stored + generated.len()).map(move |at| match generated.iter().find(|column| column.at == at) {
        Some(column) => Err(column),
        None => {
            next += 1;
            Ok(next - 1)
        }
    })
}

/// The comments of a table or view.
pub(crate) fn comments(snapshot: &Snapshot, object: &str) -> Comments {
    let text = snapshot.views().get(&format!("{COMMENT}{object}"));
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// Keeps the comments of a table or view instead of those that it had.
pub(crate) fn set_comments(transaction: &mut WriteTransaction, object: &str, comments: &Comments) -> Result<()> {
    let text = (*comments != Comments::default()).then(|| json("comments", comments)).transpose()?;
    set_entry(transaction, &format!("{COMMENT}{object}"), text.as_deref())
}

/// Keeps the text of an entry instead of that which it had; without a text, the entry is removed.
fn set_entry(transaction: &mut WriteTransaction, entry: &str, text: Option<&str>) -> Result<()> {
    if transaction.snapshot().views().contains_key(entry) {
        transaction.drop_view(entry)?;
    }
    match text {
        Some(text) => Ok(transaction.create_view(entry, text)?),
        None => Ok(()),
    }
}

fn json(what: &str, value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Error::new(ErrorKind::Internal, format!("internal error: {what}: {error}")))
}
