//! What the planner may know of a scan: rows, bounds and distinct values from the zones, and a guess for its filters.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use freestone_codec::{IntPredicate, Predicate};
use freestone_store::Table;
use freestone_store::scan::ColumnPredicate;
use freestone_store::segment::zones::Bounds;

use freestone_store::format::{f32_of_key, f64_of_key};

/// A column's zones taken together.
#[derive(Debug, Clone, Default)]
struct ColumnSummary {
    nulls: u64,
    distinct: u64,
    ints: Option<(i128, i128)>,
    bytes: u64,
}

/// Statistics of `projection` under `predicates` and `row_filters` more conjuncts.
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
        selectivity *= estimate(table, p, rows);
    }
    let selected = if exact { rows } else { ((rows as f64 * selectivity) as u64).clamp(u64::from(rows > 0), rows) };
    let mut column_statistics = vec![];
    let mut total = 0;
    for column in projection {
        if *column >= table.schema.columns.len() {
            column_statistics.push(ColumnStatistics::new_unknown());
            continue;
        }
        let summary = summarize(table, *column);
        total += summary.bytes;
        column_statistics.push(summary.statistics(
            &table.schema.columns[*column].data_type,
            exact && rows == stored,
            selected,
        ));
    }
    let num_rows = if exact { Precision::Exact(rows as usize) } else { Precision::Inexact(selected as usize) };
    let share = if rows == 0 { 0.0 } else { selected as f64 / rows as f64 };
    Statistics { num_rows, total_byte_size: Precision::Inexact((total as f64 * share) as usize), column_statistics }
}

/// The least and the greatest of a column's stored integers.
pub fn int_bounds(table: &Table, column: usize) -> Option<(i128, i128)> {
    summarize(table, column).ints
}

fn summarize(table: &Table, column: usize) -> ColumnSummary {
    let mut summary = ColumnSummary::default();
    for at in 0..table.segments.len() {
        // A segment that cannot be opened is the scan's error to report, not the planner's.
        let Ok(segment) = table.open_segment(at) else { continue };
        let zones = &segment.footer.zones[column];
        summary.nulls += zones.nulls.iter().map(|n| u64::from(*n)).sum::<u64>();
        // Segments may share their values or not; the largest is a safe lower bound, and right for dictionaries.
        summary.distinct = summary.distinct.max(segment.footer.description.columns[column].distinct);
        summary.bytes += segment.footer.description.columns[column].bytes * 2;
        if let Bounds::Int(bounds) = &zones.bounds {
            for b in bounds.iter().flatten() {
                summary.ints =
                    Some(summary.ints.map_or((b.min, b.max), |(low, high)| (low.min(b.min), high.max(b.max))));
            }
        }
    }
    summary
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

/// The share of rows that a predicate keeps, if values were spread evenly between the bounds.
fn estimate(table: &Table, p: &ColumnPredicate, rows: u64) -> f64 {
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
                if low > high { 0.0 } else { ((high - low) as f64 + 1.0) / ((max - min) as f64 + 1.0) }
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
