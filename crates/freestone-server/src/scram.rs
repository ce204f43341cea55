//! The server's side of SCRAM-SHA-256 (RFC 5802) as PostgreSQL's clients speak it, and the check of a password sent over
//! TLS, both from a verifier alone. Users that do not exist are challenged like those that do.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use freestone_wire::auth::Verifier;
use hmac::{Hmac, KeyInit, Mac};
use rand::TryRng;
use rand::rngs::SysRng;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

pub const MECHANISM: &str = "SCRAM-SHA-256";

type Key = [u8; 32];

/// Why an exchange failed. Neither says whether the user exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScramError {
    #[error("the SCRAM message is malformed")]
    Malformed,
    #[error("channel binding is not supported")]
    Binding,
    #[error("the user or the password is not right")]
    Wrong,
}

/// A verifier's parts.
struct Parts {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: Key,
    server_key: Key,
}

impl Parts {
    /// Of a known user; of others, a salt that is the same whenever the name is asked for, and keys that nothing fits.
    fn of(verifier: Option<&Verifier>, name: &str, secret: &Key) -> Parts {
        let known = verifier.and_then(|verifier| Parts::parse(&verifier.to_string()));
        known.unwrap_or_else(|| Parts {
            iterations: freestone_wire::auth::ITERATIONS,
            salt: hmac(secret, name.as_bytes())[..16].to_vec(),
            stored_key: random(),
            server_key: random(),
        })
    }

    fn parse(text: &str) -> Option<Parts> {
        let (count_and_salt, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
        let ((count, salt), (stored, server)) = (count_and_salt.split_once(':')?, keys.split_once(':')?);
        let key = |text: &str| -> Option<Key> { BASE64.decode(text).ok()?.try_into().ok() };
        Some(Parts {
            iterations: count.parse().ok()?,
            salt: BASE64.decode(salt).ok()?,
            stored_key: key(stored)?,
            server_key: key(server)?,
        })
    }
}

/// One exchange between its two messages.
pub struct Exchange {
    parts: Parts,
    exists: bool,
    gs2: String,
    nonce: String,
    first_bare: String,
    server_first: String,
}

impl Exchange {
    /// Answers the client's first message. `name` is the user of the connection, as PostgreSQL's clients leave it out here.
    pub fn challenge(
        first: &str,
        name: &str,
        verifier: Option<&Verifier>,
        secret: &Key,
    ) -> Result<(Exchange, String), ScramError> {
        let (gs2, first_bare) = split_gs2(first)?;
        let (_, rest) = attribute(first_bare, 'n').ok_or(ScramError::Malformed)?;
        let (client_nonce, _) = attribute(rest, 'r').ok_or(ScramError::Malformed)?;
        let parts = Parts::of(verifier, name, secret);
        let nonce = format!("{client_nonce}{}", BASE64.encode(random::<18>()));
        let server_first = format!("r={nonce},s={},i={}", BASE64.encode(&parts.salt), parts.iterations);
        let (gs2, first_bare) = (gs2.to_owned(), first_bare.to_owned());
        let exists = verifier.is_some();
        Ok((Exchange { parts, exists, gs2, nonce, first_bare, server_first: server_first.clone() }, server_first))
    }

    /// Checks the client's proof and gives the server's own.
    pub fn check(&self, last: &str) -> Result<String, ScramError> {
        let (without_proof, proof) = last.rsplit_once(",p=").ok_or(ScramError::Malformed)?;
        let (binding, rest) = attribute(without_proof, 'c').ok_or(ScramError::Malformed)?;
        let (nonce, _) = attribute(rest, 'r').ok_or(ScramError::Malformed)?;
        let proof: Key = BASE64.decode(proof).ok().and_then(|p| p.try_into().ok()).ok_or(ScramError::Malformed)?;
        let message = format!("{},{},{without_proof}", self.first_bare, self.server_first);
        let signature = hmac(&self.parts.stored_key, message.as_bytes());
        let client_key: Key = std::array::from_fn(|at| proof[at] ^ signature[at]);
        let is_key = bool::from(Sha256::digest(client_key).ct_eq(&self.parts.stored_key));
        if !is_key || !self.exists || nonce != self.nonce || binding != BASE64.encode(&self.gs2) {
            return Err(ScramError::Wrong);
        }
        Ok(format!("v={}", BASE64.encode(hmac(&self.parts.server_key, message.as_bytes()))))
    }
}

/// Whether a password is the user's. Takes as long for users that do not exist.
pub fn password_is_right(password: &str, name: &str, verifier: Option<&Verifier>, secret: &Key) -> bool {
    let parts = Parts::of(verifier, name, secret);
    let salted: Key = pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password.as_bytes(), &parts.salt, parts.iterations);
    let stored: Key = Sha256::digest(hmac(&salted, b"Client Key")).into();
    bool::from(stored.ct_eq(&parts.stored_key)) && verifier.is_some()
}

