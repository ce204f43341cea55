//! Reused memory. Writing into pages that are new to the process costs five to nine times as much as into warm ones,
//! because the system clears each. So frames are read into, and written from, reused buffers.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::buffer::Buffer;

/// Unused buffers, up to a maximum number, each of a limited size: memory for one large row is not kept.
#[derive(Debug)]
pub(crate) struct Pool {
    free: Mutex<Vec<Vec<u8>>>,
    buffers_max: usize,
    bytes_max: usize,
}

impl Pool {
    /// For frames of up to about `frame_bytes`. A vector that grows may have twice the memory that it needs.
    pub fn new(buffers_max: usize, frame_bytes: usize) -> Arc<Self> {
        Arc::new(Self { free: Mutex::default(), buffers_max, bytes_max: frame_bytes.saturating_mul(4) })
    }

    /// An empty buffer, reused if possible.
    pub fn take(&self) -> Vec<u8> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Returns a buffer.
    pub fn give(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < self.buffers_max && (1..=self.bytes_max).contains(&buffer.capacity()) {
            free.push(buffer);
        }
    }

    /// An Arrow buffer of the bytes. They return to the pool when nobody has a slice of them any more.
    pub fn share(self: &Arc<Self>, bytes: Vec<u8>) -> Buffer {
        struct PooledBytes {
            bytes: Vec<u8>,
            pool: Arc<Pool>,
        }
        impl Drop for PooledBytes {
            fn drop(&mut self) {
                self.pool.give(std::mem::take(&mut self.bytes));
            }
        }
        let (pointer, len) = (NonNull::from(&bytes[..]).cast::<u8>(), bytes.len());
        let owner = Arc::new(PooledBytes { bytes, pool: self.clone() });
        // SAFETY: pointer and length are those of the vector in `owner`, which does not change it until it is dropped.
        // A vector's memory does not move with the vector.
        unsafe { Buffer::from_custom_allocation(pointer, len, owner) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_when_the_last_slice_is_gone() {
        let pool = Pool::new(1, 64);
        let mut bytes = pool.take();
        bytes.extend_from_slice(b"some bytes of a frame");
        let at = bytes.as_ptr();
        let buffer = pool.share(bytes);
        let slice = buffer.slice(5);
        drop(buffer);
        assert_eq!(slice.as_slice(), b"bytes of a frame");
        assert_eq!(pool.take().capacity(), 0);
        drop(slice);
        let again = pool.take();
        assert_eq!(again.as_ptr(), at);
        pool.give(vec![1]);
        pool.give(vec![2]);
        assert_eq!(pool.free.lock().unwrap().len(), 1);
        drop(pool.take());
        pool.give(vec![0; 257]);
        assert_eq!(pool.take().capacity(), 0, "a buffer for a large row is not kept");
    }
}
