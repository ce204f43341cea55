//! Slotted pages, the baseline. Each tuple has a slot and a 16-byte header (as in Shore; Halverson et al. 2006, section
//! 3.3.2). Values have their type's natural width.
//!
//! ```text
//! offset size field
//!      0    2 columns
//!      2    2 bytes of the fixed part
//!      4      tuples, consecutive
//!    end      slots, growing from the end of the payload: 4 bytes each, the offset of the tuple
//! tuple
//!      0    4 length of the tuple
//!      4    4 row in the segment
//!      8    2 bytes of the NULL bitmap
//!     10    6 zero
//!     16      NULL bitmap: bit i of byte i / 8 is set when column i is NULL
//!             fixed part: numbers little-endian; strings as 4 bytes, the end of the string in the variable part
//!             variable part: the strings
//! ```

use arrow_schema::DataType;
use freestone_codec::{IntTarget, Kind, Predicate, Rows};

use super::field::{self, FieldSource};
use super::whole_bytes;
use crate::bitmap;
use crate::column::{ColumnData, Physical};
use crate::schema::kind;

const TUPLE_HEADER: usize = 16;

/// The representation of a type in the fixed part.
#[derive(Debug, Clone, Copy)]
struct Fixed {
    kind: Kind,
    bytes: usize,
    signed: bool,
    at: usize,
}

/// The fixed part of a group's tuples, which is the same on every page.
#[derive(Debug)]
pub struct SlottedSchema {
    fields: Vec<Fixed>,
    fixed_bytes: usize,
}

impl SlottedSchema {
    /// The fixed part of tuples with these types.
    pub fn new<'a>(types: impl IntoIterator<Item = &'a DataType>) -> Self {
        let mut at = 0;
        let fields = types.into_iter().map(|data_type| {
            let (kind, bytes) = (kind(data_type), whole_bytes(data_type));
            let signed = !data_type.is_unsigned_integer() || *data_type == DataType::UInt64;
            at += bytes;
            Fixed { kind, bytes, signed, at: at - bytes }
        });
        let fields = fields.collect();
        SlottedSchema { fields, fixed_bytes: at }
    }

    /// Appends the payload of a page with rows `start .. start + rows`.
    pub fn encode(&self, columns: &[&ColumnData], start: usize, rows: usize, out: &mut Vec<u8>) {
        let base = out.len();
        let bitmap_bytes = columns.len().div_ceil(8);
        out.extend_from_slice(&(columns.len() as u16).to_le_bytes());
        out.extend_from_slice(&(self.fixed_bytes as u16).to_le_bytes());
        let mut slots = Vec::with_capacity(rows);
        for row in start..start + rows {
            let tuple = out.len();
            slots.push((tuple - base) as u32);
            out.resize(tuple + TUPLE_HEADER + bitmap_bytes + self.fixed_bytes, 0);
            out[tuple + 4..tuple + 8].copy_from_slice(&(row as u32).to_le_bytes());
            out[tuple + 8..tuple + 10].copy_from_slice(&(bitmap_bytes as u16).to_le_bytes());
            let variable = out.len();
            for (at, (column, fixed)) in columns.iter().zip(&self.fields).enumerate() {
                let to = tuple + TUPLE_HEADER + bitmap_bytes + fixed.at;
                if !column.is_valid(row) {
                    out[tuple + TUPLE_HEADER + at / 8] |= 1 << (at % 8);
                } else if let Physical::Bytes { offsets, data } = &column.values {
                    out.extend_from_slice(&data[offsets[row] as usize..offsets[row + 1] as usize]);
                } else {
                    out[to..to + fixed.bytes].copy_from_slice(&fixed_bytes(column, row)[..fixed.bytes]);
                }
                if fixed.kind == Kind::Bytes {
                    let end = (out.len() - variable) as u32;
                    out[to..to + 4].copy_from_slice(&end.to_le_bytes());
                }
            }
            let length = (out.len() - tuple) as u32;
            out[tuple..tuple + 4].copy_from_slice(&length.to_le_bytes());
        }
        slots.iter().rev().for_each(|slot| out.extend_from_slice(&slot.to_le_bytes()));
    }
}

fn fixed_bytes(column: &ColumnData, row: usize) -> [u8; 16] {
    let mut bytes = [0; 16];
    match &column.values {
        Physical::Int(v) => bytes[..8].copy_from_slice(&v[row].to_le_bytes()),
        Physical::Wide(v) => bytes.copy_from_slice(&v[row].to_le_bytes()),
        Physical::F64(v) => bytes[..8].copy_from_slice(&v[row].to_le_bytes()),
        Physical::F32(v) => bytes[..4].copy_from_slice(&v[row].to_le_bytes()),
        Physical::Bytes { .. } => {}
    }
    bytes
}

