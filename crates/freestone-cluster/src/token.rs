//! The secret of a cluster: who knows it may send tasks, and get rows of all tables.

use std::fmt;
use std::fs;
use std::path::Path;

use subtle::ConstantTimeEq;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::{Request, Status};

use crate::error::{ClusterError, Result};

/// The least length of a secret, in bytes.
const BYTES_MIN: usize = 16;
const BYTES_MAX: usize = 4 << 10;
const HEADER: &str = "authorization";
const SCHEME: &str = "Bearer ";

/// The secret that all processes of a cluster have. It is never shown.
#[derive(Clone)]
pub struct Token(MetadataValue<Ascii>);

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
    fn of(text: &str) -> Result<Token, String> {
        if !(BYTES_MIN..=BYTES_MAX).contains(&text.len()) {
            return Err(format!("the token has {} bytes; it needs {BYTES_MIN} to {BYTES_MAX}", text.len()));
        }
        const OTHERS: &str = "the token has other characters than printable ones of ASCII";
        let is_printable = text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
        let value = format!("{SCHEME}{text}").parse::<MetadataValue<Ascii>>();
        let mut value = value.ok().filter(|_| is_printable).ok_or(OTHERS)?;
        value.set_sensitive(true);
        Ok(Token(value))
    }

    /// Adds the secret to a request.
    pub(crate) fn give<T>(&self, mut request: Request<T>) -> Request<T> {
        request.metadata_mut().insert(HEADER, self.0.clone());
        request
    }

    /// Refuses a request without the secret. The comparison takes the same time wherever two secrets differ.
    pub(crate) fn check(&self, metadata: &MetadataMap) -> Result<(), Status> {
        let given = metadata.get(HEADER).map(|value| value.as_bytes()).unwrap_or_default();
        match bool::from(self.0.as_bytes().ct_eq(given)) {
            true => Ok(()),
            false => Err(Status::unauthenticated("the token is not that of this cluster")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_checked_and_never_shown() {
        let secret = "0123456789abcdef-secret";
        let token = Token::of(secret).expect("a token");
        assert!(!format!("{token:?}").contains("secret"));
        let request = token.give(Request::new(()));
        assert!(!format!("{:?}", request.metadata()).contains("secret"));
        assert!(token.check(request.metadata()).is_ok());
        let other = Token::of("0123456789abcdef-secreT").expect("a token");
        assert!(other.check(request.metadata()).is_err());
        assert!(token.check(&MetadataMap::new()).is_err());
        for wrong in ["", "short", "0123456789abcdef\n0123", "0123456789abcdef-ä"] {
            let error = Token::of(wrong).expect_err("no token");
            assert!(wrong.is_empty() || !error.contains(wrong), "{error}");
        }
    }
}
