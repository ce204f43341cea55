//! External merge sort: sorted runs in temporary files, and their merge into one order.
//!
//! [`Runs`] takes parts of the rows, each sorted separately, and writes each to a file. [`Runs::merge`] returns all
//! rows in one order, a bounded number at a time. A key is one or more columns of the rows, compared as sort columns
//! are. A computed key is an additional column, which the caller removes again.
//!
//! A run is not part of the database's format. Only the process that wrote it reads it, and on a disk its file has no
//! name any more when the run is complete. Files of a killed process are removed with other orphans.

use std::cmp::Ordering;
use std::io::ErrorKind;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64};

use freestone_codec::Kind;

use crate::bitmap;
use crate::column::{ColumnData, Physical};
use crate::error::{Result, StoreError};
use crate::media::{ReadFile, WriteFile};
use crate::page::checksum;
use crate::table::Resources;

/// The folder of runs that are being written.
pub(super) const FOLDER: &str = "temporary/";

/// The name of a run's file while it is written.
pub(super) fn run_file(id: u64) -> String {
    format!("{FOLDER}{id:016x}.run")
}

/// The size of a block, which is read from a run at once, in bytes.
const BLOCK_BYTES: RangeInclusive<usize> = 64 << 10..=1 << 20;
/// The number of runs that are merged at once, if memory allows larger blocks than the smallest.
const USUAL_FAN_IN: usize = 64;
/// The number of rows whose positions are collected before they are copied.
const ROWS_A_STEP: usize = 1 << 16;

/// Sorted runs of one table's rows.
#[derive(Debug)]
pub(super) struct Runs {
    resources: Arc<Resources>,
    next_id: Arc<AtomicU64>,
    kinds: Vec<Kind>,
    keys: Vec<usize>,
    block_bytes: usize,
    fan_in: usize,
    runs: Vec<Run>,
}

/// A run to be read. The handle keeps the file alive, which has no name.
#[derive(Debug)]
struct Run {
    name: String,
    file: Arc<dyn ReadFile>,
    blocks: Vec<Range<u64>>,
    rows: u64,
}

impl Runs {
    /// Runs of rows with columns of `kinds`, in the order of the columns `keys`, whose merge uses about `memory_bytes`.
    /// `next_id` gives their file names.
    pub fn new(
        resources: Arc<Resources>,
        next_id: Arc<AtomicU64>,
        kinds: Vec<Kind>,
        keys: Vec<usize>,
        memory_bytes: usize,
    ) -> Runs {
        // A block is in memory twice while it is read: as bytes and as columns.
        let block_bytes = (memory_bytes / (2 * USUAL_FAN_IN)).clamp(*BLOCK_BYTES.start(), *BLOCK_BYTES.end());
        let fan_in = (memory_bytes / (2 * block_bytes)).max(2);
        Runs { resources, next_id, kinds, keys, block_bytes, fan_in, runs: vec![] }
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Writes rows, sorted by the keys, as a run. Equal rows of earlier runs stay before those of later ones.
    pub fn add(&mut self, sorted: &[ColumnData]) -> Result<()> {
        let rows = sorted.first().map_or(0, ColumnData::len);
        let bytes: usize = sorted.iter().map(ColumnData::byte_size).sum();
        let step = (self.block_bytes / (bytes / rows.max(1)).max(1)).max(1);
        let mut writer = self.writer()?;
        for start in (0..rows).step_by(step) {
            writer.push(sorted, start, step.min(rows - start))?;
        }
        self.runs.push(writer.finish()?);
        Ok(())
    }

    fn writer(&self) -> Result<RunWriter> {
        RunWriter::create(self.resources.clone(), &self.next_id)
    }

    /// All rows in one order. If there are more runs than may be open at once, adjacent ones are first merged into
    /// longer runs.
    pub fn merge(mut self) -> Result<Merge> {
        while self.runs.len() > self.fan_in {
            let mut longer = Vec::with_capacity(self.runs.len().div_ceil(self.fan_in));
            let mut runs = std::mem::take(&mut self.runs).into_iter();
            while runs.len() > 0 {
                let together: Vec<Run> = runs.by_ref().take(self.fan_in).collect();
                let mut merge = Merge::new(self.kinds.clone(), self.keys.clone(), together)?;
                let mut writer = self.writer()?;
                while let Some(columns) = merge.next(usize::MAX, self.block_bytes)? {
                    writer.push(&columns, 0, columns.first().map_or(0, ColumnData::len))?;
                }
                longer.push(writer.finish()?);
            }
            self.runs = longer;
        }
        Merge::new(self.kinds, self.keys, self.runs)
    }
}

/// A run that is being written. If it is dropped before it is finished, it leaves nothing.
struct RunWriter {
    resources: Arc<Resources>,
    id: u64,
    name: String,
    file: Box<dyn WriteFile>,
    blocks: Vec<Range<u64>>,
    rows: u64,
    buffer: Vec<u8>,
}

impl RunWriter {
    fn create(resources: Arc<Resources>, next_id: &AtomicU64) -> Result<RunWriter> {
        loop {
            let id = next_id.fetch_add(1, atomic::Ordering::Relaxed);
            let name = run_file(id);
            resources.unnamed.lock().ids.insert(id);
            let file = match resources.medium.create(&name) {
                Ok(file) => file,
                Err(error) => {
                    resources.unnamed.lock().ids.remove(&id);
                    // A killed process left the file and could not clean up.
                    if error.kind() == Some(ErrorKind::AlreadyExists) {
                        continue;
                    }
                    return Err(error.into());
                }
            };
            return Ok(RunWriter { resources, id, name, file, blocks: vec![], rows: 0, buffer: vec![] });
        }
    }

