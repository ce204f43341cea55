//! Statistics of files for the planner: rows, sizes, bounds, and an estimate for filters. Bounds are never exact here,
//! so no rule may use them as values.

use datafusion::arrow::array::ArrayRef;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::error::Result;

use super::bounds::{Bounds, End};
use super::counts::rows;
use super::filters::Filters;
use super::selectivity::share;
use super::set::{ColumnSource, Contents, FileSet};
use crate::ingest::ParquetFile;

/// Statistics of the output columns `projection` under filters.
pub(super) fn statistics(set: &FileSet, filters: &Filters, projection: &[usize]) -> Result<Statistics> {
    let rows = rows(set);
    let tested = filters.columns();
    let column = |column: usize| {
        let wanted = projection.contains(&column) || tested.contains(&column);
        if wanted {
            set.known[column].get_or_init(|| of_column(set, column)).clone()
        } else {
            ColumnStatistics::new_unknown()
        }
    };
    let all: Vec<ColumnStatistics> = (0..set.schema.fields().len()).map(column).collect();
    let share = share(set, &all, &filters.own);
    let num_rows = match rows {
        Precision::Absent => Precision::Absent,
        rows if filters.is_empty() => rows,
        rows => rows.with_estimated_selectivity(share),
    };
    let bytes: usize = projection.iter().map(|column| all[*column].byte_size.get_value().copied().unwrap_or(0)).sum();
    let total_byte_size = match bytes {
        0 => Precision::Absent,
        bytes => Precision::Inexact((bytes as f64 * share) as usize),
    };
    let column_statistics = projection.iter().map(|column| all[*column].clone()).collect();
    Ok(Statistics { num_rows, total_byte_size, column_statistics })
}

fn of_column(set: &FileSet, column: usize) -> ColumnStatistics {
    let mut statistics = ColumnStatistics::new_unknown();
    let mut least: Option<ScalarValue> = None;
    let mut greatest: Option<ScalarValue> = None;
    let (mut has_least, mut has_greatest) = (true, true);
    let (mut nulls, mut bytes) = (Some(0u64), 0u64);
    for file in &set.files {
        let Contents::Parquet(parquet) = &file.contents else { return statistics };
        let rows = parquet.metadata().metadata().file_metadata().num_rows().cast_unsigned();
        match &file.columns[column] {
            ColumnSource::Missing => nulls = nulls.map(|nulls| nulls + rows),
            ColumnSource::Value(value) if value.is_null() => nulls = nulls.map(|nulls| nulls + rows),
            ColumnSource::Value(value) => {
                merge(&mut least, value.clone(), |new, old| new < old);
                merge(&mut greatest, value.clone(), |new, old| new > old);
            }
            ColumnSource::Stored(place) => {
                bytes += stored_bytes(parquet, *place);
                let groups: Vec<usize> = (0..parquet.metadata().metadata().num_row_groups()).collect();
                let table_type = set.schema.field(column).data_type();
                let bounds = Bounds::of(parquet, *place, table_type);
                let ends = |end| bounds.as_ref().and_then(|bounds| bounds.of_groups(&groups, end));
                has_least &= merge_all(&mut least, ends(End::Least), |new, old| new < old);
                has_greatest &= merge_all(&mut greatest, ends(End::Greatest), |new, old| new > old);
                let counted = bounds.as_ref().and_then(|bounds| bounds.nulls_of_groups(&groups));
                let counted = counted.and_then(|counts| sum(&counts));
                nulls = nulls.zip(counted).map(|(nulls, counted)| nulls + counted);
            }
        }
    }
    if let Some(nulls) = nulls {
        statistics.null_count = Precision::Inexact(nulls as usize);
    }
    if let (true, Some(least)) = (has_least, least) {
        statistics.min_value = Precision::Inexact(least);
    }
    if let (true, Some(greatest)) = (has_greatest, greatest) {
        statistics.max_value = Precision::Inexact(greatest);
    }
    if bytes > 0 {
        statistics.byte_size = Precision::Inexact(bytes as usize);
    }
    statistics
}

/// The approximate bytes of a column's values in memory.
fn stored_bytes(parquet: &ParquetFile, column: usize) -> u64 {
    let Some(leaf) = parquet.leaf(column) else { return 0 };
    let groups = parquet.metadata().metadata().row_groups();
    let unpacked: u64 = groups.iter().map(|group| group.column(leaf).uncompressed_size().max(0).cast_unsigned()).sum();
    let rows: u64 = groups.iter().map(|group| group.num_rows().cast_unsigned()).sum();
    let width = parquet.schema().field(column).data_type().primitive_width();
    width.map_or(unpacked + rows * 16, |width| rows * width as u64)
}

fn sum(counts: &ArrayRef) -> Option<u64> {
    use datafusion::arrow::array::{Array, AsArray};
    use datafusion::arrow::datatypes::UInt64Type;
    let counts = counts.as_primitive::<UInt64Type>();
    (counts.null_count() == 0).then(|| counts.values().iter().sum())
}

fn merge(end: &mut Option<ScalarValue>, new: ScalarValue, is_beyond: impl Fn(&ScalarValue, &ScalarValue) -> bool) {
    if end.as_ref().is_none_or(|old| is_beyond(&new, old)) {
        *end = Some(new);
    }
}

/// Merges the bounds of row groups; false if one is unknown.
fn merge_all(
    end: &mut Option<ScalarValue>,
    found: Option<ArrayRef>,
    is_beyond: impl Fn(&ScalarValue, &ScalarValue) -> bool,
) -> bool {
    let Some(found) = found else { return false };
    (0..found.len()).all(|at| match ScalarValue::try_from_array(&found, at) {
        Ok(new) if !new.is_null() => {
            merge(end, new, &is_beyond);
            true
        }
        _ => false,
    })
}
