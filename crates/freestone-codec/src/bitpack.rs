//! Bit-packing in vectors of 1024 values, interleaved so that unpacking is one vector loop without shuffles.
//!
//! ```text
//! width 1..=8: words of 8 bits, 128 lanes    9..=16: 16 bits, 64 lanes
//!      17..=32: 32 bits, 32 lanes           33..=64: 64 bits, 16 lanes        (lanes * word bytes = 128 always)
//!
//! value i  ->  row r = i / LANES, lane = i % LANES
//! lane:        its rows' fields of `width` bits, consecutive over its words, least significant bit first
//! word k of all lanes is contiguous: bytes 128 k .. 128 k + 128, word of lane l at 128 k + l * word bytes
//! ```
//! A full vector takes `128 * width` bytes. The last vector of a sequence may have fewer values: only
//! `ceil(rows * width / word bits)` word rows of 128 bytes are stored, where `rows = ceil(n / LANES)`.
//! As in FastLanes (Afroozeh and Boncz, PVLDB 2023), without its transposed order.

use crate::CodecError;
use crate::simd::dispatch;

/// Values in a vector.
pub(crate) const VECTOR: usize = 1024;
/// Bytes of one word row, which is one word of every lane.
const WORD_ROW: usize = 128;

/// The unsigned type in which codes of a range of widths are packed and compared.
pub(crate) trait Word: Copy + Default + Ord + 'static {
    const BITS: u32;
    const LANES: usize = WORD_ROW * 8 / Self::BITS as usize;
    /// The largest value.
    const MAX: Self;
    fn to_u64(self) -> u64;
    /// The low bits of `value`.
    fn from_u64(value: u64) -> Self;
    fn wrapping_sub(self, other: Self) -> Self;
    /// Extracts fields that lie within one word row.
    fn row_within(word: &[u8; WORD_ROW], shift: u32, mask: Self, out: &mut [Self]);
    /// Extracts fields that begin in `word` and end in `next`.
    fn row_across(word: &[u8; WORD_ROW], next: &[u8; WORD_ROW], shift: u32, mask: Self, out: &mut [Self]);
    /// Adds one row of fields at bit `shift` of `word`, and their remaining bits to the low bits of `next`.
    fn put_row(codes: &[Self], shift: u32, word: &mut [u8], next: Option<&mut [u8]>);
}

macro_rules! word {
    ($t:ty) => {
        impl Word for $t {
            const BITS: u32 = <$t>::BITS;
            const MAX: Self = <$t>::MAX;
            #[inline(always)]
            fn to_u64(self) -> u64 {
                u64::from(self)
            }
            #[inline(always)]
            fn from_u64(value: u64) -> Self {
                value as $t
            }
            #[inline(always)]
            fn wrapping_sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn row_within(word: &[u8; WORD_ROW], shift: u32, mask: Self, out: &mut [Self]) {
                let (words, _) = word.as_chunks::<{ size_of::<$t>() }>();
                for (out, word) in out.iter_mut().zip(words) {
                    *out = <$t>::from_le_bytes(*word).wrapping_shr(shift) & mask;
                }
            }
            #[inline(always)]
            fn row_across(word: &[u8; WORD_ROW], next: &[u8; WORD_ROW], shift: u32, mask: Self, out: &mut [Self]) {
                let (words, _) = word.as_chunks::<{ size_of::<$t>() }>();
                let (nexts, _) = next.as_chunks::<{ size_of::<$t>() }>();
                let up = <$t>::BITS - shift;
                for ((out, word), next) in out.iter_mut().zip(words).zip(nexts) {
                    let low = <$t>::from_le_bytes(*word).wrapping_shr(shift);
                    *out = (low | <$t>::from_le_bytes(*next).wrapping_shl(up)) & mask;
                }
            }
            #[inline(always)]
            fn put_row(codes: &[Self], shift: u32, word: &mut [u8], next: Option<&mut [u8]>) {
                let (words, _) = word.as_chunks_mut::<{ size_of::<$t>() }>();
                for (word, code) in words.iter_mut().zip(codes) {
                    *word = (<$t>::from_le_bytes(*word) | code.wrapping_shl(shift)).to_le_bytes();
                }
                let Some(next) = next else { return };
                let (words, _) = next.as_chunks_mut::<{ size_of::<$t>() }>();
                for (word, code) in words.iter_mut().zip(codes) {
                    *word = code.wrapping_shr(<$t>::BITS - shift).to_le_bytes();
                }
            }
        }
    };
}
word!(u8);
word!(u16);
word!(u32);
word!(u64);

/// Runs `$body` with `$word` as the word type of codes of `$width` bits.
macro_rules! by_width {
    ($width:expr, $word:ident => $body:expr) => {
        match $width {
            0..=8 => {
                type $word = u8;
                $body
            }
            9..=16 => {
                type $word = u16;
                $body
            }
            17..=32 => {
                type $word = u32;
                $body
            }
            _ => {
                type $word = u64;
                $body
            }
        }
    };
}
pub(crate) use by_width;

