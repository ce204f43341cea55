//! The predicates of the codecs: one conjunct on the physical values of one column.

use std::sync::Arc;

use crate::key_set::KeySet;

/// One conjunct on one column. Every predicate except `IsNull` rejects NULLs.
#[derive(Debug, Clone, PartialEq)]
pub enum Predicate {
    /// The value is NULL.
    IsNull,
    /// The value is not NULL.
    IsNotNull,
    /// For [`crate::Kind::Int`] and `Wide`, and, with [`f64_key`] or [`f32_key`], for floats.
    Int(IntPredicate),
    /// A test of strings.
    Bytes(BytesPredicate),
}

/// A predicate on integers. Lists are sorted and have no duplicates.
#[derive(Debug, Clone, PartialEq)]
pub enum IntPredicate {
    /// `low <= x <= high`; nothing satisfies it if `low > high`.
    Range {
        /// The smallest value that passes.
        low: i128,
        /// The largest value that passes.
        high: i128,
    },
    /// `x != value`.
    NotEqual(i128),
    /// The value is in the list.
    In(Vec<i128>),
    /// The value is not in the list.
    NotIn(Vec<i128>),
    /// Membership in a set of keys.
    Keys(Arc<KeySet>),
}

/// One bound of a range of byte strings.
#[derive(Debug, Clone, PartialEq)]
pub struct BytesBound {
    /// The bound.
    pub value: Vec<u8>,
    /// Whether the bound itself passes.
    pub inclusive: bool,
}

/// A predicate on byte strings, in byte order. Lists are sorted and have no duplicates.
#[derive(Debug, Clone, PartialEq)]
pub enum BytesPredicate {
    #[allow(missing_docs)]
    /// Between two bounds; `None` is no bound.
    Range { low: Option<BytesBound>, high: Option<BytesBound> },
    /// `x != value`.
    NotEqual(Vec<u8>),
    /// The string is in the list.
    In(Vec<Vec<u8>>),
    /// The string is not in the list.
    NotIn(Vec<Vec<u8>>),
    /// The string begins with this prefix.
    Prefix(Vec<u8>),
    /// The string does not begin with this prefix.
    NotPrefix(Vec<u8>),
}

/// A predicate on unsigned codes `0..=max`: an [`IntPredicate`] or [`BytesPredicate`], translated with a frame of
/// reference or a sorted dictionary. Page formats with bit fields inside rows evaluate it.
#[derive(Debug, Clone, PartialEq)]
pub enum IntTest {
    /// No code passes.
    Never,
    /// Every code passes.
    Always,
    /// `low <= code <= high`
    Range {
        /// The smallest code that passes.
        low: u64,
        /// The largest code that passes.
        high: u64,
    },
    /// `code != value`.
    NotEqual(u64),
    /// Codes whose bit is set, for dictionaries and narrow frames.
    Set(Vec<u64>),
    /// Codes in a key set: code `low + i` is bit `add + i`. Codes below `low` are not in it.
    Keys {
        /// The set.
        keys: Arc<KeySet>,
        /// The smallest code that may be in the set.
        low: u64,
        /// The bit of code `low`.
        add: u64,
    },
    /// Sorted codes, for wide frames.
    In(Vec<u64>),
    /// The code is not in the list.
    NotIn(Vec<u64>),
}

impl IntTest {
    /// Whether one code passes.
    #[inline]
    pub fn test(&self, code: u64) -> bool {
        match self {
            IntTest::Never => false,
            IntTest::Always => true,
            IntTest::Range { low, high } => *low <= code && code <= *high,
            IntTest::NotEqual(other) => code != *other,
            IntTest::Set(words) => words.get((code / 64) as usize).is_some_and(|w| w >> (code % 64) & 1 == 1),
            IntTest::Keys { keys, low, add } => key_bit(keys.words(), *low, *add, code) == 1,
            IntTest::In(codes) => codes.binary_search(&code).is_ok(),
            IntTest::NotIn(codes) => codes.binary_search(&code).is_err(),
        }
    }
}

/// 1 if the code is in the set that starts at `low`, `add` bits into `words`; otherwise 0.
#[inline(always)]
pub(crate) fn key_bit(words: &[u64], low: u64, add: u64, code: u64) -> u64 {
    let at = code.wrapping_sub(low).wrapping_add(add);
    // A code before the set is not in it, and neither is a code whose position would overflow.
    let inside = u64::from(code >= low && at >= add);
    words.get((at / 64) as usize).copied().unwrap_or(0) >> (at % 64) & inside
}

