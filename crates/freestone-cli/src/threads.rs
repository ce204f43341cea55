//! The threads of a session: workers for its statements, and the calling thread, which waits for them.
//!
//! A statement can keep all workers busy for seconds. Timers and signals must not wait for that, so the calling thread
//! has a runtime of its own, and signals are handled elsewhere (see [`crate::interrupt`]).

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

pub struct Threads {
    count: usize,
    workers: Runtime,
    caller: Runtime,
}

/// Threads that a session has at the same time besides its workers: for blocking work, reading, writing and signals.
const OTHERS: usize = 6;

/// Checks that workers and the threads that work for them can be started: the runtime would panic, or wait, without them.
///
/// # Errors
/// The system refuses so many threads.
pub fn check(workers: usize) -> io::Result<()> {
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock();
    let start = |_| {
        let gate = gate.clone();
        let wait = move || drop(gate.lock());
        std::thread::Builder::new().stack_size(freestone::THREAD_STACK_BYTES).spawn(wait)
    };
    let needed = workers + OTHERS;
    let started: Vec<io::Result<_>> = (0..needed).map(start).collect();
    drop(closed);
    let mut refused = None;
    for thread in started {
        match thread {
            // It has done nothing that could fail.
            Ok(thread) => drop(thread.join()),
            Err(error) => refused = Some(error),
        }
    }
    match refused {
        None => Ok(()),
        Some(error) => {
            let reason =
                format!("{needed} are needed: {error}; give fewer --threads, or raise ulimit -u and ulimit -v");
            Err(io::Error::new(error.kind(), reason))
        }
    }
}

impl Threads {
    pub fn new(count: usize) -> io::Result<Self> {
        check(count)?;
        let caller = Builder::new_current_thread().enable_time().build()?;
        Ok(Threads { count, workers: workers(count)?, caller })
    }

    /// Runs `work` on the workers.
    pub fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.workers.spawn(work)
    }

    /// Runs `waiting` on this thread.
    pub fn wait_for<T>(&self, waiting: impl Future<Output = T>) -> T {
        self.caller.block_on(waiting)
    }

    /// Abandons work that does not stop, and continues with new workers.
    pub fn abandon(&mut self) -> io::Result<()> {
        std::mem::replace(&mut self.workers, workers(self.count)?).shutdown_background();
        Ok(())
    }

    /// Waits at most `patience` for cancelled work.
    pub fn shut_down(self, patience: Duration) {
        self.workers.shutdown_timeout(patience);
    }
}

fn workers(count: usize) -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(count)
        .thread_stack_size(freestone::THREAD_STACK_BYTES)
        .enable_all()
        .build()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn busy_workers_hold_up_neither_clocks_nor_their_successors() {
        let mut threads = Threads::new(1).expect("threads");
        let (release, blocked) = channel::<()>();
        let stuck = threads.spawn(async move { blocked.recv() });
        let waited = threads.wait_for(async { tokio::time::timeout(Duration::from_millis(10), stuck).await });
        assert!(waited.is_err());
        threads.abandon().expect("threads");
        let next = threads.spawn(async { 7 });
        assert_eq!(threads.wait_for(next).expect("no panic"), 7);
        drop(release);
    }
}
