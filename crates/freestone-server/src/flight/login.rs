//! Authentication: a call with a password gets a token, and later calls with this token use its session.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use freestone::{Description, Session, Statement};
use prost::bytes::Bytes;
use sha2::{Digest, Sha256};
use tonic::{Request, Status};

use super::transactions::Transactions;
use crate::authority::Standing;
use crate::place::Place;
use crate::scram;
use crate::sessions::Registered;
use crate::shared::{FULL, Shared};
use crate::users::Role;

/// A session ends after this time without a call.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// The maximum number of statements that a session stores before they are executed.
const STATEMENTS_MAX: usize = 10_000;

/// A session over Flight SQL.
pub struct Login {
    pub session: Arc<Session>,
    /// The user and role for which the session was created.
    user: String,
    role: Role,
    standing: Option<Standing>,
    _registered: Registered,
    used: Mutex<Instant>,
    statements: Mutex<HashMap<Vec<u8>, Planned>>,
    /// The open transactions. Each has its own session.
    pub transactions: Transactions,
}

/// A statement that is to be executed: once, or several times if it is prepared.
#[derive(Clone)]
pub struct Planned {
    pub statement: Arc<Statement>,
    /// The session of the statement: of its transaction, if it belongs to one.
    pub session: Arc<Session>,
    pub description: Arc<Description>,
    /// Rows of values for its parameters.
    pub parameters: Vec<RecordBatch>,
    pub is_prepared: bool,
}

impl Planned {
    /// Whether the statement returns no rows.
    pub fn gives_no_rows(&self) -> bool {
        self.description.schema.is_none()
    }
}

