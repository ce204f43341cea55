//! The keys of hot rows: for the columns of a key, the rows with a hash of their values. All versions of a run share
//! them, because a run only grows. A lookup adds the rows that are not there yet.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use freestone_codec::{BytesPredicate, IntPredicate, Kind, Predicate};
use parking_lot::Mutex;

use crate::column::{ColumnData, Physical, bytes_prefix, number_prefix};

/// The keys of a run, by their columns in the run.
#[derive(Debug, Default)]
pub struct HotKeys {
    by_columns: Mutex<HashMap<Vec<usize>, Hashed>>,
    state: RandomState,
}

/// The rows of a run by the hash of their key, without those that have a NULL in it.
#[derive(Debug, Default)]
struct Hashed {
    /// The last row with each hash.
    last: HashMap<u64, u32>,
    /// For each row, the row before it that has the same hash, or [`NO_ROW`].
    before: Vec<u32>,
}

const NO_ROW: u32 = u32::MAX;

impl Hashed {
    fn push(&mut self, hash: Option<u64>) {
        let row = self.before.len() as u32;
        let before = hash.and_then(|hash| self.last.insert(hash, row));
        self.before.push(before.unwrap_or(NO_ROW));
    }

    /// The rows with a hash, from the last to the first.
    fn rows(&self, hash: u64) -> impl Iterator<Item = u32> + '_ {
        let before = |row: &u32| self.before.get(*row as usize).copied().filter(|row| *row != NO_ROW);
        std::iter::successors(self.last.get(&hash).copied(), before)
    }
}

/// A value that a predicate asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Asked<'a> {
    /// An integer, or the order key of a float.
    Int(i128),
    /// A string.
    Bytes(&'a [u8]),
}

impl Asked<'_> {
    /// The order prefix of the value; `None` if no value of the kind is equal.
    pub fn prefix(&self, kind: Kind) -> Option<u64> {
        match (self, kind) {
            (Asked::Int(value), Kind::Wide) => Some(number_prefix((value >> 64) as i64)),
            (Asked::Int(value), _) => i64::try_from(*value).ok().map(number_prefix),
            (Asked::Bytes(bytes), _) => Some(bytes_prefix(bytes, 0)),
        }
    }
}

/// The values that a predicate asks for, if it is a list of them.
pub fn asked(predicate: &Predicate) -> Option<Vec<Asked<'_>>> {
    match predicate {
        Predicate::Int(IntPredicate::Range { low, high }) if low == high => Some(vec![Asked::Int(*low)]),
        Predicate::Int(IntPredicate::In(list)) => Some(list.iter().map(|value| Asked::Int(*value)).collect()),
        Predicate::Bytes(BytesPredicate::Range { low: Some(low), high: Some(high) })
            if low.inclusive && high.inclusive && low.value == high.value =>
        {
            Some(vec![Asked::Bytes(&low.value)])
        }
        Predicate::Bytes(BytesPredicate::In(list)) => Some(list.iter().map(|value| Asked::Bytes(value)).collect()),
        _ => None,
    }
}

impl HotKeys {
    /// Among the first `rows` rows of the run, those that may have one of these keys, ascending. A key has a value for
    /// each of the columns. `values` reads the columns of the rows from a number up to `rows`.
    ///
    /// # Errors
    /// The error of `values`.
    pub fn rows(
        &self,
        rows: usize,
        columns: &[usize],
        keys: &[Vec<Asked<'_>>],
        values: impl FnOnce(usize) -> Result<Vec<ColumnData>, String>,
    ) -> Result<Vec<u32>, String> {
        let mut by_columns = self.by_columns.lock();
        let hashed = match by_columns.get_mut(columns) {
            Some(hashed) => hashed,
            None => by_columns.entry(columns.to_vec()).or_default(),
        };
        let known = hashed.before.len();
        if known < rows {
            let values = values(known)?;
            for row in 0..rows - known {
                let key = values.iter().map(|column| value(column, row)).collect::<Option<Vec<_>>>();
                hashed.push(key.map(|key| self.state.hash_one(key.as_slice())));
            }
        }
        let found = keys.iter().flat_map(|key| hashed.rows(self.state.hash_one(key.as_slice())));
        let mut found: Vec<u32> = found.filter(|row| (*row as usize) < rows).collect();
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }
}

fn value(column: &ColumnData, row: usize) -> Option<Asked<'_>> {
    if !column.is_valid(row) {
        return None;
    }
    match &column.values {
        Physical::Bytes { .. } => Some(Asked::Bytes(column.bytes(row))),
        _ => column.int_at(row).map(Asked::Int),
    }
}
