//! Whether what a transaction has made or changed goes with what others have committed since its base.
//!
//! Dependencies are ids and names. The texts of views name tables and columns, foreign keys name both, and the names of
//! what is in a schema begin with its own. So what a transaction has made depends on what it names as the base had it,
//! and whoever drops or alters something must have seen all that depends on it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{ById, States, conflict};
use crate::error::Result;
use crate::schema::{Column, ForeignKey, TableSchema};
use crate::store::objects::{GeneratedColumn, Kind, Object};
use crate::store::state::{State, User};
use crate::table::Table;

/// Checks the changes of a transaction.
///
/// # Errors
/// [`StoreError::Conflict`](crate::error::StoreError::Conflict).
pub(super) fn check(states: &States<'_>) -> Result<()> {
    check_used(states)?;
    check_users(states)?;
    check_references(states)?;
    check_referring(states)?;
    check_schemas(states)?;
    check_dropped_schemas(states)
}

/// A state, in which tables are found by their ids.
#[derive(Clone, Copy)]
struct Side<'a> {
    state: &'a State,
    tables: &'a ById<'a>,
}

impl<'a> States<'a> {
    fn of_base(&'a self) -> Side<'a> {
        Side { state: self.all_base, tables: &self.base }
    }

    fn of_mine(&'a self) -> Side<'a> {
        Side { state: self.all_mine, tables: &self.mine }
    }

    fn of_now(&'a self) -> Side<'a> {
        Side { state: self.all_now, tables: &self.now }
    }

    /// Whether this transaction has changed objects that are no tables.
    fn changes_objects(&self) -> bool {
        !Arc::ptr_eq(&self.all_base.objects, &self.all_mine.objects)
    }
}

impl<'a> Side<'a> {
    fn has(self, id: u64) -> bool {
        self.tables.contains_key(&id) || self.state.objects.get(id).is_some()
    }

    /// The name of a table or object.
    fn name_of(self, id: u64) -> Option<&'a str> {
        match self.tables.get(&id) {
            Some(table) => Some(&table.name),
            None => self.state.objects.get(id).map(|object| object.name.as_str()),
        }
    }

    /// Whether another state has a table or object as something that depends on it knows it from this state. Of a
    /// table, it knows the name and the columns, of a view also the query, which gives its columns, of others the name.
    fn is_kept_in(self, other: Side<'_>, id: u64) -> bool {
        if let (Some(table), Some(kept)) = (self.tables.get(&id), other.tables.get(&id)) {
            return (Arc::ptr_eq(table, kept) || table.name == kept.name && has_columns(&kept.schema, &table.schema))
                && has_generated(other.state.objects.generated_columns(id), self.state.objects.generated_columns(id));
        }
        let (Some(object), Some(kept)) = (self.state.objects.get(id), other.state.objects.get(id)) else {
            return false;
        };
        Arc::ptr_eq(object, kept) || object.name == kept.name && object.query() == kept.query()
    }

    /// What has a name with a schema in it: the id, the schema and the name. `objects`: also what is no table.
    fn within_schemas(self, objects: bool) -> impl Iterator<Item = (u64, &'a str, &'a str)> {
        let tables = self.state.tables.values().map(|table| (table.id, table.name.as_str()));
        let others = self.state.objects.all().filter(move |_| objects).map(|object| (object.id, object.name.as_str()));
        tables.chain(others).filter_map(|(id, name)| Some((id, name.split_once('.')?.0, name)))
    }
}

/// Whether a table has all columns of an earlier one, with their types.
fn has_columns(schema: &TableSchema, earlier: &TableSchema) -> bool {
    let is_same = |a: &Column, b: &Column| a.name == b.name && a.data_type == b.data_type;
    let has = |column: &Column| schema.columns.iter().any(|other| is_same(other, column));
    schema.columns == earlier.columns || earlier.columns.iter().all(has)
}

fn has_generated(columns: &[GeneratedColumn], earlier: &[GeneratedColumn]) -> bool {
    let is_same = |a: &GeneratedColumn, b: &GeneratedColumn| {
        a.name == b.name && a.data_type == b.data_type && a.expression == b.expression
    };
    earlier.iter().all(|column| columns.iter().any(|other| is_same(other, column)))
}

/// Whether an object depends on the same as before.
fn is_same(object: &Arc<Object>, before: &Arc<Object>) -> bool {
    Arc::ptr_eq(object, before) || object.is_same_but_position(before)
}

/// Checks that what this transaction has made or changed depends on nothing that others have dropped or altered.
fn check_used(states: &States<'_>) -> Result<()> {
    let (base, mine, now) = (states.of_base(), states.of_mine(), states.of_now());
    let check = |id: u64, must_be_same: bool| {
        let what = || states.all_base.described(id);
        match base.has(id) && mine.has(id) {
            true if !now.has(id) => Err(conflict(format!("{} was dropped", what()))),
            true if must_be_same && !base.is_kept_in(now, id) => Err(conflict(format!("{} was altered", what()))),
            _ => Ok(()),
        }
    };
    let is_new = |object: &Object| !object.uses.is_empty() || object.owner.is_some();
    let objects = states.all_mine.objects.all().filter(|object| states.changes_objects() && is_new(object));
    for object in objects {
        let before = states.all_base.objects.get(object.id);
        if before.is_none_or(|before| !is_same(object, before)) {
            // If only what it depends on has changed, others may have changed the rest of that.
            let known = before.filter(|before| object.is_same_but_uses(before)).map(|before| &before.uses);
            let new = object.uses.iter().filter(|id| known.is_none_or(|known| !known.contains(id)));
            new.copied().try_for_each(|id| check(id, true))?;
            object.owner.map_or(Ok(()), |owner| check(owner, false))?;
        }
    }
    for table in states.all_mine.tables.values().filter(|table| !table.uses.is_empty()) {
        if states.base.get(&table.id).is_none_or(|before| before.uses != table.uses) {
            table.uses.iter().try_for_each(|id| check(*id, true))?;
        }
    }
    Ok(())
}

/// Checks that this transaction has seen all that depends on what it drops or alters.
fn check_users(states: &States<'_>) -> Result<()> {
    let altered = altered(states);
    if altered.is_empty() {
        return Ok(());
    }
    let known_uses = |table: &Table| states.base.get(&table.id).map(|before| &before.uses);
    let has_used = |known: &BTreeSet<u64>, uses: &BTreeSet<u64>| {
        altered.iter().filter(|id| uses.contains(id)).all(|id| known.contains(id))
    };
    let is_known = |user: &User<'_>| match user {
        User::Object(object) => states.all_base.objects.get(object.id).is_some_and(|before| {
            is_same(object, before) || object.is_same_but_uses(before) && has_used(&before.uses, &object.uses)
        }),
        User::Table(table) => known_uses(table).is_some_and(|known| has_used(known, &table.uses)),
    };
    match states.all_now.users(&altered).find(|user| !is_known(user)) {
        Some(user) => Err(is_new(states, user.id())),
        None => Ok(()),
    }
}

/// Others have made or changed something of which this transaction does not know.
fn is_new(states: &States<'_>, id: u64) -> crate::error::StoreError {
    conflict(format!("{} was created or changed", states.all_now.described(id)))
}

/// The ids of the tables and objects that this transaction drops, or alters so that what depends on them notices it.
fn altered(states: &States<'_>) -> Vec<u64> {
    let (base, mine, objects) = (states.of_base(), states.of_mine(), states.changes_objects());
    let may_differ =
        |table: &&Arc<Table>| objects || states.mine.get(&table.id).is_none_or(|mine| !Arc::ptr_eq(table, mine));
    let tables = states.all_base.tables.values().filter(may_differ).map(|table| table.id);
    let objects = states.all_base.objects.all().filter(|_| objects).map(|object| object.id);
    tables.chain(objects).filter(|id| !base.is_kept_in(mine, *id)).collect()
}

/// A foreign key that the base does not have.
struct NewKey<'a> {
    table: &'a Arc<Table>,
    key: &'a ForeignKey,
    /// The table to which it refers.
    to: &'a Arc<Table>,
}

