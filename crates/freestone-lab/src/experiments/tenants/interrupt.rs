//! Ctrl-C and SIGTERM: the run ends at its next pause, after its processes and groups were removed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::{LabError, Result};

/// Whether a signal has arrived. Signals belong to the process, so that this is one value.
static ARRIVED: AtomicBool = AtomicBool::new(false);

/// Whether the signals are caught.
static WATCHED: AtomicBool = AtomicBool::new(false);

/// Catches the signals from now on. A second one ends the process at once; the kernel then ends what it has started.
pub fn watch() {
    WATCHED.store(true, Ordering::Relaxed);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only stores a flag and resets the signal, both of which are allowed in a handler.
        unsafe { libc::signal(signal, note as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    }
}

/// Lets the signals end the process again, as nothing of a run is left to be removed.
pub fn release() {
    if !WATCHED.swap(false, Ordering::Relaxed) {
        return;
    }
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the default of a signal is no code of this program.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

extern "C" fn note(signal: libc::c_int) {
    ARRIVED.store(true, Ordering::Relaxed);
    // SAFETY: `signal` may be called in a handler.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Whether the run should end.
pub fn arrived() -> bool {
    ARRIVED.load(Ordering::Relaxed)
}

/// # Errors
/// A signal has arrived.
pub fn check() -> Result<()> {
    if arrived() { Err(LabError::Interrupted) } else { Ok(()) }
}

/// Sleeps.
///
/// # Errors
/// A signal has arrived.
pub fn pause(time: Duration) -> Result<()> {
    std::thread::sleep(time);
    check()
}
