//! Lookups and ranges, concurrent with the writer.

use std::sync::atomic::Ordering;

use super::{Entry, Tree};
use crate::error::Result;

impl Tree {
    /// Appends the second numbers of all entries whose first number is `first`.
    ///
    /// # Errors
    /// A leaf is damaged.
    pub fn lookup(&self, first: u64, out: &mut Vec<u64>) -> Result<()> {
        let region = self.region();
        let inner = self.inner.read();
        let mut at = inner.leaves.floor((first, 0));
        while let Some(position) = at {
            let leaf = inner.leaves.get(position).1;
            region.touch(leaf, self.geometry.probe_bytes());
            self.geometry.prefetch(region.words(), leaf);
            let start = out.len();
            self.undisturbed(|| {
                out.truncate(start);
                self.geometry.find(region.words(), leaf, first, |_, entry| out.push(entry.1));
            });
            at = inner.leaves.next(position).filter(|next| inner.leaves.get(*next).0.0 <= first);
        }
        Ok(())
    }

    /// Begins to load the leaf of a number, in which an entry is about to be looked up or written.
    pub fn prefetch(&self, first: u64) {
        let inner = self.inner.read();
        if let Some(position) = inner.leaves.floor((first, 0)) {
            self.geometry.prefetch(self.region().words(), inner.leaves.get(position).1);
        }
    }

    /// Replaces `out` by a leaf's entries from `from` up to the first number `last`, in order. Returns where to go on,
    /// if more entries may follow.
    ///
    /// # Errors
    /// A leaf is damaged.
    pub fn batch(&self, from: Entry, last: u64, out: &mut Vec<Entry>) -> Result<Option<Entry>> {
        let (region, geometry) = (self.region(), self.geometry);
        let inner = self.inner.read();
        out.clear();
        let Some(at) = inner.leaves.floor(from) else { return Ok(None) };
        let leaf = inner.leaves.get(at).1;
        region.touch(leaf, geometry.bytes);
        self.undisturbed(|| {
            out.clear();
            let words = region.words();
            let entries = geometry.used(words, leaf).map(|slot| geometry.key(words, leaf, slot));
            out.extend(entries.filter(|entry| *entry >= from && entry.0 <= last));
        });
        out.sort_unstable();
        Ok(inner.leaves.next_key(at).filter(|next| next.0 <= last))
    }

    /// About how many entries have a first number from `first` to `last`. Reads no leaf.
    pub fn estimate(&self, first: u64, last: u64) -> u64 {
        let inner = self.inner.read();
        let (Some(from), Some(to)) = (inner.leaves.floor((first, 0)), inner.leaves.floor((last, u64::MAX))) else {
            return 0;
        };
        if first > last {
            return 0;
        }
        let leaves = inner.leaves.len().max(1) as u64;
        let within = inner.leaves.distance(from, to) as u64;
        // Both ends are in the middle of their leaves, on average.
        (within * self.len()).div_ceil(leaves).max(1)
    }

    /// Runs `read` until no slot was overwritten meanwhile. It must tolerate any mixture of old and new words.
    fn undisturbed(&self, mut read: impl FnMut()) {
        loop {
            let before = self.reused.load(Ordering::Acquire);
            read();
            std::sync::atomic::fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.reused.load(Ordering::Relaxed) == before {
                return;
            }
            std::hint::spin_loop();
        }
    }
}
