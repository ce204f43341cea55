//! Delta: differences from the previous value, with each vector decodable separately.
//!
//! ```text
//! directory, 24 bytes per vector:  first value i64 | smallest difference i64 | offset u32 of its codes | width u8 | 0 u8 x 3
//! codes      per vector, packed:   code[0] = 0, code[i] = (v[i] - v[i - 1]) - smallest difference       (modulo 2^64)
//! ```
//! Offsets count from the end of the directory.

use super::packed::VectorSource;
use crate::bitpack::{self, Number, VECTOR, Word, by_width, vector_bytes};
use crate::layout::{Reader, u32_at};
use crate::{CodecError, bits};

const ENTRY_BYTES: usize = 24;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Delta<'a> {
    directory: &'a [u8],
    codes: &'a [u8],
    rows: usize,
}

impl<'a> Delta<'a> {
    pub fn parse(mut reader: Reader<'a>, rows: usize) -> Result<Self, CodecError> {
        let directory = reader.take(rows.div_ceil(VECTOR) * ENTRY_BYTES)?;
        let delta = Self { directory, codes: reader.rest(), rows };
        for v in 0..rows.div_ceil(VECTOR) {
            let (_, _, offset, width) = delta.entry(v);
            let n = (rows - v * VECTOR).min(VECTOR);
            if width > 64 || offset + vector_bytes(width, n) > delta.codes.len() {
                return Err(CodecError::corrupt(format!(
                    "delta vector {v}: width {width} at {offset} leaves the chunk"
                )));
            }
        }
        Ok(delta)
    }

    fn entry(&self, v: usize) -> (i64, i64, usize, u32) {
        let entry = &self.directory[v * ENTRY_BYTES..(v + 1) * ENTRY_BYTES];
        let word = |at: usize| i64::from_le_bytes(entry[at..at + 8].try_into().expect("a slice of 8 bytes"));
        (word(0), word(8), u32_at(&entry[16..], 0) as usize, u32::from(entry[20]))
    }
}

impl VectorSource for Delta<'_> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn vector(&self, v: usize, out: &mut [i64; VECTOR]) -> Result<(), CodecError> {
        let (first, least, offset, width) = self.entry(v);
        let n = (self.rows - v * VECTOR).min(VECTOR);
        by_width!(width, T => {
            let mut codes = [T::default(); VECTOR];
            bitpack::unpack(&self.codes[offset..], width, n, &mut codes);
            sum(first, least, &codes[..n], out);
        });
        Ok(())
    }
}

#[inline]
fn sum<T: Word>(first: i64, least: i64, codes: &[T], out: &mut [i64; VECTOR]) {
    let mut value = first.wrapping_sub(least);
    for (out, code) in out.iter_mut().zip(codes) {
        value = value.wrapping_add(least).wrapping_add(code.to_u64() as i64);
        *out = value;
    }
}

/// Computes the size of a chunk that grows from its first row.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeltaSizer {
    rows: usize,
    done_bytes: usize,
    least: i64,
    greatest: i64,
    last: i64,
}

impl DeltaSizer {
    pub fn push(&mut self, values: &[i64]) {
        for value in values {
            let in_vector = self.rows % VECTOR;
            if in_vector == 0 {
                self.done_bytes = self.bytes();
            } else {
                let difference = value.wrapping_sub(self.last);
                self.least = if in_vector == 1 { difference } else { self.least.min(difference) };
                self.greatest = if in_vector == 1 { difference } else { self.greatest.max(difference) };
            }
            self.last = *value;
            self.rows += 1;
        }
    }

    pub fn bytes(&self) -> usize {
        match self.rows % VECTOR {
            0 if self.rows == 0 => 0,
            1 => self.done_bytes + ENTRY_BYTES,
            n => {
                let width = bits::width(self.greatest.wrapping_sub(self.least) as u64);
                self.done_bytes + ENTRY_BYTES + vector_bytes(width, if n == 0 { VECTOR } else { n })
            }
        }
    }
}

pub(crate) fn encode(values: &[i64], out: &mut Vec<u8>) {
    let mut codes = Vec::new();
    let mut differences = [0i64; VECTOR];
    for vector in values.chunks(VECTOR) {
        for (difference, pair) in differences[1..].iter_mut().zip(vector.windows(2)) {
            *difference = pair[1].wrapping_sub(pair[0]);
        }
        let inner = &mut differences[..vector.len()];
        let (least, greatest) = if inner.len() > 1 { bitpack::min_max(&inner[1..]) } else { (0, 0) };
        inner[0] = least;
        let width = bits::width(greatest.offset(least));
        for number in [vector[0], least] {
            number.put(out);
        }
        out.extend_from_slice(&(codes.len() as u32).to_le_bytes());
        out.extend_from_slice(&[width as u8, 0, 0, 0]);
        bitpack::pack(inner, least, width, &mut codes);
    }
    out.extend_from_slice(&codes);
}
