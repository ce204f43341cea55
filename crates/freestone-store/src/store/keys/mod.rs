//! Enforcement of keys: no two rows of a table have the same values in the columns of a PRIMARY KEY or UNIQUE.
//!
//! The keys of added rows are checked together, at the end of a statement: among each other, and against all other rows
//! of the table, committed or not, that a commit would leave. Nothing is kept in memory for that. The other rows are
//! found as a query finds them: by zones, by an ordered index where zones are not enough, or by a scan of the key's
//! columns.
//!
//! Before the check ends, the keys are locked until the end of the transaction. Whoever adds the same key waits, and
//! then sees the row or does not. So a key that was checked remains free for its transaction, and a commit need not
//! check it again.

mod references;
mod rows;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

pub use references::is_comparable;
use roaring::RoaringBitmap;
use rows::{KeyColumns, KeyedRow, ReadKeys, common_hashes, rows_with};

use super::key_locks::hashes::Share;
use super::key_locks::{KeyId, KeyUse, Keys};
use super::write::WriteTransaction;
use crate::error::{Result, StoreError};
use crate::scan::Morsel;
use crate::table::{SegmentEntry, Table};

/// Hashes of keys in memory take at most this part of a write's memory.
const MEMORY_SHARE: usize = 8;
/// The number of equal hashes whose keys are compared at a time.
const SUSPECTS: usize = 1024;
/// The bytes of a hash while it is collected and sorted, and of its part of the directory.
const HASH_BYTES: usize = 20;

impl WriteTransaction {
    /// Checks the keys of all rows that were added since the last call. To be called at the end of each statement; a
    /// commit calls it, too. Waits for other transactions that have added or removed one of the keys.
    ///
    /// # Errors
    /// [`StoreError::DuplicateKey`], or see [`StoreError::Conflict`], [`StoreError::Deadlock`] and
    /// [`StoreError::LockTimeout`].
    pub fn check_keys(&mut self) -> Result<()> {
        if !self.added_keys.is_empty() || !self.added_references.is_empty() || !self.removed_rows.is_empty() {
            self.note_check();
        }
        while let Some(((table, at), segments)) = self.added_keys.pop_first() {
            // If it was dropped since, so were its rows.
            if let Ok(table) = self.table_by_id(table) {
                let check = Check::new(self, &table, at, segments)?;
                check.run()?;
            }
        }
        self.check_references()?;
        self.join_own_hot_rows()
    }
}

/// The parts in which the keys of a number of rows are checked, each of which fits the memory.
fn shares(rows: u64, write_bytes: usize) -> impl Iterator<Item = Share> {
    let rows_max = (write_bytes / MEMORY_SHARE / HASH_BYTES).clamp(1 << 10, 1 << 31) as u64;
    let of = rows.div_ceil(rows_max);
    (0..of).map(move |number| Share { number, of })
}

/// A check of one key of a table, for rows in some segments.
struct Check<'t> {
    transaction: &'t WriteTransaction,
    table: &'t Arc<Table>,
    id: KeyId,
    key: KeyColumns,
    added: BTreeSet<u64>,
    threads: usize,
}

impl<'t> Check<'t> {
    fn new(transaction: &'t WriteTransaction, table: &'t Arc<Table>, at: usize, added: BTreeSet<u64>) -> Result<Self> {
        let columns = table.schema.positions(&table.schema.unique_keys[at].columns)?;
        let key = KeyColumns::new(table, columns);
        let threads = transaction.store().options().threads;
        Ok(Check { transaction, table, id: (table.id, at), key, added, threads })
    }

    fn run(&self) -> Result<()> {
        let is_added = |entry: &&SegmentEntry| self.added.contains(&entry.id);
        let rows: u64 = self.table.segments.iter().filter(is_added).map(|entry| entry.live_rows()).sum();
        if rows == 0 {
            return Ok(());
        }
        let shares: Vec<Share> = shares(rows, self.transaction.write_bytes()).collect();
        let is_one = shares.len() == 1;
        if !is_one && self.transaction.is_shared(self.table.id) {
            self.lock(&Keys::All)?;
        }
        for share in shares {
            let is_added = |morsel: &Morsel| self.is_added(self.table, morsel);
            let keys = ReadKeys::read(self.table, &self.key, is_added, share, self.threads)?;
            self.check_among_each_other(&keys)?;
            match self.transaction.is_shared(self.table.id) {
                true => self.check_against_others(&keys, is_one)?,
                false => {
                    self.check_view(self.table, &keys, &HashSet::new())?.map_or(Ok(()), |row| Err(self.twice(&row)))?
                }
            }
        }
        Ok(())
    }

