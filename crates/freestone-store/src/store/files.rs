//! Files that are written before a commit names them: the segments and temporary runs of open transactions.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::table::{Resources, segment_file};

/// The segments that one transaction has written. Unless they are handed to a commit, dropping this removes them.
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

    /// The opening of the log to which the ids belong.
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

    /// A file with this id is about to be created.
    pub fn add(&self, id: u64) {
        self.resources.unnamed.lock().ids.insert(id);
        self.ids.lock().push(id);
    }

    /// The file with this id is somebody else's.
    pub fn take_back(&self, id: u64) {
        self.ids.lock().retain(|known| *known != id);
        self.resources.unnamed.lock().ids.remove(&id);
    }

    /// A commit names the files, or may name them: the log decides what becomes of them.
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
        // While this is locked, the log is not opened again, so the files are still ours.
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
