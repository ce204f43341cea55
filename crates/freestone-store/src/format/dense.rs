//! Dense pages: super tuples (Halverson et al. 2006, section 2.1; Holloway and DeWitt 2008, section 5.2). Bit-aligned
//! tuples without headers or slots, encodings inside the tuple, dictionaries per page, differences between tuples of a
//! sorted prefix, and leading sort columns stored once per run (column abstraction, Halverson et al. 2006, section
//! 2.2).
//!
//! ```text
//! offset size field
//!      0    2 fields (columns of the group)
//!      2    1 levels: abstracted columns
//!      3    1 prefix: columns whose concatenated codes are stored as a difference from the previous tuple
//!      4    4 offset of the tuples
//!      8    4 offset of the levels
//!     12    4 offset of the heap
//!     16    4 offset of the dictionaries, which end the payload
//!     20      directory: bit fields, least significant bit first, one field after the other:
//!               3 kind, 1 has NULLs, 8 width w, then by kind
//!               0 frame of reference: reference
//!               1 page dictionary:    16 entries, 7 entry width, reference of the entries, 32 first bit
//!               2 bytes:              reference of the lengths, 32 heap offset
//!               3 level:              5 its position among the levels, reference
//!               4 prefix:             5 its position in the prefix, reference
//!               5 raw, 128 bits
//!             a reference: 8 bits n, then n bits of its zigzag form
//! tuples      per tuple: the prefix, then per field in directory order its NULL bit (if it has NULLs) and w bits
//!             prefix: of the first tuple all W bits; of the others the leading zeros of the difference in
//!             width(W) bits, then the difference below its highest 1 bit (Holloway and DeWitt 2008, section 3.2)
//! levels      per level, outermost first: 32 entries n, 6 width c, then n × w value codes, n × c counts of entries in
//!             the next level (of tuples in the last); each level starts at a byte boundary
//! heap        per bytes field the strings of all tuples, concatenated
//! ```

use std::borrow::Cow;

use freestone_codec::bits::{self, BitWriter};
use freestone_codec::{BytesSlice, IntTarget, IntTest, Predicate, Rows, Shared};

use super::field;
use crate::bitmap;

const HEADER: usize = 20;

/// A column of a group after its segment-level transform, the input of the dense writer.
#[derive(Debug)]
pub struct DenseColumn<'a> {
    /// The values.
    pub values: DenseValues<'a>,
    /// A bit per row, which is set if the row is not NULL. `None`: no row is NULL.
    pub validity: Option<&'a [u64]>,
    /// Whether a dictionary per page may be smaller.
    pub page_dictionary: bool,
    /// The bits of a number in its natural width, if values are not to be compressed: neither by fewer bits, nor by a
    /// dictionary or differences.
    pub whole_bits: Option<u32>,
}

