//! The read-optimized pages of Holloway and DeWitt 2008, section 5.2, and their encodings (Table 1).
//!
//! ```text
//! bytes 0..4    number of entries, u32
//! then          the entries: tuples, or values of one column, not aligned to bytes
//! …             zeros
//! before the end  the dictionaries, one after another, growing towards the front: 4 bytes per entry
//! at the end    the number of entries of each dictionary, u32 each, in 8 bytes at least
//! ```
//! A tuple has its leading columns as one difference to the tuple before it, if they are delta-encoded: the number of
//! leading zeros of the difference, and the difference from its first 1 on (section 3.2). The other columns follow in
//! order. The strings of a tuple are inside it.

use std::collections::HashMap;
use std::io::{self, Write};

use super::bits::{BitWriter, SLACK, read};
use crate::experiments::page_file::PAGE_BYTES;

const HEAD_BYTES: usize = 4;
/// The bytes of a string of the table Strings (section 4.1).
pub const TEXT_BYTES: usize = 20;
/// The bits of the value and the length of a run, which share one integer (section 4.2).
const RUN_BITS: u32 = 32;

/// The form of a column in its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A whole integer of 32 bits.
    Int,
    /// A string of [`TEXT_BYTES`].
    Text,
    /// The value less one, in this number of bits.
    Packed(u32),
    /// The index in the page's dictionary, in this number of bits.
    Dictionary(u32),
    /// Pairs of the value less one in this number of bits, and the length of its run in the rest of 32 bits. For pages of one column.
    Runs(u32),
}

impl Form {
    fn bits(self) -> u32 {
        match self {
            Form::Int => 32,
            Form::Text => 8 * TEXT_BYTES as u32,
            Form::Packed(bits) | Form::Dictionary(bits) => bits,
            Form::Runs(_) => RUN_BITS,
        }
    }

    /// The bytes of an un-encoded value.
    pub fn width(self) -> usize {
        if self == Form::Text { TEXT_BYTES } else { 4 }
    }
}

/// The entries of a kind of page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The number of leading columns that are one difference; all are packed, and have 64 bits together at most.
    pub delta: usize,
    pub columns: Vec<Form>,
    /// The number of entries of all dictionaries of a page together.
    pub dictionary_max: usize,
}

impl Layout {
    pub fn plain(columns: Vec<Form>) -> Layout {
        Layout { delta: 0, columns, dictionary_max: 0 }
    }

    /// The bits of the columns in the difference.
    pub fn delta_bits(&self) -> u32 {
        self.columns[..self.delta].iter().map(|form| form.bits()).sum()
    }

    /// The bits of a number of leading zeros.
    pub fn zeros_bits(&self) -> u32 {
        if self.delta == 0 { 0 } else { u32::BITS - self.delta_bits().leading_zeros() }
    }

    /// For each column, its first bit in the difference, or behind it.
    pub fn offsets(&self) -> Vec<u32> {
        let mut offsets = vec![];
        let mut at = 0;
        for (column, form) in self.columns.iter().enumerate() {
            if column == self.delta {
                at = 0;
            }
            offsets.push(at);
            at += form.bits();
        }
        offsets
    }

    /// The bits of a tuple behind its difference.
    pub fn fixed_bits(&self) -> u32 {
        self.columns[self.delta..].iter().map(|form| form.bits()).sum()
    }

    /// The number of the dictionary of each column that has one.
    pub fn dictionaries(&self) -> Vec<Option<usize>> {
        let mut next = 0..;
        self.columns.iter().map(|form| if matches!(form, Form::Dictionary(_)) { next.next() } else { None }).collect()
    }

    fn tail_bytes(&self) -> usize {
        (4 * self.dictionaries().iter().flatten().count()).max(SLACK)
    }
}

/// A value of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// At least 1, as all of the tables' integers are.
    Int(i32),
    Text(&'a [u8]),
}

/// Fills pages and writes them.
pub struct PageWriter<W> {
    layout: Layout,
    of_dictionary: Vec<Option<usize>>,
    entries: BitWriter,
    count: u32,
    /// The leading columns of the last tuple, as one number.
    before: u64,
    /// The run that is not on the page yet: its value and length.
    run: Option<(u32, u32)>,
    codes: Vec<HashMap<i32, u32>>,
    dictionaries: Vec<Vec<i32>>,
    out: W,
}

impl<W: Write> PageWriter<W> {
    pub fn new(layout: Layout, out: W) -> PageWriter<W> {
        let count = layout.dictionaries().iter().flatten().count();
        PageWriter {
            of_dictionary: layout.dictionaries(),
            entries: BitWriter::default(),
            count: 0,
            before: 0,
            run: None,
            codes: vec![HashMap::new(); count],
            dictionaries: vec![vec![]; count],
            out,
            layout,
        }
    }

