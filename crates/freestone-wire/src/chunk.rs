//! Rows to chunks, which never are larger than the client takes, and back.
//!
//! ```text
//! bytes 0..4    rows, u32
//! bytes 4..8    pieces, u32
//! bytes 8..16   number of the first row in the result, u64
//! then          the directory, 32 bytes a piece, in the order of columns and rows:
//!               0..2    column, u16            16..20  shared state, u32; 0 = none
//!               2       form                   20..24  bytes of the body before the byte codec, u32
//!               3       byte codec             24..28  where it begins in the payload, u32
//!               4       nulls                  28..32  its bytes in the payload, u32
//!               5       flags: bit 0 = the body is that of the column's last piece in the chunk before
//!               6       width                  8..12   rows, u32
//!               7       0                      12..16  rows of the body before the first that is meant, u32
//! then          the bodies, each at a multiple of 16, zeros between them
//! ```
//! The payload begins at a multiple of 16 of the receiver's memory.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use freestone_codec::Shared;
use freestone_store::column::ColumnBuffer;
use freestone_store::plain::Strings;

use crate::column::{
    self, Body, ByteCodec, Choice, Decoder, Form, SharedState, SharedStates, Span, bytes, codec_of, form_of, nulls_of,
    pad,
};
use crate::error::{Result, WireError};
use crate::frame::HEADER_BYTES;
use crate::types::{wire_schema, wire_type};

/// Chunks have at most so many rows.
pub const ROWS_MAX: usize = 1 << 16;
/// A chunk's rows take at most so many times the bytes of the largest chunk when they are decoded, views of strings
/// counted and their texts not, unless it is one row. Nor may bodies be larger before their byte codec.
pub const DECODED_RATIO: usize = 64;

const HEAD_BYTES: usize = 16;
const PIECE_BYTES: usize = 32;
const FLAG_CONTINUES: u8 = 1;

/// Bytes that somebody else holds: of a page in a cache, say.
pub type Bytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Rows of some columns, each as Arrow has it or as it is stored.
#[derive(Debug, Clone)]
pub struct Batch {
    rows: usize,
    columns: Vec<Column>,
}

/// A column of a [`Batch`].
#[derive(Debug, Clone)]
pub enum Column {
    /// An array with a row for each of the batch.
    Arrow(ArrayRef),
    /// Chunks as they are stored, whose rows are those of the batch.
    Stored(StoredColumn),
}

/// A run of rows of a column in its stored form.
#[derive(Debug, Clone)]
pub struct StoredColumn {
    /// The type of the values: one that can be stored.
    pub data_type: DataType,
    /// What its chunks refer to, if they do.
    pub shared: Option<StoredShared>,
    pub pieces: Vec<StoredPiece>,
}

/// A segment's dictionary or symbol table of one column.
#[derive(Debug, Clone)]
pub struct StoredShared {
    /// Names it among all that a result refers to, so that it is sent once.
    pub key: u64,
    pub shared: Shared,
}

/// Rows of one stored chunk.
#[derive(Clone)]
pub struct StoredPiece {
    /// What holds the chunk, and where in it the chunk is.
    pub owner: Bytes,
    pub range: Range<usize>,
    /// Rows of the chunk before the first that is meant, and how many are.
    pub skip: usize,
    pub rows: usize,
}

impl std::fmt::Debug for StoredPiece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredPiece").field("range", &self.range).field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl StoredPiece {
    /// The chunk.
    pub fn bytes(&self) -> &[u8] {
        &(*self.owner).as_ref()[self.range.clone()]
    }

    fn is_same_chunk(&self, other: &StoredPiece) -> bool {
        Arc::ptr_eq(&self.owner, &other.owner) && self.range == other.range
    }
}

impl From<RecordBatch> for Batch {
    fn from(batch: RecordBatch) -> Self {
        let rows = batch.num_rows();
        Self { rows, columns: batch.columns().iter().cloned().map(Column::Arrow).collect() }
    }
}

