//! Transactions: rows are written where nobody looks, and become rows by one word, or by the redo slot.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;

use super::super::link::seal;
use super::super::pool::UnitKind;
use super::super::tree::Move;
use super::journal::{CHANGE_MAX, Change, Journal};
use super::{BlockState, Entries, INTENTS, PTable, Place, Prepared, Writer, place, places_of, slot_of, unit_of};
use crate::column::{ColumnData, Physical};
use crate::error::{Result, StoreError};

/// Places of rows, with the prefixes of their keys.
type PlacedRows = Vec<(Place, u64)>;

/// A transaction of the one writer. Nothing of it remains unless it is committed.
#[derive(Debug)]
pub struct Transaction<'a> {
    table: &'a PTable,
    writer: MutexGuard<'a, Writer>,
}

impl PTable {
    /// Begins a transaction. Waits until the one before has ended.
    pub fn begin(&self) -> Transaction<'_> {
        Transaction { table: self, writer: self.writer.lock() }
    }

    /// Adds one row durably.
    ///
    /// # Errors
    /// Those of [`Transaction::insert`].
    pub fn insert(&self, columns: &[ColumnData], row: usize) -> Result<()> {
        let mut transaction = self.begin();
        transaction.insert(columns, row)?;
        transaction.commit()
    }
}

impl Transaction<'_> {
    /// Adds a row, whose columns have the types of the table's.
    ///
    /// # Errors
    /// A column is NULL that must not be, the row does not fit into a block, or the pool is full.
    pub fn insert(&mut self, columns: &[ColumnData], row: usize) -> Result<()> {
        let table = self.table;
        table.check_row(columns, row)?;
        let strings = table.string_bytes(columns, row);
        let (key, prefix) = (table.clusters.key(columns, row), table.prefix(columns, row));
        if !table.key.is_empty() {
            table.tree.prefetch(prefix);
        }
        let (unit, slot) = loop {
            let unit = table.block_for(key);
            table.block(unit).prefetch_for_row();
            match table.free_slot(&mut self.writer, unit, strings)? {
                Some(slot) => break (unit, slot),
                None => table.make_room(&mut self.writer, unit, key, strings)?,
            }
        };
        let writer = &mut *self.writer;
        let Some(state) = writer.blocks[unit as usize].as_mut() else { return Err(StoreError::invalid("no block")) };
        let block = table.block(unit);
        let structure = table.structure.read();
        if state.is_checked {
            table.verify_once(&structure, unit)?;
            block.drop_check();
            state.is_checked = false;
        }
        block.prefetch_row(slot, 0..table.geometry.columns.len());
        let version = structure.version(unit).filter(|_| state.has_freed);
        if let Some(version) = version {
            version.fetch_add(1, Ordering::AcqRel);
        }
        state.heap_top = block.write_row(slot, columns, row, state.heap_top);
        if let Some(version) = version {
            version.fetch_add(1, Ordering::AcqRel);
        }
        crate::bitmap::set(&mut state.taken, slot);
        writer.inserted.insert(place(unit, slot), prefix);
        writer.versions.touch(unit, true);
        Ok(())
    }

    /// Removes the row at a place. Places are those of reads since the transaction began.
    ///
    /// # Errors
    /// There is no such row.
    pub fn delete(&mut self, at: Place) -> Result<()> {
        let table = self.table;
        let is_row = table.is_row(at) && !self.writer.deleted.contains_key(&at);
        if !is_row {
            return Err(StoreError::invalid(format!("there is no row at place {at:#x}")));
        }
        let prefix = table.prefix_at(at)?;
        self.writer.deleted.insert(at, prefix);
        Ok(())
    }

    /// Replaces the row at a place.
    ///
    /// # Errors
    /// Those of [`insert`](Self::insert) and [`delete`](Self::delete).
    pub fn update(&mut self, at: Place, columns: &[ColumnData], row: usize) -> Result<()> {
        self.delete(at)?;
        self.insert(columns, row)
    }

    /// Makes the changes durable, all together.
    ///
    /// # Errors
    /// The pool is full; then nothing has changed.
    pub fn commit(mut self) -> Result<()> {
        let (table, writer) = (self.table, &mut *self.writer);
        let (inserted, deleted) = writer.changes();
        if inserted.is_empty() && deleted.is_empty() {
            return Ok(());
        }
        let words = table.validity_words(&inserted, &deleted);
        if words.len() == 1 && inserted.len() + deleted.len() <= 2 {
            table.bury(writer, &deleted);
            table.commit_word(words[0], &inserted, &deleted)?;
        } else {
            let places = inserted.iter().chain(&deleted).map(|(at, _)| *at).collect();
            let change = Change { words, places, sequence: None };
            table.commit_change(writer, &change, &inserted, &deleted, |_| ())?;
        }
        table.changed(writer, &inserted, &deleted);
        Ok(())
    }

    /// Makes the changes durable, but leaves it to a log whether they are committed: they are if it has the commit with
    /// this sequence. [`PTable::settle`] says so. Until then no other transaction may begin.
    ///
    /// # Errors
    /// The pool is full; then nothing has changed.
    pub fn prepare(mut self, sequence: u64) -> Result<()> {
        let (table, writer) = (self.table, &mut *self.writer);
        let (inserted, deleted) = writer.changes();
        let words = table.validity_words(&inserted, &deleted);
        let places = inserted.iter().chain(&deleted).map(|(at, _)| *at).collect();
        let change = Change { words, places, sequence: Some(sequence) };
        let mut entries = table.entries(&inserted, &deleted);
        table.prepare_change(writer, &change, &mut entries)?;
        table.region().fence();
        writer.prepared = Some(Prepared { change, inserted, deleted, entries });
        Ok(())
    }
}

