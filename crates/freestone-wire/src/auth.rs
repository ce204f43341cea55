//! SCRAM-SHA-256 (RFC 5802, RFC 7677), both sides, and PostgreSQL's text form of a verifier, so that one file of users
//! serves every protocol. Passwords are prepared by SASLprep.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use rand::TryRng;
use rand::rngs::SysRng;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use subtle::ConstantTimeEq;

use crate::error::{Result, WireError};

/// The rounds of PBKDF2 for new verifiers. This is PostgreSQL's default, so that invented challenges look like real
/// ones.
pub const ITERATIONS: u32 = 4096;
/// The maximum number of rounds that a server may ask a client to compute.
const ITERATIONS_MAX: u32 = 1 << 22;
const SALT_BYTES: usize = 16;
/// The GS2 header without channel binding.
pub const UNBOUND: &str = "n,,";

type Key = [u8; 32];

/// Looks up users. Implemented by closures from a name to its verifier.
pub trait Authenticator: Send + Sync {
    /// The verifier of a user; `None` if the user does not exist.
    fn verifier(&self, user: &str) -> Option<Verifier>;

    /// Called after each wrong password. Returns the delay before the client is told.
    fn failed(&self, _user: &str) -> Duration {
        Duration::ZERO
    }

    /// Bytes that only this server knows and that do not change. Challenges of users that do not exist are derived from
    /// them. `None`: random bytes of this process.
    fn secret(&self) -> Option<[u8; 32]> {
        None
    }
}

impl<F: Fn(&str) -> Option<Verifier> + Send + Sync> Authenticator for F {
    fn verifier(&self, user: &str) -> Option<Verifier> {
        self(user)
    }
}

/// What a server stores instead of a password: `SCRAM-SHA-256$iterations:salt$stored key:server key`.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: Key,
    server_key: Key,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

impl Verifier {
    /// The verifier of a new password, with a random salt.
    pub fn new(password: &str) -> Self {
        Self::derive(password, &random::<SALT_BYTES>(), ITERATIONS)
    }

    fn derive(password: &str, salt: &[u8], iterations: u32) -> Self {
        let salted = salted_password(password, salt, iterations);
        let (client_key, server_key) = (hmac(&salted, b"Client Key"), hmac(&salted, b"Server Key"));
        Self { iterations, salt: salt.to_vec(), stored_key: Sha256::digest(client_key).into(), server_key }
    }

    /// Whether the verifier was made from this password. Computes for milliseconds.
    pub fn fits(&self, password: &str) -> bool {
        let made = Self::derive(password, &self.salt, self.iterations);
        made.stored_key.ct_eq(&self.stored_key).into()
    }

    /// A verifier for a user that does not exist: its challenge is always the same for one name, and no proof and no
    /// password matches it.
    pub fn nobody(user: &str, secret: &[u8; 32]) -> Self {
        let salt = hmac(secret, user.as_bytes())[..SALT_BYTES].to_vec();
        Self { iterations: ITERATIONS, salt, stored_key: random(), server_key: random() }
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [salt, stored, server] = [&self.salt[..], &self.stored_key, &self.server_key].map(|b| BASE64.encode(b));
        write!(f, "SCRAM-SHA-256${}:{salt}${stored}:{server}", self.iterations)
    }
}

impl FromStr for Verifier {
    type Err = WireError;

    fn from_str(text: &str) -> Result<Self> {
        let parse = || {
            let (count_and_salt, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
            let ((count, salt), (stored, server)) = (count_and_salt.split_once(':')?, keys.split_once(':')?);
            let key = |text: &str| BASE64.decode(text).ok()?.try_into().ok();
            Some(Self {
                iterations: count.parse().ok().filter(|n| (1..=ITERATIONS_MAX).contains(n))?,
                salt: BASE64.decode(salt).ok()?,
                stored_key: key(stored)?,
                server_key: key(server)?,
            })
        };
        // The text is a secret of a kind, so it is not repeated.
        let form = "a verifier has the form SCRAM-SHA-256$iterations:salt$stored key:server key";
        parse().ok_or_else(|| WireError::Config(form.into()))
    }
}

fn hmac(key: &[u8], message: &[u8]) -> Key {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of every length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// The password is prepared by SASLprep (RFC 4013), so that all spellings of its characters are one. As in PostgreSQL, a
/// password with characters that SASLprep prohibits is taken as it is.
fn salted_password(password: &str, salt: &[u8], iterations: u32) -> Key {
    let prepared = stringprep::saslprep(password).unwrap_or(Cow::Borrowed(password));
    pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(prepared.as_bytes(), salt, iterations)
}

fn xor(a: &Key, b: &Key) -> Key {
    std::array::from_fn(|i| a[i] ^ b[i])
}

/// Bytes that nobody can guess.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SysRng.try_fill_bytes(&mut bytes).expect("a system that runs programs gives them random bytes");
    bytes
}

fn nonce() -> String {
    BASE64.encode(random::<18>())
}

/// The value of an attribute `name=value` at the front of `text`, and the text after the comma that follows it.
fn attribute<'t>(text: &'t str, name: &str) -> Result<(&'t str, &'t str)> {
    let value = text.strip_prefix(name).and_then(|rest| rest.strip_prefix('='));
    let value = value.ok_or_else(|| WireError::malformed("authentication", format!("attribute {name} expected")))?;
    Ok(value.split_once(',').unwrap_or((value, "")))
}

