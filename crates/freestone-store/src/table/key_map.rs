//! The codes of the keys of a referenced table.

use std::collections::HashMap;

use crate::column::{ColumnData, Physical};

/// Codes by key.
#[derive(Debug)]
pub enum KeyMap {
    /// Keys in a narrow range: element `i` is the code of key `first + i`.
    Dense {
        /// The smallest key.
        first: i64,
        /// The codes of consecutive keys.
        codes: Vec<u32>,
    },
    /// Codes by integer key.
    Ints(HashMap<i128, u32>),
    /// Codes by string key.
    Bytes(HashMap<Vec<u8>, u32>),
}

/// Marks keys that do not exist in a dense map.
const MISSING: u32 = u32::MAX;

impl KeyMap {
    pub(crate) fn new(keys: &ColumnData, codes: &[u32]) -> KeyMap {
        let rows = (0..keys.len()).filter(|row| keys.is_valid(*row));
        if let Physical::Bytes { .. } = &keys.values {
            return KeyMap::Bytes(rows.map(|row| (keys.bytes(row).to_vec(), codes[row])).collect());
        }
        if let Physical::Int(values) = &keys.values {
            let (low, high) = rows.clone().fold((i64::MAX, i64::MIN), |(l, h), r| (l.min(values[r]), h.max(values[r])));
            let span = if low > high { 0 } else { i128::from(high) - i128::from(low) + 1 };
            if span <= (4 * keys.len() as i128).max(1 << 20) {
                let mut dense = vec![MISSING; span as usize];
                rows.for_each(|row| dense[(values[row] - low) as usize] = codes[row]);
                return KeyMap::Dense { first: low, codes: dense };
            }
        }
        KeyMap::Ints(rows.filter_map(|row| Some((keys.int_at(row)?, codes[row]))).collect())
    }

    /// The code of an integer key.
    pub fn of_int(&self, key: i128) -> Option<u32> {
        match self {
            KeyMap::Dense { first, codes } => {
                let at = usize::try_from(key - i128::from(*first)).ok()?;
                codes.get(at).copied().filter(|code| *code != MISSING)
            }
            KeyMap::Ints(map) => map.get(&key).copied(),
            KeyMap::Bytes(_) => None,
        }
    }

    /// The code of a string key.
    pub fn of_bytes(&self, key: &[u8]) -> Option<u32> {
        match self {
            KeyMap::Bytes(map) => map.get(key).copied(),
            _ => None,
        }
    }

    pub(crate) fn of_row(&self, keys: &ColumnData, row: usize) -> Option<u32> {
        match &keys.values {
            Physical::Bytes { .. } => self.of_bytes(keys.bytes(row)),
            Physical::Int(values) => self.of_int(values[row].into()),
            _ => self.of_int(keys.int_at(row)?),
        }
    }

    /// The codes of a column of keys. NULL, and keys that do not exist, get `null`.
    pub(crate) fn codes(&self, keys: &ColumnData, null: u32) -> Vec<u32> {
        let code = |row: usize| if keys.is_valid(row) { self.of_row(keys, row).unwrap_or(null) } else { null };
        (0..keys.len()).map(code).collect()
    }
}
