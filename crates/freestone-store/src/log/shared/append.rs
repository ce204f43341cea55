//! Commits and folds.

use crate::log::writer::Outcome;
use crate::log::{LONGEST_BODY, LogError, random_id};
use crate::media::MediumError;
use crate::media::objects::{Created, create_surely};

use super::object::{Hash, Kind, Object};
use super::{Moment, Position, SharedLog, commit_name, fold_name};

/// What came of an attempt to commit.
#[derive(Debug)]
pub enum Appended {
    /// It is committed, and this is the end of the log then.
    Committed(Position),
    /// Another process has committed first, or may have. Nothing is committed; the log is to be read.
    Overtaken,
}

impl SharedLog {
    /// Commits a record behind a position, at which the log ended when it was looked at last. When this returns, the commit
    /// is there for everybody.
    ///
    /// # Errors
    /// The body is too long; or the store cannot be asked, and then nobody knows whether the record is committed.
    pub fn append(&self, after: &Position, body: &[u8]) -> Result<Appended, LogError> {
        if body.len() > LONGEST_BODY {
            return Err(LogError::TooLong { len: body.len() });
        }
        // What a process does not know to be the end any more may have been followed by commits that were collected.
        if after.seen.elapsed() >= self.patience() {
            return Ok(Appended::Overtaken);
        }
        let sequence = after.sequence + 1;
        let number = random_id();
        let object = Object { sequence, database: self.database(), number, previous: after.hash, body: body.to_vec() };
        let bytes = object.encode(Kind::Commit);
        let asked = Moment::now();
        let failed = |source| LogError::CommitFailed { sequence, outcome: Outcome::Unknown, source };
        match create_surely(self.objects.as_ref(), &commit_name(sequence), &bytes) {
            Ok(Created::Ours) => {}
            Ok(Created::Others) => return Ok(Appended::Overtaken),
            Err(source) => return Err(failed(source)),
        }
        let position = Position {
            sequence,
            hash: Hash::of(&bytes),
            seen: asked,
            unfolded: after.unfolded + bytes.len() as u64,
            fold_len: after.fold_len,
            commits: after.commits + 1,
        };
        // Between the test above and the request, the process may have slept.
        if after.seen.elapsed() >= self.patience() && !self.is_in_chain(&position).map_err(failed)? {
            self.objects.remove(&[commit_name(sequence)]).map_err(failed)?;
            return Ok(Appended::Overtaken);
        }
        Ok(Appended::Committed(position))
    }

    /// Whether an object that was made late is a part of the log, and not in a gap that was collected.
    fn is_in_chain(&self, late: &Position) -> Result<bool, MediumError> {
        let folds = self.objects.list(super::FOLDS, None, usize::MAX)?;
        let newest = folds.iter().filter_map(|object| super::sequence_of(&object.name)).max();
        let Some(fold) = newest.filter(|fold| *fold >= late.sequence) else {
            // Only what is folded is collected.
            return Ok(true);
        };
        let (name, kind, at) = match fold == late.sequence {
            true => (fold_name(fold), Kind::Fold, fold),
            false => (commit_name(late.sequence + 1), Kind::Commit, late.sequence + 1),
        };
        let Some(bytes) = self.objects.get(&name)? else {
            // It was collected, and so was the one before it, which this process did not find.
            return Ok(false);
        };
        let next = Object::decode(&name, &bytes, kind, self.database(), at);
        Ok(next.is_ok_and(|next| next.previous == late.hash))
    }

    /// Whether the log is so long that a process that begins to read it should find a folded state.
    pub fn is_fold_due(&self, position: &Position) -> bool {
        use crate::limits::{CHECKPOINT_BYTES, SHARED_COMMITS};
        position.unfolded > CHECKPOINT_BYTES.max(position.fold_len) || position.commits >= SHARED_COMMITS
    }

    /// Stores the state after a commit, unless somebody has.
    ///
    /// # Errors
    /// The body is too long, or the store cannot be written. The log is longer than necessary then, but complete.
    pub fn fold(&self, at: &Position, body: &[u8]) -> Result<(), LogError> {
        if body.len() > LONGEST_BODY {
            return Err(LogError::TooLong { len: body.len() });
        }
        let (sequence, number) = (at.sequence, random_id());
        let object = Object { sequence, database: self.database(), number, previous: at.hash, body: body.to_vec() };
        let bytes = object.encode(Kind::Fold);
        create_surely(self.objects.as_ref(), &fold_name(sequence), &bytes)?;
        let mut position = self.position.lock();
        if let Some(position) = position.as_mut().filter(|known| known.sequence >= sequence) {
            position.unfolded = position.unfolded.saturating_sub(at.unfolded);
            position.commits = position.commits.saturating_sub(at.commits);
            position.fold_len = bytes.len() as u64;
        }
        Ok(())
    }
}
