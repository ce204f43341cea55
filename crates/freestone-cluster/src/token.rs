//! The secret of a cluster, and what is signed with it.
//!
//! The secret itself is never sent. Each request has a signature of what it asks for (HMAC-SHA-256, RFC 2104), so what
//! somebody reads on the way can be repeated, but not changed. Who asks for a task also says what its statement may do: it
//! has [`Rights`] to one database, which expire. Without them a task does not begin.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::{Request, Status};

use crate::error::{ClusterError, Result};

/// The least length of a secret, in bytes.
const BYTES_MIN: usize = 16;
const BYTES_MAX: usize = 4 << 10;
/// Where a request has its signature, and where its rights.
const SIGNATURE: &str = "authorization";
const SCHEME: &str = "Freestone ";
const RIGHTS: &str = "freestone-rights";
/// The most bytes of rights in a request.
const RIGHTS_BYTES_MAX: usize = 4 << 10;
/// How long rights hold: a task begins within this time, or not at all. A task that has begun may end later.
pub(crate) const RIGHTS_HOLD: Duration = Duration::from_secs(30);

/// What a statement may do on a worker: read a database. They hold for the task that they are signed with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rights {
    /// By what the database is known.
    pub database: String,
    /// Until when, in milliseconds since 1970 by the worker's clock.
    pub expires_ms: u64,
}

/// What a signature is for, so that none can be used for something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose<'a> {
    Task,
    /// An action with this name.
    Action(&'a str),
    /// The answer to a question.
    Answer,
}

impl Purpose<'_> {
    fn parts(&self) -> [&str; 2] {
        match self {
            Purpose::Task => ["task", ""],
            Purpose::Action(name) => ["action", name],
            Purpose::Answer => ["answer", ""],
        }
    }
}

/// The secret that all processes of a cluster have. It is never shown, and never sent.
#[derive(Clone)]
pub struct Token(Hmac<Sha256>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// The secret in a file: its text without white space at both ends.
    ///
    /// # Errors
    /// The file cannot be read, others than its owner can read it, or its text is no secret.
    pub fn load(path: &Path) -> Result<Token> {
        use std::os::unix::fs::MetadataExt;
        let wrong = |reason: String| {
            ClusterError::file("token file", path, reason)
                .with_hint("make one: (umask 077; head -c 32 /dev/urandom | base64 > cluster.token)")
        };
        let metadata = fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
        if metadata.mode() & 0o077 != 0 {
            return Err(ClusterError::file("token file", path, "others than its owner can read it")
                .with_hint(format!("chmod 600 {}", path.display())));
        }
        let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        Token::of(text.trim()).map_err(wrong)
    }

    /// A secret from its text. The error says what is wrong with it, without the text.
    pub(crate) fn of(text: &str) -> Result<Token, String> {
        if !(BYTES_MIN..=BYTES_MAX).contains(&text.len()) {
            return Err(format!("the token has {} bytes; it needs {BYTES_MIN} to {BYTES_MAX}", text.len()));
        }
        if !text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
            return Err("the token has other characters than printable ones of ASCII".to_owned());
        }
        // Keys of all lengths are valid.
        Hmac::new_from_slice(text.as_bytes()).map(Token).map_err(|error| error.to_string())
    }

    /// The signature of some texts for a purpose, in hexadecimal digits.
    pub(crate) fn signature(&self, purpose: Purpose<'_>, parts: &[&[u8]]) -> String {
        let mut code = self.0.clone();
        let purpose = purpose.parts();
        for part in purpose.iter().map(|part| part.as_bytes()).chain(parts.iter().copied()) {
            // With the length, so that no two lists of parts are the same bytes.
            code.update(&(part.len() as u64).to_le_bytes());
            code.update(part);
        }
        code.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether a signature is that of the texts. The comparison takes the same time wherever two signatures differ.
    pub(crate) fn is_signature(&self, given: &[u8], purpose: Purpose<'_>, parts: &[&[u8]]) -> bool {
        bool::from(self.signature(purpose, parts).as_bytes().ct_eq(given))
    }

    /// Signs a request for an action.
    pub(crate) fn sign_action<T>(&self, mut request: Request<T>, name: &str, body: &[u8]) -> Request<T> {
        let signature = self.signature(Purpose::Action(name), &[body]);
        put(request.metadata_mut(), SIGNATURE, &format!("{SCHEME}{signature}"));
        request
    }

    /// Signs a request for a task, with what its statement may do.
    pub(crate) fn sign_task<T>(&self, mut request: Request<T>, rights: &Rights, task: &[u8]) -> Request<T> {
        // Two fields have a form in JSON.
        let rights = STANDARD.encode(serde_json::to_vec(rights).unwrap_or_default());
        let signature = self.signature(Purpose::Task, &[rights.as_bytes(), task]);
        put(request.metadata_mut(), RIGHTS, &rights);
        put(request.metadata_mut(), SIGNATURE, &format!("{SCHEME}{signature}"));
        request
    }

    /// Refuses an action that is not signed with this secret.
    pub(crate) fn check_action(&self, metadata: &MetadataMap, name: &str, body: &[u8]) -> Result<(), Status> {
        self.check(metadata, Purpose::Action(name), &[body])
    }

    /// Refuses a task that is not signed with this secret, or to which the database must not be read any more.
    pub(crate) fn check_task(
        &self,
        metadata: &MetadataMap,
        task: &[u8],
        (database, now_ms): (&str, u64),
    ) -> Result<(), Status> {
        let refused = |reason: &str| Err(Status::unauthenticated(reason));
        let rights = metadata.get(RIGHTS).map(|value| value.as_bytes()).unwrap_or_default();
        self.check(metadata, Purpose::Task, &[rights, task])?;
        let read = STANDARD.decode(rights).ok().filter(|bytes| bytes.len() <= RIGHTS_BYTES_MAX);
        let Some(rights) = read.and_then(|bytes| serde_json::from_slice::<Rights>(&bytes).ok()) else {
            return refused("the task has no rights");
        };
        if rights.database != database {
            return refused("the rights of the task are for another database");
        }
        if rights.expires_ms <= now_ms {
            return refused("the rights of the task have expired");
        }
        if rights.expires_ms > now_ms.saturating_add(2 * RIGHTS_HOLD.as_millis() as u64) {
            return refused("the rights of the task hold for too long");
        }
        Ok(())
    }

    fn check(&self, metadata: &MetadataMap, purpose: Purpose<'_>, parts: &[&[u8]]) -> Result<(), Status> {
        let given = metadata.get(SIGNATURE).map(|value| value.as_bytes()).unwrap_or_default();
        match given.strip_prefix(SCHEME.as_bytes()) {
            Some(given) if self.is_signature(given, purpose, parts) => Ok(()),
            _ => Err(Status::unauthenticated("the token is not that of this cluster")),
        }
    }
}

