//! A store whose log is shared by several processes, in a bucket ([`crate::log::shared`]).
//!
//! The store's two sides meet the log at few places, and each asks here first whether the log is shared:
//! - Reading ([`Store::snapshot`]): the records since the last time come from the log's objects. Snapshots of this process
//!   that are asked for at the same time share one request.
//! - Writing ([`Store::write`]): instead of a lock, a process has a lease with a number, from which the numbers of its
//!   tables and segments are made.
//! - Committing ([`commit`]): the leader of a group makes the object of the next sequence. If another process was first,
//!   it reads what was committed, and the members of the group make their changes again, on that state. What locks decide
//!   in one process, [`rebase`](super::rebase) decides here; keys are checked again ([`recheck`]).
//! - Writing for others ([`elsewhere`]): a process gives numbers to those that make segments for its transaction.
//! - Removing ([`vacuum`]): what the leases allow.
//!
//! Within a transaction, the newest state is the newest that this process knows: looking for a newer one costs a request,
//! and a commit finds it anyway.

mod commit;
mod earlier;
mod elsewhere;
mod keeper;
mod recheck;
mod vacuum;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::pmem::Pmem;
use super::{Store, StoreOptions};
use crate::error::{Result, StoreError};
use crate::log::shared::{Moment, SharedLog};
use crate::media::objects::Objects;
use crate::media::{Bucket, Medium};

pub use self::elsewhere::{SegmentAppender, SegmentNumbers, SegmentTarget, WrittenSegment};
pub(super) use self::keeper::Keeper;

/// How long a database keeps what is not needed any more, unless its creator says otherwise.
pub const RETENTION: Duration = Duration::from_secs(60 * 60);
/// A transaction begins only with this many free numbers, of 65,536 that a process takes at a time.
const ROOM: u64 = 1 << 15;

impl Store {
    /// Opens the database in a bucket. It is created there, with this retention, unless there is one or `read_only` is set.
    ///
    /// # Errors
    /// The bucket cannot be read; it has other objects and no database; its store is not fit for one that is written; or
    /// the log is damaged or of a newer format.
    pub fn in_bucket(objects: Arc<dyn Objects>, options: StoreOptions, retention: Duration) -> Result<Store> {
        let create = (!options.read_only).then_some(retention);
        let log = Arc::new(SharedLog::open(objects.clone(), create)?);
        let medium: Arc<dyn Medium> = Arc::new(Bucket::new(objects, options.disk.clone(), options.block_cache.clone()));
        let next_id = Arc::default();
        let pmem = Arc::new(Pmem::new(&options, None, Arc::clone(&next_id)));
        let store = Store::assembled(medium, options, None, (pmem, next_id), Some(log))?;
        store.snapshot()?;
        store.keep_lease();
        Ok(store)
    }

    /// Whether other processes, on any machine, may write the database while this one does.
    pub fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// The random number that a database in a bucket has from its creation on; `None` for other databases.
    pub fn database_number(&self) -> Option<u128> {
        self.shared.as_ref().map(|log| log.database())
    }

    /// Whether another thread has looked for commits since a time, so that nobody needs to do it again.
    pub(super) fn has_looked_since(&self, asked: &Moment) -> bool {
        self.shared.as_ref().is_some_and(|log| log.has_looked_since(asked))
    }

    /// The last commit that this process has read from a shared log, and has not made. 0 for other logs.
    pub(super) fn foreign(&self) -> u64 {
        self.foreign.load(Ordering::Acquire)
    }

    /// Takes a lease, unless this process has one with numbers left.
    pub(super) fn open_shared(&self, log: &SharedLog) -> Result<()> {
        if self.has_numbers(log) {
            return Ok(());
        }
        // One thread claims; a shared log has no other use for this lock.
        let _claims = self.writer.lock();
        if self.has_numbers(log) {
            return Ok(());
        }
        log.ensure_probed()?;
        let is_renewed = {
            let mut lease = log.lease.lock();
            let had_one = lease.take_if(|lease| lease.is_lapsed(log)).is_some();
            lease.is_some() && !had_one
        };
        if !is_renewed {
            // The files of transactions that are open are no longer protected, or never were.
            self.resources.unnamed.lock().opening += 1;
        }
        let snapshot = self.snapshot()?;
        log.claim(snapshot.state.last_id, self.pins.oldest()?)?;
        let first = log.lease.lock().as_ref().map_or(0, |lease| lease.first_id());
        self.next_id.fetch_max(first, Ordering::Relaxed);
        Ok(())
    }

    fn has_numbers(&self, log: &SharedLog) -> bool {
        let next = self.next_id.load(Ordering::Relaxed);
        let lease = log.lease.lock();
        lease.as_ref().is_some_and(|lease| !lease.is_lapsed(log) && lease.has_id(next) && lease.has_id(next + ROOM))
    }

    /// Refuses what works only where one process writes.
    pub(super) fn refuse_shared(&self, what: &str) -> Result<()> {
        match &self.shared {
            None => Ok(()),
            Some(log) => {
                let place = log.objects().place();
                Err(StoreError::invalid(format!(
                    "{what} works in a folder of this machine only, and the database is at {place}"
                )))
            }
        }
    }
}
