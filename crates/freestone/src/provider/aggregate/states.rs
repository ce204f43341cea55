//! The running state of an aggregation: arrays by group, updated from rows or from the aggregates of whole zones.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, UInt64Array};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::error::{DataFusionError, Result};
use freestone_codec::grouped::{add_by_group, count_by_group};
use freestone_store::StoreError;
use freestone_store::column::ColumnBuffer;
use freestone_store::limits::GRANULE_ROWS;
use freestone_store::scan::Sink;
use freestone_store::segment::Segment;
use freestone_store::segment::zones::Bounds;

use super::expression::{IntExpression, IntValues};
use super::{Aggregation, Function, Value};
use crate::provider::keys::cast_to;

/// The state of one partition.
pub struct States {
    aggregation: Arc<Aggregation>,
    /// The number of rows, by group.
    rows: Vec<u64>,
    /// The group of each row of a granule.
    groups: Vec<u32>,
    /// The states of the values.
    values: Vec<ValueState>,
}

/// The state of one value by group, and of the rows that are not selected behind the last group. Arrays that are not needed
/// are empty.
#[derive(Default)]
struct ValueState {
    /// The number of rows that are not NULL, by group; empty if it equals the number of rows.
    counts: Vec<u64>,
    sums: Sums,
    least: Vec<i64>,
    greatest: Vec<i64>,
}

/// Sums of 64 bits, which are added to sums of 128 bits before they could overflow.
#[derive(Default)]
struct Sums {
    narrow: Vec<i64>,
    wide: Vec<i128>,
    /// An upper bound of what was added to a 64-bit sum since then.
    pending: u128,
}

impl Sums {
    fn widen(&mut self) {
        self.wide.resize(self.narrow.len(), 0);
        self.wide
            .iter_mut()
            .zip(&mut self.narrow)
            .for_each(|(wide, narrow)| *wide += i128::from(std::mem::take(narrow)));
        self.pending = 0;
    }

    /// Prepares for `rows` more values with at most `magnitude`. Returns `false` if even their own sum might exceed 64
    /// bits.
    fn prepare(&mut self, rows: usize, magnitude: u64) -> bool {
        let more = rows as u128 * u128::from(magnitude);
        if more > i64::MAX as u128 {
            return false;
        }
        if self.pending + more > i64::MAX as u128 {
            self.widen();
        }
        self.pending += more;
        true
    }

    fn add_wide(&mut self, group: usize, sum: i128) {
        self.wide.resize(self.narrow.len(), 0);
        self.wide[group] += sum;
    }

    fn get(&self, group: usize) -> i128 {
        i128::from(self.narrow[group]) + self.wide.get(group).copied().unwrap_or(0)
    }
}

/// The bytes of the state of an aggregation.
pub fn state_bytes(aggregation: &Aggregation) -> usize {
    let of_value = |value: &Value| {
        8 * usize::from(value.is_nullable) + 24 * usize::from(value.sums) + 16 * usize::from(value.extremes)
    };
    (aggregation.groups.count() + 1) * (8 + aggregation.values.iter().map(of_value).sum::<usize>())
}

impl States {
    pub fn new(aggregation: Arc<Aggregation>) -> Self {
        let groups = aggregation.groups.count() + 1;
        let of_value = |value: &Value| ValueState {
            counts: vec![0; if value.is_nullable { groups } else { 0 }],
            sums: Sums { narrow: vec![0; if value.sums { groups } else { 0 }], ..Sums::default() },
            least: vec![i64::MAX; if value.extremes { groups } else { 0 }],
            greatest: vec![i64::MIN; if value.extremes { groups } else { 0 }],
        };
        let values = aggregation.values.iter().map(of_value).collect();
        States { rows: vec![0; groups], groups: vec![], values, aggregation }
    }

    /// The groups with rows. The single group of an aggregation without keys always exists.
    pub fn groups(&self) -> Vec<usize> {
        let groups = &self.aggregation.groups;
        let all = groups.is_one();
        (0..groups.count()).filter(|group| all || self.rows[*group] > 0).collect()
    }