impl Login {
    fn statements(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Planned>> {
        self.statements.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a statement and returns its handle, which is valid in this session only.
    pub fn keep(&self, planned: Planned) -> Result<Vec<u8>, Status> {
        let mut statements = self.statements();
        if statements.len() >= STATEMENTS_MAX {
            return Err(Status::resource_exhausted(format!(
                "the session holds {STATEMENTS_MAX} statements; close some"
            )));
        }
        let handle = scram::random_text().into_bytes();
        statements.insert(handle.clone(), planned);
        Ok(handle)
    }

    /// The statement of a handle. It is removed unless it is prepared.
    pub fn take(&self, handle: &[u8]) -> Result<Planned, Status> {
        let mut statements = self.statements();
        let planned = statements.get(handle).cloned().ok_or_else(no_statement)?;
        if !planned.is_prepared {
            statements.remove(handle);
        }
        Ok(planned)
    }

    /// Sets the parameters of a prepared statement.
    pub fn set_parameters(&self, handle: &[u8], parameters: Vec<RecordBatch>) -> Result<(), Status> {
        self.statements().get_mut(handle).ok_or_else(no_statement)?.parameters = parameters;
        Ok(())
    }

    /// Removes a prepared statement.
    pub fn close(&self, handle: &[u8]) {
        self.statements().remove(handle);
    }

    /// A new session, for a transaction.
    pub fn new_session(&self, shared: &Shared) -> (Arc<Session>, Registered) {
        let session = shared.session(self.role);
        let registered = shared.register_new(&session, (&self.user, self.role));
        (session, registered)
    }

    /// The session of a statement: that of the named transaction, or otherwise that of the login.
    pub fn session_of(&self, transaction: Option<&Bytes>) -> Result<Arc<Session>, Status> {
        match transaction.filter(|id| !id.is_empty()) {
            Some(id) => self.transactions.session(id),
            None => Ok(self.session.clone()),
        }
    }
}

fn no_statement() -> Status {
    Status::not_found("there is no such statement in this session: it was executed or closed")
}

/// All sessions, by the hash of the token or credentials that their clients send.
pub struct Logins {
    shared: Arc<Shared>,
    logins: Mutex<HashMap<[u8; 32], Arc<Login>>>,
}

impl Logins {
    pub fn new(shared: Arc<Shared>) -> Self {
        Logins { shared, logins: Mutex::default() }
    }

    /// The session for a call's token, or for the name and password that it has instead.
    pub async fn of<T>(&self, request: &Request<T>) -> Result<Arc<Login>, Status> {
        let login = self.shown(request).await?;
        admit(request, login.role)?;
        Ok(login)
    }

    async fn shown<T>(&self, request: &Request<T>) -> Result<Arc<Login>, Status> {
        let header = request.metadata().get("authorization").and_then(|value| value.to_str().ok()).map(str::to_owned);
        let Some(header) = header else {
            if self.shared.authority.admits_anybody() {
                return self.login_anybody();
            }
            return Err(Status::unauthenticated("who are you? log in with a user and a password"));
        };
        if let Some(known) = self.known(&Sha256::digest(&header).into()) {
            return Ok(known);
        }
        if header.starts_with("Basic ") || header.starts_with("basic ") {
            return self.login(&header, &header).await;
        }
        if self.shared.authority.admits_anybody() {
            return self.login_anybody();
        }
        Err(Status::unauthenticated("the token is not known, or has expired: log in again"))
    }

    /// A new token for credentials of the form `Basic …`.
    pub async fn token<T>(&self, request: &Request<T>, basic: &str) -> Result<String, Status> {
        let token = scram::random_text();
        let login = self.login(basic, &format!("Bearer {token}")).await?;
        admit(request, login.role)?;
        Ok(token)
    }

    fn known(&self, key: &[u8; 32]) -> Option<Arc<Login>> {
        let login = self.logins().get(key).cloned()?;
        // Removed users, and users with another role or password, must log in again.
        if self.shared.authority.standing(&login.user) != login.standing {
            self.logins().remove(key);
            return None;
        }
        *login.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        Some(login)
    }

    async fn login(&self, basic: &str, key: &str) -> Result<Arc<Login>, Status> {
        let (user, password) =
            credentials(basic).ok_or_else(|| Status::unauthenticated("the credentials are malformed"))?;
        let (shared, name) = (self.shared.clone(), user.clone());
        // Checking a password takes milliseconds, which must not delay other connections.
        let right = self.shared.workers.spawn_blocking(move || {
            let authority = &shared.authority;
            let verifier = authority.verifier(&name);
            authority.admits_anybody() || scram::password_is_right(&password, &name, verifier, &authority.secret)
        });
        let role = self.shared.authority.role(&user);
        match (right.await.unwrap_or(false), role) {
            (true, Some(role)) => {
                tracing::info!(user, role = %role, "logged in over Flight SQL");
                self.insert(Sha256::digest(key).into(), user, role)
            }
            _ => {
                tokio::time::sleep(self.shared.login_failed(&user)).await;
                Err(Status::unauthenticated("the user or the password is not right"))
            }
        }
    }

    fn login_anybody(&self) -> Result<Arc<Login>, Status> {
        let key = [0; 32];
        match self.known(&key) {
            Some(login) => Ok(login),
            None => self.insert(key, String::new(), Role::Admin),
        }
    }

    fn insert(&self, key: [u8; 32], user: String, role: Role) -> Result<Arc<Login>, Status> {
        let session = self.shared.session(role);
        let registered = self.shared.register_new(&session, (&user, role));
        let standing = self.shared.authority.standing(&user);
        let login = Arc::new(Login {
            session,
            user,
            role,
            standing,
            _registered: registered,
            used: Mutex::new(Instant::now()),
            statements: Mutex::default(),
            transactions: Transactions::default(),
        });
        let idle = self.shared.limits.idle.unwrap_or(IDLE);
        let mut logins = self.logins();
        logins.retain(|_, login| {
            Arc::strong_count(login) > 1 || login.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed() < idle
        });
        if logins.len() >= self.shared.limits.connections {
            return Err(Status::resource_exhausted("there are as many sessions as may be; try again later"));
        }
        logins.insert(key, login.clone());
        Ok(login)
    }

    fn logins(&self) -> MutexGuard<'_, HashMap<[u8; 32], Arc<Login>>> {
        self.logins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts the call's connection as logged in.
fn admit<T>(request: &Request<T>, role: Role) -> Result<(), Status> {
    let place = request.extensions().get::<Arc<Place>>();
    if place.is_none_or(|place| place.admit(role)) { Ok(()) } else { Err(Status::resource_exhausted(FULL)) }
}

/// The user and password in `Basic base64(user:password)`.
fn credentials(basic: &str) -> Option<(String, String)> {
    // Clients in Go omit the padding.
    let bytes = BASE64.decode(basic.get(6..)?.trim().trim_end_matches('=')).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_or_refused() {
        assert_eq!(credentials("Basic YW5uOmE6Yg=="), Some(("ann".into(), "a:b".into())));
        assert_eq!(credentials("Basic YW5uOmE6Yg"), Some(("ann".into(), "a:b".into())));
        for bad in ["", "Basic", "Basic *", "Basic YW5u", "Basic /w=="] {
            assert_eq!(credentials(bad), None, "{bad}");
        }
    }
}
