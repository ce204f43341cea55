//! Hashes of keys, of which the high bits choose partitions and buckets, and the low ones tag them; and keys that compare like
//! their values.

use freestone_codec::hash::{combine, hash_bytes, hash_i64, hash_int};

use crate::vector::{Values, Vector};

/// The hash of NULL.
const NULL: u64 = 0x8EBC_6AF0_9C88_C6E3;

/// The bits of a float as a key: `-0.0` is `0.0`, and there is one NaN.
#[inline]
pub fn float_key(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
}

/// The place of a float in the order of floats: equal zeros are one, and NaN is behind all others.
#[inline]
pub fn float_place(value: f64) -> u64 {
    let bits = float_key(value);
    if bits & SIGN == 0 { bits ^ SIGN } else { !bits }
}

/// The place of an integer in the order of integers.
#[inline]
pub fn int_place(value: i64) -> u64 {
    value as u64 ^ SIGN
}

const SIGN: u64 = 1 << 63;

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
        Values::Int(v) => each(v, out, hash_i64, join),
        Values::Float(v) => each(v, out, |x| hash_i64(float_key(x) as i64), join),
        Values::Wide(v) => each(v, out, hash_int, join),
        Values::Bits(v) => out.iter_mut().zip(v.iter()).for_each(|(out, x)| *out = join(*out, hash_i64(x.into()))),
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
