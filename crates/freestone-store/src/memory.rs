//! The amount of memory, and allocation of new memory in one step.
//!
//! The system allocates pages when they are first written, one at a time, and each allocation takes longer than filling
//! the page. A large result consists of new pages only. Requesting the pages of a buffer together halves this cost.

mod limit;

pub use limit::limit;

/// Below this size, the request costs about as much as it saves.
const SMALL_BYTES: usize = 32 << 10;

/// An empty vector with capacity for `len` values. If it is large, its pages are allocated.
pub fn room<T>(len: usize) -> Vec<T> {
    let mut vector = Vec::with_capacity(len);
    populate(&mut vector);
    vector
}

/// Lets the system allocate all pages of a large vector's spare capacity. No effect on systems that do not support it.
pub fn populate<T>(vector: &mut Vec<T>) {
    let spare = vector.spare_capacity_mut();
    if size_of_val(spare) > SMALL_BYTES {
        populate_bytes(spare.as_mut_ptr().cast(), size_of_val(spare));
    }
}

#[cfg(target_os = "linux")]
fn populate_bytes(start: *mut u8, bytes: usize) {
    const PAGE: usize = 4096;
    if huge_pages::are_dear() {
        huge_pages::avoid(start);
    }
    let before = start.addr().wrapping_neg() % PAGE;
    let whole = bytes.saturating_sub(before) / PAGE * PAGE;
    huge_pages::observe(whole, || {
        // SAFETY: the range lies in the spare capacity of a vector that the caller references exclusively. The call
        // reads and changes no byte: it maps pages as a write to each would. If the page is larger than assumed, or the
        // kernel older than 5.14, it fails, and only time is lost.
        unsafe {
            libc::madvise(start.wrapping_add(before).cast(), whole, libc::MADV_POPULATE_WRITE);
        }
    });
}

/// Whether pages of 2 MiB, which the allocator requests, are worthwhile. They halve the cost of a large result, except
/// on a virtual machine whose host takes back free memory. The host takes back such pages as a whole and gives each
/// back in small steps, which takes ten times as long as clearing it. Small pages come from memory that the host has
/// left to the machine.
#[cfg(target_os = "linux")]
mod huge_pages {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::time::Duration;

    /// A buffer of this size may touch one new huge page, which takes 0.2 ms to clear, and 2 ms or more if the host has
    /// to give it back.
    const OBSERVED_BYTES: usize = 256 << 10;
    const SLOW: Duration = Duration::from_millis(1);
    const SLOW_NANOS_PER_BYTE: f64 = 2.0;
    /// The number of slow observations after which the slowness is not an accident.
    const SEEN: usize = 3;
    /// The range around a buffer to which the hint applies: the allocator takes memory by the gigabyte.
    const AROUND_BYTES: usize = 1 << 30;

    static DEAR_SEEN: AtomicUsize = AtomicUsize::new(0);
    static AVOIDED_AROUND: AtomicUsize = AtomicUsize::new(0);

    /// Whether huge pages turned out to be slow on this machine.
    pub fn are_dear() -> bool {
        DEAR_SEEN.load(Relaxed) >= SEEN
    }

    /// The CPU time of this thread. Other threads that had the processor meanwhile say nothing about the memory.
    fn cpu_time() -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes a time to its argument, which is a variable of this function.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    /// Runs `give`, which touches `bytes` of new memory, and measures its time as long as the measurement may be
    /// useful.
    pub fn observe(bytes: usize, give: impl FnOnce()) {
        if bytes < OBSERVED_BYTES || are_dear() {
            return give();
        }
        let begin = cpu_time();
        give();
        let took = cpu_time().saturating_sub(begin);
        if took > SLOW && took.as_nanos() as f64 > bytes as f64 * SLOW_NANOS_PER_BYTE {
            DEAR_SEEN.fetch_add(1, Relaxed);
        }
    }

    /// Lets new memory near `place` consist of small pages from now on.
    pub fn avoid(place: *mut u8) {
        let known = AVOIDED_AROUND.load(Relaxed);
        if known.abs_diff(place.addr()) < AROUND_BYTES / 2 {
            return;
        }
        AVOIDED_AROUND.store(place.addr(), Relaxed);
        let first = place.addr().saturating_sub(AROUND_BYTES) & !((2 << 20) - 1);
        // SAFETY: a hint on how untouched memory is mapped. It changes no byte, whoever owns it. The call skips
        // unmapped ranges and says so.
        unsafe {
            libc::madvise(std::ptr::without_provenance_mut(first), 2 * AROUND_BYTES, libc::MADV_NOHUGEPAGE);
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn populate_bytes(_start: *mut u8, _bytes: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_and_room_is_whole() {
        for len in [0, 1, 1000, 100_000, 1_000_003] {
            let mut vector: Vec<u64> = room(len);
            assert!(vector.is_empty() && vector.capacity() >= len);
            vector.extend(0..len as u64 / 2);
            populate(&mut vector);
            vector.extend(len as u64 / 2..len as u64);
            assert!(vector.iter().enumerate().all(|(at, value)| at as u64 == *value));
        }
    }
}
