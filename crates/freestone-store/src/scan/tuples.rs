//! Row-major output: blocks of fixed-width tuples, as the row stores of Holloway and DeWitt 2008 (section 5, blocks of
//! 100) and of Halverson et al. 2006 materialize them.
//!
//! ```text
//! tuple
//!      0    NULL bits, one per column, 1 = NULL, in as many bytes as they need
//!      …    per column its value, little endian in the width of its Arrow type (BOOLEAN: 1 byte);
//!           text and binary: 4 offset into the block's heap, 4 length
//! ```

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Schema};

/// The layout of a tuple.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TupleLayout {
    /// For each column, its offset in the tuple and its width, in bytes.
    columns: Vec<(usize, usize)>,
    /// The bytes of a tuple.
    width: usize,
}

/// Consecutive tuples.
#[derive(Debug, Clone, Default)]
pub struct TupleBlock {
    tuples: Vec<u8>,
    heap: Vec<u8>,
    rows: usize,
}

/// The bytes of a text or binary value in its tuple.
const REFERENCE: usize = 8;

impl TupleLayout {
    /// The layout of tuples with these columns.
    pub fn new(schema: &Schema) -> Self {
        let mut width = schema.fields().len().div_ceil(8);
        let mut columns = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            let own = match field.data_type() {
                DataType::Boolean => 1,
                t => t.primitive_width().unwrap_or(REFERENCE),
            };
            columns.push((width, own));
            width += own;
        }
        TupleLayout { columns, width }
    }

    /// The bytes of a tuple.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Divides a batch into blocks of `block_rows` tuples (the last may have fewer) and passes each to `take`. The
    /// block is reused, so that it stays in the processor's cache.
    pub fn for_each_block(
        &self,
        batch: &RecordBatch,
        block_rows: usize,
        block: &mut TupleBlock,
        mut take: impl FnMut(&TupleBlock),
    ) {
        for start in (0..batch.num_rows()).step_by(block_rows.max(1)) {
            let rows = block_rows.max(1).min(batch.num_rows() - start);
            block.rows = rows;
            block.heap.clear();
            block.tuples.clear();
            block.tuples.resize(rows * self.width, 0);
            for (at, array) in batch.columns().iter().enumerate() {
                self.put_column(at, array.slice(start, rows).as_ref(), block);
            }
            take(block);
        }
    }

    fn put_column(&self, at: usize, array: &dyn Array, block: &mut TupleBlock) {
        let (offset, width) = self.columns[at];
        if let Some(nulls) = array.nulls() {
            for row in (0..nulls.len()).filter(|row| nulls.is_null(*row)) {
                block.tuples[row * self.width + at / 8] |= 1 << (at % 8);
            }
        }
        match array.data_type() {
            DataType::Boolean => {
                let values = array.as_boolean();
                (0..values.len()).for_each(|row| block.tuples[row * self.width + offset] = values.value(row).into());
            }
            DataType::Utf8View => {
                let values = array.as_string_view();
                (0..values.len()).for_each(|row| self.put_bytes(row, offset, values.value(row).as_bytes(), block));
            }
            DataType::BinaryView => {
                let values = array.as_binary_view();
                (0..values.len()).for_each(|row| self.put_bytes(row, offset, values.value(row), block));
            }
            _ => {
                // All other stored types are primitive: one buffer of values with this width, starting at the slice's
                // offset.
                let data = array.to_data();
                let values = &data.buffers()[0][data.offset() * width..][..array.len() * width];
                match width {
                    1 => self.put_fixed::<1>(offset, values, block),
                    2 => self.put_fixed::<2>(offset, values, block),
                    4 => self.put_fixed::<4>(offset, values, block),
                    8 => self.put_fixed::<8>(offset, values, block),
                    _ => self.put_fixed::<16>(offset, values, block),
                }
            }
        }
    }

    fn put_fixed<const WIDTH: usize>(&self, offset: usize, values: &[u8], block: &mut TupleBlock) {
        let (values, _) = values.as_chunks::<WIDTH>();
        for (tuple, value) in block.tuples.chunks_exact_mut(self.width).zip(values) {
            tuple[offset..offset + WIDTH].copy_from_slice(value);
        }
    }

    fn put_bytes(&self, row: usize, offset: usize, value: &[u8], block: &mut TupleBlock) {
        let reference = &mut block.tuples[row * self.width + offset..][..REFERENCE];
        reference[..4].copy_from_slice(&(block.heap.len() as u32).to_le_bytes());
        reference[4..].copy_from_slice(&(value.len() as u32).to_le_bytes());
        block.heap.extend_from_slice(value);
    }

    /// The bytes of a column's value in a tuple of the block; `None` for NULL.
    pub fn value<'b>(&self, block: &'b TupleBlock, row: usize, column: usize) -> Option<&'b [u8]> {
        let tuple = &block.tuples[row * self.width..][..self.width];
        (tuple[column / 8] >> (column % 8) & 1 == 0).then(|| &tuple[self.columns[column].0..][..self.columns[column].1])
    }

    /// The text or binary value of a column in a tuple of the block; `None` for NULL.
    pub fn bytes<'b>(&self, block: &'b TupleBlock, row: usize, column: usize) -> Option<&'b [u8]> {
        let reference = self.value(block, row, column)?;
        let field =
            |at: usize| u32::from_le_bytes([reference[at], reference[at + 1], reference[at + 2], reference[at + 3]]);
        Some(&block.heap[field(0) as usize..][..field(4) as usize])
    }
}

