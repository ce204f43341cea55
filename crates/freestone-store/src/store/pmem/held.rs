//! The segments of a table in persistent memory, as the newest state has them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use roaring::RoaringBitmap;

use super::super::locks::RowNumber;
use crate::persistent::{BlockVersion, PTable, Place};
use crate::segment::{Blocks, SEGMENT_BLOCKS, SharedBlocks};
use crate::table::SegmentEntry;

/// Segments that are gone, but not for all snapshots, are forgotten when there are more of them.
const PAST_SEGMENTS: usize = 16;

/// A table of the pool.
#[derive(Debug)]
pub struct Held {
    pub shared: Arc<SharedBlocks>,
    segments: BTreeMap<u64, PoolSegment>,
    /// By unit: the segment of its block, and the position there.
    positions: HashMap<u64, (u64, usize)>,
    past: Vec<(u64, Weak<Blocks>)>,
}

#[derive(Debug, Default)]
struct PoolSegment {
    positions: Vec<Option<Arc<BlockVersion>>>,
    deleted: RoaringBitmap,
    stamp: u32,
    used: Arc<AtomicU64>,
    entry: Option<SegmentEntry>,
}

/// What transactions have changed.
#[derive(Debug)]
pub struct Absorbed {
    /// The rows that have other numbers now, with the earlier ones first.
    pub moves: Vec<(RowNumber, RowNumber)>,
    /// The units of the blocks.
    pub units: Vec<u64>,
}

/// A block that has left its position.
struct Left {
    unit: u64,
    segment: u64,
    position: usize,
    version: Arc<BlockVersion>,
}

impl Held {
    pub fn new(table: Arc<PTable>, segment_id: &AtomicU64) -> Held {
        let shared = Arc::new(SharedBlocks::new(table));
        let mut held = Held { shared, segments: BTreeMap::new(), positions: HashMap::new(), past: vec![] };
        held.absorb(segment_id);
        held
    }

    /// The table in the pool.
    pub fn table(&self) -> &Arc<PTable> {
        self.shared.table()
    }

    /// The segments with rows.
    pub fn entries(&self) -> impl Iterator<Item = &SegmentEntry> {
        self.segments.values().filter_map(|segment| segment.entry.as_ref())
    }

    /// Takes over what transactions have changed.
    pub fn absorb(&mut self, segment_id: &AtomicU64) -> Absorbed {
        let published = self.table().publish();
        let units = published.blocks.iter().map(|block| block.unit).chain(published.gone.iter().copied()).collect();
        let moved: HashMap<Place, Place> = published.moved.iter().copied().collect();
        let mut changed = BTreeSet::new();
        // A block that has lost rows to another gets a new position, so that the number of a row never becomes another's.
        let divided: HashSet<u64> = moved.keys().map(|from| from >> 16).collect();
        let mut left: Vec<Left> = vec![];
        for unit in divided.iter().chain(&published.gone) {
            if let Some((segment, position)) = self.positions.remove(unit)
                && let Some(version) = self.segments[&segment].positions[position].clone()
            {
                left.push(Left { unit: *unit, segment, position, version });
                self.set(segment, position, None);
                changed.insert(segment);
            }
        }
        for version in published.blocks {
            let unit = version.unit;
            let (segment, position) = match self.positions.get(&unit) {
                Some(known) => *known,
                None => self.free_position(unit, segment_id),
            };
            self.set(segment, position, Some(version));
            changed.insert(segment);
        }
        let moves = self.moves(&left, &moved);
        self.renew(&changed);
        Absorbed { moves, units }
    }

    fn row(&self, segment: u64, position: usize, slot: usize) -> RowNumber {
        (segment, (position * self.shared.block_rows() + slot) as u32)
    }

    /// Where the rows of blocks are that have left their positions.
    fn moves(&self, left: &[Left], moved: &HashMap<Place, Place>) -> Vec<(RowNumber, RowNumber)> {
        let mut moves = vec![];
        for Left { unit, segment, position, version } in left {
            for slot in crate::persistent::slots_of(&version.live) {
                let mut at = unit << 16 | slot as u64;
                while let Some(next) = moved.get(&at) {
                    at = *next;
                }
                if let Some((to, place)) = self.positions.get(&(at >> 16)) {
                    moves.push((self.row(*segment, *position, slot), self.row(*to, *place, (at & 0xffff) as usize)));
                }
            }
        }
        moves
    }

    /// A position that no block ever had.
    fn free_position(&mut self, unit: u64, segment_id: &AtomicU64) -> (u64, usize) {
        let last = self.segments.last_key_value().filter(|(_, last)| last.positions.len() < SEGMENT_BLOCKS);
        let id = last.map_or_else(|| segment_id.fetch_add(1, Ordering::Relaxed), |(id, _)| *id);
        let rows = self.shared.block_rows() as u32;
        let segment = self.segments.entry(id).or_default();
        let position = segment.positions.len();
        segment.positions.push(None);
        segment.deleted.insert_range(position as u32 * rows..(position as u32 + 1) * rows);
        self.shared.put(unit, id, position as u32);
        self.positions.insert(unit, (id, position));
        (id, position)
    }

    /// Puts a version of a block in its position, or none.
    fn set(&mut self, segment: u64, position: usize, version: Option<Arc<BlockVersion>>) {
        let first = (position * self.shared.block_rows()) as u32;
        let Some(PoolSegment { positions, deleted, .. }) = self.segments.get_mut(&segment) else { return };
        let before = std::mem::replace(&mut positions[position], version);
        let words = |version: &Option<Arc<BlockVersion>>, at: usize| version.as_ref().map_or(0, |v| v.live[at]);
        let count = before.as_ref().or(positions[position].as_ref()).map_or(0, |version| version.live.len());
        for at in 0..count {
            let (old, new) = (words(&before, at), words(&positions[position], at));
            let mut differs = old ^ new;
            while differs != 0 {
                let bit = differs.trailing_zeros();
                let row = first + at as u32 * 64 + bit;
                let _ = if new >> bit & 1 == 1 { deleted.remove(row) } else { deleted.insert(row) };
                differs &= differs - 1;
            }
        }
    }

    /// Makes the entries of segments that have changed, and forgets segments without blocks.
    fn renew(&mut self, changed: &BTreeSet<u64>) {
        for id in changed {
            let Some(segment) = self.segments.get_mut(id) else { continue };
            segment.stamp = segment.stamp.wrapping_add(1);
            let old = segment.entry.take();
            if segment.positions.iter().all(Option::is_none) {
                self.past.extend(old.and_then(|entry| entry.blocks).map(|blocks| (*id, Arc::downgrade(&blocks))));
                self.segments.remove(id);
                continue;
            }
            let rows = (segment.positions.len() * self.shared.block_rows()) as u64;
            if segment.deleted.len() < rows {
                let (positions, used) = (segment.positions.clone(), segment.used.clone());
                let blocks = Blocks::new(self.shared.clone(), positions, segment.stamp, used);
                let deleted = Arc::new(segment.deleted.clone());
                segment.entry = Some(SegmentEntry::of_blocks(*id, Arc::new(blocks), deleted));
            }
        }
        if self.past.len() >= PAST_SEGMENTS {
            self.past.retain(|(_, blocks)| blocks.strong_count() > 0);
            let is_known = |id| self.segments.contains_key(&id) || self.past.iter().any(|(past, _)| *past == id);
            self.shared.forget(is_known);
        }
    }
}
