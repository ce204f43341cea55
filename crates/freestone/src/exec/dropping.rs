//! What goes with objects that are dropped. What depends on something keeps it, unless CASCADE is said: then it is dropped as
//! well, but a table never is. Of a table that stays, CASCADE takes the DEFAULT or the FOREIGN KEY. A CHECK or a generated
//! column that names what is dropped would fail for each row, so it is in the way of CASCADE, too.

use std::collections::BTreeSet;
use std::sync::Arc;

use freestone_store::schema::ForeignKey;
use freestone_store::{Object, ObjectKind as Kind, Snapshot, Table, User, WriteTransaction};

use crate::dependencies::{self, Part};
use crate::error::{Error, Result};
use crate::internal_names::shown;
use crate::sequences;
use crate::temp_schema::TempSchema;

/// What is dropped together.
pub(super) struct Dropping<'s> {
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
    pub fn of(snapshot: &'s Snapshot, temp: &TempSchema, named: Vec<u64>, cascade: bool) -> Result<Dropping<'s>> {
        Dropping::together_with(None, snapshot, temp, named, cascade)
    }

    /// The same if something else goes as well, of whose users nothing is asked.
    fn together_with(
        gone: Option<u64>,
        snapshot: &'s Snapshot,
        temp: &TempSchema,
        named: Vec<u64>,
        cascade: bool,
    ) -> Result<Dropping<'s>> {
        let found = Dropping::found(gone, snapshot, temp, &named, cascade);
        match found {
            // Where CASCADE would be refused as well, its error says why, so that no hint speaks of it in vain.
            Err(error) if !cascade => Err(Dropping::found(gone, snapshot, temp, &named, true).err().unwrap_or(error)),
            found => found,
        }
    }

    fn found(
        gone: Option<u64>,
        snapshot: &'s Snapshot,
        temp: &TempSchema,
        named: &[u64],
        cascade: bool,
    ) -> Result<Dropping<'s>> {
        let (owned, left, referring) = (BTreeSet::new(), vec![], vec![]);
        let mut dropping = Dropping { snapshot, ids: gone.into_iter().collect(), owned, left, referring };
        let mut next = dropping.ids.len();
        named.iter().for_each(|id| dropping.add(*id));
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
        match user {
            // It is looked up in each call.
            User::Object(object) if object.kind() == Kind::Macro => Ok(()),
            User::Object(object) if object.owner.is_some_and(|owner| self.ids.contains(&owner)) => Ok(()),
            User::Object(object) if cascade => {
                // A materialized view goes as its table.
                let materialized = object.materialized().and(object.owner);
                self.add(materialized.unwrap_or(object.id));
                Ok(())
            }
            User::Object(object) => Err(self.used_by(used, object)),
            User::Table(table) => self.meet_table(used, table, cascade),
        }
    }

    fn meet_table(&mut self, used: u64, table: &Arc<Table>, cascade: bool) -> Result<()> {
        let kind = self.snapshot.object_by_id(used).map(|object| object.kind());
        if !matches!(kind, Some(Kind::Type | Kind::Sequence)) {
            return Err(self.used_somewhere(used, table));
        }
        let parts = dependencies::parts_naming(self.snapshot, table, used)?;
        if let Some(part) = parts.iter().find(|part| !matches!(part, Part::Default(_))) {
            return Err(self.named_in(used, table, *part));
        }
        if cascade {
            self.left.push((table.clone(), used));
            return Ok(());
        }
        match parts.first() {
            Some(part) => Err(self.named_in(used, table, *part)),
            None if kind == Some(Kind::Type) => Err(self.is_type_of(used, table)),
            // What was recorded is not in the table any more.
            None => Ok(()),
        }
    }

    /// The kind of something that is dropped, and its name.
    fn kind_and_name(&self, used: u64) -> (&'static str, String) {
        if self.snapshot.materialized(used).is_some() {
            let name = self.snapshot.table_by_id(used).map_or("", |table| &table.name);
            return (Kind::MaterializedView.word(), shown(name));
        }
        let kind = self.snapshot.object_by_id(used).map_or("table", |object| object.kind().word());
        let name = self.snapshot.described(used);
        (kind, shown(name.strip_prefix(kind).unwrap_or(&name).trim_start()))
    }

    fn refused(&self, used: u64, reason: &str, hint: impl Into<String>) -> Error {
        let (kind, name) = self.kind_and_name(used);
        Error::invalid(format!("{kind} {name} cannot be dropped: {reason}")).with_hint(hint)
    }

    fn cascade(&self, used: u64) -> String {
        let (kind, name) = self.kind_and_name(used);
        format!("DROP {} {name} CASCADE", kind.to_uppercase())
    }

    fn used_by(&self, used: u64, user: &Object) -> Error {
        let kind = self.snapshot.object_by_id(used).map(|object| object.kind());
        let reads = matches!(kind, None | Some(Kind::View));
        let verb = if reads { "reads" } else { "uses" };
        let name = shown(dependencies::name_of_view(self.snapshot, user));
        let reason = format!("{} {name} {verb} it", user.kind().word());
        self.refused(used, &reason, format!("{} drops it as well", self.cascade(used)))
    }

    /// A part of a table names what is dropped.
    fn named_in(&self, used: u64, table: &Table, part: Part<'_>) -> Error {
        let is_sequence = self.snapshot.object_by_id(used).is_some_and(|object| object.kind() == Kind::Sequence);
        let name = shown(&table.name);
        match part {
            Part::Default(at) => {
                let column = table.schema.columns.get(at).map_or("", |column| &column.name);
                let verb = if is_sequence { "takes numbers from" } else { "names" };
                let reason = format!("the DEFAULT of column {column} of table {name} {verb} it");
                self.refused(used, &reason, format!("{} drops the DEFAULT as well", self.cascade(used)))
            }
            Part::Check(check) => {
                let reason = format!("CHECK {check} of table {name} names it");
                self.refused(used, &reason, format!("ALTER TABLE {name} DROP CONSTRAINT {check} first"))
            }
            Part::Generated(column) => {
                let reason = format!("generated column {column} of table {name} names it");
                self.refused(used, &reason, format!("ALTER TABLE {name} DROP COLUMN {column} first"))
            }
        }
    }

    fn is_type_of(&self, used: u64, table: &Table) -> Error {
        let reason = format!("table {} has a column of it", shown(&table.name));
        let hint = format!("{} drops the name alone: the column keeps its type", self.cascade(used));
        self.refused(used, &reason, hint)
    }

    fn used_somewhere(&self, used: u64, table: &Table) -> Error {
        let name = shown(&table.name);
        self.refused(used, &format!("table {name} uses it"), format!("change or drop table {name} first"))
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
    pub fn perform(self, transaction: &mut WriteTransaction) -> Result<()> {
        for (table, dropped) in self.referring.iter().filter(|(table, _)| !self.ids.contains(&table.id)) {
            transaction.change_schema(&table.name, |schema| schema.foreign_keys.retain(|key| key.table != *dropped))?;
        }
        for (table, used) in self.left.iter().filter(|(table, _)| !self.ids.contains(&table.id)) {
            leave(transaction, &table.name, *used)?;
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
}

/// Takes the defaults from a table that name an object that is dropped, and what is recorded of it.
fn leave(transaction: &mut WriteTransaction, name: &str, used: u64) -> Result<()> {
    let (table, snapshot) = (transaction.table(name)?, transaction.snapshot());
    for part in dependencies::parts_naming(&snapshot, &table, used)? {
        if let Part::Default(at) = part {
            transaction.change_schema(name, |schema| schema.set_default(at, None))?;
        }
    }
    let table = transaction.table(name)?;
    let mut uses = dependencies::of_table(&snapshot, &table)?;
    // The columns are of the types of which they were.
    let is_type = |id: &&u64| snapshot.object_by_id(**id).is_some_and(|object| object.kind() == Kind::Type);
    uses.extend(table.uses.iter().filter(is_type));
    uses.remove(&used);
    Ok(transaction.set_uses(name, uses)?)
}

/// Whether the session sees what depends on something. What is temporary in another session is left as it is.
fn sees(temp: &TempSchema, user: &User<'_>) -> bool {
    match user {
        User::Object(object) => temp.sees(&object.name),
        User::Table(table) => temp.sees(&table.name),
    }
}

/// Drops the sequence of a column, which does not use it any more.
///
/// # Errors
/// Something else depends on it.
pub(super) fn drop_sequence(transaction: &mut WriteTransaction, temp: &TempSchema, name: &str) -> Result<()> {
    let snapshot = transaction.snapshot();
    match sequences::find(&snapshot, name) {
        Some(sequence) => Dropping::of(&snapshot, temp, vec![sequence.id], false)?.perform(transaction),
        None => Ok(()),
    }
}

/// Lets what depends on a table that is replaced depend on the new one, and so with its sequences. `base` has the old table.
///
/// # Errors
/// Something depends on a sequence that the new table does not have.
pub(super) fn replace(
    transaction: &mut WriteTransaction,
    temp: &TempSchema,
    base: &Snapshot,
    (old, new): (u64, u64),
) -> Result<()> {
    let snapshot = transaction.snapshot();
    for sequence in base.owned(old, Kind::Sequence) {
        let same = snapshot.owned(new, Kind::Sequence).find(|own| own.name == sequence.name);
        match same {
            Some(same) => transaction.use_instead(sequence.id, same.id)?,
            None => drop(Dropping::together_with(Some(old), base, temp, vec![sequence.id], false)?),
        }
    }
    Ok(transaction.use_instead(old, new)?)
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
