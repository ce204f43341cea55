//! Sorting rows by several columns.

use freestone_codec::{f32_key, f64_key};

use crate::column::{ColumnData, Physical};

/// The order of rows by `keys`, ascending, NULLs last; stable.
pub fn sort_order(keys: &[&ColumnData]) -> Vec<u32> {
    let rows = keys.first().map_or(0, |k| k.len());
    match packed_keys(keys, rows) {
        Some(mut packed) => {
            packed.sort_unstable();
            packed.into_iter().map(|(_, row)| row).collect()
        }
        None => {
            let mut order: Vec<u32> = (0..rows as u32).collect();
            order.sort_by(|a, b| {
                let compared = keys.iter().map(|k| k.compare(*a as usize, *b as usize));
                compared.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
            });
            order
        }
    }
}

/// All keys of a row concatenated into one number, with the row: this is much faster to sort. `None` if they do not fit
/// 128 bits.
fn packed_keys(keys: &[&ColumnData], rows: usize) -> Option<Vec<(u128, u32)>> {
    let mut packed: Vec<(u128, u32)> = (0..rows as u32).map(|row| (0, row)).collect();
    let mut bits = 0;
    for key in keys {
        let value: Box<dyn Fn(usize) -> i64 + '_> = match &key.values {
            Physical::Int(v) => Box::new(|row| v[row]),
            Physical::F64(v) => Box::new(|row| f64_key(v[row])),
            Physical::F32(v) => Box::new(|row| f32_key(v[row])),
            Physical::Wide(_) | Physical::Bytes { .. } => return None,
        };
        let valid = (0..rows).filter(|row| key.is_valid(*row)).map(&value);
        let (low, high) = valid.fold((i64::MAX, i64::MIN), |(l, h), v| (l.min(v), h.max(v)));
        let span = if low > high { 0 } else { (i128::from(high) - i128::from(low)) as u128 };
        // One code more than the values need represents NULL.
        let width = 128 - (span + 1).leading_zeros();
        bits += width;
        if bits > 128 {
            return None;
        }
        for (row, (code, _)) in packed.iter_mut().enumerate() {
            let own = if key.is_valid(row) { (i128::from(value(row)) - i128::from(low)) as u128 } else { span + 1 };
            *code = code.checked_shl(width).unwrap_or(0) | own;
        }
    }
    Some(packed)
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