impl Transaction<'_> {
    /// The rows that are in another place since blocks were published.
    pub fn moves(&self) -> HashMap<Place, Place> {
        self.writer.versions.moved.iter().copied().collect()
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.writer.inserted.is_empty() && self.writer.deleted.is_empty()
    }
}

impl Writer {
    /// The rows that the transaction under way adds and removes.
    fn changes(&self) -> (PlacedRows, PlacedRows) {
        let list = |places: &BTreeMap<Place, u64>| places.iter().map(|(at, prefix)| (*at, *prefix)).collect();
        (list(&self.inserted), list(&self.deleted))
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // Slots without their bits are free. What was written to them may be overwritten.
        let writer = &mut *self.writer;
        for at in std::mem::take(&mut writer.inserted).into_keys() {
            if let Some(state) = writer.block(unit_of(at)) {
                state.taken.fill(u64::MAX);
            }
        }
        writer.clear();
    }
}

impl PTable {
    /// Commits the transaction that was prepared, or takes it back. Without one, nothing is to do.
    ///
    /// # Errors
    /// A leaf is damaged.
    pub fn settle(&self, is_committed: bool) -> Result<()> {
        let mut writer = self.writer.lock();
        let writer = &mut *writer;
        let Some(Prepared { change, inserted, deleted, entries }) = writer.prepared.take() else { return Ok(()) };
        if is_committed {
            self.store_change(writer, &change, &deleted, &entries, |_| ())?;
            self.changed(writer, &inserted, &deleted);
            return Ok(());
        }
        self.take_entries(&entries.added)?;
        self.region().fence();
        writer.journal.clear(self.region());
        Ok(())
    }

    /// The commit of a log for which a prepared transaction waits.
    pub fn waits_for(&self) -> Option<u64> {
        self.writer.lock().prepared.as_ref().and_then(|prepared| prepared.change.sequence)
    }

    /// Notes what a transaction has changed.
    fn changed(&self, writer: &mut Writer, inserted: &[(Place, u64)], deleted: &[(Place, u64)]) {
        self.rows.fetch_add(inserted.len() as u64, Ordering::Relaxed);
        self.rows.fetch_sub(deleted.len() as u64, Ordering::Relaxed);
        writer.clear();
        self.check_full(writer, inserted);
        for of_block in deleted.chunk_by(|(a, _), (b, _)| unit_of(*a) == unit_of(*b)) {
            let unit = unit_of(of_block[0].0);
            let is_free = !writer.versions.are_kept() && !self.is_foreign(unit);
            if let Some(state) = writer.block(unit) {
                state.has_freed = true;
                let free = of_block.iter().filter(|_| is_free);
                free.for_each(|(at, _)| crate::bitmap::clear(&mut state.taken, slot_of(*at)));
            }
            writer.versions.touch(unit, false);
            self.remove_if_empty(writer, unit);
        }
    }

    /// The order prefix of a row's key; 0 without one.
    pub(super) fn prefix(&self, columns: &[ColumnData], row: usize) -> u64 {
        self.key.first().map_or(0, |key| columns[*key].order_prefix(row))
    }