/// A parsed slotted page. Every tuple was checked to lie within the page.
#[derive(Debug)]
pub struct SlottedLayout {
    fields: Vec<Fixed>,
    bitmap_bytes: usize,
    fixed_bytes: usize,
    /// The start and end of each tuple.
    tuples: Vec<(u32, u32)>,
    /// The union of the NULL bitmaps of all tuples: columns without a bit here have no NULLs on this page.
    nulls: Vec<u8>,
}

impl SlottedLayout {
    /// The approximate bytes of memory that the layout has allocated.
    pub fn heap_bytes(&self) -> usize {
        size_of_val(&self.fields[..]) + size_of_val(&self.tuples[..]) + self.nulls.len()
    }

    /// Parses and checks a page of `rows` rows.
    ///
    /// # Errors
    /// The reason why the payload is not valid.
    pub fn parse(payload: &[u8], rows: usize, schema: &SlottedSchema) -> Result<Self, String> {
        let columns = schema.fields.len();
        let bitmap_bytes = columns.div_ceil(8);
        let least = TUPLE_HEADER + bitmap_bytes + schema.fixed_bytes;
        let slots_at =
            payload.len().checked_sub(rows * 4).filter(|at| *at >= 4).ok_or("the slots do not fit the page")?;
        if payload[..4] != [(columns as u16).to_le_bytes(), (schema.fixed_bytes as u16).to_le_bytes()].concat()[..] {
            return Err("the tuples are not those of this group".into());
        }
        let word =
            |at: usize| u32::from_le_bytes([payload[at], payload[at + 1], payload[at + 2], payload[at + 3]]) as usize;
        let (mut tuples, mut nulls) = (Vec::with_capacity(rows), vec![0; bitmap_bytes]);
        for row in 0..rows {
            let start = word(payload.len() - 4 * (row + 1));
            let fits = start >= 4 && start + least <= slots_at;
            let end = if fits { start + word(start) } else { 0 };
            if !fits || end > slots_at || end < start + least {
                return Err(format!("tuple {row} does not lie within the page"));
            }
            tuples.push((start as u32, end as u32));
            let bitmap = &payload[start + TUPLE_HEADER..][..bitmap_bytes];
            nulls.iter_mut().zip(bitmap).for_each(|(all, one)| *all |= one);
        }
        let (fields, fixed_bytes) = (schema.fields.clone(), schema.fixed_bytes);
        Ok(SlottedLayout { fields, bitmap_bytes, fixed_bytes, tuples, nulls })
    }

    /// The number of rows of the page.
    pub fn rows(&self) -> usize {
        self.tuples.len()
    }

    /// Prefetches the fixed part of a value, and its NULL bit if it will be read.
    #[inline]
    fn ahead(&self, payload: &[u8], column: usize, row: usize) {
        let tuple = self.tuples[row].0 as usize + TUPLE_HEADER;
        field::prefetch(payload, tuple + self.bitmap_bytes + self.fields[column].at);
        if self.has_nulls(column) {
            field::prefetch(payload, tuple + column / 8);
        }
    }

    fn is_null(&self, payload: &[u8], column: usize, row: usize) -> bool {
        payload[self.tuples[row].0 as usize + TUPLE_HEADER + column / 8] >> (column % 8) & 1 == 1
    }

