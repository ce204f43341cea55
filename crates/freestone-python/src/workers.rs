//! The threads on which a connection's statements run, and how Python's threads wait for them.
//!
//! A Python thread waits without the GIL, and wakes repeatedly to check for signals: Ctrl-C cancels the statement and
//! raises KeyboardInterrupt.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use freestone_wire::Threads;
use parking_lot::Mutex;
use pyo3::prelude::*;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::calls;
use crate::error::interface;

/// The interval at which a waiting thread checks for signals.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// The time that an interrupted statement may take to stop before its thread continues without it.
const INTERRUPT_PATIENCE: Duration = Duration::from_secs(2);

/// Worker threads. They end with the last connection and result that uses them.
pub struct Workers {
    count: usize,
    /// The threads for new statements.
    current: Mutex<Arc<Threads>>,
    /// Abandoned tasks that may not have ended, if the next task waits for that.
    leaving: Option<Mutex<Vec<JoinHandle<()>>>>,
}

impl Workers {
    /// `one_at_a_time`: a task begins only when abandoned ones have ended, as a connection to a server requires.
    pub fn start(count: usize, one_at_a_time: bool) -> io::Result<Arc<Workers>> {
        let current = Mutex::new(Threads::start("freestone", count)?);
        Ok(Arc::new(Workers { count, current, leaving: one_at_a_time.then(Mutex::default) }))
    }

    /// What tells these workers from others.
    pub fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// Raises an error if this process is a fork of the one that opened the database, or this thread is within a function that a
    /// statement of these workers calls.
    pub fn check_process(&self, py: Python<'_>) -> PyResult<()> {
        calls::check_not_within(py, self.address())?;
        if self.current.lock().are_of_this_process() {
            return Ok(());
        }
        Err(interface(
            py,
            "the connection belongs to the process that this one was forked from",
            "open the database again in this process; multiprocessing has the start methods spawn and forkserver",
        ))
    }

    /// Starts `work`, which sends messages while fewer than `ahead` of them wait.
    pub fn spawn<T, F>(self: &Arc<Self>, ahead: usize, work: impl FnOnce(Outlet<T>) -> F) -> Inlet<T>
    where
        T: Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let (sender, receiver) = channel();
        let room = Arc::new(Semaphore::new(ahead));
        let work = work(Outlet { sender, room: room.clone() });
        let leaving = self.leaving.as_ref().map(|leaving| std::mem::take(&mut *leaving.lock())).unwrap_or_default();
        let threads = self.current.lock().clone();
        let task = threads.spawn(async move {
            for task in leaving {
                // It was aborted or panicked. In any case it has ended.
                _ = task.await;
            }
            work.await;
        });
        Inlet { receiver: Mutex::new(receiver), room, task: Some(task), threads, workers: self.clone() }
    }

    /// Uses new threads for new statements, unless that has happened already: `threads` are busy with a statement that
    /// does not stop. They end when their other statements have ended.
    fn leave(&self, threads: &Arc<Threads>) {
        let mut current = self.current.lock();
        if Arc::ptr_eq(&current, threads)
            && let Ok(next) = Threads::start("freestone", self.count)
        {
            *current = next;
        }
    }
}

/// The sending end of a task on the workers.
pub struct Outlet<T> {
    sender: Sender<T>,
    room: Arc<Semaphore>,
}

impl<T> Outlet<T> {
    /// Sends a message after waiting for room. False if nobody wants more.
    pub async fn send(&self, message: T) -> bool {
        match self.room.acquire().await {
            Ok(permit) => permit.forget(),
            Err(_) => return false,
        }
        self.sender.send(message).is_ok()
    }
}

/// The receiving end, with the task. Dropping it ends the task.
pub struct Inlet<T> {
    receiver: Mutex<Receiver<T>>,
    room: Arc<Semaphore>,
    task: Option<JoinHandle<()>>,
    threads: Arc<Threads>,
    workers: Arc<Workers>,
}

impl<T: Send> Inlet<T> {
    /// The next message; `None` at the end. On an interrupt, `cancel` is called, and the signal's exception is raised.
    pub fn receive(&self, py: Python<'_>, cancel: impl FnOnce()) -> PyResult<Option<T>> {
        loop {
            match py.detach(|| self.poll(SIGNAL_INTERVAL)) {
                Ok(message) => return Ok(Some(message)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Err(interrupt) = py.check_signals() {
                cancel();
                py.detach(|| self.wind_down());
                return Err(interrupt);
            }
        }
    }

    fn poll(&self, patience: Duration) -> Result<T, RecvTimeoutError> {
        let message = self.receiver.lock().recv_timeout(patience)?;
        self.room.add_permits(1);
        Ok(message)
    }

    /// Waits briefly for a cancelled task, so that its memory and locks are free when the next statement begins.
    fn wind_down(&self) {
        let end = Instant::now() + INTERRUPT_PATIENCE;
        while !matches!(self.poll(SIGNAL_INTERVAL), Err(RecvTimeoutError::Disconnected)) {
            if Instant::now() > end {
                return self.workers.leave(&self.threads);
            }
        }
    }
}

impl<T> Drop for Inlet<T> {
    fn drop(&mut self) {
        self.room.close();
        let Some(task) = self.task.take() else { return };
        task.abort();
        if let Some(leaving) = &self.workers.leaving {
            let mut leaving = leaving.lock();
            leaving.retain(|task| !task.is_finished());
            leaving.push(task);
        }
    }
}
