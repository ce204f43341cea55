//! The bytes of a block: where the header, the bitmaps, the bounds and the mini pages of a table's columns are (Götze,
//! Baumann and Sattler 2018, section IV.C).
//!
//! ```text
//!   0         header of the unit; its values are the smallest key of the block
//!  64         validity: a bit per slot that holds a row
//!             bounds: for each column, the smallest and the largest order prefix of its values
//!             NULLs: for each nullable column, a bit per slot whose value is NULL
//!             mini pages: for each column, its values; of a string, its offset in the block and its length
//!             strings, from the end of the block downwards
//! ```

use arrow_schema::DataType;
use freestone_codec::Kind;

use super::super::pool::HEADER_BYTES;
use crate::error::{Result, StoreError};
use crate::schema::{TableSchema, kind, type_name};

/// Bytes that a string takes on average, for the number of slots.
pub const STRING_BYTES: u64 = 16;
/// The mini pages begin at multiples of this.
const MINI_PAGE_ALIGNMENT: u64 = 16;
/// Slots of a block, at most: with one more they are the rows that a scan takes at a time.
const SLOTS_MAX: usize = crate::limits::GRANULE_ROWS - 1;

/// Where a column is in each block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnPlace {
    /// What the values are.
    pub kind: Kind,
    /// Bytes of a value in its mini page.
    pub width: u32,
    /// Whether integers narrower than 8 bytes have a sign.
    pub is_signed: bool,
    /// The offset of the bounds.
    pub bounds: u64,
    /// The offset of the bitmap of NULLs.
    pub nulls: Option<u64>,
    /// The offset of the mini page.
    pub values: u64,
}

/// The layout of a table's blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of a block.
    pub bytes: u64,
    /// The number of slots.
    pub slots: usize,
    /// Words of a bitmap.
    pub words: usize,
    /// The columns.
    pub columns: Vec<ColumnPlace>,
    /// Where strings may begin.
    pub heap: u64,
}

impl Geometry {
    /// As many slots as fit into `bytes` with their strings of average length.
    ///
    /// # Errors
    /// Not even a few rows fit, or a column is a struct.
    pub fn new(schema: &TableSchema, bytes: u64) -> Result<Geometry> {
        if let Some(column) = schema.columns.iter().find(|column| matches!(column.data_type, DataType::Struct(_))) {
            return Err(StoreError::invalid(format!(
                "column {} is a struct, which tables in persistent memory cannot have; make its fields columns",
                column.name
            )));
        }
        let strings = schema.columns.iter().filter(|column| kind(&column.data_type) == Kind::Bytes).count() as u64;
        let end = |slots: usize| Geometry::of(schema, bytes, slots).heap + slots as u64 * strings * STRING_BYTES;
        let (mut low, mut high) = (0, SLOTS_MAX);
        while low < high {
            let middle = (low + high).div_ceil(2);
            if end(middle) <= bytes { low = middle } else { high = middle - 1 }
        }
        if low < 2 {
            let columns = schema.columns.len();
            return Err(StoreError::invalid(format!(
                "a block of {bytes} bytes has no room for rows of {columns} columns; choose a larger page_size"
            )));
        }
        Ok(Geometry::of(schema, bytes, low))
    }

    /// The layout with this number of slots.
    pub fn of(schema: &TableSchema, bytes: u64, slots: usize) -> Geometry {
        let words = slots.div_ceil(64);
        let bitmap = words as u64 * 8;
        let mut bounds = HEADER_BYTES + bitmap;
        let mut nulls = bounds + schema.columns.len() as u64 * 16;
        let nullable = schema.columns.iter().filter(|column| column.nullable).count() as u64;
        let mut values = nulls + nullable * bitmap;
        let mut columns = vec![];
        for column in &schema.columns {
            let width = width(&column.data_type);
            values = values.next_multiple_of(MINI_PAGE_ALIGNMENT);
            columns.push(ColumnPlace {
                kind: kind(&column.data_type),
                width,
                is_signed: is_signed(&column.data_type),
                bounds,
                nulls: column.nullable.then_some(nulls),
                values,
            });
            bounds += 16;
            nulls += if column.nullable { bitmap } else { 0 };
            values += slots as u64 * u64::from(width);
        }
        Geometry { bytes, slots, words, columns, heap: values.next_multiple_of(8) }
    }

