//! Delta with leading zeros, for values that never decrease (Holloway and DeWitt 2008, section 3.2).
//!
//! ```text
//! param      low byte: W, the width of the largest difference (0..=64); high byte: C, bits of a count, width(W)
//! skips      12 bytes per vector: its first value i64 | bit offset u32 of the field of its second value
//! fields     one per value except the first of each vector, without gaps, least significant bit first:
//!              C bits: leading zeros z of the difference written in W bits (W for a difference of 0)
//!              W - z - 1 bits: the difference below its highest 1 bit, which is implied
//! ```

use super::packed::VectorSource;
use crate::CodecError;
use crate::bitpack::VECTOR;
use crate::bits::{self, BitWriter};
use crate::layout::{Reader, u32_at};

const SKIP_BYTES: usize = 12;

#[derive(Debug, Clone, Copy)]
pub(crate) struct DeltaLz<'a> {
    skips: &'a [u8],
    fields: &'a [u8],
    width: u32,
    count_bits: u32,
    rows: usize,
}

impl<'a> DeltaLz<'a> {
    pub fn parse(mut reader: Reader<'a>, param: u16, rows: usize) -> Result<Self, CodecError> {
        let (width, count_bits) = (u32::from(param & 0xFF), u32::from(param >> 8));
        if width > 64 || count_bits != bits::width(u64::from(width)) {
            return Err(CodecError::corrupt(format!("leading-zero delta of width {width} and count {count_bits}")));
        }
        let skips = reader.take(rows.div_ceil(VECTOR) * SKIP_BYTES)?;
        Ok(Self { skips, fields: reader.rest(), width, count_bits, rows })
    }
}

impl VectorSource for DeltaLz<'_> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn vector(&self, v: usize, out: &mut [i64; VECTOR]) -> Result<(), CodecError> {
        let skip = &self.skips[v * SKIP_BYTES..(v + 1) * SKIP_BYTES];
        let mut value = i64::from_le_bytes(skip[..8].try_into().expect("a slice of 8 bytes"));
        let mut bit = u32_at(&skip[8..], 0) as usize;
        let n = (self.rows - v * VECTOR).min(VECTOR);
        out[0] = value;
        for out in &mut out[1..n] {
            let zeros = bits::get(self.fields, bit, self.count_bits) as u32;
            bit += self.count_bits as usize;
            if zeros < self.width {
                let rest = self.width - zeros - 1;
                let difference = 1 << rest | bits::get(self.fields, bit, rest);
                bit += rest as usize;
                value = value.wrapping_add(difference as i64);
            }
            *out = value;
        }
        if bit > self.fields.len() * 8 {
            return Err(CodecError::corrupt("leading-zero delta runs past the chunk"));
        }
        Ok(())
    }
}

/// Computes the size of a chunk that grows from its first row.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeltaLzSizer {
    rows: usize,
    last: i64,
    width: u32,
    fields: usize,
    rest_bits: usize,
}

impl DeltaLzSizer {
    pub fn push(&mut self, values: &[i64]) {
        for value in values {
            if !self.rows.is_multiple_of(VECTOR) {
                let difference = value.wrapping_sub(self.last) as u64;
                let width = bits::width(difference);
                self.fields += 1;
                self.rest_bits += width.saturating_sub(1) as usize;
                self.width = self.width.max(width);
            }
            self.last = *value;
            self.rows += 1;
        }
    }

    pub fn bytes(&self) -> usize {
        let count_bits = bits::width(u64::from(self.width)) as usize;
        self.rows.div_ceil(VECTOR) * SKIP_BYTES + (self.fields * count_bits + self.rest_bits).div_ceil(8)
    }
}

/// Appends the body, and returns the header's param.
pub(crate) fn encode(values: &[i64], out: &mut Vec<u8>) -> u16 {
    let step = |pair: &[i64]| pair[1].wrapping_sub(pair[0]) as u64;
    let greatest = values.chunks(VECTOR).flat_map(|vector| vector.windows(2)).map(step).max().unwrap_or(0);
    let width = bits::width(greatest);
    let count_bits = bits::width(u64::from(width));
    let mut fields = BitWriter::new();
    for vector in values.chunks(VECTOR) {
        out.extend_from_slice(&vector[0].to_le_bytes());
        out.extend_from_slice(&(fields.bits() as u32).to_le_bytes());
        for pair in vector.windows(2) {
            let difference = step(pair);
            let own = bits::width(difference);
            fields.put(u64::from(width - own), count_bits);
            if own > 1 {
                fields.put(difference & ((1 << (own - 1)) - 1), own - 1);
            }
        }
    }
    out.extend_from_slice(&fields.finish());
    (width | count_bits << 8) as u16
}
