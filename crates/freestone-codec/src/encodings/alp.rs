//! Floats: raw, or as decimals (ALP: Afroozeh, Kuffó and Boncz, SIGMOD 2024).
//!
//! ```text
//! Plain   the values, 8 or 4 bytes each
//! Alp     param = bit width of a decimal
//!         exponent e u8 | factor f u8 | 0 u16 | exceptions n u32 | reference i64
//!         decimals - reference, packed | rows of the exceptions, u32 x n, ascending | their values, 8 or 4 bytes x n
//!         value = (decimal as f64 * 10^f) * 10^-e, rounded to f32 for that kind
//! ```
//! A value is stored as a decimal only if its exact bits can be restored. All others (NaN, -0.0, infinities, most
//! binary fractions) are exceptions. Other encodings store the order-preserving integer keys of floats
//! ([`crate::f64_key`]).

use super::packed::{by_range, by_vector};
use crate::bitpack::{self, Packed, VECTOR, Word, by_width};
use crate::hash::hash_i64;
use crate::layout::{Reader, u32_at};
use crate::select::{Tester, VectorBits, filter_vectors};
use crate::simd::dispatch;
use crate::{CodecError, IntPredicate, IntTest, Rows, bits, f32_key, f64_key};

/// `f64` or `f32`.
pub(crate) trait Float: Copy + Default + 'static {
    const BYTES: usize;
    /// The largest exponent to try: the number of decimal digits of the type.
    const EXPONENT_MAX: usize;
    fn to_f64(self) -> f64;
    fn from_f64(value: f64) -> Self;
    fn same_bits(self, other: Self) -> bool;
    fn key(self) -> i64;
    fn from_key(key: i64) -> Self;
    /// A value from `BYTES` little-endian bytes.
    fn read(bytes: &[u8]) -> Self;
    fn put(self, out: &mut Vec<u8>);
}

impl Float for f64 {
    const BYTES: usize = 8;
    const EXPONENT_MAX: usize = 18;
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value
    }
    #[inline(always)]
    fn same_bits(self, other: Self) -> bool {
        self.to_bits() == other.to_bits()
    }
    #[inline(always)]
    fn key(self) -> i64 {
        f64_key(self)
    }
    #[inline(always)]
    fn from_key(key: i64) -> Self {
        f64::from_bits((key ^ (((key >> 63) as u64) >> 1) as i64) as u64)
    }
    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        f64::from_le_bytes(bytes.try_into().expect("8 bytes of a float"))
    }
    fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
}

impl Float for f32 {
    const BYTES: usize = 4;
    const EXPONENT_MAX: usize = 10;
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value as f32
    }
    #[inline(always)]
    fn same_bits(self, other: Self) -> bool {
        self.to_bits() == other.to_bits()
    }
    #[inline(always)]
    fn key(self) -> i64 {
        f32_key(self)
    }
    #[inline(always)]
    fn from_key(key: i64) -> Self {
        let key = key as i32;
        f32::from_bits((key ^ (((key >> 31) as u32) >> 1) as i32) as u32)
    }
    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        f32::from_le_bytes(bytes.try_into().expect("4 bytes of a float"))
    }
    fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
}

const POWERS: [f64; 19] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18];
const INVERSES: [f64; 19] = [
    1e0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14, 1e-15, 1e-16, 1e-17,
    1e-18,
];

/// Exponent and factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scale {
    pub exponent: u8,
    pub factor: u8,
}

impl Scale {
    #[inline(always)]
    fn decode<F: Float>(self, decimal: i64) -> F {
        F::from_f64(decimal as f64 * POWERS[self.factor as usize] * INVERSES[self.exponent as usize])
    }

    #[inline(always)]
    fn encode<F: Float>(self, value: F) -> i64 {
        let scaled = value.to_f64() * POWERS[self.exponent as usize] * INVERSES[self.factor as usize];
        scaled.round_ties_even() as i64
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct PlainFloats<'a> {
    pub bytes: &'a [u8],
}

impl<'a> PlainFloats<'a> {
    pub fn decode<F: Float>(&self, rows: Rows<'_>, out: &mut Vec<F>) {
        let at = |row: usize| F::read(&self.bytes[row * F::BYTES..(row + 1) * F::BYTES]);
        match rows {
            Rows::Range { start, len } => {
                let bytes = &self.bytes[start * F::BYTES..(start + len) * F::BYTES];
                out.extend(bytes.chunks_exact(F::BYTES).map(F::read));
            }
            Rows::Positions(positions) => out.extend(positions.iter().map(|p| at(*p as usize))),
        }
    }

