//! The clustering of a table: the key of a row, and tests of the keys of a block (Götze, Baumann and Sattler 2018, section
//! IV.D and F).

use freestone_codec::Predicate;

use crate::cluster::{BitOrder, Interleave, KEY_BITS};
use crate::column::ColumnData;
use crate::error::{Result, StoreError};
use crate::scan::ColumnPredicate;
use crate::segment::bins::{Bins, Value};

/// A dimension: a column, and the numbering of its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Dimension {
    /// The position of the column.
    pub column: usize,
    /// The numbering.
    pub bins: Bins,
}

/// The dimensions of a table and the order of their bits.
#[derive(Debug, Clone, PartialEq)]
pub struct Clusters {
    /// The dimensions.
    pub dimensions: Vec<Dimension>,
    /// The order of the bits.
    pub order: BitOrder,
    interleave: Interleave,
}

/// A necessary condition for rows of a block, on the bits of one dimension in their keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaskedTest {
    mask: u64,
    low: u64,
    high: u64,
}

impl Clusters {
    /// # Errors
    /// The order does not fit the dimensions.
    pub fn new(dimensions: Vec<Dimension>, order: BitOrder) -> Result<Clusters> {
        let widths: Vec<u32> = dimensions.iter().map(|dimension| dimension.bins.width()).collect();
        let interleave = Interleave::ordered(&widths, KEY_BITS, &order).map_err(StoreError::Invalid)?;
        Ok(Clusters { dimensions, order, interleave })
    }

    /// The key of a row; 0 without dimensions.
    pub fn key(&self, columns: &[ColumnData], row: usize) -> u64 {
        self.interleave.key(|dimension| {
            let Dimension { column, bins } = &self.dimensions[dimension];
            let data = &columns[*column];
            match data.int_at(row) {
                _ if !data.is_valid(row) => bins.null_code(),
                Some(value) => bins.code_of_int(value),
                None => bins.code_of_bytes(data.bytes(row)),
            }
        })
    }

    /// The tests that follow from predicates.
    pub fn tests(&self, predicates: &[ColumnPredicate]) -> Vec<MaskedTest> {
        let mut tests = vec![];
        for (number, dimension) in self.dimensions.iter().enumerate() {
            for ColumnPredicate { predicate, .. } in predicates.iter().filter(|p| p.column == dimension.column) {
                let codes = match predicate {
                    Predicate::IsNull => Some(vec![dimension.bins.null_code()]),
                    other => dimension.bins.codes_of(other),
                };
                let Some(codes) = codes else { continue };
                let mask = self.interleave.mask(number);
                let deposit = |code: &u32| self.interleave.deposit(number, *code);
                tests.push(match (codes.first(), codes.last()) {
                    (Some(first), Some(last)) => MaskedTest { mask, low: deposit(first), high: deposit(last) },
                    _ => MaskedTest { mask, low: u64::MAX, high: 0 },
                });
            }
        }
        tests
    }
}

impl MaskedTest {
    /// Whether a row with a key from `low` to `high` may pass: their common leading bits say which codes are possible.
    #[inline]
    pub fn may_pass(&self, low: u64, high: u64) -> bool {
        let unknown = u64::MAX.checked_shr((low ^ high).leading_zeros()).unwrap_or(0);
        (low & !unknown & self.mask) <= self.high && ((low | unknown) & self.mask) >= self.low
    }
}

/// A numbering of the values of a sample of rows: bins of about equal numbers of rows, as many as `bits` allow.
pub fn sampled_bins(sample: &ColumnData, bits: u32) -> Bins {
    let value = |row: usize| match sample.int_at(row) {
        Some(value) => Value::Int(value),
        None => Value::Bytes(sample.bytes(row).to_vec()),
    };
    let mut values: Vec<Value> = (0..sample.len()).filter(|row| sample.is_valid(*row)).map(value).collect();
    values.sort_unstable();
    let mut tuples: Vec<(Vec<Value>, u64)> = vec![];
    for value in values {
        match tuples.last_mut() {
            Some((last, count)) if last[0] == value => *count += 1,
            _ => tuples.push((vec![value], 1)),
        }
    }
    Bins::of_tuples(&tuples, Some(bits.clamp(1, 31)))
}

#[cfg(test)]
mod tests {
    use freestone_codec::IntPredicate;
    use proptest::prelude::*;

    use super::*;
    use crate::column::Physical;

    fn ints(values: Vec<i64>) -> ColumnData {
        ColumnData { values: Physical::Int(values), validity: None }
    }

    proptest! {
        #[test]
        fn rows_that_pass_are_in_blocks_that_may(
            rows in prop::collection::vec((-50i64..50, -50i64..50), 2..60), low in -60i64..60, len in 0i64..40,
            bits in 1u32..6, order in 0usize..3,
        ) {
            let columns = [ints(rows.iter().map(|r| r.0).collect()), ints(rows.iter().map(|r| r.1).collect())];
            let dimension = |column: usize| Dimension { column, bins: sampled_bins(&columns[column], bits) };
            let order = [BitOrder::RoundRobin, BitOrder::MajorMinor, BitOrder::Pattern(vec![1, 0])][order].clone();
            let clusters = Clusters::new(vec![dimension(0), dimension(1)], order).expect("it fits");
            let range = IntPredicate::Range { low: low.into(), high: (low + len).into() };
            let predicate = ColumnPredicate { column: 1, predicate: Predicate::Int(range) };
            let tests = clusters.tests(&[predicate]);
            prop_assert_eq!(tests.len(), 1);
            let mut keys: Vec<(u64, i64)> = (0..rows.len()).map(|row| (clusters.key(&columns, row), rows[row].1)).collect();
            keys.sort_unstable();
            for block in keys.chunks(5) {
                let may = tests[0].may_pass(block[0].0, block[block.len() - 1].0);
                prop_assert!(may || !block.iter().any(|(_, value)| (low..=low + len).contains(value)));
            }
            prop_assert!(tests[0].may_pass(0, u64::MAX));
        }
    }
}
