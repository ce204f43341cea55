//! A dictionary in the chunk (Holloway and DeWitt 2008, section 4.2): the codes first, the sorted entries at the end of
//! the page.
//!
//! ```text
//! param   bit width of a code
//! u32     entries
//! integers:  entry size u8 (1, 2, 4, 8: unsigned difference from the reference; 16: the value) | 0 u8 x 3
//!            reference i64 (wide: i128) | codes, packed | entries, ascending
//! strings:   size u8 (1, 2, 4) of an end | 0 u8 x 3 | codes, packed | ends of the entries in the data | data
//! ```

use super::packed::{Test, decode_packed, filter_packed};
use crate::bitpack::{Number, Packed, packed_bytes};
use crate::hash::{Distinct, Key};
use crate::layout::{Reader, byte_width, uint_at};
use crate::{CodecError, IntPredicate, IntTarget, IntTest, Rows, bits};

/// Sorted integers, each as its difference from a reference.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IntEntries<'a> {
    bytes: &'a [u8],
    size: usize,
    reference: i128,
    pub len: usize,
}

impl<'a> IntEntries<'a> {
    pub fn parse(
        reader: &mut Reader<'a>,
        size: usize,
        reference: i128,
        len: usize,
        wide: bool,
    ) -> Result<Self, CodecError> {
        if !(matches!(size, 1 | 2 | 4 | 8) || wide && size == 16) {
            return Err(CodecError::corrupt(format!("dictionary entries of {size} bytes")));
        }
        let bytes = reader.take(len.saturating_mul(size))?;
        Ok(Self { bytes, size, reference, len })
    }

    #[inline]
    pub fn get(&self, code: usize) -> i128 {
        if self.size == 16 {
            i128::from_le_bytes(self.bytes[code * 16..code * 16 + 16].try_into().expect("a slice of 16 bytes"))
        } else {
            self.reference.wrapping_add(i128::from(uint_at(self.bytes, self.size, code)))
        }
    }

    /// All entries, if none of them is wide.
    fn table<T: IntTarget>(&self) -> Vec<T> {
        let reference = self.reference as i64;
        let value = |offset: u64| T::from_i64(reference.wrapping_add(offset as i64));
        match self.size {
            1 => self.bytes.iter().map(|byte| value(u64::from(*byte))).collect(),
            2 => self.bytes.as_chunks().0.iter().map(|bytes| value(u16::from_le_bytes(*bytes).into())).collect(),
            4 => self.bytes.as_chunks().0.iter().map(|bytes| value(u32::from_le_bytes(*bytes).into())).collect(),
            _ => (0..self.len).map(|code| value(self.get(code).wrapping_sub(self.reference) as u64)).collect(),
        }
    }

    /// Appends sorted entries. The first is the reference.
    pub fn put<N: Number>(entries: &[N], size: usize, out: &mut Vec<u8>) {
        for entry in entries {
            if size == 16 {
                entry.put(out);
            } else {
                out.extend_from_slice(&entry.offset(entries[0]).to_le_bytes()[..size]);
            }
        }
    }

    pub fn size_for<N: Number>(min: N, max: N) -> usize {
        N::span(min, max).map_or(16, byte_width)
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct IntDictionary<'a> {
    codes: Packed<'a>,
    entries: IntEntries<'a>,
    wide: bool,
}

impl<'a> IntDictionary<'a> {
    pub fn parse(mut reader: Reader<'a>, param: u16, rows: usize, wide: bool) -> Result<Self, CodecError> {
        let len = reader.u32()? as usize;
        let size = usize::from(reader.u8()?);
        reader.take(3)?;
        let reference = reader.number(wide)?;
        let codes = parse_codes(&mut reader, param, rows, len)?;
        Ok(Self { codes, entries: IntEntries::parse(&mut reader, size, reference, len, wide)?, wide })
    }

