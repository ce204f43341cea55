//! Keys, checked again. Within a process, a key that was checked is locked until its transaction ends. Other processes do
//! not see these locks: so if one of them has committed since the check, all keys of the transaction are checked again,
//! with the state that its commit will follow.

use std::sync::Arc;

use super::super::rebase::live_rows;
use super::super::write::WriteTransaction;
use crate::error::Result;
use crate::table::{SegmentEntry, Table};

impl WriteTransaction {
    /// Bases the transaction on the newest commit, and checks all keys that concern what it has changed.
    ///
    /// # Errors
    /// Another process has changed the same rows, or committed the same key, or removed a key to which a row refers.
    pub(in crate::store) fn check_keys_again(&mut self) -> Result<()> {
        self.refresh()?;
        let tables: Vec<Arc<Table>> = self.tables().cloned().collect();
        for table in &tables {
            self.note_added(table);
            if self.is_referred_to(table, &|_| true) {
                self.note_all_removed(table);
            }
        }
        self.forget_check();
        self.check_keys()
    }

    /// Counts all rows of a table that only this transaction sees as unchecked.
    fn note_added(&mut self, table: &Table) {
        let is_own = |entry: &&SegmentEntry| self.is_own_segment(table.id, entry.id);
        let own: Vec<u64> = table.segments.iter().filter(is_own).map(|entry| entry.id).collect();
        if own.is_empty() {
            return;
        }
        for at in 0..table.schema.unique_keys.len() {
            self.added_keys.entry((table.id, at)).or_default().extend(&own);
        }
        for (at, _) in table.schema.foreign_keys.iter().enumerate().filter(|(_, key)| key.enforced) {
            self.added_references.entry((table.id, at)).or_default().extend(&own);
        }
    }

    /// Counts all rows of a table that this transaction has removed as unchecked.
    fn note_all_removed(&mut self, table: &Table) {
        let base = self.base().clone();
        let Ok(before) = base.state.table_by_id(table.id) else { return };
        for old in &before.segments {
            let mine = table.segments.iter().find(|entry| entry.id == old.id);
            let left = mine.map(live_rows).unwrap_or_default();
            let removed = live_rows(old) - left;
            if !removed.is_empty() {
                let mut entry = old.clone();
                entry.deleted = None;
                entry.deleted = Some(Arc::new(live_rows(&entry) - removed));
                self.removed_rows.entry(table.id).or_default().push(entry);
            }
        }
    }
}
