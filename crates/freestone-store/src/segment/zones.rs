//! Zones: small materialized aggregates (Moerkotte 1998) of consecutive rows, and what they say about a predicate.

use std::ops::Range;

use freestone_codec::{BytesPredicate, BytesSlice, IntPredicate, Predicate, f32_key, f64_key};

use super::bytes::{ByteReader, ByteWriter};
use crate::bitmap;
use crate::column::{ColumnData, Physical};

/// The longest prefix of a string that is stored as a bound, in bytes.
const BOUND_BYTES: usize = 12;

/// The zone map of one column of one segment. A zone without values has no bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct ZoneMap {
    /// The number of NULLs per zone.
    pub nulls: Vec<u32>,
    /// The smallest and largest value per zone.
    pub bounds: Bounds,
    /// The minimum and maximum of all zones, for integers.
    range: Option<(i128, i128)>,
    /// The sum of the lengths of the zones' ranges, for integers.
    lengths: f64,
}

/// The bounds of all zones of a column, by kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Bounds {
    /// Integers, decimals, and floats by their order keys: minimum, maximum, and the sum (0 for floats).
    Int(Vec<Option<IntBounds>>),
    /// Strings: prefixes of the minimum and maximum.
    Bytes(Vec<Option<BytesBounds>>),
}

/// Minimum, maximum and sum of a zone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IntBounds {
    /// The smallest value.
    pub min: i128,
    /// The largest value.
    pub max: i128,
    /// `None` if it does not fit 128 bits, and for floats.
    pub sum: Option<i128>,
}

/// Every value `v` has `min <= v` and, unless `max` is `None`, `v <= max`.
#[derive(Debug, Clone, PartialEq)]
pub struct BytesBounds {
    /// A lower bound of all values: the smallest value, or a prefix of it.
    pub min: Vec<u8>,
    /// An upper bound of all values. `None`: no short one exists.
    pub max: Option<Vec<u8>>,
    /// Whether min and max are values.
    pub exact: bool,
}

impl IntBounds {
    /// The bounds of the values of both.
    fn joined(self, other: IntBounds) -> IntBounds {
        let sum = self.sum.zip(other.sum).and_then(|(a, b)| a.checked_add(b));
        IntBounds { min: self.min.min(other.min), max: self.max.max(other.max), sum }
    }
}

impl BytesBounds {
    /// Bounds of the values of both.
    fn joined(self, other: BytesBounds) -> BytesBounds {
        let max = self.max.zip(other.max).map(|(a, b)| a.max(b));
        BytesBounds { min: self.min.min(other.min), max, exact: self.exact && other.exact }
    }

    /// The value of all rows, if the bounds show that they are equal.
    pub fn only(&self) -> Option<&Vec<u8>> {
        self.max.as_ref().filter(|max| self.exact && **max == self.min)
    }
}

/// What a zone's aggregates say about a predicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No row of the zone satisfies the predicate.
    None,
    /// Some rows may satisfy it.
    Some,
    /// All rows satisfy it.
    All,
}

/// The length of a range, which is 0 if it has one value.
fn length(min: i128, max: i128) -> f64 {
    max as f64 - min as f64
}

impl ZoneMap {
    /// The aggregates of `column` in zones of `zone_rows` rows.
    pub fn of(column: &ColumnData, zone_rows: usize) -> ZoneMap {
        let rows = column.len();
        ZoneMap::of_zones(column, (0..rows).step_by(zone_rows).map(|start| start..(start + zone_rows).min(rows)))
    }

    /// As [`ZoneMap::of`] for strings, by the codes of the rows in a dictionary whose entries ascend: codes are compared in
    /// place of strings.
    pub(super) fn of_codes(column: &ColumnData, codes: &[i64], entries: BytesSlice<'_>, zone_rows: usize) -> ZoneMap {
        let zones = (0..codes.len()).step_by(zone_rows).map(|start| start..(start + zone_rows).min(codes.len()));
        let nulls = zones.clone().map(|zone| nulls_in(column, &zone)).collect();
        let bounds = zones.map(|zone| {
            let codes = int_bounds(column, zone, |row| codes[row], false)?;
            Some(bounds_between(entries.get(codes.min as usize), entries.get(codes.max as usize)))
        });
        ZoneMap::new(nulls, Bounds::Bytes(bounds.collect()))
    }

