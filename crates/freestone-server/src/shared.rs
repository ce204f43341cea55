//! What all connections share: the database, who may log in, limits, and the stages of stopping.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use freestone::{CancelHandle, Database, Session};
use freestone_wire::auth::random;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use crate::authority::Authority;
use crate::metrics::Metrics;
use crate::options::Limits;
use crate::users::Role;

pub(crate) struct Shared {
    pub database: Arc<Database>,
    pub authority: Authority,
    pub tls: Option<Arc<rustls::ServerConfig>>,
    pub limits: Limits,
    pub metrics: Arc<Metrics>,
    /// Where statements run. Connections are served elsewhere, so that busy workers hold up neither clocks nor others.
    pub workers: Handle,
    stopping: watch::Sender<bool>,
    /// Connections that have logged in.
    open: AtomicUsize,
    /// Those that have not, by their numbers, with a word to end them.
    entering: Mutex<BTreeMap<u64, oneshot::Sender<()>>>,
    numbers: AtomicU64,
    sessions: Mutex<HashMap<u64, Open>>,
}

/// A session that can be cancelled from outside by who knows its key.
struct Open {
    key: [u8; 4],
    cancel: CancelHandle,
}

impl Shared {
    pub fn new(
        database: Arc<Database>,
        authority: Authority,
        tls: Option<Arc<rustls::ServerConfig>>,
        limits: Limits,
        workers: Handle,
    ) -> Arc<Self> {
        Arc::new(Shared {
            database,
            authority,
            tls,
            limits,
            metrics: Arc::default(),
            workers,
            stopping: watch::Sender::new(false),
            open: AtomicUsize::new(0),
            entering: Mutex::default(),
            numbers: AtomicU64::new(1),
            sessions: Mutex::default(),
        })
    }

    /// A place to log in from. Where there are as many as may be, the connection gives way that has waited longest: strangers
    /// who say nothing keep nobody out.
    pub fn visit(self: &Arc<Self>) -> Visit {
        Metrics::add(&self.metrics.connections, 1);
        self.metrics.open.fetch_add(1, Ordering::Relaxed);
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let (end, ended) = oneshot::channel();
        let mut entering = self.entering();
        if entering.len() >= self.limits.logins.max(1)
            && let Some((_, oldest)) = entering.pop_first()
        {
            Metrics::add(&self.metrics.refused, 1);
            // It may be gone already.
            let _ = oldest.send(());
        }
        entering.insert(number, end);
        Visit { shared: self.clone(), number, given_way: Some(ended), admitted: false }
    }

    fn entering(&self) -> MutexGuard<'_, BTreeMap<u64, oneshot::Sender<()>>> {
        self.entering.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts and logs a login that failed. Gives how long its client has to wait before it is told.
    pub fn login_failed(&self, user: &str) -> Duration {
        Metrics::add(&self.metrics.failed_logins, 1);
        let (attempts, wait) = self.authority.failed(user);
        tracing::warn!(user, attempts, "the user or the password is not right");
        wait
    }

    /// A session for a user of a role.
    pub fn session(&self, role: Role) -> Arc<Session> {
        Arc::new(self.database.session_with(role.access(self.limits.query_memory)))
    }

    /// Completes once the server shall stop.
    pub async fn stopping(&self) {
        // The sender lives as long as this does.
        let _ = self.stopping.subscribe().wait_for(|stopping| *stopping).await;
    }

    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    pub fn cancel_all(&self) {
        for open in self.sessions().values() {
            open.cancel.cancel();
        }
    }

    /// Makes a session known, to be cancelled by number and key.
    pub fn register(&self, visit: &Visit, session: &Session) -> Registered {
        let key = random();
        let number = visit.number;
        self.sessions().insert(number, Open { key, cancel: session.cancel_handle() });
        Registered { shared: visit.shared.clone(), number, key }
    }

    /// As [`Shared::register`], for a session of its own that no connection has.
    pub fn register_new(self: &Arc<Self>, session: &Session) -> Registered {
        let (key, number) = (random(), self.numbers.fetch_add(1, Ordering::Relaxed));
        self.sessions().insert(number, Open { key, cancel: session.cancel_handle() });
        Registered { shared: self.clone(), number, key }
    }

    /// Cancels what a session executes. Whether there is one is not told.
    pub fn cancel(&self, number: u64, key: [u8; 4]) {
        use subtle::ConstantTimeEq;
        if let Some(open) = self.sessions().get(&number)
            && bool::from(open.key.ct_eq(&key))
        {
            open.cancel.cancel();
        }
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<u64, Open>> {
        // Nothing panics while it is held; and if, the map is whole.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a user who has logged in has no place all the same.
pub(crate) const FULL: &str = "there are as many connections as may be";

/// A connection's place; it is free again when this is dropped.
pub(crate) struct Visit {
    shared: Arc<Shared>,
    pub number: u64,
    given_way: Option<oneshot::Receiver<()>>,
    admitted: bool,
}

impl Visit {
    /// Completes when the connection has to give way to others, before it has logged in.
    pub fn gives_way(&mut self) -> impl Future<Output = ()> + Send + use<> {
        let word = self.given_way.take();
        async move {
            let was_asked = match word {
                Some(word) => word.await.is_ok(),
                None => false,
            };
            if !was_asked {
                // It has logged in.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Takes a place among those that have logged in; `false` where there are as many as may be.
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

/// A session that others can cancel, until this is dropped.
pub(crate) struct Registered {
    shared: Arc<Shared>,
    pub number: u64,
    pub key: [u8; 4],
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.shared.sessions().remove(&self.number);
    }
}