impl Batch {
    /// Rows of columns, all of them with `rows` rows; an error where one has another number.
    pub fn new(rows: usize, columns: Vec<Column>) -> Result<Self> {
        for (at, column) in columns.iter().enumerate() {
            let found = match column {
                Column::Arrow(array) => array.len(),
                Column::Stored(stored) => stored.pieces.iter().map(|piece| piece.rows).sum(),
            };
            if found != rows {
                let reason = format!("{found} rows in a batch of {rows}");
                return Err(WireError::Encode { column: at.to_string(), reason });
            }
        }
        Ok(Self { rows, columns })
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Whether any column is stored.
    pub(crate) fn has_stored(&self) -> bool {
        self.columns.iter().any(|column| matches!(column, Column::Stored(_)))
    }

    /// The batch as `schema` has it, which is that of a result, in the types that travel.
    pub(crate) fn conform(self, schema: &Schema) -> Result<Self> {
        let fields = schema.fields();
        if fields.len() != self.columns.len() {
            let reason = format!("{} columns in a result of {}", self.columns.len(), fields.len());
            return Err(WireError::Encode { column: "*".into(), reason });
        }
        let columns = self.columns.into_iter().zip(fields).map(|(column, field)| {
            let encode = |reason: String| WireError::Encode { column: field.name().clone(), reason };
            let found = match &column {
                Column::Arrow(array) => wire_type(array.data_type()),
                Column::Stored(stored) => stored.data_type.clone(),
            };
            if found != *field.data_type() {
                return Err(encode(format!("{found} in a column of {}", field.data_type())));
            }
            Ok(match column {
                Column::Arrow(array) if array.data_type() != field.data_type() => {
                    Column::Arrow(cast(&array, field.data_type()).map_err(|e| encode(e.to_string()))?)
                }
                other => other,
            })
        });
        Ok(Self { rows: self.rows, columns: columns.collect::<Result<_>>()? })
    }

    /// Bytes of all rows, about: stored ones as they are, others as the plain form has them.
    pub(crate) fn bytes(&self) -> usize {
        let columns = self.columns.iter().map(|column| match column {
            Column::Stored(stored) => stored.pieces.iter().map(|piece| piece.range.len()).sum(),
            Column::Arrow(array) => match array.data_type() {
                DataType::Utf8View | DataType::BinaryView => column::strings::lengths(array).0 + array.len() * 2,
                DataType::Boolean => array.len() / 8,
                other => other.primitive_width().map_or_else(|| array.get_array_memory_size(), |w| w * array.len()),
            },
        });
        columns.sum()
    }

    /// The batch with as few columns decoded as leave room for the others' largest stored chunks, all in one message: the
    /// largest first.
    pub(crate) fn decoded_to_fit(self, bytes_max: usize) -> Result<Self> {
        let most = |column: &Column| match column {
            Column::Stored(stored) => stored.pieces.iter().map(|piece| piece.range.len()).max().unwrap_or(0),
            Column::Arrow(_) => 0,
        };
        let mut order: Vec<(usize, usize)> = self.columns.iter().map(most).enumerate().map(|(at, n)| (n, at)).collect();
        order.sort_unstable();
        let mut left = (bytes_max / 2).saturating_sub(64 * self.columns.len());
        let mut fits = vec![false; self.columns.len()];
        for (bytes, at) in order {
            fits[at] = bytes <= left;
            left = left.saturating_sub(bytes);
        }
        self.decoded_but(|at| fits[at])
    }

    /// The batch with all stored columns decoded.
    pub(crate) fn decoded(self) -> Result<Self> {
        self.decoded_but(|_| false)
    }

    fn decoded_but(self, stays: impl Fn(usize) -> bool) -> Result<Self> {
        let columns = self.columns.into_iter().enumerate().map(|(at, column)| match column {
            Column::Stored(stored) if !stays(at) => decode_stored(&stored)
                .map(Column::Arrow)
                .map_err(|reason| WireError::Encode { column: at.to_string(), reason }),
            other => Ok(other),
        });
        Ok(Self { rows: self.rows, columns: columns.collect::<Result<_>>()? })
    }

    /// For each column whether its first stored chunk is the last of `before`.
    pub(crate) fn continues(&self, before: &Batch) -> Vec<bool> {
        let pairs = before.columns.iter().zip(&self.columns);
        let same = pairs.map(|pair| match pair {
            (Column::Stored(a), Column::Stored(b)) => match (a.pieces.last(), b.pieces.first()) {
                (Some(a), Some(b)) => a.is_same_chunk(b),
                _ => false,
            },
            _ => false,
        });
        same.collect()
    }
}

fn decode_stored(stored: &StoredColumn) -> Result<ArrayRef, String> {
    let mut states = SharedStates::new();
    let shared = u32::from(stored.shared.is_some());
    states.extend(stored.shared.iter().map(|s| (1, SharedState::Codec(s.shared.clone()))));
    let mut column = ColumnBuffer::new(&stored.data_type);
    let mut decoder = Decoder::new(&states, usize::MAX);
    for piece in &stored.pieces {
        let span = Span { skip: piece.skip, rows: piece.rows };
        column::append_chunk(piece.bytes(), shared, span, &stored.data_type, &mut decoder, &mut column)?;
    }
    column::finish(column)
}

/// How one column of a batch is encoded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recipe {
    pub choice: Choice,
    /// The number of a stored column's shared state; 0: none.
    pub shared: u32,
    /// The codes of all rows where the choice is a dictionary.
    pub codes: Option<Arc<Vec<i64>>>,
    /// Whether the first chunk goes on with the body of the last of the batch before.
    pub continues: bool,
}

