//! Integer bodies: values of `Int` and `Wide`, float keys, and codes of a shared dictionary.
//!
//! ```text
//! Constant    i64, or i128 for wide values
//! Plain       param = bytes per value (1, 2, 4, 8, 16); the values, signed
//! BitPack     param = bit width; reference i64 (wide: i128) | values - reference, packed (see `bitpack`)
//! ```
//! The other encodings have files of their own.

use super::delta::Delta;
use super::delta_lz::DeltaLz;
use super::dictionary::IntDictionary;
use super::packed::{Test, VectorSource, decode_packed, decode_vectors, filter_packed, filter_source};
use super::rle::Rle;
use crate::bitpack::{self, Packed, VECTOR};
use crate::layout::{Header, Reader};
use crate::{CodecError, Encoding, IntTarget, Rows, select};

#[derive(Debug, Clone, Copy)]
pub(crate) enum IntBody<'a> {
    Constant(i128),
    Plain(Plain<'a>),
    BitPack { packed: Packed<'a>, reference: i128 },
    Dictionary(IntDictionary<'a>),
    Delta(Delta<'a>),
    DeltaLz(DeltaLz<'a>),
    Rle(Rle<'a>),
}

impl<'a> IntBody<'a> {
    pub fn parse(header: &Header<'a>, mut reader: Reader<'a>, wide: bool) -> Result<Self, CodecError> {
        let rows = header.rows;
        Ok(match header.encoding {
            Encoding::Constant => IntBody::Constant(reader.number(wide)?),
            Encoding::Plain => IntBody::Plain(Plain::parse(reader, header.param, rows, wide)?),
            Encoding::BitPack => {
                let reference = reader.number(wide)?;
                let (packed, _) = Packed::parse(reader.rest(), u32::from(header.param), rows)?;
                IntBody::BitPack { packed, reference }
            }
            Encoding::Dictionary => IntBody::Dictionary(IntDictionary::parse(reader, header.param, rows, wide)?),
            Encoding::Delta if !wide => IntBody::Delta(Delta::parse(reader, rows)?),
            Encoding::DeltaLz if !wide => IntBody::DeltaLz(DeltaLz::parse(reader, header.param, rows)?),
            Encoding::Rle => IntBody::Rle(Rle::parse(reader, header.param, rows, wide)?),
            other => return Err(CodecError::corrupt(format!("{other:?} chunk of integers"))),
        })
    }

    /// Appends the values of `rows`, which the caller has checked.
    pub fn decode<T: IntTarget>(&self, rows: Rows<'_>, wide: bool, out: &mut Vec<T>) -> Result<(), CodecError> {
        match self {
            IntBody::Constant(value) => {
                let value = if wide { T::from_i128(*value) } else { T::from_i64(*value as i64) };
                out.resize(out.len() + rows.len(), value);
                Ok(())
            }
            IntBody::Plain(plain) => {
                plain.decode(rows, out);
                Ok(())
            }
            IntBody::BitPack { packed, reference } => {
                decode_packed(packed, *reference, wide, rows, out);
                Ok(())
            }
            IntBody::Dictionary(dictionary) => dictionary.decode(rows, out),
            IntBody::Delta(delta) => decode_vectors(delta, rows, out),
            IntBody::DeltaLz(delta) => decode_vectors(delta, rows, out),
            IntBody::Rle(rle) => rle.decode(rows, wide, out),
        }
    }

    /// Clears the rows of `start .. start + len` that fail in `selection`, whose bit 0 is row `start`.
    pub fn filter(
        &self,
        test: Test<'_>,
        rows: usize,
        start: usize,
        len: usize,
        selection: &mut [u64],
    ) -> Result<(), CodecError> {
        match self {
            IntBody::Constant(value) => {
                if !test.test(*value) {
                    select::clear(selection, 0, len);
                }
                Ok(())
            }
            IntBody::Plain(plain) if plain.size == 16 => {
                for i in 0..len {
                    if select::get(selection, i) && !test.test(plain.wide(start + i)) {
                        select::clear(selection, i, 1);
                    }
                }
                Ok(())
            }
            IntBody::Plain(plain) => filter_source(plain, test, start, len, selection),
            IntBody::BitPack { packed, reference } => {
                let test = test.translate(*reference, bitpack::mask(packed.width));
                filter_packed(packed, &test, start, len, selection);
                Ok(())
            }
            IntBody::Dictionary(dictionary) => {
                dictionary.filter(test, start, len, selection);
                Ok(())
            }
            IntBody::Delta(delta) => filter_source(delta, test, start, len, selection),
            IntBody::DeltaLz(delta) => filter_source(delta, test, start, len, selection),
            IntBody::Rle(rle) => {
                debug_assert!(start + len <= rows);
                rle.filter(test, start, len, selection)
            }
        }
    }
}

/// Signed integers of 1, 2, 4, 8 or 16 bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plain<'a> {
    bytes: &'a [u8],
    size: usize,
    rows: usize,
}

impl<'a> Plain<'a> {
    fn parse(mut reader: Reader<'a>, param: u16, rows: usize, wide: bool) -> Result<Self, CodecError> {
        let size = usize::from(param);
        let valid = if wide { size == 16 } else { matches!(size, 1 | 2 | 4 | 8) };
        if !valid {
            return Err(CodecError::corrupt(format!("plain integers of {size} bytes")));
        }
        Ok(Self { bytes: reader.take(rows * size)?, size, rows })
    }

    fn wide(&self, row: usize) -> i128 {
        i128::from_le_bytes(self.bytes[row * 16..row * 16 + 16].try_into().expect("a slice of 16 bytes"))
    }

    fn decode<T: IntTarget>(&self, rows: Rows<'_>, out: &mut Vec<T>) {
        match self.size {
            1 => self.copy(rows, out, |b: [u8; 1]| T::from_i64(i64::from(i8::from_le_bytes(b)))),
            2 => self.copy(rows, out, |b: [u8; 2]| T::from_i64(i64::from(i16::from_le_bytes(b)))),
            4 => self.copy(rows, out, |b: [u8; 4]| T::from_i64(i64::from(i32::from_le_bytes(b)))),
            8 => self.copy(rows, out, |b: [u8; 8]| T::from_i64(i64::from_le_bytes(b))),
            _ => self.copy(rows, out, |b: [u8; 16]| T::from_i128(i128::from_le_bytes(b))),
        }
    }

    fn copy<T: IntTarget, const N: usize>(&self, rows: Rows<'_>, out: &mut Vec<T>, value: impl Fn([u8; N]) -> T) {
        let (values, _) = self.bytes.as_chunks::<N>();
        match rows {
            Rows::Range { start, len } => out.extend(values[start..start + len].iter().map(|b| value(*b))),
            Rows::Positions(positions) => out.extend(positions.iter().map(|p| value(values[*p as usize]))),
        }
    }
}

impl VectorSource for Plain<'_> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn vector(&self, v: usize, out: &mut [i64; VECTOR]) -> Result<(), CodecError> {
        let n = (self.rows - v * VECTOR).min(VECTOR);
        let bytes = &self.bytes[v * VECTOR * self.size..(v * VECTOR + n) * self.size];
        fn fill<const N: usize>(bytes: &[u8], out: &mut [i64], value: impl Fn([u8; N]) -> i64) {
            out.iter_mut().zip(bytes.as_chunks::<N>().0).for_each(|(out, b)| *out = value(*b));
        }
        match self.size {
            1 => fill(bytes, out, |b: [u8; 1]| i64::from(i8::from_le_bytes(b))),
            2 => fill(bytes, out, |b: [u8; 2]| i64::from(i16::from_le_bytes(b))),
            4 => fill(bytes, out, |b: [u8; 4]| i64::from(i32::from_le_bytes(b))),
            _ => fill(bytes, out, i64::from_le_bytes),
        }
        Ok(())
    }
}

/// The bytes (1, 2, 4 or 8) in which every value of `min ..= max` fits.
pub(crate) fn plain_size(min: i64, max: i64) -> usize {
    let fits = |bits: u32| (min >> (bits - 1)) >= -1 && (max >> (bits - 1)) <= 0;
    [8u32, 16, 32].into_iter().find(|bits| fits(*bits)).map_or(8, |bits| bits as usize / 8)
}