/// The foreign keys of a state that the base does not have. One that follows new names of its table, of that to which
/// it refers, or of columns, is none.
fn new_keys<'a>(states: &'a States<'_>, state: &'a State) -> Vec<NewKey<'a>> {
    let mut found = vec![];
    for table in state.tables.values().filter(|table| !table.schema.foreign_keys.is_empty()) {
        let before = states.base.get(&table.id);
        if before.is_some_and(|before| before.schema.foreign_keys == table.schema.foreign_keys) {
            continue;
        }
        let known: Vec<_> = before.iter().flat_map(|before| identities(states.all_base, before)).collect();
        let keys = table.schema.foreign_keys.iter().zip(identities(state, table));
        let new = keys.filter(|(_, identity)| identity.is_some() && !known.contains(identity));
        let to = new.filter_map(|(key, _)| Some((key, state.tables.get(&key.table)?)));
        found.extend(to.map(|(key, to)| NewKey { table, key, to }));
    }
    found
}

/// What a foreign key is, by ids: the table to which it refers, the columns of both, and whether it is enforced.
type Identity = (u64, Vec<Option<u32>>, Vec<Option<u32>>, bool);

/// Those of the foreign keys of a table; `None` for one that refers to no table.
fn identities<'a>(state: &'a State, table: &'a Table) -> impl Iterator<Item = Option<Identity>> + 'a {
    let ids = |schema: &TableSchema, names: &[String]| {
        names.iter().map(|name| schema.index_of(name).ok().map(|at| schema.id(at))).collect()
    };
    table.schema.foreign_keys.iter().map(move |key| {
        let to = state.tables.get(&key.table)?;
        Some((to.id, ids(&table.schema, &key.columns), ids(&to.schema, &key.referenced), key.enforced))
    })
}

