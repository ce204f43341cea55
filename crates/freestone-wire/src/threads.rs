//! Worker threads that end with the last thing that uses them, wherever that is dropped.

use std::io;
use std::ops::Deref;
use std::process;
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};

/// Bytes of a thread's stack, for plans of long statements. The system gives memory only for what is used of it.
const STACK_BYTES: usize = 16 << 20;

/// The threads of a client, a driver or a package, for callers without a runtime of their own.
#[derive(Debug)]
pub struct Threads {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    /// The process that started them: a fork has no threads of its parent's.
    process: u32,
}

impl Threads {
    /// As many threads for work, and what they need to wait for sockets and clocks.
    pub fn start(name: &str, threads: usize) -> io::Result<Arc<Threads>> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads.max(1)).thread_stack_size(STACK_BYTES);
        Self::of(builder.thread_name(name))
    }

    /// Those that a builder makes.
    pub fn of(builder: &mut Builder) -> io::Result<Arc<Threads>> {
        Ok(Arc::new(Threads { runtime: Some(builder.enable_all().build()?), process: process::id() }))
    }

    /// Whether this process started them; in a fork nothing that they are given would run.
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
        // Waiting could be for ever, and a thread of the runtime's own, or of another, may be the one that drops it.
        match self.runtime.take() {
            Some(runtime) if self.process == process::id() => runtime.shutdown_background(),
            forked => std::mem::forget(forked),
        }
    }
}