    fn push(&mut self, columns: &[ColumnData], start: usize, rows: usize) -> Result<()> {
        self.buffer.clear();
        write_block(columns, start, rows, &mut self.buffer);
        let offset = self.file.len();
        self.file.append(&self.buffer)?;
        self.blocks.push(offset..offset + self.buffer.len() as u64);
        self.rows += rows as u64;
        Ok(())
    }

    fn finish(mut self) -> Result<Run> {
        let (blocks, rows) = (std::mem::take(&mut self.blocks), self.rows);
        Ok(Run { name: self.name.clone(), file: self.resources.medium.open(&self.name)?, blocks, rows })
    }
}

impl Drop for RunWriter {
    fn drop(&mut self) {
        // If it cannot be removed now, the next opening for writing removes it.
        let _ = self.resources.medium.remove(&self.name);
        self.resources.unnamed.lock().ids.remove(&self.id);
    }
}

/// The bytes of a block of rows:
///
/// ```text
/// 0 crc u32 of everything that follows    4 rows u32
/// then each column: has_validity u8, validity words u64 if so,
///     values (numbers), or the end of each in the data u32, and the data (bytes)
/// ```
fn write_block(columns: &[ColumnData], start: usize, rows: usize, out: &mut Vec<u8>) {
    out.extend([0; 4]);
    out.extend((rows as u32).to_le_bytes());
    let range = start..start + rows;
    for column in columns {
        out.push(u8::from(column.validity.is_some()));
        if let Some(validity) = &column.validity {
            out.extend(bitmap::extract(validity, start, rows).iter().flat_map(|word| word.to_le_bytes()));
        }
        match &column.values {
            Physical::Int(v) => out.extend(v[range.clone()].iter().flat_map(|v| v.to_le_bytes())),
            Physical::Wide(v) => out.extend(v[range.clone()].iter().flat_map(|v| v.to_le_bytes())),
            Physical::F64(v) => out.extend(v[range.clone()].iter().flat_map(|v| v.to_le_bytes())),
            Physical::F32(v) => out.extend(v[range.clone()].iter().flat_map(|v| v.to_le_bytes())),
            Physical::Bytes { offsets, data } => {
                let (low, high) = (offsets[start], offsets[range.end]);
                out.extend(offsets[start + 1..=range.end].iter().flat_map(|end| (end - low).to_le_bytes()));
                out.extend_from_slice(&data[low as usize..high as usize]);
            }
        }
    }
    let crc = checksum(&out[4..]);
    out[..4].copy_from_slice(&crc.to_le_bytes());
}

/// The columns of a block. `None` if the bytes are not those that were written.
fn read_block(kinds: &[Kind], bytes: &[u8]) -> Option<Vec<ColumnData>> {
    let mut rest = bytes;
    let crc = numbers(&mut rest, 1, u32::from_le_bytes)?[0];
    if crc != checksum(rest) {
        return None;
    }
    let rows = numbers(&mut rest, 1, u32::from_le_bytes)?[0] as usize;
    let mut columns = Vec::with_capacity(kinds.len());
    for kind in kinds {
        let has_validity = numbers(&mut rest, 1, u8::from_le_bytes)?[0] != 0;
        let validity =
            if has_validity { Some(numbers(&mut rest, bitmap::words(rows), u64::from_le_bytes)?) } else { None };
        let values = match kind {
            Kind::Int => Physical::Int(numbers(&mut rest, rows, i64::from_le_bytes)?),
            Kind::Wide => Physical::Wide(numbers(&mut rest, rows, i128::from_le_bytes)?),
            Kind::F64 => Physical::F64(numbers(&mut rest, rows, f64::from_le_bytes)?),
            Kind::F32 => Physical::F32(numbers(&mut rest, rows, f32::from_le_bytes)?),
            Kind::Bytes => {
                let mut offsets = Vec::with_capacity(rows + 1);
                offsets.push(0);
                offsets.extend(numbers(&mut rest, rows, u32::from_le_bytes)?);
                let data = numbers(&mut rest, *offsets.last()? as usize, u8::from_le_bytes)?;
                Physical::Bytes { offsets, data }
            }
        };
        columns.push(ColumnData { values, validity });
    }
    Some(columns)
}

fn numbers<T, const N: usize>(rest: &mut &[u8], count: usize, from: impl Fn([u8; N]) -> T) -> Option<Vec<T>> {
    let (bytes, after) = rest.split_at_checked(count.checked_mul(N)?)?;
    *rest = after;
    Some(bytes.as_chunks::<N>().0.iter().map(|bytes| from(*bytes)).collect())
}

/// The merge of runs into one order: a tournament between their next rows (Knuth's tree of losers).
#[derive(Debug)]
pub(super) struct Merge {
    kinds: Vec<Kind>,
    keys: Vec<usize>,
    heads: Vec<Head>,
    /// Element 0 is the winner, the run with the smallest row. Every other node is the loser of its match.
    tree: Vec<usize>,
}

/// The current block of a run, and its next row.
#[derive(Debug)]
struct Head {
    run: Run,
    next_block: usize,
    columns: Vec<ColumnData>,
    /// The prefix of each row's first key, which decides most comparisons.
    prefixes: Vec<u64>,
    row: usize,
    /// The mean bytes of a row of the block.
    row_bytes: usize,
}

/// Marks a run that has not played yet. It wins against all others.
const NOBODY: usize = usize::MAX;

impl Merge {
    fn new(kinds: Vec<Kind>, keys: Vec<usize>, runs: Vec<Run>) -> Result<Merge> {
        let head = |run| Head { run, next_block: 0, columns: vec![], prefixes: vec![], row: 0, row_bytes: 0 };
        let heads: Vec<Head> = runs.into_iter().filter(|run| run.rows > 0).map(head).collect();
        let count = heads.len();
        let mut merge = Merge { kinds, keys, heads, tree: vec![NOBODY; count] };
        for at in 0..count {
            merge.refill(at)?;
        }
        for at in (0..count).rev() {
            merge.play(at);
        }
        Ok(merge)
    }

