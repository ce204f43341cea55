//! The paper's scanners (Holloway and DeWitt 2008, section 5.3): rows tuple by tuple, columns with position lists. Both
//! write un-encoded tuples to a block, which nobody keeps.

use std::hint::black_box;

use super::bits::{mask, read};
use super::page::{FIRST_BIT, Form, Layout, TEXT_BYTES, count, dictionary_ends, int};
use crate::error::Result;
use crate::experiments::ScanSettings;
use crate::experiments::page_file::{PageFile, Pages};
use crate::experiments::scanner::{Pick, Query};

/// A predicate `column >= value`.
#[derive(Debug, Clone)]
enum Predicate {
    /// The comparison is made, but every k-th call passes (section 4.4).
    Calls { step: u32, phase: u32, passes_all: bool },
    /// The value that passes, and those above it (section 6.9).
    AtLeast(i32),
}

impl Predicate {
    /// The predicates of a query, one for each of its first columns.
    fn all(query: &Query) -> Vec<Predicate> {
        match &query.pick {
            Pick::Calls { predicates, selectivity } => {
                let share = selectivity.powf(1.0 / (*predicates).max(1) as f64);
                let step = (share * f64::from(u32::MAX)) as u32;
                vec![Predicate::Calls { step, phase: 1 << 31, passes_all: share >= 1.0 }; *predicates]
            }
            Pick::AtLeast(least) => vec![Predicate::AtLeast(*least)],
            Pick::All | Pick::Positions { .. } => vec![],
        }
    }

    #[inline(always)]
    fn passes(&mut self, value: &[u8]) -> bool {
        match self {
            Predicate::AtLeast(least) => int(value, 0) as i32 >= *least,
            Predicate::Calls { step, phase, passes_all } => {
                match value.len() {
                    4 => _ = black_box(int(value, 0) >= black_box(0)),
                    _ => _ = black_box(value >= black_box(&b"m"[..])),
                }
                let (next, passes) = phase.overflowing_add(*step);
                *phase = next;
                passes || *passes_all
            }
        }
    }
}

/// The materialized tuples, in a buffer that fits the first cache.
struct Block<'t> {
    tuples: Vec<u8>,
    width: usize,
    rows_max: usize,
    take: &'t mut dyn FnMut(&[u8]) -> Result<()>,
}

impl Block<'_> {
    #[inline(always)]
    fn push(&mut self, tuple: &[u8]) -> Result<()> {
        self.tuples.extend_from_slice(tuple);
        if self.tuples.len() == self.rows_max * self.width { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        (self.take)(black_box(&self.tuples))?;
        self.tuples.clear();
        Ok(())
    }
}

/// Where a used column is in a tuple of a page.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// In the difference: bits to drop, and bits to keep.
    Leading(u32, u32),
    /// Behind it: the first bit and the number of bits.
    Packed(u32, u32),
    Int(u32),
    Text(u32),
    /// As `Packed`, and the number of the dictionary.
    Dictionary(u32, u32, usize),
}

impl Place {
    fn of(layout: &Layout, column: usize) -> Place {
        let at = layout.offsets()[column];
        match layout.columns[column] {
            Form::Packed(bits) if column < layout.delta => Place::Leading(layout.delta_bits() - at - bits, bits),
            Form::Packed(bits) => Place::Packed(at, bits),
            Form::Text => Place::Text(at),
            Form::Dictionary(bits) => Place::Dictionary(at, bits, layout.dictionaries()[column].unwrap_or(0)),
            Form::Int | Form::Runs(_) => Place::Int(at),
        }
    }

