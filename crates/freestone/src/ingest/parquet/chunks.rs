//! Reads a Parquet file by position, so that threads share no file position. Lengths that a damaged file claims are
//! checked before memory is allocated. Of a file elsewhere, the ranges that were fetched are read from memory.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use freestone_bucket::RemoteFile;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use super::fetched::Fetched;

/// The bytes to read if the required number is not known. The header of a page is shorter.
const READ_AHEAD_BYTES: usize = 8 << 10;
/// The same for a file elsewhere, if nothing was fetched there.
const REMOTE_AHEAD_BYTES: usize = 64 << 10;

/// A file of known length, read by position.
#[derive(Debug, Clone)]
pub(crate) struct FileChunks {
    origin: Origin,
    length: u64,
    pool: PagePool,
}

#[derive(Debug, Clone)]
enum Origin {
    Here(Arc<File>),
    Elsewhere(RemoteFile, Arc<Fetched>),
}

/// Buffers of pages that are not used any more. Fresh memory would be cleared twice before a page is read into it.
#[derive(Debug, Clone, Default)]
struct PagePool(Arc<Mutex<Vec<Vec<u8>>>>);

impl PagePool {
    /// The number of unused buffers, and their bytes, at most.
    const BUFFERS_MAX: usize = 4;
    const BUFFER_BYTES_MAX: usize = 2 << 20;

    /// A buffer of at least this many bytes.
    fn take(&self, length: usize) -> Vec<u8> {
        let mut buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        if buffer.capacity() < length {
            return vec![0; length];
        }
        if buffer.len() < length {
            buffer.resize(length, 0);
        }
        buffer
    }

    fn give(&self, buffer: Vec<u8>) {
        let mut buffers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buffers.len() < Self::BUFFERS_MAX && buffer.capacity() <= Self::BUFFER_BYTES_MAX {
            buffers.push(buffer);
        }
    }
}

/// The first bytes of a buffer that returns to its pool.
struct PageBytes {
    buffer: Vec<u8>,
    length: usize,
    pool: PagePool,
}

impl AsRef<[u8]> for PageBytes {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.length]
    }
}

impl Drop for PageBytes {
    fn drop(&mut self) {
        self.pool.give(std::mem::take(&mut self.buffer));
    }
}

impl FileChunks {
    pub fn new(file: File, length: u64) -> Self {
        Self { origin: Origin::Here(Arc::new(file)), length, pool: PagePool::default() }
    }

    /// A file elsewhere, of which some ranges are fetched.
    pub fn elsewhere(file: RemoteFile, fetched: Arc<Fetched>) -> Self {
        let length = file.length();
        Self { origin: Origin::Elsewhere(file, fetched), length, pool: PagePool::default() }
    }

    /// Bytes from a position on: up to as many as are wanted, or fewer at the end of what was fetched.
    fn some(&self, start: u64, wanted: usize) -> io::Result<Bytes> {
        match &self.origin {
            Origin::Here(file) => {
                let mut buffer = vec![0; wanted];
                file.read_exact_at(&mut buffer, start)?;
                Ok(buffer.into())
            }
            Origin::Elsewhere(file, fetched) => match fetched.from(start)? {
                Some(bytes) => Ok(bytes.slice(..wanted.min(bytes.len()))),
                None => {
                    let left = usize::try_from(self.length.saturating_sub(start)).unwrap_or(usize::MAX);
                    file.read(start..start + left.min(wanted.max(REMOTE_AHEAD_BYTES)) as u64)
                }
            },
        }
    }
}

impl Length for FileChunks {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for FileChunks {
    type T = ChunkRead;

    fn get_read(&self, start: u64) -> Result<ChunkRead> {
        Ok(ChunkRead { chunks: self.clone(), next: start, buffer: Bytes::new() })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let end = start.checked_add(length as u64);
        if end.is_none_or(|end| end > self.length) {
            let text = format!("it claims {length} bytes at {start}, and has {} in all", self.length);
            return Err(ParquetError::EOF(text));
        }
        match &self.origin {
            Origin::Here(file) => {
                let mut buffer = self.pool.take(length);
                file.read_exact_at(&mut buffer[..length], start)?;
                Ok(Bytes::from_owner(PageBytes { buffer, length, pool: self.pool.clone() }))
            }
            Origin::Elsewhere(..) if length == 0 => Ok(Bytes::new()),
            Origin::Elsewhere(file, fetched) => match fetched.from(start)? {
                Some(bytes) if bytes.len() >= length => Ok(bytes.slice(..length)),
                _ => Ok(file.read(start..start + length as u64)?),
            },
        }
    }
}

/// A reader that starts at a position.
pub(crate) struct ChunkRead {
    chunks: FileChunks,
    next: u64,
    buffer: Bytes,
}

impl Read for ChunkRead {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.buffer.is_empty() {
            let left = usize::try_from(self.chunks.length.saturating_sub(self.next)).unwrap_or(usize::MAX);
            if left == 0 {
                return Ok(0);
            }
            self.buffer = self.chunks.some(self.next, left.min(READ_AHEAD_BYTES))?;
            self.next += self.buffer.len() as u64;
        }
        let taken = self.buffer.len().min(out.len());
        out[..taken].copy_from_slice(&self.buffer.split_to(taken));
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn buffers_come_back() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&(0..=255).collect::<Vec<u8>>()).expect("bytes");
        let chunks = FileChunks::new(file, 256);
        let first = chunks.get_bytes(10, 100).expect("bytes");
        let second = chunks.get_bytes(20, 3).expect("bytes");
        assert_eq!((first[0], first.len(), &second[..]), (10, 100, &[20, 21, 22][..]));
        let part = first.slice(1..3);
        drop((first, second));
        assert_eq!((&part[..], chunks.pool.0.lock().expect("a pool").len()), (&[11, 12][..], 1));
        drop(part);
        let again = chunks.get_bytes(200, 50).expect("bytes");
        assert_eq!((again[0], again.len()), (200, 50));
        assert!(chunks.get_bytes(200, 57).is_err());
        assert_eq!(chunks.get_bytes(256, 0).expect("no bytes").len(), 0);
    }
}