    /// Adds the aggregates of `more`, which comes after `rows` rows. The bounds of strings may become wider than those
    /// of [`ZoneMap::of`].
    pub(crate) fn extend(&mut self, rows: usize, more: &ColumnData, zone_rows: usize) {
        let room = (rows.next_multiple_of(zone_rows) - rows).min(more.len());
        let full = (room..more.len()).step_by(zone_rows).map(|start| start..(start + zone_rows).min(more.len()));
        let zones = (room > 0).then_some(0..room).into_iter().chain(full);
        let added = ZoneMap::of_zones(more, zones);
        let joins = room > 0;
        let mut nulls = added.nulls.into_iter();
        if let (true, Some(last)) = (joins, self.nulls.last_mut()) {
            *last += nulls.next().unwrap_or(0);
        }
        self.nulls.extend(nulls);
        match (&mut self.bounds, added.bounds) {
            (Bounds::Int(bounds), Bounds::Int(added)) => append_zones(bounds, added, joins, IntBounds::joined),
            (Bounds::Bytes(bounds), Bounds::Bytes(added)) => append_zones(bounds, added, joins, BytesBounds::joined),
            _ => unreachable!("a column's kind never changes"),
        }
        self.range = match (self.range, added.range) {
            (Some((low, high)), Some((min, max))) => Some((low.min(min), high.max(max))),
            (range, added) => range.or(added),
        };
        self.lengths += added.lengths;
    }

    fn of_zones(column: &ColumnData, zones: impl Iterator<Item = Range<usize>> + Clone) -> ZoneMap {
        let nulls = zones.clone().map(|zone| nulls_in(column, &zone)).collect();
        let bounds = match &column.values {
            Physical::Int(v) => Bounds::Int(zones.map(|z| int_bounds(column, z, |r| v[r], true)).collect()),
            Physical::Wide(v) => Bounds::Int(zones.map(|z| wide_bounds(column, z, v)).collect()),
            Physical::F64(v) => Bounds::Int(zones.map(|z| int_bounds(column, z, |r| f64_key(v[r]), false)).collect()),
            Physical::F32(v) => Bounds::Int(zones.map(|z| int_bounds(column, z, |r| f32_key(v[r]), false)).collect()),
            Physical::Bytes { offsets, data } => {
                let get = |r: usize| &data[offsets[r] as usize..offsets[r + 1] as usize];
                Bounds::Bytes(zones.map(|z| bytes_bounds(column, z, get)).collect())
            }
        };
        ZoneMap::new(nulls, bounds)
    }

    /// The aggregates of `rows` equal rows, from those of one of them.
    pub(super) fn repeated(one: &ZoneMap, rows: usize, zone_rows: usize) -> ZoneMap {
        let lengths = || (0..rows).step_by(zone_rows).map(|start| zone_rows.min(rows - start));
        let nulls = one.nulls.first().copied().unwrap_or(0);
        let bounds = match &one.bounds {
            Bounds::Int(bounds) => {
                let bounds = bounds.first().copied().flatten();
                let sum = |sum: Option<i128>, len: usize| sum.and_then(|sum| sum.checked_mul(len as i128));
                Bounds::Int(lengths().map(|len| bounds.map(|b| IntBounds { sum: sum(b.sum, len), ..b })).collect())
            }
            Bounds::Bytes(bounds) => {
                let bounds = bounds.first().cloned().flatten();
                Bounds::Bytes(lengths().map(|_| bounds.clone()).collect())
            }
        };
        ZoneMap::new(lengths().map(|len| nulls * len as u32).collect(), bounds)
    }

    /// A zone map from the NULL count and bounds of each zone.
    pub fn new(nulls: Vec<u32>, bounds: Bounds) -> ZoneMap {
        let zones = match &bounds {
            Bounds::Int(zones) => zones.as_slice(),
            Bounds::Bytes(_) => &[],
        };
        let ranges = zones.iter().flatten().map(|b| (b.min, b.max));
        let range = ranges.clone().reduce(|(low, high), (min, max)| (low.min(min), high.max(max)));
        let lengths = ranges.map(|(min, max)| length(min, max)).sum();
        ZoneMap { nulls, bounds, range, lengths }
    }

