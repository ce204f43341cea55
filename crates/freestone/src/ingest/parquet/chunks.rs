//! Reads a Parquet file by position, so that threads share no file position. Lengths that a damaged file claims are
//! checked before memory is allocated.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// The bytes to read if the required number is not known. The header of a page is shorter.
const READ_AHEAD_BYTES: usize = 8 << 10;

/// A file of known length, read by position.
#[derive(Debug, Clone)]
pub(crate) struct FileChunks {
    file: Arc<File>,
    length: u64,
}

impl FileChunks {
    pub fn new(file: File, length: u64) -> Self {
        Self { file: Arc::new(file), length }
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
        Ok(ChunkRead { chunks: self.clone(), next: start, buffer: Vec::new(), used: 0 })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<bytes::Bytes> {
        let end = start.checked_add(length as u64);
        if end.is_none_or(|end| end > self.length) {
            let text = format!("it claims {length} bytes at {start}, and has {} in all", self.length);
            return Err(ParquetError::EOF(text));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

/// A reader that starts at a position.
pub(crate) struct ChunkRead {
    chunks: FileChunks,
    next: u64,
    buffer: Vec<u8>,
    used: usize,
}

impl Read for ChunkRead {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.used == self.buffer.len() {
            let left = usize::try_from(self.chunks.length.saturating_sub(self.next)).unwrap_or(usize::MAX);
            self.buffer.resize(left.min(READ_AHEAD_BYTES), 0);
            self.used = 0;
            self.chunks.file.read_exact_at(&mut self.buffer, self.next)?;
            self.next += self.buffer.len() as u64;
        }
        let rest = &self.buffer[self.used..];
        let taken = rest.len().min(out.len());
        out[..taken].copy_from_slice(&rest[..taken]);
        self.used += taken;
        Ok(taken)
    }
}
