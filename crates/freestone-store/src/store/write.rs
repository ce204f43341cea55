//! Write transactions: changes are collected, segments are written, and one log record commits all of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use roaring::RoaringBitmap;

use super::appender::{Appended, Appender};
use super::commit::{Commit, Operation, bitmap_bytes};
use super::state::State;
use super::{Snapshot, Store};
use crate::cluster::{Clustering, Tables};
use crate::design::Design;
use crate::error::{Result, StoreError};
use crate::limits::{CHECKPOINT_BYTES, PENDING_SEGMENTS};
use crate::log::LogWriter;
use crate::scan::{ScanRequest, for_each_batch, split_row_id};
use crate::schema::TableSchema;
use crate::table::{Table, segment_file};

/// The changes of one writer, invisible to others until [`WriteTransaction::commit`]. Dropping it without a commit
/// discards them.
#[derive(Debug)]
pub struct WriteTransaction<'a> {
    store: &'a Store,
    log: MutexGuard<'a, Option<LogWriter>>,
    base: Arc<Snapshot>,
    /// The state including the changes so far.
    state: State,
    commit: Commit,
    next_id: Arc<AtomicU64>,
    /// Files that are removed if there is no commit.
    created: Arc<Mutex<Vec<u64>>>,
    write_bytes: usize,
    committed: bool,
}

impl<'a> WriteTransaction<'a> {
    pub(super) fn new(store: &'a Store, log: MutexGuard<'a, Option<LogWriter>>, base: Arc<Snapshot>) -> Self {
        let state = State::clone(&base.state);
        let next_id = store.next_id.clone();
        next_id.fetch_max(state.last_id + 1, Ordering::Relaxed);
        let (commit, created) = (Commit::default(), Arc::default());
        let write_bytes = store.options().write_bytes;
        WriteTransaction { store, log, base, state, commit, next_id, created, write_bytes, committed: false }
    }

    /// The snapshot on which the transaction is based.
    pub fn base(&self) -> &Arc<Snapshot> {
        &self.base
    }

    /// A table including this transaction's changes.
    ///
    /// # Errors
    /// The table does not exist.
    pub fn table(&self, name: &str) -> Result<Arc<Table>> {
        let table = self.state.tables.get(name).ok_or_else(|| StoreError::invalid(format!("no table {name}")))?;
        Ok(self.with_resources(table))
    }

    /// The table or copy with this id, including this transaction's changes.
    pub(super) fn table_by_id(&self, id: u64) -> Result<Arc<Table>> {
        self.state.table_by_id(id).map(|table| self.with_resources(table)).map_err(StoreError::Invalid)
    }

    /// The copies of a table, including this transaction's changes.
    pub fn copies(&self, table: &Table) -> Vec<Arc<Table>> {
        self.state.copies_of(table.id).map(|copy| self.with_resources(copy)).collect()
    }

    fn with_resources(&self, table: &Arc<Table>) -> Arc<Table> {
        let mut table = table.clone();
        if table.resources.is_none() {
            Arc::make_mut(&mut table).resources = Some(self.store.resources.clone());
        }
        table
    }

    /// Sets the memory in bytes of later appends and conversions, instead of the store's option.
    pub fn set_write_bytes(&mut self, bytes: usize) {
        self.write_bytes = bytes;
    }

    fn perform(&mut self, operation: Operation) -> Result<()> {
        let mut one = Commit { operations: vec![], attachments: std::mem::take(&mut self.commit.attachments) };
        one.push(operation.clone());
        let applied = one.apply(&self.state, self.state.sequence);
        self.commit.attachments = one.attachments;
        self.state = applied.map_err(StoreError::Invalid)?;
        self.commit.push(operation);
        Ok(())
    }

    /// Creates a table.
    ///
    /// # Errors
    /// The name is taken, or the schema is not valid.
    pub fn create_table(&mut self, name: &str, schema: TableSchema, design: Design) -> Result<()> {
        self.check_free(name)?;
        let table = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.perform(Operation::CreateTable {
            table,
            name: name.into(),
            schema: schema.validated()?,
            design,
            changed: 0,
        })
    }

    fn check_free(&self, name: &str) -> Result<()> {
        let taken = if self.state.tables.contains_key(name) {
            "table"
        } else if self.state.views.contains_key(name) {
            "view"
        } else {
            return Ok(());
        };
        Err(StoreError::invalid(format!("there is a {taken} {name} already")))
    }

    /// Drops a table with its copies.
    ///
    /// # Errors
    /// The table does not exist.
    pub fn drop_table(&mut self, name: &str) -> Result<()> {
        let table = self.table(name)?.id;
        self.perform(Operation::DropTable { table })
    }

