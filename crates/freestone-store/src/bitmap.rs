//! Bitmaps as slices of `u64` words. Bit `i` is in word `i / 64`.

/// The number of words for `bits` bits.
pub fn words(bits: usize) -> usize {
    bits.div_ceil(64)
}

/// A bitmap of `bits` set bits. The rest of the last word is zero.
pub fn ones(bits: usize) -> Vec<u64> {
    let mut bitmap = vec![u64::MAX; words(bits)];
    trim(&mut bitmap, bits);
    bitmap
}

/// Clears the bits after the first `bits` ones.
pub fn trim(bitmap: &mut [u64], bits: usize) {
    if !bits.is_multiple_of(64)
        && let Some(last) = bitmap.get_mut(bits / 64)
    {
        *last &= (1 << (bits % 64)) - 1;
    }
}

/// Whether a bit is set.
#[inline]
pub fn get(bitmap: &[u64], bit: usize) -> bool {
    bitmap[bit / 64] >> (bit % 64) & 1 == 1
}

/// Sets a bit.
#[inline]
pub fn set(bitmap: &mut [u64], bit: usize) {
    bitmap[bit / 64] |= 1 << (bit % 64);
}

/// Clears a bit.
#[inline]
pub fn clear(bitmap: &mut [u64], bit: usize) {
    bitmap[bit / 64] &= !(1 << (bit % 64));
}

/// Clears the bits of rows `from .. to`. `from` is a multiple of 64, and so is `to`, unless it is the end of the
/// bitmap.
pub fn clear_words(bitmap: &mut [u64], from: usize, to: usize) {
    bitmap[from / 64..to.div_ceil(64)].fill(0);
}

/// The number of set bits.
pub fn count(bitmap: &[u64]) -> usize {
    bitmap.iter().map(|w| w.count_ones() as usize).sum()
}

/// Appends the positions of the set bits to `out`, ascending, each plus `base`.
pub fn positions(bitmap: &[u64], base: u32, out: &mut Vec<u32>) {
    for (at, word) in bitmap.iter().enumerate() {
        let mut word = *word;
        let first = base + at as u32 * 64;
        while word != 0 {
            out.push(first + word.trailing_zeros());
            word &= word - 1;
        }
    }
}

/// A copy of `len` bits from bit `start`.
pub fn extract(bitmap: &[u64], start: usize, len: usize) -> Vec<u64> {
    let (word, shift) = (start / 64, start % 64);
    let mut out = Vec::with_capacity(words(len));
    for at in 0..words(len) {
        let low = bitmap[word + at] >> shift;
        let high = if shift > 0 { bitmap.get(word + at + 1).map_or(0, |w| w << (64 - shift)) } else { 0 };
        out.push(low | high);
    }
    trim(&mut out, len);
    out
}

/// Overwrites `len` bits from bit `start` with the first bits of `from`.
pub fn write(bitmap: &mut [u64], start: usize, from: &[u64], len: usize) {
    let mut done = 0;
    while done < len {
        let n = (64 - (start + done) % 64).min(64 - done % 64).min(len - done);
        let mask = if n == 64 { u64::MAX } else { (1 << n) - 1 };
        let value = from[done / 64] >> (done % 64) & mask;
        let (word, shift) = ((start + done) / 64, (start + done) % 64);
        bitmap[word] = bitmap[word] & !(mask << shift) | value << shift;
        done += n;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn extract_and_write_agree(bits in proptest::collection::vec(any::<bool>(), 1..400), start in 0usize..300) {
            let mut bitmap = vec![0; words(bits.len())];
            bits.iter().enumerate().filter(|(_, b)| **b).for_each(|(i, _)| set(&mut bitmap, i));
            let start = start.min(bits.len() - 1);
            let len = bits.len() - start;
            let part = extract(&bitmap, start, len);
            for i in 0..len {
                prop_assert_eq!(get(&part, i), bits[start + i]);
            }
            let mut copy = ones(bits.len());
            write(&mut copy, start, &part, len);
            for (i, bit) in bits.iter().enumerate() {
                prop_assert_eq!(get(&copy, i), i < start || *bit);
            }
            let mut found = vec![];
            positions(&bitmap, 0, &mut found);
            prop_assert_eq!(found.len(), count(&bitmap));
        }
    }
}