fn put(metadata: &mut MetadataMap, name: &'static str, value: &str) {
    // Digits and Base64 are valid values.
    if let Ok(mut value) = value.parse::<MetadataValue<Ascii>>() {
        value.set_sensitive(true);
        metadata.insert(name, value);
    }
}

/// The time by the clock of this machine, in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789abcdef-secret";
    const NOW: u64 = 1_800_000_000_000;

    fn rights(expires_ms: u64) -> Rights {
        Rights { database: "a".to_owned(), expires_ms }
    }

    fn token(text: &str) -> Token {
        Token::of(text).expect("a token")
    }

    #[test]
    fn a_secret_is_checked_and_neither_shown_nor_sent() {
        let token = token(SECRET);
        assert!(!format!("{token:?}").contains("secret"));
        let signed = token.sign_task(Request::new(()), &rights(NOW), b"task");
        for value in [SIGNATURE, RIGHTS].map(|name| signed.metadata().get(name).expect("a value")) {
            let text = value.to_str().expect("a text");
            assert!(!text.contains("secret") && !text.contains(&STANDARD.encode(SECRET)), "{text}");
        }
        for wrong in ["", "short", "0123456789abcdef\n0123", "0123456789abcdef-ä"] {
            let error = Token::of(wrong).expect_err("no token");
            assert!(wrong.is_empty() || !error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn a_signature_is_for_one_thing() {
        let (own, other) = (token(SECRET), token("0123456789abcdef-secreT"));
        let signed = own.sign_action(Request::new(()), "join", b"a:1");
        let metadata = signed.metadata();
        assert!(own.check_action(metadata, "join", b"a:1").is_ok());
        let refused = [
            other.check_action(metadata, "join", b"a:1"),
            own.check_action(metadata, "join", b"a:2"),
            own.check_action(metadata, "hello", b"a:1"),
            own.check_action(&MetadataMap::new(), "join", b"a:1"),
            own.check_task(metadata, b"a:1", ("a", NOW)),
        ];
        for refused in refused {
            assert_eq!(refused.expect_err("refused").message(), "the token is not that of this cluster");
        }
        // Parts are not run together.
        assert_ne!(own.signature(Purpose::Task, &[b"ab", b"c"]), own.signature(Purpose::Task, &[b"a", b"bc"]));
    }

    #[test]
    fn rights_are_for_one_task_and_database_and_expire() {
        let token = token(SECRET);
        let hold = RIGHTS_HOLD.as_millis() as u64;
        let signed = |rights: &Rights| token.sign_task(Request::new(()), rights, b"SELECT 1");
        let valid = signed(&rights(NOW + hold));
        let check = |request: &Request<()>, task: &[u8], database: &str, now: u64| {
            let checked = token.check_task(request.metadata(), task, (database, now));
            checked.map_err(|status| status.message().to_owned())
        };
        assert_eq!(check(&valid, b"SELECT 1", "a", NOW), Ok(()));
        for (request, task, database, now, reason) in [
            (&valid, "SELECT 2", "a", NOW, "the token is not that of this cluster"),
            (&valid, "SELECT 1", "b", NOW, "the rights of the task are for another database"),
            (&valid, "SELECT 1", "a", NOW + hold, "the rights of the task have expired"),
            (&signed(&rights(u64::MAX)), "SELECT 1", "a", NOW, "the rights of the task hold for too long"),
        ] {
            assert_eq!(check(request, task.as_bytes(), database, now), Err(reason.to_owned()));
        }
        // Later rights with the old signature.
        let mut changed = signed(&rights(NOW + 1));
        let later = signed(&rights(NOW + hold));
        changed.metadata_mut().insert(RIGHTS, later.metadata().get(RIGHTS).expect("rights").clone());
        assert!(check(&changed, b"SELECT 1", "a", NOW + 2).is_err());
    }
}
