//! Strings as lengths and data. The data is raw, FSST-compressed per string, or (see `block`) Zstandard-compressed as a
//! whole.
//!
//! ```text
//! Constant    length u32 | the string (FSST-compressed under that transform)
//! Plain       param = bit width of a length; smallest length u32 | data bytes u32
//!             starts, u32 per vector: where its first string starts in the data
//!             lengths - smallest length, packed | data
//! ```

use super::packed::{by_range, by_vector};
use crate::bitpack::{Packed, VECTOR, Word, by_width, packed_bytes};
use crate::layout::{Reader, u32_at};
use crate::{CodecError, Rows, bits};

/// The lengths of a chunk's strings, from which the offset of each in the data follows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lengths<'a> {
    least: u32,
    /// Bytes of all strings.
    pub total: usize,
    starts: &'a [u8],
    packed: Packed<'a>,
}

/// The offsets of the strings of one vector: string `i` is `offsets[i] .. offsets[i + 1]`.
pub(crate) type Offsets = [u32; VECTOR + 1];

impl<'a> Lengths<'a> {
    /// Parses starts and lengths. The caller has read `least` and `total`, because `Block` has a field between them and
    /// the starts.
    pub fn parse(
        reader: &mut Reader<'a>,
        least: u32,
        total: usize,
        param: u16,
        rows: usize,
    ) -> Result<Self, CodecError> {
        let width = u32::from(param);
        if width > 32 {
            return Err(CodecError::corrupt(format!("lengths of {width} bits")));
        }
        let starts = reader.take(rows.div_ceil(VECTOR) * 4)?;
        let (packed, _) = Packed::parse(reader.take(packed_bytes(width, rows))?, width, rows)?;
        Ok(Self { least, total, starts, packed })
    }

    /// Fills the offsets of vector `v`, all of them at most `total`, and returns its rows.
    pub fn offsets(&self, v: usize, out: &mut Offsets) -> Result<usize, CodecError> {
        let n = self.packed.vector_rows(v);
        let mut offset = u64::from(u32_at(self.starts, v));
        let least = u64::from(self.least);
        by_width!(self.packed.width, W => {
            let mut codes = [W::default(); VECTOR];
            self.packed.vector::<W>(v, &mut codes);
            for (out, code) in out.iter_mut().zip(&codes[..n]) {
                *out = offset as u32;
                offset += least + code.to_u64();
            }
        });
        out[n] = offset as u32;
        if offset > self.total as u64 {
            return Err(CodecError::corrupt(format!("strings of vector {v} end at {offset} of {} bytes", self.total)));
        }
        Ok(n)
    }

    /// Calls `each(offsets)` for ranges of adjacent strings (`offsets.len() - 1` of them), in order.
    pub fn visit(
        &self,
        rows: Rows<'_>,
        mut each: impl FnMut(&[u32]) -> Result<(), CodecError>,
    ) -> Result<(), CodecError> {
        let mut offsets = [0u32; VECTOR + 1];
        match rows {
            Rows::Range { start, len } => by_range(start, len, |v, from, to| {
                self.offsets(v, &mut offsets)?;
                each(&offsets[from..=to])
            }),
            Rows::Positions(positions) => by_vector(positions, |v, positions| {
                self.offsets(v, &mut offsets)?;
                positions.iter().map(|p| *p as usize % VECTOR).try_for_each(|p| each(&offsets[p..=p + 1]))
            }),
        }
    }

    /// Bytes of the section with the lengths of `rows` strings, without `least` and `total`.
    pub fn bytes(rows: usize, least: u32, greatest: u32) -> usize {
        rows.div_ceil(VECTOR) * 4 + packed_bytes(bits::width(u64::from(greatest - least)), rows)
    }

    /// Appends starts and packed lengths.
    pub fn put(offsets: &[u32], least: u32, width: u32, out: &mut Vec<u8>) {
        for start in offsets[..offsets.len() - 1].iter().step_by(VECTOR) {
            out.extend_from_slice(&(start - offsets[0]).to_le_bytes());
        }
        let lengths: Vec<i64> = offsets.windows(2).map(|o| i64::from(o[1] - o[0])).collect();
        crate::bitpack::pack(&lengths, i64::from(least), width, out);
    }
}

/// The minimum and maximum length.
pub(crate) fn length_range(offsets: &[u32]) -> (u32, u32) {
    offsets.windows(2).map(|o| o[1] - o[0]).fold((u32::MAX, 0), |(a, b), n| (a.min(n), b.max(n)))
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct PlainStrings<'a> {
    pub lengths: Lengths<'a>,
    pub data: &'a [u8],
}

impl<'a> PlainStrings<'a> {
    pub fn parse(mut reader: Reader<'a>, param: u16, rows: usize) -> Result<Self, CodecError> {
        let (least, total) = (reader.u32()?, reader.u32()? as usize);
        let lengths = Lengths::parse(&mut reader, least, total, param, rows)?;
        Ok(Self { lengths, data: reader.take(total)? })
    }
}

/// Bytes of a Plain body of `rows` strings and `data` bytes.
pub(crate) fn plain_bytes(rows: usize, data: usize, least: u32, greatest: u32) -> usize {
    8 + Lengths::bytes(rows, least, greatest) + data
}

/// Appends a Plain body of the strings between `offsets`, and returns the header's param.
pub(crate) fn encode_plain(offsets: &[u32], data: &[u8], out: &mut Vec<u8>) -> u16 {
    let (least, greatest) = length_range(offsets);
    let width = bits::width(u64::from(greatest - least));
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    out.extend_from_slice(&least.to_le_bytes());
    out.extend_from_slice(&(last - first).to_le_bytes());
    Lengths::put(offsets, least, width, out);
    out.extend_from_slice(&data[first as usize..last as usize]);
    width as u16
}