/// The client's side: `first`, [`ClientScram::answer`], [`ClientScram::finish`].
pub(crate) struct ClientScram {
    password: String,
    nonce: String,
    first_bare: String,
    server_signature: Key,
}

impl ClientScram {
    pub fn new(user: &str, password: &str) -> Self {
        Self::with_nonce(user, password, nonce())
    }

    fn with_nonce(user: &str, password: &str, nonce: String) -> Self {
        let first_bare = format!("n={},r={nonce}", user.replace('=', "=3D").replace(',', "=2C"));
        Self { password: password.into(), nonce, first_bare, server_signature: [0; 32] }
    }

    pub fn first(&self) -> String {
        format!("{UNBOUND}{}", self.first_bare)
    }

    /// The proof for the server's challenge.
    ///
    /// # Errors
    /// The challenge is not valid or asks for too many rounds.
    pub fn answer(&mut self, server_first: &str) -> Result<String> {
        let (nonce, rest) = attribute(server_first, "r")?;
        let (salt, rest) = attribute(rest, "s")?;
        let (iterations, _) = attribute(rest, "i")?;
        let malformed = |what: &str| WireError::malformed("authentication", what);
        let salt = BASE64.decode(salt).map_err(|_| malformed("the salt is not base64"))?;
        let iterations = iterations.parse().ok().filter(|n| (1..=ITERATIONS_MAX).contains(n));
        let iterations = iterations.ok_or_else(|| malformed("the number of iterations is out of bounds"))?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(WireError::Authentication("the server does not answer this connection's nonce".into()));
        }
        let salted = salted_password(&self.password, &salt, iterations);
        let client_key = hmac(&salted, b"Client Key");
        let stored_key: Key = Sha256::digest(client_key).into();
        let without_proof = format!("c={},r={nonce}", BASE64.encode(UNBOUND));
        let message = format!("{},{server_first},{without_proof}", self.first_bare);
        let proof = xor(&client_key, &hmac(&stored_key, message.as_bytes()));
        self.server_signature = hmac(&hmac(&salted, b"Server Key"), message.as_bytes());
        Ok(format!("{without_proof},p={}", BASE64.encode(proof)))
    }

    /// Checks that the server knows the verifier, too.
    ///
    /// # Errors
    /// It does not.
    pub fn finish(&self, server_final: &str) -> Result<()> {
        let (signature, _) = attribute(server_final, "v")?;
        let signature = BASE64.decode(signature).unwrap_or_default();
        if !bool::from(signature.ct_eq(&self.server_signature)) {
            let reason = "the server could not prove that it knows the user: it may be another server";
            return Err(WireError::Authentication(reason.into()));
        }
        Ok(())
    }
}

/// The name of the user in a client's first message; empty if the client names itself elsewhere, as PostgreSQL's
/// clients do.
///
/// # Errors
/// The message is not valid.
pub fn user_of(client_first: &str) -> Result<String> {
    let bare = client_first.splitn(3, ',').nth(2).unwrap_or_default();
    let (name, _) = attribute(bare, "n")?;
    Ok(name.replace("=2C", ",").replace("=3D", "="))
}

/// The server's side: [`ServerScram::challenge`], then [`ServerScram::check`].
#[derive(Debug)]
pub struct ServerScram {
    user: String,
    verifier: Verifier,
    exists: bool,
    gs2: String,
    nonce: String,
    first_bare: String,
    server_first: String,
}

impl ServerScram {
    /// Answers the client's first message, which begins with one of the GS2 `headers`: `n,,`, `y,,` or
    /// `p=tls-server-end-point,,` (RFC 5802, section 7). Users without a verifier get a challenge like others, derived
    /// from the server's `secret`.
    ///
    /// # Errors
    /// The message is not valid.
    pub fn challenge(
        client_first: &str,
        headers: &[&str],
        user: &str,
        verifier: Option<Verifier>,
        secret: &[u8; 32],
    ) -> Result<(Self, String)> {
        Self::with_nonce(client_first, headers, user, verifier, secret, &nonce())
    }

