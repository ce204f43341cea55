//! Statistics of a scan for the planner: rows, bounds and distinct values from the zones, and an estimate for its
//! filters.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::error::Result;
use freestone_codec::{IntPredicate, Predicate};
use freestone_exec::convert::form_of;
use freestone_exec::vector::Form;
use freestone_store::Table;
use freestone_store::scan::ColumnPredicate;

use freestone_store::format::{f32_of_key, f64_of_key};

/// A summary of the zones of a column.
#[derive(Debug, Clone, Default)]
struct ColumnSummary {
    nulls: u64,
    distinct: u64,
    ints: Option<(i128, i128)>,
    bytes: u64,
}

/// The statistics of a whole scan, limited to `fetch` rows, or of one of its partitions.
pub fn of_partition(
    all: Statistics,
    partition: Option<usize>,
    partitions: usize,
    fetch: Option<usize>,
) -> Result<Arc<Statistics>> {
    Ok(Arc::new(match (partition, fetch) {
        // The rows of a partition are determined at run time.
        (Some(_), _) => {
            let mut one = all.to_inexact();
            one.num_rows = one.num_rows.map(|rows| rows / partitions);
            one
        }
        (None, Some(fetch)) => all.with_fetch(Some(fetch), 0, 1)?,
        (None, None) => all,
    }))
}

/// The statistics of `projection` under `predicates` and `row_filters` further conjuncts.
pub fn statistics(
    table: &Table,
    projection: &[usize],
    predicates: &[ColumnPredicate],
    row_filters: usize,
) -> Statistics {
    let rows = table.rows();
    let stored: u64 = table.segments.iter().map(|s| u64::from(s.rows)).sum();
    let exact = predicates.is_empty() && row_filters == 0;
    let mut selectivity = 0.25f64.powi(row_filters as i32);
    for p in predicates {
        selectivity *= estimated_share(table, p, rows);
    }
    let selected = if exact { rows } else { ((rows as f64 * selectivity) as u64).clamp(u64::from(rows > 0), rows) };
    let mut column_statistics = vec![];
    let mut total = 0;
    for column in projection {
        if *column >= table.schema.stored_count() {
            column_statistics.push(ColumnStatistics::new_unknown());
            continue;
        }
        let summary = summarize(table, *column);
        total += summary.bytes;
        column_statistics.push(summary.statistics(
            table.schema.stored_type(*column),
            exact && rows == stored,
            selected,
        ));
    }
    let num_rows = if exact { Precision::Exact(rows as usize) } else { Precision::Inexact(selected as usize) };
    let share = if rows == 0 { 0.0 } else { selected as f64 / rows as f64 };
    Statistics { num_rows, total_byte_size: Precision::Inexact((total as f64 * share) as usize), column_statistics }
}

/// The minimum and maximum of a column's stored integers.
pub fn int_bounds(table: &Table, column: usize) -> Option<(i128, i128)> {
    summarize(table, column).ints
}

/// About how many distinct values a stored column has.
pub fn distinct(table: &Table, column: usize) -> Option<u64> {
    let is_stored = column < table.schema.stored_count();
    is_stored.then(|| summarize(table, column).distinct).filter(|count| *count > 0)
}

/// Whether a column has NULLs, and its least and greatest integer.
pub type NullsAndBounds = (bool, Option<(i128, i128)>);

/// Whether the executor computes with the bounds of a type's integers.
pub fn has_int_bounds(data_type: &DataType) -> bool {
    form_of(data_type) == Form::Int && *data_type != DataType::UInt64
}

/// Whether a stored column has a NULL, and its least and greatest integer.
pub fn nulls_and_bounds(table: &Table, column: usize) -> NullsAndBounds {
    let ColumnSummary { nulls, ints, .. } = summarize(table, column);
    (nulls > 0, ints)
}

