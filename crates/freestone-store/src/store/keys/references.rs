//! Enforcement of foreign keys: every row that refers to a key has its row in the referenced table.
//!
//! It holds at the end of each statement, as for unique keys. Whoever adds a row that refers to a key locks the key
//! against removal, and whoever removes a key locks it against references.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use arrow_schema::DataType;
use roaring::RoaringBitmap;

use super::rows::{KeyColumns, ReadKeys, common_hashes, rows_with};
use super::{SUSPECTS, same_key, shares};
use crate::error::{Result, StoreError};
use crate::scan::Morsel;
use crate::schema::ForeignKey;
use crate::store::key_locks::{KeyId, KeyUse, Keys};
use crate::store::rebase::live_rows;
use crate::store::write::WriteTransaction;
use crate::table::{SegmentEntry, Table};

/// A foreign key with both tables. The columns of both are in the order of the referenced key.
struct Reference {
    name: String,
    from: Arc<Table>,
    to: Arc<Table>,
    /// The referenced key.
    id: KeyId,
    columns: KeyColumns,
    referenced: KeyColumns,
}

/// Whether values of two columns can be compared as they are stored.
pub fn is_comparable(a: &DataType, b: &DataType) -> bool {
    a == b || a.is_integer() && b.is_integer() && *a != DataType::UInt64 && *b != DataType::UInt64
}

impl Reference {
    fn of(transaction: &WriteTransaction, from: Arc<Table>, key: &ForeignKey) -> Result<Reference> {
        let broken = |reason: &str| {
            let columns = key.columns.join(", ");
            StoreError::invalid(format!("FOREIGN KEY ({columns}) of table {}: {reason} {}", from.name, key.table))
        };
        let to = transaction.table(&key.table).map_err(|_| broken("there is no table"))?;
        let unique =
            to.schema.enforced_key(&key.referenced).ok_or_else(|| broken("its columns are no key of table"))?;
        let at = to.schema.unique_keys.iter().position(|other| other == unique).unwrap_or_default();
        let referenced = to.schema.positions(&unique.columns)?;
        let own = unique.columns.iter().map(|name| {
            let place = key.referenced.iter().position(|other| other == name);
            let column =
                place.and_then(|place| key.columns.get(place)).ok_or_else(|| broken("other columns than in"))?;
            from.schema.index_of(column)
        });
        let own = own.collect::<Result<Vec<_>>>()?;
        let (columns, referenced) = (KeyColumns::new(&from, own), KeyColumns::new(&to, referenced));
        let name = key.name_in(&from.name);
        Ok(Reference { name, id: (to.id, at), columns, referenced, from, to })
    }

    /// The names of the table, the constraint, its columns and the table that they refer to.
    fn names(&self) -> (String, Box<str>, Box<str>, Box<str>) {
        let columns = listed(&self.from, &self.columns);
        (self.from.name.clone(), self.name.as_str().into(), columns.into(), self.to.name.as_str().into())
    }

    fn missing(&self, key: String) -> StoreError {
        let (table, constraint, columns, referenced) = self.names();
        StoreError::MissingReference { table, constraint, columns, referenced, key }
    }

    fn still_there(&self, key: String) -> StoreError {
        let (table, constraint, columns, referenced) = self.names();
        let to_columns = listed(&self.to, &self.referenced).into();
        StoreError::StillReferenced { table: table.into(), constraint, columns, referenced, to_columns, key }
    }
}

/// The names of the columns of a key.
fn listed(table: &Table, key: &KeyColumns) -> String {
    key.columns.iter().map(|column| table.schema.columns[*column].name.as_str()).collect::<Vec<_>>().join(", ")
}

impl WriteTransaction {
    /// Whether foreign keys refer to one of these columns of a table.
    pub(in crate::store) fn is_referred_to(&self, table: &Table, columns: &dyn Fn(usize) -> bool) -> bool {
        let refers = |key: &&ForeignKey| key.enforced && key.table == table.name;
        self.tables().any(|from| {
            from.schema.foreign_keys.iter().filter(refers).any(|key| {
                table.schema.positions(&key.referenced).is_ok_and(|referenced| referenced.into_iter().any(columns))
            })
        })
    }

    /// Remembers removed rows of a table, whose keys are compared with those of added rows at the end of the statement.
    pub(in crate::store) fn note_removed(&mut self, table: &Table, rows: impl Iterator<Item = (usize, RoaringBitmap)>) {
        for (at, rows) in rows.filter(|(_, rows)| !rows.is_empty()) {
            let mut entry = table.segments[at].clone();
            entry.deleted = None;
            entry.deleted = Some(Arc::new(live_rows(&entry) - rows));
            self.removed_rows.entry(table.id).or_default().push(entry);
        }
    }

    /// The rows of a table that were removed since the last check, as a table; `None` if there are none.
    pub(super) fn removed(&self, table: &Arc<Table>) -> Option<Arc<Table>> {
        let segments = self.removed_rows.get(&table.id)?.clone();
        Some(Arc::new(Table { segments, ..Table::clone(table) }))
    }