    fn is_added(&self, table: &Table, morsel: &Morsel) -> bool {
        self.added.contains(&table.segments[morsel.segment].id)
    }

    fn check_among_each_other(&self, keys: &ReadKeys) -> Result<()> {
        if keys.repeated.is_empty() {
            return Ok(());
        }
        for hashes in keys.repeated.chunks(SUSPECTS) {
            let hashes = hashes.iter().copied().collect();
            let is_added = |morsel: &Morsel| self.is_added(self.table, morsel);
            let found = rows_with(self.table, &self.key, is_added, &hashes, self.threads)?;
            let twice = found.into_values().filter_map(|rows| {
                let mut seen = HashSet::new();
                rows.into_iter().find(|row| !seen.insert(row.values.clone()))
            });
            if let Some(row) = twice.min_by(|a, b| a.values.cmp(&b.values)) {
                return Err(self.twice(&row));
            }
        }
        Ok(())
    }

    /// Checks against the rows that are there when no other transaction can add one of the keys any more.
    fn check_against_others(&self, keys: &ReadKeys, locks: bool) -> Result<()> {
        let mut checked = HashSet::new();
        let mut is_locked = !locks;
        loop {
            let (sequence, view) = self.transaction.newest_view(self.table.id)?;
            if let Some(row) = self.check_view(&view, keys, &checked)? {
                let (segment, place) = row.place;
                let transactions = &self.transaction.store().transactions;
                let (me, row_alone) = (self.transaction.id(), RoaringBitmap::from_iter([place]));
                if transactions.wait_for_removal(me, segment, &row_alone, self.transaction.waiting())? {
                    // Whoever was changing the row may have removed it.
                    continue;
                }
                return Err(self.twice(&row));
            }
            checked.extend(view.segments.iter().map(SegmentEntry::version));
            if !is_locked {
                self.lock_new(keys)?;
                is_locked = true;
            }
            if self.transaction.store().newest()?.sequence == sequence {
                return Ok(());
            }
        }
    }

    /// Locks those keys that the replaced rows do not have. Nobody else can add the others, because the locked rows are there
    /// until this transaction commits; so rows may refer to them.
    fn lock_new(&self, keys: &ReadKeys) -> Result<()> {
        let kept = match self.transaction.removed(self.table) {
            Some(removed) => common_hashes(&removed, &self.key, |_| true, keys, self.threads)?,
            None => HashSet::new(),
        };
        let new = Keys::Some(keys.hashes_without(&kept));
        if new.is_empty() { Ok(()) } else { self.lock(&new).map(drop) }
    }

    fn lock(&self, keys: &Keys) -> Result<bool> {
        let (me, waiting) = (self.transaction.id(), self.transaction.waiting());
        let transactions = &self.transaction.store().transactions;
        transactions.lock_keys(me, self.id, KeyUse::Changed, keys, &self.table.name, waiting)
    }

    /// A row among the other ones that has one of the keys. Segments that were `checked` before have none.
    fn check_view(
        &self,
        view: &Arc<Table>,
        keys: &ReadKeys,
        checked: &HashSet<(u64, u32)>,
    ) -> Result<Option<KeyedRow>> {
        let is_other = |morsel: &Morsel| {
            let segment = &view.segments[morsel.segment];
            !self.added.contains(&segment.id) && !checked.contains(&segment.version())
        };
        let mut common: Vec<u64> = common_hashes(view, &self.key, is_other, keys, self.threads)?.into_iter().collect();
        common.sort_unstable();
        for hashes in common.chunks(SUSPECTS) {
            let hashes = hashes.iter().copied().collect();
            let own = rows_with(view, &self.key, |morsel| self.is_added(view, morsel), &hashes, self.threads)?;
            let others = rows_with(view, &self.key, is_other, &hashes, self.threads)?;
            if let Some(row) = same_key(&own, others) {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    fn twice(&self, row: &KeyedRow) -> StoreError {
        let key = &self.table.schema.unique_keys[self.id.1];
        StoreError::DuplicateKey {
            table: self.table.name.clone(),
            constraint: key.name.clone(),
            columns: key.columns.join(", "),
            key: row.shown.clone(),
        }
    }
}

/// A row of `others` with the key of one of `own`.
fn same_key(own: &HashMap<u64, Vec<KeyedRow>>, others: HashMap<u64, Vec<KeyedRow>>) -> Option<KeyedRow> {
    let is_own =
        |hash: &u64, row: &KeyedRow| own.get(hash).is_some_and(|rows| rows.iter().any(|own| own.values == row.values));
    let same = others.into_iter().flat_map(|(hash, rows)| rows.into_iter().filter(move |row| is_own(&hash, row)));
    same.min_by(|a, b| a.values.cmp(&b.values))
}
