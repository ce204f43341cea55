//! Integers with their ranks: how many smaller ones there are.

/// Some integers of a range: a bit for each value of the range, and for each word of bits how many are set before it.
pub(crate) struct RankedKeys {
    low: i64,
    words: Vec<u64>,
    before: Vec<u32>,
    count: usize,
}

impl RankedKeys {
    /// These integers, of which there are fewer than 2³². Each is between `low` and `low + span`.
    pub fn new(low: i64, span: u64, keys: impl Iterator<Item = i64>) -> RankedKeys {
        let mut words = vec![0u64; (span / 64) as usize + 1];
        for key in keys {
            let place = key.wrapping_sub(low) as u64;
            words[(place / 64) as usize] |= 1 << (place % 64);
        }
        let mut count = 0;
        let ranks = words.iter().map(|word| {
            let before = count as u32;
            count += word.count_ones() as usize;
            before
        });
        let before = ranks.collect();
        RankedKeys { low, words, before, count }
    }

    /// The bytes in memory for such a range.
    pub fn bytes(span: u64) -> usize {
        ((span / 64) as usize + 1) * 12
    }

    /// How many different ones there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// How many are smaller; `None` if it is none of them.
    #[inline]
    pub fn rank(&self, key: i64) -> Option<usize> {
        // Keys below the range wrap around, and are behind it.
        let place = key.wrapping_sub(self.low) as u64;
        let word = (place / 64) as usize;
        let (bits, bit) = (*self.words.get(word)?, 1u64 << (place % 64));
        (bits & bit != 0).then(|| self.before[word] as usize + (bits & (bit - 1)).count_ones() as usize)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranks_count_what_is_smaller(
            low in prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX - 1000)],
            places in prop::collection::btree_set(0u64..900, 0..60),
            others in prop::collection::vec(any::<i64>(), 0..20),
        ) {
            let low = low.min(i64::MAX - 1000);
            let keys: Vec<i64> = places.iter().map(|place| low + *place as i64).collect();
            // Each twice, in any order.
            let ranked = RankedKeys::new(low, 899, keys.iter().rev().chain(&keys).copied());
            prop_assert_eq!(ranked.len(), keys.len());
            let all = (0..1000).map(|at| low + at).chain([low.wrapping_sub(1), low.wrapping_sub(64), i64::MAX, i64::MIN]).chain(others);
            for key in all {
                prop_assert_eq!(ranked.rank(key), keys.binary_search(&key).ok(), "{}", key);
            }
        }
    }
}