    /// The next rows: up to `rows_max`, or fewer that take about `bytes_max`. `None` after the last.
    pub fn next(&mut self, rows_max: usize, bytes_max: usize) -> Result<Option<Vec<ColumnData>>> {
        let mut out: Vec<ColumnData> = self.kinds.iter().map(|kind| ColumnData::new(*kind)).collect();
        let mut picked: Vec<(u32, u32)> = vec![];
        let (mut rows, mut bytes) = (0, 0);
        while rows < rows_max && bytes < bytes_max {
            let Some(winner) = self.tree.first().copied().filter(|at| self.heads[*at].is_there()) else { break };
            let head = &mut self.heads[winner];
            picked.push((winner as u32, head.row as u32));
            head.row += 1;
            rows += 1;
            bytes += head.row_bytes;
            let block_ends = !head.is_there();
            if block_ends || picked.len() >= ROWS_A_STEP {
                self.copy(&mut picked, &mut out);
            }
            if block_ends {
                self.refill(winner)?;
            }
            self.play(winner);
        }
        self.copy(&mut picked, &mut out);
        Ok((rows > 0).then_some(out))
    }

    fn copy(&self, picked: &mut Vec<(u32, u32)>, out: &mut [ColumnData]) {
        for (at, column) in out.iter_mut().enumerate() {
            // A run at its end has no columns, and none of its rows was selected.
            static NONE: ColumnData = ColumnData { values: Physical::Int(vec![]), validity: None };
            let sources: Vec<&ColumnData> =
                self.heads.iter().map(|head| head.columns.get(at).unwrap_or(&NONE)).collect();
            column.gather(&sources, picked);
        }
        picked.clear();
    }

