//! Run-length encoding: value and run length packed into one word of constant width (Holloway and DeWitt 2008, section
//! 4.2, with a reference value and without byte alignment).
//!
//! ```text
//! param      low byte: V, bits of a value (0..=64); high byte: R, bits of a run length (0..=24)
//! reference  i64, or i128 for wide values
//! words      u32: number of words
//! starts     u32 for every 128th word: the row where its run starts
//! words      V + R bits each without gaps: value - reference | run length - 1
//! ```
//! A run of more than 2^R rows takes several words.

use super::packed::Test;
use crate::bitpack::Number;
use crate::bits::{self, BitWriter};
use crate::layout::{Reader, u32_at};
use crate::{CodecError, IntTarget, Rows, select};

/// Words per entry of `starts`.
const STRIDE: usize = 128;
const RUN_BITS_MAX: u32 = 24;
/// The number of values that are written at once.
const SHORT: usize = 8;
/// If at least one in `DENSE` rows is requested, the whole range is decoded.
const DENSE: usize = 4;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Rle<'a> {
    starts: &'a [u8],
    bytes: &'a [u8],
    words: usize,
    value_bits: u32,
    run_bits: u32,
    reference: i128,
    rows: usize,
}

/// One word: rows `start .. end` have the value `reference + code`.
struct Run {
    code: u64,
    start: usize,
    end: usize,
}

impl<'a> Rle<'a> {
    pub fn parse(mut reader: Reader<'a>, param: u16, rows: usize, wide: bool) -> Result<Self, CodecError> {
        let (value_bits, run_bits) = (u32::from(param & 0xFF), u32::from(param >> 8));
        if value_bits > 64 || run_bits > RUN_BITS_MAX {
            return Err(CodecError::corrupt(format!("runs of {value_bits} + {run_bits} bits")));
        }
        let reference = reader.number(wide)?;
        let words = reader.u32()? as usize;
        if words == 0 || words > rows {
            return Err(CodecError::corrupt(format!("{words} runs for {rows} rows")));
        }
        let starts = reader.take(words.div_ceil(STRIDE) * 4)?;
        let bytes = reader.take((words * (value_bits + run_bits) as usize).div_ceil(8))?;
        let ascending = (1..words.div_ceil(STRIDE)).all(|i| u32_at(starts, i - 1) < u32_at(starts, i));
        if u32_at(starts, 0) != 0 || !ascending {
            return Err(CodecError::corrupt("starts of runs do not ascend from 0"));
        }
        Ok(Self { starts, bytes, words, value_bits, run_bits, reference, rows })
    }

    /// Calls `each` for the runs, beginning with the one that contains `row`, until it returns false.
    fn runs_from(&self, row: usize, mut each: impl FnMut(Run) -> bool) -> Result<(), CodecError> {
        let (mut low, mut high) = (0, self.words.div_ceil(STRIDE));
        while high - low > 1 {
            let middle = (low + high) / 2;
            if u32_at(self.starts, middle) as usize <= row { low = middle } else { high = middle }
        }
        let mut start = u32_at(self.starts, low) as usize;
        let total = self.value_bits + self.run_bits;
        for word in low * STRIDE..self.words {
            let bit = word * total as usize;
            let (code, length) = if total <= 56 {
                let word = bits::get(self.bytes, bit, total);
                (word & ((1 << self.value_bits) - 1), word >> self.value_bits)
            } else {
                let length = bits::get(self.bytes, bit + self.value_bits as usize, self.run_bits);
                (bits::get(self.bytes, bit, self.value_bits), length)
            };
            let end = start + length as usize + 1;
            if end > row && !each(Run { code, start, end: end.min(self.rows) }) {
                return Ok(());
            }
            start = end;
        }
        Err(CodecError::corrupt(format!("runs end at row {start}")))
    }

    pub fn decode<T: IntTarget>(&self, rows: Rows<'_>, wide: bool, out: &mut Vec<T>) -> Result<(), CodecError> {
        let value = |code: u64| target::<T>(self.reference, code, wide);
        match rows {
            Rows::Range { len: 0, .. } | Rows::Positions([]) => Ok(()),
            Rows::Range { start, len } => self.decode_range(start, len, value, out),
            // For rows that are close together, decoding the rows between them is cheaper than searching their runs.
            Rows::Positions([first, .., last]) if rows.len() * DENSE >= (last - first) as usize => {
                let mut all = vec![];
                self.decode_range(*first as usize, (last - first) as usize + 1, value, &mut all)?;
                let Rows::Positions(positions) = rows else { return Ok(()) };
                out.extend(positions.iter().map(|p| all[(p - first) as usize]));
                Ok(())
            }
            Rows::Positions(positions) => {
                let mut left = positions;
                self.runs_from(positions[0] as usize, |run| {
                    let n = left.iter().take_while(|p| (**p as usize) < run.end).count();
                    out.resize(out.len() + n, value(run.code));
                    left = &left[n..];
                    !left.is_empty()
                })
            }
        }
    }

