//! The open sessions: how to cancel what they do, and how to end them. A session ends when its user no longer has the role and
//! the password with which it began, and when an administrator ends it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use freestone::{CancelHandle, Session};
use freestone_wire::auth::random;
use subtle::ConstantTimeEq;
use tokio::sync::watch;

use crate::authority::{Authority, Standing};
use crate::users::Role;

/// Why a session ends before its client ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its user was removed, or has another role or password.
    Withdrawn,
    /// An administrator has ended it.
    Terminated,
}

impl Ending {
    pub fn message(self) -> &'static str {
        match self {
            Ending::Withdrawn => "the access of this user was changed: log in again",
            Ending::Terminated => "the session was ended by an administrator",
        }
    }
}

/// All open sessions, by number.
pub(crate) struct Sessions {
    numbers: AtomicU64,
    open: Mutex<HashMap<u64, Open>>,
}

struct Open {
    /// Who knows it may cancel the session's statements.
    key: [u8; 4],
    cancel: CancelHandle,
    user: String,
    /// With which the session began.
    standing: Option<Standing>,
    ends: watch::Sender<Option<Ending>>,
}

impl Open {
    fn end(&self, why: Ending) {
        self.ends.send_replace(Some(why));
        self.cancel.end();
    }
}

impl Sessions {
    pub fn new() -> Arc<Sessions> {
        Arc::new(Sessions { numbers: AtomicU64::new(1), open: Mutex::default() })
    }

    pub fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Registers the session of a user who has logged in with a role.
    pub fn register(
        self: &Arc<Self>,
        number: u64,
        session: &Session,
        (user, role): (&str, Role),
        authority: &Authority,
    ) -> Registered {
        let (key, (ends, ended)) = (random(), watch::channel(None));
        let standing = authority.standing(user);
        let open = Open { key, cancel: session.cancel_handle(), user: user.to_owned(), standing, ends };
        // The file may have changed since the login.
        if open.standing.as_ref().map(|standing| standing.role) != Some(role) {
            open.end(Ending::Withdrawn);
        }
        self.open().insert(number, open);
        Registered { sessions: self.clone(), number, key, ended }
    }

    /// Ends the sessions of users whose access has changed.
    pub fn review(&self, authority: &Authority) {
        for open in self.open().values() {
            if authority.standing(&open.user) != open.standing {
                open.end(Ending::Withdrawn);
            }
        }
    }

    pub fn cancel_all(&self) {
        self.open().values().for_each(|open| open.cancel.cancel());
    }

    /// Cancels the statement of a session. Does not reveal whether the session exists.
    pub fn cancel(&self, number: u64, key: [u8; 4]) {
        if let Some(open) = self.open().get(&number)
            && bool::from(open.key.ct_eq(&key))
        {
            open.cancel.cancel();
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Open>> {
        // No code panics while the lock is held, and the map would be valid even then.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A registered session, until this is dropped.
pub(crate) struct Registered {
    sessions: Arc<Sessions>,
    pub number: u64,
    pub key: [u8; 4],
    ended: watch::Receiver<Option<Ending>>,
}

impl Registered {
    /// Completes when the session has to end.
    pub fn ended(&self) -> impl Future<Output = Ending> + Send + use<> {
        let mut ended = self.ended.clone();
        async move {
            loop {
                if let Some(why) = *ended.borrow_and_update() {
                    return why;
                }
                if ended.changed().await.is_err() {
                    // Nobody can end it any more.
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.sessions.open().remove(&self.number);
    }
}

/// The sessions as one of them sees them: an administrator sees and ends all, others those of the same user.
#[derive(Clone)]
pub(crate) struct Peers {
    pub sessions: Arc<Sessions>,
    /// The number of the session that looks.
    pub own: u64,
    pub user: String,
    pub is_admin: bool,
}

impl Peers {
    /// The number and the user of each session, by number.
    pub fn shown(&self) -> Vec<(u64, String)> {
        let open = self.sessions.open();
        let mut shown: Vec<_> = open.iter().filter(|(_, open)| self.sees(open)).collect();
        shown.sort_by_key(|(number, _)| **number);
        shown.into_iter().map(|(number, open)| (*number, open.user.clone())).collect()
    }

    /// Cancels the statement of a session, or ends the session. Whether there is such a session.
    pub fn stop(&self, number: u64, ends: bool) -> bool {
        let open = self.sessions.open();
        let Some(open) = open.get(&number).filter(|open| self.sees(open)) else { return false };
        if ends {
            open.end(Ending::Terminated)
        } else {
            open.cancel.cancel()
        }
        true
    }

    fn sees(&self, open: &Open) -> bool {
        self.is_admin || open.user == self.user
    }
}

impl std::fmt::Debug for Peers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Peers of session {}", self.own)
    }
}
