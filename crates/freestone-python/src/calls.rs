//! The functions of Python that statements call now: how they are interrupted, and kept from waiting for themselves.

use std::cell::Cell;
use std::ffi::c_long;

use freestone::RunningHandle;
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::error::interface;

thread_local! {
    /// The address of the workers whose statement calls a function on this thread; 0 for none.
    static CALLING: Cell<usize> = const { Cell::new(0) };
}

/// Raises an error if this thread is within a function that a statement of the same workers calls: they might all wait for each
/// other.
pub fn check_not_within(py: Python<'_>, workers: usize) -> PyResult<()> {
    if CALLING.get() != workers {
        return Ok(());
    }
    let hint = "give it the rows as arguments, or use another connection, opened by freestone.connect()";
    Err(interface(py, "a function of SQL cannot run statements on the connection that calls it", hint))
}

/// The functions of a connection that run now.
#[derive(Default)]
pub struct Calls(Mutex<Vec<(c_long, RunningHandle)>>);

impl Calls {
    /// Raises KeyboardInterrupt in the functions whose statements were cancelled.
    pub fn interrupt(&self) {
        let _ = Python::try_attach(|_| {
            // With the GIL no call ends in the meantime.
            for (thread, statement) in &*self.0.lock() {
                if statement.is_cancelled() {
                    raise_in(*thread, true);
                }
            }
        });
    }

    /// Runs a function on a thread of Python, for a statement of `workers`.
    pub fn run<T>(&self, thread: c_long, workers: usize, function: impl FnOnce() -> T) -> T {
        let before = CALLING.replace(workers);
        self.begin(thread);
        let done = function();
        self.end(thread);
        CALLING.set(before);
        done
    }

    fn begin(&self, thread: c_long) {
        self.0.lock().push((thread, RunningHandle::of_thread()));
    }

    fn end(&self, thread: c_long) {
        let mut running = self.0.lock();
        if let Some(at) = running.iter().rposition(|(known, _)| *known == thread) {
            running.remove(at);
        }
        drop(running);
        // An exception that came too late for the function is not for what the thread does next.
        raise_in(thread, false);
    }
}

/// Makes the next instruction of a Python thread raise KeyboardInterrupt, or takes that back.
fn raise_in(thread: c_long, raises: bool) {
    // SAFETY: the caller has the GIL. The class is immortal, and null clears a pending exception.
    unsafe {
        let class = if raises { pyo3::ffi::PyExc_KeyboardInterrupt } else { std::ptr::null_mut() };
        pyo3::ffi::PyThreadState_SetAsyncExc(thread, class);
    }
}
