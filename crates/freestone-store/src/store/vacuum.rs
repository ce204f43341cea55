//! VACUUM: rewrites segments with many deletions and small segments, then removes the files that nobody needs.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

use super::commit::{Commit, Operation};
use super::files::NewFiles;
use super::group::Newest;
use super::locks::Mode;
use super::merge::Compaction;
use super::runs;
use super::state::State;
use super::{Snapshot, Store};
use crate::cluster::{Tables, is_clustered};
use crate::error::{Result, StoreError};
use crate::limits::{SEGMENT_ROWS, SPARE_BYTES};
use crate::log::{Horizon, LogWriter};
use crate::media::{Medium, MediumError};
use crate::table::{Table, segment_file};

/// The results of a vacuum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VacuumReport {
    /// The number of segments that were rewritten.
    pub segments_rewritten: usize,
    /// The number of files that were removed.
    pub files_removed: usize,
    /// The number of files that live readers of older snapshots still need.
    pub files_kept_for_readers: usize,
}

impl Store {
    /// Rewrites segments with deleted rows and small segments, of one table or all, and removes files that neither the
    /// current state nor any live reader of any process needs. Skips tables that an open transaction has locked as a
    /// whole.
    ///
    /// # Errors
    /// The table does not exist, another process writes, or the medium fails.
    pub fn vacuum(&self, table: Option<&str>) -> Result<VacuumReport> {
        let _maintenance = self.maintenance.lock();
        self.open_log()?;
        let mut report = VacuumReport::default();
        let name = table.map(str::to_owned);
        self.end_runs(move |of| of.copy_of.is_some() || name.as_ref().is_none_or(|name| *name == of.name))?;
        if self.removal_is_due() {
            // What is written next may need the space.
            self.remove_files(&mut report)?;
        }
        let snapshot = self.snapshot()?;
        let tables: Vec<Arc<Table>> = match table {
            Some(name) => {
                vec![snapshot.table(name).cloned().ok_or_else(|| StoreError::invalid(format!("no table {name}")))?]
            }
            None => snapshot.tables().cloned().collect(),
        };
        for table in tables {
            report.segments_rewritten += self.tidy(&snapshot, &table)?;
            for copy in snapshot.copies(&table) {
                report.segments_rewritten +=
                    if copy.is_current() { self.tidy(&snapshot, copy)? } else { self.refill(&table, copy)? };
            }
        }
        drop(snapshot);
        self.remove_files(&mut report)?;
        Ok(report)
    }

    /// Whether files that no table needs any more have too many bytes for the next commit to add to them: as
    /// many as the tables have, and at least [`SPARE_BYTES`].
    pub fn removal_is_overdue(&self) -> bool {
        let Ok(newest) = self.newest() else { return false };
        let removed: u64 = newest.removed.values().map(|removed| removed.bytes).sum();
        removed > SPARE_BYTES && removed > newest.file_segments().map(|segment| segment.bytes).sum()
    }

    /// Rewrites the segments for which this is worthwhile, and returns their number.
    fn tidy(&self, snapshot: &Snapshot, table: &Arc<Table>) -> Result<usize> {
        let which = worth_rewriting(&|name| snapshot.table(name).cloned(), table)?;
        let (write_bytes, threads) = (self.options.write_bytes, self.options.threads);
        let compaction = Compaction { which: &which, write_bytes, threads, goes_on: &|| true };
        Ok(if !which.is_empty() && self.compact(table, &compaction)? { which.len() } else { 0 })
    }

    /// Writes all rows of a copy that is not current, and returns its previous number of segments.
    fn refill(&self, table: &Table, copy: &Table) -> Result<usize> {
        let mut transaction = self.write()?;
        if !self.transactions.try_lock_table(transaction.id(), table.id, Mode::Exclusive) {
            return Ok(0);
        }
        transaction.refresh()?;
        if transaction.table_by_id(copy.id).is_err() {
            return Ok(0);
        }
        transaction.fill_copy(copy.id)?;
        transaction.commit()?;
        Ok(copy.segments.len())
    }
}

/// Segments with many deleted rows; small segments, if there are several; and all segments if the rows should be
/// clustered and are not, or not any more.
fn worth_rewriting(tables: Tables<'_>, table: &Table) -> Result<Vec<usize>> {
    let all = (0..table.segments.len()).filter(|at| !table.segments[*at].is_in_pool());
    if !table.design.cluster.is_empty() && !is_clustered(tables, table)? {
        return Ok(all.collect());
    }
    let holes = |at: &usize| {
        table.segments[*at].deleted.as_ref().is_some_and(|d| d.len() * 20 >= table.segments[*at].rows.into())
    };
    // A segment of wide rows ends before it has all its rows, and would end there again.
    let small = |at: &usize| table.segments[*at].live_rows() < SEGMENT_ROWS as u64 / 8;
    let is_hot = |at: &usize| table.segments[*at].is_hot();
    let several = all.clone().filter(|at| small(at)).count() > 1;
    Ok(all.filter(|at| holes(at) || is_hot(at) || several && small(at)).collect())
}

