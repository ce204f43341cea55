//! Compaction of clustered runs, concurrent with readers and writers. Rows that are appended to a clustered table are
//! stored in segments of their own, which cover the whole space of the dimensions, and a scan reads a part of each.
//! Runs of similar size become one, so that each row is rewritten only a few times, however many loads there are.
//!
//! The new segments are written without the writer lock. Then a transaction replaces the old ones, if they have not
//! changed.

use std::sync::Arc;

use parking_lot::Mutex;

use super::appender::{Appended, Appender};
use super::write::{WriteTransaction, clustering_of};
use super::{Snapshot, Store};
use crate::error::Result;
use crate::limits::COMPACTION_RUNS;
use crate::scan::{ScanRequest, for_each_batch};
use crate::table::{SegmentEntry, Table, segment_file};

impl Store {
    /// Merges runs of one clustered table, if one has several of similar size, with at most `write_bytes` of memory.
    /// Returns whether there may be more to do, for example because a writer changed the runs meanwhile. `goes_on` is
    /// called repeatedly; when it returns false, the merge is abandoned.
    ///
    /// # Errors
    /// The medium fails, or another process writes.
    pub fn merge_runs(&self, write_bytes: usize, goes_on: impl Fn() -> bool) -> Result<bool> {
        // A vacuum does the same, and it removes files that no commit names, such as those of a merge in progress.
        let Some(_maintenance) = self.maintenance.try_lock() else { return Ok(false) };
        let snapshot = self.snapshot()?;
        for table in snapshot.state.all() {
            let which = self.due(table)?;
            if !which.is_empty() {
                return self.merge(&snapshot, table, &which, write_bytes, goes_on);
            }
        }
        Ok(false)
    }

    /// Whether [`Store::merge_runs`] has something to do.
    pub fn merge_is_due(&self) -> bool {
        let Ok(snapshot) = self.snapshot() else { return false };
        snapshot.state.all().any(|table| self.due(table).is_ok_and(|which| !which.is_empty()))
    }

    fn merge(
        &self,
        snapshot: &Snapshot,
        table: &Arc<Table>,
        which: &[usize],
        write_bytes: usize,
        goes_on: impl Fn() -> bool,
    ) -> Result<bool> {
        let files = Unnamed { store: self, created: Arc::default() };
        let merged = self.write_merged(snapshot, table, which, write_bytes, &files, goes_on);
        if merged.is_err() {
            // For example, rows have lost the rows that they reference. VACUUM reports that.
            *self.refused.lock() = identity(table, which);
        }
        let Some(appended) = merged? else { return Ok(false) };
        let mut transaction = self.write()?;
        if !still_there(&transaction, table, which) || !files.are_there() {
            return Ok(true);
        }
        transaction.replace(table, which, appended)?;
        transaction.own(files.take());
        transaction.commit()?;
        Ok(true)
    }

    /// The rows of segments as one run. `None` if the merge was abandoned.
    fn write_merged(
        &self,
        snapshot: &Snapshot,
        table: &Arc<Table>,
        which: &[usize],
        write_bytes: usize,
        files: &Unnamed<'_>,
        goes_on: impl Fn() -> bool,
    ) -> Result<Option<Appended>> {
        let rows = which.iter().map(|at| table.segments[*at].live_rows()).sum();
        let mut context = self.append_context(files.created.clone(), write_bytes, false);
        // The other threads are for statements that a user waits for.
        context.threads = 1;
        let tables = |name: &str| snapshot.table(name).cloned();
        let clustering = clustering_of(&tables, table, &table.design, Some(rows))?;
        let mut appender = Appender::new(table.id, table.schema.clone(), table.design.clone(), clustering, context);
        let request = Arc::new(ScanRequest::columns((0..table.schema.columns.len()).collect()));
        let mut stopped = false;
        for_each_batch(
            table,
            request,
            |unit| which.contains(&unit.segment),
            |batch| {
                stopped = stopped || !goes_on();
                if stopped { Ok(()) } else { appender.push(&batch) }
            },
        )?;
        if stopped { Ok(None) } else { appender.finish().map(Some) }
    }

    /// The segments of a table that are to become one run, unless that failed before.
    fn due(&self, table: &Table) -> Result<Vec<usize>> {
        if table.design.cluster.is_empty() {
            return Ok(vec![]);
        }
        let which = due(&runs(table)?);
        Ok(if *self.refused.lock() == identity(table, &which) { vec![] } else { which })
    }
}

/// Files that no commit names yet. They are removed unless a transaction takes them.
struct Unnamed<'a> {
    store: &'a Store,
    created: Arc<Mutex<Vec<u64>>>,
}