/// The values of a column, by kind.
#[derive(Debug)]
pub enum DenseValues<'a> {
    /// Integers, dictionary codes, or floats by their order keys.
    Int(Cow<'a, [i64]>),
    /// Integers of 128 bits.
    Wide(&'a [i128]),
    /// Strings.
    Bytes(BytesSlice<'a>),
}

/// Writes the pages of one group.
#[derive(Debug)]
pub struct DenseWriter<'a> {
    /// The columns of the group.
    pub columns: Vec<DenseColumn<'a>>,
    /// Abstracted columns, in sort order (positions in the group).
    pub levels: Vec<usize>,
    /// Sorted columns after the levels: candidates for the delta-coded prefix.
    pub prefix: Vec<usize>,
}

/// The representation of one column on one page.
#[derive(Debug, Clone, PartialEq)]
enum Field {
    Reference { width: u32, reference: i128 },
    PageDictionary { width: u32, entries: u32, entry_width: u32, reference: i128, first_bit: u32 },
    Bytes { width: u32, reference: i128, heap: u32 },
    Level { width: u32, reference: i128, place: u32 },
    Prefix { width: u32, reference: i128, place: u32 },
    Raw,
}

impl Field {
    /// The bits of the field in each tuple, without its NULL bit.
    fn tuple_bits(&self) -> u32 {
        match self {
            Field::Reference { width, .. } | Field::PageDictionary { width, .. } | Field::Bytes { width, .. } => *width,
            Field::Level { .. } | Field::Prefix { .. } => 0,
            Field::Raw => 128,
        }
    }
}

/// A column's codes on one page while it is written.
struct PageColumn {
    field: Field,
    /// One per row; empty for raw fields.
    codes: Vec<u64>,
    /// Bit `i` of word `i / 64` is set if row `i` of the page is not NULL. `None` if no row is NULL.
    validity: Option<Vec<u64>>,
    dictionary: Vec<i128>,
}

impl DenseWriter<'_> {
    /// Appends the payload of a page with rows `start .. start + rows`.
    pub fn encode(&self, start: usize, rows: usize, out: &mut Vec<u8>) {
        let mut columns: Vec<PageColumn> = self.columns.iter().map(|c| c.on_page(start, rows)).collect();
        let levels = self.abstract_levels(&mut columns, rows);
        let (tuples_seen, level_bytes) = levels;
        debug_assert_eq!(tuples_seen, rows);
        let prefix = self.choose_prefix(&mut columns, rows);
        let (heap, dictionaries) = self.lay_out(&mut columns, start, rows);
        let tuples = write_tuples(&columns, prefix.as_ref(), rows, |column, row| self.columns[column].raw(start + row));
        let directory = write_directory(&columns);
        let base = out.len();
        let tuples_at = HEADER + directory.len();
        let levels_at = tuples_at + tuples.len();
        let heap_at = levels_at + level_bytes.len();
        let dictionaries_at = heap_at + heap.len();
        out.extend_from_slice(&(columns.len() as u16).to_le_bytes());
        out.push(self.levels.len() as u8);
        out.push(prefix.as_ref().map_or(0, |p| p.columns) as u8);
        for offset in [tuples_at, levels_at, heap_at, dictionaries_at] {
            out.extend_from_slice(&(offset as u32).to_le_bytes());
        }
        for part in [&directory, &tuples, &level_bytes, &heap, &dictionaries] {
            out.extend_from_slice(part);
        }
        debug_assert_eq!(out.len() - base, dictionaries_at + dictionaries.len());
    }

    /// Replaces the level columns' codes by nested runs.
    fn abstract_levels(&self, columns: &mut [PageColumn], rows: usize) -> (usize, Vec<u8>) {
        // A run of level j starts where any of the levels 0..=j changes.
        let mut starts: Vec<usize> = vec![];
        let mut bytes = vec![];
        let mut run_starts = vec![];
        for (place, &column) in self.levels.iter().enumerate() {
            let codes = &columns[column].codes;
            let mut is_start = vec![false; rows];
            starts.iter().for_each(|s| is_start[*s] = true);
            for row in 0..rows {
                is_start[row] |= row == 0 || codes[row] != codes[row - 1];
            }
            starts = (0..rows).filter(|r| is_start[*r]).collect();
            run_starts.push(starts.clone());
            let page_column = &mut columns[column];
            if let Field::Reference { width, reference } = page_column.field {
                page_column.field = Field::Level { width, reference, place: place as u32 };
            }
        }
        for (place, &column) in self.levels.iter().enumerate() {
            let own = &run_starts[place];
            let below: Vec<usize> = run_starts.get(place + 1).cloned().unwrap_or_else(|| (0..rows).collect());
            let mut counts = Vec::with_capacity(own.len());
            let mut at = 0;
            for i in 0..own.len() {
                let end = own.get(i + 1).copied().unwrap_or(rows);
                let first = at;
                while at < below.len() && below[at] < end {
                    at += 1;
                }
                counts.push((at - first) as u64);
            }
            let Field::Level { width, .. } = columns[column].field else { unreachable!("levels are integer codes") };
            let count_width = bits::width(counts.iter().copied().max().unwrap_or(0));
            let mut writer = BitWriter::new();
            writer.put(own.len() as u64, 32);
            writer.put(u64::from(count_width), 6);
            own.iter().for_each(|s| writer.put(columns[column].codes[*s], width));
            counts.iter().for_each(|c| writer.put(*c, count_width));
            bytes.extend(writer.finish());
        }
        (rows, bytes)
    }

    /// Chooses how many prefix columns are stored as differences: the number that saves most, if any does.
    fn choose_prefix(&self, columns: &mut [PageColumn], rows: usize) -> Option<Prefix> {
        let (mut joined, mut total) = (vec![0u64; rows], 0);
        let mut best: Option<(i64, Prefix)> = None;
        for (k, &column) in self.prefix.iter().enumerate() {
            let page_column = &columns[column];
            let Field::Reference { width, .. } = page_column.field else { break };
            if self.columns[column].whole_bits.is_some() {
                break;
            }
            if page_column.validity.is_some() || total + width > 64 {
                break;
            }
            total += width;
            for (code, add) in joined.iter_mut().zip(&page_column.codes) {
                *code = if width == 64 { *add } else { *code << width | add };
            }
            if joined.is_sorted() {
                let leading = bits::width(u64::from(total));
                let differences: i64 = joined.windows(2).map(|w| i64::from(difference_bits(w[1] - w[0]))).sum();
                let cost = differences + i64::from(leading) * (rows as i64 - 1);
                let saved = i64::from(total) * (rows as i64 - 1) - cost;
                if saved > 0 && best.as_ref().is_none_or(|(most, _)| saved > *most) {
                    best = Some((saved, Prefix { columns: k + 1, width: total, codes: joined.clone() }));
                }
            } else {
                break;
            }
        }
        let (_, prefix) = best?;
        for (place, &column) in self.prefix[..prefix.columns].iter().enumerate() {
            if let Field::Reference { width, reference } = columns[column].field {
                columns[column].field = Field::Prefix { width, reference, place: place as u32 };
            }
        }
        Some(prefix)
    }

    /// Writes heap and dictionaries, and stores their offsets in the fields.
    fn lay_out(&self, columns: &mut [PageColumn], start: usize, rows: usize) -> (Vec<u8>, Vec<u8>) {
        let (mut heap, mut dictionaries) = (vec![], BitWriter::new());
        for (column, page_column) in self.columns.iter().zip(columns) {
            match &mut page_column.field {
                Field::Bytes { heap: at, .. } => {
                    *at = heap.len() as u32;
                    let DenseValues::Bytes(values) = &column.values else { continue };
                    for row in 0..rows {
                        if page_column.validity.as_ref().is_none_or(|v| bitmap::get(v, row)) {
                            heap.extend_from_slice(values.get(start + row));
                        }
                    }
                }
                Field::PageDictionary { entry_width, reference, first_bit, .. } => {
                    *first_bit = dictionaries.bits() as u32;
                    page_column.dictionary.iter().for_each(|v| dictionaries.put((v - *reference) as u64, *entry_width));
                }
                _ => {}
            }
        }
        (heap, dictionaries.finish())
    }
}

