//! Scans: by blocks, of which keys and bounds rule out those without rows of the result, or by the tree, if the key is
//! restricted. Which of the two is cheaper is decided by their costs (Götze, Baumann and Sattler 2018, sections IV.F and
//! V.C, which ask for such a model).

use super::super::directory::Key;
use super::read::truncate;
use super::select::Test;
use super::{PTable, Place, Structure, place, slot_of, unit_of};
use crate::column::ColumnData;
use crate::error::Result;
use crate::media::region::LINE_BYTES;
use crate::scan::ColumnPredicate;

/// A scan.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The columns of the result.
    pub columns: Vec<usize>,
    /// Predicates that all rows of the result pass.
    pub predicates: Vec<ColumnPredicate>,
    /// How to find the rows; `None`: as is cheaper.
    pub iterator: Option<IteratorKind>,
}

/// How a scan finds its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IteratorKind {
    /// Block after block, without those that keys or bounds rule out.
    Block,
    /// Entry after entry of the tree, in the order of the key.
    Index,
}

/// What a scan did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanReport {
    /// How it found its rows.
    pub iterator: IteratorKind,
    /// The blocks that it read; of the index, 0.
    pub blocks: u64,
    /// The entries of the tree that it followed; of blocks, 0.
    pub entries: u64,
    /// The rows of the result.
    pub rows: u64,
}

/// What the steps of scans cost, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// To test the key of a block in memory.
    pub key_test: f64,
    /// To test the bounds of a block, and to begin reading it.
    pub block: f64,
    /// To test a slot by one predicate.
    pub slot: f64,
    /// To follow an entry of the tree to its row, and test it.
    pub entry: f64,
}

impl Default for Costs {
    /// Measured on memory of a processor of 2022.
    fn default() -> Self {
        Costs { key_test: 3.0, block: 150.0, slot: 1.0, entry: 60.0 }
    }
}

/// The costs of a scan by each iterator, in nanoseconds, and what they follow from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// The cheaper iterator.
    pub chosen: IteratorKind,
    /// By blocks.
    pub block_ns: f64,
    /// By the tree.
    pub index_ns: f64,
    /// The blocks that keys, and bounds as far as they were sampled, leave.
    pub blocks: f64,
    /// The entries in the range of the key.
    pub entries: u64,
}

/// The blocks whose bounds are tested to estimate how many pass.
const SAMPLED_BLOCKS: usize = 64;
/// The row behind that is on its way while one is read by the tree.
const ROWS_AHEAD: usize = 6;
/// Rows that are collected before they are handed over.
const BATCH_ROWS: usize = 8192;
/// Blocks that are visited before a waiting writer may split one.
const BATCH_BLOCKS: usize = 4096;

/// The rows of a batch.
struct Batch {
    columns: Vec<ColumnData>,
    places: Vec<Place>,
}

impl PTable {
    /// Calls `sink` with the rows of the result, batch by batch: the columns asked for, and the places. While it runs, the
    /// writer need not wait.
    ///
    /// # Errors
    /// Something is damaged, a predicate does not fit its column, or `sink` fails.
    pub fn scan(
        &self,
        request: &Request,
        costs: &Costs,
        mut sink: impl FnMut(&[ColumnData], &[Place]) -> Result<()>,
    ) -> Result<ScanReport> {
        let tests = self.tests(request)?;
        let iterator = match request.iterator {
            _ if self.key.is_empty() => IteratorKind::Block,
            Some(iterator) => iterator,
            None => self.plan(request, costs)?.chosen,
        };
        let columns = request.columns.iter().map(|column| ColumnData::new(self.geometry.columns[*column].kind));
        let mut batch = Batch { columns: columns.collect(), places: vec![] };
        let mut report = ScanReport { iterator, blocks: 0, entries: 0, rows: 0 };
        let (first, last) = self.key_range(&tests);
        let mut from = match iterator {
            IteratorKind::Block => Some((0, 0)),
            IteratorKind::Index => (first <= last).then_some((first, 0)),
        };
        while let Some(start) = from {
            batch.columns.iter_mut().for_each(|data| truncate(data, 0));
            batch.places.clear();
            from = match iterator {
                IteratorKind::Block => self.next_blocks(start, request, &tests, &mut batch, &mut report)?,
                IteratorKind::Index => self.next_entries(start, last, request, &tests, &mut batch, &mut report)?,
            };
            if !batch.places.is_empty() {
                report.rows += batch.places.len() as u64;
                sink(&batch.columns, &batch.places)?;
            }
        }
        Ok(report)
    }

