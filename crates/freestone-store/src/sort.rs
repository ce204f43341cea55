//! Sorting rows by several columns.

use freestone_codec::{f32_key, f64_key};

use crate::column::{ColumnData, Physical};

/// The order of rows by `keys`, ascending, NULLs last; stable.
pub fn sort_order(keys: &[&ColumnData]) -> Vec<u32> {
    let rows = keys.first().map_or(0, |k| k.len());
    let codes: Option<Vec<Codes<'_>>> = keys.iter().map(|key| Codes::of(key, rows)).collect();
    let bits = codes.as_ref().map_or(u32::MAX, |codes| codes.iter().map(|codes| codes.width).sum());
    match codes {
        // A row's number takes the lower half: this is much faster to sort.
        Some(codes) if bits <= 32 => {
            let mut packed: Vec<u64> =
                packed(&codes, rows).zip(0..).map(|(code, row)| (code as u64) << 32 | row).collect();
            packed.sort_unstable();
            packed.into_iter().map(|code| code as u32).collect()
        }
        Some(codes) if bits <= 96 => {
            let mut packed: Vec<u128> = packed(&codes, rows).zip(0..).map(|(code, row)| code << 32 | row).collect();
            packed.sort_unstable();
            packed.into_iter().map(|code| code as u32).collect()
        }
        Some(codes) if bits <= 128 => {
            let mut packed: Vec<(u128, u32)> = packed(&codes, rows).zip(0..).collect();
            packed.sort_unstable();
            packed.into_iter().map(|(_, row)| row).collect()
        }
        _ => {
            let mut order: Vec<u32> = (0..rows as u32).collect();
            order.sort_by(|a, b| {
                let compared = keys.iter().map(|k| k.compare(*a as usize, *b as usize));
                compared.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
            });
            order
        }
    }
}

/// A key as unsigned codes in the order of its values.
struct Codes<'a> {
    key: &'a ColumnData,
    low: i64,
    /// One code more than the values need, which represents NULL.
    null: u128,
    /// Bits of a code.
    width: u32,
}

impl<'a> Codes<'a> {
    /// `None` for strings and numbers of 128 bits.
    fn of(key: &'a ColumnData, rows: usize) -> Option<Self> {
        if matches!(key.values, Physical::Wide(_) | Physical::Bytes { .. }) {
            return None;
        }
        let valid = (0..rows).filter(|row| key.is_valid(*row)).map(|row| number(key, row));
        let (low, high) = valid.fold((i64::MAX, i64::MIN), |(l, h), v| (l.min(v), h.max(v)));
        let span = if low > high { 0 } else { (i128::from(high) - i128::from(low)) as u128 };
        Some(Codes { key, low, null: span + 1, width: 128 - (span + 1).leading_zeros() })
    }

    fn code(&self, row: usize) -> u128 {
        match self.key.is_valid(row) {
            true => (i128::from(number(self.key, row)) - i128::from(self.low)) as u128,
            false => self.null,
        }
    }
}

fn number(key: &ColumnData, row: usize) -> i64 {
    match &key.values {
        Physical::Int(v) => v[row],
        Physical::F64(v) => f64_key(v[row]),
        Physical::F32(v) => f32_key(v[row]),
        Physical::Wide(_) | Physical::Bytes { .. } => 0,
    }
}

/// All codes of a row concatenated into one number.
fn packed<'c>(codes: &'c [Codes<'_>], rows: usize) -> impl Iterator<Item = u128> + 'c {
    let concatenated =
        |row: usize| codes.iter().fold(0u128, |code, key| code.checked_shl(key.width).unwrap_or(0) | key.code(row));
    (0..rows).map(concatenated)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bitmap;

    fn column(values: &[Option<i64>]) -> ColumnData {
        let mut validity = vec![0; bitmap::words(values.len())];
        values.iter().enumerate().filter(|(_, v)| v.is_some()).for_each(|(i, _)| bitmap::set(&mut validity, i));
        ColumnData { values: Physical::Int(values.iter().map(|v| v.unwrap_or(0)).collect()), validity: Some(validity) }
    }

    proptest! {
        #[test]
        fn packed_and_compared_orders_agree(
            rows in prop::collection::vec((prop::option::of(-2i64..3), prop::option::of(prop::num::i64::ANY)), 1..60),
        ) {
            let a = column(&rows.iter().map(|r| r.0).collect::<Vec<_>>());
            let b = column(&rows.iter().map(|r| r.1).collect::<Vec<_>>());
            let mut expected: Vec<u32> = (0..rows.len() as u32).collect();
            expected.sort_by_key(|i| {
                let last = |v: Option<i64>| (v.is_none(), v);
                let row = rows[*i as usize];
                (last(row.0), last(row.1), *i)
            });
            prop_assert_eq!(sort_order(&[&a, &b]), expected);
        }
    }
}