    /// In how many zones' ranges a number of the column's range is, on average: at most 1 if the column is sorted, and nearly the
    /// number of zones if its values come in any order. `None` for strings, and if there are only NULLs.
    pub fn overlap(&self) -> Option<f64> {
        let (min, max) = self.range?;
        Some(if min == max { 0.0 } else { self.lengths / length(min, max) })
    }

    /// One zone with the rows of all.
    pub(super) fn joined(&self) -> ZoneMap {
        let bounds = match &self.bounds {
            Bounds::Int(zones) => Bounds::Int(vec![zones.iter().flatten().copied().reduce(IntBounds::joined)]),
            Bounds::Bytes(zones) => Bounds::Bytes(vec![zones.iter().flatten().cloned().reduce(BytesBounds::joined)]),
        };
        ZoneMap::new(vec![self.nulls.iter().sum()], bounds)
    }

    /// The minimum and maximum integer of all zones. `None` for strings, and if there are only NULLs.
    pub fn range(&self) -> Option<(i128, i128)> {
        self.range
    }

    /// Whether the bounds of all zones together prove that no row satisfies the predicate, which must be one on
    /// integers.
    pub fn excludes(&self, predicate: &Predicate) -> bool {
        match (predicate, self.range) {
            (Predicate::Int(p), Some((min, max))) => {
                int_verdict(&IntBounds { min, max, sum: None }, p) == Verdict::None
            }
            _ => false,
        }
    }

    /// The number of zones.
    pub fn len(&self) -> usize {
        self.nulls.len()
    }

    /// Whether there are no zones.
    pub fn is_empty(&self) -> bool {
        self.nulls.is_empty()
    }

    /// What zone `zone`, of `rows` rows, says about `predicate`.
    pub fn verdict(&self, zone: usize, rows: usize, predicate: &Predicate) -> Verdict {
        let nulls = self.nulls[zone] as usize;
        let of_values = match (predicate, &self.bounds) {
            (Predicate::IsNull, _) => {
                return match nulls {
                    0 => Verdict::None,
                    n if n == rows => Verdict::All,
                    _ => Verdict::Some,
                };
            }
            _ if nulls == rows => return Verdict::None,
            (Predicate::IsNotNull, _) => Verdict::All,
            (Predicate::Int(p), Bounds::Int(b)) => b[zone].as_ref().map_or(Verdict::Some, |b| int_verdict(b, p)),
            (Predicate::Bytes(p), Bounds::Bytes(b)) => b[zone].as_ref().map_or(Verdict::Some, |b| bytes_verdict(b, p)),
            _ => Verdict::Some,
        };
        if of_values == Verdict::All && nulls > 0 { Verdict::Some } else { of_values }
    }

    pub(super) fn write(&self, out: &mut ByteWriter) {
        self.nulls.iter().for_each(|n| out.varint(i128::from(*n)));
        match &self.bounds {
            Bounds::Int(bounds) => {
                for zone in bounds {
                    out.u8(match zone {
                        None => 0,
                        Some(IntBounds { sum: None, .. }) => 1,
                        Some(_) => 2,
                    });
                    if let Some(bounds) = zone {
                        out.varint(bounds.min);
                        out.varint(bounds.max.wrapping_sub(bounds.min));
                        out.varint(bounds.sum.unwrap_or(0));
                    }
                }
            }
            Bounds::Bytes(bounds) => {
                for zone in bounds {
                    out.u8(match zone {
                        None => 0,
                        Some(BytesBounds { max: None, .. }) => 1,
                        Some(BytesBounds { exact: false, .. }) => 2,
                        Some(_) => 3,
                    });
                    if let Some(bounds) = zone {
                        out.bytes(&bounds.min);
                        out.bytes(bounds.max.as_deref().unwrap_or_default());
                    }
                }
            }
        }
    }

