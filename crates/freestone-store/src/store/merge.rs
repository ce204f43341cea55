//! Compaction, concurrent with readers and writers: segments are replaced by new ones with the same rows.
//!
//! Rows that are appended to a clustered table are stored in segments of their own, which cover the whole space of the
//! dimensions, so a scan reads a part of each. Runs of similar size are merged into one, so each row is rewritten only
//! a few times, even after many loads. Hot rows become segments in the same way ([`super::hot`]).
//!
//! The new segments are written without a lock of the log. A commit then replaces the old ones. Rows that were deleted
//! in the meantime are deleted in the new segments, too, and open transactions receive the new positions of their rows.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use parking_lot::Mutex;
use roaring::RoaringBitmap;

use super::appender::{Appender, NewSegment};
use super::commit::{Commit, Operation};
use super::group::Newest;
use super::locks::{Mode, Moved, NO_PLACE, Transactions};
use super::write::{WriteTransaction, clustering_of};
use super::{Store, hot};
use crate::error::{Result, StoreError};
use crate::limits::{COMPACTION_RUNS, SPARE_BYTES};
use crate::scan::{ScanRequest, for_each_batch, split_row_id};
use crate::table::{SegmentEntry, Table};

/// The parameters of a rewrite.
pub(super) struct Compaction<'a> {
    pub which: &'a [usize],
    pub write_bytes: usize,
    pub threads: usize,
    /// Called repeatedly; when it returns false, the work is abandoned.
    pub goes_on: &'a dyn Fn() -> bool,
}

impl Store {
    /// Merges the hot rows of tables that have many, or runs of one clustered table, if one has several of similar size,
    /// with at most `write_bytes` of memory.
    /// Returns whether there may be more to do. `goes_on` is called repeatedly; when it returns false, the merge is
    /// abandoned.
    ///
    /// # Errors
    /// The medium fails, or another process writes.
    pub fn merge_runs(&self, write_bytes: usize, goes_on: impl Fn() -> bool) -> Result<bool> {
        // VACUUM, which holds this lock, does the same work.
        let Some(_maintenance) = self.maintenance.try_lock() else { return Ok(false) };
        let newest = self.newest()?;
        let least = self.least(&newest);
        if self.merge_hot_rows(least, write_bytes, &goes_on)? || self.relieve_pool(write_bytes, &goes_on)? {
            return Ok(true);
        }
        self.compact_first(write_bytes, &goes_on, |table| self.due(table))
    }

    /// Rewrites the segments of a table that are mostly deleted rows, if that is most of the table. Returns whether it did.
    ///
    /// # Errors
    /// The medium fails, or another process writes.
    pub fn merge_deleted(&self, write_bytes: usize) -> Result<bool> {
        let Some(_maintenance) = self.maintenance.try_lock() else { return Ok(false) };
        self.compact_first(write_bytes, &|| true, |table| Ok(self.unless_refused(table, mostly_deleted(table))))
    }

    /// Whether [`Store::merge_deleted`] has something to do.
    pub fn merge_is_overdue(&self) -> bool {
        let Ok(newest) = self.newest() else { return false };
        newest.all().any(|table| !self.unless_refused(table, mostly_deleted(table)).is_empty())
    }

    /// Rewrites the segments of the first table that has some to be rewritten. Returns whether it did.
    fn compact_first(
        &self,
        write_bytes: usize,
        goes_on: &dyn Fn() -> bool,
        due: impl Fn(&Table) -> Result<Vec<usize>>,
    ) -> Result<bool> {
        let snapshot = self.snapshot()?;
        for table in snapshot.state.all() {
            let which = due(table)?;
            if which.is_empty() {
                continue;
            }
            // The other threads are left to users' statements.
            let compaction = Compaction { which: &which, write_bytes, threads: 1, goes_on };
            let merged = self.compact(table, &compaction);
            if merged.is_err() {
                // For example, referenced rows may be missing. VACUUM reports this.
                *self.refused.lock() = identity(table, &which);
            }
            return merged;
        }
        Ok(false)
    }

    /// Whether [`Store::merge_runs`] has something to do.
    pub fn merge_is_due(&self) -> bool {
        let Ok(newest) = self.newest() else { return false };
        let least = self.least(&newest);
        self.pool_is_short()
            || newest
                .all()
                .any(|table| hot::is_due(table, least) || self.due(table).is_ok_and(|which| !which.is_empty()))
    }

