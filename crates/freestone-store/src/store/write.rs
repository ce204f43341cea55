//! Write transactions: changes are collected, segments are written, and one log record commits all of it.
//!
//! A transaction does not lock the log while it is open. It starts from a snapshot, its base, and collects its changes
//! in a state of its own. Its commit applies the difference of the two to the newest state ([`super::rebase`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use roaring::RoaringBitmap;

use super::appender::{Appended, Appender, NewSegment};
use super::commit::{Commit, Operation};
use super::files::NewFiles;
use super::group::Newest;
use super::key_locks::{AddedKeys, AddedReferences, RemovedRows};
use super::locks::{Levels, Mode, RowUse, Waiting};
use super::objects::{Definition, Kind, Object};
use super::rebase::{conflict, live_rows, rebase};
use super::state::State;
use super::{Snapshot, Store};
use crate::cluster::{Clustering, Tables};
use crate::design::{Design, MediumKind};
use crate::error::{Result, StoreError};
use crate::limits::HOT_RUN_ROWS;
use crate::scan::{ScanRequest, for_each_batch, row_id, split_row_id};
use crate::schema::TableSchema;
use crate::table::{SegmentEntry, Table};

/// So often keys are checked again because another process has committed meanwhile.
const COMMIT_ATTEMPTS: usize = 100;

/// The changes of one writer, invisible to others until [`WriteTransaction::commit`]. Dropping it without a commit
/// discards them.
#[derive(Debug)]
pub struct WriteTransaction {
    store: Store,
    id: u64,
    base: Arc<Snapshot>,
    /// The state including the changes so far.
    state: State,
    is_changed: bool,
    /// Whether nothing was read yet, so that the base can still be replaced by a newer one.
    is_fresh: bool,
    /// The base of the oldest savepoint to which it may return.
    oldest_savepoint: Option<u64>,
    next_id: Arc<AtomicU64>,
    /// `None` before the first write.
    files: Option<Arc<NewFiles>>,
    waiting: Waiting,
    /// Whether the commit waits until it is durable.
    syncs: bool,
    write_bytes: usize,
    /// The rows whose keys are not checked yet.
    pub(super) added_keys: AddedKeys,
    /// The rows whose references are not checked yet.
    pub(super) added_references: AddedReferences,
    /// The segments with new rows of tables that have conditions, by table.
    added_rows: BTreeMap<u64, BTreeSet<u64>>,
    /// Rows that are gone, to which others may refer, or which others replace.
    pub(super) removed_rows: RemovedRows,
    /// The materialized view whose rows may change, because it is computed anew.
    pub(super) refreshed: Option<u64>,
    /// If keys were checked: the last commit of another process that was known at the first of these checks.
    checked: Option<u64>,
}

/// A state of a transaction to which it can return.
#[derive(Debug, Clone)]
pub struct Savepoint {
    base: Arc<Snapshot>,
    state: State,
    is_changed: bool,
    files: usize,
    /// The level of the locks that are freed by a return; `None`: locks stay.
    levels: Option<Levels>,
}

impl WriteTransaction {
    pub(super) fn new(store: &Store) -> Result<Self> {
        let id = store.transactions.begin();
        let base = match store.snapshot() {
            Ok(base) => base,
            Err(error) => {
                store.transactions.end(id);
                return Err(error);
            }
        };
        store.transactions.set_base(id, base.sequence());
        let next_id = store.next_id.clone();
        let write_bytes = store.options().write_bytes;
        Ok(WriteTransaction {
            store: store.clone(),
            id,
            state: State::clone(&base.state),
            base,
            is_changed: false,
            is_fresh: true,
            oldest_savepoint: None,
            next_id,
            files: None,
            waiting: Waiting::default(),
            syncs: true,
            write_bytes,
            added_keys: AddedKeys::default(),
            added_references: AddedReferences::default(),
            added_rows: BTreeMap::new(),
            removed_rows: RemovedRows::default(),
            refreshed: None,
            checked: None,
        })
    }

    /// The number of this transaction among the open ones.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The snapshot on which the transaction is based.
    pub fn base(&self) -> &Arc<Snapshot> {
        &self.base
    }

    /// The base with the changes so far. Row ids for [`WriteTransaction::delete`] come from a scan of it.
    pub fn snapshot(&mut self) -> Arc<Snapshot> {
        self.is_fresh = false;
        if !self.is_changed {
            return self.base.clone();
        }
        let mut state = self.state.clone();
        self.store.give_resources(&mut state);
        let history = self.base.history.clone();
        Arc::new(Snapshot { state: Arc::new(state), base: Some(self.base.clone()), history, _pin: None, _kept: None })
    }

    /// Whether it has changed anything.
    pub fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Whether nobody has committed anything since the snapshot on which the transaction is based.
    ///
    /// # Errors
    /// As for [`Store::snapshot`].
    pub fn is_current(&self) -> Result<bool> {
        Ok(self.store.newest()?.sequence == self.base.sequence())
    }

    /// Whether it has neither read nor changed data.
    pub fn is_fresh(&self) -> bool {
        self.is_fresh && !self.is_changed
    }

    /// Sets the conditions that end its waits for other transactions.
    pub fn set_waiting(&mut self, waiting: Waiting) {
        self.waiting = waiting;
    }

    /// Sets whether the commit waits until it is durable. If it does not, a power loss may take it, with all later ones;
    /// and processes that read see it when it is durable.
    pub fn set_syncs(&mut self, syncs: bool) {
        self.syncs = syncs;
    }

