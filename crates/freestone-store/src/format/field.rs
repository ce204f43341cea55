//! What row-wise page formats share: iteration over rows, short bit fields, and tests of values that may be codes of a
//! shared dictionary or compressed strings.

use freestone_codec::{IntPredicate, IntTest, Predicate, Rows, Shared, Transform};

use crate::bitmap;

/// Calls `f(index, row)` for each of `rows`.
#[inline]
pub fn for_rows(rows: Rows<'_>, f: impl FnMut(usize, usize)) {
    for_rows_ahead(rows, |_| {}, f);
}

/// The distance in rows at which cache lines are prefetched: about as many as memory delivers meanwhile.
const AHEAD: usize = 16;

/// As [`for_rows`], but before each row it calls `ahead` with a row that follows soon.
#[inline]
pub fn for_rows_ahead(rows: Rows<'_>, ahead: impl Fn(usize), mut f: impl FnMut(usize, usize)) {
    match rows {
        Rows::Range { start, len } => (0..len).for_each(|i| {
            if i + AHEAD < len {
                ahead(start + i + AHEAD);
            }
            f(i, start + i);
        }),
        Rows::Positions(positions) => positions.iter().enumerate().for_each(|(i, row)| {
            if let Some(row) = positions.get(i + AHEAD) {
                ahead(*row as usize);
            }
            f(i, *row as usize);
        }),
    }
}

/// The field of at most 56 bits at `bit`. Bytes after the end read as zero.
#[inline]
pub fn short(bytes: &[u8], bit: usize, width: u32) -> u64 {
    word(bytes, bit) & ((1 << width) - 1)
}

/// The 64 bits from `bit`, of which the last 7 may be zeros instead of the stored bits. Bytes after the end read as
/// zero.
#[inline]
pub fn word(bytes: &[u8], bit: usize) -> u64 {
    let byte = bit / 8;
    let word = match bytes.get(byte..byte + 8) {
        Some(chunk) => u64::from_le_bytes(chunk.try_into().expect("8 bytes")),
        None => {
            let mut buffer = [0; 8];
            let tail = bytes.get(byte..).unwrap_or(&[]);
            let n = tail.len().min(8);
            buffer[..n].copy_from_slice(&tail[..n]);
            u64::from_le_bytes(buffer)
        }
    };
    word >> (bit % 8)
}

/// The bytes that memory transfers to a cache at a time.
pub const CACHE_LINE: usize = 64;

/// Prefetches the cache line of byte `at`. Does nothing if there is no such byte.
#[inline]
pub fn prefetch(bytes: &[u8], at: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if let Some(byte) = bytes.get(at) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and never faults. Also, the pointer is that of a byte of the slice.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (bytes, at);
}

/// Clears the selected bits for which `keep` is false.
pub fn retain(selection: &mut [u64], len: usize, keep: impl Fn(usize) -> bool) {
    retain_ahead(selection, len, |_| {}, keep);
}

/// As [`retain`], but before each bit it calls `ahead` with a selected bit that follows soon.
pub fn retain_ahead(selection: &mut [u64], len: usize, ahead: impl Fn(usize), keep: impl Fn(usize) -> bool) {
    let words = &mut selection[..bitmap::words(len)];
    for at in 0..words.len() {
        let next = words.get(at + 1).copied().unwrap_or(0);
        let coming = words[at] >> AHEAD | next << (64 - AHEAD);
        let (mut rest, mut kept) = (words[at], 0);
        while rest != 0 {
            let bit = rest.trailing_zeros() as usize;
            if coming >> bit & 1 == 1 {
                ahead(at * 64 + bit + AHEAD);
            }
            kept |= u64::from(keep(at * 64 + bit)) << bit;
            rest &= rest - 1;
        }
        words[at] = kept;
    }
}

/// The meaning of a stored value.
pub enum FieldSource<'a> {
    /// The value.
    Value,
    /// A code of the segment's dictionary.
    Dictionary(&'a Shared),
    /// A string compressed with the segment's symbol table.
    Fsst(&'a Shared),
}

/// The meaning of stored values with this shared state.
pub fn source(shared: Option<&Shared>) -> FieldSource<'_> {
    match shared.map(|s| (s, s.transform())) {
        Some((shared, Transform::Dictionary)) => FieldSource::Dictionary(shared),
        Some((shared, Transform::Fsst)) => FieldSource::Fsst(shared),
        _ => FieldSource::Value,
    }
}