    /// Appends a row, on a new page if it does not fit the current one.
    ///
    /// # Errors
    /// A page cannot be written.
    pub fn push(&mut self, row: &[Value<'_>]) -> io::Result<()> {
        if let (&[Form::Runs(bits)], &[Value::Int(value)]) = (&self.layout.columns[..], row) {
            return self.push_run(value as u32 - 1, bits);
        }
        if self.count > 0 && !self.fits(row) {
            self.flush()?;
        }
        self.put_difference(row);
        for (column, value) in row.iter().enumerate().skip(self.layout.delta) {
            match (self.layout.columns[column], value) {
                (Form::Text, Value::Text(text)) => self.entries.put_bytes(text),
                (Form::Packed(bits), Value::Int(value)) => self.entries.put(*value as u64 - 1, bits),
                (Form::Dictionary(bits), Value::Int(value)) => {
                    let code = self.code(column, *value);
                    self.entries.put(u64::from(code), bits);
                }
                (_, Value::Int(value)) => self.entries.put(*value as u32 as u64, 32),
                (form, Value::Text(_)) => unreachable!("{form:?} has no texts"),
            }
        }
        self.count += 1;
        Ok(())
    }

    /// Writes the last page.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.end_run()?;
        if self.count > 0 {
            self.flush()?;
        }
        self.out.flush()?;
        Ok(self.out)
    }

    /// The leading columns of a row as one number, the first column in its highest bits.
    fn leading(&self, row: &[Value<'_>]) -> u64 {
        let columns = row.iter().zip(&self.layout.columns).take(self.layout.delta);
        columns.fold(0, |number, (value, form)| match value {
            Value::Int(value) => number << form.bits() | (*value as u64 - 1),
            Value::Text(_) => number,
        })
    }

    fn put_difference(&mut self, row: &[Value<'_>]) {
        if self.layout.delta == 0 {
            return;
        }
        let (leading, bits) = (self.leading(row), self.layout.delta_bits());
        if self.count == 0 {
            self.entries.put(leading, bits);
        } else {
            let difference = leading - self.before;
            let length = u64::BITS - difference.leading_zeros();
            self.entries.put(u64::from(bits - length), self.layout.zeros_bits());
            self.entries.put(difference, length);
        }
        self.before = leading;
    }

    fn code(&mut self, column: usize, value: i32) -> u32 {
        let at = self.of_dictionary[column].unwrap_or(0);
        let dictionary = &mut self.dictionaries[at];
        *self.codes[at].entry(value).or_insert_with(|| {
            dictionary.push(value);
            dictionary.len() as u32 - 1
        })
    }

    fn fits(&self, row: &[Value<'_>]) -> bool {
        let new = row.iter().zip(&self.of_dictionary).filter(|(value, dictionary)| match (value, dictionary) {
            (Value::Int(value), Some(at)) => !self.codes[*at].contains_key(value),
            _ => false,
        });
        let entries = self.dictionaries.iter().map(Vec::len).sum::<usize>() + new.count();
        let most = self.layout.zeros_bits() + self.layout.delta_bits() + self.layout.fixed_bits();
        let bytes = (self.entries.bits() + most as usize).div_ceil(8);
        let has_room = HEAD_BYTES + bytes + 4 * entries + self.layout.tail_bytes() <= PAGE_BYTES;
        has_room && (entries <= self.layout.dictionary_max || self.dictionaries.is_empty())
    }

    fn push_run(&mut self, value: u32, bits: u32) -> io::Result<()> {
        let most = (1u64 << (RUN_BITS - bits)) - 1;
        match &mut self.run {
            Some((of, length)) if *of == value && u64::from(*length) < most => *length += 1,
            _ => {
                self.end_run()?;
                self.run = Some((value, 1));
            }
        }
        Ok(())
    }

    fn end_run(&mut self) -> io::Result<()> {
        let (Some((value, length)), &[Form::Runs(bits)]) = (self.run.take(), &self.layout.columns[..]) else {
            return Ok(());
        };
        if HEAD_BYTES + (self.entries.bits() + RUN_BITS as usize) / 8 + self.layout.tail_bytes() > PAGE_BYTES {
            self.flush()?;
        }
        self.entries.put(u64::from(value) | u64::from(length) << bits, RUN_BITS);
        self.count += 1;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut page = vec![0; PAGE_BYTES];
        page[..HEAD_BYTES].copy_from_slice(&self.count.to_le_bytes());
        page[HEAD_BYTES..HEAD_BYTES + self.entries.bytes().len()].copy_from_slice(self.entries.bytes());
        let mut end = PAGE_BYTES - self.layout.tail_bytes();
        for (at, dictionary) in self.dictionaries.iter_mut().enumerate() {
            let size = PAGE_BYTES - self.layout.tail_bytes() + 4 * at;
            page[size..size + 4].copy_from_slice(&(dictionary.len() as u32).to_le_bytes());
            for value in dictionary.drain(..) {
                end -= 4;
                page[end..end + 4].copy_from_slice(&value.to_le_bytes());
            }
        }
        self.codes.iter_mut().for_each(HashMap::clear);
        self.entries.clear();
        (self.count, self.before) = (0, 0);
        self.out.write_all(&page)
    }
}

/// The number of entries of a page.
pub fn count(page: &[u8]) -> usize {
    read(page, 0, 32) as usize
}

/// The bit at which a page's entries begin.
pub const FIRST_BIT: usize = 8 * HEAD_BYTES;

/// The position behind each dictionary of a page: its first entry is before it, the next one before that.
pub fn dictionary_ends(page: &[u8], layout: &Layout, ends: &mut Vec<usize>) {
    ends.clear();
    let tail = PAGE_BYTES - layout.tail_bytes();
    let mut end = tail;
    for at in 0..layout.dictionaries().iter().flatten().count() {
        ends.push(end);
        end -= 4 * int(page, tail + 4 * at) as usize;
    }
}

/// The integer at a byte of a page.
#[inline(always)]
pub fn int(page: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(page[at..at + 4].try_into().expect("a slice of four bytes"))
}
