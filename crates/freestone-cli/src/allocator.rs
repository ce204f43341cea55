//! The allocator: mimalloc, which by default keeps freed memory for a while, so that it can be reused.

use std::ffi::{c_int, c_long};

#[global_allocator]
static ALLOCATOR: freestone::Counting<mimalloc::MiMalloc> = freestone::Counting(mimalloc::MiMalloc);

/// Below this memory limit, freed memory is returned at once, because it would be a large part of the limit.
const TIGHT_BYTES: usize = 2 << 30;

/// mimalloc's option `mi_option_purge_delay`, in milliseconds, and `mi_option_arena_purge_mult`, the factor of that
/// delay for large blocks. Their numbers are the same in versions 2 and 3.
const PURGE_DELAY: c_int = 15;
const ARENA_PURGE_MULT: c_int = 24;

unsafe extern "C" {
    fn mi_option_set(option: c_int, value: c_long);
    fn mi_collect(force: bool);
}

/// Returns freed memory that this thread keeps.
fn collect() {
    // SAFETY: mimalloc is linked, being the allocator, and the call frees only what is free.
    unsafe { mi_collect(true) }
}

/// Otherwise freed memory is returned after this time, in milliseconds: the next statement mostly needs as much again.
const KEPT_MS: c_long = 5000;

/// Returns freed memory to the operating system at once if the memory limit is low. This costs some time, because the
/// system clears memory before it is used again.
pub fn keep_within(limit_bytes: usize) {
    let is_tight = limit_bytes < TIGHT_BYTES;
    // SAFETY: mimalloc is linked, being the allocator, and the call sets a number in a table of options.
    unsafe {
        mi_option_set(PURGE_DELAY, if is_tight { 0 } else { KEPT_MS });
        mi_option_set(ARENA_PURGE_MULT, 1);
    }
    if is_tight {
        freestone::release_memory_by(collect);
    }
}
