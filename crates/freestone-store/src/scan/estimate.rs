//! What a scan will read, by a guess from the footers alone: to choose among copies of a table.

use super::cursor::rows_left;
use super::{GRANULE_ROWS, ScanRequest};
use crate::error::Result;
use crate::store::Table;

/// Granules that are judged one by one; of larger tables every second, fourth, … stands for its neighbours.
const GRANULES: usize = 4096;

/// Bytes of the pages that a scan is expected to touch, if `selected` rows pass all its conjuncts. Pages of columns that are
/// tested are read wherever zones are left; of the others those that hold a row that passes: of n rows a page, each of
/// which passes with probability s, 1 - (1 - s)^n.
pub fn expected_bytes(table: &Table, request: &ScanRequest, selected: f64) -> Result<f64> {
    let tested = |column: &usize| {
        request.predicates.iter().any(|p| p.column == *column)
            || request.row_filters.iter().any(|filter| filter.columns().contains(column))
    };
    let columns = request.touched();
    let step = table.segments.iter().map(|s| s.rows as usize).sum::<usize>().div_ceil(GRANULES * GRANULE_ROWS);
    let mut left = vec![];
    for at in 0..table.segments.len() {
        let segment = table.open_segment(at)?;
        left.push(rows_left(&segment, at, request, step.max(1).next_power_of_two()));
    }
    let passing = (selected / left.iter().sum::<f64>().max(1.0)).clamp(0.0, 1.0);
    let mut bytes = 0.0;
    for (at, left) in left.iter().enumerate() {
        let segment = table.open_segment(at)?;
        let rows = segment.rows().max(1) as f64;
        let mut groups: Vec<(usize, bool)> = columns.iter().map(|c| (segment.place(*c).0, tested(c))).collect();
        // A group is tested if one of its columns is.
        groups.sort_unstable_by_key(|(group, is_tested)| (*group, !is_tested));
        groups.dedup_by_key(|(group, _)| *group);
        for (group, is_tested) in groups {
            let page_rows = rows / segment.page_count(group).max(1) as f64;
            let touched = if is_tested { 1.0 } else { 1.0 - (1.0 - passing).powf(page_rows) };
            bytes += segment.group_bytes(group) as f64 * left / rows * touched;
        }
    }
    Ok(bytes)
}
