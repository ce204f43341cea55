//! Decoding the frames of a chunk.

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use arrow::compute::concat;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use freestone_store::plain::Strings;

use super::{HEAD_BYTES, PIECE_BYTES, Piece, rows_max};
use crate::column::{self, ByteCodec, Decoder, Form, SharedStates, bytes};
use crate::error::{Result, WireError};
use crate::limits::ChunkSizes;

/// A chunk with its parsed directory.
#[derive(Debug)]
pub(crate) struct Received {
    pub first_row: u64,
    pub rows: usize,
    /// Whether it lies in memory that only a trusted process writes.
    pub is_placed: bool,
    pieces: Vec<(usize, Piece, Buffer)>,
}

/// The received frames of a chunk, each with its offset in the payload.
#[derive(Debug, Default)]
pub(crate) struct Payload {
    frames: Vec<(usize, Buffer)>,
    /// The offset of the next frame.
    end: usize,
    /// Whether it lies in memory that only a trusted process writes.
    is_placed: bool,
}

impl Payload {
    /// The payload of a chunk that was placed in the arena, which is one frame of any size.
    pub fn placed(chunk: Buffer) -> Self {
        let mut payload = Self { is_placed: true, ..Self::default() };
        payload.push(chunk);
        payload
    }

    pub fn push(&mut self, frame: Buffer) {
        let start = self.end;
        self.end += frame.len().next_multiple_of(column::ALIGNMENT);
        self.frames.push((start, frame));
    }

    pub fn frames(&self) -> usize {
        self.frames.len()
    }

    /// The bytes of the largest frame.
    fn frame_bytes(&self) -> usize {
        self.frames.iter().map(|(_, frame)| frame.len()).max().unwrap_or(0)
    }

    fn first(&self) -> &[u8] {
        self.frames.first().map_or(&[], |(_, frame)| frame)
    }

    /// The body of a piece, which is in one frame.
    fn body(&self, piece: &Piece) -> Option<Buffer> {
        let at = self.frames.partition_point(|(start, _)| *start <= piece.offset).checked_sub(1)?;
        let (start, frame) = &self.frames[at];
        let from = piece.offset - start;
        (from.checked_add(piece.length)? <= frame.len()).then(|| frame.slice_with_length(from, piece.length))
    }
}

/// The last piece of each column, for chunks that reuse its body.
pub(crate) type LastPieces = Vec<Option<(LastBody, Buffer)>>;

/// The properties of a body that a later chunk may reuse.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastBody {
    codec: ByteCodec,
    raw_bytes: usize,
}

/// Parses the directory and checks everything on which decoding relies. `last` belongs to the stream and has one
/// element per column of the schema.
pub(crate) fn receive(
    payload: &Payload,
    schema: &Schema,
    sizes: ChunkSizes,
    last: &mut LastPieces,
) -> Result<Received> {
    let malformed = |reason: String| WireError::malformed("chunk", reason);
    let first = payload.first();
    let number = |at: usize| first.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize);
    let (Some(rows), Some(count), Some(low), Some(high)) = (number(0), number(4), number(8), number(12)) else {
        return Err(malformed(format!("{} bytes, fewer than a head", first.len())));
    };
    let rows_max = rows_max(schema, sizes.bytes_max);
    if rows == 0 || rows > rows_max {
        return Err(malformed(format!("{rows} rows; 1 to {rows_max} of such columns are possible")));
    }
    let (frame_bytes, frame_bytes_max) = (payload.frame_bytes(), sizes.frame_bytes_max(rows));
    if !payload.is_placed && frame_bytes > frame_bytes_max {
        return Err(malformed(format!("{frame_bytes} bytes for {rows} rows; {frame_bytes_max} are allowed")));
    }
    let directory =
        count.checked_mul(PIECE_BYTES).and_then(|bytes| first.get(HEAD_BYTES..HEAD_BYTES.checked_add(bytes)?));
    let directory = directory.ok_or_else(|| malformed(format!("no room for {count} pieces")))?;
    last.resize(schema.fields().len(), None);
    let (mut pieces, mut raw_bytes, mut next) = (Vec::with_capacity(count), 0usize, (0, 0));
    for entry in directory.as_chunks::<PIECE_BYTES>().0 {
        let (column, mut piece) = Piece::parse(entry).map_err(malformed)?;
        // Columns are in order, and each has all rows.
        if next.1 == rows && column == next.0 + 1 {
            next = (column, 0);
        }
        next.1 += piece.span.rows;
        if column != next.0 || piece.span.rows == 0 || next.1 > rows || column >= last.len() {
            return Err(malformed(format!("a piece of {} rows of column {column} is out of place", piece.span.rows)));
        }
        let body = match (piece.continues, &last[column]) {
            (true, Some((before, body))) if piece.length == 0 => {
                (piece.codec, piece.raw_bytes) = (before.codec, before.raw_bytes);
                body.clone()
            }
            (true, _) => return Err(malformed(format!("column {column} continues a piece that was not sent"))),
            (false, _) => payload.body(&piece).ok_or_else(|| malformed("a body is not in the payload".into()))?,
        };
        raw_bytes = raw_bytes.saturating_add(piece.raw_bytes);
        // Only stored pieces can be reused, so no other memory is held.
        let may_go_on = piece.body.form == Form::Chunk;
        last[column] = may_go_on.then(|| (LastBody { codec: piece.codec, raw_bytes: piece.raw_bytes }, body.clone()));
        pieces.push((column, piece, body));
    }
    let columns = schema.fields().len();
    if columns > 0 && next != (columns - 1, rows) {
        return Err(malformed(format!("columns or rows are missing behind row {} of column {}", next.1, next.0)));
    }
    let raw_bytes_max = sizes.decoded_bytes_max(rows);
    if raw_bytes > raw_bytes_max {
        return Err(malformed(format!("{raw_bytes} bytes before compression; {raw_bytes_max} are allowed")));
    }
    Ok(Received { first_row: low as u64 | (high as u64) << 32, rows, is_placed: payload.is_placed, pieces })
}

