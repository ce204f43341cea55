//! Passwords and secrets of the server. The SCRAM exchange is in `freestone_wire::auth`.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use freestone_wire::auth::{Verifier, random};

/// Whether a password is that of the user. It takes the same time for users that do not exist.
pub fn password_is_right(password: &str, name: &str, verifier: Option<Verifier>, secret: &[u8; 32]) -> bool {
    match verifier {
        Some(verifier) => verifier.fits(password),
        None => Verifier::nobody(name, secret).fits(password),
    }
}

/// A random secret that can be typed, and needs no escaping in an address.
pub fn random_text() -> String {
    URL_SAFE_NO_PAD.encode(random::<18>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_users_own_password_is_right() {
        let verifier = Verifier::new("secret");
        for (password, verifier, expected) in
            [("secret", Some(verifier.clone()), true), ("Secret", Some(verifier), false), ("secret", None, false)]
        {
            assert_eq!(password_is_right(password, "ann", verifier, &[9; 32]), expected, "{password}");
        }
        assert_ne!(random_text(), random_text());
    }
}
