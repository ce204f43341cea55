//! What may be removed: objects whose age is more than the retention, as far as no live lease needs them. All ages are by
//! the clock of the store, which this process learns from its own lease.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use crate::log::LogError;
use crate::media::objects::ObjectInfo;

use super::leases::{self, ID_BITS, number_of};
use super::{FOLDS, LOG, SharedLog, commit_name, sequence_of};

/// The ages of the objects of a database, at one time.
#[derive(Debug)]
pub struct Ages {
    now: SystemTime,
    retention: Duration,
    /// When each commit was made that is still in the log.
    commits: BTreeMap<u64, SystemTime>,
    folds: BTreeMap<u64, SystemTime>,
    /// The numbers of live leases.
    live: BTreeSet<u64>,
    /// The numbers of leases that have ended.
    ended: BTreeSet<u64>,
    /// The oldest commit that a live lease needs.
    oldest: Option<u64>,
}

/// The last id that a process which has ended may have given: no other one gets it once a commit says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RaisedId(pub u64);

impl SharedLog {
    /// Looks at all leases and at the log. This process must have a lease, which was renewed just now.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn ages(&self) -> Result<Ages, LogError> {
        let objects = self.objects.as_ref();
        let leases = leases::listed(objects)?;
        let own = self.lease.lock().as_ref().map(|lease| lease.first_id() >> ID_BITS);
        let own = leases.iter().find(|lease| own.is_some() && number_of(&lease.name) == own);
        let Some(now) = own.map(|own| own.modified) else {
            return Err(LogError::Lapsed { place: objects.place() });
        };
        let (retention, numbered) = (self.retention(), |lease: &&ObjectInfo| number_of(&lease.name).is_some());
        let (ended, live): (Vec<&ObjectInfo>, Vec<&ObjectInfo>) =
            leases.iter().filter(numbered).partition(|lease| is_old(now, retention, lease.modified));
        let names: Vec<String> = live.iter().map(|lease| lease.name.clone()).collect();
        let mut oldest: Option<u64> = None;
        for bytes in objects.get_all(&names) {
            // One that is gone needs nothing any more.
            if let Some(needed) = bytes?.and_then(|bytes| leases::oldest_in(&bytes)) {
                oldest = Some(oldest.map_or(needed, |oldest| oldest.min(needed)));
            }
        }
        let times = |folder: &str| -> Result<BTreeMap<u64, SystemTime>, LogError> {
            let listed = objects.list(folder, None, usize::MAX)?;
            Ok(listed.iter().filter_map(|object| Some((sequence_of(&object.name)?, object.modified))).collect())
        };
        let numbers = |leases: Vec<&ObjectInfo>| leases.iter().filter_map(|lease| number_of(&lease.name)).collect();
        let (live, ended) = (numbers(live), numbers(ended));
        Ok(Ages { now, retention, commits: times(LOG)?, folds: times(FOLDS)?, live, ended, oldest })
    }

    /// Removes commits that a fold has and that are old, older folds, and leases that have ended. What was given by ended
    /// processes must be known as `raised` by a commit.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn collect(&self, ages: &Ages, raised: Option<RaisedId>) -> Result<usize, LogError> {
        let mut names = vec![];
        // Whoever has found an older fold has read it by now.
        let newest = ages.folds.iter().rev().find(|(_, made)| ages.is_old(**made)).map(|(sequence, _)| *sequence);
        if let Some(newest) = newest {
            names.extend(ages.folds.range(..newest).map(|(sequence, _)| super::fold_name(*sequence)));
            let folded = ages.commits.range(..=newest).filter(|(_, made)| ages.is_old(**made));
            names.extend(folded.map(|(sequence, _)| commit_name(*sequence)));
        }
        let is_known = |number: &&u64| raised.is_some_and(|raised| **number << ID_BITS <= raised.0);
        names.extend(ages.ended.iter().filter(is_known).map(|number| format!("leases/{number:08}")));
        self.objects.remove(&names)?;
        Ok(names.len())
    }
}

impl Ages {
    /// Whether something that was made or removed then is older than the retention.
    pub fn is_old(&self, since: SystemTime) -> bool {
        is_old(self.now, self.retention, since)
    }

    /// Whether files that a commit has removed from the database may go: no snapshot that anybody may read has them.
    pub fn may_remove(&self, by: u64) -> bool {
        // A commit that is not in the log any more is old.
        let is_old = self.commits.get(&by).is_none_or(|made| self.is_old(*made));
        is_old && self.oldest.is_none_or(|oldest| by <= oldest)
    }

    /// Whether a file that no commit names may go: it is old, and the process that made it is not there any more.
    pub fn is_forgotten(&self, id: u64, made: SystemTime) -> bool {
        self.is_old(made) && !self.live.contains(&(id >> ID_BITS))
    }

    /// Whether the process that gave an id is there.
    pub fn is_live(&self, id: u64) -> bool {
        self.live.contains(&(id >> ID_BITS))
    }

    /// The last id that ended processes may have given, if the state does not know it.
    pub fn raised(&self, last_id: u64) -> RaisedId {
        let last = self.ended.last().map_or(0, |number| ((number + 1) << ID_BITS) - 1);
        RaisedId(last.max(last_id))
    }
}

fn is_old(now: SystemTime, retention: Duration, since: SystemTime) -> bool {
    now.duration_since(since).is_ok_and(|age| age > retention)
}
