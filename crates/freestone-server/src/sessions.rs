//! The open sessions: how to cancel what they do, and how to end them. A session ends when its user no longer has the role and
//! the password with which it began, and when an administrator ends it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

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
    since: SystemTime,
    activity: SharedActivity,
}

/// What a session does, which it alone changes. `None` as long as it does not say.
type SharedActivity = Arc<Mutex<Option<Activity>>>;

/// What a session does: its state in PostgreSQL's words, and the text of its last statement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Activity {
    pub state: &'static str,
    pub query: String,
    /// When that statement began.
    pub begun: Option<SystemTime>,
    /// When the state changed.
    pub changed: Option<SystemTime>,
}

/// A session as another one sees it.
pub(crate) struct Peer {
    pub number: u64,
    pub user: String,
    /// When it began.
    pub since: SystemTime,
    /// `None` where its protocol does not say.
    pub activity: Option<Activity>,
}

/// The bytes of a statement that other sessions see, as in PostgreSQL.
const SHOWN_BYTES: usize = 1024;

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
        let (standing, since, activity) = (authority.standing(user), SystemTime::now(), SharedActivity::default());
        let open = Open {
            key,
            cancel: session.cancel_handle(),
            user: user.to_owned(),
            standing,
            ends,
            since,
            activity: activity.clone(),
        };
        // The file may have changed since the login.
        if open.standing.as_ref().map(|standing| standing.role) != Some(role) {
            open.end(Ending::Withdrawn);
        }
        self.open().insert(number, open);
        Registered { sessions: self.clone(), number, key, ended, activity }
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
        unpoisoned(&self.open)
    }
}

/// No code panics while such a lock is held, and what it holds would be valid even then.
fn unpoisoned<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A registered session, until this is dropped.
pub(crate) struct Registered {
    sessions: Arc<Sessions>,
    pub number: u64,
    pub key: [u8; 4],
    ended: watch::Receiver<Option<Ending>>,
    activity: SharedActivity,
}

impl Registered {
    /// Notes that a statement begins.
    pub fn begins(&self, text: &str) {
        let end = (0..=SHOWN_BYTES.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        let now = Some(SystemTime::now());
        let mut activity = unpoisoned(&self.activity);
        let activity = activity.get_or_insert_default();
        activity.query.clear();
        activity.query.push_str(&text[..end]);
        (activity.state, activity.begun, activity.changed) = ("active", now, now);
    }

    /// Notes that the session waits for its client, in a state of PostgreSQL.
    pub fn waits(&self, state: &'static str) {
        let mut activity = unpoisoned(&self.activity);
        let activity = activity.get_or_insert_default();
        (activity.state, activity.changed) = (state, Some(SystemTime::now()));
    }

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
    /// The sessions that this one sees, by number.
    pub fn shown(&self) -> Vec<Peer> {
        let open = self.sessions.open();
        let mut shown: Vec<_> = open.iter().filter(|(_, open)| self.sees(open)).collect();
        shown.sort_by_key(|(number, _)| **number);
        let peer = |(number, open): (&u64, &Open)| {
            let (user, activity) = (open.user.clone(), unpoisoned(&open.activity).clone());
            Peer { number: *number, user, since: open.since, activity }
        };
        shown.into_iter().map(peer).collect()
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
