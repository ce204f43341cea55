//! Schemas, macros, types, the names of indexes, generated columns, and comments: the objects of the store's catalog as the
//! engine reads and changes them. What belongs to a table or view does so by its id, and goes with it.
//!
//! A table of a schema has the name `schema.table` in the catalog.

use std::collections::BTreeSet;
use std::sync::Arc;

use freestone_sql::tree::ObjectName;
pub(crate) use freestone_store::{Comments, GeneratedColumn};
use freestone_store::{Definition, MaterializedView, Object, ObjectKind as Kind, Snapshot, Table, WriteTransaction};

use crate::context::Outcome;
use crate::error::{Error, ErrorKind, Result};
use crate::internal_names::{PG_TEMP, is_temp_schema};
use crate::sql::names::kept_schema;

/// The value of a generated column in a query over the stored columns.
pub(crate) fn value_of(column: &GeneratedColumn) -> String {
    match &column.data_type {
        Some(data_type) => format!("CAST(({}) AS {data_type})", column.expression),
        None => format!("({})", column.expression),
    }
}

/// The table and the columns of an index with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    pub table: String,
    pub columns: Vec<String>,
}

/// The views, by name, with their queries.
pub(crate) fn views(snapshot: &Snapshot) -> impl Iterator<Item = (&String, &str)> {
    snapshot.objects(Kind::View).filter_map(|view| Some((&view.name, view.query()?)))
}

/// Whether a name is that of a materialized view.
pub(crate) fn is_materialized(snapshot: &Snapshot, name: &str) -> bool {
    snapshot.table(name).is_some_and(|table| snapshot.materialized(table.id).is_some())
}

/// The materialized views, each as its table and its query.
pub(crate) fn materialized_views(
    snapshot: &Snapshot,
) -> impl Iterator<Item = (&Arc<Table>, &Arc<Object>, &MaterializedView)> {
    snapshot.materialized_views().iter().filter_map(|id| {
        let (table, object) = (snapshot.table_by_id(*id)?, snapshot.materialized(*id)?);
        Some((table, object, object.materialized()?))
    })
}

/// The query of a view.
pub(crate) fn view_text<'s>(snapshot: &'s Snapshot, name: &str) -> Option<&'s str> {
    snapshot.view(name)?.query()
}

/// The schemas that were created.
pub(crate) fn schemas(snapshot: &Snapshot) -> impl Iterator<Item = &str> {
    names(snapshot, Kind::Schema)
}

/// The names of objects of a kind.
pub(crate) fn names(snapshot: &Snapshot, kind: Kind) -> impl Iterator<Item = &str> {
    snapshot.objects(kind).map(|object| object.name.as_str())
}

/// Whether a schema was created, or belongs to a session.
pub(crate) fn has_schema(snapshot: &Snapshot, schema: &str) -> bool {
    is_temp_schema(schema) || snapshot.object(Kind::Schema, schema).is_some()
}

/// The schema of a name and the name within it, if the schema was created.
pub(crate) fn schema_of<'a>(snapshot: &Snapshot, name: &'a str) -> Option<(&'a str, &'a str)> {
    name.split_once('.').filter(|(schema, _)| has_schema(snapshot, schema))
}

/// The macros and types, which each statement may use.
pub(crate) fn macros_and_types(snapshot: &Snapshot) -> impl Iterator<Item = &Arc<Object>> {
    snapshot.objects(Kind::Macro).chain(snapshot.objects(Kind::Type))
}

/// The types that CREATE TYPE has named, with what they stand for.
pub(crate) fn types(snapshot: &Snapshot) -> impl Iterator<Item = (&str, &str)> {
    snapshot.objects(Kind::Type).filter_map(|object| Some((object.name.as_str(), text_of_type(object)?)))
}

/// What the type of a name is.
pub(crate) fn text_of_type(object: &Object) -> Option<&str> {
    match &object.definition {
        Definition::Type { text } => Some(text),
        _ => None,
    }
}

/// Whether CREATE TYPE has named a type.
pub(crate) fn has_types(snapshot: &Snapshot) -> bool {
    types(snapshot).next().is_some()
}

/// The statement that makes a macro with a name in SQL.
pub(crate) fn create_statement_of_macro(name: &str, object: &Object) -> Option<String> {
    let Definition::Macro { parameters, body, is_query } = &object.definition else { return None };
    let table = if *is_query { "TABLE " } else { "" };
    Some(format!("CREATE MACRO {name}({}) AS {table}{body}", parameters.join(", ")))
}

