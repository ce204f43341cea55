//! Recycled buffers. Copying into fresh memory costs several times as much as into memory that was touched before,
//! because the operating system has to allocate and clear each page. So a dropped [`Buffer`] returns to its
//! [`BufferPool`], and the next read of about the same size takes it from there.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use parking_lot::Mutex;

use super::aligned::AlignedBytes;

/// Bytes that were read: memory of a pool, or a part of a file that is in memory anyway.
pub struct Buffer(Source);

enum Source {
    Pooled { bytes: AlignedBytes, len: usize, pool: Arc<BufferPool> },
    Shared { bytes: Arc<Vec<u8>>, range: Range<usize> },
}

impl Buffer {
    pub(crate) fn shared(bytes: Arc<Vec<u8>>, range: Range<usize>) -> Buffer {
        assert!(range.start <= range.end && range.end <= bytes.len(), "checked by the file's reader");
        Buffer(Source::Shared { bytes, range })
    }

    /// The bytes of memory that this buffer occupies.
    pub fn footprint(&self) -> usize {
        match &self.0 {
            Source::Pooled { bytes, .. } => bytes.len(),
            Source::Shared { range, .. } => range.len(),
        }
    }

    /// All memory of a pooled buffer, which may be more than was requested. Shared bytes cannot be written: `&mut []`.
    pub(super) fn memory_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Source::Pooled { bytes, .. } => bytes.as_mut_slice(),
            Source::Shared { .. } => &mut [],
        }
    }

    /// The bytes, which the caller fills before anybody else sees the buffer.
    pub fn fill(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Source::Pooled { bytes, len, .. } => &mut bytes.as_mut_slice()[..*len],
            Source::Shared { .. } => &mut [],
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Source::Pooled { bytes, len, .. } => &bytes.as_slice()[..*len],
            Source::Shared { bytes, range } => &bytes[range.clone()],
        }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Buffer {
        let range = 0..bytes.len();
        Buffer::shared(Arc::new(bytes), range)
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Source::Pooled { bytes, pool, .. } = &mut self.0 {
            pool.give_back(std::mem::take(bytes));
        }
    }
}

/// Unused buffers by size, with a limit of bytes.
pub struct BufferPool {
    free: Mutex<Free>,
    capacity: usize,
}

#[derive(Default)]
struct Free {
    by_size: BTreeMap<usize, Vec<AlignedBytes>>,
    bytes: usize,
}

impl BufferPool {
    /// A pool with at most `capacity` bytes of unused buffers.
    pub fn new(capacity: usize) -> Arc<BufferPool> {
        Arc::new(BufferPool { free: Mutex::default(), capacity })
    }

    /// A buffer of `len` bytes with arbitrary content, to be overwritten through [`Buffer::fill`].
    pub fn take(self: &Arc<Self>, len: usize) -> Buffer {
        let size = size_class(len);
        let recycled = {
            let mut free = self.free.lock();
            let found = free.by_size.get_mut(&size).and_then(Vec::pop);
            free.bytes -= found.as_ref().map_or(0, AlignedBytes::len);
            found
        };
        let bytes = recycled.unwrap_or_else(|| AlignedBytes::zeroed(size));
        Buffer(Source::Pooled { bytes, len, pool: self.clone() })
    }

    /// A buffer with a copy of `bytes`.
    pub fn copy_of(self: &Arc<Self>, bytes: &[u8]) -> Buffer {
        let mut buffer = self.take(bytes.len());
        buffer.fill().copy_from_slice(bytes);
        buffer
    }

    /// The bytes of unused buffers.
    pub fn free_bytes(&self) -> usize {
        self.free.lock().bytes
    }

    fn give_back(&self, bytes: AlignedBytes) {
        let size = bytes.len();
        if size == 0 || size > self.capacity {
            return;
        }
        let mut free = self.free.lock();
        while free.bytes + size > self.capacity {
            // The size with the most bytes shrinks, so that sizes that are no longer requested do not stay for ever.
            let Some(list) =
                free.by_size.values_mut().max_by_key(|list| list.first().map_or(0, AlignedBytes::len) * list.len())
            else {
                return;
            };
            let Some(victim) = list.pop() else { return };
            free.bytes -= victim.len();
        }
        free.bytes += size;
        free.by_size.entry(size).or_default().push(bytes);
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BufferPool({} of {} bytes free)", self.free_bytes(), self.capacity)
    }
}

/// Sizes are multiples of 4 KiB, and above 32 KiB one of eight steps between powers of two. So at most an eighth is
/// unused, and a returned buffer fits the next request of about its length.
fn size_class(len: usize) -> usize {
    let step = (len.next_power_of_two() / 16).max(AlignedBytes::ALIGNMENT);
    len.max(1).next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(len: usize, class: usize) {
        assert_eq!(size_class(len), class, "{len}");
    }

    #[test]
    fn size_classes_waste_little() {
        check(0, 4096);
        check(1, 4096);
        check(4097, 8192);
        check(32 << 10, 32 << 10);
        check((128 << 10) + 1, 144 << 10);
        for len in (1..4_000_000).step_by(4093) {
            let class = size_class(len);
            assert!(class >= len && class - len < len / 8 + 4096, "{len} {class}");
            assert_eq!(size_class(class), class, "a class is its own class");
        }
    }

    #[test]
    fn buffers_are_recycled_and_aligned() {
        let pool = BufferPool::new(1 << 20);
        let first = pool.copy_of(&[7; 5000]);
        let address = first.as_ptr();
        assert_eq!(address.align_offset(AlignedBytes::ALIGNMENT), 0);
        assert_eq!(&first[..], &[7; 5000]);
        drop(first);
        assert_eq!(pool.free_bytes(), 8192);
        let second = pool.take(8000);
        assert_eq!((second.as_ptr(), second.len(), second.footprint()), (address, 8000, 8192));
        assert_eq!(pool.free_bytes(), 0);
    }

    #[test]
    fn a_pool_is_bounded_and_forgets_old_sizes() {
        let pool = BufferPool::new(64 << 10);
        drop((0..100).map(|_| pool.take(4096)).collect::<Vec<_>>());
        assert_eq!(pool.free_bytes(), 64 << 10);
        drop(pool.take(32 << 10));
        assert_eq!(pool.free_bytes(), 64 << 10);
        assert_eq!(pool.free.lock().by_size[&(32 << 10)].len(), 1);
        drop(pool.take(65 << 10));
        assert_eq!(pool.free_bytes(), 64 << 10, "larger than the pool: not kept");
    }

    #[test]
    fn bytes_of_a_vector_are_shared() {
        let buffer = Buffer::from(vec![1, 2, 3]);
        assert_eq!(&buffer[..], &[1, 2, 3]);
        assert_eq!(buffer.footprint(), 3);
    }
}