    /// Reads a run's next block. A run without another block is at its end.
    fn refill(&mut self, at: usize) -> Result<()> {
        let head = &mut self.heads[at];
        (head.row, head.columns, head.prefixes) = (0, vec![], vec![]);
        let Some(place) = head.run.blocks.get(head.next_block) else { return Ok(()) };
        let mut bytes = vec![0; (place.end - place.start) as usize];
        head.run.file.read_at(place.start, &mut bytes)?;
        head.columns = read_block(&self.kinds, &bytes).ok_or_else(|| {
            let reason = format!("block {} is not what was written: the disk or the memory fails", head.next_block);
            StoreError::Corrupt { file: head.run.name.clone(), reason }
        })?;
        head.next_block += 1;
        let rows = head.columns.first().map_or(0, ColumnData::len);
        head.row_bytes = head.columns.iter().map(ColumnData::byte_size).sum::<usize>() / rows.max(1);
        if let Some(key) = self.keys.first() {
            head.prefixes = (0..rows).map(|row| head.columns[*key].order_prefix(row)).collect();
        }
        Ok(())
    }

    /// Plays the matches of a run's next row, from its leaf to the root.
    fn play(&mut self, run: usize) {
        let (mut winner, mut node) = (run, (run + self.heads.len()) / 2);
        while node > 0 {
            if self.is_before(self.tree[node], winner) {
                std::mem::swap(&mut self.tree[node], &mut winner);
            }
            node /= 2;
        }
        self.tree[0] = winner;
    }

