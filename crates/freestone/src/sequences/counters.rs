//! The numbers that this process gives.
//!
//! Numbers are reserved in blocks: a commit moves the position of the sequence past a block before the first of its numbers is
//! given. So no number is given twice, whatever happens to the process or to the transaction that asked for it. What is left of
//! a block when the process ends is never given.

use std::collections::HashMap;
use std::sync::Arc;

use freestone_store::{Position, Store, StoreError, WriteTransaction};
use parking_lot::Mutex;

use super::{Sequence, find, names, position, set_position};
use crate::error::{Error, ErrorKind, Result};

/// The numbers of the first block.
const BLOCK: u64 = 32;
/// Blocks double in size up to this one.
const BLOCK_MAX: u64 = 1 << 12;

/// The sequences of a database of which this process gives numbers.
pub(crate) struct Counters {
    store: Arc<Store>,
    blocks: Mutex<HashMap<u64, Arc<Mutex<Block>>>>,
    /// The positions of sequences that open transactions have created, which nobody else sees. They are kept with the
    /// sequences when these are committed.
    new: Mutex<HashMap<u64, Position>>,
}

/// Numbers that are reserved.
#[derive(Default)]
struct Block {
    next: i64,
    left: u64,
    /// The size of the next block.
    size: u64,
}

impl Counters {
    pub fn new(store: Arc<Store>) -> Counters {
        Counters { store, blocks: Mutex::default(), new: Mutex::default() }
    }

    fn block(&self, sequence: &Sequence) -> Arc<Mutex<Block>> {
        self.blocks.lock().entry(sequence.id).or_default().clone()
    }

    /// The next numbers of a sequence.
    ///
    /// # Errors
    /// The sequence has no more numbers, or the database cannot be written.
    pub fn next(&self, name: &str, sequence: &Sequence, count: usize) -> Result<Vec<i64>> {
        let block = self.block(sequence);
        let mut block = block.lock();
        let mut numbers = Vec::with_capacity(count);
        while numbers.len() < count {
            if block.left == 0 {
                self.reserve(name, sequence, &mut block, (count - numbers.len()) as u64)?;
            }
            let taken = block.left.min((count - numbers.len()) as u64);
            for _ in 0..taken {
                numbers.push(block.next);
                // The last number of all has none after it.
                block.next = block.next.wrapping_add(sequence.increment);
            }
            block.left -= taken;
        }
        Ok(numbers)
    }

    fn reserve(&self, name: &str, sequence: &Sequence, block: &mut Block, wanted: u64) -> Result<()> {
        let size = block.size.max(BLOCK);
        let mut reserved = (0, 0);
        self.moved(name, sequence, |position| {
            let first = match position {
                Position::Start => sequence.start,
                Position::Next(first) => first,
                Position::End => {
                    return Err(Error::new(ErrorKind::Type, format!("sequence {name} has no more numbers"))
                        .with_hint("setval() sets it back; CREATE SEQUENCE … CYCLE begins again by itself"));
                }
            };
            let count = sequence.left(first).min(wanted.max(size));
            reserved = (first, count);
            Ok(sequence.after(first, count))
        })?;
        (block.next, block.left) = reserved;
        block.size = (size * 2).min(BLOCK_MAX);
        Ok(())
    }

    /// Sets the number that comes next; after a `value` that counts as given, the one after it.
    ///
    /// # Errors
    /// The value is not one of the sequence, or the database cannot be written.
    pub fn set(&self, name: &str, sequence: &Sequence, value: i64, is_given: bool) -> Result<()> {
        if !(sequence.min..=sequence.max).contains(&value) {
            let Sequence { min, max, .. } = sequence;
            let message = format!("setval: {value} is out of range of sequence {name}: {min} to {max}");
            return Err(Error::new(ErrorKind::Type, message));
        }
        let block = self.block(sequence);
        let mut block = block.lock();
        self.moved(name, sequence, |_| Ok(if is_given { sequence.after(value, 1) } else { Position::Next(value) }))?;
        block.left = 0;
        Ok(())
    }

    /// Forgets the numbers that are reserved: the sequences are others now, or in other positions.
    pub fn forget(&self) {
        self.blocks.lock().clear();
    }

    /// Adds the positions of the sequences that a transaction has created, before it commits.
    pub fn keep_new(&self, transaction: &mut WriteTransaction) -> Result<()> {
        let mut new = self.new.lock();
        if new.is_empty() {
            return Ok(());
        }
        let snapshot = transaction.snapshot();
        for sequence in names(&snapshot).filter_map(|name| find(&snapshot, name)) {
            if let Some(position) = new.remove(&sequence.id) {
                set_position(transaction, &sequence, position)?;
            }
        }
        Ok(())
    }

    /// Commits another position, whatever transactions are open. If the sequence itself is not committed, neither is its
    /// position.
    fn moved(&self, name: &str, sequence: &Sequence, mut to: impl FnMut(Position) -> Result<Position>) -> Result<()> {
        let is_committed = find(&*self.store.snapshot()?, name).is_some_and(|known| known.id == sequence.id);
        if !is_committed {
            let mut new = self.new.lock();
            let position = new.get(&sequence.id).copied().unwrap_or(Position::Start);
            new.insert(sequence.id, to(position)?);
            return Ok(());
        }
        loop {
            let mut transaction = self.store.write()?;
            let snapshot = transaction.snapshot();
            set_position(&mut transaction, sequence, to(position(&snapshot, sequence))?)?;
            match transaction.commit() {
                Ok(_) => return Ok(()),
                // Another process wrote, or the sequence was dropped meanwhile.
                Err(StoreError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