/// A batch, or as much of one as makes one chunk.
pub(crate) struct Job {
    pub batch: Arc<Batch>,
    pub rows: Range<usize>,
    /// The number in the result of the batch's first row.
    pub first_row: u64,
    pub recipes: Arc<Vec<Recipe>>,
    /// Whether bodies may be left out that the chunk before has: only where one stream carries all chunks.
    pub may_continue: bool,
    pub chunk_bytes_max: usize,
    pub row: RowLimit,
}

/// How many bytes a chunk of one row may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowLimit {
    pub bytes_max: usize,
    /// What the server allows where the client asks for more.
    pub bytes_ceiling: usize,
}

impl RowLimit {
    /// Only the server limits what it is sent.
    pub fn of_server(bytes_max: usize) -> Self {
        Self { bytes_max, bytes_ceiling: bytes_max }
    }

    fn check(self, needed: usize) -> Result<()> {
        match needed {
            _ if needed <= self.bytes_max => Ok(()),
            _ if needed <= self.bytes_ceiling => Err(WireError::RowTooLarge { needed, limit: self.bytes_max }),
            _ => Err(WireError::RowAboveLimit { needed, limit: self.bytes_ceiling }),
        }
    }
}

impl Job {
    /// The chunks of the job's rows, more than one where they are too large: payloads behind [`HEADER_BYTES`] bytes.
    /// `take` gives buffers.
    pub fn encode(&self, take: &dyn Fn() -> Vec<u8>) -> Result<Vec<Vec<u8>>> {
        let mut chunks = vec![];
        self.encode_rows(self.rows.clone(), take, &mut chunks)?;
        Ok(chunks)
    }

    fn encode_rows(&self, rows: Range<usize>, take: &dyn Fn() -> Vec<u8>, chunks: &mut Vec<Vec<u8>>) -> Result<()> {
        let mut out = take();
        self.encode_chunk(rows.clone(), &mut out)?;
        let needed = out.len() - HEADER_BYTES;
        if rows.len() == 1 {
            self.row.check(needed)?;
        }
        if rows.len() == 1 || needed <= self.chunk_bytes_max {
            chunks.push(out);
            return Ok(());
        }
        drop(out);
        let middle = rows.start + rows.len() / 2;
        self.encode_rows(rows.start..middle, take, chunks)?;
        self.encode_rows(middle..rows.end, take, chunks)
    }

    fn encode_chunk(&self, rows: Range<usize>, out: &mut Vec<u8>) -> Result<()> {
        let columns = self.batch.columns();
        let pieces: usize = columns.iter().map(|column| pieces_of(column, &rows).count().max(1)).sum();
        out.resize(HEADER_BYTES + HEAD_BYTES + pieces * PIECE_BYTES, 0);
        put(out, HEADER_BYTES, &(rows.len() as u32).to_le_bytes());
        put(out, HEADER_BYTES + 4, &(pieces as u32).to_le_bytes());
        put(out, HEADER_BYTES + 8, &(self.first_row + rows.start as u64).to_le_bytes());
        let mut entry = 0;
        for (at, (column, recipe)) in columns.iter().zip(&*self.recipes).enumerate() {
            let encode = |reason| WireError::Encode { column: at.to_string(), reason };
            match column {
                Column::Arrow(array) => {
                    let piece = put_array(array, &rows, recipe, out).map_err(encode)?;
                    piece.put(at, &mut entry, out);
                }
                Column::Stored(_) => {
                    for (index, (stored, start, span)) in pieces_of(column, &rows).enumerate() {
                        let continues = match rows.start {
                            0 => index == 0 && recipe.continues,
                            first => index == 0 && start < first,
                        };
                        let continues = continues && self.may_continue;
                        let piece = put_stored(stored, span, recipe, continues, out).map_err(encode)?;
                        piece.put(at, &mut entry, out);
                    }
                }
            }
        }
        Ok(())
    }
}

fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

/// The stored chunks that hold some of `rows`: each with the row of the batch that its part begins at, and the rows that
/// are meant. Nothing for an array.
fn pieces_of<'c>(column: &'c Column, rows: &Range<usize>) -> impl Iterator<Item = (&'c StoredPiece, usize, Span)> {
    let stored: &[StoredPiece] = match column {
        Column::Stored(stored) => &stored.pieces,
        Column::Arrow(_) => &[],
    };
    let rows = rows.clone();
    let mut at = 0;
    stored.iter().filter_map(move |piece| {
        let start = at;
        at += piece.rows;
        let (from, to) = (rows.start.max(start), rows.end.min(at));
        (from < to).then(|| (piece, start, Span { skip: piece.skip + from - start, rows: to - from }))
    })
}

/// An entry of the directory.
#[derive(Debug, Clone, Copy)]
struct Piece {
    body: Body,
    codec: ByteCodec,
    continues: bool,
    span: Span,
    raw_bytes: usize,
    /// In the payload.
    offset: usize,
    length: usize,
}

impl Piece {
    fn put(&self, column: usize, entry: &mut usize, out: &mut [u8]) {
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
    fn parse(entry: &[u8; PIECE_BYTES]) -> Result<(usize, Self), String> {
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

fn put_array(array: &ArrayRef, rows: &Range<usize>, recipe: &Recipe, out: &mut Vec<u8>) -> Result<Piece, String> {
    pad(out);
    let start = out.len();
    let part = if rows.len() == array.len() { array.clone() } else { array.slice(rows.start, rows.len()) };
    let by_codes = recipe.codes.as_ref().and_then(|codes| {
        let column::Plan::Dictionary { shared } = recipe.choice.plan else { return None };
        column::encode_codes(&codes[rows.clone()], part.nulls(), shared, out)
    });
    let body = match by_codes {
        Some(body) => body,
        None => column::encode(&part, &recipe.choice.plan, out)?,
    };
    let raw_bytes = out.len() - start;
    let codec = squeeze(recipe.choice.codec, start, out)?;
    let (offset, length) = (start - HEADER_BYTES, out.len() - start);
    Ok(Piece { body, codec, continues: false, span: Span { skip: 0, rows: rows.len() }, raw_bytes, offset, length })
}

fn put_stored(
    stored: &StoredPiece,
    span: Span,
    recipe: &Recipe,
    continues: bool,
    out: &mut Vec<u8>,
) -> Result<Piece, String> {
    pad(out);
    let start = out.len();
    let body = Body { shared: recipe.shared, ..Body::of(Form::Chunk) };
    let (mut raw_bytes, mut codec) = (0, ByteCodec::None);
    if !continues {
        out.extend_from_slice(stored.bytes());
        raw_bytes = out.len() - start;
        codec = squeeze(recipe.choice.codec, start, out)?;
    }
    Ok(Piece { body, codec, continues, span, raw_bytes, offset: start - HEADER_BYTES, length: out.len() - start })
}

/// Compresses what stands behind `start`, where that makes it smaller.
fn squeeze(codec: ByteCodec, start: usize, out: &mut Vec<u8>) -> Result<ByteCodec, String> {
    if codec == ByteCodec::None || out.len() == start {
        return Ok(ByteCodec::None);
    }
    let mut smaller = vec![];
    bytes::compress(codec, &out[start..], &mut smaller)?;
    if smaller.len() >= out.len() - start {
        return Ok(ByteCodec::None);
    }
    out.truncate(start);
    out.extend_from_slice(&smaller);
    Ok(codec)
}

/// How many rows of such columns a chunk may have.
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

/// A chunk whose directory has been read.
#[derive(Debug)]
pub(crate) struct Received {
    pub first_row: u64,
    pub rows: usize,
    pieces: Vec<(usize, Piece, Buffer)>,
}

/// Each column's last piece, for chunks that go on with it.
pub(crate) type LastPieces = Vec<Option<(LastBody, Buffer)>>;

/// What is to be known of a body that a later chunk goes on with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastBody {
    codec: ByteCodec,
    raw_bytes: usize,
}

/// Reads the directory and checks all that decoding relies on. `last` is that of the stream, and as long as the schema.
pub(crate) fn receive(
    payload: Buffer,
    schema: &Schema,
    chunk_bytes_max: usize,
    last: &mut LastPieces,
) -> Result<Received> {
    let malformed = |reason: String| WireError::malformed("chunk", reason);
    let number = |at: usize| payload.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize);
    let (Some(rows), Some(count), Some(low), Some(high)) = (number(0), number(4), number(8), number(12)) else {
        return Err(malformed(format!("{} bytes, fewer than a head", payload.len())));
    };
    let rows_max = rows_max(schema, chunk_bytes_max);
    if rows == 0 || rows > rows_max {
        return Err(malformed(format!("{rows} rows; 1 to {rows_max} of such columns are possible")));
    }
    let directory =
        count.checked_mul(PIECE_BYTES).and_then(|bytes| payload.get(HEAD_BYTES..HEAD_BYTES.checked_add(bytes)?));
    let directory = directory.ok_or_else(|| malformed(format!("no room for {count} pieces")))?;
    last.resize(schema.fields().len(), None);
    let (mut pieces, mut raw_bytes, mut next) = (Vec::with_capacity(count), 0usize, (0, 0));
    for entry in directory.as_chunks::<PIECE_BYTES>().0 {
        let (column, mut piece) = Piece::parse(entry).map_err(malformed)?;
        // Columns come in order, each with all rows.
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
            (true, _) => return Err(malformed(format!("column {column} goes on with nothing"))),
            (false, _) => slice(&payload, &piece).ok_or_else(|| malformed("a body is not in the payload".into()))?,
        };
        raw_bytes = raw_bytes.saturating_add(piece.raw_bytes);
        last[column] = Some((LastBody { codec: piece.codec, raw_bytes: piece.raw_bytes }, body.clone()));
        pieces.push((column, piece, body));
    }
    let columns = schema.fields().len();
    if columns > 0 && next != (columns - 1, rows) {
        return Err(malformed(format!("columns or rows are missing behind row {} of column {}", next.1, next.0)));
    }
    let raw_bytes_max = chunk_bytes_max.saturating_mul(DECODED_RATIO);
    if raw_bytes > raw_bytes_max {
        return Err(malformed(format!("{raw_bytes} bytes before compression; {raw_bytes_max} are allowed")));
    }
    Ok(Received { first_row: low as u64 | (high as u64) << 32, rows, pieces })
}

