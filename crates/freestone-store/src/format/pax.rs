//! PAX pages: one mini page per column, each a codec chunk (Götze, Baumann and Sattler 2018, section IV). With one
//! column this is a column store's page.
//!
//! ```text
//! offset size field
//!      0    2 columns n
//!      2    2 zero
//!      4  4·n offset of each column's chunk from the start of the payload, ascending
//!             chunks, each starting on a multiple of 8 bytes; a chunk ends where the next one starts
//! ```

use freestone_codec::{Chunk, CodecError, Prepared};

/// The number of bytes before the first chunk.
pub fn header_bytes(columns: usize) -> usize {
    (4 + 4 * columns).next_multiple_of(8)
}

/// Appends the payload of a page with rows `start .. start + rows`.
///
/// # Errors
/// A plan cannot store its column.
pub fn encode(columns: &[&Prepared<'_>], start: usize, rows: usize, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let base = out.len();
    out.resize(base + header_bytes(columns.len()), 0);
    out[base..base + 2].copy_from_slice(&(columns.len() as u16).to_le_bytes());
    for (at, column) in columns.iter().enumerate() {
        let chunk = (out.len() - base).next_multiple_of(8);
        out.resize(base + chunk, 0);
        let field = base + 4 + 4 * at;
        out[field..field + 4].copy_from_slice(&(chunk as u32).to_le_bytes());
        freestone_codec::encode(column, start, rows, out)?;
    }
    Ok(())
}

/// The positions of the chunks of a page. Each chunk was parsed once successfully.
#[derive(Debug)]
pub struct PaxLayout {
    chunks: Vec<std::ops::Range<usize>>,
    rows: usize,
}

impl PaxLayout {
    /// The approximate bytes of memory that the layout has allocated.
    pub fn heap_bytes(&self) -> usize {
        size_of_val(&self.chunks[..])
    }

    /// Parses and checks a page of `rows` rows with `columns` columns.
    ///
    /// # Errors
    /// The reason why the payload is not valid.
    pub fn parse(payload: &[u8], rows: usize, columns: usize) -> Result<Self, String> {
        let found = payload.get(..2).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]) as usize);
        if found != columns || payload.len() < header_bytes(columns) {
            return Err(format!("{found} mini pages where the group has {columns} columns"));
        }
        let offset = |at: usize| {
            let field = &payload[4 + 4 * at..8 + 4 * at];
            u32::from_le_bytes([field[0], field[1], field[2], field[3]]) as usize
        };
        let mut chunks = Vec::with_capacity(columns);
        for at in 0..columns {
            let end = if at + 1 < columns { offset(at + 1) } else { payload.len() };
            if offset(at) > end || end > payload.len() {
                return Err(format!("mini page {at} does not lie within the page"));
            }
            chunks.push(offset(at)..end);
        }
        Ok(PaxLayout { chunks, rows })
    }

    /// The number of rows of the page.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The range of a column's chunk in the payload.
    pub fn chunk_range(&self, column: usize) -> std::ops::Range<usize> {
        self.chunks[column].clone()
    }

    /// The bytes of a column's chunk.
    pub fn chunk_bytes<'a>(&self, payload: &'a [u8], column: usize) -> &'a [u8] {
        &payload[self.chunks[column].clone()]
    }

    /// Checks that a chunk has the page's number of rows.
    ///
    /// # Errors
    /// It has another number of rows.
    pub fn check_rows(&self, chunk: &Chunk<'_>) -> Result<(), String> {
        if chunk.rows() == self.rows {
            Ok(())
        } else {
            Err(format!("a mini page of {} rows on a page of {}", chunk.rows(), self.rows))
        }
    }
}
