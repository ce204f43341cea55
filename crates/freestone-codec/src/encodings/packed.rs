//! Helpers of the encodings of integers: visiting vectors of 1024 values, and decoding and filtering of packed values.

use crate::bitpack::{Packed, VECTOR, Word, by_width};
use crate::rows::{IntTarget, Rows};
use crate::select::{self, Tester, VectorBits, filter_vectors};
use crate::simd::dispatch;
use crate::{CodecError, IntPredicate, IntTest};

/// A body that is decoded one vector at a time.
pub(crate) trait VectorSource {
    fn rows(&self) -> usize;
    fn vector(&self, v: usize, out: &mut [i64; VECTOR]) -> Result<(), CodecError>;
}

/// The test for values: a predicate on values, or a test of dictionary codes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Test<'t> {
    Values(&'t IntPredicate),
    Codes(&'t IntTest),
}

impl Test<'_> {
    #[inline]
    pub fn test(&self, value: i128) -> bool {
        match self {
            Test::Values(predicate) => predicate.test(value),
            Test::Codes(test) => u64::try_from(value).is_ok_and(|code| test.test(code)),
        }
    }

    /// The bounds of the passing values: no value below the first or above the second passes.
    pub fn bounds(&self) -> (i128, i128) {
        match self {
            Test::Values(predicate) => predicate.bounds(),
            Test::Codes(_) => (i128::MIN, i128::MAX),
        }
    }

    /// The test of `value - reference`, for values from `reference` to `reference + max_code`.
    pub fn translate(&self, reference: i128, max_code: u64) -> IntTest {
        match self {
            Test::Values(predicate) => predicate.translate(reference, max_code),
            Test::Codes(test) => u64::try_from(reference).map_or(IntTest::Never, |r| test.rebase(r)),
        }
    }

    /// A reference relative to which every value is an unsigned 64-bit code of the same order.
    fn frame(&self) -> i64 {
        match self {
            Test::Values(_) => i64::MIN,
            Test::Codes(_) => 0,
        }
    }
}

/// Fewer positions than this in a vector are extracted separately instead of unpacking the vector.
const GATHER_MIN: usize = 24;

/// The positions that are stepped over together where all are in the same vector.
const STEP: usize = 16;

/// Calls `each(vector, positions within it)` for ascending positions.
pub(crate) fn by_vector<E>(
    mut positions: &[u32],
    mut each: impl FnMut(usize, &[u32]) -> Result<(), E>,
) -> Result<(), E> {
    while let Some(first) = positions.first() {
        let v = *first as usize / VECTOR;
        let is_here = |p: &u32| *p as usize / VECTOR == v;
        let mut n = 1;
        while positions.get(n + STEP).is_some_and(is_here) {
            n += STEP;
        }
        n += positions[n..].iter().take_while(|p| is_here(p)).count();
        each(v, &positions[..n])?;
        positions = &positions[n..];
    }
    Ok(())
}

/// Calls `each(vector, from, to)` for the vectors that a range overlaps.
pub(crate) fn by_range<E>(
    start: usize,
    len: usize,
    mut each: impl FnMut(usize, usize, usize) -> Result<(), E>,
) -> Result<(), E> {
    let mut row = start;
    while row < start + len {
        let v = row / VECTOR;
        let next = ((v + 1) * VECTOR).min(start + len);
        each(v, row - v * VECTOR, next - v * VECTOR)?;
        row = next;
    }
    Ok(())
}

