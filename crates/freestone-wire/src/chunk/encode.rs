//! Encoding rows of a batch as the frames of chunks.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};

use super::{HEAD_BYTES, PIECE_BYTES, Piece, put_head};
use crate::batch::{Batch, Column, StoredPiece};
use crate::column::bytes::{self, Compression};
use crate::column::{self, Body, ByteCodec, Choice, Form, Span, pad};
use crate::error::{Result, WireError, encode_error};
use crate::frame::HEADER_BYTES;
use crate::limits::{DECODED_RATIO, PARTS_MAX};
use crate::types::wire_schema;

/// The encoding of one column of a batch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recipe {
    pub choice: Choice,
    /// The number of a stored column's shared state; 0: none.
    pub shared: u32,
    /// The codes of all rows, if the choice is a dictionary.
    pub codes: Option<Arc<Vec<i64>>>,
    /// Whether the first chunk reuses the body of the last one of the previous batch.
    pub continues: bool,
}

/// An encoded chunk.
pub(crate) struct ChunkFrames {
    /// All but the last are parts: payloads after [`HEADER_BYTES`] bytes.
    pub frames: Vec<Vec<u8>>,
    /// The largest chunk that the receiver has to accept for it, in bytes. Only for one row is it more than the
    /// receiver's largest chunk.
    pub needed: usize,
}

/// A batch, or a part of one that makes one chunk.
#[derive(Clone)]
pub(crate) struct Job {
    pub batch: Arc<Batch>,
    pub rows: Range<usize>,
    /// The number in the result of the batch's first row.
    pub first_row: u64,
    pub recipes: Arc<Vec<Recipe>>,
    /// Whether bodies of the previous chunk may be omitted, which requires that one stream carries all chunks.
    pub may_continue: bool,
    pub chunk_bytes_max: usize,
    pub row: RowLimit,
}

/// The limits for a chunk of one row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowLimit {
    /// The size that the receiver accepts now. Larger rows are not placed in shared memory.
    pub agreed: usize,
    /// The size above which rows are refused: of a receiver that can agree to more, the sender's own limit.
    pub bytes_max: usize,
    /// The server's limit, if the client allows more.
    pub bytes_ceiling: usize,
}

impl RowLimit {
    /// Only the server's limit applies to rows that it receives.
    pub fn of_server(bytes_max: usize) -> Self {
        Self { agreed: bytes_max, bytes_max, bytes_ceiling: bytes_max }
    }

    fn check(self, needed: usize) -> Result<()> {
        match needed {
            _ if needed <= self.bytes_max => Ok(()),
            _ if needed <= self.bytes_ceiling => {
                Err(WireError::RowTooLarge { needed, limit: self.bytes_max, option: "chunk_size" })
            }
            _ => Err(WireError::RowAboveLimit { needed, limit: self.bytes_ceiling }),
        }
    }
}

impl Job {
    /// The chunks of the job's rows; more than one if they are too large. `take` provides buffers.
    pub fn encode(&self, take: &dyn Fn() -> Vec<u8>) -> Result<Vec<ChunkFrames>> {
        let mut chunks = vec![];
        self.encode_rows(self.rows.clone(), take, &mut chunks)?;
        Ok(chunks)
    }

    fn encode_rows(&self, rows: Range<usize>, take: &dyn Fn() -> Vec<u8>, chunks: &mut Vec<ChunkFrames>) -> Result<()> {
        let mut out = Frames::new(take, self.chunk_bytes_max, self.batch.has_stored());
        self.encode_chunk(rows.clone(), &mut out)?;
        if rows.len() == 1 {
            self.row.check(out.needed())?;
        }
        let needed = out.needed();
        if rows.len() == 1 || needed <= self.chunk_bytes_max && out.frames.len() <= PARTS_MAX {
            chunks.push(ChunkFrames { frames: out.frames, needed });
            return Ok(());
        }
        drop(out);
        let middle = rows.start + rows.len() / 2;
        self.encode_rows(rows.start..middle, take, chunks)?;
        self.encode_rows(middle..rows.end, take, chunks)
    }

