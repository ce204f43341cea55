//! Worker threads that end with their last user, wherever that is dropped.

use std::io;
use std::ops::Deref;
use std::process;
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};

/// The stack size of a thread in bytes, for plans of long statements. The system allocates memory only for the used
/// part.
const STACK_BYTES: usize = 16 << 20;

/// The threads of a client, a driver or a package, for callers without a runtime of their own.
#[derive(Debug)]
pub struct Threads {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    /// The process that started them. A forked process does not have its parent's threads.
    process: u32,
}

impl Threads {
    /// Starts worker threads, with support for sockets and timers.
    ///
    /// # Errors
    /// The system starts no more threads.
    pub fn start(name: &str, threads: usize) -> io::Result<Arc<Threads>> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads.max(1)).thread_stack_size(STACK_BYTES);
        Self::of(builder.thread_name(name))
    }

    /// Starts the threads of a builder.
    ///
    /// # Errors
    /// The system starts no more threads.
    pub fn of(builder: &mut Builder) -> io::Result<Arc<Threads>> {
        Ok(Arc::new(Threads { runtime: Some(builder.enable_all().build()?), process: process::id() }))
    }

    /// Whether this process started them. In a forked process, tasks would not run.
    pub fn are_of_this_process(&self) -> bool {
        self.process == process::id()
    }
}

impl Deref for Threads {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        self.runtime.as_ref().expect("they are there until the drop")
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Waiting could last for ever, and the thread that drops it may be one of the runtime's own, or of another
        // runtime.
        match self.runtime.take() {
            Some(runtime) if self.process == process::id() => runtime.shutdown_background(),
            forked => std::mem::forget(forked),
        }
    }
}
