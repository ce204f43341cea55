//! Checksums of full blocks. A block gets one when its last room is taken, and loses it before a slot is written again. So
//! the writer computes it once per block and not once per row. Rows are removed without that: the validity bitmap is not
//! part of it.

use std::sync::atomic::Ordering;

use super::super::damaged;
use super::super::link::{seal, unseal};
use super::super::pool::OWN;
use super::block::Block;
use super::geometry::STRING_BYTES;
use super::{PTable, Place, Structure, Writer, unit_of};
use crate::error::Result;
use crate::page::checksum;
use freestone_codec::Kind;

/// Offset of the checksum in a block's header: sealed, 0 if there is none.
const CHECK: u64 = OWN;

/// Bits of a block's version in memory: the block, or at least its bounds, agreed with the checksum, or this process has
/// written them.
pub const VERIFIED: u64 = VERIFIED_ALL | VERIFIED_BOUNDS;
const VERIFIED_ALL: u64 = 1 << 63;
const VERIFIED_BOUNDS: u64 = 1 << 62;

impl Block<'_> {
    /// Whether the block has a checksum.
    pub fn has_check(&self) -> bool {
        self.words.load(self.start + CHECK) != 0
    }

    /// Takes the checksum away, durably, before a slot is written.
    pub fn drop_check(&self) {
        self.region.store(self.start + CHECK, 0);
        self.region.flush(self.start + CHECK, 8);
        self.region.fence();
    }

    /// Gives the block its checksum. Its rows are durable. The checksum will be with the link to the next block, which is in
    /// the same line; a crash before that loses it.
    fn store_check(&self) {
        self.region.store(self.start + CHECK, self.computed());
    }

    /// The checksum of everything behind the validity bitmap: CRC-32C, and above it 16 bits of that of the bounds and the
    /// bitmaps of NULLs, of which the lowest is set. So bounds can be checked without reading the rows.
    fn computed(&self) -> u64 {
        seal(u64::from(self.crc(self.geometry.bytes)) | self.bounds_check() << 32)
    }

    fn bounds_check(&self) -> u64 {
        let end = self.geometry.columns.first().map_or(self.geometry.bytes, |column| column.values);
        u64::from(self.crc(end) & 0xffff | 1)
    }

    /// The CRC-32C of what is behind the validity bitmap, up to `end`.
    fn crc(&self, end: u64) -> u32 {
        let first = self.geometry.bit(0).0 + self.geometry.words as u64 * 8;
        let mut bytes = vec![];
        self.words.append_to(self.start + first, (end - first) as usize, &mut bytes);
        checksum(&bytes)
    }

    /// Compares the block with its checksum, if it has one.
    ///
    /// # Errors
    /// They differ.
    pub fn verify(&self) -> Result<()> {
        self.verify_by("its rows have changed", |stored| stored == self.computed())
    }

    /// The same for its bounds and bitmaps of NULLs alone.
    ///
    /// # Errors
    /// They differ.
    pub fn verify_bounds(&self) -> Result<()> {
        let is_same = |stored| unseal(stored).is_some_and(|value| value >> 32 == self.bounds_check());
        self.verify_by("its bounds or NULLs have changed", is_same)
    }

    /// The writer may take the checksum away meanwhile, before it changes anything else.
    fn verify_by(&self, reason: &str, is_same: impl Fn(u64) -> bool) -> Result<()> {
        loop {
            let stored = self.words.load(self.start + CHECK);
            if stored == 0 || is_same(stored) {
                return Ok(());
            }
            if self.words.load(self.start + CHECK) == stored {
                let reason = format!("the checksum of a full block does not fit: {reason}");
                return Err(damaged(self.region, self.start, reason));
            }
        }
    }
}

impl PTable {
    /// Compares a block with its checksum, the first time that it is read.
    ///
    /// # Errors
    /// They differ.
    pub(super) fn verify_once(&self, structure: &Structure, unit: u64) -> Result<()> {
        self.once(structure, unit, VERIFIED, |block| block.verify())
    }

    /// The same for a block's bounds.
    ///
    /// # Errors
    /// They differ.
    pub(super) fn verify_bounds_once(&self, structure: &Structure, unit: u64) -> Result<()> {
        self.once(structure, unit, VERIFIED_BOUNDS, |block| block.verify_bounds())
    }

