//! The thread that merges runs of clustered tables while nobody waits for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use datafusion::execution::memory_pool::MemoryPool;
use freestone_store::Store;
use parking_lot::Mutex;

use crate::memory::{self, Division};

/// Merges for one call: one that writers disturb is tried again, but not for ever.
const ATTEMPTS: usize = 16;

/// At most one thread, while there is something to merge. Dropped, it stops what it does and leaves the tables as they were:
/// a process that ends does not keep its user waiting.
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
    /// Whether there is a thread that will look whether it is called again before it ends.
    at_work: bool,
    again: bool,
}

impl Merger {
    /// Begins, unless there is nothing to do; if it is at work, it looks again when it has done what it does.
    pub fn begin(&self, store: &Arc<Store>, pool: &Arc<dyn MemoryPool>, division: &Division) {
        if !store.merge_is_due() {
            return;
        }
        let mut calls = self.work.calls.lock();
        calls.again = true;
        if calls.at_work {
            return;
        }
        let (store, pool, division, work) = (store.clone(), pool.clone(), *division, self.work.clone());
        let merge = move || {
            while work.is_called() {
                // After a panic the runs stay as they were; the next call tries again.
                let _ = catch_unwind(AssertUnwindSafe(|| work.merge(&store, &pool, &division)));
            }
        };
        // Without a thread the runs stay until there is one, or VACUUM.
        if let Ok(thread) = thread::Builder::new().name("freestone-merge".into()).spawn(merge) {
            calls.at_work = true;
            *self.thread.lock() = Some(thread);
        }
    }
}

impl Drop for Merger {
    fn drop(&mut self) {
        self.work.stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.lock().take() {
            // It has no result, and what it failed at is as it was before.
            let _ = thread.join();
        }
    }
}

impl Work {
    /// Whether there was a call that nobody has begun to answer; if not, the thread is to end.
    fn is_called(&self) -> bool {
        let mut calls = self.calls.lock();
        calls.at_work = std::mem::take(&mut calls.again);
        calls.at_work
    }

    fn merge(&self, store: &Store, pool: &Arc<dyn MemoryPool>, division: &Division) {
        let goes_on = || !self.stopped.load(Ordering::Relaxed);
        for _ in 0..ATTEMPTS {
            // Statements come first where memory is short.
            let Ok(memory) = memory::take_for_write(pool, division, None) else { return };
            let bytes = memory.as_ref().map_or(store.options().write_bytes, |memory| memory.size());
            // The store remembers what it failed at; VACUUM tells the user.
            if !goes_on() || !store.merge_runs(bytes, goes_on).unwrap_or(false) {
                return;
            }
        }
    }
}
