//! Rows by key, and rows by place, concurrent with the writer.

use std::sync::atomic::Ordering;

use super::block::Block;
use super::{PTable, Place, Structure, place, slot_of, unit_of};
use crate::column::ColumnData;
use crate::error::{Result, StoreError};
use crate::media::region::LINE_BYTES;

impl PTable {
    /// Appends the given columns of all rows with the key of a row of `keys` to `out`, and their places to `places`.
    /// `keys` are the key's columns.
    ///
    /// # Errors
    /// Something is damaged, or the columns are not those of the key.
    pub fn lookup(
        &self,
        keys: &[ColumnData],
        row: usize,
        columns: &[usize],
        out: &mut [ColumnData],
        places: &mut Vec<Place>,
    ) -> Result<()> {
        if self.key.is_empty() {
            return Err(StoreError::invalid("the table has no key by which rows are found"));
        }
        self.check_kinds(keys, self.key.iter().copied())?;
        self.check_kinds(out, columns.iter().copied())?;
        let structure = self.structure.read();
        let (first, mut kept) = (places.len(), places.len());
        self.tree.lookup(keys[0].order_prefix(row), places)?;
        let mut text = vec![];
        let read = self.key.iter().chain(columns).copied();
        places[first..].iter().for_each(|at| self.prefetch_row(&structure, *at, read.clone()));
        for candidate in first..places.len() {
            let at = places[candidate];
            let start = out.first().map_or(0, ColumnData::len);
            let taken = self.undisturbed(&structure, unit_of(at), |block| {
                out.iter_mut().for_each(|data| truncate(data, start));
                self.take_row(block, slot_of(at), (keys, row), columns, out, &mut text)
            })?;
            if taken == Some(true) {
                places[kept] = at;
                kept += 1;
            }
        }
        places.truncate(kept);
        Ok(())
    }

    /// Begins to load some columns of the row at a place, if there is one.
    pub(super) fn prefetch_row(&self, structure: &Structure, at: Place, columns: impl Iterator<Item = usize>) {
        if slot_of(at) < self.geometry.slots && structure.version(unit_of(at)).is_some() {
            self.block(unit_of(at)).prefetch_row(slot_of(at), columns);
        }
    }

    /// The places of all rows with the key of a row of `keys`.
    ///
    /// # Errors
    /// As for [`lookup`](Self::lookup).
    pub fn places(&self, keys: &[ColumnData], row: usize) -> Result<Vec<Place>> {
        let mut places = vec![];
        self.lookup(keys, row, &[], &mut [], &mut places)?;
        Ok(places)
    }

    /// Appends the columns of a row, if it has the wanted key.
    fn take_row(
        &self,
        block: &Block<'_>,
        slot: usize,
        (keys, row): (&[ColumnData], usize),
        columns: &[usize],
        out: &mut [ColumnData],
        text: &mut Vec<u8>,
    ) -> Result<bool> {
        if slot >= self.geometry.slots || !block.is_valid(slot) {
            return Ok(false);
        }
        for (column, key) in self.key.iter().zip(keys) {
            let place = &self.geometry.columns[*column];
            self.region().touch(block.start + place.value(slot), 8);
            if !block.equals(place, slot, key, row, text)? {
                return Ok(false);
            }
        }
        for (column, data) in columns.iter().zip(out) {
            self.region().touch(block.start + self.geometry.columns[*column].value(slot), LINE_BYTES);
            block.append(*column, &[slot], data)?;
        }
        Ok(true)
    }

    /// Runs `read` on a block until the writer has overwritten no slot meanwhile. `read` must tolerate rows that are
    /// mixtures, and may be wrong about them. `None` if the unit is no block of the table.
    pub(super) fn undisturbed<T>(
        &self,
        structure: &Structure,
        unit: u64,
        mut read: impl FnMut(&Block<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let Some(version) = structure.version(unit) else { return Ok(None) };
        self.verify_once(structure, unit)?;
        let block = self.block(unit);
        loop {
            let before = version.load(Ordering::Acquire);
            let result = read(&block);
            std::sync::atomic::fence(Ordering::Acquire);
            if before.is_multiple_of(2) && version.load(Ordering::Relaxed) == before {
                return result.map(Some);
            }
            std::hint::spin_loop();
        }
    }

    /// All rows in the order of blocks, with their places, for tests and comparisons.
    ///
    /// # Errors
    /// Something is damaged.
    pub fn rows(&self) -> Result<(Vec<ColumnData>, Vec<Place>)> {
        let mut out: Vec<ColumnData> = self.geometry.columns.iter().map(|place| ColumnData::new(place.kind)).collect();
        let mut places = vec![];
        let structure = self.structure.read();
        for (_, unit) in structure.blocks.iter() {
            let block = self.block(unit);
            block.verify()?;
            let slots = block.valid_slots();
            for (column, data) in out.iter_mut().enumerate() {
                block.append(column, &slots, data)?;
            }
            places.extend(slots.iter().map(|slot| place(unit, *slot)));
        }
        Ok((out, places))
    }
}

/// Drops the rows behind the first `len`.
pub fn truncate(data: &mut ColumnData, len: usize) {
    use crate::column::Physical::*;
    match &mut data.values {
        Int(values) => values.truncate(len),
        Wide(values) => values.truncate(len),
        F64(values) => values.truncate(len),
        F32(values) => values.truncate(len),
        Bytes { offsets, data } => {
            offsets.truncate(len + 1);
            data.truncate(offsets.last().map_or(0, |end| *end as usize));
        }
    }
    if let Some(validity) = &mut data.validity {
        validity.truncate(crate::bitmap::words(len));
        crate::bitmap::trim(validity, len);
    }
}
