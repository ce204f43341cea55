//! Login: the users of the users file, which is read again when it changes, and the delays after wrong passwords.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use freestone_wire::auth::{Verifier, random};

use crate::users::{Role, Users};

/// The delay after a user's first wrong password. Each further one doubles it, up to a limit.
const PENALTY: Duration = Duration::from_millis(250);
const PENALTY_DOUBLINGS: u32 = 5;
/// After this time without a wrong password, the next one counts as the first.
const FORGET: Duration = Duration::from_secs(300);
/// The maximum number of names whose wrong passwords are counted. Further names have the longest delay.
const NAMES_MAX: usize = 10_000;

pub(crate) struct Authority {
    /// `None`: login without password, with all rights.
    users: Option<Mutex<Known>>,
    /// The secret from which the challenges for unknown users are derived.
    pub secret: [u8; 32],
    failures: Mutex<HashMap<String, Failures>>,
}

/// The role of a user, and the verifier of the password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Standing {
    pub role: Role,
    verifier: String,
}

struct Known {
    users: Arc<Users>,
    /// Whether they are others than when this was last asked for.
    has_changed: bool,
    file: Option<(PathBuf, Option<Stamp>)>,
}

/// The identity of a file's state: inode, size and time of the last change.
type Stamp = (u64, u64, i64, i64);

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    last: Instant,
}

impl Authority {
    /// `file` is the users file. It is read again when it changes.
    pub fn new(users: Option<Users>, file: Option<PathBuf>) -> Self {
        let known = |users| {
            let file = file.map(|path| {
                let stamp = stamp(&path);
                (path, stamp)
            });
            Mutex::new(Known { users: Arc::new(users), has_changed: false, file })
        };
        Authority { users: users.map(known), secret: random(), failures: Mutex::default() }
    }

    /// Whether anybody may log in without a password.
    pub fn admits_anybody(&self) -> bool {
        self.users.is_none()
    }

    /// The current users of the file; `None` if anybody may log in.
    fn users(&self) -> Option<Arc<Users>> {
        let mut known = lock(self.users.as_ref()?);
        known.refresh();
        Some(known.users.clone())
    }

    /// The verifier of a user's password; `None` if the user does not exist.
    pub fn verifier(&self, name: &str) -> Option<Verifier> {
        Some(self.users()?.get(name)?.verifier.clone())
    }

    /// The role of an authenticated user.
    pub fn role(&self, name: &str) -> Option<Role> {
        if self.admits_anybody() { Some(Role::Admin) } else { Some(self.users()?.get(name)?.role) }
    }

    /// What a user may do, and by what this is known; `None` if the user does not exist.
    pub fn standing(&self, name: &str) -> Option<Standing> {
        if self.admits_anybody() {
            return Some(Standing { role: Role::Admin, verifier: String::new() });
        }
        let users = self.users()?;
        let user = users.get(name)?;
        Some(Standing { role: user.role, verifier: user.verifier.to_string() })
    }

    /// Whether the users have changed since the last call.
    pub fn has_changed(&self) -> bool {
        let Some(users) = &self.users else { return false };
        let mut known = lock(users);
        known.refresh();
        std::mem::take(&mut known.has_changed)
    }

    /// All users with their roles, for catalogs.
    pub fn roles(&self) -> Vec<(String, Role)> {
        let users = self.users().unwrap_or_default();
        users.iter().map(|(name, user)| (name.to_owned(), user.role)).collect()
    }

    /// Records a wrong password. Returns the number of recent wrong passwords, and the delay before the client is told.
    pub fn failed(&self, name: &str) -> (u32, Duration) {
        let mut failures = lock(&self.failures);
        if failures.len() >= NAMES_MAX {
            failures.retain(|_, failure| failure.last.elapsed() < FORGET);
        }
        if failures.len() >= NAMES_MAX && !failures.contains_key(name) {
            return (1, PENALTY * (1 << PENALTY_DOUBLINGS));
        }
        let now = Instant::now();
        let failure = failures.entry(name.to_owned()).or_insert(Failures { count: 0, last: now });
        if failure.last.elapsed() >= FORGET {
            failure.count = 0;
        }
        *failure = Failures { count: failure.count.saturating_add(1), last: now };
        (failure.count, PENALTY * (1 << (failure.count - 1).min(PENALTY_DOUBLINGS)))
    }
}

impl Known {
    /// Reads the file again if it has changed. If it cannot be read, this is logged and the users remain.
    fn refresh(&mut self) {
        let Some((path, known)) = &mut self.file else { return };
        let now = stamp(path);
        if *known == now {
            return;
        }
        *known = now;
        match Users::load(path) {
            Ok(users) => {
                self.users = Arc::new(users);
                self.has_changed = true;
                tracing::info!(file = %path.display(), "users were read again");
            }
            Err(error) => tracing::error!(%error, "users stay as they were"),
        }
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = fs::metadata(path).ok()?;
    // Seconds and nanoseconds of the last change of content or permissions (ctime).
    Some((metadata.ino(), metadata.len(), metadata.ctime(), metadata.ctime_nsec()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_those_of_the_file_as_it_is_now() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("users");
        let mut users = Users::default();
        users.add("ann", Role::Admin, "secret").expect("a user");
        users.save(&path).expect("saved");
        let authority = Authority::new(Some(users.clone()), Some(path.clone()));
        assert_eq!((authority.role("ann"), authority.role("bob")), (Some(Role::Admin), None));
        users.add("bob", Role::Read, "other").expect("a user");
        users.remove("ann");
        users.save(&path).expect("saved");
        assert_eq!((authority.role("ann"), authority.role("bob")), (None, Some(Role::Read)));
        assert!(authority.verifier("bob").is_some_and(|verifier| verifier.fits("other")));
        fs::write(&path, "nonsense").expect("written");
        assert_eq!(authority.role("bob"), Some(Role::Read));
        users.save(&path).expect("saved");
        assert_eq!(authority.roles(), [("bob".to_owned(), Role::Read)]);
        let anybody = Authority::new(None, None);
        assert_eq!((anybody.role("x"), anybody.verifier("x").is_some()), (Some(Role::Admin), false));
    }

    #[test]
    fn wrong_passwords_cost_more_and_more() {
        let authority = Authority::new(None, None);
        let waits: Vec<u128> = (0..8).map(|_| authority.failed("ann").1.as_millis()).collect();
        assert_eq!(waits, [250, 500, 1000, 2000, 4000, 8000, 8000, 8000]);
        assert_eq!(authority.failed("bob"), (1, PENALTY));
        for name in 0..NAMES_MAX {
            authority.failed(&name.to_string());
        }
        assert_eq!(authority.failed("made up").1.as_millis(), 8000);
        assert_eq!(lock(&authority.failures).len(), NAMES_MAX);
    }
}
