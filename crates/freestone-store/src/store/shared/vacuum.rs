//! Removing objects that nobody needs: files of removed segments, files that no commit names, commits that are folded, and
//! leases that have ended.
//!
//! A process that sleeps may wake up and commit what it had prepared. So before anything is removed that its commit would
//! name, a commit is made behind which it cannot come any more: its own attempt, at the same sequence or an earlier one,
//! fails then, and it finds that its lease has ended.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

use super::super::Store;
use super::super::commit::{Commit, Operation};
use super::super::files::NewFiles;
use super::super::group::Newest;
use super::super::state::State;
use super::super::vacuum::{VacuumReport, segment_id};
use crate::error::Result;
use crate::log::shared::{Ages, SharedLog};
use crate::media::objects::ObjectInfo;
use crate::table::segment_file;

impl Store {
    /// Removes what is older than the retention and not needed by a live lease.
    pub(in crate::store) fn remove_shared(&self, log: &SharedLog, report: &mut VacuumReport) -> Result<()> {
        self.open_shared(log)?;
        log.renew(self.pins.oldest()?)?;
        let ages = Arc::new(log.ages()?);
        let listed = Arc::new(log.objects().list("segments", None, usize::MAX)?);
        let gone = Arc::new(Mutex::new(vec![]));
        let files = Arc::new(NewFiles::new(self.resources.clone()));
        let work = {
            let (ages, listed, gone) = (ages.clone(), listed.clone(), gone.clone());
            move |newest: &Newest<'_>| {
                let removable = newest.state.removed.iter().filter(|(_, removed)| ages.may_remove(removed.by));
                let removable: Vec<u64> = removable.map(|(segment, _)| *segment).collect();
                let mut commit = Commit::default();
                let raised = ages.raised(newest.state.last_id).0;
                if !removable.is_empty() {
                    commit.push(Operation::Forget { segments: removable.clone() });
                }
                if raised > newest.state.last_id || !forgotten(&listed, newest.state, &ages).is_empty() {
                    commit.push(Operation::LastId { id: raised });
                }
                *gone.lock() = removable;
                Ok(commit)
            }
        };
        self.commit_with_others(&files, true, Box::new(work))?;
        let now = self.newest()?;
        let gone: Vec<u64> = std::mem::take(&mut gone.lock());
        let mut names: Vec<String> = gone.iter().map(|id| segment_file(*id)).collect();
        names.extend(forgotten(&listed, &now, &ages));
        names.sort_unstable();
        names.dedup();
        log.objects().remove(&names)?;
        gone.iter().for_each(|id| self.resources.cache.invalidate_file(*id));
        log.collect(&ages, Some(ages.raised(now.last_id)))?;
        report.files_removed += names.len();
        report.files_kept_for_readers = now.removed.len();
        Ok(())
    }

    /// Whether the process is gone that gave a number to a table.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn is_left_behind(&self, table: u64) -> Result<bool> {
        let Some(log) = &self.shared else { return Ok(true) };
        self.open_shared(log)?;
        log.renew(self.pins.oldest()?)?;
        Ok(!log.ages()?.is_live(table))
    }
}

/// The files of processes that are gone which no commit names.
fn forgotten(listed: &[ObjectInfo], state: &State, ages: &Ages) -> Vec<String> {
    let known: HashSet<u64> = state.segment_files().chain(state.removed.keys().copied()).collect();
    let is_forgotten = |object: &&ObjectInfo| {
        segment_id(&object.name).is_some_and(|id| !known.contains(&id) && ages.is_forgotten(id, object.modified))
    };
    listed.iter().filter(is_forgotten).map(|object| object.name.clone()).collect()
}
