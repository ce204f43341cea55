//! Blocks that are full are split, or written anew if removed rows take their room. Empty ones are removed.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;

use super::super::directory::Key;
use super::super::link::seal;
use super::super::pool::{NEXT, UnitKind};
use super::journal::Change;
use super::{BlockState, PTable, Place, Writer, place, places_of, slot_of};
use crate::column::ColumnData;
use crate::error::Result;

/// The rows of a block, those of the transaction under way included.
struct Rows {
    slots: Vec<usize>,
    /// Whether a row is committed.
    committed: Vec<bool>,
    columns: Vec<ColumnData>,
    /// The clustering key of each row.
    keys: Vec<u64>,
}

/// Where a block is split.
#[derive(Debug, PartialEq, Eq)]
struct Cut {
    /// The smallest key of the new block.
    low: Key,
    /// Rows with at least this key move; `None`: no row moves.
    from: Option<u64>,
}

impl PTable {
    /// Makes room for a row with this clustering key and a number of bytes of strings in its block, or in a new one behind.
    pub(super) fn make_room(&self, writer: &mut Writer, unit: u64, key: u64, strings: u64) -> Result<()> {
        let rows = self.live_rows(writer, unit)?;
        let live: u64 = (0..rows.slots.len()).map(|row| self.live_bytes(&rows.columns, row)).sum();
        let room = self.geometry.bytes - self.geometry.heap;
        if rows.slots.len() * 2 <= self.geometry.slots && (live + strings) * 2 <= room {
            return self.rewrite(writer, unit, &rows);
        }
        let low = self.low_of(unit);
        let is_last = self.region().words().load(self.pool.offset(unit) + NEXT) == 0;
        let cut = cut(&rows.keys, low, key, is_last);
        self.split(writer, unit, &rows, &cut)
    }

    fn live_bytes(&self, columns: &[ColumnData], row: usize) -> u64 {
        columns.iter().filter(|data| data.is_valid(row)).map(|data| data.bytes(row).len() as u64).sum()
    }

    fn live_rows(&self, writer: &Writer, unit: u64) -> Result<Rows> {
        self.verify_once(&self.structure.read(), unit)?;
        let block = self.block(unit);
        let mut slots = block.valid_slots();
        let mut committed = vec![true; slots.len()];
        for at in writer.inserted.range(places_of(unit)).map(|(at, _)| *at) {
            slots.push(slot_of(at));
            committed.push(false);
        }
        let columns = block.rows(&slots)?;
        let keys = (0..slots.len()).map(|row| self.clusters.key(&columns, row)).collect();
        Ok(Rows { slots, committed, columns, keys })
    }

    fn low_of(&self, unit: u64) -> Key {
        let (words, start) = (self.region().words(), self.pool.offset(unit));
        super::open::low_key(words, start)
    }

    /// Moves the rows behind the cut to a new block.
    fn split(&self, writer: &mut Writer, unit: u64, rows: &Rows, cut: &Cut) -> Result<()> {
        let moves = |row: &usize| cut.from.is_some_and(|from| rows.keys[*row] >= from);
        let moved: Vec<usize> = (0..rows.slots.len()).filter(moves).collect();
        let next = self.region().words().load(self.pool.offset(unit) + NEXT);
        let (new, state) = self.write_block(cut.low, next, rows, &moved)?;
        let mut change = Change { words: vec![(self.pool.offset(unit) + NEXT, seal(new))], ..Change::default() };
        change.words.extend(self.words_without(unit, rows, &moved));
        let result = self.move_rows(writer, unit, new, rows, &moved, change, |structure| structure.show(cut.low, new));
        if let Err(error) = result {
            self.pool.release(&[new]);
            return Err(error);
        }
        writer.set_block(new, Some(state));
        writer.versions.touch(new, true);
        writer.versions.touch(unit, false);
        // Only snapshots look at the rows that have left.
        let block = self.block(unit);
        let mut left = self.protected(&writer.versions, unit);
        let stays = (0..rows.slots.len()).filter(|row| !moves(row)).map(|row| rows.slots[row]);
        stays.for_each(|slot| crate::bitmap::set(&mut left, slot));
        let heap_top = self.heap_top(unit, &left)?;
        let is_checked = block.has_check();
        writer.set_block(unit, Some(BlockState { heap_top, taken: left, has_freed: false, is_checked }));
        Ok(())
    }