fn summarize(table: &Table, column: usize) -> ColumnSummary {
    let mut summary = ColumnSummary::default();
    let mut distinct = Distinct::default();
    for (at, entry) in table.segments.iter().enumerate() {
        let Some(of) = SegmentColumn::of(table, at, column) else { continue };
        summary.nulls += of.nulls;
        summary.bytes += decoded_bytes(table.schema.stored_type(column), entry.rows.into(), of.stored);
        distinct.add(of.distinct, entry.rows.into(), of.ints);
        summary.ints = match (summary.ints, of.ints) {
            (Some((low, high)), Some(own)) => Some((low.min(own.0), high.max(own.1))),
            (known, own) => known.or(own),
        };
    }
    summary.distinct = distinct.estimate(summary.ints);
    summary
}

/// A column of one segment.
struct SegmentColumn {
    nulls: u64,
    distinct: u64,
    /// Bytes in the file.
    stored: u64,
    ints: Option<(i128, i128)>,
}

impl SegmentColumn {
    /// By the commit, or else by the footer. `None` if the segment cannot be opened, which the scan reports.
    fn of(table: &Table, at: usize, column: usize) -> Option<SegmentColumn> {
        if let Some(known) = table.column_summary(at, column) {
            let (nulls, ints) = (known.nulls(), known.range());
            return Some(SegmentColumn { nulls, distinct: known.distinct, stored: known.bytes, ints });
        }
        let segment = table.open_segment(at).ok()?;
        let (zones, described) = (&segment.footer.zones[column], &segment.footer.description.columns[column]);
        Some(SegmentColumn {
            nulls: zones.nulls.iter().map(|nulls| u64::from(*nulls)).sum(),
            distinct: segment.footer.distinct(column),
            stored: described.bytes,
            ints: zones.range(),
        })
    }
}

/// The bytes of a column's values in memory, if `stored` bytes are on disk.
fn decoded_bytes(data_type: &DataType, rows: u64, stored: u64) -> u64 {
    match data_type.primitive_width() {
        Some(width) => rows * width as u64,
        // Views, and strings of about twice the stored bytes.
        None => rows * 16 + stored * 2,
    }
}

/// The number of distinct values of a column, from those of its segments.
#[derive(Debug, Default)]
struct Distinct {
    largest: u64,
    sum: u64,
    /// Whether the segments have different values: nearly one per row, or ranges that do not overlap.
    is_apart: bool,
    last: Option<i128>,
}

impl Distinct {
    /// Adds a segment of `rows` rows with `own` values.
    fn add(&mut self, own: u64, rows: u64, ints: Option<(i128, i128)>) {
        let is_behind = ints.is_some_and(|(low, _)| self.last.is_none_or(|last| last < low));
        let is_apart = is_behind || own >= rows / 10;
        self.is_apart = is_apart && (self.is_apart || self.sum == 0);
        self.last = ints.map(|(_, high)| high);
        self.largest = self.largest.max(own);
        self.sum += own;
    }

    fn estimate(&self, ints: Option<(i128, i128)>) -> u64 {
        let span = ints.map_or(u64::MAX, |(low, high)| {
            u64::try_from(high.saturating_sub(low).saturating_add(1)).unwrap_or(u64::MAX)
        });
        // Segments with common values have as many as the largest.
        if self.is_apart { self.sum.min(span) } else { self.largest }
    }
}

/// The number of integers from `low` to `high`.
fn span(low: i128, high: i128) -> f64 {
    high.saturating_sub(low) as f64 + 1.0
}

impl ColumnSummary {
    fn statistics(&self, data_type: &DataType, exact: bool, selected: u64) -> ColumnStatistics {
        let precision = |value: ScalarValue| if exact { Precision::Exact(value) } else { Precision::Inexact(value) };
        let mut statistics = ColumnStatistics::new_unknown();
        statistics.null_count = if exact {
            Precision::Exact(self.nulls as usize)
        } else {
            Precision::Inexact(self.nulls.min(selected) as usize)
        };
        if self.distinct > 0 {
            statistics.distinct_count = Precision::Inexact(self.distinct.min(selected) as usize);
        }
        if let Some((low, high)) = self.ints
            && let (Some(low), Some(high)) = (scalar(low, data_type), scalar(high, data_type))
        {
            statistics.min_value = precision(low);
            statistics.max_value = precision(high);
        }
        statistics
    }
}