    /// Writes entries of the tree that nobody sees before it is settled.
    fn add_entries(&self, rows: &[(Place, u64)]) -> Result<()> {
        if self.key.is_empty() {
            return Ok(());
        }
        rows.iter().try_for_each(|(at, prefix)| self.tree.add((*prefix, *at)))
    }

    /// Removes entries of the tree; durable after the next fence.
    fn take_entries(&self, rows: &[(Place, u64)]) -> Result<()> {
        if self.key.is_empty() {
            return Ok(());
        }
        rows.iter().try_for_each(|(at, prefix)| self.tree.take((*prefix, *at)).map(drop))
    }

    /// Commits a change of one word, with one row or two.
    fn commit_word(
        &self,
        (word, value): (u64, u64),
        inserted: &[(Place, u64)],
        deleted: &[(Place, u64)],
    ) -> Result<()> {
        let region = self.region();
        let mut places = inserted.iter().chain(deleted).map(|(at, _)| seal(*at));
        let intents = [places.next().unwrap_or(0), places.next().unwrap_or(0)];
        region.store(self.head + INTENTS, intents[0]);
        region.store(self.head + INTENTS + 8, intents[1]);
        region.flush(self.head + INTENTS, 16);
        let entries = self.entries(inserted, deleted);
        let added = self.add_entries(&entries.added);
        if added.is_err() {
            self.tree.forget();
            return added;
        }
        region.fence();
        // Readers by key must see the old row or the new one of an update, not none.
        let readers = (!deleted.is_empty()).then(|| self.structure.write());
        region.store(word, value);
        region.flush(word, 8);
        self.tree.settle();
        self.move_entries(&entries.moved)?;
        drop(readers);
        self.take_entries(&entries.removed)?;
        region.fence();
        Ok(())
    }

    /// Commits a change of several words: those of `change`, and the tree's entries of rows. `publish` runs with them,
    /// while no reader looks at the table.
    pub(super) fn commit_change(
        &self,
        writer: &mut Writer,
        change: &Change,
        inserted: &[(Place, u64)],
        deleted: &[(Place, u64)],
        publish: impl FnOnce(&mut super::Structure),
    ) -> Result<()> {
        let mut entries = self.entries(inserted, deleted);
        self.prepare_change(writer, change, &mut entries)?;
        writer.journal.commit(self.region(), change);
        self.region().fence();
        self.store_change(writer, change, deleted, &entries, publish)
    }

    /// What a change does to the tree. A row that is replaced by one with the same key keeps its entry, if that can be.
    fn entries(&self, inserted: &[(Place, u64)], deleted: &[(Place, u64)]) -> Entries {
        if self.key.is_empty() {
            return Entries::default();
        }
        let by_prefix = |rows: &[(Place, u64)]| {
            let mut rows: Vec<(Place, u64)> = rows.to_vec();
            rows.sort_unstable_by_key(|(at, prefix)| (*prefix, *at));
            rows
        };
        let (inserted, deleted) = (by_prefix(inserted), by_prefix(deleted));
        let mut entries = Entries::default();
        let (mut old, mut new) = (deleted.into_iter().peekable(), inserted.into_iter().peekable());
        while let (Some((from, of_old)), Some((to, of_new))) = (old.peek().copied(), new.peek().copied()) {
            match of_old.cmp(&of_new) {
                std::cmp::Ordering::Less => entries.removed.extend(old.next()),
                std::cmp::Ordering::Greater => entries.added.extend(new.next()),
                std::cmp::Ordering::Equal if self.tree.is_movable(of_old, from, to) => {
                    entries.moved.push((of_old, from, to));
                    old.next();
                    new.next();
                }
                std::cmp::Ordering::Equal => {
                    entries.removed.extend(old.next());
                    entries.added.extend(new.next());
                }
            }
        }
        entries.removed.extend(old);
        entries.added.extend(new);
        entries
    }