pub(crate) fn decode_packed<T: IntTarget>(
    packed: &Packed<'_>,
    reference: i128,
    wide: bool,
    rows: Rows<'_>,
    out: &mut Vec<T>,
) {
    out.reserve(rows.len());
    by_width!(packed.width, W => {
        let mut codes = [W::default(); VECTOR];
        let done: Result<(), std::convert::Infallible> = match rows {
            Rows::Range { start, len } => by_range(start, len, |v, from, to| {
                packed.vector::<W>(v, &mut codes);
                if wide {
                    widen_wide(&codes[from..to], reference, out);
                } else {
                    widen(&codes[from..to], reference as i64, out);
                }
                Ok(())
            }),
            Rows::Positions(positions) => by_vector(positions, |v, positions| {
                let value = |code: u64| match wide {
                    true => T::from_i128(reference.wrapping_add(i128::from(code))),
                    false => T::from_i64((reference as i64).wrapping_add(code as i64)),
                };
                if positions.len() < GATHER_MIN {
                    out.extend(positions.iter().map(|p| value(packed.get(*p as usize))));
                } else {
                    packed.vector::<W>(v, &mut codes);
                    out.extend(positions.iter().map(|p| value(codes[*p as usize % VECTOR].to_u64())));
                }
                Ok(())
            }),
        };
        done.unwrap_or_else(|e| match e {});
    })
}

dispatch! {
    fn widen<W: Word, T: IntTarget>(codes: &[W], reference: i64, out: &mut Vec<T>) = widen_kernel
}

#[inline(always)]
fn widen_kernel<W: Word, T: IntTarget>(codes: &[W], reference: i64, out: &mut Vec<T>) {
    out.extend(codes.iter().map(|code| T::from_i64(reference.wrapping_add(code.to_u64() as i64))));
}

dispatch! {
    fn widen_wide<W: Word, T: IntTarget>(codes: &[W], reference: i128, out: &mut Vec<T>) = widen_wide_kernel
}

#[inline(always)]
fn widen_wide_kernel<W: Word, T: IntTarget>(codes: &[W], reference: i128, out: &mut Vec<T>) {
    out.extend(codes.iter().map(|code| T::from_i128(reference.wrapping_add(i128::from(code.to_u64())))));
}

pub(crate) fn filter_packed(packed: &Packed<'_>, test: &IntTest, start: usize, len: usize, selection: &mut [u64]) {
    match test {
        IntTest::Never => return select::clear(selection, 0, len),
        IntTest::Always => return,
        _ => {}
    }
    let tester = Tester::new(test);
    by_width!(packed.width, W => {
        let mut codes = [W::default(); VECTOR];
        let done = filter_vectors(packed.rows, start, len, selection, |v, _, bits: &mut VectorBits| {
            packed.vector::<W>(v, &mut codes);
            tester.test(&codes, bits);
            Ok::<(), std::convert::Infallible>(())
        });
        done.unwrap_or_else(|e| match e {});
    })
}

pub(crate) fn decode_vectors<T: IntTarget>(
    source: &impl VectorSource,
    rows: Rows<'_>,
    out: &mut Vec<T>,
) -> Result<(), CodecError> {
    out.reserve(rows.len());
    let mut values = [0i64; VECTOR];
    match rows {
        Rows::Range { start, len } => by_range(start, len, |v, from, to| {
            source.vector(v, &mut values)?;
            out.extend(values[from..to].iter().map(|value| T::from_i64(*value)));
            Ok(())
        }),
        Rows::Positions(positions) => by_vector(positions, |v, positions| {
            source.vector(v, &mut values)?;
            out.extend(positions.iter().map(|p| T::from_i64(values[*p as usize % VECTOR])));
            Ok(())
        }),
    }
}

pub(crate) fn filter_source(
    source: &impl VectorSource,
    test: Test<'_>,
    start: usize,
    len: usize,
    selection: &mut [u64],
) -> Result<(), CodecError> {
    let frame = test.frame();
    let test = test.translate(i128::from(frame), u64::MAX);
    let tester = Tester::new(&test);
    let (mut values, mut codes) = ([0i64; VECTOR], [0u64; VECTOR]);
    filter_vectors(source.rows(), start, len, selection, |v, _, bits| {
        source.vector(v, &mut values)?;
        for (code, value) in codes.iter_mut().zip(&values) {
            *code = value.wrapping_sub(frame) as u64;
        }
        tester.test(&codes, bits);
        Ok(())
    })
}
