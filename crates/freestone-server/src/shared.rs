//! The state that all connections share: the database, authentication, limits, metrics, and the stages of stopping.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use freestone::{Database, Session};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use crate::advisory::AdvisoryLocks;
use crate::authority::Authority;
use crate::channels::Channels;
use crate::metrics::{Metrics, More};
use crate::options::Limits;
use crate::sessions::{Registered, Sessions};
use crate::traces::Traces;
use crate::users::Role;

pub(crate) struct Shared {
    pub database: Arc<Database>,
    pub authority: Authority,
    pub tls: Option<Arc<rustls::ServerConfig>>,
    pub limits: Limits,
    pub metrics: Arc<Metrics>,
    /// The threads that execute statements. Connections are served on other threads, so busy workers delay neither
    /// timeouts nor other connections.
    pub workers: Handle,
    stopping: watch::Sender<bool>,
    /// The number of connections that have logged in.
    open: AtomicUsize,
    /// The connections that have not logged in, by number, with a channel to end each.
    entering: Mutex<BTreeMap<u64, oneshot::Sender<()>>>,
    pub sessions: Arc<Sessions>,
    pub channels: Arc<Channels>,
    pub advisory_locks: Arc<AdvisoryLocks>,
    /// `None` if no traces are wanted.
    pub traces: Option<Arc<Traces>>,
}

impl Shared {
    pub fn new(
        database: Arc<Database>,
        authority: Authority,
        tls: Option<Arc<rustls::ServerConfig>>,
        limits: Limits,
        workers: Handle,
        more: More,
        traces: Option<Arc<Traces>>,
    ) -> Arc<Self> {
        Arc::new(Shared {
            database,
            authority,
            tls,
            limits,
            metrics: Arc::new(Metrics { more, ..Metrics::default() }),
            workers,
            stopping: watch::Sender::new(false),
            open: AtomicUsize::new(0),
            entering: Mutex::default(),
            sessions: Sessions::new(),
            channels: Arc::default(),
            advisory_locks: Arc::default(),
            traces,
        })
    }

    /// A place for a connection that has not logged in. If all such places are taken, the oldest of these connections
    /// must end, so that silent clients do not prevent others from logging in.
    pub fn visit(self: &Arc<Self>) -> Visit {
        Metrics::add(&self.metrics.connections, 1);
        self.metrics.open.fetch_add(1, Ordering::Relaxed);
        let number = self.sessions.next_number();
        let (end, ended) = oneshot::channel();
        let mut entering = self.entering();
        if entering.len() >= self.limits.logins.max(1)
            && let Some((_, oldest)) = entering.pop_first()
        {
            Metrics::add(&self.metrics.refused, 1);
            // The connection may have ended.
            let _ = oldest.send(());
        }
        entering.insert(number, end);
        Visit { shared: self.clone(), number, given_way: Some(ended), admitted: false }
    }

    fn entering(&self) -> MutexGuard<'_, BTreeMap<u64, oneshot::Sender<()>>> {
        self.entering.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts and logs a failed login. Returns the delay before the client is told.
    pub fn login_failed(&self, user: &str) -> Duration {
        Metrics::add(&self.metrics.failed_logins, 1);
        let (attempts, wait) = self.authority.failed(user);
        tracing::warn!(user, attempts, "the user or the password is not right");
        wait
    }

    /// A session for a user with a role.
    pub fn session(&self, role: Role) -> Arc<Session> {
        Arc::new(self.database.session_with(role.access(self.limits.query_memory)))
    }

    /// Completes when the server is to stop.
    pub async fn stopping(&self) {
        // The sender exists as long as this.
        let _ = self.stopping.subscribe().wait_for(|stopping| *stopping).await;
    }

    /// Whether the server is to stop.
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Registers the session of a connection, whose user has logged in with a role.
    pub fn register(&self, visit: &Visit, session: &Session, user: (&str, Role)) -> Registered {
        self.sessions.register(visit.number, session, user, &self.authority)
    }

    /// The same for a session that belongs to no connection.
    pub fn register_new(&self, session: &Session, user: (&str, Role)) -> Registered {
        self.sessions.register(self.sessions.next_number(), session, user, &self.authority)
    }

    /// Ends sessions whose users lose their access, until the server stops.
    pub async fn watch_access(&self) {
        if self.authority.admits_anybody() {
            return;
        }
        loop {
            tokio::time::sleep(REVIEW_EVERY).await;
            if self.authority.has_changed() {
                self.sessions.review(&self.authority);
            }
        }
    }
}

/// How often the users file is looked at for changes.
const REVIEW_EVERY: Duration = Duration::from_millis(100);

/// The error for a user whose login succeeded when all connections were taken.
pub(crate) const FULL: &str = "there are as many connections as may be";

/// The place of a connection, which is freed when this is dropped.
pub(crate) struct Visit {
    shared: Arc<Shared>,
    pub number: u64,
    given_way: Option<oneshot::Receiver<()>>,
    admitted: bool,
}

impl Visit {
    /// Completes when the connection must end before it has logged in, in favour of others.
    pub fn gives_way(&mut self) -> impl Future<Output = ()> + Send + use<> {
        let word = self.given_way.take();
        async move {
            let was_asked = match word {
                Some(word) => word.await.is_ok(),
                None => false,
            };
            if !was_asked {
                // The connection has logged in.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Takes a place among the connections that have logged in. False if all are taken.
    pub fn admit(&mut self, role: Role) -> bool {
        if self.admitted {
            return true;
        }
        let limits = &self.shared.limits;
        let reserved = if role == Role::Admin { 0 } else { limits.reserved.min(limits.connections / 10) };
        let place = |open: usize| (open + reserved < limits.connections).then_some(open + 1);
        self.admitted = self.shared.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, place).is_ok();
        if self.admitted {
            self.shared.entering().remove(&self.number);
        } else {
            Metrics::add(&self.shared.metrics.refused, 1);
        }
        self.admitted
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if self.admitted {
            self.shared.open.fetch_sub(1, Ordering::AcqRel);
        } else {
            self.shared.entering().remove(&self.number);
        }
        self.shared.metrics.open.fetch_sub(1, Ordering::Relaxed);
    }
}
