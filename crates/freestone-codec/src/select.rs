//! Selection bitmaps, and tests of the codes of one vector into sixteen bitmap words.

use crate::IntTest;
use crate::bitpack::{VECTOR, Word};
use crate::predicate::key_bit;
use crate::simd::dispatch;

/// The bitmap of one vector.
pub(crate) type VectorBits = [u64; VECTOR / 64];

/// Calls `test(vector, rows_in_vector, bits)` for every vector of the chunk that has selected rows among `start ..
/// start + len`, and clears the rows whose bit is zero afterwards.
pub(crate) fn filter_vectors<E>(
    rows: usize,
    start: usize,
    len: usize,
    selection: &mut [u64],
    mut test: impl FnMut(usize, usize, &mut VectorBits) -> Result<(), E>,
) -> Result<(), E> {
    let end = start + len;
    let mut row = start;
    while row < end {
        let vector = row / VECTOR;
        let next = ((vector + 1) * VECTOR).min(end);
        if any_set(selection, row - start, next - row) {
            let mut bits = [0u64; VECTOR / 64];
            test(vector, (rows - vector * VECTOR).min(VECTOR), &mut bits)?;
            and(selection, row - start, &bits, row % VECTOR, next - row);
        }
        row = next;
    }
    Ok(())
}

/// `n` bits (at most 64) of `words` from bit `at`. Bits after the last word are zero.
#[inline]
pub(crate) fn read(words: &[u64], at: usize, n: usize) -> u64 {
    let (word, shift) = (at / 64, at % 64);
    let low = words.get(word).map_or(0, |w| w >> shift);
    let high = if shift + n > 64 { words.get(word + 1).map_or(0, |w| w << (64 - shift)) } else { 0 };
    (low | high) & low_bits(n)
}

/// A word whose `n` (at most 64) low bits are set.
#[inline]
pub(crate) fn low_bits(n: usize) -> u64 {
    if n == 0 { 0 } else { u64::MAX >> (64 - n) }
}

/// Whether any of `len` bits from `at` is set.
pub(crate) fn any_set(words: &[u64], at: usize, len: usize) -> bool {
    pieces(at, len).any(|(word, mask, _)| words.get(word).is_some_and(|w| w & mask != 0))
}

/// ANDs `len` bits of `other`, from bit `from`, into `words`, from bit `at`.
pub(crate) fn and(words: &mut [u64], at: usize, other: &[u64], from: usize, len: usize) {
    for (word, mask, done) in pieces(at, len) {
        let bits = read(other, from + done, mask.count_ones() as usize);
        if let Some(w) = words.get_mut(word) {
            *w &= (bits << mask.trailing_zeros()) | !mask;
        }
    }
}

/// ORs `len` bits of `other`, from bit `from`, into `words`, from bit `at`.
pub(crate) fn or(words: &mut [u64], at: usize, other: &[u64], from: usize, len: usize) {
    for (word, mask, done) in pieces(at, len) {
        let bits = read(other, from + done, mask.count_ones() as usize);
        if let Some(w) = words.get_mut(word) {
            *w |= bits << mask.trailing_zeros();
        }
    }
}

pub(crate) fn clear(words: &mut [u64], at: usize, len: usize) {
    for (word, mask, _) in pieces(at, len) {
        if let Some(w) = words.get_mut(word) {
            *w &= !mask;
        }
    }
}

pub(crate) fn set(words: &mut [u64], at: usize, len: usize) {
    for (word, mask, _) in pieces(at, len) {
        if let Some(w) = words.get_mut(word) {
            *w |= mask;
        }
    }
}

#[inline]
pub(crate) fn get(words: &[u64], at: usize) -> bool {
    words.get(at / 64).is_some_and(|w| w >> (at % 64) & 1 == 1)
}

/// The words that contain bits `at .. at + len`: (word, mask of the bits in it, number of earlier bits). Masks are
/// contiguous.
#[inline]
fn pieces(at: usize, len: usize) -> impl Iterator<Item = (usize, u64, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done >= len {
            return None;
        }
        let bit = at + done;
        let n = (64 - bit % 64).min(len - done);
        let piece = (bit / 64, low_bits(n) << (bit % 64), done);
        done += n;
        Some(piece)
    })
}

/// A test, prepared for many vectors.
pub(crate) struct Tester<'t> {
    test: &'t IntTest,
    /// For lists that are too long to scan: one bit per hash of a code. It rejects most other codes before the search.
    hashes: Vec<u64>,
}

impl<'t> Tester<'t> {
    /// Prepares a test.
    pub fn new(test: &'t IntTest) -> Self {
        let mut hashes = Vec::new();
        if let IntTest::In(list) | IntTest::NotIn(list) = test
            && list.len() > LIST_SCAN_MAX
        {
            hashes.resize(list.len().next_power_of_two(), 0u64);
            let shift = hash_shift(&hashes);
            list.iter().map(|code| hash(*code, shift)).for_each(|bit| hashes[bit / 64] |= 1 << (bit % 64));
        }
        Self { test, hashes }
    }

