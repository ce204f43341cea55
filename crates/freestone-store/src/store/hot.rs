//! Merging hot rows: they become segments in the design of their table when they are many, or when nobody has written for
//! a while. Nobody waits for that. The runs to be merged take no more rows from then on; rows to come go to new runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Store;
use super::commit::Commit;
use super::files::NewFiles;
use super::group::Newest;
use super::merge::{Compaction, adjacent};
use super::state::State;
use crate::design::PAGE_SIZE_MIN;
use crate::error::Result;
use crate::limits::{HOT_BYTES, HOT_BYTES_ALL, HOT_BYTES_IDLE, LOG_BYTES_IDLE, SHARED_HOT_BYTES};
use crate::table::Table;

/// If a table has this number of segments in files that are not larger than twice the hot rows, they are merged with
/// these, so that idle times between small inserts do not make more and more small segments.
const SMALL_SEGMENTS: usize = 8;

/// The bytes of the hot rows of a table.
pub(super) fn bytes(table: &Table) -> u64 {
    table.segments.iter().filter(|entry| entry.is_hot()).map(|entry| entry.bytes).sum()
}

/// Whether a table has this many bytes of hot rows, and enough to fill a page of each of its groups.
pub(super) fn is_due(table: &Table, least: u64) -> bool {
    let groups = table.design.groups(&table.schema).len() as u64;
    bytes(table) >= least.max((groups * u64::from(PAGE_SIZE_MIN)).min(HOT_BYTES))
}

/// The bytes from which on the hot rows of a table are merged although there is writing.
fn least(state: &State) -> u64 {
    let all: u64 = state.all().map(|table| bytes(table)).sum();
    if all >= HOT_BYTES_ALL { HOT_BYTES_IDLE } else { HOT_BYTES }
}

impl Store {
    /// The same for this store: in a bucket, each process that begins reads the hot rows of all tables.
    pub(super) fn least(&self, state: &State) -> u64 {
        if self.is_shared() { least(state).min(SHARED_HOT_BYTES) } else { least(state) }
    }

    /// Whether this process writes and there is work for [`Store::merge_when_idle`].
    pub fn has_hot_rows(&self) -> bool {
        let Some(writer) = self.writer.try_lock() else { return true };
        let Some(log) = writer.as_ref().filter(|log| !log.is_poisoned()) else { return false };
        let is_long = log.len() > LOG_BYTES_IDLE && log.len_since_base() > 0;
        drop(writer);
        is_long || self.newest().is_ok_and(|newest| newest.all().any(|table| is_due(table, HOT_BYTES_IDLE)))
    }

    /// Merges hot rows that are worth a segment, and folds the log: for times when nobody writes.
    ///
    /// # Errors
    /// The medium fails, or another process writes.
    pub fn merge_when_idle(&self, write_bytes: usize, goes_on: impl Fn() -> bool) -> Result<()> {
        let Some(_maintenance) = self.maintenance.try_lock() else { return Ok(()) };
        self.merge_hot_rows(HOT_BYTES_IDLE, write_bytes, &goes_on)?;
        let mut writer = self.writer.lock();
        if let Some(log) = writer.as_mut().filter(|log| !log.is_poisoned() && log.len() > LOG_BYTES_IDLE)
            && log.len_since_base() > 0
        {
            let newest = self.newest()?;
            log.checkpoint(&Commit::of_state(&newest).to_bytes())?;
        }
        Ok(())
    }

    /// Merges the hot rows of tables and copies that have at least `least` bytes of them. Returns whether there were
    /// some.
    pub(super) fn merge_hot_rows(&self, least: u64, write_bytes: usize, goes_on: &dyn Fn() -> bool) -> Result<bool> {
        let is_due = move |table: &Table| is_due(table, least);
        if !self.newest()?.all().any(|table| is_due(table)) {
            return Ok(false);
        }
        self.end_runs(is_due)?;
        let snapshot = self.snapshot()?;
        let ended: BTreeSet<u64> = self.ended_runs.lock().iter().copied().collect();
        let mut merged = false;
        for table in snapshot.state.all().filter(|table| is_due(table)) {
            let which = with_small_segments(table, &ended);
            // The other threads are left to users' statements.
            merged |= self.compact(table, &Compaction { which: &which, write_bytes, threads: 1, goes_on })?;
        }
        Ok(merged)
    }

    /// Ends the runs of hot rows of some tables and copies: they take no more rows.
    pub(super) fn end_runs(&self, of: impl Fn(&Table) -> bool + Send + 'static) -> Result<()> {
        let store = self.clone();
        let work = move |newest: &Newest<'_>| {
            let runs = |table: &Table| -> Vec<u64> {
                table.segments.iter().filter(|entry| entry.is_hot()).map(|entry| entry.id).collect()
            };
            let all: BTreeSet<u64> = newest.state.all().flat_map(|table| runs(table)).collect();
            let mut ended = store.ended_runs.lock();
            ended.retain(|run| all.contains(run));
            ended.extend(newest.state.all().filter(|table| of(table)).flat_map(|table| runs(table)));
            Ok(Commit::default())
        };
        // Within a commit no other one adds rows.
        let files = Arc::new(NewFiles::new(self.resources.clone()));
        self.commit_with_others(&files, false, Box::new(work)).map(drop)
    }
}

/// The positions of hot rows that are to be merged, and of small segments in files.
fn with_small_segments(table: &Table, ended: &BTreeSet<u64>) -> Vec<usize> {
    let is_hot = |at: &usize| table.segments[*at].is_hot() && ended.contains(&table.segments[*at].id);
    let all = 0..table.segments.len();
    let rows: u64 = all.clone().filter(is_hot).map(|at| table.segments[at].live_rows()).sum();
    let is_small = |at: &usize| {
        let entry = &table.segments[*at];
        entry.is_in_file() && table.design.cluster.is_empty() && entry.live_rows() <= 2 * rows
    };
    let takes_small = all.clone().filter(is_small).count() >= SMALL_SEGMENTS;
    let which = all.filter(|at| is_hot(at) || takes_small && is_small(at)).collect();
    // Small segments alone are not worth it.
    adjacent(table, which, is_hot)
}
