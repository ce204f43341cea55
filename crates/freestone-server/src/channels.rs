//! LISTEN and NOTIFY: channels by name, and the sessions that listen to them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

/// The maximum number of notifications that wait for a session.
const WAITING_MAX: usize = 16_384;

/// A notification: who sent it, the channel and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notification {
    pub number: u64,
    pub channel: String,
    pub payload: String,
}

/// The channels of a server.
#[derive(Default)]
pub(crate) struct Channels {
    listeners: Mutex<HashMap<u64, Listener>>,
}

struct Listener {
    channels: BTreeSet<String>,
    sender: mpsc::Sender<Arc<Notification>>,
}

/// A session's place among the listeners, until it is dropped.
pub(crate) struct Listening {
    channels: Arc<Channels>,
    number: u64,
    receiver: mpsc::Receiver<Arc<Notification>>,
}

impl Channels {
    /// A session that listens to nothing yet.
    pub fn join(self: &Arc<Self>, number: u64) -> Listening {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        self.listeners().insert(number, Listener { channels: BTreeSet::new(), sender });
        Listening { channels: self.clone(), number, receiver }
    }

    /// Gives notifications to all sessions that listen to their channels. It gives none if a session has no room for its
    /// share; returns whether they were given.
    pub fn notify(&self, notifications: Vec<Notification>) -> bool {
        let notifications: Vec<_> = notifications.into_iter().map(Arc::new).collect();
        let listeners = self.listeners();
        let share =
            |listener: &Listener| notifications.iter().filter(|n| listener.channels.contains(&n.channel)).count();
        // Nobody else sends while the listeners are locked.
        if listeners.values().any(|listener| listener.sender.capacity() < share(listener)) {
            return false;
        }
        for listener in listeners.values() {
            for notification in notifications.iter().filter(|n| listener.channels.contains(&n.channel)) {
                // A session that has just ended hears nothing.
                let _ = listener.sender.try_send(notification.clone());
            }
        }
        true
    }

    fn listeners(&self) -> MutexGuard<'_, HashMap<u64, Listener>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listening {
    pub fn listen(&self, channel: &str) {
        if let Some(listener) = self.channels.listeners().get_mut(&self.number) {
            listener.channels.insert(channel.to_owned());
        }
    }

    /// Stops listening to a channel, or to all.
    pub fn unlisten(&self, channel: Option<&str>) {
        if let Some(listener) = self.channels.listeners().get_mut(&self.number) {
            listener.channels.retain(|known| channel.is_some_and(|channel| channel != known));
        }
    }

    /// The next notification that has come.
    pub fn next(&mut self) -> Option<Arc<Notification>> {
        self.receiver.try_recv().ok()
    }

    /// Waits for a notification.
    pub async fn wait(&mut self) -> Arc<Notification> {
        match self.receiver.recv().await {
            Some(notification) => notification,
            // The sender is there as long as this is.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.channels.listeners().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notification(channel: &str, payload: String) -> Notification {
        Notification { number: 1, channel: channel.into(), payload }
    }

    #[test]
    fn sessions_hear_the_channels_to_which_they_listen() {
        let channels = Arc::<Channels>::default();
        let (mut a, mut b) = (channels.join(1), channels.join(2));
        a.listen("x");
        b.listen("x");
        b.listen("y");
        assert!(channels.notify(vec![notification("x", "1".into()), notification("y", "2".into())]));
        assert_eq!(a.next().map(|n| n.payload.clone()), Some("1".into()));
        assert_eq!(
            (b.next().is_some(), b.next().is_some(), b.next().is_none(), a.next().is_none()),
            (true, true, true, true)
        );
        a.unlisten(Some("x"));
        b.unlisten(None);
        assert!(channels.notify(vec![notification("x", "3".into())]));
        assert!(a.next().is_none() && b.next().is_none());
        drop(b);
        assert_eq!(channels.listeners().len(), 1);
    }

    #[test]
    fn notifications_for_which_there_is_no_room_are_refused_as_a_whole() {
        let channels = Arc::<Channels>::default();
        let mut listening = channels.join(1);
        listening.listen("x");
        let many = |count: usize| (0..count).map(|at| notification("x", at.to_string())).collect::<Vec<_>>();
        assert!(channels.notify(many(WAITING_MAX - 1)));
        assert!(!channels.notify(many(2)));
        assert!(channels.notify(many(1)));
        assert!((0..WAITING_MAX).all(|_| listening.next().is_some()) && listening.next().is_none());
    }
}
