//! AND, OR and XOR of the values of each group: integers bit by bit, and booleans.

use arrow_buffer::{BooleanBuffer, NullBuffer};

use crate::accumulators::{Accumulator, Combined};
use crate::error::Result;
use crate::vector::{Values, Vector};

/// An operation whose results do not depend on the order of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BitOperation {
    /// The bits that all values have. Of booleans: whether all are true; their least one.
    And,
    /// The bits that any value has. Of booleans: whether any is true; their greatest one.
    Or,
    /// The bits that an odd number of values have.
    Xor,
}

/// The values of groups, combined. NULL does not count, and a group without values has NULL.
pub struct Bitwise {
    operation: BitOperation,
    /// Whether values are booleans: integers that are 0 or 1.
    are_booleans: bool,
    values: Combined,
}

impl Bitwise {
    /// Combines integers or booleans.
    pub fn new(operation: BitOperation, are_booleans: bool) -> Bitwise {
        let first = if operation == BitOperation::And { -1 } else { 0 };
        Bitwise { operation, are_booleans, values: Combined::new(first) }
    }

    fn add(&mut self, values: &[i64], valid: Option<&NullBuffer>, groups: &[u32], total: usize) {
        match self.operation {
            BitOperation::And => self.values.add(values, valid, groups, total, |bits, value| bits & value),
            BitOperation::Or => self.values.add(values, valid, groups, total, |bits, value| bits | value),
            BitOperation::Xor => self.values.add(values, valid, groups, total, |bits, value| bits ^ value),
        }
    }
}

impl Accumulator for Bitwise {
    fn update(&mut self, inputs: &[Vector], groups: &[u32], total: usize) -> Result<()> {
        let valid = inputs[0].valid.as_ref();
        match &inputs[0].values {
            // One group takes its booleans a word at a time.
            Values::Bits(bits) if total == 1 => {
                let (trues, known) = match valid {
                    Some(valid) => ((bits & valid.inner()).count_set_bits(), valid.len() - valid.null_count()),
                    None => (bits.count_set_bits(), bits.len()),
                };
                let value = match self.operation {
                    BitOperation::And => trues == known,
                    BitOperation::Or => trues > 0,
                    BitOperation::Xor => trues % 2 == 1,
                };
                if known > 0 {
                    self.add(&[value.into()], None, &[0], 1);
                }
            }
            Values::Bits(bits) => {
                let values: Vec<i64> = bits.iter().map(i64::from).collect();
                self.add(&values, valid, groups, total);
            }
            _ => self.add(inputs[0].as_ints(), valid, groups, total),
        }
        Ok(())
    }

    fn states(&mut self, total: usize) -> Result<Vec<Vector>> {
        Ok(vec![self.values.take(total)])
    }

    fn merge(&mut self, states: &[Vector], groups: &[u32], total: usize) -> Result<()> {
        self.add(states[0].as_ints(), states[0].valid.as_ref(), groups, total);
        Ok(())
    }

    fn results(&mut self, rows: &[i64]) -> Result<Vec<Vector>> {
        let states = self.states(rows.len())?;
        if !self.are_booleans {
            return Ok(states);
        }
        let values = states[0].as_ints();
        let bits = BooleanBuffer::collect_bool(rows.len(), |group| values[group] & 1 == 1);
        Ok(vec![Vector::with_nulls(Values::Bits(bits), states[0].valid.clone())])
    }

    fn bytes(&self) -> usize {
        self.values.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_groups_are_combined() {
        for (operation, expected) in
            [(BitOperation::And, [4, 7]), (BitOperation::Or, [15, 7]), (BitOperation::Xor, [11, 7])]
        {
            let (mut one, mut two) = (Bitwise::new(operation, false), Bitwise::new(operation, false));
            let column =
                Vector::with_nulls(Values::Int(vec![12, 5, -1, 7].into()), Some(vec![true, true, false, true].into()));
            one.update(&[column], &[0, 0, 2, 1], 3).expect("combined");
            two.update(&[Vector::ints(vec![6, 4])], &[0, 0], 1).expect("combined");
            one.merge(&two.states(1).expect("states"), &[0], 3).expect("merged");
            let found = one.results(&[1; 3]).expect("results").remove(0);
            assert_eq!(found.as_ints()[..2], expected, "{operation:?}");
            assert!(!found.is_null(0) && found.is_null(2), "a group of NULLs");
        }
    }

    #[test]
    fn booleans_are_all_or_any_true() {
        for (operation, expected) in [(BitOperation::And, [false, true]), (BitOperation::Or, [true, true])] {
            let mut of = Bitwise::new(operation, true);
            let bits = BooleanBuffer::from(vec![true, false, true, true]);
            of.update(&[Vector::new(Values::Bits(bits))], &[0, 0, 1, 1], 3).expect("combined");
            let found = of.results(&[2; 3]).expect("results").remove(0);
            assert_eq!([0, 1].map(|group| found.as_bits().value(group)), expected, "{operation:?}");
            assert!(found.is_null(2), "a group without rows");
            for (bits, valid, one) in [
                ([true, false], [true, true], Some(expected[0])),
                ([true, true], [true, true], Some(true)),
                ([false, false], [true, true], Some(false)),
                ([true, false], [true, false], Some(true)),
                ([true, true], [false, false], None),
            ] {
                let bits = Values::Bits(BooleanBuffer::from(bits.to_vec()));
                of.update(&[Vector::with_nulls(bits, Some(valid.to_vec().into()))], &[0, 0], 1).expect("combined");
                let found = of.results(&[2]).expect("results").remove(0);
                assert_eq!((!found.is_null(0)).then(|| found.as_bits().value(0)), one, "{operation:?} of one group");
            }
        }
    }
}