/// The rows of a chunk of `schema`, in the layout of `strings`.
pub(crate) fn decode(
    chunk: &Received,
    schema: &SchemaRef,
    strings: Strings,
    states: &SharedStates,
    sizes: ChunkSizes,
) -> Result<RecordBatch> {
    let mut decoder = Decoder::new(states, sizes.decoded_bytes_max(chunk.rows));
    decoder.trusts_texts = chunk.is_placed;
    let columns = schema.fields().iter().enumerate().map(|(at, field)| {
        let from = chunk.pieces.partition_point(|(column, ..)| *column < at);
        let to = chunk.pieces.partition_point(|(column, ..)| *column <= at);
        decode_column(&chunk.pieces[from..to], field.data_type(), strings, chunk.rows, &mut decoder)
            .map_err(|e| WireError::malformed("chunk", format!("column {}: {e}", field.name())))
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(chunk.rows));
    let schema = strings.schema(schema);
    RecordBatch::try_new_with_options(schema, columns, &options).map_err(|e| WireError::malformed("chunk", e))
}

fn decode_column(
    pieces: &[(usize, Piece, Buffer)],
    data_type: &DataType,
    strings: Strings,
    rows: usize,
    decoder: &mut Decoder<'_>,
) -> Result<ArrayRef, String> {
    let laid_out = |array| strings.array(array).map_err(|e| e.to_string());
    let body = |(_, piece, bytes): &(usize, Piece, Buffer)| bytes::decompress(piece.codec, bytes, piece.raw_bytes);
    if let [only] = pieces {
        let array = column::decode(&body(only)?, only.1.body, only.1.span, data_type, strings, decoder)?;
        return laid_out(array);
    }
    if pieces.iter().all(|(_, piece, _)| piece.body.form == Form::Chunk) && crate::types::is_native(data_type) {
        let mut column = column::room_for(&strings.data_type(data_type), rows);
        for piece in pieces {
            let (about, span) = (piece.1.body, piece.1.span);
            column::append_chunk(&body(piece)?, about.shared, span, data_type, decoder, &mut column)?;
        }
        return column::finish(column);
    }
    let parts = pieces.iter().map(|piece| {
        let (about, span) = (piece.1.body, piece.1.span);
        laid_out(column::decode(&body(piece)?, about, span, data_type, strings, decoder)?)
    });
    let parts = parts.collect::<Result<Vec<_>, String>>()?;
    concat(&parts.iter().map(|part| &**part as &dyn Array).collect::<Vec<_>>()).map_err(|e| e.to_string())
}

/// Decodes a payload of [`encode_one`].
pub(crate) fn decode_one(payload: Vec<u8>, schema: &SchemaRef, chunk_bytes_max: usize) -> Result<RecordBatch> {
    let mut whole = Payload::default();
    whole.push(Buffer::from(payload));
    let sizes = ChunkSizes::of(chunk_bytes_max);
    let chunk = receive(&whole, schema, sizes, &mut vec![])?;
    decode(&chunk, schema, Strings::Views, &SharedStates::new(), sizes)
}