    /// Rewrites segments of a table in its design. Returns whether they were replaced: not if the table is locked as a
    /// whole, or was changed as a whole meanwhile.
    pub(super) fn compact(&self, table: &Arc<Table>, compaction: &Compaction<'_>) -> Result<bool> {
        let mut transaction = self.write()?;
        let of = table.copy_of.as_ref().map_or(table.id, |of| of.table);
        if !self.transactions.try_lock_table(transaction.id(), of, Mode::Shared) {
            return Ok(false);
        }
        // While the lock is held, the table cannot be replaced as a whole. So its segments still exist, unless another
        // compaction has replaced them.
        let Some(segments) = transaction.rewritten(table, compaction)? else { return Ok(false) };
        let old: Vec<SegmentEntry> = compaction.which.iter().map(|at| table.segments[*at].clone()).collect();
        let places = Places::of(compaction.which, &old, &segments);
        let replaced = Arc::new(Mutex::new(false));
        let (store, table, told) = (self.clone(), table.clone(), replaced.clone());
        let work = move |newest: &Newest<'_>| {
            let commit = replacement(newest, &table, &old, &segments, &places)?;
            if !commit.operations.is_empty() {
                places.tell(&store.transactions, newest.sequence, &segments);
                *told.lock() = true;
            }
            Ok(commit)
        };
        let files = transaction.files()?;
        // Until it is durable, the old segments are there, and so are their files.
        self.commit_with_others(&files, false, Box::new(work))?;
        let replaced = *replaced.lock();
        Ok(replaced)
    }

    /// The segments of a table that are to become one run, or those with more deleted than live rows, if these are
    /// most of the table; unless that failed before.
    fn due(&self, table: &Table) -> Result<Vec<usize>> {
        let mut which = mostly_deleted(table);
        if which.is_empty() && !table.design.cluster.is_empty() {
            which = due(&runs(table)?);
        }
        Ok(self.unless_refused(table, which))
    }

    fn unless_refused(&self, table: &Table, which: Vec<usize>) -> Vec<usize> {
        if !which.is_empty() && *self.refused.lock() == identity(table, &which) { vec![] } else { which }
    }
}

/// The segments in files with more deleted than live rows, if all deleted rows of the table take more space than the
/// live ones.
fn mostly_deleted(table: &Table) -> Vec<usize> {
    let deleted = |entry: &SegmentEntry| u64::from(entry.rows) - entry.live_rows();
    let in_files = || table.segments.iter().enumerate().filter(|(_, entry)| entry.is_in_file());
    let with_deleted = || in_files().filter(|(_, entry)| entry.deleted.is_some());
    let bytes = |rows: u64, entry: &SegmentEntry| entry.bytes * rows / u64::from(entry.rows.max(1));
    let dead: u64 = with_deleted().map(|(_, entry)| bytes(deleted(entry), entry)).sum();
    if dead <= SPARE_BYTES || dead <= in_files().map(|(_, entry)| bytes(entry.live_rows(), entry)).sum() {
        return vec![];
    }
    let which = with_deleted().filter(|(_, entry)| deleted(entry) > entry.live_rows()).map(|(at, _)| at).collect();
    adjacent(table, which, |_| true)
}

/// Of segments that may be merged, the first ones that follow each other and have a wanted one, if rows of the table have only
/// the order in which they came: merged with others, they would leave it.
pub(super) fn adjacent(table: &Table, which: Vec<usize>, is_wanted: impl Fn(&usize) -> bool) -> Vec<usize> {
    if !table.design.cluster.is_empty() || !table.design.sort.is_empty() {
        return which;
    }
    let mut parts = which.chunk_by(|a, b| a + 1 == *b);
    parts.find(|part| part.iter().any(&is_wanted)).unwrap_or_default().to_vec()
}

impl WriteTransaction {
    /// Writes the rows of segments to new segments, and returns these with the old positions of their rows. `None` if
    /// the work was abandoned.
    fn rewritten(&mut self, table: &Arc<Table>, compaction: &Compaction<'_>) -> Result<Option<Vec<NewSegment>>> {
        let which = compaction.which;
        let rows = which.iter().map(|at| table.segments[*at].live_rows()).sum();
        let files = self.files()?;
        let mut context = self.store().append_context(files, compaction.write_bytes, false);
        (context.threads, context.tracks) = (compaction.threads, true);
        let clustering = clustering_of(&|name| self.table(name).ok(), table, &table.design, Some(rows))?;
        let mut appender = Appender::new(table.id, table.schema.clone(), table.design.clone(), clustering, context);
        let mut request = ScanRequest::columns((0..table.schema.columns.len()).collect());
        request.row_ids = true;
        let mut stopped = false;
        for_each_batch(
            table,
            Arc::new(request),
            |unit| which.contains(&unit.segment),
            |batch| {
                stopped = stopped || !(compaction.goes_on)();
                if stopped { Ok(()) } else { appender.push(&ids_signed(&batch)?) }
            },
        )?;
        if stopped { Ok(None) } else { Ok(Some(appender.finish()?.segments)) }
    }
}

/// The rows of a scan. Their last column, the row ids, becomes signed.
fn ids_signed(batch: &RecordBatch) -> Result<RecordBatch> {
    let mut columns = batch.columns().to_vec();
    let ids = columns.pop().ok_or_else(|| StoreError::invalid("a scan without row ids"))?;
    columns.push(Arc::new(ids.as_primitive::<UInt64Type>().unary::<_, Int64Type>(|id| id as i64)));
    let schema = batch.schema();
    let named = schema.fields().iter().zip(columns).map(|(field, column)| (field.name().to_owned(), column, true));
    RecordBatch::try_from_iter_with_nullable(named).map_err(|error| StoreError::invalid(error.to_string()))
}

