//! VACUUM: rewrites segments with many deletions and small segments, then removes the files that nobody needs.

use std::collections::HashSet;
use std::sync::Arc;

use super::Store;
use super::runs;
use super::state::State;
use super::write::WriteTransaction;
use crate::cluster::is_clustered;
use crate::error::{Result, StoreError};
use crate::limits::SEGMENT_ROWS;
use crate::log::Horizon;
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
    /// current state nor any live reader of any process needs.
    ///
    /// # Errors
    /// The table does not exist, another process writes, or the medium fails.
    pub fn vacuum(&self, table: Option<&str>) -> Result<VacuumReport> {
        let _maintenance = self.maintenance.lock();
        let mut report = VacuumReport::default();
        let mut transaction = self.write()?;
        let names: Vec<String> = match table {
            Some(name) => vec![transaction.table(name).map(|t| t.name.clone())?],
            None => transaction.base().tables().map(|t| t.name.clone()).collect(),
        };
        for name in names {
            let table = transaction.table(&name)?;
            for table in std::iter::once(table.clone()).chain(transaction.copies(&table)) {
                report.segments_rewritten += transaction.tidy(&table)?;
            }
        }
        transaction.commit()?;
        let mut transaction = self.write()?;
        transaction.remove_files(&mut report)?;
        transaction.commit()?;
        Ok(report)
    }
}

impl WriteTransaction<'_> {
    /// Rewrites the segments for which that is worthwhile, and all of a copy that is not current. Returns their number.
    fn tidy(&mut self, table: &Arc<Table>) -> Result<usize> {
        if table.copy_of.is_some() && !table.is_current() {
            self.fill_copy(table.id)?;
            return Ok(table.segments.len());
        }
        let which = worth_rewriting(self, table)?;
        let count = which.len();
        if count > 0 {
            self.rewrite(table, table.design.clone(), which)?;
        }
        Ok(count)
    }
}

/// Segments with many deleted rows; small segments, if there are several; and all segments if the rows should be
/// clustered and are not, or not any more.
fn worth_rewriting(transaction: &WriteTransaction<'_>, table: &Table) -> Result<Vec<usize>> {
    let all = 0..table.segments.len();
    if !table.design.cluster.is_empty() && !is_clustered(&|name| transaction.table(name).ok(), table)? {
        return Ok(all.collect());
    }
    let holes = |at: &usize| {
        table.segments[*at].deleted.as_ref().is_some_and(|d| d.len() * 20 >= table.segments[*at].rows.into())
    };
    let small = |at: &usize| table.segments[*at].live_rows() < SEGMENT_ROWS as u64 / 2;
    let pending = |at: &usize| table.segments[*at].pending.is_some();
    let several = all.clone().filter(|at| small(at)).count() > 1;
    Ok(all.filter(|at| holes(at) || pending(at) || several && small(at)).collect())
}

impl WriteTransaction<'_> {
    /// Removes the files of removed segments, as far as no reader needs them, and files that no commit names.
    fn remove_files(&mut self, report: &mut VacuumReport) -> Result<()> {
        let medium = &self.store().resources.medium;
        let horizon = Horizon::observe(medium, self.state().sequence)?;
        report.files_removed += self.remove_orphans()?;
        let mut gone = vec![];
        for (segment, removed_by) in &self.state().removed {
            if horizon.may_remove(*removed_by) {
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
            self.store().resources.cache.invalidate_file(*id);
        }
        if !gone.is_empty() {
            self.forget(gone)?;
        }
        Ok(())
    }
}

impl WriteTransaction<'_> {
    /// Removes files that no commit ever named, of killed or failed transactions, and returns their number. Only for a
    /// transaction that has not created any file itself.
    pub(super) fn remove_orphans(&self) -> Result<usize> {
        let medium = &self.store().resources.medium;
        let mut removed = 0;
        for name in unknown_segments(medium, self.state())?.into_iter().chain(medium.list(runs::FOLDER)?) {
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

fn segment_id(name: &str) -> Option<u64> {
    let hex = name.strip_prefix("segments/")?.strip_suffix(".seg")?;
    let id = u64::from_str_radix(hex, 16).ok()?;
    (segment_file(id) == name).then_some(id)
}
