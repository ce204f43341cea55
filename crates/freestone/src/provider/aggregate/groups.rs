//! Groups as positions in an array. The keys are columns of a scan whose values can be numbered from metadata: strings
//! by their dictionaries, integers by their bounds.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, StringViewArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use freestone_store::Table;
use freestone_store::column::{ColumnBuffer, Decoded};
use freestone_store::scan::few_distinct_strings;
use freestone_store::segment::Segment;
use freestone_store::segment::zones::{Bounds, IntBounds};
use hashbrown::HashMap;

use crate::provider::keys::cast_to;
use crate::provider::statistics::int_bounds;

/// The maximum number of strings in the dictionaries of a key, which are merged when a query is planned.
const TEXTS: usize = 1 << 16;

/// The keys of an aggregation. The position of a group is the sum over its keys of number × `stride`.
#[derive(Debug, Default)]
pub struct Groups {
    keys: Vec<Key>,
}

#[derive(Debug)]
struct Key {
    /// The position in the projection of the scan.
    place: usize,
    /// The column of the table.
    column: usize,
    data_type: DataType,
    /// The number of values. NULL follows them.
    values: usize,
    stride: usize,
    numbering: Numbering,
}

#[derive(Debug)]
enum Numbering {
    Ints {
        low: i64,
    },
    Strings {
        texts: Vec<String>,
        numbers: HashMap<Vec<u8>, u32>,
        /// Per segment of the table, the numbers by the codes of its dictionary; `None` for a segment without one.
        by_segment: Vec<Option<Vec<u32>>>,
    },
}

impl Groups {
    /// Numbers the groups of keys, which are given as (position in the projection, column of the table); `None` if
    /// there are more than `most`.
    pub fn new(table: &Arc<Table>, columns: &[(usize, usize)], most: usize) -> Option<Groups> {
        let (mut keys, mut count) = (vec![], 1usize);
        for (place, column) in columns {
            let data_type = table.schema.stored_type(*column).clone();
            let (numbering, values) = match data_type {
                DataType::Utf8View => texts(table, *column)?,
                DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Date32 => {
                    let (low, high) = int_bounds(table, *column).unwrap_or((0, -1));
                    (Numbering::Ints { low: low as i64 }, usize::try_from(high - low + 1).ok()?)
                }
                _ => return None,
            };
            keys.push(Key { place: *place, column: *column, data_type, values, stride: count, numbering });
            count = count.checked_mul(values.checked_add(1)?).filter(|count| *count <= most)?;
        }
        Some(Groups { keys })
    }

    /// The number of positions in the array.
    pub fn count(&self) -> usize {
        self.keys.last().map_or(1, |key| key.stride * (key.values + 1))
    }

    /// The positions of the keys in the projection of the scan.
    pub fn places(&self) -> impl Iterator<Item = usize> {
        self.keys.iter().map(|key| key.place)
    }

    /// Whether all rows are one group, because there are no keys.
    pub fn is_one(&self) -> bool {
        self.keys.is_empty()
    }

    /// The group of each row of a segment, which replaces what `groups` has. Rows that are not selected have the number of
    /// groups.
    ///
    /// # Errors
    ///
    /// A value is not among the numbered ones.
    pub fn of_rows(
        &self,
        ordinal: usize,
        columns: &[ColumnBuffer],
        (rows, selection): (usize, Option<&[u64]>),
        groups: &mut Vec<u32>,
    ) -> Result<(), String> {
        groups.clear();
        groups.resize(rows, 0);
        for key in &self.keys {
            let column = columns.get(key.place).ok_or("a key is not among the columns")?;
            key.add_numbers(ordinal, column, groups)?;
        }
        for (word, bits) in selection.unwrap_or_default().iter().enumerate() {
            let mut left = !bits;
            while left != 0 {
                if let Some(group) = groups.get_mut(word * 64 + left.trailing_zeros() as usize) {
                    *group = self.count() as u32;
                }
                left &= left - 1;
            }
        }
        Ok(())
    }

    /// The group of a whole zone in which each key has only one value.
    pub fn of_zone(&self, segment: &Segment, zone: usize, rows: usize) -> Option<usize> {
        let numbers = self.keys.iter().map(|key| Some(key.number_in_zone(segment, zone, rows)? * key.stride));
        numbers.sum()
    }

    /// The columns of the keys for some groups.
    ///
    /// # Errors
    ///
    /// An array cannot be built.
    pub fn arrays(&self, groups: &[usize]) -> Result<Vec<ArrayRef>> {
        self.keys.iter().map(|key| key.array(groups)).collect()
    }
}

