//! LISTEN, UNLISTEN and NOTIFY. They have their effect when their transaction commits.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Connection, Result};
use crate::channels::Notification;
use crate::pg::error::PgError;
use crate::sqlstate;

/// The maximum bytes of what a notification says, as in PostgreSQL.
const PAYLOAD_BYTES_MAX: usize = 7999;
/// The maximum bytes of the name of a channel.
const CHANNEL_BYTES_MAX: usize = 63;
/// The maximum number of notifications of a transaction.
const NOTIFICATIONS_MAX: usize = 16_384;

/// What a transaction does to channels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelChange {
    Listen(String),
    /// One channel, or all.
    Unlisten(Option<String>),
    Notify(String, String),
}

/// The changes of a transaction that has not ended. The function `pg_notify` adds to them, too.
#[derive(Debug, Clone, Default)]
pub struct ChannelChanges(Arc<Mutex<Vec<ChannelChange>>>);

impl ChannelChanges {
    /// Adds a change.
    ///
    /// # Errors
    ///
    /// A name or text is too long, or there are too many changes.
    pub fn add(&self, change: ChannelChange) -> Result<(), PgError> {
        let invalid = |message: &str| Err(PgError::new(sqlstate::INVALID_PARAMETER_VALUE, message));
        match &change {
            ChannelChange::Notify(channel, _) if channel.is_empty() => {
                return invalid("channel name cannot be empty");
            }
            ChannelChange::Notify(channel, _) if channel.len() > CHANNEL_BYTES_MAX => {
                return invalid("channel name too long");
            }
            ChannelChange::Notify(_, payload) if payload.len() > PAYLOAD_BYTES_MAX => {
                return invalid("payload string too long");
            }
            _ => {}
        }
        let mut changes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A transaction says the same thing once.
        if matches!(change, ChannelChange::Notify(..)) && changes.contains(&change) {
            return Ok(());
        }
        if changes.len() >= NOTIFICATIONS_MAX {
            let message = format!("a transaction has {NOTIFICATIONS_MAX} notifications");
            return Err(PgError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, message));
        }
        changes.push(change);
        Ok(())
    }

    /// All changes, which are forgotten here.
    pub fn take(&self) -> Vec<ChannelChange> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Connection {
    /// Applies the changes of a transaction that has committed.
    pub fn apply_channel_changes(&mut self) {
        let (number, mut notifications) = (self.registered.number, vec![]);
        for change in self.channel_changes.take() {
            match change {
                ChannelChange::Listen(channel) => self.listening.listen(&channel),
                ChannelChange::Unlisten(channel) => self.listening.unlisten(channel.as_deref()),
                ChannelChange::Notify(channel, payload) => {
                    notifications.push(Notification { number, channel, payload })
                }
            }
        }
        if !notifications.is_empty() && !self.shared.channels.notify(notifications) {
            // The transaction has committed, so this cannot undo it.
            self.replies.notice(&PgError::warning(
                sqlstate::OUT_OF_MEMORY,
                "too many notifications wait for a session that listens; these were not sent",
            ));
        }
    }

    /// Sends the notifications that have come, unless the client is in a transaction.
    pub fn tell_notifications(&mut self) {
        while !self.has_transaction()
            && let Some(notification) = self.listening.next()
        {
            self.replies.notification(&notification);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_says_the_same_thing_once() {
        let changes = ChannelChanges::default();
        let notify = |channel: &str, payload: &str| ChannelChange::Notify(channel.into(), payload.into());
        for change in [notify("x", "a"), notify("x", "b"), notify("x", "a"), notify("y", "a")] {
            changes.add(change).expect("added");
        }
        assert!(changes.add(notify("", "a")).is_err() && changes.add(notify("x", &"a".repeat(8000))).is_err());
        assert_eq!(changes.take(), [notify("x", "a"), notify("x", "b"), notify("y", "a")]);
        assert!(changes.take().is_empty());
    }
}