    pub fn filter<F: Float>(&self, predicate: &IntPredicate, start: usize, len: usize, selection: &mut [u64]) {
        let test = predicate.translate(i128::from(i64::MIN), u64::MAX);
        let tester = Tester::new(&test);
        let mut keys = [0u64; VECTOR];
        let done = filter_vectors(self.bytes.len() / F::BYTES, start, len, selection, |v, n, bits| {
            let bytes = &self.bytes[v * VECTOR * F::BYTES..(v * VECTOR + n) * F::BYTES];
            for (key, value) in keys.iter_mut().zip(bytes.chunks_exact(F::BYTES)) {
                *key = F::read(value).key().wrapping_sub(i64::MIN) as u64;
            }
            tester.test(&keys, bits);
            Ok::<(), std::convert::Infallible>(())
        });
        done.unwrap_or_else(|e| match e {});
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Alp<'a> {
    packed: Packed<'a>,
    reference: i64,
    scale: Scale,
    positions: &'a [u8],
    values: &'a [u8],
}

impl<'a> Alp<'a> {
    pub fn parse(mut reader: Reader<'a>, param: u16, rows: usize, value_bytes: usize) -> Result<Self, CodecError> {
        let scale = Scale { exponent: reader.u8()?, factor: reader.u8()? };
        reader.u16()?;
        if scale.exponent as usize >= POWERS.len() || scale.factor as usize >= POWERS.len() {
            return Err(CodecError::corrupt(format!(
                "decimals scaled by 10^{} and 10^-{}",
                scale.factor, scale.exponent
            )));
        }
        let exceptions = reader.u32()? as usize;
        let reference = reader.i64()?;
        let (packed, rest) = Packed::parse(reader.rest(), u32::from(param), rows)?;
        let mut reader = Reader::new(rest);
        if exceptions > rows {
            return Err(CodecError::corrupt(format!("{exceptions} exceptions in {rows} rows")));
        }
        let positions = reader.take(exceptions * 4)?;
        let values = reader.take(exceptions * value_bytes)?;
        let ascending = (1..exceptions).all(|i| u32_at(positions, i - 1) < u32_at(positions, i));
        if !ascending || (exceptions > 0 && u32_at(positions, exceptions - 1) as usize >= rows) {
            return Err(CodecError::corrupt("rows of exceptions do not ascend within the chunk"));
        }
        Ok(Self { packed, reference, scale, positions, values })
    }

    fn exceptions(&self) -> usize {
        self.positions.len() / 4
    }