    /// Creates a copy of a table: all its rows, and some or all of its columns (by position, ascending), in a design of
    /// its own. Rows that are appended to the table later are written to the copy, too.
    ///
    /// # Errors
    /// The table does not exist, the name is taken, or the medium fails.
    pub fn create_copy(&mut self, table: &str, name: &str, columns: Vec<usize>, design: Design) -> Result<()> {
        let of = self.table(table)?;
        if self.copies(&of).iter().any(|copy| copy.name == name) {
            return Err(StoreError::invalid(format!("table {table} has a copy {name} already")));
        }
        let (copy, name) = (self.next_id.fetch_add(1, Ordering::Relaxed), name.to_owned());
        self.perform(Operation::CreateCopy { copy, table: of.id, name, columns, design, is_current: false })?;
        self.fill_copy(copy)
    }

    /// Drops a copy.
    ///
    /// # Errors
    /// The table or the copy does not exist.
    pub fn drop_copy(&mut self, table: &str, name: &str) -> Result<()> {
        let copies = self.copies(&*self.table(table)?);
        let copy = copies.iter().find(|copy| copy.name == name);
        let copy = copy.ok_or_else(|| StoreError::invalid(format!("table {table} has no copy {name}")))?;
        self.perform(Operation::DropTable { table: copy.id })
    }

    /// Writes all rows of a copy again, from its table.
    pub(super) fn fill_copy(&mut self, copy: u64) -> Result<()> {
        let copy = self.table_by_id(copy)?;
        let of = copy.copy_of.as_ref().ok_or_else(|| StoreError::invalid(format!("{} is no copy", copy.name)))?;
        let table = self.table_by_id(of.table)?;
        let mut appender = self.appender_of(&copy, copy.design.clone(), Some(table.rows()))?;
        let request = Arc::new(ScanRequest::columns(of.columns.clone()));
        for_each_batch(&table, request, |_| true, |batch| appender.push(&batch))?;
        self.replace(&copy, &(0..copy.segments.len()).collect::<Vec<_>>(), appender.finish()?)?;
        self.perform(Operation::CopyIsCurrent { copy: copy.id })
    }

    /// Creates a view.
    ///
    /// # Errors
    /// The name is taken.
    pub fn create_view(&mut self, name: &str, sql: &str) -> Result<()> {
        self.check_free(name)?;
        self.perform(Operation::CreateView { name: name.into(), sql: sql.into() })
    }

    /// Drops a view.
    ///
    /// # Errors
    /// The view does not exist.
    pub fn drop_view(&mut self, name: &str) -> Result<()> {
        if !self.state.views.contains_key(name) {
            return Err(StoreError::invalid(format!("no view {name}")));
        }
        self.perform(Operation::DropView { name: name.into() })
    }

    /// Removes all rows, also of copies.
    ///
    /// # Errors
    /// The table does not exist.
    pub fn truncate(&mut self, name: &str) -> Result<()> {
        let table = self.table(name)?;
        self.remove_segments(&table)?;
        self.perform(Operation::Changed { table: table.id })?;
        for copy in self.copies(&table) {
            self.remove_segments(&copy)?;
            self.perform(Operation::CopyIsCurrent { copy: copy.id })?;
        }
        Ok(())
    }

    fn remove_segments(&mut self, table: &Table) -> Result<()> {
        let segments = table.segments.iter().map(|s| s.id).collect();
        self.perform(Operation::RemoveSegments { table: table.id, segments })
    }

    /// Changes the design of rows to come. [`WriteTransaction::convert`] also rewrites existing ones.
    ///
    /// # Errors
    /// The table does not exist.
    pub fn set_design(&mut self, name: &str, design: Design) -> Result<()> {
        let table = self.table(name)?.id;
        self.perform(Operation::SetDesign { table, design })
    }

    /// An appender for a table and its current copies, which may be used on any thread. Pass its result to
    /// [`WriteTransaction::append`].
    ///
    /// # Errors
    /// The table does not exist, or a clustering path is invalid.
    pub fn appender(&self, name: &str) -> Result<Appender> {
        let table = self.table(name)?;
        let copies: Vec<Arc<Table>> = self.copies(&table).into_iter().filter(|copy| copy.is_current()).collect();
        let bytes = self.write_bytes / (1 + copies.len());
        let mut appender = self.appender_within(&table, table.design.clone(), None, bytes)?;
        for copy in copies {
            let of_copy = self.appender_within(&copy, copy.design.clone(), None, bytes)?;
            appender.add_copy(copy.copy_of.as_ref().map_or(vec![], |of| of.columns.clone()), of_copy);
        }
        Ok(appender)
    }