impl DenseColumn<'_> {
    fn on_page(&self, start: usize, rows: usize) -> PageColumn {
        let validity = self.validity.map(|v| bitmap::extract(v, start, rows));
        let validity = validity.filter(|v| bitmap::count(v) < rows);
        let valid = |row: usize| validity.as_ref().is_none_or(|v| bitmap::get(v, row));
        let mut dictionary = vec![];
        let (field, codes) = match &self.values {
            DenseValues::Int(values) => {
                let values = &values[start..start + rows];
                let range = int_range(values, validity.as_deref());
                let (width, range) = match self.whole_bits {
                    Some(bits) => whole_width(bits, range),
                    None => (bits::width(range.1.wrapping_sub(range.0) as u64), range),
                };
                let entries = if self.page_dictionary { page_dictionary(values, width, range.0, &valid) } else { None };
                match entries {
                    Some(entries) => {
                        let code = |v: i64| entries.binary_search(&v).expect("every value is an entry") as u64;
                        let codes = (0..rows).map(|r| if valid(r) { code(values[r]) } else { 0 }).collect();
                        let field = Field::PageDictionary {
                            width: bits::width(entries.len() as u64 - 1),
                            entries: entries.len() as u32,
                            entry_width: width,
                            reference: range.0.into(),
                            first_bit: 0,
                        };
                        dictionary = entries.into_iter().map(i128::from).collect();
                        (field, codes)
                    }
                    None => {
                        let code = |r: usize| if valid(r) { values[r].wrapping_sub(range.0) as u64 } else { 0 };
                        (Field::Reference { width, reference: range.0.into() }, (0..rows).map(code).collect())
                    }
                }
            }
            DenseValues::Wide(values) => {
                let values = &values[start..start + rows];
                let range = (0..rows).filter(|r| valid(*r)).map(|r| values[r]);
                let range = range.fold(None, |r: Option<(i128, i128)>, v| {
                    Some(r.map_or((v, v), |(low, high)| (low.min(v), high.max(v))))
                });
                let (low, high) = range.unwrap_or((0, 0));
                match high.checked_sub(low).and_then(|d| u64::try_from(d).ok()) {
                    Some(span) if self.whole_bits.is_none() => {
                        let code = |r: usize| if valid(r) { (values[r] - low) as u64 } else { 0 };
                        let field = Field::Reference { width: bits::width(span), reference: low };
                        (field, (0..rows).map(code).collect())
                    }
                    _ => (Field::Raw, vec![]),
                }
            }
            DenseValues::Bytes(values) => {
                let len = |r: usize| if valid(r) { values.get(start + r).len() as u64 } else { 0 };
                let lengths: Vec<u64> = (0..rows).map(len).collect();
                let (low, high) = lengths.iter().fold((u64::MAX, 0), |(l, h), v| (l.min(*v), h.max(*v)));
                let whole = self.whole_bits.map(|_| (0, LENGTH_BITS));
                let (low, width) = whole.unwrap_or((low.min(high), bits::width(high - low.min(high))));
                let field = Field::Bytes { width, reference: low.into(), heap: 0 };
                (field, lengths.iter().map(|l| l - low).collect())
            }
        };
        PageColumn { field, codes, validity, dictionary }
    }

    fn raw(&self, row: usize) -> i128 {
        match &self.values {
            DenseValues::Wide(values) => values[row],
            _ => 0,
        }
    }
}

/// The bits of the length of a string that is not compressed.
const LENGTH_BITS: u32 = 32;

/// The width of numbers that are not compressed, and a range that begins with its reference: that of signed numbers of
/// `bits` bits, of unsigned ones, or of 64 bits.
fn whole_width(bits: u32, (low, high): (i64, i64)) -> (u32, (i64, i64)) {
    let least = if bits < 64 { -(1i64 << (bits - 1)) } else { i64::MIN };
    match bits {
        64.. => (64, (i64::MIN, i64::MAX)),
        _ if low >= least && high < -least => (bits, (least, -least - 1)),
        _ if low >= 0 && high < 1 << bits => (bits, (0, (1 << bits) - 1)),
        _ => (64, (i64::MIN, i64::MAX)),
    }
}

fn int_range(values: &[i64], validity: Option<&[u64]>) -> (i64, i64) {
    let fold = |(low, high): (i64, i64), v: i64| (low.min(v), high.max(v));
    let range = match validity {
        None => values.iter().copied().fold((i64::MAX, i64::MIN), fold),
        Some(validity) => {
            let valid = (0..values.len()).filter(|r| bitmap::get(validity, *r)).map(|r| values[r]);
            valid.fold((i64::MAX, i64::MIN), fold)
        }
    };
    if range.0 > range.1 { (0, 0) } else { range }
}