    pub(super) fn read(input: &mut ByteReader<'_>, zones: usize, bytes: bool) -> Result<ZoneMap, String> {
        let count = |n: i128| u32::try_from(n).map_err(|_| "a zone with an impossible count of NULLs".to_owned());
        let nulls = (0..zones).map(|_| input.varint().and_then(count)).collect::<Result<_, _>>()?;
        let bounds = if bytes {
            let zone = |input: &mut ByteReader<'_>| -> Result<_, String> {
                let tag = input.u8()?;
                if tag == 0 {
                    return Ok(None);
                }
                let (min, max) = (input.bytes()?.to_vec(), input.bytes()?.to_vec());
                Ok(Some(BytesBounds { min, max: (tag > 1).then_some(max), exact: tag == 3 }))
            };
            Bounds::Bytes((0..zones).map(|_| zone(input)).collect::<Result<_, _>>()?)
        } else {
            let zone = |input: &mut ByteReader<'_>| -> Result<_, String> {
                let tag = input.u8()?;
                if tag == 0 {
                    return Ok(None);
                }
                let (min, span, sum) = (input.varint()?, input.varint()?, input.varint()?);
                Ok(Some(IntBounds { min, max: min.wrapping_add(span), sum: (tag == 2).then_some(sum) }))
            };
            Bounds::Int((0..zones).map(|_| zone(input)).collect::<Result<_, _>>()?)
        };
        Ok(ZoneMap::new(nulls, bounds))
    }
}

/// Appends zones to others. If `joins` is set, the first of them continues the last of the others.
fn append_zones<T>(zones: &mut Vec<Option<T>>, added: Vec<Option<T>>, joins: bool, join: impl Fn(T, T) -> T) {
    let mut added = added.into_iter();
    if let (true, Some(last)) = (joins, zones.last_mut()) {
        *last = match (last.take(), added.next().flatten()) {
            (Some(last), Some(added)) => Some(join(last, added)),
            (last, added) => last.or(added),
        };
    }
    zones.extend(added);
}

fn nulls_in(column: &ColumnData, zone: &Range<usize>) -> u32 {
    let valid = column.validity.as_ref().map(|v| bitmap::count(&bitmap::extract(v, zone.start, zone.len())));
    valid.map_or(0, |valid| (zone.len() - valid) as u32)
}

fn int_bounds(
    column: &ColumnData,
    zone: Range<usize>,
    value: impl Fn(usize) -> i64,
    with_sum: bool,
) -> Option<IntBounds> {
    let (mut min, mut max, mut sum, mut any) = (i64::MAX, i64::MIN, 0i128, false);
    if column.validity.is_none() && !zone.is_empty() {
        // Two passes, which the compiler vectorizes if the values are a slice.
        (min, max) = zone.clone().map(&value).fold((i64::MAX, i64::MIN), |(l, h), v| (l.min(v), h.max(v)));
        let narrow = min.unsigned_abs().max(max.unsigned_abs()) < 1 << 48;
        sum = match (with_sum, narrow) {
            (false, _) => 0,
            (true, true) => i128::from(zone.map(&value).sum::<i64>()),
            (true, false) => zone.map(|row| i128::from(value(row))).sum(),
        };
        return Some(IntBounds { min: min.into(), max: max.into(), sum: with_sum.then_some(sum) });
    }
    for row in zone {
        if column.is_valid(row) {
            let v = value(row);
            (min, max, any) = (min.min(v), max.max(v), true);
            sum += i128::from(v);
        }
    }
    any.then_some(IntBounds { min: min.into(), max: max.into(), sum: with_sum.then_some(sum) })
}

fn wide_bounds(column: &ColumnData, zone: Range<usize>, values: &[i128]) -> Option<IntBounds> {
    let (mut min, mut max, mut sum, mut any) = (i128::MAX, i128::MIN, Some(0i128), false);
    for row in zone {
        if column.is_valid(row) {
            (min, max, any) = (min.min(values[row]), max.max(values[row]), true);
            sum = sum.and_then(|s| s.checked_add(values[row]));
        }
    }
    any.then_some(IntBounds { min, max, sum })
}

fn bytes_bounds<'a>(column: &ColumnData, zone: Range<usize>, get: impl Fn(usize) -> &'a [u8]) -> Option<BytesBounds> {
    let mut values = zone.filter(|row| column.is_valid(*row)).map(&get);
    let first = values.next()?;
    let (min, max) = values.fold((first, first), |(min, max), value| match value {
        value if value < min => (value, max),
        value if value > max => (min, value),
        _ => (min, max),
    });
    Some(bounds_between(min, max))
}

fn bounds_between(min: &[u8], max: &[u8]) -> BytesBounds {
    let exact = min.len() <= BOUND_BYTES && max.len() <= BOUND_BYTES;
    let min = min[..min.len().min(BOUND_BYTES)].to_vec();
    let max = if max.len() <= BOUND_BYTES { Some(max.to_vec()) } else { successor(&max[..BOUND_BYTES]) };
    BytesBounds { min, max, exact }
}

