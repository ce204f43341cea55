//! An estimate of the bytes that a scan will read, from the footers alone, to choose among the copies of a table.

use super::ScanRequest;
use super::index::{Candidate, candidate};
use super::pruning::rows_left;
use crate::error::Result;
use crate::limits::GRANULE_ROWS;
use crate::segment::Segment;
use crate::table::Table;

/// The maximum number of granules that are tested. In larger tables, only every second, fourth, … granule is tested.
const GRANULES: usize = 4096;

/// The expected bytes of the pages that a scan reads, if `selected` rows satisfy all conjuncts. Pages of tested columns
/// are read wherever zones remain. Of other columns, the pages with a qualifying row are read: with n rows per page,
/// each qualifying with probability s, this share is 1 - (1 - s)^n. If an index is used, its pages replace those of the
/// columns that it answers.
///
/// # Errors
/// A footer or an index cannot be read.
pub fn expected_bytes(table: &Table, request: &ScanRequest, selected: f64) -> Result<f64> {
    let step = table.segments.iter().map(|s| s.rows as usize).sum::<usize>().div_ceil(GRANULES * GRANULE_ROWS);
    let mut left = vec![];
    for at in 0..table.segments.len() {
        let segment = table.open_segment(at)?;
        left.push(rows_left(&segment, request, step.max(1).next_power_of_two()));
    }
    let passing = (selected / left.iter().sum::<f64>().max(1.0)).clamp(0.0, 1.0);
    let mut bytes = 0.0;
    for (at, left) in left.iter().enumerate().filter(|(_, left)| **left > 0.0) {
        let segment = table.open_segment(at)?;
        bytes += match candidate(&segment, request.wanted(), |least| least as f64 <= *left)? {
            None => scanned(&segment, request, *left, passing),
            Some(index) => index.bytes() + named(&segment, request, &index, left * passing),
        };
    }
    Ok(bytes)
}

/// The bytes read of a segment's pages, if zones leave `left` rows and the share `passing` of them qualifies.
fn scanned(segment: &Segment, request: &ScanRequest, left: f64, passing: f64) -> f64 {
    let rows = segment.rows().max(1) as f64;
    let groups = groups(segment, request, |_| false).into_iter().map(|(group, is_tested)| {
        let touched = if is_tested { 1.0 } else { touched(segment, group, passing) };
        segment.group_bytes(group) as f64 * left / rows * touched
    });
    groups.sum()
}

/// The bytes read of a segment's pages, if only index matches are tested, of which `passing` qualify.
fn named(segment: &Segment, request: &ScanRequest, index: &Candidate<'_>, passing: f64) -> f64 {
    let rows = segment.rows().max(1) as f64;
    let named = (index.left as f64 / rows).min(1.0);
    let groups = groups(segment, request, |place| index.answers(place)).into_iter().map(|(group, is_tested)| {
        let share = if is_tested { named } else { named.min(passing / rows) };
        segment.group_bytes(group) as f64 * touched(segment, group, share)
    });
    groups.sum()
}

/// The share of a group's pages with at least one row, if the share `s` of all rows is wanted, at random positions.
fn touched(segment: &Segment, group: usize, s: f64) -> f64 {
    let page_rows = segment.rows().max(1) as f64 / segment.page_count(group).max(1) as f64;
    1.0 - (1.0 - s).powf(page_rows)
}

/// The groups that a request needs, each with whether one of its columns is tested. Predicates that the index answers,
/// by their positions, need nothing.
fn groups(segment: &Segment, request: &ScanRequest, answered: impl Fn(usize) -> bool) -> Vec<(usize, bool)> {
    let predicates =
        request.predicates.iter().enumerate().filter(|(place, _)| !answered(*place)).map(|(_, p)| p.column);
    let filtered = request.row_filters.iter().flat_map(|filter| filter.columns().iter().copied());
    let schema = &segment.footer.description.schema;
    let (filtered, read) = (schema.with_fields(&filtered.collect::<Vec<_>>()), schema.with_fields(&request.projection));
    let tested = predicates.chain(filtered).map(|column| (segment.place(column).0, true));
    let mut groups: Vec<(usize, bool)> =
        tested.chain(read.iter().map(|column| (segment.place(*column).0, false))).collect();
    // A group is tested if one of its columns is.
    groups.sort_unstable_by_key(|(group, is_tested)| (*group, !is_tested));
    groups.dedup_by_key(|(group, _)| *group);
    groups
}
