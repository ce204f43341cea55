//! The rows of a join's build side in the order of a key, for a join by inequalities.
//!
//! With `first` at most a value and `second` at least another one, as of `x BETWEEN first AND second`, the rows before the
//! value's place in the order of `first` are candidates. They are visited backwards, as long as one of those that are left
//! has a `second` that is large enough; so ranges that do not overlap cost one visit.

use crate::hash::{float_place, int_place};
use crate::rows::{Field, FrozenRows};
use crate::vector::{Form, Values, Vector};

/// Rows in the order of their first key.
pub struct Ranges {
    /// The first keys, ascending.
    first: Vec<u64>,
    rows: Vec<u32>,
    /// The second keys, and the greatest up to each.
    second: Option<(Vec<u64>, Vec<u64>)>,
    /// What turns the order of the keys around.
    flip: u64,
}

impl Ranges {
    /// The bytes that a row takes, at most.
    pub const ROW_BYTES: usize = 4 + 3 * 8 + 24;

    /// The rows whose keys are not NULL. The first one or two fields are the keys: integers or floats.
    pub fn new(rows: &FrozenRows, keys: &[Field], is_below: bool) -> Ranges {
        let flip = if is_below { 0 } else { u64::MAX };
        let mut all: Vec<(u64, u64, u32)> = vec![];
        for part in 0..rows.parts() {
            for (row, _) in rows.part_rows(part) {
                let is_null = |key: usize| keys[key].nullable && rows.is_null(row as usize, key);
                if (0..keys.len()).any(is_null) {
                    continue;
                }
                let place = |key: usize| {
                    let word = rows.word(row as usize, key);
                    let place = match keys[key].form {
                        Form::Float => float_place(f64::from_bits(word)),
                        _ => int_place(word as i64),
                    };
                    place ^ flip
                };
                all.push((place(0), if keys.len() > 1 { place(1) } else { 0 }, row));
            }
        }
        all.sort_unstable();
        let second = (keys.len() > 1).then(|| {
            let second: Vec<u64> = all.iter().map(|(_, second, _)| *second).collect();
            let greatest = second.iter().scan(0, |most, value| {
                *most = (*most).max(*value);
                Some(*most)
            });
            let greatest = greatest.collect();
            (second, greatest)
        });
        let (first, rows) = all.into_iter().map(|(first, _, row)| (first, row)).unzip();
        Ranges { first, rows, second, flip }
    }

    /// The places of the probe side's keys.
    pub fn probed(&self, keys: &[Vector]) -> Vec<Vec<u64>> {
        let places = |key: &Vector| match &key.values {
            Values::Float(values) => values.iter().map(|value| float_place(*value) ^ self.flip).collect(),
            _ => key.as_ints().iter().map(|value| int_place(*value) ^ self.flip).collect(),
        };
        keys.iter().map(places).collect()
    }

    /// Appends the rows that satisfy the inequalities with a row of the probe side.
    pub fn find(&self, keys: &[Vec<u64>], row: usize, found: &mut Vec<u32>) {
        let end = self.first.partition_point(|first| *first <= keys[0][row]);
        let Some((second, greatest)) = &self.second else {
            found.extend_from_slice(&self.rows[..end]);
            return;
        };
        let least = keys[1][row];
        for at in (0..end).rev() {
            if greatest[at] < least {
                break;
            }
            if second[at] >= least {
                found.push(self.rows[at]);
            }
        }
    }
}