/// The smallest string that is larger than every string that starts with `prefix`. `None` if there is none.
pub(crate) fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|b| *b != u8::MAX)?;
    let mut next = prefix[..=last].to_vec();
    next[last] += 1;
    Some(next)
}

fn int_verdict(bounds: &IntBounds, predicate: &IntPredicate) -> Verdict {
    let (min, max) = (bounds.min, bounds.max);
    let any_in = |list: &[i128]| {
        let first = list.partition_point(|v| *v < min);
        list.get(first).is_some_and(|v| *v <= max)
    };
    let (none, all) = match predicate {
        IntPredicate::Range { low, high } => (*high < min || max < *low || low > high, *low <= min && max <= *high),
        IntPredicate::NotEqual(v) => (min == max && min == *v, *v < min || max < *v),
        IntPredicate::In(list) => (!any_in(list), min == max && list.binary_search(&min).is_ok()),
        IntPredicate::NotIn(list) => (min == max && list.binary_search(&min).is_ok(), !any_in(list)),
        IntPredicate::Keys(keys) => (!keys.any_between(min, max), min == max && keys.contains(min)),
    };
    verdict(none, all)
}

fn bytes_verdict(bounds: &BytesBounds, predicate: &BytesPredicate) -> Verdict {
    let min = &bounds.min[..];
    let above_max = |v: &[u8]| bounds.max.as_ref().is_some_and(|max| v > &max[..]);
    let outside = |v: &[u8]| v < min || above_max(v);
    let constant = bounds.only().is_some();
    let exact_max = bounds.max.as_deref().filter(|_| bounds.exact);
    let (none, all) = match predicate {
        BytesPredicate::Range { low, high } => {
            let below = high.as_ref().is_some_and(|h| h.value[..] < *min || h.value[..] == *min && !h.inclusive);
            let above = low.as_ref().is_some_and(|l| {
                above_max(&l.value) || bounds.max.as_ref().is_some_and(|m| l.value == *m && !l.inclusive)
            });
            let all = exact_max.is_some_and(|max| predicate.test(min) && predicate.test(max));
            (below || above, all)
        }
        BytesPredicate::NotEqual(v) => (constant && v == min, outside(v)),
        BytesPredicate::In(list) => (list.iter().all(|v| outside(v)), constant && predicate.test(min)),
        BytesPredicate::NotIn(list) => (constant && !predicate.test(min), list.iter().all(|v| outside(v))),
        BytesPredicate::Prefix(p) => {
            let beyond = above_max(p) || successor(p).is_some_and(|next| next[..] <= *min);
            (beyond, exact_max.is_some_and(|max| min.starts_with(p) && max.starts_with(p)))
        }
        BytesPredicate::NotPrefix(p) => {
            let beyond = above_max(p) || successor(p).is_some_and(|next| next[..] <= *min);
            (exact_max.is_some_and(|max| min.starts_with(p) && max.starts_with(p)), beyond)
        }
    };
    verdict(none, all)
}

fn verdict(none: bool, all: bool) -> Verdict {
    match (none, all) {
        (true, _) => Verdict::None,
        (_, true) => Verdict::All,
        _ => Verdict::Some,
    }
}

#[cfg(test)]
mod tests {
    use freestone_codec::BytesBound;
    use proptest::prelude::*;

    use super::*;

    fn ints(values: &[Option<i64>]) -> ColumnData {
        let mut validity = vec![0; bitmap::words(values.len())];
        values.iter().enumerate().filter(|(_, v)| v.is_some()).for_each(|(i, _)| bitmap::set(&mut validity, i));
        ColumnData { values: Physical::Int(values.iter().map(|v| v.unwrap_or(9)).collect()), validity: Some(validity) }
    }

    fn strings(values: &[Option<String>]) -> ColumnData {
        let (mut offsets, mut data, mut validity) = (vec![0], vec![], vec![0; bitmap::words(values.len())]);
        for (i, value) in values.iter().enumerate() {
            if let Some(value) = value {
                bitmap::set(&mut validity, i);
                data.extend_from_slice(value.as_bytes());
            }
            offsets.push(data.len() as u32);
        }
        ColumnData { values: Physical::Bytes { offsets, data }, validity: Some(validity) }
    }

