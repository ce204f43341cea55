//! Sequences: numbers that are given once, to whichever session asks first.
//!
//! A sequence is an object of the catalog. Its position, up to which numbers may have been given, is a part of it that
//! changes with each block of numbers, independently of transactions. The numbers belong to the id of the sequence, which
//! no other one gets: so a sequence that is dropped and created again begins at its start.

mod counters;
mod functions;

use std::collections::{BTreeSet, HashMap};

use datafusion::arrow::datatypes::DataType;
use freestone_store::{
    Definition, Object, ObjectKind as Kind, Position, Sequence as Numbers, Snapshot, WriteTransaction,
};

pub(crate) use counters::Counters;
pub(crate) use functions::{MayWrite, SessionSequences, catalog_name, named_by, named_in, named_sequence, register};

use crate::definitions;
use crate::error::{Error, ErrorKind, Result};
use crate::internal_names::{is_temporary, shown};

/// A sequence as it was declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sequence {
    /// The id in the catalog.
    pub id: u64,
    pub start: i64,
    /// Not 0.
    pub increment: i64,
    pub min: i64,
    pub max: i64,
    pub cycle: bool,
}

impl Sequence {
    fn of(object: &Object) -> Option<Sequence> {
        let Definition::Sequence(Numbers { start, increment, min, max, cycle, position: _ }) = object.definition else {
            return None;
        };
        (increment != 0).then_some(Sequence { id: object.id, start, increment, min, max, cycle })
    }

    fn at(&self, position: Position) -> Definition {
        let Sequence { id: _, start, increment, min, max, cycle } = *self;
        Definition::Sequence(Numbers { start, increment, min, max, cycle, position })
    }

    /// The position after a number of steps from `first`.
    fn after(&self, first: i64, steps: u64) -> Position {
        let next = i128::from(first) + i128::from(self.increment) * i128::from(steps);
        match i64::try_from(next) {
            Ok(next) if (self.min..=self.max).contains(&next) => Position::Next(next),
            _ if self.cycle => Position::Next(if self.increment > 0 { self.min } else { self.max }),
            _ => Position::End,
        }
    }

    /// How many numbers there are from `first` to the end.
    fn left(&self, first: i64) -> u64 {
        let last = i128::from(if self.increment > 0 { self.max } else { self.min });
        let increment = i128::from(self.increment);
        let steps = ((last - i128::from(first)) * increment.signum()).div_euclid(increment.abs());
        u64::try_from(steps + 1).unwrap_or(0)
    }
}

/// The sequence with a name.
pub(crate) fn find(snapshot: &Snapshot, name: &str) -> Option<Sequence> {
    Sequence::of(snapshot.object(Kind::Sequence, name)?)
}

/// The names of all sequences.
pub(crate) fn names(snapshot: &Snapshot) -> impl Iterator<Item = &str> {
    definitions::names(snapshot, Kind::Sequence)
}

/// The error for a name that no sequence has.
pub(crate) fn missing(snapshot: &Snapshot, name: &str) -> Error {
    definitions::missing(Kind::Sequence, name, snapshot)
}

/// The name, or the name with a number if a table, view or sequence has it.
pub(crate) fn free_name(snapshot: &Snapshot, name: &str) -> String {
    let numbered = (1..).map(|number| format!("{name}{number}"));
    let is_free = |name: &String| check_free(snapshot, name).is_ok();
    std::iter::once(name.to_owned()).chain(numbered).find(is_free).unwrap_or_default()
}

/// Whether a table, view or sequence has a name.
pub(crate) fn is_taken(snapshot: &Snapshot, name: &str) -> bool {
    snapshot.relation_id(name).is_some() || find(snapshot, name).is_some()
}

/// Refuses a name that a table, view or sequence has.
pub(crate) fn check_free(snapshot: &Snapshot, name: &str) -> Result<()> {
    if snapshot.relation_id(name).is_some() {
        return Err(exists(format!("a table or view {name} exists")));
    }
    check_no_sequence(snapshot, name)
}

/// Refuses a name that a sequence has.
pub(crate) fn check_no_sequence(snapshot: &Snapshot, name: &str) -> Result<()> {
    match find(snapshot, name) {
        Some(_) => Err(exists(format!("sequence {name} exists"))),
        None => Ok(()),
    }
}

fn exists(message: String) -> Error {
    Error::new(ErrorKind::Exists, message).with_hint("choose another name, or DROP it first")
}

/// Adds a sequence, whose name is free, and which belongs to nothing.
pub(crate) fn create(transaction: &mut WriteTransaction, name: &str, sequence: &Sequence) -> Result<()> {
    transaction.create_object(name, BTreeSet::new(), sequence.at(Position::Start))?;
    Ok(())
}

