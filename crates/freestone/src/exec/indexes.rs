//! CREATE INDEX and DROP INDEX. A unique index is a UNIQUE constraint with its name. Another index is one of the ordered
//! indexes in the table's design; its name is kept among the definitions of the database.

use freestone_sql::tree::{CreateIndex, Name, ObjectName};
use freestone_store::schema::ConstraintKind;
use freestone_store::{LockMode, Snapshot, WriteTransaction};

use crate::context::Outcome;
use crate::definitions::{self, IndexEntry};
use crate::error::{Error, ErrorKind, Result};
use crate::exec::write::WriteContext;
use crate::exec::{alter, dml};
use crate::sql::names::{kept_name, name_in};

const CREATE: Outcome = Outcome::Done { verb: "CREATE INDEX" };
const DROP: Outcome = Outcome::Done { verb: "DROP INDEX" };

/// `CREATE [UNIQUE] INDEX [IF NOT EXISTS] [name] ON table (columns)`.
pub(crate) fn create(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    create: &CreateIndex,
) -> Result<Outcome> {
    let table = dml::find(transaction, &kept_name(&create.table)?, LockMode::Exclusive)?;
    check_method(create.method.as_ref())?;
    let columns = columns(&create.columns);
    columns.iter().try_for_each(|column| table.schema.index_of(column).map(drop))?;
    let snapshot = transaction.snapshot();
    let name = match &create.name {
        Some(name) => within_schema(&snapshot, &kept_name(name)?, &table.name),
        None => free_name(&snapshot, context, &format!("{}_{}_idx", table.name, columns.join("_"))),
    };
    if exists(&snapshot, context, &name) {
        return match create.if_not_exists {
            true => Ok(CREATE),
            false => Err(Error::new(ErrorKind::Exists, format!("index {name} exists"))
                .with_hint("choose another name, or say IF NOT EXISTS")),
        };
    }
    if create.unique {
        alter::add_unique(transaction, context, &table.name, &name, columns)?;
        return Ok(CREATE);
    }
    let mut design = table.design.clone();
    if !design.index.contains(&columns) {
        design.index.push(columns.clone());
        context.prepare_append(transaction, usize::try_from(table.rows()).ok())?;
        transaction.convert(&table.name, design)?;
    }
    definitions::create_index(transaction, &name, &table, &columns)?;
    Ok(CREATE)
}

/// `DROP INDEX [IF EXISTS] name, …`.
pub(crate) fn drop_all(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    if_exists: bool,
    names: &[ObjectName],
) -> Result<Outcome> {
    for name in names {
        let name = kept_name(name)?;
        let snapshot = transaction.snapshot();
        // An index of a temporary table is in the schema of the session.
        let of_session = name_in(context.planner().temp().name(), &name);
        let name = if definitions::index(&snapshot, &of_session).is_some() { of_session } else { name };
        if let Some(entry) = definitions::index(&snapshot, &name) {
            drop_ordered(transaction, context, &name, &entry)?;
        } else if let Some(table) = with_unique(&snapshot, context, &name) {
            alter::drop_constraint(transaction, context, &table, &name)?;
        } else if !if_exists {
            let sees = |name: &String| context.planner().temp().sees(name);
            let known: Vec<String> = names_of(&snapshot).filter(sees).collect();
            return Err(Error::not_found("index", &name, known.iter().map(String::as_str)));
        }
    }
    Ok(DROP)
}

/// Removes the name, and the key from the design unless another name stands for it.
fn drop_ordered(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    name: &str,
    entry: &IndexEntry,
) -> Result<()> {
    let table = dml::find(transaction, &entry.table, LockMode::Exclusive)?;
    let snapshot = transaction.snapshot();
    let named = definitions::indexes_of(&snapshot, &table);
    let is_shared = named.iter().any(|(other, columns)| other != name && *columns == entry.columns);
    if !is_shared && table.design.index.contains(&entry.columns) {
        let mut design = table.design.clone();
        design.index.retain(|key| *key != entry.columns);
        context.prepare_append(transaction, usize::try_from(table.rows()).ok())?;
        transaction.convert(&table.name, design)?;
    }
    definitions::drop_index(transaction, name)
}

/// All kinds of indexes are ordered ones.
fn check_method(method: Option<&Name>) -> Result<()> {
    const KNOWN: [&str; 4] = ["btree", "art", "hash", "brin"];
    match method.map(|method| method.text.to_lowercase()) {
        Some(other) if !KNOWN.contains(&other.as_str()) => {
            Err(Error::unsupported(format!("an index USING {other} is not available"))
                .with_hint("leave USING out: indexes are ordered"))
        }
        _ => Ok(()),
    }
}

/// The columns of an index. A column that is named again orders nothing.
fn columns(columns: &[Name]) -> Vec<String> {
    let mut names: Vec<String> = vec![];
    for column in columns {
        if !names.contains(&column.text) {
            names.push(column.text.clone());
        }
    }
    names
}

/// The name of an index in the schema of its table.
fn within_schema(snapshot: &Snapshot, name: &str, table: &str) -> String {
    match definitions::schema_of(snapshot, table) {
        Some((schema, _)) if !name.contains('.') => name_in(schema, name),
        _ => name.to_owned(),
    }
}

fn free_name(snapshot: &Snapshot, context: &WriteContext, usual: &str) -> String {
    let numbered = (1..).map(|number| format!("{usual}{number}"));
    let mut names = std::iter::once(usual.to_owned()).chain(numbered);
    names.find(|name| !exists(snapshot, context, name)).unwrap_or_default()
}

fn exists(snapshot: &Snapshot, context: &WriteContext, name: &str) -> bool {
    definitions::index(snapshot, name).is_some() || with_unique(snapshot, context, name).is_some()
}

/// The table that has a UNIQUE or PRIMARY KEY of this name, among those that the session sees.
fn with_unique(snapshot: &Snapshot, context: &WriteContext, name: &str) -> Option<String> {
    let has = |table: &&std::sync::Arc<freestone_store::Table>| {
        table.schema.constraints(&table.name).iter().any(|constraint| {
            let is_key = matches!(constraint.kind, ConstraintKind::Unique(_) | ConstraintKind::Primary(..));
            is_key && constraint.name == name
        })
    };
    context.planner().temp().tables(snapshot).find(has).map(|table| table.name.clone())
}

fn names_of(snapshot: &Snapshot) -> impl Iterator<Item = String> {
    definitions::indexes(snapshot).map(|(name, _)| name.to_owned())
}