fn scalar(value: i128, data_type: &DataType) -> Option<ScalarValue> {
    use datafusion::arrow::datatypes::TimeUnit::*;
    let v = value as i64;
    Some(match data_type {
        DataType::Int8 => ScalarValue::Int8(Some(v as i8)),
        DataType::Int16 => ScalarValue::Int16(Some(v as i16)),
        DataType::Int32 => ScalarValue::Int32(Some(v as i32)),
        DataType::Int64 => ScalarValue::Int64(Some(v)),
        DataType::UInt8 => ScalarValue::UInt8(Some(v as u8)),
        DataType::UInt16 => ScalarValue::UInt16(Some(v as u16)),
        DataType::UInt32 => ScalarValue::UInt32(Some(v as u32)),
        DataType::UInt64 => ScalarValue::UInt64(Some(v as u64 ^ (1 << 63))),
        DataType::Date32 => ScalarValue::Date32(Some(v as i32)),
        DataType::Decimal128(p, s) => ScalarValue::Decimal128(Some(value), *p, *s),
        DataType::Float64 => ScalarValue::Float64(Some(f64_of_key(v))),
        DataType::Float32 => ScalarValue::Float32(Some(f32_of_key(v))),
        DataType::Timestamp(Second, zone) => ScalarValue::TimestampSecond(Some(v), zone.clone()),
        DataType::Timestamp(Millisecond, zone) => ScalarValue::TimestampMillisecond(Some(v), zone.clone()),
        DataType::Timestamp(Microsecond, zone) => ScalarValue::TimestampMicrosecond(Some(v), zone.clone()),
        DataType::Timestamp(Nanosecond, zone) => ScalarValue::TimestampNanosecond(Some(v), zone.clone()),
        _ => return None,
    })
}

/// The share of rows that satisfy a predicate, if values were uniformly distributed between the bounds.
pub fn estimated_share(table: &Table, p: &ColumnPredicate, rows: u64) -> f64 {
    let summary = summarize(table, p.column);
    let distinct = summary.distinct.max(1) as f64;
    let share = match &p.predicate {
        Predicate::IsNull => summary.nulls as f64 / rows.max(1) as f64,
        Predicate::IsNotNull => 1.0 - summary.nulls as f64 / rows.max(1) as f64,
        Predicate::Int(IntPredicate::Range { low, high }) => match summary.ints {
            _ if low > high => 0.0,
            _ if low == high => 1.0 / distinct,
            Some((min, max)) => {
                let (low, high) = ((*low).max(min), (*high).min(max));
                if low > high { 0.0 } else { span(low, high) / span(min, max) }
            }
            None => 0.0,
        },
        Predicate::Int(IntPredicate::In(list)) => list.len() as f64 / distinct,
        Predicate::Int(IntPredicate::Keys(keys)) => keys.len() as f64 / distinct,
        Predicate::Bytes(freestone_codec::BytesPredicate::In(list)) => list.len() as f64 / distinct,
        Predicate::Bytes(freestone_codec::BytesPredicate::Prefix(_)) => 0.1,
        Predicate::Bytes(freestone_codec::BytesPredicate::Range { .. }) => 0.3,
        _ => 0.9,
    };
    share.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_share_their_values_or_do_not() {
        let estimate = |segments: &[(u64, u64, i128, i128)]| {
            let mut distinct = Distinct::default();
            segments.iter().for_each(|(own, rows, low, high)| distinct.add(*own, *rows, Some((*low, *high))));
            let low = segments.iter().map(|s| s.2).min().unwrap_or(0);
            distinct.estimate(Some((low, segments.iter().map(|s| s.3).max().unwrap_or(0))))
        };
        let million = 1_000_000;
        // Consecutive keys; keys of a table of 50,000 rows; nations; and few values of ranges that do not overlap.
        assert_eq!(
            estimate(&[(million, million, 1, million as i128), (million, million, 1_000_001, 2_000_000)]),
            2 * million
        );
        assert_eq!(estimate(&[(million, million, 1, 50_000), (million, million, 1, 50_000)]), 50_000);
        assert_eq!(estimate(&[(25, million, 0, 24), (24, million, 0, 24)]), 25);
        assert_eq!(estimate(&[(9_000, million, 0, 99_999), (8_000, million, 100_000, 199_999)]), 17_000);
    }
}
