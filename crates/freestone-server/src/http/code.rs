//! The one-time code with which the user of `freestone ui` logs in. After its use there is another one, for another browser.

use std::sync::{Mutex, PoisonError};

use subtle::ConstantTimeEq;
use tokio::sync::watch;

use crate::scram;

/// The code that is valid now.
#[derive(Debug)]
pub(crate) struct OneTimeCode {
    code: watch::Sender<String>,
    /// Held while a code is compared and replaced.
    using: Mutex<()>,
}

impl OneTimeCode {
    pub fn new() -> OneTimeCode {
        OneTimeCode { code: watch::Sender::new(scram::random_text()), using: Mutex::default() }
    }

    /// Whether the code is right. It is not valid any more then.
    pub fn use_up(&self, given: &str) -> bool {
        let _alone = self.using.lock().unwrap_or_else(PoisonError::into_inner);
        let is_right = bool::from(self.code.borrow().as_bytes().ct_eq(given.as_bytes()));
        if is_right {
            self.code.send_replace(scram::random_text());
        }
        is_right
    }

    /// The code as it is now and will be.
    pub fn watch(&self) -> watch::Receiver<String> {
        self.code.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_used_once() {
        let code = OneTimeCode::new();
        let watched = code.watch();
        let first = watched.borrow().clone();
        assert!(first.len() >= 24);
        for wrong in ["", "x", &first[1..], &format!("{first}x")] {
            assert!(!code.use_up(wrong), "{wrong}");
        }
        assert!(code.use_up(&first));
        assert!(!code.use_up(&first));
        let second = watched.borrow().clone();
        assert!(second != first && code.use_up(&second));
    }
}
