//! The thread that merges hot rows and the runs of clustered tables in the background, and removes files that nobody needs
//! any more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use datafusion::execution::memory_pool::MemoryPool;
use freestone_store::Store;
use parking_lot::Mutex;

use crate::context::Holders;
use crate::memory::{self, Division};

/// The maximum number of merges per call. A merge that conflicts with writers is tried again, but not forever.
const ATTEMPTS: usize = 16;
/// After commits, files are removed together, at most this often.
const REMOVAL_INTERVAL: Duration = Duration::from_secs(1);
/// While readers need files, the thread looks less and less often, up to this interval.
const REMOVAL_INTERVAL_MAX: Duration = Duration::from_secs(8);
/// Hot rows that are worth a segment are merged when nobody has written for this time.
const IDLE: Duration = Duration::from_secs(2);
/// How long the end of the process may wait for the thread.
const PAUSE: Duration = Duration::from_millis(20);

/// At most one thread, which exists while there is something to merge. Dropping this stops the merge and leaves the
/// tables as they were, so that the end of the process is not delayed.
#[derive(Default)]
pub(crate) struct Merger {
    thread: Mutex<Option<JoinHandle<()>>>,
    work: Arc<Work>,
}

#[derive(Default)]
struct Work {
    stopped: AtomicBool,
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    /// Whether there is a thread that checks for further calls before it ends.
    at_work: bool,
    again: bool,
}

impl Merger {
    /// Starts merging, unless there is nothing to do. If a merge is running, the thread checks again after it.
    pub fn begin(&self, store: &Arc<Store>, pool: &Arc<dyn MemoryPool>, division: &Division, holders: &Arc<Holders>) {
        if !store.merge_is_due() && !store.removal_is_due() && !store.has_hot_rows() {
            return;
        }
        let mut calls = self.work.calls.lock();
        calls.again = true;
        if calls.at_work {
            return;
        }
        let (store, pool, division, work) = (store.clone(), pool.clone(), *division, self.work.clone());
        let holders = holders.clone();
        let merge = move || {
            while work.is_called() {
                // After a panic the runs remain as they were, and the next call tries again.
                let _ = catch_unwind(AssertUnwindSafe(|| work.merge(&store, &pool, &division)));
                let _ = catch_unwind(AssertUnwindSafe(|| work.merge_when_idle(&store, &pool, &division)));
                let _ = catch_unwind(AssertUnwindSafe(|| work.remove_files(&store, &holders)));
            }
        };
        // If no thread can be started, the runs remain until a later call, or VACUUM.
        if let Ok(thread) = thread::Builder::new().name("freestone-merge".into()).spawn(merge) {
            calls.at_work = true;
            *self.thread.lock() = Some(thread);
        }
    }
}

/// After a commit: removes files, and merges segments that are mostly deleted rows, if the thread is behind with that. So
/// whoever replaces data faster than it is removed waits for the removal.
pub(crate) fn keep_up(store: &Store, pool: &Arc<dyn MemoryPool>, division: &Division) {
    for _ in 0..ATTEMPTS {
        if !store.merge_is_overdue() {
            break;
        }
        let Ok(memory) = memory::take_for_write(pool, division, None) else { break };
        let bytes = memory.as_ref().map_or(store.options().write_bytes, |memory| memory.size());
        if !store.merge_deleted(bytes).unwrap_or(false) {
            break;
        }
    }
    if store.removal_is_overdue() {
        // What cannot be removed is tried again after the next commit.
        let _ = store.remove_unneeded_files();
    }
}

impl Merger {
    /// Ends the thread.
    pub fn stop(&self) {
        self.work.stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.lock().take() {
            // It has no result, and a failed merge changes nothing.
            let _ = thread.join();
        }
    }
}

impl Drop for Merger {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Work {
    /// Whether there was a call that was not handled yet. If not, the thread ends.
    fn is_called(&self) -> bool {
        let mut calls = self.calls.lock();
        calls.at_work = std::mem::take(&mut calls.again);
        calls.at_work
    }

    /// Removes files until none is left that could be removed, or until there is a merge to do.
    fn remove_files(&self, store: &Store, holders: &Holders) {
        let mut interval = REMOVAL_INTERVAL;
        while store.removal_is_due() {
            let end = Instant::now() + interval;
            while Instant::now() < end {
                if self.stopped.load(Ordering::Relaxed) || self.calls.lock().again && store.merge_is_due() {
                    return;
                }
                thread::sleep(PAUSE);
            }
            holders.let_go();
            // What cannot be removed is tried again after a later commit, and by VACUUM, which reports the reason.
            if !store.remove_unneeded_files().unwrap_or(false) {
                return;
            }
            interval = (interval * 2).min(REMOVAL_INTERVAL_MAX);
        }
    }

    /// Merges hot rows, and folds the log, when nobody has written for a while.
    fn merge_when_idle(&self, store: &Store, pool: &Arc<dyn MemoryPool>, division: &Division) {
        let goes_on = || !self.stopped.load(Ordering::Relaxed);
        while store.has_hot_rows() {
            let Ok(before) = store.snapshot().map(|snapshot| snapshot.sequence()) else { return };
            let end = Instant::now() + IDLE;
            while Instant::now() < end {
                if !goes_on() || self.calls.lock().again && store.merge_is_due() {
                    return;
                }
                thread::sleep(PAUSE);
            }
            if store.snapshot().is_ok_and(|snapshot| snapshot.sequence() == before) {
                let Ok(memory) = memory::take_for_write(pool, division, None) else { return };
                let bytes = memory.as_ref().map_or(store.options().write_bytes, |memory| memory.size());
                // What cannot be merged is tried again after a later commit.
                let _ = store.merge_when_idle(bytes, goes_on);
                return;
            }
            // Files that were removed from tables meanwhile do not wait for the end of all writing.
            let _ = store.remove_unneeded_files();
        }
    }

    fn merge(&self, store: &Store, pool: &Arc<dyn MemoryPool>, division: &Division) {
        let goes_on = || !self.stopped.load(Ordering::Relaxed);
        for _ in 0..ATTEMPTS {
            // If memory is scarce, statements have priority.
            let Ok(memory) = memory::take_for_write(pool, division, None) else { return };
            let bytes = memory.as_ref().map_or(store.options().write_bytes, |memory| memory.size());
            // The store records failed merges, and VACUUM reports them.
            if !goes_on() || !store.merge_runs(bytes, goes_on).unwrap_or(false) {
                return;
            }
        }
    }
}