/// The sorted distinct values, if a dictionary of them makes the page smaller (Holloway and DeWitt 2008, section 4.2).
fn page_dictionary(values: &[i64], width: u32, _low: i64, valid: &impl Fn(usize) -> bool) -> Option<Vec<i64>> {
    let mut entries: Vec<i64> = (0..values.len()).filter(|r| valid(*r)).map(|r| values[r]).collect();
    entries.sort_unstable();
    entries.dedup();
    if entries.is_empty() || entries.len() > u16::MAX as usize {
        return None;
    }
    let code_width = bits::width(entries.len() as u64 - 1);
    let with = values.len() * code_width as usize + entries.len() * width as usize + 64;
    (with < values.len() * width as usize).then_some(entries)
}

/// The delta-coded prefix while a page is written.
struct Prefix {
    columns: usize,
    width: u32,
    codes: Vec<u64>,
}

/// The number of bits below the highest 1 bit of a difference.
fn difference_bits(difference: u64) -> u32 {
    bits::width(difference).saturating_sub(1)
}

fn write_tuples(
    columns: &[PageColumn],
    prefix: Option<&Prefix>,
    rows: usize,
    raw: impl Fn(usize, usize) -> i128,
) -> Vec<u8> {
    let mut writer = BitWriter::new();
    for row in 0..rows {
        if let Some(prefix) = prefix {
            if row == 0 {
                writer.put(prefix.codes[0], prefix.width);
            } else {
                let difference = prefix.codes[row] - prefix.codes[row - 1];
                writer.put(u64::from(prefix.width - bits::width(difference)), bits::width(u64::from(prefix.width)));
                let behind = difference_bits(difference);
                writer.put(if behind > 0 { difference & ((1 << behind) - 1) } else { 0 }, behind);
            }
        }
        for (at, column) in columns.iter().enumerate() {
            if let Some(validity) = &column.validity {
                writer.put(u64::from(!bitmap::get(validity, row)), 1);
            }
            match column.field.tuple_bits() {
                0 => {}
                128 if column.field == Field::Raw => {
                    let value = raw(at, row);
                    writer.put(value as u64, 64);
                    writer.put((value >> 64) as u64, 64);
                }
                width => writer.put(column.codes[row], width),
            }
        }
    }
    writer.finish()
}

fn write_directory(columns: &[PageColumn]) -> Vec<u8> {
    let mut writer = BitWriter::new();
    for column in columns {
        let (kind, width) = match &column.field {
            Field::Reference { width, .. } => (0, *width),
            Field::PageDictionary { width, .. } => (1, *width),
            Field::Bytes { width, .. } => (2, *width),
            Field::Level { width, .. } => (3, *width),
            Field::Prefix { width, .. } => (4, *width),
            Field::Raw => (5, 128),
        };
        writer.put(kind, 3);
        writer.put(u64::from(column.validity.is_some()), 1);
        writer.put(u64::from(width), 8);
        match &column.field {
            Field::Reference { reference, .. } => put_reference(&mut writer, *reference),
            Field::PageDictionary { entries, entry_width, reference, first_bit, .. } => {
                writer.put(u64::from(*entries), 16);
                writer.put(u64::from(*entry_width), 7);
                put_reference(&mut writer, *reference);
                writer.put(u64::from(*first_bit), 32);
            }
            Field::Bytes { reference, heap, .. } => {
                put_reference(&mut writer, *reference);
                writer.put(u64::from(*heap), 32);
            }
            Field::Level { place, reference, .. } | Field::Prefix { place, reference, .. } => {
                writer.put(u64::from(*place), 5);
                put_reference(&mut writer, *reference);
            }
            Field::Raw => {}
        }
    }
    writer.finish()
}

fn put_reference(writer: &mut BitWriter, value: i128) {
    let zigzag = ((value << 1) ^ (value >> 127)) as u128;
    let width = 128 - zigzag.leading_zeros();
    writer.put(u64::from(width), 8);
    writer.put(if width >= 64 { zigzag as u64 } else { zigzag as u64 & ((1 << width) - 1) }, width.min(64));
    writer.put((zigzag >> 64) as u64, width.saturating_sub(64));
}

/// Reads consecutive bit fields.
struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl BitReader<'_> {
    fn take(&mut self, width: u32) -> u64 {
        let value = bits::get(self.bytes, self.at, width);
        self.at += width as usize;
        value
    }

    fn reference(&mut self) -> Result<i128, String> {
        let width = self.take(8) as u32;
        if width > 128 {
            return Err(format!("a reference of {width} bits"));
        }
        let low = self.take(width.min(64));
        let high = self.take(width.saturating_sub(64));
        let zigzag = u128::from(high) << 64 | u128::from(low);
        Ok((zigzag >> 1) as i128 ^ -((zigzag & 1) as i128))
    }
}

/// A parsed dense page: the position of everything on it. It borrows nothing, so that the cache stores it together with
/// the page.
#[derive(Debug)]
pub struct DenseLayout {
    rows: usize,
    fields: Vec<PlacedField>,
    /// The bits of a tuple without its prefix.
    tuple_bits: usize,
    tuples_at: usize,
    tuples_end: usize,
    heap: std::ops::Range<usize>,
    dictionaries_at: usize,
    levels: Vec<LevelRuns>,
    prefix: Option<PrefixCodes>,
}