    /// The index of the first exception whose row is at least `row`.
    fn exception_from(&self, row: usize) -> usize {
        let (mut low, mut high) = (0, self.exceptions());
        while low < high {
            let middle = (low + high) / 2;
            if (u32_at(self.positions, middle) as usize) < row { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Calls `each(row, value)` for the exceptions of rows `start .. end`.
    fn each_exception<F: Float>(&self, start: usize, end: usize, mut each: impl FnMut(usize, F)) {
        for i in self.exception_from(start)..self.exceptions() {
            let row = u32_at(self.positions, i) as usize;
            if row >= end {
                break;
            }
            each(row, F::read(&self.values[i * F::BYTES..(i + 1) * F::BYTES]));
        }
    }

    pub fn decode<F: Float>(&self, rows: Rows<'_>, out: &mut Vec<F>) {
        out.reserve(rows.len());
        let base = out.len();
        by_width!(self.packed.width, W => {
            let mut codes = [W::default(); VECTOR];
            let done: Result<(), std::convert::Infallible> = match rows {
                Rows::Range { start, len } => by_range(start, len, |v, from, to| {
                    self.packed.vector::<W>(v, &mut codes);
                    scale_codes(&codes[from..to], self.reference, self.scale, out);
                    Ok(())
                }),
                Rows::Positions(positions) => by_vector(positions, |v, positions| {
                    self.packed.vector::<W>(v, &mut codes);
                    out.extend(positions.iter().map(|p| {
                        let code = codes[*p as usize % VECTOR].to_u64();
                        self.scale.decode::<F>(self.reference.wrapping_add(code as i64))
                    }));
                    Ok(())
                }),
            };
            done.unwrap_or_else(|e| match e {});
        });
        match rows {
            Rows::Range { start, len } => {
                self.each_exception::<F>(start, start + len, |row, value| out[base + row - start] = value);
            }
            Rows::Positions([]) => {}
            Rows::Positions(positions) => {
                let (first, last) = (positions[0] as usize, positions[positions.len() - 1] as usize);
                self.each_exception::<F>(first, last + 1, |row, value| {
                    if let Ok(i) = positions.binary_search(&(row as u32)) {
                        out[base + i] = value;
                    }
                });
            }
        }
    }

    pub fn filter<F: Float>(&self, predicate: &IntPredicate, start: usize, len: usize, selection: &mut [u64]) {
        let by_codes = self.translate::<F>(predicate);
        let by_keys = predicate.translate(i128::from(i64::MIN), u64::MAX);
        let tester = Tester::new(by_codes.as_ref().unwrap_or(&by_keys));
        by_width!(self.packed.width, W => {
            let mut codes = [W::default(); VECTOR];
            let done = filter_vectors(self.packed.rows, start, len, selection, |v, n, bits: &mut VectorBits| {
                self.packed.vector::<W>(v, &mut codes);
                match &by_codes {
                    Some(_) => tester.test(&codes, bits),
                    None => {
                        let key = |code: &W| self.key::<F>(code.to_u64()).wrapping_sub(i64::MIN) as u64;
                        tester.test(&std::array::from_fn(|i| key(&codes[i])), bits);
                    }
                }
                self.each_exception::<F>(v * VECTOR, v * VECTOR + n, |row, value| {
                    let (word, bit) = (row % VECTOR / 64, 1 << (row % 64));
                    bits[word] &= !bit;
                    if predicate.test(i128::from(value.key())) {
                        bits[word] |= bit;
                    }
                });
                Ok::<(), std::convert::Infallible>(())
            });
            done.unwrap_or_else(|e| match e {});
        })
    }

    fn key<F: Float>(&self, code: u64) -> i64 {
        self.scale.decode::<F>(self.reference.wrapping_add(code as i64)).key()
    }

    /// The predicate on codes. Decoding is monotonic, because each step rounds a monotonic function, so a range of keys
    /// is a range of codes, which binary search finds. `None` for lists in which several codes have the same key.
    fn translate<F: Float>(&self, predicate: &IntPredicate) -> Option<IntTest> {
        let max_code = bitpack::mask(self.packed.width).min(i64::MAX.wrapping_sub(self.reference) as u64);
        // The first code whose key is at least `key`, or `max_code + 1`.
        let lower = |key: i128| {
            let (mut low, mut high) = (0u128, u128::from(max_code) + 1);
            while low < high {
                let middle = (low + high) / 2;
                if i128::from(self.key::<F>(middle as u64)) < key { low = middle + 1 } else { high = middle }
            }
            low
        };
        let range = |low: i128, high: i128| (lower(low), if high == i128::MAX { lower(high) } else { lower(high + 1) });
        let codes = |list: &[i128]| {
            let ranges = list.iter().map(|key| range(*key, *key));
            ranges
                .filter(|(from, to)| from < to)
                .map(|(from, to)| (to - from == 1).then_some(from as u64))
                .collect::<Option<Vec<u64>>>()
        };
        Some(match predicate {
            IntPredicate::Range { low, high } => match range(*low, (*high).min(i128::from(i64::MAX))) {
                (from, to) if from >= to => IntTest::Never,
                (from, to) => IntTest::Range { low: from as u64, high: (to - 1) as u64 },
            },
            IntPredicate::NotEqual(key) => match codes(std::slice::from_ref(key))?.first() {
                Some(code) => IntTest::NotEqual(*code),
                None => IntTest::Always,
            },
            IntPredicate::In(list) => IntTest::In(codes(list)?),
            IntPredicate::NotIn(list) => IntTest::NotIn(codes(list)?),
            // Floats cannot be looked up in a key set: decode and test.
            IntPredicate::Keys(_) => return None,
        })
    }
}

dispatch! {
    fn scale_codes<W: Word, F: Float>(codes: &[W], reference: i64, scale: Scale, out: &mut Vec<F>) = scale_kernel
}

#[inline(always)]
fn scale_kernel<W: Word, F: Float>(codes: &[W], reference: i64, scale: Scale, out: &mut Vec<F>) {
    let (power, inverse) = (POWERS[scale.factor as usize], INVERSES[scale.exponent as usize]);
    out.extend(codes.iter().map(|code| {
        let decimal = reference.wrapping_add(code.to_u64() as i64);
        F::from_f64(decimal as f64 * power * inverse)
    }));
}

/// A column's floats as decimals. A row with an exception repeats the previous decimal.
#[derive(Debug, Clone)]
pub(crate) struct Decimals {
    pub scale: Scale,
    pub decimals: Vec<i64>,
    /// Rows of the exceptions, ascending.
    pub exceptions: Vec<u32>,
}

impl Decimals {
    pub fn of<F: Float>(values: &[F]) -> Self {
        let scale = choose_scale(values);
        let mut decimals = Vec::new();
        let mut exceptions = Vec::new();
        to_decimals(values, scale, &mut decimals);
        for (row, (value, decimal)) in values.iter().zip(&decimals).enumerate() {
            if !scale.decode::<F>(*decimal).same_bits(*value) {
                exceptions.push(row as u32);
            }
        }
        // An exception takes the decimal of a neighbour, so that exceptions do not widen the frame of reference.
        let first = (0..values.len()).find(|row| exceptions.get(*row) != Some(&(*row as u32)));
        let mut before = first.map_or(0, |row| decimals[row]);
        for row in &exceptions {
            let row = *row as usize;
            if row > 0 && first.is_some_and(|first| row > first) {
                before = decimals[row - 1];
            }
            decimals[row] = before;
        }
        Self { scale, decimals, exceptions }
    }

    fn exceptions_in(&self, start: usize, end: usize) -> &[u32] {
        let from = self.exceptions.partition_point(|row| (*row as usize) < start);
        let to = self.exceptions.partition_point(|row| (*row as usize) < end);
        &self.exceptions[from..to]
    }

    /// Bytes of the body of rows `start .. start + rows`, whose decimals span `min ..= max`.
    pub fn bytes<F: Float>(&self, start: usize, rows: usize, min: i64, max: i64) -> usize {
        let width = bits::width(max.wrapping_sub(min) as u64);
        16 + bitpack::packed_bytes(width, rows) + self.exceptions_in(start, start + rows).len() * (4 + F::BYTES)
    }

    /// Appends the body, and returns the header's param.
    pub fn encode<F: Float>(&self, values: &[F], start: usize, rows: usize, out: &mut Vec<u8>) -> u16 {
        let decimals = &self.decimals[start..start + rows];
        let (min, max) = bitpack::min_max(decimals);
        let width = bits::width(max.wrapping_sub(min) as u64);
        let exceptions = self.exceptions_in(start, start + rows);
        out.extend_from_slice(&[self.scale.exponent, self.scale.factor, 0, 0]);
        out.extend_from_slice(&(exceptions.len() as u32).to_le_bytes());
        out.extend_from_slice(&min.to_le_bytes());
        bitpack::pack(decimals, min, width, out);
        exceptions.iter().for_each(|row| out.extend_from_slice(&(row - start as u32).to_le_bytes()));
        exceptions.iter().for_each(|row| values[*row as usize].put(out));
        width as u16
    }
}

dispatch! {
    fn to_decimals<F: Float>(values: &[F], scale: Scale, out: &mut Vec<i64>) = to_decimals_kernel
}

#[inline(always)]
fn to_decimals_kernel<F: Float>(values: &[F], scale: Scale, out: &mut Vec<i64>) {
    out.extend(values.iter().map(|value| scale.encode(*value)));
}

/// The number of values that the search for a scale tries.
const SAMPLE: usize = 512;

/// The scale that stores a sample in the fewest bits.
fn choose_scale<F: Float>(values: &[F]) -> Scale {
    // One value of each piece, at a place that no period of the values can follow.
    let pieces = values.chunks(values.len().div_ceil(SAMPLE).max(1)).enumerate();
    let sample: Vec<F> = pieces.map(|(at, piece)| piece[hash_i64(at as i64) as usize % piece.len()]).collect();
    let mut best = (usize::MAX, Scale { exponent: 0, factor: 0 });
    for exponent in 0..=F::EXPONENT_MAX as u8 {
        for factor in 0..=exponent {
            let scale = Scale { exponent, factor };
            let cost = sample_bits(&sample, scale, best.0);
            if cost < best.0 {
                best = (cost, scale);
            }
        }
    }
    best.1
}

fn sample_bits<F: Float>(sample: &[F], scale: Scale, give_up: usize) -> usize {
    let (mut min, mut max, mut exceptions) = (i64::MAX, i64::MIN, 0);
    for value in sample {
        let decimal = scale.encode(*value);
        if scale.decode::<F>(decimal).same_bits(*value) {
            min = min.min(decimal);
            max = max.max(decimal);
        } else {
            exceptions += 1;
            if exceptions * 8 * (4 + F::BYTES) >= give_up {
                return usize::MAX;
            }
        }
    }
    let width = if min <= max { bits::width(max.wrapping_sub(min) as u64) } else { 0 };
    sample.len() * width as usize + exceptions * 8 * (4 + F::BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_do_not_depend_on_periods_of_values() {
        for period in 1..=32usize {
            let values: Vec<f64> = (0..SAMPLE * 96).map(|row| (row * 7 % period) as f64 / 100.0).collect();
            assert_eq!(Decimals::of(&values).exceptions, [], "a period of {period}");
        }
    }
}