    fn fixed<'a>(&self, payload: &'a [u8], at: usize, row: usize, bytes: usize) -> &'a [u8] {
        let from = self.tuples[row].0 as usize + TUPLE_HEADER + self.bitmap_bytes + at;
        &payload[from..from + bytes]
    }

    /// The stored bits of a number, sign-extended if the type is signed.
    #[inline]
    fn number(&self, payload: &[u8], column: usize, row: usize) -> i128 {
        let field = self.fields[column];
        let bytes = self.fixed(payload, field.at, row, field.bytes);
        match (bytes, field.signed) {
            ([a], true) => i128::from(*a as i8),
            ([a], false) => i128::from(*a),
            ([a, b], true) => i128::from(i16::from_le_bytes([*a, *b])),
            ([a, b], false) => i128::from(u16::from_le_bytes([*a, *b])),
            ([a, b, c, d], true) => i128::from(i32::from_le_bytes([*a, *b, *c, *d])),
            ([a, b, c, d], false) => i128::from(u32::from_le_bytes([*a, *b, *c, *d])),
            (eight, _) if eight.len() == 8 => i128::from(i64::from_le_bytes(eight.try_into().expect("8 bytes"))),
            (sixteen, _) => i128::from_le_bytes(sixteen.try_into().expect("a field has 1, 2, 4, 8 or 16 bytes")),
        }
    }

    /// The value that predicates test; floats by their order keys.
    fn key(&self, payload: &[u8], column: usize, row: usize) -> i128 {
        let value = self.number(payload, column, row);
        match self.fields[column].kind {
            Kind::F64 => freestone_codec::f64_key(f64::from_bits(value as u64)).into(),
            Kind::F32 => freestone_codec::f32_key(f32::from_bits(value as u32)).into(),
            _ => value,
        }
    }

    fn string<'a>(&self, payload: &'a [u8], column: usize, row: usize) -> Result<&'a [u8], String> {
        let end_of =
            |at: usize| u32::from_le_bytes(self.fixed(payload, at, row, 4).try_into().expect("4 bytes")) as usize;
        let before = self.fields[..column].iter().rev().find(|f| f.kind == Kind::Bytes);
        let start = before.map_or(0, |f| end_of(f.at));
        let end = end_of(self.fields[column].at);
        let (tuple, tuple_end) = self.tuples[row];
        let variable = tuple as usize + TUPLE_HEADER + self.bitmap_bytes + self.fixed_bytes;
        if start > end || variable + end > tuple_end as usize {
            return Err(format!("a string of tuple {row} does not lie within it"));
        }
        Ok(&payload[variable + start..variable + end])
    }

    /// Appends the integers of `rows`.
    pub fn ints<T: IntTarget>(&self, payload: &[u8], column: usize, rows: Rows<'_>, out: &mut Vec<T>) {
        let ahead = |row| self.ahead(payload, column, row);
        field::for_rows_ahead(rows, ahead, |_, row| out.push(T::from_i128(self.number(payload, column, row))));
    }

    /// Calls `f(bits)` with the stored bits of a float.
    pub fn for_float_bits(&self, payload: &[u8], column: usize, rows: Rows<'_>, mut f: impl FnMut(u64)) {
        let ahead = |row| self.ahead(payload, column, row);
        field::for_rows_ahead(rows, ahead, |_, row| f(self.number(payload, column, row) as u64));
    }

    /// Calls `f` with the bytes of each string of `rows`.
    ///
    /// # Errors
    /// The error of `f`.
    pub fn for_bytes<'a>(
        &self,
        payload: &'a [u8],
        column: usize,
        rows: Rows<'_>,
        mut f: impl FnMut(usize, &'a [u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        let (mut result, ahead) = (Ok(()), |row| self.ahead(payload, column, row));
        field::for_rows_ahead(rows, ahead, |i, row| {
            if result.is_ok() {
                result = self.string(payload, column, row).and_then(|bytes| f(i, bytes));
            }
        });
        result
    }

    /// Whether a column has NULLs on this page.
    #[inline]
    pub fn has_nulls(&self, column: usize) -> bool {
        self.nulls[column / 8] >> (column % 8) & 1 == 1
    }

    /// Sets bit `at + i` of the zeroed `out` if the `i`-th of `rows` is not NULL.
    pub fn validity(&self, payload: &[u8], column: usize, rows: Rows<'_>, out: &mut [u64], at: usize) {
        field::for_rows(rows, |i, row| {
            if !self.is_null(payload, column, row) {
                bitmap::set(out, at + i);
            }
        });
    }

    /// Clears the bits of rows that do not satisfy `predicate`. Bit 0 of `selection` is row `start`.
    ///
    /// # Errors
    /// The predicate is of another kind than the column.
    pub fn filter(
        &self,
        payload: &[u8],
        column: usize,
        predicate: &Predicate,
        (start, len): (usize, usize),
        selection: &mut [u64],
    ) -> Result<(), String> {
        let has_nulls = self.has_nulls(column);
        let is_null = |i: usize| has_nulls && self.is_null(payload, column, start + i);
        let ahead = |i: usize| self.ahead(payload, column, start + i);
        match predicate {
            Predicate::IsNull => field::retain_ahead(selection, len, ahead, is_null),
            Predicate::IsNotNull => field::retain_ahead(selection, len, ahead, |i| !is_null(i)),
            Predicate::Int(int) => {
                let test = |i: usize| int.test(self.key(payload, column, start + i));
                field::retain_ahead(selection, len, ahead, |i| !is_null(i) && test(i));
            }
            Predicate::Bytes(_) => {
                let mut error = None;
                let cell = std::cell::RefCell::new(&mut error);
                let test = |i: usize| match self.string(payload, column, start + i) {
                    Ok(bytes) => FieldSource::Value.test_bytes(bytes, predicate, &mut vec![]).unwrap_or(false),
                    Err(e) => {
                        **cell.borrow_mut() = Some(e);
                        false
                    }
                };
                field::retain_ahead(selection, len, ahead, |i| !is_null(i) && test(i));
                if let Some(error) = error {
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}
