//! Reading a whole table, to see whether its parts agree.

use super::super::damaged;
use super::{PTable, place};
use crate::error::Result;

impl PTable {
    /// Checks blocks, bounds, strings, the tree, and that the tree has exactly the rows. Waits for the transaction under
    /// way, and keeps others from beginning.
    ///
    /// # Errors
    /// Names what is damaged.
    pub fn check(&self) -> Result<()> {
        let _writer = self.writer.lock();
        self.check_list()?;
        let (mut expected, mut rows) = (vec![], 0);
        let blocks: Vec<_> = self.structure.read().blocks.iter().collect();
        for (at, (low, unit)) in blocks.iter().enumerate() {
            let high = blocks.get(at + 1).map_or(u64::MAX, |(next, _)| next.0);
            let (entries, found) = self.check_block(*unit, low.0, high)?;
            expected.extend(entries);
            rows += found;
        }
        if !self.count_rows(rows) {
            let reason = format!("{rows} rows, and {} were counted", self.len());
            return Err(damaged(self.region(), self.head, reason));
        }
        expected.sort_unstable();
        let found = self.tree.check()?;
        if found != expected {
            let differs = found.iter().zip(&expected).find(|(found, expected)| found != expected);
            return Err(damaged(
                self.region(),
                self.head,
                format!(
                    "the tree has {} entries for {} rows; the first pair: {differs:?}",
                    found.len(),
                    expected.len()
                ),
            ));
        }
        Ok(())
    }

    /// The entries that the tree must have for a block's rows, and the number of these.
    fn check_block(&self, unit: u64, low: u64, high: u64) -> Result<(Vec<(u64, u64)>, usize)> {
        let block = self.block(unit);
        let wrong = |reason: String| damaged(self.region(), block.start, reason);
        block.verify()?;
        let slots = block.valid_slots();
        if slots.last().is_some_and(|last| *last >= self.geometry.slots) {
            return Err(wrong("a bit of the validity bitmap without a slot".into()));
        }
        let rows = block.rows(&slots)?;
        for (column, (place, data)) in self.geometry.columns.iter().zip(&rows).enumerate() {
            let (smallest, largest) = block.bounds(place);
            let outside = (0..slots.len()).filter(|row| data.is_valid(*row)).find(|row| {
                let prefix = data.order_prefix(*row);
                prefix < smallest || prefix > largest
            });
            if let Some(row) = outside {
                let name = &self.schema.columns[column].name;
                return Err(wrong(format!("column {name}, slot {}: a value outside the block's bounds", slots[row])));
            }
        }
        let mut entries = vec![];
        for (row, slot) in slots.iter().enumerate() {
            let key = self.clusters.key(&rows, row);
            if key < low || key > high {
                return Err(wrong(format!("slot {slot}: a row that belongs to another block")));
            }
            if !self.key.is_empty() {
                entries.push((self.prefix(&rows, row), place(unit, *slot)));
            }
        }
        Ok((entries, slots.len()))
    }
}
