//! A B+-tree whose leaves are persistent: a sorted set of pairs of numbers, a prefix of a row's key and the row's place.
//!
//! Leaves are not sorted; a bitmap says which slots are in use, and a byte per slot, a fingerprint of the key, spares most
//! comparisons (as in the FPTree of Oukid et al. 2016). The inner nodes are a [`Directory`] in memory, made from the list
//! of leaves when the tree is opened. No operation needs a log:
//!
//! - An insertion writes a slot, and then one word of the bitmap. A removal stores one word of the bitmap.
//! - A split fills a new leaf with the upper half, and links it by one word. From then on the old leaf's upper half does
//!   not count, since it lies at or above the new leaf's smallest key. Clearing it is what opening repeats, for the leaf
//!   that a word of the tree names.
//!
//! One thread writes at a time. Threads that read at the same time see each insertion and removal wholly or not at all.

mod leaf;
mod open;
mod read;
#[cfg(test)]
pub(super) mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use super::directory::{Directory, Key, Position};
use super::link::seal;
use super::pool::{HEADER_BYTES, Pool, UnitKind};
use crate::error::{Result, StoreError};
use crate::media::region::{LINE_BYTES, Region};
use leaf::Geometry;

/// A key of a row, shortened to its first eight bytes in order, and the row's place.
pub type Entry = Key;

/// An entry's first number, and its second one before and after.
pub type Move = (u64, u64, u64);

/// Leaves of entries that move are loaded at the same time.
const MOVES_AT_ONCE: usize = 16;

/// The sizes of leaves that are possible, in bytes.
const LEAF_BYTES: std::ops::RangeInclusive<u64> = 256..=16_384;

/// The properties of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeOptions {
    /// Bytes of a leaf: a power of two from 256 to 16384, and less than a unit of the pool.
    pub node_bytes: u64,
}

impl Default for TreeOptions {
    fn default() -> Self {
        TreeOptions { node_bytes: 1024 }
    }
}

/// A persistent B+-tree.
#[derive(Debug)]
pub struct Tree {
    pool: Arc<Pool>,
    owner: u64,
    geometry: Geometry,
    /// The offset of two words: the link to the first leaf, and the leaf that is being split, both sealed.
    root: u64,
    inner: RwLock<Inner>,
    /// Held by one insertion or removal from its first store to its last fence.
    turn: Mutex<()>,
    writer: Mutex<Writer>,
    /// Odd while a slot that readers may still look at is overwritten.
    reused: AtomicU64,
    /// The number of entries.
    entries: AtomicU64,
}

/// What is rebuilt at opening.
#[derive(Debug, Default)]
struct Inner {
    leaves: Directory,
    free: Vec<u64>,
}

#[derive(Debug, Default)]
struct Writer {
    /// Bits of entries that are written but not yet in their bitmaps, by the bitmap word's offset.
    pending: HashMap<u64, u64>,
    /// Whether slots have been freed since the tree was opened, so that readers may look at what is overwritten.
    has_removed: bool,
}

/// Offset of the word that names the leaf being split, behind the link to the first leaf.
const SPLITTING: u64 = 8;

impl Tree {
    /// A new tree with one leaf. `root` is the offset of two words that belong to it. They are stored, and the caller
    /// flushes them with its own.
    ///
    /// # Errors
    /// The options are not valid, or the pool is full.
    pub fn create(pool: Arc<Pool>, owner: u64, root: u64, options: TreeOptions) -> Result<Tree> {
        let tree = Tree::empty(pool, owner, root, options)?;
        let region = tree.region();
        let first = tree.take_leaf()?;
        tree.write_leaf(first, 0, (0, 0), &[]);
        region.store(root, seal(first));
        region.store(root + SPLITTING, 0);
        tree.inner.write().leaves.insert((0, 0), first);
        Ok(tree)
    }

    /// A tree that finds nothing, for a table that is only read while another process writes it.
    ///
    /// # Errors
    /// The options are not valid.
    pub fn none(pool: Arc<Pool>, owner: u64, root: u64, options: TreeOptions) -> Result<Tree> {
        Tree::empty(pool, owner, root, options)
    }

