//! Memory for direct reads.

use std::alloc::{self, Layout};
use std::ptr::NonNull;

/// Memory for direct reads: its address and its length are multiples of [`AlignedBytes::ALIGNMENT`]. It is always
/// initialized.
pub(super) struct AlignedBytes {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: AlignedBytes owns its memory exclusively, like a Box<[u8]>, and no part of it belongs to a thread.
unsafe impl Send for AlignedBytes {}
// SAFETY: a shared reference gives only shared access to the bytes.
unsafe impl Sync for AlignedBytes {}

impl AlignedBytes {
    /// The strictest alignment that common devices require, in bytes.
    pub(super) const ALIGNMENT: usize = 4096;

    /// `len` zeros; `len` must be a multiple of the alignment.
    pub(super) fn zeroed(len: usize) -> AlignedBytes {
        if len == 0 {
            return AlignedBytes::default();
        }
        let layout = Self::layout(len);
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc::alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { alloc::handle_alloc_error(layout) };
        AlignedBytes { start, len }
    }

    fn layout(len: usize) -> Layout {
        assert!(len.is_multiple_of(Self::ALIGNMENT), "buffer sizes are multiples of 4 KiB");
        Layout::from_size_align(len, Self::ALIGNMENT).expect("a length that fits into memory")
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        // SAFETY: start points to len bytes that we own, initialized by alloc_zeroed (or len is 0 and start dangles).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in as_slice, and &mut self makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Default for AlignedBytes {
    fn default() -> AlignedBytes {
        AlignedBytes { start: NonNull::dangling(), len: 0 }
    }
}

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: start came from alloc_zeroed with this very layout and is freed once, here.
            unsafe { alloc::dealloc(self.start.as_ptr(), Self::layout(self.len)) }
        }
    }
}