/// The new positions of the rows of rewritten segments.
struct Places {
    /// By old segment: the places of its rows, as in [`Moved`].
    by_segment: HashMap<u64, Vec<u64>>,
}

impl Places {
    fn of(which: &[usize], old: &[SegmentEntry], new: &[NewSegment]) -> Places {
        let mut by_segment: HashMap<u64, Vec<u64>> =
            old.iter().map(|entry| (entry.id, vec![NO_PLACE; entry.rows as usize])).collect();
        let ids: HashMap<usize, u64> = which.iter().copied().zip(old.iter().map(|entry| entry.id)).collect();
        for (index, segment) in new.iter().enumerate() {
            for (row, origin) in segment.origins.iter().enumerate() {
                let (at, old_row) = split_row_id(*origin as u64);
                let places = ids.get(&at).and_then(|id| by_segment.get_mut(id));
                if let Some(place) = places.and_then(|places| places.get_mut(old_row as usize)) {
                    *place = (index as u64) << 32 | row as u64;
                }
            }
        }
        Places { by_segment }
    }

    fn tell(&self, transactions: &Transactions, sequence: u64, new: &[NewSegment]) {
        let segments: Arc<Vec<u64>> = Arc::new(new.iter().map(|segment| segment.id).collect());
        let moved = |(id, places): (&u64, &Vec<u64>)| {
            (*id, Moved { sequence, segments: segments.clone(), places: places.clone() })
        };
        transactions.moved(self.by_segment.iter().map(moved).collect());
    }
}

/// The operations that replace segments; none if the segments no longer exist.
fn replacement(
    newest: &Newest<'_>,
    table: &Table,
    old: &[SegmentEntry],
    new: &[NewSegment],
    places: &Places,
) -> Result<Commit> {
    let mut commit = Commit::default();
    let Ok(now) = newest.state.table_by_id(table.id) else { return Ok(commit) };
    let current: HashMap<u64, &SegmentEntry> = now.segments.iter().map(|entry| (entry.id, entry)).collect();
    if now.design != table.design || now.schema != table.schema || now.is_current() != table.is_current() {
        return Ok(commit);
    }
    let mut deleted: Vec<RoaringBitmap> = vec![RoaringBitmap::new(); new.len()];
    let mut gone = vec![];
    for then in old {
        match current.get(&then.id) {
            Some(entry) if entry.rows == then.rows && !has_new_rows(then, entry) => {
                let before = then.deleted.as_deref().cloned().unwrap_or_default();
                let since = entry.deleted.as_deref().map_or_else(RoaringBitmap::new, |after| after - &before);
                let places = places.by_segment.get(&then.id).map_or(&[][..], Vec::as_slice);
                mark_deleted(since.iter(), places, &mut deleted);
                gone.push(then.id);
            }
            _ => return Ok(commit),
        }
    }
    // New segments are where the first of the old ones was: rows stay in their order.
    let is_gone = |entry: &&SegmentEntry| gone.contains(&entry.id);
    let before = now.segments.iter().skip_while(|entry| !is_gone(entry)).find(|entry| !is_gone(entry));
    let before = before.map(|entry| entry.id);
    commit.push(Operation::RemoveSegments { table: table.id, segments: gone.clone() });
    for (segment, deleted) in new.iter().zip(deleted) {
        if deleted.len() == u64::from(segment.rows) {
            // The next vacuum removes its file.
            continue;
        }
        let entry = SegmentEntry::new(segment.id, segment.rows, segment.bytes).summarized(segment.summary.clone());
        commit.add_segment(table.id, &entry, before);
        if !deleted.is_empty() {
            commit.delete_rows(table.id, entry.id, &deleted);
        }
    }
    Ok(commit)
}

/// Whether rows were added where there were none.
fn has_new_rows(then: &SegmentEntry, now: &SegmentEntry) -> bool {
    let is_none = |rows: &RoaringBitmap| now.deleted.as_deref().is_some_and(|deleted| rows.is_subset(deleted));
    then.deleted.as_deref().is_some_and(|before| !is_none(before))
}

fn mark_deleted(rows: impl Iterator<Item = u32>, places: &[u64], deleted: &mut [RoaringBitmap]) {
    for row in rows {
        if let Some(&place) = places.get(row as usize).filter(|place| **place != NO_PLACE)
            && let Some(deleted) = deleted.get_mut((place >> 32) as usize)
        {
            deleted.insert(place as u32);
        }
    }
}

fn identity(table: &Table, which: &[usize]) -> Vec<u64> {
    which.iter().map(|at| table.segments[*at].id).collect()
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

/// The runs of a table, without its hot rows.
fn runs(table: &Table) -> Result<Vec<Run>> {
    let mut runs: Vec<Run> = vec![];
    for (at, entry) in table.segments.iter().enumerate().filter(|(_, entry)| entry.is_in_file()) {
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