    fn empty(pool: Arc<Pool>, owner: u64, root: u64, options: TreeOptions) -> Result<Tree> {
        let bytes = options.node_bytes;
        if !bytes.is_power_of_two() || !LEAF_BYTES.contains(&bytes) || bytes >= pool.unit_bytes() {
            return Err(StoreError::invalid(format!(
                "leaves of {bytes} bytes are not possible: the size is a power of two from {} to {}, and less than the \
                 page size of {} bytes",
                LEAF_BYTES.start(),
                LEAF_BYTES.end(),
                pool.unit_bytes()
            )));
        }
        Ok(Tree {
            pool,
            owner,
            geometry: Geometry::new(bytes),
            root,
            inner: RwLock::default(),
            turn: Mutex::default(),
            writer: Mutex::default(),
            reused: AtomicU64::new(0),
            entries: AtomicU64::new(0),
        })
    }

    fn region(&self) -> &dyn Region {
        self.pool.region().as_ref()
    }

    /// The number of entries.
    pub fn len(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an entry durably, unless it is there.
    ///
    /// # Errors
    /// The pool is full, or a leaf is damaged.
    pub fn insert(&self, entry: Entry) -> Result<()> {
        let _turn = self.turn.lock();
        self.add(entry)?;
        self.region().fence();
        self.settle();
        self.region().fence();
        Ok(())
    }

    /// Removes an entry durably, and returns whether it was there.
    ///
    /// # Errors
    /// A leaf is damaged.
    pub fn remove(&self, entry: Entry) -> Result<bool> {
        let _turn = self.turn.lock();
        let was_there = self.take(entry)?;
        self.region().fence();
        Ok(was_there)
    }

    /// Writes an entry that nobody sees yet. After a fence, [`settle`](Self::settle) adds it. An entry that is there
    /// already stays as it is.
    pub(super) fn add(&self, entry: Entry) -> Result<()> {
        let mut writer = self.writer.lock();
        loop {
            let (at, leaf) = self.leaf_of(entry)?;
            if self.slot_of(leaf, entry).is_some() {
                return Ok(());
            }
            let taken = |word: u64| writer.pending.get(&word).copied().unwrap_or(0);
            if let Some(slot) = self.geometry.free_slot(self.region().words(), leaf, taken) {
                self.write_slot(&writer, leaf, slot, entry);
                let (word, bit) = self.geometry.bit(leaf, slot);
                *writer.pending.entry(word).or_default() |= bit;
                return Ok(());
            }
            if writer.pending.is_empty() {
                self.split(at, leaf, entry)?;
            } else {
                // The leaf may be full of entries that are not in its bitmap yet.
                self.region().fence();
                self.settle_pending(&mut writer);
            }
        }
    }

    /// Stores the bits of the entries that were added. They are durable after the next fence.
    pub(super) fn settle(&self) {
        self.settle_pending(&mut self.writer.lock());
    }

    fn settle_pending(&self, writer: &mut Writer) {
        let region = self.region();
        for (word, bits) in writer.pending.drain() {
            region.store(word, region.words().load(word) | bits);
            region.flush(word, 8);
            self.entries.fetch_add(bits.count_ones().into(), Ordering::Relaxed);
        }
    }

    /// Forgets the entries that were added but not settled.
    pub(super) fn forget(&self) {
        self.writer.lock().pending.clear();
    }

    /// Removes an entry; durable after the next fence. Returns whether it was there.
    pub(super) fn take(&self, entry: Entry) -> Result<bool> {
        let mut writer = self.writer.lock();
        let (at, leaf) = self.leaf_of(entry)?;
        let Some(slot) = self.slot_of(leaf, entry) else { return Ok(false) };
        let (word, bit) = self.geometry.bit(leaf, slot);
        let region = self.region();
        region.store(word, region.words().load(word) & !bit);
        region.flush(word, 8);
        self.entries.fetch_sub(1, Ordering::Relaxed);
        writer.has_removed = true;
        if self.geometry.count(region.words(), leaf) == 0 {
            self.unlink(&writer, at, leaf);
        }
        Ok(true)
    }

    /// Whether an entry with the number `from` can get the number `to` where it is: both belong to one leaf.
    pub(super) fn is_movable(&self, first: u64, from: u64, to: u64) -> bool {
        let inner = self.inner.read();
        let Some(at) = inner.leaves.floor((first, from)) else { return false };
        inner.leaves.get(at).0 <= (first, to) && inner.leaves.next_key(at).is_none_or(|next| (first, to) < next)
    }

    /// Gives entries that [are movable](Self::is_movable) other second numbers, each by one word; durable after the next
    /// fence. Calls `missing` with those that are not there.
    pub(super) fn move_entries(&self, moved: &[Move], mut missing: impl FnMut(&Move) -> Result<()>) -> Result<()> {
        let region = self.region();
        let words = region.words();
        for batch in moved.chunks(MOVES_AT_ONCE) {
            let leaves: Vec<u64> = {
                let inner = self.inner.read();
                let leaf = |(first, from, _): &Move| {
                    inner.leaves.floor((*first, *from)).map_or(0, |at| inner.leaves.get(at).1)
                };
                batch.iter().map(leaf).collect()
            };
            leaves.iter().for_each(|leaf| self.geometry.prefetch(words, *leaf));
            for (leaf, wanted) in leaves.iter().zip(batch) {
                let (first, from, to) = *wanted;
                if !leaf::is_sound(words, self.owner, *leaf) {
                    return Err(super::damaged(region, *leaf, "the checksum of a leaf's header is wrong"));
                }
                let Some(slot) = self.slot_of(*leaf, (first, from)) else {
                    missing(wanted)?;
                    continue;
                };
                let at = self.geometry.entry(*leaf, slot) + 8;
                region.store(at, to);
                region.flush(at, 8);
            }
        }
        Ok(())
    }

    /// The leaf to which an entry belongs, with its position.
    fn leaf_of(&self, entry: Entry) -> Result<(Position, u64)> {
        let inner = self.inner.read();
        let at = inner.leaves.floor(entry).expect("the first leaf begins with the smallest key");
        let leaf = inner.leaves.get(at).1;
        if !leaf::is_sound(self.region().words(), self.owner, leaf) {
            return Err(super::damaged(self.region(), leaf, "the checksum of a leaf's header is wrong"));
        }
        Ok((at, leaf))
    }

    fn slot_of(&self, leaf: u64, entry: Entry) -> Option<usize> {
        let mut found = None;
        self.geometry.find(self.region().words(), leaf, entry.0, |slot, key| {
            if key == entry {
                found = Some(slot);
            }
        });
        found
    }

    fn write_slot(&self, writer: &Writer, leaf: u64, slot: usize, entry: Entry) {
        let region = self.region();
        if writer.has_removed {
            self.reused.fetch_add(1, Ordering::AcqRel);
        }
        let (at, fingerprint) = (self.geometry.entry(leaf, slot), self.geometry.fingerprint(leaf, slot));
        region.store(at, entry.0);
        region.store(at + 8, entry.1);
        region.write(fingerprint, &[leaf::fingerprint(entry.0)]);
        if writer.has_removed {
            self.reused.fetch_add(1, Ordering::AcqRel);
        }
        region.flush(at, leaf::SLOT_BYTES);
        // In the line of the bitmap it becomes durable no later than the entry's bit, which is stored after it.
        let (bitmap, _) = self.geometry.bit(leaf, slot);
        if ![at / LINE_BYTES, bitmap / LINE_BYTES].contains(&(fingerprint / LINE_BYTES)) {
            region.flush(fingerprint, 1);
        }
    }

    /// Splits a full leaf. `entry` is the one that needs room.
    fn split(&self, at: Position, leaf: u64, entry: Entry) -> Result<()> {
        let (region, geometry) = (self.region(), self.geometry);
        let words = region.words();
        let mut entries: Vec<Entry> = geometry.used(words, leaf).map(|slot| geometry.key(words, leaf, slot)).collect();
        entries.sort_unstable();
        let next = words.load(leaf + leaf::NEXT);
        // Keys that ascend fill their leaves.
        let ascends = next == 0 && entries.last().is_some_and(|last| *last < entry);
        let upper = if ascends { &[][..] } else { &entries[entries.len() / 2..] };
        let low = upper.first().copied().unwrap_or(entry);
        let new = self.take_leaf()?;
        let mut inner = self.inner.write();
        self.write_leaf(new, next, low, upper);
        region.store(self.root + SPLITTING, seal(leaf));
        region.flush(self.root + SPLITTING, 8);
        region.fence();
        region.store(leaf + leaf::NEXT, seal(new));
        if !geometry.is_bitmap_beside_link() {
            region.flush(leaf + leaf::NEXT, 8);
            region.fence();
        }
        self.clear_from(leaf, low);
        // The slots that became free may be overwritten from here on.
        region.fence();
        debug_assert_eq!(inner.leaves.get(at).1, leaf, "nobody else changes the directory");
        inner.leaves.insert(low, new);
        Ok(())
    }

    /// Clears the bits of a leaf's entries that are not below `low`. Durable after the next fence.
    fn clear_from(&self, leaf: u64, low: Entry) {
        let (region, geometry) = (self.region(), self.geometry);
        let words = region.words();
        for slot in geometry.used(words, leaf).collect::<Vec<_>>() {
            if geometry.key(words, leaf, slot) >= low {
                let (word, bit) = geometry.bit(leaf, slot);
                region.store(word, words.load(word) & !bit);
            }
        }
        let (first, _) = geometry.bit(leaf, 0);
        region.flush(first, geometry.words as u64 * 8);
    }

    /// Takes an empty leaf out of the list, unless it is the first.
    fn unlink(&self, writer: &Writer, at: Position, leaf: u64) {
        let region = self.region();
        let mut inner = self.inner.write();
        let Some(before) = inner.leaves.previous(at) else { return };
        let (word, _) = self.geometry.bit(leaf, 0);
        let has_pending = |at: usize| writer.pending.contains_key(&(word + at as u64 * 8));
        if (0..self.geometry.words).any(has_pending) {
            return;
        }
        let before = inner.leaves.get(before).1;
        region.store(before + leaf::NEXT, region.words().load(leaf + leaf::NEXT));
        region.flush(before + leaf::NEXT, 8);
        region.fence();
        inner.leaves.remove(at);
        inner.free.push(leaf);
    }

    /// A leaf that nothing links.
    fn take_leaf(&self) -> Result<u64> {
        if let Some(leaf) = self.inner.write().free.pop() {
            return Ok(leaf);
        }
        let unit = self.pool.claim(UnitKind::Leaves, self.owner, (self.geometry.bytes, 0))?;
        let mut leaves: Vec<u64> = self.leaves_of(unit).rev().collect();
        let leaf = leaves.pop().expect("a unit is larger than a leaf");
        self.inner.write().free.extend(leaves);
        Ok(leaf)
    }

    /// The offsets of the leaves of a unit.
    fn leaves_of(&self, unit: u64) -> impl DoubleEndedIterator<Item = u64> + use<> {
        let (start, bytes) = (self.pool.offset(unit) + HEADER_BYTES, self.geometry.bytes);
        (0..(self.pool.unit_bytes() - HEADER_BYTES) / bytes).map(move |at| start + at * bytes)
    }

    /// Writes a whole leaf that nothing links yet. Durable after the next fence.
    fn write_leaf(&self, leaf: u64, next: u64, low: Entry, entries: &[Entry]) {
        let (region, geometry) = (self.region(), self.geometry);
        for (at, word) in leaf::header(self.owner, leaf, next, low).into_iter().enumerate() {
            region.store(leaf + at as u64 * 8, word);
        }
        let mut bitmap = vec![0; geometry.words];
        let mut fingerprints = vec![0; geometry.slots];
        for (slot, entry) in entries.iter().enumerate() {
            crate::bitmap::set(&mut bitmap, slot);
            fingerprints[slot] = leaf::fingerprint(entry.0);
            region.store(geometry.entry(leaf, slot), entry.0);
            region.store(geometry.entry(leaf, slot) + 8, entry.1);
        }
        region.write(geometry.fingerprint(leaf, 0), &fingerprints);
        for (at, word) in bitmap.iter().enumerate() {
            region.store(geometry.bit(leaf, at * 64).0, *word);
        }
        region.flush(leaf, geometry.entry(leaf, entries.len()) - leaf);
    }
}