    fn decode_range<T: IntTarget>(
        &self,
        start: usize,
        len: usize,
        value: impl Fn(u64) -> T,
        out: &mut Vec<T>,
    ) -> Result<(), CodecError> {
        let base = out.len();
        // Short runs are written with `SHORT` values; the next run overwrites the surplus.
        out.resize(base + len + SHORT, T::default());
        let rest = &mut out[base..];
        let mut at = 0;
        let done = self.runs_from(start, |run| {
            let n = run.end.min(start + len).saturating_sub(run.start.max(start));
            let filled = if n <= SHORT { SHORT } else { n };
            rest[at..at + filled].fill(value(run.code));
            at += n;
            run.end < start + len
        });
        out.truncate(base + at);
        done
    }

    pub fn filter(&self, test: Test<'_>, start: usize, len: usize, selection: &mut [u64]) -> Result<(), CodecError> {
        if len == 0 {
            return Ok(());
        }
        self.runs_from(start, |run| {
            let (from, to) = (run.start.max(start), run.end.min(start + len));
            if from < to && !test.test(self.reference.wrapping_add(i128::from(run.code))) {
                select::clear(selection, from - start, to - from);
            }
            run.end < start + len
        })
    }
}

#[inline]
fn target<T: IntTarget>(reference: i128, code: u64, wide: bool) -> T {
    if wide {
        T::from_i128(reference.wrapping_add(i128::from(code)))
    } else {
        T::from_i64((reference as i64).wrapping_add(code as i64))
    }
}

/// Computes the size of a chunk that grows from its first row.
#[derive(Debug, Clone)]
pub(crate) struct RleSizer<N> {
    range: Option<(N, N)>,
    last: N,
    run: usize,
    /// The number of words of the finished runs, if a run length has `i` bits.
    words: [u32; RUN_BITS_MAX as usize + 1],
}

impl<N: Number> RleSizer<N> {
    pub fn new() -> Self {
        Self { range: None, last: N::default(), run: 0, words: [0; RUN_BITS_MAX as usize + 1] }
    }

    pub fn push(&mut self, values: &[N]) {
        for value in values {
            if self.run > 0 && *value == self.last {
                self.run += 1;
                continue;
            }
            self.words = self.words_with_open_run();
            self.last = *value;
            self.run = 1;
            let (min, max) = self.range.unwrap_or((*value, *value));
            self.range = Some((min.min(*value), max.max(*value)));
        }
    }

    fn words_with_open_run(&self) -> [u32; RUN_BITS_MAX as usize + 1] {
        let mut words = self.words;
        if self.run > 0 {
            for (bits, words) in words.iter_mut().enumerate() {
                *words += ((self.run - 1) >> bits) as u32 + 1;
            }
        }
        words
    }

    /// Reference, value bits, run bits and words of the smallest split. `None` if the values span more than 64 bits.
    fn split(&self) -> Option<(N, u32, u32, usize)> {
        let (min, max) = self.range?;
        let value_bits = bits::width(N::span(min, max)?);
        let words = self.words_with_open_run();
        let cost = |run_bits: u32| size::<N>(words[run_bits as usize] as usize, value_bits + run_bits);
        let run_bits = (0..=RUN_BITS_MAX).min_by_key(|b| cost(*b)).unwrap_or(0);
        Some((min, value_bits, run_bits, words[run_bits as usize] as usize))
    }

    pub fn bytes(&self) -> Option<usize> {
        self.split().map(|(_, value_bits, run_bits, words)| size::<N>(words, value_bits + run_bits))
    }
}

fn size<N: Number>(words: usize, word_bits: u32) -> usize {
    N::BYTES + 4 + words.div_ceil(STRIDE) * 4 + (words * word_bits as usize).div_ceil(8)
}

/// Appends the body and returns the header's param. `None`, with nothing appended, if the values span more than 64
/// bits.
pub(crate) fn encode<N: Number>(values: &[N], out: &mut Vec<u8>) -> Option<u16> {
    let mut sizer = RleSizer::new();
    sizer.push(values);
    let (reference, value_bits, run_bits, words) = sizer.split()?;
    reference.put(out);
    out.extend_from_slice(&(words as u32).to_le_bytes());
    let mut stream = BitWriter::new();
    let (mut row, mut word) = (0, 0);
    for run in values.chunk_by(|a, b| a == b) {
        let mut left = run.len();
        while left > 0 {
            let length = left.min(1 << run_bits);
            if word % STRIDE == 0 {
                out.extend_from_slice(&(row as u32).to_le_bytes());
            }
            stream.put(run[0].offset(reference), value_bits);
            stream.put(length as u64 - 1, run_bits);
            left -= length;
            row += length;
            word += 1;
        }
    }
    debug_assert_eq!(word, words);
    out.extend_from_slice(&stream.finish());
    Some((value_bits | run_bits << 8) as u16)
}
