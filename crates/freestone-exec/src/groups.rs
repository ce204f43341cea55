//! Groups: the distinct keys of rows, numbered as they come.

use std::sync::Arc;

use arrow_buffer::Buffer;

use crate::direct::{Direct, KeyDomain};
use crate::rows::{FrozenRows, Layout, Rows};
use crate::vector::Vector;

/// The word of a row that holds its hash. The words of its key follow.
pub const HASH: usize = 0;

/// A table of groups, found by position where keys have few values, and otherwise by open addressing.
#[derive(Debug)]
pub struct GroupTable {
    direct: Option<Direct>,
    /// Zero: free. Otherwise the high half of a hash, and the number of its group plus one.
    slots: Vec<u64>,
    rows: Rows,
    /// The keys of a batch, and their hashes.
    keys: Rows,
    hashes: Vec<u64>,
    added: Vec<u32>,
    /// Rows with their hashes and entries.
    entries: Vec<(u32, u64, u64)>,
}

/// The share of slots that may be taken: three of four.
const LOAD: (usize, usize) = (3, 4);
const SLOTS_MIN: usize = 1024;
/// The rows that are looked up together.
const FOUND_AT_ONCE: usize = 256;

impl GroupTable {
    /// A table of no groups, whose rows have this layout with one reserved word.
    pub fn new(layout: Arc<Layout>) -> GroupTable {
        GroupTable {
            direct: None,
            slots: vec![0; SLOTS_MIN],
            rows: Rows::new(layout.clone()),
            keys: Rows::borrowing(layout),
            hashes: vec![],
            added: vec![],
            entries: vec![],
        }
    }

    /// The same for at least so many groups, whose texts are in `shared` blocks.
    pub fn merging(layout: Arc<Layout>, groups: usize, shared: Vec<Buffer>) -> GroupTable {
        let mut rows = Rows::borrowing(layout.clone()).with_texts(shared);
        rows.reserve(groups);
        let slots = SLOTS_MIN.max((groups * LOAD.1 / LOAD.0 + 1).next_power_of_two());
        GroupTable { rows, slots: vec![0; slots], ..GroupTable::new(layout) }
    }

    /// The same for keys of which something is known.
    pub fn with_domains(layout: Arc<Layout>, domains: &[KeyDomain]) -> GroupTable {
        GroupTable { direct: Direct::new(domains), ..GroupTable::new(layout) }
    }

    /// Appends the group of each row of a batch to `groups`. New ones are added.
    pub fn find_keys(&mut self, keys: &[Vector], rows: usize, groups: &mut Vec<u32>) {
        // Without keys there is one group, once it was added.
        if keys.is_empty() && !self.rows.is_empty() {
            return groups.extend(std::iter::repeat_n(0, rows));
        }
        if let Some(direct) = &mut self.direct {
            self.added.clear();
            if direct.find(keys, rows, self.rows.len(), groups, &mut self.added) {
                if !self.added.is_empty() {
                    let some: Vec<Vector> = keys.iter().map(|key| key.take(&self.added)).collect();
                    self.rows.append_hashed(&some, self.added.len(), &mut self.hashes);
                }
                return;
            }
            self.find_by_hash();
        }
        let mut batch = std::mem::replace(&mut self.keys, Rows::borrowing(self.rows.layout().clone()));
        batch.clear();
        batch.append_hashed(keys, rows, &mut self.hashes);
        self.find(&batch, 0..rows, groups);
        self.keys = batch;
    }

    /// Appends a group of its own for each row of a batch to `groups`, without looking for equal ones. The table's groups are
    /// not distinct any more: no other rows are looked up before they are taken.
    pub fn append(&mut self, keys: &[Vector], rows: usize, groups: &mut Vec<u32>) {
        self.direct = None;
        let first = self.rows.len() as u32;
        self.rows.append_hashed(keys, rows, &mut self.hashes);
        groups.extend(first..first + rows as u32);
    }

    /// Groups are no longer found, and take no memory for it.
    pub fn leave(&mut self) {
        self.direct = None;
        self.slots = vec![0; SLOTS_MIN];
    }

    /// Groups are found by hashes from now on, also after [`GroupTable::leave`].
    pub fn find_by_hash(&mut self) {
        self.direct = None;
        self.resize(SLOTS_MIN.max((self.rows.len() * 2).next_power_of_two()));
    }

    /// Whether groups are found by position.
    pub fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// The number of groups.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no groups.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The bytes in memory.
    pub fn bytes(&self) -> usize {
        self.slots.len() * 8 + self.rows.bytes() + self.direct.as_ref().map_or(0, Direct::bytes)
    }

    /// The rows of the groups, by their numbers.
    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// The groups as vectors of their keys.
    pub fn freeze(self) -> FrozenRows {
        self.rows.freeze()
    }

    /// The rows of the groups.
    pub fn into_rows(self) -> Rows {
        self.rows
    }