    /// Decodes the value of a tuple that begins at bit `at`.
    #[inline(always)]
    fn decode(self, page: &[u8], leading: u64, at: usize, ends: &[usize], out: &mut [u8]) {
        let value = match self {
            Place::Leading(drop, bits) => (leading >> drop & mask(bits)) as u32 + 1,
            Place::Packed(offset, bits) => read(page, at + offset as usize, bits) as u32 + 1,
            Place::Int(offset) => read(page, at + offset as usize, 32) as u32,
            Place::Dictionary(offset, bits, dictionary) => {
                let code = read(page, at + offset as usize, bits) as usize;
                int(page, ends[dictionary] - 4 * (code + 1))
            }
            Place::Text(offset) => {
                let from = (at + offset as usize) / 8;
                return out[..TEXT_BYTES].copy_from_slice(&page[from..from + TEXT_BYTES]);
            }
        };
        out[..4].copy_from_slice(&value.to_le_bytes());
    }
}

/// The parameters of a scan.
pub struct Scan<'t> {
    pub is_cold: bool,
    pub settings: ScanSettings,
    /// Takes each block of tuples. Its error ends the scan.
    pub take: &'t mut dyn FnMut(&[u8]) -> Result<()>,
}

impl Scan<'_> {
    fn block(&mut self, width: usize) -> Block<'_> {
        let rows_max = self.settings.block_rows;
        Block { tuples: Vec::with_capacity(rows_max * width), width, rows_max, take: self.take }
    }
}

/// For each column of the query, its bytes in the output's tuple.
fn outputs(query: &Query, width: impl Fn(usize) -> usize) -> Vec<std::ops::Range<usize>> {
    let mut at = 0;
    let place = |column: &usize| {
        let start = at;
        at += width(*column);
        start..at
    };
    query.columns.iter().map(place).collect()
}

/// Scans rows: iterates over the tuples of each page, decodes the used columns, tests the predicates, and copies the
/// tuple if it passes.
///
/// # Errors
/// The file cannot be read, or `take` fails.
pub fn rows(file: &PageFile, layout: &Layout, query: &Query, mut scan: Scan<'_>) -> Result<()> {
    let outputs = outputs(query, |column| layout.columns[column].width());
    let places: Vec<Place> = query.columns.iter().map(|column| Place::of(layout, *column)).collect();
    let mut predicates = Predicate::all(query);
    let mut pages = file.pages(scan.is_cold);
    let mut block = scan.block(outputs.last().map_or(0, |last| last.end));
    let (delta_bits, zeros_bits) = (layout.delta_bits(), layout.zeros_bits());
    let fixed_bits = layout.fixed_bits() as usize;
    let mut tuple = vec![0; block.width];
    let mut ends = vec![];
    while pages.advance()? {
        let page = pages.page();
        dictionary_ends(page, layout, &mut ends);
        let (mut at, mut leading) = (FIRST_BIT, 0u64);
        'tuples: for row in 0..count(page) {
            if delta_bits > 0 {
                // Every tuple's difference is decoded, as it says where the next tuple begins.
                let length = match row {
                    0 => delta_bits,
                    _ => delta_bits - read(page, at, zeros_bits) as u32,
                };
                at += if row == 0 { 0 } else { zeros_bits as usize };
                leading = leading.wrapping_add(read(page, at, length));
                at += length as usize;
            }
            for (place, output) in places.iter().zip(&outputs) {
                place.decode(page, leading, at, &ends, &mut tuple[output.clone()]);
            }
            at += fixed_bits;
            for (predicate, output) in predicates.iter_mut().zip(&outputs) {
                if !predicate.passes(&tuple[output.clone()]) {
                    continue 'tuples;
                }
            }
            block.push(&tuple)?;
        }
    }
    block.flush()
}

/// Reads the values of one column at ascending positions.
struct ColumnCursor<'f> {
    pages: Pages<'f>,
    layout: &'f Layout,
    place: Place,
    /// The bits of a value in a run's pair, for pages of runs.
    run_bits: Option<u32>,
    ends: Vec<usize>,
    /// The first row of the current page, or run, and the row behind it.
    rows: std::ops::Range<usize>,
    entry: usize,
    entries: usize,
    run_value: u32,
}