    /// The first phase of a change: the redo slot and the entries of new rows. Durable after the next fence.
    fn prepare_change(&self, writer: &mut Writer, change: &Change, entries: &mut Entries) -> Result<()> {
        let region = self.region();
        self.reserve(&mut writer.journal, change)?;
        writer.journal.write(region, change);
        if entries.added.is_empty() && change.sequence.is_none() {
            return Ok(());
        }
        writer.journal.prepare(region, change);
        let mut result = self.add_entries(&entries.added);
        while result.is_ok() {
            // Leaves may have been split, so that some entries cannot stay where they are any more.
            let is_movable = |(prefix, from, to): &Move| self.tree.is_movable(*prefix, *from, *to);
            let (movable, others): (Vec<_>, Vec<_>) =
                std::mem::take(&mut entries.moved).into_iter().partition(is_movable);
            entries.moved = movable;
            if others.is_empty() {
                break;
            }
            let added: PlacedRows = others.iter().map(|(prefix, _, to)| (*to, *prefix)).collect();
            entries.removed.extend(others.iter().map(|(prefix, from, _)| (*from, *prefix)));
            result = self.add_entries(&added);
            entries.added.extend(added);
        }
        region.fence();
        self.tree.settle();
        if result.is_err() {
            self.take_entries(&entries.added)?;
            region.fence();
            writer.journal.clear(region);
        }
        result
    }

    /// The last phase of a change that is committed.
    fn store_change(
        &self,
        writer: &mut Writer,
        change: &Change,
        deleted: &[(Place, u64)],
        entries: &Entries,
        publish: impl FnOnce(&mut super::Structure),
    ) -> Result<()> {
        let region = self.region();
        self.bury(writer, deleted);
        let mut structure = self.structure.write();
        for (word, value) in &change.words {
            region.store(*word, *value);
            region.flush(*word, 8);
        }
        self.move_entries(&entries.moved)?;
        self.take_entries(&entries.removed)?;
        region.fence();
        publish(&mut structure);
        drop(structure);
        writer.journal.clear(region);
        Ok(())
    }

    /// Gives entries of the tree their new places; durable after the next fence.
    fn move_entries(&self, moved: &[Move]) -> Result<()> {
        self.tree.move_entries(moved, |(prefix, _, to)| {
            self.tree.add((*prefix, *to))?;
            self.region().fence();
            self.tree.settle();
            Ok(())
        })
    }

    /// Makes room in the redo slot.
    fn reserve(&self, journal: &mut Journal, change: &Change) -> Result<()> {
        if change.words.len().max(change.places.len()) > CHANGE_MAX {
            return Err(StoreError::invalid(format!(
                "a transaction changes at most {CHANGE_MAX} rows in persistent memory; divide it"
            )));
        }
        while journal.capacity() < Journal::words_of(change) {
            let unit = self.pool.claim(UnitKind::Redo, self.id, (journal.extensions(), 0))?;
            journal.extend(self.pool.content(unit));
        }
        Ok(())
    }

    /// The validity words that change, with their new values.
    fn validity_words(&self, inserted: &[(Place, u64)], deleted: &[(Place, u64)]) -> Vec<(u64, u64)> {
        let mut words: BTreeMap<u64, u64> = BTreeMap::new();
        let loaded = self.region().words();
        let mut change = |at: Place, is_row: bool| {
            let (word, bit) = self.geometry.bit(slot_of(at));
            let offset = self.pool.offset(unit_of(at)) + word;
            let value = words.entry(offset).or_insert_with(|| loaded.load(offset));
            *value = if is_row { *value | bit } else { *value & !bit };
        };
        inserted.iter().for_each(|(at, _)| change(*at, true));
        deleted.iter().for_each(|(at, _)| change(*at, false));
        words.into_iter().collect()
    }

    fn check_row(&self, columns: &[ColumnData], row: usize) -> Result<()> {
        self.check_kinds(columns, 0..self.schema.columns.len())?;
        for ((column, place), data) in self.schema.columns.iter().zip(&self.geometry.columns).zip(columns) {
            if !column.nullable && !data.is_valid(row) {
                return Err(StoreError::Constraint(format!("column {} must not be NULL", column.name)));
            }
            if let Physical::Int(values) = &data.values
                && data.is_valid(row)
                && !place.holds(values[row])
            {
                let message = format!("{} is out of the range of column {}", values[row], column.name);
                return Err(StoreError::Constraint(message));
            }
        }
        let (strings, room) = (self.string_bytes(columns, row), self.geometry.bytes - self.geometry.heap);
        if strings > room {
            return Err(StoreError::Constraint(format!(
                "a row with {strings} bytes of strings does not fit into a block, which has room for {room}; choose a \
                 larger page_size"
            )));
        }
        Ok(())
    }