    /// Makes this process the writer, and reserves ids. Called before the first change.
    ///
    /// # Errors
    /// Another process writes, or the database is open read-only.
    pub fn prepare_write(&mut self) -> Result<()> {
        if self.files.is_none() {
            self.store.open_log()?;
            if !self.store.is_shared() {
                self.next_id.fetch_max(self.store.newest()?.last_id + 1, Ordering::Relaxed);
            }
            self.files = Some(Arc::new(NewFiles::new(self.store.resources.clone())));
            self.leave_view()?;
        }
        Ok(())
    }

    /// If this process read a pool that another wrote, and now writes it, rows of the pool have other numbers.
    fn leave_view(&mut self) -> Result<()> {
        if self.base._kept.is_none() {
            return Ok(());
        }
        if self.is_fresh {
            return self.refresh();
        }
        let reason =
            "another process wrote persistent memory when this transaction began, and this one does now; run it again";
        Err(StoreError::Conflict(reason.into()))
    }

    pub(super) fn files(&mut self) -> Result<Arc<NewFiles>> {
        self.prepare_write()?;
        self.files.clone().ok_or_else(|| StoreError::invalid("the transaction cannot write"))
    }

    /// Bases the transaction, with its changes so far, on the newest commit, so that it sees what others have
    /// committed.
    ///
    /// # Errors
    /// Another transaction has changed the same rows or names.
    pub fn refresh(&mut self) -> Result<()> {
        let base = self.store.snapshot()?;
        if base.edition() == self.base.edition() {
            return Ok(());
        }
        self.state = if self.is_changed {
            let places = |table: &Table, segment, rows| self.store.transactions.places(table, segment, rows);
            let commit = rebase(&self.base.state, &self.state, &base.state, &places, None)?;
            let mut state = commit.apply(&base.state, self.store.stamp()).map_err(StoreError::Invalid)?;
            state.sequence = base.sequence();
            state
        } else {
            State::clone(&base.state)
        };
        self.base = base;
        self.announce_base();
        Ok(())
    }

    /// Announces the base, whose row positions the transaction may use. The store keeps track of moved rows since then.
    fn announce_base(&self) {
        let base = self.base.sequence();
        self.store.transactions.set_base(self.id, self.oldest_savepoint.map_or(base, |oldest| oldest.min(base)));
    }

    /// A state to which the transaction can return, until [`WriteTransaction::forget_savepoints`] is called. A return frees the
    /// locks that were taken since.
    pub fn savepoint(&mut self) -> Savepoint {
        let levels = self.store.transactions.begin_level(self.id);
        Savepoint { levels: Some(levels), ..self.statement_start() }
    }

    /// The same for a statement that may be repeated: a return keeps all locks, so that the next attempt has them.
    pub fn statement_start(&mut self) -> Savepoint {
        self.oldest_savepoint.get_or_insert(self.base.sequence());
        let files = self.files.as_ref().map_or(0, |files| files.len());
        let (base, state, is_changed) = (self.base.clone(), self.state.clone(), self.is_changed);
        Savepoint { base, state, is_changed, files, levels: None }
    }