/// The error of a name that no object of a kind has.
pub(crate) fn missing(kind: Kind, name: &str, snapshot: &Snapshot) -> Error {
    Error::not_found(kind.word(), name, names(snapshot, kind))
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
    if let Some(name) = named_like_one_in(&transaction.snapshot(), schema) {
        return Err(Error::invalid(format!("\"{name}\" is in no schema, and would seem to be in schema {schema}"))
            .with_hint(format!("choose another name for the schema, or rename \"{name}\" first")));
    }
    transaction.create_object(schema, BTreeSet::new(), Definition::Schema)?;
    Ok(Outcome::Done { verb: "CREATE SCHEMA" })
}

/// Whether the name of a schema is one of those of sessions.
pub(crate) fn is_reserved(schema: &str) -> bool {
    schema.starts_with(PG_TEMP)
}

/// Refuses the name of a new object in a schema that does not exist, and one that would mean something in another schema.
pub(crate) fn check_new(snapshot: &Snapshot, name: &ObjectName) -> Result<()> {
    match (kept_schema(name), name.parts.last()) {
        (Some(schema), _) if !has_schema(snapshot, schema) => {
            Err(missing(Kind::Schema, schema, snapshot).with_hint(format!("CREATE SCHEMA {schema} first")))
        }
        (None, Some(own)) => check_unambiguous(snapshot, &own.text),
        _ => Ok(()),
    }
}

/// Refuses a name without a schema that is kept as that of something in a schema is: it would go with the schema.
pub(crate) fn check_unambiguous(snapshot: &Snapshot, name: &str) -> Result<()> {
    match schema_of(snapshot, name) {
        Some((schema, _)) => {
            Err(Error::invalid(format!("the name \"{name}\" begins with that of schema {schema} and a point"))
                .with_hint(format!(
                    "choose another name, or put the object into schema {schema}, with the point outside of the quotes"
                )))
        }
        None => Ok(()),
    }
}

/// Something whose name begins with that of a schema and a point, and which is in no schema.
fn named_like_one_in(snapshot: &Snapshot, schema: &str) -> Option<String> {
    let tables = snapshot.tables().map(|table| &table.name);
    let mut all = tables.chain(snapshot.all_objects().map(|object| &object.name));
    all.find(|name| is_within(name, schema)).cloned()
}

/// Whether a name in the catalog begins with that of a schema.
pub(crate) fn is_within(name: &str, schema: &str) -> bool {
    name.split_once('.').is_some_and(|(own, _)| own == schema)
}

/// Creates an object that belongs to nothing, or makes one with its name this one: what depends on that goes on.
pub(crate) fn put(
    transaction: &mut WriteTransaction,
    name: &str,
    uses: BTreeSet<u64>,
    definition: Definition,
) -> Result<()> {
    let object = Object { id: 0, name: name.to_owned(), owner: None, uses, definition };
    let known = transaction.snapshot().object(object.kind(), name).map(|known| known.id);
    match known {
        Some(id) => transaction.change_object(id, |known| *known = Object { id, ..object })?,
        None => drop(transaction.create_object(name, object.uses, object.definition)?),
    }
    Ok(())
}

/// The indexes that CREATE INDEX has named, and whose tables still have them.
pub(crate) fn indexes(snapshot: &Snapshot) -> impl Iterator<Item = (&str, IndexEntry)> {
    snapshot.objects(Kind::Index).filter_map(|object| Some((object.name.as_str(), index_entry(snapshot, object)?)))
}

/// The index of this name.
pub(crate) fn index(snapshot: &Snapshot, name: &str) -> Option<IndexEntry> {
    index_entry(snapshot, snapshot.object(Kind::Index, name)?)
}

/// The indexes of a table that CREATE INDEX has named, with their columns.
pub(crate) fn indexes_of(snapshot: &Snapshot, table: &Table) -> Vec<(String, Vec<String>)> {
    let indexes = snapshot.owned(table.id, Kind::Index);
    let named = indexes.filter_map(|object| Some((object.name.clone(), columns_of_index(table, object)?)));
    let mut named: Vec<_> = named.collect();
    named.sort_unstable();
    named
}

