//! Files that are written before a commit names them: the segments and temporary runs of open transactions.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::table::{Resources, segment_file};

/// The segment files that one transaction has written. Dropping this removes them, unless they were handed over to a
/// commit.
#[derive(Debug)]
pub struct NewFiles {
    resources: Arc<Resources>,
    opening: u64,
    ids: Mutex<Vec<u64>>,
}

impl NewFiles {
    pub fn new(resources: Arc<Resources>) -> NewFiles {
        let opening = resources.unnamed.lock().opening;
        NewFiles { resources, opening, ids: Mutex::default() }
    }

    /// The number of the log's opening, to which the ids belong.
    pub fn opening(&self) -> u64 {
        self.opening
    }

    pub fn is_empty(&self) -> bool {
        self.ids.lock().is_empty()
    }

    /// The number of files so far.
    pub fn len(&self) -> usize {
        self.ids.lock().len()
    }

    /// Adds a file that is about to be created.
    pub fn add(&self, id: u64) {
        self.resources.unnamed.lock().ids.insert(id);
        self.ids.lock().push(id);
    }

    /// Removes a file that belongs to another transaction.
    pub fn take_back(&self, id: u64) {
        self.ids.lock().retain(|known| *known != id);
        self.resources.unnamed.lock().ids.remove(&id);
    }

    /// Leaves the files to the log, because a commit names them or may name them.
    pub fn hand_over(&self) {
        let ids = std::mem::take(&mut *self.ids.lock());
        let mut unnamed = self.resources.unnamed.lock();
        ids.iter().for_each(|id| {
            unnamed.ids.remove(id);
        });
    }

    /// Removes all files but the first `keep`.
    pub fn truncate(&self, keep: usize) {
        let gone: Vec<u64> = {
            let mut ids = self.ids.lock();
            let keep = keep.min(ids.len());
            ids.drain(keep..).collect()
        };
        // While this is locked, the log cannot be opened again, so the files are still ours.
        let mut unnamed = self.resources.unnamed.lock();
        for id in gone {
            if unnamed.opening == self.opening {
                // If it cannot be removed now, the next vacuum or opening for writing removes it.
                let _ = self.resources.medium.remove(&segment_file(id));
            }
            unnamed.ids.remove(&id);
            self.resources.cache.invalidate_file(id);
        }
    }
}

impl Drop for NewFiles {
    fn drop(&mut self) {
        self.truncate(0);
    }
}
