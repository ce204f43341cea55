//! DROP, of all kinds. What depends on something keeps it, unless the statement says CASCADE: then it is dropped as well,
//! but a table never is. Of a table that would be left, CASCADE takes the DEFAULT or the FOREIGN KEY.

use std::collections::BTreeSet;
use std::sync::Arc;

use freestone_sql::tree::{Drop, ObjectKind, ObjectName};
use freestone_store::schema::{ForeignKey, TableSchema};
use freestone_store::{LockMode, Object, ObjectKind as Kind, Snapshot, Table, User, WriteTransaction};

use crate::context::Outcome;
use crate::definitions::{self, missing};
use crate::error::{Error, Result};
use crate::exec::indexes;
use crate::exec::write::WriteContext;
use crate::internal_names::shown;
use crate::sequences::{catalog_name, named_in};
use crate::sql::names::kept_name;
use crate::sql::trees;
use crate::temp_schema::TempSchema;

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
    let found = match kind {
        None => snapshot.table(name).map(|table| table.id),
        Some(kind) => snapshot.object(kind, name).map(|object| object.id),
    };
    found.ok_or_else(|| match kind {
        None if snapshot.view(name).is_some() => {
            Error::invalid(format!("{name} is a view")).with_hint(format!("DROP VIEW {name}"))
        }
        Some(Kind::View) if snapshot.table(name).is_some() => {
            Error::invalid(format!("{name} is a table")).with_hint(format!("DROP TABLE {name}"))
        }
        None => Error::not_found("table", name, snapshot.tables().map(|table| table.name.as_str())),
        Some(kind) => missing(kind, name, snapshot),
    })
}