    /// Replaces a block by one with the same rows and no gaps.
    fn rewrite(&self, writer: &mut Writer, unit: u64, rows: &Rows) -> Result<()> {
        let all: Vec<usize> = (0..rows.slots.len()).collect();
        let low = self.low_of(unit);
        let next = self.region().words().load(self.pool.offset(unit) + NEXT);
        let (new, state) = self.write_block(low, next, rows, &all)?;
        let change = Change { words: vec![(self.link_to(low), seal(new))], ..Change::default() };
        let result = self.move_rows(writer, unit, new, rows, &all, change, |structure| {
            structure.hide(low);
            structure.show(low, new);
        });
        if let Err(error) = result {
            self.pool.release(&[new]);
            return Err(error);
        }
        writer.set_block(new, Some(state));
        writer.versions.touch(new, true);
        self.retire(writer, unit);
        Ok(())
    }

    /// The word that links the block with this smallest key.
    fn link_to(&self, low: Key) -> u64 {
        let structure = self.structure.read();
        let at = structure.blocks.floor(low).expect("it is a block of the table");
        self.link_word(structure.blocks.previous(at).map(|before| structure.blocks.get(before).1))
    }

    /// Writes some rows into the first slots of a new block, which nothing links yet. Durable after the next fence.
    fn write_block(&self, low: Key, next: u64, rows: &Rows, which: &[usize]) -> Result<(u64, BlockState)> {
        let unit = self.pool.claim(UnitKind::Block, self.id, low)?;
        let (region, block) = (self.region(), self.block(unit));
        region.store(block.start + NEXT, next);
        region.flush(block.start + NEXT, 8);
        block.clear();
        let mut heap_top = self.geometry.bytes;
        let mut validity = vec![0; self.geometry.words];
        for (slot, row) in which.iter().enumerate() {
            heap_top = block.write_row(slot, &rows.columns, *row, heap_top);
            if rows.committed[*row] {
                crate::bitmap::set(&mut validity, slot);
            }
        }
        let (first, _) = self.geometry.bit(0);
        for (at, word) in validity.iter().enumerate() {
            region.store(block.start + first + at as u64 * 8, *word);
        }
        region.flush(block.start + first, self.geometry.words as u64 * 8);
        let mut taken = vec![0; self.geometry.words];
        (0..which.len()).for_each(|slot| crate::bitmap::set(&mut taken, slot));
        Ok((unit, BlockState { heap_top, taken, has_freed: false, is_checked: false }))
    }

    /// The validity words of a block without some of its rows, as far as they change.
    fn words_without(&self, unit: u64, rows: &Rows, moved: &[usize]) -> Vec<(u64, u64)> {
        let block = self.block(unit);
        let mut left: Vec<u64> = (0..self.geometry.words).map(|at| block.validity(at)).collect();
        let before = left.clone();
        moved.iter().for_each(|row| crate::bitmap::clear(&mut left, rows.slots[*row]));
        let changed = (0..left.len()).filter(|at| left[*at] != before[*at]);
        changed.map(|at| (block.start + self.geometry.bit(at * 64).0, left[at])).collect()
    }

    /// Commits a change that moves rows to the first slots of a new block, with their entries in the tree.
    #[allow(clippy::too_many_arguments)]
    fn move_rows(
        &self,
        writer: &mut Writer,
        unit: u64,
        new: u64,
        rows: &Rows,
        moved: &[usize],
        mut change: Change,
        publish: impl FnOnce(&mut super::Structure),
    ) -> Result<()> {
        let (mut inserted, mut deleted, mut moves) = (vec![], vec![], HashMap::<Place, Place>::new());
        for (slot, row) in moved.iter().enumerate() {
            let (from, to) = (place(unit, rows.slots[*row]), place(new, slot));
            moves.insert(from, to);
            if rows.committed[*row] {
                let prefix = self.prefix(&rows.columns, *row);
                inserted.push((to, prefix));
                deleted.push((from, prefix));
            }
        }
        change.places = inserted.iter().chain(&deleted).map(|(at, _)| *at).collect();
        self.commit_change(writer, &change, &inserted, &deleted, publish)?;
        for places in [&mut writer.inserted, &mut writer.deleted] {
            let here: BTreeMap<Place, u64> = places.range(places_of(unit)).map(|(at, prefix)| (*at, *prefix)).collect();
            for (at, prefix) in here {
                if let Some(to) = moves.get(&at) {
                    places.remove(&at);
                    places.insert(*to, prefix);
                }
            }
        }
        if writer.versions.are_kept() {
            let committed = moved.iter().filter(|row| rows.committed[**row]).map(|row| place(unit, rows.slots[*row]));
            writer.versions.moved.extend(committed.map(|from| (from, moves[&from])));
        }
        Ok(())
    }