    /// Undoes all changes since a savepoint, to which the transaction can return again.
    ///
    /// # Errors
    /// The changes before it cannot be based on the newest commit that the transaction has seen.
    pub fn roll_back_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        self.state = savepoint.state.clone();
        self.added_keys.clear();
        self.added_references.clear();
        self.removed_rows.clear();
        self.added_rows.clear();
        self.is_changed = savepoint.is_changed;
        let now = std::mem::replace(&mut self.base, savepoint.base.clone());
        if let Some(files) = &self.files {
            files.truncate(savepoint.files);
        }
        self.free_locks_since(savepoint);
        self.announce_base();
        if now.sequence() != self.base.sequence() { self.refresh() } else { Ok(()) }
    }

    /// Frees the locks that were taken since a savepoint, to which the transaction must return before anything else.
    pub fn free_locks_since(&self, savepoint: &Savepoint) {
        if let Some(levels) = savepoint.levels {
            self.store.transactions.free_level(self.id, levels.begun);
        }
    }

    /// Forgets a savepoint and those after it. The locks that were taken since remain with what was there before.
    pub fn release(&mut self, savepoint: &Savepoint) {
        if let Some(levels) = savepoint.levels {
            self.store.transactions.join_levels(self.id, levels);
        }
    }

    /// Forgets all savepoints.
    pub fn forget_savepoints(&mut self) {
        self.oldest_savepoint = None;
        self.announce_base();
    }

    /// A table including this transaction's changes.
    ///
    /// # Errors
    /// The table does not exist.
    pub fn table(&self, name: &str) -> Result<Arc<Table>> {
        let table = self.table_or_none(name)?;
        table.check_available()?;
        Ok(table)
    }

    /// The same, also if its rows cannot be read.
    fn table_or_none(&self, name: &str) -> Result<Arc<Table>> {
        let table = self.state.tables.get(name).ok_or_else(|| StoreError::invalid(format!("no table {name}")))?;
        Ok(self.with_resources(table))
    }

    /// The state with the changes so far.
    pub(super) fn state(&self) -> &State {
        &self.state
    }

    /// The table or copy with this id, including this transaction's changes.
    pub(super) fn table_by_id(&self, id: u64) -> Result<Arc<Table>> {
        self.state.table_by_id(id).map(|table| self.with_resources(table)).map_err(StoreError::Invalid)
    }

    /// The copies of a table, including this transaction's changes.
    pub fn copies(&self, table: &Table) -> Vec<Arc<Table>> {
        self.state.copies_of(table.id).map(|copy| self.with_resources(copy)).collect()
    }

    pub(super) fn with_resources(&self, table: &Arc<Table>) -> Arc<Table> {
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

    pub(super) fn perform(&mut self, operation: &Operation) -> Result<()> {
        self.prepare_write()?;
        let stamp = self.store.stamp();
        Commit::default().apply_one(operation, &mut self.state, stamp).map_err(StoreError::Invalid)?;
        self.is_changed = true;
        Ok(())
    }

    /// Locks a table for changes of rows, or as a whole. If the transaction has not read anything yet, it is then based
    /// on the newest commit, so that it does not conflict with the transaction for which it waited.
    ///
    /// # Errors
    /// See [`StoreError::Conflict`], [`StoreError::Deadlock`] and [`StoreError::LockTimeout`].
    pub fn lock(&mut self, name: &str, mode: Mode) -> Result<()> {
        let is_fresh = self.is_fresh();
        let Some(table) = self.state.tables.get(name).cloned() else { return Ok(()) };
        self.lock_table(&table, mode)?;
        if is_fresh {
            self.refresh()?;
        }
        Ok(())
    }

    pub(super) fn lock_table(&mut self, table: &Table, mode: Mode) -> Result<()> {
        self.prepare_write()?;
        let id = table.copy_of.as_ref().map_or(table.id, |of| of.table);
        if self.base.state.table_by_id(id).is_err() {
            // Only this transaction sees the table.
            return Ok(());
        }
        self.store.transactions.lock_table(self.id, id, mode, &table.name, &self.waiting)?;
        if self.is_fresh() {
            return Ok(());
        }
        // A conflict that would make the commit fail is reported now.
        let newest = self.store.newest()?;
        let (Ok(now), Ok(base)) = (newest.table_by_id(id), self.base.state.table_by_id(id)) else {
            return Err(conflict(format!("table {} was dropped", table.name)));
        };
        if now.schema != base.schema || now.design != base.design || now.name != base.name {
            return Err(conflict(format!("table {} was altered", table.name)));
        }
        Ok(())
    }

    /// Locks the name of a table or view that is created or dropped. Other transactions that need the name wait for the
    /// outcome.
    ///
    /// # Errors
    /// As for [`WriteTransaction::lock`].
    pub fn lock_name(&mut self, name: &str) -> Result<()> {
        self.prepare_write()?;
        self.store.transactions.lock_name(self.id, name, &self.waiting)?;
        if self.is_fresh() { self.refresh() } else { Ok(()) }
    }

    /// Creates a table.
    ///
    /// # Errors
    /// The name is taken, or the schema is not valid.
    pub fn create_table(&mut self, name: &str, schema: TableSchema, design: Design) -> Result<()> {
        self.check_free(name)?;
        let schema = schema.validated()?;
        self.prepare_write()?;
        self.check_medium(&design)?;
        let table = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.perform(&Operation::CreateTable { table, name: name.into(), schema, design, changed: 0 })
    }

    pub(super) fn check_free(&self, name: &str) -> Result<()> {
        let taken = if self.state.tables.contains_key(name) {
            "table"
        } else if self.state.objects.named(Kind::View, name).is_some() {
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
        let table = self.table_or_none(name)?;
        self.lock_table(&table, Mode::Exclusive)?;
        self.perform(&Operation::DropTable { table: table.id })
    }

    /// Creates a copy of a table: all its rows, and some or all of its columns (by position, ascending), in a design of
    /// its own. Rows that are appended to the table later are written to the copy, too.
    ///
    /// # Errors
    /// The table does not exist, the name is taken, or the medium fails.
    pub fn create_copy(&mut self, table: &str, name: &str, columns: Vec<usize>, design: Design) -> Result<()> {
        let of = self.table(table)?;
        if design.medium == MediumKind::Pmem {
            return Err(StoreError::invalid(format!("copy {name}: a copy cannot be in persistent memory")));
        }
        if self.copies(&of).iter().any(|copy| copy.name == name) {
            return Err(StoreError::invalid(format!("table {table} has a copy {name} already")));
        }
        self.lock_table(&of, Mode::Exclusive)?;
        let (copy, name) = (self.next_id.fetch_add(1, Ordering::Relaxed), name.to_owned());
        self.perform(&Operation::CreateCopy { copy, table: of.id, name, columns, design, is_current: false })?;
        self.fill_copy(copy)
    }

    /// Drops a copy.
    ///
    /// # Errors
    /// The table or the copy does not exist.
    pub fn drop_copy(&mut self, table: &str, name: &str) -> Result<()> {
        let table = self.table(table)?;
        let copies = self.copies(&table);
        let copy = copies.iter().find(|copy| copy.name == name);
        let copy = copy.ok_or_else(|| StoreError::invalid(format!("table {} has no copy {name}", table.name)))?;
        self.lock_table(&table, Mode::Exclusive)?;
        self.perform(&Operation::DropTable { table: copy.id })
    }

    /// Writes all rows of a copy again, from its table.
    pub(super) fn fill_copy(&mut self, copy: u64) -> Result<()> {
        let copy = self.table_by_id(copy)?;
        let of = copy.copy_of.as_ref().ok_or_else(|| StoreError::invalid(format!("{} is no copy", copy.name)))?;
        let table = self.table_by_id(of.table)?;
        let mut appender = self.appender_of(&copy, copy.design.clone(), Some(table.rows()))?;
        let request = Arc::new(ScanRequest::columns(of.columns.clone()));
        for_each_batch(&table, request, |_| true, |batch| appender.push(&batch))?;
        self.replace(&copy, appender.finish()?)?;
        self.perform(&Operation::CopyIsCurrent { copy: copy.id })
    }

    /// Creates an object that belongs to nothing, and returns its id.
    ///
    /// # Errors
    /// The name is taken.
    pub fn create_object(&mut self, name: &str, uses: BTreeSet<u64>, definition: Definition) -> Result<u64> {
        self.add_object(Object { id: 0, name: name.into(), owner: None, uses, definition })
    }

    /// Creates an object that belongs to a table or another object. Without a name, it is the only one of its kind there.
    ///
    /// # Errors
    /// The name is taken.
    pub fn create_owned(&mut self, owner: u64, name: &str, definition: Definition) -> Result<u64> {
        self.add_object(Object { id: 0, name: name.into(), owner: Some(owner), uses: BTreeSet::new(), definition })
    }

    fn add_object(&mut self, mut object: Object) -> Result<u64> {
        let kind = object.kind();
        if kind == Kind::View {
            self.check_free(&object.name)?;
        } else if self.state.objects.named(kind, &object.name).is_some() {
            return Err(StoreError::invalid(format!("there is a {} {} already", kind.word(), object.name)));
        }
        self.prepare_write()?;
        object.id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let id = object.id;
        self.perform(&Operation::CreateObject { object })?;
        Ok(id)
    }

    /// Changes an object, whose new name is free.
    ///
    /// # Errors
    /// The object does not exist.
    pub fn change_object(&mut self, id: u64, change: impl FnOnce(&mut Object)) -> Result<()> {
        let found = self.state.objects.get(id).ok_or_else(|| StoreError::invalid(format!("no object number {id}")))?;
        let mut object = found.as_ref().clone();
        change(&mut object);
        match object == **found {
            true => Ok(()),
            false => self.perform(&Operation::ReplaceObjects { objects: vec![object] }),
        }
    }

    /// Drops an object with all that belongs to it.
    ///
    /// # Errors
    /// The object does not exist.
    pub fn drop_object(&mut self, id: u64) -> Result<()> {
        self.perform(&Operation::DropObject { object: id })
    }

    /// Sets on which objects a table depends.
    ///
    /// # Errors
    /// The table does not exist.
    pub fn set_uses(&mut self, table: &str, uses: BTreeSet<u64>) -> Result<()> {
        let table = self.table_or_none(table)?;
        match table.uses == uses {
            true => Ok(()),
            false => self.perform(&Operation::SetUses { table: table.id, uses }),
        }
    }

    /// Lets what depends on one table or object depend on another instead, which takes its place.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn use_instead(&mut self, old: u64, new: u64) -> Result<()> {
        let users = self.state.users(&[old]).map(|user| (user.id(), user.uses().clone())).collect::<Vec<_>>();
        for (id, mut uses) in users {
            uses.remove(&old);
            uses.insert(new);
            match self.state.objects.get(id).is_some() {
                true => self.change_object(id, |object| object.uses = uses)?,
                false => self.perform(&Operation::SetUses { table: id, uses })?,
            }
        }
        Ok(())
    }

    /// Removes all rows of a table and its copies.
    ///
    /// # Errors
    /// The table does not exist.
    pub fn truncate(&mut self, name: &str) -> Result<()> {
        let table = self.table(name)?;
        self.check_own_rows(&table)?;
        self.lock_table(&table, Mode::Exclusive)?;
        let all = table.segments.iter().enumerate().map(|(at, entry)| (at, live_rows(entry)));
        if self.is_referred_to(&table, &|_| true) {
            self.note_removed(&table, all);
        }
        self.remove_segments(&table)?;
        self.perform(&Operation::Changed { table: table.id })?;
        for copy in self.copies(&table) {
            self.remove_segments(&copy)?;
            self.perform(&Operation::CopyIsCurrent { copy: copy.id })?;
        }
        Ok(())
    }

    fn remove_segments(&mut self, table: &Table) -> Result<()> {
        let segments = table.segments.iter().map(|s| s.id).collect();
        self.perform(&Operation::RemoveSegments { table: table.id, segments })
    }

    /// Changes the design of rows to come. [`WriteTransaction::convert`] also rewrites existing ones.
    ///
    /// # Errors
    /// The table does not exist.
    pub fn set_design(&mut self, name: &str, design: Design) -> Result<()> {
        self.check_medium(&design)?;
        let table = self.table(name)?;
        self.lock_table(&table, Mode::Exclusive)?;
        self.perform(&Operation::SetDesign { table: table.id, design })
    }

    /// An appender for a table and its current copies, which may be used on any thread. Pass its result to
    /// [`WriteTransaction::append`].
    ///
    /// # Errors
    /// The table does not exist, or a clustering path is invalid.
    pub fn appender(&mut self, name: &str) -> Result<Appender> {
        let table = self.table(name)?;
        self.check_own_rows(&table)?;
        self.lock_table(&table, Mode::Shared)?;
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
    pub fn replacing_appender(&mut self, name: &str) -> Result<Appender> {
        let table = self.table(name)?;
        self.check_own_rows(&table)?;
        self.lock_table(&table, Mode::Shared)?;
        self.appender_of(&table, table.design.clone(), None)
    }

    /// `rewritten`: the number of existing rows of the table that are written again; `None` for new rows.
    pub(super) fn appender_of(&mut self, table: &Table, design: Design, rewritten: Option<u64>) -> Result<Appender> {
        self.appender_within(table, design, rewritten, self.write_bytes)
    }

    fn appender_within(
        &mut self,
        table: &Table,
        design: Design,
        rewritten: Option<u64>,
        write_bytes: usize,
    ) -> Result<Appender> {
        let files = self.files()?;
        let context = self.store.append_context(files, write_bytes, rewritten.is_none());
        let clustering = clustering_of(&|name| self.table(name).ok(), table, &design, rewritten)?;
        Ok(Appender::new(table.id, table.schema.clone(), design, clustering, context))
    }

    /// Adds the rows of an appender, and returns their number. [`WriteTransaction::check_keys`] checks their keys.
    ///
    /// # Errors
    /// The table was dropped meanwhile.
    pub fn append(&mut self, appended: Appended) -> Result<u64> {
        self.append_changed(appended, &|_| true)
    }

    /// The same for rows that replace others, of which only some columns have changed, by their positions.
    ///
    /// # Errors
    /// As for [`WriteTransaction::append`].
    pub fn append_changed(&mut self, appended: Appended, is_changed: &dyn Fn(usize) -> bool) -> Result<u64> {
        let schema = &self.state.table_by_id(appended.table).map_err(StoreError::Invalid)?.schema;
        for (at, key) in schema.unique_keys.iter().enumerate() {
            if schema.positions(&key.columns)?.into_iter().any(is_changed) {
                let added = self.added_keys.entry((appended.table, at)).or_default();
                added.extend(appended.segments.iter().map(|segment| segment.id));
            }
        }
        for (at, key) in schema.foreign_keys.iter().enumerate().filter(|(_, key)| key.enforced) {
            if schema.positions(&key.columns)?.into_iter().any(is_changed) {
                let added = self.added_references.entry((appended.table, at)).or_default();
                added.extend(appended.segments.iter().map(|segment| segment.id));
            }
        }
        if !schema.checks.is_empty() {
            let added = self.added_rows.entry(appended.table).or_default();
            added.extend(appended.segments.iter().map(|segment| segment.id));
        }
        self.append_kept(appended)
    }

    /// Counts all rows of a table as new ones, so that what was added to its schema since `old` is checked for them.
    pub(super) fn check_all_rows(&mut self, table: &Table, old: &TableSchema) {
        let schema = &table.schema;
        let segments = || table.segments.iter().map(|entry| entry.id);
        for (at, _) in schema.unique_keys.iter().enumerate().filter(|(_, key)| !old.unique_keys.contains(key)) {
            self.added_keys.entry((table.id, at)).or_default().extend(segments());
        }
        let references = schema.foreign_keys.iter().enumerate();
        for (at, _) in references.filter(|(_, key)| key.enforced && !old.foreign_keys.contains(key)) {
            self.added_references.entry((table.id, at)).or_default().extend(segments());
        }
        if schema.checks.iter().any(|check| !old.checks.contains(check)) {
            self.added_rows.entry(table.id).or_default().extend(segments());
        }
    }

    /// The rows that were added since the last call to tables with conditions: for each such table, its name and a
    /// snapshot in which it has only these rows.
    pub fn take_added_rows(&mut self) -> Vec<(String, Arc<Snapshot>)> {
        let mut taken = vec![];
        for (id, segments) in std::mem::take(&mut self.added_rows) {
            let Ok(name) = self.state.table_by_id(id).map(|table| table.name.clone()) else { continue };
            let mut state = self.state.clone();
            let only = |table: &mut Table| table.segments.retain(|entry| segments.contains(&entry.id));
            let copies: Vec<u64> = state.copies_of(id).map(|copy| copy.id).collect();
            copies.iter().for_each(|copy| {
                state.copies.remove(copy);
            });
            if state.change_table(id, only).is_ok() {
                self.store.give_resources(&mut state);
                let (state, base) = (Arc::new(state), Some(self.base.clone()));
                taken.push((name, Arc::new(Snapshot { state, base, history: None, _pin: None, _kept: None })));
            }
        }
        taken
    }

    /// Adds rows whose keys were in the table before.
    fn append_kept(&mut self, appended: Appended) -> Result<u64> {
        for copy in appended.copies {
            self.append_kept(copy)?;
        }
        let added = appended.segments.into_iter().map(NewSegment::entry).collect::<Vec<_>>();
        if !added.is_empty() {
            self.state.change_table(appended.table, |t| t.segments.extend(added)).map_err(StoreError::Invalid)?;
            self.is_changed = true;
        }
        Ok(appended.rows)
    }

    /// Deletes rows by the ids from a scan of [`WriteTransaction::snapshot`], and returns the number of rows that
    /// existed. Waits for other transactions that are changing one of these rows.
    ///
    /// # Errors
    /// The table does not exist, or see [`StoreError::Conflict`], [`StoreError::Deadlock`] and
    /// [`StoreError::LockTimeout`].
    pub fn delete(&mut self, name: &str, row_ids: impl IntoIterator<Item = u64>) -> Result<u64> {
        let table = self.table(name)?;
        let by_segment = by_segment(&table, row_ids)?;
        self.delete_locked(&table, by_segment)
    }

    fn delete_locked(&mut self, table: &Table, rows: BTreeMap<usize, RoaringBitmap>) -> Result<u64> {
        self.check_own_rows(table)?;
        self.lock_table(table, Mode::Shared)?;
        self.lock_rows(table, RowUse::Removed, &rows)?;
        if self.is_referred_to(table, &|_| true) {
            self.note_removed(table, rows.iter().map(|(at, rows)| (*at, rows.clone())));
        }
        self.delete_rows(table, rows)
    }

    /// The same for rows that others replace, which the same statement appends. Only some columns may have changed, by
    /// their positions. Keys that rows lose and others get are neither locked nor checked.
    ///
    /// # Errors
    /// As for [`WriteTransaction::delete`].
    pub fn delete_changed(
        &mut self,
        name: &str,
        row_ids: impl IntoIterator<Item = u64>,
        is_changed: &dyn Fn(usize) -> bool,
    ) -> Result<u64> {
        let table = self.table(name)?;
        self.check_own_rows(&table)?;
        let by_segment = by_segment(&table, row_ids)?;
        self.lock_table(&table, Mode::Shared)?;
        let has_changed = |columns: &[String]| Ok(table.schema.positions(columns)?.into_iter().any(is_changed));
        let unique = table.schema.unique_keys.iter().map(|key| has_changed(&key.columns));
        let changes_key = unique.collect::<Result<Vec<bool>>>()?.contains(&true);
        let foreign = table.schema.foreign_keys.iter().filter(|key| key.enforced);
        let refers = foreign.map(|key| has_changed(&key.columns)).collect::<Result<Vec<bool>>>()?.contains(&true);
        let how = if changes_key { RowUse::Removed } else { RowUse::Kept };
        self.lock_rows(&table, how, &by_segment)?;
        if changes_key || refers || self.is_referred_to(&table, is_changed) {
            self.note_removed(&table, by_segment.iter().map(|(at, rows)| (*at, rows.clone())));
        }
        self.delete_rows(&table, by_segment)
    }

    /// Locks rows by the ids from a scan of [`WriteTransaction::snapshot`], until the end of the transaction.
    ///
    /// # Errors
    /// As for [`WriteTransaction::delete`].
    pub fn lock_row_ids(&mut self, name: &str, row_ids: impl IntoIterator<Item = u64>) -> Result<()> {
        let table = self.table(name)?;
        let by_segment = by_segment(&table, row_ids)?;
        self.lock_table(&table, Mode::Shared)?;
        self.lock_rows(&table, RowUse::Kept, &by_segment)
    }

    /// Which rows are gone from the newest state of a table, by the ids from a scan of [`WriteTransaction::snapshot`]. Waits
    /// for other transactions that may remove one of them.
    ///
    /// # Errors
    /// As for [`WriteTransaction::delete`].
    pub fn gone(&self, name: &str, row_ids: impl IntoIterator<Item = u64>) -> Result<Vec<u64>> {
        let table = self.table(name)?;
        let by_segment = by_segment(&table, row_ids)?;
        let shared = self.shared_rows(&table, &by_segment);
        for (_, segment, rows) in &shared {
            self.store.transactions.wait_for_removal(self.id, *segment, rows, &self.waiting)?;
        }
        let newest = self.store.newest()?;
        if newest.sequence == self.base.sequence() {
            return Ok(vec![]);
        }
        let Ok(now) = newest.table_by_id(table.id) else {
            return Err(conflict(format!("table {} was dropped", table.name)));
        };
        let mut gone = vec![];
        for (at, segment, rows) in shared {
            if self.is_there(now, segment, rows.clone()) {
                continue;
            }
            let rows = rows.iter().filter(|row| !self.is_there(now, segment, RoaringBitmap::from_iter([*row])));
            gone.extend(rows.map(|row| row_id(at, row as usize)));
        }
        Ok(gone)
    }

    /// Deletes all rows of a table. Rows that others add at the same time remain.
    ///
    /// # Errors
    /// As for [`WriteTransaction::delete`].
    pub fn delete_all(&mut self, name: &str) -> Result<u64> {
        let table = self.table(name)?;
        let all = table.segments.iter().enumerate().map(|(at, entry)| (at, live_rows(entry))).collect();
        self.delete_locked(&table, all)
    }

    fn delete_rows(&mut self, table: &Table, by_segment: BTreeMap<usize, RoaringBitmap>) -> Result<u64> {
        let mut deleted = 0;
        let mut changed: BTreeMap<u64, RoaringBitmap> = BTreeMap::new();
        for (at, rows) in by_segment.into_iter().filter(|(_, rows)| !rows.is_empty()) {
            let entry = &table.segments[at];
            deleted += rows.len();
            changed.insert(entry.id, entry.deleted.as_deref().map_or_else(|| rows.clone(), |old| old | &rows));
        }
        if deleted > 0 {
            let change = |t: &mut Table| {
                for entry in &mut t.segments {
                    if let Some(rows) = changed.remove(&entry.id) {
                        entry.deleted = Some(Arc::new(rows));
                    }
                }
                t.segments.retain(|entry| entry.live_rows() > 0 || entry.rows == 0);
            };
            self.state.change_table(table.id, change).map_err(StoreError::Invalid)?;
            self.perform(&Operation::Changed { table: table.id })?;
        }
        Ok(deleted)
    }

    /// Those of some rows that others can see: the position and the id of their segment, and the rows in it.
    fn shared_rows<'r>(
        &self,
        table: &Table,
        by_segment: &'r BTreeMap<usize, RoaringBitmap>,
    ) -> Vec<(usize, u64, &'r RoaringBitmap)> {
        let Ok(base) = self.base.state.table_by_id(table.id) else { return vec![] };
        let is_shared = |id: u64| base.segments.iter().any(|entry| entry.id == id);
        let rows = by_segment.iter().map(|(at, rows)| (*at, table.segments[*at].id, rows));
        rows.filter(|(_, id, rows)| is_shared(*id) && !rows.is_empty()).collect()
    }

    /// Whether all of these rows are in a newer state of their table.
    fn is_there(&self, now: &Table, segment: u64, rows: RoaringBitmap) -> bool {
        let is_deleted = |(segment, rows): (&u64, &RoaringBitmap)| {
            let entry = now.segments.iter().find(|entry| entry.id == *segment);
            entry.is_none_or(|entry| entry.deleted.as_ref().is_some_and(|deleted| !deleted.is_disjoint(rows)))
        };
        let places = self.store.transactions.places(now, segment, rows);
        places.is_some_and(|places| !places.iter().any(is_deleted))
    }

    /// Locks rows that others can see, and fails if one of them was changed since the base.
    fn lock_rows(&self, table: &Table, how: RowUse, by_segment: &BTreeMap<usize, RoaringBitmap>) -> Result<()> {
        let rows = self.shared_rows(table, by_segment);
        for (_, segment, rows) in &rows {
            self.store.transactions.lock_rows(self.id, *segment, how, rows, &self.waiting)?;
        }
        let newest = self.store.newest()?;
        if newest.sequence == self.base.sequence() || rows.is_empty() {
            return Ok(());
        }
        let Ok(now) = newest.table_by_id(table.id) else {
            return Err(conflict(format!("table {} was dropped", table.name)));
        };
        match rows.into_iter().all(|(_, segment, rows)| self.is_there(now, segment, rows.clone())) {
            true => Ok(()),
            false => Err(conflict(format!("a row of table {} was changed", table.name))),
        }
    }

    /// Rewrites all rows of a table in another design.
    ///
    /// # Errors
    /// The table does not exist, a clustering path is invalid, or the medium fails.
    pub fn convert(&mut self, name: &str, design: Design) -> Result<()> {
        self.check_medium(&design)?;
        let table = self.table(name)?;
        self.lock_table(&table, Mode::Exclusive)?;
        let request = Arc::new(ScanRequest::columns((0..table.schema.columns.len()).collect()));
        let mut appender = self.appender_of(&table, design.clone(), Some(table.rows()))?;
        for_each_batch(&table, request, |_| true, |batch| appender.push(&batch))?;
        self.replace(&table, appender.finish()?)?;
        self.perform(&Operation::SetDesign { table: table.id, design })
    }

    /// Replaces all segments of a table by these.
    pub(super) fn replace(&mut self, table: &Table, appended: Appended) -> Result<()> {
        self.remove_segments(table)?;
        self.append_kept(appended).map(|_| ())
    }

    /// Makes the changes durable and visible, and returns the commit's sequence.
    ///
    /// # Errors
    /// Another transaction has changed the same rows or names, or the log cannot be written. The error says whether the
    /// outcome is known.
    pub fn commit(mut self) -> Result<u64> {
        if !self.is_changed {
            return Ok(self.base.sequence());
        }
        self.check_keys()?;
        self.write_own_hot_rows()?;
        for _ in 0..COMMIT_ATTEMPTS {
            if let Some(sequence) = self.try_commit()? {
                return Ok(sequence);
            }
            self.check_keys_again()?;
            self.write_own_hot_rows()?;
        }
        Err(conflict("other processes have committed again and again"))
    }

    /// Commits the changes, unless another process has committed since keys were checked.
    fn try_commit(&mut self) -> Result<Option<u64>> {
        let files = self.files()?;
        let (store, base, checked) = (self.store.clone(), self.base.clone(), self.checked);
        let mine = Arc::new(self.state.clone());
        let is_unchecked = Arc::new(AtomicBool::new(false));
        let told = is_unchecked.clone();
        let work = move |newest: &Newest<'_>| {
            let is_late = checked.is_some_and(|checked| newest.foreign > checked);
            told.store(is_late, Ordering::Release);
            if is_late {
                return Ok(Commit::default());
            }
            let places = |table: &Table, segment, rows| store.transactions.places(table, segment, rows);
            let takes = |run| !store.ended_runs.lock().contains(&run);
            rebase(&base.state, &mine, newest.state, &places, Some(&takes))
        };
        let sequence = self.store.commit_with_others(&files, self.syncs, Box::new(work))?;
        Ok((!is_unchecked.load(Ordering::Acquire)).then_some(sequence))
    }

    /// Notes that keys are being checked with what this process knows now of others.
    pub(super) fn note_check(&mut self) {
        self.checked.get_or_insert(self.store.foreign());
    }

    /// Forgets the checks so far.
    pub(super) fn forget_check(&mut self) {
        self.checked = None;
    }

    /// Joins the hot rows that this transaction has added, so that many small statements make few segments. The
    /// positions of these rows change. Called at the end of a statement.
    pub(super) fn join_own_hot_rows(&mut self) -> Result<()> {
        if !self.added_keys.is_empty() || !self.added_references.is_empty() || !self.added_rows.is_empty() {
            return Ok(());
        }
        let damaged = |reason| StoreError::Corrupt { file: "hot rows".into(), reason };
        let several = |table: &&Arc<Table>| self.own_hot_rows(table).nth(1).is_some();
        let tables: Vec<Arc<Table>> = self.state.all().filter(several).cloned().collect();
        for table in tables {
            let own: Vec<u64> = self.own_hot_rows(&table).map(|at| table.segments[at].id).collect();
            let mut segments: Vec<SegmentEntry> = Vec::with_capacity(table.segments.len());
            for entry in &table.segments {
                segments.push(entry.clone());
                // Only those that follow each other, so that rows stay in their order.
                while let [.., a, b] = segments.as_slice()
                    && own.contains(&a.id)
                    && own.contains(&b.id)
                    && let (Some(first), Some(second)) = (&a.hot, &b.hot)
                    && first.takes(first.rows(), second)
                {
                    let mut joined = SegmentEntry::of_hot(a.id, Arc::new(first.joined(second).map_err(damaged)?));
                    let moved = b.deleted.iter().flat_map(|rows| rows.iter()).map(|row| row + a.rows);
                    let deleted: RoaringBitmap = a.deleted.iter().flat_map(|rows| rows.iter()).chain(moved).collect();
                    joined.deleted = (!deleted.is_empty()).then(|| Arc::new(deleted));
                    segments.truncate(segments.len() - 2);
                    segments.push(joined);
                }
            }
            let change = |t: &mut Table| t.segments = segments;
            self.state.change_table(table.id, change).map_err(StoreError::Invalid)?;
        }
        Ok(())
    }

    /// The positions of the hot rows that this transaction has added to a table.
    fn own_hot_rows<'a>(&'a self, table: &'a Table) -> impl Iterator<Item = usize> + 'a {
        let entries = table.segments.iter().enumerate();
        let is_own = move |entry: &SegmentEntry| entry.is_hot() && self.is_own_segment(table.id, entry.id);
        entries.filter(move |(_, entry)| is_own(entry)).map(|(at, _)| at)
    }

    /// Writes the hot rows that this transaction has added as segments, if they are many.
    fn write_own_hot_rows(&mut self) -> Result<()> {
        let tables: Vec<u64> = self.state.all().map(|table| table.id).collect();
        for id in tables {
            let table = self.table_by_id(id)?;
            let own: Vec<usize> = self.own_hot_rows(&table).collect();
            let rows: u64 = own.iter().map(|at| table.segments[*at].live_rows()).sum();
            if rows <= HOT_RUN_ROWS as u64 || table.design.medium == MediumKind::Pmem {
                continue;
            }
            let mut appender = self.appender_of(&table, table.design.clone(), Some(rows))?;
            let request = Arc::new(ScanRequest::columns((0..table.schema.columns.len()).collect()));
            for_each_batch(&table, request, |unit| own.contains(&unit.segment), |batch| appender.push(&batch))?;
            let segments = own.iter().map(|at| table.segments[*at].id).collect();
            self.perform(&Operation::RemoveSegments { table: table.id, segments })?;
            self.append_kept(appender.finish()?)?;
        }
        Ok(())
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    pub(super) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    pub(super) fn write_bytes(&self) -> usize {
        self.write_bytes
    }

    /// All tables, including this transaction's changes.
    pub(super) fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.state.tables.values()
    }

    /// Whether other transactions can see a table.
    pub(super) fn is_shared(&self, table: u64) -> bool {
        self.base.state.table_by_id(table).is_ok()
    }

    /// Whether a segment of a table has rows that only this transaction sees.
    pub(super) fn is_own_segment(&self, table: u64, segment: u64) -> bool {
        let base = self.base.state.table_by_id(table).ok();
        base.is_none_or(|base| base.segments.iter().all(|entry| entry.id != segment))
    }

    /// The number of the newest commit, and a table as it would be if this transaction committed now.
    ///
    /// # Errors
    /// Another transaction has changed the same.
    pub(super) fn newest_view(&self, table: u64) -> Result<(u64, Arc<Table>)> {
        let newest = self.store.newest()?;
        if newest.sequence == self.base.sequence() {
            return Ok((newest.sequence, self.table_by_id(table)?));
        }
        let places = |table: &Table, segment, rows| self.store.transactions.places(table, segment, rows);
        let commit = rebase(&self.base.state, &self.state, &newest, &places, None)?;
        let state = commit.apply(&newest, self.store.stamp()).map_err(StoreError::Invalid)?;
        let view = state.table_by_id(table).map_err(StoreError::Invalid)?;
        Ok((newest.sequence, self.with_resources(view)))
    }
}

/// The existing rows among some row ids, by the position of their segment.
fn by_segment(table: &Table, row_ids: impl IntoIterator<Item = u64>) -> Result<BTreeMap<usize, RoaringBitmap>> {
    let mut by_segment: BTreeMap<usize, RoaringBitmap> = BTreeMap::new();
    for id in row_ids {
        let (segment, row) = split_row_id(id);
        by_segment.entry(segment).or_default().insert(row);
    }
    for (at, rows) in &mut by_segment {
        let entry = table.segments.get(*at).ok_or_else(|| StoreError::invalid("a row id of no segment"))?;
        if let Some(deleted) = &entry.deleted {
            *rows -= deleted.as_ref();
        }
    }
    Ok(by_segment)
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

impl Drop for WriteTransaction {
    fn drop(&mut self) {
        self.store.transactions.end(self.id);
    }
}
