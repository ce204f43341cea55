//! The thread that renews the lease of a process.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use super::super::{Inner, Store};
use crate::log::shared::SharedLog;

/// A lease is renewed so often in the time of the retention.
const RENEWALS: u32 = 8;
const LONGEST: Duration = Duration::from_secs(60);

/// The thread, which ends when this is dropped.
#[derive(Debug)]
pub struct Keeper {
    _ends: Sender<()>,
}

impl Store {
    /// Starts the thread. If it cannot be started, the lease lapses, and what is written then is refused.
    pub(super) fn keep_lease(&self) {
        let Some(log) = self.shared.clone() else { return };
        let (ends, ended) = channel();
        let store = Arc::downgrade(&self.inner);
        let interval = (log.retention() / RENEWALS).min(LONGEST);
        let keep = move || {
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(interval) {
                let Some(inner) = Weak::upgrade(&store) else { return };
                Store { inner }.renew_lease(&log);
            }
        };
        if thread::Builder::new().name("freestone-lease".into()).spawn(keep).is_ok() {
            *self.keeper.lock() = Some(Keeper { _ends: ends });
        }
    }

    /// Renews the lease. A process that reads for longer takes one, too, so that its snapshots keep their files. What fails
    /// is tried again.
    fn renew_lease(&self, log: &SharedLog) {
        let Ok(oldest) = self.pins.oldest() else { return };
        if log.lease.lock().is_some() {
            let _ = log.renew(oldest);
        } else if !self.options.read_only && oldest.is_some() {
            let last_id = self.reader.lock().state.last_id;
            // Without the right to write, its statements fail when what they read is removed after the retention.
            let _ = log.claim(last_id, oldest);
        }
    }
}

impl Inner {
    /// Ends the lease of a store that nobody uses any more.
    pub(in crate::store) fn leave_shared(&self) {
        self.keeper.lock().take();
        if let Some(log) = &self.shared {
            log.end_lease();
        }
    }
}
