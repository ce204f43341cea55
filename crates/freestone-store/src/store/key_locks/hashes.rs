//! Hashes of keys: of a row's values in the columns of a key, and sets of them.
//!
//! Keys with different hashes are different. Keys with equal hashes are compared before anything is said about them.

use crate::column::{ColumnData, Physical};
use crate::error::Result;
use crate::segment::parallel;

/// Hashes are collected in this number of parts, by their highest bits, which are sorted separately.
const PARTS: usize = 64;
/// The mean number of hashes that a search compares.
const HASHES_PER_BUCKET: usize = 4;

/// A part of all hashes: those whose remainder by `of` is `number`. A check of more keys than the memory takes is made
/// of several such parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub number: u64,
    pub of: u64,
}

impl Share {
    pub fn contains(self, hash: u64) -> bool {
        self.of == 1 || hash % self.of == self.number
    }
}

/// Hashes that are being collected.
#[derive(Debug)]
pub struct Collected(Vec<Vec<u64>>);

impl Collected {
    pub fn new() -> Self {
        Collected(vec![vec![]; PARTS])
    }

    pub fn push(&mut self, hash: u64) {
        self.0[(hash >> (64 - PARTS.ilog2())) as usize].push(hash);
    }

    /// The hashes of several collections, ascending, and those that come more than once.
    pub fn sorted(collections: &[Collected], threads: usize) -> Result<(KeyHashes, Vec<u64>)> {
        let rows: usize = collections.iter().flat_map(|collected| &collected.0).map(Vec::len).sum();
        let parts: Vec<usize> = (0..PARTS).collect();
        let threads = if rows < 1 << 16 { 1 } else { threads };
        let sorted = parallel(&parts, threads, |part| {
            let mut hashes =
                collections.iter().map(|collected| collected.0[*part].as_slice()).collect::<Vec<_>>().concat();
            hashes.sort_unstable();
            Ok(hashes)
        })?;
        let sorted = sorted.concat();
        let mut repeated: Vec<u64> = sorted.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        repeated.dedup();
        Ok((KeyHashes::of_sorted(sorted), repeated))
    }
}

/// A set of hashes.
#[derive(Debug, PartialEq, Eq)]
pub struct KeyHashes {
    sorted: Vec<u64>,
    /// For each range of hashes of equal length, the position of the first of them.
    starts: Vec<u32>,
}

impl KeyHashes {
    /// The hashes must ascend. There are fewer than 2^32.
    pub fn of_sorted(sorted: Vec<u64>) -> Self {
        let buckets = (sorted.len() / HASHES_PER_BUCKET).max(1);
        let mut starts = Vec::with_capacity(buckets + 1);
        for (at, hash) in sorted.iter().enumerate() {
            let bucket = bucket(*hash, buckets);
            starts.resize(starts.len().max(bucket + 1), at as u32);
        }
        starts.resize(buckets + 1, sorted.len() as u32);
        KeyHashes { sorted, starts }
    }

    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// The hashes, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.sorted.iter().copied()
    }

    pub fn contains(&self, hash: u64) -> bool {
        let bucket = bucket(hash, self.starts.len() - 1);
        self.sorted[self.starts[bucket] as usize..self.starts[bucket + 1] as usize].contains(&hash)
    }

    pub fn intersects(&self, other: &KeyHashes) -> bool {
        let (few, many) = if self.len() < other.len() { (self, other) } else { (other, self) };
        few.sorted.iter().any(|hash| many.contains(*hash))
    }

    /// The hashes of both.
    pub fn joined(&self, other: &KeyHashes) -> KeyHashes {
        let mut sorted = [self.sorted.as_slice(), &other.sorted].concat();
        sorted.sort_unstable();
        KeyHashes::of_sorted(sorted)
    }
}

fn bucket(hash: u64, buckets: usize) -> usize {
    ((u128::from(hash) * buckets as u128) >> 64) as usize
}

/// The columns of a key with equal values made identical: there is one zero of floats, as there is one NaN.
pub fn normalized(mut column: ColumnData) -> ColumnData {
    match &mut column.values {
        Physical::F64(values) => values.iter_mut().for_each(|value| *value += 0.0),
        Physical::F32(values) => values.iter_mut().for_each(|value| *value += 0.0),
        Physical::Int(_) | Physical::Wide(_) | Physical::Bytes { .. } => {}
    }
    column
}