    /// Checks the foreign keys that concern what was added and removed since the last call.
    pub(super) fn check_references(&mut self) -> Result<()> {
        let removed: Vec<u64> = self.removed_rows.keys().copied().collect();
        for id in removed {
            // Whoever drops a table sees to those that refer to it.
            if let Ok(table) = self.table_by_id(id) {
                self.check_removed(&table)?;
            }
        }
        while let Some(((table, at), segments)) = self.added_references.pop_first() {
            if let Ok(table) = self.table_by_id(table) {
                let reference = Reference::of(self, table.clone(), &table.schema.foreign_keys[at])?;
                self.check_added(&reference, &segments)?;
            }
        }
        self.removed_rows.clear();
        Ok(())
    }

    fn lock_reference(&self, reference: &Reference, how: KeyUse, keys: &Keys) -> Result<()> {
        if self.is_shared(reference.to.id) && !keys.is_empty() {
            let transactions = &self.store().transactions;
            transactions.lock_keys(self.id(), reference.id, how, keys, &reference.to.name, self.waiting())?;
        }
        Ok(())
    }

    /// Checks that the keys to which new rows refer are there. Those to which rows refer that they replace are there, and
    /// stay there as long as the replaced rows are committed.
    fn check_added(&self, reference: &Reference, added: &BTreeSet<u64>) -> Result<()> {
        let threads = self.store().options().threads;
        let entries = reference.from.segments.iter().filter(|entry| added.contains(&entry.id));
        let rows: u64 = entries.map(SegmentEntry::live_rows).sum();
        let shares: Vec<_> = shares(rows, self.write_bytes()).collect();
        let is_one = shares.len() == 1;
        if !is_one {
            self.lock_reference(reference, KeyUse::Referenced, &Keys::All)?;
        }
        for share in shares {
            let is_added = |morsel: &Morsel| added.contains(&reference.from.segments[morsel.segment].id);
            let mut keys = ReadKeys::read(&reference.from, &reference.columns, is_added, share, threads)?;
            if let Some(removed) = self.removed(&reference.from) {
                let kept = common_hashes(&removed, &reference.columns, |_| true, &keys, threads)?;
                keys = keys.without(&kept);
            }
            if is_one {
                self.lock_reference(reference, KeyUse::Referenced, &Keys::Some(keys.hashes.clone()))?;
            }
            let (_, view) = self.newest_view(reference.to.id)?;
            let found = common_hashes(&view, &reference.referenced, |_| true, &keys, threads)?;
            let missing: HashSet<u64> =
                keys.hashes.iter().filter(|hash| !found.contains(hash)).take(SUSPECTS).collect();
            if !missing.is_empty() {
                let rows = rows_with(&reference.from, &reference.columns, is_added, &missing, threads)?;
                let first = rows.into_values().flatten().min_by(|a, b| a.values.cmp(&b.values));
                return Err(reference.missing(first.map_or_else(String::new, |row| row.shown)));
            }
        }
        Ok(())
    }

    /// Checks that nothing refers to the keys of removed rows, unless rows of this transaction have them again.
    fn check_removed(&self, table: &Arc<Table>) -> Result<()> {
        let Some(removed) = self.removed(table) else { return Ok(()) };
        let threads = self.store().options().threads;
        let rows = removed.rows();
        let refers = |key: &&ForeignKey| key.enforced && key.table == table.name;
        for from in self.tables() {
            for key in from.schema.foreign_keys.iter().filter(refers) {
                let reference = Reference::of(self, self.with_resources(from), key)?;
                for share in shares(rows, self.write_bytes()) {
                    let keys = ReadKeys::read(&removed, &reference.referenced, |_| true, share, threads)?;
                    let is_own =
                        |morsel: &Morsel| self.is_own_segment(table.id, reference.to.segments[morsel.segment].id);
                    let kept = common_hashes(&reference.to, &reference.referenced, is_own, &keys, threads)?;
                    let keys = keys.without(&kept);
                    let locked = if share.of == 1 { Keys::Some(keys.hashes.clone()) } else { Keys::All };
                    self.lock_reference(&reference, KeyUse::Changed, &locked)?;
                    self.check_unreferenced(&reference, &removed, &keys, threads)?;
                }
            }
        }
        Ok(())
    }

    fn check_unreferenced(
        &self,
        reference: &Reference,
        removed: &Arc<Table>,
        keys: &ReadKeys,
        threads: usize,
    ) -> Result<()> {
        let (_, from) = self.newest_view(reference.from.id)?;
        let mut left = common_hashes(&from, &reference.columns, |_| true, keys, threads)?;
        if left.is_empty() {
            return Ok(());
        }
        let (_, to) = self.newest_view(reference.to.id)?;
        let present = common_hashes(&to, &reference.referenced, |_| true, keys, threads)?;
        left.retain(|hash| !present.contains(hash));
        let mut left: Vec<u64> = left.into_iter().collect();
        left.sort_unstable();
        for hashes in left.chunks(SUSPECTS) {
            let hashes = hashes.iter().copied().collect();
            let gone = rows_with(removed, &reference.referenced, |_| true, &hashes, threads)?;
            let referring = rows_with(&from, &reference.columns, |_| true, &hashes, threads)?;
            if let Some(row) = same_key(&gone, referring) {
                return Err(reference.still_there(row.shown));
            }
        }
        Ok(())
    }
}
