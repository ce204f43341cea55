//! The allocator: mimalloc, which by default keeps freed memory for a while in case it is wanted again.

use std::ffi::{c_int, c_long};

#[global_allocator]
static ALLOCATOR: freestone::Counting<mimalloc::MiMalloc> = freestone::Counting(mimalloc::MiMalloc);

/// Below this limit what is kept for later would be a good part of it.
const TIGHT_BYTES: usize = 2 << 30;

/// mimalloc's `mi_option_purge_delay`, in milliseconds, and `mi_option_arena_purge_mult`, what it is multiplied by where
/// large blocks come from. Their numbers are the same in versions 2 and 3.
const PURGE_DELAY: c_int = 15;
const ARENA_PURGE_MULT: c_int = 24;

unsafe extern "C" {
    fn mi_option_set(option: c_int, value: c_long);
}

/// Gives freed memory back to the operating system at once where the limit is so tight that it counts. That costs a
/// little time: memory that comes back is cleared again.
pub fn keep_within(limit_bytes: usize) {
    if limit_bytes < TIGHT_BYTES {
        // SAFETY: mimalloc is linked, being the allocator, and the call sets a number in a table of options.
        unsafe {
            mi_option_set(PURGE_DELAY, 0);
            mi_option_set(ARENA_PURGE_MULT, 1);
        }
    }
}