    fn with_nonce(
        client_first: &str,
        headers: &[&str],
        user: &str,
        verifier: Option<Verifier>,
        secret: &[u8; 32],
        nonce: &str,
    ) -> Result<(Self, String)> {
        let header = headers.iter().find(|header| client_first.starts_with(**header)).ok_or_else(|| {
            let reason = "this channel binding is not supported here, and neither are authorization identities";
            WireError::malformed("authentication", reason)
        })?;
        let first_bare = &client_first[header.len()..];
        let (_, rest) = attribute(first_bare, "n")?;
        let (client_nonce, _) = attribute(rest, "r")?;
        let exists = verifier.is_some();
        let verifier = verifier.unwrap_or_else(|| Verifier::nobody(user, secret));
        let nonce = format!("{client_nonce}{nonce}");
        let server_first = format!("r={nonce},s={},i={}", BASE64.encode(&verifier.salt), verifier.iterations);
        let (gs2, first_bare, user) = ((*header).to_owned(), first_bare.to_owned(), user.to_owned());
        Ok((Self { user, verifier, exists, gs2, nonce, first_bare, server_first: server_first.clone() }, server_first))
    }

    /// Checks the client's proof and returns the server's own. `binding`: the data of the channel binding; empty if the
    /// header names no binding.
    ///
    /// # Errors
    /// The proof or the binding is wrong.
    pub fn check(&self, client_final: &str, binding: &[u8]) -> Result<String> {
        let wrong = || WireError::Authentication(format!("user {:?} or the password is not right", self.user));
        let (without_proof, proof) = client_final.rsplit_once(",p=").ok_or_else(wrong)?;
        let (bound, rest) = attribute(without_proof, "c")?;
        let (nonce, _) = attribute(rest, "r")?;
        let proof: Key = BASE64.decode(proof).ok().and_then(|p| p.try_into().ok()).ok_or_else(wrong)?;
        let message = format!("{},{},{without_proof}", self.first_bare, self.server_first);
        let client_key = xor(&proof, &hmac(&self.verifier.stored_key, message.as_bytes()));
        let key_is_right = Sha256::digest(client_key).ct_eq(&self.verifier.stored_key);
        let is_right = bool::from(key_is_right) && self.exists && nonce == self.nonce;
        if !is_right || bound != BASE64.encode([self.gs2.as_bytes(), binding].concat()) {
            return Err(wrong());
        }
        Ok(format!("v={}", BASE64.encode(hmac(&self.verifier.server_key, message.as_bytes()))))
    }

    /// The name of the user that the client claims to be.
    pub fn user(&self) -> &str {
        &self.user
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u8; 32] = [7; 32];

