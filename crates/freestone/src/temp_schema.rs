//! Temporary tables, views and sequences. They are kept among those of the database, in a schema of their session, whose
//! names no other session resolves or lists. SQL calls this schema `pg_temp`. Its name in the catalog is random, because
//! sessions of other processes read the same catalog, and what a killed process has left: none can have the same schema.
//!
//! So each statement and each transaction treats them as it treats all other tables. They end with their session. What a
//! killed process leaves is dropped by the next process that writes.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use freestone_store::{Definition, Snapshot, Store, StoreError, Table, WriteTransaction};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::internal_names::{PG_TEMP, TEMP_PREFIX, is_temp_schema, is_temporary};
use crate::sql::names::{is_ours, name_in};
use crate::sql::temp_names::TempNames;
use crate::{definitions, sequences};

/// Dropping is repeated if other commits are in its way.
const ATTEMPTS: usize = 3;

/// The temporary schema of a session.
#[derive(Debug, Clone)]
pub(crate) struct TempSchema {
    name: Arc<str>,
    is_used: Arc<AtomicBool>,
}

/// What becomes of a temporary table when a transaction commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnCommit {
    Drop,
    DeleteRows,
}

impl TempSchema {
    /// The schema of a new session.
    pub fn new() -> TempSchema {
        let name = format!("{TEMP_PREFIX}{}", Uuid::new_v4().simple());
        TempSchema { name: name.into(), is_used: Arc::default() }
    }

    /// Its name in the catalog.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it may have tables, views or sequences.
    pub fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    pub fn use_it(&self) {
        self.is_used.store(true, Ordering::Relaxed);
    }

    /// Whether a name of the catalog is one of this schema.
    pub fn has(&self, name: &str) -> bool {
        name.split_once('.').is_some_and(|(schema, _)| schema == &*self.name)
    }

    /// Whether the session may see a table, view or sequence.
    pub fn sees(&self, name: &str) -> bool {
        !is_temporary(name) || self.has(name)
    }

    /// The tables that the session may see.
    pub fn tables<'s>(&'s self, snapshot: &'s Snapshot) -> impl Iterator<Item = &'s Arc<Table>> {
        snapshot.tables().filter(|table| self.sees(&table.name))
    }

    /// The views that the session may see.
    pub fn views<'s>(&'s self, snapshot: &'s Snapshot) -> impl Iterator<Item = (&'s String, &'s str)> {
        definitions::views(snapshot).filter(|(name, _)| self.sees(name))
    }

    /// The name in the catalog of a temporary table, view or sequence; `None` if there is none of this name.
    pub fn find(&self, snapshot: &Snapshot, name: &str) -> Option<String> {
        if !self.is_used() {
            return None;
        }
        let full = name_in(&self.name, name);
        sequences::is_taken(snapshot, &full).then_some(full)
    }

    /// The name in the catalog for a name in a text: temporary tables come before others.
    pub fn resolved(&self, snapshot: &Snapshot, name: &str) -> String {
        match name.split_once('.') {
            Some((PG_TEMP, own)) => name_in(&self.name, own),
            Some((schema, own)) if is_ours(schema) => own.to_owned(),
            // The schema of another session has no table for this one.
            Some((schema, own)) if is_temp_schema(schema) && schema != &*self.name => name_in(PG_TEMP, own),
            Some(_) => name.to_owned(),
            None => self.find(snapshot, name).unwrap_or_else(|| name.to_owned()),
        }
    }

    /// An error that names the schema as SQL does.
    pub fn in_words_of_sql(&self, error: Error) -> Error {
        match self.is_used() {
            true => error.replacing(&format!("{}.", self.name), &format!("{PG_TEMP}.")),
            false => error,
        }
    }

    /// Notes what becomes of a table at the end of each transaction.
    pub fn note_on_commit(&self, transaction: &mut WriteTransaction, table: &str, then: OnCommit) -> Result<()> {
        let id = transaction.table(table)?.id;
        transaction.create_owned(id, "", Definition::OnCommit { drops: then == OnCommit::Drop })?;
        Ok(())
    }

    /// Works with what is known of names of temporary tables in SQL.
    pub fn with_names<T>(&self, snapshot: &Snapshot, names_public: bool, work: impl FnOnce(&TempNames) -> T) -> T {
        let (has, has_schema) =
            (|name: &str| self.find(snapshot, name).is_some(), |name: &str| definitions::has_schema(snapshot, name));
        work(&TempNames {
            schema: &self.name,
            schema_in_sql: PG_TEMP,
            is_temporary: &is_temp_schema,
            has: &has,
            has_schema: &has_schema,
            names_public,
        })
    }

    /// Drops all that the session has.
    ///
    /// # Errors
    /// The database cannot be written. What remains is dropped by the next process that writes.
    pub fn drop_all(&self, store: &Store) -> Result<()> {
        if !self.is_used() {
            return Ok(());
        }
        drop_schemas(store, &|schema| schema == &*self.name)
    }
}

/// Drops what sessions of processes that were killed have left. No session of this process may have temporary tables.
///
/// # Errors
/// Another process writes, or the database cannot be written.
pub(crate) fn drop_leftovers(store: &Store) -> Result<()> {
    if !store.is_shared() {
        return drop_schemas(store, &is_temp_schema);
    }
    // Others write at the same time, and have temporary tables of their own.
    let mut left = HashSet::new();
    let snapshot = store.snapshot()?;
    for table in snapshot.tables() {
        if let Some((schema, _)) = table.name.split_once('.').filter(|(schema, _)| is_temp_schema(schema))
            && store.is_left_behind(table.id)?
        {
            left.insert(schema.to_owned());
        }
    }
    if left.is_empty() { Ok(()) } else { drop_schemas(store, &|schema| left.contains(schema)) }
}

fn drop_schemas(store: &Store, is_one: &dyn Fn(&str) -> bool) -> Result<()> {
    let is_within = |name: &str| name.split_once('.').is_some_and(|(schema, _)| is_one(schema));
    for attempt in 1.. {
        let snapshot = store.snapshot()?;
        let has_any = snapshot.tables().any(|table| is_within(&table.name))
            || snapshot.all_objects().any(|object| is_within(&object.name));
        if !has_any {
            return Ok(());
        }
        let mut transaction = store.write()?;
        // If this is lost, it is done again.
        transaction.set_syncs(false);
        let base = transaction.snapshot();
        let tables = base.tables().map(|table| &table.name).filter(|name| is_within(name));
        tables.into_iter().try_for_each(|table| transaction.drop_table(table))?;
        // What belonged to the tables went with them.
        let base = transaction.snapshot();
        let objects = base.all_objects().filter(|object| is_within(&object.name));
        objects.into_iter().try_for_each(|object| transaction.drop_object(object.id))?;
        match transaction.commit() {
            Err(StoreError::Conflict(_)) if attempt < ATTEMPTS => {}
            Err(error) => return Err(Error::from(error)),
            Ok(_) => return Ok(()),
        }
    }
    Ok(())
}