/// The largest code of `width` bits.
#[inline]
pub(crate) fn mask(width: u32) -> u64 {
    if width == 0 { 0 } else { u64::MAX >> (64 - width) }
}

/// Bits of the word type for `width`.
#[inline]
fn word_bits(width: u32) -> u32 {
    match width {
        0..=8 => 8,
        9..=16 => 16,
        17..=32 => 32,
        _ => 64,
    }
}

/// Bytes of a vector of `n` values, `n <= 1024`.
#[inline]
pub(crate) fn vector_bytes(width: u32, n: usize) -> usize {
    let bits = word_bits(width) as usize;
    let rows = n.div_ceil(WORD_ROW * 8 / bits);
    (rows * width as usize).div_ceil(bits) * WORD_ROW
}

/// Bytes of a sequence of `n` values.
#[inline]
pub(crate) fn packed_bytes(width: u32, n: usize) -> usize {
    (n / VECTOR) * WORD_ROW * width as usize + vector_bytes(width, n % VECTOR)
}

/// A validated packed sequence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packed<'a> {
    bytes: &'a [u8],
    pub width: u32,
    pub rows: usize,
}

impl<'a> Packed<'a> {
    /// Parses `rows` codes of `width` bits from the front of `bytes`, and returns them with the remaining bytes.
    ///
    /// # Errors
    /// `Corrupt` if the width is above 64 or the bytes are too few.
    pub fn parse(bytes: &'a [u8], width: u32, rows: usize) -> Result<(Self, &'a [u8]), CodecError> {
        if width > 64 {
            return Err(CodecError::corrupt(format!("bit width {width}")));
        }
        let n = packed_bytes(width, rows);
        let (packed, rest) = bytes
            .split_at_checked(n)
            .ok_or_else(|| CodecError::corrupt(format!("{n} bytes of packed codes, but {} left", bytes.len())))?;
        Ok((Self { bytes: packed, width, rows }, rest))
    }

    /// Values in vector `v`.
    #[inline]
    pub fn vector_rows(&self, v: usize) -> usize {
        (self.rows - v * VECTOR).min(VECTOR)
    }

    /// Unpacks vector `v` and returns its number of values. `T` must be the word type of the width.
    #[inline]
    pub fn vector<T: Word>(&self, v: usize, out: &mut [T; VECTOR]) -> usize {
        let n = self.vector_rows(v);
        unpack(&self.bytes[v * WORD_ROW * self.width as usize..], self.width, n, out);
        n
    }

    /// The code of one row.
    #[inline]
    pub fn get(&self, row: usize) -> u64 {
        unpack_single(&self.bytes[row / VECTOR * WORD_ROW * self.width as usize..], self.width, row % VECTOR)
    }
}

dispatch! {
    /// Unpacks the first `n` values of a vector. The rest of `out` is arbitrary afterwards.
    pub(crate) fn unpack<T: Word>(packed: &[u8], width: u32, n: usize, out: &mut [T; VECTOR]) = unpack_kernel
}

#[inline(always)]
fn unpack_kernel<T: Word>(packed: &[u8], width: u32, n: usize, out: &mut [T; VECTOR]) {
    if width == 0 {
        out.fill(T::default());
        return;
    }
    let mask = T::from_u64(mask(width));
    let (words, _) = packed.as_chunks::<WORD_ROW>();
    for (row, out) in out.chunks_exact_mut(T::LANES).take(n.div_ceil(T::LANES)).enumerate() {
        let bit = row as u32 * width;
        let (k, shift) = ((bit / T::BITS) as usize, bit % T::BITS);
        if shift + width <= T::BITS {
            T::row_within(&words[k], shift, mask, out);
        } else {
            T::row_across(&words[k], &words[k + 1], shift, mask, out);
        }
    }
}

/// One value of a vector.
#[inline]
fn unpack_single(packed: &[u8], width: u32, i: usize) -> u64 {
    if width == 0 {
        return 0;
    }
    by_width!(width, T => {
        const SIZE: usize = size_of::<T>();
        let (row, lane) = (i / T::LANES, i % T::LANES);
        let bit = row as u32 * width;
        let (k, shift) = ((bit / T::BITS) as usize, bit % T::BITS);
        let word = |k: usize| {
            let at = k * WORD_ROW + lane * SIZE;
            T::from_le_bytes(packed[at..at + SIZE].try_into().expect("a slice of SIZE bytes"))
        };
        let low = word(k).to_u64() >> shift;
        let high = if shift + width > T::BITS { word(k + 1).to_u64() << (T::BITS - shift) } else { 0 };
        (low | high) & mask(width)
    })
}

/// An integer that is packed as its difference from a reference.
pub(crate) trait Number: Copy + Default + Ord + std::hash::Hash + 'static {
    /// Bytes of a value on disk.
    const BYTES: usize;
    /// `self - reference`. The caller guarantees that it fits.
    fn offset(self, reference: Self) -> u64;
    /// `max - min`, if it fits 64 bits.
    fn span(min: Self, max: Self) -> Option<u64>;
    fn put(self, out: &mut Vec<u8>);
}

