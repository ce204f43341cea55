//! Hashes of values, and fast sets of distinct values: open addressing with short inline hashes.

use crate::BytesSlice;

/// A hash of a byte string: two overlapping loads up to 16 bytes, folded by a widening multiplication.
#[inline]
pub fn hash_bytes(value: &[u8]) -> u64 {
    let n = value.len();
    let word = |at: usize| u64::from_le_bytes(value[at..at + 8].try_into().expect("a slice of 8 bytes"));
    let (a, b) = match n {
        ..=SHORT_BYTES => short_words(value),
        _ => {
            let mut state = 0x9E37_79B9_7F4A_7C15;
            for pair in value[..n - 1].as_chunks::<16>().0 {
                let a = u64::from_le_bytes(pair[..8].try_into().expect("half of 16 bytes"));
                let b = u64::from_le_bytes(pair[8..].try_into().expect("half of 16 bytes"));
                state = fold(a ^ state, b ^ STEP);
            }
            (word(n - 16) ^ state, word(n - 8))
        }
    };
    fold(a ^ SEED, b ^ STEP ^ n as u64)
}

/// The length of a string that two words contain.
const SHORT_BYTES: usize = 16;

/// All bytes of a string of at most [`SHORT_BYTES`], some of them twice. Strings of equal length have equal words only if
/// they are equal.
#[inline]
fn short_words(value: &[u8]) -> (u64, u64) {
    let n = value.len();
    let word = |at: usize| u64::from_le_bytes(value[at..at + 8].try_into().expect("a slice of 8 bytes"));
    let half = |at: usize| u64::from(u32::from_le_bytes(value[at..at + 4].try_into().expect("a slice of 4 bytes")));
    match n {
        0 => (0, 0),
        1..=3 => (u64::from(value[0]) | u64::from(value[n / 2]) << 8 | u64::from(value[n - 1]) << 16, 0),
        4..=8 => (half(0), half(n - 4)),
        _ => (word(0), word(n - 8)),
    }
}

/// A hash of an integer of 128 bits.
#[inline]
pub fn hash_int(value: i128) -> u64 {
    fold(value as u64 ^ SEED, (value >> 64) as u64 ^ STEP)
}

/// A hash of an integer of 64 bits.
#[inline]
pub fn hash_i64(value: i64) -> u64 {
    fold(value as u64 ^ SEED, STEP)
}

/// The hash of several values from that of those before and that of the next one.
#[inline]
pub fn combine(before: u64, next: u64) -> u64 {
    fold(before ^ STEP, next ^ SEED)
}

const SEED: u64 = 0xA076_1D64_78BD_642F;
const STEP: u64 = 0xE703_7ED1_A0B4_28DB;

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    wide as u64 ^ (wide >> 64) as u64
}

/// A value that a [`Distinct`] set can contain.
pub(crate) trait Key: Copy + PartialEq {
    fn hash(self) -> u64;

    /// Whether two values are equal.
    #[inline]
    fn same(self, other: Self) -> bool {
        self == other
    }
}

impl Key for i64 {
    #[inline]
    fn hash(self) -> u64 {
        hash_i64(self)
    }
}

impl Key for i128 {
    #[inline]
    fn hash(self) -> u64 {
        hash_int(self)
    }
}

impl Key for &[u8] {
    #[inline]
    fn hash(self) -> u64 {
        hash_bytes(self)
    }

    /// Short strings are compared by the words that are hashed, without a call.
    #[inline]
    fn same(self, other: Self) -> bool {
        match self.len() {
            n if n != other.len() => false,
            ..=SHORT_BYTES => short_words(self) == short_words(other),
            _ => self == other,
        }
    }
}

/// Distinct values in order of first appearance, numbered from 0.
#[derive(Debug, Clone)]
pub(crate) struct Distinct<K> {
    pub values: Vec<K>,
    /// Upper half: the hash. Lower half: the number of the value plus 1, or 0 for a free slot.
    slots: Vec<u64>,
}

impl<K: Key> Distinct<K> {
    pub fn new() -> Self {
        Self { values: Vec::new(), slots: vec![0; 64] }
    }

    /// The number of the value, and whether it is new.
    #[inline]
    pub fn insert(&mut self, value: K) -> (u32, bool) {
        let hash = value.hash();
        let tag = hash & 0xFFFF_FFFF_0000_0000;
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return self.insert_new(value, at, tag);
            }
            if slot & 0xFFFF_FFFF_0000_0000 == tag {
                let number = slot as u32 - 1;
                if self.values[number as usize].same(value) {
                    return (number, false);
                }
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn insert_new(&mut self, value: K, at: usize, tag: u64) -> (u32, bool) {
        self.values.push(value);
        let number = self.values.len() as u32;
        self.slots[at] = tag | u64::from(number);
        if self.values.len() * 2 > self.slots.len() {
            self.grow();
        }
        (number - 1, true)
    }

    fn grow(&mut self) {
        let mask = self.slots.len() * 4 - 1;
        self.slots = vec![0; mask + 1];
        for (i, value) in self.values.iter().enumerate() {
            let hash = value.hash();
            let mut at = hash as usize & mask;
            while self.slots[at] != 0 {
                at = (at + 1) & mask;
            }
            self.slots[at] = (hash & 0xFFFF_FFFF_0000_0000) | (i as u64 + 1);
        }
    }

    /// The number of a value, if it is in the set.
    #[inline]
    pub fn get(&self, value: K) -> Option<u32> {
        let hash = value.hash();
        let tag = hash & 0xFFFF_FFFF_0000_0000;
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return None;
            }
            let number = (slot as u32).wrapping_sub(1);
            if slot & 0xFFFF_FFFF_0000_0000 == tag && self.values[number as usize].same(value) {
                return Some(number);
            }
            at = (at + 1) & mask;
        }
    }
}

/// The distinct values of a column that are not NULL. `None` as soon as there are more than `entries_max` of them, or
/// more than `bytes_max` bytes.
pub(crate) fn distinct_bytes<'a>(
    values: BytesSlice<'a>,
    validity: Option<&[u64]>,
    entries_max: usize,
    bytes_max: usize,
) -> Option<Distinct<&'a [u8]>> {
    let mut distinct = Distinct::new();
    let mut bytes = 0;
    for row in 0..values.len() {
        if validity.is_some_and(|v| !crate::select::get(v, row)) {
            continue;
        }
        let value = values.get(row);
        if distinct.insert(value).1 {
            bytes += value.len();
            if distinct.values.len() > entries_max || bytes > bytes_max {
                return None;
            }
        }
    }
    Some(distinct)
}

/// As [`distinct_bytes`], for integers.
pub(crate) fn distinct_ints<K: Key>(values: &[K], validity: Option<&[u64]>, entries_max: usize) -> Option<Distinct<K>> {
    let mut distinct = Distinct::new();
    for (row, value) in values.iter().enumerate() {
        if validity.is_none_or(|v| crate::select::get(v, row))
            && distinct.insert(*value).1
            && distinct.values.len() > entries_max
        {
            return None;
        }
    }
    Some(distinct)
}