    /// An appender for rows that replace others, which this transaction deletes. The copies of the table are not
    /// current then, and do not get the rows.
    ///
    /// # Errors
    /// As for [`WriteTransaction::appender`].
    pub fn replacing_appender(&self, name: &str) -> Result<Appender> {
        let table = self.table(name)?;
        self.appender_of(&table, table.design.clone(), None)
    }

    /// `rewritten`: the number of existing rows of the table that are written again; `None` for new rows.
    pub(super) fn appender_of(&self, table: &Table, design: Design, rewritten: Option<u64>) -> Result<Appender> {
        self.appender_within(table, design, rewritten, self.write_bytes)
    }

    fn appender_within(
        &self,
        table: &Table,
        design: Design,
        rewritten: Option<u64>,
        write_bytes: usize,
    ) -> Result<Appender> {
        let context = self.store.append_context(self.created.clone(), write_bytes, rewritten.is_none());
        let clustering = clustering_of(&|name| self.table(name).ok(), table, &design, rewritten)?;
        Ok(Appender::new(table.id, table.schema.clone(), design, clustering, context))
    }

    /// Adds the rows of an appender, and returns their number.
    ///
    /// # Errors
    /// The table was dropped meanwhile.
    pub fn append(&mut self, appended: Appended) -> Result<u64> {
        for copy in appended.copies {
            self.append(copy)?;
        }
        for segment in appended.segments {
            let pending = segment.pending.map(|bytes| self.commit.attach(bytes));
            self.perform(Operation::AddSegment {
                table: appended.table,
                segment: segment.id,
                rows: segment.rows,
                bytes: segment.bytes,
                pending,
            })?;
        }
        Ok(appended.rows)
    }

    /// Deletes rows by the ids from a scan of this transaction's base, and returns the number of rows that existed.
    ///
    /// # Errors
    /// The table does not exist.
    pub fn delete(&mut self, name: &str, row_ids: impl IntoIterator<Item = u64>) -> Result<u64> {
        let base = self.base.table(name).cloned().ok_or_else(|| StoreError::invalid(format!("no table {name}")))?;
        let mut by_segment: BTreeMap<usize, RoaringBitmap> = BTreeMap::new();
        for id in row_ids {
            let (segment, row) = split_row_id(id);
            by_segment.entry(segment).or_default().insert(row);
        }
        let mut deleted = 0;
        for (at, rows) in by_segment {
            let id = base.segments.get(at).ok_or_else(|| StoreError::invalid("a row id of no segment"))?.id;
            // With this transaction's changes: a segment that was removed has no rows left.
            let now = self.table(name)?;
            let Some(entry) = now.segments.iter().find(|s| s.id == id) else { continue };
            let old = entry.deleted.as_deref().cloned().unwrap_or_default();
            let new = &old | &rows;
            deleted += new.len() - old.len();
            if new.len() == u64::from(entry.rows) {
                self.perform(Operation::RemoveSegments { table: base.id, segments: vec![entry.id] })?;
            } else {
                let attachment = self.commit.attach(Arc::new(bitmap_bytes(&new)));
                self.perform(Operation::SetDeleted { table: base.id, segment: entry.id, attachment })?;
            }
        }
        if deleted > 0 {
            self.perform(Operation::Changed { table: base.id })?;
        }
        Ok(deleted)
    }

    /// Rewrites all rows of a table in another design.
    ///
    /// # Errors
    /// The table does not exist, a clustering path is invalid, or the medium fails.
    pub fn convert(&mut self, name: &str, design: Design) -> Result<()> {
        let table = self.table(name)?;
        self.rewrite(&table, design.clone(), (0..table.segments.len()).collect())?;
        self.perform(Operation::SetDesign { table: table.id, design })
    }

    /// Replaces some segments of a table by new ones with the same rows.
    pub(super) fn rewrite(&mut self, table: &Arc<Table>, design: Design, which: Vec<usize>) -> Result<()> {
        let request = Arc::new(ScanRequest::columns((0..table.schema.columns.len()).collect()));
        let rows = which.iter().map(|at| table.segments[*at].live_rows()).sum();
        let mut appender = self.appender_of(table, design, Some(rows))?;
        for_each_batch(table, request, |unit| which.contains(&unit.segment), |batch| appender.push(&batch))?;
        self.replace(table, &which, appender.finish()?)
    }