fn slice(payload: &Buffer, piece: &Piece) -> Option<Buffer> {
    let end = piece.offset.checked_add(piece.length)?;
    (end <= payload.len()).then(|| payload.slice_with_length(piece.offset, piece.length))
}

/// The rows of a chunk of `schema`, in the layout of `strings`.
pub(crate) fn decode(
    chunk: &Received,
    schema: &SchemaRef,
    strings: Strings,
    states: &SharedStates,
    chunk_bytes_max: usize,
) -> Result<RecordBatch> {
    let mut decoder = Decoder::new(states, chunk_bytes_max.saturating_mul(DECODED_RATIO));
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

/// One row as one chunk's payload in the plain form: how parameters travel.
pub(crate) fn encode_one(batch: &RecordBatch, chunk_bytes_max: usize) -> Result<Vec<u8>> {
    let schema = wire_schema(&batch.schema());
    let rows = batch.num_rows();
    let recipes = Arc::new(vec![Recipe::default(); batch.num_columns()]);
    let batch = Arc::new(Batch::from(batch.clone()).conform(&schema)?);
    let row = RowLimit::of_server(chunk_bytes_max);
    let job = Job { batch, rows: 0..rows, first_row: 0, recipes, may_continue: false, chunk_bytes_max, row };
    let mut out = vec![];
    job.encode_chunk(0..rows, &mut out)?;
    row.check(out.len() - HEADER_BYTES)?;
    Ok(out.split_off(HEADER_BYTES))
}

/// Reads what [`encode_one`] wrote.
pub(crate) fn decode_one(payload: Vec<u8>, schema: &SchemaRef, chunk_bytes_max: usize) -> Result<RecordBatch> {
    let chunk = receive(Buffer::from(payload), schema, chunk_bytes_max, &mut vec![])?;
    decode(&chunk, schema, Strings::Views, &SharedStates::new(), chunk_bytes_max)
}

const _: () = assert!(HEADER_BYTES.is_multiple_of(column::ALIGNMENT) && PIECE_BYTES.is_multiple_of(column::ALIGNMENT));