    /// The keys and states of some groups, as the columns of a partial aggregation.
    pub fn columns(&self, groups: &[usize], schema: &SchemaRef) -> Result<Vec<ArrayRef>> {
        let mut columns = self.aggregation.groups.arrays(groups)?;
        for function in &self.aggregation.functions {
            let next = || schema.field(columns.len()).data_type().clone();
            match function {
                Function::CountRows => columns.push(integers(groups, |g| Some(self.rows[g].into()), &next())?),
                Function::Count(value) => {
                    columns.push(integers(groups, |g| Some(self.count(*value, g).into()), &next())?);
                }
                Function::Sum { value, carries } => {
                    columns.push(integers(groups, |g| self.sum(*value, g), &next())?);
                    columns.extend(carries.then(|| nothing_carried(groups)));
                }
                Function::Average { value, carries } => {
                    // DataFusion divides by every count, so a count of 0 is NULL.
                    let count = |g: usize| Some(self.count(*value, g).into()).filter(|count| *count > 0);
                    columns.push(integers(groups, count, &next())?);
                    let next = || schema.field(columns.len()).data_type().clone();
                    columns.push(integers(groups, |g| self.sum(*value, g), &next())?);
                    columns.extend(carries.then(|| nothing_carried(groups)));
                }
                Function::Min(value) => {
                    let least = |g: usize| self.known(*value, g, self.values[*value].least[g]);
                    columns.push(integers(groups, least, &next())?);
                }
                Function::Max(value) => {
                    let greatest = |g: usize| self.known(*value, g, self.values[*value].greatest[g]);
                    columns.push(integers(groups, greatest, &next())?);
                }
            }
        }
        Ok(columns)
    }

    /// The group and the values of a zone, if its aggregates determine them.
    fn of_zone(&self, segment: &Segment, zone: usize, rows: usize) -> Option<(usize, Vec<ZoneValue>)> {
        let group = self.aggregation.groups.of_zone(segment, zone, rows)?;
        let values = self.aggregation.values.iter().map(|value| zone_value(value, segment, zone, rows));
        Some((group, values.collect::<Option<_>>()?))
    }

    fn count(&self, value: usize, group: usize) -> u64 {
        *self.values[value].counts.get(group).unwrap_or(&self.rows[group])
    }

    fn sum(&self, value: usize, group: usize) -> Option<i128> {
        (self.count(value, group) > 0).then(|| self.values[value].sums.get(group))
    }

    fn known(&self, value: usize, group: usize, extreme: i64) -> Option<i128> {
        (self.count(value, group) > 0).then_some(extreme.into())
    }
}

/// The carry of sums of 64-bit integers beyond 128 bits, which is 0.
fn nothing_carried(groups: &[usize]) -> ArrayRef {
    Arc::new(Int64Array::from(vec![0; groups.len()]))
}

/// An array of an integer type. Counts and extremes fit their types, and sums are decimals of 38 digits.
fn integers(groups: &[usize], value: impl Fn(usize) -> Option<i128>, data_type: &DataType) -> Result<ArrayRef> {
    let values = groups.iter().map(|group| value(*group));
    Ok(match data_type {
        DataType::Decimal128(precision, scale) => {
            Arc::new(Decimal128Array::from_iter(values).with_precision_and_scale(*precision, *scale)?)
        }
        DataType::Float64 => Arc::new(Float64Array::from_iter(values.map(|v| v.map(|v| v as f64)))),
        DataType::UInt64 => Arc::new(UInt64Array::from_iter(values.map(|v| v.map(|v| v as u64)))),
        other => cast_to(&(Arc::new(Int64Array::from_iter(values.map(|v| v.map(|v| v as i64)))) as ArrayRef), other)?,
    })
}

impl Sink for States {
    fn take_zone(&mut self, segment: &Segment, zone: usize, rows: usize) -> bool {
        let Some((group, of_values)) = self.of_zone(segment, zone, rows) else { return false };
        self.rows[group] += rows as u64;
        for (state, of_zone) in self.values.iter_mut().zip(of_values) {
            state.take_zone(group, &of_zone);
        }
        true
    }

    fn would_take(&self, segment: &Segment, zone: usize, rows: usize) -> bool {
        self.of_zone(segment, zone, rows).is_some()
    }

    fn takes_unselected(&self) -> bool {
        !self.aggregation.groups.is_one()
    }

