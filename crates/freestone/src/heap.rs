//! The bytes of the heap in use, counted by the allocator, and their limit for the whole process.
//!
//! Operators account for rows that they collect, but not for plans, for current batches, or for memory that functions
//! allocate. A program whose global allocator is [`Counting`] knows the total. If it is a server of one database, it
//! limits the total by [`limit_heap`]. Operators then spill or fail when the *process* has reached its limit, and
//! queries that read on while the process is above the limit end with an error.
//!
//! The limit is for the memory that the system gives to the process. That is more than the heap in use: the program itself,
//! stacks, and memory that the allocator keeps. This difference is measured from time to time. What a function is about to
//! allocate is claimed first, so that functions of several statements do not take the same free bytes.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicIsize, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

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
/// The bytes that functions are about to allocate.
static CLAIMED: AtomicUsize = AtomicUsize::new(0);
/// The bytes of the process beyond the heap in use, and the time of that measurement in milliseconds since the first.
static OVERHEAD: AtomicUsize = AtomicUsize::new(0);
static MEASURED_MS: AtomicU64 = AtomicU64::new(0);
/// How a thread returns freed memory.
static RELEASE: OnceLock<fn()> = OnceLock::new();
/// Freed memory is returned while the overhead is above this share of the limit.
const RELEASE_SHARE: usize = 8;
/// The time for which a measurement is used.
const MEASURED_FOR_MS: u64 = 20;
/// The overhead counts up to this share of the limit, so that statements are never left without memory.
const OVERHEAD_SHARE: usize = 2;

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

/// Sets how a thread returns freed memory that its allocator keeps. The threads of statements call it while the process has
/// much more memory than its heap uses.
pub fn release_memory_by(release: fn()) {
    let _ = RELEASE.set(release);
}

/// The bytes that this thread has allocated, minus those that it has freed.
pub(crate) fn held() -> isize {
    HELD.get()
}

/// The bytes that the process may still allocate; `None` without a limit.
pub(crate) fn left() -> Option<usize> {
    let limit = LIMIT.load(Ordering::Relaxed);
    (limit > 0).then(|| limit.saturating_sub(taken(limit)))
}

/// The bytes by which the process exceeds its limit; 0 below it or without a limit.
pub(crate) fn excess() -> usize {
    match LIMIT.load(Ordering::Relaxed) {
        0 => 0,
        limit => taken(limit).saturating_sub(limit),
    }
}

/// Bytes that a function is about to allocate. They count as taken until this is dropped.
#[derive(Debug)]
pub(crate) struct Claim(usize);

impl Claim {
    /// A claim of `bytes`; the bytes that are left if these are fewer.
    pub fn new(bytes: usize) -> Result<Claim, usize> {
        CLAIMED.fetch_add(bytes, Ordering::Relaxed);
        let claim = Claim(bytes);
        match LIMIT.load(Ordering::Relaxed) {
            0 => Ok(claim),
            limit => match taken(limit) {
                taken if taken <= limit => Ok(claim),
                taken => Err((limit + bytes).saturating_sub(taken)),
            },
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        CLAIMED.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// The bytes that the process has or is about to have.
fn taken(limit: usize) -> usize {
    live().saturating_add(CLAIMED.load(Ordering::Relaxed)).saturating_add(overhead(limit))
}

/// The bytes of the process beyond the heap in use.
fn overhead(limit: usize) -> usize {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let now = FIRST.get_or_init(Instant::now).elapsed().as_millis() as u64 + MEASURED_FOR_MS;
    let then = MEASURED_MS.load(Ordering::Relaxed);
    let is_old = now.saturating_sub(then) >= MEASURED_FOR_MS;
    if is_old && MEASURED_MS.compare_exchange(then, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        let measured = resident().map_or(0, |resident| resident.saturating_sub(live()));
        OVERHEAD.store(measured, Ordering::Relaxed);
        if let Some(release) = RELEASE.get().filter(|_| measured > limit / RELEASE_SHARE) {
            release();
        }
    }
    OVERHEAD.load(Ordering::Relaxed).min(limit / OVERHEAD_SHARE)
}

/// The bytes of memory that the system has given to the process; `None` where it does not say so.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
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
        assert!(Claim::new(1 << 40).is_ok(), "nobody set a limit");
        assert_eq!(CLAIMED.load(Ordering::Relaxed), 0);
        assert!(cfg!(not(target_os = "linux")) || resident().is_some_and(|bytes| bytes > 1 << 20));
    }
}