fn index_entry(snapshot: &Snapshot, object: &Object) -> Option<IndexEntry> {
    let table = snapshot.table_by_id(object.owner?)?;
    Some(IndexEntry { table: table.name.clone(), columns: columns_of_index(table, object)? })
}

/// The columns of an index that the design of its table still has.
fn columns_of_index(table: &Table, object: &Object) -> Option<Vec<String>> {
    let Definition::Index { columns } = &object.definition else { return None };
    let schema = &table.schema;
    let name = |id: &u32| schema.position_of(*id).map(|at| schema.columns[at].name.clone());
    let columns = columns.iter().map(name).collect::<Option<Vec<_>>>()?;
    table.design.index.contains(&columns).then_some(columns)
}

/// Keeps the name of an index.
pub(crate) fn create_index(
    transaction: &mut WriteTransaction,
    name: &str,
    table: &Table,
    columns: &[String],
) -> Result<()> {
    // An index that went with a design may have left this name.
    drop_index(transaction, name)?;
    let id = |column: &String| Ok(table.schema.id(table.schema.index_of(column)?));
    let columns = columns.iter().map(id).collect::<Result<_>>()?;
    transaction.create_owned(table.id, name, Definition::Index { columns })?;
    Ok(())
}

/// Removes the name of an index, if it is kept.
pub(crate) fn drop_index(transaction: &mut WriteTransaction, name: &str) -> Result<()> {
    let known = transaction.snapshot().object(Kind::Index, name).map(|object| object.id);
    Ok(known.map_or(Ok(()), |id| transaction.drop_object(id))?)
}

/// What a table or view has of a kind, of which it has one at most.
fn only(snapshot: &Snapshot, owner: u64, kind: Kind) -> Option<&Arc<Object>> {
    snapshot.owned(owner, kind).next()
}

/// Keeps something of a table or view instead of what it had of the kind; without a definition, that is removed.
fn set_only(transaction: &mut WriteTransaction, owner: u64, kind: Kind, definition: Option<Definition>) -> Result<()> {
    let known = only(&transaction.snapshot(), owner, kind).map(|object| object.id);
    match (known, definition) {
        (Some(id), Some(definition)) => transaction.change_object(id, |object| object.definition = definition)?,
        (Some(id), None) => transaction.drop_object(id)?,
        (None, Some(definition)) => drop(transaction.create_owned(owner, "", definition)?),
        (None, None) => {}
    }
    Ok(())
}

/// The generated columns of a table.
pub(crate) fn generated<'s>(snapshot: &'s Snapshot, table: &str) -> &'s [GeneratedColumn] {
    snapshot.table(table).map_or(&[], |table| snapshot.generated_columns(table.id))
}

/// The same as an object, if the table has any.
pub(crate) fn generated_object<'s>(snapshot: &'s Snapshot, table: &str) -> Option<&'s Arc<Object>> {
    only(snapshot, snapshot.table(table)?.id, Kind::GeneratedColumns)
}

/// Keeps the generated columns of a table instead of those that it had.
pub(crate) fn set_generated(
    transaction: &mut WriteTransaction,
    table: &str,
    columns: Vec<GeneratedColumn>,
) -> Result<()> {
    let owner = transaction.table(table)?.id;
    let definition = (!columns.is_empty()).then_some(Definition::GeneratedColumns { columns });
    set_only(transaction, owner, Kind::GeneratedColumns, definition)
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
    let found = snapshot.relation_id(object).and_then(|id| only(snapshot, id, Kind::Comments));
    match found.map(|object| &object.definition) {
        Some(Definition::Comments(comments)) => comments.clone(),
        _ => Comments::default(),
    }
}

/// Keeps the comments of a table or view instead of those that it had.
pub(crate) fn set_comments(transaction: &mut WriteTransaction, object: &str, comments: Comments) -> Result<()> {
    let Some(owner) = transaction.snapshot().relation_id(object) else { return Ok(()) };
    let definition = (comments != Comments::default()).then_some(Definition::Comments(comments));
    set_only(transaction, owner, Kind::Comments, definition)
}

/// What becomes of a temporary table at the end of each transaction: whether it is dropped. `None` if it stays as it is.
pub(crate) fn on_commit(snapshot: &Snapshot, table: u64) -> Option<bool> {
    match only(snapshot, table, Kind::OnCommit)?.definition {
        Definition::OnCommit { drops } => Some(drops),
        _ => None,
    }
}