    fn encode_chunk(&self, rows: Range<usize>, out: &mut Frames<'_>) -> Result<()> {
        let columns = self.batch.columns();
        let pieces: usize = columns.iter().map(|column| pieces_of(column, &rows).count().max(1)).sum();
        let head = &mut out.frames[0];
        head.resize(HEADER_BYTES + HEAD_BYTES + pieces * PIECE_BYTES, 0);
        put_head(head, rows.len(), pieces, self.first_row + rows.start as u64);
        out.own_bytes = HEAD_BYTES + pieces * PIECE_BYTES;
        let mut entry = 0;
        for (at, (column, recipe)) in columns.iter().zip(&*self.recipes).enumerate() {
            match column {
                Column::Arrow(array) => {
                    let piece = put_array(array, &rows, recipe, out).map_err(encode_error(at))?;
                    out.own_bytes += piece.length.next_multiple_of(column::ALIGNMENT);
                    out.raw_bytes += piece.raw_bytes;
                    piece.put(at, &mut entry, &mut out.frames[0]);
                }
                Column::Stored(_) => {
                    for (index, (stored, start, span)) in pieces_of(column, &rows).enumerate() {
                        let continues = match rows.start {
                            0 => index == 0 && recipe.continues,
                            first => index == 0 && start < first,
                        };
                        let continues = continues && self.may_continue;
                        let piece = put_stored(stored, span, recipe, continues, out).map_err(encode_error(at))?;
                        out.raw_bytes += piece.raw_bytes;
                        piece.put(at, &mut entry, &mut out.frames[0]);
                    }
                }
            }
        }
        Ok(())
    }
}

/// The payload of a chunk while it is written: its frames, after [`HEADER_BYTES`] bytes each.
struct Frames<'t> {
    take: &'t dyn Fn() -> Vec<u8>,
    frames: Vec<Vec<u8>>,
    /// The bytes of the payload before the last frame.
    before: usize,
    frame_bytes_max: usize,
    may_part: bool,
    /// The bytes that shrink with fewer rows: the directory and arrays.
    own_bytes: usize,
    /// The bytes of all bodies before their byte codec, of which a receiver limits the sum.
    raw_bytes: usize,
}

impl<'t> Frames<'t> {
    fn new(take: &'t dyn Fn() -> Vec<u8>, frame_bytes_max: usize, may_part: bool) -> Self {
        Self { take, frames: vec![take()], before: 0, frame_bytes_max, may_part, own_bytes: 0, raw_bytes: 0 }
    }

    /// Appends the body that `write` writes, in a new frame if it does not fit the last one. Returns the result of
    /// `write`, and the range of the body in the payload.
    fn append<T>(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<T, String>,
    ) -> Result<(T, Range<usize>), String> {
        let last = self.frames.len() - 1;
        let frame = &mut self.frames[last];
        pad(frame);
        let mut start = frame.len();
        let written = write(frame)?;
        let length = frame.len() - start;
        if self.may_part && start > HEADER_BYTES && frame.len() - HEADER_BYTES > self.frame_bytes_max {
            let mut next = (self.take)();
            next.resize(HEADER_BYTES, 0);
            next.extend_from_slice(&frame[start..]);
            frame.truncate(start);
            self.before += start - HEADER_BYTES;
            self.frames.push(next);
            start = HEADER_BYTES;
        }
        let offset = self.before + start - HEADER_BYTES;
        Ok((written, offset..offset + length))
    }

    /// The required frame size: at least one in which everything fits that would shrink with fewer rows, and one that
    /// allows the bytes before the byte codec.
    fn needed(&self) -> usize {
        let least = self.own_bytes.max(self.raw_bytes.div_ceil(DECODED_RATIO));
        self.frames.iter().map(|frame| frame.len() - HEADER_BYTES).fold(least, usize::max)
    }
}

