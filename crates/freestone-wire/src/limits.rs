//! The sizes of chunks that both sides of a connection accept.

/// The maximum number of rows of a chunk.
pub const ROWS_MAX: usize = 1 << 16;
/// The decoded rows of a chunk take at most this many times the bytes of the largest chunk, unless it is one row. Views
/// of strings are counted, their text is not. Bodies before their byte codec have the same limit.
pub const DECODED_RATIO: usize = 64;

/// The maximum number of frames of a chunk.
pub(crate) const PARTS_MAX: usize = 32;
