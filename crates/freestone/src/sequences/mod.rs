//! Sequences: numbers that are given once, to whichever session asks first.
//!
//! A sequence is kept among the views of the database, as schemas and macros are, under a name that users cannot use.
//! Its position, up to which numbers may have been given, is an entry of its own, because it changes with each block of
//! numbers and independently of transactions. The position belongs to the number of the sequence, which no other sequence gets: so a
//! sequence that is dropped and created again begins at its start.

mod counters;
mod functions;

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use datafusion::arrow::datatypes::DataType;
use freestone_store::{Snapshot, WriteTransaction};

pub(crate) use counters::Counters;
pub(crate) use functions::{MayWrite, SessionSequences, catalog_name, named_by, named_in, register};

use crate::error::{Error, ErrorKind, Result};
use crate::internal_names::{is_temporary, shown};

const SEQUENCE: &str = "freestone$sequence:";
const POSITION: &str = "freestone$position:";
/// The text of the position of a sequence that has given its last number.
const END: &str = "end";

/// A sequence as it was declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sequence {
    /// Which no other sequence has.
    pub id: u64,
    pub start: i64,
    /// Not 0.
    pub increment: i64,
    pub min: i64,
    pub max: i64,
    pub cycle: bool,
}

/// Where a sequence goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    Next(i64),
    /// All numbers were given.
    End,
}

impl Sequence {
    fn text(&self) -> String {
        let Sequence { id, start, increment, min, max, cycle } = self;
        format!("{id} {start} {increment} {min} {max} {cycle}")
    }

    fn parse(text: &str) -> Option<Sequence> {
        let mut parts = text.split(' ');
        let id = parts.next()?.parse().ok()?;
        let mut number = || parts.next()?.parse().ok();
        let (start, increment, min, max) = (number()?, number()?, number()?, number()?);
        let cycle = parts.next()?.parse().ok()?;
        (increment != 0).then_some(Sequence { id, start, increment, min, max, cycle })
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
    Sequence::parse(snapshot.views().get(&format!("{SEQUENCE}{name}"))?)
}

/// The names of all sequences.
pub(crate) fn names(snapshot: &Snapshot) -> impl Iterator<Item = &str> {
    snapshot.views().keys().filter_map(|name| name.strip_prefix(SEQUENCE))
}

/// The error for a name that no sequence has.
pub(crate) fn missing(snapshot: &Snapshot, name: &str) -> Error {
    Error::not_found("sequence", name, names(snapshot))
}

/// The name, or the name with a number if a table, view or sequence has it.
pub(crate) fn free_name(snapshot: &Snapshot, name: &str) -> String {
    let numbered = (1..).map(|number| format!("{name}{number}"));
    let is_free = |name: &String| check_free(snapshot, name).is_ok();
    std::iter::once(name.to_owned()).chain(numbered).find(is_free).unwrap_or_default()
}

/// Refuses a name that a table, view or sequence has.
pub(crate) fn check_free(snapshot: &Snapshot, name: &str) -> Result<()> {
    if snapshot.table(name).is_some() || snapshot.views().contains_key(name) {
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

/// Adds a sequence, whose name is free. The sequence gets a number of its own.
pub(crate) fn create(transaction: &mut WriteTransaction, name: &str, sequence: Sequence) -> Result<()> {
    let sequence = Sequence { id: new_id(), ..sequence };
    Ok(transaction.create_view(&format!("{SEQUENCE}{name}"), &sequence.text())?)
}

/// Removes a sequence.
pub(crate) fn drop(transaction: &mut WriteTransaction, name: &str) -> Result<()> {
    let snapshot = transaction.snapshot();
    let Some(sequence) = find(&snapshot, name) else { return Err(missing(&snapshot, name)) };
    transaction.drop_view(&format!("{SEQUENCE}{name}"))?;
    let position = position_name(sequence.id);
    if snapshot.views().contains_key(&position) {
        transaction.drop_view(&position)?;
    }
    Ok(())
}

/// Lets a sequence begin again, once the transaction commits.
pub(crate) fn restart(transaction: &mut WriteTransaction, name: &str) -> Result<()> {
    let snapshot = transaction.snapshot();
    let Some(sequence) = find(&snapshot, name) else { return Ok(()) };
    drop(transaction, name)?;
    create(transaction, name, sequence)
}

fn position_name(id: u64) -> String {
    format!("{POSITION}{id}")
}

/// Where a sequence goes on, as committed.
fn position(snapshot: &Snapshot, sequence: &Sequence) -> Position {
    match snapshot.views().get(&position_name(sequence.id)) {
        None => Position::Next(sequence.start),
        Some(text) => text.parse().map_or(Position::End, Position::Next),
    }
}

/// The last number that may have been given; `None` if there is none.
fn last_reserved(snapshot: &Snapshot, sequence: &Sequence) -> Option<i64> {
    snapshot.views().get(&position_name(sequence.id))?;
    match position(snapshot, sequence) {
        Position::Next(next) => next.checked_sub(sequence.increment),
        Position::End => Some(if sequence.increment > 0 { sequence.max } else { sequence.min }),
    }
}

/// The value and the third argument with which `setval` brings a sequence to its position; `None` at its start.
pub(crate) fn setval_arguments(snapshot: &Snapshot, sequence: &Sequence) -> Option<(i64, bool)> {
    snapshot.views().get(&position_name(sequence.id))?;
    Some(match position(snapshot, sequence) {
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
    let name = position_name(sequence.id);
    if transaction.snapshot().views().contains_key(&name) {
        transaction.drop_view(&name)?;
    }
    let text = match position {
        Position::Next(next) => next.to_string(),
        Position::End => END.to_owned(),
    };
    Ok(transaction.create_view(&name, &text)?)
}

/// A number that no sequence has: the time, or one more than the last.
fn new_id() -> u64 {
    static LAST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    let next = |last: u64| Some(now.max(last + 1));
    let order = std::sync::atomic::Ordering::Relaxed;
    let last = LAST.fetch_update(order, order, next).unwrap_or_default();
    now.max(last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(increment: i64, min: i64, max: i64, cycle: bool) -> Sequence {
        Sequence { id: 7, start: 1, increment, min, max, cycle }
    }

    #[test]
    fn a_sequence_is_kept_as_text() {
        let all = sequence(-3, i64::MIN, i64::MAX, true);
        assert_eq!(Sequence::parse(&all.text()), Some(all));
        assert_eq!(Sequence::parse("1 1 0 1 1 false"), None);
        assert_eq!(Sequence::parse(""), None);
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

    #[test]
    fn ids_differ() {
        let ids: std::collections::HashSet<u64> = (0..1000).map(|_| new_id()).collect();
        assert_eq!(ids.len(), 1000);
    }
}