impl Number for i64 {
    const BYTES: usize = 8;
    #[inline(always)]
    fn offset(self, reference: Self) -> u64 {
        self.wrapping_sub(reference) as u64
    }
    fn span(min: Self, max: Self) -> Option<u64> {
        Some(max.wrapping_sub(min) as u64)
    }
    fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
}

impl Number for i128 {
    const BYTES: usize = 16;
    #[inline(always)]
    fn offset(self, reference: Self) -> u64 {
        self.wrapping_sub(reference) as u64
    }
    fn span(min: Self, max: Self) -> Option<u64> {
        u64::try_from(max.wrapping_sub(min) as u128).ok()
    }
    fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
}

dispatch! {
    /// The minimum and maximum of a slice that is not empty.
    pub(crate) fn min_max<N: Number>(values: &[N]) -> (N, N) = min_max_kernel
}

#[inline(always)]
fn min_max_kernel<N: Number>(values: &[N]) -> (N, N) {
    let (mut min, mut max) = (values[0], values[0]);
    for value in values {
        min = min.min(*value);
        max = max.max(*value);
    }
    (min, max)
}

/// Appends `values - reference` as codes of `width` bits.
pub(crate) fn pack<N: Number>(values: &[N], reference: N, width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let start = out.len();
    out.resize(start + packed_bytes(width, values.len()), 0);
    let step = WORD_ROW * width as usize;
    by_width!(width, T => {
        for (v, values) in values.chunks(VECTOR).enumerate() {
            pack_vector::<N, T>(values, reference, width, &mut out[start + v * step..]);
        }
    })
}

dispatch! {
    fn pack_vector<N: Number, T: Word>(values: &[N], reference: N, width: u32, out: &mut [u8]) = pack_kernel
}

#[inline(always)]
fn pack_kernel<N: Number, T: Word>(values: &[N], reference: N, width: u32, out: &mut [u8]) {
    let mut codes = [T::default(); VECTOR];
    for (code, value) in codes.iter_mut().zip(values) {
        *code = T::from_u64(value.offset(reference));
    }
    for (row, codes) in codes.chunks_exact(T::LANES).take(values.len().div_ceil(T::LANES)).enumerate() {
        let bit = row as u32 * width;
        let (k, shift) = ((bit / T::BITS) as usize, bit % T::BITS);
        let (word, rest) = out[k * WORD_ROW..].split_at_mut(WORD_ROW);
        let next = (shift + width > T::BITS).then(|| &mut rest[..WORD_ROW]);
        T::put_row(codes, shift, word, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(values: &[u64], width: u32) {
        let signed: Vec<i64> = values.iter().map(|v| (v & mask(width)) as i64).collect();
        let mut bytes = Vec::new();
        pack(&signed, 0, width, &mut bytes);
        assert_eq!(bytes.len(), packed_bytes(width, values.len()));
        let (packed, rest) = Packed::parse(&bytes, width, values.len()).expect("what pack wrote");
        assert!(rest.is_empty());
        by_width!(width, T => {
            let mut out = [T::default(); VECTOR];
            for v in 0..values.len().div_ceil(VECTOR) {
                let n = packed.vector::<T>(v, &mut out);
                let mut baseline = [T::default(); VECTOR];
                unpack_kernel(&packed.bytes[v * WORD_ROW * width as usize..], width, n, &mut baseline);
                assert_eq!(out[..n], baseline[..n], "width {width}: every vector width gives the same");
                for i in 0..n {
                    assert_eq!(out[i].to_u64(), signed[v * VECTOR + i] as u64, "width {width} row {i}");
                    assert_eq!(packed.get(v * VECTOR + i), signed[v * VECTOR + i] as u64, "width {width} row {i}");
                }
            }
        })
    }

    #[test]
    fn every_width_and_awkward_length() {
        let mut state = 1u64;
        for width in 0..=64 {
            for n in [1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1023, 1024, 1025, 2500] {
                let values: Vec<u64> = (0..n)
                    .map(|_| {
                        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                        state.rotate_left(29)
                    })
                    .collect();
                check(&values, width);
            }
        }
    }

    proptest! {
        #[test]
        fn packed_round_trip(values in proptest::collection::vec(any::<u64>(), 1..1500), width in 0u32..=64) {
            check(&values, width);
        }
    }

    /// `fit` grows a chunk row by row, so neither another row nor another bit may make it smaller.
    #[test]
    fn size_is_monotone() {
        for width in 0..64 {
            for n in 0..3000 {
                assert!(packed_bytes(width, n) <= packed_bytes(width, n + 1), "width {width} rows {n}");
                assert!(packed_bytes(width, n) <= packed_bytes(width + 1, n), "width {width} rows {n}");
            }
        }
    }
}
