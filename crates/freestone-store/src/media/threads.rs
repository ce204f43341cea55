//! Reading with a few threads, if io_uring is not available: on another operating system, or in a sandbox that forbids
//! it.

use std::sync::Arc;
use std::thread;

use parking_lot::{Condvar, Mutex};

use super::batch::Batch;
use super::disk::{OpenFile, read_runs};

/// A small pool of reading threads. When it is dropped, they finish the queued reads.
#[derive(Debug)]
pub(super) struct Threads {
    shared: Arc<Shared>,
    count: usize,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    batches: std::collections::VecDeque<Batch<Arc<OpenFile>>>,
    closed: bool,
}

impl Threads {
    /// Starts up to `count` threads. Without threads, reads happen on the calling thread.
    pub fn start(count: usize) -> Threads {
        let shared = Arc::new(Shared::default());
        let start = |index| {
            let shared = shared.clone();
            thread::Builder::new().name(format!("freestone-read-{index}")).spawn(move || shared.run())
        };
        let count = (0..count).map_while(|index| start(index).ok()).count();
        Threads { shared, count }
    }

    /// Reads the runs of a batch and delivers it. Requests are read in parallel.
    pub fn read(&self, mut batch: Batch<Arc<OpenFile>>) {
        if self.count == 0 {
            read_runs(&mut batch);
            return batch.deliver();
        }
        self.shared.queue.lock().batches.extend(batch.split());
        self.shared.changed.notify_all();
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.queue.lock().closed = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn run(&self) {
        while let Some(mut batch) = self.next() {
            read_runs(&mut batch);
            batch.deliver();
        }
    }

    fn next(&self) -> Option<Batch<Arc<OpenFile>>> {
        let mut queue = self.queue.lock();
        loop {
            match queue.batches.pop_front() {
                Some(batch) => return Some(batch),
                None if queue.closed => return None,
                None => self.changed.wait(&mut queue),
            }
        }
    }
}
