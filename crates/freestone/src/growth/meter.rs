//! What a function makes, counted while it makes it.

use datafusion::error::Result;

use crate::context::{self, Claimed, claim, claim_rows};

/// The bytes after which a function asks whether it may go on.
const STEP_BYTES: u64 = 1 << 20;
/// The steps after which it asks whether its statement goes on; a power of two.
const STEPS: u64 = 4096;

/// Counts the bytes of a result. A function that cannot say beforehand how large its result gets adds each part of it, and
/// ends where the statement has no memory for more, or was cancelled.
#[derive(Debug)]
pub(crate) struct Meter {
    what: &'static str,
    made: u64,
    next: u64,
    steps: u64,
    claim: fn(&str, u64) -> Result<Option<Claimed>>,
    claimed: Option<Claimed>,
}

impl Meter {
    /// For what one call makes.
    pub fn new(what: &'static str) -> Meter {
        Meter { what, made: 0, next: STEP_BYTES, steps: 0, claim, claimed: None }
    }

    /// For what is made of all rows that an operator has collected.
    pub fn of_rows(what: &'static str) -> Meter {
        Meter { claim: claim_rows, ..Meter::new(what) }
    }

    /// Counts more bytes, before they are made.
    ///
    /// # Errors
    /// The statement was cancelled, or has no memory for more.
    #[inline]
    pub fn add(&mut self, bytes: usize) -> Result<()> {
        self.made = self.made.saturating_add(bytes as u64);
        self.step()?;
        if self.made < self.next { Ok(()) } else { self.check() }
    }

    /// A step of work that makes nothing.
    ///
    /// # Errors
    /// The statement was cancelled.
    #[inline]
    pub fn step(&mut self) -> Result<()> {
        self.steps += 1;
        if self.steps.is_multiple_of(STEPS) { Ok(context::check()?) } else { Ok(()) }
    }

    #[cold]
    fn check(&mut self) -> Result<()> {
        context::check()?;
        self.claimed = None;
        self.claimed = (self.claim)(self.what, self.made)?;
        self.next = self.made.saturating_add(STEP_BYTES);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Budget, Canceller, within};

    #[test]
    fn what_is_made_ends_at_the_budget_and_with_the_statement() {
        let canceller = Canceller::new(Budget::new(Budget::unlimited_pool(), Some(1)));
        within(Some(canceller.statement()), || {
            let mut meter = Meter::new("a function");
            let parts = (0..1000).take_while(|_| meter.add(1 << 20).is_ok()).count();
            assert!((30..33).contains(&parts), "{parts}");
            let mut meter = Meter::new("a function");
            assert!(meter.add(1 << 20).is_ok());
            canceller.handle().cancel();
            assert!(meter.add(1 << 20).is_err());
            assert!((0..STEPS).any(|_| meter.step().is_err()));
        });
    }
}