    /// The costs of a scan.
    ///
    /// # Errors
    /// A predicate does not fit its column.
    pub fn plan(&self, request: &Request, costs: &Costs) -> Result<Plan> {
        let tests = self.tests(request)?;
        let masked = self.clusters.tests(&request.predicates);
        let structure = self.structure.read();
        let mut passing = vec![];
        let mut at = structure.blocks.first();
        while let Some(position) = at {
            let (low, unit) = structure.blocks.get(position);
            let high = high_key(&structure, position);
            if masked.iter().all(|test| test.may_pass(low.0, high)) {
                passing.push(unit);
            }
            at = structure.blocks.next(position);
        }
        let step = passing.len().div_ceil(SAMPLED_BLOCKS).max(1);
        let sample: Vec<u64> = passing.iter().step_by(step).copied().collect();
        let mut pass = 0;
        for unit in &sample {
            pass += usize::from(self.bounds_may_pass(&structure, *unit, &tests)?);
        }
        let share = pass as f64 / sample.len().max(1) as f64;
        let blocks = passing.len() as f64 * share;
        let slots = self.geometry.slots as f64 * tests.len() as f64;
        let (first, last) = self.key_range(&tests);
        let entries = self.tree.estimate(first, last);
        let block_ns = structure.blocks.len() as f64 * costs.key_test
            + passing.len() as f64 * costs.block
            + blocks * slots * costs.slot;
        let index_ns = if self.key.is_empty() { f64::INFINITY } else { entries as f64 * costs.entry };
        let chosen = if block_ns <= index_ns { IteratorKind::Block } else { IteratorKind::Index };
        Ok(Plan { chosen, block_ns, index_ns, blocks, entries })
    }

    fn tests(&self, request: &Request) -> Result<Vec<Test>> {
        let known = self.geometry.columns.len();
        let mut columns = request.columns.iter().chain(request.predicates.iter().map(|predicate| &predicate.column));
        if let Some(wrong) = columns.find(|column| **column >= known) {
            return Err(crate::StoreError::invalid(format!("no column {wrong}: the table has {known}")));
        }
        request.predicates.iter().map(|p| Test::new(p, &self.geometry.columns[p.column])).collect()
    }

    /// The prefixes of keys that rows of the result can have.
    fn key_range(&self, tests: &[Test]) -> (u64, u64) {
        let of_key =
            tests.iter().filter(|test| Some(&test.column) == self.key.first()).filter_map(|test| test.prefixes);
        of_key.fold((0, u64::MAX), |(low, high), (first, last)| (low.max(first), high.min(last)))
    }

    fn bounds_may_pass(&self, structure: &Structure, unit: u64, tests: &[Test]) -> Result<bool> {
        self.verify_bounds_once(structure, unit)?;
        let block = self.block(unit);
        Ok(tests.iter().all(|test| test.may_pass(block.bounds(&self.geometry.columns[test.column]))))
    }

    /// Collects rows from the blocks from a key on. Returns where to go on.
    fn next_blocks(
        &self,
        from: Key,
        request: &Request,
        tests: &[Test],
        batch: &mut Batch,
        report: &mut ScanReport,
    ) -> Result<Option<Key>> {
        let masked = self.clusters.tests(&request.predicates);
        let structure = self.structure.read();
        let mut at = structure.blocks.floor(from);
        let mut visited = 0;
        while let Some(position) = at {
            let (low, unit) = structure.blocks.get(position);
            if visited >= BATCH_BLOCKS || batch.places.len() >= BATCH_ROWS {
                return Ok(Some(low));
            }
            visited += 1;
            let high = high_key(&structure, position);
            if masked.iter().all(|test| test.may_pass(low.0, high)) {
                self.region().touch(self.pool.offset(unit) + 64, LINE_BYTES);
                if self.bounds_may_pass(&structure, unit, tests)? {
                    self.collect_block(&structure, unit, request, tests, batch)?;
                    report.blocks += 1;
                }
            }
            at = structure.blocks.next(position);
        }
        Ok(None)
    }

