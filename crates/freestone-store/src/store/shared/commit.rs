//! Commits to a shared log.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::Store;
use super::super::commit::{Commit, Operation};
use super::super::group::{Member, Results, Together, reopened, shared_result};
use super::super::rebase::conflict;
use super::super::state::State;
use crate::error::{Result, StoreError};
use crate::log::shared::{Appended, Position, SharedLog};
use crate::log::{LogError, Outcome};

/// So often a group makes way for commits of other processes before it gives up.
const ATTEMPTS: usize = 1000;

impl Store {
    /// Commits a group to a shared log, and returns the result of each member.
    pub(in crate::store) fn lead_shared(&self, log: &SharedLog, mut group: Vec<Member>) -> Results {
        let mut results = vec![];
        for _ in 0..ATTEMPTS {
            match self.attempt(log, &mut group, &mut results) {
                Ok(Some(sequence)) => {
                    results.extend(shared_result(Ok(sequence), &of_members(group)));
                    return results;
                }
                Ok(None) if group.is_empty() => return results,
                // Another process was first. Its changes are known now.
                Ok(None) => {}
                Err(error) => {
                    results.extend(shared_result(Err(error), &of_members(group)));
                    return results;
                }
            }
        }
        let busy = conflict("other processes have committed again and again");
        results.extend(shared_result(Err(busy), &of_members(group)));
        results
    }

    /// Tries to commit what the members change. Members without changes, and those that fail, leave the group. Returns
    /// `None` if nothing was committed.
    fn attempt(&self, log: &SharedLog, group: &mut Vec<Member>, results: &mut Results) -> Result<Option<u64>> {
        self.check_lease(log)?;
        let opening = self.resources.unnamed.lock().opening;
        let (now, position) = self.known(log)?;
        let mut together = Together::new(&now, self.foreign());
        group.retain_mut(|member| {
            let is_current = member.files.opening() == opening;
            let done = if is_current { together.add(&mut member.work) } else { Err(reopened()) };
            match done {
                Ok(true) => return true,
                Ok(false) => results.push((member.ticket, Ok(now.sequence))),
                Err(error) => results.push((member.ticket, Err(error))),
            }
            false
        });
        if group.is_empty() {
            return Ok(None);
        }
        let last_id = self.next_id.load(Ordering::Relaxed).saturating_sub(1);
        if !log.lease.lock().as_ref().is_some_and(|lease| lease.has_id(last_id) || lease.first_id() == last_id + 1) {
            return Err(StoreError::invalid("a transaction needs more numbers of segments than there are; split it"));
        }
        let mut commit = together.take_commit();
        commit.push(Operation::LastId { id: last_id });
        let appended = log.append(&position, &commit.to_bytes());
        match appended {
            Ok(Appended::Committed(position)) => {
                group.iter().for_each(|member| member.files.hand_over());
                self.show(log, together.into_state(last_id), &position)?;
                Ok(Some(position.sequence))
            }
            Ok(Appended::Overtaken) => {
                self.catch_up(&mut self.reader.lock())?;
                Ok(None)
            }
            Err(error) => {
                if let LogError::CommitFailed { outcome: Outcome::Unknown, .. } = &error {
                    // A commit may name the files. If none does, a vacuum removes them.
                    group.iter().for_each(|member| member.files.hand_over());
                }
                Err(error.into())
            }
        }
    }

    /// What this process knows: the newest state, and the end of the log at it.
    fn known(&self, log: &SharedLog) -> Result<(Arc<State>, Position)> {
        let mut reader = self.reader.lock();
        if log.position().is_none() {
            self.catch_up(&mut reader)?;
        }
        let position = log.position().filter(|position| position.sequence == reader.state.sequence);
        let lost = || StoreError::Corrupt { file: "the commit log".into(), reason: "its end is not known".into() };
        Ok((reader.state.clone(), position.ok_or_else(lost)?))
    }

    /// Whoever could not renew its lease does not commit: its files may be gone.
    fn check_lease(&self, log: &SharedLog) -> Result<()> {
        if log.lease.lock().as_ref().is_some_and(|lease| !lease.is_lapsed(log)) {
            return Ok(());
        }
        Err(StoreError::Conflict(LogError::Lapsed { place: log.objects().place() }.to_string()))
    }

    /// Makes the state after a commit visible to this process, and folds it if the log has become long.
    fn show(&self, log: &SharedLog, state: State, position: &Position) -> Result<()> {
        let is_due = log.is_fold_due(position);
        let folded = is_due.then(|| Commit::of_state(&state).to_bytes());
        {
            let mut reader = self.reader.lock();
            // Otherwise a reader has read the commit already.
            if log.pass(position) {
                self.publish(&mut reader, state);
                // A version whose files cannot be pinned is not kept.
                let _ = self.note_newest(&reader, None);
            }
        }
        if let Some(body) = folded {
            // After a failure, the log is longer than necessary but complete, and the next commit tries again.
            let _ = log.fold(position, &body);
        }
        Ok(())
    }
}

fn of_members(group: Vec<Member>) -> Vec<(u64, Arc<super::super::files::NewFiles>)> {
    group.into_iter().map(|member| (member.ticket, member.files)).collect()
}
