//! Rows to be sent, as Arrow has them or as they are stored.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema};
use freestone_codec::{Chunk, CodecError, Shared, Texts};
use freestone_store::column::ColumnBuffer;
use freestone_store::plain::Strings;
use freestone_store::schema::kind;

use crate::chunk::{DECODED_RATIO, PARTS_MAX, ROWS_MAX, encode_error};
use crate::column::{self, Decoder, SharedState, SharedStates, Span};
use crate::error::{Result, WireError};
use crate::types::{is_text, wire_type};

/// Stored chunks of one row take at most so many times the largest frame; as frames stay at most half empty, these suffice.
const STORED_FRAMES: usize = PARTS_MAX / 2 - 2;

/// Chunks with stored columns have at least so many rows: their bodies may come in several frames, and fewer rows would be
/// many small arrays.
pub(crate) const STORED_ROWS: usize = 16 << 10;

/// Bytes that somebody else holds: of a page in a cache, say.
pub type Bytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Rows of some columns, each as Arrow has it or as it is stored.
#[derive(Debug, Clone)]
pub struct Batch {
    rows: usize,
    columns: Vec<Column>,
}

/// Bytes of a batch's rows: see [`Batch::bytes`].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BatchBytes {
    pub stored: usize,
    pub arrays: usize,
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

    /// Bytes of all rows: of stored columns as they are, and of others, about, as the plain form has them.
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

    /// Rows that take about so many bytes when they are decoded, as many as a chunk may have at most. Stored chunks are not cut
    /// into many pieces for it.
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

    /// The batch with as few columns decoded as leave room for the others' largest stored chunks beside each other, each in
    /// one frame: the largest first.
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

    /// Some of the rows, all as arrays.
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

fn array_bytes(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::Utf8View | DataType::BinaryView => column::strings::lengths(array).0 + array.len() * 2,
        DataType::Boolean => array.len() / 8,
        other => other.primitive_width().map_or_else(|| array.get_array_memory_size(), |w| w * array.len()),
    }
}

impl StoredColumn {
    /// About as many bytes has a string: those of the shared dictionary's entries, or what compresses well to what is stored.
    fn text_width(&self, rows: usize) -> usize {
        let stored = self.pieces.iter().map(|piece| piece.range.len()).sum::<usize>();
        let entries = self.shared.as_ref().and_then(|shared| shared.shared.dictionary_bytes());
        let entry = entries.map_or(0, |entries| entries.data.len() / entries.len().max(1));
        (4 * stored / rows.max(1)).max(entry)
    }

    /// What a piece takes of a frame: its bytes, or those in which the text that it decompresses to is allowed.
    fn weight(&self, piece: &StoredPiece) -> usize {
        let bytes = piece.bytes();
        if !is_text(&self.data_type) {
            return bytes.len();
        }
        // What cannot be read is found when it is decoded.
        let text_bytes = self.chunk(piece).map_or(usize::MAX, |chunk| chunk.block_bytes());
        bytes.len().max(text_bytes.div_ceil(DECODED_RATIO))
    }

    fn chunk<'p>(&'p self, piece: &'p StoredPiece) -> Result<Chunk<'p>, CodecError> {
        Chunk::parse(piece.bytes(), kind(&self.data_type), self.shared.as_ref().map(|shared| &shared.shared))
    }

    /// The chunks that hold some of `rows`: each with the row that its part begins at, and the rows that are meant.
    pub(crate) fn pieces_in(&self, rows: Range<usize>) -> impl Iterator<Item = (&StoredPiece, usize, Span)> {
        let mut at = 0;
        self.pieces.iter().filter_map(move |piece| {
            let start = at;
            at += piece.rows;
            let (from, to) = (rows.start.max(start), rows.end.min(at));
            (from < to).then(|| (piece, start, Span { skip: piece.skip + from - start, rows: to - from }))
        })
    }

    /// Whether some of the rows may be NULL: what cannot be read is found when it is decoded.
    pub(crate) fn may_be_null(&self, rows: &Range<usize>) -> bool {
        self.pieces_in(rows.clone()).any(|(piece, ..)| self.chunk(piece).map_or(true, |chunk| chunk.has_nulls()))
    }

    /// Some of the rows of column number `at`, as an array of those that batches have.
    fn decoded(&self, at: usize, rows: Range<usize>) -> Result<Column> {
        self.decode(rows, Strings::Views).map(Column::Arrow).map_err(encode_error(at))
    }

    /// An array of some of the rows.
    pub(crate) fn decode(&self, rows: Range<usize>, strings: Strings) -> Result<ArrayRef, String> {
        column::finish(self.buffer(rows, strings)?)
    }

    /// Some of the rows of a column of strings, and which are NULL.
    pub(crate) fn decode_texts(&self, rows: Range<usize>) -> Result<(Texts, Option<NullBuffer>), String> {
        self.buffer(rows, Strings::Plain)?.finish_texts()
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