    fn is_before(&self, a: usize, b: usize) -> bool {
        if a == NOBODY || b == NOBODY {
            return a == NOBODY;
        }
        let (left, right) = (&self.heads[a], &self.heads[b]);
        if !left.is_there() || !right.is_there() {
            return left.is_there();
        }
        let prefixes = left.prefixes.get(left.row).cmp(&right.prefixes.get(right.row));
        let compared = || {
            let compare = |key: &usize| left.columns[*key].compare_with(left.row, &right.columns[*key], right.row);
            self.keys.iter().map(compare).find(|order| *order != Ordering::Equal)
        };
        prefixes.then_with(|| compared().unwrap_or(Ordering::Equal)).then(a.cmp(&b)) == Ordering::Less
    }
}

impl Head {
    fn is_there(&self) -> bool {
        self.columns.first().is_some_and(|column| self.row < column.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::media::{Medium, Memory};

    type Row = (Option<i64>, Option<Vec<u8>>, f64);

    const KINDS: [Kind; 4] = [Kind::Int, Kind::Bytes, Kind::F64, Kind::Wide];

    fn validity<T>(values: &[Option<T>]) -> Option<Vec<u64>> {
        let mut bits = vec![0; bitmap::words(values.len())];
        values.iter().enumerate().filter(|(_, value)| value.is_some()).for_each(|(at, _)| bitmap::set(&mut bits, at));
        values.iter().any(Option::is_none).then_some(bits)
    }

    /// The rows as columns, and their position among all rows as one more column.
    fn columns(rows: &[Row], first: usize) -> Vec<ColumnData> {
        let ints: Vec<Option<i64>> = rows.iter().map(|row| row.0).collect();
        let texts: Vec<Option<Vec<u8>>> = rows.iter().map(|row| row.1.clone()).collect();
        let (mut offsets, mut data) = (vec![0], vec![]);
        for text in &texts {
            data.extend_from_slice(text.as_deref().unwrap_or_default());
            offsets.push(data.len() as u32);
        }
        let places = (first..first + rows.len()).map(|place| (place as i128) << 70).collect();
        vec![
            ColumnData {
                values: Physical::Int(ints.iter().map(|v| v.unwrap_or(0)).collect()),
                validity: validity(&ints),
            },
            ColumnData { values: Physical::Bytes { offsets, data }, validity: validity(&texts) },
            ColumnData { values: Physical::F64(rows.iter().map(|row| row.2).collect()), validity: None },
            ColumnData { values: Physical::Wide(places), validity: None },
        ]
    }

    fn runs(medium: Arc<Memory>, keys: &[usize]) -> Runs {
        let resources = Arc::new(Resources::new(medium, 0));
        let mut runs = Runs::new(resources, Arc::default(), KINDS.to_vec(), keys.to_vec(), 0);
        // Blocks of few rows, and merges of few runs, so that few rows need several of both.
        (runs.block_bytes, runs.fan_in) = (100, 3);
        runs
    }

    /// The positions of all rows, sorted in parts and merged, `rows_max` at a time.
    fn merged(pieces: &[Vec<Row>], keys: &[usize], rows_max: usize) -> Vec<usize> {
        let medium = Arc::new(Memory::new());
        let mut runs = runs(medium.clone(), keys);
        let mut first = 0;
        for piece in pieces {
            let columns = columns(piece, first);
            let mut order: Vec<u32> = (0..piece.len() as u32).collect();
            order.sort_by(|a, b| {
                let compared = keys.iter().map(|key| columns[*key].compare(*a as usize, *b as usize));
                compared.fold(Ordering::Equal, Ordering::then)
            });
            runs.add(&columns.iter().map(|column| column.permute(&order)).collect::<Vec<_>>()).unwrap();
            first += piece.len();
        }
        let mut merge = runs.merge().unwrap();
        let mut places = vec![];
        while let Some(columns) = merge.next(rows_max, usize::MAX).unwrap() {
            let [_, _, _, ColumnData { values: Physical::Wide(found), .. }] = &columns[..] else { panic!("four") };
            assert!(columns.iter().all(|column| column.len() == found.len()) && found.len() <= rows_max);
            places.extend(found.iter().map(|place| (place >> 70) as usize));
            // The output has exactly the rows of the input.
            let all: Vec<&Row> = pieces.iter().flatten().collect();
            for (at, place) in found.iter().map(|place| (place >> 70) as usize).enumerate() {
                let expected = self::columns(&[all[place].clone()], place);
                for (column, expected) in columns.iter().zip(&expected) {
                    assert_eq!(column.compare_with(at, expected, 0), Ordering::Equal);
                }
            }
        }
        assert_eq!(medium.list(FOLDER).unwrap(), Vec::<String>::new(), "runs have no names");
        places
    }

    fn row() -> impl Strategy<Value = Row> {
        let text = prop::collection::vec(prop::sample::select(vec![0u8, b'a', 255]), 0..12);
        (prop::option::of(-2i64..3), prop::option::of(text), prop::num::f64::ANY)
    }

    proptest! {
        #[test]
        fn merged_runs_are_one_stable_order(
            pieces in prop::collection::vec(prop::collection::vec(row(), 0..40), 0..12),
            keys in prop::sample::select(vec![vec![0], vec![1], vec![2], vec![0, 1], vec![1, 2], vec![2, 0], vec![3]]),
            rows_max in 1usize..100,
        ) {
            let all: Vec<Row> = pieces.iter().flatten().cloned().collect();
            let columns = columns(&all, 0);
            let mut expected: Vec<usize> = (0..all.len()).collect();
            expected.sort_by(|a, b| {
                keys.iter().map(|key| columns[*key].compare(*a, *b)).fold(Ordering::Equal, Ordering::then)
            });
            prop_assert_eq!(merged(&pieces, &keys, rows_max), expected);
        }
    }

    #[test]
    fn a_damaged_block_is_an_error() {
        let mut bytes = vec![];
        write_block(&columns(&[(Some(1), None, 0.5), (None, Some(b"abc".to_vec()), 1.0)], 0), 0, 2, &mut bytes);
        assert!(read_block(&KINDS, &bytes).is_some());
        for at in 0..bytes.len() {
            bytes[at] ^= 16;
            assert!(read_block(&KINDS, &bytes).is_none(), "byte {at}");
            assert!(read_block(&KINDS, &bytes[..at]).is_none(), "{at} bytes");
            bytes[at] ^= 16;
        }
    }
}
