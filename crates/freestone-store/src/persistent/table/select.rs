//! Predicates on the rows of a block.

use freestone_codec::{BytesPredicate, IntPredicate, Kind, Predicate};

use super::block::Block;
use super::geometry::ColumnPlace;
use crate::column::{bytes_prefix, number_prefix};
use crate::error::{Result, StoreError};
use crate::scan::ColumnPredicate;

/// A predicate, with the range of order prefixes outside of which no value passes.
#[derive(Debug, Clone)]
pub struct Test {
    pub column: usize,
    predicate: Predicate,
    /// `None`: the bounds of a block say nothing about it.
    pub prefixes: Option<(u64, u64)>,
}

impl Test {
    /// # Errors
    /// The predicate is for another kind of values than the column's.
    pub fn new(from: &ColumnPredicate, place: &ColumnPlace) -> Result<Test> {
        let fits = match &from.predicate {
            Predicate::IsNull | Predicate::IsNotNull => true,
            Predicate::Int(_) => place.kind != Kind::Bytes,
            Predicate::Bytes(_) => place.kind == Kind::Bytes,
        };
        if !fits {
            return Err(StoreError::invalid(format!("a predicate of another type than column {}", from.column)));
        }
        let prefixes = key_prefixes(&from.predicate, place.kind);
        Ok(Test { column: from.column, predicate: from.predicate.clone(), prefixes })
    }

    /// Whether a block with these bounds may have values that pass.
    pub fn may_pass(&self, (smallest, largest): (u64, u64)) -> bool {
        self.prefixes.is_none_or(|(low, high)| low <= largest && smallest <= high)
    }

    /// Keeps the bits of the slots whose values pass. Word `i` has the slots from `64 * i`.
    pub fn select(&self, block: &Block<'_>, selected: &mut [u64]) -> Result<()> {
        let place = &block.geometry.columns[self.column];
        for (at, bits) in selected.iter_mut().enumerate() {
            if *bits == 0 {
                continue;
            }
            let nulls = block.nulls(place, at);
            *bits &= match &self.predicate {
                Predicate::IsNull => nulls,
                Predicate::IsNotNull => !nulls,
                Predicate::Int(predicate) => !nulls & self.ints(block, place, at, *bits, predicate),
                Predicate::Bytes(predicate) => !nulls & strings(block, place, at, *bits, predicate)?,
            };
        }
        Ok(())
    }

    fn ints(&self, block: &Block<'_>, place: &ColumnPlace, at: usize, bits: u64, predicate: &IntPredicate) -> u64 {
        if place.kind == Kind::Wide {
            return each(bits, |slot| predicate.test(block.wide(place, at * 64 + slot)));
        }
        let IntPredicate::Range { low, high } = predicate else {
            return block.select_ints(place, at, |value| predicate.test(value.into()));
        };
        let (Ok(low), Ok(high)) =
            (i64::try_from(*low.max(&i64::MIN.into())), i64::try_from(*high.min(&i64::MAX.into())))
        else {
            return 0;
        };
        block.select_ints(place, at, |value| (low <= value) & (value <= high))
    }

    /// Whether the value in a slot passes. `text` is room for a string.
    pub fn passes(&self, block: &Block<'_>, slot: usize, text: &mut Vec<u8>) -> Result<bool> {
        let place = &block.geometry.columns[self.column];
        let is_null = block.nulls(place, slot / 64) >> (slot % 64) & 1 == 1;
        Ok(match &self.predicate {
            Predicate::IsNull => is_null,
            Predicate::IsNotNull => !is_null,
            _ if is_null => false,
            Predicate::Int(predicate) if place.kind == Kind::Wide => predicate.test(block.wide(place, slot)),
            Predicate::Int(predicate) => predicate.test(block.order_key(place, slot).into()),
            Predicate::Bytes(predicate) => {
                block.read_string(place, slot, text)?;
                predicate.test(text)
            }
        })
    }
}

/// The bits of `bits` for which `test` holds.
fn each(bits: u64, mut test: impl FnMut(usize) -> bool) -> u64 {
    let (mut rest, mut passed) = (bits, 0);
    while rest != 0 {
        let slot = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        passed |= u64::from(test(slot)) << slot;
    }
    passed
}

fn strings(block: &Block<'_>, place: &ColumnPlace, at: usize, bits: u64, predicate: &BytesPredicate) -> Result<u64> {
    let (mut text, mut failure) = (vec![], None);
    let passed = each(bits, |slot| match block.read_string(place, at * 64 + slot, &mut text) {
        Ok(()) => predicate.test(&text),
        Err(error) => {
            failure = Some(error);
            false
        }
    });
    failure.map_or(Ok(passed), Err)
}

/// The smallest and largest order prefix of values that pass.
pub fn key_prefixes(predicate: &Predicate, kind: Kind) -> Option<(u64, u64)> {
    let number = |value: i128| {
        let narrow = if kind == Kind::Wide { value >> 64 } else { value };
        number_prefix(narrow.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    };
    match predicate {
        Predicate::IsNull | Predicate::IsNotNull => None,
        Predicate::Int(predicate) => {
            let (low, high) = predicate.bounds();
            Some(if low > high { (1, 0) } else { (number(low), number(high)) })
        }
        Predicate::Bytes(BytesPredicate::Range { low, high }) => Some((
            low.as_ref().map_or(0, |low| bytes_prefix(&low.value, 0)),
            high.as_ref().map_or(u64::MAX, |high| bytes_prefix(&high.value, 0)),
        )),
        Predicate::Bytes(BytesPredicate::In(list)) => match (list.first(), list.last()) {
            (Some(first), Some(last)) => Some((bytes_prefix(first, 0), bytes_prefix(last, 0))),
            _ => Some((1, 0)),
        },
        Predicate::Bytes(BytesPredicate::Prefix(prefix)) => Some((bytes_prefix(prefix, 0), bytes_prefix(prefix, 0xff))),
        Predicate::Bytes(_) => None,
    }
}