impl IntTest {
    /// The same test of `code - reference`, for codes of at least `reference`.
    pub fn rebase(&self, reference: u64) -> IntTest {
        let below = |list: &[u64]| list.iter().filter_map(|code| code.checked_sub(reference)).collect::<Vec<_>>();
        match self {
            _ if reference == 0 => self.clone(),
            IntTest::Never => IntTest::Never,
            IntTest::Always => IntTest::Always,
            IntTest::Range { high, .. } if *high < reference => IntTest::Never,
            IntTest::Range { low, high } => {
                IntTest::Range { low: low.saturating_sub(reference), high: high - reference }
            }
            IntTest::NotEqual(code) => code.checked_sub(reference).map_or(IntTest::Always, IntTest::NotEqual),
            IntTest::Set(words) => {
                let bits = words.len() * 64;
                let from = usize::try_from(reference).unwrap_or(usize::MAX).min(bits);
                IntTest::Set((from..bits).step_by(64).map(|at| crate::select::read(words, at, 64)).collect())
            }
            IntTest::Keys { keys, low, add } => match add.checked_add(reference.saturating_sub(*low)) {
                Some(add) => IntTest::Keys { keys: keys.clone(), low: low.saturating_sub(reference), add },
                None => IntTest::Never,
            },
            IntTest::In(list) => IntTest::In(below(list)),
            IntTest::NotIn(list) => IntTest::NotIn(below(list)),
        }
    }
}

impl IntPredicate {
    /// Whether one value passes.
    pub fn test(&self, value: i128) -> bool {
        match self {
            IntPredicate::Range { low, high } => *low <= value && value <= *high,
            IntPredicate::NotEqual(other) => value != *other,
            IntPredicate::In(list) => list.binary_search(&value).is_ok(),
            IntPredicate::NotIn(list) => list.binary_search(&value).is_err(),
            IntPredicate::Keys(keys) => keys.contains(value),
        }
    }

    /// The bounds of the passing values: no value below the first or above the second passes.
    pub fn bounds(&self) -> (i128, i128) {
        match self {
            IntPredicate::Range { low, high } => (*low, *high),
            IntPredicate::In(list) => (list.first().copied().unwrap_or(1), list.last().copied().unwrap_or(0)),
            IntPredicate::Keys(keys) => keys.bounds(),
            IntPredicate::NotEqual(_) | IntPredicate::NotIn(_) => (i128::MIN, i128::MAX),
        }
    }

    /// The same predicate on codes `value - reference`, for values known to lie in `reference ..= reference + max_code`.
    pub fn translate(&self, reference: i128, max_code: u64) -> IntTest {
        // No value lies above the maximum of the type, although codes up to there may exist.
        let last = reference.saturating_add(i128::from(max_code));
        let max_code = (last - reference) as u64;
        let code = |v: i128| (v >= reference && v <= last).then(|| (v - reference) as u64);
        let codes = |list: &[i128]| list.iter().filter_map(|v| code(*v)).collect::<Vec<_>>();
        match self {
            IntPredicate::Range { low, high } => {
                let (low, high) = ((*low).max(reference), (*high).min(last));
                if low > high {
                    IntTest::Never
                } else if low == reference && high == last {
                    IntTest::Always
                } else {
                    IntTest::Range { low: (low - reference) as u64, high: (high - reference) as u64 }
                }
            }
            IntPredicate::NotEqual(v) => code(*v).map_or(IntTest::Always, IntTest::NotEqual),
            IntPredicate::In(list) => match codes(list) {
                c if c.is_empty() => IntTest::Never,
                c if c.len() == 1 => IntTest::Range { low: c[0], high: c[0] },
                c if max_code < 1 << 16 => set(&c, max_code, false),
                c => IntTest::In(c),
            },
            IntPredicate::NotIn(list) => match codes(list) {
                c if c.is_empty() => IntTest::Always,
                c if c.len() == 1 => IntTest::NotEqual(c[0]),
                c if max_code < 1 << 16 => set(&c, max_code, true),
                c => IntTest::NotIn(c),
            },
            IntPredicate::Keys(keys) => match keys.place(reference) {
                Some((low, add)) => IntTest::Keys { keys: keys.clone(), low, add },
                None => IntTest::Never,
            },
        }
    }
}

fn set(codes: &[u64], max_code: u64, negated: bool) -> IntTest {
    let mut words = vec![if negated { u64::MAX } else { 0 }; max_code as usize / 64 + 1];
    for code in codes {
        words[(code / 64) as usize] ^= 1 << (code % 64);
    }
    IntTest::Set(words)
}

impl BytesPredicate {
    /// Whether one value passes.
    pub fn test(&self, value: &[u8]) -> bool {
        match self {
            BytesPredicate::Range { low, high } => {
                low.as_ref().is_none_or(|b| if b.inclusive { value >= &b.value[..] } else { value > &b.value[..] })
                    && high
                        .as_ref()
                        .is_none_or(|b| if b.inclusive { value <= &b.value[..] } else { value < &b.value[..] })
            }
            BytesPredicate::NotEqual(v) => value != &v[..],
            BytesPredicate::In(list) => list.binary_search_by(|v| v[..].cmp(value)).is_ok(),
            BytesPredicate::NotIn(list) => list.binary_search_by(|v| v[..].cmp(value)).is_err(),
            BytesPredicate::Prefix(p) => value.starts_with(p),
            BytesPredicate::NotPrefix(p) => !value.starts_with(p),
        }
    }
}

/// The position of a float in IEEE 754 total order as an integer. Arrow and DataFusion compare floats in this order.
#[inline]
pub fn f64_key(value: f64) -> i64 {
    let bits = value.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

/// As [`f64_key`], for `f32`.
#[inline]
pub fn f32_key(value: f32) -> i64 {
    let bits = value.to_bits() as i32;
    i64::from(bits ^ (((bits >> 31) as u32) >> 1) as i32)
}
