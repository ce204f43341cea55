//! The workers that a server knows, and what it last heard of each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use freestone::cluster::{TaskError, WorkerState};
use parking_lot::{Mutex, RwLock};
use tonic::{Code, Status};

use crate::client::{Peer, Trust};
use crate::error::Result;
use crate::messages::{Hello, PROTOCOL, VERSION, reason};
use crate::token::Token;

/// A worker that has joined and cannot be reached for this time is forgotten; it joins again when it is back.
const FORGET: Duration = Duration::from_secs(60);

pub(crate) const READY: &str = "ready";
const DRAINING: &str = "draining";
const UNREACHABLE: &str = "unreachable";
const REFUSED: &str = "refused";
const OTHER_VERSION: &str = "other version";
const STATES: [&str; 5] = [READY, DRAINING, UNREACHABLE, REFUSED, OTHER_VERSION];

/// A worker.
#[derive(Debug)]
pub(crate) struct Member {
    pub peer: Peer,
    state: Mutex<WorkerState>,
    /// Since when it is not reached.
    lost: Mutex<Option<Instant>>,
    /// How often a worker that was ready was lost, of all workers.
    losses: Arc<AtomicU64>,
}

impl Member {
    fn new(address: &str, peer: Peer, losses: Arc<AtomicU64>) -> Member {
        let state = WorkerState {
            address: address.to_owned(),
            state: UNREACHABLE,
            version: None,
            threads: None,
            tasks: 0,
            tasks_run: 0,
            seen: None,
            reason: Some("it was not asked yet".to_owned()),
        };
        Member { peer, state: Mutex::new(state), lost: Mutex::default(), losses }
    }

    pub fn state(&self) -> WorkerState {
        self.state.lock().clone()
    }

    pub fn count_task(&self) {
        self.state.lock().tasks_run += 1;
    }

    /// A task of it failed: perhaps the worker is lost.
    pub fn note(&self, error: &TaskError) {
        if let TaskError::Lost(reason) = error {
            tracing::warn!(worker = self.state.lock().address, reason, "a worker was lost");
            self.lose(reason.clone());
        }
    }

    /// It cannot be reached, or ended while it had a task.
    pub fn lose(&self, reason: String) {
        let mut state = self.state.lock();
        if state.state == READY {
            self.losses.fetch_add(1, Ordering::Relaxed);
        }
        (state.state, state.reason, state.tasks) = (UNREACHABLE, Some(reason), 0);
        self.lost.lock().get_or_insert_with(Instant::now);
    }

    /// Asks it who it is. `identity`: by what the server's database is known.
    pub async fn ask(&self, identity: &str) {
        match self.peer.hello().await {
            Ok(hello) => {
                *self.lost.lock() = None;
                self.hear(&hello, identity);
            }
            Err(status) if is_refusal(&status) => {
                *self.lost.lock() = None;
                let mut state = self.state.lock();
                (state.state, state.reason) = (REFUSED, Some(status.message().to_owned()));
            }
            Err(status) => self.lose(reason(&status)),
        }
    }

    fn hear(&self, hello: &Hello, identity: &str) {
        let (state, reason) = if hello.version != VERSION || hello.protocol != PROTOCOL {
            (OTHER_VERSION, Some(format!("the server has version {VERSION}, with messages of version {PROTOCOL}")))
        } else if hello.database != identity {
            (REFUSED, Some("it has another database open".to_owned()))
        } else if hello.is_draining {
            (DRAINING, Some("it ends when its tasks have ended".to_owned()))
        } else {
            (READY, None)
        };
        let mut known = self.state.lock();
        (known.state, known.reason, known.seen) = (state, reason, Some(SystemTime::now()));
        (known.version, known.threads, known.tasks) = (Some(hello.version.clone()), Some(hello.threads), hello.tasks);
    }

    fn is_forgotten(&self) -> bool {
        self.lost.lock().is_some_and(|since| since.elapsed() > FORGET)
    }
}

fn is_refusal(status: &Status) -> bool {
    matches!(status.code(), Code::Unauthenticated | Code::Unimplemented)
}

/// All workers.
#[derive(Debug)]
pub(crate) struct Members {
    token: Token,
    trust: Option<Trust>,
    by_address: RwLock<BTreeMap<String, Arc<Member>>>,
    losses: Arc<AtomicU64>,
}

impl Members {
    pub fn new(token: Token, trust: Option<Trust>) -> Members {
        Members { token, trust, by_address: RwLock::default(), losses: Arc::default() }
    }

    pub fn all(&self) -> Vec<Arc<Member>> {
        self.by_address.read().values().cloned().collect()
    }

    /// How often a worker that was ready was lost.
    pub fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    /// The number of workers in each state.
    pub fn by_state(&self) -> [(&'static str, usize); STATES.len()] {
        let all = self.all();
        STATES.map(|state| (state, all.iter().filter(|member| member.state.lock().state == state).count()))
    }

    pub fn find(&self, address: &str) -> Option<Arc<Member>> {
        self.by_address.read().get(address).cloned()
    }

    /// Adds a worker, unless it is known. `name`: whose certificate it has, if not that of its address.
    ///
    /// # Errors
    /// The address is not valid, or is public while there is no TLS.
    pub fn add(&self, address: &str, name: Option<&str>) -> Result<()> {
        if self.find(address).is_none() {
            let peer = Peer::new(address, name, &self.token, self.trust.as_ref())?;
            let member = Arc::new(Member::new(address, peer, self.losses.clone()));
            self.by_address.write().entry(address.to_owned()).or_insert(member);
        }
        Ok(())
    }

    /// Forgets all workers but these.
    pub fn keep(&self, addresses: &[String]) {
        self.by_address.write().retain(|address, _| addresses.contains(address));
    }

    /// Forgets workers that cannot be reached for long.
    pub fn forget_lost(&self) {
        self.by_address.write().retain(|_, member| !member.is_forgotten());
    }

    /// Asks all workers who they are, at the same time.
    pub async fn ask(&self, identity: &str) {
        let all = self.all();
        futures::future::join_all(all.iter().map(|member| member.ask(identity))).await;
    }
}
