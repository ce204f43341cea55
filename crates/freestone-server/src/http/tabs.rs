//! The tabs of a browser. Each is one session of the engine, with its settings, its transaction and its temporary tables, and runs
//! one list of statements at a time.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use freestone::{Progress, Session, TransactionStatus};
use tokio::sync::{OwnedMutexGuard, watch};

use super::refusal::Refusal;
use crate::sessions::Registered;

/// The maximum number of tabs of a login.
const TABS_MAX: usize = 16;
/// The maximum bytes of a tab's name, which the page chooses.
const NAME_BYTES_MAX: usize = 64;
/// The maximum number of names that are remembered of tabs that have ended.
const LOST_MAX: usize = 256;
/// How long a list of statements waits for the one before it, whose browser may just have gone.
const TURN_WAIT: Duration = Duration::from_millis(250);

/// What a page is told whose tab was ended by the server.
pub(crate) const LOST: &str = "the session of this tab was ended because it was not used: its settings, temporary tables and open \
                               transaction are gone, and a new session begins";

/// The tabs of a login, by their names.
#[derive(Default)]
pub(crate) struct Tabs {
    open: Mutex<HashMap<String, Arc<Tab>>>,
    /// The names of tabs that the server has ended, which their pages do not know yet.
    lost: Mutex<VecDeque<String>>,
}

/// A tab: a session of the engine.
pub(crate) struct Tab {
    pub session: Arc<Session>,
    pub registered: Registered,
    /// What its statement reports of long work.
    pub work: Arc<Work>,
    used: Mutex<Instant>,
    turn: Arc<tokio::sync::Mutex<()>>,
    /// How often its statements were cancelled.
    cancelled: watch::Sender<u64>,
}

impl Tab {
    pub fn new(session: Arc<Session>, registered: Registered) -> Tab {
        let work = Arc::<Work>::default();
        session.set_progress(Some(work.clone()));
        let (used, cancelled) = (Mutex::new(Instant::now()), watch::Sender::new(0));
        Tab { session, registered, work, used, turn: Arc::default(), cancelled }
    }

    /// A turn for a list of statements; `None` while another one runs.
    pub async fn begin(self: &Arc<Self>) -> Option<Turn> {
        let held = tokio::time::timeout(TURN_WAIT, self.turn.clone().lock_owned()).await.ok()?;
        Some(Turn { tab: self.clone(), cancelled: self.cancelled.subscribe(), _held: held })
    }

    /// Cancels the list of statements that runs.
    pub fn cancel(&self) {
        self.cancelled.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn end(&self) {
        self.cancel();
        self.session.cancel_handle().end();
    }

    fn is_busy(&self) -> bool {
        self.turn.try_lock().is_err()
    }

    /// The time since it was used.
    fn idle(&self) -> Duration {
        lock(&self.used).elapsed()
    }

    fn has_transaction(&self) -> bool {
        self.session.transaction_status() != TransactionStatus::Idle
    }
}

/// The right of a list of statements to use its tab, until it is dropped.
pub(crate) struct Turn {
    pub tab: Arc<Tab>,
    cancelled: watch::Receiver<u64>,
    _held: OwnedMutexGuard<()>,
}

impl Turn {
    /// Completes when the statements are cancelled.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut cancelled = self.cancelled.clone();
        async move {
            if cancelled.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *lock(&self.tab.used) = Instant::now();
    }
}

impl Tabs {
    /// The tab of this name, which is made if there is none; and whether the server has ended an earlier one that its page does
    /// not know of.
    ///
    /// # Errors
    /// The name is none, or there are too many tabs in use.
    pub fn tab(&self, name: &str, make: impl FnOnce() -> Tab) -> Result<(Arc<Tab>, bool), Refusal> {
        check_name(name)?;
        let mut open = lock(&self.open);
        if let Some(tab) = open.get(name) {
            *lock(&tab.used) = Instant::now();
            return Ok((tab.clone(), false));
        }
        if open.len() >= TABS_MAX {
            let dispensable = open.iter().filter(|(_, tab)| !tab.is_busy() && !tab.has_transaction());
            let oldest = dispensable.max_by_key(|(_, tab)| tab.idle()).map(|(name, _)| name.clone());
            let Some(oldest) = oldest else {
                let message = format!("there are {TABS_MAX} tabs with running statements or open transactions");
                return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, message).with_hint("close some"));
            };
            self.lose(&mut open, &oldest);
        }
        let tab = Arc::new(make());
        open.insert(name.to_owned(), tab.clone());
        let mut lost = lock(&self.lost);
        let was_lost = lost.iter().position(|lost| lost == name).map(|at| lost.remove(at)).is_some();
        Ok((tab, was_lost))
    }

    /// The tab of this name, if there is one.
    pub fn existing(&self, name: &str) -> Option<Arc<Tab>> {
        lock(&self.open).get(name).cloned()
    }

    /// Ends a tab, as its page wants.
    pub fn close(&self, name: &str) {
        let closed = lock(&self.open).remove(name);
        if let Some(tab) = closed {
            tab.end();
        }
    }

    fn lose(&self, open: &mut HashMap<String, Arc<Tab>>, name: &str) {
        if let Some(tab) = open.remove(name) {
            tab.end();
            let mut lost = lock(&self.lost);
            lost.truncate(LOST_MAX - 1);
            lost.push_front(name.to_owned());
        }
    }

    /// Ends tabs that were not used for `limit`, or for `of_transactions` if they have an open transaction.
    pub fn sweep(&self, limit: Duration, of_transactions: Duration) {
        let mut open = lock(&self.open);
        let is_old = |tab: &Tab| tab.idle() >= limit || tab.idle() >= of_transactions && tab.has_transaction();
        let old = open.iter().filter(|(_, tab)| is_old(tab) && !tab.is_busy());
        let names: Vec<String> = old.map(|(name, _)| name.clone()).collect();
        names.iter().for_each(|name| self.lose(&mut open, name));
    }

    /// Whether statements of a tab run.
    pub fn are_busy(&self) -> bool {
        lock(&self.open).values().any(|tab| tab.is_busy())
    }

    /// Ends all tabs.
    pub fn end_all(&self) {
        let ended = std::mem::take(&mut *lock(&self.open));
        ended.values().for_each(|tab| tab.end());
    }
}

