//! Objects that do what a test wants before or after an operation: wait, or end the process.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use freestone_store::media::MediumError;
use freestone_store::media::objects::{Deliver, ObjectInfo, Objects};
use parking_lot::{Condvar, Mutex};

type Result<T> = std::result::Result<T, MediumError>;

/// Holds operations on objects whose names contain a word, from when it is closed until it is opened.
#[derive(Debug, Default)]
pub struct Gate {
    closed: Mutex<Option<&'static str>>,
    opened: Condvar,
    /// Operations that have been held.
    pub held: AtomicUsize,
}

impl Gate {
    /// Holds operations on objects whose names contain this; `""` holds all.
    pub fn close(&self, word: &'static str) {
        *self.closed.lock() = Some(word);
    }

    pub fn open(&self) {
        *self.closed.lock() = None;
        self.opened.notify_all();
    }

    /// Waits until an operation is held.
    pub fn wait_for_one(&self) {
        while self.held.load(Ordering::Acquire) == 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn pass(&self, name: &str) {
        let mut closed = self.closed.lock();
        while closed.is_some_and(|word| name.contains(word)) {
            self.held.fetch_add(1, Ordering::AcqRel);
            self.opened.wait(&mut closed);
        }
    }
}

/// What happens at operations.
#[derive(Debug)]
pub enum At {
    /// They pass a gate.
    Gate(Arc<Gate>),
    /// The process ends before the operation of this number, or after it.
    Abort { number: usize, after: bool, so_far: AtomicUsize },
}

/// The objects.
#[derive(Debug)]
pub struct Watched {
    pub inner: Arc<dyn Objects>,
    pub at: At,
}

impl Watched {
    fn around<T>(&self, name: &str, operation: impl FnOnce() -> T) -> T {
        match &self.at {
            At::Gate(gate) => {
                gate.pass(name);
                operation()
            }
            At::Abort { number, after, so_far } => {
                let is_it = so_far.fetch_add(1, Ordering::AcqRel) == *number;
                if is_it && !after {
                    std::process::abort();
                }
                let done = operation();
                if is_it {
                    std::process::abort();
                }
                done
            }
        }
    }
}

impl Objects for Watched {
    fn place(&self) -> String {
        self.inner.place()
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        self.around(name, || self.inner.create(name, bytes))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.around(name, || self.inner.put(name, bytes))
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.around(name, || self.inner.get(name))
    }

    fn get_all(&self, names: &[String]) -> Vec<Result<Option<Vec<u8>>>> {
        self.around(names.first().map_or("", String::as_str), || self.inner.get_all(names))
    }

    fn tail(&self, name: &str, len: u64) -> Result<Option<(u64, Vec<u8>)>> {
        self.around(name, || self.inner.tail(name, len))
    }

    fn stat(&self, name: &str) -> Result<Option<ObjectInfo>> {
        self.around(name, || self.inner.stat(name))
    }

    fn list(&self, folder: &str, after: Option<&str>, limit: usize) -> Result<Vec<ObjectInfo>> {
        self.around(folder, || self.inner.list(folder, after, limit))
    }

    fn remove(&self, names: &[String]) -> Result<()> {
        self.around(names.first().map_or("", String::as_str), || self.inner.remove(names))
    }

    fn read(&self, name: &str, ranges: Vec<Range<u64>>, deliver: Deliver) {
        self.around(name, || self.inner.read(name, ranges, deliver));
    }
}
