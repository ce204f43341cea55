//! Logins of browsers: a password or a one-time code gets a cookie, and later requests with this cookie use its tabs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::code::OneTimeCode;
use super::refusal::Refusal;
use super::tabs::Tabs;
use crate::authority::Standing;
use crate::scram;
use crate::shared::{FULL, Shared};
use crate::sqlstate;
use crate::users::{LONE_USER, Role};

/// A login ends after this time without a request, unless the server has a limit of its own.
const IDLE: Duration = Duration::from_secs(12 * 3600);
/// So does a tab of a server. What it holds may keep others waiting.
const TAB_IDLE: Duration = Duration::from_secs(1800);
/// Attempts to log in at the same time: for one user, and for all.
const ATTEMPTS_OF_USER_MAX: usize = 4;
const ATTEMPTS_MAX: usize = 64;

/// A browser that has logged in.
pub(crate) struct Login {
    pub user: String,
    pub role: Role,
    standing: Option<Standing>,
    used: Mutex<Instant>,
    pub tabs: Tabs,
}

/// By what a browser logs in.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Credentials {
    Code { code: String },
    Password { user: String, password: String },
}

/// What a browser must give to log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needed {
    Nothing,
    Code,
    Password,
}

impl Needed {
    pub fn name(self) -> &'static str {
        match self {
            Needed::Nothing => "none",
            Needed::Code => "code",
            Needed::Password => "password",
        }
    }
}

/// All logins, by the hash of their cookies.
pub(crate) struct Logins {
    shared: Arc<Shared>,
    code: Option<Arc<OneTimeCode>>,
    /// The name of the cookie. Browsers send a cookie to all ports of its host, so the name has the port.
    cookie: String,
    is_secure: bool,
    logins: Mutex<HashMap<[u8; 32], Arc<Login>>>,
    /// The attempts that run, by user.
    attempts: Mutex<HashMap<String, usize>>,
}

/// The key of the only login where anybody may log in.
const ANYBODY: [u8; 32] = [0; 32];

impl Logins {
    pub fn new(shared: Arc<Shared>, code: Option<Arc<OneTimeCode>>, port: u16, is_secure: bool) -> Logins {
        // Browsers take a cookie of this prefix only over TLS, and from this host alone.
        let cookie = format!("{}freestone-{port}", if is_secure { "__Host-" } else { "" });
        Logins { shared, code, cookie, is_secure, logins: Mutex::default(), attempts: Mutex::default() }
    }

    /// What a browser that has not logged in must give.
    pub fn needed(&self) -> Needed {
        match &self.code {
            _ if self.shared.authority.admits_anybody() => Needed::Nothing,
            Some(_) => Needed::Code,
            None => Needed::Password,
        }
    }

    /// The login of a request.
    ///
    /// # Errors
    /// Its cookie is missing or not known, or too many browsers have logged in.
    pub fn of(&self, headers: &HeaderMap) -> Result<Arc<Login>, Refusal> {
        if self.needed() == Needed::Nothing {
            return match self.known(&ANYBODY) {
                Some(login) => Ok(login),
                None => self.insert(ANYBODY, String::new(), Role::Admin),
            };
        }
        let known = self.keys(headers).find_map(|key| self.known(&key));
        known.ok_or_else(|| {
            Refusal::new(StatusCode::UNAUTHORIZED, "you are not logged in, or not any more")
                .with_hint("log in again")
                .with_sqlstate(sqlstate::INVALID_AUTHORIZATION_SPECIFICATION)
        })
    }

    /// The keys of a request's cookies.
    fn keys(&self, headers: &HeaderMap) -> impl Iterator<Item = [u8; 32]> {
        let texts = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let own = pairs.filter(|(name, _)| *name == self.cookie).map(|(_, token)| Sha256::digest(token).into());
        // More are not from a browser that has logged in.
        own.take(4)
    }

    fn known(&self, key: &[u8; 32]) -> Option<Arc<Login>> {
        let login = self.logins().get(key).cloned()?;
        if !self.stands(&login) {
            self.end(key);
            return None;
        }
        *lock(&login.used) = Instant::now();
        Some(login)
    }

    /// Whether a login's user still has the role and the password with which it began.
    fn stands(&self, login: &Login) -> bool {
        self.shared.authority.standing(&login.user) == login.standing
    }

