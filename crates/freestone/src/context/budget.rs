//! The memory that a statement may claim for values that functions are about to make.

use std::cell::Cell;
use std::sync::Arc;

use datafusion::common::resources_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation, UnboundedMemoryPool};

use super::current;
use crate::heap::{self, Claim};

/// What one call makes may have at most 1 / `LIMIT_SHARE` of the memory limit.
const LIMIT_SHARE: usize = 8;
/// This is always allowed, under any limit.
const BYTES_MIN: usize = 32 << 20;
/// The maximum without a memory limit, which is the maximum offset in an array of strings.
const BYTES_MAX: usize = i32::MAX as usize;
/// Less is made without a claim: operators have as much for their current batches.
const SMALL_BYTES: u64 = 8 << 20;

thread_local! {
    /// Whether this thread applies a rule that computes constants.
    static FOLDING: Cell<bool> = const { Cell::new(false) };
}

/// Applies a rule that may compute constants, which it tries over and over where that fails. Those that are not small are left
/// to when the statement runs.
pub(crate) fn folding<T>(work: impl FnOnce() -> T) -> T {
    /// Ends it also when the work panics.
    struct EndGuard(bool);
    impl Drop for EndGuard {
        fn drop(&mut self) {
            FOLDING.set(self.0);
        }
    }
    let _ended = EndGuard(FOLDING.replace(true));
    work()
}

/// Whether this thread applies such a rule.
pub(crate) fn is_folding() -> bool {
    FOLDING.get()
}

/// The budget of a session's statements.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    /// From which operators take their memory, too.
    pool: Arc<dyn MemoryPool>,
    /// The most that one call may make.
    bytes_max: usize,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::new(Budget::unlimited_pool(), None)
    }
}

impl Budget {
    pub fn new(pool: Arc<dyn MemoryPool>, memory_limit: Option<usize>) -> Budget {
        let bytes_max = memory_limit.map_or(BYTES_MAX, |limit| (limit / LIMIT_SHARE).clamp(BYTES_MIN, BYTES_MAX));
        Budget { pool, bytes_max }
    }

    pub fn unlimited_pool() -> Arc<dyn MemoryPool> {
        Arc::new(UnboundedMemoryPool::default())
    }
}

/// Memory that was claimed, until this is dropped.
#[derive(Debug)]
pub(crate) struct Claimed {
    _of_pool: MemoryReservation,
    _of_process: Claim,
}

/// Claims memory for the statement of this thread, before `what` makes as many bytes. While buffers grow they are copied, so
/// that takes as much again.
///
/// # Errors
/// One call may not make as much, or the statement or the process does not have it.
pub(crate) fn claim(what: &str, bytes: u64) -> Result<Option<Claimed>> {
    if bytes <= SMALL_BYTES {
        return Ok(None);
    }
    let budget = current().map(|statement| statement.budget().clone()).unwrap_or_default();
    let refused = |most: usize| resources_datafusion_err!("{what} would make {bytes} bytes at once (at most {most})");
    let most = if FOLDING.get() { SMALL_BYTES as usize } else { budget.bytes_max };
    let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= most).ok_or_else(|| refused(most))?;
    taken(what, bytes.saturating_mul(2), &budget)
}

/// Claims memory for what is made of rows that an operator has collected, and counts as its memory. There is no limit for one
/// call.
///
/// # Errors
/// The statement or the process does not have it.
pub(crate) fn claim_rows(what: &str, bytes: u64) -> Result<Option<Claimed>> {
    if bytes <= SMALL_BYTES {
        return Ok(None);
    }
    let budget = current().map(|statement| statement.budget().clone()).unwrap_or_default();
    taken(what, usize::try_from(bytes).unwrap_or(usize::MAX), &budget)
}

fn taken(what: &str, bytes: usize, budget: &Budget) -> Result<Option<Claimed>> {
    let reservation = MemoryConsumer::new(what).register(&budget.pool);
    reservation.try_grow(bytes)?;
    let of_process = Claim::new(bytes).map_err(|left| {
        resources_datafusion_err!(
            "{what} needs {bytes} bytes, of which the process has {left} left of {}",
            heap::limit()
        )
    })?;
    Ok(Some(Claimed { _of_pool: reservation, _of_process: of_process }))
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::super::{Canceller, within};
    use super::*;

    #[test]
    fn what_one_call_makes_counts_as_memory_of_its_statement() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(100 << 20));
        let canceller = Canceller::new(Budget::new(pool.clone(), Some(400 << 20)));
        within(Some(canceller.statement()), || {
            assert!(claim("little", SMALL_BYTES).expect("allowed").is_none());
            let first = claim("a function", 40 << 20).expect("allowed");
            assert_eq!(pool.reserved(), 80 << 20);
            assert!(claim("another", 40 << 20).is_err(), "the pool has no more");
            drop(first);
            assert_eq!(pool.reserved(), 0);
            let error = claim("a function", 60 << 20).expect_err("too much for one call").to_string();
            assert!(error.contains("a function would make 62914560 bytes at once (at most 52428800)"), "{error}");
            assert!(claim("a function", u64::MAX).is_err());
        });
        assert!(claim("nobody's", 1 << 30).is_ok(), "this thread works for no statement");
        assert!(folding(|| claim("a constant", 1 << 30)).is_err() && claim("a value", 1 << 30).is_ok());
    }
}