    /// The bits of the codes that pass. Codes after the vector's rows give arbitrary bits.
    pub fn test<T: Word>(&self, codes: &[T; VECTOR], out: &mut VectorBits) {
        match self.test {
            IntTest::In(list) if !self.hashes.is_empty() => search(codes, list, &self.hashes, out),
            IntTest::NotIn(list) if !self.hashes.is_empty() => {
                search(codes, list, &self.hashes, out);
                out.iter_mut().for_each(|w| *w = !*w);
            }
            test => test_vector(codes, test, out),
        }
    }
}

fn hash_shift(hashes: &[u64]) -> u32 {
    64 - 6 - hashes.len().trailing_zeros()
}

#[inline(always)]
fn hash(code: u64, shift: u32) -> usize {
    (code.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> shift) as usize
}

fn search<T: Word>(codes: &[T; VECTOR], list: &[u64], hashes: &[u64], out: &mut VectorBits) {
    hash_bits(codes, hashes, out);
    for (word, codes) in out.iter_mut().zip(codes.as_chunks::<64>().0) {
        let mut left = *word;
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            left &= left - 1;
            if list.binary_search(&codes[i].to_u64()).is_err() {
                *word &= !(1 << i);
            }
        }
    }
}

dispatch! {
    fn hash_bits<T: Word>(codes: &[T; VECTOR], hashes: &[u64], out: &mut VectorBits) = hash_kernel
}

#[inline(always)]
fn hash_kernel<T: Word>(codes: &[T; VECTOR], hashes: &[u64], out: &mut VectorBits) {
    let shift = hash_shift(hashes);
    for (word, codes) in out.iter_mut().zip(codes.as_chunks::<64>().0) {
        let mut pass = [0u8; 64];
        for (pass, code) in pass.iter_mut().zip(codes) {
            let bit = hash(code.to_u64(), shift);
            *pass = (hashes[bit / 64] >> (bit % 64)) as u8 & 1;
        }
        *word = bools_to_bits(&pass);
    }
}

/// The bits of the codes that pass. Codes after the vector's rows give arbitrary bits.
fn test_vector<T: Word>(codes: &[T; VECTOR], test: &IntTest, out: &mut VectorBits) {
    let fits = |code: u64| code <= T::MAX.to_u64();
    match test {
        IntTest::Never => out.fill(0),
        IntTest::Always => out.fill(u64::MAX),
        IntTest::Range { low, high } if low > high || !fits(*low) => out.fill(0),
        IntTest::Range { low, high } => {
            let low = T::from_u64(*low);
            let high = T::from_u64((*high).min(T::MAX.to_u64()));
            range_bits(codes, low, high.wrapping_sub(low), out);
        }
        IntTest::NotEqual(code) if !fits(*code) => out.fill(u64::MAX),
        IntTest::NotEqual(code) => {
            range_bits(codes, T::from_u64(*code), T::default(), out);
            out.iter_mut().for_each(|w| *w = !*w);
        }
        IntTest::Set(words) if words.len() == 1 => word_bits(codes, words[0], out),
        IntTest::Set(words) => set_bits(codes, words, out),
        IntTest::Keys { keys, low, add } => key_bits(codes, keys.words(), (*low, *add), out),
        IntTest::In(list) => list_bits(codes, list, out),
        IntTest::NotIn(list) => {
            list_bits(codes, list, out);
            out.iter_mut().for_each(|w| *w = !*w);
        }
    }
}

/// Each code of a list up to this length is compared with whole vectors. Longer lists are searched for each code.
const LIST_SCAN_MAX: usize = 12;

fn list_bits<T: Word>(codes: &[T; VECTOR], list: &[u64], out: &mut VectorBits) {
    out.fill(0);
    let mut one = [0u64; VECTOR / 64];
    for code in list.iter().filter(|c| **c <= T::MAX.to_u64()) {
        range_bits(codes, T::from_u64(*code), T::default(), &mut one);
        out.iter_mut().zip(&one).for_each(|(o, b)| *o |= b);
    }
}

dispatch! {
    /// Tests `low <= code <= low + span`.
    fn range_bits<T: Word>(codes: &[T; VECTOR], low: T, span: T, out: &mut VectorBits) = range_kernel
}

#[inline(always)]
fn range_kernel<T: Word>(codes: &[T; VECTOR], low: T, span: T, out: &mut VectorBits) {
    for (word, codes) in out.iter_mut().zip(codes.as_chunks::<64>().0) {
        let mut pass = [0u8; 64];
        for (pass, code) in pass.iter_mut().zip(codes) {
            *pass = u8::from(code.wrapping_sub(low) <= span);
        }
        *word = bools_to_bits(&pass);
    }
}

dispatch! {
    /// Tests membership in a set of codes below 64.
    fn word_bits<T: Word>(codes: &[T; VECTOR], set: u64, out: &mut VectorBits) = word_kernel
}