#[derive(Debug)]
struct PlacedField {
    field: Field,
    /// The offset in bits from the start of the fixed part to the NULL bit, or to the field if it has none.
    at: usize,
    nullable: bool,
}

/// A level's runs: run `i` covers rows `starts[i] .. starts[i + 1]`.
#[derive(Debug)]
struct LevelRuns {
    codes: Vec<u64>,
    starts: Vec<u32>,
}

/// The prefix of every tuple. It is decoded when the page is opened, because tuples with a prefix have no fixed width.
#[derive(Debug)]
struct PrefixCodes {
    codes: Vec<u64>,
    /// The bit offset of each tuple's fixed part from the start of the tuples.
    tuples: Vec<u32>,
}

/// Rows of a page, and the bit at which the fixed part of each row's tuple starts.
#[derive(Debug)]
pub struct SelectedTuples<'r> {
    /// The rows.
    pub rows: Rows<'r>,
    starts: Vec<u32>,
}

impl DenseLayout {
    /// Parses and checks a page of `rows` rows with `columns` fields.
    ///
    /// # Errors
    /// The reason why the payload is not valid.
    pub fn parse(payload: &[u8], rows: usize, columns: usize) -> Result<Self, String> {
        if payload.len() < HEADER {
            return Err("a dense page shorter than its header".into());
        }
        let offset =
            |at: usize| u32::from_le_bytes([payload[at], payload[at + 1], payload[at + 2], payload[at + 3]]) as usize;
        let fields = u16::from_le_bytes([payload[0], payload[1]]) as usize;
        if fields != columns {
            return Err(format!("{fields} fields where the group has {columns} columns"));
        }
        let (tuples_at, levels_at, heap_at, dictionaries_at) = (offset(4), offset(8), offset(12), offset(16));
        let ascending = [HEADER, tuples_at, levels_at, heap_at, dictionaries_at, payload.len()].is_sorted();
        if !ascending {
            return Err("the offsets of a dense page are not in order".into());
        }
        let mut layout = DenseLayout {
            rows,
            fields: read_directory(&payload[HEADER..tuples_at], columns)?,
            tuple_bits: 0,
            tuples_at,
            tuples_end: levels_at,
            heap: heap_at..dictionaries_at,
            dictionaries_at,
            levels: vec![],
            prefix: None,
        };
        for placed in &mut layout.fields {
            placed.at = layout.tuple_bits;
            layout.tuple_bits += placed.field.tuple_bits() as usize + usize::from(placed.nullable);
        }
        layout.read_levels(&payload[levels_at..heap_at], payload[2] as usize)?;
        layout.read_prefix(&payload[tuples_at..levels_at], payload[3] as usize)?;
        if layout.prefix.is_none() && rows * layout.tuple_bits > (levels_at - tuples_at) * 8 {
            return Err(format!("{rows} tuples of {} bits do not fit the page", layout.tuple_bits));
        }
        Ok(layout)
    }

    fn read_levels(&mut self, bytes: &[u8], count: usize) -> Result<(), String> {
        let mut widths = vec![None; count];
        for placed in &self.fields {
            if let Field::Level { place, width, .. } = placed.field {
                *widths.get_mut(place as usize).ok_or("a level outside the levels")? = Some(width);
            }
        }
        let (mut at, mut counts_per_level) = (0, vec![]);
        for width in widths {
            let width = width.ok_or("a level without a field")?;
            let mut reader = BitReader { bytes: bytes.get(at..).ok_or("levels end early")?, at: 0 };
            let (entries, count_width) = (reader.take(32) as usize, reader.take(6) as u32);
            let need = 38 + entries * (width + count_width) as usize;
            if entries > self.rows || need.div_ceil(8) > bytes.len() - at {
                return Err(format!("a level of {entries} entries does not fit"));
            }
            let codes = (0..entries).map(|_| reader.take(width)).collect();
            counts_per_level.push((0..entries).map(|_| reader.take(count_width)).collect::<Vec<_>>());
            self.levels.push(LevelRuns { codes, starts: vec![] });
            at += need.div_ceil(8);
        }
        // From the innermost level outwards, counts of entries become row numbers.
        let mut below: Vec<u32> = (0..=self.rows as u32).collect();
        for (level, counts) in self.levels.iter_mut().zip(&counts_per_level).rev() {
            let mut starts = Vec::with_capacity(counts.len() + 1);
            let mut entry = 0u64;
            starts.push(0);
            for count in counts {
                entry = entry.saturating_add(*count);
                let start =
                    usize::try_from(entry).ok().and_then(|e| below.get(e)).ok_or("level counts exceed the rows")?;
                starts.push(*start);
            }
            if starts.last() != Some(&(self.rows as u32)) {
                return Err("level counts do not add up to the rows".into());
            }
            level.starts = starts;
            below = level.starts.clone();
        }
        Ok(())
    }