impl NewKey<'_> {
    /// Whether a table is in another state as a foreign key that refers to it needs it.
    fn finds(&self, before: &Table, other: &Table) -> bool {
        let (key, old, new) = (self.key, &before.schema, &other.schema);
        if before.name != other.name || old == new {
            // Another name is the end of it, and the same columns and keys are enough.
            return before.name == other.name;
        }
        let columns = if key.referenced.is_empty() { &old.primary_key } else { &key.referenced };
        let column = |schema: &TableSchema, name: &String| {
            schema.columns.iter().find(|column| column.name == *name).map(|column| column.data_type.clone())
        };
        columns.iter().all(|name| column(new, name).is_some_and(|found| Some(found) == column(old, name)))
            && (!key.enforced || new.enforced_key(&key.referenced).is_some())
            && (!key.referenced.is_empty() || old.primary_key == new.primary_key)
    }
}

/// Checks that the foreign keys that this transaction has made refer to what is still there.
fn check_references(states: &States<'_>) -> Result<()> {
    for new in new_keys(states, states.all_mine) {
        let Some(before) = states.base.get(&new.to.id) else { continue };
        let name = &before.name;
        let Some(now) = states.now.get(&new.to.id) else {
            return Err(conflict(format!("table {name} was dropped")));
        };
        if !new.finds(before, now) {
            return Err(conflict(format!("table {name} was altered")));
        }
        // Others did not know of the key when they removed rows, to which rows of this transaction may refer.
        if new.key.enforced && before.changed != now.changed && new.table.rows() > 0 {
            return Err(conflict(format!("a row of table {name} was changed")));
        }
    }
    Ok(())
}

/// Checks that this transaction has seen all foreign keys that refer to what it drops, alters or removes rows from.
fn check_referring(states: &States<'_>) -> Result<()> {
    for new in new_keys(states, states.all_now) {
        let goes = states.base.contains_key(&new.table.id) && !states.mine.contains_key(&new.table.id);
        let Some(before) = states.base.get(&new.to.id).filter(|_| !goes) else { continue };
        let is_right = |mine: &&Arc<Table>| {
            let keeps_rows = !new.key.enforced || before.changed == mine.changed;
            keeps_rows && new.finds(before, mine)
        };
        if !states.mine.get(&new.to.id).is_some_and(is_right) {
            return Err(is_new(states, new.table.id));
        }
    }
    Ok(())
}

/// Checks that the schemas are still there in which this transaction has made something. Some schemas are no objects,
/// and always there.
fn check_schemas(states: &States<'_>) -> Result<()> {
    let (base, mine) = (states.of_base(), states.of_mine());
    if states.all_base.objects.of_kind(Kind::Schema).next().is_none() {
        return Ok(());
    }
    for (id, schema, name) in mine.within_schemas(states.changes_objects()) {
        if base.name_of(id) == Some(name) {
            continue;
        }
        let schema = states.all_mine.objects.named(Kind::Schema, schema);
        let known = schema.and_then(|schema| states.all_base.objects.get(schema.id));
        let is_there =
            |known: &Object| states.all_now.objects.get(known.id).is_some_and(|schema| schema.name == known.name);
        if let Some(known) = known.filter(|known| !is_there(known)) {
            return Err(conflict(format!("schema {} was dropped", known.name)));
        }
    }
    Ok(())
}

/// Checks that this transaction has seen all that is in the schemas that it drops.
fn check_dropped_schemas(states: &States<'_>) -> Result<()> {
    if !states.changes_objects() {
        return Ok(());
    }
    let name_now = |schema: &Object| states.all_mine.objects.get(schema.id).map(|mine| mine.name.clone());
    let schemas = states.all_base.objects.of_kind(Kind::Schema);
    let gone = schemas.filter(|schema| name_now(schema).as_ref() != Some(&schema.name));
    let gone: BTreeSet<&str> = gone.map(|schema| schema.name.as_str()).collect();
    if gone.is_empty() {
        return Ok(());
    }
    let base = states.of_base();
    let mut within = states.of_now().within_schemas(true).filter(|(_, schema, _)| gone.contains(schema));
    match within.find(|(id, _, name)| base.name_of(*id) != Some(name)) {
        Some((id, _, _)) => Err(is_new(states, id)),
        None => Ok(()),
    }
}