    pub fn decode<T: IntTarget>(&self, rows: Rows<'_>, out: &mut Vec<T>) -> Result<(), CodecError> {
        let codes = decode_codes(&self.codes, self.entries.len, rows)?;
        let value = |code: usize| match self.wide {
            true => T::from_i128(self.entries.get(code)),
            false => T::from_i64(self.entries.get(code) as i64),
        };
        if codes.len() < self.entries.len / 4 {
            out.extend(codes.iter().map(|code| value(*code as usize)));
        } else {
            let table = if self.wide { (0..self.entries.len).map(value).collect() } else { self.entries.table() };
            out.extend(codes.iter().map(|code| table[*code as usize]));
        }
        Ok(())
    }

    pub fn filter(&self, test: Test<'_>, start: usize, len: usize, selection: &mut [u64]) {
        // Entries ascend, so those that may pass are contiguous.
        let (low, high) = test.bounds();
        let (from, to) = (self.first_where(|entry| entry >= low), self.first_where(|entry| entry > high));
        let test = match test {
            Test::Values(IntPredicate::Range { .. }) if from >= to => IntTest::Never,
            Test::Values(IntPredicate::Range { .. }) if (from, to) == (0, self.entries.len) => IntTest::Always,
            Test::Values(IntPredicate::Range { .. }) => IntTest::Range { low: from as u64, high: to as u64 - 1 },
            _ => codes_test(self.entries.len, |code| (from..to).contains(&code) && test.test(self.entry(code))),
        };
        filter_packed(&self.codes, &test, start, len, selection);
    }

    /// The first code from which on `holds` is true for the entries.
    fn first_where(&self, holds: impl Fn(i128) -> bool) -> usize {
        let (mut from, mut to) = (0, self.entries.len);
        while from < to {
            let middle = from + (to - from) / 2;
            if holds(self.entry(middle)) { to = middle } else { from = middle + 1 }
        }
        from
    }

    fn entry(&self, code: usize) -> i128 {
        if self.wide { self.entries.get(code) } else { i128::from(self.entries.get(code) as i64) }
    }
}

fn parse_codes<'a>(reader: &mut Reader<'a>, param: u16, rows: usize, len: usize) -> Result<Packed<'a>, CodecError> {
    let width = u32::from(param);
    if len == 0 || len > rows || width > 32 {
        return Err(CodecError::corrupt(format!(
            "a dictionary of {len} entries and {width}-bit codes for {rows} rows"
        )));
    }
    reader.take(packed_bytes(width, rows)).and_then(|bytes| Packed::parse(bytes, width, rows)).map(|(codes, _)| codes)
}

/// The codes of `rows`, each checked to be smaller than `len`.
pub(crate) fn decode_codes(codes: &Packed<'_>, len: usize, rows: Rows<'_>) -> Result<Vec<u32>, CodecError> {
    let mut out: Vec<u32> = Vec::new();
    decode_packed(codes, 0, false, rows, &mut out);
    check_codes(&out, len)?;
    Ok(out)
}

pub(crate) fn check_codes(codes: &[u32], len: usize) -> Result<(), CodecError> {
    match codes.iter().fold(0, |a, b| a.max(*b)) as usize {
        max if max >= len && !codes.is_empty() => {
            Err(CodecError::corrupt(format!("code {max} of a dictionary of {len} entries")))
        }
        _ => Ok(()),
    }
}

/// The test for the codes of the entries that pass.
pub(crate) fn codes_test(len: usize, mut pass: impl FnMut(usize) -> bool) -> IntTest {
    let mut words = vec![0u64; len.div_ceil(64)];
    let (mut first, mut last, mut count) = (0, 0, 0);
    for code in (0..len).filter(|code| pass(*code)) {
        words[code / 64] |= 1 << (code % 64);
        first = if count == 0 { code } else { first };
        last = code;
        count += 1;
    }
    match count {
        0 => IntTest::Never,
        n if n == len => IntTest::Always,
        n if n == last - first + 1 => IntTest::Range { low: first as u64, high: last as u64 },
        _ => IntTest::Set(words),
    }
}

/// Sorted, concatenated strings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BytesEntries<'a> {
    ends: &'a [u8],
    size: usize,
    data: &'a [u8],
    pub len: usize,
}