    /// Verifies a block unless its version has these bits.
    fn once(
        &self,
        structure: &Structure,
        unit: u64,
        bits: u64,
        verify: impl Fn(&Block<'_>) -> Result<()>,
    ) -> Result<()> {
        let Some(version) = structure.version(unit).filter(|version| version.load(Ordering::Relaxed) & bits != bits)
        else {
            return Ok(());
        };
        verify(&self.block(unit))?;
        version.fetch_or(bits, Ordering::Relaxed);
        Ok(())
    }

    /// Gives blocks that are full after a transaction has added rows their checksums.
    pub(super) fn check_full(&self, writer: &mut Writer, inserted: &[(Place, u64)]) {
        let mut units: Vec<u64> = inserted.iter().map(|(at, _)| unit_of(*at)).collect();
        units.dedup();
        for unit in units {
            let Some(state) = writer.block(unit) else { continue };
            let block = self.block(unit);
            if !state.is_checked && self.is_full(&block, state.heap_top) {
                block.store_check();
                state.is_checked = true;
            }
        }
    }

    /// Whether there is no room for one more row: no slot, or less than strings take on average.
    fn is_full(&self, block: &Block<'_>, heap_top: u64) -> bool {
        let strings = self.geometry.columns.iter().filter(|column| column.kind == Kind::Bytes).count() as u64;
        heap_top < self.geometry.heap + strings * STRING_BYTES
            || (0..self.geometry.words).map(|at| block.validity(at).count_ones() as usize).sum::<usize>()
                == self.geometry.slots
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::crashes::words_of;
    use super::super::tests::{Row, columns, create, int_range, memory, open, place_of, shown, shown_rows};
    use super::super::{Costs, IteratorKind, Request};
    use super::*;
    use crate::media::region::MemoryRegion;
    use std::sync::Arc;

    const CAPACITY: u64 = 16 * 4096;

    /// Rows that fill some blocks of 4 KiB, each in a transaction of its own.
    fn table() -> (PTable, Vec<Row>) {
        let table = create(memory(10 * 4096), 4096, None);
        let row = |at: i64| (at, (at % 9 > 0).then_some(at % 9), Some(format!("text {at}")), Some(at));
        let rows: Vec<Row> = (0..200).map(row).collect();
        let data = columns(&rows);
        (0..rows.len()).for_each(|row| table.insert(&data, row).expect("room"));
        (table, rows)
    }

    fn units(table: &PTable) -> Vec<u64> {
        table.structure.read().blocks.iter().map(|(_, unit)| unit).collect()
    }

    #[test]
    fn what_a_checksum_covers_gives_no_wrong_row() {
        let (table, rows) = table();
        let units = units(&table);
        let (last, full) = units.split_last().expect("blocks");
        assert!(full.len() > 1 && full.iter().all(|unit| table.block(*unit).has_check()), "{}", full.len());
        assert!(!table.block(*last).has_check());
        let sound = words_of(table.region());
        let start = table.pool.offset(full[0]);
        let covered = start + table.geometry.bit(0).0 + table.geometry.words as u64 * 8..start + 4096;
        let bits = (start + CHECK) * 8..(start + CHECK + 8) * 8;
        for bit in bits.chain((covered.start * 8..covered.end * 8).step_by(5)) {
            let mut words = sound.clone();
            words[bit as usize / 64] ^= 1 << (bit % 64);
            let opened = || open(Arc::new(MemoryRegion::of_words(&words, CAPACITY))).expect("opening reads no rows");
            let named = |result: Result<()>| {
                let error = result.expect_err("damaged").to_string();
                assert!(error.contains("checksum of a full block") && error.contains(":memory:"), "{bit}: {error}");
            };
            named(opened().check());
            named(opened().rows().map(drop));
            for iterator in [IteratorKind::Block, IteratorKind::Index] {
                let request = Request { columns: vec![0, 1, 2, 3], iterator: Some(iterator), ..Request::default() };
                named(opened().scan(&request, &Costs::default(), |_, _| Ok(())).map(drop));
            }
            // Bounds that exclude the block by mistake would lose a row without an error.
            let predicates = vec![int_range(0, 3, 3), int_range(1, 3, 3)];
            let iterator = Some(IteratorKind::Block);
            let request = Request { columns: vec![0, 1, 2, 3], predicates, iterator };
            named(opened().scan(&request, &Costs::default(), |_, _| Ok(())).map(drop));
            let published = opened().publish();
            let block = published.blocks.iter().find(|block| block.unit == full[0]).expect("a block");
            let table = opened();
            named(table.page(block, 512).map(drop));
            assert!(table.bounds(block).iter().all(|(low, high, _)| *low <= 3 + (1 << 63) && *high > 3));
        }
        assert_eq!(shown(&table.rows().expect("sound").0), shown_rows(&rows));
    }

    #[test]
    fn a_block_loses_its_checksum_with_the_next_row_and_gets_another() {
        let table = create(memory(10 * 4096), 4096, None);
        let unit = units(&table)[0];
        let mut rows: Vec<Row> = vec![];
        while !table.block(unit).has_check() {
            rows.push((rows.len() as i64, Some(1), Some("text".into()), None));
            table.insert(&columns(&rows), rows.len() - 1).expect("room");
        }
        let mut transaction = table.begin();
        transaction.delete(place_of(&table, 5)).expect("there");
        transaction.commit().expect("room");
        rows.remove(5);
        assert!(table.block(unit).has_check(), "removing a row changes no value");
        let again = open(Arc::new(MemoryRegion::of_words(&words_of(table.region()), CAPACITY))).expect("sound");
        again.check().expect("sound");
        for key in [1000, 1001] {
            let mut transaction = again.begin();
            transaction.insert(&columns(&[(key, None, None, None)]), 0).expect("room");
            assert!(!again.block(unit).has_check());
            if key == 1000 {
                drop(transaction);
                continue;
            }
            transaction.commit().expect("room");
            assert!(again.block(unit).has_check() && units(&again) == [unit]);
            rows.push((key, None, None, None));
        }
        assert_eq!(shown(&again.rows().expect("sound").0), shown_rows(&rows));
        again.check().expect("sound");
    }
}
