//! Rows to be sent, in Arrow's layout or in stored form.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema};
use freestone_codec::{Chunk, CodecError, OffsetStrings, Shared};
use freestone_store::column::ColumnBuffer;
use freestone_store::plain::Strings;
use freestone_store::schema::kind;

use crate::column::{self, Decoder, SharedState, SharedStates, Span};
use crate::error::{Result, WireError, encode_error};
use crate::limits::{DECODED_RATIO, PARTS_MAX, ROWS_MAX};
use crate::types::{is_text, wire_type};

/// Stored chunks of one row take at most this many times the largest frame. Since frames are at least half full, they
/// suffice.
const STORED_FRAMES: usize = PARTS_MAX / 2 - 2;

/// Chunks with stored columns have at least this many rows: their bodies may be in several frames, and fewer rows would
/// be many small arrays.
pub(crate) const STORED_ROWS: usize = 16 << 10;

/// Bytes that another owner holds, for example a page in a cache.
pub type Bytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Rows of some columns, each in Arrow's layout or in stored form.
#[derive(Debug, Clone)]
pub struct Batch {
    rows: usize,
    columns: Vec<Column>,
}

/// The bytes of a batch's rows; see [`Batch::bytes`].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BatchBytes {
    pub stored: usize,
    pub arrays: usize,
}

/// A column of a [`Batch`].
#[derive(Debug, Clone)]
pub enum Column {
    /// An array with one element per row of the batch.
    Arrow(ArrayRef),
    /// Chunks in stored form, with the rows of the batch.
    Stored(StoredColumn),
}

/// Consecutive rows of a column in its stored form.
#[derive(Debug, Clone)]
pub struct StoredColumn {
    /// The type of the values, which must be one that can be stored.
    pub data_type: DataType,
    /// The shared state to which its chunks refer, if they do.
    pub shared: Option<StoredShared>,
    /// The rows, chunk by chunk.
    pub pieces: Vec<StoredPiece>,
}

/// A segment's dictionary or symbol table of one column.
#[derive(Debug, Clone)]
pub struct StoredShared {
    /// Identifies it among all shared states of a result, so that it is sent once.
    pub key: u64,
    /// The dictionary or symbol table.
    pub shared: Shared,
}

/// Rows of one stored chunk.
#[derive(Clone)]
pub struct StoredPiece {
    /// The owner of the bytes.
    pub owner: Bytes,
    /// The range of the chunk in the owner's bytes.
    pub range: Range<usize>,
    /// The number of rows of the chunk to skip.
    pub skip: usize,
    /// The number of rows after the skipped ones.
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
    /// A batch of columns with `rows` rows each.
    ///
    /// # Errors
    /// A column has another number of rows.
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

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Whether any column is in stored form.
    pub(crate) fn has_stored(&self) -> bool {
        self.columns.iter().any(|column| matches!(column, Column::Stored(_)))
    }

    /// The batch with the types in which the columns of a result with `schema` are sent.
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

    /// The bytes of all rows: exact for stored columns, and approximately those of the plain form for others.
    pub(crate) fn bytes(&self) -> BatchBytes {
        let mut bytes = BatchBytes::default();
        for column in &self.columns {
            match column {
                Column::Stored(stored) => {
                    bytes.stored += stored.pieces.iter().map(|piece| piece.range.len()).sum::<usize>();
                }
                Column::Arrow(array) => bytes.arrays += array_bytes(array),
            }
        }
        bytes
    }

    /// The number of rows that take about `bytes` when decoded, up to the maximum of a chunk. Stored chunks are not
    /// divided into many pieces for this.
    pub(crate) fn rows_within(&self, bytes: usize, chunk_bytes_max: usize) -> usize {
        let width = |column: &Column| match column {
            Column::Arrow(array) => array_bytes(array) / self.rows.max(1),
            Column::Stored(stored) => match stored.data_type.primitive_width() {
                Some(width) => width,
                None => 16 + stored.text_width(self.rows),
            },
        };
        let width = self.columns.iter().map(width).sum::<usize>().max(1);
        let rows_max = ROWS_MAX.min(chunk_bytes_max.saturating_mul(DECODED_RATIO / 2) / width);
        (bytes / width).max(STORED_ROWS).clamp(1, rows_max.max(1))
    }

    /// The batch with as few columns decoded as possible, so that the largest stored chunks of the others fit, each in
    /// one frame. The largest are decoded first.
    pub(crate) fn decoded_to_fit(self, frame_bytes_max: usize) -> Result<Self> {
        let most = |column: &Column| match column {
            Column::Stored(stored) => stored.pieces.iter().map(|piece| stored.weight(piece)).max().unwrap_or(0),
            Column::Arrow(_) => 0,
        };
        let mut order: Vec<(usize, usize)> = self.columns.iter().map(most).enumerate().map(|(at, n)| (n, at)).collect();
        order.sort_unstable();
        let mut left = frame_bytes_max.saturating_mul(STORED_FRAMES);
        let mut fits = vec![false; self.columns.len()];
        for (bytes, at) in order {
            fits[at] = bytes <= left.min(frame_bytes_max);
            left = left.saturating_sub(bytes + column::ALIGNMENT);
        }
        self.decoded_but(|at| fits[at])
    }