    fn read_prefix(&mut self, tuples: &[u8], columns: usize) -> Result<(), String> {
        let fields = self.fields.iter().filter(|p| matches!(p.field, Field::Prefix { .. })).count();
        if fields != columns {
            return Err(format!("{fields} fields in a prefix of {columns} columns"));
        }
        if columns == 0 {
            return Ok(());
        }
        let width: u32 =
            self.fields.iter().map(|p| if let Field::Prefix { width, .. } = p.field { width } else { 0 }).sum();
        if width > 64 {
            return Err(format!("a prefix of {width} bits"));
        }
        let leading_width = bits::width(u64::from(width));
        let (mut codes, mut starts) = (Vec::with_capacity(self.rows), Vec::with_capacity(self.rows));
        let (mut at, mut code) = (0usize, 0u64);
        for row in 0..self.rows {
            if row == 0 {
                code = bits::get(tuples, at, width);
                at += width as usize;
            } else {
                let leading = bits::get(tuples, at, leading_width) as u32;
                at += leading_width as usize;
                let significant = width.checked_sub(leading).ok_or("a difference wider than its prefix")?;
                if significant > 0 {
                    let behind = significant - 1;
                    let difference = 1u64 << behind | bits::get(tuples, at, behind);
                    at += behind as usize;
                    code = code.wrapping_add(difference);
                }
            }
            codes.push(code);
            starts.push(at as u32);
            at += self.tuple_bits;
        }
        if at > tuples.len() * 8 {
            return Err("tuples run over the page".into());
        }
        self.prefix = Some(PrefixCodes { codes, tuples: starts });
        Ok(())
    }

    /// The approximate bytes of memory that the layout has allocated.
    pub fn heap_bytes(&self) -> usize {
        let levels = self.levels.iter().map(|l| size_of_val(&l.codes[..]) + size_of_val(&l.starts[..]));
        let prefix = self.prefix.as_ref().map_or(0, |p| size_of_val(&p.codes[..]) + size_of_val(&p.tuples[..]));
        size_of_val(&self.fields[..]) + levels.sum::<usize>() + prefix
    }