    #[test]
    fn test_vector_of_rfc_7677() {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = Verifier::derive("pencil", &salt, 4096);
        let mut client = ClientScram::with_nonce("user", "pencil", "rOprNGfwEbeRWgbNEkqO".into());
        assert_eq!(client.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let (server, challenge) =
            ServerScram::with_nonce(&client.first(), &[UNBOUND], "user", Some(verifier), &SECRET, nonce).unwrap();
        let expected = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        assert_eq!(challenge, expected);
        let proof = client.answer(&challenge).unwrap();
        assert!(proof.ends_with("p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="));
        let end = server.check(&proof, &[]).unwrap();
        assert_eq!(end, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        client.finish(&end).unwrap();
        assert!(client.finish("v=AAAA").is_err());
    }

    fn log_in(name: &str, password: &str, users: &dyn Authenticator) -> (String, Result<String>) {
        let mut client = ClientScram::new(name, password);
        let first = client.first();
        let user = user_of(&first).unwrap();
        let verifier = users.verifier(&user);
        let (server, challenge) = ServerScram::challenge(&first, &[UNBOUND], &user, verifier, &SECRET).unwrap();
        let proof = client.answer(&challenge).unwrap();
        (challenge, server.check(&proof, &[]))
    }

    #[test]
    fn only_the_right_password_passes_and_users_cannot_be_told_apart() {
        let verifier = Verifier::new("secret");
        let users = move |user: &str| (user == "ann,=").then(|| verifier.clone());
        assert!(log_in("ann,=", "secret", &users).1.is_ok());
        assert!(log_in("ann,=", "Secret", &users).1.is_err());
        let salt_of = |challenge: &str| challenge.split_once(",s=").unwrap().1.to_owned();
        let (first, second) = (log_in("bob", "secret", &users), log_in("bob", "x", &users));
        assert_eq!(salt_of(&first.0), salt_of(&second.0));
        assert_ne!(salt_of(&first.0), salt_of(&log_in("carol", "x", &users).0));
        assert!(first.1.is_err() && second.1.is_err());
        assert_eq!(first.1.unwrap_err().to_string().replace("bob", "ann,="), {
            log_in("ann,=", "no", &users).1.unwrap_err().to_string()
        });
    }

    #[test]
    fn verifiers_are_postgresql_text() {
        let verifier = Verifier::new("secret");
        assert_eq!(verifier.to_string().parse::<Verifier>().unwrap(), verifier);
        assert!(verifier.to_string().starts_with("SCRAM-SHA-256$4096:"));
        for wrong in ["", "md5abc", "SCRAM-SHA-256$0:AA==$AA==:AA==", "SCRAM-SHA-256$4096:AA==$AA==:AA=="] {
            assert!(wrong.parse::<Verifier>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn garbage_is_an_error() {
        for first in ["", "p=tls,,n=a,r=b", "n,,", "n,,n=a", "y,,n=a,r=b", "n,a=b,n=,r=c"] {
            assert!(ServerScram::challenge(first, &[UNBOUND], "a", None, &SECRET).is_err(), "{first}");
        }
        for first in ["", "n,", "n,,", "n,,x=a"] {
            assert!(user_of(first).is_err(), "{first}");
        }
        let mut client = ClientScram::new("a", "b");
        for challenge in ["", "r=x,s=AA==,i=1", "r=,s=,i=0", "r=a,s=*,i=9"] {
            assert!(client.answer(challenge).is_err(), "{challenge}");
        }
        let (server, _) = ServerScram::challenge("n,,n=a,r=b", &[UNBOUND], "a", None, &SECRET).unwrap();
        for proof in ["", "c=biws,r=b,p=", "c=biws,p=AAAA", "p=AAAA"] {
            assert!(server.check(proof, &[]).is_err(), "{proof}");
        }
    }

    /// The client's last message for any header and binding, as libpq writes it: without a name in its first message.
    fn proof(password: &str, gs2: &str, binding: &[u8], challenge: &str) -> String {
        let (nonce, rest) = attribute(challenge, "r").unwrap();
        let (salt, rest) = attribute(rest, "s").unwrap();
        let count = attribute(rest, "i").unwrap().0.parse().unwrap();
        let salted = salted_password(password, &BASE64.decode(salt).unwrap(), count);
        let client_key = hmac(&salted, b"Client Key");
        let stored_key: Key = Sha256::digest(client_key).into();
        let without_proof = format!("c={},r={nonce}", BASE64.encode([gs2.as_bytes(), binding].concat()));
        let message = format!("n=,r=abc,{challenge},{without_proof}");
        format!("{without_proof},p={}", BASE64.encode(xor(&client_key, &hmac(&stored_key, message.as_bytes()))))
    }

    #[test]
    fn headers_and_bindings_are_part_of_the_proof() {
        let verifier = Verifier::new("secret");
        let plus = "p=tls-server-end-point,,";
        for (gs2, bound, binding, passes) in [
            ("n,,", &b""[..], &b""[..], true),
            ("y,,", b"", b"", true),
            (plus, b"hash", b"hash", true),
            (plus, b"hash", b"another", false),
            (plus, b"", b"hash", false),
        ] {
            let first = format!("{gs2}n=,r=abc");
            let (server, challenge) =
                ServerScram::challenge(&first, &["n,,", "y,,", plus], "ann", Some(verifier.clone()), &SECRET).unwrap();
            let checked = server.check(&proof("secret", gs2, bound, &challenge), binding);
            assert_eq!(checked.is_ok(), passes, "{gs2} {bound:?} {binding:?}");
            // Another header than in the first message.
            assert!(server.check(&proof("secret", "x,,", bound, &challenge), binding).is_err());
        }
    }

    #[test]
    fn passwords_are_checked_without_an_exchange() {
        assert!(Verifier::new("secret").fits("secret") && !Verifier::new("secret").fits("Secret"));
        assert!(!Verifier::nobody("x", &SECRET).fits(""));
        // Spellings of the same characters are the same password, as RFC 4013 has it.
        for (one, other) in [("½ⅷ", "1⁄2viii"), ("p\u{e4}ss", "pa\u{308}ss"), ("a\u{a0}b", "a b"), ("a\u{ad}b", "ab")]
        {
            assert!(Verifier::new(one).fits(other) && Verifier::new(other).fits(one), "{one}");
        }
        // What SASLprep prohibits is a password as it is.
        assert!(Verifier::new("a\u{7}").fits("a\u{7}") && !Verifier::new("a\u{7}").fits("a"));
    }
}