    /// Some of the rows, as arrays.
    pub(crate) fn decoded_rows(&self, rows: Range<usize>) -> Result<Self> {
        let columns = self.columns.iter().enumerate().map(|(at, column)| match column {
            Column::Arrow(array) => Ok(Column::Arrow(array.slice(rows.start, rows.len()))),
            Column::Stored(stored) => stored.decoded(at, rows.clone()),
        });
        Ok(Self { rows: rows.len(), columns: columns.collect::<Result<_>>()? })
    }

    /// The batch with all stored columns decoded.
    pub(crate) fn decoded(self) -> Result<Self> {
        self.decoded_rows(0..self.rows)
    }

    fn decoded_but(self, stays: impl Fn(usize) -> bool) -> Result<Self> {
        let columns = self.columns.into_iter().enumerate().map(|(at, column)| match column {
            Column::Stored(stored) if !stays(at) => stored.decoded(at, 0..self.rows),
            other => Ok(other),
        });
        Ok(Self { rows: self.rows, columns: columns.collect::<Result<_>>()? })
    }

    /// For each column, whether its first stored chunk is the last of `before`.
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

fn array_bytes(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::Utf8View | DataType::BinaryView => column::strings::lengths(array).0 + array.len() * 2,
        DataType::Boolean => array.len() / 8,
        other => other.primitive_width().map_or_else(|| array.get_array_memory_size(), |w| w * array.len()),
    }
}

impl StoredColumn {
    /// The approximate bytes per string: from the entries of the shared dictionary, or assuming that the stored bytes
    /// are well compressed.
    fn text_width(&self, rows: usize) -> usize {
        let stored = self.pieces.iter().map(|piece| piece.range.len()).sum::<usize>();
        let entries = self.shared.as_ref().and_then(|shared| shared.shared.dictionary_bytes());
        let entry = entries.map_or(0, |entries| entries.data.len() / entries.len().max(1));
        (4 * stored / rows.max(1)).max(entry)
    }

    /// The share of a frame that a piece takes: its bytes, or the bytes that allow its decompressed text.
    fn weight(&self, piece: &StoredPiece) -> usize {
        let bytes = piece.bytes();
        if !is_text(&self.data_type) {
            return bytes.len();
        }
        // Unreadable chunks are found when they are decoded.
        let text_bytes = self.chunk(piece).map_or(usize::MAX, |chunk| chunk.block_bytes());
        bytes.len().max(text_bytes.div_ceil(DECODED_RATIO))
    }

    fn chunk<'p>(&'p self, piece: &'p StoredPiece) -> Result<Chunk<'p>, CodecError> {
        Chunk::parse(piece.bytes(), kind(&self.data_type), self.shared.as_ref().map(|shared| &shared.shared))
    }

    /// The chunks with some of `rows`: each with the row at which its part begins, and its range of rows.
    pub(crate) fn pieces_in(&self, rows: Range<usize>) -> impl Iterator<Item = (&StoredPiece, usize, Span)> {
        let mut at = 0;
        self.pieces.iter().filter_map(move |piece| {
            let start = at;
            at += piece.rows;
            let (from, to) = (rows.start.max(start), rows.end.min(at));
            (from < to).then(|| (piece, start, Span { skip: piece.skip + from - start, rows: to - from }))
        })
    }

    /// Whether some of the rows may be NULL. Unreadable chunks are found when they are decoded.
    pub(crate) fn may_be_null(&self, rows: &Range<usize>) -> bool {
        self.pieces_in(rows.clone()).any(|(piece, ..)| self.chunk(piece).map_or(true, |chunk| chunk.has_nulls()))
    }

    /// Some of the rows of column `at`, as an array.
    fn decoded(&self, at: usize, rows: Range<usize>) -> Result<Column> {
        self.decode(rows, Strings::Views).map(Column::Arrow).map_err(encode_error(at))
    }

    /// Some of the rows, as an array.
    pub(crate) fn decode(&self, rows: Range<usize>, strings: Strings) -> Result<ArrayRef, String> {
        column::finish(self.buffer(rows, strings)?)
    }

    /// Some of the rows of a string column, and which are NULL.
    pub(crate) fn decode_strings(&self, rows: Range<usize>) -> Result<(OffsetStrings, Option<NullBuffer>), String> {
        self.buffer(rows, Strings::Plain)?.finish_strings()
    }

    fn buffer(&self, rows: Range<usize>, strings: Strings) -> Result<ColumnBuffer, String> {
        let mut states = SharedStates::new();
        let shared = u32::from(self.shared.is_some());
        states.extend(self.shared.iter().map(|s| (1, SharedState::Codec(s.shared.clone()))));
        let mut column = ColumnBuffer::with_capacity(&strings.data_type(&self.data_type), rows.len());
        let mut decoder = Decoder::new(&states, usize::MAX);
        for (piece, _, span) in self.pieces_in(rows) {
            column::append_chunk(piece.bytes(), shared, span, &self.data_type, &mut decoder, &mut column)?;
        }
        Ok(column)
    }
}
