//! The progress of all scans of files of one statement, in bytes of the files.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::context::Progress;

/// Reports progress to the user of a statement, if there is one.
#[derive(Default)]
pub(crate) struct ReadProgress {
    told: Option<Arc<dyn Progress>>,
    amounts: Mutex<Amounts>,
}

#[derive(Debug, Default)]
struct Amounts {
    total: u64,
    done: u64,
}

impl ReadProgress {
    pub fn new(told: Option<Arc<dyn Progress>>) -> Self {
        Self { told, amounts: Mutex::default() }
    }

    /// A scan starts that reads this number of bytes.
    pub fn begin(&self, bytes: u64) {
        let Some(told) = &self.told else { return };
        let mut amounts = self.amounts.lock();
        amounts.total = amounts.total.saturating_add(bytes);
        told.begin("reading files", Some(amounts.total));
        told.advance(amounts.done);
    }

    /// A scan has read this number of bytes more.
    pub fn advance(&self, bytes: u64) {
        let Some(told) = &self.told else { return };
        let mut amounts = self.amounts.lock();
        amounts.done = amounts.done.saturating_add(bytes).min(amounts.total);
        told.advance(amounts.done);
    }
}

impl Drop for ReadProgress {
    fn drop(&mut self) {
        let has_begun = self.amounts.get_mut().total > 0;
        if let Some(told) = self.told.as_ref().filter(|_| has_begun) {
            told.end();
        }
    }
}

impl fmt::Debug for ReadProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.amounts.lock())
    }
}