    /// Replaces some segments of a table by the given ones.
    pub(super) fn replace(&mut self, table: &Table, which: &[usize], appended: Appended) -> Result<()> {
        let segments = which.iter().map(|at| table.segments[*at].id).collect();
        self.perform(Operation::RemoveSegments { table: table.id, segments })?;
        self.append(appended).map(|_| ())
    }

    /// Takes ownership of files that were written before the transaction. They are removed if there is no commit.
    pub(super) fn own(&mut self, files: Vec<u64>) {
        self.created.lock().extend(files);
    }

    /// Makes the changes durable and visible, and returns the commit's sequence.
    ///
    /// # Errors
    /// The log cannot be written. The error says whether the outcome is known.
    pub fn commit(mut self) -> Result<u64> {
        self.merge_pending()?;
        if self.commit.operations.is_empty() {
            self.committed = true;
            return Ok(self.state.sequence);
        }
        let id = self.next_id.load(Ordering::Relaxed) - 1;
        self.perform(Operation::LastId { id })?;
        self.drop_unused_attachments();
        let medium = &self.store.resources.medium;
        if !self.created.lock().is_empty() {
            medium.sync_folder("segments")?;
        }
        let body = self.commit.to_bytes();
        let log = self.log.as_mut().expect("a transaction holds the open log");
        // From here on the files may belong to a commit, even if this fails. The next opening of the log decides, and
        // removes files of no commit.
        self.committed = true;
        let sequence = log.append(&body)?;
        let mut reader = self.store.reader.lock();
        if self.store.refresh(&mut reader).is_err() {
            // The commit is durable, which is what the caller asked for. The next snapshot tries to read it again.
            return Ok(sequence);
        }
        let state = reader.state.clone();
        drop(reader);
        if log.len_since_base() > CHECKPOINT_BYTES {
            // After a failed checkpoint the log is longer than necessary, but correct.
            let _ = log.checkpoint(&Commit::of_state(&state).to_bytes());
        }
        Ok(sequence)
    }

    /// Small inserts stay in the log until they are many. Then one segment replaces them.
    fn merge_pending(&mut self) -> Result<()> {
        let tables: Vec<u64> = self.state.all().map(|table| table.id).collect();
        for id in tables {
            let table = self.table_by_id(id)?;
            let pending: Vec<usize> =
                (0..table.segments.len()).filter(|at| table.segments[*at].pending.is_some()).collect();
            if pending.len() >= PENDING_SEGMENTS {
                self.rewrite(&table, table.design.clone(), pending)?;
            }
        }
        Ok(())
    }

    /// Pending segments that were added and removed within this transaction are not written to the log.
    fn drop_unused_attachments(&mut self) {
        let commit = std::mem::take(&mut self.commit);
        let gone = |operation: &Operation, at: usize| match operation {
            Operation::AddSegment { segment, pending: Some(_), .. } => commit.operations[at..]
                .iter()
                .any(|later| matches!(later, Operation::RemoveSegments { segments, .. } if segments.contains(segment))),
            _ => false,
        };
        let dropped: Vec<bool> = commit.operations.iter().enumerate().map(|(at, o)| gone(o, at)).collect();
        let mut kept = Commit::default();
        for (operation, gone) in commit.operations.iter().zip(dropped) {
            let mut operation = operation.clone();
            match &mut operation {
                Operation::AddSegment { .. } if gone => continue,
                Operation::AddSegment { pending: Some(at), .. } | Operation::SetDeleted { attachment: at, .. } => {
                    *at = kept.attach(commit.attachments[*at].clone());
                }
                _ => {}
            }
            kept.push(operation);
        }
        self.commit = kept;
    }

    pub(super) fn forget(&mut self, segments: Vec<u64>) -> Result<()> {
        self.perform(Operation::Forget { segments })
    }

    pub(super) fn state(&self) -> &State {
        &self.state
    }

    pub(super) fn store(&self) -> &'a Store {
        self.store
    }
}

/// The clustering of a table's rows in a design, if it has one; see [`Clustering::new`].
pub(super) fn clustering_of(
    tables: Tables<'_>,
    table: &Table,
    design: &Design,
    rewritten: Option<u64>,
) -> Result<Option<Clustering>> {
    (!design.cluster.is_empty()).then(|| Clustering::new(tables, table, design, rewritten)).transpose()
}

impl Drop for WriteTransaction<'_> {
    fn drop(&mut self) {
        if !self.committed {
            for id in self.created.lock().drain(..) {
                // If it cannot be removed now, the next opening for writing removes it.
                let _ = self.store.resources.medium.remove(&segment_file(id));
            }
        }
    }
}