    fn take_rows(
        &mut self,
        ordinal: usize,
        columns: &mut [ColumnBuffer],
        rows: usize,
        selection: Option<&[u64]>,
    ) -> Result<(), StoreError> {
        let aggregation = self.aggregation.clone();
        // Granules are small enough for the 64-bit sums, whatever the scan passes.
        debug_assert!(rows <= GRANULE_ROWS);
        if aggregation.groups.is_one() {
            self.rows[0] += rows as u64;
            for (value, state) in aggregation.values.iter().zip(&mut self.values) {
                state.take_all(value, columns, rows).map_err(StoreError::Invalid)?;
            }
            return Ok(());
        }
        let States { groups, rows: counts, values, .. } = self;
        let selected = (rows, selection);
        aggregation.groups.of_rows(ordinal, columns, selected, groups).map_err(StoreError::Invalid)?;
        count_by_group(groups, without_unselected(counts));
        for (value, state) in aggregation.values.iter().zip(values) {
            state.take_grouped(value, columns, groups).map_err(StoreError::Invalid)?;
        }
        Ok(())
    }
}

/// The states of the groups, without that of rows that are not selected, which may be left out.
fn without_unselected<T>(states: &mut [T]) -> &mut [T] {
    states.split_last_mut().map_or(&mut [], |(_, groups)| groups)
}

/// The aggregates of a zone for a value.
struct ZoneValue {
    count: u64,
    sum: i128,
    extremes: Option<(i64, i64)>,
}

fn zone_value(value: &Value, segment: &Segment, zone: usize, rows: usize) -> Option<ZoneValue> {
    let zones = &segment.footer.zones[value.column?];
    let count = rows as u64 - u64::from(zones.nulls[zone]);
    if !value.sums && !value.extremes || count == 0 {
        return Some(ZoneValue { count, sum: 0, extremes: None });
    }
    let Bounds::Int(bounds) = &zones.bounds else { return None };
    let bounds = bounds[zone].as_ref()?;
    let sum = if value.sums { bounds.sum? } else { 0 };
    Some(ZoneValue { count, sum, extremes: Some((bounds.min as i64, bounds.max as i64)) })
}

impl ValueState {
    fn take_zone(&mut self, group: usize, of_zone: &ZoneValue) {
        if let Some(count) = self.counts.get_mut(group) {
            *count += of_zone.count;
        }
        if !self.sums.narrow.is_empty() {
            self.sums.add_wide(group, of_zone.sum);
        }
        if let (Some((low, high)), Some(least)) = (of_zone.extremes, self.least.get_mut(group)) {
            *least = (*least).min(low);
            self.greatest[group] = self.greatest[group].max(high);
        }
    }

    /// Adds rows of a single group.
    fn take_all(&mut self, value: &Value, columns: &[ColumnBuffer], rows: usize) -> Result<(), String> {
        let valid = valid_rows(value, columns, rows);
        if let Some(count) = self.counts.first_mut() {
            *count += valid.as_ref().map_or(rows as u64, |v| v.iter().map(|word| u64::from(word.count_ones())).sum());
        }
        let Some(expression) = &value.expression else { return Ok(()) };
        let all_valid = valid.is_none() && rows > 0;
        match expression.evaluate(columns)? {
            IntValues::Stored(values) if all_valid => self.take_slice(value, values),
            IntValues::Computed(values) if all_valid => self.take_slice(value, &values),
            values => self.take_each(value, &values, rows, valid.as_deref(), |_| 0),
        }
        Ok(())
    }

    fn take_slice(&mut self, value: &Value, values: &[i64]) {
        if value.sums {
            if self.sums.prepare(values.len(), value.magnitude) {
                self.sums.narrow[0] += values.iter().sum::<i64>();
            } else {
                self.sums.add_wide(0, values.iter().map(|v| i128::from(*v)).sum());
            }
        }
        if value.extremes {
            let (low, high) = values.iter().fold((i64::MAX, i64::MIN), |(l, h), v| (l.min(*v), h.max(*v)));
            self.least[0] = self.least[0].min(low);
            self.greatest[0] = self.greatest[0].max(high);
        }
    }

