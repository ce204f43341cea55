//! The users file: one user per line, `name:role:verifier`, with the verifier in the format of PostgreSQL. `#` begins a
//! comment.
//!
//! The file contains no passwords, but verifiers allow guessing them offline, so only the owner may read the file.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use freestone::Access;
use freestone_wire::auth::Verifier;

use crate::error::{Result, ServerError};

/// The user of a server without a users file.
pub(crate) const LONE_USER: &str = "freestone";

/// The maximum bytes of a users file.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The rights of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Statements that read.
    Read,
    /// Reading, and changing tables and rows.
    Write,
    /// Everything, including files of the server's machine.
    Admin,
}

impl Role {
    /// The engine's access rights of a session with this role.
    pub fn access(self, memory: Option<usize>) -> Access {
        Access { write: self != Role::Read, files: self == Role::Admin, admin: self == Role::Admin, memory }
    }

    /// The role's name in the users file.
    pub fn name(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Write => "write",
            Role::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Role::Read, Role::Write, Role::Admin]
            .into_iter()
            .find(|role| role.name() == text)
            .ok_or_else(|| format!("`{text}` is no role: it is read, write or admin"))
    }
}

/// One user.
/// The user's rights.
/// The verifier of the user's password.
#[derive(Debug, Clone)]
pub struct User {
    /// The user's rights.
    pub role: Role,
    /// The verifier of the user's password.
    pub verifier: Verifier,
}

/// All users, by name.
#[derive(Debug, Clone, Default)]
pub struct Users {
    users: BTreeMap<String, User>,
}

impl Users {
    /// Reads a users file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is readable by others than its owner, or is malformed.
    pub fn load(path: &Path) -> Result<Users> {
        let metadata = fs::metadata(path).map_err(|error| {
            ServerError::file("users file", path, error)
                .with_hint(format!("make one: freestone user add NAME --role admin --users {}", path.display()))
        })?;
        if !metadata.is_file() {
            return Err(ServerError::file("users file", path, "is not a file"));
        }
        if metadata.mode() & 0o077 != 0 {
            let mode = metadata.mode() & 0o777;
            return Err(ServerError::file(
                "users file",
                path,
                format!("others than its owner can use it (mode {mode:o})"),
            )
            .with_hint(format!("chmod 600 {}", path.display())));
        }
        if metadata.len() > FILE_BYTES_MAX {
            return Err(ServerError::file("users file", path, "is too large to be one"));
        }
        let text = fs::read_to_string(path).map_err(|error| ServerError::file("users file", path, error))?;
        Users::parse(&text).map_err(|(line, reason)| {
            ServerError::new(format!("users file {}:{line}: {reason}", path.display()))
                .with_hint("a line is name:role:verifier; `freestone user add` writes them")
        })
    }

    /// Parses the text of a users file.
    ///
    /// # Errors
    ///
    /// The number of the line, counted from 1, and the reason. The text does not contain the verifier.
    pub fn parse(text: &str) -> Result<Users, (usize, String)> {
        let mut users = Users::default();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, user) = parse_line(line).map_err(|reason| (at + 1, reason))?;
            if users.users.insert(name.clone(), user).is_some() {
                return Err((at + 1, format!("user {name} appears twice")));
            }
        }
        Ok(users)
    }

    /// Adds a user, or changes the role and password of an existing one.
    ///
    /// # Errors
    ///
    /// The name or password is invalid.
    pub fn add(&mut self, name: &str, role: Role, password: &str) -> Result<()> {
        check_name(name).map_err(ServerError::new)?;
        if password.is_empty() {
            return Err(ServerError::new("the password is empty").with_hint("give it on standard input, one line"));
        }
        self.users.insert(name.to_owned(), User { role, verifier: Verifier::new(password) });
        Ok(())
    }

    /// Removes a user. Returns whether it existed.
    pub fn remove(&mut self, name: &str) -> bool {
        self.users.remove(name).is_some()
    }

    /// The user with this name.
    pub fn get(&self, name: &str) -> Option<&User> {
        self.users.get(name)
    }

    /// All users with their names, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &User)> {
        self.users.iter().map(|(name, user)| (name.as_str(), user))
    }

    /// Whether there are no users.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Replaces the file atomically, readable only by its owner.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let failed = |error: std::io::Error| ServerError::file("cannot write users file", path, error);
        let text: String = self.users.iter().map(|(name, user)| line(name, user)).collect();
        let (temporary, mut file) = create_beside(path).map_err(failed)?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        let placed = written.and_then(|()| fs::rename(&temporary, path));
        if placed.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        placed.map_err(failed)
    }
}

fn create_beside(path: &Path) -> std::io::Result<(PathBuf, File)> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let temporary = path.with_file_name(name);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    Ok((temporary, file))
}

fn line(name: &str, user: &User) -> String {
    format!("{name}:{}:{}\n", user.role, user.verifier)
}

fn parse_line(line: &str) -> Result<(String, User), String> {
    let mut parts = line.splitn(3, ':');
    let (Some(name), Some(role), Some(verifier)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("expected name:role:verifier".to_owned());
    };
    check_name(name)?;
    let verifier = verifier.parse().map_err(|error: freestone_wire::WireError| error.to_string())?;
    Ok((name.to_owned(), User { role: role.parse()?, verifier }))
}

fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |c: char| !c.is_control() && !c.is_whitespace() && c != ':' && c != '#';
    if name.is_empty() || name.len() > 63 || !name.chars().all(is_plain) {
        return Err(format!("{name:?} cannot be a user's name: 1 to 63 bytes without spaces, colons and #"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn users() -> Users {
        let mut users = Users::default();
        users.add("ann", Role::Admin, "secret").expect("a user");
        users.add("bob", Role::Read, "other").expect("a user");
        users
    }

    #[test]
    fn a_file_keeps_users_and_nobody_else_reads_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("users");
        users().save(&path).expect("saved");
        assert_eq!(fs::metadata(&path).expect("a file").mode() & 0o777, 0o600);
        let read = Users::load(&path).expect("loaded");
        let roles: Vec<_> = read.iter().map(|(name, user)| (name.to_owned(), user.role)).collect();
        assert_eq!(roles, [("ann".to_owned(), Role::Admin), ("bob".to_owned(), Role::Read)]);
        assert!(!fs::read_to_string(&path).expect("text").contains("secret"));
        for mode in [0o644, 0o640, 0o604, 0o620] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("chmod");
            let error = Users::load(&path).expect_err("refused");
            assert!(error.hint().is_some_and(|hint| hint.starts_with("chmod 600")), "{error}");
        }
    }

    #[test]
    fn bad_lines_are_named_without_their_secrets() {
        for (text, line, part) in [
            ("ann", 1, "name:role"),
            ("\n# note\nann:root:SCRAM-SHA-256$1", 3, "verifier has the form"),
            ("ann:read:SCRAM-SHA-256$4096:c2FsdA==$AAAA", 1, "verifier"),
            ("a b:read:x", 1, "cannot be a user's name"),
        ] {
            let (at, reason) = Users::parse(text).expect_err(text);
            assert!(at == line && reason.contains(part) && !reason.contains("c2FsdA"), "{text}: {at} {reason}");
        }
        let twice: String = users().users.iter().take(1).map(|(n, u)| line(n, u)).collect::<String>().repeat(2);
        assert_eq!(Users::parse(&twice).expect_err("twice").0, 2);
    }
}
