//! The redo slot of a table: what a change of several words is made of, written before any of them.
//!
//! A change goes through two phases. In the first, the places that it touches are known, so that entries of the tree
//! that a crash left for rows that do not exist are found; a change that adds no entries needs no such phase. From the
//! second on, the change is committed: its words are stored, again by every opening until the slot is empty.

use crate::error::Result;
use crate::media::region::Region;
use crate::page::checksum;
use crate::persistent::damaged;
use crate::persistent::link::{seal, unseal};

/// A change of several words.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Change {
    /// Offsets with the values to store.
    pub words: Vec<(u64, u64)>,
    /// The places of rows that the change adds or removes.
    pub places: Vec<u64>,
    /// The commit of a log without which the change is none.
    pub sequence: Option<u64>,
}

/// How far a change has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Nothing has changed yet.
    Prepared = 1,
    /// The words are to be stored.
    Committed = 2,
    /// Nothing has changed yet. If a log has the commit, the words are to be stored.
    Waiting = 3,
}

/// The most words or places of one change.
pub const CHANGE_MAX: usize = (1 << 23) - 1;

/// Where a table's redo slot is.
#[derive(Debug)]
pub struct Journal {
    /// The offset of the state word.
    state: u64,
    /// Ranges of the region for the content: the table's own and those of further units.
    areas: Vec<std::ops::Range<u64>>,
}

impl Journal {
    pub fn new(state: u64, areas: Vec<std::ops::Range<u64>>) -> Journal {
        Journal { state, areas }
    }

    /// The words for which there is room.
    pub fn capacity(&self) -> u64 {
        self.areas.iter().map(|area| (area.end - area.start) / 8).sum()
    }

    /// The words that a change needs.
    pub fn words_of(change: &Change) -> u64 {
        1 + change.words.len() as u64 * 2 + change.places.len() as u64 + u64::from(change.sequence.is_some())
    }

    /// The number of units that have given more room.
    pub fn extensions(&self) -> u64 {
        self.areas.len() as u64 - 1
    }

    /// More room.
    pub fn extend(&mut self, area: std::ops::Range<u64>) {
        self.areas.push(area);
    }

    /// The offset of a word of the content.
    fn offset(&self, mut at: u64) -> Option<u64> {
        for area in &self.areas {
            let words = (area.end - area.start) / 8;
            if at < words {
                return Some(area.start + at * 8);
            }
            at -= words;
        }
        None
    }

    /// Writes a change, for which there is room, durably.
    pub fn write(&self, region: &dyn Region, change: &Change) {
        let pairs = change.words.iter().flat_map(|(offset, value)| [*offset, *value]);
        let content: Vec<u64> = pairs.chain(change.places.iter().copied()).chain(change.sequence).collect();
        let check = check_of(&content);
        for (at, word) in [check].iter().chain(&content).enumerate() {
            let offset = self.offset(at as u64).expect("the caller made room");
            region.store(offset, *word);
            if (offset + 8).is_multiple_of(64) || at == content.len() || self.offset(at as u64 + 1) != Some(offset + 8)
            {
                region.flush(offset, 8);
            }
        }
        region.fence();
    }

    /// Begins the first phase of the change that was written. Durable after the next fence.
    pub fn prepare(&self, region: &dyn Region, change: &Change) {
        let is_waiting = change.sequence.is_some();
        self.set(region, change, if is_waiting { Phase::Waiting } else { Phase::Prepared });
    }

    /// Commits the change that was written. Durable after the next fence.
    pub fn commit(&self, region: &dyn Region, change: &Change) {
        self.set(region, change, Phase::Committed);
    }

    fn set(&self, region: &dyn Region, change: &Change, phase: Phase) {
        let (words, places) = (change.words.len() as u64, change.places.len() as u64);
        region.store(self.state, seal((phase as u64) << 46 | words << 23 | places));
        region.flush(self.state, 8);
    }

    /// Ends the change, durably.
    pub fn clear(&self, region: &dyn Region) {
        region.store(self.state, 0);
        region.flush(self.state, 8);
        region.fence();
    }

    /// The change that a crash interrupted.
    pub fn read(&self, region: &dyn Region) -> Result<Option<(Phase, Change)>> {
        let words = region.words();
        let wrong = |reason: &str| Err(damaged(region, self.state, reason));
        let state = match unseal(words.load(self.state)) {
            Some(0) => return Ok(None),
            Some(state) => state,
            None => return wrong("the redo slot's state is damaged"),
        };
        let phase = match state >> 46 {
            1 => Phase::Prepared,
            2 => Phase::Committed,
            3 => Phase::Waiting,
            _ => return wrong("the redo slot is in an unknown phase"),
        };
        let (count, places) = (state >> 23 & CHANGE_MAX as u64, state & CHANGE_MAX as u64);
        let is_waiting = phase == Phase::Waiting;
        let len = count * 2 + places + u64::from(is_waiting);
        if len + 1 > self.capacity() {
            return wrong("the redo slot says that it holds more than it has room for");
        }
        let content: Vec<u64> = (0..=len).filter_map(|at| self.offset(at)).map(|at| words.load(at)).collect();
        let (check, content) = (content[0], &content[1..]);
        if check != check_of(content) {
            return wrong("the redo slot's checksum is wrong");
        }
        let (pairs, rest) = content.split_at(count as usize * 2);
        let (places, sequence) = rest.split_at(places as usize);
        let pairs = pairs.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        let change = Change { words: pairs, places: places.to_vec(), sequence: sequence.first().copied() };
        if change.words.iter().any(|(offset, _)| offset % 8 != 0 || *offset >= words.len()) {
            return wrong("the redo slot has a word outside the pool");
        }
        Ok(Some((phase, change)))
    }
}

fn check_of(content: &[u64]) -> u64 {
    let bytes: Vec<u8> = content.iter().flat_map(|word| word.to_le_bytes()).collect();
    checksum(&bytes).into()
}