    /// The value of `Set-Cookie` for a user who has logged in.
    ///
    /// # Errors
    /// The code, or the user or the password is not right; or there are too many attempts or logins.
    pub async fn log_in(&self, headers: &HeaderMap, credentials: Credentials) -> Result<Option<String>, Refusal> {
        let user = match (self.needed(), credentials) {
            (Needed::Nothing, _) => return Ok(None),
            (Needed::Code, Credentials::Code { code }) => {
                let _attempt = self.attempt(LONE_USER)?;
                if !self.code.as_ref().is_some_and(|own| own.use_up(&code)) {
                    tokio::time::sleep(self.shared.login_failed(LONE_USER)).await;
                    return Err(wrong("the code is not right, or was used before")
                        .with_hint("use the address that the terminal shows now: each code is for one login"));
                }
                LONE_USER.to_owned()
            }
            (Needed::Password, Credentials::Password { user, password }) => {
                let _attempt = self.attempt(&user)?;
                self.check_password(&user, password).await?;
                user
            }
            (needed, _) => {
                return Err(Refusal::bad_request(format!("this server wants a {}", needed.name())));
            }
        };
        let role = self.shared.authority.role(&user).ok_or_else(|| wrong("the user or the password is not right"))?;
        tracing::info!(user, %role, "logged in over HTTP");
        // A browser has one login: the earlier one ends.
        self.log_out(headers);
        let token = scram::random_text();
        self.insert(Sha256::digest(&token).into(), user, role)?;
        let secure = if self.is_secure { "; Secure" } else { "" };
        Ok(Some(format!("{}={token}; HttpOnly; SameSite=Strict; Path=/{secure}", self.cookie)))
    }

    async fn check_password(&self, user: &str, password: String) -> Result<(), Refusal> {
        let (shared, name) = (self.shared.clone(), user.to_owned());
        // Checking a password takes milliseconds, which must not delay other connections.
        let right = self.shared.workers.spawn_blocking(move || {
            let authority = &shared.authority;
            scram::password_is_right(&password, &name, authority.verifier(&name), &authority.secret)
        });
        if right.await.unwrap_or(false) {
            return Ok(());
        }
        tokio::time::sleep(self.shared.login_failed(user)).await;
        Err(wrong("the user or the password is not right"))
    }

    /// A place among the attempts to log in, until it is dropped.
    fn attempt(&self, user: &str) -> Result<Attempt<'_>, Refusal> {
        let mut attempts = lock(&self.attempts);
        let of_all: usize = attempts.values().sum();
        let of_user = attempts.get(user).copied().unwrap_or(0);
        if of_all >= ATTEMPTS_MAX || of_user >= ATTEMPTS_OF_USER_MAX {
            return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too many attempts to log in at the same time")
                .with_hint("wait until they are answered"));
        }
        attempts.insert(user.to_owned(), of_user + 1);
        Ok(Attempt { logins: self, user: user.to_owned() })
    }

    fn insert(&self, key: [u8; 32], user: String, role: Role) -> Result<Arc<Login>, Refusal> {
        let standing = self.shared.authority.standing(&user);
        let login = Arc::new(Login { user, role, standing, used: Mutex::new(Instant::now()), tabs: Tabs::default() });
        let mut logins = self.logins();
        if logins.len() >= self.shared.limits.connections {
            return Err(full());
        }
        logins.insert(key, login.clone());
        Ok(login)
    }

    /// Ends the login of a request, if there is one.
    pub fn log_out(&self, headers: &HeaderMap) {
        let keys: Vec<[u8; 32]> = self.keys(headers).collect();
        keys.iter().for_each(|key| self.end(key));
    }

    /// The value of `Set-Cookie` that removes the cookie.
    pub fn no_cookie(&self) -> String {
        let secure = if self.is_secure { "; Secure" } else { "" };
        format!("{}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0{secure}", self.cookie)
    }

    fn end(&self, key: &[u8; 32]) {
        let ended = self.logins().remove(key);
        if let Some(login) = ended {
            login.tabs.end_all();
        }
    }

    /// Ends logins and tabs that nobody has used for long, and those of users who have lost their access.
    pub fn sweep(&self) {
        let limit = self.shared.limits.idle;
        let all: Vec<([u8; 32], Arc<Login>)> = self.logins().iter().map(|(key, login)| (*key, login.clone())).collect();
        for (key, login) in all {
            // The user of a code may come back after any time: there is no other way in.
            let of_tabs = limit.unwrap_or(if self.code.is_some() { IDLE } else { TAB_IDLE });
            login.tabs.sweep(of_tabs, of_tabs.min(TAB_IDLE));
            let is_old = self.code.is_none() && lock(&login.used).elapsed() >= limit.unwrap_or(IDLE);
            if !self.stands(&login) || is_old && !login.tabs.are_busy() {
                self.end(&key);
            }
        }
    }

    /// Ends all logins.
    pub fn end_all(&self) {
        let ended = std::mem::take(&mut *self.logins());
        ended.values().for_each(|login| login.tabs.end_all());
    }

    fn logins(&self) -> MutexGuard<'_, HashMap<[u8; 32], Arc<Login>>> {
        lock(&self.logins)
    }
}

struct Attempt<'a> {
    logins: &'a Logins,
    user: String,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let mut attempts = lock(&self.logins.attempts);
        match attempts.get_mut(&self.user) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(attempts.remove(&self.user)),
        }
    }
}

fn wrong(message: &str) -> Refusal {
    Refusal::new(StatusCode::UNAUTHORIZED, message).with_sqlstate(sqlstate::INVALID_PASSWORD)
}

/// The refusal where all places are taken.
pub(crate) fn full() -> Refusal {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, FULL)
        .with_hint("try again later")
        .with_sqlstate(sqlstate::TOO_MANY_CONNECTIONS)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while a lock is held, and what it guards would be valid even then.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
