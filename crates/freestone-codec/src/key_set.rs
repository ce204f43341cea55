//! Sets of integers as bitmaps, for the keys of a join: the cost of a test does not depend on the number of keys.

/// A set of integers within a narrow range: bit `i` represents `first + i`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeySet {
    first: i128,
    words: Vec<u64>,
}

impl KeySet {
    /// The set of `first + i` for all bits `i` that are set in `words`.
    pub fn new(first: i128, words: Vec<u64>) -> Self {
        KeySet { first, words }
    }

    /// Whether the set contains `value`.
    pub fn contains(&self, value: i128) -> bool {
        let at = value.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        at.is_some_and(|at| self.words.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1))
    }

    /// The range of the bitmap: no integer below the first or above the second is in the set.
    pub fn bounds(&self) -> (i128, i128) {
        (self.first, self.first.saturating_add(self.words.len() as i128 * 64 - 1))
    }

    /// The number of integers in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The integers of the set, ascending.
    pub fn iter(&self) -> impl Iterator<Item = i128> + '_ {
        self.words.iter().enumerate().flat_map(move |(at, word)| {
            let ones = std::iter::successors((*word != 0).then_some(*word), |rest| {
                let next = rest & (rest - 1);
                (next != 0).then_some(next)
            });
            ones.map(move |rest| self.first + (at * 64) as i128 + i128::from(rest.trailing_zeros()))
        })
    }

    /// Whether any integer of `min ..= max` is in the set.
    pub fn any_between(&self, min: i128, max: i128) -> bool {
        let bits = self.words.len() as i128 * 64;
        let low = min.saturating_sub(self.first).clamp(0, bits);
        let high = max.saturating_sub(self.first).saturating_add(1).clamp(0, bits);
        let (mut at, high) = (low as usize, high as usize);
        while at < high {
            let len = (high - at).min(64 - at % 64);
            let mask = (u64::MAX >> (64 - len)) << (at % 64);
            if self.words[at / 64] & mask != 0 {
                return true;
            }
            at += len;
        }
        false
    }

    /// The position of the code `value - reference` in the bitmap: codes of at least `low` are at bit `code - low +
    /// add`. `None` if there is no code.
    pub(crate) fn place(&self, reference: i128) -> Option<(u64, u64)> {
        let skipped = reference.checked_sub(self.first)?;
        let distance = u64::try_from(skipped.unsigned_abs()).ok()?;
        Some(if skipped < 0 { (distance, 0) } else { (0, distance) })
    }

    /// The words of the bitmap. Bit 0 represents the smallest integer.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }
}

impl FromIterator<i128> for KeySet {
    fn from_iter<I: IntoIterator<Item = i128>>(values: I) -> Self {
        let mut values: Vec<i128> = values.into_iter().collect();
        values.sort_unstable();
        let Some(first) = values.first().copied() else { return KeySet::default() };
        let mut words = vec![];
        for value in values {
            let at = (value - first) as usize;
            words.resize(words.len().max(at / 64 + 1), 0u64);
            words[at / 64] |= 1 << (at % 64);
        }
        KeySet { first, words }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::IntPredicate;

    proptest! {
        #[test]
        fn a_key_set_is_a_set(
            base in prop::num::i64::ANY,
            offsets in prop::collection::btree_set(0i128..500, 0..60),
            reference in -600i128..600,
            max_code in 0u64..700,
            rebase in 0u64..700,
        ) {
            let base = i128::from(base);
            let values: Vec<i128> = offsets.iter().map(|o| base + o).collect();
            let set: KeySet = values.iter().copied().collect();
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), values.clone());
            prop_assert_eq!(set.len(), values.len());
            let reference = base + reference;
            let predicate = IntPredicate::Keys(Arc::new(set.clone()));
            let test = predicate.translate(reference, max_code);
            for code in 0..=max_code {
                let value = reference + i128::from(code);
                prop_assert_eq!(test.test(code), values.contains(&value), "{}", value);
                if code >= rebase {
                    prop_assert_eq!(test.rebase(rebase).test(code - rebase), values.contains(&value), "{}", value);
                }
                prop_assert_eq!(set.contains(value), values.contains(&value));
            }
            let last = reference + i128::from(max_code);
            prop_assert_eq!(set.any_between(reference, last), values.iter().any(|v| reference <= *v && *v <= last));
        }
    }

    #[test]
    fn codes_of_all_64_bits_do_not_wrap() {
        let keys = Arc::new(KeySet::from_iter([i128::from(i64::MAX) - 1]));
        let test = IntPredicate::Keys(keys).translate(i64::MIN.into(), u64::MAX);
        for (code, expected) in [(0, false), (1, false), (u64::MAX - 1, true), (u64::MAX, false)] {
            assert_eq!(test.test(code), expected, "{code}");
        }
        let low = Arc::new(KeySet::from_iter([i128::from(i64::MIN), 4 + i128::from(i64::MIN)]));
        let test = IntPredicate::Keys(low).translate(i64::MIN.into(), u64::MAX);
        assert!(test.test(0) && test.test(4) && !test.test(1) && !test.test(u64::MAX));
    }

    #[test]
    fn the_ends_of_numbers_are_no_keys() {
        let set: KeySet = [5, 7].into_iter().collect();
        assert!(!set.contains(i128::MIN) && !set.contains(i128::MAX) && set.any_between(i128::MIN, i128::MAX));
        assert!(KeySet::default().is_empty() && !KeySet::default().any_between(i128::MIN, i128::MAX));
    }
}
