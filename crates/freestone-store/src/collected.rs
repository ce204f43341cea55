//! Rows that were collected to be encoded.
//!
//! Rows of a whole segment wait until they are encoded, and memory that was never touched before costs more than a
//! conversion. So waiting values have only the bytes that they need: integers as differences from the smallest one of
//! their batch, strings without views. A column gets its full width when it is encoded, and what waited is freed then.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteViewType;
use arrow_array::{Array, ArrayRef, GenericByteViewArray, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use freestone_codec::Kind;
use parking_lot::{Condvar, Mutex};

use crate::column::{ColumnData, Physical, append_ints};
use crate::nested::{self, is_encoded};
use crate::schema::TableSchema;
use crate::struct_fields::{Part, push_fields};

/// Rows of a table, as the columns that are stored.
#[derive(Debug)]
pub(crate) struct CollectedRows {
    columns: Vec<CollectedColumn>,
    bytes: usize,
    /// Memory for the integers of a batch in full width.
    wide: Vec<i64>,
}

impl CollectedRows {
    /// No rows, with columns of these kinds.
    pub fn new(kinds: &[Kind]) -> Self {
        CollectedRows {
            columns: kinds.iter().map(|kind| CollectedColumn::new(*kind)).collect(),
            bytes: 0,
            wide: vec![],
        }
    }

    /// The bytes of memory of all values.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds the rows of a batch with the table's columns. What follows them is stored as columns after those of the
    /// table.
    pub fn push(&mut self, schema: &TableSchema, batch: &RecordBatch) {
        for (column, part) in self.columns.iter_mut().zip(stored_parts(schema, batch)) {
            self.bytes += column.push(part, &mut self.wide);
        }
    }

    /// Removes all rows. They count as the backlog's until their columns are freed.
    pub fn take(&mut self, backlog: &Arc<Backlog>) -> Vec<CollectedColumn> {
        self.bytes = 0;
        let fresh = self.columns.iter().map(|column| CollectedColumn::new(column.kind)).collect();
        let mut taken = std::mem::replace(&mut self.columns, fresh);
        taken.iter_mut().for_each(|column| column.share = Some(backlog.share(column.bytes)));
        taken
    }
}

/// The arrays of the stored columns of a batch: those of the table, the fields of structs, and what follows the table's.
fn stored_parts(schema: &TableSchema, batch: &RecordBatch) -> Vec<Part> {
    let (own, others) = batch.columns().split_at(schema.columns.len());
    let mut parts: Vec<Part> = own.iter().map(|array| (array.clone(), None)).collect();
    own.iter().for_each(|array| push_fields(array, None, &mut parts));
    parts.extend(others.iter().map(|array| (array.clone(), None)));
    parts
}

/// A column of collected rows.
#[derive(Debug)]
pub(crate) struct CollectedColumn {
    kind: Kind,
    chunks: Vec<Chunk>,
    rows: usize,
    string_bytes: usize,
    /// The bytes of memory of the chunks.
    bytes: usize,
    share: Option<Share>,
}

/// The values of a batch.
#[derive(Debug)]
struct Chunk {
    values: ChunkValues,
    nulls: Option<NullBuffer>,
    rows: usize,
}

#[derive(Debug)]
enum ChunkValues {
    Ints(Narrow),
    Strings {
        lengths: Narrow,
        data: Vec<u8>,
    },
    /// Floats, and decimals of more than 18 digits.
    Array(ArrayRef),
    /// A column that has its full width already, with its validity.
    Whole(ColumnData),
}

impl CollectedColumn {
    fn new(kind: Kind) -> Self {
        CollectedColumn { kind, chunks: vec![], rows: 0, string_bytes: 0, bytes: 0, share: None }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// The bytes of the values in full width, as [`ColumnData::byte_size`].
    pub fn byte_size(&self) -> usize {
        match self.kind {
            Kind::Int | Kind::F64 => self.rows * 8,
            Kind::Wide => self.rows * 16,
            Kind::F32 => self.rows * 4,
            Kind::Bytes => (self.rows + 1) * 4 + self.string_bytes,
        }
    }

    /// Adds the rows of an array, and returns the bytes of memory that they take. `wide` is memory to work with.
    fn push(&mut self, (array, outer): Part, wide: &mut Vec<i64>) -> usize {
        let rows = array.len();
        let values = ChunkValues::of(&array, self.kind, wide);
        let nulls = NullBuffer::union(array.nulls(), outer.as_ref()).filter(|nulls| nulls.null_count() > 0);
        let (of_values, of_strings) = match &values {
            ChunkValues::Ints(ints) => (ints.bytes(), 0),
            ChunkValues::Strings { lengths, data } => (lengths.bytes() + data.len(), data.len()),
            ChunkValues::Array(array) => (array.len() * array.data_type().primitive_width().unwrap_or(16), 0),
            ChunkValues::Whole(column) => (column.byte_size(), 0),
        };
        let bytes = of_values + nulls.as_ref().map_or(0, |nulls| nulls.len() / 8);
        self.chunks.push(Chunk { values, nulls, rows });
        (self.rows, self.string_bytes, self.bytes) =
            (self.rows + rows, self.string_bytes + of_strings, self.bytes + bytes);
        bytes
    }

    /// The column in full width. Its rows are no longer part of a backlog.
    pub fn into_data(self) -> ColumnData {
        let mut chunks = self.chunks;
        if let [Chunk { values: ChunkValues::Whole(_), .. }] = &chunks[..]
            && let Some(Chunk { values: ChunkValues::Whole(column), .. }) = chunks.pop()
        {
            return column;
        }
        let mut column = ColumnData::with_capacity(self.kind, self.rows, self.string_bytes);
        // Each chunk is freed when it was copied.
        chunks.into_iter().for_each(|chunk| chunk.append_to(&mut column));
        column
    }
}

impl From<ColumnData> for CollectedColumn {
    fn from(column: ColumnData) -> Self {
        let string_bytes = match &column.values {
            Physical::Bytes { data, .. } => data.len(),
            _ => 0,
        };
        let (kind, rows, bytes) = (column.values().kind(), column.len(), column.byte_size());
        let chunks = vec![Chunk { values: ChunkValues::Whole(column), nulls: None, rows }];
        CollectedColumn { kind, chunks, rows, string_bytes, bytes, share: None }
    }
}

impl ChunkValues {
    fn of(array: &ArrayRef, kind: Kind, wide: &mut Vec<i64>) -> Self {
        wide.clear();
        match (kind, array.data_type()) {
            (Kind::Int, data_type) => {
                append_ints(wide, array.as_ref(), data_type);
                ChunkValues::Ints(Narrow::of(wide))
            }
            (Kind::Bytes, DataType::BinaryView) => of_views(array.as_binary_view(), wide),
            (Kind::Bytes, data_type) if is_encoded(data_type) => {
                let (mut offsets, mut data) = (vec![0], vec![]);
                nested::encode(array.as_ref(), &mut offsets, &mut data);
                wide.extend(offsets.windows(2).map(|ends| i64::from(ends[1] - ends[0])));
                ChunkValues::Strings { lengths: Narrow::of(wide), data }
            }
            (Kind::Bytes, _) => of_views(array.as_string_view(), wide),
            (Kind::Wide | Kind::F64 | Kind::F32, _) => ChunkValues::Array(array.clone()),
        }
    }
}

/// The bytes of a view for its string, if they are in the view itself.
const INLINE_BYTES: usize = 12;

/// The strings of views; those of NULL rows are empty. `lengths` is memory for their lengths.
fn of_views<T: ByteViewType>(array: &GenericByteViewArray<T>, lengths: &mut Vec<i64>) -> ChunkValues {
    let is_null = |row: usize| array.nulls().is_some_and(|nulls| nulls.is_null(row));
    let length = |(row, view): (usize, &u128)| if is_null(row) { 0 } else { i64::from(*view as u32) };
    lengths.extend(array.views().iter().enumerate().map(length));
    let total = lengths.iter().map(|length| *length as usize).sum();
    // A short string is copied with the bytes after it in its view: a copy of a fixed length is faster.
    let mut data = vec![0; total + size_of::<u128>()];
    let mut at = 0;
    for (row, (view, length)) in array.views().iter().zip(&*lengths).enumerate() {
        let length = *length as usize;
        if length <= INLINE_BYTES {
            data[at..at + size_of::<u128>()].copy_from_slice(&(view >> 32).to_le_bytes());
        } else {
            data[at..at + length].copy_from_slice(array.value(row).as_ref());
        }
        at += length;
    }
    data.truncate(total);
    ChunkValues::Strings { lengths: Narrow::of(lengths), data }
}

impl Chunk {
    fn append_to(self, column: &mut ColumnData) {
        let start = column.len();
        match (self.values, &mut column.values) {
            (ChunkValues::Ints(ints), Physical::Int(out)) => ints.append_to(out),
            (ChunkValues::Strings { lengths, data: more }, Physical::Bytes { offsets, data }) => {
                let mut end = data.len() as u32;
                data.extend_from_slice(&more);
                lengths.for_each(|length| {
                    end += length as u32;
                    offsets.push(end);
                });
            }
            (ChunkValues::Array(array), _) => {
                column.append_within(array.as_ref(), self.nulls.as_ref());
                return;
            }
            (ChunkValues::Whole(whole), _) => {
                debug_assert_eq!(start, 0, "a whole column is the only chunk");
                *column = whole;
                return;
            }
            (ChunkValues::Ints(_) | ChunkValues::Strings { .. }, _) => unreachable!("a column's kind never changes"),
        }
        column.append_validity(self.nulls.as_ref(), start, self.rows);
    }
}

/// Integers, as differences from the smallest in the narrowest type that has room for them.
#[derive(Debug)]
enum Narrow {
    Equal(i64, usize),
    U8(i64, Vec<u8>),
    U16(i64, Vec<u16>),
    U32(i64, Vec<u32>),
    I64(Vec<i64>),
}

impl Narrow {
    fn of(values: &[i64]) -> Narrow {
        let (low, high) = values.iter().fold((i64::MAX, i64::MIN), |(low, high), v| (low.min(*v), high.max(*v)));
        let differences = values.iter().map(|v| v.wrapping_sub(low));
        match high.wrapping_sub(low) as u64 {
            _ if values.is_empty() => Narrow::I64(vec![]),
            0 => Narrow::Equal(low, values.len()),
            1..0x100 => Narrow::U8(low, differences.map(|v| v as u8).collect()),
            0x100..0x1_0000 => Narrow::U16(low, differences.map(|v| v as u16).collect()),
            0x1_0000..0x1_0000_0000 => Narrow::U32(low, differences.map(|v| v as u32).collect()),
            _ => Narrow::I64(values.to_vec()),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Narrow::Equal(..) => 0,
            Narrow::U8(_, v) => v.len(),
            Narrow::U16(_, v) => v.len() * 2,
            Narrow::U32(_, v) => v.len() * 4,
            Narrow::I64(v) => v.len() * 8,
        }
    }

    fn append_to(&self, out: &mut Vec<i64>) {
        match self {
            Narrow::Equal(value, rows) => out.resize(out.len() + rows, *value),
            Narrow::U8(low, v) => out.extend(v.iter().map(|v| low.wrapping_add(i64::from(*v)))),
            Narrow::U16(low, v) => out.extend(v.iter().map(|v| low.wrapping_add(i64::from(*v)))),
            Narrow::U32(low, v) => out.extend(v.iter().map(|v| low.wrapping_add(i64::from(*v)))),
            Narrow::I64(v) => out.extend_from_slice(v),
        }
    }

    fn for_each(&self, mut f: impl FnMut(i64)) {
        match self {
            Narrow::Equal(value, rows) => (0..*rows).for_each(|_| f(*value)),
            Narrow::U8(low, v) => v.iter().for_each(|v| f(low.wrapping_add(i64::from(*v)))),
            Narrow::U16(low, v) => v.iter().for_each(|v| f(low.wrapping_add(i64::from(*v)))),
            Narrow::U32(low, v) => v.iter().for_each(|v| f(low.wrapping_add(i64::from(*v)))),
            Narrow::I64(v) => v.iter().for_each(|v| f(*v)),
        }
    }
}

/// The bytes of rows that another thread encodes.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    bytes: Mutex<usize>,
    shrunk: Condvar,
}

impl Backlog {
    /// Waits until there are at most `bytes_max` bytes.
    pub fn wait_for(&self, bytes_max: usize) {
        let mut bytes = self.bytes.lock();
        while *bytes > bytes_max {
            self.shrunk.wait(&mut bytes);
        }
    }

    #[cfg(test)]
    fn bytes(&self) -> usize {
        *self.bytes.lock()
    }

    fn share(self: &Arc<Self>, bytes: usize) -> Share {
        *self.bytes.lock() += bytes;
        Share { backlog: self.clone(), bytes }
    }
}

/// The bytes of a column in a backlog, until it is dropped.
#[derive(Debug)]
struct Share {
    backlog: Arc<Backlog>,
    bytes: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        *self.backlog.bytes.lock() -= self.bytes;
        self.backlog.shrunk.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use arrow_array::{
        BinaryViewArray, BooleanArray, Decimal128Array, Float64Array, Int64Array, ListArray, StringViewArray,
        StructArray, UInt64Array, types::Int32Type,
    };
    use arrow_schema::{Field, Fields};
    use proptest::prelude::*;

    use super::*;
    use crate::schema::{Column, kind};

    fn collected(schema: &TableSchema, batches: &[RecordBatch]) -> Vec<CollectedColumn> {
        let kinds: Vec<Kind> = (0..schema.stored_count()).map(|at| kind(schema.stored_type(at))).collect();
        let mut rows = CollectedRows::new(&kinds);
        batches.iter().for_each(|batch| rows.push(schema, batch));
        rows.take(&Arc::default())
    }

    fn batch_of(columns: Vec<(&'static str, ArrayRef)>) -> (TableSchema, RecordBatch) {
        let column = |(name, array): &(&str, ArrayRef)| Column {
            name: (*name).into(),
            data_type: array.data_type().clone(),
            nullable: true,
        };
        let schema = TableSchema { columns: columns.iter().map(column).collect(), ..TableSchema::default() };
        (schema, RecordBatch::try_from_iter(columns).unwrap())
    }

    /// Collected in batches that begin at `cuts`, a column is what it would be if its arrays were converted at once.
    fn check(array: ArrayRef, cuts: &[usize]) {
        let mut bounds: Vec<usize> = cuts.iter().map(|cut| cut % (array.len() + 1)).chain([0, array.len()]).collect();
        bounds.sort_unstable();
        let parts: Vec<ArrayRef> = bounds.windows(2).map(|two| array.slice(two[0], two[1] - two[0])).collect();
        let batches = parts.iter().map(|part| RecordBatch::try_from_iter([("a", part.clone())]).unwrap());
        let batches: Vec<RecordBatch> = batches.collect();
        let (schema, _) = batch_of(vec![("a", array.clone())]);
        let column = collected(&schema, &batches).remove(0);
        let expected = ColumnData::from_arrays(&parts, array.data_type());
        assert_eq!((column.len(), column.byte_size()), (array.len(), expected.byte_size()));
        assert_eq!(format!("{:?}", column.into_data()), format!("{expected:?}"));
    }

    fn number() -> impl Strategy<Value = Option<i64>> {
        // Differences of every width, and those that wrap.
        let near = |span: i64| (0..span).prop_map(|v| v - 3);
        prop::option::weighted(0.9, prop_oneof![Just(7), near(200), near(60_000), near(1 << 31), any::<i64>()])
    }

    proptest! {
        #[test]
        fn collecting_changes_no_number(
            wide in prop::collection::vec(number(), 1..60),
            narrow in prop::collection::vec(prop::option::weighted(0.9, 40i64..90), 1..60),
            cuts in prop::collection::vec(0usize..60, 0..4),
        ) {
            for values in [wide, narrow] {
                check(Arc::new(Int64Array::from(values.clone())), &cuts);
                let unsigned = values.iter().map(|v| v.map(|v| v as u64));
                check(Arc::new(UInt64Array::from_iter(unsigned)), &cuts);
                check(Arc::new(BooleanArray::from_iter(values.iter().map(|v| v.map(|v| v % 2 == 0)))), &cuts);
                check(Arc::new(Float64Array::from_iter(values.iter().map(|v| v.map(|v| v as f64 / 4.0)))), &cuts);
                for precision in [18, 30] {
                    let decimals = values.iter().map(|v| v.map(|v| i128::from(v % 1_000_000)));
                    let decimals = Decimal128Array::from_iter(decimals).with_precision_and_scale(precision, 2).unwrap();
                    check(Arc::new(decimals), &cuts);
                }
            }
        }

        #[test]
        fn collecting_changes_no_string(
            texts in prop::collection::vec(prop::option::weighted(0.9, "[ab]{0,14}|[a-zß]{11,40}"), 1..40),
            cuts in prop::collection::vec(0usize..40, 0..4),
        ) {
            check(Arc::new(StringViewArray::from_iter(texts.iter().map(Option::as_deref))), &cuts);
            check(Arc::new(BinaryViewArray::from_iter(texts.iter().map(|t| t.as_deref().map(str::as_bytes)))), &cuts);
        }
    }

    #[test]
    fn a_null_view_of_a_long_string_is_empty() {
        let text = StringViewArray::from_iter_values(["a string of more than twelve bytes", "b"]);
        let (views, buffers, _) = text.into_parts();
        let array = StringViewArray::new(views, buffers, Some(NullBuffer::from(vec![false, true])));
        check(Arc::new(array), &[]);
    }

    #[test]
    fn lists_and_fields_of_structs_are_columns() {
        let lists = [Some(vec![Some(1), None]), None, Some(vec![])];
        check(Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)), &[1]);
        let inner: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), None]));
        let fields = Fields::from(vec![Field::new("x", DataType::Int64, true)]);
        let nulls = Some(NullBuffer::from(vec![true, false, true]));
        let structs: ArrayRef = Arc::new(StructArray::new(fields, vec![inner], nulls));
        let (schema, batch) = batch_of(vec![("s", structs), ("n", Arc::new(Int64Array::from(vec![4, 5, 6])))]);
        let columns: Vec<ColumnData> =
            collected(&schema, &[batch]).into_iter().map(CollectedColumn::into_data).collect();
        let rows = |column: usize| (0..3).map(|row| columns[column].is_valid(row)).collect::<Vec<_>>();
        assert_eq!((columns.len(), rows(0), rows(1)), (3, vec![true, false, true], vec![true; 3]));
        assert_eq!(rows(2), [true, false, false], "a field is NULL where its struct is");
    }

    #[test]
    fn numbers_wait_in_few_bytes() {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(1 << 40..(1 << 40) + 200));
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..200).map(|_| "abc")));
        let (schema, batch) = batch_of(vec![("id", ids), ("t", texts)]);
        let mut rows = CollectedRows::new(&[Kind::Int, Kind::Bytes]);
        rows.push(&schema, &batch);
        assert_eq!(rows.bytes(), 200 + 600);
    }

    #[test]
    fn a_backlog_shrinks_as_columns_are_converted() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..200));
        let (schema, batch) = batch_of(vec![("a", numbers.clone()), ("b", numbers)]);
        let (mut rows, backlog) = (CollectedRows::new(&[Kind::Int, Kind::Int]), Arc::new(Backlog::default()));
        rows.push(&schema, &batch);
        let mut columns = rows.take(&backlog);
        assert_eq!((rows.bytes(), backlog.bytes()), (0, 400));
        backlog.wait_for(400);
        let waiting = {
            let backlog = backlog.clone();
            std::thread::spawn(move || backlog.wait_for(100))
        };
        drop(columns.remove(0).into_data());
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished(), "200 bytes are left");
        drop(columns);
        waiting.join().unwrap();
        assert_eq!(backlog.bytes(), 0);
        rows.push(&schema, &batch);
        assert_eq!(rows.take(&backlog)[0].len(), 200, "rows that come later are other ones");
    }
}