/// Lets a sequence begin again, once the transaction commits: as another one, so that nobody gives numbers any more that
/// are reserved.
pub(crate) fn restart(transaction: &mut WriteTransaction, name: &str) -> Result<()> {
    let snapshot = transaction.snapshot();
    let Some(object) = snapshot.object(Kind::Sequence, name) else { return Ok(()) };
    let Some(sequence) = Sequence::of(object) else { return Ok(()) };
    transaction.drop_object(object.id)?;
    let new = match object.owner {
        Some(owner) => transaction.create_owned(owner, name, sequence.at(Position::Start))?,
        None => transaction.create_object(name, object.uses.clone(), sequence.at(Position::Start))?,
    };
    Ok(transaction.use_instead(object.id, new)?)
}

/// Lets the sequences of a table's columns go with the table.
pub(crate) fn own(transaction: &mut WriteTransaction, table: &str) -> Result<()> {
    let (table, snapshot) = (transaction.table(table)?, transaction.snapshot());
    for sequence in table.schema.sequences().iter().filter_map(|name| find(&snapshot, name)) {
        transaction.change_object(sequence.id, |object| object.owner = Some(table.id))?;
    }
    Ok(())
}

/// Where a sequence goes on, as committed.
fn position(snapshot: &Snapshot, sequence: &Sequence) -> Position {
    match snapshot.object_by_id(sequence.id).map(|object| &object.definition) {
        Some(Definition::Sequence(numbers)) => numbers.position,
        _ => Position::Start,
    }
}

/// The last number that may have been given; `None` if there is none.
fn last_reserved(snapshot: &Snapshot, sequence: &Sequence) -> Option<i64> {
    match position(snapshot, sequence) {
        Position::Start => None,
        Position::Next(next) => next.checked_sub(sequence.increment),
        Position::End => Some(if sequence.increment > 0 { sequence.max } else { sequence.min }),
    }
}

/// The value and the third argument with which `setval` brings a sequence to its position; `None` at its start.
pub(crate) fn setval_arguments(snapshot: &Snapshot, sequence: &Sequence) -> Option<(i64, bool)> {
    Some(match position(snapshot, sequence) {
        Position::Start => return None,
        Position::Next(next) => (next, false),
        Position::End if sequence.increment > 0 => (sequence.max, true),
        Position::End => (sequence.min, true),
    })
}

/// A sequence of the database, with its declaration.
#[derive(Debug, Clone)]
pub struct SequenceRelation {
    /// The name.
    pub name: String,
    /// Whether it ends with the session. Its name is in the schema `pg_temp` then.
    pub is_temporary: bool,
    /// The type of its numbers: that of the column to which it belongs, or a 64-bit integer.
    pub data_type: DataType,
    /// The first number.
    pub start: i64,
    /// The difference of two numbers.
    pub increment: i64,
    /// The lowest number.
    pub min: i64,
    /// The highest number.
    pub max: i64,
    /// Whether it begins again after the last number.
    pub cycle: bool,
    /// The last number that may have been given.
    pub last_value: Option<i64>,
    /// The table and the column to which it belongs.
    pub owner: Option<(String, String)>,
}

/// The sequences that a session may see.
pub(crate) fn relations(snapshot: &Snapshot, sees: &dyn Fn(&str) -> bool) -> Vec<SequenceRelation> {
    let mut owners = HashMap::new();
    for table in snapshot.tables() {
        for (at, column) in table.schema.columns.iter().enumerate() {
            if let Some(name) = table.schema.sequence_of(at) {
                owners.insert(name.to_owned(), (shown(&table.name), column));
            }
        }
    }
    let described = |name: &str| {
        let sequence = find(snapshot, name)?;
        let last_value = last_reserved(snapshot, &sequence);
        let Sequence { id: _, start, increment, min, max, cycle } = sequence;
        let owner = owners.get(name);
        let data_type = owner.map_or(DataType::Int64, |(_, column)| column.data_type.clone());
        let owner = owner.map(|(table, column)| (table.clone(), column.name.clone()));
        let (name, is_temporary) = (shown(name), is_temporary(name));
        Some(SequenceRelation { name, is_temporary, data_type, start, increment, min, max, cycle, last_value, owner })
    };
    names(snapshot).filter(|name| sees(name)).filter_map(described).collect()
}

fn set_position(transaction: &mut WriteTransaction, sequence: &Sequence, position: Position) -> Result<()> {
    Ok(transaction.change_object(sequence.id, |object| object.definition = sequence.at(position))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(increment: i64, min: i64, max: i64, cycle: bool) -> Sequence {
        Sequence { id: 7, start: 1, increment, min, max, cycle }
    }

    #[test]
    fn numbers_end_at_the_bounds() {
        let up = sequence(2, 1, 6, false);
        assert_eq!((up.left(1), up.left(5), up.left(6), up.left(7)), (3, 1, 1, 0));
        assert_eq!((up.after(1, 2), up.after(1, 3)), (Position::Next(5), Position::End));
        let down = sequence(-1, i64::MIN, -1, true);
        assert_eq!(down.after(i64::MIN, 1), Position::Next(-1));
        assert_eq!(down.left(i64::MIN + 4), 5);
        assert_eq!(sequence(1, i64::MIN, i64::MAX, false).after(i64::MAX, 1), Position::End);
    }
}