#[inline(always)]
fn word_kernel<T: Word>(codes: &[T; VECTOR], set: u64, out: &mut VectorBits) {
    for (word, codes) in out.iter_mut().zip(codes.as_chunks::<64>().0) {
        let mut pass = [0u8; 64];
        for (pass, code) in pass.iter_mut().zip(codes) {
            let code = code.to_u64();
            *pass = (set.wrapping_shr(code as u32) as u8) & u8::from(code < 64);
        }
        *word = bools_to_bits(&pass.map(|p| p & 1));
    }
}

dispatch! {
    fn set_bits<T: Word>(codes: &[T; VECTOR], set: &[u64], out: &mut VectorBits) = set_kernel
}

#[inline(always)]
fn set_kernel<T: Word>(codes: &[T; VECTOR], set: &[u64], out: &mut VectorBits) {
    for (word, codes) in out.iter_mut().zip(codes.as_chunks::<64>().0) {
        let mut pass = [0u8; 64];
        for (pass, code) in pass.iter_mut().zip(codes) {
            let code = code.to_u64();
            let bits = set.get((code / 64) as usize).copied().unwrap_or(0);
            *pass = (bits >> (code % 64)) as u8 & 1;
        }
        *word = bools_to_bits(&pass);
    }
}

dispatch! {
    fn key_bits<T: Word>(codes: &[T; VECTOR], set: &[u64], place: (u64, u64), out: &mut VectorBits) = key_kernel
}

#[inline(always)]
fn key_kernel<T: Word>(codes: &[T; VECTOR], set: &[u64], (low, add): (u64, u64), out: &mut VectorBits) {
    for (word, codes) in out.iter_mut().zip(codes.as_chunks::<64>().0) {
        let mut pass = [0u8; 64];
        for (pass, code) in pass.iter_mut().zip(codes) {
            *pass = key_bit(set, low, add, code.to_u64()) as u8 & 1;
        }
        *word = bools_to_bits(&pass);
    }
}

/// Packs bytes of 0 or 1 into bits: the multiplication moves the low bit of eight bytes into the top byte without
/// carries.
#[inline(always)]
fn bools_to_bits(pass: &[u8; 64]) -> u64 {
    let mut word = 0u64;
    for (i, eight) in pass.as_chunks::<8>().0.iter().enumerate() {
        word |= (u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * i);
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check<T: Word>(codes: &[T; VECTOR], test: &IntTest) {
        let mut bits = [0u64; VECTOR / 64];
        Tester::new(test).test(codes, &mut bits);
        for (i, code) in codes.iter().enumerate() {
            assert_eq!(get(&bits, i), test.test(code.to_u64()), "{test:?} on {}", code.to_u64());
        }
    }

    proptest! {
        #[test]
        fn vector_tests_equal_the_scalar_ones(
            seed in any::<u64>(), shift in 0u32..64, a in any::<u64>(), b in any::<u64>(),
            mut list in proptest::collection::vec(any::<u64>(), 1..40), which in 0..8,
        ) {
            let mut state = seed;
            let codes: [u64; VECTOR] = std::array::from_fn(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                state >> shift
            });
            list.iter_mut().for_each(|v| *v >>= shift);
            list.extend_from_slice(&codes[..5]);
            list.sort_unstable();
            list.dedup();
            let (a, b) = (a >> shift, b >> shift);
            let test = match which {
                0 => IntTest::Never,
                1 => IntTest::Always,
                2 => IntTest::Range { low: a.min(b), high: a.max(b) },
                3 => IntTest::NotEqual(codes[7]),
                4 => IntTest::Set(vec![a]),
                5 => IntTest::Set((0..300).map(|i| a.rotate_left(i)).collect()),
                6 => IntTest::In(list),
                _ => IntTest::NotIn(list),
            };
            check::<u64>(&codes, &test);
            check::<u32>(&codes.map(|c| c as u32), &test);
            check::<u16>(&codes.map(|c| c as u16), &test);
            check::<u8>(&codes.map(|c| c as u8), &test);
        }

        #[test]
        fn and_or_clear_at_any_offset(at in 0usize..200, from in 0usize..200, len in 0usize..300, seed in any::<u64>()) {
            let source: Vec<u64> = (0..10).map(|i| seed.rotate_left(i * 7) ^ u64::from(i)).collect();
            let before: Vec<u64> = (0..10).map(|i| seed.rotate_right(i * 5) ^ 0x5555).collect();
            let (mut anded, mut ored, mut cleared) = (before.clone(), before.clone(), before.clone());
            and(&mut anded, at, &source, from, len);
            or(&mut ored, at, &source, from, len);
            clear(&mut cleared, at, len);
            for bit in 0..640 {
                let inside = bit >= at && bit < at + len;
                let other = inside && get(&source, from + bit - at);
                prop_assert_eq!(get(&anded, bit), get(&before, bit) && (!inside || other));
                prop_assert_eq!(get(&ored, bit), get(&before, bit) || other);
                prop_assert_eq!(get(&cleared, bit), get(&before, bit) && !inside);
            }
        }
    }
}
