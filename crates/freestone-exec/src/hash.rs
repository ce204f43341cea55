//! Hashes of keys. The high bits choose partitions and buckets, the low ones tag them.

use crate::vector::{Values, Vector};

const SEED: u64 = 0xA076_1D64_78BD_642F;
const STEP: u64 = 0xE703_7ED1_A0B4_28DB;
/// The hash of NULL.
const NULL: u64 = 0x8EBC_6AF0_9C88_C6E3;

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    wide as u64 ^ (wide >> 64) as u64
}

/// The hash of a number.
#[inline]
pub fn hash_word(word: u64) -> u64 {
    fold(word ^ SEED, STEP)
}

/// The hash of several values from that of those before and that of the next one.
#[inline]
fn combine(before: u64, next: u64) -> u64 {
    fold(before ^ STEP, next ^ SEED)
}

/// The hash of a text: two overlapping loads up to 16 bytes, folded by a widening multiplication.
#[inline]
pub fn hash_bytes(value: &[u8]) -> u64 {
    let n = value.len();
    let word = |at: usize| u64::from_le_bytes(value[at..at + 8].try_into().expect("a slice of 8 bytes"));
    let half = |at: usize| u64::from(u32::from_le_bytes(value[at..at + 4].try_into().expect("a slice of 4 bytes")));
    let (a, b) = match n {
        0 => (0, 0),
        1..=3 => (u64::from(value[0]) | u64::from(value[n / 2]) << 8 | u64::from(value[n - 1]) << 16, 0),
        4..=8 => (half(0), half(n - 4)),
        9..=16 => (word(0), word(n - 8)),
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

/// The bits of a float as a key: `-0.0` is `0.0`, and there is one NaN.
#[inline]
pub fn float_key(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
}

/// The hashes of the rows of key columns, which replace what `out` has.
pub fn hash_rows(keys: &[Vector], rows: usize, out: &mut Vec<u64>) {
    out.clear();
    match keys.split_first() {
        None => out.resize(rows, 0),
        Some((first, rest)) => {
            out.extend(std::iter::repeat_n(0, rows));
            hash_column(first, out, |_, hash| hash);
            for column in rest {
                hash_column(column, out, combine);
            }
        }
    }
}

#[inline]
fn hash_column(column: &Vector, out: &mut [u64], join: impl Fn(u64, u64) -> u64 + Copy) {
    fn each<T: Copy>(values: &[T], out: &mut [u64], hash: impl Fn(T) -> u64, join: impl Fn(u64, u64) -> u64) {
        out.iter_mut().zip(values).for_each(|(out, value)| *out = join(*out, hash(*value)));
    }
    let before = column.valid.as_ref().map(|_| out.to_vec());
    match &column.values {
        Values::Int(v) => each(v, out, |x| hash_word(x as u64), join),
        Values::Float(v) => each(v, out, |x| hash_word(float_key(x)), join),
        Values::Wide(v) => each(v, out, |x| fold(x as u64 ^ SEED, (x >> 64) as u64 ^ STEP), join),
        Values::Bits(v) => out.iter_mut().zip(v.iter()).for_each(|(out, x)| *out = join(*out, hash_word(x.into()))),
        Values::Codes(codes, dictionary) => {
            let hashes = dictionary.hashes();
            each(codes, out, |code| hashes.get(code as usize).copied().unwrap_or(NULL), join);
        }
        Values::Text(texts) => {
            for (row, out) in out.iter_mut().enumerate() {
                *out = join(*out, hash_bytes(texts.get(row)));
            }
        }
        Values::Arrow(_) => unreachable!("keys are of the other forms"),
    }
    if let (Some(valid), Some(before)) = (&column.valid, before) {
        for row in (!valid.inner()).set_indices() {
            out[row] = join(before[row], NULL);
        }
    }
}
