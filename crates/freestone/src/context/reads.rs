//! How far the scans of a session's statement have come.

use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// The scans of one statement.
#[derive(Debug, Default)]
pub(crate) struct Reads(Mutex<Vec<ScanWork>>);

/// The work of a scan, in units of which it has `total`, and which `done` counts.
pub(crate) struct ScanWork {
    pub total: u64,
    pub done: Box<dyn Fn() -> u64 + Send>,
}

impl fmt::Debug for ScanWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", (self.done)(), self.total)
    }
}

/// The scans of the statement of a session that was the last to begin some.
#[derive(Debug, Clone, Default)]
pub(super) struct LatestReads(Arc<Mutex<Weak<Reads>>>);

impl LatestReads {
    pub fn begin(&self, reads: &Arc<Reads>, mut scans: Vec<ScanWork>) {
        if scans.is_empty() {
            return;
        }
        reads.0.lock().append(&mut scans);
        *self.0.lock() = Arc::downgrade(reads);
    }

    /// The share of the work of all scans that is done, from 0 to 1. `None` if the statement is over.
    pub fn share(&self) -> Option<f64> {
        let reads = self.0.lock().upgrade()?;
        let reads = reads.0.lock();
        let all: u64 = reads.iter().map(|read| read.total).sum();
        let done: u64 = reads.iter().map(|read| (read.done)().min(read.total)).sum();
        (all > 0).then(|| done as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_of_all_scans_until_the_statement_ends() {
        let (latest, reads) = (LatestReads::default(), Arc::<Reads>::default());
        let scan = |total, done| ScanWork { total, done: Box::new(move || done) };
        latest.begin(&reads, vec![]);
        assert_eq!(latest.share(), None);
        latest.begin(&reads, vec![scan(10, 5), scan(30, 40)]);
        assert_eq!(latest.share(), Some(0.875));
        drop(reads);
        assert_eq!(latest.share(), None);
    }
}
