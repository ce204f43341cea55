//! Rows in a block: writing one into a slot, reading some, and the tests of predicates.

use freestone_codec::{Kind, f32_key, f64_key};

use super::geometry::{ColumnPlace, Geometry};
use crate::column::{ColumnData, Physical};
use crate::error::Result;
use crate::media::region::{Region, Words};
use crate::persistent::damaged;

/// A block of a region.
#[derive(Clone, Copy)]
pub struct Block<'a> {
    pub region: &'a dyn Region,
    pub words: Words<'a>,
    pub geometry: &'a Geometry,
    /// The offset of the block.
    pub start: u64,
}

impl<'a> Block<'a> {
    pub fn new(region: &'a dyn Region, geometry: &'a Geometry, start: u64) -> Block<'a> {
        Block { region, words: region.words(), geometry, start }
    }

    /// The word of the validity bitmap for slots from `64 * at`.
    #[inline]
    pub fn validity(&self, at: usize) -> u64 {
        self.words.load(self.start + self.geometry.bit(at * 64).0)
    }

    /// Begins to load what is read before a row is written: the bounds and the first bits.
    pub fn prefetch_for_row(&self) {
        self.words.prefetch(self.start + self.geometry.bit(0).0);
        let bounds = self.geometry.columns.iter().step_by(4).map(|column| column.bounds);
        bounds.for_each(|bounds| self.words.prefetch(self.start + bounds));
    }

    /// Begins to load a row: its validity bit and these columns.
    pub fn prefetch_row(&self, slot: usize, columns: impl Iterator<Item = usize>) {
        self.words.prefetch(self.start + self.geometry.bit(slot).0);
        for column in columns {
            self.words.prefetch(self.start + self.geometry.columns[column].value(slot));
        }
    }

    /// Whether a slot holds a row.
    pub fn is_valid(&self, slot: usize) -> bool {
        self.validity(slot / 64) >> (slot % 64) & 1 == 1
    }

    /// The slots that hold rows.
    pub fn valid_slots(&self) -> Vec<usize> {
        let mut slots = vec![];
        for at in 0..self.geometry.words {
            let mut rest = self.validity(at);
            while rest != 0 {
                slots.push(at * 64 + rest.trailing_zeros() as usize);
                rest &= rest - 1;
            }
        }
        slots
    }

    /// The smallest and largest order prefix of a column; the first is greater if the block never had a value.
    pub fn bounds(&self, column: &ColumnPlace) -> (u64, u64) {
        let at = self.start + column.bounds;
        (self.words.load(at), self.words.load(at + 8))
    }

    fn is_null(&self, column: &ColumnPlace, slot: usize) -> bool {
        column.null(slot).is_some_and(|(word, bit)| self.words.load(self.start + word) & bit != 0)
    }

    /// The place of a string in the region.
    fn string(&self, column: &ColumnPlace, slot: usize) -> Result<(u64, usize)> {
        let at = self.start + column.value(slot);
        let word = self.words.load(at);
        let (offset, len) = (word & 0xffff_ffff, word >> 32);
        if len > 0 && (offset < self.geometry.heap || offset + len > self.geometry.bytes) {
            return Err(damaged(self.region, at, format!("a string of {len} bytes at {offset}, outside its block")));
        }
        Ok((self.start + offset, len as usize))
    }

    /// An integer of at most 8 bytes, as a column has it.
    #[inline]
    fn int(&self, column: &ColumnPlace, slot: usize) -> i64 {
        let raw = self.words.load_narrow(self.start + column.value(slot), column.width);
        if column.is_signed { sign_extended(raw, column.width) } else { raw as i64 }
    }

    /// A number of at most 8 bytes by which values are ordered: integers as they are, floats by their order keys.
    #[inline]
    pub fn order_key(&self, column: &ColumnPlace, slot: usize) -> i64 {
        let raw = || self.words.load_narrow(self.start + column.value(slot), column.width);
        match column.kind {
            Kind::F64 => f64_key(f64::from_bits(raw())),
            Kind::F32 => f32_key(f32::from_bits(raw() as u32)),
            _ => self.int(column, slot),
        }
    }

    /// Where the strings of these slots begin: the end of the block if there are none.
    pub fn heap_top(&self, slots: impl Iterator<Item = usize> + Clone) -> Result<u64> {
        let mut top = self.geometry.bytes;
        for column in self.geometry.columns.iter().filter(|column| column.kind == Kind::Bytes) {
            for slot in slots.clone() {
                let (at, len) = self.string(column, slot)?;
                if len > 0 {
                    top = top.min(at - self.start);
                }
            }
        }
        Ok(top)
    }

    /// Appends a column's values of some slots.
    pub fn append(&self, column: usize, slots: &[usize], out: &mut ColumnData) -> Result<()> {
        let place = &self.geometry.columns[column];
        let first = out.len();
        let at = |slot: &usize| self.start + place.value(*slot);
        match &mut out.values {
            Physical::Int(values) => values.extend(slots.iter().map(|slot| self.int(place, *slot))),
            Physical::Wide(values) => values.extend(slots.iter().map(|slot| {
                let (low, high) = (self.words.load(at(slot)), self.words.load(at(slot) + 8));
                (u128::from(high) << 64 | u128::from(low)) as i128
            })),
            Physical::F64(values) => values.extend(slots.iter().map(|slot| f64::from_bits(self.words.load(at(slot))))),
            Physical::F32(values) => {
                values.extend(slots.iter().map(|slot| f32::from_bits(self.words.load_narrow(at(slot), 4) as u32)))
            }
            Physical::Bytes { offsets, data } => {
                for slot in slots {
                    let (from, len) = self.string(place, *slot)?;
                    self.words.append_to(from, len, data);
                    offsets.push(data.len() as u32);
                }
            }
        }
        if place.nulls.is_some() {
            self.append_validity(place, slots, first, out);
        }
        Ok(())
    }

    fn append_validity(&self, place: &ColumnPlace, slots: &[usize], first: usize, out: &mut ColumnData) {
        if out.validity.is_none() && !slots.iter().any(|slot| self.is_null(place, *slot)) {
            return;
        }
        let validity = out.validity.get_or_insert_with(|| crate::bitmap::ones(first));
        validity.resize(crate::bitmap::words(first + slots.len()), 0);
        for (at, slot) in slots.iter().enumerate() {
            if !self.is_null(place, *slot) {
                crate::bitmap::set(validity, first + at);
            }
        }
    }

    /// Some rows, whole.
    pub fn rows(&self, slots: &[usize]) -> Result<Vec<ColumnData>> {
        let mut rows = vec![];
        for (column, place) in self.geometry.columns.iter().enumerate() {
            let mut data = ColumnData::new(place.kind);
            self.append(column, slots, &mut data)?;
            rows.push(data);
        }
        Ok(rows)
    }

    /// Writes a row into a slot that holds none. `heap_top` is where the strings of other rows begin; the result is
    /// where they begin then. Durable after the next fence.
    pub fn write_row(&self, slot: usize, columns: &[ColumnData], row: usize, heap_top: u64) -> u64 {
        let mut top = heap_top;
        for (place, data) in self.geometry.columns.iter().zip(columns) {
            let is_null = !data.is_valid(row);
            if let Some((word, bit)) = place.null(slot) {
                let old = self.words.load(self.start + word);
                let new = if is_null { old | bit } else { old & !bit };
                if new != old {
                    self.region.store(self.start + word, new);
                    self.region.flush(self.start + word, 8);
                }
            }
            if !is_null {
                self.widen(place, data.order_prefix(row));
            }
            self.write_value(place, slot, data, row, is_null, &mut top);
        }
        if top < heap_top {
            self.region.flush(self.start + top, heap_top - top);
        }
        top
    }

    fn write_value(
        &self,
        place: &ColumnPlace,
        slot: usize,
        data: &ColumnData,
        row: usize,
        is_null: bool,
        top: &mut u64,
    ) {
        let at = self.start + place.value(slot);
        let store = |value: u64| match place.width {
            8 => self.region.store(at, value),
            width => self.region.write(at, &value.to_le_bytes()[..width as usize]),
        };
        match &data.values {
            _ if is_null && place.width <= 8 => store(0),
            Physical::Int(values) => store(values[row] as u64),
            Physical::F64(values) => store(values[row].to_bits()),
            Physical::F32(values) => store(values[row].to_bits().into()),
            Physical::Wide(values) => {
                let value = if is_null { 0 } else { values[row] as u128 };
                self.region.store(at, value as u64);
                self.region.store(at + 8, (value >> 64) as u64);
            }
            Physical::Bytes { .. } => {
                let bytes = data.bytes(row);
                *top -= bytes.len() as u64;
                self.region.write(self.start + *top, bytes);
                store(*top | (bytes.len() as u64) << 32);
            }
        }
        self.region.flush(at, place.width.into());
    }

    /// Extends a column's bounds to a value. Bounds that are too wide only cost time, so this needs no care in crashes.
    fn widen(&self, place: &ColumnPlace, prefix: u64) {
        let at = self.start + place.bounds;
        let (low, high) = self.bounds(place);
        if prefix < low {
            self.region.store(at, prefix);
        }
        if prefix > high {
            self.region.store(at + 8, prefix);
        }
        if prefix < low || prefix > high {
            self.region.flush(at, 16);
        }
    }

    /// Prepares the bitmaps and bounds of a new block. Durable after the next fence.
    pub fn clear(&self) {
        let (first, _) = self.geometry.bit(0);
        let bitmaps = self.geometry.columns.iter().filter_map(|column| column.nulls).chain([first]);
        for bitmap in bitmaps {
            (0..self.geometry.words as u64).for_each(|at| self.region.store(self.start + bitmap + at * 8, 0));
        }
        for column in &self.geometry.columns {
            self.region.store(self.start + column.bounds, u64::MAX);
            self.region.store(self.start + column.bounds + 8, 0);
        }
        // They are adjacent, before the first mini page.
        let end = self.geometry.columns.first().map_or(first, |column| column.values);
        self.region.flush(self.start + first, end - first);
    }

    /// A bit for each of the 64 slots from `64 * at` whose column's value passes `test`, NULLs or not. The test gets
    /// integers as they are, and floats as their order keys.
    #[inline]
    pub fn select_ints(&self, column: &ColumnPlace, at: usize, test: impl Fn(i64) -> bool) -> u64 {
        let start = self.start + column.value(at * 64);
        let lanes = 8 / column.width as usize;
        let slots = (self.geometry.slots - at * 64).min(64);
        let mut selected = 0;
        macro_rules! each {
            ($value:expr) => {
                for word in 0..slots.div_ceil(lanes) {
                    let bits = self.words.load(start + word as u64 * 8);
                    for lane in 0..lanes {
                        let value: i64 = $value(bits >> (lane * 8 * column.width as usize));
                        selected |= u64::from(test(value)) << ((word * lanes + lane) & 63);
                    }
                }
            };
        }
        match (column.kind, column.width, column.is_signed) {
            (Kind::F64, ..) => each!(|bits| f64_key(f64::from_bits(bits))),
            (Kind::F32, ..) => each!(|bits: u64| f32_key(f32::from_bits(bits as u32))),
            (_, 8, _) => each!(|bits: u64| bits as i64),
            (_, 4, true) => each!(|bits: u64| i64::from(bits as i32)),
            (_, 4, false) => each!(|bits: u64| i64::from(bits as u32)),
            (_, 2, true) => each!(|bits: u64| i64::from(bits as i16)),
            (_, 2, false) => each!(|bits: u64| i64::from(bits as u16)),
            (_, _, true) => each!(|bits: u64| i64::from(bits as i8)),
            (_, _, false) => each!(|bits: u64| i64::from(bits as u8)),
        }
        selected
    }

    /// A bit for each of the 64 slots from `64 * at` whose value is NULL.
    pub fn nulls(&self, column: &ColumnPlace, at: usize) -> u64 {
        column.null(at * 64).map_or(0, |(word, _)| self.words.load(self.start + word))
    }

    /// A value of more than 8 bytes.
    pub fn wide(&self, column: &ColumnPlace, slot: usize) -> i128 {
        let at = self.start + column.value(slot);
        (u128::from(self.words.load(at + 8)) << 64 | u128::from(self.words.load(at))) as i128
    }

    /// Whether the value in a slot is that of a row of `other`: NULLs are equal, and so are floats with equal bits. `text`
    /// is room for a string.
    pub fn equals(
        &self,
        column: &ColumnPlace,
        slot: usize,
        other: &ColumnData,
        row: usize,
        text: &mut Vec<u8>,
    ) -> Result<bool> {
        if self.is_null(column, slot) || !other.is_valid(row) {
            return Ok(self.is_null(column, slot) && !other.is_valid(row));
        }
        Ok(match (column.kind, other.int_at(row)) {
            (Kind::Wide, Some(value)) => self.wide(column, slot) == value,
            (_, Some(value)) => i128::from(self.order_key(column, slot)) == value,
            (_, None) => {
                self.read_string(column, slot, text)?;
                text[..] == *other.bytes(row)
            }
        })
    }

    /// Replaces `out` by a string.
    pub fn read_string(&self, column: &ColumnPlace, slot: usize, out: &mut Vec<u8>) -> Result<()> {
        let (at, len) = self.string(column, slot)?;
        out.clear();
        self.words.append_to(at, len, out);
        Ok(())
    }
}

/// The signed value of the low `width` bytes.
#[inline]
fn sign_extended(raw: u64, width: u32) -> i64 {
    let shift = 64 - width * 8;
    (raw << shift) as i64 >> shift
}