/// Whether a table is named where the statement says VIEW, or the other way round.
fn is_other_relation(snapshot: &Snapshot, kind: Option<Kind>, name: &str) -> bool {
    match kind {
        None => snapshot.view(name).is_some(),
        Some(Kind::View) => snapshot.table(name).is_some(),
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
    let within = |name: &str| name.split_once('.').is_some_and(|(own, _)| own == schema);
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

/// What a statement drops.
struct Dropping<'s> {
    snapshot: &'s Snapshot,
    /// What is named, and what depends on it: each after what it uses.
    ids: Vec<u64>,
    /// The sequences that go with tables.
    owned: BTreeSet<u64>,
    /// Tables that stay, and what they no longer use.
    left: Vec<(Arc<Table>, u64)>,
    /// Tables that stay, and the tables to which they no longer refer.
    referring: Vec<(Arc<Table>, String)>,
}

impl<'s> Dropping<'s> {
    /// # Errors
    /// Something depends on what is named.
    fn of(snapshot: &'s Snapshot, temp: &TempSchema, named: Vec<u64>, cascade: bool) -> Result<Dropping<'s>> {
        let (owned, left, referring) = (BTreeSet::new(), vec![], vec![]);
        let mut dropping = Dropping { snapshot, ids: vec![], owned, left, referring };
        named.into_iter().for_each(|id| dropping.add(id));
        let mut next = 0;
        while let Some(id) = dropping.ids.get(next).copied() {
            next += 1;
            let mut used: Vec<u64> = snapshot.owned(id, Kind::Sequence).map(|sequence| sequence.id).collect();
            used.push(id);
            for id in used {
                for user in snapshot.users(&[id]).filter(|user| sees(temp, user)) {
                    dropping.meet(id, user, cascade)?;
                }
            }
            dropping.check_referring(id, cascade)?;
        }
        Ok(dropping)
    }

    fn add(&mut self, id: u64) {
        if !self.ids.contains(&id) {
            self.owned.extend(self.snapshot.owned(id, Kind::Sequence).map(|sequence| sequence.id));
            self.ids.push(id);
        }
    }

    /// Something that uses what is dropped.
    fn meet(&mut self, used: u64, user: User<'_>, cascade: bool) -> Result<()> {
        if self.ids.contains(&user.id()) {
            return Ok(());
        }
        let is_macro = self.snapshot.object_by_id(used).is_some_and(|object| object.kind() == Kind::Macro);
        match user {
            // It is looked up in each call.
            User::Object(object) if object.kind() == Kind::Macro => Ok(()),
            User::Object(object) if cascade => {
                self.add(object.id);
                Ok(())
            }
            User::Table(table) if cascade && !is_macro => {
                self.left.push((table.clone(), used));
                Ok(())
            }
            User::Object(_) | User::Table(_) => Err(self.refused(used, user)),
        }
    }

    fn refused(&self, used: u64, user: User<'_>) -> Error {
        let what = self.snapshot.object_by_id(used);
        let kind = what.map_or("table", |object| object.kind().word());
        let name = self.snapshot.described(used);
        let name = shown(name.strip_prefix(kind).unwrap_or(&name).trim_start());
        let by = |user: &str| shown(user);
        let cascade = format!("DROP {} {name} CASCADE", kind.to_uppercase());
        let (reason, hint) = match (user, what.map(|object| object.kind())) {
            (User::Object(view), None | Some(Kind::View)) => {
                (format!("view {} reads it", by(&view.name)), format!("{cascade} drops it as well"))
            }
            (User::Object(object), _) => (
                format!("{} {} uses it", object.kind().word(), by(&object.name)),
                format!("{cascade} drops it as well"),
            ),
            (User::Table(table), Some(Kind::Sequence)) => {
                let column = defaults_from(&table.schema, &self.snapshot.object_by_id(used).map_or("", |o| &o.name));
                let reason = match column.first() {
                    Some(at) => {
                        let column = &table.schema.columns[*at].name;
                        format!("the DEFAULT of column {column} of table {} takes numbers from it", by(&table.name))
                    }
                    None => format!("table {} uses it", by(&table.name)),
                };
                (reason, format!("{cascade} drops the DEFAULT as well"))
            }
            (User::Table(table), Some(Kind::Type)) => (
                format!("table {} has a column of it", by(&table.name)),
                format!("{cascade} drops the name alone: the column keeps its type"),
            ),
            (User::Table(table), _) => (
                format!("table {} uses it", by(&table.name)),
                format!("change or drop table {} first", by(&table.name)),
            ),
        };
        Error::invalid(format!("{kind} {name} cannot be dropped: {reason}")).with_hint(hint)
    }

    /// The foreign keys of other tables that refer to a dropped one.
    fn check_referring(&mut self, id: u64, cascade: bool) -> Result<()> {
        let Some(dropped) = self.snapshot.table_by_id(id) else { return Ok(()) };
        for table in self.snapshot.tables().filter(|table| !self.ids.contains(&table.id)) {
            let refers = |key: &&ForeignKey| key.enforced && key.table == dropped.name;
            let Some(key) = table.schema.foreign_keys.iter().find(refers) else { continue };
            if !cascade {
                return Err(referred_to(&table.name, key));
            }
            self.referring.push((table.clone(), dropped.name.clone()));
        }
        Ok(())
    }

    /// Drops what was found, each before what it uses.
    fn perform(self, transaction: &mut WriteTransaction) -> Result<()> {
        for (table, dropped) in self.referring.iter().filter(|(table, _)| !self.ids.contains(&table.id)) {
            transaction.change_schema(&table.name, |schema| schema.foreign_keys.retain(|key| key.table != *dropped))?;
        }
        for (table, used) in self.left.iter().filter(|(table, _)| !self.ids.contains(&table.id)) {
            self.leave(transaction, table, *used)?;
        }
        for id in self.ids.iter().rev().filter(|id| !self.owned.contains(id)) {
            match self.snapshot.table_by_id(*id) {
                Some(table) => transaction.drop_table(&table.name)?,
                None => {
                    let object = self.snapshot.object_by_id(*id);
                    if let Some(view) = object.filter(|object| object.kind() == Kind::View) {
                        transaction.lock_name(&view.name)?;
                    }
                    transaction.drop_object(*id)?;
                }
            }
        }
        Ok(())
    }

    /// Takes from a table what it has of an object that is dropped.
    fn leave(&self, transaction: &mut WriteTransaction, table: &Table, used: u64) -> Result<()> {
        let mut uses = transaction.table(&table.name)?.uses.clone();
        uses.remove(&used);
        if let Some(sequence) = self.snapshot.object_by_id(used).filter(|object| object.kind() == Kind::Sequence) {
            transaction.change_schema(&table.name, |schema| {
                for at in defaults_from(schema, &sequence.name) {
                    schema.set_default(at, None);
                }
            })?;
        }
        Ok(transaction.set_uses(&table.name, uses)?)
    }
}

/// Whether the session sees what depends on something. What is temporary in another session is left as it is.
fn sees(temp: &TempSchema, user: &User<'_>) -> bool {
    match user {
        User::Object(object) => temp.sees(&object.name),
        User::Table(table) => temp.sees(&table.name),
    }
}

/// The columns whose DEFAULT takes numbers from a sequence.
fn defaults_from(schema: &TableSchema, sequence: &str) -> Vec<usize> {
    let names = |sql: &str| {
        let named = trees::parsed(sql).map(|value| named_in(&value)).unwrap_or_default();
        named.iter().any(|name| catalog_name(name).is_ok_and(|name| name == sequence))
    };
    (0..schema.columns.len()).filter(|at| schema.default_of(*at).is_some_and(names)).collect()
}

/// Refuses to replace a table to which rows of another one refer.
pub(crate) fn check_unreferenced(base: &Snapshot, name: &str) -> Result<()> {
    let refers = |key: &&ForeignKey| key.enforced && key.table == name;
    let others = base.tables().filter(|table| table.name != name);
    match others.filter_map(|table| Some((table, table.schema.foreign_keys.iter().find(refers)?))).next() {
        Some((table, key)) => Err(referred_to(&table.name, key)),
        None => Ok(()),
    }
}

fn referred_to(table: &str, key: &ForeignKey) -> Error {
    let columns = key.columns.join(", ");
    Error::invalid(format!("FOREIGN KEY ({columns}) of table {table} depends on table {}", key.table))
        .with_hint(format!("drop table {table} as well, or say CASCADE, which drops the FOREIGN KEY"))
}
