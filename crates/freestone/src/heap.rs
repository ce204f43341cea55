//! The bytes of the heap that are in use, counted by the allocator, and their limit for the whole process.
//!
//! Operators account for rows that they collect, but not for plans, for batches under way, or for what a function allocates.
//! With [`Counting`] as its global allocator, a program knows all of it; and a program that is a server of one database
//! limits all of it with [`limit_heap`]. Then operators spill, or fail, when the *process* has no more memory, and queries
//! that read on while it is beyond its limit end with an error.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};

/// What threads count by themselves before they add it to the sum of all.
const UNTOLD_BYTES: usize = 16 << 10;
/// Below this limit, what any process needs would be a good part of it: only what is accounted for is limited then.
const LIMIT_BYTES_MIN: usize = 256 << 20;

/// The heap in use by all threads. It can be below zero for a moment, when one thread frees what another has not told yet.
static LIVE: AtomicIsize = AtomicIsize::new(0);
/// The limit; 0 where there is none.
static LIMIT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Bytes that this thread took of the allocator, less those that it gave back.
    static HELD: Cell<isize> = const { Cell::new(0) };
    /// The part of them that [`LIVE`] does not have yet.
    static UNTOLD: Cell<isize> = const { Cell::new(0) };
}

/// An allocator that counts what is taken and given back: with it as the global allocator, planning counts against the
/// memory limit.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: freestone::Counting<std::alloc::System> = freestone::Counting(std::alloc::System);
/// ```
#[derive(Debug)]
pub struct Counting<A>(pub A);

fn count(bytes: isize) {
    // A thread that is ending has no counter any more.
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

/// Counts an allocation, if it was made.
fn counted(place: *mut u8, bytes: isize) -> *mut u8 {
    if !place.is_null() {
        count(bytes);
    }
    place
}

// SAFETY: every call goes to the allocator below with the arguments that it was made with, and its answer is given back.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps this method's contract, which is that one's.
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

/// Limits the heap of this process, whose databases all count against it: for a program whose allocator is [`Counting`], and
/// which does little else than serve a database. Limits below 256 MiB are not enforced in this way.
pub fn limit_heap(bytes: usize) {
    LIMIT.store(if bytes < LIMIT_BYTES_MIN { 0 } else { bytes }, Ordering::Relaxed);
}

/// What this thread took, less what it gave back.
pub(crate) fn held() -> isize {
    HELD.get()
}

/// The bytes that the process may still take; `None` without a limit.
pub(crate) fn left() -> Option<usize> {
    let limit = LIMIT.load(Ordering::Relaxed);
    (limit > 0).then(|| limit.saturating_sub(live()))
}

/// How far the process is beyond its limit, in bytes; 0 within it, and without one.
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
