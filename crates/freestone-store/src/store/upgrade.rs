//! Databases of earlier format versions become such of the present one: the log is folded into a new one. Segments stay as they
//! are, because their format has not changed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::apply;
use super::commit::Commit;
use super::state::State;
use super::{Snapshot, Store};
use crate::error::{Result, StoreError};
use crate::log::{FORMAT_VERSION, Log};
use crate::media::{Disk, DiskOptions, Medium};

/// The ids of the objects on which tables and objects depend, by their ids.
pub type Uses = BTreeMap<u64, BTreeSet<u64>>;

impl Store {
    /// Lets a database folder have the present format version, in one step: after a crash it has the old or the new one.
    /// Returns the version that it had. `uses` says what the tables and objects of the database depend on, which version 2
    /// does not know.
    ///
    /// # Errors
    /// The folder has no database, or one of a version that this program does not read; another process writes it; the log is
    /// damaged or cannot be written; or the error of `uses`. Then nothing has changed.
    pub fn upgrade<E: From<StoreError>>(
        path: &Path,
        uses: impl FnOnce(&Snapshot) -> std::result::Result<Uses, E>,
    ) -> std::result::Result<u32, E> {
        let disk = Disk::open(path, false, DiskOptions::default()).map_err(StoreError::from)?;
        Store::upgrade_on(Arc::new(disk), uses)
    }

    /// As [`Store::upgrade`], on any medium.
    ///
    /// # Errors
    /// As for [`Store::upgrade`].
    pub fn upgrade_on<E: From<StoreError>>(
        medium: Arc<dyn Medium>,
        uses: impl FnOnce(&Snapshot) -> std::result::Result<Uses, E>,
    ) -> std::result::Result<u32, E> {
        let version = Log::open_reader(medium.clone()).map_err(StoreError::from)?.version();
        if version == FORMAT_VERSION {
            return Ok(version);
        }
        let (mut log, records) = Log::open_earlier(medium).map_err(StoreError::from)?;
        let state = records.iter().try_fold(State::default(), |state, record| apply(record, &state))?;
        let snapshot = Snapshot { state: Arc::new(state), base: None, history: None, _pin: None, _kept: None };
        let uses = uses(&snapshot)?;
        let state = with_uses(State::clone(&snapshot.state), uses)?;
        log.checkpoint(&Commit::of_state(&state).to_bytes()).map_err(StoreError::from)?;
        Ok(version)
    }
}

fn with_uses(mut state: State, uses: Uses) -> Result<State> {
    let missing = |reason: String| StoreError::invalid(reason);
    for (id, uses) in uses {
        match state.objects.get(id).map(|object| object.as_ref().clone()) {
            Some(mut object) => {
                object.uses = uses;
                state.objects_mut().replace(&[object]).map_err(missing)?;
            }
            None => state.change_table(id, |table| table.uses = uses).map_err(missing)?,
        }
    }
    Ok(state)
}