    /// The rows of the groups; the table is empty afterwards, and no longer finds groups by position.
    pub fn take_rows(&mut self) -> Rows {
        self.direct = None;
        self.slots.fill(0);
        let mut next = Rows::new(self.rows.layout().clone());
        // It will grow as large again.
        next.reserve(self.rows.len());
        std::mem::replace(&mut self.rows, next)
    }

    /// Appends the group of each of the given rows of `keys`, which have their hashes, to `groups`. New ones are added.
    pub fn find(&mut self, keys: &Rows, which: impl ExactSizeIterator<Item = usize>, groups: &mut Vec<u32>) {
        if self.direct.is_some() {
            self.find_by_hash();
        }
        groups.reserve(which.len());
        if self.rows.layout().is_flat() {
            match self.rows.layout().width() {
                2 => return self.find_flat::<2>(keys, which, groups),
                3 => return self.find_flat::<3>(keys, which, groups),
                4 => return self.find_flat::<4>(keys, which, groups),
                5 => return self.find_flat::<5>(keys, which, groups),
                6 => return self.find_flat::<6>(keys, which, groups),
                _ => {}
            }
        }
        let mut which = which.peekable();
        while which.peek().is_some() {
            self.find_some(keys, which.by_ref().take(FOUND_AT_ONCE), groups);
        }
    }

    /// The same for rows of `WIDTH` words that are equal if their words are. Groups do not wait for each other: which slot a row has
    /// depends on no other row, and processors look ahead.
    fn find_flat<const WIDTH: usize>(
        &mut self,
        keys: &Rows,
        which: impl Iterator<Item = usize>,
        groups: &mut Vec<u32>,
    ) {
        let rows = keys.words::<WIDTH>();
        for at in which {
            let row = &rows[at];
            let mask = self.slots.len() - 1;
            let mut slot = row[HASH] as usize & mask;
            let group = loop {
                let entry = self.slots[slot];
                if entry == 0 {
                    break self.add(keys, at, row[HASH], slot);
                }
                let group = entry as u32 - 1;
                if entry >> 32 == row[HASH] >> 32 && self.rows.words::<WIDTH>()[group as usize] == *row {
                    break group;
                }
                slot = (slot + 1) & mask;
            };
            groups.push(group);
        }
    }

    /// The same for a few rows. Slots are loaded for all of them, then groups, then their texts: no load waits for another.
    fn find_some(&mut self, keys: &Rows, which: impl Iterator<Item = usize>, groups: &mut Vec<u32>) {
        let mask = self.slots.len() - 1;
        let mut entries = std::mem::take(&mut self.entries);
        entries.clear();
        entries.extend(which.map(|at| {
            let hash = keys.row(at)[HASH];
            (at as u32, hash, self.slots[hash as usize & mask])
        }));
        // Zero: it is not the group of the first slot.
        for (_, hash, entry) in &mut entries {
            let is_tagged = *entry != 0 && *entry >> 32 == *hash >> 32;
            if !is_tagged || self.rows.row(*entry as u32 as usize - 1)[HASH] != *hash {
                *entry = 0;
            }
        }
        let likely = entries.iter().filter(|(_, _, entry)| *entry != 0);
        self.rows.load_texts(likely.map(|(_, _, entry)| *entry as u32 as usize - 1));
        let mut last: Option<(u64, u32)> = None;
        for (at, hash, entry) in &entries {
            let at = *at as usize;
            let is_group = |group: u32| self.rows.equals(group as usize, keys, at, HASH + 1);
            // Rows of one group often follow each other.
            let group = match last {
                Some((before, group)) if before == *hash && is_group(group) => group,
                _ if *entry != 0 && is_group(*entry as u32 - 1) => *entry as u32 - 1,
                _ => self.find_one(keys, at, *hash),
            };
            last = Some((*hash, group));
            groups.push(group);
        }
        self.entries = entries;
    }

    #[inline]
    fn find_one(&mut self, keys: &Rows, at: usize, hash: u64) -> u32 {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let entry = self.slots[slot];
            if entry == 0 {
                return self.add(keys, at, hash, slot);
            }
            if entry >> 32 == hash >> 32 {
                let group = entry as u32 - 1;
                if self.rows.equals(group as usize, keys, at, HASH + 1) {
                    return group;
                }
            }
            slot = (slot + 1) & mask;
        }
    }

    fn add(&mut self, keys: &Rows, at: usize, hash: u64, slot: usize) -> u32 {
        let group = self.rows.len() as u32;
        self.rows.push(keys, at);
        self.slots[slot] = hash >> 32 << 32 | u64::from(group + 1);
        if self.rows.len() * LOAD.1 > self.slots.len() * LOAD.0 {
            self.resize(self.slots.len() * 4);
        }
        group
    }

    /// Makes room for as many slots, which find all groups.
    fn resize(&mut self, len: usize) {
        let mask = len - 1;
        let mut slots = vec![0u64; len];
        for group in 0..self.rows.len() {
            let hash = self.rows.row(group)[HASH];
            let mut slot = hash as usize & mask;
            while slots[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            slots[slot] = hash >> 32 << 32 | (group as u64 + 1);
        }
        self.slots = slots;
    }
}
