//! The rows from which the types of text files are inferred. A statement that can be repeated runs with types of samples
//! first, and if a later value does not have them, again with types that fit all rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::options::FileOptions;

/// The inference of one run of a statement.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inference {
    from_all_rows: bool,
    is_outgrown: Arc<AtomicBool>,
}

impl Inference {
    /// Notes that a value does not have the type that was inferred from a sample.
    pub fn note_outgrown(&self) {
        self.is_outgrown.store(true, Ordering::Relaxed);
    }

    /// The inference for the next run of the statement, from all rows; `None` if that would not help.
    pub fn widened(&self) -> Option<Inference> {
        let helps = !self.from_all_rows && self.is_outgrown.load(Ordering::Relaxed);
        helps.then(|| Inference { from_all_rows: true, is_outgrown: Arc::default() })
    }

    /// Options with the number of rows that are sampled.
    pub(super) fn applied(&self, options: &FileOptions) -> FileOptions {
        let mut options = options.clone();
        if self.from_all_rows {
            options.ingest.sample_rows = usize::MAX;
        }
        options
    }
}