impl<'f> ColumnCursor<'f> {
    fn new(file: &'f PageFile, layout: &'f Layout, is_cold: bool) -> Self {
        let run_bits = match layout.columns[0] {
            Form::Runs(bits) => Some(bits),
            _ => None,
        };
        let (pages, place) = (file.pages(is_cold), Place::of(layout, 0));
        Self { pages, layout, place, run_bits, ends: vec![], rows: 0..0, entry: 0, entries: 0, run_value: 0 }
    }

    /// Decodes the value of a row into `out`. False at the end of the column.
    #[inline(always)]
    fn value(&mut self, row: usize, out: &mut [u8]) -> Result<bool> {
        while row >= self.rows.end {
            if !self.next()? {
                return Ok(false);
            }
        }
        if self.run_bits.is_some() {
            out.copy_from_slice(&self.run_value.to_le_bytes());
            return Ok(true);
        }
        let at = FIRST_BIT + (row - self.rows.start) * self.layout.fixed_bits() as usize;
        self.place.decode(self.pages.page(), 0, at, &self.ends, out);
        Ok(true)
    }

    /// Goes to the next page, or run.
    fn next(&mut self) -> Result<bool> {
        if self.entry == self.entries {
            if !self.pages.advance()? {
                return Ok(false);
            }
            (self.entry, self.entries) = (0, count(self.pages.page()));
            dictionary_ends(self.pages.page(), self.layout, &mut self.ends);
        }
        let start = self.rows.end;
        let Some(bits) = self.run_bits else {
            self.entry = self.entries;
            self.rows = start..start + self.entries;
            return Ok(true);
        };
        let pair = read(self.pages.page(), FIRST_BIT + 32 * self.entry, 32) as u32;
        self.entry += 1;
        self.run_value = (pair & mask(bits) as u32) + 1;
        self.rows = start..start + (pair >> bits) as usize;
        Ok(true)
    }
}

/// Scans columns: the first one until a block of positions has passed its predicate, and each further one at these
/// positions only.
///
/// # Errors
/// A file cannot be read, or `take` fails.
pub fn columns(files: &[(PageFile, Layout)], query: &Query, mut scan: Scan<'_>) -> Result<()> {
    let outputs = outputs(query, |column| files[column].1.columns[0].width());
    let open = |column: &usize| ColumnCursor::new(&files[*column].0, &files[*column].1, scan.is_cold);
    let mut cursors: Vec<ColumnCursor<'_>> = query.columns.iter().map(open).collect();
    let mut predicates = Predicate::all(query);
    let mut block = scan.block(outputs.last().map_or(0, |last| last.end));
    let (width, rows_max) = (block.width, block.rows_max);
    let mut tuples = vec![0u8; rows_max * width];
    let mut positions: Vec<usize> = Vec::with_capacity(rows_max);
    let mut row = 0;
    let mut is_open = !cursors.is_empty();
    while is_open {
        positions.clear();
        while positions.len() < rows_max {
            let out = &mut tuples[positions.len() * width..][outputs[0].clone()];
            if !cursors[0].value(row, out)? {
                is_open = false;
                break;
            }
            if predicates.first_mut().is_none_or(|predicate| predicate.passes(out)) {
                positions.push(row);
            }
            row += 1;
        }
        for (at, cursor) in cursors.iter_mut().enumerate().skip(1) {
            let mut kept = 0;
            for from in 0..positions.len() {
                let out = &mut tuples[from * width..][outputs[at].clone()];
                cursor.value(positions[from], out)?;
                if predicates.get_mut(at).is_none_or(|predicate| predicate.passes(out)) {
                    if kept < from {
                        tuples.copy_within(from * width..(from + 1) * width, kept * width);
                        positions[kept] = positions[from];
                    }
                    kept += 1;
                }
            }
            positions.truncate(kept);
        }
        tuples.chunks_exact(width).take(positions.len()).try_for_each(|tuple| block.push(tuple))?;
    }
    block.flush()
}