/// The stored chunks with some of `rows`, as [`pieces_in`](crate::batch::StoredColumn::pieces_in). Empty for an array.
fn pieces_of<'c>(column: &'c Column, rows: &Range<usize>) -> impl Iterator<Item = (&'c StoredPiece, usize, Span)> {
    let stored = match column {
        Column::Stored(stored) => Some(stored),
        Column::Arrow(_) => None,
    };
    let rows = rows.clone();
    stored.into_iter().flat_map(move |stored| stored.pieces_in(rows.clone()))
}

fn put_array(array: &ArrayRef, rows: &Range<usize>, recipe: &Recipe, out: &mut Frames<'_>) -> Result<Piece, String> {
    let part = if rows.len() == array.len() { array.clone() } else { array.slice(rows.start, rows.len()) };
    let ((body, raw_bytes, codec), place) = out.append(|out| {
        let start = out.len();
        let by_codes = recipe.codes.as_ref().and_then(|codes| {
            let column::Plan::Dictionary { shared } = recipe.choice.plan else { return None };
            column::encode_codes(&codes[rows.clone()], part.nulls(), shared, out)
        });
        let body = match by_codes {
            Some(body) => body,
            None => column::encode(&part, &recipe.choice.plan, out)?,
        };
        let raw_bytes = out.len() - start;
        Ok((body, raw_bytes, squeeze(recipe.choice.codec, start, out)?))
    })?;
    let span = Span { skip: 0, rows: rows.len() };
    Ok(Piece { body, codec, continues: false, span, raw_bytes, offset: place.start, length: place.len() })
}

fn put_stored(
    stored: &StoredPiece,
    span: Span,
    recipe: &Recipe,
    continues: bool,
    out: &mut Frames<'_>,
) -> Result<Piece, String> {
    let body = Body { shared: recipe.shared, ..Body::of(Form::Chunk) };
    if continues {
        return Ok(Piece { body, codec: ByteCodec::None, continues, span, raw_bytes: 0, offset: 0, length: 0 });
    }
    let bytes = stored.bytes();
    let (codec, place) = out.append(|out| {
        let start = out.len();
        out.extend_from_slice(bytes);
        squeeze(recipe.choice.codec, start, out)
    })?;
    Ok(Piece { body, codec, continues, span, raw_bytes: bytes.len(), offset: place.start, length: place.len() })
}

/// Compresses the bytes after `start`, if that makes them smaller.
fn squeeze(compression: Compression, start: usize, out: &mut Vec<u8>) -> Result<ByteCodec, String> {
    if compression.codec == ByteCodec::None || out.len() == start {
        return Ok(ByteCodec::None);
    }
    let mut smaller = vec![];
    bytes::compress(compression, &out[start..], &mut smaller)?;
    if smaller.len() >= out.len() - start {
        return Ok(ByteCodec::None);
    }
    out.truncate(start);
    out.extend_from_slice(&smaller);
    Ok(compression.codec)
}

/// One row as the payload of one chunk in the plain form, as parameters are sent.
pub(crate) fn encode_one(batch: &RecordBatch, chunk_bytes_max: usize) -> Result<Vec<u8>> {
    let schema = wire_schema(&batch.schema());
    let rows = batch.num_rows();
    let recipes = Arc::new(vec![Recipe::default(); batch.num_columns()]);
    let batch = Arc::new(Batch::from(batch.clone()).conform(&schema)?);
    let row = RowLimit::of_server(chunk_bytes_max);
    let job = Job { batch, rows: 0..rows, first_row: 0, recipes, may_continue: false, chunk_bytes_max, row };
    let mut out = Frames::new(&Vec::new, chunk_bytes_max, false);
    job.encode_chunk(0..rows, &mut out)?;
    row.check(out.needed())?;
    Ok(out.frames[0].split_off(HEADER_BYTES))
}