/// The hash of each row of a key's columns, which are [`normalized`]. `None` if one of them is NULL.
pub fn of_rows(columns: &[ColumnData]) -> Vec<Option<u64>> {
    let rows = columns.first().map_or(0, ColumnData::len);
    let mut hashes = vec![0u64; rows];
    for column in columns {
        match &column.values {
            Physical::Int(v) => hashes.iter_mut().zip(v).for_each(|(hash, value)| *hash = mixed(*hash, *value as u64)),
            Physical::F64(v) => {
                hashes.iter_mut().zip(v).for_each(|(hash, value)| *hash = mixed(*hash, value.to_bits()))
            }
            Physical::F32(v) => {
                hashes.iter_mut().zip(v).for_each(|(hash, value)| *hash = mixed(*hash, value.to_bits().into()));
            }
            Physical::Wide(v) => {
                let both = |hash: u64, value: i128| mixed(mixed(hash, value as u64), (value >> 64) as u64);
                hashes.iter_mut().zip(v).for_each(|(hash, value)| *hash = both(*hash, *value));
            }
            Physical::Bytes { .. } => {
                hashes.iter_mut().enumerate().for_each(|(row, hash)| *hash = of_bytes(*hash, column.bytes(row)));
            }
        }
    }
    let is_valid = |row: usize| columns.iter().all(|column| column.is_valid(row));
    hashes.into_iter().enumerate().map(|(row, hash)| is_valid(row).then_some(hash)).collect()
}

fn of_bytes(hash: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(mixed(hash, bytes.len() as u64), |hash, word| mixed(hash, u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mixed(hash, u64::from_le_bytes(last))
}

/// For each `hash` a bijection of the values (the finalizer of SplitMix64).
fn mixed(hash: u64, value: u64) -> u64 {
    let mut mixed =
        value.wrapping_add(hash.rotate_left(25).wrapping_mul(0x9E37_79B9_7F4A_7C15)) ^ 0x6A09_E667_F3BC_C908;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(values: &[u64]) -> (KeyHashes, Vec<u64>) {
        let mut parts = [Collected::new(), Collected::new()];
        values.iter().enumerate().for_each(|(at, value)| parts[at % 2].push(*value));
        Collected::sorted(&parts, 2).unwrap()
    }

    proptest! {
        #[test]
        fn a_set_of_hashes_is_a_set(
            small in prop::collection::vec(0u64..40, 0..60),
            large in prop::collection::vec(prop::num::u64::ANY, 0..60),
            other in prop::collection::vec(0u64..60, 0..10),
        ) {
            let values = [small, large].concat();
            let (found, repeated) = set(&values);
            prop_assert_eq!(found.len(), values.len());
            for value in values.iter().chain(&other) {
                prop_assert_eq!(found.contains(*value), values.contains(value));
                let times = values.iter().filter(|other| *other == value).count();
                prop_assert_eq!(repeated.contains(value), times > 1);
            }
            let (others, _) = set(&other);
            prop_assert_eq!(found.intersects(&others), other.iter().any(|value| values.contains(value)));
            prop_assert_eq!(others.intersects(&found), found.intersects(&others));
            let all = [values, other].concat();
            prop_assert_eq!(found.joined(&others), set(&all).0);
        }

        #[test]
        fn equal_keys_have_equal_hashes(a in ".{0,20}", b in ".{0,20}", n in prop::num::i64::ANY) {
            let texts = |texts: [&str; 2]| ColumnData {
                values: Physical::Bytes {
                    offsets: vec![0, texts[0].len() as u32, (texts[0].len() + texts[1].len()) as u32],
                    data: texts.concat().into_bytes(),
                },
                validity: None,
            };
            let numbers = ColumnData { values: Physical::Int(vec![n, n]), validity: None };
            let hashes = of_rows(&[texts([&a, &b]), numbers.clone()]);
            prop_assert_eq!(hashes[0] == hashes[1], a == b);
            prop_assert_eq!(of_rows(&[texts([&a, &b])])[0].is_some(), true);
            let null = ColumnData { validity: Some(vec![0b10]), ..numbers };
            let hashes = of_rows(&[texts([&a, &b]), null]);
            prop_assert!(hashes[0].is_none() && hashes[1].is_some());
        }
    }

    #[test]
    fn zeros_are_one_value() {
        let floats = ColumnData { values: Physical::F64(vec![0.0, -0.0, f64::NAN, f64::NAN, 1.0]), validity: None };
        let hashes = of_rows(&[normalized(floats)]);
        assert!(hashes[0] == hashes[1] && hashes[2] == hashes[3] && hashes[3] != hashes[4]);
    }
}