    fn take_grouped(&mut self, value: &Value, columns: &[ColumnBuffer], groups: &[u32]) -> Result<(), String> {
        let valid = valid_rows(value, columns, groups.len());
        if !self.counts.is_empty() {
            match &valid {
                None => count_by_group(groups, without_unselected(&mut self.counts)),
                Some(valid) => groups.iter().enumerate().for_each(|(row, group)| {
                    self.counts[*group as usize] += valid[row / 64] >> (row % 64) & 1;
                }),
            }
        }
        let Some(expression) = &value.expression else { return Ok(()) };
        let values = expression.evaluate(columns)?;
        if let (Some(values), None) = (values.of_rows(), &valid)
            && !value.extremes
            && value.sums
            && has_lanes(self.sums.narrow.len(), groups.len())
            && self.sums.prepare(groups.len(), value.magnitude)
        {
            add_by_group(values, groups, without_unselected(&mut self.sums.narrow));
            return Ok(());
        }
        self.take_each(value, &values, groups.len(), valid.as_deref(), |row| groups[row] as usize);
        Ok(())
    }

    #[inline]
    fn take_each(
        &mut self,
        value: &Value,
        values: &IntValues<'_>,
        rows: usize,
        valid: Option<&[u64]>,
        group: impl Fn(usize) -> usize,
    ) {
        let constant;
        let values: &[i64] = match values {
            IntValues::Stored(values) => values,
            IntValues::Computed(values) => values,
            IntValues::Constant(v) => {
                constant = vec![*v; rows];
                &constant
            }
        };
        let is_valid = |row: usize| valid.is_none_or(|v| v[row / 64] >> (row % 64) & 1 == 1);
        if value.sums {
            let is_narrow = self.sums.prepare(rows, value.magnitude);
            let sums = &mut self.sums.narrow;
            match valid {
                _ if !is_narrow => {
                    let valid = values.iter().enumerate().filter(|(row, _)| is_valid(*row));
                    valid.for_each(|(row, v)| self.sums.add_wide(group(row), i128::from(*v)));
                }
                None => values.iter().enumerate().for_each(|(row, v)| sums[group(row)] += v),
                Some(_) => {
                    let valid = values.iter().enumerate().filter(|(row, _)| is_valid(*row));
                    valid.for_each(|(row, v)| sums[group(row)] += v);
                }
            }
        }
        if value.extremes {
            for (row, v) in values.iter().enumerate().filter(|(row, _)| is_valid(*row)) {
                let group = group(row);
                self.least[group] = self.least[group].min(*v);
                self.greatest[group] = self.greatest[group].max(*v);
            }
        }
    }
}

/// With more groups, or fewer rows per group, sums side by side cost more than they save.
const LANES_GROUPS: usize = 64;
const LANES_ROWS: usize = 16;

fn has_lanes(groups: usize, rows: usize) -> bool {
    groups <= LANES_GROUPS && rows >= groups * LANES_ROWS
}

/// The rows in which no column of a value is NULL; `None` for all rows.
fn valid_rows(value: &Value, columns: &[ColumnBuffer], rows: usize) -> Option<Vec<u64>> {
    let mut valid: Option<Vec<u64>> = None;
    for words in value.places.iter().filter_map(|place| columns.get(*place)?.valid_rows()) {
        match &mut valid {
            None => valid = Some(words[..rows.div_ceil(64)].to_vec()),
            Some(valid) => valid.iter_mut().zip(words).for_each(|(a, b)| *a &= b),
        }
    }
    valid
}

impl Value {
    /// The values of an expression, or without an expression, whether the columns have a value.
    pub fn new(expression: Option<IntExpression>, places: Vec<usize>, column: Option<usize>, magnitude: u64) -> Self {
        Value { expression, places, column, magnitude, is_nullable: false, sums: false, extremes: false }
    }
}

/// The error of a scan as an error of DataFusion.
pub fn external(error: StoreError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_never_overflow() {
        for magnitude in [1u64 << 40, 1 << 50, 1 << 61] {
            let mut state =
                ValueState { sums: Sums { narrow: vec![0; 2], ..Sums::default() }, ..ValueState::default() };
            let value = Value { sums: true, ..Value::new(None, vec![], None, magnitude) };
            let values = vec![magnitude as i64; GRANULE_ROWS];
            for _ in 0..3000 {
                state.take_each(&value, &IntValues::Stored(&values), values.len(), None, |row| row % 2);
            }
            state.take_slice(&value, &values);
            let halves = i128::from(magnitude) * (GRANULE_ROWS as i128 / 2) * 3000;
            let whole = i128::from(magnitude) * GRANULE_ROWS as i128;
            assert_eq!((state.sums.get(0), state.sums.get(1)), (halves + whole, halves), "{magnitude}");
        }
    }
}