fn check_name(name: &str) -> Result<(), Refusal> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_plain) {
        let message = format!("the name of a tab has 1 to {NAME_BYTES_MAX} letters, digits, dots, - and _");
        return Err(Refusal::bad_request(message));
    }
    Ok(())
}

/// Long work of a statement, such as the bytes of a file that it loads.
#[derive(Default)]
pub(crate) struct Work(Mutex<Option<Done>>);

/// How far work has come.
#[derive(Debug, Clone)]
pub(crate) struct Done {
    pub task: String,
    pub done: u64,
    pub total: Option<u64>,
}

impl Work {
    pub fn now(&self) -> Option<Done> {
        lock(&self.0).clone()
    }
}

impl Progress for Work {
    fn begin(&self, task: &str, total: Option<u64>) {
        *lock(&self.0) = Some(Done { task: task.to_owned(), done: 0, total });
    }

    fn advance(&self, done: u64) {
        if let Some(work) = lock(&self.0).as_mut() {
            work.done = done;
        }
    }

    fn end(&self) {
        *lock(&self.0) = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while a lock is held, and what it guards would be valid even then.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use freestone::{Database, Options};

    use super::*;
    use crate::authority::Authority;
    use crate::sessions::Sessions;
    use crate::users::Role;

    fn tab() -> Tab {
        let database = Database::in_memory(Options { threads: 1, ..Options::default() }).expect("a database");
        let session = Arc::new(database.session());
        let sessions = Sessions::new();
        let registered = sessions.register(1, &session, ("", Role::Admin), &Authority::new(None, None));
        Tab::new(session, registered)
    }

    #[tokio::test]
    async fn tabs_make_room_unless_all_are_in_use() {
        let tabs = Tabs::default();
        for name in ["", "a b", "<b>", "ä", &"x".repeat(65)] {
            assert!(tabs.tab(name, tab).is_err(), "{name}");
        }
        let mut turns = vec![];
        for at in 0..TABS_MAX {
            let (tab, was_lost) = tabs.tab(&at.to_string(), tab).expect("a tab");
            assert!(!was_lost);
            if at != 3 {
                turns.push(tab.begin().await.expect("a turn"));
            }
        }
        assert!(tabs.are_busy());
        // The only one that is not in use makes room, and its page is told.
        let (late, _) = tabs.tab("late", tab).expect("a tab");
        assert!(tabs.existing("3").is_none());
        let _turn = late.begin().await.expect("a turn");
        let refused = tabs.tab("3", tab).map(drop).expect_err("no room");
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        turns.clear();
        assert!(tabs.tab("3", tab).expect("a tab").1);
        assert!(!tabs.tab("3", tab).expect("a tab").1);
    }

    #[tokio::test]
    async fn a_tab_has_one_turn_at_a_time() {
        let tab = Arc::new(tab());
        let turn = tab.begin().await.expect("a turn");
        assert!(tab.begin().await.is_none());
        let cancelled = turn.cancelled();
        tab.cancel();
        cancelled.await;
        drop(turn);
        let next = tab.begin().await.expect("a turn");
        let waited = tokio::time::timeout(Duration::from_millis(20), next.cancelled()).await;
        assert!(waited.is_err(), "what was cancelled before is not cancelled again");
    }

    #[tokio::test]
    async fn tabs_end_that_nobody_uses() {
        let tabs = Tabs::default();
        let (busy, _) = tabs.tab("busy", tab).expect("a tab");
        let turn = busy.begin().await.expect("a turn");
        tabs.tab("idle", tab).expect("a tab");
        tabs.sweep(Duration::from_secs(60), Duration::from_secs(60));
        assert!(tabs.existing("idle").is_some());
        tabs.sweep(Duration::ZERO, Duration::ZERO);
        assert!(tabs.existing("idle").is_none() && tabs.existing("busy").is_some());
        drop(turn);
        tabs.close("busy");
        assert!(tabs.existing("busy").is_none());
        assert!(!tabs.tab("busy", tab).expect("a tab").1, "its page has closed it");
    }
}