    /// Checks that `data` are values of the given columns.
    pub(super) fn check_kinds(&self, data: &[ColumnData], columns: impl ExactSizeIterator<Item = usize>) -> Result<()> {
        let expected = columns.len();
        let kinds = columns.zip(data).all(|(column, data)| data.values().kind() == self.geometry.columns[column].kind);
        if data.len() != expected || !kinds {
            let message = format!("{} columns of other types than the {expected} that the table has", data.len());
            return Err(StoreError::Constraint(message));
        }
        Ok(())
    }

    fn string_bytes(&self, columns: &[ColumnData], row: usize) -> u64 {
        let len = |data: &ColumnData| match &data.values {
            Physical::Bytes { .. } if data.is_valid(row) => data.bytes(row).len() as u64,
            _ => 0,
        };
        columns.iter().map(len).sum()
    }

    /// The last block for a key.
    pub(super) fn block_for(&self, key: u64) -> u64 {
        let structure = self.structure.read();
        let at = structure.blocks.floor((key, u64::MAX)).expect("the first block begins with the smallest key");
        structure.blocks.get(at).1
    }

    /// The free space of a block, which is found out when it is not known.
    pub(super) fn block_state<'a>(&self, writer: &'a mut Writer, unit: u64) -> Result<&'a mut BlockState> {
        if writer.block(unit).is_none() {
            let block = self.block(unit);
            let taken = self.taken(writer, unit);
            let heap_top = self.heap_top(unit, &taken)?;
            let state = BlockState { heap_top, taken, has_freed: true, is_checked: block.has_check() };
            writer.set_block(unit, Some(state));
        }
        writer.block(unit).ok_or_else(|| StoreError::invalid("the block's free space is not known"))
    }

    /// The slots that may not be written.
    fn taken(&self, writer: &Writer, unit: u64) -> Vec<u64> {
        let block = self.block(unit);
        let mut taken = self.protected(&writer.versions, unit);
        taken.iter_mut().enumerate().for_each(|(at, word)| *word |= block.validity(at));
        let rows = writer.inserted.range(places_of(unit)).map(|(at, _)| slot_of(*at));
        rows.for_each(|slot| crate::bitmap::set(&mut taken, slot));
        taken
    }

    /// A slot without a row in a block that also has room for strings of so many bytes. If the transaction removes a row of
    /// the block, preferably one whose validity bit is in the same word: then one word commits both.
    fn free_slot(&self, writer: &mut Writer, unit: u64, strings: u64) -> Result<Option<usize>> {
        let least = self.geometry.heap + strings;
        let removed = writer.deleted.range(places_of(unit)).next().map(|(at, _)| slot_of(*at) / 64);
        let state = self.block_state(writer, unit)?;
        if state.heap_top < least {
            return Ok(None);
        }
        if let Some(at) = removed {
            let slot = at * 64 + state.taken[at].trailing_ones() as usize;
            if slot < self.geometry.slots.min(at * 64 + 64) {
                return Ok(Some(slot));
            }
        }
        if let Some(slot) = first_free(&state.taken, self.geometry.slots) {
            return Ok(Some(slot));
        }
        // Rows may have been removed since, and snapshots ended.
        let taken = self.taken(writer, unit);
        let slot = first_free(&taken, self.geometry.slots);
        self.block_state(writer, unit)?.taken = taken;
        Ok(slot)
    }

    /// Whether a committed row is at a place.
    fn is_row(&self, at: Place) -> bool {
        let is_block = self.structure.read().version(unit_of(at)).is_some();
        is_block && slot_of(at) < self.geometry.slots && self.block(unit_of(at)).is_valid(slot_of(at))
    }

    /// The order prefix of the key in a slot.
    pub(super) fn prefix_at(&self, at: Place) -> Result<u64> {
        let Some(key) = self.key.first() else { return Ok(0) };
        let mut data = ColumnData::new(self.geometry.columns[*key].kind);
        self.block(unit_of(at)).append(*key, &[slot_of(at)], &mut data)?;
        Ok(data.order_prefix(0))
    }
}

/// The first of `slots` bits that is not set.
fn first_free(taken: &[u64], slots: usize) -> Option<usize> {
    taken.iter().enumerate().find_map(|(at, word)| {
        let slot = at * 64 + word.trailing_ones() as usize;
        (slot < slots.min(at * 64 + 64)).then_some(slot)
    })
}
