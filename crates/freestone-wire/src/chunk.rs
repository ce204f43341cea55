//! Rows ↔ chunks, whose frames are never larger than the client's limit.
//!
//! ```text
//! bytes 0..4    rows, u32
//! bytes 4..8    pieces, u32
//! bytes 8..16   number of the first row in the result, u64
//! then          the directory, 32 bytes per piece, in the order of columns and rows:
//!               0..2    column, u16            16..20  shared state, u32; 0 = none
//!               2       form                   20..24  bytes of the body before the byte codec, u32
//!               3       byte codec             24..28  offset of the body in the payload, u32
//!               4       nulls                  28..32  bytes of the body in the payload, u32
//!               5       flags: bit 0 = the body is that of the column's last piece in the previous chunk
//!               6       width                  8..12   rows, u32
//!               7       0                      12..16  rows of the body to skip, u32
//! then          the bodies, each at a multiple of 16, zeros between them
//! ```
//! A payload may be sent in several frames, so that a chunk can contain stored chunks of many columns. The directory is
//! in the first frame, and no body extends over two. Each body begins at a multiple of 16 of the payload, and of the
//! receiver's memory.

mod decode;
mod encode;
mod place;
#[cfg(test)]
mod table2;

use arrow::datatypes::{DataType, Schema};

use crate::column::{self, Body, ByteCodec, Span, codec_of, form_of, nulls_of};
use crate::frame::HEADER_BYTES;
use crate::limits::{DECODED_RATIO, ROWS_MAX};

pub(crate) use decode::{LastPieces, Payload, Received, decode, decode_one, receive};
pub(crate) use encode::{ChunkFrames, Job, Recipe, RowLimit, encode_one};
pub(crate) use place::Placing;

pub(crate) const HEAD_BYTES: usize = 16;
pub(crate) const PIECE_BYTES: usize = 32;
const FLAG_CONTINUES: u8 = 1;

/// The maximum number of rows of a chunk with these columns.
pub(crate) fn rows_max(schema: &Schema, chunk_bytes_max: usize) -> usize {
    let width: usize = schema.fields().iter().map(|field| decoded_width(field.data_type())).sum();
    (chunk_bytes_max.saturating_mul(DECODED_RATIO) / width.max(1)).clamp(1, ROWS_MAX)
}

fn decoded_width(data_type: &DataType) -> usize {
    match data_type {
        DataType::Utf8View | DataType::BinaryView => 16,
        other => other.primitive_width().unwrap_or(1),
    }
}

/// An entry of the directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub body: Body,
    pub codec: ByteCodec,
    pub continues: bool,
    pub span: Span,
    pub raw_bytes: usize,
    /// In the payload.
    pub offset: usize,
    pub length: usize,
}

impl Piece {
    pub fn put(&self, column: usize, entry: &mut usize, out: &mut [u8]) {
        let mut bytes = [0; PIECE_BYTES];
        bytes[..2].copy_from_slice(&(column as u16).to_le_bytes());
        bytes[2] = self.body.form as u8;
        bytes[3] = self.codec as u8;
        bytes[4] = self.body.nulls as u8;
        bytes[5] = if self.continues { FLAG_CONTINUES } else { 0 };
        bytes[6] = self.body.width;
        let numbers =
            [self.span.rows, self.span.skip, self.body.shared as usize, self.raw_bytes, self.offset, self.length];
        for (i, number) in numbers.into_iter().enumerate() {
            put(&mut bytes, 8 + 4 * i, &(number as u32).to_le_bytes());
        }
        put(out, HEADER_BYTES + HEAD_BYTES + *entry * PIECE_BYTES, &bytes);
        *entry += 1;
    }

    /// The column and the rest of an entry.
    pub fn parse(entry: &[u8; PIECE_BYTES]) -> Result<(usize, Self), String> {
        let number = |i: usize| u32::from_le_bytes(std::array::from_fn(|b| entry[8 + 4 * i + b]));
        let unknown = |what: &str, id: u8| format!("unknown {what} {id}");
        if entry[5] & !FLAG_CONTINUES != 0 || entry[7] != 0 {
            return Err(unknown("flags", entry[5]));
        }
        let body = Body {
            form: form_of(entry[2]).ok_or_else(|| unknown("form", entry[2]))?,
            nulls: nulls_of(entry[4]).ok_or_else(|| unknown("nulls", entry[4]))?,
            width: entry[6],
            shared: number(2),
        };
        let piece = Piece {
            body,
            codec: codec_of(entry[3]).ok_or_else(|| unknown("byte codec", entry[3]))?,
            continues: entry[5] == FLAG_CONTINUES,
            span: Span { skip: number(1) as usize, rows: number(0) as usize },
            raw_bytes: number(3) as usize,
            offset: number(4) as usize,
            length: number(5) as usize,
        };
        Ok((usize::from(u16::from_le_bytes([entry[0], entry[1]])), piece))
    }
}

/// Writes the head of a chunk, after the space for a frame's header.
pub(crate) fn put_head(out: &mut [u8], rows: usize, pieces: usize, first_row: u64) {
    put(out, HEADER_BYTES, &(rows as u32).to_le_bytes());
    put(out, HEADER_BYTES + 4, &(pieces as u32).to_le_bytes());
    put(out, HEADER_BYTES + 8, &first_row.to_le_bytes());
}

fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

const _: () = assert!(HEADER_BYTES.is_multiple_of(column::ALIGNMENT) && PIECE_BYTES.is_multiple_of(column::ALIGNMENT));
