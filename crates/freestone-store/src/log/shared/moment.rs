//! How long ago something was.

use std::time::{Duration, Instant, SystemTime};

/// A time on the clocks of this machine. Of the two that there are, the one that says more is believed: the steady clock may
/// stand still while a machine sleeps, and the other one may be set back.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    steady: Instant,
    wall: SystemTime,
}

impl Moment {
    /// Now.
    pub fn now() -> Moment {
        Moment { steady: Instant::now(), wall: SystemTime::now() }
    }

    /// The time since then.
    pub fn elapsed(&self) -> Duration {
        self.steady.elapsed().max(self.wall.elapsed().unwrap_or_default())
    }

    /// Whether this is later than another one.
    pub fn is_after(&self, other: &Moment) -> bool {
        self.steady > other.steady
    }
}
