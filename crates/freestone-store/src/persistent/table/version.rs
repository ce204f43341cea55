//! Snapshots of a table: which slots of each block they see. A slot that one of them sees is not overwritten, and a block
//! that one of them has is not freed. After a crash there are no snapshots, so the pool knows nothing of them.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Weak};

use parking_lot::RwLock;

use super::super::tree::Entry;
use super::{PTable, Place, Writer, unit_of};
use crate::column::ColumnData;
use crate::error::Result;

/// With more removed entries, those that nobody needs any more are forgotten.
const GRAVES_MIN: usize = 1024;

/// A block as some snapshots see it.
#[derive(Debug)]
pub struct BlockVersion {
    /// The block's unit.
    pub unit: u64,
    /// A number that changes when rows are written to the block.
    pub content: u32,
    /// A bit for each slot with a row.
    pub live: Vec<u64>,
    /// The same when the rows were written: some of them may be removed since.
    pub written: Arc<Vec<u64>>,
}

/// The blocks that changed since the last time, and what became of them.
#[derive(Debug, Default)]
pub struct Published {
    /// Their present versions.
    pub blocks: Vec<Arc<BlockVersion>>,
    /// The units of those that are no blocks of the table any more.
    pub gone: Vec<u64>,
    /// The rows that are in another place, with the earlier one first.
    pub moved: Vec<(Place, Place)>,
}

/// The versions of blocks, once somebody asks for them.
#[derive(Debug, Default)]
pub struct Versions {
    current: HashMap<u64, Arc<BlockVersion>>,
    older: HashMap<u64, Vec<Weak<BlockVersion>>>,
    /// The blocks that have changed since they were published, and whether rows were written.
    touched: BTreeMap<u64, bool>,
    /// Units that are blocks for some snapshots only.
    retired: Vec<u64>,
    pub moved: Vec<(Place, Place)>,
    content: u32,
    is_kept: bool,
}

/// Entries that the tree has lost, but not all snapshots, each with the version of the block that has its row.
pub type Graves = RwLock<BTreeMap<Entry, Weak<BlockVersion>>>;

impl Versions {
    /// The newest versions.
    pub fn current(&self) -> Vec<Arc<BlockVersion>> {
        self.current.values().cloned().collect()
    }

    /// Whether somebody asks for versions.
    pub fn are_kept(&self) -> bool {
        self.is_kept
    }

    /// Notes that a block has changed, and whether rows were written to it.
    pub fn touch(&mut self, unit: u64, is_written: bool) {
        if self.is_kept {
            *self.touched.entry(unit).or_default() |= is_written;
        }
    }

    /// Whether a snapshot has a block.
    fn is_seen(&mut self, unit: u64) -> bool {
        let Some(older) = self.older.get_mut(&unit) else { return false };
        older.retain(|version| version.strong_count() > 0);
        if older.is_empty() {
            self.older.remove(&unit);
            return false;
        }
        true
    }

    /// The retired units that no snapshot has any more.
    fn unseen(&mut self) -> Vec<u64> {
        let retired = std::mem::take(&mut self.retired);
        let (seen, unseen) = retired.into_iter().partition(|unit| self.is_seen(*unit));
        self.retired = seen;
        unseen
    }
}

impl PTable {
    /// The slots of a block that some snapshot sees, as bits.
    pub(super) fn protected(&self, versions: &Versions, unit: u64) -> Vec<u64> {
        if self.is_foreign(unit) {
            return crate::bitmap::ones(self.geometry.slots);
        }
        let mut slots = vec![0; self.geometry.words];
        let older = versions.older.get(&unit).into_iter().flatten().filter_map(Weak::upgrade);
        for version in versions.current.get(&unit).cloned().into_iter().chain(older) {
            slots.iter_mut().zip(&version.live).for_each(|(all, live)| *all |= live);
        }
        slots
    }

    /// Where new strings of a block end whose slots in `used` may not change.
    pub(super) fn heap_top(&self, unit: u64, used: &[u64]) -> Result<u64> {
        if self.is_foreign(unit) {
            // There is no room: which bytes other snapshots have is not known.
            return Ok(self.geometry.heap);
        }
        self.block(unit).heap_top(slots_of(used).into_iter())
    }

    /// Frees a block that was taken out of the list, when no snapshot has it any more.
    pub(super) fn retire(&self, writer: &mut Writer, unit: u64) {
        writer.set_block(unit, None);
        if !writer.versions.is_kept {
            self.pool.release(&[unit]);
            return;
        }
        writer.versions.touch(unit, false);
        writer.versions.retired.push(unit);
    }

    /// Keeps the entries of rows that snapshots still see, before the tree loses them.
    pub(super) fn bury(&self, writer: &Writer, rows: &[(Place, u64)]) {
        if !writer.versions.is_kept || self.key.is_empty() {
            return;
        }
        let mut graves = self.graves.write();
        for (at, prefix) in rows {
            if let Some(version) = writer.versions.current.get(&unit_of(*at)) {
                graves.insert((*prefix, *at), Arc::downgrade(version));
            }
        }
    }

