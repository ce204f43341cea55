//! Ctrl-C: cancels the running statement; a second one, while that statement winds down, ends the process.

use std::io;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

/// What shells report for a process that an interrupt ended: 128 + SIGINT.
pub const EXIT_INTERRUPTED: u8 = 130;

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
const STOPPING: u8 = 2;

/// Knows whether a statement runs that an interrupt can cancel.
#[derive(Debug, Default)]
pub struct Interrupt {
    state: AtomicU8,
    changed: Notify,
}

impl Interrupt {
    /// Listens on a thread of its own, which no statement can keep from running. `stays` is the shell, which an
    /// interrupt between statements does not end.
    ///
    /// The signal's handler is there when this returns: the line editor puts back what it found when it began to read
    /// a line, so a handler that came in between would be lost.
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
            Err(IDLE) if stays => {}
            Err(_) => process::exit(EXIT_INTERRUPTED.into()),
        }
    }

    /// From here until [`Interrupt::end`] an interrupt cancels.
    pub fn begin(&self) {
        self.state.store(RUNNING, Ordering::Release);
    }

    pub fn end(&self) {
        self.state.store(IDLE, Ordering::Release);
    }

    /// Returns once an interrupt has come since [`Interrupt::begin`].
    pub async fn requested(&self) {
        // A permit may be left from an earlier statement; the state is what counts.
        while self.state.load(Ordering::Acquire) != STOPPING {
            self.changed.notified().await;
        }
    }
}