    /// The number of rows of the page.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The name of a column's encoding on this page, among those of designs. `whole_bits`: the bits of a number of the
    /// column's type.
    pub fn encoding(&self, column: usize, whole_bits: u32) -> &'static str {
        match &self.fields[column].field {
            Field::Reference { width, reference } => match whole_width(whole_bits, (0, 0)) {
                (bits, (least, _)) if bits == *width && [i128::from(least), 0].contains(reference) => "plain",
                _ => "bitpack",
            },
            Field::PageDictionary { .. } => "page_dictionary",
            Field::Bytes { .. } | Field::Raw => "plain",
            Field::Level { .. } => "rle",
            Field::Prefix { .. } => "delta_lz",
        }
    }

    /// Whether a column has NULLs on this page.
    pub fn has_nulls(&self, column: usize) -> bool {
        self.fields[column].nullable
    }

    /// The bit at which the fixed part of row `row` starts, from the start of the tuples.
    #[inline]
    fn tuple(&self, row: usize) -> usize {
        match &self.prefix {
            Some(prefix) => prefix.tuples[row] as usize,
            None => row * self.tuple_bits,
        }
    }

    fn tuples<'a>(&self, payload: &'a [u8]) -> &'a [u8] {
        &payload[self.tuples_at..self.tuples_end]
    }

    fn is_null(&self, payload: &[u8], column: usize, row: usize) -> bool {
        let placed = &self.fields[column];
        placed.nullable && bits::get(self.tuples(payload), self.tuple(row) + placed.at, 1) == 1
    }

    /// Calls `f(index among rows, code)` for each of `rows`. The field says how to interpret `code`.
    #[inline]
    fn for_codes(&self, payload: &[u8], column: usize, rows: Rows<'_>, mut f: impl FnMut(usize, u64)) {
        let placed = &self.fields[column];
        match &placed.field {
            Field::Level { place, .. } => {
                let runs = &self.levels[*place as usize];
                let mut run = 0;
                field::for_rows(rows, |i, row| {
                    while runs.starts[run + 1] as usize <= row {
                        run += 1;
                    }
                    f(i, runs.codes[run]);
                });
            }
            Field::Prefix { width, .. } => {
                let prefix = self.prefix.as_ref().expect("a prefix field comes with a prefix");
                let shift = self.prefix_shift(column);
                let mask = if *width == 64 { u64::MAX } else { (1 << width) - 1 };
                field::for_rows(rows, |i, row| f(i, if shift < 64 { prefix.codes[row] >> shift & mask } else { 0 }));
            }
            other => {
                let (tuples, width) = (self.tuples(payload), other.tuple_bits());
                let at = placed.at + usize::from(placed.nullable);
                if width <= 56 {
                    field::for_rows(rows, |i, row| f(i, field::short(tuples, self.tuple(row) + at, width)));
                } else {
                    field::for_rows(rows, |i, row| f(i, bits::get(tuples, self.tuple(row) + at, width.min(64))));
                }
            }
        }
    }

    /// The number of bits of the prefix columns after `column`.
    fn prefix_shift(&self, column: usize) -> u32 {
        let Field::Prefix { place, .. } = self.fields[column].field else { return 0 };
        let behind = self.fields.iter().filter_map(|p| match p.field {
            Field::Prefix { place: other, width, .. } if other > place => Some(width),
            _ => None,
        });
        behind.sum()
    }

    /// Calls `f(index, value)` with the stored integer, which may be a code of a shared dictionary.
    fn for_values(&self, payload: &[u8], column: usize, rows: Rows<'_>, mut f: impl FnMut(usize, i128)) {
        match &self.fields[column].field {
            Field::Reference { reference, .. } | Field::Level { reference, .. } | Field::Prefix { reference, .. } => {
                let reference = *reference;
                self.for_codes(payload, column, rows, |i, code| f(i, reference.wrapping_add(i128::from(code))));
            }
            Field::PageDictionary { .. } => {
                let dictionary = self.page_dictionary(payload, column);
                self.for_codes(payload, column, rows, |i, code| {
                    f(i, dictionary.get(code as usize).copied().unwrap_or(0))
                });
            }
            Field::Raw => {
                let tuples = self.tuples(payload);
                let at = self.fields[column].at + usize::from(self.fields[column].nullable);
                field::for_rows(rows, |i, row| {
                    let bit = self.tuple(row) + at;
                    let (low, high) = (bits::get(tuples, bit, 64), bits::get(tuples, bit + 64, 64));
                    f(i, (u128::from(high) << 64 | u128::from(low)) as i128);
                });
            }
            Field::Bytes { .. } => {}
        }
    }

    fn page_dictionary(&self, payload: &[u8], column: usize) -> Vec<i128> {
        let Field::PageDictionary { entries, entry_width, reference, first_bit, .. } = self.fields[column].field else {
            return vec![];
        };
        let bytes = &payload[self.dictionaries_at..];
        let entry = |i: u32| bits::get(bytes, first_bit as usize + (i * entry_width) as usize, entry_width);
        (0..entries).map(|i| reference.wrapping_add(i128::from(entry(i)))).collect()
    }

    /// The positions of the tuples of `rows`, computed once for all columns that are decoded. Scattered tuples that are
    /// longer than a cache line are prefetched, all at once.
    pub fn pick<'r>(&self, payload: &[u8], rows: Rows<'r>) -> SelectedTuples<'r> {
        let start = |row: usize| self.tuple(row) as u32;
        let starts: Vec<u32> = match rows {
            Rows::Range { start: first, len } => (first..first + len).map(start).collect(),
            Rows::Positions(positions) => positions.iter().map(|row| start(*row as usize)).collect(),
        };
        let tuple_bytes = self.tuple_bits / 8;
        if tuple_bytes > field::CACHE_LINE && matches!(rows, Rows::Positions(_)) {
            let tuples = self.tuples(payload);
            for start in &starts {
                let first = *start as usize / 8;
                (first..first + tuple_bytes).step_by(field::CACHE_LINE).for_each(|at| field::prefetch(tuples, at));
            }
        }
        SelectedTuples { rows, starts }
    }

    /// Appends integers of the kinds `Int` and `Wide`, which may be codes of a shared dictionary.
    #[inline]
    pub fn ints<T: IntTarget>(&self, payload: &[u8], column: usize, picked: &SelectedTuples<'_>, out: &mut Vec<T>) {
        let placed = &self.fields[column];
        match &placed.field {
            // Narrow fields, which most scans read.
            Field::Reference { reference, width } if i64::try_from(*reference).is_ok() && *width <= 56 => {
                let (tuples, mask, reference) = (self.tuples(payload), (1 << width) - 1, *reference as i64);
                let at = placed.at + usize::from(placed.nullable);
                out.extend(picked.starts.iter().map(move |start| {
                    let code = field::word(tuples, *start as usize + at) & mask;
                    T::from_i64(reference.wrapping_add(code as i64))
                }));
            }
            _ => self.for_values(payload, column, picked.rows, |_, value| out.push(T::from_i128(value))),
        }
    }

    /// Calls `f(index, bytes)` for each of `rows` of a bytes field.
    ///
    /// # Errors
    /// The lengths exceed the heap.
    pub fn for_bytes<'a>(
        &self,
        payload: &'a [u8],
        column: usize,
        rows: Rows<'_>,
        mut f: impl FnMut(usize, &'a [u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        let Field::Bytes { reference, heap, .. } = self.fields[column].field else {
            return Err("a field of numbers where strings were expected".into());
        };
        let last = match rows {
            Rows::Range { start, len } => start + len,
            Rows::Positions(p) => p.last().map_or(0, |p| *p as usize + 1),
        };
        let heap = payload[self.heap.clone()].get(heap as usize..).ok_or("a heap outside the page")?;
        let mut ends = Vec::with_capacity(last);
        let mut end = 0u64;
        self.for_codes(payload, column, Rows::Range { start: 0, len: last }, |_, code| {
            end = end.saturating_add(code).saturating_add(reference as u64);
            ends.push(end);
        });
        if end > heap.len() as u64 {
            return Err("strings run over the page".into());
        }
        // NULLs have no bytes, whatever the smallest length.
        if self.fields[column].nullable && reference > 0 {
            return Err("a string field with NULLs has a least length".into());
        }
        let mut result = Ok(());
        field::for_rows(rows, |i, row| {
            let start = if row == 0 { 0 } else { ends[row - 1] as usize };
            if result.is_ok() {
                result = f(i, &heap[start..ends[row] as usize]);
            }
        });
        result
    }

    /// Sets bit `at + i` of the zeroed `out` if the `i`-th of `rows` is not NULL.
    pub fn validity(&self, payload: &[u8], column: usize, rows: Rows<'_>, out: &mut [u64], at: usize) {
        field::for_rows(rows, |i, row| {
            if !self.is_null(payload, column, row) {
                bitmap::set(out, at + i);
            }
        });
    }

    /// Clears the bits of rows that do not satisfy `predicate`. Bit 0 of `selection` is row `start`.
    ///
    /// # Errors
    /// The predicate is of another kind than the column, or a string cannot be decompressed.
    pub fn filter(
        &self,
        payload: &[u8],
        column: usize,
        shared: Option<&Shared>,
        predicate: &Predicate,
        (start, len): (usize, usize),
        selection: &mut [u64],
    ) -> Result<(), String> {
        if self.fields[column].nullable || matches!(predicate, Predicate::IsNull | Predicate::IsNotNull) {
            let keep_null = matches!(predicate, Predicate::IsNull);
            field::retain(selection, len, |i| self.is_null(payload, column, start + i) == keep_null);
        }
        if matches!(predicate, Predicate::IsNull | Predicate::IsNotNull) {
            return Ok(());
        }
        let rows = Rows::Range { start, len };
        match (&self.fields[column].field, field::source(shared)) {
            (Field::Bytes { .. }, source) => {
                let mut buffer = vec![];
                self.for_bytes(payload, column, rows, |i, bytes| {
                    if bitmap::get(selection, i) && !source.test_bytes(bytes, predicate, &mut buffer)? {
                        bitmap::clear(selection, i);
                    }
                    Ok(())
                })
            }
            (Field::PageDictionary { .. }, source) => {
                let int = source.int_predicate(predicate)?;
                let passes: Vec<bool> = self.page_dictionary(payload, column).iter().map(|v| int.test(*v)).collect();
                self.for_codes(payload, column, rows, |i, code| {
                    if !passes.get(code as usize).copied().unwrap_or(false) {
                        bitmap::clear(selection, i);
                    }
                });
                Ok(())
            }
            (Field::Raw, source) => {
                let int = source.int_predicate(predicate)?;
                self.for_values(payload, column, rows, |i, value| {
                    if bitmap::get(selection, i) && !int.test(value) {
                        bitmap::clear(selection, i);
                    }
                });
                Ok(())
            }
            (
                Field::Reference { width, reference }
                | Field::Level { width, reference, .. }
                | Field::Prefix { width, reference, .. },
                source,
            ) => {
                let max_code = if *width == 64 { u64::MAX } else { (1 << width) - 1 };
                let test = source.int_predicate(predicate)?.translate(*reference, max_code);
                self.filter_codes(payload, column, &test, (start, len), selection);
                Ok(())
            }
        }
    }

    fn filter_codes(
        &self,
        payload: &[u8],
        column: usize,
        test: &IntTest,
        (start, len): (usize, usize),
        selection: &mut [u64],
    ) {
        match test {
            IntTest::Always => {}
            IntTest::Never => selection[..bitmap::words(len)].fill(0),
            IntTest::Range { low, high } => {
                let (low, span) = (*low, high - low);
                self.test_codes(payload, column, (start, len), selection, |code| code.wrapping_sub(low) <= span);
            }
            other => self.test_codes(payload, column, (start, len), selection, |code| other.test(code)),
        }
    }

    #[inline]
    fn test_codes(
        &self,
        payload: &[u8],
        column: usize,
        (start, len): (usize, usize),
        selection: &mut [u64],
        test: impl Fn(u64) -> bool,
    ) {
        for (at, word) in selection[..bitmap::words(len)].iter_mut().enumerate() {
            if *word == 0 {
                continue;
            }
            let n = (len - at * 64).min(64);
            let mut passed = 0u64;
            let rows = Rows::Range { start: start + at * 64, len: n };
            self.for_codes(payload, column, rows, |i, code| passed |= u64::from(test(code)) << i);
            *word &= passed;
        }
    }
}

