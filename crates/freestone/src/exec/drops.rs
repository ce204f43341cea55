//! DROP, of all kinds.

use std::sync::Arc;

use freestone_sql::tree::{Drop, ObjectKind, ObjectName};
use freestone_store::{LockMode, Object, ObjectKind as Kind, Snapshot, WriteTransaction};

use crate::context::Outcome;
use crate::definitions::{self, missing};
use crate::error::{Error, Result};
use crate::exec::dropping::Dropping;
use crate::exec::write::WriteContext;
use crate::exec::{indexes, materialized};
use crate::sql::names::kept_name;

/// `DROP …`.
pub(crate) fn drop(transaction: &mut WriteTransaction, context: &WriteContext, drop: &Drop) -> Result<Outcome> {
    let kind = match drop.kind {
        ObjectKind::Index => return indexes::drop_all(transaction, context, drop.if_exists, &drop.names),
        ObjectKind::Schema => {
            drop.names.iter().try_for_each(|name| drop_schema(transaction, context, drop, name))?;
            return Ok(Outcome::Done { verb: "DROP SCHEMA" });
        }
        ObjectKind::Table => None,
        ObjectKind::View => Some(Kind::View),
        ObjectKind::MaterializedView => Some(Kind::MaterializedView),
        ObjectKind::Sequence => Some(Kind::Sequence),
        ObjectKind::Type => Some(Kind::Type),
        ObjectKind::Macro | ObjectKind::TableMacro => Some(Kind::Macro),
    };
    let names = lock_names(transaction, &drop.names)?;
    let snapshot = transaction.snapshot();
    let mut ids = vec![];
    for name in &names {
        match id_of(&snapshot, kind, name) {
            Ok(id) => ids.push(id),
            Err(_) if kind.is_none() && context.planner().rejects().drop_table(name) => {}
            Err(_) if drop.if_exists && !is_other_relation(&snapshot, kind, name) => {}
            Err(error) => return Err(error),
        }
    }
    let dropping = Dropping::of(&snapshot, context.planner().temp(), ids, drop.cascade)?;
    dropping.perform(transaction)?;
    Ok(Outcome::Done { verb: verb(kind) })
}

fn verb(kind: Option<Kind>) -> &'static str {
    match kind {
        None => "DROP TABLE",
        Some(Kind::View) => "DROP VIEW",
        Some(Kind::MaterializedView) => "DROP MATERIALIZED VIEW",
        Some(Kind::Sequence) => "DROP SEQUENCE",
        Some(Kind::Type) => "DROP TYPE",
        Some(_) => "DROP MACRO",
    }
}

/// Locks the names of what is to be dropped.
fn lock_names(transaction: &mut WriteTransaction, names: &[ObjectName]) -> Result<Vec<String>> {
    let names = names.iter().map(kept_name).collect::<Result<Vec<_>>>()?;
    for name in &names {
        transaction.lock_name(name)?;
        transaction.lock(name, LockMode::Exclusive)?;
    }
    Ok(names)
}

/// The id of a table, or of an object of a kind.
fn id_of(snapshot: &Snapshot, kind: Option<Kind>, name: &str) -> Result<u64> {
    let is_materialized = definitions::is_materialized(snapshot, name);
    let found = match kind {
        None | Some(Kind::MaterializedView) => {
            let is_of_kind = is_materialized == kind.is_some();
            snapshot.table(name).filter(|_| is_of_kind).map(|table| table.id)
        }
        Some(kind) => snapshot.object(kind, name).map(|object| object.id),
    };
    found.ok_or_else(|| match kind {
        None | Some(Kind::View) if is_materialized => {
            Error::invalid(format!("{name} is a materialized view")).with_hint(format!("DROP MATERIALIZED VIEW {name}"))
        }
        None | Some(Kind::MaterializedView) if snapshot.view(name).is_some() => {
            Error::invalid(format!("{name} is a view")).with_hint(format!("DROP VIEW {name}"))
        }
        Some(Kind::View | Kind::MaterializedView) if snapshot.table(name).is_some() => {
            Error::invalid(format!("{name} is a table")).with_hint(format!("DROP TABLE {name}"))
        }
        None => Error::not_found("table", name, snapshot.tables().map(|table| table.name.as_str())),
        Some(Kind::MaterializedView) => materialized::missing(snapshot, name),
        Some(kind) => missing(kind, name, snapshot),
    })
}

/// Whether a table is named where the statement says VIEW, or the other way round.
fn is_other_relation(snapshot: &Snapshot, kind: Option<Kind>, name: &str) -> bool {
    match kind {
        None => snapshot.view(name).is_some() || definitions::is_materialized(snapshot, name),
        Some(Kind::View) => snapshot.table(name).is_some(),
        Some(Kind::MaterializedView) => {
            snapshot.relation_id(name).is_some() && !definitions::is_materialized(snapshot, name)
        }
        Some(_) => false,
    }
}

/// `DROP SCHEMA [IF EXISTS] schema [CASCADE]`: with CASCADE also what is within, and what depends on that.
fn drop_schema(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    drop: &Drop,
    name: &ObjectName,
) -> Result<()> {
    transaction.lock_name(&kept_name(name)?)?;
    let schema = super::ddl::own_name(name);
    let snapshot = transaction.snapshot();
    let Some(found) = snapshot.object(Kind::Schema, schema).filter(|_| !definitions::is_reserved(schema)) else {
        return if drop.if_exists { Ok(()) } else { Err(missing(Kind::Schema, schema, &snapshot)) };
    };
    let within = |name: &str| definitions::is_within(name, schema);
    let tables = snapshot.tables().filter(|table| within(&table.name)).map(|table| (table.id, &table.name));
    let objects = snapshot.all_objects().filter(|object| within(&object.name));
    let (owned, free): (Vec<&Arc<Object>>, Vec<_>) = objects.partition(|object| object.owner.is_some());
    let all: Vec<(u64, &String)> = tables.chain(free.iter().map(|object| (object.id, &object.name))).collect();
    let first = all.first().map(|(_, name)| *name).or(owned.first().map(|object| &object.name));
    if let Some(first) = first.filter(|_| !drop.cascade) {
        return Err(Error::invalid(format!("schema {schema} is not empty: it has {first}"))
            .with_hint(format!("DROP SCHEMA {schema} CASCADE drops what is in it")));
    }
    let ids = all.into_iter().map(|(id, _)| id).collect();
    Dropping::of(&snapshot, context.planner().temp(), ids, drop.cascade)?.perform(transaction)?;
    Ok(transaction.drop_object(found.id)?)
}
