//! How much memory there is; and memory that is new to the process, taken in one step.
//!
//! The system gives pages when they are first written, one at a time, and each time costs more than filling the page. A
//! large result is all new pages: asking for those of a buffer together halves what they cost.

mod limit;

pub use limit::limit;

/// Below this, asking costs about what it saves.
const SMALL_BYTES: usize = 32 << 10;

/// An empty vector with room for `len` values, whose pages are there when it is large.
pub fn room<T>(len: usize) -> Vec<T> {
    let mut vector = Vec::with_capacity(len);
    populate(&mut vector);
    vector
}

/// Has the system give all pages behind the values that a large vector holds. Without effect where a system cannot.
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
        // SAFETY: the range lies in the spare capacity of a vector that the caller has for itself. The call reads and changes
        // no byte: it maps pages as a write to each would. Where the page is larger than assumed, or the kernel older than
        // 5.14, it fails and nothing is lost but time.
        unsafe {
            libc::madvise(start.wrapping_add(before).cast(), whole, libc::MADV_POPULATE_WRITE);
        }
    });
}

/// Whether pages of 2 MiB, which the allocator asks for, are worth having. They halve what a large result costs, unless the
/// machine is a virtual one whose host takes back free memory: it does so by such pages, and gives each anew, bit by bit,
/// which takes ten times as long as to clear it. Small pages come from what the host has left.
#[cfg(target_os = "linux")]
mod huge_pages {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::time::Duration;

    /// A buffer of this size may meet one new huge page, which takes 0.2 ms to clear, and 2 ms or more to be given anew.
    const OBSERVED_BYTES: usize = 256 << 10;
    const DEAR: Duration = Duration::from_millis(1);
    const DEAR_NANOS_PER_BYTE: f64 = 2.0;
    /// So many that were dear are no accident.
    const SEEN: usize = 3;
    /// How far around a buffer the hint is given: the allocator takes memory by the gigabyte.
    const AROUND_BYTES: usize = 1 << 30;

    static DEAR_SEEN: AtomicUsize = AtomicUsize::new(0);
    static AVOIDED_AROUND: AtomicUsize = AtomicUsize::new(0);

    pub fn are_dear() -> bool {
        DEAR_SEEN.load(Relaxed) >= SEEN
    }

    /// What this thread worked: other threads that had the processor meanwhile say nothing of the memory.
    fn cpu_time() -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes a time to where it is told, which is a variable of this function.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    /// Does what gives so many bytes, by the clock as long as it may tell something.
    pub fn observe(bytes: usize, give: impl FnOnce()) {
        if bytes < OBSERVED_BYTES || are_dear() {
            return give();
        }
        let begin = cpu_time();
        give();
        let took = cpu_time().saturating_sub(begin);
        if took > DEAR && took.as_nanos() as f64 > bytes as f64 * DEAR_NANOS_PER_BYTE {
            DEAR_SEEN.fetch_add(1, Relaxed);
        }
    }

    /// Memory near `place` that is not there yet comes by small pages from now on.
    pub fn avoid(place: *mut u8) {
        let known = AVOIDED_AROUND.load(Relaxed);
        if known.abs_diff(place.addr()) < AROUND_BYTES / 2 {
            return;
        }
        AVOIDED_AROUND.store(place.addr(), Relaxed);
        let first = place.addr().saturating_sub(AROUND_BYTES) & !((2 << 20) - 1);
        // SAFETY: a hint on how memory is mapped that nobody has touched yet: no byte of it changes, whoever's it is. Where
        // nothing is mapped the call skips it, and says so.
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