impl Store {
    /// Whether this process writes and there are files that no table needs any more.
    pub fn removal_is_due(&self) -> bool {
        self.history.prune();
        // A commit under way is followed by another call.
        let writes = self.writer.try_lock().is_some_and(|log| log.as_ref().is_some_and(|log| !log.is_poisoned()));
        writes && self.newest().is_ok_and(|newest| !newest.removed.is_empty())
    }

    /// Removes the files of removed segments that no reader needs any more, as VACUUM does. Returns whether there are
    /// others, which readers of older snapshots still need.
    ///
    /// # Errors
    /// The medium fails.
    pub fn remove_unneeded_files(&self) -> Result<bool> {
        // A vacuum does the same.
        let Some(_maintenance) = self.maintenance.try_lock() else { return Ok(true) };
        if !self.removal_is_due() {
            return Ok(false);
        }
        let newest = self.newest()?;
        let horizon = Horizon::observe(&self.pins, newest.sequence)?;
        let mut report = VacuumReport::default();
        if newest.removed.values().any(|removed| horizon.may_remove(removed.by)) {
            self.remove_files(&mut report)?;
        } else {
            report.files_kept_for_readers = newest.removed.len();
        }
        Ok(report.files_kept_for_readers > 0)
    }

    /// Removes the files of removed segments, as far as no reader needs them, and files that no commit names.
    fn remove_files(&self, report: &mut VacuumReport) -> Result<()> {
        if let Some(log) = &self.shared {
            return self.remove_shared(log, report);
        }
        // A commit that removed segments must not be lost when their files are gone.
        let durable = self.sync_log()?;
        let (store, removal) = (self.clone(), Arc::new(Mutex::new(*report)));
        let (counted, files) = (removal.clone(), Arc::new(NewFiles::new(self.resources.clone())));
        let work = move |newest: &Newest<'_>| {
            let mut report = counted.lock();
            let gone = store.remove_unneeded(newest, durable, &mut report)?;
            let mut commit = Commit::default();
            if !gone.is_empty() {
                commit.push(Operation::Forget { segments: gone });
            }
            Ok(commit)
        };
        let committed = self.commit_with_others(&files, true, Box::new(work));
        *report = *removal.lock();
        // If there is still no space for it, the next removal makes it again.
        self.writer.lock().iter_mut().for_each(LogWriter::keep_reserve);
        committed.map(|_| ())
    }

    /// Removes files, and returns the removed segments that can be forgotten. `durable` is the last commit that cannot be
    /// lost.
    fn remove_unneeded(&self, newest: &Newest<'_>, durable: u64, report: &mut VacuumReport) -> Result<Vec<u64>> {
        let medium = &self.resources.medium;
        let horizon = Horizon::observe(&self.pins, newest.visible.min(durable))?;
        report.files_removed += self.remove_orphans(newest.state)?;
        report.files_kept_for_readers = 0;
        let mut gone = vec![];
        for (segment, removed) in &newest.state.removed {
            if horizon.may_remove(removed.by) {
                gone.push(*segment);
            } else {
                report.files_kept_for_readers += 1;
            }
        }
        for id in &gone {
            match medium.remove(&segment_file(*id)) {
                Ok(()) => report.files_removed += 1,
                // An earlier vacuum removed it, and was interrupted before it could record that.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(StoreError::from(error)),
            }
            self.resources.cache.invalidate_file(*id);
        }
        Ok(gone)
    }

    /// Removes files of killed or failed transactions, which no commit names and no open transaction is writing, and
    /// returns their number. The caller must hold the log.
    pub(super) fn remove_orphans(&self, newest: &State) -> Result<usize> {
        let medium = &self.resources.medium;
        let mut found = unknown_segments(medium, newest)?;
        found.extend(medium.list(runs::FOLDER)?);
        // The list of files was read before this, so it does not contain files that are created later.
        let unnamed = self.resources.unnamed.lock();
        let in_use: HashSet<String> =
            unnamed.ids.iter().flat_map(|id| [segment_file(*id), runs::run_file(*id)]).collect();
        drop(unnamed);
        let mut removed = 0;
        for name in found.into_iter().filter(|name| !in_use.contains(name)) {
            match medium.remove(&name) {
                Err(error) if !error.is_not_found() => return Err(StoreError::from(error)),
                _ => removed += 1,
            }
        }
        Ok(removed)
    }
}

/// The segment files that no commit of a state names, neither as a table's nor as removed.
pub(super) fn unknown_segments(medium: &Arc<dyn Medium>, state: &State) -> Result<Vec<String>, MediumError> {
    let known: HashSet<u64> = state.segment_files().chain(state.removed.keys().copied()).collect();
    let is_unknown = |name: &String| name.ends_with(".seg") && segment_id(name).is_none_or(|id| !known.contains(&id));
    Ok(medium.list("segments/")?.into_iter().filter(is_unknown).collect())
}

/// The id of the segment in a file.
pub(super) fn segment_id(name: &str) -> Option<u64> {
    let hex = name.strip_prefix("segments/")?.strip_suffix(".seg")?;
    let id = u64::from_str_radix(hex, 16).ok()?;
    (segment_file(id) == name).then_some(id)
}