fn read_directory(bytes: &[u8], columns: usize) -> Result<Vec<PlacedField>, String> {
    let mut reader = BitReader { bytes, at: 0 };
    let mut fields = Vec::with_capacity(columns);
    for _ in 0..columns {
        let (kind, nullable, width) = (reader.take(3), reader.take(1) == 1, reader.take(8) as u32);
        if width > if kind == 5 { 128 } else { 64 } {
            return Err(format!("a field of {width} bits"));
        }
        let field = match kind {
            0 => Field::Reference { width, reference: reader.reference()? },
            1 => {
                let (entries, entry_width) = (reader.take(16) as u32, reader.take(7) as u32);
                if entry_width > 64 {
                    return Err(format!("dictionary entries of {entry_width} bits"));
                }
                let reference = reader.reference()?;
                Field::PageDictionary { width, entries, entry_width, reference, first_bit: reader.take(32) as u32 }
            }
            2 => Field::Bytes { width, reference: reader.reference()?, heap: reader.take(32) as u32 },
            3 => Field::Level { width, place: reader.take(5) as u32, reference: reader.reference()? },
            4 => Field::Prefix { width, place: reader.take(5) as u32, reference: reader.reference()? },
            5 => Field::Raw,
            other => return Err(format!("field kind {other} is not known")),
        };
        fields.push(PlacedField { field, at: 0, nullable });
    }
    if reader.at > bytes.len() * 8 {
        return Err("the directory runs over its end".into());
    }
    Ok(fields)
}