    /// Takes a block without rows out of the list, unless it is the first.
    pub(super) fn remove_if_empty(&self, writer: &mut Writer, unit: u64) {
        let is_block = self.structure.read().version(unit).is_some();
        let block = self.block(unit);
        if !is_block || (0..self.geometry.words).any(|at| block.validity(at) != 0) {
            return;
        }
        let low = self.low_of(unit);
        if low == (0, 0) {
            return;
        }
        let region = self.region();
        let link = self.link_to(low);
        let mut structure = self.structure.write();
        region.store(link, region.words().load(block.start + NEXT));
        region.flush(link, 8);
        region.fence();
        structure.hide(low);
        drop(structure);
        self.retire(writer, unit);
    }

    /// The numbers of rows that readers count and of those in blocks agree; for checks.
    pub(super) fn count_rows(&self, rows: usize) -> bool {
        self.rows.load(Ordering::Relaxed) == rows as u64
    }
}

/// Where to split a block with these keys of rows, for a row with the key `wanted`: at the key that divides the rows most
/// evenly. A row behind all others begins a new block, and one with the greatest key of the last block takes the rows of that key
/// along, so that ascending keys leave full blocks, not halves. If all rows have one key, the new block gets none of them or all.
fn cut(keys: &[u64], low: Key, wanted: u64, is_last: bool) -> Cut {
    let mut sorted = keys.to_vec();
    sorted.sort_unstable();
    match (sorted.first(), sorted.last()) {
        (_, Some(last)) if wanted > *last => return Cut { low: (wanted, 0), from: None },
        (Some(first), Some(last)) if is_last && wanted == *last && first < last => {
            return Cut { low: (*last, 0), from: Some(*last) };
        }
        _ => {}
    }
    let middle = sorted.len() / 2;
    let boundaries = (1..sorted.len()).filter(|at| sorted[at - 1] < sorted[*at]);
    if let Some(at) = boundaries.min_by_key(|at| at.abs_diff(middle)) {
        return Cut { low: (sorted[at], 0), from: Some(sorted[at]) };
    }
    match sorted.first() {
        Some(only) if wanted < *only => Cut { low: (*only, 0), from: Some(*only) },
        // A block of the same key, which later rows of that key fill.
        _ if low.0 == wanted => Cut { low: (wanted, low.1 + 1), from: None },
        _ => Cut { low: (wanted, 1), from: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_split_at_the_weighted_median() {
        let check = |keys: &[u64], low: Key, wanted: u64, expected: Key, from: Option<u64>| {
            assert_eq!(cut(keys, low, wanted, false), Cut { low: expected, from }, "{keys:?} {low:?} {wanted}");
        };
        check(&[1, 2, 3, 4], (0, 0), 2, (3, 0), Some(3));
        check(&[4, 9, 9, 9, 9], (0, 0), 2, (9, 0), Some(9));
        check(&[1, 1, 1, 1, 7, 8], (1, 0), 2, (7, 0), Some(7));
        check(&[5, 5, 5], (0, 0), 3, (5, 0), Some(5));
        check(&[5, 5, 5], (0, 0), 8, (8, 0), None);
        check(&[5, 5, 5], (0, 0), 5, (5, 1), None);
        check(&[5, 5, 5], (5, 0), 5, (5, 1), None);
        check(&[5, 5, 5], (5, 3), 5, (5, 4), None);
        check(&[0, 0], (0, 0), 0, (0, 1), None);
        check(&[1, 2, 3, 4], (0, 0), 5, (5, 0), None);
        check(&[1, 2, 3, 4], (0, 0), 4, (3, 0), Some(3));
        assert_eq!(cut(&[1, 2, 3, 4, 4], (0, 0), 4, true), Cut { low: (4, 0), from: Some(4) });
        assert_eq!(cut(&[1, 2, 3, 4], (0, 0), 2, true), Cut { low: (3, 0), from: Some(3) });
        assert_eq!(cut(&[4, 4], (0, 0), 4, true), Cut { low: (4, 1), from: None });
    }
}
