//! Snapshots of commits that another process names: what a server reads, its workers read, too.

use std::sync::Arc;

use super::super::state::State;
use super::super::{Snapshot, Store, apply};
use crate::error::{Result, StoreError};
use crate::log::shared::SharedLog;

impl Store {
    /// The snapshot of exactly one commit; `None` if this process cannot see the commit yet. A version that is kept
    /// ([`Store::set_retention`]) is found without a request, and another one is made again from the log in a bucket.
    ///
    /// # Errors
    /// The log cannot be read, or the commit is not kept any more.
    pub fn snapshot_of(&self, sequence: u64) -> Result<Option<Arc<Snapshot>>> {
        // In a bucket, a commit is what it was when it was read: whether there are later ones does not matter.
        if let Some(known) = self.history.version(sequence).filter(|_| self.is_shared()) {
            return Ok(Some(known));
        }
        let newest = self.snapshot()?;
        if newest.sequence() < sequence {
            return Ok(None);
        }
        match (newest.at_version(sequence), &self.shared) {
            (Err(_), Some(log)) => self.replayed(log, sequence).map(Some),
            (found, _) => found.map(Some),
        }
    }

    /// The snapshot of a commit, from the log.
    fn replayed(&self, log: &SharedLog, sequence: u64) -> Result<Arc<Snapshot>> {
        // As for the newest snapshot: pin first, then read.
        let pin = self.pins.pin(sequence)?;
        let gone = || StoreError::invalid(format!("commit {sequence} is gone: it is older than the retention"));
        let records = log.records_until(sequence)?.ok_or_else(gone)?;
        let mut state = State::default();
        for record in &records {
            state = apply(record, &state)?;
        }
        self.give_resources(&mut state);
        Ok(Arc::new(Snapshot { state: Arc::new(state), base: None, history: None, _pin: Some(pin), _kept: None }))
    }
}