    /// A verdict must be true for every row.
    fn check(map: &ZoneMap, rows: usize, predicate: &Predicate, passing: usize) {
        match map.verdict(0, rows, predicate) {
            Verdict::None => assert_eq!(passing, 0, "{predicate:?}"),
            Verdict::All => assert_eq!(passing, rows, "{predicate:?}"),
            Verdict::Some => {}
        }
        assert!(!map.excludes(predicate) || passing == 0, "{predicate:?}");
        let mut out = ByteWriter::default();
        map.write(&mut out);
        let bytes = out.finish();
        let read = ZoneMap::read(&mut ByteReader::new(&bytes), map.len(), matches!(map.bounds, Bounds::Bytes(_)));
        assert_eq!(&read.unwrap(), map);
    }

    proptest! {
        #[test]
        fn codes_give_the_zones_of_their_strings(
            values in prop::collection::vec(prop::option::weighted(0.8, "[ab]{0,2}|aaaaaaaaaaaaaa[ab]{0,2}"), 1..40),
            zone_rows in 1usize..9,
        ) {
            let distinct: std::collections::BTreeSet<&[u8]> = values.iter().flatten().map(|v| v.as_bytes()).collect();
            let (mut offsets, mut data) = (vec![0], vec![]);
            for entry in &distinct {
                data.extend_from_slice(entry);
                offsets.push(data.len() as u32);
            }
            // A NULL may have any code.
            let code = |v: &Option<String>| distinct.iter().position(|e| v.as_deref().is_some_and(|v| v.as_bytes() == *e));
            let codes: Vec<i64> = values.iter().map(|v| code(v).map_or(0, |code| code as i64)).collect();
            let (column, entries) = (strings(&values), BytesSlice { offsets: &offsets, data: &data });
            prop_assert_eq!(ZoneMap::of_codes(&column, &codes, entries, zone_rows), ZoneMap::of(&column, zone_rows));
        }

        #[test]
        fn integer_verdicts_hold(
            values in prop::collection::vec(prop::option::weighted(0.9, -3i64..4), 1..20),
            list in prop::collection::btree_set(-4i128..5, 1..4),
            low in -5i128..5, span in -1i128..5,
        ) {
            let map = ZoneMap::of(&ints(&values), 64);
            let list: Vec<_> = list.into_iter().collect();
            for p in [IntPredicate::Range { low, high: low + span }, IntPredicate::NotEqual(low),
                      IntPredicate::In(list.clone()), IntPredicate::NotIn(list)] {
                let passing = values.iter().flatten().filter(|v| p.test(i128::from(**v))).count();
                check(&map, values.len(), &Predicate::Int(p), passing);
            }
            let nulls = values.iter().filter(|v| v.is_none()).count();
            check(&map, values.len(), &Predicate::IsNull, nulls);
            check(&map, values.len(), &Predicate::IsNotNull, values.len() - nulls);
        }

        #[test]
        fn string_verdicts_hold(
            values in prop::collection::vec(prop::option::weighted(0.9, "(ab|aaaaaaaaaaaaaaaa)?[ab]{0,3}"), 1..6),
            a in "(aaaaaaaaaaaaaaaa)?[ab]{0,3}", b in "[ab]{0,3}", inclusive: bool,
        ) {
            let map = ZoneMap::of(&strings(&values), 64);
            let bound = |v: &str| Some(BytesBound { value: v.as_bytes().to_vec(), inclusive });
            let (a_bytes, b_bytes) = (a.as_bytes().to_vec(), b.as_bytes().to_vec());
            let mut list = vec![a_bytes.clone(), b_bytes.clone()];
            list.sort();
            list.dedup();
            for p in [
                BytesPredicate::Range { low: bound(&a), high: bound(&b) },
                BytesPredicate::Range { low: None, high: bound(&a) },
                BytesPredicate::Range { low: bound(&a), high: None },
                BytesPredicate::NotEqual(a_bytes.clone()),
                BytesPredicate::In(list.clone()), BytesPredicate::NotIn(list),
                BytesPredicate::Prefix(a_bytes), BytesPredicate::NotPrefix(b_bytes),
            ] {
                let passing = values.iter().flatten().filter(|v| p.test(v.as_bytes())).count();
                check(&map, values.len(), &Predicate::Bytes(p), passing);
            }
        }
    }
}
