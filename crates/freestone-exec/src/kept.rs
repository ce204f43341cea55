//! Batches that a sink keeps as they are.

use std::sync::Arc;

use crate::error::Result;
use crate::pipeline::{Claim, Context};
use crate::vector::Batch;

/// The batches that one thread keeps, with their units.
pub(crate) struct Kept {
    batches: Vec<(usize, Batch)>,
    claim: Claim,
}

/// Those of all threads.
#[derive(Default)]
pub(crate) struct Gathered {
    /// In the order of their units.
    pub batches: Vec<Batch>,
    _claims: Vec<Claim>,
}

impl Kept {
    pub fn new(context: Arc<dyn Context>) -> Kept {
        Kept { batches: vec![], claim: Claim::new(context) }
    }

    pub fn add(&mut self, unit: usize, batch: Batch) -> Result<()> {
        self.claim.grow(batch.bytes_with_texts())?;
        self.batches.push((unit, batch));
        Ok(())
    }

    /// The batches of all threads.
    pub fn gather(threads: impl IntoIterator<Item = Kept>) -> Gathered {
        let (mut batches, mut claims) = (vec![], vec![]);
        for mut kept in threads {
            batches.append(&mut kept.batches);
            claims.push(kept.claim);
        }
        batches.sort_by_key(|(unit, _)| *unit);
        Gathered { batches: batches.into_iter().map(|(_, batch)| batch).collect(), _claims: claims }
    }
}
