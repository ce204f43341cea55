//! Rows that are larger than the client's largest chunk: the server names the size that it needs, the client answers with
//! the size that it accepts from then on, and the result continues (Raasveldt and Mühleisen 2017, section 4.1).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Mutex, watch};

use crate::error::{Result, WireError};
use crate::message;
use crate::outgoing::Outgoing;

/// The server's side of one result's agreement.
pub(crate) struct Growth {
    id: u32,
    main: Arc<Outgoing>,
    /// The largest chunk of one row that the client accepts, in bytes, for all results of the session.
    agreed: Arc<AtomicUsize>,
    /// The latest answer for this result.
    answer: watch::Sender<usize>,
    /// Held while a question has no answer: each answer belongs to one question.
    turn: Mutex<()>,
}

impl Growth {
    /// For the result `id` of a session that has agreed to `agreed` bytes so far.
    pub fn new(id: u32, main: Arc<Outgoing>, agreed: Arc<AtomicUsize>) -> Self {
        Self { id, main, agreed, answer: watch::channel(0).0, turn: Mutex::default() }
    }

    /// The largest chunk of one row that the client accepts now, in bytes.
    pub fn agreed(&self) -> usize {
        self.agreed.load(Ordering::Acquire)
    }

    /// Takes the client's answer.
    pub fn answered(&self, bytes: usize) {
        self.answer.send_replace(bytes);
    }

    /// Asks the client for room for a row that needs a chunk of `needed` bytes, unless it has agreed to that already.
    ///
    /// # Errors
    /// `RowTooLarge` if the client does not agree.
    pub async fn agree(&self, needed: usize) -> Result<()> {
        let _turn = self.turn.lock().await;
        if needed <= self.agreed() {
            return Ok(());
        }
        let mut answers = self.answer.subscribe();
        let bytes = u32::try_from(needed).unwrap_or(u32::MAX);
        self.main.send(self.id, &message::Grow { bytes }).await?;
        answers.changed().await.map_err(|_| WireError::Cancelled)?;
        let limit = *answers.borrow();
        self.agreed.fetch_max(limit, Ordering::AcqRel);
        match needed <= limit {
            true => Ok(()),
            false => Err(WireError::RowTooLarge { needed, limit, option: "row_size" }),
        }
    }
}