impl TupleBlock {
    /// The number of tuples in the block.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// All tuples, of [`TupleLayout::width`] bytes each.
    pub fn tuples(&self) -> &[u8] {
        &self.tuples
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, BooleanArray, Decimal128Array, Int16Array, Int32Array, StringViewArray};
    use proptest::prelude::*;

    use super::*;

    type Row = (Option<i32>, Option<String>, Option<bool>, Option<i64>, i16);

    fn batch(rows: &[Row]) -> RecordBatch {
        let texts: StringViewArray = rows.iter().map(|r| r.1.as_deref()).collect();
        let decimals: Decimal128Array = rows.iter().map(|r| r.3.map(i128::from)).collect();
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("a", Arc::new(rows.iter().map(|r| r.0).collect::<Int32Array>())),
            ("b", Arc::new(texts)),
            ("c", Arc::new(rows.iter().map(|r| r.2).collect::<BooleanArray>())),
            ("d", Arc::new(decimals)),
            ("e", Arc::new(rows.iter().map(|r| r.4).collect::<Int16Array>())),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap()
    }

    fn read(layout: &TupleLayout, block: &TupleBlock, row: usize) -> Row {
        let fixed = |column| layout.value(block, row, column);
        (
            fixed(0).map(|v| i32::from_le_bytes(v.try_into().unwrap())),
            layout.bytes(block, row, 1).map(|v| String::from_utf8(v.to_vec()).unwrap()),
            fixed(2).map(|v| v[0] == 1),
            fixed(3).map(|v| i128::from_le_bytes(v.try_into().unwrap()) as i64),
            fixed(4).map(|v| i16::from_le_bytes(v.try_into().unwrap())).unwrap(),
        )
    }

    proptest! {
        #[test]
        fn blocks_hold_the_rows_of_the_batch(
            rows in prop::collection::vec(
                (any::<Option<i32>>(), prop::option::of(".{0,20}"), any::<Option<bool>>(), any::<Option<i64>>(), any::<i16>()),
                1..60,
            ),
            skip in 0usize..5,
            block_rows in 1usize..30,
        ) {
            let skip = skip.min(rows.len() - 1);
            let batch = batch(&rows).slice(skip, rows.len() - skip);
            let layout = TupleLayout::new(&batch.schema());
            let mut found = vec![];
            layout.for_each_block(&batch, block_rows, &mut TupleBlock::default(), |block| {
                assert!(block.rows() <= block_rows && block.tuples().len() == block.rows() * layout.width());
                found.extend((0..block.rows()).map(|row| read(&layout, block, row)));
            });
            prop_assert_eq!(&found[..], &rows[skip..]);
        }
    }
}
