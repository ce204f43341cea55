//! Ctrl-C cancels the running statement. A second one, before the statement has ended, ends the process.

use std::io;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::terminal;

/// The exit status of a process that was ended by an interrupt, as shells report it: 128 + SIGINT.
pub const EXIT_INTERRUPTED: u8 = 130;

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
const STOPPING: u8 = 2;

/// Knows whether a statement is running that an interrupt can cancel.
#[derive(Debug, Default)]
pub struct Interrupt {
    state: AtomicU8,
    changed: Notify,
    /// Whether an interrupt has occurred between statements.
    between: AtomicBool,
}

impl Interrupt {
    /// Waits for interrupts on a thread of its own, which statements cannot block. `stays` is true in the shell, which
    /// an interrupt between statements does not end.
    ///
    /// The signal handler is installed when this returns. The line editor restores the handler that it found when it
    /// began to read a line, so a handler installed in between would be lost.
    pub fn watch(stays: bool) -> io::Result<Arc<Self>> {
        let interrupt = Arc::new(Interrupt::default());
        let listener = interrupt.clone();
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let entered = runtime.enter();
        let mut signals = signal(SignalKind::interrupt())?;
        drop(entered);
        let listen = async move {
            while signals.recv().await.is_some() {
                listener.interrupt(stays);
            }
        };
        thread::Builder::new().name("interrupt".into()).spawn(move || runtime.block_on(listen))?;
        Ok(interrupt)
    }

    fn interrupt(&self, stays: bool) {
        let was_running = self.state.compare_exchange(RUNNING, STOPPING, Ordering::AcqRel, Ordering::Acquire);
        match was_running {
            Ok(_) => self.changed.notify_one(),
            Err(IDLE) if stays => self.between.store(true, Ordering::Release),
            Err(_) => {
                terminal::restore();
                process::exit(EXIT_INTERRUPTED.into())
            }
        }
    }

    /// From here until [`Interrupt::end`], an interrupt cancels the statement.
    pub fn begin(&self) {
        self.state.store(RUNNING, Ordering::Release);
    }

    pub fn end(&self) {
        self.state.store(IDLE, Ordering::Release);
    }

    /// Whether an interrupt has occurred between statements since this was last asked.
    pub fn take_between(&self) -> bool {
        self.between.swap(false, Ordering::AcqRel)
    }

    /// Returns when an interrupt has occurred since [`Interrupt::begin`].
    pub async fn requested(&self) {
        // A permit may remain from an earlier statement. Only the state decides.
        while self.state.load(Ordering::Acquire) != STOPPING {
            self.changed.notified().await;
        }
    }
}