impl<'a> BytesEntries<'a> {
    /// Checks that the ends ascend and lie within the data.
    pub fn parse(reader: &mut Reader<'a>, size: usize, len: usize) -> Result<Self, CodecError> {
        if !matches!(size, 1 | 2 | 4) {
            return Err(CodecError::corrupt(format!("string ends of {size} bytes")));
        }
        let ends = reader.take(len.saturating_mul(size))?;
        let mut last = 0;
        for i in 0..len {
            let end = uint_at(ends, size, i);
            if end < last {
                return Err(CodecError::corrupt(format!("string {i} of a dictionary ends at {end}, before its start")));
            }
            last = end;
        }
        Ok(Self { ends, size, data: reader.take(last as usize)?, len })
    }

    #[inline]
    pub fn get(&self, code: usize) -> &'a [u8] {
        let start = if code == 0 { 0 } else { uint_at(self.ends, self.size, code - 1) as usize };
        &self.data[start..uint_at(self.ends, self.size, code) as usize]
    }

    pub fn put(entries: &[&[u8]], size: usize, out: &mut Vec<u8>) {
        let mut end = 0u64;
        for entry in entries {
            end += entry.len() as u64;
            out.extend_from_slice(&end.to_le_bytes()[..size]);
        }
        entries.iter().for_each(|entry| out.extend_from_slice(entry));
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct BytesDictionary<'a> {
    pub codes: Packed<'a>,
    pub entries: BytesEntries<'a>,
}

impl<'a> BytesDictionary<'a> {
    pub fn parse(mut reader: Reader<'a>, param: u16, rows: usize) -> Result<Self, CodecError> {
        let len = reader.u32()? as usize;
        let size = usize::from(reader.u8()?);
        reader.take(3)?;
        let codes = parse_codes(&mut reader, param, rows, len)?;
        Ok(Self { codes, entries: BytesEntries::parse(&mut reader, size, len)? })
    }
}

/// Bytes of an integer dictionary's body.
pub(crate) fn int_bytes<N: Number>(rows: usize, entries: usize, min: N, max: N) -> usize {
    let width = bits::width(entries as u64 - 1);
    8 + N::BYTES + packed_bytes(width, rows) + entries * IntEntries::size_for(min, max)
}

/// Bytes of a string dictionary's body.
pub(crate) fn bytes_bytes(rows: usize, entries: usize, data: usize) -> usize {
    8 + packed_bytes(bits::width(entries as u64 - 1), rows) + entries * byte_width(data as u64) + data
}

/// Appends the body, and returns the header's param.
pub(crate) fn encode_ints<N: Number + Key>(values: &[N], out: &mut Vec<u8>) -> u16 {
    let (entries, codes) = sorted_codes(values);
    let size = IntEntries::size_for(entries[0], entries[entries.len() - 1]);
    out.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    out.extend_from_slice(&[size as u8, 0, 0, 0]);
    entries[0].put(out);
    let width = bits::width(entries.len() as u64 - 1);
    crate::bitpack::pack(&codes, 0, width, out);
    IntEntries::put(&entries, size, out);
    width as u16
}

/// Appends the body, and returns the header's param.
pub(crate) fn encode_bytes(values: &[&[u8]], out: &mut Vec<u8>) -> u16 {
    let (entries, codes) = sorted_codes(values);
    let size = byte_width(entries.iter().map(|e| e.len() as u64).sum());
    out.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    out.extend_from_slice(&[size as u8, 0, 0, 0]);
    let width = bits::width(entries.len() as u64 - 1);
    crate::bitpack::pack(&codes, 0, width, out);
    BytesEntries::put(&entries, size, out);
    width as u16
}

/// The distinct values, ascending, and for each value its position among them.
fn sorted_codes<K: Key + Ord>(values: &[K]) -> (Vec<K>, Vec<i64>) {
    let mut distinct = Distinct::new();
    let numbers: Vec<u32> = values.iter().map(|value| distinct.insert(*value).0).collect();
    let mut order: Vec<u32> = (0..distinct.values.len() as u32).collect();
    order.sort_unstable_by_key(|number| distinct.values[*number as usize]);
    let mut rank = vec![0i64; order.len()];
    order.iter().enumerate().for_each(|(code, number)| rank[*number as usize] = code as i64);
    let codes = numbers.iter().map(|number| rank[*number as usize]).collect();
    (order.iter().map(|number| distinct.values[*number as usize]).collect(), codes)
}
