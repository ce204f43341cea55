//! Memory that is new to the process, taken in one step.
//!
//! The system gives pages when they are first written, one at a time, and each time costs more than filling the page. A
//! large result is all new pages: asking for those of a buffer together halves what they cost.

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
    let before = start.addr().wrapping_neg() % PAGE;
    let whole = bytes.saturating_sub(before) / PAGE * PAGE;
    // SAFETY: the range lies in the spare capacity of a vector that the caller has for itself. The call reads and changes no
    // byte: it maps pages as a write to each would. Where the page is larger than assumed, or the kernel older than 5.14, it
    // fails and nothing is lost but time.
    unsafe {
        libc::madvise(start.wrapping_add(before).cast(), whole, libc::MADV_POPULATE_WRITE);
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