    /// The offset of the validity word with a slot within its block, and the slot's bit.
    pub fn bit(&self, slot: usize) -> (u64, u64) {
        (HEADER_BYTES + slot as u64 / 64 * 8, 1 << (slot % 64))
    }
}

impl ColumnPlace {
    /// The offset of a value within its block.
    pub fn value(&self, slot: usize) -> u64 {
        self.values + slot as u64 * u64::from(self.width)
    }

    /// Whether an integer fits into the column's width.
    pub fn holds(&self, value: i64) -> bool {
        let bits = self.width * 8;
        match self.is_signed {
            _ if bits >= 64 => true,
            true => (-1 << (bits - 1)..1 << (bits - 1)).contains(&value),
            false => (0..1 << bits).contains(&value),
        }
    }

    /// The offset of the word of NULLs with a slot, and the slot's bit.
    pub fn null(&self, slot: usize) -> Option<(u64, u64)> {
        self.nulls.map(|nulls| (nulls + slot as u64 / 64 * 8, 1 << (slot % 64)))
    }
}

/// Bytes of a value of a stored type. Strings are an offset and a length.
fn width(data_type: &DataType) -> u32 {
    use DataType::*;
    match data_type {
        Boolean | Int8 | UInt8 => 1,
        Int16 | UInt16 => 2,
        Int32 | UInt32 | Date32 | Time32(_) | Float32 => 4,
        other if kind(other) == Kind::Wide => 16,
        _ => 8,
    }
}

fn is_signed(data_type: &DataType) -> bool {
    !matches!(type_name(data_type).as_str(), "boolean" | "uint8" | "uint16" | "uint32")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Column;

    fn schema(types: &[(DataType, bool)]) -> TableSchema {
        let column = |(at, (data_type, nullable)): (usize, &(DataType, bool))| Column {
            name: format!("c{at}"),
            data_type: data_type.clone(),
            nullable: *nullable,
        };
        TableSchema { columns: types.iter().enumerate().map(column).collect(), ..TableSchema::default() }
    }

    #[test]
    fn parts_do_not_overlap_and_fill_the_block() {
        use DataType::*;
        let types = [(Int32, false), (Boolean, true), (Utf8View, true), (Decimal128(38, 2), false), (Int16, true)];
        for bytes in [4096, 32_768, 262_144, 1 << 20] {
            let geometry = Geometry::new(&schema(&types), bytes).expect("rows fit");
            let mut parts = vec![(0, HEADER_BYTES + geometry.words as u64 * 8)];
            for column in &geometry.columns {
                parts.push((column.bounds, 16));
                parts.extend(column.nulls.map(|nulls| (nulls, geometry.words as u64 * 8)));
                parts.push((column.values, geometry.slots as u64 * u64::from(column.width)));
            }
            parts.sort_unstable();
            assert!(parts.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{parts:?}");
            let (last, len) = parts[parts.len() - 1];
            assert!(last + len <= geometry.heap);
            let used = geometry.heap + geometry.slots as u64 * STRING_BYTES;
            assert!(used <= bytes && (bytes - used < 128 || geometry.slots == SLOTS_MAX), "{used} of {bytes}");
        }
        let holds = |data_type, value| {
            Geometry::new(&schema(&[(data_type, true)]), 4096).expect("fits").columns[0].holds(value)
        };
        for (value, expected) in [(-129, false), (-128, true), (127, true), (128, false)] {
            assert_eq!(holds(Int8, value), expected, "{value}");
        }
        assert!(holds(UInt16, 65_535) && !holds(UInt16, 65_536) && !holds(UInt16, -1) && holds(Int64, i64::MIN));
        let wide: Vec<_> = (0..200).map(|_| (Int64, true)).collect();
        assert!(Geometry::new(&schema(&wide), 4096).expect_err("no room").to_string().contains("page_size"));
    }
}
