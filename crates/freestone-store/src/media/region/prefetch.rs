//! Loading lines into the cache before they are needed, so that several are on their way at the same time.

use super::Line;

/// Begins to load a line.
#[inline]
pub fn prefetch(line: &Line) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction changes nothing but the cache, whatever the address; it is in every processor with SSE, which
    // x86_64 includes.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(line).cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: the instruction changes nothing but the cache, whatever the address; it is in every processor.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) std::ptr::from_ref(line), options(nostack, preserves_flags, readonly));
    }
    let _ = line;
}