fn texts(table: &Arc<Table>, column: usize) -> Option<(Numbering, usize)> {
    let (mut texts, mut numbers, mut by_segment) = (vec![], HashMap::new(), vec![]);
    for at in 0..table.segments.len() {
        // Damage is reported by the scan.
        let segment = table.open_segment(at).ok()?;
        let of_column = few_distinct_strings(table, at, column).ok()??;
        let mut of_segment = Vec::with_capacity(of_column.len());
        for text in of_column.iter() {
            let readable = String::from_utf8(text.clone()).ok()?;
            of_segment.push(*numbers.entry(text.clone()).or_insert_with(|| {
                texts.push(readable);
                texts.len() as u32 - 1
            }));
        }
        // The strings of a dictionary are in the order of its codes.
        let has_codes = segment.dictionary(column).is_some();
        by_segment.push(has_codes.then_some(of_segment));
        if texts.len() > TEXTS {
            return None;
        }
    }
    let values = texts.len();
    Some((Numbering::Strings { texts, numbers, by_segment }, values))
}

/// The numbers of the codes of one byte, of which those behind the last one are `null`; `None` if there are more.
fn padded(numbers: &[u32], null: u32) -> Option<[u32; 256]> {
    let mut padded = [null; 256];
    padded.get_mut(..numbers.len())?.copy_from_slice(numbers);
    Some(padded)
}

impl Key {
    fn add_numbers(&self, ordinal: usize, column: &ColumnBuffer, groups: &mut [u32]) -> Result<(), String> {
        let (stride, null) = (self.stride as u32, self.values as u32);
        // A value without a number gets that of NULL, which only NULL may have.
        let mut has_unknown = false;
        let mut add = |group: &mut u32, number: u32| {
            has_unknown |= number == null;
            *group += number * stride;
        };
        match (&self.numbering, &column.decoded) {
            (Numbering::Ints { low }, Decoded::I64(values)) => {
                let number = |v: i64| u32::try_from(v.wrapping_sub(*low)).map_or(null, |n| n.min(null));
                groups.iter_mut().zip(values).for_each(|(group, v)| add(group, number(*v)));
            }
            (Numbering::Strings { by_segment, .. }, Decoded::Codes(codes)) => {
                let numbers = by_segment.get(ordinal).and_then(Option::as_ref);
                let numbers = numbers.ok_or("a dictionary that was not planned for")?;
                has_unknown = codes.iter().fold(0, |greatest, code| greatest.max(*code)) as usize >= numbers.len();
                match padded(numbers, null) {
                    // An array that has an element for each byte is read without a look at its length.
                    Some(numbers) if !has_unknown => {
                        let numbers = numbers.map(|number| number * stride);
                        groups.iter_mut().zip(codes).for_each(|(group, code)| *group += numbers[*code as u8 as usize]);
                    }
                    _ => {
                        let number = |code: u32| numbers.get(code as usize).copied().unwrap_or(null);
                        groups.iter_mut().zip(codes).for_each(|(group, code)| *group += number(*code) * stride);
                    }
                }
            }
            (Numbering::Strings { numbers, .. }, Decoded::Views(views)) => {
                let mut last = None;
                for (row, group) in groups.iter_mut().enumerate() {
                    let number = match last {
                        Some((view, number)) if view == views.views[row] => number,
                        _ => views.read(row, |text| numbers.get(text).copied()).flatten().unwrap_or(null),
                    };
                    last = Some((views.views[row], number));
                    add(group, number);
                }
            }
            _ => return Err("a key is stored otherwise than was planned for".into()),
        }
        let valid = column.valid_rows();
        if valid.is_none() && !has_unknown {
            return Ok(());
        }
        for (row, group) in groups.iter_mut().enumerate() {
            let number = *group / stride;
            if valid.is_some_and(|valid| valid[row / 64] >> (row % 64) & 1 == 0) {
                *group = *group - number * stride + null * stride;
            } else if number == null {
                return Err("a key is outside what the zones and dictionaries of its segment say".into());
            }
        }
        Ok(())
    }

    fn number_in_zone(&self, segment: &Segment, zone: usize, rows: usize) -> Option<usize> {
        let zones = &segment.footer.zones[self.column];
        match zones.nulls[zone] as usize {
            0 => {}
            nulls if nulls == rows => return Some(self.values),
            _ => return None,
        }
        match (&self.numbering, &zones.bounds) {
            (Numbering::Ints { low }, Bounds::Int(bounds)) => {
                let IntBounds { min, max, .. } = bounds[zone].as_ref()?;
                (min == max).then(|| usize::try_from(min - i128::from(*low)).ok())?
            }
            (Numbering::Strings { numbers, .. }, Bounds::Bytes(bounds)) => {
                numbers.get(bounds[zone].as_ref()?.only()?).map(|number| *number as usize)
            }
            _ => None,
        }
    }

    fn array(&self, groups: &[usize]) -> Result<ArrayRef> {
        let numbers = groups.iter().map(|group| group / self.stride % (self.values + 1));
        match &self.numbering {
            Numbering::Ints { low } => {
                let value = |number: usize| (number < self.values).then(|| low + number as i64);
                let values = Arc::new(Int64Array::from_iter(numbers.map(value))) as ArrayRef;
                cast_to(&values, &self.data_type)
            }
            Numbering::Strings { texts, .. } => {
                let text = |number: usize| texts.get(number);
                Ok(Arc::new(StringViewArray::from_iter(numbers.map(text))))
            }
        }
    }
}
