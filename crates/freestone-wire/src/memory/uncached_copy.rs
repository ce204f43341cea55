//! Copies that bypass the caches, for data that is too large to stay in them until another process reads it.
//!
//! A plain copy first reads the lines that it is about to overwrite, and stores them in the caches instead of data that
//! is still needed. For a large result this is a third of all transfers on the memory bus.

/// Copies `bytes` to `to`. When this returns, they are visible to any thread that is notified with release.
///
/// # Safety
/// `to` must be valid for writes of `bytes.len()` bytes, which must not overlap `bytes`, and which nobody else may use
/// before this returns.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub unsafe fn copy(bytes: &[u8], to: *mut u8) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const LINE: usize = 64;
    const WORDS: usize = LINE / size_of::<__m128i>();
    let (first, rest) = bytes.split_at(to.align_offset(LINE).min(bytes.len()));
    let (lines, last) = rest.as_chunks::<LINE>();
    // SAFETY: first, lines and last are `bytes` in order, and are written to `to` in order. The lines begin where `to`
    // is aligned to a line, as the stores require; loads need not be aligned. These stores are not ordered with later
    // ones, hence the fence. SSE2 is part of x86-64.
    unsafe {
        std::ptr::copy_nonoverlapping(first.as_ptr(), to, first.len());
        let mut out = to.add(first.len()).cast::<__m128i>();
        for line in lines {
            let from = line.as_ptr().cast::<__m128i>();
            let words: [__m128i; WORDS] = std::array::from_fn(|word| _mm_loadu_si128(from.add(word)));
            (0..WORDS).for_each(|word| _mm_stream_si128(out.add(word), words[word]));
            out = out.add(WORDS);
        }
        std::ptr::copy_nonoverlapping(last.as_ptr(), out.cast(), last.len());
        _mm_sfence();
    }
}

/// A plain copy, for processors without such stores.
///
/// # Safety
/// As above.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub unsafe fn copy(bytes: &[u8], to: *mut u8) {
    // SAFETY: the caller's, see above.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_copied_and_no_other() {
        let bytes: Vec<u8> = (0..20_000u32).map(|at| (at * 7 + at / 256) as u8 | 1).collect();
        for length in [0, 1, 63, 64, 4095, 4096, 4097, 4223, 10_000] {
            for (from, at) in [(0, 0), (1, 0), (0, 1), (13, 63), (64, 64), (100, 17)] {
                let mut out = vec![0u8; at + length + 100];
                let source = &bytes[from..from + length];
                // SAFETY: `out` has this many bytes after `at`, and is another vector than `bytes`.
                unsafe { copy(source, out[at..].as_mut_ptr()) };
                assert_eq!(&out[at..at + length], source, "{length} bytes from {from} to {at}");
                assert!(out[..at].iter().chain(&out[at + length..]).all(|byte| *byte == 0), "{length} bytes at {at}");
            }
        }
    }
}