impl Unnamed<'_> {
    /// Whether nobody removed them, as opening a log again does.
    fn are_there(&self) -> bool {
        self.created.lock().iter().all(|id| self.store.resources.medium.open(&segment_file(*id)).is_ok())
    }

    fn take(&self) -> Vec<u64> {
        std::mem::take(&mut self.created.lock())
    }
}

impl Drop for Unnamed<'_> {
    fn drop(&mut self) {
        for id in self.take() {
            // If it cannot be removed now, the next vacuum removes it.
            let _ = self.store.resources.medium.remove(&segment_file(id));
        }
    }
}

fn identity(table: &Table, which: &[usize]) -> Vec<u64> {
    which.iter().map(|at| table.segments[*at].id).collect()
}

/// Whether the table still has these segments, with the same deleted rows and the same layout.
fn still_there(transaction: &WriteTransaction<'_>, table: &Table, which: &[usize]) -> bool {
    let Ok(now) = transaction.table_by_id(table.id) else { return false };
    let is_same = |then: &SegmentEntry| {
        now.segments.iter().any(|entry| entry.id == then.id && entry.deleted.as_deref() == then.deleted.as_deref())
    };
    now.design == table.design && now.schema == table.schema && which.iter().all(|at| is_same(&table.segments[*at]))
}

/// The segments of the runs that are to become one: those of the smallest size class with `COMPACTION_RUNS` runs, and all smaller
/// ones.
fn due(runs: &[Run]) -> Vec<usize> {
    let mut runs: Vec<&Run> = runs.iter().collect();
    runs.sort_by_key(|run| run.rows);
    let classes: Vec<u32> = runs.iter().map(|run| run.rows.max(1).ilog(COMPACTION_RUNS as u64)).collect();
    let Some(full) = classes.windows(COMPACTION_RUNS).position(|like| like[0] == like[COMPACTION_RUNS - 1]) else {
        return vec![];
    };
    let merged = classes.partition_point(|class| *class <= classes[full]);
    let mut which: Vec<usize> = runs[..merged].iter().flat_map(|run| run.segments.clone()).collect();
    which.sort_unstable();
    which
}

/// The segments of one append. Their keys ascend from the first to the last.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    segments: Vec<usize>,
    rows: u64,
    last_key: Option<u64>,
}

/// The runs of a table, without those in the log.
fn runs(table: &Table) -> Result<Vec<Run>> {
    let mut runs: Vec<Run> = vec![];
    for (at, entry) in table.segments.iter().enumerate().filter(|(_, entry)| entry.pending.is_none()) {
        let keys = table.open_segment(at)?.footer.description.cluster_keys;
        let last_key = keys.map(|(_, last)| last);
        match runs.last_mut() {
            Some(run) if run.last_key.is_some() && run.last_key <= keys.map(|(first, _)| first) => {
                run.segments.push(at);
                run.rows += entry.live_rows();
                run.last_key = last_key;
            }
            _ => runs.push(Run { segments: vec![at], rows: entry.live_rows(), last_key }),
        }
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due_of(rows: &[u64]) -> Vec<usize> {
        let run = |(at, rows): (usize, &u64)| Run { segments: vec![at], rows: *rows, last_key: None };
        due(&rows.iter().enumerate().map(run).collect::<Vec<_>>())
    }

    #[test]
    fn runs_of_like_size_are_due_with_all_smaller_ones() {
        assert_eq!(due_of(&[]), [0; 0]);
        assert_eq!(due_of(&[5000, 70, 1_000_000, 6000, 7000]), [0; 0]);
        assert_eq!(due_of(&[5000, 70, 1_000_000, 6000, 7000, 8000]), [0, 1, 3, 4, 5]);
        assert_eq!(due_of(&[0, 0, 0, 0, 9]), [0, 1, 2, 3]);
    }

    #[test]
    fn loads_rewrite_each_row_a_few_times() {
        let (mut runs, mut rewritten) = (vec![], 0);
        for _ in 0..256 {
            runs.push(20_000);
            loop {
                let which = due_of(&runs);
                let merged: u64 = which.iter().map(|at| runs[*at]).sum();
                if which.is_empty() {
                    break;
                }
                let rest = runs.iter().enumerate().filter(|(at, _)| !which.contains(at)).map(|(_, rows)| *rows);
                runs = rest.chain([merged]).collect();
                rewritten += merged;
            }
            assert!(runs.len() <= 3 * 5, "{runs:?}");
        }
        assert!(rewritten <= 5 * 256 * 20_000, "{rewritten}");
    }
}
