//! The bytes of a leaf.
//!
//! ```text
//!  0  u64  link to the next leaf, sealed; 0 at the last
//!  8  u64  the smallest key that belongs here: its first number
//! 16  u64  its second number
//! 24  u64  checksum of the owner, the leaf's offset and the smallest key
//! 32       bitmap of the slots in use, a word per 64 slots
//!          fingerprints, a byte per slot, to a multiple of 8
//!          slots: the two numbers of a key, 16 bytes; not in order
//! ```
//! A word of the bitmap is what an insertion or a removal stores last, so either is atomic.

use super::Entry;
use crate::media::region::{LINE_BYTES, Words};
use crate::page::checksum;

pub const NEXT: u64 = 0;
const LOW: u64 = 8;
const CHECK: u64 = 24;
const BITMAP: u64 = 32;
pub const SLOT_BYTES: u64 = 16;

/// Where the parts of leaves of one size are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of a leaf.
    pub bytes: u64,
    /// The number of slots.
    pub slots: usize,
    /// Words of the bitmap.
    pub words: usize,
    fingerprints: u64,
    entries: u64,
}

impl Geometry {
    /// As many slots as fit.
    pub fn new(bytes: u64) -> Geometry {
        let of = |slots: usize| {
            let words = slots.div_ceil(64);
            let fingerprints = BITMAP + words as u64 * 8;
            let entries = (fingerprints + slots as u64).next_multiple_of(SLOT_BYTES);
            Geometry { bytes, slots, words, fingerprints, entries }
        };
        let end = |geometry: &Geometry| geometry.entries + geometry.slots as u64 * SLOT_BYTES;
        let mut slots = (bytes / SLOT_BYTES) as usize;
        while slots > 1 && end(&of(slots)) > bytes {
            slots -= 1;
        }
        of(slots)
    }

    /// Bytes of a leaf that are loaded to find one key, for added latencies.
    pub fn probe_bytes(&self) -> u64 {
        self.entries + LINE_BYTES
    }

    /// Begins to load what is before the slots.
    pub fn prefetch(&self, words: Words<'_>, leaf: u64) {
        (0..self.entries).step_by(LINE_BYTES as usize).for_each(|at| words.prefetch(leaf + at));
    }

    /// The offset of the bitmap's word with a slot, and the slot's bit.
    pub fn bit(&self, leaf: u64, slot: usize) -> (u64, u64) {
        (leaf + BITMAP + slot as u64 / 64 * 8, 1 << (slot % 64))
    }

    /// Whether the bitmap is in the line of the link to the next leaf, so that both become durable in the order of their
    /// stores.
    pub fn is_bitmap_beside_link(&self) -> bool {
        BITMAP + self.words as u64 * 8 <= LINE_BYTES
    }

    /// The offset of a slot's fingerprint.
    pub fn fingerprint(&self, leaf: u64, slot: usize) -> u64 {
        leaf + self.fingerprints + slot as u64
    }

    /// The offset of a slot.
    pub fn entry(&self, leaf: u64, slot: usize) -> u64 {
        leaf + self.entries + slot as u64 * SLOT_BYTES
    }

    /// The first slot that is not in use and that `taken` does not claim.
    pub fn free_slot(&self, words: Words<'_>, leaf: u64, taken: impl Fn(u64) -> u64) -> Option<usize> {
        (0..self.words).find_map(|at| {
            let offset = leaf + BITMAP + at as u64 * 8;
            let slot = at * 64 + (words.load(offset) | taken(offset)).trailing_ones() as usize;
            (slot < self.slots.min(at * 64 + 64)).then_some(slot)
        })
    }

    /// The slots in use.
    pub fn used<'a>(&'a self, words: Words<'a>, leaf: u64) -> impl Iterator<Item = usize> + 'a {
        (0..self.words).flat_map(move |at| {
            let mut rest = words.load(leaf + BITMAP + at as u64 * 8);
            std::iter::from_fn(move || {
                let slot = (rest != 0).then(|| at * 64 + rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(slot)
            })
        })
    }

    /// The number of slots in use.
    pub fn count(&self, words: Words<'_>, leaf: u64) -> usize {
        (0..self.words).map(|at| words.load(leaf + BITMAP + at as u64 * 8).count_ones() as usize).sum()
    }

    /// The key in a slot.
    pub fn key(&self, words: Words<'_>, leaf: u64, slot: usize) -> Entry {
        let at = self.entry(leaf, slot);
        (words.load(at), words.load(at + 8))
    }

    /// Calls `found` with each used slot whose first number is `first`.
    pub fn find(&self, words: Words<'_>, leaf: u64, first: u64, mut found: impl FnMut(usize, Entry)) {
        let wanted = u64::from(fingerprint(first)) * LOW_BITS;
        for at in 0..self.slots.div_ceil(8) {
            let used = words.load(leaf + BITMAP + at as u64 / 8 * 8) >> (at % 8 * 8) & 0xff;
            if used == 0 {
                continue;
            }
            // A byte of `equal` is zero where the fingerprint is the wanted one. The test may also report the byte above
            // such a byte; keys are compared in any case.
            let equal = words.load(leaf + self.fingerprints + at as u64 * 8) ^ wanted;
            let mut hits = equal.wrapping_sub(LOW_BITS) & !equal & HIGH_BITS;
            while hits != 0 {
                let byte = hits.trailing_zeros() as usize / 8;
                hits &= hits - 1;
                let slot = at * 8 + byte;
                if used >> byte & 1 == 1 && words.load(self.entry(leaf, slot)) == first {
                    found(slot, self.key(words, leaf, slot));
                }
            }
        }
    }
}

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// A byte that differs for most different numbers.
pub fn fingerprint(first: u64) -> u8 {
    (first.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// The smallest key of a leaf.
pub fn low(words: Words<'_>, leaf: u64) -> Entry {
    (words.load(leaf + LOW), words.load(leaf + LOW + 8))
}

/// The header of a leaf: its words from offset 0.
pub fn header(owner: u64, leaf: u64, next: u64, low: Entry) -> [u64; 4] {
    [next, low.0, low.1, check(owner, leaf, low)]
}

/// Whether the header's checksum is right.
pub fn is_sound(words: Words<'_>, owner: u64, leaf: u64) -> bool {
    words.load(leaf + CHECK) == check(owner, leaf, low(words, leaf))
}

/// Never zero.
fn check(owner: u64, leaf: u64, low: Entry) -> u64 {
    let mut bytes = [0; 32];
    for (part, value) in bytes.chunks_exact_mut(8).zip([owner, leaf, low.0, low.1]) {
        part.copy_from_slice(&value.to_le_bytes());
    }
    u64::from(checksum(&bytes)) | 1 << 32
}