/// `n,,` or `y,,` and what follows. Over TLS clients say `y` where the server offers no binding.
fn split_gs2(first: &str) -> Result<(&str, &str), ScramError> {
    if first.starts_with("p=") {
        return Err(ScramError::Binding);
    }
    let is_gs2 = first.starts_with("n,,") || first.starts_with("y,,");
    if is_gs2 { Ok(first.split_at(3)) } else { Err(ScramError::Malformed) }
}

/// The value of `name=value` at the front, and what follows its comma.
fn attribute(text: &str, name: char) -> Option<(&str, &str)> {
    let value = text.strip_prefix(name)?.strip_prefix('=')?;
    Some(value.split_once(',').unwrap_or((value, "")))
}

fn hmac(key: &[u8], message: &[u8]) -> Key {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of every length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// Bytes that nobody can guess.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SysRng.try_fill_bytes(&mut bytes).expect("a system that runs programs gives them random bytes");
    bytes
}

/// A secret that can be typed and put into an address.
pub fn random_text() -> String {
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(random::<18>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: Key = [9; 32];

    /// The client's last message, as libpq makes it.
    fn proof(password: &str, gs2: &str, first_bare: &str, challenge: &str) -> String {
        let (nonce, rest) = attribute(challenge, 'r').expect("a nonce");
        let (salt, rest) = attribute(rest, 's').expect("a salt");
        let (count, _) = attribute(rest, 'i').expect("a count");
        let salt = BASE64.decode(salt).expect("base64");
        let salted: Key =
            pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password.as_bytes(), &salt, count.parse().expect("a count"));
        let client_key = hmac(&salted, b"Client Key");
        let stored: Key = Sha256::digest(client_key).into();
        let without_proof = format!("c={},r={nonce}", BASE64.encode(gs2));
        let signature = hmac(&stored, format!("{first_bare},{challenge},{without_proof}").as_bytes());
        let proof: Key = std::array::from_fn(|at| client_key[at] ^ signature[at]);
        format!("{without_proof},p={}", BASE64.encode(proof))
    }

    #[test]
    fn only_the_right_password_passes() {
        let verifier = Verifier::new("secret");
        for gs2 in ["n,,", "y,,"] {
            let first = format!("{gs2}n=,r=abc");
            for (password, user, passes) in
                [("secret", Some(&verifier), true), ("Secret", Some(&verifier), false), ("secret", None, false)]
            {
                let (exchange, challenge) = Exchange::challenge(&first, "ann", user, &SECRET).expect("a challenge");
                let end = exchange.check(&proof(password, gs2, "n=,r=abc", &challenge));
                assert_eq!(end.is_ok(), passes, "{gs2} {password}");
                assert_eq!(password_is_right(password, "ann", user, &SECRET), passes);
            }
        }
    }

    #[test]
    fn garbage_is_an_error() {
        for first in ["", "n,,", "n,,n=a", "x,,n=a,r=b", "p=tls-unique,,n=,r=b", "n,a=b,n=,r=c"] {
            assert!(Exchange::challenge(first, "ann", None, &SECRET).is_err(), "{first}");
        }
        let (exchange, _) = Exchange::challenge("n,,n=,r=b", "ann", None, &SECRET).expect("a challenge");
        for last in ["", "c=biws,r=b", "c=biws,r=b,p=", "c=biws,p=AAAA", "p=AAAA"] {
            assert!(exchange.check(last).is_err(), "{last}");
        }
    }

    #[test]
    fn unknown_users_have_a_salt_that_stays() {
        let salt = |name: &str| {
            let (_, challenge) = Exchange::challenge("n,,n=,r=b", name, None, &SECRET).expect("a challenge");
            challenge.split_once(",s=").expect("a salt").1.to_owned()
        };
        assert_eq!(salt("x"), salt("x"));
        assert_ne!(salt("x"), salt("y"));
    }
}
