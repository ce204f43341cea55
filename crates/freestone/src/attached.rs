//! ATTACH and DETACH: other databases of Freestone, from which a session reads.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use freestone_store::{Snapshot, Store, StoreOptions};
use parking_lot::Mutex;

use crate::error::{Error, ErrorKind, Result};

/// The most databases that a session attaches. Each has a cache of its own.
const DATABASES_MAX: usize = 64;
/// The pages of one attached database that are kept.
const CACHE_BYTES: usize = 64 << 20;

/// The databases that a session has attached, by name.
#[derive(Clone, Default)]
pub(crate) struct Attached(Arc<BTreeMap<String, Arc<Store>>>);

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

impl Attached {
    /// Their names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Checks that one more database can have this name.
    ///
    /// # Errors
    /// The name is in use, or there are too many.
    pub fn check_free(&self, name: &str) -> Result<()> {
        if self.has(name) {
            return Err(Error::new(ErrorKind::Exists, format!("a database {name} is attached"))
                .with_hint(format!("DETACH {name} lets go of it")));
        }
        if self.0.len() >= DATABASES_MAX {
            let message = format!("a session attaches at most {DATABASES_MAX} databases");
            return Err(Error::invalid(message).with_hint("DETACH one of them"));
        }
        Ok(())
    }

    /// The same databases and one more.
    ///
    /// # Errors
    /// As for [`Attached::check_free`].
    pub fn with(&self, name: &str, store: Store) -> Result<Self> {
        self.check_free(name)?;
        let mut databases = (*self.0).clone();
        databases.insert(name.to_owned(), Arc::new(store));
        Ok(Attached(Arc::new(databases)))
    }

    /// The same databases without one.
    ///
    /// # Errors
    /// No database has this name.
    pub fn without(&self, name: &str) -> Result<Self> {
        let mut databases = (*self.0).clone();
        match databases.remove(name) {
            Some(_) => Ok(Attached(Arc::new(databases))),
            None => Err(Error::not_found("attached database", name, self.names())),
        }
    }
}

/// Opens the database of a folder for reading.
///
/// # Errors
/// The folder is no database or cannot be read.
pub(crate) fn open(folder: &str, options: &crate::Options) -> Result<Store> {
    let options = StoreOptions {
        threads: options.threads,
        read_only: true,
        cache_bytes: options.memory_limit.map_or(CACHE_BYTES, |limit| CACHE_BYTES.min(limit / 16)),
        ..StoreOptions::default()
    };
    Ok(Store::open(Path::new(folder), options)?)
}

/// The attached databases as one statement sees them: each in one snapshot.
#[derive(Clone, Default)]
pub(crate) struct AttachedSnapshots(Arc<Mutex<BTreeMap<String, Arc<Snapshot>>>>);

impl AttachedSnapshots {
    /// The snapshot of a database; `None` if no database has the name.
    ///
    /// # Errors
    /// Its log cannot be read.
    pub fn of(&self, attached: &Attached, name: &str) -> Result<Option<Arc<Snapshot>>> {
        let Some(store) = attached.0.get(name) else { return Ok(None) };
        let mut taken = self.0.lock();
        if let Some(snapshot) = taken.get(name) {
            return Ok(Some(snapshot.clone()));
        }
        let snapshot = store.snapshot()?;
        taken.insert(name.to_owned(), snapshot.clone());
        Ok(Some(snapshot))
    }

    /// Whether the statement has looked into one of them.
    pub fn is_used(&self) -> bool {
        !self.0.lock().is_empty()
    }
}

/// The name of a database that is attached without one: that of its folder.
pub(crate) fn name_of(folder: &str) -> Result<String> {
    let name = Path::new(folder).file_stem().and_then(|stem| stem.to_str());
    name.map(str::to_lowercase)
        .ok_or_else(|| Error::invalid(format!("'{folder}' has no name: ATTACH '{folder}' AS name (READ_ONLY)")))
}