    /// The blocks as they are now, for snapshots from now on.
    pub fn publish(&self) -> Published {
        let mut writer = self.writer.lock();
        let structure = self.structure.read();
        if !writer.versions.is_kept {
            writer.versions.is_kept = true;
            writer.versions.touched = structure.blocks.iter().map(|(_, unit)| (unit, true)).collect();
        }
        let versions = &mut writer.versions;
        let mut published = Published { moved: std::mem::take(&mut versions.moved), ..Published::default() };
        for (unit, is_written) in std::mem::take(&mut versions.touched) {
            let before = versions.current.remove(&unit);
            if let Some(before) = &before {
                versions.older.entry(unit).or_default().push(Arc::downgrade(before));
            }
            if structure.version(unit).is_none() {
                if before.is_some() {
                    published.gone.push(unit);
                }
                continue;
            }
            let block = self.block(unit);
            let live: Vec<u64> = (0..self.geometry.words).map(|at| block.validity(at)).collect();
            let version = match before.filter(|_| !is_written) {
                Some(before) => BlockVersion { unit, content: before.content, live, written: before.written.clone() },
                None => {
                    versions.content = versions.content.wrapping_add(1);
                    BlockVersion { unit, content: versions.content, written: Arc::new(live.clone()), live }
                }
            };
            let version = Arc::new(version);
            versions.current.insert(unit, version.clone());
            published.blocks.push(version);
        }
        drop(structure);
        let unseen = versions.unseen();
        drop(writer);
        self.pool.release(&unseen);
        self.sweep_graves();
        published
    }

    /// Frees the blocks that no snapshot has any more, and returns the number of those that some have.
    pub fn sweep(&self) -> usize {
        let mut writer = self.writer.lock();
        let unseen = writer.versions.unseen();
        let kept = writer.versions.retired.len();
        drop(writer);
        self.pool.release(&unseen);
        kept
    }

    fn sweep_graves(&self) {
        let is_due = |graves: &BTreeMap<_, _>| graves.len() >= GRAVES_MIN && graves.len().is_power_of_two();
        if is_due(&self.graves.read()) {
            self.graves.write().retain(|_, version| version.strong_count() > 0);
        }
    }

    /// Appends the places of all rows whose key has a prefix from `low` to `high`, and that some snapshot may see.
    ///
    /// # Errors
    /// A leaf is damaged.
    pub fn candidates(&self, low: u64, high: u64, out: &mut Vec<Place>) -> Result<()> {
        if low > high {
            return Ok(());
        }
        if low == high {
            self.tree.lookup(low, out)?;
        } else {
            let (mut from, mut entries) = (Some((low, 0)), vec![]);
            while let Some(start) = from {
                from = self.tree.batch(start, high, &mut entries)?;
                out.extend(entries.iter().map(|(_, at)| *at));
            }
        }
        // An entry is buried before the tree loses it.
        let range = (Bound::Included((low, 0)), Bound::Included((high, u64::MAX)));
        out.extend(self.graves.read().range(range).map(|((_, at), _)| *at));
        Ok(())
    }

    /// The rows of a block that were there when the version's rows were written; others are NULL, or zeros. The columns
    /// have `len` rows.
    ///
    /// # Errors
    /// A string is not inside its block, or the checksum of a full block does not fit.
    pub fn page(&self, version: &BlockVersion, len: usize) -> Result<Vec<ColumnData>> {
        let block = self.block(version.unit);
        block.verify()?;
        let slots = slots_of(&version.written);
        let places = &self.geometry.columns;
        places
            .iter()
            .enumerate()
            .map(|(column, place)| {
                let mut data = ColumnData::new(place.kind);
                block.append(column, &slots, &mut data)?;
                Ok(spread(data, &slots, len))
            })
            .collect()
    }

    /// For each column, the smallest and the largest order prefix of a block's values, and the number of NULLs. If they are
    /// damaged, they exclude nothing: who reads the block is told.
    pub fn bounds(&self, version: &BlockVersion) -> Vec<(u64, u64, u32)> {
        let block = self.block(version.unit);
        let columns = self.geometry.columns.iter();
        if block.verify_bounds().is_err() {
            return columns.map(|_| (0, u64::MAX, 1)).collect();
        }
        columns
            .map(|place| {
                let (low, high) = block.bounds(place);
                let nulls = |(at, word): (usize, &u64)| (block.nulls(place, at) & word).count_ones();
                (low, high, version.written.iter().enumerate().map(nulls).sum())
            })
            .collect()
    }

    /// The slots of a block.
    pub fn slots(&self) -> usize {
        self.geometry.slots
    }
}

/// The values at the given rows, with values that do not count between them.
fn spread(data: ColumnData, slots: &[usize], len: usize) -> ColumnData {
    use crate::column::Physical::*;
    fn at<T: Copy + Default>(values: &[T], slots: &[usize], len: usize) -> Vec<T> {
        let mut all = vec![T::default(); len];
        slots.iter().zip(values).for_each(|(slot, value)| all[*slot] = *value);
        all
    }
    let validity = data.validity.as_ref().map(|validity| {
        let mut all = crate::bitmap::ones(len);
        let nulls = slots.iter().enumerate().filter(|(row, _)| !crate::bitmap::get(validity, *row));
        nulls.for_each(|(_, slot)| crate::bitmap::clear(&mut all, *slot));
        all
    });
    let values = match data.values {
        Int(values) => Int(at(&values, slots, len)),
        Wide(values) => Wide(at(&values, slots, len)),
        F64(values) => F64(at(&values, slots, len)),
        F32(values) => F32(at(&values, slots, len)),
        Bytes { offsets, data } => {
            let mut all = Vec::with_capacity(len + 1);
            let mut next = 0;
            for row in 0..len {
                all.push(offsets[next]);
                next += usize::from(slots.get(next) == Some(&row));
            }
            all.push(offsets[next]);
            Bytes { offsets: all, data }
        }
    };
    ColumnData { values, validity }
}

/// The positions of the bits.
pub fn slots_of(bits: &[u64]) -> Vec<usize> {
    let mut slots = vec![];
    for (at, word) in bits.iter().enumerate() {
        let mut rest = *word;
        while rest != 0 {
            slots.push(at * 64 + rest.trailing_zeros() as usize);
            rest &= rest - 1;
        }
    }
    slots
}