    fn collect_block(
        &self,
        structure: &Structure,
        unit: u64,
        request: &Request,
        tests: &[Test],
        batch: &mut Batch,
    ) -> Result<()> {
        let start = batch.places.len();
        let tested = tests.iter().map(|test| test.column);
        for column in tested.chain(request.columns.iter().copied()) {
            let place = &self.geometry.columns[column];
            let len = self.geometry.slots as u64 * u64::from(place.width);
            self.region().touch(self.pool.offset(unit) + place.values, len);
        }
        let mut slots = vec![];
        self.undisturbed(structure, unit, |block| {
            batch.places.truncate(start);
            batch.columns.iter_mut().for_each(|data| truncate(data, start));
            let mut selected: Vec<u64> = (0..self.geometry.words).map(|at| block.validity(at)).collect();
            for test in tests {
                test.select(block, &mut selected)?;
            }
            slots.clear();
            for (at, word) in selected.iter().enumerate() {
                let mut rest = *word;
                while rest != 0 {
                    slots.push(at * 64 + rest.trailing_zeros() as usize);
                    rest &= rest - 1;
                }
            }
            for (column, data) in request.columns.iter().zip(&mut batch.columns) {
                block.append(*column, &slots, data)?;
            }
            batch.places.extend(slots.iter().map(|slot| place(unit, *slot)));
            Ok(())
        })?;
        Ok(())
    }

    /// Collects rows from the tree's entries from a key on, up to the end of the rows with one key prefix. Returns where to
    /// go on.
    fn next_entries(
        &self,
        from: Key,
        last: u64,
        request: &Request,
        tests: &[Test],
        batch: &mut Batch,
        report: &mut ScanReport,
    ) -> Result<Option<Key>> {
        let structure = self.structure.read();
        let (mut next, mut entries, mut text) = (Some(from), vec![], vec![]);
        let mut seen = None;
        while let Some(start) = next {
            // Rows with one prefix are read under one lock, or a block that is split would show some of them twice.
            let is_new_prefix = seen.is_none_or(|seen| seen < start.0);
            if batch.places.len() >= BATCH_ROWS && is_new_prefix {
                return Ok(next);
            }
            next = self.tree.batch(start, last, &mut entries)?;
            report.entries += entries.len() as u64;
            for (number, (prefix, at)) in entries.iter().enumerate() {
                seen = Some(*prefix);
                if let Some((_, ahead)) = entries.get(number + ROWS_AHEAD) {
                    let read = tests.iter().map(|test| test.column).chain(request.columns.iter().copied());
                    self.prefetch_row(&structure, *ahead, read);
                }
                self.collect_row(&structure, *at, request, tests, &mut text, batch)?;
            }
        }
        Ok(None)
    }

    fn collect_row(
        &self,
        structure: &Structure,
        at: Place,
        request: &Request,
        tests: &[Test],
        text: &mut Vec<u8>,
        batch: &mut Batch,
    ) -> Result<()> {
        let (start, slot) = (batch.places.len(), slot_of(at));
        let passed = self.undisturbed(structure, unit_of(at), |block| {
            batch.columns.iter_mut().for_each(|data| truncate(data, start));
            if slot >= self.geometry.slots || !block.is_valid(slot) {
                return Ok(false);
            }
            for test in tests {
                self.region().touch(block.start + self.geometry.columns[test.column].value(slot), 8);
                if !test.passes(block, slot, text)? {
                    return Ok(false);
                }
            }
            for (column, data) in request.columns.iter().zip(&mut batch.columns) {
                self.region().touch(block.start + self.geometry.columns[*column].value(slot), 8);
                block.append(*column, &[slot], data)?;
            }
            Ok(true)
        })?;
        if passed == Some(true) {
            batch.places.push(at);
        }
        Ok(())
    }
}

/// The largest clustering key that rows of a block can have.
fn high_key(structure: &Structure, at: super::super::directory::Position) -> u64 {
    match structure.blocks.next_key(at) {
        // The next block may have the same key.
        Some((key, 0)) => key.saturating_sub(1),
        Some((key, _)) => key,
        None => u64::MAX,
    }
}
