//! The bytes of the heap in use, counted by the allocator, and their limit for the whole process.
//!
//! Operators account for rows that they collect, but not for plans, for current batches, or for memory that functions
//! allocate. A program whose global allocator is [`Counting`] knows the total. If it is a server of one database, it
//! limits the total by [`limit_heap`]. Operators then spill or fail when the *process* has reached its limit, and
//! queries that read on while the process is above the limit end with an error.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};

/// The bytes that a thread counts locally before it adds them to the total.
const UNTOLD_BYTES: usize = 16 << 10;
/// Lower limits apply only to accounted memory, because the memory that every process needs would be a large part of
/// them.
const LIMIT_BYTES_MIN: usize = 256 << 20;

/// The bytes in use by all threads. The value can be negative for a moment, if one thread frees memory that another
/// thread has not yet added.
static LIVE: AtomicIsize = AtomicIsize::new(0);
/// The limit; 0 if there is none.
static LIMIT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The bytes that this thread has allocated, minus those that it has freed.
    static HELD: Cell<isize> = const { Cell::new(0) };
    /// The part of these bytes that is not yet in [`LIVE`].
    static UNTOLD: Cell<isize> = const { Cell::new(0) };
}

/// A counting allocator. With it as the global allocator, planning counts against the memory limit.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: freestone::Counting<std::alloc::System> = freestone::Counting(std::alloc::System);
/// ```
#[derive(Debug)]
pub struct Counting<A>(pub A);

fn count(bytes: isize) {
    // A thread that is ending no longer has a counter.
    let _ = HELD.try_with(|held| held.set(held.get().wrapping_add(bytes)));
    let _ = UNTOLD.try_with(|untold| {
        let sum = untold.get().wrapping_add(bytes);
        if sum.unsigned_abs() < UNTOLD_BYTES {
            untold.set(sum);
        } else {
            untold.set(0);
            LIVE.fetch_add(sum, Ordering::Relaxed);
        }
    });
}

/// Counts an allocation if it succeeded.
fn counted(place: *mut u8, bytes: isize) -> *mut u8 {
    if !place.is_null() {
        count(bytes);
    }
    place
}

// SAFETY: every call passes its arguments unchanged to the inner allocator and returns its result.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller satisfies the contract of this method, which is that of the inner allocator.
        counted(unsafe { self.0.alloc(layout) }, layout.size() as isize)
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { self.0.dealloc(place, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        counted(unsafe { self.0.alloc_zeroed(layout) }, layout.size() as isize)
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        counted(unsafe { self.0.realloc(place, layout, size) }, size as isize - layout.size() as isize)
    }
}

/// Limits the heap of this process, including all its databases. For programs whose global allocator is [`Counting`]
/// and whose main task is to serve a database. Limits below 256 MiB are not enforced in this way.
pub fn limit_heap(bytes: usize) {
    LIMIT.store(if bytes < LIMIT_BYTES_MIN { 0 } else { bytes }, Ordering::Relaxed);
}

/// The bytes that this thread has allocated, minus those that it has freed.
pub(crate) fn held() -> isize {
    HELD.get()
}

/// The bytes that the process may still allocate; `None` without a limit.
pub(crate) fn left() -> Option<usize> {
    let limit = LIMIT.load(Ordering::Relaxed);
    (limit > 0).then(|| limit.saturating_sub(live()))
}

/// The bytes by which the process exceeds its limit; 0 below it or without a limit.
pub(crate) fn excess() -> usize {
    match LIMIT.load(Ordering::Relaxed) {
        0 => 0,
        limit => live().saturating_sub(limit),
    }
}

/// The limit in bytes, for messages.
pub(crate) fn limit() -> usize {
    LIMIT.load(Ordering::Relaxed)
}

fn live() -> usize {
    usize::try_from(LIVE.load(Ordering::Relaxed)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: Counting<std::alloc::System> = Counting(std::alloc::System);

    #[test]
    fn the_heap_counts_what_was_given_and_not_what_was_refused() {
        let own = held();
        let kept = vec![0_u8; 64 << 20];
        assert!(held() - own >= 64 << 20 && live() > 0);
        assert!(Vec::<u8>::new().try_reserve_exact(isize::MAX as usize).is_err());
        assert!(held() - own < 128 << 20);
        drop(kept);
        assert!(held() - own < 1 << 20);
        assert!(left().is_none() && excess() == 0, "nobody set a limit");
    }
}
