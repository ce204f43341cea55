//! The sizes of chunks that both sides of a connection accept.

/// The maximum number of rows of a chunk.
pub const ROWS_MAX: usize = 1 << 16;
/// The decoded rows of a chunk take at most this many times the bytes of the largest chunk, unless it is one row. Views
/// of strings are counted, their text is not. Bodies before their byte codec have the same limit.
pub const DECODED_RATIO: usize = 64;

/// The sizes of chunks that a receiver accepts, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkSizes {
    /// The largest chunk of several rows.
    pub bytes_max: usize,
    /// The largest chunk of one row, to which both sides have agreed; at least `bytes_max`.
    pub row_bytes_max: usize,
}

impl ChunkSizes {
    /// Without an agreement on larger rows.
    pub fn of(bytes_max: usize) -> Self {
        Self { bytes_max, row_bytes_max: bytes_max }
    }

    /// The largest frame of a chunk with this many rows.
    pub fn frame_bytes_max(self, rows: usize) -> usize {
        if rows == 1 { self.row_bytes_max } else { self.bytes_max }
    }

    /// The largest sum of a chunk's bodies before their byte codec, and the largest text of one of them.
    pub fn decoded_bytes_max(self, rows: usize) -> usize {
        self.frame_bytes_max(rows).saturating_mul(DECODED_RATIO)
    }
}

/// The maximum number of frames of a chunk.
pub(crate) const PARTS_MAX: usize = 32;