impl FieldSource<'_> {
    /// The predicate on stored integers.
    pub fn int_predicate(&self, predicate: &Predicate) -> Result<IntPredicate, String> {
        match (self, predicate) {
            (FieldSource::Dictionary(shared), _) => {
                let test = shared.translate(predicate).map_err(|e| e.to_string())?;
                Ok(codes_predicate(&test, shared))
            }
            (_, Predicate::Int(int)) => Ok(int.clone()),
            _ => Err("a predicate on strings for a column of numbers".into()),
        }
    }

    /// Whether one stored string passes. `buffer` is used for decompression.
    pub fn test_bytes(&self, bytes: &[u8], predicate: &Predicate, buffer: &mut Vec<u8>) -> Result<bool, String> {
        let Predicate::Bytes(test) = predicate else { return Ok(false) };
        match self {
            FieldSource::Fsst(shared) => {
                buffer.clear();
                shared.fsst_decompress(bytes, buffer).map_err(|e| e.to_string())?;
                Ok(test.test(buffer))
            }
            _ => Ok(test.test(bytes)),
        }
    }
}

/// A test on dictionary codes as a predicate on integers.
fn codes_predicate(test: &IntTest, shared: &Shared) -> IntPredicate {
    let codes = |c: &[u64]| c.iter().map(|c| i128::from(*c)).collect();
    match test {
        IntTest::Never => IntPredicate::Range { low: 1, high: 0 },
        IntTest::Always => IntPredicate::Range { low: i128::MIN, high: i128::MAX },
        IntTest::Range { low, high } => IntPredicate::Range { low: (*low).into(), high: (*high).into() },
        IntTest::NotEqual(code) => IntPredicate::NotEqual((*code).into()),
        IntTest::In(list) => IntPredicate::In(codes(list)),
        IntTest::NotIn(list) => IntPredicate::NotIn(codes(list)),
        IntTest::Set(_) | IntTest::Keys { .. } => {
            let all = 0..shared.dictionary_len() as u64;
            IntPredicate::In(all.filter(|c| test.test(*c)).map(i128::from).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn rows_come_in_order_and_are_asked_for_ahead() {
        let positions: Vec<u32> = (0..40).map(|i| i * 3).collect();
        for (rows, expected) in [
            (Rows::Range { start: 5, len: 30 }, (5..35).collect::<Vec<usize>>()),
            (Rows::Positions(&positions), (0..40).map(|i| i * 3).collect()),
            (Rows::Range { start: 5, len: AHEAD }, (5..5 + AHEAD).collect()),
        ] {
            let (asked, mut met) = (RefCell::new(vec![]), vec![]);
            for_rows_ahead(rows, |row| asked.borrow_mut().push(row), |i, row| met.push((i, row)));
            assert_eq!(met, expected.iter().copied().enumerate().collect::<Vec<_>>());
            assert_eq!(asked.into_inner(), expected[AHEAD..], "no row that does not come");
        }
    }

    #[test]
    fn bits_are_kept_and_only_selected_ones_are_asked_for_ahead() {
        let all = [0xfff0_ff0f_0000_ffff, u64::MAX, 0, 0x8000_0000_0001_ffff];
        let is_set = |words: &[u64], at: usize| words[at / 64] >> (at % 64) & 1 == 1;
        for len in [64, 150, 256] {
            let mut selection = all;
            let asked = RefCell::new(vec![]);
            retain_ahead(&mut selection, len, |at| asked.borrow_mut().push(at), |at| at % 3 != 0);
            for at in 0..all.len() * 64 {
                // Bits after the last tested word remain unchanged.
                let looked_at = at < len.next_multiple_of(64);
                assert_eq!(
                    is_set(&selection, at),
                    is_set(&all, at) && (at % 3 != 0 || !looked_at),
                    "bit {at} of {len}"
                );
            }
            let expected = (0..len.next_multiple_of(64)).filter(|at| is_set(&all, *at));
            let expected: Vec<usize> = expected.filter(|at| *at >= AHEAD && is_set(&all, at - AHEAD)).collect();
            assert_eq!(asked.into_inner(), expected);
        }
    }
}
